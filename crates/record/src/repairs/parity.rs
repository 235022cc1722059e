//! Numbers that parity makes up for: what a point holds of each transmission group, and when that is enough to compute what
//! the group lacks (RFC 3208, section 11.2).

use super::{JUMP, Kind, Order, Point, Sight, Source, Time, Told, Trouble, between};
use std::collections::BTreeMap;

/// Groups with parity that are remembered, a source and point; the oldest give way.
const MOST_GROUPS: usize = 1024;
/// Packets of a block, data and parity.
const BLOCK: u64 = 255;

/// What a packet tells of transmission groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupTold {
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

/// The groups of one point.
#[derive(Debug, Default)]
pub(super) struct Groups(BTreeMap<u64, Group>);

impl Point {
    /// No packet has the numbers that a group was ended without.
    fn ended_early(&mut self, first: u64, size: u64, whole: u64) {
        for number in first + size..first + whole {
            if self.missing.take(number).is_some() {
                self.figures.gaps = self.figures.gaps.saturating_sub(1);
            }
        }
        let last = first + whole - 1;
        self.highest =
            self.highest.map(|highest| if highest + 1 >= first + size { highest.max(last) } else { highest });
    }

    /// Numbers of a group that have not come, if its parity makes up for them: with the time at which each was missed.
    fn rebuild(&mut self, first: u64) -> Vec<(u64, Option<Time>)> {
        // What was sent before the capture began may be missing too.
        let Some(group) = self.groups.0.get(&first).filter(|_| first >= self.first) else { return Vec::new() };
        let numbers = first..first + group.size;
        let missing = numbers.clone().filter(|number| self.missing.when(*number).is_some()).count();
        if missing == 0 || missing > group.held() {
            return Vec::new();
        }
        self.figures.rebuilt += missing as u64;
        numbers.filter_map(|number| Some((number, self.missing.take(number)?))).collect()
    }
}

impl Source {
    /// An SPM tells how large groups are; that cannot change.
    pub(super) fn offered(&mut self, told: &GroupTold) {
        let fits = |packets: &u32| packets.is_power_of_two() && (2..=128).contains(packets);
        if self.group_packets.is_none() {
            self.group_packets = told.packets.filter(fits).map(u64::from);
        }
    }

    /// A packet that belongs to a group, not to a number; how many numbers are new in trouble.
    pub(super) fn parity(
        &mut self,
        sight: &Sight<'_>,
        point: &mut Point,
        at: usize,
        now: Option<Time>,
        told: &mut Told,
    ) -> usize {
        let before = self.troubles.len();
        let Some(whole) = self.group_packets else { return 0 };
        for number in sight.numbers {
            let number = self.widen(*number);
            let (first, within) = (number - number % whole, number % whole);
            match sight.kind {
                Kind::Odata | Kind::Rdata => {
                    let index = u64::from(sight.group.round).saturating_mul(whole).saturating_add(within);
                    let near = point.highest.is_some_and(|highest| first.abs_diff(highest) <= JUMP);
                    if near && index < BLOCK - whole {
                        self.packet(sight, point, (first, index, whole), now, told);
                    }
                }
                Kind::Nak | Kind::Ncf => self.asked_for_group(sight.kind, point, (first, whole), at, now),
                _ => {}
            }
        }
        self.troubles.len() - before
    }

    fn packet(
        &mut self,
        sight: &Sight<'_>,
        point: &mut Point,
        (first, index, whole): (u64, u64, u64),
        now: Option<Time>,
        told: &mut Told,
    ) {
        let short = sight.group.short.map(u64::from).filter(|short| (1..whole).contains(short));
        let known = point.groups.0.get(&first).map_or(whole, |group| group.size);
        let size = short.unwrap_or(known);
        // All data of the group were sent.
        let missing = point.expect(first + size - 1, now);
        if missing > 0 {
            point.figures.gaps += missing;
            told.order = Order::Gap(missing);
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
        self.rebuilt(first, point, now, told);
    }

    /// A number of a group came, or parity of it: perhaps nothing is missing any more.
    pub(super) fn rebuilt(&mut self, number: u64, point: &mut Point, now: Option<Time>, told: &mut Told) {
        let Some(whole) = self.group_packets else { return };
        for (number, gap) in point.rebuild(number - number % whole) {
            told.rebuilt += 1;
            let data = self.recent(number);
            let trouble = self.troubles.entry(number).or_insert_with(|| Trouble { data, ..Trouble::default() });
            trouble.gap = trouble.gap.or(gap);
            if trouble.rebuilt.is_none() {
                trouble.rebuilt = now;
                if let Some(ns) = between(trouble.gap, now) {
                    self.figures.gap_to_rebuilt.record(ns);
                }
            }
        }
    }

    /// The last data of a group that was ended early.
    pub(super) fn short(&self, number: u64, told: &GroupTold, point: &mut Point) {
        let Some((whole, short)) = self.group_packets.zip(told.short.map(u64::from)) else { return };
        if (1..whole).contains(&short) {
            point.ended_early(number - number % whole, short, whole);
        }
    }

    /// A group was asked for: that is what it lacks anywhere at the capture.
    fn asked_for_group(
        &mut self,
        kind: Kind,
        point: &mut Point,
        (first, whole): (u64, u64),
        at: usize,
        now: Option<Time>,
    ) {
        for number in first..first + whole {
            let elsewhere = self.points.iter().flatten().find_map(|point| point.missing.when(number));
            let Some(gap) = point.missing.when(number).or(elsewhere) else { continue };
            let trouble = self.troubles.entry(number).or_default();
            trouble.gap = trouble.gap.or(gap);
            if kind == Kind::Nak {
                trouble.nak = trouble.nak.or(now);
            } else {
                trouble.ncf = trouble.ncf.or(now);
            }
            let count = trouble.counts.get_mut(at).and_then(|counts| counts.get_mut(usize::from(kind == Kind::Ncf)));
            if let Some(count) = count {
                *count = count.saturating_add(1);
            }
        }
    }
}
