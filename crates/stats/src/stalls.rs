//! Periodic stalls among slow messages, and the names of the known ones.
//!
//! Width and period of a stall tell its cause without tracing:
//!
//! - about 50 ms once a second: a thread of a real-time class that never sleeps is held back, by RT throttling
//!   (`sched_rt_runtime_us` of `sched_rt_period_us`, 950 of 1000 ms; sched-rt-group in the kernel's documents) or by the
//!   fair server that followed it in Linux 6.12 (50 of 1000 ms, sched-deadline). When both ends spin, shorter stalls from
//!   the other end's CPU go with them.
//! - 4, 8 or 10 ms and small multiples: slices that the scheduler gave to other tasks, which end at a tick of HZ 250, 125
//!   or 100. Their widths are the signature; they come when the other tasks want to run.
//! - Anything else is only called periodic when its times fit a grid that chance would not fit.
//!
//! Thresholds are set so that independent random stalls pass for periodic less than once in 10,000 traces.

use std::fmt;

/// What makes stalls of a known signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// RT throttling or the fair server.
    RealTimeThrottling,
    /// Scheduler slices of other tasks on a kernel with this many ticks a second.
    TickSlices { hz: u32 },
    /// They recur with the period of a tick, by which something is done at each of them.
    TickPeriod { hz: u32 },
    /// Periodic, but not known.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stall {
    pub cause: Cause,
    /// Time from one to the next, in ns; absent when they come irregularly (slices) or only one was seen.
    pub period_ns: Option<u64>,
    /// Median length, in ns.
    pub width_ns: u64,
    pub count: usize,
    /// Shorter stalls that go with them (real-time throttling of the other end).
    pub echoes: usize,
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

impl fmt::Display for Stall {
    /// One clause: what was seen and what it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, width) = (self.count, ms(self.width_ns));
        match (self.cause, self.period_ns) {
            (Cause::RealTimeThrottling, period) => {
                write!(f, "{count} stalls of {width:.1} ms")?;
                if let Some(period) = period {
                    write!(f, " every {:.0} ms", ms(period))?;
                }
                if self.echoes > 0 {
                    write!(f, " with {} shorter ones beside them", self.echoes)?;
                }
                f.write_str(": RT throttling (sched_rt_runtime_us) or the fair server held a spinning real-time thread")
            }
            (Cause::TickSlices { hz }, _) => write!(
                f,
                "{count} stalls of about {width:.1} ms or multiples: scheduler slices of other tasks, which end at the tick of HZ={hz}"
            ),
            (cause, period) => {
                let period = ms(period.unwrap_or(0));
                write!(f, "{count} stalls every {period:.1} ms, about {:.0} µs each", self.width_ns as f64 / 1e3)?;
                match cause {
                    Cause::TickPeriod { hz } => write!(f, ": the period of the tick of HZ={hz}"),
                    _ => f.write_str(", cause unknown"),
                }
            }
        }
    }
}

/// Chance that random stalls pass for periodic or for slices.
const CHANCE: f64 = 1e-5;
/// Widths that throttling leaves of a message: 50 ms and what the message takes itself.
const THROTTLED_NS: std::ops::RangeInclusive<u64> = 45_000_000..=55_000_000;
/// Widths of the stalls beside them.
const ECHO_NS: std::ops::Range<u64> = 15_000_000..45_000_000;
/// Ticks a second, and the width of one of their slices in ns.
const TICKS: [(u32, u64); 3] = [(250, 4_000_000), (100, 10_000_000), (125, 8_000_000)];

/// Whether a stall is as long as one of RT throttling or the fair server: evidence with a spinning real-time thread only.
pub fn is_throttling_stall(duration_ns: u64) -> bool {
    THROTTLED_NS.contains(&duration_ns)
}

/// Finds periodic stalls in slow messages, (send time, duration) in ns in any order; known ones first, random ones never.
pub fn find(slow: &[(u64, u64)]) -> Vec<Stall> {
    let mut left = slow.to_vec();
    left.sort_unstable();
    let mut found = Vec::new();
    if let Some(stall) = throttling(&mut left) {
        found.push(stall);
    }
    if let Some(stall) = slices(&mut left) {
        found.push(stall);
    }
    found.extend(widths(&left).into_iter().filter_map(|group| periodic(&group)));
    found
}

fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// Takes stalls of 50 ms that lie whole seconds apart, and their echoes.
fn throttling(slow: &mut Vec<(u64, u64)>) -> Option<Stall> {
    const SECOND: u64 = 1_000_000_000;
    let throttled: Vec<(u64, u64)> = slow.iter().copied().filter(|&(_, width)| is_throttling_stall(width)).collect();
    let apart: Vec<u64> = throttled.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    // The budget's period is started anew when the thread sleeps, so stalls may slip, but never come much closer.
    let fit = apart.iter().filter(|&&gap| gap >= SECOND / 2 && (gap + SECOND / 20) % SECOND <= SECOND / 10).count();
    // The other end can be held a few times for each stall here; more would be a crowd of all widths.
    let echoes = slow.iter().filter(|(_, width)| ECHO_NS.contains(width)).count();
    if throttled.len() < 2 || fit * 3 < apart.len() * 2 || echoes > 3 * throttled.len() {
        return None;
    }
    slow.retain(|(_, width)| !is_throttling_stall(*width) && !ECHO_NS.contains(width));
    Some(Stall {
        cause: Cause::RealTimeThrottling,
        period_ns: Some(median(apart.into_iter())),
        width_ns: median(throttled.iter().map(|&(_, width)| width)),
        count: throttled.len(),
        echoes,
    })
}

/// Takes stalls whose widths gather at one, two or three slices of a tick, more than by chance.
fn slices(slow: &mut Vec<(u64, u64)>) -> Option<Stall> {
    /// Share of random widths that lie near a multiple, at most (7 % of widths spread evenly over a decade).
    const NEAR: f64 = 0.15;
    let near = |slice: u64, width: u64| (1..=3).any(|times| width.abs_diff(times * slice) <= times * slice / 20);
    // The tick of HZ 250 explains 8 ms too, so finer ticks are tried first; more stalls explained is better.
    let mut best: Option<(u32, u64, usize)> = None;
    for (hz, slice) in TICKS {
        let count = slow.iter().filter(|(_, width)| near(slice, *width)).count();
        // One slice must be among them: multiples alone fit too much.
        let single = slow.iter().any(|(_, width)| width.abs_diff(slice) <= slice / 20);
        let alone = count * 2 >= slow.len() && spread_over_decade(slow, slice);
        if single && alone && tail(slow.len(), count, NEAR) < CHANCE && best.is_none_or(|(.., most)| count > most) {
            best = Some((hz, slice, count));
        }
    }
    let (hz, slice, count) = best?;
    let width_ns = median(slow.iter().map(|&(_, width)| width).filter(|&width| near(slice, width)));
    slow.retain(|(_, width)| !near(slice, *width));
    Some(Stall { cause: Cause::TickSlices { hz }, period_ns: None, width_ns, count, echoes: 0 })
}

/// Whether widths near a slice are no middle of one smooth hump: within 5 % twice as many as in the next 5 % on both sides.
fn spread_over_decade(slow: &[(u64, u64)], slice: u64) -> bool {
    let (mut inside, mut beside) = (0_usize, 0_usize);
    for &(_, width) in slow {
        for times in 1..=3 {
            let off = width.abs_diff(times * slice);
            let twentieth = times * slice / 20;
            inside += usize::from(off <= twentieth);
            beside += usize::from(off > twentieth && off <= 2 * twentieth);
        }
    }
    inside >= 2 * beside
}

/// Groups of stalls of like width: sorted widths are cut where the next is a quarter wider. Each group is in order of time.
fn widths(slow: &[(u64, u64)]) -> Vec<Vec<(u64, u64)>> {
    let mut sorted: Vec<(u64, u64)> = slow.to_vec();
    sorted.sort_unstable_by_key(|&(at, width)| (width, at));
    let mut groups: Vec<Vec<(u64, u64)>> = Vec::new();
    for stall in sorted {
        match groups.last_mut() {
            Some(group) if group.last().is_some_and(|last| stall.1 <= last.1 + last.1 / 4) => group.push(stall),
            _ => groups.push(vec![stall]),
        }
    }
    for group in &mut groups {
        group.sort_unstable();
    }
    groups
}

/// Chance of at least `hits` of `tries` when each has chance `p` (binomial tail), by the terms from `hits` upwards.
fn tail(tries: usize, hits: usize, p: f64) -> f64 {
    if hits == 0 {
        return 1.0;
    }
    if hits > tries {
        return 0.0;
    }
    // ln of the first term, then each term from the one before it.
    let mut term: f64 = (0..hits).map(|at| ((tries - at) as f64 / (hits - at) as f64 * p).ln()).sum();
    term += (tries - hits) as f64 * (1.0 - p).ln();
    let mut sum = 0.0;
    for at in hits..=tries {
        sum += term.exp();
        term += ((tries - at) as f64 / (at + 1) as f64 * p / (1.0 - p)).ln();
    }
    sum.min(1.0)
}

/// Whether the stalls of one width come at the points of a grid.
fn periodic(group: &[(u64, u64)]) -> Option<Stall> {
    /// A stall fits when it is within this share of the period from its point.
    const NEAR: f64 = 0.05;
    if group.len() < 5 {
        return None;
    }
    let guess = median(group.windows(2).map(|pair| pair[1].0 - pair[0].0));
    if guess == 0 {
        return None;
    }
    // Number the stalls by their gaps (a missed one makes a gap of two periods), then fit a line robustly.
    let first = group.first()?.0;
    let mut number = 0.0_f64;
    let mut points = vec![(0.0_f64, 0.0_f64)];
    let mut period = guess as f64;
    for pair in group.windows(2) {
        let gap = (pair[1].0 - pair[0].0) as f64;
        number += (gap / guess as f64).round();
        points.push((number, (pair[1].0 - first) as f64));
    }
    let mut offset = 0.0;
    for _ in 0..3 {
        let near = |&&(number, at): &&(f64, f64)| (at - offset - number * period).abs() <= 4.0 * NEAR * period;
        let fit: Vec<(f64, f64)> = points.iter().filter(near).copied().collect();
        let Some((slope, start)) = line(&fit) else { break };
        (period, offset) = (slope, start);
    }
    if period <= 0.0 {
        return None;
    }
    let hits = points.iter().filter(|&&(number, at)| (at - offset - number * period).abs() <= NEAR * period).count();
    let grid = points.last()?.0 + 1.0;
    // Two of the hits paid for period and offset. Half of the grid's points must be met, or any grid fine enough fits.
    let chance = tail(group.len() - 2, hits.saturating_sub(2), 2.0 * NEAR);
    if chance >= CHANCE || hits * 10 < group.len() * 8 || (hits as f64) < 0.5 * grid {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive time in ns; `as` saturates"
    )]
    let period_ns = period.round() as u64;
    let tick = TICKS.iter().find(|(_, slice)| period_ns.abs_diff(*slice) <= slice / 50);
    Some(Stall {
        cause: tick.map_or(Cause::Unknown, |&(hz, _)| Cause::TickPeriod { hz }),
        period_ns: Some(period_ns),
        width_ns: median(group.iter().map(|&(_, width)| width)),
        count: group.len(),
        echoes: 0,
    })
}

/// Slope and start of the least-squares line.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    let (mean_x, mean_y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / count, y + point.1 / count));
    let (mut xy, mut xx) = (0.0, 0.0);
    for (x, y) in points {
        xy += (x - mean_x) * (y - mean_y);
        xx += (x - mean_x).powi(2);
    }
    (xx > 0.0).then(|| (xy / xx, mean_y - xy / xx * mean_x))
}

#[cfg(test)]
mod tests;
