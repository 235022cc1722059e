//! Writing HdrHistogram's V2 encoding from a tally: what an interval log holds. The format is that of [`crate::decode`].

use crate::decode::{COMPRESSED, HEADER, PLAIN};
use crate::error::one_line;
use crate::tally::Buckets;
use crate::{HOUR_NS, StatsError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::{Compress, Compression, FlushCompress, Status};

/// Encodes tallies one after the other with memory of its own, which is taken once (some 300 KB).
#[derive(Debug)]
pub struct Encoder {
    plain: Vec<u8>,
    packed: Vec<u8>,
    deflate: Compress,
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

/// Zig-zag, then seven bits a byte, lowest first; the ninth byte holds eight.
fn put(bytes: &mut Vec<u8>, value: i64) {
    let mut left = ((value << 1) ^ (value >> 63)).cast_unsigned();
    for _ in 0..8 {
        let [low, ..] = left.to_le_bytes();
        if left < 0x80 {
            bytes.push(low);
            return;
        }
        bytes.push(low | 0x80);
        left >>= 7;
    }
    let [last, ..] = left.to_le_bytes();
    bytes.push(last);
}

impl Encoder {
    /// With the usual effort of zlib.
    pub fn new() -> Self {
        Self { plain: Vec::new(), packed: Vec::new(), deflate: Compress::new(Compression::default(), true) }
    }

    /// HdrHistogram's V2 format, compressed (zlib), as base64, added to `text`. Errors: [`StatsError::Encode`] when the compressor
    /// fails; nothing is added then.
    pub fn base64_v2<const HALF_BITS: u32>(
        &mut self,
        tally: &Buckets<HALF_BITS>,
        text: &mut String,
    ) -> Result<(), StatsError> {
        self.write_plain(tally);
        self.packed.clear();
        self.packed.extend(COMPRESSED.to_be_bytes());
        self.packed.extend([0; 4]);
        self.deflate.reset();
        loop {
            self.packed.reserve(self.plain.len() + 256);
            let taken = usize::try_from(self.deflate.total_in()).unwrap_or(usize::MAX);
            let rest = self.plain.get(taken..).unwrap_or_default();
            match self.deflate.compress_vec(rest, &mut self.packed, FlushCompress::Finish) {
                Ok(Status::StreamEnd) => break,
                Ok(_) => {}
                Err(error) => return Err(StatsError::Encode { why: one_line(&error) }),
            }
        }
        let length = u32::try_from(self.packed.len().saturating_sub(8)).unwrap_or(u32::MAX);
        if let Some(place) = self.packed.get_mut(4..8) {
            place.copy_from_slice(&length.to_be_bytes());
        }
        STANDARD.encode_string(&self.packed, text);
        Ok(())
    }

    fn write_plain<const HALF_BITS: u32>(&mut self, tally: &Buckets<HALF_BITS>) {
        let bytes = &mut self.plain;
        bytes.clear();
        for word in [PLAIN, 0, 0, Buckets::<HALF_BITS>::DIGITS] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(1_u64.to_be_bytes());
        bytes.extend(HOUR_NS.to_be_bytes());
        bytes.extend(1.0_f64.to_be_bytes());
        let mut empty = 0_i64;
        for &count in tally.counts() {
            if count == 0 {
                empty += 1;
                continue;
            }
            match empty {
                0 => {}
                // A single one is written as itself.
                1 => put(bytes, 0),
                _ => put(bytes, -empty),
            }
            empty = 0;
            put(bytes, i64::from(count));
        }
        let length = u32::try_from(bytes.len().saturating_sub(HEADER)).unwrap_or(u32::MAX);
        if let Some(place) = bytes.get_mut(4..8) {
            place.copy_from_slice(&length.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CoarseTally, Histogram, Tally};
    use hdrhistogram::serialization::Deserializer;
    use proptest::prelude::*;

    fn text<const HALF_BITS: u32>(encoder: &mut Encoder, tally: &Buckets<HALF_BITS>) -> String {
        let mut text = "before ".to_owned();
        encoder.base64_v2(tally, &mut text).unwrap();
        text.strip_prefix("before ").unwrap().to_owned()
    }

    #[test]
    fn an_empty_one_is_empty() {
        let text = text(&mut Encoder::new(), &CoarseTally::new());
        assert!(Histogram::from_base64_v2(&text).unwrap().is_empty());
    }

    #[test]
    fn numbers_of_all_lengths() {
        let number = |value: i64| {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            bytes
        };
        assert_eq!(number(0), [0]);
        assert_eq!(number(-1), [1]);
        assert_eq!(number(64), [0x80, 1]);
        assert_eq!(number(i64::MIN), [0xff; 9]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn the_librarys_reader_and_ours_read_it(
            sets in prop::collection::vec(prop::collection::vec(0_u64..2 * HOUR_NS, 0..200), 1..4),
        ) {
            // One encoder for all, so that nothing of the one before is left.
            let mut encoder = Encoder::new();
            for values in sets {
                let mut coarse = CoarseTally::new();
                let mut fine = Tally::new();
                let mut direct = Histogram::new();
                let mut library = hdrhistogram::Histogram::<u64>::new_with_bounds(1, HOUR_NS, 2).unwrap();
                for value in values {
                    coarse.record(value);
                    fine.record(value);
                    direct.record(value);
                    library.saturating_record(value.min(HOUR_NS));
                }
                let bytes = STANDARD.decode(text(&mut encoder, &coarse)).unwrap();
                let read: hdrhistogram::Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
                prop_assert_eq!((read.sigfig(), read.low(), read.high()), (2, 1, HOUR_NS));
                prop_assert!(read == library);
                let ours = Histogram::from_base64_v2(&text(&mut encoder, &fine)).unwrap();
                prop_assert!(ours.iter_recorded().eq(direct.iter_recorded()));
            }
        }
    }
}
