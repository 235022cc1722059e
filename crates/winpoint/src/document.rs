//! Result documents and the run directory.

use crate::client::Peer;
use crate::platform::{self, SystemFacts};
use crate::{Task, WinpointError};
use model::result::EndReport;
use model::run::RunHost;
use model::worker::Measured;
use model::{
    Counters, EndUsage, Finding, FindingId, HostFacts, MachineFacts, Participants, PgmReport, ResultDocument, Role,
    RunDocument, Source, SourceKind, Substrate, source,
};
use record::{EndEvidence, Evidence, PathFacts, Recorded};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use store::WholeRun;
use wire::StopReport;

/// The tool's name in results.
const TOOL: &str = "winpoint";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// One measured part: a size, or a rate of a size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pass {
    pub(crate) size: u32,
    pub(crate) rate: Option<f64>,
}

/// What was seen of a pass beside its samples.
#[derive(Default)]
pub(crate) struct PassFacts {
    /// Wall clock at the first timed message, since 1970.
    pub(crate) started_ns: u64,
    pub(crate) report: Option<StopReport>,
    /// How the other end vanished, if it did.
    pub(crate) vanished: Option<String>,
    /// What PGM did.
    pub(crate) pgm: Option<PgmReport>,
    /// What else is to be said.
    pub(crate) found: Vec<Finding>,
}

/// Wall clock in nanoseconds since 1970.
#[must_use]
pub fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Puts the document together and judges it.
pub(crate) fn assemble(task: &Task, peer: &Peer, pass: Pass, mut recorded: Recorded, seen: PassFacts) -> Measured {
    let spec = &task.spec;
    let facts = platform::facts();
    recorded.started_ns = seen.started_ns;
    let detail = format!(
        "measured by {TOOL} {VERSION} on {} with {}: its CPU use, faults, moves between CPUs and drops were not watched",
        facts.os,
        platform::CLOCK
    );
    let mut found = vec![Finding::at(FindingId::Foreign, Role::Initiator, detail)];
    found.extend(seen.found);
    let reflector = seen.report.unwrap_or_default();
    found.extend(reflector.notes.iter().cloned());
    let (usage, counters) = (EndUsage::default(), Counters::default());
    let end = |role: Role, spec, usage, counters| {
        let (name, preloads, carried) = (role.word(), &[][..], None);
        EndEvidence { role, name, one_machine: false, spec, usage, counters, preloads, carried }
    };
    let remote = peer.remote.to_string();
    let is_local = peer.remote.ip().is_loopback() || peer.local.is_some_and(|local| local.ip() == peer.remote.ip());
    let told = seen.vanished.is_none().then(|| EndEvidence {
        preloads: &reflector.preloads,
        carried: reflector.carried.as_deref(),
        ..end(Role::Reflector, &spec.reflector, &reflector.usage, &reflector.counters)
    });
    let verdict = record::verdict(&Evidence {
        spec,
        initiator: end(Role::Initiator, &spec.initiator, &usage, &counters),
        reflectors: told.into_iter().collect(),
        clock: None,
        messages: &recorded.messages,
        recorded: Some(&recorded),
        path: PathFacts { is_local, loopback_intended: peer.remote.ip().is_loopback(), peer: &remote },
        found: &found,
        interval_percent: None,
        peer_vanished: seen.vanished.as_deref(),
        interrupted: false,
        load: None,
    });
    let source = own_source();
    let mut usage = reflector.usage;
    usage.transactions = Some(reflector.received).filter(|rounds| *rounds > 0);
    let result = ResultDocument {
        format: model::FORMAT,
        probe: spec.probe(),
        factors: factors(task, &pass, &source),
        ends: Participants::new(
            EndReport {
                spec: spec.initiator.clone(),
                host: facts.hostname,
                address: peer.local.map(|local| local.to_string()),
                ..EndReport::default()
            },
            [EndReport {
                spec: spec.reflector.clone(),
                address: Some(remote),
                usage,
                counters: reflector.counters,
                stack_environment: reflector.stack_environment,
                preloads: reflector.preloads,
                carried: reflector.carried,
                ..EndReport::default()
            }],
        ),
        messages: recorded.messages.clone(),
        source: Some(source),
        pgm: seen.pgm,
        verdict,
        ..ResultDocument::default()
    };
    let mut measured = Measured::new(result);
    recorded.fill(&mut measured, spec, platform::tick_rate());
    measured
}

/// Who measured.
fn own_source() -> Source {
    Source {
        kind: SourceKind::Foreign,
        tool: TOOL.to_owned(),
        version: Some(VERSION.to_owned()),
        file: None,
        bin_ns: Some(platform::tick_rate().ns(1)).filter(|ns| *ns > 1),
        overflowed: None,
    }
}

fn factors(task: &Task, pass: &Pass, source: &Source) -> BTreeMap<String, serde_json::Value> {
    let spec = &task.spec;
    let mut factors = BTreeMap::new();
    let mut put = |name: &str, value| factors.insert(name.to_owned(), value);
    put("protocol", model::Protocol::word_of(spec.protocol()).into());
    put("size", pass.size.into());
    put(source::FACTOR, source.factor().into());
    if let Some(rate) = pass.rate.filter(|_| spec.probe().is_open_loop()) {
        put("rate", model::schedule::rate_value(rate));
    }
    factors
}

/// What a person says of a run.
#[derive(Debug, Clone, Default)]
pub struct Labels {
    /// The run's name.
    pub name: String,
    /// What the hosts are, if not under Wine, which says so itself.
    pub substrate: Option<Substrate>,
    /// Free labels (`nic`, `os`); `os` is the system's own name where none is given.
    pub labels: BTreeMap<String, String>,
}

/// What the hosts of a run on this system are, for a person who says so or not.
///
/// # Errors
/// [`WinpointError::Conflict`] under Wine for anything else than that.
pub fn substrate(asked: Option<Substrate>) -> Result<Substrate, WinpointError> {
    substrate_of(&platform::facts(), asked)
}

/// Whatever Wine runs is no Windows, and is never put together with metal.
fn substrate_of(facts: &SystemFacts, asked: Option<Substrate>) -> Result<Substrate, WinpointError> {
    match (&facts.wine, asked) {
        (Some(_), Some(other)) if other != Substrate::Wine => Err(WinpointError::Conflict {
            what: format!("this is Wine, whose times are not those of {other}"),
            remedy: "leave --substrate out",
        }),
        (Some(_), _) => Ok(Substrate::Wine),
        (None, asked) => Ok(asked.unwrap_or(Substrate::Unknown)),
    }
}

/// Whether [`write_run`] could make its run directory below `parent` (which is made where it is missing) under this name, before
/// anything is measured. What it makes to try is removed again.
///
/// # Errors
/// [`WinpointError::Store`] as [`write_run`] would have it.
pub fn try_run(parent: &Path, name: &str, started_ns: u64) -> Result<(), WinpointError> {
    Ok(store::RunDir::create(parent, name, started_ns)?.discard()?)
}

/// Writes all results as a run directory below `parent`, and gives its path. `started_ns`: wall clock at the start, since 1970.
///
/// # Errors
/// [`WinpointError::Store`]; [`WinpointError::Conflict`] for a substrate that this is not.
pub fn write_run(
    parent: &Path,
    labels: &Labels,
    results: &mut [Measured],
    started_ns: u64,
    whole: bool,
) -> Result<PathBuf, WinpointError> {
    let facts = platform::facts();
    let substrate = substrate_of(&facts, labels.substrate)?;
    let host = facts.hostname.clone().unwrap_or_else(|| Role::Initiator.to_string());
    // Windows has no id of a boot.
    let boot_id = format!("winpoint-{host}");
    let machine = MachineFacts {
        boot_id: boot_id.clone(),
        os: Some(facts.os.clone()),
        kernel_release: facts.release.clone(),
        architecture: Some(std::env::consts::ARCH.to_owned()),
        clocksource: Some(platform::CLOCK.to_owned()),
        virtualisation: facts.wine.is_some().then(|| "wine".to_owned()),
        ..MachineFacts::default()
    };
    let address = results.first().and_then(|first| first.result.ends.first(Role::Initiator)?.address.clone());
    let run_host = RunHost {
        role: Role::Initiator.to_string(),
        facts: HostFacts { boot_id: boot_id.clone(), hostname: facts.hostname.clone(), ..HostFacts::default() },
        address,
    };
    let mut labelled = labels.labels.clone();
    labelled.entry("os".to_owned()).or_insert_with(|| facts.os.clone());
    let document = RunDocument {
        format: model::FORMAT,
        name: labels.name.clone(),
        title: None,
        tool_version: VERSION.to_owned(),
        build: None,
        seed: 0,
        order: Vec::new(),
        machines: BTreeMap::from([(boot_id, machine)]),
        hosts: BTreeMap::from([(host, run_host)]),
        substrate,
        lab: None,
        ask: Vec::new(),
        labels: labelled,
        started_ns,
        ended_ns: None,
        outcome: None,
    };
    let run = WholeRun {
        document,
        results,
        plan: "# Measured by winpoint: there is no plan.\n",
        ended_ns: now_ns(),
        outcome: if whole { "done" } else { "failed" },
    };
    Ok(store::write_whole(parent, run)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wine_runs_is_never_metal() {
        // A figure under Wine that stands beside those of Windows.
        let windows = SystemFacts::default();
        let wine = SystemFacts { wine: Some("8.0".to_owned()), ..SystemFacts::default() };
        assert_eq!(substrate_of(&wine, None).unwrap(), Substrate::Wine);
        assert_eq!(substrate_of(&wine, Some(Substrate::Wine)).unwrap(), Substrate::Wine);
        assert!(substrate_of(&wine, Some(Substrate::Metal)).unwrap_err().to_string().contains("Wine"));
        assert_eq!(substrate_of(&windows, None).unwrap(), Substrate::Unknown);
        assert_eq!(substrate_of(&windows, Some(Substrate::Metal)).unwrap(), Substrate::Metal);
    }
}
