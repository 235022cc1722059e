//! What can be wrong with a file.

/// Why a file cannot be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum ImportError {
    /// A line that is not what the tool writes, or a file that lacks something.
    #[error("{file}:{line}: {why}")]
    Line { file: String, line: usize, why: String },
}
