//! A worker that a command typed by hand starts for itself: a load, or the endpoint of `--fork-both`.

use super::identity;
use crate::output::Failure;
use anyhow::{Context as _, anyhow};
use model::plan::STACKS;
use model::{WorkerEvent, WorkerSpec};
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use task::{Child, Launch, Stream};

/// How long a worker may take to end once it was asked to, when its answer is not waited for.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// This process's arguments with one more flag behind the command: for a process that continues in the background.
pub(crate) fn arguments_with(command: &str, flag: &str) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    // At the end it could stand behind `--`, as an operand.
    let place = arguments.iter().position(|argument| argument == command).map_or(arguments.len(), |at| at + 1);
    arguments.insert(place, flag.into());
    arguments
}

/// A running worker. Asked to end when dropped, and killed when it does not.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    stdin: Option<ChildStdin>,
    events: Receiver<Result<WorkerEvent, String>>,
    name: &'static str,
}

impl Worker {
    /// Starts a worker for `spec` behind a `bypass run` stack; it ends with the calling thread. `prepare` adds options.
    pub(crate) fn start(
        stack: Option<&str>,
        name: &'static str,
        spec: &WorkerSpec,
        prepare: impl FnOnce(Launch) -> Launch,
    ) -> Result<Self, Failure> {
        let program = identity::executable()?;
        let prefix = STACKS.iter().find(|known| Some(known.name) == stack).map(|known| known.prefix);
        let launch = match prefix {
            Some([_, rest @ ..]) => Launch::new(&program).args(rest).arg(&program),
            None => Launch::new(program),
        };
        let launch = launch.arg("worker").stdin(Stream::Pipe).stdout(Stream::Pipe).die_with_parent();
        let mut child = prepare(launch).start()?;
        let mut stdin = child.take_stdin().with_context(|| format!("the {name}'s worker has no input"))?;
        let stdout = child.take_stdout().with_context(|| format!("the {name}'s worker has no output"))?;
        writeln!(stdin, "{}", serde_json::to_string(spec)?)
            .with_context(|| format!("the {name}'s worker does not listen"))?;
        let (sender, events) = channel();
        std::thread::Builder::new()
            .name("worker-events".to_owned())
            .spawn(move || {
                for line in BufReader::new(stdout).lines() {
                    let event = line.map_err(|error| error.to_string());
                    let event = event
                        .and_then(|line| WorkerEvent::from_line(line.as_bytes()).map_err(|error| error.to_string()));
                    // The receiver is closed once the command is done.
                    if event.transpose().is_some_and(|event| sender.send(event).is_err()) {
                        return;
                    }
                }
            })
            .context("cannot start a thread")?;
        Ok(Self { child, stdin: Some(stdin), events, name })
    }

    /// Its next event, or nothing within `patience`. Its failure is the command's.
    pub(crate) fn hear(&mut self, patience: Duration) -> Result<Option<WorkerEvent>, Failure> {
        let name = self.name;
        match self.events.recv_timeout(patience) {
            Ok(Ok(WorkerEvent::Failed { code, message })) => Err(Failure::new(code, anyhow!(message))),
            Ok(Ok(event)) => Ok(Some(event)),
            Ok(Err(why)) => Err(Failure::from(anyhow!("what the {name}'s worker says is no event: {why}"))),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                Err(Failure::from(anyhow!("the {name}'s worker ended without a word")))
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.pid()
    }

    pub(crate) fn signal(&mut self, signal: i32) {
        // One that has ended needs none.
        let _ = self.child.signal(signal);
    }

    /// Asks it to end; what it has to say then still comes.
    pub(crate) fn ask_to_end(&mut self) {
        self.stdin = None;
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.ask_to_end();
        if !matches!(self.child.wait_timeout(END_TIMEOUT), Ok(Some(_))) {
            let _ = self.child.kill();
        }
    }
}
