//! What a person may set beside the plan.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What packaging/systemd/windhover-resume.service resumes.
pub const RESUME_LINK: &str = "/var/lib/windhover/resume";

/// Options of [`crate::run`] and [`crate::resume`].
#[derive(Debug, Clone)]
pub struct Options {
    /// Folder that the run directory is made in.
    pub output: PathBuf,
    pub plan_text: String,
    /// Labels that replace or join the plan's.
    pub labels: BTreeMap<String, String>,
    pub seed: Option<u64>,
    pub repetitions: Option<u32>,
    pub tool_version: String,
    pub build: Option<String>,
    /// The windhover program that agents are started from.
    pub program: PathBuf,
    /// Link to the run directory while a run boots the machine of this process: a unit resumes it there after each boot.
    pub resume_link: PathBuf,
    /// Raised (by a signal handler) to end the run cleanly.
    pub stop: Arc<AtomicBool>,
}

impl Options {
    /// Options for a plan text: the current folder, nothing overridden.
    pub fn new(plan_text: impl Into<String>, program: impl Into<PathBuf>) -> Self {
        Self {
            output: PathBuf::from("."),
            plan_text: plan_text.into(),
            labels: BTreeMap::new(),
            seed: None,
            repetitions: None,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            build: None,
            program: program.into(),
            resume_link: PathBuf::from(RESUME_LINK),
            stop: Arc::new(AtomicBool::new(false)),
        }
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
