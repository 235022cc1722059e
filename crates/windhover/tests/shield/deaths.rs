//! Deaths of those who make and unmake shields (SIGKILL), at every kind of step.

use crate::machine::{CPU, Machine, State, assert_restored, wait_for};
use crate::support::{ANOTHER_REQUEST, assert_code};
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// For the whole sweep of one backend: it takes the points that fit in, spread over all, and on a slow machine more time.
const TIME: Duration = Duration::from_secs(20);
/// Fewer would prove little.
const LEAST: u32 = 12;

/// Points are taken in strides of this: a change has six of them, so that every stride meets other steps.
const STRIDE: u32 = 41;

/// Dies at one point after the other while a shield is made, and now and then while it is put back; then everything is as
/// before.
fn die_everywhere(test: &str, backend: &str, undo_by: &[&str]) {
    let Some(machine) = Machine::take(test, backend == "v1") else { return };
    let before = State::read();
    let until = Instant::now() + TIME;
    let (mut died, mut beyond) = (0, u32::MAX);
    for start in 1..=STRIDE {
        let mut point = start;
        while point < beyond && (Instant::now() < until || died < LEAST) {
            let killed = machine
                .command(&["-a", CPU, "--backend", backend, "--yes"])
                .env("WINDHOVER_KILL_AT", point.to_string())
                .output()
                .unwrap();
            if killed.status.signal() == Some(9) {
                died += 1;
            } else {
                assert_code(&killed, 0);
                beyond = point;
            }
            if died % 3 == 0 {
                // Putting back dies too, and is done again.
                let point = (point % 60 + 1).to_string();
                let again = machine.command(&["--reset"]).env("WINDHOVER_KILL_AT", point).output().unwrap();
                assert!(again.status.signal() == Some(9) || again.status.code() == Some(0), "{again:?}");
            }
            assert_code(&machine.windhover(undo_by), 0);
            assert_restored(&before);
            assert!(machine.logs().is_empty(), "point {point}: {:?}", machine.logs());
            point += STRIDE;
        }
    }
    assert!(died >= LEAST, "{died} deaths in {TIME:?}");
    eprintln!("{test}: {died} deaths, all points are below {beyond}");
}

#[test]
fn cpusets_after_any_death_are_as_before() {
    die_everywhere("cpusets_after_any_death_are_as_before", "v1", &["shield", "--reset"]);
}

#[test]
fn affinity_after_any_death_is_as_before() {
    die_everywhere("affinity_after_any_death_is_as_before", "affinity", &["undo"]);
}

#[test]
fn the_next_shield_puts_a_dead_ones_rest_back() {
    let Some(machine) = Machine::take("the_next_shield_puts_a_dead_ones_rest_back", true) else { return };
    let before = State::read();
    for point in [9, 40, 90] {
        let arguments = ["-a", CPU, "--yes"];
        let killed = machine.command(&arguments).env("WINDHOVER_KILL_AT", point.to_string()).output().unwrap();
        assert_eq!(killed.status.signal(), Some(9), "{killed:?}");
        assert_code(&machine.shield(&arguments), 0);
        assert_eq!(machine.logs().len(), 1);
        assert_eq!(machine.status()["cpus"][1]["procs"], true);
        assert_code(&machine.shield(&["--reset"]), 0);
        assert_restored(&before);
    }
}

#[test]
fn a_keeper_undoes_when_its_owner_is_killed() {
    let Some(machine) = Machine::take("a_keeper_undoes_when_its_owner_is_killed", true) else { return };
    let before = State::read();
    let mut owner = machine
        .command(&["-a", CPU, "--for", "60", "--yes"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the shield", || machine.status()["cpus"][1]["procs"] == true);
    // It would go with its owner in the middle of another's work: also the very same shield is refused.
    for arguments in [["exec", "-a", CPU, "--", "true"].as_slice(), &["-a", CPU, "--yes"]] {
        let second = machine.shield(arguments);
        assert_code(&second, 2);
        let said = String::from_utf8_lossy(&second.stderr).into_owned();
        assert!(said.contains("goes with task") && said.contains("run -b"), "{said}");
    }
    // It belongs to the one that is running: nobody else takes it over.
    let other = machine.shield(&["-i", CPU, "-p", "", "--yes"]);
    assert_code(&other, 2);
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert_restored(&before);
    wait_for("the end of the log", || machine.logs().is_empty());
}

/// A program that no polite signal ends.
const STUBBORN: &str = "trap '' INT TERM; echo ready; while :; do sleep 0.05; done";

#[test]
fn the_second_signal_ends_exec_and_its_keeper_takes_the_shield_down() {
    let test = "the_second_signal_ends_exec_and_its_keeper_takes_the_shield_down";
    let Some(machine) = Machine::take(test, true) else { return };
    let before = State::read();
    for signal in [2, 15] {
        let mut owner = machine
            .command(&["exec", "-a", CPU, "--", "sh", "-c", STUBBORN])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = [0; 6];
        owner.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        assert_eq!(machine.status()["cpus"][1]["procs"], true);
        let send = || {
            let pid = owner.id().to_string();
            assert!(Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap().success());
        };
        send();
        std::thread::sleep(ANOTHER_REQUEST);
        send();
        assert_eq!(owner.wait().unwrap().signal(), Some(signal));
        assert_restored(&before);
        wait_for("the end of the log", || machine.logs().is_empty());
    }
}
