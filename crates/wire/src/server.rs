//! The reflector's side of the control session as a state machine: bytes in, bytes and events out.
//!
//! The caller writes whatever [`ServerSession::poll_transmit`] gives before it reads more, and after an error writes what
//! is left (a `refused` that names the reason) and hangs up. The machine keeps no time; the caller limits how long a
//! client may be silent.

use crate::control::{
    ClientMessage, Nonce, Opened, Proof, RefuseCode, ServerHello, ServerMessage, StopReport, Versions,
};
use crate::error::SessionError;
use crate::frame::HANDSHAKE_LIMIT;
use crate::key::Key;
use crate::proof::{Direction, Transcript, same};
use crate::request::OpenRequest;
use crate::session::{Role, Session, State, from_payload, to_payload};
use model::Limits;
use model::stream::StreamInterval;
use std::net::SocketAddr;

/// What a session is made of.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Versions to offer; [`Versions::OURS`] but in tests.
    pub versions: Versions,
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
    Accepted { tool_version: String },
    /// Answer with [`ServerSession::opened`], then [`ServerSession::proved`], or [`ServerSession::refuse`].
    Open(Box<OpenRequest>),
    /// Answer with [`ServerSession::started`] or [`ServerSession::refuse`].
    Start {
        /// Message size in bytes, within the limits and what `open` announced.
        size: u32,
        /// Size of the answers in bytes, likewise.
        response_size: u32,
        /// Whether to record why this end is late.
        explain: bool,
    },
    /// The client lives; nothing to answer.
    Alive,
    /// Answer with [`ServerSession::stopped`].
    Stop,
    /// The client is done; hang up.
    Closed,
}

/// The reflector's own part of a session.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    hello: Vec<u8>,
}

impl Role for Server {
    type Event = ServerEvent;
    const READY: &'static str = "before a data path was opened";
}

/// One control session as the reflector sees it.
pub type ServerSession = Session<Server>;

impl ServerSession {
    /// A session with its hello. Errors: [`SessionError::Frame`] when the configuration does not fit into it.
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
        let hello = to_payload(&hello, hello.name())?;
        let frame = crate::frame::encode(&hello, HANDSHAKE_LIMIT)?;
        let mut session = Self::begin(Server { config, hello });
        session.transmits.push_back(frame);
        Ok(session)
    }

    /// Takes bytes from the client. Errors: whatever ends the session; what is left to transmit says so to the client.
    pub fn handle_bytes(&mut self, bytes: &[u8]) -> Result<(), SessionError> {
        if self.state == State::Done {
            return Ok(());
        }
        self.feed(bytes);
        loop {
            match self.pop() {
                Ok(Some(payload)) => self.handle_payload(&payload)?,
                Ok(None) => return Ok(()),
                Err(error) => return Err(self.fail(RefuseCode::BadRequest, error.into())),
            }
            if self.state == State::Done {
                return Ok(());
            }
        }
    }

    /// Whether the client's handshake is done.
    pub fn is_accepted(&self) -> bool {
        self.state != State::Hello
    }

    /// Answers [`ServerEvent::Open`]. Errors: [`SessionError::Misuse`] at any other time.
    pub fn opened(&mut self, opened: Opened) -> Result<(), SessionError> {
        self.step("opened", State::Opening, State::Opened)?;
        self.say(&ServerMessage::Opened(opened))
    }

    /// Confirms the data path after [`ServerSession::opened`]. Errors: [`SessionError::Misuse`] at other times.
    pub fn proved(&mut self, address: Option<SocketAddr>) -> Result<(), SessionError> {
        self.step("proved", State::Opened, State::Proved)?;
        self.say(&ServerMessage::Proved { address })
    }

    /// Answers [`ServerEvent::Start`]. Errors: [`SessionError::Misuse`] at any other time.
    pub fn started(&mut self) -> Result<(), SessionError> {
        self.step("started", State::Starting, State::Running)?;
        self.say(&ServerMessage::Started)
    }

    /// Answers [`ServerEvent::Stop`]. Errors: [`SessionError::Misuse`] at any other time.
    pub fn stopped(&mut self, report: StopReport) -> Result<(), SessionError> {
        self.step("stopped", State::Stopping, State::Proved)?;
        self.say(&ServerMessage::Stopped(Box::new(report)))
    }

    /// Sends a stream's last second while it runs. Errors: [`SessionError::Frame`] when it cannot be written.
    pub fn interval(&mut self, interval: StreamInterval) -> Result<(), SessionError> {
        if self.state == State::Running { self.say(&ServerMessage::Interval(interval)) } else { Ok(()) }
    }

    /// Ends the session with a reason for the client, at any time.
    pub fn refuse(&mut self, code: RefuseCode, reason: &str) {
        if self.state != State::Done {
            self.state = State::Done;
            // A reason too long for a frame cannot be sent; hanging up says no as well.
            let _ = self.say(&ServerMessage::Refused { code, reason: reason.to_owned() });
        }
    }

    fn say(&mut self, message: &ServerMessage) -> Result<(), SessionError> {
        self.send(message, message.name())
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
        let message: ClientMessage =
            from_payload(payload, "a request").map_err(|error| self.fail(RefuseCode::BadRequest, error.into()))?;
        let name = message.name();
        match (self.state, message) {
            (State::Hello, ClientMessage::ClientHello { version, tool_version, nonce, proof }) => {
                self.accept(version, &nonce, proof.as_ref())?;
                self.events.push_back(ServerEvent::Accepted { tool_version });
            }
            (State::Ready, ClientMessage::Open(open)) => {
                if let Err((code, reason)) = open.check(&self.role.config.limits) {
                    return Err(self.fail(code, SessionError::Refused { code, reason }));
                }
                self.open = Some(open.clone());
                self.state = State::Opening;
                self.events.push_back(ServerEvent::Open(open));
            }
            (State::Proved, ClientMessage::Start { size, response_size, explain }) => {
                if let Err((code, reason)) = self.check_sizes(size, response_size) {
                    return Err(self.fail(code, SessionError::Refused { code, reason }));
                }
                self.state = State::Starting;
                self.events.push_back(ServerEvent::Start { size, response_size, explain });
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
            _ => return Err(self.fail(RefuseCode::BadRequest, self.out_of_order(name))),
        }
        Ok(())
    }

    fn accept(&mut self, version: u32, nonce: &Nonce, proof: Option<&Proof>) -> Result<(), SessionError> {
        let ours = self.role.config.versions;
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
        if let Some(key) = &self.role.config.key {
            let transcript = Transcript { server_hello: &self.role.hello, client_nonce: nonce, version };
            match proof {
                None => return Err(self.fail(RefuseCode::KeyRequired, SessionError::KeyRequired)),
                Some(proof) if same(&proof.0, &transcript.client_proof(key)) => {}
                Some(_) => return Err(self.fail(RefuseCode::WrongKey, SessionError::WrongKey)),
            }
            answer = Some(Proof(transcript.server_proof(key, self.role.config.session)));
            keys = Some(transcript.session_key(key));
        } else if proof.is_some() {
            return Err(self.fail(RefuseCode::WrongKey, SessionError::KeyNotExpected));
        }
        self.say(&ServerMessage::Welcome { proof: answer, session: self.role.config.session })?;
        self.secure(keys, Direction::ToClient, Direction::ToServer);
        self.state = State::Ready;
        Ok(())
    }
}
