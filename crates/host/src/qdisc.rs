//! Root queueing disciplines of the devices of the calling thread's network namespace, over rtnetlink(7).

use netlink::{Answer, Answers, Asks, Attributes, Request, Socket, u32_at};

// linux/rtnetlink.h, linux/pkt_sched.h
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const TCA_KIND: u16 = 1;
const TCA_STATS: u16 = 3;
const TC_H_ROOT: u32 = 0xffff_ffff;
const TCMSG_BYTES: usize = 20;

/// The discipline at the root of one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootQdisc {
    pub interface: u32,
    /// Its kind (`fq_codel`, `mq`, `noqueue`).
    pub kind: String,
    /// Packets it dropped since it was set; `mq` counts those of its queues.
    pub drops: u64,
}

/// All root disciplines; empty where rtnetlink does not answer.
pub fn roots() -> Vec<RootQdisc> {
    dump().unwrap_or_default()
}

fn dump() -> Option<Vec<RootQdisc>> {
    let mut found = Vec::new();
    let request = Request::new(RTM_GETQDISC, Asks::All, &[0; TCMSG_BYTES]);
    Socket::route().ok()?.exchange(request, |kind, body| found.extend(root_of(kind, body))).ok()?;
    Some(found)
}

/// The root disciplines in one datagram of a dump.
pub(crate) fn parse_dump(bytes: &[u8]) -> Vec<RootQdisc> {
    let root = |answer| if let Answer::Object(kind, body) = answer { root_of(kind, body) } else { None };
    Answers(bytes).filter_map(root).collect()
}

fn root_of(kind: u16, body: &[u8]) -> Option<RootQdisc> {
    if kind != RTM_NEWQDISC || u32_at(body, 12)? != TC_H_ROOT {
        return None;
    }
    let mut root = RootQdisc { interface: u32_at(body, 4)?, kind: String::new(), drops: 0 };
    for (kind, value) in Attributes(body.get(TCMSG_BYTES..)?) {
        match kind {
            TCA_KIND => {
                let text = value.split(|&byte| byte == 0).next().unwrap_or_default();
                root.kind = String::from_utf8_lossy(text).into_owned();
            }
            // struct tc_stats: 8 bytes of bytes, 4 of packets, 4 of drops.
            TCA_STATS => root.drops = u64::from(u32_at(value, 12).unwrap_or(0)),
            _ => {}
        }
    }
    Some(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn qdisc(interface: u32, parent: u32, kind: &str, drops: u32) -> Vec<u8> {
        let numbers = [0, interface, 0, parent, 0];
        let mut stats = [0; 36];
        stats[12..16].copy_from_slice(&drops.to_ne_bytes());
        Request::new(RTM_NEWQDISC, Asks::One, numbers.map(u32::to_ne_bytes).as_flattened())
            .with(TCA_KIND, format!("{kind}\0").as_bytes())
            .with(TCA_STATS, &stats)
            .finish()
    }

    #[test]
    fn takes_roots_and_leaves_their_children() {
        let mut dump = qdisc(2, TC_H_ROOT, "mq", 7);
        dump.extend(qdisc(2, 0x1_0001, "fq_codel", 7));
        dump.extend(qdisc(3, TC_H_ROOT, "noqueue", 0));
        let root = |interface, kind: &str, drops| RootQdisc { interface, kind: kind.to_owned(), drops };
        assert_eq!(parse_dump(&dump), [root(2, "mq", 7), root(3, "noqueue", 0)]);
    }

    #[test]
    fn any_cut_ends_without_a_panic() {
        let dump = qdisc(2, TC_H_ROOT, "pfifo_fast", 1);
        for end in 0..dump.len() {
            assert_eq!(parse_dump(&dump[..end]), [], "{end}");
        }
    }

    #[test]
    fn the_loopback_device_has_a_root_here() {
        assert!(roots().iter().any(|root| root.interface == 1 && !root.kind.is_empty()), "{:?}", roots());
    }
}
