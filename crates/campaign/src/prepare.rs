//! What a cell wants of its machines and hosts: changed as seldom as the order of cells allows, put back when the run ends.

use crate::participants::Participants;
use crate::{HostError, Hosts, Observer, Progress};
use model::{Cell, CpuList, JournalLine, LoadSpec, Prepared, Setting, ShieldSpec};
use std::collections::{BTreeMap, BTreeSet};

/// What one agent shall keep in force.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Preparation {
    pub shield: Option<ShieldSpec>,
    /// Settings of its machine or host.
    pub settings: Vec<Setting>,
    /// The network device that settings beginning with `nic.` mean.
    pub device: Option<String>,
    /// Whether the agent of its machine, another one, keeps a shield up meanwhile.
    pub shielded: bool,
}

/// Whether a setting belongs to a host (a network namespace) rather than the machine: that of a network device, and the sysctls
/// of a namespace, which of `net.core` are few (net/core/sysctl_net_core.c, netns_core_table).
pub(crate) fn belongs_to_host(key: &str) -> bool {
    let net = |name: &str| match name.strip_prefix("core.") {
        Some(core) => matches!(core, "somaxconn" | "optmem_max" | "txrehash" | "tstamp_allow_data"),
        None => true,
    };
    let sysctl = key.strip_prefix("sysctl.").unwrap_or(key);
    key.starts_with("nic.") || sysctl.strip_prefix("net.").is_some_and(net)
}

/// The CPUs that the ends of a cell are pinned to on the machine that `speaker` speaks for.
fn ends_on(cell: &Cell, participants: &Participants, speaker: &str) -> CpuList {
    let spec = &cell.spec;
    let here = |host: &str| participants.speaker(host) == speaker;
    let initiator = spec.initiator_cpus().flatten().filter(|_| here(&participants.initiator));
    let reflects_here = match (spec.probe().has_reflector(), spec.is_local(), participants.reflectors_of(cell)) {
        (false, ..) => false,
        (_, false, reflectors @ [_, ..]) => reflectors.iter().any(|(host, _)| here(host)),
        // The reflector of a protocol within one machine is a child of the initiator.
        _ => here(&participants.initiator),
    };
    initiator.chain(spec.reflector.cpu.filter(|_| reflects_here)).collect()
}

/// The CPUs behind the shield of a machine while a cell is measured.
fn shielded(cell: &Cell, participants: &Participants, speaker: &str) -> Option<ShieldSpec> {
    let ends = ends_on(cell, participants, speaker);
    cell.shield.as_ref().filter(|_| !ends.is_empty()).map(|shield| shield.spec(&ends))
}

/// The load of a cell on a machine: on the CPUs beside the shield where there is one, else on all that the plan gives it. A
/// plan with shielded cells names the CPUs of all its loads.
pub(crate) fn load_on(cell: &Cell, participants: &Participants, speaker: &str) -> Option<LoadSpec> {
    let mut load = cell.load.clone()?;
    if participants.shields {
        let all = load.cpus.clone().or_else(|| participants.online.get(speaker).cloned());
        let shield = shielded(cell, participants, speaker).map(|shield| shield.processes).unwrap_or_default();
        load.cpus = all.map(|all| all.iter().filter(|&cpu| !shield.contains(cpu)).collect());
    }
    Some(load)
}

/// What tells cells apart that need other preparations, however they are spread over machines.
pub(crate) fn differs(a: &Cell, b: &Cell) -> bool {
    let cpus = |cell: &Cell| cell.spec.initiator_cpus().collect::<Vec<_>>();
    let ends = |cell: &Cell| cell.shield.as_ref().map(|_| (cpus(cell), cell.spec.reflector.cpu));
    a.shield != b.shield || a.settings != b.settings || ends(a) != ends(b)
}

/// What agents shall keep in force, by host.
type Preparations = BTreeMap<String, Preparation>;

/// What all agents together shall keep in force for a cell: those of machines, those of hosts.
fn wanted(
    cell: &Cell,
    participants: &Participants,
    hosts: &mut dyn Hosts,
) -> Result<(Preparations, Preparations), HostError> {
    let (of_host, of_machine): (Vec<&Setting>, Vec<&Setting>) =
        cell.settings.iter().partition(|setting| belongs_to_host(&setting.key));
    let mut machines: Preparations = BTreeMap::new();
    for speaker in &participants.machines {
        let shield = shielded(cell, participants, speaker);
        if shield.is_some() || !of_machine.is_empty() {
            let wanted = machines.entry(hosts.machine_agent(speaker)?).or_default();
            wanted.shield = shield;
            wanted.settings = of_machine.iter().copied().cloned().collect();
        }
    }
    let mut others: Preparations = BTreeMap::new();
    let taking_part: BTreeSet<&String> = std::iter::once(&participants.initiator)
        .chain(participants.reflectors_of(cell).iter().map(|(host, _)| host))
        .collect();
    for host in taking_part.into_iter().filter(|_| !of_host.is_empty()) {
        let device = hosts.device(host);
        if device.is_none()
            && let Some(setting) = of_host.iter().find(|setting| setting.key.starts_with("nic."))
        {
            let why = format!("which network device {setting} means is not known: set hosts.{host}.device in the plan");
            return Err(HostError::Failed { host: host.clone(), why });
        }
        // Where a host's agent speaks for its machine too, it is asked once for both.
        let is_speaker = machines.contains_key(host);
        let map = if is_speaker { &mut machines } else { &mut others };
        let wanted = map.entry(host.clone()).or_default();
        wanted.shielded = !is_speaker && shielded(cell, participants, participants.speaker(host)).is_some();
        wanted.settings.extend(of_host.iter().copied().cloned());
        wanted.device = device;
    }
    Ok((machines, others))
}

/// What is in force, by agent.
#[derive(Debug, Default)]
pub(crate) struct Preparer {
    machines: BTreeMap<String, (Preparation, Prepared)>,
    hosts: BTreeMap<String, (Preparation, Prepared)>,
    /// What could not be put back: later cells were measured with it.
    left: Vec<Prepared>,
    /// How many knobs those are.
    pub(crate) not_restored: usize,
    /// What was done, for the journal.
    pub(crate) lines: Vec<JournalLine>,
}

impl Preparer {
    /// Makes what a cell wants the only thing in force, and returns that. An agent that fails has put back its changes.
    pub(crate) fn prepare(
        &mut self,
        cell: &Cell,
        participants: &Participants,
        hosts: &mut dyn Hosts,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Prepared>, HostError> {
        let (machines, others) = wanted(cell, participants, hosts)?;
        let same = |in_force: &BTreeMap<String, (Preparation, Prepared)>, wanted: &BTreeMap<String, Preparation>| {
            in_force.len() == wanted.len()
                && in_force.iter().all(|(agent, (now, _))| wanted.get(agent).is_some_and(|wanted| wanted == now))
        };
        let machines_stay = same(&self.machines, &machines);
        // What lies on top goes first: a host's device may have been changed under a shield that moves interrupts too.
        let agents: Vec<String> = self
            .hosts
            .iter()
            .filter(|(agent, (now, _))| !machines_stay || others.get(*agent) != Some(now))
            .map(|(agent, _)| agent.clone())
            .collect();
        for agent in agents {
            self.hosts.remove(&agent);
            self.restore(&agent, hosts, observer)?;
        }
        let agents: Vec<String> =
            self.machines.keys().filter(|agent| !machines.contains_key(*agent)).cloned().collect();
        for agent in agents {
            self.machines.remove(&agent);
            self.restore(&agent, hosts, observer)?;
        }
        for (in_force, all) in [(&mut self.machines, machines), (&mut self.hosts, others)] {
            for (agent, wanted) in all {
                if in_force.get(&agent).is_some_and(|(now, _)| *now == wanted) {
                    continue;
                }
                in_force.remove(&agent);
                let mut prepared = hosts.prepare(&agent, &wanted)?;
                prepared.host.clone_from(&agent);
                prepared.settings.clone_from(&wanted.settings);
                self.lines.push(JournalLine::Prepared { at_ns: clock::realtime_ns(), prepared: prepared.clone() });
                observer.observe(&Progress::Prepared { prepared: &prepared });
                in_force.insert(agent, (wanted, prepared));
            }
        }
        let in_force = self.machines.values().chain(self.hosts.values()).map(|(_, prepared)| prepared.clone());
        Ok(self.left.iter().cloned().chain(in_force).collect())
    }

    /// Asks the agents whose machines get a shield whether they can begin: another one's would be up in unshielded cells.
    pub(crate) fn check(participants: &Participants, hosts: &mut dyn Hosts) -> Result<(), HostError> {
        for speaker in participants.machines.iter().filter(|_| participants.shields) {
            let agent = hosts.machine_agent(speaker)?;
            hosts.prepare(&agent, &Preparation::default())?;
        }
        Ok(())
    }

    /// Whether the shields were up to the end of a cell; the next cell has one that was taken down put up again.
    pub(crate) fn check_shields(&mut self, hosts: &mut dyn Hosts) -> Result<(), HostError> {
        let shielded: Vec<String> = self
            .machines
            .iter()
            .filter(|(_, (wanted, _))| wanted.shield.is_some())
            .map(|(agent, _)| agent.clone())
            .collect();
        for agent in shielded {
            let Some((wanted, _)) = self.machines.get(&agent) else { continue };
            if let Err(error) = hosts.still_prepared(&agent, wanted) {
                self.machines.remove(&agent);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Machines were booted: no change is in force any more.
    pub(crate) fn forget(&mut self) {
        self.hosts.clear();
        self.machines.clear();
    }

    /// Puts everything back; what cannot be is reported and counted.
    pub(crate) fn restore_all(&mut self, hosts: &mut dyn Hosts, observer: &mut dyn Observer) {
        let on_top = std::mem::take(&mut self.hosts).into_keys();
        let below = std::mem::take(&mut self.machines).into_keys();
        for agent in on_top.chain(below) {
            if let Err(error) = self.restore(&agent, hosts, observer) {
                self.not_restored += 1;
                let text =
                    format!("{error}: its agent puts back what it changed when it ends; 'windhover undo --list' tells");
                observer.observe(&Progress::Warning(&text));
            }
        }
    }

    fn restore(&mut self, agent: &str, hosts: &mut dyn Hosts, observer: &mut dyn Observer) -> Result<(), HostError> {
        let problems = hosts.restore(agent)?;
        for problem in &problems {
            observer.observe(&Progress::Warning(&format!("'{agent}' is not as it was: {problem}")));
        }
        self.not_restored += problems.len();
        if !problems.is_empty() {
            self.left.push(Prepared { host: agent.to_owned(), notes: problems.clone(), ..Prepared::default() });
        }
        self.lines.push(JournalLine::Restored { at_ns: clock::realtime_ns(), host: agent.to_owned(), problems });
        observer.observe(&Progress::Restored { agent });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::belongs_to_host;

    #[test]
    fn what_a_namespace_has_for_itself() {
        for key in ["nic.coalesce.rx-usecs", "sysctl.net.ipv4.tcp_autocorking", "net.core.somaxconn"] {
            assert!(belongs_to_host(key), "{key}");
        }
        for key in [
            "sysctl.net.core.busy_poll",
            "net.core.busy_read",
            "sysctl.kernel.numa_balancing",
            "memory.thp",
            "service.irqbalance",
        ] {
            assert!(!belongs_to_host(key), "{key}");
        }
    }
}
