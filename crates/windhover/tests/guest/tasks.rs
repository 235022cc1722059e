//! Tasks that tests put on CPUs, and what becomes of them.

use super::state::{CGROUP, State, read};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A process of the test, ended with it.
pub(crate) struct Task(Child);

impl Task {
    /// A process that sleeps and may run on these CPUs, or on all that its starter may.
    pub(crate) fn sleeping(cpus: Option<&str>) -> Self {
        Self::of(cpus, "while :; do sleep 1; done")
    }

    /// A process that never lets go of these CPUs.
    pub(crate) fn spinning(cpus: &str) -> Self {
        Self::of(Some(cpus), "while :; do :; done")
    }

    fn of(cpus: Option<&str>, script: &str) -> Self {
        let mut command = match cpus {
            Some(cpus) => {
                let mut command = Command::new("taskset");
                command.args(["-c", cpus, "sh"]);
                command
            }
            None => Command::new("sh"),
        };
        let task = Self(command.args(["-c", script]).stdin(Stdio::null()).spawn().unwrap());
        // Until taskset has become the shell.
        wait_for("the shell", || read(format!("/proc/{}/comm", task.id())) == "sh");
        task
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// CPUs that it may run on now.
    pub(crate) fn cpus(&self) -> String {
        cpus_of(self.id())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A partition made by hand; removed with all that it did when it goes.
pub(crate) struct Partition {
    path: PathBuf,
    /// Interrupt threads and the CPUs that they had: the kernel widens them.
    pub(crate) narrowed: Vec<(u32, String)>,
}

impl Partition {
    /// Fails where the kernel does not take it.
    pub(crate) fn new(name: &str, cpus: &str) -> Self {
        let (partition, said) = Self::attempt(name, cpus);
        assert_eq!(said, "isolated");
        partition
    }

    /// Also tells what its file says.
    pub(crate) fn attempt(name: &str, cpus: &str) -> (Self, String) {
        let partition = Self { path: Path::new(CGROUP).join(name), narrowed: State::read().tasks("irq/") };
        fs::write(Path::new(CGROUP).join("cgroup.subtree_control"), "+cpuset").unwrap();
        fs::create_dir(&partition.path).unwrap();
        fs::write(partition.path.join("cpuset.cpus"), cpus).unwrap();
        fs::write(partition.path.join("cpuset.cpus.partition"), "isolated").unwrap();
        let said = read(partition.path.join("cpuset.cpus.partition"));
        (partition, said)
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.path);
        let _ = fs::write(Path::new(CGROUP).join("cgroup.subtree_control"), "-cpuset");
        narrow(&self.narrowed);
    }
}

/// Gives threads their CPUs.
pub(crate) fn narrow(threads: &[(u32, String)]) {
    for (tid, cpus) in threads {
        let _ = Command::new("taskset").args(["-pc", cpus, &tid.to_string()]).output();
    }
}

/// Takes down what a failed test left, so that the next one starts from a clean machine.
pub(crate) struct Reset;

impl Drop for Reset {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for arguments in [&["undo", "--yes", "--force"][..], &["shield", "--reset", "--force"]] {
                let _ = super::support::windhover(arguments).output();
            }
        }
    }
}

/// Whether all of one list of CPUs are in another.
pub(crate) fn cpus_within(cpus: &str, all: &str) -> bool {
    let list = |text: &str| text.parse::<model::CpuList>().unwrap();
    list(cpus).is_within(&list(all))
}

/// CPUs that a task may run on, as the kernel writes them.
pub(crate) fn cpus_of(id: u32) -> String {
    let text = read(format!("/proc/{id}/status"));
    let line = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.unwrap_or("<gone>").trim().to_owned()
}

/// How a command ended, and what it printed on both outputs.
pub(crate) fn shell(script: &str) -> (Option<i32>, String) {
    let output = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code(), text.trim().to_owned())
}

/// Count of an interrupt on a CPU by the first word of its line in /proc/interrupts.
pub(crate) fn interrupts(name: &str, cpu: usize) -> u64 {
    let text = read("/proc/interrupts");
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|counts| counts.split_whitespace().nth(cpu)).and_then(|count| count.parse().ok()).unwrap()
}

/// Local timer interrupts of CPU 3 in two seconds.
pub(crate) fn ticks() -> u64 {
    let before = interrupts("LOC", 3);
    std::thread::sleep(Duration::from_secs(2));
    interrupts("LOC", 3) - before
}

/// Waits until something holds, for half a minute at most: an emulated machine is slow.
#[track_caller]
pub(crate) fn wait_for(what: &str, holds: impl FnMut() -> bool) {
    assert!(comes(holds), "{what}: waited for 30 s");
}

/// Whether something holds within half a minute.
pub(crate) fn comes(mut holds: impl FnMut() -> bool) -> bool {
    (0..1500).any(|_| {
        let held = holds();
        if !held {
            std::thread::sleep(Duration::from_millis(20));
        }
        held
    })
}
