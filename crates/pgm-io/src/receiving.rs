//! The receiving half: datagrams into the engine, messages out of it, NAKs out, and the own source's timers beside them.

use crate::log::HEAD;
use crate::sending::{AHEAD_NS, Shared};
use crate::stamps::StampRing;
use crate::{Delivered, EventKind, EventNote, PgmSocketOptions, RepairNote};
use net::PathError;
use net::group::{Extra, GroupSocket, GroupWait, ReceiveBatch, SendBatch, Target, Woken};
use pgm::packet::{Head, kind};
use pgm::receiver::{Destination, Event};
use pgm::{Receiver, ReceiverConfig, Tsi};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::pgm::events::Notes;

/// Datagrams that are taken, and packets that are sent, with one system call.
pub(crate) const BATCH: usize = 32;
/// Enough for every packet to a source: a NAK of 63 numbers with IPv6 addresses and options has fewer than 400 bytes.
pub(crate) const SMALL: usize = 1500;
/// Messages that are delivered in a row before sockets and timers are looked at: many may be whole at once after a repair.
const ROW: u32 = 32;
/// Looks of a spinning owner for each look at the own socket, where only NAKs come.
const LOOKS: u32 = 8;
/// Empty polls of a spinning wait between two looks at the stop flag.
const POLLS: u32 = 64;
/// Longest sleep of an end without a source.
const LONG_NS: u64 = 1_000_000_000;
/// Sources that get a number of their own.
pub(crate) const MOST_PEERS: usize = 1024;
/// Events that wait for a caller by hand.
const MOST_EVENTS: usize = 1024;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Wakeup {
    Message(Delivered),
    /// Something for [`Receiving::event`].
    Event,
    TimedOut,
    Interrupted,
    Stopped,
}

/// How long a wait goes on, and what ends it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Until<'a> {
    /// `u64::MAX`: for ever.
    pub(crate) deadline_ns: u64,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) events: bool,
    /// Whether messages are delivered; otherwise they stay.
    pub(crate) deliver: bool,
}

/// Who is heard, and by which number.
#[derive(Debug)]
pub(crate) struct Peers {
    known: Vec<Tsi>,
    /// Whose number is given to another next, when there are no more.
    oldest: usize,
    /// Only those that were named.
    fixed: bool,
    /// When the newest of the delivered messages came, of each.
    fronts: Vec<u64>,
    /// Where the newest packet of each came from: their NAKs come from there too.
    addresses: Vec<Option<IpAddr>>,
}

impl Peers {
    pub(crate) fn new() -> Self {
        Self {
            known: Vec::with_capacity(MOST_PEERS),
            oldest: 0,
            fixed: false,
            fronts: vec![0; MOST_PEERS],
            addresses: vec![None; MOST_PEERS],
        }
    }

    pub(crate) fn set(&mut self, peers: &[Tsi]) {
        self.known.clear();
        self.known.extend(peers.iter().take(MOST_PEERS));
        self.fixed = !peers.is_empty();
        self.fronts.fill(0);
        self.addresses.fill(None);
    }

    #[inline]
    fn number(&mut self, tsi: Tsi) -> Option<u16> {
        match self.number_of(tsi) {
            u16::MAX if self.fixed => None,
            u16::MAX => Some(self.add(tsi)),
            number => Some(number),
        }
    }

    /// A number for a new one. When all are given, it is that of the one that got his first.
    #[cold]
    fn add(&mut self, tsi: Tsi) -> u16 {
        let mut at = self.known.len();
        if at < MOST_PEERS {
            self.known.push(tsi);
        } else {
            at = self.oldest;
            self.oldest = (self.oldest + 1) % MOST_PEERS;
            if let (Some(place), Some(front), Some(address)) =
                (self.known.get_mut(at), self.fronts.get_mut(at), self.addresses.get_mut(at))
            {
                (*place, *front, *address) = (tsi, 0, None);
            }
        }
        u16::try_from(at).unwrap_or(u16::MAX)
    }

    #[inline]
    fn seen(&mut self, number: u16, from: IpAddr) {
        if let Some(address) = self.addresses.get_mut(usize::from(number)) {
            *address = Some(from);
        }
    }

    /// Who sends from an address; `u16::MAX`: none that is known, or several.
    fn at(&self, address: IpAddr) -> u16 {
        let known = self.addresses.get(..self.known.len()).unwrap_or_default();
        let mut fit = known.iter().enumerate().filter(|(_, own)| **own == Some(address));
        match (fit.next(), fit.next()) {
            (Some((at, _)), None) => u16::try_from(at).unwrap_or(u16::MAX),
            _ => u16::MAX,
        }
    }

    /// The number of one that is known; `u16::MAX`: of none.
    #[inline]
    fn number_of(&self, tsi: Tsi) -> u16 {
        let at = self.known.iter().position(|known| *known == tsi);
        at.and_then(|at| u16::try_from(at).ok()).unwrap_or(u16::MAX)
    }
}

#[derive(Debug)]
pub(crate) struct Receiving {
    pub(crate) receiver: Option<Receiver>,
    pub(crate) member: Option<GroupSocket>,
    group: Option<Target>,
    batch: ReceiveBatch,
    own_batch: ReceiveBatch,
    out: SendBatch,
    alert: bool,
    own_tsi: Option<Tsi>,
    pub(crate) peers: Peers,
    foreign: u64,
    stamps: StampRing,
    /// When the last datagram was taken: each has a time of its own.
    taken_ns: u64,
    /// A message may be whole.
    ready: bool,
    /// Messages delivered since sockets and timers were looked at.
    row: u32,
    looks: u32,
    polls: u32,
    /// Longest sleep while nothing is due.
    nap_ns: u64,
    events: VecDeque<Event>,
    pub(crate) notes: Notes<EventNote>,
    pub(crate) repairs: Notes<RepairNote>,
}

/// Packets that all windows of a receiver hold, within reason.
fn window(config: ReceiverConfig) -> usize {
    (config.window_packets as usize).saturating_mul(config.max_sources).min(1 << 18)
}

impl Receiving {
    /// The half of an end that sends from `own`; `heard`: its receiver and socket. Datagrams have at most `longest` bytes.
    pub(crate) fn new(
        options: &PgmSocketOptions,
        own: &GroupSocket,
        heard: Option<(Receiver, GroupSocket)>,
        longest: usize,
    ) -> Self {
        let (receiver, member) = heard.unzip();
        let unrepaired =
            RepairNote { from: 1, head: [1; HEAD], bytes: 1, repair: None, received_ns: 1, delivered_ns: 1 };
        let batch = |hears: bool, longest| ReceiveBatch::new(if hears { BATCH } else { 1 }, longest);
        let mut out = SendBatch::new(own, BATCH, SMALL);
        out.foreign = true;
        Self {
            group: options.receiver.map(|config| own.target(config.group)),
            batch: batch(receiver.is_some(), longest),
            own_batch: batch(options.source.is_some(), SMALL),
            out,
            alert: options.network.router_alert,
            own_tsi: options.source.map(|config| config.tsi),
            peers: Peers::new(),
            foreign: 0,
            stamps: StampRing::new(options.receiver.map_or(1, window)),
            taken_ns: 0,
            ready: false,
            row: 0,
            looks: 0,
            polls: 0,
            // Another thread's send may set a heartbeat while we sleep.
            nap_ns: options.source.map_or(LONG_NS, |source| source.heartbeat_min_ns.clamp(1_000_000, 50_000_000)),
            events: VecDeque::with_capacity(MOST_EVENTS),
            notes: Notes::new(options.notes, EventNote::NOTHING),
            repairs: Notes::new(options.notes, unrepaired),
            receiver,
            member,
        }
    }

    pub(crate) fn foreign(&self) -> u64 {
        self.foreign
    }

    pub(crate) fn overflowed(&self) -> u64 {
        self.batch.overflowed + self.own_batch.overflowed
    }

    /// NAKs and SPMRs that did not leave, refused by the kernel or lost on this host.
    pub(crate) fn unsent(&self) -> u64 {
        self.out.refused + self.out.lost
    }

    pub(crate) fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub(crate) fn drop_events(&mut self) {
        self.events.clear();
    }

    /// The sockets to wait for: that of the group first, the own one where it hears something.
    pub(crate) fn sockets<'a>(&'a self, shared: &'a Shared) -> Vec<&'a GroupSocket> {
        let own = shared.sending.is_some().then_some(&shared.own);
        self.member.iter().chain(own).collect()
    }

    #[inline]
    pub(crate) fn wait(
        &mut self,
        shared: &Shared,
        wait: &mut GroupWait,
        until: Until<'_>,
        buffer: &mut [u8],
    ) -> Result<Wakeup, PathError> {
        // A deadline that is over already is no reason not to look.
        let mut looked = false;
        loop {
            if let Some(message) = self.next(shared, until.deliver, buffer)? {
                return Ok(Wakeup::Message(message));
            }
            if until.events && !self.events.is_empty() {
                return Ok(Wakeup::Event);
            }
            if wait.spins() {
                self.polls = self.polls.wrapping_add(1);
                let empty = !self.fetch(shared, [true, self.own_turn(self.polls)])?;
                if empty && self.polls.is_multiple_of(POLLS) {
                    if until.stop.load(Ordering::Relaxed) {
                        return Ok(Wakeup::Stopped);
                    }
                    if shared.now() >= until.deadline_ns {
                        return Ok(Wakeup::TimedOut);
                    }
                }
                continue;
            }
            let now = shared.now();
            let due = self.timers(shared, now)?;
            if now >= until.deadline_ns {
                if looked {
                    return Ok(Wakeup::TimedOut);
                }
                looked = true;
                self.fetch(shared, [true; 2])?;
                continue;
            }
            looked = true;
            let sleep = due.min(until.deadline_ns).saturating_sub(now).min(self.nap_ns);
            // A sleep would be longer than that.
            let sleep = if sleep <= AHEAD_NS { 0 } else { sleep };
            match wait.wait(sleep)? {
                Woken::Ready([first, second]) => {
                    let ready = if self.member.is_some() { [first, second] } else { [false, first] };
                    self.fetch(shared, ready)?;
                }
                Woken::TimedOut => {
                    if until.stop.load(Ordering::Relaxed) {
                        return Ok(Wakeup::Stopped);
                    }
                }
                Woken::Interrupted => {
                    let stopped = until.stop.load(Ordering::Relaxed);
                    return Ok(if stopped { Wakeup::Stopped } else { Wakeup::Interrupted });
                }
            }
        }
    }

    /// Whether a spinning owner looks at the own socket this time: always, where there is no other.
    #[inline]
    fn own_turn(&self, turn: u32) -> bool {
        turn.is_multiple_of(LOOKS) || self.member.is_none()
    }

    /// Takes what was sent to the own source, without waiting.
    pub(crate) fn hear(&mut self, shared: &Shared) -> Result<(), PathError> {
        self.fetch(shared, [false, true]).map(|_| ())
    }

    /// Takes a message that is there, or comes with one look at the sockets.
    #[inline]
    pub(crate) fn look(&mut self, shared: &Shared, buffer: &mut [u8]) -> Result<Option<Delivered>, PathError> {
        if let Some(message) = self.next(shared, true, buffer)? {
            return Ok(Some(message));
        }
        self.looks = self.looks.wrapping_add(1);
        self.fetch(shared, [true, self.own_turn(self.looks)])?;
        self.next(shared, true, buffer)
    }

    #[inline]
    fn next(&mut self, shared: &Shared, deliver: bool, buffer: &mut [u8]) -> Result<Option<Delivered>, PathError> {
        loop {
            if self.ready && deliver {
                if self.row >= ROW {
                    while self.step(shared)? {}
                    self.fetch(shared, [true; 2])?;
                }
                match self.deliver(shared, buffer) {
                    Some(message) => {
                        self.row += 1;
                        return Ok(Some(message));
                    }
                    None => self.ready = false,
                }
            }
            if !self.step(shared)? {
                return Ok(None);
            }
        }
    }

    /// Takes what is in the sockets (group's, own) without waiting, and does what is due. The last batch must be empty.
    #[inline]
    fn fetch(&mut self, shared: &Shared, ready: [bool; 2]) -> Result<bool, PathError> {
        self.row = 0;
        let mut some = false;
        if let ([true, _], Some(member)) = (ready, &self.member) {
            some = self.batch.receive(member)? > 0;
        }
        let now = shared.now();
        // The first of the batch takes the next time, the others follow 1 ns apart.
        self.taken_ns = self.taken_ns.max(now.saturating_sub(1));
        if ready[1] && shared.sending.is_some() && self.own_batch.receive(&shared.own)? > 0 {
            some = true;
            shared.hear(|sending, now| {
                while let Some(datagram) = self.own_batch.take() {
                    sending.heard(now, self.peers.at(datagram.from), datagram.bytes);
                }
            })?;
        }
        self.timers(shared, now)?;
        Ok(some)
    }

    /// Gives the engine the next datagram of the batch.
    #[inline]
    fn step(&mut self, shared: &Shared) -> Result<bool, PathError> {
        let Self { receiver, batch, peers, stamps, foreign, own_tsi, notes, .. } = self;
        let (Some(datagram), Some(receiver)) = (batch.take(), receiver) else { return Ok(false) };
        // What a packet is and whose, without looking at the rest: the engine does that.
        let Ok(head) = Head::of(datagram.bytes) else {
            *foreign += 1;
            return Ok(true);
        };
        if *own_tsi == Some(head.tsi) {
            // A packet of the own source, or a request to it over the group.
            if head.goes_to_source() {
                let from = peers.at(datagram.from);
                shared.hear(|sending, now| sending.heard(now, from, datagram.bytes))?;
            }
            return Ok(true);
        }
        let Some(from) = peers.number(head.tsi) else {
            *foreign += 1;
            return Ok(true);
        };
        self.taken_ns += 1;
        let now = self.taken_ns;
        // What is no packet is counted there.
        if receiver.handle_datagram(now, datagram.from, datagram.bytes).is_ok() {
            peers.seen(from, datagram.from);
        }
        if matches!(head.kind, kind::ODATA | kind::RDATA) {
            self.ready = true;
            stamps.push(now, datagram.stack_ns);
        }
        // It may say that what is missing will not come, so that what follows is delivered.
        self.ready |= head.kind == kind::SPM;
        if let Some(what) = EventKind::came(head.kind, datagram.bytes) {
            notes.push(EventNote { at_ns: now, from, what });
        }
        self.collect(now);
        Ok(true)
    }

    #[inline]
    fn collect(&mut self, now: u64) {
        while let Some(event) = self.receiver.as_mut().and_then(Receiver::poll_event) {
            self.note(now, event);
        }
    }

    #[cold]
    fn note(&mut self, at_ns: u64, event: Event) {
        let from = self.peers.number_of(event.tsi);
        self.notes.push(EventNote { at_ns, from, what: EventKind::Session(event.what) });
        if self.events.len() < MOST_EVENTS {
            self.events.push_back(event);
        }
    }

    /// Does what time has made due, here and at the own source; returns when to come again.
    #[inline]
    fn timers(&mut self, shared: &Shared, now: u64) -> Result<u64, PathError> {
        let mut due = u64::MAX;
        if let Some(at) = self.receiver.as_ref().and_then(Receiver::poll_timeout) {
            due = at;
            if at <= now {
                self.timeout(shared, now.max(self.taken_ns))?;
                due = self.receiver.as_ref().and_then(Receiver::poll_timeout).unwrap_or(u64::MAX);
            }
        }
        if shared.due_ns() <= now {
            shared.serve()?;
        }
        Ok(due.min(shared.due_ns()))
    }

    fn timeout(&mut self, shared: &Shared, now: u64) -> Result<(), PathError> {
        let Some(receiver) = &mut self.receiver else { return Ok(()) };
        receiver.handle_timeout(now);
        // What was given up no longer holds back what follows.
        self.ready = true;
        loop {
            let mut more = true;
            while let Some(place) = self.out.place() {
                let out = receiver.poll_transmit(now, place);
                more = out.is_some();
                let Some(out) = out else { break };
                let bytes = place.get(..out.length).unwrap_or_default();
                let nak = Head::of(bytes).ok().filter(|head| head.kind == kind::NAK);
                if let Some(head) = nak
                    && let Some(what) = EventKind::asked(head.kind, bytes)
                {
                    let from = self.peers.number_of(head.tsi);
                    self.notes.push(EventNote { at_ns: now, from, what });
                }
                match (out.to, &self.group) {
                    (Destination::GroupOnLink, Some(group)) => self.out.push(out.length, group, Extra::OnLink),
                    (Destination::GroupOnLink, None) => {}
                    (Destination::Unicast(to), _) => {
                        let extra = if nak.is_some() && self.alert { Extra::RouterAlert } else { Extra::None };
                        self.out.push(out.length, &shared.own.target(to), extra);
                    }
                }
            }
            match self.out.flush(&shared.own) {
                // What is left goes first the next time.
                Ok(()) | Err(PathError::Interrupted) => {}
                Err(error) => return Err(error),
            }
            if !more {
                break;
            }
        }
        self.collect(now);
        Ok(())
    }

    #[inline]
    fn deliver(&mut self, shared: &Shared, buffer: &mut [u8]) -> Option<Delivered> {
        let message = self.receiver.as_mut()?.next_message(buffer)?;
        let from = self.peers.number_of(message.tsi);
        let stack_ns = self.stamps.find(message.received_ns);
        let mut held_ns = 0;
        if let Some(front) = self.peers.fronts.get_mut(usize::from(from)) {
            held_ns = front.saturating_sub(message.received_ns);
            *front = message.received_ns.max(*front);
        }
        if held_ns > 0 || message.repair.is_some() {
            let mut head = [0; HEAD];
            let whole = buffer.get(..message.length.min(buffer.len())).unwrap_or_default();
            for (to, byte) in head.iter_mut().zip(whole) {
                *to = *byte;
            }
            let note = RepairNote {
                from,
                head,
                bytes: u32::try_from(message.length).unwrap_or(u32::MAX),
                repair: message.repair,
                received_ns: message.received_ns,
                delivered_ns: shared.now(),
            };
            self.repairs.push(note);
        }
        Some(Delivered {
            bytes: message.length,
            tsi: message.tsi,
            from,
            first: message.first,
            repair: message.repair,
            held_ns,
            received_ns: message.received_ns,
            stack_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgm::Gsi;

    fn tsi(last: u8) -> Tsi {
        Tsi { gsi: Gsi([1, 2, 3, 4, 5, last]), port: 1000 + u16::from(last) }
    }

    #[test]
    fn peers_have_numbers() {
        let mut peers = Peers::new();
        assert_eq!((peers.number(tsi(1)), peers.number(tsi(2)), peers.number(tsi(1))), (Some(0), Some(1), Some(0)));
        peers.set(&[tsi(2)]);
        assert_eq!((peers.number(tsi(1)), peers.number(tsi(2))), (None, Some(0)));
        peers.set(&[]);
        assert_eq!(peers.number(tsi(9)), Some(0));
        let many = |port: u16| Tsi { port, ..tsi(1) };
        for port in 0..2000 {
            assert!(peers.number(many(port)).is_some(), "junk keeps nobody from having a number");
        }
        assert_eq!(peers.number(many(1999)), peers.number(many(1999)));
    }

    #[test]
    fn peers_are_known_by_their_addresses() {
        let [a, b, c] = ["10.0.0.1", "10.0.0.2", "fe80::1"].map(|text| text.parse::<IpAddr>().unwrap());
        let mut peers = Peers::new();
        peers.set(&[tsi(1), tsi(2), tsi(3)]);
        assert_eq!(peers.at(a), u16::MAX, "nobody was heard yet");
        peers.seen(0, a);
        peers.seen(2, c);
        assert_eq!([a, b, c].map(|address| peers.at(address)), [0, u16::MAX, 2]);
        peers.seen(1, a);
        assert_eq!(peers.at(a), u16::MAX, "which of two it is nobody can tell");
        peers.seen(1, b);
        assert_eq!([a, b, c].map(|address| peers.at(address)), [0, 1, 2], "one has moved");
        peers.set(&[tsi(3)]);
        assert_eq!(peers.at(c), u16::MAX, "others have these numbers now");
    }
}
