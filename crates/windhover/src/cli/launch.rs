//! Flags of `run`, with RedHawk's letters.

use super::shared::PlainForm;
use clap::{Args, ValueEnum};
use std::ffi::OsString;

#[derive(Debug, Args)]
#[command(
    after_help = "Exit code: the program's own; 128 + N when signal N ended it; 125 when windhover failed, 126 when the program \
                  cannot be run, 127 when it is not found (as env(1)). With --pid and the like: 0 done, 1 failed."
)]
pub(crate) struct Run {
    /// Policy: fifo, rr, other, batch, idle or deadline; also fifo:10 and full names such as SCHED_FIFO
    #[arg(long, short = 's', value_name = "POLICY")]
    pub(crate) policy: Option<String>,
    /// Priority, 1 to 99 for fifo and rr; higher is better [default: 1]
    #[arg(long, short = 'P', value_name = "N")]
    pub(crate) priority: Option<u8>,
    /// CPUs it may run on: numbers, ranges, boot, active, nic:IF, node:N, sibling:N; ~LIST means all but LIST. If all CPUs
    /// belong to one shield, the program joins that shield
    #[arg(long, short = 'b', value_name = "LIST", aliases = ["bias", "cpu"])]
    pub(crate) cpus: Option<String>,
    /// Nice value (-20 to 19), or a slice in milliseconds such as 3ms (other and batch, Linux 6.12)
    #[arg(long, short = 'q', value_name = "N|MS", allow_hyphen_values = true)]
    pub(crate) quantum: Option<String>,
    /// Start this many copies of the program at once, as RedHawk's -c does: no CPU number, which is --cpus. The exit code is the
    /// first that is not 0 [default: 1]
    #[arg(long, short = 'c', value_name = "N", value_parser = copies)]
    pub(crate) copies: Option<u32>,
    /// CPU time, deadline and period of SCHED_DEADLINE in microseconds, as RUNTIME:DEADLINE:PERIOD
    #[arg(long, value_name = "R:D:P")]
    pub(crate) deadline: Option<String>,

    /// Change these processes instead of starting a program: all threads of each
    #[arg(long, short = 'p', value_name = "PID,…", value_delimiter = ',', help_heading = "Running tasks")]
    pub(crate) pid: Vec<i32>,
    /// Change these threads
    #[arg(long, value_name = "TID,…", value_delimiter = ',', help_heading = "Running tasks")]
    pub(crate) tid: Vec<i32>,
    /// Change the processes of these process groups
    #[arg(long, short = 'g', value_name = "PGID,…", value_delimiter = ',', help_heading = "Running tasks")]
    pub(crate) group: Vec<i32>,
    /// Change the processes of these users, by name or number
    #[arg(long, short = 'u', value_name = "USER,…", value_delimiter = ',', help_heading = "Running tasks")]
    pub(crate) user: Vec<String>,
    /// Change the processes and threads of these names
    #[arg(long, short = 'n', value_name = "NAME,…", value_delimiter = ',', help_heading = "Running tasks")]
    pub(crate) name: Vec<String>,
    /// Every process of user space; with --info only: changing all at once is `windhover shield`'s job
    #[arg(long, short = 'a', help_heading = "Running tasks")]
    pub(crate) all: bool,
    /// Show how the tasks are scheduled
    #[arg(long, short = 'i', help_heading = "Running tasks")]
    pub(crate) info: bool,
    #[command(flatten)]
    pub(crate) form: PlainForm,

    /// Lock the program's memory before its first instruction: what it has and will have (all), what it has at the start
    /// (current), what it will have (future), or each page once it is used (onfault)
    #[arg(long, value_name = "WHAT", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "all",
          help_heading = "Memory and time")]
    pub(crate) mlock: Option<MemoryLock>,
    /// Fault in so much of the program's stack before its first instruction
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u32).range(1..=1 << 20), help_heading = "Memory and time")]
    pub(crate) prefault_stack: Option<u32>,
    /// How late its timers may be, in nanoseconds [the kernel's default: 50000; none for real-time policies]
    #[arg(long, value_name = "NS", help_heading = "Memory and time")]
    pub(crate) timer_slack: Option<u64>,
    /// Keep CPUs out of idle states that take longer than so many microseconds to leave, while the program runs
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u32).range(0..=2_000_000_000), help_heading = "Memory and time")]
    pub(crate) cpu_dma_latency: Option<u32>,
    /// CPU time that a real-time program may use without once sleeping before SIGXCPU ends it, in seconds, or none
    #[arg(long, value_name = "S|none", default_value = "10", help_heading = "Memory and time")]
    pub(crate) rt_limit: String,
    /// Let children of a real-time program inherit its policy; without this they start as SCHED_OTHER
    #[arg(long, help_heading = "Memory and time")]
    pub(crate) inherit_policy: bool,
    /// Allow priority 99, which competes with the kernel's own threads
    #[arg(long, help_heading = "Memory and time")]
    pub(crate) force: bool,
    /// Report on standard error at the program's end what disturbed it: context switches, migrations, faults, waiting
    #[arg(long)]
    pub(crate) report: bool,
    /// Stop before the first instruction, for our parent
    #[arg(long, hide = true)]
    pub(crate) stopped: bool,

    /// The program and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// taskset(1) has CPUs behind this letter.
fn copies(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=1024).contains(number));
    number.ok_or_else(|| "it is a number of copies, 1 to 1024; CPUs are --cpus LIST".to_owned())
}

/// What mlockall(2) locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MemoryLock {
    /// Present and future
    All,
    /// Present
    Current,
    /// Future
    Future,
    /// Present and future, each page once it is used
    Onfault,
}
