//! All distributions at the table's message size, a strip each: smallest to largest a thin line, median to p99 a bar, p99.9 a
//! stroke, the median a dot and the mean a diamond.

use super::{Plotted, tip};
use crate::draw::chart::{Area, Domain, Marks, axis_x, base, sign};
use crate::draw::figure::{Anchor, Colour, Figure, Paint, Style, Text, broken, words};
use crate::units::{by_key, span, tick};
use digest::names::{measured_on, rank};
use digest::{CellInfo, Mark};
use model::{Probe, Substrate};
use std::collections::BTreeSet;

const WIDTH: f64 = 1120.0;
const ROW: f64 = 24.0;
const HEAD: f64 = 30.0;
/// Room for names: as much as the longest needs between these; what is longer still takes several lines.
const NAMES: (f64, f64) = (330.0, 540.0);
const BESIDE: f64 = 24.0;
const LINE: f64 = 15.0;
const FIGURES: f64 = 200.0;

/// About how wide a name of 13 px is.
fn name_width(text: &str) -> f64 {
    text.chars().count() as f64 * 7.0
}

fn in_lines(name: &str, names: f64) -> Vec<String> {
    broken(name, |text| name_width(text) <= names - BESIDE, Some(usize::MAX))
}

pub(crate) fn strips(plotted: &Plotted<'_>) -> Option<Figure> {
    let fit = |info: &&CellInfo| {
        let known = ["min", "p50", "mean", "max"].iter().all(|id| info.value(id).is_some());
        info.probe == Probe::Pingpong && info.size_bytes == plotted.size_bytes && known
    };
    let cells: Vec<&CellInfo> = plotted.cells.iter().map(|cell| &cell.info).filter(fit).collect();
    let kind = plotted.kind.title();
    let substrates: BTreeSet<Substrate> = cells.iter().map(|info| info.substrate).collect();
    let groups = by_key(cells.iter().map(|&info| ((info.substrate, rank("protocol", &info.protocol)), info)));
    let low = cells.iter().filter_map(|info| info.value("min")).reduce(f64::min)?.max(1.0);
    let high = cells.iter().filter_map(|info| info.value("max")).reduce(f64::max)?;
    let domain = Domain::log(low, high.max(low * 1.5));
    let names = cells.iter().map(|info| name_width(&info.label)).fold(0.0, f64::max) + BESIDE;
    let names = names.clamp(NAMES.0, NAMES.1);
    let high = |info: &CellInfo| ROW + LINE * (in_lines(&info.label, names).len() - 1) as f64;
    let body = groups.len() as f64 * HEAD + cells.iter().map(|info| high(info)).sum::<f64>();
    let tips: Vec<String> = groups.values().flatten().map(|info| tip(info)).collect();
    let title = format!("Distributions of {kind} at {} bytes", plotted.size_bytes);
    let mut figure = Figure::new(WIDTH, body + 56.0, title, format!("{}.", tips.join("; ")));
    let area = Area { left: names, top: 6.0, width: WIDTH - FIGURES - names, height: body + 2.0 };
    axis_x(&mut figure, &area, Marks::Grid, &domain.labelled(tick));
    base(&mut figure, &area, &format!("{kind}, log scale"));
    let mut y = 4.0;
    for ((substrate, (_, protocol)), cells) in &groups {
        let place =
            if substrates.len() > 1 { format!(", measured {}", measured_on(*substrate)) } else { String::new() };
        let heading = format!("{}{place}", protocol.to_uppercase());
        figure.text(Text { bold: true, ..words(0.0, y + 20.0, Anchor::Start, 13.0, Colour::INK, heading) });
        y += HEAD;
        for info in cells {
            strip(&mut figure, &area, domain, info, y, high(info));
            y += high(info);
        }
    }
    Some(figure)
}

fn strip(figure: &mut Figure, area: &Area, domain: Domain, info: &CellInfo, top: f64, high: f64) {
    let y = top + high / 2.0;
    let colour = Colour::series(info.colour);
    let at = |id: &str| info.value(id).map(|ns| area.x(domain.at(ns).clamp(0.0, 1.0)));
    let name = in_lines(&info.label, area.left);
    let mut below = y + 4.0 - LINE * (name.len() - 1) as f64 / 2.0;
    for line in name {
        figure.text(words(12.0, below, Anchor::Start, 13.0, Colour::INK, line));
        below += LINE;
    }
    figure.series(&tip(info), |figure| {
        // A wide invisible target makes the strip easy to point at.
        let target = Style::fill(Paint { colour: Colour::PAGE, alpha: 0.0 });
        figure.rect(target, area.left, y - high / 2.0, area.width, high);
        let Some((min, p50)) = at("min").zip(at("p50")) else { return };
        let Some((mean, max)) = at("mean").zip(at("max")) else { return };
        let reach = Style::stroke(colour, 1.3).faded(0.75);
        figure.line(reach, min, y, max, y);
        figure.line(reach, max, y - 3.5, max, y + 3.5);
        if let Some(p99) = at("p99") {
            figure.rect(Style::fill(colour).faded(0.42), p50, y - 4.0, p99 - p50, 8.0);
        }
        if let Some(p99_9) = at("p99.9") {
            figure.line(Style::stroke(colour, 2.2), p99_9, y - 6.5, p99_9, y + 6.5);
        }
        figure.marker(sign(info.colour, false), 3, (mean, y), "");
        figure.marker(sign(info.colour, true), 0, (p50, y), "");
    });
    let tail = info.value("p99.9").map(|ns| format!(" · p99.9 {}", span(ns))).unwrap_or_default();
    let mark = if info.mark == Mark::Clean { String::new() } else { format!(" {}", info.mark.sign()) };
    let text = format!("p50 {}{tail}{mark}", info.value("p50").map(span).unwrap_or_default());
    figure.text(words(WIDTH, y + 4.0, Anchor::End, 12.5, Colour::INK, text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_never_shortened() {
        let name = "receive spin · policy fifo:50 · load build · nic tuned for latency";
        let longer = [name, name, "end"].join(" · ");
        let lines = in_lines(&longer, NAMES.1);
        assert!(lines.len() > 1 && lines.join(" · ") == longer, "{lines:?}");
        assert!(in_lines(&"x".repeat(300), NAMES.1).concat().contains('…'), "one word without end is");
    }
}
