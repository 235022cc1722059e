//! Which built-in profile fits a machine, by what the machine is. `tune try` measures it instead.

use host::knob::Machine;
use model::facts::is_preempt_rt;
use std::path::Path;

/// Below this many CPUs none is free for polling beside both ends and the rest of the system.
const ENOUGH_CPUS: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostKind {
    /// The hypervisor; absent on bare metal and where it is not known.
    pub hypervisor: Option<String>,
    pub cpus: usize,
    /// Network devices with hardware and a link, each with its driver.
    pub nics: Vec<(String, String)>,
    pub is_real_time: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Recommendation {
    pub profile: &'static str,
    pub nic: Option<String>,
    pub reason: String,
}

impl HostKind {
    pub fn of(machine: &Machine) -> Self {
        let facts = host::facts::machine(machine);
        let nics = machine.names("/sys/class/net").unwrap_or_default().into_iter().filter_map(|name| {
            let link = machine.trimmed(format!("/sys/class/net/{name}/carrier")).is_ok_and(|carrier| carrier == "1");
            let driver =
                std::fs::read_link(machine.path(Path::new(&format!("/sys/class/net/{name}/device/driver")))).ok();
            let driver = driver.as_deref().and_then(Path::file_name)?.to_string_lossy().into_owned();
            link.then_some((name, driver))
        });
        Self {
            hypervisor: facts.virtualisation.filter(|name| name != "none"),
            cpus: machine.cpu_list("/sys/devices/system/cpu/online").map_or(1, |cpus| cpus.len()),
            nics: nics.collect(),
            is_real_time: is_preempt_rt(facts.preemption.as_deref()),
        }
    }

    /// The profile that fits. Both have the same base; `network-latency` polls, which pays only with a CPU to spare.
    pub fn recommend(&self) -> Recommendation {
        let nics: Vec<String> = self.nics.iter().map(|(name, driver)| format!("{name} ({driver})")).collect();
        let what = [
            self.hypervisor
                .as_ref()
                .map_or_else(|| "bare metal".to_owned(), |name| format!("virtual machine ({name})")),
            model::text::counted(self.cpus, "CPU"),
            if nics.is_empty() { "no network device with hardware and a link".to_owned() } else { nics.join(", ") },
            if self.is_real_time { "PREEMPT_RT" } else { "no PREEMPT_RT" }.to_owned(),
        ];
        let against = if self.hypervisor.is_some() {
            Some("busy polling would spin on CPUs that the hypervisor shares")
        } else if self.cpus < ENOUGH_CPUS {
            Some("busy polling would take a CPU that the application needs")
        } else if self.nics.is_empty() {
            Some("busy polling has no device to poll")
        } else if self.is_real_time {
            Some("a real-time thread that polls would keep threads of interrupts waiting")
        } else {
            None
        };
        let profile = if against.is_some() { "latency" } else { "network-latency" };
        let so = against.unwrap_or("busy polling has a device to poll and CPUs to spare");
        let nic = self.nics.first().map(|(name, _)| name.clone());
        Recommendation { profile, nic, reason: format!("{}: {so}", what.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fact_decides() {
        let metal = HostKind {
            hypervisor: None,
            cpus: 8,
            nics: vec![("eth0".to_owned(), "ice".to_owned())],
            is_real_time: false,
        };
        let polling = metal.recommend();
        assert_eq!((polling.profile, polling.nic.as_deref()), ("network-latency", Some("eth0")));
        for (kind, word) in [
            (HostKind { hypervisor: Some("kvm".to_owned()), ..metal.clone() }, "virtual machine (kvm)"),
            (HostKind { cpus: 2, ..metal.clone() }, "2 CPUs"),
            (HostKind { nics: Vec::new(), ..metal.clone() }, "no network device"),
            (HostKind { is_real_time: true, ..metal }, ", PREEMPT_RT:"),
        ] {
            let found = kind.recommend();
            assert_eq!(found.profile, "latency", "{kind:?}");
            assert!(found.reason.contains(word) && !found.reason.contains('\n'), "{}", found.reason);
        }
    }
}
