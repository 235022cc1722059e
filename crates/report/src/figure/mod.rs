//! Pictures that stand alone: a list of drawn things with all colours resolved, written as SVG (deterministic bytes, no
//! style sheet, no script) or as PNG (by the rasteriser and the stroke font of this module, so that no font file and no
//! other program is needed).

mod font;
mod parse;
mod png;
mod raster;
mod vector;

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
}

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
        Self { width, height, title, description, theme, items: Vec::new(), facts: Vec::new() }
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

    pub(crate) fn image(&mut self, left: f64, top: f64, pixels: Pixels) {
        self.items.push(Item::Image(left, top, pixels));
    }

    /// The picture as SVG.
    pub(crate) fn svg(&self) -> String {
        vector::svg(self)
    }

    /// The picture as PNG, each unit `zoom` pixels wide and high.
    pub(crate) fn png(&self, zoom: usize) -> Vec<u8> {
        raster::png(self, zoom.clamp(1, 8))
    }
}
