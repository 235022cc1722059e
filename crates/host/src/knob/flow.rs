//! Flow rules (ethtool -N, receive classification): which queue a flow's messages go to.
//!
//! A rule as text: `udp4 src-ip 192.0.2.1 dst-ip 192.0.2.2 src-port 7000 dst-port 8000 queue 1`. The protocol (`udp4` or
//! `tcp4`) and the queue are needed; of the rest, what is left out may be anything. Rules of another kind that a device
//! holds already can neither be shown nor put back, so they are not touched.

use super::device::DeviceError;
use crate::ethtool::Ethtool;
use netlink::u32_at;
use std::net::Ipv4Addr;
use std::str::FromStr;

// linux/ethtool.h
const GRXCLSRLCNT: u32 = 0x2e;
const GRXCLSRULE: u32 = 0x2f;
const GRXCLSRLALL: u32 = 0x30;
const SRXCLSRLDEL: u32 = 0x31;
const SRXCLSRLINS: u32 = 0x32;
const TCP_V4_FLOW: u32 = 1;
const UDP_V4_FLOW: u32 = 2;
/// The highest bit of a table's size: the driver chooses locations by itself as well.
const SPECIAL_LOCATIONS: u64 = 0x8000_0000;
/// More rules than any table holds.
const MOST_RULES: u32 = 65_536;

// Offsets in `struct ethtool_rxnfc` where 64-bit numbers are aligned to 8 bytes, as on all 64-bit machines.
const SIZE: usize = 8;
const FLOW_TYPE: usize = 16;
const VALUE: usize = 20;
const MASK: usize = 92;
const MASK_EXTENSION: usize = 144;
const QUEUE: usize = 168;
const LOCATION: usize = 176;
const COUNT: usize = 184;
const LOCATIONS: usize = 188;
const BYTES: usize = 192;
/// Length of the unions that hold addresses and ports.
const UNION_BYTES: usize = 52;
const EXTENSION_BYTES: usize = 20;
/// Fields of a rule, each with place and length in `struct ethtool_tcpip4_spec`, in network order.
const FIELDS: [(&str, usize, usize); 4] = [("src-ip", 0, 4), ("dst-ip", 4, 4), ("src-port", 8, 2), ("dst-port", 10, 2)];
const FIELDS_BYTES: usize = 12;

/// Which flow goes to which queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowRule {
    tcp: bool,
    /// Values of [`FIELDS`], addresses and ports in network order; of a port the first two bytes.
    values: [Option<[u8; 4]>; 4],
    queue: u32,
}

impl std::fmt::Display for FlowRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.tcp { "tcp4" } else { "udp4" })?;
        for ((word, _, length), value) in FIELDS.into_iter().zip(self.values) {
            match value {
                Some(address) if length == 4 => write!(f, " {word} {}", Ipv4Addr::from(address))?,
                Some([high, low, ..]) => write!(f, " {word} {}", u16::from_be_bytes([high, low]))?,
                None => {}
            }
        }
        write!(f, " queue {}", self.queue)
    }
}

impl FromStr for FlowRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_ascii_whitespace();
        let tcp = match words.next() {
            Some("tcp4") => true,
            Some("udp4") => false,
            _ => return Err(format!("flow rule '{text}' does not begin with udp4 or tcp4")),
        };
        let (mut values, mut queue) = ([None; 4], None);
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("flow rule '{text}': '{word}' has no value"))?;
            let bad = || format!("flow rule '{text}': '{value}' is no value of {word}");
            let address = || value.parse::<Ipv4Addr>().map(|address| address.octets()).ok();
            let port = || value.parse::<u16>().map(|port| (u32::from(port) << 16).to_be_bytes()).ok();
            match FIELDS.iter().zip(&mut values).find(|((field, ..), _)| *field == word) {
                Some(((.., length), found)) => {
                    *found = Some(if *length == 4 { address() } else { port() }.ok_or_else(bad)?);
                }
                None if word == "queue" => queue = Some(value.parse().map_err(|_| bad())?),
                None => {
                    let known = FIELDS.map(|(field, ..)| field).join(", ");
                    return Err(format!("flow rule '{text}': '{word}' is none of {known}, queue"));
                }
            }
        }
        let queue = queue.ok_or_else(|| format!("flow rule '{text}' names no queue"))?;
        Ok(Self { tcp, values, queue })
    }
}

/// `struct ethtool_rxnfc` with a command and room for locations.
fn command(number: u32, locations: u32) -> Vec<u8> {
    let mut bytes = vec![0; (BYTES + 4 * locations as usize).next_multiple_of(8)];
    put(&mut bytes, 0, &number.to_ne_bytes());
    bytes
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(room) = bytes.get_mut(at..at + value.len()) {
        room.copy_from_slice(value);
    }
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn encode(rule: &FlowRule, location: u32) -> Vec<u8> {
    let mut bytes = command(SRXCLSRLINS, 0);
    put(&mut bytes, FLOW_TYPE, &if rule.tcp { TCP_V4_FLOW } else { UDP_V4_FLOW }.to_ne_bytes());
    for ((_, at, length), value) in FIELDS.into_iter().zip(rule.values) {
        if let Some(value) = value {
            put(&mut bytes, VALUE + at, &value[..length]);
            put(&mut bytes, MASK + at, &[0xff; 4][..length]);
        }
    }
    put(&mut bytes, QUEUE, &u64::from(rule.queue).to_ne_bytes());
    put(&mut bytes, LOCATION, &location.to_ne_bytes());
    bytes
}

/// The rule in a structure; `None` when it has more than a [`FlowRule`] can hold.
fn decode(bytes: &[u8]) -> Option<FlowRule> {
    let tcp = match u32_at(bytes, FLOW_TYPE)? {
        TCP_V4_FLOW => true,
        UDP_V4_FLOW => false,
        _ => return None,
    };
    let mut values = [None; 4];
    for ((_, at, length), found) in FIELDS.into_iter().zip(&mut values) {
        let mask = bytes.get(MASK + at..MASK + at + length)?;
        if mask.iter().all(|&byte| byte == 0xff) {
            let mut value = [0; 4];
            value[..length].copy_from_slice(bytes.get(VALUE + at..VALUE + at + length)?);
            *found = Some(value);
        } else if mask.iter().any(|&byte| byte != 0) {
            return None;
        }
    }
    // The type of service, and all that an extension can ask for.
    let further = bytes.get(MASK + FIELDS_BYTES..MASK + UNION_BYTES)?;
    let extension = bytes.get(MASK_EXTENSION..MASK_EXTENSION + EXTENSION_BYTES)?;
    let is_plain = further.iter().chain(extension).all(|&byte| byte == 0);
    // Dropping (all ones) and virtual functions are of another kind.
    let queue = u32::try_from(u64_at(bytes, QUEUE)?).ok()?;
    is_plain.then_some(FlowRule { tcp, values, queue })
}

fn table(ethtool: &Ethtool, device: &str) -> Result<(u64, Vec<u32>), DeviceError> {
    let mut count = command(GRXCLSRLCNT, 0);
    ethtool.try_ask_aligned(device, &mut count)?;
    let rules = u32_at(&count, COUNT).unwrap_or(0).min(MOST_RULES);
    let mut all = command(GRXCLSRLALL, rules);
    put(&mut all, COUNT, &rules.to_ne_bytes());
    ethtool.try_ask_aligned(device, &mut all)?;
    let used = u32_at(&all, COUNT).unwrap_or(0).min(rules) as usize;
    let locations = (0..used).filter_map(|number| u32_at(&all, LOCATIONS + 4 * number)).collect();
    Ok((u64_at(&all, SIZE).max(u64_at(&count, SIZE)).unwrap_or(0), locations))
}

/// A free location outside `taken`, from the end, which drivers treat as the lowest priority; `None` where there is none.
pub fn free_location(device: &str, taken: &[u32]) -> Option<u32> {
    let (size, used) = table(&Ethtool::open().ok()?, device).ok()?;
    let size = u32::try_from(size & !SPECIAL_LOCATIONS).ok()?.min(MOST_RULES);
    (0..size).rev().find(|location| !used.contains(location) && !taken.contains(location))
}

/// The locations of the device's table that hold a rule; none where it has no table.
pub fn flow_locations(device: &str) -> Vec<u32> {
    let table = Ethtool::open().ok().and_then(|ethtool| table(&ethtool, device).ok());
    table.map(|(_, used)| used).unwrap_or_default()
}

/// The rule at a location, or `absent`.
pub(super) fn read(device: &str, location: u32) -> Result<String, DeviceError> {
    let ethtool = Ethtool::open()?;
    let (_, used) = table(&ethtool, device)?;
    if !used.contains(&location) {
        return Ok("absent".to_owned());
    }
    let mut bytes = command(GRXCLSRULE, 0);
    put(&mut bytes, LOCATION, &location.to_ne_bytes());
    ethtool.try_ask_aligned(device, &mut bytes)?;
    let unknown = || DeviceError::Unsupported("the rule there is of a kind that could not be put back".to_owned());
    decode(&bytes).map(|rule| rule.to_string()).ok_or_else(unknown)
}

/// Puts a rule at a location, or removes it (`absent`).
pub(super) fn write(device: &str, location: u32, value: &str) -> Result<(), DeviceError> {
    let mut bytes = if value == "absent" {
        let mut bytes = command(SRXCLSRLDEL, 0);
        put(&mut bytes, LOCATION, &location.to_ne_bytes());
        bytes
    } else {
        encode(&value.parse().map_err(DeviceError::Unsupported)?, location)
    };
    Ethtool::open()?.try_ask_aligned(device, &mut bytes).map_err(DeviceError::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_survive_text_and_bytes() {
        for text in [
            "udp4 src-ip 192.0.2.1 dst-ip 192.0.2.2 src-port 7000 dst-port 8000 queue 1",
            "tcp4 dst-port 5201 queue 0",
            "udp4 queue 3",
        ] {
            let rule: FlowRule = text.parse().unwrap();
            assert_eq!(rule.to_string(), text);
            let bytes = encode(&rule, 9);
            assert_eq!(bytes.len(), BYTES);
            assert_eq!(u32_at(&bytes, LOCATION), Some(9));
            assert_eq!(decode(&bytes), Some(rule));
        }
    }

    #[test]
    fn bytes_are_where_the_kernel_has_them() {
        let rule: FlowRule = "udp4 dst-ip 10.1.2.3 dst-port 258 queue 2".parse().unwrap();
        let bytes = encode(&rule, 0);
        assert_eq!(&bytes[24..28], [10, 1, 2, 3]);
        assert_eq!(&bytes[30..32], [1, 2], "ports are in network order");
        assert_eq!(&bytes[96..100], [0xff; 4], "mask of the destination");
        assert_eq!(bytes[168], 2);
    }

    #[test]
    fn what_cannot_be_put_back_is_not_understood() {
        let rule: FlowRule = "udp4 dst-ip 10.1.2.3 queue 2".parse().unwrap();
        let good = encode(&rule, 0);
        for (at, byte) in
            [(MASK + 4, 0xf0), (MASK + 12, 0xff), (MASK_EXTENSION + 14, 1), (QUEUE + 5, 1), (FLOW_TYPE, 5)]
        {
            let mut other = good.clone();
            put(&mut other, at, &[byte]);
            assert_eq!(decode(&other), None, "offset {at}");
        }
        assert_eq!(decode(&[0; 20]), None);
    }

    #[test]
    fn wrong_rules_are_named() {
        for (text, word) in [
            ("icmp4 queue 1", "udp4 or tcp4"),
            ("udp4 dst-port 1", "no queue"),
            ("udp4 dst-port 70000 queue 1", "70000"),
            ("udp4 colour red queue 1", "colour"),
            ("udp4 queue", "no value"),
        ] {
            let error = text.parse::<FlowRule>().unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
