//! What the kernel still knows of a process that has ended and was not waited for yet.

use crate::knob::Machine;
use crate::tasks::parse_stat;
use crate::usage::{parse_sched_migrations, parse_schedstat};
use std::time::Duration;

/// A process that has ended. Sums over all threads come from the wait for it (getrusage(2)).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ended {
    /// Whether its first thread was in a real-time class.
    pub real_time: bool,
    /// How long its first thread was ready to run and waited for a CPU (/proc/PID/schedstat, second field).
    pub waited: Option<Duration>,
    /// How often it was given a CPU (third field).
    pub turns: Option<u64>,
    /// CPU changes of its first thread (se.nr_migrations of /proc/PID/sched); absent where there is no such file.
    pub migrations: Option<u64>,
}

impl Ended {
    pub fn of(machine: &Machine, pid: u32) -> Self {
        let file = |name: &str| machine.text(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let [_, waited, turns] = parse_schedstat(&file("schedstat"));
        let real_time = parse_stat(&file("stat")).is_some_and(|stat| stat.is_real_time());
        let migrations = parse_sched_migrations(&file("sched"));
        Self { real_time, waited: waited.map(Duration::from_nanos), turns, migrations }
    }

    /// What came after an earlier reading of the same process.
    pub fn since(&self, before: &Self) -> Self {
        let count = |now: Option<u64>, before: Option<u64>| now.map(|now| now.saturating_sub(before.unwrap_or(0)));
        Self {
            real_time: self.real_time,
            waited: self.waited.map(|now| now.saturating_sub(before.waited.unwrap_or_default())),
            turns: count(self.turns, before.turns),
            migrations: count(self.migrations, before.migrations),
        }
    }
}
