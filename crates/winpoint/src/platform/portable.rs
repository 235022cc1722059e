//! Systems other than Windows, by the standard library alone: for tests, and as a plain end.

use super::{PlatformError, PriorityClass, SystemFacts};
use crate::doctor::Reader;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub(super) const CLOCK: &str = "the standard library's monotonic clock";

static START: OnceLock<Instant> = OnceLock::new();

#[inline]
pub(super) fn ticks() -> u64 {
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

pub(super) fn ticks_per_second() -> u64 {
    1_000_000_000
}

pub(super) fn set_priority_class(_: PriorityClass) -> Result<(), PlatformError> {
    Err(PlatformError::OnlyWindows("--priority"))
}

pub(super) fn pin(_: u32) -> Result<(), PlatformError> {
    Err(PlatformError::OnlyWindows("pinning to a CPU"))
}

pub(super) fn join_mmcss(_: &str) -> Result<(), PlatformError> {
    Err(PlatformError::OnlyWindows("--mmcss"))
}

/// There are no completion ports here.
#[derive(Debug)]
pub(crate) enum Completion {}

impl Completion {
    pub(crate) fn of_datagrams(_: &UdpSocket) -> io::Result<Self> {
        Err(io::Error::other("completion ports are for Windows: use --receive block or spin"))
    }

    pub(crate) fn of_stream(_: &TcpStream) -> io::Result<Self> {
        Err(io::Error::other("completion ports are for Windows: use --receive block or spin"))
    }

    pub(crate) fn receive(&mut self, _: &mut [u8], _: Duration) -> io::Result<(usize, Option<SocketAddr>)> {
        match *self {}
    }
}

/// As Linux has it: the interface by the network that it is in.
pub(super) fn mtu(address: Ipv4Addr) -> Option<u32> {
    let routes = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
    let interface = if address.is_loopback() { Some("lo") } else { interface_in(&routes, address) };
    let mtu = std::fs::read_to_string(format!("/sys/class/net/{}/mtu", interface?)).ok()?;
    mtu.trim().parse().ok()
}

/// The interface of the longest route without a gateway to an address. Addresses are in the machine's byte order, as hexadecimal text.
fn interface_in(routes: &str, address: Ipv4Addr) -> Option<&str> {
    let address = u32::from_ne_bytes(address.octets());
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    let fit = routes.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (name, network, gateway) = (fields.next()?, number(fields.next()?)?, number(fields.next()?)?);
        let mask = number(fields.nth(4)?)?;
        (gateway == 0 && address & mask == network).then_some((mask.count_ones(), name))
    });
    fit.max_by_key(|(bits, _)| *bits).map(|(_, name)| name)
}

pub(super) fn facts() -> SystemFacts {
    SystemFacts { os: std::env::consts::OS.to_owned(), ..SystemFacts::default() }
}

pub(super) fn reader() -> Option<Reader> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a gateway that is taken for a network of its own, and a default route that hides a network.
    #[test]
    fn the_longest_route_names_the_interface() {
        let network = |octets: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(octets));
        let line = |name: &str, to: [u8; 4], gateway: [u8; 4], mask: [u8; 4]| {
            let [to, gateway, mask] = [to, gateway, mask].map(network);
            format!("{name}\t{to}\t{gateway}\t0003\t0\t0\t0\t{mask}\t0\t0\t0\n")
        };
        let none = [0; 4];
        let routes = [
            "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n".to_owned(),
            line("eth0", none, [10, 0, 0, 1], none),
            line("eth0", [10, 0, 0, 0], none, [255, 0, 0, 0]),
            line("eth1", [10, 9, 0, 0], none, [255, 255, 0, 0]),
        ]
        .concat();
        for (address, interface) in
            [([10, 1, 1, 1], Some("eth0")), ([10, 9, 1, 1], Some("eth1")), ([192, 0, 2, 1], None)]
        {
            assert_eq!(interface_in(&routes, address.into()), interface, "{address:?}");
        }
        if cfg!(target_os = "linux") {
            assert!(mtu(Ipv4Addr::LOCALHOST) >= Some(1500));
        }
    }
}
