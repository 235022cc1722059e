//! The state of this machine as the kernel tells it, and the right to change it.

use crate::support::{alone_on_machine, is_root, windhover};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The CPU that is shielded.
pub(crate) const CPU: &str = "1";

/// This machine, for one test at a time; put back at the end, whatever happens.
pub(crate) struct Machine {
    _lock: fs::File,
    _folder: tempfile::TempDir,
    state: String,
}

impl Machine {
    /// `None` where a shield cannot be tried; says so.
    pub(crate) fn take(test: &str, needs_v1: bool) -> Option<Self> {
        let skip = |why: &str| {
            eprintln!("SKIPPED {test}: {why}");
            None
        };
        if !is_root() {
            return skip("a shield needs root");
        }
        if read("/sys/devices/system/cpu/online") == "0" {
            return skip("there is one CPU only");
        }
        if needs_v1 && !Path::new("/sys/fs/cgroup/cpuset/cpuset.cpus").exists() {
            return skip("no cpusets of version 1 are mounted here");
        }
        let lock = alone_on_machine().unwrap();
        // In memory where there is such a place: what counts here is not how long a disk takes to sync.
        let folder = tempfile::Builder::new().prefix("windhover-shield").tempdir_in("/dev/shm");
        let folder = folder.or_else(|_| tempfile::tempdir()).unwrap();
        let state = folder.path().join("state").display().to_string();
        Some(Self { _lock: lock, _folder: folder, state })
    }

    /// `windhover shield …` with this test's state directory.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = windhover(&["shield"]);
        command.args(arguments).env("WINDHOVER_STATE", &self.state).env_remove("WINDHOVER_KILL_AT");
        command
    }

    pub(crate) fn shield(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Any other windhover command.
    pub(crate) fn windhover(&self, arguments: &[&str]) -> Output {
        windhover(arguments).env("WINDHOVER_STATE", &self.state).output().unwrap()
    }

    /// What `shield -c --json` says.
    pub(crate) fn status(&self) -> serde_json::Value {
        let output = self.shield(&["-c", "--json"]);
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Undo logs that are left.
    pub(crate) fn logs(&self) -> Vec<String> {
        let mut found = Vec::new();
        for folder in fs::read_dir(&self.state).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir()) {
            for file in fs::read_dir(folder.path()).unwrap().flatten() {
                let name = file.file_name().to_string_lossy().into_owned();
                if name.ends_with(".jsonl") {
                    found.push(format!("{name} {}", fs::read_to_string(file.path()).unwrap()));
                }
            }
        }
        found.sort();
        found
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.shield(&["--reset"]);
    }
}

/// Everything that a shield may change: name and value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State(BTreeMap<String, String>);

impl State {
    pub(crate) fn read() -> Self {
        let mut all = BTreeMap::new();
        let files = [
            "/proc/irq/default_smp_affinity",
            "/sys/devices/virtual/workqueue/cpumask",
            "/sys/devices/virtual/workqueue/writeback/cpumask",
            "/proc/sys/kernel/watchdog_cpumask",
            "/proc/sys/kernel/sched_rt_runtime_us",
        ];
        for path in files {
            all.insert(path.to_owned(), read(path));
        }
        for irq in names("/proc/irq") {
            let path = format!("/proc/irq/{irq}/smp_affinity_list");
            all.insert(path.clone(), read(&path));
        }
        cpusets(Path::new("/sys/fs/cgroup/cpuset"), &mut all);
        for task in tasks() {
            // A task that becomes another program, or names itself anew, is the same one.
            all.insert(format!("task {} {}", task.tid, task.started), format!("{} {}", task.cpus, task.cpuset));
        }
        Self(all)
    }

    /// What differs; tasks that came or went meanwhile are none of that.
    pub(crate) fn differences(&self, after: &Self) -> Vec<String> {
        let is_task = |name: &str| name.starts_with("task ");
        let mut lines = Vec::new();
        for (name, before) in &self.0 {
            match after.0.get(name) {
                Some(now) if now == before => {}
                None if is_task(name) => {}
                now => lines.push(format!("{name}: {before} -> {now:?}")),
            }
        }
        lines.extend(after.0.keys().filter(|name| !self.0.contains_key(*name) && !is_task(name)).cloned());
        lines
    }
}

/// Fails with every line that differs, after a moment: what was undone by another process has to arrive.
#[track_caller]
pub(crate) fn assert_restored(before: &State) {
    let until = Instant::now() + Duration::from_secs(60);
    let mut lines = before.differences(&State::read());
    while !lines.is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
        lines = before.differences(&State::read());
    }
    assert!(lines.is_empty(), "not as before:\n{}", lines.join("\n"));
}

fn cpusets(folder: &Path, all: &mut BTreeMap<String, String>) {
    for file in ["cpuset.cpus", "cpuset.mems", "cpuset.sched_load_balance", "cpuset.cpu_exclusive"] {
        let path = folder.join(file);
        if path.exists() {
            all.insert(path.display().to_string(), read(&path));
        }
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            cpusets(&entry.path(), all);
        }
    }
}

/// A thread of this machine.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) tid: u32,
    pub(crate) name: String,
    pub(crate) started: String,
    /// A thread of the kernel that nobody can move: it belongs to its CPU.
    pub(crate) bound: bool,
    pub(crate) kernel: bool,
    pub(crate) cpus: String,
    pub(crate) cpuset: String,
}

impl Task {
    pub(crate) fn may_run_on(&self, cpu: u32) -> bool {
        self.cpus.split(',').any(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            first.parse::<u32>().is_ok_and(|first| first <= cpu) && last.parse::<u32>().is_ok_and(|last| cpu <= last)
        })
    }
}

pub(crate) fn tasks() -> Vec<Task> {
    let mut found = Vec::new();
    for process in names("/proc") {
        for tid in names(&format!("/proc/{process}/task")) {
            found.extend(task(process, tid));
        }
    }
    found
}

fn task(process: u32, tid: u32) -> Option<Task> {
    let folder = format!("/proc/{process}/task/{tid}");
    let stat = fs::read_to_string(format!("{folder}/stat")).ok()?;
    let status = fs::read_to_string(format!("{folder}/status")).ok()?;
    let groups = fs::read_to_string(format!("{folder}/cgroup")).ok()?;
    let (head, tail) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = tail.split(' ').collect();
    let flags: u64 = fields.get(6)?.parse().ok()?;
    let line = |key: &str| status.lines().find_map(|line| Some(line.strip_prefix(key)?.trim().to_owned()));
    let state = *fields.first()?;
    (!["Z", "X"].contains(&state)).then_some(())?;
    Some(Task {
        tid,
        name: head.split_once('(')?.1.to_owned(),
        started: (*fields.get(19)?).to_owned(),
        bound: flags & 0x0400_0000 != 0,
        kernel: flags & 0x0020_0000 != 0,
        cpus: line("Cpus_allowed_list:")?,
        cpuset: groups.lines().find_map(|line| Some(line.split_once(":cpuset:")?.1.to_owned())).unwrap_or_default(),
    })
}

pub(crate) fn cpus_of(tid: u32) -> String {
    let status = read(format!("/proc/{tid}/status"));
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.map_or_else(|| "gone".to_owned(), |cpus| cpus.trim().to_owned())
}

/// A file's content, or the error in angle brackets.
pub(crate) fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).map_or_else(|error| format!("<{}>", error.kind()), |text| text.trim().to_owned())
}

/// Names in a folder that are numbers.
pub(crate) fn names(folder: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A setting of the kernel, put back when dropped.
pub(crate) struct Kept {
    path: &'static str,
    value: String,
}

impl Kept {
    /// `None` where this kernel does not have it.
    pub(crate) fn set(path: &'static str, value: &str) -> Option<Self> {
        let kept = Self { path, value: fs::read_to_string(path).ok()? };
        fs::write(path, value).unwrap();
        Some(kept)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        fs::write(self.path, &self.value).unwrap();
    }
}

/// A process that sleeps, ended with the test.
pub(crate) struct Sleeper(pub(crate) Child);

impl Sleeper {
    pub(crate) fn start(cpus: Option<&str>) -> Self {
        let mut command = match cpus {
            Some(cpus) => {
                let mut command = Command::new("taskset");
                command.args(["-c", cpus, "sleep"]);
                command
            }
            None => Command::new("sleep"),
        };
        let sleeper = Self(command.arg("300").stdin(Stdio::null()).spawn().unwrap());
        wait_for("sleep", || read(format!("/proc/{}/comm", sleeper.id())) == "sleep");
        sleeper
    }

    /// One that never sleeps instead.
    pub(crate) fn spinning() -> Self {
        Self(Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap())
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn cpus(&self) -> String {
        cpus_of(self.id())
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[track_caller]
pub(crate) fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < until, "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}
