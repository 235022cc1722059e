//! The run directory's own documents: `run.json` and the lines of `journal.jsonl`.

use crate::{HostFacts, KernelChoice, MachineFacts, ModelError, Setting, ShieldReport, Substrate};
use std::collections::BTreeMap;

/// One host of a run.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct RunHost {
    /// `initiator`, `reflector`.
    pub role: String,
    /// Its network identity.
    pub facts: HostFacts,
    /// The data address used.
    pub address: Option<String>,
}

/// One repetition of a cell in execution order.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct RunStep {
    /// Place in execution order, from 1: the file is `cells/NNNN.json`.
    pub index: u32,
    /// The cell's key.
    pub cell: String,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// The cell's factors.
    pub factors: BTreeMap<String, serde_json::Value>,
}

/// What an agent changed for a cell: on its machine, or on its host alone.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Prepared {
    /// The host that the agent speaks for; `machine` for that of the built-in lab's machine.
    pub host: String,
    /// The shield that is up, with what really keeps others away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shield: Option<ShieldReport>,
    /// The settings asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<Setting>,
    /// How many knobs were changed for it.
    pub changed: u32,
    /// What is worth knowing: one line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What a kernel will say that it is, as far as that is known before it runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct KernelImage {
    /// uname release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// uname version, which has the number and the date of its build.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Words that its command line has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
}

impl KernelImage {
    /// What a machine runs instead, in words; `None` where it runs this one.
    pub fn differs(&self, machine: &MachineFacts) -> Option<String> {
        for (what, wanted, runs) in
            [("kernel", &self.release, &machine.kernel_release), ("build", &self.version, &machine.kernel_version)]
        {
            if let Some(wanted) = wanted
                && Some(wanted) != runs.as_ref()
            {
                let runs = runs.as_deref().unwrap_or("not known");
                return Some(format!("the {what} that runs is '{runs}', wanted is '{wanted}'"));
            }
        }
        let line = machine.command_line.as_deref().unwrap_or_default();
        let missing = self.words.iter().find(|word| !line.split_whitespace().any(|has| has == *word));
        missing.map(|word| format!("the kernel's command line has no '{word}'"))
    }
}

/// The boot of a cell: cells with the same one are no independent observations of their kernel.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(default)]
pub struct CellBoot {
    /// Which visit of its kernel it was, from 1.
    pub visit: u32,
    /// Boot ids by host.
    pub ids: BTreeMap<String, String>,
}

/// A visit of a kernel: in which one a cell was measured.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Visit {
    /// The kernel, as the plan has it.
    pub kernel: KernelChoice,
    /// Which visit of it, from 1.
    pub visit: u32,
}

/// `run.json`: one execution of a plan.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct RunDocument {
    /// Format number.
    pub format: u32,
    /// The plan's name.
    pub name: String,
    /// The plan's title, for people.
    pub title: Option<String>,
    /// Version of the tool that wrote it.
    pub tool_version: String,
    /// Hash of the tool's binary.
    pub build: Option<String>,
    /// Seed of the order.
    pub seed: u64,
    /// Steps in execution order.
    pub order: Vec<RunStep>,
    /// Machines by boot id.
    pub machines: BTreeMap<String, MachineFacts>,
    /// Hosts by name.
    pub hosts: BTreeMap<String, RunHost>,
    /// What the hosts are.
    pub substrate: Substrate,
    /// The built-in lab that the hosts came from, as really made (the command line may override the plan's).
    pub lab: Option<crate::plan::LabPlan>,
    /// What the plan asks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<crate::plan::Question>,
    /// Free labels (`nic`, `os`).
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Wall clock at the start, since 1970.
    pub started_ns: u64,
    /// Wall clock at the end; absent while it runs or after a kill.
    pub ended_ns: Option<u64>,
    /// How it ended: `done`, `interrupted`, `failed`; absent while it runs.
    pub outcome: Option<String>,
}

impl RunDocument {
    /// Reads a document, refusing newer formats. Errors: as [`crate::ResultDocument::read`].
    pub fn read(what: &str, text: &str) -> Result<Self, ModelError> {
        crate::result::read_document(what, text)
    }
}

/// One line of the journal, written and fsynced before the step it names counts as done.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum JournalLine {
    /// The run began (also at each resume).
    Begin {
        /// Wall clock since 1970.
        at_ns: u64,
        /// Version of the tool.
        tool_version: String,
    },
    /// A machine or host was prepared for the cells that follow.
    Prepared {
        /// Wall clock since 1970.
        at_ns: u64,
        /// What was changed.
        #[serde(flatten)]
        prepared: Prepared,
    },
    /// A machine or host was put back as it was.
    Restored {
        /// Wall clock since 1970.
        at_ns: u64,
        /// As [`Prepared::host`].
        host: String,
        /// What could not be put back: one line each.
        #[serde(default)]
        problems: Vec<String>,
    },
    /// Hosts are about to be brought to a kernel, which may end this process with its machine.
    Intent {
        /// Wall clock since 1970.
        at_ns: u64,
        /// Which kernel.
        #[serde(flatten)]
        visit: Visit,
        /// Which attempt of this visit, from 1.
        attempt: u32,
        /// What it will say that it is, by host.
        images: BTreeMap<String, KernelImage>,
        /// Boot ids before, by host.
        before: BTreeMap<String, String>,
    },
    /// The hosts run that kernel.
    Booted {
        /// Wall clock since 1970.
        at_ns: u64,
        /// Which kernel.
        #[serde(flatten)]
        visit: Visit,
        /// Boot ids now, by host.
        boots: BTreeMap<String, String>,
    },
    /// A cell is about to be measured.
    Start {
        /// Place in execution order.
        index: u32,
        /// Wall clock since 1970.
        at_ns: u64,
    },
    /// A cell's files are complete on disk.
    Done {
        /// Place in execution order.
        index: u32,
        /// Wall clock since 1970.
        at_ns: u64,
    },
    /// A cell failed and has no result.
    Failed {
        /// Place in execution order.
        index: u32,
        /// Wall clock since 1970.
        at_ns: u64,
        /// Why, on one line.
        why: String,
        /// Whether its kernel could not be booted.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        could_not_boot: bool,
    },
    /// The run ended.
    End {
        /// Wall clock since 1970.
        at_ns: u64,
        /// `done`, `interrupted` or `failed`.
        outcome: String,
    },
}
