//! CPUs of threads that are not the calling one (sched_setaffinity(2)).
//!
//! A thread's number may be given to another thread once it has ended: whoever calls this has made sure whom it means.

use crate::TaskError;
use crate::cpu::Mask;
use model::CpuList;

/// Lets a thread run on these CPUs only. The kernel leaves out those outside the thread's cpuset without a word: read
/// them back with [`crate::allowed_cpus_of`].
///
/// # Errors
/// [`TaskError::NoCpu`]; [`TaskError::Refused`] with ESRCH when there is no such thread, EINVAL when the kernel keeps
/// its CPUs (per-CPU kernel threads) or its cpuset has none of these, EPERM without CAP_SYS_NICE.
pub fn set_affinity_of(thread: i32, cpus: &CpuList) -> Result<(), TaskError> {
    if cpus.is_empty() {
        return Err(TaskError::NoCpu);
    }
    let failed = |cause| TaskError::refused(format!("thread {thread}: its CPUs cannot be set to {cpus}"), cause);
    Mask::new(cpus).apply_to(thread).map_err(failed)
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
        drop(end);
        thread.join().unwrap();
        assert!(set_affinity_of(tid, &one).is_err());
        assert!(matches!(set_affinity_of(0, &CpuList::default()), Err(TaskError::NoCpu)));
    }
}
