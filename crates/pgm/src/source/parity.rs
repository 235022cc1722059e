//! Parity of a source (section 11.4): which groups it is owed for, and the packets that carry it.

use super::window::Window;
use super::{Class, DATA_HEAD_BYTES, MOST_NCFS, Next, Queue, Source, SourceConfig, Transmit};
use crate::Sqn;
use crate::fec::{self, Basis, MAX_GROUP, combine};
use crate::packet::{Body, Data, ENCODED_FRAGMENT_BYTES, Fragment, Options, Packet, ParityParameters};

#[derive(Debug, Clone, Copy, Default)]
struct Group {
    first: Sqn,
    /// Its data packets: fewer than usual when it was ended early.
    size: u32,
    longest: usize,
    shortest: usize,
    has_fragments: bool,
    /// All its data were sent.
    complete: bool,
    /// Parity to be sent unasked.
    proactive: u32,
    /// Parity asked for and not sent.
    pending: u32,
    /// It is among those that wait for their repair.
    queued: bool,
    /// The next parity packet's number. No number is used twice before all were (section 11.4).
    index: u32,
    /// When the last NCF went out, and what it confirmed.
    ncf_ns: Option<u64>,
    confirmed: u32,
}

impl Group {
    fn is_variable(&self) -> bool {
        self.longest != self.shortest
    }
}

/// What a source keeps for parity. All memory is taken at the start.
#[derive(Debug)]
pub(super) struct Parity {
    config: fec::Config,
    basis: Basis,
    groups: Vec<Group>,
    /// NCFs to be sent: a group's number and, in the low bits, how many packets less one.
    pub(super) ncfs: Queue,
    /// Groups with parity that was asked for.
    repairs: Queue,
    /// The group whose unasked parity goes out before any new data.
    pub(super) due: Option<Sqn>,
    /// When the last group, not full, is ended.
    pub(super) pause_over_ns: Option<u64>,
    payload: Vec<u8>,
}

impl Parity {
    pub(super) fn new(config: fec::Config, source: &SourceConfig) -> Self {
        let groups = (source.window_packets / config.group_packets) as usize;
        Self {
            basis: Basis::of_data(config.group_packets as usize),
            groups: vec![Group::default(); groups],
            ncfs: Queue::new(MOST_NCFS),
            repairs: Queue::new(groups),
            due: None,
            pause_over_ns: None,
            payload: vec![0; source.max_packet_bytes],
            config,
        }
    }

    fn first_of(&self, sqn: Sqn) -> Sqn {
        Sqn(sqn.0 & !(self.config.group_packets - 1))
    }

    fn within(&self, sqn: Sqn) -> u32 {
        sqn.0 & (self.config.group_packets - 1)
    }

    fn place(&self, sqn: Sqn) -> usize {
        (sqn.0 / self.config.group_packets) as usize & (self.groups.len() - 1)
    }

    /// The group of a number, if it is the one in its place.
    fn group(&self, sqn: Sqn) -> Option<&Group> {
        let first = self.first_of(sqn);
        self.groups.get(self.place(sqn)).filter(|group| group.first == first && group.size > 0)
    }

    fn group_mut(&mut self, sqn: Sqn) -> Option<&mut Group> {
        let (first, place) = (self.first_of(sqn), self.place(sqn));
        self.groups.get_mut(place).filter(|group| group.first == first && group.size > 0)
    }

    /// A packet got its number.
    pub(super) fn pushed(&mut self, sqn: Sqn, length: usize, is_fragment: bool) {
        let (first, place, size) = (self.first_of(sqn), self.place(sqn), self.config.group_packets);
        let Some(group) = self.groups.get_mut(place) else { return };
        if sqn == first {
            *group = Group { first, size, longest: length, shortest: length, ..Group::default() };
        }
        group.longest = group.longest.max(length);
        group.shortest = group.shortest.min(length);
        group.has_fragments |= is_fragment;
    }

    pub(super) fn clear(&mut self) {
        self.ncfs.0.clear();
        self.repairs.0.clear();
        self.due = None;
        self.pause_over_ns = None;
    }

    pub(super) fn is_idle(&self) -> bool {
        self.due.is_none() && self.ncfs.0.is_empty() && self.repairs.0.is_empty()
    }

    pub(super) fn parameters(&self) -> ParityParameters {
        ParityParameters {
            proactive: self.config.proactive_packets > 0,
            on_demand: self.config.on_demand,
            group_size: self.config.group_packets,
        }
    }

    /// All data of a group were sent: parity begins (section 11.4).
    fn complete(&mut self, sqn: Sqn) {
        let unasked = self.config.proactive_packets;
        let Some(group) = self.group_mut(sqn) else { return };
        group.complete = true;
        group.proactive = unasked;
        if unasked > 0 {
            self.due = Some(group.first);
        } else {
            self.release(sqn);
        }
    }

    /// Parity that was asked for may go out, once all data and all unasked parity of the group have.
    fn release(&mut self, sqn: Sqn) {
        let Some(group) = self.group_mut(sqn) else { return };
        let first = group.first;
        if group.pending > 0 && !group.queued && group.complete && group.proactive == 0 {
            group.queued = true;
            self.repairs.push(first);
        }
    }

    /// One parity packet of a group goes out; its number. What was asked for is used up first by what was asked for.
    fn took(&mut self, first: Sqn, on_demand: bool) -> Option<u32> {
        let most = self.config.most_parity();
        let group = self.group_mut(first)?;
        let index = group.index;
        group.index = if index + 1 < most { index + 1 } else { 0 };
        if on_demand {
            group.pending = group.pending.saturating_sub(1);
            if group.pending == 0 {
                group.queued = false;
                self.repairs.0.pop_front();
            }
        } else {
            group.proactive = group.proactive.saturating_sub(1);
            if group.proactive == 0 {
                self.due = None;
                self.release(first);
            }
        }
        Some(index)
    }

    /// Bytes of options in a group's parity packet with this number.
    fn option_bytes(&self, group: &Group, index: u32) -> usize {
        let mut bytes = 0;
        bytes += if group.size < self.config.group_packets { 8 } else { 0 };
        bytes += if index >= self.config.group_packets { 8 } else { 0 };
        bytes += if group.has_fragments { 16 } else { 0 };
        if bytes > 0 { 4 + bytes } else { 0 }
    }

    /// Makes parity packet `index` (section 11.2): payload length, parity over OPT_FRAGMENT. Short groups have zeros.
    fn make(&mut self, window: &Window, group: &Group, index: u32) -> (usize, Option<[u8; ENCODED_FRAGMENT_BYTES]>) {
        let mut coefficients = [0; MAX_GROUP];
        self.basis.coefficients((self.config.group_packets + index) as usize, &mut coefficients);
        let size = group.size as usize;
        let coefficients = coefficients.get(..size).unwrap_or_default();
        let number = |at: usize| group.first.plus(u32::try_from(at).unwrap_or_default());
        let room = self.payload.get_mut(..group.longest).unwrap_or_default();
        combine(coefficients, |at| window.payload(number(at)).0, room);
        let mut length = group.longest;
        if group.is_variable() {
            let mut lengths = [[0; 2]; MAX_GROUP];
            for (at, place) in lengths.iter_mut().enumerate().take(size) {
                *place = u16::try_from(window.payload(number(at)).0.len()).unwrap_or(u16::MAX).to_be_bytes();
            }
            let room = self.payload.get_mut(length..length + 2).unwrap_or_default();
            combine(coefficients, |at| lengths.get(at).map_or(&[], <[u8; 2]>::as_slice), room);
            length += 2;
        }
        if !group.has_fragments {
            return (length, None);
        }
        let mut fragments = [[0; ENCODED_FRAGMENT_BYTES]; MAX_GROUP];
        for (at, place) in fragments.iter_mut().enumerate().take(size) {
            *place = Fragment::encode(window.payload(number(at)).1);
        }
        let mut encoded = [0; ENCODED_FRAGMENT_BYTES];
        combine(coefficients, |at| fragments.get(at).map_or(&[], <[u8; _]>::as_slice), &mut encoded);
        (length, Some(encoded))
    }
}

impl Source {
    /// A data packet was sent for the first time: its group may be complete now.
    pub(super) fn sent_for_parity(&mut self, now_ns: u64, sqn: Sqn) {
        let waiting = self.window.waiting();
        let Some(parity) = &mut self.parity else { return };
        let last = parity.group(sqn).is_some_and(|group| sqn == group.first.plus(group.size - 1));
        if last {
            parity.complete(sqn);
        }
        let pause = parity.config.group_pause_ns.filter(|_| !last && waiting == 0);
        parity.pause_over_ns = pause.map(|pause| now_ns.saturating_add(pause));
    }

    /// Ends a group that is not full, if the configuration lets it (section 11.4, "in the absence of data").
    pub(super) fn end_group(&mut self, now_ns: u64) {
        let Some(parity) = &mut self.parity else { return };
        parity.pause_over_ns = None;
        let next = self.window.next();
        let size = parity.within(next);
        if parity.config.group_pause_ns.is_none() || size == 0 {
            return;
        }
        let until = parity.first_of(next).plus(parity.config.group_packets);
        if let Some(group) = parity.group_mut(next) {
            group.size = size;
        }
        self.counts.short_groups += 1;
        if self.window.waiting() == 0 {
            parity.complete(next);
            self.spm_ns = Some(now_ns);
        }
        self.window.skip_to(until);
    }

    /// The size of the short group whose last data this number is (OPT_CURR_TGSIZE).
    pub(super) fn short_group_of(&self, sqn: Sqn) -> Option<u32> {
        let parity = self.parity.as_ref()?;
        let group = parity.group(sqn)?;
        let last = parity.within(sqn) + 1 == group.size;
        (last && group.size < parity.config.group_packets).then_some(group.size)
    }

    /// A NAK for parity names a group and, in the low bits, how many packets less one (section 11.3.1).
    pub(super) fn asked_parity(&mut self, now_ns: u64, sqn: Sqn) {
        let trail = self.window.trail();
        let Some(parity) = self.parity.as_mut().filter(|parity| parity.config.on_demand) else {
            self.counts.ignored += 1;
            return;
        };
        let (first, count) = (parity.first_of(sqn), parity.within(sqn) + 1);
        self.counts.numbers_asked += 1;
        self.counts.parity_asked += u64::from(count);
        let pause = self.config.ncf_pause_ns;
        let whole = parity.config.group_packets;
        if !self.window.has(first) {
            self.counts.numbers_outside += 1;
            if first.is_before(trail) {
                self.spm_soon(now_ns, pause);
            }
            return;
        }
        let Some(group) = parity.group_mut(first) else { return };
        let fresh = group.ncf_ns.is_none_or(|sent| now_ns.saturating_sub(sent) >= pause);
        if !fresh && count <= group.confirmed {
            // In a storm of NAKs all wait for the same packets.
            self.counts.ncfs_spared += 1;
            return;
        }
        group.ncf_ns = Some(now_ns);
        group.confirmed = count;
        // Receivers ask as if the group were whole. One that lacks nothing but the group's size learns it from a packet.
        group.pending = group.pending.max(count.saturating_sub(whole - group.size).max(1));
        parity.release(first);
        if !parity.ncfs.push(first.plus(count - 1)) {
            self.counts.ncfs_spared += 1;
        }
    }

    /// Whether parity answers a NAK for one packet: for a number without packet, and in full groups where configured.
    pub(super) fn parity_instead(&mut self, sqn: Sqn) -> bool {
        let skipped = self.window.has_skipped(sqn);
        let Some(parity) = &mut self.parity else { return false };
        let wanted = parity.config.on_demand && parity.config.parity_for_selective;
        let whole = parity.config.group_packets;
        let Some(group) = parity.group_mut(sqn) else { return false };
        if skipped {
            group.pending = group.pending.max(1);
        } else if wanted && group.complete {
            group.pending = (group.pending + 1).min(whole);
        } else {
            return false;
        }
        parity.release(sqn);
        true
    }

    /// The group whose parity, asked for, goes out next.
    pub(super) fn parity_repair(&mut self) -> Option<Next> {
        let parity = self.parity.as_mut()?;
        while let Some(&group) = parity.repairs.0.front() {
            if self.window.has(group) && parity.group(group).is_some_and(|group| group.pending > 0) {
                return Some(Next::Parity { group, on_demand: true });
            }
            parity.repairs.0.pop_front();
        }
        None
    }

    /// Bytes of the packet that goes out next for a group.
    pub(super) fn parity_packet_bytes(&self, next: Next) -> usize {
        let Next::Parity { group, .. } = next else { return 0 };
        let Some(parity) = &self.parity else { return 0 };
        let Some(group) = parity.group(group) else { return 0 };
        let length = if group.is_variable() { 2 } else { 0 };
        DATA_HEAD_BYTES + parity.option_bytes(group, group.index) + group.longest + length
    }

    pub(super) fn parity_data(
        &mut self,
        now_ns: u64,
        first: Sqn,
        on_demand: bool,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        let Self { window, parity, config, counts, .. } = self;
        let parity = parity.as_mut()?;
        let group = *parity.group(first)?;
        let index = parity.took(first, on_demand)?;
        let (length, encoded_fragment) = parity.make(window, &group, index);
        let whole = parity.config.group_packets;
        let payload = parity.payload.get(..length).unwrap_or_default();
        let data = Data { sqn: first.plus(index % whole), trail: window.trail(), payload };
        let body = if on_demand { Body::Rdata(data) } else { Body::Odata(data) };
        let options = Options {
            parity: true,
            variable_length: group.is_variable(),
            encoded_fragment,
            parity_group: (index >= whole).then_some(index / whole),
            current_group_size: (group.size < whole).then_some(group.size),
            ..Options::default()
        };
        let packet = Packet { tsi: config.tsi, data_port: config.data_port, body, options };
        let length = packet.write(buffer).ok()?;
        if on_demand {
            counts.parity_rdata += 1;
            // Each of its numbers may be asked for again.
            if parity.group(first).is_some_and(|group| group.pending == 0) {
                first.until(first.plus(whole)).for_each(|sqn| window.slot(sqn).repair = false);
            }
        } else {
            counts.parity_odata += 1;
        }
        Some(self.data_out(now_ns, length, if on_demand { Class::Rdata } else { Class::Odata }))
    }
}
