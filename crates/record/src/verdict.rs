//! Whether a figure can be trusted, and what disturbed it. A pure function of the evidence, a rule a function; each
//! finding says its evidence in figures and, where something can be done, what.

use crate::{EndEvidence, Evidence};
use model::usage::Preload;
use model::{ClockMap, ClockPoint, Counters, EndUsage, Finding, FindingId, Pacer, Policy, Probe, Receive, Verdict};
use stats::stalls::{Cause, Stall, is_throttling_hole};

mod pace;

/// A clock may be off by this much; NTP never slews faster.
const CLOCK_PPM: f64 = 500.0;
/// Closer points say more about the reading of clocks than about their rate.
const CLOCK_SPAN_NS: u64 = 10_000_000;
/// Other tasks' share of the measuring CPU, in percent, and their time, both to be exceeded.
const OTHER_TASKS_PERCENT: f64 = 1.0;
const OTHER_TASKS_NS: u64 = 1_000_000;
/// Steal, likewise; the hypervisor takes the CPU in few long pieces, so less of it matters. One 10 ms tick of /proc/stat
/// alone is as likely rounding as a fact.
const STEAL_PERCENT: f64 = 0.1;
const STEAL_NS: u64 = 10_000_000;
/// Coefficient of variation of a load's work above which it was not even.
const LOAD_CV: f64 = 0.5;
/// Share of messages that the sender may send late by its own doing: then its p99 is in time.
const OWN_LATE_PERCENT: f64 = 1.0;
/// Share of messages that may wait for the answer before them beyond a whole interval, likewise.
const HELD_UP_PERCENT: f64 = 1.0;
/// Share of the time that a closed loop may stand still, in percent.
const STALLED_PERCENT: f64 = 1.0;
/// Share of the time of a closed loop that may go into time-outs, in percent: beyond it the figures are of the time-out
/// that was set, and the answered messages are the lucky ones.
const TIMED_OUT_PERCENT: f64 = 50.0;
/// Names in one finding.
const NAMES: usize = 3;
/// Busy share from which a thread counts as never sleeping.
const BUSY_PERCENT: f64 = 90.0;

/// Judges the evidence.
#[must_use]
pub fn verdict(evidence: &Evidence<'_>) -> Verdict {
    let bulk = evidence.recorded.is_none();
    let mut findings = evidence.found.to_vec();
    findings.extend(evidence.clock.and_then(clock_unfit));
    findings.extend(path_is_local(evidence));
    findings.extend(peer_vanished(evidence));
    findings.extend(samples_overrun(evidence));
    findings.extend(timed_out(evidence));
    for (name, end) in ends(evidence) {
        findings.extend(migrated(name, &end));
        // A page fault costs a µs: it makes a message late, and no stream slow.
        findings.extend(faults(name, &end).filter(|_| !bulk));
        findings.extend(not_loaded(name, &end));
        findings.extend(not_passed_on(name, &end));
    }
    match evidence.pace() {
        Some(figures) => {
            findings.extend(pace::schedule(evidence, figures));
            findings.extend(pace::rate_not_reached(figures));
        }
        None => findings.extend(schedule(evidence)),
    }
    findings.extend(loss(evidence));
    findings.extend(order(evidence));
    findings.extend(stalls(evidence));
    findings.extend(long_stalls(evidence));
    for (name, end) in ends(evidence) {
        findings.extend(other_tasks(name, &end, partner(evidence, name)));
        findings.extend(steal(name, &end));
    }
    findings.extend(load_uneven(evidence));
    findings.extend(interrupted(evidence));
    findings.extend(interval_not_reached(evidence));
    findings.extend(few_samples(evidence));
    let mut verdict = Verdict::default();
    findings.into_iter().for_each(|finding| verdict.add(finding));
    verdict
}

fn ends<'a>(evidence: &Evidence<'a>) -> impl Iterator<Item = (&'static str, EndEvidence<'a>)> {
    [("initiator", Some(evidence.initiator)), ("reflector", evidence.reflector)]
        .into_iter()
        .filter_map(|(name, end)| end.map(|end| (name, end)))
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn clock_unfit(map: &ClockMap) -> Option<Finding> {
    let remedy =
        "use another clock source (tsc=unstable or clocksource= on the kernel's command line) or another machine";
    if map.error_ppm.is_nan() || map.error_ppm > CLOCK_PPM {
        let detail = format!(
            "the tick rate was off by {:.0} ppm while measuring, more than {CLOCK_PPM:.0}: {remedy}",
            map.error_ppm
        );
        return Some(Finding::new(FindingId::ClockUnfit, detail));
    }
    let jump = map.points.windows(2).find_map(|pair| jumped(map, &pair[0], &pair[1]))?;
    Some(Finding::new(FindingId::ClockUnfit, format!("{jump}: {remedy}")))
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

fn path_is_local(evidence: &Evidence<'_>) -> Option<Finding> {
    let path = evidence.path;
    if !path.is_local || path.loopback_intended || evidence.spec.socket.protocol.is_local() {
        return None;
    }
    Some(Finding::new(
        FindingId::PathIsLocal,
        format!(
            "{} is an address of this network namespace, so no message left the host: put the ends on two hosts or in two namespaces (windhover lab up), or name 127.0.0.1 to measure the loopback on purpose",
            if path.peer.is_empty() { "the peer" } else { path.peer }
        ),
    ))
}

fn peer_vanished(evidence: &Evidence<'_>) -> Option<Finding> {
    let how = evidence.peer_vanished?;
    let received = evidence.messages.received;
    Some(Finding::at(
        FindingId::PeerVanished,
        "reflector",
        format!(
            "the peer vanished after {received} messages ({how}): what was measured so far is kept; look at the other host"
        ),
    ))
}

fn samples_overrun(evidence: &Evidence<'_>) -> Option<Finding> {
    let recorded = evidence.recorded?;
    (recorded.raw_overrun > 0).then(|| {
        let room = recorded.raw.as_ref().map_or(0, Vec::len);
        Finding::at(
            FindingId::SamplesOverrun,
            "initiator",
            format!(
                "{} raw samples found no room (there was room for {room}): ask for fewer messages with --count, or leave --raw out",
                recorded.raw_overrun
            ),
        )
    })
}

/// A closed loop that mostly waited for lost messages: its rate is that of the time-out. A schedule goes on meanwhile.
fn timed_out(evidence: &Evidence<'_>) -> Option<Finding> {
    let recorded = evidence.recorded?;
    let share = percent(recorded.timed_out_ns, recorded.elapsed_ns);
    (recorded.schedule.is_none() && share > TIMED_OUT_PERCENT).then(|| {
        Finding::new(
            FindingId::TimedOut,
            format!(
                "{share:.0} % of the time ({:.1} of {:.1} ms) went into waiting for {} messages that had no answer within \
                 the time-out of {} ms: find where they are lost, or measure a lossy path with pace, which goes on meanwhile",
                ms(recorded.timed_out_ns),
                ms(recorded.elapsed_ns),
                evidence.messages.lost,
                evidence.spec.timeout_ms
            ),
        )
    })
}

fn migrated(name: &str, end: &EndEvidence<'_>) -> Option<Finding> {
    let wanted = end.spec.cpu?;
    let usage = end.usage;
    let detail = match usage.cpu {
        Some(cpu) if cpu != wanted => format!("the measuring thread ended on CPU {cpu}, not on CPU {wanted} as asked"),
        _ if usage.migrations > 0 => {
            format!(
                "the measuring thread moved between CPUs {} times, though CPU {wanted} was asked for",
                usage.migrations
            )
        }
        _ => return None,
    };
    Some(Finding::at(
        FindingId::Migrated,
        name,
        format!("{detail}: let nothing else change its affinity (cpusets, irqbalance-like tools, hotplug)"),
    ))
}

fn faults(name: &str, end: &EndEvidence<'_>) -> Option<Finding> {
    let (minor, major) = (end.usage.minor_faults, end.usage.major_faults);
    (minor + major > 0).then(|| {
        Finding::at(
            FindingId::Faults,
            name,
            format!(
                "{minor} minor and {major} major page faults of the measuring thread in the loop: lock memory (run as root or raise RLIMIT_MEMLOCK), leave memory free, and let compaction leave locked pages alone (sysctl vm.compact_unevictable_allowed=0)"
            ),
        )
    })
}

/// A library that LD_PRELOAD names and the loader could not load: it warns on stderr and goes on with the kernel's stack,
/// so the figure would stand under a wrong name.
fn not_loaded(name: &str, end: &EndEvidence<'_>) -> Option<Finding> {
    let missing: Vec<&str> =
        end.preloads.iter().filter(|preload| !preload.loaded).map(|preload| preload.library.as_str()).collect();
    let libraries = some_of(&missing)?;
    Some(Finding::at(
        FindingId::PathNotAsClaimed,
        name,
        format!(
            "LD_PRELOAD names {libraries}, which the dynamic loader did not load, so messages did not take the path that was asked for: correct the path or install the library (ldd tells what it lacks); programs linked statically or run setuid load none"
        ),
    ))
}

/// A library that the plan's stack sets and that the measuring process was not even asked to load.
fn not_passed_on(name: &str, end: &EndEvidence<'_>) -> Option<Finding> {
    let claimed = end.spec.preload.as_deref()?;
    let missing: Vec<&str> = Preload::names(claimed)
        .filter(|library| !end.preloads.iter().any(|preload| preload.library == *library))
        .collect();
    let libraries = some_of(&missing)?;
    Some(Finding::at(
        FindingId::PathNotAsClaimed,
        name,
        format!(
            "the stack sets LD_PRELOAD to {libraries}, which did not reach the measuring process: a prefix that cleans the environment (sudo, a setuid program) loses it; set it behind that prefix (env LD_PRELOAD=...)"
        ),
    ))
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

/// Whether messages left when the schedule wanted them to. A message that leaves half an interval late is nearer to the
/// next one's time than to its own: what was measured is another schedule. The yardstick is the interval and not the
/// latency, because a sleeping sender wakes up tens of µs late, as long as a whole round trip on a fast network, and is
/// in time all the same. What it waits for the answer before is the path's doing and no fault of the sender.
fn schedule(evidence: &Evidence<'_>) -> Option<Finding> {
    let schedule = evidence.recorded?.schedule.as_ref()?;
    let interval_ns = u64::from(evidence.spec.interval_us?).saturating_mul(1000);
    let sent = schedule.lateness.count();
    let own = schedule.own_lateness.count_above(interval_ns / 2);
    if percent(own, sent) > OWN_LATE_PERCENT {
        let worst = schedule.own_lateness.max().unwrap_or(0);
        return Some(Finding::at(
            FindingId::GeneratorLate,
            "initiator",
            format!(
                "{own} of {sent} messages left more than half an interval of {:.1} ms late by the sender's own doing (at worst {:.1} ms), so another schedule was measured: use --policy fifo:1, keep other tasks off its CPU, or send less often (--interval)",
                ms(interval_ns),
                ms(worst)
            ),
        ));
    }
    let held_up = schedule.lateness.count_above(interval_ns);
    (percent(held_up, sent) > HELD_UP_PERCENT).then(|| {
        Finding::new(
            FindingId::ScheduleHeldUp,
            format!(
                "{held_up} of {sent} messages left more than the interval of {:.1} ms late (at worst {:.1} ms), because one is in flight at a time and the answer before was awaited: the latency from the intended time holds that wait; send less often (--interval), or give lost ones up earlier (--timeout)",
                ms(interval_ns),
                ms(schedule.lateness.max().unwrap_or(0))
            ),
        )
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

fn loss(evidence: &Evidence<'_>) -> Option<Finding> {
    let messages = evidence.messages;
    if messages.lost == 0 {
        return None;
    }
    // Messages that asked for no answer cannot be missed.
    let asked = messages.received + messages.lost;
    let mut detail = format!("{} of {asked} messages lost ({:.4} %)", messages.lost, percent(messages.lost, asked));
    if let Some(late) = messages.late.filter(|&late| late > 0) {
        detail.push_str(&format!(", {late} of them answered after the time-out of {} ms", evidence.spec.timeout_ms));
    }
    if let Some(by) = pace::lost_by_reflector(evidence) {
        detail.push_str("; ");
        detail.push_str(&by);
    }
    let seen: Vec<String> = ends(evidence)
        .flat_map(|(name, end)| {
            let counted = drops(end.counters).into_iter().filter(|(count, _)| *count > 0);
            counted.map(move |(count, what)| format!("{name}: {count} {what}"))
        })
        .collect();
    if seen.is_empty() {
        detail.push_str("; no counter of the hosts saw them, so they went between the hosts or where nothing counts");
    } else {
        detail.push_str("; ");
        detail.push_str(&seen.join("; "));
    }
    let full = ends(evidence).any(|(_, end)| end.counters.socket_overflow + end.counters.udp_receive_buffer_errors > 0);
    if full {
        detail.push_str(": raise the receive buffer (--receive-buffer, net.core.rmem_max)");
    }
    Some(Finding::new(FindingId::Loss, detail))
}

fn order(evidence: &Evidence<'_>) -> Option<Finding> {
    let messages = evidence.messages;
    let (twice, late) = (messages.duplicated.unwrap_or(0), messages.reordered.unwrap_or(0));
    let depth = messages.reorder_depth.unwrap_or(0);
    let depth = if depth > 0 { format!(" (the deepest by {depth} messages)") } else { String::new() };
    (twice + late > 0).then(|| {
        Finding::new(
            FindingId::Order,
            format!(
                "{twice} answers came twice and {late} after a later one{depth}: look for two paths or a loop in the network"
            ),
        )
    })
}

/// What the other end cost where it shares this end's CPU.
fn partner<'a>(evidence: &Evidence<'a>, name: &str) -> Option<&'a EndUsage> {
    let reflector = evidence.reflector?;
    let initiator = evidence.initiator;
    let shared = initiator.spec.cpu.is_some() && initiator.spec.cpu == reflector.spec.cpu;
    let other = if name == "initiator" { reflector.usage } else { initiator.usage };
    (evidence.path.one_machine && shared).then_some(other)
}

/// CPU time of a process, as if it had been counted for as long as another figure.
fn own_ns(usage: &EndUsage, elapsed_ns: u64) -> u64 {
    let own = u128::from(usage.process_user_ns) + u128::from(usage.process_system_ns);
    let scaled = own * u128::from(elapsed_ns) / u128::from(usage.elapsed_ns.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// Ends whose thread is of a real-time class and hardly ever sleeps; and ends that sleep by turns on one CPU, which
/// together never leave it.
fn restless(evidence: &Evidence<'_>) -> Vec<(&'static str, Policy)> {
    let both = ends(evidence).all(|(_, end)| end.spec.policy.is_real_time());
    let pacer_spins =
        evidence.pace().is_some() && evidence.spec.pace.as_ref().is_some_and(|pace| pace.pacer == Pacer::Spin);
    ends(evidence)
        .filter(|(name, end)| {
            let elapsed_ns = end.usage.elapsed_ns;
            let beside = partner(evidence, name).filter(|_| both).map_or(0, |other| own_ns(other, elapsed_ns));
            let own = own_ns(end.usage, elapsed_ns).saturating_add(beside);
            let busy = elapsed_ns > 0 && percent(own, elapsed_ns) >= BUSY_PERCENT;
            let spins = end.spec.receive == Receive::Spin || *name == "initiator" && pacer_spins;
            end.spec.policy.is_real_time() && (spins || busy)
        })
        .map(|(name, end)| (name, end.spec.policy))
        .collect()
}

fn stalls(evidence: &Evidence<'_>) -> Vec<Finding> {
    let Some(recorded) = evidence.recorded else { return Vec::new() };
    let mut restless = restless(evidence);
    let mut findings = Vec::new();
    let mut holes: Vec<u64> =
        recorded.slow.iter().map(|&(_, width)| width).filter(|&width| is_throttling_hole(width)).collect();
    let of_sender = pace::sender_holes(evidence);
    if !of_sender.is_empty() && of_sender.len() >= holes.len() && restless.iter().any(|(name, _)| *name == "initiator")
    {
        restless.retain(|(name, _)| *name == "initiator");
        holes = of_sender;
    }
    if let (Some(&widest), Some((name, _))) = (holes.iter().max(), restless.first()) {
        let shared = partner(evidence, "initiator").is_some();
        let who: Vec<String> = restless.iter().map(|(name, policy)| format!("{name} ({policy})")).collect();
        let detail = format!(
            "{} stalls of about 50 ms (the longest {:.1} ms) while the {} {}: RT throttling (sysctl kernel.sched_rt_runtime_us) or the fair server (/sys/kernel/debug/sched/fair_server) held it; {}",
            holes.len(),
            ms(widest),
            who.join(" and the "),
            if shared { "never left their CPU idle" } else { "never slept" },
            if shared {
                "a shielded CPU with kernel.sched_rt_runtime_us = -1 has neither"
            } else {
                "use --receive block, or keep other tasks off its CPU"
            }
        );
        findings.push(match restless.len() {
            1 => Finding::at(FindingId::Throttled, name, detail),
            _ => Finding::new(FindingId::Throttled, detail),
        });
    }
    let told = !findings.is_empty();
    let others = recorded.stalls.iter().filter(|stall| !(told && stall.cause == Cause::RealTimeThrottling));
    findings.extend(others.map(|stall| Finding::new(FindingId::PeriodicStalls, format!("{stall}{}", remedy(stall)))));
    findings
}

/// What the percentiles of a closed loop hide.
fn long_stalls(evidence: &Evidence<'_>) -> Option<Finding> {
    let recorded = evidence.recorded?;
    let corrected = crate::corrected(evidence.spec, recorded)?;
    let (count, took_ns) = crate::corrected::long_stalls(recorded);
    let share = percent(took_ns, recorded.elapsed_ns);
    if share < STALLED_PERCENT {
        return None;
    }
    let time = |ns: Option<u64>| ns.map_or_else(|| "unknown".to_owned(), pace::time);
    Some(Finding::new(
        FindingId::LongStalls,
        format!(
            "{count} of {} messages took longer than 20 medians and 1 ms, {:.1} ms in all ({share:.1} % of the time), the longest RTT {:.1} ms. A closed loop sends nothing meanwhile, so its percentiles hide that: an open loop would have {} p99 {} and p99.9 {} (latency_corrected). Find what stood still, or measure with pace",
            recorded.latency.count,
            ms(took_ns),
            ms(recorded.histogram.max().unwrap_or(0)),
            corrected.kind.title(),
            time(corrected.p99_ns),
            time(corrected.p99_9_ns),
        ),
    ))
}

fn interrupted(evidence: &Evidence<'_>) -> Option<Finding> {
    evidence.interrupted.then(|| {
        Finding::new(
            FindingId::Interrupted,
            format!(
                "the run was interrupted after {} messages: the figures are of that part alone",
                evidence.messages.sent
            ),
        )
    })
}

fn remedy(stall: &Stall) -> &'static str {
    match stall.cause {
        Cause::TickSlices { .. } => "; use --policy fifo:1, or keep other tasks off the measuring CPUs",
        Cause::TickPeriod { .. } => "; a nohz_full CPU has hardly any ticks",
        Cause::RealTimeThrottling => "; look for a real-time task that never sleeps",
        Cause::Unknown => "",
    }
}

fn other_tasks(name: &str, end: &EndEvidence<'_>, partner: Option<&EndUsage>) -> Option<Finding> {
    // The other end of the measurement is no disturbance of it.
    let beside = partner.map_or(0, |usage| own_ns(usage, end.usage.elapsed_ns));
    let other = end.usage.other_tasks_ns?.saturating_sub(beside);
    let share = percent(other, end.usage.elapsed_ns);
    // A real-time end already preempts them; what is left then is where they are.
    let remedy = if end.spec.policy.is_real_time() {
        "they ran while it waited, which costs caches and wake-ups: keep them off it (shield, isolcpus)"
    } else {
        "keep them off it (shield, isolcpus, --cpu), or use --policy fifo:1"
    };
    (other > OTHER_TASKS_NS && share > OTHER_TASKS_PERCENT).then(|| {
        Finding::at(
            FindingId::OtherTasks,
            name,
            format!(
                "other tasks ran on the measuring CPU for {:.1} ms ({share:.1} % of the time): {remedy}",
                ms(other)
            ),
        )
    })
}

fn steal(name: &str, end: &EndEvidence<'_>) -> Option<Finding> {
    let usage = end.usage;
    let (steal, whose, time) = match usage.cpu_steal_ns {
        Some(steal) => (steal, "the measuring CPU", usage.elapsed_ns),
        None => (
            usage.machine_steal_ns,
            "the machine's CPUs",
            usage.elapsed_ns.saturating_mul(u64::from(usage.cpus.max(1))),
        ),
    };
    let share = percent(steal, time);
    (steal > STEAL_NS && share > STEAL_PERCENT).then(|| {
        Finding::at(
            FindingId::Steal,
            name,
            format!(
                "the hypervisor took {whose} away for {:.1} ms ({share:.1} % of the time): give the guest CPUs of its own",
                ms(steal)
            ),
        )
    })
}

fn load_uneven(evidence: &Evidence<'_>) -> Option<Finding> {
    let load = evidence.load?;
    let profile = load.spec.profile;
    let detail = if let Some(cv) = load.work_cv.filter(|cv| cv.is_nan() || *cv > LOAD_CV) {
        format!("the load {profile} was uneven: its work per 100 ms varied by {cv:.2} of its mean, more than {LOAD_CV}")
    } else if !load.steady {
        format!(
            "the load {profile} was not steady after {:.1} s, when measuring began",
            load.steady_after_ns as f64 / 1e9
        )
    } else {
        return None;
    };
    Some(Finding::new(FindingId::LoadUneven, format!("{detail}: use longer cells or fewer jobs")))
}

fn interval_not_reached(evidence: &Evidence<'_>) -> Option<Finding> {
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
    let rate = evidence.spec.probe == Probe::Rr;
    let got = match reached.filter(|got| got.is_finite()) {
        None => "cannot be known from so little".to_owned(),
        Some(got) if rate => format!("is ±{:.1} % ({got:.1} % wide)", got / 2.0),
        Some(got) => format!("is {got:.1} % wide"),
    };
    let of = if rate { "rate" } else { "median" };
    let asked = if rate { format!("±{} % ({asked} % wide)", asked / 2.0) } else { format!("{asked} %") };
    Some(Finding::new(
        FindingId::IntervalNotReached,
        format!(
            "the 95 % confidence interval of the {of} {got} where {asked} was asked for: run longer (--seconds, --count)"
        ),
    ))
}

fn few_samples(evidence: &Evidence<'_>) -> Option<Finding> {
    let latency = &evidence.recorded?.latency;
    if latency.count >= 1000 && latency.p50_ci95_ns.is_none() {
        return Some(Finding::new(
            FindingId::FewSamples,
            format!(
                "the median has no interval: neighbouring messages depend on each other for so long that these {} are worth \
                 fewer than 10 independent stretches, so the run is too short: run longer (--seconds, --count)",
                latency.count
            ),
        ));
    }
    latency.p99_ns.is_none().then(|| {
        Finding::new(
            FindingId::FewSamples,
            format!(
                "{} and there were {}: run longer (--seconds, --count)",
                if latency.p50_ns.is_none() {
                    "each quantile needs 10 messages beyond it, that is 20 in all for the median and 1000 for p99,"
                } else {
                    "p99 and above need 10 messages beyond them, that is 1000 in all,"
                },
                latency.count
            ),
        )
    })
}

#[cfg(test)]
mod tests;
