//! The running system, or a tree of files that looks like one.

use super::{Knob, KnobError, Settings};
use std::path::{Path, PathBuf};

/// Reads and writes the knobs that are files, control groups and network devices below a root.
#[derive(Debug, Clone)]
pub struct Machine {
    root: PathBuf,
}

impl Machine {
    /// The running system.
    #[must_use]
    pub fn running() -> Self {
        Self::at("/")
    }

    /// A tree of files: `at("/tmp/t")` reads /tmp/t/proc/sys/….
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where the tree begins.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path of the system, in this tree.
    #[must_use]
    pub fn path(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

impl Settings for Machine {
    fn read(&self, knob: &Knob) -> Result<String, KnobError> {
        match knob {
            Knob::File { path, form } => match std::fs::read_to_string(self.path(path)) {
                Ok(content) => Ok(form.value(&content)),
                Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
                    Err(KnobError::Absent { knob: Box::new(knob.clone()) })
                }
                Err(cause) => Err(KnobError::Read { knob: Box::new(knob.clone()), cause }),
            },
            _ => Err(unsupported(knob)),
        }
    }

    fn write(&self, knob: &Knob, value: &str) -> Result<(), KnobError> {
        match knob {
            Knob::File { path, .. } => std::fs::write(self.path(path), value).map_err(|cause| KnobError::Write {
                knob: Box::new(knob.clone()),
                value: value.to_owned(),
                cause,
            }),
            _ => Err(unsupported(knob)),
        }
    }
}

fn unsupported(knob: &Knob) -> KnobError {
    KnobError::Unsupported { knob: Box::new(knob.clone()), why: "not built yet".to_owned() }
}
