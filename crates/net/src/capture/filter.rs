//! The kernel's filter of a capture: a classic BPF program (socket(7), SO_ATTACH_FILTER; the instructions are those of
//! McCanne and Jacobson's paper and linux/bpf_common.h) that lets through the packets of some flows, cut behind their
//! headers.

use std::net::{IpAddr, SocketAddr};

/// One flow: both directions between this host and one far address and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// TCP rather than UDP.
    pub tcp: bool,
    /// The far end.
    pub far: SocketAddr,
    /// Our port, once it is known; until then any.
    pub near_port: Option<u16>,
    /// A multicast group that both ends send to.
    pub group: Option<IpAddr>,
}

impl Flow {
    /// Whether `other` is the same flow, perhaps known better.
    pub(crate) fn is(&self, other: &Self) -> bool {
        (self.tcp, self.far, self.group) == (other.tcp, other.far, other.group)
    }
}

/// What carries PGM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupCarrier {
    /// UDP from and to this port.
    Udp(u16),
    /// IP itself, by the protocol's number: 113.
    Ip(u8),
}

/// All that PGM sends: to its groups from anybody, and unicast between its members both ways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupFlow {
    /// What carries it.
    pub carrier: GroupCarrier,
    /// Its groups, of one family or of both.
    pub groups: Vec<IpAddr>,
}

/// What a filter lets through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Followed {
    One(Flow),
    Group(GroupFlow),
}

impl Followed {
    /// Whether `other` is the same, perhaps known better.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::One(one), Self::One(other)) => one.is(other),
            (Self::Group(one), Self::Group(other)) => one == other,
            _ => false,
        }
    }
}

/// One instruction, as the kernel takes it (struct sock_filter of linux/filter.h).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    pub(crate) yes: u8,
    pub(crate) no: u8,
    pub(crate) value: u32,
}

const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF_AT_X: u16 = 0x48;
const LOAD_BYTE_AT_X: u16 = 0x50;
/// X becomes four times the low half of a byte: the length of an IPv4 header.
const HEADER_LENGTH_TO_X: u16 = 0xb1;
const JUMP: u16 = 0x05;
const IF_EQUAL: u16 = 0x15;
const IF_ANY_BIT: u16 = 0x45;
const AND: u16 = 0x54;
const ADD: u16 = 0x04;
const ADD_X: u16 = 0x0c;
const SHIFT_RIGHT: u16 = 0x74;
const X_TO_A: u16 = 0x87;
const RETURN: u16 = 0x06;
const RETURN_A: u16 = 0x16;
/// SKF_AD_OFF + SKF_AD_PROTOCOL: the EtherType, wherever the link layer has it.
const PROTOCOL: u32 = 0xffff_f000;

const TCP: u32 = 6;
const UDP: u32 = 17;
/// IPv6's fragment header.
const FRAGMENT: u32 = 44;

/// Where a jump goes: the next instruction, the end of this flow's block, or a place in it.
#[derive(Clone, Copy)]
enum To {
    Next,
    End,
    Place(usize),
}

/// The block of one flow. Falls through at its end when the packet is not of this flow.
struct Block {
    code: Vec<(u16, To, To, u32)>,
    /// Where the places lie, once they are known.
    places: Vec<usize>,
}

impl Block {
    fn new() -> Self {
        Self { code: Vec::new(), places: Vec::new() }
    }

    fn place(&mut self) -> usize {
        self.places.push(0);
        self.places.len() - 1
    }

    fn here(&mut self, place: usize) {
        let at = self.code.len();
        if let Some(known) = self.places.get_mut(place) {
            *known = at;
        }
    }

    fn plain(&mut self, code: u16, value: u32) {
        self.code.push((code, To::Next, To::Next, value));
    }

    fn branch(&mut self, code: u16, value: u32, yes: To, no: To) {
        self.code.push((code, yes, no, value));
    }

    /// Goes on when equal.
    fn require(&mut self, value: u32, no: To) {
        self.branch(IF_EQUAL, value, To::Next, no);
    }

    fn finish(self, program: &mut Vec<Instruction>) {
        let length = self.code.len();
        for (at, (code, yes, no, value)) in self.code.into_iter().enumerate() {
            let distance = |to: To| match to {
                To::Next => 0,
                To::End => length - at - 1,
                To::Place(place) => self.places.get(place).copied().unwrap_or(length) - at - 1,
            };
            let (yes, no) = (distance(yes), distance(no));
            if code == JUMP {
                program.push(Instruction { code, yes: 0, no: 0, value: u32::try_from(yes).unwrap_or(0) });
            } else {
                // A block has some fifty instructions.
                let short = |distance: usize| u8::try_from(distance).unwrap_or(u8::MAX);
                program.push(Instruction { code, yes: short(yes), no: short(no), value });
            }
        }
    }
}

/// The program for these flows. `link` is the length of the header before IP, `payload` the bytes kept behind the
/// headers. No flow lets nothing through.
pub(crate) fn program(flows: &[Followed], link: u32, payload: u32) -> Vec<Instruction> {
    let mut program = Vec::new();
    for flow in flows {
        let flow = match flow {
            Followed::One(flow) => flow,
            Followed::Group(group) => {
                for six in [false, true] {
                    let mut block = Block::new();
                    let write = if six { group_ipv6 } else { group_ipv4 };
                    write(&mut block, group, link, payload);
                    block.finish(&mut program);
                }
                continue;
            }
        };
        let mut block = Block::new();
        match flow.far.ip().to_canonical() {
            IpAddr::V4(far) => {
                let group = flow.group.and_then(|group| match group {
                    IpAddr::V4(group) => Some(u32::from(group)),
                    IpAddr::V6(_) => None,
                });
                ipv4(&mut block, flow, u32::from(far), group, link, payload);
            }
            IpAddr::V6(far) => {
                let group = flow.group.and_then(|group| match group {
                    IpAddr::V6(group) => Some(words(group)),
                    IpAddr::V4(_) => None,
                });
                ipv6(&mut block, flow, words(far), group, link, payload);
            }
        }
        block.finish(&mut program);
    }
    program.push(Instruction { code: RETURN, yes: 0, no: 0, value: 0 });
    program
}

fn words(address: std::net::Ipv6Addr) -> [u32; 4] {
    let bits = address.to_bits();
    [96, 64, 32, 0].map(|shift| u32::try_from(bits >> shift & 0xffff_ffff).unwrap_or(0))
}

fn ipv4(block: &mut Block, flow: &Flow, far: u32, group: Option<u32>, link: u32, payload: u32) {
    let (comes, goes, later) = (block.place(), block.place(), block.place());
    block.plain(LOAD_WORD, PROTOCOL);
    block.require(0x0800, To::End);
    block.plain(LOAD_BYTE, link + 9);
    block.require(if flow.tcp { TCP } else { UDP }, To::End);
    block.plain(HEADER_LENGTH_TO_X, link);
    block.plain(LOAD_WORD, link + 12);
    block.branch(IF_EQUAL, far, To::Place(comes), To::Place(goes));

    // From the far end.
    block.here(comes);
    block.plain(LOAD_HALF, link + 6);
    block.branch(IF_ANY_BIT, 0x1fff, To::Place(later), To::Next);
    block.plain(LOAD_HALF_AT_X, link);
    block.require(u32::from(flow.far.port()), To::Place(goes));
    if let Some(port) = flow.near_port {
        block.plain(LOAD_HALF_AT_X, link + 2);
        block.require(u32::from(port), To::Place(goes));
    }
    accept_ipv4(block, flow.tcp, link, payload);

    // To the far end, or to the group.
    block.here(goes);
    let ports = block.place();
    block.plain(LOAD_WORD, link + 16);
    if let Some(group) = group {
        block.branch(IF_EQUAL, group, To::Place(ports), To::Next);
    }
    block.require(far, To::End);
    block.here(ports);
    block.plain(LOAD_HALF, link + 6);
    block.branch(IF_ANY_BIT, 0x1fff, To::Place(later), To::Next);
    block.plain(LOAD_HALF_AT_X, link + 2);
    block.require(u32::from(flow.far.port()), To::End);
    if let Some(port) = flow.near_port {
        block.plain(LOAD_HALF_AT_X, link);
        block.require(u32::from(port), To::End);
    }
    accept_ipv4(block, flow.tcp, link, payload);

    // A later fragment has no ports; the addresses have to do.
    block.here(later);
    block.plain(X_TO_A, 0);
    block.plain(ADD, link + 8 + payload);
    block.plain(RETURN_A, 0);
}

/// X holds the length of the IPv4 header.
fn accept_ipv4(block: &mut Block, tcp: bool, link: u32, payload: u32) {
    if tcp {
        block.plain(LOAD_BYTE_AT_X, link + 12);
        block.plain(AND, 0xf0);
        block.plain(SHIFT_RIGHT, 2);
        block.plain(ADD_X, 0);
        block.plain(ADD, link + payload);
    } else {
        block.plain(X_TO_A, 0);
        block.plain(ADD, link + 8 + payload);
    }
    block.plain(RETURN_A, 0);
}

/// Extension headers other than the fragment header are not looked behind: nothing here sends any.
fn ipv6(block: &mut Block, flow: &Flow, far: [u32; 4], group: Option<[u32; 4]>, link: u32, payload: u32) {
    let (addresses, comes, goes, ports, accept) =
        (block.place(), block.place(), block.place(), block.place(), block.place());
    let (later, later_out) = (block.place(), block.place());
    block.plain(LOAD_WORD, PROTOCOL);
    block.require(0x86dd, To::End);
    block.plain(LOAD_BYTE, link + 6);
    block.branch(IF_EQUAL, FRAGMENT, To::Place(addresses), To::Next);
    block.require(if flow.tcp { TCP } else { UDP }, To::End);

    block.here(addresses);
    let equal = |block: &mut Block, at: u32, wanted: [u32; 4], no: To| {
        for (index, word) in (0..).zip(wanted) {
            block.plain(LOAD_WORD, link + at + 4 * index);
            block.require(word, no);
        }
    };
    equal(block, 8, far, To::Place(goes));
    block.here(comes);
    block.plain(LOAD_BYTE, link + 6);
    block.branch(IF_EQUAL, FRAGMENT, To::Place(later), To::Next);
    block.plain(LOAD_HALF, link + 40);
    block.require(u32::from(flow.far.port()), To::Place(goes));
    if let Some(port) = flow.near_port {
        block.plain(LOAD_HALF, link + 42);
        block.require(u32::from(port), To::Place(goes));
    }
    block.branch(JUMP, 0, To::Place(accept), To::Next);

    block.here(goes);
    if let Some(group) = group {
        let not_group = block.place();
        equal(block, 24, group, To::Place(not_group));
        block.branch(JUMP, 0, To::Place(ports), To::Next);
        block.here(not_group);
    }
    equal(block, 24, far, To::End);
    block.here(ports);
    block.plain(LOAD_BYTE, link + 6);
    block.branch(IF_EQUAL, FRAGMENT, To::Place(later_out), To::Next);
    block.plain(LOAD_HALF, link + 42);
    block.require(u32::from(flow.far.port()), To::End);
    if let Some(port) = flow.near_port {
        block.plain(LOAD_HALF, link + 40);
        block.require(u32::from(port), To::End);
    }
    block.here(accept);
    if flow.tcp {
        block.plain(LOAD_BYTE, link + 52);
        block.plain(AND, 0xf0);
        block.plain(SHIFT_RIGHT, 2);
        block.plain(ADD, link + 40 + payload);
        block.plain(RETURN_A, 0);
    } else {
        block.plain(RETURN, link + 48 + payload);
    }

    // Fragments, the first one too: which protocol is in the fragment header.
    block.here(later);
    block.here(later_out);
    block.plain(LOAD_BYTE, link + 40);
    block.require(if flow.tcp { TCP } else { UDP }, To::End);
    block.plain(RETURN, link + 56 + payload);
}

/// Headers that PGM has of its own behind UDP's or IP's, in bytes: a NAK with a list of 62 numbers and IPv6 addresses has
/// 316. What has no payload is kept whole, so that it can be read and checked.
pub(crate) const GROUP_HEAD: u32 = 320;
/// Those of data, with a fragment's option and some more.
const GROUP_DATA_HEAD: u32 = 64;
/// Where PGM has its type; ODATA and RDATA are 4 and 5 (RFC 3208, section 8).
const GROUP_TYPE: u32 = 4;
const GROUP_DATA: u32 = 0x04;

/// To a group, or to no group at all: what members send one another. A packet to another group is not theirs.
fn group_ipv4(block: &mut Block, flow: &GroupFlow, link: u32, payload: u32) {
    let (ours, later, whole, data) = (block.place(), block.place(), block.place(), block.place());
    block.plain(LOAD_WORD, PROTOCOL);
    block.require(0x0800, To::End);
    block.plain(LOAD_BYTE, link + 9);
    let (protocol, port, head) = match flow.carrier {
        GroupCarrier::Udp(port) => (UDP, Some(port), 8),
        GroupCarrier::Ip(number) => (u32::from(number), None, 0),
    };
    block.require(protocol, To::End);
    block.plain(HEADER_LENGTH_TO_X, link);
    block.plain(LOAD_WORD, link + 16);
    for group in &flow.groups {
        if let IpAddr::V4(group) = group {
            block.branch(IF_EQUAL, u32::from(*group), To::Place(ours), To::Next);
        }
    }
    // 224.0.0.0/4 are groups (RFC 1112).
    block.plain(AND, 0xf000_0000);
    block.branch(IF_EQUAL, 0xe000_0000, To::End, To::Next);
    block.here(ours);
    if let Some(port) = port {
        block.plain(LOAD_HALF, link + 6);
        // Later fragments have no ports; the protocol and the addresses have to do.
        block.branch(IF_ANY_BIT, 0x1fff, To::Place(later), To::Next);
        either_port(block, LOAD_HALF_AT_X, link, port, whole);
    } else {
        block.plain(LOAD_HALF, link + 6);
        block.branch(IF_ANY_BIT, 0x1fff, To::Place(later), To::Next);
    }
    block.here(whole);
    block.plain(LOAD_BYTE_AT_X, link + head + GROUP_TYPE);
    block.plain(AND, 0x3e);
    block.branch(IF_EQUAL, GROUP_DATA, To::Place(data), To::Next);
    block.here(later);
    block.plain(X_TO_A, 0);
    block.plain(ADD, link + head + GROUP_HEAD + payload);
    block.plain(RETURN_A, 0);
    block.here(data);
    block.plain(X_TO_A, 0);
    block.plain(ADD, link + head + GROUP_DATA_HEAD + payload);
    block.plain(RETURN_A, 0);
}

/// The source port or the destination port: those of a NAK's sender may be any.
fn either_port(block: &mut Block, load: u16, at: u32, port: u16, accept: usize) {
    block.plain(load, at + 2);
    block.branch(IF_EQUAL, u32::from(port), To::Place(accept), To::Next);
    block.plain(load, at);
    block.require(u32::from(port), To::End);
}

/// Behind a hop-by-hop header (router alert, RFC 2711) and a fragment header too.
fn group_ipv6(block: &mut Block, flow: &GroupFlow, link: u32, payload: u32) {
    const HOP_BY_HOP: u32 = 0;
    let (ours, plain, behind, accept) = (block.place(), block.place(), block.place(), block.place());
    let (one, other, data) = (block.place(), block.place(), block.place());
    let (protocol, port, head) = match flow.carrier {
        GroupCarrier::Udp(port) => (UDP, Some(port), 8),
        GroupCarrier::Ip(number) => (u32::from(number), None, 0),
    };
    block.plain(LOAD_WORD, PROTOCOL);
    block.require(0x86dd, To::End);
    for group in &flow.groups {
        let IpAddr::V6(group) = group else { continue };
        let next = block.place();
        for (index, word) in (0..).zip(words(*group)) {
            block.plain(LOAD_WORD, link + 24 + 4 * index);
            block.require(word, To::Place(next));
        }
        block.branch(JUMP, 0, To::Place(ours), To::Next);
        block.here(next);
    }
    // ff00::/8 are groups (RFC 4291).
    block.plain(LOAD_BYTE, link + 24);
    block.branch(IF_EQUAL, 0xff, To::End, To::Next);
    block.here(ours);
    block.plain(LOAD_BYTE, link + 6);
    block.branch(IF_EQUAL, protocol, To::Place(plain), To::Next);
    block.branch(IF_EQUAL, HOP_BY_HOP, To::Place(behind), To::Next);
    block.require(FRAGMENT, To::End);
    // Either of those headers has eight bytes, and the protocol first; of a fragment the ports may be missing.
    block.plain(LOAD_BYTE, link + 40);
    block.require(protocol, To::End);
    block.branch(JUMP, 0, To::Place(accept), To::Next);
    block.here(behind);
    block.plain(LOAD_BYTE, link + 40);
    block.require(protocol, To::End);
    if let Some(port) = port {
        either_port(block, LOAD_HALF, link + 48, port, other);
    }
    block.here(other);
    block.plain(LOAD_BYTE, link + 48 + head + GROUP_TYPE);
    block.plain(AND, 0x3e);
    block.branch(IF_EQUAL, GROUP_DATA, To::Place(data), To::Place(accept));
    block.here(plain);
    if let Some(port) = port {
        either_port(block, LOAD_HALF, link + 40, port, one);
    }
    block.here(one);
    block.plain(LOAD_BYTE, link + 40 + head + GROUP_TYPE);
    block.plain(AND, 0x3e);
    block.branch(IF_EQUAL, GROUP_DATA, To::Place(data), To::Place(accept));
    block.here(data);
    block.plain(RETURN, link + 48 + head + GROUP_DATA_HEAD + payload);
    block.here(accept);
    block.plain(RETURN, link + 48 + head + GROUP_HEAD + payload);
}

#[cfg(test)]
mod tests;
