//! cgroup version 2: shielding by an isolated partition.

use super::state::{State, assert_restored, cgroup, numbered, read};
use super::support::{assert_code, assert_refused, run, stderr, stdout, windhover};
use super::tasks::{Partition, Reset, Task, comes, cpus_of, cpus_within, narrow, shell, wait_for};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The group whose partition file says that it is isolated, and has CPU 3.
const SHIELD: &str = "windhover-shield";

fn shield(more: &[&str]) -> std::process::Output {
    let arguments = [&["shield", "-a", "3", "--backend", "v2", "--yes"], more].concat();
    // Paths are not broken between lines where there is room.
    windhover(&arguments).env("COLUMNS", "300").output().unwrap()
}

/// What the other tests stand on: this kernel makes an isolated partition, and taking it away restores everything but
/// the masks of interrupt threads, which it widens where nobody ever told it the thread's own.
#[test]
#[ignore = "runs in a guest"]
fn the_kernel_has_partitions_and_restores_all_but_interrupt_threads() {
    let (placed, free) = (Task::sleeping(Some("3")), Task::sleeping(None));
    let before = State::read();
    let threads = before.tasks("irq/");
    assert!(threads.iter().any(|(_, cpus)| cpus != "0-3"), "no interrupt thread has one CPU: {threads:?}");
    let mut partition = Partition::new("by-hand", "3");
    assert_eq!(cgroup("cpuset.cpus.isolated"), "3");
    assert_eq!((placed.cpus().as_str(), free.cpus().as_str()), ("0-2", "0-2"));
    let narrowed = std::mem::take(&mut partition.narrowed);
    drop(partition);
    let widened = before.differences(&State::read());
    assert!(widened.iter().all(|line| line.contains(" irq/")), "{}", widened.join("\n"));
    narrow(&narrowed);
    assert_restored(&before);
}

/// All at once, as RedHawk's users know it: what was there leaves, what was placed there stays, nothing comes in from
/// outside, `run -b` does; and everything comes back.
#[test]
#[ignore = "runs in a guest"]
fn a_shield_closes_a_cpu_and_gives_all_back() {
    let _reset = Reset;
    let (placed, mixed, free) = (Task::sleeping(Some("3")), Task::sleeping(Some("2-3")), Task::sleeping(None));
    let before = State::read();
    assert_code(&shield(&[]), 0);

    assert_eq!(cgroup("windhover-shield/cpuset.cpus.partition"), "isolated");
    assert_eq!((cgroup("cpuset.cpus.isolated"), cgroup("cpuset.cpus.effective")), ("3".to_owned(), "0-2".to_owned()));
    assert_eq!((placed.cpus(), mixed.cpus(), free.cpus()), ("3".to_owned(), "2".to_owned(), "0-2".to_owned()));
    // No thread of the kernel that can be moved may use the CPU; nor does an interrupt, or work of any CPU.
    let shielded = State::read();
    for name in ["kthreadd", "rcu_preempt", "kswapd0", "kauditd"] {
        let threads = shielded.tasks(name);
        assert!(!threads.is_empty() && threads.iter().all(|(_, cpus)| cpus == "0-2"), "{name}: {threads:?}");
    }
    assert_eq!(read("/sys/devices/virtual/workqueue/cpumask"), "7");
    assert_eq!(read("/proc/irq/default_smp_affinity"), "7");
    for irq in numbered("/proc/irq") {
        let cpus = read(format!("/proc/irq/{irq}/smp_affinity_list"));
        // Numbers without a handler cannot all be moved, and need not.
        let handled = !read(format!("/sys/kernel/irq/{irq}/actions")).is_empty();
        assert!(!handled || irq == 0 || cpus_within(&cpus, "0-2"), "interrupt {irq} may go to CPU {cpus}");
    }

    let status: serde_json::Value = serde_json::from_str(&stdout(&run(&["shield", "-c", "--json"]))).unwrap();
    assert_eq!((&status["backend"], &status["state"]), (&"v2".into(), &"isolated".into()));
    assert_eq!(status["cpus"][3]["procs"], true, "{status}");
    assert_eq!(status["cpus"][3]["irqs"], true, "{status}");
    assert_eq!(status["cpus"][2]["procs"], false, "{status}");
    let table = stdout(&run(&["shield", "-c"]));
    assert!(table.lines().any(|line| line.trim_start().starts_with("3 ") && line.contains("yes")), "{table}");

    let (code, said) = shell("taskset -c 3 true");
    assert_eq!((code, said.contains("Invalid argument")), (Some(1), true), "{said}");
    let placed_there = run(&["run", "-b", "3", "grep", "Cpus_allowed_list", "/proc/self/status"]);
    assert_code(&placed_there, 0);
    assert_eq!(stdout(&placed_there).split_whitespace().last(), Some("3"));

    assert_code(&run(&["shield", "-r"]), 0);
    assert_restored(&before);
    assert_eq!((placed.cpus(), mixed.cpus(), free.cpus()), ("3".to_owned(), "2-3".to_owned(), "0-3".to_owned()));
}

/// The second call finds everything as asked for and touches nothing, the log least of all.
#[test]
#[ignore = "runs in a guest"]
fn a_second_shield_writes_nothing() {
    let _reset = Reset;
    let before = State::read();
    assert_code(&shield(&[]), 0);
    assert!(!written("/run/windhover").is_empty());
    let (state, log) = (State::read(), written("/run/windhover"));
    assert_code(&shield(&[]), 0);
    assert_eq!(state.differences(&State::read()), Vec::<String>::new());
    assert_eq!(log, written("/run/windhover"));
    assert_code(&run(&["shield", "-r"]), 0);
    assert_restored(&before);
}

/// What it would do is told knob by knob; all that it does is among it.
#[test]
#[ignore = "runs in a guest"]
fn a_dry_run_names_what_will_be_changed_and_changes_nothing() {
    let _reset = Reset;
    let _placed = Task::sleeping(Some("3"));
    let before = State::read();
    let plan = shield(&["--dry-run"]);
    assert_code(&plan, 0);
    assert_restored(&before);
    let plan = stdout(&plan);
    assert_code(&shield(&[]), 0);
    let changed = before.differences(&State::read());
    let ours = |line: &&String| line.starts_with("/proc/irq") || line.starts_with("/sys/fs/cgroup/windhover-shield");
    let files = changed.iter().filter(ours);
    // What only the kernel writes, and what a file is born with, is no step.
    let born = ["cpus.effective", "cpuset.cpus.exclusive", "cgroup.subtree_control: (new)"];
    for line in files.filter(|line| !born.iter().any(|part| line.contains(part))) {
        let path = line.split(": ").next().unwrap();
        assert!(plan.contains(path), "{line} is not in the plan:\n{plan}");
    }
    assert_code(&run(&["shield", "-r"]), 0);
    assert_restored(&before);
}

/// One thread of a process goes behind the shield, also out of a group such as a service's; the other one stays outside.
#[test]
#[ignore = "runs in a guest"]
fn a_single_thread_enters() {
    let _reset = Reset;
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpuset +memory +pids").unwrap();
    fs::create_dir_all("/sys/fs/cgroup/system.slice/it.service").unwrap();
    let before = State::read();
    assert_code(&shield(&[]), 0);
    // The threads are our own: one that waits to be told to end.
    let (send, receive) = std::sync::mpsc::channel::<()>();
    let (told, id) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        told.send(own_id()).unwrap();
        let _ = receive.recv();
    });
    let (thread_id, own) = (id.recv().unwrap(), own_id());
    let entered = run(&["run", "-b", "3", "--tid", &thread_id.to_string()]);
    let cpus = (cpus_of(thread_id), cpus_of(own));
    assert_code(&run(&["shield", "-r"]), 0);
    drop(send);
    thread.join().unwrap();
    fs::remove_dir("/sys/fs/cgroup/system.slice/it.service").unwrap();
    fs::remove_dir("/sys/fs/cgroup/system.slice").unwrap();
    assert_code(&entered, 0);
    assert_eq!(cpus, ("3".to_owned(), "0-2".to_owned()));
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "-cpuset -memory -pids").unwrap();
    let lines: Vec<String> = before.differences(&State::read());
    assert!(lines.iter().all(|line| line.contains("subtree_control") || line.contains("system.slice")), "{lines:?}");
}

/// Each refusal is one line, code 2, and leaves the machine as it was.
#[test]
#[ignore = "runs in a guest"]
fn what_would_leave_no_cpu_is_refused() {
    let _reset = Reset;
    let before = State::read();
    let v2 = |cpus: &'static str, more: &'static [&str]| {
        [&["shield", "-a", cpus, "--backend", "v2", "--yes"], more].concat()
    };
    assert_refused(&v2("0-3", &["--allow-boot-cpu"]), 2, &["0-3"]);
    assert_refused(&v2("0", &[]), 2, &["0", "--allow-boot-cpu"]);
    assert_refused(&v2("9", &[]), 2, &["9"]);
    assert_restored(&before);
    // CPUs that another's partition has are gone too.
    let theirs = Partition::new("theirs", "1-2");
    assert_refused(&v2("0,3", &["--allow-boot-cpu"]), 2, &["partition"]);
    assert_refused(&v2("2-3", &[]), 2, &["2", "theirs"]);
    assert_eq!(cgroup("theirs/cpuset.cpus.partition"), "isolated");
    drop(theirs);
    assert_restored(&before);
}

/// Somebody gives a shielded CPU to another group: the kernel makes our partition invalid without a word.
#[test]
#[ignore = "runs in a guest"]
fn a_partition_that_another_broke_is_seen() {
    let _reset = Reset;
    let before = State::read();
    assert_code(&shield(&[]), 0);
    fs::create_dir("/sys/fs/cgroup/theirs").unwrap();
    fs::write("/sys/fs/cgroup/theirs/cpuset.cpus", "2-3").unwrap();
    let broken = cgroup("windhover-shield/cpuset.cpus.partition");
    assert!(broken.starts_with("isolated invalid"), "{broken}");
    let status = stdout(&run(&["shield", "-c", "--json"]));
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["cpus"][3]["procs"], false, "{status}");
    fs::remove_dir("/sys/fs/cgroup/theirs").unwrap();
    let reset = run(&["shield", "-r", "--force"]);
    assert_code(&reset, 0);
    assert_restored(&before);
}

/// The owner is killed without a word; its keeper puts everything back.
#[test]
#[ignore = "runs in a guest"]
fn a_killed_owner_is_cleaned_up_after() {
    let _reset = Reset;
    let before = State::read();
    let mut owner = windhover(&["shield", "exec", "-a", "3", "--backend", "v2", "--", "sleep", "60"]).spawn().unwrap();
    wait_for("the shield", || cgroup("windhover-shield/cpuset.cpus.partition") == "isolated");
    assert!(!written("/run/windhover").is_empty());
    owner.kill().unwrap();
    owner.wait().unwrap();
    // Undo logs, and what a shield tells others; the number of the last log stays.
    let left = || -> Vec<PathBuf> {
        let files = written("/run/windhover").into_iter().map(|(path, _)| path);
        files.filter(|path| path.extension().is_some_and(|kind| kind == "jsonl" || kind == "json")).collect()
    };
    let told = comes(|| left().is_empty());
    let logs: Vec<String> = left().iter().map(|path| format!("{}: {}", path.display(), read(path))).collect();
    assert!(told, "the keeper left, after 30 s:\n{}", logs.join("\n"));
    assert!(!Path::new("/sys/fs/cgroup").join(SHIELD).exists());
    assert_restored(&before);
}

/// A shield for a command ends with it, and passes its status on; one for a time ends by itself.
#[test]
#[ignore = "runs in a guest"]
fn a_shield_for_a_command_or_a_time_ends_by_itself() {
    let _reset = Reset;
    let before = State::read();
    let script = "cat /sys/fs/cgroup/windhover-shield/cpuset.cpus.partition; exit 7";
    let output = run(&["shield", "exec", "-a", "3", "--backend", "v2", "--", "sh", "-c", script]);
    assert_code(&output, 7);
    assert_eq!(stdout(&output).trim(), "isolated", "{}", stderr(&output));
    assert_restored(&before);
    assert_code(&shield(&["--for", "1s"]), 0);
    assert_restored(&before);
}

/// Killed at a step of putting up or of taking down, then undone: as before. Some of the steps, closest at the beginning,
/// where a step does most; all of them are tested where a step costs less.
#[test]
#[ignore = "runs in a guest"]
fn killed_at_a_step_everything_can_be_put_back() {
    const STEPS: [u32; 9] = [1, 3, 6, 10, 17, 28, 46, 75, 122];
    let _reset = Reset;
    let _placed = Task::sleeping(Some("3"));
    let before = State::read();
    let killed_at = |arguments: &[&str], step: u32| {
        let killed = windhover(arguments).env("WINDHOVER_KILL_AT", step.to_string()).output().unwrap();
        assert_code(&run(&["undo"]), 0);
        let lines = before.differences(&State::read());
        assert!(lines.is_empty(), "{arguments:?}, killed at step {step}, then undone:\n{}", lines.join("\n"));
        killed.status.code().is_none()
    };
    let up = ["shield", "-a", "3", "--backend", "v2", "--yes"];
    let ups = STEPS.iter().take_while(|step| killed_at(&up, **step)).count();
    let downs = STEPS.iter().take_while(|step| {
        assert_code(&run(&up), 0);
        killed_at(&["shield", "-r"], **step)
    });
    let downs = downs.count();
    assert!(ups > 4 && downs > 4, "so few steps? {ups}, {downs}");
}

/// Without `nohz_full=` at boot, a CPU's tick cannot be promised: code 3 and the words to boot with.
#[test]
#[ignore = "runs in a guest"]
fn a_tick_that_cannot_be_stopped_is_said() {
    let _reset = Reset;
    let before = State::read();
    let output = run(&["shield", "-p", "3", "-l", "3", "--backend", "v2", "--yes"]);
    let said = format!("{}{}", stdout(&output), stderr(&output));
    assert_code(&run(&["shield", "-r"]), 0);
    assert_code(&output, 3);
    assert!(said.contains("nohz_full=3 rcu_nocbs=3"), "{said}");
    assert_restored(&before);
}

/// A spinning thread and a trace show that nothing movable is left on the CPU.
#[test]
#[ignore = "runs in a guest"]
fn verify_finds_nothing_on_the_shield_and_something_beside_it() {
    let _reset = Reset;
    let before = State::read();
    let output = shield(&["--verify=2"]);
    let said = format!("{}{}", stdout(&output), stderr(&output));
    assert_code(&run(&["shield", "-r"]), 0);
    assert_restored(&before);
    assert_eq!(output.status.code(), Some(0), "{said}");
}

/// When each file of the state directory was last written, but for its lock.
fn written(folder: impl AsRef<Path>) -> Vec<(PathBuf, SystemTime)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            files.extend(written(entry.path()));
        } else if entry.file_name() != "lock" {
            // A keeper may be removing it at this moment.
            files.extend(entry.metadata().ok().map(|about| (entry.path(), about.modified().unwrap())));
        }
    }
    files.sort();
    files
}

/// The calling thread's id.
fn own_id() -> u32 {
    let path = fs::read_link("/proc/thread-self").unwrap();
    path.file_name().and_then(|name| name.to_str()).unwrap().parse().unwrap()
}
