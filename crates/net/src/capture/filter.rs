//! The kernel's filter of a capture: classic BPF (socket(7), SO_ATTACH_FILTER, linux/bpf_common.h) that passes packets
//! of some flows, cut behind their headers.

use std::net::{IpAddr, SocketAddr};

/// One flow: both directions between this host and one far address and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// What carries it: its number among IP's protocols.
    pub number: u8,
    pub far: SocketAddr,
    /// Our port, once it is known; until then any.
    pub near_port: Option<u16>,
    /// A multicast group that both ends send to.
    pub group: Option<IpAddr>,
}

impl Flow {
    /// Whether `other` is the same flow, perhaps known better.
    pub(crate) fn is(&self, other: &Self) -> bool {
        (self.number, self.far, self.group) == (other.number, other.far, other.group)
    }
}

/// What carries PGM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupCarrier {
    Udp(u16),
    /// IP itself, by the protocol's number: 113.
    Ip(u8),
}

/// All that PGM sends: to its groups from anybody, and unicast between its members both ways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupFlow {
    pub carrier: GroupCarrier,
    /// Its groups, of one family or of both.
    pub groups: Vec<IpAddr>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FlowFilter {
    One(Flow),
    Group(GroupFlow),
}

impl FlowFilter {
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
const SET_X: u16 = 0x01;
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

pub(crate) const TCP: u8 = 6;
const UDP: u32 = 17;
/// Kept of other headers than TCP's: UDP's; SCTP's with that of a DATA chunk; DCCP's with an acknowledgement.
const HEADS: [(u8, u32); 3] = [(17, 8), (132, 28), (33, 24)];
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

/// Where an IP header has what is looked at.
struct Family {
    v6: bool,
    ether_type: u32,
    source: u32,
    destination: u32,
    /// The bits of a destination's first byte that tell a group, and what they are: 224.0.0.0/4 (RFC 1112), ff00::/8 (RFC 4291).
    group: (u32, u32),
}

const IPV4: Family = Family { v6: false, ether_type: 0x0800, source: 12, destination: 16, group: (0xf0, 0xe0) };
const IPV6: Family = Family { v6: true, ether_type: 0x86dd, source: 8, destination: 24, group: (0xff, 0xff) };

impl Family {
    fn of(address: IpAddr) -> &'static Self {
        if address.to_canonical().is_ipv6() { &IPV6 } else { &IPV4 }
    }
}

/// The program for these flows; none pass without any. `link`: bytes before IP; `payload`: bytes kept after headers.
pub(crate) fn program(flows: &[FlowFilter], link: u32, payload: u32) -> Vec<Instruction> {
    let mut program = Vec::new();
    for flow in flows {
        match flow {
            FlowFilter::One(flow) => one_flow(flow, Family::of(flow.far.ip()), link, payload).finish(&mut program),
            FlowFilter::Group(flow) => {
                for family in [&IPV4, &IPV6] {
                    group_flow(flow, family, link, payload).finish(&mut program);
                }
            }
        }
    }
    program.push(Instruction { code: RETURN, yes: 0, no: 0, value: 0 });
    program
}

fn words(address: IpAddr) -> Vec<u32> {
    match address.to_canonical() {
        IpAddr::V4(v4) => vec![v4.to_bits()],
        IpAddr::V6(v6) => {
            v6.to_bits().to_be_bytes().as_chunks().0.iter().map(|word| u32::from_be_bytes(*word)).collect()
        }
    }
}

impl Block {
    /// Packets of a family and protocol, IP header length in X. IPv6: one more 8-byte header (router alert, fragment).
    fn ip_header(&mut self, family: &Family, protocol: u32, link: u32) {
        const HOP_BY_HOP: u32 = 0;
        self.plain(LOAD_WORD, PROTOCOL);
        self.require(family.ether_type, To::End);
        if !family.v6 {
            self.plain(LOAD_BYTE, link + 9);
            self.require(protocol, To::End);
            self.plain(HEADER_LENGTH_TO_X, link);
            return;
        }
        let (longer, found) = (self.place(), self.place());
        self.plain(SET_X, 40);
        self.plain(LOAD_BYTE, link + 6);
        self.branch(IF_EQUAL, protocol, To::Place(found), To::Next);
        self.branch(IF_EQUAL, HOP_BY_HOP, To::Place(longer), To::Next);
        self.require(FRAGMENT, To::End);
        self.here(longer);
        self.plain(SET_X, 48);
        self.plain(LOAD_BYTE, link + 40);
        self.require(protocol, To::End);
        self.here(found);
    }

    /// Fragments go to `later`: they have no ports (IPv6: or may have none), so the addresses have to do.
    fn fragments(&mut self, family: &Family, link: u32, later: usize) {
        self.plain(if family.v6 { LOAD_BYTE } else { LOAD_HALF }, link + 6);
        let (code, value) = if family.v6 { (IF_EQUAL, FRAGMENT) } else { (IF_ANY_BIT, 0x1fff) };
        self.branch(code, value, To::Place(later), To::Next);
    }

    /// Goes on when the address at `at` is this one.
    fn address(&mut self, address: IpAddr, at: u32, no: To) {
        for (index, word) in (0..).zip(words(address)) {
            self.plain(LOAD_WORD, at + 4 * index);
            self.require(word, no);
        }
    }

    /// Goes on when the port at `at` behind the IP header is this one, or any will do.
    fn port(&mut self, port: Option<u16>, at: u32, no: To) {
        if let Some(port) = port {
            self.plain(LOAD_HALF_AT_X, at);
            self.require(u32::from(port), no);
        }
    }

    /// Keeps the IP header and so many bytes.
    fn accept(&mut self, bytes: u32) {
        self.plain(X_TO_A, 0);
        self.plain(ADD, bytes);
        self.plain(RETURN_A, 0);
    }
}

fn one_flow(flow: &Flow, family: &Family, link: u32, payload: u32) -> Block {
    let mut block = Block::new();
    let (goes, ports, found, later) = (block.place(), block.place(), block.place(), block.place());
    let far_port = Some(flow.far.port());
    block.ip_header(family, u32::from(flow.number), link);

    // From the far end.
    block.address(flow.far.ip(), link + family.source, To::Place(goes));
    block.fragments(family, link, later);
    block.port(far_port, link, To::Place(goes));
    block.port(flow.near_port, link + 2, To::Place(goes));
    block.branch(JUMP, 0, To::Place(found), To::Next);

    // To the far end, or to the group.
    block.here(goes);
    if let Some(group) = flow.group.filter(|group| group.is_ipv6() == family.v6) {
        let other = block.place();
        block.address(group, link + family.destination, To::Place(other));
        block.branch(JUMP, 0, To::Place(ports), To::Next);
        block.here(other);
    }
    block.address(flow.far.ip(), link + family.destination, To::End);
    block.here(ports);
    block.fragments(family, link, later);
    block.port(far_port, link + 2, To::End);
    block.port(flow.near_port, link, To::End);

    block.here(found);
    if flow.number == TCP {
        block.plain(LOAD_BYTE_AT_X, link + 12);
        block.plain(AND, 0xf0);
        block.plain(SHIFT_RIGHT, 2);
        block.plain(ADD_X, 0);
        block.plain(ADD, link + payload);
        block.plain(RETURN_A, 0);
    }
    block.here(later);
    let head = HEADS.into_iter().find(|(number, _)| *number == flow.number).map_or(8, |(_, bytes)| bytes);
    block.accept(link + head + payload);
    block
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
fn group_flow(flow: &GroupFlow, family: &Family, link: u32, payload: u32) -> Block {
    let mut block = Block::new();
    let (ours, whole, later, data) = (block.place(), block.place(), block.place(), block.place());
    let (protocol, port, head) = match flow.carrier {
        GroupCarrier::Udp(port) => (UDP, Some(port), 8),
        GroupCarrier::Ip(number) => (u32::from(number), None, 0),
    };
    block.ip_header(family, protocol, link);
    for group in flow.groups.iter().filter(|group| group.is_ipv6() == family.v6) {
        let other = block.place();
        block.address(*group, link + family.destination, To::Place(other));
        block.branch(JUMP, 0, To::Place(ours), To::Next);
        block.here(other);
    }
    block.plain(LOAD_BYTE, link + family.destination);
    block.plain(AND, family.group.0);
    block.branch(IF_EQUAL, family.group.1, To::End, To::Next);
    block.here(ours);
    block.fragments(family, link, later);
    if let Some(port) = port {
        // The source port or the destination port: those of a NAK's sender may be any.
        block.plain(LOAD_HALF_AT_X, link + 2);
        block.branch(IF_EQUAL, u32::from(port), To::Place(whole), To::Next);
        block.port(Some(port), link, To::End);
    }
    block.here(whole);
    block.plain(LOAD_BYTE_AT_X, link + head + GROUP_TYPE);
    block.plain(AND, 0x3e);
    block.branch(IF_EQUAL, GROUP_DATA, To::Place(data), To::Next);
    block.here(later);
    block.accept(link + head + GROUP_HEAD + payload);
    block.here(data);
    block.accept(link + head + GROUP_DATA_HEAD + payload);
    block
}

#[cfg(test)]
mod tests;
