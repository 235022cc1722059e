//! The CPUs, cores, memory nodes and boot isolation of a machine, from /sys.

use host::knob::Machine;
use model::CpuList;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Topology {
    pub(super) online: CpuList,
    pub(super) present: CpuList,
    /// CPUs taken out of the scheduler's domains at boot (`isolcpus=domain,…`).
    pub(super) isolated: CpuList,
    /// CPUs whose tick stops (`nohz_full=`).
    pub(super) nohz_full: CpuList,
    pub(super) nodes: BTreeMap<u32, CpuList>,
    /// Threads of each core that has more than one.
    cores: Vec<CpuList>,
}

impl Topology {
    pub(super) fn read(machine: &Machine) -> Self {
        let cpu = "/sys/devices/system/cpu";
        let list = |name: &str| machine.cpu_list(format!("{cpu}/{name}")).unwrap_or_default();
        let mut online = list("online");
        if online.is_empty() {
            // A kernel for one CPU has no such file.
            online = [0].into_iter().collect();
        }
        let mut cores: Vec<CpuList> = online
            .iter()
            .filter_map(|cpu_number| machine.cpu_list(format!("{cpu}/cpu{cpu_number}/topology/thread_siblings_list")))
            .filter(|threads| threads.len() > 1)
            .collect();
        cores.sort();
        cores.dedup();
        let nodes = machine.numbers("/sys/devices/system/node", "node").into_iter();
        let nodes = nodes
            .filter_map(|node| Some((node, machine.cpu_list(format!("/sys/devices/system/node/node{node}/cpulist"))?)));
        Self {
            present: list("present").union(&online),
            isolated: list("isolated"),
            nohz_full: list("nohz_full"),
            nodes: nodes.collect(),
            cores,
            online,
        }
    }

    /// All threads of a CPU's core that are online, itself included.
    pub(super) fn core_of(&self, cpu: u32) -> CpuList {
        let core = self.cores.iter().find(|core| core.contains(cpu));
        core.map_or_else(|| [cpu].into_iter().collect(), |core| core.common(&self.online))
    }

    pub(super) fn nodes_of(&self, cpus: &CpuList) -> CpuList {
        self.nodes.iter().filter(|(_, members)| members.meets(cpus)).map(|(node, _)| *node).collect()
    }
}
