//! The report's own line charts as pictures that stand alone. Their SVG is written by [`crate::svg`] with the classes of
//! the page's style sheet; here each element gets the colours that the page would give it. Only what that writer writes
//! is read: `line`, `rect`, `path`, `text`, `g`.

use super::{Figure, Hold, Ink, Item, Paint, Style, Text, ink};
use crate::heat::{Rgb, Theme};
use crate::svg::COLOURS;

type Point = (f64, f64);

/// The words and numbers of path data.
struct Words<'a>(&'a str);

impl Words<'_> {
    fn letter(&mut self) -> Option<char> {
        let rest = self.0.trim_start_matches([' ', ',', '\n']);
        let letter = rest.chars().next().filter(char::is_ascii_alphabetic)?;
        self.0 = rest.get(1..)?;
        Some(letter)
    }

    fn number(&mut self) -> Option<f64> {
        let rest = self.0.trim_start_matches([' ', ',', '\n']);
        let end = rest
            .char_indices()
            .find(|(at, c)| !(c.is_ascii_digit() || *c == '.' || (*at == 0 && (*c == '-' || *c == '+'))))
            .map_or(rest.len(), |(at, _)| at);
        let value = rest.get(..end)?.parse().ok()?;
        self.0 = rest.get(end..)?;
        Some(value)
    }
}

/// Path data as polylines; arcs of circles become short lines. What is not understood ends the path.
pub(crate) fn path(data: &str) -> Vec<Vec<Point>> {
    let mut words = Words(data);
    let mut lines: Vec<Vec<Point>> = Vec::new();
    let mut at = (0.0, 0.0);
    let mut command = 'M';
    loop {
        if let Some(letter) = words.letter() {
            command = letter;
        } else if words.0.trim().is_empty() {
            break;
        }
        let step = read(&mut words, command, at, &mut lines);
        match step {
            Some(next) => at = next,
            None => break,
        }
        // Further pairs after a move are lines.
        command = match command {
            'M' => 'L',
            'm' => 'l',
            // Nothing follows the end of a path but another command.
            'Z' | 'z' => '\0',
            other => other,
        };
    }
    lines.retain(|line| line.len() > 1);
    lines
}

fn read(words: &mut Words<'_>, command: char, at: Point, lines: &mut Vec<Vec<Point>>) -> Option<Point> {
    let mut to = |point: Point| {
        match lines.last_mut() {
            Some(line) => line.push(point),
            None => lines.push(vec![at, point]),
        }
        Some(point)
    };
    match command {
        'M' | 'm' => {
            let (x, y) = (words.number()?, words.number()?);
            let point = if command == 'm' { (at.0 + x, at.1 + y) } else { (x, y) };
            lines.push(vec![point]);
            Some(point)
        }
        'L' => to((words.number()?, words.number()?)),
        'l' => to((at.0 + words.number()?, at.1 + words.number()?)),
        'H' => to((words.number()?, at.1)),
        'h' => to((at.0 + words.number()?, at.1)),
        'V' => to((at.0, words.number()?)),
        'v' => to((at.0, at.1 + words.number()?)),
        'Z' | 'z' => {
            let first = *lines.last()?.first()?;
            lines.last_mut()?.push(first);
            Some(first)
        }
        'A' | 'a' => {
            let (radius, _, _) = (words.number()?, words.number()?, words.number()?);
            let (large, sweep) = (words.number()? > 0.5, words.number()? > 0.5);
            let (x, y) = (words.number()?, words.number()?);
            let end = if command == 'a' { (at.0 + x, at.1 + y) } else { (x, y) };
            let line = lines.last_mut()?;
            line.extend(arc(at, end, radius, large, sweep));
            Some(end)
        }
        _ => None,
    }
}

/// Points on the arc of a circle (SVG 2, appendix B.2.4, with equal radii).
fn arc(from: Point, to: Point, radius: f64, large: bool, sweep: bool) -> Vec<Point> {
    let (dx, dy) = ((to.0 - from.0) / 2.0, (to.1 - from.1) / 2.0);
    let half = dx.hypot(dy);
    if half == 0.0 {
        return vec![to];
    }
    let radius = radius.max(half);
    let off = (radius * radius - half * half).max(0.0).sqrt() / half;
    let sign = if large == sweep { -1.0 } else { 1.0 };
    let centre = (from.0 + dx - sign * off * dy, from.1 + dy + sign * off * dx);
    let angle = |point: Point| (point.1 - centre.1).atan2(point.0 - centre.0);
    let (start, mut end) = (angle(from), angle(to));
    let turn = std::f64::consts::TAU;
    if sweep && end <= start {
        end += turn;
    } else if !sweep && end >= start {
        end -= turn;
    }
    let parts = 12_u32;
    (1..=parts)
        .map(|part| {
            let at = start + (end - start) * f64::from(part) / f64::from(parts);
            (centre.0 + radius * at.cos(), centre.1 + radius * at.sin())
        })
        .collect()
}

/// One element of a chart: its name, its attributes and the text after it.
struct Element<'a> {
    name: &'a str,
    attributes: &'a str,
    text: &'a str,
}

impl<'a> Element<'a> {
    fn get(&self, name: &str) -> Option<&'a str> {
        let mut rest = self.attributes;
        while let Some((before, after)) = rest.split_once("=\"") {
            let (value, next) = after.split_once('"')?;
            if before.trim() == name {
                return Some(value);
            }
            rest = next;
        }
        None
    }

    fn number(&self, name: &str) -> f64 {
        self.get(name).and_then(|value| value.parse().ok()).unwrap_or(0.0)
    }
}

fn elements(svg: &str) -> impl Iterator<Item = Element<'_>> {
    svg.split('<').skip(1).filter_map(|part| {
        let (tag, text) = part.split_once('>')?;
        let tag = tag.trim_end_matches('/');
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        Some(Element { name, attributes, text })
    })
}

fn unescaped(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'");
    text.replace("&amp;", "&")
}

/// Colour and dashes of a series, from the classes of an element and of those around it.
struct Series {
    colour: Rgb,
    dash: Option<(f64, f64)>,
}

fn series(classes: &[&str], ink: &Ink) -> Series {
    let numbered = |letter: char| {
        classes.iter().rev().flat_map(|class| class.split(' ')).find_map(|word| {
            let number = word.strip_prefix(letter)?;
            number.parse::<usize>().ok()
        })
    };
    let colour = numbered('s').and_then(|number| ink.series.get(number % COLOURS)).copied().unwrap_or(ink.ink);
    let dash = match numbered('d') {
        Some(1) => Some((6.0, 3.5)),
        Some(_) => Some((1.5, 3.5)),
        None => None,
    };
    Series { colour, dash }
}

/// What the page's style sheet says of lines and areas.
fn style(class: &str, around: &[&str], ink: &Ink) -> Style {
    let classes: Vec<&str> = around.iter().copied().chain([class]).collect();
    let Series { colour, dash } = series(&classes, ink);
    let has = |word: &str| class.split(' ').any(|other| other == word);
    let faded = |alpha: f64| Paint { rgb: colour, alpha };
    if has("grid") {
        Style::stroke(ink.hair, 1.0)
    } else if has("ideal") {
        Style::stroke(ink.faint, 1.0).dashed(3.0, 3.0)
    } else if has("axis") || has("mark") {
        Style::stroke(ink.faint, 1.0)
    } else if has("curve") && has("thin") {
        Style::stroke(colour, 1.0).dashed(2.0, 2.5)
    } else if has("curve") {
        Style { dash, ..Style::stroke(colour, 1.9) }
    } else if has("leader") {
        Style::stroke(faded(0.6), 0.8)
    } else if has("band") {
        Style::fill(faded(0.15))
    } else if has("bar") {
        Style::fill(faded(0.42))
    } else if has("whisker") {
        Style::stroke(colour, 1.4)
    } else if has("reach") {
        Style::stroke(faded(0.75), 1.3)
    } else if has("stroke") {
        Style::stroke(colour, 2.2)
    } else if has("dot") && !has("untrusted") {
        Style { fill: Some(colour.into()), ..Style::stroke(ink.page, 1.0) }
    } else if has("dot") || has("mean") {
        Style { fill: Some(ink.page.into()), ..Style::stroke(colour, 1.6) }
    } else if has("target") {
        Style::default()
    } else {
        Style { dash, ..Style::stroke(colour, 1.3) }
    }
}

fn text(element: &Element<'_>, class: &str, around: &[&str], ink: &Ink) -> Text {
    let classes: Vec<&str> = around.iter().copied().chain([class]).collect();
    let has = |word: &str| class.split(' ').any(|other| other == word);
    let (size, bold, colour, halo) = if has("name") {
        (12.0, true, series(&classes, ink).colour, Some(ink.page))
    } else if has("group") {
        (13.0, true, ink.ink, None)
    } else if has("label") {
        (13.0, false, ink.ink, None)
    } else if has("figures") {
        (12.5, false, ink.ink, None)
    } else {
        (12.0, false, ink.soft, None)
    };
    Text {
        x: element.number("x"),
        y: element.number("y"),
        hold: match element.get("text-anchor") {
            Some("middle") => Hold::Middle,
            Some("end") => Hold::End,
            _ => Hold::Start,
        },
        size,
        bold,
        colour,
        halo,
        turned: element.get("transform").is_some_and(|how| how.contains("rotate(-90")),
        text: unescaped(element.text.trim_end()),
    }
}

/// Room above a chart for its heading, and around it.
const HEAD: f64 = 34.0;
const MARGIN: f64 = 14.0;

/// A chart with its heading as a picture that stands alone.
pub(crate) fn chart(heading: &str, svg: &str, theme: Theme) -> Figure {
    let ink = ink(theme);
    let mut around: Vec<&str> = Vec::new();
    let mut figure = Figure::new(0.0, 0.0, heading.to_owned(), String::new(), theme);
    let mut items = Vec::new();
    for element in elements(svg) {
        let class = element.get("class").unwrap_or_default();
        match element.name {
            "svg" => {
                figure.width = element.number("width") + 2.0 * MARGIN;
                figure.height = element.number("height") + HEAD + MARGIN;
            }
            "desc" => figure.description = unescaped(element.text),
            "g" => around.push(class),
            "/g" => {
                around.pop();
            }
            "line" => {
                let [x1, y1, x2, y2] = ["x1", "y1", "x2", "y2"].map(|name| element.number(name));
                items.push(Item::Path(style(class, &around, &ink), format!("M{x1} {y1}L{x2} {y2}")));
            }
            "rect" => {
                let place = ["x", "y", "width", "height"].map(|name| element.number(name));
                items.push(Item::Rect(style(class, &around, &ink), place));
            }
            "path" => {
                let data = element.get("d").unwrap_or_default().to_owned();
                items.push(Item::Path(style(class, &around, &ink), data));
            }
            "text" => items.push(Item::Text(text(&element, class, &around, &ink))),
            _ => {}
        }
    }
    let (x, y, size, step) = (MARGIN, 22.0, 14.0, 18.0);
    let title = Text { x, y, size, bold: true, colour: ink.ink, text: heading.to_owned(), ..Text::default() };
    let more = figure.lines(&title, step) - y - step;
    figure.height += more;
    figure.items.extend(items.into_iter().map(|item| moved(item, MARGIN, HEAD + more)));
    figure
}

fn moved(item: Item, across: f64, down: f64) -> Item {
    match item {
        Item::Path(style, data) => {
            use crate::svg::xy;
            let mut out = String::with_capacity(data.len());
            for line in path(&data) {
                let closed = line.len() > 2 && line.first() == line.last();
                let points: Vec<String> =
                    line.iter().map(|(x, y)| format!("{} {}", xy(x + across), xy(y + down))).collect();
                let points = if closed { points.get(..points.len() - 1).unwrap_or_default() } else { &points };
                out.push_str(&format!("M{}{}", points.join("L"), if closed { "z" } else { "" }));
            }
            Item::Path(style, out)
        }
        Item::Rect(style, [x, y, w, h]) => Item::Rect(style, [x + across, y + down, w, h]),
        Item::Text(text) => Item::Text(Text { x: text.x + across, y: text.y + down, ..text }),
        Item::Image(left, top, pixels) => Item::Image(left + across, top + down, pixels),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_data_becomes_lines() {
        assert_eq!(path("M1 2h5.5v-3L0,0z"), [vec![(1.0, 2.0), (6.5, 2.0), (6.5, -1.0), (0.0, 0.0), (1.0, 2.0)]]);
        assert_eq!(path("M1 2 3 4M5 6H7"), [vec![(1.0, 2.0), (3.0, 4.0)], vec![(5.0, 6.0), (7.0, 6.0)]]);
        let circle = path("M0 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0 -6.4 0z");
        assert!(circle[0].iter().all(|(x, y)| ((x - 3.2).hypot(*y) - 3.2).abs() < 1e-6), "{circle:?}");
        assert!(path("Q nonsense").is_empty());
        // What stands behind an end without a command was taken for another end, without end.
        assert_eq!(path("M1 2L3 4Z\u{1}"), [vec![(1.0, 2.0), (3.0, 4.0), (1.0, 2.0)]]);
    }

    #[test]
    fn a_chart_keeps_its_colours_without_a_style_sheet() {
        let svg = "<svg xmlns=\"x\" viewBox=\"0 0 60 30\" width=\"60\" height=\"30\">\n<title>t</title>\n<desc id=\"d\">words &amp; more</desc>\n\
                   <g class=\"series s1 d1\">\n<title>tip</title>\n<path class=\"curve\" d=\"M1 2L3 4\"/>\n</g>\n\
                   <text class=\"tick\" x=\"4\" y=\"5\" text-anchor=\"end\">5 µs &lt;</text>\n</svg>";
        let figure = chart("h", svg, Theme::Light);
        assert_eq!((figure.width, figure.height), (88.0, 78.0));
        assert_eq!(figure.description, "words & more");
        let out = figure.svg(1.0);
        assert!(out.contains("stroke=\"#d55e00\"") && out.contains("stroke-dasharray=\"6 3.5\""), "{out}");
        assert!(out.contains("5 µs &lt;</text>") && !out.contains("class="), "{out}");
        // A heading of two lines moves the chart down by one.
        let two = chart("twenty letters", svg, Theme::Light);
        assert_eq!((two.width, two.height), (88.0, 96.0));
        assert!(
            two.svg(1.0).contains(">twenty</text>") && two.svg(1.0).contains(">letters</text>"),
            "{}",
            two.svg(1.0)
        );
    }
}
