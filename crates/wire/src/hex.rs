//! Hexadecimal text for the byte strings that travel in JSON.

pub(crate) fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble & 15)]);
    bytes.iter().flat_map(|&byte| [digit(byte >> 4), digit(byte)]).collect()
}

/// Reads exactly `N` bytes; `None` for any other length or digit.
pub(crate) fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0u8; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    Some(bytes)
}

/// Serde for a `[u8; N]` as hexadecimal text.
pub(crate) mod array {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer, const N: usize>(bytes: &[u8; N], out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&super::encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, const N: usize>(input: D) -> Result<[u8; N], D::Error> {
        let text = String::deserialize(input)?;
        super::decode(&text).ok_or_else(|| serde::de::Error::custom(format!("expected {} hexadecimal digits", 2 * N)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes_and_nothing_else() {
        assert_eq!(encode(&[0, 0x9f, 0xff]), "009fff");
        assert_eq!(decode::<3>("009FfF"), Some([0, 0x9f, 0xff]));
        for text in ["", "00", "009ff", "009ffg", "+09fff", "009fff0", "é09ff"] {
            assert_eq!(decode::<3>(text), None, "{text}");
        }
    }
}
