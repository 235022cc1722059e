//! What an exchange costs on paper: bytes, frames, shares of links, time of cycles.

use crate::transport::Packets;
use crate::{ExchangeFile, Node, Topic, Transport};
use model::Pacer;

/// Preamble, Ethernet's header and checksum, and the gap between frames.
const ETHERNET: usize = 8 + 14 + 4 + 12;
const LEAST_PAYLOAD: usize = 46;
/// CPU time that a frame is taken to cost on each end, in ns: a system call through the kernel's stack and a wake-up.
const FRAME_COST_NS: u64 = 10_000;

/// A topic at a node.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct TopicBudget {
    pub topic: String,
    /// `publish` or `subscribe`.
    pub role: &'static str,
    pub transport: Transport,
    /// Of the data, and of the frame on an Ethernet with all headers and the gaps; of TCP with its acknowledgement, in the other
    /// direction, as a packet of its own.
    pub data_bytes: usize,
    pub wire_bytes: usize,
    pub ack_bytes: usize,
    pub period_us: f64,
    pub deadline_us: f64,
    /// Frames in each second, to all targets.
    pub frames_per_s: f64,
    pub mbps: f64,
    /// One frame on the node's link.
    pub wire_us: f64,
    /// CPU time of a cycle, at 10 µs a frame, and its share of the period.
    pub cycle_us: f64,
    pub cycle_share: f64,
}

/// A node of the file.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct NodeBudget {
    pub node: String,
    pub link_mbps: u32,
    pub topics: Vec<TopicBudget>,
    /// Of the link, in each direction.
    pub out_share: f64,
    pub in_share: f64,
    /// CPUs' worth of time, at 10 µs a frame, without what threads spin.
    pub cpus: f64,
}

/// All nodes of a file.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Budget {
    pub nodes: Vec<NodeBudget>,
    /// What cannot work as it is written; a line each.
    pub faults: Vec<String>,
}

impl Budget {
    pub fn new(file: &ExchangeFile) -> Self {
        let mut faults = Vec::new();
        let nodes = file.nodes.iter().map(|node| of_node(file, node, &mut faults)).collect();
        Self { nodes, faults }
    }
}

fn of_node(file: &ExchangeFile, node: &Node, faults: &mut Vec<String>) -> NodeBudget {
    let topic = |name: &String| file.topic(name);
    let publish = node.publish.iter().filter_map(|publication| topic(&publication.topic));
    let publish = publish.map(|topic| of_topic(node, topic, "publish", file.targets(topic).len()));
    let subscribe = node.subscribe.iter().filter_map(topic).map(|topic| of_topic(node, topic, "subscribe", 1));
    let topics: Vec<TopicBudget> = publish.chain(subscribe).collect();
    let share = |role: &str| {
        let mbps = |topic: &TopicBudget| if topic.role == role { topic.mbps } else { topic.rate_mbps(topic.ack_bytes) };
        topics.iter().map(mbps).sum::<f64>() / f64::from(node.link_mbps)
    };
    let (out_share, in_share) = (share("publish"), share("subscribe"));
    let name = &node.name;
    for (direction, share) in [("out", out_share), ("in", in_share)] {
        if share > 1.0 && !node.address.is_loopback() {
            let percent = share * 100.0;
            faults.push(format!("node '{name}': {percent:.0} % of its link of {} Mbit/s {direction}", node.link_mbps));
        }
    }
    for topic in topics.iter().filter(|topic| topic.cycle_share > 1.0) {
        let (cycle, period) = (topic.cycle_us, topic.period_us);
        faults.push(format!(
            "node '{name}': a cycle of '{}' takes {cycle:.0} µs (10 µs a frame) and its period is {period} µs",
            topic.topic
        ));
    }
    for (at, publication) in node.publish.iter().enumerate().filter(|(_, publication)| publication.wait == Pacer::Spin)
    {
        let Some(cpu) = publication.cpu else { continue };
        let others = node.publish.iter().skip(at + 1).filter(|other| other.wait == Pacer::Spin);
        let clashes = others.filter(|other| other.cpu == Some(cpu)).map(|other| format!("'{}'", other.topic));
        let receives = (node.spin && node.cpu == Some(cpu)).then(|| "the receiving threads".to_owned());
        for other in clashes.chain(receives) {
            faults.push(format!("node '{name}': '{}' and {other} spin on the same CPU {cpu}", publication.topic));
        }
    }
    let cpus = topics.iter().map(|topic| topic.frames_per_s * FRAME_COST_NS as f64 / 1e9).sum();
    NodeBudget { node: name.clone(), link_mbps: node.link_mbps, topics, out_share, in_share, cpus }
}

impl TopicBudget {
    /// Of so many bytes for each frame.
    fn rate_mbps(&self, bytes: usize) -> f64 {
        self.frames_per_s * bytes as f64 * 8.0 / 1e6
    }
}

fn of_topic(node: &Node, topic: &Topic, role: &'static str, frames: usize) -> TopicBudget {
    let ip = if node.address.is_ipv4() { 20 } else { 40 };
    let Packets { count, bytes, ack_bytes } = topic.transport.packets(topic, ip);
    let wire_bytes = count * ETHERNET + bytes.max(LEAST_PAYLOAD);
    let period_us = topic.period_ns() as f64 / 1000.0;
    let frames_per_s = frames as f64 * 1e6 / period_us;
    let cycle_us = frames as f64 * FRAME_COST_NS as f64 / 1000.0;
    let budget = TopicBudget {
        topic: topic.name.clone(),
        role,
        transport: topic.transport,
        data_bytes: topic.bytes(),
        wire_bytes,
        ack_bytes: ack_bytes.map_or(0, |bytes| ETHERNET + bytes.max(LEAST_PAYLOAD)),
        period_us,
        deadline_us: topic.deadline_ns() as f64 / 1000.0,
        frames_per_s,
        mbps: 0.0,
        wire_us: wire_bytes as f64 * 8.0 / f64::from(node.link_mbps),
        cycle_us,
        cycle_share: cycle_us / period_us,
    };
    TopicBudget { mbps: budget.rate_mbps(wire_bytes), ..budget }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(nodes: &str) -> ExchangeFile {
        let topic = "[[topic]]\nname = \"axis\"\nid = 1\nperiod_us = 50\n[[topic.field]]\nname = \"x\"\ntype = \"u8\"\ncount = 1024\n";
        ExchangeFile::read(&format!("{topic}{nodes}")).unwrap()
    }

    #[test]
    fn figures_of_a_known_exchange() {
        let nodes = "[[node]]\nname = \"a\"\nid = 1\naddress = \"10.0.0.1\"\npublish = [{ topic = \"axis\" }]\n\
            [[node]]\nname = \"b\"\nid = 2\naddress = \"10.0.0.2\"\nsubscribe = [\"axis\"]\n";
        let budget = Budget::new(&file(nodes));
        let [a, b] = budget.nodes.as_slice() else { panic!("{budget:?}") };
        // 1024 of data, 64 of header, 8 of UDP, 20 of IP, 38 of Ethernet, each 50 µs.
        let topic = &a.topics[0];
        assert_eq!((topic.data_bytes, topic.wire_bytes, topic.frames_per_s), (1024, 1154, 20_000.0));
        assert!((topic.mbps - 184.64).abs() < 1e-9 && (topic.wire_us - 9.232).abs() < 1e-9, "{topic:?}");
        assert!((a.out_share - 0.18464).abs() < 1e-9 && a.in_share == 0.0 && (b.in_share - a.out_share).abs() < 1e-9);
        assert!((topic.cycle_share - 0.2).abs() < 1e-9 && (a.cpus - 0.2).abs() < 1e-9);
        assert_eq!(budget.faults, Vec::<String>::new());
    }

    #[test]
    fn a_connection_has_more_headers_and_acknowledgements() {
        let nodes = "[[node]]\nname = \"a\"\nid = 1\naddress = \"10.0.0.1\"\npublish = [{ topic = \"axis\" }]\n\
            [[node]]\nname = \"b\"\nid = 2\naddress = \"10.0.0.2\"\nsubscribe = [\"axis\"]\n";
        let read = |count: u32| {
            let mut file = file(nodes);
            file.topics[0].transport = Transport::Tcp;
            let text = format!("name = \"x\"\ntype = \"u8\"\ncount = {count}\n");
            file.topics[0].fields = vec![toml::from_str(&text).unwrap()];
            file.topics[0].check().unwrap();
            Budget::new(&file).nodes
        };
        let [a, b] = read(1024).try_into().unwrap();
        // 2 of length and 32 of TCP; acknowledgements of 20 and 32, with the 38 of Ethernet.
        let topic = &a.topics[0];
        assert_eq!((topic.wire_bytes, topic.ack_bytes), (1024 + 64 + 2 + 32 + 20 + 38, 90));
        assert!((a.out_share - 0.1888).abs() < 1e-9 && (a.in_share - 0.0144).abs() < 1e-9, "{a:?}");
        assert!((b.in_share - a.out_share).abs() < 1e-9 && (b.out_share - a.in_share).abs() < 1e-9);
        // One byte more than a segment of 1448 holds.
        assert_eq!([1382, 1383].map(|count| read(count)[0].topics[0].wire_bytes), [1538, 1539 + 90]);
    }

    #[test]
    fn pgm_has_headers_of_its_own() {
        let read = |count: u32| {
            let text =
                "[[topic]]\nname = \"axis\"\nid = 1\nperiod_us = 50\ntransport = \"pgm\"\ngroup = \"239.0.0.1:7421\"\n";
            let field = format!("[[topic.field]]\nname = \"x\"\ntype = \"u8\"\ncount = {count}\n");
            let node = "[[node]]\nname = \"a\"\nid = 1\naddress = \"ADDRESS\"\npublish = [{ topic = \"axis\" }]\n";
            let of = |group: &str, address: &str| {
                let text = format!("{text}{field}{node}").replace("239.0.0.1", group).replace("ADDRESS", address);
                Budget::new(&ExchangeFile::read(&text).unwrap()).nodes[0].topics[0].wire_bytes
            };
            [of("239.0.0.1", "10.0.0.1"), of("[ff15::1]", "fd00::1")]
        };
        // 64 of header, 24 of PGM, 8 of UDP, 20 or 40 of IP, 38 of Ethernet.
        assert_eq!(read(100), [254, 274]);
        // The longest frame is one packet of IPv4 and two of IPv6.
        assert_eq!(read(1384), [1538, 1384 + 64 + 2 * (20 + 24 + 8 + 40 + 38)]);
    }

    #[test]
    fn what_cannot_work_is_named() {
        let subscribers: String = (2..=8)
            .map(|id| format!("[[node]]\nname = \"n{id}\"\nid = {id}\naddress = \"10.0.0.{id}\"\nsubscribe = [\"axis\"]\nlink_mbps = 100\n"))
            .collect();
        let publisher = "[[node]]\nname = \"a\"\nid = 1\naddress = \"10.0.0.1\"\nspin = true\ncpu = 3\n\
            publish = [{ topic = \"axis\", wait = \"spin\", cpu = 3 }]\n";
        let faults = Budget::new(&file(&format!("{publisher}{subscribers}"))).faults;
        for words in [
            "node 'a': 129 % of its link of 1000 Mbit/s out",
            "node 'a': a cycle of 'axis' takes 70 µs (10 µs a frame) and its period is 50 µs",
            "node 'a': 'axis' and the receiving threads spin on the same CPU 3",
            "node 'n2': 185 % of its link of 100 Mbit/s in",
        ] {
            assert!(faults.iter().any(|fault| fault == words), "{faults:#?}");
        }
    }
}
