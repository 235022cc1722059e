//! A small SVG writer: enough for line charts with bands, tails and strips. The same input gives the same bytes.
//!
//! Colours, strokes and fonts are CSS classes of the page (`s0` … for series, `grid`, `axis`, `tick`, `name`), so that
//! light, dark and print need no second picture.

mod frame;
mod key;
mod lines;
mod scale;
mod strips;
mod tail;

pub(crate) use frame::{Plot, time_axis_y};
pub(crate) use key::{Name, Names, ROOM};
pub(crate) use lines::{Across, LineChart, Point, Series, Shown};
pub(crate) use scale::Domain;
pub(crate) use strips::{Strip, StripGroup, Strips};
pub(crate) use tail::{Curve, Shares, TailChart};

use crate::units::escape;
use std::fmt::Write;

/// Colours of the palette; more series than that repeat them with dashes.
pub(crate) const COLOURS: usize = 7;

/// CSS classes of a series: its colour, and dashes from the second round on.
pub(crate) fn series_class(style: usize) -> String {
    let round = style / COLOURS;
    if round == 0 { format!("s{style}") } else { format!("s{} d{}", style % COLOURS, 1 + (round - 1) % 2) }
}

/// A coordinate with one decimal, without trailing zeros and without a negative zero.
pub(crate) fn xy(value: f64) -> String {
    let rounded = (value * 10.0).round() / 10.0;
    let rounded = if rounded == 0.0 { 0.0 } else { rounded };
    let text = format!("{rounded:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// A picture under construction.
pub(crate) struct Svg {
    out: String,
}

/// How text is anchored.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// A picture with a title and a description for screen readers. `id` must be unique in the page.
    pub(crate) fn new(id: &str, width: f64, height: f64, title: &str, description: &str) -> Self {
        let (id, title, description) = (escape(id), escape(title), escape(description));
        let (w, h) = (xy(width), xy(height));
        Self {
            out: format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" role=\"img\" \
                 aria-labelledby=\"{id}-t {id}-d\">\n<title id=\"{id}-t\">{title}</title>\n<desc id=\"{id}-d\">{description}</desc>\n"
            ),
        }
    }

    pub(crate) fn line(&mut self, class: &str, x1: f64, y1: f64, x2: f64, y2: f64) {
        let _ = writeln!(
            self.out,
            "<line class=\"{class}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>",
            xy(x1),
            xy(y1),
            xy(x2),
            xy(y2)
        );
    }

    pub(crate) fn rect(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64) {
        let _ = writeln!(
            self.out,
            "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
            xy(x),
            xy(y),
            xy(width.max(0.0)),
            xy(height.max(0.0))
        );
    }

    pub(crate) fn path(&mut self, class: &str, data: &str) {
        let _ = writeln!(self.out, "<path class=\"{class}\" d=\"{data}\"/>");
    }

    pub(crate) fn text(&mut self, class: &str, x: f64, y: f64, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = writeln!(
            self.out,
            "<text class=\"{class}\" x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            xy(x),
            xy(y),
            escape(text)
        );
    }

    /// Opens a group of one series; `tip` is shown when the pointer rests on it.
    pub(crate) fn open(&mut self, class: &str, tip: &str) {
        let _ = writeln!(self.out, "<g class=\"{class}\">");
        if !tip.is_empty() {
            let _ = writeln!(self.out, "<title>{}</title>", escape(tip));
        }
    }

    pub(crate) fn close(&mut self) {
        self.out.push_str("</g>\n");
    }

    /// A small sign at a point: circle, square, triangle or diamond, by series, so that colour is never needed.
    pub(crate) fn marker(&mut self, class: &str, style: usize, x: f64, y: f64, tip: &str) {
        let shape = match style % 4 {
            0 => format!("M{} {}a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0 -6.4 0z", xy(x - 3.2), xy(y)),
            1 => format!("M{} {}h5.8v5.8h-5.8z", xy(x - 2.9), xy(y - 2.9)),
            2 => format!("M{} {}l3.7 6.4h-7.4z", xy(x), xy(y - 3.9)),
            _ => format!("M{} {}l3.9 3.9l-3.9 3.9l-3.9 -3.9z", xy(x), xy(y - 3.9)),
        };
        if tip.is_empty() {
            self.path(class, &shape);
        } else {
            let _ = writeln!(self.out, "<path class=\"{class}\" d=\"{shape}\"><title>{}</title></path>", escape(tip));
        }
    }

    pub(crate) fn finish(mut self) -> String {
        self.out.push_str("</svg>\n");
        self.out
    }
}

/// A sample of a series' line and sign, for legends.
pub(crate) fn swatch(style: usize) -> String {
    let class = series_class(style);
    let mut svg = Svg {
        out: "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"swatch\" viewBox=\"0 0 28 12\" width=\"28\" height=\"12\" aria-hidden=\"true\">\n"
            .to_owned(),
    };
    svg.path(&format!("curve {class}"), "M1 6H27");
    svg.marker(&format!("dot {class}"), style, 14.0, 6.0, "");
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short_and_never_minus_zero() {
        assert_eq!((xy(-0.01), xy(1.25), xy(100.0)), ("0".to_owned(), "1.3".to_owned(), "100".to_owned()));
    }

    #[test]
    fn colours_repeat_with_dashes() {
        assert_eq!(series_class(3), "s3");
        assert_eq!(series_class(7), "s0 d1");
        assert_eq!(series_class(14), "s0 d2");
    }

    #[test]
    fn text_from_outside_stays_text() {
        let mut svg = Svg::new("x", 10.0, 10.0, "<script>", "\"d\"");
        svg.text("t", 1.0, 1.0, Anchor::Start, "<script>alert(1)</script>");
        let out = svg.finish();
        assert!(!out.contains("<script"), "{out}");
    }
}
