//! The messages of the control connection between an initiator and a reflector.
//!
//! Each frame holds one JSON object with a `type`. Readers ignore fields that they do not know, so that a later
//! version may add some; a field is never given another meaning.
//!
//! ```text
//! reflector                                initiator
//!   server-hello (versions, limits, nonce) ->
//!                                           <- client-hello (version, nonce, proof)
//!   welcome (proof, session) | refused     ->
//!                                           <- open (socket, end, sizes)
//!   opened (port, token)                   ->
//!                                           <- the token on the data path
//!   proved (address)                       ->
//!                                           <- start (size)        \
//!   started                                ->                       | once a size
//!                                           <- alive (while sent a stream) |
//!                                           <- stop                 |
//!   stopped (usage, counters, messages)    ->                      /
//!                                           <- close
//! ```
//! Once both proofs are made, each frame of a keyed session carries a MAC. A `refused` ends the session at any point.

use crate::hex;
use crate::pgm::{PgmFarEnd, SourceId};
use crate::proof;
use crate::request::OpenRequest;
use crate::stream::StreamEnd;
use model::result::EndReport;
use model::stream::StreamInterval;
use model::usage::{Carried, Counters, EndUsage, Preload};
use model::{ClockSource, EndSpec, Finding, FrameBackend, Limits, StampClock, TickRate};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// The range of protocol versions that an end speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Versions {
    /// The oldest.
    pub min: u32,
    /// The newest.
    pub max: u32,
}

impl Versions {
    /// What this build speaks.
    pub const OURS: Self = Self { min: 1, max: 1 };

    /// The newest version that both ranges hold.
    pub fn common(self, other: Self) -> Option<u32> {
        let newest = self.max.min(other.max);
        (newest >= self.min.max(other.min)).then_some(newest)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max { write!(f, "{}", self.max) } else { write!(f, "{} to {}", self.min, self.max) }
    }
}

/// 32 random bytes that make a handshake unique.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Nonce(#[serde(with = "hex::array")] pub [u8; 32]);

/// A proof of knowing the key: HMAC-SHA256.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Proof(#[serde(with = "hex::array")] pub [u8; 32]);

/// 16 random bytes that a client shows on the data path to prove that path its own.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Token(#[serde(with = "hex::array")] pub [u8; 16]);

impl Token {
    /// The value that tags this session's data messages; it does not betray the token.
    pub fn tag(&self) -> u64 {
        proof::tag(self)
    }
}

impl PartialEq for Token {
    /// In constant time.
    fn eq(&self, other: &Self) -> bool {
        proof::same(&self.0, &other.0)
    }
}

impl Eq for Token {}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Capability words of [`ServerHello::capabilities`], beside those of the protocols that are reflected ([`model::Protocol::word`]).
pub mod capability {
    /// Reflects UDP multicast.
    pub const MULTICAST: &str = "multicast";
    /// Accepts a TCP connection for each transaction.
    pub const CONNECT_EACH: &str = "connect-each";
    /// Reflects over inherited UNIX sockets and pipes.
    pub const INHERITED: &str = "inherited";
    /// Takes and sends bulk data ([`crate::stream`]).
    pub const STREAM: &str = "stream";
    /// Hears a client's signs of life while it is sent a stream.
    pub const HEARTBEAT: &str = "heartbeat";
    /// Echoes the cycles of an exchange.
    pub const CYCLE: &str = "cycle";
    /// Answers messages that come at a rate, one in so many, and stamps its answers.
    pub const PACE: &str = "pace";
}

/// Why a reflector says no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefuseCode {
    /// The client's proof does not fit.
    WrongKey,
    /// A key is needed and none was used.
    KeyRequired,
    /// No common version.
    Version,
    /// Above a limit of the reflector's owner.
    Limit,
    /// Too many sessions at once.
    Busy,
    /// Something that this reflector or its system cannot do.
    Unsupported,
    /// A request that makes no sense or came out of order.
    BadRequest,
    /// A step failed on the reflector's system.
    Failed,
    /// The session lasted as long as it may, or did nothing for too long.
    TimedOut,
    Stopping,
    /// A code that this version does not know.
    #[serde(other)]
    Other,
}

/// The first message: what the reflector is and allows.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ServerHello {
    pub versions: Versions,
    pub tool_version: String,
    /// Hash of the tool's binary, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// What it can do; see [`capability`].
    #[serde(default)]
    pub capabilities: Vec<String>,
    pub limits: Limits,
    /// Its part of the handshake's randomness.
    pub nonce: Nonce,
    /// Whether the client has to prove a key.
    pub key_required: bool,
}

/// Where the data path is and what proves it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Opened {
    /// Port of the data socket; 0 for inherited descriptors.
    pub port: u16,
    /// Its address, when that is another than the control connection's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// Shown on the data path ([`crate::data::prove`]); with `connect_each` and inherited descriptors it is not.
    pub token: Token,
    /// Boot id of the reflector's machine: an initiator on the same one shares its CPUs. Only for accepted clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Ports of all data sockets of a UDP stream, by the number of the flow; else empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
    /// The reflector's own source of PGM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceId>,
}

/// What the reflector saw over one size.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct StopReport {
    /// CPU and scheduling of the reflector's thread and machine.
    pub usage: EndUsage,
    /// Where its host dropped messages.
    pub counters: Counters,
    /// Messages received.
    pub received: u64,
    /// Messages sent back.
    pub sent: u64,
    /// Datagrams ignored: from an address that did not prove itself, or of another size.
    pub ignored: u64,
    /// Messages not answered because they came faster than the limit.
    pub over_rate: u64,
    /// The cost of one clock read on the reflector, in ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_read_ns: Option<f64>,
    /// The reflector's ticks, in which the stamps of its answers are ([`crate::data`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticks: Option<TickRate>,
    /// Where they come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockSource>,
    /// What it stamps with beside its application, when stamps were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamps: Option<StampClock>,
    /// What was asked for and not permitted, and other findings of this end.
    pub notes: Vec<Finding>,
    /// Environment variables of preloaded stacks (LD_PRELOAD, EF_*, VMA_*, XLIO_*).
    pub stack_environment: BTreeMap<String, String>,
    /// The libraries that LD_PRELOAD names at this end, and whether each was really loaded.
    pub preloads: Vec<Preload>,
    /// What carried this end's frames, with protocol `frame`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame_backend: Option<FrameBackend>,
    /// What carried this end's data sockets; absent where it did not run behind `windhover bypass`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carried: Option<Vec<Carried>>,
    /// What this end sent and received of a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamEnd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pgm: Option<PgmFarEnd>,
    /// Why this end was late, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explained: Option<model::FarStays>,
}

impl StopReport {
    /// What a result says of this end, which was told `spec` and has the data address `address`.
    pub fn into_end(self, spec: EndSpec, host: Option<String>, address: Option<String>) -> EndReport {
        let Self { usage, counters, stack_environment, preloads, frame_backend, carried, .. } = self;
        EndReport { spec, host, address, usage, counters, stack_environment, preloads, frame_backend, carried }
    }
}

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum ClientMessage {
    /// Answers the reflector's hello.
    ClientHello {
        version: u32,
        #[serde(default)]
        tool_version: String,
        nonce: Nonce,
        /// Proof of the key; absent without one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proof: Option<Proof>,
    },
    /// Asks for a data path.
    Open(Box<OpenRequest>),
    Start {
        /// Message size in bytes.
        size: u32,
        /// Size of the answers in bytes.
        response_size: u32,
        /// Whether the reflector records why it was late; it may refuse that alone.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        explain: bool,
    },
    /// A sign of life while a stream runs; only to a reflector with [`capability::HEARTBEAT`].
    Alive,
    Stop,
    Close,
}

impl ClientMessage {
    /// The message's name, for errors.
    pub fn name(&self) -> &'static str {
        match self {
            Self::ClientHello { .. } => "client-hello",
            Self::Open(_) => "open",
            Self::Start { .. } => "start",
            Self::Alive => "alive",
            Self::Stop => "stop",
            Self::Close => "close",
        }
    }
}

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum ServerMessage {
    ServerHello(Box<ServerHello>),
    Welcome {
        /// Proof of the key; absent without one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proof: Option<Proof>,
        session: u64,
    },
    /// The session ends here.
    Refused {
        code: RefuseCode,
        /// Why, for people: one line with the remedy.
        reason: String,
    },
    /// The data path exists.
    Opened(Opened),
    /// The data path is the client's.
    Proved {
        /// The client's address on the data path; absent for inherited descriptors.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        address: Option<SocketAddr>,
    },
    /// The reflector waits for messages.
    Started,
    /// A second of a stream is over at its receiving end; only where the client asked to be told.
    Interval(StreamInterval),
    Stopped(Box<StopReport>),
}

impl ServerMessage {
    /// The message's name, for errors.
    pub fn name(&self) -> &'static str {
        match self {
            Self::ServerHello(_) => "server-hello",
            Self::Welcome { .. } => "welcome",
            Self::Refused { .. } => "refused",
            Self::Opened(_) => "opened",
            Self::Proved { .. } => "proved",
            Self::Started => "started",
            Self::Interval(_) => "interval",
            Self::Stopped(_) => "stopped",
        }
    }
}
