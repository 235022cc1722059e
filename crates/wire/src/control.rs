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

use crate::data::Tier;
use crate::hex;
use crate::pgm::{PgmFarEnd, PgmRequest, SourceId};
use crate::proof;
use crate::stream::{StreamEnd, StreamRequest};
use model::result::EndReport;
use model::stream::StreamInterval;
use model::usage::{Carried, Counters, EndUsage, Preload};
use model::{
    ClockSource, EndSpec, Finding, FrameBackend, Limits, Probe, Protocol, Receive, SocketSpec, StampClock, Stamps,
    TickRate,
};
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

/// Capability words of [`ServerHello::capabilities`], beside those of the protocols that are reflected ([`Protocol::word`]).
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
    /// The reflector is being stopped.
    Stopping,
    /// A code that this version does not know.
    #[serde(other)]
    Other,
}

/// The first message: what the reflector is and allows.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ServerHello {
    /// Protocol versions.
    pub versions: Versions,
    /// Version of the tool.
    pub tool_version: String,
    /// Hash of the tool's binary, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// What it can do; see [`capability`].
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// What it allows.
    pub limits: Limits,
    /// Its part of the handshake's randomness.
    pub nonce: Nonce,
    /// Whether the client has to prove a key.
    pub key_required: bool,
}

/// What a client wants to measure.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct OpenRequest {
    /// The kind of measurement.
    pub probe: Probe,
    /// Protocol and shared socket options.
    pub socket: SocketSpec,
    /// The reflector's settings.
    #[serde(default)]
    pub end: EndSpec,
    /// Messages that the reflector receives before it answers.
    pub pings: u32,
    /// Messages that it answers with.
    pub pongs: u32,
    /// Largest message of the session in bytes, responses included.
    pub max_size: u32,
    /// A TCP connection for each transaction.
    #[serde(default)]
    pub connect_each: bool,
    /// Bulk data instead of messages that are answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamRequest>,
    /// What messages at a rate need beside; present with `pace` and only then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<PaceRequest>,
}

/// What a reflector must know of messages that are sent at a rate.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct PaceRequest {
    /// The highest mean rate of the session in messages a second, rounded up. One above the owner's limit is refused
    /// beforehand rather than kept by dropping messages.
    pub rate_pps: u32,
    /// Messages whose number is a multiple of this are answered; 1: all.
    pub every: u32,
    /// Stamps of the wall clock in the answers; refused where the reflector's system cannot take them.
    pub stamps: Stamps,
    /// The data port to bind; absent: any. Reflectors of one multicast group have to listen on one port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The initiator's source, where messages go over PGM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pgm: Option<PgmRequest>,
    /// With `port`: drawn by the initiator; its tag is that of all messages in place of the tag of each session, because
    /// one message goes to all reflectors of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Token>,
}

impl Default for PaceRequest {
    fn default() -> Self {
        Self { rate_pps: 1, every: 1, stamps: Stamps::None, port: None, pgm: None, group: None }
    }
}

/// Where the data path is and what proves it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Opened {
    /// Port of the data socket; 0 for inherited descriptors.
    pub port: u16,
    /// Its address, when that is another than the control connection's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// To be shown on the data path ([`crate::data::prove`]); with `connect_each`, and on inherited descriptors, it is
    /// not shown and `proved` follows at once.
    pub token: Token,
    /// The boot id of the reflector's machine, so that an initiator on the same one (another namespace of it, say)
    /// knows that the ends share its CPUs. Told only to clients that were accepted.
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
    /// What PGM did at this end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pgm: Option<PgmFarEnd>,
}

impl StopReport {
    /// What a result says of this end, which was told `spec` and has the data address `address`.
    #[must_use]
    pub fn into_end(self, spec: EndSpec, host: Option<String>, address: Option<String>) -> EndReport {
        let Self { usage, counters, stack_environment, preloads, frame_backend, carried, .. } = self;
        EndReport { spec, host, address, usage, counters, stack_environment, preloads, frame_backend, carried }
    }
}

/// What an initiator says.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "a field without a line is what its name says")]
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
    /// A size begins.
    Start {
        /// Message size in bytes.
        size: u32,
        /// Size of the answers in bytes.
        response_size: u32,
    },
    /// A sign of life while a stream runs; only to a reflector with [`capability::HEARTBEAT`].
    Alive,
    /// A size is done.
    Stop,
    /// The session is done.
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

/// What a reflector says.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "a field without a line is what its name says")]
pub enum ServerMessage {
    /// What it is and allows.
    ServerHello(Box<ServerHello>),
    /// The client is accepted.
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
    /// A size is done.
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

/// A port that the client chooses: others use those below.
const FIRST_GROUP_PORT: u16 = 1024;

/// Checks a port that a client wants bound on the reflector's host: those of well-known services (RFC 6335, section 6)
/// are nobody's to take.
pub(crate) fn check_group_port(port: u16) -> Result<(), Refusal> {
    if port >= FIRST_GROUP_PORT {
        return Ok(());
    }
    limit(format!(
        "port {port} is one of well-known services, which no client may have bound: use {FIRST_GROUP_PORT} or above"
    ))
}

/// The code of a refusal, and its reason: one line with the remedy.
pub type Refusal = (RefuseCode, String);

/// Refuses what makes no sense.
pub(crate) fn bad<T>(reason: impl Into<String>) -> Result<T, Refusal> {
    Err((RefuseCode::BadRequest, reason.into()))
}

/// Refuses what the owner does not allow.
pub(crate) fn limit<T>(reason: impl Into<String>) -> Result<T, Refusal> {
    Err((RefuseCode::Limit, reason.into()))
}

impl OpenRequest {
    /// One message out and one back over a protocol, of at most `max_size` bytes; the reflector's settings are the usual ones.
    pub fn new(probe: Probe, protocol: Protocol, max_size: u32) -> Self {
        Self {
            probe,
            socket: SocketSpec::new(protocol),
            end: EndSpec::default(),
            pings: 1,
            pongs: 1,
            max_size,
            connect_each: false,
            stream: None,
            pace: None,
        }
    }

    /// Checks the request against what the reflector's owner allows. Both ends use it: the initiator before it asks,
    /// the reflector because the initiator may be anybody.
    ///
    /// # Errors
    /// The code and the reason of a refusal, naming the limit and the remedy.
    pub fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        let protocol = self.socket.protocol;
        if self.max_size > limits.max_size {
            return limit(format!(
                "size {} is above the reflector's limit of {} bytes: use smaller sizes, or raise its --max-size",
                self.max_size, limits.max_size
            ));
        }
        if self.max_size > protocol.max_size() {
            return bad(format!("size {} is above the {} bytes of {protocol}", self.max_size, protocol.max_size()));
        }
        for (what, count) in [("pings", self.pings), ("pongs", self.pongs)] {
            if !(1..=1000).contains(&count) {
                return bad(format!("{count} {what} are out of range: use 1 to 1000"));
            }
        }
        if self.connect_each && !protocol.connects_each() {
            let connections = Protocol::words_of(Protocol::connects_each);
            return bad(format!("a connection for each transaction needs {connections}, not {protocol}"));
        }
        if self.connect_each && !matches!(self.end.receive, Receive::Block | Receive::Spin) {
            return bad(format!(
                "a connection for each transaction waits with block or spin, not {}",
                self.end.receive
            ));
        }
        if self.socket.more && !protocol.is_stream() && (self.pings > 1 || self.pongs > 1) {
            return bad(format!("MSG_MORE joins {protocol} messages into one datagram: leave --more out, or use tcp"));
        }
        if !protocol.carries(self.probe) {
            return bad(format!("{} does not go over {protocol}: use {}", self.probe, Protocol::words_for(self.probe)));
        }
        if let Some(multicast) = &self.socket.multicast {
            if protocol != Protocol::Udp {
                return bad(format!("a multicast group needs udp, not {protocol}"));
            }
            if !multicast.group.is_multicast() {
                return bad(format!("{} is no multicast group", multicast.group));
            }
        }
        crate::pgm::check(self)?;
        self.check_pace(limits)?;
        if let Some(stream) = &self.stream {
            stream.check(self, limits)?;
        }
        self.check_end(limits)
    }

    fn check_pace(&self, limits: &Limits) -> Result<(), Refusal> {
        let (probe, is_open_loop) = (self.probe, self.probe.is_open_loop());
        let pace = match &self.pace {
            Some(pace) if is_open_loop => pace,
            None if is_open_loop => {
                return bad(format!("{probe} came without a rate: use the same windhover at both ends"));
            }
            Some(_) => return bad(format!("{probe} has no rate")),
            None => return Ok(()),
        };
        if pace.rate_pps > limits.max_rate_pps {
            return limit(format!(
                "a rate of {} messages a second is above the reflector's limit of {}: ask for less, or raise its --max-rate",
                pace.rate_pps, limits.max_rate_pps
            ));
        }
        if pace.rate_pps == 0 || pace.every == 0 {
            return bad("a rate of 0, or one answer in 0 messages, is none");
        }
        if self.pings != 1 || self.pongs != 1 || self.connect_each {
            return bad("pace sends one message and gets one answer on one connection");
        }
        match pace.port {
            Some(_) if self.socket.multicast.is_none() => {
                bad("only reflectors of a multicast group are told their port")
            }
            Some(port) => check_group_port(port),
            None if pace.group.is_some() => bad("only reflectors of one group share a tag"),
            None => Ok(()),
        }
    }

    /// Checks the sizes of one start against what was opened. Both ends use it.
    ///
    /// # Errors
    /// The code and the reason of a refusal.
    pub(crate) fn check_sizes(&self, size: u32, response_size: u32) -> Result<(), Refusal> {
        let protocol = self.socket.protocol;
        let least = u32::try_from(crate::data::PACED_BYTES).unwrap_or(u32::MAX);
        let min = if self.pace.is_some() { least } else { protocol.min_size() };
        if let Some(wrong) = [size, response_size].into_iter().find(|size| !(min..=self.max_size).contains(size)) {
            return bad(format!(
                "size {wrong} is outside the {min} to {} bytes that this session announced",
                self.max_size
            ));
        }
        // Answers longer than what they answer would make a flood larger.
        if self.pace.is_some() && size != response_size {
            return bad("answers at a rate are as long as their messages");
        }
        let asked = u64::from(self.pings) * u64::from(size);
        let answered = u64::from(self.pongs) * u64::from(response_size);
        let tagged = Tier::for_size(size as usize) == Tier::Tagged;
        if protocol.is_addressed() && self.stream.is_none() && answered > asked && !tagged {
            return bad(format!(
                "{answered} bytes of answers to {asked} bytes over {protocol}: anybody could forge the question; use messages of {} bytes or more, which have room for the session's tag, or tcp",
                Tier::Tagged.bytes()
            ));
        }
        Ok(())
    }

    fn check_end(&self, limits: &Limits) -> Result<(), Refusal> {
        let end = &self.end;
        if end.policy.is_real_time() && !limits.allow_real_time {
            return limit(format!("the reflector does not allow policy {}: leave --remote-policy out", end.policy));
        }
        if end.policy.priority().is_some_and(|priority| priority > limits.max_priority) {
            return limit(format!(
                "policy {} is above the reflector's limit of priority {}: use a lower --remote-policy, or raise its --max-priority",
                end.policy, limits.max_priority
            ));
        }
        if let Some(cpu) = end.cpu {
            if !limits.allow_cpu {
                return limit(format!("the reflector does not allow pinning to CPU {cpu}: leave --remote-cpu out"));
            }
            if cpu > model::cpus::MAX_CPU {
                return bad(format!("CPU {cpu} does not exist: use 0 to {}", model::cpus::MAX_CPU));
            }
        }
        if end.receive == Receive::Spin && !limits.allow_spin {
            return limit("the reflector does not allow spinning: use --receive block");
        }
        let (idle, most) = (end.idle.total(), limits.max_idle_descriptors);
        if idle > most {
            return limit(format!("{idle} idle descriptors are above the reflector's limit of {most}"));
        }
        let most = limits.max_buffer_bytes;
        for bytes in [end.send_buffer_bytes, end.receive_buffer_bytes].into_iter().flatten() {
            if bytes > most {
                return limit(format!(
                    "a socket buffer of {bytes} bytes is above the reflector's limit of {most} bytes"
                ));
            }
        }
        // IFNAMSIZ of netdevice(7) is 16 with the final zero.
        let odd = |name: &&String| name.is_empty() || name.len() > 15 || name.contains(['/', '\0', '\n']);
        if let Some(device) = end.device.as_ref().filter(odd) {
            return bad(format!("{device:?} is no name of a network device"));
        }
        Ok(())
    }
}
