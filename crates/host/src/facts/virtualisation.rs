//! Whether the machine is a guest, and of what.

use super::{CpuInfo, read};
use crate::knob::Machine;

/// Words in DMI's vendor and product strings, and the hypervisor. The first match counts: clouds add names of their own.
const DMI: [(&str, &str); 12] = [
    ("VMware", "vmware"),
    ("VirtualBox", "virtualbox"),
    ("innotek", "virtualbox"),
    ("Microsoft Corporation", "hyper-v"),
    ("Parallels", "parallels"),
    ("Xen", "xen"),
    ("Amazon EC2", "kvm (Amazon)"),
    ("Google", "kvm (Google)"),
    ("OpenStack", "kvm (OpenStack)"),
    ("KVM", "kvm"),
    ("QEMU", "qemu"),
    ("Bochs", "bochs"),
];

/// The hypervisor's name, `none` on bare metal, `None` when it is not known.
pub(crate) fn name(machine: &Machine, cpu: &CpuInfo) -> Option<String> {
    // Xen's dom0 has the same file: it is the host's own kernel and no less under the hypervisor.
    if let Some(kind) = read(machine, "/sys/hypervisor/type").filter(|kind| !kind.is_empty()) {
        return Some(kind);
    }
    // On bare metal DMI may name a vendor that also makes hypervisors, so the CPU's own word goes first.
    if cpu.hypervisor == Some(false) {
        return Some("none".to_owned());
    }
    let strings: Vec<String> = ["sys_vendor", "product_name", "product_version", "bios_vendor", "board_vendor"]
        .iter()
        .filter_map(|name| read(machine, &format!("/sys/class/dmi/id/{name}")))
        .collect();
    let by_dmi = DMI.iter().find(|(word, _)| strings.iter().any(|string| string.contains(word)));
    if let Some((_, name)) = by_dmi {
        return Some((*name).to_owned());
    }
    // ARM guests of QEMU have a device tree and no flags.
    if let Some(compatible) = read(machine, "/proc/device-tree/hypervisor/compatible") {
        return Some(compatible.split([',', '\0']).next_back().unwrap_or_default().to_owned());
    }
    // A clock source of a hypervisor identifies it where DMI is empty (small virtual machine monitors).
    let clocks =
        read(machine, "/sys/devices/system/clocksource/clocksource0/available_clocksource").unwrap_or_default();
    let by_clock = [("kvm-clock", "kvm"), ("hyperv_clocksource", "hyper-v"), ("xen", "xen")];
    if let Some((_, name)) = by_clock.iter().find(|(clock, _)| clocks.contains(clock)) {
        return Some((*name).to_owned());
    }
    (cpu.hypervisor == Some(true)).then(|| "unknown hypervisor".to_owned())
}

pub(crate) fn product(machine: &Machine) -> Option<String> {
    let id = |name: &str| read(machine, &format!("/sys/class/dmi/id/{name}")).filter(|text| !text.is_empty());
    let system: Vec<String> = [id("sys_vendor"), id("product_name")].into_iter().flatten().collect();
    let board: Vec<String> = [id("board_vendor"), id("board_name")].into_iter().flatten().collect();
    let (system, board) = (system.join(" "), board.join(" "));
    match (system.is_empty(), board.is_empty()) {
        (true, true) => read(machine, "/proc/device-tree/model").filter(|model| !model.is_empty()),
        (false, true) => Some(system),
        (true, false) => Some(board),
        (false, false) => Some(if system == board { system } else { format!("{system} ({board})") }),
    }
}
