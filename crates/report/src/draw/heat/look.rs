//! How a map is drawn, and what all pictures of maps share: cells as pixels, axes, the legend.

use super::{Bin, Grid, Heat, Layout, Map, Mode, Palette, ROWS_PER_OCTAVE, Rgb, Rows, Saturation, Scale, Theme};
use crate::draw::chart::{Area, Domain, Marks, Ticks, axis_x, axis_y};
use crate::draw::figure::{Anchor, Colour, Figure, Pixels, Style, Text, words};
use crate::draw::palette::between;
use crate::units::{commas, tick};

/// How maps are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Look {
    pub theme: Theme,
    pub palette: Palette,
    pub mode: Mode,
    pub saturation: Saturation,
    /// Rows of one width instead of 32 an octave; needs maps with a linear grid.
    pub linear: bool,
    /// Rows begin here instead of at the smallest time.
    pub low_ns: Option<u64>,
    /// Rows end here instead of at the largest time; what lies above stands in an overflow row.
    pub high_ns: Option<u64>,
}

#[derive(Debug, Clone)]
pub(crate) struct Common {
    pub(crate) rows: Rows,
    pub(crate) scale: Scale,
    /// Background, then the colours of counts.
    pub(crate) palette: Vec<Rgb>,
}

/// Linear rows at most where nothing says where they end.
const LINEAR_ROWS: u32 = 400;

impl Look {
    pub(crate) fn layout(&self, map: &Map) -> Layout {
        match (&map.whole.linear, self.linear) {
            (Some(grid), true) => grid.layout,
            _ => Layout::Log,
        }
    }

    /// The rows that show all of some maps with a little room around them, or what the look asks for.
    #[must_use]
    pub fn rows(&self, maps: &[&Map]) -> Option<Rows> {
        let layout = self.layout(maps.first()?);
        let all = Heat::rows(maps.iter().copied(), layout)?;
        let room = 1 + all.count / 40;
        let lowest = if self.linear { 0 } else { all.first.saturating_sub(room) };
        let first = self.low_ns.map_or(lowest, |ns| layout.row(ns));
        let last = match (self.high_ns, self.linear) {
            (Some(ns), _) => layout.row(ns),
            (None, true) => (all.first + all.count - 1).min(LINEAR_ROWS - 1),
            (None, false) => all.first + all.count - 1 + room,
        };
        Some(Rows::of(layout, first, last))
    }

    /// One scale for all cells of some grids, underflow and overflow rows included.
    pub(crate) fn common(&self, rows: Rows, counts: impl IntoIterator<Item = u64>) -> Common {
        let scale = Scale::new(self.mode, self.saturation, counts);
        let mut palette = vec![self.theme.background()];
        palette.extend((1..=255).map(|number| colour_of(&self.palette.table(self.theme), number)));
        Common { rows, scale, palette }
    }
}

/// Colour number 1 to 255 of a picture: a picture has 256 colours with its background.
fn colour_of(table: &[Rgb; 256], number: usize) -> Rgb {
    table.get((number - 1) * 255 / 254).copied().unwrap_or_default()
}

impl Common {
    pub(crate) fn colour(&self, count: u64) -> u8 {
        self.scale.level(count).map_or(0, |level| u8::try_from(u16::from(level) * 254 / 255 + 1).unwrap_or(u8::MAX))
    }

    /// A grid as pixels: each cell `wide` × `high`, so many columns at least.
    pub(crate) fn pixels(&self, grid: &Grid, least: usize, wide: usize, high: usize) -> Pixels {
        let columns = grid.columns.len().max(least);
        let mut pixels = Pixels::new(columns * wide, self.rows.count as usize * high, self.palette.clone());
        for (column, cells) in grid.columns.iter().enumerate() {
            for (row, count) in cells {
                if let Bin::Row(place) = self.rows.bin(*row) {
                    pixels.set(column * wide, place as usize * high, wide, high, self.colour(*count));
                }
            }
        }
        pixels
    }

    pub(crate) fn lane(&self, counts: &[u64], wide: usize, high: usize) -> Pixels {
        lane(counts, self.palette.clone(), wide, high, |count| self.colour(count))
    }
}

fn lane(counts: &[u64], palette: Vec<Rgb>, wide: usize, high: usize, colour: impl Fn(u64) -> u8) -> Pixels {
    let mut pixels = Pixels::new(counts.len() * wide, high, palette);
    for (column, count) in counts.iter().enumerate() {
        pixels.set(column * wide, 0, wide, high, colour(*count));
    }
    pixels
}

/// A lane of lost messages: few to many, on a logarithmic scale of its own.
pub(crate) fn lost_lane(lost: &[u64], theme: Theme, wide: usize, high: usize) -> Pixels {
    let mut palette = vec![theme.background()];
    palette.extend((0..=8).map(|part| between(&theme.lost(), part, 8)));
    // One step for each doubling, from 1 to 256 and more.
    lane(lost, palette, wide, high, |count| {
        count.checked_ilog2().map_or(0, |power| u8::try_from(power.min(8)).unwrap_or(8) + 1)
    })
}

pub(crate) fn latency_axis(figure: &mut Figure, area: &Area, rows: &Rows, labels: bool) {
    let (low, high) = (rows.low_ns() as f64, rows.high_ns() as f64);
    let ticks = match rows.layout {
        Layout::Log => {
            let domain = Domain { low: low.max(1.0), high, log: true };
            // 1, 2, 5 where there is room, else powers of ten.
            domain.ticks_with(area.height / (high / domain.low).log2().max(0.1) > 17.0)
        }
        Layout::Linear { .. } => Domain { low: 0.0, high, log: false }.ticks(),
    };
    let shown = ticks.into_iter().map(|ns| (rows.at(ns), ns)).filter(|(at, _)| (-0.001..=1.001).contains(at));
    let word = |ns| if labels { tick(ns) } else { String::new() };
    let ticks: Ticks = shown.map(|(at, ns)| (at.clamp(0.0, 1.0), word(ns))).collect();
    axis_y(figure, area, Marks::Outside, &ticks);
}

/// Steps of a time axis, in ns: what clocks have.
const STEPS_S: [f64; 22] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0,
    3600.0, 7200.0, 14_400.0, 86_400.0,
];

/// Seconds or minutes below a map, which shows the time from `start_ns` on. `end`: whether a tick at the very end has a
/// label, which reaches beyond the map.
pub(crate) fn time_axis(figure: &mut Figure, area: &Area, [start_ns, length_ns]: [u64; 2], labels: bool, end: bool) {
    let (start, length) = (start_ns as f64 / 1e9, length_ns.max(1) as f64 / 1e9);
    let wanted = length * 70.0 / area.width.max(1.0);
    let step = STEPS_S.into_iter().find(|step| *step >= wanted).unwrap_or(wanted);
    let mut ticks = Ticks::new();
    let mut index = (start / step).ceil();
    while index * step <= start + length + 1e-9 {
        let at = (index * step - start) / length;
        let shown = labels && (end || area.x(at) < area.right() - 12.0);
        ticks.push((at, if shown { clock(index * step, step) } else { String::new() }));
        index += 1.0;
    }
    axis_x(figure, area, Marks::Outside, &ticks);
}

fn clock(seconds: f64, step: f64) -> String {
    if step >= 60.0 {
        format!("{:.0} min", seconds / 60.0)
    } else if step >= 1.0 {
        format!("{seconds:.0} s")
    } else {
        format!("{seconds:.*} s", if step >= 0.1 { 1 } else { 2 })
    }
}

/// Colours 1 to 255 of a palette in a bar, with words below.
pub(crate) fn colour_bar(figure: &mut Figure, left: f64, top: f64, width: usize, palette: &[Rgb], words_below: &Ticks) {
    let mut pixels = Pixels::new(width, 12, palette.to_vec());
    for x in 0..width {
        pixels.set(x, 0, 1, 12, u8::try_from(x * 254 / width.max(2).saturating_sub(1) + 1).unwrap_or(u8::MAX));
    }
    figure.image(left, top, pixels);
    for (at, text) in words_below {
        let x = left + at * width as f64;
        figure.line(Style::stroke(Colour::FAINT, 1.0), x, top + 12.0, x, top + 15.0);
        figure.text(words(x, top + 26.0, Anchor::Middle, 11.0, Colour::SOFT, text));
    }
}

/// The colours of counts with their numbers, in a bar `width` long.
pub(crate) fn legend(figure: &mut Figure, left: f64, top: f64, width: usize, common: &Common) {
    let background = common.palette.first().copied().unwrap_or_default();
    let zero = Style { fill: Some(background.into()), ..Style::stroke(Colour::FAINT, 1.0) };
    figure.rect(zero, left + 0.5, top + 0.5, 16.0, 11.0);
    figure.text(words(left + 8.0, top + 26.0, Anchor::Middle, 11.0, Colour::SOFT, "0"));
    let mut free = f64::NEG_INFINITY;
    let entries = common.scale.legend();
    let last = entries.len().saturating_sub(1);
    let mut shown = Ticks::new();
    for (place, entry) in entries.into_iter().enumerate() {
        let at = f64::from(entry.level) / 255.0;
        let text = format!("{}{}", if entry.and_more { "≥ " } else { "" }, commas(entry.count));
        let (x, half) = (at * width as f64, text.chars().count() as f64 * 3.1);
        // The last one always has its place.
        let covered = place != last && x + half > width as f64 - 34.0 && entry.level > 200;
        if x - half > free && !covered {
            shown.push((at, text));
            free = x + half + 6.0;
        }
    }
    colour_bar(figure, left + 26.0, top, width, &common.palette, &shown);
}

/// The title of a picture and what stands below it, from the top; returns where the next line may stand.
pub(crate) fn head(figure: &mut Figure, title: String, lines: &[String]) -> f64 {
    let title = Text { bold: true, ..words(14.0, 25.0, Anchor::Start, 15.0, Colour::INK, title) };
    let mut y = figure.lines(&title, 20.0);
    for line in lines {
        y = figure.lines(&words(14.0, y, Anchor::Start, 12.0, Colour::SOFT, line), 17.0);
    }
    y
}

/// Cells in their frame; returns where they are.
pub(crate) fn framed(figure: &mut Figure, left: f64, top: f64, pixels: Pixels) -> Area {
    let area = Area { left, top, width: pixels.width as f64, height: pixels.height as f64 };
    figure.image(left, top, pixels);
    figure.rect(Style::stroke(Colour::FAINT, 1.0), left - 0.5, top - 0.5, area.width + 1.0, area.height + 1.0);
    area
}

pub(crate) fn facts(map: &Map, scale: String) -> Vec<(&'static str, String)> {
    vec![
        ("Software", format!("windhover {}", env!("CARGO_PKG_VERSION"))),
        ("Run", map.run.clone()),
        ("Cell", map.cell.clone()),
        ("File", format!("cells/{:04}.hlog", map.index)),
        ("Tag", map.tag.clone()),
        ("Measured-With", format!("windhover {}", map.tool_version)),
        ("Scale", scale),
    ]
}

pub(crate) fn length(ns: u64) -> String {
    match ns {
        ns if ns >= 120_000_000_000 && ns % 60_000_000_000 == 0 => format!("{} min", ns / 60_000_000_000),
        ns => tick(ns as f64),
    }
}

/// What a cell of a map is: the time and the range of latency whose messages it counts.
pub(crate) fn cell_words(column_ns: u64, rows: &Rows) -> String {
    let high = match rows.layout {
        Layout::Log if ROWS_PER_OCTAVE.is_multiple_of(rows.joined.max(1)) => {
            format!("1/{} octave", ROWS_PER_OCTAVE / rows.joined.max(1))
        }
        Layout::Log => format!("{}/{ROWS_PER_OCTAVE} octave", rows.joined),
        Layout::Linear { step_ns } => length(step_ns.saturating_mul(u64::from(rows.joined.max(1)))),
    };
    format!("each cell: all messages of {} × {high}", length(column_ns))
}
