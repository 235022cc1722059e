//! Names of lines: at their ends where they fit, in a key below the plot where they do not. No name is ever cut.

use super::frame::Plot;
use super::{Anchor, Svg, series_class, xy};

/// About how wide a semi-bold name of 12 px is.
pub(crate) fn name_width(text: &str) -> f64 {
    text.chars().count() as f64 * 7.5
}

/// Height of a line of a name, and of a row of the key.
pub(crate) const LINE: f64 = 14.0;
const ROW: f64 = 18.0;
/// Room beside a plot for names.
pub(crate) const ROOM: f64 = 215.0;
/// More lines than this have their names in a key.
const MOST_BESIDE: usize = 8;
/// A line that ends so far before the plot's edge, or whose name moved so far, is joined to its name by a leader.
const REACHES: f64 = 24.0;
const MOVED: f64 = 4.0;
/// From the plot to the key: the axis, its name and a little air.
const ABOVE: f64 = 62.0;
const SAMPLE: f64 = 34.0;

/// A name in lines of at most a width, broken between its parts (` · `) or words; a longer word has a line of its own.
pub(crate) fn broken(name: &str, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in name.split(" · ") {
        let fits = |line: &String| name_width(line) + name_width(" · ") + name_width(part) <= width;
        if lines.last().is_some_and(fits) {
            if let Some(line) = lines.last_mut() {
                line.push_str(" · ");
                line.push_str(part);
            }
            continue;
        }
        let mut line = String::new();
        for word in part.split(' ') {
            if !line.is_empty() && name_width(&line) + name_width(" ") + name_width(word) > width {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines
}

/// Moves blocks apart so that none covers another: from wanted middles and heights to middles, within bounds where all fit.
pub(crate) fn apart(wanted: &[(f64, f64)], top: f64, bottom: f64) -> Vec<f64> {
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

/// The name of a line, the number of its colour, and where the line ends.
pub(crate) type Name<'a> = (&'a str, usize, (f64, f64));

/// Where names stand.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Names {
    /// Beside the ends of the lines, in so much room.
    Beside(f64),
    /// In a key below, in so many columns.
    Below(usize),
}

impl Names {
    /// Beside the ends of few lines where no line of a name is wider than `room` and all together are not higher than the plot.
    pub(crate) fn of<'a>(names: impl Iterator<Item = &'a str> + Clone, room: f64, height: f64, width: f64) -> Self {
        let lines = names.clone().map(|name| broken(name, room));
        let widest = lines.clone().flatten().map(|line| name_width(&line)).fold(0.0, f64::max);
        let high: f64 = lines.map(|lines| lines.len() as f64 * LINE + 4.0).sum();
        if names.clone().count() <= MOST_BESIDE && widest <= room && high <= height {
            return Self::Beside(widest);
        }
        Self::below(names, width)
    }

    /// In a key: in two columns where two names fit beside each other.
    fn below<'a>(names: impl Iterator<Item = &'a str>, width: f64) -> Self {
        let widest = names.map(name_width).fold(0.0, f64::max);
        Self::Below(if 2.0 * (widest + SAMPLE + 12.0) <= width { 2 } else { 1 })
    }

    /// What the names need at the right of the plot.
    pub(crate) fn beside(&self) -> f64 {
        if let Self::Beside(room) = self { room + 10.0 } else { 0.0 }
    }

    /// What the key needs below the plot, the axis included.
    pub(crate) fn height(&self, names: usize) -> f64 {
        match self {
            Self::Beside(_) => 48.0,
            Self::Below(columns) => ABOVE - 8.0 + names.div_ceil(*columns) as f64 * ROW,
        }
    }

    /// Writes the names. `width`: that of the picture.
    pub(crate) fn draw(&self, svg: &mut Svg, plot: &Plot, width: f64, names: &[Name<'_>]) {
        match self {
            Self::Beside(room) => beside(svg, plot, *room, names),
            Self::Below(columns) => below(svg, plot, width, *columns, names),
        }
    }
}

/// The key below a plot, read column by column.
fn below(svg: &mut Svg, plot: &Plot, width: f64, columns: usize, names: &[Name<'_>]) {
    let rows = names.len().div_ceil(columns.max(1));
    for (index, (name, style, _)) in names.iter().enumerate() {
        let (column, row) = (index / rows.max(1), index % rows.max(1));
        let x = plot.left + column as f64 * (width - plot.left) / columns.max(1) as f64;
        let y = plot.bottom + ABOVE + row as f64 * ROW;
        let class = series_class(*style);
        svg.path(&format!("curve {class}"), &format!("M{} {}h26", xy(x), xy(y - 4.0)));
        svg.marker(&format!("dot {class}"), *style, x + 13.0, y - 4.0, "");
        svg.text(&format!("name {class}"), x + SAMPLE, y, Anchor::Start, name);
    }
}

/// Names at the ends of their lines.
fn beside(svg: &mut Svg, plot: &Plot, room: f64, names: &[Name<'_>]) {
    // Of lines that end at one height the one that ends last has the highest name, so that leaders do not cross.
    let mut names = names.to_vec();
    names.sort_by(|(_, _, (a, _)), (_, _, (b, _))| b.total_cmp(a));
    let lines: Vec<Vec<String>> = names.iter().map(|(name, _, _)| broken(name, room)).collect();
    let wanted: Vec<(f64, f64)> =
        names.iter().zip(&lines).map(|((_, _, (_, y)), lines)| (*y, lines.len() as f64 * LINE + 4.0)).collect();
    for (((_, style, (x, y)), lines), middle) in
        names.iter().zip(&lines).zip(apart(&wanted, plot.top - 4.0, plot.bottom + 6.0))
    {
        let class = series_class(*style);
        if plot.right - x > REACHES || (middle - y).abs() > MOVED {
            let [from, end] = [(x + 4.0, *y), (plot.right + 6.0, middle)].map(|(x, y)| format!("{} {}", xy(x), xy(y)));
            svg.path(&format!("leader {class}"), &format!("M{from}L{end}"));
        }
        let first = middle - (lines.len() as f64 - 1.0) * LINE / 2.0 + 4.0;
        for (row, line) in lines.iter().enumerate() {
            let y = first + row as f64 * LINE;
            svg.text(&format!("name {class}"), plot.right + 8.0, y, Anchor::Start, line);
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
            let lines = broken(name, width);
            let again: String = lines.join(" ").replace(" · ", " ");
            assert_eq!(again, name.replace(" · ", " "), "{lines:?}");
        }
        assert_eq!(broken(name, 150.0), ["load build", "no shield", "fifo:50;fifo:50"]);
        assert_eq!(broken(name, 170.0), ["load build · no shield", "fifo:50;fifo:50"]);
        assert_eq!(broken("short", 100.0), ["short"]);
    }

    #[test]
    fn names_that_do_not_fit_beside_stand_below() {
        let names = ["policy other", "fifo:50"];
        assert_eq!(Names::of(names.into_iter(), 150.0, 250.0, 600.0), Names::Beside(name_width("policy other")));
        let long = ["a-single-word-that-is-far-too-long-for-the-room", "b"];
        assert_eq!(Names::of(long.into_iter(), 150.0, 250.0, 600.0), Names::Below(1));
        assert_eq!(Names::of(["x"; 8].into_iter(), 150.0, 250.0, 600.0), Names::Beside(name_width("x")));
        assert_eq!(Names::of(["x"; 9].into_iter(), 150.0, 250.0, 600.0), Names::Below(2));
        let many = ["x"; 30];
        assert_eq!(Names::of(many.into_iter(), 150.0, 250.0, 600.0), Names::Below(2));
    }

    #[test]
    fn a_name_that_moved_or_stands_far_from_its_line_has_a_leader() {
        let plot = Plot { left: 0.0, top: 0.0, right: 100.0, bottom: 100.0 };
        let leaders = |names: &[Name<'_>]| {
            let mut svg = Svg::new("x", 200.0, 100.0, "t", "d");
            Names::Beside(50.0).draw(&mut svg, &plot, 200.0, names);
            let svg = svg.finish();
            assert!(names.iter().all(|(name, ..)| svg.contains(&format!(">{name}</text>"))), "{svg}");
            svg.matches("class=\"leader").count()
        };
        assert_eq!(leaders(&[("a", 0, (98.0, 20.0)), ("b", 1, (98.0, 80.0))]), 0);
        assert_eq!(leaders(&[("a", 0, (98.0, 50.0)), ("b", 1, (98.0, 51.0))]), 1, "the second one moved");
        assert_eq!(leaders(&[("a", 0, (40.0, 20.0)), ("b", 1, (98.0, 80.0))]), 1, "the first line ends early");
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
