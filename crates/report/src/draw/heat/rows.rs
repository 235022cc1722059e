//! How latency is cut into rows.
//!
//! Two layouts. **Log**: 32 rows an octave, each octave cut evenly, as HdrHistogram cuts it: a row is a union of whole
//! buckets of the interval log, so counts are exact and neighbouring rows never differ by the number of buckets that
//! happen to fall into them. Below 32 ns a row is one nanosecond; 0 is row 0. **Linear**: rows of one width, where row k
//! holds (k·step, (k+1)·step], that is, times rounded up, as the pictures of 2011 had them.

/// Rows an octave in the log layout.
pub const ROWS_PER_OCTAVE: u32 = 32;
const BITS: u32 = ROWS_PER_OCTAVE.ilog2();

/// How latency is cut into rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// [`ROWS_PER_OCTAVE`] rows an octave.
    Log,
    /// Rows of one width, in ns.
    Linear {
        /// Width of a row, at least 1.
        step_ns: u64,
    },
}

impl Layout {
    /// The row that holds a time.
    #[must_use]
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
    #[must_use]
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
    #[must_use]
    pub fn high_ns(self, row: u32) -> u64 {
        match self {
            Self::Log => self.low_ns(row.saturating_add(1)).saturating_sub(1),
            Self::Linear { step_ns } => (u64::from(row) + 1).saturating_mul(step_ns),
        }
    }

    /// Where a time lies, in rows from the bottom of row 0; between the edges of a row it grows evenly.
    #[must_use]
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

/// The rows that a picture shows: what lies below goes into an underflow row, what lies above into an overflow row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    /// How latency is cut.
    pub layout: Layout,
    /// So many rows of the layout are shown as one.
    pub joined: u32,
    /// The lowest row shown, counted in joined ones.
    pub first: u32,
    /// How many are shown.
    pub count: u32,
}

impl Rows {
    /// From one row of the layout to another, both included.
    #[must_use]
    pub fn of(layout: Layout, first: u32, last: u32) -> Self {
        Self { layout, joined: 1, first, count: last.max(first) - first + 1 }
    }

    /// The same, so many rows shown as one.
    #[must_use]
    pub fn joined(self, joined: u32) -> Self {
        let joined = joined.max(1);
        Self { joined, ..Self::of(self.layout, self.first / joined, (self.first + self.count - 1) / joined) }
    }

    /// Where a row of the layout is counted.
    #[must_use]
    pub fn bin(&self, row: u32) -> Bin {
        match (row / self.joined.max(1)).checked_sub(self.first) {
            None => Bin::Underflow,
            Some(place) if place < self.count => Bin::Row(place),
            Some(_) => Bin::Overflow,
        }
    }

    /// Where a time lies in the picture: 0 at the bottom, 1 at the top.
    #[must_use]
    pub fn at(&self, ns: f64) -> f64 {
        (self.layout.at(ns) / f64::from(self.joined.max(1)) - f64::from(self.first)) / f64::from(self.count.max(1))
    }

    /// The smallest time shown.
    #[must_use]
    pub fn low_ns(&self) -> u64 {
        self.layout.low_ns(self.first.saturating_mul(self.joined))
    }

    /// The largest time shown.
    #[must_use]
    pub fn high_ns(&self) -> u64 {
        let end = self.first.saturating_add(self.count).saturating_mul(self.joined);
        self.layout.high_ns(end.saturating_sub(1))
    }
}

/// Where a row is counted in a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bin {
    /// Below what is shown.
    Underflow,
    /// So many rows above the lowest one shown.
    Row(u32),
    /// Above what is shown.
    Overflow,
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

    #[test]
    fn nothing_falls_outside_unseen() {
        let [low, high] = [1_000, 1_000_000].map(|ns| Layout::Log.row(ns));
        let rows = Rows::of(Layout::Log, low, high);
        assert_eq!(rows.bin(Layout::Log.row(10)), Bin::Underflow);
        assert_eq!(rows.bin(low), Bin::Row(0));
        assert_eq!(rows.bin(high), Bin::Row(rows.count - 1));
        assert_eq!(rows.bin(Layout::Log.row(2_000_000)), Bin::Overflow);
        assert!(rows.low_ns() <= 1_000 && rows.high_ns() >= 1_000_000);
        // Joined rows show no less, and whole ones.
        let joined = rows.joined(3);
        assert!(joined.low_ns() <= rows.low_ns() && joined.high_ns() >= rows.high_ns());
        assert_eq!([low, high].map(|row| joined.bin(row)), [Bin::Row(0), Bin::Row(joined.count - 1)]);
        let middle = joined.at(31_623.0) * f64::from(joined.count) - rows.at(31_623.0) * f64::from(rows.count) / 3.0;
        assert!(middle.abs() < 1.0, "{middle}");
    }
}
