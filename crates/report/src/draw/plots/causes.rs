//! Why messages were late, as bars: the shares of the classes, and the way of one message. A page has their words beside them.

use crate::draw::figure::{Colour, Figure, Item, Paint, Style};
use crate::units::{plain, span, three_digits};
use digest::causes::{by_class, lost_ns};
use model::result::Outlier;
use model::{Cause, CauseClass, Explanation};

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 20.0;
/// Of the thin line that shows the segments below the causes.
const SEGMENTS: f64 = 6.0;
const SQUARE: f64 = 12.0;
/// A part below this share of a bar is drawn, and not named.
const NAMED: f64 = 0.01;
/// Causes of one segment that its words name.
const MOST_NAMES: usize = 3;

/// The colour of a class and how full it is. Related classes share a colour.
fn look(class: CauseClass) -> (usize, f64) {
    use CauseClass::*;
    match class {
        RunQueue => (1, 1.0),
        Preempted => (1, 0.65),
        LowerTask => (1, 0.35),
        FairServer => (4, 1.0),
        Quota => (4, 0.65),
        Stopped => (4, 0.35),
        Hardirq => (0, 1.0),
        Ipi => (0, 0.65),
        CpuDeaf => (0, 0.35),
        Softirq => (5, 1.0),
        SoftirqDeferred => (5, 0.65),
        Tracer => (5, 0.35),
        Application => (2, 1.0),
        Blocked => (2, 0.75),
        PageFault => (2, 0.5),
        Migration => (2, 0.3),
        Steal => (3, 1.0),
        IdleExit => (3, 0.5),
        Wire => (3, 0.3),
        Repair => (3, 0.75),
        NoEvent => (6, 0.6),
        Unknown => (6, 0.3),
    }
}

pub(super) fn paint(class: CauseClass) -> Paint {
    let (series, alpha) = look(class);
    Paint { colour: Colour::series(series), alpha }
}

/// One part of a bar, in words.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Part {
    /// Its colour; segments have none.
    pub(crate) class: Option<CauseClass>,
    pub(crate) text: String,
}

/// A bar without text, and the words of its parts in their order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bar {
    pub(crate) figure: Figure,
    pub(crate) parts: Vec<Part>,
}

/// A square in the colour of a class.
pub(crate) fn square(class: CauseClass) -> Figure {
    let mut figure = Figure::new(SQUARE, SQUARE, String::new(), String::new());
    figure.rect(Style::fill(paint(class)), 0.0, 0.0, SQUARE, SQUARE);
    figure
}

fn tipped(figure: &mut Figure, tip: &str, paint: Paint, [left, top, width, height]: [f64; 4]) {
    // A gap parts neighbours of one colour, where there is room for it.
    let width = if width > 3.0 { width - 1.0 } else { width };
    let rect = Item::Rect(Style::fill(paint), [left, top, width, height]);
    figure.items.push(Item::Tip(tip.to_owned(), Box::new(rect)));
}

/// What the classes cost of the time that late messages lost, as parts of one bar.
pub(crate) fn shares(explanation: &Explanation, title: String) -> Option<Bar> {
    let all_ns = lost_ns(explanation);
    if all_ns == 0 {
        return None;
    }
    let losses = by_class(explanation);
    let mut left = 0.0;
    let mut parts = Vec::new();
    let mut bars = Vec::new();
    for loss in &losses {
        let text = format!("{} {} % ({})", loss.class, three_digits(100.0 * loss.share), span(loss.lost_ns as f64));
        bars.push((text.clone(), paint(loss.class), [left, 0.0, WIDTH * loss.share, HEIGHT]));
        left += WIDTH * loss.share;
        if loss.share >= NAMED {
            parts.push(Part { class: Some(loss.class), text });
        }
    }
    let words: Vec<&str> = bars.iter().map(|(text, ..)| text.as_str()).collect();
    let mut figure = Figure::new(WIDTH, HEIGHT, title, format!("{}.", words.join("; ")));
    for (text, paint, place) in &bars {
        tipped(&mut figure, text, *paint, *place);
    }
    Some(Bar { figure, parts })
}

/// `run-queue rustc 900 µs`.
pub(super) fn cost(cause: &Cause) -> String {
    let name = cause.name.as_deref().map(|name| format!(" {}", plain(name))).unwrap_or_default();
    format!("{}{name} {}", cause.class, span(cause.ns as f64))
}

/// The way of one message as parts of one bar: its segments below, in their order, and above what made each longer.
pub(crate) fn way(message: &Outlier, title: String) -> Option<Bar> {
    let all_ns: u64 = message.segments.iter().map(|part| part.ns).sum();
    if all_ns == 0 {
        return None;
    }
    let x = |ns: u64| WIDTH * ns as f64 / all_ns as f64;
    let mut figure = Figure::new(WIDTH, HEIGHT + SEGMENTS, title, String::new());
    let (mut from_ns, mut parts) = (0, Vec::new());
    for (place, segment) in message.segments.iter().enumerate() {
        let text = format!("{} at the {} {}", segment.segment, segment.host, span(segment.ns as f64));
        let alpha = if place % 2 == 0 { 0.55 } else { 0.25 };
        let grey = Paint { colour: Colour::SOFT, alpha };
        tipped(&mut figure, &text, grey, [x(from_ns), HEIGHT, x(segment.ns), SEGMENTS]);
        let mut named = vec![text];
        let mut cause_ns = from_ns;
        let of_it = |cause: &&Cause| (cause.segment, &cause.host) == (segment.segment, &segment.host);
        for cause in message.causes.iter().filter(of_it) {
            let ns = cause.ns.min((from_ns + segment.ns).saturating_sub(cause_ns));
            let text = cost(cause);
            tipped(&mut figure, &text, paint(cause.class), [x(cause_ns), 0.0, x(ns), HEIGHT]);
            cause_ns += ns;
            if cause.ns as f64 >= NAMED * all_ns as f64 {
                named.push(text);
            }
        }
        let class = message.causes.iter().find(of_it).filter(|_| named.len() > 1).map(|cause| cause.class);
        if segment.ns as f64 >= NAMED * all_ns as f64 {
            let causes = named.split_off(1);
            let more = causes.len().saturating_sub(MOST_NAMES);
            let mut text = named.concat();
            for (place, cause) in causes.iter().take(MOST_NAMES).enumerate() {
                text.push_str(if place == 0 { ": " } else { ", " });
                text.push_str(cause);
            }
            if more > 0 {
                text.push_str(&format!(", {more} more"));
            }
            parts.push(Part { class, text });
        }
        from_ns += segment.ns;
    }
    let words: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
    figure.description = format!("{}.", words.join("; "));
    Some(Bar { figure, parts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_look_of_its_own() {
        let look = |class: &CauseClass| (look(*class).0, look(*class).1.to_bits());
        let looks: Vec<(usize, u64)> = CauseClass::ALL.iter().map(look).collect();
        let different: std::collections::BTreeSet<_> = looks.iter().collect();
        assert_eq!(different.len(), CauseClass::ALL.len(), "{looks:?}");
    }
}
