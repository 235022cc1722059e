//! Text of pictures: where it stands, and how it is broken into lines.

use super::{Colour, width};

/// Which part of a text stands at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Text {
    pub(crate) x: f64,
    /// Of the baseline.
    pub(crate) y: f64,
    pub(crate) anchor: Anchor,
    pub(crate) size: f64,
    pub(crate) bold: bool,
    pub(crate) colour: Colour,
    /// Whether it has a rim in the colour of the page, where it stands on lines.
    pub(crate) halo: bool,
    pub(crate) text: String,
}

pub(crate) fn words(x: f64, y: f64, anchor: Anchor, size: f64, colour: Colour, text: impl Into<String>) -> Text {
    Text { x, y, anchor, size, bold: false, colour, halo: false, text: text.into() }
}

/// Whether a text has so much room. The fonts that show an SVG are up to so much wider than ours; each has its own widths.
pub(crate) fn fits(size: f64, bold: bool, room: f64) -> impl Fn(&str) -> bool {
    let by = if bold { 1.16 } else { 1.03 };
    move |text| width(text, size) * by <= room
}

/// A text in lines that fit: broken between its parts (` · `), else between words. With a number of lines at most, what goes
/// beyond is shortened; else nothing is cut.
pub(crate) fn broken(text: &str, fits: impl Fn(&str) -> bool, most: Option<usize>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut now = String::new();
    let mut add = |now: &mut String, between: &str, piece: &str| {
        let longer = format!("{now}{between}{piece}");
        if now.is_empty() {
            piece.clone_into(now);
        } else if fits(&longer) {
            *now = longer;
        } else {
            lines.push(std::mem::replace(now, piece.to_owned()));
        }
    };
    for part in text.split(" · ") {
        if fits(part) {
            add(&mut now, " · ", part);
            continue;
        }
        for (place, word) in part.split(' ').enumerate() {
            add(&mut now, if place == 0 { " · " } else { " " }, word);
        }
    }
    lines.push(now);
    let Some(most) = most else { return lines };
    let more = lines.len() > most;
    lines.truncate(most.max(1));
    let last = lines.len() - 1;
    for (place, line) in lines.iter_mut().enumerate() {
        let cut = more && place == last;
        if cut {
            line.push('…');
        }
        while !fits(line) {
            // A letter less before the sign that some are missing.
            let mut letters: Vec<char> = line.trim_end_matches('…').chars().collect();
            if letters.pop().is_none() {
                break;
            }
            *line = letters.into_iter().collect::<String>().trim_end().to_owned() + "…";
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_broken_where_their_parts_end() {
        let text = "PGM · policy fifo:50 · 1000 bytes · RTT from the actual send";
        let of = |text: &str, room: f64| broken(text, fits(15.0, true, room), Some(4));
        assert_eq!(of(text, 2000.0), [text]);
        assert_eq!(of(text, 300.0), ["PGM · policy fifo:50 · 1000 bytes", "RTT from the actual send"]);
        // Nothing is lost but the signs between, and every line fits.
        for room in [120.0, 200.0, 250.0, 333.0] {
            let lines = broken(text, fits(15.0, true, room), Some(99));
            assert!(lines.iter().all(|line| width(line, 15.0) <= room), "{lines:?}");
            let letters = |text: &str| text.chars().filter(|letter| letter.is_alphanumeric()).collect::<String>();
            assert_eq!(letters(&lines.concat()), letters(text), "{lines:?}");
        }
        // A word that is too long, and more lines than there may be.
        let word = "x".repeat(200);
        let lines = of(&word, 200.0);
        assert!(lines.len() == 1 && lines[0].ends_with("x…") && width(&lines[0], 15.0) <= 200.0, "{lines:?}");
        assert_eq!(broken(&word, fits(15.0, true, 200.0), None), [word]);
        let lines = broken(&"word ".repeat(100), fits(12.0, false, 100.0), Some(3));
        assert!(lines.len() == 3 && lines[2].ends_with('…') && !lines[1].ends_with('…'), "{lines:?}");
        assert_eq!(of("", 100.0), [""]);
    }
}
