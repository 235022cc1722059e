//! The connections that the kernel lists.

use std::net::SocketAddr;
use user_stack::listed_end;

/// A connection that the kernel has or is making.
pub(super) struct Connection {
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    /// The other end began it, and it cannot be accepted yet.
    pub(super) is_handshake: bool,
}

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
            Some(Connection {
                local: listed_end(local)?,
                remote: listed_end(remote)?,
                is_handshake: state == HANDSHAKE,
            })
        })
        .collect()
}
