//! Two nodes over UDP with the sockets of the standard library: a source and a receiver on the loopback interface, each on
//! a thread of its own, with some datagrams thrown away so that there is something to repair.
//!
//! `cargo run -p windhover-pgm --example udp`
//!
//! It shows what a driver of the engines has to do, in the simplest way that works: wait for a datagram until the engine's
//! next timer, hand in what came, send what comes out. Between hosts, bind the source to its address in the network, and
//! use one port for everything (3056 by custom) where other implementations take part.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use pgm::receiver::{Destination, SessionEvent};
use pgm::{Gsi, Receiver, ReceiverConfig, Source, SourceConfig, Tsi};
use std::error::Error;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 192, 17, 1);
const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;
const DATA_PORT: u16 = 7500;
const MESSAGES: u32 = 2000;
/// Nobody waits longer than this.
const LIMIT: Duration = Duration::from_secs(20);

type Done = Result<(), Box<dyn Error + Send + Sync>>;

/// Nanoseconds since the start: the engines want any clock that does not go back.
fn since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Waits for a datagram until the engine wants to be called again, a millisecond at most.
fn wait(
    socket: &UdpSocket,
    buffer: &mut [u8],
    now_ns: u64,
    next_ns: Option<u64>,
) -> std::io::Result<Option<(usize, SocketAddr)>> {
    let until = next_ns.map_or(u64::MAX, |next| next.saturating_sub(now_ns)).clamp(10_000, 1_000_000);
    socket.set_read_timeout(Some(Duration::from_nanos(until)))?;
    match socket.recv_from(buffer) {
        Ok(received) => Ok(Some(received)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(None),
        Err(error) => Err(error),
    }
}

fn publish(socket: &UdpSocket, group: SocketAddr) -> Done {
    let tsi = Tsi { gsi: Gsi([0x2e, 0x11, 0x5a, 0x90, 0x07, 0x61]), port: 1 };
    let config = SourceConfig::new(tsi, DATA_PORT, IpAddr::V4(GROUP), IpAddr::V4(HERE));
    let start = Instant::now();
    let mut source = Source::new(config, 0)?;
    let (mut buffer, mut published) = ([0; 2000], 0_u32);
    // Half a second longer than its own end, for those who still miss something.
    let mut ended = None;
    while start.elapsed() < LIMIT && ended.is_none_or(|at: Instant| at.elapsed() < Duration::from_millis(500)) {
        // A message each 100 µs, the first after 50 ms, when the receiver has heard an SPM.
        let due = start.elapsed().saturating_sub(Duration::from_millis(50)).as_micros() / 100;
        while published < MESSAGES && u128::from(published) < due && source.send(&published.to_be_bytes()).is_ok() {
            published += 1;
        }
        if published == MESSAGES {
            source.close();
        }
        while let Some(out) = source.poll_transmit(since(start), &mut buffer) {
            socket.send_to(buffer.get(..out.length).unwrap_or_default(), group)?;
        }
        if source.is_finished() {
            ended.get_or_insert_with(Instant::now);
        }
        let now = since(start);
        if let Some((length, _)) = wait(socket, &mut buffer, now, source.poll_timeout(now))? {
            // What is no packet is counted and dropped.
            let _ = source.handle_datagram(since(start), buffer.get(..length).unwrap_or_default());
        }
    }
    println!("source: {:?}", source.counts());
    Ok(())
}

fn subscribe(socket: &UdpSocket) -> Done {
    let start = Instant::now();
    let mut receiver = Receiver::new(ReceiverConfig::new(DATA_PORT, IpAddr::V4(GROUP), 1))?;
    let (mut buffer, mut message) = ([0; 2000], [0; 2000]);
    let (mut expected, mut heard, mut repaired, mut slowest_ns) = (0_u32, 0_u32, 0_u32, 0);
    let mut port_of_source = None;
    while start.elapsed() < LIMIT {
        let now = since(start);
        if let Some((length, from)) = wait(socket, &mut buffer, now, receiver.poll_timeout())? {
            heard += 1;
            // NAKs go to the address that the source names; the port is the one that it sends from.
            port_of_source = Some(from.port());
            // One datagram in thirty is thrown away.
            if !heard.is_multiple_of(30) {
                let _ = receiver.handle_datagram(since(start), from.ip(), buffer.get(..length).unwrap_or_default());
            }
        }
        receiver.handle_timeout(since(start));
        while let Some(out) = receiver.poll_transmit(since(start), &mut buffer) {
            let to = match out.to {
                Destination::Unicast(address) => address,
                Destination::GroupOnLink => IpAddr::V4(GROUP),
            };
            if let Some(port) = port_of_source {
                socket.send_to(buffer.get(..out.length).unwrap_or_default(), (to, port))?;
            }
        }
        while let Some(got) = receiver.next_message(&mut message) {
            let number = message.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
            if number != Some(expected) {
                return Err(format!("message {expected} was due, {number:?} came").into());
            }
            expected += 1;
            if let Some(repair) = got.repair {
                repaired += 1;
                slowest_ns = slowest_ns.max(repair.data_ns - repair.gap_ns);
            }
        }
        while let Some(event) = receiver.poll_event() {
            println!("receiver: {event:?}");
            if matches!(event.what, SessionEvent::Finished) {
                println!(
                    "receiver: {expected} messages in order, {repaired} repaired, the slowest in {} µs",
                    slowest_ns / 1000
                );
                println!("receiver: {:?}", receiver.counts());
                return Ok(());
            }
        }
    }
    Err(format!("after {LIMIT:?} only {expected} messages").into())
}

fn main() -> Done {
    // On Linux, multicast leaves by the interface whose address the socket is bound to.
    let sending = UdpSocket::bind((HERE, 0))?;
    let receiving = UdpSocket::bind((GROUP, 0))?;
    receiving.join_multicast_v4(&GROUP, &HERE)?;
    let group = SocketAddr::from((GROUP, receiving.local_addr()?.port()));
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| subscribe(&receiving));
        publish(&sending, group)?;
        receiver.join().map_err(|_| "the receiver's thread has panicked")?
    })
}
