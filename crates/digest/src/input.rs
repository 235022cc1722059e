//! A run as a report takes it.

use model::run::RunStep;
use model::{ResultDocument, RunDocument};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// One run as a report needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunInput {
    /// The name of its run directory.
    pub name: String,
    pub document: RunDocument,
    /// The results that exist, in execution order.
    pub results: Vec<ResultDocument>,
    /// Steps that failed and have no result: the cell's key and why.
    pub failed: Vec<(String, String)>,
    /// What is damaged or missing in the run directory, one line each.
    pub problems: Vec<String>,
    /// The run directory, where there is one: HTML takes interval logs, worst messages and events from its files.
    pub folder: Option<PathBuf>,
    /// The step of each result, in the same order: its files are `cells/NNNN.*`. Empty without a run directory.
    pub steps: Vec<RunStep>,
}

impl RunInput {
    /// Whether another run measured the same: cells, labels, build of the tool, and hosts alike in name, role, hardware and
    /// kernel. What a run does not record is not compared.
    pub fn is_sibling(&self, other: &Self) -> bool {
        let (own, its) = (&self.document, &other.document);
        let cells = |document: &RunDocument| -> BTreeSet<String> {
            document.order.iter().map(|step| step.cell.clone()).collect()
        };
        let hosts = |document: &RunDocument| -> BTreeSet<[Option<String>; 7]> {
            let of = |(name, host): (&String, &model::run::RunHost)| {
                let machine = document.machines.get(&host.facts.boot_id).cloned().unwrap_or_default();
                let (model, kernel, line) = (machine.cpu_model, machine.kernel_release, machine.command_line);
                let hostname = host.facts.hostname.clone();
                [Some(name.clone()), Some(host.role.clone()), hostname, model, machine.cpus_online, kernel, line]
            };
            document.hosts.iter().map(of).collect()
        };
        own.name == its.name
            && own.labels == its.labels
            && own.lab == its.lab
            && own.substrate == its.substrate
            && (&own.tool_version, &own.build) == (&its.tool_version, &its.build)
            && cells(own) == cells(its)
            && hosts(own) == hosts(its)
    }
}
