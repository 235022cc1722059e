//! Keeps a shield true: finds what drifted, again and again, and repairs it.

use super::ShieldError;
use super::apply::make;
use super::plan::plan;
use super::steps::{ShieldStep, SweepKind};
use crate::Kernel;
use host::undo::StateDir;
use model::ShieldSpec;
use std::collections::BTreeSet;

#[derive(Debug, Clone)]
pub struct Guard {
    kernel: Kernel,
    state: StateDir,
    spec: ShieldSpec,
}

/// Something that was not as the shield made it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "drift", rename_all = "kebab-case")]
pub enum Drift {
    /// A setting had another value, and has the shield's again.
    Setting { knob: String, found: String, ours: String },
    /// Tasks that might use the shielded CPUs were moved away.
    Tasks { names: Vec<String>, count: usize },
    /// Another took the shield down.
    Gone,
}

impl std::fmt::Display for Drift {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Setting { knob, found, ours } => write!(f, "{knob}: was '{found}', is '{ours}' again"),
            Self::Tasks { names, count } => write!(f, "{count} tasks moved away: {}", names.join(", ")),
            Self::Gone => write!(f, "another has taken the shield down"),
        }
    }
}

impl Guard {
    pub fn new(kernel: Kernel, state: StateDir, spec: ShieldSpec) -> Self {
        Self { kernel, state, spec }
    }

    /// One round: what drifted since the last, repaired. [`Drift::Gone`] ends the guard's work.
    pub fn round(&self) -> Result<Vec<Drift>, ShieldError> {
        let planned = plan(&self.spec, &self.kernel, &self.state)?;
        if planned.extends.is_none() {
            return Ok(vec![Drift::Gone]);
        }
        if planned.is_done() {
            return Ok(Vec::new());
        }
        let mut drifts = Vec::new();
        for step in &planned.steps {
            match step {
                ShieldStep::Set(step) => drifts.push(Drift::Setting {
                    knob: step.change.knob.to_string(),
                    found: step.now.clone().unwrap_or_else(|| "gone".to_owned()),
                    ours: step.change.wanted.clone(),
                }),
                ShieldStep::Sweep(step) if step.kind == SweepKind::Remember => {}
                ShieldStep::Sweep(step) => {
                    let names = step.moves.iter().filter_map(|change| super::task_of(&change.knob));
                    let names: BTreeSet<String> = names.map(|task| task.name.clone()).collect();
                    drifts.push(Drift::Tasks { names: names.into_iter().collect(), count: step.moves.len() });
                }
            }
        }
        make(&planned, &self.kernel, &self.state, None, None)?;
        Ok(drifts)
    }
}
