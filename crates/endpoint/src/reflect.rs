//! The reflector's measured loop: receive all pings of a round, send all pongs, nothing else.
//!
//! Nothing in a batch is allocated, locked, printed or logged, no system call is made beside the path's own, and the clock is
//! read once. The answer is sent from the request's buffer, so the initiator's number comes back. A datagram without the
//! session's tag is not answered: its source is whatever its sender wrote.

use crate::halt::Halt;
use clock::Clock;
use flow::PassObserver;
use host::UsageSampler;
use net::{Path, PathError, PathVisitor, Received};
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;
use std::time::Duration;
use wire::{StopReport, Tier};

/// Rounds between two looks at the clock.
const BATCH: u32 = 1024;
pub(crate) const TAG: std::ops::Range<usize> = 8..16;
/// Longest single sleep of a stream that is held back.
const SLEEP: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, Copy)]
pub(crate) struct LoopShape {
    pub(crate) size: usize,
    pub(crate) response: usize,
    pub(crate) pings: u32,
    pub(crate) pongs: u32,
    /// MSG_MORE on all but the last pong.
    pub(crate) more: bool,
    /// Whether messages may be dropped to keep the rate; a stream is held back instead.
    pub(crate) counts_losses: bool,
    /// The tag that messages carry, where they may come from others and have room for it.
    pub(crate) tag: Option<[u8; 8]>,
}

impl LoopShape {
    /// Whether what came is one of the initiator's messages.
    #[inline(always)]
    fn fits(&self, bytes: usize, message: &[u8]) -> bool {
        bytes == self.size && self.tag.is_none_or(|tag| message.get(TAG) == Some(&tag[..]))
    }
}

/// The tag that a datagram's header must carry. Messages without room for it are answered with no more than their own length.
pub(crate) fn wanted_tag(size: usize, tag: u64) -> Option<[u8; 8]> {
    (Tier::for_size(size) == Tier::Tagged).then(|| tag.to_le_bytes())
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MessageCounts {
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) ignored: u64,
    pub(crate) over_rate: u64,
}

#[derive(Debug, Default)]
pub(crate) struct SizeOutcome {
    pub(crate) counts: MessageCounts,
    /// Usage, and what was observed around the loop.
    pub(crate) report: StopReport,
    /// Why the path can carry no more; absent when the loop was halted.
    pub(crate) broken: Option<PathError>,
}

/// Keeps the owner's limit of messages a second, looking at the clock once a batch only.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    clock: Clock,
    /// Ticks that a batch must last.
    least: u64,
    began: u64,
    /// Rounds until the next look.
    pub(crate) rounds: u32,
}

impl RateLimiter {
    /// A limit of `pps` messages a second, for rounds of `pings` messages.
    pub(crate) fn new(clock: Clock, pps: u32, pings: u32) -> Self {
        let pps = pps.max(1);
        // With a low limit batches are short, or a whole second's messages would pass before the first look.
        let rounds = (pps / 64 / pings.max(1)).clamp(1, BATCH);
        let messages = u64::from(rounds) * u64::from(pings);
        let least = clock.ticks(messages.saturating_mul(1_000_000_000) / u64::from(pps));
        Self { clock, least, began: clock.now(), rounds }
    }

    /// At the end of a batch: the tick before which nothing may be answered, when the batch was too fast.
    #[inline]
    pub(crate) fn look(&mut self) -> Option<u64> {
        let now = self.clock.now();
        let earliest = self.began.wrapping_add(self.least);
        self.began = now;
        if now.wrapping_sub(earliest) < u64::MAX / 2 {
            return None;
        }
        self.began = earliest;
        Some(earliest)
    }

    #[inline]
    pub(crate) fn is_before(&self, tick: u64) -> bool {
        self.clock.now().wrapping_sub(tick) >= u64::MAX / 2
    }

    pub(crate) fn sleep_until(&self, tick: u64, halt: &Halt) {
        while self.is_before(tick) && !halt.flag().load(Ordering::Relaxed) {
            let left = Duration::from_nanos(self.clock.ns(tick.wrapping_sub(self.clock.now())));
            std::thread::sleep(left.min(SLEEP));
        }
    }
}

pub(crate) struct ReflectLoop<'a, F> {
    pub(crate) shape: LoopShape,
    pub(crate) pace: RateLimiter,
    pub(crate) buffer: &'a mut [u8],
    pub(crate) around: Around<'a, F>,
}

/// What a loop runs between.
pub(crate) struct Around<'a, F> {
    pub(crate) halt: &'a Halt,
    pub(crate) observers: &'a mut dyn PassObserver,
    pub(crate) size: u32,
    /// The only one that carries messages.
    pub(crate) socket: Option<RawFd>,
    pub(crate) cpu: Option<u32>,
    /// Called when messages are waited for.
    pub(crate) started: F,
}

impl<F: FnOnce()> PathVisitor for ReflectLoop<'_, F> {
    type Output = SizeOutcome;

    fn visit<P: Path>(self, path: &mut P) -> SizeOutcome {
        let Self { shape, mut pace, buffer, around } = self;
        if let Err(broken) = clear(path, buffer) {
            return around.broken(broken);
        }
        let (foreign, halt) = (path.foreign(), around.halt);
        let mut outcome =
            around.run(&mut |counts, between| reflect(path, shape, buffer, &mut pace, halt, counts, between));
        outcome.counts.ignored += path.foreign() - foreign;
        outcome
    }
}

/// A loop: it gets what it counts in, and what it calls between its batches.
pub(crate) type Loop<'a> = dyn FnMut(&mut MessageCounts, &mut dyn FnMut()) -> Result<(), PathError> + 'a;

impl<F: FnOnce()> Around<'_, F> {
    /// Runs a loop between the samplers, after its start was announced. Not part of what is compiled for each kind of path.
    pub(crate) fn run(self, work: &mut Loop<'_>) -> SizeOutcome {
        let Self { halt, observers, size, socket, cpu, started } = self;
        observers.begin(size, socket);
        started();
        let mut usage = UsageSampler::start(cpu);
        let mut counts = MessageCounts::default();
        let end = work(&mut counts, &mut || usage.observe_cpu());
        halt.leave();
        let mut report = StopReport { usage: usage.finish(), ..StopReport::default() };
        observers.end(&mut report);
        SizeOutcome { counts, report, broken: end.err() }
    }

    /// Of a path that broke before the loop. The client gets its start all the same: the end follows, with the reason.
    pub(crate) fn broken(self, broken: PathError) -> SizeOutcome {
        let Self { halt, observers, size, socket, started, .. } = self;
        observers.begin(size, socket);
        started();
        halt.leave();
        let mut report = StopReport::default();
        observers.end(&mut report);
        SizeOutcome { report, broken: Some(broken), ..SizeOutcome::default() }
    }
}

/// Drops what came before the size was announced: proofs sent twice, stragglers of the size before.
fn clear<P: Path>(path: &mut P, scratch: &mut [u8]) -> Result<(), PathError> {
    // A pending ICMP error is reported once by the next call; more than a few of them are a flood.
    for _ in 0..8 {
        match path.drain(scratch) {
            Err(PathError::Refused) => {}
            other => return other.map(|_| ()),
        }
    }
    Ok(())
}

fn reflect<P: Path>(
    path: &mut P,
    shape: LoopShape,
    buffer: &mut [u8],
    pace: &mut RateLimiter,
    halt: &Halt,
    counts: &mut MessageCounts,
    mut between: impl FnMut(),
) -> Result<(), PathError> {
    loop {
        for _ in 0..pace.rounds {
            if !take_pings(path, shape, buffer, halt, counts)? {
                return Ok(());
            }
            for pong in 1..=shape.pongs {
                let more = shape.more && pong < shape.pongs;
                if !give(path, buffer.get(..shape.response).unwrap_or_default(), more, halt)? {
                    return Ok(());
                }
            }
            counts.sent += u64::from(shape.pongs);
        }
        between();
        if halt.flag().load(Ordering::Relaxed) {
            return Ok(());
        }
        let Some(earliest) = pace.look() else { continue };
        if shape.counts_losses {
            while pace.is_before(earliest) {
                if !take_pings(path, LoopShape { pings: 1, ..shape }, buffer, halt, counts)? {
                    return Ok(());
                }
                counts.over_rate += 1;
            }
        } else {
            counts.over_rate += 1;
            pace.sleep_until(earliest, halt);
        }
    }
}

/// Receives a round's pings; `false` when the loop is to end.
#[inline(always)]
fn take_pings<P: Path>(
    path: &mut P,
    shape: LoopShape,
    buffer: &mut [u8],
    halt: &Halt,
    counts: &mut MessageCounts,
) -> Result<bool, PathError> {
    let request = buffer.get_mut(..shape.size).unwrap_or_default();
    let mut left = shape.pings;
    let mut number = 0;
    while left > 0 {
        match path.receive(request) {
            Ok(Received::Bytes(bytes)) if shape.fits(bytes, request) => {
                counts.received += 1;
                if shape.pings > 1 && shape.counts_losses {
                    // All pings of a round carry one number. After a lost one count anew, or later rounds are answered too early.
                    let found = head(request);
                    if found != number {
                        number = found;
                        left = shape.pings;
                    }
                }
                left -= 1;
            }
            Ok(Received::Bytes(_)) => {
                counts.ignored += 1;
                // A flood of them must not hide the halt.
                if halt.flag().load(Ordering::Relaxed) {
                    return Ok(false);
                }
            }
            Ok(Received::Stopped) => return Ok(false),
            Ok(Received::Interrupted | Received::TimedOut) => {
                if halt.flag().load(Ordering::Relaxed) {
                    return Ok(false);
                }
            }
            // An ICMP error, perhaps forged: the control connection decides whether the initiator has ended.
            Err(PathError::Refused) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Sends one pong; `false` when the loop is to end.
#[inline(always)]
fn give<P: Path>(path: &mut P, response: &[u8], more: bool, halt: &Halt) -> Result<bool, PathError> {
    loop {
        match path.send(response, more) {
            Ok(()) | Err(PathError::Refused) => return Ok(true),
            Err(PathError::Interrupted) => {
                if halt.flag().load(Ordering::Relaxed) {
                    return Ok(false);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// The number at the start of a message, as far as it has room for one.
fn head(message: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let room = message.len().min(8);
    bytes[..room].copy_from_slice(&message[..room]);
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Act, Script, numbered, tagged};
    use std::collections::VecDeque;
    use std::sync::atomic::AtomicU64;

    /// A path that plays a script and then is halted.
    struct ScriptPath<'a> {
        script: Script<'a>,
        sent: Vec<(Vec<u8>, bool)>,
        drains: VecDeque<Result<u64, PathError>>,
    }

    impl<'a> ScriptPath<'a> {
        fn new(acts: Vec<Act>, halt: &'a Halt) -> Self {
            Self { script: Script { acts: acts.into(), halt }, sent: Vec::new(), drains: VecDeque::new() }
        }
    }

    impl Path for ScriptPath<'_> {
        fn send(&mut self, message: &[u8], more: bool) -> Result<(), PathError> {
            self.sent.push((message.to_vec(), more));
            Ok(())
        }

        fn receive(&mut self, buffer: &mut [u8]) -> Result<Received, PathError> {
            Ok(self.script.next(buffer)?.map_or(Received::Interrupted, Received::Bytes))
        }

        fn drain(&mut self, _scratch: &mut [u8]) -> Result<u64, PathError> {
            self.drains.pop_front().unwrap_or(Ok(0))
        }
    }

    fn shape(size: usize, response: usize, pings: u32, pongs: u32) -> LoopShape {
        LoopShape { size, response, pings, pongs, more: true, counts_losses: true, tag: wanted_tag(size, 9) }
    }

    fn play(shape: LoopShape, pps: u32, acts: Vec<Act>) -> (SizeOutcome, Vec<(Vec<u8>, bool)>) {
        let halt = Halt::default();
        halt.enter();
        let mut path = ScriptPath::new(acts, &halt);
        let told = AtomicU64::new(0);
        let clock = Clock::raw();
        let plan = ReflectLoop {
            shape,
            pace: RateLimiter::new(clock, pps, shape.pings),
            buffer: &mut [0; 64],
            around: Around {
                halt: &halt,
                observers: &mut flow::PassObservers::new(),
                size: 0,
                socket: None,
                cpu: None,
                started: || {
                    told.fetch_add(1, Ordering::Relaxed);
                },
            },
        };
        let outcome = plan.visit(&mut path);
        assert_eq!(told.load(Ordering::Relaxed), 1);
        (outcome, path.sent)
    }

    #[test]
    fn an_answer_carries_the_number_that_came() {
        let acts = vec![numbered(5, 20), Act::Interrupt, Act::Fail(PathError::Refused), numbered(6, 20)];
        let (outcome, sent) = play(shape(20, 30, 1, 2), u32::MAX, acts);
        assert_eq!(outcome.counts, MessageCounts { received: 2, sent: 4, ..MessageCounts::default() });
        assert_eq!(outcome.broken, None);
        let numbers: Vec<u64> = sent.iter().map(|(message, _)| head(message)).collect();
        assert_eq!(numbers, [5, 5, 6, 6]);
        assert!(sent.iter().all(|(message, _)| message.len() == 30 && message[8..16] == 9u64.to_le_bytes()));
        assert_eq!(sent.iter().map(|(_, more)| *more).collect::<Vec<_>>(), [true, false, true, false]);
    }

    #[test]
    fn another_size_is_ignored_and_never_answered() {
        let acts = vec![numbered(1, 19), numbered(1, 21), numbered(1, 0), numbered(2, 20)];
        let (outcome, sent) = play(shape(20, 20, 1, 1), u32::MAX, acts);
        assert_eq!(outcome.counts, MessageCounts { received: 1, sent: 1, ignored: 3, over_rate: 0 });
        assert_eq!(sent.len(), 1);
        let (outcome, sent) = play(shape(0, 0, 1, 1), u32::MAX, vec![numbered(1, 1), numbered(1, 0)]);
        assert_eq!((outcome.counts.sent, outcome.counts.ignored, sent.len()), (1, 1, 1));
    }

    #[test]
    fn what_lacks_the_tag_is_ignored_where_it_has_room() {
        let acts = vec![tagged(1, 8, 16), tagged(1, 9, 16), tagged(1, 9 << 8, 16)];
        let (outcome, sent) = play(shape(16, 60, 1, 1), u32::MAX, acts);
        assert_eq!((outcome.counts.received, outcome.counts.ignored, sent.len()), (1, 2, 1));
        let (outcome, _) = play(shape(15, 15, 1, 1), u32::MAX, vec![tagged(1, 8, 15)]);
        assert_eq!(outcome.counts.sent, 1);
    }

    #[test]
    fn a_round_that_lost_a_ping_is_not_finished_by_the_next_one() {
        // Two pings a round: round 7 lost its second one.
        let acts = vec![numbered(7, 16), numbered(8, 16), numbered(8, 16), numbered(9, 16), numbered(9, 16)];
        let (_, sent) = play(shape(16, 16, 2, 1), u32::MAX, acts);
        assert_eq!(sent.iter().map(|(message, _)| head(message)).collect::<Vec<_>>(), [8, 9]);
    }

    #[test]
    fn messages_above_the_rate_are_dropped_and_counted() {
        // At 64 a second each message has its own look at the clock, so of a burst only the first is answered.
        let acts = (0..50).map(|number| numbered(number, 16)).collect();
        let (outcome, sent) = play(shape(16, 16, 1, 1), 64, acts);
        assert_eq!(outcome.counts.received, 50);
        assert!(outcome.counts.over_rate > 0 && sent.len() < 50, "{:?}", outcome.counts);
        assert_eq!(outcome.counts.over_rate + outcome.counts.sent, 50);
    }

    #[test]
    fn a_broken_path_ends_the_loop_with_the_reason() {
        let (outcome, sent) = play(shape(16, 16, 1, 1), u32::MAX, vec![numbered(0, 16), Act::Fail(PathError::Closed)]);
        assert_eq!((outcome.broken, sent.len()), (Some(PathError::Closed), 1));
    }

    #[test]
    fn an_icmp_error_from_before_does_not_end_a_size() {
        let halt = Halt::default();
        let mut path = ScriptPath::new(Vec::new(), &halt);
        path.drains.extend([Err(PathError::Refused), Err(PathError::Refused), Ok(3)]);
        assert_eq!(clear(&mut path, &mut [0]), Ok(()));
        path.drains.push_back(Err(PathError::Closed));
        assert_eq!(clear(&mut path, &mut [0]), Err(PathError::Closed));
    }

    /// Echoes `n` messages from nothing, then halts.
    struct Endless<'a> {
        left: u32,
        halt: &'a Halt,
    }

    impl Path for Endless<'_> {
        fn send(&mut self, _message: &[u8], _more: bool) -> Result<(), PathError> {
            Ok(())
        }

        fn receive(&mut self, buffer: &mut [u8]) -> Result<Received, PathError> {
            if self.left == 0 {
                self.halt.end();
                return Ok(Received::Stopped);
            }
            self.left -= 1;
            Ok(if self.left.is_multiple_of(7) { Received::Interrupted } else { Received::Bytes(buffer.len()) })
        }
    }

    #[test]
    fn the_loop_allocates_nothing() {
        let halt = Halt::default();
        let clock = Clock::raw();
        let mut counts = MessageCounts::default();
        let mut buffer = [0; 64];
        let mut pace = RateLimiter::new(clock, u32::MAX, 2);
        let mut path = Endless { left: 100_000, halt: &halt };
        let shape = LoopShape { counts_losses: false, tag: Some([0; 8]), ..shape(32, 64, 2, 3) };
        let looks = AtomicU64::new(0);
        let counted = allocation_counter::measure(|| {
            let end = reflect(&mut path, shape, &mut buffer, &mut pace, &halt, &mut counts, || {
                looks.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(end, Ok(()));
        });
        assert_eq!(counted.count_total, 0);
        assert!(counts.received > 80_000 && looks.load(Ordering::Relaxed) > 20, "{counts:?}");
        // The counter counts, or the figure above says nothing.
        assert!(allocation_counter::measure(|| drop(std::hint::black_box(vec![1; 10]))).count_total > 0);
    }
}
