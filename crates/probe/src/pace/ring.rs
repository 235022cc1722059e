//! A single-producer, single-consumer queue in prefaulted memory. Neither side waits; entries without room are dropped and
//! counted, or replace the oldest.

use std::sync::atomic::{AtomicU64, Ordering};

/// On cache lines of its own, so that the two sides do not disturb each other.
#[derive(Debug, Default)]
#[repr(align(128))]
struct CacheLine(AtomicU64);

/// An entry is `W` words, written and read with relaxed atomics (plain moves); the count, stored last, publishes it.
#[derive(Debug)]
pub(crate) struct Ring<const W: usize> {
    slots: Box<[[AtomicU64; W]]>,
    mask: u64,
    written: CacheLine,
    read: CacheLine,
}

impl<const W: usize> Ring<W> {
    /// With room for at least this many entries.
    pub(crate) fn new(entries: usize) -> Self {
        let entries = entries.next_power_of_two();
        // Filled with another value than zero, so that each page is really written to.
        let slots = (0..entries).map(|_| std::array::from_fn(|_| AtomicU64::new(u64::MAX))).collect();
        Self { slots, mask: entries as u64 - 1, written: CacheLine::default(), read: CacheLine::default() }
    }

    /// The two ends. The borrow keeps them the only ones.
    pub(crate) fn ends(&mut self) -> (Producer<'_, W>, Consumer<'_, W>) {
        let ring = &*self;
        let written = ring.written.0.load(Ordering::Relaxed);
        let read = ring.read.0.load(Ordering::Relaxed);
        (Producer { ring, written, read, dropped: 0 }, Consumer { ring, read })
    }

    #[inline]
    fn slot(&self, number: u64) -> Option<&[AtomicU64; W]> {
        #[expect(clippy::cast_possible_truncation, reason = "the mask is below the number of slots")]
        self.slots.get((number & self.mask) as usize)
    }
}

#[derive(Debug)]
pub(crate) struct Producer<'a, const W: usize> {
    ring: &'a Ring<W>,
    written: u64,
    read: u64,
    /// Entries that found no room.
    pub dropped: u64,
}

impl<const W: usize> Producer<'_, W> {
    /// Adds an entry, or counts it where there is no room.
    #[inline]
    pub(crate) fn push(&mut self, entry: [u64; W]) {
        if self.written - self.read > self.ring.mask {
            self.read = self.ring.read.0.load(Ordering::Acquire);
            if self.written - self.read > self.ring.mask {
                self.dropped += 1;
                return;
            }
        }
        self.put(entry);
    }

    #[inline]
    fn put(&mut self, entry: [u64; W]) {
        if let Some(slot) = self.ring.slot(self.written) {
            for (word, value) in slot.iter().zip(entry) {
                word.store(value, Ordering::Relaxed);
            }
        }
        self.written += 1;
        self.ring.written.0.store(self.written, Ordering::Release);
    }
}

impl Producer<'_, 1> {
    /// Adds an entry, in place of the oldest where there is no room. For single words alone: they are never half written.
    pub(crate) fn push_over(&mut self, entry: u64) {
        self.put([entry]);
    }
}

#[derive(Debug)]
pub(crate) struct Consumer<'a, const W: usize> {
    ring: &'a Ring<W>,
    read: u64,
}

impl<const W: usize> Consumer<'_, W> {
    /// How many entries were written so far: what may be taken up to.
    pub(crate) fn written(&self) -> u64 {
        self.ring.written.0.load(Ordering::Acquire)
    }

    /// The next entry that was written before `until`.
    #[inline]
    pub(crate) fn pop(&mut self, until: u64) -> Option<[u64; W]> {
        if self.read >= until {
            return None;
        }
        // Older ones were written over.
        self.read = self.read.max(until.saturating_sub(self.ring.mask + 1));
        let slot = self.ring.slot(self.read)?;
        let entry = std::array::from_fn(|at| slot.get(at).map_or(0, |word| word.load(Ordering::Relaxed)));
        self.read += 1;
        self.ring.read.0.store(self.read, Ordering::Release);
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted_and_nothing_waits() {
        let mut ring = Ring::<2>::new(3);
        let (mut producer, mut consumer) = ring.ends();
        for value in 0..6 {
            producer.push([value, value + 100]);
        }
        assert_eq!(producer.dropped, 2, "there is room for 4");
        let until = consumer.written();
        assert_eq!(consumer.pop(1), Some([0, 100]));
        assert_eq!(consumer.pop(1), None, "no further than asked");
        producer.push([6, 106]);
        let rest: Vec<_> = std::iter::from_fn(|| consumer.pop(until)).collect();
        assert_eq!(rest, [[1, 101], [2, 102], [3, 103]]);
        assert_eq!(consumer.pop(consumer.written()), Some([6, 106]));
        assert_eq!(consumer.pop(consumer.written()), None);
    }

    #[test]
    fn the_newest_stay_where_the_oldest_are_written_over() {
        let mut ring = Ring::<1>::new(4);
        let (mut producer, mut consumer) = ring.ends();
        (0..10).for_each(|value| producer.push_over(value));
        let until = consumer.written();
        let found: Vec<_> = std::iter::from_fn(|| consumer.pop(until)).collect();
        assert_eq!((found, producer.dropped), (vec![[6], [7], [8], [9]], 0));
    }

    #[test]
    fn entries_pass_between_threads_whole_and_in_order() {
        const COUNT: u64 = 200_000;
        let mut ring = Ring::<3>::new(64);
        let (mut producer, mut consumer) = ring.ends();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut value = 0;
                while value < COUNT {
                    let before = producer.dropped;
                    producer.push([value, value * 3, !value]);
                    if producer.dropped == before {
                        value += 1;
                    } else {
                        std::thread::yield_now();
                    }
                }
            });
            let mut expected = 0;
            while expected < COUNT {
                let until = consumer.written();
                while let Some(entry) = consumer.pop(until) {
                    assert_eq!(entry, [expected, expected * 3, !expected]);
                    expected += 1;
                }
                std::thread::yield_now();
            }
        });
    }

    #[test]
    fn nothing_is_allocated_after_the_start() {
        let mut ring = Ring::<10>::new(1024);
        let (mut producer, mut consumer) = ring.ends();
        let counted = allocation_counter::measure(|| {
            for value in 0..10_000 {
                producer.push([value; 10]);
                let until = consumer.written();
                assert_eq!(consumer.pop(until), Some([value; 10]));
            }
        });
        assert_eq!(counted.count_total, 0);
    }
}
