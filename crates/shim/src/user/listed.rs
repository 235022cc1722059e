//! The connections that the kernel lists.

use std::net::{IpAddr, SocketAddr};

/// A connection that the kernel has or is making.
pub(super) struct Connection {
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    /// The other end began it, and nobody can accept it yet.
    pub(super) is_handshake: bool,
}

/// All of them.
pub(super) fn connections() -> Vec<Connection> {
    const HANDSHAKE: &str = "03";
    const OF_NOBODY: [&str; 3] = ["06", "07", "0A"];
    let tables = ["tcp", "tcp6"].map(|name| std::fs::read_to_string(format!("/proc/thread-self/net/{name}")));
    let lines = tables.iter().flatten().flat_map(|text| text.lines().skip(1));
    lines
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace().skip(1);
            let (local, remote, state) = (words.next()?, words.next()?, words.next()?);
            if OF_NOBODY.contains(&state) {
                return None;
            }
            Some(Connection { local: end(local)?, remote: end(remote)?, is_handshake: state == HANDSHAKE })
        })
        .collect()
}

/// An end as the kernel's tables have it: the words of the address as they are in memory, and the port.
fn end(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let word = |at| Some(u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match address.len() {
        8 => IpAddr::from(word(0)?),
        _ => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            IpAddr::from(<[u8; 16]>::try_from(words.concat()).ok()?).to_canonical()
        }
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}
