//! Whose a lab is, and whether that process still lives.

use host::knob::TaskKey;
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Owner {
    /// Made by hand; stays until it is taken down by hand.
    Persistent,
    /// Lives as long as a process.
    Process {
        pid: u32,
        /// When it started, in clock ticks since boot (field 22 of /proc/PID/stat): ids are used again, this is not.
        start_time: u64,
        /// With it, [`TaskKey::offset_part_ns`].
        #[serde(default)]
        offset_part_ns: u32,
        boot_id: String,
        /// Inode of its PID namespace: the id means nothing in another one.
        pid_namespace: u64,
    },
}

impl Owner {
    pub fn this_process() -> Self {
        let pid = std::process::id();
        let key = key(pid);
        Self::Process {
            pid,
            start_time: key.as_ref().map_or(0, |key| key.started),
            offset_part_ns: key.map_or(0, |key| key.offset_part_ns),
            boot_id: host::boot_id().unwrap_or_default(),
            pid_namespace: pid_namespace(),
        }
    }

    /// The id of the process, where it lives and can be reached from here.
    pub(crate) fn reachable(&self) -> Option<i32> {
        match self {
            Self::Process { pid, pid_namespace: namespace, .. } if *namespace == pid_namespace() && !self.is_gone() => {
                i32::try_from(*pid).ok()
            }
            _ => None,
        }
    }

    /// Whether the lab has no owner any more. A process that cannot be judged (another PID namespace) counts as alive.
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Persistent => false,
            Self::Process { boot_id, .. } if Some(boot_id) != host::boot_id().as_ref() => true,
            Self::Process { pid_namespace: namespace, .. } if *namespace != pid_namespace() => false,
            // A zombie has given up everything but its number.
            Self::Process { pid, start_time, offset_part_ns, .. } => {
                !key(*pid).is_some_and(|key| key.began_as_noted(*start_time, *offset_part_ns))
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

/// A living process, and when it started.
fn key(pid: u32) -> Option<TaskKey> {
    TaskKey::of(i32::try_from(pid).ok()?)
}

fn pid_namespace() -> u64 {
    use std::os::linux::fs::MetadataExt;
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |data| data.st_ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_another_life_of_its_number_does_not() {
        let me = Owner::this_process();
        assert!(!me.is_gone());
        let Owner::Process { pid, start_time, offset_part_ns, boot_id, pid_namespace } = me else { unreachable!() };
        let owner = |start_time: u64, boot_id: &str| Owner::Process {
            pid,
            start_time,
            offset_part_ns,
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
        let (start_time, offset_part_ns) = key(pid).map(|key| (key.started, key.offset_part_ns)).unwrap();
        let boot_id = host::boot_id().unwrap();
        let owner = Owner::Process { pid, start_time, offset_part_ns, boot_id, pid_namespace: pid_namespace() };
        assert!(!owner.is_gone());
        child.kill().unwrap();
        while key(pid).is_some() {
            std::thread::yield_now();
        }
        assert!(owner.is_gone());
        child.wait().unwrap();
        assert!(owner.is_gone());
    }
}
