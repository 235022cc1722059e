//! What the XDP program takes: its tables, and what they have to say.

use crate::error::refused;
use crate::program::{self, FLOW_BYTES, MOST_ADDRESSES, MOST_FLOWS, PORT_ENTRIES};
use crate::sys::Mapping;
use crate::{Addresses, Protocol, XskError, bpf};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Whose the frames of one connection are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Stack,
    Kernel,
}

/// What is taken of a port.
#[derive(Debug, Default)]
struct Rule {
    served: Vec<Addresses>,
    /// Whether that is all of a family: of IPv4, of IPv6.
    whole: [bool; 2],
    /// Those of other families, which are listed.
    ends: Vec<IpAddr>,
    /// Connections that are listed, by local and remote end.
    flows: HashMap<(SocketAddr, SocketAddr), Owner>,
}

impl Rule {
    fn value(&self) -> u8 {
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        let [ipv4, ipv6] = self.whole;
        bit(ipv4, program::IPV4_TAKEN)
            | bit(ipv6, program::IPV6_TAKEN)
            | bit(!self.flows.is_empty(), program::HAS_FLOWS)
            | bit(!self.ends.is_empty(), program::HAS_ENDS)
    }
}

/// The tables of one interface's program.
#[derive(Debug)]
pub(crate) struct Filter {
    interface: String,
    ports: OwnedFd,
    /// The values of `ports`: each takes 8 bytes.
    values: Mapping,
    addresses: OwnedFd,
    flows: OwnedFd,
    own: Vec<IpAddr>,
    rules: HashMap<(Protocol, u16), Rule>,
}

impl Filter {
    pub(crate) fn open(interface: &str) -> Result<Self, XskError> {
        let step = |what| move |cause| refused(interface, what, cause);
        let [entries, limit, most_flows, flow_bytes] = [PORT_ENTRIES, MOST_ADDRESSES, MOST_FLOWS, FLOW_BYTES]
            .map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        let ports = bpf::map(bpf::MapKind::MappedArray, 4, 1, entries).map_err(step("making the table of ports"))?;
        let addresses = bpf::map(bpf::MapKind::Hash, 16, 1, limit).map_err(step("making the table of addresses"))?;
        let flows = bpf::map(bpf::MapKind::SparseHash, flow_bytes, 1, most_flows)
            .map_err(step("making the table of connections"))?;
        let values =
            Mapping::new(Some(ports.as_raw_fd()), PORT_ENTRIES * 8, 0).map_err(step("mapping the table of ports"))?;
        let (interface, own, rules) = (interface.to_owned(), Vec::new(), HashMap::new());
        Ok(Self { interface, ports, values, addresses, flows, own, rules })
    }

    /// The tables of ports, addresses and flows.
    pub(crate) fn descriptors(&self) -> [RawFd; 3] {
        [&self.ports, &self.addresses, &self.flows].map(AsRawFd::as_raw_fd)
    }

    /// Takes the frames for a port of these addresses, in place of those before.
    pub(crate) fn serve(&mut self, protocol: Protocol, port: u16, served: &[Addresses]) -> Result<(), XskError> {
        let is_served = |address: IpAddr| served.iter().any(|of| of.has(address));
        let whole = [Addresses::Ipv4, Addresses::Ipv6].map(|family| {
            served.iter().any(|of| of.meets(family)) && self.own.iter().all(|own| !family.has(*own) || is_served(*own))
        });
        let is_listed = |own: &IpAddr| !whole[usize::from(own.is_ipv6())] && is_served(*own);
        let ends: Vec<IpAddr> = self.own.iter().copied().filter(is_listed).collect();
        let key = |end| program::flow_key(protocol, (end, port).into(), None);
        let rule = self.rules.entry((protocol, port)).or_default();
        let new: Vec<IpAddr> = ends.iter().copied().filter(|end| !rule.ends.contains(end)).collect();
        for (done, end) in new.iter().enumerate() {
            if let Err(cause) = bpf::insert(&self.flows, &key(*end), &[program::FLOW_TAKEN]) {
                new.iter().take(done).for_each(|end| _ = bpf::remove(&self.flows, &key(*end)));
                return Err(refused(&self.interface, "listing a local address", cause));
            }
        }
        (rule.served, rule.whole) = (served.to_vec(), whole);
        let before = std::mem::replace(&mut rule.ends, ends);
        write(&self.values, protocol, port, rule.value());
        // It may be missing: then it is as it should be.
        before.iter().filter(|end| !rule.ends.contains(end)).for_each(|end| _ = bpf::remove(&self.flows, &key(*end)));
        Ok(())
    }

    /// Leaves the frames for a port to the kernel.
    pub(crate) fn withdraw(&mut self, protocol: Protocol, port: u16) {
        write(&self.values, protocol, port, 0);
        let Some(rule) = self.rules.remove(&(protocol, port)) else { return };
        let ends = rule.ends.iter().map(|end| (SocketAddr::new(*end, port), None));
        let flows = rule.flows.keys().map(|(local, remote)| (*local, Some(*remote)));
        for (local, remote) in ends.chain(flows) {
            let _ = bpf::remove(&self.flows, &program::flow_key(protocol, local, remote));
        }
    }

    /// Leaves the frames of one TCP connection to the kernel, or takes them, whatever the rule of its port.
    pub(crate) fn list(&mut self, local: SocketAddr, remote: SocketAddr, owner: Owner) -> Result<(), XskError> {
        let Some(rule) = self.rules.get_mut(&(Protocol::Tcp, local.port())) else { return Ok(()) };
        let key = program::flow_key(Protocol::Tcp, local, Some(remote));
        let value = if owner == Owner::Stack { program::FLOW_TAKEN } else { program::FLOW_PASSES };
        bpf::insert(&self.flows, &key, &[value])
            .map_err(|cause| refused(&self.interface, "listing a connection", cause))?;
        rule.flows.insert((local, remote), owner);
        write(&self.values, Protocol::Tcp, local.port(), rule.value());
        Ok(())
    }

    /// Forgets connections of a port that the stack has listed and that are over.
    pub(crate) fn retain_taken(&mut self, port: u16, mut lives: impl FnMut(SocketAddr, SocketAddr) -> bool) {
        let Some(rule) = self.rules.get(&(Protocol::Tcp, port)) else { return };
        let of_stack = rule.flows.iter().filter(|(_, owner)| **owner == Owner::Stack);
        let over: Vec<_> = of_stack.map(|(ends, _)| *ends).filter(|(local, remote)| !lives(*local, *remote)).collect();
        over.into_iter().for_each(|(local, remote)| self.forget(local, remote, Owner::Stack));
    }

    /// Takes a connection out of the list, if this owner has it there.
    pub(crate) fn forget(&mut self, local: SocketAddr, remote: SocketAddr, owner: Owner) {
        let Some(rule) = self.rules.get_mut(&(Protocol::Tcp, local.port())) else { return };
        if rule.flows.get(&(local, remote)) == Some(&owner) {
            rule.flows.remove(&(local, remote));
            let _ = bpf::remove(&self.flows, &program::flow_key(Protocol::Tcp, local, Some(remote)));
            write(&self.values, Protocol::Tcp, local.port(), rule.value());
        }
    }

    pub(crate) fn set_addresses(&mut self, own: &[IpAddr]) -> Result<(), XskError> {
        if own.len() > MOST_ADDRESSES {
            return Err(XskError::TooManyAddresses { given: own.len(), most: MOST_ADDRESSES });
        }
        for gone in self.own.iter().filter(|before| !own.contains(before)) {
            let _ = bpf::remove(&self.addresses, &program::address_key(*gone));
        }
        for address in own {
            bpf::insert(&self.addresses, &program::address_key(*address), &[1])
                .map_err(|cause| refused(&self.interface, "serving an address", cause))?;
        }
        self.own = own.to_vec();
        let rules: Vec<_> = self.rules.iter().map(|(key, rule)| (*key, rule.served.clone())).collect();
        rules.into_iter().try_for_each(|((protocol, port), served)| self.serve(protocol, port, &served))
    }
}

fn write(values: &Mapping, protocol: Protocol, port: u16, value: u8) {
    // SAFETY: the place is inside the mapping, which only this process writes; the program reads the same byte.
    unsafe { values.at(program::port_entry(protocol, port) * 8, 1).write_volatile(value) };
}
