//! Several maps in one picture: all cells on one scale, and the difference of two.

use super::look::{Area, Common, Look, facts, label, latency_axis, legend, length, lost_lane, time_axis, words};
use super::single::{LEAST, frame};
use super::{Diverging, Grid, Layout, Map, ROWS_PER_OCTAVE, Rows, Strip};
use crate::figure::{Figure, Hold, Pixels, Style, Text, broken, ink};
use crate::names::{label_word, rank};
use crate::units::{commas, span};
use std::collections::{BTreeMap, BTreeSet};

/// Neighbouring columns added up until they are about `length_ns` long, and rows by `rows` to one.
fn folded(strip: &Strip, grid: &Grid, length_ns: u64, rows: u32) -> Grid {
    let mut columns: Vec<BTreeMap<u32, u64>> = Vec::new();
    for (place, cells) in grid.columns.iter().enumerate() {
        let at = strip.column_ns.saturating_mul(place as u64) / length_ns.max(1);
        let at = usize::try_from(at).unwrap_or(usize::MAX).min(grid.columns.len());
        if columns.len() <= at {
            columns.resize(at + 1, BTreeMap::new());
        }
        if let Some(sums) = columns.get_mut(at) {
            for (row, count) in cells {
                *sums.entry(row / rows.max(1)).or_insert(0) += count;
            }
        }
    }
    Grid { layout: grid.layout, columns: columns.into_iter().map(|sums| sums.into_iter().collect()).collect() }
}

fn folded_losses(strip: &Strip, length_ns: u64) -> Vec<u64> {
    let mut sums: Vec<u64> = Vec::new();
    for (place, column) in strip.columns.iter().enumerate() {
        let at = strip.column_ns.saturating_mul(place as u64) / length_ns.max(1);
        let at = usize::try_from(at).unwrap_or(usize::MAX).min(strip.columns.len());
        if sums.len() <= at {
            sums.resize(at + 1, 0);
        }
        if let Some(sum) = sums.get_mut(at) {
            *sum += column.lost;
        }
    }
    sums
}

/// The length of which `most` columns cover the longest strip, as whole columns of it.
fn shared_length(maps: &[&Map], most: u64) -> u64 {
    let longest = maps.iter().map(|map| map.whole.length_ns()).max().unwrap_or(1);
    let column = maps.iter().map(|map| map.whole.column_ns).max().unwrap_or(1).max(1);
    longest.div_ceil(most.max(1)).div_ceil(column).max(1) * column
}

/// Rows of a folded grid: positions of the log layout divided.
struct FoldedRows {
    rows: Rows,
    by: u32,
}

impl FoldedRows {
    fn count(&self) -> usize {
        ((self.rows.first + self.rows.count - 1) / self.by - self.rows.first / self.by + 1) as usize
    }

    fn first(&self) -> u32 {
        self.rows.first / self.by
    }

    /// The rows that the folded picture shows, whole ones.
    fn shown(&self) -> Rows {
        let first = self.first() * self.by;
        let count = u32::try_from(self.count()).unwrap_or(u32::MAX) * self.by;
        Rows { layout: self.rows.layout, first, count }
    }
}

/// Where each map stands in the picture: rows and columns with their words.
struct Places<'a> {
    columns: Vec<String>,
    rows: Vec<String>,
    cells: Vec<(usize, usize, &'a Map)>,
}

/// What a row of panels shares: the values of the axes that vary, in their order, and the repetition.
type RowKey = (Vec<(usize, Numeric, String)>, u32);

fn places<'a>(maps: &[&'a Map]) -> Places<'a> {
    let mut values: BTreeMap<&str, BTreeSet<(usize, Numeric, &str)>> = BTreeMap::new();
    for map in maps {
        for (axis, value) in &map.factors {
            let (place, _) = rank(axis, value);
            values.entry(axis).or_default().insert((place, Numeric::of(value), value));
        }
    }
    values.retain(|_, values| values.len() > 1);
    let across = ["rate", "size"]
        .into_iter()
        .find(|axis| values.contains_key(axis))
        .or_else(|| values.iter().max_by_key(|(_, values)| values.len()).map(|(axis, _)| *axis));
    let of = |map: &Map, axis: &str| map.factors.get(axis).cloned().unwrap_or_default();
    let column_values: Vec<String> = across
        .and_then(|axis| values.get(axis))
        .map(|values| values.iter().map(|(_, _, value)| (*value).to_owned()).collect())
        .unwrap_or_default();
    let others: Vec<&str> = values.keys().copied().filter(|axis| Some(*axis) != across).collect();
    let key = |map: &Map| -> Vec<(usize, Numeric, String)> {
        others.iter().map(|axis| (rank(axis, &of(map, axis)).0, Numeric::of(&of(map, axis)), of(map, axis))).collect()
    };
    let mut row_keys: Vec<RowKey> = maps.iter().map(|map| (key(map), map.repetition)).collect();
    row_keys.sort();
    row_keys.dedup();
    let repeated = maps.iter().any(|map| map.repetition != maps.first().map_or(1, |first| first.repetition));
    let cells = maps
        .iter()
        .map(|map| {
            let column = across.map_or(0, |axis| {
                let value = of(map, axis);
                column_values.iter().position(|other| *other == value).unwrap_or(0)
            });
            let own = (key(map), map.repetition);
            (row_keys.iter().position(|other| *other == own).unwrap_or(0), column, *map)
        })
        .collect();
    let rows = row_keys
        .iter()
        .map(|(values, repetition)| {
            let mut words: Vec<String> =
                others.iter().zip(values).map(|(axis, (_, _, value))| label_word(axis, value)).collect();
            if repeated {
                words.push(format!("repetition {repetition}"));
            }
            words.join(" · ")
        })
        .collect();
    let columns = column_values
        .iter()
        .map(|value| match across {
            Some("rate") => match value.parse::<f64>() {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate; `as` saturates")]
                Ok(rate) => format!("{} messages/s", commas(rate.round() as u64)),
                Err(_) => label_word("rate", value),
            },
            Some(axis) => label_word(axis, value),
            None => String::new(),
        })
        .collect();
    Places { columns, rows, cells }
}

/// Sorts numbers as numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Numeric(f64);

impl Numeric {
    fn of(text: &str) -> Self {
        Self(text.parse().unwrap_or(0.0))
    }
}

impl Eq for Numeric {}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Numeric {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// All maps of one tag on one scale: rates across, everything else down.
pub(crate) fn multiples(maps: &[&Map], look: &Look) -> Option<Figure> {
    let rows = look.rows(maps)?;
    let ink = ink(look.theme);
    let by = rows.count.div_ceil(260).max(1);
    let fold = FoldedRows { rows, by };
    let most: u64 = 150;
    let length_ns = shared_length(maps, most);
    let grids: Vec<Grid> =
        maps.iter().map(|map| folded(&map.whole, map.whole.grid(rows.layout), length_ns, by)).collect();
    let common: Common = look.common(rows, grids.iter().flat_map(|grid| grid.counts().collect::<Vec<_>>()));
    let columns = grids.iter().map(|grid| grid.columns.len()).max().unwrap_or(1).max(1);
    let wide = (300 / columns).clamp(1, 100);
    let high = (200 / fold.count().max(1)).clamp(1, 6);
    let places = places(maps);
    let (across, down) = (places.columns.len().max(1), places.rows.len().max(1));
    let panel = Area { left: 0.0, top: 0.0, width: (columns * wide) as f64, height: (fold.count() * high) as f64 };
    let (left, gap_x, gap_y) = (76.0, 16.0, 44.0);
    let width = left + across as f64 * (panel.width + gap_x) + 14.0;
    let first = maps.first()?;
    let mut figure = Figure::new(
        width.max(720.0),
        0.0,
        format!("{}, all cells on one scale", first.quantity()),
        maps.iter()
            .map(|map| format!("{}: {} messages", label(map), commas(map.total())))
            .collect::<Vec<_>>()
            .join("; "),
        look.theme,
    );
    let title = format!("{} · all cells on one scale", first.quantity());
    let title = Text { bold: true, ..words(14.0, 25.0, Hold::Start, 15.0, ink.ink, title) };
    let second = format!("run {} · each cell: all messages of {}", first.run, length(length_ns));
    let below = figure.lines(&title, 20.0);
    let below = figure.lines(&words(14.0, below, Hold::Start, 12.0, ink.soft, second), 17.0);
    let top = below + 34.0;
    for (column, name) in places.columns.iter().enumerate() {
        let x = left + column as f64 * (panel.width + gap_x);
        let name = broken(name, 13.0, true, panel.width, 1).concat();
        figure.text(Text { bold: true, ..words(x, top - 24.0, Hold::Start, 13.0, ink.ink, name) });
    }
    let shown = fold.shown();
    for ((row, column, map), grid) in places.cells.iter().zip(&grids) {
        let area = Area {
            left: left + *column as f64 * (panel.width + gap_x),
            top: top + *row as f64 * (panel.height + gap_y),
            ..panel
        };
        let mut pixels = Pixels::new(columns * wide, fold.count() * high, common.palette.clone(), 0);
        for (place, cells) in grid.columns.iter().enumerate() {
            for (row, count) in cells {
                if let Some(at) = row.checked_sub(fold.first()).filter(|at| (*at as usize) < fold.count()) {
                    pixels.set(place * wide, at as usize * high, wide, high, common.colour(*count));
                }
            }
        }
        figure.image(area.left, area.top, pixels);
        frame(&mut figure, area, &ink);
        latency_axis(&mut figure, area, &shown, &ink, *column == 0);
        let lane = Area { top: area.bottom() + 2.0, height: 6.0, ..area };
        let mut losses = folded_losses(&map.whole, length_ns);
        losses.resize(columns, 0);
        figure.image(lane.left, lane.top, lost_lane(losses.into_iter(), look.theme, wide, 6));
        frame(&mut figure, lane, &ink);
        let last = *row + 1 == down;
        time_axis(&mut figure, lane, 0, length_ns.saturating_mul(columns as u64), &ink, last, false);
        let name = places.rows.get(*row).map_or("", String::as_str);
        let worst = map.whole.columns.iter().filter_map(|column| column.max_ns).max().unwrap_or(0);
        let lost = if map.lost > 0 { format!("{} lost, ", commas(map.lost)) } else { String::new() };
        let text = format!("{lost}max {}", span(worst as f64));
        if *column == 0 {
            let room = area.width - crate::figure::width(&text, 11.0) - 10.0;
            let name = broken(name, 11.5, false, room, 1).concat();
            figure.text(words(area.left, area.top - 5.0, Hold::Start, 11.5, ink.soft, name));
        }
        figure.text(words(area.right(), area.top - 5.0, Hold::End, 11.0, ink.soft, text));
    }
    let foot = top + down as f64 * (panel.height + gap_y) + 4.0;
    figure.text(words(left, foot, Hold::Start, 11.5, ink.soft, "messages in a cell"));
    legend(&mut figure, left, foot + 8.0, 300, &common, &ink);
    let text = "the lane below each map: lost messages";
    figure.text(words(left + 370.0, foot + 18.0, Hold::Start, 11.5, ink.soft, text));
    figure.height = foot + 48.0;
    figure.facts = facts(first, super::single::scale_words(&common));
    figure.facts.retain(|(name, _)| !matches!(*name, "Cell" | "File"));
    Some(figure)
}

/// Columns of a difference at most: few enough that chance does not colour them.
const DIFFERENCE_COLUMNS: u64 = 80;
/// Rows of the log layout that become one: eight an octave are left.
const DIFFERENCE_ROWS: u32 = ROWS_PER_OCTAVE / 8;
/// Ratio at which colours end: 2^5.
const REACH: f64 = 5.0;

/// Where one map has more messages than another: the logarithm of the ratio of shares, cell by cell.
pub(crate) fn difference(a: &Map, b: &Map, look: &Look) -> Option<Figure> {
    let look = Look { linear: false, ..*look };
    let rows = look.rows(&[a, b])?;
    let ink = ink(look.theme);
    let fold = FoldedRows { rows, by: DIFFERENCE_ROWS };
    let length_ns = shared_length(&[a, b], DIFFERENCE_COLUMNS);
    let [first, second] = [a, b].map(|map| folded(&map.whole, &map.whole.log, length_ns, DIFFERENCE_ROWS));
    let columns = first.columns.len().max(second.columns.len()).max(1);
    let wide = (960 / columns).clamp(1, (LEAST / columns).max(24));
    let high = (400 / fold.count().max(1)).clamp(2, 12);
    let mut palette = vec![look.theme.background()];
    palette.extend(Diverging::table(look.theme));
    let mut pixels = Pixels::new(columns * wide, fold.count() * high, palette.clone(), 0);
    let by = a.total() as f64 / b.total().max(1) as f64;
    for column in 0..columns {
        let of = |grid: &Grid| -> BTreeMap<u32, u64> {
            grid.columns.get(column).map(|cells| cells.iter().copied().collect()).unwrap_or_default()
        };
        let (ours, theirs) = (of(&first), of(&second));
        let all: BTreeSet<u32> = ours.keys().chain(theirs.keys()).copied().collect();
        for row in all {
            let count = |cells: &BTreeMap<u32, u64>| cells.get(&row).copied().unwrap_or(0) as f64;
            // One message added on both sides: few messages make no strong colour.
            let ratio = ((count(&theirs) * by + 1.0) / (count(&ours) + 1.0)).log2();
            let colour = u8::try_from(Diverging::level(ratio, REACH) + 1).unwrap_or(128);
            if let Some(at) = row.checked_sub(fold.first()).filter(|at| (*at as usize) < fold.count()) {
                pixels.set(column * wide, at as usize * high, wide, high, colour);
            }
        }
    }
    let left = 84.0;
    let mut figure = Figure::new(
        (left + pixels.width as f64 + 30.0).max(760.0),
        0.0,
        format!("{}: {} against {}", a.quantity(), label(a), label(b)),
        format!("Where {} has more messages than {}, by time and latency", label(a), label(b)),
        look.theme,
    );
    let title = format!("{} · difference of two cells", a.quantity());
    let title = Text { bold: true, ..words(14.0, 25.0, Hold::Start, 15.0, ink.ink, title) };
    let mut y = figure.lines(&title, 19.0);
    let end = |number: usize| palette.get(number).copied().unwrap_or_default();
    for (name, map, number) in [("A", a, 1), ("B", b, 255)] {
        figure.rect(Style::fill(end(number)), 14.0, y - 9.5, 11.0, 11.0);
        let text = format!("{name}: {} · {} messages, {} lost", label(map), commas(map.total()), commas(map.lost));
        y = figure.lines(&words(32.0, y, Hold::Start, 12.0, ink.soft, text), 18.0);
    }
    let area = Area { left, top: y - 6.0, width: pixels.width as f64, height: pixels.height as f64 };
    figure.image(area.left, area.top, pixels);
    frame(&mut figure, area, &ink);
    latency_axis(&mut figure, area, &fold.shown(), &ink, true);
    time_axis(&mut figure, area, 0, length_ns.saturating_mul(columns as u64), &ink, true, true);
    let foot = area.bottom() + 36.0;
    let bar_width = 320;
    let mut bar = Pixels::new(bar_width, 12, palette.clone(), 0);
    for x in 0..bar_width {
        bar.set(x, 0, 1, 12, u8::try_from(x * 254 / (bar_width - 1) + 1).unwrap_or(u8::MAX));
    }
    figure.image(left, foot, bar);
    let ends = [(0.0, "A 32×"), (0.2, "A 8×"), (0.5, "equal"), (0.8, "B 8×"), (1.0, "B 32×")];
    for (share, text) in ends {
        let x = left + share * bar_width as f64;
        figure.line(Style::stroke(ink.faint, 1.0), x, foot + 12.0, x, foot + 15.0);
        figure.text(words(x, foot + 27.0, Hold::Middle, 11.0, ink.soft, text));
    }
    let text = format!(
        "share of a cell's messages against the other's, each cell {} by 1/8 octave; empty in both: no colour",
        length(length_ns)
    );
    let end = figure.lines(&words(left, foot + 46.0, Hold::Start, 11.5, ink.soft, text), 16.0);
    figure.height = end - 2.0;
    figure.facts = facts(a, format!("log2 of the ratio to '{}', ends at ±{REACH}", b.cell));
    Some(figure)
}

/// The cells that a difference is made of, as CSV.
pub(crate) fn difference_csv(a: &Map, b: &Map) -> String {
    let length_ns = shared_length(&[a, b], DIFFERENCE_COLUMNS);
    let [first, second] = [a, b].map(|map| folded(&map.whole, &map.whole.log, length_ns, DIFFERENCE_ROWS));
    let mut out = String::from("at_ns,length_ns,low_ns,high_ns,messages_a,messages_b\r\n");
    for column in 0..first.columns.len().max(second.columns.len()) {
        let of = |grid: &Grid| -> BTreeMap<u32, u64> {
            grid.columns.get(column).map(|cells| cells.iter().copied().collect()).unwrap_or_default()
        };
        let (ours, theirs) = (of(&first), of(&second));
        let all: BTreeSet<u32> = ours.keys().chain(theirs.keys()).copied().collect();
        for row in all {
            let (low, high) = (row * DIFFERENCE_ROWS, (row + 1) * DIFFERENCE_ROWS - 1);
            out.push_str(&format!(
                "{},{length_ns},{},{},{},{}\r\n",
                length_ns.saturating_mul(column as u64),
                Layout::Log.low_ns(low),
                Layout::Log.high_ns(high),
                ours.get(&row).copied().unwrap_or(0),
                theirs.get(&row).copied().unwrap_or(0)
            ));
        }
    }
    out
}
