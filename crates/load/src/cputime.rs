//! The CPU time of this process and its descendants (proc_pid_stat(5), proc_pid_schedstat(5), proc_tid_children(5)).
//! The machine's busy time does not measure a load: it stays at 100 % while others take its CPUs.

use std::fs;
use std::path::Path;

/// One tick of the times in /proc/PID/stat: USER_HZ is 100 on all of Rust's Linux targets but Alpha.
const TICK_NS: u64 = 10_000_000;
/// A process that ends while the tree is walked is counted twice or not at all, so the walk is repeated.
const WALKS: u32 = 5;

/// The time in ns since the processes began, and its moment (CLOCK_MONOTONIC, mid-walk). `None` without
/// CONFIG_PROC_CHILDREN or procfs, or when processes ended during each of a few walks.
pub(crate) fn of_tree() -> Option<(u64, u64)> {
    let own: u32 = fs::read_link("/proc/self").ok()?.to_str()?.parse().ok()?;
    if !Path::new("/proc/thread-self/children").exists() {
        return None;
    }
    (0..WALKS).find_map(|_| {
        let start = clock::monotonic_ns();
        let time = walk(own)?;
        Some((time, start.midpoint(clock::monotonic_ns())))
    })
}

/// One process with its descendants; `None` when one of them ended meanwhile.
fn walk(pid: u32) -> Option<u64> {
    let before = Times::read(pid)?;
    let (mut running, mut below) = (0, 0);
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        // A thread may end at any time; its time stays in the process' ticks.
        let text = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        running += text("schedstat").split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
        for child in text("children").split_ascii_whitespace() {
            below += walk(child.parse().ok()?)?;
        }
    }
    (Times::read(pid)?.reaped == before.reaped).then(|| running.max(before.own) + before.reaped + below)
}

/// CPU times of /proc/PID/stat, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Times {
    /// Of the process itself, all threads that it ever had; coarser than the sum over its threads.
    own: u64,
    /// Of children that it has waited for, with theirs.
    reaped: u64,
}

impl Times {
    fn read(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The second field is the program's name in brackets and may hold brackets and blanks itself.
    fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(')')?;
        // The state is field 3; utime, stime, cutime and cstime are fields 14 to 17.
        let mut fields = rest.split_ascii_whitespace().skip(11).map(|field| field.parse::<u64>());
        let mut next = || fields.next()?.ok();
        let [user, system, reaped_user, reaped_system] = [next()?, next()?, next()?, next()?];
        Some(Self { own: (user + system) * TICK_NS, reaped: (reaped_user + reaped_system) * TICK_NS })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn fields_are_counted_from_the_last_bracket() {
        let text = "42 (a) S (b) R 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 2";
        assert_eq!(Times::parse(text), Some(Times { own: 110_000_000, reaped: 150_000_000 }));
        assert_eq!(Times::parse("42 (x) R 1 2"), None);
    }

    #[test]
    fn a_grandchild_counts_while_it_runs_and_after_it_ended() {
        let Some((before, _)) = of_tree() else {
            // Other tests of this process start and end children all the time.
            return;
        };
        let spin = "n=0; while [ $n -lt 300000 ]; do n=$((n + 1)); done";
        let mut child = task::Launch::new("sh").args(["-c", &format!("sh -c '{spin}'; sleep 60")]).start().unwrap();
        let had = |least: u64| of_tree().is_some_and(|(now, _)| now.saturating_sub(before) >= least);
        let end = Instant::now() + Duration::from_secs(30);
        while !had(20_000_000) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        let seen = had(20_000_000);
        child.kill().unwrap();
        assert!(seen, "the grandchild's time was not seen");
        let end = Instant::now() + Duration::from_secs(30);
        while !had(20_000_000) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(had(20_000_000), "the time was lost with its process");
    }
}
