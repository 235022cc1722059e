//! Labs in real namespaces. Each test uses names and a registry of its own; what it made is gone at its end, also when
//! it fails.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "functions that tests share are tests too")]

use lab::build::DEVICE;
use lab::{Lab, LabSpec, Owner, Registry};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use task::Launch;
use windhover_lab as lab;

/// Says why a test cannot run here, in the words that the test command collects.
fn skipped(test: &str) -> bool {
    let made = Command::new("unshare").args(["--net", "true"]).stderr(Stdio::null()).status();
    if made.is_ok_and(|status| status.success()) {
        return false;
    }
    eprintln!("SKIPPED {test}: network namespaces cannot be made here (not root?)");
    true
}

fn names(test: &str) -> (tempfile::TempDir, Registry, String) {
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::at(folder.path());
    (folder, registry, format!("t{}-{test}", std::process::id()))
}

fn ip(arguments: &str) -> (bool, String) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn namespaces_of(lab: &str) -> Vec<String> {
    let (_, text) = ip("netns list");
    let mine = format!("wh-{lab}-");
    text.lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|name| name.starts_with(&mine))
        .map(String::from)
        .collect()
}

/// Runs a shell script in a host's namespace and returns whether it succeeded, with what it printed.
fn in_host(lab: &lab::LabRecord, host: &str, script: &str) -> (bool, String) {
    let finished = Launch::new("bash")
        .args(["-c", script])
        .netns(lab.host(host).unwrap().netns_path().unwrap())
        .finish(b"", Duration::from_secs(60))
        .unwrap();
    (finished.status.success(), String::from_utf8_lossy(&finished.stdout).trim().to_owned())
}

/// A TCP connection between two hosts: bash opens it, a thread that entered the namespace answers.
fn reaches(lab: &lab::LabRecord, from: &str, to: &str, address: IpAddr) -> bool {
    let netns = lab.host(to).unwrap().netns_path().unwrap();
    let listener = std::thread::spawn(move || {
        nix::sched::setns(std::fs::File::open(netns).unwrap(), nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        std::net::TcpListener::bind(SocketAddr::new(address, 0)).unwrap()
    })
    .join()
    .unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut stream, b"hello\n").unwrap();
    });
    let (_, got) = in_host(lab, from, &format!("exec 3<>/dev/tcp/{address}/{port} && head -n 1 <&3"));
    if got == "hello" {
        answer.join().unwrap();
    }
    got == "hello"
}

#[test]
fn two_hosts_reach_each_other_and_leave_nothing() {
    if skipped("two_hosts_reach_each_other_and_leave_nothing") {
        return;
    }
    let (_folder, registry, name) = names("two");
    let lab = Lab::up(&registry, &LabSpec::new(&name)).unwrap();
    let record = lab.record().clone();
    assert_eq!(namespaces_of(&name).len(), 2);
    let b = record.host("b").unwrap();
    assert!(reaches(&record, "a", "b", b.address()));
    if let Some(ipv6) = b.ipv6 {
        // Bound at once: without nodad this fails for a second.
        assert!(reaches(&record, "a", "b", IpAddr::V6(ipv6)));
    }
    let (_, routes) = ip(&format!("-n wh-{name}-a route show"));
    assert!(routes.contains(&format!("224.0.0.0/4 dev {DEVICE}")), "{routes}");
    assert!(in_host(&record, "a", "echo >/dev/udp/127.0.0.1/9").0, "lo is down");
    lab.down().unwrap();
    assert!(namespaces_of(&name).is_empty());
    assert!(registry.all().unwrap().0.is_empty());
}

#[test]
fn hosts_on_a_bridge_all_reach_each_other() {
    if skipped("hosts_on_a_bridge_all_reach_each_other") {
        return;
    }
    let (_folder, registry, name) = names("four");
    let lab = Lab::up(&registry, &LabSpec { hosts: 4, ..LabSpec::new(&name) }).unwrap();
    let record = lab.record().clone();
    assert_eq!(namespaces_of(&name).len(), 5);
    for (from, to) in [("a", "b"), ("b", "d"), ("d", "c"), ("c", "a")] {
        assert!(reaches(&record, from, to, record.host(to).unwrap().address()), "{from} to {to}");
    }
    drop(lab);
    assert!(namespaces_of(&name).is_empty());
}

#[test]
fn two_labs_at_once_have_their_own_networks() {
    if skipped("two_labs_at_once_have_their_own_networks") {
        return;
    }
    let (_folder, registry, name) = names("p");
    let (one, two) = (format!("{name}-1"), format!("{name}-2"));
    let first = Lab::up(&registry, &LabSpec::new(&one)).unwrap();
    let second = Lab::up(&registry, &LabSpec::new(&two)).unwrap();
    assert_ne!(first.record().subnet, second.record().subnet);
    assert_eq!(lab::list(&registry).unwrap().0.len(), 2);
    assert!(lab::list(&registry).unwrap().0.iter().all(|status| !status.stale));
    assert!(reaches(first.record(), "a", "b", first.record().host("b").unwrap().address()));
    let taken = Lab::up(&registry, &LabSpec::new(&one)).unwrap_err();
    assert!(taken.to_string().starts_with(&format!("a lab named '{one}' exists (of process")), "{taken}");
    first.down().unwrap();
    assert!(reaches(second.record(), "a", "b", second.record().host("b").unwrap().address()));
    second.down().unwrap();
    assert!(namespaces_of(&one).is_empty() && namespaces_of(&two).is_empty());
}

#[test]
fn the_lab_of_a_killed_owner_is_removed_by_the_next_command() {
    if skipped("the_lab_of_a_killed_owner_is_removed_by_the_next_command") {
        return;
    }
    let (_folder, registry, name) = names("s");
    let (dead, next) = (format!("{name}-dead"), format!("{name}-next"));
    let mut owner = Command::new("sleep").arg("60").spawn().unwrap();
    let start_time = host::knob::TaskKey::of(i32::try_from(owner.id()).unwrap()).unwrap().started;
    let Owner::Process { offset_part_ns, boot_id, pid_namespace, .. } = Owner::this_process() else { unreachable!() };
    let owned = Owner::Process { pid: owner.id(), start_time, offset_part_ns, boot_id, pid_namespace };
    drop(Lab::up(&registry, &LabSpec { owner: owned, ..LabSpec::new(&dead) }).unwrap());
    // Not ours: dropping it left it there.
    assert_eq!(namespaces_of(&dead).len(), 2);
    assert!(lab::down_stale(&registry).unwrap().is_empty());
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert!(lab::list(&registry).unwrap().0[0].stale);
    let fresh = Lab::up(&registry, &LabSpec::new(&next)).unwrap();
    assert!(namespaces_of(&dead).is_empty());
    assert_eq!(lab::list(&registry).unwrap().0.len(), 1);
    fresh.down().unwrap();
}

#[test]
fn a_lab_made_by_hand_stays_until_it_is_taken_down() {
    if skipped("a_lab_made_by_hand_stays_until_it_is_taken_down") {
        return;
    }
    let (_folder, registry, name) = names("hand");
    drop(Lab::up(&registry, &LabSpec { owner: Owner::Persistent, ..LabSpec::new(&name) }).unwrap());
    assert!(lab::down_stale(&registry).unwrap().is_empty());
    assert_eq!(namespaces_of(&name).len(), 2);
    let run = |words: &[&str]| {
        let argv: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        lab::exec(&registry, &name, "b", &argv, &mut |_| {})
    };
    let script = format!("ip -o address show | grep -q {}", registry.get(&name).unwrap().unwrap().hosts[1].ipv4);
    assert_eq!(run(&["sh", "-c", &script]).unwrap(), 0);
    assert_eq!(run(&["sh", "-c", "exit 7"]).unwrap(), 7);
    assert_eq!(run(&["sh", "-c", "kill -9 $$"]).unwrap(), 137);
    let missing = run(&["no-such-program"]).unwrap_err().to_string();
    assert_eq!(missing.matches("no-such-program").count(), 1, "{missing}");
    assert!(run(&[]).unwrap_err().to_string().contains("no command was given for host 'b'"));
    lab::down(&registry, &name).unwrap();
    assert!(namespaces_of(&name).is_empty());
    assert!(lab::down(&registry, &name).unwrap_err().to_string().contains("there is no lab named"));
}

/// Deletes a device of this namespace when the test ends.
struct Device(String);

impl Drop for Device {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["link", "del", &self.0]).stderr(Stdio::null()).status();
    }
}

#[test]
fn borrowed_ports_come_back_as_they_were() {
    if skipped("borrowed_ports_come_back_as_they_were") {
        return;
    }
    let (_folder, registry, name) = names("ports");
    let (left, right) = (format!("whl{}", std::process::id()), format!("whr{}", std::process::id()));
    assert!(ip(&format!("link add {left} type veth peer name {right}")).0);
    let _pair = Device(left.clone());
    assert!(ip(&format!("addr add 192.0.2.77/32 dev {left}")).0);
    assert!(ip(&format!("addr add 192.0.2.78 peer 192.0.2.79/32 dev {left}")).0);
    assert!(ip(&format!("link set {left} up")).0);
    let spec = LabSpec { ports: vec![left.clone(), right.clone()], ..LabSpec::new(&name) };
    // A route that would be lost keeps the port where it is.
    assert!(ip(&format!("route add 203.0.113.0/24 dev {left}")).0);
    let error = Lab::up(&registry, &spec).unwrap_err();
    assert!(error.to_string().contains("carries this host's route to 203.0.113.0/24"), "{error}");
    assert!(ip(&format!("route del 203.0.113.0/24 dev {left}")).0);
    let fixed = LabSpec { ports: vec![left.clone(), "lo".to_owned()], ..LabSpec::new(&name) };
    let error = Lab::up(&registry, &fixed).unwrap_err().to_string();
    assert!(error.contains("port 'lo' cannot be moved"), "{error}");
    let lab = Lab::up(&registry, &spec).unwrap();
    assert!(!ip(&format!("link show dev {left}")).0, "the port is still here");
    assert!(reaches(lab.record(), "a", "b", lab.record().host("b").unwrap().address()));
    lab.down().unwrap();
    let (_, text) = ip(&format!("-o addr show dev {left}"));
    assert!(text.contains("192.0.2.77/32"), "{text}");
    assert!(text.contains("192.0.2.78 peer 192.0.2.79/32"), "{text}");
    assert!(!text.contains("198.1"), "{text}");
    assert!(ip(&format!("-o link show dev {left}")).1.contains(",UP"), "it was up before");
    assert!(!ip(&format!("-o link show dev {right}")).1.contains(",UP"), "it was down before");
}

#[test]
fn what_was_made_before_a_failure_is_removed() {
    if skipped("what_was_made_before_a_failure_is_removed") {
        return;
    }
    let (_folder, registry, name) = names("half");
    // A bridge stays in its namespace: the second move fails, after both namespaces and the first move.
    let (device, bridge) = (format!("whd{}", std::process::id()), format!("whb{}", std::process::id()));
    assert!(ip(&format!("link add {device} type veth peer name {device}p")).0);
    let _pair = Device(device.clone());
    assert!(ip(&format!("link add {bridge} type bridge")).0);
    let _bridge = Device(bridge.clone());
    let spec = LabSpec { ports: vec![device.clone(), bridge], ..LabSpec::new(&name) };
    let error = Lab::up(&registry, &spec).unwrap_err();
    assert!(error.to_string().starts_with("ip ") && error.exit_code() == 1, "{error}");
    assert!(namespaces_of(&name).is_empty());
    assert!(registry.all().unwrap().0.is_empty());
    assert!(ip(&format!("link show dev {device}")).0, "the port was not given back");
}

#[test]
fn a_foreign_namespace_of_the_same_name_is_left_alone() {
    if skipped("a_foreign_namespace_of_the_same_name_is_left_alone") {
        return;
    }
    let (_folder, registry, name) = names("foreign");
    let foreign = format!("wh-{name}-b");
    assert!(ip(&format!("netns add {foreign}")).0);
    let error = Lab::up(&registry, &LabSpec::new(&name)).unwrap_err();
    let still_there = Path::new("/run/netns").join(&foreign).exists();
    ip(&format!("netns del {foreign}"));
    assert!(error.to_string().contains("exists and belongs to no lab"), "{error}");
    assert!(still_there && registry.all().unwrap().0.is_empty());
}

#[test]
fn a_loopback_lab_makes_nothing() {
    let (_folder, registry, name) = names("plain");
    let spec = LabSpec { kind: model::plan::LabKind::Loopback, ..LabSpec::new(&name) };
    let lab = Lab::up(&registry, &spec).unwrap();
    assert_eq!(lab.hosts().len(), 2);
    assert!(registry.all().unwrap().0.is_empty());
    lab.down().unwrap();
    let missing = Lab::open(&registry, "nothing").unwrap_err();
    assert!(missing.to_string().contains("windhover lab list"), "{missing}");
    let port = Lab::up(&registry, &LabSpec { ports: vec!["no-such-port".into(), "x".into()], ..LabSpec::new(&name) });
    let error = port.unwrap_err().to_string();
    assert!(["port 'no-such-port' does not exist", "need root"].iter().any(|words| error.contains(words)), "{error}");
}
