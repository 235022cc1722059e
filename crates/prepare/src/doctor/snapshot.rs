//! Facts that no file has (ioctl, netlink, measurements), read once. Fixtures have a `windhover-snapshot.json`.

use super::measure::Measured;
use host::knob::{EthtoolPart, Knob, Machine, Settings as _};
use host::nic::Napi;
use model::HostFacts;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

/// Where a tree of files keeps its snapshot.
pub const SNAPSHOT_FILE: &str = "/windhover-snapshot.json";

/// The snapshot of a tree of files cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the snapshot {}: {cause}; store it anew, or remove it to examine files alone", file.display())]
pub struct SnapshotError {
    file: PathBuf,
    /// Of the kernel, or what is no snapshot in it.
    cause: io::Error,
}

/// Answers of system calls at one moment.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Snapshot {
    pub host: HostFacts,
    /// What `host` does not say of a device, by its name.
    pub devices: BTreeMap<String, Device>,
    pub measured: Option<Measured>,
}

/// More of a network device. Absent: not known.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Device {
    /// Pause frames (ethtool -a): `autoneg`, `rx`, `tx`.
    pub pause: BTreeMap<String, bool>,
    /// Whether Energy-Efficient Ethernet is enabled (ethtool --show-eee).
    pub eee: Option<bool>,
    /// Its interrupts, where only system calls tell.
    pub irqs: Vec<u32>,
    /// Its NAPI instances (netlink family `netdev`).
    pub napi: Vec<Napi>,
    /// Flow rules (ethtool -n), as text.
    pub flow_rules: Option<Vec<String>>,
    /// What XDP can do on it (netlink family `netdev`): the bits of `XDP_IN_DRIVER` and the like.
    pub xdp_features: Option<u64>,
    /// The number of the XDP program that is attached to it.
    pub xdp_program: Option<u32>,
}

/// Bit of [`Device::xdp_features`]: the driver runs programs and redirects packets.
pub(super) const XDP_IN_DRIVER: u64 = 0b11;
/// Bit of [`Device::xdp_features`]: AF_XDP without copies.
pub(super) const XDP_ZERO_COPY: u64 = 0b1000;

impl Snapshot {
    /// By system calls, or from a tree's file; empty where there is none, an error where it cannot be read.
    pub fn take(machine: &Machine) -> Result<Self, SnapshotError> {
        if machine.is_running() {
            let host = host::facts::host(machine);
            let devices = host.nics.iter().map(|nic| (nic.name.clone(), device(machine, &nic.name))).collect();
            return Ok(Self { host, devices, measured: None });
        }
        let stored = match machine.text(SNAPSHOT_FILE) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { host: host::facts::host(machine), ..Self::default() });
            }
            text => text.and_then(|text| Ok(serde_json::from_str(&text)?)),
        };
        stored.map_err(|cause| SnapshotError { file: machine.path(SNAPSHOT_FILE.as_ref()), cause })
    }
}

fn device(machine: &Machine, name: &str) -> Device {
    let mut told = Device::default();
    let ask = |part, what: &str| {
        let knob = Knob::Ethtool { device: name.to_owned(), part, name: what.to_owned() };
        machine.read(&knob).ok().map(|value| value == "on")
    };
    for what in ["autoneg", "rx", "tx"] {
        told.pause.extend(ask(EthtoolPart::Pause, what).map(|on| (what.to_owned(), on)));
    }
    told.xdp_features = host::nic::xdp_features(name);
    told.xdp_program = host::nic::xdp_program(name);
    told.eee = ask(EthtoolPart::Eee, "enabled");
    if let Ok(map) = host::nic::NicMap::of(machine, name) {
        told.irqs = map.irqs.iter().map(|irq| irq.number).collect();
        told.napi = map.napis;
    }
    told
}
