//! Booted with drivers of volumes: GRUB's environment block on real ones, where GRUB could not clear the choice of one boot.

use super::state::read;
use super::tasks::shell;
use std::fs;
use std::path::Path;

/// A disk of 32 MB.
const DISK: &str = "truncate -s 32M /disk && losetup /dev/loop0 /disk";
/// Single-user, without udev and without files that keep state.
const MDADM: &str =
    "MDADM_NO_UDEV=1 mdadm --create /dev/md0 --run --force --level=1 --raid-devices=1 --metadata=1.2 /dev/loop0";
const LVM: &str = "--config 'activation{udev_sync=0 udev_rules=0} \
                   devices{use_devicesfile=0 scan=\"/dev\" filter=[\"a|/dev/loop0|\",\"r|.*|\"]} \
                   global{locking_type=1 use_lvmpolld=0}'";

#[track_caller]
fn done(script: &str) {
    let (code, said) = shell(&format!("({script}) 2>&1"));
    assert_eq!(code, Some(0), "{script}: {said}");
}

/// Takes everything down again, in order; what was not made is no matter.
struct Volumes;

impl Drop for Volumes {
    fn drop(&mut self) {
        let undo =
            ["umount /boot", "mdadm --stop /dev/md0", &format!("lvm vgchange -an vg {LVM}"), "losetup -d /dev/loop0"];
        for command in undo {
            let _ = shell(&format!("{command} >/dev/null 2>&1"));
        }
        let _ = fs::remove_file("/disk");
    }
}

/// /boot on a device, with GRUB's files and tools that note that they were called.
fn boot_on(device: &str) {
    done(&format!("mke2fs -q {device} && mkdir -p /boot && mount -t ext4 {device} /boot && mkdir -p /boot/grub"));
    let menu =
        "set default=\"${next_entry}\"\nmenuentry 'old' $menuentry_id_option 'old' {\n\tlinux /vmlinuz-old ro\n}\n";
    fs::write("/boot/grub/grub.cfg", menu).unwrap();
    fs::write("/boot/grub/grubenv", "saved_entry=new\n").unwrap();
    fs::write("/boot/vmlinuz-old", "no kernel").unwrap();
    for tool in ["grub-reboot", "grub-editenv"] {
        let path = Path::new("/usr/bin").join(tool);
        fs::write(&path, "#!/bin/sh\necho \"$0\" >>/called\n").unwrap();
        done(&format!("chmod 755 {}", path.display()));
    }
}

/// Refused with these words, and nothing was called or written.
#[track_caller]
fn refused(words: &[&str]) {
    super::preempt::refused("grub:old", &[words, &["it would stay the default", "kexec:PATH"]].concat());
    assert!(!Path::new("/called").exists(), "{}", read("/called"));
    assert_eq!(read("/boot/grub/grubenv"), "saved_entry=new");
}

#[test]
#[ignore = "runs in a guest"]
fn an_environment_block_on_an_md_device_is_refused() {
    let _volumes = Volumes;
    done(DISK);
    done(MDADM);
    assert_eq!(read("/sys/block/md0/md/level"), "raid1");
    boot_on("/dev/md0");
    refused(&["/boot/grub/grubenv is on MD"]);
}

#[test]
#[ignore = "runs in a guest"]
fn an_environment_block_on_a_logical_volume_is_refused() {
    let _volumes = Volumes;
    done(DISK);
    for command in
        ["pvcreate /dev/loop0", "vgcreate vg /dev/loop0", "lvcreate -an -Zn -l 4 -n boot vg", "vgchange -ay vg"]
    {
        done(&format!("lvm {command} {LVM}"));
    }
    let name = read("/sys/block/dm-0/dm/uuid");
    assert!(name.starts_with("LVM-"), "{name}");
    boot_on("/dev/dm-0");
    refused(&["/boot/grub/grubenv is on LVM"]);
}

/// The control: on a plain device the same files are looked at further.
#[test]
#[ignore = "runs in a guest"]
fn an_environment_block_on_a_plain_device_is_not() {
    let _volumes = Volumes;
    done(DISK);
    boot_on("/dev/loop0");
    super::preempt::refused("grub:older", &["entry 'older'", "use one of: old"]);
}
