//! Causes that the self-test does not inject, each made from outside of the measurement. Loading BPF programs needs CAP_BPF and
//! CAP_PERFMON, which the tests have as root.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and print what they skip")]

mod support;

use model::{CpuList, Policy};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use support::{Server, disturbs_alone, documents, windhover};

const PAUSE: Duration = Duration::from_millis(10);

fn two_cpus() -> [u32; 2] {
    let cpus: Vec<u32> = task::allowed_cpus().unwrap().iter().collect();
    assert!(cpus.len() > 1, "needs two CPUs");
    [cpus[0], cpus[1]]
}

/// The explanation of a measurement that something disturbs from its begin on.
fn explained<T>(arguments: &[&str], disturb: impl FnOnce(&mut Child) -> T) -> (Value, T) {
    let mut command = windhover(&[arguments, &["--explain", "--json"]].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let disturbed = disturb(&mut child);
    let output = child.wait_with_output().unwrap();
    let result = documents(&output).pop().unwrap_or_else(|| panic!("{}", support::stderr(&output)));
    (result["explanation"].clone(), disturbed)
}

/// Messages and lost ns of the rows of an explanation that a condition picks.
fn lost(explanation: &Value, is_it: impl Fn(&str, &str, &str) -> bool) -> (u64, u64) {
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    let rows = explanation["causes"].as_array().unwrap().iter();
    let picked = rows.filter(|row| is_it(&text(row, "class"), &text(row, "name"), &text(row, "host")));
    picked
        .fold((0, 0), |sum, row| (sum.0 + row["messages"].as_u64().unwrap(), sum.1 + row["lost_ns"].as_u64().unwrap()))
}

/// A thread on one CPU that does something again and again until it is dropped.
struct Repeated(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Repeated {
    fn start(name: &str, cpu: u32, policy: Policy, mut once: impl FnMut(u32) + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let work = move || {
            task::pin(cpu).unwrap();
            task::apply_policy(policy).unwrap();
            (0..).take_while(|_| !ends.load(Ordering::Acquire)).for_each(&mut once);
        };
        Self(over, Some(std::thread::Builder::new().name(name.to_owned()).spawn(work).unwrap()))
    }
}

impl Drop for Repeated {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
        let _ = self.1.take().map(JoinHandle::join);
    }
}

fn spin(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Catches: a task that changes its name while it has the CPU called nothing, or by the name of an earlier time.
#[test]
fn a_task_that_renames_itself_has_one_of_its_two_names() {
    let _alone = disturbs_alone();
    let [near, far] = two_cpus();
    let rename = |name: String| std::fs::write("/proc/thread-self/comm", name).unwrap();
    let _hog = Repeated::start("wh-ren-0a", far, Policy::Fifo(80), move |count| {
        std::thread::sleep(PAUSE);
        spin(Duration::from_micros(150));
        rename(format!("wh-ren-{count}b"));
        spin(Duration::from_micros(150));
        rename(format!("wh-ren-{}a", count + 1));
    });
    let ends = ["--cpu", &near.to_string(), "--remote-cpu", &far.to_string(), "--policy", "fifo:10"];
    let measured =
        ["pingpong", "udp", "--fork-both", "--remote-policy", "fifo:10", "--seconds", "1", "--explain-over", "150us"];
    let (explanation, ()) = explained(&[&measured[..], &ends].concat(), |_| ());
    let takes = |class: &str| matches!(class, "run-queue" | "preempted");
    let (named, _) = lost(&explanation, |class, name, host| {
        takes(class) && name.starts_with("wh-ren-") && name.ends_with(['a', 'b']) && host == "reflector"
    });
    let (nameless, _) = lost(&explanation, |class, name, _| takes(class) && name.is_empty());
    assert!(named >= 20 && nameless == 0, "{named} {explanation}");
    // Each disturbance makes one message late, or the same one at both its ends.
    for row in explanation["causes"].as_array().unwrap() {
        let is_it = row["name"].as_str().is_some_and(|name| name.starts_with("wh-ren-"));
        assert!(!is_it || row["messages"].as_u64().unwrap() <= 2, "{row}");
    }
}

/// Catches: a move that the CPU which did it has recorded, so that the thread's own knows none of it.
#[test]
fn a_thread_that_is_moved_from_outside_has_migrated() {
    let _alone = disturbs_alone();
    let cpus = two_cpus();
    let far = cpus[1].to_string();
    let ends = ["--receive", "spin", "--remote-receive", "block", "--remote-cpu", &far];
    let measured = ["pingpong", "udp", "--fork-both", "--seconds", "2", "--explain-over", "20us"];
    let (explanation, moves) = explained(&[&measured[..], &ends].concat(), |child| {
        let begin = Instant::now();
        let mut moves = 0;
        while child.try_wait().unwrap().is_none() && begin.elapsed() < Duration::from_secs(30) {
            let thread = task::thread_named(child.id(), "measure");
            let to: CpuList = [cpus[moves % 2]].into_iter().collect();
            moves += usize::from(thread.is_some_and(|thread| task::set_affinity_of(thread, &to).is_ok()));
            std::thread::sleep(PAUSE / 2);
        }
        moves
    });
    assert!(moves > 100, "{moves}");
    let (migrated, _) = lost(&explanation, |class, _, host| class == "migration" && host == "initiator");
    // A runnable thread whose new CPU is idle, or where it slept once, is neither throttled nor asleep.
    let (throttled, _) = lost(&explanation, |class, _, _| class == "quota");
    assert!(migrated >= 20 && throttled == 0, "{migrated} of {moves}: {explanation}");
}

/// A group of processes that may use 5 % of a CPU; `None`, and a line, where the kernel gives none. Its processes have to end first.
struct Quota(PathBuf);

impl Quota {
    fn make(test: &str) -> Option<Self> {
        let name = format!("windhover-test-{}", std::process::id());
        let first = PathBuf::from("/sys/fs/cgroup/cpu").join(&name);
        let second = PathBuf::from("/sys/fs/cgroup").join(&name);
        let write = |path: PathBuf, text: &str| std::fs::write(path, text);
        if std::fs::create_dir(&first).is_ok() {
            let group = Self(first);
            write(group.0.join("cpu.cfs_period_us"), "100000").unwrap();
            write(group.0.join("cpu.cfs_quota_us"), "5000").unwrap();
            return Some(group);
        }
        let is_made = std::fs::create_dir(&second).is_ok();
        let group = Self(second);
        if !is_made || write(group.0.join("cpu.max"), "5000 100000").is_err() {
            eprintln!("SKIPPED {test}: this machine has no control group with cpu.max");
            return None;
        }
        Some(group)
    }

    fn take(&self, process: u32) {
        std::fs::write(self.0.join("cgroup.procs"), process.to_string()).unwrap();
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // A process that has just ended is still there for a moment.
        for _ in 0..200 {
            if std::fs::remove_dir(&self.0).is_ok() {
                break;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// Catches: a far end without quota that is called preempted or asleep, or is blamed at the other end.
#[test]
fn an_end_whose_control_group_has_no_quota_left_is_named() {
    let _alone = disturbs_alone();
    let Some(group) = Quota::make("an_end_whose_control_group_has_no_quota_left_is_named") else { return };
    let server = Server::start(&["--explain", "--explain-names"]);
    group.take(server.id());
    let measured = ["pingpong", "udp", &server.address, "--seconds", "2", "--explain-over", "30ms"];
    let (explanation, ()) = explained(&measured, |_| ());
    drop(server);
    let (late, by_quota) = lost(&explanation, |class, _, host| class == "quota" && host == "reflector");
    let (at_near, _) = lost(&explanation, |class, _, host| class == "quota" && host == "initiator");
    // Other tasks may keep either end from its CPU, too.
    let (_, at_far) = lost(&explanation, |_, _, host| host == "reflector");
    assert!(late >= 3 && at_near == 0 && 2 * by_quota > at_far, "{explanation}");
}

/// Catches: events that are forgotten while the message that they are of is still under way.
#[test]
fn a_message_that_takes_long_is_explained_from_its_begin() {
    let _alone = disturbs_alone();
    let [near, far] = two_cpus();
    let _hog = Repeated::start("wh-long", near, Policy::Fifo(80), |_| {
        std::thread::sleep(25 * PAUSE);
        spin(30 * PAUSE);
    });
    let ends = ["--cpu", &near.to_string(), "--remote-cpu", &far.to_string(), "--receive", "spin"];
    let measured = ["pingpong", "udp", "--fork-both", "--remote-receive", "block", "--remote-policy", "fifo:10"];
    let (explanation, ()) =
        explained(&[&measured[..], &ends, &["--seconds", "2", "--explain-over", "150ms"]].concat(), |_| ());
    let (late, by_hog) = lost(&explanation, |_, name, host| name == "wh-long" && host == "initiator");
    let (_, unknown) = lost(&explanation, |class, _, _| class == "unknown");
    assert!(late >= 2 && by_hog > 4 * unknown, "{explanation}");
}

/// Catches: kernel code of an ordinary task that is called deaf, preempting or an idle CPU, or has the name of the task that waits.
#[test]
fn kernel_code_of_an_ordinary_task_that_is_not_preemptible_is_named() {
    const TEST: &str = "kernel_code_of_an_ordinary_task_that_is_not_preemptible_is_named";
    const FILES: u32 = 18_000;
    let _alone = disturbs_alone();
    if std::fs::read_to_string("/sys/kernel/realtime").is_ok_and(|text| text.trim() == "1") {
        eprintln!("SKIPPED {TEST}: a lock of this kernel does not keep tasks from being preempted");
        return;
    }
    let [near, far] = two_cpus();
    task::raise_open_files(u64::from(FILES) + 1000).unwrap();
    // A new process gets a copy of all descriptors, which the kernel makes under a lock.
    let null = std::fs::File::open("/dev/null").unwrap();
    let files: Vec<std::fs::File> = (0..FILES).map(|_| null.try_clone().unwrap()).collect();
    let forks = Repeated::start("wh-forks", near, Policy::Other, |_| {
        std::thread::sleep(PAUSE / 2);
        assert!(Command::new("true").status().unwrap().success());
    });
    let ends = ["--cpu", &near.to_string(), "--remote-cpu", &far.to_string(), "--policy", "fifo:10"];
    let measured =
        ["pingpong", "udp", "--fork-both", "--remote-policy", "fifo:10", "--seconds", "2", "--explain-over", "80us"];
    let (explanation, ()) = explained(&[&measured[..], &ends].concat(), |_| ());
    drop((forks, files));
    let is_it = |name: &str| matches!(name, "wh-forks" | "true");
    let (late, by_it) =
        lost(&explanation, |class, name, host| class == "lower-task" && is_it(name) && host == "initiator");
    // A hypervisor may deliver the interrupt that asks for a switch late.
    let other = |class: &str| !matches!(class, "lower-task" | "cpu-deaf" | "tracer");
    let (_, otherwise) = lost(&explanation, |class, name, _| other(class) && is_it(name));
    assert!(late >= 20 && by_it > 2 * otherwise, "{late} {by_it} {otherwise}: {explanation}");
}
