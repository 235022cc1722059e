//! NAPI instances over the netlink family `netdev` (Documentation/networking/napi.rst,
//! Documentation/netlink/specs/netdev.yaml), in the calling thread's network namespace.

use super::device::DeviceError;
use super::generic::{Family, objects};
use netlink::{Asks, Attributes, number, uint};
use std::io;

const NAPI_GET: u8 = 11;
const NAPI_SET: u8 = 14;

const NAPI_IFINDEX: u16 = 1;
const NAPI_ID: u16 = 2;
const NAPI_IRQ: u16 = 3;
const NAPI_PID: u16 = 4;
const NAPI_DEFER_HARD_IRQS: u16 = 5;
const NAPI_GRO_FLUSH_TIMEOUT: u16 = 6;
const NAPI_IRQ_SUSPEND_TIMEOUT: u16 = 7;
const NAPI_THREADED: u16 = 8;

/// The settings by the names that knobs have, with their attributes.
const SETTINGS: [(&str, u16); 4] = [
    ("threaded", NAPI_THREADED),
    ("defer-hard-irqs", NAPI_DEFER_HARD_IRQS),
    ("gro-flush-timeout", NAPI_GRO_FLUSH_TIMEOUT),
    ("irq-suspend-timeout", NAPI_IRQ_SUSPEND_TIMEOUT),
];
/// Words for the values of `threaded` (enum netdev_napi_threaded).
const THREADED: [&str; 3] = ["off", "on", "busy-poll"];

/// A NAPI instance: what polls one or more queues of a device.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Napi {
    pub device_index: u32,
    pub id: u32,
    /// Its interrupt, where the driver gives it.
    pub irq: Option<u32>,
    /// Its kernel thread, where it has one.
    pub pid: Option<i32>,
    /// How often hard interrupts are put off before they are armed again.
    pub defer_hard_irqs: Option<u64>,
    /// Time until GRO is flushed and interrupts are armed again, in ns.
    pub gro_flush_timeout_ns: Option<u64>,
    /// Time that interrupts stay suspended while an application busy-polls, in ns.
    pub irq_suspend_timeout_ns: Option<u64>,
    /// Whether a thread polls it: 0 no, 1 yes, 2 it spins. Stored snapshots may say `true` or `false`.
    #[serde(deserialize_with = "threaded")]
    pub threaded: Option<u64>,
}

impl Napi {
    /// A setting by the name that its knob has; absent where the kernel does not tell it.
    pub fn setting(&self, name: &str) -> Option<u64> {
        match name {
            "threaded" => self.threaded,
            "defer-hard-irqs" => self.defer_hard_irqs,
            "gro-flush-timeout" => self.gro_flush_timeout_ns,
            _ => self.irq_suspend_timeout_ns,
        }
    }
}

fn threaded<'de, D: serde::Deserializer<'de>>(stored: D) -> Result<Option<u64>, D::Error> {
    use serde::Deserialize as _;

    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Threaded {
        Switch(bool),
        Number(u64),
    }
    let found = Option::<Threaded>::deserialize(stored)?;
    Ok(found.map(|threaded| match threaded {
        Threaded::Switch(is_on) => u64::from(is_on),
        Threaded::Number(number) => number,
    }))
}

/// The instances in one datagram of an answer, for fuzzers.
pub(crate) fn exercise(bytes: &[u8]) {
    let _ = objects(bytes, napi_of);
}

fn napi_of(attributes: Attributes<'_>) -> Option<Napi> {
    let mut napi = Napi::default();
    let small = |payload| number(payload).and_then(|value| u32::try_from(value).ok());
    for (kind, payload) in attributes {
        match kind {
            NAPI_IFINDEX => napi.device_index = small(payload)?,
            NAPI_ID => napi.id = small(payload)?,
            NAPI_IRQ => napi.irq = small(payload),
            NAPI_PID => napi.pid = small(payload).and_then(|pid| i32::try_from(pid).ok()),
            NAPI_DEFER_HARD_IRQS => napi.defer_hard_irqs = number(payload),
            NAPI_GRO_FLUSH_TIMEOUT => napi.gro_flush_timeout_ns = number(payload),
            NAPI_IRQ_SUSPEND_TIMEOUT => napi.irq_suspend_timeout_ns = number(payload),
            NAPI_THREADED => napi.threaded = number(payload),
            _ => {}
        }
    }
    (napi.id != 0).then_some(napi)
}

/// The family; absent on kernels before 6.3 or so.
fn family() -> Result<Family, DeviceError> {
    Family::open("netdev")?.ok_or(DeviceError::Absent)
}

/// Kernels that have the family but not the command, and removed instances.
fn absent(cause: io::Error) -> DeviceError {
    match cause.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::ENOENT | libc::ENODEV) => DeviceError::Absent,
        _ => DeviceError::Failed(cause),
    }
}

/// The NAPI instances of a device by its index; empty where the kernel does not tell.
pub(crate) fn napis(device_index: u32) -> Vec<Napi> {
    let mut found = Vec::new();
    if let Ok(family) = family() {
        let request = family.request(NAPI_GET, Asks::All).with(NAPI_IFINDEX, &device_index.to_ne_bytes());
        let _ = family.exchange(request, |attributes| found.extend(napi_of(attributes)));
    }
    found.retain(|napi| napi.device_index == device_index);
    found.sort_by_key(|napi| napi.id);
    found
}

/// XDP of a device by its index (enum netdev_xdp_act: 1 in the driver, 2 redirects, 8 zero copy); `None`: not known.
pub(crate) fn xdp_features(device_index: u32) -> Option<u64> {
    const DEVICE_GET: u8 = 1;
    const DEVICE_IFINDEX: u16 = 1;
    const DEVICE_XDP_FEATURES: u16 = 3;
    let family = family().ok()?;
    let request = family.request(DEVICE_GET, Asks::One).with(DEVICE_IFINDEX, &device_index.to_ne_bytes());
    let mut found = None;
    let features = |attributes: Attributes<'_>| {
        attributes.into_iter().find(|(kind, _)| *kind == DEVICE_XDP_FEATURES).and_then(|(_, payload)| number(payload))
    };
    family.exchange(request, |attributes| found = found.or(features(attributes))).ok()?;
    found
}

fn one(family: &Family, device: &str, id: u32) -> Result<Napi, DeviceError> {
    let index = nix::net::if_::if_nametoindex(device).map_err(|_| DeviceError::Absent)?;
    let mut found = None;
    let request = family.request(NAPI_GET, Asks::One).with(NAPI_ID, &id.to_ne_bytes());
    family.exchange(request, |attributes| found = napi_of(attributes)).map_err(absent)?;
    found.filter(|napi| napi.device_index == index).ok_or(DeviceError::Absent)
}

pub(super) fn read(device: &str, id: u32, name: &str) -> Result<String, DeviceError> {
    let (_, attribute) = setting(name)?;
    let value = one(&family()?, device, id)?.setting(name).ok_or(DeviceError::Absent)?;
    let word = usize::try_from(value).ok().and_then(|value| THREADED.get(value));
    Ok(match word {
        Some(word) if attribute == NAPI_THREADED => (*word).to_owned(),
        _ => value.to_string(),
    })
}

pub(super) fn write(device: &str, id: u32, name: &str, value: &str) -> Result<(), DeviceError> {
    let (_, attribute) = setting(name)?;
    let word = THREADED.iter().zip(0_u64..).find(|(word, _)| attribute == NAPI_THREADED && **word == value);
    let wanted = match word {
        Some((_, wanted)) => wanted,
        None => value.parse().map_err(|_| DeviceError::Unsupported(format!("'{value}' is not a value of {name}")))?,
    };
    let family = family()?;
    // So that an id that went to another device is not touched.
    one(&family, device, id)?;
    let request = family.request(NAPI_SET, Asks::One).with(NAPI_ID, &id.to_ne_bytes()).with(attribute, &uint(wanted));
    family.exchange(request, |_| {}).map_err(DeviceError::Failed)
}

fn setting(name: &str) -> Result<(&'static str, u16), DeviceError> {
    SETTINGS.into_iter().find(|(known, _)| *known == name).ok_or_else(|| {
        let known: Vec<&str> = SETTINGS.iter().map(|(name, _)| *name).collect();
        DeviceError::Unsupported(format!("a NAPI instance has {}", known.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink::Request;

    #[test]
    fn an_instance_with_short_and_long_numbers() {
        // Kernels send `uint` with 4 bytes where these do, else 8.
        let bytes = Request::new(0x1c, Asks::One, &[NAPI_GET, 1, 0, 0])
            .with(NAPI_ID, &8193_u32.to_ne_bytes())
            .with(NAPI_IFINDEX, &2_u32.to_ne_bytes())
            .with(NAPI_PID, &71_u32.to_ne_bytes())
            .with(NAPI_DEFER_HARD_IRQS, &2_u32.to_ne_bytes())
            .with(NAPI_GRO_FLUSH_TIMEOUT, &200_000_u32.to_ne_bytes())
            .with(NAPI_IRQ_SUSPEND_TIMEOUT, &20_000_000_000_u64.to_ne_bytes())
            .with(NAPI_THREADED, &1_u32.to_ne_bytes())
            .with(99, &[1, 2, 3])
            .finish();
        let expected = Napi {
            device_index: 2,
            id: 8193,
            irq: None,
            pid: Some(71),
            defer_hard_irqs: Some(2),
            gro_flush_timeout_ns: Some(200_000),
            irq_suspend_timeout_ns: Some(20_000_000_000),
            threaded: Some(1),
        };
        assert_eq!(objects(&bytes, napi_of), [expected]);
    }
}
