//! A map: what the log of one cell and tag says, as counts.

use super::{Bin, Layout, Rows, Stall};
use model::result::Outlier;
use model::{Event, Substrate};
use std::collections::BTreeMap;

fn add(sums: &mut BTreeMap<u32, u64>, cells: &[(u32, u64)], rows: u32) {
    for (row, count) in cells {
        *sums.entry(row / rows * rows).or_insert(0) += count;
    }
}

/// Messages by row in some columns together.
pub(crate) fn marginal(columns: &[Vec<(u32, u64)>]) -> BTreeMap<u32, u64> {
    let mut sums = BTreeMap::new();
    columns.iter().for_each(|cells| add(&mut sums, cells, 1));
    sums
}

/// Counts by row, column by column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    /// How latency is cut into rows.
    pub layout: Layout,
    /// Row and messages of each column, rows ascending, no zeros.
    pub columns: Vec<Vec<(u32, u64)>>,
}

impl Grid {
    /// Messages in all cells.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.columns.iter().flatten().map(|(_, count)| count).sum()
    }

    /// The counts of all cells that hold messages, in the order of columns and rows.
    pub fn counts(&self) -> impl Iterator<Item = u64> + '_ {
        self.columns.iter().flatten().map(|(_, count)| *count)
    }

    /// The lowest and the highest row that holds messages.
    #[must_use]
    pub fn extent(&self) -> Option<(u32, u32)> {
        let low = self.columns.iter().filter_map(|column| column.first()).map(|(row, _)| *row).min()?;
        let high = self.columns.iter().filter_map(|column| column.last()).map(|(row, _)| *row).max()?;
        Some((low, high))
    }

    /// Columns added up to those that `place` gives them, and rows to so many at once, each named by its lowest.
    fn joined(&self, place: impl Fn(usize) -> usize, rows: u32) -> Self {
        let mut columns: Vec<BTreeMap<u32, u64>> = Vec::new();
        for (column, cells) in self.columns.iter().enumerate() {
            columns.resize((place(column) + 1).max(columns.len()), BTreeMap::new());
            if let Some(sums) = columns.get_mut(place(column)) {
                add(sums, cells, rows);
            }
        }
        Self { layout: self.layout, columns: columns.into_iter().map(|sums| sums.into_iter().collect()).collect() }
    }

    /// Messages below and above the rows shown, column by column.
    #[must_use]
    pub fn outside(&self, rows: &Rows) -> Vec<(u64, u64)> {
        self.columns
            .iter()
            .map(|column| {
                column.iter().fold((0, 0), |(below, above), (row, count)| match rows.bin(*row) {
                    Bin::Underflow => (below + count, above),
                    Bin::Row(_) => (below, above),
                    Bin::Overflow => (below, above + count),
                })
            })
            .collect()
    }
}

/// One column by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Column {
    pub count: u64,
    /// Messages sent in its time that never came back.
    pub lost: u64,
    pub max_ns: Option<u64>,
    /// Messages above 2,000 µs, which a picture in the style of 2011 does not show.
    pub above_2011: u64,
}

/// Columns of one length, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strip {
    /// When the first column begins, since the first intended send.
    pub start_ns: u64,
    /// Length of a column.
    pub column_ns: u64,
    /// The columns by themselves.
    pub columns: Vec<Column>,
    /// Counts in rows of the log layout.
    pub log: Grid,
    /// Counts in rows of one width, where they were asked for.
    pub linear: Option<Grid>,
}

/// A statistic over a map: one value for each stretch of columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatisticLine {
    /// `p50`, `p99`, `p99.9`, `max`.
    pub name: &'static str,
    /// So many columns share a value: as many as it needs for 10 messages beyond it.
    pub every: usize,
    /// The values in ns; absent where fewer than 10 messages lie beyond.
    pub values: Vec<Option<u64>>,
}

const BEYOND: u64 = stats::Histogram::BEYOND;

impl Strip {
    /// Time that the columns cover.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        self.column_ns.saturating_mul(self.columns.len() as u64)
    }

    /// Messages in all cells.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.log.total()
    }

    /// Messages that never came back.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.columns.iter().map(|column| column.lost).sum()
    }

    /// The grid of a layout; the log one where there is no linear one.
    #[must_use]
    pub fn grid(&self, layout: Layout) -> &Grid {
        match (layout, &self.linear) {
            (Layout::Linear { .. }, Some(linear)) => linear,
            _ => &self.log,
        }
    }

    /// Neighbouring columns added up until they are about `length_ns` long, and rows to so many at once.
    pub(crate) fn joined(&self, length_ns: u64, rows: u32) -> Self {
        if length_ns == self.column_ns && rows <= 1 {
            return self.clone();
        }
        let place = |column: usize| {
            let at = self.column_ns.saturating_mul(column as u64) / length_ns.max(1);
            usize::try_from(at).unwrap_or(usize::MAX).min(self.columns.len())
        };
        let log = self.log.joined(place, rows.max(1));
        let mut columns = vec![Column::default(); log.columns.len()];
        for (number, column) in self.columns.iter().enumerate() {
            if let Some(sum) = columns.get_mut(place(number)) {
                *sum = Column {
                    count: sum.count + column.count,
                    lost: sum.lost + column.lost,
                    max_ns: sum.max_ns.max(column.max_ns),
                    above_2011: sum.above_2011 + column.above_2011,
                };
            }
        }
        let linear = self.linear.as_ref().map(|grid| grid.joined(place, rows.max(1)));
        Self { start_ns: self.start_ns, column_ns: length_ns, columns, log, linear }
    }

    /// p50, p99, p99.9 and the largest value over time. Quantiles are those of the log layout's rows (the upper edge, 3 %
    /// wide at most); a stretch is as long as most columns need for 10 messages beyond the quantile.
    #[must_use]
    pub fn lines(&self) -> Vec<StatisticLine> {
        let mut counts: Vec<u64> = self.columns.iter().map(|column| column.count).filter(|count| *count > 0).collect();
        counts.sort_unstable();
        let typical = counts.get(counts.len() / 2).copied().unwrap_or(0);
        let mut lines: Vec<StatisticLine> = [("p50", 2), ("p99", 100), ("p99.9", 1000)]
            .into_iter()
            .filter_map(|(name, one_in)| {
                // An eighth more, as columns differ a little.
                let needed = (BEYOND * one_in * 9 / 8).div_ceil(typical.max(1));
                let every = usize::try_from(needed).ok().filter(|every| *every <= self.columns.len().max(1))?;
                let every = every.max(1);
                let values = self.log.columns.chunks(every).map(|chunk| quantile(chunk, one_in)).collect();
                Some(StatisticLine { name, every, values })
            })
            .collect();
        let values = self.columns.iter().map(|column| column.max_ns).collect();
        lines.push(StatisticLine { name: "max", every: 1, values });
        lines
    }
}

/// The value that one in `one_in` messages exceeds, by nearest rank; absent with fewer than 10 beyond.
fn quantile(columns: &[Vec<(u32, u64)>], one_in: u64) -> Option<u64> {
    let sums = marginal(columns);
    let total: u64 = sums.values().sum();
    let beyond = total / one_in;
    if beyond < BEYOND {
        return None;
    }
    let rank = total - beyond;
    let mut seen = 0;
    sums.into_iter()
        .find(|(_, count)| {
            seen += count;
            seen >= rank
        })
        .map(|(row, _)| Layout::Log.high_ns(row))
}

/// The map of one tag of a cell's log.
#[derive(Debug, Clone, PartialEq)]
pub struct Map {
    /// Name of the run directory.
    pub run: String,
    /// The cell's key.
    pub cell: String,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// Place in execution order: the files are `cells/NNNN.*`.
    pub index: u32,
    /// The cell's factors, strings bare.
    pub factors: BTreeMap<String, String>,
    /// What was counted: `rtt`, `rtt_intended`, `lateness`.
    pub tag: String,
    /// All of the log's time.
    pub whole: Strip,
    /// The log's own intervals around the worst messages, where `whole` has longer columns; in the order of time.
    pub details: Vec<Strip>,
    /// The worst stalls by this tag's time, the worst first.
    pub stalls: Vec<Stall>,
    /// What happened when, for ticks above the map; only events with a place in time.
    pub events: Vec<Event>,
    /// Messages that the result document counts as received.
    pub received: u64,
    /// Messages that the result document counts as lost.
    pub lost: u64,
    pub tool_version: String,
    pub substrate: Substrate,
    /// Of what `whole` is made, for one with longer columns.
    pub(crate) basis: Basis,
}

/// What the length of columns and the stalls of a map follow from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Basis {
    /// The longest interval of the log.
    pub(super) interval_ns: u64,
    /// When the last interval or loss begins.
    pub(super) last_ns: u64,
    pub(super) tagged: Vec<Tagged>,
}

/// A message with its place on a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tagged {
    /// When it was to be sent, since the first intended send.
    pub(super) at_ns: u64,
    /// This tag's time of it.
    pub(super) value_ns: u64,
    pub(super) outlier: Outlier,
}

impl Map {
    /// Messages in all cells of the grid, underflow and overflow included.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.whole.total()
    }

    /// Messages above 2,000 µs, which a picture in the style of 2011 hides.
    #[must_use]
    pub fn hidden_2011(&self) -> u64 {
        self.whole.columns.iter().map(|column| column.above_2011).sum()
    }

    /// What the times are, for people.
    #[must_use]
    pub fn quantity(&self) -> String {
        let (tag, host) = self.tag.split_once('@').map_or((self.tag.as_str(), None), |(tag, host)| (tag, Some(host)));
        let words = match tag {
            "rtt" => "RTT from the actual send",
            "rtt_intended" => "RTT from the intended send",
            "lateness" => "Lateness of the send",
            "wake_up" => "Wake-up latency",
            other => other,
        };
        host.map_or_else(|| words.to_owned(), |host| format!("{words}, reflector {host}"))
    }
}

/// Maps, and what could not be drawn.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Heat {
    /// In the order of cells, repetitions and tags.
    pub maps: Vec<Map>,
    /// What is damaged or missing, one line each, naming file and line.
    pub problems: Vec<String>,
}

impl Heat {
    /// The rows that show all messages of some maps, so that they can be compared.
    #[must_use]
    pub fn rows<'a>(maps: impl IntoIterator<Item = &'a Map>, layout: Layout) -> Option<Rows> {
        let extents = maps.into_iter().filter_map(|map| map.whole.grid(layout).extent());
        let (low, high) = extents.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        Some(Rows::of(layout, low, high))
    }
}
