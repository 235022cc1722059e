//! Clients in their handshake, all served by the thread that listens.
//!
//! A connection costs a descriptor and a few KiB until its client has answered the hello (and proved the key). Silent ones are
//! evicted, the oldest first, and only by others of their network while there is room for other networks.

use nix::poll::{PollFd, PollFlags};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use wire::{RefuseCode, ServerSession};

/// A client that has not finished its handshake by then is dropped.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(5);
/// Handshakes at once.
pub(crate) const MOST: usize = 512;
/// Handshakes at once of one network, by the bits of its prefix: enough for an honest client among others. An IPv6 host has a
/// /64, a household or a site a /56 or a /48 (RFC 6177).
const MOST_OF_ONE: [(u32, usize); 3] = [(64, 256), (56, 320), (48, 384)];
/// The largest network that one owner may have.
const OWNER_BITS: u32 = 48;
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
        let peers: Vec<IpAddr> = self.pending.iter().map(|pending| pending.peer.ip()).collect();
        if let Some(at) = surplus(&peers, newcomer) {
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

/// Which of the waiting peers, the oldest first, has to go: the oldest of a full network, else of the owner with most places; among
/// equal owners the one that waits longest.
fn surplus(waiting: &[IpAddr], newcomer: IpAddr) -> Option<usize> {
    for (bits, most) in MOST_OF_ONE {
        let own = network_of(newcomer, bits);
        let mut of_it = (0..).zip(waiting).filter(|(_, peer)| network_of(**peer, bits) == own);
        let oldest = of_it.next();
        if oldest.is_some() && of_it.count() + 1 >= most {
            return oldest.map(|(at, _)| at);
        }
    }
    if waiting.len() < MOST {
        return None;
    }
    // Of each owner the place of its oldest, and how many it has.
    let mut owners: BTreeMap<IpAddr, (Reverse<usize>, usize)> = BTreeMap::new();
    for (at, peer) in (0..).zip(waiting) {
        owners.entry(network_of(*peer, OWNER_BITS)).or_insert((Reverse(at), 0)).1 += 1;
    }
    owners.into_values().max_by_key(|(oldest, count)| (*count, *oldest)).map(|(Reverse(oldest), _)| oldest)
}

/// The network of an IPv6 address; an IPv4 address is one by itself.
fn network_of(address: IpAddr, bits: u32) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & u128::MAX << (Ipv6Addr::BITS - bits)).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many wait after all of `newcomers` came, and how many of these came until the first peer had to go.
    fn wait(mut waiting: Vec<IpAddr>, newcomers: impl Iterator<Item = IpAddr>) -> (usize, Option<usize>) {
        let (first, mut lasted) = (waiting[0], None);
        for (number, newcomer) in newcomers.enumerate() {
            if let Some(at) = surplus(&waiting, newcomer) {
                waiting.remove(at);
            }
            waiting.push(newcomer);
            if lasted.is_none() && !waiting.contains(&first) {
                lasted = Some(number);
            }
        }
        (waiting.len(), lasted)
    }

    /// Catches: a /48 that fills all places with one connection from each of its /64, and pushes out who has just come.
    #[test]
    fn no_owner_of_many_networks_locks_others_out() {
        let honest: IpAddr = "2001:db8:1::1".parse().unwrap();
        let of = |network: u128, bits: u32| -> IpAddr {
            Ipv6Addr::from_bits((0x2001_0db8_0002 << 80) + (network << (128 - bits)) + 1).into()
        };
        // One owner pushes out only its own.
        assert_eq!(wait(vec![honest], (0..2000).map(|_| of(0, 64))), (257, None));
        assert_eq!(wait(vec![honest], (0..2000).map(|network| of(network, 64))), (385, None));
        assert_eq!(wait(vec![honest], (0..2000).map(|network| of(network % 256, 56))), (385, None));
        // Of thousands of owners the one goes that waits longest, and not the one that has just come.
        assert_eq!(wait(vec![honest], (0..2000).map(|owner| of(owner, 48))), (MOST, Some(MOST - 1)));
        // Somebody else of the same /48 has the time of 383 others.
        assert_eq!(wait(vec![of(5000, 64)], (0..2000).map(|network| of(network, 64))), (384, Some(383)));
        // Where all places are taken, the owner that has most gives up its oldest.
        let another = (0..128).map(|network| of((3 << 16) + network, 64));
        let full: Vec<IpAddr> = another.chain((0..384).map(|network| of(network, 64))).collect();
        assert_eq!((full.len(), surplus(&full, honest)), (MOST, Some(128)));
    }

    #[test]
    fn an_ipv6_host_is_its_network() {
        let network = |text: &str| network_of(text.parse().unwrap(), 64);
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_eq!(network("::ffff:10.0.0.1"), network("10.0.0.1"));
        assert_ne!(network("10.0.0.1"), network("10.0.0.2"));
    }
}
