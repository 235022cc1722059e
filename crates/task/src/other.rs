//! CPUs and policies of other threads (sched_setaffinity(2), sched_setscheduler(2)). Ids are reused: the caller must be
//! sure whom it means.

use crate::TaskError;
use crate::cpu::Mask;
use crate::policy::{raw, set_raw};
use model::{CpuList, Policy};

/// Lets a thread run on these CPUs only. The kernel silently leaves out those outside the thread's cpuset: read them back
/// with [`crate::allowed_cpus_of`]. ESRCH for no such thread, EINVAL for a per-CPU kernel thread or a cpuset with none of
/// these, EPERM without CAP_SYS_NICE.
pub fn set_affinity_of(thread: i32, cpus: &CpuList) -> Result<(), TaskError> {
    if cpus.is_empty() {
        return Err(TaskError::NoCpu);
    }
    let failed = |cause| TaskError::refused(format!("thread {thread}: its CPUs cannot be set to {cpus}"), cause);
    Mask::new(cpus).apply_to(thread).map_err(failed)
}

/// Sets a policy that children inherit: for kernel threads. ESRCH: no such thread; EPERM: no CAP_SYS_NICE.
pub fn set_policy_of(thread: i32, policy: Policy) -> Result<(), TaskError> {
    let (number, priority) = raw(policy);
    let failed = |cause| TaskError::scheduling(format!("thread {thread}: its policy cannot be set to {policy}"), cause);
    set_raw(thread, number & !libc::SCHED_RESET_ON_FORK, priority).map_err(failed)
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
        // What one may do without privilege; field 41 of proc_pid_stat(5) is the policy.
        let policy = |tid: i32| {
            let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap();
            stat.rsplit_once(") ").unwrap().1.split(' ').nth(38).unwrap().parse::<i32>().unwrap()
        };
        let own = policy(crate::thread_id());
        set_policy_of(tid, Policy::Batch).unwrap();
        assert_eq!((policy(tid), policy(crate::thread_id())), (libc::SCHED_BATCH, own));
        assert_eq!(crate::allowed_cpus().unwrap(), before);
        drop(end);
        thread.join().unwrap();
        assert!(set_affinity_of(tid, &one).is_err() && set_policy_of(tid, Policy::Batch).is_err());
        assert!(matches!(set_affinity_of(0, &CpuList::default()), Err(TaskError::NoCpu)));
    }
}
