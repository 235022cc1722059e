//! The percentile ladder of a measurement: from the body of a distribution to its far tail.

use crate::layout::{Column, Grid};
use crate::result_tables::Keys;
use crate::units::{commas, us_or_dash};
use digest::cells::merged;
use model::result::Rung;
use model::{LatencyKind, ResultDocument};
use stats::Histogram;

const PERCENTS: [f64; 9] = [25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999];

/// The ladder of a result from its histogram, in the kind of its latency; nothing where either is missing.
pub fn ladder(result: &ResultDocument) -> Vec<Rung> {
    let (Some(latency), (Some(all), 0)) = (&result.latency, merged(result.histogram.as_deref().into_iter())) else {
        return Vec::new();
    };
    let half = latency.kind == LatencyKind::RttHalf;
    let figure = |percent: f64| all.quantile_if_supported(percent / 100.0, Histogram::BEYOND);
    let rung = |percent| Rung { percent, ns: figure(percent).map(|ns| if half { ns / 2 + ns % 2 } else { ns }) };
    PERCENTS.map(rung).to_vec()
}

/// A row a result; nothing where no result has a ladder.
pub(crate) fn table(results: &[ResultDocument], (keys, key): Keys) -> Grid {
    let Some(first) = results.iter().find(|result| !result.ladder.is_empty()) else { return Grid::default() };
    let mut grid = Grid { columns: keys(), keeps_empty: true, ..Grid::default() };
    grid.keys = grid.columns.len();
    grid.columns.push(Column::figures("count", ""));
    grid.columns.extend(first.ladder.iter().map(|rung| Column::figures(&format!("p{}", rung.percent), "µs")));
    for result in results.iter().filter(|result| !result.ladder.is_empty()) {
        let count = result.latency.as_ref().map_or(0, |latency| latency.count);
        let figures = result.ladder.iter().map(|rung| us_or_dash(rung.ns.map(|ns| ns as f64)));
        grid.rows.push([key(result), vec![count.to_string()], figures.collect()].concat());
    }
    grid
}

/// Why a table has dashes in columns of percentiles: how many messages these need.
pub(crate) fn dashes(grid: &Grid) -> Option<String> {
    let of_column = |(at, column): (usize, &Column)| {
        let word = column.heading.first()?;
        let percent: f64 = word.strip_prefix('p')?.parse().ok()?;
        let figures = grid.rows.iter().filter_map(|row| row.get(at));
        let dashes = figures.filter(|figure| *figure == "–").count();
        // A column of nothing else is not printed.
        (dashes > 0 && (grid.keeps_empty || dashes < grid.rows.len()))
            .then(|| format!("{word} needs {}", commas(Histogram::needed(percent / 100.0))))
    };
    let needs: Vec<String> = grid.columns.iter().enumerate().filter_map(of_column).collect();
    (!needs.is_empty()).then(|| format!("–: too few messages for this percentile ({}).", needs.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ladder_is_of_the_kind_of_its_result_and_has_what_its_samples_support() {
        let mut all = Histogram::new();
        (1..=10_000).for_each(|ns| all.record(ns * 10));
        let text = all.to_base64_v2().unwrap();
        let mut result: ResultDocument = ResultDocument { histogram: Some(text), ..ResultDocument::default() };
        assert_eq!(ladder(&result), [], "of unknown kind");
        result.latency = serde_json::from_value(serde_json::json!({ "kind": "rtt_half", "count": 10_000 })).unwrap();
        result.ladder = ladder(&result);
        let figure = |at: usize| result.ladder[at].ns.unwrap_or(0) as f64;
        let is = |ns: f64, wanted: f64| (ns / wanted - 1.0).abs() < 2e-3;
        assert!(is(figure(0), 12_500.0) && is(figure(4), 47_500.0) && is(figure(6), 49_950.0), "{:?}", result.ladder);
        assert_eq!(result.ladder[7].ns.or(result.ladder[8].ns), None, "one message lies beyond p99.99");
        let grid = table(&[result.clone()], crate::parts::KEYS);
        assert!(grid.text(100).contains("p99.999") && grid.rows[0].ends_with(&["–".to_owned(), "–".to_owned()]));
        let why = dashes(&grid).unwrap();
        assert_eq!(why, "–: too few messages for this percentile (p99.99 needs 100,000, p99.999 needs 1,000,000).");
        result.ladder.retain(|rung| rung.ns.is_some());
        assert_eq!(dashes(&table(&[result], crate::parts::KEYS)), None);
    }
}
