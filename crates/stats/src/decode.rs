//! Reading HdrHistogram's V2 encoding from text that may be damaged or hostile.
//!
//! Memory is bounded by our own layout and what does not add up is rejected; the library's reader allocates by lengths named in
//! the text (up to 4 GiB for 40 bytes) and negates counts unchecked. The format: a header of ten 32-bit words (cookie, payload
//! length, normalising offset, digits, lowest and highest value as 64-bit words, a 64-bit floating-point ratio), then the counts
//! of all buckets as zig-zag varints of at most nine bytes; a negative one stands for that many empty buckets. The compressed form
//! has a cookie and a length before a zlib stream of the same.

use crate::error::one_line;
use crate::{Bucket, HOUR_NS, StatsError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_PARSE_ZLIB_HEADER, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

pub(crate) const PLAIN: u32 = 0x1c84_9313;
pub(crate) const COMPRESSED: u32 = 0x1c84_9314;
pub(crate) const HEADER: usize = 40;
/// More base64 than 33,792 counters of 9 bytes can become, with room for other layouts.
pub(crate) const LONGEST_TEXT: usize = 1 << 20;
/// The longest plain form that is read: 33,792 buckets of ours take 9 bytes each at most, finer layouts some more.
const LONGEST: usize = 4 << 20;
/// What most of our histograms fit into.
const AT_ONCE: usize = 64 << 10;

fn damaged(why: &str) -> StatsError {
    StatsError::Decode { why: why.to_owned() }
}

/// Takes bytes from the front.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], StatsError> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or_else(|| damaged("it ends too early"))?;
        self.0 = rest;
        Ok(*head)
    }

    fn word(&mut self) -> Result<u32, StatsError> {
        self.take().map(u32::from_be_bytes)
    }

    fn long(&mut self) -> Result<u64, StatsError> {
        self.take().map(u64::from_be_bytes)
    }

    /// A varint: seven bits a byte, lowest first, the ninth byte with all its eight; then zig-zag to signed.
    #[inline]
    fn count(&mut self) -> Result<i64, StatsError> {
        let mut value = 0_u64;
        for place in 0..9_u32 {
            let [byte] = self.take()?;
            if place == 8 {
                value |= u64::from(byte) << 56;
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                break;
            }
        }
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }
}

/// Which value a bucket stands for, in the layout that a header describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    half_bits: u32,
    unit_bits: u32,
}

impl Layout {
    /// That of [`crate::CoarseTally`].
    pub(crate) const COARSE: Self = Self { half_bits: 7, unit_bits: 0 };

    fn new(digits: u32, lowest: u64) -> Result<Self, StatsError> {
        if digits > 5 || lowest == 0 {
            return Err(damaged("no such precision or range"));
        }
        // Single units up to twice ten to the digits, rounded up to a power of two.
        let half_bits = (2 * 10_u32.pow(digits)).next_power_of_two().trailing_zeros() - 1;
        Ok(Self { half_bits, unit_bits: lowest.ilog2() })
    }

    /// The first bucket that has values beyond 63 bits.
    fn end(self) -> u64 {
        match 63_u64.saturating_sub(u64::from(self.unit_bits + self.half_bits)) {
            0 => 0,
            octaves => (octaves + 1) << self.half_bits,
        }
    }

    /// A bucket before [`Layout::end`] with so many values.
    fn as_written(self, bucket: u64, count: u64) -> Bucket {
        let shift = (bucket >> self.half_bits).saturating_sub(1);
        let within = bucket - (shift << self.half_bits);
        let shift = shift + u64::from(self.unit_bits);
        Bucket { low_ns: within << shift, high_ns: (within << shift) + ((1 << shift) - 1), count }
    }

    /// The same, values over an hour as an hour.
    pub(crate) fn bucket(self, bucket: u64, count: u64) -> Bucket {
        let Bucket { low_ns, high_ns, count } = self.as_written(bucket, count);
        Bucket { low_ns: low_ns.min(HOUR_NS), high_ns: high_ns.min(HOUR_NS), count }
    }
}

/// A layout, and the buckets that hold values with how many.
type Counted<'a> = (Layout, &'a [(u64, u64)]);

/// Reads many histograms one after the other without taking memory for each: those of an interval log.
pub(crate) struct Decoder {
    /// What `flate2` is built on, which itself clears its window and output before each text: longer than reading it.
    inflate: Box<DecompressorOxide>,
    packed: Vec<u8>,
    /// Each text is written over the one before.
    plain: Vec<u8>,
    /// Buckets that hold values, ascending, and how many.
    counts: Vec<(u64, u64)>,
}

impl Decoder {
    pub(crate) fn new() -> Self {
        Self { inflate: Box::default(), packed: Vec::new(), plain: vec![0; AT_ONCE], counts: Vec::new() }
    }

    /// The buckets of a histogram that hold values, ascending, with their counts, in the layout of its writer. Text as
    /// [`crate::Histogram::from_base64_v2`] reads it. Errors: as [`crate::Histogram::from_base64_v2`].
    pub(crate) fn read(&mut self, text: &str) -> Result<Counted<'_>, StatsError> {
        let text = text.trim();
        if text.len() > LONGEST_TEXT {
            return Err(StatsError::TooLong { bytes: text.len(), limit: LONGEST_TEXT });
        }
        self.packed.clear();
        STANDARD.decode_vec(text, &mut self.packed).map_err(|error| StatsError::Base64 { why: one_line(&error) })?;
        let plain = unpacked(&self.packed, &mut self.inflate, &mut self.plain)?;
        let layout = walk(plain, &mut self.counts)?;
        Ok((layout, &self.counts))
    }

    /// Hands each bucket to `each`, ascending, none of a damaged histogram; values over an hour as they are.
    pub(crate) fn each_as_written(&mut self, text: &str, each: impl FnMut(Bucket)) -> Result<(), StatsError> {
        let (layout, counts) = self.read(text)?;
        counts.iter().map(|(bucket, count)| layout.as_written(*bucket, *count)).for_each(each);
        Ok(())
    }
}

/// The plain form of either form.
fn unpacked<'a>(
    bytes: &'a [u8],
    inflate: &mut DecompressorOxide,
    inflated: &'a mut Vec<u8>,
) -> Result<&'a [u8], StatsError> {
    let mut front = Bytes(bytes);
    match front.word()? {
        PLAIN => Ok(bytes),
        COMPRESSED => {
            let length = front.word()? as usize;
            let mut body = front.0.get(..length).ok_or_else(|| damaged("it ends too early"))?;
            inflate.init();
            let mut end = 0;
            loop {
                let flags = TINFL_FLAG_PARSE_ZLIB_HEADER | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
                let (status, read, written) = decompress(inflate, body, inflated, end, flags);
                body = body.get(read..).unwrap_or_default();
                end += written;
                match status {
                    TINFLStatus::Done => return Ok(inflated.get(..end).unwrap_or_default()),
                    TINFLStatus::HasMoreOutput if inflated.len() < LONGEST => inflated.resize(inflated.len() * 2, 0),
                    TINFLStatus::HasMoreOutput => return Err(damaged("it has more buckets than any of ours")),
                    TINFLStatus::FailedCannotMakeProgress | TINFLStatus::NeedsMoreInput => {
                        return Err(damaged("it ends too early"));
                    }
                    _ => return Err(damaged("what it is compressed to is damaged")),
                }
            }
        }
        _ => Err(damaged("it does not begin with the mark of V2")),
    }
}

/// Puts the buckets that hold values into `counts`, ascending.
fn walk(bytes: &[u8], counts: &mut Vec<(u64, u64)>) -> Result<Layout, StatsError> {
    counts.clear();
    let mut header = Bytes(bytes.get(..HEADER).ok_or_else(|| damaged("it ends within the header"))?);
    if header.word()? != PLAIN {
        return Err(damaged("it does not begin with the mark of V2"));
    }
    let length = header.word()? as usize;
    if header.word()? != 0 {
        return Err(damaged("it has a normalising offset, which is not supported"));
    }
    let digits = header.word()?;
    let layout = Layout::new(digits, header.long()?)?;
    let _highest = header.long()?;
    if f64::from_bits(header.long()?).to_bits() != 1.0_f64.to_bits() {
        return Err(damaged("it holds scaled fractions, which is not supported"));
    }
    let payload = bytes.get(HEADER..).and_then(|rest| rest.get(..length));
    let mut payload = Bytes(payload.ok_or_else(|| damaged("it ends too early"))?);
    let end = layout.end();
    let mut bucket = 0_u64;
    let mut total = 0_u64;
    while !payload.0.is_empty() {
        let count = payload.count()?;
        if count < 0 {
            bucket = bucket.checked_add(count.unsigned_abs()).ok_or_else(|| damaged("it has too many buckets"))?;
            continue;
        }
        if count > 0 {
            if bucket >= end {
                return Err(damaged("it has too many buckets"));
            }
            let times = count.unsigned_abs();
            total = total.checked_add(times).ok_or_else(|| damaged("its counts add up to more than 2^64"))?;
            counts.push((bucket, times));
        }
        bucket = bucket.checked_add(1).ok_or_else(|| damaged("it has too many buckets"))?;
    }
    Ok(layout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Histogram;
    use hdrhistogram::Histogram as Hdr;
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer, V2Serializer};
    use proptest::prelude::*;

    fn decode(bytes: &[u8]) -> Result<Histogram, StatsError> {
        Histogram::from_base64_v2(&STANDARD.encode(bytes))
    }

    fn header(length: u32, digits: u32, lowest: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [PLAIN, length, 0, digits] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(lowest.to_be_bytes());
        bytes.extend(3_600_000_000_000_u64.to_be_bytes());
        bytes.extend(1.0_f64.to_be_bytes());
        bytes
    }

    #[test]
    fn lengths_and_counts_are_not_believed() {
        let with = |length, payload: &[u8]| decode(&[&header(length, 3, 1), payload].concat());
        assert_eq!(with(2, &[2, 2]).unwrap().count(), 2);
        assert!(matches!(with(u32::MAX, &[2, 2]), Err(StatsError::Decode { .. })));
        // The most negative count.
        assert!(with(18, &[0xff; 18]).is_err());
    }

    /// Catches: a plain form that is not read on where more room was made for it.
    #[test]
    fn a_histogram_longer_than_the_room_is_read_twice() {
        let mut histogram = crate::Histogram::new();
        // 30 octaves of 1,024 buckets, each count of three bytes.
        (0..30 * 1024_u64).for_each(|at| histogram.record_n((1024 + at % 1024) << (at / 1024), 20_000 + at));
        let text = histogram.to_base64_v2().unwrap();
        let mut decoder = Decoder::new();
        for _ in 0..2 {
            let mut found = Vec::new();
            decoder.each_as_written(&text, |bucket| found.push(bucket)).unwrap();
            assert_eq!(found, histogram.iter_recorded().collect::<Vec<_>>());
            assert!(decoder.plain.len() > AT_ONCE);
        }
    }

    #[test]
    fn a_bomb_of_zeros_is_cut_off() {
        let mut bytes = header(u32::MAX, 3, 1);
        bytes.resize(8 << 20, 0);
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, &bytes).unwrap();
        let body = encoder.finish().unwrap();
        let mut bomb = COMPRESSED.to_be_bytes().to_vec();
        bomb.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        bomb.extend(body);
        assert!(decode(&bomb).unwrap_err().to_string().contains("more buckets"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn never_panics(digits in 0_u32..7, lowest in 0_u64..5000, payload in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&payload);
            let header = header(u32::try_from(payload.len()).unwrap(), digits, lowest);
            let _ = decode(&[header, payload].concat());
        }

        #[test]
        fn reads_what_the_library_writes(
            digits in 1_u8..=5, lowest in 1_u64..5000, values in prop::collection::vec(0_u64..60_000_000_000, 0..60),
        ) {
            let mut foreign = Hdr::<u64>::new_with_bounds(lowest, 60_000_000_000, digits).unwrap();
            values.iter().for_each(|&value| foreign.record(value).unwrap());
            let mut expected = Histogram::new();
            for bucket in foreign.iter_recorded() {
                expected.record_n(foreign.lowest_equivalent(bucket.value_iterated_to()), bucket.count_since_last_iteration());
            }
            let (mut plain, mut compressed) = (Vec::new(), Vec::new());
            V2Serializer::new().serialize(&foreign, &mut plain).unwrap();
            V2DeflateSerializer::new().serialize(&foreign, &mut compressed).unwrap();
            prop_assert!(decode(&plain).unwrap().iter_recorded().eq(expected.iter_recorded()));
            prop_assert!(decode(&compressed).unwrap().iter_recorded().eq(expected.iter_recorded()));
            let mut decoder = Decoder::new();
            for bytes in [&plain, &compressed, &plain] {
                let mut again = Histogram::new();
                let text = STANDARD.encode(bytes);
                let mut last = None;
                decoder
                    .each_as_written(&text, |bucket| {
                        again.record_n(bucket.low_ns, bucket.count);
                        assert!(bucket.low_ns <= bucket.high_ns && last.is_none_or(|high| high < bucket.low_ns));
                        last = Some(bucket.high_ns);
                    })
                    .unwrap();
                prop_assert_eq!(again.count(), foreign.len());
                prop_assert!(again.iter_recorded().eq(expected.iter_recorded()));
                // A damaged one in between leaves nothing behind.
                prop_assert!(decoder.each_as_written(&text[..text.len() / 8 * 4], |_| panic!("a damaged one")).is_err());
            }
        }
    }
}
