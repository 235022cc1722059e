//! The open loop: messages at even times, sent without waiting for answers. One thread sends and receives, and spins, because
//! sleeps of Windows end up to a clock tick late.

use crate::client::Peer;
use crate::data::{Received, Sending};
use crate::document::{self, Pass, PassFacts};
use crate::{Task, WinpointError, platform};
use model::worker::Measured;
use model::{Counters, LatencyKind, PacedSample, Pacer, ProbeSpec, Receive, Role, Sample, SampleFlags, Shape};
use record::{Delivered, Paced, PacedConfig, RateEvidence, Recorded, RemoteEnd, SenderCounts};
use wire::data::{PACED_BYTES, read, write};
use wire::{StopReport, Tier};

/// Messages of one rate at most: their times are kept until its end.
const MOST: u64 = 20_000_000;
/// Answers that are taken between two looks at the schedule.
const ANSWERS: u32 = 16;

pub(crate) fn measure(task: &Task, give: &mut dyn FnMut(Measured)) -> Result<(), WinpointError> {
    let spec = &task.spec;
    let pace = spec.pace().cloned().unwrap_or_default();
    let even = pace.shape == Shape::Even && pace.random_delay_percent.is_none() && pace.every == 1;
    if !even || pace.pacer != Pacer::Spin || spec.initiator.receive != Receive::Spin {
        let what = "winpoint has even rates only, and a sender that spins".to_owned();
        return Err(WinpointError::Conflict { what, remedy: "leave shape, pacer and receive mode out" });
    }
    let least = u32::try_from(PACED_BYTES).unwrap_or(u32::MAX);
    if spec.sizes.iter().any(|size| size < least) {
        let what = format!("a message at a rate carries its number, which needs {least} bytes");
        return Err(WinpointError::Conflict { what, remedy: "use larger sizes" });
    }
    let mut peer = Peer::open(task)?;
    let mut number = 0;
    for size in spec.sizes.iter() {
        let mut before = None;
        for &rate in &pace.rates_pps {
            peer.start(size)?;
            let mut open = OpenLoop::new(spec, size, rate, peer.tag, number)?;
            let broken = open.run(&mut peer);
            number = open.first_number + open.sent.len() as u64;
            let (report, broken) = match (peer.stop(), broken) {
                (Ok(report), broken) => (Some(report), broken),
                (Err(error), broken) => (None, Some(broken.unwrap_or_else(|| error.to_string()))),
            };
            let started_ns = open.started_ns;
            let mut recorded = open.recorded(spec, size, rate);
            judge(&mut recorded, report.as_ref(), before);
            before = Delivered::of(&recorded);
            let saturated = recorded.pace.as_ref().is_some_and(|pace| pace.rate.saturated.is_some());
            let seen = PassFacts { started_ns, report, vanished: broken.clone() };
            give(document::assemble(task, &peer, Pass { size, rate: Some(rate) }, recorded, seen));
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

/// One message: when it was due and sent, when its answer had come (0: never), and whether that came after a later one.
#[derive(Debug, Clone, Copy)]
struct Message {
    intended: u64,
    sent: u64,
    received: u64,
    reordered: bool,
}

/// An answer that is no first one in time.
#[derive(Debug, Clone, Copy)]
struct Extra {
    number: u64,
    flags: SampleFlags,
    received: u64,
}

struct OpenLoop {
    size: usize,
    tag: u64,
    period_ns: f64,
    count: u64,
    /// Messages of the warm-up, which come first.
    warmup: u64,
    timeout: u64,
    first_number: u64,
    out: Vec<u8>,
    input: Vec<u8>,
    sent: Vec<Message>,
    /// Messages that were answered in time, and the highest number among them.
    answered: u64,
    highest: u64,
    extra: Vec<Extra>,
    started_ns: u64,
}

impl OpenLoop {
    fn new(spec: &ProbeSpec, size: u32, rate: f64, tag: u64, first_number: u64) -> Result<Self, WinpointError> {
        let messages = |ms: u32| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; `as` saturates")]
            let count = (f64::from(ms) / 1e3 * rate).ceil() as u64;
            count
        };
        let warmup = messages(spec.warmup.time_ms);
        let count = messages(spec.stop.max_ms).min(spec.stop.max_count).saturating_add(warmup);
        if count > MOST {
            let what = format!("{count} messages of one rate are more than the {MOST} that are kept");
            return Err(WinpointError::Conflict { what, remedy: "measure for a shorter time" });
        }
        let room = usize::try_from(count).unwrap_or(0);
        // Written to, so that each page is really there.
        let mut sent = vec![Message { intended: 1, sent: 1, received: 1, reordered: false }; room];
        sent.clear();
        let size = size as usize;
        Ok(Self {
            size,
            tag,
            period_ns: 1e9 / rate,
            count,
            warmup,
            timeout: platform::tick_rate().ticks(u64::from(spec.timeout_ms) * 1_000_000),
            first_number,
            out: vec![0x5a; size],
            input: vec![0x5a; size + 1],
            sent,
            answered: 0,
            highest: 0,
            extra: Vec::new(),
            started_ns: 0,
        })
    }

    /// When message `number` is due, in ticks after the first; roundings do not add up.
    fn offset(&self, number: u64) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; `as` saturates")]
        let ns = (number as f64 * self.period_ns) as u64;
        platform::tick_rate().ticks(ns)
    }

    /// Sends all messages and waits for the last answers; gives how the path broke, if it did.
    fn run(&mut self, peer: &mut Peer) -> Option<String> {
        let broken = |error| Some(format!("the data path broke: {error}"));
        // The first is due in a moment, so that it is not late by what comes before it.
        let first = platform::ticks() + platform::tick_rate().ticks(1_000_000);
        let mut last_send = first;
        let mut sending = None;
        loop {
            let number = self.sent.len() as u64;
            if number == self.warmup && self.started_ns == 0 {
                self.started_ns = document::now_ns();
            }
            let now = platform::ticks();
            if sending.is_none() && number < self.count {
                let intended = first + self.offset(number);
                if now >= intended {
                    write(self.first_number + number, self.tag, &mut self.out);
                    let sent = platform::ticks();
                    self.sent.push(Message { intended, sent, received: 0, reordered: false });
                    sending = Some(Sending::new());
                    last_send = sent;
                }
            } else if number == self.count
                && (self.answered == self.count || now.saturating_sub(last_send) > self.timeout)
            {
                return None;
            }
            // Of a long message only what the socket takes: the reflector may wait until answers are taken from it.
            if let Some(some) = &mut sending {
                match peer.data.send_some(&self.out, some) {
                    Ok(true) => sending = None,
                    Ok(false) => {}
                    Err(error) => return broken(error),
                }
            }
            for _ in 0..ANSWERS {
                match peer.data.receive(&mut self.input, self.size) {
                    Ok(Received::Bytes(bytes)) => self.take(bytes),
                    Ok(Received::Nothing) => break,
                    Err(error) => return broken(error),
                }
            }
        }
    }

    fn take(&mut self, bytes: usize) {
        let received = platform::ticks();
        let message = self.input.get(..self.size).unwrap_or_default();
        // Longer and shorter datagrams are strangers'.
        let found = (bytes == self.size).then(|| read(Tier::for_size(self.size), self.tag, message)).flatten();
        let Some(number) = found.and_then(|found| found.checked_sub(self.first_number)) else { return };
        let Some(one) = usize::try_from(number).ok().and_then(|at| self.sent.get_mut(at)) else { return };
        if one.received != 0 {
            self.extra.push(Extra { number, flags: SampleFlags::DUPLICATE, received });
        } else if received.saturating_sub(one.sent) > self.timeout {
            self.extra.push(Extra { number, flags: SampleFlags::LATE, received });
        } else {
            (one.received, one.reordered) = (received, number < self.highest);
            self.answered += 1;
            self.highest = self.highest.max(number);
        }
    }

    /// The figures: each message in the order in which its outcome was known.
    fn recorded(self, spec: &ProbeSpec, size: u32, rate: f64) -> Recorded {
        let config = PacedConfig {
            size,
            timeout_ns: u64::from(spec.timeout_ms) * 1_000_000,
            outliers: spec.outliers,
            ..PacedConfig::new(platform::tick_rate(), LatencyKind::Rtt, rate)
        };
        let mut paced = Paced::new(config);
        let timed = self.sent.get(usize::try_from(self.warmup).unwrap_or(usize::MAX)..).unwrap_or_default();
        if let Some(first) = timed.first() {
            paced.begin(first.intended);
        }
        let firsts = (0_u64..).zip(timed).map(|(seq, one)| {
            let flags = if one.reordered { SampleFlags::REORDERED } else { SampleFlags::default() };
            let (received, flags) = match one.received {
                0 => (one.sent.saturating_add(self.timeout), SampleFlags::LOST),
                received => (received, flags),
            };
            Sample { seq, intended: one.intended, sent: one.sent, received, flags, ..Sample::default() }
        });
        let extra = self.extra.iter().filter_map(|one| {
            let seq = one.number.checked_sub(self.warmup)?;
            Some(Sample {
                seq,
                intended: one.received,
                sent: one.received,
                received: one.received,
                flags: one.flags,
                ..Sample::default()
            })
        });
        let sample = |sample| PacedSample { sample, ..PacedSample::default() };
        let mut samples: Vec<PacedSample> = firsts.chain(extra).map(sample).collect();
        samples.sort_by_key(|one| one.sample.received);
        paced.ingest(&samples);
        paced.sender(SenderCounts { unsent: self.count - self.sent.len() as u64, ..SenderCounts::default() });
        paced.finish(None)
    }
}

/// Says who did not keep up, if the rate was not held.
fn judge(recorded: &mut Recorded, report: Option<&StopReport>, before: Option<Delivered>) {
    let counters = Counters::default();
    let remote = report.map(|report| RemoteEnd {
        name: Role::Reflector.word(),
        received: report.received,
        over_rate: report.over_rate,
        counters: &report.counters,
        usage: &report.usage,
    });
    let remotes: Vec<RemoteEnd<'_>> = remote.into_iter().collect();
    recorded.judge_rate(&RateEvidence { initiator: &counters, remotes: &remotes, before });
}
