//! What all sources of a receiver share.

use super::{Counts, Events, ReceiverConfig};
use crate::{Sqn, Tsi};
use random::SplitMix64;

/// What the methods of a source need beside it.
#[derive(Debug)]
pub(super) struct ReceiverContext {
    pub(super) config: ReceiverConfig,
    pub(super) random: SplitMix64,
    pub(super) counts: Counts,
    pub(super) events: Events,
}

impl ReceiverContext {
    /// Numbers that no packet has shown before they were lost: they were missing too.
    pub(super) fn lost_unseen(&mut self, tsi: Tsi, first: Sqn, count: u32) {
        self.counts.missing += u64::from(count);
        self.counts.lost += u64::from(count);
        self.events.lost(tsi, first, count);
    }
}
