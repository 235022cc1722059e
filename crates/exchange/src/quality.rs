//! How far a value can be trusted.

use std::fmt;

/// The quality of a value, as a publisher sends it and as a reader sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Quality {
    /// From the publisher, and in time.
    #[default]
    Good = 0,
    /// The last value, older than the topic allows.
    Stale = 1,
    /// No value, or the publisher says that it is wrong.
    Bad = 2,
    /// Not the publisher's present value, but what the topic says is to take its place.
    Substituted = 3,
}

impl Quality {
    /// From its two bits.
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        match bits & 3 {
            0 => Self::Good,
            1 => Self::Stale,
            2 => Self::Bad,
            _ => Self::Substituted,
        }
    }
}

impl fmt::Display for Quality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Good => "GOOD",
            Self::Stale => "STALE",
            Self::Bad => "BAD",
            Self::Substituted => "SUBSTITUTED",
        })
    }
}

/// What a reader gets in place of a value that is too old.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnStale {
    /// The last value, marked STALE.
    #[default]
    Mark,
    /// The last value, marked SUBSTITUTED: the application goes on with it.
    Hold,
    /// Zeros, marked SUBSTITUTED.
    Zero,
    /// The defaults of the fields, marked SUBSTITUTED.
    Default,
}

/// Which bytes a reader is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    Latest,
    Zeros,
    Defaults,
}

/// The quality of a value as it is read, and which bytes are shown. `latest` is the quality it was published with and its age;
/// absent where there has never been one.
pub fn judge(latest: Option<(Quality, u64)>, stale_ns: u64, on_stale: OnStale) -> (Quality, Shown) {
    match (latest, on_stale) {
        (Some((quality, age_ns)), _) if age_ns <= stale_ns => (quality, Shown::Latest),
        (_, OnStale::Zero) => (Quality::Substituted, Shown::Zeros),
        (_, OnStale::Default) => (Quality::Substituted, Shown::Defaults),
        (None, _) => (Quality::Bad, Shown::Zeros),
        (Some(_), OnStale::Mark) => (Quality::Stale, Shown::Latest),
        (Some(_), OnStale::Hold) => (Quality::Substituted, Shown::Latest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_qualities() {
        use {OnStale as On, Quality as Q, Shown as S};
        for (latest, on_stale, expected) in [
            (Some((Q::Good, 10)), On::Mark, (Q::Good, S::Latest)),
            (Some((Q::Bad, 10)), On::Hold, (Q::Bad, S::Latest)),
            (Some((Q::Good, 11)), On::Mark, (Q::Stale, S::Latest)),
            (Some((Q::Good, 11)), On::Hold, (Q::Substituted, S::Latest)),
            (Some((Q::Good, 11)), On::Zero, (Q::Substituted, S::Zeros)),
            (Some((Q::Good, 11)), On::Default, (Q::Substituted, S::Defaults)),
            (None, On::Mark, (Q::Bad, S::Zeros)),
            (None, On::Hold, (Q::Bad, S::Zeros)),
            (None, On::Zero, (Q::Substituted, S::Zeros)),
            (None, On::Default, (Q::Substituted, S::Defaults)),
        ] {
            assert_eq!(judge(latest, 10, on_stale), expected, "{latest:?} {on_stale:?}");
        }
        for quality in [Q::Good, Q::Stale, Q::Bad, Q::Substituted] {
            assert_eq!(Q::from_bits(quality as u64), quality);
        }
    }
}
