//! The samplers on live threads: states and ratios, no absolute times.

use std::hint::black_box;
use std::time::{Duration, Instant};
use windhover_host::{counters, usage};

fn spin(time: Duration) -> u64 {
    let end = Instant::now() + time;
    let mut rounds = 0;
    while Instant::now() < end {
        rounds = black_box(rounds + 1);
    }
    rounds
}

#[test]
fn a_span_that_touches_nothing_new_has_no_faults() {
    // The code of finish() and of the span has to be in memory, as after a warm-up.
    let _ = usage::Sampler::start(Some(0)).finish();
    spin(Duration::from_millis(1));
    let mut faults = Vec::new();
    for _ in 0..5 {
        let mut sampler = usage::Sampler::start(Some(0));
        spin(Duration::from_millis(5));
        sampler.observe_cpu();
        let used = sampler.finish();
        faults.push(used.minor_faults + used.major_faults);
    }
    assert!(faults.contains(&0), "sampling faults by itself: {faults:?}");
}

#[test]
fn faults_of_the_span_are_counted() {
    let pages = 500;
    let sampler = usage::Sampler::start(None);
    // The allocator maps this much freshly, so each page faults (huge pages would take 2 MiB at once).
    let mut memory: Vec<u8> = Vec::with_capacity(4096 * pages);
    for page in 0..pages {
        memory.resize(page * 4096 + 1, 1);
    }
    black_box(&memory);
    let used = sampler.finish();
    assert!(used.minor_faults > 0, "{used:?}");
}

#[test]
fn a_spinning_thread_uses_its_cpu_and_a_sleeping_one_does_not() {
    let time = Duration::from_millis(200);
    let sampler = usage::Sampler::start(None);
    spin(time);
    let spun = sampler.finish();
    let sampler = usage::Sampler::start(None);
    std::thread::sleep(time);
    let slept = sampler.finish();
    let time_ns = u64::try_from(time.as_nanos()).unwrap();
    assert!(spun.elapsed_ns >= time_ns && slept.elapsed_ns >= time_ns);
    assert!(spun.process_user_ns + spun.process_system_ns > 0, "{spun:?}");
    assert!(slept.voluntary_switches >= 1, "{slept:?}");
    assert!(spun.cpus >= 1 && spun.cpu.is_some());
    assert!(spun.machine_busy_ns <= spun.elapsed_ns * u64::from(spun.cpus));
    assert_eq!(spun.other_tasks_ns, None);
}

#[test]
fn the_pinned_cpu_has_its_own_figures() {
    let sampler = usage::Sampler::start(Some(0));
    spin(Duration::from_millis(50));
    let used = sampler.finish();
    assert!(used.other_tasks_ns.is_some_and(|ns| ns <= used.elapsed_ns), "{used:?}");
    assert!(used.cpu_steal_ns.is_some());
    let missing = usage::Sampler::start(Some(8191)).finish();
    assert_eq!(missing.other_tasks_ns, None);
}

#[test]
fn a_socket_whose_buffer_is_full_shows_in_the_counters() {
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let sampler = counters::Sampler::start();
    // Nobody reads: 64 MiB do not fit any default buffer.
    for _ in 0..1100 {
        let _ = sender.send_to(&[0; 60_000], receiver.local_addr().unwrap());
    }
    let dropped = sampler.finish();
    assert!(dropped.udp_receive_buffer_errors > 0, "{dropped:?}");
    assert_eq!(dropped.socket_overflow, 0);
}
