//! All knobs of the running system: files and devices through `host`, tasks and services through `task`.

use host::knob::{Knob, KnobError, Machine, Settings, TaskKey};
use model::{CpuList, Policy};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use task::TaskError;

const SERVICE_TIME: Duration = Duration::from_secs(30);

/// The running system, or a tree of files for tests.
#[derive(Debug, Clone)]
pub struct Kernel {
    machine: Machine,
    /// Another program in the place of systemctl(1), for tests.
    pub systemctl: Option<PathBuf>,
    /// A folder with tools of boot loaders that are used instead of those in PATH, for tests.
    pub tools: Option<PathBuf>,
    /// Another program than this process's own for what has to live on (`windhover hold`), for tests.
    pub windhover: Option<PathBuf>,
}

impl Kernel {
    pub fn running() -> Self {
        Self::at(Machine::running())
    }

    /// Knobs below a root. Below another than `/`, tasks are those of its /proc; services need [`field@Self::systemctl`].
    pub fn at(machine: Machine) -> Self {
        Self { machine, systemctl: None, tools: None, windhover: None }
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Whether the calling thread has a capability (capabilities(7)).
    pub(crate) fn may(&self, capability: u32) -> bool {
        let status = self.machine.text("/proc/thread-self/status").unwrap_or_default();
        host::tasks::parse_capabilities(&status).is_some_and(|mask| mask >> capability & 1 == 1)
    }

    /// Whether opening a file for writing is refused. Opening alone changes nothing: no setting is a regular file.
    pub(crate) fn denies(&self, path: &Path) -> bool {
        let opened = std::fs::OpenOptions::new().write(true).open(self.machine.path(path));
        opened.is_err_and(|cause| cause.kind() == io::ErrorKind::PermissionDenied)
    }

    fn require(&self, knob: &Knob, task: &TaskKey) -> Result<(), KnobError> {
        // Its number may have been given to another.
        if task.lives(&self.machine) { Ok(()) } else { Err(KnobError::absent(knob)) }
    }

    fn read_affinity(&self, knob: &Knob, task: &TaskKey) -> Result<String, KnobError> {
        self.require(knob, task)?;
        if self.machine.is_running() {
            return task::allowed_cpus_of(task.tid).map(|cpus| cpus.to_string()).map_err(|error| reading(knob, error));
        }
        let status = self.machine.text(format!("/proc/{}/status", task.tid));
        let status = status.map_err(|cause| KnobError::reading(knob, cause))?;
        host::tasks::parse_allowed(&status).map(|cpus| cpus.to_string()).ok_or_else(|| KnobError::absent(knob))
    }

    fn write_affinity(&self, knob: &Knob, task: &TaskKey, value: &str) -> Result<(), KnobError> {
        let cpus: CpuList = value.parse().map_err(|error| invalid(knob, value, error))?;
        self.require(knob, task)?;
        if self.machine.is_running() {
            return task::set_affinity_of(task.tid, &cpus).map_err(|error| writing(knob, value, error));
        }
        let failed = |cause| KnobError::writing(knob, value, cause);
        let file = format!("/proc/{}/status", task.tid);
        let status = self.machine.text(&file).map_err(failed)?;
        let line = |line: &str| match line.starts_with("Cpus_allowed_list:") {
            true => format!("Cpus_allowed_list:\t{cpus}"),
            false => line.to_owned(),
        };
        let status: Vec<String> = status.lines().map(line).collect();
        self.machine.put(&file, &status.join("\n")).map_err(failed)
    }

    fn write_policy(&self, knob: &Knob, task: &TaskKey, value: &str) -> Result<(), KnobError> {
        let policy: Policy = value.parse().map_err(|error| invalid(knob, value, error))?;
        self.require_running(knob)?;
        self.require(knob, task)?;
        task::set_policy_of(task.tid, policy).map_err(|error| writing(knob, value, error))
    }

    fn require_running(&self, knob: &Knob) -> Result<(), KnobError> {
        if self.machine.is_running() {
            Ok(())
        } else {
            Err(KnobError::unsupported(knob, "it is known of the running system only"))
        }
    }

    /// The program to ask, where a systemd runs (sd_booted(3)).
    fn systemctl(&self, knob: &Knob, unit: &str) -> Result<PathBuf, KnobError> {
        if unit.is_empty() || unit.starts_with('-') {
            return Err(KnobError::unsupported(knob, "that is no name of a unit"));
        }
        if !self.machine.is_directory("/run/systemd/system") {
            return Err(KnobError::absent(knob));
        }
        if let Some(program) = &self.systemctl {
            return Ok(program.clone());
        }
        if !self.machine.is_running() {
            return Err(KnobError::absent(knob));
        }
        self.program("systemctl").ok_or_else(|| KnobError::absent(knob))
    }

    /// A program by its name. Tools of boot loaders are often in folders that PATH leaves out.
    pub(crate) fn program(&self, name: &str) -> Option<PathBuf> {
        if let Some(folder) = &self.tools {
            return Some(folder.join(name)).filter(|program| program.is_file());
        }
        let places = std::env::var_os("PATH").unwrap_or_default();
        let usual = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
        let found = std::env::split_paths(&places).chain(usual).map(|place| place.join(name));
        found.into_iter().find(|program| program.is_absolute() && program.is_file())
    }

    fn write_latency(&self, knob: &Knob, value: &str) -> Result<(), KnobError> {
        self.require_running(knob)?;
        let program = match &self.windhover {
            Some(program) => program.clone(),
            None => std::env::current_exe().map_err(|cause| KnobError::unwritten(knob, value, cause))?,
        };
        crate::tune::hold::write(&program, value)
    }

    fn read_service(&self, knob: &Knob, unit: &str) -> Result<String, KnobError> {
        let asked = task::Launch::new(self.systemctl(knob, unit)?).args(["is-active", unit]).finish(b"", SERVICE_TIME);
        let answer = asked.map_err(|error| reading(knob, error))?;
        let word = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
        match (word.as_str(), answer.status.code()) {
            ("active" | "activating" | "reloading" | "refreshing", _) => Ok("active".to_owned()),
            // 4: there is no such unit (systemctl(1), "Exit status").
            ("" | "unknown", _) | (_, Some(4)) => Err(KnobError::absent(knob)),
            _ => Ok("inactive".to_owned()),
        }
    }

    fn write_service(&self, knob: &Knob, unit: &str, value: &str) -> Result<(), KnobError> {
        let verb = match value {
            "active" => "start",
            "inactive" => "stop",
            _ => return Err(invalid(knob, value, "a service is 'active' or 'inactive'")),
        };
        let done = task::Launch::new(self.systemctl(knob, unit)?).args([verb, unit]).finish(b"", SERVICE_TIME);
        let answer = done.map_err(|error| writing(knob, value, error))?;
        if answer.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&answer.stderr);
        let words = words.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no reason given");
        Err(KnobError::writing(knob, value, io::Error::other(format!("systemctl {verb}: {words}"))))
    }
}

impl Settings for Kernel {
    fn read(&self, knob: &Knob) -> Result<String, KnobError> {
        match knob {
            Knob::Affinity { task } => self.read_affinity(knob, task),
            Knob::Service { unit } => self.read_service(knob, unit),
            _ => self.machine.read(knob),
        }
    }

    fn write(&self, knob: &Knob, value: &str) -> Result<(), KnobError> {
        match knob {
            Knob::Affinity { task } => self.write_affinity(knob, task, value),
            Knob::Policy { task } => self.write_policy(knob, task, value),
            Knob::Service { unit } => self.write_service(knob, unit, value),
            Knob::CpuLatency => self.write_latency(knob, value),
            _ => self.machine.write(knob, value),
        }
    }

    fn suspects(&self, knob: &Knob) -> Option<String> {
        self.machine.suspects(knob)
    }
}

/// A task that has ended is absent. All else fails: where a program or its interpreter is missing, the setting is there.
fn reading(knob: &Knob, error: TaskError) -> KnobError {
    match error.into_cause() {
        cause if cause.raw_os_error() == Some(ESRCH) => KnobError::absent(knob),
        cause => KnobError::Read { knob: Box::new(knob.clone()), cause },
    }
}

fn writing(knob: &Knob, value: &str, error: TaskError) -> KnobError {
    match error.into_cause() {
        cause if cause.raw_os_error() == Some(ESRCH) => KnobError::absent(knob),
        cause => KnobError::unwritten(knob, value, cause),
    }
}

fn invalid(knob: &Knob, value: &str, why: impl std::fmt::Display) -> KnobError {
    KnobError::writing(knob, value, io::Error::new(io::ErrorKind::InvalidInput, why.to_string()))
}

/// "No such process" (errno(3)); the same on all architectures.
const ESRCH: i32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpus_of_another_thread() {
        let (told, tid) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            told.send(task::thread_id()).unwrap();
            let _ = ended.recv();
        });
        let key = TaskKey::of(tid.recv().unwrap()).unwrap();
        let kernel = Kernel::running();
        let knob = Knob::Affinity { task: key.clone() };
        let before = kernel.read(&knob).unwrap();
        let first = before.parse::<CpuList>().unwrap().iter().next().unwrap().to_string();
        kernel.write(&knob, &first).unwrap();
        assert_eq!(kernel.read(&knob).unwrap(), first);
        kernel.write(&knob, &before).unwrap();

        // The same number with another start is another task: it is never touched.
        let other = Knob::Affinity { task: TaskKey { started: key.started + 2, ..key } };
        assert!(matches!(kernel.write(&other, &first), Err(KnobError::Absent { .. })));
        assert_eq!(kernel.read(&knob).unwrap(), before);
        drop(end);
        thread.join().unwrap();
        assert!(matches!(kernel.read(&knob), Err(KnobError::Absent { .. })));
    }

    #[test]
    fn services_by_a_stand_in() {
        let tree = tempfile::tempdir().unwrap();
        let state = tree.path().join("state");
        let program = tree.path().join("systemctl");
        let script = format!(
            "#!/bin/sh\nS={}\ncase \"$1 $2\" in\n'is-active x.service') cat $S; test $(cat $S) = active;;\n'stop x.service') \
             echo inactive > $S;;\n'start x.service') echo active > $S;;\n*) echo inactive; exit 4;;\nesac\n",
            state.display()
        );
        let text = program.with_extension("text");
        std::fs::write(&text, script).unwrap();
        // By another program: a child that another test forks now has our descriptor until it becomes its program, and what is
        // open for writing cannot be run (ETXTBSY).
        let made = std::process::Command::new("install").args(["-m", "755"]).args([&text, &program]).status().unwrap();
        assert!(made.success());
        std::fs::write(&state, "active\n").unwrap();
        let kernel = Kernel { systemctl: Some(program.clone()), ..Kernel::at(Machine::at(tree.path())) };
        let knob = Knob::Service { unit: "x.service".to_owned() };
        assert!(matches!(kernel.read(&knob), Err(KnobError::Absent { .. })), "no systemd runs in the tree");
        std::fs::create_dir_all(tree.path().join("run/systemd/system")).unwrap();
        assert_eq!(kernel.read(&knob).unwrap(), "active");
        kernel.write(&knob, "inactive").unwrap();
        assert_eq!(kernel.read(&knob).unwrap(), "inactive");
        kernel.write(&knob, "active").unwrap();
        assert_eq!(kernel.read(&knob).unwrap(), "active");
        let none = Knob::Service { unit: "none.service".to_owned() };
        assert!(matches!(kernel.read(&none), Err(KnobError::Absent { .. })));

        // A systemctl that cannot be started is not the service's state: an undo must not take it as put back.
        std::fs::write(&program, "#!/missing/interpreter\n").unwrap();
        let read = kernel.read(&knob);
        assert!(matches!(read, Err(KnobError::Read { .. })), "{read:?}");
        let written = kernel.write(&knob, "active");
        assert!(matches!(written, Err(KnobError::Write { .. })), "{written:?}");
    }
}
