//! Why messages are late, as far as any process can see: when its own threads ran and when they waited for a CPU. It takes the place of
//! the recorder where that cannot be had.

use crate::explainer::{FAR, NEAR};
use crate::only_recording::OnlyRecording;
use explain::Explained;
use host::RunQueueWait;
use model::result::Outlier;
use model::{Cause, CauseClass, ExplainedStay, FarStays, PathSegment, SegmentTime};
use nix::time::{ClockId, clock_gettime};
use stats::Histogram;
use stats::interval_log::{Lines, Units};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the times of the threads are read.
const PERIOD: Duration = Duration::from_micros(200);
/// A reading that itself took longer, because the reading thread had no CPU, does not tell when its figures were true.
const LONGEST_READING_NS: u64 = 50_000;
/// Most readings of a thread, 24 bytes each: of some four minutes.
const MOST_READINGS: usize = 1_000_000;
/// A wait for a CPU that the far end reports, in ns.
const LEAST_WAIT_NS: u64 = 20_000;
/// The number of a stay that is of no message: of messages the threads' times know nothing.
const NO_MESSAGE: u64 = u64::MAX;

/// The ids of the threads of this process that measure.
static MEASURING: Mutex<Vec<i32>> = Mutex::new(Vec::new());

thread_local! {
    static MEMBER: Member = Member::new();
}

/// The calling thread is among those that measure until it ends.
struct Member(i32);

impl Member {
    fn new() -> Self {
        let id = task::thread_id();
        MEASURING.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        Self(id)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        MEASURING.lock().unwrap_or_else(PoisonError::into_inner).retain(|id| *id != self.0);
    }
}

/// Counts the calling thread among those that measure: their times are read where nothing can be recorded.
pub fn this_thread_measures() {
    MEMBER.with(|_| ());
}

/// The times of a thread at one moment, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Reading {
    /// CLOCK_MONOTONIC.
    at: u64,
    /// The thread's CPU clock.
    ran: u64,
    /// Ready to run, without a CPU (/proc/PID/schedstat, second field).
    waited: u64,
}

impl Reading {
    fn since(self, before: Self) -> Self {
        Self {
            at: self.at.saturating_sub(before.at),
            ran: self.ran.saturating_sub(before.ran),
            waited: self.waited.saturating_sub(before.waited),
        }
    }

    /// What is beyond the usual of as much time.
    fn beyond(self, usual: Self) -> Self {
        let part = |whole: u64| {
            let part = u128::from(whole) * u128::from(self.at) / u128::from(usual.at.max(1));
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        Self {
            at: self.at,
            ran: self.ran.saturating_sub(part(usual.ran)),
            waited: self.waited.saturating_sub(part(usual.waited)),
        }
    }
}

/// The clock of another thread of this process: MAKE_THREAD_CPUCLOCK in include/linux/posix-timers_types.h.
fn cpu_clock(thread: i32) -> ClockId {
    ClockId::from_raw((!thread << 3) | 6)
}

fn cpu_ns(clock: ClockId) -> Option<u64> {
    u64::try_from(Duration::from(clock_gettime(clock).ok()?).as_nanos()).ok()
}

/// The readings of each thread, in order of time.
#[derive(Default)]
pub(crate) struct ThreadTimes {
    threads: Vec<Vec<Reading>>,
    /// Whether readings found no room.
    is_full: bool,
}

impl ThreadTimes {
    /// How many threads were read.
    pub(crate) fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Why less is known than could be.
    pub(crate) fn limits(&self, why: &str) -> Vec<String> {
        let mut limits = vec![format!("only the CPU times of the threads show causes, no kernel events: {why}")];
        limits.extend(self.is_full.then(|| "later readings of the threads' times found no room".to_owned()));
        limits
    }

    /// What the threads did between two times and beyond their usual: of that which waited longest, or ran longest. `None` where no
    /// reading is before, or none behind.
    fn between(&self, from_ns: u64, to_ns: u64) -> Option<Reading> {
        let of = |readings: &Vec<Reading>| {
            let before = readings.partition_point(|reading| reading.at <= from_ns).checked_sub(1)?;
            let after = readings.partition_point(|reading| reading.at < to_ns);
            let usual = readings.last()?.since(*readings.first()?);
            Some(readings.get(after)?.since(*readings.get(before)?).beyond(usual))
        };
        self.threads.iter().filter_map(of).max_by_key(|one| (one.waited, one.ran))
    }

    /// For the near end: when the threads of this one had no CPU, the longest waits first.
    pub(crate) fn waits(&self, most: usize, why: &str) -> FarStays {
        let of = |pair: &[Reading]| {
            let &[before, after] = pair else { return None };
            let ns = after.since(before).waited;
            (ns > LEAST_WAIT_NS).then(|| ExplainedStay {
                seq: NO_MESSAGE,
                ns,
                start_ns: before.at,
                received_ns: before.at,
                sent_ns: after.at,
                segments: Vec::new(),
                causes: vec![cause(FAR, PathSegment::FarWakeUp, CauseClass::RunQueue, None, ns)],
            })
        };
        let all = self.threads.iter().flat_map(|readings| readings.windows(2).filter_map(of));
        let mut stays: Vec<ExplainedStay> = all.collect();
        stays.sort_by_key(|stay| Reverse(stay.ns));
        let mut limits = self.limits(why);
        let left_out = stays.len().saturating_sub(most);
        limits.extend((left_out > 0).then(|| format!("{left_out} shorter waits found no room")));
        stays.truncate(most);
        FarStays { machine: host::boot_id(), stays, limits, ..FarStays::default() }
    }

    /// The late messages among those that a pass kept of `all`, and from which time on they are all of them. `since_1970_ns`: what
    /// [`since_1970_ns`] gives.
    pub(crate) fn explain(
        &self,
        since_1970_ns: u64,
        over_ns: u64,
        all: &Histogram,
        kept: &[Outlier],
        far: Option<&FarStays>,
    ) -> (u64, Vec<Explained>) {
        let median_ns = all.quantile(0.5).unwrap_or(0);
        let mut late: Vec<&Outlier> = kept.iter().filter(|one| !one.lost && one.rtt_ns > over_ns).collect();
        late.sort_by_key(|one| Reverse(one.rtt_ns));
        let are_all = late.len() as u64 >= all.count_above(over_ns);
        let over_ns = if are_all { over_ns } else { late.last().map_or(over_ns, |least| least.rtt_ns.max(over_ns)) };
        let explained = late.into_iter().filter(|one| one.rtt_ns > over_ns || are_all).filter_map(|one| {
            let start_ns = one.realtime_ns?.checked_sub(since_1970_ns)?;
            Some(self.message(one, start_ns, one.rtt_ns.saturating_sub(median_ns), far))
        });
        (over_ns, explained.collect())
    }

    fn message(&self, one: &Outlier, start_ns: u64, excess_ns: u64, far: Option<&FarStays>) -> Explained {
        let end_ns = start_ns.saturating_add(one.rtt_ns);
        let near = self.between(start_ns, end_ns);
        let mut left_ns = excess_ns;
        let mut causes = Vec::new();
        let mut take = |mut cause: Cause| {
            cause.ns = cause.ns.min(left_ns);
            left_ns -= cause.ns;
            causes.extend(Some(cause).filter(|cause| cause.ns > 0));
        };
        let waited_ns = near.map_or(0, |near| near.waited);
        take(cause(NEAR, PathSegment::Whole, CauseClass::RunQueue, None, waited_ns));
        let same_clock = far.is_some_and(has_same_clock);
        for stay in far.into_iter().flat_map(|far| &far.stays) {
            if stay.seq == one.seq {
                stay.causes.iter().cloned().for_each(&mut take);
            } else if stay.seq == NO_MESSAGE && same_clock {
                let within_ns = stay.sent_ns.min(end_ns).saturating_sub(stay.start_ns.max(start_ns));
                let part = |cause: &Cause| Cause { ns: cause.ns.min(within_ns), ..cause.clone() };
                stay.causes.iter().map(part).for_each(&mut take);
            }
        }
        // Of a message that was lost itself the repair is named, else how long it was held behind others.
        for (way, host) in [("out", FAR), ("back", NEAR)] {
            let part = |name| one.parts_ns.get(&format!("{way}-{name}")).and_then(|ns| u64::try_from(*ns).ok());
            if let Some(ns) = part("gap-to-repair").or_else(|| part("held")) {
                take(Cause {
                    evidence: "NAKs and repairs".to_owned(),
                    ..cause(host, PathSegment::Whole, CauseClass::Repair, None, ns)
                });
            }
        }
        let unknown = |name: &str, ns| cause(NEAR, PathSegment::Whole, CauseClass::Unknown, Some(name), ns);
        match near {
            Some(near) => {
                take(unknown("thread ran", near.ran));
                take(unknown("thread slept", u64::MAX));
            }
            None => take(unknown("no reading", u64::MAX)),
        }
        causes.sort_by_key(|cause| Reverse(cause.ns));
        let known_ns: u64 = causes.iter().filter(|cause| cause.class.is_known()).map(|cause| cause.ns).sum();
        #[expect(clippy::cast_precision_loss, reason = "a share")]
        let explained = if excess_ns == 0 { 1.0 } else { known_ns as f64 / excess_ns as f64 };
        let whole =
            SegmentTime { segment: PathSegment::Whole, host: NEAR.to_owned(), cpu: None, ns: one.rtt_ns, excess_ns };
        Explained { seq: one.seq, start_ns, rtt_ns: one.rtt_ns, segments: vec![whole], causes, explained }
    }
}

/// By how much CLOCK_REALTIME is ahead of CLOCK_MONOTONIC. Of some tries the shortest: between the looks another thread may run.
pub(crate) fn since_1970_ns() -> u64 {
    let look = |_| {
        let (before, real, after) = (clock::monotonic_ns(), clock::realtime_ns(), clock::monotonic_ns());
        (after - before, real.saturating_sub(before + (after - before) / 2))
    };
    (0..5).map(look).min().map_or(0, |(_, ahead_ns)| ahead_ns)
}

/// Whether the far end is on this machine, whose CLOCK_MONOTONIC it shares then.
pub(crate) fn has_same_clock(far: &FarStays) -> bool {
    far.machine.is_some() && far.machine == host::boot_id()
}

fn cause(host: &str, segment: PathSegment, class: CauseClass, name: Option<&str>, ns: u64) -> Cause {
    let (name, host) = (name.map(str::to_owned), host.to_owned());
    Cause { class, name, pid: None, host, cpu: None, segment, ns, evidence: "schedstat, CPU clock".to_owned() }
}

/// All messages of a pass, from its interval log; empty where it has none.
pub(crate) fn all_messages(hlog: &str) -> Histogram {
    let mut all = Histogram::new();
    let lines = Lines::new(hlog, 0, Units::of_head(hlog)).flatten();
    for line in lines.filter(|line| ["rtt", "wake_up"].contains(&line.tag.split('@').next().unwrap_or_default())) {
        Histogram::from_base64_v2(line.histogram).iter().for_each(|one| all.merge(one));
    }
    all
}

/// Reads the times of threads that measure. Dropping it ends that.
pub(crate) struct ThreadWatch {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<ThreadTimes>>,
}

impl Drop for ThreadWatch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
    }
}

impl ThreadWatch {
    /// Begins to read the times of one thread, or of all that measure, away from the CPU that one measures on. `None` while this process
    /// explains another measurement.
    pub(crate) fn start(cpu: Option<u32>, only: Option<i32>) -> Option<Self> {
        let only_one = OnlyRecording::begin().ok()?;
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let work = move || {
            // Where it shares a CPU with the measured thread, the readings show that thread's waits for this one too.
            let _ = task::apply_policy(model::Policy::Other);
            let _ = task::set_affinity(&task::housekeeping_cpus(cpu));
            let times = read_until(&ends, only);
            drop(only_one);
            times
        };
        let thread = std::thread::Builder::new().name(explain::blame::TRACER.to_owned()).spawn(work).ok()?;
        Some(Self { over, thread: Some(thread) })
    }

    pub(crate) fn finish(mut self) -> ThreadTimes {
        self.over.store(true, Ordering::Release);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

fn read_until(ends: &AtomicBool, only: Option<i32>) -> ThreadTimes {
    let mut files: BTreeMap<i32, RunQueueWait> = BTreeMap::new();
    let mut readings: BTreeMap<i32, Vec<Reading>> = BTreeMap::new();
    let mut is_full = false;
    loop {
        // Threads that send and receive start after the pass has begun.
        let measuring = || MEASURING.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for thread in only.map_or_else(measuring, |only| vec![only]) {
            files.entry(thread).or_insert_with(|| RunQueueWait::of(thread));
        }
        for (thread, file) in &files {
            let at = clock::monotonic_ns();
            let (Some(ran), Some(waited)) = (cpu_ns(cpu_clock(*thread)), file.ns()) else { continue };
            if clock::monotonic_ns() - at > LONGEST_READING_NS {
                continue;
            }
            let of_thread = readings.entry(*thread).or_default();
            // Locked memory may be limited, and what was measured before must not be lost for this.
            if of_thread.len() < MOST_READINGS && of_thread.try_reserve(1).is_ok() {
                of_thread.push(Reading { at, ran, waited });
            } else {
                is_full = true;
            }
        }
        if is_full || ends.load(Ordering::Acquire) {
            return ThreadTimes { threads: readings.into_values().collect(), is_full };
        }
        std::thread::sleep(PERIOD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINCE_1970_NS: u64 = 1_700_000_000_000_000_000;

    fn readings(waits_at: u64, ns: u64) -> Vec<Reading> {
        let of = |at: u64| {
            let waited = at / 100 + if at > waits_at { ns } else { 0 };
            Reading { at, ran: at / 2, waited }
        };
        (0..2_000).map(|round| of(round * 100_000)).collect()
    }

    fn times(threads: Vec<Vec<Reading>>) -> ThreadTimes {
        ThreadTimes { threads, is_full: false }
    }

    fn message(rtt_ns: u64, start_ns: u64) -> Outlier {
        Outlier { seq: start_ns, rtt_ns, realtime_ns: Some(SINCE_1970_NS + start_ns), ..Outlier::default() }
    }

    fn all() -> Histogram {
        let mut all = Histogram::new();
        all.record_n(1_000, 10_000);
        all.record_n(500_000, 2);
        all
    }

    /// Catches: a wait that is given to messages beside it, the usual wait that counts as a cause, and more named than was lost.
    #[test]
    fn a_wait_for_a_cpu_is_the_cause_of_the_message_within_which_it_was() {
        let times = times(vec![readings(u64::MAX, 0), readings(50_250_000, 450_000)]);
        let kept = [message(500_000, 50_010_000), message(500_000, 80_010_000)];
        let (over_ns, late) = times.explain(SINCE_1970_NS, 100_000, &all(), &kept, None);
        assert_eq!((over_ns, late.len()), (100_000, 2));
        let of = |late: &Explained| {
            let causes = late.causes.iter().map(|cause| (cause.class, cause.name.clone(), cause.ns / 10_000));
            causes.collect::<Vec<_>>()
        };
        let slept = |ns| (CauseClass::Unknown, Some("thread slept".to_owned()), ns);
        let (own, other) = if late[0].seq == 50_010_000 { (&late[0], &late[1]) } else { (&late[1], &late[0]) };
        assert_eq!(of(own), [(CauseClass::RunQueue, None, 44), slept(5)]);
        assert_eq!(of(other), [slept(49)]);
        assert_eq!((own.causes.iter().map(|cause| cause.ns).sum::<u64>(), other.explained), (499_000, 0.0));
    }

    /// Catches: waits of another machine, whose clock is not this one, a wait beside a message, and waits that are left out in silence.
    #[test]
    fn the_far_end_of_this_machine_adds_its_waits() {
        let near = times(vec![readings(u64::MAX, 0)]);
        let far_end = times(vec![readings(50_250_000, 450_000)]);
        let far = far_end.waits(10, "no privileges");
        assert_eq!((far.stays.len(), far.stays[0].ns), (1, 451_000));
        assert!(far.limits.len() == 1 && far.limits[0].ends_with("no privileges"), "{:?}", far.limits);
        assert!(far_end.waits(0, "").limits[1].starts_with("1 shorter wait"));
        // The wait was read between 50.2 and 50.3 ms: the second message was over 20 µs after the first of these.
        let kept = [message(500_000, 50_010_000), message(500_000, 49_720_000), message(500_000, 80_010_000)];
        let at_far_end = |far: &FarStays| {
            let (_, late) = near.explain(SINCE_1970_NS, 100_000, &all(), &kept, Some(far));
            let of = |start_ns| {
                let message = late.iter().find(|message| message.seq == start_ns).unwrap();
                message.causes.iter().filter(|cause| cause.host == FAR).map(|cause| cause.ns).sum::<u64>()
            };
            [50_010_000, 49_720_000, 80_010_000].map(of)
        };
        assert_eq!(at_far_end(&far), [100_000, 20_000, 0]);
        assert_eq!(at_far_end(&FarStays { machine: Some("another".to_owned()), ..far.clone() }), [0; 3]);
        // What has the number of the message needs no clock.
        let numbered = ExplainedStay { seq: 80_010_000, ..far.stays[0].clone() };
        let elsewhere = FarStays { machine: None, stays: vec![numbered], ..FarStays::default() };
        assert_eq!(at_far_end(&elsewhere), [0, 0, 451_000]);
    }

    /// Catches: a lost packet that is given out as a thread that slept, and at the end that sent it.
    #[test]
    fn a_repair_is_named_where_the_packet_was_missing() {
        let times = times(vec![readings(u64::MAX, 0)]);
        let parts = [("back-gap-to-repair", 300_000), ("back-held", 400_000), ("out-held", 50_000)];
        let parts_ns = parts.map(|(name, ns)| (name.to_owned(), ns)).into();
        let kept = [Outlier { parts_ns, ..message(500_000, 50_010_000) }, message(500_000, 80_010_000)];
        let (_, late) = times.explain(SINCE_1970_NS, 100_000, &all(), &kept, None);
        let late = late.iter().find(|late| late.seq == 50_010_000).unwrap();
        let causes = late.causes.iter().map(|cause| (cause.class, cause.host.as_str(), cause.ns));
        let (repair, unknown) = (CauseClass::Repair, CauseClass::Unknown);
        assert_eq!(
            causes.collect::<Vec<_>>(),
            [(repair, NEAR, 300_000), (unknown, NEAR, 149_000), (repair, FAR, 50_000)]
        );
    }

    /// Catches: figures of the worst messages that are given out as those of all late ones.
    #[test]
    fn where_only_the_worst_are_kept_the_threshold_is_theirs() {
        let times = times(vec![readings(u64::MAX, 0)]);
        let mut all = all();
        all.record_n(300_000, 50);
        let kept = [message(500_000, 50_010_000), message(500_000, 80_010_000), message(300_000, 90_010_000)];
        let (over_ns, late) = times.explain(SINCE_1970_NS, 100_000, &all, &kept, None);
        assert_eq!((over_ns, late.len()), (300_000, 2));
    }

    /// Catches: a clock of another thread that is not that thread's, a wait that is not seen, threads that do not measure, and two at once.
    #[test]
    fn threads_that_spin_on_one_cpu_wait_for_each_other() {
        let watch = ThreadWatch::start(None, None).unwrap();
        assert!(ThreadWatch::start(None, None).is_none());
        let cpu = task::allowed_cpus().unwrap().iter().next().unwrap();
        let spin = |measures: bool| {
            if measures {
                this_thread_measures();
            }
            task::pin(cpu).unwrap();
            // By their own time: on a busy machine 100 ms may pass without them.
            while cpu_ns(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap() < 40_000_000 {}
        };
        std::thread::scope(|scope| {
            scope.spawn(|| spin(true));
            scope.spawn(|| spin(true));
            scope.spawn(|| spin(false));
        });
        let times = watch.finish();
        assert_eq!(times.threads(), 2);
        let both = times.threads.iter().filter_map(|readings| Some(readings.last()?.since(*readings.first()?)));
        let waited = both.filter(|one| one.ran > 10_000_000 && one.waited > 10_000_000).count();
        assert!(waited >= 1, "{waited} of two");
        assert!(MEASURING.lock().unwrap().is_empty(), "the threads have ended");
    }
}
