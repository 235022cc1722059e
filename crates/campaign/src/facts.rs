//! What the hosts of a run are: asked once before the first cell, compared when a run is resumed.

use crate::{CampaignError, Hosts};
use model::plan::{GuestMode, LabKind};
use model::run::RunHost;
use model::{HostFacts, MachineFacts, Plan, Role, RunDocument, Substrate};
use std::collections::{BTreeMap, BTreeSet};

/// All hosts of a plan with their machines.
#[derive(Debug, Clone)]
pub(crate) struct Gathered {
    pub(crate) machines: BTreeMap<String, MachineFacts>,
    pub(crate) hosts: BTreeMap<String, RunHost>,
    pub(crate) substrate: Substrate,
}

impl Gathered {
    /// Of hosts that do not answer before their first kernel was booted.
    pub(crate) fn unseen(plan: &Plan) -> Self {
        let (machines, hosts) = (BTreeMap::new(), BTreeMap::new());
        Self { substrate: substrate(plan, &machines, std::iter::empty()), machines, hosts }
    }

    pub(crate) fn by_host(&self) -> BTreeMap<String, MachineFacts> {
        let machine = |host: &RunHost| self.machines.get(&host.facts.boot_id).cloned();
        self.hosts.iter().filter_map(|(name, host)| Some((name.clone(), machine(host)?))).collect()
    }

    /// One host of each machine: what is machine-wide is asked of these.
    pub(crate) fn one_a_machine(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        self.hosts.iter().filter(|(_, host)| seen.insert(&host.facts.boot_id)).map(|(name, _)| name.clone()).collect()
    }
}

pub(crate) fn gather(plan: &Plan, hosts: &mut dyn Hosts) -> Result<Gathered, CampaignError> {
    let mut machines = BTreeMap::new();
    let mut found = BTreeMap::new();
    for name in plan.host_names() {
        let (machine, mut facts) = hosts.facts(&name).map_err(CampaignError::Host)?;
        facts.boot_id.clone_from(&machine.boot_id);
        machines.entry(machine.boot_id.clone()).or_insert(machine);
        let role = plan.roles.role_of(&name).map_or("idle", Role::word);
        let address = hosts.address(&name).map(|address| address.to_string());
        found.insert(name, RunHost { role: role.to_owned(), facts, address });
    }
    let substrate = substrate(plan, &machines, found.values().map(|host| &host.facts));
    for machine in machines.values_mut().filter(|_| substrate == Substrate::SimulatedTime) {
        machine.simulated_time = Some(true);
    }
    Ok(Gathered { machines, hosts: found, substrate })
}

/// That of the built-in lab is known. One boot id: namespaces of one machine; others are virtual where a machine is.
fn substrate<'a>(
    plan: &Plan,
    machines: &BTreeMap<String, MachineFacts>,
    hosts: impl Iterator<Item = &'a HostFacts>,
) -> Substrate {
    if let Some(lab) = &plan.lab {
        return match lab.kind {
            LabKind::Netns => Substrate::Netns,
            LabKind::Loopback => Substrate::Loopback,
            LabKind::Guest => match lab.mode.unwrap_or_default() {
                GuestMode::Icount => Substrate::SimulatedTime,
                GuestMode::Tcg => Substrate::Simulated,
                GuestMode::Kvm => Substrate::Vm,
            },
        };
    }
    let facts: Vec<&HostFacts> = hosts.collect();
    if facts.len() > 1 && machines.len() == 1 {
        let spaces: BTreeSet<Option<u64>> = facts.iter().map(|host| host.netns).collect();
        return if spaces.len() > 1 { Substrate::Netns } else { Substrate::Loopback };
    }
    let virtual_machine = |machine: &MachineFacts| {
        machine.virtualisation.as_deref().is_some_and(|kind| !kind.is_empty() && kind != "none")
    };
    if machines.values().any(virtual_machine) { Substrate::Vm } else { Substrate::Metal }
}

/// Compares the hosts of a run with those that it goes on on. Another computer or substrate is an error: its cells would be in
/// one table with the old ones. Another kernel, command line or operating system is a warning, but where kernels are booted.
pub(crate) fn compare(run: &RunDocument, now: &Gathered, boots: bool) -> Result<Vec<String>, CampaignError> {
    if run.substrate != now.substrate {
        return Err(CampaignError::OtherSubstrate { before: run.substrate, now: now.substrate });
    }
    let mut warnings = Vec::new();
    for (name, host) in &now.hosts {
        let Some(before) = run.hosts.get(name) else { continue };
        let empty = MachineFacts::default();
        let old = run.machines.get(&before.facts.boot_id).unwrap_or(&empty);
        let new = now.machines.get(&host.facts.boot_id).unwrap_or(&empty);
        for (what, before, now) in [
            ("host name", &before.facts.hostname, &host.facts.hostname),
            ("architecture", &old.architecture, &new.architecture),
            ("product", &old.product, &new.product),
            ("CPU", &old.cpu_model, &new.cpu_model),
        ] {
            if let (Some(before), Some(now)) = (before, now)
                && before != now
            {
                let (before, now) = (before.clone(), now.clone());
                return Err(CampaignError::OtherHost { host: name.clone(), what, before, now });
            }
        }
        for (what, before, now) in [
            ("kernel", &old.kernel_release, &new.kernel_release),
            ("kernel build", &old.kernel_version, &new.kernel_version),
            ("kernel command line", &old.command_line, &new.command_line),
            ("preemption model", &old.preemption, &new.preemption),
            ("operating system", &old.os, &new.os),
            ("clock source", &old.clocksource, &new.clocksource),
        ] {
            if before != now && !boots {
                let word = |value: &Option<String>| value.clone().unwrap_or_else(|| "not known".to_owned());
                warnings.push(format!(
                    "host '{name}': the {what} is '{}', it was '{}' when the run began",
                    word(now),
                    word(before)
                ));
            }
        }
    }
    Ok(warnings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(boot_id: &str, virtualisation: &str) -> MachineFacts {
        MachineFacts {
            boot_id: boot_id.to_owned(),
            virtualisation: Some(virtualisation.to_owned()),
            kernel_release: Some("6.1".to_owned()),
            cpu_model: Some("Model 1".to_owned()),
            ..MachineFacts::default()
        }
    }

    fn host(boot_id: &str, netns: u64) -> HostFacts {
        HostFacts { boot_id: boot_id.to_owned(), netns: Some(netns), ..HostFacts::default() }
    }

    fn plan() -> Plan {
        let text = "name = \"t\"\n[hosts.a]\nagent_command = [\"x\"]\n[hosts.b]\nagent_command = [\"x\"]\n[roles]\n\
                    initiator = \"a\"\nreflectors = [\"b\"]\n[[grid]]\n";
        Plan::parse("t", text).unwrap()
    }

    #[test]
    fn only_counted_instructions_are_simulated_time() {
        for (mode, expected) in [
            ("", Substrate::SimulatedTime),
            ("mode = \"icount\"", Substrate::SimulatedTime),
            ("mode = \"tcg\"", Substrate::Simulated),
            ("mode = \"kvm\"", Substrate::Vm),
        ] {
            let lab = format!("[lab]\nkind = \"guest\"\nkernel = \"debian-6.1\"\n{mode}\n");
            let text = format!("name = \"t\"\n{lab}[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n[[grid]]\n");
            let plan = Plan::parse("t", &text).unwrap();
            assert_eq!(substrate(&plan, &BTreeMap::new(), std::iter::empty()), expected, "{mode}");
        }
    }

    #[test]
    fn what_hosts_are_made_of() {
        for (machines, hosts, expected) in [
            (vec![machine("1", "none"), machine("2", "none")], vec![host("1", 5), host("2", 5)], Substrate::Metal),
            (vec![machine("1", "none"), machine("2", "kvm")], vec![host("1", 5), host("2", 5)], Substrate::Vm),
            (vec![machine("1", "kvm")], vec![host("1", 5), host("1", 6)], Substrate::Netns),
            (vec![machine("1", "none")], vec![host("1", 5), host("1", 5)], Substrate::Loopback),
        ] {
            let machines = machines.into_iter().map(|machine| (machine.boot_id.clone(), machine)).collect();
            assert_eq!(substrate(&plan(), &machines, hosts.iter()), expected);
        }
    }
}
