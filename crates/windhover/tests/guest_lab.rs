//! Guests as labs. What boots one takes a while and a kernel: it is ignored, and part of `cargo xtask test --guest`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "tests panic, and say what they measured"
)]

mod support;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
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
    // The emulator that seems to be there knows no device.
    let older = boot(&folder, &["debian-6.1", "--nic", "igb"]).output().unwrap();
    assert_code(&older, 2);
    let why = "a QEMU that has the NIC igb: there is no apt-get: install apt, or install QEMU 8.0 or newer";
    assert!(stderr(&older).contains(why), "{}", stderr(&older));
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

/// A cache with a kernel in it, and an emulator that is this file's test `emulator`: it starts nothing, and speaks as a guest does.
struct Fake {
    folder: Folder,
    lab: String,
    /// A lab that is made removes the stale ones of other tests.
    _turn: MutexGuard<'static, ()>,
}

impl Fake {
    fn new(name: &str) -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = Folder::new(name);
        let kernel = folder.0.join("cache/windhover/kernels/debian-6.1");
        let modules = kernel.join("lib/modules/6.1.0-fake");
        for place in [&kernel.join("boot"), &modules, &folder.0.join("bin"), &folder.0.join("tmp")] {
            std::fs::create_dir_all(place).unwrap();
        }
        std::fs::write(kernel.join("release"), "6.1.0-fake").unwrap();
        std::fs::write(kernel.join("boot/vmlinuz-6.1.0-fake"), "").unwrap();
        let built_in = ["virtio_pci", "virtio_console", "veth", "bridge"].map(|name| format!("{name}.ko\n")).concat();
        std::fs::write(modules.join("modules.builtin"), built_in).unwrap();
        let emulator = folder.0.join("bin/qemu-system-x86_64");
        let own = std::env::current_exe().unwrap();
        let script = format!(
            "#!/bin/sh\nEMULATED=\"$*\" EMULATOR={} exec {} --ignored --exact emulator --nocapture\n",
            folder.path(),
            own.display()
        );
        std::fs::write(&emulator, script).unwrap();
        std::fs::set_permissions(&emulator, std::fs::Permissions::from_mode(0o755)).unwrap();
        let lab = format!("fake{}{}", name.len(), std::process::id());
        Self { folder, lab, _turn: turn }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = windhover(arguments);
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}/bin:{path}", self.folder.path()));
        command.env("XDG_CACHE_HOME", self.folder.0.join("cache")).env("TMPDIR", self.folder.0.join("tmp"));
        command
    }

    #[track_caller]
    fn run(&self, arguments: &[&str], code: i32) -> String {
        let output = self.command(arguments).output().unwrap();
        assert_code(&output, code);
        format!("{}{}", stdout(&output), stderr(&output))
    }

    fn up(&self) -> String {
        self.run(&["lab", "up", &self.lab, "--guest", "debian-6.1"], 0)
    }

    fn record(&self) -> Option<serde_json::Value> {
        let listed: serde_json::Value = serde_json::from_str(&self.run(&["lab", "list", "--json"], 0)).unwrap();
        listed.as_array().unwrap().iter().find(|lab| lab["name"] == self.lab.as_str()).cloned()
    }

    fn emulator(&self) -> Option<u32> {
        std::fs::read_to_string(self.folder.0.join("emulator")).ok()?.parse().ok()
    }

    /// Neither an emulator nor a file of a guest.
    #[track_caller]
    fn nothing_runs(&self) {
        let emulator = self.emulator().unwrap();
        support::until("the emulator is gone", || !Path::new("/proc").join(emulator.to_string()).exists());
        let files = || std::fs::read_dir(self.folder.0.join("tmp")).unwrap().map(|entry| entry.unwrap().path());
        support::until("no folder of a guest is left", || files().next().is_none());
    }

    fn kill(process: u32) {
        assert!(Command::new("kill").args(["-9", &process.to_string()]).status().unwrap().success());
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = self.command(&["lab", "down", &self.lab]).output();
    }
}

/// What stands in for QEMU and the guest in it ([`Fake`]).
#[test]
#[ignore = "started by other tests"]
fn emulator() {
    let (Ok(arguments), Ok(folder)) = (std::env::var("EMULATED"), std::env::var("EMULATOR")) else { return };
    let folder = Path::new(&folder);
    let file = |before: &str, after: &str| {
        let value = arguments.split_whitespace().find_map(|word| word.split(before).nth(1)?.split(',').next()).unwrap();
        assert!(value.ends_with(after), "{value}");
        std::path::PathBuf::from(value)
    };
    std::fs::write(folder.join("line"), &arguments).unwrap();
    std::fs::write(folder.join("emulator"), std::process::id().to_string()).unwrap();
    let (console, control) = (file("id=console,path=", "/console"), file("id=port0,path=", "/control"));
    let listener = std::os::unix::net::UnixListener::bind(control).unwrap();
    let (port, _) = listener.accept().unwrap();
    let port = Mutex::new(port);
    let say = |value: serde_json::Value| {
        use std::io::Write as _;
        writeln!(port.lock().unwrap(), "{value}").unwrap();
    };
    if folder.join("slow").exists() {
        std::thread::sleep(Duration::from_secs(600));
    }
    let host = |name: &str, number: u8| serde_json::json!({ "name": name, "netns": null, "ipv4": format!("198.18.0.{number}"), "ipv6": null, "device": "wh0" });
    let hosts = [host("a", 1), host("b", 2)];
    say(
        serde_json::json!({ "up": { "hosts": hosts, "release": "6.1.0-fake", "boot_id": "x", "command_line": "", "uptime_ms": 1 } }),
    );
    let lines = std::io::BufReader::new(port.lock().unwrap().try_clone().unwrap());
    for line in std::io::BufRead::lines(lines).map_while(Result::ok) {
        let order: serde_json::Value = serde_json::from_str(&line).unwrap();
        let said = |id: &serde_json::Value, event: serde_json::Value| {
            say(serde_json::json!({ "program": { "id": id, "event": event } }));
        };
        let (run, signal) = (&order["run"], &order["signal"]);
        match run["argv"][0].as_str() {
            Some("crash") => {
                std::fs::write(&console, "\u{1b}[1;31mone\u{1b}[0m\nKernel panic - not syncing: a test\n").unwrap();
                return;
            }
            Some("wait") => std::fs::write(folder.join("waits"), "").unwrap(),
            Some(_) => {
                said(&run["id"], serde_json::json!({ "output": { "error": false, "bytes": "b3V0Cg==" } }));
                said(&run["id"], serde_json::json!({ "ended": 7 }));
            }
            None if signal.is_object() => {
                said(&signal["id"], serde_json::json!({ "ended": 128 + signal["signal"].as_i64().unwrap() }));
            }
            None => return,
        }
    }
}

#[test]
fn a_guest_lab_runs_commands_until_it_is_taken_down() {
    let fake = Fake::new("guest-up");
    let made = fake.up();
    assert!(made.contains(&format!("{}/b", fake.lab)) && made.contains("(guest debian-6.1, icount)"), "{made}");
    assert!(!made.contains('{'), "what the processes tell each other is printed: {made}");
    let again = fake.run(&["lab", "up", &fake.lab, "--guest", "debian-6.1"], 2);
    assert!(again.contains("exists (of process ") && again.lines().count() == 1, "{again}");
    // One command waits while others run.
    let host = format!("{}/a", fake.lab);
    let mut waiting = fake.command(&["lab", "exec", &host, "wait"]).stdout(Stdio::null()).spawn().unwrap();
    support::until("one waits", || fake.folder.0.join("waits").exists());
    for _ in 0..2 {
        let output =
            fake.command(&["lab", "exec", &format!("{}/b", fake.lab), "--", "any", "--flag"]).output().unwrap();
        assert_code(&output, 7);
        assert_eq!(stdout(&output), "out\n");
        // Catches: figures from a guest stood there without the word that they are simulated.
        assert!(stderr(&output).contains("simulated") && stderr(&output).lines().count() == 1, "{}", stderr(&output));
    }
    assert!(waiting.try_wait().unwrap().is_none(), "it waits no more");
    Command::new("kill").args(["-INT", &waiting.id().to_string()]).status().unwrap();
    assert_eq!(waiting.wait().unwrap().code(), Some(128 + 15), "the program was not asked to end");
    let unknown = fake.run(&["lab", "exec", &format!("{}/c", fake.lab), "any"], 2);
    assert!(unknown.contains("has no host 'c': it has a, b"), "{unknown}");
    fake.run(&["lab", "down", &fake.lab], 0);
    assert_eq!(fake.record(), None);
    fake.nothing_runs();
}

/// Catches: `lab boot` took the words behind a kernel as a part of its name.
#[test]
fn words_behind_a_kernel_reach_a_guest_that_is_booted() {
    let fake = Fake::new("guest-words");
    let output =
        fake.command(&["lab", "boot", "debian-6.1 threadirqs", "--word", "quiet", "--", "any"]).output().unwrap();
    assert_code(&output, 7);
    assert_eq!(stdout(&output), "out\n");
    assert!(stderr(&output).contains("simulated"), "{}", stderr(&output));
    let line = std::fs::read_to_string(fake.folder.0.join("line")).unwrap();
    assert!(line.contains(" threadirqs quiet "), "{line}");
}

#[test]
fn a_guest_lab_whose_holder_or_emulator_is_killed_leaves_only_its_record() {
    let fake = Fake::new("guest-killed");
    fake.up();
    let holder = u32::try_from(fake.record().unwrap()["owner"]["pid"].as_u64().unwrap()).unwrap();
    Fake::kill(holder);
    fake.nothing_runs();
    assert_eq!(fake.record().unwrap()["stale"], true);
    let listed = fake.run(&["lab", "list"], 0);
    assert!(listed.contains("stale, its owner is gone"), "{listed}");
    let host = format!("{}/a", fake.lab);
    let refused = fake.run(&["lab", "exec", &host, "any"], 2);
    assert!(refused.contains("is stale, its owner is gone: remove it with windhover lab down"), "{refused}");
    // A new one of the name takes the stale one's place.
    fake.up();
    Fake::kill(fake.emulator().unwrap());
    support::until("the lab is stale", || fake.record().unwrap()["stale"] == true);
    let listed = fake.run(&["lab", "list"], 0).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(listed.contains("stale, the guest ended (qemu-system-x86_64: signal: 9 (SIGKILL))"), "{listed}");
    fake.nothing_runs();
    fake.run(&["lab", "down", &fake.lab], 0);
    assert_eq!(fake.record(), None);
}

#[test]
fn a_guest_that_crashes_is_told_with_its_console() {
    let fake = Fake::new("guest-crash");
    fake.up();
    let host = format!("{}/a", fake.lab);
    fake.run(&["lab", "exec", &host, "crash"], 1);
    support::until("the lab is stale", || fake.record().unwrap()["stale"] == true);
    let ended = fake.record().unwrap()["ended"].as_str().unwrap().to_owned();
    assert!(
        ended.starts_with("the guest ended; its console ends: one | Kernel panic - not syncing: a test"),
        "{ended}"
    );
    let down = fake.run(&["lab", "down", "--stale"], 0);
    assert!(down.contains(&format!("removed the stale lab '{}'", fake.lab)), "{down}");
    fake.nothing_runs();
}

#[test]
fn a_killed_command_leaves_no_guest_that_it_was_booting() {
    let fake = Fake::new("guest-boot-killed");
    fake.folder.file("slow", "");
    let up = ["lab", "up", fake.lab.as_str(), "--guest", "debian-6.1"];
    for arguments in [&up[..], &["lab", "boot", "debian-6.1"]] {
        let _ = std::fs::remove_file(fake.folder.0.join("emulator"));
        let mut command = fake.command(arguments).stderr(Stdio::null()).spawn().unwrap();
        support::until("an emulator runs", || fake.emulator().is_some());
        command.kill().unwrap();
        command.wait().unwrap();
        fake.nothing_runs();
        support::until("no lab is left", || fake.record().is_none());
    }
}

/// Catches: a campaign that was interrupted while its guest booted failed (exit code 1).
#[test]
fn an_interrupted_boot_is_no_failure() {
    let fake = Fake::new("guest-boot-interrupted");
    fake.folder.file("slow", "");
    let plan = fake.folder.file("plan.toml", PLAN);
    let kernels = PLAN.replace("kernel = \"debian-6.1 preempt=full\"\n", "");
    let kernels = fake.folder.file("kernels.toml", &format!("{kernels}kernel = [\"guest:debian-6.1\"]\n"));
    let campaign = |plan| vec!["campaign", "run", plan, "--output", fake.folder.path()];
    for arguments in [campaign(&plan), campaign(&kernels), vec!["lab", "boot", "debian-6.1"]] {
        let _ = std::fs::remove_file(fake.folder.0.join("emulator"));
        let mut command = fake.command(&arguments);
        let command = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        support::until("an emulator runs", || fake.emulator().is_some());
        assert!(Command::new("kill").args(["-INT", &command.id().to_string()]).status().unwrap().success());
        let output = command.wait_with_output().unwrap();
        assert_code(&output, 130);
        assert!(stderr(&output).contains("interrupted"), "{arguments:?}: {}", stderr(&output));
        fake.nothing_runs();
    }
}

/// Another campaign is stood in for by its lock.
#[test]
fn a_lab_that_a_campaign_uses_is_refused_to_another() {
    let fake = Fake::new("guest-used");
    fake.up();
    let plan = fake.folder.file("plan.toml", PLAN);
    let record = fake.record().unwrap();
    let folder = Path::new(record["guests"][0]["folder"].as_str().unwrap());
    let used = std::fs::File::create(folder.join("used")).unwrap();
    used.lock().unwrap();
    let said = fake.run(&["campaign", "run", &plan, "--lab", &fake.lab, "--output", fake.folder.path()], 2);
    let line =
        format!("lab '{}' is in use by another campaign: wait for its end, or make a lab of another name", fake.lab);
    assert!(said.contains(&line) && said.lines().count() == 1, "{said}");
}

#[test]
fn guests_that_cannot_be_a_lab_are_one_line() {
    let fake = Fake::new("guest-not-a-lab");
    let wire = ["--guest", "debian-6.1", "--guest", "debian-6.1"];
    let cases: [(&[&str], i32, &str); 6] = [
        (&["--guest", "debian-7"], 2, "kernel 'debian-7' is not known"),
        (&wire, 2, "in mode icount two guests have clocks that are not related: add --mode tcg, or --mode kvm"),
        (&["--guest", "debian-6.1", "--cpus", "2"], 2, "mode icount cannot run 2 CPUs"),
        (&["--guest", "debian-6.1", "--hosts", "0"], 2, "a lab cannot have 0 hosts"),
        (&["--mode", "tcg"], 2, "add --guest KERNEL"),
        (&[&wire[..], &["--hosts", "4"]].concat(), 2, "guests on a wire have one host each: leave --hosts out"),
    ];
    for (arguments, code, words) in cases {
        let said = fake.run(&[&["lab", "up", &fake.lab], arguments].concat(), code);
        assert!(said.contains(words) && said.lines().count() == 1, "{arguments:?}: {said}");
        assert_eq!(fake.record(), None, "{arguments:?}");
    }
    let plan = fake.folder.file("plan.toml", PLAN);
    let said = fake.run(&["campaign", "run", &plan, "--lab", "nowhere"], 2);
    assert!(said.contains("there is no lab named 'nowhere'") && said.lines().count() == 1, "{said}");
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

/// They share the cache, where both want the same image, and the registry of labs.
#[test]
#[ignore = "boots two guests at once"]
fn two_campaigns_that_boot_guests_at_once_both_measure() {
    let folders = ["guest-at-once-one", "guest-at-once-two"].map(Folder::new);
    let started = folders.each_ref().map(|folder| {
        let plan = folder.file("plan.toml", PLAN);
        let mut command = windhover(&["campaign", "run", &plan, "--output", folder.path()]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    });
    for (campaign, folder) in started.into_iter().zip(&folders) {
        let output = campaign.wait_with_output().unwrap();
        assert_code(&output, 0);
        assert_eq!(cell_files(&run_directory(&folder.0)).len(), 1, "{}", stderr(&output));
    }
}

/// Catches: a setting that does not reach the device of a host in a guest, or the wrong one; a stack that a guest cannot
/// start; a NIC whose driver is not the kernel's own.
#[test]
#[ignore = "boots a kernel, and fetches a QEMU that has the NIC once"]
fn a_nic_s_moderation_and_a_stack_are_axes_of_a_lab_in_a_guest() {
    let (default, off, long) = ("none", "nic.coalesce.rx-usecs=0", "nic.coalesce.rx-usecs=100");
    let plan = PLAN
        .replace("debian-6.1 preempt=full\"", "debian-6.12\"\nnic = \"igb\"")
        .replace("seconds = 0.1", "count = 500");
    let plan = format!("{plan}knob = [\"{default}\", \"{off}\", \"{long}\"]\n[[grid]]\nstack = [\"spin\"]\n");
    let folder = Folder::new("guest-nic");
    let file = folder.file("plan.toml", &plan);
    let output = windhover(&["campaign", "run", &file, "--output", folder.path()]).output().unwrap();
    assert_code(&output, 0);
    let results = support::results(&run_directory(&folder.0));
    assert_eq!(results.len(), 4);
    let mean = |knob: &str| {
        let is_it =
            |result: &&serde_json::Value| result["factors"]["knob"] == knob && result["factors"]["stack"] != "spin";
        let result = results.iter().find(is_it).unwrap();
        assert_eq!(result["messages"]["lost"], 0, "{knob}");
        result["latency"]["mean_ns"].as_f64().unwrap()
    };
    let means = [mean(off), mean(default), mean(long)];
    println!("mean of RTT/2 in ns: rx-usecs 0, 3, 100: {means:?}");
    assert!(means[0] <= means[1] * 0.75 && means[2] >= means[1] * 1.25, "{means:?}");
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

/// Ends a lab also when a test fails.
struct Made(String);

impl Drop for Made {
    fn drop(&mut self) {
        let _ = windhover(&["lab", "down", &self.0]).output();
    }
}

/// Serves on host b of a lab while host a measures over UDP; gives back the result document.
fn pingpong(lab: &str) -> serde_json::Value {
    let on = |host: &str| format!("{lab}/{host}");
    let (a, b) = (on("a"), on("b"));
    let serve = ["lab", "exec", &b, "--", "windhover", "--quiet", "serve", "--bind", "198.18.0.2"];
    let mut serving = windhover(&serve).stdout(Stdio::null()).spawn().unwrap();
    let measure = ["windhover", "pingpong", "udp", "198.18.0.2", "--count", "500", "--format", "json"];
    let until = Instant::now() + Duration::from_secs(300);
    let output = loop {
        // Until it serves.
        let output = windhover(&["lab", "exec", &a, "--"]).args(measure).output().unwrap();
        if matches!(output.status.code(), Some(0 | 4)) || Instant::now() > until {
            break output;
        }
        std::thread::sleep(Duration::from_secs(1));
    };
    Command::new("kill").args(["-INT", &serving.id().to_string()]).status().unwrap();
    let ended = serving.wait().unwrap();
    assert_eq!(ended.code(), Some(0), "serve was not ended in order: {ended}");
    support::assert_measured(&output);
    serde_json::from_str(stdout(&output).lines().next().unwrap()).unwrap()
}

#[test]
#[ignore = "boots a kernel"]
fn a_lab_in_a_guest_is_measured_by_commands_and_campaigns() {
    let folder = Folder::new("guest-lab");
    let name = format!("g{}", std::process::id());
    let made = Made(name.clone());
    let up = ["lab", "up", &name, "--guest", "debian-6.1 preempt=full", "--word", "threadirqs"];
    assert_code(&windhover(&up).output().unwrap(), 0);
    let document = pingpong(&name);
    assert_eq!((&document["messages"]["lost"], &document["messages"]["received"]), (&0.into(), &500.into()));
    let plan = folder.file("plan.toml", PLAN);
    let run = ["campaign", "run", &plan, "--lab", &name, "--output", folder.path()];
    for round in 1..=2 {
        let output = windhover(&run).output().unwrap();
        assert_code(&output, 0);
        assert!(stdout(&output).contains("simulated-time"), "round {round}: {}", stdout(&output));
    }
    let listed = stdout(&windhover(&["lab", "list"]).output().unwrap());
    assert!(listed.contains(&format!("{name}/a")), "the campaign took the lab down: {listed}");
    assert_code(&windhover(&["lab", "down", &name]).output().unwrap(), 0);
    drop(made);
}

#[test]
#[ignore = "boots two kernels"]
fn two_guests_on_a_wire_measure_end_to_end() {
    let name = format!("w{}", std::process::id());
    let made = Made(name.clone());
    let up = ["lab", "up", &name, "--guest", "debian-6.1", "--guest", "debian-6.1-rt", "--mode", "tcg"];
    assert_code(&windhover(&up).output().unwrap(), 0);
    let release = |host: &str| {
        let output = windhover(&["lab", "exec", &format!("{name}/{host}"), "--", "windhover", "doctor", "--json"])
            .output()
            .unwrap();
        let document: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        document["machine"]["kernel_release"].as_str().unwrap().to_owned()
    };
    assert!(!release("a").contains("-rt-") && release("b").contains("-rt-"));
    let document = pingpong(&name);
    assert_eq!((&document["messages"]["lost"], &document["messages"]["received"]), (&0.into(), &500.into()));
    let folder = Folder::new("guest-wire");
    let plan = folder.file("plan.toml", PLAN);
    let output = windhover(&["campaign", "run", &plan, "--lab", &name, "--output", folder.path()]).output().unwrap();
    let directory = run_directory(&folder.0);
    let cells = support::assert_run_measured(&output, &directory);
    assert_eq!((cells.len(), &cells[0]["messages"]["lost"]), (1, &0.into()));
    let document: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(directory.join("run.json")).unwrap()).unwrap();
    assert_eq!((&document["substrate"], document["machines"].as_object().unwrap().len()), (&"simulated".into(), 2));
    assert_code(&windhover(&["lab", "down", &name]).output().unwrap(), 0);
    drop(made);
}
