//! Two stacks on one wire, and what applications do with them.

use crate::sim::{Link, Network};
use sha2::{Digest as _, Sha256};
use stack::{Config, Error, Instant, Listener, Shutdown, Stack, TcpOptions, TcpSocket};
use std::net::{IpAddr, SocketAddr};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;

/// The address of a stack: the first is the client.
pub(crate) fn ip(number: usize, v6: bool) -> IpAddr {
    if v6 { format!("2001:db8::{}", number + 1) } else { format!("192.0.2.{}", number + 1) }.parse().unwrap()
}

pub(crate) fn socket(number: usize, v6: bool, port: u16) -> SocketAddr {
    SocketAddr::new(ip(number, v6), port)
}

pub(crate) fn config(number: usize) -> Config {
    let last = u8::try_from(number + 1).unwrap();
    Config::new([2, 0, 0, 0, 0, last], vec![ip(number, false), ip(number, true)], [last; 16])
}

/// A client and a server behind links of the same kind.
pub(crate) fn pair(seed: u64, link: Link) -> Network {
    let mut network = Network::new(seed);
    network.add(config(CLIENT), link);
    network.add(config(SERVER), link);
    network
}

/// Options whose time-outs fit a local network.
pub(crate) fn quick() -> TcpOptions {
    TcpOptions { rto_min_ns: 5 * MS, ..TcpOptions::default() }
}

/// A connection from the client to port 80 of the server.
pub(crate) fn connect(network: &mut Network, v6: bool, options: TcpOptions) -> (TcpSocket, TcpSocket, Listener) {
    let listener = network.stack(SERVER).tcp_listen(socket(SERVER, v6, 80), false, 8, options).unwrap();
    let now = network.now;
    let client =
        network.stack(CLIENT).tcp_connect(now, socket(CLIENT, v6, 4000), socket(SERVER, v6, 80), options).unwrap();
    for _ in 0..300 {
        network.run_for(100 * MS);
        if let Ok(server) = network.stack(SERVER).tcp_accept(listener) {
            return (client, server, listener);
        }
    }
    panic!("no connection within 30 s");
}

/// Sends everything from one end to the other, with the end; what arrived, and the longest time without progress.
pub(crate) fn transfer(
    network: &mut Network,
    (from, sender): (usize, TcpSocket),
    (to, receiver): (usize, TcpSocket),
    data: &[u8],
    limit_ns: u64,
) -> (Vec<u8>, u64) {
    let (mut sent, mut arrived, mut ended) = (0, Vec::new(), false);
    let mut buffer = vec![0; 70_000];
    let (end, mut last, mut longest) = (network.now.after(limit_ns), network.now, 0);
    while network.now < end {
        let now = network.now;
        while sent < data.len() {
            match network.stack(from).tcp_send(sender, &data[sent..(sent + 60_000).min(data.len())], false) {
                Ok(count) => sent += count,
                Err(Error::WouldBlock) => break,
                Err(error) => panic!("send after {sent}: {error}"),
            }
        }
        if sent == data.len() && !ended {
            network.stack(from).tcp_shutdown(sender, Shutdown::Write).unwrap();
            ended = true;
        }
        loop {
            match network.stack(to).tcp_receive(receiver, &mut buffer) {
                Ok(0) => return (arrived, longest),
                Ok(count) => {
                    arrived.extend_from_slice(&buffer[..count]);
                    longest = longest.max(now.since(last));
                    last = now;
                }
                Err(Error::WouldBlock) => break,
                Err(error) => panic!("receive after {}: {error}", arrived.len()),
            }
        }
        if !network.step(end) {
            break;
        }
    }
    panic!(
        "{} of {} bytes arrived within {} ms, {sent} were taken\nsender {:?}\nreceiver {:?}",
        arrived.len(),
        data.len(),
        limit_ns / MS,
        network.stack(from).tcp_info(sender),
        network.stack(to).tcp_info(receiver)
    );
}

/// Bytes that repeat nowhere.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 32);
    let mut block = Sha256::digest(b"pattern");
    while bytes.len() < length {
        bytes.extend_from_slice(&block);
        block = Sha256::digest(block);
    }
    bytes.truncate(length);
    bytes
}

pub(crate) fn digest(bytes: &[u8]) -> Vec<u8> {
    Sha256::digest(bytes).to_vec()
}

/// A frame of a stack, read for an assertion.
pub(crate) fn tcp_flags(frame: &[u8]) -> Option<u8> {
    let is_v4 = frame.get(12..14)? == [8, 0];
    let at = if is_v4 { 14 + 20 } else { 14 + 40 };
    let protocol = *frame.get(if is_v4 { 23 } else { 20 })?;
    (protocol == 6).then(|| frame.get(at + 13).copied()).flatten()
}

/// Everything that a stack wants to send now.
pub(crate) fn drain(stack: &mut Stack, now: Instant) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut frame = [0; 10_000];
    while let Some(length) = stack.poll_transmit(now, &mut frame) {
        frames.push(frame[..length].to_vec());
    }
    frames
}
