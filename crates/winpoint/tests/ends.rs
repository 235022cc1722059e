//! Both ends of winpoint on loopback. The same code runs on Windows; there only the clock and the placement differ.
#![allow(clippy::unwrap_used, reason = "tests panic")]

use model::worker::Measured;
use model::{FindingId, Limits, PaceSpec, Pacer, Probe, ProbeOptions, ProbeSpec, Protocol, Receive, Substrate};
use std::net::SocketAddr;
use winpoint::platform::Placement;
use winpoint::{Labels, Server, Task, WinpointError};
use wire::Key;

/// An endpoint that serves until the test ends.
fn serve(key: Option<Key>, limits: &Limits) -> SocketAddr {
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), key, limits, Placement::default()).unwrap();
    let address = server.local_address().unwrap();
    std::thread::spawn(move || server.serve());
    address
}

fn pingpong(protocol: Protocol, sizes: &str, count: u64) -> ProbeSpec {
    let mut spec = ProbeSpec::new(Probe::Pingpong, protocol);
    spec.sizes = sizes.parse().unwrap();
    spec.warmup = model::Warmup { time_ms: 1, count: 0 };
    (spec.stop.max_ms, spec.stop.max_count) = (30_000, count);
    spec
}

fn pace(protocol: Protocol, rates_pps: &[f64], count: u64) -> ProbeSpec {
    let mut spec = ProbeSpec { rtt: true, ..pingpong(protocol, "64", count) };
    spec.initiator.receive = Receive::Spin;
    let pace =
        PaceSpec { rates_pps: rates_pps.to_vec(), pacer: Pacer::Spin, beyond_saturation: true, ..PaceSpec::default() };
    spec.options = ProbeOptions::Pace { pace };
    spec
}

fn measure(spec: ProbeSpec, control: SocketAddr, key: Option<Key>) -> Result<Vec<Measured>, WinpointError> {
    let mut results = Vec::new();
    winpoint::measure(&Task { spec, control, key }, &mut |measured| results.push(measured)).map(|()| results)
}

fn has(measured: &Measured, id: FindingId, end: &str) -> bool {
    measured.result.verdict.iter().any(|finding| finding.id == id && finding.end.as_deref() == Some(end))
}

#[test]
fn each_round_of_a_pingpong_is_answered_and_counted() {
    // A message that is lost, counted twice or cut, at sizes around the tiers of the header.
    let control = serve(None, &Limits::default());
    for (protocol, sizes) in [(Protocol::Udp, "0,1,8,15,16,32,1400"), (Protocol::Tcp, "1,8,16,32,100000")] {
        let results = measure(pingpong(protocol, sizes, 300), control, None).unwrap();
        assert_eq!(results.len(), sizes.split(',').count());
        for measured in &results {
            let messages = &measured.result.messages;
            // One round in a batch is not timed; 300 are less than a batch.
            assert_eq!((messages.sent, messages.received, messages.lost), (300, 300, 0), "{protocol} {sizes}");
            assert!(measured.result.latency.as_ref().unwrap().p50_ns.is_some());
            // Both ends say who measured, and that nobody watched them.
            assert!(has(measured, FindingId::Foreign, "initiator") && has(measured, FindingId::Foreign, "reflector"));
            assert_eq!(measured.result.factor("source").as_deref(), Some("foreign:winpoint"));
        }
    }
}

#[test]
fn a_loop_that_spins_at_both_ends_is_answered_too() {
    // A non-blocking socket that takes WouldBlock for an error.
    let control = serve(None, &Limits::default());
    for protocol in [Protocol::Udp, Protocol::Tcp] {
        let mut spec = pingpong(protocol, "32", 300);
        (spec.initiator.receive, spec.reflector.receive) = (Receive::Spin, Receive::Spin);
        let results = measure(spec, control, None).unwrap();
        assert_eq!(results[0].result.messages.received, 300, "{protocol}");
    }
}

#[test]
fn all_messages_of_a_rate_are_answered_and_their_lateness_is_known() {
    // A schedule whose messages are left out, or that goes on from the rate before.
    let control = serve(None, &Limits::default());
    for protocol in [Protocol::Udp, Protocol::Tcp] {
        let results = measure(pace(protocol, &[500.0, 1000.0], 200), control, None).unwrap();
        assert_eq!(results.len(), 2);
        for (measured, rate) in results.iter().zip(["500", "1000"]) {
            let result = &measured.result;
            assert_eq!((result.messages.sent, result.messages.lost), (200, 0), "{protocol}");
            assert_eq!(result.factor("rate").as_deref(), Some(rate));
            let achieved = result.rate.as_ref().unwrap().intended;
            assert_eq!(achieved, 200);
            assert_eq!(result.lateness.as_ref().unwrap().count, 200);
        }
    }
}

#[test]
fn messages_that_no_buffer_holds_are_sent_while_answers_are_taken() {
    // Two ends that wait for each other: one sends and takes no answers, the other one's answers are not taken.
    let control = serve(None, &Limits::default());
    let mut spec = pace(Protocol::Tcp, &[100_000.0], 20);
    (spec.sizes, spec.timeout_ms) = ("16000000".parse().unwrap(), 60_000);
    let results = measure(spec, control, None).unwrap();
    assert_eq!((results[0].result.messages.sent, results[0].result.messages.lost), (20, 0));
}

#[test]
fn figures_until_the_other_end_vanished_are_kept() {
    // A broken path that takes the figures of its size with it, because a send saw it first.
    let control = serve(None, &Limits { max_session_s: 1, ..Limits::default() });
    // So fast that it is often a send that sees the end first.
    let mut fast = pace(Protocol::Tcp, &[200_000.0], 1_000_000);
    fast.sizes = "16000".parse().unwrap();
    for spec in [fast, pingpong(Protocol::Tcp, "32", u64::MAX)] {
        let mut results = Vec::new();
        let task = Task { spec, control, key: None };
        let error = winpoint::measure(&task, &mut |measured| results.push(measured)).unwrap_err();
        assert!(matches!(error, WinpointError::Vanished { .. }), "{error}");
        assert!(results[0].result.messages.received > 0);
    }
}

#[test]
fn a_key_is_needed_and_the_wrong_one_is_refused() {
    let key = |byte| Key::from_bytes([byte; 32]);
    let control = serve(Some(key(1)), &Limits::default());
    let spec = || pingpong(Protocol::Udp, "32", 10);
    assert_eq!(measure(spec(), control, Some(key(1))).unwrap().len(), 1);
    for (wrong, word) in [(Some(key(2)), "key"), (None, "key")] {
        let error = measure(spec(), control, wrong).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn the_owner_s_limit_is_kept_without_losses() {
    // An initiator that runs into the limit: each message over it would cost a time-out.
    let control = serve(None, &Limits { max_rate_pps: 2000, ..Limits::default() });
    let results = measure(pingpong(Protocol::Udp, "32", 100), control, None).unwrap();
    assert_eq!(results[0].result.messages.lost, 0);
    let error = measure(pace(Protocol::Udp, &[3000.0], 10), control, None).unwrap_err().to_string();
    assert!(error.contains("2000"), "{error}");
}

#[test]
fn what_needs_linux_is_refused_in_a_sentence() {
    let control = serve(None, &Limits::default());
    let mut spec = pingpong(Protocol::Udp, "32", 10);
    spec.reflector.busy_poll_us = Some(50);
    let error = measure(spec, control, None).unwrap_err().to_string();
    assert!(error.contains("winpoint has no busy polling"), "{error}");
    let error = measure(ProbeSpec::new(Probe::Rr, Protocol::Udp), control, None).unwrap_err();
    assert_eq!(error.exit_code(), 2);
}

#[test]
fn a_run_directory_reads_back_with_its_system() {
    // A directory that `report` does not read, or that names no operating system.
    let control = serve(None, &Limits::default());
    let mut results = measure(pingpong(Protocol::Udp, "32,64", 50), control, None).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let labels = Labels { name: "here".to_owned(), substrate: Some(Substrate::Loopback), ..Labels::default() };
    let path = winpoint::write_run(folder.path(), &labels, &mut results, 1_795_297_384_000_000_000, true).unwrap();
    let run = store::Run::load(&path).unwrap();
    assert_eq!(run.problems, Vec::<String>::new());
    assert_eq!((run.results.len(), run.missing().len()), (2, 0));
    assert_eq!((run.run.substrate, run.run.outcome.as_deref()), (Substrate::Loopback, Some("done")));
    assert_eq!(run.run.labels.get("os").map(String::as_str), Some(std::env::consts::OS));
    assert_eq!(run.run.machines.len(), 1);
}
