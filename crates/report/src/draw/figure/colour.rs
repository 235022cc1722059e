//! Colours of all that is not counts: by name, each theme has its own.

use crate::draw::palette::{Rgb, Theme, rgb};

/// Colours of series; more series than that repeat them with dashes.
pub(crate) const COLOURS: usize = 7;

/// Name, and the colour on a light and on a dark page. The page's style sheet has the same as variables.
const NAMED: [(&str, u32, u32); 5 + COLOURS] = [
    ("page", 0xffffff, 0x15181d),
    ("ink", 0x1b1e23, 0xe4e7ec),
    ("soft", 0x59606b, 0xa5adb9),
    ("faint", 0x8a919c, 0x7b8491),
    ("hair", 0xeceef2, 0x252a32),
    ("s0", 0x0072b2, 0x4ba3e3),
    ("s1", 0xd55e00, 0xf0803c),
    ("s2", 0x009e73, 0x2fc79a),
    ("s3", 0xb55a93, 0xe39ac4),
    ("s4", 0xc98500, 0xf0b83a),
    ("s5", 0x3a9fd8, 0x8fd0f5),
    ("s6", 0x5b626d, 0xb4bbc6),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    /// By its place among the named ones.
    Named(usize),
    Fixed(Rgb),
}

impl From<Rgb> for Colour {
    fn from(rgb: Rgb) -> Self {
        Self::Fixed(rgb)
    }
}

impl Colour {
    pub(crate) const PAGE: Self = Self::Named(0);
    pub(crate) const INK: Self = Self::Named(1);
    pub(crate) const SOFT: Self = Self::Named(2);
    pub(crate) const FAINT: Self = Self::Named(3);
    pub(crate) const HAIR: Self = Self::Named(4);

    pub(crate) fn series(number: usize) -> Self {
        Self::Named(5 + number % COLOURS)
    }

    pub(crate) fn rgb(self, theme: Theme) -> Rgb {
        match self {
            Self::Fixed(rgb) => rgb,
            Self::Named(place) => NAMED.get(place).map_or([0; 3], |(_, light, dark)| match theme {
                Theme::Light => rgb(*light),
                Theme::Dark => rgb(*dark),
            }),
        }
    }

    /// As SVG has it; without a theme named ones are variables of the page.
    pub(super) fn css(self, theme: Option<Theme>) -> String {
        match (self, theme) {
            (Self::Named(place), None) => format!("var(--{})", NAMED.get(place).map_or("ink", |(name, ..)| name)),
            _ => {
                let [red, green, blue] = self.rgb(theme.unwrap_or_default());
                format!("#{red:02x}{green:02x}{blue:02x}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_same_colours() {
        let (light, dark) = include_str!("../../templates/page.css").split_once("prefers-color-scheme: dark").unwrap();
        for (place, (name, ..)) in NAMED.iter().enumerate() {
            for (theme, css) in [(Theme::Light, light), (Theme::Dark, dark)] {
                let colour = format!("--{name}: {};", Colour::Named(place).css(Some(theme)));
                assert!(css.contains(&colour), "{colour}");
            }
        }
        assert_eq!(Colour::series(8), Colour::series(1));
    }
}
