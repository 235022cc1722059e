//! A real spin beside a neighbour: it has to be found and named.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test")]

use model::{CpuList, Policy};
use std::process::{Command, Stdio};
use std::time::Duration;
use windhover_prepare::verify;

#[test]
fn a_neighbour_on_the_cpu_is_found_and_named() {
    let cpu = task::allowed_cpus().unwrap().iter().last().unwrap();
    let cpus: CpuList = [cpu].into_iter().collect();
    // A process of its own name that keeps waking on the same CPU, for at most a few seconds.
    let script = "for i in $(seq 400); do :; sleep 0.005; done";
    let mut neighbour = Command::new("taskset")
        .args(["-c", &cpu.to_string(), "bash", "-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let evidence = verify::run(&cpus, Duration::from_millis(500), Policy::Other);
    neighbour.kill().unwrap();
    neighbour.wait().unwrap();
    let evidence = evidence.unwrap();
    let seen = &evidence.cpus[0];
    assert_eq!(seen.cpu, cpu);
    assert!(seen.spun_ns >= 500_000_000);
    assert!(seen.gaps > 0 && seen.stolen_ns >= seen.longest_ns && seen.longest_ns >= verify::GAP_NS);
    if let Some(why) = &evidence.no_trace {
        eprintln!("PARTLY a_neighbour_on_the_cpu_is_found_and_named: the names: {why}");
        return;
    }
    let names: Vec<_> = seen.visitors.iter().map(|visitor| visitor.name.as_str()).collect();
    assert!(names.iter().any(|name| *name == "sleep" || *name == "bash"), "{names:?}");
    let spec = model::ShieldSpec { processes: cpus, ..Default::default() };
    assert!(!evidence.leaks(&spec).is_empty());
}

#[test]
fn nothing_to_verify_is_said() {
    assert!(verify::run(&CpuList::default(), Duration::from_millis(1), Policy::Other).is_err());
}
