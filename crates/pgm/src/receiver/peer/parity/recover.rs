//! What is missing, computed from the data and the parity of its group (section 11.2).

use super::{Group, ParityPacket};
use crate::Sqn;
use crate::fec::{Basis, CHUNK, MAX_GROUP, combine, combine_from};
use crate::packet::{ENCODED_FRAGMENT_BYTES, Fragment, Options};
use crate::receiver::peer::{Peer, ReceiverContext, State};

/// Packets of a group from which the others can be computed: as many as the group is large.
struct Inputs {
    count: usize,
    /// Numbers in the block.
    numbers: [usize; MAX_GROUP],
    /// Where their bytes begin, and how many there are.
    bytes: [(usize, usize); MAX_GROUP],
    lengths: [[u8; 2]; MAX_GROUP],
    fragments: [[u8; ENCODED_FRAGMENT_BYTES]; MAX_GROUP],
}

impl Inputs {
    fn push(&mut self, number: usize, bytes: (usize, usize), length: [u8; 2], fragment: [u8; ENCODED_FRAGMENT_BYTES]) {
        let at = self.count;
        if at < MAX_GROUP {
            self.numbers[at] = number;
            (self.bytes[at], self.lengths[at], self.fragments[at]) = (bytes, length, fragment);
            self.count += 1;
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Output {
    number: usize,
    length: usize,
    fragment: Option<Fragment>,
}

impl Peer {
    /// The numbers of a group's real packets.
    pub(super) fn numbers(&self, first: Sqn) -> impl Iterator<Item = Sqn> + use<> {
        let size = self.parity.group(first).map_or(0, |group| group.size);
        (0..size).map(move |at| first.plus(at))
    }

    fn held(&self, sqn: Sqn) -> Option<ParityPacket> {
        self.parity.held.get(self.place(sqn) as usize).copied().flatten()
    }

    /// A place of the group that lacks its packet and holds no parity.
    fn free(&self, first: Sqn) -> Option<Sqn> {
        self.numbers(first).find(|sqn| !self.has(*sqn) && self.held(*sqn).is_none())
    }

    /// Keeps a parity packet, if it is new and can be of use.
    pub(super) fn keep(&mut self, first: Sqn, index: usize, payload: &[u8], options: &Options<'_>) -> bool {
        let known = self.numbers(first).any(|sqn| self.held(sqn).is_some_and(|held| held.index == index));
        let free = self.free(first);
        let Some(free) = free.filter(|_| !known && self.missing(first) > 0) else { return false };
        let Some(group) = self.parity.touch(first) else { return false };
        let kind = (payload.len(), options.variable_length, options.encoded_fragment.is_some());
        if group.held > 0 && (group.length, group.variable, group.fragments) != kind {
            return false;
        }
        (group.length, group.variable, group.fragments) = kind;
        group.held += 1;
        let place = self.place(free) as usize;
        let begin = place * self.slot_bytes;
        if let Some(bytes) = self.bytes.get_mut(begin..begin + payload.len()) {
            bytes.copy_from_slice(payload);
        }
        if let Some(held) = self.parity.held.get_mut(place) {
            *held = Some(ParityPacket { index, fragment: options.encoded_fragment.unwrap_or_default() });
        }
        true
    }

    /// A data packet comes to a place that may hold parity: that moves to another one, if there is one.
    pub(in crate::receiver::peer) fn make_way(&mut self, sqn: Sqn) {
        let Some(held) = self.held(sqn) else { return };
        let (first, from) = (self.parity.first_of(sqn), self.place(sqn));
        self.parity.vacate(from);
        let other = self.numbers(first).find(|other| *other != sqn && !self.has(*other) && self.held(*other).is_none());
        let place = other.map(|other| self.place(other));
        let Some(group) = self.parity.touch(first) else { return };
        let Some(place) = place else {
            group.held = group.held.saturating_sub(1);
            return;
        };
        let (from, to) = (from as usize * self.slot_bytes, place as usize * self.slot_bytes);
        self.bytes.copy_within(from..from + group.length.min(self.slot_bytes), to);
        if let Some(room) = self.parity.held.get_mut(place as usize) {
            *room = Some(held);
        }
    }

    /// A group got something: perhaps that is enough.
    pub(in crate::receiver::peer) fn progressed(&mut self, now_ns: u64, sqn: Sqn, with: &mut ReceiverContext) {
        let first = self.parity.first_of(sqn);
        if self.by_group(sqn) && self.parity.group(first).is_some_and(|group| group.held > 0) {
            self.recover(now_ns, first, with);
        }
    }

    fn drop_held(&mut self, first: Sqn) {
        for sqn in self.numbers(first) {
            self.parity.vacate(self.place(sqn));
        }
        if let Some(group) = self.parity.touch(first) {
            group.held = 0;
        }
    }

    /// Computes what a group lacks, once it has as many packets as data (section 11.2).
    pub(super) fn recover(&mut self, now_ns: u64, first: Sqn, with: &mut ReceiverContext) {
        let Some(group) = self.parity.group(first).copied() else { return };
        if group.held == 0 || group.size == 0 {
            return;
        }
        let absent = self.numbers(first).filter(|sqn| !self.has(*sqn)).count();
        if self.missing(first) > 0 && absent > group.held as usize {
            return;
        }
        let computed = self.missing(first) == 0 || self.compute(now_ns, &group, absent, with);
        with.counts.parity_inconsistent += u64::from(!computed);
        self.drop_held(first);
        if computed {
            let place = self.parity.place(first);
            self.parity.timers.clear(place);
        }
    }

    /// Computes what is missing; whether the group's packets went together.
    fn compute(&mut self, now_ns: u64, group: &Group, absent: usize, with: &mut ReceiverContext) -> bool {
        let (first, whole) = (group.first, self.parity.group_packets as usize);
        let longest = group.length - if group.variable { 2 } else { 0 };
        let Some(inputs) = self.inputs(group, absent, longest) else { return false };
        let Some(basis) = inputs.numbers.get(..whole).filter(|_| inputs.count == whole).and_then(Basis::new) else {
            return false;
        };
        let mut coefficients = [0; MAX_GROUP];
        let coefficients = coefficients.get_mut(..whole).unwrap_or_default();
        // Lengths and options first: after them nothing can go wrong.
        let mut outputs = [Output::default(); MAX_GROUP];
        let mut count = 0;
        for (number, sqn) in self.numbers(first).enumerate().filter(|(_, sqn)| self.is_missing(*sqn)) {
            basis.coefficients(number, coefficients);
            let (mut length, mut fragment) = ([0; 2], [0; ENCODED_FRAGMENT_BYTES]);
            combine(coefficients, |at| inputs.lengths.get(at).map_or(&[], <[u8; 2]>::as_slice), &mut length);
            combine(coefficients, |at| inputs.fragments.get(at).map_or(&[], <[u8; _]>::as_slice), &mut fragment);
            let length = if group.variable { usize::from(u16::from_be_bytes(length)) } else { longest };
            let fragment = if group.fragments { Fragment::decode(&fragment) } else { None };
            if length > longest {
                return false;
            }
            outputs[count] = Output { number, length, fragment };
            count += 1;
            debug_assert!(self.holds(sqn));
        }
        let outputs = outputs.get(..count).unwrap_or_default();
        // A chunk of all of them at a time: the results go where the parity lies.
        for from in (0..longest).step_by(CHUNK) {
            let bytes = CHUNK.min(longest - from);
            let Self { bytes: all, parity, .. } = self;
            let input = |at: usize| {
                let (begin, length) = inputs.bytes.get(at).copied().unwrap_or_default();
                all.get(begin..begin + length).unwrap_or_default()
            };
            for (output, scratch) in outputs.iter().zip(parity.scratch.chunks_mut(CHUNK)) {
                basis.coefficients(output.number, coefficients);
                combine_from(coefficients, &input, from, scratch.get_mut(..bytes).unwrap_or_default());
            }
            for (row, output) in outputs.iter().enumerate() {
                let begin = self.place(output.sqn(first)) as usize * self.slot_bytes + from;
                let result = self.parity.scratch.get(row * CHUNK..row * CHUNK + bytes);
                if let (Some(place), Some(result)) = (self.bytes.get_mut(begin..begin + bytes), result) {
                    place.copy_from_slice(result);
                }
            }
        }
        for output in outputs {
            let sqn = output.sqn(first);
            self.timers.clear(self.place(sqn));
            let slot = self.slot_mut(sqn);
            slot.state = State::Have;
            slot.length = output.length;
            slot.fragment = output.fragment;
            slot.repair.data_ns = now_ns;
            slot.repair.nak_ns = slot.repair.nak_ns.or(group.nak_ns);
            slot.repair.ncf_ns = slot.repair.ncf_ns.or(group.ncf_ns);
            slot.repair.naks += group.naks;
            slot.repair.parity = true;
            with.counts.recovered += 1;
            with.counts.recovered_by_parity += 1;
        }
        true
    }

    /// The packets of a group that are there, with as much parity as is needed; absent where they cannot be of one group.
    fn inputs(&self, group: &Group, absent: usize, longest: usize) -> Option<Inputs> {
        let mut inputs = Inputs {
            count: 0,
            numbers: [0; MAX_GROUP],
            bytes: [(0, 0); MAX_GROUP],
            lengths: [[0; 2]; MAX_GROUP],
            fragments: [[0; ENCODED_FRAGMENT_BYTES]; MAX_GROUP],
        };
        let whole = self.parity.group_packets as usize;
        let mut parity = absent;
        for (number, sqn) in self.numbers(group.first).enumerate() {
            let begin = self.place(sqn) as usize * self.slot_bytes;
            if self.has(sqn) {
                let slot = self.slot(sqn);
                if slot.length > longest || (slot.length != longest && !group.variable) {
                    return None;
                }
                let length = u16::try_from(slot.length).unwrap_or(u16::MAX).to_be_bytes();
                inputs.push(number, (begin, slot.length), length, Fragment::encode(slot.fragment));
            } else if let Some(held) = self.held(sqn).filter(|_| parity > 0) {
                parity -= 1;
                let length = self.bytes.get(begin + longest..begin + group.length).and_then(<[u8]>::first_chunk);
                let length = length.copied().unwrap_or_default();
                inputs.push(whole + held.index, (begin, longest), length, held.fragment);
            }
        }
        // What a short group lacks of a whole one is zeros.
        for number in group.size as usize..whole {
            inputs.push(number, (0, 0), [0; 2], [0; ENCODED_FRAGMENT_BYTES]);
        }
        Some(inputs)
    }
}

impl Output {
    fn sqn(&self, first: Sqn) -> Sqn {
        first.plus(u32::try_from(self.number).unwrap_or_default())
    }
}
