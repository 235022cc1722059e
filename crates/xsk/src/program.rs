//! The XDP program, assembled here: it redirects frames for served ports to the AF_XDP socket of their queue, and passes all
//! others to the kernel.
//!
//! Taken is an Ethernet frame to this host's MAC address that holds IPv4 without options and not a fragment, or IPv6
//! without extension headers, to one of the served addresses, with TCP or UDP to a served port. Everything else passes:
//! ARP, ICMP, multicast, broadcast, VLANs, fragments, forwarded packets, other ports.
//!
//! Of a port, some connections and some local addresses can be listed in the table of flows. The most specific entry decides: that of
//! the connection, that of the local address, the port's own.

use crate::Protocol;
pub use crate::bpf::Instruction;
use std::net::{IpAddr, SocketAddr};

/// The most addresses that can be served.
pub const MOST_ADDRESSES: usize = 256;
/// The most connections and local ends of ports that can be listed.
pub const MOST_FLOWS: usize = 65_536;
/// Bytes of a key of the table of flows.
pub const FLOW_BYTES: usize = 40;
/// Bits of a value in the table of ports. Of IPv4, and of IPv6, frames that match no entry of the table of flows are taken; connections of
/// the port are listed there; local addresses are.
pub(crate) const IPV4_TAKEN: u8 = 1;
pub(crate) const IPV6_TAKEN: u8 = 8;
pub(crate) const HAS_FLOWS: u8 = 2;
pub(crate) const HAS_ENDS: u8 = 4;
/// Values in the table of flows. A local end is listed where its frames are taken.
pub(crate) const FLOW_TAKEN: u8 = 1;
pub(crate) const FLOW_PASSES: u8 = 2;
/// Entries of the table of ports: 65,536 for each protocol.
pub const PORT_ENTRIES: usize = 2 * 65_536;

/// The place of a port in the table of ports.
pub fn port_entry(protocol: Protocol, port: u16) -> usize {
    usize::from(port)
        + match protocol {
            Protocol::Udp => 0,
            Protocol::Tcp => 65_536,
        }
}

/// An address as the key of the table of addresses: 16 bytes, IPv4 as `::ffff:a.b.c.d` (RFC 4291, 2.5.5.2).
pub fn address_key(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// A flow as the key of the table of flows: the remote address, its port as it is in a frame, the place of the local port
/// in the table of ports, the local address. Without a remote end, which is then zeros, it is the key of a local end.
pub fn flow_key(protocol: Protocol, local: SocketAddr, remote: Option<SocketAddr>) -> [u8; FLOW_BYTES] {
    let entry = u32::try_from(port_entry(protocol, local.port())).unwrap_or(0).to_ne_bytes();
    let remote_port = u32::from(remote.map_or(0, |remote| remote.port().to_be())).to_ne_bytes();
    let (from, to) = (remote.map_or([0; 16], |remote| address_key(remote.ip())), address_key(local.ip()));
    let mut key = [0; FLOW_BYTES];
    key.iter_mut().zip([&from[..], &remote_port, &entry, &to].concat()).for_each(|(slot, byte)| *slot = byte);
    key
}

// Registers. R0 holds results, R1 to R5 arguments of helpers (lost by a call), R6 to R9 are kept, R10 is the stack.
const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
const R4: u8 = 4;
const R5: u8 = 5;
/// The context, struct xdp_md.
const CONTEXT: u8 = 6;
/// The IP protocol, then what the table of ports has.
const PROTOCOL: u8 = 7;
const VALUE: u8 = PROTOCOL;
/// The destination port, then its place in the table.
const PORT: u8 = 8;
/// The bit of the frame's family in a port's value.
const FAMILY: u8 = 9;
const STACK: u8 = 10;

/// Places on the stack: the key of the table of flows, and within it the remote port, the key of the table of ports, and that of the
/// table of addresses.
const FLOW_KEY: i16 = -40;
const REMOTE_PORT: i16 = FLOW_KEY + 16;
const PORT_KEY: i16 = FLOW_KEY + 20;
const KEY: i16 = FLOW_KEY + 24;

const LOAD_BYTE: u8 = 0x71;
const LOAD_HALF: u8 = 0x69;
const LOAD_WORD: u8 = 0x61;
const STORE_WORD: u8 = 0x63;
const STORE_WORD_CONSTANT: u8 = 0x62;
const MOVE: u8 = 0xbf;
const MOVE_CONSTANT: u8 = 0xb7;
const ADD_CONSTANT: u8 = 0x07;
const AND_CONSTANT: u8 = 0x57;
const AND: u8 = 0x5f;
const TO_BIG_ENDIAN: u8 = 0xdc;
const JUMP: u8 = 0x05;
const JUMP_EQUAL: u8 = 0x15;
const JUMP_NOT_EQUAL: u8 = 0x55;
const JUMP_GREATER: u8 = 0x2d;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const LOAD_MAP: u8 = 0x18;
const MAP_LOOKUP: i32 = 1;
const REDIRECT_MAP: i32 = 51;
const XDP_PASS: i32 = 2;

/// Where a jump goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    Ipv4,
    Transport,
    Udp,
    Ends,
    Neither,
    Redirect,
    Pass,
}

/// Instructions, with jumps that are filled in when their label is known.
#[derive(Default)]
struct Assembler {
    code: Vec<Instruction>,
    jumps: Vec<(usize, Label)>,
    labels: Vec<(Label, usize)>,
}

impl Assembler {
    fn push(&mut self, code: u8, destination: u8, source: u8, offset: i16, constant: i32) {
        self.code.push(Instruction { code, registers: destination | source << 4, offset, constant });
    }

    fn load(&mut self, code: u8, destination: u8, source: u8, offset: i16) {
        self.push(code, destination, source, offset, 0);
    }

    fn constant(&mut self, code: u8, destination: u8, constant: i32) {
        self.push(code, destination, 0, 0, constant);
    }

    fn copy(&mut self, destination: u8, source: u8) {
        self.push(MOVE, destination, source, 0, 0);
    }

    fn jump(&mut self, code: u8, register: u8, constant: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(code, register, 0, 0, constant);
    }

    /// Passes the frame where it has less than `bytes`. R2 is its beginning, R3 its end.
    fn need(&mut self, bytes: i32) {
        self.copy(R4, R2);
        self.constant(ADD_CONSTANT, R4, bytes);
        self.jumps.push((self.code.len(), Label::Pass));
        self.push(JUMP_GREATER, R4, R3, 0, 0);
    }

    /// Copies `words` words of the frame from `from` to the stack.
    fn copy_words(&mut self, from: i16, to: i16, words: i16) {
        for word in 0..words {
            self.load(LOAD_WORD, R5, R2, from + 4 * word);
            self.push(STORE_WORD, STACK, R5, to + 4 * word, 0);
        }
    }

    /// Copies an address of IPv4 from the frame to the stack.
    fn copy_ipv4(&mut self, from: i16, to: i16) {
        self.push(STORE_WORD_CONSTANT, STACK, 0, to, 0);
        self.push(STORE_WORD_CONSTANT, STACK, 0, to + 4, 0);
        self.push(STORE_WORD_CONSTANT, STACK, 0, to + 8, i32::from_ne_bytes([0, 0, 0xff, 0xff]));
        self.copy_words(from, to + 12, 1);
    }

    /// Both ports, from the beginning of the transport's header.
    fn load_ports(&mut self, from: i16) {
        self.load(LOAD_HALF, R5, R2, from);
        self.push(STORE_WORD, STACK, R5, REMOTE_PORT, 0);
        self.load(LOAD_HALF, PORT, R2, from + 2);
    }

    fn map(&mut self, register: u8, fd: i32) {
        // Source 1: the constant is a descriptor of a map. The instruction takes two places.
        self.push(LOAD_MAP, register, 1, 0, fd);
        self.push(0, 0, 0, 0, 0);
    }

    /// Looks a key up that is on the stack; R0 is then where its value is, or 0.
    fn look_up(&mut self, map: i32, key: i16) {
        self.map(R1, map);
        self.copy(R2, STACK);
        self.constant(ADD_CONSTANT, R2, i32::from(key));
        self.constant(CALL, 0, MAP_LOOKUP);
    }

    /// Goes on at `to` where the port's value has none of these bits.
    fn skip_without(&mut self, bits: u8, to: Label) {
        self.copy(R5, VALUE);
        self.constant(AND_CONSTANT, R5, i32::from(bits));
        self.jump(JUMP_EQUAL, R5, 0, to);
    }

    fn label(&mut self, label: Label) {
        self.labels.push((label, self.code.len()));
    }

    /// The program, once each jump has its distance. `None`: a label is missing or too far.
    fn finish(mut self) -> Option<Vec<Instruction>> {
        for (at, to) in self.jumps {
            let target = self.labels.iter().find(|(label, _)| *label == to)?.1;
            // A distance counts from the next instruction.
            self.code.get_mut(at)?.offset = i16::try_from(target.checked_sub(at + 1)?).ok()?;
        }
        Some(self.code)
    }
}

/// The number as it is read from a frame by a load of two bytes.
fn wire_order(number: u16) -> i32 {
    i32::from(number.to_be())
}

/// The program for the maps with these descriptors.
pub(crate) fn assemble([ports, addresses, flows, xsks]: [i32; 4]) -> Option<Vec<Instruction>> {
    let mut a = Assembler::default();
    read_headers(&mut a);
    // The port first: most frames for the kernel end here.
    a.label(Label::Transport);
    a.push(TO_BIG_ENDIAN, PORT, 0, 0, 16);
    a.jump(JUMP_EQUAL, PROTOCOL, libc::IPPROTO_UDP, Label::Udp);
    a.jump(JUMP_NOT_EQUAL, PROTOCOL, libc::IPPROTO_TCP, Label::Pass);
    a.constant(ADD_CONSTANT, PORT, 65_536);
    a.label(Label::Udp);
    a.push(STORE_WORD, STACK, PORT, PORT_KEY, 0);
    a.look_up(ports, PORT_KEY);
    a.jump(JUMP_EQUAL, R0, 0, Label::Pass);
    a.load(LOAD_BYTE, VALUE, R0, 0);
    a.jump(JUMP_EQUAL, VALUE, 0, Label::Pass);
    a.skip_without(HAS_FLOWS | HAS_ENDS, Label::Neither);
    a.skip_without(HAS_FLOWS, Label::Ends);
    a.look_up(flows, FLOW_KEY);
    a.jump(JUMP_EQUAL, R0, 0, Label::Ends);
    a.load(LOAD_BYTE, R0, R0, 0);
    a.jump(JUMP_EQUAL, R0, i32::from(FLOW_PASSES), Label::Pass);
    a.jump(JUMP, 0, 0, Label::Redirect);

    // What is listed is of a served address.
    a.label(Label::Ends);
    a.skip_without(HAS_ENDS, Label::Neither);
    for word in 0..5 {
        a.push(STORE_WORD_CONSTANT, STACK, 0, FLOW_KEY + 4 * word, 0);
    }
    a.look_up(flows, FLOW_KEY);
    a.jump(JUMP_NOT_EQUAL, R0, 0, Label::Redirect);
    a.label(Label::Neither);
    a.push(AND, VALUE, FAMILY, 0, 0);
    a.jump(JUMP_EQUAL, VALUE, 0, Label::Pass);
    a.look_up(addresses, KEY);
    a.jump(JUMP_EQUAL, R0, 0, Label::Pass);

    a.label(Label::Redirect);
    // Passed as well where the queue has no socket.
    a.load(LOAD_WORD, R2, CONTEXT, 16);
    a.map(R1, xsks);
    a.constant(MOVE_CONSTANT, R3, XDP_PASS);
    a.constant(CALL, 0, REDIRECT_MAP);
    a.push(EXIT, 0, 0, 0, 0);
    a.label(Label::Pass);
    a.constant(MOVE_CONSTANT, R0, XDP_PASS);
    a.push(EXIT, 0, 0, 0, 0);
    a.finish()
}

/// What is looked up of a frame: its protocol, ports, addresses and family. What is neither IPv4 nor IPv6, a fragment or to a
/// group is passed.
fn read_headers(a: &mut Assembler) {
    a.copy(CONTEXT, R1);
    a.load(LOAD_WORD, R2, R1, 0);
    a.load(LOAD_WORD, R3, R1, 4);
    // The shortest: Ethernet 14, IPv4 20, ports 4.
    a.need(38);
    // The lowest bit of the first byte: a group or all.
    a.load(LOAD_BYTE, R5, R2, 0);
    a.constant(AND_CONSTANT, R5, 1);
    a.jump(JUMP_NOT_EQUAL, R5, 0, Label::Pass);
    a.load(LOAD_HALF, R5, R2, 12);
    a.jump(JUMP_EQUAL, R5, wire_order(0x0800), Label::Ipv4);
    a.jump(JUMP_NOT_EQUAL, R5, wire_order(0x86dd), Label::Pass);

    // IPv6: Ethernet 14, header 40, ports 4. Byte 6 is the next header, the destination begins at byte 24.
    a.need(58);
    a.load(LOAD_BYTE, PROTOCOL, R2, 20);
    a.load_ports(54);
    a.copy_words(22, FLOW_KEY, 4);
    a.copy_words(38, KEY, 4);
    a.constant(MOVE_CONSTANT, FAMILY, i32::from(IPV6_TAKEN));
    a.jump(JUMP, 0, 0, Label::Transport);

    // IPv4: version 4 and five words of header, no fragment; byte 9 is the protocol, the destination begins at byte 16.
    a.label(Label::Ipv4);
    a.load(LOAD_BYTE, R5, R2, 14);
    a.jump(JUMP_NOT_EQUAL, R5, 0x45, Label::Pass);
    a.load(LOAD_HALF, R5, R2, 20);
    a.constant(AND_CONSTANT, R5, wire_order(0x3fff));
    a.jump(JUMP_NOT_EQUAL, R5, 0, Label::Pass);
    a.load(LOAD_BYTE, PROTOCOL, R2, 23);
    a.load_ports(34);
    a.copy_ipv4(26, FLOW_KEY);
    a.copy_ipv4(30, KEY);
    a.constant(MOVE_CONSTANT, FAMILY, i32::from(IPV4_TAKEN));
}

#[cfg(test)]
#[path = "program/tests.rs"]
mod tests;
