//! The Internet checksum (RFC 1071). Sums are over 16-bit words as they lie in memory: the order of bytes cancels out.

/// The sum of all words, not yet folded; a last odd byte counts as if a zero followed.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut total = 0;
    for word in words {
        let word = u64::from_ne_bytes(*word);
        total += (word & 0xffff_ffff) + (word >> 32);
    }
    let mut last = [0; 8];
    if let Some(place) = last.get_mut(..rest.len()) {
        place.copy_from_slice(rest);
    }
    let last = u64::from_ne_bytes(last);
    total + (last & 0xffff_ffff) + (last >> 32)
}

/// A number as its two bytes in network order lie in memory.
pub(crate) fn word(number: u16) -> u64 {
    u64::from(u16::from_ne_bytes(number.to_be_bytes()))
}

/// The sum in 16 bits: 0xffff when a checksum is part of it and right.
#[expect(clippy::cast_possible_truncation, reason = "folded to 16 bits before")]
pub(crate) fn fold(total: u64) -> u16 {
    let total = (total & 0xffff_ffff) + (total >> 32);
    let total = (total & 0xffff) + (total >> 16 & 0xffff) + (total >> 32);
    let total = (total & 0xffff) + (total >> 16);
    ((total & 0xffff) + (total >> 16)) as u16
}

/// The bytes of the checksum, as they go into the packet.
pub(crate) fn finish(total: u64) -> [u8; 2] {
    (!fold(total)).to_ne_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Byte by byte, as section 4.1 of the RFC has it.
    fn slow(bytes: &[u8]) -> u16 {
        let mut total = 0_u32;
        for pair in bytes.chunks(2) {
            total += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
        }
        while total >> 16 != 0 {
            total = (total & 0xffff) + (total >> 16);
        }
        !u16::try_from(total).unwrap()
    }

    #[test]
    fn it_is_that_of_the_rfc() {
        let example = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(finish(sum(&example)), [0x22, 0x0d]);
        let bytes: Vec<u8> = (0..3000_u32).map(|at| u8::try_from(at * 7 % 256).unwrap()).collect();
        for length in (0..64).chain(2900..3000) {
            assert_eq!(finish(sum(&bytes[..length])), slow(&bytes[..length]).to_be_bytes(), "{length}");
        }
        assert_eq!(fold(sum(&[0xff; 4000])), 0xffff);
    }
}
