//! The file that describes topics and the nodes that exchange them. All nodes of an exchange read the same file.

use crate::topic::{check_name, ns};
use crate::{Overrun, Topic, Transport};
use model::{Pacer, Policy};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

const DEFAULT_PORT: u16 = 7420;
/// Topics and nodes of a file, each.
const MAX_PARTS: usize = 256;

/// A fault of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    #[error("line {line}: {why}")]
    Syntax { line: usize, why: String },
    #[error("topic '{topic}': {why}")]
    Topic { topic: String, why: String },
    #[error("node '{node}': {why}")]
    Node { node: String, why: String },
    #[error("{why}")]
    Parts { why: &'static str },
}

/// Where the data of a publication come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Each element is the number of the cycle.
    #[default]
    Pattern,
    /// The latest sample of the image `windhover.NODE.TOPIC.in`, which an application writes.
    Image,
}

/// A topic that a node publishes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Publication {
    pub topic: String,
    #[serde(default)]
    phase_us: f64,
    #[serde(default)]
    pub overrun: Overrun,
    /// How the publisher waits for its cycle.
    #[serde(default)]
    pub wait: Pacer,
    #[serde(default)]
    pub source: Source,
    /// The CPU of its thread.
    pub cpu: Option<u32>,
}

impl Publication {
    pub fn phase_ns(&self) -> u64 {
        ns(self.phase_us)
    }
}

/// What a node says of its CLOCK_REALTIME. Only then are times of other nodes compared with its own.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockClaim {
    /// What keeps the clocks together, such as `ptp` or `same-host`.
    pub source: String,
    /// How far two clocks can be apart.
    error_us: f64,
}

impl ClockClaim {
    pub fn error_ns(&self) -> u64 {
        ns(self.error_us)
    }
}

/// A process that publishes and subscribes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    pub name: String,
    /// Its number in frames.
    pub id: u16,
    pub address: IpAddr,
    /// Where it receives topics that have no group.
    #[serde(default = "default_port")]
    pub port: u16,
    #[serde(default)]
    pub publish: Vec<Publication>,
    #[serde(default)]
    pub subscribe: Vec<String>,
    #[serde(default)]
    pub policy: Policy,
    /// Absent: as a real-time policy does, memory is locked.
    lock_memory: Option<bool>,
    /// The CPU of the threads that receive.
    pub cpu: Option<u32>,
    /// Receiving threads spin.
    #[serde(default)]
    pub spin: bool,
    pub clock: Option<ClockClaim>,
    #[serde(default = "default_link")]
    pub link_mbps: u32,
}

fn default_port() -> u16 {
    DEFAULT_PORT
}

fn default_link() -> u32 {
    1000
}

impl Node {
    pub fn locks_memory(&self) -> bool {
        self.lock_memory.unwrap_or(self.policy.is_real_time())
    }
}

/// All topics and nodes of an exchange.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExchangeFile {
    #[serde(rename = "topic", default)]
    pub topics: Vec<Topic>,
    #[serde(rename = "node", default)]
    pub nodes: Vec<Node>,
}

impl ExchangeFile {
    /// Reads and checks a file's text. Errors: the first fault, with its place.
    pub fn read(text: &str) -> Result<Self, FileError> {
        let mut file: Self = toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            FileError::Syntax { line: before.matches('\n').count() + 1, why: error.message().replace('\n', " ") }
        })?;
        if file.topics.is_empty() || file.nodes.is_empty() {
            return Err(FileError::Parts { why: "the file needs at least one [[topic]] and one [[node]]" });
        }
        if file.topics.len() > MAX_PARTS || file.nodes.len() > MAX_PARTS {
            return Err(FileError::Parts { why: "the file has more than 256 topics or nodes" });
        }
        file.topics.iter_mut().try_for_each(Topic::check)?;
        file.check_topics()?;
        file.nodes.iter().try_for_each(|node| file.check_node(node))?;
        file.check_nodes()?;
        Ok(file)
    }

    fn check_topics(&self) -> Result<(), FileError> {
        let (mut ids, mut names) = (BTreeMap::new(), BTreeMap::new());
        for topic in &self.topics {
            let wrong = |why| Err(FileError::Topic { topic: topic.name.clone(), why });
            if let Some(other) = ids.insert(topic.id, &topic.name) {
                return wrong(format!("id {} is that of topic '{other}'", topic.id));
            }
            if names.insert(&topic.name, ()).is_some() {
                return wrong("another topic has this name".to_owned());
            }
            let publishers: Vec<&str> = self.publishers(&topic.name).map(|(node, _)| node.name.as_str()).collect();
            if let [one, other, ..] = publishers.as_slice() {
                return wrong(format!("'{one}' and '{other}' publish it: a topic has one publisher"));
            }
        }
        Ok(())
    }

    fn check_node(&self, node: &Node) -> Result<(), FileError> {
        let wrong = |why: String| FileError::Node { node: node.name.clone(), why };
        check_name(&node.name).map_err(&wrong)?;
        let topics = node.publish.iter().map(|publication| &publication.topic).chain(&node.subscribe);
        for name in topics {
            let topic = self.topic(name).ok_or_else(|| {
                let nearest = model::words::nearest(name.as_str(), self.topics.iter().map(|topic| topic.name.as_str()));
                let tip = nearest.map(|nearest| format!(": '{nearest}' is one")).unwrap_or_default();
                wrong(format!("there is no topic '{}'{tip}", model::text::visible_line(name)))
            })?;
            if topic.group.is_some_and(|group| group.is_ipv4() != node.address.is_ipv4()) {
                let group = topic.group.map(|group| group.ip().to_string()).unwrap_or_default();
                let address = node.address;
                return Err(wrong(format!("its address {address} and group {group} are of different families")));
            }
        }
        for publication in &node.publish {
            let period_us = self.topic(&publication.topic).map_or(0, Topic::period_ns) as f64 / 1000.0;
            let phase_us = publication.phase_us;
            if !(0.0..period_us).contains(&phase_us) {
                let topic = &publication.topic;
                return Err(wrong(format!(
                    "phase_us = {phase_us} of '{topic}' is not within its period of {period_us}"
                )));
            }
        }
        for (at, name) in node.subscribe.iter().enumerate() {
            if node.subscribe.iter().skip(at + 1).any(|other| other == name) {
                return Err(wrong(format!("it subscribes '{name}' twice")));
            }
            let Some((publisher, _)) = self.publishers(name).next() else {
                return Err(wrong(format!("it subscribes '{name}', which no node publishes")));
            };
            if publisher.address.is_ipv4() != node.address.is_ipv4() {
                let why = format!(
                    "its address and that of '{}', which publishes '{name}', are of different families",
                    publisher.name
                );
                return Err(wrong(why));
            }
        }
        if node.address.is_multicast() || node.address.is_unspecified() || node.port == 0 {
            return Err(wrong(format!("{}:{} is no address of a host with a port", node.address, node.port)));
        }
        if let Some(clock) = node.clock.as_ref().filter(|clock| !(0.0..=1e6).contains(&clock.error_us)) {
            return Err(wrong(format!("clock.error_us = {} is outside of 0 to 1000000", clock.error_us)));
        }
        if node.link_mbps == 0 {
            return Err(wrong("link_mbps = 0".to_owned()));
        }
        Ok(())
    }

    fn check_nodes(&self) -> Result<(), FileError> {
        let (mut ids, mut names, mut places) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for node in &self.nodes {
            let wrong = |why| Err(FileError::Node { node: node.name.clone(), why });
            if let Some(other) = ids.insert(node.id, &node.name) {
                return wrong(format!("id {} is that of node '{other}'", node.id));
            }
            if names.insert(&node.name, ()).is_some() {
                return wrong("another node has this name".to_owned());
            }
            if let Some(other) = places.insert((node.address, node.port), &node.name) {
                return wrong(format!("node '{other}' has the same address and port"));
            }
        }
        self.check_pgm()?;
        self.check_framing()
    }

    /// A publisher has a socket at the port of each topic over PGM, at which only NAKs for this topic may arrive.
    fn check_pgm(&self) -> Result<(), FileError> {
        let mut ports = BTreeMap::new();
        for topic in self.topics.iter().filter(|topic| topic.transport == Transport::Pgm) {
            let port = topic.group.map_or(0, |group| group.port());
            if let Some(other) = ports.insert(port, &topic.name) {
                let why = format!("topic '{other}' has port {port}, too: a topic over PGM needs a port of its own");
                return Err(FileError::Topic { topic: topic.name.clone(), why });
            }
        }
        Ok(())
    }

    /// A datagram's topic and framing must be known from where it arrives and from its header.
    fn check_framing(&self) -> Result<(), FileError> {
        let mut places: BTreeMap<(Transport, SocketAddr), Vec<&Topic>> = BTreeMap::new();
        for topic in &self.topics {
            for place in self.targets(topic) {
                let others = places.entry((topic.transport, place)).or_default();
                let is_same = |other: &&&Topic| {
                    !topic.framing.is_numbered()
                        || other.framing != topic.framing
                        || other.frame_topic() == topic.frame_topic()
                };
                if let Some(other) = others.iter().find(is_same) {
                    let why = format!(
                        "its frames ({}) and those of '{}' ({}) cannot be told apart at {place}: use another port or group",
                        topic.framing, other.name, other.framing
                    );
                    return Err(FileError::Topic { topic: topic.name.clone(), why });
                }
                others.push(topic);
            }
        }
        Ok(())
    }

    fn publishers<'a, 'b>(&'a self, topic: &'b str) -> impl Iterator<Item = (&'a Node, &'a Publication)> + use<'a, 'b> {
        let of_node = move |node: &'a Node| node.publish.iter().map(move |publication| (node, publication));
        self.nodes.iter().flat_map(of_node).filter(move |(_, publication)| publication.topic == topic)
    }

    pub fn topic(&self, name: &str) -> Option<&Topic> {
        self.topics.iter().find(|topic| topic.name == name)
    }

    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// The node that publishes a topic.
    pub fn publisher(&self, topic: &str) -> Option<&Node> {
        self.publishers(topic).next().map(|(node, _)| node)
    }

    /// Where the frames of a topic go.
    pub fn targets(&self, topic: &Topic) -> Vec<SocketAddr> {
        if let Some(group) = topic.group {
            return vec![group];
        }
        let hears = |node: &&Node| node.subscribe.contains(&topic.name);
        self.nodes.iter().filter(hears).map(|node| SocketAddr::new(node.address, node.port)).collect()
    }

    /// The first address that is neither of this host, nor private, nor a group that stays within a site.
    pub fn public_address(&self) -> Option<IpAddr> {
        let groups = self.topics.iter().filter_map(|topic| topic.group).map(|group| group.ip());
        self.nodes.iter().map(|node| node.address).chain(groups).find(|address| !is_private(*address))
    }
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) if v4.is_multicast() => v4.octets()[0] == 239 || v4.octets()[..3] == [224, 0, 0],
        // The last range is that of benchmarks (RFC 2544), which labs have.
        IpAddr::V4(v4) => {
            let is_lab = v4.octets()[0] == 198 && v4.octets()[1] & 0xfe == 18;
            v4.is_loopback() || v4.is_private() || v4.is_link_local() || is_lab
        }
        // Scopes of interface, link, realm, admin and site (RFC 7346).
        IpAddr::V6(v6) if v6.is_multicast() => v6.octets()[1] & 0xf <= 5,
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPIC: &str =
        "[[topic]]\nname = \"axis\"\nid = 1\nperiod_us = 1000\n[[topic.field]]\nname = \"x\"\ntype = \"f64\"\n";
    const NODES: &str = "[[node]]\nname = \"a\"\nid = 1\naddress = \"127.0.0.1\"\npublish = [{ topic = \"axis\" }]\n\
        [[node]]\nname = \"b\"\nid = 2\naddress = \"127.0.0.2\"\nsubscribe = [\"axis\"]\n";

    #[test]
    fn topics_without_a_group_go_to_each_subscriber() {
        let file = ExchangeFile::read(&format!("{TOPIC}{NODES}")).unwrap();
        let axis = file.topic("axis").unwrap();
        assert_eq!(file.targets(axis), ["127.0.0.2:7420".parse().unwrap()]);
        assert_eq!(file.publisher("axis").unwrap().id, 1);
        assert!(!file.node("a").unwrap().locks_memory());
        let grouped = TOPIC.replace("id = 1\n", "id = 1\ngroup = \"239.255.0.1:7421\"\n");
        let file = ExchangeFile::read(&format!("{grouped}{NODES}")).unwrap();
        assert_eq!(file.targets(&file.topics[0]), ["239.255.0.1:7421".parse().unwrap()]);
        assert_eq!(file.public_address(), None);
    }

    #[test]
    fn a_port_has_one_framing_and_raw_topics_have_their_own() {
        let topic = |framing: &str, more: &str| {
            TOPIC.replace("axis", "other").replace("id = 1", &format!("id = 2\nframing = \"{framing}\"{more}"))
        };
        let nodes = NODES
            .replace("publish = [", "publish = [{ topic = \"other\" }, ")
            .replace("subscribe = [", "subscribe = [\"other\", ");
        let read = |first: &str, other: &str| {
            let first =
                TOPIC.replace("id = 1", &format!("id = 1\nframing = \"{first}\"\ngroup = \"239.255.0.1:7421\""));
            ExchangeFile::read(&format!("{first}{other}{nodes}")).map(|_| ()).map_err(|error| error.to_string())
        };
        let same = "\ngroup = \"239.255.0.1:7421\"";
        for (first, other) in [("native", "sdn"), ("native", "raw"), ("raw", "sdn"), ("raw", "raw")] {
            assert_eq!(
                read(first, &topic(other, same)),
                Err(format!(
                    "topic 'other': its frames ({other}) and those of 'axis' ({first}) cannot be told apart at \
                     239.255.0.1:7421: use another port or group"
                ))
            );
            assert_eq!(read(first, &topic(other, "")), Ok(()));
        }
        assert_eq!(read("sdn", &topic("sdn", same)), Ok(()));
        let raw = |other: &str| {
            let first = TOPIC.replace("id = 1", "id = 1\nframing = \"raw\"");
            ExchangeFile::read(&format!("{first}{}{nodes}", topic("raw", other))).is_ok()
        };
        let pgm = |port: u32| {
            let first = TOPIC.replace("id = 1", "id = 1\ntransport = \"pgm\"\ngroup = \"239.255.0.1:7421\"");
            let other = format!("\ntransport = \"pgm\"\ngroup = \"239.255.0.2:{port}\"");
            let file = ExchangeFile::read(&format!("{first}{}{nodes}", topic("native", &other)));
            file.map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(pgm(7422), Ok(()));
        assert!(pgm(7421).unwrap_err().contains("'axis' has port 7421, too: a topic over PGM needs a port of its own"));
        assert_eq!([raw(""), raw("\ntransport = \"tcp\"")], [false, true], "ports of TCP are others");
        let uid = format!("{same}\nsdn_uid = {}", read_topic("axis", "sdn").frame_topic());
        assert!(read("sdn", &topic("sdn", &uid)).unwrap_err().contains("cannot be told apart"));
        assert!(read("sdn", &topic("raw", "\nsdn_version = 1")).unwrap_err().contains("need framing = \"sdn\""));
    }

    fn read_topic(name: &str, framing: &str) -> Topic {
        let text = TOPIC.replace("axis", name).replace("id = 1", &format!("id = 1\nframing = \"{framing}\""));
        ExchangeFile::read(&format!("{text}{}", NODES.replace("axis", name))).unwrap().topics.remove(0)
    }

    /// The hashes are those of a loop in Python over "axis" and "x f64 1  0\n", their halves XORed.
    #[test]
    fn frames_carry_what_their_framing_has_room_for() {
        let [native, sdn, raw] = ["native", "sdn", "raw"].map(|framing| read_topic("axis", framing));
        assert_eq!((native.frame_topic(), native.frame_layout()), (1, native.layout()));
        assert_eq!((sdn.frame_topic(), sdn.frame_layout()), (UID, VERSION));
        assert_eq!((raw.frame_topic(), raw.frame_layout()), (0, 0));
    }

    const UID: u32 = 0x3f18_9170;
    const VERSION: u64 = 0x5d99_e42c;

    #[test]
    fn public_addresses_are_found() {
        let public = ["8.8.8.8", "198.20.0.1", "225.0.0.1", "2001:db8::1", "ff0e::1", "172.32.0.1"];
        let private =
            ["10.0.0.1", "198.19.0.1", "169.254.0.1", "239.1.1.1", "224.0.0.7", "::1", "fe80::1", "fd00::1", "ff15::1"];
        assert!(public.iter().all(|text| !is_private(text.parse().unwrap())));
        assert!(private.iter().all(|text| is_private(text.parse().unwrap())));
        let file = ExchangeFile::read(&format!("{TOPIC}{}", NODES.replace("127.0.0.2", "8.8.4.4"))).unwrap();
        assert_eq!(file.public_address(), Some("8.8.4.4".parse().unwrap()));
    }

    #[test]
    fn each_fault_is_one_clear_line() {
        let all = format!("{TOPIC}{NODES}");
        let with = |from: &str, to: &str| {
            assert!(all.contains(from), "{from}");
            all.replacen(from, to, 1)
        };
        for (text, words) in [
            (String::new(), "the file needs at least one [[topic]] and one [[node]]"),
            ("[[topic]\n".to_owned(), "line 1: "),
            (with("id = 1\nperiod", "id = -1\nperiod"), "line 3: invalid value: integer `-1`"),
            (format!("{all}{}", TOPIC.replace("axis", "other")), "topic 'other': id 1 is that of topic 'axis'"),
            (format!("{all}{}", TOPIC.replace("id = 1", "id = 2")), "topic 'axis': another topic has this name"),
            (
                with("subscribe = [\"axis\"]", "subscribe = [\"axiz\"]"),
                "node 'b': there is no topic 'axiz': 'axis' is one",
            ),
            (
                with("subscribe = [\"axis\"]", "subscribe = [\"axis\", \"axis\"]"),
                "node 'b': it subscribes 'axis' twice",
            ),
            (with("subscribe = [\"axis\"]", "publish = [{ topic = \"axis\" }]"), "'a' and 'b' publish it"),
            (with("publish = [{ topic = \"axis\" }]\n", ""), "it subscribes 'axis', which no node publishes"),
            (
                with("{ topic = \"axis\" }", "{ topic = \"axis\", phase_us = 1000 }"),
                "phase_us = 1000 of 'axis' is not within",
            ),
            (with("id = 2", "id = 1"), "node 'b': id 1 is that of node 'a'"),
            (with("name = \"b\"", "name = \"a\""), "node 'a': another node has this name"),
            (with("127.0.0.2", "127.0.0.1"), "node 'b': node 'a' has the same address and port"),
            (with("127.0.0.2", "::1"), "are of different families"),
            (with("127.0.0.2", "239.0.0.1"), "239.0.0.1:7420 is no address of a host"),
            (
                with("id = 2\n", "id = 2\nclock = { source = \"ptp\", error_us = -1 }\n"),
                "clock.error_us = -1 is outside",
            ),
            (with("id = 1\nperiod", "id = 1\nsdn_uid = 3\nperiod"), "sdn_uid and sdn_version need framing = \"sdn\""),
            (with("id = 2\n", "id = 2\npolicy = \"fifo:100\"\n"), "line 16: priority 100 is out of range"),
        ] {
            let error = ExchangeFile::read(&text).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains('\n'), "{error}\nfor {words}");
        }
    }
}
