//! Pictures as SVG: every element carries its own colours, so that any program shows the same.

use super::{Figure, Hold, Item, Paint, Pixels, Style, Text, ink, png};
use crate::svg::xy;
use crate::units::escape;
use base64::Engine as _;
use std::fmt::Write as _;

fn colour(attribute: &str, paint: Option<Paint>) -> String {
    let Some(Paint { rgb: [r, g, b], alpha }) = paint else { return format!(" {attribute}=\"none\"") };
    let opacity = if alpha < 1.0 { format!(" {attribute}-opacity=\"{alpha}\"") } else { String::new() };
    format!(" {attribute}=\"#{r:02x}{g:02x}{b:02x}\"{opacity}")
}

fn style(style: &Style) -> String {
    let mut out = colour("fill", style.fill);
    if style.stroke.is_some() {
        out.push_str(&colour("stroke", style.stroke));
        let _ = write!(out, " stroke-width=\"{}\" stroke-linejoin=\"round\"", style.width);
        if let Some((stroke, gap)) = style.dash {
            let _ = write!(out, " stroke-dasharray=\"{stroke} {gap}\"");
        }
    }
    out
}

fn text(out: &mut String, text: &Text) {
    let hold = match text.hold {
        Hold::Start => "",
        Hold::Middle => " text-anchor=\"middle\"",
        Hold::End => " text-anchor=\"end\"",
    };
    let (x, y) = (xy(text.x), xy(text.y));
    let turned = if text.turned { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() };
    let bold = if text.bold { " font-weight=\"600\"" } else { "" };
    let halo = text.halo.map_or_else(String::new, |halo| {
        format!(
            "{} stroke-width=\"3\" stroke-linejoin=\"round\" paint-order=\"stroke\"",
            colour("stroke", Some(halo.into()))
        )
    });
    let _ = writeln!(
        out,
        "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\"{bold}{hold}{turned}{}{halo}>{}</text>",
        text.size,
        colour("fill", Some(text.colour.into())),
        escape(&text.text)
    );
}

fn image(out: &mut String, left: f64, top: f64, pixels: &Pixels) {
    let data = base64::engine::general_purpose::STANDARD.encode(png::indexed(pixels));
    let _ = writeln!(
        out,
        "<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" \
         style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{data}\"/>",
        xy(left),
        xy(top),
        pixels.width,
        pixels.height,
    );
}

/// The element that holds a picture, open.
fn head(figure: &Figure, scale: f64) -> String {
    let (w, h) = (xy(figure.width), xy(figure.height));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {h}\" width=\"{}\" height=\"{}\" role=\"img\" \
         font-family=\"{}\">\n",
        xy(figure.width * scale),
        xy(figure.height * scale),
        escape(&figure.font.families())
    )
}

fn page(out: &mut String, figure: &Figure) {
    let (w, h) = (xy(figure.width), xy(figure.height));
    let _ =
        writeln!(out, "<rect width=\"{w}\" height=\"{h}\"{}/>", colour("fill", Some(ink(figure.theme).page.into())));
}

fn items(out: &mut String, items: &[Item]) {
    for item in items {
        match item {
            Item::Path(how, data) => {
                let _ = writeln!(out, "<path d=\"{data}\"{}/>", style(how));
            }
            Item::Rect(how, [x, y, width, height]) => {
                let _ = writeln!(
                    out,
                    "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}/>",
                    xy(*x),
                    xy(*y),
                    xy(width.max(0.0)),
                    xy(height.max(0.0)),
                    style(how)
                );
            }
            Item::Text(line) => text(out, line),
            Item::Image(left, top, pixels) => image(out, *left, *top, pixels),
        }
    }
}

/// Some things of a picture; `with_page` on its background.
pub(crate) fn part(figure: &Figure, some: &[Item], with_page: bool) -> String {
    let mut out = head(figure, 1.0);
    if with_page {
        page(&mut out, figure);
    }
    items(&mut out, some);
    out.push_str("</svg>\n");
    out
}

/// The whole picture, so many times as large.
pub(crate) fn svg(figure: &Figure, scale: f64) -> String {
    let mut out = head(figure, scale);
    let _ = writeln!(out, "<title>{}</title>\n<desc>{}</desc>", escape(&figure.title), escape(&figure.description));
    if !figure.facts.is_empty() {
        out.push_str("<metadata>");
        for (name, text) in &figure.facts {
            let _ = write!(out, "{name}: {}; ", escape(text));
        }
        out.truncate(out.trim_end_matches("; ").len());
        out.push_str("</metadata>\n");
    }
    page(&mut out, figure);
    items(&mut out, &figure.items);
    out.push_str("</svg>\n");
    out
}
