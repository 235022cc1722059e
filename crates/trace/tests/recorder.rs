//! The recorder on this kernel: needs CAP_BPF and CAP_PERFMON.

#![allow(unsafe_code, reason = "sched_setscheduler(2) has no safe wrapper here")]
#![allow(clippy::unwrap_used, reason = "tests panic")]

use explain::{EventKind, Side, Stage, Usual, explain_stay};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::{Pid, gettid};
use std::net::UdpSocket;
use windhover_trace::{Recorder, Subject};

/// Catches: a layout that differs between the programs and their reader, stages that are not stamped, a clock that is another one.
#[test]
fn a_message_has_its_stages_in_order() {
    let (near, far) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    near.connect(far.local_addr().unwrap()).unwrap();
    let port = near.local_addr().unwrap().port();
    let mut recorder = Recorder::start(&Subject::Near(port)).unwrap();
    let calls = recorder.calls(false).unwrap();
    println!("missing: {:?}", recorder.missing().collect::<Vec<_>>());
    let answering = std::thread::spawn(move || {
        let mut message = [0; 64];
        for _ in 0..2000 {
            let (bytes, from) = far.recv_from(&mut message).unwrap();
            far.send_to(&message[..bytes], from).unwrap();
        }
    });
    let mut usual = Usual::new(Side::Near);
    let mut message = [0; 32];
    let mut late = Vec::new();
    let mut complete = [0, 0];
    for seq in 0..2000_u64 {
        message[..8].copy_from_slice(&seq.to_le_bytes());
        message[8..16].copy_from_slice(&77_u64.to_le_bytes());
        calls.sends(&message);
        near.send(&message).unwrap();
        // Half of them by a thread that looks rather than sleeps.
        let spins = seq >= 1000;
        near.set_nonblocking(spins).unwrap();
        let bytes = loop {
            match near.recv(&mut message) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                received => break received.unwrap(),
            }
        };
        calls.received(&message[..bytes]);
        if seq % 100 == 99 {
            for seq in recorder.read(0) {
                let stay = recorder.stay(seq).unwrap();
                usual.add(&stay);
                let stages = [Stage::Send, Stage::Queued, Stage::Sent, Stage::Received, Stage::Returned];
                let times: Option<Vec<u64>> = stages.iter().map(|stage| Some(stay.at(*stage)?.at_ns)).collect();
                complete[usize::from(seq >= 1000)] += u32::from(times.is_some_and(|times| times.is_sorted()));
                assert!(seq <= 1000 || stay.at(Stage::Waking).is_none(), "a thread that never slept was woken");
                if stay.ns(Side::Near).unwrap() > 2 * usual.stay_ns() + 20_000 {
                    late.push(stay);
                }
            }
        }
    }
    answering.join().unwrap();
    println!("{} messages, median {} ns, p99 {:?}", usual.messages(), usual.stay_ns(), usual.stay_quantile(0.99));
    for stay in late.iter().rev().take(5) {
        let found = explain_stay(stay, &usual, 120, "initiator", &mut |cpu, from, to, thread| {
            explain::Timeline::new(&recorder.events(cpu, from, to, thread), from, to)
        });
        println!("{found:#?}");
    }
    assert!(usual.messages() > 1900);
    assert!(complete.iter().all(|count| *count > 950), "{complete:?}");
}

/// Catches: a task with many events since it was switched in, whose CPU seems to run the one that was forgotten last.
#[test]
fn the_task_that_runs_is_known_however_many_events_it_has() {
    const EVENTS: usize = 6000;
    let cpu = allowed_cpus()[0];
    let mut recorder = Recorder::start(&Subject::Nothing).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(50));
    let begin_ns = now_ns();
    let (thread, end_ns) = std::thread::spawn(move || {
        pin(cpu);
        let priority = libc::sched_param { sched_priority: 70 };
        // SAFETY: the structure lives for the duration of the call, which only reads it.
        assert_eq!(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) }, 0);
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        // Each is a software interrupt.
        (0..EVENTS).for_each(|_| assert!(sender.send_to(&[0; 8], receiver.local_addr().unwrap()).is_ok()));
        (gettid().as_raw(), now_ns())
    })
    .join()
    .unwrap();
    // What was counted at one call is read by the next, and what is older is forgotten.
    for _ in 0..2 {
        recorder.read(begin_ns);
    }
    let events = recorder.events(u16::try_from(cpu).unwrap(), end_ns, end_ns, 0);
    let mut switches = events.iter().filter(|event| event.at_ns <= end_ns).filter_map(|event| match event.kind {
        EventKind::Switch { to, .. } => Some(to),
        _ => None,
    });
    assert_eq!(switches.next_back(), Some(thread), "{} events", events.len());
}

fn now_ns() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
    (now.tv_sec() * 1_000_000_000 + now.tv_nsec()).cast_unsigned()
}

fn allowed_cpus() -> Vec<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap()).collect()
}

fn pin(cpu: usize) {
    let mut only = CpuSet::new();
    only.set(cpu).unwrap();
    sched_setaffinity(Pid::from_raw(0), &only).unwrap();
}

/// Catches: a move among the events of the CPU that made it, where the thread's next segment is not looked for; memory that a system
/// call touches for its caller.
#[test]
fn moves_and_faults_of_a_measured_thread_are_those_of_its_cpu() {
    let &[first, second, ..] = &allowed_cpus()[..] else { panic!("needs two CPUs") };
    let near = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut recorder = Recorder::start(&Subject::Near(near.local_addr().unwrap().port())).unwrap();
    let calls = recorder.calls(false).unwrap();
    pin(first);
    // The thread is a measured one from its first message on.
    calls.sends(&[1; 32]);
    let begin_ns = now_ns();
    pin(second);
    let moved_ns = now_ns();
    // More than the C library ever takes from its heap: each page is touched for the first time.
    let mut untouched = vec![0; 40 << 20];
    let mut zeros = std::fs::File::open("/dev/zero").unwrap();
    let fault_ns = now_ns();
    std::io::Read::read_exact(&mut zeros, &mut untouched).unwrap();
    let end_ns = now_ns();
    std::thread::sleep(std::time::Duration::from_millis(20));
    for _ in 0..2 {
        recorder.read(begin_ns);
    }
    let me = gettid().as_raw();
    let found = |cpu: usize, from_ns: u64, to_ns: u64, is_it: &dyn Fn(EventKind) -> bool| {
        let events = recorder.events(u16::try_from(cpu).unwrap(), from_ns, to_ns, me);
        events.iter().filter(|event| (from_ns..=to_ns).contains(&event.at_ns) && is_it(event.kind)).count()
    };
    let [from, to] = [first, second].map(|cpu| u16::try_from(cpu).unwrap());
    let moves = |kind| kind == EventKind::Migrated { tid: me, from, to };
    assert_eq!([first, second].map(|cpu| found(cpu, begin_ns, moved_ns, &moves)), [0, 1]);
    let faults = found(second, fault_ns, end_ns, &|kind| kind == EventKind::PageFault { tid: me });
    assert!(faults > 10, "{faults} in {} ns", end_ns - fault_ns);
}
