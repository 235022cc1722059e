//! What a client may ask a reflector for. Both ends check: the initiator early, the reflector against anybody.

use crate::control::{RefuseCode, Token};
use crate::data::Tier;
use crate::pgm::PgmRequest;
use crate::stream::StreamRequest;
use model::{EndSpec, Limits, Probe, Protocol, Receive, SocketSpec, Stamps, cycle};

/// What a client wants to measure.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct OpenRequest {
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
    /// What cycles need beside; present with `cycle` and only then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycle: Option<CycleRequest>,
}

/// What a reflector must know of the cycles that it echoes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CycleRequest {
    pub period_us: u32,
    pub deadline_us: u32,
    /// Where the client hears the echoes, at the address that shows the token.
    pub port: u16,
}

/// What a reflector must know of messages that are sent at a rate.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct PaceRequest {
    /// Highest mean rate in messages a second, rounded up. Above the owner's limit it is refused, not dropped.
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
    /// With `port`: the initiator's tag of all messages, in place of the sessions' tags, as all reflectors get each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Token>,
}

impl Default for PaceRequest {
    fn default() -> Self {
        Self { rate_pps: 1, every: 1, stamps: Stamps::None, port: None, pgm: None, group: None }
    }
}

/// A port that the client chooses: others use those below.
const FIRST_GROUP_PORT: u16 = 1024;

/// Checks a port that a client wants bound on the reflector: not a well-known one (RFC 6335, section 6).
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
            cycle: None,
        }
    }

    /// Checks the request against the owner's limits. Errors: code and reason, with the limit and the remedy.
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
        self.check_cycle(limits)?;
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

    fn check_cycle(&self, limits: &Limits) -> Result<(), Refusal> {
        let is_cycle = self.probe == Probe::Cycle;
        let Some(CycleRequest { period_us, deadline_us, port }) = self.cycle.filter(|_| is_cycle) else {
            return if is_cycle || self.cycle.is_some() {
                bad("cycle and its period come together: use the same windhover at both ends")
            } else {
                Ok(())
            };
        };
        let (periods, deadlines) = (cycle::PERIODS_US, 1..=cycle::MAX_DEADLINE_US);
        if !periods.contains(&period_us) || !deadlines.contains(&deadline_us) || port < FIRST_GROUP_PORT {
            return bad(format!(
                "a period of {period_us} µs, a deadline of {deadline_us} µs or port {port} is out of range"
            ));
        }
        if self.max_size > cycle::MAX_BYTES || self.pings.max(self.pongs) > 1 || self.connect_each {
            return bad(format!("a cycle has one frame of at most {} bytes and one echo", cycle::MAX_BYTES));
        }
        if 1_000_000 / period_us > limits.max_rate_pps {
            return limit(format!(
                "a cycle each {period_us} µs is above the reflector's limit of {} messages a second: use a longer --interval-us, or raise its --max-rate",
                limits.max_rate_pps
            ));
        }
        Ok(())
    }

    pub fn check_sizes(&self, size: u32, response_size: u32) -> Result<(), Refusal> {
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
