//! Pictures as PNG: vectors and the outlines of letters by tiny-skia; cells stay a whole number of pixels.

use super::{Anchor, Colour, Figure, Item, Paint, Pixels, Polyline, Style, Text};
use crate::draw::palette::Rgb;
use png::{BitDepth, ColorType, Encoder, Filter};
use tiny_skia::{
    ColorU8, FillRule, LineJoin, Path, PathBuilder, Pixmap, PixmapPaint, Point, PremultipliedColorU8, Rect, Shader,
    Stroke, StrokeDash, Transform,
};
use ttf_parser::OutlineBuilder;

/// A PNG file: of numbered colours where there is a palette, else of red, green and blue; with what it says of itself.
pub(super) fn encoded(
    size: [usize; 2],
    palette: Option<&[Rgb]>,
    data: &[u8],
    facts: &[(&'static str, String)],
) -> Vec<u8> {
    let mut out = Vec::new();
    let [width, height] = size.map(|side| u32::try_from(side).unwrap_or(u32::MAX));
    let mut encoder = Encoder::new(&mut out, width, height);
    encoder.set_depth(BitDepth::Eight);
    if let Some(palette) = palette {
        encoder.set_color(ColorType::Indexed);
        encoder.set_palette(palette.as_flattened());
        // Cells repeat as they are.
        encoder.set_filter(Filter::NoFilter);
    } else {
        encoder.set_color(ColorType::Rgb);
        // Less the pixel above, which suits cells and axes.
        encoder.set_filter(Filter::Up);
    }
    // Writing to a Vec cannot fail.
    let _ = facts.iter().try_for_each(|(name, text)| match text.is_ascii() {
        true => encoder.add_text_chunk((*name).to_owned(), text.clone()),
        false => encoder.add_itxt_chunk((*name).to_owned(), text.clone()),
    });
    let _ = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(data)?;
        writer.finish()
    });
    out
}

#[expect(clippy::cast_possible_truncation, reason = "a place in a picture")]
fn f(value: f64) -> f32 {
    value as f32
}

impl Figure {
    /// The picture as PNG, each unit `zoom` pixels wide and high.
    pub(crate) fn png(&self, zoom: usize) -> Vec<u8> {
        let zoom = zoom.clamp(1, 8) as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a picture's size is bounded")]
        let [wide, high] = [self.width, self.height].map(|side| ((side * zoom).ceil().max(1.0) as u32).min(1 << 16));
        let Some(pixmap) = Pixmap::new(wide, high) else { return Vec::new() };
        let [left, top] = [self.left, self.top].map(|side| f(-side * zoom));
        let mut canvas =
            Canvas { figure: self, pixmap, transform: Transform::from_row(f(zoom), 0.0, 0.0, f(zoom), left, top) };
        let [red, green, blue] = Colour::PAGE.rgb(self.theme);
        canvas.pixmap.fill(tiny_skia::Color::from_rgba8(red, green, blue, 0xff));
        canvas.items(&self.items);
        // The page is opaque, so is all on it.
        let rgb = |pixel: &PremultipliedColorU8| [pixel.red(), pixel.green(), pixel.blue()];
        let data: Vec<u8> = canvas.pixmap.pixels().iter().flat_map(rgb).collect();
        encoded([wide as usize, high as usize], None, &data, &self.facts)
    }
}

struct Canvas<'a> {
    figure: &'a Figure,
    pixmap: Pixmap,
    transform: Transform,
}

impl Canvas<'_> {
    fn items(&mut self, items: &[Item]) {
        for item in items {
            match item {
                Item::Path(style, lines) => self.path(style, path(lines), self.transform),
                Item::Circle(style, (x, y), radius) => {
                    self.path(style, PathBuilder::from_circle(f(*x), f(*y), f(*radius)), self.transform);
                }
                Item::Rect(style, place) => {
                    let [x, y, width, height] = place.map(f);
                    let rect = Rect::from_xywh(x, y, width, height);
                    self.path(style, rect.map(PathBuilder::from_rect), self.transform);
                }
                Item::Text(line) => self.text(line),
                Item::Image(left, top, pixels) => self.image(*left, *top, pixels),
                Item::Series(_, items) => self.items(items),
                Item::Tip(_, item) => self.items(std::slice::from_ref(item)),
            }
        }
    }

    fn path(&mut self, style: &Style, path: Option<Path>, transform: Transform) {
        let Some(path) = path else { return };
        let paint = |Paint { colour, alpha }: Paint| {
            let [red, green, blue] = colour.rgb(self.figure.theme);
            let mut colour = tiny_skia::Color::from_rgba8(red, green, blue, 0xff);
            colour.apply_opacity(f(alpha));
            tiny_skia::Paint { shader: Shader::SolidColor(colour), ..tiny_skia::Paint::default() }
        };
        if let Some(fill) = style.fill.map(paint) {
            self.pixmap.fill_path(&path, &fill, FillRule::Winding, transform, None);
        }
        if let Some(line) = style.stroke.map(paint) {
            let dash = style.dash.and_then(|(stroke, gap)| StrokeDash::new(vec![f(stroke), f(gap)], 0.0));
            let stroke = Stroke { width: f(style.width), line_join: LineJoin::Round, dash, ..Stroke::default() };
            self.pixmap.stroke_path(&path, &line, &stroke, transform, None);
        }
    }

    fn text(&mut self, text: &Text) {
        let mut outline =
            Outline { path: PathBuilder::new(), x: 0.0, scale: 1000.0 / f32::from(self.figure.font.units(text.bold)) };
        for (_, glyph, wide) in self.figure.font.glyphs(&text.text, text.bold) {
            self.figure.font.outline(glyph, text.bold, &mut outline);
            outline.x += f(wide);
        }
        let before = match text.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => outline.x / 2.0,
            Anchor::End => outline.x,
        };
        // Letters stand up, the page's y runs down; outlines are those of a size of 1000.
        let size = f(text.size) / 1000.0;
        let place =
            self.transform.pre_translate(f(text.x), f(text.y)).pre_scale(size, -size).pre_translate(-before, 0.0);
        let Some(path) = outline.path.finish() else { return };
        if text.halo {
            self.path(&Style::stroke(Colour::PAGE, 3.0 * 1000.0 / text.size), Some(path.clone()), place);
        }
        self.path(&Style::fill(text.colour), Some(path), place);
    }

    fn image(&mut self, left: f64, top: f64, pixels: &Pixels) {
        let [wide, high] = [pixels.width, pixels.height].map(|side| u32::try_from(side).unwrap_or(u32::MAX));
        let Some(mut cells) = Pixmap::new(wide, high) else { return };
        for (cell, number) in cells.pixels_mut().iter_mut().zip(&pixels.data) {
            let [red, green, blue] = pixels.palette.get(usize::from(*number)).copied().unwrap_or_default();
            *cell = ColorU8::from_rgba(red, green, blue, 0xff).premultiply();
        }
        let mut place = self.transform.pre_translate(f(left), f(top));
        (place.tx, place.ty) = (place.tx.round(), place.ty.round());
        self.pixmap.draw_pixmap(0, 0, cells.as_ref(), &PixmapPaint::default(), place, None);
    }
}

fn path(lines: &[Polyline]) -> Option<Path> {
    let mut path = PathBuilder::new();
    for line in lines {
        for (place, (x, y)) in line.iter().enumerate() {
            if place == 0 { path.move_to(f(*x), f(*y)) } else { path.line_to(f(*x), f(*y)) }
        }
        if line.len() > 2 && line.first() == line.last() {
            path.close();
        }
    }
    path.finish()
}

struct Outline {
    path: PathBuilder,
    x: f32,
    /// From the font's units.
    scale: f32,
}

impl Outline {
    fn at(&self, x: f32, y: f32) -> Point {
        Point::from_xy(self.x + self.scale * x, self.scale * y)
    }
}

impl OutlineBuilder for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        let Point { x, y } = self.at(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let Point { x, y } = self.at(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, by_x: f32, by_y: f32, x: f32, y: f32) {
        let (by, to) = (self.at(by_x, by_y), self.at(x, y));
        self.path.quad_to(by.x, by.y, to.x, to.y);
    }

    fn curve_to(&mut self, from_x: f32, from_y: f32, to_x: f32, to_y: f32, x: f32, y: f32) {
        let (from, by, to) = (self.at(from_x, from_y), self.at(to_x, to_y), self.at(x, y));
        self.path.cubic_to(from.x, from.y, by.x, by.y, to.x, to.y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}
