//! The runs in a folder.

use crate::{StoreError, journal, read};
use model::Substrate;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

model::words! {
    #[derive(Default)]
    pub enum RunState {
        /// A living process writes it.
        Running = "running",
        /// All steps were tried.
        Done = "done",
        /// A person ended it.
        Interrupted = "interrupted",
        Failed = "failed",
        /// Its process was killed; `resume` goes on.
        Killed = "killed",
        /// It cannot be read.
        #[default]
        Damaged = "damaged",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunSummary {
    pub path: PathBuf,
    pub state: RunState,
    /// The plan's name; empty when damaged.
    pub name: String,
    pub title: Option<String>,
    /// Wall clock at the start, since 1970; 0 when damaged.
    pub started_ns: u64,
    pub substrate: Option<Substrate>,
    /// Steps done, by the journal.
    pub done: usize,
    pub failed: usize,
    pub steps: usize,
    /// What is wrong, when it cannot be read.
    pub problem: Option<String>,
}

impl fmt::Display for RunSummary {
    /// One line: state, steps done of all, start, substrate, title, directory.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        if let Some(problem) = &self.problem {
            return write!(f, "{:<11} {path}: {problem}", self.state.to_string());
        }
        let started = crate::utc_text(self.started_ns);
        let steps = format!("{}/{}", self.done, self.steps);
        let substrate = self.substrate.map_or("", Substrate::word);
        write!(f, "{:<11} {steps:>9}  {started}  {substrate:<14} {path}", self.state.to_string())?;
        if self.failed > 0 {
            write!(f, "  {} failed", self.failed)?;
        }
        match &self.title {
            Some(title) => write!(f, "  {title}"),
            None => Ok(()),
        }
    }
}

/// The run directories right below `parent`, oldest first. Folders without a `run.json` are no runs; runs that cannot
/// be read are listed with the reason. A folder that does not exist has none. Errors: [`StoreError::Read`] when `parent` cannot be
/// listed.
pub fn list(parent: &Path) -> Result<Vec<RunSummary>, StoreError> {
    let entries = match fs::read_dir(parent) {
        Ok(entries) => entries,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(StoreError::reading(parent, cause)),
    };
    let mut runs = Vec::new();
    for entry in entries {
        let path = entry.map_err(|cause| StoreError::reading(parent, cause))?.path();
        if path.join("run.json").is_file() {
            runs.push(summary(path));
        }
    }
    runs.sort_by(|a, b| (a.started_ns, &a.path).cmp(&(b.started_ns, &b.path)));
    Ok(runs)
}

fn summary(path: PathBuf) -> RunSummary {
    let both = read::read_run(&path).and_then(|run| Ok((run, read::read_journal(&path)?)));
    let (run, lines) = match both {
        Ok(both) => both,
        Err(error) => return RunSummary { path, problem: Some(error.to_string()), ..RunSummary::default() },
    };
    let (done, failed) = read::counts(&lines);
    let state = match run.outcome.as_deref() {
        _ if journal::is_locked(&path.join("journal.jsonl")) => RunState::Running,
        Some("done") => RunState::Done,
        Some("interrupted") => RunState::Interrupted,
        Some(_) => RunState::Failed,
        None => RunState::Killed,
    };
    RunSummary {
        path,
        state,
        name: run.name,
        title: run.title,
        started_ns: run.started_ns,
        substrate: Some(run.substrate),
        done,
        failed,
        steps: run.order.len(),
        problem: None,
    }
}
