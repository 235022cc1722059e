//! Control groups as directories: making one, and removing one although tasks are in it and fork meanwhile.

use super::{Machine, member};
use nix::sys::stat::Mode;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

pub(super) const PRESENT: &str = "present";
pub(super) const ABSENT: &str = "absent";
/// How long tasks are moved out again and again.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two rounds, after the first few.
const PAUSE: Duration = Duration::from_millis(5);

/// Version 2 has this file in every group.
const CONTROLLERS: &str = "cgroup.controllers";

pub(super) fn read(machine: &Machine, path: &Path) -> &'static str {
    if machine.is_directory(path) { PRESENT } else { ABSENT }
}

pub(super) fn write(machine: &Machine, path: &Path, value: &str) -> io::Result<()> {
    if machine.is_running() && !is_of_groups(path)? {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is no control group, so it is not touched"));
    }
    match value {
        PRESENT => make(machine, path),
        ABSENT => remove(machine, path),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "a group is 'present' or 'absent'")),
    }
}

/// Whether the directory that a group is in is one of a control group hierarchy.
fn is_of_groups(path: &Path) -> io::Result<bool> {
    use nix::sys::statfs::{CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC};
    let parent = path.parent().filter(|_| path.is_absolute()).unwrap_or(Path::new("/"));
    match nix::sys::statfs::statfs(parent) {
        Ok(found) => Ok([CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC].contains(&found.filesystem_type())),
        // It went with the group above it.
        Err(nix::errno::Errno::ENOENT) => Ok(true),
        Err(errno) => Err(errno.into()),
    }
}

pub(super) fn is_v2(machine: &Machine, path: &Path) -> bool {
    machine.exists(path.join(CONTROLLERS))
}

/// The content of `cgroup.type` (version 2; the root group has no such file and is a domain).
pub(super) fn kind(machine: &Machine, path: &Path) -> String {
    machine.text(path.join("cgroup.type")).map_or_else(|_| "domain".to_owned(), |text| text.trim().to_owned())
}

fn make(machine: &Machine, path: &Path) -> io::Result<()> {
    match nix::unistd::mkdir(&machine.path(path), Mode::from_bits_truncate(0o755)) {
        Ok(()) if machine.is_running() => Ok(()),
        Ok(()) => furnish(machine, path),
        Err(nix::errno::Errno::EEXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Moves all members to the parent and removes the directory, repeatedly: members may fork between the two.
fn remove(machine: &Machine, path: &Path) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let mut round = 0_u32;
    loop {
        let moved = empty(machine, path);
        if !machine.is_running() {
            member::pretend_removal(machine, path)?;
            strip(machine, path)?;
        }
        match std::fs::remove_dir(machine.path(path)) {
            Ok(()) => return Ok(()),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(cause) if cause.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline => {}
            // Why a member stays is a better reason than that the group is busy.
            Err(cause) => return Err(moved.err().unwrap_or(cause)),
        }
        round += 1;
        // Forking tasks are outrun only without a pause; what takes longer (a task that ends) needs one.
        if round > 10 {
            std::thread::sleep(PAUSE);
        }
    }
}

/// Moves every member to the parent. Members that have ended meanwhile are no error.
fn empty(machine: &Machine, path: &Path) -> io::Result<()> {
    let Some(parent) = path.parent() else { return Ok(()) };
    let file = if !is_v2(machine, path) {
        "tasks"
    } else if kind(machine, path) == "threaded" {
        "cgroup.threads"
    } else {
        "cgroup.procs"
    };
    let Ok(members) = machine.text(path.join(file)) else { return Ok(()) };
    let mut failed = None;
    for id in members.split_ascii_whitespace().filter(|id| *id != "0") {
        match machine.put(parent.join(file), id) {
            Err(cause) if cause.raw_os_error() != Some(libc::ESRCH) => failed = Some(cause),
            _ => {}
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Files of a new group in a tree that is not the running system, with the content that the kernel gives them.
const FURNITURE: [(&str, &str); 10] = [
    ("cgroup.controllers", "cpuset cpu memory"),
    ("cgroup.subtree_control", ""),
    ("cgroup.type", "domain"),
    ("cgroup.procs", ""),
    ("cgroup.threads", ""),
    ("cpuset.cpus", ""),
    ("cpuset.cpus.exclusive", ""),
    ("cpuset.cpus.partition", "member"),
    ("cpuset.mems", ""),
    ("cpuset.cpus.effective", ""),
];
const FURNITURE_V1: [(&str, &str); 9] = [
    ("tasks", ""),
    ("cgroup.procs", ""),
    ("cpuset.cpus", ""),
    ("cpuset.mems", ""),
    ("cpuset.cpu_exclusive", "0"),
    ("cpuset.mem_exclusive", "0"),
    ("cpuset.sched_load_balance", "1"),
    ("cpuset.memory_migrate", "0"),
    ("cgroup.clone_children", "0"),
];

fn furnish(machine: &Machine, path: &Path) -> io::Result<()> {
    let v2 = path.parent().is_some_and(|parent| is_v2(machine, parent));
    for (name, content) in if v2 { &FURNITURE[..] } else { &FURNITURE_V1[..] } {
        std::fs::write(machine.path(path).join(name), format!("{content}\n"))?;
    }
    Ok(())
}

/// Removes the files of a group in a tree that is not the running system: there they are not part of the directory.
fn strip(machine: &Machine, path: &Path) -> io::Result<()> {
    for name in machine.names(path).unwrap_or_default() {
        let file = machine.path(path).join(name);
        if file.is_file() {
            std::fs::remove_file(file)?;
        }
    }
    Ok(())
}
