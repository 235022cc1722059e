//! Pictures: a list of drawn items, written as SVG, PNG or PDF. The same picture gives the same bytes.

mod colour;
mod font;
mod pdf;
mod raster;
mod svg;
mod text;

pub(crate) use colour::{COLOURS, Colour};
pub use font::Font;
pub(crate) use font::width;
pub(crate) use text::{Anchor, Text, broken, fits, words};

use crate::draw::palette::{Rgb, Theme};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Paint {
    pub(crate) colour: Colour,
    /// 0 to 1.
    pub(crate) alpha: f64,
}

impl<T: Into<Colour>> From<T> for Paint {
    fn from(colour: T) -> Self {
        Self { colour: colour.into(), alpha: 1.0 }
    }
}

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

    pub(crate) fn faded(mut self, alpha: f64) -> Self {
        for paint in self.fill.iter_mut().chain(&mut self.stroke) {
            paint.alpha = alpha;
        }
        self
    }
}

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
    pub(crate) fn new(width: usize, height: usize, palette: Vec<Rgb>) -> Self {
        Self { width, height, palette, data: vec![0; width * height] }
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

/// A line through points: closed where it ends at its first one.
pub(crate) type Polyline = Vec<(f64, f64)>;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Item {
    Path(Style, Vec<Polyline>),
    /// Centre and radius.
    Circle(Style, (f64, f64), f64),
    /// Left, top, width, height.
    Rect(Style, [f64; 4]),
    Text(Text),
    /// Left, top; one pixel of the image is one unit wide and high.
    Image(f64, f64, Pixels),
    /// What belongs to one series, and what a page says of it where the pointer rests.
    Series(String, Vec<Item>),
    /// A thing with words of its own for the pointer.
    Tip(String, Box<Item>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    /// Coordinates of its upper left corner.
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) theme: Theme,
    pub(crate) items: Vec<Item>,
    /// What a file says of itself: run, cell, scale, tool.
    pub(crate) facts: Vec<(&'static str, String)>,
    pub(crate) font: Font,
}

const EDGE: f64 = 14.0;
const LINES: usize = 4;
/// Room above a headed figure for one line of its heading, and around it.
const HEAD: f64 = 34.0;
const MARGIN: f64 = 14.0;

impl Figure {
    pub(crate) fn new(width: f64, height: f64, title: String, description: String) -> Self {
        let (left, top) = (0.0, 0.0);
        let (theme, font) = (Theme::default(), Font::default());
        Self { left, top, width, height, title, description, theme, items: Vec::new(), facts: Vec::new(), font }
    }

    pub(crate) fn line(&mut self, style: Style, x1: f64, y1: f64, x2: f64, y2: f64) {
        self.path(style, vec![vec![(x1, y1), (x2, y2)]]);
    }

    pub(crate) fn rect(&mut self, style: Style, x: f64, y: f64, width: f64, height: f64) {
        self.items.push(Item::Rect(style, [x, y, width.max(0.0), height.max(0.0)]));
    }

    pub(crate) fn path(&mut self, style: Style, lines: Vec<Polyline>) {
        if !lines.is_empty() {
            self.items.push(Item::Path(style, lines));
        }
    }

    pub(crate) fn circle(&mut self, style: Style, centre: (f64, f64), radius: f64) {
        self.items.push(Item::Circle(style, centre, radius));
    }

    pub(crate) fn text(&mut self, text: Text) {
        self.items.push(Item::Text(text));
    }

    pub(crate) fn image(&mut self, left: f64, top: f64, pixels: Pixels) {
        self.items.push(Item::Image(left, top, pixels));
    }

    /// A small sign at a point: circle, square, triangle or diamond, by series, so that colour is never needed.
    pub(crate) fn marker(&mut self, style: Style, series: usize, (x, y): (f64, f64), tip: &str) {
        let polygon = |corners: &[(f64, f64)]| {
            let closed = corners.iter().chain(corners.first());
            Item::Path(style, vec![closed.map(|(dx, dy)| (x + dx, y + dy)).collect()])
        };
        let item = match series % 4 {
            0 => Item::Circle(style, (x, y), 3.2),
            1 => polygon(&[(-2.9, -2.9), (2.9, -2.9), (2.9, 2.9), (-2.9, 2.9)]),
            2 => polygon(&[(0.0, -3.9), (3.7, 2.5), (-3.7, 2.5)]),
            _ => polygon(&[(0.0, -3.9), (3.9, 0.0), (0.0, 3.9), (-3.9, 0.0)]),
        };
        self.items.push(if tip.is_empty() { item } else { Item::Tip(tip.to_owned(), Box::new(item)) });
    }

    /// What `draw` adds belongs to one series.
    pub(crate) fn series(&mut self, tip: &str, draw: impl FnOnce(&mut Self)) {
        let before = std::mem::take(&mut self.items);
        draw(self);
        let items = std::mem::replace(&mut self.items, before);
        self.items.push(Item::Series(tip.to_owned(), items));
    }

    /// A text in as many lines, `step` apart, as the picture's width needs; returns where the next one may be.
    pub(crate) fn lines(&mut self, text: &Text, step: f64) -> f64 {
        let mut y = text.y;
        for line in self.fitting(text, LINES) {
            self.text(Text { y, text: line, ..text.clone() });
            y += step;
        }
        y
    }

    fn fitting(&self, text: &Text, most: usize) -> Vec<String> {
        broken(&text.text, fits(text.size, text.bold, self.left + self.width - text.x - EDGE), Some(most))
    }

    pub(crate) fn headed(mut self, heading: &str, theme: Theme) -> Self {
        self.theme = theme;
        heading.clone_into(&mut self.title);
        (self.left, self.width) = (self.left - MARGIN, self.width + 2.0 * MARGIN);
        let title = |y| Text { bold: true, ..words(0.0, y, Anchor::Start, 14.0, Colour::INK, heading) };
        let head = HEAD + 18.0 * (self.fitting(&title(0.0), LINES).len() as f64 - 1.0);
        (self.top, self.height) = (self.top - head, self.height + head + MARGIN);
        let chart = std::mem::take(&mut self.items);
        self.lines(&title(self.top + 22.0), 18.0);
        self.items.extend(chart);
        self
    }

    /// Puts another title in the place of its own, in as many lines as that has.
    pub(crate) fn set_title(&mut self, title: &str) {
        title.clone_into(&mut self.title);
        let bold =
            |item: &Item| if let Item::Text(text) = item { Some(text.clone()).filter(|text| text.bold) } else { None };
        let Some(first) = self.items.iter().position(|item| bold(item).is_some()) else { return };
        let own: Vec<Text> = self.items.iter().skip(first).map_while(bold).collect();
        let lines = own.first().map(|line| self.fitting(&Text { text: title.to_owned(), ..line.clone() }, own.len()));
        let placed = own.iter().zip(lines.into_iter().flatten());
        let placed: Vec<Item> = placed.map(|(own, text)| Item::Text(Text { text, ..own.clone() })).collect();
        self.items.splice(first..first + own.len(), placed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_keeps_its_colours_without_a_style_sheet() {
        let mut figure = Figure::new(60.0, 30.0, "t".into(), "words & more".into());
        figure.series("tip", |figure| {
            let style = Style::stroke(Colour::series(1), 1.9).dashed(6.0, 3.5);
            figure.path(style, vec![vec![(1.0, 2.0), (3.0, 4.0), (3.0, 8.0)]]);
            figure.marker(Style::fill(Colour::series(1)), 1, (3.0, 4.0), "a <point>");
        });
        figure.text(words(4.0, 5.0, Anchor::End, 12.0, Colour::SOFT, "5 µs <"));
        let page = figure.in_page("");
        for part in
            ["var(--s1)", "<title>tip</title>", "<title>a &lt;point&gt;</title>", "d=\"M1 2L3 4V8\"", "5 µs &lt;<"]
        {
            assert!(page.contains(part), "{part}: {page}");
        }
        let alone = figure.clone().headed("h", Theme::Light);
        assert_eq!((alone.width, alone.height), (88.0, 78.0));
        let out = alone.svg(1.0);
        for part in ["stroke=\"#d55e00\"", "stroke-dasharray=\"6 3.5\"", "words &amp; more", ">h</text>"] {
            assert!(out.contains(part), "{part}: {out}");
        }
        assert!(!out.contains("var(") && !out.contains("tip"), "{out}");
        // A heading of two lines needs the room of one more.
        let two = figure.headed("twenty letters", Theme::Light);
        assert_eq!((two.width, two.height), (88.0, 96.0));
        assert!(two.svg(1.0).contains(">twenty</text>") && two.svg(1.0).contains(">letters</text>"), "{two:?}");
    }
}
