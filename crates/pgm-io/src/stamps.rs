//! Kernel stamps of the last data packets, found by the time of taking, which the engine knows of each message.

/// A ring of (taken, stamp) by time.
#[derive(Debug)]
pub(crate) struct StampRing {
    entries: Vec<(u64, u64)>,
    /// Entries written in all.
    written: usize,
}

impl StampRing {
    /// Room for `packets` or more.
    pub(crate) fn new(packets: usize) -> Self {
        Self { entries: vec![(0, 0); packets.max(1).next_power_of_two()], written: 0 }
    }

    /// Adds the newest; times must rise.
    #[inline]
    pub(crate) fn push(&mut self, taken_ns: u64, stack_ns: u64) {
        let at = self.written & (self.entries.len() - 1);
        if let Some(entry) = self.entries.get_mut(at) {
            *entry = (taken_ns, stack_ns);
        }
        self.written += 1;
    }

    fn entry(&self, number: usize) -> (u64, u64) {
        self.entries.get(number & (self.entries.len() - 1)).copied().unwrap_or_default()
    }

    /// The stamp of what was taken then; 0 when it is no longer known.
    #[inline]
    pub(crate) fn find(&self, taken_ns: u64) -> u64 {
        let Some(last) = self.written.checked_sub(1) else { return 0 };
        // Nearly always the newest.
        match self.entry(last) {
            (taken, stack_ns) if taken == taken_ns => stack_ns,
            _ => self.search(taken_ns),
        }
    }

    #[cold]
    fn search(&self, taken_ns: u64) -> u64 {
        let (mut low, mut high) = (self.written.saturating_sub(self.entries.len()), self.written);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.entry(middle) {
                (taken, stack_ns) if taken == taken_ns => return stack_ns,
                (taken, _) if taken < taken_ns => low = middle + 1,
                _ => high = middle,
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_until_it_is_written_over() {
        let mut ring = StampRing::new(5);
        assert_eq!(ring.find(3), 0);
        for at in 1..=20_u64 {
            ring.push(at * 10, at);
            for back in 0..12 {
                let Some(wanted) = at.checked_sub(back).filter(|wanted| *wanted > 0) else { break };
                let expected = if back < 8 { wanted } else { 0 };
                assert_eq!(ring.find(wanted * 10), expected);
            }
            assert_eq!(ring.find(at * 10 + 5), 0);
        }
    }
}
