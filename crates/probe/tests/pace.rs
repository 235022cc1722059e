//! Messages at a rate against a real endpoint over loopback. How fast and how late is no matter here: that everything is
//! counted is.

mod common;

use common::{Served, has, one, run, spec, task};
use model::worker::Measured;
use model::{FindingId, LatencyKind, PaceSpec, Pacer, Probe, ProbeSpec, Protocol, Shape, SizeList};

fn paced(protocol: Protocol, pace: PaceSpec) -> ProbeSpec {
    let mut spec = spec(Probe::Pace, protocol);
    spec.sizes = SizeList::one(64);
    spec.stop.max_ms = 200;
    spec.warmup.time_ms = 20;
    spec.pace = Some(pace);
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
    let reflector = result.ends.reflector.as_ref().unwrap();
    assert_eq!(reflector.usage.transactions, Some(sent), "it counts what it received, the warm-up apart");
    assert!(result.ends.initiator.usage.elapsed_ns > 0);
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
    assert_eq!((way.method.as_str(), way.offset_ns, way.error_ns), ("same-clock", 0, 0));
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
    let reflector = result.ends.reflector.as_ref().unwrap();
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
