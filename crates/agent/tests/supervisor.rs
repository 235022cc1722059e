//! An agent and workers that are shell scripts: they keep the worker contract, or break it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "functions that tests share are tests too")]

use agent::{AgentError, Context};
use model::Participants;
use model::result::{Messages, SelfCost};
use model::worker::{EndpointTask, Measured, ProbeTask, Target};
use model::{
    Limits, LiveInterval, LoadProfile, LoadReport, LoadSpec, Probe, ProbeSpec, Protocol, ResultDocument, Verdict,
    WorkerEvent,
};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use windhover_agent as agent;
use wire::{AGENT_LIMIT, Decoder, LaunchSpec, Reply, Request};

/// Longer than anything here takes; a test that waits this long has failed.
const LIMIT: Duration = Duration::from_secs(60);

/// A runner's end of an agent that runs on a thread.
struct Runner {
    pipe: UnixStream,
    decoder: Decoder,
    agent: Option<JoinHandle<Result<(), AgentError>>>,
    folder: tempfile::TempDir,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Runner {
    /// `script` is the worker's body; `$SPEC` holds its spec, `$DIR` a folder, `say JSON` prints an event.
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("fake");
        let body = format!(
            "#!/bin/sh\nDIR={}\nsay() {{ printf '\\n\\001windhover %s\\n' \"$1\"; }}\n[ \"$1\" = worker ] || exit 9\n\
             read -r SPEC\necho $$ >$DIR/pid\n{script}\n",
            folder.path().display()
        );
        write_program(&program, &body);
        let (pipe, theirs) = UnixStream::pair().unwrap();
        pipe.set_read_timeout(Some(LIMIT)).unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&lines);
        let context = Context {
            program,
            build: "build".to_owned(),
            lines: Arc::new(move |line: &str| sink.lock().unwrap().push(line.to_owned())),
        };
        let agent = std::thread::spawn(move || agent::serve(theirs.try_clone().unwrap(), theirs, &context));
        Self { pipe, decoder: Decoder::new(AGENT_LIMIT), agent: Some(agent), folder, lines }
    }

    fn send(&mut self, request: &Request) {
        self.pipe.write_all(&request.to_frame().unwrap()).unwrap();
    }

    fn receive(&mut self) -> Reply {
        let mut buffer = [0; 65_536];
        loop {
            if let Some(payload) = self.decoder.pop().unwrap() {
                return Reply::from_payload(&payload).unwrap();
            }
            let length = self.pipe.read(&mut buffer).unwrap();
            assert!(length > 0, "the agent closed its pipe");
            self.decoder.feed(&buffer[..length]);
        }
    }

    fn ask(&mut self, request: &Request) -> Reply {
        self.send(request);
        self.receive()
    }

    /// Closes the pipe and waits for the agent's end.
    fn hang_up(&mut self) -> Result<(), AgentError> {
        self.pipe.shutdown(std::net::Shutdown::Both).unwrap();
        self.agent.take().unwrap().join().unwrap()
    }

    fn bye(mut self) {
        assert_eq!(self.ask(&Request::Bye), Reply::Bye);
        self.agent.take().unwrap().join().unwrap().unwrap();
    }

    /// The process id of the last worker.
    fn worker(&self) -> u32 {
        let path = self.folder.path().join("pid");
        eventually("a worker", || fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n')));
        fs::read_to_string(path).unwrap().trim().parse().unwrap()
    }

    fn said(&self, words: &str) -> bool {
        self.lines.lock().unwrap().iter().any(|line| line.contains(words))
    }
}

/// Another process writes it: a descriptor of this one might still be open in a child that another test is starting,
/// and a program that is open for writing cannot be executed (ETXTBSY).
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

fn lives(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn start_endpoint() -> Request {
    let task = EndpointTask { bind: "127.0.0.1:0".to_owned(), key: None, limits: Limits::default() };
    Request::StartEndpoint { task, launch: LaunchSpec::default() }
}

fn run_probe(launch: LaunchSpec) -> Request {
    let spec = ProbeSpec::new(Probe::Pingpong, Protocol::Udp);
    let target = Target { control: "127.0.0.1:1".to_owned(), key: None, host: None };
    Request::RunProbe { task: Box::new(ProbeTask::new(spec, target)), launch }
}

fn start_load(timeout_ms: u32) -> Request {
    Request::StartLoad { spec: LoadSpec::new(LoadProfile::Cpu), timeout_ms }
}

fn measured(size: u64) -> Measured {
    let result = ResultDocument {
        explanation: None,
        simulated_time: false,
        source: None,
        boot: None,
        ladder: Vec::new(),
        latency_corrected: None,
        interrupted: false,
        format: model::FORMAT,
        probe: Probe::Pingpong,
        cell: None,
        repetition: None,
        started_ns: 1,
        elapsed_ns: 2,
        factors: BTreeMap::from([("size".to_owned(), size.into())]),
        ends: Participants::default(),
        latency: None,
        latency_intended: None,
        lateness: None,
        transactions: None,
        rate: None,
        one_way: None,
        segments: Vec::new(),
        reflectors: Vec::new(),
        stream: None,
        pgm: None,
        wake: None,
        cycle: None,
        mdev_ns: None,
        series: vec![],
        histogram: None,
        histogram_intended: None,
        histogram_lateness: None,
        messages: Messages::default(),
        self_cost: SelfCost::default(),
        clock: None,
        load: None,
        prepared: Vec::new(),
        verdict: Verdict::default(),
    };
    Measured::new(result)
}

/// A script that prints these events.
fn say(events: &[WorkerEvent]) -> String {
    events.iter().map(|event| format!("say '{}'\n", serde_json::to_string(event).unwrap())).collect()
}

const LISTEN: &str = "say '{\"event\":\"ready\",\"address\":\"127.0.0.1:4242\"}'\n";

#[test]
fn says_who_it_is_and_what_its_host_is() {
    let mut runner = Runner::new("");
    let Reply::Hello { build, pid, boot_id, .. } =
        runner.ask(&Request::Hello { build: "other".to_owned(), protocol: wire::agent::PROTOCOL })
    else {
        panic!("no greeting")
    };
    assert_eq!((build.as_str(), pid), ("build", std::process::id()));
    let Reply::Facts { machine, host } = runner.ask(&Request::Facts) else { panic!("no facts") };
    assert_eq!(machine.boot_id, boot_id);
    assert_eq!(host.boot_id, boot_id);
    runner.bye();
}

#[test]
fn an_endpoint_lives_until_it_is_stopped() {
    // What a preloaded library prints is passed on and does not disturb.
    let mut runner = Runner::new(&format!("echo 'VMA INFO: banner'\n{LISTEN}cat >/dev/null\necho closed >$DIR/closed"));
    let Reply::EndpointReady { id, address } = runner.ask(&start_endpoint()) else { panic!("not ready") };
    assert_eq!(address, "127.0.0.1:4242");
    assert!(runner.said("VMA INFO"));
    let pid = runner.worker();
    assert!(lives(pid));
    let Reply::Failed { code: 1, message } = runner.ask(&Request::StopLoad { id }) else { panic!("it is no load") };
    assert!(message.contains("no load"), "{message}");
    assert_eq!(runner.ask(&Request::StopEndpoint { id }), Reply::EndpointStopped { id });
    assert!(!lives(pid));
    assert!(runner.folder.path().join("closed").exists(), "it was killed instead of told");
    assert!(matches!(runner.ask(&Request::StopEndpoint { id }), Reply::Failed { .. }));
    runner.bye();
}

#[test]
fn results_come_after_the_probe_and_in_order() {
    let script = say(&[
        WorkerEvent::Measured(Box::new(measured(32))),
        WorkerEvent::Measured(Box::new(measured(64))),
        WorkerEvent::Done,
    ]);
    // The exit status of a probe whose figures are not to be trusted.
    let mut runner = Runner::new(&format!("echo noise\n{script}exit 4"));
    let mut sizes = Vec::new();
    runner.send(&run_probe(LaunchSpec::default()));
    let last = loop {
        match runner.receive() {
            Reply::Measured(measured) => sizes.push(measured.result.size()),
            other => break other,
        }
    };
    assert_eq!(sizes, [Some(32), Some(64)]);
    assert_eq!(last, Reply::Done);
    runner.bye();
}

#[test]
fn intervals_come_while_the_probe_runs() {
    let interval = LiveInterval { size: 32, sent: 7, ..LiveInterval::default() };
    let first = say(&[WorkerEvent::Interval(Box::new(interval.clone()))]);
    let rest = say(&[WorkerEvent::Measured(Box::new(measured(32))), WorkerEvent::Done]);
    // The probe goes on only after the interval was seen.
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let wait = format!("while [ ! -e '{}' ]; do sleep 0.01; done", gate.display());
    let mut runner = Runner::new(&format!("{first}{wait}\n{rest}"));
    assert_eq!(runner.ask(&run_probe(LaunchSpec::default())), Reply::Interval(Box::new(interval)));
    fs::write(gate, "").unwrap();
    assert!(matches!(runner.receive(), Reply::Measured(_)));
    assert_eq!(runner.receive(), Reply::Done);
    runner.bye();
}

#[test]
fn a_foreign_program_that_ends_well_is_done() {
    let script = say(&[WorkerEvent::Measured(Box::new(measured(1)))]);
    // It reads its input to the end before it begins.
    let mut runner = Runner::new(&format!("cat >/dev/null\n{script}"));
    assert!(matches!(runner.ask(&run_probe(LaunchSpec::default())), Reply::Measured(_)));
    assert_eq!(runner.receive(), Reply::Done);
    runner.bye();
}

#[test]
fn a_crash_is_told_with_its_signal_and_last_words() {
    let script = say(&[WorkerEvent::Measured(Box::new(measured(32)))]);
    let mut runner = Runner::new(&format!("{script}echo 'cannot lock memory' >&2\nkill -SEGV $$"));
    // What was measured before is not lost.
    assert!(matches!(runner.ask(&run_probe(LaunchSpec::default())), Reply::Measured(_)));
    let Reply::Failed { code, message } = runner.receive() else { panic!("no failure") };
    assert_eq!(code, 1);
    assert!(message.contains("SIGSEGV") && message.contains("cannot lock memory"), "{message}");
    assert!(runner.said("cannot lock memory"));
    runner.bye();
}

#[test]
fn a_descendant_that_holds_stdout_does_not_hide_the_end() {
    // One in the worker's group and one that left it: neither may keep the runner waiting for a minute.
    let mut runner = Runner::new("sleep 61 &\nsetsid sleep 62 &\necho $! >$DIR/stray\nexit 5");
    let began = Instant::now();
    let Reply::Failed { code: 1, message } = runner.ask(&run_probe(LaunchSpec::default())) else {
        panic!("no failure")
    };
    assert!(message.contains("exit status 5"), "{message}");
    assert!(began.elapsed() < Duration::from_secs(61));
    let stray = fs::read_to_string(runner.folder.path().join("stray")).unwrap();
    runner.bye();
    assert!(Command::new("kill").arg(stray.trim()).status().unwrap().success());
}

#[test]
fn a_workers_own_word_for_its_failure_is_passed_on() {
    let failed = WorkerEvent::Failed { code: 2, message: "CPU 99 does not exist".to_owned() };
    let mut runner = Runner::new(&format!("{}exit 2", say(&[failed, WorkerEvent::Done])));
    let expected = Reply::Failed { code: 2, message: "CPU 99 does not exist".to_owned() };
    assert_eq!(runner.ask(&run_probe(LaunchSpec::default())), expected);
    assert_eq!(runner.ask(&start_endpoint()), expected);
    runner.bye();
}

#[test]
fn a_marked_line_that_is_no_event_is_a_failure() {
    let mut runner = Runner::new("printf '\\001windhover {\\n'");
    let Reply::Failed { code: 1, message } = runner.ask(&run_probe(LaunchSpec::default())) else {
        panic!("no failure")
    };
    assert!(message.contains("no event"), "{message}");
    runner.bye();
}

/// A result may have megabytes of histogram log: the agent looks at its name alone and passes the line on as it is.
#[test]
fn a_result_is_forwarded_and_not_read() {
    let body = "{ \"hlog\": \"x\", \"event\" : \"measured\", \"result\": 7 }";
    let mut runner = Runner::new(&format!("say '{body}'\nsay '{{\"event\":\"done\"}}'"));
    let Reply::Unreadable(why) = runner.ask(&run_probe(LaunchSpec::default())) else { panic!("it was read") };
    assert!(why.contains("worker's line"), "{why}");
    // What it means is the runner's concern.
    assert_eq!(runner.receive(), Reply::Done);
    runner.bye();
}

#[test]
fn a_cancelled_probe_hands_over_what_it_has() {
    let script = say(&[WorkerEvent::Measured(Box::new(measured(32)))]);
    let mut runner = Runner::new(&format!("trap 'echo stopped >$DIR/stopped; exit 0' TERM\n{script}sleep 60 & wait"));
    runner.send(&run_probe(LaunchSpec::default()));
    let pid = runner.worker();
    // A second probe would disturb the first.
    runner.send(&run_probe(LaunchSpec::default()));
    assert!(matches!(runner.receive(), Reply::Failed { code: 1, .. }));
    runner.send(&Request::Cancel);
    assert!(matches!(runner.receive(), Reply::Measured(_)));
    assert!(matches!(runner.receive(), Reply::Failed { code: 130, .. }));
    assert!(!lives(pid));
    assert!(runner.folder.path().join("stopped").exists(), "it was killed instead of asked");
    // Nothing is left to cancel; the next answer belongs to the next request.
    runner.send(&Request::Cancel);
    assert!(matches!(runner.ask(&Request::Facts), Reply::Facts { .. }));
    runner.bye();
}

#[test]
fn a_closed_pipe_ends_every_worker() {
    let mut runner = Runner::new(&format!("{LISTEN}trap '' TERM\nwhile true; do sleep 1; done"));
    assert!(matches!(runner.ask(&start_endpoint()), Reply::EndpointReady { .. }));
    let endpoint = runner.worker();
    fs::remove_file(runner.folder.path().join("pid")).unwrap();
    runner.send(&run_probe(LaunchSpec::default()));
    let probe = runner.worker();
    assert!(lives(endpoint) && lives(probe));
    runner.hang_up().unwrap();
    assert!(!lives(endpoint) && !lives(probe), "deaf workers outlived their agent");
}

#[test]
fn nonsense_on_the_pipe_ends_the_agent_and_its_workers() {
    let mut runner = Runner::new(&format!("{LISTEN}cat >/dev/null"));
    assert!(matches!(runner.ask(&start_endpoint()), Reply::EndpointReady { .. }));
    let pid = runner.worker();
    runner.pipe.write_all(b"\0\0\0\x02{}").unwrap();
    let ended = runner.agent.take().unwrap().join().unwrap();
    assert!(matches!(ended, Err(AgentError::Request(_))), "{ended:?}");
    assert!(!lives(pid));
}

#[test]
fn an_endpoint_that_died_is_told_when_it_is_stopped() {
    let mut runner = Runner::new(&format!("{LISTEN}echo 'out of luck' >&2\nexit 3"));
    let Reply::EndpointReady { id, .. } = runner.ask(&start_endpoint()) else { panic!("not ready") };
    eventually("its end", || runner.said("nobody had asked it to"));
    let Reply::Failed { message, .. } = runner.ask(&Request::StopEndpoint { id }) else { panic!("it had died") };
    assert!(message.contains("exit status 3") && message.contains("out of luck"), "{message}");
    runner.bye();
}

/// Catches: a worker that somebody stopped, and that is waited for until every limit has passed.
#[test]
fn a_stopped_worker_is_ended_and_named() {
    let stop = |worker: u32| {
        let process = nix::unistd::Pid::from_raw(i32::try_from(worker).unwrap());
        nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGSTOP).unwrap();
    };
    let mut runner = Runner::new("exec sleep 600");
    runner.send(&run_probe(LaunchSpec::default()));
    stop(runner.worker());
    let Reply::Failed { code: 1, message } = runner.receive() else { panic!("it was stopped") };
    assert!(message.contains("the probe was stopped by a signal"), "{message}");
    runner.bye();
    let mut runner = Runner::new(&format!("{LISTEN}exec sleep 600"));
    let Reply::EndpointReady { id, .. } = runner.ask(&start_endpoint()) else { panic!("not ready") };
    stop(runner.worker());
    eventually("its end", || runner.said("nobody had asked it to"));
    let Reply::Failed { message, .. } = runner.ask(&Request::StopEndpoint { id }) else { panic!("it was stopped") };
    assert!(message.contains("the endpoint was stopped by a signal"), "{message}");
    runner.bye();
}

#[test]
fn a_load_reports_and_its_descendants_die_with_it() {
    let spec = LoadSpec::new(LoadProfile::Cpu);
    let report = LoadReport {
        spec,
        work: 7,
        busy_percent: 50.0,
        work_cv: Some(0.1),
        steady_after_ns: 1,
        steady: true,
        elapsed_ns: 2,
    };
    let script = format!(
        "setsid sleep 86399.25 &\nsay '{{\"event\":\"ready\"}}'\ncat >/dev/null\n{}",
        say(&[WorkerEvent::Load(report.clone()), WorkerEvent::Done])
    );
    let mut runner = Runner::new(&script);
    let Reply::LoadSteady { id, steady: true, .. } = runner.ask(&start_load(20_000)) else { panic!("not steady") };
    assert!(matches!(runner.ask(&Request::StopLoad { id }), Reply::LoadReport { report: got, .. } if *got == report));
    runner.bye();
    let left = fs::read_dir("/proc")
        .unwrap()
        .filter_map(Result::ok)
        .any(|entry| fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == b"sleep\x0086399.25\0"));
    assert!(!left, "a descendant outlived the load");
}

#[test]
fn a_load_that_is_never_steady_runs_all_the_same() {
    let mut runner = Runner::new("cat >/dev/null");
    let Reply::LoadSteady { id, steady, .. } = runner.ask(&start_load(50)) else { panic!("no answer") };
    assert!(!steady);
    // It ended without a report.
    assert!(matches!(runner.ask(&Request::StopLoad { id }), Reply::Failed { code: 1, .. }));
    runner.bye();
}

#[test]
fn a_load_can_be_cancelled_before_it_is_steady() {
    let mut runner = Runner::new("cat >/dev/null");
    runner.send(&start_load(3_600_000));
    runner.send(&Request::Cancel);
    let Reply::Failed { code: 130, message } = runner.receive() else { panic!("not cancelled") };
    assert!(message.contains("cancelled"), "{message}");
    // One that works is not what is cancelled.
    let Reply::LoadSteady { id, .. } = runner.ask(&start_load(50)) else { panic!("no answer") };
    runner.send(&Request::Cancel);
    assert!(matches!(runner.ask(&Request::StopLoad { id }), Reply::Failed { code: 1, .. }));
    runner.bye();
}

#[test]
fn a_stack_is_a_prefix_and_an_environment() {
    let mut runner = Runner::new(&format!("echo \"$EF_POLL_USEC $WRAPPED\" >&2\n{}", say(&[WorkerEvent::Done])));
    let launch = LaunchSpec {
        prefix: vec!["env".to_owned(), "WRAPPED=yes".to_owned()],
        environment: BTreeMap::from([("EF_POLL_USEC".to_owned(), "100000".to_owned())]),
        netns: None,
    };
    assert_eq!(runner.ask(&run_probe(launch)), Reply::Done);
    assert!(runner.said("100000 yes"));
    let missing = LaunchSpec { prefix: vec!["no-such-stack".to_owned()], ..LaunchSpec::default() };
    let Reply::Failed { code: 2, message } = runner.ask(&run_probe(missing)) else { panic!("it cannot start") };
    assert!(message.contains("no-such-stack"), "{message}");
    runner.bye();
}
