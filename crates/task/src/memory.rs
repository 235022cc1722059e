//! Locking and touching memory, so that a measured loop meets no page fault.

use crate::TaskError;
use std::io;

/// A page of the smallest size that Linux machines use; touching more often than needed does no harm.
const PAGE: usize = 4096;
/// Stack touched by one call of the recursion below.
const FRAME: usize = 16 * PAGE;
/// No more than half of the 2 MiB that Rust gives a thread.
const MOST_STACK: usize = 1024 * 1024;

/// Locks all present and future memory of the process (mlockall(2), MCL_CURRENT and MCL_FUTURE). khugepaged then leaves
/// it alone (PR_SET_THP_DISABLE(2const), inherited): it folds locked pages, too, and a thread that touches one waits
/// for a lock whose holder is no real-time task, 0.1 to 1 s in 7 of 8 runs beside a load with `preempt=full`. Errors:
/// [`TaskError::LockMemory`] with the limit and the remedy.
pub fn lock_memory() -> Result<(), TaskError> {
    // Only a fatal signal can interrupt it.
    let _ = nix::sys::prctl::set_thp_disable(true);
    // SAFETY: takes flags only.
    if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } == 0 {
        return Ok(());
    }
    let cause = io::Error::last_os_error();
    let limit = match nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_MEMLOCK) {
        Ok((soft, _)) if soft == libc::RLIM_INFINITY => "unlimited".to_owned(),
        Ok((soft, _)) => format!("{soft} bytes"),
        Err(_) => "unknown".to_owned(),
    };
    Err(TaskError::LockMemory { limit, cause })
}

/// Touches `bytes` of the calling thread's stack, at most 1 MiB, so that later calls of that depth fault no page in.
#[inline(never)]
pub fn prefault_stack(bytes: usize) {
    let mut frame = [0_u8; FRAME];
    for byte in frame.iter_mut().step_by(PAGE) {
        *byte = 1;
    }
    std::hint::black_box(&mut frame);
    let left = bytes.min(MOST_STACK).saturating_sub(FRAME);
    if left > 0 {
        prefault_stack(left);
    }
    // Used after the call, so that the compiler cannot turn the recursion into a loop on one frame.
    std::hint::black_box(&frame);
}
