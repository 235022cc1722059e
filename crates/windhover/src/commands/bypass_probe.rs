//! `windhover bypass probe`: what each way past the kernel is worth on an interface, measured in interleaved rounds beside the
//! kernel's own sockets.

use super::child::Worker;
use super::{identity, key, signals};
use crate::cli::bypass::Probe as Arguments;
use crate::output::{Failure, Output, paragraph, width};
use anyhow::anyhow;
use lab::{Lab, LabSpec, Registry};
use model::worker::{EndpointTask, ProbeTask, Target};
use model::{
    EndSpec, EndUsage, FindingId, FrameBackend, Limits, Probe, ProbeSpec, Protocol, Receive, ResultDocument, Role,
    SizeList, WorkerEvent, WorkerSpec,
};
use report::{Column, Grid};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use xsk::{Backend, Interface, Port};

/// Fewer pairs of figures say nothing of a ratio.
const FEWEST_ROUNDS: usize = 3;
/// Time measured of each way in a round, after a warm-up.
const MEASURE_MS: u32 = 150;
const WARMUP_MS: u32 = 30;
/// A worker that says nothing for so long is stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// One way for a message to the peer and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Candidate {
    /// UDP sockets that sleep in their receive call: what the others are compared with.
    Block,
    /// UDP sockets that spin.
    Spin,
    /// Frames past the kernel; the receiver spins.
    Frames(FrameBackend),
    /// Shared memory within this machine, a floor without a network.
    Memory,
}

impl Candidate {
    fn all() -> impl Iterator<Item = Self> {
        let frames = FrameBackend::ALL.into_iter().map(Self::Frames);
        [Self::Block, Self::Spin].into_iter().chain(frames).chain([Self::Memory])
    }

    fn name(self) -> String {
        match self {
            Self::Block => "kernel UDP, block".to_owned(),
            Self::Spin => "kernel UDP, spin".to_owned(),
            Self::Frames(backend) => format!("frame, {backend}"),
            Self::Memory => "shm (no network)".to_owned(),
        }
    }

    /// The word in the document.
    fn word(self) -> &'static str {
        match self {
            Self::Block => "kernel-block",
            Self::Spin => "kernel-spin",
            Self::Frames(backend) => backend.word(),
            Self::Memory => "shm",
        }
    }
}

/// What one round found.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Figures {
    /// RTT/2.
    p50_us: f64,
    /// Absent where the round has too few messages for it.
    p99_us: Option<f64>,
    p99_9_us: Option<f64>,
    /// CPU time of each end, in percent of one CPU.
    cpu_percent: [f64; 2],
}

impl Figures {
    /// `None` where the result cannot be trusted or has no figures.
    fn of(result: &ResultDocument) -> Option<Self> {
        let latency = result.latency.as_ref().filter(|_| result.verdict.trusted)?;
        let us = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e3);
        let percent = |usage: &EndUsage| {
            let busy_ns = usage.process_user_ns + usage.process_system_ns;
            100.0 * busy_ns as f64 / usage.elapsed_ns.max(1) as f64
        };
        let percent_of = |role| result.ends.first(role).map_or(0.0, |end| percent(&end.usage));
        Some(Self {
            p50_us: us(latency.p50_ns)?,
            p99_us: us(latency.p99_ns),
            p99_9_us: us(latency.p99_9_ns),
            cpu_percent: Role::ALL.map(percent_of),
        })
    }
}

/// All of one way.
#[derive(Debug)]
struct Row {
    way: Candidate,
    /// A round that could not be trusted has none.
    rounds: Vec<Option<Figures>>,
    /// Why it does not open; of the interface alone when nothing is measured.
    why_not: Option<String>,
    /// The round, from 1, that ended it: it did open.
    failed_in: Option<usize>,
    /// Words of what made rounds untrusted.
    untrusted: Vec<String>,
}

impl Row {
    fn new(way: Candidate) -> Self {
        Self { way, rounds: Vec::new(), why_not: None, failed_in: None, untrusted: Vec::new() }
    }

    /// Adds a round. One without figures says why.
    fn add(&mut self, result: &ResultDocument) {
        let figures = Figures::of(result);
        let invalid = result.verdict.invalid.iter().map(|finding| finding.id.to_string());
        self.untrusted.extend(invalid);
        if figures.is_none() && result.verdict.trusted {
            // A busy machine may let so few messages through that not even their median is known.
            self.untrusted.push(FindingId::FewSamples.to_string());
        }
        self.rounds.push(figures);
    }

    /// Ends it. What earlier rounds found is no figure of a way that works.
    fn fail(&mut self, why: String) {
        self.failed_in = (!self.rounds.is_empty()).then_some(self.rounds.len() + 1);
        self.why_not = Some(why);
        self.rounds.fill(None);
        self.rounds.push(None);
    }

    fn opens(&self) -> bool {
        self.why_not.is_none() || self.failed_in.is_some()
    }

    fn median(&self, of: fn(&Figures) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.rounds.iter().flatten().filter_map(of).collect();
        (values.len() >= FEWEST_ROUNDS).then(|| stats::median(&values))
    }

    fn p50_us(&self) -> Option<f64> {
        self.median(|figures| Some(figures.p50_us))
    }

    /// Its p50 over the other's with the 95 % interval, of the rounds that have both.
    fn over(&self, other: &Self) -> Option<(f64, f64, f64)> {
        let pairs = self.rounds.iter().zip(&other.rounds);
        let (ours, theirs): (Vec<f64>, Vec<f64>) =
            pairs.filter_map(|(a, b)| Some(((*a)?.p50_us, (*b)?.p50_us))).unzip();
        (ours.len() >= FEWEST_ROUNDS).then(|| stats::ratio(&ours, &theirs))
    }
}

/// Where the ends are.
struct Ends {
    /// The network namespace of the initiator; absent: this one.
    here: Option<PathBuf>,
    target: Target,
    /// What the data path is bound to.
    device: Option<String>,
    // Ended in this order: the endpoint, then the namespaces.
    _endpoint: Option<Worker>,
    _lab: Option<Lab>,
}

impl Ends {
    /// A peer that somebody else started.
    fn with_peer(arguments: &Arguments, peer: &str) -> Result<Self, Failure> {
        let control = net::resolve(peer, net::DEFAULT_PORT, None).map_err(|error| Failure::new(2, error))?.to_string();
        let target = Target { control, key: key::read(arguments.key_file.as_deref())?, host: None };
        let device = Some(arguments.interface.clone());
        Ok(Self { here: None, target, device, _endpoint: None, _lab: None })
    }

    /// Two namespaces of our own, joined by a veth pair; gone with this value, and with this process.
    fn with_lab() -> Result<Self, Failure> {
        let spec =
            LabSpec { keeper: Some(identity::executable()?), ..LabSpec::new(&format!("probe-{}", std::process::id())) };
        let lab = Lab::up(&Registry::default(), &spec).map_err(|error| Failure::new(1, error))?;
        let [here, there] = lab.hosts() else { return Err(anyhow!("a lab of two hosts has others").into()) };
        let key = key::fresh()?.to_hex();
        let task = EndpointTask {
            bind: format!("{}:0", there.ipv4),
            key: Some(key.clone()),
            limits: Limits { max_rate_pps: u32::MAX, ..Limits::trusted() },
        };
        let namespace = there.netns_path();
        let mut endpoint = Worker::start("endpoint", &WorkerSpec::Endpoint(task), |launch| inside(launch, namespace))?;
        let Some(WorkerEvent::Ready { address: Some(control) }) = endpoint.hear(PATIENCE)? else {
            return Err(anyhow!("the endpoint in the namespace does not say where it listens").into());
        };
        let target = Target { control, key: Some(key), host: None };
        Ok(Self { here: here.netns_path(), target, device: None, _endpoint: Some(endpoint), _lab: Some(lab) })
    }
}

fn inside(launch: task::Launch, namespace: Option<PathBuf>) -> task::Launch {
    match namespace {
        Some(path) => launch.netns(path),
        None => launch,
    }
}

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<u8, Failure> {
    let index = net::interface::index_of(&arguments.interface).map_err(Failure::usage)?;
    let kind = netlink::Socket::route().and_then(|socket| socket.link(index)).map_err(|cause| anyhow!(cause))?.kind;
    let is_ours = arguments.interface == "lo" || kind.as_deref() == Some("veth");
    let stop = signals::stop_flag()?;
    let ends = match &arguments.to {
        Some(peer) => Some(Ends::with_peer(arguments, peer)?),
        None if is_ours => Some(Ends::with_lab()?),
        None => None,
    };
    let place = match (&arguments.to, is_ours) {
        (Some(peer), _) => format!("{} to {peer}", arguments.interface),
        (None, true) => "a veth pair between two namespaces of this machine".to_owned(),
        (None, false) => arguments.interface.clone(),
    };
    let mut rows: Vec<Row> = Candidate::all().map(Row::new).collect();
    match &ends {
        Some(ends) => measure(arguments, ends, &mut rows, &stop)?,
        None => open_only(&arguments.interface, &mut rows)?,
    }
    drop(ends);
    let stopped = stop.load(Ordering::Relaxed);
    drop(stop);
    let (choice, sentence) = match (&arguments.to, is_ours) {
        (None, false) => (None, no_peer(&arguments.interface)),
        _ if stopped && rows[0].p50_us().is_none() => (None, "Interrupted: no recommendation.".to_owned()),
        _ => recommend(&rows),
    };
    if arguments.form.is_json() {
        let document = document(arguments, &place, &rows, choice, &sentence);
        output.result(&format!("{}\n", serde_json::to_string_pretty(&document)?))?;
    } else {
        output.result(&text(arguments, &place, &rows, &sentence))?;
    }
    let is_measured = arguments.to.is_none() && !is_ours || rows[0].p50_us().is_some();
    Ok(match (stopped, is_measured) {
        (true, _) => 130,
        (false, true) => 0,
        (false, false) => 4,
    })
}

/// Rounds of all ways that open, each round in another order, until the time is used up.
fn measure(arguments: &Arguments, ends: &Ends, rows: &mut [Row], stop: &AtomicBool) -> Result<(), Failure> {
    let until = Instant::now() + Duration::from_secs_f64(arguments.seconds);
    let ways = rows.len();
    for round in 0.. {
        if stop.load(Ordering::Relaxed) || (round >= FEWEST_ROUNDS && Instant::now() >= until) {
            break;
        }
        for place in 0..ways {
            let row = &mut rows[(place + round) % ways];
            if stop.load(Ordering::Relaxed) {
                break;
            }
            if row.why_not.is_some() {
                row.rounds.push(None);
                continue;
            }
            match once(arguments, ends, row.way) {
                Ok(result) => row.add(&result),
                Err(_) if stop.load(Ordering::Relaxed) => {}
                // What others are compared with has to work; what is compared may be missing here.
                Err(failure) if matches!(row.way, Candidate::Block | Candidate::Spin) => return Err(failure),
                Err(failure) => row.fail(format!("{:#}", failure.error)),
            }
        }
    }
    // Only whole rounds can be compared.
    let whole = rows.iter().map(|row| row.rounds.len()).min().unwrap_or(0);
    rows.iter_mut().for_each(|row| row.rounds.truncate(whole));
    Ok(())
}

fn once(arguments: &Arguments, ends: &Ends, way: Candidate) -> Result<ResultDocument, Failure> {
    let spec = spec(arguments, ends.device.clone(), way);
    spec.check().map_err(Failure::usage)?;
    let task = ProbeTask::new(spec, ends.target.clone());
    let namespace = ends.here.clone();
    let mut worker =
        Worker::start("measurement", &WorkerSpec::Probe(Box::new(task)), |launch| inside(launch, namespace))?;
    match worker.hear(PATIENCE)? {
        Some(WorkerEvent::Measured(measured)) => Ok(measured.result),
        Some(_) => Err(anyhow!("the measurement ended without a result").into()),
        None => Err(anyhow!("the measurement did not end within {} s", PATIENCE.as_secs()).into()),
    }
}

fn spec(arguments: &Arguments, device: Option<String>, way: Candidate) -> ProbeSpec {
    let protocol = match way {
        Candidate::Block | Candidate::Spin => Protocol::Udp,
        Candidate::Frames(_) => Protocol::Frame,
        Candidate::Memory => Protocol::Shm,
    };
    let mut spec = ProbeSpec::new(Probe::Pingpong, protocol);
    if let (Candidate::Frames(backend), Some(socket)) = (way, &mut spec.socket) {
        socket.frame_backend = Some(backend);
    }
    let receive = if way == Candidate::Block { Receive::Block } else { Receive::Spin };
    let end = |cpu| EndSpec { receive, policy: arguments.policy, cpu, ..EndSpec::default() };
    // A peer elsewhere has CPUs of its own.
    let (near, far) = (arguments.cpu, arguments.remote_cpu);
    let [first, second] = if arguments.to.is_none() || way == Candidate::Memory { two_cpus() } else { [None; 2] };
    (spec.initiator, spec.reflector) = (end(near.or(first)), end(far.or(second)));
    if way != Candidate::Memory {
        spec.initiator.device = device;
    }
    spec.sizes = SizeList::one(arguments.size);
    spec.warmup.time_ms = WARMUP_MS;
    spec.stop.max_ms = MEASURE_MS;
    spec
}

/// Two CPUs for two ends on this machine; none where there is only one, so that the refusal says so.
fn two_cpus() -> [Option<u32>; 2] {
    let allowed: Vec<u32> = task::allowed_cpus().map(|cpus| cpus.iter().collect()).unwrap_or_default();
    match allowed[..] {
        [first, second, ..] => [Some(first), Some(second)],
        _ => [None; 2],
    }
}

/// Whether each back-end opens, where there is nobody to exchange messages with.
fn open_only(name: &str, rows: &mut Vec<Row>) -> Result<(), Failure> {
    let interface = Interface::read(name).map_err(Failure::usage)?;
    rows.retain(|row| matches!(row.way, Candidate::Frames(_)));
    for row in rows {
        let backend = Backend::ALL.into_iter().find(|backend| backend.word() == row.way.word());
        let opened = backend.map(|backend| Port::open(&interface, backend).map(|_| ()));
        row.why_not = opened.and_then(Result::err).map(|error| error.to_string());
    }
    Ok(())
}

fn no_peer(interface: &str) -> String {
    format!(
        "Latencies need a peer: start 'windhover serve' on a host behind {interface}, and give its address with --to."
    )
}

/// What to use, and why, in one sentence.
fn recommend(rows: &[Row]) -> (Option<Candidate>, String) {
    let of = |way| rows.iter().find(|row| row.way == way);
    let (Some(block), Some(spin)) = (of(Candidate::Block), of(Candidate::Spin)) else { return (None, String::new()) };
    let frames = || rows.iter().filter(|row| matches!(row.way, Candidate::Frames(_)));
    let best = frames().filter_map(|row| Some((row, row.p50_us()?))).min_by(|a, b| a.1.total_cmp(&b.1));
    let share = |ratio: Option<(f64, f64, f64)>| ratio.map_or_else(|| "-".to_owned(), ratio_words);
    let (over_block, over_spin) = (spin.over(block), best.and_then(|(row, _)| row.over(spin)));
    let Some((spin_ratio, _, spin_high)) = over_block else {
        return (None, "No recommendation: too few rounds on the kernel's sockets can be trusted.".to_owned());
    };
    if let (Some((row, _)), Some((_, _, high))) = (best, over_spin)
        && high < 1.0
    {
        let sentence = format!(
            "Use {}: its p50 is {} of a kernel socket's that blocks and {} of one's that spins, for a CPU at each end that never \
             sleeps.",
            row.way.word(),
            share(row.over(block)),
            share(over_spin)
        );
        return (Some(row.way), sentence);
    }
    let beside = match best {
        Some((row, _)) => format!("the p50 of {} is {} of a spinning socket's", row.way.word(), share(over_spin)),
        None if frames().any(Row::opens) => "no way past the kernel has rounds enough that can be trusted".to_owned(),
        None => "no way past the kernel opens".to_owned(),
    };
    if spin_high < 1.0 {
        let sentence = format!(
            "Use kernel sockets that spin ('bypass run --stack spin'): their p50 is {} of blocking ones', without privileges; {beside}.",
            share(over_block)
        );
        return (Some(Candidate::Spin), sentence);
    }
    let sentence = format!(
        "Leave it to the kernel: the p50 of spinning sockets is {spin_ratio:.2} of blocking ones', and {beside}."
    );
    (Some(Candidate::Block), sentence)
}

fn ratio_words((ratio, low, high): (f64, f64, f64)) -> String {
    format!("{ratio:.2} ({low:.2} to {high:.2})")
}

/// The smallest figure with and without a network, beside which others are read.
fn floors(rows: &[Row]) -> String {
    let least = |is: fn(Candidate) -> bool| {
        let p50 = rows.iter().filter(|row| is(row.way)).filter_map(Row::p50_us);
        p50.min_by(f64::total_cmp).map(|us| format!("{us:.3} µs"))
    };
    let shm = least(|way| way == Candidate::Memory).map(|us| format!("{us} between two CPUs (shm)"));
    let frame = least(|way| matches!(way, Candidate::Frames(_))).map(|us| format!("{us} over the interface (frame)"));
    let all: Vec<String> = [shm, frame].into_iter().flatten().collect();
    if all.is_empty() { String::new() } else { format!("The least that this machine allows: {}.", all.join(", ")) }
}

fn text(arguments: &Arguments, place: &str, rows: &[Row], sentence: &str) -> String {
    let mut text = String::new();
    let block = rows.iter().find(|row| row.way == Candidate::Block);
    let cell = |value: Option<f64>, digits: usize| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.digits$}"));
    if let Some(block) = block {
        let rounds = block.rounds.len();
        text.push_str(&paragraph(
            "",
            &format!(
                "{place}: {} bytes, policy {}, {rounds} rounds; medians over the rounds, RTT/2 in µs; ratios to \
                 UDP sockets that block.",
                arguments.size, arguments.policy
            ),
        ));
        let figures = [
            ("p50", "µs"),
            ("p99", "µs"),
            ("p99.9", "µs"),
            ("p50 / blocking", "(95 %)"),
            ("here", "CPU %"),
            ("there", "CPU %"),
        ];
        let columns =
            std::iter::once(Column::words("way")).chain(figures.map(|(name, unit)| Column::figures(name, unit)));
        let row = |row: &Row| {
            vec![
                row.way.name(),
                cell(row.p50_us(), 3),
                cell(row.median(|figures| figures.p99_us), 3),
                cell(row.median(|figures| figures.p99_9_us), 3),
                row.over(block).map_or_else(|| "-".to_owned(), ratio_words),
                cell(row.median(|figures| Some(figures.cpu_percent[0])), 0),
                cell(row.median(|figures| Some(figures.cpu_percent[1])), 0),
            ]
        };
        let rows = rows.iter().filter(|row| row.why_not.is_none()).map(row).collect();
        text.push_str(&Grid { columns: columns.collect(), rows, ..Grid::default() }.text(width()));
        text.push('\n');
    }
    for row in rows {
        let missing = row.rounds.iter().filter(|round| round.is_none()).count();
        let spoilt = || {
            let mut words = row.untrusted.clone();
            words.sort_unstable();
            words.dedup();
            let why = if words.is_empty() { "no figures".to_owned() } else { words.join(", ") };
            let rounds = if missing == 1 { "1 round is".to_owned() } else { format!("{missing} rounds are") };
            format!("{rounds} left out as not to be trusted ({why})")
        };
        let said = match &row.why_not {
            Some(why) => Some(match row.failed_in {
                Some(round) => format!("failed in round {round}: {why}"),
                None => format!("does not open: {why}"),
            }),
            None if block.is_none() => Some("opens".to_owned()),
            None => (missing > 0).then(spoilt),
        };
        if let Some(said) = said {
            text.push_str(&paragraph("", &format!("{}: {said}.", row.way.name())));
        }
    }
    for sentence in [floors(rows).as_str(), sentence] {
        if !sentence.is_empty() {
            text.push_str(&paragraph("", sentence));
        }
    }
    text
}

fn document(arguments: &Arguments, place: &str, rows: &[Row], choice: Option<Candidate>, sentence: &str) -> Value {
    let block = rows.iter().find(|row| row.way == Candidate::Block);
    let ns = |us: Option<f64>| us.map(|us| (us * 1e3).round());
    let row = |row: &Row| {
        let ratio = block.and_then(|block| row.over(block));
        json!({
            "way": row.way.word(),
            "opens": row.opens(),
            "why_not": row.why_not,
            "failed_in_round": row.failed_in,
            "rounds": row.rounds.iter().flatten().count(),
            "untrusted": row.untrusted,
            "p50_ns": ns(row.p50_us()),
            "p99_ns": ns(row.median(|figures| figures.p99_us)),
            "p99_9_ns": ns(row.median(|figures| figures.p99_9_us)),
            "ratio_to_blocking": ratio.map(|(ratio, ..)| ratio),
            "ratio_ci95": ratio.map(|(_, low, high)| [low, high]),
            "cpu_percent": row.median(|figures| Some(figures.cpu_percent[0])),
            "far_cpu_percent": row.median(|figures| Some(figures.cpu_percent[1])),
        })
    };
    json!({
        "interface": arguments.interface,
        "measured_on": place,
        "size": arguments.size,
        "policy": arguments.policy.to_string(),
        "ways": rows.iter().map(row).collect::<Vec<_>>(),
        "recommended": choice.map(Candidate::word),
        "recommendation": sentence,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows with these medians in µs; each round is a little slower than the one before.
    fn rows(medians: &[(Candidate, f64)]) -> Vec<Row> {
        let round =
            |us: f64, round: u32| Some(Figures { p50_us: us * (1.0 + f64::from(round) / 50.0), ..Figures::default() });
        let row =
            |(way, us): &(Candidate, f64)| Row { rounds: (0..5).map(|n| round(*us, n)).collect(), ..Row::new(*way) };
        medians.iter().map(row).collect()
    }

    const NATIVE: Candidate = Candidate::Frames(FrameBackend::Native);
    const GENERIC: Candidate = Candidate::Frames(FrameBackend::Generic);

    #[test]
    fn what_is_recommended_is_the_fastest_that_is_surely_faster_than_spinning() {
        for (medians, choice, words) in [
            (
                &[(Candidate::Block, 5.6), (Candidate::Spin, 2.0), (NATIVE, 1.5), (GENERIC, 1.1)][..],
                GENERIC,
                "0.20 (0.20 to 0.20)",
            ),
            (
                &[(Candidate::Block, 5.6), (Candidate::Spin, 2.0), (NATIVE, 2.3)],
                Candidate::Spin,
                "the p50 of native is 1.15",
            ),
            (&[(Candidate::Block, 5.6), (Candidate::Spin, 2.0)], Candidate::Spin, "no way past the kernel opens"),
            (
                &[(Candidate::Block, 5.6), (Candidate::Spin, 5.7), (NATIVE, 6.0)],
                Candidate::Block,
                "Leave it to the kernel",
            ),
        ] {
            let (chosen, sentence) = recommend(&rows(medians));
            assert_eq!(chosen, Some(choice), "{sentence}");
            assert!(sentence.contains(words), "{sentence}");
        }
        let mut uncertain = rows(&[(Candidate::Block, 5.6), (Candidate::Spin, 2.0), (GENERIC, 1.9)]);
        uncertain[2].rounds[4] = Some(Figures { p50_us: 9.0, ..Figures::default() });
        assert_eq!(recommend(&uncertain).0, Some(Candidate::Spin), "an interval that holds 1 is no gain");
        uncertain[0].rounds[..3].fill(None);
        assert_eq!(recommend(&uncertain).0, None, "two rounds are too few");
    }

    /// Catches: a way that is recommended, or a floor, by the rounds before it failed.
    #[test]
    fn a_way_that_fails_is_not_recommended() {
        let mut rows = rows(&[(Candidate::Block, 5.6), (Candidate::Spin, 2.0), (GENERIC, 1.1), (NATIVE, 1.5)]);
        assert_eq!(recommend(&rows).0, Some(GENERIC));
        rows[2].fail("the interface is gone".to_owned());
        assert_eq!(recommend(&rows).0, Some(NATIVE));
        assert!(floors(&rows).contains("1.560 µs over"), "{}", floors(&rows));
        rows[3].fail("as well".to_owned());
        let (chosen, sentence) = recommend(&rows);
        assert_eq!(chosen, Some(Candidate::Spin));
        assert!(sentence.contains("has rounds enough"), "{sentence}");
        assert_eq!((rows[2].failed_in, rows[2].opens()), (Some(6), true));
        let mut never = Row::new(NATIVE);
        never.fail("no XDP".to_owned());
        assert_eq!((never.failed_in, never.opens()), (None, false));
    }

    /// Catches: rounds that are left out without a reason, which a busy machine makes: few messages come back in their time.
    #[test]
    fn a_round_without_figures_says_why() {
        let text = include_str!("../../tests/golden/two/cells/0001.json");
        let mut result: ResultDocument = serde_json::from_str(text).unwrap();
        (result.verdict.trusted, result.verdict.invalid) = (true, Vec::new());
        let mut row = Row::new(Candidate::Spin);
        row.add(&result);
        assert!(row.rounds[0].is_some() && row.untrusted.is_empty(), "{row:?}");
        result.latency.as_mut().unwrap().p50_ns = None;
        row.add(&result);
        assert!(row.rounds[1].is_none(), "{row:?}");
        assert_eq!(row.untrusted, ["few-samples"]);
    }

    #[test]
    fn floors_are_the_least_of_their_kind() {
        let text = floors(&rows(&[(Candidate::Block, 5.0), (NATIVE, 1.5), (GENERIC, 1.1), (Candidate::Memory, 0.1)]));
        assert!(text.contains("0.104 µs between") && text.contains("1.144 µs over"), "{text}");
        assert_eq!(floors(&rows(&[(Candidate::Block, 5.0)])), "");
    }
}
