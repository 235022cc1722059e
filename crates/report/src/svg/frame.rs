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
    axis_y(svg, plot, domain, tick);
}

/// Horizontal grid lines with values at the left.
pub(crate) fn axis_y(svg: &mut Svg, plot: &Plot, domain: &Domain, word: fn(f64) -> String) {
    for value in domain.ticks() {
        let y = plot.y(domain.at(value));
        svg.line("grid", plot.left, y, plot.right, y);
        svg.text("tick", plot.left - 8.0, y + 4.0, Anchor::End, &word(value));
    }
    svg.line("axis", plot.left, plot.bottom, plot.right, plot.bottom);
}

/// Vertical grid lines with times below; labels that would touch are left out.
pub(crate) fn time_axis_x(svg: &mut Svg, plot: &Plot, domain: &Domain) {
    axis_x(svg, plot, domain, tick);
}

/// Vertical grid lines with values below; labels that would touch are left out.
pub(crate) fn axis_x(svg: &mut Svg, plot: &Plot, domain: &Domain, word: fn(f64) -> String) {
    let mut free = f64::NEG_INFINITY;
    for value in domain.ticks() {
        let x = plot.x(domain.at(value));
        svg.line("grid", x, plot.top, x, plot.bottom);
        let label = word(value);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_labels_are_cut() {
        assert_eq!(fitted("load build", 100.0), "load build");
        assert!(fitted("a very long label indeed", 60.0).ends_with('…'));
    }
}
