//! Names of series: at the ends of their curves where they fit, else in a key below the chart. No name is ever cut.

use super::{Area, sample};
use crate::draw::figure::{Anchor, Colour, Figure, Style, Text, broken, words};

/// About how wide a label of 12 px is; a semi-bold name is a little wider.
pub(crate) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * 6.5
}

fn name_width(text: &str) -> f64 {
    text.chars().count() as f64 * 7.5
}

fn in_lines(name: &str, room: f64) -> Vec<String> {
    broken(name, |text| name_width(text) <= room, None)
}

/// Height of a line of a name, and of a row of the key.
const LINE: f64 = 14.0;
const ROW: f64 = 18.0;
/// Room beside an area for names.
const ROOM: f64 = 215.0;
/// More series than this have their names in a key.
const MOST_BESIDE: usize = 8;
/// A curve that ends so far before the area's edge, or whose name moved so far, is joined to its name by a leader.
const REACHES: f64 = 24.0;
const MOVED: f64 = 4.0;
/// From the area to the key: the axis, its name and a little air.
const ABOVE: f64 = 62.0;
const SAMPLE: f64 = 34.0;

/// Moves blocks apart so that none covers another: from wanted middles and heights to middles, within bounds where all fit.
fn apart(wanted: &[(f64, f64)], top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    let want = |index: usize| wanted.get(index).copied().unwrap_or((top, 0.0));
    order.sort_by(|a, b| want(*a).0.total_cmp(&want(*b).0).then(a.cmp(b)));
    let mut placed: Vec<(f64, f64)> = order.iter().map(|index| want(*index)).collect();
    // Downwards, then back upwards from the bottom.
    let mut least = top;
    for (middle, height) in &mut placed {
        *middle = middle.max(least + *height / 2.0);
        least = *middle + *height / 2.0;
    }
    let mut most = bottom;
    for (middle, height) in placed.iter_mut().rev() {
        *middle = middle.min(most - *height / 2.0);
        most = *middle - *height / 2.0;
    }
    let mut out = vec![0.0; wanted.len()];
    for (index, (middle, _)) in order.into_iter().zip(placed) {
        if let Some(slot) = out.get_mut(index) {
            *slot = middle;
        }
    }
    out
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Name<'a> {
    pub(super) text: &'a str,
    pub(super) style: usize,
    pub(super) end: (f64, f64),
}

impl Name<'_> {
    fn line(&self, x: f64, y: f64, text: impl Into<String>) -> Text {
        let words = words(x, y, Anchor::Start, 12.0, Colour::series(self.style), text);
        Text { bold: true, halo: true, ..words }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Names {
    /// Beside the ends of the curves, in so much room.
    Beside(f64),
    /// In a key below, in so many columns.
    Below(usize),
}

impl Names {
    /// Beside the ends of few curves where the names fit; else in a key, in two columns where two fit beside each other.
    pub(super) fn of(names: &[&str], height: f64, width: f64) -> Self {
        let lines: Vec<Vec<String>> = names.iter().map(|name| in_lines(name, ROOM)).collect();
        let widest = lines.iter().flatten().map(|line| name_width(line)).fold(0.0, f64::max);
        let high: f64 = lines.iter().map(|lines| lines.len() as f64 * LINE + 4.0).sum();
        if names.len() <= MOST_BESIDE && widest <= ROOM && high <= height {
            return Self::Beside(widest);
        }
        let widest = names.iter().map(|name| name_width(name)).fold(0.0, f64::max);
        Self::Below(if 2.0 * (widest + SAMPLE + 12.0) <= width { 2 } else { 1 })
    }

    /// What the names need at the right of the area.
    pub(super) fn beside(&self) -> f64 {
        if let Self::Beside(room) = self { room + 10.0 } else { 0.0 }
    }

    /// What axis and key need below the area.
    pub(super) fn height(&self, names: usize, bare: bool) -> f64 {
        match self {
            Self::Beside(_) if bare => 26.0,
            Self::Beside(_) => 48.0,
            Self::Below(columns) => ABOVE - 8.0 + names.div_ceil(*columns) as f64 * ROW,
        }
    }

    /// Writes the names. `width`: that of the picture.
    pub(super) fn draw(&self, figure: &mut Figure, area: &Area, width: f64, names: Vec<Name<'_>>) {
        match self {
            Self::Beside(room) => beside(figure, area, *room, names),
            Self::Below(columns) => below(figure, area, width, *columns, &names),
        }
    }
}

/// The key below an area, read column by column.
fn below(figure: &mut Figure, area: &Area, width: f64, columns: usize, names: &[Name<'_>]) {
    let rows = names.len().div_ceil(columns.max(1));
    for (index, name) in names.iter().enumerate() {
        let (column, row) = (index / rows.max(1), index % rows.max(1));
        let x = area.left + column as f64 * (width - area.left) / columns.max(1) as f64;
        let y = area.bottom() + ABOVE + row as f64 * ROW;
        sample(figure, name.style, x, y - 4.0, 26.0);
        figure.text(name.line(x + SAMPLE, y, name.text));
    }
}

fn beside(figure: &mut Figure, area: &Area, room: f64, mut names: Vec<Name<'_>>) {
    // Of curves that end at one height the one that ends last has the highest name, so that leaders do not cross.
    names.sort_by(|a, b| b.end.0.total_cmp(&a.end.0));
    let lines: Vec<Vec<String>> = names.iter().map(|name| in_lines(name.text, room)).collect();
    let wanted: Vec<(f64, f64)> =
        names.iter().zip(&lines).map(|(name, lines)| (name.end.1, lines.len() as f64 * LINE + 4.0)).collect();
    let middles = apart(&wanted, area.top - 4.0, area.bottom() + 6.0);
    for ((name, lines), middle) in names.iter().zip(lines).zip(middles) {
        let (x, y) = name.end;
        if area.right() - x > REACHES || (middle - y).abs() > MOVED {
            let style = Style::stroke(Colour::series(name.style), 0.8).faded(0.6);
            figure.line(style, x + 4.0, y, area.right() + 6.0, middle);
        }
        let mut y = middle - (lines.len() as f64 - 1.0) * LINE / 2.0 + 4.0;
        for line in lines {
            figure.text(name.line(area.right() + 8.0, y, line));
            y += LINE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_break_and_are_never_cut() {
        let name = "load build · no shield · fifo:50;fifo:50";
        for width in [10.0, 60.0, 100.0, 150.0, 400.0] {
            let lines = in_lines(name, width);
            let again: String = lines.join(" ").replace(" · ", " ");
            assert_eq!(again, name.replace(" · ", " "), "{lines:?}");
        }
        assert_eq!(in_lines(name, 150.0), ["load build", "no shield", "fifo:50;fifo:50"]);
        assert_eq!(in_lines(name, 170.0), ["load build · no shield", "fifo:50;fifo:50"]);
        assert_eq!(in_lines("short", 100.0), ["short"]);
    }

    #[test]
    fn names_that_do_not_fit_beside_stand_below() {
        let of = |names: &[&str]| Names::of(names, 250.0, 600.0);
        assert_eq!(of(&["policy other", "fifo:50"]), Names::Beside(name_width("policy other")));
        assert_eq!(of(&["a-single-word-that-is-far-too-long-for-the-room", "b"]), Names::Below(1));
        assert_eq!(of(&["x"; 8]), Names::Beside(name_width("x")));
        assert_eq!(of(&["x"; 9]), Names::Below(2));
        assert_eq!(of(&["x"; 30]), Names::Below(2));
    }

    #[test]
    fn a_name_that_moved_or_stands_far_from_its_curve_has_a_leader() {
        let area = Area { left: 0.0, top: 0.0, width: 100.0, height: 100.0 };
        let leaders = |names: [(&'static str, (f64, f64)); 2]| {
            let mut figure = Figure::new(200.0, 100.0, String::new(), String::new());
            let names = names.map(|(text, end)| Name { text, style: 0, end });
            Names::Beside(50.0).draw(&mut figure, &area, 200.0, names.to_vec());
            assert!(
                ["a", "b"].iter().all(|name| figure.in_page("").contains(&format!(">{name}</text>"))),
                "{figure:?}"
            );
            figure.items.len() - 2
        };
        assert_eq!(leaders([("a", (98.0, 20.0)), ("b", (98.0, 80.0))]), 0);
        assert_eq!(leaders([("a", (98.0, 50.0)), ("b", (98.0, 51.0))]), 1, "the second one moved");
        assert_eq!(leaders([("a", (40.0, 20.0)), ("b", (98.0, 80.0))]), 1, "the first line ends early");
    }

    #[test]
    fn blocks_move_apart_and_stay_inside() {
        let wanted = [(50.0, 18.0), (52.0, 32.0), (10.0, 18.0), (99.0, 18.0)];
        let placed = apart(&wanted, 0.0, 110.0);
        let mut blocks: Vec<(f64, f64)> =
            placed.iter().zip(&wanted).map(|(y, (_, h))| (y - h / 2.0, y + h / 2.0)).collect();
        blocks.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(blocks.windows(2).all(|pair| pair[1].0 - pair[0].1 > -0.01), "{blocks:?}");
        assert!(blocks[0].0 >= -0.01 && blocks[3].1 <= 110.01);
        assert!(placed[2] < placed[0] && placed[0] < placed[1] && placed[1] < placed[3], "the order stays");
    }
}
