//! How ticks, the raw clock, the monotonic clock and the wall clock relate on one host during one cell.

/// Where ticks come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClockSource {
    /// The invariant time stamp counter, read without a system call.
    Tsc,
    /// The ARM generic timer's virtual counter.
    Cntvct,
    /// CLOCK_MONOTONIC_RAW through the vDSO; one tick is one nanosecond.
    Raw,
    /// CLOCK_MONOTONIC, the clock of timers; one tick is one nanosecond.
    Monotonic,
}

/// Ticks to nanoseconds as a fraction: ns = ticks × `mult` / 2^`shift`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct TickRate {
    /// Multiplier.
    pub mult: u64,
    /// Binary exponent of the divisor, 0 to 63.
    pub shift: u32,
}

impl TickRate {
    /// One tick is one nanosecond.
    pub const NANOSECONDS: Self = Self { mult: 1, shift: 0 };

    /// The rate of a counter of `hz` ticks a second. 32 fractional bits keep the error below 1 ns in 4 s of RTT for
    /// any counter of 1 GHz or more.
    pub fn from_hz(hz: f64) -> Self {
        let mult = (1e9 * 4_294_967_296.0 / hz).round();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a positive finite rate; `as` saturates"
        )]
        Self { mult: mult as u64, shift: 32 }
    }

    /// A span of ticks in nanoseconds.
    #[inline]
    pub fn ns(self, ticks: u64) -> u64 {
        let wide = (u128::from(ticks) * u128::from(self.mult)) >> self.shift.min(127);
        u64::try_from(wide).unwrap_or(u64::MAX)
    }

    /// Spans of ticks in nanoseconds; `None` where a product takes more than 64 bits. Cheaper than one by one.
    #[must_use]
    #[inline]
    pub fn short_ns<const N: usize>(self, ticks: [u64; N]) -> Option<[u64; N]> {
        let widest = ticks.iter().fold(0, |all, ticks| all | ticks);
        let is_short = widest.leading_zeros() + self.mult.leading_zeros() >= u64::BITS && self.shift < u64::BITS;
        is_short.then(|| ticks.map(|ticks| ticks.wrapping_mul(self.mult) >> self.shift))
    }

    /// A span of nanoseconds in ticks.
    #[inline]
    pub fn ticks(self, ns: u64) -> u64 {
        let wide = (u128::from(ns) << self.shift.min(63)) / u128::from(self.mult.max(1));
        u64::try_from(wide).unwrap_or(u64::MAX)
    }
}

/// The four clocks read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct ClockPoint {
    /// Ticks.
    pub tick: u64,
    /// CLOCK_MONOTONIC_RAW.
    pub raw_ns: u64,
    /// CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// CLOCK_REALTIME, since 1970.
    pub realtime_ns: u64,
    /// How far apart the readings may lie.
    pub width_ns: u64,
}

/// A host's clocks over one cell: the first point at the start, the last at the end.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct ClockMap {
    /// Where ticks come from.
    pub source: ClockSource,
    /// Ticks to nanoseconds.
    pub rate: TickRate,
    /// Cost of one clock read, median.
    pub read_ns: f64,
    /// Points at the start, about each second, and at the end.
    pub points: Vec<ClockPoint>,
    /// Largest disagreement between the calibrated rate and what the points say, in parts per million.
    pub error_ppm: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_and_back() {
        let rate = TickRate::from_hz(2_100_000_000.0);
        assert_eq!(rate.ns(2_100_000_000), 999_999_999 + u64::from(rate.ns(2_100_000_000) == 1_000_000_000));
        assert!(rate.ticks(1_000_000_000).abs_diff(2_100_000_000) <= 2);
        assert_eq!(TickRate::NANOSECONDS.ns(7), 7);
    }
}
