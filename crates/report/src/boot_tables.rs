//! The boots of kernels as a table.

use crate::layout::{Column, Grid};
use crate::units::{counted, percent, us_or_dash};
use digest::boots::{BootFigures, BootMode, BootSpread, VISIT};
use model::factor::capitalised;
use std::collections::BTreeSet;

/// Two modes in words, with their cause where it is softirqs that were left to `ksoftirqd`.
fn words([low, high]: [BootMode; 2]) -> String {
    const LEAST_SHARE: f64 = 0.02;
    let [slow, fast] = [high, low].map(|mode| format!("{} in {}", us_or_dash(Some(mode.ns)), mode.boots));
    let cause = low.ksoftirqd.zip(high.ksoftirqd).filter(|(low, high)| *high >= LEAST_SHARE.max(2.0 * low));
    let cause = cause.map(|(low, high)| {
        format!(", where ksoftirqd ran {} of the time in place of {}", percent(high, 1.0), percent(low, 1.0))
    });
    format!(": two modes, {fast} and {slow}{}", cause.unwrap_or_default())
}

/// Its heading and table; nothing without boots.
pub(crate) fn table(spreads: &[BootSpread]) -> Option<(String, Grid)> {
    let first = spreads.first()?;
    let kinds: BTreeSet<&str> = spreads.iter().map(|spread| spread.kind.title()).collect();
    let kinds: Vec<&str> = kinds.into_iter().collect();
    let units = spreads.iter().map(|spread| spread.unit).collect::<BTreeSet<_>>();
    let unit = if units.contains(VISIT) { VISIT } else { "boot" };
    let units = format!("{unit}s");
    let heading = format!(
        "{}: figures of each {unit} of a kernel in µs ({}), and how far they scatter between {units} and within one \
         (standard deviation)",
        capitalised(&units),
        kinds.join(", ")
    );
    let several = spreads.iter().any(|spread| spread.run != first.run);
    let mut grid = Grid::default();
    grid.columns.extend(several.then(|| Column::words("run")));
    grid.columns.extend(["cell", "kernel", &units, "p50 of each"].map(Column::words));
    grid.columns.extend(["between", "within"].map(|title| Column::figures(title, "%")));
    grid.columns.push(Column::words("p99.9 of each"));
    grid.columns.extend(["between", "within"].map(|title| Column::figures(title, "%")));
    grid.columns.push(Column::figures("max", "µs"));
    (grid.merged, grid.keys) = (1 + usize::from(several), 2 + usize::from(several));
    let percent = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"));
    for spread in spreads {
        let each = |of: fn(&BootFigures) -> Option<f64>| {
            spread.boots.iter().map(|boot| us_or_dash(of(boot))).collect::<Vec<_>>().join(", ")
        };
        let repetitions = spread.boots.iter().map(|boot| boot.repetitions).max().unwrap_or(0);
        let boots = if repetitions > 1 {
            format!("{} of {}", spread.boots.len(), counted(repetitions, "repetition"))
        } else {
            spread.boots.len().to_string()
        };
        let mut row = Vec::new();
        row.extend(several.then(|| spread.run.clone()));
        let p50 = each(|boot| boot.p50_ns) + &spread.p50_modes.map(words).unwrap_or_default();
        row.extend([spread.label.clone(), spread.kernel.clone(), boots, p50]);
        row.extend([percent(spread.p50_between_percent), percent(spread.p50_within_percent)]);
        row.push(each(|boot| boot.p99_9_ns));
        row.extend([percent(spread.p99_9_between_percent), percent(spread.p99_9_within_percent)]);
        row.push(us_or_dash(spread.boots.iter().filter_map(|boot| boot.max_ns).reduce(f64::max)));
        grid.rows.push(row);
    }
    Some((heading, grid))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a cause of two modes that is not named, and one that both have or that is next to nothing.
    #[test]
    fn modes_by_ksoftirqd_say_so() {
        let mode = |ns, share| BootMode { ns, boots: 2, ksoftirqd: Some(share) };
        let said = |fast: f64, slow: f64| words([mode(23e3, fast), mode(26.9e3, slow)]);
        assert_eq!(
            said(0.01, 0.25),
            ": two modes, 23.00 in 2 and 26.90 in 2, where ksoftirqd ran 25.00 % of the time in place of 1.00 %"
        );
        for (fast, slow) in [(0.0, 0.01), (0.2, 0.25), (0.25, 0.01)] {
            assert_eq!(said(fast, slow), ": two modes, 23.00 in 2 and 26.90 in 2");
        }
    }
}
