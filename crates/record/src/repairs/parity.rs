//! Numbers that parity makes up for: what a point holds of each transmission group, and when that is enough to compute what
//! the group lacks (RFC 3208, section 11.2).

use super::{CapturedPacket, JUMP, Order, PacketKind, PacketNotes, Point, Source, Time, between, request};
use std::collections::BTreeMap;

/// Groups with parity that are remembered, a source and point; the oldest give way.
const MOST_GROUPS: usize = 1024;
/// Packets of a block, data and parity.
const BLOCK: u64 = 255;

/// What a packet tells of transmission groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupOptions {
    /// Data packets of each group, of an SPM (OPT_PARITY_PRM).
    pub packets: Option<u32>,
    /// How often all numbers of its group had been used for parity before, of a parity packet (OPT_PARITY_GRP).
    pub round: u32,
    /// Data packets of the packet's own group, which was ended early (OPT_CURR_TGSIZE).
    pub short: Option<u32>,
}

/// Parity of one group that came to one point.
#[derive(Debug, Clone, Copy, Default)]
struct Group {
    /// Data packets of it.
    size: u64,
    /// Which of its parity packets came.
    seen: [u64; 4],
}

impl Group {
    fn add(&mut self, index: u64) {
        let word = usize::try_from(index / 64).ok().and_then(|word| self.seen.get_mut(word));
        if let Some(word) = word {
            *word |= 1 << (index % 64);
        }
    }

    fn held(&self) -> usize {
        self.seen.iter().map(|word| word.count_ones() as usize).sum()
    }
}

#[derive(Debug, Default)]
pub(super) struct Groups(BTreeMap<u64, Group>);

impl Point {
    /// No packet has the numbers that a group was ended without.
    fn ended_early(&mut self, first: u64, size: u64, whole: u64) {
        for number in first + size..first + whole {
            if self.numbers.take(number).is_some() {
                self.figures.gaps = self.figures.gaps.saturating_sub(1);
            }
        }
        let last = first + whole - 1;
        let highest = &mut self.numbers.highest;
        *highest = highest.map(|highest| if highest + 1 >= first + size { highest.max(last) } else { highest });
    }

    /// Numbers of a group that have not come, if its parity makes up for them: with the time at which each was missed.
    fn rebuild(&mut self, first: u64) -> Vec<(u64, Option<Time>)> {
        // What was sent before the capture began may be missing too.
        let Some(group) = self.groups.0.get(&first).filter(|_| first >= self.numbers.first) else { return Vec::new() };
        let numbers = first..first + group.size;
        let missing = numbers.clone().filter(|number| self.numbers.missing_since(*number).is_some()).count();
        if missing == 0 || missing > group.held() {
            return Vec::new();
        }
        self.figures.rebuilt += missing as u64;
        numbers.filter_map(|number| Some((number, self.numbers.take(number)?))).collect()
    }
}

impl Source {
    /// An SPM tells how large groups are; that cannot change.
    pub(super) fn offered(&mut self, notes: &GroupOptions) {
        let fits = |packets: &u32| packets.is_power_of_two() && (2..=128).contains(packets);
        if self.group_packets.is_none() {
            self.group_packets = notes.packets.filter(fits).map(u64::from);
        }
    }

    /// A packet that belongs to a group, not to a number; how many numbers are new in trouble.
    pub(super) fn parity(
        &mut self,
        packet: &CapturedPacket<'_>,
        point: &mut Point,
        at: usize,
        now: Option<Time>,
        notes: &mut PacketNotes,
    ) -> usize {
        let before = self.histories.len();
        let Some(whole) = self.group_packets else { return 0 };
        for number in packet.numbers {
            let number = self.widen(*number);
            let (first, within) = (number - number % whole, number % whole);
            match packet.kind {
                PacketKind::Odata | PacketKind::Rdata => {
                    let index = u64::from(packet.group.round).saturating_mul(whole).saturating_add(within);
                    let near = point.numbers.highest.is_some_and(|highest| first.abs_diff(highest) <= JUMP);
                    if near && index < BLOCK - whole {
                        self.parity_packet(packet, point, (first, index, whole), now, notes);
                    }
                }
                PacketKind::Nak | PacketKind::Ncf => self.asked_for_group(packet.kind, point, (first, whole), at, now),
                _ => {}
            }
        }
        self.histories.len() - before
    }

    fn parity_packet(
        &mut self,
        packet: &CapturedPacket<'_>,
        point: &mut Point,
        (first, index, whole): (u64, u64, u64),
        now: Option<Time>,
        notes: &mut PacketNotes,
    ) {
        let short = packet.group.short.map(u64::from).filter(|short| (1..whole).contains(short));
        let known = point.groups.0.get(&first).map_or(whole, |group| group.size);
        let size = short.unwrap_or(known);
        // All data of the group were sent.
        let missing = point.numbers.expect(first + size - 1, now);
        if missing > 0 {
            point.figures.gaps += missing;
            notes.order = Order::Gap(missing);
        }
        if size < whole {
            point.ended_early(first, size, whole);
        }
        let group = point.groups.0.entry(first).or_default();
        group.size = size;
        group.add(index);
        if point.groups.0.len() > MOST_GROUPS {
            point.groups.0.pop_first();
        }
        self.rebuilt(first, point, now, notes);
    }

    /// A number of a group came, or parity of it: perhaps nothing is missing any more.
    pub(super) fn rebuilt(&mut self, number: u64, point: &mut Point, now: Option<Time>, notes: &mut PacketNotes) {
        let Some(whole) = self.group_packets else { return };
        for (number, gap) in point.rebuild(number - number % whole) {
            notes.rebuilt += 1;
            let history = self.history(number);
            history.gap = history.gap.or(gap);
            if history.rebuilt.is_none() {
                history.rebuilt = now;
                if let Some(ns) = between(history.gap, now) {
                    self.figures.gap_to_rebuilt.record(ns);
                }
            }
        }
    }

    /// The last data of a group that was ended early.
    pub(super) fn short(&self, number: u64, notes: &GroupOptions, point: &mut Point) {
        let Some((whole, short)) = self.group_packets.zip(notes.short.map(u64::from)) else { return };
        if (1..whole).contains(&short) {
            point.ended_early(number - number % whole, short, whole);
        }
    }

    /// A group was asked for: that is what it lacks anywhere at the capture.
    fn asked_for_group(
        &mut self,
        kind: PacketKind,
        point: &mut Point,
        (first, whole): (u64, u64),
        at: usize,
        now: Option<Time>,
    ) {
        for number in first..first + whole {
            let elsewhere = self.points.iter().flatten().find_map(|point| point.numbers.missing_since(number));
            let Some(gap) = point.numbers.missing_since(number).or(elsewhere) else { continue };
            let history = self.history(number);
            history.gap = history.gap.or(gap);
            if kind == PacketKind::Nak {
                history.nak = history.nak.or(now);
            } else {
                history.ncf = history.ncf.or(now);
            }
            history.count(at, request(kind));
        }
    }
}
