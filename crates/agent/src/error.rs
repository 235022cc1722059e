//! What ends an agent other than a good-bye or a closed pipe.

/// Why an agent gave up. Its workers are stopped all the same.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what it is")]
pub enum AgentError {
    #[error("the runner's pipe: {0}: use the same windhover at both ends")]
    Request(#[from] wire::FrameError),
    #[error("the runner's pipe cannot be written: {0}")]
    Reply(std::io::Error),
    #[error("the agent cannot be set up: {0}")]
    Setup(String),
}

impl AgentError {
    pub(crate) fn thread(name: &str, error: &std::io::Error) -> Self {
        Self::Setup(format!("thread {name}: {error}"))
    }
}
