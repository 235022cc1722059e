//! Pictures as PNG: vectors and text by resvg, cells pixel by pixel, so that each stays a whole number of pixels.

use super::{Figure, Item, Pixels, png, vector};
use crate::heat::Rgb;
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg;

/// The picture, each unit `zoom` pixels wide and high.
pub(crate) fn png(figure: &Figure, zoom: usize) -> Vec<u8> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a picture's size is bounded")]
    let [wide, high] =
        [figure.width, figure.height].map(|side| ((side * zoom as f64).ceil().max(1.0) as u32).min(1 << 16));
    let Some(mut pixmap) = Pixmap::new(wide, high) else { return Vec::new() };
    let options = usvg::Options {
        font_family: figure.font.family.clone(),
        fontdb: figure.font.database.clone(),
        ..usvg::Options::default()
    };
    let draw = |pixmap: &mut Pixmap, items: &[Item], is_first: bool| {
        let svg = vector::part(figure, items, is_first);
        // What we write ourselves is well-formed; a font that cannot be shown leaves the rest of the picture.
        if let Ok(tree) = usvg::Tree::from_str(&svg, &options) {
            let zoom = Transform::from_scale(zoom as f32, zoom as f32);
            resvg::render(&tree, zoom, &mut pixmap.as_mut());
        }
    };
    let mut from = 0;
    for (place, item) in figure.items.iter().enumerate() {
        let Item::Image(left, top, pixels) = item else { continue };
        draw(&mut pixmap, figure.items.get(from..place).unwrap_or_default(), from == 0);
        copy(&mut pixmap, *left, *top, pixels, zoom);
        from = place + 1;
    }
    draw(&mut pixmap, figure.items.get(from..).unwrap_or_default(), from == 0);
    // The page is opaque, so is all on it.
    let pixels: Vec<Rgb> = pixmap.pixels().iter().map(|pixel| [pixel.red(), pixel.green(), pixel.blue()]).collect();
    png::true_colour(wide as usize, &pixels, &figure.facts)
}

/// Cells onto the picture, each `zoom` pixels wide and high.
fn copy(pixmap: &mut Pixmap, left: f64, top: f64, pixels: &Pixels, zoom: usize) {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place within the picture")]
    let [left, top] = [left, top].map(|at| (at * zoom as f64).round().max(0.0) as usize);
    let (wide, high) = (pixmap.width() as usize, pixmap.height() as usize);
    let data = pixmap.data_mut();
    for y in 0..(pixels.height * zoom).min(high.saturating_sub(top)) {
        let row = pixels.data.get(y / zoom * pixels.width..).unwrap_or_default();
        for x in 0..(pixels.width * zoom).min(wide.saturating_sub(left)) {
            let colour = row.get(x / zoom).and_then(|number| pixels.palette.get(usize::from(*number)));
            let at = ((top + y) * wide + left + x) * 4;
            if let (Some([red, green, blue]), Some(pixel)) = (colour, data.get_mut(at..at + 4)) {
                pixel.copy_from_slice(&[*red, *green, *blue, 0xff]);
            }
        }
    }
}
