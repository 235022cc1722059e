//! How latency is cut into rows. **Log**: 32 rows an octave, each octave cut evenly, so a row is a union of whole buckets of
//! the interval log, and counts are exact. Below 32 ns a row is one nanosecond; 0 is row 0. **Linear**: rows of one width,
//! where row k holds (k·step, (k+1)·step], as the pictures of 2011 had them.

/// Rows an octave in the log layout.
pub const ROWS_PER_OCTAVE: u32 = 32;
const BITS: u32 = ROWS_PER_OCTAVE.ilog2();

/// How latency is cut into rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// [`ROWS_PER_OCTAVE`] rows an octave.
    Log,
    /// Rows of one width in ns, at least 1.
    Linear { step_ns: u64 },
}

impl Layout {
    /// The row that holds a time.
    pub fn row(self, ns: u64) -> u32 {
        let row = match self {
            Self::Log if ns < u64::from(ROWS_PER_OCTAVE) => ns,
            Self::Log => {
                let shift = ns.ilog2() - BITS;
                u64::from(shift * ROWS_PER_OCTAVE) + (ns >> shift)
            }
            Self::Linear { step_ns } => ns.saturating_sub(1) / step_ns.max(1),
        };
        u32::try_from(row).unwrap_or(u32::MAX)
    }

    /// The smallest time of a row in the log layout; in the linear one the time that it begins after.
    pub fn low_ns(self, row: u32) -> u64 {
        match self {
            Self::Log => {
                let shift = (row / ROWS_PER_OCTAVE).saturating_sub(1);
                let within = u64::from(row - shift * ROWS_PER_OCTAVE);
                within.checked_shl(shift).filter(|_| shift < 58).unwrap_or(u64::MAX)
            }
            Self::Linear { step_ns } => u64::from(row).saturating_mul(step_ns),
        }
    }

    /// The largest time of a row.
    pub fn high_ns(self, row: u32) -> u64 {
        match self {
            Self::Log => self.low_ns(row.saturating_add(1)).saturating_sub(1),
            Self::Linear { step_ns } => (u64::from(row) + 1).saturating_mul(step_ns),
        }
    }

    /// Where a time lies, in rows from the bottom of row 0; between the edges of a row it grows evenly.
    pub fn at(self, ns: f64) -> f64 {
        match self {
            Self::Log if ns < f64::from(ROWS_PER_OCTAVE) => ns.max(0.0),
            Self::Log => {
                let octave = ns.log2().floor();
                // The logarithm may be rounded up to a whole number just below it.
                let octave = if octave.exp2() > ns { octave - 1.0 } else { octave };
                let rows = f64::from(ROWS_PER_OCTAVE);
                (octave - f64::from(BITS)) * rows + ns / octave.exp2() * rows
            }
            Self::Linear { step_ns } => ns / step_ns.max(1) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_follow_each_other_without_gap() {
        let layout = Layout::Log;
        for row in 0..1300 {
            assert_eq!(layout.row(layout.low_ns(row)), row);
            assert_eq!(layout.row(layout.high_ns(row)), row);
            assert_eq!(layout.high_ns(row) + 1, layout.low_ns(row + 1));
            assert!((layout.at(layout.low_ns(row) as f64) - f64::from(row)).abs() < 1e-9, "{row}");
        }
        assert_eq!(layout.row(0), 0);
        assert!(layout.row(u64::MAX) < 2000 && layout.row(3_600_000_000_000) < 1300);
    }

    #[test]
    fn linear_rows_round_up() {
        let layout = Layout::Linear { step_ns: 10_000 };
        assert_eq!([0, 1, 10_000, 10_001, 2_000_000].map(|ns| layout.row(ns)), [0, 0, 0, 1, 199]);
        assert_eq!((layout.low_ns(199), layout.high_ns(199)), (1_990_000, 2_000_000));
    }
}
