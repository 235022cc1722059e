//! CPUs and policy of threads that are not the calling one (sched_setaffinity(2), sched_setscheduler(2)).
//!
//! A thread's number may be given to another thread once it has ended: whoever calls this has made sure whom it means.

use crate::cpu::Mask;
use crate::{TaskError, policy};
use model::{CpuList, Policy};
use std::io;

/// Lets a thread run on these CPUs only. The kernel leaves out those outside the thread's cpuset without a word: read
/// them back with [`crate::allowed_cpus_of`].
///
/// # Errors
/// [`TaskError::NoCpu`]; [`TaskError::OfThread`] with ESRCH when there is no such thread, EINVAL when the kernel keeps
/// its CPUs (per-CPU kernel threads) or its cpuset has none of these, EPERM without CAP_SYS_NICE.
pub fn set_affinity_of(thread: i32, cpus: &CpuList) -> Result<(), TaskError> {
    if cpus.is_empty() {
        return Err(TaskError::NoCpu);
    }
    Mask::new(cpus).apply_to(thread).map_err(|cause| TaskError::OfThread {
        thread,
        what: format!("CPUs cannot be set to {cpus}"),
        cause,
    })
}

/// Sets a thread's policy, and whether its children and new threads start as SCHED_OTHER.
///
/// # Errors
/// [`TaskError::OfThread`], with ESRCH when there is no such thread and EPERM without CAP_SYS_NICE.
pub fn set_scheduling_of(thread: i32, policy: Policy, reset_on_fork: bool) -> Result<(), TaskError> {
    let (number, priority) = policy::raw(policy);
    let flag = if reset_on_fork { libc::SCHED_RESET_ON_FORK } else { 0 };
    let number = (number & !libc::SCHED_RESET_ON_FORK) | flag;
    // SAFETY: sched_param is plain data and all zero is valid for it.
    let mut parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    parameter.sched_priority = priority;
    // SAFETY: the parameter is valid for the call.
    if unsafe { libc::sched_setscheduler(thread, number, &raw const parameter) } == -1 {
        let what = format!("policy cannot be set to {policy}");
        return Err(TaskError::OfThread { thread, what, cause: io::Error::last_os_error() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn another_thread_is_changed_and_this_one_is_not() {
        let (told, tid) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            told.send(crate::thread_id()).unwrap();
            let _ = ended.recv();
        });
        let tid = tid.recv().unwrap();
        let before = crate::allowed_cpus().unwrap();
        let one: CpuList = before.iter().take(1).collect();
        set_affinity_of(tid, &one).unwrap();
        assert_eq!(crate::allowed_cpus_of(tid).unwrap(), one);
        assert_eq!(crate::allowed_cpus().unwrap(), before);
        set_scheduling_of(tid, Policy::Batch, true).unwrap();
        let now = crate::scheduling_of(tid).unwrap();
        assert_eq!((now.policy, now.reset_on_fork), (Some(Policy::Batch), true));
        assert_eq!(crate::scheduling().unwrap().policy, Some(Policy::Other));
        drop(end);
        thread.join().unwrap();
        assert!(set_affinity_of(tid, &one).is_err());
        assert!(matches!(set_affinity_of(0, &CpuList::default()), Err(TaskError::NoCpu)));
    }
}
