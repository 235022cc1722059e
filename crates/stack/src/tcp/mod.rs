//! One TCP connection as a state machine (RFC 9293): segments, calls and times go in, segments come out.

mod acknowledge;
mod calls;
mod congestion;
pub(crate) mod cookie;
mod fast;
mod flights;
mod input;
mod output;
mod receive;
mod recovery;
mod rtt;
mod synchronize;
mod timers;

pub(crate) use input::Outcome;
pub(crate) use receive::ReceiveSide;

use crate::address::Flow;
use crate::hop::Hop;
use crate::number::{Seq, long};
use crate::slab::Key;
use crate::wire::ip::{Marks, Template};
use crate::wire::{PROTOCOL_TCP, tcp::TIMESTAMPS};
use crate::{Error, Instant, TcpOptions, ring::Ring};
use congestion::Congestion;
use flights::Flights;
use recovery::{Rack, Recovery};
use rtt::RoundTrip;

/// The states of RFC 9293, section 3.3.2. LISTEN is that of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[expect(missing_docs, reason = "names of the RFC")]
pub enum TcpState {
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
    /// Nothing is left but what the application has not yet seen.
    #[default]
    Closed,
}

impl TcpState {
    pub(crate) fn is_synchronized(self) -> bool {
        !matches!(self, Self::SynSent | Self::SynReceived | Self::Closed)
    }

    pub(crate) fn receives(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }

    /// Whether data and the FIN may be sent or sent again.
    pub(crate) fn sends(self) -> bool {
        matches!(self, Self::Established | Self::CloseWait | Self::FinWait1 | Self::Closing | Self::LastAck)
    }
}

/// A shift of the window of at most 14 (RFC 7323, section 2.3) that lets a buffer of this size be announced.
pub(crate) fn window_shift(buffer: usize) -> u8 {
    (0..14).find(|shift| buffer <= 65_535 << shift).unwrap_or(14)
}

/// What is sent, and what the other end reports of it.
#[derive(Debug, Default)]
pub(crate) struct SendSide {
    /// Bytes from SND.UNA on: sent without acknowledgment, then not yet sent.
    pub(crate) buffer: Ring,
    /// ISS.
    pub(crate) initial: Seq,
    /// SND.UNA: the oldest number without acknowledgment.
    pub(crate) unacknowledged: Seq,
    /// SND.NXT: the next number to send.
    pub(crate) next: Seq,
    /// SND.WND, in bytes.
    pub(crate) window: u32,
    /// The shift of the windows that the other end announces.
    pub(crate) shift: u8,
    /// SND.WL1 and SND.WL2: sequence and acknowledgment number of the segment that set the window.
    pub(crate) window_sequence: Seq,
    pub(crate) window_acknowledgment: Seq,
    /// MAX.SND.WND: the largest window that was ever announced.
    pub(crate) largest_window: u32,
    /// A FIN follows the bytes of the buffer; the application sends no more.
    pub(crate) finished: bool,
    pub(crate) fin_acknowledged: bool,
    pub(crate) flights: Flights,
    pub(crate) duplicate_acks: u32,
    /// The MSS option of the other end, or the default (RFC 9293, MUST-15).
    pub(crate) peer_mss: u16,
    /// Bytes of data in a full segment: the effective send MSS without options.
    pub(crate) mss: u32,
    pub(crate) congestion: Congestion,
    pub(crate) round_trip: RoundTrip,
    pub(crate) rack: Rack,
    pub(crate) recovery: Option<Recovery>,
    /// Retransmission time-outs since the last acknowledgment of new data.
    pub(crate) backoff: u32,
    /// When the first of the retransmissions was due that are without answer.
    pub(crate) silent_since: Option<Instant>,
    /// SND.NXT when the tail loss probe was sent that is without answer.
    pub(crate) tail_probe: Option<Seq>,
    /// When the timer last fired, so little was in flight that the other end may only have delayed its acknowledgment.
    pub(crate) was_delayable: bool,
    /// The end of the last segment that was not full (Minshall's form of the Nagle algorithm).
    pub(crate) small_end: Seq,
    /// More data follow soon, as the application said.
    pub(crate) more: bool,
    pub(crate) urgent: Option<Seq>,
    pub(crate) last_sent: Instant,
    /// The application met a full buffer and waits for room.
    pub(crate) short_of_room: bool,
    pub(crate) retransmits: u64,
    pub(crate) timeouts: u64,
    pub(crate) segments: u64,
}

/// What emit has to do beside data.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted {
    pub(crate) syn: bool,
    pub(crate) reset: bool,
    /// The retransmission of the tail (RFC 8985, section 7.3).
    pub(crate) tail_probe: bool,
    /// One byte into a closed window.
    pub(crate) window_probe: bool,
    pub(crate) keep_alive: bool,
    /// What is held back by Nagle or cork has waited long enough.
    pub(crate) push: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Timers {
    pub(crate) retransmit: Instant,
    pub(crate) purpose: Purpose,
    pub(crate) ack: Instant,
    pub(crate) keep_alive: Instant,
    pub(crate) cork: Instant,
    /// The end of TIME-WAIT, or of FIN-WAIT-2 after close.
    pub(crate) end: Instant,
}

impl Default for Timers {
    fn default() -> Self {
        let never = Instant::NEVER;
        Self { retransmit: never, purpose: Purpose::Timeout, ack: never, keep_alive: never, cork: never, end: never }
    }
}

/// What the retransmission timer is set for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Timeout,
    TailProbe,
    WindowProbe,
    /// The reordering window of RACK ends.
    Reordering,
}

#[derive(Debug, Default)]
pub(crate) struct Connection {
    pub(crate) flow: Flow,
    pub(crate) state: TcpState,
    pub(crate) options: TcpOptions,
    /// None while the next hop is not known.
    pub(crate) template: Option<Template>,
    pub(crate) path_mtu: u16,
    pub(crate) sack: bool,
    pub(crate) timestamps: bool,
    /// Added to milliseconds: time stamps do not tell how long this host runs.
    pub(crate) timestamp_offset: u32,
    pub(crate) send: SendSide,
    pub(crate) receive: ReceiveSide,
    pub(crate) timers: Timers,
    pub(crate) wanted: Wanted,
    pub(crate) error: Option<Error>,
    /// What ICMP reported, which may pass (RFC 9293, MUST-56).
    pub(crate) soft_error: Option<Error>,
    /// The listener, until the application accepts the connection.
    pub(crate) listener: Option<Key>,
    /// Made by connect: a reset in SYN-RECEIVED is an error, not a return to LISTEN.
    pub(crate) active: bool,
    /// The application closed it.
    pub(crate) orphan: bool,
    pub(crate) keep_alives_sent: u32,
    pub(crate) last_heard: Instant,
    /// The second in which challenge ACKs are counted, and how many there were (RFC 5961, section 7).
    challenges: (Instant, u32),
    pub(crate) read_edges: u32,
    pub(crate) write_edges: u32,
    /// The stack's notes: in the output queue, in the event queue, wheel timer, half open, TIME-WAIT, reported edges.
    pub(crate) queued: bool,
    pub(crate) announced: bool,
    pub(crate) scheduled: Instant,
    pub(crate) half_open: bool,
    pub(crate) waiting: bool,
    pub(crate) told_edges: u32,
}

impl Connection {
    pub(crate) fn new(flow: Flow, options: TcpOptions, mtu: u16, initial: Seq, timestamp_offset: u32) -> Self {
        let send = SendSide {
            initial,
            unacknowledged: initial,
            next: initial,
            peer_mss: if flow.local.is_v4() { 536 } else { 1220 },
            mss: 536,
            round_trip: RoundTrip::new(options.rto_initial_ns),
            small_end: initial,
            ..SendSide::default()
        };
        Self {
            flow,
            options,
            path_mtu: mtu,
            sack: options.sack,
            timestamps: options.timestamps,
            timestamp_offset,
            send,
            receive: ReceiveSide::new(options),
            scheduled: Instant::NEVER,
            ..Self::default()
        }
    }

    pub(crate) fn set_hop(&mut self, mac: [u8; 6], hop: &Hop) {
        let marks = Marks { ttl: self.options.ttl, tos: self.options.tos };
        self.template = Some(Template::new([mac, hop.mac], self.flow.local, self.flow.remote, PROTOCOL_TCP, marks));
        if self.send.flights.is_empty() {
            self.path_mtu = hop.mtu;
            self.measure_segments();
        } else {
            self.path_is_narrower(hop.mtu);
        }
    }

    /// Bytes of the headers of IP and TCP without options.
    pub(crate) fn header_bytes(&self) -> u16 {
        if self.flow.local.is_v4() { 40 } else { 60 }
    }

    /// The MSS option that is sent: what this end can receive (RFC 9293, MUST-14 and MUST-67; RFC 6691: without options).
    pub(crate) fn announced_mss(&self) -> u16 {
        let whole = self.path_mtu.saturating_sub(self.header_bytes());
        self.options.max_segment.map_or(whole, |bytes| bytes.min(whole))
    }

    /// The effective send MSS (RFC 9293, MUST-16): what the other end takes and the path carries, without options.
    pub(crate) fn measure_segments(&mut self) {
        let options = if self.timestamps { TIMESTAMPS } else { 0 };
        let whole = u32::from(self.send.peer_mss.min(self.announced_mss())).max(64);
        self.send.mss = whole.saturating_sub(long(options)).max(32);
    }

    /// Makes the buffers, once the handshake is done.
    pub(crate) fn make_buffers(&mut self) {
        self.send.buffer = Ring::new(self.options.send_buffer);
        self.send.flights = Flights::new(self.options.send_buffer);
        self.receive.make_buffers(self.options);
        self.send.congestion = Congestion::new(self.send.mss);
    }

    /// Now, for the time stamps option: in milliseconds.
    pub(crate) fn timestamp(&self, now: Instant) -> u32 {
        crate::number::low(now.0 / crate::time::MS).wrapping_add(self.timestamp_offset)
    }

    /// The number behind the last byte of the buffer.
    pub(crate) fn end_of_data(&self) -> Seq {
        self.send.unacknowledged.plus(long(self.send.buffer.length()))
    }

    /// The number behind all that is to be sent, with the FIN.
    pub(crate) fn end_of_send(&self) -> Seq {
        self.end_of_data().plus(u32::from(self.send.finished && !self.send.fin_acknowledged))
    }

    pub(crate) fn may_emit(&self) -> bool {
        let wanted = &self.wanted;
        self.receive.ack_now
            || self.state.sends() && (self.end_of_send() != self.send.next || self.send.flights.lost() > 0)
            || wanted.syn
            || wanted.reset
            || wanted.tail_probe
            || wanted.window_probe
            || wanted.keep_alive
    }

    pub(crate) fn deadline(&self) -> Instant {
        let timers = &self.timers;
        timers.retransmit.min(timers.ack).min(timers.keep_alive).min(timers.cork).min(timers.end)
    }

    /// Ends the connection: what was received stays readable.
    pub(crate) fn end(&mut self, error: Option<Error>) {
        self.state = TcpState::Closed;
        self.error = self.error.or(error);
        self.send.buffer = Ring::default();
        self.send.flights = Flights::default();
        self.send.finished = true;
        self.receive.end();
        self.wanted = Wanted { reset: self.wanted.reset, ..Wanted::default() };
        self.timers = Timers { purpose: self.timers.purpose, ..Timers::default() };
        self.read_edges += 1;
        self.write_edges += 1;
    }

    /// Ends the connection and lets the other end know.
    pub(crate) fn reset(&mut self, error: Option<Error>) {
        self.wanted.reset = true;
        self.end(error);
    }

    /// Whether a challenge ACK may be sent. The limit is per connection: a shared one leaks (CVE-2016-5696).
    pub(crate) fn may_challenge(&mut self, now: Instant) -> bool {
        const CHALLENGES_PER_SECOND: u32 = 10;
        if now.since(self.challenges.0) >= crate::time::SECOND {
            self.challenges = (now, 0);
        }
        self.challenges.1 += 1;
        self.challenges.1 <= CHALLENGES_PER_SECOND
    }
}
