//! Scheduling of any thread with all that the kernel knows of it: sched_setattr(2) and sched_getattr(2).

use crate::{TaskError, check};
use model::Policy;
use std::time::Duration;

const SCHED_DEADLINE: u32 = 6;
const FLAG_RESET_ON_FORK: u64 = 1;

/// How a thread is to be scheduled, or is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// One of the classes that have a priority or none.
    Plain(Policy),
    /// SCHED_DEADLINE: `runtime` within `deadline` of each `period` (Documentation/scheduler/sched-deadline.rst).
    Deadline {
        /// CPU time of each period.
        runtime: Duration,
        /// From the begin of a period.
        deadline: Duration,
        /// From one begin to the next.
        period: Duration,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    pub class: Class,
    /// Nice value, -20 to 19; of the ordinary classes only.
    pub nice: i32,
    /// Slice asked for instead of the scheduler's own (Linux 6.12, 0.1 to 100 ms); of the ordinary classes only.
    pub slice: Option<Duration>,
    /// Whether children start as SCHED_OTHER.
    pub reset_on_fork: bool,
}

/// linux/sched/types.h, version 0, which every kernel with this call takes.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Raw {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Attributes {
    /// A policy with nice 0, the scheduler's own slice, and children that inherit it.
    pub fn new(class: Class) -> Self {
        Self { class, nice: 0, slice: None, reset_on_fork: false }
    }

    /// Whether the class is one of those that may starve others.
    pub fn is_real_time(&self) -> bool {
        match self.class {
            Class::Plain(policy) => policy.is_real_time(),
            Class::Deadline { .. } => true,
        }
    }

    fn raw(&self) -> Raw {
        let size = u32::try_from(size_of::<Raw>()).unwrap_or(u32::MAX);
        let flags = if self.reset_on_fork { FLAG_RESET_ON_FORK } else { 0 };
        let raw = Raw { size, flags, ..Raw::default() };
        let fair = |policy: libc::c_int| {
            let runtime = self.slice.map_or(0, ns);
            Raw { policy: policy.cast_unsigned(), nice: self.nice, runtime, ..raw }
        };
        let real_time = |policy: libc::c_int, priority: u8| Raw {
            policy: policy.cast_unsigned(),
            priority: priority.into(),
            ..raw
        };
        match self.class {
            Class::Plain(Policy::Other) => fair(libc::SCHED_OTHER),
            Class::Plain(Policy::Batch) => fair(libc::SCHED_BATCH),
            Class::Plain(Policy::Idle) => fair(libc::SCHED_IDLE),
            Class::Plain(Policy::Fifo(priority)) => real_time(libc::SCHED_FIFO, priority),
            Class::Plain(Policy::Rr(priority)) => real_time(libc::SCHED_RR, priority),
            Class::Deadline { runtime, deadline, period } => {
                let [runtime, deadline, period] = [runtime, deadline, period].map(ns);
                Raw { policy: SCHED_DEADLINE, runtime, deadline, period, ..raw }
            }
        }
    }

    fn from_raw(raw: &Raw) -> Option<Self> {
        let priority = u8::try_from(raw.priority).unwrap_or(0);
        let class = match raw.policy {
            SCHED_DEADLINE => Class::Deadline {
                runtime: Duration::from_nanos(raw.runtime),
                deadline: Duration::from_nanos(raw.deadline),
                period: Duration::from_nanos(raw.period),
            },
            other => Class::Plain(match libc::c_int::try_from(other).ok()? {
                libc::SCHED_OTHER => Policy::Other,
                libc::SCHED_BATCH => Policy::Batch,
                libc::SCHED_IDLE => Policy::Idle,
                libc::SCHED_FIFO => Policy::Fifo(priority),
                libc::SCHED_RR => Policy::Rr(priority),
                _ => return None,
            }),
        };
        let fair = matches!(class, Class::Plain(policy) if !policy.is_real_time());
        Some(Self {
            class,
            nice: raw.nice,
            // The kernel reports the slice that is in force, asked for or not; so only those asked for are reported.
            slice: (fair && raw.runtime > 0).then(|| Duration::from_nanos(raw.runtime)),
            reset_on_fork: raw.flags & FLAG_RESET_ON_FORK != 0,
        })
    }
}

/// Sets a thread's attributes (0: own). EPERM: CAP_SYS_NICE or group budget; EBUSY: deadline bandwidth; ESRCH.
pub fn set_attributes(thread: i32, attributes: &Attributes) -> Result<(), TaskError> {
    let raw = attributes.raw();
    // SAFETY: the structure is valid for the call and has its own size in it.
    let answer = unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const raw, 0) };
    let failed = |cause| TaskError::scheduling(format!("the scheduling of thread {thread} cannot be set"), cause);
    check(answer).map_err(failed)
}

/// A thread's attributes; 0 is the calling one. `None` for a policy that is not known here (SCHED_EXT).
pub fn attributes(thread: i32) -> Result<Option<Attributes>, TaskError> {
    let mut raw = Raw::default();
    let size = size_of::<Raw>();
    // SAFETY: the kernel writes at most `size` bytes at the address.
    let answer = unsafe { libc::syscall(libc::SYS_sched_getattr, thread, &raw mut raw, size, 0) };
    let failed = |cause| TaskError::scheduling(format!("the scheduling of thread {thread} cannot be read"), cause);
    check(answer).map_err(failed)?;
    Ok(Attributes::from_raw(&raw))
}

/// Timer slack of the calling thread (PR_SET_TIMERSLACK), inherited by children and programs. Real-time threads have none.
pub fn set_timer_slack(slack: Duration) -> Result<(), TaskError> {
    // 0 would mean the default; 1 ns is the least.
    let ns = libc::c_ulong::try_from(slack.as_nanos().max(1)).unwrap_or(libc::c_ulong::MAX);
    // SAFETY: takes numbers only.
    let answer = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, ns, 0, 0, 0) };
    check(answer).map_err(|cause| TaskError::refused("the timer slack cannot be set", cause))
}

/// The timer slack of the calling thread in ns, as applied (PR_GET_TIMERSLACK): 0 under a real-time policy.
pub fn timer_slack_ns() -> Result<u64, TaskError> {
    if attributes(0)?.is_some_and(|own| own.is_real_time()) {
        return Ok(0);
    }
    // SAFETY: takes numbers only and returns the slack.
    let answer = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) };
    check(answer).map_err(|cause| TaskError::refused("the timer slack cannot be read", cause))?;
    Ok(u64::try_from(answer).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_reads_back() {
        std::thread::spawn(|| {
            let mut wanted = Attributes::new(Class::Plain(Policy::Batch));
            wanted.nice = 5;
            wanted.reset_on_fork = true;
            set_attributes(0, &wanted).unwrap();
            let got = attributes(0).unwrap().unwrap();
            assert_eq!((got.class, got.nice, got.reset_on_fork), (wanted.class, 5, true));
        })
        .join()
        .unwrap();
        assert!(set_attributes(i32::MAX, &Attributes::new(Class::Plain(Policy::Other))).is_err());
    }

    #[test]
    fn a_deadline_is_its_three_times() {
        let class = Class::Deadline {
            runtime: Duration::from_micros(100),
            deadline: Duration::from_millis(1),
            period: Duration::from_millis(2),
        };
        let raw = Attributes::new(class).raw();
        assert_eq!((raw.policy, raw.runtime, raw.deadline, raw.period), (6, 100_000, 1_000_000, 2_000_000));
        assert_eq!(Attributes::from_raw(&raw).unwrap().class, class);
        assert!(Attributes::new(class).is_real_time());
    }
}
