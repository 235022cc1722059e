//! Whether a machine can come to a kernel, on trees of files; GRUB by its own tools on a folder, where they are to be had.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

use host::knob::Machine;
use host::undo::StateDir;
use model::{KernelChoice, Setting};
use prepare::Kernel;
use prepare::boot::{self, BootError};
use prepare::tune::{self, Profile};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use windhover_prepare as prepare;

struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join("root").join(path)
    }

    fn file(&self, path: &str, content: &[u8]) -> &Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    fn folder(&self, path: &str) -> &Self {
        fs::create_dir_all(self.path(path)).unwrap();
        self
    }

    fn kernel_file(&self, path: &str, release: &str) -> &Self {
        let mut image = vec![0_u8; 0x400];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e] = 0x40;
        image.splice(0x240.., format!("{release} (d@d) #1 SMP Debian\0").into_bytes());
        self.file(path, &image)
    }

    /// A program in the place of one of the boot loader's.
    fn tool(&self, name: &str, script: &str) -> &Self {
        let path = self.0.path().join("tools").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = path.with_extension("text");
        fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
        // By another program: a child that another test forks now has our descriptor until it becomes its program, and what is
        // open for writing cannot be run (ETXTBSY).
        let made = Command::new("install").args(["-m", "755"]).args([&text, &path]).status().unwrap();
        assert!(made.success());
        self
    }

    fn kernel(&self) -> Kernel {
        fs::create_dir_all(self.0.path().join("root")).unwrap();
        let mut kernel = Kernel::at(Machine::at(self.0.path().join("root")));
        kernel.tools = Some(self.0.path().join("tools"));
        kernel
    }

    fn refused(&self, kernel: &str, words: &[&str]) {
        let error = boot::check(&self.kernel(), &choice(kernel)).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)) && !error.contains('\n'), "{kernel}: {error}");
    }
}

fn choice(kernel: &str) -> KernelChoice {
    kernel.parse().unwrap()
}

const MODEL: &str = "sys/kernel/debug/sched/preempt";

#[test]
fn a_preemption_model_that_cannot_be_had_is_told_with_its_remedy() {
    let tree = Tree::new();
    tree.refused("preempt:full", &["/sys/kernel/debug/sched is not there", "mount -t debugfs"]);
    tree.folder("sys/kernel/debug/sched");
    tree.refused("preempt:full", &["preempt is not there", "PREEMPT_DYNAMIC"]);
    tree.file(MODEL, b"none (voluntary) full\n");
    tree.refused("preempt:lazy", &["no preemption model 'lazy'", "none, voluntary, full"]);
    boot::check(&tree.kernel(), &choice("preempt:full")).unwrap();
    tree.file("sys/kernel/security/lockdown", b"none [integrity] confidentiality\n");
    tree.refused("preempt:full", &["locked down (integrity)", "lockdown=none"]);
    // Such a kernel refuses to read it, too; root reads every file of a tree, but no folder.
    let tree = Tree::new();
    tree.folder(MODEL);
    tree.refused("preempt:full", &["sched/preempt: ", "run the agent as root"]);
    tree.file("sys/kernel/security/lockdown", b"none [integrity] confidentiality\n");
    tree.refused("preempt:full", &["locked down (integrity)", "lockdown=none"]);
}

#[test]
fn a_preemption_model_is_put_back_as_any_setting() {
    let tree = Tree::new();
    tree.file(MODEL, b"none (voluntary) full lazy\n");
    let (kernel, state) = (tree.kernel(), StateDir::at(tree.0.path().join("state")));
    let setting: Setting = "sched.preempt=full".parse().unwrap();
    let profile = Profile { name: "t".to_owned(), ..Profile::default() }.with(&[setting]).unwrap();
    let plan = tune::plan_profile(&profile, None, &kernel).unwrap();
    let text = || fs::read_to_string(tree.path(MODEL)).unwrap().trim().to_owned();
    let report = tune::apply(&plan, &kernel, &state, "test").unwrap();
    assert_eq!((report.changed.len(), text().as_str()), (1, "full"), "{report:?}");
    let lock = state.lock(std::time::Duration::from_secs(5)).unwrap();
    state.undo(&lock, &kernel, report.set.as_ref().unwrap(), false, std::time::Duration::from_secs(5)).unwrap();
    assert_eq!(text(), "voluntary");
    // One that the kernel does not have is left out, and says why.
    tree.file(MODEL, b"none (voluntary) full\n");
    let lazy: Setting = "sched.preempt=lazy".parse().unwrap();
    let profile = Profile { name: "t".to_owned(), ..Profile::default() }.with(&[lazy]).unwrap();
    let plan = tune::plan_profile(&profile, None, &kernel).unwrap();
    let report = tune::apply(&plan, &kernel, &state, "test").unwrap();
    assert!(report.changed.is_empty() && report.skipped[0].why.contains("no preemption model 'lazy'"), "{report:?}");
}

#[test]
fn what_kexec_needs_is_looked_at_before_anything_is_loaded() {
    let tree = Tree::new();
    let kernel = "kexec:/boot/vmlinuz-6.1-rt threadirqs";
    tree.refused(kernel, &["CONFIG_KEXEC_FILE"]);
    tree.file("sys/kernel/kexec_loaded", b"0\n");
    tree.refused(kernel, &["/boot/vmlinuz-6.1-rt is not there", "install that kernel"]);
    tree.file("boot/vmlinuz-6.1-rt", b"no kernel");
    tree.refused(kernel, &["is no kernel", "bzImage"]);
    tree.kernel_file("boot/vmlinuz-6.1-rt", "6.1.0-49-rt-amd64");
    tree.refused(kernel, &["/lib/modules/6.1.0-49-rt-amd64 is not there", "install the modules"]);
    tree.folder("lib/modules/6.1.0-49-rt-amd64");
    let image = boot::check(&tree.kernel(), &choice(kernel)).unwrap();
    assert_eq!(image.release.as_deref(), Some("6.1.0-49-rt-amd64"));
    assert_eq!((image.version.as_deref(), image.words), (Some("#1 SMP Debian"), vec!["threadirqs".to_owned()]));
    tree.file("proc/sys/kernel/kexec_load_disabled", b"1\n");
    tree.refused(kernel, &["kexec_load_disabled is 1", "next boot"]);
}

const GRUB_CFG: &str = "if [ \"${next_entry}\" ] ; then set default=\"${next_entry}\"; fi\n\
    menuentry 'Debian' $menuentry_id_option 'gnulinux-simple' {\n\tlinux /vmlinuz-6.12 root=/dev/sda1\n}\n\
    submenu 'Advanced' $menuentry_id_option 'advanced' {\n\tmenuentry 'Debian 6.1' $menuentry_id_option 'old' {\n\
    \t\tlinux /vmlinuz-6.1 root=/dev/sda1\n\t}\n}\n";

fn grub_tree() -> Tree {
    let tree = Tree::new();
    tree.file("boot/grub/grub.cfg", GRUB_CFG.as_bytes()).file("boot/grub/grubenv", b"");
    tree.kernel_file("boot/vmlinuz-6.1", "6.1.0-49-amd64").kernel_file("boot/vmlinuz-6.12", "6.12.0-amd64");
    tree.tool("grub-reboot", "exit 1").tool("grub-editenv", "exit 1");
    tree
}

/// Going down into a refused kernel is refused, too, before a tool of the boot loader is called: each of them would note it.
fn leaves_all(tree: &Tree, kernel: &str) {
    let called = tree.0.path().join("called");
    for name in ["grub-reboot", "grub-editenv"] {
        tree.tool(name, &format!("echo {name} >>{}", called.display()));
    }
    assert!(boot::load(&tree.kernel(), &choice(kernel)).is_err());
    assert!(!called.exists(), "{:?}", fs::read_to_string(&called));
    assert_eq!(fs::read(tree.path("boot/grub/grubenv")).unwrap(), b"");
}

#[test]
fn what_grub_needs_is_looked_at_before_anything_is_chosen() {
    Tree::new().refused("grub:0", &["/boot/grub is not there", "kexec:PATH"]);
    let tree = grub_tree();
    let image = boot::check(&tree.kernel(), &choice("grub:advanced>old")).unwrap();
    assert_eq!(image.release.as_deref(), Some("6.1.0-49-amd64"));
    tree.refused("grub:older", &["entry 'older'", "gnulinux-simple, advanced>old"]);
    let mounted = |device: &str, kind: &str| {
        format!("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 {device} / /boot rw - {kind} /dev/x rw\n")
    };
    for (kind, file, content, says) in [
        ("ext4", "sys/dev/block/254:3/dm/uuid", "LVM-abc", "on LVM"),
        ("ext4", "sys/dev/block/254:3/md/level", "raid1", "on MD"),
        ("btrfs", "sys/dev/block/254:3/size", "1", "on btrfs"),
    ] {
        let tree = grub_tree();
        tree.file("proc/self/mountinfo", mounted("254:3", kind).as_bytes()).file(file, content.as_bytes());
        tree.refused("grub:old", &[says, "would stay the default", "kexec:PATH"]);
        leaves_all(&tree, "grub:old");
    }
    // A partition of an MD device, as the kernel has it.
    let tree = grub_tree();
    tree.folder("sys/devices/virtual/block/md0/md").folder("sys/devices/virtual/block/md0/md0p1");
    tree.file("proc/self/mountinfo", mounted("259:0", "ext4").as_bytes()).folder("sys/dev/block");
    symlink("../../devices/virtual/block/md0/md0p1", tree.path("sys/dev/block/259:0")).unwrap();
    tree.refused("grub:old", &["on MD", "would stay the default"]);
    leaves_all(&tree, "grub:old");
    // An environment block that is a link, as Fedora's: the file system that counts is the one it leads to.
    for (esp, root, says) in [("8:1", "254:3", None), ("254:3", "8:1", Some("/boot/efi/grubenv is on LVM"))] {
        let tree = grub_tree();
        let mounts = format!("1 0 {root} / / rw - ext4 /dev/x rw\n2 1 {esp} / /boot/efi rw - vfat /dev/y rw\n");
        tree.file("proc/self/mountinfo", mounts.as_bytes()).file("sys/dev/block/254:3/dm/uuid", b"LVM-abc");
        tree.file("boot/efi/grubenv", b"");
        fs::remove_file(tree.path("boot/grub/grubenv")).unwrap();
        symlink("../efi/grubenv", tree.path("boot/grub/grubenv")).unwrap();
        match says {
            Some(says) => tree.refused("grub:old", &[says, "would stay the default"]),
            None => drop(boot::check(&tree.kernel(), &choice("grub:old")).unwrap()),
        }
    }
    let tree = grub_tree();
    tree.file("proc/self/mountinfo", mounted("8:2", "ext4").as_bytes());
    boot::check(&tree.kernel(), &choice("grub:old")).unwrap();
    tree.file("boot/grub/grub.cfg", b"menuentry 'x' {\n}\n");
    tree.refused("grub:0", &["next_entry", "update-grub"]);
    let tree = grub_tree();
    fs::remove_file(tree.0.path().join("tools/grub-reboot")).unwrap();
    tree.refused("grub:old", &["grub-reboot", "grub-common"]);
}

/// Where the boot loaders' own tools are: in the system, or in a folder that packages of Debian were unpacked into.
fn real_tools() -> PathBuf {
    std::env::var_os("WINDHOVER_TEST_BOOT_TOOLS").map_or_else(|| PathBuf::from("/"), PathBuf::from)
}

fn real_grub(tree: &Tree) -> Option<PathBuf> {
    let root = real_tools();
    let editenv = root.join("usr/bin/grub-editenv");
    let reboot = fs::read_to_string(root.join("usr/sbin/grub-reboot")).ok()?;
    let editenv = editenv.is_file().then_some(editenv)?;
    // Its script knows where it was installed.
    let usr = root.join("usr").display().to_string();
    let reboot =
        reboot.replace("=/usr\n", &format!("={usr}\n")).replace("=\"/usr/share\"", &format!("=\"{usr}/share\""));
    tree.tool("grub-reboot", &reboot).tool("grub-editenv", &format!("exec {} \"$@\"", editenv.display()));
    Some(editenv)
}

#[test]
fn by_grubs_own_tools_an_entry_is_chosen_once_and_the_default_stays() {
    let tree = grub_tree();
    let Some(editenv) = real_grub(&tree) else {
        eprintln!(
            "SKIPPED by_grubs_own_tools_an_entry_is_chosen_once_and_the_default_stays: no grub-reboot: cargo xtask test has it"
        );
        return;
    };
    let environment = tree.path("boot/grub/grubenv");
    let run = |words: &[&str]| {
        let done = Command::new(&editenv).arg(&environment).args(words).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    fs::remove_file(&environment).unwrap();
    run(&["create"]);
    run(&["set", "saved_entry=gnulinux-simple"]);
    assert_eq!(boot::load(&tree.kernel(), &choice("grub:advanced>old")).unwrap(), host::boot::Down::Reboot);
    let listed = run(&["list"]);
    assert!(listed.contains("saved_entry=gnulinux-simple\n"), "the default is as it was: {listed}");
    assert!(listed.contains("next_entry=advanced>old\n"), "{listed}");
    // What GRUB does at a boot: it takes the choice, and clears it.
    run(&["unset", "next_entry"]);
    assert_eq!(run(&["list"]).trim(), "saved_entry=gnulinux-simple");
    // A choice that cannot be made leaves everything as it was.
    let before = fs::read(&environment).unwrap();
    assert!(matches!(boot::load(&tree.kernel(), &choice("grub:none")), Err(BootError::Missing { .. })));
    assert_eq!(fs::read(&environment).unwrap(), before);
}

/// A tool that says it chose, and changed the default: a fixture.
#[test]
fn a_tool_that_changes_the_default_is_caught() {
    let tree = grub_tree();
    let environment = tree.path("boot/grub/grubenv").display().to_string();
    fs::write(&environment, "saved_entry=gnulinux-simple\n").unwrap();
    tree.tool("grub-editenv", "case $2 in list) cat \"$1\";; esac");
    tree.tool("grub-reboot", &format!("echo \"saved_entry=$2\" > {environment}"));
    let error = boot::load(&tree.kernel(), &choice("grub:old")).unwrap_err().to_string();
    assert!(error.contains("changed the default entry"), "{error}");
    fs::write(&environment, "saved_entry=gnulinux-simple\n").unwrap();
    tree.tool("grub-reboot", "exit 0");
    let error = boot::load(&tree.kernel(), &choice("grub:old")).unwrap_err().to_string();
    assert!(error.contains("did not choose 'old'"), "{error}");
}

/// Its own bootctl(1), for which one folder is the EFI system partition and another one holds the firmware's variables: in a mount
/// namespace, and in a root without the mark of a container, where it would ask for no firmware.
const OWN_BOOTCTL: &str = r#"export SYSTEMD_RELAX_ESP_CHECKS=1 SYSTEMD_ESP_PATH=/efi
exec unshare --mount sh -c 'set -e
here=$1 bootctl=$2; shift 2
mount -t tmpfs none "$here/new"
for name in usr lib lib64 bin etc proc sys dev tmp; do
    [ ! -e "/$name" ] || { mkdir "$here/new/$name"; mount --rbind "/$name" "$here/new/$name"; }
done
mkdir "$here/new/efi"
mount --bind "$here/root/efi" "$here/new/efi"
mount -t tmpfs none "$here/new/sys/firmware"
mkdir -p "$here/new/sys/firmware/efi/efivars"
mount --bind "$here/variables" "$here/new/sys/firmware/efi/efivars"
cp "$bootctl" "$here/new/bootctl"
exec chroot "$here/new" /bootctl "$@"' sh "$here" "$bootctl" "$@""#;
/// The vendor's number that systemd-boot's variables have (systemd.io/BOOT_LOADER_INTERFACE).
const LOADER: &str = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

#[test]
fn by_systemd_boots_own_tool_an_entry_is_chosen_once_and_the_default_stays() {
    let name = "by_systemd_boots_own_tool_an_entry_is_chosen_once_and_the_default_stays";
    let bootctl = real_tools().join("usr/bin/bootctl");
    let mounts = || Command::new("unshare").args(["--mount", "mount", "-t", "tmpfs", "none", "/tmp"]).output();
    if !bootctl.is_file() || !Path::new("/sys/firmware").is_dir() || !mounts().is_ok_and(|done| done.status.success()) {
        eprintln!("SKIPPED {name}: it needs bootctl, which cargo xtask test has, /sys/firmware, and root");
        return;
    }
    let tree = Tree::new();
    let here = tree.0.path().display().to_string();
    tree.folder("sys/firmware/efi").kernel_file("efi/m/6.1/linux", "6.1.0-49-amd64");
    tree.kernel_file("efi/m/6.12/linux", "6.12.0-amd64").file("efi/loader/loader.conf", b"default new.conf\n");
    for (entry, release) in [("old", "6.1"), ("new", "6.12")] {
        let text = format!("title {entry}\nversion {release}\nlinux /m/{release}/linux\n");
        tree.file(&format!("efi/loader/entries/{entry}.conf"), text.as_bytes());
    }
    let variables = tree.0.path().join("variables");
    fs::create_dir(&variables).unwrap();
    fs::create_dir(tree.0.path().join("new")).unwrap();
    let variable = |name: &str| variables.join(format!("{name}-{LOADER}"));
    // Four bytes of attributes, and text in UTF-16.
    let text = |text: &str| -> Vec<u8> {
        [7, 0, 0, 0].into_iter().chain(text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes)).collect()
    };
    fs::write(variable("LoaderInfo"), text("systemd-boot 252")).unwrap();
    fs::write(variable("LoaderEntryDefault"), text("new.conf")).unwrap();
    tree.tool("bootctl", &format!("here={here}\nbootctl={}\n{OWN_BOOTCTL}", bootctl.display()));
    let seen = boot::check(&tree.kernel(), &choice("bootctl:old.conf"));
    assert!(!variable("LoaderEntryOneShot").exists(), "a check changes nothing");
    let image = seen.unwrap();
    assert_eq!(image.release.as_deref(), Some("6.1.0-49-amd64"));
    tree.refused("bootctl:none.conf", &["entry 'none.conf'", "new.conf", "old.conf"]);
    assert_eq!(boot::load(&tree.kernel(), &choice("bootctl:old.conf")).unwrap(), host::boot::Down::Reboot);
    assert_eq!(fs::read(variable("LoaderEntryOneShot")).unwrap(), text("old.conf"));
    assert_eq!(fs::read(variable("LoaderEntryDefault")).unwrap(), text("new.conf"), "the default is as it was");
    let loader = fs::read_to_string(tree.path("efi/loader/loader.conf")).unwrap();
    assert_eq!(loader, "default new.conf\n", "the default is as it was");
}

/// A fixture of bootctl(1): what it lists is as systemd 252 or a later one prints it, and it notes what it was asked for.
#[test]
fn an_entry_of_systemd_boot_is_chosen_once() {
    let entry = "{\"type\":\"type1\",\"id\":\"a.conf\",\"root\":\"/efi\",\"linux\":\"/m/6.1/linux\"}";
    let other = "{\"id\":\"auto-reboot\"}";
    for list in [format!("{entry}\n{other}"), format!("[{entry},{other}]")] {
        let tree = Tree::new();
        tree.refused("bootctl:a.conf", &["needs UEFI"]);
        tree.folder("sys/firmware/efi");
        tree.refused("bootctl:a.conf", &["program bootctl is not there"]);
        let asked = tree.0.path().join("asked");
        tree.tool("bootctl", &format!("case $1 in list) echo '{list}';; *) echo \"$*\" >> {};; esac", asked.display()));
        tree.refused("bootctl:b.conf", &["entry 'b.conf'", "a.conf, auto-reboot"]);
        tree.refused("bootctl:a.conf", &["/efi/m/6.1/linux", "another entry"]);
        tree.kernel_file("efi/m/6.1/linux", "6.1.0-49-amd64");
        let image = boot::check(&tree.kernel(), &choice("bootctl:a.conf")).unwrap();
        assert_eq!(image.release.as_deref(), Some("6.1.0-49-amd64"));
        assert!(!Path::new(&asked).exists(), "a check changes nothing");
        boot::load(&tree.kernel(), &choice("bootctl:a.conf")).unwrap();
        assert_eq!(fs::read_to_string(&asked).unwrap().trim(), "set-oneshot a.conf", "never set-default");
    }
}
