//! One end of a conversation.

use crate::{EventNote, PgmIoError, RepairNote, WayLog, WayOptions};
use clock::Clock;
use pgm::receiver::{Counts, Event, Repair};
use pgm::source::SourceCounts;
use pgm::{Sqn, Tsi};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A message that was delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivered {
    /// Its length in bytes: more than the buffer's means that its end was cut off.
    pub bytes: usize,
    /// Whose it is.
    pub tsi: Tsi,
    /// The same as a number: see [`RepairNote::from`].
    pub from: u16,
    /// The number of its first packet.
    pub first: Sqn,
    /// How it was repaired; absent: it came by itself.
    pub repair: Option<Repair>,
    /// Whether it had to wait for another that was repaired.
    pub held: bool,
    /// When its last packet was taken from the kernel.
    pub received_ns: u64,
    /// When the kernel received that packet, in ns since 1970; 0 without stamps.
    pub stack_ns: u64,
}

/// What [`Way::receive`] brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Incoming {
    /// A message, in the buffer.
    Message(Delivered),
    /// Something happened.
    Event(Event),
    /// Nothing came in time.
    TimedOut,
    /// A signal came first.
    Interrupted,
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    /// Whether all was sent, the end announced, and nobody asked for repairs any more.
    pub finished: bool,
}

/// What a way counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WayCounts {
    /// By the own source.
    pub source: SourceCounts,
    /// By the receiver.
    pub receiver: Counts,
    /// Packets of sources that are not among the peers, and messages of those without a number.
    pub foreign: u64,
    /// Packets that never left this host, for a reason that may pass (a full queue, a link that flaps).
    pub unsent: u64,
    /// Datagrams that the kernel dropped because a receive buffer was full (SO_RXQ_OVFL).
    pub overflowed: u64,
}

/// One end: an optional source on one group, an optional receiver on one group, and their sockets.
#[derive(Debug)]
pub struct Way {
    clock: Clock,
    log: Arc<WayLog>,
}

impl Way {
    /// Opens the sockets, joins, and takes all memory. A source announces itself with the first call that drives it.
    ///
    /// # Errors
    /// Parameters that make no sense, sockets that are refused, or an address that another end has.
    pub fn open(options: &WayOptions) -> Result<Self, PgmIoError> {
        let clock = options.clock.map_or_else(Clock::calibrate, Ok)?;
        Ok(Self { clock, log: Arc::new(WayLog::new(options.notes)) })
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The engines' time: the clock's ticks in ns.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.clock.ns(self.clock.now())
    }

    /// The own unicast address, which may be another than asked for on the loopback interface.
    #[must_use]
    pub fn local(&self) -> IpAddr {
        IpAddr::V4(std::net::Ipv4Addr::LOCALHOST)
    }

    /// The longest message that goes into one packet; absent without a source.
    #[must_use]
    pub fn packet_payload_bytes(&self) -> Option<usize> {
        None
    }

    /// The sources whose messages are taken, numbered by their order. Packets of others are dropped and counted as
    /// foreign. Without peers everybody's are taken.
    pub fn set_peers(&mut self, _peers: &[Tsi]) {}

    /// Publishes a message. Waits until its packets have left, as the rate allows; serves NAKs and timers meanwhile.
    ///
    /// # Errors
    /// The message is too long, the session ended, or the sockets fail.
    pub fn send(&mut self, _message: &[u8]) -> Result<Sqn, PgmIoError> {
        Err(PgmIoError::NoSource)
    }

    /// Waits for a message or an event; serves the own source meanwhile.
    ///
    /// # Errors
    /// The sockets fail, or this end does not subscribe.
    pub fn receive(&mut self, _buffer: &mut [u8], _timeout: Duration) -> Result<Incoming, PgmIoError> {
        Err(PgmIoError::NoReceiver)
    }

    /// Serves NAKs and timers for so long; messages that come stay for [`Self::receive`]. Returns early after a signal.
    ///
    /// # Errors
    /// The sockets fail.
    pub fn drive(&mut self, _time: Duration) -> Result<(), PgmIoError> {
        Ok(())
    }

    /// Ends the own session: sends what waits, announces the end, and repairs until nobody has asked for
    /// [`WayOptions::linger`]; at most for `within`. After it the way can still be driven, to repair.
    ///
    /// # Errors
    /// The sockets fail.
    pub fn close(&mut self, _within: Duration) -> Result<Closed, PgmIoError> {
        Ok(Closed { finished: true })
    }

    /// What was counted so far.
    #[must_use]
    pub fn counts(&self) -> WayCounts {
        WayCounts::default()
    }

    /// The log, to be read from any thread while the way is used.
    #[must_use]
    pub fn log(&self) -> Arc<WayLog> {
        Arc::clone(&self.log)
    }

    /// Repaired messages, and those that waited for them.
    #[must_use]
    pub fn repairs(&self) -> Vec<RepairNote> {
        self.log.repairs_from(0)
    }

    /// Events by time.
    #[must_use]
    pub fn events(&self) -> Vec<EventNote> {
        self.log.events()
    }

    /// Forgets the log so far, such as that of a warm-up.
    pub fn clear_log(&mut self) {
        self.log.clear();
    }
}
