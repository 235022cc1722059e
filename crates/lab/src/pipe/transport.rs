//! The process at the other end of a pipe: frames to it, replies and lines for people from it.

use super::{AgentCommand, PipeError};
use crate::LabError;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ChildStdin;
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

#[derive(Debug)]
pub(super) struct Transport {
    host: String,
    link: Link,
    replies: Receiver<Incoming>,
}

#[derive(Debug)]
enum Link {
    Process {
        child: Child,
        stdin: Option<ChildStdin>,
        stderr: Option<StderrTail>,
    },
    /// The agent is a guest's, whose folder this is.
    Socket {
        stream: UnixStream,
        folder: PathBuf,
    },
}

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
        if let Some(socket) = &command.socket {
            return Self::connect(host, socket);
        }
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
        Ok(Self { host: host.to_owned(), link: Link::Process { child, stdin, stderr }, replies })
    }

    fn connect(host: &str, socket: &Path) -> Result<Self, PipeError> {
        let failed = |error: std::io::Error| {
            let why = LabError::Refused(format!("cannot connect to {}: {error}", socket.display()));
            PipeError::Start { host: host.to_owned(), why }
        };
        let stream = UnixStream::connect(socket).map_err(failed)?;
        let (from, (sender, replies)) = (stream.try_clone().map_err(failed)?, channel());
        let name = format!("replies-{host}");
        std::thread::Builder::new().name(name).spawn(move || read_replies(from, &sender)).map_err(failed)?;
        let folder = socket.parent().unwrap_or(socket).to_owned();
        Ok(Self { host: host.to_owned(), link: Link::Socket { stream, folder }, replies })
    }

    pub(super) fn send(&mut self, request: &Request) -> Result<(), PipeError> {
        let frame = request.to_frame().map_err(|error| PipeError::Failed {
            host: self.host.clone(),
            code: 2,
            message: format!("the request cannot be sent: {error}"),
        })?;
        let sent = match &mut self.link {
            Link::Process { stdin: Some(stdin), .. } => stdin.write_all(&frame).and_then(|()| stdin.flush()),
            Link::Process { stdin: None, .. } => Err(std::io::ErrorKind::BrokenPipe.into()),
            Link::Socket { stream, .. } => stream.write_all(&frame),
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

    /// Describes the loss by the end of the process and its last lines.
    fn lost(&mut self, seen: &str) -> PipeError {
        let mut why = seen.to_owned();
        match &mut self.link {
            Link::Process { child, stdin, stderr } => {
                *stdin = None;
                if let Ok(Some(status)) = child.wait_timeout(LAST_WORDS) {
                    why = format!("{why}: {} ended with {status}", child.program());
                }
                if let Some(said) = stderr.as_ref().and_then(|stderr| stderr.joined(LAST_WORDS)) {
                    why = format!("{why}; it said last: {said}");
                }
            }
            Link::Socket { stream, folder } => {
                let _ = stream.shutdown(Shutdown::Both);
                why.push_str(&guest::last_lines(folder));
            }
        }
        PipeError::Lost { host: self.host.clone(), why }
    }

    /// Kills the process at the other end, which has changed nothing yet.
    pub(super) fn abandon(&mut self) {
        if let Link::Process { child, stdin, .. } = &mut self.link {
            *stdin = None;
            let _ = child.kill();
        }
    }

    /// Closes the pipe and waits until the agent has undone what it did and ended; kills it when that takes too long.
    pub(super) fn close(&mut self) -> Result<(), PipeError> {
        let child = match &mut self.link {
            Link::Process { child, stdin, .. } => {
                *stdin = None;
                child
            }
            // The guest sees to the agent's end.
            Link::Socket { stream, .. } => {
                let _ = stream.shutdown(Shutdown::Both);
                return Ok(());
            }
        };
        match child.wait_timeout(GRACE) {
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(_)) => Err(self.lost("it did not end well")),
            Ok(None) => {
                let _ = child.kill();
                Err(PipeError::Silent { host: self.host.clone(), step: "end", seconds: GRACE.as_secs() })
            }
            Err(error) => Err(PipeError::Lost { host: self.host.clone(), why: error.to_string() }),
        }
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        match &mut self.link {
            // Without this the child would be killed at once and could undo nothing.
            Link::Process { child, stdin, .. } => {
                if stdin.take().is_some() {
                    let _ = child.wait_timeout(GRACE);
                }
            }
            Link::Socket { stream, .. } => drop(stream.shutdown(Shutdown::Both)),
        }
    }
}

fn read_replies(mut stdout: impl Read, sender: &Sender<Incoming>) {
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
            // The receiver was dropped.
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
