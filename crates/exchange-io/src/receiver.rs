//! A thread that receives all subscribed topics of one address.

use crate::image::{ImageWriter, Sample};
use crate::report::{Rejects, Spread, Subscribed};
use exchange::{Arrival, FrameError, Framing, Monitor, Outcome};
use net::PathError;
use net::group::{GroupSocket, ReceiveBatch};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Batches that are taken after the end.
const LAST_TURNS: u32 = 1000;

#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) topic: String,
    /// As frames carry it.
    pub(crate) topic_id: u32,
    pub(crate) framing: Framing,
    /// The address of the node that publishes it.
    pub(crate) sender: IpAddr,
    /// The only epoch that counts; absent: any.
    pub(crate) epoch: Option<u64>,
    pub(crate) monitor: Monitor,
    pub(crate) image: ImageWriter,
    pub(crate) clock_error_ns: Option<u64>,
}

/// What a receiver counted.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) subscribed: Vec<Subscribed>,
    pub(crate) rejects: Rejects,
    /// Over TCP.
    pub(crate) connections: Option<u64>,
    /// Over PGM.
    pub(crate) repaired: Option<u64>,
}

impl Received {
    /// At the end.
    pub(crate) fn new(subscriptions: Vec<Subscription>, rejects: Rejects) -> Self {
        let at = now();
        let subscribed = subscriptions.into_iter().map(|subscription| subscription.finish(at)).collect();
        Self { subscribed, rejects, connections: None, repaired: None }
    }
}

#[derive(Debug)]
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

/// What receives all topics of an address over a transport.
pub(crate) trait Receive: Sized {
    fn spins(&self) -> bool;

    /// Waits for frames, at most 50 ms so that the images show that it lives, and takes those that are there; returns 0 where nothing
    /// came. With `spins` it does not wait.
    fn turn(&mut self, spins: bool) -> Result<usize, PathError>;

    fn finish(self) -> Received;

    /// Receives until `stop`.
    fn run(mut self, stop: &AtomicBool) -> Result<Received, PathError> {
        until(stop, self.spins(), |spins| self.turn(spins))?;
        Ok(self.finish())
    }
}

/// Takes turns until `stop`. What arrived before the end counts, but a flood does not keep the thread.
#[inline]
fn until(
    stop: &AtomicBool,
    spins: bool,
    mut turn: impl FnMut(bool) -> Result<usize, PathError>,
) -> Result<(), PathError> {
    while !stop.load(Ordering::Relaxed) {
        turn(spins)?;
    }
    for _ in 0..LAST_TURNS {
        if turn(true)? == 0 {
            break;
        }
    }
    Ok(())
}

impl Receiver {
    /// Receives until `stop`; `note` gets each new value with its data.
    #[inline]
    pub(crate) fn receive(&mut self, stop: &AtomicBool, mut note: impl FnMut(&Sample, &[u8])) -> Result<(), PathError> {
        until(stop, self.spins, |spins| self.turn_with(spins, &mut note))
    }

    /// As [`Receive::turn`], with the number of datagrams; `note` gets each new value with its data.
    #[inline]
    pub(crate) fn turn_with(&mut self, spins: bool, note: &mut impl FnMut(&Sample, &[u8])) -> Result<usize, PathError> {
        let count = if spins { self.batch.receive(&self.socket) } else { self.batch.receive_waiting(&self.socket) }?;
        let Self { batch, subscriptions, rejects, .. } = self;
        while let Some(datagram) = batch.take() {
            // All topics of an address have the same framing.
            let framing = subscriptions.first().map_or(Framing::Native, |first| first.framing);
            if let Err(error) = take(framing, subscriptions, rejects, (datagram.bytes, datagram.from), note) {
                rejects.count(error);
            }
        }
        beat(subscriptions);
        Ok(count)
    }
}

impl Receive for Receiver {
    fn spins(&self) -> bool {
        self.spins
    }

    #[inline]
    fn turn(&mut self, spins: bool) -> Result<usize, PathError> {
        self.turn_with(spins, &mut |_, _| {})
    }

    fn finish(mut self) -> Received {
        (self.rejects.overflowed, self.rejects.too_long) = (self.batch.overflowed, self.batch.cut);
        Received::new(self.subscriptions, self.rejects)
    }
}

/// Shows in the images that the thread lives.
#[inline]
pub(crate) fn beat(subscriptions: &[Subscription]) {
    let now_ns = clock::monotonic_ns();
    subscriptions.iter().for_each(|subscription| subscription.image.beat(now_ns));
}

/// Takes what arrived just now; `note` gets a new value with its data. Errors: it is no frame.
#[inline]
pub(crate) fn take(
    framing: Framing,
    subscriptions: &mut [Subscription],
    rejects: &mut Rejects,
    (bytes, from): (&[u8], IpAddr),
    note: &mut impl FnMut(&Sample, &[u8]),
) -> Result<(), FrameError> {
    let at = now();
    let (header, data) = framing.decode(bytes)?;
    let Some(subscription) = subscriptions.iter_mut().find(|subscription| subscription.topic_id == header.topic) else {
        rejects.unknown_topic += 1;
        return Ok(());
    };
    if from != subscription.sender {
        rejects.other_sender += 1;
        return Ok(());
    }
    let Subscription { monitor, image, epoch, .. } = subscription;
    if epoch.is_some_and(|epoch| epoch != header.epoch) {
        monitor.counters.old_epoch += 1;
        return Ok(());
    }
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
        note(&sample, data);
    }
    image.count(&monitor.counters);
    Ok(())
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
