//! Where frames for a remote address go: given by the caller, because the kernel owns routes and neighbours.

use crate::address::{Address, Keyed, Table};
use std::collections::HashMap;
use std::net::IpAddr;

/// The next hop to a remote address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// MAC address of the neighbour: the other end, or a router.
    pub mac: [u8; 6],
    /// Bytes of the longest IP packet that the path carries.
    pub mtu: u16,
    /// The address of this host that packets to it bear.
    pub source: IpAddr,
}

/// Hops by remote address, of bounded number.
#[derive(Debug)]
pub(crate) struct Hops {
    hops: Table<Address, Hop>,
    most: usize,
}

impl Hops {
    pub(crate) fn new(most: usize, keyed: Keyed) -> Self {
        Self { hops: HashMap::with_hasher(keyed), most }
    }

    pub(crate) fn get(&self, remote: Address) -> Option<&Hop> {
        self.hops.get(&remote)
    }

    pub(crate) fn set(&mut self, remote: Address, hop: Hop) {
        if self.hops.len() >= self.most && !self.hops.contains_key(&remote) {
            self.hops.clear();
        }
        self.hops.insert(remote, hop);
    }

    pub(crate) fn remove(&mut self, remote: Address) {
        self.hops.remove(&remote);
    }

    /// The path carries less than was known.
    pub(crate) fn narrow(&mut self, remote: Address, mtu: u16) {
        if let Some(hop) = self.hops.get_mut(&remote) {
            hop.mtu = hop.mtu.min(mtu);
        }
    }
}
