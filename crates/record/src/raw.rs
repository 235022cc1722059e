//! Raw samples as text: base64 of little-endian columns.
//!
//! Layout: the 8 bytes `WHRAW001`, the number of samples n (u64), then seven columns of n values each: `seq` (u64),
//! `intended_ns`, `sent_ns`, `received_ns` (i64, since the first timed send), `peer_rx`, `peer_tx` (u64, ticks of the
//! reflector's clock, 0 where not known), `flags` (u32, bits of [`model::SampleFlags`]).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::{Sample, TickRate};

const MARK: &[u8; 8] = b"WHRAW001";

/// From one tick to another in ns, negative when that is earlier; beyond 292 years it saturates.
#[inline]
pub(crate) fn signed_ns(rate: TickRate, from: u64, to: u64) -> i64 {
    if to >= from {
        i64::try_from(rate.ns(to - from)).unwrap_or(i64::MAX)
    } else {
        i64::try_from(rate.ns(from - to)).map_or(i64::MIN, |ns| -ns)
    }
}

/// The samples as base64 text.
pub fn encode(samples: &[Sample], rate: TickRate, first_tick: u64) -> String {
    let mut bytes = Vec::with_capacity(16 + samples.len() * 52);
    bytes.extend_from_slice(MARK);
    bytes.extend_from_slice(&(samples.len() as u64).to_le_bytes());
    let columns: [fn(&Sample) -> u64; 3] = [|s| s.intended, |s| s.sent, |s| s.received];
    bytes.extend(samples.iter().flat_map(|sample| sample.seq.to_le_bytes()));
    for column in columns {
        bytes.extend(samples.iter().flat_map(|sample| signed_ns(rate, first_tick, column(sample)).to_le_bytes()));
    }
    bytes.extend(samples.iter().flat_map(|sample| sample.peer_rx.to_le_bytes()));
    bytes.extend(samples.iter().flat_map(|sample| sample.peer_tx.to_le_bytes()));
    bytes.extend(samples.iter().flat_map(|sample| sample.flags.0.to_le_bytes()));
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::SampleFlags;

    #[test]
    fn columns_are_where_the_layout_says() {
        let samples: Vec<Sample> = (0..3_u64)
            .map(|seq| Sample {
                seq,
                intended: 1000 + seq * 100 - 7,
                sent: 1000 + seq * 100,
                received: 1050 + seq * 100,
                peer_rx: 5 + seq,
                peer_tx: 6 + seq,
                flags: SampleFlags(if seq == 2 { 1 } else { 0 }),
            })
            .collect();
        let bytes = STANDARD.decode(encode(&samples, TickRate { mult: 2, shift: 0 }, 1000)).unwrap();
        assert_eq!(&bytes[..8], MARK);
        assert_eq!(bytes.len(), 16 + 3 * 52);
        let number = |at: usize| i64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let column = |index: usize| (0..3).map(|row| number(16 + index * 24 + row * 8)).collect::<Vec<_>>();
        assert_eq!(number(8), 3);
        assert_eq!(column(0), [0, 1, 2]);
        assert_eq!(column(1), [-14, 186, 386]);
        assert_eq!(column(2), [0, 200, 400]);
        assert_eq!(column(3), [100, 300, 500]);
        assert_eq!(column(4), [5, 6, 7]);
        assert_eq!(column(5), [6, 7, 8]);
        assert_eq!(bytes[16 + 6 * 24..], [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    }
}
