//! The initiator's side of the control session as a state machine: bytes in, bytes and events out.
//!
//! The caller writes whatever [`ClientSession::poll_transmit`] gives, reads, and passes what it read to
//! [`ClientSession::handle_bytes`]. The machine keeps no time; the caller limits how long it waits.

use crate::control::{
    ClientMessage, Nonce, Opened, Proof, RefuseCode, ServerHello, ServerMessage, StopReport, Versions, capability,
};
use crate::error::SessionError;
use crate::key::Key;
use crate::proof::{Direction, Transcript, same};
use crate::request::OpenRequest;
use crate::session::{Role, Session, State, from_payload};
use model::stream::StreamInterval;
use std::net::SocketAddr;

/// Letters of a text from the far end that are printed.
const MOST_SHOWN: usize = 500;

#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Versions to accept; [`Versions::OURS`] but in tests.
    pub versions: Versions,
    pub tool_version: String,
    /// The shared key; absent: none is used, and a reflector that needs one is an error.
    pub key: Option<Key>,
    /// Fresh random bytes.
    pub nonce: Nonce,
}

impl ClientConfig {
    /// The configuration of this build.
    pub fn new(key: Option<Key>, nonce: [u8; 32]) -> Self {
        Self { versions: Versions::OURS, tool_version: env!("CARGO_PKG_VERSION").to_owned(), key, nonce: Nonce(nonce) }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum ClientEvent {
    /// The handshake is done: call [`ClientSession::open`].
    Ready {
        hello: Box<ServerHello>,
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
    Stopped(Box<StopReport>),
}

/// The initiator's own part of a session.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    hello: Option<(Vec<u8>, Box<ServerHello>, u32)>,
}

impl Role for Client {
    type Event = ClientEvent;
    const READY: &'static str = "before a data path was asked for";
}

/// One control session as the initiator sees it.
pub type ClientSession = Session<Client>;

impl ClientSession {
    /// A session that waits for the reflector's hello.
    pub fn new(config: ClientConfig) -> Self {
        Self::begin(Client { config, hello: None })
    }

    /// Takes bytes. Errors: whatever ends the session: a refusal, a wrong key or version, a bad message.
    pub fn handle_bytes(&mut self, bytes: &[u8]) -> Result<(), SessionError> {
        if self.state == State::Done {
            return Ok(());
        }
        self.feed(bytes);
        let outcome = self.handle_frames();
        if outcome.is_err() {
            self.state = State::Done;
        }
        outcome
    }

    /// What the reflector is and allows, once it said so.
    pub fn server(&self) -> Option<&ServerHello> {
        self.role.hello.as_ref().map(|(_, hello, _)| hello.as_ref())
    }

    /// Asks for a data path, once `Ready` came. Errors: [`SessionError::Misuse`] at any other time; before anything is
    /// sent [`SessionError::Lacks`] for what the reflector's build cannot do and [`SessionError::Refused`] for what the
    /// limits told exclude.
    pub fn open(&mut self, request: OpenRequest) -> Result<(), SessionError> {
        if self.state == State::Ready
            && let Some((_, hello, _)) = &self.role.hello
        {
            let lacks = |word: &str| !hello.capabilities.iter().any(|known| known == word);
            // Over inherited descriptors the reflector says what these carry.
            let served = request.socket.protocol.is_served() && lacks(capability::INHERITED);
            let needed = [
                (request.pace.is_some(), capability::PACE),
                (request.stream.is_some(), capability::STREAM),
                (request.cycle.is_some(), capability::CYCLE),
                (served, request.socket.protocol.word()),
            ];
            if let Some((_, capability)) = needed.into_iter().find(|(needed, word)| *needed && lacks(word)) {
                let build = hello.build.as_ref().map(|build| format!(", build {build}")).unwrap_or_default();
                return Err(SessionError::Lacks {
                    capability,
                    theirs: model::text::excerpt(&format!("windhover {}{build}", hello.tool_version), MOST_SHOWN),
                    ours: format!("windhover {}", self.role.config.tool_version),
                });
            }
            request.check(&hello.limits).map_err(|(code, reason)| SessionError::Refused { code, reason })?;
        }
        self.step("open", State::Ready, State::Opening)?;
        let request = Box::new(request);
        self.open = Some(request.clone());
        self.say(&ClientMessage::Open(request))
    }

    /// Begins a size after `Proved` or `Stopped`. Errors: [`SessionError::Misuse`], [`SessionError::Refused`].
    pub fn start(&mut self, size: u32, response_size: u32) -> Result<(), SessionError> {
        self.begin_size(size, response_size, false)
    }

    /// As [`Self::start`] of a size whose late messages the reflector explains too, if its owner allows that.
    pub fn start_explaining(&mut self, size: u32, response_size: u32) -> Result<(), SessionError> {
        self.begin_size(size, response_size, true)
    }

    fn begin_size(&mut self, size: u32, response_size: u32, explain: bool) -> Result<(), SessionError> {
        if self.state == State::Proved {
            self.check_sizes(size, response_size).map_err(|(code, reason)| SessionError::Refused { code, reason })?;
        }
        self.step("start", State::Proved, State::Starting)?;
        self.say(&ClientMessage::Start { size, response_size, explain })
    }

    /// Whether the reflector listens for [`ClientSession::alive`].
    pub fn hears_heartbeats(&self) -> bool {
        let word = |known: &String| known == capability::HEARTBEAT;
        self.server().is_some_and(|hello| hello.capabilities.iter().any(word))
    }

    /// A heartbeat while a size runs, to a reflector that knows it. Errors: [`SessionError::Frame`] if not written.
    pub fn alive(&mut self) -> Result<(), SessionError> {
        if self.state == State::Running && self.hears_heartbeats() { self.say(&ClientMessage::Alive) } else { Ok(()) }
    }

    /// Ends a size, once `Started` came. Errors: [`SessionError::Misuse`] at any other time.
    pub fn stop(&mut self) -> Result<(), SessionError> {
        self.step("stop", State::Running, State::Stopping)?;
        self.say(&ClientMessage::Stop)
    }

    /// Ends the session, if it is not over. Errors: [`SessionError::Frame`] when the message cannot be written.
    pub fn close(&mut self) -> Result<(), SessionError> {
        match self.state {
            State::Done => Ok(()),
            State::Hello | State::Welcome => {
                self.state = State::Done;
                Ok(())
            }
            _ => {
                self.state = State::Done;
                self.say(&ClientMessage::Close)
            }
        }
    }

    fn say(&mut self, message: &ClientMessage) -> Result<(), SessionError> {
        self.send(message, message.name())
    }

    fn handle_frames(&mut self) -> Result<(), SessionError> {
        while let Some(payload) = self.pop()? {
            let message: ServerMessage = from_payload(&payload, "an answer")?;
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
                    RefuseCode::WrongKey if self.role.config.key.is_some() => SessionError::WrongKey,
                    code => SessionError::Refused { code, reason: model::text::excerpt(&reason, MOST_SHOWN) },
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
            _ => return Err(self.out_of_order(name)),
        };
        self.state = next;
        self.events.push_back(event);
        Ok(())
    }

    fn greet(&mut self, hello: Box<ServerHello>, payload: Vec<u8>) -> Result<(), SessionError> {
        let ours = self.role.config.versions;
        let version = ours
            .common(hello.versions)
            .ok_or_else(|| SessionError::Version { theirs: hello.versions.to_string(), ours: ours.to_string() })?;
        let proof = match (&self.role.config.key, hello.key_required) {
            (None, true) => return Err(SessionError::KeyRequired),
            (Some(_), false) => return Err(SessionError::KeyNotExpected),
            (None, false) => None,
            (Some(key), true) => {
                let transcript = Transcript { server_hello: &payload, client_nonce: &self.role.config.nonce, version };
                Some(Proof(transcript.client_proof(key)))
            }
        };
        let answer = ClientMessage::ClientHello {
            version,
            tool_version: self.role.config.tool_version.clone(),
            nonce: self.role.config.nonce.clone(),
            proof,
        };
        self.role.hello = Some((payload, hello, version));
        self.state = State::Welcome;
        self.say(&answer)
    }

    fn trust(&mut self, proof: Option<&Proof>, session: u64) -> Result<ClientEvent, SessionError> {
        let Some((payload, hello, version)) = &self.role.hello else {
            return Err(self.out_of_order("welcome"));
        };
        let hello = hello.clone();
        let mut session_key = None;
        if let Some(key) = &self.role.config.key {
            let transcript =
                Transcript { server_hello: payload, client_nonce: &self.role.config.nonce, version: *version };
            let expected = transcript.server_proof(key, session);
            if !proof.is_some_and(|proof| same(&proof.0, &expected)) {
                return Err(SessionError::WrongKey);
            }
            session_key = Some(transcript.session_key(key));
        }
        self.secure(session_key, Direction::ToServer, Direction::ToClient);
        Ok(ClientEvent::Ready { hello, session })
    }
}
