//! Bulk data: what a client asks for, what proves each of its flows, and what a datagram carries.
//!
//! Each flow has a socket of its own and goes one way: with both directions there are twice as many, the first half goes
//! up. All flows are proved before anything is sent ([`prove`]); what goes down goes only to an address that showed the
//! session's token.

use crate::control::Token;
use crate::request::{OpenRequest, Refusal, bad, limit};
use model::stream::{MIN_DATAGRAM, StreamReceived, StreamSent};
use model::{Limits, Protocol, Receive, StreamSpec};

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct StreamRequest {
    /// Direction, flows, rates.
    #[serde(flatten)]
    pub spec: StreamSpec,
    /// How long the endpoint sends after a start, in ms, unless it is stopped before.
    pub longest_ms: u32,
    /// Whether each second's figures are to be told while it runs.
    #[serde(default)]
    pub live: bool,
    /// How often the client gives a sign of life while it runs, in ms: an endpoint that misses several stops sending.
    /// Only to one with [`crate::control::capability::HEARTBEAT`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_ms: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct StreamEnd {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent: Option<StreamSent>,
    /// What it received of what went up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received: Option<StreamReceived>,
}

/// Most memory for the messages of one session's stream, in bytes.
const MOST_MEMORY: u64 = 64 << 20;
/// A datagram with UDP_GRO may be as long as an IP packet.
const GRO_BYTES: u64 = 65_536;

impl StreamRequest {
    /// Memory that all sockets' messages take at one end, in bytes.
    pub fn memory(&self, size: u32, datagrams: bool) -> u64 {
        if !datagrams {
            return u64::from(self.spec.sockets()) * u64::from(size);
        }
        let sent = u64::from(self.spec.segments(size)) * u64::from(size);
        let received = if self.spec.gro { GRO_BYTES } else { u64::from(size) };
        u64::from(self.spec.sockets()) * u64::from(self.spec.batch) * sent.max(received)
    }

    /// Checks against limits and contradictions. Errors: code and reason of a refusal, with limit and remedy.
    pub(crate) fn check(&self, open: &OpenRequest, limits: &Limits) -> Result<(), Refusal> {
        let protocol = open.socket.protocol;
        if !open.probe.is_bulk() {
            return bad(format!("{} is no stream", open.probe));
        }
        if open.socket.multicast.is_some() || open.connect_each {
            return bad("a stream goes to one address over lasting sockets");
        }
        if !matches!(open.end.receive, Receive::Block | Receive::Spin) {
            return bad(format!("a stream's receiver waits with block or spin, not {}", open.end.receive));
        }
        let datagrams = protocol == Protocol::Udp;
        if let Err(error) = self.spec.check(datagrams) {
            return bad(error.to_string());
        }
        if datagrams && open.max_size < MIN_DATAGRAM {
            return bad(format!("datagrams of {} bytes: a stream's have {MIN_DATAGRAM} or more", open.max_size));
        }
        if self.heartbeat_ms.is_some_and(|ms| !(50..=60_000).contains(&ms)) {
            return bad("a heartbeat comes each 50 to 60000 ms");
        }
        let memory = self.memory(open.max_size, datagrams);
        if memory > MOST_MEMORY {
            return limit(format!(
                "{} flows of {} messages of {} bytes at once take {memory} bytes, more than {MOST_MEMORY}: use fewer flows, a smaller batch or smaller messages",
                self.spec.sockets(),
                self.spec.batch,
                open.max_size
            ));
        }
        if u64::from(self.longest_ms) > u64::from(limits.max_session_s) * 1000 {
            return limit(format!(
                "{} ms are longer than a session may last, {} s: use fewer --seconds, or raise its --max-session",
                self.longest_ms, limits.max_session_s
            ));
        }
        if limits.max_bandwidth_bps == Some(0) {
            return limit("the reflector's owner allows no streams (--max-bandwidth 0)");
        }
        match limits.stream_bps(datagrams, self.spec.goes_down()) {
            Some(most) if self.spec.rate_bps.is_some_and(|asked| asked > most) => {
                return limit(format!(
                    "{} bits a second are above the reflector's limit of {most}: ask for less, or raise its --max-bandwidth",
                    self.spec.rate_bps.unwrap_or_default()
                ));
            }
            _ => {}
        }
        match self.spec.rate_pps {
            Some(asked) if asked > f64::from(limits.max_rate_pps) => limit(format!(
                "{asked} datagrams a second are above the reflector's limit of {}: ask for less, or raise its --max-rate",
                limits.max_rate_pps
            )),
            _ => Ok(()),
        }
    }
}

/// From this size a datagram carries the time of its sending too.
pub const STAMPED: usize = 24;

/// Writes a datagram's head: number, tag and, with room, the sender's time in ns (own clock), each u64 LE.
#[inline]
pub fn write(seq: u64, tag: u64, stamp_ns: u64, message: &mut [u8]) {
    if let Some(head) = message.first_chunk_mut::<STAMPED>() {
        head[..8].copy_from_slice(&seq.to_le_bytes());
        head[8..16].copy_from_slice(&tag.to_le_bytes());
        head[16..].copy_from_slice(&stamp_ns.to_le_bytes());
    } else {
        crate::data::write(seq, tag, message);
    }
}

/// Reads the head of a datagram: its number and, where there is room, the sender's time. `None` for a stray.
#[inline]
pub fn read(tag: u64, message: &[u8]) -> Option<(u64, Option<u64>)> {
    let (seq, rest) = message.split_first_chunk::<8>()?;
    let (found, rest) = rest.split_first_chunk::<8>()?;
    if u64::from_le_bytes(*found) != tag {
        return None;
    }
    let stamp = rest.first_chunk::<8>().map(|stamp| u64::from_le_bytes(*stamp));
    Some((u64::from_le_bytes(*seq), stamp))
}

/// First bytes of what proves a flow.
pub const PROVE_MAGIC: [u8; 4] = *b"WHst";
/// Length of what proves a flow.
pub const PROVE_BYTES: usize = 24;

/// The datagram, or the first bytes of a connection, that proves a flow the client's and says which one it is.
pub fn prove(token: &Token, socket: u32) -> [u8; PROVE_BYTES] {
    let mut shown = [0; PROVE_BYTES];
    shown[..4].copy_from_slice(&PROVE_MAGIC);
    shown[4..20].copy_from_slice(&token.0);
    shown[20..].copy_from_slice(&socket.to_le_bytes());
    shown
}

/// The token and the number of a proof; `None` for any other bytes.
pub fn read_prove(shown: &[u8]) -> Option<(Token, u32)> {
    let whole: &[u8; PROVE_BYTES] = shown.try_into().ok()?;
    let rest = whole.strip_prefix(&PROVE_MAGIC)?;
    let (token, socket) = rest.split_first_chunk::<16>()?;
    Some((Token(*token), u32::from_le_bytes(socket.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RefuseCode;
    use model::Probe;
    use proptest::prelude::*;

    fn open(protocol: Protocol, stream: StreamRequest) -> OpenRequest {
        OpenRequest { stream: Some(stream), ..OpenRequest::new(Probe::Stream, protocol, 1472) }
    }

    fn stream() -> StreamRequest {
        StreamRequest { spec: StreamSpec::default(), longest_ms: 1000, live: false, heartbeat_ms: None }
    }

    fn refused(open: &OpenRequest, limits: &Limits, code: RefuseCode, word: &str) {
        let (found, reason) = open.check(limits).unwrap_err();
        assert_eq!(found, code, "{reason}");
        assert!(reason.contains(word) && !reason.contains('\n'), "{reason}");
    }

    #[test]
    fn limits_of_the_owner() {
        let limits = Limits::default();
        open(Protocol::Udp, stream()).check(&limits).unwrap();
        open(Protocol::Tcp, stream()).check(&limits).unwrap();
        let none = Limits { max_bandwidth_bps: Some(0), ..Limits::default() };
        refused(&open(Protocol::Udp, stream()), &none, RefuseCode::Limit, "--max-bandwidth");
        let some =
            Limits { max_bandwidth_bps: Some(1_000_000), max_rate_pps: 1000, max_session_s: 1, ..Limits::default() };
        open(Protocol::Udp, stream()).check(&some).unwrap();
        let with = |spec| open(Protocol::Udp, StreamRequest { spec, ..stream() });
        let spec = StreamSpec { rate_bps: Some(1_000_001), ..StreamSpec::default() };
        refused(&with(spec), &some, RefuseCode::Limit, "--max-bandwidth");
        let spec = StreamSpec { rate_pps: Some(1001.0), ..StreamSpec::default() };
        refused(&with(spec), &some, RefuseCode::Limit, "--max-rate");
        refused(
            &open(Protocol::Udp, StreamRequest { longest_ms: 1001, ..stream() }),
            &some,
            RefuseCode::Limit,
            "--max-session",
        );
        let spec = StreamSpec { flows: 128, batch: 1024, ..StreamSpec::default() };
        refused(&with(spec), &limits, RefuseCode::Limit, "fewer flows");
        let spec = StreamSpec { flows: 0, ..StreamSpec::default() };
        refused(&with(spec), &limits, RefuseCode::BadRequest, "flows");
        let small = OpenRequest { max_size: 15, ..open(Protocol::Udp, stream()) };
        refused(&small, &limits, RefuseCode::BadRequest, "16 or more");
        let other = OpenRequest { probe: Probe::Rr, ..open(Protocol::Udp, stream()) };
        refused(&other, &limits, RefuseCode::BadRequest, "stream");
    }

    #[test]
    fn a_request_of_another_version_has_no_stream() {
        let mut value = serde_json::to_value(open(Protocol::Udp, stream())).unwrap();
        let back: OpenRequest = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(back, open(Protocol::Udp, stream()));
        value.as_object_mut().unwrap().remove("stream");
        assert_eq!(serde_json::from_value::<OpenRequest>(value).unwrap().stream, None);
    }

    proptest! {
        #[test]
        fn a_head_reads_back(seq: u64, tag: u64, stamp: u64, size in 16usize..40) {
            let mut message = vec![0; size];
            write(seq, tag, stamp, &mut message);
            prop_assert_eq!(read(tag, &message), Some((seq, (size >= STAMPED).then_some(stamp))));
            prop_assert_eq!(read(tag.wrapping_add(1), &message), None);
        }

        #[test]
        fn only_a_proof_reads_as_one(token: [u8; 16], socket: u32, other: Vec<u8>) {
            prop_assert_eq!(read_prove(&prove(&Token(token), socket)), Some((Token(token), socket)));
            if !other.starts_with(&PROVE_MAGIC) {
                prop_assert_eq!(read_prove(&other), None);
            }
            let _ = read(1, &other);
        }
    }
}
