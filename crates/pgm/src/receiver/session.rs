//! Whether a packet belongs to the known session, to a later place of it, or to another session under the same
//! identifier (forbidden by section 3.1, but restarted sources do it). Packets are not signed, so one alone never moves
//! a session far: a second one must agree, and nothing that fits may come between.

use crate::Sqn;
use crate::packet::{Data, Spm};

/// SPMs that may have been lost between two that were heard, beside one for each millisecond between them.
const SPMS_MISSED: u32 = 64;
const MS: u64 = 1_000_000;
/// Copies of old packets arrive in bursts. What goes on for so long is another session.
const RESTART_NS: u64 = 20 * MS;
/// Old data in a row, without an SPM that went back, that are another session.
const MOST_OLD: u32 = 64;
/// SPMs that confirm each other where no data do.
const SPMS_AGREED: u32 = 3;
/// A source that is so much farther on was not missed but started again.
const MOST_LEAP: u32 = 1 << 24;

/// What a session has come to.
#[derive(Debug, Clone, Copy)]
pub(super) struct SessionExtent {
    /// Whether any number is known yet.
    pub(super) started: bool,
    /// The next number to be delivered, and one after the newest that is known of.
    pub(super) base: Sqn,
    pub(super) end: Sqn,
    /// The newest SPM, and when it came.
    pub(super) spm: Option<Sqn>,
    pub(super) spm_ns: u64,
    /// Packets of the receive window.
    pub(super) capacity: u32,
}

/// What a packet is to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Fits,
    /// It does not, or not yet: it is dropped.
    Doubted,
    /// It belongs to it, and shows that the source is much farther on.
    Leapt,
    /// It belongs to another session.
    Restarted,
}

/// Packets that do not fit and agree with each other.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rival {
    since_ns: u64,
    spm: Option<Sqn>,
    spms: u32,
    /// These SPMs went back.
    back: bool,
    /// Their own numbers do not follow those before: whoever was merely missed goes on counting.
    is_new_count: bool,
    newest: Sqn,
    data: u32,
}

impl Rival {
    fn lasts(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.since_ns) >= RESTART_NS
    }

    fn begin(&mut self, now_ns: u64) {
        if self.spms + self.data == 0 {
            self.since_ns = now_ns;
        }
    }

    /// Judges data; `original` are those that are no repairs, which come again with each NAK.
    #[inline]
    pub(super) fn data(&mut self, now_ns: u64, known: &SessionExtent, data: &Data<'_>, original: bool) -> Verdict {
        let Data { sqn, trail, .. } = *data;
        let inside = sqn.distance_from(known.base) < known.end.distance_from(known.base).saturating_add(known.capacity);
        let goes_on = self.back && self.data > 1 && original && sqn == self.newest.next();
        if !known.started || (inside && !trail.is_after(known.end) && !goes_on) {
            *self = Self::default();
            return Verdict::Fits;
        }
        self.other_data(now_ns, known, sqn, original, inside)
    }

    #[cold]
    fn other_data(&mut self, now_ns: u64, known: &SessionExtent, sqn: Sqn, original: bool, inside: bool) -> Verdict {
        let back = sqn.is_before(known.base);
        let near = inside || (back && known.base.distance_from(sqn) <= known.capacity);
        // A copy, or a repair for another receiver, is nothing new.
        let unless = if back && near { Verdict::Fits } else { Verdict::Doubted };
        if near && back && !original {
            return unless;
        }
        self.begin(now_ns);
        let rises = self.data > 0 && sqn.is_after(self.newest) && sqn.distance_from(self.newest) <= known.capacity;
        self.data = if rises { self.data.saturating_add(1) } else { 1 };
        self.newest = sqn;
        if back || (inside && self.back) {
            let agreed = (self.data > 1 && (self.back || !near)) || self.data >= MOST_OLD;
            return if agreed && self.lasts(now_ns) { Verdict::Restarted } else { unless };
        }
        match self.data {
            0 | 1 => Verdict::Doubted,
            _ => self.farther(known, sqn),
        }
    }

    fn farther(&mut self, known: &SessionExtent, until: Sqn) -> Verdict {
        let counts_on = !(self.is_new_count && self.spms > 1);
        *self = Self::default();
        let ahead = until.distance_from(known.end);
        if counts_on && ahead <= MOST_LEAP { Verdict::Leapt } else { Verdict::Restarted }
    }

    pub(super) fn spm(&mut self, now_ns: u64, known: &SessionExtent, spm: &Spm) -> Verdict {
        let missed = u32::try_from(now_ns.saturating_sub(known.spm_ns) / MS).unwrap_or(u32::MAX);
        let plausible = |last: Sqn| spm.sqn.distance_from(last) <= missed.saturating_add(SPMS_MISSED);
        let later = known.spm.is_none_or(|last| spm.sqn.is_after(last));
        let in_sequence = known.spm.is_none_or(|last| later && plausible(last));
        let end = spm.lead.next();
        let blank = !known.started || spm.has_no_window();
        // One that data have overtaken is no surprise.
        let tolerated = if in_sequence { known.capacity } else { 0 };
        let back = !blank && end.is_before(known.base) && known.base.distance_from(end) > tolerated;
        let far = !blank && end.is_after(known.end) && end.distance_from(known.end) > known.capacity;
        let leaps = !blank && (far || spm.trail.is_after(known.end));
        if in_sequence && !back && !leaps {
            *self = Self::default();
            return Verdict::Fits;
        }
        // Section 6.2: a copy, or an old one that was overtaken.
        if known.spm == Some(spm.sqn) || (!later && !back && !leaps && end.is_before(known.end)) {
            return Verdict::Doubted;
        }
        self.begin(now_ns);
        let rises = self.spm.is_some_and(|last| spm.sqn.is_after(last) && plausible(last));
        self.spms = if rises { self.spms.saturating_add(1) } else { 1 };
        self.spm = Some(spm.sqn);
        self.back = back;
        self.is_new_count = !in_sequence;
        match () {
            // Only its own number is wrong, or that of the SPM before it was.
            () if !back && !leaps && self.spms > 1 => {
                *self = Self::default();
                Verdict::Fits
            }
            () if back && (self.spms > 1 || self.data > 1) && self.lasts(now_ns) => Verdict::Restarted,
            () if leaps && self.spms >= SPMS_AGREED && self.lasts(now_ns) => self.farther(known, end),
            () => Verdict::Doubted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Doubted, Fits, Leapt, Restarted};
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    const KNOWN: SessionExtent =
        SessionExtent { started: true, base: Sqn(1000), end: Sqn(1010), spm: Some(Sqn(50)), spm_ns: 0, capacity: 64 };

    fn data(sqn: u32, trail: u32) -> Data<'static> {
        Data { sqn: Sqn(sqn), trail: Sqn(trail), payload: b"" }
    }

    fn spm(sqn: u32, trail: u32, end: u32) -> Spm {
        Spm { sqn: Sqn(sqn), trail: Sqn(trail), lead: Sqn(end).previous(), path: IpAddr::V4(Ipv4Addr::LOCALHOST) }
    }

    #[test]
    fn what_is_near_fits_and_copies_of_old_packets_are_no_other_session() {
        let mut rival = Rival::default();
        for (sqn, original) in [(1000, true), (1010, true), (1073, true), (999, true), (990, false), (1005, false)] {
            assert_eq!(rival.data(0, &KNOWN, &data(sqn, 900), original), Fits, "{sqn}");
        }
        for at in 0..60 {
            assert_eq!(rival.data(u64::from(at) * MS, &KNOWN, &data(940 + at, 900), true), Fits);
        }
        assert_eq!(rival.spm(MS, &KNOWN, &spm(51, 900, 1020)), Fits);
        for old in [50, 49, 48] {
            assert_eq!(rival.spm(MS, &KNOWN, &spm(old, 900, 1005)), Doubted);
        }
    }

    #[test]
    fn one_packet_does_not_move_a_session_and_two_do() {
        for packets in [
            // A copy proves nothing; what fits may come between; all before it would be lost; no receiver misses as many.
            &[(9000, 900, Doubted), (9000, 900, Doubted), (9002, 900, Leapt)][..],
            &[(9000, 900, Doubted), (1011, 900, Fits), (9001, 900, Doubted)],
            &[(1015, 1012, Doubted), (0x4000_0000, 0, Doubted), (0x4000_0001, 0, Restarted)],
        ] {
            let mut rival = Rival::default();
            for &(sqn, trail, verdict) in packets {
                assert_eq!(rival.data(0, &KNOWN, &data(sqn, trail), true), verdict, "{sqn} of {packets:?}");
            }
        }
        let mut rival = Rival::default();
        assert_eq!(rival.spm(0, &KNOWN, &spm(51, 0x8000_0000, 0x8000_0009)), Doubted);
        assert_eq!(rival.spm(0, &KNOWN, &spm(0x1000_0000, 900, 1010)), Doubted, "its own number");
        assert_eq!(rival.spm(0, &KNOWN, &spm(51, 900, 1010)), Fits);
        // Where no data come, SPMs confirm each other after a while.
        let far = [spm(51, 5000, 5100), spm(52, 5000, 5100), spm(53, 5000, 5100)];
        let verdicts = [0, 10, 20].map(|ms| rival.spm(ms * MS, &KNOWN, &far[usize::try_from(ms / 10).unwrap()]));
        assert_eq!(verdicts, [Doubted, Doubted, Leapt]);
    }

    /// Catches: another session that begins farther on, whose start was counted as a loss of all numbers between.
    #[test]
    fn whoever_is_farther_on_and_counts_its_spms_anew_is_another_session() {
        let mut rival = Rival::default();
        let verdicts =
            [0, 10, 20].map(|ms| rival.spm(ms * MS, &KNOWN, &spm(100_000 + u32::try_from(ms).unwrap(), 9000, 9000)));
        assert_eq!(verdicts, [Doubted, Doubted, Restarted]);
        let mut rival = Rival::default();
        assert_eq!([0, 1].map(|at| rival.spm(u64::from(at), &KNOWN, &spm(at, 9000, 9000))), [Doubted; 2]);
        assert_eq!(rival.data(2, &KNOWN, &data(9000, 9000), true), Doubted);
        assert_eq!(rival.data(3, &KNOWN, &data(9001, 9000), true), Restarted);
    }

    #[test]
    fn a_false_spm_number_is_mended_by_the_true_ones() {
        let poisoned = SessionExtent { spm: Some(Sqn(90)), ..KNOWN };
        let mut rival = Rival::default();
        assert_eq!(rival.spm(0, &poisoned, &spm(52, 900, 1010)), Doubted);
        assert_eq!(rival.spm(0, &poisoned, &spm(53, 900, 1010)), Fits);
    }

    #[test]
    fn numbers_that_went_back_and_stay_there_are_another_session() {
        // Data far back.
        let mut rival = Rival::default();
        let verdicts =
            [0, 10, 20].map(|ms| rival.data(ms * MS, &KNOWN, &data(5 + u32::try_from(ms).unwrap(), 0), true));
        assert_eq!(verdicts, [Doubted, Doubted, Restarted]);
        // Data not far back, after SPMs that went back: they are copies until then.
        let mut rival = Rival::default();
        assert_eq!(rival.spm(0, &KNOWN, &spm(0, 950, 950)), Doubted);
        let verdicts =
            [1, 10, 21].map(|ms| rival.data(ms * MS, &KNOWN, &data(950 + u32::try_from(ms).unwrap(), 950), true));
        assert_eq!(verdicts, [Fits, Fits, Restarted]);
        // SPMs alone.
        let mut rival = Rival::default();
        let verdicts = [0, 4, 12, 28].map(|ms| rival.spm(ms * MS, &KNOWN, &spm(u32::try_from(ms).unwrap(), 0, 0)));
        assert_eq!(verdicts[..3], [Doubted; 3]);
        assert_eq!(verdicts[3], Restarted);
        // Whatever fits in between shows that the session goes on.
        let mut rival = Rival::default();
        assert_eq!(rival.data(0, &KNOWN, &data(5, 0), true), Doubted);
        assert_eq!(rival.data(15 * MS, &KNOWN, &data(1010, 900), true), Fits);
        assert_eq!(rival.data(30 * MS, &KNOWN, &data(6, 0), true), Doubted);
    }
}
