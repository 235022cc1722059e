//! Pipes to real agents in processes of their own, whose workers are shell scripts, and to programs that are no agents.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "functions that tests share are tests too")]

use lab::{AgentCommand, Client, Lab, LabSpec, PipeError, Registry};
use model::worker::{EndpointTask, ProbeTask, Target};
use model::{Limits, LoadProfile, LoadSpec, Probe, ProbeSpec, Protocol};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use windhover_lab as lab;
use wire::LaunchSpec;

const LIMIT: Duration = Duration::from_secs(60);
/// Names the worker's program to the part of this program that is the agent.
const PROGRAM: &str = "WINDHOVER_TEST_WORKER";

/// The part of the agent: this test program again, with the pipe on descriptor 3, because the harness prints to stdout.
#[test]
fn agent_role() {
    let Some(program) = std::env::var_os(PROGRAM) else { return };
    let context = agent::Context {
        program: PathBuf::from(program),
        build: "the build".to_owned(),
        lines: Arc::new(|line: &str| eprintln!("{line}")),
    };
    let output = fs::OpenOptions::new().write(true).open("/proc/self/fd/3").unwrap();
    agent::serve(std::io::stdin(), output, &context).unwrap();
}

struct Agent {
    folder: tempfile::TempDir,
    command: AgentCommand,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Agent {
    /// `script` is the worker's body, as in the agent's own tests.
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("fake");
        let directory = folder.path().display();
        let body = format!(
            "#!/bin/sh\nDIR={directory}\nsay() {{ printf '\\n\\001windhover %s\\n' \"$1\"; }}\nread -r SPEC\n{script}\n"
        );
        write_program(&program, &body);
        let script = format!(
            "exec 3>&1 1>&2; {PROGRAM}='{}' exec '{}' --exact agent_role --nocapture",
            program.display(),
            std::env::current_exe().unwrap().display()
        );
        let command = AgentCommand::of(&["sh".to_owned(), "-c".to_owned(), script]);
        Self { folder, command, lines: Arc::new(Mutex::new(Vec::new())) }
    }

    fn open(&self, build: &str) -> Result<Client, PipeError> {
        let lines = Arc::clone(&self.lines);
        Client::open("b", &self.command, build, &AtomicBool::new(false), move |line: &str| {
            lines.lock().unwrap().push(line.to_owned());
        })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Another process writes it: see the agent's tests.
fn write_program(path: &Path, body: &str) {
    let mut writer = Command::new("sh")
        .args(["-c", "cat >\"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    writer.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
    assert!(writer.wait().unwrap().success());
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn pid_in(path: &Path) -> u32 {
    eventually("a process id", || fs::read_to_string(path).is_ok_and(|text| text.ends_with('\n')));
    fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

fn lives(pid: u32) -> bool {
    host::knob::TaskKey::of(i32::try_from(pid).unwrap()).is_some()
}

fn endpoint_task() -> EndpointTask {
    EndpointTask { bind: "127.0.0.1:0".to_owned(), key: None, limits: Limits::default() }
}

fn probe_task() -> ProbeTask {
    let target = Target { control: "127.0.0.1:1".to_owned(), key: None, host: None };
    ProbeTask::new(ProbeSpec::new(Probe::Pingpong, Protocol::Udp), target)
}

const LISTEN: &str = "say '{\"event\":\"ready\",\"address\":\"127.0.0.1:4242\"}'";

fn call(command: &AgentCommand) -> Result<Client, PipeError> {
    Client::open("b", command, "the build", &AtomicBool::new(false), |_: &str| {})
}

fn sh(script: &str) -> AgentCommand {
    AgentCommand::of(&["sh".to_owned(), "-c".to_owned(), script.to_owned()])
}

/// Catches: a link that hangs (a machine that went down behind it) was waited for a minute beyond the deadline of a boot.
#[test]
fn an_agent_that_does_not_greet_is_given_up_when_the_caller_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    // It would not end by itself when its pipe closes, as ssh does not.
    let command = sh(&format!("echo $$ > '{}'; exec sleep 600", pid.display()));
    let mut asked = 0;
    let mut waits = || {
        asked += 1;
        !fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n'))
    };
    let error = Client::open_while("b", &command, "the build", &mut waits, |_: &str| {}).unwrap_err();
    assert!(matches!(error, PipeError::Silent { .. }) && error.to_string().contains("say who it is"), "{error}");
    let pid: u32 = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    assert!(asked > 0 && !lives(pid), "it was left running");
}

#[test]
fn a_whole_conversation() {
    let agent = Agent::new(&format!("echo hello from the worker >&2\n{LISTEN}\ncat >/dev/null"));
    let mut client = agent.open("the build").unwrap();
    let (machine, host) = client.facts().unwrap();
    assert_eq!(machine.boot_id, client.identity().boot_id);
    assert_eq!(host.uid, client.identity().uid);
    let endpoint = client.start_endpoint(&endpoint_task(), &LaunchSpec::default()).unwrap();
    assert_eq!(endpoint.address, "127.0.0.1:4242");
    eventually("the worker's line", || agent.lines.lock().unwrap().iter().any(|line| line == "hello from the worker"));
    client.stop_endpoint(endpoint.id).unwrap();
    let error = client.stop_endpoint(endpoint.id).unwrap_err();
    assert!(matches!(error, PipeError::Failed { .. }) && !error.is_lost(), "{error}");
    let pid = client.identity().pid;
    client.bye().unwrap();
    assert!(!lives(pid));
}

#[test]
fn another_build_is_refused_by_name() {
    let agent = Agent::new("");
    let error = agent.open("my build").unwrap_err();
    assert!(matches!(error, PipeError::Build(_)), "{error}");
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("copy this windhover there"), "{error}");
}

#[test]
fn what_is_no_agent_is_told_in_one_line() {
    let failed = |script: &str| {
        let error = call(&sh(script)).unwrap_err();
        assert!(matches!(error, PipeError::Start { .. }), "{error}");
        let text = error.to_string();
        assert!(!text.contains('\n'), "{text}");
        assert!(std::error::Error::source(&error).is_none(), "a printed chain would say it twice");
        text
    };
    let gone = failed("echo 'ssh: Could not resolve hostname b' >&2; exit 255");
    assert!(gone.contains("exit status: 255") && gone.contains("Could not resolve"), "{gone}");
    let chatty = failed("echo 'Welcome to this fine machine'; cat >/dev/null");
    assert!(chatty.contains("login script"), "{chatty}");
    let missing = call(&AgentCommand::of(&["no-such-program".to_owned()])).unwrap_err();
    assert_eq!(missing.to_string().matches("no-such-program").count(), 1, "{missing}");
    assert!(matches!(call(&AgentCommand::of(&[])).unwrap_err(), PipeError::Start { .. }));
}

#[test]
fn a_cancelled_probe_ends_and_the_client_goes_on() {
    let agent = Agent::new("echo $$ >$DIR/pid\ntrap 'exit 0' TERM\nsleep 60 & wait");
    let mut client = agent.open("the build").unwrap();
    let cancel = AtomicBool::new(false);
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            pid_in(&agent.file("pid"));
            cancel.store(true, Ordering::Relaxed);
        });
        client.run_probe(&probe_task(), &LaunchSpec::default(), &cancel, &mut |_| {}, &mut |_| {}).unwrap_err()
    });
    assert_eq!(error.exit_code(), 130, "{error}");
    assert!(!lives(pid_in(&agent.file("pid"))));
    client.facts().unwrap();
    client.bye().unwrap();
}

/// Nobody reads a result before the runner does, so it is the runner that names the host.
#[test]
fn a_result_that_is_none_names_its_host_and_the_client_goes_on() {
    for body in [r#"{"event":"measured","result":7}"#, r#"{"event":"measured","hlog":"\ud800"}"#, r#"{"event":"#] {
        let agent = Agent::new(&format!("say '{body}'\nsay '{{\"event\":\"done\"}}'"));
        let mut client = agent.open("the build").unwrap();
        let mut results = 0;
        let error = client
            .run_probe(&probe_task(), &LaunchSpec::default(), &AtomicBool::new(false), &mut |_| {}, &mut |_| {
                results += 1;
            })
            .unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("host b: what the probe says is no event: ") && !text.contains('\n'), "{text}");
        assert_eq!((error.exit_code(), error.is_lost(), results), (1, false, 0), "{text}");
        client.facts().unwrap();
        client.bye().unwrap();
    }
}

#[test]
fn a_load_that_becomes_steady_can_be_cancelled_and_the_client_goes_on() {
    let agent = Agent::new("echo $$ >$DIR/pid\ncat >/dev/null\necho told >$DIR/told");
    let mut client = agent.open("the build").unwrap();
    let cancel = AtomicBool::new(false);
    // It would never be steady, and the time for that is longer than any test.
    let hour = Duration::from_secs(3600);
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            eventually("a worker", || agent.file("pid").exists());
            cancel.store(true, Ordering::Relaxed);
        });
        client.start_load(&LoadSpec::new(LoadProfile::Cpu), hour, &cancel).unwrap_err()
    });
    assert_eq!(error.exit_code(), 130, "{error}");
    assert!(agent.file("told").exists(), "the load was killed instead of told");
    client.facts().unwrap();
    client.bye().unwrap();
}

#[test]
fn a_killed_agent_is_a_lost_host_and_its_workers_die() {
    let agent = Agent::new("echo $$ >$DIR/pid\nexec sleep 60");
    let mut client = agent.open("the build").unwrap();
    let pid = client.identity().pid;
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            pid_in(&agent.file("pid"));
            assert!(Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
        });
        client
            .run_probe(&probe_task(), &LaunchSpec::default(), &AtomicBool::new(false), &mut |_| {}, &mut |_| {})
            .unwrap_err()
    });
    assert!(matches!(error, PipeError::Lost { .. }) && error.is_lost(), "{error}");
    assert_eq!(error.exit_code(), 5);
    let worker = pid_in(&agent.file("pid"));
    eventually("the worker's death", || !lives(worker));
    assert!(matches!(client.facts().unwrap_err(), PipeError::Lost { .. }));
}

#[test]
fn sigterm_ends_an_agent_and_its_workers_well() {
    let agent = Agent::new(&format!("echo $$ >$DIR/pid\n{LISTEN}\ncat >/dev/null\necho told >$DIR/told"));
    let mut client = agent.open("the build").unwrap();
    client.start_endpoint(&endpoint_task(), &LaunchSpec::default()).unwrap();
    let pid = client.identity().pid;
    assert!(Command::new("kill").args(["-TERM", &pid.to_string()]).status().unwrap().success());
    eventually("the agent's end", || !lives(pid));
    assert!(!lives(pid_in(&agent.file("pid"))));
    assert!(agent.file("told").exists(), "the worker was killed instead of told");
    assert!(matches!(client.facts().unwrap_err(), PipeError::Lost { .. }));
}

#[test]
fn dropping_a_client_ends_its_agent_and_workers() {
    let agent = Agent::new(&format!("echo $$ >$DIR/pid\n{LISTEN}\ncat >/dev/null\necho told >$DIR/told"));
    let mut client = agent.open("the build").unwrap();
    client.start_endpoint(&endpoint_task(), &LaunchSpec::default()).unwrap();
    let pid = client.identity().pid;
    drop(client);
    assert!(!lives(pid) && !lives(pid_in(&agent.file("pid"))));
    assert!(agent.file("told").exists(), "the worker was killed instead of told");
}

#[test]
fn agents_on_two_hosts_of_a_lab_are_two_hosts_of_one_machine() {
    let made = Command::new("unshare").args(["--net", "true"]).stderr(Stdio::null()).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!(
            "SKIPPED agents_on_two_hosts_of_a_lab_are_two_hosts_of_one_machine: network namespaces cannot be made here (not root?)"
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::at(folder.path());
    let lab = Lab::up(&registry, &LabSpec::new(&format!("t{}-pipe", std::process::id()))).unwrap();
    let agent = Agent::new("");
    let mut facts = Vec::new();
    for host in lab.hosts() {
        let command = AgentCommand { netns: host.netns_path(), ..agent.command.clone() };
        let mut client =
            Client::open(&host.name, &command, "the build", &AtomicBool::new(false), |_: &str| {}).unwrap();
        facts.push(client.facts().unwrap());
        client.bye().unwrap();
    }
    let [(machine_a, a), (machine_b, b)] = facts.as_slice() else { panic!("two hosts") };
    assert_eq!(machine_a.boot_id, machine_b.boot_id);
    assert!(a.netns.is_some() && a.netns != b.netns);
    assert_eq!((a.netns_initial, b.netns_initial), (Some(false), Some(false)));
    // Settings of the machine that a namespace of its own does not show.
    let visible_here = Path::new("/proc/sys/net/core/netdev_budget").exists();
    assert_eq!(machine_a.sysctls.contains_key("net.core.netdev_budget"), visible_here);
    let veth = a.nics.iter().find(|nic| nic.name == lab::build::DEVICE).unwrap();
    assert_eq!(veth.driver.as_deref(), Some("veth"));
    assert!(veth.addresses.contains(&format!("{}/24", lab.hosts()[0].ipv4)), "{veth:?}");
    assert_eq!(veth.link, Some(true));
    lab.down().unwrap();
}
