//! PGM, the reliable multicast protocol of RFC 3208 ("PGM Reliable Transport Protocol Specification", December 2001).
//!
//! A source multicasts numbered data to any number of receivers. A receiver that misses a number asks for it with a NAK,
//! the source confirms that at once with an NCF to the whole group, so that other receivers need not ask as well, and
//! repairs it with RDATA. SPMs tell receivers where the source is and which numbers it can still repair.
//!
//! This crate knows no sockets, no clocks and no threads. What it has so far:
//!
//! - [`packet`]: every packet type and option of the RFC that an end host needs, read and written;
//! - [`Sqn`]: sequence numbers and their order;
//! - [`Tsi`]: who a source is;
//! - [`Source`]: the sending end as a state machine;
//! - [`Receiver`]: the receiving end as a state machine;
//! - [`fec`]: parity, by which both can repair whole groups of packets, off by default;
//! - [`sim`]: a network in virtual time, to test with.
//!
//! Routers' parts of the RFC (section 7, DLRs) and congestion control (PGMCC) are left out on purpose.

#[doc(hidden)]
pub mod exercise;
pub mod fec;
pub mod packet;
mod random;
pub mod receiver;
pub mod sim;
pub mod source;
mod sqn;
mod tsi;

pub use receiver::{Receiver, ReceiverConfig};
pub use source::{Source, SourceConfig};
pub use sqn::Sqn;
pub use tsi::{Gsi, Tsi};
