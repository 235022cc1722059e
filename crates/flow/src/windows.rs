//! The raw events around the worst messages of an explained pass.

use explain::event::softirq_name;
use explain::{Event, EventKind, Stage, Stay};
use model::{EventWindow, KernelEvent};
use serde_json::Value;
use std::collections::BTreeMap;

/// As many as the worst messages that a cell keeps one by one.
pub(crate) const MOST_WINDOWS: usize = 20;
/// Most events of a window, the last ones, 3 ms of two busy CPUs: 48 B each in memory, about 130 B in a file.
pub(crate) const MOST_EVENTS: usize = 1_000;
/// A window begins so long before its message, and ends so long after it.
const MARGIN_NS: u64 = 200_000;

/// Where the owner of a host does not allow names.
pub(crate) const OTHER_PROGRAM: &str = "another program";

pub(crate) const STAGES: [(Stage, &str); 7] = [
    (Stage::Send, "send"),
    (Stage::Queued, "queued"),
    (Stage::Sent, "sent"),
    (Stage::Received, "received"),
    (Stage::Waking, "waking"),
    (Stage::Running, "running"),
    (Stage::Returned, "returned"),
];

/// The worst messages so far by time and number, with how many events found no room, and the others as they were recorded.
#[derive(Default)]
pub(crate) struct WorstWindows(BTreeMap<(u64, u64), (Stay, usize, Vec<Event>)>);

impl WorstWindows {
    /// Keeps a message's events if it is among the worst so far. `events` gives those of a CPU between two times.
    pub(crate) fn offer(&mut self, stay: &Stay, ns: u64, events: impl Fn(u16, u64, u64) -> Vec<Event>) {
        let key = (ns, stay.seq);
        if self.0.len() >= MOST_WINDOWS && self.0.first_key_value().is_some_and(|(least, _)| key <= *least) {
            return;
        }
        let (start_ns, end_ns) = times(stay);
        let mut cpus: Vec<u16> =
            STAGES.iter().filter_map(|(stage, _)| stay.at(*stage)).map(|stamp| stamp.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let of_cpu = |cpu| within(events(cpu, start_ns, end_ns), start_ns, end_ns);
        let mut events: Vec<Event> = cpus.into_iter().flat_map(of_cpu).collect();
        events.sort_by_key(|event| event.at_ns);
        let left_out = events.len().saturating_sub(MOST_EVENTS);
        self.0.insert(key, (*stay, left_out, events.split_off(left_out)));
        if self.0.len() > MOST_WINDOWS {
            self.0.pop_first();
        }
    }

    /// The windows, that of the worst message first, each with so many events at most, and without `names` only with those of the
    /// message's own threads.
    pub(crate) fn finish(self, host: &str, most_events: usize, names: bool) -> Vec<EventWindow> {
        let window = |(stay, left_out, events): (Stay, usize, Vec<Event>)| {
            let (more, events) = events.split_at(events.len().saturating_sub(most_events));
            let mut window = window(&stay, left_out + more.len(), events, host);
            if !names {
                window.events.iter_mut().for_each(|event| withhold(event, stay.threads()));
            }
            window
        };
        self.0.into_values().rev().map(window).collect()
    }
}

/// From its first stage, with what a packet waited before the far end received it.
fn times(stay: &Stay) -> (u64, u64) {
    let first_ns = STAGES.iter().filter_map(|(stage, _)| stay.at(*stage)).map(|stamp| stamp.at_ns).min().unwrap_or(0);
    let received = stay.at(Stage::Received).filter(|_| !stay.is_polled());
    let arrived_ns = received.map_or(first_ns, |stamp| stamp.at_ns.saturating_sub(stay.deferral_ns()));
    (first_ns.min(arrived_ns).saturating_sub(MARGIN_NS), stay.end_ns().saturating_add(MARGIN_NS))
}

/// Leaves out names and ids of programs other than the message's threads, as causes do. The idle task is none.
fn withhold(event: &mut KernelEvent, own: [i32; 2]) {
    let is_other = |pid: i64| pid != 0 && !own.map(i64::from).contains(&pid);
    if event.pid.is_some_and(|pid| is_other(pid.into())) {
        event.pid = None;
        if !event.name.is_empty() {
            OTHER_PROGRAM.clone_into(&mut event.name);
        }
    }
    let is_withheld =
        |name: &str, value: &Value| ["prev_pid", "by"].contains(&name) && value.as_i64().is_none_or(is_other);
    event.fields.retain(|name, value| !is_withheld(name, value));
}

/// A CPU's events between two times, and the last switch before them.
fn within(mut lane: Vec<Event>, start_ns: u64, end_ns: u64) -> Vec<Event> {
    let is_switch = |event: &&Event| event.at_ns < start_ns && matches!(event.kind, EventKind::Switch { .. });
    let switch = lane.iter().filter(is_switch).max_by_key(|event| event.at_ns).copied();
    lane.retain(|event| event.end_ns() >= start_ns && event.at_ns <= end_ns);
    switch.into_iter().chain(lane).collect()
}

fn window(stay: &Stay, left_out: usize, events: &[Event], host: &str) -> EventWindow {
    let (start_ns, end_ns) = times(stay);
    let first_ns = events.first().filter(|_| left_out > 0).map_or(0, |event| event.at_ns);
    let stages = STAGES.iter().filter_map(|(stage, name)| {
        let stamp = stay.at(*stage)?;
        Some(KernelEvent {
            at_ns: stamp.at_ns,
            cpu: stamp.cpu,
            event: "message".to_owned(),
            name: (*name).to_owned(),
            fields: BTreeMap::from([("seq".to_owned(), stay.seq.into())]),
            ..KernelEvent::default()
        })
    });
    let mut events: Vec<KernelEvent> = events.iter().map(kernel_event).chain(stages).collect();
    events.sort_by_key(|event| event.at_ns);
    EventWindow {
        seq: stay.seq,
        host: host.to_owned(),
        start_ns: start_ns.max(first_ns),
        end_ns,
        sent_ns: stay.at(Stage::Send).map_or(0, |stamp| stamp.at_ns),
        left_out: left_out as u64,
        placed: None,
        events,
    }
}

fn kernel_event(of: &Event) -> KernelEvent {
    let interval = |ns: u64, event: &str, name: String, fields: &[(&str, Value)]| {
        (Some(ns), event.to_owned(), name, None, named(fields))
    };
    let point = |event: &str, pid: i32, name: String, fields: &[(&str, Value)]| {
        (None, event.to_owned(), name, Some(pid), named(fields))
    };
    let (ns, event, name, pid, fields) = match of.kind {
        EventKind::Switch { from, from_state, throttled, to, to_priority, to_name } => {
            let fields = [
                ("prev_pid", from.into()),
                ("prev_state", state(from_state).into()),
                ("next_prio", to_priority.into()),
                ("throttled", throttled.into()),
            ];
            // A throttled group is rare.
            point("sched_switch", to, to_name.to_string(), &fields[..if throttled { 4 } else { 3 }])
        }
        EventKind::Waking { tid, by } => point("sched_waking", tid, String::new(), &[("by", by.into())]),
        EventKind::Hardirq { ns, irq, name } => interval(ns, "irq_handler", name.to_string(), &[("irq", irq.into())]),
        EventKind::Vector { ns, vector } => interval(ns, &vector.word().replace(' ', "_"), String::new(), &[]),
        EventKind::Softirq { ns, vector, since_raise_ns } => {
            let fields = [("vec", vector.into()), ("since_raise_ns", since_raise_ns.into())];
            interval(ns, "softirq", softirq_name(vector).to_owned(), &fields)
        }
        EventKind::Ran { tid, ns } => point("sched_stat_runtime", tid, String::new(), &[("runtime", ns.into())]),
        EventKind::Migrated { tid, from, to } => {
            let fields = [("orig_cpu", from.into()), ("dest_cpu", to.into())];
            point("sched_migrate_task", tid, String::new(), &fields)
        }
        EventKind::PageFault { tid } => point("page_fault", tid, String::new(), &[]),
    };
    KernelEvent { at_ns: of.at_ns, ns, cpu: of.cpu, event, name, pid, fields }
}

fn named(fields: &[(&str, Value)]) -> BTreeMap<String, Value> {
    fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

/// The letter of a task's state, as the kernel's own event prints it (include/trace/events/sched.h).
fn state(bits: u32) -> &'static str {
    const LETTERS: [&str; 8] = ["S", "D", "T", "t", "X", "Z", "P", "I"];
    LETTERS.get(bits.trailing_zeros() as usize).copied().unwrap_or("R")
}

#[cfg(test)]
mod tests {
    use super::*;
    use explain::Stamp;

    fn stay(seq: u64, sent_ns: u64, rtt_ns: u64) -> Stay {
        let mut stamps = [Stamp::default(); explain::stay::STAGES];
        stamps[Stage::Send as usize] = Stamp { at_ns: sent_ns, cpu: 0 };
        stamps[Stage::Received as usize] = Stamp { at_ns: sent_ns + rtt_ns / 2, cpu: 1 };
        stamps[Stage::Returned as usize] = Stamp { at_ns: sent_ns + rtt_ns, cpu: 0 };
        Stay::new(seq, stamps, [7, 7])
    }

    fn switch(at_ns: u64, cpu: u16, to: i32) -> Event {
        let kind = EventKind::Switch {
            from: 7,
            from_state: 1,
            throttled: false,
            to,
            to_priority: 120,
            to_name: "task".into(),
        };
        Event { at_ns, cpu, kind }
    }

    /// Catches: events that are read for messages that are not kept, and other messages than the worst.
    #[test]
    fn the_worst_are_kept_and_no_other_is_read() {
        let reads = std::cell::Cell::new(0);
        let mut worst = WorstWindows::default();
        let mut offer = |seq: u64, rtt_ns| {
            worst.offer(&stay(seq, 1_000_000 * seq, rtt_ns), rtt_ns, |_, _, _| {
                reads.set(reads.get() + 1);
                Vec::new()
            });
        };
        (1..=30).for_each(|seq| offer(seq, 1_000 * seq));
        let before = reads.get();
        (40..90).for_each(|seq| offer(seq, 5_000));
        assert_eq!(reads.get(), before, "a message that is not kept is read");
        let kept: Vec<u64> = worst.finish("initiator", MOST_EVENTS, true).iter().map(|window| window.seq).collect();
        assert_eq!(kept, (11..=30).rev().collect::<Vec<_>>());
    }

    /// Catches: other CPUs or times than the message's, a task that runs at the beginning and is not known, stages that are missing.
    #[test]
    fn a_window_has_the_cpus_and_the_time_of_its_message() {
        let mut worst = WorstWindows::default();
        let message = stay(5, 10_000_000, 100_000);
        worst.offer(&message, 100_000, |cpu, start_ns, end_ns| {
            assert!(cpu < 2 && start_ns == 9_800_000 && end_ns == 10_300_000, "{cpu} {start_ns} {end_ns}");
            let begun = Event {
                kind: EventKind::Hardirq { ns: 9_900_000, irq: 3, name: "nic".into() },
                ..switch(1_000_000, cpu, 0)
            };
            let times = [1, 2, 9_900_000, 10_300_001];
            times.map(|at_ns| switch(at_ns, cpu, 9)).into_iter().chain([begun]).collect()
        });
        let window = worst.finish("initiator", MOST_EVENTS, true).remove(0);
        let of_cpu = |cpu: u16| window.events.iter().filter(move |event| event.cpu == cpu && event.event != "message");
        for cpu in [0, 1] {
            let at: Vec<u64> = of_cpu(cpu).map(|event| event.at_ns).collect();
            assert_eq!(at, [2, 1_000_000, 9_900_000], "the last switch before it, and what reaches into it");
        }
        let stages: Vec<(&str, u16)> =
            window.events.iter().filter(|one| one.event == "message").map(|one| (one.name.as_str(), one.cpu)).collect();
        assert_eq!(stages, [("send", 0), ("received", 1), ("returned", 0)]);
        assert_eq!((window.sent_ns, window.left_out), (10_000_000, 0));
        let switched = of_cpu(0).next().unwrap();
        assert_eq!((switched.pid, switched.fields["prev_state"].as_str()), (Some(9), Some("S")));
    }

    /// Catches: a window without bounds, and one that pretends to know what it left out.
    #[test]
    fn a_window_is_bounded_and_begins_behind_what_it_left_out() {
        let mut worst = WorstWindows::default();
        let many = 2 * MOST_EVENTS as u64;
        worst.offer(&stay(1, 10_000_000, many), many, |cpu, start_ns, _| {
            let of = if cpu == 0 { many } else { 0 };
            (0..of).map(|at| switch(start_ns + at, cpu, 9)).collect()
        });
        let window = worst.finish("initiator", MOST_EVENTS, true).remove(0);
        assert_eq!((window.left_out, window.events.len()), (MOST_EVENTS as u64, MOST_EVENTS + 3));
        assert_eq!(window.start_ns, 9_800_000 + MOST_EVENTS as u64);
    }
}
