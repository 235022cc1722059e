//! Captures that do not go well: a disk that is full, a program that does not answer, options that are wrong.

use super::stack::{run, serve};
use super::support::{Folder, assert_code, stderr, until};
use super::wire::{FAR, with_wire};
use super::{Started, bypass, compile, stat};
use net::capture::{Entry, Reader};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A command with a disk of so many KiB at `disk` in the folder; what is in its file `full` is kept beside it.
fn on_a_small_disk(folder: &Folder, kib: u32, arguments: &[&str]) -> Command {
    const START: &str = "mount -t tmpfs -o size=$0k none $1 && disk=$1 && shift && \"$@\"; code=$?; cp $disk/full $disk.kept; exit $code";
    let disk = folder.0.join("disk");
    std::fs::create_dir_all(&disk).unwrap();
    let mut command = Command::new("unshare");
    command.args(["-m", "--propagation", "private", "sh", "-c", START, &kib.to_string()]).arg(&disk);
    command.arg(env!("CARGO_BIN_EXE_windhover")).arg("bypass").args(arguments);
    command.env("WINDHOVER_STATE", folder.0.join("state"));
    command
}

const STACK: [&str; 5] = ["run", "--stack", "xdp", "--backend", "packet"];

/// A program that sends without end, and that its page shows on the stack.
fn flooding(folder: &Folder, program: &str) -> Started {
    let line = [&STACK[..], &["--", program, FAR[0], "flood"]].concat();
    let (started, _) = Started::new(&mut bypass(folder, &line), "flooding: 0");
    until("the stack's row in the page", || stat(folder)[0]["carrier"].is_object());
    started
}

/// Packets of a file that is whole to its end.
#[track_caller]
fn packets_of(file: &Path) -> usize {
    let mut reader = Reader::new(std::fs::File::open(file).unwrap()).unwrap();
    let mut packets = 0;
    while let Some(entry) = reader.next_entry().unwrap() {
        packets += usize::from(matches!(entry, Entry::Packet(_)));
    }
    packets
}

/// Catches: zeros or half a block at the end of the file, packets that are counted and not in it, an exit code that hides it.
#[test]
fn a_capture_on_a_full_disk_ends_after_its_last_whole_packet() {
    let test = "a_capture_on_a_full_disk_ends_after_its_last_whole_packet";
    let folder = Folder::new("bypass-capture-full");
    let Some(program) = compile(&folder, test, "ends", &[]) else { return };
    let near = move || {
        let (full, kept) = (folder.0.join("disk/full"), folder.0.join("disk.kept"));
        let path = full.to_str().unwrap();
        let flooding = flooding(&folder, &program);
        let attached = on_a_small_disk(&folder, 2048, &["capture", "ends", "-w", path]);
        // What the program is started for sends more than fits the smaller disk; the shell ends with 0.
        let line = format!("{program} {} >/dev/null; true", FAR[0]);
        let program = ["--capture", path, "--", "sh", "-c", &line];
        let started = on_a_small_disk(&folder, 64, &[&STACK[..], &program].concat());
        for (mut command, code, running) in [(attached, 1, Some(flooding)), (started, 125, None)] {
            let output = run(&mut command);
            drop(running);
            assert_code(&output, code);
            let said = stderr(&output);
            assert!(said.contains("No space left on device") && said.contains("the capture ends early"), "{said}");
            let line = format!("{} packets in {path}, ", packets_of(&kept));
            assert!(said.contains(&line) && !said.contains(&format!("{line}0 dropped")), "{line}: {said}");
        }
    };
    with_wire(test, near, serve);
}

/// Whether a process handles SIGINT: the first one no longer ends it.
fn waits_for_a_signal(child: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).map_or("0", str::trim);
    u64::from_str_radix(caught, 16).unwrap() & 1 << (Signal::SIGINT as i32 - 1) != 0
}

/// Catches: a file that is emptied for a capture that never began, and an exit code of 0 for it.
#[test]
fn a_program_that_does_not_answer_is_not_captured() {
    let test = "a_program_that_does_not_answer_is_not_captured";
    let folder = Folder::new("bypass-capture-stopped");
    let Some(program) = compile(&folder, test, "ends", &[]) else { return };
    let near = move || {
        let flooding = flooding(&folder, &program);
        let signal = |child: &Child, signal| kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        signal(&flooding.0, Signal::SIGSTOP);
        let file = folder.file("kept.pcapng", "kept");
        let mut command = bypass(&folder, &["capture", "ends", "-w", &file]);
        let capture = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        until("it waits for a signal", || waits_for_a_signal(&capture));
        signal(&capture, Signal::SIGINT);
        // It ends by itself after some seconds where nobody stops it.
        let output = capture.wait_with_output().unwrap();
        assert_code(&output, 130);
        assert!(stderr(&output).contains("interrupted before ends (process"), "{}", stderr(&output));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
    };
    with_wire(test, near, serve);
}

/// Catches: a file that is emptied before it is known that the program is captured.
#[test]
fn a_file_is_not_emptied_for_a_program_that_is_not_captured() {
    let folder = Folder::new("bypass-capture-options");
    let file = folder.file("kept.pcapng", "kept");
    for (arguments, code, words) in [
        (&["run", "--capture", &file, "true"][..], 125, "--capture belongs to --stack xdp"),
        (&["run", "--stack", "xdp", "--require", "--profile", "nosuch", "--capture", &file, "true"], 125, "nosuch"),
        (&["run", "--stack", "xdp", "--profile", "nosuch", "--capture", &file, "true"], 0, "runs on the kernel"),
        (&["run", "--stack", "xdp", "--interface", "nosuch0", "--capture", &file, "true"], 0, "no packet is captured"),
        (
            &["run", "--stack", "xdp", "--interface", "nosuch0", "--capture", &file, "/no/such/program"],
            127,
            "cannot run",
        ),
        (&["capture", "-c", "0", "-w", &file], 2, "use 1 or more"),
    ] {
        let output = bypass(&folder, arguments).output().unwrap();
        assert_code(&output, code);
        assert!(stderr(&output).contains(words), "{arguments:?}: {}", stderr(&output));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept", "{arguments:?}");
    }
}
