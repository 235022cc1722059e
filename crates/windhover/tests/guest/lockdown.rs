//! Booted with `lockdown=integrity`: what a campaign of kernels needs is refused, before anything is changed.

use super::state::{State, assert_restored, read};
use super::tasks::shell;
use std::fs;

const LOCKDOWN: &str = "/sys/kernel/security/lockdown";

/// As systemd does; a guest's first process does not.
fn mount_securityfs() {
    if fs::metadata(LOCKDOWN).is_err() {
        assert_eq!(shell("mount -t securityfs securityfs /sys/kernel/security"), (Some(0), String::new()));
    }
}

/// What the other tests stand on.
#[test]
#[ignore = "runs in a guest"]
fn the_kernel_is_locked_down_and_hides_its_preemption_model() {
    mount_securityfs();
    assert_eq!(read(LOCKDOWN), "none [integrity] confidentiality");
    assert_eq!(read("/sys/kernel/debug/sched/preempt"), "<permission denied>");
    assert_eq!(read("/proc/sys/kernel/kexec_load_disabled"), "0");
}

/// [`super::preempt::refused`], and nothing was changed or loaded.
fn refused(kernel: &str, words: &[&str]) {
    let before = State::read();
    super::preempt::refused(kernel, words);
    assert_eq!(read("/sys/kernel/kexec_loaded"), "0");
    assert_restored(&before);
}

#[test]
#[ignore = "runs in a guest"]
fn a_preemption_model_is_refused_with_the_reason() {
    if fs::metadata(LOCKDOWN).is_err() {
        refused("preempt:full", &["sched/preempt: Operation not permitted", "kernel without lockdown"]);
    }
    mount_securityfs();
    refused("preempt:full", &["the kernel is locked down (integrity)", "lockdown=none"]);
}

/// The head of a kernel's file (Documentation/arch/x86/boot.rst) without a signature. It is looked at by this kernel: nothing of it
/// would ever run.
fn unsigned(is_whole: bool) -> Vec<u8> {
    let mut image = vec![0_u8; 0x2000];
    image[0x1f1] = 1;
    image[0x1fe..0x200].copy_from_slice(&0xaa55_u16.to_le_bytes());
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x206..0x208].copy_from_slice(&0x020f_u16.to_le_bytes());
    // The version's text, less 0x200.
    image[0x20e..0x210].copy_from_slice(&0x200_u16.to_le_bytes());
    image[0x211] = 1;
    image[0x234] = 1;
    // For 64 bits, above 4 GB, five levels.
    image[0x236] = if is_whole { 0x63 } else { 0 };
    let text = b"6.0-unsigned (t@t) #1 SMP\0";
    image[0x400..0x400 + text.len()].copy_from_slice(text);
    image
}

#[test]
#[ignore = "runs in a guest"]
fn a_kernel_without_a_signature_is_refused_with_the_reason() {
    let path = "/boot/vmlinuz-6.0-unsigned";
    fs::create_dir_all("/lib/modules/6.0-unsigned").unwrap();
    let kernel = format!("kexec:{path}");
    fs::write(path, unsigned(true)).unwrap();
    if fs::metadata(LOCKDOWN).is_err() {
        refused(&kernel, &["Operation not permitted", "kernel without lockdown"]);
    }
    mount_securityfs();
    refused(&kernel, &["the kernel is locked down (integrity)", "lockdown=none"]);
    // What is no kernel anyway is not blamed on that.
    fs::write(path, unsigned(false)).unwrap();
    refused(&kernel, &["Exec format error", "no kernel for this machine"]);
    fs::remove_file(path).unwrap();
    fs::remove_dir("/lib/modules/6.0-unsigned").unwrap();
}
