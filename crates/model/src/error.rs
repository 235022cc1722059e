//! What can be wrong with a value that a person or a file gave.

use std::fmt::Display;
use std::ops::RangeInclusive;

/// A value that cannot be used, with what it was and what would be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "a field without a line is what its name says")]
pub enum ModelError {
    /// A word that is not one of the accepted ones.
    #[error("{what} '{given}' is not known: use {accepted}")]
    UnknownWord {
        /// What kind of value it is ("policy").
        what: &'static str,
        given: String,
        /// The accepted forms, for people.
        accepted: String,
    },
    /// A number outside its range.
    #[error("{what} {given} is out of range: use {accepted}")]
    OutOfRange {
        /// What kind of value it is ("priority").
        what: &'static str,
        given: String,
        /// The accepted range, for people.
        accepted: String,
    },
    /// A text that does not follow its grammar.
    #[error("{what} '{given}' cannot be read: {why}")]
    Grammar {
        /// What kind of value it is ("size list").
        what: &'static str,
        given: String,
        why: String,
    },
    /// Two settings that cannot both hold, with the remedy.
    #[error("{what}: {remedy}")]
    Conflict { what: String, remedy: String },
    /// A plan or document that does not parse.
    #[error("{what}: {why}")]
    Document {
        what: String,
        /// The parser's words, on one line.
        why: String,
    },
    /// A document of a newer format than this version reads.
    #[error("{what} has format {found}, this version reads up to {known}: use a newer windhover")]
    NewerFormat { what: String, found: u32, known: u32 },
}

impl ModelError {
    /// A number outside its range.
    pub fn range(what: &'static str, given: impl Display, accepted: impl Into<String>) -> Self {
        Self::OutOfRange { what, given: given.to_string(), accepted: accepted.into() }
    }

    /// A text that does not follow its grammar.
    pub fn grammar(what: &'static str, given: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Grammar { what, given: given.into(), why: why.into() }
    }

    /// Two settings that cannot both hold.
    pub fn conflict(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Conflict { what: what.into(), remedy: remedy.into() }
    }
}

pub(crate) fn within<T: PartialOrd + Display>(
    what: &'static str,
    given: T,
    range: RangeInclusive<T>,
    accepted: &str,
) -> Result<(), ModelError> {
    if range.contains(&given) { Ok(()) } else { Err(ModelError::range(what, given, accepted)) }
}
