//! What children used that were waited for, and signals to processes that are known to be children of this process.

use crate::TaskError;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

/// Sums over all children that were waited for, their threads included (getrusage(2), RUSAGE_CHILDREN).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChildrenUsage {
    pub user: Duration,
    pub system: Duration,
    /// Context switches by waiting.
    pub voluntary: u64,
    /// Context switches by being put off the CPU.
    pub involuntary: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
}

impl ChildrenUsage {
    /// What came since an earlier reading.
    pub fn less(&self, before: &Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            voluntary: self.voluntary.saturating_sub(before.voluntary),
            involuntary: self.involuntary.saturating_sub(before.involuntary),
            minor_faults: self.minor_faults.saturating_sub(before.minor_faults),
            major_faults: self.major_faults.saturating_sub(before.major_faults),
        }
    }
}

/// What all children that were waited for have used; zero where the kernel does not say.
pub fn children_usage() -> ChildrenUsage {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return ChildrenUsage::default() };
    let time = |time: nix::sys::time::TimeVal| {
        let us = time.tv_sec().saturating_mul(1_000_000).saturating_add(time.tv_usec());
        Duration::from_micros(u64::try_from(us).unwrap_or(0))
    };
    let count = |count: libc::c_long| u64::try_from(count).unwrap_or(0);
    ChildrenUsage {
        user: time(usage.user_time()),
        system: time(usage.system_time()),
        voluntary: count(usage.voluntary_context_switches()),
        involuntary: count(usage.involuntary_context_switches()),
        minor_faults: count(usage.minor_page_faults()),
        major_faults: count(usage.major_page_faults()),
    }
}

/// The status of an ended process as a shell gives it: 128 + N after signal N.
pub fn shell_status(status: ExitStatus) -> i32 {
    status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(1)
}

/// Sends a signal to a process that the caller started and has not waited for yet.
pub fn send_signal(pid: i32, signal: i32) -> Result<(), TaskError> {
    let sent = Signal::try_from(signal).and_then(|signal| kill(Pid::from_raw(pid), signal));
    sent.map_err(|cause| TaskError::refused(format!("process {pid} cannot be signalled"), cause))
}

/// The ids of the threads of this process; none where /proc does not show them.
pub fn threads_of_this_process() -> Vec<i32> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok()).collect()
}

pub fn thread_named(process: u32, name: &str) -> Option<i32> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let is_it = |thread: &std::fs::DirEntry| {
        std::fs::read_to_string(thread.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    threads.flatten().find(is_it)?.file_name().to_str()?.parse().ok()
}
