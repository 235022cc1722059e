//! Numbered messages, and the times of their answers.

use super::numbered::Ping;
use super::{MOST_BYTES, RepairSteps, STOP_CHECK};
use crate::{Delivered, Incoming, PgmIoError, PgmSocket, PgmSocketCounts};
use model::Fate;
use pgm::Tsi;
use pgm::receiver::{Event, SessionEvent};
use stats::Histogram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What is sent, and how long answers are waited for.
#[derive(Debug, Clone, Copy)]
pub struct PingOptions {
    pub count: u64,
    pub rate_pps: f64,
    /// Bytes of a message, 32 or more.
    pub bytes: usize,
    /// How long the answers to the last message are waited for.
    pub linger: Duration,
    /// Reflectors that are expected.
    pub reflectors: usize,
}

#[derive(Debug, Default)]
pub struct PingReflector {
    pub tsi: Tsi,
    /// Round trips in ns by fate, in the order of [`Fate::ALL`].
    pub rtt: [Histogram; 3],
    /// Answers that came after a later one.
    pub out_of_order: u64,
    /// The number after the last one that came.
    next: u64,
}

impl PingReflector {
    pub fn answers(&self) -> u64 {
        self.rtt.iter().map(Histogram::count).sum()
    }

    /// Round trips of all answers, in ns.
    pub fn all(&self) -> Histogram {
        let mut all = Histogram::new();
        self.rtt.iter().for_each(|part| all.merge(part));
        all
    }
}

pub struct Pinger<'a> {
    pub socket: &'a mut PgmSocket,
    options: PingOptions,
    id: u64,
    stop: &'a AtomicBool,
    on_event: &'a mut dyn FnMut(&Event),
    buffer: Vec<u8>,
    /// Reflectors in the order in which they were heard.
    pub reflectors: Vec<PingReflector>,
    pub sent: u64,
    pub repairs: RepairSteps,
}

impl<'a> Pinger<'a> {
    /// Pings over a socket that publishes and subscribes. `id` marks its pings on the group; events go to `on_event`.
    pub fn new(
        socket: &'a mut PgmSocket,
        options: PingOptions,
        id: u64,
        stop: &'a AtomicBool,
        on_event: &'a mut dyn FnMut(&Event),
    ) -> Self {
        let buffer = vec![0; MOST_BYTES];
        Self {
            socket,
            options,
            id,
            stop,
            on_event,
            buffer,
            reflectors: Vec::new(),
            sent: 0,
            repairs: RepairSteps::default(),
        }
    }

    /// Waits until the expected reflectors were heard, at most `patience`; whether they were.
    pub fn search(&mut self, patience: Duration) -> Result<bool, PgmIoError> {
        let end = Instant::now() + patience;
        while self.reflectors.len() < self.options.reflectors && !self.stop.load(Ordering::Relaxed) {
            if Instant::now() >= end {
                return Ok(false);
            }
            self.receive(STOP_CHECK)?;
        }
        Ok(true)
    }

    /// Sends all messages and waits for the last answers.
    pub fn run(&mut self) -> Result<(), PgmIoError> {
        let mut message = vec![0; self.options.bytes];
        let began = Instant::now();
        while self.sent < self.options.count && !self.stop.load(Ordering::Relaxed) {
            let due = began + Duration::from_secs_f64(self.sent as f64 / self.options.rate_pps);
            let left = due.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                self.receive(left.min(STOP_CHECK))?;
                continue;
            }
            let ping = Ping { number: self.sent, sent_ns: self.socket.now_ns(), id: self.id, out: Fate::Untouched };
            ping.write(&mut message);
            self.socket.send(&message)?;
            self.sent += 1;
        }
        let end = Instant::now() + self.options.linger;
        while !self.stop.load(Ordering::Relaxed) && self.reflectors.iter().any(|one| one.answers() < self.sent) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.receive(left.min(STOP_CHECK))?;
        }
        Ok(())
    }

    pub fn answered(&self) -> usize {
        self.reflectors.iter().filter(|reflector| reflector.answers() > 0).count()
    }

    /// Reflectors that never answered: heard, expected or refused.
    pub fn silent(&self, counts: &PgmSocketCounts) -> usize {
        let refused = usize::try_from(counts.receiver.sources_refused).unwrap_or(usize::MAX);
        let known = self.reflectors.len().saturating_add(refused).max(self.options.reflectors).max(1);
        known - self.answered()
    }

    fn receive(&mut self, time: Duration) -> Result<(), PgmIoError> {
        match self.socket.receive(&mut self.buffer, time)? {
            Incoming::Message(delivered) => self.answer(&delivered),
            Incoming::Event(event) => {
                if event.what == SessionEvent::Found {
                    self.reflector(event.tsi);
                }
                (self.on_event)(&event);
            }
            Incoming::TimedOut | Incoming::Interrupted => {}
        }
        Ok(())
    }

    fn reflector(&mut self, tsi: Tsi) -> Option<&mut PingReflector> {
        let index = self.reflectors.iter().position(|reflector| reflector.tsi == tsi).unwrap_or_else(|| {
            self.reflectors.push(PingReflector { tsi, ..PingReflector::default() });
            self.reflectors.len() - 1
        });
        self.reflectors.get_mut(index)
    }

    fn answer(&mut self, delivered: &Delivered) {
        let now_ns = self.socket.now_ns();
        let message = self.buffer.get(..delivered.bytes).unwrap_or_default();
        let Some(ping) = Ping::read(message).filter(|ping| ping.id == self.id) else { return };
        if let Some(repair) = &delivered.repair {
            self.repairs.add(repair);
        }
        let fate = delivered.fate().max(ping.out);
        let Some(reflector) = self.reflector(delivered.tsi) else { return };
        reflector.out_of_order += u64::from(ping.number < reflector.next);
        reflector.next = ping.number + 1;
        reflector.rtt[fate as usize].record(now_ns.saturating_sub(ping.sent_ns));
    }
}
