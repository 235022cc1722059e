//! The far end: why it was late, as far as its owner lets it say so, and what the near end takes of that.

use crate::PassObserver;
use crate::explainer::{Collected, Collector, FAR, Late};
use crate::thread_times::{ThreadTimes, ThreadWatch};
use crate::windows::{MOST_WINDOWS, OTHER_PROGRAM, STAGES};
use explain::Side;
use model::{EndSpec, EventWindow, ExplainedStay, Explanation, FarStays, LatencyKind, Limits, Placed, Policy, Receive};
use serde_json::Value;
use std::os::fd::RawFd;
use wire::StopReport;

/// Most stays that the far end sends, and their most bytes: a frame of the control session holds 1 MiB.
pub(crate) const MOST_SENT: usize = 2_000;
const MOST_SENT_BYTES: usize = 700_000;
/// Most events of one window that it sends, and most bytes of all windows beside the stays.
const MOST_SENT_EVENTS: usize = 300;
const MOST_WINDOW_BYTES: usize = 250_000;
const _: () = assert!(MOST_SENT_BYTES + MOST_WINDOW_BYTES < wire::CONTROL_LIMIT - (64 << 10), "the rest has room");
/// Most causes of a message at the far end, the longest of them in ns, and letters of a text: more than any has.
const MOST_CAUSES: usize = 64;
const MOST_NS: u64 = 3_600_000_000_000;
const MOST_LETTERS: usize = 100;
/// The far end explains stays beyond this quantile.
pub(crate) const FAR_QUANTILE: f64 = 0.9;

/// Records why this end is late, and sends it as far as its owner allows.
pub(crate) struct FarExplainer {
    policy: Policy,
    spins: bool,
    names: bool,
    collector: Option<Result<Collector, String>>,
    collected: Option<Result<Collected, String>>,
    /// Where the recorder cannot be had.
    watch: Option<ThreadWatch>,
    times: Option<ThreadTimes>,
}

impl FarExplainer {
    /// For this end.
    pub(crate) fn new(limits: &Limits, end: &EndSpec) -> Self {
        let refused = "its owner does not allow it: windhover serve --explain".to_owned();
        let collector = (!limits.allow_explain).then_some(Err(refused));
        let spins = end.receive == Receive::Spin;
        Self {
            policy: end.policy,
            spins,
            names: limits.explain_names,
            collector,
            collected: None,
            watch: None,
            times: None,
        }
    }
}

impl PassObserver for FarExplainer {
    fn begin(&mut self, _: u32, socket: Option<RawFd>) {
        if self.collector.is_none() {
            let cpu = task::current_cpu().filter(|_| task::allowed_cpus().is_ok_and(|cpus| cpus.len() == 1));
            let started =
                Collector::start(Side::Far, socket, Late::Beyond(FAR_QUANTILE), (self.policy, cpu, self.spins));
            self.watch = started.is_err().then(|| ThreadWatch::start(cpu, Some(task::thread_id()))).flatten();
            self.collector = Some(started);
        }
    }

    fn end(&mut self, _: &mut StopReport) {
        self.collected = self.collector.take().map(|started| started.and_then(Collector::finish));
        self.times = self.watch.take().map(ThreadWatch::finish);
    }

    fn judge(&mut self, report: &mut StopReport, _: &[&StopReport]) {
        let times = self.times.take();
        report.explained = self.collected.take().map(|collected| match (collected, times) {
            (Ok(collected), _) => far_stays(collected, self.names),
            (Err(why), Some(times)) => times.waits(MOST_SENT, &why),
            (Err(why), None) => FarStays { refused: Some(why), ..FarStays::default() },
        });
    }
}

/// What goes over the control session: the longest stays first, as far as there is room.
fn far_stays(collected: Collected, names: bool) -> FarStays {
    let Collected { usual, mut stays, windows, mut limits, dropped } = collected;
    let all = stays.len();
    let mut bytes = 0;
    stays.retain_mut(|(_, stay)| {
        if !names {
            stay.causes.iter_mut().filter(|cause| cause.pid.is_some()).for_each(|cause| {
                (cause.name, cause.pid) = (Some(OTHER_PROGRAM.to_owned()), None);
            });
        }
        bytes += serde_json::to_string(stay).map_or(MOST_SENT_BYTES, |text| text.len());
        bytes <= MOST_SENT_BYTES
    });
    let lost = u64::try_from(all - stays.len()).unwrap_or(u64::MAX) + dropped;
    // Those that are not sent are shorter: it matters where late messages may be among them.
    let is_short = u64::try_from(stays.len()).unwrap_or(u64::MAX).saturating_mul(100) < usual.messages();
    if lost > 0 && is_short {
        limits.push(format!("{lost} stays found no room"));
    }
    let left_out_ns = stays.last().filter(|_| lost > 0).map_or(0, |(ns, _)| *ns);
    let stays: Vec<ExplainedStay> = stays.into_iter().map(|(_, stay)| stay).collect();
    let (mut windows, mut left) = (windows.finish(FAR, MOST_SENT_EVENTS, names), MOST_WINDOW_BYTES);
    windows.retain(|window| {
        let bytes = serde_json::to_string(window).map_or(usize::MAX, |text| text.len());
        let is_sent = bytes <= left && stays.iter().any(|stay| stay.seq == window.seq);
        left -= if is_sent { bytes } else { 0 };
        is_sent
    });
    FarStays { machine: host::boot_id(), usual_ns: usual.stay_ns(), stays, windows, left_out_ns, refused: None, limits }
}

/// What a far end may say: of so many messages, of its own part and of the way to it.
pub(crate) fn checked(mut far: FarStays) -> FarStays {
    use model::PathSegment::{FarApplication, FarReceive, FarSend, FarWakeUp, WireOut};
    let is_its_own = |segment| matches!(segment, FarApplication | FarReceive | FarSend | FarWakeUp | WireOut);
    far.stays.truncate(MOST_SENT);
    for stay in &mut far.stays {
        stay.segments.retain(|part| is_its_own(part.segment));
        stay.segments.truncate(MOST_CAUSES);
        stay.causes.retain(|cause| is_its_own(cause.segment));
        stay.causes.truncate(MOST_CAUSES);
        stay.ns = stay.ns.min(MOST_NS);
        for part in &mut stay.segments {
            part.host = FAR.to_owned();
            (part.ns, part.excess_ns) = (part.ns.min(MOST_NS), part.excess_ns.min(MOST_NS));
        }
        for cause in &mut stay.causes {
            cause.host = FAR.to_owned();
            cause.ns = cause.ns.min(MOST_NS);
            for text in cause.name.iter_mut().chain([&mut cause.evidence]) {
                *text = text.chars().take(MOST_LETTERS).collect();
            }
        }
    }
    far.windows.truncate(MOST_WINDOWS);
    for window in &mut far.windows {
        (window.host, window.placed) = (FAR.to_owned(), None);
        window.events.truncate(MOST_SENT_EVENTS + STAGES.len());
        for event in &mut window.events {
            event.ns = event.ns.map(|ns| ns.min(MOST_NS));
            for text in [&mut event.event, &mut event.name] {
                *text = text.chars().take(MOST_LETTERS).collect();
            }
            let is_short = |value: &Value| match value {
                Value::String(text) => text.len() <= MOST_LETTERS,
                _ => value.is_number() || value.is_boolean(),
            };
            event.fields.retain(|name, value| name.len() <= MOST_LETTERS && is_short(value));
        }
    }
    far.limits.truncate(MOST_CAUSES);
    far
}

/// The far end, if it explained its part; what it could not becomes a limit. Of several it is not known which one a message went to.
pub(crate) fn far_end<'a>(explanation: &mut Explanation, far: &'a [FarStays]) -> Option<&'a FarStays> {
    for one in far {
        match &one.refused {
            None => {
                for limit in &one.limits {
                    match explanation.limits.iter_mut().find(|near| *near == limit && far.len() == 1) {
                        Some(near) => *near = format!("at both ends: {limit}"),
                        None => explanation.limits.push(format!("at the far end: {limit}")),
                    }
                }
            }
            Some(why) => explanation.limits.push(format!("the far end explains nothing: {why}")),
        }
    }
    match far {
        [only] => Some(only).filter(|far| far.refused.is_none()),
        [] if explanation.kind == LatencyKind::WakeUp => None,
        [] => {
            explanation.limits.push("the far end explains nothing".to_owned());
            None
        }
        _ => {
            explanation.limits.push("what several far ends explain is not joined with single messages".to_owned());
            None
        }
    }
}

/// The far end's events around those late messages which it sent them of, on this end's clock.
pub(crate) fn far_windows(far: &FarStays, late: &[(u64, ExplainedStay)], same_clock: bool) -> Vec<EventWindow> {
    let of_late = |window: &EventWindow| {
        let (_, near) = late.iter().find(|(_, near)| near.seq == window.seq)?;
        let window = EventWindow { sent_ns: near.start_ns, ..window.clone() };
        if same_clock {
            return Some(window);
        }
        place(window, near, far.stays.iter().find(|stay| stay.seq == near.seq)?)
    };
    far.windows.iter().filter_map(of_late).collect()
}

/// Two hosts have no common clock: the middle of the stay is placed at the middle of the time that the message was away. `None` where
/// the far end did not see it come.
fn place(mut window: EventWindow, near: &ExplainedStay, stay: &ExplainedStay) -> Option<EventWindow> {
    let is_seen = near.sent_ns > 0 && near.received_ns > near.sent_ns;
    let (from_ns, away_ns) =
        if is_seen { (near.sent_ns, near.received_ns - near.sent_ns) } else { (near.start_ns, near.ns) };
    let middle = |start_ns: u64, ns: u64| i128::from(start_ns) + i128::from(ns / 2);
    let moved_ns = i64::try_from(middle(from_ns, away_ns) - middle(stay.start_ns, stay.ns)).ok()?;
    let moved = |ns: &mut u64| *ns = ns.saturating_add_signed(moved_ns);
    moved(&mut window.start_ns);
    moved(&mut window.end_ns);
    window.events.iter_mut().for_each(|event| moved(&mut event.at_ns));
    window.placed = Some(Placed { moved_ns, within_ns: away_ns.saturating_sub(stay.ns) / 2 });
    (stay.start_ns > 0).then_some(window)
}

#[cfg(test)]
mod tests;
