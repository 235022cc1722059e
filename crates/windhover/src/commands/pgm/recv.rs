//! `windhover pgm recv`

use super::numbered::{self, Fate};
use super::tell::{self, Steps};
use super::{END, Hears, LOOK, MOST_BYTES, open};
use crate::cli::pgm::{MessageForm, Recv};
use crate::commands::signals;
use crate::output::{Failure, Output};
use pgm::Tsi;
use pgm::receiver::Event;
use pgm::zmtp::{self, Unframer};
use pgm_io::{Delivered, Incoming, WayCounts};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub(super) fn run(arguments: &Recv, output: &Output) -> Result<u8, Failure> {
    let stop = signals::stop_flag()?;
    let hears = Hears { group: arguments.group, flags: &arguments.receiver };
    let mut way = open(&arguments.way, None, Some(&hears))?;
    output.note(format_args!("{} hears {}", way.local(), arguments.group));
    let mut recv = Receiving::new(arguments, output, way.now_ns());
    let mut buffer = vec![0; MOST_BYTES];
    let ended = loop {
        let look = match recv.left() {
            Err(ended) => break ended,
            Ok(left) => left,
        };
        if stop.load(Ordering::Relaxed) {
            break Ended::Stopped;
        }
        match way.receive(&mut buffer, look)? {
            Incoming::Message(delivered) => {
                let bytes = buffer.get(..delivered.bytes.min(MOST_BYTES)).unwrap_or_default();
                if delivered.bytes > bytes.len() {
                    recv.cut(&delivered);
                }
                recv.message(&delivered, bytes)?;
            }
            Incoming::Event(event) => recv.event(&event)?,
            Incoming::TimedOut | Incoming::Interrupted => {}
        }
    };
    way.close(END)?;
    recv.finish(&way.counts(), ended)
}

/// Why it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Count,
    Time,
    Idle,
    Fin,
    Stopped,
    Deaf,
}

/// One source.
#[derive(Debug)]
struct Heard {
    tsi: Tsi,
    sessions: u64,
    messages: u64,
    bytes: u64,
    fates: [u64; 3],
    first: Option<u64>,
    /// A message of this session was checked.
    checked: bool,
    next: u64,
    out_of_order: u64,
    damaged: u64,
    ended: Option<&'static str>,
    unframer: Unframer,
}

impl Heard {
    fn new(tsi: Tsi) -> Self {
        Self {
            tsi,
            sessions: 1,
            messages: 0,
            bytes: 0,
            fates: [0; 3],
            first: None,
            checked: false,
            next: 0,
            out_of_order: 0,
            damaged: 0,
            ended: None,
            unframer: Unframer::default(),
        }
    }

    /// Another session: its messages are numbered anew, and it has not ended.
    fn begin_again(&mut self) {
        (self.sessions, self.next, self.ended) = (self.sessions + 1, 0, None);
        self.checked = false;
        self.unframer.lost();
    }

    fn check(&mut self, message: &[u8]) {
        let Some(number) = numbered::read(message) else {
            self.damaged += 1;
            return;
        };
        if std::mem::replace(&mut self.checked, true) && number != self.next {
            self.out_of_order += 1;
        }
        self.first.get_or_insert(number);
        self.next = number.wrapping_add(1);
    }
}

struct Receiving<'a> {
    arguments: &'a Recv,
    output: &'a Output,
    /// Time 0 of what is printed, on the way's clock.
    began_ns: u64,
    began: Instant,
    last: Option<Instant>,
    sources: Vec<Heard>,
    messages: u64,
    steps: Steps,
    /// Nobody reads what is printed.
    deaf: bool,
    text: String,
}

impl<'a> Receiving<'a> {
    fn new(arguments: &'a Recv, output: &'a Output, began_ns: u64) -> Self {
        Self {
            arguments,
            output,
            began_ns,
            began: Instant::now(),
            last: None,
            sources: Vec::new(),
            messages: 0,
            steps: Steps::new(),
            deaf: false,
            text: String::new(),
        }
    }

    /// How long to wait at most for what comes next.
    fn left(&self) -> Result<Duration, Ended> {
        if self.deaf {
            return Err(Ended::Deaf);
        }
        if self.arguments.count.is_some_and(|count| self.messages >= count) {
            return Err(Ended::Count);
        }
        let fin = !self.sources.is_empty() && self.sources.iter().all(|source| source.ended.is_some());
        if self.arguments.until_fin && fin {
            return Err(Ended::Fin);
        }
        let mut left = LOOK;
        let limits =
            [(Some(self.began), self.arguments.lasts, Ended::Time), (self.last, self.arguments.idle, Ended::Idle)];
        for (since, lasts, ended) in limits {
            if let (Some(since), Some(lasts)) = (since, lasts) {
                let rest = lasts.saturating_sub(since.elapsed());
                if rest.is_zero() {
                    return Err(ended);
                }
                left = left.min(rest);
            }
        }
        Ok(left)
    }

    fn source(&mut self, tsi: Tsi) -> usize {
        self.sources.iter().position(|source| source.tsi == tsi).unwrap_or_else(|| {
            self.sources.push(Heard::new(tsi));
            self.sources.len() - 1
        })
    }

    fn message(&mut self, delivered: &Delivered, bytes: &[u8]) -> Result<(), Failure> {
        self.last = Some(Instant::now());
        if let Some(repair) = &delivered.repair {
            self.steps.add(repair);
            if self.arguments.repairs && self.arguments.form.get() != MessageForm::Json {
                let (tsi, first) = (delivered.tsi, delivered.first.0);
                self.output.note(format_args!("source {tsi}: packet {first}: {}", tell::repair_text(repair)));
            }
        }
        let place = self.source(delivered.tsi);
        let Some(source) = self.sources.get_mut(place) else { return Ok(()) };
        if !self.arguments.way.zeromq {
            return self.whole(place, delivered, bytes, &[]);
        }
        let dropped = source.unframer.dropped();
        let mut whole = Vec::new();
        source.unframer.take(bytes, |message| whole.push((message.bytes.to_vec(), message.frames.to_vec())));
        if source.unframer.dropped() > dropped {
            source.damaged += 1;
            let (tsi, most) = (source.tsi, zmtp::MOST_BYTES >> 20);
            self.output.warning(format_args!("source {tsi}: a ZeroMQ message of more than {most} MiB is dropped"));
        }
        whole.iter().try_for_each(|(message, parts)| self.whole(place, delivered, message, parts))
    }

    /// A message that is longer than any should be.
    fn cut(&mut self, delivered: &Delivered) {
        let (tsi, bytes) = (delivered.tsi, delivered.bytes);
        self.output.warning(format_args!("source {tsi}: a message of {bytes} bytes is cut to {MOST_BYTES}"));
        let place = self.source(tsi);
        if let Some(source) = self.sources.get_mut(place) {
            source.damaged += 1;
        }
    }

    /// A message as its sender knows it; `parts` are the lengths of its frames, where it has some.
    fn whole(&mut self, place: usize, delivered: &Delivered, bytes: &[u8], parts: &[usize]) -> Result<(), Failure> {
        let Some(source) = self.sources.get_mut(place) else { return Ok(()) };
        let fate = Fate::of(delivered);
        self.messages += 1;
        source.messages += 1;
        source.bytes += bytes.len() as u64;
        for (count, one) in source.fates.iter_mut().zip(Fate::ALL) {
            *count += u64::from(one == fate);
        }
        if self.arguments.check {
            source.check(bytes);
        }
        if self.arguments.summary {
            return Ok(());
        }
        self.text.clear();
        match self.arguments.form.get() {
            MessageForm::Raw => {
                self.deaf |= !self.output.bytes(bytes)?;
                return Ok(());
            }
            MessageForm::Text => in_parts(bytes, parts, text, &mut self.text),
            MessageForm::Hex => in_parts(bytes, parts, hex, &mut self.text),
            MessageForm::Json => self.text.push_str(&self.json(delivered, fate, bytes, parts).to_string()),
        }
        self.text.push('\n');
        self.deaf |= !self.output.part(&self.text)?;
        Ok(())
    }

    fn json(&self, delivered: &Delivered, fate: Fate, bytes: &[u8], parts: &[usize]) -> Value {
        let mut value = json!({
            "type": "message", "source": delivered.tsi.to_string(), "first": delivered.first.0, "bytes": bytes.len(),
            "at_s": delivered.received_ns.saturating_sub(self.began_ns) as f64 / 1e9, "fate": fate.word(),
        });
        let (name, shown) = match std::str::from_utf8(bytes) {
            Ok(text) if !text.chars().any(char::is_control) => ("text", text.to_owned()),
            _ => {
                let mut digits = String::new();
                hex(bytes, &mut digits);
                ("hex", digits)
            }
        };
        if let Some(object) = value.as_object_mut() {
            object.insert(name.to_owned(), shown.into());
            if parts.len() > 1 {
                object.insert("parts".to_owned(), parts.into());
            }
            if let Some(repair) = &delivered.repair {
                object.insert("repair".to_owned(), tell::repair_json(repair));
            }
        }
        value
    }

    fn event(&mut self, event: &Event) -> Result<(), Failure> {
        let (tsi, ended) = match *event {
            Event::Source { tsi } => (tsi, None),
            Event::Restarted { tsi } => {
                let place = self.source(tsi);
                if let Some(source) = self.sources.get_mut(place) {
                    source.begin_again();
                }
                (tsi, None)
            }
            // It has sent nothing that was taken; the summary counts it.
            Event::Refused { .. } => return self.tell(event),
            Event::Lost { tsi, .. } => {
                let place = self.source(tsi);
                if let Some(source) = self.sources.get_mut(place) {
                    source.unframer.lost();
                }
                (tsi, None)
            }
            Event::Finished { tsi } => (tsi, Some("finished")),
            Event::Reset { tsi, .. } => (tsi, Some("reset")),
            Event::Expired { tsi } => (tsi, Some("expired")),
        };
        let place = self.source(tsi);
        if let Some(source) = self.sources.get_mut(place) {
            source.ended = ended.or(source.ended);
        }
        self.tell(event)
    }

    fn tell(&mut self, event: &Event) -> Result<(), Failure> {
        if self.arguments.form.get() == MessageForm::Json {
            self.deaf |= !self.output.part(&format!("{}\n", tell::event_json(event)))?;
        } else {
            self.output.note(tell::event_text(event));
        }
        Ok(())
    }

    fn finish(self, counts: &WayCounts, ended: Ended) -> Result<u8, Failure> {
        let sum = |pick: fn(&Heard) -> u64| self.sources.iter().map(pick).sum::<u64>();
        let (damaged, out_of_order) = (sum(|source| source.damaged), sum(|source| source.out_of_order));
        if self.arguments.form.get() == MessageForm::Json {
            self.output.result(&format!("{}\n", self.summary_json(counts, ended)))?;
        } else if self.arguments.summary {
            self.output.result(&self.summary_text(counts))?;
        } else {
            self.output.note(self.summary_text(counts).trim_end());
        }
        let short = self.arguments.count.is_some_and(|count| self.messages < count);
        Ok(match ended {
            Ended::Stopped => 130,
            _ if counts.receiver.lost > 0 || counts.receiver.sources_refused > 0 => 3,
            _ if damaged > 0 || out_of_order > 0 => 3,
            Ended::Time | Ended::Idle | Ended::Fin if short => 1,
            _ => 0,
        })
    }

    fn summary_json(&self, counts: &WayCounts, ended: Ended) -> Value {
        let sources: Vec<Value> = self
            .sources
            .iter()
            .map(|source| {
                let [untouched, held, repaired] = source.fates;
                let mut value = json!({
                    "source": source.tsi.to_string(), "messages": source.messages, "bytes": source.bytes,
                    "sessions": source.sessions, "untouched": untouched, "held": held, "repaired": repaired, "ended": source.ended,
                });
                if let Some(object) = value.as_object_mut().filter(|_| self.arguments.check) {
                    object.insert("first".to_owned(), source.first.into());
                    object.insert("next".to_owned(), source.next.into());
                    object.insert("out_of_order".to_owned(), source.out_of_order.into());
                    object.insert("damaged".to_owned(), source.damaged.into());
                }
                value
            })
            .collect();
        json!({
            "type": "summary", "messages": self.messages, "seconds": self.began.elapsed().as_secs_f64(),
            "ended_by": ended_word(ended), "sources": sources, "receiver": tell::receiver_counts(&counts.receiver),
            "repairs": self.steps.json(), "overflowed": counts.overflowed, "naks_unsent": counts.naks_unsent,
        })
    }

    fn summary_text(&self, counts: &WayCounts) -> String {
        let receiver = &counts.receiver;
        let mut text = format!("{} messages in {:.3} s\n", self.messages, self.began.elapsed().as_secs_f64());
        for source in &self.sources {
            let [untouched, held, repaired] = source.fates;
            let _ = write!(
                text,
                "source {}: {} messages, {} bytes; {untouched} untouched, {held} held, {repaired} repaired; {}",
                source.tsi,
                source.messages,
                source.bytes,
                source.ended.unwrap_or("not ended"),
            );
            if self.arguments.check {
                let first = source.first.map_or_else(|| "none".to_owned(), |first| first.to_string());
                let _ = write!(
                    text,
                    "; first {first}, next {}, {} out of order, {} damaged",
                    source.next, source.out_of_order, source.damaged
                );
            }
            if source.sessions > 1 {
                let _ = write!(text, "; {} sessions", source.sessions);
            }
            text.push('\n');
        }
        let _ = writeln!(
            text,
            "packets {}: {} missing, {} recovered, {} lost, {} duplicates; {} NAKs for {} packets, {} NCFs, {} SPMs",
            receiver.packets,
            receiver.missing,
            receiver.recovered,
            receiver.lost,
            receiver.duplicates,
            receiver.naks,
            receiver.numbers_asked,
            receiver.ncfs,
            receiver.spms
        );
        if receiver.parity_packets + receiver.parity_naks > 0 {
            let _ = writeln!(
                text,
                "parity: {} packets computed from {}, {} asked for by {} NAKs",
                receiver.recovered_by_parity, receiver.parity_packets, receiver.parity_asked, receiver.parity_naks
            );
        }
        if counts.overflowed + receiver.overflows > 0 {
            let (kernel, window) = (counts.overflowed, receiver.overflows);
            let _ = writeln!(
                text,
                "dropped here: {kernel} datagrams in the receive buffer, {window} packets beyond the window"
            );
        }
        let trouble = [
            (
                receiver.sources_refused,
                "sources were refused, and their messages dropped: --sources makes room for more",
            ),
            (receiver.restarts, "sessions began under the identifier of another"),
            (receiver.doubted, "packets fitted no session: copies of old ones, or forged"),
            (counts.naks_unsent, "NAKs and SPM requests could not be sent"),
            (receiver.naks_deferred, "times NAKs waited for the NAK budget"),
            (receiver.paths_refused, "SPMs named an address that NAKs cannot go to"),
        ];
        for (count, what) in trouble.into_iter().filter(|(count, _)| *count > 0) {
            let _ = writeln!(text, "{count} {what}");
        }
        let steps = self.steps.text();
        if !steps.is_empty() {
            let _ = write!(text, "{:<16}{}\n{steps}", "repairs", tell::heading());
        }
        text
    }
}

fn ended_word(ended: Ended) -> &'static str {
    match ended {
        Ended::Count => "count",
        Ended::Time => "time",
        Ended::Idle => "idle",
        Ended::Fin => "fin",
        Ended::Stopped => "signal",
        Ended::Deaf => "reader",
    }
}

/// Parts of one message, with ` | ` between them.
fn in_parts(bytes: &[u8], parts: &[usize], form: fn(&[u8], &mut String), out: &mut String) {
    if parts.len() < 2 {
        return form(bytes, out);
    }
    let mut rest = bytes;
    for (at, length) in parts.iter().enumerate() {
        let (part, after) = rest.split_at((*length).min(rest.len()));
        rest = after;
        out.push_str(if at > 0 { " | " } else { "" });
        form(part, out);
    }
}

fn text(bytes: &[u8], out: &mut String) {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(|letter| letter.is_control() && letter != '\t') => out.push_str(text),
        _ => out.extend(bytes.iter().flat_map(|byte| byte.escape_ascii().map(char::from))),
    }
}

fn hex(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
}
