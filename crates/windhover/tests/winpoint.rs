//! winpoint's ends against an unmodified windhover, both ways. What runs under Wine is `cargo xtask test --windows`.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use model::{Limits, PaceSpec, Pacer, Probe, ProbeOptions, ProbeSpec, Protocol, Receive, Substrate};
use support::{Folder, Server, assert_code, documents, run, stdout};
use winpoint::platform::Placement;
use winpoint::{Labels, Task};

#[test]
fn windhover_measures_against_the_reflector_of_winpoint() {
    // A field, a tag or an order of the control session that the two ends see differently.
    let server =
        winpoint::Server::bind("127.0.0.1:0".parse().unwrap(), None, &Limits::default(), Placement::default()).unwrap();
    let to = server.local_address().unwrap().to_string();
    std::thread::spawn(move || server.serve());
    for protocol in ["udp", "tcp"] {
        for probe in [
            &["pingpong", "--count", "200"][..],
            &["rr", "--count", "200"],
            &["pace", "--rate", "500", "--count", "100"],
        ] {
            let line = [&probe[..1], &[protocol, &to, "--format", "json"], &probe[1..]].concat();
            let output = run(&line);
            let result = &documents(&output)[0];
            let sent = result["messages"]["sent"].as_u64().unwrap();
            assert!(sent >= 100, "{line:?}");
            assert_eq!(result["messages"]["lost"], 0, "{line:?}");
            let notes = result["verdict"]["disturbed"].to_string();
            assert!(notes.contains("reflected by winpoint"), "{line:?}: {notes}");
        }
    }
}

#[test]
fn winpoint_measures_against_windhover_serve_and_report_reads_it() {
    let server = Server::start(&[]);
    let control = server.address.parse().unwrap();
    let mut results = Vec::new();
    for protocol in [Protocol::Udp, Protocol::Tcp] {
        let mut spec = ProbeSpec::new(Probe::Pingpong, protocol);
        (spec.stop.max_ms, spec.stop.max_count) = (30_000, 2000);
        let pace = PaceSpec { rates_pps: vec![1000.0], pacer: Pacer::Spin, ..PaceSpec::default() };
        let mut paced = ProbeSpec { options: ProbeOptions::Pace { pace }, rtt: true, ..spec.clone() };
        (paced.initiator.receive, paced.stop.max_ms) = (Receive::Spin, 500);
        for spec in [spec, paced] {
            let task = Task { spec, control, key: None };
            winpoint::measure(&task, &mut |measured| results.push(measured)).unwrap();
        }
    }
    assert!(results.iter().all(|measured| measured.result.messages.lost == 0));
    let folder = Folder::new("winpoint");
    let labels = Labels { name: "windows".to_owned(), substrate: Some(Substrate::Loopback), ..Labels::default() };
    let mut paths = Vec::new();
    // Two runs of two seconds' names.
    for started_ns in [1_795_297_384_000_000_000, 1_795_297_385_000_000_000] {
        let path =
            winpoint::write_run(std::path::Path::new(folder.path()), &labels, &mut results.clone(), started_ns, true)
                .unwrap();
        paths.push(path.display().to_string());
    }
    let report = run(&["show", &paths[0]]);
    assert_code(&report, 0);
    let text = stdout(&report);
    assert!(text.contains("foreign worker winpoint"), "{text}");
    let compared = run(&["compare", &paths[0], &paths[1]]);
    assert_code(&compared, 0);
}
