//! What all charts share: the plot's rectangle, axes, ticks and direct labels.

use super::scale::Domain;
use super::{Anchor, Svg};
use crate::units::tick;

/// The rectangle that figures are drawn in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plot {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
}

impl Plot {
    pub(crate) fn x(&self, at: f64) -> f64 {
        self.left + (self.right - self.left) * at
    }

    pub(crate) fn y(&self, at: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * at
    }
}

/// Horizontal grid lines with times at the left.
pub(crate) fn time_axis_y(svg: &mut Svg, plot: &Plot, domain: &Domain) {
    for value in domain.ticks() {
        let y = plot.y(domain.at(value));
        svg.line("grid", plot.left, y, plot.right, y);
        svg.text("tick", plot.left - 8.0, y + 4.0, Anchor::End, &tick(value));
    }
    svg.line("axis", plot.left, plot.bottom, plot.right, plot.bottom);
}

/// Vertical grid lines with times below; labels that would touch are left out.
pub(crate) fn time_axis_x(svg: &mut Svg, plot: &Plot, domain: &Domain) {
    let mut free = f64::NEG_INFINITY;
    for value in domain.ticks() {
        let x = plot.x(domain.at(value));
        svg.line("grid", x, plot.top, x, plot.bottom);
        let label = tick(value);
        let half = text_width(&label) / 2.0;
        if x - half >= free {
            svg.text("tick", x, plot.bottom + 18.0, Anchor::Middle, &label);
            free = x + half + 8.0;
        }
    }
    svg.line("axis", plot.left, plot.bottom, plot.right, plot.bottom);
}

/// About how wide a label of 12 px is.
pub(crate) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * 6.5
}

/// A label that fits into a width, cut with an ellipsis where it must be.
pub(crate) fn fitted(text: &str, width: f64) -> String {
    if text_width(text) <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    for c in text.chars() {
        if text_width(&out) + 13.0 > width {
            break;
        }
        out.push(c);
    }
    format!("{}…", out.trim_end())
}

/// Moves labels apart so that none covers another: from wanted heights to heights at least `gap` apart, within bounds.
pub(crate) fn apart(wanted: &[f64], gap: f64, top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    let want = |index: usize| wanted.get(index).copied().unwrap_or(top);
    order.sort_by(|a, b| want(*a).total_cmp(&want(*b)).then(a.cmp(b)));
    let mut placed: Vec<f64> = order.iter().map(|index| want(*index)).collect();
    // Downwards, then back upwards from the bottom.
    let mut least = top;
    for y in &mut placed {
        *y = y.max(least);
        least = *y + gap;
    }
    let mut most = bottom;
    for y in placed.iter_mut().rev() {
        *y = y.min(most);
        most = *y - gap;
    }
    let mut out = vec![0.0; wanted.len()];
    for (index, y) in order.into_iter().zip(placed) {
        if let Some(slot) = out.get_mut(index) {
            *slot = y;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_move_apart_and_stay_inside() {
        let placed = apart(&[50.0, 52.0, 10.0, 99.0], 15.0, 0.0, 100.0);
        assert_eq!(placed.len(), 4);
        let mut sorted = placed.clone();
        sorted.sort_by(f64::total_cmp);
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= 14.99), "{placed:?}");
        assert!(sorted[0] >= 0.0 && sorted[3] <= 100.0);
        assert!(placed[2] < placed[0] && placed[0] < placed[1], "the order stays");
    }

    #[test]
    fn long_labels_are_cut() {
        assert_eq!(fitted("load build", 100.0), "load build");
        assert!(fitted("a very long label indeed", 60.0).ends_with('…'));
    }
}
