//! PGM over sockets: the state machines of the `pgm` crate, driven by datagrams, a clock and a receive mode.
//!
//! A [`PgmSocket`] is one end of a conversation: it may publish on one group, subscribe to one group (the same or another), or
//! both. By hand it is [`PgmSocket::send`], [`PgmSocket::receive`], [`PgmSocket::drive`] and [`PgmSocket::close`], all on one thread;
//! [`hand`] has loops of them. Under a
//! measuring loop it is [`PgmSocket::with_duplex`]: a [`net::Outbox`] and a [`net::Inbox`], for two threads or one.
//!
//! ```no_run
//! use pgm::{Gsi, Tsi};
//! use pgm_io::{Carrier, Incoming, PgmSocket, PgmSocketOptions};
//!
//! let me = Tsi { gsi: Gsi([1, 2, 3, 4, 5, 6]), port: 1 };
//! let options = PgmSocketOptions::new(Carrier::Udp { port: 3056 }, "10.0.0.1".parse()?)
//!     .publish(me, 7500, "239.192.0.1".parse()?)
//!     .subscribe(7500, "239.192.0.2".parse()?);
//! let mut socket = PgmSocket::open(&options)?;
//! socket.send(b"hello")?;
//! let mut buffer = [0; 2000];
//! if let Incoming::Message(message) = socket.receive(&mut buffer, std::time::Duration::from_secs(1))? {
//!     let _text = &buffer[..message.bytes];
//! }
//! socket.close(std::time::Duration::from_secs(1))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Sockets
//! Everything is sent from a socket that is bound to the own unicast address; NAKs and SPMRs for the own source come to
//! it. What the other sources multicast comes to a second one, bound to the group. The carrier is UDP, with the same port
//! for both, or IP protocol 113 itself, which takes CAP_NET_RAW.
//!
//! # Threads
//! The sending and the receiving half share the source behind a lock, which is taken for a send, for a NAK and for a
//! timer; nothing else is shared. After [`PgmSocket::open`] nothing is allocated, printed or logged.
//!
//! Floor 2: no unsafe code, no settings of the system, no processes.
#![expect(missing_docs, reason = "what has no comment is what its name says")]

mod duplex;
mod error;
pub mod hand;
mod log;
mod memory;
mod options;
mod receiving;
mod sending;
mod socket;
pub mod spec;
mod stamps;

pub use error::PgmIoError;
pub use log::RepairNote;
pub use net::group::Carrier;
pub use options::PgmSocketOptions;
pub use socket::{Delivered, Incoming, PgmSocket, PgmSocketCounts};
pub use spec::Ends;
pub use wire::pgm::events::{EventKind, EventNote, Numbers};
