//! The open loop. The sender spins, as sleeps of Windows end a tick late; a second thread takes blocking receives.

use crate::client::Peer;
use crate::data::{DataPath, Received, Sending};
use crate::document::{self, PassFacts, PassSize};
use crate::error::data;
use crate::{Task, WinpointError, platform};
use model::worker::Measured;
use model::{
    Counters, Event, LatencyKind, PacedSample, Pacer, PgmEnd, ProbeSpec, Receive, Repaired, Role, Sample, SampleFlags,
    Shape,
};
use record::{
    Delivered, Paced, PacedConfig, RateEvidence, Recorded, RemoteEnd, RepairNote, SenderCounts, lost_for_good,
};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use wire::data::{PACED_BYTES, read, read_repaired, write, write_repaired};
use wire::{FarRepair, PgmFarEnd, StopReport, Tier};

/// Messages of one rate at most: their times are kept until its end.
const MOST: u64 = 20_000_000;
/// Second answers of a message that find room.
const COPIES: usize = 4096;
/// Answers that are taken between two looks at the schedule.
const ANSWERS: u32 = 16;

pub(crate) fn measure(task: &Task, give: &mut dyn FnMut(Measured)) -> Result<(), WinpointError> {
    let spec = &task.spec;
    let pace = spec.pace().cloned().unwrap_or_default();
    let even = pace.shape == Shape::Even && pace.random_delay_percent.is_none() && pace.every == 1;
    if !even || pace.pacer != Pacer::Spin {
        let what = "winpoint has even rates only, and a sender that spins".to_owned();
        return Err(WinpointError::Conflict { what, remedy: "leave shape and pacer out" });
    }
    let least = u32::try_from(PACED_BYTES).unwrap_or(u32::MAX);
    if spec.sizes.iter().any(|size| size < least) {
        let what = format!("a message at a rate carries its number, which needs {least} bytes");
        return Err(WinpointError::Conflict { what, remedy: "use larger sizes" });
    }
    let receive = spec.initiator.receive;
    let mut peer = Peer::open(task, if receive == Receive::Spin { receive } else { Receive::Block })?;
    let mut receiving = None;
    if receive != Receive::Spin {
        let half = peer.data.receiving_half().and_then(|mut half| {
            half.wait_by(receive, spec.socket.as_ref().is_none_or(|socket| socket.nodelay)).map(|()| half)
        });
        receiving = Some(half.map_err(data("setting up the receiving thread"))?);
    }
    let mut number = 0;
    for size in spec.sizes.iter() {
        let mut before = None;
        for &rate in &pace.rates_pps {
            let open = |ms, most| OpenLoop::new(spec, size, (rate, ms, most), peer.tag);
            let (mut warm, mut timed) =
                (open(spec.warmup.time_ms, u64::MAX)?, open(spec.stop.max_ms, spec.stop.max_count)?);
            // An end whose warm-up broke has no figures.
            if let Some(why) = phase(&mut peer, receiving.as_mut(), &mut warm, &mut number)?.broken {
                return Err(WinpointError::Vanished { size, why });
            }
            let Phase { report, broken, near, mut events, counters } =
                phase(&mut peer, receiving.as_mut(), &mut timed, &mut number)?;
            let far = report.as_ref().and_then(|report| report.pgm.as_ref());
            // The reflector's ticks are its own.
            events.extend(far.iter().flat_map(|far| far.lost(Some(Role::Reflector.to_string()), |_| None)));
            events.sort_by_key(|event| event.at_ns);
            let started_ns = timed.sender.started_ns;
            let mut recorded = timed.recorded(spec, rate, [near.as_ref(), far]);
            judge(&mut recorded, &counters, report.as_ref(), before);
            before = Delivered::of(&recorded);
            let saturated = recorded.pace.as_ref().is_some_and(|pace| pace.rate.saturated.is_some());
            let vanished = broken.clone();
            let mut seen = PassFacts { started_ns, report, vanished, counters, ..PassFacts::default() };
            if let (Some(near), Some(pgm)) = (&near, &spec.socket()?.pgm) {
                let ends = ends(near, seen.report.as_ref());
                seen.found.extend(ends.iter().filter_map(|end| lost_for_good(pgm, end, false)));
                let repairs = recorded.pace.as_mut().and_then(|pace| pace.repairs.take()).unwrap_or_default();
                seen.pgm = Some(repairs.report(pgm, ends));
            }
            let measured = document::assemble(task, &peer, PassSize { size, rate: Some(rate) }, recorded, seen);
            give(Measured { events, ..measured });
            if let Some(why) = broken {
                return Err(WinpointError::Vanished { size, why });
            }
            // Higher rates of the same size would show nothing new.
            if saturated && !pace.beyond_saturation {
                break;
            }
        }
    }
    peer.close();
    Ok(())
}

/// What came of a phase: the reflector's report, how the path broke if it did, and what PGM did at this end.
struct Phase {
    report: Option<StopReport>,
    broken: Option<String>,
    near: Option<PgmFarEnd>,
    /// What PGM did at this end, one by one.
    events: Vec<Event>,
    counters: Counters,
}

/// Starts a phase at the reflector, sends and receives, and takes the report. `number`: of the next message on the wire. Numbers
/// go on from phase to phase, so that a straggler of one is none of the next one's.
fn phase(
    peer: &mut Peer,
    receiving: Option<&mut DataPath>,
    open: &mut OpenLoop,
    number: &mut u64,
) -> Result<Phase, WinpointError> {
    peer.start(u32::try_from(open.answers.size).unwrap_or(u32::MAX))?;
    (open.sender.first_number, open.answers.first_number) = (*number, *number);
    let unsent = peer.data.unsent();
    let counted = peer.data.conversation().map(|(end, _)| end.begin(&mut open.answers.input));
    let broken = open.run(&mut peer.data, receiving).err().map(|error| format!("the data path broke: {error}"));
    *number += open.sender.sent.len() as u64;
    let (report, broken) = peer.stop(broken);
    let end = counted.and_then(|counted| Some((peer.data.conversation()?.0, counted)));
    let begin = open.sender.sent.first().map_or(u64::MAX, |first| first.intended);
    let (near, events) = end.map(|(end, counted)| (end.end(&counted), end.events(begin))).unzip();
    let events = events.unwrap_or_default();
    Ok(Phase { report, broken, near, events, counters: peer.data.counters_since(unsent) })
}

fn ends(near: &PgmFarEnd, report: Option<&StopReport>) -> Vec<PgmEnd> {
    let far = report.and_then(|report| report.pgm.as_ref());
    // There are two ends, so each NAK that came is the other one's.
    let end = |role: Role, own: Option<&PgmFarEnd>, other: Option<&PgmFarEnd>| PgmEnd {
        host: role.to_string(),
        counts: own.map(|end| end.counts).unwrap_or_default(),
        naks_heard: other.map(|end| end.counts.naks_received),
    };
    vec![end(Role::Initiator, Some(near), far), end(Role::Reflector, far, Some(near))]
}

#[derive(Debug, Clone, Copy)]
struct Message {
    intended: u64,
    sent: u64,
}

#[derive(Debug, Clone, Copy)]
struct Answer {
    number: u64,
    received: u64,
    out: Repaired,
    back: Repaired,
}

struct Answers {
    size: usize,
    tag: u64,
    first_number: u64,
    count: u64,
    /// Whether answers say what repairs cost their messages.
    repairs: bool,
    input: Vec<u8>,
    all: Vec<Answer>,
    /// Which messages have an answer, a bit each.
    answered: Vec<u64>,
}

impl Answers {
    /// Takes a message, if one came: whether it is the first answer to one of ours.
    fn take(&mut self, path: &mut DataPath) -> io::Result<Option<bool>> {
        let Received::Bytes(bytes) = path.receive(&mut self.input, self.size)? else { return Ok(None) };
        let received = platform::ticks();
        let message = self.input.get(..self.size).unwrap_or_default();
        // Longer and shorter datagrams are strangers'.
        let found = (bytes == self.size).then(|| read(Tier::for_size(self.size), self.tag, message)).flatten();
        let number = found.and_then(|found| found.checked_sub(self.first_number)).unwrap_or(u64::MAX);
        let word = usize::try_from(number / 64).ok().and_then(|at| self.answered.get_mut(at));
        let Some(word) = word.filter(|_| number < self.count) else { return Ok(Some(false)) };
        let bit = 1 << (number % 64);
        let is_first = *word & bit == 0;
        *word |= bit;
        // Copies for which there is no room are a flood.
        if self.all.len() < self.all.capacity() {
            let out = if self.repairs { read_repaired(message) } else { Repaired::default() };
            self.all.push(Answer { number, received, out, back: path.repaired() });
        }
        Ok(Some(is_first))
    }
}

struct Sender {
    period_ns: f64,
    count: u64,
    timeout: u64,
    first_number: u64,
    tag: u64,
    out: Vec<u8>,
    sent: Vec<Message>,
    first: u64,
    last_send: u64,
    /// How much of the newest message the socket has taken, while it is not all.
    sending: Option<Sending>,
    /// Wall clock at the first message, since 1970.
    started_ns: u64,
}

impl Sender {
    /// When message `number` is due, in ticks after the first; roundings do not add up.
    fn offset(&self, number: u64) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; `as` saturates")]
        let ns = (number as f64 * self.period_ns) as u64;
        platform::tick_rate().ticks(ns)
    }

    /// Sends what is due, as far as the socket takes it: the reflector may wait for reads. Whether all is sent.
    fn step(&mut self, path: &mut DataPath) -> io::Result<bool> {
        let number = self.sent.len() as u64;
        if self.sending.is_none() {
            if number == self.count {
                return Ok(true);
            }
            let intended = self.first + self.offset(number);
            if platform::ticks() >= intended {
                write(self.first_number + number, self.tag, &mut self.out);
                let sent = platform::ticks();
                self.sent.push(Message { intended, sent });
                self.sending = Some(Sending::new());
                self.last_send = sent;
            }
        }
        if let Some(some) = &mut self.sending
            && path.send_some(&self.out, some)?
        {
            self.sending = None;
        }
        Ok(false)
    }

    fn is_over(&self, answered: u64) -> bool {
        answered == self.count || platform::ticks().saturating_sub(self.last_send) > self.timeout
    }
}

struct OpenLoop {
    sender: Sender,
    answers: Answers,
}

impl OpenLoop {
    /// Messages of `size` at `rate` for `ms`, and no more than `most`.
    fn new(spec: &ProbeSpec, size: u32, (rate, ms, most): (f64, u32, u64), tag: u64) -> Result<Self, WinpointError> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; `as` saturates")]
        let count = ((f64::from(ms) / 1e3 * rate).ceil() as u64).min(most);
        if count > MOST {
            let what = format!("{count} messages of one rate are more than the {MOST} that are kept");
            return Err(WinpointError::Conflict { what, remedy: "measure for a shorter time" });
        }
        let room = usize::try_from(count).unwrap_or(0);
        // Written to, so that each page is really there.
        let mut sent = vec![Message { intended: 1, sent: 1 }; room];
        sent.clear();
        let nothing = Answer { number: 1, received: 1, out: Repaired::default(), back: Repaired::default() };
        let mut all = vec![nothing; room + COPIES];
        all.clear();
        let repairs = spec.protocol() == Some(model::Protocol::Pgm);
        let mut out = vec![0x5a; size as usize];
        if repairs {
            write_repaired(Repaired::default(), &mut out);
        }
        let size = size as usize;
        let (input, answered) = (vec![0x5a; size + 1], vec![0; room.div_ceil(64)]);
        Ok(Self {
            sender: Sender {
                period_ns: 1e9 / rate,
                count,
                timeout: platform::tick_rate().ticks(u64::from(spec.timeout_ms) * 1_000_000),
                first_number: 0,
                tag,
                out,
                sent,
                first: 0,
                last_send: 0,
                sending: None,
                started_ns: 0,
            },
            answers: Answers { size, tag, first_number: 0, count, repairs, input, all, answered },
        })
    }

    /// Sends all messages and waits for the last answers. With `receiving` a second thread takes them.
    fn run(&mut self, path: &mut DataPath, receiving: Option<&mut DataPath>) -> io::Result<()> {
        let Self { sender, answers } = self;
        sender.started_ns = document::now_ns();
        // The first is due in a moment, so that it is not late by what comes before it.
        sender.first = platform::ticks() + platform::tick_rate().ticks(1_000_000);
        sender.last_send = sender.first;
        let Some(receiving) = receiving else {
            let mut answered = 0;
            while !(sender.step(path)? && sender.is_over(answered)) {
                for _ in 0..ANSWERS {
                    let Some(is_first) = answers.take(path)? else { break };
                    answered += u64::from(is_first);
                }
            }
            return Ok(());
        };
        let (halt, answered) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                while !halt.load(Ordering::Relaxed) {
                    if answers.take(receiving)? == Some(true) {
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Ok(())
            });
            let sent = loop {
                match sender.step(path) {
                    Ok(all) if receiver.is_finished() || all && sender.is_over(answered.load(Ordering::Relaxed)) => {
                        break Ok(());
                    }
                    Ok(true) => std::thread::sleep(Duration::from_millis(1)),
                    Ok(false) => std::hint::spin_loop(),
                    Err(error) => break Err(error),
                }
            };
            halt.store(true, Ordering::Relaxed);
            let received = receiver.join().unwrap_or_else(|_| Err(io::Error::other("the receiving thread panicked")));
            sent.and(received)
        })
    }

    /// The figures: each message in the order in which its outcome was known. `near` and `far`: what PGM repaired there.
    fn recorded(self, spec: &ProbeSpec, rate: f64, [near, far]: [Option<&PgmFarEnd>; 2]) -> Recorded {
        let Self { sender, answers } = self;
        let config = PacedConfig {
            size: u32::try_from(answers.size).unwrap_or(u32::MAX),
            timeout_ns: u64::from(spec.timeout_ms) * 1_000_000,
            outliers: spec.outliers,
            repairs: answers.repairs,
            ..PacedConfig::new(platform::tick_rate(), LatencyKind::Rtt, rate)
        };
        let mut paced = Paced::new(config);
        if let Some(first) = sender.sent.first() {
            paced.begin(first.intended);
        }
        let mut samples: Vec<PacedSample> = (0..)
            .zip(&sender.sent)
            .map(|(seq, Message { intended, sent })| {
                let received = sent.saturating_add(sender.timeout);
                let flags = SampleFlags::LOST;
                let sample = Sample { seq, intended: *intended, sent: *sent, received, flags, ..Sample::default() };
                PacedSample { sample, ..PacedSample::default() }
            })
            .collect();
        let (mut extra, mut highest) = (Vec::new(), 0);
        for Answer { number, received, out, back } in answers.all {
            let Some(one) = usize::try_from(number).ok().and_then(|at| samples.get_mut(at)) else { continue };
            // Nobody answers what was not sent yet.
            if received < one.sample.sent {
                continue;
            }
            let is_lost = one.sample.flags.has(SampleFlags::LOST);
            let sample = &mut one.sample;
            if is_lost && received.saturating_sub(sample.sent) <= sender.timeout {
                let is_late = number < highest;
                (sample.received, highest) = (received, number.max(highest));
                sample.flags = if is_late { SampleFlags::REORDERED } else { SampleFlags::default() };
                (one.out, one.back) = (out, back);
            } else {
                let flags = if is_lost { SampleFlags::LATE } else { SampleFlags::DUPLICATE };
                let sample = Sample {
                    seq: sample.seq,
                    intended: received,
                    sent: received,
                    received,
                    flags,
                    ..Sample::default()
                };
                extra.push(PacedSample { sample, ..PacedSample::default() });
            }
        }
        samples.append(&mut extra);
        samples.sort_by_key(|one| one.sample.received);
        paced.ingest(&samples);
        for (end, back) in [(far, false), (near, true)] {
            for FarRepair { number, nak_ns, ncf_ns, data_ns, .. } in end.into_iter().flat_map(|end| &end.repairs) {
                if let Some(seq) = number.checked_sub(sender.first_number).filter(|seq| *seq < sender.sent.len() as u64)
                {
                    let (nak_ns, ncf_ns, data_ns) = (*nak_ns, *ncf_ns, *data_ns);
                    paced.repair(RepairNote { reflector: 0, back, seq, nak_ns, ncf_ns, data_ns });
                }
            }
        }
        paced.sender(SenderCounts { unsent: sender.count - sender.sent.len() as u64, ..SenderCounts::default() });
        paced.finish(None)
    }
}

/// Says who did not keep up, if the rate was not held.
fn judge(recorded: &mut Recorded, own: &Counters, report: Option<&StopReport>, before: Option<Delivered>) {
    let remote = report.map(|report| RemoteEnd {
        name: Role::Reflector.word(),
        received: report.received,
        over_rate: report.over_rate,
        counters: &report.counters,
        usage: &report.usage,
    });
    let remotes: Vec<RemoteEnd<'_>> = remote.into_iter().collect();
    recorded.judge_rate(&RateEvidence { initiator: own, remotes: &remotes, before });
}
