//! Whose a lab is, and whether that process still lives.

use std::fmt;
use std::fs;

/// Whose a lab is.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Owner {
    /// Made by hand; stays until somebody takes it down.
    Persistent,
    /// Lives as long as a process.
    Process {
        /// Its id.
        pid: u32,
        /// When it started, in clock ticks since boot (field 22 of /proc/PID/stat): ids are used again, this is not.
        start_time: u64,
        /// The boot it belongs to.
        boot_id: String,
        /// Inode of its PID namespace: the id means nothing in another one.
        pid_namespace: u64,
    },
}

impl Owner {
    /// The calling process.
    #[must_use]
    pub fn this_process() -> Self {
        let pid = std::process::id();
        Self::Process {
            pid,
            start_time: process_stat(pid).map_or(0, |(_, start_time)| start_time),
            boot_id: boot_id(),
            pid_namespace: pid_namespace(),
        }
    }

    /// Whether nobody owns the lab any more. A process that cannot be judged (another PID namespace) counts as alive.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Persistent => false,
            Self::Process { pid, start_time, boot_id: boot, pid_namespace: namespace } => {
                if *boot != boot_id() {
                    return true;
                }
                if *namespace != pid_namespace() {
                    return false;
                }
                match process_stat(*pid) {
                    // A zombie has given up everything but its number.
                    Some((state, started)) => started != *start_time || matches!(state, 'Z' | 'X'),
                    None => true,
                }
            }
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Persistent => f.write_str("made by hand"),
            Self::Process { pid, .. } => write!(f, "of process {pid}"),
        }
    }
}

/// State letter and start time from the text of /proc/PID/stat. The second field is the program's name in brackets and
/// may hold brackets and blanks itself, so fields are counted from the last closing one.
#[must_use]
pub fn parse_stat(text: &str) -> Option<(char, u64)> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // The state is field 3 and the start time field 22.
    let start_time = fields.nth(18)?.parse().ok()?;
    Some((state, start_time))
}

fn process_stat(pid: u32) -> Option<(char, u64)> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

fn pid_namespace() -> u64 {
    use std::os::linux::fs::MetadataExt;
    fs::metadata("/proc/self/ns/pid").map_or(0, |data| data.st_ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_shift_the_fields() {
        let text =
            "42 (a) S (b) R 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 2 18446744073709551615 1 1";
        assert_eq!(parse_stat(text), Some(('R', 987_654)));
        assert_eq!(parse_stat("42 (x) R 1 2"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn this_process_lives_and_another_life_of_its_number_does_not() {
        let me = Owner::this_process();
        assert!(!me.is_gone());
        let Owner::Process { pid, start_time, boot_id, pid_namespace } = me else { unreachable!() };
        let owner = |start_time: u64, boot_id: &str| Owner::Process {
            pid,
            start_time,
            boot_id: boot_id.to_owned(),
            pid_namespace,
        };
        assert!(owner(start_time + 1, &boot_id).is_gone());
        assert!(owner(start_time, "another boot").is_gone());
        assert!(!Owner::Persistent.is_gone());
    }

    #[test]
    fn a_killed_process_is_gone_even_while_it_is_a_zombie() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        let (_, start_time) = process_stat(pid).unwrap();
        let owner = Owner::Process { pid, start_time, boot_id: boot_id(), pid_namespace: pid_namespace() };
        assert!(!owner.is_gone());
        child.kill().unwrap();
        while process_stat(pid).is_some_and(|(state, _)| state != 'Z') {
            std::thread::yield_now();
        }
        assert!(owner.is_gone());
        child.wait().unwrap();
        assert!(owner.is_gone());
    }
}
