//! The boots of kernels as a table.

use crate::layout::{Columns, Grid};
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
    let percent = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"));
    let each = |spread: &BootSpread, of: fn(&BootFigures) -> Option<f64>| {
        spread.boots.iter().map(|boot| us_or_dash(of(boot))).collect::<Vec<_>>().join(", ")
    };
    let boots = |spread: &BootSpread| match spread.boots.iter().map(|boot| boot.repetitions).max() {
        Some(most) if most > 1 => format!("{} of {}", spread.boots.len(), counted(most, "repetition")),
        _ => spread.boots.len().to_string(),
    };
    let grid = Columns::none()
        .when(several, |columns| columns.words("run", |spread: &&BootSpread| spread.run.clone()))
        .words("cell", |spread| spread.label.clone())
        .words("kernel", |spread| spread.kernel.clone())
        .words(&units, |spread| boots(spread))
        .words("p50 of each", |spread| {
            each(spread, |boot| boot.p50_ns) + &spread.p50_modes.map(words).unwrap_or_default()
        })
        .figures("between", "%", |spread| percent(spread.p50_between_percent))
        .figures("within", "%", |spread| percent(spread.p50_within_percent))
        .words("p99.9 of each", |spread| each(spread, |boot| boot.p99_9_ns))
        .figures("between", "%", |spread| percent(spread.p99_9_between_percent))
        .figures("within", "%", |spread| percent(spread.p99_9_within_percent))
        .figures("max", "µs", |spread| us_or_dash(spread.boots.iter().filter_map(|boot| boot.max_ns).reduce(f64::max)))
        .grid(spreads);
    let grid = Grid { merged: 1 + usize::from(several), keys: 2 + usize::from(several), ..grid };
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
