//! A controller whose host goes away and comes back, in another boot: waited for until a deadline, and measured at the kernel that was
//! asked for.
//!
//! The host is real but for its kernel: an agent that is the first process of namespaces of its own, where reboot(2) ends it, and
//! where files say which boot and kernel it is. A script stands for the link, the firmware and the boot loader, whose tools are
//! fixtures, too (tests of GRUB's own are in the crate `prepare`).
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use support::{Folder, assert_code, assert_run_measured, can_make_namespaces, run_directory, stderr, until, windhover};

/// The link to the machine, and what happens to the machine behind it.
const LINK: &str = r#"cd "$(dirname "$0")" || exit 1
if [ "$(cat away 2>/dev/null)" = until-failed ]; then
    grep -q '"could_not_boot":true' runs/*/journal.jsonl && : >away
    echo refused >>log
    exit 255
fi
if [ -s away ]; then
    left=$(($(cat away) - 1))
    if [ $left -gt 0 ]; then echo $left >away; else : >away; fi
    echo refused >>log
    exit 255
fi
# A shell gives its jobs no input of its own accord.
exec 3<&0
unshare --pid --fork --kill-child --mount --propagation private sh ./machine.sh "$PWD" "$1" <&3 3<&- &
echo $! >pid
wait $!
code=$?
# The end that reboot(2) gives to a first process (SIGHUP), or a crash.
if [ $code = 129 ] || [ $code = 137 ]; then
    entry=$(sed -n 's/^next_entry=//p' boot/grub/grubenv)
    grep -v '^next_entry=' boot/grub/grubenv >cleared
    cat cleared >boot/grub/grubenv
    entry=${entry:-default}
    cat "kernels/$entry/osrelease" >osrelease
    cat "kernels/$entry/version" >version
    cat "kernels/$entry/away" >away
    cat /proc/sys/kernel/random/uuid >boot_id
    echo "$entry" >>log
fi
exit 255
"#;

/// Inside. Nothing of it may reach the machine of the test: not a service manager, and reboot(2) only as the first process of a
/// namespace.
const MACHINE: &str = r#"[ $$ = 1 ] || exit 9
set -e
mount -t tmpfs none /run
mount -t proc proc /proc
mount --bind "$1/boot_id" /proc/sys/kernel/random/boot_id
mount --bind "$1/osrelease" /proc/sys/kernel/osrelease
mount --bind "$1/version" /proc/sys/kernel/version
mount --bind "$1/boot" /boot
PATH=$1/tools:$PATH exec "$2" agent
"#;

/// CAP_SYS_BOOT (linux/capability.h).
const SYS_BOOT: u32 = 22;

struct Host {
    folder: Folder,
}

impl Host {
    /// A machine that runs its default kernel, with entries each of which is away for so many attempts to reach it, or
    /// `until-failed`: until a cell has failed for it.
    fn new(test: &str, entries: &[(&str, &str)]) -> Option<Self> {
        if !can_make_namespaces(test) {
            return None;
        }
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
        if u64::from_str_radix(mask, 16).unwrap() >> SYS_BOOT & 1 == 0 || fs::metadata("/boot").is_err() {
            eprintln!("SKIPPED {test}: it needs CAP_SYS_BOOT and a folder /boot");
            return None;
        }
        let folder = Folder::new(test);
        let file = |name: &str, content: &[u8]| {
            let path = folder.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        file("link.sh", LINK.as_bytes());
        file("machine.sh", MACHINE.as_bytes());
        let tools = [
            ("grub-editenv", "[ $2 = list ] && cat \"$1\""),
            ("grub-reboot", "echo \"next_entry=$2\" >>\"${1#--boot-directory=}/grub/grubenv\""),
            ("systemctl", "exit 1"),
        ];
        for (name, script) in tools {
            file(&format!("tools/{name}"), format!("#!/bin/sh\n{script}\n").as_bytes());
            fs::set_permissions(folder.0.join("tools").join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut menu = "set default=\"${next_entry}\"\n".to_owned();
        for (name, away) in entries.iter().chain(&[("default", "1")]) {
            file(&format!("kernels/{name}/osrelease"), format!("6.0-{name}\n").as_bytes());
            file(&format!("kernels/{name}/version"), format!("#1 SMP {name}\n").as_bytes());
            file(&format!("kernels/{name}/away"), format!("{away}\n").as_bytes());
            menu.push_str(&format!(
                "menuentry '{name}' $menuentry_id_option '{name}' {{\n\tlinux /vmlinuz-{name} ro\n}}\n"
            ));
            let mut image = vec![0_u8; 0x400];
            image[0x202..0x206].copy_from_slice(b"HdrS");
            image[0x20e] = 0x40;
            image.splice(0x240.., format!("6.0-{name} (t@t) #1 SMP {name}\0").into_bytes());
            file(&format!("boot/vmlinuz-{name}"), &image);
        }
        file("boot/grub/grub.cfg", menu.as_bytes());
        file("boot/grub/grubenv", b"saved_entry=default\n");
        file("boot_id", b"00000000-0000-4000-8000-000000000000\n");
        file("osrelease", b"6.0-default\n");
        file("version", b"#1 SMP default\n");
        file("log", b"");
        fs::create_dir(folder.0.join("runs")).unwrap();
        Some(Self { folder })
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.folder.0.join(name)).unwrap_or_default()
    }

    /// The boots so far.
    fn boots(&self) -> Vec<String> {
        self.text("log").lines().filter(|line| *line != "refused").map(str::to_owned).collect()
    }

    /// The campaign of this machine as the reflector.
    fn campaign(&self, more: &str) -> Command {
        let program = env!("CARGO_BIN_EXE_windhover");
        let link = self.folder.0.join("link.sh");
        let plan = format!(
            "name = \"t\"\nrepetitions = 1\nseed = 7\n[hosts.a]\nagent_command = [{program:?}, \"agent\"]\n[hosts.b]\n\
             agent_command = [\"sh\", {link:?}, {program:?}]\naddress = \"127.0.0.1\"\n[roles]\ninitiator = \"a\"\n\
             reflectors = [\"b\"]\n{more}"
        );
        let plan = self.folder.file("plan.toml", &plan);
        let runs = self.folder.0.join("runs");
        self.command(&["campaign", "run", &plan, "--output", runs.to_str().unwrap()])
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = windhover(arguments);
        command.env("WINDHOVER_STATE", self.folder.0.join("state"));
        command
    }

    fn run(&self) -> PathBuf {
        run_directory(&self.folder.0.join("runs"))
    }

    /// The lines of the journal of one kind.
    fn journal(&self, step: &str) -> Vec<Value> {
        let journal = fs::read_to_string(self.run().join("journal.jsonl")).unwrap();
        let lines = journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["step"] == step).collect()
    }

    /// Each result is of a boot of its kernel; gives back the boot ids.
    fn of_their_kernels(&self, output: &Output) -> Vec<String> {
        let results = assert_run_measured(output, &self.run());
        let document: Value = serde_json::from_str(&fs::read_to_string(self.run().join("run.json")).unwrap()).unwrap();
        let boot_of = |result: &Value| {
            let boot = result["boot"]["ids"]["b"].as_str().unwrap().to_owned();
            let kernel = result["factors"]["kernel"].as_str().unwrap();
            let release = format!("6.0-{}", kernel.strip_prefix("grub:").unwrap_or("default"));
            assert_eq!(document["machines"][&boot]["kernel_release"], release.as_str(), "{kernel}");
            boot
        };
        results.iter().map(boot_of).collect()
    }

    /// What was chosen for one boot is cleared, and the default is the one before.
    fn has_its_default(&self) {
        assert_eq!(self.text("boot/grub/grubenv"), "saved_entry=default\n");
        assert_eq!(self.boots().last().unwrap(), "default", "hosts end in their default kernel");
    }
}

#[test]
fn a_host_that_goes_away_is_waited_for_and_measured_in_each_of_its_boots() {
    let test = "a_host_that_goes_away_is_waited_for_and_measured_in_each_of_its_boots";
    let Some(host) = Host::new(test, &[("old", "2"), ("new", "1")]) else { return };
    let more = "[kernels]\nhosts = [\"b\"]\nboot_seconds = 60\n[measure]\nseconds = 0.1\nwarmup_ms = 0\n[[grid]]\n\
                kernel = [\"grub:old\", \"grub:new\"]\n";
    let output = host.campaign(more).output().unwrap();
    let mut boots = host.of_their_kernels(&output);
    boots.dedup();
    assert_eq!(boots.len(), 2, "{}", stderr(&output));
    let mut entered = host.boots();
    host.has_its_default();
    entered.pop();
    entered.sort();
    assert_eq!(entered, ["new", "old"]);
    assert!(host.text("log").contains("refused"), "the link was tried while the machine was away");
    assert_eq!((host.journal("intent").len(), host.journal("booted").len()), (2, 2));
}

#[test]
fn a_host_that_is_away_beyond_the_deadline_could_not_boot_and_the_run_goes_on() {
    let test = "a_host_that_is_away_beyond_the_deadline_could_not_boot_and_the_run_goes_on";
    let Some(host) = Host::new(test, &[("late", "until-failed")]) else { return };
    let more = "[kernels]\nhosts = [\"b\"]\nboot_seconds = 15\nattempts = 1\n[measure]\nseconds = 0.1\nwarmup_ms = 0\n\
                [[grid]]\nkernel = [\"grub:late\", \"current\"]\n";
    let output = host.campaign(more).output().unwrap();
    assert_code(&output, 1);
    let failed = host.journal("failed");
    assert!(failed.len() == 1 && failed[0]["could_not_boot"] == true, "{failed:?}\n{}", stderr(&output));
    let why = failed[0]["why"].as_str().unwrap();
    assert!(why.contains("did not come up in time") && why.contains("raise kernels.boot_seconds"), "{why}");
    assert_eq!(host.journal("done").len(), 1, "{}", stderr(&output));
    host.has_its_default();
}

/// The link is lost without anybody having asked for a boot: the cell fails, the next one boots its kernel again.
#[test]
fn a_host_that_crashes_in_a_cell_is_booted_again() {
    let test = "a_host_that_crashes_in_a_cell_is_booted_again";
    let Some(host) = Host::new(test, &[("old", "1")]) else { return };
    let more = "[kernels]\nhosts = [\"b\"]\nboot_seconds = 60\n[measure]\nseconds = 3\nwarmup_ms = 0\n[[grid]]\nsize = [32, 64]\n\
                kernel = [\"grub:old\"]\n";
    let mut command = host.campaign(more);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = || {
        let found = fs::read_dir(host.folder.0.join("runs")).unwrap().flatten().next();
        found.is_some_and(|run| {
            fs::read_to_string(run.path().join("journal.jsonl")).is_ok_and(|text| text.contains("\"step\":\"start\""))
        })
    };
    until("the first cell has begun", begun);
    std::thread::sleep(std::time::Duration::from_secs(1));
    let pid = host.text("pid").trim().to_owned();
    assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_code(&output, 1);
    let failed = host.journal("failed");
    assert!(failed.len() == 1 && failed[0]["could_not_boot"].is_null(), "{failed:?}\n{}", stderr(&output));
    let attempts: Vec<u64> = host.journal("intent").iter().map(|line| line["attempt"].as_u64().unwrap()).collect();
    assert_eq!(attempts, [1, 2]);
    assert_eq!(host.boots(), ["old", "default", "old", "default"]);
    host.has_its_default();
    // A person has the cell that failed measured.
    let again = host.command(&["campaign", "resume", host.run().to_str().unwrap()]).output().unwrap();
    let boots = host.of_their_kernels(&again);
    assert!(boots.len() == 2 && boots[0] != boots[1], "{boots:?}");
    host.has_its_default();
}
