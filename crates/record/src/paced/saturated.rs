//! What could not keep up with a rate: a pure function of what both ends counted.
//!
//! The sender stays behind its schedule, more and more; or more than one answer in a hundred is missing and a full buffer, a
//! limit, a slower link, or hardly more answers than at a lower rate explain it. Unexplained loss is a finding of its own.

use super::figures::PaceFigures;
use crate::Recorded;
use crate::verdict::{ms, percent};
use model::Bottleneck::{Initiator, Path, Reflector};
use model::{Bottleneck, Counters, EndUsage, Saturated};

/// One reflector's own counts.
#[derive(Debug, Clone, Copy)]
pub struct RemoteEnd<'a> {
    /// Its host or address where there are several, else `reflector`.
    pub name: &'a str,
    /// Messages that it received.
    pub received: u64,
    /// Messages that it did not answer because its owner limits the rate.
    pub over_rate: u64,
    /// Where its host dropped messages.
    pub counters: &'a Counters,
    pub usage: &'a EndUsage,
}

/// What is looked at beside the recorder's own figures.
#[derive(Debug, Clone, Copy)]
pub struct RateEvidence<'a> {
    /// Where the initiator's host dropped messages.
    pub initiator: &'a Counters,
    /// The other ends; those that vanished are left out.
    pub remotes: &'a [RemoteEnd<'a>],
    /// What became of a lower rate of the same sweep, where there was one.
    pub before: Option<Delivered>,
}

/// What became of a rate, in messages a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Delivered {
    /// The rate asked for.
    pub asked_pps: f64,
    /// The rate of messages that were answered, or would have been had they asked for it.
    pub delivered_pps: f64,
}

impl Delivered {
    /// Of a measurement; nothing where it has no rate or nothing was asked for.
    pub fn of(recorded: &Recorded) -> Option<Self> {
        let rate = &recorded.pace.as_deref()?.rate;
        let messages = &recorded.messages;
        let asked = messages.received + messages.lost;
        let share = messages.received as f64 / asked.max(1) as f64;
        (asked > 0).then_some(Self { asked_pps: rate.asked_pps, delivered_pps: rate.achieved_pps * share })
    }

    /// Whether this rate brought less than half of what it asked for beyond a lower one.
    fn is_no_more_than(&self, before: &Self) -> bool {
        let asked = self.asked_pps - before.asked_pps;
        asked > 0.0 && self.delivered_pps - before.delivered_pps < asked / 2.0
    }
}

/// Share of messages, in percent, from which on something did not keep up.
const SHARE_PERCENT: f64 = 1.0;
/// Share of the run, in percent, that the sender must have spent in arrears up to its end.
const ARREARS_PERCENT: f64 = 20.0;
/// Busy share from which a thread has no more to give.
const BUSY_PERCENT: f64 = 90.0;

impl RemoteEnd<'_> {
    fn busy_percent(&self) -> f64 {
        percent(self.usage.process_user_ns + self.usage.process_system_ns, self.usage.elapsed_ns)
    }
}

/// Who could not keep up, if the rate was not held.
pub fn saturated(recorded: &Recorded, evidence: &RateEvidence<'_>) -> Option<Saturated> {
    let pace = recorded.pace.as_deref()?;
    fell_behind(recorded, pace, evidence).or_else(|| lost(recorded, pace, evidence))
}

fn found(who: Bottleneck, why: String) -> Option<Saturated> {
    Some(Saturated { who, why })
}

/// The sender itself, or what held it up.
fn fell_behind(recorded: &Recorded, pace: &PaceFigures, evidence: &RateEvidence<'_>) -> Option<Saturated> {
    let (rate, arrears) = (&pace.rate, pace.arrears);
    let lasting = percent(arrears.for_ns, recorded.elapsed_ns) >= ARREARS_PERCENT;
    let growing = percent(arrears.to_ns.saturating_sub(arrears.from_ns), arrears.for_ns) >= SHARE_PERCENT;
    let sender = &pace.sender;
    let unsent = percent(sender.unsent, rate.intended) >= SHARE_PERCENT;
    if !(unsent || lasting && growing) {
        return None;
    }
    let mut why = format!(
        "{:.0} messages a second were asked for and {:.0} sent; at the end they left {:.1} ms late",
        rate.asked_pps,
        rate.achieved_pps,
        ms(arrears.to_ns)
    );
    if sender.unsent > 0 {
        why.push_str(&format!(" and {} of {} were not sent at all", sender.unsent, rate.intended));
    }
    // Most of what was late was late by itself: the path may have refused what came in a clump afterwards.
    if pace.own_behind.saturating_mul(2) > rate.behind || sender.blocked == 0 {
        return found(Initiator, format!("{why}, though the path took what was sent"));
    }
    why.push_str(&format!(
        "; {} sends had to wait {:.1} ms in all, because the path took no more",
        sender.blocked,
        ms(sender.blocked_ns)
    ));
    match evidence.remotes.iter().find(|remote| remote.busy_percent() >= BUSY_PERCENT) {
        Some(remote) => found(
            Reflector,
            format!("{why}, and the {} was busy {:.0} % of the time", remote.name, remote.busy_percent()),
        ),
        None => found(Path, why + &line(pace)),
    }
}

/// What the link carries, where that is less than was asked for.
fn line(pace: &PaceFigures) -> String {
    let line = pace.rate.line_pps.filter(|line| pace.rate.asked_pps > *line);
    line.map(|line| format!("; the link carries {line:.0} full frames a second")).unwrap_or_default()
}

/// Where answers went missing.
fn lost(recorded: &Recorded, pace: &PaceFigures, evidence: &RateEvidence<'_>) -> Option<Saturated> {
    let messages = &recorded.messages;
    let asked = messages.received + messages.lost;
    if messages.lost == 0 || percent(messages.lost, asked) < SHARE_PERCENT {
        return None;
    }
    let missing = format!("{} of {asked} answers are missing ({:.1} %)", messages.lost, percent(messages.lost, asked));
    let full = |counters: &Counters| counters.socket_overflow.max(counters.udp_receive_buffer_errors);
    let initiator = evidence.initiator;
    let mut causes: Vec<(u64, Bottleneck, String)> = Vec::new();
    for remote in evidence.remotes {
        let name = remote.name;
        causes.push((
            remote.over_rate,
            Reflector,
            format!("{} were over the limit that the {name} sets", remote.over_rate),
        ));
        let count = full(remote.counters);
        causes.push((count, Reflector, format!("{count} found the receive buffer of the {name} full")));
    }
    let count = full(initiator);
    causes.push((count, Initiator, format!("{count} answers found the initiator's receive buffer full")));
    let count = initiator.qdisc_drops.max(initiator.nic_send_drops).max(initiator.udp_send_buffer_errors);
    causes.push((count, Path, format!("{count} were dropped where the initiator's host sends")));
    let late = messages.late.unwrap_or(0);
    if let Some(remote) = evidence.remotes.iter().find(|remote| remote.busy_percent() >= BUSY_PERCENT) {
        let why = format!(
            "{late} came after the time-out, and the {} was busy {:.0} % of the time",
            remote.name,
            remote.busy_percent()
        );
        causes.push((late, Reflector, why));
    }
    // The first of equals; what explains less than a tenth is beside the point.
    let cause =
        causes.into_iter().rev().max_by_key(|(count, ..)| *count).filter(|(count, ..)| count * 10 >= messages.lost);
    if let Some((_, who, why)) = cause {
        return found(who, format!("{missing}: {why}"));
    }
    let line = line(pace);
    let full = evidence.before.zip(Delivered::of(recorded)).filter(|(before, now)| now.is_no_more_than(before));
    let why = match full {
        None if line.is_empty() => return None,
        None => String::new(),
        Some((before, now)) => format!(
            "; {:.0} messages a second came through, and {:.0} when {:.0} were asked for",
            now.delivered_pps, before.delivered_pps, before.asked_pps
        ),
    };
    let reached: Vec<String> = evidence
        .remotes
        .iter()
        .map(|remote| format!("; {} messages reached the {}", remote.received, remote.name))
        .collect();
    found(Path, format!("{missing} and no buffer of either end was full{}{why}{line}", reached.concat()))
}
