//! The process at the other end of a pipe: frames to it, replies and lines for people from it.

use super::{AgentCommand, PipeError};
use crate::LabError;
use std::io::{Read, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use task::{Child, Launch, StderrTail, Stream};
use wire::{AGENT_LIMIT, Decoder, Reply, Request};

/// How many of the last lines for people are kept to explain a loss.
const KEPT_LINES: usize = 3;
/// How long an agent gets to undo what it did once its pipe is closed.
const GRACE: Duration = Duration::from_secs(10);
/// How long its last words may take to arrive after its death.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A running agent.
#[derive(Debug)]
pub(super) struct Transport {
    host: String,
    child: Child,
    stdin: Option<ChildStdin>,
    replies: Receiver<Incoming>,
    stderr: Option<StderrTail>,
}

/// What comes from the reading thread.
#[derive(Debug)]
enum Incoming {
    Reply(Box<Reply>),
    /// Nothing more will come; why, when it is not just the end of the stream.
    Closed(Option<String>),
}

impl Transport {
    pub(super) fn start(
        host: &str,
        command: &AgentCommand,
        on_stderr: impl FnMut(&str) + Send + 'static,
    ) -> Result<Self, PipeError> {
        let failed = |program: &str, why: String| PipeError::Start {
            host: host.to_owned(),
            why: LabError::not_started(program, why),
        };
        let Some((program, arguments)) = command.argv.split_first() else {
            return Err(failed("agent_command", "it is empty".to_owned()));
        };
        // No parent-death signal: an agent notices its broken pipe and then has to undo what it changed.
        let mut launch =
            Launch::new(program).args(arguments).stdin(Stream::Pipe).stdout(Stream::Pipe).stderr(Stream::Pipe);
        if let Some(netns) = &command.netns {
            launch = launch.netns(netns);
        }
        let mut child =
            launch.start().map_err(|error| PipeError::Start { host: host.to_owned(), why: error.into() })?;
        let (sender, replies) = channel();
        let thread = |error: std::io::Error| failed(program, format!("a thread for its pipe: {error}"));
        if let Some(stdout) = child.take_stdout() {
            let name = format!("replies-{host}");
            std::thread::Builder::new().name(name).spawn(move || read_replies(stdout, &sender)).map_err(thread)?;
        }
        let stderr = child.take_stderr();
        let stderr = stderr.map(|from| StderrTail::follow(&format!("stderr-{host}"), from, KEPT_LINES, on_stderr));
        let stderr = stderr.transpose().map_err(thread)?;
        let stdin = child.take_stdin();
        Ok(Self { host: host.to_owned(), child, stdin, replies, stderr })
    }

    pub(super) fn send(&mut self, request: &Request) -> Result<(), PipeError> {
        let frame = request.to_frame().map_err(|error| PipeError::Failed {
            host: self.host.clone(),
            code: 2,
            message: format!("the request cannot be sent: {error}"),
        })?;
        let sent = match &mut self.stdin {
            Some(stdin) => stdin.write_all(&frame).and_then(|()| stdin.flush()),
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        };
        sent.map_err(|error| self.lost(&error.to_string()))
    }

    /// The next reply; `None` when `timeout` has passed without one.
    pub(super) fn receive(&mut self, timeout: Duration) -> Result<Option<Reply>, PipeError> {
        match self.replies.recv_timeout(timeout) {
            Ok(Incoming::Reply(reply)) => Ok(Some(*reply)),
            Ok(Incoming::Closed(why)) => Err(self.lost(why.as_deref().unwrap_or("its pipe closed"))),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.lost("its pipe closed")),
        }
    }

    /// Describes the loss by how the process ended and what it said last.
    fn lost(&mut self, seen: &str) -> PipeError {
        self.stdin = None;
        let mut why = seen.to_owned();
        if let Ok(Some(status)) = self.child.wait_timeout(LAST_WORDS) {
            why = format!("{why}: {} ended with {status}", self.child.program());
        }
        if let Some(said) = self.stderr.as_ref().and_then(|stderr| stderr.joined(LAST_WORDS)) {
            why = format!("{why}; it said last: {said}");
        }
        PipeError::Lost { host: self.host.clone(), why }
    }

    /// Closes the pipe and waits until the agent has undone what it did and ended; kills it when that takes too long.
    pub(super) fn close(&mut self) -> Result<(), PipeError> {
        self.stdin = None;
        match self.child.wait_timeout(GRACE) {
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(_)) => Err(self.lost("it did not end well")),
            Ok(None) => {
                let _ = self.child.kill();
                Err(PipeError::Silent { host: self.host.clone(), step: "end", seconds: GRACE.as_secs() })
            }
            Err(error) => Err(PipeError::Lost { host: self.host.clone(), why: error.to_string() }),
        }
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        // Without this the child would be killed at once and could undo nothing.
        if self.stdin.take().is_some() {
            let _ = self.child.wait_timeout(GRACE);
        }
    }
}

fn read_replies(mut stdout: ChildStdout, sender: &Sender<Incoming>) {
    let mut decoder = Decoder::new(AGENT_LIMIT);
    let mut buffer = vec![0; 65_536];
    let why = loop {
        let bytes = match stdout.read(&mut buffer) {
            Ok(0) => break decoder.finish().err().map(|error| error.to_string()),
            Ok(length) => buffer.get(..length).unwrap_or_default(),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => break Some(error.to_string()),
        };
        decoder.feed(bytes);
        match pass_on(&mut decoder, sender) {
            Ok(true) => {}
            // Nobody listens any more.
            Ok(false) => return,
            Err(error) => {
                break Some(format!(
                    "what it wrote is no answer of an agent ({error}): does a login script print there?"
                ));
            }
        }
    };
    let _ = sender.send(Incoming::Closed(why));
}

fn pass_on(decoder: &mut Decoder, sender: &Sender<Incoming>) -> Result<bool, wire::FrameError> {
    while let Some(payload) = decoder.pop()? {
        let reply = Box::new(Reply::from_payload(&payload)?);
        if sender.send(Incoming::Reply(reply)).is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}
