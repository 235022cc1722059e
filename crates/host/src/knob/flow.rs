//! Flow rules (ethtool -N, receive classification): which queue a flow's messages go to.
//!
//! A rule as text: `udp4 src-ip 192.0.2.1 dst-ip 192.0.2.2 src-port 7000 dst-port 8000 queue 1`. The protocol (`udp4` or
//! `tcp4`) and the queue are needed; of the rest, what is left out may be anything. Rules of another kind that a device
//! holds already can neither be shown nor put back, so they are not touched.

use super::device::Trouble;
use crate::ethtool::Ethtool;
use std::io;
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

/// Which flow goes to which queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowRule {
    /// TCP, else UDP.
    pub tcp: bool,
    /// Where the messages come from.
    pub source: Option<Ipv4Addr>,
    /// Where they go to.
    pub destination: Option<Ipv4Addr>,
    /// Port that they come from.
    pub source_port: Option<u16>,
    /// Port that they go to.
    pub destination_port: Option<u16>,
    /// The receive queue that they are put into.
    pub queue: u32,
}

impl std::fmt::Display for FlowRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.tcp { "tcp4" } else { "udp4" })?;
        for (word, address) in [("src-ip", self.source), ("dst-ip", self.destination)] {
            if let Some(address) = address {
                write!(f, " {word} {address}")?;
            }
        }
        for (word, port) in [("src-port", self.source_port), ("dst-port", self.destination_port)] {
            if let Some(port) = port {
                write!(f, " {word} {port}")?;
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
        let mut rule =
            Self { tcp, source: None, destination: None, source_port: None, destination_port: None, queue: 0 };
        let mut queue = None;
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("flow rule '{text}': '{word}' has no value"))?;
            let bad = || format!("flow rule '{text}': '{value}' is no value of {word}");
            match word {
                "src-ip" => rule.source = Some(value.parse().map_err(|_| bad())?),
                "dst-ip" => rule.destination = Some(value.parse().map_err(|_| bad())?),
                "src-port" => rule.source_port = Some(value.parse().map_err(|_| bad())?),
                "dst-port" => rule.destination_port = Some(value.parse().map_err(|_| bad())?),
                "queue" => queue = Some(value.parse().map_err(|_| bad())?),
                _ => {
                    return Err(format!(
                        "flow rule '{text}': '{word}' is none of src-ip, dst-ip, src-port, dst-port, queue"
                    ));
                }
            }
        }
        rule.queue = queue.ok_or_else(|| format!("flow rule '{text}' names no queue"))?;
        Ok(rule)
    }
}

/// A buffer for `struct ethtool_rxnfc`, made of words so that it is aligned.
#[derive(Clone)]
struct Command(Vec<u64>);

impl Command {
    fn new(command: u32, more_locations: usize) -> Self {
        let mut made = Self(vec![0; (BYTES + 4 * more_locations).div_ceil(8)]);
        made.put(0, &command.to_ne_bytes());
        made
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        for (at, &byte) in (at..).zip(bytes) {
            if let Some(word) = self.0.get_mut(at / 8) {
                let mut parts = word.to_ne_bytes();
                parts[at % 8] = byte;
                *word = u64::from_ne_bytes(parts);
            }
        }
    }

    fn u32(&self, at: usize) -> u32 {
        let bytes = self.bytes();
        bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |chunk| u32::from_ne_bytes(*chunk))
    }

    fn u64(&self, at: usize) -> u64 {
        self.0.get(at / 8).copied().unwrap_or(0)
    }

    fn ask(&mut self, ethtool: &Ethtool, device: &str) -> io::Result<()> {
        ethtool.try_ask_aligned(device, &mut self.0).map(drop)
    }
}

/// The fields of a rule in a structure. `struct ethtool_tcpip4_spec`: addresses and ports in network order, the type of
/// service.
fn encode(rule: &FlowRule, location: u32) -> Command {
    let mut command = Command::new(SRXCLSRLINS, 0);
    command.put(FLOW_TYPE, &if rule.tcp { TCP_V4_FLOW } else { UDP_V4_FLOW }.to_ne_bytes());
    for (at, address) in [(0, rule.source), (4, rule.destination)] {
        if let Some(address) = address {
            command.put(VALUE + at, &address.octets());
            command.put(MASK + at, &[0xff; 4]);
        }
    }
    for (at, port) in [(8, rule.source_port), (10, rule.destination_port)] {
        if let Some(port) = port {
            command.put(VALUE + at, &port.to_be_bytes());
            command.put(MASK + at, &[0xff; 2]);
        }
    }
    command.put(QUEUE, &u64::from(rule.queue).to_ne_bytes());
    command.put(LOCATION, &location.to_ne_bytes());
    command
}

/// The rule in a structure; `None` when it says more than a [`FlowRule`] can.
fn decode(bytes: &[u8]) -> Option<FlowRule> {
    let u32_at = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let tcp = match u32_at(FLOW_TYPE)? {
        TCP_V4_FLOW => true,
        UDP_V4_FLOW => false,
        _ => return None,
    };
    let address = |at: usize| -> Option<Option<Ipv4Addr>> {
        let value: [u8; 4] = *bytes.get(VALUE + at..)?.first_chunk()?;
        match bytes.get(MASK + at..MASK + at + 4)? {
            [0, 0, 0, 0] => Some(None),
            [0xff, 0xff, 0xff, 0xff] => Some(Some(value.into())),
            _ => None,
        }
    };
    let port = |at: usize| -> Option<Option<u16>> {
        let value: [u8; 2] = *bytes.get(VALUE + at..)?.first_chunk()?;
        match bytes.get(MASK + at..MASK + at + 2)? {
            [0, 0] => Some(None),
            [0xff, 0xff] => Some(Some(u16::from_be_bytes(value))),
            _ => None,
        }
    };
    // The type of service, and all that an extension can ask for.
    let further = bytes.get(MASK + 12..MASK + UNION_BYTES)?;
    let extension = bytes.get(MASK_EXTENSION..MASK_EXTENSION + EXTENSION_BYTES)?;
    if further.iter().chain(extension).any(|&byte| byte != 0) {
        return None;
    }
    let queue = u64::from_ne_bytes(*bytes.get(QUEUE..)?.first_chunk()?);
    Some(FlowRule {
        tcp,
        source: address(0)?,
        destination: address(4)?,
        source_port: port(8)?,
        destination_port: port(10)?,
        // Dropping (all ones) and virtual functions are of another kind.
        queue: u32::try_from(queue).ok()?,
    })
}

fn open() -> Result<Ethtool, Trouble> {
    Ethtool::open().ok_or_else(|| Trouble::Failed(io::Error::last_os_error()))
}

/// Size of the table, and the locations in use.
fn table(ethtool: &Ethtool, device: &str) -> Result<(u64, Vec<u32>), Trouble> {
    let mut count = Command::new(GRXCLSRLCNT, 0);
    count.ask(ethtool, device)?;
    let rules = count.u32(COUNT).min(MOST_RULES);
    let mut all = Command::new(GRXCLSRLALL, rules as usize);
    all.put(COUNT, &rules.to_ne_bytes());
    all.ask(ethtool, device)?;
    let used = all.u32(COUNT).min(rules) as usize;
    let bytes = all.bytes();
    let locations = bytes.get(LOCATIONS..).unwrap_or_default().chunks_exact(4).take(used);
    let locations = locations.filter_map(|chunk| chunk.first_chunk().map(|chunk| u32::from_ne_bytes(*chunk))).collect();
    Ok((all.u64(8).max(count.u64(8)), locations))
}

/// A location of the device's table that holds no rule and is none of `taken`, from the end, which drivers treat as the
/// lowest priority. `None` where the device has no table or it is full.
#[must_use]
pub fn free_location(device: &str, taken: &[u32]) -> Option<u32> {
    let (size, used) = table(&open().ok()?, device).ok()?;
    let size = u32::try_from(size & !SPECIAL_LOCATIONS).ok()?.min(MOST_RULES);
    (0..size).rev().find(|location| !used.contains(location) && !taken.contains(location))
}

/// The locations of the device's table that hold a rule; none where it has no table.
#[must_use]
pub fn flow_locations(device: &str) -> Vec<u32> {
    open().and_then(|ethtool| table(&ethtool, device)).map(|(_, used)| used).unwrap_or_default()
}

/// The rule at a location, or `absent`.
pub(super) fn read(device: &str, location: u32) -> Result<String, Trouble> {
    let ethtool = open()?;
    let (_, used) = table(&ethtool, device)?;
    if !used.contains(&location) {
        return Ok("absent".to_owned());
    }
    let mut command = Command::new(GRXCLSRULE, 0);
    command.put(LOCATION, &location.to_ne_bytes());
    command.ask(&ethtool, device)?;
    decode(&command.bytes())
        .map(|rule| rule.to_string())
        .ok_or_else(|| Trouble::Unsupported("the rule there is of a kind that could not be put back".to_owned()))
}

/// Puts a rule at a location, or removes it (`absent`).
pub(super) fn write(device: &str, location: u32, value: &str) -> Result<(), Trouble> {
    let ethtool = open()?;
    let mut command = if value == "absent" {
        let mut command = Command::new(SRXCLSRLDEL, 0);
        command.put(LOCATION, &location.to_ne_bytes());
        command
    } else {
        encode(&value.parse().map_err(Trouble::Unsupported)?, location)
    };
    command.ask(&ethtool, device).map_err(Trouble::Failed)
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
            let command = encode(&rule, 9);
            assert_eq!(command.bytes().len(), BYTES);
            assert_eq!(command.u32(LOCATION), 9);
            assert_eq!(decode(&command.bytes()), Some(rule));
        }
    }

    #[test]
    fn bytes_are_where_the_kernel_has_them() {
        let rule: FlowRule = "udp4 dst-ip 10.1.2.3 dst-port 258 queue 2".parse().unwrap();
        let bytes = encode(&rule, 0).bytes();
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
            other.put(at, &[byte]);
            assert_eq!(decode(&other.bytes()), None, "offset {at}");
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
