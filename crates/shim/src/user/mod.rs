//! Sockets on a stack in this process: `--stack xdp`.
//!
//! A socket begins as the kernel's. It is taken over when it is first used ([`take`]): a datagram socket or a listener by its
//! first call that moves data or waits, a connection by connect. Its descriptor goes on to be the kernel socket's: that one
//! owns the port, and brings what does not come through the interface. Everything else is in [`state::State`], behind one lock.
//!
//! Groups of files, of which a later one uses the earlier ones (`cargo xtask arrows` checks it): what is known of kernel sockets, and
//! the state; what is ready, and waiting; how sockets come to the stack and leave it; the calls.

mod address;
mod control;
mod copied;
mod listed;
mod messages;
mod socket;
mod state;

mod quiet;
mod readiness;
mod wait;

mod capture;
mod close;
mod hand_over;
mod processes;
mod release;
mod service;
mod take;

mod data;
mod datagram;
mod epoll;
mod options;
mod ready;
mod stream;

pub(crate) use address::NameBuffer;
pub(crate) use close::{closed, end, release_guard, streams_at_end};
pub(crate) use control::Control;
pub(crate) use data::{receive, send};
pub(crate) use datagram::reconnected;
pub(crate) use epoll::{control, wait_epoll};
pub(crate) use messages::{Incoming, Outgoing};
pub(crate) use options::{get, ioctl, name, room, set};
pub(crate) use processes::{after_fork, before_exec, before_fork, before_spawn, forked, to_kernel};
pub(crate) use ready::{Polled, poll, wait_for_room};
pub(crate) use state::{entry, is_enabled, lock, streams};
pub(crate) use stream::{accept, connect, shut_down};
pub(crate) use take::listens;
pub(crate) use wait::ended;
