//! `windhover tune`: what it says, what it changes on trees of files, in a namespace and on this machine, and that
//! nothing is lost when it is killed.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use host::knob::{Knob, Settings as _};
use host::undo::{Change, ChangeOutcome, KILL_AT, SetHeader, StateDir};
use prepare::Kernel;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use support::{
    Folder, alone_on_machine, assert_code, assert_refused, can_make_namespaces, fits_every_width, is_root, run, stderr,
    stdout, windhover,
};

const PATIENCE: Duration = Duration::from_secs(30);

/// A tree of files that looks like a small machine.
fn plant(name: &str) -> Folder {
    let folder = Folder::new(name);
    for (file, content) in FILES {
        let path = folder.0.join("root").join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{content}\n")).unwrap();
    }
    folder
}

const FILES: [(&str, &str); 7] = [
    ("proc/sys/net/core/busy_poll", "0"),
    ("proc/sys/kernel/timer_migration", "1"),
    ("proc/sys/vm/stat_interval", "1"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "madvise"),
    ("sys/class/net/eth0/ifindex", "2"),
    ("devices/eth0/coalesce/rx-usecs", "50"),
    ("devices/eth0/coalesce/adaptive-rx", "on"),
];

fn contents(folder: &Folder) -> BTreeMap<&'static str, String> {
    let text = |file: &str| std::fs::read_to_string(folder.0.join("root").join(file)).unwrap().trim().to_owned();
    FILES.iter().map(|(file, _)| (*file, text(file))).collect()
}

fn planted() -> BTreeMap<&'static str, String> {
    FILES.iter().map(|(file, content)| (*file, (*content).to_owned())).collect()
}

/// `windhover tune …` on such a tree.
fn tune(folder: &Folder, arguments: &[&str]) -> Command {
    let mut command = windhover(&["tune"]);
    command.args(arguments).arg("--root").arg(folder.0.join("root")).arg("--state-dir").arg(folder.0.join("state"));
    command
}

fn tuned(folder: &Folder, arguments: &[&str]) -> Output {
    tune(folder, arguments).output().unwrap()
}

#[test]
fn what_is_to_be_installed() {
    for form in ["grub", "systemd", "tuned", "udev"] {
        let flag = format!("--{form}");
        let output = run(&["tune", "emit", "paper-2019", &flag, "--nic", "eth0", "--set", "nic.napi.threaded=on"]);
        assert_code(&output, 0);
        insta::assert_snapshot!(format!("tune-emit-{form}"), stdout(&output));
    }
    let output = run(&["tune", "emit", "latency", "--systemd", "--set", "service.irqbalance=ban-cpus"]);
    assert!(stdout(&output).contains("IRQBALANCE_BANNED_CPULIST"), "{}", stdout(&output));
    assert_refused(&["tune", "emit", "latency", "--udev"], 2, &["--nic IF"]);
    assert_code(&run(&["tune", "emit", "latency"]), 2);
    assert_code(&run(&["tune", "emit", "latency", "--grub", "--udev"]), 2);
}

#[test]
fn profiles_are_listed_and_shown() {
    let list = stdout(&run(&["tune", "list"]));
    for name in ["latency", "network-latency", "paper-2012", "paper-2019", "throughput"] {
        assert!(list.lines().any(|line| line.split_whitespace().next() == Some(name)), "{list}");
    }
    let shown = stdout(&run(&["tune", "show", "paper-2012"]));
    assert!(shown.contains("nic.coalesce.adaptive-rx=off") && shown.contains("windhover shield"), "{shown}");
    let json: serde_json::Value = serde_json::from_str(&stdout(&run(&["tune", "show", "latency", "--json"]))).unwrap();
    assert!(json["settings"].as_array().unwrap().iter().all(|setting| setting["why"].is_string()), "{json}");
    assert_refused(&["tune", "show", "latencies"], 2, &["latencies", "paper-2012", ".toml"]);
    assert_refused(&["tune", "diff", "latency", "--set", "memory.tph=never"], 2, &["memory.tph", "memory.thp"]);
    assert_refused(&["tune", "diff", "latency", "--set", "memory.thp=rarely"], 2, &["rarely", "madvise"]);
    assert_refused(&["tune", "diff", "latency", "--nic", "nope0"], 2, &["nope0", "lo"]);
    // With a device and without: a feature that no device can have.
    for nic in [&["--nic", "lo"][..], &[]] {
        let mistyped = ["tune", "apply", "latency", "--dry-run", "--set", "nic.feature.grro=off"];
        assert_refused(&[&mistyped, nic].concat(), 2, &["nic.feature.grro", "'nic.feature.gro'"]);
    }
}

#[test]
fn what_it_says_fits_the_terminal() {
    let folder = plant("tune-width");
    let (root, state) = (folder.0.join("root").display().to_string(), folder.0.join("state").display().to_string());
    let place = ["--root", &root, "--state-dir", &state];
    fits_every_width(&["tune", "list"]);
    for profile in ["latency", "paper-2012", "paper-2019"] {
        fits_every_width(&["tune", "show", profile]);
        fits_every_width(&[&["tune", "diff", profile, "--nic", "eth0"], &place[..]].concat());
    }
    assert_code(&tuned(&folder, &["apply", "network-latency", "--nic", "eth0", "--yes"]), 0);
    std::fs::write(folder.0.join("root/proc/sys/vm/stat_interval"), "3\n").unwrap();
    fits_every_width(&[&["tune", "verify", "network-latency", "--nic", "eth0"], &place[..]].concat());
    fits_every_width(&[&["undo", "--list"], &place[..]].concat());
    let undone = tune(&folder, &["undo"]).env("COLUMNS", "80").output().unwrap();
    assert_code(&undone, 1);
    let text = stdout(&undone);
    assert!(text.contains("stat_interval") && text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

/// A script that only forgot --dry-run changed the machine, and so did a pipeline whose runner sets CI.
#[test]
fn without_a_terminal_and_yes_nothing_is_applied() {
    let folder = plant("tune-unasked");
    for ci in ["", "true"] {
        for form in ["text", "json"] {
            let mut apply = tune(&folder, &["apply", "network-latency", "--nic", "eth0", "--format", form]);
            let refused = apply.env("CI", ci).output().unwrap();
            assert_code(&refused, 2);
            assert!(
                stderr(&refused).contains("no terminal to ask, nothing was changed: add --yes"),
                "{}",
                stderr(&refused)
            );
            let dry = tuned(&folder, &["apply", "network-latency", "--nic", "eth0", "--format", form, "--dry-run"]);
            assert_eq!(stdout(&refused), stdout(&dry), "it prints what it would do");
            assert!(stdout(&refused).contains("busy_poll"), "{}", stdout(&refused));
        }
    }
    assert_eq!(contents(&folder), planted());
    assert!(!folder.0.join("state").exists());
    assert_code(&tuned(&folder, &["apply", "network-latency", "--nic", "eth0", "--yes"]), 0);
    assert_ne!(contents(&folder), planted());
    // Nothing to change, nothing to ask.
    assert_code(&tuned(&folder, &["apply", "network-latency", "--nic", "eth0"]), 0);
    assert_code(&tuned(&folder, &["undo"]), 0);
    assert_eq!(contents(&folder), planted());
}

#[test]
fn a_dry_run_is_what_apply_does() {
    let folder = plant("tune-dry");
    let both = |arguments: &[&str]| {
        let mut all =
            vec!["apply", "network-latency", "--nic", "eth0", "--set", "nic.coalesce.rx-usecs=0", "--json", "--yes"];
        all.extend(arguments);
        let output = tuned(&folder, &all);
        assert_code(&output, 0);
        serde_json::from_str::<serde_json::Value>(&stdout(&output)).unwrap()
    };
    let knobs = |changes: &serde_json::Value, of: &str| -> Vec<serde_json::Value> {
        let changes = changes.as_array().unwrap().iter();
        changes.map(|entry| entry.pointer(of).unwrap()["knob"].clone()).collect()
    };
    let plan = both(&["--dry-run"]);
    assert_eq!(contents(&folder), planted(), "a dry run changes nothing");
    assert!(!folder.0.join("state").exists());
    let report = both(&[]);
    let made = knobs(&report["changed"], "/planned/change");
    assert_eq!(made, knobs(&plan["changes"], "/change"));
    assert_eq!(made.len(), 5, "{report}");
    assert!(report["skipped"].to_string().contains("cpufreq.governor"), "{report}");

    // Once more: nothing is written, nothing is logged.
    let again = both(&[]);
    assert_eq!((again["set"].clone(), again["changed"].as_array().unwrap().len()), (serde_json::Value::Null, 0));
    assert_code(
        &tuned(&folder, &["verify", "network-latency", "--nic", "eth0", "--set", "nic.coalesce.rx-usecs=0"]),
        0,
    );

    let path = folder.0.join("root/proc/sys/vm/stat_interval");
    std::fs::write(&path, "3\n").unwrap();
    let verified = tuned(&folder, &["verify", "network-latency", "--nic", "eth0"]);
    assert_code(&verified, 3);
    assert!(stdout(&verified).contains("stat_interval: wanted '10', it is '3'"), "{}", stdout(&verified));
    let undone = tuned(&folder, &["undo", "network-latency"]);
    assert_code(&undone, 1);
    assert!(stdout(&undone).contains("stat_interval"), "{}", stdout(&undone));
    assert_eq!(std::fs::read_to_string(&path).unwrap().trim(), "3", "another's value stays");
    std::fs::write(&path, "1\n").unwrap();
    assert_eq!(contents(&folder), planted());
    let nothing = tuned(&folder, &["undo"]);
    assert_code(&nothing, 0);
    assert!(stderr(&nothing).contains("nothing to undo"));
}

/// tuned-adm's words: `profile` is `apply`, `active` says what is in force.
#[test]
fn the_words_of_tuned_adm() {
    let folder = plant("tune-active");
    let active = || {
        let output = tuned(&folder, &["active", "--json"]);
        assert_code(&output, 0);
        serde_json::from_str::<serde_json::Value>(&stdout(&output)).unwrap()
    };
    assert_eq!(active(), serde_json::json!({ "applied": [], "boot": null }));
    assert!(stdout(&tuned(&folder, &["active"])).contains("no profile is applied"));
    assert_code(&tuned(&folder, &["profile", "network-latency", "--yes"]), 0);
    let now = active();
    let applied = now["applied"].as_array().unwrap();
    assert_eq!(applied.len(), 1, "{now}");
    assert_eq!((&applied[0]["profile"], &applied[0]["changes"]), (&"network-latency".into(), &4.into()), "{now}");
    assert_eq!(applied[0]["changed_since"], serde_json::json!([]), "{now}");
    let text = stdout(&tuned(&folder, &["active"]));
    assert!(text.contains("now: network-latency, set 0001, 4 settings, all hold"), "{text}");
    // Another changes one of them.
    std::fs::write(folder.0.join("root/proc/sys/vm/stat_interval"), "3\n").unwrap();
    let text = stdout(&tuned(&folder, &["active"]));
    assert!(text.contains("changed since then: ") && text.contains("stat_interval"), "{text}");
    assert_code(&tuned(&folder, &["undo", "--force"]), 0);
    assert_eq!((active()["applied"].clone(), contents(&folder)), (serde_json::json!([]), planted()));
}

/// The reason is what the machine is: here two CPUs, a device and no hypervisor; with eight CPUs polling pays.
#[test]
fn the_profile_that_fits_is_named() {
    let folder = plant("tune-recommend");
    let root = folder.0.join("root");
    for (file, content) in [
        ("sys/devices/system/cpu/online", "0-1"),
        ("sys/class/net/eth0/carrier", "1"),
        ("proc/cpuinfo", "flags\t\t: fpu tsc"),
        ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC"),
    ] {
        std::fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
        std::fs::write(root.join(file), format!("{content}\n")).unwrap();
    }
    std::fs::create_dir_all(root.join("sys/class/net/eth0/device")).unwrap();
    std::os::unix::fs::symlink("../../drivers/ice", root.join("sys/class/net/eth0/device/driver")).unwrap();
    let root = root.display().to_string();
    let recommended = || {
        let output = run(&["tune", "recommend", "--root", &root, "--json"]);
        assert_code(&output, 0);
        serde_json::from_str::<serde_json::Value>(&stdout(&output)).unwrap()
    };
    let small = recommended();
    assert_eq!((&small["profile"], &small["nic"]), (&"latency".into(), &"eth0".into()), "{small}");
    let reason = small["reason"].as_str().unwrap();
    assert!(reason.starts_with("bare metal, 2 CPUs, eth0 (ice), no PREEMPT_RT: "), "{reason}");
    // In words: the reason names the profile that it is against, and the command is a result, too.
    let words = || stdout(&windhover(&["tune", "recommend", "--root", &root]).env_remove("COLUMNS").output().unwrap());
    let text = words();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("latency: ") && lines[0].ends_with(", so not network-latency"), "{text}");
    assert_eq!(lines[1..], ["apply it: windhover tune apply latency --nic eth0"], "{text}");
    std::fs::write(folder.0.join("root/sys/devices/system/cpu/online"), "0-7\n").unwrap();
    assert_eq!(recommended()["command"], "windhover tune apply network-latency --nic eth0");
    let text = words();
    assert!(text.starts_with("network-latency: ") && !text.contains("not ") && text.lines().count() == 2, "{text}");
    assert_code(&run(&["tune", "recommend"]), 0);
}

/// A profile of each boot: chosen by `--boot`, applied by the unit's command, ended by `tune undo` alone.
#[test]
fn a_profile_that_stays_over_boots() {
    let folder = plant("tune-boot");
    let file = folder.0.join("root/etc/windhover/boot-profile.json");
    let own = folder.file("own.toml", "summary = 'a test'\n[sysctl]\nvm.stat_interval = 10\n");
    let value = || contents(&folder)["proc/sys/vm/stat_interval"].clone();
    // Nothing is written by a dry run, nor outside /etc/windhover.
    assert_code(&tuned(&folder, &["apply", &own, "--boot", "--dry-run"]), 0);
    assert!(!file.exists());
    let applied = tuned(&folder, &["apply", &own, "--boot", "--yes"]);
    assert_code(&applied, 0);
    assert!(stderr(&applied).contains("systemd does not run here"), "{}", stderr(&applied));
    assert_eq!(value(), "10");
    let made: Vec<_> =
        std::fs::read_dir(folder.0.join("root/etc")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(made, ["windhover"]);
    // systemd runs, the unit is not there, is off, is on.
    let root = folder.0.join("root");
    std::fs::create_dir_all(root.join("run/systemd/system")).unwrap();
    let unit = root.join("usr/lib/systemd/system/windhover-tune.service");
    let wanted = root.join("etc/systemd/system/multi-user.target.wants/windhover-tune.service");
    let says = |words: &str| {
        let text = stdout(&tuned(&folder, &["active"]));
        assert!(text.contains("at boot: own, ") && text.contains(words), "{text}");
    };
    says("there is no windhover-tune.service here");
    std::fs::create_dir_all(unit.parent().unwrap()).unwrap();
    std::fs::write(&unit, "").unwrap();
    says("systemctl enable windhover-tune.service");
    std::fs::create_dir_all(wanted.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink("/usr/lib/systemd/system/windhover-tune.service", &wanted).unwrap();
    says("by windhover-tune.service");
    // A boot: the kernel's own values, no undo log, and the profile's file may be gone.
    std::fs::remove_file(&own).unwrap();
    std::fs::remove_dir_all(folder.0.join("state")).unwrap();
    std::fs::write(root.join("proc/sys/vm/stat_interval"), "1\n").unwrap();
    assert_code(&tuned(&folder, &["boot"]), 0);
    assert_eq!(value(), "10");
    // What also runs at each shutdown leaves the choice.
    let place = ["--root", root.to_str().unwrap(), "--state-dir", &folder.0.join("state").display().to_string()]
        .map(str::to_owned);
    let undone = windhover(&["undo"]).args(&place).output().unwrap();
    assert_code(&undone, 0);
    assert!(stderr(&undone).contains("`windhover tune undo own` ends that"), "{}", stderr(&undone));
    assert!(file.exists() && value() == "1");
    // Another profile's undo leaves it, its own ends it.
    assert_code(&tuned(&folder, &["undo", "latency"]), 0);
    assert!(file.exists());
    let ended = tuned(&folder, &["undo", "own"]);
    assert_code(&ended, 0);
    assert!(stderr(&ended).contains("boots no longer apply own") && !file.exists(), "{}", stderr(&ended));
    assert!(stderr(&tuned(&folder, &["boot"])).contains("no profile is chosen for boots"));
    // What others may have written decides nothing.
    std::fs::write(&file, "{}").unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    assert_code(&tuned(&folder, &["boot"]), 1);
}

/// The unit applies what `--boot` chose, and the package knows it.
#[test]
fn the_unit_of_boots_is_packaged() {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let unit = std::fs::read_to_string(packaging.join("systemd/windhover-tune.service")).unwrap();
    assert!(unit.contains("ExecStart=/usr/bin/windhover tune boot\n"), "{unit}");
    assert!(unit.contains("ConditionPathExists=/etc/windhover/boot-profile.json\n"), "{unit}");
    for script in ["postinst", "prerm", "postrm"] {
        let text = std::fs::read_to_string(packaging.join("debian").join(script)).unwrap();
        assert!(text.contains("windhover-tune.service"), "{script}");
    }
}

#[test]
fn killed_at_any_step_and_put_back() {
    let apply = ["apply", "network-latency", "--nic", "eth0", "--set", "nic.coalesce.rx-usecs=0", "--yes"];
    // While it changes, and while it puts back.
    for undoing in [false, true] {
        let mut deaths = 0;
        for step in 1..200 {
            let folder = plant(&format!("tune-kill-{undoing}"));
            if undoing {
                assert_code(&tuned(&folder, &apply), 0);
            }
            let arguments: &[&str] = if undoing { &["undo"] } else { &apply };
            let killed = tune(&folder, arguments).env(KILL_AT, step.to_string()).output().unwrap();
            if killed.status.success() {
                break;
            }
            deaths += 1;
            assert_eq!(killed.status.code(), None, "{}", stderr(&killed));
            assert_code(&tuned(&folder, &["undo"]), 0);
            assert_eq!(contents(&folder), planted(), "undoing: {undoing}, killed at {step}");
        }
        // Five changes with at least three steps each.
        assert!((15..199).contains(&deaths), "{deaths} deaths");
    }
}

/// Settings that harm nobody, in a namespace that ends with the script.
const HARMLESS: &str = "summary = 'a test'\n[sysctl]\nnet.ipv4.ip_default_ttl = 65\nnet.ipv4.tcp_autocorking = 0\n\
    net.core.netdev_budget = 301\n";

#[test]
fn sysctls_of_a_namespace() {
    if !can_make_namespaces("sysctls_of_a_namespace") {
        return;
    }
    let folder = Folder::new("tune-netns");
    let profile = folder.file("harmless.toml", HARMLESS);
    let script = "set -e; ttl() { cat /proc/sys/net/ipv4/ip_default_ttl; }; ttl; $W tune apply $P --yes >&2; ttl; \
        $W tune apply $P --yes | tail -n 1; $W tune verify $P >&2; echo applied; read line; $W tune undo harmless >&2; ttl";
    let mut inside = Command::new("unshare")
        .args(["--net", "sh", "-c", script])
        .env("W", env!("CARGO_BIN_EXE_windhover"))
        .env("P", &profile)
        .env("WINDHOVER_STATE", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(inside.stdout.take().unwrap()).lines().map(Result::unwrap);
    let until: Vec<String> = lines.by_ref().take_while(|line| line != "applied").collect();
    assert_eq!(until, ["64", "65", "nothing had to be changed"]);
    // From this namespace the names would mean other settings; `undo` enters the other one.
    let outside = |arguments: &[&str]| windhover(arguments).env("WINDHOVER_STATE", folder.path()).output().unwrap();
    let refused = outside(&["tune", "undo"]);
    assert_code(&refused, 1);
    assert!(stderr(&refused).contains("another network namespace"), "{}", stderr(&refused));
    let undone = outside(&["undo"]);
    assert_code(&undone, 0);
    assert!(stdout(&undone).contains("2 put back"), "{}", stdout(&undone));
    inside.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert_eq!(lines.next().as_deref(), Some("64"));
    assert!(inside.wait().unwrap().success());
}

#[test]
fn a_setting_of_this_machine_there_and_back() {
    if !is_root() {
        eprintln!("SKIPPED a_setting_of_this_machine_there_and_back: not root");
        return;
    }
    let _lock = alone_on_machine().unwrap();
    let folder = Folder::new("tune-machine");
    let profile = folder.file("stat.toml", "summary = 'a test'\n[sysctl]\nvm.stat_interval = 2\n");
    let value = || std::fs::read_to_string("/proc/sys/vm/stat_interval").unwrap().trim().to_owned();
    let before = value();
    let tune = |arguments: &[&str]| windhover(arguments).env("WINDHOVER_STATE", folder.path()).output().unwrap();
    let applied = tune(&["tune", "apply", &profile, "--yes"]);
    let during = value();
    let undone = tune(&["tune", "undo"]);
    assert_eq!(value(), before);
    assert_code(&applied, 0);
    assert_code(&undone, 0);
    assert_eq!(during, "2");
}

#[test]
fn without_privileges() {
    if !is_root() {
        eprintln!("SKIPPED without_privileges: not root, so no other user can be taken on");
        return;
    }
    let folder = Folder::new("tune-nobody");
    // nobody must be able to run it: the build folder may be closed.
    let program = folder.0.join("windhover");
    support::copy_windhover(&program);
    let nobody = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).env("WINDHOVER_STATE", "/run/windhover-nobody").uid(65534).gid(65534);
        command.output().unwrap()
    };
    for arguments in [&["tune", "list"][..], &["tune", "show", "latency"], &["tune", "diff", "latency"]] {
        assert_code(&nobody(arguments), 0);
    }
    let verified = nobody(&["tune", "verify", "latency", "--set", "vm.stat_interval=77"]);
    assert_code(&verified, 3);
    let applied = nobody(&["tune", "apply", "latency", "--set", "vm.stat_interval=77", "--yes"]);
    assert_code(&applied, 1);
    let words = stderr(&applied);
    assert!(words.contains("not permitted") && words.contains("CAP_DAC_OVERRIDE"), "{words}");
    assert!(!Path::new("/run/windhover-nobody").exists());
}

fn holds() -> Change {
    // So long that it asks for nothing.
    Change { knob: Knob::CpuLatency, wanted: "2000000000".to_owned(), why: "a test".to_owned(), exact: true }
}

#[test]
fn a_hold_lives_until_it_is_undone() {
    if !is_root() || !Path::new("/dev/cpu_dma_latency").exists() {
        eprintln!("SKIPPED a_hold_lives_until_it_is_undone: not root, or no /dev/cpu_dma_latency");
        return;
    }
    let _lock = alone_on_machine().unwrap();
    let folder = Folder::new("tune-hold");
    let mut kernel = Kernel::running();
    kernel.windhover = Some(env!("CARGO_BIN_EXE_windhover").into());
    let state = StateDir::at(folder.path());
    let lock = state.lock(PATIENCE).unwrap();
    let begin = || state.begin(&lock, &SetHeader::new("tune test", "test", None)).unwrap();
    assert_eq!(kernel.read(&Knob::CpuLatency).unwrap(), "none");

    let mut changes = begin();
    assert!(matches!(changes.set(&kernel, &holds()).unwrap(), ChangeOutcome::Changed { .. }));
    let holders = host::holders::find(kernel.machine());
    assert_eq!(holders.len(), 1);
    let open = std::fs::read_dir(format!("/proc/{}/fd", holders[0].task.tid)).unwrap();
    let open = open.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    assert!(open.into_iter().any(|target| target == Path::new("/dev/cpu_dma_latency")));
    // A second one takes the place of the first.
    let mut second = begin();
    let other = Change { wanted: "1999999999".to_owned(), ..holds() };
    second.set(&kernel, &other).unwrap();
    assert_eq!(kernel.read(&Knob::CpuLatency).unwrap(), "1999999999");
    assert_eq!(host::holders::find(kernel.machine()).len(), 1);
    let undo = |changes: &host::undo::Changes| state.undo(&lock, &kernel, changes.id(), false, PATIENCE).unwrap();
    assert_eq!(undo(&second).restored, 1);
    assert_eq!(kernel.read(&Knob::CpuLatency).unwrap(), "2000000000");
    assert_eq!(undo(&changes).restored, 1);
    assert_eq!(kernel.read(&Knob::CpuLatency).unwrap(), "none");

    // One that was killed has nothing left to undo.
    let mut third = begin();
    third.set(&kernel, &holds()).unwrap();
    host::holders::end(&host::holders::find(kernel.machine())[0].task).unwrap();
    assert_eq!(undo(&third).already, 1);
}

#[test]
fn what_cannot_be_is_refused() {
    let folder = Folder::new("tune-refused");
    let root = folder.0.join("root");
    let file = root.join("proc/sys/net/core/busy_poll");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "0\n").unwrap();
    let state = folder.0.join("state");
    let apply = |setting: &str| {
        let words = ["tune", "apply", "--yes", "--root", root.to_str().unwrap(), "--set", setting, "--state-dir"];
        run(&[&words[..], &[state.to_str().unwrap()]].concat())
    };
    for (setting, words) in [
        ("net.core.busy_pol=50", ["net.core.busy_pol", "did you mean 'sysctl.net.core.busy_poll'"]),
        ("net.core.busy_poll=abc", ["busy_poll=abc", "it is a number (0 now)"]),
        ("cpufreq.governor=perfomance", ["perfomance", "performance"]),
    ] {
        let refused = apply(setting);
        assert_code(&refused, 2);
        assert!(words.iter().all(|word| stderr(&refused).contains(word)), "{}", stderr(&refused));
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "0\n");
    // What only this system lacks is skipped.
    assert_code(&apply("kernel.numa_balancing=0"), 0);
}
