//! When a size is done. Pure: times and counts in, a decision out. Asked only between batches.

use model::StopRule;

/// Most rounds in one batch: what the loop records before it pauses to have them counted.
pub(crate) const BATCH_ROUNDS: u64 = 1024;

/// Longest batch in ns, so that a slow path (an idle gap, a time-out) is looked at often enough too.
pub(crate) const BATCH_NS: u64 = 100_000_000;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Progress {
    /// Since the first timed message, in ns.
    pub elapsed_ns: u64,
    /// Timed rounds, lost ones included.
    pub rounds: u64,
    /// Width of the median's 95 % interval, in percent of the median, once it is known.
    pub width_percent: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another batch, limited by rounds and by ns.
    Batch { rounds: u64, ns: u64 },
    /// Done: the time or count asked for is used up.
    Full,
    /// Done: the interval asked for is narrow enough.
    Narrow,
}

pub(crate) fn next(rule: &StopRule, progress: Progress) -> Next {
    let max_ns = u64::from(rule.max_ms) * 1_000_000;
    let min_ns = u64::from(rule.min_ms) * 1_000_000;
    if progress.rounds >= rule.max_count || progress.elapsed_ns >= max_ns {
        return Next::Full;
    }
    let is_long = progress.rounds >= rule.min_count && progress.elapsed_ns >= min_ns;
    if rule.at_minimum && is_long {
        return Next::Full;
    }
    if let (Some(unproved), Some(width)) = (rule.interval_percent, progress.width_percent)
        && is_long
        && width <= unproved
    {
        return Next::Narrow;
    }
    Next::Batch {
        rounds: BATCH_ROUNDS.min(rule.max_count - progress.rounds),
        ns: BATCH_NS.min(max_ns - progress.elapsed_ns),
    }
}

/// Fewest passes of `rr` when an interval is asked for (netperf's floor).
pub(crate) const MIN_PASSES: usize = 3;

/// Most passes of `rr` when an interval is asked for (netperf's cap).
pub(crate) const MAX_PASSES: usize = 30;

/// Half the width of the 95 % interval of a rate over [`MIN_PASSES`] passes or more, in percent of their mean.
pub(crate) fn rate_interval(rates: &[f64]) -> Option<f64> {
    let (mean, half) = stats::interval_of(rates).filter(|_| rates.len() >= MIN_PASSES)?;
    (mean > 0.0).then(|| 100.0 * half / mean)
}

/// The rule of one pass of `rr`: a part of the whole for each of [`MAX_PASSES`]; one pass without an interval.
pub(crate) fn pass_rule(whole: &StopRule, rounds_left: u64) -> StopRule {
    if whole.interval_percent.is_none() {
        return *whole;
    }
    let passes = u32::try_from(MAX_PASSES).unwrap_or(1);
    let part = |ms: u32| if ms == u32::MAX { ms } else { ms.div_ceil(passes) };
    StopRule {
        min_ms: 0,
        max_ms: part(whole.max_ms),
        min_count: 1,
        max_count: if whole.max_count == u64::MAX {
            u64::MAX
        } else {
            whole.max_count.div_ceil(u64::from(passes)).min(rounds_left)
        },
        interval_percent: None,
        at_minimum: false,
    }
}

/// Whether `rr` makes another pass, with so much behind it. As in netperf's `-I`, the interval asked for is the whole width.
pub(crate) fn another_pass(rule: &StopRule, rates: &[f64], behind: Progress) -> bool {
    let Some(unproved) = rule.interval_percent else { return rates.is_empty() };
    if rates.len() >= MAX_PASSES || !matches!(next(rule, behind), Next::Batch { .. }) {
        return false;
    }
    let early = behind.rounds < rule.min_count || behind.elapsed_ns < u64::from(rule.min_ms) * 1_000_000;
    early || rate_interval(rates).is_none_or(|half| 2.0 * half > unproved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{LatencyKind, Sample, TickRate};
    use record::{Recorder, RecorderConfig};

    fn rule() -> StopRule {
        StopRule {
            min_ms: 10,
            max_ms: 1000,
            min_count: 100,
            max_count: 5000,
            interval_percent: Some(2.0),
            at_minimum: false,
        }
    }

    #[test]
    fn the_last_batch_is_exact() {
        let progress = Progress { elapsed_ns: 950_000_000, rounds: 4096, width_percent: None };
        assert_eq!(next(&rule(), progress), Next::Batch { rounds: 904, ns: 50_000_000 });
        assert_eq!(next(&rule(), Progress { rounds: 5000, ..progress }), Next::Full);
        assert_eq!(next(&rule(), Progress { elapsed_ns: 1_000_000_000, ..progress }), Next::Full);
    }

    /// A slow path goes on until the printed p99.9 is known, a fast one ends after a second.
    #[test]
    fn without_a_limit_a_size_ends_when_its_percentiles_are_known() {
        let at = |ms: u64, rounds| {
            let progress = Progress { elapsed_ns: ms * 1_000_000, rounds, width_percent: None };
            next(&StopRule::UNTIL_KNOWN, progress) == Next::Full
        };
        assert!(!at(999, 50_000) && at(1000, 10_000), "a second, and 10 messages beyond p99.9");
        assert!(!at(1000, 9_999) && !at(4900, 9_999) && at(3000, 10_000));
        assert!(at(5000, 300), "a path this slow lacks the percentile");
        // Of `rr` it is the one pass.
        assert_eq!(pass_rule(&StopRule::UNTIL_KNOWN, u64::MAX), StopRule::UNTIL_KNOWN);
    }

    #[test]
    fn a_narrow_interval_stops_only_after_the_minimum() {
        let narrow = Progress { elapsed_ns: 20_000_000, rounds: 2000, width_percent: Some(1.9) };
        assert_eq!(next(&rule(), narrow), Next::Narrow);
        for early in [
            Progress { elapsed_ns: 9_000_000, ..narrow },
            Progress { rounds: 99, ..narrow },
            Progress { width_percent: Some(2.1), ..narrow },
            Progress { width_percent: None, ..narrow },
        ] {
            assert!(matches!(next(&rule(), early), Next::Batch { .. }), "{early:?}");
        }
    }

    /// Rounds of batches until the rule ends them, over round trips of 20 to 30 µs that do not depend on each other, and
    /// the widths that the recorder told before each batch, the last one's too.
    fn rounds_until(asked: f64, min_count: u64) -> (Next, u64, Vec<Option<f64>>) {
        let rule = StopRule {
            min_ms: 0,
            max_ms: 60_000,
            min_count,
            max_count: 200_000,
            interval_percent: Some(asked),
            at_minimum: false,
        };
        let mut recorder = Recorder::new(RecorderConfig::new(TickRate::NANOSECONDS, LatencyKind::Rtt, rule.max_ms));
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let (mut now, mut rounds, mut widths) = (1, 0, Vec::new());
        loop {
            let progress = Progress { elapsed_ns: now, rounds, width_percent: recorder.interval_percent() };
            widths.push(progress.width_percent);
            let next = next(&rule, progress);
            let Next::Batch { rounds: more, .. } = next else { return (next, rounds, widths) };
            let samples = (rounds..rounds + more).map(|seq| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let sent = now;
                now += 20_000 + random % 10_000;
                Sample { seq, intended: sent, sent, received: now, ..Sample::default() }
            });
            recorder.ingest(&samples.collect::<Vec<_>>());
            rounds += more;
        }
    }

    /// The interval of a median narrows with the root of the count. Where values have the density f it is 1.96 / (f √n) wide:
    /// 19,600 ns / √n here, around 25,000 ns.
    #[test]
    fn a_run_ends_with_the_first_batch_whose_interval_is_narrow_enough() {
        for asked in [2.0, 1.0, 0.5] {
            let (end, rounds, widths) = rounds_until(asked, 1);
            let (last, before) = widths.split_last().unwrap();
            assert!(end == Next::Narrow && last.is_some_and(|width| width <= asked), "{asked}: {rounds} {widths:?}");
            assert!(before.iter().all(|width| width.is_none_or(|width| width > asked)), "{asked}: {rounds} {widths:?}");
            let due = (100.0 * 19_600.0 / 25_000.0 / asked).powi(2);
            assert!((0.5..2.0).contains(&(rounds as f64 / due)), "{asked}: {rounds} rounds, {due} are due");
        }
        let (end, rounds, _) = rounds_until(1.0, 50_000);
        assert_eq!(
            (end, rounds),
            (Next::Narrow, 50_000_u64.next_multiple_of(BATCH_ROUNDS)),
            "the minimum, in whole batches"
        );
        let (end, rounds, _) = rounds_until(1e-9, 1);
        assert_eq!((end, rounds), (Next::Full, 200_000), "no interval is narrower than a bucket of the histogram");
    }

    #[test]
    fn one_pass_unless_an_interval_is_asked_for() {
        let rule = StopRule { interval_percent: None, ..rule() };
        assert!(another_pass(&rule, &[], Progress::default()));
        assert!(!another_pass(&rule, &[100.0], Progress::default()));
        assert_eq!(pass_rule(&rule, 77), rule);
    }

    #[test]
    fn limits_are_those_of_all_passes() {
        let one = pass_rule(&rule(), 5000);
        assert_eq!((one.max_ms, one.max_count, one.interval_percent), (34, 167, None));
        assert_eq!(pass_rule(&rule(), 3).max_count, 3, "the last one has what is left");
        let open = StopRule { max_ms: u32::MAX, max_count: u64::MAX, ..rule() };
        assert_eq!((pass_rule(&open, 1).max_ms, pass_rule(&open, 1).max_count), (u32::MAX, u64::MAX));
        let wild = [50.0, 150.0, 50.0];
        assert!(another_pass(&rule(), &wild, Progress { rounds: 4999, elapsed_ns: 999_000_000, width_percent: None }));
        assert!(!another_pass(&rule(), &wild, Progress { rounds: 5000, ..Progress::default() }));
        assert!(!another_pass(&rule(), &wild, Progress { elapsed_ns: 1_000_000_000, ..Progress::default() }));
    }

    #[test]
    fn passes_go_on_until_narrow_or_thirty() {
        let rule = StopRule { interval_percent: Some(5.0), ..rule() };
        let behind = Progress { rounds: 200, elapsed_ns: 500_000_000, width_percent: None };
        assert!(another_pass(&rule, &[100.0, 100.1, 99.9], Progress { rounds: 99, ..behind }), "the minimum first");
        assert!(another_pass(&rule, &[100.0, 100.0], behind), "two passes tell nothing");
        assert!(!another_pass(&rule, &[100.0, 100.1, 99.9], behind));
        assert!(another_pass(&rule, &[100.0, 150.0, 50.0], behind));
        let wild: Vec<f64> = (0..30).map(|i| if i % 2 == 0 { 50.0 } else { 150.0 }).collect();
        assert!(!another_pass(&rule, &wild, behind));
    }
}
