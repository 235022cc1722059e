//! Who takes part in a run, and whether its hosts have the CPUs that cells name.

use crate::facts::Gathered;
use crate::{CampaignError, Hosts, PlannedCell};
use model::{CpuList, ModelError, Plan, Role};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Who takes part in the cells of a run.
#[derive(Debug, Default)]
pub(crate) struct Participants {
    pub(crate) initiator: String,
    /// The reflectors with their addresses; several only for `pace`.
    pub(crate) reflectors: Vec<(String, IpAddr)>,
    /// One host a machine, which speaks for it, that of the initiator first.
    pub(crate) machines: Vec<String>,
    /// Which of those speaks for the machine of each host.
    pub(crate) speakers: BTreeMap<String, String>,
    /// The CPUs of the machines that tell them, by the host that speaks for each.
    pub(crate) online: BTreeMap<String, CpuList>,
    /// Whether any cell of the run may be shielded.
    pub(crate) shields: bool,
}

impl Participants {
    /// Who takes part, checked before anything is written.
    pub(crate) fn of(
        plan: &Plan,
        gathered: &Gathered,
        hosts: &dyn Hosts,
        steps: &[PlannedCell],
    ) -> Result<Self, CampaignError> {
        let known = |name: &String| {
            if gathered.hosts.contains_key(name) {
                return Ok(());
            }
            let remedy = format!("use one of: {}", plan.host_names().join(", "));
            Err(ModelError::conflict(format!("host '{name}' is not known"), remedy))
        };
        let initiator = plan.roles.initiator.clone();
        known(&initiator)?;
        let over_network = steps.iter().any(|step| step.cell.has_peer());
        let mut reflectors = Vec::new();
        if over_network {
            if plan.roles.reflectors.is_empty() {
                return Err(CampaignError::MissingReflector);
            }
            for name in &plan.roles.reflectors {
                known(name)?;
                let address = hosts.address(name).ok_or_else(|| CampaignError::NoAddress(name.clone()))?;
                reflectors.push((name.clone(), address));
            }
        }
        let mut machines = gathered.one_a_machine();
        // The initiator speaks for its own machine, and that machine comes first.
        let boot = |name: &str| gathered.hosts.get(name).map(|host| host.facts.boot_id.clone());
        machines.retain(|name| boot(name) != boot(&initiator));
        machines.insert(0, initiator.clone());
        let speakers = gathered
            .hosts
            .keys()
            .filter_map(|host| Some((host.clone(), machines.iter().find(|name| boot(name) == boot(host))?.clone())))
            .collect();
        let online = machines.iter().filter_map(|host| Some((host.clone(), online(gathered, host)?))).collect();
        let participants = Self { initiator, reflectors, machines, speakers, online, shields: plan.names("shield") };
        steps.iter().try_for_each(|step| check_cpus(&step.cell, &participants, gathered))?;
        Ok(participants)
    }

    pub(crate) fn reflectors_of(&self, cell: &model::Cell) -> &[(String, IpAddr)] {
        let most = cell.reflectors.map_or(usize::MAX, |count| count as usize);
        self.reflectors.get(..most).unwrap_or(&self.reflectors)
    }

    /// The host that speaks for the machine of a host.
    pub(crate) fn speaker<'a>(&'a self, host: &'a str) -> &'a str {
        self.speakers.get(host).map_or(host, String::as_str)
    }
}

/// The CPUs of a host's machine, where it tells them.
fn online(gathered: &Gathered, host: &str) -> Option<CpuList> {
    let host = gathered.hosts.get(host)?;
    gathered.machines.get(&host.facts.boot_id)?.cpus_online.as_ref()?.parse().ok()
}

/// Looks for every CPU of a cell among those that its hosts have. A host that does not tell its CPUs is believed.
fn check_cpus(cell: &model::Cell, participants: &Participants, gathered: &Gathered) -> Result<(), CampaignError> {
    let check = |host: &String, what: &'static str, cpu: u32| match online(gathered, host) {
        Some(online) if !online.contains(cpu) => {
            Err(CampaignError::NoSuchCpu { host: host.clone(), cpu, what, online })
        }
        _ => Ok(()),
    };
    let spec = &cell.spec;
    spec.initiator_cpus().flatten().try_for_each(|cpu| check(&participants.initiator, Role::Initiator.word(), cpu))?;
    if let Some(cpu) = spec.reflector.cpu.filter(|_| spec.probe().has_reflector()) {
        // The reflector of a protocol within one machine is a child of the initiator.
        let local = spec.is_local() || participants.reflectors.is_empty();
        let on = participants.reflectors.iter().map(|(host, _)| host).filter(|_| !local);
        on.chain(local.then_some(&participants.initiator))
            .try_for_each(|host| check(host, Role::Reflector.word(), cpu))?;
    }
    for cpu in cell.load.iter().filter_map(|load| load.cpus.as_ref()).flat_map(CpuList::iter) {
        participants.machines.iter().try_for_each(|host| check(host, "load", cpu))?;
    }
    Ok(())
}
