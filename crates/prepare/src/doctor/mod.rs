//! Examines a machine before one measures on it: what spoils, disturbs or merely colours a figure, and what mends it.
//!
//! Every check is a pure function over files below a root and a [`Snapshot`] of what only system calls tell, so that
//! trees of other systems can be examined in tests. Nothing here changes anything. A check that cannot be made is listed
//! with the reason, never as in order.

mod app;
mod check;
mod clock;
mod cpu;
mod diff;
mod document;
mod irq;
mod link;
mod measure;
mod mem;
mod net;
mod nic;
mod noise;
mod parse;
mod poll;
mod power;
mod sched;
mod sec;
mod snapshot;
mod stacks;
mod subject;
mod substrate;
mod table;
mod variants;

pub(crate) use check::names_of;
pub use check::{Check, Evidence, some_of};
pub use diff::{Comparison, Difference, compare};
pub use document::{
    Document, FORMAT, Finding, Reading, Remedy, Scope, ScopeOrigin, Severity, SkipKind, Skipped, Substrate, shell_word,
};
pub use measure::{Measured, Throttle, Visitor, measure, probe_throttle};
pub use snapshot::{Device, SNAPSHOT_FILE, Snapshot, SnapshotError};
pub use table::table_markdown;

use host::knob::Machine;
use model::CpuList;
use subject::Subject;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DoctorOptions {
    /// The CPUs to measure on; empty: those behind a shield or isolated, else the machine as a whole.
    pub cpus: CpuList,
    /// The network device to measure over; absent: all that have hardware and a link.
    pub nic: Option<String>,
    /// Only checks with these ids or of these sections (`cpu`, `nic.coalesce`); empty: all.
    pub only: Vec<String>,
}

/// All checks, in the order in which they are made.
pub fn checks() -> impl Iterator<Item = &'static Check> {
    [
        cpu::CHECKS,
        power::CHECKS,
        noise::CHECKS,
        sched::CHECKS,
        variants::CHECKS,
        mem::CHECKS,
        irq::CHECKS,
        nic::CHECKS,
        poll::CHECKS,
        link::CHECKS,
        net::CHECKS,
        stacks::CHECKS,
        clock::CHECKS,
        sec::CHECKS,
        app::CHECKS,
    ]
    .into_iter()
    .flatten()
}

/// The first of these that is neither a check's id nor a section.
pub fn unknown_check(only: &[String]) -> Option<&String> {
    only.iter().find(|wanted| !checks().any(|check| selects(wanted, check)))
}

fn selects(wanted: &str, check: &Check) -> bool {
    check.id == wanted || check.section() == wanted
}

/// Examines a machine: the running one, or a tree of files, whose snapshot must be readable.
pub fn examine(machine: &Machine, options: &DoctorOptions) -> Result<Document, SnapshotError> {
    Ok(examine_with(machine, options, Snapshot::take(machine)?))
}

/// The CPUs that an examination with these options is about.
pub fn scope_of(machine: &Machine, options: &DoctorOptions) -> CpuList {
    subject::scope(machine, &options.cpus).0
}

/// Examines a machine with a snapshot that was taken before, for instance with measurements in it.
pub fn examine_with(machine: &Machine, options: &DoctorOptions, snapshot: Snapshot) -> Document {
    let facts = host::facts::machine(machine);
    let realtime = host::facts::realtime_variants(machine, &facts);
    let (cpus, from) = subject::scope(machine, &options.cpus);
    let scope = Scope { cpus, from, nic: options.nic.clone(), only: options.only.clone() };
    let names = realtime.iter().map(|variant| variant.name.clone()).collect();
    let (mut findings, mut skipped) = (Vec::new(), Vec::new());
    let subject = Subject::new(machine, &scope, &facts, &snapshot, names);
    for check in checks().filter(|check| scope.only.is_empty() || scope.only.iter().any(|only| selects(only, check))) {
        check.run(&subject, &mut findings, &mut skipped);
    }
    let substrate = substrate::detect(&subject);
    drop(subject);
    // The worst first; within a severity in the order of the table.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Document {
        format: FORMAT,
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        scope,
        substrate,
        realtime,
        machine: facts,
        host: snapshot.host,
        measured: snapshot.measured,
        findings,
        skipped,
    }
}

/// JSON schema of [`Document`]: pretty-printed, a newline at the end.
pub fn schema() -> String {
    let mut text = serde_json::to_string_pretty(&schemars::schema_for!(Document)).unwrap_or_default();
    text.push('\n');
    text
}

/// The record of a machine's environment that campaigns keep: a whole examination, nothing measured.
pub fn record(machine: &Machine) -> Result<Document, SnapshotError> {
    examine(machine, &DoctorOptions::default())
}
