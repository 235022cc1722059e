//! Streams against a real endpoint over loopback.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests fail loudly, and say what they skip")]

mod common;

use common::{Served, has, one, run, run_with, task};
use model::worker::Measured;
use model::{
    Direction, FindingId, FlowReport, Limits, LiveInterval, Policy, Probe, ProbeOptions, ProbeSpec, Protocol, SizeList,
    StreamSpec,
};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use windhover_probe::LiveSink;

fn spec(protocol: Protocol, ms: u32, stream: StreamSpec) -> ProbeSpec {
    let mut spec = ProbeSpec::new(Probe::Stream, protocol);
    spec.sizes = SizeList::one(if protocol == Protocol::Udp { 1000 } else { 65_536 });
    spec.stop.max_ms = ms;
    spec.options = ProbeOptions::Stream { stream };
    spec
}

fn flow(measured: &Measured, direction: Direction) -> &FlowReport {
    let stream = measured.result.stream.as_ref().unwrap();
    stream.flows.iter().find(|flow| flow.direction == direction).unwrap()
}

fn sum(measured: &Measured, quantity: &str, host: &str) -> f64 {
    let of = |series: &&model::result::Series| series.quantity.word() == quantity && series.host == host;
    let series = measured.result.series.iter().find(of).unwrap_or_else(|| unreachable!("no {quantity} of {host}"));
    series.values.iter().flatten().sum()
}

/// Whether the sender had the CPU that its rate needs; said where not.
fn kept_up(what: &str, measured: &Measured) -> bool {
    let late = measured.result.verdict.iter().find(|finding| finding.id == FindingId::RateNotReached);
    late.inspect(|finding| eprintln!("PARTLY {what}: this machine is too busy: {}", finding.detail)).is_none()
}

#[test]
fn datagrams_at_a_rate_go_both_ways() {
    let served = Served::start();
    for direction in [Direction::Up, Direction::Down, Direction::Both] {
        let stream = StreamSpec { direction, flows: 2, rate_pps: Some(2000.0), ..StreamSpec::default() };
        let mut spec = spec(Protocol::Udp, 1200, stream);
        spec.initiator.receive_buffer_bytes = Some(200_000);
        let measured = one(&task(spec, served.address));
        let result = &measured.result;
        let report = result.stream.as_ref().unwrap();
        assert_eq!(report.flows.len(), if direction == Direction::Both { 2 } else { 1 });
        assert_eq!(report.asked_pps, Some(2000.0));
        for flow in &report.flows {
            let (sent, received) = (flow.sent.unwrap(), flow.received.unwrap());
            assert_eq!(sent, received + flow.lost.unwrap(), "{flow:?}");
            assert_eq!(flow.bytes, received * 1000);
            // The schedule is absolute: what was sent is what was due, unless the machine could not keep up.
            assert!(sent <= 2600, "{flow:?}");
            if kept_up(&format!("datagrams {direction} at a rate"), &measured) {
                assert!(sent >= 2300, "{flow:?}");
            }
            assert!(flow.rfc3550_jitter_ns.unwrap() <= flow.rfc3550_jitter_max_ns.unwrap());
            assert!(flow.rfc3550_jitter_first_ns.is_some() && flow.retransmits.is_none(), "{flow:?}");
            assert!(flow.datagrams_per_second.unwrap() > 0.0 && flow.bits_per_second > 0.0);
            let host = if flow.direction == Direction::Up { "reflector" } else { "initiator" };
            assert_eq!(sum(&measured, "received", host), received as f64);
            assert_eq!(sum(&measured, "lost", host), flow.lost.unwrap() as f64);
            assert_eq!(sum(&measured, "bytes", host), flow.bytes as f64);
        }
        let messages = &result.messages;
        assert_eq!(messages.sent, messages.received + messages.lost);
        assert!(report.initiator_us_per_kib.is_some() && report.reflector_us_per_kib.is_some(), "{report:?}");
        assert!(result.elapsed_ns > 1_000_000_000 && result.started_ns > 1_600_000_000_000_000_000);
        assert!(!has(&measured, FindingId::Faults), "{:?}", result.verdict);
    }
}

#[test]
fn tcp_tells_what_its_kernel_knows() {
    let served = Served::start();
    for direction in [Direction::Up, Direction::Down, Direction::Both] {
        let stream = StreamSpec { direction, flows: 2, ..StreamSpec::default() };
        let measured = one(&task(spec(Protocol::Tcp, 300, stream), served.address));
        for flow in &measured.result.stream.as_ref().unwrap().flows {
            assert!(flow.bytes > 65_536 && flow.bits_per_second > 0.0, "{flow:?}");
            assert!(flow.sent.is_none() && flow.lost.is_none() && flow.rfc3550_jitter_ns.is_none(), "{flow:?}");
            assert!(flow.retransmits.is_some() && flow.congestion.is_some(), "{flow:?}");
            let (mean, max) = (flow.tcp_rtt_mean_ns.unwrap(), flow.tcp_rtt_max_ns.unwrap());
            assert!(0 < mean && mean <= max, "{flow:?}");
        }
        assert_eq!(measured.result.messages.sent, 0, "TCP has no messages");
    }
}

#[test]
fn a_bandwidth_is_kept_by_tcp_too() {
    let served = Served::start();
    let stream = StreamSpec { rate_bps: Some(8_000_000), ..StreamSpec::default() };
    let measured = one(&task(spec(Protocol::Tcp, 500, stream), served.address));
    let flow = flow(&measured, Direction::Up);
    // Half a second of a megabyte a second, and the write that was under way.
    assert!(flow.bytes <= 500_000 * 11 / 10, "{flow:?}");
    if kept_up("a bandwidth kept by TCP", &measured) {
        assert!(flow.bytes >= 450_000, "{flow:?}");
    }
}

#[test]
fn batches_segments_and_joined_datagrams_count_the_same() {
    let served = Served::start();
    let shapes: [(u32, bool, bool); 5] =
        [(1, false, false), (16, false, false), (4, true, false), (4, false, true), (8, true, true)];
    for (batch, gso, gro) in shapes {
        let stream = StreamSpec { direction: Direction::Both, batch, gso, gro, ..StreamSpec::default() };
        let measured = one(&task(spec(Protocol::Udp, 200, stream), served.address));
        for flow in &measured.result.stream.as_ref().unwrap().flows {
            let (sent, received) = (flow.sent.unwrap(), flow.received.unwrap());
            assert!(received > 100, "{batch} {gso} {gro}: {flow:?}");
            assert_eq!(sent, received + flow.lost.unwrap(), "{batch} {gso} {gro}");
            assert_eq!((flow.duplicated, flow.bytes), (Some(0), received * 1000), "{batch} {gso} {gro}");
            assert_eq!(flow.rfc3550_jitter_ns.is_none(), gro, "{flow:?}");
        }
    }
}

#[test]
fn every_size_has_a_session_of_its_own() {
    let served = Served::start();
    let mut spec = spec(Protocol::Udp, 50, StreamSpec::default());
    spec.sizes = "16,23,24,1472,60000".parse().unwrap();
    let (all, outcome) = run(&task(spec, served.address));
    assert_eq!(outcome.unwrap().sizes, 5);
    for measured in &all {
        let size = measured.result.size().unwrap();
        let flow = flow(measured, Direction::Up);
        assert_eq!(flow.bytes, flow.received.unwrap() * size);
        assert_eq!(flow.rfc3550_jitter_ns.is_some(), size >= 24, "a stamp needs room: {size}");
    }
}

#[test]
fn latency_under_load_beside_latency_without() {
    let served = Served::start();
    let stream = StreamSpec { working_latency: true, rate_bps: Some(20_000_000), ..StreamSpec::default() };
    let measured = one(&task(spec(Protocol::Udp, 400, stream), served.address));
    let report = measured.result.stream.as_ref().unwrap();
    for latency in [&report.idle_latency, &report.working_latency] {
        let latency = latency.as_ref().unwrap();
        assert_eq!(latency.kind, model::LatencyKind::Rtt);
        // A thousand a second at most, however long a busy machine makes 0.4 s; unpaced it would be tens of thousands.
        assert!((10..=2000).contains(&latency.count) && latency.min_ns.unwrap() > 0, "{latency:?}");
    }
    assert!(measured.hlog.contains("Tag=rtt"));
}

#[test]
fn seconds_are_told_while_it_runs() {
    let served = Served::start();
    for direction in [Direction::Up, Direction::Down, Direction::Both] {
        let working_latency = direction != Direction::Down;
        let stream = StreamSpec { direction, rate_pps: Some(1000.0), working_latency, ..StreamSpec::default() };
        // Long after the second of them, whose report a busy machine makes late.
        let mut task = task(spec(Protocol::Udp, 2900, stream), served.address);
        task.live = true;
        let told = Arc::new(Mutex::new(Vec::<LiveInterval>::new()));
        let mut context = common::context();
        let list = Arc::clone(&told);
        context.live = Some(LiveSink::new(move |interval| list.lock().unwrap().push(interval)));
        run_with(&task, &context).1.unwrap();
        let told = told.lock().unwrap();
        // A second whose word was late is told twice.
        assert_eq!(told.iter().filter(|one| one.settled).count(), 2, "{direction}: {told:?}");
        for interval in told.iter().filter(|one| one.settled) {
            let bytes = interval.bytes.unwrap();
            assert_eq!(bytes, interval.received * 1000, "{interval:?}");
            assert!(interval.received > 0 && interval.asked_pps == Some(1000.0), "{direction}: {interval:?}");
            assert_eq!(interval.sent > 0, direction != Direction::Down, "{interval:?}");
            // The ping-pong beside it, of this second alone.
            assert_eq!(
                interval.rounds.is_some_and(|rounds| (1..=1600).contains(&rounds)),
                working_latency,
                "{interval:?}"
            );
            assert_eq!(interval.rtt_p99_ns.is_some_and(|ns| ns > 0), working_latency, "{interval:?}");
            assert!(interval.rtt_p50_ns <= interval.rtt_max_ns, "{interval:?}");
        }
    }
}

#[test]
fn a_manager_that_panics_ends_everything() {
    let served = Served::start();
    let stream = StreamSpec { rate_pps: Some(1000.0), working_latency: true, ..StreamSpec::default() };
    let mut task = task(spec(Protocol::Udp, 300_000, stream), served.address);
    task.live = true;
    let (told, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut context = common::context();
        context.live = Some(LiveSink::new(|_| std::panic::resume_unwind(Box::new("the watcher fails"))));
        let run = std::panic::AssertUnwindSafe(|| run_with(&task, &context).1.is_ok());
        let _ = told.send(std::panic::catch_unwind(run).is_err());
    });
    // Nothing else ends it: the stream would go on for five minutes.
    assert_eq!(ended.recv(), Ok(true), "the ping-pong or the flows go on");
}

#[test]
fn the_owners_limit_is_kept_and_told() {
    let served = Served::with(Limits { max_bandwidth_bps: Some(4_000_000), ..Limits::default() }, None);
    for direction in [Direction::Up, Direction::Down] {
        let stream = StreamSpec { direction, ..StreamSpec::default() };
        let measured = one(&task(spec(Protocol::Udp, 500, stream.clone()), served.address));
        let flow = &measured.result.stream.as_ref().unwrap().flows[0];
        assert!(flow.bytes <= 250_000 * 12 / 10 && flow.bytes > 25_000, "{flow:?}");
        // The limit is named where it was nearly reached (80 %), which a machine that keeps the sender from its CPU prevents.
        let reached = flow.bits_per_second / 4e6;
        if reached >= 0.75 {
            assert!(reached < 0.85 || has(&measured, FindingId::NotPermitted), "{:?}", measured.result.verdict);
        } else {
            assert!(!has(&measured, FindingId::NotPermitted), "{reached}: {:?}", measured.result.verdict);
            eprintln!("PARTLY the limit that is told, {direction}: the sender reached {reached:.2} of it");
        }
        let stream = StreamSpec { rate_bps: Some(5_000_000), ..stream };
        let error = run(&task(spec(Protocol::Udp, 500, stream), served.address)).1.unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("--max-bandwidth"), "{error}");
    }
    let served = Served::with(Limits { max_session_s: 5, ..Limits::default() }, None);
    let error = run(&task(spec(Protocol::Udp, 2000, StreamSpec::default()), served.address)).1.unwrap_err();
    assert!(error.exit_code() == 2 && error.to_string().contains("--max-session"), "{error}");
}

#[test]
fn a_receiver_that_vanished_leaves_what_it_told() {
    let served = Served::start();
    let stream = StreamSpec { rate_pps: Some(1000.0), ..StreamSpec::default() };
    let mut task = task(spec(Protocol::Udp, 60_000, stream), served.address);
    task.live = true;
    let stop = served.stopper();
    let (all, outcome) = run_with(&task, &common::at_first_interval(move |_| stop.stop()));
    let error = outcome.unwrap_err();
    assert_eq!(error.exit_code(), 5);
    assert!(error.to_string().contains("vanished"), "{error}");
    assert!(has(&all[0], FindingId::PeerVanished) && !all[0].result.verdict.trusted);
    let flow = flow(&all[0], Direction::Up);
    assert!(flow.received.unwrap() > 0 && flow.bytes == flow.received.unwrap() * 1000, "{flow:?}");
    assert!(all[0].result.elapsed_ns >= 1_000_000_000);
}

#[test]
fn asked_to_end_it_ends_early_with_what_it_has() {
    let served = Served::start();
    let stream = StreamSpec { direction: Direction::Both, rate_pps: Some(1000.0), ..StreamSpec::default() };
    let mut task = task(spec(Protocol::Udp, 300_000, stream), served.address);
    task.live = true;
    let context = common::at_first_interval(|stop| stop.store(true, Ordering::Relaxed));
    let (all, outcome) = run_with(&task, &context);
    assert!(outcome.unwrap().interrupted);
    assert!(flow(&all[0], Direction::Up).received.unwrap() > 0 && flow(&all[0], Direction::Down).received.unwrap() > 0);
}

#[test]
fn what_cannot_be_is_told_first() {
    let served = Served::start();
    let refused = |spec: ProbeSpec, word: &str| {
        let error = run(&task(spec, served.address)).1.unwrap_err();
        let text = error.to_string();
        assert!(error.exit_code() == 2 && text.contains(word) && !text.contains('\n'), "{text}");
    };
    let both = |change: fn(&mut ProbeSpec)| {
        let mut spec = spec(Protocol::Udp, 100, StreamSpec::default());
        change(&mut spec);
        spec
    };
    refused(both(|spec| spec.sizes = SizeList::one(8)), "8 bytes");
    refused(both(|spec| spec.initiator.receive = model::Receive::Epoll), "epoll");
    refused(both(|spec| spec.stop.max_ms = u32::MAX), "seconds");
    refused(
        both(|spec| {
            (spec.initiator.cpu, spec.reflector.cpu) = (Some(0), Some(0));
            spec.initiator.policy = Policy::Fifo(1);
        }),
        "CPU 0",
    );
    let huge = StreamSpec { flows: 128, batch: 1024, ..StreamSpec::default() };
    refused(spec(Protocol::Udp, 100, huge), "fewer flows");
    let long = StreamSpec { gso: true, ..StreamSpec::default() };
    let mut spec = spec(Protocol::Tcp, 100, long);
    spec.sizes = SizeList::one(1000);
    refused(spec, "udp");
}
