//! How a map is drawn, and what all pictures of maps share: cells as pixels, axes, the legend.

use super::{Grid, Heat, Layout, Map, Mode, Palette, Place, Rgb, Rows, Saturation, Scale, Theme};
use crate::figure::{Figure, Hold, Ink, Pixels, Style, Text};
use crate::names::label_word;
use crate::svg::Domain;
use crate::units::{commas, tick};

/// How maps are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Look {
    /// Light or dark page.
    pub theme: Theme,
    /// Colours of counts.
    pub palette: Palette,
    /// How colours follow counts.
    pub mode: Mode,
    /// From which count on all cells look the same.
    pub saturation: Saturation,
    /// Rows of one width instead of 32 an octave; needs maps with a linear grid.
    pub linear: bool,
    /// Rows begin here instead of at the smallest time.
    pub low_ns: Option<u64>,
    /// Rows end here instead of at the largest time; what lies above stands in an overflow row.
    pub high_ns: Option<u64>,
}

/// Rows and colours that several maps share.
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
    /// The layout that this look shows of a map.
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
        Some(Rows { layout, first, count: last.max(first) - first + 1 })
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
    /// The colour number of a count in `palette`.
    pub(crate) fn colour(&self, count: u64) -> u8 {
        self.scale.level(count).map_or(0, |level| u8::try_from(u16::from(level) * 254 / 255 + 1).unwrap_or(u8::MAX))
    }

    /// A grid as pixels: each cell `wide` × `high`.
    pub(crate) fn pixels(&self, grid: &Grid, wide: usize, high: usize) -> Pixels {
        let (columns, rows) = (grid.columns.len(), self.rows.count as usize);
        let mut pixels = Pixels::new(columns * wide, rows * high, self.palette.clone(), 0);
        for (column, cells) in grid.columns.iter().enumerate() {
            for (row, count) in cells {
                if let Place::At(place) = self.rows.place(*row) {
                    pixels.set(column * wide, place as usize * high, wide, high, self.colour(*count));
                }
            }
        }
        pixels
    }

    /// A lane of counts as pixels.
    pub(crate) fn lane(&self, counts: impl ExactSizeIterator<Item = u64>, wide: usize, high: usize) -> Pixels {
        let mut pixels = Pixels::new(counts.len() * wide, high, self.palette.clone(), 0);
        for (column, count) in counts.enumerate() {
            pixels.set(column * wide, 0, wide, high, self.colour(count));
        }
        pixels
    }
}

/// A lane of lost messages: few to many, on a logarithmic scale of its own.
pub(crate) fn lost_lane(lost: impl ExactSizeIterator<Item = u64>, theme: Theme, wide: usize, high: usize) -> Pixels {
    let [few, many] = theme.lost();
    let mix = |part: u32| {
        let mut out = [0; 3];
        for ((slot, a), b) in out.iter_mut().zip(few).zip(many) {
            let value = (u32::from(a) * (8 - part) + u32::from(b) * part) / 8;
            *slot = u8::try_from(value).unwrap_or(u8::MAX);
        }
        out
    };
    let mut palette = vec![theme.background()];
    palette.extend((0..=8).map(mix));
    let mut pixels = Pixels::new(lost.len() * wide, high, palette, 0);
    for (column, count) in lost.enumerate().filter(|(_, count)| *count > 0) {
        // One step for each doubling, from 1 to 256 and more.
        let step = u8::try_from(count.ilog2().min(8)).unwrap_or(8);
        pixels.set(column * wide, 0, wide, high, step + 1);
    }
    pixels
}

/// A rectangle of a picture: left, top, width, height.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Area {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Area {
    pub(crate) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    pub(crate) fn right(&self) -> f64 {
        self.left + self.width
    }
}

pub(crate) fn words(x: f64, y: f64, hold: Hold, size: f64, colour: Rgb, text: impl Into<String>) -> Text {
    Text { x, y, hold, size, colour, text: text.into(), ..Text::default() }
}

/// Times at the left of a map.
pub(crate) fn latency_axis(figure: &mut Figure, area: Area, rows: &Rows, ink: &Ink, labels: bool) {
    let (low, high) = (rows.low_ns() as f64, rows.high_ns() as f64);
    let ticks = match rows.layout {
        Layout::Log => {
            let ticks = log_ticks(low.max(1.0), high);
            // 1, 2, 5 where there is room, else powers of ten.
            let octaves = (high / low.max(1.0)).log2().max(0.1);
            let room = area.height / octaves;
            if room * 1.0 > 17.0 { ticks } else { ticks.into_iter().filter(|tick| is_power_of_ten(*tick)).collect() }
        }
        Layout::Linear { .. } => Domain { low: 0.0, high, log: false }.ticks(),
    };
    let mut free = f64::INFINITY;
    for value in ticks {
        let at = rows.at(value);
        if !(-0.001..=1.001).contains(&at) {
            continue;
        }
        let y = area.bottom() - at.clamp(0.0, 1.0) * area.height;
        figure.line(Style::stroke(ink.faint, 1.0), area.left - 5.0, y, area.left - 1.0, y);
        if labels && free - y >= 13.0 {
            figure.text(words(area.left - 8.0, y + 4.0, Hold::End, 11.5, ink.soft, tick(value)));
            free = y;
        }
    }
}

fn is_power_of_ten(value: f64) -> bool {
    let power = value.log10();
    (power - power.round()).abs() < 1e-9
}

fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let mut ticks = Vec::new();
    let mut decade = 1.0;
    while decade <= high {
        ticks.extend([1.0, 2.0, 5.0].map(|digit| decade * digit).iter().filter(|tick| **tick >= low && **tick <= high));
        decade *= 10.0;
    }
    ticks
}

/// Steps of a time axis, in ns: what clocks have.
const STEPS_S: [f64; 22] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0,
    3600.0, 7200.0, 14_400.0, 86_400.0,
];

/// Seconds or minutes below a map, which shows the time from `start_ns` on. `end`: whether a tick at the very end has a
/// label, which reaches beyond the map.
pub(crate) fn time_axis(
    figure: &mut Figure,
    area: Area,
    start_ns: u64,
    length_ns: u64,
    ink: &Ink,
    labels: bool,
    end: bool,
) {
    let (start, length) = (start_ns as f64 / 1e9, length_ns.max(1) as f64 / 1e9);
    let wanted = length * 70.0 / area.width.max(1.0);
    let step = STEPS_S.into_iter().find(|step| *step >= wanted).unwrap_or(wanted);
    let mut index = (start / step).ceil();
    while index * step <= start + length + 1e-9 {
        let seconds = index * step;
        let x = area.left + (seconds - start) / length * area.width;
        figure.line(Style::stroke(ink.faint, 1.0), x, area.bottom() + 1.0, x, area.bottom() + 5.0);
        if labels && (end || x < area.right() - 12.0) {
            let text = clock(seconds, step);
            figure.text(words(x, area.bottom() + 17.0, Hold::Middle, 11.5, ink.soft, text));
        }
        index += 1.0;
    }
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

/// The colours of counts with their numbers, in a bar `width` long.
pub(crate) fn legend(figure: &mut Figure, left: f64, top: f64, width: usize, common: &Common, ink: &Ink) {
    let (zero, high) = (16, 12);
    let mut pixels = Pixels::new(width, high, common.palette.clone(), 0);
    for x in 0..width {
        let colour = u8::try_from(x * 254 / width.max(1) + 1).unwrap_or(u8::MAX);
        pixels.set(x, 0, 1, high, colour);
    }
    let frame = Style::stroke(ink.faint, 1.0);
    let background = common.palette.first().copied().unwrap_or_default();
    let shift = f64::from(zero) + 10.0;
    figure.rect(
        Style { fill: Some(background.into()), ..frame },
        left + 0.5,
        top + 0.5,
        f64::from(zero),
        high as f64 - 1.0,
    );
    figure.text(words(left + 8.0, top + 26.0, Hold::Middle, 11.0, ink.soft, "0"));
    figure.image(left + shift, top, pixels);
    let mut free = f64::NEG_INFINITY;
    let entries = common.scale.legend();
    let last = entries.len().saturating_sub(1);
    let end = left + shift + width as f64;
    for (place, entry) in entries.into_iter().enumerate() {
        let x = left + shift + f64::from(entry.level) / 255.0 * width as f64;
        let more = if entry.and_more { "≥ " } else { "" };
        let text = format!("{more}{}", commas(entry.count));
        let half = (text.chars().count() as f64 * 6.2) / 2.0;
        // The last one always has its place.
        let covered = place != last && x + half > end - 34.0 && entry.level > 200;
        if x - half > free && !covered {
            figure.line(Style::stroke(ink.faint, 1.0), x, top + high as f64, x, top + high as f64 + 3.0);
            figure.text(words(x, top + 26.0, Hold::Middle, 11.0, ink.soft, text));
            free = x + half + 6.0;
        }
    }
}

/// A cell's key as people read it.
pub(crate) fn label(map: &Map) -> String {
    let words: Vec<String> = map
        .cell
        .split(',')
        .filter_map(|part| part.split_once('='))
        .filter(|(axis, _)| *axis != "probe")
        .map(|(axis, value)| match axis {
            "protocol" => value.to_uppercase(),
            "size" => format!("{value} bytes"),
            _ => label_word(axis, value),
        })
        .collect();
    let name = if words.is_empty() { map.cell.clone() } else { words.join(" · ") };
    let name = if name.is_empty() { format!("cell {:04}", map.index) } else { name };
    if map.repetition > 1 { format!("{name} · repetition {}", map.repetition) } else { name }
}

/// What a picture says of itself in its file.
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

/// Length of a column in words.
pub(crate) fn length(ns: u64) -> String {
    match ns {
        ns if ns >= 120_000_000_000 && ns % 60_000_000_000 == 0 => format!("{} min", ns / 60_000_000_000),
        ns => tick(ns as f64),
    }
}
