//! The measured loop: rounds of pings and pongs over any path, one sample a round.
//!
//! Between [`Rounds::batch`]'s first and last line nothing is allocated, locked, printed or logged, and no system call is made
//! beside the path's own and the gap's sleep. The clock is read right before the first send and right after the last receive.

use crate::driver::PassEnd;
use crate::framing::Framing;
use crate::round_matcher::{Answer, RoundMatcher};
use clock::Clock;
use model::{Gap, Sample, SampleFlags};
use net::{Path, PathError, Received};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use task::Progress;

/// Samples that a batch has room for beyond its rounds, for late and double answers.
const SPARE_SAMPLES: usize = 1024;

/// From this length on a wait between rounds sleeps; shorter waits spin, because sleeps end late.
const SLEEP_FROM_NS: u64 = 200_000;

/// Longest single sleep in a gap, so that a request to end is seen in time.
const SLEEP_SLICE: Duration = Duration::from_millis(50);

/// Fewest rounds in a row that must go unanswered, and for how long, before the peer counts as vanished.
const SILENT_ROUNDS: u32 = 10;
const SILENT_NS: u64 = 5_000_000_000;

/// Time-outs after which draining a path that does not fall silent is given up.
const MOST_DRAINS: u32 = 8;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub pings: u32,
    pub pongs: u32,
    pub send_bytes: usize,
    pub receive_bytes: usize,
    /// MSG_MORE on all but the last message out.
    pub more: bool,
    pub framing: Framing,
    /// As [`model::Protocol::counts_losses`]: else silence is no loss but a broken path.
    pub counts_losses: bool,
    /// Whether each round has a connection of its own, so that nothing of a lost one can come later.
    pub fresh: bool,
    /// A round without its whole answer is lost after this time, in ns.
    pub timeout_ns: u64,
    pub gap: Gap,
    /// Time between the intended sends of two timed rounds, in ns; 0: a round is meant to be sent when it is.
    pub interval_ns: u64,
    /// Least time between two rounds, warm-up included, in ns, so that the endpoint's rate limit is kept; 0: none.
    pub pace_ns: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    pub rounds: u64,
    /// No round begins after one that ended at or after this tick.
    pub until: u64,
    /// No round begins at or after this tick, also after a gap.
    pub end: u64,
}

impl Limit {
    pub(crate) fn rounds(rounds: u64) -> Self {
        Self { rounds, until: u64::MAX, end: u64::MAX }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Warm-up: not timed, and without gaps, which would only draw it out.
    WarmUp,
    /// After a pause for recording: not timed, and like a timed one otherwise.
    Again,
    Timed,
}

/// What was received and belongs to no round of this size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct UnmatchedCounts {
    /// Datagrams of another length or another session's tag.
    pub foreign: u64,
    /// Late or double answers that found no room among the samples.
    pub overrun: u64,
}

/// The state of one size's loop. Everything it needs is taken in [`Rounds::new`].
#[derive(Debug)]
pub(crate) struct Rounds<'a> {
    clock: Clock,
    stop: &'a AtomicBool,
    progress: &'a Progress,
    plan: Plan,
    timeout: u64,
    spin: u64,
    sleep: Duration,
    matcher: RoundMatcher,
    out: Vec<u8>,
    input: Vec<u8>,
    /// Samples of the last batch, in the order that their rounds ended.
    pub samples: Vec<Sample>,
    first_number: u64,
    /// Ticks between two intended sends; 0: no schedule.
    interval: u64,
    /// When the first timed round was meant to be sent, in ticks; 0 until then.
    first_due: u64,
    /// Whether a gap is due before the next round.
    gap_due: bool,
    /// The number that the next round would have on the wire.
    pub next_number: u64,
    /// Timed rounds so far, lost ones included.
    pub timed_rounds: u64,
    /// Messages that came in time for their round, those of untimed rounds included.
    pub answers: u64,
    /// What came and belongs to no round.
    pub unmatched: UnmatchedCounts,
    /// Rounds lost in a row, and when the first of them was sent.
    unanswered: u32,
    unanswered_since: u64,
    /// Rounds lost in the last batch.
    pub lost_in_batch: u64,
}

/// A path that makes batches of rounds over itself: only a batch is compiled for each kind of path.
pub(crate) trait Batches {
    fn batch(&mut self, rounds: &mut Rounds<'_>, limit: Limit, phase: Phase) -> Result<(), PassEnd>;
}

impl<P: Path> Batches for P {
    fn batch(&mut self, rounds: &mut Rounds<'_>, limit: Limit, phase: Phase) -> Result<(), PassEnd> {
        rounds.batch(self, limit, phase)
    }
}

enum Round {
    Answered(u64),
    Lost(u64),
}

impl<'a> Rounds<'a> {
    /// Takes and touches all memory. `first_number`: the first round's on the wire; numbers go on from size to size.
    pub(crate) fn new(
        clock: Clock,
        plan: Plan,
        first_number: u64,
        batch_rounds: u64,
        stop: &'a AtomicBool,
        progress: &'a Progress,
    ) -> Self {
        // Sleeping does not keep short times.
        let (spin_ns, sleep_ns) = if plan.pace_ns < SLEEP_FROM_NS { (plan.pace_ns, 0) } else { (0, plan.pace_ns) };
        let room = usize::try_from(batch_rounds).unwrap_or(usize::MAX).saturating_add(SPARE_SAMPLES);
        // Filled with another value than zero, so that each page is really written to.
        let mut samples = vec![Sample { seq: u64::MAX, ..Sample::default() }; room];
        samples.clear();
        Self {
            clock,
            stop,
            progress,
            plan,
            timeout: clock.ticks(plan.timeout_ns),
            spin: clock.ticks((u64::from(plan.gap.spin_us) * 1000).max(spin_ns)),
            sleep: Duration::from_micros(u64::from(plan.gap.sleep_us)).max(Duration::from_nanos(sleep_ns)),
            matcher: RoundMatcher::new(plan.framing.number_bytes()),
            out: pattern(plan.send_bytes),
            input: pattern(plan.receive_bytes),
            samples,
            first_number,
            interval: clock.ticks(plan.interval_ns),
            first_due: 0,
            gap_due: false,
            next_number: first_number,
            timed_rounds: 0,
            answers: 0,
            unmatched: UnmatchedCounts::default(),
            unanswered: 0,
            unanswered_since: 0,
            lost_in_batch: 0,
        }
    }

    /// Rounds begun so far, untimed ones included.
    pub(crate) fn rounds_sent(&self) -> u64 {
        self.next_number - self.first_number
    }

    /// Makes rounds until `limit`. The samples of the batch before are forgotten.
    ///
    /// # Errors
    /// How the pass ends here. The samples up to then are kept; a round in flight is not among them.
    pub(crate) fn batch<P: Path>(&mut self, path: &mut P, limit: Limit, phase: Phase) -> Result<(), PassEnd> {
        self.samples.clear();
        self.lost_in_batch = 0;
        self.progress.arm();
        let ended = self.rounds(path, limit, phase);
        self.progress.disarm();
        ended
    }

    fn rounds<P: Path>(&mut self, path: &mut P, limit: Limit, phase: Phase) -> Result<(), PassEnd> {
        let full = self.samples.capacity() - SPARE_SAMPLES / 2;
        let idle = (phase != Phase::WarmUp || self.plan.pace_ns > 0) && (self.spin > 0 || !self.sleep.is_zero());
        let timed = phase == Phase::Timed;
        for _ in 0..limit.rounds {
            if idle && std::mem::replace(&mut self.gap_due, true) {
                self.idle();
                if self.clock.now() >= limit.end {
                    break;
                }
            }
            if timed && self.interval > 0 {
                if self.first_due == 0 {
                    self.first_due = self.clock.now().saturating_add(self.interval);
                }
                self.wait_until(self.intended(self.timed_rounds, 0).min(limit.end))?;
                if self.clock.now() >= limit.end {
                    break;
                }
            }
            let before = self.timed_rounds;
            let round = self.round(path, timed);
            if round.is_err() {
                self.timed_rounds = before;
            }
            let now = match round? {
                Round::Answered(now) => now,
                Round::Lost(now) => {
                    if !self.matcher.numbered() && !self.plan.fresh {
                        self.wait_for_silence(path)?;
                    }
                    now
                }
            };
            if now >= limit.until || self.samples.len() >= full || self.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn round<P: Path>(&mut self, path: &mut P, timed: bool) -> Result<Round, PassEnd> {
        let number = self.next_number;
        self.next_number += 1;
        let seq = self.timed_rounds;
        self.timed_rounds += u64::from(timed);
        self.matcher.begin(number, seq, self.plan.pongs, timed);
        self.plan.framing.write(number, &mut self.out);
        let mut flags = if timed { SampleFlags::default() } else { SampleFlags::WARMUP };
        self.progress.advance();
        let sent = self.clock.now();
        for ping in 1..=self.plan.pings {
            let more = self.plan.more && ping < self.plan.pings;
            while let Err(error) = path.send(&self.out, more) {
                if error != PathError::Interrupted {
                    return Err(error.into());
                }
                flags = flags.with(SampleFlags::INTERRUPTED);
                if let Some(end) = self.overdue(seq, sent, flags)? {
                    return Ok(end);
                }
            }
        }
        loop {
            match path.receive(&mut self.input) {
                Ok(Received::Bytes(bytes)) => {
                    let received = self.clock.now();
                    if self.take(bytes, received) {
                        self.unanswered = 0;
                        let intended = self.intended(seq, sent);
                        self.push(Sample { seq, intended, sent, received, flags, ..Sample::default() });
                        return Ok(Round::Answered(received));
                    }
                    if received.wrapping_sub(sent) >= self.timeout
                        && let Some(end) = self.overdue(seq, sent, flags)?
                    {
                        return Ok(end);
                    }
                }
                Ok(Received::Interrupted) => {
                    flags = flags.with(SampleFlags::INTERRUPTED);
                    if let Some(end) = self.overdue(seq, sent, flags)? {
                        return Ok(end);
                    }
                }
                Ok(Received::TimedOut) => {
                    if let Some(end) = self.overdue(seq, sent, flags)? {
                        return Ok(end);
                    }
                }
                Ok(Received::Stopped) => return Err(PassEnd::Stopped),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether a message completes the round in flight; what belongs to another round is noted here.
    #[inline(always)]
    fn take(&mut self, bytes: usize, received: u64) -> bool {
        let number = if bytes == self.plan.receive_bytes { self.plan.framing.read(&self.input) } else { None };
        let Some(number) = number else {
            self.unmatched.foreign += 1;
            return false;
        };
        let answer = self.matcher.answer(number);
        match answer {
            Answer::Whole | Answer::Part => self.answers += 1,
            other => self.record_unmatched(other, received),
        }
        answer == Answer::Whole
    }

    #[cold]
    fn record_unmatched(&mut self, answer: Answer, received: u64) {
        let sample = match answer {
            Answer::Late { seq, sent, reordered, timed: true } => {
                let flags = if reordered { SampleFlags::LATE.with(SampleFlags::REORDERED) } else { SampleFlags::LATE };
                Sample { seq, intended: self.intended(seq, sent), sent, received, flags, ..Sample::default() }
            }
            Answer::Duplicate => Sample {
                seq: self.timed_rounds.saturating_sub(1),
                intended: received,
                sent: received,
                received,
                flags: SampleFlags::DUPLICATE,
                ..Sample::default()
            },
            // An untimed round's answer was never counted as lost, and the rest of a round follows or does not.
            Answer::Late { .. } | Answer::LatePart | Answer::Part | Answer::Whole => return,
        };
        self.push(sample);
    }

    /// A wait ended without an answer: the round is lost if its time is over.
    #[cold]
    fn overdue(&mut self, seq: u64, sent: u64, flags: SampleFlags) -> Result<Option<Round>, PassEnd> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(PassEnd::Stopped);
        }
        let now = self.clock.now();
        if now.wrapping_sub(sent) < self.timeout {
            return Ok(None);
        }
        if !self.plan.counts_losses {
            return Err(self.silent());
        }
        self.matcher.lose(sent);
        self.lost_in_batch += 1;
        // The watchdog's signal ended the wait; the round has no latency that it could falsify.
        let flags = SampleFlags(flags.0 & !SampleFlags::INTERRUPTED.0).with(SampleFlags::LOST);
        let intended = self.intended(seq, sent);
        self.push(Sample { seq, intended, sent, received: now, flags, ..Sample::default() });
        if self.unanswered == 0 {
            self.unanswered_since = sent;
        }
        self.unanswered += 1;
        if self.unanswered >= SILENT_ROUNDS && self.clock.ns(now.wrapping_sub(self.unanswered_since)) >= SILENT_NS {
            return Err(self.silent());
        }
        Ok(Some(Round::Lost(now)))
    }

    #[inline(always)]
    fn push(&mut self, sample: Sample) {
        // Never grows: a batch ends while there is room left.
        if self.samples.len() < self.samples.capacity() {
            self.samples.push(sample);
        } else {
            self.unmatched.overrun += 1;
        }
    }

    /// After a loss at a size without numbers: waits for a whole time-out of silence, lest its answer is taken for the next one's.
    #[cold]
    fn wait_for_silence<P: Path>(&mut self, path: &mut P) -> Result<(), PassEnd> {
        for _ in 0..MOST_DRAINS {
            path.drain(&mut self.input)?;
            self.progress.advance();
            let since = self.clock.now();
            let quiet = loop {
                match path.receive(&mut self.input)? {
                    Received::Bytes(_) => break false,
                    Received::Stopped => return Err(PassEnd::Stopped),
                    Received::TimedOut | Received::Interrupted => {
                        if self.stop.load(Ordering::Relaxed) {
                            return Err(PassEnd::Stopped);
                        }
                        if self.clock.now().wrapping_sub(since) >= self.timeout {
                            break true;
                        }
                    }
                }
            };
            if quiet {
                break;
            }
        }
        Ok(())
    }

    fn silent(&self) -> PassEnd {
        PassEnd::Silent(self.plan.timeout_ns / 1_000_000)
    }

    /// When a timed round was meant to be sent, by a schedule fixed by its start alone; without one, when it was.
    #[inline(always)]
    fn intended(&self, seq: u64, sent: u64) -> u64 {
        if self.interval == 0 { sent } else { self.first_due.saturating_add(seq.saturating_mul(self.interval)) }
    }

    /// Sleeps until a tick, rather than spins: a round finds the CPU as a program between two messages does.
    #[inline(never)]
    fn wait_until(&self, tick: u64) -> Result<(), PassEnd> {
        self.progress.disarm();
        let ended = loop {
            if self.stop.load(Ordering::Relaxed) {
                break Err(PassEnd::Stopped);
            }
            let left = tick.saturating_sub(self.clock.now());
            if left == 0 {
                break Ok(());
            }
            std::thread::sleep(Duration::from_nanos(self.clock.ns(left).max(1)).min(SLEEP_SLICE));
        };
        self.progress.arm();
        ended
    }

    /// The gap between two rounds: sleep, then spin. Standing still is right meanwhile.
    #[inline(never)]
    fn idle(&self) {
        self.progress.disarm();
        let mut left = self.sleep;
        while !left.is_zero() && !self.stop.load(Ordering::Relaxed) {
            let slice = left.min(SLEEP_SLICE);
            std::thread::sleep(slice);
            left = left.saturating_sub(slice);
        }
        if self.spin > 0 {
            let since = self.clock.now();
            while self.clock.now().wrapping_sub(since) < self.spin && !self.stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        }
        self.progress.arm();
    }
}

/// A prefaulted message of `bytes` bytes: neither zeros (which a stack or a disk may treat specially) nor secret.
pub(crate) fn pattern(bytes: usize) -> Vec<u8> {
    (0..=u8::MAX).cycle().take(bytes).collect()
}

#[cfg(test)]
pub(crate) mod tests;
