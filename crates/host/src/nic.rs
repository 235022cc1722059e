//! What belongs to a network device: interrupts, queues, NAPI instances and threads, steering files, its NUMA node.
//!
//! Only reads: sysfs below a root (trees of files in tests), netlink of the running system alone. /sys shows the
//! network namespace that mounted it: another device of the calling thread's namespace is refused.

use crate::irqs::{Irq, irq_of_thread};
use crate::knob::{Form, Knob, Machine, Settings, TaskKey, napi};
use model::CpuList;
use std::path::{Path, PathBuf};

pub use napi::Napi;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NicError {
    #[error("there is no network device '{device}'; there are {known}")]
    Absent { device: String, known: String },
    /// /sys shows another network namespace.
    #[error("/sys does not show the network namespace that '{0}' is in: use `ip netns exec`, which mounts it anew")]
    OtherNamespace(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NicQueue {
    pub transmits: bool,
    pub number: u32,
    /// CPUs that share receiving from it (RPS) or send through it (XPS); absent where the kernel does not offer that.
    pub steering: Option<CpuList>,
    device: String,
}

impl NicQueue {
    /// Its mask of RPS or XPS, to be set through the undo log.
    pub fn knob(&self) -> Knob {
        Knob::file(queue_file(&self.device, self.transmits, self.number), Form::CpuMask)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NicMap {
    pub device: String,
    pub irqs: Vec<Irq>,
    /// Its queues: those that receive, then those that send, ascending.
    pub queues: Vec<NicQueue>,
    /// Its NAPI instances by id; on kernels without netlink family `netdev` only those that have a thread.
    pub napis: Vec<Napi>,
    /// Its NUMA node; absent where the machine has none or the device is not on a bus.
    pub numa_node: Option<u32>,
    pub local_cpus: Option<CpuList>,
}

/// What XDP can do on a device of this namespace (enum netdev_xdp_act); `None` where the kernel does not tell.
pub fn xdp_features(device: &str) -> Option<u64> {
    napi::xdp_features(nix::net::if_::if_nametoindex(device).ok()?)
}

/// The number of the XDP program that is attached to a device of this namespace; `None` also where the kernel does not tell.
pub fn xdp_program(device: &str) -> Option<u32> {
    let index = nix::net::if_::if_nametoindex(device).ok()?;
    netlink::Socket::route().ok()?.link(index).ok()?.xdp_program
}

impl NicMap {
    /// Looks at a device of this namespace, which /sys must show.
    pub fn of(machine: &Machine, device: &str) -> Result<Self, NicError> {
        let running = machine.is_running();
        let class = class(device);
        let plain = !device.is_empty() && !device.contains('/') && !device.starts_with('.');
        let listed = number(machine, &class.join("ifindex")).filter(|_| plain);
        let real = if running { nix::net::if_::if_nametoindex(device).ok() } else { listed };
        let index = match (listed, real) {
            (_, None) => return Err(NicError::Absent { device: device.to_owned(), known: known(machine) }),
            (listed, Some(real)) if listed != Some(real) => {
                return Err(NicError::OtherNamespace(device.to_owned()));
            }
            (_, Some(real)) => real,
        };
        let mut napis = if running { napi::napis(index) } else { Vec::new() };
        add_threads(machine, device, index, &mut napis);
        let mut queues = Vec::new();
        for (transmits, prefix) in [(false, "rx-"), (true, "tx-")] {
            for number in machine.numbers(class.join("queues"), prefix) {
                let mut queue = NicQueue { transmits, number, steering: None, device: device.to_owned() };
                queue.steering = machine.read(&queue.knob()).ok().and_then(|text| CpuList::from_mask(&text));
                queues.push(queue);
            }
        }
        Ok(Self {
            device: device.to_owned(),
            irqs: irq_numbers(machine, device, &napis).into_iter().map(|number| Irq::of(machine, number)).collect(),
            queues,
            napis,
            numa_node: number(machine, &class.join("device/numa_node")),
            local_cpus: local_cpus(machine, device),
        })
    }

    /// What is known of a device of the running system without /sys: its NAPI instances.
    pub fn by_netlink(device: &str) -> Result<Self, NicError> {
        let index = nix::net::if_::if_nametoindex(device);
        let absent = |_| NicError::Absent { device: device.to_owned(), known: known(&Machine::running()) };
        Ok(Self { device: device.to_owned(), napis: napi::napis(index.map_err(absent)?), ..Self::default() })
    }

    pub fn threads(&self) -> impl Iterator<Item = i32> + '_ {
        self.napis.iter().filter_map(|napi| napi.pid)
    }

    /// The kernel's threads that handle its interrupts or poll it. A program may call itself as they are called.
    pub fn all_threads(&self, machine: &Machine) -> Vec<TaskKey> {
        let of_irq = |number: u32| self.irqs.iter().any(|irq| irq.number == number);
        let handles = crate::tasks::processes(machine).filter(|(_, name)| irq_of_thread(name).is_some_and(of_irq));
        let tids = handles.map(|(tid, _)| tid).chain(self.threads());
        let tasks = tids.filter_map(|tid| crate::tasks::of(machine, tid)).filter(|task| task.kernel);
        tasks.map(|task| task.key).collect()
    }
}

pub fn devices(machine: &Machine) -> Vec<String> {
    let mut names = machine.names("/sys/class/net").unwrap_or_default();
    names.retain(|name| name != "bonding_masters");
    names
}

pub fn known(machine: &Machine) -> String {
    match devices(machine) {
        names if names.is_empty() => "none".to_owned(),
        names => names.join(", "),
    }
}

fn class(device: &str) -> PathBuf {
    Path::new("/sys/class/net").join(device)
}

fn queue_file(device: &str, transmits: bool, number: u32) -> PathBuf {
    let (queue, file) = if transmits { ("tx", "xps_cpus") } else { ("rx", "rps_cpus") };
    class(device).join(format!("queues/{queue}-{number}/{file}"))
}

fn number(machine: &Machine, path: &Path) -> Option<u32> {
    machine.trimmed(path).ok()?.parse().ok()
}

/// CPUs near a device; `None` where the bus does not tell.
pub fn local_cpus(machine: &Machine, device: &str) -> Option<CpuList> {
    ["device/local_cpulist", "device/../local_cpulist"]
        .iter()
        .find_map(|file| machine.cpu_list(class(device).join(file)))
}

/// A device's interrupts: those of its function on the bus (MSI-X, else the one line), else of its NAPI instances.
pub fn irq_numbers(machine: &Machine, device: &str, napis: &[Napi]) -> Vec<u32> {
    let device = class(device).join("device");
    let mut found = machine.numbers(device.join("msi_irqs"), "");
    let virtio = machine.trimmed(device.join("modalias")).is_ok_and(|alias| alias.starts_with("virtio:"));
    if found.is_empty() && virtio {
        // The function on the bus is one level up. Not so for others, where that is a bridge with interrupts of its own.
        found = machine.numbers(device.join("../msi_irqs"), "");
    }
    if found.is_empty() {
        found.extend(number(machine, &device.join("irq")).filter(|&number| number != 0));
    }
    if found.is_empty() {
        found.extend(napis.iter().filter_map(|napi| napi.irq));
        found.sort_unstable();
        found.dedup();
    }
    found
}

/// Threads by their names, `napi/eth0-8193`, for kernels that do not tell them over netlink.
fn add_threads(machine: &Machine, device: &str, device_index: u32, napis: &mut Vec<Napi>) {
    if napis.iter().any(|napi| napi.threaded.is_some()) {
        return;
    }
    for (pid, name) in crate::tasks::processes(machine) {
        let Some(id) = thread_of(&name, device) else { continue };
        match napis.iter_mut().find(|napi| napi.id == id) {
            Some(napi) => napi.pid = Some(pid),
            None => napis.push(Napi { device_index, id, pid: Some(pid), ..Napi::default() }),
        }
    }
}

fn thread_of(name: &str, device: &str) -> Option<u32> {
    name.strip_prefix("napi/")?.strip_prefix(device)?.strip_prefix('-')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_told_by_device() {
        assert_eq!(thread_of("napi/eth0-8193", "eth0"), Some(8193));
        assert_eq!(thread_of("napi/eth01-8193", "eth0"), None);
        assert_eq!(thread_of("napi/eth0-1-8194", "eth0-1"), Some(8194));
        assert_eq!(thread_of("napi/eth0-1-8194", "eth0"), None);
        assert_eq!(thread_of("ksoftirqd/0", "eth0"), None);
    }

    #[test]
    fn loopback_has_queues_and_no_interrupts() {
        let map = NicMap::of(&Machine::running(), "lo").unwrap();
        assert_eq!(map.irqs, []);
        assert!(map.queues.iter().any(|queue| !queue.transmits), "{map:?}");
        let error = NicMap::of(&Machine::running(), "../net/lo").unwrap_err();
        assert!(matches!(error, NicError::Absent { .. }), "{error}");
        let error = NicMap::of(&Machine::running(), "nope0").unwrap_err().to_string();
        assert!(error.contains("nope0") && error.contains("lo"), "{error}");
    }
}
