//! The late messages of one explaining pass: time against RTT, each place in the colour of what made its messages late.

use super::causes::{Bar, Part, cost, paint};
use crate::causes::timed;
use crate::draw::chart::{Area, Domain, Marks, axis_x, axis_y, base};
use crate::draw::figure::{Figure, Item, Style};
use crate::units::{by_key, counted, span, tick, whole};
use model::CauseClass;
use model::result::Outlier;
use std::cmp::Reverse;
use std::collections::BTreeMap;

const WIDTH: f64 = 1120.0;
const AREA: Area = Area { left: 70.0, top: 10.0, width: WIDTH - 84.0, height: 216.0 };
/// Of a square. Messages that are closer to each other share one.
const SIDE: f64 = 9.0;
/// Of the axis of time.
const SHORTEST_NS: u64 = 1_000_000;
/// Causes of a message that its words name.
const MOST_CAUSES: usize = 3;

/// The class of a message's largest cause, and what it cost.
fn first_cause(message: &Outlier) -> (CauseClass, u64) {
    message.causes.first().map_or((CauseClass::Unknown, 0), |cause| (cause.class, cause.ns))
}

/// `4711 RTT 1.20 ms: near-wake-up run-queue rustc 900 µs`.
fn words(message: &Outlier) -> String {
    let causes = message.causes.iter().take(MOST_CAUSES);
    let mut causes: Vec<String> = causes.map(|cause| format!("{} {}", cause.segment, cost(cause))).collect();
    if let Some(more) = message.causes.len().checked_sub(MOST_CAUSES).filter(|more| *more > 0) {
        causes.push(format!("{more} more"));
    }
    format!("{} {} {}: {}", message.seq, timed(message), span(message.rtt_ns as f64), causes.join(", "))
}

/// A square with the class of first causes that cost its messages most, and what it says: when, and a line a message.
fn square(from_ns: u64, [left, top]: [f64; 2], messages: &[&Outlier]) -> (CauseClass, Item) {
    let mut lost_ns: BTreeMap<CauseClass, u64> = BTreeMap::new();
    for (class, ns) in messages.iter().map(|message| first_cause(message)) {
        *lost_ns.entry(class).or_default() += ns;
    }
    let class = lost_ns.into_iter().max_by_key(|(_, ns)| *ns).map_or(CauseClass::Unknown, |(class, _)| class);
    let head = format!("At {}: {}", span(from_ns as f64), counted(messages.len(), "late message"));
    let lines: Vec<String> = std::iter::once(head).chain(messages.iter().map(|message| words(message))).collect();
    let rect = Item::Rect(Style::fill(paint(class)), [left, top, SIDE - 1.0, SIDE - 1.0]);
    (class, Item::Tip(lines.join("\n"), Box::new(rect)))
}

/// The drawing, with the classes of its messages; `None` where it is not known when they were sent. Each class is a series.
pub(crate) fn over_time(messages: &[Outlier], title: String) -> Option<Bar> {
    let mut placed: Vec<(u64, &Outlier)> = messages.iter().filter_map(|one| Some((one.realtime_ns?, one))).collect();
    placed.sort_by_key(|(_, message)| Reverse(message.rtt_ns));
    let (first_ns, last_ns) = (placed.iter().map(|(ns, _)| *ns).min()?, placed.iter().map(|(ns, _)| *ns).max()?);
    let [high, low] = [placed.first(), placed.last()].map(|one| one.map_or(1.0, |(_, one)| one.rtt_ns.max(1) as f64));
    let time = Domain::between(0.0, (last_ns - first_ns).max(SHORTEST_NS) as f64);
    let rtt = Domain::log(low, high);
    let mut squares: BTreeMap<(u64, u64), (u64, Vec<&Outlier>)> = BTreeMap::new();
    let mut counts: BTreeMap<CauseClass, usize> = BTreeMap::new();
    for (at_ns, message) in placed {
        let at_ns = at_ns - first_ns;
        let (x, y) = (AREA.width * time.at(at_ns as f64), AREA.height * (1.0 - rtt.at(message.rtt_ns as f64)));
        // The shortest may be on the base line.
        let y = y.min(AREA.height - 1.0);
        let (from_ns, own) =
            squares.entry((whole((x / SIDE).floor()), whole((y / SIDE).floor()))).or_insert((at_ns, Vec::new()));
        *from_ns = at_ns.min(*from_ns);
        own.push(message);
        *counts.entry(first_cause(message).0).or_default() += 1;
    }
    let mut counts: Vec<(CauseClass, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    let part = |(class, count): &(CauseClass, usize)| Part { class: Some(*class), text: format!("{class} {count}") };
    let parts: Vec<Part> = counts.iter().map(part).collect();
    let texts: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
    let description = format!("Messages by their first cause: {}.", texts.join("; "));
    let mut figure = Figure::new(WIDTH, AREA.bottom() + 44.0, title, description);
    axis_y(&mut figure, &AREA, Marks::Grid, &rtt.labelled(tick));
    axis_x(&mut figure, &AREA, Marks::Outside, &time.labelled(tick));
    let of = messages.first().map_or("RTT", timed);
    base(&mut figure, &AREA, &format!("{of}, log scale, against the time since the first late one that is kept"));
    let series = by_key(squares.into_iter().map(|((column, row), (from_ns, own))| {
        square(from_ns, [AREA.left + column as f64 * SIDE, AREA.top + row as f64 * SIDE], &own)
    }));
    figure.items.extend(series.into_values().map(|items| Item::Series(String::new(), items)));
    Some(Bar { figure, parts })
}
