//! Protocols within one machine: this very program is also the child that reflects.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail loudly")]

mod common;

use common::{check_sane, has, run_with, spec};
use model::worker::{INHERITED_VARIABLE, Inherited, ProbeTask, Target};
use model::{FindingId, Probe, ProbeOptions, ProbeSpec, Protocol, Receive, Role, RrSpec, SizeList};

const LOCAL: [Protocol; 3] = [Protocol::UnixStream, Protocol::UnixDgram, Protocol::Pipe];

#[test]
#[ignore = "not a test: what the other tests start as the reflector"]
fn reflector() {
    let inherited: Inherited = std::env::var(INHERITED_VARIABLE).unwrap().parse().unwrap();
    let take = |number| task::take_inherited(number).unwrap();
    let control = take(inherited.control).into();
    let read = take(inherited.read);
    let data = match inherited.write {
        Some(write) => endpoint::InheritedData::Pair { read, write: take(write) },
        None => endpoint::InheritedData::Socket(read),
    };
    endpoint::serve_inherited(control, data).unwrap();
}

fn context() -> windhover_probe::Context {
    let mut context = windhover_probe::Context::new(std::env::current_exe().unwrap(), "test");
    context.worker_args = ["--ignored", "--exact", "reflector"].map(str::to_owned).to_vec();
    context
}

fn local(spec: ProbeSpec) -> ProbeTask {
    ProbeTask::new(spec, Target::default())
}

fn children() -> usize {
    let own = std::process::id().to_string();
    let parent =
        |stat: &str| stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1).map(str::to_owned));
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok())
        .filter(|stat| parent(stat).as_deref() == Some(&own))
        .count()
}

#[test]
fn each_protocol_within_the_machine() {
    for protocol in LOCAL {
        for receive in [Receive::Block, Receive::Spin, Receive::Poll, Receive::Epoll] {
            let mut spec = spec(Probe::Pingpong, protocol);
            spec.initiator.receive = receive;
            spec.reflector.receive = receive;
            spec.sizes = "1,32,4000".parse().unwrap();
            spec.stop.max_count = 300;
            spec.stop.max_ms = 20_000;
            let (all, outcome) = run_with(&local(spec), &context());
            assert_eq!(outcome.unwrap().sizes, 3, "{protocol} {receive}");
            for measured in &all {
                check_sane(measured);
                assert_eq!((measured.result.messages.received, measured.result.messages.lost), (300, 0));
                assert!(!has(measured, FindingId::PathIsLocal), "it is meant to be local");
                assert!(measured.result.ends.first(Role::Reflector).unwrap().usage.elapsed_ns > 0);
            }
        }
    }
    assert_eq!(children(), 0, "no reflector is left behind");
}

#[test]
fn a_reflector_that_cannot_start_is_told() {
    let mut context = context();
    context.worker_program = "/nonexistent/windhover".into();
    let error = run_with(&local(spec(Probe::Pingpong, Protocol::Pipe)), &context).1.unwrap_err();
    assert!(error.to_string().contains("/nonexistent/windhover"), "{error}");
    assert_eq!(error.exit_code(), 1);
    // A program that is no reflector: it hangs up.
    context.worker_program = "/bin/true".into();
    let error = run_with(&local(spec(Probe::Pingpong, Protocol::Pipe)), &context).1.unwrap_err();
    assert!(!error.to_string().contains('\n'), "{error}");
    assert_eq!(error.exit_code(), 1);
}

#[test]
fn rr_within_the_machine() {
    let mut spec = spec(Probe::Rr, Protocol::UnixStream);
    spec.sizes = SizeList::one(10);
    spec.options = ProbeOptions::Rr(RrSpec { response_size: Some(2000), connect_each: false });
    let (all, outcome) = run_with(&local(spec), &context());
    outcome.unwrap();
    assert!(all[0].result.transactions.as_ref().unwrap().per_second > 0.0);
}
