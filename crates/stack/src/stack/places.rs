//! The sockets at each local end. Several may share one (SO_REUSEPORT of socket(7)): a hash of both ends chooses among them.

use crate::address::{Flow, Keyed, Table};
use std::collections::HashMap;
use std::hash::BuildHasher as _;

#[derive(Debug)]
pub(super) struct Places {
    keyed: Keyed,
    first: Table<Flow, u32>,
    /// All sockets of an end that is shared.
    shared: Table<Flow, Vec<u32>>,
}

impl Places {
    pub(super) fn new(keyed: Keyed) -> Self {
        Self { keyed, first: HashMap::with_hasher(keyed), shared: HashMap::with_hasher(keyed) }
    }

    /// Whether a socket may have this place: no socket has it, or it shares it with sockets that do so as well.
    pub(super) fn allows(&self, place: &Flow, shares: bool) -> bool {
        !self.first.contains_key(place) || shares && self.shared.contains_key(place)
    }

    pub(super) fn add(&mut self, place: Flow, socket: u32, shares: bool) {
        self.first.entry(place).or_insert(socket);
        if shares {
            self.shared.entry(place).or_default().push(socket);
        }
    }

    pub(super) fn remove(&mut self, place: &Flow, socket: u32) {
        let left = self.shared.get_mut(place).and_then(|all| {
            all.retain(|one| *one != socket);
            all.first().copied()
        });
        match left {
            Some(left) => _ = self.first.insert(*place, left),
            None => {
                self.shared.remove(place);
                self.first.remove(place);
            }
        }
    }

    pub(super) fn find(&self, place: &Flow, flow: &Flow) -> Option<u32> {
        let first = self.first.get(place).copied()?;
        if self.shared.is_empty() {
            return Some(first);
        }
        let Some(all) = self.shared.get(place) else { return Some(first) };
        // Neighbouring ports differ in few bits of the hash: the product spreads them (Fibonacci hashing).
        let spread = self.keyed.hash_one(flow).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let at = (u128::from(spread) * all.len() as u128) >> 64;
        Some(usize::try_from(at).ok().and_then(|at| all.get(at).copied()).unwrap_or(first))
    }
}
