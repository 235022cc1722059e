//! A thread that publishes a topic in each cycle.

use crate::image::{ImageReader, ImageWriter, Sample};
use crate::report::{Published, Spread};
use crate::sender::Sender;
use exchange::{Cycle, Header, Quality, Topic};
use model::Pacer;
use net::PathError;
use stats::Histogram;
use std::sync::atomic::{AtomicBool, Ordering};

/// How long before a cycle a hybrid publisher wakes up to spin, in ns.
const HYBRID_NS: u64 = 50_000;
/// A spinning publisher looks for the end of the run at least so often, in ns.
const SLICE_NS: u64 = 10_000_000;

#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) topic: Topic,
    pub(crate) header: Header,
    pub(crate) data: Vec<u8>,
    pub(crate) sender: Sender,
    /// Frames of a cycle.
    pub(crate) targets: usize,
    pub(crate) image: ImageWriter,
    /// What an application wants to be published; absent: a pattern.
    pub(crate) input: Option<ImageReader>,
    pub(crate) wake_ups: Histogram,
    pub(crate) pacer: Pacer,
}

impl Publisher {
    /// Publishes each cycle until `stop`, then the last frame.
    pub(crate) fn run(mut self, mut cycle: Cycle, stop: &AtomicBool) -> Result<Published, PathError> {
        self.cycles(&mut cycle, u64::MAX, stop, |_, _, _| {})?;
        let sent = self.header.sequence;
        // Frames of other framings cannot be marked as the last one.
        if self.topic.framing.is_native() {
            self.header.is_last = true;
            self.cycle(cycle.number(), cycle.due_ns())?;
        }
        let Self { topic, sender, targets, wake_ups, .. } = self;
        let (lost, connections) = sender.finish();
        Ok(Published {
            topic: topic.name,
            sent,
            transport: topic.transport,
            targets,
            lost,
            connections,
            overruns: cycle.overruns,
            skipped: cycle.skipped,
            wake_up_ns: Spread::new(&wake_ups),
        })
    }

    /// Publishes each cycle that is due before `end_ns`, until `stop`; `note` gets its number, when it was due, and when its thread looked at the clock.
    #[inline]
    pub(crate) fn cycles(
        &mut self,
        cycle: &mut Cycle,
        end_ns: u64,
        stop: &AtomicBool,
        mut note: impl FnMut(u64, u64, u64),
    ) -> Result<(), PathError> {
        while cycle.due_ns() < end_ns && wait_until(cycle.due_ns(), self.pacer, &mut self.sender, stop)? {
            let begun_ns = self.cycle(cycle.number(), cycle.due_ns())?;
            note(cycle.number(), cycle.due_ns(), begun_ns);
            cycle.advance(clock::monotonic_ns());
        }
        Ok(())
    }

    /// Sends the frame of a cycle that was due at `due_ns`; returns when it looked at the clock. Errors: the socket is broken.
    #[inline]
    pub(crate) fn cycle(&mut self, number: u64, due_ns: u64) -> Result<u64, PathError> {
        let now_ns = clock::monotonic_ns();
        if !self.header.is_last {
            self.wake_ups.record(now_ns.saturating_sub(due_ns));
            self.header.quality = self.fill(number, now_ns);
        }
        let real_ns = clock::realtime_ns();
        self.header.cycle = number;
        // The last frame is sent before its cycle.
        self.header.scheduled_ns = real_ns.saturating_add(due_ns).saturating_sub(now_ns);
        self.header.sent_ns = real_ns;
        self.sender.send(self.topic.framing, &self.header, &self.data, now_ns)?;
        if !self.header.is_last {
            self.store(now_ns);
        }
        Ok(now_ns)
    }

    /// Sends a sample back as it came: with its numbers, and the time at which its cycle was due. Errors: the socket is broken.
    #[inline]
    pub(crate) fn echo(&mut self, sample: &Sample, data: &[u8]) -> Result<(), PathError> {
        let Some(own) = self.data.get_mut(..data.len()) else { return Ok(()) };
        own.copy_from_slice(data);
        let Sample { quality, sequence, epoch, cycle, scheduled_ns, stored_ns, .. } = *sample;
        let sent_ns = clock::realtime_ns();
        self.header = Header { quality, sequence, epoch, cycle, scheduled_ns, sent_ns, ..self.header };
        self.sender.send(self.topic.framing, &self.header, &self.data, stored_ns)?;
        self.store(stored_ns);
        Ok(())
    }

    /// Writes what was sent into the own image.
    #[inline]
    fn store(&mut self, stored_ns: u64) {
        let Header { quality, sequence, epoch, cycle, scheduled_ns, sent_ns, .. } = self.header;
        let sample = Sample { quality, sequence, epoch, cycle, scheduled_ns, sent_ns, stored_ns };
        self.image.write(&sample, &self.data);
        self.header.sequence += 1;
    }

    /// The data of this cycle, and how far they can be trusted.
    #[inline]
    fn fill(&mut self, number: u64, now_ns: u64) -> Quality {
        let Some(input) = &self.input else {
            self.topic.write_pattern(number, &mut self.data);
            return Quality::Good;
        };
        match input.latest(&mut self.data) {
            Ok(Some(sample)) if now_ns.saturating_sub(sample.stored_ns) <= self.topic.stale_ns() => sample.quality,
            Ok(Some(_)) => Quality::Stale,
            Ok(None) | Err(_) => Quality::Bad,
        }
    }
}

/// Waits for a time; false when the run ends before it. Errors: the sender's socket is broken.
#[inline]
fn wait_until(due_ns: u64, pacer: Pacer, sender: &mut Sender, stop: &AtomicBool) -> Result<bool, PathError> {
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let sleep_until_ns = match pacer {
            Pacer::Sleep => due_ns,
            Pacer::Hybrid => due_ns.saturating_sub(HYBRID_NS),
            Pacer::Spin => 0,
        };
        sender.serve(sleep_until_ns)?;
        // An interrupted sleep begins again.
        if clock::monotonic_ns() < sleep_until_ns {
            let _ = clock::sleep_until(sleep_until_ns);
        }
        let begun_ns = clock::monotonic_ns();
        loop {
            let now_ns = clock::monotonic_ns();
            if now_ns >= due_ns {
                return Ok(true);
            }
            if pacer == Pacer::Sleep || now_ns - begun_ns > SLICE_NS {
                break;
            }
            std::hint::spin_loop();
        }
    }
}
