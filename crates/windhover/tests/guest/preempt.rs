//! Preemption models as kernels of a campaign, and refusals by settings of this boot.

use super::state::{State, assert_restored, read};
use super::support::{
    Folder, assert_refused, assert_run_measured, run_directory, stderr, until as within_a_minute, windhover,
};
use super::tasks::{shell, wait_for};
use std::fs;
use std::process::Stdio;

const MODEL: &str = "/sys/kernel/debug/sched/preempt";
const MODELS: [&str; 3] = ["none", "voluntary", "full"];

/// The model in force.
fn model() -> String {
    let text = read(MODEL);
    let chosen = text.split_once('(').and_then(|(_, rest)| Some(rest.split_once(')')?.0.to_owned()));
    chosen.unwrap_or(text)
}

/// A campaign of these kernels with one cell each, on two namespaces of this machine.
fn plan(kernels: &[&str], seconds: f64, load: &str) -> String {
    let load = if load.is_empty() {
        "[[grid]]\n".to_owned()
    } else {
        format!(
            "[loads.look]\nprofile = \"build\"\njobs = 1\ncommand = \"\"\"{load}\"\"\"\n[[grid]]\nload = [\"look\"]\n"
        )
    };
    format!(
        "name = \"t\"\nrepetitions = 2\nseed = 7\n[lab]\nkind = \"netns\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n\
         [measure]\nseconds = {seconds}\nwarmup_ms = 0\n{load}kernel = {kernels:?}\n"
    )
}

/// What the other tests stand on: this kernel has these models, and switches at a write.
#[test]
#[ignore = "runs in a guest"]
fn the_kernel_switches_its_preemption_model() {
    let before = model();
    let offered: Vec<String> = read(MODEL).split(' ').map(|word| word.trim_matches(['(', ')']).to_owned()).collect();
    assert_eq!(offered, MODELS);
    for wanted in MODELS {
        fs::write(MODEL, wanted).unwrap();
        assert_eq!(model(), wanted);
    }
    fs::write(MODEL, before).unwrap();
}

/// A load in each cell says which model it finds.
#[test]
#[ignore = "runs in a guest"]
fn each_model_is_in_force_in_its_cells_and_put_back_after() {
    let (folder, before) = (Folder::new("preempt"), State::read());
    let seen = folder.0.join("seen");
    let look = format!("cat {MODEL} >> {}; sleep 0.05", seen.display());
    let kernels = MODELS.map(|model| format!("preempt:{model}"));
    let kernels = kernels.each_ref().map(String::as_str);
    let file = folder.file("plan.toml", &plan(&kernels, 0.5, &look));
    let output = windhover(&["campaign", "run", &file, "--output", folder.path()]).output().unwrap();
    assert_restored(&before);
    let run = run_directory(&folder.0);
    let results = assert_run_measured(&output, &run);
    let mut wanted: Vec<&str> = results.iter().map(|result| result["factors"]["kernel"].as_str().unwrap()).collect();
    assert_eq!(wanted.len(), 6, "{}", stderr(&output));
    wanted.dedup();
    let mut found: Vec<String> = read(&seen)
        .lines()
        .map(|line| format!("preempt:{}", line.split_once('(').unwrap().1.split_once(')').unwrap().0))
        .collect();
    found.dedup();
    assert_eq!(found, wanted, "each cell was measured at its model, in the order of the run");
}

#[test]
#[ignore = "runs in a guest"]
fn a_model_is_put_back_when_the_runner_is_killed() {
    let before = State::read();
    let own = model();
    for wanted in MODELS.into_iter().filter(|wanted| *wanted != own) {
        let folder = Folder::new("preempt-killed");
        let file = folder.file("plan.toml", &plan(&[&format!("preempt:{wanted}")], 60.0, ""));
        let mut command = windhover(&["campaign", "run", &file, "--output", folder.path()]);
        let mut runner = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        within_a_minute("the model is in force", || model() == wanted);
        // Within the cell.
        within_a_minute("the cell has begun", || {
            let (_, found) = shell(&format!("cat {}/*/journal.jsonl", folder.path()));
            found.contains("\"step\":\"start\"")
        });
        runner.kill().unwrap();
        runner.wait().unwrap();
        wait_for("the model of before", || model() == own);
        wait_for("everything as before", || before.differences(&State::read()).is_empty());
    }
}

/// A campaign of this kernel ends with one line that names it and has these words, and leaves no run.
pub(crate) fn refused(kernel: &str, words: &[&str]) {
    let folder = Folder::new("preempt-refused");
    let file = folder.file("plan.toml", &plan(&[kernel], 0.1, ""));
    let runs = folder.0.join("runs");
    let words = &[&[kernel], words].concat();
    assert_refused(&["--quiet", "campaign", "run", &file, "--output", runs.to_str().unwrap()], 2, words);
    assert!(!runs.exists() || fs::read_dir(&runs).unwrap().next().is_none(), "a run was begun");
}

#[test]
#[ignore = "runs in a guest"]
fn a_model_that_cannot_be_had_is_refused_with_the_remedy() {
    let before = State::read();
    refused("preempt:lazy", &["no preemption model 'lazy'", "use one of: none, voluntary, full"]);
    assert_eq!(shell("umount /sys/kernel/debug"), (Some(0), String::new()));
    let failed = std::panic::catch_unwind(|| {
        refused(
            "preempt:full",
            &["/sys/kernel/debug/sched is not there", "mount -t debugfs debugfs /sys/kernel/debug"],
        );
    });
    assert_eq!(shell("mount -t debugfs debugfs /sys/kernel/debug"), (Some(0), String::new()));
    failed.unwrap();
    assert_restored(&before);
}

/// This boot has no kexec after it: the kernel takes the 1 back only at the next boot.
#[test]
#[ignore = "runs in a guest"]
fn a_kexec_that_is_switched_off_is_refused_with_the_remedy() {
    fs::write("/proc/sys/kernel/kexec_load_disabled", "1").unwrap();
    assert!(fs::write("/proc/sys/kernel/kexec_load_disabled", "0").is_err(), "it stays");
    let before = State::read();
    refused("kexec:/boot/vmlinuz-any", &["kernel.kexec_load_disabled is 1", "reboot without it, or use grub:ENTRY"]);
    assert_restored(&before);
}
