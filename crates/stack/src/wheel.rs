//! A hierarchical timer wheel: setting, moving and removing a timer cost the same with one connection and with a million.

use crate::Instant;
use crate::number::long;

/// A tick is 2^16 ns, 65.5 µs. A timer is at most one tick late.
const TICK_SHIFT: u32 = 16;
/// Each level has 64 slots, each as long as the level below.
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
/// Six levels reach 52 days; a later timer fires early and is set again by its owner.
const LEVELS: usize = 6;
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Node {
    deadline: u64,
    next: u32,
    previous: u32,
    /// Level and slot where it hangs.
    hangs: Option<(u8, u8)>,
}

#[derive(Debug)]
pub(crate) struct Wheel {
    heads: [[u32; SLOTS]; LEVELS],
    occupied: [u64; LEVELS],
    nodes: Vec<Node>,
    tick: u64,
}

impl Wheel {
    pub(crate) fn new() -> Self {
        Self { heads: [[NONE; SLOTS]; LEVELS], occupied: [0; LEVELS], nodes: Vec::new(), tick: 0 }
    }

    /// Makes room for this index, so that setting its timer does not allocate.
    pub(crate) fn reserve(&mut self, index: u32) {
        let needed = index as usize + 1;
        if self.nodes.len() < needed {
            self.nodes.resize(needed, Node { deadline: 0, next: NONE, previous: NONE, hangs: None });
        }
    }

    pub(crate) fn set(&mut self, index: u32, at: Instant) {
        self.remove(index);
        if at == Instant::NEVER {
            return;
        }
        let deadline = (at.0 >> TICK_SHIFT) + u64::from(at.0 & ((1 << TICK_SHIFT) - 1) != 0);
        let furthest = self.tick | ((1 << (SLOT_BITS * long(LEVELS))) - 1);
        self.hang(index, deadline.clamp(self.tick, furthest));
    }

    fn hang(&mut self, index: u32, deadline: u64) {
        let differs = (deadline ^ self.tick) | ((1 << SLOT_BITS) - 1);
        let level = (63 - differs.leading_zeros()) / SLOT_BITS;
        let slot = deadline >> (level * SLOT_BITS) & ((1 << SLOT_BITS) - 1);
        let (Ok(level), Ok(slot)) = (u8::try_from(level), u8::try_from(slot)) else { return };
        let Some(head) = self.heads.get_mut(usize::from(level)).and_then(|slots| slots.get_mut(usize::from(slot)))
        else {
            return;
        };
        let next = std::mem::replace(head, index);
        self.occupied[usize::from(level)] |= 1 << slot;
        if let Some(node) = self.nodes.get_mut(index as usize) {
            *node = Node { deadline, next, previous: NONE, hangs: Some((level, slot)) };
        }
        if let Some(node) = self.nodes.get_mut(next as usize) {
            node.previous = index;
        }
    }

    pub(crate) fn remove(&mut self, index: u32) {
        let Some(node) = self.nodes.get_mut(index as usize) else { return };
        let Some((level, slot)) = node.hangs.take() else { return };
        let (next, previous) = (node.next, node.previous);
        if let Some(node) = self.nodes.get_mut(next as usize) {
            node.previous = previous;
        }
        if let Some(node) = self.nodes.get_mut(previous as usize) {
            node.next = next;
        } else if let Some(head) = self.heads.get_mut(usize::from(level)).and_then(|all| all.get_mut(usize::from(slot)))
        {
            *head = next;
            if next == NONE {
                self.occupied[usize::from(level)] &= !(1 << slot);
            }
        }
    }

    /// The first slot that is not empty: level, slot, and the tick at which it is due.
    fn first(&self) -> Option<(usize, usize, u64)> {
        // What hangs on a lower level is due before all that hangs higher.
        let (level, occupied) = self.occupied.iter().enumerate().find(|(_, occupied)| **occupied != 0)?;
        let shift = SLOT_BITS * long(level);
        let now = self.tick >> shift & ((1 << SLOT_BITS) - 1);
        let ahead = occupied >> now;
        // Nothing hangs behind the present: those slots were emptied on the way.
        let slot = now + u64::from(ahead.trailing_zeros() % 64);
        let due = (self.tick >> (shift + SLOT_BITS) << (shift + SLOT_BITS)) + (slot << shift);
        Some((level, usize::try_from(slot).ok()?, due))
    }

    /// When to call [`Wheel::due`] next: not later than the first timer, perhaps before.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.first().map(|(_, _, due)| Instant(due.max(self.tick) << TICK_SHIFT))
    }

    pub(crate) fn due(&mut self, now: Instant) -> Option<u32> {
        let target = now.0 >> TICK_SHIFT;
        loop {
            let Some((level, slot, due)) = self.first().filter(|(_, _, due)| *due <= target) else {
                self.tick = self.tick.max(target);
                return None;
            };
            self.tick = self.tick.max(due);
            let mut index = *self.heads.get(level)?.get(slot)?;
            if level == 0 {
                self.remove(index);
                return Some(index);
            }
            // The whole slot goes down: what is left in it would be due before what went.
            while let Some(&Node { deadline, next, .. }) = self.nodes.get(index as usize) {
                self.remove(index);
                self.hang(index, deadline.max(self.tick));
                index = next;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::SplitMix64;

    #[test]
    fn timers_fire_in_time_whatever_was_set_before() {
        let mut random = SplitMix64::new(1);
        let mut wheel = Wheel::new();
        let mut expected: Vec<Option<u64>> = vec![None; 100];
        wheel.reserve(99);
        let mut now = 5_000_000_000_u64;
        let mut fired = 0;
        while wheel.due(Instant(now)).is_some() {}
        for _ in 0..20_000 {
            let index = usize::try_from(random.scaled(100)).unwrap();
            let reach = 1 << random.scaled(40);
            let at = now + random.scaled(reach);
            expected[index] = (random.scaled(5) > 0).then_some(at);
            wheel.set(long(index), expected[index].map_or(Instant::NEVER, Instant));
            let reach = 1 << random.scaled(36);
            now += random.scaled(reach);
            // Nothing is due before the wheel reports it.
            let first = expected.iter().flatten().min();
            assert!(wheel.next().is_none_or(|next| first.is_some_and(|first| next.0 <= first + 65_536)));
            while let Some(index) = wheel.due(Instant(now)) {
                let at = expected[index as usize].take().unwrap();
                assert!(at <= now, "{at} {now}");
                fired += 1;
            }
            assert!(expected.iter().flatten().all(|at| at + 65_536 > now), "one tick late at most");
        }
        assert!(fired > 5_000, "{fired}");
    }

    #[test]
    fn a_timer_beyond_all_levels_fires_early_or_in_time() {
        let mut wheel = Wheel::new();
        wheel.reserve(0);
        wheel.set(0, Instant(u64::MAX - 1));
        assert!(wheel.next().is_some());
        assert_eq!(wheel.due(Instant(u64::MAX - 1)), Some(0));
        assert_eq!((wheel.due(Instant(u64::MAX - 1)), wheel.next()), (None, None));
    }
}
