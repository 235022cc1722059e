//! The address that a source's packets come from. Packets are not signed, but most networks drop forged senders: SPMs
//! and new numbers count only from where the data come from, and NAKs go there.

use std::net::IpAddr;

/// New data that another address must be ahead of the known one before it takes its place.
const MOST_LEAD: u8 = 16;
/// Of an address that was silent for so long one datum of another one is enough as a lead.
pub(super) const SILENT_NS: u64 = 2_000_000_000;

/// Where data of a source came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sender {
    /// The known address.
    Source,
    /// Another one, which is the source's from now on.
    Moved,
    /// Another one.
    Stranger,
}

/// The address of a source, and how sure it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    pub(super) address: IpAddr,
    /// Data came from it.
    has_data: bool,
    heard_ns: u64,
    /// New data from it more than from others.
    lead: u8,
}

impl Origin {
    pub(super) fn new(address: IpAddr, now_ns: u64) -> Self {
        Self { address, has_data: false, heard_ns: now_ns, lead: 0 }
    }

    /// Whether an SPM is of the source.
    pub(super) fn spm(&mut self, now_ns: u64, from: IpAddr) -> bool {
        if from == self.address {
            self.heard_ns = now_ns;
        }
        from == self.address
    }

    /// Judges data by their sender; `original`: no repairs, which others may send; `fits`: their number is missing or next.
    #[inline]
    pub(super) fn data(&mut self, now_ns: u64, from: IpAddr, original: bool, fits: bool) -> Sender {
        if from == self.address {
            (self.has_data, self.heard_ns) = (true, now_ns);
            self.lead = self.lead.saturating_add(u8::from(original)).min(MOST_LEAD);
            return Sender::Source;
        }
        self.others_data(now_ns, from, original, fits)
    }

    #[cold]
    fn others_data(&mut self, now_ns: u64, from: IpAddr, original: bool, fits: bool) -> Sender {
        let is_silent = now_ns.saturating_sub(self.heard_ns) >= SILENT_NS;
        if is_silent {
            self.lead = self.lead.min(1);
        }
        if !original || !(fits || is_silent || !self.has_data) {
            return Sender::Stranger;
        }
        if self.has_data && self.lead > 0 {
            self.lead -= 1;
            return Sender::Stranger;
        }
        *self = Self { address: from, has_data: true, heard_ns: now_ns, lead: 1 };
        Sender::Moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{MS, address};

    #[test]
    fn an_address_is_left_for_one_that_sends_more_data() {
        let [true_one, other] = ["192.0.2.1", "192.0.2.66"].map(address);
        let mut origin = Origin::new(other, 0);
        assert!(origin.spm(0, other) && !origin.spm(0, true_one));
        assert_eq!(origin.data(0, true_one, false, true), Sender::Stranger, "a repair may be another's");
        assert_eq!(origin.data(0, true_one, true, true), Sender::Moved, "SPMs alone are no data");
        for _ in 0..100 {
            assert_eq!(origin.data(MS, true_one, true, true), Sender::Source);
        }
        let implausible = (0..100).filter(|_| origin.data(MS, other, true, false) != Sender::Stranger).count();
        assert_eq!(implausible, 0, "numbers that do not fit count for nobody");
        let strangers = (0..100).take_while(|_| origin.data(MS, other, true, true) == Sender::Stranger).count();
        assert_eq!((strangers, origin.address), (16, other));
        assert_eq!(
            [(); 2].map(|()| origin.data(MS, true_one, true, true)),
            [Sender::Stranger, Sender::Moved],
            "it is back soon"
        );
    }

    #[test]
    fn an_address_that_fell_silent_is_left_at_the_second_datum() {
        let [true_one, other] = ["192.0.2.1", "192.0.2.66"].map(address);
        let mut origin = Origin::new(true_one, 0);
        for _ in 0..100 {
            origin.data(0, true_one, true, true);
        }
        assert!(origin.spm(1000 * MS, true_one));
        assert_eq!(
            [(); 2].map(|()| origin.data(2000 * MS, other, true, true)),
            [Sender::Stranger; 2],
            "its SPM was heard"
        );
        assert_eq!([(); 2].map(|()| origin.data(3000 * MS, other, true, true)), [Sender::Stranger, Sender::Moved]);
    }
}
