//! Coalescing, rings, channels, features, pause frames and Energy-Efficient Ethernet over SIOCETHTOOL
//! (linux/ethtool.h): a structure is read, one field changed, and written back. Drivers may round values; the caller
//! judges the value read back.

use super::EthtoolPart;
use super::device::DeviceError;
use super::generic::Family;
use crate::ethtool::Ethtool;
use netlink::{Asks, Attributes, NESTED, attribute};
use std::collections::BTreeMap;

// Words after the command, as in linux/ethtool.h.
static COALESCE_NAMES: [&str; 22] = [
    "rx-usecs",
    "rx-frames",
    "rx-usecs-irq",
    "rx-frames-irq",
    "tx-usecs",
    "tx-frames",
    "tx-usecs-irq",
    "tx-frames-irq",
    "stats-block-usecs",
    "adaptive-rx",
    "adaptive-tx",
    "pkt-rate-low",
    "rx-usecs-low",
    "rx-frames-low",
    "tx-usecs-low",
    "tx-frames-low",
    "pkt-rate-high",
    "rx-usecs-high",
    "rx-frames-high",
    "tx-usecs-high",
    "tx-frames-high",
    "sample-interval",
];
static RING_NAMES: [&str; 8] = ["rx-max", "rx-mini-max", "rx-jumbo-max", "tx-max", "rx", "rx-mini", "rx-jumbo", "tx"];
static CHANNEL_NAMES: [&str; 8] = ["rx-max", "tx-max", "other-max", "combined-max", "rx", "tx", "other", "combined"];
static PAUSE_NAMES: [&str; 3] = ["autoneg", "rx", "tx"];
static EEE_NAMES: [&str; 7] = ["supported", "advertised", "lp-advertised", "active", "enabled", "tx-lpi", "tx-timer"];

/// The most words that follow the named ones (`struct ethtool_eee`).
const RESERVED: usize = 2;

/// How a part is read, and written by the command that follows.
struct Layout {
    get: u32,
    names: &'static [&'static str],
    read_only: &'static [&'static str],
    switches: &'static [&'static str],
}

fn layout(part: EthtoolPart) -> Option<Layout> {
    let (get, names, read_only, switches): (u32, &'static [&str], &'static [&str], &'static [&str]) = match part {
        EthtoolPart::Coalesce => (0x0e, &COALESCE_NAMES, &[], &["adaptive-rx", "adaptive-tx"]),
        EthtoolPart::Ring => (0x10, &RING_NAMES, &RING_NAMES[..4], &[]),
        EthtoolPart::Channels => (0x3c, &CHANNEL_NAMES, &CHANNEL_NAMES[..4], &[]),
        EthtoolPart::Pause => (0x12, &PAUSE_NAMES, &[], &PAUSE_NAMES),
        EthtoolPart::Eee => (0x44, &EEE_NAMES, &EEE_NAMES[..4], &["active", "enabled", "tx-lpi"]),
        EthtoolPart::Feature => return None,
    };
    Some(Layout { get, names, read_only, switches })
}

/// Short and long names that ethtool(8) has for features, with the kernel's names of what they switch.
const FEATURES: [(&str, &str, &[&str]); 13] = [
    ("rx", "rx-checksumming", &["rx-checksum"]),
    (
        "tx",
        "tx-checksumming",
        &["tx-checksum-ipv4", "tx-checksum-ip-generic", "tx-checksum-ipv6", "tx-checksum-fcoe-crc", "tx-checksum-sctp"],
    ),
    ("sg", "scatter-gather", &["tx-scatter-gather", "tx-scatter-gather-fraglist"]),
    (
        "tso",
        "tcp-segmentation-offload",
        &["tx-tcp-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp-mangleid-segmentation", "tx-tcp6-segmentation"],
    ),
    ("gso", "generic-segmentation-offload", &["tx-generic-segmentation"]),
    ("gro", "generic-receive-offload", &["rx-gro"]),
    ("lro", "large-receive-offload", &["rx-lro"]),
    ("rxvlan", "rx-vlan-offload", &["rx-vlan-hw-parse"]),
    ("txvlan", "tx-vlan-offload", &["tx-vlan-hw-insert"]),
    ("ntuple", "ntuple-filters", &["rx-ntuple-filter"]),
    ("rxhash", "receive-hashing", &["rx-hashing"]),
    ("gro-hw", "rx-gro-hw", &["rx-gro-hw"]),
    ("gro-list", "rx-gro-list", &["rx-gro-list"]),
];

/// The kernel's names of what a feature's name switches: `tso` is four, `gro` and `rx-gro` are one.
pub fn features_of(name: &str) -> Vec<String> {
    let known = FEATURES.iter().find(|(short, long, _)| [short, long].contains(&&name));
    known.map_or_else(|| vec![name.to_owned()], |(.., kernel)| kernel.iter().map(|name| (*name).to_owned()).collect())
}

/// All names of features: the running kernel's, and those of ethtool(8). `None` where the kernel does not list its own.
pub fn feature_names() -> Option<Vec<String>> {
    // Each device lists all features, and every network namespace has this one.
    let kernel = Ethtool::open().ok()?.all_features("lo")?;
    let known = FEATURES.iter().flat_map(|(short, long, kernel)| [short, long].into_iter().chain(*kernel));
    Some(known.map(|name| (*name).to_owned()).chain(kernel).collect())
}

pub(super) fn canonical(part: EthtoolPart, name: &str) -> String {
    match part {
        EthtoolPart::Feature => match features_of(name).as_slice() {
            [one] => one.clone(),
            _ => name.to_owned(),
        },
        _ => name.to_owned(),
    }
}

/// The properties of a part that can be written; empty for features, which differ by device.
pub fn names(part: EthtoolPart) -> Vec<&'static str> {
    layout(part).map_or_else(Vec::new, |layout| {
        layout.names.iter().copied().filter(|name| !layout.read_only.contains(name)).collect()
    })
}

/// Whether a property is on or off, and not a number.
pub fn is_switch(part: EthtoolPart, name: &str) -> bool {
    layout(part).is_none_or(|layout| layout.switches.contains(&name))
}

pub(crate) fn values(ethtool: &Ethtool, device: &str, part: EthtoolPart) -> BTreeMap<String, u64> {
    let Some(layout) = layout(part) else { return BTreeMap::new() };
    let words = get(ethtool, device, &layout).unwrap_or_default();
    layout.names.iter().zip(words.iter().skip(1)).map(|(name, &word)| ((*name).to_owned(), word.into())).collect()
}

/// A property as text: `on`, `off` or a number.
pub(super) fn read(device: &str, part: EthtoolPart, name: &str) -> Result<String, DeviceError> {
    let ethtool = Ethtool::open()?;
    let Some(layout) = layout(part) else {
        return ethtool.feature(device, &one_feature(name)?)?.map(switch).ok_or(DeviceError::Absent);
    };
    let place = place(&layout, part, name)?;
    let words = get(&ethtool, device, &layout)?;
    let word = words.get(place).copied().unwrap_or(0);
    if part == EthtoolPart::Coalesce && word == 0 && coalesce_has(device, place) == Some(false) {
        return Err(DeviceError::Absent);
    }
    Ok(if layout.switches.contains(&name) { switch(word != 0) } else { word.to_string() })
}

/// Whether the driver has a coalescing parameter, by its place; `None` before Linux 5.7. The ioctl shows a missing one as 0.
fn coalesce_has(device: &str, place: usize) -> Option<bool> {
    const COALESCE_GET: u8 = 19;
    const HEADER: u16 = 1;
    const HEADER_DEVICE: u16 = 1;
    let index = nix::net::if_::if_nametoindex(device).ok()?;
    let family = Family::open("ethtool").ok()??;
    let device = attribute(HEADER_DEVICE, &index.to_ne_bytes());
    let request = family.request(COALESCE_GET, Asks::One).with(HEADER | NESTED, &device);
    let mut found = None;
    family.exchange(request, |attributes| found = Some(has(attributes, place))).ok()?;
    found
}

/// The attributes are in the structure's order, after the header.
fn has(mut attributes: Attributes<'_>, place: usize) -> bool {
    attributes.any(|(kind, _)| usize::from(kind) == place + 1)
}

pub(super) fn write(device: &str, part: EthtoolPart, name: &str, value: &str) -> Result<(), DeviceError> {
    let ethtool = Ethtool::open()?;
    let Some(layout) = layout(part) else {
        return ethtool.set_feature(device, &one_feature(name)?, parse_switch(value)?).map_err(DeviceError::Failed);
    };
    let place = place(&layout, part, name)?;
    if layout.read_only.contains(&name) {
        return Err(DeviceError::Unsupported("it can only be read".to_owned()));
    }
    let wanted = if layout.switches.contains(&name) {
        u32::from(parse_switch(value)?)
    } else {
        value.parse().map_err(|_| DeviceError::Unsupported(format!("'{value}' is not a number")))?
    };
    let mut words = get(&ethtool, device, &layout)?;
    if let Some(word) = words.get_mut(place) {
        *word = wanted;
    }
    if let Some(command) = words.first_mut() {
        *command = layout.get + 1;
    }
    // The driver's refusal is an error, also for a field that it does not know.
    ethtool.try_ask(device, &mut words).map(drop).map_err(DeviceError::Failed)
}

fn get(ethtool: &Ethtool, device: &str, layout: &Layout) -> Result<Vec<u32>, DeviceError> {
    let mut words = vec![0; 1 + layout.names.len() + RESERVED];
    if let Some(command) = words.first_mut() {
        *command = layout.get;
    }
    ethtool.try_ask(device, &mut words)?;
    Ok(words)
}

/// Where a field is in its structure, after the command.
fn place(layout: &Layout, part: EthtoolPart, name: &str) -> Result<usize, DeviceError> {
    let found = layout.names.iter().position(|known| *known == name).map(|place| place + 1);
    found.ok_or_else(|| DeviceError::Unsupported(format!("{} has {}", part.word(), layout.names.join(", "))))
}

fn one_feature(name: &str) -> Result<String, DeviceError> {
    match features_of(name).as_slice() {
        [one] => Ok(one.clone()),
        several => Err(DeviceError::Unsupported(format!("{name} is several features: {}", several.join(", ")))),
    }
}

fn switch(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

fn parse_switch(value: &str) -> Result<bool, DeviceError> {
    match value {
        "on" | "1" => Ok(true),
        "off" | "0" => Ok(false),
        _ => Err(DeviceError::Unsupported(format!("'{value}' is neither on nor off"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_its_place() {
        for part in
            [EthtoolPart::Coalesce, EthtoolPart::Ring, EthtoolPart::Channels, EthtoolPart::Pause, EthtoolPart::Eee]
        {
            let layout = layout(part).unwrap();
            assert!(layout.read_only.iter().chain(layout.switches).all(|name| layout.names.contains(name)));
        }
        for (part, writable) in
            [(EthtoolPart::Ring, "rx rx-mini rx-jumbo tx"), (EthtoolPart::Channels, "rx tx other combined")]
        {
            assert_eq!(names(part).join(" "), writable);
        }
        assert_eq!(names(EthtoolPart::Eee), ["enabled", "tx-lpi", "tx-timer"]);
        // Offsets of linux/ethtool.h, in words.
        let coalesce = layout(EthtoolPart::Coalesce).unwrap();
        assert_eq!(place(&coalesce, EthtoolPart::Coalesce, "rx-usecs").unwrap(), 1);
        assert_eq!(place(&coalesce, EthtoolPart::Coalesce, "adaptive-rx").unwrap(), 10);
        assert_eq!(place(&layout(EthtoolPart::Ring).unwrap(), EthtoolPart::Ring, "rx").unwrap(), 5);
        assert_eq!(place(&layout(EthtoolPart::Channels).unwrap(), EthtoolPart::Channels, "combined").unwrap(), 8);
        assert_eq!(place(&layout(EthtoolPart::Eee).unwrap(), EthtoolPart::Eee, "enabled").unwrap(), 5);
        assert!(place(&coalesce, EthtoolPart::Coalesce, "rx-usec").is_err());
    }

    #[test]
    fn parameters_that_are_left_out_are_not_there() {
        // rx-usecs is attribute 2, adaptive-rx 11 (linux/ethtool_netlink.h).
        let mut bytes = attribute(2, &0_u32.to_ne_bytes());
        bytes.extend(attribute(11, &[1]));
        let coalesce = layout(EthtoolPart::Coalesce).unwrap();
        let here = |name| has(Attributes(&bytes), place(&coalesce, EthtoolPart::Coalesce, name).unwrap());
        assert!(here("rx-usecs") && here("adaptive-rx"));
        assert!(!here("rx-frames") && !here("adaptive-tx") && !here("rx-usecs-irq"));
    }

    #[test]
    fn a_device_without_a_part_tells_nothing_of_it() {
        let ethtool = Ethtool::open().unwrap();
        for part in [EthtoolPart::Coalesce, EthtoolPart::Ring, EthtoolPart::Channels, EthtoolPart::Feature] {
            assert!(values(&ethtool, "lo", part).is_empty(), "{part:?}");
        }
    }

    #[test]
    fn names_of_features() {
        assert_eq!(features_of("gro"), ["rx-gro"]);
        assert_eq!(features_of("generic-receive-offload"), ["rx-gro"]);
        assert_eq!(features_of("rx-gro"), ["rx-gro"]);
        assert_eq!(features_of("tso").len(), 4);
        assert!(one_feature("tso").is_err());
    }
}
