//! What is asked for: NAKs, their timers, and SPMRs (sections 6.1 to 6.3 and 13.3).

use super::{MOST_SPMRS, Peer, Phase, ReceiverContext, State};
use crate::Sqn;

impl Peer {
    /// Somebody else has asked for an SPM: it is waited for (section 13.5).
    pub(in crate::receiver) fn others_spmr(&mut self, now_ns: u64, with: &mut ReceiverContext) {
        if self.spmr_ns.is_some() {
            self.spmr_again(now_ns, with);
        }
    }

    /// The SPM is waited for, ever longer, before it is asked for again.
    pub(in crate::receiver) fn spmr_again(&mut self, now_ns: u64, with: &mut ReceiverContext) {
        self.spmrs += 1;
        self.spmr_told = false;
        let wait = with.config.spmr_repeat_ns.saturating_mul(u64::from(self.spmrs));
        let wait = wait.saturating_add(with.random.scaled(with.config.spmr_back_off_ns.saturating_add(1)));
        self.spmr_ns = (self.spmrs < MOST_SPMRS).then_some(now_ns.saturating_add(wait));
    }

    /// The first SPM has come: what was held may be asked for.
    pub(super) fn release(&mut self, now_ns: u64, with: &mut ReceiverContext) {
        for sqn in self.undelivered() {
            if self.state(sqn) == State::Missing(Phase::Held) {
                self.back_off(now_ns, sqn, with);
            }
        }
    }

    /// An NCF, or another receiver's NAK, names a number.
    pub(in crate::receiver) fn heard(&mut self, now_ns: u64, sqn: Sqn, is_ncf: bool, with: &mut ReceiverContext) {
        if !self.holds(sqn) {
            return;
        }
        let State::Missing(before) = self.slot(sqn).state else { return };
        if before == Phase::Grouped {
            return;
        }
        let phase = match (is_ncf, before) {
            (true, _) | (false, Phase::WaitData) => Phase::WaitData,
            (false, _) => Phase::WaitNcf,
        };
        let wait = match (phase, before) {
            (Phase::WaitNcf, Phase::WaitNcf) => with.config.repeat_ns,
            // The state machine of section 6.3 waits NAK_RPT_IVL for an NCF here; its "NAK suppression" at least NAK_RDATA_IVL.
            (Phase::WaitNcf, _) => with.config.repeat_ns.max(with.config.data_ns),
            _ => with.config.data_ns,
        };
        let slot = self.slot_mut(sqn);
        slot.state = State::Missing(phase);
        slot.queued = false;
        if is_ncf {
            slot.repair.ncf_ns.get_or_insert(now_ns);
        }
        self.timers.set(self.place(sqn), now_ns.saturating_add(wait));
    }

    pub(in crate::receiver) fn timeout(&mut self, now_ns: u64, with: &mut ReceiverContext) {
        while let Some(place) = self.timers.expired(now_ns) {
            let ahead = place.wrapping_sub(self.base.0) & (self.capacity() - 1);
            let sqn = self.base.plus(ahead);
            let slot = self.slot(sqn);
            let State::Missing(phase) = slot.state else { continue };
            match phase {
                Phase::Suspect => self.back_off(now_ns, sqn, with),
                Phase::BackOff | Phase::Held => self.ask(now_ns, sqn, with),
                Phase::WaitNcf if slot.ncf_retries >= with.config.ncf_retries => self.give_up(sqn, with),
                Phase::WaitData if slot.data_retries >= with.config.data_retries => self.give_up(sqn, with),
                Phase::WaitNcf | Phase::WaitData => {
                    let slot = self.slot_mut(sqn);
                    slot.ncf_retries += u32::from(phase == Phase::WaitNcf);
                    slot.data_retries += u32::from(phase == Phase::WaitData);
                    self.back_off(now_ns, sqn, with);
                }
                Phase::Grouped => {}
            }
        }
        self.timeout_groups(now_ns, with);
        self.settle(with);
    }

    /// Puts a number among those to be asked for; without a path it is held (section 6.2).
    pub(super) fn ask(&mut self, now_ns: u64, sqn: Sqn, with: &mut ReceiverContext) {
        let again = now_ns.saturating_add(with.config.repeat_ns);
        if self.path.is_none() {
            self.timers.set(self.place(sqn), again);
            self.need_path(now_ns, with);
            self.slot_mut(sqn).state = State::Missing(Phase::Held);
            return;
        }
        if !self.slot(sqn).queued {
            // There is room for all, but for those that are queued twice, after another receiver's NAK.
            if self.naks.len() >= self.slots.len() {
                self.timers.set(self.place(sqn), again);
                return;
            }
            self.naks.push_back(sqn);
        }
        let slot = self.slot_mut(sqn);
        slot.queued = true;
        slot.state = State::Missing(Phase::WaitNcf);
        slot.repair.nak_ns.get_or_insert(now_ns);
        slot.repair.naks += 1;
    }

    /// An SPM is to be asked for, unless it is already.
    pub(super) fn need_path(&mut self, now_ns: u64, with: &mut ReceiverContext) {
        if self.spmr_ns.is_none() && self.spmrs < MOST_SPMRS {
            let wait = with.random.scaled(with.config.spmr_back_off_ns.saturating_add(1));
            self.spmr_ns = Some(now_ns.saturating_add(wait));
        }
    }

    /// The next number to ask for that is missing and has no NCF. The wait for its NCF begins now: the budget may have waited.
    pub(in crate::receiver) fn next_nak(&mut self, now_ns: u64, with: &ReceiverContext) -> Option<Sqn> {
        while let Some(sqn) = self.naks.pop_front() {
            if !self.holds(sqn) {
                continue;
            }
            let slot = self.slot_mut(sqn);
            if std::mem::take(&mut slot.queued) && slot.state == State::Missing(Phase::WaitNcf) {
                self.timers.set(self.place(sqn), now_ns.saturating_add(with.config.repeat_ns));
                return Some(sqn);
            }
        }
        None
    }
}
