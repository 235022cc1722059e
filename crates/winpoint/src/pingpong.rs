//! The closed loop: one message there and back at a time.

use crate::client::Peer;
use crate::data::Received;
use crate::document::{self, PassFacts, PassSize};
use crate::{Task, WinpointError, platform};
use model::worker::Measured;
use model::{ProbeSpec, Sample, SampleFlags};
use record::{Recorder, RecorderConfig};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use wire::Tier;
use wire::data::{expand, read, write};

/// Samples that are taken before they are recorded; the round after that is not timed.
const BATCH: usize = 1024;
/// Lost rounds that are remembered, so that their late answers are known.
const REMEMBERED: usize = 1024;
/// So many rounds without an answer, and for so long, and the other end counts as gone.
const SILENT_ROUNDS: u64 = 10;
const SILENT: Duration = Duration::from_secs(5);

pub(crate) fn measure(task: &Task, give: &mut dyn FnMut(Measured)) -> Result<(), WinpointError> {
    let spec = &task.spec;
    if let Some(what) = not_here(spec) {
        return Err(WinpointError::Conflict { what: format!("winpoint has no {what}"), remedy: "leave it out" });
    }
    let mut peer = Peer::open(task, spec.initiator.receive)?;
    let mut number = 1;
    for size in spec.sizes.iter() {
        peer.start(size)?;
        let mut rounds = Rounds::new(spec, size, &peer, number);
        let config = RecorderConfig {
            outliers: spec.outliers,
            has_header: rounds.tier != Tier::Nothing,
            ..RecorderConfig::new(platform::tick_rate(), spec.probe().latency_kind(spec.rtt), spec.stop.max_ms)
        };
        let mut recorder = Recorder::new(config);
        let unsent = peer.data.unsent();
        let broken = rounds.run(spec, &mut peer, &mut recorder);
        number = rounds.number;
        let (report, broken) = peer.stop(broken);
        let recorded = recorder.finish(None);
        let (started_ns, counters) = (rounds.started_ns, peer.data.counters_since(unsent));
        let seen = PassFacts { started_ns, report, vanished: broken.clone(), counters, ..PassFacts::default() };
        give(document::assemble(task, &peer, PassSize { size, rate: None }, recorded, seen));
        if let Some(why) = broken {
            return Err(WinpointError::Vanished { size, why });
        }
    }
    peer.close();
    Ok(())
}

/// Least distance that avoids drops at the limit (a time-out each); 0 if rounds cannot reach the limit.
fn min_gap_ns(max_rate_pps: u32) -> u64 {
    const BEYOND_REACH: u32 = 1_000_000;
    if max_rate_pps >= BEYOND_REACH { 0 } else { 1_000_000_000 / u64::from(max_rate_pps.max(1)) + 1000 }
}

fn not_here(spec: &ProbeSpec) -> Option<&'static str> {
    [
        (spec.pings != 1 || spec.pongs != 1, "rounds of several messages"),
        (spec.gap != model::Gap::default() || spec.interval_us.is_some(), "pauses between rounds"),
        (spec.stop.interval_percent.is_some(), "stop rule by the interval of the median"),
        (spec.raw, "raw samples"),
    ]
    .into_iter()
    .find_map(|(asked, what)| asked.then_some(what))
}

struct Rounds {
    size: usize,
    tier: Tier,
    tag: u64,
    timeout: u64,
    /// Least time between two rounds, so that the reflector's limit of messages a second is kept, and when the last one was sent.
    gap: u64,
    last_sent: u64,
    number: u64,
    first_number: u64,
    out: Vec<u8>,
    input: Vec<u8>,
    samples: Vec<Sample>,
    lost: VecDeque<u64>,
    /// Wall clock at the first timed round, since 1970.
    started_ns: u64,
    /// Rounds without an answer in a row, and since when.
    silent: Option<(u64, Instant)>,
}

impl Rounds {
    fn new(spec: &ProbeSpec, size: u32, peer: &Peer, number: u64) -> Self {
        let size = size as usize;
        Self {
            size,
            tier: Tier::for_exchange(size, size),
            tag: peer.tag,
            timeout: platform::tick_rate().ticks(u64::from(spec.timeout_ms) * 1_000_000),
            gap: platform::tick_rate().ticks(min_gap_ns(peer.max_rate_pps)),
            last_sent: 0,
            number,
            first_number: number,
            out: vec![0x5a; size],
            input: vec![0x5a; size + 1],
            samples: Vec::with_capacity(2 * BATCH),
            lost: VecDeque::with_capacity(REMEMBERED),
            started_ns: 0,
            silent: None,
        }
    }

    /// Warms up and measures; gives how the path broke, if it did.
    fn run(&mut self, spec: &ProbeSpec, peer: &mut Peer, recorder: &mut Recorder) -> Option<String> {
        let began = Instant::now();
        let warm = Duration::from_millis(spec.warmup.time_ms.into());
        // A count that losses draw out is given up after ten times the time.
        let longest = (warm * 10).max(Duration::from_secs(1));
        let mut count = 0;
        while (began.elapsed() < warm || count < spec.warmup.count) && began.elapsed() < longest {
            if let Some(broken) = self.round(peer, SampleFlags::WARMUP) {
                return Some(broken);
            }
            count += 1;
        }
        self.samples.clear();
        self.first_number = self.number;
        self.started_ns = document::now_ns();
        let (began, limit) = (Instant::now(), Duration::from_millis(spec.stop.max_ms.into()));
        let mut timed = 0;
        while timed < spec.stop.max_count && began.elapsed() < limit {
            let flags = if self.samples.len() >= BATCH {
                recorder.ingest(&self.samples);
                self.samples.clear();
                SampleFlags::WARMUP
            } else {
                timed += 1;
                SampleFlags::default()
            };
            if let Some(broken) = self.round(peer, flags) {
                recorder.ingest(&self.samples);
                return Some(broken);
            }
        }
        recorder.ingest(&self.samples);
        None
    }

    /// One round; gives why the other end counts as gone, if it does.
    fn round(&mut self, peer: &mut Peer, flags: SampleFlags) -> Option<String> {
        let number = self.number;
        self.number += 1;
        write(number, self.tag, &mut self.out);
        while platform::ticks().saturating_sub(self.last_sent) < self.gap {
            std::hint::spin_loop();
        }
        let sent = platform::ticks();
        self.last_sent = sent;
        if let Err(error) = peer.data.send(&self.out) {
            return Some(format!("the data path broke: {error}"));
        }
        let (received, answered) = loop {
            let got = match peer.data.receive(&mut self.input, self.size) {
                Ok(got) => got,
                Err(error) => return Some(format!("the data path broke: {error}")),
            };
            let now = platform::ticks();
            if let Received::Bytes(bytes) = got
                && bytes == self.size
                && self.is_answer(number)
            {
                break (now, true);
            }
            if now.saturating_sub(sent) > self.timeout {
                break (now, false);
            }
        };
        let seq = number - self.first_number.min(number);
        let flags = if answered { flags } else { flags.with(SampleFlags::LOST) };
        self.samples.push(Sample { seq, intended: sent, sent, received, flags, ..Sample::default() });
        if answered {
            self.silent = None;
            return None;
        }
        if self.lost.len() == REMEMBERED {
            self.lost.pop_front();
        }
        self.lost.push_back(number);
        let (rounds, since) = self.silent.unwrap_or_else(|| (0, Instant::now()));
        self.silent = Some((rounds + 1, since));
        let gone = peer.data.is_stream() || rounds + 1 >= SILENT_ROUNDS && since.elapsed() >= SILENT;
        gone.then(|| "nothing came back any more".to_owned())
    }

    /// Whether what came answers this round. Late and double answers become samples of their own.
    fn is_answer(&mut self, number: u64) -> bool {
        let message = self.input.get(..self.size).unwrap_or_default();
        if self.tier == Tier::Nothing {
            return true;
        }
        let Some(kept) = read(self.tier, self.tag, message) else { return false };
        let found = expand(self.tier, kept, number);
        if found == number {
            return true;
        }
        let late = self.lost.iter().position(|lost| *lost == found);
        let flags = if late.is_some() { SampleFlags::LATE } else { SampleFlags::DUPLICATE };
        if let Some(at) = late {
            self.lost.remove(at);
        }
        // Those of the size before, and of the warm-up, are nobody's.
        if found >= self.first_number && found < number {
            let now = platform::ticks();
            let seq = found - self.first_number;
            self.samples.push(Sample { seq, intended: now, sent: now, received: now, flags, ..Sample::default() });
        }
        false
    }
}
