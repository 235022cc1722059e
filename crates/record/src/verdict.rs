//! Whether a figure can be trusted, and what disturbed it. A pure function of the evidence, a rule a function; each
//! finding gives its evidence in figures and, where something can be done, the remedy.

use crate::{EndEvidence, Evidence};
use model::usage::Preload;
use model::{ClockMap, ClockPoint, Counters, EndUsage, Finding, FindingId, Pacer, Probe, Receive, Role, Verdict};
use moves::{LostTime, moves};
use stats::stalls::{Cause, Stall, is_throttling_stall};

mod moves;
mod pace;
pub(crate) mod remedy;

/// A clock may be off by this much; NTP never slews faster.
const CLOCK_PPM: f64 = 500.0;
/// Closer points say more about the reading of clocks than about their rate.
const CLOCK_SPAN_NS: u64 = 10_000_000;
/// Other tasks' share of the measuring CPU, in percent, and their time, both to be exceeded.
const OTHER_TASKS_PERCENT: f64 = 1.0;
const OTHER_TASKS_NS: u64 = 1_000_000;
/// Steal, likewise; one 10 ms tick of /proc/stat alone is as likely rounding as a fact.
const STEAL_PERCENT: f64 = 0.1;
const STEAL_NS: u64 = TICK_NS;
/// What /proc/stat counts in.
const TICK_NS: u64 = 10_000_000;
/// Most that a minor fault costs (0.5 to 5 µs, tens in a virtual machine). A major one counts as the whole time.
const MINOR_FAULT_NS: u64 = 100_000;
/// Coefficient of variation of a load's work above which it was not even.
const LOAD_CV: f64 = 0.5;
/// Share of messages that the sender itself may delay: then its p99 is in time.
const OWN_LATE_PERCENT: f64 = 1.0;
/// Share of messages that may wait for the answer before them beyond a whole interval, likewise.
const HELD_UP_PERCENT: f64 = 1.0;
/// Share of the time that a closed loop may spend in stalls, in percent.
const STALLED_PERCENT: f64 = 1.0;
/// Share of a closed loop's time that may go into time-outs, in percent: beyond it the figures are of the time-out.
const TIMED_OUT_PERCENT: f64 = 50.0;
/// Names in one finding.
const NAMES: usize = 3;
/// Busy share from which a thread counts as never sleeping.
const BUSY_PERCENT: f64 = 90.0;

/// A rule. What it returns is the detail of its finding.
enum Rule {
    Run(FindingId, fn(&Evidence<'_>) -> Option<String>),
    /// Of the measurement; the finding names this end.
    At(FindingId, Role, fn(&Evidence<'_>) -> Option<String>),
    Ends(FindingId, fn(&Evidence<'_>, &EndEvidence<'_>) -> Option<String>),
    /// Of each end, with the time that was taken from it: a finding where that can have moved a printed figure, else noted.
    Taken(FindingId, fn(&Evidence<'_>, &EndEvidence<'_>) -> Option<(String, LostTime)>),
    /// One that chooses among several findings.
    Own(fn(&Evidence<'_>) -> Vec<Finding>),
}

/// All rules, in the order of their findings.
const RULES: [Rule; 21] = [
    Rule::Run(FindingId::ClockUnfit, |evidence| clock_unfit(evidence.clock?)),
    Rule::Run(FindingId::PathIsLocal, path_is_local),
    Rule::At(FindingId::PeerVanished, Role::Reflector, peer_vanished),
    Rule::At(FindingId::SamplesOverrun, Role::Initiator, samples_overrun),
    Rule::Run(FindingId::TimedOut, timed_out),
    Rule::Ends(FindingId::Migrated, |_, end| migrated(end)),
    Rule::Taken(FindingId::Faults, faults),
    Rule::Ends(FindingId::PathNotAsClaimed, |_, end| not_loaded(end)),
    Rule::Ends(FindingId::PathNotAsClaimed, |_, end| not_passed_on(end)),
    Rule::Ends(FindingId::PathNotAsClaimed, |_, end| not_accelerated(end)),
    Rule::Own(schedule),
    Rule::Own(pace::rate_not_reached),
    Rule::Run(FindingId::Loss, loss),
    Rule::Run(FindingId::Order, order),
    Rule::Own(stalls),
    Rule::Run(FindingId::LongStalls, long_stalls),
    Rule::Taken(FindingId::OtherTasks, other_tasks),
    Rule::Taken(FindingId::Steal, steal),
    Rule::Run(FindingId::LoadUneven, load_uneven),
    Rule::Run(FindingId::Interrupted, interrupted),
    Rule::Run(FindingId::IntervalNotReached, interval_not_reached),
];

pub fn verdict(evidence: &Evidence<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let is_of_lock = |finding: &&Finding| finding.id == FindingId::MemoryNotLocked;
    evidence.found.iter().filter(|finding| !is_of_lock(finding)).for_each(|finding| verdict.add(finding.clone()));
    for rule in RULES {
        let found: Vec<Finding> = match rule {
            Rule::Run(id, rule) => rule(evidence).map(|detail| Finding::new(id, detail)).into_iter().collect(),
            Rule::At(id, end, rule) => rule(evidence).map(|detail| Finding::at(id, end, detail)).into_iter().collect(),
            Rule::Ends(id, rule) => {
                evidence.ends().filter_map(|end| Some(Finding::at(id, end.name, rule(evidence, end)?))).collect()
            }
            Rule::Taken(id, rule) => {
                for end in evidence.ends() {
                    let Some((detail, taken)) = rule(evidence, end) else { continue };
                    let finding = Finding::at(id, end.name, detail);
                    if moves(evidence, taken) { verdict.add(finding) } else { verdict.noted.push(finding) }
                }
                continue;
            }
            Rule::Own(rule) => rule(evidence),
        };
        found.into_iter().for_each(|finding| verdict.add(finding));
    }
    // A lock prevents page faults: where there was no harm by them, its absence did none.
    for finding in evidence.found.iter().filter(is_of_lock) {
        let did_harm = verdict.invalid.iter().any(|one| one.id == FindingId::Faults && one.end == finding.end);
        if did_harm { verdict.add(finding.clone()) } else { verdict.noted.push(finding.clone()) }
    }
    verdict
}

pub(crate) fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn clock_unfit(map: &ClockMap) -> Option<String> {
    let problem = if map.error_ppm.is_nan() || map.error_ppm > CLOCK_PPM {
        format!("the tick rate was off by {:.0} ppm while measuring, more than {CLOCK_PPM:.0}", map.error_ppm)
    } else {
        map.points.windows(2).find_map(|pair| jumped(map, &pair[0], &pair[1]))?
    };
    let remedy =
        "use another clock source (tsc=unstable or clocksource= on the kernel's command line) or another machine";
    Some(format!("{problem}: {remedy}"))
}

/// What is wrong between two points, if ticks and the raw clock do not agree.
fn jumped(map: &ClockMap, a: &ClockPoint, b: &ClockPoint) -> Option<String> {
    if b.tick < a.tick || b.raw_ns < a.raw_ns {
        return Some("the clock went backwards while measuring".to_owned());
    }
    let (ticks_ns, raw_ns) = (map.rate.ns(b.tick - a.tick), b.raw_ns - a.raw_ns);
    if raw_ns.max(ticks_ns) < CLOCK_SPAN_NS {
        return None;
    }
    let allowed = raw_ns as f64 * CLOCK_PPM / 1e6 + (a.width_ns + b.width_ns) as f64;
    let off = ticks_ns.abs_diff(raw_ns);
    (off as f64 > allowed)
        .then(|| format!("ticks and CLOCK_MONOTONIC_RAW disagree by {:.3} ms over {:.0} ms", ms(off), ms(raw_ns)))
}

fn path_is_local(evidence: &Evidence<'_>) -> Option<String> {
    let path = evidence.path;
    let wanted = path.loopback_intended || evidence.spec.is_local();
    (path.is_local && !wanted).then(|| {
        format!(
            "{} is an address of this network namespace, so no message left the host: {}",
            if path.peer.is_empty() { "the peer" } else { path.peer },
            remedy::PATH_IS_LOCAL.of(evidence.program)
        )
    })
}

fn peer_vanished(evidence: &Evidence<'_>) -> Option<String> {
    let how = evidence.peer_vanished?;
    let counted = |_| format!("after {} messages", evidence.messages.received);
    let when = evidence.recorded.map_or_else(|| "before the end".to_owned(), counted);
    Some(format!("the peer vanished {when} ({how}): the result has what was measured before; check the other host"))
}

fn samples_overrun(evidence: &Evidence<'_>) -> Option<String> {
    let recorded = evidence.recorded.filter(|recorded| recorded.raw_overrun > 0)?;
    Some(format!(
        "{} raw samples were dropped, because the buffer holds only {}: limit the messages with --count, or omit --raw",
        recorded.raw_overrun,
        recorded.raw.as_ref().map_or(0, Vec::len)
    ))
}

/// A closed loop that mostly waited for lost messages: its rate is that of the time-out. A schedule goes on meanwhile.
fn timed_out(evidence: &Evidence<'_>) -> Option<String> {
    let recorded = evidence.recorded?;
    let share = percent(recorded.timed_out_ns, recorded.elapsed_ns);
    (recorded.schedule.is_none() && share > TIMED_OUT_PERCENT).then(|| {
        format!(
            "{share:.0} % of the time ({:.1} of {:.1} ms) was spent in time-outs: {} messages had no answer within {} ms. Find \
             where they are lost, or measure a lossy path with pace, which does not wait",
            ms(recorded.timed_out_ns),
            ms(recorded.elapsed_ns),
            evidence.messages.lost,
            evidence.spec.timeout_ms
        )
    })
}

fn migrated(end: &EndEvidence<'_>) -> Option<String> {
    let (wanted, usage) = (end.spec.cpu?, end.usage);
    let problem = match usage.cpu {
        Some(cpu) if cpu != wanted => format!("the measuring thread ended on CPU {cpu}, not on CPU {wanted} as asked"),
        _ if usage.migrations > 0 => {
            format!("the measuring thread moved {} times between CPUs, not staying on CPU {wanted}", usage.migrations)
        }
        _ => return None,
    };
    Some(format!("{problem}: let nothing else change its affinity (cpusets, irqbalance-like tools, hotplug)"))
}

/// A page fault makes a message late, and no stream slow.
fn faults(evidence: &Evidence<'_>, end: &EndEvidence<'_>) -> Option<(String, LostTime)> {
    let usage = end.usage;
    let (minor, major) = (usage.minor_faults, usage.major_faults);
    if minor + major == 0 || evidence.recorded.is_none() {
        return None;
    }
    let detail = format!(
        "{minor} minor and {major} major page faults of the measuring thread in the loop: lock memory (run as root or raise \
         RLIMIT_MEMLOCK), leave memory free, and forbid the kernel to move locked pages (sysctl \
         vm.compact_unevictable_allowed=0)"
    );
    let longest_ns = if major > 0 { usage.elapsed_ns } else { MINOR_FAULT_NS };
    let total_ns = major.saturating_mul(usage.elapsed_ns).saturating_add(minor.saturating_mul(MINOR_FAULT_NS));
    Some((detail, LostTime { total_ns, longest_ns, of_ns: usage.elapsed_ns }))
}

/// A library of LD_PRELOAD that the loader could not load: it goes on with the kernel's stack, under the wrong name.
fn not_loaded(end: &EndEvidence<'_>) -> Option<String> {
    let missing = end.preloads.iter().filter(|preload| !preload.loaded).map(|preload| preload.library.as_str());
    let libraries = some_of(&missing.collect::<Vec<_>>())?;
    Some(format!(
        "the dynamic loader did not load {libraries}, which LD_PRELOAD names, so messages took another path than asked for: \
         correct the path or install the library (ldd shows what it lacks); statically linked and setuid programs load none"
    ))
}

/// A library that the plan's stack sets and that the measuring process was not even asked to load.
fn not_passed_on(end: &EndEvidence<'_>) -> Option<String> {
    let claimed = Preload::names(end.spec.preload.as_deref()?);
    let missing = claimed.filter(|library| !end.preloads.iter().any(|preload| preload.library == *library));
    let libraries = some_of(&missing.collect::<Vec<_>>())?;
    Some(format!(
        "the stack sets LD_PRELOAD to {libraries}, which did not reach the measuring process: a prefix that cleans the \
         environment (sudo, a setuid program) removes it; set it behind that prefix (env LD_PRELOAD=...)"
    ))
}

/// A built-in stack that did not carry what the cell says it carried.
fn not_accelerated(end: &EndEvidence<'_>) -> Option<String> {
    let stack = end.spec.stack.as_deref()?;
    let Some(carried) = end.carried else {
        return Some(format!(
            "the cell claims the stack {stack}, and this end ran on the kernel's: its preload library was not loaded. `windhover \
             bypass run` says why on standard error"
        ));
    };
    if let Some(other) = carried.iter().find(|one| one.by != stack) {
        let all: u32 = carried.iter().map(|one| one.sockets).sum();
        let why = other.reason.as_ref().map_or_else(String::new, |reason| format!(", because {reason}"));
        return Some(format!(
            "the cell claims the stack {stack}, and {} carried {} of {all} data sockets{why}",
            other.by, other.sockets
        ));
    }
    (stack == "spin" && end.spec.receive == Receive::Spin).then(|| {
        "the cell claims the stack spin, and this end spins by itself (receive = spin), so its calls passed the library \
         unchanged: use receive = block, or the stack kernel"
            .to_owned()
    })
}

/// The first of some names, and how many there are beside them.
fn some_of(names: &[&str]) -> Option<String> {
    let shown = names.iter().take(NAMES).copied().collect::<Vec<_>>().join(" and ");
    match names.len() {
        0 => None,
        count if count > NAMES => Some(format!("{shown} and {} more", count - NAMES)),
        _ => Some(shown),
    }
}

/// Whether messages left when the schedule wanted them to. One half an interval late is nearer to the next one's time: another
/// schedule was measured. The latency is no yardstick: a sleeping sender in time is as late as a fast round trip takes.
fn schedule(evidence: &Evidence<'_>) -> Vec<Finding> {
    let found = match evidence.pace() {
        Some(figures) => pace::schedule(evidence, figures),
        None => closed_schedule(evidence),
    };
    found.into_iter().collect()
}

fn closed_schedule(evidence: &Evidence<'_>) -> Option<Finding> {
    if evidence.spec.cycle().is_some() {
        // How late its publisher wakes up is what it measures.
        return None;
    }
    let schedule = evidence.recorded?.schedule.as_ref()?;
    let interval_ns = u64::from(evidence.spec.interval_us?).saturating_mul(1000);
    let (interval, sent) = (ms(interval_ns), schedule.lateness.count());
    let worst = |ns: Option<u64>| ms(ns.unwrap_or(0));
    let own = schedule.own_lateness.count_above(interval_ns / 2);
    if percent(own, sent) > OWN_LATE_PERCENT {
        let detail = format!(
            "{own} of {sent} messages left more than half an interval of {interval:.1} ms late (at worst {:.1} ms). The sender \
             itself delayed them, so another schedule was measured: use --policy fifo:1, keep other tasks off its CPU, or send \
             less often (--interval)",
            worst(schedule.own_lateness.max())
        );
        return Some(Finding::at(FindingId::GeneratorLate, Role::Initiator, detail));
    }
    let held_up = schedule.lateness.count_above(interval_ns);
    (percent(held_up, sent) > HELD_UP_PERCENT).then(|| {
        let detail = format!(
            "{held_up} of {sent} messages left more than the interval of {interval:.1} ms late (at worst {:.1} ms), because \
             each waits for the answer before it. The latency from the intended time includes that wait: send less often \
             (--interval), or use a shorter --timeout",
            worst(schedule.lateness.max())
        );
        Finding::new(FindingId::ScheduleHeldUp, detail)
    })
}

/// Each counter that says where messages went, for people.
fn drops(counters: &Counters) -> [(u64, &'static str); 9] {
    [
        (counters.socket_overflow, "dropped at the socket whose receive buffer was full"),
        (counters.udp_receive_buffer_errors, "dropped host-wide for want of UDP receive buffer"),
        (counters.udp_receive_errors, "dropped for UDP receive errors"),
        (counters.udp_send_buffer_errors, "not sent for want of UDP send buffer"),
        (counters.tcp_retransmits, "TCP segments sent again"),
        (counters.nic_receive_drops, "dropped by a network device on receiving"),
        (counters.nic_send_drops, "dropped by a network device on sending"),
        (counters.qdisc_drops, "dropped by a queueing discipline"),
        (counters.backlog_drops, "dropped because a CPU's backlog was full"),
    ]
}

fn loss(evidence: &Evidence<'_>) -> Option<String> {
    let messages = evidence.messages;
    if messages.lost == 0 {
        return None;
    }
    // Messages that asked for no answer cannot be missed.
    let asked = messages.received + messages.lost;
    let mut facts =
        vec![format!("{} of {asked} messages lost ({:.4} %)", messages.lost, percent(messages.lost, asked))];
    if let Some(late) = messages.late.filter(|&late| late > 0) {
        facts[0] += &format!(", {late} of them answered after the time-out of {} ms", evidence.spec.timeout_ms);
    }
    facts.extend(pace::lost_by_reflector(evidence));
    let known = facts.len();
    for end in evidence.ends() {
        let counted = drops(end.counters).into_iter().filter(|(count, _)| *count > 0);
        facts.extend(counted.map(|(count, what)| format!("{}: {count} {what}", end.name)));
    }
    if facts.len() == known {
        facts.push(
            "no counter of the hosts shows them: they were lost between the hosts, or where nothing counts".to_owned(),
        );
    }
    let full = |end: &EndEvidence<'_>| end.counters.socket_overflow + end.counters.udp_receive_buffer_errors > 0;
    let remedy = evidence.ends().any(full).then(|| format!(": {}", remedy::RECEIVE_BUFFER_FULL.of(evidence.program)));
    Some(facts.join("; ") + &remedy.unwrap_or_default())
}

fn order(evidence: &Evidence<'_>) -> Option<String> {
    let messages = evidence.messages;
    let (twice, late) = (messages.duplicated.unwrap_or(0), messages.reordered.unwrap_or(0));
    let depth = messages.reorder_depth.unwrap_or(0);
    let depth = if depth > 0 { format!(" (at most {depth} messages behind)") } else { String::new() };
    (twice + late > 0).then(|| {
        format!("{twice} answers came twice, {late} out of order{depth}: look for two paths or a loop in the network")
    })
}

/// The other ends that share an end's CPU.
fn beside<'e, 'a>(evidence: &'e Evidence<'a>, of: &'e EndEvidence<'a>) -> impl Iterator<Item = &'e EndEvidence<'a>> {
    let shares = move |other: &&EndEvidence<'a>| {
        other.name != of.name && other.one_machine && of.one_machine && other.spec.cpu == of.spec.cpu
    };
    evidence.ends().filter(shares).filter(|_| of.spec.cpu.is_some())
}

/// What these cost, as if it had been counted for as long as the end's own figures.
fn beside_ns(evidence: &Evidence<'_>, of: &EndEvidence<'_>) -> u64 {
    beside(evidence, of).map(|other| own_ns(other.usage, of.usage.elapsed_ns)).fold(0, u64::saturating_add)
}

/// CPU time of a process, as if it had been counted for as long as another figure.
fn own_ns(usage: &EndUsage, elapsed_ns: u64) -> u64 {
    let own = u128::from(usage.process_user_ns) + u128::from(usage.process_system_ns);
    let scaled = own * u128::from(elapsed_ns) / u128::from(usage.elapsed_ns.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// Real-time ends that hardly ever sleep, and ends that sleep by turns on one CPU and together never leave it.
fn restless<'e, 'a>(evidence: &'e Evidence<'a>) -> Vec<&'e EndEvidence<'a>> {
    let all = evidence.ends().all(|end| end.spec.policy.is_real_time());
    let pacer_spins = evidence.pace().is_some() && evidence.spec.pace().is_some_and(|pace| pace.pacer == Pacer::Spin);
    let is_restless = |end: &&EndEvidence<'a>| {
        let elapsed_ns = end.usage.elapsed_ns;
        let beside = if all { beside_ns(evidence, end) } else { 0 };
        let own = own_ns(end.usage, elapsed_ns).saturating_add(beside);
        let busy = elapsed_ns > 0 && percent(own, elapsed_ns) >= BUSY_PERCENT;
        let spins = end.spec.receive == Receive::Spin || end.role == Role::Initiator && pacer_spins;
        end.spec.policy.is_real_time() && (spins || busy)
    };
    evidence.ends().filter(is_restless).collect()
}

/// The lengths of stalls that are as long as those of RT throttling.
fn throttling(stalls: &[(u64, u64)]) -> Vec<u64> {
    stalls.iter().map(|&(_, length)| length).filter(|&length| is_throttling_stall(length)).collect()
}

fn stalls(evidence: &Evidence<'_>) -> Vec<Finding> {
    let Some(recorded) = evidence.recorded else { return Vec::new() };
    let mut restless = restless(evidence);
    let mut findings = Vec::new();
    let mut lengths = throttling(&recorded.slow);
    // Messages that wait for no answer show the sender's stalls whole, in their lateness.
    let of_sender = evidence.pace().map_or_else(Vec::new, |pace| throttling(&pace.sender_stalls));
    if !of_sender.is_empty()
        && of_sender.len() >= lengths.len()
        && restless.iter().any(|end| end.role == Role::Initiator)
    {
        restless.retain(|end| end.role == Role::Initiator);
        lengths = of_sender;
    }
    if let (Some(&longest), Some(first)) = (lengths.iter().max(), restless.first()) {
        let who: Vec<String> = restless.iter().map(|end| format!("{} ({})", end.called(), end.spec.policy)).collect();
        let (state, remedy) = if beside(evidence, &evidence.initiator).next().is_some() {
            ("never left their CPU idle", "a shielded CPU with kernel.sched_rt_runtime_us = -1 has neither")
        } else {
            ("never slept", "use --receive block, or keep other tasks off its CPU")
        };
        let detail = format!(
            "{} stalls of about 50 ms (the longest {:.1} ms) while {} {state}: RT throttling (sysctl \
             kernel.sched_rt_runtime_us) or the fair server (/sys/kernel/debug/sched/fair_server) stopped it; {remedy}",
            lengths.len(),
            ms(longest),
            who.join(" and "),
        );
        findings.push(match restless.len() {
            1 => Finding::at(FindingId::Throttled, first.name, detail),
            _ => Finding::new(FindingId::Throttled, detail),
        });
    }
    let is_reported = !findings.is_empty();
    let others = recorded.stalls.iter().filter(|stall| !(is_reported && stall.cause == Cause::RealTimeThrottling));
    let remedy = |stall: &Stall| match stall.cause {
        Cause::TickSlices { .. } => format!("; {}", remedy::TICK_SLICES.of(evidence.program)),
        Cause::TickPeriod { .. } => "; a nohz_full CPU has hardly any ticks".to_owned(),
        Cause::RealTimeThrottling => "; look for a real-time task that never sleeps".to_owned(),
        Cause::Unknown => String::new(),
    };
    findings.extend(others.map(|stall| Finding::new(FindingId::PeriodicStalls, format!("{stall}{}", remedy(stall)))));
    findings
}

/// What the percentiles of a closed loop hide.
fn long_stalls(evidence: &Evidence<'_>) -> Option<String> {
    let recorded = evidence.recorded?;
    let corrected = crate::corrected(evidence.spec, recorded)?;
    let (count, took_ns) = crate::corrected::long_stalls(recorded);
    let share = percent(took_ns, recorded.elapsed_ns);
    let time = |ns: Option<u64>| ns.map_or_else(|| "unknown".to_owned(), pace::time);
    (share >= STALLED_PERCENT).then(|| {
        format!(
            "{count} of {} messages took longer than 20 medians and 1 ms, {:.1} ms in all ({share:.1} % of the time), the \
             longest RTT {:.1} ms. A closed loop sends nothing meanwhile, so its percentiles hide these stalls: an open loop \
             would have {} p99 {} and p99.9 {} (latency_corrected). Find their cause, or measure with pace",
            recorded.latency.count,
            ms(took_ns),
            ms(recorded.histogram.max().unwrap_or(0)),
            corrected.kind.title(),
            time(corrected.p99_ns),
            time(corrected.p99_9_ns),
        )
    })
}

fn interrupted(evidence: &Evidence<'_>) -> Option<String> {
    let sent = evidence.messages.sent;
    let after = evidence.spec.probe().samples().map(|samples| format!(" after {sent} {samples}")).unwrap_or_default();
    evidence.interrupted.then(|| format!("the run was interrupted{after}: the result covers only what came before"))
}

fn other_tasks(evidence: &Evidence<'_>, end: &EndEvidence<'_>) -> Option<(String, LostTime)> {
    let usage = end.usage;
    // The other end of the measurement is no disturbance of it.
    let other = usage.other_tasks_ns?.saturating_sub(beside_ns(evidence, end));
    let share = percent(other, usage.elapsed_ns);
    // A real-time end already preempts them; what is left then is where they are.
    let remedy = if end.spec.policy.is_real_time() {
        "they ran while it waited, which costs cache misses and wake-ups: keep them off it (shield, isolcpus)"
    } else {
        remedy::OTHER_TASKS.of(evidence.program)
    };
    (other > OTHER_TASKS_NS && share > OTHER_TASKS_PERCENT).then(|| {
        let detail = format!(
            "other tasks ran on the measuring CPU for {:.1} ms ({share:.1} % of the time): {remedy}",
            ms(other)
        );
        (detail, LostTime { total_ns: other, longest_ns: other.saturating_add(TICK_NS), of_ns: usage.elapsed_ns })
    })
}

fn steal(evidence: &Evidence<'_>, end: &EndEvidence<'_>) -> Option<(String, LostTime)> {
    let found = stolen(end.usage)?;
    // What a machine lost is said once, of the first of its ends that shows it.
    let of_machine = |one: &EndEvidence<'_>| one.one_machine && one.usage.cpu_steal_ns.is_none();
    let mut before = evidence.ends().take_while(|one| one.name != end.name);
    let is_said = of_machine(end) && before.any(|one| of_machine(one) && stolen(one.usage).is_some());
    (!is_said).then_some(found)
}

fn stolen(usage: &EndUsage) -> Option<(String, LostTime)> {
    let (steal, whose, cpus) = match usage.cpu_steal_ns {
        Some(steal) => (steal, "the measuring CPU", 1),
        None => (usage.machine_steal_ns, "the machine's CPUs", usage.cpus.max(1)),
    };
    let of_ns = usage.elapsed_ns.saturating_mul(u64::from(cpus));
    let share = percent(steal, of_ns);
    (steal > STEAL_NS && share > STEAL_PERCENT).then(|| {
        let detail = format!(
            "the hypervisor gave {whose} to other guests for {:.1} ms ({share:.1} % of the time): give the guest CPUs of its own",
            ms(steal)
        );
        (detail, LostTime { total_ns: steal, longest_ns: steal.saturating_add(TICK_NS), of_ns })
    })
}

fn load_uneven(evidence: &Evidence<'_>) -> Option<String> {
    let load = evidence.load?;
    let profile = load.spec.profile;
    let problem = if let Some(cv) = load.work_cv.filter(|cv| cv.is_nan() || *cv > LOAD_CV) {
        format!("the load {profile} was uneven: its work per 100 ms varied by {cv:.2} of its mean, more than {LOAD_CV}")
    } else if !load.steady {
        let seconds = load.steady_after_ns as f64 / 1e9;
        format!("the load {profile} was not steady after {seconds:.1} s, when measuring began")
    } else {
        return None;
    };
    Some(format!("{problem}: use longer cells or fewer jobs"))
}

fn interval_not_reached(evidence: &Evidence<'_>) -> Option<String> {
    let asked = evidence.spec.stop.interval_percent?;
    let of_median = || {
        let latency = &evidence.recorded?.latency;
        let (bounds, median) = (latency.p50_ci95_ns?, latency.p50_ns?);
        Some(percent(bounds[1].saturating_sub(bounds[0]), median))
    };
    let reached = evidence.interval_percent.or_else(of_median);
    if reached.is_some_and(|reached| reached <= asked) {
        return None;
    }
    // Tables give the rate's interval as ± half of its width, so that width is named too.
    let rate = evidence.spec.probe() == Probe::Rr;
    let got = match reached.filter(|got| got.is_finite()) {
        None => "cannot be known from so little".to_owned(),
        Some(got) if rate => format!("is ±{:.1} % ({got:.1} % wide)", got / 2.0),
        Some(got) => format!("is {got:.1} % wide"),
    };
    let of = if rate { "rate" } else { "median" };
    let asked = if rate { format!("±{} % ({asked} % wide)", asked / 2.0) } else { format!("{asked} %") };
    Some(format!(
        "the 95 % confidence interval of the {of} {got} where {asked} was asked for: run longer (--seconds, --count)"
    ))
}

#[cfg(test)]
mod tests;
