//! One worker: a process that keeps the worker contract (`model::worker`).

use crate::events::{Event, spawn};
use crate::{AgentError, Context, LineSink};
use model::worker::LINE_MARK;
use model::{LoadReport, WorkerEvent, WorkerSpec};
use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ChildStdin, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use task::{Child, Launch, StderrTail, Stream};
use wire::LaunchSpec;

/// How many of a worker's last lines on stderr are kept to explain its death.
const KEPT_LINES: usize = 4;
/// Longest line of the contract, in bytes: what fits an agent's frame.
const LONGEST_LINE: u64 = wire::AGENT_LIMIT as u64;
/// Longest line of another kind that is passed on in one piece, in bytes.
const LONGEST_WORDS: u64 = 4096;
/// How long a worker whose stdout has closed may take to end.
const LINGER: Duration = Duration::from_secs(5);
/// How long a worker's output is read after its end; only a descendant outside its process group can use it up.
const DRAIN: Duration = Duration::from_secs(2);
/// How long its last words may take to arrive after its death.
const LAST_WORDS: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) enum WorkerNotice {
    /// The line of a probe's result, as it came: it may have megabytes, and only the runner reads it.
    Measured(Vec<u8>),
    Interval(Vec<u8>),
    Event(WorkerEvent),
    Nonsense(String),
    Stopped,
    /// The process has ended, though a descendant may still hold its stdout.
    Exited,
    /// Its stdout closed: it has ended or is about to.
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Endpoint,
    Probe,
    Load,
}

impl Role {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Endpoint => "endpoint",
            Self::Probe => "probe",
            Self::Load => "load",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Started; an endpoint or a load is not ready yet.
    Starting,
    Working,
    /// Asked to end, by request or by cancelling.
    Stopping,
    /// Ended by itself; the next request for it gets the reason.
    Ended,
}

#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) role: Role,
    pub(crate) phase: Phase,
    pub(crate) deadline: Option<Instant>,
    pub(crate) started: Instant,
    pub(crate) measured: Vec<Vec<u8>>,
    pub(crate) report: Option<LoadReport>,
    pub(crate) failed: Option<(u8, String)>,
    pub(crate) done: bool,
    /// Whether it was cancelled before it was ready, so that the request that started it is still to be answered.
    pub(crate) cancelled: bool,
    pub(crate) end: Option<String>,
    /// Whether the process is known to have ended while its stdout has not closed yet.
    pub(crate) exited: bool,
    well: bool,
    child: Child,
    stdin: Option<ChildStdin>,
    stderr: Option<StderrTail>,
}

impl Worker {
    /// Starts a worker; its output comes as [`Event::Worker`] with `id`. An error is one line for the runner.
    pub(crate) fn start(
        id: u32,
        spec: &WorkerSpec,
        launch: &LaunchSpec,
        context: &Context,
        sender: &Sender<Event>,
    ) -> Result<Self, String> {
        let role = match spec {
            WorkerSpec::Probe(_) => Role::Probe,
            WorkerSpec::Endpoint(_) => Role::Endpoint,
            WorkerSpec::Load(_) => Role::Load,
        };
        let mut line = serde_json::to_vec(spec).map_err(|error| format!("the {}'s spec: {error}", role.word()))?;
        line.push(b'\n');
        if replaced(&context.program) {
            let program = context.program.display();
            return Err(format!("{program} was replaced by another file while it ran here: start the run again"));
        }
        let mut child = command(role, launch, context).start().map_err(|error| error.to_string())?;
        let setup = |error: AgentError| error.to_string();
        let lines = Arc::clone(&context.lines);
        let follow = |from| StderrTail::follow("worker-stderr", from, KEPT_LINES, move |line| lines(line));
        let stderr = child.take_stderr().map(follow).transpose();
        let stderr = stderr.map_err(|error| setup(AgentError::thread("worker-stderr", &error)))?;
        if let Some(stdout) = child.take_stdout() {
            let (sender, lines) = (sender.clone(), Arc::clone(&context.lines));
            spawn("worker-stdout", move || follow_stdout(id, BufReader::new(stdout), &sender, &lines))
                .map_err(setup)?;
        }
        let process = Pid::from_raw(i32::try_from(child.pid()).unwrap_or_default());
        let sender = sender.clone();
        spawn("worker-end", move || {
            // Leaves it to be reaped, so that its number stays its own until then.
            let ended = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
            let wait = |flags| loop {
                match waitid(Id::Pid(process), flags) {
                    Err(Errno::EINTR) => {}
                    other => break other,
                }
            };
            if matches!(wait(ended | WaitPidFlag::WSTOPPED), Ok(WaitStatus::Stopped(..))) {
                let _ = sender.send(Event::Worker(id, WorkerNotice::Stopped));
                let _ = wait(ended);
            }
            let _ = sender.send(Event::Worker(id, WorkerNotice::Exited));
        })
        .map_err(setup)?;
        let mut stdin = child.take_stdin();
        if let Some(pipe) = &mut stdin {
            // A worker that has ended already shows by its closed stdout.
            let _ = pipe.write_all(&line).and_then(|()| pipe.flush());
        }
        // Foreign probes may read to the end before they begin; the others take the end for the word to stop.
        if role == Role::Probe {
            stdin = None;
        }
        Ok(Self {
            role,
            phase: if role == Role::Probe { Phase::Working } else { Phase::Starting },
            deadline: None,
            started: Instant::now(),
            measured: Vec::new(),
            report: None,
            failed: None,
            done: false,
            cancelled: false,
            end: None,
            exited: false,
            well: false,
            child,
            stdin,
            stderr,
        })
    }

    /// Asks it to end: by closing its stdin, a probe by SIGTERM. It has until `patience` is over.
    pub(crate) fn stop(&mut self, patience: Duration) {
        self.phase = Phase::Stopping;
        self.stdin = None;
        self.deadline = Some(Instant::now() + patience);
        if self.role == Role::Probe {
            // SIGTERM is 15 on every architecture. A worker that has ended needs no signal.
            let _ = self.child.signal(signal_hook::consts::SIGTERM);
        }
    }

    /// Kills it and its descendants; its stdout closes then.
    pub(crate) fn kill(&mut self) {
        self.stdin = None;
        self.deadline = None;
        let _ = self.child.kill();
    }

    /// Notes the end of the process. Its output is still read; what it left in its process group is killed.
    pub(crate) fn note_exit(&mut self) {
        if self.end.is_none() {
            let _ = self.child.try_wait();
            self.exited = true;
            self.deadline = Some(Instant::now() + DRAIN);
        }
    }

    /// Takes its status after its stdout closed, and keeps a sentence about its end.
    pub(crate) fn reap(&mut self) {
        self.stdin = None;
        self.deadline = None;
        let status = match self.child.wait_timeout(LINGER) {
            Ok(Some(status)) => Some(status),
            Ok(None) => self.child.kill().ok(),
            Err(_) => None,
        };
        self.well = status.is_some_and(|status| status.success());
        let said = self.stderr.as_ref().and_then(|stderr| stderr.joined(LAST_WORDS));
        let said = said.map(|said| format!("; it said last: {said}")).unwrap_or_default();
        self.end = Some(format!("the {} {}{said}", self.role.word(), describe(status)));
    }

    pub(crate) fn ended_well(&self) -> bool {
        self.well
    }

    /// What to tell the runner about its failure: its own word, else how it ended.
    pub(crate) fn failure(&mut self) -> (u8, String) {
        self.failed.take().unwrap_or_else(|| (1, self.end.clone().unwrap_or_default()))
    }
}

/// Whether a build or an upgrade replaced this agent's file: its workers would be another build than the far end.
fn replaced(program: &Path) -> bool {
    const RUNNING: &str = "/proc/self/exe";
    let Ok(link) = std::fs::read_link(RUNNING) else { return false };
    let mut removed = program.as_os_str().to_owned();
    removed.push(" (deleted)");
    if link.as_os_str() == removed {
        return true;
    }
    let file = |path: &Path| std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    link == program && file(Path::new(RUNNING)) != file(program)
}

fn command(role: Role, launch: &LaunchSpec, context: &Context) -> Launch {
    let program = context.program.as_os_str();
    let mut command = match launch.prefix.split_first() {
        // Another build's library would refuse this worker, or measure something else.
        Some((first, rest)) if first == "windhover" => Launch::new(program).args(rest).arg(program),
        Some((first, rest)) => Launch::new(first).args(rest).arg(program),
        None => Launch::new(program),
    };
    command = command.arg("worker").die_with_parent().stdin(Stream::Pipe).stdout(Stream::Pipe).stderr(Stream::Pipe);
    for (name, value) in &launch.environment {
        command = command.env(name, value);
    }
    if let Some(netns) = &launch.netns {
        command = command.netns(netns);
    }
    // A load is many processes, and compilers start more: all of them have to die with it.
    if role == Role::Load { command.pid_namespace() } else { command }
}

fn describe(status: Option<ExitStatus>) -> String {
    match status {
        Some(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("ended with exit status {code}"),
            (None, Some(signal)) => {
                let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
                format!("was killed by {name} ({signal})")
            }
            (None, None) => "ended".to_owned(),
        },
        None => "is lost".to_owned(),
    }
}

fn follow_stdout(id: u32, mut from: impl BufRead, sender: &Sender<Event>, lines: &LineSink) {
    loop {
        let news = match read_line(&mut from) {
            Some(line) => match news(line) {
                Ok(news) => news,
                Err(line) => {
                    let text = String::from_utf8_lossy(&line);
                    if !text.trim().is_empty() {
                        lines(&text);
                    }
                    continue;
                }
            },
            None => WorkerNotice::Closed,
        };
        let last = matches!(news, WorkerNotice::Closed);
        if sender.send(Event::Worker(id, news)).is_err() || last {
            return;
        }
    }
}

/// The notice in a line; the line itself when it is none of the contract's.
fn news(line: Vec<u8>) -> Result<WorkerNotice, Vec<u8>> {
    match WorkerEvent::name_on_line(&line).as_ref().map(Option::as_deref) {
        Ok(Some("measured")) => Ok(WorkerNotice::Measured(line)),
        Ok(Some("interval")) => Ok(WorkerNotice::Interval(line)),
        _ => match WorkerEvent::from_line(&line) {
            Ok(event) => event.map(WorkerNotice::Event).ok_or(line),
            Err(error) => Ok(WorkerNotice::Nonsense(error.to_string())),
        },
    }
}

/// One line without its newline; `None` at the end. Lines of the contract may be long, others are cut.
fn read_line(from: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    let mark = u64::try_from(LINE_MARK.len()).unwrap_or(u64::MAX);
    let length = from.by_ref().take(mark).read_until(b'\n', &mut line).ok()?;
    if length == 0 {
        return None;
    }
    if !line.ends_with(b"\n") {
        let limit = if line.as_slice() == LINE_MARK.as_bytes() { LONGEST_LINE } else { LONGEST_WORDS };
        from.by_ref().take(limit).read_until(b'\n', &mut line).ok()?;
    }
    while line.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
        line.pop();
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    fn follow(bytes: &[u8]) -> (Vec<WorkerNotice>, Vec<String>) {
        let (sender, events) = channel();
        let kept = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&kept);
        let lines: LineSink = Arc::new(move |line: &str| sink.lock().unwrap().push(line.to_owned()));
        follow_stdout(1, bytes, &sender, &lines);
        drop(sender);
        let news = events.iter().map(|event| match event {
            Event::Worker(1, news) => news,
            other => panic!("{other:?}"),
        });
        let news = news.collect();
        let words = kept.lock().unwrap().clone();
        (news, words)
    }

    #[test]
    fn events_are_found_between_the_words_of_others() {
        let mut text = b"LibVMA: banner\nhalf a line without an end".to_vec();
        text.extend(WorkerEvent::Done.line().bytes());
        text.extend(b"more\xff\n");
        text.extend("x".repeat(10_000).bytes());
        let (news, words) = follow(&text);
        assert!(matches!(news.as_slice(), [WorkerNotice::Event(WorkerEvent::Done), WorkerNotice::Closed]));
        assert_eq!(&words[..3], ["LibVMA: banner", "half a line without an end", "more\u{fffd}"]);
        // A line that never ends is passed on in pieces.
        assert_eq!(words[3..].concat().len(), 10_000);
    }

    #[test]
    fn a_long_event_is_not_cut_and_a_broken_one_is_told() {
        let long = WorkerEvent::Failed { code: 1, message: "y".repeat(100_000) };
        let (news, _) = follow(long.line().as_bytes());
        assert!(matches!(news.as_slice(), [WorkerNotice::Event(event), WorkerNotice::Closed] if *event == long));
        let (news, words) = follow(format!("{LINE_MARK}{{\n").as_bytes());
        assert!(matches!(news.as_slice(), [WorkerNotice::Nonsense(_), WorkerNotice::Closed]) && words.is_empty());
        let (news, _) = follow(LINE_MARK.as_bytes());
        assert!(matches!(news.as_slice(), [WorkerNotice::Nonsense(_), WorkerNotice::Closed]));
    }
}
