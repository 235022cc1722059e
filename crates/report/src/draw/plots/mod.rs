//! Which charts a report has: time and jitter against message size, what a schedule does against rate, and distributions. A
//! cell's label decides its colour in all of them.

pub(crate) mod causes;
pub(crate) mod late;
mod lines;
mod shares;
mod strips;

pub(crate) use lines::{by_rate, by_size};
pub(crate) use shares::{functions, tails};
pub(crate) use strips::strips;

use crate::draw::figure::Figure;
use crate::units::{by_key, size as size_word, span};
use digest::CellInfo;
use digest::cells::Cell;
use digest::names::{label_word, measured_on, rank, rate_word};
use model::{LatencyKind, Substrate};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Picture {
    pub(crate) heading: String,
    pub(crate) figure: Figure,
}

#[derive(Clone, Copy)]
pub(crate) struct Plotted<'a> {
    pub(crate) cells: &'a [Cell],
    /// What the figures of ping-pong are, and the message size of distributions and tails.
    pub(crate) kind: LatencyKind,
    pub(crate) size_bytes: u64,
}

/// A panel with more lines than this is split by load.
const MOST_LINES: usize = 6;

/// Cells of one panel: what it shows, and its cells by the number of their colour.
struct Panel<'a> {
    heading: String,
    /// Words that the heading says for all lines, so that labels need not.
    said: BTreeSet<String>,
    lines: BTreeMap<usize, Vec<&'a Cell>>,
}

/// What cells of a panel share beside substrate and protocol.
type Apart = Vec<(&'static str, String)>;

/// The panels of some cells: one a substrate, protocol and what `apart` names, and one a load where lines are many.
fn panels<'a>(
    cells: &'a [Cell],
    keep: impl Fn(&CellInfo) -> bool,
    apart: impl Fn(&CellInfo) -> Apart,
) -> Vec<Panel<'a>> {
    type Key = (Substrate, (usize, String), Vec<(usize, String)>);
    let mut groups: BTreeMap<Key, (Apart, Vec<&Cell>)> = BTreeMap::new();
    for cell in cells.iter().filter(|cell| keep(&cell.info)) {
        let info = &cell.info;
        let own = apart(info);
        let ranks = own.iter().map(|(axis, value)| rank(axis, value)).collect();
        let key = (info.substrate, rank("protocol", &info.protocol), ranks);
        groups.entry(key).or_insert_with(|| (own, Vec::new())).1.push(cell);
    }
    let substrates: BTreeSet<Substrate> = groups.keys().map(|(substrate, ..)| *substrate).collect();
    let varies = |axis: &str| {
        let values = groups.values().flat_map(|(own, _)| own).filter(|(name, _)| *name == axis);
        values.map(|(_, value)| value).collect::<BTreeSet<_>>().len() > 1
    };
    let varying: Vec<&str> = ["size", "rate"].into_iter().filter(|axis| varies(axis)).collect();
    let mut out = Vec::new();
    for ((substrate, (_, protocol), _), (own, members)) in &groups {
        let lines: BTreeSet<usize> = members.iter().map(|cell| cell.info.colour).collect();
        let load = |cell: &Cell| cell.info.factors.get("load").cloned().unwrap_or_default();
        let part = |cell: &Cell| (lines.len() > MOST_LINES).then(|| rank("load", &load(cell)));
        for (part, members) in by_key(members.iter().map(|&cell| (part(cell), cell))) {
            let has_peer = members.iter().all(|cell| cell.info.probe.has_peer());
            let mut heading = if has_peer { protocol.to_uppercase() } else { "Timer wake-ups".to_owned() };
            for (axis, value) in own.iter().filter(|(axis, _)| varying.contains(axis)) {
                heading.push_str(&match *axis {
                    "rate" => format!(", {}", rate_word(value)),
                    _ => format!(", {} bytes", value.parse().map_or_else(|_| value.clone(), size_word)),
                });
            }
            // What all lines of a panel share is said once.
            let mut said: BTreeSet<String> = BTreeSet::new();
            if let Some((_, load)) = &part {
                said.insert(label_word("load", load));
            }
            let labels: BTreeSet<&str> = members.iter().map(|cell| cell.series.as_str()).collect();
            if labels.len() > 1 {
                let mut words = labels.iter().map(|label| label.split(" · ").collect::<BTreeSet<_>>());
                let first = words.next().unwrap_or_default();
                let common = words.fold(first, |common, words| common.intersection(&words).copied().collect());
                said.extend(common.into_iter().map(str::to_owned));
            }
            heading.extend(said.iter().map(|word| format!(", {word}")));
            if substrates.len() > 1 {
                heading.push_str(&format!(", measured {}", measured_on(*substrate)));
            }
            let lines = by_key(members.into_iter().map(|cell| (cell.info.colour, cell)));
            out.push(Panel { heading, said, lines });
        }
    }
    out
}

impl Panel<'_> {
    /// A cell's label without the words that the heading has.
    fn label(&self, cell: &Cell) -> String {
        let words: Vec<&str> = cell.series.split(" · ").filter(|word| !self.said.contains(*word)).collect();
        if words.is_empty() { cell.series.clone() } else { words.join(" · ") }
    }
}

/// Some times of a cell, as far as they are known: `p50 11.0 µs, max 1.74 ms`.
pub(crate) fn in_words(info: &CellInfo, ids: &[&str]) -> String {
    let words = ids.iter().filter_map(|id| Some(format!("{id} {}", span(info.value(id)?))));
    words.collect::<Vec<_>>().join(", ")
}

pub(crate) fn tip(info: &CellInfo) -> String {
    format!("{}: {} {}", info.label, info.kind.title(), in_words(info, &["p50", "p99", "p99.9", "p99.99", "max"]))
}
