//! Scheduling policies of threads (sched(7)).

use crate::{TaskError, check};
use model::Policy;
use std::io;

/// Number and priority for sched_setscheduler(2). Real-time policies carry SCHED_RESET_ON_FORK: what a thread starts is ordinary.
pub(crate) fn raw(policy: Policy) -> (libc::c_int, libc::c_int) {
    match policy {
        Policy::Other => (libc::SCHED_OTHER, 0),
        Policy::Batch => (libc::SCHED_BATCH, 0),
        Policy::Idle => (libc::SCHED_IDLE, 0),
        Policy::Fifo(priority) => (libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, libc::c_int::from(priority)),
        Policy::Rr(priority) => (libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, libc::c_int::from(priority)),
    }
}

/// Sets a thread's policy, that of the calling one for 0, without allocating: also fit for the time between fork and exec.
pub(crate) fn set_raw(thread: i32, number: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    let set = |number: libc::c_int| {
        // SAFETY: sched_param is plain data and all zero is valid for it (musl has more fields than glibc).
        let mut parameter: libc::sched_param = unsafe { std::mem::zeroed() };
        parameter.sched_priority = priority;
        // SAFETY: the parameter is valid for the call, which keeps nothing of it.
        check(unsafe { libc::sched_setscheduler(thread, number, &raw const parameter) })
    };
    match set(number) {
        // Only CAP_SYS_NICE may clear the flag on oneself; leaving real-time must work without it.
        Err(error)
            if thread == 0 && error.raw_os_error() == Some(libc::EPERM) && number & libc::SCHED_RESET_ON_FORK == 0 =>
        {
            set(number | libc::SCHED_RESET_ON_FORK)
        }
        result => result,
    }
}

/// Sets the calling thread's policy; [`TaskError::PolicyNotPermitted`] for real-time policies without the right.
pub fn apply_policy(policy: Policy) -> Result<(), TaskError> {
    let (number, priority) = raw(policy);
    set_raw(0, number, priority).map_err(|cause| {
        if cause.raw_os_error() == Some(libc::EPERM) && policy.is_real_time() {
            TaskError::PolicyNotPermitted(policy)
        } else {
            TaskError::refused(format!("policy {policy} cannot be set"), cause)
        }
    })
}

/// The calling thread's kernel thread id (gettid(2)).
pub fn thread_id() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::gettid() }
}
