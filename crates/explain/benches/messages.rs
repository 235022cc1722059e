//! How many late messages are explained a second: timelines of 10 ms with 50 events and a disturbance, on one CPU.
//!
//! `cargo bench -p windhover-explain --bench messages` prints one number.
#![allow(clippy::print_stdout, reason = "a benchmark prints its figure")]

use std::hint::black_box;
use std::time::{Duration, Instant};
use windhover_explain::event::Vector;
use windhover_explain::stay::STAGES;
use windhover_explain::{Event, EventKind, Side, Stamp, Stay, Timeline, Usual, blame_table, explain_stay, join};

const ME: i32 = 10;
/// A late message each so long.
const EVERY_NS: u64 = 10_000_000;
const EVENTS: u64 = 50;
const LATE: u64 = 200;
const LATE_NS: u64 = 300_000;

/// The stages of a message are so many µs apart; one that is late waits for its CPU.
fn stay(seq: u64, late: bool) -> Stay {
    let begin_ns = 1_000_000_000 + seq * EVERY_NS + EVERY_NS / 2;
    let mut stamps = [Stamp::default(); STAGES];
    for (stage, stamp) in stamps.iter_mut().enumerate() {
        let late_ns = if late && stage >= 5 { LATE_NS } else { 0 };
        *stamp = Stamp { at_ns: begin_ns + 3_000 * stage as u64 + late_ns, cpu: 0 };
    }
    Stay::new(seq, stamps, [ME, ME])
}

/// What the CPU did around it: ticks, softirqs, other tasks, and one that holds the message up.
fn events(stay: &Stay) -> Vec<Event> {
    let begin_ns = stay.start_ns(Side::Near);
    let first_ns = begin_ns - EVERY_NS / 2;
    let switch = |from, to| EventKind::Switch {
        from,
        from_state: u32::from(from == ME),
        throttled: false,
        to,
        to_priority: if to == ME { 89 } else { 120 },
        to_name: "cc1".into(),
    };
    let usual = |number: u64| match number % 5 {
        0 => EventKind::Vector { ns: 3_000, vector: Vector::LocalTimer },
        1 => EventKind::Softirq { ns: 5_000, vector: 3, since_raise_ns: 1_000 },
        2 => switch(ME, 20),
        3 => EventKind::Ran { tid: 20, ns: 100_000 },
        _ => switch(20, ME),
    };
    let event = |at_ns, kind| Event { at_ns, cpu: 0, kind };
    let around = (0..EVENTS - 2).map(|number| event(first_ns + number * EVERY_NS / EVENTS, usual(number)));
    let held = [event(begin_ns + 12_500, switch(ME, 30)), event(begin_ns + 12_500 + LATE_NS, switch(30, ME))];
    let mut events: Vec<Event> = around.chain(held).collect();
    events.sort_by_key(|event| event.at_ns);
    events
}

fn main() {
    let mut usual = Usual::new(Side::Near);
    (0..4096).for_each(|seq| usual.add(&stay(seq, false)));
    let late: Vec<(Stay, Vec<Event>)> =
        (0..LATE).map(|seq| stay(seq, true)).map(|stay| (stay, events(&stay))).collect();
    let (begin, mut messages) = (Instant::now(), 0_u64);
    while begin.elapsed() < Duration::from_secs(2) {
        let explained: Vec<_> = late
            .iter()
            .map(|(stay, events)| {
                let near = explain_stay(stay, &usual, 89, "initiator", &mut |_, from_ns, to_ns, _| {
                    Timeline::new(black_box(events), from_ns, to_ns)
                });
                join(near, &usual, None, false)
            })
            .collect();
        assert!(explained.iter().all(|message| !message.causes.is_empty()), "a message without causes");
        black_box(blame_table(&explained, usual.stays(), 100_000));
        messages += LATE;
    }
    println!("{:.0}", messages as f64 / begin.elapsed().as_secs_f64());
}
