//! A real instance: what it records, and that nothing is left behind.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test")]

use std::path::Path;
use std::time::Duration;
use windhover_trace::{EventKind, Instance, Options, TraceError};

/// The CPU that this thread is pinned to for the test.
fn pinned() -> u32 {
    let mut set = nix::sched::CpuSet::new();
    let cpu =
        (0..64).find(|&cpu| nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap().is_set(cpu).unwrap());
    set.set(cpu.unwrap()).unwrap();
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set).unwrap();
    u32::try_from(cpu.unwrap()).unwrap()
}

#[test]
fn an_instance_sees_the_tasks_that_run_on_its_cpu() {
    let cpu = pinned();
    let instance = match Instance::start(&Options::visitors([cpu].into_iter().collect())) {
        Ok(instance) => instance,
        Err(TraceError::NoTracefs(cause)) => {
            eprintln!("SKIPPED an_instance_sees_the_tasks_that_run_on_its_cpu: no tracefs: {cause}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let tid = nix::unistd::gettid().as_raw();
    // A count of sleeps and no time: on a busy machine each takes as long as it takes.
    (0..30).for_each(|_| std::thread::sleep(Duration::from_millis(2)));
    let (events, lost) = instance.finish().unwrap();
    assert_eq!(lost, 0);
    assert!(events.iter().all(|event| event.cpu == cpu));
    assert!(events.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
    let switched_in = events
        .iter()
        .filter(|event| matches!(&event.kind, EventKind::Switch { next_tid, .. } if *next_tid == tid))
        .count();
    assert!(switched_in >= 10, "{switched_in} switches to the own thread in {} events", events.len());
    let first = events.first().unwrap().at_ns;
    let last = events.last().unwrap().at_ns;
    assert!(last - first >= 50_000_000, "events span {} ns", last - first);
}

#[test]
fn what_a_killed_process_left_is_removed_by_the_next() {
    let cpus = || [0].into_iter().collect();
    let Ok(first) = Instance::start(&Options::visitors(cpus())) else {
        eprintln!("SKIPPED what_a_killed_process_left_is_removed_by_the_next: no tracefs may be opened");
        return;
    };
    // Where tracefs is not mounted the instances are seen through any descriptor of it.
    let debug = format!("{first:?}");
    let path = debug.split('"').nth(1).unwrap().to_owned();
    let instances = Path::new(&path).parent().unwrap();
    let stale = instances.join("windhover-999999999-1-0");
    std::fs::create_dir(&stale).unwrap();
    assert!(stale.is_dir());
    let second = Instance::start(&Options::visitors(cpus())).unwrap();
    assert!(!stale.exists());
    assert!(Path::new(&path).is_dir(), "the instance of a living process stays");
    drop(second);
    let listed = std::fs::read_dir(instances).unwrap().count();
    drop(first);
    assert!(listed >= 1);
}
