//! What was started dies with its owner, however the owner dies.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "functions that tests share are tests too"
)]

mod common;

use common::{Broom, SOON, copy, eventually, marked, marker, role, skipped, unprivileged};
use std::io::{BufRead, BufReader, Write};
use std::process::ChildStdout;
use windhover_task::{Child, Containment, Launch, Stream};

/// A shell that leaves one descendant in the background, one more in a session of its own, and has one in front.
fn family(marker: &str) -> Launch {
    Launch::new("sh").arg("-c").arg(format!("sleep {marker} & setsid sleep {marker} & sleep {marker}; wait"))
}

/// The part of the owner in these tests: starts what its role asks for, reports how it is contained, then waits.
#[test]
fn owner() {
    let Some(role) = role() else { return };
    let (kind, marker) = role.split_once(' ').unwrap();
    let launch = match kind {
        "namespace" => family(marker).pid_namespace(),
        "death" => Launch::new("sleep").arg(marker).die_with_parent(),
        "none" => Launch::new("sleep").arg(marker),
        other => panic!("{other}"),
    };
    let child = launch.start().unwrap();
    println!("\ncontained {:?}", child.containment());
    std::io::stdout().flush().unwrap();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let mut child = child;
    if line.trim() == "kill" {
        child.kill().unwrap();
        println!("\nkilled");
        std::io::stdout().flush().unwrap();
        std::io::stdin().read_line(&mut line).unwrap();
    }
    // Not dropped: nothing here may tidy up in place of the kernel.
    std::mem::forget(child);
}

fn read_word(lines: &mut BufReader<ChildStdout>, word: &str) -> String {
    loop {
        let mut line = String::new();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "the owner ended before it said '{word}'");
        if let Some(rest) = line.strip_prefix(word) {
            return rest.trim().to_owned();
        }
    }
}

/// An owner that has started its family; how it reports that it is contained.
fn owned(launch: Launch, marker: &str, members: usize) -> (Child, BufReader<ChildStdout>, String) {
    let mut owner = launch.start().unwrap();
    let mut lines = BufReader::new(owner.take_stdout().unwrap());
    let contained = read_word(&mut lines, "contained ");
    assert!(eventually(|| marked(marker).len() == members), "{:?}", marked(marker));
    (owner, lines, contained)
}

#[test]
fn a_pid_namespace_dies_with_an_owner_that_is_killed() {
    let marker = marker(1);
    let _broom = Broom(marker.clone());
    let (mut owner, _lines, contained) = owned(copy("owner", &format!("namespace {marker}")), &marker, 3);
    if common::is_root() {
        assert_eq!(contained, format!("{:?}", Containment::PidNamespace));
    }
    owner.kill().unwrap();
    if contained == format!("{:?}", Containment::Group) {
        return skipped("a_pid_namespace_dies_with_an_owner_that_is_killed", "no pid namespaces here");
    }
    assert!(eventually(|| marked(&marker).is_empty()), "{:?}", marked(&marker));
}

#[test]
fn an_unprivileged_owner_contains_its_family_too() {
    const NAME: &str = "an_unprivileged_owner_contains_its_family_too";
    for ends_by in ["its own kill", "a kill of the owner"] {
        let marker = marker(2);
        let _broom = Broom(marker.clone());
        let launch = match unprivileged("owner", &format!("namespace {marker}")) {
            Ok(launch) => launch,
            Err(reason) => return skipped(NAME, &reason),
        };
        let (mut owner, mut lines, contained) = owned(launch, &marker, 3);
        if contained != format!("{:?}", Containment::UserAndPidNamespace) {
            return skipped(NAME, "no user namespaces for unprivileged users here");
        }
        if ends_by == "its own kill" {
            let mut stdin = owner.take_stdin().unwrap();
            stdin.write_all(b"kill\n").unwrap();
            read_word(&mut lines, "killed");
            assert_eq!(marked(&marker), Vec::<u32>::new(), "gone by the time kill returns");
        } else {
            owner.kill().unwrap();
            assert!(eventually(|| marked(&marker).is_empty()), "{:?}", marked(&marker));
        }
    }
}

#[test]
fn killing_a_pid_namespace_leaves_nobody() {
    let marker = marker(3);
    let _broom = Broom(marker.clone());
    let mut child = family(&marker).pid_namespace().start().unwrap();
    if child.containment() == Containment::Group {
        return skipped("killing_a_pid_namespace_leaves_nobody", "no pid namespaces here");
    }
    assert!(eventually(|| marked(&marker).len() == 3));
    child.kill().unwrap();
    assert_eq!(marked(&marker), Vec::<u32>::new(), "gone by the time kill returns");
    // The thread that started it must be back in its own namespace: its next children are born there.
    let own = std::fs::read_link("/proc/thread-self/ns/pid").unwrap();
    let next = Launch::new("readlink").arg("/proc/self/ns/pid").finish(&[], SOON).unwrap();
    assert_eq!(String::from_utf8_lossy(&next.stdout).trim(), own.to_str().unwrap());
}

#[test]
fn the_parent_death_signal_ends_a_child_and_only_that_does() {
    for (kind, stays) in [("death", false), ("none", true)] {
        let marker = marker(4 + u32::from(stays));
        let _broom = Broom(marker.clone());
        let (mut owner, _lines, _) = owned(copy("owner", &format!("{kind} {marker}")), &marker, 1);
        owner.kill().unwrap();
        let gone = if stays {
            // Its owner has ended and was waited for; a signal on its behalf would have been sent by now.
            marked(&marker).is_empty()
        } else {
            eventually(|| marked(&marker).is_empty())
        };
        assert_eq!(gone, !stays, "{kind}");
    }
}

#[test]
fn dropping_a_child_kills_its_group() {
    let marker = marker(6);
    let _broom = Broom(marker.clone());
    let child = Launch::new("sh").arg("-c").arg(format!("sleep {marker} & sleep {marker}; true")).start().unwrap();
    assert!(eventually(|| marked(&marker).len() == 2));
    drop(child);
    assert!(eventually(|| marked(&marker).is_empty()), "{:?}", marked(&marker));
}

#[test]
fn what_a_leader_leaves_in_its_group_is_killed_when_it_is_waited_for() {
    let marker = marker(7);
    let _broom = Broom(marker.clone());
    let mut child =
        Launch::new("sh").arg("-c").arg(format!("sleep {marker} & exit 3")).stdout(Stream::Null).start().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert!(eventually(|| marked(&marker).is_empty()), "{:?}", marked(&marker));
    assert_eq!(child.try_wait().unwrap().unwrap().code(), Some(3), "asked again it says the same");
}

/// Init of a pid namespace that kills a group of its own: what no other process reaps, it reaps itself.
#[test]
fn an_init_that_kills_a_group_keeps_no_zombies() {
    const NAME: &str = "an_init_that_kills_a_group_keeps_no_zombies";
    if role().as_deref() == Some("init") {
        let mut child = Launch::new("sh").arg("-c").arg("sleep 1000 & sleep 1000; true").start().unwrap();
        // Long enough for the shell to have both; if it has not, the test is easier, not wrong.
        std::thread::sleep(std::time::Duration::from_millis(100));
        child.kill().unwrap();
        // ECHILD: there is no child left, neither living nor dead.
        println!("\nsays {:?}", nix::sys::wait::waitpid(None, Some(nix::sys::wait::WaitPidFlag::WNOHANG)));
        return;
    }
    let launch = copy(NAME, "init").pid_namespace();
    let done = launch.finish(&[], SOON).unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(said.contains("says Err(ECHILD)"), "{said}");
}
