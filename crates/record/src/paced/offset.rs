//! How far another clock is ahead of ours, from the fastest round trips (min-RTT filtering).
//!
//! With one-way times of at least 0 the far clock's lead lies between `far_tx − received` and `far_rx − sent`: an interval as
//! wide as the round trip less the time at the far end, and a little wider as the clocks part meanwhile. A line is laid through
//! the middles of the fastest exchanges of up to ten windows. The lead of a far clock of constant rate is a straight line too:
//! at each of these exchanges the two are at most half its round trip and its distance from the fit apart, and most so at an
//! end, which makes the bound. Beyond the first and the last exchange it is widened as the lines may part; where exchanges
//! cannot agree with the line, the rate is not constant, and the bound reaches to them too.
//!
//! Times are ns since a start: ours since the first message, theirs since their first stamp.

/// What one exchange says of the other clock: its middle by our clock, the lead there, half the width.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Anchor {
    pub(super) at_ns: f64,
    pub(super) lead_ns: f64,
    pub(super) half_ns: f64,
}

/// Anchors that a line is laid through.
const WINDOWS: usize = 10;
/// No clock is off by more: what is assumed within an exchange, and while one exchange says nothing of the rate.
pub(super) const WORST_DRIFT: f64 = 500e-6;

/// The far clock by ours over a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct OffsetFit {
    /// Where it is written from, by our clock.
    pub(super) origin_ns: f64,
    /// Lead of the far clock there.
    pub(super) lead_ns: f64,
    /// How much the lead grows a ns.
    pub(super) slope: f64,
    /// Within how many ns the true lead lies.
    pub(super) error_ns: f64,
}

impl OffsetFit {
    /// Lead of the far clock at one of our times.
    pub(super) fn lead(&self, at_ns: f64) -> f64 {
        self.lead_ns + self.slope * (at_ns - self.origin_ns)
    }

    /// Our time when the far clock showed a time. Exact to the ns over a year.
    pub(super) fn near(&self, far_ns: i64) -> i64 {
        #[expect(clippy::cast_possible_truncation, reason = "times in ns; `as` saturates")]
        let whole = (self.origin_ns + self.lead_ns).round() as i64;
        let since = far_ns.saturating_sub(whole) as f64 - (self.origin_ns + self.lead_ns - whole as f64);
        #[expect(clippy::cast_possible_truncation, reason = "times in ns; `as` saturates")]
        let near = (self.origin_ns + since / (1.0 + self.slope)).round() as i64;
        near
    }

    /// Through those of the fastest anchors that make the closest bound, good from `from_ns` to `to_ns`; `None` without any. A
    /// slow window says little, but one that is left out may be missed at the ends.
    pub(super) fn through(anchors: &[Anchor], from_ns: f64, to_ns: f64) -> Option<Self> {
        let best = fastest(anchors, from_ns, to_ns);
        let mut widths: Vec<f64> = best.iter().map(|anchor| anchor.half_ns).collect();
        widths.sort_by(f64::total_cmp);
        let lines = widths.into_iter().filter_map(|widest| {
            let some: Vec<Anchor> = best.iter().filter(|anchor| anchor.half_ns <= widest).copied().collect();
            Self::fit(&some, anchors, from_ns, to_ns)
        });
        lines.min_by(|one, other| one.error_ns.total_cmp(&other.error_ns))
    }

    /// Through all of `best`, in order of time.
    fn fit(best: &[Anchor], anchors: &[Anchor], from_ns: f64, to_ns: f64) -> Option<Self> {
        let weight = |anchor: &Anchor| (anchor.half_ns + 1.0).powi(-2);
        let total: f64 = best.iter().map(weight).sum();
        let (first, last) = best.first().zip(best.last())?;
        let mean = |value: fn(&Anchor) -> f64| {
            // From the first, so that nothing is lost to the size of the times.
            value(first)
                + best.iter().map(|anchor| weight(anchor) * (value(anchor) - value(first))).sum::<f64>() / total
        };
        let (origin_ns, lead_ns) = (mean(|anchor| anchor.at_ns), mean(|anchor| anchor.lead_ns));
        let (mut xx, mut xy) = (0.0, 0.0);
        for anchor in best {
            let (x, y) = (anchor.at_ns - origin_ns, anchor.lead_ns - lead_ns);
            xx += weight(anchor) * x * x;
            xy += weight(anchor) * x * y;
        }
        let slope = if xx > 0.0 { xy / xx } else { 0.0 };
        let mut line = Self { origin_ns, lead_ns, slope, error_ns: 0.0 };
        let half = best.iter().map(|anchor| anchor.half_ns).fold(0.0, f64::max);
        let residual = best.iter().map(|anchor| (line.lead(anchor.at_ns) - anchor.lead_ns).abs()).fold(0.0, f64::max);
        // A little more, so that equally good exchanges are not told apart by what floating point leaves.
        let within = (half + residual) * (1.0 + 1e-9) + 1e-3;
        // Every exchange that bounds the line as well serves as an end.
        let ends = anchors.iter().filter(|one| one.half_ns + (line.lead(one.at_ns) - one.lead_ns).abs() <= within);
        let (first_ns, last_ns) =
            ends.fold((first.at_ns, last.at_ns), |(first, last), one| (first.min(one.at_ns), last.max(one.at_ns)));
        let outside = (first_ns - from_ns).max(to_ns - last_ns).max(0.0);
        let span = last_ns - first_ns;
        let parting = if span > 0.0 { 2.0 * within / span } else { f64::INFINITY };
        line.error_ns = within + outside * parting.min(WORST_DRIFT + line.slope.abs());
        // What no clock of a constant rate shows: it wandered or was set. The line must at least agree with each exchange.
        for one in anchors.iter().filter(|one| (from_ns..=to_ns).contains(&one.at_ns)) {
            let apart = (line.lead(one.at_ns) - one.lead_ns).abs() - one.half_ns;
            line.error_ns = line.error_ns.max(apart);
        }
        Some(line)
    }
}

/// The fastest of each of up to ten windows, in order of time.
fn fastest(anchors: &[Anchor], from_ns: f64, to_ns: f64) -> Vec<Anchor> {
    let from_ns = anchors.iter().map(|anchor| anchor.at_ns).fold(from_ns, f64::min);
    let length = (to_ns - from_ns).max(1.0) / WINDOWS as f64;
    let mut best: [Option<Anchor>; WINDOWS] = [None; WINDOWS];
    for anchor in anchors {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the number of a window; `as` saturates"
        )]
        let window = ((anchor.at_ns - from_ns) / length) as usize;
        let slot = &mut best[window.min(WINDOWS - 1)];
        if slot.is_none_or(|so_far| anchor.half_ns < so_far.half_ns) {
            *slot = Some(*anchor);
        }
    }
    best.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(at_ns: f64, lead_ns: f64, half_ns: f64) -> Anchor {
        Anchor { at_ns, lead_ns, half_ns }
    }

    #[test]
    fn a_clock_that_gains() {
        // 1 s ahead, 50 ppm fast, seen each second within 5 µs.
        let anchors: Vec<Anchor> =
            (0..10).map(|at| f64::from(at) * 1e9).map(|at| anchor(at, 1e9 + at * 50e-6, 5000.0)).collect();
        let line = OffsetFit::through(&anchors, 0.0, 9e9).unwrap();
        assert!((line.slope - 50e-6).abs() < 1e-12);
        assert!((line.error_ns - 5000.0).abs() < 1.0, "{line:?}");
        assert_eq!(line.near(1_000_000_000), 0);
        assert_eq!(line.near(11_000_500_000), 10_000_000_000);
    }

    #[test]
    fn one_exchange_says_nothing_of_the_rate() {
        assert_eq!(OffsetFit::through(&[], 0.0, 1.0), None);
        let line = OffsetFit::through(&[anchor(0.0, 7.0, 100.0)], 0.0, 1e6).unwrap();
        assert_eq!((line.lead(5.0), line.slope), (7.0, 0.0));
        assert!((line.error_ns - 600.0).abs() < 0.01, "1 ms at 500 ppm more: {}", line.error_ns);
    }

    #[test]
    fn exchanges_that_contradict_the_line_widen_its_bound() {
        // The fastest ones say 0, but in between the clock was 50 µs off: it has no constant rate.
        let anchors: Vec<Anchor> = (0..100)
            .map(|at| {
                let (lead, half) = if at % 10 == 3 { (0.0, 1000.0) } else { (50_000.0, 2000.0) };
                anchor(f64::from(at) * 1e8, lead, half)
            })
            .collect();
        let line = OffsetFit::through(&anchors, 0.0, 1e10).unwrap();
        assert!(line.lead(5e9).abs() < 1.0 && (line.error_ns - 48_000.0).abs() < 1.0, "{line:?}");
    }

    #[test]
    fn slow_exchanges_are_passed_over() {
        let anchors: Vec<Anchor> = (0..100)
            .map(|at| {
                let slow = at % 10 != 3;
                anchor(f64::from(at) * 1e7, if slow { 40_000.0 } else { 0.0 }, if slow { 50_000.0 } else { 2000.0 })
            })
            .collect();
        let line = OffsetFit::through(&anchors, 0.0, 1e9).unwrap();
        assert!(line.lead(5e8).abs() < 1.0 && line.error_ns < 3000.0, "{line:?}");
    }
}
