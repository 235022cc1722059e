//! Entry points for fuzzing, and what always has to be true. Not part of the public interface.
#![doc(hidden)]

use crate::address::{Address, Flow};
use crate::number::Seq;
use crate::tcp::Connection;
use crate::wire::ip::{Marks, Template};
use crate::wire::tcp::{Header, OptionBytes};
use crate::wire::{PROTOCOL_TCP, PROTOCOL_UDP};
use crate::{
    Config, Hop, Instant, KeepAlive, Listener, ReceiveChecksum, Shutdown, Stack, TcpOptions, TcpSocket, UdpOptions,
    UdpSocket,
};
use std::net::{IpAddr, SocketAddr};

const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
const MAX_CONNECTIONS: usize = 12;

/// What has to be true of a stack between any two calls.
pub fn check(stack: &Stack) {
    for connection in stack.each_connection() {
        check_connection(connection);
    }
    let counts = stack.sizes();
    assert!(counts.replies <= 64 && counts.needed <= 64, "{counts:?}");
    assert!(counts.events <= counts.sockets && counts.output <= 2 * counts.sockets + 64, "{counts:?}");
}

fn check_connection(connection: &Connection) {
    let send = &connection.send;
    if connection.state.is_synchronized() && connection.state != crate::TcpState::TimeWait {
        let end = connection.end_of_send();
        assert!(send.unacknowledged.at_most(send.next) && send.next.at_most(end), "{connection:?}");
        send.flights.check(send.unacknowledged, send.next);
        let receive = &connection.receive;
        let room = receive.edge.since(receive.next) as usize;
        let fits = receive.edge.before(receive.next) || room <= receive.buffer.free();
        // Who closed receives no more, and has no buffer.
        assert!(fits || connection.orphan, "{connection:?}");
        let mut last = receive.next;
        for range in &receive.ranges {
            assert!(last.before(range.start) && range.start.before(range.end), "{connection:?}");
            last = range.end;
        }
        assert!(last.at_most(receive.edge.later(last)) && receive.ranges.len() <= 64, "{connection:?}");
        assert!(receive.ranges.is_empty() || last.since(receive.next) as usize <= receive.buffer.free(), "{receive:?}");
        assert!(send.congestion.window >= 32 && send.mss >= 32, "{connection:?}");
    }
}

fn ip(number: usize, v6: bool) -> IpAddr {
    let last = if number == 0 { 1 } else { 2 };
    if v6 {
        IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last])
    } else {
        IpAddr::from([192, 0, 2, last.to_le_bytes()[0]])
    }
}

fn stack(number: usize) -> Stack {
    let config = Config::new(MACS[number], vec![ip(number, false), ip(number, true)], [7; 16]);
    let mut stack = Stack::new(Config {
        max_connections: MAX_CONNECTIONS,
        max_half_open: 2,
        max_time_wait: 3,
        max_hops: 4,
        receive_checksum: ReceiveChecksum::Skip,
        ..config
    });
    for v6 in [false, true] {
        stack.set_hop(ip(1 - number, v6), Hop { mac: MACS[1 - number], mtu: 1500, source: ip(number, v6) });
    }
    stack
}

/// One stack with sockets in many states, and another one that talks to it.
struct World {
    stacks: [Stack; 2],
    now: Instant,
    sockets: [Vec<TcpSocket>; 2],
    listeners: Vec<Listener>,
    udp: Vec<UdpSocket>,
    options: TcpOptions,
}

/// A script of steps: a byte for the kind, one for the length, and as many bytes of a frame or of its fields. Frames
/// between the stacks arrive or not by the script; forged ones come between.
pub fn frames(script: &[u8]) {
    let bits = script.first().copied().unwrap_or(0);
    let options = TcpOptions {
        send_buffer: 4096,
        receive_buffer: if bits & 1 == 0 { 4096 } else { 1 << 17 },
        sack: bits & 2 == 0,
        timestamps: bits & 4 == 0,
        window_scale: bits & 8 == 0,
        nodelay: bits & 16 == 0,
        keep_alive: (bits & 32 == 0).then(KeepAlive::default),
        rto_min_ns: 5_000_000,
        ..TcpOptions::default()
    };
    let mut world = World {
        stacks: [stack(0), stack(1)],
        now: Instant(1_000_000_000),
        sockets: [Vec::new(), Vec::new()],
        listeners: Vec::new(),
        udp: Vec::new(),
        options,
    };
    for (number, stack) in world.stacks.iter_mut().enumerate() {
        let at = |port| SocketAddr::new(ip(number, true), port);
        let any = SocketAddr::new(IpAddr::from([0; 16]), 80);
        world.listeners.extend(stack.tcp_listen(any, true, 3, options));
        world.udp.extend(stack.udp_bind(at(53), false, UdpOptions { receive_buffer: 2000, ..UdpOptions::default() }));
    }
    let mut rest = script;
    while let Some((&[what, much], after)) = rest.split_first_chunk::<2>() {
        let (bytes, after) = after.split_at(usize::from(much).min(after.len()));
        rest = after;
        world.step(what, much, bytes);
        check(&world.stacks[0]);
        check(&world.stacks[1]);
    }
    world.end();
}

impl World {
    fn step(&mut self, what: u8, much: u8, bytes: &[u8]) {
        let side = usize::from(what >> 7);
        match what & 15 {
            0 => self.pass(u64::from(much) * 1_000_000),
            1 => self.pass(u64::from(much) << 34),
            2 => self.connect(side, much),
            3 => {
                if let Some(listener) = self.listeners.get(side) {
                    let accepted = self.stacks[side].tcp_accept(*listener);
                    self.sockets[side].extend(accepted);
                }
            }
            4 | 5 => self.call(side, what >> 4 & 7, much, bytes),
            6 => self.raw(side, bytes),
            7..=12 => self.forge(side, bytes),
            13 => self.forge_udp(side, bytes),
            14 => {
                let remote = ip(1 - side, much & 1 == 1);
                match much & 6 {
                    0 => self.stacks[side].hop_failed(remote),
                    2 => self.stacks[side].forget_hop(remote),
                    _ => {
                        let mtu = 500 + u16::from(much) * 8;
                        let hop = Hop { mac: MACS[1 - side], mtu, source: ip(side, much & 1 == 1) };
                        self.stacks[side].set_hop(remote, hop);
                    }
                }
            }
            _ => {}
        }
        self.exchange(what & 0x40 != 0, what & 0x20 != 0);
    }

    fn pass(&mut self, ns: u64) {
        self.now = self.now.after(ns);
        for stack in &mut self.stacks {
            stack.handle_timeout(self.now);
            // Nothing that is due is left.
            assert!(stack.poll_timeout().is_none_or(|next| next.after(65_536) > self.now));
        }
    }

    /// Frames between both stacks, unless they are lost.
    fn exchange(&mut self, lose_first: bool, lose_all: bool) {
        let mut frame = [0; 2000];
        for round in 0..20 {
            for from in [0, 1] {
                for _ in 0..50 {
                    let Some(length) = self.stacks[from].poll_transmit(self.now, &mut frame) else { break };
                    if !(lose_all || lose_first && round == 0) {
                        let _ = self.stacks[1 - from].handle_frame(self.now, frame.get(..length).unwrap_or_default());
                    }
                }
            }
        }
        for stack in &mut self.stacks {
            while stack.poll_event().is_some() {}
        }
    }

    fn connect(&mut self, side: usize, much: u8) {
        let v6 = much & 1 == 1;
        let local = SocketAddr::new(ip(side, v6), 1000 + u16::from(much >> 4));
        let port = if much & 2 == 0 { 80 } else { 1000 + u16::from(much >> 4) };
        let made =
            self.stacks[side].tcp_connect(self.now, local, SocketAddr::new(ip(1 - side, v6), port), self.options);
        self.sockets[side].extend(made);
    }

    fn call(&mut self, side: usize, what: u8, much: u8, bytes: &[u8]) {
        let count = self.sockets[side].len();
        let Some(&socket) = self.sockets[side].get(usize::from(much) % count.max(1)) else { return };
        let (stack, now) = (&mut self.stacks[side], self.now);
        match what {
            0 | 1 => drop(stack.tcp_send(socket, &bytes.repeat(20), what == 1)),
            2 => drop(stack.tcp_receive(socket, &mut [0; 700])),
            3 => drop(stack.tcp_shutdown(socket, [Shutdown::Read, Shutdown::Write][usize::from(much & 1)])),
            4 => drop(stack.tcp_close(now, socket)),
            5 => drop(stack.tcp_abort(socket)),
            6 => drop(stack.tcp_mark_urgent(socket)),
            _ => {
                let options = TcpOptions { cork: much & 1 == 1, tos: much, ..self.options };
                let _ = stack.tcp_set_options(now, socket, options);
                let _ = (stack.tcp_readiness(socket), stack.tcp_info(socket), stack.tcp_urgent(socket));
                if let Some(udp) = self.udp.get(side) {
                    let to = SocketAddr::new(ip(1 - side, true), 53);
                    let _ = stack.udp_send(now, *udp, Some(to), bytes);
                    let _ = stack.udp_connect(*udp, (much & 2 == 0).then_some(to));
                    let _ = stack.udp_receive(*udp, &mut [0; 100]);
                }
            }
        }
    }

    /// Any bytes behind a header that lets them in.
    fn raw(&mut self, side: usize, bytes: &[u8]) {
        let mut frame = [MACS[side], MACS[1 - side]].concat();
        frame.extend(bytes);
        let _ = self.stacks[side].handle_frame(self.now, &frame);
        let _ = self.stacks[side].handle_frame(self.now, bytes);
    }

    /// A segment that means something: numbers near those of a connection.
    fn forge(&mut self, side: usize, bytes: &[u8]) {
        let Some((&[which, flags, sequence, acknowledgment, window, urgent], rest)) = bytes.split_first_chunk::<6>()
        else {
            return;
        };
        let near = |base: Seq, offset: u8| match offset >> 6 {
            0 => base.plus(u32::from(offset)),
            1 => base.minus(u32::from(offset & 63)),
            2 => base.plus(u32::from(offset & 63) << 6),
            _ => base.plus(u32::from(offset & 63) << 26),
        };
        let known = self.stacks[side].each_connection().count();
        let connection = self.stacks[side].each_connection().nth(usize::from(which) % (known + 1));
        let (flow, expected, unacknowledged) = connection.map_or_else(
            || {
                let (local, remote) = (Address::from(ip(side, true)), Address::from(ip(1 - side, true)));
                (Flow { local, remote, local_port: 80, remote_port: u16::from(which) }, Seq(0), Seq(0))
            },
            |one| (one.flow, one.receive.next, one.send.unacknowledged),
        );
        let timestamp = connection.map_or(0, |one| one.receive.ts_recent);
        let mut options = OptionBytes::default();
        if flags & 0x40 != 0 {
            options.add_timestamps(timestamp.wrapping_add(u32::from(window & 3)), timestamp);
        }
        if flags & 0x80 != 0 {
            let start = near(unacknowledged, urgent);
            options.add_blocks([(start, near(start, sequence)), (near(start, which), near(start, flags))].into_iter());
        } else if flags & 2 != 0 {
            options.add_mss(u16::from(urgent) * 8);
            options.add_sack_permitted();
            options.add_window_scale(window & 15);
        }
        let header = Header {
            source_port: flow.remote_port,
            destination_port: flow.local_port,
            sequence: near(expected, sequence),
            acknowledgment: near(unacknowledged, acknowledgment),
            flags: flags & 63,
            window: u16::from(window) << (urgent & 7),
            urgent: u16::from(urgent),
        };
        let length = crate::wire::tcp::HEADER + options.bytes().len();
        let payload: Vec<u8> = rest.repeat(1 + usize::from(which & 3) * 8);
        let mut segment = vec![0; length];
        header.write(options.bytes(), &mut segment);
        segment.extend(payload);
        self.inject(side, &flow, PROTOCOL_TCP, &segment);
    }

    fn forge_udp(&mut self, side: usize, bytes: &[u8]) {
        let (local, remote) = (Address::from(ip(side, true)), Address::from(ip(1 - side, true)));
        let flow = Flow { local, remote, local_port: 53, remote_port: 53 };
        let length = crate::number::short(8 + bytes.len()).to_be_bytes();
        let datagram = [&[0, 53, 0, 53, length[0], length[1], 1, 1], bytes].concat();
        self.inject(side, &flow, PROTOCOL_UDP, &datagram);
    }

    fn inject(&mut self, side: usize, flow: &Flow, protocol: u8, payload: &[u8]) {
        let macs = [MACS[1 - side], MACS[side]];
        let template = Template::new(macs, flow.remote, flow.local, protocol, Marks { ttl: 64, tos: 0 });
        let mut frame = vec![0; template.length() + payload.len()];
        if let Some(place) = template.write(&mut frame, payload.len()) {
            place.copy_from_slice(payload);
        }
        let _ = self.stacks[side].handle_frame(self.now, &frame);
    }

    /// When all is closed and time has passed, nothing is left.
    fn end(mut self) {
        for side in [0, 1] {
            assert!(self.stacks[side].each_connection().count() <= MAX_CONNECTIONS);
            for socket in self.sockets[side].clone() {
                let _ = self.stacks[side].tcp_close(self.now, socket);
            }
            let _ = self.listeners.get(side).map(|listener| self.stacks[side].listener_close(*listener));
        }
        for _ in 0..60 {
            self.exchange(false, true);
            self.pass(10_000_000_000);
            check(&self.stacks[0]);
        }
        for stack in &mut self.stacks {
            assert_eq!(stack.each_connection().count(), 0, "{:?}", stack.each_connection().next());
            assert_eq!(stack.poll_timeout(), None);
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) replies: usize,
    pub(crate) needed: usize,
    pub(crate) events: usize,
    pub(crate) output: usize,
    pub(crate) sockets: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::long;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_script_breaks_a_stack(script in proptest::collection::vec(any::<u8>(), 0..600)) {
            frames(&script);
        }

        /// Steps that are more likely to lead somewhere than bytes at random.
        #[test]
        fn no_conversation_breaks_a_stack(
            steps in proptest::collection::vec((0_u8..16, any::<u8>(), proptest::collection::vec(any::<u8>(), 0..40)), 1..60),
        ) {
            let mut script = vec![0, 0, 2, 0, 3, 0, 0x83, 0];
            for (what, bits, bytes) in steps {
                let losses = if bits & 7 == 0 { bits & 0x60 } else { 0 };
                let much = if matches!(what, 0..=3 | 14 | 15) { bits } else { long(bytes.len()).to_le_bytes()[0] };
                script.extend([what | losses | bits & 0x90, much]);
                if matches!(what, 4..=13) {
                    script.extend(&bytes);
                } else {
                    script.extend(std::iter::repeat_n(0, usize::from(much)));
                }
            }
            frames(&script);
        }
    }
}
