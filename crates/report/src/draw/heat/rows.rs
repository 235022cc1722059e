//! The rows that a picture shows, and what lies outside of them.

pub use stats::rows::{Layout, ROWS_PER_OCTAVE};

/// The rows that a picture shows: what lies below goes into an underflow row, what lies above into an overflow row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
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

    #[must_use]
    pub fn low_ns(&self) -> u64 {
        self.layout.low_ns(self.first.saturating_mul(self.joined))
    }

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
