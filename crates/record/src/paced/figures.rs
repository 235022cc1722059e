//! What `pace` has beside the figures of every recorder.

use super::RepairFigures;
use model::{OneWay, RateReport, ReflectorReport, Segment};

/// What `pace` has beside the figures of every recorder.
#[derive(Debug, Clone)]
pub struct PaceFigures {
    /// The rate asked for and what became of it; `saturated` is filled by [`Recorded::judge_rate`](crate::Recorded::judge_rate).
    pub rate: RateReport,
    /// One-way times, where there is one reflector and its clock allows.
    pub one_way: Option<OneWay>,
    /// The parts of the round trip, where stamps were taken.
    pub segments: Vec<Segment>,
    /// Each reflector by itself, where there are several.
    pub reflectors: Vec<ReflectorReport>,
    /// Distance of the schedule's times in ns, bursts counted as one.
    pub distance_ns: u64,
    /// Messages of a burst; 1 where there are none.
    pub burst: u32,
    /// Times that the sender stood still, by lateness: intended time since the first, length, in ns.
    pub sender_stalls: Vec<(u64, u64)>,
    /// How the sender was doing against its schedule at the end.
    pub arrears: Arrears,
    /// Messages more than a distance late by the sender's own doing.
    pub own_behind: u64,
    /// What only the sender knows.
    pub sender: SenderCounts,
    /// Losses and repairs, where the protocol repairs.
    pub repairs: Option<RepairFigures>,
}

/// What only the sender knows, and what the kernel counted of its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SenderCounts {
    /// Messages of the schedule that were never sent, because the time was over.
    pub unsent: u64,
    /// Sends that had to wait because the path took no more (EAGAIN, a rate limit of the protocol).
    pub blocked: u64,
    /// How long they waited in all, in ns, without what the thread spent in the run queue meanwhile.
    pub blocked_ns: u64,
    /// Time that the thread was ready to run and had no CPU, in ns; absent where the kernel does not count it.
    pub run_queue_wait_ns: Option<u64>,
    /// How often another task took the thread's CPU.
    pub involuntary_switches: u64,
    /// How long the hypervisor gave the thread's CPU to other guests, in ns; absent where it is not pinned.
    pub stolen_ns: Option<u64>,
}

/// Whether the sender ever caught up with its schedule towards the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrears {
    /// For how long up to the end no message left within a distance of the schedule of its time, in ns (whole intervals).
    pub for_ns: u64,
    /// Smallest lateness in the first interval of that time.
    pub from_ns: u64,
    /// Smallest lateness in the last one.
    pub to_ns: u64,
}
