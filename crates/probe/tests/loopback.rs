//! Measurements against a real endpoint over loopback.

mod common;

use common::{Served, check_sane, has, one, run, run_with, spec, task};
use model::{FindingId, LatencyKind, Limits, Probe, ProbeOptions, Protocol, Receive, Role, RrSpec, SizeList};
use std::sync::atomic::Ordering;

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

#[test]
fn pingpong_in_every_receive_mode() {
    let served = Served::start();
    for protocol in [Protocol::Udp, Protocol::Tcp] {
        for receive in common::MODES {
            let mut spec = spec(Probe::Pingpong, protocol);
            spec.initiator.receive = receive;
            spec.reflector.receive = receive;
            let measured = one(&task(spec, served.address));
            check_sane(&measured);
            let result = &measured.result;
            assert_eq!(result.latency.as_ref().unwrap().kind, LatencyKind::RttHalf);
            assert_eq!(result.messages.lost, 0, "{protocol} {receive}");
            assert_eq!(result.factor("protocol").as_deref(), Some(protocol.word()));
            assert_eq!((result.size(), result.factor("load").as_deref()), (Some(32), Some("none")));
            let reflector = result.ends.first(Role::Reflector).unwrap();
            assert_eq!(reflector.spec.receive, receive);
            assert!(reflector.usage.elapsed_ns > 0, "{protocol} {receive}: {reflector:?}");
            assert!(!has(&measured, FindingId::PathIsLocal), "127.0.0.1 is local on purpose");
        }
    }
}

#[test]
fn a_count_is_exact() {
    let served = Served::start();
    for count in [1, 100, 2500] {
        let mut spec = spec(Probe::Pingpong, Protocol::Udp);
        spec.stop.max_ms = 60_000;
        spec.stop.max_count = count;
        let measured = one(&task(spec, served.address));
        assert_eq!(measured.result.messages.received, count);
        assert_eq!(measured.result.latency.unwrap().count, count);
    }
}

#[test]
fn several_sizes_each_give_a_document_in_order() {
    let served = Served::start();
    let sizes: SizeList = "0,1,7,8,16,1473,5000".parse().unwrap();
    let mut spec = spec(Probe::Pingpong, Protocol::Udp);
    spec.sizes = sizes.clone();
    spec.stop.max_ms = 10;
    let (all, outcome) = run(&task(spec, served.address));
    let outcome = outcome.unwrap();
    assert_eq!(outcome.sizes, 7);
    for (measured, size) in all.iter().zip(sizes.iter()) {
        check_sane(measured);
        assert_eq!(measured.result.size(), Some(u64::from(size)));
        assert_eq!(measured.result.messages.lost, 0, "{size}");
        assert_eq!(measured.result.messages.duplicated.is_some(), size > 0);
    }
    assert!(all[0].result.self_cost.startup_ns.is_some_and(|ns| ns > 0));
    assert_eq!(all[1].result.self_cost.startup_ns, None, "only the first size starts the process");
}

#[test]
fn several_pings_and_pongs() {
    let served = Served::start();
    for (protocol, more) in [(Protocol::Udp, false), (Protocol::Tcp, false), (Protocol::Tcp, true)] {
        for (size, pongs) in [(1, 2), (64, 4)] {
            let mut spec = spec(Probe::Pingpong, protocol);
            spec.sizes = SizeList::one(size);
            (spec.pings, spec.pongs, spec.socket.as_mut().unwrap().more) = (3, pongs, more);
            spec.stop.max_count = 300;
            spec.stop.max_ms = 60_000;
            let measured = one(&task(spec, served.address));
            let messages = &measured.result.messages;
            assert_eq!((messages.received, messages.lost), (300, 0), "{protocol} {size}");
            assert_eq!(messages.duplicated, Some(0), "{protocol} {size}");
        }
    }
}

/// How soon the interval is narrow enough is for the machine to say (the rule's arithmetic is tested with the rule); that the
/// run ends early exactly then, is not.
#[test]
fn a_run_ends_early_exactly_where_its_interval_is_narrow_enough() {
    let served = Served::start();
    for asked in [25.0, 5.0] {
        let mut spec = spec(Probe::Pingpong, Protocol::Udp);
        spec.rtt = true;
        (spec.stop.max_ms, spec.stop.min_count, spec.stop.max_count) = (120_000, 2000, 200_000);
        spec.stop.interval_percent = Some(asked);
        let measured = one(&task(spec, served.address));
        check_sane(&measured);
        let result = &measured.result;
        let latency = result.latency.as_ref().unwrap();
        // The document has whole ns where the rule has ticks: both ends of the interval and the median are off by up to 1 ns.
        let width_percent = |[low, high]: [u64; 2]| {
            (high - low).saturating_sub(2) as f64 * 100.0 / (latency.p50_ns.unwrap() + 1) as f64
        };
        let width = latency.p50_ci95_ns.map(width_percent);
        let narrow = width.is_some_and(|width| width <= asked);
        let early = result.messages.sent < 200_000;
        assert_eq!(early, narrow, "{asked} % asked, {width:?} reached: {result:?}");
        assert!(result.messages.sent >= 2000, "{result:?}");
        assert_eq!(has(&measured, FindingId::IntervalNotReached), !narrow, "{result:?}");
    }
}

#[test]
fn an_interval_that_is_not_reached_is_said() {
    let served = Served::start();
    let mut spec = spec(Probe::Pingpong, Protocol::Udp);
    spec.stop.max_ms = 60_000;
    spec.stop.max_count = 3000;
    spec.stop.interval_percent = Some(1e-9);
    let measured = one(&task(spec, served.address));
    assert!(has(&measured, FindingId::IntervalNotReached));
    assert_eq!(measured.result.messages.received, 3000, "it went on to its count");
}

#[test]
fn gaps_space_the_rounds() {
    let served = Served::start();
    let mut spec = spec(Probe::Pingpong, Protocol::Udp);
    spec.gap.sleep_us = 1000;
    spec.gap.spin_us = 500;
    (spec.stop.max_ms, spec.stop.max_count) = (60_000, 20);
    let measured = one(&task(spec, served.address));
    assert_eq!(measured.result.messages.received, 20);
    let usage = &measured.result.ends.first(Role::Initiator).unwrap().usage;
    assert!(usage.voluntary_switches >= 19, "the sleeps are real: {usage:?}");
    // 19 gaps of 1.5 ms lie between the first send and the last answer.
    assert!(measured.result.elapsed_ns >= 19 * 1_500_000, "{}", measured.result.elapsed_ns);
}

#[test]
fn rtt_is_twice_the_half() {
    let served = Served::start();
    let mut spec = spec(Probe::Pingpong, Protocol::Tcp);
    spec.rtt = true;
    spec.raw = true;
    (spec.stop.max_ms, spec.stop.max_count) = (60_000, 500);
    let measured = one(&task(spec, served.address));
    let latency = measured.result.latency.as_ref().unwrap();
    assert_eq!(latency.kind, LatencyKind::Rtt);
    assert!(measured.raw.is_some_and(|raw| !raw.is_empty()));
    let outlier = measured.outliers.iter().map(|outlier| outlier.rtt_ns).max().unwrap();
    assert_eq!(latency.max_ns, Some(outlier), "the worst message is kept");
}

#[test]
fn unconnected_sockets_and_ipv6() {
    let served = Served::start();
    let mut unconnected = spec(Probe::Pingpong, Protocol::Udp);
    unconnected.socket.as_mut().unwrap().connected = false;
    check_sane(&one(&task(unconnected, served.address)));
    if std::net::UdpSocket::bind("[::1]:0").is_err() {
        eprintln!("SKIPPED unconnected_sockets_and_ipv6: no IPv6 loopback");
        return;
    }
    let six = Served::at("[::1]:0", Limits::default(), None);
    for protocol in [Protocol::Udp, Protocol::Tcp] {
        check_sane(&one(&task(spec(Probe::Pingpong, protocol), six.address)));
    }
}

#[test]
fn rr_counts_transactions() {
    let served = Served::start();
    for protocol in [Protocol::Udp, Protocol::Tcp] {
        let mut spec = spec(Probe::Rr, protocol);
        spec.sizes = SizeList::one(100);
        spec.options = ProbeOptions::Rr(RrSpec { response_size: Some(3000), connect_each: false });
        let measured = one(&task(spec, served.address));
        check_sane(&measured);
        let result = &measured.result;
        let transactions = result.transactions.as_ref().unwrap();
        assert_eq!((transactions.request_bytes, transactions.response_bytes), (100, 3000));
        assert_eq!((transactions.passes, transactions.ci95_percent), (1, None));
        // Transactions follow one another at once, so the rate and the mean round trip say the same, within the gaps
        // between them.
        let rtt_s = 2.0 * result.latency.as_ref().unwrap().mean_ns.unwrap() / 1e9;
        let busy = transactions.per_second * rtt_s;
        assert!((0.3..=1.001).contains(&busy), "{busy}: {transactions:?}");
        assert!(result.ends.first(Role::Initiator).unwrap().usage.machine_percent().is_some());
    }
}

#[test]
fn rr_repeats_passes_for_an_interval() {
    let served = Served::start();
    let mut spec = spec(Probe::Rr, Protocol::Tcp);
    spec.stop.max_ms = 600;
    spec.stop.interval_percent = Some(150.0);
    let measured = one(&task(spec.clone(), served.address));
    let transactions = measured.result.transactions.as_ref().unwrap();
    assert!((3..=30).contains(&transactions.passes), "{transactions:?}");
    assert!(transactions.ci95_percent.is_some());
    // The limits are those of all passes: so many messages are ten for each of thirty.
    (spec.stop.max_ms, spec.stop.max_count) = (60_000, 300);
    spec.stop.interval_percent = Some(1e-6);
    let measured = one(&task(spec, served.address));
    assert_eq!(measured.result.transactions.as_ref().unwrap().passes, 30);
    assert!(has(&measured, FindingId::IntervalNotReached));
}

#[test]
fn rr_with_a_connection_for_each_transaction() {
    let served = Served::start();
    for receive in [Receive::Block, Receive::Spin] {
        let mut spec = spec(Probe::Rr, Protocol::Tcp);
        spec.options = ProbeOptions::Rr(RrSpec { response_size: Some(7), connect_each: true });
        spec.initiator.receive = receive;
        spec.reflector.receive = receive;
        spec.stop.max_count = 200;
        spec.stop.max_ms = 60_000;
        let measured = one(&task(spec, served.address));
        let messages = &measured.result.messages;
        assert_eq!((messages.received, messages.lost, messages.duplicated), (200, 0, None), "{receive}");
        assert!(measured.result.transactions.as_ref().unwrap().connect_each);
    }
}

#[test]
fn a_key_is_used_and_a_wrong_one_is_told() {
    let served = Served::with(Limits::default(), Some(KEY));
    let mut keyed = task(spec(Probe::Pingpong, Protocol::Udp), served.address);
    keyed.target.key = Some(KEY.to_owned());
    check_sane(&one(&keyed));
    keyed.target.key = Some(KEY.replace('0', "f"));
    let (all, outcome) = run(&keyed);
    let error = outcome.unwrap_err();
    assert!(all.is_empty());
    assert!(error.to_string().contains("wrong key"), "{error}");
    assert_eq!(error.exit_code(), 2);
    keyed.target.key = None;
    let error = run(&keyed).1.unwrap_err();
    assert!(error.to_string().contains("--key-file"), "{error}");
    keyed.target.key = Some("zz".to_owned());
    assert_eq!(run(&keyed).1.unwrap_err().exit_code(), 2);
}

#[test]
fn limits_of_the_owner_are_told() {
    let served = Served::with(Limits { max_size: 1000, allow_spin: false, ..Limits::default() }, None);
    let mut large = spec(Probe::Pingpong, Protocol::Udp);
    large.sizes = SizeList::one(1001);
    let error = run(&task(large, served.address)).1.unwrap_err();
    assert!(error.to_string().contains("1000"), "{error}");
    assert_eq!(error.exit_code(), 2);
    let mut spinning = spec(Probe::Pingpong, Protocol::Udp);
    spinning.reflector.receive = Receive::Spin;
    assert_eq!(run(&task(spinning, served.address)).1.unwrap_err().exit_code(), 2);
}

#[test]
fn nothing_listens() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = run(&task(spec(Probe::Pingpong, Protocol::Tcp), free)).1.unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&free.to_string()) && text.contains("windhover serve"), "{text}");
    assert!(!text.contains('\n'));
    assert_eq!(error.exit_code(), 1);
    let error = run(&task(spec(Probe::Pingpong, Protocol::Tcp), "no-such-host.invalid")).1.unwrap_err();
    assert_eq!(error.exit_code(), 2, "{error}");
}

#[test]
fn an_endpoint_that_ends_leaves_what_was_measured() {
    for (protocol, receive) in [
        (Protocol::Udp, Receive::Block),
        (Protocol::Udp, Receive::Spin),
        (Protocol::Tcp, Receive::Block),
        (Protocol::Tcp, Receive::Epoll),
    ] {
        let served = Served::start();
        let mut spec = spec(Probe::Pingpong, protocol);
        spec.initiator.receive = receive;
        spec.stop.max_ms = 60_000;
        spec.sizes = "32,64".parse().unwrap();
        spec.timeout_ms = 200;
        let mut task = task(spec, served.address);
        task.live = true;
        let stop = served.stopper();
        let (all, outcome) = run_with(&task, &common::at_first_interval(move |_| stop.stop()));
        let error = outcome.unwrap_err();
        assert_eq!(error.exit_code(), 5, "{error}");
        let text = error.to_string();
        assert!(text.contains("vanished") && text.matches(&task.target.control).count() == 1, "{text}");
        assert!(!text.contains(['(', '\n']), "one clear line: {text}");
        assert_eq!(all.len(), 1, "{protocol} {receive}: the second size was never begun");
        assert!(all[0].result.messages.received > 0);
        assert!(has(&all[0], FindingId::PeerVanished), "{protocol} {receive}");
        assert!(!all[0].result.verdict.trusted);
    }
}

#[test]
fn a_request_to_end_ends_the_run_and_keeps_the_size() {
    let served = Served::start();
    for receive in [Receive::Block, Receive::Spin] {
        let mut spec = spec(Probe::Pingpong, Protocol::Udp);
        spec.initiator.receive = receive;
        spec.stop.max_ms = 60_000;
        spec.sizes = "32,64".parse().unwrap();
        let mut task = task(spec, served.address);
        task.live = true;
        let context = common::at_first_interval(|stop| stop.store(true, Ordering::Relaxed));
        let (all, outcome) = run_with(&task, &context);
        let outcome = outcome.unwrap();
        assert!(outcome.interrupted);
        assert_eq!((outcome.exit_code(), all.len()), (130, 1), "{receive}");
        check_sane(&all[0]);
    }
}

#[test]
fn both_ends_spinning_on_one_cpu_are_refused() {
    let served = Served::start();
    let mut spec = spec(Probe::Pingpong, Protocol::Udp);
    let cpu = task::allowed_cpus().unwrap().iter().next();
    (spec.initiator.cpu, spec.reflector.cpu) = (cpu, cpu);
    spec.initiator.receive = Receive::Spin;
    let error = run(&task(spec, served.address)).1.unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("spins"), "{error}");
}

#[test]
fn a_pinned_end_stays_where_it_was_put() {
    let served = Served::start();
    let before = task::allowed_cpus().unwrap();
    let mut spec = spec(Probe::Pingpong, Protocol::Udp);
    spec.initiator.cpu = before.iter().last();
    let measured = one(&task(spec.clone(), served.address));
    let usage = &measured.result.ends.first(Role::Initiator).unwrap().usage;
    assert_eq!((usage.cpu, usage.migrations), (spec.initiator.cpu, 0), "{usage:?}");
    assert!(usage.other_tasks_ns.is_some());
    assert_eq!(task::allowed_cpus().unwrap(), before, "the calling thread is let back");
}

#[test]
fn own_addresses_are_local_unless_claimed() {
    // An address of this namespace that is not loopback by name.
    let own = net::interface::addresses().unwrap().into_iter().map(|entry| entry.address).find(|address| {
        !address.is_loopback() && address.is_ipv4() && std::net::TcpListener::bind((*address, 0)).is_ok()
    });
    let Some(own) = own else {
        eprintln!("SKIPPED own_addresses_are_local_unless_claimed: only loopback addresses here");
        return;
    };
    let served = Served::at(&format!("{own}:0"), Limits::default(), Some(KEY));
    let mut task = task(spec(Probe::Pingpong, Protocol::Udp), served.address);
    task.target.key = Some(KEY.to_owned());
    let measured = one(&task);
    assert!(has(&measured, FindingId::PathIsLocal));
    let mut context = common::context();
    context.claims_loopback = true;
    let (all, outcome) = run_with(&task, &context);
    outcome.unwrap();
    assert!(!has(&all[0], FindingId::PathIsLocal));
}

#[test]
fn real_time_policy_is_used_or_refused_in_one_line() {
    let served = Served::start();
    let mut spec = spec(Probe::Pingpong, Protocol::Udp);
    spec.initiator.policy = model::Policy::Fifo(1);
    let before = task::attributes(0).unwrap();
    let (all, outcome) = run(&task(spec, served.address));
    assert_eq!(task::attributes(0).unwrap(), before, "the calling thread keeps its policy");
    match outcome {
        Ok(_) => check_sane(&all[0]),
        Err(error) => {
            assert_eq!(error.exit_code(), 2);
            assert!(all.is_empty());
            let text = error.to_string();
            assert!(text.contains("fifo:1") && !text.contains('\n'), "{text}");
        }
    }
}

#[test]
fn ping_has_the_figures_of_iputils() {
    let loopback = std::net::IpAddr::from([127, 0, 0, 1]);
    if let Err(error) = net::icmp::permitted(loopback) {
        eprintln!("SKIPPED ping_has_the_figures_of_iputils: {error}");
        return;
    }
    for (receive, size) in [(Receive::Block, 0), (Receive::Block, 1), (Receive::Spin, 56), (Receive::Poll, 1400)] {
        let mut spec = spec(Probe::Ping, Protocol::Icmp);
        spec.initiator.receive = receive;
        spec.sizes = SizeList::one(size);
        spec.warmup.count = 1;
        spec.gap.sleep_us = 1000;
        spec.stop.max_count = 40;
        spec.stop.max_ms = 20_000;
        spec.raw = true;
        let measured = one(&task(spec, "127.0.0.1"));
        let result = &measured.result;
        let latency = result.latency.as_ref().unwrap();
        assert_eq!((latency.kind, latency.count, result.messages.lost), (LatencyKind::Rtt, 40, 0), "{receive} {size}");
        let peer = result.ends.first(Role::Reflector).unwrap();
        assert_eq!(peer.address.as_deref(), Some("127.0.0.1"), "the summary names the host, and echoes have no port");
        // mdev is the population's deviation, stdev the sample's.
        let (mdev, stdev) = (result.mdev_ns.unwrap(), latency.stdev_ns.unwrap());
        assert!((mdev - stdev * (39.0f64 / 40.0).sqrt()).abs() < 1e-3 * stdev + 1.0, "{mdev} {stdev}");
        assert!(result.elapsed_ns >= 39_000_000, "echoes are 1 ms apart and more");
    }
}

#[test]
fn echoes_that_nobody_answers_are_a_failure_with_their_count() {
    // Linux answers no echo to a group (net.ipv4.icmp_echo_ignore_broadcasts is on unless changed).
    if std::fs::read_to_string("/proc/sys/net/ipv4/icmp_echo_ignore_broadcasts").is_ok_and(|on| on.trim() == "0") {
        eprintln!(
            "SKIPPED echoes_that_nobody_answers_are_a_failure_with_their_count: this host answers echoes to groups"
        );
        return;
    }
    let mut spec = spec(Probe::Ping, Protocol::Icmp);
    spec.initiator.device = Some("lo".to_owned());
    (spec.warmup.count, spec.stop.max_ms, spec.stop.max_count, spec.timeout_ms) = (0, 60_000, 3, 20);
    let (all, outcome) = run(&task(spec, "224.0.0.1"));
    let error = outcome.unwrap_err();
    assert_eq!(error.exit_code(), 1);
    assert!(error.to_string().starts_with("224.0.0.1 answered no echo"), "{error}");
    assert_eq!((all.len(), all[0].result.messages.sent, all[0].result.messages.lost), (1, 3, 3));
    assert!(!all[0].result.verdict.trusted);
}

#[test]
fn the_rate_that_the_endpoint_allows_is_kept() {
    let served = Served::with(Limits { max_rate_pps: 2000, ..Limits::default() }, None);
    let mut spec = spec(Probe::Pingpong, Protocol::Udp);
    spec.warmup.count = 100;
    spec.stop.max_count = 200;
    spec.stop.max_ms = 20_000;
    let result = one(&task(spec, served.address)).result;
    assert_eq!((result.messages.received, result.messages.lost), (200, 0), "nothing is above the limit");
    assert!(result.elapsed_ns >= 199 * 500_000, "{} ns", result.elapsed_ns);
    let told = result.verdict.iter().find(|finding| finding.id == FindingId::NotPermitted).unwrap();
    assert!(told.detail.contains("2000 messages a second"), "{}", told.detail);
}

#[test]
fn multicast_carries_messages_both_ways() {
    let served = Served::start();
    let mut spec = spec(Probe::Pingpong, Protocol::Udp);
    spec.socket.as_mut().unwrap().multicast = Some(model::Multicast {
        group: "239.255.77.3".parse().unwrap(),
        interface: Some("lo".to_owned()),
        loopback: true,
    });
    spec.reflector.device = None;
    spec.stop.max_count = 200;
    spec.stop.max_ms = 20_000;
    let measured = one(&task(spec, served.address));
    assert_eq!((measured.result.messages.received, measured.result.messages.lost), (200, 0));
}
