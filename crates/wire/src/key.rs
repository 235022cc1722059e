//! The shared key and the text of its file.

use crate::error::KeyError;
use crate::hex;
use std::fmt;
use subtle::ConstantTimeEq;

/// A shared key of 32 bytes. It never prints its bytes unless asked to with [`Key::to_hex`].
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A key from 64 hexadecimal digits. Errors: [`KeyError::Malformed`] for anything else.
    pub fn from_hex(text: &str) -> Result<Self, KeyError> {
        hex::decode(text.trim()).map(Self).ok_or(KeyError::Malformed { line: 1 })
    }

    /// Reads a key file: one line of 64 hexadecimal digits, `#` comments. Errors: [`KeyError`] with the line number.
    pub fn parse_file(text: &str) -> Result<Self, KeyError> {
        let mut key = None;
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let parsed = hex::decode(content).map(Self).ok_or(KeyError::Malformed { line })?;
            if key.replace(parsed).is_some() {
                return Err(KeyError::Second { line });
            }
        }
        key.ok_or(KeyError::Empty)
    }

    pub fn to_file(&self) -> String {
        format!(
            "# windhover shared key: give this file to both ends with --key-file, and keep it secret\n{}\n",
            self.to_hex()
        )
    }

    /// The key as 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        hex::encode(&self.0)
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Key {}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_file_may_have_comments_but_one_key() {
        let digits = "0123456789abcdefABCDEF00000000000000000000000000000000000000000f";
        let key = Key::parse_file(&format!("# mine\n\n  {digits}  \r\n# end\n")).unwrap();
        assert_eq!(key.to_hex(), digits.to_lowercase());
        assert_eq!(Key::parse_file(""), Err(KeyError::Empty));
        assert_eq!(Key::parse_file("# only\n"), Err(KeyError::Empty));
        assert_eq!(Key::parse_file("#\nabc\n"), Err(KeyError::Malformed { line: 2 }));
        assert_eq!(Key::parse_file(&format!("{digits}\n{digits}\n")), Err(KeyError::Second { line: 2 }));
    }

    #[test]
    fn no_message_shows_the_secret() {
        let key = Key::from_bytes([0xab; 32]);
        assert!(!format!("{key:?}").contains("ab"));
        let error = Key::parse_file("secretsecret").unwrap_err();
        assert!(!error.to_string().contains("secretsecret"));
    }

    proptest! {
        #[test]
        fn a_written_file_reads_back(bytes: [u8; 32]) {
            let key = Key::from_bytes(bytes);
            prop_assert_eq!(Key::parse_file(&key.to_file()).unwrap(), key);
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            let _ = Key::parse_file(&text);
        }
    }
}
