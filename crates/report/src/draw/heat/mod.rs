//! Heat maps: from interval logs to pictures.
//!
//! A cell's interval log (`cells/NNNN.hlog`) becomes a grid of counts: columns of time, rows of latency. Histograms are
//! summed into columns that a screen shows, never sampled, so the cells of a grid add up to the messages of the log; what
//! lies outside of the rows shown is counted in an underflow and an overflow row, and messages that never came back stand
//! in a lane of their own. Around the worst messages the intervals are kept as they were logged.
//!
//! Logs are read when a map is asked for, so that a report of long runs does not hold them.

mod look;
mod map;
mod pack;
mod read;
mod rows;
mod several;
mod single;
mod stalls;
mod table;
mod ticks;
mod titles;

pub use super::palette::{Diverging, Legend, Mode, Palette, Rgb, Saturation, Scale, Theme};
pub use look::Look;
pub(crate) use map::marginal;
pub use map::{Column, Grid, Heat, Map, StatisticLine, Strip};
pub use pack::pack;
pub(crate) use read::{joined, tags};
pub use read::{of_input, of_run, of_step};
pub use rows::{Bin, Layout, ROWS_PER_OCTAVE, Rows};
pub use stalls::Stall;

pub(crate) use several::{DIFFERENCE_ROWS, REACH, difference, difference_csv, multiples};
pub(crate) use single::{ROW_2011_NS, TOP_2011_NS, figure, figure_2011, palette_2011};
pub(crate) use stalls::{together, way};
pub(crate) use table::{HEAD as CSV_HEAD, csv, lines as csv_lines};
pub(crate) use ticks::{Ticks, is_tick, ticks};
pub(crate) use titles::Titles;

/// What maps are made, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Tags of the interval log, one map each: `rtt`, `rtt_intended`, `lateness`. A tag stands for those of all reflectors
    /// (`rtt@b`, `rtt@c`) where the log has them one by one; `rtt@b` for that one.
    pub tags: Vec<String>,
    /// Most columns of a map: the shortest of 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30 s, 1, 2, 5, 10 min … is taken that needs no
    /// more, and never less than an interval of the log.
    pub max_columns: usize,
    /// Width of the rows of a second, linear grid, in ns; absent: none. 10,000 is that of 2011.
    pub linear_ns: Option<u64>,
    /// Around how many of the worst stalls the log's own intervals are kept, where columns are longer than those.
    pub details: usize,
    /// How many of the worst stalls are marked.
    pub stalls: usize,
    /// Only this repetition of a cell; absent: all.
    pub repetition: Option<u32>,
    /// Only this cell; absent: all.
    pub cell: Option<String>,
    /// Threads that decode.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tags: ["rtt", "rtt_intended", "lateness"].map(str::to_owned).to_vec(),
            max_columns: 4000,
            linear_ns: None,
            details: 8,
            stalls: 20,
            repetition: None,
            cell: None,
            threads: 2,
        }
    }
}
