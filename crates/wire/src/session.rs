//! What both ends of a control session have in common: its states, frames in and out, and what is to be told.

use crate::control::RefuseCode;
use crate::error::{FrameError, SessionError};
use crate::frame::{CONTROL_LIMIT, Decoder, Encoder, HANDSHAKE_LIMIT};
use crate::proof::{Direction, FrameKey};
use crate::request::OpenRequest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;

/// One end of a session, and what it keeps beside what both have.
pub trait Role {
    type Event;
    /// How errors call the time between the handshake and a data path.
    const READY: &'static str;
}

/// Where a session is. `Welcome` is the initiator's alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Hello,
    Welcome,
    Ready,
    Opening,
    Opened,
    Proved,
    Starting,
    Running,
    Stopping,
    Done,
}

impl State {
    pub(crate) fn words<R: Role>(self) -> &'static str {
        match self {
            Self::Hello | Self::Welcome => "before the handshake was done",
            Self::Ready => R::READY,
            Self::Opening => "while the data path is being opened",
            Self::Opened => "before the data path was proved",
            Self::Proved => "between two sizes",
            Self::Starting => "while a size is being started",
            Self::Running => "while messages are reflected",
            Self::Stopping => "while a size is being stopped",
            Self::Done => "after the end of the session",
        }
    }
}

/// One end of a control session, sans-IO and without time: [`crate::ClientSession`] or [`crate::ServerSession`].
#[derive(Debug)]
pub struct Session<R: Role> {
    pub(crate) role: R,
    pub(crate) state: State,
    pub(crate) open: Option<Box<OpenRequest>>,
    decoder: Decoder,
    encoder: Encoder,
    pub(crate) events: VecDeque<R::Event>,
    pub(crate) transmits: VecDeque<Vec<u8>>,
}

impl<R: Role> Session<R> {
    pub(crate) fn begin(role: R) -> Self {
        Self {
            role,
            state: State::Hello,
            open: None,
            decoder: Decoder::new(HANDSHAKE_LIMIT),
            encoder: Encoder::new(CONTROL_LIMIT),
            events: VecDeque::new(),
            transmits: VecDeque::new(),
        }
    }

    /// Takes note that the far end hung up. Errors: [`SessionError::Closed`] unless the session was over before.
    pub fn handle_end(&mut self) -> Result<(), SessionError> {
        let state = std::mem::replace(&mut self.state, State::Done);
        if state == State::Done { Ok(()) } else { Err(SessionError::Closed { state: state.words::<R>() }) }
    }

    /// The next thing that the far end said.
    pub fn poll_event(&mut self) -> Option<R::Event> {
        self.events.pop_front()
    }

    /// The next bytes to write.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.transmits.pop_front()
    }

    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.decoder.feed(bytes);
    }

    pub(crate) fn pop(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        self.decoder.pop()
    }

    pub(crate) fn step(&mut self, call: &'static str, from: State, to: State) -> Result<(), SessionError> {
        if self.state != from {
            return Err(SessionError::Misuse { call, state: self.state.words::<R>() });
        }
        self.state = to;
        Ok(())
    }

    /// What is wrong with a message at this time.
    pub(crate) fn out_of_order(&self, message: &'static str) -> SessionError {
        SessionError::OutOfOrder { message, state: self.state.words::<R>() }
    }

    pub(crate) fn send(&mut self, message: &impl Serialize, what: &'static str) -> Result<(), SessionError> {
        let frame = self.encoder.encode(&to_payload(message, what)?)?;
        self.transmits.push_back(frame);
        Ok(())
    }

    /// Checks the sizes of one start against what was opened.
    pub(crate) fn check_sizes(&self, size: u32, response_size: u32) -> Result<(), (RefuseCode, String)> {
        self.open.as_ref().map_or(Ok(()), |open| open.check_sizes(size, response_size))
    }

    /// The handshake is done: from here on frames may be long and, with a key, carry a MAC.
    pub(crate) fn secure(&mut self, session_key: Option<[u8; 32]>, sends: Direction, receives: Direction) {
        if let Some(key) = session_key {
            self.encoder.key = Some(FrameKey::new(&key, sends));
            self.decoder.key = Some(FrameKey::new(&key, receives));
        }
        self.decoder.limit = CONTROL_LIMIT;
    }
}

pub(crate) fn to_payload(message: &impl Serialize, what: &'static str) -> Result<Vec<u8>, FrameError> {
    serde_json::to_vec(message).map_err(|error| FrameError::Payload { what, why: error.to_string() })
}

pub(crate) fn from_payload<T: DeserializeOwned>(payload: &[u8], what: &'static str) -> Result<T, FrameError> {
    serde_json::from_slice(payload).map_err(|error| FrameError::Payload { what, why: error.to_string() })
}
