//! Pictures as PNG: a small rasteriser. Images are copied pixel by pixel; strokes are anti-aliased by their distance,
//! areas by counting sixteen points a pixel.

use super::{Figure, Hold, Item, Paint, Pixels, Style, Text, font, ink, parse, png};
use crate::heat::Rgb;

type Point = (f64, f64);

struct Raster {
    width: usize,
    height: usize,
    pixels: Vec<Rgb>,
}

/// Samples a pixel and axis of filled areas.
const SAMPLES: usize = 4;

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates at 0")]
fn floor(value: f64) -> usize {
    value.floor() as usize
}

impl Raster {
    fn blend(&mut self, x: usize, y: usize, paint: Paint, cover: f64) {
        let Some(pixel) = self.pixels.get_mut(y * self.width + x).filter(|_| x < self.width) else { return };
        let share = (paint.alpha * cover).clamp(0.0, 1.0);
        for (under, over) in pixel.iter_mut().zip(paint.rgb) {
            let mixed = f64::from(*under) * (1.0 - share) + f64::from(over) * share;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 255")]
            let mixed = mixed.round() as u8;
            *under = mixed;
        }
    }

    /// The pixels that a shape may touch: left, top, right, bottom, the last two not included.
    fn reach(&self, lines: &[Vec<Point>], beyond: f64) -> Option<[usize; 4]> {
        let mut points = lines.iter().flatten().filter(|(x, y)| x.is_finite() && y.is_finite());
        let (x, y) = *points.next()?;
        let (left, top, right, bottom) = points.fold((x, y, x, y), |(left, top, right, bottom), (x, y)| {
            (left.min(*x), top.min(*y), right.max(*x), bottom.max(*y))
        });
        let (left, top) = (floor(left - beyond), floor(top - beyond));
        let right = (floor(right + beyond) + 1).min(self.width);
        let bottom = (floor(bottom + beyond) + 1).min(self.height);
        (left < right && top < bottom).then_some([left, top, right, bottom])
    }

    /// Strokes of one colour: where they cross they are not darker.
    fn stroke(&mut self, lines: &[Vec<Point>], width: f64, paint: Paint) {
        let half = width / 2.0;
        let Some([left, top, right, bottom]) = self.reach(lines, half + 1.0) else { return };
        let wide = right - left;
        let mut mask = vec![0.0_f64; wide * (bottom - top)];
        for line in lines {
            let pairs = line.windows(2).filter_map(|pair| Some((*pair.first()?, *pair.last()?)));
            for (a, b) in pairs {
                let Some([l, t, r, d]) = self.reach(&[vec![a, b]], half + 1.0) else { continue };
                for y in t.max(top)..d.min(bottom) {
                    for x in l.max(left)..r.min(right) {
                        let cover = (half + 0.5 - distance((x as f64 + 0.5, y as f64 + 0.5), a, b)).clamp(0.0, 1.0);
                        if let Some(held) = mask.get_mut((y - top) * wide + (x - left)) {
                            *held = held.max(cover);
                        }
                    }
                }
            }
        }
        self.paint(&mask, [left, top, right, bottom], paint);
    }

    fn paint(&mut self, mask: &[f64], [left, top, right, bottom]: [usize; 4], paint: Paint) {
        for y in top..bottom {
            for x in left..right {
                let cover = mask.get((y - top) * (right - left) + (x - left)).copied().unwrap_or(0.0);
                if cover > 0.0 {
                    self.blend(x, y, paint, cover);
                }
            }
        }
    }

    /// An area, by the even-odd rule.
    fn fill(&mut self, shapes: &[Vec<Point>], paint: Paint) {
        let Some([left, top, right, bottom]) = self.reach(shapes, 0.0) else { return };
        let wide = right - left;
        let mut mask = vec![0.0_f64; wide * (bottom - top)];
        let step = 1.0 / SAMPLES as f64;
        for y in top..bottom {
            for sample in 0..SAMPLES {
                let at = y as f64 + (sample as f64 + 0.5) * step;
                let mut crossings: Vec<f64> = Vec::new();
                for shape in shapes {
                    let next = shape.iter().cycle().skip(1);
                    for ((x1, y1), (x2, y2)) in shape.iter().zip(next) {
                        if (*y1 <= at) != (*y2 <= at) {
                            crossings.push(x1 + (at - y1) / (y2 - y1) * (x2 - x1));
                        }
                    }
                }
                crossings.sort_by(f64::total_cmp);
                for pair in crossings.chunks_exact(2) {
                    let (Some(from), Some(to)) = (pair.first(), pair.last()) else { continue };
                    for x in floor(*from).max(left)..(floor(*to) + 1).min(right) {
                        let cover = (to.min(x as f64 + 1.0) - from.max(x as f64)).clamp(0.0, 1.0);
                        if let Some(held) = mask.get_mut((y - top) * wide + (x - left)) {
                            *held += cover * step;
                        }
                    }
                }
            }
        }
        self.paint(&mask, [left, top, right, bottom], paint);
    }

    fn shape(&mut self, style: &Style, lines: &[Vec<Point>], zoom: f64) {
        if let Some(fill) = style.fill {
            self.fill(lines, fill);
        }
        if let Some(stroke) = style.stroke {
            let width = style.width * zoom;
            let lines = match style.dash {
                Some((on, off)) => lines.iter().flat_map(|line| dashes(line, on * zoom, off * zoom)).collect(),
                None => lines.iter().map(|line| crisp(line, width)).collect::<Vec<_>>(),
            };
            self.stroke(&lines, width, stroke);
        }
    }

    fn text(&mut self, text: &Text, zoom: f64) {
        let size = text.size * zoom;
        let wide = font::width(&text.text, size);
        let back = match text.hold {
            Hold::Start => 0.0,
            Hold::Middle => wide / 2.0,
            Hold::End => wide,
        };
        let (x, y) = (text.x * zoom, text.y * zoom);
        let place = |(across, down): Point| {
            if text.turned { (x + down, y - (across - back)) } else { (x + across - back, y + down) }
        };
        let lines: Vec<Vec<Point>> =
            font::strokes(&text.text, size).into_iter().map(|line| line.into_iter().map(place).collect()).collect();
        let width = (size * if text.bold { 0.125 } else { 0.088 }).max(0.95);
        if let Some(halo) = text.halo {
            self.stroke(&lines, width + 3.0 * zoom, Paint { rgb: halo, alpha: 0.9 });
        }
        self.stroke(&lines, width, text.colour.into());
    }

    fn image(&mut self, left: f64, top: f64, pixels: &Pixels, zoom: usize) {
        let (left, top) = (floor((left * zoom as f64).round()), floor((top * zoom as f64).round()));
        for y in 0..pixels.height * zoom {
            for x in 0..pixels.width * zoom {
                let colour = pixels.data.get(y / zoom * pixels.width + x / zoom);
                let rgb = colour.and_then(|colour| pixels.palette.get(usize::from(*colour)));
                let at = (left + x < self.width).then(|| (top + y) * self.width + left + x);
                if let (Some(slot), Some(rgb)) = (at.and_then(|at| self.pixels.get_mut(at)), rgb) {
                    *slot = *rgb;
                }
            }
        }
    }
}

fn distance((x, y): Point, (x1, y1): Point, (x2, y2): Point) -> f64 {
    let (dx, dy) = (x2 - x1, y2 - y1);
    let length = dx * dx + dy * dy;
    let share = if length > 0.0 { (((x - x1) * dx + (y - y1) * dy) / length).clamp(0.0, 1.0) } else { 0.0 };
    (x - x1 - share * dx).hypot(y - y1 - share * dy)
}

/// Upright and level thin lines are moved onto whole pixels.
fn crisp(line: &[Point], width: f64) -> Vec<Point> {
    let onto = |value: f64| if width.round() % 2.0 >= 1.0 { value.floor() + 0.5 } else { value.round() };
    match line {
        [(x1, y1), (x2, y2)] if width <= 2.5 && (x1 - x2).abs() < 1e-9 => vec![(onto(*x1), *y1), (onto(*x2), *y2)],
        [(x1, y1), (x2, y2)] if width <= 2.5 && (y1 - y2).abs() < 1e-9 => vec![(*x1, onto(*y1)), (*x2, onto(*y2))],
        _ => line.to_vec(),
    }
}

/// A line cut into strokes.
fn dashes(line: &[Point], on: f64, off: f64) -> Vec<Vec<Point>> {
    let (on, off) = (on.max(0.1), off.max(0.1));
    let mut out: Vec<Vec<Point>> = Vec::new();
    let mut drawn: Vec<Point> = line.first().map(|first| vec![*first]).unwrap_or_default();
    let (mut drawing, mut left) = (true, on);
    for pair in line.windows(2) {
        let [a, b] = pair else { continue };
        let whole = (b.0 - a.0).hypot(b.1 - a.1);
        let mut done = 0.0;
        while whole - done > left {
            done += left;
            let at = (a.0 + (b.0 - a.0) * done / whole, a.1 + (b.1 - a.1) * done / whole);
            if drawing {
                drawn.push(at);
                out.push(std::mem::take(&mut drawn));
            } else {
                drawn = vec![at];
            }
            drawing = !drawing;
            left = if drawing { on } else { off };
        }
        left -= whole - done;
        if drawing {
            drawn.push(*b);
        }
    }
    if drawn.len() > 1 {
        out.push(drawn);
    }
    out
}

/// The picture as PNG.
pub(crate) fn png(figure: &Figure, zoom: usize) -> Vec<u8> {
    let by = zoom as f64;
    let (width, height) = (floor((figure.width * by).ceil()), floor((figure.height * by).ceil()));
    let mut raster = Raster { width, height, pixels: vec![ink(figure.theme).page; width * height] };
    let scaled = |lines: Vec<Vec<Point>>| -> Vec<Vec<Point>> {
        lines.into_iter().map(|line| line.into_iter().map(|(x, y)| (x * by, y * by)).collect()).collect()
    };
    for item in &figure.items {
        match item {
            Item::Path(style, data) => raster.shape(style, &scaled(parse::path(data)), by),
            Item::Rect(style, [x, y, w, h]) => {
                let corners = vec![(*x, *y), (x + w, *y), (x + w, y + h), (*x, y + h), (*x, *y)];
                raster.shape(style, &scaled(vec![corners]), by);
            }
            Item::Text(text) => raster.text(text, by),
            Item::Image(left, top, pixels) => raster.image(*left, *top, pixels, zoom),
        }
    }
    png::true_colour(width, &raster.pixels, &figure.facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blank() -> Raster {
        Raster { width: 20, height: 10, pixels: vec![[255; 3]; 200] }
    }

    #[test]
    fn lines_and_areas_cover_what_they_should() {
        let mut raster = blank();
        raster.fill(&[vec![(2.0, 2.0), (6.0, 2.0), (6.0, 4.0), (2.0, 4.0)]], [0; 3].into());
        let dark = raster.pixels.iter().filter(|pixel| pixel[0] == 0).count();
        assert_eq!(dark, 8);
        let mut raster = blank();
        raster.stroke(&[vec![(1.0, 5.5), (19.0, 5.5)]], 1.0, [0; 3].into());
        assert_eq!(raster.pixels[5 * 20 + 10], [0; 3]);
        assert_eq!(raster.pixels[3 * 20 + 10], [255; 3]);
    }

    #[test]
    fn dashes_have_their_lengths() {
        let parts = dashes(&[(0.0, 0.0), (10.0, 0.0)], 3.0, 2.0);
        assert_eq!(parts, [vec![(0.0, 0.0), (3.0, 0.0)], vec![(5.0, 0.0), (8.0, 0.0)]]);
    }

    #[test]
    fn nothing_outside_of_the_picture_is_touched() {
        let mut raster = blank();
        raster.stroke(&[vec![(-50.0, -50.0), (500.0, 300.0)]], 2.0, [0; 3].into());
        raster.fill(&[vec![(-5.0, -5.0), (50.0, -5.0), (50.0, 50.0)]], [0; 3].into());
        let text = Text { x: 18.0, y: 9.0, size: 12.0, text: "far out".into(), ..Text::default() };
        raster.text(&text, 1.0);
        assert_eq!(raster.pixels.len(), 200);
    }
}
