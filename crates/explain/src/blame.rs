//! What made a segment longer than usual: the rules that turn the timeline of its CPU into causes.

use crate::event::{EventKind, Name};
use crate::stay::{Slice, Work};
use crate::timeline::{Activity, Leave, Span, Timeline};
use model::{Cause, CauseClass, PathSegment};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The first kernel priority that is no real-time one (include/linux/sched/prio.h).
const FIRST_ORDINARY: u8 = 100;
/// Bits of a task's state (include/linux/sched.h): stopped, and traced.
const STOPPED: u32 = 0x4 | 0x8;
/// A task that waits for memory or a device.
const UNINTERRUPTIBLE: u32 = 0x2;
/// The interrupt with which another CPU asks for a switch is taken within this time.
const USUAL_WITHOUT_INTERRUPT_NS: u64 = 20_000;
/// The longest time between two ticks of a CPU that has more than one task to run.
const LONGEST_TICK_NS: u64 = 10_000_000;
/// The name that the recorder's own thread has.
pub const TRACER: &str = "wh-explain";

/// Times by cause, before they are held against the excess.
#[derive(Default)]
struct Tally(BTreeMap<(CauseClass, Name, i32), (u64, String)>);

impl Tally {
    /// Time of the recorder's own thread counts as [`CauseClass::Tracer`], whatever the rule says.
    fn add(&mut self, class: CauseClass, name: Name, tid: i32, ns: u64) {
        let class = if name == TRACER.into() { CauseClass::Tracer } else { class };
        if ns > 0 {
            self.0.entry((class, name, tid)).or_default().0 += ns;
        }
    }

    fn because(&mut self, class: CauseClass, name: Name, tid: i32, evidence: String) {
        if let Some(known) = self.0.get_mut(&(class, name, tid)) {
            known.1 = evidence;
        }
    }
}

/// Where causes are.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The end, as in [`Cause::host`].
    pub host: &'a str,
    pub cpu: u16,
    pub segment: PathSegment,
}

impl Place<'_> {
    fn cause(&self, class: CauseClass, name: Name, tid: i32, ns: u64, evidence: String) -> Cause {
        Cause {
            class,
            // A task may give itself an empty name.
            name: match name.to_string() {
                name if !name.is_empty() => Some(name),
                _ => (tid > 0).then(|| format!("task {tid}")),
            },
            pid: (tid > 0).then_some(tid),
            host: self.host.to_owned(),
            cpu: Some(u32::from(self.cpu)),
            segment: self.segment,
            ns,
            evidence,
        }
    }
}

impl Tally {
    fn causes(self, place: &Place<'_>) -> Vec<Cause> {
        let cause = |((class, name, tid), (ns, evidence))| place.cause(class, name, tid, ns, evidence);
        self.0.into_iter().map(cause).collect()
    }
}

/// The largest first, together at most `excess_ns`: what is left of it comes second.
pub(crate) fn within(mut causes: Vec<Cause>, excess_ns: u64) -> (Vec<Cause>, u64) {
    causes.sort_by_key(|cause| Reverse(cause.ns));
    let mut left = excess_ns;
    for cause in &mut causes {
        cause.ns = cause.ns.min(left);
        left -= cause.ns;
    }
    causes.retain(|cause| cause.ns > 0);
    (causes, left)
}

/// The causes of a segment, each with all of its time there, and the class of what no rule explains. `priority`: kernel priority of the
/// measured thread, 0 to 98 real time, 120 for nice 0.
pub(crate) fn measured(
    slice: &Slice,
    excess_ns: u64,
    priority: u8,
    timeline: &Timeline,
    host: &str,
) -> (Vec<Cause>, CauseClass) {
    let mut tally = Tally::default();
    let rest = match slice.work {
        Work::Runs => runs(slice, excess_ns, priority, timeline, &mut tally),
        Work::Waits => waits(slice, priority, timeline, &mut tally),
        Work::Receives => receives(slice, timeline, &mut tally),
        Work::Expires => expires(slice, excess_ns, timeline, &mut tally),
    };
    (tally.causes(&Place { host, cpu: slice.to.cpu, segment: slice.segment }), rest)
}

/// The causes of a segment's excess on one CPU.
pub fn blame(slice: &Slice, excess_ns: u64, priority: u8, timeline: &Timeline, host: &str) -> Vec<Cause> {
    let (causes, rest) = measured(slice, excess_ns, priority, timeline, host);
    settle(causes, excess_ns, rest, &Place { host, cpu: slice.to.cpu, segment: slice.segment })
}

/// The causes of an excess, the largest first; their sum is the excess, with what no rule explains as `rest`.
pub(crate) fn settle(causes: Vec<Cause>, excess_ns: u64, rest: CauseClass, place: &Place<'_>) -> Vec<Cause> {
    let (mut causes, left) = within(causes, excess_ns);
    if left > 0 {
        let rest = place.cause(rest, Name::default(), 0, left, String::new());
        match causes.iter_mut().find(|cause| Cause { ns: left, ..(*cause).clone() } == rest) {
            Some(same) => same.ns += left,
            None => causes.push(rest),
        }
        causes.sort_by_key(|cause| Reverse(cause.ns));
    }
    causes
}

/// What interrupts whatever runs; `false` where it is something else.
fn interrupts(span: &Span, tally: &mut Tally) -> bool {
    let cause = span.activity.cause().filter(|_| !matches!(span.activity, Activity::Task { .. }));
    cause.inspect(|(class, name)| tally.add(*class, *name, 0, span.end_ns - span.start_ns)).is_some()
}

/// From which time on a segment's events are kept; what was before it is unknown.
fn known_from((from_ns, to_ns): (u64, u64), timeline: &Timeline, tally: &mut Tally) -> u64 {
    let known_ns = timeline.known_from_ns.clamp(from_ns, to_ns.max(from_ns));
    tally.add(CauseClass::Unknown, Name::default(), 0, known_ns - from_ns);
    known_ns
}

/// The thread is to run. What is not explained otherwise is its own.
fn runs(slice: &Slice, excess_ns: u64, own: u8, timeline: &Timeline, tally: &mut Tally) -> CauseClass {
    let (start_ns, end_ns) = (known_from(slice.times(), timeline, tally), slice.to.at_ns);
    let mut others_ns = start_ns - slice.from.at_ns;
    let moved = timeline.last_move(slice.thread, 0, slice.from.at_ns + 1).is_some();
    for span in timeline.between(start_ns, end_ns) {
        let ns = span.end_ns - span.start_ns;
        if interrupts(&span, tally) {
            others_ns += ns;
            continue;
        }
        let (class, name, tid) = match (span.activity, timeline.left(slice.thread, span.start_ns)) {
            (Activity::Task { tid, .. }, _) if tid == slice.thread => continue,
            // It was moved to the queue of this CPU.
            (Activity::Task { tid, name, priority }, None) if moved => {
                let may_go_first = own >= FIRST_ORDINARY || priority <= own;
                (if may_go_first { CauseClass::RunQueue } else { CauseClass::LowerTask }, name, tid)
            }
            // It is on its way to this CPU, which does not run it yet.
            (Activity::Idle, None) if moved => (CauseClass::Migration, Name::default(), 0),
            // It ran already when the events begin.
            (Activity::Unknown, _) | (_, None) => continue,
            (_, Some(leave)) if leave.state & UNINTERRUPTIBLE != 0 && timeline.has_fault(leave) => {
                (CauseClass::PageFault, Name::default(), 0)
            }
            (activity, Some(leave)) => absent(own, activity, ns, leave),
        };
        others_ns += ns;
        tally.add(class, name, tid, ns);
    }
    let own_ns = excess_ns.saturating_sub(others_ns);
    let steal_ns = timeline.missing_between(start_ns, end_ns).min(own_ns);
    tally.add(CauseClass::Steal, Name::default(), 0, steal_ns);
    let in_application = slice.segment == PathSegment::FarApplication;
    let own = if in_application { CauseClass::Application } else { CauseClass::NoEvent };
    point(slice, timeline).unwrap_or(own)
}

/// A runnable thread that has no quota waits longer than one that another CPU is about to take.
const SHORTEST_QUOTA_NS: u64 = 50_000;

/// Why the thread does not run for `ns` while something else does, by the state in which it left.
fn absent(own: u8, activity: Activity, ns: u64, leave: &Leave) -> (CauseClass, Name, i32) {
    let (name, tid, priority) = match activity {
        Activity::Task { tid, name, priority } => (name, tid, priority),
        _ => (Name::default(), 0, u8::MAX),
    };
    match leave.state {
        0 if leave.throttled => (CauseClass::Quota, Name::default(), 0),
        // The CPU has nothing to run though the thread is runnable: not all that is throttled is marked. It may be about to be moved, too.
        0 if own >= FIRST_ORDINARY && activity == Activity::Idle => {
            let class = if ns >= SHORTEST_QUOTA_NS { CauseClass::Quota } else { CauseClass::Unknown };
            (class, Name::default(), 0)
        }
        0 if (own < FIRST_ORDINARY) && priority >= FIRST_ORDINARY => (CauseClass::FairServer, name, tid),
        0 => (CauseClass::Preempted, name, tid),
        state if state & STOPPED != 0 => (CauseClass::Stopped, Name::default(), 0),
        _ => (CauseClass::Blocked, Name::default(), 0),
    }
}

/// A page fault or a migration within the segment takes what is left of it.
fn point(slice: &Slice, timeline: &Timeline) -> Option<CauseClass> {
    let mut inside = timeline.points.iter().filter(|event| (slice.from.at_ns..=slice.to.at_ns).contains(&event.at_ns));
    inside.find_map(|event| match event.kind {
        EventKind::PageFault { tid } if tid == slice.thread => Some(CauseClass::PageFault),
        EventKind::Migrated { tid, .. } if tid == slice.thread => Some(CauseClass::Migration),
        _ => None,
    })
}

/// The thread waits for the CPU.
fn waits(slice: &Slice, own: u8, timeline: &Timeline, tally: &mut Tally) -> CauseClass {
    let (start_ns, end_ns) = (known_from(slice.times(), timeline, tally), slice.to.at_ns);
    let mut steal_ns = timeline.missing_between(start_ns, end_ns);
    for span in timeline.between(start_ns, end_ns) {
        let ns = span.end_ns - span.start_ns;
        if interrupts(&span, tally) {
            continue;
        }
        match span.activity {
            Activity::Idle => tally.add(CauseClass::IdleExit, Name::default(), 0, ns),
            Activity::Task { tid, name, priority } if tid != slice.thread => {
                let stolen_ns = steal_ns.min(ns);
                steal_ns -= stolen_ns;
                tally.add(CauseClass::Steal, Name::default(), 0, stolen_ns);
                if own >= FIRST_ORDINARY || priority <= own {
                    tally.add(CauseClass::RunQueue, name, tid, ns - stolen_ns);
                } else if priority >= FIRST_ORDINARY
                    && timeline.running_since(span.start_ns) >= start_ns + USUAL_WITHOUT_INTERRUPT_NS
                {
                    // The kernel chose it while the real-time thread was there to run.
                    tally.add(CauseClass::FairServer, name, tid, ns - stolen_ns);
                } else {
                    let kept = Span { start_ns: span.start_ns + stolen_ns, ..span };
                    keeps((start_ns, slice), &kept, (name, tid), timeline, tally);
                }
            }
            _ => {}
        }
    }
    CauseClass::Unknown
}

/// The timer of the thread is due. Up to the usual time it may expire late on purpose (timer slack); from then on the CPU keeps it.
fn expires(slice: &Slice, excess_ns: u64, timeline: &Timeline, tally: &mut Tally) -> CauseClass {
    let end_ns = slice.to.at_ns;
    let start_ns = known_from((end_ns.saturating_sub(excess_ns), end_ns), timeline, tally);
    let interrupted_ns = timeline.first_interrupt(start_ns, end_ns).unwrap_or(end_ns);
    let mut steal_ns = timeline.missing_between(start_ns, end_ns);
    for span in timeline.between(start_ns, end_ns) {
        let ns = span.end_ns - span.start_ns;
        match span.activity {
            Activity::Idle => tally.add(CauseClass::IdleExit, Name::default(), 0, ns),
            Activity::Task { tid, name, .. } if span.start_ns < interrupted_ns => {
                let stolen_ns = steal_ns.min(ns);
                steal_ns -= stolen_ns;
                tally.add(CauseClass::Steal, Name::default(), 0, stolen_ns);
                tally.add(CauseClass::CpuDeaf, name, tid, ns - stolen_ns);
                let evidence = format!("first interrupt after {}", microseconds(interrupted_ns - slice.from.at_ns));
                tally.because(CauseClass::CpuDeaf, name, tid, evidence);
            }
            _ => {
                interrupts(&span, tally);
            }
        }
    }
    CauseClass::Unknown
}

/// A task that may not go first ran: it was not preemptible, or the CPU was not interrupted although it was asked to switch.
fn keeps(
    (start_ns, slice): (u64, &Slice),
    span: &Span,
    (name, tid): (Name, i32),
    timeline: &Timeline,
    tally: &mut Tally,
) {
    let end_ns = slice.to.at_ns;
    let interrupt = timeline.first_interrupt(start_ns, end_ns);
    let without_ns = interrupt.unwrap_or(end_ns) - start_ns;
    // Only another CPU sends an interrupt; a thread that is woken by its own CPU may wait for a tick.
    let usual_ns = if slice.from.cpu == slice.to.cpu { LONGEST_TICK_NS } else { USUAL_WITHOUT_INTERRUPT_NS };
    let deaf_ns = if without_ns > usual_ns { span.within(start_ns, start_ns + without_ns) } else { 0 };
    let kept_ns = span.end_ns - span.start_ns;
    let evidence = match interrupt {
        Some(at_ns) => format!("first interrupt after {}", microseconds(at_ns - start_ns)),
        None => "no interrupt meanwhile".to_owned(),
    };
    for (class, ns) in [(CauseClass::CpuDeaf, deaf_ns), (CauseClass::LowerTask, kept_ns - deaf_ns)] {
        tally.add(class, name, tid, ns);
        tally.because(class, name, tid, evidence.clone());
    }
}

/// The kernel receives: on this CPU the packet's softirq is to run.
fn receives(slice: &Slice, timeline: &Timeline, tally: &mut Tally) -> CauseClass {
    let (start_ns, end_ns) = (known_from(slice.times(), timeline, tally), slice.to.at_ns);
    // A thread that is stopped waits for no message: the one that continues it wakes it.
    let left = timeline.leaves.iter().rev().find(|leave| leave.tid == slice.thread && leave.at_ns < end_ns);
    if let Some(stopped) = left.filter(|leave| leave.state & STOPPED != 0) {
        tally.add(CauseClass::Stopped, Name::default(), 0, end_ns - stopped.at_ns.max(start_ns));
        return CauseClass::NoEvent;
    }
    let mut unnamed_ns = end_ns - start_ns;
    for span in timeline.between(start_ns, end_ns) {
        let ns = span.end_ns - span.start_ns;
        match span.activity {
            // What receives is a softirq itself, and where it is a thread, that thread.
            Activity::Task { tid, name, .. } if tid != slice.thread && !is_receiver(name) => {
                tally.add(CauseClass::SoftirqDeferred, name, tid, ns);
                unnamed_ns -= ns;
            }
            _ if interrupts(&span, tally) => unnamed_ns -= ns,
            _ => {}
        }
    }
    let steal_ns = timeline.missing_between(start_ns, end_ns).min(unnamed_ns);
    tally.add(CauseClass::Steal, Name::default(), 0, steal_ns);
    CauseClass::NoEvent
}

fn is_receiver(name: Name) -> bool {
    let name = name.to_string();
    ["ksoftirqd/", "napi/", "irq/"].iter().any(|prefix| name.starts_with(prefix))
}

/// Causes of the packet's wait since its softirq was raised and within it, together at most what it waited beyond `usual_ns`.
pub fn deferred(
    (raised_ns, received_ns): (u64, u64),
    usual_ns: u64,
    place: &Place<'_>,
    timeline: &Timeline,
) -> Vec<Cause> {
    let mut tally = Tally::default();
    let known_ns = known_from((raised_ns, received_ns), timeline, &mut tally);
    for span in timeline.between(known_ns, received_ns) {
        match span.activity {
            Activity::Task { tid, name, .. } if !is_receiver(name) => {
                tally.add(CauseClass::SoftirqDeferred, name, tid, span.end_ns - span.start_ns);
            }
            _ => {
                interrupts(&span, &mut tally);
            }
        }
    }
    within(tally.causes(place), received_ns.saturating_sub(raised_ns).saturating_sub(usual_ns)).0
}

/// A thread that polls takes a message within this time after it has come.
const LONGEST_POLL_NS: u64 = 5_000;

/// Causes of a message's wait for a thread that polls: what had its CPU just before it found the message. Whether the message came before
/// or meanwhile is not known, so they are what it waited at most.
pub fn polled(
    (from_ns, received_ns): (u64, u64),
    thread: i32,
    own: u8,
    place: &Place<'_>,
    timeline: &Timeline,
) -> Vec<Cause> {
    let mut tally = Tally::default();
    let known_ns = timeline.known_from_ns.clamp(from_ns, received_ns.max(from_ns));
    // What a CPU did before the thread was moved to it kept nothing.
    let moved = timeline.last_move(thread, known_ns, received_ns);
    let spans: Vec<Span> = timeline.between(moved.map_or(known_ns, |moved| moved.at_ns), received_ns).collect();
    // Why it is away: neither where it runs, nor where that is not known.
    let away = |span: &Span| match (span.activity, timeline.left(thread, span.start_ns)) {
        (Activity::Task { tid, .. }, _) if tid == thread => None,
        (activity @ (Activity::Task { .. } | Activity::Idle), Some(leave)) => {
            Some(absent(own, activity, span.end_ns - span.start_ns, leave))
        }
        _ => None,
    };
    let is_interrupt = |span: &Span| matches!(span.activity, Activity::Softirq { .. }) || span.activity.is_interrupt();
    // It looked for messages, or slept until one came.
    let looked = spans.iter().rposition(|span| match away(span) {
        Some((class, ..)) => class == CauseClass::Blocked,
        None => !is_interrupt(span) && span.end_ns - span.start_ns > LONGEST_POLL_NS,
    });
    if looked.is_none() && moved.is_none() {
        tally.add(CauseClass::Unknown, Name::default(), 0, known_ns - from_ns);
    }
    let since = spans.get(looked.map_or(0, |at| at + 1)..).unwrap_or_default();
    let mut steal_ns = since.first().map_or(0, |first| timeline.missing_between(first.start_ns, received_ns));
    for span in since {
        if interrupts(span, &mut tally) {
            continue;
        }
        if let Some((class, name, tid)) = away(span) {
            let ns = span.end_ns - span.start_ns;
            let stolen_ns = steal_ns.min(ns);
            steal_ns -= stolen_ns;
            tally.add(CauseClass::Steal, Name::default(), 0, stolen_ns);
            tally.add(class, name, tid, ns - stolen_ns);
        }
    }
    tally.add(CauseClass::Steal, Name::default(), 0, steal_ns);
    within(tally.causes(place), received_ns.saturating_sub(from_ns)).0
}

/// `12.3 µs`, as evidence has times.
fn microseconds(ns: u64) -> String {
    format!("{}.{} µs", ns / 1000, ns % 1000 / 100)
}
