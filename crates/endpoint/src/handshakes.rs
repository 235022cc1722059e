//! Clients in their handshake, all served by the thread that listens.
//!
//! Until its client has answered the hello (and proved the key, where there is one) a connection costs a descriptor and a
//! few KiB, no thread and no session slot. A client that answers is served at once; silent ones are evicted, the oldest
//! first, and only by others of the same address as long as there is room for other addresses.

use nix::poll::{PollFd, PollFlags};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use wire::{RefuseCode, ServerSession};

/// A client that has not finished its handshake by then is dropped.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(5);
/// Handshakes at once.
pub(crate) const MOST: usize = 512;
/// Handshakes at once of one address: so many that none can be filled anew while an honest client makes its handshake.
const MOST_OF_ONE: usize = 256;
/// Bytes read at once: a whole handshake has fewer.
const PORTION: usize = 4096;

/// A connection whose client has not shown yet that it is one.
#[derive(Debug)]
pub(crate) struct PendingClient {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) machine: ServerSession,
    since: Instant,
}

impl PendingClient {
    /// Writes what the machine has to say; `false` when the connection does not take it at once.
    pub(crate) fn flush(&mut self) -> bool {
        while let Some(bytes) = self.machine.poll_transmit() {
            if self.stream.write_all(&bytes).is_err() {
                return false;
            }
        }
        true
    }

    /// Ends it with a reason.
    pub(crate) fn refuse(mut self, code: RefuseCode, reason: &str) {
        self.machine.refuse(code, reason);
        self.flush();
    }

    /// Takes what came; `false` when the connection is done for.
    fn hear(&mut self) -> bool {
        let mut portion = [0; PORTION];
        match self.stream.read(&mut portion) {
            Ok(0) => false,
            Ok(bytes) => {
                let heard = self.machine.handle_bytes(portion.get(..bytes).unwrap_or_default());
                self.flush() && heard.is_ok()
            }
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }
}

/// All handshakes, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Handshakes {
    pending: Vec<PendingClient>,
}

impl Handshakes {
    /// Adds a client.
    pub(crate) fn admit(&mut self, stream: TcpStream, peer: SocketAddr, machine: ServerSession) {
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        // Best effort.
        let _ = stream.set_nodelay(true);
        self.make_room(peer.ip());
        let mut pending = PendingClient { stream, peer, machine, since: Instant::now() };
        if pending.flush() {
            self.pending.push(pending);
        }
    }

    /// Drops the oldest where there are too many.
    fn make_room(&mut self, newcomer: IpAddr) {
        let of = |network| self.pending.iter().filter(|pending| network_of(pending.peer.ip()) == network).count();
        let own = network_of(newcomer);
        let crowded = if of(own) >= MOST_OF_ONE {
            Some(own)
        } else if self.pending.len() >= MOST {
            self.pending.iter().map(|pending| network_of(pending.peer.ip())).max_by_key(|network| of(*network))
        } else {
            None
        };
        let oldest = |network| self.pending.iter().position(|pending| network_of(pending.peer.ip()) == network);
        if let Some(at) = crowded.and_then(oldest) {
            self.pending.remove(at).refuse(RefuseCode::Busy, "others came before it had finished its handshake");
        }
    }

    /// Drops the oldest; `false` when there is none.
    pub(crate) fn drop_oldest(&mut self) -> bool {
        !self.pending.is_empty() && {
            self.pending.remove(0);
            true
        }
    }

    /// What to wait for, in the order of [`Handshakes::hear`].
    pub(crate) fn waiting(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.pending.iter().map(|pending| PollFd::new(pending.stream.as_fd(), PollFlags::POLLIN))
    }

    /// Reads from the clients whose entry in `ready` is true, and returns those that finished the handshake.
    pub(crate) fn hear(&mut self, ready: &[bool]) -> Vec<PendingClient> {
        let mut clients = Vec::new();
        let mut ready = ready.iter();
        for mut pending in std::mem::take(&mut self.pending) {
            if !ready.next().copied().unwrap_or(false) {
                self.pending.push(pending);
            } else if pending.hear() {
                if pending.machine.is_accepted() { clients.push(pending) } else { self.pending.push(pending) }
            }
        }
        clients
    }

    /// Drops who took too long.
    pub(crate) fn expire(&mut self) {
        while self.pending.first().is_some_and(|pending| pending.since.elapsed() >= HANDSHAKE) {
            self.pending.remove(0).refuse(RefuseCode::TimedOut, "the handshake took longer than 5 s");
        }
    }

    /// Until the next one is to be dropped; absent without pending clients.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.pending.first().map(|pending| HANDSHAKE.saturating_sub(pending.since.elapsed()))
    }
}

/// What counts as one address: hosts have whole IPv6 networks of 64 bits to themselves (RFC 6177).
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_host_is_its_network() {
        let network = |text: &str| network_of(text.parse().unwrap());
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_eq!(network("::ffff:10.0.0.1"), network("10.0.0.1"));
        assert_ne!(network("10.0.0.1"), network("10.0.0.2"));
    }
}
