//! Names of lines: beside their ends where they fit, in a key below the plot where they do not. No name is ever cut.

use super::frame::Plot;
use super::{Anchor, Svg, series_class};

/// About how wide a semi-bold name of 12 px is.
pub(crate) fn name_width(text: &str) -> f64 {
    text.chars().count() as f64 * 6.9
}

/// Height of a line of a name, and of a row of the key.
pub(crate) const LINE: f64 = 14.0;
const ROW: f64 = 18.0;
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

/// Where names stand.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Names {
    /// Beside the ends of the lines, in so much room.
    Beside(f64),
    /// In a key below, in so many columns.
    Below(usize),
}

impl Names {
    /// Beside the ends where no line of a name is wider than `room` and all together are not higher than the plot.
    pub(crate) fn of<'a>(names: impl Iterator<Item = &'a str> + Clone, room: f64, height: f64, width: f64) -> Self {
        let lines = names.clone().map(|name| broken(name, room));
        let widest = lines.clone().flatten().map(|line| name_width(&line)).fold(0.0, f64::max);
        let high: f64 = lines.map(|lines| lines.len() as f64 * LINE + 4.0).sum();
        if widest <= room && high <= height {
            return Self::Beside(widest);
        }
        Self::below(names, width)
    }

    /// In a key: in two columns where two names fit beside each other.
    pub(crate) fn below<'a>(names: impl Iterator<Item = &'a str>, width: f64) -> Self {
        let widest = names.map(name_width).fold(0.0, f64::max);
        Self::Below(if 2.0 * (widest + SAMPLE + 12.0) <= width { 2 } else { 1 })
    }

    /// What the key needs below the plot, the axis included.
    pub(crate) fn height(&self, names: usize) -> f64 {
        match self {
            Self::Beside(_) => 48.0,
            Self::Below(columns) => ABOVE - 8.0 + names.div_ceil(*columns) as f64 * ROW,
        }
    }
}

/// The key below a plot, read column by column. `width`: that of the picture.
pub(crate) fn below(svg: &mut Svg, plot: &Plot, width: f64, columns: usize, names: &[(&str, usize)]) {
    let rows = names.len().div_ceil(columns.max(1));
    for (index, (name, style)) in names.iter().enumerate() {
        let (column, row) = (index / rows.max(1), index % rows.max(1));
        let x = plot.left + column as f64 * (width - plot.left) / columns.max(1) as f64;
        let y = plot.bottom + ABOVE + row as f64 * ROW;
        let class = series_class(*style);
        svg.path(&format!("curve {class}"), &format!("M{} {}h26", super::xy(x), super::xy(y - 4.0)));
        svg.marker(&format!("dot {class}"), *style, x + 13.0, y - 4.0, "");
        svg.text(&format!("name {class}"), x + SAMPLE, y, Anchor::Start, name);
    }
}

/// Names beside the ends of their lines.
pub(crate) fn beside(svg: &mut Svg, plot: &Plot, room: f64, names: &[(&str, usize, f64)]) {
    let lines: Vec<Vec<String>> = names.iter().map(|(name, _, _)| broken(name, room)).collect();
    let wanted: Vec<(f64, f64)> =
        names.iter().zip(&lines).map(|((_, _, y), lines)| (*y, lines.len() as f64 * LINE + 4.0)).collect();
    for (((_, style, _), lines), middle) in
        names.iter().zip(&lines).zip(apart(&wanted, plot.top - 4.0, plot.bottom + 6.0))
    {
        let first = middle - (lines.len() as f64 - 1.0) * LINE / 2.0 + 4.0;
        for (row, line) in lines.iter().enumerate() {
            let y = first + row as f64 * LINE;
            svg.text(&format!("name {}", series_class(*style)), plot.right + 8.0, y, Anchor::Start, line);
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
        let many = ["x"; 30];
        assert_eq!(Names::of(many.into_iter(), 150.0, 250.0, 600.0), Names::Below(2));
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
