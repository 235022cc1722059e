//! Root queueing disciplines of the devices of the calling thread's network namespace, over rtnetlink(7).

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use std::os::fd::AsRawFd;

// linux/rtnetlink.h, linux/netlink.h, linux/pkt_sched.h
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const TCA_KIND: u16 = 1;
const TCA_STATS: u16 = 3;
const TC_H_ROOT: u32 = 0xffff_ffff;
const HEADER_BYTES: usize = 16;
const TCMSG_BYTES: usize = 20;

/// The discipline at the root of one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootQdisc {
    /// The device's index.
    pub interface: u32,
    /// Its kind (`fq_codel`, `mq`, `noqueue`).
    pub kind: String,
    /// Packets it dropped since it was set; `mq` counts those of its queues.
    pub drops: u64,
}

/// All root disciplines; empty where rtnetlink does not answer.
#[must_use]
pub fn roots() -> Vec<RootQdisc> {
    dump().unwrap_or_default()
}

fn dump() -> Option<Vec<RootQdisc>> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute).ok()?;
    // The kernel answers at once or never.
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(1)).ok()?;
    send(socket.as_raw_fd(), &request(), MsgFlags::empty()).ok()?;
    let mut found = Vec::new();
    let mut buffer = vec![0; 65_536];
    loop {
        let length = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty()).ok()?;
        if length == 0 || parse_dump(buffer.get(..length)?, &mut found) {
            return Some(found);
        }
    }
}

fn request() -> Vec<u8> {
    let length = u32::try_from(HEADER_BYTES + TCMSG_BYTES).unwrap_or(0);
    let mut bytes = Vec::with_capacity(HEADER_BYTES + TCMSG_BYTES);
    bytes.extend(length.to_ne_bytes());
    bytes.extend(RTM_GETQDISC.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST_DUMP.to_ne_bytes());
    bytes.extend(1_u32.to_ne_bytes());
    bytes.resize(HEADER_BYTES + TCMSG_BYTES, 0);
    bytes
}

/// Reads one datagram of a dump and adds the root disciplines in it. Returns whether the dump is over, which an error
/// or a message that contradicts itself ends as well.
pub fn parse_dump(mut bytes: &[u8], found: &mut Vec<RootQdisc>) -> bool {
    while !bytes.is_empty() {
        let (Some(length), Some(kind)) = (u32_at(bytes, 0), u16_at(bytes, 4)) else { return true };
        let length = length as usize;
        let Some(body) = bytes.get(HEADER_BYTES..length) else { return true };
        match kind {
            NLMSG_DONE | NLMSG_ERROR => return true,
            RTM_NEWQDISC => found.extend(root_of(body)),
            _ => {}
        }
        bytes = bytes.get(align(length)..).unwrap_or_default();
    }
    false
}

fn root_of(body: &[u8]) -> Option<RootQdisc> {
    if u32_at(body, 12)? != TC_H_ROOT {
        return None;
    }
    let mut root = RootQdisc { interface: u32_at(body, 4)?, kind: String::new(), drops: 0 };
    let mut attributes = body.get(TCMSG_BYTES..)?;
    while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        let length = usize::from(length);
        let Some(value) = attributes.get(4..length) else { break };
        match kind {
            TCA_KIND => {
                let text = value.split(|&byte| byte == 0).next().unwrap_or_default();
                root.kind = String::from_utf8_lossy(text).into_owned();
            }
            // struct tc_stats: 8 bytes of bytes, 4 of packets, 4 of drops.
            TCA_STATS => root.drops = u64::from(u32_at(value, 12).unwrap_or(0)),
            _ => {}
        }
        attributes = attributes.get(align(length)..).unwrap_or_default();
    }
    Some(root)
}

fn align(length: usize) -> usize {
    length.saturating_add(3) & !3
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(u32::try_from(HEADER_BYTES + body.len()).unwrap().to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes.resize(align(bytes.len()), 0);
        bytes
    }

    fn qdisc(interface: u32, parent: u32, kind: &str, drops: u32) -> Vec<u8> {
        let mut body = vec![0; 4];
        body.extend(interface.to_ne_bytes());
        body.extend(0_u32.to_ne_bytes());
        body.extend(parent.to_ne_bytes());
        body.extend(0_u32.to_ne_bytes());
        let mut attribute = |kind: u16, value: &[u8]| {
            body.extend(u16::try_from(4 + value.len()).unwrap().to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend(value);
            body.resize(align(body.len()), 0);
        };
        attribute(TCA_KIND, format!("{kind}\0").as_bytes());
        let mut stats = vec![0; 36];
        stats[12..16].copy_from_slice(&drops.to_ne_bytes());
        attribute(TCA_STATS, &stats);
        message(RTM_NEWQDISC, &body)
    }

    #[test]
    fn takes_roots_and_leaves_their_children() {
        let mut dump = qdisc(2, TC_H_ROOT, "mq", 7);
        dump.extend(qdisc(2, 0x1_0001, "fq_codel", 7));
        dump.extend(qdisc(3, TC_H_ROOT, "noqueue", 0));
        let mut found = Vec::new();
        assert!(!parse_dump(&dump, &mut found));
        assert!(parse_dump(&message(NLMSG_DONE, &[0; 4]), &mut found));
        let root = |interface, kind: &str, drops| RootQdisc { interface, kind: kind.to_owned(), drops };
        assert_eq!(found, [root(2, "mq", 7), root(3, "noqueue", 0)]);
    }

    #[test]
    fn any_cut_ends_without_a_panic() {
        let dump = qdisc(2, TC_H_ROOT, "pfifo_fast", 1);
        for end in 0..dump.len() {
            parse_dump(&dump[..end], &mut Vec::new());
        }
        let mut lying = dump.clone();
        lying[0..4].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert!(parse_dump(&lying, &mut Vec::new()));
        let mut endless = dump;
        endless[0..4].copy_from_slice(&0_u32.to_ne_bytes());
        assert!(parse_dump(&endless, &mut Vec::new()));
    }

    #[test]
    fn the_loopback_device_has_a_root_here() {
        assert!(roots().iter().any(|root| root.interface == 1 && !root.kind.is_empty()), "{:?}", roots());
    }
}
