//! What changes nothing: states, plans, refusals, users without privileges.

use crate::machine::{CPU, Machine, State, read};
use crate::support::{alone_on_machine, assert_code, assert_refused, fits_every_width, run, stderr, stdout, windhover};
use std::fs;
use std::process::Command;

/// A state directory that is not there: reading makes none.
fn nowhere() -> String {
    std::env::temp_dir().join(format!("windhover-none-{}", std::process::id())).display().to_string()
}

#[test]
fn the_state_is_a_row_a_cpu() {
    let _alone = alone_on_machine();
    let state = nowhere();
    let output = run(&["shield", "--state-dir", &state]);
    assert_code(&output, 0);
    let text = stdout(&output);
    assert!(text.starts_with("CPU  procs  irqs  ltmrs  mem  ") && text.contains("\n0    "), "{text}");
    fits_every_width(&["shield", "--state-dir", &state]);
    let json = run(&["shield", "-c", "--json", "--state-dir", &state]);
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    for field in ["cpu", "procs", "irqs", "ltmrs", "mem", "siblings", "partition", "housekeeping"] {
        assert!(!value["cpus"][0][field].is_null(), "{field}: {value:#}");
    }
    assert!(fs::metadata(&state).is_err());
}

#[test]
fn what_is_refused_says_how_else() {
    let _alone = alone_on_machine();
    let state = nowhere();
    let refused = |arguments: &[&str], words: &[&str]| {
        let mut all = vec!["shield", "--state-dir", &state];
        all.extend(arguments);
        assert_refused(&all, 2, words);
    };
    refused(&["-a", "0"], &["boot CPU", "--allow-boot-cpu"]);
    refused(&["-a", "active", "--allow-boot-cpu"], &["no CPU would be left"]);
    refused(&["-a", "4000"], &["CPU 4000", "offline"]);
    refused(&["-a", "x"], &["nic:IF", "node:N"]);
    refused(&["-p", "nic:none0"], &["none0"]);
    // A cause that its message holds is not said again behind it.
    let twice = run(&["shield", "-a", "1", "--nic", "none0", "--dry-run"]);
    assert!(stderr(&twice).matches("there is no network device 'none0'").count() <= 1, "{}", stderr(&twice));
    refused(&["--backend", "isolcpus", "-a", "1"], &["isolcpus"]);
    refused(&["--verify"], &["no shield is up"]);
    assert!(fs::metadata(&state).is_err());
}

#[test]
fn a_dry_run_changes_nothing() {
    let _alone = alone_on_machine();
    if read("/sys/devices/system/cpu/online") == "0" {
        eprintln!("SKIPPED a_dry_run_changes_nothing: there is one CPU only");
        return;
    }
    let state = nowhere();
    let before = State::read();
    let output = run(&["shield", "-a", CPU, "--dry-run", "--backend", "affinity", "--state-dir", &state]);
    assert_code(&output, 0);
    let text = stdout(&output);
    assert!(text.contains("/proc/irq/default_smp_affinity"), "{text}");
    for backend in ["affinity", "v1", "v2"] {
        let plan = ["shield", "-a", CPU, "--dry-run", "--backend", backend, "--state-dir", &state];
        // This machine may have no such control groups.
        if run(&plan).status.code() != Some(2) {
            fits_every_width(&plan);
        }
    }
    let json = run(&["shield", "-a", CPU, "-n", "--json", "--backend", "affinity", "--state-dir", &state]);
    let plan: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let step = plan["steps"].as_array().unwrap().iter().find(|step| step["step"] == "set").unwrap();
    for field in ["knob", "now", "wanted", "why"] {
        assert!(!step[field].is_null(), "{field}: {step:#}");
    }
    let differences = before.differences(&State::read());
    // Others may pin themselves meanwhile; nobody changes the machine's settings.
    assert!(differences.iter().all(|line| line.starts_with("task ")), "{differences:?}");
    assert!(fs::metadata(&state).is_err());
}

#[test]
fn without_a_terminal_and_yes_nothing_is_shielded() {
    let _alone = alone_on_machine();
    if read("/sys/devices/system/cpu/online") == "0" {
        eprintln!("SKIPPED without_a_terminal_and_yes_nothing_is_shielded: there is one CPU only");
        return;
    }
    let state = nowhere();
    let before = State::read();
    for form in ["text", "json"] {
        let plan = ["shield", "-a", CPU, "--backend", "affinity", "--format", form, "--state-dir", &state];
        let refused = run(&plan);
        assert_code(&refused, 2);
        assert!(
            stderr(&refused).contains("no terminal to ask, nothing was changed: add --yes"),
            "{}",
            stderr(&refused)
        );
        assert!(stdout(&refused).contains("/proc/irq/default_smp_affinity"), "{}", stdout(&refused));
    }
    let differences = before.differences(&State::read());
    assert!(differences.iter().all(|line| line.starts_with("task ")), "{differences:?}");
    assert!(fs::metadata(&state).is_err());
}

#[test]
fn local_timers_need_the_boot() {
    let _alone = alone_on_machine();
    let nohz = read("/sys/devices/system/cpu/nohz_full");
    if nohz.starts_with(|c: char| c.is_ascii_digit()) || read("/sys/devices/system/cpu/online") == "0" {
        eprintln!("SKIPPED local_timers_need_the_boot: this machine has nohz_full or one CPU");
        return;
    }
    let output = run(&["shield", "-l", CPU, "-n", "--state-dir", &nowhere()]);
    assert_code(&output, 3);
    assert!(stdout(&output).contains("nohz_full=1 rcu_nocbs=1"), "{}", stdout(&output));
}

#[test]
fn without_privileges_plans_work_and_shields_say_what_is_missing() {
    let test = "without_privileges_plans_work_and_shields_say_what_is_missing";
    let Some(machine) = Machine::take(test, false) else { return };
    let folder = tempfile::tempdir().unwrap();
    // Where anybody may read and execute it.
    let program = folder.path().join("windhover");
    super::support::copy_windhover(&program);
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path(), open).unwrap();
    let nobody = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program).arg("shield").args(arguments);
        command.env("WINDHOVER_STATE", folder.path().join("state")).env("NO_COLOR", "1").output()
    };
    let Ok(output) = nobody(&["-c"]) else {
        eprintln!("SKIPPED {test}: there is no setpriv");
        return;
    };
    assert_code(&output, 0);
    assert_code(&nobody(&["-a", CPU, "--dry-run"]).unwrap(), 0);
    let before = State::read();
    let output = nobody(&["-a", CPU, "--yes"]).unwrap();
    assert_code(&output, 1);
    let text = stderr(&output);
    for word in ["not permitted", "CAP_DAC_OVERRIDE", "CAP_SYS_NICE"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let differences = before.differences(&State::read());
    assert!(differences.iter().all(|line| line.starts_with("task ")), "{differences:?}");
    assert!(machine.logs().is_empty());
}

#[test]
fn a_reset_without_a_shield_does_nothing() {
    let output = windhover(&["shield", "--reset", "--state-dir", &nowhere()]).output().unwrap();
    assert_code(&output, 0);
    assert!(stdout(&output).contains("no shield is up"), "{}", stdout(&output));
}
