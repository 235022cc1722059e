//! Pictures as PDF: one page, vectors, text that can be searched, cells as one image. The same bytes for the same picture.

use super::{Anchor, Colour, Figure, Font, Item, Pixels, Polyline, Style, Text};
use crate::draw::palette::Theme;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use pdf_writer::types::{CidFontType, FontFlags, LineJoinStyle, SystemInfo, TextRenderingMode, UnicodeCmap};
use pdf_writer::{Content, Dict, Filter, Finish as _, Name, Pdf, Rect, Ref, Str, TextStr};
use std::collections::BTreeMap;
use std::io::Write as _;

/// Points a unit: a report's chart of 600 units is as wide as a column of text.
const POINTS: f64 = 0.75;
const FONT_NAMES: [Name<'static>; 2] = [Name(b"F0"), Name(b"F1")];

#[expect(clippy::cast_possible_truncation, reason = "a place on a page")]
fn f(value: f64) -> f32 {
    value as f32
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    // Writing to a Vec cannot fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

#[derive(Default)]
struct Used<'a> {
    theme: Theme,
    /// Opacities in thousandths.
    alphas: Vec<u16>,
    images: Vec<&'a Pixels>,
    /// Of each weight: glyphs with their letter and width.
    glyphs: [BTreeMap<u16, (char, f64)>; 2],
}

impl Used<'_> {
    fn alpha(&mut self, alpha: f64) -> String {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1000")]
        let alpha = (alpha.clamp(0.0, 1.0) * 1000.0).round() as u16;
        let place = self.alphas.iter().position(|known| *known == alpha).unwrap_or_else(|| {
            self.alphas.push(alpha);
            self.alphas.len() - 1
        });
        format!("G{place}")
    }
}

fn rgb(colour: Colour, theme: Theme) -> [f32; 3] {
    colour.rgb(theme).map(|part| f32::from(part) / 255.0)
}

fn painted(page: &mut Content, used: &mut Used<'_>, style: &Style, outline: impl FnOnce(&mut Content)) {
    page.save_state();
    let alpha = style.fill.or(style.stroke).map_or(1.0, |paint| paint.alpha);
    page.set_parameters(Name(used.alpha(alpha).as_bytes()));
    if let Some(paint) = style.fill {
        let [red, green, blue] = rgb(paint.colour, used.theme);
        page.set_fill_rgb(red, green, blue);
    }
    if let Some(paint) = style.stroke {
        let [red, green, blue] = rgb(paint.colour, used.theme);
        page.set_stroke_rgb(red, green, blue).set_line_width(f(style.width)).set_line_join(LineJoinStyle::RoundJoin);
        if let Some((stroke, gap)) = style.dash {
            page.set_dash_pattern([f(stroke), f(gap)], 0.0);
        }
    }
    outline(page);
    match (style.fill, style.stroke) {
        (Some(_), Some(_)) => page.fill_nonzero_and_stroke(),
        (Some(_), None) => page.fill_nonzero(),
        (None, Some(_)) => page.stroke(),
        (None, None) => page.end_path(),
    };
    page.restore_state();
}

fn outline(page: &mut Content, line: &Polyline) {
    for (place, (x, y)) in line.iter().enumerate() {
        if place == 0 {
            page.move_to(f(*x), f(*y))
        } else {
            page.line_to(f(*x), f(*y))
        };
    }
    if line.len() > 2 && line.first() == line.last() {
        page.close_path();
    }
}

fn circle((x, y): (f64, f64), radius: f64) -> Polyline {
    let corner = |number: u32| {
        let angle = f64::from(number % 48) / 48.0 * std::f64::consts::TAU;
        (x + radius * angle.cos(), y + radius * angle.sin())
    };
    (0..=48).map(corner).collect()
}

fn text(page: &mut Content, used: &mut Used<'_>, font: &Font, text: &Text) {
    let glyphs = font.glyphs(&text.text, text.bold);
    let wide = glyphs.iter().map(|(_, _, wide)| wide).sum::<f64>() * text.size / 1000.0;
    let before = match text.anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => wide / 2.0,
        Anchor::End => wide,
    };
    let weight = usize::from(text.bold);
    let mut bytes = Vec::with_capacity(glyphs.len() * 2);
    for (letter, glyph, wide) in glyphs {
        bytes.extend(glyph.to_be_bytes());
        if let Some(known) = used.glyphs.get_mut(weight) {
            known.insert(glyph, (letter, wide));
        }
    }
    page.save_state();
    page.set_parameters(Name(used.alpha(1.0).as_bytes()));
    // The page's y runs down, letters stand up.
    let matrix = [1.0, 0.0, 0.0, -1.0, f(text.x - before), f(text.y)];
    let rim = text.halo.then_some((TextRenderingMode::Stroke, Colour::PAGE));
    for (mode, colour) in rim.into_iter().chain([(TextRenderingMode::Fill, text.colour)]) {
        let [red, green, blue] = rgb(colour, used.theme);
        page.set_stroke_rgb(red, green, blue).set_fill_rgb(red, green, blue);
        page.set_line_width(3.0).set_line_join(LineJoinStyle::RoundJoin);
        page.begin_text().set_font(FONT_NAMES[weight.min(1)], f(text.size)).set_text_rendering_mode(mode);
        page.set_text_matrix(matrix).show(Str(&bytes)).end_text();
    }
    page.restore_state();
}

struct Numbers(i32);

impl Numbers {
    fn next(&mut self) -> Ref {
        self.0 += 1;
        Ref::new(self.0)
    }
}

impl Figure {
    pub(crate) fn pdf(&self, scale: f64) -> Vec<u8> {
        let points = POINTS * scale;
        let (mut page, mut used) = (Content::new(), Used { theme: self.theme, ..Used::default() });
        let (across, down) = (-self.left * points, (self.height + self.top) * points);
        page.transform([f(points), 0.0, 0.0, f(-points), f(across), f(down)]);
        let paper = Item::Rect(Style::fill(Colour::PAGE), [self.left, self.top, self.width, self.height]);
        for all in [std::slice::from_ref(&paper), &self.items] {
            items(&mut page, &mut used, &self.font, all);
        }
        file(self, points, &page.finish(), &used)
    }
}

fn items<'a>(page: &mut Content, used: &mut Used<'a>, font: &Font, all: &'a [Item]) {
    for item in all {
        match item {
            Item::Path(style, lines) => {
                painted(page, used, style, |page| lines.iter().for_each(|line| outline(page, line)));
            }
            Item::Circle(style, centre, radius) => {
                painted(page, used, style, |page| outline(page, &circle(*centre, *radius)));
            }
            Item::Rect(style, place) => painted(page, used, style, |page| {
                let [x, y, width, height] = place.map(f);
                page.rect(x, y, width, height);
            }),
            Item::Text(line) => text(page, used, font, line),
            Item::Image(left, top, pixels) => {
                used.images.push(pixels);
                let (wide, high) = (f(pixels.width as f64), f(pixels.height as f64));
                page.save_state().transform([wide, 0.0, 0.0, -high, f(*left), f(*top) + high]);
                page.x_object(Name(format!("I{}", used.images.len() - 1).as_bytes())).restore_state();
            }
            Item::Series(_, inner) => items(page, used, font, inner),
            Item::Tip(_, inner) => items(page, used, font, std::slice::from_ref(inner)),
        }
    }
}

fn file(figure: &Figure, points: f64, content: &[u8], used: &Used<'_>) -> Vec<u8> {
    let mut numbers = Numbers(0);
    let [catalog, pages, page, body, info] = std::array::from_fn(|_| numbers.next());
    let mut pdf = Pdf::new();
    pdf.catalog(catalog).pages(pages);
    pdf.pages(pages).kids([page]).count(1);
    pdf.document_info(info)
        .title(TextStr(&figure.title))
        .subject(TextStr(&figure.description))
        .creator(TextStr("windhover"));
    pdf.stream(body, &packed(content)).filter(Filter::FlateDecode);
    let images: Vec<Ref> = used.images.iter().map(|pixels| image(&mut pdf, &mut numbers, pixels)).collect();
    let mut fonts = Vec::new();
    for (weight, glyphs) in used.glyphs.iter().enumerate() {
        fonts.push(font(&mut pdf, &mut numbers, &figure.font, weight == 1, glyphs));
    }
    let states: Vec<Ref> = used
        .alphas
        .iter()
        .map(|alpha| {
            let id = numbers.next();
            let alpha = f32::from(*alpha) / 1000.0;
            pdf.ext_graphics(id).stroking_alpha(alpha).non_stroking_alpha(alpha);
            id
        })
        .collect();
    let mut sheet = pdf.page(page);
    sheet.parent(pages).contents(body);
    sheet.media_box(Rect::new(0.0, 0.0, f(figure.width * points), f(figure.height * points)));
    let mut resources = sheet.resources();
    let named = |mut resources: Dict<'_>, letter: char, ids: &[Ref]| {
        for (place, id) in ids.iter().enumerate() {
            resources.pair(Name(format!("{letter}{place}").as_bytes()), id);
        }
    };
    named(resources.ext_g_states(), 'G', &states);
    named(resources.x_objects(), 'I', &images);
    named(resources.fonts(), 'F', &fonts);
    resources.finish();
    sheet.finish();
    pdf.finish()
}

fn image(pdf: &mut Pdf, numbers: &mut Numbers, pixels: &Pixels) -> Ref {
    let id = numbers.next();
    let data = packed(&pixels.data);
    let side = |side: usize| i32::try_from(side).unwrap_or(i32::MAX);
    let mut image = pdf.image_xobject(id, &data);
    image.filter(Filter::FlateDecode);
    image.width(side(pixels.width)).height(side(pixels.height)).bits_per_component(8);
    image.interpolate(false);
    let last = side(pixels.palette.len()) - 1;
    image.color_space().indexed(Name(b"DeviceRGB"), last, pixels.palette.as_flattened());
    image.finish();
    id
}

fn font(pdf: &mut Pdf, numbers: &mut Numbers, font: &Font, bold: bool, glyphs: &BTreeMap<u16, (char, f64)>) -> Ref {
    let [id, cid, descriptor, data, letters] = std::array::from_fn(|_| numbers.next());
    let weight = if bold { "Bold" } else { "Regular" };
    let name = format!("{}-{weight}", font.family.replace(|letter: char| !letter.is_ascii_alphanumeric(), ""));
    let (name, system) =
        (Name(name.as_bytes()), SystemInfo { registry: Str(b"Adobe"), ordering: Str(b"Identity"), supplement: 0 });
    pdf.type0_font(id)
        .base_font(name)
        .encoding_predefined(Name(b"Identity-H"))
        .descendant_font(cid)
        .to_unicode(letters);
    let mut face = pdf.cid_font(cid);
    face.subtype(CidFontType::Type2).base_font(name).system_info(system).font_descriptor(descriptor);
    face.default_width(0.0).cid_to_gid_map_predefined(Name(b"Identity"));
    let mut widths = face.widths();
    for (glyph, (_, wide)) in glyphs {
        widths.consecutive(*glyph, [f(*wide)]);
    }
    widths.finish();
    face.finish();
    pdf.font_descriptor(descriptor)
        .name(name)
        .flags(FontFlags::NON_SYMBOLIC)
        .bbox(Rect::new(-500.0, -300.0, 1500.0, 1100.0))
        .italic_angle(0.0)
        .ascent(928.0)
        .descent(-244.0)
        .cap_height(711.0)
        .stem_v(if bold { 140.0 } else { 80.0 })
        .font_file2(data);
    let bytes = packed(font.bytes(bold));
    let length = i32::try_from(font.bytes(bold).len()).unwrap_or(i32::MAX);
    pdf.stream(data, &bytes).filter(Filter::FlateDecode).pair(Name(b"Length1"), length);
    let mut map = UnicodeCmap::new(Name(b"Letters"), system);
    for (glyph, (letter, _)) in glyphs {
        map.pair(*glyph, *letter);
    }
    pdf.cmap(letters, &map.finish());
    id
}
