//! What recording one event costs, in ns: a thread that yields to another one on its CPU, with and without the recorder in turns. Each
//! turn of the CPU is a few events, which are counted. Needs CAP_BPF and CAP_PERFMON.
//!
//! `cargo bench -p windhover-trace --bench event` prints one number.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its figures")]
#![allow(unsafe_code, reason = "sched_setscheduler(2) has no safe wrapper here")]

use nix::sched::{CpuSet, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use std::error::Error;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use windhover_trace::{Recorder, Subject};

/// Calls between two looks at the events, of which the ring holds some more.
const CALLS: u64 = 200;
const BATCHES: u64 = 200;
const ROUNDS: usize = 15;

fn now_ns() -> Result<u64, Box<dyn Error>> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
    Ok(u64::try_from(now.tv_sec())? * 1_000_000_000 + u64::try_from(now.tv_nsec())?)
}

/// The least ns of a call in batches, and the events a call.
fn measure(call: fn(), cpu: u16, mut recorder: Option<&mut Recorder>) -> Result<(f64, f64), Box<dyn Error>> {
    let (mut least_ns, mut events) = (u64::MAX, 0);
    for _ in 0..BATCHES {
        let begin_ns = now_ns()?;
        (0..CALLS).for_each(|_| call());
        let end_ns = now_ns()?;
        least_ns = least_ns.min(end_ns - begin_ns);
        if let Some(recorder) = recorder.as_deref_mut() {
            // What was counted at the last call is read now.
            recorder.read(begin_ns);
            recorder.read(begin_ns);
            let inside = |at_ns: u64| (begin_ns..end_ns).contains(&at_ns);
            events += recorder.events(cpu, begin_ns, end_ns, 0).iter().filter(|event| inside(event.at_ns)).count();
        }
    }
    Ok((least_ns as f64 / CALLS as f64, events as f64 / (BATCHES * CALLS) as f64))
}

/// A system call that nothing is recorded of.
fn ask() {
    let _ = std::hint::black_box(nix::unistd::getppid());
}

fn main() -> Result<(), Box<dyn Error>> {
    let (cpu, cpu16) = (0, 0_u16);
    let mut set = CpuSet::new();
    set.set(cpu)?;
    // The other thread, too: both only yield to each other.
    sched_setaffinity(Pid::from_raw(0), &set)?;
    let priority = libc::sched_param { sched_priority: 10 };
    // SAFETY: `priority` is a valid sched_param that outlives the call.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) } != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    let over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&over);
    let other = std::thread::spawn(move || {
        while !ends.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
    });
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let port = socket.local_addr()?.port();
    let subject = Subject::Near(port);
    let mut costs = Vec::new();
    for _ in 0..ROUNDS {
        let (idle_ns, _) = measure(ask, cpu16, None)?;
        let (without_ns, _) = measure(std::thread::yield_now, cpu16, None)?;
        let mut recorder = Recorder::start(&subject)?;
        let (traced_ns, _) = measure(ask, cpu16, None)?;
        let (with_ns, events) = measure(std::thread::yield_now, cpu16, Some(&mut recorder))?;
        drop(recorder);
        // Programs run at each system call of both threads, and record nothing.
        let calls_ns = 2.0 * (traced_ns - idle_ns);
        eprintln!(
            "{without_ns:.0} ns without, {with_ns:.0} ns with {events:.2} events, of which {calls_ns:.0} ns for system calls"
        );
        costs.push((with_ns - without_ns - calls_ns) / events);
    }
    over.store(true, Ordering::Relaxed);
    let _ = other.join();
    costs.sort_by(f64::total_cmp);
    println!("{:.1}", costs[ROUNDS / 2]);
    Ok(())
}
