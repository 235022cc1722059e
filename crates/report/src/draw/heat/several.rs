//! Several maps in one picture: all cells on one scale, and the difference of two.

use super::look::{
    Look, cell_words, colour_bar, facts, framed, head, latency_axis, legend, length, lost_lane, time_axis,
};
use super::single::{LEAST, scale_words};
use super::titles::place;
use super::{Bin, Diverging, Layout, Map, ROWS_PER_OCTAVE, Strip, Titles};
use crate::draw::figure::{Anchor, Colour, Figure, Pixels, Style, Text, broken, fits, width, words};
use crate::units::{commas, each_once, span};
use digest::names::{label_word, rank};
use std::collections::{BTreeMap, BTreeSet};

/// The length of which `most` columns cover the longest strip, as whole columns of it.
fn shared_length(maps: &[&Map], most: u64) -> u64 {
    let longest = maps.iter().map(|map| map.whole.length_ns()).max().unwrap_or(1);
    let column = maps.iter().map(|map| map.whole.column_ns).max().unwrap_or(1).max(1);
    longest.div_ceil(most.max(1)).div_ceil(column).max(1) * column
}

/// Where each map stands in the picture: rows and columns with their words.
struct Panels<'a> {
    columns: Vec<String>,
    rows: Vec<String>,
    cells: Vec<(usize, usize, &'a Map)>,
}

fn panels<'a>(maps: &[&'a Map]) -> Panels<'a> {
    let value = |map: &Map, axis: &str| rank(axis, map.factors.get(axis).map_or("", String::as_str));
    let mut values: BTreeMap<&str, BTreeSet<(usize, String)>> = BTreeMap::new();
    for map in maps {
        for axis in map.factors.keys() {
            values.entry(axis).or_default().insert(value(map, axis));
        }
    }
    let mut values: Vec<(&str, BTreeSet<(usize, String)>)> =
        values.into_iter().filter(|(_, values)| values.len() > 1).collect();
    values.sort_by_key(|(axis, _)| place(axis));
    let largest = || values.iter().max_by_key(|(_, values)| values.len()).map(|(axis, _)| *axis);
    let has = |axis: &&str| values.iter().any(|(own, _)| own == axis);
    let across = ["rate", "size"].into_iter().find(has).or_else(largest);
    let at = values.iter().position(|(axis, _)| Some(*axis) == across);
    let columns = at.map(|at| values.remove(at).1).unwrap_or_default();
    // What a row shares: the values of the other axes, and the repetition.
    let key = |map: &Map| (values.iter().map(|(axis, _)| value(map, axis)).collect::<Vec<_>>(), map.repetition);
    let rows: BTreeSet<(Vec<(usize, String)>, u32)> = maps.iter().map(|map| key(map)).collect();
    let repeated = rows.iter().any(|(_, repetition)| rows.first().is_some_and(|(_, first)| first != repetition));
    let cells = maps.iter().map(|map| {
        let column = across.and_then(|axis| columns.iter().position(|other| *other == value(map, axis)));
        (rows.iter().position(|other| *other == key(map)).unwrap_or(0), column.unwrap_or(0), *map)
    });
    let row_words = rows.iter().map(|(own, repetition)| {
        let words = values.iter().zip(own).map(|((axis, _), (_, value))| label_word(axis, value));
        let again = repeated.then(|| format!("repetition {repetition}"));
        words.chain(again).collect::<Vec<_>>().join(" · ")
    });
    let column_word = |(_, value): &(usize, String)| match (across, value.parse::<f64>()) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate; `as` saturates")]
        (Some("rate"), Ok(rate)) => format!("{} messages/s", commas(rate.round() as u64)),
        (axis, _) => label_word(axis.unwrap_or_default(), value),
    };
    Panels { cells: cells.collect(), rows: row_words.collect(), columns: columns.iter().map(column_word).collect() }
}

/// All maps of one tag on one scale: rates across, everything else down.
pub(crate) fn multiples(maps: &[&Map], look: &Look) -> Option<Figure> {
    let first = maps.first()?;
    let rows = look.rows(maps)?;
    let rows = rows.joined(rows.count.div_ceil(260));
    let length_ns = shared_length(maps, 150);
    let strips: Vec<Strip> = maps.iter().map(|map| map.whole.joined(length_ns, rows.joined)).collect();
    let common = look.common(rows, strips.iter().flat_map(|strip| strip.grid(rows.layout).counts()));
    let columns = strips.iter().map(|strip| strip.columns.len()).max().unwrap_or(1).max(1);
    let wide = (300 / columns).clamp(1, 100);
    let high = (200 / (rows.count as usize).max(1)).clamp(1, 6);
    let panels = panels(maps);
    let (across, down) = (panels.columns.len().max(1), panels.rows.len().max(1));
    let (left, step_x, step_y) = (76.0, (columns * wide) as f64 + 16.0, (rows.count as usize * high) as f64 + 44.0);
    let titles = Titles::of_maps(maps);
    let messages = maps.iter().map(|map| format!("{}: {} messages", titles.own(map), commas(map.total())));
    let mut figure = Figure::new(
        (left + across as f64 * step_x + 14.0).max(720.0),
        0.0,
        format!("{}, all cells on one scale", first.quantity()),
        messages.collect::<Vec<_>>().join("; "),
    );
    figure.theme = look.theme;
    let title = format!("{} · all cells on one scale", first.quantity());
    let runs = each_once(maps.iter().map(|map| map.run.clone()));
    let second = format!("run {} · {}", runs.join(", "), cell_words(length_ns, &rows));
    let shared = Some(titles.shared(first)).filter(|words| !words.is_empty());
    let top = head(&mut figure, title, &shared.into_iter().chain([second]).collect::<Vec<_>>()) + 34.0;
    for (column, name) in panels.columns.iter().enumerate() {
        let name = broken(name, fits(13.0, true, step_x - 16.0), Some(1)).concat();
        let name = words(left + column as f64 * step_x, top - 24.0, Anchor::Start, 13.0, Colour::INK, name);
        figure.text(Text { bold: true, ..name });
    }
    for ((row, column, map), strip) in panels.cells.iter().zip(&strips) {
        let (x, y) = (left + *column as f64 * step_x, top + *row as f64 * step_y);
        let area = framed(&mut figure, x, y, common.pixels(strip.grid(rows.layout), columns, wide, high));
        latency_axis(&mut figure, &area, &rows, *column == 0);
        let mut lost: Vec<u64> = strip.columns.iter().map(|column| column.lost).collect();
        lost.resize(columns, 0);
        let lane = framed(&mut figure, x, area.bottom() + 2.0, lost_lane(&lost, look.theme, wide, 6));
        time_axis(&mut figure, &lane, [0, length_ns.saturating_mul(columns as u64)], *row + 1 == down, false);
        let worst = map.whole.columns.iter().filter_map(|column| column.max_ns).max().unwrap_or(0);
        let lost = if map.lost > 0 { format!("{} lost, ", commas(map.lost)) } else { String::new() };
        let text = format!("{lost}max {}", span(worst as f64));
        if *column == 0 {
            let room = area.width - width(&text, 11.0) - 10.0;
            let name = panels.rows.get(*row).map_or("", String::as_str);
            let name = broken(name, fits(11.5, false, room), Some(1)).concat();
            figure.text(words(x, y - 5.0, Anchor::Start, 11.5, Colour::SOFT, name));
        }
        figure.text(words(area.right(), y - 5.0, Anchor::End, 11.0, Colour::SOFT, text));
    }
    let foot = top + down as f64 * step_y + 4.0;
    figure.text(words(left, foot, Anchor::Start, 11.5, Colour::SOFT, "messages in a cell"));
    legend(&mut figure, left, foot + 8.0, 300, &common);
    let text = "the lane below each map: lost messages";
    figure.text(words(left + 370.0, foot + 18.0, Anchor::Start, 11.5, Colour::SOFT, text));
    figure.height = foot + 48.0;
    figure.facts = facts(first, scale_words(&common));
    figure.facts.retain(|(name, _)| !matches!(*name, "Cell" | "File"));
    Some(figure)
}

/// Columns of a difference at most: few enough that chance does not colour them.
const DIFFERENCE_COLUMNS: u64 = 80;
/// Rows of the log layout that become one: eight an octave are left.
pub(crate) const DIFFERENCE_ROWS: u32 = ROWS_PER_OCTAVE / 8;
/// Ratio at which colours end: 2^5.
pub(crate) const REACH: f64 = 5.0;

/// The messages of two maps in the cells of their difference: column, row, those of the one and of the other.
struct Pair {
    length_ns: u64,
    columns: usize,
    cells: Vec<(usize, u32, [u64; 2])>,
}

impl Pair {
    fn of(a: &Map, b: &Map) -> Self {
        let length_ns = shared_length(&[a, b], DIFFERENCE_COLUMNS);
        let mut cells: BTreeMap<(usize, u32), [u64; 2]> = BTreeMap::new();
        let mut columns = 1;
        for (side, map) in [a, b].into_iter().enumerate() {
            let strip = map.whole.joined(length_ns, DIFFERENCE_ROWS);
            columns = columns.max(strip.columns.len());
            for (column, counts) in strip.log.columns.iter().enumerate() {
                for (row, count) in counts {
                    if let Some(slot) = cells.entry((column, *row)).or_default().get_mut(side) {
                        *slot = *count;
                    }
                }
            }
        }
        let cells = cells.into_iter().map(|((column, row), counts)| (column, row, counts)).collect();
        Self { length_ns, columns, cells }
    }
}

/// Where one map has more messages than another: the logarithm of the ratio of shares, cell by cell.
pub(crate) fn difference(a: &Map, b: &Map, look: &Look) -> Option<Figure> {
    let rows = Look { linear: false, ..*look }.rows(&[a, b])?.joined(DIFFERENCE_ROWS);
    let pair = Pair::of(a, b);
    let wide = (960 / pair.columns).clamp(1, (LEAST / pair.columns).max(24));
    let high = (400 / (rows.count as usize).max(1)).clamp(2, 12);
    let mut palette = vec![look.theme.background()];
    palette.extend(Diverging::table(look.theme));
    let mut pixels = Pixels::new(pair.columns * wide, rows.count as usize * high, palette.clone());
    let by = a.total() as f64 / b.total().max(1) as f64;
    for (column, row, [ours, theirs]) in &pair.cells {
        // One message added on both sides: few messages make no strong colour.
        let ratio = ((*theirs as f64 * by + 1.0) / (*ours as f64 + 1.0)).log2();
        let colour = u8::try_from(Diverging::level(ratio, REACH) + 1).unwrap_or(128);
        if let Bin::Row(place) = rows.bin(*row) {
            pixels.set(column * wide, place as usize * high, wide, high, colour);
        }
    }
    let (left, titles) = (84.0, Titles::of_maps(&[a, b]));
    let mut figure = Figure::new(
        (left + pixels.width as f64 + 30.0).max(760.0),
        0.0,
        format!("{} against {} · {}", titles.own(a), titles.own(b), a.quantity()),
        format!("Where {} has more messages than {}, by time and latency", titles.own(a), titles.own(b)),
    );
    figure.theme = look.theme;
    let title = figure.title.clone();
    let shared = Some(titles.shared(a)).filter(|words| !words.is_empty());
    let mut y = head(&mut figure, title, &shared.into_iter().collect::<Vec<_>>()) - 1.0;
    for (name, map, colour) in [("A", a, palette.get(1)), ("B", b, palette.last())] {
        figure.rect(Style::fill(colour.copied().unwrap_or_default()), 14.0, y - 9.5, 11.0, 11.0);
        let text = format!("{name}: {} · {} messages, {} lost", titles.own(map), commas(map.total()), commas(map.lost));
        y = figure.lines(&words(32.0, y, Anchor::Start, 12.0, Colour::SOFT, text), 18.0);
    }
    let area = framed(&mut figure, left, y - 6.0, pixels);
    latency_axis(&mut figure, &area, &rows, true);
    time_axis(&mut figure, &area, [0, pair.length_ns.saturating_mul(pair.columns as u64)], true, true);
    let foot = area.bottom() + 36.0;
    let ends = [(0.0, "A 32×"), (0.2, "A 8×"), (0.5, "equal"), (0.8, "B 8×"), (1.0, "B 32×")];
    colour_bar(&mut figure, left, foot, 320, &palette, &ends.map(|(at, text)| (at, text.to_owned())).to_vec());
    let text = format!(
        "share of a cell's messages against the other's, each cell {} by 1/8 octave; empty in both: no colour",
        length(pair.length_ns)
    );
    let end = figure.lines(&words(left, foot + 46.0, Anchor::Start, 11.5, Colour::SOFT, text), 16.0);
    figure.height = end - 2.0;
    figure.facts = facts(a, format!("log2 of the ratio to '{}', ends at ±{REACH}", b.cell));
    Some(figure)
}

/// The cells that a difference is made of, as CSV.
pub(crate) fn difference_csv(a: &Map, b: &Map) -> String {
    let pair = Pair::of(a, b);
    let mut out = String::from("at_ns,length_ns,low_ns,high_ns,messages_a,messages_b\r\n");
    for (column, row, [ours, theirs]) in &pair.cells {
        let (low, high) = (Layout::Log.low_ns(*row), Layout::Log.high_ns(row + DIFFERENCE_ROWS - 1));
        let at = pair.length_ns.saturating_mul(*column as u64);
        out.push_str(&format!("{at},{},{low},{high},{ours},{theirs}\r\n", pair.length_ns));
    }
    out
}
