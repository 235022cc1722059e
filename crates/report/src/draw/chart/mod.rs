//! Charts with two axes: the area, its axes, series as curves, bands and signs, and their names.

mod names;
mod scale;

pub(crate) use names::text_width;
pub(crate) use scale::{Domain, Ticks};

use crate::draw::figure::{Anchor, COLOURS, Colour, Figure, Polyline, Style, words};
use names::{Name, Names};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Area {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Area {
    pub(crate) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(crate) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// A place from 0 at the left to 1 at the right.
    pub(crate) fn x(&self, at: f64) -> f64 {
        self.left + self.width * at
    }

    /// A place from 0 at the bottom to 1 at the top.
    pub(crate) fn y(&self, at: f64) -> f64 {
        self.bottom() - self.height * at
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marks {
    /// By lines across the area.
    Grid,
    /// By strokes beside the area.
    Outside,
}

impl Marks {
    fn style(self) -> (Style, f64) {
        match self {
            Self::Grid => (Style::stroke(Colour::HAIR, 1.0), 12.0),
            Self::Outside => (Style::stroke(Colour::FAINT, 1.0), 11.5),
        }
    }
}

/// Values of the vertical axis, at the left; labels that would touch are left out.
pub(crate) fn axis_y(figure: &mut Figure, area: &Area, marks: Marks, ticks: &Ticks) {
    let (style, size) = marks.style();
    let (from, to) = match marks {
        Marks::Grid => (area.left, area.right()),
        Marks::Outside => (area.left - 5.0, area.left - 1.0),
    };
    let line = |(at, _): &(f64, String)| vec![(from, area.y(*at)), (to, area.y(*at))];
    figure.path(style, ticks.iter().map(line).collect());
    let mut free = f64::INFINITY;
    for (at, label) in ticks {
        let y = area.y(*at);
        if !label.is_empty() && (free - y).abs() >= 13.0 {
            figure.text(words(area.left - 8.0, y + 4.0, Anchor::End, size, Colour::SOFT, label));
            free = y;
        }
    }
}

/// Values of the horizontal axis, below; labels that would touch are left out.
pub(crate) fn axis_x(figure: &mut Figure, area: &Area, marks: Marks, ticks: &Ticks) {
    let (style, size) = marks.style();
    let (from, to, below) = match marks {
        Marks::Grid => (area.top, area.bottom(), 18.0),
        Marks::Outside => (area.bottom() + 1.0, area.bottom() + 5.0, 17.0),
    };
    let line = |(at, _): &(f64, String)| vec![(area.x(*at), from), (area.x(*at), to)];
    figure.path(style, ticks.iter().map(line).collect());
    let mut free = f64::NEG_INFINITY;
    for (at, label) in ticks {
        let (x, half) = (area.x(*at), text_width(label) / 2.0);
        if !label.is_empty() && x - half >= free {
            figure.text(words(x, area.bottom() + below, Anchor::Middle, size, Colour::SOFT, label));
            free = x + half + 8.0;
        }
    }
}

pub(crate) fn base(figure: &mut Figure, area: &Area, name: &str) {
    figure.line(Style::stroke(Colour::FAINT, 1.0), area.left, area.bottom(), area.right(), area.bottom());
    if !name.is_empty() {
        figure.text(words(area.x(0.5), area.bottom() + 38.0, Anchor::Middle, 12.0, Colour::SOFT, name));
    }
}

/// A curve in the colour of its series; series that share a colour have different dashes.
fn curve(series: usize) -> Style {
    let style = Style::stroke(Colour::series(series), 1.9);
    match series / COLOURS {
        0 => style,
        round if round % 2 == 1 => style.dashed(6.0, 3.5),
        _ => style.dashed(1.5, 3.5),
    }
}

pub(crate) fn sign(series: usize, filled: bool) -> Style {
    let colour = Colour::series(series);
    let (fill, stroke, width) = if filled { (colour, Colour::PAGE, 1.0) } else { (Colour::PAGE, colour, 1.6) };
    Style { fill: Some(fill.into()), ..Style::stroke(stroke, width) }
}

fn sample(figure: &mut Figure, series: usize, x: f64, y: f64, width: f64) {
    figure.line(curve(series), x, y, x + width, y);
    figure.marker(sign(series, true), series, (x + width / 2.0, y), "");
}

pub(crate) fn swatch(series: usize) -> String {
    let mut figure = Figure::new(28.0, 12.0, String::new(), String::new());
    sample(&mut figure, series, 1.0, 6.0, 26.0);
    figure.in_page("class=\"swatch\" aria-hidden=\"true\"")
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Dot {
    pub(crate) at: (f64, f64),
    /// Hollow where it cannot be trusted.
    pub(crate) trusted: bool,
    pub(crate) tip: String,
}

/// What is drawn of one series: places from 0 to 1, from the lower left corner of the area.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) style: usize,
    pub(crate) tip: String,
    /// What repetitions span, as an outline or as a stroke at a single place.
    pub(crate) band: Polyline,
    pub(crate) curve: Polyline,
    /// Where the curve is chance.
    pub(crate) thin: Polyline,
    pub(crate) dots: Vec<Dot>,
    pub(crate) end: (f64, f64),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) height: f64,
    pub(crate) ticks_x: Ticks,
    /// Whether they are lines, or strokes below.
    pub(crate) grid_x: bool,
    pub(crate) name_x: String,
    pub(crate) ticks_y: Ticks,
    pub(crate) reference: Polyline,
    pub(crate) series: Vec<Series>,
}

const WIDTH: f64 = 600.0;
const TOP: f64 = 14.0;
/// Room for `p99.9999`, and right of the area.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 14.0;

impl Chart {
    pub(crate) fn figure(self) -> Figure {
        let labels: Vec<&str> = self.series.iter().map(|series| series.name.as_str()).collect();
        let names = Names::of(&labels, self.height, WIDTH - LEFT);
        let height = TOP + self.height + names.height(labels.len(), self.name_x.is_empty());
        let mut figure = Figure::new(WIDTH, height, self.title, self.description);
        let width = WIDTH - LEFT - names.beside() - RIGHT;
        let area = Area { left: LEFT, top: TOP, width, height: self.height };
        axis_y(&mut figure, &area, Marks::Grid, &self.ticks_y);
        axis_x(&mut figure, &area, if self.grid_x { Marks::Grid } else { Marks::Outside }, &self.ticks_x);
        base(&mut figure, &area, &self.name_x);
        let on = |line: &Polyline| vec![line.iter().map(|(x, y)| (area.x(*x), area.y(*y))).collect()];
        if !self.reference.is_empty() {
            figure.path(Style::stroke(Colour::FAINT, 1.0).dashed(3.0, 3.0), on(&self.reference));
        }
        for series in &self.series {
            let colour = Colour::series(series.style);
            figure.series(&series.tip, |figure| {
                match series.band.len() {
                    0 => {}
                    2 => figure.path(Style::stroke(colour, 1.4), on(&series.band)),
                    _ => figure.path(Style::fill(colour).faded(0.15), on(&series.band)),
                }
                if series.curve.len() > 1 {
                    figure.path(curve(series.style), on(&series.curve));
                }
                if series.thin.len() > 1 {
                    figure.path(Style::stroke(colour, 1.0).dashed(2.0, 2.5), on(&series.thin));
                }
                for Dot { at: (x, y), trusted, tip } in &series.dots {
                    figure.marker(sign(series.style, *trusted), series.style, (area.x(*x), area.y(*y)), tip);
                }
            });
        }
        let ends = self.series.iter().map(|series| {
            let (x, y) = series.end;
            Name { text: &series.name, style: series.style, end: (area.x(x), area.y(y)) }
        });
        names.draw(&mut figure, &area, WIDTH, ends.collect());
        figure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(names: &[&str]) -> Chart {
        let series = names.iter().enumerate().map(|(style, name)| Series {
            name: (*name).to_owned(),
            style: style * 8,
            tip: format!("tip of {name}"),
            band: vec![(0.0, 0.3), (1.0, 0.6), (1.0, 0.5), (0.0, 0.2)],
            curve: vec![(0.0, 0.25), (0.5, 0.25), (1.0, 0.55)],
            thin: vec![(0.5, 0.25), (0.5, 0.1)],
            dots: vec![
                Dot { at: (0.0, 0.25), trusted: true, tip: "<0>".to_owned() },
                Dot { at: (1.0, 0.55), trusted: style == 0, tip: String::new() },
            ],
            end: (1.0, 0.55),
        });
        Chart {
            title: "mean of RTT/2 & more".to_owned(),
            description: "two lines".to_owned(),
            height: 268.0,
            ticks_x: vec![(0.0, "0".to_owned()), (0.01, "1".to_owned()), (1.0, "1k".to_owned())],
            grid_x: true,
            name_x: "message size".to_owned(),
            ticks_y: Domain::of([4_500.0, 200_000.0].into_iter()).unwrap().labelled(crate::units::tick),
            reference: vec![(0.0, 0.0), (1.0, 1.0)],
            series: series.collect(),
        }
    }

    #[test]
    fn a_small_chart_byte_for_byte() {
        let svg = chart(&["no load", "load <build>"]).figure().in_page("role=\"img\"");
        assert_eq!(svg, chart(&["no load", "load <build>"]).figure().in_page("role=\"img\""));
        assert!(!svg.contains(">1</text>"), "it has no room beside 0: {svg}");
        insta::with_settings!({ snapshot_path => "../../../tests/snapshots", prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!("chart", svg);
        });
    }

    #[test]
    fn long_names_stand_below_and_nothing_is_cut() {
        let long = "load a-command-of-its-own-with-many-words · no shield · fifo:50;fifo:50";
        let svg = chart(&[long, "b"]).figure().in_page("");
        assert!(svg.contains(&format!(">{long}</text>")) && !svg.contains('…'), "{svg}");
    }

    #[test]
    fn names_of_few_series_stand_at_their_curves() {
        let names: Vec<String> = (0..9).map(|number| format!("policy {number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let [few, many] = [&names[..8], &names].map(|names| chart(names).figure().in_page(""));
        assert!(names[..8].iter().all(|name| few.contains(&format!(">{name}</text>"))), "{few}");
        let leaders = |svg: &str| svg.matches("stroke-opacity=\"0.6\"").count();
        assert!(leaders(&few) >= 7, "all end at one place: {few}");
        assert_eq!((many.matches(">policy ").count(), leaders(&many)), (9, 0), "{many}");
    }

    #[test]
    fn colours_repeat_with_dashes() {
        assert_eq!([3, 7, 14].map(|series| curve(series).dash), [None, Some((6.0, 3.5)), Some((1.5, 3.5))]);
        assert_eq!(curve(10).stroke, curve(3).stroke);
    }
}
