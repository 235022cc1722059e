//! UDP and TCP over IPv4, IPv6 and Ethernet, without sockets, clocks, threads and system calls: frames, calls and times go
//! in, frames and events come out.
//!
//! It is made to run inside an unmodified program, below its socket calls and above a driver such as AF_XDP: one [`Stack`]
//! a process, in one lock. The kernel keeps what it owns: addresses, routes, neighbours and ports. The stack is given its
//! addresses ([`Config`]) and, for each remote address, the next hop ([`Hop`]); it asks for one that it does not know by
//! [`Event::NeighbourNeeded`]. It answers neither ARP nor neighbour discovery nor echo requests, and it never fragments.
//!
//! # Driving a stack
//! ```
//! use stack::{Config, Error, Hop, Instant, Stack, TcpOptions};
//!
//! let secret = [7; 16]; // Random bytes.
//! let mut client = Stack::new(Config::new([2, 0, 0, 0, 0, 1], vec!["192.0.2.1".parse()?], secret));
//! let mut server = Stack::new(Config::new([2, 0, 0, 0, 0, 2], vec!["192.0.2.2".parse()?], secret));
//! let hop = |mac, source: &str| Ok::<_, std::net::AddrParseError>(Hop { mac, mtu: 1500, source: source.parse()? });
//! client.set_hop("192.0.2.2".parse()?, hop([2, 0, 0, 0, 0, 2], "192.0.2.1")?);
//! server.set_hop("192.0.2.1".parse()?, hop([2, 0, 0, 0, 0, 1], "192.0.2.2")?);
//!
//! let mut now = Instant(0);
//! let listener = server.tcp_listen("192.0.2.2:80".parse()?, false, 16, TcpOptions::default())?;
//! let socket = client.tcp_connect(now, "192.0.2.1:4000".parse()?, "192.0.2.2:80".parse()?, TcpOptions::default())?;
//! // The wire: what one stack sends, the other receives.
//! let mut exchange = |now: Instant, client: &mut Stack, server: &mut Stack| {
//!     let mut frame = [0; 1514];
//!     for _ in 0..8 {
//!         while let Some(length) = client.poll_transmit(now, &mut frame) {
//!             server.handle_frame(now, &frame[..length]);
//!         }
//!         while let Some(length) = server.poll_transmit(now, &mut frame) {
//!             client.handle_frame(now, &frame[..length]);
//!         }
//!     }
//! };
//! exchange(now, &mut client, &mut server);
//! client.tcp_send(socket, b"hello", false)?;
//! now = now.after(10_000);
//! exchange(now, &mut client, &mut server);
//! let accepted = server.tcp_accept(listener)?;
//! let mut text = [0; 16];
//! let length = server.tcp_receive(accepted, &mut text)?;
//! assert_eq!(&text[..length], b"hello");
//! assert_eq!(server.tcp_receive(accepted, &mut text), Err(Error::WouldBlock));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A driver calls [`Stack::handle_frame`] for each frame, [`Stack::handle_timeout`] when [`Stack::poll_timeout`] is due (or
//! in each round of a spin loop: it costs nothing while nothing is due), then [`Stack::poll_transmit`] until it has no more,
//! and [`Stack::poll_event`] where it waits for sockets. Calls of the application come between, followed by
//! `poll_transmit`. After a connection is set up, none of them allocates.
//!
//! # Why a TCP of its own
//! smoltcp's TCP (0.14) was measured and left: its retransmission time-out never falls below 1 s, received selective
//! acknowledgments are ignored, and its set of sockets is searched from the start, so a leg of 32 bytes costs 273 to 318 ns
//! with one socket and 8,700 ns beside 1,000 idle ones. Here the floor of the time-out is an option, losses are found by
//! RACK-TLP, connections by a hash table and timers by a wheel.
//!
//! # What is there
//! RFC 9293 with 5961 (blind attacks), 7323 (window scale, time stamps, PAWS), 2018, 2883 and 6675 (SACK), 8985 (RACK and
//! tail loss probes), 6582 (recovery without SACK), 5681 with 6928 and 3465 (congestion control), 6298 (time-out, with a
//! floor that can be set), 6528 (initial sequence numbers), 4987 (SYN cookies), 5482 (user time-out), 1191 and 8201 (path
//! MTU by ICMP); Nagle's algorithm in Minshall's form. `docs/stack.md` has each MUST of RFC 9293 with its test.
//!
//! # Left out
//! Fragments and IP options (passed by, for the kernel), multicast, ECN, CUBIC, path MTU discovery without ICMP (RFC 4821),
//! TCP Fast Open, authentication (TCP-AO), segmentation offload.

mod address;
mod config;
mod error;
#[cfg(any(test, feature = "exercise"))]
#[path = "tests/exercise.rs"]
pub mod exercise;
mod hop;
mod number;
mod ring;
mod slab;
mod stack;
mod tcp;
mod time;
mod udp;
mod wheel;
mod wire;

pub use config::{AckPolicy, Config, KeepAlive, ReceiveChecksum, TcpOptions, UdpOptions};
pub use error::Error;
pub use hop::Hop;
pub use stack::{
    Counts, Disposition, Event, Listener, PassedBy, Readiness, Shutdown, Stack, TcpInfo, TcpSnapshot, TcpSocket,
    UdpSocket, probe_segment,
};
pub use tcp::TcpState;
pub use time::Instant;
pub use udp::Received;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
