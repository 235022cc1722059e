//! The flight recorder: BPF programs (`bpf/recorder.bpf.c`) write what each CPU does, and when a message passes each stage, into memory
//! that is read here. Nothing is consumed, so reading costs the measured threads nothing.

use crate::TraceError;
use crate::calls::{Calls, THREAD_BYTES, THREADS};
use bpf::{Mapping, Object};
use explain::event::RECORD_BYTES;
use explain::stay::STAGES;
use explain::{Event, EventKind, Stamp, Stay};
use std::collections::VecDeque;
use std::sync::Arc;

/// The programs, compiled from `bpf/recorder.bpf.c` (`cargo xtask bpf`).
static OBJECT: &[u8] = include_bytes!("../bpf/recorder.bpf.o");
/// Those for any program, compiled from `bpf/live.bpf.c`.
static LIVE: &[u8] = include_bytes!("../bpf/live.bpf.o");
/// Threads of a followed process; a thread that receives again after others came meanwhile counts as a new one.
const FOLLOWED_THREADS: u32 = 8192;

// The layouts of recorder.bpf.c, in bytes.
const EVENTS: usize = 32_768;
pub(crate) const MESSAGES: usize = 65_536;
const RING_AT: usize = 8 * 24;
const CPU_BYTES: usize = RING_AT + EVENTS * RECORD_BYTES;
pub(crate) const STAMPS_AT: usize = 8;
pub(crate) const CPUS_AT: usize = STAMPS_AT + 8 * STAGES;
pub(crate) const THREADS_AT: usize = CPUS_AT + 16;
pub(crate) const MESSAGE_BYTES: usize = THREADS_AT + 8;
pub(crate) const FAR_AT: usize = 8;
pub(crate) const TAG_AT: usize = 16;
pub(crate) const OVER_AT: usize = 64;
pub(crate) const DONE_AT: usize = OVER_AT + 8;
pub(crate) const SENT_SEQ_AT: usize = DONE_AT + 8 * (MESSAGES + 7);
pub(crate) const RAISED_AT: usize = SENT_SEQ_AT + 8;
pub(crate) const RECEIVED_AT: usize = RAISED_AT + 8;
const STATE_BYTES: usize = RECEIVED_AT + 16;

/// What messages are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// What this process sends first, from this port, and receives; port 0: frames are not seen.
    Near(u16),
    /// What this process receives at this port, and answers.
    Far(u16),
    /// Sleeps of the threads of this process until a time (clock_nanosleep(2)).
    Sleeps,
    /// None: only what CPUs do.
    Nothing,
}

/// Recording. Dropping it ends it.
pub struct Recorder {
    object: Object,
    cpus: Mapping,
    messages: Arc<Mapping>,
    state: Arc<Mapping>,
    lanes: Vec<Lane>,
    /// The CPUs whose events are kept; all where it is empty.
    kept: Vec<u16>,
    /// Whether run time that is missing was taken by a hypervisor; on a machine of its own it is time around interrupts.
    is_guest: bool,
    /// How many of the messages that are over were taken, and how many of them were overwritten before.
    taken: u64,
    skipped: u64,
}

/// What was read of one CPU.
#[derive(Default)]
struct Lane {
    /// How many events were read, and how many were counted at the last call.
    read: u64,
    counted: u64,
    /// In order of their ends.
    events: VecDeque<Event>,
    /// The last switch that is not in `events` any more.
    last_switch: Option<Event>,
    /// The end of the last event that was forgotten.
    forgotten_ns: u64,
    /// Events of this time were overwritten before they were read.
    gap_ns: (u64, u64),
    /// Events that were overwritten before they were read.
    lost: u64,
    /// Events that were read and found no room behind later ones.
    crowded_out: u64,
}

impl Recorder {
    /// Begins to record.
    ///
    /// # Errors
    /// The kernel takes none of the programs, which mostly is a matter of privileges, or not those without which nothing can be explained.
    pub fn start(subject: &Subject) -> Result<Self, TraceError> {
        let (port, is_far) = match *subject {
            Subject::Near(port) => (port, false),
            Subject::Far(port) => (port, true),
            Subject::Sleeps | Subject::Nothing => (0, false),
        };
        let (needed, unused) = match subject {
            Subject::Sleeps => (&NEEDED_SLEEPS[..], &OF_MESSAGES[2..]),
            Subject::Nothing => (&NEEDED[..], &OF_MESSAGES[..]),
            _ => (&NEEDED[..], &OF_MESSAGES[..2]),
        };
        let recorder = Self::load(OBJECT, &[], (needed, unused), "5.18")?;
        recorder.state.write(FAR_AT, is_far.into());
        recorder.state.write(0, u64::from(std::process::id()) | u64::from(port) << 32);
        Ok(recorder)
    }

    /// What stamps the calls that carry the messages: the threads that make those. Past the kernel these are the only stamps.
    ///
    /// # Errors
    /// The memory of the threads cannot be mapped.
    pub fn calls(&self, are_past_kernel: bool) -> Result<Calls, TraceError> {
        let threads = Arc::new(self.object.memory("threads", THREADS * THREAD_BYTES)?);
        Ok(Calls { are_past_kernel, messages: Arc::clone(&self.messages), state: Arc::clone(&self.state), threads })
    }

    /// Begins to record the receive calls of any process, each as the stay of a message at a far end whose last stage is the return of
    /// the call.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn follow(process: u32) -> Result<Self, TraceError> {
        let recorder = Self::load(LIVE, &[("threads", FOLLOWED_THREADS)], (&NEEDED_LIVE, &[]), "6.3")?;
        recorder.state.write(0, u64::from(process));
        Ok(recorder)
    }

    fn load(
        object: &[u8],
        entries: &[(&str, u32)],
        (needed, unused): (&[&str], &[&str]),
        since: &'static str,
    ) -> Result<Self, TraceError> {
        // The programs know the ids of the first namespace (PROC_PID_INIT_INO in include/linux/proc_ns.h).
        let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        if !["", "pid:[4026531836]"].iter().any(|first| namespace.as_os_str() == *first) {
            return Err(TraceError::Namespace);
        }
        let cpus = highest_cpu() + 1;
        let lanes = ("cpus", u32::try_from(cpus).unwrap_or(u32::MAX));
        let object = Object::load(object, &[entries, &[lanes]].concat(), unused)?;
        if let Some((name, cause)) = object.missing().iter().find(|(name, _)| needed.contains(&name.as_str())) {
            return Err(TraceError::Needed { name: name.clone(), cause: cause.clone(), since });
        }
        Ok(Self {
            cpus: object.memory("cpus", cpus * CPU_BYTES)?,
            messages: Arc::new(object.memory("messages", MESSAGES * MESSAGE_BYTES)?),
            state: Arc::new(object.memory("state", STATE_BYTES)?),
            kept: Vec::new(),
            is_guest: is_guest(),
            lanes: (0..cpus).map(|_| Lane::default()).collect(),
            // The first message is cold: caches, and the kernel's memory for it.
            taken: 1,
            skipped: 0,
            object,
        })
    }

    /// Tracepoints that this kernel does not have.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        self.object.missing().iter().map(|(name, _)| name.as_str())
    }

    /// Takes the numbers of messages that are over since the last call, and the events that came meanwhile. Events older than `since_ns`
    /// are forgotten.
    pub fn read(&mut self, since_ns: u64) -> Vec<u64> {
        let over = self.state.read(OVER_AT);
        let is_kept = |cpu: usize| self.kept.is_empty() || self.kept.iter().any(|kept| usize::from(*kept) == cpu);
        for (cpu, lane) in self.lanes.iter_mut().enumerate().filter(|(cpu, _)| is_kept(*cpu)) {
            lane.read(&self.cpus, cpu * CPU_BYTES, since_ns);
        }
        let first = self.taken.max(over.saturating_sub(MESSAGES as u64 / 2));
        self.skipped += first - self.taken;
        self.taken = first.max(over);
        let done = (first..over).map(|at| self.state.read(DONE_AT + 8 * place(at, MESSAGES)));
        done.collect()
    }

    /// Keeps the events of these CPUs only: those of a CPU take up to 30 MB.
    pub fn keep_only(&mut self, cpus: Vec<u16>) {
        self.kept = cpus;
    }

    /// The stamps of a message that is not overwritten yet.
    pub fn stay(&self, seq: u64) -> Option<Stay> {
        let at = place(seq, MESSAGES) * MESSAGE_BYTES;
        let mut stamps = [Stamp::default(); STAGES];
        let cpus: [u8; 16] = self.messages.bytes(at + CPUS_AT);
        for (stage, stamp) in stamps.iter_mut().enumerate() {
            let cpu = u16::from_ne_bytes([cpus[2 * stage], cpus[2 * stage + 1]]);
            *stamp = Stamp { at_ns: self.messages.read(at + STAMPS_AT + 8 * stage), cpu };
        }
        let threads = self.messages.read(at + THREADS_AT);
        let thread = |shift: u32| i32::try_from(threads >> shift & 0x7fff_ffff).unwrap_or(0);
        (self.messages.read(at) == seq.wrapping_add(1)).then(|| Stay::new(seq, stamps, [thread(0), thread(32)]))
    }

    /// What was recorded of a CPU between two times, from the last time before them at which the kernel accounted run time to the first
    /// one behind them. Before all that come the last switch, and that with which the thread had left this CPU, or its move to it.
    pub fn events(&self, cpu: u16, start_ns: u64, end_ns: u64, thread: i32) -> Vec<Event> {
        let Some(lane) = self.lanes.get(usize::from(cpu)) else { return Vec::new() };
        let start = lane.events.partition_point(|event| event.end_ns() < start_ns);
        let earliest = start.saturating_sub(MOST_BACK);
        let first = (earliest..start).rev().find(|at| lane.events[*at].kind.accounts()).unwrap_or(start);
        let last = |since: usize, is_it: &dyn Fn(&EventKind) -> bool| {
            lane.events.range(since..first).rev().find(|event| is_it(&event.kind)).copied()
        };
        // The task that runs may have been switched in long ago. A switch before that is of another one.
        let since = first.saturating_sub(MOST_SINCE_SWITCH);
        let forgotten = || lane.last_switch.filter(|_| since == 0);
        let switch = last(since, &|kind| matches!(kind, EventKind::Switch { .. })).or_else(forgotten);
        // What the thread did before either is of another stay.
        let left = last(since, &|kind| match kind {
            EventKind::Switch { from, .. } => *from == thread,
            EventKind::Migrated { tid, .. } => *tid == thread,
            _ => false,
        });
        let mut events: Vec<Event> = left.into_iter().chain(switch.filter(|switch| Some(*switch) != left)).collect();
        let until_ns = end_ns.saturating_add(BEHIND_NS);
        let mut is_accounted = false;
        for event in lane.events.range(first..).take_while(|event| event.end_ns() <= until_ns) {
            // What began before is recorded at its end, which may be behind that accounting.
            let is_used = self.is_guest || !matches!(event.kind, EventKind::Ran { .. });
            if (event.at_ns <= end_ns || !is_accounted) && is_used {
                events.push(*event);
            }
            is_accounted |= event.at_ns > end_ns && event.kind.accounts();
        }
        events
    }

    /// Messages that were overwritten before they were read.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// From which time on all events of a CPU until `until_ns` are kept.
    pub fn known_from(&self, cpu: u16, until_ns: u64) -> u64 {
        let known_from = |lane: &Lane| {
            let (start_ns, end_ns) = lane.gap_ns;
            if until_ns > start_ns { lane.forgotten_ns.max(end_ns) } else { lane.forgotten_ns }
        };
        self.lanes.get(usize::from(cpu)).map_or(0, known_from)
    }

    /// Events that were read, and forgotten before they were as old as asked for.
    pub fn crowded_out(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.crowded_out).sum()
    }

    /// Events that were overwritten before they were read.
    pub fn lost(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.lost).sum()
    }
}

/// Run time is accounted at each tick: this long before and behind a time there is one. An interrupt is recorded at its end.
pub const BEHIND_NS: u64 = 10_000_000;

impl Lane {
    fn read(&mut self, memory: &Mapping, at: usize, since_ns: u64) {
        // A place is counted before it is filled: what was counted at the last call is filled now.
        let until = std::mem::replace(&mut self.counted, memory.read(at));
        let record = |number| memory.bytes(at + RING_AT + place(number, EVENTS) * RECORD_BYTES);
        let mut events: Vec<Option<Event>> = (self.read..until).map(|number| Event::decode(&record(number))).collect();
        // What was overwritten before it was read, or while it was.
        let overwritten =
            memory.read(at).saturating_sub(EVENTS as u64).saturating_sub(self.read).min(until - self.read);
        self.lost += overwritten;
        self.read = until;
        let known = self.events.len();
        self.events.extend(events.drain(usize::try_from(overwritten).unwrap_or(usize::MAX)..).flatten());
        if overwritten > 0 && self.events.len() > known {
            // Who runs is known again from the first switch on.
            let behind = self.events.range(known..).find(|event| matches!(event.kind, EventKind::Switch { .. }));
            let end_ns = behind.or(self.events.back()).map_or(0, |event| event.at_ns);
            let before_ns = known.checked_sub(1).and_then(|at| self.events.get(at)).map_or(0, Event::end_ns);
            // One that is still among the events goes on.
            let start_ns = if self.gap_ns.1 > self.forgotten_ns { self.gap_ns.0 } else { before_ns };
            self.gap_ns = (start_ns, end_ns);
        }
        // Only interrupts within the program that records change the order.
        let events = self.events.make_contiguous();
        events[known.saturating_sub(MOST_NESTED)..].sort_by_key(Event::end_ns);
        let old = self.events.partition_point(|event| event.end_ns() < since_ns);
        let forget = old.max(self.events.len().saturating_sub(MOST_KEPT));
        self.crowded_out += u64::try_from(forget - old).unwrap_or(u64::MAX);
        for event in self.events.drain(..forget) {
            self.forgotten_ns = event.end_ns();
            if matches!(event.kind, EventKind::Switch { .. }) {
                self.last_switch = Some(event);
            }
        }
    }
}

/// Without these nothing can be explained.
const NEEDED: [&str; 1] = ["sched_switch"];
const NEEDED_SLEEPS: [&str; 3] = ["sched_switch", "sys_enter", "sys_exit"];
const NEEDED_LIVE: [&str; 4] = ["sched_switch", "sched_waking", "sk_data_ready", "sock_recv_length"];
/// Only sleeps have the first two, and only other messages have the rest.
const OF_MESSAGES: [&str; 5] = ["sys_enter", "sys_exit", "net_dev_queue", "net_dev_start_xmit", "netif_receive_skb"];
/// How many events are looked through for what was before.
const MOST_BACK: usize = 4096;
/// And how many for the switch to the task that runs.
const MOST_SINCE_SWITCH: usize = 65_536;
/// Most events of a CPU that are kept.
const MOST_KEPT: usize = 16 * EVENTS;
/// How far behind an event may be written that ended before it.
const MOST_NESTED: usize = 64;

pub(crate) fn place(number: u64, places: usize) -> usize {
    usize::try_from(number % places as u64).unwrap_or(0)
}

/// Whether the CPU has the flag of a hypervisor (/proc/cpuinfo).
fn is_guest() -> bool {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    info.lines().any(|line| line.starts_with("flags") && line.ends_with(" hypervisor") || line.contains(" hypervisor "))
}

/// The highest number of a CPU that is online (/sys/devices/system/cpu/online); what comes online later is not recorded.
fn highest_cpu() -> usize {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    online.trim().rsplit(['-', ',']).next().and_then(|last| last.parse().ok()).unwrap_or(0)
}
