//! The XDP program, assembled here: it redirects frames for served ports to the AF_XDP socket of their queue, and passes all
//! others to the kernel.
//!
//! Taken is an Ethernet frame to this host's MAC address that holds IPv4 without options and not a fragment, or IPv6
//! without extension headers, to one of the served addresses, with TCP or UDP to a served port. Everything else passes:
//! ARP, ICMP, multicast, broadcast, VLANs, fragments, forwarded packets, other ports.

use crate::Protocol;
pub use crate::bpf::Instruction;
use std::net::IpAddr;

/// The most addresses that can be served.
pub const MOST_ADDRESSES: usize = 256;
/// Entries of the table of ports: 65,536 for each protocol.
pub const PORT_ENTRIES: usize = 2 * 65_536;

/// The place of a port in the table of ports.
#[must_use]
pub fn port_entry(protocol: Protocol, port: u16) -> usize {
    usize::from(port)
        + match protocol {
            Protocol::Udp => 0,
            Protocol::Tcp => 65_536,
        }
}

/// An address as the key of the table of addresses: 16 bytes, IPv4 as `::ffff:a.b.c.d` (RFC 4291, 2.5.5.2).
#[must_use]
pub fn address_key(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
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
/// The IP protocol.
const PROTOCOL: u8 = 7;
/// The destination port, then its place in the table.
const PORT: u8 = 8;
const STACK: u8 = 10;

/// The place of the key on the stack.
const KEY: i16 = -16;

const LOAD_BYTE: u8 = 0x71;
const LOAD_HALF: u8 = 0x69;
const LOAD_WORD: u8 = 0x61;
const STORE_WORD: u8 = 0x63;
const STORE_WORD_CONSTANT: u8 = 0x62;
const MOVE: u8 = 0xbf;
const MOVE_CONSTANT: u8 = 0xb7;
const ADD_CONSTANT: u8 = 0x07;
const AND_CONSTANT: u8 = 0x57;
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

    /// Copies `words` words of the frame from `from` to the key on the stack, `to` bytes in.
    fn copy_to_key(&mut self, from: i16, to: i16, words: i16) {
        for word in 0..words {
            self.load(LOAD_WORD, R5, R2, from + 4 * word);
            self.push(STORE_WORD, STACK, R5, KEY + to + 4 * word, 0);
        }
    }

    fn map(&mut self, register: u8, fd: i32) {
        // Source 1: the constant is a descriptor of a map. The instruction takes two places.
        self.push(LOAD_MAP, register, 1, 0, fd);
        self.push(0, 0, 0, 0, 0);
    }

    /// Looks the key up that is on the stack; passes the frame where it is not there.
    fn look_up(&mut self, map: i32) {
        self.map(R1, map);
        self.copy(R2, STACK);
        self.constant(ADD_CONSTANT, R2, i32::from(KEY));
        self.constant(CALL, 0, MAP_LOOKUP);
        self.jump(JUMP_EQUAL, R0, 0, Label::Pass);
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
pub(crate) fn assemble(ports: i32, addresses: i32, xsks: i32) -> Option<Vec<Instruction>> {
    let mut a = Assembler::default();
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
    a.load(LOAD_HALF, PORT, R2, 56);
    a.copy_to_key(38, 0, 4);
    a.jump(JUMP, 0, 0, Label::Transport);

    // IPv4: version 4 and five words of header, no fragment; byte 9 is the protocol, the destination begins at byte 16.
    a.label(Label::Ipv4);
    a.load(LOAD_BYTE, R5, R2, 14);
    a.jump(JUMP_NOT_EQUAL, R5, 0x45, Label::Pass);
    a.load(LOAD_HALF, R5, R2, 20);
    a.constant(AND_CONSTANT, R5, wire_order(0x3fff));
    a.jump(JUMP_NOT_EQUAL, R5, 0, Label::Pass);
    a.load(LOAD_BYTE, PROTOCOL, R2, 23);
    a.load(LOAD_HALF, PORT, R2, 36);
    a.push(STORE_WORD_CONSTANT, STACK, 0, KEY, 0);
    a.push(STORE_WORD_CONSTANT, STACK, 0, KEY + 4, 0);
    a.push(STORE_WORD_CONSTANT, STACK, 0, KEY + 8, i32::from_ne_bytes([0, 0, 0xff, 0xff]));
    a.copy_to_key(30, 12, 1);

    // The port first: most frames that are not ours end here.
    a.label(Label::Transport);
    a.push(TO_BIG_ENDIAN, PORT, 0, 0, 16);
    a.jump(JUMP_EQUAL, PROTOCOL, libc::IPPROTO_UDP, Label::Udp);
    a.jump(JUMP_NOT_EQUAL, PROTOCOL, libc::IPPROTO_TCP, Label::Pass);
    a.constant(ADD_CONSTANT, PORT, 65_536);
    a.label(Label::Udp);
    a.push(STORE_WORD, STACK, PORT, KEY - 4, 0);
    a.map(R1, ports);
    a.copy(R2, STACK);
    a.constant(ADD_CONSTANT, R2, i32::from(KEY - 4));
    a.constant(CALL, 0, MAP_LOOKUP);
    a.jump(JUMP_EQUAL, R0, 0, Label::Pass);
    a.load(LOAD_BYTE, R0, R0, 0);
    a.jump(JUMP_EQUAL, R0, 0, Label::Pass);
    a.look_up(addresses);

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

#[cfg(test)]
#[path = "program/tests.rs"]
mod tests;
