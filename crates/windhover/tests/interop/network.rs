//! Hosts of a test: network namespaces on one wire, or on a switch, that lose multicast packets when told to.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

static SERIAL: AtomicU32 = AtomicU32::new(0);

/// Why namespaces or losses cannot be made here.
pub(crate) fn obstacle() -> Option<String> {
    if !crate::support::is_root() {
        return Some("network namespaces need root".to_owned());
    }
    let works = |program: &str, arguments: &[&str]| {
        Command::new(program)
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    if !works("unshare", &["--net", "true"]) {
        return Some("this machine gives no network namespaces".to_owned());
    }
    if !works("nft", &["--version"]) {
        return Some("nft is not installed (Debian package nftables)".to_owned());
    }
    let rules = "add table inet t; add chain inet t c; add rule inet t c numgen random mod 100 < 1 counter drop";
    if !works("unshare", &["--net", "nft", rules]) {
        return Some("this kernel has no nftables, or no numgen in them".to_owned());
    }
    None
}

/// Namespaces that are removed at the end.
pub(crate) struct Network {
    hosts: Vec<String>,
    switch: Option<String>,
}

impl Network {
    /// So many hosts: two on one wire, more on a switch.
    pub(crate) fn of(hosts: usize) -> Self {
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let name = |end: &str| format!("wh-interop-{}-{serial}-{end}", std::process::id());
        let network = Self {
            hosts: (0..hosts).map(|host| name(&host.to_string())).collect(),
            switch: (hosts > 2).then(|| name("switch")),
        };
        for name in network.hosts.iter().chain(&network.switch) {
            ip(&["netns", "add", name]);
        }
        if let Some(switch) = &network.switch {
            ip(&["-n", switch, "link", "add", "bridge", "type", "bridge", "mcast_snooping", "0"]);
            ip(&["-n", switch, "link", "set", "bridge", "up"]);
            for (port, host) in network.hosts.iter().enumerate() {
                let port = format!("port{port}");
                ip(&["link", "add", "wire", "netns", host, "type", "veth", "peer", "name", &port, "netns", switch]);
                ip(&["-n", switch, "link", "set", &port, "master", "bridge", "up"]);
            }
        } else if let [a, b] = network.hosts.as_slice() {
            ip(&["link", "add", "wire", "netns", a, "type", "veth", "peer", "name", "wire", "netns", b]);
        }
        for (number, host) in network.hosts.iter().enumerate() {
            let address = format!("{}/24", address(number));
            ip(&["-n", host, "addr", "add", &address, "dev", "wire"]);
            ip(&["-n", host, "link", "set", "lo", "up"]);
            ip(&["-n", host, "link", "set", "wire", "up"]);
            ip(&["-n", host, "route", "add", "224.0.0.0/4", "dev", "wire"]);
        }
        network
    }

    /// Gives the hosts IPv6 addresses too, and waits until groups can be reached.
    pub(crate) fn with_ipv6(self) -> Self {
        for (number, host) in self.hosts.iter().enumerate() {
            let address = format!("{}/64", address6(number));
            ip(&["-n", host, "addr", "add", &address, "dev", "wire", "nodad"]);
        }
        // The kernel notices the carrier, and with it the route for groups, a moment after the command.
        let deadline = Instant::now() + Duration::from_secs(10);
        let reaches = |host: &String| {
            let words = ["-6", "-n", host, "route", "get", "ff08::1", "oif", "wire"];
            Command::new("ip").args(words).output().unwrap().status.success()
        };
        while !self.hosts.iter().all(reaches) {
            assert!(Instant::now() < deadline, "the wires do not come up");
            std::thread::sleep(Duration::from_millis(10));
        }
        self
    }

    /// A host loses so much of the multicast that comes to it, at random.
    pub(crate) fn lose(&self, host: usize, percent: u32) {
        let rule = format!("meta l4proto {{ udp, 113 }} counter numgen random mod 100 < {percent} counter drop");
        let rules = format!(
            "table inet lose {{ chain incoming {{ type filter hook input priority 0; policy accept; ip daddr 224.0.0.0/4 \
             {rule}; ip6 daddr ff00::/8 {rule}; }}; }}\n"
        );
        let mut nft = self.command(host, "nft");
        let mut nft = nft.args(["-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
        nft.stdin.take().unwrap().write_all(rules.as_bytes()).unwrap();
        assert!(nft.wait().unwrap().success(), "{rules}");
    }

    /// Packets that came to a host, and those of them that it has lost.
    pub(crate) fn came_and_lost(&self, host: usize) -> (u64, u64) {
        let listed = self.command(host, "nft").args(["list", "ruleset"]).output().unwrap();
        let text = String::from_utf8(listed.stdout).unwrap();
        let counters = text.split("counter packets ").skip(1);
        let counts: Vec<u64> = counters.map(|rest| rest.split_whitespace().next().unwrap().parse().unwrap()).collect();
        counts.chunks(2).fold((0, 0), |(came, lost), rule| (came + rule[0], lost + rule[1]))
    }

    pub(crate) fn lost(&self, host: usize) -> u64 {
        self.came_and_lost(host).1
    }

    /// A program on a host.
    pub(crate) fn command(&self, host: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        // It becomes the program: its process number is the program's.
        command.args(["netns", "exec", &self.hosts[host], program]);
        command.env_remove("WINDHOVER_KEY_FILE").env("NO_COLOR", "1").stdin(Stdio::null());
        command
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in self.hosts.iter().chain(&self.switch) {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

/// The address of a host.
pub(crate) fn address(host: usize) -> String {
    format!("10.77.0.{}", host + 1)
}

/// The IPv6 address of a host.
pub(crate) fn address6(host: usize) -> String {
    format!("fd77::{}", host + 1)
}

/// Why there is no IPv6 here.
pub(crate) fn obstacle6() -> Option<String> {
    let there = std::path::Path::new("/proc/sys/net/ipv6").exists();
    (!there).then(|| "this kernel has no IPv6".to_owned())
}

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().unwrap();
    assert!(output.status.success(), "ip {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
}
