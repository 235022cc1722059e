//! Ends of connections as the kernel lists them (/proc/net/tcp and the like).

use std::net::{IpAddr, SocketAddr};

/// `0100007F:1F90`: the words of the address as they are in memory, and the port. IPv4 in IPv6's form becomes IPv4.
pub fn listed_end(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let word = |at| Some(u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match address.len() {
        8 => IpAddr::from(word(0)?),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            IpAddr::from(<[u8; 16]>::try_from(words.concat()).ok()?).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}
