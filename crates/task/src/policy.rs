//! Scheduling policies of threads (sched(7)).

use crate::TaskError;
use model::Policy;
use std::io;

/// How a thread is scheduled, as the kernel says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheduling {
    /// Its policy; SCHED_DEADLINE and unknown ones read as `None`.
    pub policy: Option<Policy>,
    /// Whether children and new threads start as SCHED_OTHER (SCHED_RESET_ON_FORK).
    pub reset_on_fork: bool,
}

/// The number and priority that sched_setscheduler(2) takes. Real-time policies carry SCHED_RESET_ON_FORK, so that
/// nothing a measuring thread starts (a watchdog, a tool) ever runs in its class unasked.
pub(crate) fn raw(policy: Policy) -> (libc::c_int, libc::c_int) {
    match policy {
        Policy::Other => (libc::SCHED_OTHER, 0),
        Policy::Batch => (libc::SCHED_BATCH, 0),
        Policy::Idle => (libc::SCHED_IDLE, 0),
        Policy::Fifo(priority) => (libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, libc::c_int::from(priority)),
        Policy::Rr(priority) => (libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, libc::c_int::from(priority)),
    }
}

/// Sets the calling thread's policy without allocating: also fit for the time between fork and exec.
pub(crate) fn set_raw(number: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    let set = |number: libc::c_int| {
        // SAFETY: sched_param is plain data and all zero is valid for it (musl has more fields than glibc).
        let mut parameter: libc::sched_param = unsafe { std::mem::zeroed() };
        parameter.sched_priority = priority;
        // SAFETY: the parameter is valid for the call; 0 means the calling thread.
        if unsafe { libc::sched_setscheduler(0, number, &raw const parameter) } == -1 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    };
    match set(number) {
        // Only CAP_SYS_NICE may clear the flag on oneself; leaving real-time must work without it.
        Err(error) if error.raw_os_error() == Some(libc::EPERM) && number & libc::SCHED_RESET_ON_FORK == 0 => {
            set(number | libc::SCHED_RESET_ON_FORK)
        }
        result => result,
    }
}

/// Sets the calling thread's policy.
///
/// # Errors
/// [`TaskError::PolicyNotPermitted`] for real-time policies without the right, else [`TaskError::Policy`].
pub fn apply_policy(policy: Policy) -> Result<(), TaskError> {
    let (number, priority) = raw(policy);
    set_raw(number, priority).map_err(|cause| {
        if cause.raw_os_error() == Some(libc::EPERM) && policy.is_real_time() {
            TaskError::PolicyNotPermitted(policy)
        } else {
            TaskError::Policy { policy, cause }
        }
    })
}

/// The calling thread's scheduling.
///
/// # Errors
/// [`TaskError::PolicyOf`].
pub fn scheduling() -> Result<Scheduling, TaskError> {
    scheduling_of(0)
}

/// The scheduling of a thread by its kernel thread id; 0 is the calling one.
///
/// # Errors
/// [`TaskError::PolicyOf`], for instance when there is no such thread.
pub fn scheduling_of(thread: i32) -> Result<Scheduling, TaskError> {
    let failed = |cause| TaskError::PolicyOf { thread, cause };
    // SAFETY: takes a number and returns one.
    let number = unsafe { libc::sched_getscheduler(thread) };
    if number < 0 {
        return Err(failed(io::Error::last_os_error()));
    }
    // SAFETY: sched_param is plain data and all zero is valid for it.
    let mut parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the parameter is valid for the call.
    if unsafe { libc::sched_getparam(thread, &raw mut parameter) } == -1 {
        return Err(failed(io::Error::last_os_error()));
    }
    let priority = u8::try_from(parameter.sched_priority).unwrap_or(0);
    let policy = match number & !libc::SCHED_RESET_ON_FORK {
        libc::SCHED_OTHER => Some(Policy::Other),
        libc::SCHED_BATCH => Some(Policy::Batch),
        libc::SCHED_IDLE => Some(Policy::Idle),
        libc::SCHED_FIFO => Some(Policy::Fifo(priority)),
        libc::SCHED_RR => Some(Policy::Rr(priority)),
        _ => None,
    };
    Ok(Scheduling { policy, reset_on_fork: number & libc::SCHED_RESET_ON_FORK != 0 })
}

/// The calling thread's kernel thread id (gettid(2)).
#[must_use]
pub fn thread_id() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::gettid() }
}
