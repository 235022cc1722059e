//! Booted with `nohz_full=3 rcu_nocbs=3`: the tick of CPU 3 stops while one task has it.

use super::state::{State, assert_restored, cgroup, read};
use super::support::{assert_code, run, stdout, windhover};
use super::tasks::{Reset, Task, ticks};
use std::process::Stdio;

/// Ticks in two seconds that a CPU without a tick stays below; one with a tick has about 500 (250 Hz).
const FEW: u64 = 50;

/// What the other tests stand on.
#[test]
#[ignore = "runs in a guest"]
fn the_kernel_stops_the_tick_of_a_busy_cpu() {
    assert_eq!(read("/sys/devices/system/cpu/nohz_full"), "3");
    let _spinner = Task::spinning("3");
    let ticks = ticks();
    assert!(ticks < FEW, "{ticks} ticks in 2 s");
}

/// Shielded from everything: a program placed there is left alone, by the tick too.
#[test]
#[ignore = "runs in a guest"]
fn a_shield_has_no_tick() {
    let _reset = Reset;
    let before = State::read();
    assert_code(&run(&["shield", "-a", "3", "--backend", "v2", "--yes"]), 0);
    let status: serde_json::Value = serde_json::from_str(&stdout(&run(&["shield", "-c", "--json"]))).unwrap();
    let mut program =
        windhover(&["run", "-b", "3", "sh", "-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(1));
    let ticks = ticks();
    let partition = cgroup("windhover-shield/cpuset.cpus.partition");
    program.kill().unwrap();
    program.wait().unwrap();
    assert_code(&run(&["shield", "-r"]), 0);
    assert_eq!(partition, "isolated");
    assert_eq!(status["cpus"][3]["ltmrs"], true, "{status}");
    assert_eq!(status["cpus"][2]["ltmrs"], false, "{status}");
    assert!(ticks < FEW, "{ticks} ticks in 2 s");
    assert_restored(&before);
}

/// `-l` is kept where the kernel can: code 0.
#[test]
#[ignore = "runs in a guest"]
fn a_tick_that_is_stopped_can_be_asked_for() {
    let _reset = Reset;
    let before = State::read();
    assert_code(&run(&["shield", "-p", "3", "-l", "3", "--backend", "v2", "--yes"]), 0);
    assert_code(&run(&["shield", "-p", "2-3", "-l", "2-3", "--backend", "v2", "--yes"]), 3);
    assert_code(&run(&["shield", "-r"]), 0);
    assert_restored(&before);
}
