//! Texts to addresses: `host`, `host:port`, `1.2.3.4:port`, `::1`, `[::1]:port`, `fe80::1%eth0`.
//!
//! Host names go to the system's resolver without AI_ADDRCONFIG (getaddrinfo(3)), which would deny addresses in a
//! namespace that has only its loopback interface; addresses never go to the resolver at all.

use crate::NetError;
use crate::interface;
use model::Family;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};

/// The first address of `text`; see [`resolve_all`]. Errors: unreadable text, unknown name, no address of `family`.
pub fn resolve(text: &str, default_port: u16, family: Option<Family>) -> Result<SocketAddr, NetError> {
    let all = resolve_all(text, default_port, family)?;
    all.first().copied().ok_or_else(|| no_address(text, family))
}

/// All addresses of `text` in the resolver's order, at its port or `default_port`, of `family` or both. An empty host
/// (`:7412`) is `0.0.0.0`, or `::` for IPv6. Errors: unreadable text, unknown name, no address of `family`.
pub fn resolve_all(text: &str, default_port: u16, family: Option<Family>) -> Result<Vec<SocketAddr>, NetError> {
    let (host, port) = split(text, default_port)?;
    let found = match literal(host)? {
        Some((IpAddr::V6(address), 0)) if address.is_unicast_link_local() => {
            let why = "a link-local address needs its interface: use fe80::1%eth0";
            return Err(NetError::Address { given: text.to_owned(), why });
        }
        Some((address, scope)) => vec![with_scope(address, port, scope)],
        None if host.is_empty() => match family {
            Some(Family::Ipv6) => vec![SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port)],
            _ => vec![SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port)],
        },
        None => (host, port)
            .to_socket_addrs()
            .map_err(|cause| NetError::UnknownHost { host: host.to_owned(), cause })?
            .collect(),
    };
    let wanted: Vec<_> = found
        .into_iter()
        .filter(|address| match family {
            None => true,
            Some(Family::Ipv4) => address.is_ipv4(),
            Some(Family::Ipv6) => address.is_ipv6(),
        })
        .collect();
    if wanted.is_empty() { Err(no_address(host, family)) } else { Ok(wanted) }
}

fn no_address(text: &str, family: Option<Family>) -> NetError {
    let family = match family {
        Some(Family::Ipv6) => "IPv6",
        Some(Family::Ipv4) => "IPv4",
        None => "IPv4 or IPv6",
    };
    NetError::NoAddressOfFamily { host: text.to_owned(), family }
}

/// Host and port. More than one colon outside brackets is an IPv6 address without a port.
fn split(text: &str, default_port: u16) -> Result<(&str, u16), NetError> {
    let wrong = |why| NetError::Address { given: text.to_owned(), why };
    if text.is_empty() {
        return Err(wrong("it is empty"));
    }
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(wrong("it holds a space or a control character"));
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or_else(|| wrong("the closing bracket is missing"))?;
        if host.is_empty() {
            return Err(wrong("the brackets are empty"));
        }
        return match after.strip_prefix(':') {
            Some(port) => Ok((host, number(port).ok_or_else(|| wrong("the port must be 0 to 65535"))?)),
            None if after.is_empty() => Ok((host, default_port)),
            None => Err(wrong("only ':port' may follow the closing bracket")),
        };
    }
    match text.split_once(':') {
        None => Ok((text, default_port)),
        Some((_, rest)) if rest.contains(':') => Ok((text, default_port)),
        Some((host, port)) => Ok((host, number(port).ok_or_else(|| wrong("the port must be 0 to 65535"))?)),
    }
}

fn number(text: &str) -> Option<u16> {
    // parse alone would take "+1".
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// An address with its scope (interface index of an IPv6 link-local address; 0 without); `None` for a name.
fn literal(host: &str) -> Result<Option<(IpAddr, u32)>, NetError> {
    if let Some((address, zone)) = host.split_once('%') {
        let why = "'%' belongs after an IPv6 address: use fe80::1%eth0";
        let address: Ipv6Addr = address.parse().map_err(|_| NetError::Address { given: host.to_owned(), why })?;
        return Ok(Some((address.into(), interface::index_of(zone)?)));
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(Some((address, 0)));
    }
    if host.contains(':') {
        return Err(NetError::Address { given: host.to_owned(), why: "it is no IPv6 address" });
    }
    Ok(None)
}

pub(crate) fn with_scope(address: IpAddr, port: u16, scope: u32) -> SocketAddr {
    match address {
        IpAddr::V4(_) => SocketAddr::new(address, port),
        IpAddr::V6(v6) => SocketAddr::V6(SocketAddrV6::new(v6, port, 0, scope)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DEFAULT_PORT;

    fn text(given: &str) -> String {
        match resolve(given, DEFAULT_PORT, None) {
            Ok(address) => address.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn addresses_and_ports() {
        assert_eq!(text("192.0.2.1"), "192.0.2.1:7412");
        assert_eq!(text("192.0.2.1:80"), "192.0.2.1:80");
        assert_eq!(text("::1"), "[::1]:7412");
        assert_eq!(text("[::1]"), "[::1]:7412");
        assert_eq!(text("[::1]:0"), "[::1]:0");
        assert_eq!(text("2001:db8::7"), "[2001:db8::7]:7412");
        assert_eq!(text(":99"), "0.0.0.0:99");
        assert_eq!(text("[fe80::1%lo]:9"), "[fe80::1%1]:9");
        assert_eq!(text("fe80::1%lo"), "[fe80::1%1]:7412");
    }

    #[test]
    fn names() {
        let v4 = resolve("localhost:5", DEFAULT_PORT, Some(Family::Ipv4)).unwrap();
        assert_eq!(v4.to_string(), "127.0.0.1:5");
        assert!(matches!(resolve("no-such-host.invalid", 1, None), Err(NetError::UnknownHost { .. })));
        assert!(matches!(
            resolve("127.0.0.1", 1, Some(Family::Ipv6)),
            Err(NetError::NoAddressOfFamily { family: "IPv6", .. })
        ));
    }

    #[test]
    fn bad_texts() {
        for bad in ["", "a b", "[::1", "[]:1", "[::1]x", "h:65536", "h:+1", "h:", "::1::2", "1.2.3.4%lo", "a\nb"] {
            let error = resolve(bad, 1, None).expect_err(bad);
            assert!(matches!(error, NetError::Address { .. } | NetError::UnknownHost { .. }), "{bad}: {error}");
        }
        assert!(matches!(resolve("fe80::1%nosuch0", 1, None), Err(NetError::NoInterface { .. })));
        for scopeless in ["fe80::1", "[fe80::1]:7412"] {
            let error = resolve(scopeless, 1, None).unwrap_err().to_string();
            assert!(error.contains("needs its interface: use fe80::1%eth0"), "{error}");
        }
    }
}
