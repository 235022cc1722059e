//! The Internet checksum over a whole packet.

/// The ones' complement of the ones' complement sum of all 16-bit words (RFC 3208, section 8, "Checksum"; RFC 1071). Without a pseudo
/// header. Over a packet that holds its own checksum it is 0 when that is right.
pub fn checksum(packet: &[u8]) -> u16 {
    // Eight bytes at a time, in the machine's own order: a sum of words with the carries put back is the same in any width,
    // and words whose bytes are swapped have a sum whose bytes are swapped (RFC 1071, section 2).
    let (wide, rest) = packet.as_chunks::<8>();
    let mut sum: u128 = wide.iter().map(|chunk| u128::from(u64::from_ne_bytes(*chunk))).sum();
    let mut last = [0; 8];
    for (place, byte) in last.iter_mut().zip(rest) {
        *place = *byte;
    }
    sum += u128::from(u64::from_ne_bytes(last));
    for bits in [64, 32, 16, 16, 16] {
        sum = (sum & ((1 << bits) - 1)) + (sum >> bits);
    }
    #[expect(clippy::cast_possible_truncation, reason = "folded to 16 bits")]
    let folded = sum as u16;
    !u16::from_be(folded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word_by_word(packet: &[u8]) -> u16 {
        let mut sum = 0_u32;
        for word in packet.chunks(2) {
            let word = [word[0], word.get(1).copied().unwrap_or(0)];
            sum += u32::from(u16::from_be_bytes(word));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !u16::try_from(sum).unwrap()
    }

    #[test]
    fn the_example_of_rfc_1071() {
        // Section 3: 00 01 f2 03 f4 f5 f6 f7 sums up to ddf2.
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!(checksum(&[]), 0xffff);
    }

    proptest::proptest! {
        /// Words of few values: sums whose carries make carries.
        #[test]
        fn carries(packet in proptest::collection::vec(proptest::sample::select(vec![0, 1, 0xfe, 0xff]), 0..80)) {
            proptest::prop_assert_eq!(checksum(&packet), word_by_word(&packet));
        }

        #[test]
        fn as_word_by_word(packet in proptest::collection::vec(proptest::num::u8::ANY, 0..3000)) {
            proptest::prop_assert_eq!(checksum(&packet), word_by_word(&packet));
        }
    }
}
