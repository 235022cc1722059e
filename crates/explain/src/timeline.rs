//! What one CPU did over a time, without gaps or overlaps.

use crate::event::{Event, EventKind, Name, Vector, softirq_name};
use crate::stay::Stamp;
use model::CauseClass;

/// What a CPU does at a moment. Of several that are nested it is the innermost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// No event says.
    Unknown,
    /// No task runs.
    Idle,
    Task {
        tid: i32,
        priority: u8,
        name: Name,
    },
    Softirq {
        vector: u8,
    },
    Hardirq {
        irq: u32,
        name: Name,
    },
    Vector(Vector),
}

impl Activity {
    /// Whether it interrupts what runs.
    pub fn is_interrupt(self) -> bool {
        matches!(self, Self::Hardirq { .. } | Self::Vector(_))
    }

    /// What begins with an event: a task is switched in, or an interrupt is handled.
    pub fn of(event: &EventKind) -> Option<Self> {
        match *event {
            EventKind::Switch { to: 0, .. } => Some(Self::Idle),
            EventKind::Switch { to, to_priority, to_name, .. } => {
                Some(Self::Task { tid: to, priority: to_priority, name: to_name })
            }
            EventKind::Softirq { vector, .. } => Some(Self::Softirq { vector }),
            EventKind::Hardirq { irq, name, .. } => Some(Self::Hardirq { irq, name }),
            EventKind::Vector { vector, .. } => Some(Self::Vector(vector)),
            _ => None,
        }
    }

    /// The class and the name of the cause that it is where it takes the CPU from a thread that runs.
    pub fn cause(self) -> Option<(CauseClass, Name)> {
        match self {
            Self::Unknown | Self::Idle => None,
            Self::Task { name, .. } => Some((CauseClass::Preempted, name)),
            Self::Softirq { vector } => Some((CauseClass::Softirq, softirq_name(vector).into())),
            Self::Hardirq { name, .. } => Some((CauseClass::Hardirq, name)),
            Self::Vector(vector @ (Vector::LocalTimer | Vector::Other)) => {
                Some((CauseClass::Hardirq, vector.word().into()))
            }
            Self::Vector(vector) => Some((CauseClass::Ipi, vector.word().into())),
        }
    }
}

/// One activity from `start_ns` to `end_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub start_ns: u64,
    pub end_ns: u64,
    pub activity: Activity,
}

impl Span {
    /// How much of it lies between two times.
    pub fn within(&self, start_ns: u64, end_ns: u64) -> u64 {
        self.end_ns.min(end_ns).saturating_sub(self.start_ns.max(start_ns))
    }
}

/// Why a task left the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leave {
    pub at_ns: u64,
    pub tid: i32,
    pub state: u32,
    pub throttled: bool,
}

/// A time over which the kernel accounted less than had passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing {
    pub start_ns: u64,
    pub end_ns: u64,
    pub ns: u64,
}

/// What one CPU did.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    /// In order, each beginning where the one before ends.
    pub spans: Vec<Span>,
    /// Tasks that left, in order.
    pub leaves: Vec<Leave>,
    /// Run time that is missing, in order.
    pub missing: Vec<Missing>,
    /// Page faults and migrations of measured threads.
    pub points: Vec<Event>,
    /// Events before this time were forgotten.
    pub known_from_ns: u64,
}

/// Less than this is no steal: the accounting points are not exactly the events.
const LEAST_MISSING_NS: u64 = 3_000;

impl Timeline {
    /// Of the events of one CPU, in any order. Those before `start_ns` give the task that runs then; a gap may follow the first.
    pub fn new(events: &[Event], start_ns: u64, end_ns: u64) -> Self {
        let end_ns = end_ns.max(start_ns);
        let mut events = events.to_vec();
        // Of one time the longer interval is the outer one, and run time is accounted before the switch that ends it.
        events.sort_by_key(|event| {
            let is_switch = matches!(event.kind, EventKind::Switch { .. });
            (event.at_ns, std::cmp::Reverse(event.end_ns()), is_switch, event.kind)
        });
        let mut timeline = Self { spans: tasks(&events, start_ns, end_ns), ..Self::default() };
        let (mut softirqs, mut interrupts) = (Vec::new(), Vec::new());
        for event in &events {
            let span = |activity| Span { start_ns: event.at_ns, end_ns: event.end_ns(), activity };
            match event.kind {
                EventKind::Softirq { .. } => softirqs.extend(Activity::of(&event.kind).map(span)),
                EventKind::Hardirq { .. } | EventKind::Vector { .. } => {
                    interrupts.extend(Activity::of(&event.kind).map(span));
                }
                EventKind::Switch { from, from_state, throttled, .. } => {
                    timeline.leaves.push(Leave { at_ns: event.at_ns, tid: from, state: from_state, throttled });
                }
                EventKind::PageFault { .. } | EventKind::Migrated { .. } => timeline.points.push(*event),
                EventKind::Waking { .. } | EventKind::Ran { .. } => {}
            }
        }
        timeline.spans = overlay(&overlay(&timeline.spans, &softirqs), &interrupts);
        let always = [Span { start_ns: 0, end_ns: u64::MAX, activity: Activity::Unknown }];
        timeline.missing = missing(&events, &overlay(&overlay(&always, &softirqs), &interrupts));
        timeline
    }

    /// What lies between two times, cut to them.
    pub fn between(&self, start_ns: u64, end_ns: u64) -> impl Iterator<Item = Span> + '_ {
        let first = self.spans.partition_point(|span| span.end_ns <= start_ns);
        self.spans.iter().skip(first).take_while(move |span| span.start_ns < end_ns).map(move |span| Span {
            start_ns: span.start_ns.max(start_ns),
            end_ns: span.end_ns.min(end_ns),
            activity: span.activity,
        })
    }

    /// Run time that is missing between two times; what can lie outside of them is taken to lie inside as far as there is room.
    pub fn missing_between(&self, start_ns: u64, end_ns: u64) -> u64 {
        let inside = |one: &Missing| one.end_ns.min(end_ns).saturating_sub(one.start_ns.max(start_ns)).min(one.ns);
        self.missing.iter().map(inside).sum()
    }

    /// Since when the task runs that runs at a time; 0 where that is not known.
    pub fn running_since(&self, at_ns: u64) -> u64 {
        let behind = self.leaves.partition_point(|leave| leave.at_ns <= at_ns);
        self.leaves[..behind].last().map_or(0, |leave| leave.at_ns)
    }

    /// When a thread came last from another CPU between two times, and from which.
    pub fn last_move(&self, thread: i32, start_ns: u64, end_ns: u64) -> Option<Stamp> {
        let mut inside = self.points.iter().rev().filter(|event| (start_ns..end_ns).contains(&event.at_ns));
        inside.find_map(|event| match event.kind {
            EventKind::Migrated { tid, from, .. } if tid == thread => Some(Stamp { at_ns: event.at_ns, cpu: from }),
            _ => None,
        })
    }

    /// How a thread left this CPU last up to a time; `None` where it was moved here since then: what it left before is of another stay.
    pub fn left(&self, thread: i32, at_ns: u64) -> Option<&Leave> {
        let moved_ns = self.last_move(thread, 0, at_ns + 1).map_or(0, |moved| moved.at_ns);
        let is_it = |leave: &&Leave| leave.tid == thread && (moved_ns..=at_ns).contains(&leave.at_ns);
        self.leaves.iter().rev().find(is_it)
    }

    /// Whether a thread had touched memory that was not there, since it had left its CPU the last time before.
    pub fn has_fault(&self, leave: &Leave) -> bool {
        let before = self.leaves.iter().rev().find(|one| one.tid == leave.tid && one.at_ns < leave.at_ns);
        let times = before.map_or(0, |before| before.at_ns)..=leave.at_ns;
        let fault = EventKind::PageFault { tid: leave.tid };
        self.points.iter().any(|event| event.kind == fault && times.contains(&event.at_ns))
    }

    /// When the CPU took its first interrupt between two times.
    pub fn first_interrupt(&self, start_ns: u64, end_ns: u64) -> Option<u64> {
        self.between(start_ns, end_ns).find(|span| span.activity.is_interrupt()).map(|span| span.start_ns)
    }
}

fn tasks(events: &[Event], start_ns: u64, end_ns: u64) -> Vec<Span> {
    let mut spans = vec![Span { start_ns, end_ns, activity: Activity::Unknown }];
    for event in events {
        let EventKind::Switch { from, .. } = event.kind else { continue };
        let Some(activity) = Activity::of(&event.kind) else { continue };
        let at_ns = event.at_ns.clamp(start_ns, end_ns);
        if let Some(last) = spans.last_mut() {
            last.end_ns = at_ns;
            if last.activity == Activity::Unknown && from == 0 {
                last.activity = Activity::Idle;
            }
        }
        spans.push(Span { start_ns: at_ns, end_ns, activity });
    }
    spans.retain(|span| span.start_ns < span.end_ns);
    spans
}

/// Lays spans, in order of their starts, over others; a span that begins within another of its layer interrupts that one.
fn overlay(base: &[Span], over: &[Span]) -> Vec<Span> {
    let mut result = base.to_vec();
    for span in over {
        let first = result.partition_point(|below| below.end_ns <= span.start_ns);
        let last = result.partition_point(|below| below.start_ns < span.end_ns);
        if first >= last {
            continue;
        }
        let (start_ns, end_ns) = (span.start_ns.max(result[first].start_ns), span.end_ns.min(result[last - 1].end_ns));
        let left = Span { end_ns: start_ns, ..result[first] };
        let right = Span { start_ns: end_ns, ..result[last - 1] };
        let middle = Span { start_ns, end_ns, activity: span.activity };
        let pieces = [left, middle, right].into_iter().filter(|piece| piece.start_ns < piece.end_ns);
        result.splice(first..last, pieces);
    }
    result
}

/// Between two points where the kernel accounted run time of the same task: what is neither accounted nor spent in interrupts.
fn missing(events: &[Event], interrupted: &[Span]) -> Vec<Missing> {
    let mut since: Option<(u64, i32)> = None;
    let mut found = Vec::new();
    // What was accounted behind the first event is not known.
    for event in events.iter().skip(1) {
        match event.kind {
            EventKind::Switch { to, .. } => since = Some((event.at_ns, to)),
            EventKind::Ran { tid, ns } => {
                if let Some((start_ns, _)) = since.filter(|(_, running)| *running == tid) {
                    let first = interrupted.partition_point(|span| span.end_ns <= start_ns);
                    let inside = interrupted.iter().skip(first).take_while(|span| span.start_ns < event.at_ns);
                    let in_interrupts: u64 = inside
                        .filter(|span| span.activity != Activity::Unknown)
                        .map(|span| span.within(start_ns, event.at_ns))
                        .sum();
                    let ns = (event.at_ns - start_ns).saturating_sub(ns).saturating_sub(in_interrupts);
                    if ns >= LEAST_MISSING_NS {
                        found.push(Missing { start_ns, end_ns: event.at_ns, ns });
                    }
                }
                since = Some((event.at_ns, tid));
            }
            _ => {}
        }
    }
    found
}
