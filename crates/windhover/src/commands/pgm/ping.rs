//! `windhover pgm ping`

use super::numbered::{self, Fate};
use super::tell::{self, Steps};
use super::{END, Hears, LOOK, MOST_BYTES, Publishes, open, random, reply_group};
use crate::cli::pgm::Ping;
use crate::commands::signals;
use crate::output::{Failure, Output, wrapped};
use anyhow::anyhow;
use pgm::Tsi;
use pgm::receiver::Event;
use pgm_io::{Delivered, Incoming, Way, WayCounts};
use serde_json::{Value, json};
use stats::Histogram;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long reflectors are waited for.
const SEARCH: Duration = Duration::from_secs(10);

pub(super) fn run(arguments: &Ping, output: &Output) -> Result<u8, Failure> {
    let stop = signals::stop_flag()?;
    let reply = reply_group(arguments.group, arguments.reply.reply_group)?;
    let publishes = Publishes { group: arguments.group, flags: &arguments.source };
    let hears = Hears { group: reply, flags: &arguments.receiver };
    let way = open(&arguments.way, Some(&publishes), Some(&hears))?;
    let mut pinging = Pinging {
        arguments,
        output,
        way,
        id: u64::from_be_bytes(random()?),
        reflectors: Vec::new(),
        sent: 0,
        steps: Steps::new(),
        buffer: vec![0; MOST_BYTES],
    };
    pinging.search(reply, &stop)?;
    pinging.send(&stop)?;
    pinging.wait(&stop)?;
    let closed = pinging.way.close(END);
    let counts = pinging.way.counts();
    if arguments.form.is_json() {
        output.result(&format!("{}\n", pinging.json(&counts)))?;
    } else {
        output.result(&wrapped(&pinging.text(&counts)))?;
    }
    closed?;
    Ok(match (stop.load(Ordering::Relaxed), pinging.silent(&counts)) {
        (true, _) => 130,
        (false, 0) => 0,
        (false, _) => 1,
    })
}

/// One end that answers.
struct Reflector {
    tsi: Tsi,
    /// Round trips by fate.
    rtt: [Histogram; 3],
    /// The number after the last one that came.
    next: u64,
    out_of_order: u64,
}

impl Reflector {
    fn new(tsi: Tsi) -> Self {
        Self { tsi, rtt: std::array::from_fn(|_| Histogram::new()), next: 0, out_of_order: 0 }
    }

    fn answers(&self) -> u64 {
        self.rtt.iter().map(Histogram::count).sum()
    }

    fn all(&self) -> Histogram {
        let mut all = Histogram::new();
        self.rtt.iter().for_each(|part| all.merge(part));
        all
    }
}

struct Pinging<'a> {
    arguments: &'a Ping,
    output: &'a Output,
    way: Way,
    id: u64,
    reflectors: Vec<Reflector>,
    sent: u64,
    steps: Steps,
    buffer: Vec<u8>,
}

impl Pinging<'_> {
    /// Waits until the reflectors were heard of: they tell where they are as soon as they run.
    fn search(&mut self, reply: std::net::IpAddr, stop: &AtomicBool) -> Result<(), Failure> {
        let end = Instant::now() + SEARCH;
        while self.reflectors.len() < self.arguments.reflectors && !stop.load(Ordering::Relaxed) {
            if Instant::now() >= end {
                if self.reflectors.is_empty() {
                    let why = anyhow!(
                        "no reflector is heard on {reply}: start 'windhover pgm reflect {}' at the other end, with the same ports and carrier",
                        self.arguments.group
                    );
                    return Err(Failure::new(1, why));
                }
                let (found, wanted) = (self.reflectors.len(), self.arguments.reflectors);
                self.output.warning(format_args!("{found} of {wanted} reflectors are heard on {reply}"));
                break;
            }
            self.receive(LOOK)?;
        }
        Ok(())
    }

    fn send(&mut self, stop: &AtomicBool) -> Result<(), Failure> {
        let mut message = vec![0; usize::try_from(self.arguments.size).unwrap_or(MOST_BYTES)];
        let began = Instant::now();
        while self.sent < self.arguments.count && !stop.load(Ordering::Relaxed) {
            let due = began + Duration::from_secs_f64(self.sent as f64 / self.arguments.rate);
            let left = due.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                self.receive(left.min(LOOK))?;
                continue;
            }
            let ping =
                numbered::Ping { number: self.sent, sent_ns: self.way.now_ns(), id: self.id, out: Fate::Untouched };
            ping.write(&mut message);
            self.way.send(&message)?;
            self.sent += 1;
        }
        Ok(())
    }

    /// Waits for the last answers.
    fn wait(&mut self, stop: &AtomicBool) -> Result<(), Failure> {
        let end = Instant::now() + self.arguments.linger;
        let sent = self.sent;
        while !stop.load(Ordering::Relaxed) && self.reflectors.iter().any(|reflector| reflector.answers() < sent) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.receive(left.min(LOOK))?;
        }
        Ok(())
    }

    fn receive(&mut self, time: Duration) -> Result<(), Failure> {
        match self.way.receive(&mut self.buffer, time)? {
            Incoming::Message(delivered) => self.answer(&delivered),
            Incoming::Event(event) => {
                if let Event::Source { tsi } = event {
                    self.reflector(tsi);
                }
                self.output.note(tell::event_text(&event));
            }
            Incoming::TimedOut | Incoming::Interrupted => {}
        }
        Ok(())
    }

    fn reflector(&mut self, tsi: Tsi) -> Option<&mut Reflector> {
        let place = self.reflectors.iter().position(|reflector| reflector.tsi == tsi).unwrap_or_else(|| {
            self.reflectors.push(Reflector::new(tsi));
            self.reflectors.len() - 1
        });
        self.reflectors.get_mut(place)
    }

    fn answer(&mut self, delivered: &Delivered) {
        let now_ns = self.way.now_ns();
        let message = self.buffer.get(..delivered.bytes).unwrap_or_default();
        let Some(ping) = numbered::Ping::read(message).filter(|ping| ping.id == self.id) else { return };
        if let Some(repair) = &delivered.repair {
            self.steps.add(repair);
        }
        let fate = Fate::of(delivered).max(ping.out);
        let Some(reflector) = self.reflector(delivered.tsi) else { return };
        reflector.out_of_order += u64::from(ping.number < reflector.next);
        reflector.next = ping.number + 1;
        if let Some((_, histogram)) = Fate::ALL.iter().zip(&mut reflector.rtt).find(|(one, _)| **one == fate) {
            histogram.record(now_ns.saturating_sub(ping.sent_ns));
        }
    }

    /// Reflectors that answered at least once.
    fn answered(&self) -> usize {
        self.reflectors.iter().filter(|reflector| reflector.answers() > 0).count()
    }

    /// Reflectors that never answered: heard, waited for or refused.
    fn silent(&self, counts: &WayCounts) -> usize {
        let refused = usize::try_from(counts.receiver.sources_refused).unwrap_or(usize::MAX);
        let known = self.reflectors.len().saturating_add(refused).max(self.arguments.reflectors).max(1);
        known - self.answered()
    }

    fn text(&self, counts: &WayCounts) -> String {
        let mut text = format!(
            "{} messages of {} bytes to {}, answered by {}",
            self.sent,
            self.arguments.size,
            self.arguments.group,
            self.answered()
        );
        let silent = self.silent(counts);
        text.push_str(&if silent > 0 { format!(", not by {silent}\n") } else { "\n".to_owned() });
        let _ = writeln!(text, "{:<44}{}", "round trip", tell::heading());
        for reflector in &self.reflectors {
            let tsi = reflector.tsi.to_string();
            let _ = writeln!(text, "{tsi:<33} {:<10}{}", "all", tell::row(&reflector.all()));
            for (fate, histogram) in Fate::ALL.iter().zip(&reflector.rtt) {
                if !histogram.is_empty() {
                    let _ = writeln!(text, "{:<33} {:<10}{}", "", fate.word(), tell::row(histogram));
                }
            }
            let (missing, reordered) = (self.sent.saturating_sub(reflector.answers()), reflector.out_of_order);
            let _ = writeln!(text, "{:<33} {missing} without an answer, {reordered} out of order", "");
        }
        let (source, receiver) = (&counts.source, &counts.receiver);
        let _ = writeln!(
            text,
            "out: {} NAKs for {} packets, {} repairs sent{}; back: {} missing, {} recovered, {} lost, {} NAKs sent",
            source.naks,
            source.numbers_asked,
            source.rdata,
            tell::parity_sent_text(source),
            receiver.missing,
            receiver.recovered,
            receiver.lost,
            receiver.naks
        );
        let steps = self.steps.text();
        if !steps.is_empty() {
            let _ = write!(text, "{:<16}{}\n{steps}", "repairs back", tell::heading());
        }
        text
    }

    fn json(&self, counts: &WayCounts) -> Value {
        let reflectors: Vec<Value> = self
            .reflectors
            .iter()
            .map(|reflector| {
                let fates = Fate::ALL.iter().zip(&reflector.rtt);
                let fates = fates.map(|(fate, rtt)| (fate.word().to_owned(), tell::figures(rtt)));
                json!({
                    "source": reflector.tsi.to_string(), "answers": reflector.answers(),
                    "out_of_order": reflector.out_of_order, "rtt": tell::figures(&reflector.all()),
                    "rtt_by_fate": Value::Object(fates.collect()),
                })
            })
            .collect();
        json!({
            "type": "ping", "sent": self.sent, "bytes": self.arguments.size, "reflectors": reflectors,
            "answered": self.answered(), "silent": self.silent(counts),
            "source": tell::source_counts(&counts.source), "receiver": tell::receiver_counts(&counts.receiver),
            "repairs_back": self.steps.json(),
        })
    }
}
