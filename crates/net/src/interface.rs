//! The network interfaces of this namespace: their numbers, addresses and MTU. Reads only.

use crate::NetError;
use crate::sys;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;
use std::io;
use std::net::IpAddr;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceAddress {
    pub name: String,
    pub address: IpAddr,
    pub up: bool,
}

/// All IP addresses of this namespace (getifaddrs(3)). Errors: the kernel does not tell.
pub fn addresses() -> Result<Vec<InterfaceAddress>, NetError> {
    let all =
        getifaddrs().map_err(|errno| NetError::ReadOut { what: "the interfaces' addresses", cause: errno.into() })?;
    Ok(all
        .filter_map(|entry| {
            let storage = entry.address?;
            let address = if let Some(v4) = storage.as_sockaddr_in() {
                IpAddr::V4(v4.ip())
            } else {
                IpAddr::V6(storage.as_sockaddr_in6()?.ip())
            };
            let up = entry.flags.contains(nix::net::if_::InterfaceFlags::IFF_UP);
            Some(InterfaceAddress { name: entry.interface_name, address, up })
        })
        .collect())
}

/// The number of the interface called `name`; a decimal number is taken as it is. Errors: there is no such interface.
pub fn index_of(name: &str) -> Result<u32, NetError> {
    let missing = || NetError::NoInterface { name: name.to_owned() };
    if let Ok(index) = if_nametoindex(name) {
        return Ok(index);
    }
    let index = name.parse().map_err(|_| missing())?;
    // It must exist all the same.
    name_of(index).map(|_| index)
}

/// The name of the interface number `index`. Errors: there is no such interface.
pub fn name_of(index: u32) -> Result<String, NetError> {
    nix::net::if_::if_indextoname(index)
        .ok()
        .and_then(|name| name.into_string().ok())
        // nix 0.31 takes the null that means "none" for success, with an empty name.
        .filter(|name| !name.is_empty())
        .ok_or_else(|| NetError::NoInterface { name: index.to_string() })
}

/// The interface that owns `address`. Errors: none does, or the kernel does not tell.
pub fn with_address(address: IpAddr) -> Result<String, NetError> {
    addresses()?
        .into_iter()
        .find(|entry| entry.address == address)
        .map(|entry| entry.name)
        .ok_or(NetError::NoInterfaceWithAddress { address })
}

/// The interface that `text` means: its name, its number or one of its addresses. Errors: there is none.
pub fn named(text: &str) -> Result<u32, NetError> {
    match text.parse::<IpAddr>() {
        Ok(address) => index_of(&with_address(address)?),
        Err(_) => index_of(text),
    }
}

/// The MTU of interface `name`: the largest IP packet in bytes (netdevice(7)). Errors: no interface or no socket.
pub fn mtu(name: &str) -> Result<u32, NetError> {
    // SAFETY: SIOCGIFMTU writes the MTU within the request; where it succeeded, this member of the union is set.
    let mtu =
        unsafe { sys::interface_request(libc::SIOCGIFMTU, name, |_| {}).map(|request| request.ifr_ifru.ifru_mtu) };
    let mtu = mtu.map_err(|cause| not_told(name, cause))?;
    u32::try_from(mtu).map_err(|_| NetError::NoInterface { name: name.to_owned() })
}

/// Why a request about an interface failed: the kernel has only one reason, all others are the socket's.
fn not_told(name: &str, cause: io::Error) -> NetError {
    match cause.raw_os_error() {
        Some(libc::ENODEV) => NetError::NoInterface { name: name.to_owned() },
        _ => NetError::Socket { what: "UDP", cause },
    }
}

/// The interface that owns `local`; the loopback interface for all of its addresses. Errors: no interface has the address.
pub fn interface_of(local: IpAddr) -> Result<u32, NetError> {
    if local.is_loopback() {
        // 127.0.0.2 is loopback too, but no interface lists it.
        return index_of("lo");
    }
    index_of(&with_address(local)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known() {
        assert_eq!(with_address("127.0.0.1".parse().unwrap()).unwrap(), "lo");
        assert_eq!(named("127.0.0.1").unwrap(), named("lo").unwrap());
        assert_eq!(named("1").unwrap(), 1);
        assert_eq!(name_of(index_of("lo").unwrap()).unwrap(), "lo");
        assert!(mtu("lo").unwrap() >= 1500);
    }

    #[test]
    fn unknown_ones_are_named() {
        assert!(index_of("nosuch0").unwrap_err().to_string().contains("nosuch0"));
        assert!(index_of("4000000").is_err());
        for missing in ["nosuch0", "a-name-that-is-longer-than-the-field"] {
            assert!(matches!(mtu(missing), Err(NetError::NoInterface { .. })), "{missing}");
        }
        assert!(matches!(named("198.51.100.77"), Err(NetError::NoInterfaceWithAddress { .. })));
    }
}
