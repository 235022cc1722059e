//! A receiver: finds gaps, has them repaired, and delivers messages whole and in order (RFC 3208, section 6).
//!
//! It is driven from outside, as [`crate::Source`] is: datagrams go in by [`Receiver::handle_datagram`], NAKs and SPMRs come
//! out of [`Receiver::poll_transmit`], messages out of [`Receiver::next_message`], everything else that happens out of
//! [`Receiver::poll_event`]. [`Receiver::poll_timeout`] tells when to call [`Receiver::handle_timeout`] although nothing
//! arrived. It hears any number of sources up to a limit, each with a window and timers of its own. After [`Receiver::new`]
//! nothing is allocated.
//!
//! Every message tells whether it was repaired, and if so when its gap was seen, when it was asked for, confirmed and
//! received: what a late message was late for.

mod admission;
mod config;
mod context;
mod event;
mod origin;
mod peer;
mod session;
#[cfg(test)]
mod tests;
mod timers;

pub use config::{NakPath, ReceiverConfig};
pub use event::{Event, Message, Repair, SessionEvent};

use crate::packet::{Body, Data, Nak, NakList, Options, Packet, ParseError};
use crate::rate::Limiter;
use crate::source::ConfigError;
use crate::{Sqn, Tsi};
use admission::{OtherSources, PeerSlot};
use context::ReceiverContext;
use origin::Sender;
use peer::Peer;
use random::SplitMix64;
use session::Verdict;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

/// Numbers that one NAK asks for: its own and a list.
const ASKED: usize = 63;
/// Events that wait to be taken; the oldest go when there are more.
const MOST_EVENTS: usize = 1024;
/// Where a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// To one address: the source, or the last router before it that speaks PGM.
    Unicast(IpAddr),
    /// To the group, no farther than this link (TTL 1).
    GroupOnLink,
}

/// A packet to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "what has no comment is what its name says")]
pub struct Transmit {
    /// Its length in the caller's buffer.
    pub length: usize,
    pub to: Destination,
}

/// What a receiver counted so far, over all sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "what has no comment is what its name says")]
pub struct Counts {
    pub messages: u64,
    /// Data packets taken into a window, repairs included.
    pub packets: u64,
    /// Data packets that had come already, or were delivered or given up before.
    pub duplicates: u64,
    /// Numbers that were missing when a later one, or an SPM, came.
    pub missing: u64,
    /// Of these, those that came after all, or were computed.
    pub recovered: u64,
    /// Of these, those that were computed from parity (appendix A).
    pub recovered_by_parity: u64,
    /// Numbers that were given up or left the source's window.
    pub lost: u64,
    /// Packets of messages whose beginning or another part is lost.
    pub parts_dropped: u64,
    /// Data packets beyond the window, while the application had not taken what is in it.
    pub overflows: u64,
    pub naks: u64,
    /// Numbers in them.
    pub numbers_asked: u64,
    /// How often NAKs had to wait because the budget for NAKs was spent.
    pub naks_deferred: u64,
    /// SPMs that were dropped because NAKs cannot go where they say: another family, or an address that no host has.
    pub paths_refused: u64,
    /// Of the NAK packets, those that ask for parity.
    pub parity_naks: u64,
    /// Parity packets asked for in them.
    pub parity_asked: u64,
    /// Parity packets that were kept to be of use.
    pub parity_packets: u64,
    /// Parity packets of groups that were complete, or that cannot be used, as before the first SPM that offers parity.
    pub parity_unused: u64,
    /// Groups whose parity did not fit their data; it was dropped, and asked for again.
    pub parity_inconsistent: u64,
    pub ncfs: u64,
    pub spms: u64,
    pub spmrs: u64,
    /// Data and SPMs that fit no session unconfirmed, or came from another address: old copies and forgeries.
    pub doubted: u64,
    /// Sources that found no place; their data are not among those that are lost.
    pub sources_refused: u64,
    /// Sessions that took the place of another one of the same source.
    pub restarts: u64,
    /// Datagrams that were no packet, to another port, of one source too many, or parity of an unknown source.
    pub ignored: u64,
    /// Events that the caller did not take in time.
    pub events_dropped: u64,
}

#[derive(Debug)]
pub(crate) struct Events {
    waiting: VecDeque<Event>,
    dropped: u64,
}

impl Events {
    fn push(&mut self, tsi: Tsi, what: SessionEvent) {
        if self.waiting.len() >= MOST_EVENTS {
            self.waiting.pop_front();
            self.dropped += 1;
        }
        self.waiting.push_back(Event { tsi, what });
    }

    /// Neighbouring losses are one event.
    fn lost(&mut self, whose: Tsi, from: Sqn, more: u32) {
        if let Some(Event { tsi, what: SessionEvent::Lost { first, count } }) = self.waiting.back_mut()
            && *tsi == whose
            && first.plus(*count) == from
        {
            *count = count.saturating_add(more);
            return;
        }
        self.push(whose, SessionEvent::Lost { first: from, count: more });
    }
}

/// Whether a judged packet goes to its source; another session replaces one without messages to be delivered.
#[inline]
fn belongs(verdict: Verdict, peer: &mut Peer, window: (Sqn, Sqn), with: &mut ReceiverContext) -> bool {
    match verdict {
        Verdict::Fits | Verdict::Leapt => true,
        Verdict::Restarted if peer.end_session(with) => {
            peer.restart(window.0, window.1, with);
            true
        }
        Verdict::Restarted | Verdict::Doubted => {
            with.counts.doubted += 1;
            false
        }
    }
}

/// Whether NAKs can go to an address that an SPM from `from` names: one that a single host may have.
fn is_path(path: IpAddr, from: IpAddr) -> bool {
    let one_host = match path {
        // 0.0.0.0/8 and 240.0.0.0/4, which has 255.255.255.255.
        IpAddr::V4(v4) => !matches!(v4.octets()[0], 0 | 240..),
        IpAddr::V6(v6) => !v6.is_unspecified(),
    };
    one_host && !path.is_multicast() && (!path.is_loopback() || from.is_loopback())
}

/// A receiver of one group.
#[derive(Debug)]
pub struct Receiver {
    with: ReceiverContext,
    peers: Vec<Peer>,
    spare: Vec<Peer>,
    budget: Limiter,
    others: OtherSources,
    /// Whose turn it is to deliver.
    turn: usize,
}

impl Receiver {
    /// A receiver without a source yet.
    pub fn new(config: ReceiverConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let spare = std::iter::repeat_with(|| Peer::new(Tsi::default(), nowhere, &config));
        Ok(Self {
            with: ReceiverContext {
                config,
                random: SplitMix64::new(config.seed),
                counts: Counts::default(),
                events: Events { waiting: VecDeque::with_capacity(MOST_EVENTS), dropped: 0 },
            },
            peers: Vec::with_capacity(config.max_sources),
            spare: spare.take(config.max_sources).collect(),
            budget: Limiter::naks_to_all(),
            others: OtherSources::new(),
            turn: 0,
        })
    }

    /// Touches the memory of `sources` that were not heard yet, so that the operating system maps it now.
    pub fn reserve(&mut self, sources: usize) {
        for peer in self.spare.iter_mut().rev().take(sources) {
            peer.touch();
        }
    }

    /// What it counted so far.
    pub fn counts(&self) -> Counts {
        Counts { events_dropped: self.with.events.dropped, ..self.with.counts }
    }

    /// Takes a datagram's payload that came from `from`. After an error the receiver goes on.
    pub fn handle_datagram(&mut self, now_ns: u64, from: IpAddr, datagram: &[u8]) -> Result<(), ParseError> {
        let packet = Packet::parse(datagram).inspect_err(|_| self.with.counts.ignored += 1)?;
        let wanted = packet.data_port == self.with.config.data_port;
        let is_parity = packet.options.parity;
        let opens = matches!(packet.body, Body::Spm(_) | Body::Odata(_)) && !is_parity;
        let place = if wanted { self.place(now_ns, &packet, from, opens) } else { PeerSlot::None };
        let Self { peers, with, budget, .. } = self;
        let place = match place {
            PeerSlot::At(place) => peers.get_mut(place),
            PeerSlot::Old => return Ok(()),
            PeerSlot::None => None,
        };
        let Some(peer) = place else {
            with.counts.ignored += 1;
            return Ok(());
        };
        if matches!(packet.body, Body::Odata(_) | Body::Rdata(_)) {
            peer.budget.earn(datagram.len());
            budget.earn(datagram.len());
        }
        match &packet.body {
            Body::Odata(data) | Body::Rdata(data) if is_parity => {
                if matches!(packet.body, Body::Odata(_)) {
                    peer.parity_unasked();
                }
                peer.parity(now_ns, data, &packet.options, with);
            }
            // Nobody sends what has left his window.
            Body::Odata(data) | Body::Rdata(data) if data.trail.is_after(data.sqn) => with.counts.ignored += 1,
            Body::Odata(data) | Body::Rdata(data) => Self::data(now_ns, from, (&packet, data), peer, with),
            Body::Spm(spm) => {
                with.counts.spms += 1;
                if !is_path(spm.path, from) || spm.path.is_ipv4() != with.config.group.is_ipv4() {
                    with.counts.paths_refused += 1;
                    return Ok(());
                }
                if !peer.origin.spm(now_ns, from) {
                    with.counts.doubted += 1;
                    return Ok(());
                }
                let verdict = peer.rival.spm(now_ns, &peer.known(), spm);
                if belongs(verdict, peer, (spm.trail, spm.lead), with) {
                    peer.spm(now_ns, spm, &packet.options, with);
                }
            }
            Body::Ncf(nak) | Body::Nak(nak) => {
                let is_ncf = matches!(packet.body, Body::Ncf(_));
                with.counts.ncfs += u64::from(is_ncf);
                for sqn in std::iter::once(nak.sqn).chain(packet.options.nak_list.iter()) {
                    if is_parity {
                        peer.heard_parity(now_ns, sqn, is_ncf, with);
                    } else {
                        peer.heard(now_ns, sqn, is_ncf, with);
                    }
                }
            }
            Body::Spmr => peer.others_spmr(now_ns, with),
            Body::Poll(_) | Body::Polr(_) | Body::Nnak(_) | Body::Ack(_) => {}
        }
        Ok(())
    }

    /// Data for a source that is known, which is no parity.
    #[inline]
    fn data(
        now_ns: u64,
        from: IpAddr,
        (packet, data): (&Packet<'_>, &Data<'_>),
        peer: &mut Peer,
        with: &mut ReceiverContext,
    ) {
        let original = matches!(packet.body, Body::Odata(_));
        let mut data = *data;
        let fits = from == peer.origin.address || peer.lacks(data.sqn);
        match peer.origin.data(now_ns, from, original, fits) {
            Sender::Source => {}
            Sender::Moved => peer.moved(now_ns, with),
            // A repair by another host; only the source knows what can be repaired.
            Sender::Stranger if fits => data.trail = peer.trail,
            Sender::Stranger => {
                with.counts.doubted += 1;
                return;
            }
        }
        let verdict = peer.rival.data(now_ns, &peer.known(), &data, original);
        if belongs(verdict, peer, (data.trail, data.sqn), with) {
            if original {
                peer.goes_on(data.sqn, with);
            }
            peer.data(now_ns, &data, &packet.options, with);
        }
    }

    /// Does what time has made due: NAKs whose wait is over, numbers to be given up, sources to be forgotten.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        let Self { peers, spare, with, .. } = self;
        for peer in peers.iter_mut() {
            peer.timeout(now_ns, with);
        }
        let mut place = 0;
        while let Some(peer) = peers.get_mut(place) {
            if now_ns.saturating_sub(peer.heard_ns) < with.config.expiry_ns {
                peer.expired = false;
                place += 1;
                continue;
            }
            if !peer.is_finished() {
                // What came is delivered first.
                peer.expired = true;
                if !peer.end_session(with) {
                    place += 1;
                    continue;
                }
                with.events.push(peer.tsi, SessionEvent::Expired);
            }
            spare.push(peers.swap_remove(place));
        }
    }

    /// When to call [`Self::handle_timeout`] and [`Self::poll_transmit`] without an arrival; the caller's now: at once.
    pub fn poll_timeout(&self) -> Option<u64> {
        let of = |peer: &Peer| {
            let none = (peer.naks.is_empty() && !peer.parity.has_naks()) || peer.path.is_none();
            let waiting = if none { None } else { Some(peer.budget.nak_ready_ns().max(self.budget.nak_ready_ns())) };
            let expiry = peer.heard_ns.saturating_add(self.with.config.expiry_ns);
            // The application has its messages to take first.
            let expiry = if peer.expired { u64::MAX } else { expiry };
            [waiting, peer.timer(), peer.spmr_ns].into_iter().flatten().fold(expiry, u64::min)
        };
        self.peers.iter().map(of).min()
    }

    /// The next packet to be sent now, written into `buffer` of 400 bytes: NAKs, and SPMRs while their path is unknown.
    pub fn poll_transmit(&mut self, now_ns: u64, buffer: &mut [u8]) -> Option<Transmit> {
        let Self { peers, with, budget, .. } = self;
        for peer in peers {
            if peer.spmr_ns.is_some_and(|due| due <= now_ns) {
                return Self::spmr(now_ns, peer, with, buffer);
            }
            let Some(path) = peer.path else { continue };
            if peer.naks.is_empty() && !peer.parity.has_naks() {
                continue;
            }
            if !peer.budget.allows_nak(now_ns) || !budget.allows_nak(now_ns) {
                with.counts.naks_deferred += u64::from(!std::mem::replace(&mut peer.deferred, true));
                continue;
            }
            peer.deferred = false;
            let mut numbers = [Sqn::default(); ASKED];
            let mut count = 0;
            while let Some(place) = numbers.get_mut(count) {
                let Some(sqn) = peer.next_nak(now_ns, with) else { break };
                *place = sqn;
                count += 1;
            }
            // A list is of single packets or of parity, never of both (section 9.3).
            let parity = count == 0;
            while let Some(place) = numbers.get_mut(count).filter(|_| parity) {
                let Some(sqn) = peer.next_parity_nak(now_ns, with) else { break };
                *place = sqn;
                count += 1;
                with.counts.parity_asked += peer.asked_in(sqn);
            }
            // Section 6.3: the oldest first.
            if let Some(numbers) = numbers.get_mut(..count) {
                numbers.sort_unstable_by_key(|sqn| peer.ahead(*sqn));
            }
            let Some((first, list)) = numbers.get(..count).and_then(<[Sqn]>::split_first) else { continue };
            let body = Body::Nak(Nak { sqn: *first, source: peer.origin.address, group: with.config.group });
            let options = Options { nak_list: NakList::Numbers(list), parity, ..Options::default() };
            let packet = Packet { tsi: peer.tsi, data_port: with.config.data_port, body, options };
            let length = packet.write(buffer).ok()?;
            peer.budget.take(now_ns, length);
            budget.take(now_ns, length);
            with.counts.naks += 1;
            with.counts.parity_naks += u64::from(parity);
            with.counts.numbers_asked += count as u64;
            return Some(Transmit { length, to: Destination::Unicast(path) });
        }
        None
    }

    /// Section 13.5: to the group on this link, so that others need not ask, then to the source.
    fn spmr(now_ns: u64, peer: &mut Peer, with: &mut ReceiverContext, buffer: &mut [u8]) -> Option<Transmit> {
        let data_port = with.config.data_port;
        let packet = Packet { tsi: peer.tsi, data_port, body: Body::Spmr, options: Options::default() };
        let length = packet.write(buffer).ok()?;
        with.counts.spmrs += 1;
        let to = if peer.spmr_told { Destination::Unicast(peer.origin.address) } else { Destination::GroupOnLink };
        if peer.spmr_told {
            peer.spmr_again(now_ns, with);
        } else {
            peer.spmr_told = true;
        }
        Some(Transmit { length, to })
    }

    /// The next message that is whole and whose turn it is; it is copied into `out`. The sources take turns.
    pub fn next_message(&mut self, out: &mut [u8]) -> Option<Message> {
        let Self { peers, with, turn, .. } = self;
        for _ in 0..peers.len() {
            *turn = (*turn + 1) % peers.len();
            let peer = peers.get_mut(*turn)?;
            let message = peer.next_message(out, with);
            if message.is_some() {
                return message;
            }
        }
        None
    }

    /// What happened next beside messages.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.with.events.waiting.pop_front()
    }
}
