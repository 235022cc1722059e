//! A thread that spins on a CPU and notes what is taken from it.

use super::GAP_NS;
use clock::Clock;
use host::shield::EnterError;
use model::{CpuList, Policy};
use std::thread;
use std::time::Duration;
use task::TaskError;

/// Longest spin: a real-time thread that never sleeps holds its CPU all that time.
const LONGEST: Duration = Duration::from_secs(600);

/// A moment that was taken from the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// When it began, in ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    pub ns: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spin {
    pub cpu: u32,
    pub tid: i32,
    /// Begin and end, in ns of CLOCK_MONOTONIC.
    pub from_ns: u64,
    pub to_ns: u64,
    pub spun_ns: u64,
    pub stolen_ns: u64,
    /// How many gaps of [`GAP_NS`] or more there were.
    pub gaps: u64,
    pub longest: Option<Gap>,
    /// All gaps of 1 ms or more, the first 10,000 of them, in order of time.
    pub long: Vec<Gap>,
}

/// Why a thread could not spin.
#[derive(Debug, thiserror::Error)]
pub enum SpinError {
    /// It could not get to its CPU.
    #[error("cannot spin on CPU {cpu}: {cause}")]
    Place { cpu: u32, cause: TaskError },
    #[error(transparent)]
    Enter(#[from] EnterError),
    /// It asks for more than ten minutes.
    #[error("cannot spin for {0} s: at most {most} s", most = LONGEST.as_secs())]
    TooLong(u64),
    #[error("the spinning thread of CPU {0} failed")]
    Thread(u32),
}

/// What the loop keeps: plain numbers and a vector that never grows.
struct Tally {
    stolen: u64,
    gaps: u64,
    longest: (u64, u64),
    long: Vec<(u64, u64)>,
}

/// Spins on one CPU in this thread. RLIMIT_RTTIME ends a real-time thread one second after the time asked for.
pub fn spin(clock: Clock, cpu: u32, time: Duration, policy: Policy) -> Result<Spin, SpinError> {
    if time > LONGEST {
        return Err(SpinError::TooLong(time.as_secs()));
    }
    let place = |cause| SpinError::Place { cpu, cause };
    host::shield::enter(&[cpu].into_iter().collect())?;
    task::pin(cpu).map_err(place)?;
    if policy.is_real_time() {
        task::set_rt_limit(Some(time + Duration::from_secs(1))).map_err(place)?;
    }
    let mut tally = Tally { stolen: 0, gaps: 0, longest: (0, 0), long: Vec::with_capacity(10_000) };
    task::apply_policy(policy).map_err(place)?;
    let before = clock.point();
    // Both conversions round down: two ticks more, and the time spun is never a hair less than asked for.
    let ticks = clock.ticks(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)).saturating_add(2);
    let (from, to) = turn(clock, ticks, &mut tally);
    let after = clock.point();
    task::apply_policy(Policy::Other).map_err(place)?;
    if policy.is_real_time() {
        task::set_rt_limit(None).map_err(place)?;
    }
    // Between two points the clock and the ticks run together; the join is as good as the reads of the points.
    let at = |tick: u64| {
        let ticks = after.tick.saturating_sub(before.tick).max(1);
        let ns = after.monotonic_ns.saturating_sub(before.monotonic_ns);
        let part = u128::from(tick.saturating_sub(before.tick)) * u128::from(ns) / u128::from(ticks);
        before.monotonic_ns + u64::try_from(part).unwrap_or(u64::MAX)
    };
    let gap = |&(from, ticks): &(u64, u64)| Gap { at_ns: at(from), ns: clock.ns(ticks) };
    Ok(Spin {
        cpu,
        tid: task::thread_id(),
        from_ns: at(from),
        to_ns: at(to),
        spun_ns: clock.ns(to - from),
        stolen_ns: clock.ns(tally.stolen),
        gaps: tally.gaps,
        longest: (tally.longest.1 > 0).then(|| gap(&tally.longest)),
        long: tally.long.iter().map(gap).collect(),
    })
}

fn turn(clock: Clock, ticks: u64, tally: &mut Tally) -> (u64, u64) {
    let (least, long) = (clock.ticks(GAP_NS), clock.ticks(1_000_000));
    let from = clock.now();
    let mut last = from;
    while last - from < ticks {
        let now = clock.now();
        // Two CPUs' counters may differ by a hair; the thread is pinned, but a wrap would look like a gap of ages.
        let gap = now.saturating_sub(last);
        if gap >= least {
            tally.gaps += 1;
            tally.stolen += gap;
            if gap > tally.longest.1 {
                tally.longest = (last, gap);
            }
            if gap >= long && tally.long.len() < tally.long.capacity() {
                tally.long.push((last, gap));
            }
        }
        last = now.max(last);
    }
    (from, last)
}

/// Spins on all CPUs at once, each in a thread of its own.
pub(super) fn on_each(clock: Clock, cpus: &CpuList, time: Duration, policy: Policy) -> Result<Vec<Spin>, SpinError> {
    let started: Vec<_> = cpus
        .iter()
        .map(|cpu| {
            let name = format!("spin-{cpu}");
            (cpu, thread::Builder::new().name(name).spawn(move || spin(clock, cpu, time, policy)))
        })
        .collect();
    let mut spins = Vec::new();
    for (cpu, thread) in started {
        let joined = thread.map_err(|_| SpinError::Thread(cpu))?.join();
        spins.push(joined.map_err(|_| SpinError::Thread(cpu))??);
    }
    Ok(spins)
}
