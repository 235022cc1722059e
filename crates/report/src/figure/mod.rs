//! Pictures that stand alone: a list of drawn things with all colours resolved, written as SVG (deterministic bytes, no
//! style sheet, no script), as PDF, or as PNG (by resvg with the font of this module, so that no other program is needed).

mod font;
mod parse;
mod pdf;
mod png;
mod raster;
mod vector;

pub use font::Font;
pub(crate) use font::width;
pub(crate) use parse::chart;

use crate::heat::{Rgb, Theme};

/// A colour with its opacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Paint {
    pub(crate) rgb: Rgb,
    /// 0 to 1.
    pub(crate) alpha: f64,
}

impl From<Rgb> for Paint {
    fn from(rgb: Rgb) -> Self {
        Self { rgb, alpha: 1.0 }
    }
}

/// How lines and areas look.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Style {
    pub(crate) fill: Option<Paint>,
    pub(crate) stroke: Option<Paint>,
    pub(crate) width: f64,
    /// Lengths of stroke and gap.
    pub(crate) dash: Option<(f64, f64)>,
}

impl Style {
    pub(crate) fn fill(paint: impl Into<Paint>) -> Self {
        Self { fill: Some(paint.into()), ..Self::default() }
    }

    pub(crate) fn stroke(paint: impl Into<Paint>, width: f64) -> Self {
        Self { stroke: Some(paint.into()), width, ..Self::default() }
    }

    pub(crate) fn dashed(self, stroke: f64, gap: f64) -> Self {
        Self { dash: Some((stroke, gap)), ..self }
    }
}

/// Where text is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Hold {
    #[default]
    Start,
    Middle,
    End,
}

/// One line of text.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Text {
    pub(crate) x: f64,
    /// Of the baseline.
    pub(crate) y: f64,
    pub(crate) hold: Hold,
    pub(crate) size: f64,
    pub(crate) bold: bool,
    pub(crate) colour: Rgb,
    /// A rim in this colour, where it stands on lines.
    pub(crate) halo: Option<Rgb>,
    /// Turned a quarter to the left.
    pub(crate) turned: bool,
    pub(crate) text: String,
}

/// Cells by colour number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pixels {
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// At most 256 colours.
    pub(crate) palette: Vec<Rgb>,
    /// Row by row from the top.
    pub(crate) data: Vec<u8>,
}

impl Pixels {
    pub(crate) fn new(width: usize, height: usize, palette: Vec<Rgb>, of: u8) -> Self {
        Self { width, height, palette, data: vec![of; width * height] }
    }

    /// Sets a cell that is `wide` × `high` pixels, its lower left corner so many pixels from the left and the bottom.
    pub(crate) fn set(&mut self, left: usize, bottom: usize, wide: usize, high: usize, colour: u8) {
        for y in bottom..(bottom + high).min(self.height) {
            let start = (self.height - 1 - y) * self.width;
            let row = self.data.get_mut(start + left.min(self.width)..start + (left + wide).min(self.width));
            row.unwrap_or_default().fill(colour);
        }
    }
}

/// One drawn thing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Item {
    /// Straight lines and circles' arcs, in the words of SVG: `M`, `L`, `H`, `V`, `l`, `h`, `v`, `a`, `z`.
    Path(Style, String),
    Rect(Style, [f64; 4]),
    Text(Text),
    /// Left, top; one pixel of the image is one unit wide and high.
    Image(f64, f64, Pixels),
}

/// A text in lines no wider than `room`: broken between its parts, which ` · ` separates, else between words. A word that
/// is wider alone is shortened, and so is what goes beyond `most` lines.
pub(crate) fn broken(text: &str, size: f64, bold: bool, room: f64, most: usize) -> Vec<String> {
    // The fonts that show an SVG are up to so much wider than ours; each has its own widths.
    let by = if bold { 1.16 } else { 1.03 };
    let fits = |text: &str| font::width(text, size) * by <= room;
    let mut lines: Vec<String> = Vec::new();
    let mut now = String::new();
    let mut add = |now: &mut String, between: &str, piece: &str| {
        let longer = format!("{now}{between}{piece}");
        if now.is_empty() {
            piece.clone_into(now);
        } else if fits(&longer) {
            *now = longer;
        } else {
            lines.push(std::mem::replace(now, piece.to_owned()));
        }
    };
    for part in text.split(" · ") {
        if fits(part) {
            add(&mut now, " · ", part);
            continue;
        }
        for (place, word) in part.split(' ').enumerate() {
            add(&mut now, if place == 0 { " · " } else { " " }, word);
        }
    }
    lines.push(now);
    let more = lines.len() > most;
    lines.truncate(most.max(1));
    let last = lines.len() - 1;
    for (place, line) in lines.iter_mut().enumerate() {
        let cut = more && place == last;
        if cut {
            line.push('…');
        }
        while !fits(line) {
            // A letter less before the sign that some are missing.
            let mut letters: Vec<char> = line.trim_end_matches('…').chars().collect();
            if letters.pop().is_none() {
                break;
            }
            *line = letters.into_iter().collect::<String>().trim_end().to_owned() + "…";
        }
    }
    lines
}

/// A picture.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) theme: Theme,
    pub(crate) items: Vec<Item>,
    /// What a PNG says of itself: run, cell, scale, tool.
    pub(crate) facts: Vec<(&'static str, String)>,
    pub(crate) font: Font,
}

/// Room that text leaves at the right edge.
const EDGE: f64 = 14.0;
/// Lines of one text at most.
const LINES: usize = 4;

/// Colours of all that is not data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ink {
    pub(crate) page: Rgb,
    pub(crate) ink: Rgb,
    pub(crate) soft: Rgb,
    pub(crate) faint: Rgb,
    pub(crate) hair: Rgb,
    pub(crate) series: [Rgb; crate::svg::COLOURS],
}

/// The colours of the report's page; its style sheet has the same.
pub(crate) fn ink(theme: Theme) -> Ink {
    match theme {
        Theme::Light => Ink {
            page: [0xff, 0xff, 0xff],
            ink: [0x1b, 0x1e, 0x23],
            soft: [0x59, 0x60, 0x6b],
            faint: [0x8a, 0x91, 0x9c],
            hair: [0xec, 0xee, 0xf2],
            series: [
                [0x00, 0x72, 0xb2],
                [0xd5, 0x5e, 0x00],
                [0x00, 0x9e, 0x73],
                [0xb5, 0x5a, 0x93],
                [0xc9, 0x85, 0x00],
                [0x3a, 0x9f, 0xd8],
                [0x5b, 0x62, 0x6d],
            ],
        },
        Theme::Dark => Ink {
            page: [0x15, 0x18, 0x1d],
            ink: [0xe4, 0xe7, 0xec],
            soft: [0xa5, 0xad, 0xb9],
            faint: [0x7b, 0x84, 0x91],
            hair: [0x25, 0x2a, 0x32],
            series: [
                [0x4b, 0xa3, 0xe3],
                [0xf0, 0x80, 0x3c],
                [0x2f, 0xc7, 0x9a],
                [0xe3, 0x9a, 0xc4],
                [0xf0, 0xb8, 0x3a],
                [0x8f, 0xd0, 0xf5],
                [0xb4, 0xbb, 0xc6],
            ],
        },
    }
}

impl Figure {
    pub(crate) fn new(width: f64, height: f64, title: String, description: String, theme: Theme) -> Self {
        Self { width, height, title, description, theme, items: Vec::new(), facts: Vec::new(), font: Font::default() }
    }

    pub(crate) fn line(&mut self, style: Style, x1: f64, y1: f64, x2: f64, y2: f64) {
        use crate::svg::xy;
        self.items.push(Item::Path(style, format!("M{} {}L{} {}", xy(x1), xy(y1), xy(x2), xy(y2))));
    }

    pub(crate) fn rect(&mut self, style: Style, x: f64, y: f64, width: f64, height: f64) {
        self.items.push(Item::Rect(style, [x, y, width, height]));
    }

    pub(crate) fn path(&mut self, style: Style, data: String) {
        self.items.push(Item::Path(style, data));
    }

    pub(crate) fn text(&mut self, text: Text) {
        self.items.push(Item::Text(text));
    }

    /// A text that may need several lines, each so far below the other, in the width that the picture has; returns where
    /// the next one may stand.
    pub(crate) fn lines(&mut self, text: &Text, step: f64) -> f64 {
        let room = self.width - text.x - EDGE;
        let mut y = text.y;
        for line in broken(&text.text, text.size, text.bold, room, LINES) {
            self.text(Text { y, text: line, ..text.clone() });
            y += step;
        }
        y
    }

    pub(crate) fn image(&mut self, left: f64, top: f64, pixels: Pixels) {
        self.items.push(Item::Image(left, top, pixels));
    }

    /// Puts another title in the place of its own, in as many lines as that has.
    pub(crate) fn set_title(&mut self, title: &str) {
        title.clone_into(&mut self.title);
        let is_title = |item: &Item| matches!(item, Item::Text(text) if text.bold);
        let Some(first) = self.items.iter().position(is_title) else { return };
        let count = self.items.iter().skip(first).take_while(|item| is_title(item)).count();
        let own: Vec<Item> = self.items.drain(first..first + count).collect();
        let Some(Item::Text(model)) = own.first() else { return };
        let lines = broken(title, model.size, true, self.width - model.x - EDGE, count);
        let placed = own.iter().zip(lines).filter_map(|(item, line)| match item {
            Item::Text(text) => Some(Item::Text(Text { text: line, ..text.clone() })),
            _ => None,
        });
        let placed: Vec<Item> = placed.collect();
        self.items.splice(first..first, placed);
    }

    /// The picture as SVG, so many times as large.
    pub(crate) fn svg(&self, scale: f64) -> String {
        vector::svg(self, scale)
    }

    /// The picture as PDF, so many times as large.
    pub(crate) fn pdf(&self, scale: f64) -> Vec<u8> {
        pdf::pdf(self, scale)
    }

    /// The picture as PNG, each unit `zoom` pixels wide and high.
    pub(crate) fn png(&self, zoom: usize) -> Vec<u8> {
        raster::png(self, zoom.clamp(1, 8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_broken_where_their_parts_end() {
        let text = "PGM · policy fifo:50 · 1000 bytes · RTT from the actual send";
        let of = |text: &str, room: f64| broken(text, 15.0, true, room, 4);
        assert_eq!(of(text, 2000.0), [text]);
        assert_eq!(of(text, 300.0), ["PGM · policy fifo:50 · 1000 bytes", "RTT from the actual send"]);
        // Nothing is lost but the signs between, and every line fits.
        for room in [120.0, 200.0, 250.0, 333.0] {
            let lines = broken(text, 15.0, true, room, 99);
            assert!(lines.iter().all(|line| font::width(line, 15.0) <= room), "{lines:?}");
            let letters = |text: &str| text.chars().filter(|letter| letter.is_alphanumeric()).collect::<String>();
            assert_eq!(letters(&lines.concat()), letters(text), "{lines:?}");
        }
        // A word that is too long, and more lines than there may be.
        let word = "x".repeat(200);
        let lines = of(&word, 200.0);
        assert!(lines.len() == 1 && lines[0].ends_with("x…") && font::width(&lines[0], 15.0) <= 200.0, "{lines:?}");
        let lines = broken(&"word ".repeat(100), 12.0, false, 100.0, 3);
        assert!(lines.len() == 3 && lines[2].ends_with('…') && !lines[1].ends_with('…'), "{lines:?}");
        assert_eq!(of("", 100.0), [""]);
    }
}
