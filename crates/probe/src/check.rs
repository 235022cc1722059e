//! What can only be checked on this machine or once the peer is known, before the first message is sent.

use crate::{ProbeError, driver};
use model::worker::ProbeTask;
use model::{Gap, PaceSpec, Pacer, Policy, ProbeSpec, Protocol, Receive, Stamps};
use net::NetError;
use wire::data;

/// Refuses a task that contradicts what this machine or the peer is.
pub(crate) fn conflict<T>(what: impl Into<String>, remedy: &str) -> Result<T, ProbeError> {
    Err(ProbeError::Conflict { what: what.into(), remedy: remedy.to_owned() })
}

/// Checks the initiator's side against this machine; the policy is tried before the peer is contacted.
pub(crate) fn here(spec: &ProbeSpec) -> Result<(), ProbeError> {
    if spec.initiator.receive == Receive::Completion {
        return Err(NetError::OnlyWindows { mode: spec.initiator.receive }.into());
    }
    if let Some(protocol) = spec.protocol() {
        net::check_kernel(protocol)?;
    }
    spec.initiator_cpus().try_for_each(|cpu| try_placement(cpu, spec.initiator.policy))?;
    let several = spec.pings > 1 || spec.pongs > 1;
    if spec.socket.as_ref().is_some_and(|socket| socket.more && several && !socket.protocol.is_stream()) {
        return conflict(
            "MSG_MORE joins the datagrams of a round into one, so they never arrive as messages",
            "use tcp, or leave --more out",
        );
    }
    Ok(())
}

/// Checks what only `pace` has.
pub(crate) fn pace(task: &ProbeTask) -> Result<(), ProbeError> {
    let spec = &task.spec;
    if !task.others.is_empty() && !spec.probe().has_several_reflectors() {
        return conflict(format!("{} has one reflector", spec.probe()), "use pace, or leave the others out");
    }
    let Some(pace) = spec.pace() else { return Ok(()) };
    let protocol = spec.socket()?.protocol;
    if let Some(size) = spec.sizes.iter().find(|size| (*size as usize) < data::PACED_BYTES) {
        return conflict(
            format!(
                "many messages are in flight at a rate, and {size} bytes have no room for the number that tells their answers apart"
            ),
            &format!("use sizes of {} bytes and more", data::PACED_BYTES),
        );
    }
    if pace.every > 1 && protocol.is_stream() && spec.sizes.iter().count() > 1 {
        return conflict(
            format!("what {protocol} still holds of the messages that ask for no answer would be cut at the next size"),
            "measure one size at a time, or leave --every out",
        );
    }
    if spec.interval_us.is_some() || spec.gap != Gap::default() {
        return conflict("a rate and a gap or an interval contradict each other", "leave the gap and the interval out");
    }
    if spec.stop.interval_percent.is_some() {
        return conflict(
            "messages at a rate end with their time or count, not with a confidence interval",
            "leave it out",
        );
    }
    if task.others.len() >= crate::pace::MOST_PEERS {
        return conflict(
            format!("{} reflectors are too many for one initiator", task.others.len() + 1),
            &format!("use at most {}", crate::pace::MOST_PEERS),
        );
    }
    if !task.others.is_empty() && protocol.is_local() {
        return conflict(
            format!("{protocol} has one reflector"),
            &format!("use {}", Protocol::words_for(spec.probe())),
        );
    }
    if pace.stamps != Stamps::None && protocol.is_local() {
        return conflict(format!("{protocol} has no time stamps of the kernel"), "leave --stamps out");
    }
    if pace.receive_cpu.is_some() && pace.pacer == Pacer::Spin {
        return conflict("a spinning sender receives by itself, on its own CPU", "leave --receive-cpu out");
    }
    one_cpu(spec, pace)
}

/// Sender and receiver on one CPU: a real-time thread that spins there keeps the other from running.
fn one_cpu(spec: &ProbeSpec, pace: &PaceSpec) -> Result<(), ProbeError> {
    let shared = match (spec.initiator.cpu, pace.receive_cpu) {
        (Some(cpu), None) => Some(cpu),
        (Some(cpu), Some(other)) => Some(cpu).filter(|cpu| *cpu == other),
        (None, _) => None,
    };
    let Some(cpu) = shared.filter(|_| pace.pacer != Pacer::Spin && spec.initiator.policy.is_real_time()) else {
        return Ok(());
    };
    let remedy = "give them different CPUs with --cpu and --receive-cpu, or use --pacer spin, which needs only one";
    if spec.initiator.receive == Receive::Spin {
        return conflict(format!("the receiver spins on CPU {cpu}, so the sender there never runs"), remedy);
    }
    // Half of the time for the receiver, or its answers wait for longer than they took.
    let shortest_ns = pace.rates_pps.iter().map(|rate| 1e9 / rate).fold(f64::INFINITY, f64::min);
    if pace.pacer == Pacer::Hybrid && shortest_ns < 2.0 * crate::pace::HYBRID_NS as f64 {
        return conflict(
            format!(
                "at this rate a hybrid sender spins nearly all the time on CPU {cpu}, so the receiver there hardly runs"
            ),
            remedy,
        );
    }
    Ok(())
}

/// Tries a CPU and a policy on a thread of its own.
fn try_placement(cpu: Option<u32>, policy: Policy) -> Result<(), ProbeError> {
    let outcome = std::thread::scope(|scope| scope.spawn(|| driver::place_thread(cpu, policy, None)).join());
    outcome.unwrap_or(Ok(()))
}

/// Time of a stream beside its own: opening, idle latency, draining.
const STREAM_OVERHEAD_US: u64 = 5_000_000;
/// Starting, stopping and calibrating a size, beside its warm-up and its rounds.
const SIZE_OVERHEAD_US: u64 = 50_000;

/// Refuses a run that its stop rule lets last longer than the endpoint lets a session last, rather than have it cut short.
pub(crate) fn fits_session(spec: &ProbeSpec, limit_s: u32, address: &str) -> Result<(), ProbeError> {
    let wanted_us = longest_us(spec);
    if wanted_us <= u64::from(limit_s) * 1_000_000 {
        return Ok(());
    }
    Err(ProbeError::TooLong { address: address.to_owned(), limit_s, wanted_s: wanted_us.div_ceil(1_000_000) })
}

/// How long all sizes may take by their stop rule; of a rule that counts rounds only the gaps are known.
fn longest_us(spec: &ProbeSpec) -> u64 {
    let stop = &spec.stop;
    if spec.probe().is_bulk() {
        // Each size has a session of its own.
        return u64::from(stop.max_ms) * 1000 + STREAM_OVERHEAD_US;
    }
    if let Some(pace) = spec.pace() {
        let rates = pace.rates_pps.len().max(1) as u64;
        let passes = rates.saturating_mul(spec.sizes.iter().count() as u64);
        return longest_pace_us(spec).saturating_mul(passes);
    }
    let rounds_us = if stop.max_ms == u32::MAX {
        let gap_us = u64::from(spec.gap.sleep_us) + u64::from(spec.gap.spin_us);
        let gap_us = gap_us.max(u64::from(spec.interval_us.unwrap_or(0)));
        stop.max_count.saturating_mul(gap_us).max(u64::from(stop.min_ms) * 1000)
    } else {
        u64::from(stop.max_ms) * 1000
    };
    let size_us = rounds_us.saturating_add(u64::from(spec.warmup.time_ms) * 1000).saturating_add(SIZE_OVERHEAD_US);
    size_us.saturating_mul(spec.sizes.iter().count() as u64)
}

/// How long one rate of one size of `pace` may take: of a count alone what the lowest rate makes of it.
pub(crate) fn longest_pace_us(spec: &ProbeSpec) -> u64 {
    /// Catching up of a sender that is behind, and the wait for the last answers.
    const END_US: u64 = 1_100_000;
    let stop = &spec.stop;
    let time_us = if stop.max_ms == u32::MAX { u64::MAX / 4 } else { u64::from(stop.max_ms) * 1000 };
    let lowest = spec.pace().iter().flat_map(|pace| &pace.rates_pps).copied().fold(f64::INFINITY, f64::min);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; `as` saturates")]
    let count_us = (stop.max_count as f64 / lowest * 1e6) as u64;
    time_us
        .min(count_us)
        .saturating_add(u64::from(spec.warmup.time_ms) * 1000)
        .saturating_add(2000 * u64::from(spec.timeout_ms))
        .saturating_add(2 * (SIZE_OVERHEAD_US + END_US))
}

/// Checks both ends against each other when they share a machine.
pub(crate) fn same_machine(spec: &ProbeSpec) -> Result<(), ProbeError> {
    let spins = spec.spins() || spec.pacer() == Some(Pacer::Spin);
    if let Some(cpu) = spec.shared_cpu().filter(|_| spins) {
        return conflict(
            format!("both ends are on CPU {cpu} of one machine and one of them spins, so the other never runs"),
            "give the ends different CPUs with --cpu and --remote-cpu, or use --receive block",
        );
    }
    let is_real_time = || spec.ends().any(|end| end.policy.is_real_time());
    if let Some(cpu) = spec.shared_cpu().filter(|_| spec.probe().is_bulk() && is_real_time()) {
        return conflict(
            format!("both ends are on CPU {cpu} of one machine with a real-time policy, and a sender never sleeps"),
            "give the ends different CPUs with --cpu and --remote-cpu, or use --policy other",
        );
    }
    let unpinned = spec.ends().any(|end| end.cpu.is_none());
    let single = task::online_cpus().is_ok_and(|cpus| cpus.iter().count() == 1);
    if spins && unpinned && single {
        return conflict(
            "this machine has one CPU, and an end that spins on it keeps the other from running",
            "use --receive block",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Probe;
    use model::{Protocol, SizeList};

    fn spec(protocol: Protocol) -> ProbeSpec {
        ProbeSpec::new(Probe::Pingpong, protocol)
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_told_with_those_that_do() {
        let mut spec = spec(Protocol::Udp);
        spec.initiator.cpu = Some(8000);
        let error = here(&spec).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        let text = error.to_string();
        assert!(text.contains("8000") && !text.contains('\n'), "{text}");
    }

    #[test]
    fn trying_a_cpu_leaves_this_thread_alone() {
        let before = task::allowed_cpus().unwrap();
        let mut spec = spec(Protocol::Udp);
        spec.initiator.cpu = before.iter().next();
        here(&spec).unwrap();
        assert_eq!(task::allowed_cpus().unwrap(), before);
    }

    #[test]
    fn spinning_on_one_cpu_is_refused_and_blocking_is_not() {
        let mut spec = spec(Protocol::Tcp);
        spec.initiator.cpu = Some(0);
        spec.reflector.cpu = Some(0);
        same_machine(&spec).unwrap();
        spec.reflector.receive = Receive::Spin;
        let error = same_machine(&spec).unwrap_err();
        assert!(error.to_string().contains("CPU 0"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn a_run_longer_than_a_session_is_told_beforehand() {
        let mut spec = spec(Protocol::Udp);
        spec.stop.max_ms = 10_000;
        fits_session(&spec, 11, "b").unwrap();
        let error = fits_session(&spec, 10, "b").unwrap_err();
        let text = error.to_string();
        assert_eq!(error.exit_code(), 2);
        assert!(text.contains("10 s") && text.contains("11 s") && text.contains("--max-session"), "{text}");
        spec.sizes = "1,2".parse::<SizeList>().unwrap();
        assert!(fits_session(&spec, 11, "b").is_err(), "each size takes its time");
        spec.sizes = SizeList::one(1);
        spec.stop.interval_percent = Some(5.0);
        fits_session(&spec, 11, "b").unwrap();
        spec.options = model::ProbeOptions::new(Probe::Rr);
        fits_session(&spec, 11, "b").expect("the limit is that of all passes");
    }

    #[test]
    fn a_count_alone_may_take_any_time_but_its_gaps() {
        let mut spec = spec(Protocol::Udp);
        spec.stop.max_ms = u32::MAX;
        spec.stop.max_count = 1000;
        fits_session(&spec, 1, "b").unwrap();
        spec.gap.sleep_us = 10_000;
        assert!(fits_session(&spec, 10, "b").is_err());
        fits_session(&spec, 11, "b").unwrap();
    }

    #[test]
    fn joined_datagrams_are_refused() {
        let mut udp = spec(Protocol::Udp);
        udp.socket.as_mut().unwrap().more = true;
        here(&udp).unwrap();
        udp.pings = 2;
        assert!(matches!(here(&udp), Err(ProbeError::Conflict { .. })));
        let mut tcp = spec(Protocol::Tcp);
        tcp.socket.as_mut().unwrap().more = true;
        tcp.pings = 2;
        here(&tcp).unwrap();
    }
}
