//! Where packets go: paths, neighbours and what the kernel is asked of them.

use super::{Engine, Neighbour, Route, Wanted, now};
use crate::kernel::{self, Resolution};
use crate::refresh::{Answers, Snapshot};
use stack::{Hop, Instant};
use std::net::IpAddr;
use xsk::Interface;

/// How often an unresolved neighbour is looked up, and after how long it counts as unreachable.
pub(super) const RESOLVE_EACH_NS: u64 = 1_000_000;
const RESOLVE_FOR_NS: u64 = 3_000_000_000;

/// For how long it is remembered that an address is not reached through the interface.
const ELSEWHERE_NS: u64 = 1_000_000_000;

const MOST_REMEMBERED: usize = 4096;

impl Engine {
    /// Who carries packets to an address. Asks the kernel where the address is new.
    pub fn route(&mut self, remote: IpAddr) -> Route {
        if self.stack.hop(remote).is_some() {
            return Route::Here;
        }
        let now = now();
        if self.elsewhere.get(&remote).is_some_and(|at| now.since(*at) < ELSEWHERE_NS) {
            return Route::Elsewhere;
        }
        self.look_up(remote, now)
    }

    /// Whether an address is this host's own, so that packets to it never leave.
    pub fn is_on_this_host(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.kernel.is_own(address)
    }

    /// Asks the kernel for path and next hop to an address.
    fn look_up(&mut self, remote: IpAddr, now: Instant) -> Route {
        if self.is_own_loopback(remote) {
            let mtu = u16::try_from(self.interface.mtu).unwrap_or(u16::MAX);
            self.stack.set_hop(remote, Hop { mac: self.interface.mac, mtu, source: remote });
            return Route::Here;
        }
        let found = self.kernel.find(remote, self.interface.index);
        self.learn(remote, found, now)
    }

    /// Notes what the kernel said of an address.
    fn learn(&mut self, remote: IpAddr, found: Resolution, now: Instant) -> Route {
        let (path, source, mac) = match found {
            Resolution::Elsewhere => {
                if self.elsewhere.len() >= MOST_REMEMBERED {
                    self.elsewhere.clear();
                }
                self.elsewhere.insert(remote, now);
                return Route::Elsewhere;
            }
            Resolution::Unresolved => return Route::Unresolved,
            Resolution::Here { path, source, mac } => (path, source, mac),
        };
        let mtu = path.mtu.map_or(self.interface.mtu, |mtu| mtu.min(self.interface.mtu));
        self.stack.set_hop(remote, Hop { mac, mtu: u16::try_from(mtu).unwrap_or(u16::MAX), source });
        if self.known.len() >= MOST_REMEMBERED {
            self.known.clear();
        }
        self.known.insert(remote, Neighbour { next: path.next, mac });
        Route::Here
    }

    /// Whether this is the loopback interface and the address its own: frames to it come back, without neighbours or routes.
    fn is_own_loopback(&self, address: IpAddr) -> bool {
        self.interface.mac == [0; 6] && self.has_address(address)
    }

    /// The source address of packets to an address that is reached through the interface.
    pub fn source_for(&mut self, remote: IpAddr) -> Option<IpAddr> {
        if self.is_own_loopback(remote) {
            return Some(remote);
        }
        self.kernel.path(remote, self.interface.index).and_then(|path| path.source)
    }

    /// Has the kernel resolve the next hop to an address; what waits for it is sent then.
    pub fn want(&mut self, remote: IpAddr) {
        if self.wanted.iter().any(|wanted| wanted.remote == remote) {
            return;
        }
        // Where even this is refused, the time runs out.
        let _ = kernel::poke(remote, self.interface.index);
        self.wanted.push(Wanted { remote, since: now() });
        self.looked = Instant(0);
    }

    /// Looks up the neighbours that are wanted.
    #[cold]
    pub(super) fn resolve(&mut self, now: Instant) {
        self.looked = now;
        let mut at = 0;
        while let Some(wanted) = self.wanted.get(at).copied() {
            match self.look_up(wanted.remote, now) {
                Route::Unresolved if now.since(wanted.since) < RESOLVE_FOR_NS => at += 1,
                Route::Here => {
                    self.wanted.swap_remove(at);
                }
                Route::Unresolved | Route::Elsewhere => {
                    self.stack.hop_failed(wanted.remote);
                    self.wanted.swap_remove(at);
                }
            }
        }
        self.transmit(now);
    }

    /// What [`crate::Refresh::ask`] has to ask for.
    pub fn known(&self) -> Snapshot {
        let known = self.known.iter().map(|(remote, known)| (*remote, *known)).collect();
        let Interface { index, mac, mtu, .. } = self.interface;
        Snapshot { interface: index, link: (mac, mtu), most_mtu: self.most_mtu, known }
    }

    /// Takes what the kernel said.
    pub fn refreshed(&mut self, answers: Answers) {
        let now = now();
        if let Some((mac, mtu)) = answers.link {
            (self.interface.mac, self.interface.mtu) = (mac, mtu);
            self.stack.set_interface(mac, u16::try_from(mtu).unwrap_or(u16::MAX));
        }
        if let Some(mut addresses) = answers.addresses {
            // A removed address may come back: meanwhile the kernel would answer segments of its connections with resets.
            let gone = self.addresses.iter().filter(|address| !addresses.contains(address));
            let used: Vec<IpAddr> = gone.filter(|address| self.stack.tcp_uses(**address)).copied().collect();
            addresses.extend(used);
            if addresses != self.addresses && self.port.set_addresses(&addresses).is_ok() {
                self.stack.set_addresses(&addresses);
                self.addresses = addresses;
            }
        }
        for (remote, found) in answers.changed {
            self.stack.forget_hop(remote);
            self.known.remove(&remote);
            let _ = self.learn(remote, found, now);
        }
    }
}
