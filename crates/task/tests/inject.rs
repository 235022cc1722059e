//! A program whose memory was locked before its first instruction. The test binary is the program's starter and, run
//! again with a variable set, the process that becomes it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test")]
#![cfg(target_arch = "x86_64")]

use std::process::{Command, Stdio};
use windhover_task::{InjectError, MemoryLock, become_program, lock_and_prefault};

const BECOME: &str = "WINDHOVER_TEST_BECOME";

/// Not a test of its own: what the child of the tests below runs.
#[test]
fn becomes_another_program() {
    let Some(program) = std::env::var_os(BECOME) else { return };
    let error = become_program(&program, &["10".into()], &[], true);
    panic!("{error}");
}

fn child(program: &str) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "becomes_another_program", "--nocapture"])
        .env(BECOME, program)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn status(pid: u32, field: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn memory_is_locked_and_stack_is_there_before_the_first_instruction() {
    let mut child = child("sleep");
    let stack_bytes = 1 << 20;
    let mut stops = 0;
    let locked = lock_and_prefault(
        child.id(),
        MemoryLock { flags: libc::MCL_CURRENT | libc::MCL_FUTURE, stack_bytes },
        &mut || stops += 1,
    );
    if let Err(InjectError::Call { call: "mlockall", .. } | InjectError::Step { .. }) = &locked {
        child.kill().unwrap();
        child.wait().unwrap();
        eprintln!("SKIPPED memory_is_locked_and_stack_is_there_before_the_first_instruction: {}", locked.unwrap_err());
        return;
    }
    locked.unwrap();
    assert_eq!(stops, 1);
    // The loader maps the libraries after that: MCL_FUTURE locks them too.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while std::fs::read_to_string(format!("/proc/{}/syscall", child.id())).is_ok_and(|text| text.starts_with("running"))
        && std::time::Instant::now() < end
    {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::thread::sleep(std::time::Duration::from_millis(100));
    let (locked, size, stack) =
        (status(child.id(), "VmLck:"), status(child.id(), "VmSize:"), status(child.id(), "VmStk:"));
    let runs = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(runs, "the program goes on after the injected calls");
    assert!(stack >= 1024, "{stack} KiB of stack");
    assert!(locked * 10 >= size * 9, "{locked} of {size} KiB are locked");
}
