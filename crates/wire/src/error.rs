//! What can go wrong on the wire.

/// A key that cannot be used. Lines count from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("no key in it: it needs one line of 64 hexadecimal digits; make one with `windhover key > F`")]
    Empty,
    /// A line that is neither a comment nor 64 hexadecimal digits. The line itself is not repeated: it may be a secret.
    #[error("line {line} is no key: expected 64 hexadecimal digits; make one with `windhover key > F`")]
    Malformed { line: usize },
    #[error("line {line} holds a second key: keep one")]
    Second { line: usize },
}

/// A frame that cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("a frame of {length} bytes is above the limit of {limit} bytes")]
    TooLong { length: u64, limit: usize },
    /// A frame whose MAC does not fit: altered, repeated, out of order, or under another key.
    #[error("frame {counter} fails its authentication: it was altered, repeated or moved on the way")]
    Unauthentic {
        /// Number of the frame in its direction, from 0.
        counter: u64,
    },
    #[error("the connection ended inside a frame, {missing} bytes short")]
    Truncated { missing: u64 },
    #[error("a frame does not hold {what}: {why}")]
    Payload { what: &'static str, why: String },
}

/// Why a control session ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    #[error("control connection: {0}")]
    Frame(#[from] FrameError),
    /// The key differs, or one end has none and answered all the same.
    #[error("wrong key: both ends need the same --key-file")]
    WrongKey,
    #[error("the reflector needs a key: give the --key-file that it was started with")]
    KeyRequired,
    #[error("the reflector has no key: start it with the same --key-file, or give none at both ends")]
    KeyNotExpected,
    #[error("the reflector speaks version {theirs}, this windhover speaks {ours}: use the same windhover at both ends")]
    Version { theirs: String, ours: String },
    #[error(
        "the reflector ({theirs}) does not know '{capability}', which this {ours} asks for: use the same windhover at both ends"
    )]
    Lacks { capability: &'static str, theirs: String, ours: String },
    /// The far end said no; `code` says why for programs.
    #[error("the reflector refuses: {reason}")]
    Refused { code: crate::RefuseCode, reason: String },
    #[error("control connection: {message} came {state}, out of order")]
    OutOfOrder { message: &'static str, state: &'static str },
    /// A call that does not fit the state of the session; an error of the program, not of the peer.
    #[error("{call} was called {state}")]
    Misuse { call: &'static str, state: &'static str },
    #[error("the far end closed the control connection {state}")]
    Closed { state: &'static str },
}
