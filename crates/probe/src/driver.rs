//! The driver of all probes: one pass after the other is measured, its reports are collected and its document is made.

use crate::capture::CaptureLosses;
use crate::context::LiveLine;
use crate::document::{self, Parts};
use crate::session::Session;
use crate::{Context, Outcome, ProbeError};
use clock::Clock;
use flow::{NearExplainer, PassObserver, PassObservers};
use model::worker::{Measured, ProbeTask};
use model::{Finding, FindingId, OutlierRule, ProbeSpec, Role};
use net::{Fallback, PathError};
use std::sync::Arc;
use std::time::Duration;
use wire::StopReport;

const MOST_RAW: u64 = 4_000_000;
const MOST_EXPLAINED: u32 = 500;
/// What a real-time thread may run without blocking beyond its longest pass, before the kernel ends it.
pub(crate) const RT_SLACK: Duration = Duration::from_secs(30);

/// One measured part of a run: a size, or a rate of a size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pass {
    pub size: u32,
    /// Mean rate in messages a second, of an open loop.
    pub rate: Option<f64>,
    pub first: bool,
    /// Whether it is measured once more to explain the one before it.
    pub explains: bool,
}

impl Pass {
    /// Which messages are kept. A pass that explains keeps more: without a recorder only those are explained.
    pub(crate) fn outliers(self, spec: &ProbeSpec) -> OutlierRule {
        let least = if self.explains { MOST_EXPLAINED } else { 0 };
        OutlierRule { worst: spec.outliers.worst.max(least), ..spec.outliers }
    }
}

pub(crate) struct PassDone {
    pub parts: Parts,
    /// Why the run cannot go on.
    pub failure: Option<ProbeError>,
    /// Whether higher rates of the same size would show nothing new.
    pub saturated: bool,
}

/// One kind of measurement. It is opened by its constructor.
pub(crate) trait Engine {
    /// Runs a pass at all ends, with the observers around its measured part; `None` where it ended before that.
    fn run(&mut self, pass: Pass, observers: &mut dyn PassObserver) -> Result<Option<PassDone>, ProbeError>;

    fn close(self);
}

/// Runs all sizes and rates; `give` gets each result before the next pass. The observers come first: locking memory is no work
/// for a thread that has its CPU and policy.
pub(crate) fn drive<E: Engine>(
    open: impl FnOnce() -> Result<E, ProbeError>,
    task: &ProbeTask,
    context: &Context,
    rates: &[Option<f64>],
    give: &mut dyn FnMut(Measured),
) -> Result<Outcome, ProbeError> {
    let mut outcome = Outcome::default();
    let mut observers = observers(task, context);
    let mut engine = open()?;
    let result = drive_all(&mut engine, task, context, rates, &mut observers, give, &mut outcome);
    engine.close();
    result.map(|()| outcome)
}

/// What watches the passes of the initiator: a line for each.
fn observers(task: &ProbeTask, context: &Context) -> PassObservers {
    let mut observers = flow::pass_observers();
    observers.push(Box::new(LiveLine(Arc::clone(&context.progress))));
    if let Some(recording) = &context.recording {
        observers.push(Box::new(CaptureLosses(Arc::clone(recording))));
    }
    if let Some(over) = task.spec.explain {
        observers.push(Box::new(NearExplainer::new(over, &task.spec.initiator, &task.spec.reflector)));
    }
    if task.spec.foreign.is_empty() {
        observers.push(Box::new(MemoryLock::take()));
    }
    observers
}

fn drive_all(
    engine: &mut impl Engine,
    task: &ProbeTask,
    context: &Context,
    rates: &[Option<f64>],
    observers: &mut dyn PassObserver,
    give: &mut dyn FnMut(Measured),
    outcome: &mut Outcome,
) -> Result<(), ProbeError> {
    for size in task.spec.sizes.iter() {
        for &rate in rates {
            outcome.interrupted |= context.stopping();
            if outcome.interrupted {
                return Ok(());
            }
            let pass = Pass { size, rate, first: outcome.sizes == 0, explains: false };
            let Some((mut measured, mut failure, saturated)) = measure(engine, task, pass, observers)? else {
                outcome.interrupted = true;
                return Ok(());
            };
            if failure.is_none() && !measured.result.interrupted && observers.wants_further_pass(&measured) {
                let further = Pass { first: false, explains: true, ..pass };
                match measure(engine, task, further, observers) {
                    Ok(Some((further, failed, _))) => {
                        outcome.interrupted |= further.result.interrupted;
                        if !further.result.interrupted {
                            observers.take_further_pass(&mut measured, &further);
                        }
                        failure = failed;
                    }
                    Ok(None) => outcome.interrupted = true,
                    // What was measured before it is given first.
                    Err(error) => failure = Some(error),
                }
            }
            outcome.interrupted |= measured.result.interrupted;
            outcome.sizes += 1;
            outcome.untrusted += u32::from(!measured.result.verdict.trusted);
            give(measured);
            if let Some(failure) = failure {
                return Err(failure);
            }
            if saturated {
                break;
            }
        }
    }
    Ok(())
}

/// Measures and judges one pass: why the run cannot go on, and whether higher rates would show nothing new.
fn measure(
    engine: &mut impl Engine,
    task: &ProbeTask,
    pass: Pass,
    observers: &mut dyn PassObserver,
) -> Result<Option<(Measured, Option<ProbeError>, bool)>, ProbeError> {
    let done = match engine.run(pass, observers) {
        Err(ProbeError::Interrupted) => None,
        done => done?,
    };
    Ok(done.map(|PassDone { mut parts, failure, saturated }| {
        let others: Vec<&StopReport> = parts.others.iter().filter_map(|other| other.report.as_ref()).collect();
        observers.judge(&mut parts.own, &others);
        (document::assemble(task, pass, parts), failure, saturated)
    }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PassEnd {
    Done,
    Stopped,
    PeerEnded,
    /// Nothing came back for this many ms: a stream for the whole time-out, or datagrams were lost one after the other.
    Silent(u64),
    Broken(PathError),
}

impl From<PathError> for PassEnd {
    fn from(error: PathError) -> Self {
        Self::Broken(error)
    }
}

/// The other ends' reports of a pass, and why the run cannot go on.
#[derive(Default)]
pub(crate) struct Collected {
    /// By session; absent where an end vanished.
    pub reports: Vec<Option<StopReport>>,
    pub failure: Option<ProbeError>,
}

/// Stops a pass in each session and takes the reports. `ended`: the session that has ended, and why; `name`: the peer in errors.
pub(crate) fn collect_reports<'a>(
    sessions: impl Iterator<Item = &'a mut Session>,
    name: &str,
    size: u32,
    end: PassEnd,
    ended: Option<(usize, ProbeError)>,
) -> Collected {
    let hurry = !matches!(end, PassEnd::Done | PassEnd::Stopped);
    let (gone, reason) = ended.unzip();
    let (mut reports, mut reason_of, mut stuck, mut refused) = (Vec::new(), None, None, None);
    for (at, session) in sessions.enumerate() {
        let address = session.name.clone();
        if gone == Some(at) {
            reason_of = Some(address);
            reports.push(None);
            continue;
        }
        match session.stop(hurry) {
            Ok(report) => {
                // A reflector that could not go on reports why; here it only looks silent.
                let note = report.notes.iter().find(|note| note.id == FindingId::PathBroken);
                let failed = note.map(|note| ProbeError::Reflector { address, size, why: note.detail.clone() });
                stuck = stuck.or(failed);
                reports.push(Some(report));
            }
            Err(error) => {
                refused.get_or_insert((address, error));
                reports.push(None);
            }
        }
    }
    let last_words = reason_of.zip(reason).or(refused).map(|(address, error)| (address, error.last_words()));
    let vanished = |address, why| Some(ProbeError::PeerVanished { address, size, why });
    // An endpoint's own reason is more precise than what was seen here.
    let because = |seen: String| match last_words.clone() {
        Some((address, words)) => vanished(address, words),
        None => vanished(name.to_owned(), seen),
    };
    let failure = match end {
        PassEnd::Done | PassEnd::Stopped => last_words.and_then(|(address, words)| vanished(address, words)),
        PassEnd::PeerEnded => because("the control connection ended".to_owned()),
        PassEnd::Broken(cause) if cause.peer_is_gone() => because(cause.to_string()),
        PassEnd::Broken(cause) => Some(ProbeError::Path { address: name.to_owned(), size, cause }),
        PassEnd::Silent(_) if stuck.is_some() => stuck,
        PassEnd::Silent(ms) => {
            let seen = format!("nothing came back for {ms} ms and more");
            match last_words {
                Some((address, words)) => vanished(address, format!("{seen}, and {words}")),
                None => vanished(name.to_owned(), seen),
            }
        }
    };
    Collected { reports, failure }
}

/// How the peer vanished, if it did. A broken path of this end is a finding.
pub(crate) fn vanished(failure: Option<&ProbeError>, found: &mut Vec<Finding>) -> Option<String> {
    match failure? {
        ProbeError::PeerVanished { why, .. } => Some(why.clone()),
        // Its own note has the reason.
        ProbeError::Reflector { .. } => None,
        ProbeError::Path { cause, .. } => {
            found.push(broken_path(*cause));
            None
        }
        other => Some(other.to_string()),
    }
}

pub(crate) fn broken_path(cause: PathError) -> Finding {
    Finding::at(FindingId::PathBroken, Role::Initiator, format!("the initiator's data path broke: {cause}"))
}

/// What this end counted, where it is not 0.
pub(crate) fn counted(count: u64, id: FindingId, detail: String) -> Option<Finding> {
    (count > 0).then(|| Finding::at(id, Role::Initiator, detail))
}

/// Connections that are not of the protocol that was asked for.
pub(crate) fn fell_back(fallback: Fallback) -> Option<Finding> {
    let Fallback { asked, fell_back, unknown } = fallback;
    let detail = match (fell_back, unknown) {
        (0, 0) => return None,
        (0, _) => format!(
            "whether {unknown} of {asked} connections are MPTCP cannot be seen, because the kernel does not say: use Linux 5.16 or later without a preloaded stack"
        ),
        _ => format!(
            "the connection fell back to TCP ({fell_back} of {asked}), so MPTCP was not measured: the peer's kernel must have it (sysctl net.mptcp.enabled=1), and nothing on the path may remove its options (firewalls, proxies)"
        ),
    };
    Some(Finding::at(FindingId::PathNotAsClaimed, Role::Initiator, detail))
}

/// Locks the process' memory. What was refused is a finding; the error itself names the cause and the remedy.
struct MemoryLock(Option<Finding>);

impl MemoryLock {
    fn take() -> Self {
        Self(task::lock_memory().err().as_ref().map(not_locked))
    }
}

impl PassObserver for MemoryLock {
    fn judge(&mut self, report: &mut StopReport, _: &[&StopReport]) {
        report.notes.extend(self.0.clone());
    }
}

fn not_locked(refused: &task::TaskError) -> Finding {
    Finding::at(FindingId::MemoryNotLocked, Role::Initiator, refused.to_string())
}

/// Places the calling thread. `longest`: how long it may run without blocking, in a real-time class.
pub(crate) fn place_thread(
    cpu: Option<u32>,
    policy: model::Policy,
    longest: Option<Duration>,
) -> Result<(), ProbeError> {
    flow::this_thread_measures();
    if let Some(cpu) = cpu {
        // The kernel refuses a CPU behind a shield to a thread that is not in its control group.
        host::shield::enter(&[cpu].into_iter().collect())?;
        task::pin(cpu)?;
    }
    if let Some(longest) = longest.filter(|_| policy.is_real_time()) {
        // Blocking starts the count anew.
        task::set_rt_limit(Some(longest.saturating_add(RT_SLACK)))?;
    }
    if policy != model::Policy::Other {
        task::apply_policy(policy)?;
    }
    Ok(())
}

/// From the start of the process to the first message of the warm-up, sent at tick `first_message`.
pub(crate) fn startup_ns(context: &Context, clock: Clock, first_message: u64) -> u64 {
    let since_message = clock.ns(clock.now().saturating_sub(first_message));
    let since_start = u64::try_from(context.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    since_start.saturating_sub(since_message)
}

pub(crate) fn raw_capacity(spec: &ProbeSpec) -> usize {
    let raw = if spec.raw { spec.stop.max_count.min(MOST_RAW) } else { 0 };
    usize::try_from(raw).unwrap_or(usize::MAX)
}

/// In which direction messages were lost, by the reflectors' counts. `sent` counts each reflector; `scope` leads the sentence.
pub(crate) fn loss_by_direction(
    spec: &ProbeSpec,
    lost: u64,
    sent: u64,
    answers: u64,
    reports: &[Option<StopReport>],
    scope: &str,
) -> Option<Finding> {
    if lost == 0 || !spec.counts_losses() || reports.is_empty() || reports.iter().any(Option::is_none) {
        return None;
    }
    let sum = |count: fn(&StopReport) -> u64| reports.iter().flatten().map(count).sum::<u64>();
    let out = sent.saturating_sub(sum(|report| report.received));
    let sent_back = sum(|report| report.sent);
    let back = sent_back.saturating_sub(answers);
    let (who, it) = if reports.len() > 1 { ("their reflector", "they") } else { ("the reflector", "it") };
    let detail = format!(
        "{scope}{out} of {sent} messages never reached {who}, and {back} of the {sent_back} that {it} sent back did not arrive in time"
    );
    // The sum over several is of no single one.
    let end = (reports.len() == 1).then(|| Role::Reflector.to_string());
    Some(Finding { id: FindingId::Loss, end, detail })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends nothing.
    struct Passes(u32);

    impl Engine for Passes {
        fn run(&mut self, _: Pass, observers: &mut dyn PassObserver) -> Result<Option<PassDone>, ProbeError> {
            self.0 += 1;
            let spec = ProbeSpec::new(model::Probe::Pingpong, model::Protocol::Udp);
            let mut parts = document::tests::parts(&spec, &[]);
            observers.begin(64, None);
            observers.end(&mut parts.own);
            parts.own.counters.tcp_retransmits = u64::from(self.0);
            Ok(Some(PassDone { parts, failure: None, saturated: false }))
        }

        fn close(self) {}
    }

    /// Asks for one more pass of each cell, and notes its calls.
    #[derive(Default)]
    struct Explains {
        is_further: bool,
        calls: Vec<&'static str>,
    }

    impl PassObserver for Explains {
        fn begin(&mut self, _: u32, _: Option<std::os::fd::RawFd>) {
            self.calls.push(if self.is_further { "begin further" } else { "begin" });
        }

        fn end(&mut self, _: &mut StopReport) {
            self.calls.push("end");
        }

        fn judge(&mut self, report: &mut StopReport, _: &[&StopReport]) {
            report.notes.push(Finding::new(FindingId::CaptureIncomplete, self.calls.join(", ")));
        }

        fn wants_further_pass(&mut self, _: &Measured) -> bool {
            self.is_further = true;
            true
        }

        fn take_further_pass(&mut self, result: &mut Measured, further: &Measured) {
            self.is_further = false;
            let errors = |of: &Measured| of.result.ends.first(Role::Initiator).unwrap().counters.tcp_retransmits;
            result.hlog = format!("{} then {}", errors(result), errors(further));
        }
    }

    /// Catches: a further pass that is a result of its own, or whose observer cannot tell it from the first.
    #[test]
    fn a_further_pass_explains_the_one_before_it() {
        let mut spec = ProbeSpec::new(model::Probe::Pingpong, model::Protocol::Udp);
        spec.sizes = "64,128".parse().unwrap();
        let task = ProbeTask::new(spec, model::worker::Target::default());
        let (mut engine, mut observers) = (Passes(0), PassObservers::from([Box::<Explains>::default() as Box<_>]));
        let (context, mut given, mut outcome) = (Context::new("x".into(), "t"), Vec::new(), Outcome::default());
        let mut give = |measured| given.push(measured);
        drive_all(&mut engine, &task, &context, &[None], &mut observers, &mut give, &mut outcome).unwrap();
        assert_eq!((engine.0, outcome.sizes), (4, 2));
        let hlogs: Vec<&str> = given.iter().map(|one| one.hlog.as_str()).collect();
        assert_eq!(hlogs, ["1 then 2", "3 then 4"]);
        let said = given[1].result.verdict.iter().find(|found| found.id == FindingId::CaptureIncomplete).unwrap();
        assert_eq!(said.detail, "begin, end, begin further, end, begin, end");
    }

    #[test]
    fn memory_that_is_not_locked_is_told_once() {
        let cause = std::io::Error::from_raw_os_error(12);
        let words = cause.to_string();
        let refused = task::TaskError::LockMemory { limit: "65536 bytes".to_owned(), cause };
        let detail = not_locked(&refused).detail;
        for once in [words.as_str(), "locked", "CAP_IPC_LOCK", "65536 bytes"] {
            assert_eq!(detail.matches(once).count(), 1, "{once}: {detail}");
        }
    }
}
