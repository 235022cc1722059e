//! Asking the kernel again for what it said before: neighbours may have another MAC address, routes lead elsewhere, the interface
//! have other addresses, another MAC address or MTU. That takes system calls, so it is done beside the engine: whoever shares that does not hold its lock
//! meanwhile.

use crate::EngineError;
use crate::engine::Neighbour;
use crate::kernel::{Kernel, Resolution};
use std::net::IpAddr;
use std::os::fd::RawFd;

/// What an engine knows from the kernel.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(crate) interface: u32,
    /// MAC address and MTU.
    pub(crate) link: ([u8; 6], u32),
    /// The largest MTU that is used.
    pub(crate) most_mtu: u32,
    pub(crate) known: Vec<(IpAddr, Neighbour)>,
}

/// What the kernel reports now.
#[derive(Debug, Clone)]
pub struct Answers {
    /// MAC address and MTU, where one is another than before.
    pub(crate) link: Option<([u8; 6], u32)>,
    /// Addresses of the interface; none where the kernel did not tell.
    pub(crate) addresses: Option<Vec<IpAddr>>,
    /// Remote addresses of which it reports something else than before; all, where the interface changed.
    pub(crate) changed: Vec<(IpAddr, Resolution)>,
}

/// A way to the kernel's tables beside that of the engine.
#[derive(Debug)]
pub struct Refresh(Kernel);

impl Refresh {
    /// Opens it. Errors: [`EngineError::Kernel`]: no netlink.
    pub fn open() -> Result<Self, EngineError> {
        Kernel::open().map(Self)
    }

    /// Its descriptor, which no other code may close.
    pub fn descriptor(&self) -> RawFd {
        self.0.descriptor()
    }

    /// Asks for all that an engine knows. To be called about once a second.
    pub fn ask(&self, snapshot: &Snapshot) -> Answers {
        let Snapshot { interface, known, .. } = snapshot;
        let link = self.0.link(*interface).map(|(mac, mtu)| (mac, mtu.min(snapshot.most_mtu)));
        let link = link.filter(|link| *link != snapshot.link);
        let changed = known.iter().filter(|(remote, known)| {
            let path = self.0.path(*remote, *interface);
            let stays = path.is_none_or(|path| path.interface == *interface && path.next == known.next);
            let mac = self.0.neighbour(*interface, known.next);
            link.is_some() || !stays || mac.is_some_and(|mac| mac != known.mac)
        });
        let changed = changed.map(|(remote, _)| (*remote, self.0.find(*remote, *interface))).collect();
        Answers { link, addresses: self.0.addresses(*interface).ok(), changed }
    }
}
