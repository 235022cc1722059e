//! Processes of Windhover that keep CPUs out of deep sleep by an open /dev/cpu_dma_latency. They are found by their
//! command line, so that an undo needs no memory of them. `prepare` starts them.

use crate::knob::{Machine, TaskKey};
use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The command that holds: `windhover hold --cpu-latency-us N`.
pub const COMMAND: &str = "hold";
pub const FLAG: &str = "--cpu-latency-us";
/// How long a holder may take to end.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub task: TaskKey,
    /// The longest time that waking may take while it lives, in µs.
    pub latency_us: u32,
}

/// All holders: those of root and of the caller. Others cannot open the device.
pub fn find(machine: &Machine) -> Vec<Holder> {
    let ids = machine.numbers("/proc", "").into_iter();
    ids.filter_map(|pid| holder(machine, i32::try_from(pid).ok()?)).collect()
}

fn holder(machine: &Machine, pid: i32) -> Option<Holder> {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let latency_us = parse_command_line(&machine.text(folder.join("cmdline")).ok()?)?;
    let owner = machine.open(&folder, OFlag::O_PATH).and_then(|file| file.metadata()).ok()?.uid();
    let trusted = owner == 0 || owner == geteuid().as_raw();
    Some(Holder { task: TaskKey::of_at(machine, pid)?, latency_us }).filter(|_| trusted)
}

/// The time in a holder's command line, as /proc/PID/cmdline has it; `None` of any other.
pub fn parse_command_line(text: &str) -> Option<u32> {
    let words: Vec<&str> = text.trim_end_matches('\0').split('\0').collect();
    match words.as_slice() {
        [program, COMMAND, FLAG, value] if Path::new(program).file_name().is_some() => value.parse().ok(),
        _ => None,
    }
}

/// The time that all holders together allow, as text: `none` when there is none.
pub fn allowed(machine: &Machine) -> String {
    find(machine).iter().map(|holder| holder.latency_us).min().map_or_else(|| "none".to_owned(), |us| us.to_string())
}

/// Ends a holder and waits until it no longer runs; no error where it had ended.
pub fn end(task: &TaskKey) -> io::Result<()> {
    let machine = Machine::running();
    let deadline = Instant::now() + PATIENCE;
    let mut signal = Signal::SIGTERM;
    // A process that ended and is not waited for yet has no command line any more.
    while holder(&machine, task.tid).is_some_and(|holder| holder.task == *task) {
        match kill(Pid::from_raw(task.tid), signal) {
            Ok(()) | Err(nix::Error::ESRCH) => {}
            Err(errno) => return Err(errno.into()),
        }
        if Instant::now() >= deadline {
            signal = Signal::SIGKILL;
        }
        if Instant::now() >= deadline + PATIENCE {
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("{task} does not end")));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_command_line_is_a_holder() {
        assert_eq!(parse_command_line("/usr/bin/windhover\0hold\0--cpu-latency-us\x003\0"), Some(3));
        for other in [
            "",
            "\0",
            "windhover\0hold\0",
            "vi\0hold\0--cpu-latency-us\0three\0",
            "a\0b\0hold\0--cpu-latency-us\x003\0",
        ] {
            assert_eq!(parse_command_line(other), None, "{other:?}");
        }
    }
}
