//! When each message is meant to be sent. Pure: the same shape, rate and seed give the same times.

use model::{PaceSpec, Shape};
use stats::SplitMix64;

/// The intended times of one run, in ns since its first; never going back.
#[derive(Debug, Clone)]
pub(crate) struct Schedule<'a> {
    pattern: Pattern<'a>,
    number: u64,
    most: u64,
    /// No message is meant to be sent at or after this time.
    end_ns: u64,
}

#[derive(Debug, Clone)]
enum Pattern<'a> {
    /// So many messages at once, at equal distances.
    Even {
        burst: u64,
        rate: f64,
    },
    /// The same, each time delayed by less than this part of the distance.
    Delayed {
        burst: u64,
        rate: f64,
        part: f64,
        random: SplitMix64,
        delay: f64,
    },
    Poisson {
        random: SplitMix64,
        rate: f64,
        at_ns: f64,
    },
    Times {
        offsets_ns: &'a [u64],
        period_ns: u64,
    },
}

impl<'a> Schedule<'a> {
    /// A schedule of at most `max_count` messages within `max_ns`.
    pub(crate) fn new(pace: &'a PaceSpec, rate: f64, max_ns: u64, max_count: u64) -> Self {
        let pattern = match &pace.shape {
            Shape::Poisson => Pattern::Poisson { random: SplitMix64::new(pace.seed), rate, at_ns: 0.0 },
            Shape::Times { offsets_ns } => {
                Pattern::Times { offsets_ns, period_ns: offsets_ns.last().copied().unwrap_or(0) }
            }
            shape => {
                let (burst, percent) = (u64::from(shape.burst()), pace.random_delay_percent.unwrap_or(0));
                let part = f64::from(percent) / 100.0;
                match percent {
                    0 => Pattern::Even { burst, rate },
                    _ => Pattern::Delayed { burst, rate, part, random: SplitMix64::new(pace.seed), delay: 0.0 },
                }
            }
        };
        Self { pattern, number: 0, most: max_count, end_ns: max_ns }
    }

    /// An even one, for the warm-up and the self-cost.
    pub(crate) fn even(rate: f64, max_ns: u64, max_count: u64) -> Self {
        Self { pattern: Pattern::Even { burst: 1, rate }, number: 0, most: max_count, end_ns: max_ns }
    }

    /// The next intended time; none once the schedule is over.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<u64> {
        if self.number >= self.most {
            return None;
        }
        let at_ns = match &mut self.pattern {
            // From the number alone, so that no rounding is added up.
            Pattern::Even { burst: 1, rate } => whole(self.number as f64 * 1e9 / *rate),
            Pattern::Even { burst, rate } => {
                let begun = self.number / *burst * *burst;
                whole(begun as f64 * 1e9 / *rate)
            }
            Pattern::Delayed { burst, rate, part, random, delay } => {
                let begun = self.number / *burst * *burst;
                if begun == self.number {
                    *delay = (1.0 - unit(random)) * *part * *burst as f64;
                }
                whole((begun as f64 + *delay) * 1e9 / *rate)
            }
            Pattern::Poisson { random, rate, at_ns } => {
                let now = whole(*at_ns);
                *at_ns += exponential(random) * 1e9 / *rate;
                now
            }
            Pattern::Times { offsets_ns, period_ns } => {
                let count = offsets_ns.len().max(1) as u64;
                let (round, at) = (self.number / count, self.number % count);
                // Without a period there is nothing to repeat.
                if round > 0 && *period_ns == 0 {
                    return None;
                }
                let offset = usize::try_from(at).ok().and_then(|at| offsets_ns.get(at))?;
                offset.saturating_add(round.saturating_mul(*period_ns))
            }
        };
        if at_ns >= self.end_ns {
            // It stays over: later times only grow.
            self.most = self.number;
            return None;
        }
        self.number += 1;
        Some(at_ns)
    }

    /// How many messages are left. Goes through them, so it is for the end only; never more than `most` steps.
    pub(crate) fn left(mut self, most: u64) -> u64 {
        let mut left = 0;
        while left < most && self.next().is_some() {
            left += 1;
        }
        left
    }
}

/// Messages a second that a shape means at a rate asked for: that rate, or what follows from times given one by one.
pub(crate) fn mean_rate(shape: &Shape, rate: f64) -> f64 {
    let Shape::Times { offsets_ns } = shape else { return rate };
    match offsets_ns.last() {
        Some(&last) if last > 0 => offsets_ns.len() as f64 * 1e9 / last as f64,
        // All at once: as many a second as there are.
        _ => offsets_ns.len().max(1) as f64,
    }
}

/// A time in whole ns. Beyond 2^53 ns (104 days) it is no longer exact.
#[inline]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "never negative; `as` saturates")]
fn whole(ns: f64) -> u64 {
    ns.round() as u64
}

/// Above 0 and at most 1, from 53 random bits.
fn unit(random: &mut SplitMix64) -> f64 {
    ((random.next_u64() >> 11) + 1) as f64 / 9_007_199_254_740_992.0
}

/// Exponentially distributed with mean 1.
fn exponential(random: &mut SplitMix64) -> f64 {
    -unit(random).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(shape: Shape, seed: u64) -> PaceSpec {
        PaceSpec { shape, seed, ..PaceSpec::default() }
    }

    fn all(pace: &PaceSpec, rate: f64, max_ns: u64, max_count: u64) -> Vec<u64> {
        let mut schedule = Schedule::new(pace, rate, max_ns, max_count);
        std::iter::from_fn(|| schedule.next()).collect()
    }

    #[test]
    fn an_even_schedule_adds_up_no_rounding() {
        // 30,000 a second is 33,333.3 ns.
        let times = all(&PaceSpec::default(), 30_000.0, 1_000_000_000, u64::MAX);
        assert_eq!(times.len(), 30_000);
        assert_eq!(times[..4], [0, 33_333, 66_667, 100_000]);
        assert_eq!(times[29_997], 999_900_000);
        // An hour of it ends where it should.
        let mut hour = Schedule::even(30_000.0, u64::MAX, u64::MAX);
        hour.number = 30_000 * 3600;
        assert_eq!(hour.next(), Some(3_600_000_000_000));
        assert_eq!(all(&PaceSpec::default(), 10.0, u64::MAX, 3), [0, 100_000_000, 200_000_000]);
        assert_eq!(all(&PaceSpec::default(), 0.5, 1_000_000_000, 9), [0]);
    }

    #[test]
    fn bursts_keep_the_mean_rate() {
        let times = all(&spec(Shape::Burst { count: 4 }, 1), 1000.0, 10_000_000, u64::MAX);
        assert_eq!(
            times,
            [0, 0, 0, 0, 4_000_000, 4_000_000, 4_000_000, 4_000_000, 8_000_000, 8_000_000, 8_000_000, 8_000_000]
        );
    }

    #[test]
    fn a_poisson_process_has_its_mean_and_its_spread_and_repeats() {
        let poisson = spec(Shape::Poisson, 7);
        let times = all(&poisson, 1000.0, u64::MAX, 100_001);
        assert!(times.is_sorted());
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let sd = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        // Of 100,000 gaps the mean's own standard deviation is 0.3 %.
        assert!((mean / 1e6 - 1.0).abs() < 0.02 && (sd / mean - 1.0).abs() < 0.02, "{mean} {sd}");
        let long = gaps.iter().filter(|gap| **gap > 3e6).count() as f64 / gaps.len() as f64;
        assert!((long - (-3.0_f64).exp()).abs() < 0.005, "{long}");
        assert_eq!(times, all(&poisson, 1000.0, u64::MAX, 100_001), "the seed decides");
        assert_ne!(times[..10], all(&spec(Shape::Poisson, 8), 1000.0, u64::MAX, 10));
    }

    #[test]
    fn a_random_delay_stays_within_its_distance_and_keeps_the_rate() {
        for (percent, shape, burst) in
            [(50, Shape::Even, 1), (100, Shape::Even, 1), (100, Shape::Burst { count: 4 }, 4)]
        {
            let pace = PaceSpec { random_delay_percent: Some(percent), ..spec(shape, 7) };
            let times = all(&pace, 1000.0, 40_000_000_000, u64::MAX);
            assert!(times.is_sorted() && times.len() == 40_000, "{}", times.len());
            let distance_ns = 1_000_000 * burst;
            let delays: Vec<f64> = (0_u64..).zip(&times).map(|(k, at)| (at - k / burst * distance_ns) as f64).collect();
            assert!(delays.chunks(usize::try_from(burst).unwrap()).all(|of| of.iter().all(|delay| delay == &of[0])));
            // Uniform: the mean is a half of the greatest, the variance a twelfth of its square.
            let most_ns = f64::from(percent) / 100.0 * distance_ns as f64;
            assert!(delays.iter().all(|delay| *delay <= most_ns));
            let mean = delays.iter().sum::<f64>() / delays.len() as f64;
            let variance = delays.iter().map(|delay| (delay - mean).powi(2)).sum::<f64>() / delays.len() as f64;
            assert!((mean / most_ns - 0.5).abs() < 0.02, "{mean}");
            assert!((variance / most_ns.powi(2) * 12.0 - 1.0).abs() < 0.03, "{variance}");
            let other = PaceSpec { seed: 8, ..pace.clone() };
            assert_ne!(times[..40], all(&other, 1000.0, u64::MAX, 40));
            assert_eq!(times, all(&pace, 1000.0, 40_000_000_000, u64::MAX), "the seed decides");
        }
    }

    #[test]
    fn times_repeat_with_the_last_as_the_period() {
        let pace = spec(Shape::Times { offsets_ns: vec![10, 20, 20, 100] }, 1);
        assert_eq!(all(&pace, 1.0, 230, u64::MAX), [10, 20, 20, 100, 110, 120, 120, 200, 210, 220, 220]);
        assert_eq!(all(&pace, 1.0, u64::MAX, 5), [10, 20, 20, 100, 110]);
        let at_once = spec(Shape::Times { offsets_ns: vec![0, 0] }, 1);
        assert_eq!(all(&at_once, 1.0, u64::MAX, u64::MAX), [0, 0], "nothing to repeat");
        assert!((mean_rate(&pace.shape, 5.0) - 4e7).abs() < 1.0);
        assert!((mean_rate(&Shape::Even, 5.0) - 5.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_left_is_counted() {
        let mut schedule = Schedule::even(1000.0, 1_000_000_000, u64::MAX);
        for _ in 0..400 {
            schedule.next();
        }
        assert_eq!(schedule.clone().left(u64::MAX), 600);
        assert_eq!(schedule.left(10), 10);
    }
}
