//! Result documents and the run directory.

use crate::client::Peer;
use crate::platform::{self, SystemFacts};
use crate::{Task, WinpointError};
use model::result::{EndReport, SelfCost};
use model::run::RunHost;
use model::worker::Measured;
use model::{
    Counters, Finding, FindingId, HostFacts, MachineFacts, PgmReport, Role, RunDocument, Source, SourceKind, Substrate,
};
use record::{FarEnd, Pass, Program, Recorded};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use store::WholeRun;
use wire::StopReport;

const TOOL: &str = "winpoint";
const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Debug, Clone, Copy)]
pub(crate) struct PassSize {
    pub(crate) size: u32,
    pub(crate) rate: Option<f64>,
}

#[derive(Default)]
pub(crate) struct PassFacts {
    /// Wall clock at the first timed message, since 1970.
    pub(crate) started_ns: u64,
    pub(crate) report: Option<StopReport>,
    /// How the other end vanished, if it did.
    pub(crate) vanished: Option<String>,
    pub(crate) pgm: Option<PgmReport>,
    pub(crate) counters: Counters,
    pub(crate) found: Vec<Finding>,
}

/// Wall clock in nanoseconds since 1970.
pub fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Has the document put together and judged.
pub(crate) fn assemble(task: &Task, peer: &Peer, pass: PassSize, mut recorded: Recorded, seen: PassFacts) -> Measured {
    let spec = &task.spec;
    let facts = platform::facts();
    recorded.started_ns = seen.started_ns;
    let detail = format!(
        "measured by {TOOL} {VERSION} on {} with {}: its CPU use, faults, moves between CPUs and drops at receiving were not watched",
        facts.os,
        platform::CLOCK
    );
    let mut found = vec![Finding::at(FindingId::Foreign, Role::Initiator, detail)];
    found.extend(seen.found);
    let has_reported = seen.vanished.is_none();
    let mut report = seen.report.unwrap_or_default();
    let (notes, received, over_rate) = (std::mem::take(&mut report.notes), report.received, report.over_rate);
    let end = report.into_end(spec.reflector.clone(), None, Some(peer.remote.to_string()));
    let is_loopback = peer.remote.ip().is_loopback();
    let mut measured = record::assemble(Pass {
        spec,
        program: Program::Winpoint,
        size: pass.size,
        rate_pps: pass.rate,
        factors: BTreeMap::new(),
        initiator: EndReport {
            spec: spec.initiator.clone(),
            host: facts.hostname,
            address: peer.local.map(|local| local.to_string()),
            counters: seen.counters,
            ..EndReport::default()
        },
        others: vec![FarEnd { end, has_reported, notes, received, over_rate, ..FarEnd::default() }],
        is_local: is_loopback || peer.local.is_some_and(|local| local.ip() == peer.remote.ip()),
        loopback_intended: is_loopback,
        clock: None,
        tick_rate: platform::tick_rate(),
        self_cost: SelfCost::default(),
        found,
        vanished: seen.vanished,
        interrupted: false,
        messages: recorded.messages.clone(),
        recorded: Some(recorded),
        interval_percent: None,
        source: Some(own_source()),
    });
    measured.result.pgm = seen.pgm;
    measured
}

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

/// What a person says of a run.
#[derive(Debug, Clone, Default)]
pub struct Labels {
    pub name: String,
    /// What the hosts are, if not under Wine, which says so itself.
    pub substrate: Option<Substrate>,
    /// Free labels (`nic`, `os`); `os` is the system's own name where none is given.
    pub labels: BTreeMap<String, String>,
}

/// The substrate of runs on this system. Errors: [`WinpointError::Conflict`] for another than Wine under Wine.
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

/// Tries to make the run directory below `parent` (made where missing) before measuring, and removes it. Errors: those
/// of [`write_run`].
pub fn try_run(parent: &Path, name: &str, started_ns: u64) -> Result<(), WinpointError> {
    Ok(store::RunDir::create(parent, name, started_ns)?.discard()?)
}

/// Writes a run below `parent`; `started_ns` since 1970. Errors: [`WinpointError::Store`], [`WinpointError::Conflict`].
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
        tool_version: VERSION.to_owned(),
        machines: BTreeMap::from([(boot_id, machine)]),
        hosts: BTreeMap::from([(host, run_host)]),
        substrate,
        labels: labelled,
        started_ns,
        ..RunDocument::default()
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
