//! Rules that only an open loop has: its schedule and its rate.

use super::{OWN_LATE_PERCENT, STEAL_NS, ms, percent, remedy};
use crate::Evidence;
use crate::paced::{PaceFigures, SenderCounts};
use model::{Bottleneck, Finding, FindingId, Role};
use stats::Histogram;

/// A message within this of its time is in time, however short the distance: a sleeping sender wakes up some µs late.
const IN_TIME_NS: u64 = 20_000;

/// Whether messages left when the schedule wanted them to. One a whole distance late is sent in the next one's place: messages
/// go in clumps, another load than was asked for. That is the sender's doing, but for the time in which the path refused what
/// was sent ([`model::PacedSample::held`]).
pub(super) fn schedule(evidence: &Evidence<'_>, pace: &PaceFigures) -> Option<Finding> {
    let schedule = evidence.recorded?.schedule.as_ref()?;
    let limit_ns = pace.distance_ns.max(IN_TIME_NS);
    let sent = schedule.lateness.count();
    let figures = |lateness: &Histogram| {
        let late = lateness.count_above(limit_ns);
        let text = format!(
            "{late} of {sent} messages left more than {} late (99 % within {}, at worst {}; schedule: a {} every {})",
            time(limit_ns),
            time(lateness.quantile(0.99).unwrap_or(0)),
            time(lateness.max().unwrap_or(0)),
            if pace.burst > 1 { "burst" } else { "message" },
            time(pace.distance_ns)
        );
        (percent(late, sent) > OWN_LATE_PERCENT).then_some(text)
    };
    let Some(own) = figures(&schedule.own_lateness) else {
        let detail = format!(
            "{}, because the path took no more: {} sends waited {} in all. The latency from the intended time includes that \
             wait: {}",
            figures(&schedule.lateness)?,
            pace.sender.blocked,
            time(pace.sender.blocked_ns),
            remedy::PATH_REFUSES.of(evidence.program)
        );
        return Some(Finding::new(FindingId::ScheduleHeldUp, detail));
    };
    let late_ns = schedule.own_lateness.count_above(limit_ns).saturating_mul(pace.distance_ns);
    let (by, remedy) = match stolen_ns(&pace.sender, late_ns) {
        Some(ns) => (
            format!("The hypervisor gave the sender's CPU to other guests for {}", time(ns)),
            "give the guest CPUs of its own",
        ),
        None => ("The sender itself delayed them".to_owned(), remedy::SENDER_LATE.of(evidence.program)),
    };
    let own = format!("{own}. {by}{}", preempted(&pace.sender));
    let (id, rest) = if evidence.spec.pace().is_some_and(|pace| pace.sender_measured) {
        (
            FindingId::SenderLate,
            ". It is part of what is measured: read the latency from the intended send, which includes this".to_owned(),
        )
    } else {
        let why = ". So they left in clumps, and another load was measured";
        (FindingId::GeneratorLate, format!("{why}: {remedy}, or send less often (--rate)"))
    };
    Some(Finding::at(id, Role::Initiator, own + &rest))
}

/// How long the hypervisor had the sender's CPU, where that explains half of the late time and more than other work.
fn stolen_ns(sender: &SenderCounts, late_ns: u64) -> Option<u64> {
    let stolen = sender.stolen_ns.filter(|ns| *ns > STEAL_NS)?;
    (stolen >= late_ns / 2 && stolen > sender.run_queue_wait_ns.unwrap_or(0)).then_some(stolen)
}

/// What the kernel knows of a sender's lateness.
fn preempted(sender: &SenderCounts) -> String {
    sender.run_queue_wait_ns.map_or_else(String::new, |ns| {
        format!(": its thread waited {} for a CPU and was preempted {} times", time(ns), sender.involuntary_switches)
    })
}

/// A time for people, in the unit that suits it.
pub(super) fn time(ns: u64) -> String {
    if ns < 1_000_000 { format!("{:.1} µs", ns as f64 / 1e3) } else { format!("{:.1} ms", ms(ns)) }
}

/// Whether the rate asked for was held.
pub(super) fn rate_not_reached(evidence: &Evidence<'_>) -> Vec<Finding> {
    let saturated = evidence.pace().and_then(|pace| pace.rate.saturated.as_ref());
    let finding = saturated.map(|saturated| {
        let (who, remedy) = match saturated.who {
            Bottleneck::Initiator => ("the initiator", remedy::SLOW_INITIATOR.of(evidence.program)),
            Bottleneck::Reflector => ("the reflector", remedy::SLOW_REFLECTOR.of(evidence.program)),
            Bottleneck::Path | Bottleneck::Other => {
                ("the path", "lower --rate or --size, or look at the devices between the hosts")
            }
        };
        let end =
            matches!(saturated.who, Bottleneck::Initiator | Bottleneck::Reflector).then(|| saturated.who.to_string());
        Finding {
            id: FindingId::RateNotReached,
            end,
            detail: format!("{who} could not keep up: {}: {remedy}", saturated.why),
        }
    });
    finding.into_iter().collect()
}

/// Which of several reflectors the lost messages were for.
pub(super) fn lost_by_reflector(evidence: &Evidence<'_>) -> Option<String> {
    let reflectors = evidence.pace().into_iter().flat_map(|pace| &pace.reflectors);
    let lost: Vec<String> = reflectors
        .filter(|reflector| reflector.messages.lost > 0)
        .map(|reflector| format!("{} by {}", reflector.messages.lost, reflector.host))
        .collect();
    (!lost.is_empty()).then(|| format!("not answered: {}", lost.join(", ")))
}
