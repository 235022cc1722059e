//! Network devices of the calling thread's network namespace.
//!
//! Asked for by system calls and not in /sys/class/net, which shows the namespace it was mounted in. Only what hangs on
//! the bus (NUMA node, PCI numbers) is read there, by the bus address that the driver names.

use super::read;
use crate::ethtool::Ethtool;
use crate::knob::ethtool::values;
use crate::knob::{EthtoolPart, Machine};
use crate::qdisc;
use model::NicFacts;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nameindex;
use std::collections::BTreeMap;
use std::net::IpAddr;

pub(crate) fn all(machine: &Machine) -> Vec<NicFacts> {
    let Ok(interfaces) = if_nameindex() else { return Vec::new() };
    let mut addresses = addresses();
    let roots = qdisc::roots();
    let ethtool = Ethtool::open().ok();
    let pci_ids = ["/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids"].iter().find_map(|path| read(machine, path));
    let mut nics: Vec<NicFacts> = interfaces
        .iter()
        .map(|interface| {
            let name = interface.name().to_string_lossy().into_owned();
            let mut nic = NicFacts {
                addresses: addresses.remove(&name).unwrap_or_default(),
                qdisc: roots.iter().find(|root| root.interface == interface.index()).map(|root| root.kind.clone()),
                ..NicFacts::default()
            };
            if let Some(ethtool) = &ethtool {
                ask(ethtool, &name, &mut nic);
            }
            if let Some(bus) = &nic.bus {
                nic.numa_node = bus_file(machine, bus, "numa_node").and_then(|text| text.parse().ok());
                nic.model = model(machine, bus, pci_ids.as_deref());
            }
            nic.name = name;
            nic
        })
        .collect();
    nics.sort_by(|a, b| a.name.cmp(&b.name));
    nics
}

fn ask(ethtool: &Ethtool, name: &str, nic: &mut NicFacts) {
    if let Some(driver) = ethtool.driver(name) {
        nic.driver = driver.name;
        nic.driver_version = driver.version;
        nic.firmware = driver.firmware;
        nic.bus = driver.bus;
    }
    nic.speed_mbps = ethtool.speed(name);
    nic.link = ethtool.link(name);
    nic.mtu = ethtool.mtu(name);
    nic.coalesce = values(ethtool, name, EthtoolPart::Coalesce);
    nic.rings = values(ethtool, name, EthtoolPart::Ring);
    nic.channels = values(ethtool, name, EthtoolPart::Channels);
    nic.offloads = ethtool.features(name).unwrap_or_default();
}

fn addresses() -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let Ok(entries) = getifaddrs() else { return found };
    for entry in entries {
        let ip = |address: Option<nix::sys::socket::SockaddrStorage>| -> Option<IpAddr> {
            let address = address?;
            let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
        };
        let Some(address) = ip(entry.address) else { continue };
        let prefix = match ip(entry.netmask) {
            Some(IpAddr::V4(mask)) => mask.to_bits().count_ones(),
            Some(IpAddr::V6(mask)) => mask.to_bits().count_ones(),
            None => continue,
        };
        found.entry(entry.interface_name).or_default().push(format!("{address}/{prefix}"));
    }
    found
}

/// A file of the device on its bus. Addresses of PCI devices are names of folders; others are followed no further.
fn bus_file(machine: &Machine, bus: &str, file: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || ":._-".contains(c);
    if bus.is_empty() || !bus.chars().all(plain) || bus.starts_with('.') {
        return None;
    }
    ["pci", "virtio", "usb", "vmbus"]
        .iter()
        .find_map(|kind| read(machine, &format!("/sys/bus/{kind}/devices/{bus}/{file}")))
}

fn model(machine: &Machine, bus: &str, pci_ids: Option<&str>) -> Option<String> {
    let number = |file: &str| bus_file(machine, bus, file)?.strip_prefix("0x").map(str::to_owned);
    let (vendor, device) = (number("vendor")?, number("device")?);
    let named = pci_ids.and_then(|text| parse_pci_ids(text, &vendor, &device));
    Some(named.unwrap_or_else(|| format!("{vendor}:{device}")))
}

/// Names of a vendor and its device in pci.ids, where devices follow their vendor after a tab; `None`: not listed.
pub fn parse_pci_ids(text: &str, vendor: &str, device: &str) -> Option<String> {
    let named = |line: &str, number: &str| Some(line.strip_prefix(number)?.strip_prefix("  ")?.trim().to_owned());
    let mut lines = text.lines();
    let vendor_name = lines.by_ref().find_map(|line| named(line, vendor))?;
    lines
        .take_while(|line| line.starts_with('\t') || line.starts_with('#'))
        .find_map(|line| named(line.strip_prefix('\t')?, device))
        .map(|device_name| format!("{vendor_name} {device_name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_device_only_under_its_vendor() {
        let text = "# ids\n10ec  Realtek\n\t10fb  Other card\n8086  Intel Corporation\n\t10fa  Before\n\t10fb  82599ES 10-Gigabit\n\t\t1028 1f72  Variant\n8087  Intel again\n\t10fc  X\n";
        assert_eq!(parse_pci_ids(text, "8086", "10fb").as_deref(), Some("Intel Corporation 82599ES 10-Gigabit"));
        assert_eq!(parse_pci_ids(text, "8086", "10fc"), None);
        assert_eq!(parse_pci_ids(text, "1924", "10fb"), None);
    }

    #[test]
    fn the_loopback_device_is_among_them_with_its_address() {
        let nics = all(&Machine::running());
        let lo = nics.iter().find(|nic| nic.name == "lo").unwrap();
        assert!(lo.addresses.contains(&"127.0.0.1/8".to_owned()), "{lo:?}");
        assert_eq!(lo.link, Some(true));
        assert_eq!(lo.numa_node, None);
        assert!(lo.mtu.is_some());
    }
}
