//! What each way past the kernel is worth on an interface: measured in interleaved rounds beside the kernel's own sockets,
//! and judged.

use model::{
    EndSpec, EndUsage, FindingId, FrameBackend, Policy, Probe, ProbeSpec, Protocol, Receive, ResultDocument, Role,
    SizeList,
};
use stats::{Judgement, Ratio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use xsk::{Backend, Interface, Port, XskError};

/// Fewer pairs of figures say nothing of a ratio.
const FEWEST_ROUNDS: usize = 3;
/// Time measured of each way in a round, after a warm-up.
const MEASURE_MS: u32 = 150;
const WARMUP_MS: u32 = 30;

/// One way for a message to the peer and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Candidate {
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
    /// Every one, the one that the others are compared with first.
    pub fn all() -> impl Iterator<Item = Self> {
        let frames = FrameBackend::ALL.into_iter().map(Self::Frames);
        [Self::Block, Self::Spin].into_iter().chain(frames).chain([Self::Memory])
    }

    pub fn name(self) -> String {
        match self {
            Self::Block => "kernel UDP, block".to_owned(),
            Self::Spin => "kernel UDP, spin".to_owned(),
            Self::Frames(backend) => format!("frame, {backend}"),
            Self::Memory => "shm (no network)".to_owned(),
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Block => "kernel-block",
            Self::Spin => "kernel-spin",
            Self::Frames(backend) => backend.word(),
            Self::Memory => "shm",
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RoundFigures {
    /// RTT/2.
    pub p50_us: f64,
    /// Absent where the round has too few messages for it.
    pub p99_us: Option<f64>,
    /// Likewise.
    pub p99_9_us: Option<f64>,
    /// CPU time of each end, in percent of one CPU.
    pub cpu_percent: [f64; 2],
}

impl RoundFigures {
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

#[derive(Debug)]
pub struct WayRounds {
    pub way: Candidate,
    /// A round that could not be trusted has none.
    pub rounds: Vec<Option<RoundFigures>>,
    /// Why it does not open; of the interface alone when nothing is measured.
    pub why_not: Option<String>,
    /// The round, from 1, that ended it: it did open.
    pub failed_in: Option<usize>,
    /// Words of what made rounds untrusted.
    pub untrusted: Vec<String>,
}

impl WayRounds {
    fn new(way: Candidate) -> Self {
        Self { way, rounds: Vec::new(), why_not: None, failed_in: None, untrusted: Vec::new() }
    }

    /// Adds a round. One without figures says why.
    fn add(&mut self, result: &ResultDocument) {
        let figures = RoundFigures::of(result);
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

    /// Whether it opened, also where a later round failed.
    pub fn opens(&self) -> bool {
        self.why_not.is_none() || self.failed_in.is_some()
    }

    /// The median over the rounds, where at least three have it.
    pub fn median(&self, of: fn(&RoundFigures) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.rounds.iter().flatten().filter_map(of).collect();
        (values.len() >= FEWEST_ROUNDS).then(|| stats::median(&values))
    }

    pub fn p50_us(&self) -> Option<f64> {
        self.median(|figures| Some(figures.p50_us))
    }

    /// Its p50 over the other's with the 95 % interval, of the rounds that have both.
    pub fn over(&self, other: &Self) -> Option<Ratio> {
        let pairs = self.rounds.iter().zip(&other.rounds);
        let (own, others): (Vec<f64>, Vec<f64>) = pairs.filter_map(|(a, b)| Some(((*a)?.p50_us, (*b)?.p50_us))).unzip();
        (own.len() >= FEWEST_ROUNDS).then(|| stats::ratio(&own, &others))
    }
}

#[derive(Debug, Clone)]
pub struct WaySettings {
    /// Message size in bytes.
    pub size: u32,
    /// Scheduling policy of both ends.
    pub policy: Policy,
    /// CPUs of this end and of the far one.
    pub cpus: [Option<u32>; 2],
    /// Whether both ends are on this machine and need CPUs of their own.
    pub one_machine: bool,
    /// What the data path is bound to.
    pub device: Option<String>,
    /// No round begins later than so long after the start; at least three are measured.
    pub duration: Duration,
}

impl WaySettings {
    /// What one round of a way measures.
    pub fn spec(&self, way: Candidate) -> ProbeSpec {
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
        let end = |cpu| EndSpec { receive, policy: self.policy, cpu, ..EndSpec::default() };
        // A peer elsewhere has CPUs of its own.
        let free = if self.one_machine || way == Candidate::Memory { two_cpus() } else { [None; 2] };
        let [near, far] = [0, 1].map(|at| self.cpus[at].or(free[at]));
        (spec.initiator, spec.reflector) = (end(near), end(far));
        if way != Candidate::Memory {
            spec.initiator.device.clone_from(&self.device);
        }
        spec.sizes = SizeList::one(self.size);
        spec.warmup.time_ms = WARMUP_MS;
        spec.stop.max_ms = MEASURE_MS;
        spec
    }
}

/// Two CPUs for two ends on this machine; none where there is only one, so that the refusal says so.
fn two_cpus() -> [Option<u32>; 2] {
    let allowed: Vec<u32> = task::allowed_cpus().map(|cpus| cpus.iter().collect()).unwrap_or_default();
    match allowed[..] {
        [first, second, ..] => [Some(first), Some(second)],
        _ => [None; 2],
    }
}

/// Measures all ways that open in rounds, each in another order, until the time is used up or `stop` is set. `once` measures one round
/// of a way; `words` tells its failure. Errors: the failure of a kernel's socket, which the others are compared with; that of another
/// way is in its rounds.
pub fn measure_ways<E>(
    settings: &WaySettings,
    stop: &AtomicBool,
    mut once: impl FnMut(ProbeSpec) -> Result<ResultDocument, E>,
    words: impl Fn(&E) -> String,
) -> Result<Vec<WayRounds>, E> {
    let mut rows: Vec<WayRounds> = Candidate::all().map(WayRounds::new).collect();
    let began = Instant::now();
    let ways = rows.len();
    for round in 0.. {
        if stop.load(Ordering::Relaxed) || (round >= FEWEST_ROUNDS && began.elapsed() >= settings.duration) {
            break;
        }
        for way in stats::turns(ways, round) {
            let row = &mut rows[way];
            if stop.load(Ordering::Relaxed) {
                break;
            }
            if row.why_not.is_some() {
                row.rounds.push(None);
                continue;
            }
            match once(settings.spec(row.way)) {
                Ok(result) => row.add(&result),
                Err(_) if stop.load(Ordering::Relaxed) => {}
                Err(failure) if matches!(row.way, Candidate::Block | Candidate::Spin) => return Err(failure),
                Err(failure) => row.fail(words(&failure)),
            }
        }
    }
    // Only whole rounds can be compared.
    let whole = rows.iter().map(|row| row.rounds.len()).min().unwrap_or(0);
    rows.iter_mut().for_each(|row| row.rounds.truncate(whole));
    Ok(rows)
}

/// Whether each back-end opens on an interface behind which there is nobody to exchange messages with. Errors: there is no such
/// interface.
pub fn open_ways(interface: &str) -> Result<Vec<WayRounds>, XskError> {
    let interface = Interface::read(interface)?;
    let row = |backend: Backend| {
        let way = FrameBackend::ALL.into_iter().find(|known| known.word() == backend.word()).map(Candidate::Frames)?;
        let why_not = Port::open(&interface, backend).err().map(|error| error.to_string());
        Some(WayRounds { why_not, ..WayRounds::new(way) })
    };
    Ok(Backend::ALL.into_iter().filter_map(row).collect())
}

/// What to use, and why, in one sentence.
pub fn recommend_way(rows: &[WayRounds]) -> (Option<Candidate>, String) {
    let of = |way| rows.iter().find(|row| row.way == way);
    let (Some(block), Some(spin)) = (of(Candidate::Block), of(Candidate::Spin)) else { return (None, String::new()) };
    let frames = || rows.iter().filter(|row| matches!(row.way, Candidate::Frames(_)));
    let best = frames().filter_map(|row| Some((row, row.p50_us()?))).min_by(|a, b| a.1.total_cmp(&b.1));
    let share = |ratio: Option<Ratio>| ratio.map_or_else(|| "-".to_owned(), |ratio| ratio.to_string());
    let is_lower = |ratio: Ratio| ratio.judge() == Judgement::Lower;
    let (over_block, over_spin) = (spin.over(block), best.and_then(|(row, _)| row.over(spin)));
    let Some(spin_ratio) = over_block else {
        return (None, "No recommendation: too few rounds on the kernel's sockets can be trusted.".to_owned());
    };
    if let Some((row, _)) = best.filter(|_| over_spin.is_some_and(is_lower)) {
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
        None if frames().any(WayRounds::opens) => {
            "no way past the kernel has rounds enough that can be trusted".to_owned()
        }
        None => "no way past the kernel opens".to_owned(),
    };
    if is_lower(spin_ratio) {
        let sentence = format!(
            "Use kernel sockets that spin ('bypass run --stack spin'): their p50 is {} of blocking ones', without privileges; {beside}.",
            share(over_block)
        );
        return (Some(Candidate::Spin), sentence);
    }
    let sentence = format!(
        "Leave it to the kernel: the p50 of spinning sockets is {:.2} of blocking ones', and {beside}.",
        spin_ratio.typical
    );
    (Some(Candidate::Block), sentence)
}

/// The smallest figure with and without a network, that others are read against; empty without any.
pub fn floors(rows: &[WayRounds]) -> String {
    let least = |is: fn(Candidate) -> bool| {
        let p50 = rows.iter().filter(|row| is(row.way)).filter_map(WayRounds::p50_us);
        p50.min_by(f64::total_cmp).map(|us| format!("{us:.3} µs"))
    };
    let shm = least(|way| way == Candidate::Memory).map(|us| format!("{us} between two CPUs (shm)"));
    let frame = least(|way| matches!(way, Candidate::Frames(_))).map(|us| format!("{us} over the interface (frame)"));
    let all: Vec<String> = [shm, frame].into_iter().flatten().collect();
    if all.is_empty() { String::new() } else { format!("The least that this machine allows: {}.", all.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows with these medians in µs; each round is a little slower than the one before.
    fn rows(medians: &[(Candidate, f64)]) -> Vec<WayRounds> {
        let round = |us: f64, round: u32| {
            Some(RoundFigures { p50_us: us * (1.0 + f64::from(round) / 50.0), ..RoundFigures::default() })
        };
        let row = |(way, us): &(Candidate, f64)| WayRounds {
            rounds: (0..5).map(|n| round(*us, n)).collect(),
            ..WayRounds::new(*way)
        };
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
            let (chosen, sentence) = recommend_way(&rows(medians));
            assert_eq!(chosen, Some(choice), "{sentence}");
            assert!(sentence.contains(words), "{sentence}");
        }
        let mut uncertain = rows(&[(Candidate::Block, 5.6), (Candidate::Spin, 2.0), (GENERIC, 1.9)]);
        uncertain[2].rounds[4] = Some(RoundFigures { p50_us: 9.0, ..RoundFigures::default() });
        assert_eq!(recommend_way(&uncertain).0, Some(Candidate::Spin), "an interval that holds 1 is no gain");
        uncertain[0].rounds[..3].fill(None);
        assert_eq!(recommend_way(&uncertain).0, None, "two rounds are too few");
    }

    /// Catches: a way that is recommended, or a floor, by the rounds before it failed.
    #[test]
    fn a_way_that_fails_is_not_recommended() {
        let mut rows = rows(&[(Candidate::Block, 5.6), (Candidate::Spin, 2.0), (GENERIC, 1.1), (NATIVE, 1.5)]);
        assert_eq!(recommend_way(&rows).0, Some(GENERIC));
        rows[2].fail("the interface is gone".to_owned());
        assert_eq!(recommend_way(&rows).0, Some(NATIVE));
        assert!(floors(&rows).contains("1.560 µs over"), "{}", floors(&rows));
        rows[3].fail("as well".to_owned());
        let (chosen, sentence) = recommend_way(&rows);
        assert_eq!(chosen, Some(Candidate::Spin));
        assert!(sentence.contains("has rounds enough"), "{sentence}");
        assert_eq!((rows[2].failed_in, rows[2].opens()), (Some(6), true));
        let mut never = WayRounds::new(NATIVE);
        never.fail("no XDP".to_owned());
        assert_eq!((never.failed_in, never.opens()), (None, false));
    }

    /// Catches: rounds that are left out without a reason, which a busy machine makes: few messages come back in their time.
    #[test]
    fn a_round_without_figures_says_why() {
        let text = include_str!("../../windhover/tests/golden/two/cells/0001.json");
        let mut result: ResultDocument = serde_json::from_str(text).unwrap();
        (result.verdict.trusted, result.verdict.invalid) = (true, Vec::new());
        let mut row = WayRounds::new(Candidate::Spin);
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
