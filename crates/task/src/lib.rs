//! Scheduling policy, CPUs, memory lock and limits of the calling thread or process; the only place that starts
//! processes; the signals that wake a blocked receive.
//!
//! Floor 1. Knows nothing of measurements. What it sets is the calling thread's or its children's own and dies with
//! them: no setting of the machine is touched here.
#![expect(missing_docs, reason = "what has no comment is what its name says")]
#![expect(unsafe_code, reason = "sched_*, mlockall, sigaction and code between fork and exec need it")]

mod attributes;
mod become_program;
mod children;
mod cpu;
mod error;
mod folder;
mod heap;
mod inherit;
mod inject;
mod keeper;
mod launch;
mod limit;
mod memory;
mod netns;
pub mod notify;
mod other;
mod policy;
mod session;
mod signal;
mod stderr_tail;
mod stdio;

pub use attributes::{Attributes, Class, attributes, set_attributes, set_timer_slack, timer_slack_ns};
pub use become_program::become_program;
pub use children::{ChildrenUsage, children_usage, send_signal, shell_status, thread_named, threads_of_this_process};
pub use cpu::{
    allowed_cpus, allowed_cpus_of, current_cpu, housekeeping_cpus, online_cpus, pin, require_online, set_affinity,
};
pub use error::TaskError;
pub use folder::{OwnFolder, remove_unowned};
pub use heap::keep_heap;
pub use inherit::take_inherited;
pub use inject::{InjectError, MemoryLock, lock_and_prefault};
pub use keeper::Keeper;
pub use launch::{Child, Containment, Finished, Launch, Stream};
pub use limit::{raise_open_files, set_rt_limit};
pub use memory::{lock_memory, prefault_stack};
pub use netns::enter_network;
pub use other::{set_affinity_of, set_policy_of};
pub use policy::{apply_policy, thread_id};
pub use session::{LongWait, WaitEnd, own_session};
pub use signal::ending::{SAME_REQUEST_NS, end_at_signal, expect_stop};
pub use signal::interrupt::{Interrupter, install_interrupt_handler, interrupt_signal};
pub use signal::is_ignored;
pub use signal::stopper::Stopper;
pub use signal::watchdog::{Progress, Watchdog};
pub use stderr_tail::{StderrTail, read_pieces};
pub use stdio::keep_stdout;

/// The result of a system call that returns -1 for a failure. Allocates nothing: also fit for the time between fork and exec.
pub(crate) fn check(answer: impl Into<i64>) -> std::io::Result<()> {
    if answer.into() == -1 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}
