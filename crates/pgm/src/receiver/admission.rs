//! Which sources are received: a place for each up to a limit, and what is remembered of those that had to leave.

use super::origin::{Origin, SILENT_NS};
use super::peer::Peer;
use super::session::{Rival, SessionExtent, Verdict};
use super::{Receiver, SessionEvent};
use crate::Tsi;
use crate::packet::{Body, Data, Packet};
use std::net::IpAddr;

/// A source of which one packet was heard, and no more for so long, makes room: it may be forged.
const UNPROVEN_NS: u64 = 100_000_000;
/// Sources that have left, of which something is kept.
const MOST_GONE: usize = 256;
/// Refused sources with one event each; further ones may have several.
const MOST_REFUSED: usize = 64;

/// A source that has left its place to another.
#[derive(Debug, Clone, Copy)]
pub(super) struct FormerSource {
    tsi: Tsi,
    origin: Origin,
    known: SessionExtent,
    finished: bool,
    rival: Rival,
    heard_ns: u64,
}

/// What a packet of a source without a place is.
enum PacketOrigin {
    New,
    /// It goes on.
    Resumed(SessionExtent),
    /// Another session.
    Restarted,
    /// The last words of a session that has ended.
    Old,
}

/// Sources beside those that have a place.
#[derive(Debug)]
pub(super) struct OtherSources {
    gone: Vec<FormerSource>,
    refused: Vec<Tsi>,
    /// Which of `refused` is forgotten next.
    oldest: usize,
}

impl OtherSources {
    pub(super) fn new() -> Self {
        Self { gone: Vec::with_capacity(MOST_GONE), refused: Vec::with_capacity(MOST_REFUSED), oldest: 0 }
    }

    fn remember(&mut self, peer: &Peer) {
        if self.gone.len() >= MOST_GONE {
            let oldest = self.gone.iter().enumerate().min_by_key(|(_, gone)| gone.heard_ns).map(|(at, _)| at);
            if let Some(oldest) = oldest {
                self.gone.swap_remove(oldest);
            }
        }
        self.gone.push(FormerSource {
            tsi: peer.tsi,
            origin: peer.origin,
            known: peer.known(),
            finished: peer.is_finished(),
            rival: peer.rival,
            heard_ns: peer.heard_ns,
        });
    }

    /// Whether a refused source has had no event yet.
    fn is_news(&mut self, tsi: Tsi) -> bool {
        if self.refused.contains(&tsi) {
            return false;
        }
        if self.refused.len() < MOST_REFUSED {
            self.refused.push(tsi);
        } else if let Some(place) = self.refused.get_mut(self.oldest) {
            *place = tsi;
            self.oldest = (self.oldest + 1) % MOST_REFUSED;
        }
        true
    }
}

impl FormerSource {
    fn returns(&mut self, now_ns: u64, packet: &Packet<'_>) -> PacketOrigin {
        let (verdict, news) = match &packet.body {
            Body::Spm(spm) => (self.rival.spm(now_ns, &self.known, spm), spm.lead.next().is_after(self.known.end)),
            Body::Odata(data) => {
                let Data { sqn, .. } = *data;
                (self.rival.data(now_ns, &self.known, data, true), !sqn.is_before(self.known.end))
            }
            _ => (Verdict::Doubted, false),
        };
        match verdict {
            Verdict::Restarted => PacketOrigin::Restarted,
            _ if !self.finished => PacketOrigin::Resumed(self.known),
            Verdict::Leapt => PacketOrigin::Resumed(self.known),
            Verdict::Fits if news => PacketOrigin::Resumed(self.known),
            Verdict::Fits | Verdict::Doubted => PacketOrigin::Old,
        }
    }
}

/// Where a source's packet goes.
pub(super) enum PeerSlot {
    At(usize),
    /// Nothing is to be done with it.
    Old,
    None,
}

impl Receiver {
    /// The place of a packet's source; `opens`: whether such a packet makes a source known.
    #[inline]
    pub(super) fn place(&mut self, now_ns: u64, packet: &Packet<'_>, from: IpAddr, opens: bool) -> PeerSlot {
        match self.peers.iter().position(|peer| peer.tsi == packet.tsi) {
            Some(place) => PeerSlot::At(place),
            None if opens => self.admit(now_ns, packet, from),
            None => PeerSlot::None,
        }
    }

    #[cold]
    fn admit(&mut self, now_ns: u64, packet: &Packet<'_>, from: IpAddr) -> PeerSlot {
        let tsi = packet.tsi;
        let expiry_ns = self.with.config.expiry_ns;
        self.others.gone.retain(|gone| now_ns.saturating_sub(gone.heard_ns) < expiry_ns);
        let gone = self.others.gone.iter_mut().enumerate().find(|(_, gone)| gone.tsi == tsi);
        let (left, returns) = match gone {
            Some((at, gone)) => (Some(at), gone.returns(now_ns, packet)),
            None => (None, PacketOrigin::New),
        };
        if matches!(returns, PacketOrigin::Old) {
            return PeerSlot::Old;
        }
        let with_data = matches!(packet.body, Body::Odata(_));
        if self.peers.len() >= self.with.config.max_sources && !self.make_place(now_ns, with_data) {
            if self.others.is_news(tsi) {
                self.with.counts.sources_refused += 1;
                self.with.events.push(tsi, SessionEvent::Refused);
            }
            return PeerSlot::None;
        }
        // Making a place may have moved it, but not forgotten: it only adds.
        let mut origin = Origin::new(from, now_ns);
        if let Some(at) = left.filter(|at| self.others.gone.get(*at).is_some_and(|gone| gone.tsi == tsi)) {
            origin = self.others.gone.swap_remove(at).origin;
        }
        let Some(mut peer) = self.spare.pop() else { return PeerSlot::None };
        peer.reuse(tsi, origin);
        peer.heard_ns = now_ns;
        let event = match returns {
            PacketOrigin::Restarted => SessionEvent::Restarted,
            PacketOrigin::Resumed(known) => {
                peer.resume(&known);
                SessionEvent::Found
            }
            PacketOrigin::New | PacketOrigin::Old => SessionEvent::Found,
        };
        self.with.events.push(tsi, event);
        self.peers.push(peer);
        PeerSlot::At(self.peers.len() - 1)
    }

    /// Removes a source that has ended, that sent only SPMs while the other has data, that may be forged, or that is
    /// silent, in this order, the longest silent first. Whether one was found; undelivered messages keep a source.
    fn make_place(&mut self, now_ns: u64, with_data: bool) -> bool {
        let Self { peers, spare, with, others, .. } = self;
        let rank = |(at, peer): (usize, &Peer)| {
            let silent_ns = now_ns.saturating_sub(peer.heard_ns);
            match () {
                () if peer.is_finished() => Some((0, peer.heard_ns, at)),
                () if with_data && !peer.has_data => Some((1, peer.heard_ns, at)),
                () if peer.heard < 2 && silent_ns >= UNPROVEN_NS => Some((2, peer.heard_ns, at)),
                () if silent_ns >= SILENT_NS => Some((3, peer.heard_ns, at)),
                () => None,
            }
        };
        let mut tried = None;
        loop {
            let ranked = peers.iter().enumerate().filter_map(rank).filter(|&next| tried.is_none_or(|last| next > last));
            let Some(next @ (_, _, at)) = ranked.min() else { return false };
            let Some(peer) = peers.get_mut(at) else { return false };
            if !peer.is_finished() {
                if !peer.end_session(with) {
                    tried = Some(next);
                    continue;
                }
                with.events.push(peer.tsi, SessionEvent::Expired);
            }
            let peer = peers.swap_remove(at);
            others.remember(&peer);
            spare.push(peer);
            return true;
        }
    }
}
