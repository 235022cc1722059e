//! Receives what the sources of a group publish, and counts what became of it.

use super::numbered;
use super::{MOST_BYTES, RepairSteps, STOP_CHECK};
use crate::{Delivered, Incoming, PgmIoError, PgmSocket};
use model::Fate;
use pgm::Tsi;
use pgm::receiver::{Event, SessionEvent};
use pgm::zmtp::Unframer;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// When to end, and what messages are.
#[derive(Debug, Clone, Copy, Default)]
pub struct SubscribeOptions {
    /// End after this many messages.
    pub count: Option<u64>,
    /// End after this time.
    pub lasts: Option<Duration>,
    /// End when nothing came for so long after a message.
    pub idle: Option<Duration>,
    /// End when every source that was heard has ended.
    pub until_fin: bool,
    /// Messages are numbered ([`numbered`]): check each.
    pub check: bool,
    /// Messages are in ZMTP 1.0 frames.
    pub zeromq: bool,
}

/// What a caller gets, in the order in which it came.
#[derive(Debug)]
pub enum SubscribedItem<'a> {
    /// A message of the protocol; those of [`SubscribedItem::Message`] that it holds follow.
    Delivered(&'a Delivered),
    /// A message as its sender knows it.
    Message {
        delivered: &'a Delivered,
        /// What repairs did to it.
        fate: Fate,
        bytes: &'a [u8],
        /// Lengths of its frames, where it has some.
        parts: &'a [usize],
    },
    /// Something else happened.
    Event(&'a Event),
    /// A message was cut, because it is longer than [`MOST_BYTES`].
    Cut(&'a Delivered),
    /// A message of several frames was dropped, because it is too long.
    Dropped(&'a Delivered),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// As many messages as wanted came.
    Count,
    Time,
    /// Nothing came for too long.
    Idle,
    /// All sources have ended.
    Fin,
    /// The stop flag was set.
    Stopped,
    /// The caller takes no more.
    Reader,
}

impl EndReason {
    pub fn word(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Time => "time",
            Self::Idle => "idle",
            Self::Fin => "fin",
            Self::Stopped => "signal",
            Self::Reader => "reader",
        }
    }
}

#[derive(Debug, Default)]
pub struct HeardSource {
    pub tsi: Tsi,
    /// Sessions under this identifier.
    pub sessions: u64,
    pub messages: u64,
    pub bytes: u64,
    /// Messages by fate, in the order of [`Fate::ALL`].
    pub fates: [u64; 3],
    /// The first number, where numbers are checked.
    pub first: Option<u64>,
    /// The number after the last.
    pub next: u64,
    /// Messages whose number was not the next.
    pub out_of_order: u64,
    /// Messages that did not come whole.
    pub damaged: u64,
    pub ended: Option<&'static str>,
    /// A message of this session was checked.
    checked: bool,
    unframer: Unframer,
}

impl HeardSource {
    fn count(&mut self, fate: Fate, message: &[u8], check: bool) {
        self.messages += 1;
        self.bytes += message.len() as u64;
        self.fates[fate as usize] += 1;
        if !check {
            return;
        }
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

    fn event(&mut self, event: &Event) {
        match event.what {
            // Its messages are numbered anew, and it has not ended.
            SessionEvent::Restarted => {
                (self.sessions, self.next, self.ended, self.checked) = (self.sessions + 1, 0, None, false);
                self.unframer.lost();
            }
            SessionEvent::Lost { .. } => self.unframer.lost(),
            SessionEvent::Finished => self.ended = Some("finished"),
            SessionEvent::Reset { .. } => self.ended = Some("reset"),
            SessionEvent::Expired => self.ended = Some("expired"),
            SessionEvent::Found | SessionEvent::Refused => {}
        }
    }
}

#[derive(Debug)]
pub struct SubscribeReport {
    /// Sources in the order in which they were heard.
    pub sources: Vec<HeardSource>,
    pub messages: u64,
    pub repairs: RepairSteps,
    /// Since the begin.
    pub lasted: Duration,
    pub ended: EndReason,
}

/// Receives until one of the options ends it, `stop` is set, or `sink` breaks off.
pub fn subscribe(
    socket: &mut PgmSocket,
    options: SubscribeOptions,
    stop: &AtomicBool,
    sink: &mut dyn FnMut(SubscribedItem<'_>) -> ControlFlow<()>,
) -> Result<SubscribeReport, PgmIoError> {
    let mut subscriber = Subscriber {
        options,
        began: Instant::now(),
        last: None,
        sources: Vec::new(),
        messages: 0,
        repairs: RepairSteps::default(),
    };
    let mut buffer = vec![0; MOST_BYTES];
    let ended = loop {
        let left = match subscriber.left() {
            Err(ended) => break ended,
            Ok(_) if stop.load(Ordering::Relaxed) => break EndReason::Stopped,
            Ok(left) => left,
        };
        let flow = match socket.receive(&mut buffer, left)? {
            Incoming::Message(delivered) => {
                let bytes = buffer.get(..delivered.bytes.min(MOST_BYTES)).unwrap_or_default();
                subscriber.delivered(&delivered, bytes, sink)
            }
            Incoming::Event(event) => {
                subscriber.event(&event);
                sink(SubscribedItem::Event(&event))
            }
            Incoming::TimedOut | Incoming::Interrupted => ControlFlow::Continue(()),
        };
        if flow.is_break() {
            break EndReason::Reader;
        }
    };
    let Subscriber { began, sources, messages, repairs, .. } = subscriber;
    Ok(SubscribeReport { sources, messages, repairs, lasted: began.elapsed(), ended })
}

struct Subscriber {
    options: SubscribeOptions,
    began: Instant,
    last: Option<Instant>,
    sources: Vec<HeardSource>,
    messages: u64,
    repairs: RepairSteps,
}

impl Subscriber {
    /// How long to wait at most for what comes next.
    fn left(&self) -> Result<Duration, EndReason> {
        let options = &self.options;
        if options.count.is_some_and(|count| self.messages >= count) {
            return Err(EndReason::Count);
        }
        let fin = !self.sources.is_empty() && self.sources.iter().all(|source| source.ended.is_some());
        if options.until_fin && fin {
            return Err(EndReason::Fin);
        }
        let mut left = STOP_CHECK;
        let limits = [(Some(self.began), options.lasts, EndReason::Time), (self.last, options.idle, EndReason::Idle)];
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

    fn index(&mut self, tsi: Tsi) -> usize {
        self.sources.iter().position(|source| source.tsi == tsi).unwrap_or_else(|| {
            self.sources.push(HeardSource { tsi, sessions: 1, ..HeardSource::default() });
            self.sources.len() - 1
        })
    }

    fn event(&mut self, event: &Event) {
        // What is refused has sent nothing that was taken; the receiver counts it.
        if event.what == SessionEvent::Refused {
            return;
        }
        let index = self.index(event.tsi);
        if let Some(source) = self.sources.get_mut(index) {
            source.event(event);
        }
    }

    fn delivered(
        &mut self,
        delivered: &Delivered,
        bytes: &[u8],
        sink: &mut dyn FnMut(SubscribedItem<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.last = Some(Instant::now());
        if let Some(repair) = &delivered.repair {
            self.repairs.add(repair);
        }
        let index = self.index(delivered.tsi);
        let Some(source) = self.sources.get_mut(index) else { return ControlFlow::Continue(()) };
        if delivered.bytes > bytes.len() {
            source.damaged += 1;
            sink(SubscribedItem::Cut(delivered))?;
        }
        sink(SubscribedItem::Delivered(delivered))?;
        let (fate, check) = (delivered.fate(), self.options.check);
        let mut message = |source: &mut HeardSource, bytes: &[u8], parts: &[usize]| {
            self.messages += 1;
            source.count(fate, bytes, check);
            sink(SubscribedItem::Message { delivered, fate, bytes, parts })
        };
        if !self.options.zeromq {
            return message(source, bytes, &[]);
        }
        let dropped = source.unframer.dropped();
        let mut whole = Vec::new();
        source.unframer.take(bytes, |message| whole.push((message.bytes.to_vec(), message.frames.to_vec())));
        whole.iter().try_for_each(|(bytes, parts)| message(source, bytes, parts))?;
        if source.unframer.dropped() > dropped {
            source.damaged += 1;
            sink(SubscribedItem::Dropped(delivered))?;
        }
        ControlFlow::Continue(())
    }
}
