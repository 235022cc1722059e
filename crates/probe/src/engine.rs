//! The measuring thread: prepares itself, then measures size after size against one peer.

use crate::connect_each::ConnectEach;
use crate::document::{self, Parts, PathInfo};
use crate::echo::{self, EchoPath};
use crate::rounds::{PathFailure, Plan, Rounds};
use crate::session::Session;
use crate::size::{End, SizeDone, SizeLoop};
use crate::stop::BATCH_ROUNDS;
use crate::{Context, Outcome, ProbeError, cost, local};
use clock::Clock;
use model::result::SelfCost;
use model::worker::{Measured, ProbeTask};
use model::{Finding, Policy, Probe, ProbeSpec};
use net::icmp::EchoSocket;
use net::{DataSocket, PathOptions, PathVisitor, TransactionClient};
use record::{Recorder, RecorderConfig};
use std::net::SocketAddr;
use std::time::Duration;
use task::{Interrupter, Progress, Watchdog};
use wire::{StopReport, Tier};

/// Raw samples kept at most.
const MOST_RAW: u64 = 4_000_000;
/// Beyond the time that a size may take, what a real-time thread may run without blocking before the kernel ends it.
const RT_SLACK: Duration = Duration::from_secs(30);

/// How messages reach the peer.
pub(crate) enum DataPath {
    /// A data socket to a reflector.
    Data(Box<DataSocket>),
    /// A connection for each transaction with a reflector.
    ConnectEach(SocketAddr),
    /// Echo requests to a kernel.
    Echo(SocketAddr),
}

/// The peer: its control session (absent for ICMP echo) and the data path to it.
pub(crate) struct Peer {
    /// The control session.
    pub session: Option<Session>,
    /// The data path.
    pub data_path: DataPath,
    /// The tag of messages that have room for one.
    pub tag: u64,
    /// Addresses, and whether they are one host's.
    pub path_info: PathInfo,
    /// The reflector's process, when it is ours. Last, so that its data path is closed before it is waited for.
    pub _child: Option<local::Reflector>,
}

/// The measuring thread's own state. Made on that thread.
pub(crate) struct Engine<'a> {
    task: &'a ProbeTask,
    context: &'a Context,
    clock: Clock,
    progress: Progress,
    /// Watches waits that have no time-out of their own. Ends with the engine.
    _watchdog: Watchdog,
    /// What was asked for and refused.
    found: Vec<Finding>,
    /// The first round's number of the next size.
    number: u64,
    outcome: Outcome,
}

impl<'a> Engine<'a> {
    /// Prepares the calling thread: first what starts other threads, then memory, CPU and policy, so that nothing but
    /// this thread gets them.
    pub(crate) fn prepare(task: &'a ProbeTask, context: &'a Context, clock: Clock) -> Result<Self, ProbeError> {
        let spec = &task.spec;
        let progress = Progress::new();
        let timeout = Duration::from_millis(u64::from(spec.timeout_ms));
        let target = Interrupter::for_current_thread()?;
        let watchdog = Watchdog::start(progress.clone(), target, timeout, spec.initiator.cpu)?;
        let mut found = Vec::new();
        if let Err(refused) = task::lock_memory() {
            found.push(not_locked(&refused));
        }
        task::prefault_stack(512 * 1024);
        if let Some(cpu) = spec.initiator.cpu {
            // The kernel refuses a CPU behind a shield to who is not in its control group.
            host::shield::enter(&[cpu].into_iter().collect())?;
            task::pin(cpu)?;
        }
        if spec.initiator.policy != Policy::Other {
            if spec.initiator.policy.is_real_time() {
                // Control messages between sizes block, and blocking starts the count anew.
                task::set_rt_limit(Some(longest_size(spec) + RT_SLACK))?;
            }
            task::apply_policy(spec.initiator.policy)?;
        }
        Ok(Self { task, context, clock, progress, _watchdog: watchdog, found, number: 1, outcome: Outcome::default() })
    }

    /// Measures all sizes, gives each result to `give`, and ends the session.
    pub(crate) fn measure(mut self, mut peer: Peer, give: &mut dyn FnMut(Measured)) -> Result<Outcome, ProbeError> {
        let mut result = Ok(());
        for size in self.task.spec.sizes.iter() {
            if self.context.stopping() {
                self.outcome.interrupted = true;
                break;
            }
            result = self.size(&mut peer, size, give);
            if result.is_err() || self.outcome.interrupted {
                break;
            }
        }
        if let Some(session) = peer.session.take() {
            session.close();
        }
        result.map(|()| self.outcome)
    }

    fn size(&mut self, peer: &mut Peer, size: u32, give: &mut dyn FnMut(Measured)) -> Result<(), ProbeError> {
        let spec = &self.task.spec;
        let response = spec.response_size.filter(|_| spec.probe == Probe::Rr).unwrap_or(size);
        let plan = self.plan(peer, size, response);
        let config = self.recorder_config(&plan);
        let mut self_cost = cost::measure(self.clock, plan, config);
        let mut recorder = Recorder::new(config);
        let context = self.context;
        let stop = &*context.stop;
        let progress = self.progress.clone();
        let mut rounds = Rounds::new(self.clock, plan, self.number, BATCH_ROUNDS, stop, &progress);
        if let Some(session) = &mut peer.session {
            session.start(size, response)?;
        }
        let session = &mut peer.session;
        let mut ended = None;
        let mut peer_ended = || {
            ended = session.as_mut().and_then(Session::ended);
            ended.is_some()
        };
        let dropped_before = dropped(&peer.data_path);
        let visitor = SizeLoop {
            spec,
            clock: self.clock,
            rounds: &mut rounds,
            recorder: &mut recorder,
            progress_seen: context.live.is_some().then(|| &*context.progress_seen),
            size,
            began: 0,
            width_percent: None,
            peer_ended: &mut peer_ended,
        };
        let options = PathOptions {
            receive: spec.initiator.receive,
            idle: spec.initiator.idle,
            clock: self.clock,
            timeout_ns: plan.timeout_ns,
            stop,
        };
        let mut done = travel(spec, &mut peer.data_path, &options, size, visitor)?;
        self.number = rounds.next_number();
        done.counters.socket_overflow = dropped(&peer.data_path).saturating_sub(dropped_before);
        if self.outcome.sizes == 0 {
            self_cost.startup_ns = Some(self.startup_ns(done.first_message));
        }
        let (report, failure) = self.collect_reports(peer, size, &done, ended, recorder.received());
        self.give(peer, size, done, recorder, self_cost, report, failure.as_ref(), &rounds, give);
        match failure {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    fn plan(&self, peer: &Peer, size: u32, response: u32) -> Plan {
        let spec = &self.task.spec;
        let (send_bytes, receive_bytes) = (size as usize, response as usize);
        let plan = Plan {
            pings: spec.pings,
            pongs: spec.pongs,
            send_bytes,
            receive_bytes,
            more: spec.socket.more,
            tier: Tier::for_exchange(send_bytes, receive_bytes),
            stream: spec.socket.protocol.is_stream(),
            fresh: false,
            tag: peer.tag,
            timeout_ns: u64::from(spec.timeout_ms) * 1_000_000,
            gap: spec.gap,
            interval_ns: u64::from(spec.interval_us.unwrap_or(0)) * 1000,
            pace_ns: peer.session.as_ref().map_or(0, |session| pace_ns(session.max_rate_pps(), spec.pings)),
        };
        match peer.data_path {
            DataPath::Data(_) => plan,
            // The server's answer is not made from the request.
            DataPath::ConnectEach(_) => Plan { tier: Tier::Nothing, stream: false, fresh: true, ..plan },
            DataPath::Echo(_) => {
                let bytes = echo::buffer_bytes(send_bytes);
                let tier = Tier::Truncated(echo::NUMBER_BYTES);
                Plan { send_bytes: bytes, receive_bytes: bytes, tier, pings: 1, pongs: 1, stream: false, ..plan }
            }
        }
    }

    fn recorder_config(&self, plan: &Plan) -> RecorderConfig {
        let spec = &self.task.spec;
        let raw = if spec.raw { spec.stop.max_count.min(MOST_RAW) } else { 0 };
        RecorderConfig {
            outliers: spec.outliers,
            raw_capacity: usize::try_from(raw).unwrap_or(usize::MAX),
            has_header: plan.tier != Tier::Nothing,
            has_schedule: plan.interval_ns > 0,
            ..RecorderConfig::new(self.clock.rate(), document::kind(spec), spec.stop.max_ms)
        }
    }

    /// Start of the process to the first message of the warm-up.
    fn startup_ns(&self, first_message: u64) -> u64 {
        let since_message = self.clock.ns(self.clock.now().saturating_sub(first_message));
        let since_start = u64::try_from(self.context.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        since_start.saturating_sub(since_message)
    }

    /// Takes the reflector's report, and says what went wrong if something did.
    fn collect_reports(
        &mut self,
        peer: &mut Peer,
        size: u32,
        done: &SizeDone,
        ended: Option<ProbeError>,
        rounds_answered: u64,
    ) -> (Option<StopReport>, Option<ProbeError>) {
        let broken = !matches!(done.end, End::Met | End::Stopped);
        let told = match &mut peer.session {
            Some(session) if done.end != End::PeerEnded => session.stop(broken).map(Some),
            _ => Ok(None),
        };
        let name = peer.name();
        let vanished = |why: String| ProbeError::PeerVanished { address: name.clone(), size, why };
        let (report, last_words) = match told {
            Ok(report) => (report, ended),
            Err(error) => (None, ended.or(Some(error))),
        };
        // A reflector that could not go on says why; here it only looks silent.
        let stuck = report.as_ref().and_then(|report| {
            let note = report.notes.iter().find(|note| note.id == model::FindingId::PathBroken)?;
            Some(ProbeError::Reflector { address: name.clone(), size, why: note.detail.clone() })
        });
        // The endpoint's own reason is more precise than the broken path.
        let because = |seen: String| last_words.as_ref().map_or(seen, ProbeError::last_words);
        let failure = match done.end {
            End::Met if peer.session.is_none() && rounds_answered == 0 => {
                Some(ProbeError::NoEcho { address: name.clone() })
            }
            End::Met | End::Stopped => last_words.map(|words| vanished(words.last_words())),
            End::PeerEnded => Some(vanished(because("the control connection ended".to_owned()))),
            End::Broken(PathFailure::Path(cause)) if cause.peer_is_gone() => Some(vanished(because(cause.to_string()))),
            End::Broken(PathFailure::Path(cause)) => Some(ProbeError::Path { address: name, size, cause }),
            End::Broken(PathFailure::Silent) if stuck.is_some() => stuck,
            End::Broken(PathFailure::Silent) => {
                let silence = format!("no answer for {} ms and more", self.task.spec.timeout_ms);
                let words = last_words.as_ref().map(|words| format!(", and {}", words.last_words()));
                Some(vanished(silence + &words.unwrap_or_default()))
            }
        };
        self.outcome.interrupted |= done.end == End::Stopped;
        (report, failure)
    }

    #[expect(clippy::too_many_arguments, reason = "the ends of one size, each from another hand")]
    fn give(
        &mut self,
        peer: &Peer,
        size: u32,
        done: SizeDone,
        recorder: Recorder,
        self_cost: SelfCost,
        reflector: Option<StopReport>,
        failure: Option<&ProbeError>,
        rounds: &Rounds<'_>,
        give: &mut dyn FnMut(Measured),
    ) {
        let done_end = done.end;
        let recorded = recorder.finish(Some(&done.map));
        let mut found = self.found.clone();
        found.extend(overrun(rounds.unmatched().overrun));
        if let Some(session) = &peer.session {
            found.extend(paced(pace_ns(session.max_rate_pps(), self.task.spec.pings), session.max_rate_pps()));
        }
        found.extend(loss_by_direction(&self.task.spec, &recorded, reflector.as_ref(), rounds));
        let vanished = match failure {
            Some(ProbeError::PeerVanished { why, .. }) => Some(why.clone()),
            // Its own note says it already.
            Some(ProbeError::Reflector { .. }) | None => None,
            Some(ProbeError::Path { cause, .. }) => {
                let detail = format!("the initiator's data path broke: {cause}");
                found.push(Finding::at(model::FindingId::PathBroken, "initiator", detail));
                None
            }
            Some(other) => Some(other.to_string()),
        };
        let measured = document::assemble(Parts {
            task: self.task,
            size,
            rate: None,
            path_info: &peer.path_info,
            recorded,
            map: done.map,
            usage: done.usage,
            counters: done.counters,
            reflector,
            rates: &done.rates,
            width_percent: done.width_percent,
            self_cost,
            found,
            vanished,
            interrupted: done_end == End::Stopped,
            pgm: None,
            events: Vec::new(),
        });
        self.outcome.sizes += 1;
        self.outcome.untrusted += u32::from(!measured.result.verdict.trusted);
        give(measured);
    }
}

/// The same words as the reflector's: the error itself holds the cause and the remedy.
fn not_locked(refused: &task::TaskError) -> Finding {
    Finding::at(model::FindingId::NotPermitted, "initiator", refused.to_string())
}

impl Peer {
    fn name(&self) -> String {
        match (&self.session, &self.path_info.peer) {
            (Some(session), _) => session.name().to_owned(),
            (None, Some(address)) => address.clone(),
            (None, None) => "this machine".to_owned(),
        }
    }
}

/// The least time between two rounds that keeps an endpoint's limit of messages a second; 0 where the limit is above what
/// one round after the other can reach. Without it datagrams would be dropped there, and each loss costs a time-out.
fn pace_ns(max_rate_pps: u32, pings: u32) -> u64 {
    const BEYOND_REACH: u32 = 1_000_000;
    if max_rate_pps >= BEYOND_REACH {
        return 0;
    }
    u64::from(pings) * 1_000_000_000 / u64::from(max_rate_pps.max(1)) + 1000
}

fn paced(pace_ns: u64, max_rate_pps: u32) -> Option<Finding> {
    (pace_ns > 0).then(|| {
        Finding::at(
            model::FindingId::NotPermitted,
            "reflector",
            format!(
                "the endpoint's owner allows {max_rate_pps} messages a second, so rounds were kept at least {} µs apart: \
                 its paths may have gone cold between them; have --max-rate raised there",
                pace_ns / 1000
            ),
        )
    })
}

/// Runs the visitor on the data path.
fn travel(
    spec: &ProbeSpec,
    data_path: &mut DataPath,
    options: &PathOptions<'_>,
    size: u32,
    visitor: SizeLoop<'_, '_>,
) -> Result<SizeDone, ProbeError> {
    match data_path {
        DataPath::Data(socket) => Ok(net::with_path(socket, options, visitor)?),
        DataPath::ConnectEach(to) => {
            let client = TransactionClient::new(&spec.socket, &spec.initiator, *to, options)?;
            Ok(visitor.visit(&mut ConnectEach::new(client, size as usize)))
        }
        DataPath::Echo(to) => {
            let socket = EchoSocket::open(*to, &spec.socket, &spec.initiator, options, size as usize)?;
            Ok(visitor.visit(&mut EchoPath::new(socket, size as usize)))
        }
    }
}

fn dropped(data_path: &DataPath) -> u64 {
    match data_path {
        DataPath::Data(socket) => socket.dropped().map_or(0, u64::from),
        DataPath::ConnectEach(_) | DataPath::Echo(_) => 0,
    }
}

/// The longest that one size may take, without what it waits for.
fn longest_size(spec: &ProbeSpec) -> Duration {
    Duration::from_millis(
        u64::from(spec.warmup.time_ms)
            .saturating_add(u64::from(spec.stop.max_ms))
            .saturating_add(u64::from(spec.timeout_ms)),
    )
}

fn overrun(samples: u64) -> Option<Finding> {
    (samples > 0).then(|| {
        Finding::at(
            model::FindingId::SamplesOverrun,
            "initiator",
            format!("{samples} late or double answers found no room among the samples: something repeats our messages"),
        )
    })
}

/// In which direction messages were lost, by the reflector's counts.
fn loss_by_direction(
    spec: &ProbeSpec,
    recorded: &record::Recorded,
    report: Option<&StopReport>,
    rounds: &Rounds<'_>,
) -> Option<Finding> {
    let report = report?;
    if recorded.messages.lost == 0 || spec.socket.protocol.is_stream() {
        return None;
    }
    let sent = rounds.rounds_sent().saturating_mul(u64::from(spec.pings));
    let out = sent.saturating_sub(report.received);
    let sent_back = report.sent;
    let back = sent_back.saturating_sub(rounds.answers());
    Some(Finding::at(
        model::FindingId::Loss,
        "reflector",
        format!(
            "warm-up included, {out} of {sent} messages never reached the reflector, and {back} of the {sent_back} that it \
             sent back did not arrive in time"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

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
