//! Groups are asked for: back-off, NAKs with their counts, what others ask for, and giving up (section 11.5).

use super::MOST_NAKS;
use crate::Sqn;
use crate::receiver::peer::{Peer, Phase, ReceiverContext, State};

impl Peer {
    /// The more a group lacks, the sooner it is asked for (section 6.3); single packets where parity is only proactive.
    pub(super) fn back_off_group(&mut self, now_ns: u64, first: Sqn, with: &mut ReceiverContext) {
        if self.deaf {
            self.give_up_group(first, with);
            return;
        }
        // Nothing of a later group has come: the source may still be sending parity by itself.
        let early = self.parity.proactive && self.end.distance_from(first) <= self.parity.group_packets;
        let from_ns = if early { now_ns.saturating_add(with.config.back_off_ns) } else { now_ns };
        if !self.parity.on_demand {
            for sqn in self.group_numbers(first) {
                if self.is_missing(sqn) {
                    self.back_off(from_ns, sqn, with);
                }
            }
            return;
        }
        let longest = with.config.back_off_ns / u64::from(self.wanted(first));
        let wait = with.random.scaled(longest.saturating_add(1));
        self.group_waits(first, Phase::BackOff, from_ns.saturating_add(wait));
    }

    pub(super) fn group_waits(&mut self, first: Sqn, phase: Phase, until_ns: u64) {
        if let Some(group) = self.parity.touch(first) {
            group.phase = Some(phase);
        }
        let place = self.parity.place(first);
        self.parity.timers.set(place, until_ns);
    }

    /// In a pause the packets that the last group lacks are asked for one by one (section 11.5, "in the absence of data").
    pub(in crate::receiver::peer) fn ask_partial(&mut self, now_ns: u64, with: &mut ReceiverContext) {
        if !self.parity.is_used() {
            return;
        }
        for sqn in self.parity.closed.later(self.base).until(self.end) {
            if self.state(sqn) == State::Missing(Phase::Grouped) {
                self.back_off(now_ns, sqn, with);
            }
        }
    }

    /// A parity NCF, or another receiver's parity NAK. Groups that lack more ignore it.
    pub(in crate::receiver) fn heard_parity(
        &mut self,
        now_ns: u64,
        sqn: Sqn,
        is_ncf: bool,
        with: &mut ReceiverContext,
    ) {
        let first = self.parity.first_of(sqn);
        let inside = self.started && first.distance_from(self.floor()) < self.capacity();
        if !self.by_group(first) || !inside || !first.plus(self.parity.group_packets).is_after(self.base) {
            return;
        }
        let count = self.parity.within(sqn) + 1;
        let closed = first.is_before(self.parity.closed);
        if closed && (self.missing(first) == 0 || count < self.wanted(first)) {
            return;
        }
        if !closed && !is_ncf {
            return;
        }
        let Some(group) = self.parity.touch(first) else { return };
        let phase = match (is_ncf, group.phase) {
            (true, _) | (false, Some(Phase::WaitData)) => Phase::WaitData,
            (false, _) => Phase::WaitNcf,
        };
        if is_ncf {
            group.ncf_ns.get_or_insert(now_ns);
            group.confirmed = count;
        }
        let wait = if phase == Phase::WaitData { with.config.data_ns } else { with.config.repeat_ns };
        self.group_waits(first, phase, now_ns.saturating_add(wait));
    }

    /// Groups whose wait is over.
    pub(in crate::receiver::peer) fn timeout_groups(&mut self, now_ns: u64, with: &mut ReceiverContext) {
        while let Some(place) = self.parity.timers.expired(now_ns) {
            let Some(group) = self.parity.groups.get(place as usize).copied().filter(|group| group.live) else {
                continue;
            };
            let first = group.first;
            let inside = first.distance_from(self.floor()) < self.capacity();
            let Some(phase) = group.phase.filter(|_| inside && self.missing(first) > 0) else { continue };
            // An NCF came before the group was known to be over.
            if !first.is_before(self.parity.closed) {
                continue;
            }
            match phase {
                Phase::WaitNcf if group.ncf_retries >= with.config.ncf_retries => self.give_up_group(first, with),
                Phase::WaitData if group.data_retries >= with.config.data_retries => self.give_up_group(first, with),
                Phase::WaitNcf | Phase::WaitData => {
                    if let Some(group) = self.parity.touch(first) {
                        group.ncf_retries += u32::from(phase == Phase::WaitNcf);
                        group.data_retries += u32::from(phase == Phase::WaitData);
                    }
                    self.back_off_group(now_ns, first, with);
                }
                Phase::Suspect | Phase::BackOff | Phase::Held | Phase::Grouped => self.ask_group(now_ns, first, with),
            }
        }
    }

    fn give_up_group(&mut self, first: Sqn, with: &mut ReceiverContext) {
        for sqn in self.group_numbers(first) {
            if self.is_missing(sqn) {
                self.give_up(sqn, with);
            }
        }
    }

    fn ask_group(&mut self, now_ns: u64, first: Sqn, with: &mut ReceiverContext) {
        let again = now_ns.saturating_add(with.config.repeat_ns);
        if self.path.is_none() {
            self.need_path(now_ns, with);
            self.group_waits(first, Phase::Held, again);
            return;
        }
        let queued = self.parity.group(first).is_some_and(|group| group.queued);
        if !queued && self.parity.naks.len() >= MOST_NAKS {
            self.group_waits(first, Phase::BackOff, again);
            return;
        }
        if !queued {
            self.parity.naks.push_back(first);
        }
        if let Some(group) = self.parity.touch(first) {
            group.queued = true;
            group.phase = Some(Phase::WaitNcf);
            group.nak_ns.get_or_insert(now_ns);
            group.naks += 1;
        }
    }

    /// The next NAK for parity: a group's number and, in the low bits, how many packets less one (section 11.3.1).
    pub(in crate::receiver) fn next_parity_nak(&mut self, now_ns: u64, with: &ReceiverContext) -> Option<Sqn> {
        while let Some(first) = self.parity.naks.pop_front() {
            let inside = self.by_group(first) && first.distance_from(self.floor()) < self.capacity();
            let Some(group) = self.parity.touch(first).filter(|_| inside) else { continue };
            group.queued = false;
            let waits = group.phase == Some(Phase::WaitNcf);
            if self.missing(first) > 0 {
                if waits {
                    self.group_waits(first, Phase::WaitNcf, now_ns.saturating_add(with.config.repeat_ns));
                }
                return Some(first.plus(self.wanted(first) - 1));
            }
        }
        None
    }

    /// Low bits of a parity NAK's number are not part of the group's: how many packets it asks for.
    pub(in crate::receiver) fn asked_in(&self, sqn: Sqn) -> u64 {
        u64::from(self.parity.within(sqn)) + 1
    }
}
