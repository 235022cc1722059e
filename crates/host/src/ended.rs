//! What the kernel still knows of a process that has ended and was not waited for yet.

use crate::knob::Machine;
use crate::tasks::parse_stat;
use std::time::Duration;

/// A process that has ended. What is of its first thread only says so in its name; the sums over all threads come from
/// the wait for it (getrusage(2)).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ended {
    /// Whether its first thread was in a real-time class.
    pub real_time: bool,
    /// How long its first thread was ready to run and waited for a CPU (/proc/PID/schedstat, second field).
    pub waited: Option<Duration>,
    /// How often it was given a CPU (third field).
    pub turns: Option<u64>,
    /// How often its first thread changed CPUs (se.nr_migrations of /proc/PID/sched); absent where the kernel has no
    /// such file.
    pub migrations: Option<u64>,
}

impl Ended {
    /// Reads it. Whatever is missing stays absent.
    #[must_use]
    pub fn of(machine: &Machine, pid: u32) -> Self {
        let file = |name: &str| machine.text(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let (waited, turns) = schedstat(&file("schedstat"));
        let real_time = parse_stat(&file("stat")).is_some_and(|stat| stat.is_real_time());
        Self { real_time, waited, turns, migrations: migrations(&file("sched")) }
    }
}

impl Ended {
    /// What came after an earlier reading of the same process.
    #[must_use]
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

/// `ran waited turns`, the first two in ns (Documentation/scheduler/sched-stats.rst).
fn schedstat(text: &str) -> (Option<Duration>, Option<u64>) {
    let numbers: Vec<u64> = text.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
    (numbers.get(1).copied().map(Duration::from_nanos), numbers.get(2).copied())
}

fn migrations(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("se.nr_migrations"))?;
    line.trim_start().strip_prefix(':')?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_files_say() {
        assert_eq!(schedstat("1871673 250 2\n"), (Some(Duration::from_nanos(250)), Some(2)));
        assert_eq!(schedstat(""), (None, None));
        assert_eq!(migrations("x\nse.nr_migrations                   :                 17\n"), Some(17));
        assert_eq!(migrations("nr_switches : 3\n"), None);
    }
}
