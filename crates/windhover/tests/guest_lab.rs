//! Guests as labs. What boots one takes a while and a kernel: it is ignored, and part of `cargo xtask test --guest`.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{Folder, assert_code, cell_files, run_directory, stderr, stdout, windhover};

/// `windhover lab boot` where the emulator seems to be there, and nothing is in the cache.
fn boot(folder: &Folder, arguments: &[&str]) -> Command {
    let emulator = folder.0.join("bin/qemu-system-x86_64");
    std::fs::create_dir_all(emulator.parent().unwrap()).unwrap();
    std::fs::write(&emulator, "#!/bin/sh\nexit 3\n").unwrap();
    std::fs::set_permissions(&emulator, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = windhover(&[&["lab", "boot"], arguments].concat());
    command.env("PATH", folder.0.join("bin")).env("XDG_CACHE_HOME", folder.0.join("cache"));
    command
}

#[test]
fn what_cannot_be_booted_is_one_line_and_leaves_nothing() {
    let folder = Folder::new("guest-refused");
    let kernel = folder.file("vmlinuz-6.0-test", "");
    let cases: [(&[&str], u8, &str); 5] = [
        (&["debian-7"], 2, "kernel 'debian-7' is not known: use debian-6.1,"),
        (&["/nowhere/vmlinuz-1"], 2, "kernel /nowhere/vmlinuz-1: there is no such file"),
        (&[&kernel], 2, "its modules are neither in"),
        (&["debian-6.1", "--cpus", "2"], 2, "mode icount cannot run 2 CPUs: use 1, or mode tcg or kvm"),
        (&["debian-6.1", "--overlay", "/nowhere/x"], 2, "cannot read the overlay /nowhere/x: No such file"),
    ];
    for (arguments, code, words) in cases {
        let output = boot(&folder, arguments).output().unwrap();
        assert_code(&output, i32::from(code));
        let said = stderr(&output);
        assert!(said.contains(words) && said.lines().count() == 1, "{arguments:?}: {said}");
    }
    assert!(!folder.0.join("cache").exists(), "something was made");
    let without = boot(&folder, &["debian-6.1"]).env("PATH", "/nowhere").output().unwrap();
    assert_code(&without, 2);
    assert!(
        stderr(&without).contains("there is no qemu-system-x86_64: install qemu-system-x86"),
        "{}",
        stderr(&without)
    );
    let unwritable = boot(&folder, &["debian-6.1"]).env("XDG_CACHE_HOME", "/proc/nowhere").output().unwrap();
    assert_code(&unwritable, 1);
    let said = stderr(&unwritable);
    assert!(said.contains("cannot write to the folder /proc/nowhere/windhover/kernels"), "{said}");
}

/// A plan whose every time is the guest's.
const PLAN: &str = "name = \"t\"\nrepetitions = 1\nseed = 7\n[lab]\nkind = \"guest\"\nkernel = \"debian-6.1 preempt=full\"\n\
                    [roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n[measure]\nseconds = 0.1\nwarmup_count = 100\n\
                    policy = \"fifo:50\"\n[[grid]]\nprobe = [\"pingpong\"]\nprotocol = [\"udp\"]\n";

#[test]
#[ignore = "boots a kernel twice"]
fn a_plan_measures_another_kernel_and_its_median_repeats() {
    let mut medians = Vec::new();
    for round in ["one", "two"] {
        let folder = Folder::new(&format!("guest-plan-{round}"));
        let plan = folder.file("plan.toml", PLAN);
        let output = windhover(&["campaign", "run", &plan, "--output", folder.path()]).output().unwrap();
        assert_code(&output, 0);
        assert!(stdout(&output).contains("simulated-time"), "{}", stdout(&output));
        let directory = run_directory(&folder.0);
        let read = |path: &Path| -> serde_json::Value {
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
        };
        let document = read(&directory.join("run.json"));
        assert_eq!(document["substrate"], "simulated-time");
        let machines = document["machines"].as_object().unwrap();
        assert_eq!(machines.len(), 1);
        let machine = machines.values().next().unwrap();
        assert!(machine["kernel_release"].as_str().unwrap().starts_with("6.1."), "{machine}");
        assert_eq!(machine["preemption"], "PREEMPT_DYNAMIC (full)");
        assert_eq!((&machine["hz"], &machine["clocksource"]), (&serde_json::json!(250), &serde_json::json!("tsc")));
        let cell = read(cell_files(&directory).first().unwrap());
        assert_eq!(cell["messages"]["lost"], 0);
        medians.push(cell["latency"]["p50_ns"].as_f64().unwrap());
    }
    let apart = (medians[0] - medians[1]).abs() / medians[0];
    assert!(apart <= 0.001, "medians of two boots: {medians:?} ns");
}

#[test]
#[ignore = "boots a kernel"]
fn a_program_runs_on_a_host_of_a_guest() {
    let script = "echo out; echo err >&2; cat /proc/sys/kernel/hostname; exit 7";
    let folder = Folder::new("guest-program");
    let archive = folder.0.join("overlay.cpio");
    // A shell joins the image.
    let busybox = Path::new("/bin/busybox");
    assert!(busybox.exists(), "no {}: cargo xtask test --guest installs busybox-static", busybox.display());
    let pack = format!(
        "mkdir -p bin && cp {0} bin/sh && cp {0} bin/cat && find bin | {0} cpio -o -H newc >{1}",
        busybox.display(),
        archive.display()
    );
    assert!(Command::new("sh").args(["-c", &pack]).current_dir(&folder.0).status().unwrap().success());
    let console = folder.0.join("console");
    let arguments = ["lab", "boot", "debian-6.1", "--host", "b", "--overlay", archive.to_str().unwrap(), "--console"];
    let output = windhover(&arguments).arg(&console).args(["--", "/bin/sh", "-c", script]).output().unwrap();
    assert_code(&output, 7);
    assert_eq!(stdout(&output), "out\nguest\n");
    let said = stderr(&output);
    assert!(said.contains("err\n") && said.contains("is up after"), "{said}");
    assert!(std::fs::read_to_string(&console).unwrap().contains("reboot: Power down"));
}

#[test]
#[ignore = "boots a kernel"]
fn a_guest_ends_with_its_owner_and_at_its_limit() {
    let command = ["lab", "boot", "debian-6.1", "--hosts", "0", "--limit", "1", "--", "/usr/bin/ip", "monitor"];
    let output = windhover(&command).output().unwrap();
    assert_code(&output, 1);
    assert!(stderr(&output).contains("/usr/bin/ip monitor was not done in 1 s"), "{}", stderr(&output));
    let mut owner = windhover(&["lab", "boot", "debian-6.1", "--hosts", "0"]).stderr(Stdio::null()).spawn().unwrap();
    let emulator = |of: u32| {
        let children = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
        let name = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        children.split_whitespace().find(|pid| name(pid).starts_with("qemu")).map(str::to_owned)
    };
    let until = Instant::now() + Duration::from_secs(60);
    let pid = loop {
        if let Some(pid) = emulator(owner.id()) {
            break pid;
        }
        assert!(Instant::now() < until, "no emulator was started");
        std::thread::sleep(Duration::from_millis(20));
    };
    owner.kill().unwrap();
    owner.wait().unwrap();
    while Path::new("/proc").join(&pid).exists() {
        assert!(Instant::now() < until, "the emulator outlives its owner");
        std::thread::sleep(Duration::from_millis(20));
    }
}
