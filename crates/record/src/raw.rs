//! Raw samples as text: base64 of little-endian columns.
//!
//! Layout: the 8 bytes `WHRAW001`, the number of samples n (u64), then seven columns of n values each: `seq` (u64),
//! `intended_ns`, `sent_ns`, `received_ns` (i64, since the first timed send), `peer_rx`, `peer_tx` (u64, ticks of the
//! reflector's clock, 0 where not known), `flags` (u32, bits of [`model::SampleFlags`]).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::{Sample, TickRate};

const MARK: &[u8; 8] = b"WHRAW001";

/// Signed distance of two ticks in ns; beyond 292 years it saturates.
fn since(rate: TickRate, first: u64, tick: u64) -> i64 {
    if tick >= first {
        i64::try_from(rate.ns(tick - first)).unwrap_or(i64::MAX)
    } else {
        i64::try_from(rate.ns(first - tick)).map_or(i64::MIN, |ns| -ns)
    }
}

/// The samples as base64 text.
#[must_use]
pub fn encode(samples: &[Sample], rate: TickRate, first_tick: u64) -> String {
    let mut bytes = Vec::with_capacity(16 + samples.len() * 52);
    bytes.extend_from_slice(MARK);
    bytes.extend_from_slice(&(samples.len() as u64).to_le_bytes());
    let columns: [fn(&Sample) -> u64; 3] = [|s| s.intended, |s| s.sent, |s| s.received];
    bytes.extend(samples.iter().flat_map(|sample| sample.seq.to_le_bytes()));
    for column in columns {
        bytes.extend(samples.iter().flat_map(|sample| since(rate, first_tick, column(sample)).to_le_bytes()));
    }
    bytes.extend(samples.iter().flat_map(|sample| sample.peer_rx.to_le_bytes()));
    bytes.extend(samples.iter().flat_map(|sample| sample.peer_tx.to_le_bytes()));
    bytes.extend(samples.iter().flat_map(|sample| sample.flags.0.to_le_bytes()));
    STANDARD.encode(bytes)
}
