//! Pictures as SVG. Alone every element has its own colours; in a page they are the page's variables, for light, dark and print.

use super::{Anchor, Colour, Figure, Item, Paint, Pixels, Polyline, Style, Text, raster};
use crate::draw::palette::Theme;
use crate::units::escape;
use base64::Engine as _;
use std::fmt::Write as _;

/// A coordinate with one decimal, without trailing zeros and without a negative zero.
fn xy(value: f64) -> String {
    let rounded = (value * 10.0).round() / 10.0;
    let rounded = if rounded == 0.0 { 0.0 } else { rounded };
    let text = format!("{rounded:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

fn path_data(lines: &[Polyline]) -> String {
    let mut out = String::new();
    for line in lines.iter().filter(|line| line.len() > 1) {
        let closed = line.len() > 2 && line.first() == line.last();
        let mut before = (String::new(), String::new());
        for (place, (x, y)) in line.iter().take(line.len() - usize::from(closed)).enumerate() {
            let at = (xy(*x), xy(*y));
            let _ = match (place, at.0 == before.0, at.1 == before.1) {
                (0, ..) => write!(out, "M{} {}", at.0, at.1),
                (_, true, true) => Ok(()),
                (_, _, true) => write!(out, "H{}", at.0),
                (_, true, _) => write!(out, "V{}", at.1),
                _ => write!(out, "L{} {}", at.0, at.1),
            };
            before = at;
        }
        out.push_str(if closed { "z" } else { "" });
    }
    out
}

/// A picture being written; without a theme its colours are the page's.
struct Writer {
    out: String,
    theme: Option<Theme>,
}

impl Writer {
    /// The element that holds a picture, open.
    fn new(figure: &Figure, scale: f64, theme: Option<Theme>, attributes: &str) -> Self {
        let (w, h) = (xy(figure.width), xy(figure.height));
        let out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{} {} {w} {h}\" width=\"{}\" height=\"{}\" \
             fill=\"none\" stroke-linejoin=\"round\" {attributes}>\n",
            xy(figure.left),
            xy(figure.top),
            xy(figure.width * scale),
            xy(figure.height * scale),
        );
        Self { out, theme }
    }

    fn about(&mut self, figure: &Figure) {
        let (title, description) = (escape(&figure.title), escape(&figure.description));
        let _ = writeln!(self.out, "<title>{title}</title>\n<desc>{description}</desc>");
    }

    fn colour(&self, attribute: &str, paint: Option<Paint>) -> String {
        let Some(Paint { colour, alpha }) = paint else { return String::new() };
        let opacity = if alpha < 1.0 { format!(" {attribute}-opacity=\"{alpha}\"") } else { String::new() };
        format!(" {attribute}=\"{}\"{opacity}", colour.css(self.theme))
    }

    fn style(&self, style: &Style) -> String {
        let mut out = self.colour("fill", style.fill);
        if style.stroke.is_some() {
            out.push_str(&self.colour("stroke", style.stroke));
            let _ = write!(out, " stroke-width=\"{}\"", style.width);
            if let Some((stroke, gap)) = style.dash {
                let _ = write!(out, " stroke-dasharray=\"{stroke} {gap}\"");
            }
        }
        out
    }

    fn rect(&mut self, style: &Style, [x, y, width, height]: [f64; 4]) {
        let [x, y, width, height] = [x, y, width, height].map(xy);
        let style = self.style(style);
        let _ = writeln!(self.out, "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"{style}/>");
    }

    fn text(&mut self, text: &Text) {
        let anchor = match text.anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let bold = if text.bold { " font-weight=\"600\"" } else { "" };
        let mut colours = self.colour("fill", Some(text.colour.into()));
        if text.halo {
            colours.push_str(&self.colour("stroke", Some(Colour::PAGE.into())));
            colours.push_str(" stroke-width=\"3\" paint-order=\"stroke\"");
        }
        let _ = writeln!(
            self.out,
            "<text x=\"{}\" y=\"{}\" font-size=\"{}\"{bold}{anchor}{colours}>{}</text>",
            xy(text.x),
            xy(text.y),
            text.size,
            escape(&text.text)
        );
    }

    fn image(&mut self, left: f64, top: f64, pixels: &Pixels) {
        let png = raster::encoded([pixels.width, pixels.height], Some(&pixels.palette), &pixels.data, &[]);
        let data = base64::engine::general_purpose::STANDARD.encode(png);
        let _ = writeln!(
            self.out,
            "<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" \
             style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{data}\"/>",
            xy(left),
            xy(top),
            pixels.width,
            pixels.height,
        );
    }

    fn items(&mut self, items: &[Item]) {
        for item in items {
            match item {
                Item::Path(style, lines) => {
                    let _ = writeln!(self.out, "<path d=\"{}\"{}/>", path_data(lines), self.style(style));
                }
                Item::Circle(style, (x, y), radius) => {
                    let (x, y, style) = (xy(*x), xy(*y), self.style(style));
                    let _ = writeln!(self.out, "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"{style}/>");
                }
                Item::Rect(style, place) => self.rect(style, *place),
                Item::Text(text) => self.text(text),
                Item::Image(left, top, pixels) => self.image(*left, *top, pixels),
                Item::Series(tip, items) => self.group(" class=\"series\"", tip, items),
                Item::Tip(tip, item) => self.group("", tip, std::slice::from_ref(item)),
            }
        }
    }

    /// A group with words for the pointer; alone a picture has none.
    fn group(&mut self, class: &str, tip: &str, items: &[Item]) {
        if self.theme.is_some() {
            return self.items(items);
        }
        let _ = writeln!(self.out, "<g{class}>");
        if !tip.is_empty() {
            let _ = writeln!(self.out, "<title>{}</title>", escape(tip));
        }
        self.items(items);
        self.out.push_str("</g>\n");
    }

    fn finish(mut self) -> String {
        self.out.push_str("</svg>\n");
        self.out
    }
}

impl Figure {
    /// The picture in a page, with `attributes` in its first element. With a title it is one for screen readers too.
    pub(crate) fn in_page(&self, attributes: &str) -> String {
        let mut svg = Writer::new(self, 1.0, None, attributes);
        if !self.title.is_empty() {
            svg.about(self);
        }
        svg.items(&self.items);
        svg.finish()
    }

    pub(crate) fn svg(&self, scale: f64) -> String {
        let families = format!("role=\"img\" font-family=\"{}\"", escape(&self.font.families()));
        let mut svg = Writer::new(self, scale, Some(self.theme), &families);
        svg.about(self);
        if !self.facts.is_empty() {
            let facts: Vec<String> =
                self.facts.iter().map(|(name, text)| format!("{name}: {}", escape(text))).collect();
            let _ = writeln!(svg.out, "<metadata>{}</metadata>", facts.join("; "));
        }
        svg.rect(&Style::fill(Colour::PAGE), [self.left, self.top, self.width, self.height]);
        svg.items(&self.items);
        svg.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::figure::words;

    #[test]
    fn coordinates_are_short_and_never_minus_zero() {
        assert_eq!((xy(-0.01), xy(1.25), xy(100.0)), ("0".to_owned(), "1.3".to_owned(), "100".to_owned()));
        let square = vec![(0.0, 0.0), (5.0, 0.0), (5.0, 5.0), (0.0, 5.0), (0.0, 0.0)];
        assert_eq!(path_data(&[square, vec![(1.0, 2.0), (3.0, 4.0)]]), "M0 0H5V5H0zM1 2L3 4");
    }

    #[test]
    fn text_from_outside_stays_text() {
        let mut figure = Figure::new(10.0, 10.0, "<script>".into(), "\"d\"".into());
        figure.text(words(1.0, 1.0, Anchor::Start, 12.0, Colour::INK, "<script>alert(1)</script>"));
        figure.series("<script>", |_| ());
        assert!(![figure.in_page(""), figure.svg(1.0)].concat().contains("<script"));
    }
}
