//! Parity as a receiver uses it (section 11.5): groups instead of single numbers are asked for, and what is missing is
//! computed from what came.
//!
//! A parity packet is kept in the place of a packet that its group lacks: a group never needs more of them than it has such
//! places, so they take no memory of their own.

mod ask;
mod recover;

use super::super::timers::Timers;
use super::{Peer, Phase, ReceiverContext, State};
use crate::Sqn;
use crate::fec::{self, CHUNK, MAX_BLOCK, MAX_GROUP};
use crate::packet::{Data, ENCODED_FRAGMENT_BYTES, Options, ParityParameters};
use crate::receiver::ReceiverConfig;
use std::collections::VecDeque;

/// NAKs for parity that may wait to be sent; a group that finds no room backs off again.
const MOST_NAKS: usize = 1024;

#[derive(Debug, Clone, Copy, Default)]
struct Group {
    first: Sqn,
    live: bool,
    /// Its data packets; 0: not known, and then as many as groups usually have.
    size: u32,
    held: u32,
    /// What they have in common.
    length: usize,
    variable: bool,
    fragments: bool,
    /// The state of its repair; absent: nothing is asked for.
    phase: Option<Phase>,
    /// Packets that the last NCF promised.
    confirmed: u32,
    ncf_retries: u32,
    data_retries: u32,
    nak_ns: Option<u64>,
    ncf_ns: Option<u64>,
    naks: u32,
    queued: bool,
}

/// A parity packet in the place of a data packet.
#[derive(Debug, Clone, Copy)]
struct ParityPacket {
    /// Its number among the group's parity packets.
    index: usize,
    fragment: [u8; ENCODED_FRAGMENT_BYTES],
}

/// Memory that each number of a window takes for parity: half a group with its timer, and what is kept.
pub(in crate::receiver) const PLACE_BYTES: usize =
    (size_of::<Group>() + size_of::<(u64, u32)>() + size_of::<u32>()) / 2 + size_of::<Option<ParityPacket>>();

/// What a peer keeps for parity.
#[derive(Debug)]
pub(in crate::receiver) struct Parity {
    /// Data packets of a whole group; 0: not known, or the source has no parity.
    group_packets: u32,
    on_demand: bool,
    proactive: bool,
    /// Groups from this number on are repaired by parity; those before were begun without.
    from: Sqn,
    /// Groups before this number are known to be over.
    closed: Sqn,
    /// Numbers beyond the newest that no packet has.
    skip: Option<(Sqn, Sqn)>,
    /// By place; none where parity is not to be used.
    groups: Vec<Group>,
    held: Vec<Option<ParityPacket>>,
    timers: Timers,
    naks: VecDeque<Sqn>,
    /// Chunks of the packets that are computed together.
    scratch: Vec<u8>,
}

impl Parity {
    pub(super) fn new(config: &ReceiverConfig) -> Self {
        let used = config.parity;
        let (groups, places) = if used { (config.window_packets / 2, config.window_packets) } else { (0, 0) };
        Self {
            group_packets: 0,
            on_demand: false,
            proactive: false,
            from: Sqn(0),
            closed: Sqn(0),
            skip: None,
            groups: vec![Group::default(); groups as usize],
            held: vec![None; places as usize],
            timers: Timers::new(groups),
            naks: VecDeque::with_capacity(if used { MOST_NAKS } else { 0 }),
            scratch: vec![0; if used { MAX_GROUP * CHUNK } else { 0 }],
        }
    }

    /// Forgets everything, keeps the memory.
    pub(super) fn reuse(&mut self) {
        for place in 0..self.groups.len() {
            self.timers.clear(u32::try_from(place).unwrap_or(u32::MAX));
        }
        self.groups.fill(Group::default());
        self.held.fill(None);
        self.naks.clear();
        (self.group_packets, self.on_demand, self.skip) = (0, false, None);
    }

    fn is_used(&self) -> bool {
        self.group_packets > 0 && !self.groups.is_empty()
    }

    fn first_of(&self, sqn: Sqn) -> Sqn {
        Sqn(sqn.0 & !(self.group_packets.max(1) - 1))
    }

    fn within(&self, sqn: Sqn) -> u32 {
        sqn.0 & (self.group_packets.max(1) - 1)
    }

    fn place(&self, first: Sqn) -> u32 {
        let groups = u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
        // There are places for groups of two; larger ones leave some of them free.
        (first.0 / self.group_packets.max(1)) & (groups.max(1) - 1)
    }

    fn group(&self, first: Sqn) -> Option<&Group> {
        self.groups.get(self.place(first) as usize).filter(|group| group.live && group.first == first)
    }

    /// The group that begins with this number, which lies in the window; a new one where another has its place.
    fn touch(&mut self, first: Sqn) -> Option<&mut Group> {
        let place = self.place(first);
        if self.group(first).is_none() {
            self.timers.clear(place);
        }
        let group = self.groups.get_mut(place as usize)?;
        if !group.live || group.first != first {
            *group = Group { first, live: true, ..Group::default() };
        }
        Some(group)
    }

    /// Whether no packet has this number, which is beyond the newest.
    pub(super) fn skips(&self, sqn: Sqn) -> bool {
        self.skip.is_some_and(|(from, until)| sqn.distance_from(from) < until.distance_from(from))
    }

    /// The place belongs to another number from now on.
    pub(super) fn vacate(&mut self, place: u32) {
        if let Some(held) = self.held.get_mut(place as usize) {
            *held = None;
        }
    }

    pub(super) fn timer(&self) -> Option<u64> {
        self.timers.first()
    }

    pub(in crate::receiver) fn has_naks(&self) -> bool {
        !self.naks.is_empty()
    }
}

impl Peer {
    /// Whether a number is repaired together with its group.
    pub(super) fn by_group(&self, sqn: Sqn) -> bool {
        self.parity.is_used() && !sqn.is_before(self.parity.from)
    }

    /// The oldest number whose packet is kept: the next to be delivered, or, for parity, the first of its group.
    pub(super) fn floor(&self) -> Sqn {
        if self.parity.is_used() { self.parity.first_of(self.base) } else { self.base }
    }

    /// The first number of a group at or after this one; the number itself without parity.
    pub(super) fn boundary(&self, sqn: Sqn) -> Sqn {
        if !self.parity.is_used() {
            return sqn;
        }
        let first = self.parity.first_of(sqn);
        if first == sqn { sqn } else { first.plus(self.parity.group_packets) }
    }

    /// The window went on without what lies before its base: groups that lack their beginning are not for parity.
    pub(super) fn leapt(&mut self) {
        let whole = self.boundary(self.base);
        if self.parity.is_used() && whole.is_after(self.parity.from) {
            self.parity.from = whole;
        }
    }

    /// An SPM tells that the source has parity (OPT_PARITY_PRM). It cannot change.
    pub(super) fn offered(&mut self, offer: Option<ParityParameters>) {
        let Some(offer) = offer.filter(|_| self.parity.group_packets == 0) else { return };
        let fits = fec::is_group_size(offer.group_size) && offer.group_size <= self.capacity() / 2;
        if !fits || !(offer.proactive || offer.on_demand) {
            return;
        }
        self.parity.group_packets = offer.group_size;
        (self.parity.on_demand, self.parity.proactive) = (offer.on_demand, offer.proactive);
        self.parity.from = self.boundary(self.end);
        self.parity.closed = self.parity.from;
    }

    /// A group was ended early (OPT_CURR_TGSIZE): no packet has the numbers that it lacks.
    pub(super) fn short_group(&mut self, now_ns: u64, sqn: Sqn, size: Option<u32>, with: &mut ReceiverContext) {
        let whole = self.parity.group_packets;
        let Some(size) = size.filter(|size| (1..whole).contains(size)) else { return };
        let first = self.parity.first_of(sqn);
        if !self.started || first.distance_from(self.parity.first_of(self.base)) >= self.capacity() {
            return;
        }
        if self.parity.is_used()
            && let Some(group) = self.parity.touch(first)
        {
            if group.size != 0 {
                return;
            }
            group.size = size;
        }
        let (from, until) = (first.plus(size), first.plus(whole));
        // The source sends it when all data of the group were sent.
        if from.is_after(self.end) {
            self.expect(now_ns, from, with);
            self.end = from;
        }
        for sqn in from.until(until) {
            if self.is_missing(sqn) {
                let place = self.place(sqn);
                self.timers.clear(place);
                self.parity.vacate(place);
                self.slot_mut(sqn).state = State::Skipped;
                with.counts.missing -= 1;
            }
        }
        if self.end.is_before(until) {
            self.parity.skip = Some((from, until));
        }
        self.settle(with);
    }

    /// At the end of all that is known of, numbers without a packet are no loss. Whether there were some.
    pub(super) fn pass_skipped(&mut self) -> bool {
        let Some((_, until)) = self.parity.skip.filter(|(from, _)| *from == self.base) else { return false };
        if self.base != self.end || !self.trail.is_after(self.base) {
            return false;
        }
        (self.base, self.end) = (until, until);
        true
    }

    /// Looks for groups that are over, because something behind them is known of (section 11.5): what they lack is asked for.
    pub(super) fn close_groups(&mut self, now_ns: u64, with: &mut ReceiverContext) {
        if !self.parity.is_used() || !self.started {
            return;
        }
        let whole = self.parity.group_packets;
        let last = self.parity.first_of(self.end);
        let ended = self.parity.group(last).is_some_and(|group| group.size > 0 && last.plus(group.size) == self.end);
        let until = if ended { last.plus(whole) } else { last };
        let floor = self.floor();
        self.parity.closed = self.parity.closed.later(floor);
        while self.parity.closed.is_before(until) {
            let first = self.parity.closed;
            self.parity.closed = first.plus(whole);
            if self.by_group(first) {
                self.close_group(now_ns, first, with);
            }
        }
    }

    fn close_group(&mut self, now_ns: u64, first: Sqn, with: &mut ReceiverContext) {
        if self.missing(first) == 0 {
            return;
        }
        for sqn in self.group_numbers(first) {
            if self.is_missing(sqn) {
                self.timers.clear(self.place(sqn));
                self.slot_mut(sqn).state = State::Missing(Phase::Grouped);
            }
        }
        self.recover(now_ns, first, with);
        if self.missing(first) == 0 {
            return;
        }
        let wanted = self.wanted(first);
        let promised = |group: &Group| group.phase == Some(Phase::WaitData) && group.confirmed >= wanted;
        if self.parity.group(first).is_some_and(promised) {
            self.group_waits(first, Phase::WaitData, now_ns.saturating_add(with.config.data_ns));
        } else {
            self.back_off_group(now_ns, first, with);
        }
    }

    fn group_numbers(&self, first: Sqn) -> impl Iterator<Item = Sqn> + use<> {
        first.until(first.plus(self.parity.group_packets))
    }

    fn is_missing(&self, sqn: Sqn) -> bool {
        self.holds(sqn) && matches!(self.slot(sqn).state, State::Missing(_))
    }

    fn missing(&self, first: Sqn) -> usize {
        self.group_numbers(first).filter(|sqn| self.is_missing(*sqn)).count()
    }

    /// Whether a packet of a group that is for parity is there, delivered or not.
    fn has(&self, sqn: Sqn) -> bool {
        sqn.is_before(self.end) && self.slot(sqn).state == State::Have
    }

    /// Parity packets to ask for: as if the group were whole (section 11.5).
    fn wanted(&self, first: Sqn) -> u32 {
        let whole = self.parity.group_packets;
        let have = self.group_numbers(first).filter(|sqn| self.has(*sqn)).count();
        let held = self.parity.group(first).map_or(0, |group| group.held);
        whole.saturating_sub(u32::try_from(have).unwrap_or(u32::MAX)).saturating_sub(held).max(1)
    }

    /// Parity came unasked. A source that offered none of that has the two bits of OPT_PARITY_PRM the other way
    /// round, as OpenPGM has: it answers no NAK for parity, so single packets are asked for.
    pub(in crate::receiver) fn parity_unasked(&mut self) {
        if self.parity.on_demand && !self.parity.proactive {
            (self.parity.on_demand, self.parity.proactive) = (false, true);
        }
    }

    pub(in crate::receiver) fn parity(
        &mut self,
        now_ns: u64,
        data: &Data<'_>,
        options: &Options<'_>,
        with: &mut ReceiverContext,
    ) {
        let whole = self.parity.group_packets;
        // SPMs have the size of groups, and the first may be lost.
        if !self.started || whole == 0 || data.trail.is_after(self.end) {
            with.counts.parity_unused += 1;
            return;
        }
        self.heard_ns = now_ns;
        self.advance(data.trail, with);
        self.short_group(now_ns, data.sqn, options.current_group_size, with);
        let first = self.parity.first_of(data.sqn);
        let group_index = usize::try_from(options.parity_group.unwrap_or(0)).unwrap_or(usize::MAX);
        let index = group_index.saturating_mul(whole as usize).saturating_add(self.parity.within(data.sqn) as usize);
        let useful = self.by_group(first)
            && first.plus(whole).is_after(self.base)
            && first.distance_from(self.floor()) < self.capacity()
            && index < MAX_BLOCK - whole as usize;
        let least = if options.variable_length { 2 } else { 0 };
        if !useful || !(least..=self.slot_bytes).contains(&data.payload.len()) {
            with.counts.parity_unused += 1;
            return;
        }
        let Some(group) = self.parity.touch(first) else { return };
        if group.size == 0 {
            group.size = whole;
        }
        // All data of the group were sent.
        let end = first.plus(group.size);
        if end.is_after(self.end) {
            self.expect(now_ns, end, with);
            self.end = end;
        }
        if self.keep(first, index, data.payload, options) {
            with.counts.parity_packets += 1;
        } else {
            with.counts.parity_unused += 1;
        }
        self.close_groups(now_ns, with);
        self.recover(now_ns, first, with);
        self.settle(with);
    }
}
