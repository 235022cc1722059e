//! What can be wrong with a histogram that comes from a file or a peer.

/// A histogram that cannot be written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatsError {
    /// The text is not base64.
    #[error("histogram is not base64 ({why}): the file is damaged, measure again")]
    Base64 {
        /// The decoder's words.
        why: String,
    },
    /// The bytes are not an HdrHistogram V2.
    #[error("histogram is no HdrHistogram V2 ({why}): the file is damaged or was written by another tool")]
    Decode {
        /// The decoder's words.
        why: String,
    },
    /// More text than any histogram of ours has.
    #[error("histogram has {bytes} bytes of text, more than the {limit} that any of ours has: the file is damaged")]
    TooLong {
        /// Length found.
        bytes: usize,
        /// Length allowed.
        limit: usize,
    },
    /// The histogram could not be encoded.
    #[error("histogram cannot be encoded ({why})")]
    Encode {
        /// The encoder's words.
        why: String,
    },
}
