//! A network in virtual time, for tests: nodes on links that have a rate, a queue and a delay, and that lose, double and
//! reorder packets by a seed.
//!
//! The engines of this crate know no clock and no socket, so a whole network of them runs in one thread, as fast as the
//! processor can, and the same seed gives the same packets in the same order. This module is what the crate's own tests
//! run on; it is public, because code that is built on the engines can be tested in the same way: implement [`Node`] for
//! it. [`Station`] is the node that most tests need, a source, a receiver or both.
//!
//! Every node hangs on one switch by two [`Link`]s, one up and one down. What the link up loses, everybody misses; what a
//! link down loses, one misses. Packets to a group go to all nodes that joined it but the sender. Sides of a partition do
//! not hear each other. A [`Network`] allocates; it is no part of what runs in production.
//!
//! ```
//! use pgm::sim::{Link, Network, Station};
//! use pgm::{ReceiverConfig, SourceConfig, Tsi};
//! use std::net::IpAddr;
//!
//! let group: IpAddr = "239.192.0.1".parse()?;
//! let (alice, bob): (IpAddr, IpAddr) = ("192.0.2.1".parse()?, "192.0.2.2".parse()?);
//! let mut network = Network::new(7);
//! let source = Station::source(SourceConfig::new(Tsi::default(), 7500, group, alice))?;
//! let source = network.add(alice, Link::default(), source);
//! let receiver = Station::receiver(ReceiverConfig::new(7500, group, 1))?;
//! // One packet in ten is lost on its way to Bob.
//! let receiver = network.add(bob, Link { lost: 0.1, ..Link::default() }, receiver);
//! network.join(receiver, group);
//! network.run_until(10_000_000)?;
//! for number in 0..100_u32 {
//!     network.node_mut(source).publish(&number.to_be_bytes())?;
//! }
//! network.run_until(1_000_000_000)?;
//! let numbers: Vec<&[u8]> = network.node(receiver).delivered().iter().map(|one| one.bytes.as_slice()).collect();
//! assert_eq!(numbers, (0..100_u32).map(u32::to_be_bytes).collect::<Vec<_>>());
//! assert!(network.down(receiver).lost > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What loss and window cost
//! A source sends 80,000 messages of 1000 bytes a second (640 Mbit/s) to two receivers over links of 1 Gbit/s and 10 µs,
//! with the default timers; each receiver's link loses that share of packets in both directions, each others. In virtual
//! time, so these figures are the same on every machine; a test holds them.
//!
//! "Lost for good" is what left the source's window before it was repaired. "Repair" is the time from the gap to the
//! data, "delay" that of all messages from their sending to their delivery, which waits for those before them.
#![doc = ""]
#![doc = include_str!("golden.md")]

mod link;
mod network;
mod node;
mod station;

pub use link::{Link, LinkCounts};
pub use network::{Network, NoProgress, NodeId, PassingPacket, SentPacket};
pub use node::{Arrival, Node, Outgoing};
pub use station::{Delivered, Keep, Station};
