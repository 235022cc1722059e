//! The initiator's side of the control session as a state machine: bytes in, bytes and events out.
//!
//! The caller writes whatever [`ClientSession::poll_transmit`] gives, reads, and passes what it read to
//! [`ClientSession::handle_bytes`]. The machine keeps no time; the caller limits how long it waits.

use crate::control::{
    ClientMessage, Nonce, OpenRequest, Opened, Proof, RefuseCode, ServerHello, ServerMessage, StopReport, Versions,
    capability,
};
use crate::error::{FrameError, SessionError};
use crate::frame::{CONTROL_LIMIT, Decoder, Encoder, HANDSHAKE_LIMIT};
use crate::key::Key;
use crate::proof::{Direction, FrameKey, Transcript, same};
use model::stream::StreamInterval;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// What a session is made of.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Versions to accept; [`Versions::OURS`] but in tests.
    pub versions: Versions,
    /// Version of the tool.
    pub tool_version: String,
    /// The shared key; absent: none is used, and a reflector that needs one is an error.
    pub key: Option<Key>,
    /// Fresh random bytes.
    pub nonce: Nonce,
}

impl ClientConfig {
    /// The configuration of this build.
    #[must_use]
    pub fn new(key: Option<Key>, nonce: [u8; 32]) -> Self {
        Self { versions: Versions::OURS, tool_version: env!("CARGO_PKG_VERSION").to_owned(), key, nonce: Nonce(nonce) }
    }
}

/// What the reflector said.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientEvent {
    /// The handshake is done: call [`ClientSession::open`].
    Ready {
        /// What the reflector is and allows.
        hello: Box<ServerHello>,
        /// Number of the session at the reflector.
        session: u64,
    },
    /// Show the token on the data path until `Proved` comes.
    Opened(Opened),
    /// The data path is ours: call [`ClientSession::start`].
    Proved {
        /// Our address as the reflector sees it; absent for inherited descriptors.
        address: Option<SocketAddr>,
    },
    /// Messages may be sent.
    Started,
    /// A second of a stream is over at the far end, which receives it.
    Interval(StreamInterval),
    /// A size is done.
    Stopped(Box<StopReport>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
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
    fn words(self) -> &'static str {
        match self {
            Self::Hello | Self::Welcome => "before the handshake was done",
            Self::Ready => "before a data path was asked for",
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

/// One control session as the initiator sees it.
#[derive(Debug)]
pub struct ClientSession {
    config: ClientConfig,
    state: State,
    hello: Option<(Vec<u8>, Box<ServerHello>, u32)>,
    /// What was asked for.
    open: Option<Box<OpenRequest>>,
    decoder: Decoder,
    encoder: Encoder,
    events: VecDeque<ClientEvent>,
    transmits: VecDeque<Vec<u8>>,
}

impl ClientSession {
    /// A session that waits for the reflector's hello.
    #[must_use]
    pub fn new(config: ClientConfig) -> Self {
        Self {
            config,
            state: State::Hello,
            hello: None,
            open: None,
            decoder: Decoder::new(HANDSHAKE_LIMIT),
            encoder: Encoder::new(CONTROL_LIMIT),
            events: VecDeque::new(),
            transmits: VecDeque::new(),
        }
    }

    /// Takes bytes from the reflector.
    ///
    /// # Errors
    /// Whatever ends the session: a refusal, a wrong key or version, a damaged or misplaced message.
    pub fn handle_bytes(&mut self, bytes: &[u8]) -> Result<(), SessionError> {
        if self.state == State::Done {
            return Ok(());
        }
        self.decoder.feed(bytes);
        let outcome = self.handle_frames();
        if outcome.is_err() {
            self.state = State::Done;
        }
        outcome
    }

    /// Takes note that the reflector hung up.
    ///
    /// # Errors
    /// [`SessionError::Closed`] unless [`ClientSession::close`] was called before.
    pub fn handle_end(&mut self) -> Result<(), SessionError> {
        let state = std::mem::replace(&mut self.state, State::Done);
        if state == State::Done { Ok(()) } else { Err(SessionError::Closed { state: state.words() }) }
    }

    /// The next thing the reflector said.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        self.events.pop_front()
    }

    /// The next bytes to write.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.transmits.pop_front()
    }

    /// Whether the session is over.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// What the reflector is and allows, once it said so.
    #[must_use]
    pub fn server(&self) -> Option<&ServerHello> {
        self.hello.as_ref().map(|(_, hello, _)| hello.as_ref())
    }

    /// Asks for a data path, once `Ready` came.
    ///
    /// # Errors
    /// [`SessionError::Misuse`] at any other time; before anything is sent [`SessionError::Lacks`] for what the
    /// reflector's build cannot do and [`SessionError::Refused`] for what the limits told exclude.
    pub fn open(&mut self, request: OpenRequest) -> Result<(), SessionError> {
        if self.state == State::Ready
            && let Some((_, hello, _)) = &self.hello
        {
            let lacks = |word: &str| !hello.capabilities.iter().any(|known| known == word);
            // Over inherited descriptors the reflector says what these carry.
            let served = request.socket.protocol.is_served() && lacks(capability::INHERITED);
            let needed = [
                (request.pace.is_some(), capability::PACE),
                (request.stream.is_some(), capability::STREAM),
                (served, request.socket.protocol.word()),
            ];
            if let Some((_, capability)) = needed.into_iter().find(|(needed, word)| *needed && lacks(word)) {
                let build = hello.build.as_ref().map(|build| format!(", build {build}")).unwrap_or_default();
                return Err(SessionError::Lacks {
                    capability,
                    theirs: one_line(&format!("windhover {}{build}", hello.tool_version)),
                    ours: format!("windhover {}", self.config.tool_version),
                });
            }
            request.check(&hello.limits).map_err(|(code, reason)| SessionError::Refused { code, reason })?;
        }
        self.step("open", State::Ready, State::Opening)?;
        let request = Box::new(request);
        self.open = Some(request.clone());
        self.send(&ClientMessage::Open(request))
    }

    /// Begins a size, once `Proved` came or after `Stopped`.
    ///
    /// # Errors
    /// [`SessionError::Misuse`] at any other time; before anything is sent [`SessionError::Refused`] for sizes that the
    /// reflector would refuse.
    pub fn start(&mut self, size: u32, response_size: u32) -> Result<(), SessionError> {
        if self.state == State::Proved
            && let Some(open) = &self.open
        {
            open.check_sizes(size, response_size).map_err(|(code, reason)| SessionError::Refused { code, reason })?;
        }
        self.step("start", State::Proved, State::Starting)?;
        self.send(&ClientMessage::Start { size, response_size })
    }

    /// Whether the reflector listens for [`ClientSession::alive`].
    #[must_use]
    pub fn hears_heartbeats(&self) -> bool {
        let word = |known: &String| known == capability::HEARTBEAT;
        self.server().is_some_and(|hello| hello.capabilities.iter().any(word))
    }

    /// A sign of life while a size runs; nothing at any other time, and to a reflector that does not listen for it.
    ///
    /// # Errors
    /// [`SessionError::Frame`] when the message cannot be written.
    pub fn alive(&mut self) -> Result<(), SessionError> {
        if self.state == State::Running && self.hears_heartbeats() { self.send(&ClientMessage::Alive) } else { Ok(()) }
    }

    /// Ends a size, once `Started` came.
    ///
    /// # Errors
    /// [`SessionError::Misuse`] at any other time.
    pub fn stop(&mut self) -> Result<(), SessionError> {
        self.step("stop", State::Running, State::Stopping)?;
        self.send(&ClientMessage::Stop)
    }

    /// Ends the session, at any time; does nothing when it is over already.
    ///
    /// # Errors
    /// [`SessionError::Frame`] when the message cannot be written.
    pub fn close(&mut self) -> Result<(), SessionError> {
        match self.state {
            State::Done => Ok(()),
            State::Hello | State::Welcome => {
                self.state = State::Done;
                Ok(())
            }
            _ => {
                self.state = State::Done;
                self.send(&ClientMessage::Close)
            }
        }
    }

    fn step(&mut self, call: &'static str, from: State, to: State) -> Result<(), SessionError> {
        if self.state != from {
            return Err(SessionError::Misuse { call, state: self.state.words() });
        }
        self.state = to;
        Ok(())
    }

    fn send(&mut self, message: &ClientMessage) -> Result<(), SessionError> {
        let payload = serde_json::to_vec(message)
            .map_err(|error| FrameError::Payload { what: message.name(), why: error.to_string() })?;
        let frame = self.encoder.encode(&payload)?;
        self.transmits.push_back(frame);
        Ok(())
    }

    fn handle_frames(&mut self) -> Result<(), SessionError> {
        while let Some(payload) = self.decoder.pop()? {
            let message: ServerMessage = serde_json::from_slice(&payload)
                .map_err(|error| FrameError::Payload { what: "an answer", why: error.to_string() })?;
            self.handle_message(message, payload)?;
        }
        Ok(())
    }

    fn handle_message(&mut self, message: ServerMessage, payload: Vec<u8>) -> Result<(), SessionError> {
        let name = message.name();
        let (next, event) = match (self.state, message) {
            (State::Hello, ServerMessage::ServerHello(hello)) => return self.greet(hello, payload),
            (State::Welcome, ServerMessage::Welcome { proof, session }) => {
                let event = self.trust(proof.as_ref(), session)?;
                (State::Ready, event)
            }
            (_, ServerMessage::Refused { code, reason }) => {
                return Err(match code {
                    RefuseCode::WrongKey if self.config.key.is_some() => SessionError::WrongKey,
                    code => SessionError::Refused { code, reason: one_line(&reason) },
                });
            }
            (State::Opening, ServerMessage::Opened(opened)) => (State::Opened, ClientEvent::Opened(opened)),
            (State::Opened, ServerMessage::Proved { address }) => (State::Proved, ClientEvent::Proved { address }),
            (State::Starting, ServerMessage::Started) => (State::Running, ClientEvent::Started),
            // One may be under way when the stop is said.
            (state @ (State::Running | State::Stopping), ServerMessage::Interval(interval)) => {
                (state, ClientEvent::Interval(interval))
            }
            (State::Stopping, ServerMessage::Stopped(report)) => (State::Proved, ClientEvent::Stopped(report)),
            (state, _) => return Err(SessionError::OutOfOrder { message: name, state: state.words() }),
        };
        self.state = next;
        self.events.push_back(event);
        Ok(())
    }

    fn greet(&mut self, hello: Box<ServerHello>, payload: Vec<u8>) -> Result<(), SessionError> {
        let ours = self.config.versions;
        let version = ours
            .common(hello.versions)
            .ok_or_else(|| SessionError::Version { theirs: hello.versions.to_string(), ours: ours.to_string() })?;
        let proof = match (&self.config.key, hello.key_required) {
            (None, true) => return Err(SessionError::KeyRequired),
            (Some(_), false) => return Err(SessionError::KeyNotExpected),
            (None, false) => None,
            (Some(key), true) => {
                let transcript = Transcript { server_hello: &payload, client_nonce: &self.config.nonce, version };
                Some(Proof(transcript.client_proof(key)))
            }
        };
        let answer = ClientMessage::ClientHello {
            version,
            tool_version: self.config.tool_version.clone(),
            nonce: self.config.nonce.clone(),
            proof,
        };
        self.hello = Some((payload, hello, version));
        self.state = State::Welcome;
        self.send(&answer)
    }

    fn trust(&mut self, proof: Option<&Proof>, session: u64) -> Result<ClientEvent, SessionError> {
        let Some((payload, hello, version)) = &self.hello else {
            return Err(SessionError::OutOfOrder { message: "welcome", state: State::Hello.words() });
        };
        if let Some(key) = &self.config.key {
            let transcript = Transcript { server_hello: payload, client_nonce: &self.config.nonce, version: *version };
            let expected = transcript.server_proof(key, session);
            if !proof.is_some_and(|proof| same(&proof.0, &expected)) {
                return Err(SessionError::WrongKey);
            }
            let session_key = transcript.session_key(key);
            self.encoder.set_key(FrameKey::new(&session_key, Direction::ToServer));
            self.decoder.set_key(FrameKey::new(&session_key, Direction::ToClient));
        }
        self.decoder.set_limit(CONTROL_LIMIT);
        Ok(ClientEvent::Ready { hello: hello.clone(), session })
    }
}

/// A reason from the far end is printed: it keeps one line and no control characters.
fn one_line(reason: &str) -> String {
    reason.chars().take(500).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
