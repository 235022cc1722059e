//! One-way times of one reflector from the stamps in its answers. Where its clock is another, two estimates run side by side,
//! over the application's ticks and over stamps of the kernel or the NIC in wall-clock times; the closer bound decides.

use super::config::PeerClock;
use super::estimate::{Estimate, Exchange};
use super::signed::SignedDistribution;
use super::stamped::StampedExchanges;
use crate::raw::signed_ns;
use model::{OneWay, OneWayMethod, PacedSample, Sample, StampClock, StampSource, Stamps, TickRate};
use std::collections::BTreeMap;

/// Over the application's ticks: ours since the first message, theirs since their first stamp.
#[derive(Debug)]
struct Ticks {
    rate: TickRate,
    far_first: Option<u64>,
    estimate: Estimate,
}

impl Ticks {
    fn exchange(&self, near: TickRate, first: u64, sample: &Sample) -> Option<Exchange> {
        let far_first = self.far_first?;
        Some(Exchange {
            sent: signed_ns(near, first, sample.sent),
            far_rx: signed_ns(self.rate, far_first, sample.peer_rx),
            far_tx: signed_ns(self.rate, far_first, sample.peer_tx),
            received: signed_ns(near, first, sample.received),
        })
    }

    fn take(&mut self, near: TickRate, first: u64, sample: &Sample) {
        self.far_first.get_or_insert(sample.peer_rx);
        if let Some(exchange) = self.exchange(near, first, sample) {
            if self.estimate.is_due(&exchange) {
                self.estimate.settle();
            }
            self.estimate.offer(&exchange);
            self.estimate.count(exchange);
        }
    }
}

/// Both estimates.
#[derive(Debug)]
struct Estimates {
    ticks: Ticks,
    /// Where stamps were asked for.
    stamped: Option<StampedExchanges>,
}

#[derive(Debug)]
pub(super) struct OneWayRecorder {
    out: SignedDistribution,
    back: SignedDistribution,
    /// Absent where both ends read one counter.
    estimates: Option<Box<Estimates>>,
    /// What this end and the far one stamp with.
    clocks: Option<[StampClock; 2]>,
}

impl OneWayRecorder {
    /// `None` where nothing is known of the far clock.
    pub(super) fn new(clock: PeerClock, stamps: Stamps) -> Option<Self> {
        let estimates = match clock {
            PeerClock::Unknown => return None,
            PeerClock::SameCounter => None,
            PeerClock::Other(rate) => Some(Box::new(Estimates {
                ticks: Ticks { rate, far_first: None, estimate: Estimate::default() },
                stamped: (stamps != Stamps::None).then(StampedExchanges::default),
            })),
        };
        Some(Self { out: SignedDistribution::default(), back: SignedDistribution::default(), estimates, clocks: None })
    }

    /// Takes an answered message; one without stamps is passed over.
    #[inline]
    pub(super) fn take(&mut self, near: TickRate, first: u64, one: &PacedSample) {
        let sample = &one.sample;
        if sample.peer_rx == 0 || sample.peer_tx == 0 {
            return;
        }
        let Some(estimates) = &mut self.estimates else {
            self.out.record(signed_ns(near, sample.sent, sample.peer_rx));
            self.back.record(signed_ns(near, sample.peer_tx, sample.received));
            return;
        };
        estimates.ticks.take(near, first, sample);
        if let Some(stamped) = &mut estimates.stamped {
            stamped.take(one);
        }
    }

    /// What the stamps beside the application's are of, as far as both ends told.
    pub(super) fn clocks(&mut self, near: Option<&StampClock>, far: Option<&StampClock>) {
        self.clocks = near.cloned().zip(far.cloned()).map(|(near, far)| [near, far]);
    }

    /// Counts what still waits.
    pub(super) fn end(&mut self) {
        if let Some(estimates) = &mut self.estimates {
            estimates.ticks.estimate.settle();
            if let Some(stamped) = &mut estimates.stamped {
                stamped.end();
            }
        }
    }

    /// The estimate by the better stamps, when it knows of as many messages and is no worse.
    fn stamped(&self) -> Option<(&StampedExchanges, u64)> {
        let estimates = self.estimates.as_deref()?;
        let (stamped, [near, far]) = (estimates.stamped.as_ref()?, self.clocks.as_ref()?);
        let by_ticks = &estimates.ticks.estimate;
        let error_ns = stamped.estimate.error_ns().saturating_add(near.error_ns).saturating_add(far.error_ns);
        let is_whole = stamped.estimate.counted >= by_ticks.counted;
        (stamped.stamped > 0 && is_whole && error_ns <= by_ticks.error_ns()).then_some((stamped, error_ns))
    }

    /// The two parts of one message; after [`OneWayRecorder::end`].
    pub(super) fn parts(
        &self,
        near: TickRate,
        first: u64,
        PacedSample { sample, stamps, .. }: &PacedSample,
        parts: &mut BTreeMap<String, i64>,
    ) {
        if sample.peer_rx == 0 || sample.peer_tx == 0 {
            return;
        }
        let found = match (&self.estimates, self.stamped()) {
            (None, _) => {
                Some((signed_ns(near, sample.sent, sample.peer_rx), signed_ns(near, sample.peer_tx, sample.received)))
            }
            (_, Some((stamped, _))) => stamped.exchange(stamps).and_then(|one| stamped.estimate.parts(&one)),
            (Some(estimates), None) => {
                let ticks = &estimates.ticks;
                ticks.exchange(near, first, sample).and_then(|one| ticks.estimate.parts(&one))
            }
        };
        if let Some((out, back)) = found {
            parts.insert("out".to_owned(), out);
            parts.insert("back".to_owned(), back);
        }
    }

    /// The summary; `None` where no answer held stamps. After [`OneWayRecorder::end`].
    pub(super) fn report(&self, near: TickRate, first: u64) -> Option<OneWay> {
        let of = |estimate: &Estimate, zero: i128, error_ns: u64, stamps: StampSource, clocks: &[StampClock]| {
            let (lead_ns, slope) = estimate.course()?;
            let (out, back) = estimate.summaries()?;
            Some(OneWay {
                out,
                back,
                method: OneWayMethod::MinRtt,
                offset_ns: i64::try_from(zero + i128::from(lead_ns)).unwrap_or(i64::MAX),
                drift_ppm: slope * 1e6,
                error_ns,
                stamps,
                clocks: clocks.to_vec(),
            })
        };
        let Some(estimates) = &self.estimates else {
            let (out, back) = self.out.summary().zip(self.back.summary())?;
            return Some(OneWay {
                out,
                back,
                method: OneWayMethod::SameClock,
                offset_ns: 0,
                drift_ppm: 0.0,
                error_ns: 0,
                stamps: StampSource::Application,
                clocks: Vec::new(),
            });
        };
        if let (Some((stamped, error_ns)), Some(clocks)) = (self.stamped(), &self.clocks) {
            let all = |stamps| clocks.iter().all(|clock| clock.stamps == stamps);
            let by = [Stamps::Hardware, Stamps::HardwareSent].into_iter().find(|stamps| all(*stamps));
            let by = by.map_or(StampSource::Kernel, StampSource::from);
            return of(&stamped.estimate, stamped.zero(), error_ns, by, clocks);
        }
        let ticks = &estimates.ticks;
        let zero = i128::from(ticks.rate.ns(ticks.far_first.unwrap_or(0))) - i128::from(near.ns(first));
        of(&ticks.estimate, zero, ticks.estimate.error_ns(), StampSource::Application, &[])
    }
}
