//! The recorder of `pace`: messages of a schedule, many in flight, in the order in which their outcome became known. It runs beside
//! the measurement on a thread of its own, so it may take memory. What happened when is kept by interval.

mod config;
mod estimate;
mod figures;
mod intervals;
mod offset;
mod one_way;
mod repaired;
mod saturated;
mod segments;
mod signed;
mod stalls;
mod stamped;

pub use config::{PacedConfig, PacedPeer, PeerClock};
pub use figures::{Arrears, PaceFigures, SenderCounts};
pub use repaired::{RepairFigures, RepairNote, lost_for_good};
pub use saturated::{Delivered, RateEvidence, RemoteEnd, saturated};

use crate::hlog::Log;
use crate::latency::Distribution;
use crate::outliers::{self, OutlierCandidate, Outliers};
use crate::recorder::{FIRST_LOOK, Recorded};
use crate::shared::{MessageCounts, RawSamples, ScheduleTimes, Times};
use intervals::{IntervalMessage, Intervals, MessageOutcome};
use model::result::Outlier;
use model::{ClockMap, LiveInterval, PacedSample, RateReport, ReflectorReport, Sample, SampleFlags, StampClock};
use one_way::OneWayRecorder;
use repaired::RepairRecorder;
use segments::Segments;
use stalls::Stalls;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// How often the median that stalls are judged by is looked at, in messages.
const LOOK_EVERY: u64 = 1024;
/// Raw samples hold the reflector's index in their flags from this bit on.
const PEER_SHIFT: u32 = 16;

/// An outlier of `pace`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct OutlierDetail {
    peer: usize,
    one: PacedSample,
}

#[derive(Debug, Default)]
struct Peer {
    counts: MessageCounts,
    /// Where there are several: latency from the actual and from the intended time.
    own: Option<Box<(Distribution, Distribution)>>,
    one_way: Option<OneWayRecorder>,
    /// One more than the highest number that was answered.
    answered: u64,
    /// The number that would go on with the run of losses, its messages so far, such runs so far, and the longest of them.
    next_lost: u64,
    run_length: u64,
    gaps: u64,
    longest_gap: u64,
}

/// Takes the samples of `pace` beside the measurement.
#[derive(Debug)]
pub struct Paced {
    config: PacedConfig,
    rtt: Distribution,
    /// The sender's own lateness is that without what the path is to blame for.
    times: ScheduleTimes,
    intervals: Intervals,
    peers: Vec<Peer>,
    segments: Option<Box<Segments>>,
    repairs: Option<Box<RepairRecorder>>,
    /// By the time from the intended send, from the actual send, and by lateness: each of the three has a heat map.
    outliers: [Outliers<OutlierDetail>; 3],
    /// Messages with at least these times, in the same order, are offered to the outliers.
    notable_from: [u64; 3],
    /// Stalls as messages see them, and those of the sender alone.
    stalls: Stalls,
    sender_stalls: Stalls,
    first: Option<u64>,
    /// The last actual send, number and intended time of that message, and the last answer or time-out.
    last_sent: u64,
    last_number: u64,
    last_intended: u64,
    last: u64,
    /// Messages of the schedule: sent, and sent more than a distance late.
    scheduled: u64,
    behind: u64,
    own_behind: u64,
    distance_ns: u64,
    sender: SenderCounts,
    raw: RawSamples,
}

impl Paced {
    /// Takes the memory that does not depend on the length of the run.
    pub fn new(mut config: PacedConfig) -> Self {
        if config.peers.is_empty() {
            config.peers.push(PacedPeer::default());
        }
        let several = config.peers.len() > 1;
        let peer = |peer: &PacedPeer| Peer {
            own: several.then(Box::default),
            one_way: OneWayRecorder::new(peer.clock, config.stamps),
            next_lost: u64::MAX,
            ..Peer::default()
        };
        let hosts: Vec<String> = config.peers.iter().map(|peer| peer.host.clone()).collect();
        let wait_ns = config.timeout_ns.saturating_add(config.interval_ns);
        let outliers = [
            Outliers::new(config.outliers),
            Outliers::only_worst(config.outliers),
            Outliers::only_worst(config.outliers),
        ];
        Self {
            rtt: Distribution::default(),
            times: ScheduleTimes::default(),
            intervals: Intervals::new(config.interval_ns, config.rate.ticks(wait_ns), &hosts),
            peers: config.peers.iter().map(peer).collect(),
            segments: Segments::new(config.stamps),
            repairs: config.repairs.then(|| RepairRecorder::new(config.peers.len())),
            notable_from: outliers.each_ref().map(Outliers::notable_from),
            outliers,
            stalls: Stalls::default(),
            sender_stalls: Stalls::default(),
            first: None,
            last_sent: 0,
            last_number: 0,
            last_intended: 0,
            last: 0,
            scheduled: 0,
            behind: 0,
            own_behind: 0,
            distance_ns: config.distance_ns(),
            sender: SenderCounts::default(),
            raw: RawSamples::new(config.raw_capacity),
            config,
        }
    }

    /// When the schedule's first message is due, in ticks. To be called before the first sample; else it is guessed from that.
    pub fn begin(&mut self, first_intended: u64) {
        self.first = Some(first_intended);
    }

    /// Takes samples in the order in which their outcome became known. Each message comes once for each reflector that it went
    /// to: answered, or flagged LOST (`received`: when that was noticed) or UNASKED (`received` is not looked at); beside
    /// that answers flagged DUPLICATE or LATE, which are only counted. Samples flagged WARMUP are passed over.
    pub fn ingest(&mut self, samples: &[PacedSample]) {
        for one in samples {
            let sample = &one.sample;
            let peer = usize::from(one.reflector).min(self.peers.len() - 1);
            let mut outcome = None;
            if sample.flags != SampleFlags::default() {
                if sample.flags.has(SampleFlags::WARMUP) {
                    continue;
                }
                if self.raw.are_kept() {
                    self.keep_raw(sample, peer);
                }
                if self.is_only_counted(sample, peer) {
                    continue;
                }
                outcome = match sample.flags {
                    flags if flags.has(SampleFlags::LOST) => Some(MessageOutcome::Lost),
                    flags if flags.has(SampleFlags::UNASKED) => Some(MessageOutcome::Unasked),
                    _ => None,
                };
            } else if self.raw.are_kept() {
                self.keep_raw(sample, peer);
            }
            self.take(one, peer, outcome);
        }
    }

    #[inline]
    fn take(&mut self, one: &PacedSample, peer: usize, outcome: Option<MessageOutcome>) {
        let sample = &one.sample;
        let rate = self.config.rate;
        let first = match self.first {
            Some(first) => first,
            None => self.guess_first(sample),
        };
        let due_ns = rate.ns(sample.intended.saturating_sub(first));
        let lateness_ns = rate.ns(sample.sent.saturating_sub(sample.intended));
        let own_ns = rate.ns(sample.sent.saturating_sub(sample.intended).saturating_sub(one.held));
        self.times.lateness.record(lateness_ns);
        self.times.own_lateness.record(own_ns);
        if sample.sent >= self.last_sent {
            (self.last_sent, self.last_number, self.last_intended) = (sample.sent, sample.seq, sample.intended);
        }
        // Each reflector gets every message, so the first one stands for the schedule.
        if peer == 0 {
            self.scheduled += 1;
            self.behind += u64::from(lateness_ns > self.distance_ns);
            self.own_behind += u64::from(own_ns > self.distance_ns);
        }
        if lateness_ns >= self.sender_stalls.threshold_ns {
            self.sender_stalls.offer(due_ns, lateness_ns);
        }
        let outcome = match outcome {
            None => {
                let rtt_ns = rate.ns(sample.received.saturating_sub(sample.sent));
                let intended_ns = rate.ns(sample.received.saturating_sub(sample.intended));
                self.answered(one, peer, [rtt_ns, intended_ns, lateness_ns, due_ns]);
                MessageOutcome::Answered { rtt_ns, intended_ns }
            }
            Some(outcome) => {
                self.unanswered(one, peer, outcome, lateness_ns, due_ns);
                outcome
            }
        };
        let now = if matches!(outcome, MessageOutcome::Unasked) { sample.sent } else { sample.received };
        self.last = self.last.max(now);
        self.intervals.take(&IntervalMessage {
            due_ns,
            sent_ns: due_ns.saturating_add(lateness_ns),
            sent: sample.sent,
            lateness_ns,
            peer,
            outcome,
        });
        if now >= self.intervals.close_from {
            self.intervals.close(now);
        }
        if self.times.lateness.moments.count().is_multiple_of(LOOK_EVERY)
            || self.times.lateness.moments.count() == FIRST_LOOK
        {
            self.judge_stalls();
        }
    }

    #[inline]
    fn answered(&mut self, one: &PacedSample, peer: usize, times: [u64; 4]) {
        let [rtt_ns, intended_ns, lateness_ns, due_ns] = times;
        self.rtt.record(rtt_ns);
        self.times.intended.record(intended_ns);
        // What repairs took is explained by itself and is no stall of anybody.
        let stood_ns = intended_ns.saturating_sub(one.out.ns() + one.back.ns());
        if stood_ns >= self.stalls.threshold_ns {
            self.stalls.offer(due_ns, stood_ns);
        }
        let [intended_from, rtt_from, late_from] = self.notable_from;
        if intended_ns >= intended_from || rtt_ns >= rtt_from || lateness_ns >= late_from {
            self.keep(one, peer, [intended_ns, rtt_ns, lateness_ns], false);
        }
        if let Some(segments) = &mut self.segments {
            segments.take(&one.stamps);
        }
        if let Some(repairs) = &mut self.repairs {
            repairs.take(one, peer, rtt_ns, intended_ns);
        }
        let first = self.first.unwrap_or(0);
        let of_peer = &mut self.peers[peer];
        of_peer.counts.sent += 1;
        of_peer.counts.received += 1;
        of_peer.answered = of_peer.answered.max(one.sample.seq.saturating_add(1));
        if let Some(own) = &mut of_peer.own {
            own.0.record(rtt_ns);
            own.1.record(intended_ns);
        }
        if let Some(one_way) = &mut of_peer.one_way {
            one_way.take(self.config.rate, first, one);
        }
    }

    #[cold]
    fn unanswered(&mut self, one: &PacedSample, peer: usize, outcome: MessageOutcome, lateness_ns: u64, due_ns: u64) {
        let lost = matches!(outcome, MessageOutcome::Lost);
        let of_peer = &mut self.peers[peer];
        of_peer.counts.sent += 1;
        of_peer.counts.lost += u64::from(lost);
        if lost {
            let begins = one.sample.seq != of_peer.next_lost;
            of_peer.gaps += u64::from(begins);
            of_peer.run_length = if begins { 1 } else { of_peer.run_length + 1 };
            of_peer.longest_gap = of_peer.longest_gap.max(of_peer.run_length);
            of_peer.next_lost = one.sample.seq.saturating_add(u64::from(self.config.every.max(1)));
            let rate = self.config.rate;
            let rtt_ns = rate.ns(one.sample.received.saturating_sub(one.sample.sent));
            let intended_ns = rate.ns(one.sample.received.saturating_sub(one.sample.intended));
            self.keep(one, peer, [intended_ns, rtt_ns, lateness_ns], true);
        } else if lateness_ns >= self.stalls.threshold_ns {
            // There is no answer, so its lateness shows the stall.
            self.stalls.offer(due_ns, lateness_ns);
        }
    }

    #[cold]
    fn guess_first(&mut self, sample: &Sample) -> u64 {
        let before = self.config.rate.ticks(sample.seq.saturating_mul(self.config.period_ns));
        *self.first.insert(sample.intended.saturating_sub(before))
    }

    /// Counts what the flags say; whether that is all that is done with the sample.
    #[cold]
    fn is_only_counted(&mut self, sample: &Sample, peer: usize) -> bool {
        let flags = sample.flags;
        let of_peer = &mut self.peers[peer];
        if flags.has(SampleFlags::REORDERED) {
            // From the highest number answered so far.
            let depth = of_peer.answered.saturating_sub(sample.seq.saturating_add(1));
            of_peer.counts.reorder_depth = of_peer.counts.reorder_depth.max(depth.max(1));
        }
        of_peer.counts.count(flags)
    }

    #[cold]
    fn keep(&mut self, one: &PacedSample, peer: usize, times: [u64; 3], lost: bool) {
        let [.., lateness_ns] = times;
        for (outliers, worth_ns) in self.outliers.iter_mut().zip(times) {
            outliers.offer(OutlierCandidate {
                worth_ns,
                seq: Reverse(one.sample.seq),
                sent: one.sample.sent,
                lateness_ns,
                lost,
                more: OutlierDetail { peer, one: *one },
            });
        }
        self.notable_from = self.outliers.each_ref().map(Outliers::notable_from);
    }

    #[cold]
    fn judge_stalls(&mut self) {
        if let Some(median) = self.times.intended.batches.recent_median() {
            self.stalls.judge_by(median);
        }
        if let Some(median) = self.times.lateness.batches.recent_median() {
            self.sender_stalls.judge_by(median);
        }
    }

    fn keep_raw(&mut self, sample: &Sample, peer: usize) {
        let peer = u32::try_from(peer).unwrap_or(u32::MAX) << PEER_SHIFT;
        self.raw.keep(Sample { flags: SampleFlags(sample.flags.0 | peer), ..*sample });
    }

    /// Takes what only the sender knows.
    pub fn sender(&mut self, counts: SenderCounts) {
        self.sender = counts;
    }

    /// A message left, at these ticks, for so many reflectors: for [`Self::intervals`] alone, and needed for nothing else.
    #[inline]
    pub fn begun(&mut self, intended: u64, sent: u64, messages: u64) {
        let Some(first) = self.first else { return };
        let rate = self.config.rate;
        // As `take` has it, so that a message falls into one interval here and there.
        let due_ns = rate.ns(intended.saturating_sub(first));
        self.intervals.begin(due_ns.saturating_add(rate.ns(sent.saturating_sub(intended))), messages);
    }

    /// Reports the intervals that are over at the tick `now`; all due before the tick `known` is known. See [`Self::intervals`].
    pub fn look(&mut self, now: u64, known: u64, all_sent: bool) {
        let Some(first) = self.first else { return };
        let since = |tick: u64| self.config.rate.ns(tick.saturating_sub(first));
        let (now_ns, known_ns) = (since(now), since(known));
        self.intervals.look(now_ns, known_ns, all_sent);
    }

    /// What the stamps of this end and of each reflector are of, as far as they told at the end.
    pub fn stamp_clocks(&mut self, near: Option<&StampClock>, far: &[Option<StampClock>]) {
        if let (Some(segments), Some(far)) = (&mut self.segments, far.iter().flatten().next()) {
            segments.far = far.stamps;
        }
        for (peer, far) in self.peers.iter_mut().zip(far) {
            if let Some(one_way) = &mut peer.one_way {
                one_way.clocks(near, far.as_ref());
            }
        }
    }

    /// What [`Self::look`] reported since the last call, oldest first (the latest 600); other intervals come when they are closed.
    pub fn intervals(&mut self) -> Vec<LiveInterval> {
        let (size, asked_pps) = (self.config.size, Some(self.config.asked_pps));
        self.intervals.reports.drain(..).map(|report| LiveInterval { size, asked_pps, ..report }).collect()
    }

    /// How a message was repaired, as the receivers tell at the end; before [`Self::finish`].
    pub fn repair(&mut self, note: RepairNote) {
        if let Some(repairs) = &mut self.repairs {
            repairs.note(note);
        }
    }

    /// Closes all intervals, so that [`Self::intervals`] has the last ones too: nothing more will come.
    pub fn close_intervals(&mut self) {
        self.intervals.end();
    }

    pub fn received(&self) -> u64 {
        self.rtt.moments.count()
    }

    pub fn lost(&self) -> u64 {
        self.peers.iter().map(|peer| peer.counts.lost).sum()
    }

    fn reflectors(&self, first_tick: u64) -> Vec<ReflectorReport> {
        let (rate, kind) = (self.config.rate, self.config.kind);
        let report = |(named, peer): (&PacedPeer, &Peer)| {
            let of = |one: fn(&(Distribution, Distribution)) -> &Distribution| {
                peer.own.as_deref().map(one).filter(|one| one.moments.count() > 0).map(|one| one.summary(kind))
            };
            ReflectorReport {
                host: named.host.clone(),
                latency: of(|own| &own.0),
                latency_intended: of(|own| &own.1),
                messages: peer.counts.messages(self.config.has_header),
                one_way: peer.one_way.as_ref().and_then(|one| one.report(rate, first_tick)),
            }
        };
        self.config.peers.iter().zip(&self.peers).map(report).collect()
    }

    /// Makes figures of all samples; [`Recorded::pace`] is there. With a clock map outliers and log have wall-clock times.
    pub fn finish(mut self, clock: Option<&ClockMap>) -> Recorded {
        let (rate, kind) = (self.config.rate, self.config.kind);
        let times = Times::new(rate, self.first, clock);
        let first_tick = times.first_tick;
        self.intervals.end();
        self.peers.iter_mut().filter_map(|peer| peer.one_way.as_mut()).for_each(OneWayRecorder::end);
        let arrears = self.arrears();
        let report = self.rate_report(first_tick);
        let several = self.peers.len() > 1;
        let one_way = |peer: &Peer| peer.one_way.as_ref().and_then(|one| one.report(rate, first_tick));
        let reflectors = if several { self.reflectors(first_tick) } else { Vec::new() };
        let mut counts = MessageCounts::default();
        self.peers.iter().for_each(|peer| counts.add(&peer.counts));
        let kept = outliers::merged(self.outliers);
        let repaired = self.repairs.as_ref().map(|repairs| repairs.by_message()).unwrap_or_default();
        let outliers = kept.iter().map(|kept| {
            let OutlierDetail { peer, one } = &kept.more;
            let mut parts_ns = BTreeMap::new();
            if !kept.lost {
                if let Some(one_way) = self.peers.get(*peer).and_then(|peer| peer.one_way.as_ref()) {
                    one_way.parts(rate, first_tick, one, &mut parts_ns);
                }
                segments::name(&one.stamps, &mut parts_ns);
            }
            if self.repairs.is_some() {
                let key = (kept.seq.0, u16::try_from(*peer).unwrap_or(u16::MAX));
                RepairRecorder::name(&repaired, key, [one.out, one.back], &mut parts_ns);
            }
            Outlier {
                host: self.config.peers.get(*peer).filter(|_| several).map(|peer| peer.host.clone()),
                parts_ns,
                ..times.outlier(kept, rate.ns(one.sample.received.saturating_sub(one.sample.sent)))
            }
        });
        let outliers = outliers.collect();
        let (slow, sender_stalls) = (self.stalls.finish(), self.sender_stalls.finish());
        let stalls = all_stalls(&slow, &sender_stalls);
        let pace = PaceFigures {
            rate: report,
            one_way: self.peers.first().filter(|_| !several).and_then(one_way),
            segments: self.segments.map(|segments| segments.finish()).unwrap_or_default(),
            reflectors,
            distance_ns: self.distance_ns,
            burst: self.config.burst.max(1),
            sender_stalls,
            arrears,
            own_behind: self.own_behind,
            sender: self.sender,
            repairs: self.repairs.as_ref().map(|repairs| {
                let hosts: Vec<String> = self.config.peers.iter().map(|peer| peer.host.clone()).collect();
                repairs.finish(&hosts, kind)
            }),
        };
        let (series, lines) = self.intervals.finish();
        let (latency_intended, lateness, schedule) = self.times.finish(kind);
        let (raw, raw_overrun) = self.raw.finish();
        Recorded {
            latency: self.rtt.summary(kind),
            latency_intended: Some(latency_intended),
            lateness: Some(lateness),
            schedule: Some(schedule),
            mdev_ns: self.rtt.moments.mdev(),
            messages: counts.messages(self.config.has_header),
            series,
            outliers,
            histogram: self.rtt.histogram,
            moments: self.rtt.moments,
            hlog: Log::new(times.started_ns).text() + &lines,
            stalls,
            slow,
            raw,
            raw_overrun,
            interrupted: counts.interrupted,
            first_tick,
            started_ns: times.started_ns,
            elapsed_ns: times.since_first(self.last),
            timed_out_ns: 0,
            pace: Some(Box::new(pace)),
        }
    }

    /// Whether the sender caught up towards the end: in arrears even the promptest message of an interval is a distance late.
    fn arrears(&self) -> Arrears {
        let (length_ns, least) = self.intervals.least_lateness();
        let mut arrears = Arrears::default();
        for least_ns in least.rev().take_while(|&least_ns| least_ns > self.distance_ns) {
            if arrears.for_ns == 0 {
                arrears.to_ns = least_ns;
            }
            arrears.from_ns = least_ns;
            arrears.for_ns = arrears.for_ns.saturating_add(length_ns);
        }
        arrears
    }

    /// The random delay of the last message's schedule, which is no part of what the messages lasted.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "never negative; `as` saturates")]
    fn last_delay_ns(&self, first_tick: u64) -> u64 {
        if !self.config.random_delay {
            return 0;
        }
        let burst = u64::from(self.config.burst.max(1));
        let even_ns = (self.last_number / burst * burst) as f64 * 1e9 / self.config.asked_pps;
        let due_ns = self.config.rate.ns(self.last_intended.saturating_sub(first_tick));
        due_ns.saturating_sub(even_ns.round() as u64)
    }

    fn rate_report(&self, first_tick: u64) -> RateReport {
        // The last message has a distance of its own behind it: n messages in time last n distances.
        let lasted_ns = self.config.rate.ns(self.last_sent.saturating_sub(first_tick)).saturating_add(self.distance_ns);
        let lasted_ns = lasted_ns.saturating_sub(self.last_delay_ns(first_tick)).max(1);
        let latest_ns = self.times.lateness.moments.max().unwrap_or(0);
        RateReport {
            asked_pps: self.config.asked_pps,
            achieved_pps: if self.scheduled > 0 { self.scheduled as f64 * 1e9 / lasted_ns as f64 } else { 0.0 },
            intended: self.scheduled + self.sender.unsent,
            behind: self.behind,
            // As many as fell due while the latest one waited.
            most_behind: (latest_ns / self.config.period_ns.max(1)).max(self.sender.unsent),
            gaps: Some(self.peers.iter().map(|peer| peer.gaps).sum()),
            longest_gap: self.peers.iter().map(|peer| peer.longest_gap).max(),
            line_pps: self.config.line_pps,
            saturated: None,
        }
    }
}

/// Stalls of messages, and those that only the sender's lateness shows: one of the sender shows in both.
fn all_stalls(slow: &[(u64, u64)], sender_stalls: &[(u64, u64)]) -> Vec<stats::stalls::Stall> {
    let mut stalls = stats::stalls::find(slow);
    for stall in stats::stalls::find(sender_stalls) {
        if stalls.iter().all(|known| known.cause != stall.cause) {
            stalls.push(stall);
        }
    }
    stalls
}

#[cfg(test)]
mod tests;
