//! The reflector's side of the control session as a state machine: bytes in, bytes and events out.
//!
//! The caller writes whatever [`ServerSession::poll_transmit`] gives before it reads more, and after an error writes what
//! is left (a `refused` that names the reason) and hangs up. The machine keeps no time; the caller limits how long a
//! client may be silent.

use crate::control::{
    ClientMessage, Nonce, OpenRequest, Opened, Proof, RefuseCode, ServerHello, ServerMessage, StopReport, Versions,
};
use crate::error::{FrameError, SessionError};
use crate::frame::{CONTROL_LIMIT, Decoder, Encoder, HANDSHAKE_LIMIT};
use crate::key::Key;
use crate::proof::{Direction, FrameKey, Transcript, same};
use model::Limits;
use model::stream::StreamInterval;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// What a session is made of.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Versions to offer; [`Versions::OURS`] but in tests.
    pub versions: Versions,
    /// Version of the tool.
    pub tool_version: String,
    /// Hash of the tool's binary, where known.
    pub build: Option<String>,
    /// What this reflector can do; see [`crate::control::capability`].
    pub capabilities: Vec<String>,
    /// What its owner allows.
    pub limits: Limits,
    /// The shared key; absent: clients need none.
    pub key: Option<Key>,
    /// Fresh random bytes.
    pub nonce: Nonce,
    /// Number of the session, for logs.
    pub session: u64,
}

/// What a client asked for. Each but `Accepted`, `Alive` and `Closed` waits for the answer named.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerEvent {
    /// The handshake is done; nothing to answer.
    Accepted {
        /// Version of the client's tool, as it says.
        tool_version: String,
    },
    /// Answer with [`ServerSession::opened`], then [`ServerSession::proved`], or [`ServerSession::refuse`].
    Open(Box<OpenRequest>),
    /// Answer with [`ServerSession::started`] or [`ServerSession::refuse`].
    Start {
        /// Message size in bytes, within the limits and what `open` announced.
        size: u32,
        /// Size of the answers in bytes, likewise.
        response_size: u32,
    },
    /// The client lives; nothing to answer.
    Alive,
    /// Answer with [`ServerSession::stopped`].
    Stop,
    /// The client is done; hang up.
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Hello,
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
    fn words(self) -> &'static str {
        match self {
            Self::Hello => "before the handshake was done",
            Self::Ready => "before a data path was opened",
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

/// One control session as the reflector sees it.
#[derive(Debug)]
pub struct ServerSession {
    config: ServerConfig,
    hello: Vec<u8>,
    state: State,
    /// What was opened.
    open: Option<Box<OpenRequest>>,
    decoder: Decoder,
    encoder: Encoder,
    events: VecDeque<ServerEvent>,
    transmits: VecDeque<Vec<u8>>,
}

impl ServerSession {
    /// A session that has its hello ready to transmit.
    ///
    /// # Errors
    /// [`SessionError::Frame`] when the configuration does not fit into a hello.
    pub fn new(config: ServerConfig) -> Result<Self, SessionError> {
        let hello = ServerMessage::ServerHello(Box::new(ServerHello {
            versions: config.versions,
            tool_version: config.tool_version.clone(),
            build: config.build.clone(),
            capabilities: config.capabilities.clone(),
            limits: config.limits.clone(),
            nonce: config.nonce.clone(),
            key_required: config.key.is_some(),
        }));
        let mut session = Self {
            config,
            hello: payload(&hello)?,
            state: State::Hello,
            open: None,
            decoder: Decoder::new(HANDSHAKE_LIMIT),
            encoder: Encoder::new(CONTROL_LIMIT),
            events: VecDeque::new(),
            transmits: VecDeque::new(),
        };
        let frame = crate::frame::encode(&session.hello, HANDSHAKE_LIMIT)?;
        session.transmits.push_back(frame);
        Ok(session)
    }

    /// Takes bytes from the client.
    ///
    /// # Errors
    /// Whatever ends the session; what is left to transmit says so to the client.
    pub fn handle_bytes(&mut self, bytes: &[u8]) -> Result<(), SessionError> {
        if self.state == State::Done {
            return Ok(());
        }
        self.decoder.feed(bytes);
        loop {
            match self.decoder.pop() {
                Ok(Some(payload)) => self.handle_payload(&payload)?,
                Ok(None) => return Ok(()),
                Err(error) => return Err(self.fail(RefuseCode::BadRequest, error.into())),
            }
            if self.state == State::Done {
                return Ok(());
            }
        }
    }

    /// Takes note that the client hung up.
    ///
    /// # Errors
    /// [`SessionError::Closed`] unless it had said so before.
    pub fn handle_end(&mut self) -> Result<(), SessionError> {
        let state = std::mem::replace(&mut self.state, State::Done);
        if state == State::Done { Ok(()) } else { Err(SessionError::Closed { state: state.words() }) }
    }

    /// The next thing the client asked for.
    pub fn poll_event(&mut self) -> Option<ServerEvent> {
        self.events.pop_front()
    }

    /// The next bytes to write.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.transmits.pop_front()
    }

    /// Whether the client's handshake is done.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.state != State::Hello
    }

    /// Whether the session is over.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Answers [`ServerEvent::Open`].
    ///
    /// # Errors
    /// [`SessionError::Misuse`] at any other time.
    pub fn opened(&mut self, opened: Opened) -> Result<(), SessionError> {
        self.step("opened", State::Opening, State::Opened)?;
        self.send(&ServerMessage::Opened(opened))
    }

    /// Says that the data path is the client's, after [`ServerSession::opened`].
    ///
    /// # Errors
    /// [`SessionError::Misuse`] at any other time.
    pub fn proved(&mut self, address: Option<SocketAddr>) -> Result<(), SessionError> {
        self.step("proved", State::Opened, State::Proved)?;
        self.send(&ServerMessage::Proved { address })
    }

    /// Answers [`ServerEvent::Start`].
    ///
    /// # Errors
    /// [`SessionError::Misuse`] at any other time.
    pub fn started(&mut self) -> Result<(), SessionError> {
        self.step("started", State::Starting, State::Running)?;
        self.send(&ServerMessage::Started)
    }

    /// Answers [`ServerEvent::Stop`].
    ///
    /// # Errors
    /// [`SessionError::Misuse`] at any other time.
    pub fn stopped(&mut self, report: StopReport) -> Result<(), SessionError> {
        self.step("stopped", State::Stopping, State::Proved)?;
        self.send(&ServerMessage::Stopped(Box::new(report)))
    }

    /// Tells a stream's last second while it runs; says nothing at any other time.
    ///
    /// # Errors
    /// [`SessionError::Frame`] when the message cannot be written.
    pub fn interval(&mut self, interval: StreamInterval) -> Result<(), SessionError> {
        if self.state == State::Running { self.send(&ServerMessage::Interval(interval)) } else { Ok(()) }
    }

    /// Ends the session with a reason for the client, at any time.
    pub fn refuse(&mut self, code: RefuseCode, reason: &str) {
        if self.state != State::Done {
            self.state = State::Done;
            // A reason too long for a frame cannot be sent; hanging up says no as well.
            let _ = self.send(&ServerMessage::Refused { code, reason: reason.to_owned() });
        }
    }

    fn step(&mut self, call: &'static str, from: State, to: State) -> Result<(), SessionError> {
        if self.state != from {
            return Err(SessionError::Misuse { call, state: self.state.words() });
        }
        self.state = to;
        Ok(())
    }

    fn send(&mut self, message: &ServerMessage) -> Result<(), SessionError> {
        let frame = self.encoder.encode(&payload(message)?)?;
        self.transmits.push_back(frame);
        Ok(())
    }

    fn fail(&mut self, code: RefuseCode, error: SessionError) -> SessionError {
        let reason = match &error {
            SessionError::Refused { reason, .. } => reason.clone(),
            other => other.to_string(),
        };
        self.refuse(code, &reason);
        error
    }

    fn handle_payload(&mut self, payload: &[u8]) -> Result<(), SessionError> {
        let message: ClientMessage = match serde_json::from_slice(payload) {
            Ok(message) => message,
            Err(error) => {
                let error = FrameError::Payload { what: "a request", why: error.to_string() };
                return Err(self.fail(RefuseCode::BadRequest, error.into()));
            }
        };
        let name = message.name();
        match (self.state, message) {
            (State::Hello, ClientMessage::ClientHello { version, tool_version, nonce, proof }) => {
                self.accept(version, &nonce, proof.as_ref())?;
                self.events.push_back(ServerEvent::Accepted { tool_version });
            }
            (State::Ready, ClientMessage::Open(open)) => {
                if let Err((code, reason)) = open.check(&self.config.limits) {
                    return Err(self.fail(code, SessionError::Refused { code, reason }));
                }
                self.open = Some(open.clone());
                self.state = State::Opening;
                self.events.push_back(ServerEvent::Open(open));
            }
            (State::Proved, ClientMessage::Start { size, response_size }) => {
                self.check_sizes(size, response_size)?;
                self.state = State::Starting;
                self.events.push_back(ServerEvent::Start { size, response_size });
            }
            // One may be under way when a size ends in another manner.
            (state, ClientMessage::Alive) if state != State::Hello => self.events.push_back(ServerEvent::Alive),
            (State::Running, ClientMessage::Stop) => {
                self.state = State::Stopping;
                self.events.push_back(ServerEvent::Stop);
            }
            (state, ClientMessage::Close) if state != State::Hello => {
                self.state = State::Done;
                self.events.push_back(ServerEvent::Closed);
            }
            (state, _) => {
                let error = SessionError::OutOfOrder { message: name, state: state.words() };
                return Err(self.fail(RefuseCode::BadRequest, error));
            }
        }
        Ok(())
    }

    fn check_sizes(&mut self, size: u32, response_size: u32) -> Result<(), SessionError> {
        match self.open.as_ref().map_or(Ok(()), |open| open.check_sizes(size, response_size)) {
            Ok(()) => Ok(()),
            Err((code, reason)) => Err(self.fail(code, SessionError::Refused { code, reason })),
        }
    }

    fn accept(&mut self, version: u32, nonce: &Nonce, proof: Option<&Proof>) -> Result<(), SessionError> {
        let ours = self.config.versions;
        if ours.common(Versions { min: version, max: version }).is_none() {
            let error = SessionError::Refused {
                code: RefuseCode::Version,
                reason: format!(
                    "this reflector speaks version {ours}, the other windhover {version}: use the same windhover at both ends"
                ),
            };
            return Err(self.fail(RefuseCode::Version, error));
        }
        let mut answer = None;
        let mut keys = None;
        if let Some(key) = &self.config.key {
            let transcript = Transcript { server_hello: &self.hello, client_nonce: nonce, version };
            match proof {
                None => return Err(self.fail(RefuseCode::KeyRequired, SessionError::KeyRequired)),
                Some(proof) if same(&proof.0, &transcript.client_proof(key)) => {}
                Some(_) => return Err(self.fail(RefuseCode::WrongKey, SessionError::WrongKey)),
            }
            answer = Some(Proof(transcript.server_proof(key, self.config.session)));
            keys = Some(transcript.session_key(key));
        } else if proof.is_some() {
            return Err(self.fail(RefuseCode::WrongKey, SessionError::KeyNotExpected));
        }
        self.send(&ServerMessage::Welcome { proof: answer, session: self.config.session })?;
        if let Some(session_key) = keys {
            self.encoder.set_key(FrameKey::new(&session_key, Direction::ToClient));
            self.decoder.set_key(FrameKey::new(&session_key, Direction::ToServer));
        }
        self.decoder.set_limit(CONTROL_LIMIT);
        self.state = State::Ready;
        Ok(())
    }
}

fn payload(message: &ServerMessage) -> Result<Vec<u8>, FrameError> {
    serde_json::to_vec(message).map_err(|error| FrameError::Payload { what: message.name(), why: error.to_string() })
}
