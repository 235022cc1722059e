//! `windhover dump`: captured packets as lines, Windhover's own messages and PGM named, with the time between them.

mod lines;
mod pgm_lines;
mod pgm_summary;
mod summary;

use super::signals;
use crate::cli::dump::{Dump, DumpFormat};
use crate::output::{Failure, Output, wrapped};
use anyhow::anyhow;
use lines::Line;
use net::capture::{CaptureError, Entry, Live, Reader, Way};
use pgm_lines::PgmLine;
use record::repairs::Repairs;
use record::timeline::{CapturedMessage, Timeline};
use std::fs::File;
use std::io::{BufReader, Read};
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use summary::Summary;
use wire::dissect::{self, Link, Message, Packet, Recogniser, Sighted, Undecoded};

/// How often a live capture looks whether it is to end.
const LOOK: Duration = Duration::from_millis(200);

pub(crate) fn run(arguments: &Dump, output: &Output) -> Result<u8, Failure> {
    let stop = signals::stop_flag()?;
    let mut dump = Decoder::new(arguments, output);
    let source = arguments.source.as_str();
    let ended = if source == "-" {
        dump.file(std::io::stdin().lock(), &stop)
    } else if Path::new(source).is_file() || source.contains('/') {
        let file = File::open(source).map_err(|error| {
            Failure::usage(anyhow!("cannot read {source}: {error}: name a capture, or a network interface ('ip link')"))
        })?;
        dump.file(BufReader::with_capacity(1 << 18, file), &stop)
    } else {
        dump.live(source, &stop)
    };
    // What was decoded before the damage is told all the same; of what is no capture nothing is.
    if dump.opened {
        dump.finish()?;
    }
    ended?;
    Ok(if stop.load(Ordering::Relaxed) { 130 } else { 0 })
}

/// A packet as it comes from either source.
struct Seen<'a> {
    interface: u32,
    link: u32,
    time_ns: Option<u64>,
    leaving: Option<bool>,
    sent_bytes: u32,
    frame: &'a [u8],
    vlan: Option<u16>,
    comment: Option<&'a str>,
}

struct Decoder<'a> {
    arguments: &'a Dump,
    output: &'a Output,
    recogniser: Recogniser,
    timeline: Timeline,
    repairs: Repairs,
    summary: Summary,
    first_ns: Option<u64>,
    /// The source is a capture.
    opened: bool,
    /// Nobody reads what is written.
    deaf: bool,
    /// The columns have their names.
    headed: bool,
    buffer: String,
}

impl<'a> Decoder<'a> {
    fn new(arguments: &'a Dump, output: &'a Output) -> Self {
        Self {
            arguments,
            output,
            recogniser: Recogniser::new(arguments.port.clone()).with_pgm_ports(&arguments.pgm_port),
            timeline: Timeline::default(),
            repairs: Repairs::default(),
            summary: Summary::default(),
            first_ns: None,
            opened: false,
            deaf: false,
            headed: false,
            buffer: String::new(),
        }
    }

    fn file(&mut self, input: impl Read, stop: &AtomicBool) -> Result<(), Failure> {
        let name = &self.arguments.source;
        let broken = |error: CaptureError| Failure::new(1, anyhow!("{name}: {error}"));
        let mut reader = Reader::new(input).map_err(|error| match error {
            CaptureError::NotACapture(_) => Failure { code: 2, ..broken(error) },
            error => broken(error),
        })?;
        self.opened = true;
        while let Some(entry) = reader.next_entry().map_err(broken)? {
            match entry {
                Entry::Packet(record) => {
                    let seen = Seen {
                        interface: record.interface,
                        link: record.link,
                        time_ns: record.time_ns,
                        leaving: record.leaving,
                        sent_bytes: record.sent_bytes,
                        frame: &record.frame,
                        vlan: None,
                        comment: record.comment.as_deref(),
                    };
                    self.packet(&seen)?;
                }
                Entry::Comment(text) => self.summary.comment(text),
                Entry::Dropped(packets) => self.summary.dropped += packets,
            }
            if stop.load(Ordering::Relaxed) || self.is_over() {
                break;
            }
        }
        Ok(())
    }

    fn live(&mut self, name: &str, stop: &AtomicBool) -> Result<(), Failure> {
        let mut live = Live::open(name).map_err(|error| match error {
            net::NetError::NoInterface { .. } => {
                Failure::usage(anyhow!("'{name}' is neither a file nor a network interface: see 'ip link' for those"))
            }
            net::NetError::CaptureNotPermitted => Failure::new(2, error),
            other => Failure::new(1, other),
        })?;
        self.opened = true;
        let link = live.link().link;
        let end = self.arguments.seconds.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
        self.output.note(format_args!("listening on {}", live.link().name));
        while !stop.load(Ordering::Relaxed) && !self.is_over() {
            let left = end.map_or(LOOK, |end| end.saturating_duration_since(Instant::now()).min(LOOK));
            if left.is_zero() {
                break;
            }
            let mut result = Ok(());
            live.wait(left, &mut |taken| {
                let seen = Seen {
                    interface: u32::from(taken.hardware),
                    link,
                    time_ns: Some(taken.time_ns),
                    leaving: Some(taken.way == Way::Out),
                    sent_bytes: taken.sent_bytes,
                    frame: taken.frame,
                    vlan: taken.vlan.map(|(_, control)| control & 0x0fff),
                    comment: None,
                };
                if result.is_ok() && !self.is_over() {
                    result = self.packet(&seen);
                }
            });
            result?;
            self.flush()?;
        }
        self.summary.dropped += live.dropped();
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.deaf || self.arguments.count.is_some_and(|count| self.summary.messages >= count) || self.summary.late
    }

    fn packet(&mut self, seen: &Seen<'_>) -> Result<(), Failure> {
        self.summary.packets += 1;
        if let (Some(now), Some(seconds)) = (seen.time_ns, self.arguments.seconds) {
            let first = *self.first_ns.get_or_insert(now);
            if now.saturating_sub(first) as f64 > seconds * 1e9 {
                self.summary.packets -= 1;
                self.summary.late = true;
                return Ok(());
            }
        } else if self.first_ns.is_none() {
            self.first_ns = seen.time_ns;
        }
        let Some(link) = Link::from_number(seen.link) else {
            self.summary.strange_link(seen.link);
            return Ok(());
        };
        let sent = usize::try_from(seen.sent_bytes).unwrap_or(usize::MAX);
        let packet = match dissect::packet(link, seen.frame, sent) {
            Ok(packet) => Packet { vlan: packet.vlan.or(seen.vlan), ..packet },
            Err(why) => return self.undecoded(seen, why),
        };
        if !self.wanted(&packet) {
            self.summary.filtered += 1;
            return Ok(());
        }
        let found = self.recogniser.look(&packet, seen.leaving);
        let told = match (&found.message, found.again) {
            (Message::Data { seq, .. }, false) => {
                let sight = CapturedMessage {
                    flow: found.flow.0,
                    forward: found.forward,
                    leaving: seen.leaving,
                    clock: seen.interface,
                    time_ns: seen.time_ns,
                    seq: *seq,
                    bytes: packet.payload_bytes as u64,
                };
                Some(self.timeline.see(&sight))
            }
            _ => None,
        };
        if let Message::Pgm(sighted) = &found.message {
            return self.pgm(seen, &packet, sighted);
        }
        let ours = self.summary.count(&packet, &found);
        if (ours || self.arguments.all) && !self.arguments.summary {
            self.heading();
            let line = Line { first_ns: self.first_ns, seen, packet: &packet, found: &found, told };
            match self.arguments.form.get() {
                DumpFormat::Text => line.text(&mut self.buffer),
                DumpFormat::Json => line.json(&mut self.buffer),
            }
        }
        self.flush_when_full()
    }

    /// A packet of PGM.
    fn pgm(&mut self, seen: &Seen<'_>, packet: &Packet<'_>, sighted: &Sighted<'_>) -> Result<(), Failure> {
        let told = pgm_lines::see(&mut self.repairs, seen, sighted);
        self.summary.pgm(packet, sighted, &told);
        if !self.arguments.summary {
            self.heading();
            let line = PgmLine { first_ns: self.first_ns, seen, packet, sighted, told };
            match self.arguments.form.get() {
                DumpFormat::Text => line.text(&mut self.buffer),
                DumpFormat::Json => line.json(&mut self.buffer),
            }
        }
        self.flush_when_full()
    }

    /// A frame that holds no message.
    fn undecoded(&mut self, seen: &Seen<'_>, why: Undecoded) -> Result<(), Failure> {
        self.summary.undecoded(why);
        let filtered = !self.arguments.port.is_empty() || !self.arguments.host.is_empty();
        if self.arguments.all && !self.arguments.summary && !filtered {
            self.heading();
            match self.arguments.form.get() {
                DumpFormat::Text => lines::undecoded_text(self.first_ns, seen, why, &mut self.buffer),
                DumpFormat::Json => lines::undecoded_json(seen, why, &mut self.buffer),
            }
        }
        self.flush_when_full()
    }

    /// What the columns are, above the first line.
    fn heading(&mut self) {
        if !std::mem::replace(&mut self.headed, true) && self.arguments.form.get() == DumpFormat::Text {
            self.buffer.push_str(lines::HEADING);
        }
    }

    fn wanted(&self, packet: &Packet<'_>) -> bool {
        let (from, to) = (packet.source, packet.destination);
        let port = |port: &u16| from.port() == *port || to.port() == *port;
        let host = |host: &IpAddr| from.ip() == *host || to.ip() == *host;
        let (ports, hosts) = (&self.arguments.port, &self.arguments.host);
        (ports.is_empty() || ports.iter().any(port)) && (hosts.is_empty() || hosts.iter().any(host))
    }

    fn flush_when_full(&mut self) -> Result<(), Failure> {
        const FULL: usize = 1 << 16;
        if self.buffer.len() >= FULL { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        if !self.buffer.is_empty() {
            self.deaf |= !self.output.part(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), Failure> {
        let (streams, answers) = std::mem::take(&mut self.timeline).finish();
        let sources = std::mem::take(&mut self.repairs).finish();
        match self.arguments.form.get() {
            DumpFormat::Text => {
                let mut text = String::new();
                self.summary.text(&streams, &answers, &sources, &mut text);
                self.buffer.push_str(&wrapped(&text));
            }
            DumpFormat::Json => self.summary.json(&streams, &answers, &sources, &mut self.buffer),
        }
        self.flush()
    }
}
