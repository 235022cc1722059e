//! What a receiver tells.

use crate::{Sqn, Tsi};

/// Something that happened beside data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "what has no comment is what its name says")]
pub struct Event {
    pub tsi: Tsi,
    pub what: SessionEvent,
}

/// What happened to a source's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "what has no comment is what its name says")]
pub enum SessionEvent {
    /// The source was heard for the first time.
    Found,
    /// Data that will not come: given up, or no longer in the source's window.
    Lost { first: Sqn, count: u32 },
    /// The source ended the session, and all that it sent was delivered or lost (OPT_FIN, section 9.7).
    Finished,
    /// The source gave up (OPT_RST, section 9.8).
    Reset {
        /// Its application's reason, 0 to 63; 0: not known.
        code: u8,
    },
    /// The source was silent for too long, or silent while another needed its place, and is forgotten.
    Expired,
    /// A known source's identifier has another session (numbers or SPMs went back); missing data are lost.
    Restarted,
    /// The source was not taken because as many as `max_sources` are being heard. Told once for each.
    Refused,
}

/// How a packet came that was missing at first: times of the receiver's caller, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Repair {
    /// When its gap was seen.
    pub gap_ns: u64,
    /// When the first NAK went out; absent where it came by itself, or another receiver asked.
    pub nak_ns: Option<u64>,
    /// When the first NCF came.
    pub ncf_ns: Option<u64>,
    /// When it came.
    pub data_ns: u64,
    /// Own NAKs, those for its whole transmission group included.
    pub naks: u32,
    /// It did not come itself but was computed from parity (appendix A); `data_ns` is when that was possible.
    pub parity: bool,
}

/// A message that was delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Whose.
    pub tsi: Tsi,
    /// The number of its first packet.
    pub first: Sqn,
    /// Its length in bytes; at most the buffer's length was copied.
    pub length: usize,
    /// When its last packet came: later ones may have waited for it.
    pub received_ns: u64,
    /// How the one of its packets came that was repaired last; absent where all came by themselves.
    pub repair: Option<Repair>,
}
