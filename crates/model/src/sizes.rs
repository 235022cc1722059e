//! Lists of message sizes in sfnt-pingpong's grammar.

use crate::ranges::Ranges;
use crate::{ModelError, Protocol};
use std::fmt;
use std::str::FromStr;

/// The most sizes one list may name.
pub const MAX_SIZES: usize = 4096;

/// Message sizes in bytes, in the order asked for.
///
/// Grammar: a comma list of `N`, `A-B` (every size), `A-B+S` (in steps of S) and `A-BxF` (each F times the last);
/// a number may end in `k` (1024).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct SizeList(Vec<u32>);

impl SizeList {
    /// A list of one size.
    pub fn one(size: u32) -> Self {
        Self(vec![size])
    }

    /// The default list of a protocol: streams 1 to 65536 doubling (17 sizes); datagrams 0, 1 to 1024 doubling,
    /// 1472 and 1473 (either side of the 1500-byte MTU), 2048 to 32768 doubling (19 sizes).
    pub fn default_for(protocol: Option<Protocol>) -> Self {
        let doubling = |from: u32, to: u32| (from..=to).map(|bit| 1u32 << bit);
        if protocol.is_some_and(Protocol::is_stream) {
            return Self(doubling(0, 16).collect());
        }
        let mut sizes = vec![0];
        sizes.extend(doubling(0, 10));
        sizes.extend([1472, 1473]);
        sizes.extend(doubling(11, 15));
        Self(sizes)
    }

    /// The sizes in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// How many sizes there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none (never, for a list that was parsed).
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The largest size; 0 for an empty list.
    pub fn max(&self) -> u32 {
        self.iter().max().unwrap_or(0)
    }

    /// Keeps the sizes from `min` to `max` inclusive (sfnt-pingpong's `minmsg` and `maxmsg`).
    #[must_use]
    pub fn within(self, min: u32, max: u32) -> Self {
        Self(self.0.into_iter().filter(|size| (min..=max).contains(size)).collect())
    }

    /// Checks each size against the protocol: what loses nothing has no message of 0 bytes, and each has a largest
    /// size. Errors: [`ModelError::OutOfRange`] for the first size that cannot be sent.
    pub fn check(&self, protocol: Protocol) -> Result<(), ModelError> {
        let (min, max) = (protocol.min_size(), protocol.max_size());
        match self.iter().find(|size| !(min..=max).contains(size)) {
            Some(size) => Err(ModelError::range("size", size, format!("{min} to {max} bytes for {protocol}"))),
            None => Ok(()),
        }
    }
}

impl FromIterator<u32> for SizeList {
    fn from_iter<I: IntoIterator<Item = u32>>(sizes: I) -> Self {
        Self(sizes.into_iter().collect())
    }
}

impl fmt::Display for SizeList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for size in &self.0 {
            write!(f, "{separator}{size}")?;
            separator = ",";
        }
        Ok(())
    }
}

const RANGES: Ranges = Ranges {
    what: "size list",
    items: ("sizes", MAX_SIZES),
    units: &[('k', 1024.0), ('K', 1024.0)],
    fractions: false,
    examples: ["use sizes such as 32, 1-8, 64-1024+64 or 1-65536x2", ""],
};

impl FromStr for SizeList {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let whole = |size: f64| {
            let size = format!("{size:.0}").parse::<u32>().ok();
            size.ok_or_else(|| ModelError::range("size", text, format!("at most {} bytes", u32::MAX)))
        };
        RANGES.parse(text)?.into_iter().map(whole).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<u32> {
        text.parse::<SizeList>().unwrap().iter().collect()
    }

    #[test]
    fn the_grammar_of_sfnt_pingpong() {
        assert_eq!(list("32"), [32]);
        assert_eq!(list("1,4-6,10-20+5,1-9x3,2k"), [1, 4, 5, 6, 10, 15, 20, 1, 3, 9, 2048]);
        for text in ["", "a", "4-1", "1-5+0", "0-8x2", "1-8x1", "0-100000", "4294967296", "1--2", "1kk", "1.5"] {
            assert!(text.parse::<SizeList>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_default_lists_of_sfnt_pingpong() {
        let stream: Vec<u32> = SizeList::default_for(Some(Protocol::Tcp)).iter().collect();
        assert_eq!((stream.len(), stream[0], stream[16]), (17, 1, 65536));
        let datagram: Vec<u32> = SizeList::default_for(Some(Protocol::Udp)).iter().collect();
        assert_eq!(datagram.len(), 19);
        assert_eq!(datagram[11..15], [1024, 1472, 1473, 2048]);
    }

    #[test]
    fn a_stream_has_no_empty_message() {
        assert!(SizeList::one(0).check(Protocol::Tcp).is_err());
        assert!(SizeList::one(0).check(Protocol::Udp).is_ok());
        let error = SizeList::one(65_508).check(Protocol::Udp).unwrap_err().to_string();
        assert!(error.contains("65508") && error.contains("65507"), "{error}");
    }
}
