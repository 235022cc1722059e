//! From wake-ups to samples: a deadline each, those that were slept through too.

use super::sleeper::{ENTRY_WORDS, Entry};
use crate::pace::ring::Consumer;
use model::{ClockMap, LatencyKind, Sample, SampleFlags, WakeReport, WakeThread};
use record::{Distribution, Recorded, Recorder, RecorderConfig};

pub(super) struct Counter {
    recorder: Recorder,
    interval_ns: u64,
    /// The first deadline, and the end of them.
    first: u64,
    end: u64,
    missed: u64,
    overslept: u64,
    max_ns: u64,
    /// Each thread by itself, where there are several.
    threads: Vec<Thread>,
    /// Threads in all.
    count: u64,
    samples: Vec<Sample>,
}

struct Thread {
    name: String,
    latency: Distribution,
    missed: u64,
}

impl Counter {
    pub(super) fn new(config: RecorderConfig, interval_ns: u64, cpus: &[Option<u32>]) -> Self {
        let thread = |cpu: u32| Thread { name: format!("CPU {cpu}"), latency: Distribution::default(), missed: 0 };
        let threads = cpus.iter().flatten().filter(|_| cpus.len() > 1).map(|cpu| thread(*cpu)).collect();
        let recorder = Recorder::new(config);
        let count = cpus.len() as u64;
        Self {
            recorder,
            interval_ns,
            first: u64::MAX,
            end: 0,
            missed: 0,
            overslept: 0,
            max_ns: 0,
            threads,
            count,
            samples: Vec::new(),
        }
    }

    /// The deadlines begin at this time; `deadlines` are those of each thread.
    pub(super) fn begin(&mut self, first: u64, deadlines: u64) {
        self.first = first;
        self.end = first.saturating_add(deadlines.saturating_mul(self.interval_ns));
    }

    /// The first deadline in ns.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    pub(super) fn count(&self) -> u64 {
        self.recorder.received()
    }

    pub(super) fn max_ns(&self) -> u64 {
        self.max_ns
    }

    pub(super) fn interval_percent(&self) -> Option<f64> {
        self.recorder.interval_percent()
    }

    /// Records what the threads have written so far, in the order of the deadlines.
    pub(super) fn collect(&mut self, rings: &mut [Consumer<'_, ENTRY_WORDS>]) {
        for (number, ring) in rings.iter_mut().enumerate() {
            let until = ring.written();
            while let Some(entry) = ring.pop(until) {
                self.take(number, entry);
            }
        }
        self.samples.sort_unstable_by_key(|sample| (sample.sent, sample.seq));
        self.recorder.ingest(&self.samples);
        self.samples.clear();
    }

    /// One wake-up: its deadline, and those that passed before it.
    fn take(&mut self, number: usize, [due, now]: Entry) {
        let mut at = due;
        self.max_ns = self.max_ns.max(now.saturating_sub(due));
        loop {
            let passed = at > due;
            let cycle = (at - self.first) / self.interval_ns;
            let seq = cycle * self.count + number as u64;
            let flags = if passed { SampleFlags::PASSED } else { SampleFlags::default() };
            self.samples.push(Sample { seq, intended: at, sent: at, received: now, flags, ..Sample::default() });
            let missed = u64::from(passed);
            self.missed += missed;
            if let Some(thread) = self.threads.get_mut(number) {
                thread.latency.record(now.saturating_sub(at));
                thread.missed += missed;
            }
            at += self.interval_ns;
            self.overslept += u64::from(!passed && at <= now);
            if at > now || at >= self.end {
                break;
            }
        }
    }

    /// The figures of all threads, and the report.
    pub(super) fn finish(self, map: &ClockMap, slack_ns: Option<u64>) -> (Recorded, WakeReport) {
        let mut recorded = self.recorder.finish(Some(map));
        for outlier in &mut recorded.outliers {
            let (number, cycle) = (outlier.seq % self.count, outlier.seq / self.count);
            let thread = usize::try_from(number).ok().and_then(|number| self.threads.get(number));
            (outlier.seq, outlier.host) = (cycle, thread.map(|thread| thread.name.clone()));
        }
        let threads = self.threads.iter().map(|thread| WakeThread {
            name: thread.name.clone(),
            missed: Some(thread.missed),
            latency: thread.latency.summary(LatencyKind::WakeUp),
        });
        let report = WakeReport {
            interval_ns: Some(self.interval_ns),
            timer_slack_ns: slack_ns,
            deadlines: Some(recorded.messages.sent),
            missed: Some(self.missed),
            overslept: Some(self.overslept),
            threads: threads.collect(),
        };
        (recorded, report)
    }
}
