//! The control group of a task: read from /proc, written by moving the task.

use super::{Knob, KnobError, Machine, TaskKey, group};
use crate::tasks::{self, GroupLine};
use std::io;
use std::path::{Path, PathBuf};

/// The directory of the group that a task is in.
pub(super) fn read(machine: &Machine, knob: &Knob, hierarchy: &Path, task: &TaskKey) -> Result<String, KnobError> {
    if !task.lives(machine) {
        return Err(KnobError::absent(knob));
    }
    let text = machine.text(format!("/proc/{}/cgroup", task.tid)).map_err(|cause| gone_or(knob, cause))?;
    let names = controllers(machine, hierarchy);
    match tasks::parse_cgroup(&text).iter().find(|line| is_of(line, names.as_deref())) {
        Some(line) if line.path.starts_with("/..") => {
            Err(KnobError::unsupported(knob, "its control group lies outside this control group namespace"))
        }
        Some(line) => Ok(directory(hierarchy, &line.path).display().to_string()),
        None => Err(KnobError::absent(knob)),
    }
}

/// Moves a task. In version 2 a thread moves alone within one threaded subtree, else its whole process.
pub(super) fn write(
    machine: &Machine,
    knob: &Knob,
    hierarchy: &Path,
    task: &TaskKey,
    value: &str,
) -> Result<(), KnobError> {
    let target = Path::new(value);
    if !target.starts_with(hierarchy) || target.components().any(|part| part == std::path::Component::ParentDir) {
        return Err(KnobError::unsupported(knob, format!("{value} is no group below {}", hierarchy.display())));
    }
    let now = read(machine, knob, hierarchy, task)?;
    let file = if !group::is_v2(machine, hierarchy) {
        "tasks"
    } else if goes_alone(machine, Path::new(&now), target) {
        "cgroup.threads"
    } else {
        "cgroup.procs"
    };
    // The look at the task comes right before the write: its number may have been given to another meanwhile.
    if !task.lives(machine) {
        return Err(KnobError::absent(knob));
    }
    let id = task.tid.to_string();
    let moved = match machine.put(target.join(file), &id) {
        // A domain that the thread's subtree does not belong to takes whole processes only.
        Err(cause) if file == "cgroup.threads" && cause.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            match group::kind(machine, target).as_str() {
                "threaded" => Err(cause),
                _ => machine.put(target.join("cgroup.procs"), &id),
            }
        }
        moved => moved,
    };
    match moved {
        Ok(()) if machine.is_running() => Ok(()),
        Ok(()) => pretend(machine, hierarchy, task, target).map_err(|cause| KnobError::unwritten(knob, value, cause)),
        Err(cause) if cause.raw_os_error() == Some(libc::ESRCH) => Err(KnobError::absent(knob)),
        // A removed group is not an ended task.
        Err(cause) => Err(KnobError::unwritten(knob, value, cause)),
    }
}

fn gone_or(knob: &Knob, cause: io::Error) -> KnobError {
    match cause.raw_os_error() {
        Some(libc::ESRCH) => KnobError::absent(knob),
        _ => KnobError::reading(knob, cause),
    }
}

/// Whether a thread moves alone (cgroup-v2.rst, "Threads"): into a threaded group, or from one up to its domain.
fn goes_alone(machine: &Machine, now: &Path, target: &Path) -> bool {
    group::kind(machine, target) == "threaded"
        || (now != target && now.starts_with(target) && group::kind(machine, now) == "threaded")
}

/// The directory of a group's path as /proc/PID/cgroup has it.
fn directory(hierarchy: &Path, path: &str) -> PathBuf {
    match path.trim_start_matches('/') {
        "" => hierarchy.to_owned(),
        below => hierarchy.join(below),
    }
}

/// Whether a line is that of the hierarchy with these controllers; `None` for version 2.
fn is_of(line: &GroupLine, names: Option<&[String]>) -> bool {
    match names {
        None => line.hierarchy == 0,
        Some(names) => line.hierarchy != 0 && line.controllers.iter().any(|name| names.contains(name)),
    }
}

/// The controllers of a hierarchy by its mount; `None` for version 2.
fn controllers(machine: &Machine, hierarchy: &Path) -> Option<Vec<String>> {
    if group::is_v2(machine, hierarchy) {
        return None;
    }
    let mounts = machine.text("/proc/self/mounts").or_else(|_| machine.text("/proc/mounts")).unwrap_or_default();
    let by_mount = tasks::parse_mounts(&mounts)
        .into_iter()
        .rfind(|mount| mount.path == hierarchy && mount.kind == "cgroup")
        .map(|mount| mount.options);
    // Without a mount table the usual name has to do: /sys/fs/cgroup/cpu,cpuacct.
    Some(by_mount.unwrap_or_else(|| {
        let name = hierarchy.file_name().unwrap_or_default().to_string_lossy();
        name.split(',').map(str::to_owned).collect()
    }))
}

/// In a tree that is not the running system, notes the move where [`read`] will look.
fn pretend(machine: &Machine, hierarchy: &Path, task: &TaskKey, target: &Path) -> io::Result<()> {
    let file = format!("/proc/{}/cgroup", task.tid);
    let below = target.strip_prefix(hierarchy).unwrap_or(target).display().to_string();
    let names = controllers(machine, hierarchy);
    let moved = move_lines(&machine.text(&file)?, |line| is_of(line, names.as_deref()).then(|| format!("/{below}")));
    machine.put(&file, &moved)
}

/// The text of /proc/PID/cgroup with other groups in the lines that `moved` gives one for.
fn move_lines(text: &str, moved: impl Fn(&GroupLine) -> Option<String>) -> String {
    let lines = text.lines().map(|line| {
        let group = tasks::parse_cgroup(line).first().and_then(&moved);
        match (group, line.match_indices(':').nth(1)) {
            (Some(group), Some((colon, _))) => format!("{}:{group}", &line[..colon]),
            _ => line.to_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// In a tree that is not the running system, gives the members of a group that goes to its parent.
pub(super) fn pretend_removal(machine: &Machine, group: &Path) -> io::Result<()> {
    let v2 = group::is_v2(machine, group);
    for id in machine.names("/proc").unwrap_or_default() {
        let file = format!("/proc/{id}/cgroup");
        let Ok(text) = machine.text(&file) else { continue };
        let moved = move_lines(&text, |line| {
            let below = line.path.trim_start_matches('/');
            let is_in = (line.hierarchy == 0) == v2 && !below.is_empty() && group.ends_with(below);
            is_in.then(|| Path::new(&line.path).parent().unwrap_or(Path::new("/")).display().to_string())
        });
        if moved.trim() != text.trim() {
            machine.put(&file, &moved)?;
        }
    }
    Ok(())
}
