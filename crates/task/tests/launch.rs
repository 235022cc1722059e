//! What a child is given and what it is not.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "functions that tests share are tests too"
)]

mod common;

use common::{Broom, SOON, eventually, is_root, marked, marker, skipped};
use model::{CpuList, Policy};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;
use windhover_task::{Class, Launch, Stream, TaskError, allowed_cpus, allowed_cpus_of, attributes};

fn text(launch: Launch) -> String {
    let done = launch.finish(&[], SOON).unwrap();
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).unwrap()
}

fn sh(script: &str) -> Launch {
    Launch::new("sh").arg("-c").arg(script)
}

#[test]
fn only_the_descriptors_that_were_named_reach_the_child() {
    let (reader, writer) = nix::unistd::pipe().unwrap();
    // pipe(2) without O_CLOEXEC, as a careless library would make it.
    let seen = text(sh("ls -l /proc/self/fd"));
    let pipe = std::fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader))).unwrap();
    assert!(!seen.contains(pipe.to_str().unwrap()), "{seen}");
    let seen = text(sh("ls -l /proc/self/fd").inherit_fd(writer, 9));
    assert!(seen.contains(&format!("9 -> {}", pipe.display())), "{seen}");
}

#[test]
fn descriptors_arrive_under_their_numbers_even_crosswise() {
    let (mut first_reader, first_writer) = std::io::pipe().unwrap();
    let (mut second_reader, second_writer) = std::io::pipe().unwrap();
    let (first, second): (OwnedFd, OwnedFd) = (first_writer.into(), second_writer.into());
    use std::os::fd::AsRawFd;
    let (to_first, to_second) = (second.as_raw_fd(), first.as_raw_fd());
    let mut child = Launch::new("bash")
        .arg("-c")
        .arg(format!("echo first >&{to_first}; echo second >&{to_second}"))
        .inherit_fd(first, to_first)
        .inherit_fd(second, to_second)
        .start()
        .unwrap();
    assert!(child.wait().unwrap().success());
    let mut seen = [String::new(), String::new()];
    first_reader.read_to_string(&mut seen[0]).unwrap();
    second_reader.read_to_string(&mut seen[1]).unwrap();
    assert_eq!(seen, ["first\n", "second\n"]);
}

#[test]
fn a_failed_exec_is_told_even_when_descriptors_are_inherited() {
    // The report of the failure travels over a descriptor of its own, which must survive the placing of these.
    for number in 3..24 {
        let file: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
        let error = Launch::new("/nonexistent/program").inherit_fd(file, number).start().unwrap_err();
        assert!(matches!(error, TaskError::Start { .. }), "{number}: {error}");
    }
}

#[test]
fn environment_is_added_and_removed() {
    let home = std::env::var("PATH").unwrap();
    let seen = text(sh("echo $ADDED; echo ${PATH:-none}").env("ADDED", "yes"));
    assert_eq!(seen, format!("yes\n{home}\n"));
    let seen = text(Launch::new("/usr/bin/env").env_remove("PATH"));
    assert!(!seen.lines().any(|line| line.starts_with("PATH=")), "{seen}");
}

#[test]
fn the_child_leads_a_group_of_its_own_unless_told_otherwise() {
    let group = |launch: Launch| text(launch).split_whitespace().nth(4).unwrap().parse::<i32>().unwrap();
    let stat = || Launch::new("cat").arg("/proc/self/stat");
    let own = nix::unistd::getpgrp().as_raw();
    assert_ne!(group(stat()), own);
    assert_eq!(group(stat().in_our_group()), own);
}

#[test]
fn input_and_output_larger_than_a_pipe_pass_through() {
    let input: Vec<u8> = (0..3_000_000_u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
    let done = Launch::new("cat").finish(&input, SOON).unwrap();
    assert!(done.stdout == input, "{} bytes came back", done.stdout.len());
    let done = sh("echo out; echo err >&2; exit 7").finish(&[], SOON).unwrap();
    assert_eq!(
        (done.stdout.as_slice(), done.stderr.as_slice(), done.status.code()),
        (&b"out\n"[..], &b"err\n"[..], Some(7))
    );
}

#[test]
fn a_program_that_does_not_end_is_killed() {
    let marker = marker(1);
    let _broom = Broom(marker.clone());
    let error = Launch::new("sleep").arg(&marker).finish(&[], Duration::from_millis(50)).unwrap_err();
    assert!(matches!(error, TaskError::TimedOut { timeout_ms: 50, .. }), "{error}");
    assert!(marked(&marker).is_empty());
    // A descendant that keeps the pipes open does not keep us.
    let done = sh(&format!("setsid sleep {marker} & until grep -q '^sleep' /proc/$!/comm; do :; done; echo done"))
        .finish(&[], SOON)
        .unwrap();
    assert_eq!(done.stdout, b"done\n");
    assert!(eventually(|| marked(&marker).len() == 1), "it left the group, so it lives until the test sweeps it up");
}

#[test]
fn waiting_with_a_bound_tells_running_from_ended() {
    let mut child = Launch::new("cat").stdin(Stream::Pipe).stdout(Stream::Null).start().unwrap();
    assert!(child.try_wait().unwrap().is_none());
    assert!(child.wait_timeout(Duration::from_millis(20)).unwrap().is_none());
    child.take_stdin().unwrap().write_all(b"x").unwrap();
    assert_eq!(child.wait_timeout(SOON).unwrap().unwrap().code(), Some(0));
}

#[test]
fn errors_name_the_thing_and_the_remedy() {
    let says = |launch: Launch| launch.start().unwrap_err().to_string();
    let missing = says(Launch::new("windhover-no-such-program").env("PATH", "/usr/bin:/bin"));
    assert!(missing.contains("windhover-no-such-program") && missing.contains("install"), "{missing}");
    let folder = says(Launch::new("true").directory("/nonexistent-folder"));
    assert!(folder.contains("/nonexistent-folder"), "{folder}");
    let netns = says(Launch::new("true").netns("/run/netns/windhover-none"));
    assert!(netns.contains("network namespace /run/netns/windhover-none"), "{netns}");
    let cpu = says(Launch::new("true").cpus("8000".parse().unwrap()));
    assert!(cpu.starts_with("CPU 8000 does not exist here: use "), "{cpu}");
    let number = says(Launch::new("true").inherit_fd(std::fs::File::open("/dev/null").unwrap().into(), 1));
    assert!(number.contains("use 3 or more"), "{number}");
    for message in [missing, folder, netns, cpu, number] {
        assert!(!message.contains('\n'), "{message}");
    }
}

#[test]
fn the_child_keeps_to_its_cpus() {
    let first = allowed_cpus().unwrap().iter().take(1).collect::<CpuList>();
    let mut child = Launch::new("sleep").arg("1000").cpus(first.clone()).start().unwrap();
    assert_eq!(allowed_cpus_of(i32::try_from(child.pid()).unwrap()).unwrap(), first);
    child.kill().unwrap();
}

#[test]
fn a_fifo_child_does_not_pass_its_policy_on() {
    if !is_root() {
        return skipped("a_fifo_child_does_not_pass_its_policy_on", "FIFO needs root");
    }
    let marker = marker(2);
    let _broom = Broom(marker.clone());
    let mut child = sh(&format!("sleep {marker} & sleep {marker}; true")).policy(Policy::Fifo(3)).start().unwrap();
    let of = |pid: u32| attributes(i32::try_from(pid).unwrap()).unwrap().unwrap();
    let now = of(child.pid());
    assert_eq!((now.class, now.reset_on_fork), (Class::Plain(Policy::Fifo(3)), true));
    assert!(eventually(|| marked(&marker).len() == 2));
    for pid in marked(&marker) {
        assert_eq!(of(pid).class, Class::Plain(Policy::Other));
    }
    child.kill().unwrap();
}

#[test]
fn a_real_time_policy_reaches_the_init_of_a_namespace() {
    if !is_root() {
        return skipped("a_real_time_policy_reaches_the_init_of_a_namespace", "FIFO needs root");
    }
    let seen = text(
        sh("cut -d' ' -f41 /proc/self/stat; exec cut -d' ' -f41 /proc/self/stat").pid_namespace().policy(Policy::Rr(2)),
    );
    // Field 41 is the policy (proc_pid_stat(5)): the shell's child is SCHED_OTHER, what the shell becomes is SCHED_RR.
    assert_eq!(seen, format!("{}\n{}\n", libc::SCHED_OTHER, libc::SCHED_RR));
}

#[test]
fn a_bystander_leaves_the_measuring_cpu() {
    let cpus = allowed_cpus().unwrap();
    if cpus.len() < 2 {
        return skipped("a_bystander_leaves_the_measuring_cpu", "one CPU only");
    }
    let measuring = cpus.iter().next().unwrap();
    let mut child = Launch::new("sleep").arg("1000").bystander(Some(measuring)).start().unwrap();
    assert!(!allowed_cpus_of(i32::try_from(child.pid()).unwrap()).unwrap().contains(measuring));
    child.kill().unwrap();
}

#[test]
fn a_network_namespace_is_entered_and_nothing_else() {
    const NAME: &str = "a_network_namespace_is_entered_and_nothing_else";
    if !is_root() {
        return skipped(NAME, "network namespaces need root");
    }
    let marker = marker(3);
    let _broom = Broom(marker.clone());
    let mut holder = Launch::new("unshare").args(["--net", "sleep", &marker]).start().unwrap();
    if !eventually(|| marked(&marker).len() == 1) {
        return skipped(NAME, "no network namespaces here");
    }
    let path = format!("/proc/{}/ns/net", holder.pid());
    let inside = std::fs::read_link(&path).unwrap();
    let seen = text(sh("readlink /proc/self/ns/net; readlink /proc/self/ns/mnt").netns(&path));
    let mounts = std::fs::read_link("/proc/self/ns/mnt").unwrap();
    assert_eq!(seen, format!("{}\n{}\n", inside.display(), mounts.display()));
    assert_ne!(inside, std::fs::read_link("/proc/self/ns/net").unwrap());
    holder.kill().unwrap();
}
