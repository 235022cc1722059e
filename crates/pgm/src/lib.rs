//! PGM, the reliable multicast protocol of RFC 3208 ("PGM Reliable Transport Protocol Specification", December 2001).
//!
//! A source multicasts numbered data to any number of receivers. A receiver that misses a number asks for it with a NAK,
//! the source confirms that at once with an NCF to the whole group, so that other receivers need not ask as well, and
//! repairs it with RDATA. SPMs tell receivers where the source is and which numbers it can still repair.
//!
//! This crate knows no sockets, no clocks and no threads. It has:
//!
//! - [`packet`]: every packet type and option of the RFC that an end host needs, read and written;
//! - [`Sqn`]: sequence numbers and their order;
//! - [`Tsi`]: who a source is;
//! - [`Source`]: the sending end as a state machine;
//! - [`Receiver`]: the receiving end as a state machine;
//! - [`fec`]: parity, by which both can repair whole groups of packets, off by default;
//! - [`sim`]: a network in virtual time, to test with;
//! - [`zmtp`]: messages as ZeroMQ puts them into PGM.
//!
//! # The protocol in ten points
//! - A session is one source, named by its [`Tsi`]; a receiver may hear many, each with a window of its own.
//! - Data are numbered from one packet to the next, and kept by the source in its *transmit window*: the newest packets,
//!   up to a fixed number. Its oldest number, the *trail*, is in every packet, so receivers know what can no longer be had.
//! - A receiver that sees a number beyond the one that it expects, in data or as the *lead* of an SPM, has found a gap.
//! - It waits a random *back-off*. If it hears another receiver's NAK meanwhile, it waits for the repair instead.
//! - Then it sends a NAK, unicast, to the address that the newest SPM named. Before the first SPM it cannot, and holds it.
//! - No NCF within the *repeat* interval: the NAK or the NCF was lost, and it begins again. No data within the *data*
//!   interval after the NCF: the repair was lost, and it begins again. After many rounds it gives up.
//! - The source multicasts the repair, within its rate: all who miss the number get it, and it was asked for once.
//! - Messages are delivered in the order of their numbers, so one that is missing holds back those behind it.
//! - SPMs come at a fixed rate beside data, and after the last data ever more seldom: they show a lost end.
//! - Nothing is acknowledged: the source does not know its receivers, and a slow one slows no other.
//!
//! # Driving an engine
//! Both engines have the same five methods, and want to be called so:
//!
//! ```no_run
//! # use pgm::{Receiver, ReceiverConfig};
//! # fn now_ns() -> u64 { 0 }
//! # fn wait_for_datagram(until_ns: Option<u64>) -> Option<(std::net::IpAddr, Vec<u8>)> { None }
//! # fn send(to: pgm::receiver::Destination, datagram: &[u8]) {}
//! # let mut receiver = Receiver::new(ReceiverConfig::new(7500, "239.192.0.1".parse()?, 1))?;
//! # let (mut buffer, mut message) = ([0; 1500], [0; 9000]);
//! loop {
//!     // 1. Wait for a datagram, no longer than the engine's time-out.
//!     if let Some((from, datagram)) = wait_for_datagram(receiver.poll_timeout()) {
//!         // 2. Hand it in. What is no packet is an error that may be passed over: it is counted.
//!         let _ = receiver.handle_datagram(now_ns(), from, &datagram);
//!     }
//!     // 3. Let it do what time has made due.
//!     receiver.handle_timeout(now_ns());
//!     // 4. Send what it wants to be sent, until there is no more.
//!     while let Some(out) = receiver.poll_transmit(now_ns(), &mut buffer) {
//!         send(out.to, &buffer[..out.length]);
//!     }
//!     // 5. Take what has happened.
//!     while let Some(event) = receiver.poll_event() {
//!         // A source was heard, data were lost for good, a session ended …
//!     }
//!     while let Some(got) = receiver.next_message(&mut message) {
//!         let _text = &message[..got.length];
//!     }
//! }
//! # #[allow(unreachable_code)]
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Source`] takes messages by [`Source::send`] instead, and has no events; a full queue is an error at once, nothing blocks.
//! Times are nanoseconds of any clock that does not go back. After their start, neither allocates. `examples/udp.rs` has
//! both over real sockets.
//!
//! # What an end host has to provide
//! Packets of a source go to the group, NAKs to the address in [`receiver::Destination`], both over UDP (3056 by custom) or
//! as IP protocol [`packet::IP_PROTOCOL`]. SPMs, NCFs and repairs want the IP router alert option where routers speak PGM
//! ([`source::Transmit::router_alert`]). Buffers of the sockets should hold a burst: the source's `burst_bytes`, at least.
//!
//! # Left out
//! What routers do (section 7, local repairers, polls) and congestion control (PGMCC).

#[cfg(test)]
extern crate self as pgm;
#[cfg(test)]
#[path = "../../../fuzz/src/pgm_entries.rs"]
#[allow(unreachable_pub, dead_code, reason = "a part of the fuzz package")]
mod exercise;
pub mod fec;
pub mod packet;
mod rate;
pub mod receiver;
pub mod sim;
pub mod source;
mod sqn;
#[cfg(test)]
mod tests;
mod tsi;
pub mod zmtp;

pub use receiver::{Receiver, ReceiverConfig};
pub use source::{Source, SourceConfig};
pub use sqn::Sqn;
pub use tsi::{Gsi, Tsi};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
