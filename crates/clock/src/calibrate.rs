//! Choosing a clock and finding its rate against CLOCK_MONOTONIC_RAW.
//!
//! The counter is read between two reads of the raw clock; of many such brackets the narrowest is kept, so that a
//! preemption or an interrupt in one of them costs nothing. Three brackets bound two spans; both spans must give the
//! same rate within what the brackets' widths allow, else the attempt is repeated, and after the last one the raw
//! clock is used. One attempt takes about 25 ms.

use crate::{ClockError, counter, system};
use model::{ClockPoint, ClockSource, TickRate};
use std::time::Duration;

/// Length of each of the two spans.
const SPAN: Duration = Duration::from_millis(12);
/// Attempts before the counter is given up.
const ATTEMPTS: usize = 3;
/// Brackets read at each border; the narrowest counts.
const BRACKETS: usize = 32;
/// Readings of all clocks for one point of the map; the narrowest counts.
const POINT_TRIES: usize = 9;
/// Largest disagreement of the two spans beyond what the brackets explain, in parts per million. A counter that changes
/// its rate with the frequency is off by percents; the kernel's own limit for a good one is far below this.
const AGREEMENT_PPM: f64 = 50.0;
/// Groups of back-to-back reads that the cost of one is found from.
const COST_GROUPS: usize = 63;
/// Reads in each group.
const COST_READS: u32 = 32;

/// A clock that is cheap to read, with the rate that makes nanoseconds of its ticks.
///
/// Plain data: copy it into the loop that needs it. Ticks of one machine compare across its CPUs, because an invariant
/// counter is only taken where the kernel found the CPUs' counters in step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clock {
    source: ClockSource,
    rate: TickRate,
    read_ns: f64,
}

impl Clock {
    /// Chooses and calibrates a clock; takes about 25 ms when the processor's counter can be used, else none. Errors:
    /// [`ClockError::NoRawClock`] and [`ClockError::Standstill`] on systems where nothing can be timed.
    pub fn calibrate() -> Result<Self, ClockError> {
        system::read(libc::CLOCK_MONOTONIC_RAW).map_err(|cause| ClockError::NoRawClock { cause })?;
        if let Some(source) = counter::usable() {
            for _ in 0..ATTEMPTS {
                if let Some(hz) = rate_of_counter()? {
                    return Ok(Self::timed(source, TickRate::from_hz(hz)));
                }
            }
        }
        Ok(Self::raw())
    }

    /// CLOCK_MONOTONIC_RAW, whatever the processor has; one tick is one nanosecond.
    pub fn raw() -> Self {
        Self::timed(ClockSource::Raw, TickRate::NANOSECONDS)
    }

    /// CLOCK_MONOTONIC, by which the kernel's timers go; one tick is one nanosecond.
    pub fn monotonic() -> Self {
        Self::timed(ClockSource::Monotonic, TickRate::NANOSECONDS)
    }

    /// With what a read costs.
    fn timed(source: ClockSource, rate: TickRate) -> Self {
        let clock = Self { source, rate, read_ns: 0.0 };
        Self { read_ns: clock.median_read_ns(), ..clock }
    }

    /// The present time in ticks. No allocation, no lock; no system call where the vDSO or the counter serves.
    ///
    /// The read is ordered after all that came before it (see the `counter` module for how and why).
    #[inline(always)]
    pub fn now(&self) -> u64 {
        match self.source {
            ClockSource::Raw => system::raw_ns(),
            ClockSource::Monotonic => system::monotonic_ns(),
            ClockSource::Tsc | ClockSource::Cntvct => counter::read(),
        }
    }

    /// Where the ticks come from.
    pub fn source(&self) -> ClockSource {
        self.source
    }

    /// Ticks to nanoseconds.
    pub fn rate(&self) -> TickRate {
        self.rate
    }

    /// A span of ticks in nanoseconds.
    #[inline]
    pub fn ns(&self, ticks: u64) -> u64 {
        self.rate.ns(ticks)
    }

    /// A span of nanoseconds in ticks, such as a deadline's distance.
    #[inline]
    pub fn ticks(&self, ns: u64) -> u64 {
        self.rate.ticks(ns)
    }

    /// Cost of one [`Clock::now`] in nanoseconds: the median over groups of back-to-back reads.
    pub fn read_cost_ns(&self) -> f64 {
        self.read_ns
    }

    /// All clocks read together; the narrowest of some readings, about 2 µs in all. Allocates nothing.
    pub fn point(&self) -> ClockPoint {
        let mut best = self.reading();
        for _ in 1..POINT_TRIES {
            let next = self.reading();
            if next.width_ns < best.width_ns {
                best = next;
            }
        }
        best
    }

    /// One reading of all clocks. The tick is the middle of the bracket, so each of the other clocks was read within
    /// half of `width_ns` of it.
    fn reading(&self) -> ClockPoint {
        let before = self.now();
        let raw_ns = system::raw_ns();
        let monotonic_ns = system::monotonic_ns();
        let realtime_ns = system::realtime_ns();
        let ticks = self.now().saturating_sub(before);
        ClockPoint { tick: before + ticks / 2, raw_ns, monotonic_ns, realtime_ns, width_ns: self.ns(ticks).max(1) }
    }

    fn median_read_ns(&self) -> f64 {
        let mut spans = [0_u64; COST_GROUPS];
        for span in &mut spans {
            let start = self.now();
            for _ in 1..COST_READS {
                std::hint::black_box(self.now());
            }
            *span = self.now().saturating_sub(start);
        }
        spans.sort_unstable();
        let median = spans[COST_GROUPS / 2];
        // Scaled before the division, because a group's span in whole ns would cost a digit.
        self.ns(median.saturating_mul(1000)) as f64 / 1000.0 / f64::from(COST_READS)
    }
}

/// The counter between two reads of the raw clock.
#[derive(Debug, Clone, Copy)]
struct Bracket {
    tick: u64,
    /// Middle of the two raw reads, doubled to keep the half nanosecond.
    raw_twice_ns: u64,
    width_ns: u64,
}

impl Bracket {
    fn read() -> Self {
        let before = system::raw_ns();
        let tick = counter::read();
        let after = system::raw_ns();
        Self { tick, raw_twice_ns: before + after, width_ns: after.saturating_sub(before).max(1) }
    }

    fn narrowest() -> Self {
        let mut best = Self::read();
        for _ in 1..BRACKETS {
            let next = Self::read();
            if next.width_ns < best.width_ns {
                best = next;
            }
        }
        best
    }
}

/// What two brackets say about the rate.
#[derive(Debug, Clone, Copy)]
struct Span {
    hz: f64,
    /// By how much the brackets' widths may falsify the rate, relative.
    uncertainty: f64,
}

impl Span {
    fn between(from: Bracket, to: Bracket) -> Option<Self> {
        let raw_ns = to.raw_twice_ns.saturating_sub(from.raw_twice_ns) as f64 / 2.0;
        let ticks = to.tick.checked_sub(from.tick)?;
        (raw_ns > 0.0 && ticks > 0).then(|| Self {
            hz: ticks as f64 * 1e9 / raw_ns,
            uncertainty: (from.width_ns + to.width_ns) as f64 / 2.0 / raw_ns,
        })
    }
}

/// Whether two spans have the same rate.
fn agree(first: Span, second: Span) -> bool {
    let difference = (first.hz - second.hz).abs() / first.hz;
    difference <= first.uncertainty + second.uncertainty + AGREEMENT_PPM / 1e6
}

/// One attempt: ticks a second, or nothing when the two spans disagree.
fn rate_of_counter() -> Result<Option<f64>, ClockError> {
    let first = Bracket::narrowest();
    std::thread::sleep(SPAN);
    let middle = Bracket::narrowest();
    std::thread::sleep(SPAN);
    let last = Bracket::narrowest();
    if last.raw_twice_ns == first.raw_twice_ns {
        let span_ns = u64::try_from((SPAN * 2).as_nanos()).unwrap_or(u64::MAX);
        return Err(ClockError::Standstill { span_ns });
    }
    let (Some(one), Some(two)) = (Span::between(first, middle), Span::between(middle, last)) else { return Ok(None) };
    Ok(agree(one, two).then(|| Span::between(first, last)).flatten().map(|whole| whole.hz))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bracket(tick: u64, raw_ns: u64, width_ns: u64) -> Bracket {
        Bracket { tick, raw_twice_ns: 2 * raw_ns, width_ns }
    }

    #[test]
    fn a_counter_that_changes_its_rate_is_refused() {
        let steady = Span::between(bracket(0, 0, 40), bracket(24_000_000, 12_000_000, 40)).unwrap();
        let same = Span::between(bracket(24_000_000, 12_000_000, 40), bracket(48_000_000, 24_000_000, 40)).unwrap();
        let slower = Span::between(bracket(24_000_000, 12_000_000, 40), bracket(47_900_000, 24_000_000, 40)).unwrap();
        assert!((steady.hz - 2e9).abs() < 1.0);
        assert!(agree(steady, same));
        assert!(!agree(steady, slower), "0.4 % is no rounding");
        let vague =
            Span::between(bracket(24_000_000, 12_000_000, 120_000), bracket(47_900_000, 24_000_000, 40)).unwrap();
        assert!(agree(steady, vague), "a bracket of 120 µs cannot tell 0.4 % of 12 ms");
    }

    #[test]
    fn a_counter_that_goes_back_gives_no_rate() {
        assert!(Span::between(bracket(10, 0, 40), bracket(5, 12_000_000, 40)).is_none());
        assert!(Span::between(bracket(10, 7, 40), bracket(50, 7, 40)).is_none());
    }
}
