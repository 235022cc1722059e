//! What can be wrong with a histogram that comes from a file or a peer.

/// A histogram that cannot be written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatsError {
    #[error("histogram is not base64 ({why}): the file is damaged, measure again")]
    Base64 { why: String },
    #[error("histogram is no HdrHistogram V2 ({why}): the file is damaged or was written by another tool")]
    Decode { why: String },
    #[error("histogram has {bytes} bytes of text, more than the {limit} that any of ours has: the file is damaged")]
    TooLong { bytes: usize, limit: usize },
    #[error("histogram cannot be encoded ({why})")]
    Encode { why: String },
}

/// What a library says, on one line.
pub(crate) fn one_line(error: &impl std::fmt::Display) -> String {
    error.to_string().replace('\n', " ")
}
