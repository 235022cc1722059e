//! What a report shows.

/// What a report shows. `Options::default()` is the papers' view: RTT/2 at 32 bytes, measured rows only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Add the published rows of the two white papers, marked as published on other hardware.
    pub reference: bool,
    /// Show RTT instead of RTT/2.
    pub rtt: bool,
    /// Message size in bytes of the papers' table and of tail plots, or the nearest larger measured one, or the largest.
    pub size: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { reference: false, rtt: false, size: 32 }
    }
}
