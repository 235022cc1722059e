//! A thread that receives all subscribed topics of one address.

use crate::image::{ImageWriter, Sample};
use crate::report::{Rejects, Spread, Subscribed};
use exchange::{Arrival, Framing, Monitor, Outcome};
use net::PathError;
use net::group::{GroupSocket, ReceiveBatch};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Batches that are taken after the end.
const LAST_TURNS: u32 = 1000;

pub(crate) struct Subscription {
    pub(crate) topic: String,
    /// As frames carry it.
    pub(crate) topic_id: u32,
    pub(crate) framing: Framing,
    /// The address of the node that publishes it.
    pub(crate) sender: IpAddr,
    pub(crate) monitor: Monitor,
    pub(crate) image: ImageWriter,
    pub(crate) clock_error_ns: Option<u64>,
}

/// What a receiver counted.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) subscribed: Vec<Subscribed>,
    pub(crate) rejects: Rejects,
}

pub(crate) struct Receiver {
    pub(crate) socket: GroupSocket,
    pub(crate) spins: bool,
    pub(crate) batch: ReceiveBatch,
    pub(crate) subscriptions: Vec<Subscription>,
    pub(crate) rejects: Rejects,
}

fn now() -> Arrival {
    Arrival { monotonic_ns: clock::monotonic_ns(), real_ns: clock::realtime_ns() }
}

impl Receiver {
    /// Receives until `stop`.
    pub(crate) fn run(mut self, stop: &AtomicBool) -> Result<Received, PathError> {
        while !stop.load(Ordering::Relaxed) {
            self.turn(self.spins)?;
        }
        // What arrived before the end counts, but a flood does not keep the thread.
        for _ in 0..LAST_TURNS {
            if self.turn(true)? == 0 {
                break;
            }
        }
        let at = now();
        (self.rejects.overflowed, self.rejects.too_long) = (self.batch.overflowed, self.batch.cut);
        let subscribed = self.subscriptions.into_iter().map(|subscription| subscription.finish(at)).collect();
        Ok(Received { subscribed, rejects: self.rejects })
    }

    /// Waits for datagrams, at most 50 ms so that the images show that it lives, and takes those that are there; returns how many. With `spins` it does not wait.
    #[inline]
    pub(crate) fn turn(&mut self, spins: bool) -> Result<usize, PathError> {
        let count = if spins { self.batch.receive(&self.socket) } else { self.batch.receive_waiting(&self.socket) }?;
        while let Some(datagram) = self.batch.take() {
            let at = now();
            take(&mut self.subscriptions, &mut self.rejects, datagram.bytes, datagram.from, at);
        }
        let now_ns = clock::monotonic_ns();
        self.subscriptions.iter().for_each(|subscription| subscription.image.beat(now_ns));
        Ok(count)
    }
}

#[inline]
fn take(subscriptions: &mut [Subscription], rejects: &mut Rejects, bytes: &[u8], from: IpAddr, at: Arrival) {
    // All topics of an address have the same framing.
    let framing = subscriptions.first().map_or(Framing::Native, |first| first.framing);
    let (header, data) = match framing.decode(bytes) {
        Ok(frame) => frame,
        Err(error) => return rejects.count(error),
    };
    let Some(subscription) = subscriptions.iter_mut().find(|subscription| subscription.topic_id == header.topic) else {
        rejects.unknown_topic += 1;
        return;
    };
    if from != subscription.sender {
        rejects.other_sender += 1;
        return;
    }
    let Subscription { monitor, image, .. } = subscription;
    if monitor.on_frame(&header, data, at) == Outcome::New {
        let sample = Sample {
            quality: header.quality,
            sequence: header.sequence,
            epoch: header.epoch,
            cycle: header.cycle,
            scheduled_ns: header.scheduled_ns,
            sent_ns: header.sent_ns,
            stored_ns: at.monotonic_ns,
        };
        image.write(&sample, data);
    }
    image.count(&monitor.counters);
}

impl Subscription {
    fn finish(mut self, at: Arrival) -> Subscribed {
        self.monitor.finish(at);
        let Monitor { counters, intervals, ages, first_miss, .. } = &self.monitor;
        Subscribed {
            topic: self.topic,
            framing: self.framing,
            counters: *counters,
            first_miss: *first_miss,
            deadline_by: if self.clock_error_ns.is_some() { "schedule" } else { "arrivals" },
            interval_ns: Spread::new(intervals),
            age_ns: self.clock_error_ns.map(|_| Spread::new(ages)),
            clock_error_ns: self.clock_error_ns,
        }
    }
}
