//! Datapaths through libc only: where a measured message enters and leaves the kernel (or a preloaded stack).
//!
//! Floor 1: may hold unsafe code, may open sockets and read the clock; may not print, start processes, change system
//! settings or keep statistics. Every call on a data socket is a plain `socket`, `send`, `recv`, `sendto`, `recvfrom`,
//! … of the dynamic libc (pipes: `read` and `write`), so that a library in LD_PRELOAD sees it.
//!
//! # The initiator
//! ```text
//! let peer = net::resolve("b:7412", net::DEFAULT_PORT, None)?;           // control address
//! let mut socket = DataSocket::connect(&spec.socket, &spec.initiator, data_address, timeout)?;
//! socket.send_once(&token, timeout)?;                                    // prove itself, outside the measured loop
//! net::with_path(&mut socket, &PathOptions { … }, MyLoop { … })?          // one match, then a monomorphic loop
//! ```
//! # The reflector
//! ```text
//! udp:  let mut socket = DataSocket::bind(&socket_spec, &end, local)?;
//!       let Some((bytes, Some(from))) = socket.receive_once(&mut buffer, timeout)? …  // the proof
//!       socket.set_peer(from)?;                                          // connects it, when the spec asks for it
//! tcp:  let listener = DataListener::bind(&socket_spec, &end, local)?;
//!       let socket = listener.accept(timeout)?;
//! unix, pipe:  local_pair(&socket_spec, &initiator, &reflector)? before the child starts,
//!              DataSocket::inherit(protocol, read, write)? in the child
//! ```
//! # The loop
//! A loop is a [`PathVisitor`]; its `visit` is generic over [`Path`], so each combination of transport and waiter is
//! compiled for itself and nothing is decided per message.
#![expect(missing_docs, reason = "what has no comment is what its name says")]
#![expect(unsafe_code, reason = "the datapaths call libc directly, so that preloaded stacks can interpose")]

mod address;
mod batch;
mod bound;
pub mod bulk;
mod calls;
pub mod capture;
mod control;
pub mod duplex;
mod error;
mod fallback;
mod frame;
pub mod group;
pub mod icmp;
mod idle;
pub mod interface;
mod joined;
mod kernel;
mod listener;
mod local;
mod made;
mod memory;
mod multi;
mod multicast;
mod options;
mod path;
pub mod resolve;
pub mod route;
mod socket;
pub mod stamps;
mod sys;
pub mod tcp;
pub mod transaction;
mod transport;
mod wait;

pub use calls::{CallObserver, ObservedCalls};
pub use duplex::{Arrival, DuplexVisitor, Inbox, Message, Outbox, with_duplex};
pub use error::NetError;
pub use fallback::Fallback;
pub use joined::with_path;
pub use kernel::check_kernel;
pub use listener::DataListener;
pub use local::local_pair;
pub use made::data_sockets;
pub use path::{Path, PathError, PathOptions, PathVisitor, Received};
pub use resolve::{resolve, resolve_all};
pub use socket::DataSocket;
pub use transaction::{TransactionClient, TransactionServer};

/// Port of the endpoint's control connection when none is named (TCP).
pub const DEFAULT_PORT: u16 = 7412;
