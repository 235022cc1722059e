//! One timer for each place of a window, in a heap of fixed size: no system timers and no allocation.

const NOWHERE: u32 = u32::MAX;

/// A binary heap of (deadline, place) in which each place is at most once.
#[derive(Debug)]
pub(super) struct Timers {
    heap: Vec<(u64, u32)>,
    /// The position of each place in the heap.
    at: Vec<u32>,
}

impl Timers {
    pub(super) fn new(places: u32) -> Self {
        Self { heap: Vec::with_capacity(places as usize), at: vec![NOWHERE; places as usize] }
    }

    pub(super) fn first(&self) -> Option<u64> {
        self.heap.first().map(|(deadline, _)| *deadline)
    }

    pub(super) fn set(&mut self, place: u32, deadline: u64) {
        self.clear(place);
        self.heap.push((deadline, place));
        self.up(self.heap.len() - 1);
    }

    pub(super) fn clear(&mut self, place: u32) {
        let at = self.at[place as usize] as usize;
        if at == NOWHERE as usize {
            return;
        }
        let last = self.heap.len() - 1;
        self.swap(at, last);
        self.heap.pop();
        self.put(place, NOWHERE);
        if at < self.heap.len() {
            self.up(at);
            self.down(at);
        }
    }

    pub(super) fn expired(&mut self, now: u64) -> Option<u32> {
        let (deadline, place) = *self.heap.first()?;
        if deadline > now {
            return None;
        }
        self.clear(place);
        Some(place)
    }

    fn put(&mut self, place: u32, at: u32) {
        self.at[place as usize] = at;
    }

    fn note(&mut self, at: usize) {
        self.put(self.heap[at].1, u32::try_from(at).unwrap_or(NOWHERE));
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.note(a);
        self.note(b);
    }

    fn up(&mut self, mut at: usize) {
        self.note(at);
        while at > 0 && self.heap.get(at) < self.heap.get((at - 1) / 2) {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn down(&mut self, mut at: usize) {
        loop {
            let child = [2 * at + 1, 2 * at + 2]
                .into_iter()
                .filter(|child| *child < self.heap.len())
                .min_by_key(|child| self.heap.get(*child).copied());
            match child {
                Some(child) if self.heap.get(child) < self.heap.get(at) => {
                    self.swap(at, child);
                    at = child;
                }
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn as_a_sorted_map(steps in proptest::collection::vec((0_u32..16, proptest::option::of(0_u64..50), 0_u64..50), 0..200)) {
            let mut timers = Timers::new(16);
            let mut oracle = BTreeMap::new();
            for (place, deadline, now) in steps {
                match deadline {
                    Some(deadline) => {
                        timers.set(place, deadline);
                        oracle.insert(place, deadline);
                    }
                    None => {
                        timers.clear(place);
                        oracle.remove(&place);
                    }
                }
                prop_assert_eq!(timers.first(), oracle.values().min().copied());
                let mut due: Vec<u32> = std::iter::from_fn(|| timers.expired(now)).collect();
                due.sort_unstable();
                let expected: Vec<u32> = oracle.iter().filter(|(_, at)| **at <= now).map(|(place, _)| *place).collect();
                prop_assert_eq!(&due, &expected);
                oracle.retain(|place, _| !due.contains(place));
            }
        }
    }
}
