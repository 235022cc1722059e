//! What can be wrong with a file.

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// A line that is not what the tool writes, or a file that lacks something.
    #[error("{file}:{line}: {why}")]
    Line { file: String, line: usize, why: String },
}
