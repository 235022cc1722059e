//! What a thread or process sets for itself, and the signals that wake and end it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "functions that tests share are tests too"
)]

mod common;

use common::{SOON, copy, eventually, is_root, role, skipped, unprivileged};
use model::{CpuList, Policy};
use nix::sys::resource::{UsageWho, getrusage};
use std::io::{BufRead, PipeReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;
use windhover_task::{
    Class, Interrupter, Progress, Stopper, TaskError, Watchdog, allowed_cpus, allowed_cpus_of, apply_policy,
    attributes, current_cpu, housekeeping_cpus, pin, prefault_stack, thread_id,
};

fn class() -> Class {
    attributes(0).unwrap().unwrap().class
}

/// Runs something that changes the calling thread on a thread of its own.
fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap())
}

#[test]
fn a_pinned_thread_is_where_it_was_put() {
    for cpu in allowed_cpus().unwrap().iter() {
        apart(|| {
            pin(cpu).unwrap();
            assert_eq!(allowed_cpus().unwrap(), [cpu].into_iter().collect::<CpuList>());
            assert_eq!(current_cpu(), Some(cpu));
        });
    }
    let error = apart(|| pin(8000).unwrap_err()).to_string();
    assert!(error.starts_with("CPU 8000 does not exist here: use 0"), "{error}");
    assert!(matches!(apart(|| windhover_task::set_affinity(&CpuList::default())), Err(TaskError::NoCpu)));
}

#[test]
fn policies_are_set_and_left_again() {
    apart(|| {
        for policy in [Policy::Batch, Policy::Other] {
            apply_policy(policy).unwrap();
            assert_eq!(class(), Class::Plain(policy));
        }
    });
    if !is_root() {
        return skipped("policies_are_set_and_left_again", "FIFO needs root");
    }
    apart(|| {
        apply_policy(Policy::Fifo(2)).unwrap();
        let now = attributes(0).unwrap().unwrap();
        assert_eq!((now.class, now.reset_on_fork), (Class::Plain(Policy::Fifo(2)), true));
        assert_eq!(apart(class), Class::Plain(Policy::Other), "a new thread is ordinary");
        apply_policy(Policy::Other).unwrap();
        assert_eq!(class(), Class::Plain(Policy::Other));
    });
}

/// The parts that copies of this binary play.
#[test]
fn part() {
    match role().as_deref() {
        None => {}
        Some("fifo") => {
            let said = apply_policy(Policy::Fifo(1)).map_err(|error| error.to_string());
            println!("\nsays {said:?}");
        }
        Some("lock") => {
            nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_MEMLOCK, 4096, 4096).unwrap();
            let said = windhover_task::lock_memory().map_err(|error| error.to_string());
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let of = |name| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
            println!("\nsays {said:?} {}", of("VmLck:"));
            println!("\nsays huge pages {}", of("THP_enabled:"));
        }
        Some("budget") => {
            windhover_task::set_rt_limit(Some(Duration::from_millis(20))).unwrap();
            apply_policy(Policy::Fifo(1)).unwrap();
            loop {
                std::hint::spin_loop();
            }
        }
        Some(other) => panic!("{other}"),
    }
}

fn says(lines: &mut impl BufRead) -> String {
    loop {
        let mut line = String::new();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "ended without a word");
        if let Some(word) = line.strip_prefix("says ") {
            return word.trim().to_owned();
        }
    }
}

#[test]
fn an_unprivileged_user_is_told_the_remedies() {
    for (part, words) in [("fifo", "CAP_SYS_NICE or RLIMIT_RTPRIO"), ("lock", "raise RLIMIT_MEMLOCK (now 4096 bytes")] {
        let done = match unprivileged("part", part) {
            Ok(launch) => launch.finish(&[], SOON).unwrap(),
            Err(reason) => return skipped("an_unprivileged_user_is_told_the_remedies", &reason),
        };
        let said = says(&mut done.stdout.as_slice());
        assert!(said.contains(words), "{part}: {said}");
    }
}

/// Catches: memory that is not locked, and memory that khugepaged may still fold under the measured loop.
#[test]
fn locked_memory_is_locked_and_left_alone() {
    if !is_root() {
        return skipped("locked_memory_is_locked_and_left_alone", "locking beyond the limit needs root");
    }
    let done = copy("part", "lock").finish(&[], SOON).unwrap();
    let mut lines = done.stdout.as_slice();
    let said = says(&mut lines);
    assert_eq!(says(&mut lines), "huge pages 0");
    let locked = said.strip_prefix("Ok(()) ").and_then(|rest| rest.strip_suffix(" kB")).map(str::parse::<u64>);
    assert!(matches!(locked, Some(Ok(kilobytes)) if kilobytes > 0), "{said}");
}

#[test]
fn a_real_time_spinner_is_ended_by_its_budget() {
    if !is_root() {
        return skipped("a_real_time_spinner_is_ended_by_its_budget", "FIFO needs root");
    }
    let done = copy("part", "budget").finish(&[], SOON).unwrap();
    assert_eq!(done.status.signal(), Some(libc::SIGXCPU));
}

/// In a frame of its own, whose pages are touched when it is entered.
#[inline(never)]
fn use_stack() {
    let mut frame = [1_u8; 256 * 1024];
    std::hint::black_box(&mut frame);
}

#[test]
fn the_stack_can_be_touched_ahead() {
    prefault_stack(0);
    // Stacks of sizes that no other thread has, because the C library keeps those of ended threads.
    let touched = |ahead: bool, stack_bytes: usize| {
        let work = move || {
            if ahead {
                prefault_stack(512 * 1024);
            }
            let faults = || getrusage(UsageWho::RUSAGE_THREAD).unwrap().minor_page_faults();
            let before = faults();
            use_stack();
            faults() - before
        };
        std::thread::Builder::new().stack_size(stack_bytes).spawn(work).unwrap().join().unwrap()
    };
    let (ahead, later) = (touched(true, 5 << 20), touched(false, 7 << 20));
    assert!(later >= 32 && ahead <= 8, "{ahead} faults in a stack that was touched ahead, {later} in another");
}

/// One read that is not repeated when a signal ends it.
fn read_once(pipe: &mut PipeReader) -> std::io::Result<usize> {
    pipe.read(&mut [0_u8; 1])
}

/// Whether a thread sits in a system call that waits.
fn sleeps(thread: i32) -> bool {
    std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"))
        .is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S')))
}

#[test]
fn a_watchdog_ends_a_read_that_never_comes_back() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let progress = Progress::new();
    let mine = progress.clone();
    let (result, interrupts) = apart(move || {
        let target = Interrupter::for_current_thread().unwrap();
        mine.arm();
        let watchdog = Watchdog::start(mine.clone(), target, Duration::from_millis(30), current_cpu()).unwrap();
        let result = read_once(&mut reader);
        mine.disarm();
        (result, watchdog.stop())
    });
    assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::Interrupted);
    assert!(interrupts > 0 && progress.count() == 2, "{interrupts}, {}", progress.count());
    drop(writer);
}

#[test]
fn a_watchdog_leaves_alone_who_progresses_or_is_disarmed() {
    let progress = Progress::new();
    let target = Interrupter::for_current_thread().unwrap();
    let watchdog = Watchdog::start(progress.clone(), target, Duration::from_secs(5), None).unwrap();
    progress.arm();
    for _ in 0..20 {
        progress.advance();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(watchdog.stop(), 0);
    // Disarmed, standing still for many time-outs is nothing to it.
    progress.disarm();
    let watchdog = Watchdog::start(progress, target, Duration::from_millis(4), None).unwrap();
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!(watchdog.stop(), 0);
}

#[test]
fn a_watchdog_is_ordinary_and_off_the_measuring_cpu() {
    let name_of = |thread: &str| std::fs::read_to_string(format!("/proc/self/task/{thread}/comm")).unwrap_or_default();
    let cpus = allowed_cpus().unwrap();
    let measuring = cpus.iter().next().unwrap();
    apart(|| {
        pin(measuring).unwrap();
        if is_root() {
            apply_policy(Policy::Fifo(1)).unwrap();
        }
        let target = Interrupter::for_current_thread().unwrap();
        let before: Vec<String> = threads();
        let watchdog = Watchdog::start(Progress::new(), target, Duration::from_secs(1), Some(measuring)).unwrap();
        let new = || threads().into_iter().find(|id| !before.contains(id) && name_of(id).trim() == "watchdog");
        assert!(eventually(|| new().is_some()));
        let thread: i32 = new().unwrap().parse().unwrap();
        let expected = housekeeping_cpus(Some(measuring));
        assert!(eventually(|| allowed_cpus_of(thread).is_ok_and(|now| now == expected)));
        assert_eq!(expected.contains(measuring), cpus.len() == 1);
        assert_eq!(attributes(thread).unwrap().unwrap().class, Class::Plain(Policy::Other));
        watchdog.stop();
    });
}

fn threads() -> Vec<String> {
    let entries = std::fs::read_dir("/proc/self/task").unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

#[test]
fn a_stopper_gets_through_to_a_blocked_thread() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let stopper = Stopper::new();
    let inside = stopper.clone();
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        inside.attach().unwrap();
        tell.send(thread_id()).unwrap();
        let mut interrupted = 0;
        while !inside.requested() {
            match read_once(&mut reader) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => interrupted += 1,
                other => panic!("{other:?}"),
            }
        }
        inside.acknowledge();
        interrupted
    });
    let id = told.recv().unwrap();
    assert!(eventually(|| sleeps(id)));
    assert!(!stopper.acknowledged());
    assert!(stopper.stop(SOON));
    assert!(thread.join().unwrap() > 0);
    assert!(stopper.stop(Duration::ZERO), "stopping twice is no error");
    // The read waited for it until now.
    drop(writer);
}

#[test]
fn a_stopper_says_when_nobody_listens() {
    let deaf = Stopper::new();
    assert!(!deaf.stop(Duration::from_millis(5)));
    // A thread that ended without a word cannot be in the way.
    let gone = deaf.clone();
    apart(move || gone.attach().unwrap());
    assert!(deaf.stop(SOON));
}
