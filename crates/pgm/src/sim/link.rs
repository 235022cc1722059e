//! One direction of the way between a node and the switch.

use random::SplitMix64;

const SECOND: u128 = 1_000_000_000;

/// What a link does to packets. Shares are from 0 (never) to 1 (always).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Rate in bytes a second; default 125,000,000: 1 Gbit/s.
    pub bytes_per_second: u64,
    /// What lower layers add to each packet, in bytes. Default 66: Ethernet with preamble and gap, IPv4, UDP.
    pub overhead_bytes: u32,
    /// Bytes that may wait for the link; what finds more waiting is dropped. Default 1 MiB.
    pub queue_bytes: u64,
    /// From the last bit sent to the last bit received, in ns. Default 10 µs.
    pub delay_ns: u64,
    /// Longest random addition to it, in ns, which keeps the order. Default 0.
    pub jitter_ns: u64,
    /// Share of packets that are lost. Default 0.
    pub lost: f64,
    /// Average length of a row of losses (Gilbert's model), for rare losses; up to 1: independent losses. Default 1.
    pub burst: f64,
    /// Share of packets that arrive twice. Default 0.
    pub doubled: f64,
    /// Share of packets that arrive later than their order. Default 0.
    pub reordered: f64,
    /// Longest random lateness of these, in ns. Default 0.
    pub reorder_ns: u64,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            bytes_per_second: 125_000_000,
            overhead_bytes: 66,
            queue_bytes: 1 << 20,
            delay_ns: 10_000,
            jitter_ns: 0,
            lost: 0.0,
            burst: 1.0,
            doubled: 0.0,
            reordered: 0.0,
            reorder_ns: 0,
        }
    }
}

impl Link {
    /// No limit of rate, no delay, no faults.
    pub fn ideal() -> Self {
        Self { bytes_per_second: u64::MAX, queue_bytes: u64::MAX, overhead_bytes: 0, delay_ns: 0, ..Self::default() }
    }
}

/// What a link did so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounts {
    /// Packets that were handed to it.
    pub packets: u64,
    /// Their bytes, with what lower layers add.
    pub bytes: u64,
    /// Of these packets, dropped because the queue was full.
    pub dropped: u64,
    /// Lost at random.
    pub lost: u64,
    /// Doubled.
    pub doubled: u64,
    /// Made late.
    pub reordered: u64,
}

/// A share as a limit of what is drawn.
#[derive(Debug, Clone, Copy, Default)]
struct Chance(u64);

impl Chance {
    fn new(share: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates, as it should")]
        Self((share * 18_446_744_073_709_551_616.0) as u64)
    }

    fn happens(self, random: &mut SplitMix64) -> bool {
        match self.0 {
            0 => false,
            u64::MAX => true,
            limit => random.next_u64() < limit,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Wire {
    link: Link,
    random: SplitMix64,
    queue_ns: u64,
    loss: Chance,
    /// In a row of losses: the chance that it ends after this one; absent: losses know nothing of each other.
    row_ends: Option<Chance>,
    in_row: bool,
    doubled: Chance,
    reordered: Chance,
    free_ns: u64,
    /// When the newest packet arrives: none that keeps the order arrives before.
    newest_ns: u64,
    pub(super) counts: LinkCounts,
}

impl Wire {
    pub(super) fn new(link: Link, seed: u64) -> Self {
        let mut wire = Self { random: SplitMix64::new(seed), ..Self::default() };
        wire.change(link);
        wire
    }

    /// Another link from now on; what is on the way stays so, and the draws go on.
    pub(super) fn change(&mut self, link: Link) {
        let waiting = u128::from(link.queue_bytes) * SECOND / u128::from(link.bytes_per_second.max(1));
        self.queue_ns = u64::try_from(waiting).unwrap_or(u64::MAX);
        if link.burst > 1.0 {
            // So that the share of packets lost in the long run is the one asked for.
            self.loss = Chance::new(link.lost / (link.burst * (1.0 - link.lost) + link.lost));
            self.row_ends = Some(Chance::new(1.0 / link.burst));
        } else {
            (self.loss, self.row_ends) = (Chance::new(link.lost), None);
        }
        (self.doubled, self.reordered) = (Chance::new(link.doubled), Chance::new(link.reordered));
        self.link = link;
    }

    fn loses(&mut self) -> bool {
        let lost = self.in_row || self.loss.happens(&mut self.random);
        if let Some(ends) = self.row_ends {
            self.in_row = lost && !ends.happens(&mut self.random);
        }
        lost
    }

    /// Takes a packet; when it and its double arrive.
    pub(super) fn carry(&mut self, now_ns: u64, bytes: usize) -> [Option<u64>; 2] {
        let whole = bytes as u64 + u64::from(self.link.overhead_bytes);
        self.counts.packets += 1;
        self.counts.bytes += whole;
        if self.free_ns.saturating_sub(now_ns) > self.queue_ns {
            self.counts.dropped += 1;
            return [None, None];
        }
        let lasts = whole.saturating_mul(1_000_000_000) / self.link.bytes_per_second.max(1);
        self.free_ns = self.free_ns.max(now_ns).saturating_add(lasts);
        if self.loses() {
            self.counts.lost += 1;
            return [None, None];
        }
        let first = self.arrival();
        if !self.doubled.happens(&mut self.random) {
            return [Some(first), None];
        }
        self.counts.doubled += 1;
        [Some(first), Some(self.arrival())]
    }

    fn arrival(&mut self) -> u64 {
        let jitter =
            if self.link.jitter_ns == 0 { 0 } else { self.random.scaled(self.link.jitter_ns.saturating_add(1)) };
        let in_order = self.free_ns.saturating_add(self.link.delay_ns).saturating_add(jitter).max(self.newest_ns);
        if self.reordered.happens(&mut self.random) {
            self.counts.reordered += 1;
            return in_order.saturating_add(self.random.scaled(self.link.reorder_ns.saturating_add(1)));
        }
        self.newest_ns = in_order;
        in_order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(link: Link, packets: u32) -> (f64, f64) {
        let mut wire = Wire::new(Link { bytes_per_second: u64::MAX, ..link }, 3);
        let (mut lost, mut rows, mut before) = (0_u32, 0_u32, false);
        for at in 0..packets {
            let arrived = wire.carry(u64::from(at), 100)[0].is_some();
            lost += u32::from(!arrived);
            rows += u32::from(!arrived && !before);
            before = !arrived;
        }
        (f64::from(lost) / f64::from(packets), f64::from(lost) / f64::from(rows.max(1)))
    }

    #[test]
    fn as_much_is_lost_as_was_asked_for() {
        let (lost, row) = share(Link { lost: 0.1, ..Link::default() }, 200_000);
        assert!((0.097..0.103).contains(&lost) && (1.05..1.17).contains(&row), "{lost} {row}");
        let (lost, row) = share(Link { lost: 0.1, burst: 5.0, ..Link::default() }, 200_000);
        assert!((0.09..0.11).contains(&lost) && (4.6..5.4).contains(&row), "{lost} {row}");
        let (lost, _) = share(Link { lost: 0.6, burst: 1.7, ..Link::default() }, 200_000);
        assert!((0.58..0.62).contains(&lost), "{lost}");
        assert_eq!(share(Link { lost: 1.0, burst: 3.0, ..Link::default() }, 100).0, 1.0);
        assert_eq!(share(Link { lost: 1.0, ..Link::default() }, 100).0, 1.0);
        assert_eq!(share(Link::default(), 100).0, 0.0);
    }

    #[test]
    fn rate_and_queue() {
        // 1000 bytes take a millisecond; 2000 may wait.
        let link = Link { bytes_per_second: 1_000_000, overhead_bytes: 0, queue_bytes: 2000, ..Link::default() };
        let mut wire = Wire::new(Link { delay_ns: 5, ..link }, 1);
        let arrivals: Vec<Option<u64>> = (0..5).map(|_| wire.carry(0, 1000)[0]).collect();
        assert_eq!(arrivals, [Some(1_000_005), Some(2_000_005), Some(3_000_005), None, None]);
        assert_eq!((wire.counts.dropped, wire.counts.bytes), (2, 5000));
        assert_eq!(wire.carry(10_000_000, 1000), [Some(11_000_005), None]);
    }

    #[test]
    fn jitter_keeps_the_order_and_reordering_does_not() {
        let disorder = |link: Link| {
            let mut wire = Wire::new(link, 9);
            let arrivals: Vec<u64> = (0..1000).filter_map(|at| wire.carry(at * 1000, 100)[0]).collect();
            arrivals.windows(2).filter(|pair| pair[1] < pair[0]).count()
        };
        assert_eq!(disorder(Link { jitter_ns: 100_000, ..Link::default() }), 0);
        let late = disorder(Link { reordered: 0.1, reorder_ns: 100_000, ..Link::default() });
        assert!((50..150).contains(&late), "{late}");
    }
}
