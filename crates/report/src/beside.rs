//! Round trip and wake-up side by side: a row a combination of the factors that both have.

use crate::columns::{Room, cell, heading};
use crate::layout::{Columns, Grid};
use digest::CellInfo;
use digest::names::label_word;
use model::{Probe, factor};

const FIGURES: [&str; 5] = ["p50", "p99", "p99.9", "max", "stdev"];

const TITLE: &str = "Round trip and timer wake-up side by side: same host, policy and load; a message that is waited for asleep needs a \
     wake-up, too";

pub(crate) fn table(cells: &[CellInfo]) -> Option<(String, Grid)> {
    Some((TITLE.to_owned(), grid(cells)?))
}

/// The table; nothing where no ping-pong has a wake-up beside it.
fn grid(cells: &[CellInfo]) -> Option<Grid> {
    let rows = rows(cells);
    let first = rows.first()?;
    let differs = |pick: fn(&CellInfo) -> String| rows.windows(2).any(|two| pick(two[0].0) != pick(two[1].0));
    let protocols = differs(|cell| cell.protocol.clone());
    let sizes = differs(|cell| cell.size_bytes.to_string());
    let name = |(trip, wake): &(&CellInfo, &CellInfo)| {
        // Of several wake-ups beside one round trip each says what it alone has.
        let several = rows.iter().filter(|(other, _)| std::ptr::eq(*other, *trip)).count() > 1;
        let own = wake.factors.iter().filter(|(name, _)| several && !trip.factors.contains_key(*name));
        let words = std::iter::once(trip.label.clone()).chain(own.map(|(name, value)| label_word(name, value)));
        words.collect::<Vec<_>>().join(" · ")
    };
    let columns = Columns::none()
        .words("cell", name)
        .when(protocols, |columns| columns.words("protocol", |(trip, _)| trip.protocol.clone()))
        .when(sizes, |columns| columns.figures("size", "B", |(trip, _)| trip.size_bytes.to_string()));
    let keys = columns.count();
    let band = |place: usize, info: &CellInfo| {
        let from = keys + place * FIGURES.len();
        (from, from + FIGURES.len() - 1, info.kind.title().to_owned())
    };
    let figures = FIGURES.map(|id| (id, heading(id, true, Room::Narrow)));
    let grid = columns
        .each(figures, |columns, (id, [title, unit])| {
            columns.figures(title, unit, move |(trip, _)| cell(&trip.figures, id, Room::Narrow))
        })
        .each(figures, |columns, (id, [title, unit])| {
            columns.figures(title, unit, move |(_, wake)| cell(&wake.figures, id, Room::Narrow))
        })
        .words("", |(trip, wake)| trip.mark.max(wake.mark).sign().to_owned())
        .grid(rows.iter().copied());
    Some(Grid { bands: vec![vec![band(0, first.0), band(1, first.1)]], ..grid })
}

/// Each ping-pong with the wake-up cells that agree with it in every factor that both have.
fn rows(cells: &[CellInfo]) -> Vec<(&CellInfo, &CellInfo)> {
    let of = |probe: Probe| cells.iter().filter(move |cell| cell.probe == probe && cell.value("p50").is_some());
    let beside = |trip| of(Probe::Wake).filter(move |wake| agree(trip, wake)).map(move |wake| (trip, wake));
    of(Probe::Pingpong).flat_map(beside).collect()
}

/// A wake-up has no far end, so of factors with two values it has the first.
fn agree(trip: &CellInfo, wake: &CellInfo) -> bool {
    let near = |name: &str, value: &str| match factor::recorded(name) {
        Some(factor) if factor.is_two_ended() => value.split(';').next().unwrap_or(value).trim().to_owned(),
        _ => value.to_owned(),
    };
    // How long each was measured tells nothing of what was.
    let same = |(name, value): (&String, &String)| {
        ["count", "seconds"].contains(&name.as_str())
            || trip.factors.get(name).is_none_or(|other| near(name, other) == near(name, value))
    };
    trip.run == wake.run && trip.substrate == wake.substrate && wake.factors.iter().all(same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use digest::{Figure, Figures, Mark};
    use model::{LatencyKind, Substrate};
    use std::collections::BTreeMap;

    fn cell(probe: Probe, kind: LatencyKind, factors: &[(&str, &str)], p50: f64) -> CellInfo {
        CellInfo {
            run: "run".to_owned(),
            row: 0,
            colour: 0,
            label: factors.iter().map(|(_, value)| *value).collect::<Vec<_>>().join(" "),
            substrate: Substrate::Simulated,
            factors: factors.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            probe,
            protocol: "udp".to_owned(),
            size_bytes: 32,
            kind,
            repetitions: 1,
            left_out: 0,
            figures: Figures([("p50", Figure { value: p50, range: None })].into_iter().collect()),
            reflectors: Vec::new(),
            words: BTreeMap::new(),
            explanation: None,
            mark: Mark::Clean,
            findings: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Catches: a wake-up beside the round trip of another policy, load, kernel or run; two ends compared with one.
    #[test]
    fn a_round_trip_stands_beside_the_wake_up_of_the_same_factors() {
        let trip = |factors: &[(&str, &str)], p50| cell(Probe::Pingpong, LatencyKind::RttHalf, factors, p50);
        let wake = |factors: &[(&str, &str)], p50| cell(Probe::Wake, LatencyKind::WakeUp, factors, p50);
        let cells = vec![
            trip(&[("load", "none"), ("policy", "fifo:50;other"), ("stack", "kernel")], 1000.0),
            trip(&[("load", "none"), ("policy", "other"), ("stack", "kernel")], 2000.0),
            trip(&[("load", "build"), ("policy", "other"), ("stack", "kernel")], 3000.0),
            wake(&[("load", "none"), ("policy", "fifo:50"), ("interval_us", "500")], 10.0),
            wake(&[("load", "none"), ("policy", "other"), ("interval_us", "500")], 20.0),
            CellInfo { run: "other".to_owned(), ..wake(&[("load", "build"), ("policy", "other")], 30.0) },
        ];
        let pairs: Vec<_> = rows(&cells).iter().map(|(trip, wake)| (trip.value("p50"), wake.value("p50"))).collect();
        assert_eq!(pairs, [(Some(1000.0), Some(10.0)), (Some(2000.0), Some(20.0))]);
        let grid = grid(&cells).unwrap();
        assert_eq!(grid.bands[0].iter().map(|band| band.2.as_str()).collect::<Vec<_>>(), ["RTT/2", "wake-up latency"]);
        assert_eq!((grid.rows[0][1].as_str(), grid.rows[0][6].as_str()), ("1.0", "0.0"));
        // Two intervals are two rows, and say which they are.
        let again = wake(&[("load", "none"), ("policy", "other"), ("interval_us", "1000")], 25.0);
        let labels: Vec<String> =
            super::grid(&[&cells[..], &[again]].concat()).unwrap().rows.into_iter().map(|row| row[0].clone()).collect();
        assert_eq!(labels.len(), 3);
        assert!(labels[1].ends_with("500") && labels[2].ends_with("1000") && !labels[0].contains("500"), "{labels:?}");
    }
}
