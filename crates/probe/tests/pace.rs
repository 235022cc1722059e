//! Messages at a rate against a real endpoint over loopback. How fast and how late is no matter here: that everything is
//! counted is.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail loudly")]

mod common;

use common::{Served, has, one, run, spec, task};
use model::worker::{Measured, ProbeTask, Target};
use model::{
    FindingId, LatencyKind, Limits, Multicast, PaceSpec, Pacer, Policy, Probe, ProbeOptions, ProbeSpec, Protocol,
    Receive, Role, Shape, SizeList, Stamps,
};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use windhover_probe::LiveSink;

fn paced(protocol: Protocol, pace: PaceSpec) -> ProbeSpec {
    let mut spec = spec(Probe::Pace, protocol);
    spec.sizes = SizeList::one(64);
    spec.stop.max_ms = 200;
    spec.warmup.time_ms = 20;
    spec.options = ProbeOptions::Pace { pace };
    spec
}

fn at(rate: f64) -> PaceSpec {
    PaceSpec { rates_pps: vec![rate], ..PaceSpec::default() }
}

/// What every sound document of `pace` has.
fn check(measured: &Measured, sent: u64) {
    let result = &measured.result;
    let (messages, rate) = (&result.messages, result.rate.as_ref().unwrap());
    assert_eq!((messages.sent, messages.received + messages.lost), (sent, sent), "{messages:?} {rate:?}");
    assert_eq!(rate.intended, sent, "{rate:?}");
    let latency = result.latency.as_ref().unwrap();
    assert_eq!((latency.kind, latency.count), (LatencyKind::Rtt, messages.received));
    let intended = result.latency_intended.as_ref().unwrap();
    assert_eq!(intended.count, messages.received);
    assert!(intended.mean_ns >= latency.mean_ns, "{intended:?} {latency:?}");
    assert_eq!(result.lateness.as_ref().unwrap().count, sent);
    for tag in ["rtt", "rtt_intended", "lateness"] {
        assert!(measured.hlog.contains(&format!("Tag={tag},")), "{tag}: {}", measured.hlog);
    }
    let cost = &result.self_cost;
    assert!(cost.clock_read_ns > 0.0 && cost.loop_ns > 0.0 && cost.record_ns > 0.0, "{cost:?}");
    assert!(!has(measured, FindingId::SamplesOverrun), "{:?}", result.verdict);
    let reflector = result.ends.first(Role::Reflector).unwrap();
    assert_eq!(reflector.usage.transactions, Some(sent), "it counts what it received, the warm-up apart");
    assert!(result.ends.first(Role::Initiator).unwrap().usage.elapsed_ns > 0);
}

#[test]
fn an_even_rate_over_udp_is_all_answered() {
    let served = Served::start();
    let measured = one(&task(paced(Protocol::Udp, at(1000.0)), served.address));
    check(&measured, 200);
    let result = &measured.result;
    assert_eq!(result.messages.lost, 0, "{:?}", result.verdict);
    assert_eq!((result.factor("rate").as_deref(), result.size()), (Some("1000"), Some(64)));
    let way = result.one_way.as_ref().unwrap();
    assert_eq!((way.method.word(), way.offset_ns, way.error_ns), ("same-clock", 0, 0));
    assert!(way.out.count == 200 && way.out.min_ns > 0 && way.back.min_ns > 0, "{way:?}");
}

#[test]
fn every_pacer_and_protocol_counts_all() {
    let served = Served::start();
    for protocol in [Protocol::Udp, Protocol::Tcp] {
        for pacer in Pacer::ALL {
            let measured = one(&task(paced(protocol, PaceSpec { pacer, ..at(500.0) }), served.address));
            check(&measured, 100);
            assert_eq!(measured.result.messages.lost, 0, "{protocol} {pacer}");
        }
    }
}

#[test]
fn one_answer_in_so_many() {
    let served = Served::start();
    let (all, outcome) = run(&task(paced(Protocol::Udp, PaceSpec { every: 10, ..at(1000.0) }), served.address));
    outcome.unwrap();
    let result = &all[0].result;
    assert_eq!(result.latency.as_ref().unwrap().count, 20, "{:?}", result.messages);
    assert_eq!(result.lateness.as_ref().unwrap().count, 200, "each message has a lateness");
    let reflector = result.ends.first(Role::Reflector).unwrap();
    assert_eq!(reflector.usage.transactions, Some(200));
}

#[test]
fn shapes_keep_their_number_of_messages() {
    let served = Served::start();
    let shape = |shape| PaceSpec { shape, ..at(500.0) };
    let burst = one(&task(paced(Protocol::Udp, shape(Shape::Burst { count: 25 })), served.address));
    check(&burst, 100);
    let times = Shape::Times { offsets_ns: vec![0, 1_000_000, 1_000_000, 50_000_000] };
    let times = one(&task(paced(Protocol::Udp, shape(times)), served.address));
    check(&times, 15);
    assert_eq!(times.result.factor("rate").as_deref(), Some("80"));
    let poisson = one(&task(paced(Protocol::Udp, shape(Shape::Poisson)), served.address));
    let rate = poisson.result.rate.as_ref().unwrap();
    assert!((50..170).contains(&rate.intended), "{rate:?}");
    check(&poisson, rate.intended);
}

#[test]
fn each_rate_of_each_size_is_a_result_of_its_own() {
    let served = Served::start();
    let mut spec = paced(Protocol::Udp, PaceSpec { rates_pps: vec![100.0, 400.0], ..PaceSpec::default() });
    spec.sizes = "8,31,32,1473".parse().unwrap();
    spec.stop.max_ms = 50;
    let (all, outcome) = run(&task(spec, served.address));
    assert_eq!(outcome.unwrap().sizes, 8);
    let factors: Vec<_> =
        all.iter().map(|one| (one.result.size().unwrap(), one.result.factor("rate").unwrap())).collect();
    let expected: Vec<_> =
        [8_u64, 31, 32, 1473].into_iter().flat_map(|size| ["100", "400"].map(|rate| (size, rate.to_owned()))).collect();
    assert_eq!(factors, expected);
    for measured in &all {
        let rate = measured.result.rate.as_ref().unwrap();
        check(measured, if rate.asked_pps < 200.0 { 5 } else { 20 });
        assert_eq!(measured.result.one_way.is_some(), measured.result.size().unwrap() >= 32);
    }
}

/// The address of a second target.
fn with_other(mut task: ProbeTask, other: &Served) -> ProbeTask {
    task.others = vec![Target { control: other.address.to_string(), key: None, host: Some("other".to_owned()) }];
    task
}

#[test]
fn several_reflectors_each_have_their_figures() {
    let (one_end, other) = (Served::start(), Served::start());
    for (protocol, connected) in [(Protocol::Udp, true), (Protocol::Udp, false), (Protocol::Tcp, true)] {
        let mut spec = paced(protocol, at(500.0));
        spec.socket.as_mut().unwrap().connected = connected;
        // What is found at both, so that each is judged and called by its name.
        spec.reflector.preload = Some("/no/such.so".to_owned());
        let measured = one(&with_other(task(spec, one_end.address), &other));
        let result = &measured.result;
        let first = one_end.address.to_string();
        let claims = result.verdict.iter().filter(|finding| finding.id == FindingId::PathNotAsClaimed);
        let ends: Vec<&str> = claims.filter_map(|finding| finding.end.as_deref()).collect();
        assert_eq!(ends, [first.as_str(), "other"]);
        let hosts: Vec<_> = result.ends.of(Role::Reflector).map(|end| end.host.as_deref()).collect();
        assert_eq!(hosts, [Some(first.as_str()), Some("other")]);
        assert_eq!(result.reflectors.len(), 2, "{protocol}");
        // One as it was named, the other by its address.
        let hosts = [0, 1].map(|at| result.reflectors[at].host.clone());
        assert_eq!(hosts, [one_end.address.to_string(), "other".to_owned()]);
        for reflector in &result.reflectors {
            assert_eq!((reflector.messages.sent, reflector.messages.received), (100, 100), "{protocol} {reflector:?}");
            assert_eq!(reflector.latency.as_ref().unwrap().count, 100);
            assert!(reflector.one_way.as_ref().is_some_and(|way| way.out.min_ns > 0), "{reflector:?}");
            assert!(measured.hlog.contains(&format!("@{}", reflector.host)), "{}", measured.hlog);
        }
        assert_eq!(result.rate.as_ref().unwrap().intended, 100);
    }
}

#[test]
fn one_message_reaches_a_group() {
    let (one_end, other) = (Served::start(), Served::at("127.0.0.2:0", Limits::default(), None));
    let multicast = Multicast { group: "239.198.18.7".parse().unwrap(), interface: None, loopback: true };
    let mut spec = paced(Protocol::Udp, at(500.0));
    spec.socket.as_mut().unwrap().multicast = Some(multicast);
    let alone = one(&task(spec.clone(), one_end.address));
    check(&alone, 100);
    assert_eq!(alone.result.messages.lost, 0, "{:?}", alone.result.verdict);
    let twin = Served::start();
    let (_, outcome) = run(&with_other(task(spec.clone(), one_end.address), &twin));
    let error = outcome.unwrap_err();
    assert!(error.exit_code() == 2 && error.to_string().contains("one address"), "{error}");
    let both = one(&with_other(task(spec, one_end.address), &other));
    for reflector in &both.result.reflectors {
        assert_eq!((reflector.messages.sent, reflector.messages.received), (100, 100), "{reflector:?}");
        assert_eq!(reflector.messages.duplicated, Some(0), "each one's answers are told apart by its address");
    }
    assert_eq!(both.result.reflectors.len(), 2);
}

#[test]
fn stamps_of_the_kernel_cut_the_round_trip_into_parts() {
    let served = Served::start();
    let mut spec = paced(Protocol::Udp, PaceSpec { stamps: Stamps::Kernel, ..at(500.0) });
    for receive in [Receive::Block, Receive::Spin] {
        spec.initiator.receive = receive;
        let measured = one(&task(spec.clone(), served.address));
        check(&measured, 100);
        let segments = &measured.result.segments;
        let names: Vec<&str> = segments.iter().map(|segment| segment.name.word()).collect();
        assert_eq!(names, ["send", "wire", "far-kernel", "far-application", "near-kernel"], "{receive}");
        for segment in segments {
            assert!(segment.latency.count >= 95, "{receive} {}: {:?}", segment.name, segment.latency);
        }
        let mean = |at: usize| segments[at].latency.mean_ns.unwrap();
        let whole = measured.result.latency.as_ref().unwrap().mean_ns.unwrap();
        let sum: f64 = (0..segments.len()).map(mean).sum();
        // A message without a stamp is in the whole alone, and a busy machine may have made it the longest.
        if segments.iter().all(|segment| segment.latency.count == 100) {
            assert!((sum / whole - 1.0).abs() < 0.25, "{receive}: the parts make the whole: {sum} {whole}");
        } else {
            eprintln!(
                "PARTLY stamps_of_the_kernel_cut_the_round_trip_into_parts: {receive}: not every message has all stamps"
            );
        }
    }
    spec.initiator.receive = Receive::Block;
    spec.pace_mut().unwrap().stamps = Stamps::Hardware;
    let (_, outcome) = run(&task(spec, served.address));
    let text = outcome.unwrap_err().to_string();
    assert!(text.contains("lo has no hardware stamps") && !text.contains('\n'), "{text}");
}

/// Every way of waiting, both protocols, one reflector and several: each part of the round trip is told.
#[test]
fn stamps_of_sends_are_had_whatever_carries_the_messages() {
    let (one_end, other) = (Served::start(), Served::start());
    let whole = |measured: &Measured, least: u64, what: &str| {
        let segments = &measured.result.segments;
        assert_eq!(segments.len(), 5, "{what}: {segments:?}");
        for segment in segments {
            assert!(segment.latency.count >= least, "{what} {}: {:?}", segment.name, segment.latency);
        }
    };
    for protocol in [Protocol::Udp, Protocol::Tcp] {
        for receive in [Receive::Block, Receive::Poll, Receive::Epoll, Receive::EpollAdddel] {
            let mut spec = paced(protocol, PaceSpec { stamps: Stamps::Auto, ..at(500.0) });
            (spec.initiator.receive, spec.reflector.receive) = (receive, receive);
            spec.sizes = SizeList::one(100);
            let measured = one(&task(spec, one_end.address));
            assert_eq!(measured.result.messages.received, 100);
            // Of messages of a stream that leave in one piece, as where the sender gets its CPU late, only the last one is stamped.
            let least = if protocol == Protocol::Udp { 90 } else { 20 };
            whole(&measured, least, &format!("{protocol} {receive}"));
            assert!(measured.result.segments.iter().all(|segment| segment.stamps != model::StampSource::Other));
        }
        let mut spec = paced(protocol, PaceSpec { stamps: Stamps::Kernel, ..at(500.0) });
        spec.sizes = SizeList::one(100);
        let both = one(&with_other(task(spec, one_end.address), &other));
        assert_eq!(both.result.messages.received, 200);
        whole(&both, if protocol == Protocol::Udp { 180 } else { 40 }, &format!("{protocol} to two"));
    }
}

#[test]
fn sizes_of_a_stream_are_told_apart_by_its_stamps() {
    let served = Served::start();
    let mut spec = paced(Protocol::Tcp, PaceSpec { stamps: Stamps::Kernel, ..at(500.0) });
    spec.sizes = "64,3000,80".parse().unwrap();
    let (all, outcome) = run(&task(spec, served.address));
    outcome.unwrap();
    for measured in &all {
        let size = measured.result.size().unwrap();
        let names: Vec<&str> = measured.result.segments.iter().map(|segment| segment.name.word()).collect();
        assert_eq!(names, ["send", "wire", "far-kernel", "far-application", "near-kernel"], "{size}");
        // Of messages that leave in one piece, as a sender does that gets its CPU late, only the last one is stamped.
        let count = measured.result.segments[1].latency.count;
        assert!((20..=100).contains(&count), "{size}: {count}");
    }
}

#[test]
fn ipv6_unconnected_and_local_ways() {
    let served = Served::start();
    let mut spec = paced(Protocol::Udp, at(500.0));
    spec.socket.as_mut().unwrap().connected = false;
    check(&one(&task(spec, served.address)), 100);
    if std::net::UdpSocket::bind("[::1]:0").is_err() {
        eprintln!("SKIPPED ipv6_unconnected_and_local_ways: no IPv6 loopback");
        return;
    }
    let six = Served::at("[::1]:0", Limits::default(), None);
    for stamps in [Stamps::None, Stamps::Kernel] {
        check(&one(&task(paced(Protocol::Udp, PaceSpec { stamps, ..at(500.0) }), six.address)), 100);
    }
    check(&one(&task(paced(Protocol::Tcp, at(500.0)), six.address)), 100);
}

#[test]
fn a_rate_above_the_owner_s_limit_is_refused_before_anything_is_sent() {
    let served = Served::with(Limits { max_rate_pps: 900, ..Limits::default() }, None);
    check(&one(&task(paced(Protocol::Udp, at(900.0)), served.address)), 180);
    let (all, outcome) = run(&task(paced(Protocol::Udp, at(901.0)), served.address));
    let error = outcome.unwrap_err();
    assert_eq!((all.len(), error.exit_code()), (0, 2));
    assert!(error.to_string().contains("901") && error.to_string().contains("900"), "{error}");
}

#[test]
fn intervals_are_told_while_it_runs() {
    let served = Served::start();
    let told = Arc::new(Mutex::new(Vec::new()));
    let mut context = common::context();
    let heard = Arc::clone(&told);
    context.live = Some(LiveSink::new(move |interval| heard.lock().unwrap().push(interval)));
    let mut wanted = task(paced(Protocol::Udp, at(500.0)), served.address);
    wanted.spec.stop.max_ms = 1000;
    // A second is told as it goes by, not at its end.
    wanted.spec.timeout_ms = 2000;
    wanted.live = true;
    let began = Instant::now();
    let when = Arc::new(Mutex::new(Vec::new()));
    let (sink, seen) = (context.live.take().unwrap(), Arc::clone(&when));
    context.live = Some(LiveSink::new(move |interval| {
        seen.lock().unwrap().push(began.elapsed());
        sink.report(interval);
    }));
    let (all, outcome) = common::run_with(&wanted, &context);
    outcome.unwrap();
    let told = told.lock().unwrap();
    assert!(told.iter().all(|interval| interval.interval_ns == 100_000_000 && interval.size == 64));
    // An interval that was told before all its answers were there is told once more.
    let mut last = std::collections::BTreeMap::new();
    for interval in told.iter() {
        assert_eq!(interval.sent, interval.received + interval.lost + interval.open, "{interval:?}");
        let before = last.insert(interval.at_ns, interval.clone());
        assert!(before.is_none_or(|before| !before.settled && interval.settled), "{told:?}");
    }
    assert!((5..=12).contains(&last.len()), "{}", last.len());
    assert!(last.values().all(|interval| interval.settled), "{last:?}");
    let messages = &all[0].result.messages;
    let sum = |of: fn(&model::LiveInterval) -> u64| last.values().map(of).sum::<u64>();
    assert_eq!((sum(|one| one.sent), sum(|one| one.lost)), (messages.sent, messages.lost));
    let when = when.lock().unwrap();
    let spread = when.last().unwrap().saturating_sub(when[0]);
    assert!(spread > Duration::from_millis(500), "told while it runs: {when:?}");
}

#[test]
fn an_interrupted_run_keeps_what_it_has() {
    let served = Served::start();
    // Its second message is due after 200 s.
    let mut wanted = task(paced(Protocol::Udp, at(0.005)), served.address);
    wanted.spec.stop.max_ms = 300_000;
    wanted.spec.warmup.time_ms = 0;
    wanted.live = true;
    let asked = Arc::new(OnceLock::new());
    let when = Arc::clone(&asked);
    let context = common::at_first_interval(move |stop| {
        when.set(Instant::now()).unwrap();
        stop.store(true, Ordering::Relaxed);
    });
    let (all, outcome) = common::run_with(&wanted, &context);
    assert!(asked.get().unwrap().elapsed() < Duration::from_secs(100), "a sleeping sender is woken");
    let outcome = outcome.unwrap();
    assert_eq!((outcome.interrupted, outcome.exit_code(), all.len()), (true, 130, 1));
    let messages = &all[0].result.messages;
    assert_eq!(messages.received, 1, "{messages:?}");
}

#[test]
fn what_contradicts_itself_is_refused_with_a_remedy() {
    let refuse = |change: &dyn Fn(&mut ProbeTask)| {
        let mut wanted = task(paced(Protocol::Udp, at(1000.0)), "127.0.0.1:1");
        change(&mut wanted);
        let (all, outcome) = run(&wanted);
        let error = outcome.unwrap_err();
        assert_eq!((all.len(), error.exit_code()), (0, 2), "{error}");
        assert!(!error.to_string().contains('\n'));
    };
    refuse(&|task| task.spec.sizes = SizeList::one(7));
    refuse(&|task| task.spec.interval_us = Some(10));
    refuse(&|task| task.spec.gap.spin_us = 10);
    refuse(&|task| task.spec.stop.interval_percent = Some(1.0));
    refuse(&|task| task.spec.pace_mut().unwrap().rates_pps = vec![0.0]);
    refuse(&|task| task.spec.pace_mut().unwrap().every = 0);
    refuse(&|task| {
        let pace = task.spec.pace_mut().unwrap();
        (pace.pacer, pace.receive_cpu) = (Pacer::Spin, Some(0));
    });
    refuse(&|task| task.spec.pace_mut().unwrap().receive_cpu = Some(8000));
    refuse(&|task| {
        task.spec.initiator.policy = Policy::Fifo(1);
        task.spec.initiator.cpu = Some(0);
        task.spec.pace_mut().unwrap().pacer = Pacer::Hybrid;
        task.spec.pace_mut().unwrap().rates_pps = vec![40_000.0];
    });
    refuse(&|task| {
        task.spec.options = ProbeOptions::Pingpong;
        task.others = vec![task.target.clone()];
    });
}

#[test]
fn a_count_alone_ends_a_run() {
    let served = Served::start();
    let mut spec = paced(Protocol::Udp, at(500.0));
    spec.stop.max_ms = u32::MAX;
    spec.stop.max_count = 50;
    check(&one(&task(spec, served.address)), 50);
}

#[test]
fn real_time_threads_on_their_cpus_fault_and_move_nothing() {
    let cpus: Vec<u32> = task::online_cpus().unwrap().iter().collect();
    if cpus.len() < 2 {
        eprintln!("SKIPPED real_time_threads_on_their_cpus_fault_and_move_nothing: one CPU");
        return;
    }
    let served = Served::start();
    for (pacer, receive_cpu) in
        [(Pacer::Sleep, None), (Pacer::Sleep, Some(cpus[1])), (Pacer::Hybrid, Some(cpus[1])), (Pacer::Spin, None)]
    {
        let mut spec = paced(Protocol::Udp, PaceSpec { pacer, receive_cpu, ..at(500.0) });
        spec.initiator.policy = Policy::Fifo(1);
        spec.initiator.cpu = Some(cpus[0]);
        spec.reflector.cpu = Some(cpus[1]);
        let (all, outcome) = run(&task(spec, served.address));
        if let Err(error) = &outcome
            && error.to_string().contains("permitted")
        {
            eprintln!("SKIPPED real_time_threads_on_their_cpus_fault_and_move_nothing: {error}");
            return;
        }
        outcome.unwrap();
        check(&all[0], 100);
        let usage = &all[0].result.ends.first(Role::Initiator).unwrap().usage;
        assert_eq!((usage.migrations, usage.cpu), (0, Some(cpus[0])), "{pacer}");
        for finding in all[0].result.verdict.iter() {
            assert!(!matches!(finding.id, FindingId::Migrated | FindingId::Faults), "{pacer}: {finding:?}");
        }
    }
}
