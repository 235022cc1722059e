//! What can go wrong on the wire.

/// A key that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text holds no key.
    #[error("no key in it: it needs one line of 64 hexadecimal digits; make one with `windhover key > F`")]
    Empty,
    /// A line that is neither a comment nor 64 hexadecimal digits. The line itself is not repeated: it may be a secret.
    #[error("line {line} is no key: expected 64 hexadecimal digits; make one with `windhover key > F`")]
    Malformed {
        /// Number of the line, from 1.
        line: usize,
    },
    /// More than one key.
    #[error("line {line} holds a second key: keep one")]
    Second {
        /// Number of the line, from 1.
        line: usize,
    },
}

/// A frame that cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A frame longer than its connection allows.
    #[error("a frame of {length} bytes is above the limit of {limit} bytes")]
    TooLong {
        /// Length that the frame claims or has.
        length: u64,
        /// The limit.
        limit: usize,
    },
    /// A frame whose MAC does not fit: altered, repeated, out of order, or under another key.
    #[error("frame {counter} fails its authentication: it was altered, repeated or moved on the way")]
    Unauthentic {
        /// Number of the frame in its direction, from 0.
        counter: u64,
    },
    /// The connection ended inside a frame.
    #[error("the connection ended inside a frame, {missing} bytes short")]
    Truncated {
        /// Bytes that were still to come.
        missing: u64,
    },
    /// A payload that is not the JSON expected.
    #[error("a frame does not hold {what}: {why}")]
    Payload {
        /// What was expected.
        what: &'static str,
        /// The parser's words.
        why: String,
    },
}

/// Why a control session ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// A frame could not be read or written.
    #[error("control connection: {0}")]
    Frame(#[from] FrameError),
    /// The key differs, or one end has none and answered all the same.
    #[error("wrong key: both ends need the same --key-file")]
    WrongKey,
    /// The reflector wants a key and the client has none.
    #[error("the reflector needs a key: give the --key-file that it was started with")]
    KeyRequired,
    /// The client has a key and the reflector cannot prove that it has it too.
    #[error("the reflector has no key: start it with the same --key-file, or give none at both ends")]
    KeyNotExpected,
    /// No version in common.
    #[error("the reflector speaks version {theirs}, this windhover speaks {ours}: use the same windhover at both ends")]
    Version {
        /// Versions of the reflector.
        theirs: String,
        /// Versions of this end.
        ours: String,
    },
    /// The reflector is of a build that cannot do what is asked for.
    #[error(
        "the reflector ({theirs}) does not know '{capability}', which this {ours} asks for: use the same windhover at both ends"
    )]
    Lacks {
        /// The word of [`crate::control::capability`].
        capability: &'static str,
        /// The reflector's build.
        theirs: String,
        /// This end's.
        ours: String,
    },
    /// The far end said no.
    #[error("the reflector refuses: {reason}")]
    Refused {
        /// Why, for programs.
        code: crate::RefuseCode,
        /// Why, for people.
        reason: String,
    },
    /// A message that does not fit the state of the session.
    #[error("control connection: {message} came {state}, out of order")]
    OutOfOrder {
        /// What came.
        message: &'static str,
        /// When.
        state: &'static str,
    },
    /// A call that does not fit the state of the session; an error of the program, not of the peer.
    #[error("{call} was called {state}")]
    Misuse {
        /// The call.
        call: &'static str,
        /// When.
        state: &'static str,
    },
    /// The far end hung up.
    #[error("the far end closed the control connection {state}")]
    Closed {
        /// When.
        state: &'static str,
    },
}
