//! What an agent waits for: requests, signals, and events of its workers. Each source has a thread that sleeps.

use crate::AgentError;
use crate::worker::WorkerNotice;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{SigId, low_level};
use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;
use wire::{AGENT_LIMIT, Decoder, FrameError, Request};

#[derive(Debug)]
pub(crate) enum Event {
    Request(Box<Request>),
    /// The pipe from the runner closed, or what came over it is no request.
    InputEnded(Result<(), FrameError>),
    Terminated,
    Worker(u32, WorkerNotice),
}

pub(crate) fn read_requests(mut input: impl Read + Send + 'static, sender: Sender<Event>) -> Result<(), AgentError> {
    let read = move || {
        let mut decoder = Decoder::new(AGENT_LIMIT);
        let mut buffer = vec![0; 65_536];
        let end = loop {
            match input.read(&mut buffer) {
                Ok(0) => break decoder.finish(),
                Ok(length) => decoder.feed(buffer.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // A pipe that cannot be read is as good as closed.
                Err(_) => break Ok(()),
            }
            match requests(&mut decoder, &sender) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => break Err(error),
            }
        };
        let _ = sender.send(Event::InputEnded(end));
    };
    spawn("requests", read)
}

fn requests(decoder: &mut Decoder, sender: &Sender<Event>) -> Result<bool, FrameError> {
    while let Some(payload) = decoder.pop()? {
        let request = Box::new(Request::from_payload(&payload)?);
        if sender.send(Event::Request(request)).is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), AgentError> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map(drop)
        .map_err(|error| AgentError::thread(name, &error))
}

/// Turns the signals that ask for an end into events, as long as it lives. What handled them before goes on doing so.
pub(crate) struct Signals(Vec<SigId>);

impl Signals {
    pub(crate) fn watch(sender: &Sender<Event>) -> Result<Self, AgentError> {
        let failed = |error: std::io::Error| AgentError::Setup(format!("signals: {error}"));
        // Handlers write a byte each; a thread reads them, so that no signal is lost between two waits.
        let (mut read, write) = UnixStream::pair().map_err(failed)?;
        let mut registered = Self(Vec::new());
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            let end = write.try_clone().map_err(failed)?;
            registered.0.push(low_level::pipe::register(signal, end).map_err(failed)?);
        }
        drop(write);
        let sender = sender.clone();
        spawn("signals", move || {
            let mut byte = [0];
            while read.read(&mut byte).is_ok_and(|length| length > 0) {
                if sender.send(Event::Terminated).is_err() {
                    return;
                }
            }
        })?;
        Ok(registered)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // Dropping the last writing end also ends the thread.
        for id in self.0.drain(..) {
            low_level::unregister(id);
        }
    }
}
