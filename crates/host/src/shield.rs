//! The shield that is up on this machine, and how a thread gets behind it.
//!
//! `prepare` writes `shield.json` into the boot's state folder; a thread calls [`enter`] before it pins itself to a
//! shielded CPU, because the kernel refuses CPUs outside a task's cpuset. Undoing the change set removes the file.

use crate::private;
use crate::undo::{SetId, StateDir, UndoError};
use model::CpuList;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ShieldState {
    pub format: u32,
    pub set: SetId,
    pub spec: model::ShieldSpec,
    pub backend: model::ShieldBackend,
    /// Directory of the control group whose tasks may use the shielded CPUs; absent with plain affinity.
    #[serde(default)]
    pub group: Option<PathBuf>,
    /// Whether single threads may enter it (its `tasks` or `cgroup.threads` takes thread ids).
    #[serde(default)]
    pub by_thread: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot enter the shield of CPU {cpus}: {path}: {cause}")]
pub struct EnterError {
    pub cpus: CpuList,
    pub path: PathBuf,
    pub cause: io::Error,
}

/// The shield of this boot, if one is up.
pub fn current(state: &StateDir) -> Option<ShieldState> {
    let file = file(state).ok()?;
    for folder in [state.path(), file.parent()?] {
        private::check(folder).ok()?;
    }
    parse(&private::read(&file).ok()?)
}

pub fn parse(text: &[u8]) -> Option<ShieldState> {
    serde_json::from_slice(text).ok().filter(|shield: &ShieldState| shield.format == 1)
}

pub fn announce(state: &StateDir, shield: &ShieldState) -> Result<(), UndoError> {
    let path = file(state)?;
    let text = serde_json::to_vec_pretty(shield).map_err(io::Error::from);
    text.and_then(|text| private::replace(&path, &text)).map_err(UndoError::log(&path, "write"))
}

/// Removes the announcement of a change set's shield; another set's stays.
pub fn forget(state: &StateDir, set: &SetId) -> Result<(), UndoError> {
    if current(state).is_none_or(|shield| shield.set != *set) {
        return Ok(());
    }
    let path = file(state)?;
    match std::fs::remove_file(&path) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(UndoError::log(&path, "remove")(cause)),
        _ => Ok(()),
    }
}

fn file(state: &StateDir) -> Result<PathBuf, UndoError> {
    Ok(state.folder()?.join("shield.json"))
}

/// Lets the calling thread run on `cpus` when all of them are behind a shield with a control group; else does nothing. What
/// the thread starts afterwards is behind the shield too: start helpers before. In version 2 the process first joins the
/// shield's domain, whose counts and limits replace those of its old group.
pub fn enter(cpus: &CpuList) -> Result<(), EnterError> {
    enter_of(&StateDir::usual(), cpus)
}

/// The same with another state directory than the usual one.
pub fn enter_of(state: &StateDir, cpus: &CpuList) -> Result<(), EnterError> {
    let Some(shield) = current(state) else { return Ok(()) };
    let Some(group) = shield.group.as_deref() else { return Ok(()) };
    let all = !cpus.is_empty() && cpus.iter().all(|cpu| shield.spec.processes.contains(cpu));
    if !all || !group.is_dir() {
        return Ok(());
    }
    join(group, shield.by_thread).map_err(|(path, cause)| EnterError { cpus: cpus.clone(), path, cause })
}

/// Moves the calling thread (or its process, where single threads cannot go) into a group.
fn join(group: &Path, by_thread: bool) -> Result<(), (PathBuf, io::Error)> {
    let v1 = group.join("tasks");
    if v1.exists() {
        return put(v1);
    }
    if !by_thread {
        return put(group.join("cgroup.procs"));
    }
    match put(group.join("cgroup.threads")) {
        // A thread goes alone only within its threaded subtree: first the process has to come into it.
        Err((path, cause)) if cause.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            let Some(domain) = group.parent() else { return Err((path, cause)) };
            put(domain.join("cgroup.procs"))?;
            put(path)
        }
        result => result,
    }
}

/// Writes 0, which is the calling thread, to a file of a group.
fn put(path: PathBuf) -> Result<(), (PathBuf, io::Error)> {
    let written = OpenOptions::new().write(true).open(&path).and_then(|mut file| file.write_all(b"0\n"));
    written.map_err(|cause| (path, cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_wants_shielded_cpus_enters() {
        let tree = tempfile::tempdir().unwrap();
        let state = StateDir::at(tree.path().join("state"));
        let group = tree.path().join("group");
        let cpus = |text: &str| text.parse::<CpuList>().unwrap();
        enter_of(&state, &cpus("1")).unwrap();
        std::fs::create_dir_all(&group).unwrap();
        std::fs::create_dir_all(state.folder().unwrap()).unwrap();
        let tasks = group.join("tasks");
        std::fs::write(&tasks, "").unwrap();
        let shield = ShieldState {
            format: 1,
            set: SetId("0001".to_owned()),
            spec: model::ShieldSpec { processes: cpus("1-2"), ..Default::default() },
            backend: model::ShieldBackend::V1,
            group: Some(group),
            by_thread: true,
        };
        announce(&state, &shield).unwrap();
        assert_eq!(current(&state).as_ref(), Some(&shield));
        for others in ["", "0", "0-1", "2-3"] {
            enter_of(&state, &cpus(others)).unwrap();
            assert_eq!(std::fs::read_to_string(&tasks).unwrap(), "", "{others}");
        }
        enter_of(&state, &cpus("2")).unwrap();
        assert_eq!(std::fs::read_to_string(&tasks).unwrap(), "0\n");

        forget(&state, &SetId("0002".to_owned())).unwrap();
        assert!(current(&state).is_some(), "another set's shield stays");
        forget(&state, &shield.set).unwrap();
        assert!(current(&state).is_none());
    }

    #[test]
    fn a_group_that_refuses_is_named() {
        let tree = tempfile::tempdir().unwrap();
        let state = StateDir::at(tree.path());
        std::fs::create_dir_all(state.folder().unwrap()).unwrap();
        let shield = ShieldState {
            format: 1,
            set: SetId("0001".to_owned()),
            spec: model::ShieldSpec { processes: [1].into_iter().collect(), ..Default::default() },
            backend: model::ShieldBackend::V2,
            group: Some(tree.path().to_owned()),
            by_thread: false,
        };
        announce(&state, &shield).unwrap();
        let error = enter_of(&state, &[1].into_iter().collect()).unwrap_err();
        assert!(error.path.ends_with("cgroup.procs"), "{error}");
    }
}
