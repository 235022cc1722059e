//! What a lab consists of: planning without system calls. The registry keeps the record; `ip` executes the batches.

use crate::{LabError, Owner, Subnet};
use model::plan::{GuestMode, LabKind, LabPlan};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

/// Name of the measured device in every host's namespace, unless it is a real port.
pub const DEVICE: &str = "wh0";

pub(crate) const LOOPBACK: &str = "lo";

/// Where iproute2 keeps named namespaces.
pub const NETNS_FOLDER: &str = "/run/netns";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabSpec {
    /// Its name: 1 to 32 lower-case letters, digits and `-`.
    pub name: String,
    pub kind: LabKind,
    /// How many hosts, 1 to 26 (`a`, `b`, `c` …).
    pub hosts: u32,
    /// Which one is the first, from 0 (`a`): guests on a wire have each a part of the hosts.
    pub first: u32,
    /// Real ports, one a host, instead of veth pairs; the cable between them must be there.
    pub ports: Vec<String>,
    pub owner: Owner,
    /// The program (`windhover`) that takes the lab down when the calling process was killed; else it stays until the next lab.
    pub keeper: Option<PathBuf>,
}

impl LabSpec {
    /// Two hosts joined by a veth pair, owned by the calling process.
    pub fn new(name: &str) -> Self {
        let (name, owner) = (name.to_owned(), Owner::this_process());
        Self { name, kind: LabKind::Netns, hosts: 2, first: 0, ports: Vec::new(), owner, keeper: None }
    }

    /// The lab that a plan asks for, owned by the calling process.
    pub fn from_plan(name: &str, plan: &LabPlan) -> Self {
        Self { kind: plan.kind, hosts: plan.hosts, ports: plan.ports.clone(), ..Self::new(name) }
    }

    /// Checks what can be checked without the system.
    pub fn check(&self) -> Result<(), LabError> {
        check_name(&self.name)?;
        if !(1..=26).contains(&self.hosts) || self.first > 26 - self.hosts {
            return LabError::refused(format!("a lab cannot have {} hosts: use 1 to 26", self.hosts));
        }
        if !self.ports.is_empty() && self.ports.len() != self.hosts as usize {
            let (ports, hosts) = (self.ports.len(), self.hosts);
            let remedy = "name one port for each host";
            return LabError::refused(format!("{ports} ports were named for {hosts} hosts: {remedy}"));
        }
        match self.ports.iter().enumerate().find(|(index, port)| self.ports[..*index].contains(port)) {
            Some((_, port)) => {
                LabError::refused(format!("port '{port}' is named twice: name another port for each host"))
            }
            None => Ok(()),
        }
    }
}

/// Refuses names that cannot be part of a namespace's name or of a path.
pub fn check_name(name: &str) -> Result<(), LabError> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > 32 || !name.chars().all(plain) || name.starts_with('-') {
        let remedy = "take 1 to 32 lower-case letters, digits and '-'";
        return LabError::refused(format!("lab name '{name}' cannot be used: {remedy}"));
    }
    Ok(())
}

/// A real port that a lab borrowed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Port {
    pub name: String,
    /// Whether it was up before.
    pub up: bool,
    /// Its addresses with prefix length before, without those that the kernel makes itself.
    pub addresses: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LabHost {
    /// `a`, `b`, `c` …
    pub name: String,
    /// Its network namespace; absent on a loopback lab.
    pub netns: Option<String>,
    pub ipv4: Ipv4Addr,
    /// Its IPv6 address; absent where the kernel has no IPv6.
    pub ipv6: Option<Ipv6Addr>,
    /// The device that carries these addresses.
    pub device: String,
    /// The real port, when the device is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<Port>,
}

impl LabHost {
    /// The file to enter its namespace by (setns(2)); absent on a loopback lab.
    pub fn netns_path(&self) -> Option<PathBuf> {
        self.netns.as_ref().map(|netns| PathBuf::from(NETNS_FOLDER).join(netns))
    }

    pub fn address(&self) -> IpAddr {
        IpAddr::V4(self.ipv4)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LabRecord {
    pub format: u32,
    pub name: String,
    pub kind: LabKind,
    pub owner: Owner,
    /// Its network; absent on a loopback lab.
    pub subnet: Option<Subnet>,
    /// The namespace that holds the bridge, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<String>,
    /// The guests that its hosts are in, when it is made of such.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guests: Vec<GuestRecord>,
    /// Why it went down by itself: a guest ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    pub hosts: Vec<LabHost>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct GuestRecord {
    /// The kernel as it was asked for, with the words of its command line.
    pub kernel: String,
    pub mode: GuestMode,
    pub cpus: u32,
    pub memory_mb: u32,
    /// Its sockets and its console.
    pub folder: PathBuf,
    pub hosts: Vec<String>,
}

/// Commands for one run of `ip -batch`, in one namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The namespace (`ip -n`); absent: the current one.
    pub netns: Option<String>,
    /// One command a line.
    pub lines: Vec<String>,
}

impl LabRecord {
    /// Plans a lab's names and addresses. `ports` are the states of the spec's ports, in its order.
    pub fn plan(spec: &LabSpec, subnet: Option<Subnet>, has_ipv6: bool, ports: Vec<Port>) -> Self {
        let mut ports = ports.into_iter();
        let hosts = ('a'..='z')
            .zip(0_u8..)
            .skip(spec.first as usize)
            .take(spec.hosts as usize)
            .map(|(letter, number)| {
                let subnet = subnet.filter(|_| spec.kind == LabKind::Netns);
                let port = subnet.and_then(|_| ports.next());
                LabHost {
                    name: letter.to_string(),
                    netns: subnet.map(|_| format!("wh-{}-{letter}", spec.name)),
                    ipv4: subnet.map_or(Ipv4Addr::LOCALHOST, |subnet| subnet.ipv4(number)),
                    ipv6: has_ipv6.then(|| subnet.map_or(Ipv6Addr::LOCALHOST, |subnet| subnet.ipv6(number))),
                    device: match &port {
                        Some(port) => port.name.clone(),
                        None if subnet.is_some() && spec.hosts > 1 => DEVICE.to_owned(),
                        // A lone host without a port has nothing to be joined to.
                        None => LOOPBACK.to_owned(),
                    },
                    port,
                }
            })
            .collect();
        let bridged = spec.kind == LabKind::Netns && spec.ports.is_empty() && spec.hosts > 2;
        Self {
            format: model::FORMAT,
            name: spec.name.clone(),
            kind: spec.kind,
            owner: spec.owner.clone(),
            subnet,
            switch: bridged.then(|| format!("wh-{}-sw", spec.name)),
            guests: Vec::new(),
            ended: None,
            hosts,
        }
    }

    pub fn host(&self, name: &str) -> Result<&LabHost, LabError> {
        self.hosts.iter().find(|host| host.name == name).ok_or_else(|| {
            let known = self.hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>().join(", ");
            LabError::Refused(format!("lab '{}' has no host '{name}': it has {known}", self.name))
        })
    }

    /// Refuses a lab that is not up: stale, or not up yet.
    pub fn check_up(&self) -> Result<(), LabError> {
        let name = &self.name;
        if self.owner.is_gone() {
            let remedy = format!("remove it with windhover lab down {name}");
            return LabError::refused(format!("lab '{name}' is stale, {}: {remedy}", self.why_stale()));
        }
        if self.hosts.is_empty() {
            return LabError::refused(format!("lab '{name}' is not up yet: wait for its windhover lab up"));
        }
        Ok(())
    }

    /// Why it is stale, once its owner has ended.
    pub fn why_stale(&self) -> &str {
        self.ended.as_deref().unwrap_or("its owner is gone")
    }

    pub fn as_plan(&self) -> LabPlan {
        let kernels: Vec<&str> = self.guests.iter().map(|guest| guest.kernel.as_str()).collect();
        let guest = self.guests.first();
        LabPlan {
            name: Some(self.name.clone()),
            hosts: u32::try_from(self.hosts.len()).unwrap_or(u32::MAX),
            kernel: guest.map(|_| kernels.join(" + ")),
            mode: guest.map(|guest| guest.mode),
            cpus: guest.map(|guest| guest.cpus),
            memory_mb: guest.map(|guest| guest.memory_mb),
            ..LabPlan::new(self.kind)
        }
    }

    pub fn guest_of(&self, host: &str) -> Option<&GuestRecord> {
        self.guests.iter().find(|guest| guest.hosts.iter().any(|name| name == host))
    }

    /// All namespaces of the lab, the bridge's first.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.switch.as_deref().into_iter().chain(self.hosts.iter().filter_map(|host| host.netns.as_deref()))
    }

    /// Process ids and names of the programs that run in its namespaces now.
    pub fn processes(&self) -> Vec<(u32, String)> {
        let inodes: Vec<u64> =
            self.namespaces().filter_map(|netns| host::netns::inode_of(&Path::new(NETNS_FOLDER).join(netns))).collect();
        host::netns::processes(&inodes)
    }

    /// The commands for `ip` that make the lab, in this order.
    pub fn batches(&self) -> Vec<Batch> {
        let mut outside: Vec<String> = self.namespaces().map(|netns| format!("netns add {netns}")).collect();
        let placed: Vec<(&LabHost, &str)> =
            self.hosts.iter().filter_map(|host| Some((host, host.netns.as_deref()?))).collect();
        if let Some(switch) = &self.switch {
            for (host, netns) in &placed {
                outside.push(format!(
                    "link add {} netns {netns} type veth peer name {} netns {switch}",
                    host.device,
                    bridge_port(host)
                ));
            }
        } else if placed.iter().all(|(host, _)| host.port.is_some()) {
            for (host, netns) in &placed {
                outside.push(format!("link set {} netns {netns}", host.device));
            }
        } else if let [(a, netns_a), (b, netns_b)] = placed.as_slice() {
            outside.push(format!(
                "link add {} netns {netns_a} type veth peer name {} netns {netns_b}",
                a.device, b.device
            ));
        }
        let mut batches = vec![Batch { netns: None, lines: outside }];
        if let Some(switch) = &self.switch {
            // Without snooping the bridge floods multicast, as a plain switch does; without STP it forwards at once.
            let mut lines = vec![
                "link set lo up".to_owned(),
                "link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0".to_owned(),
                "link set br0 up".to_owned(),
            ];
            for (host, _) in &placed {
                lines.push(format!("link set {} master br0", bridge_port(host)));
                lines.push(format!("link set {} up", bridge_port(host)));
            }
            batches.push(Batch { netns: Some(switch.clone()), lines });
        }
        for (host, netns) in &placed {
            let device = &host.device;
            let mut lines = vec!["link set lo up".to_owned()];
            if device != LOOPBACK {
                lines.push(format!("link set {device} up"));
            }
            lines.push(format!("addr add {}/{} dev {device}", host.ipv4, Subnet::PREFIX4));
            lines.push(format!("route add 224.0.0.0/4 dev {device}"));
            if let Some(ipv6) = host.ipv6 {
                // Duplicate address detection would keep the address from being bound for a second or two.
                lines.push(format!("addr add {ipv6}/{} dev {device} nodad", Subnet::PREFIX6));
                lines.push(format!("route replace ff00::/8 dev {device} table local"));
            }
            batches.push(Batch { netns: Some((*netns).to_owned()), lines });
        }
        batches
    }
}

fn bridge_port(host: &LabHost) -> String {
    format!("to-{}", host.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(hosts: u32, ports: &[&str]) -> LabRecord {
        let spec = LabSpec { hosts, ports: ports.iter().map(|&port| port.to_owned()).collect(), ..LabSpec::new("t") };
        let state = |name: &&str| Port { name: (*name).to_owned(), up: true, addresses: vec![] };
        LabRecord::plan(&spec, Some(Subnet::try_from(3).unwrap()), true, ports.iter().map(state).collect())
    }

    #[test]
    fn two_hosts_are_joined_directly() {
        let record = record(2, &[]);
        assert_eq!(record.switch, None);
        let batches = record.batches();
        assert_eq!(
            batches[0].lines,
            ["netns add wh-t-a", "netns add wh-t-b", "link add wh0 netns wh-t-a type veth peer name wh0 netns wh-t-b"]
        );
        assert_eq!(batches[2].netns.as_deref(), Some("wh-t-b"));
        assert!(batches[2].lines.contains(&"addr add 198.18.3.2/24 dev wh0".to_owned()));
        assert!(batches[2].lines.contains(&"addr add fd00:198:18:3::2/64 dev wh0 nodad".to_owned()));
    }

    #[test]
    fn more_hosts_are_joined_by_a_bridge_of_their_own() {
        let record = record(4, &[]);
        assert_eq!(record.namespaces().collect::<Vec<_>>(), ["wh-t-sw", "wh-t-a", "wh-t-b", "wh-t-c", "wh-t-d"]);
        let batches = record.batches();
        assert_eq!(batches.len(), 6);
        assert!(batches[1].lines.contains(&"link set to-d master br0".to_owned()));
    }

    #[test]
    fn a_lone_host_uses_a_device_that_it_has() {
        let record = record(1, &[]);
        assert_eq!(record.hosts[0].device, "lo");
        let lines: Vec<String> = record.batches().into_iter().flat_map(|batch| batch.lines).collect();
        assert!(lines.contains(&"addr add 198.18.3.1/24 dev lo".to_owned()), "{lines:?}");
        assert!(lines.iter().all(|line| !line.contains(DEVICE)), "{lines:?}");
    }

    #[test]
    fn ports_are_moved_and_nothing_is_made() {
        let record = record(2, &["eth1", "eth2"]);
        let batches = record.batches();
        assert!(batches[0].lines.contains(&"link set eth2 netns wh-t-b".to_owned()));
        assert!(batches.iter().flat_map(|batch| &batch.lines).all(|line| !line.contains("veth")));
        assert!(batches[2].lines.contains(&"addr add 198.18.3.2/24 dev eth2".to_owned()));
    }

    #[test]
    fn a_loopback_lab_needs_no_namespace() {
        let spec = LabSpec { kind: LabKind::Loopback, ..LabSpec::new("t") };
        let record = LabRecord::plan(&spec, None, true, vec![]);
        assert_eq!(record.hosts.len(), 2);
        assert_eq!(record.host("b").unwrap().address(), IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert_eq!(record.namespaces().count(), 0);
    }

    #[test]
    fn bad_specs_are_refused_with_the_remedy() {
        for name in ["", "A", "a/b", "-a", "../x", "a b", &"x".repeat(33)] {
            assert!(check_name(name).unwrap_err().to_string().starts_with("lab name"), "{name}");
        }
        let ports = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        for (spec, words) in [
            (LabSpec { hosts: 0, ..LabSpec::new("t") }, "cannot have 0 hosts"),
            (LabSpec { hosts: 27, ..LabSpec::new("t") }, "cannot have 27 hosts"),
            (LabSpec { ports: ports(&["eth1"]), ..LabSpec::new("t") }, "1 ports were named for 2 hosts"),
            (LabSpec { ports: ports(&["eth1", "eth1"]), ..LabSpec::new("t") }, "'eth1' is named twice"),
        ] {
            let error = spec.check().unwrap_err();
            assert!(error.to_string().contains(words) && error.exit_code() == 2, "{error}");
        }
        let error = record(2, &[]).host("z").unwrap_err();
        assert_eq!(error.to_string(), "lab 't' has no host 'z': it has a, b");
    }

    #[test]
    fn what_the_registry_keeps_reads_back() {
        let record = record(2, &["eth1", "eth2"]);
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<LabRecord>(&text).unwrap(), record);
    }
}
