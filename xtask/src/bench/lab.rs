//! A lab of two namespaces for the time of a benchmark, and programs in it.

use crate::packages;
use crate::process::{self, Killed};
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

pub(crate) struct Lab {
    /// Words of command lines that stand for programs.
    programs: Vec<(&'static str, PathBuf)>,
    addresses: [String; 2],
    devices: [String; 2],
    /// CPUs of hosts `a` and `b`, and which of them are behind a shield.
    cpus: [String; 2],
    shielded: [bool; 2],
}

const NAME: &str = "bench";
/// The namespace of the switch, where there is one.
const SWITCH: &str = "wh-bench-sw";

impl Lab {
    pub(crate) fn up(windhover: &Path) -> Result<Self> {
        Self::of(windhover, 2)
    }

    /// Hosts on a switch, which [`Lab::lose`] makes lossy.
    pub(crate) fn with_switch(windhover: &Path) -> Result<Self> {
        packages::ensure(&["nftables"], "for the switch that loses packets")?;
        Self::of(windhover, 3)
    }

    fn of(windhover: &Path, hosts: u32) -> Result<Self> {
        packages::ensure(&["iproute2", "util-linux"], "for the lab")?;
        let programs = vec![("windhover", windhover.to_owned())];
        let (cpus, shielded) = (["0", "1"].map(str::to_owned), [false; 2]);
        let mut lab = Self { programs, addresses: Default::default(), devices: Default::default(), cpus, shielded };
        process::run(&windhover.to_string_lossy(), &["lab", "up", NAME, "--hosts", &hosts.to_string()])?;
        let labs = super::parsed(&super::printed(Command::new(windhover).args(["lab", "list", "--json"]))?)?;
        let hosts =
            labs.as_array().and_then(|labs| labs.iter().find(|lab| lab["name"] == NAME)).map(|lab| &lab["hosts"]);
        for (field, of_hosts) in [("ipv4", &mut lab.addresses), ("device", &mut lab.devices)] {
            for (at, to) in of_hosts.iter_mut().enumerate() {
                let found = hosts.and_then(|hosts| hosts[at][field].as_str());
                found.with_context(|| format!("the lab has no {field} for each of its hosts"))?.clone_into(to);
            }
        }
        Ok(lab)
    }

    /// Lets a word of command lines stand for a program.
    pub(crate) fn with_program(mut self, word: &'static str, path: PathBuf) -> Self {
        self.programs.push((word, path));
        self
    }

    /// Puts the hosts on other CPUs, some of which are behind a shield.
    pub(crate) fn move_to(&mut self, cpus: [u32; 2], shielded: &[u32]) {
        self.shielded = cpus.map(|cpu| shielded.contains(&cpu));
        self.cpus = cpus.map(|cpu| cpu.to_string());
    }

    /// The switch loses so much of the TCP segments in each direction from now on.
    pub(crate) fn lose(&self, percent: u32) -> Result<()> {
        let _ = Command::new("ip").args(["netns", "exec", SWITCH, "nft", "delete table bridge lose"]).output();
        // Frames of AF_XDP pass by the sender's queueing discipline, so netem there would spare them. Here all are the same.
        let rules = format!(
            "add table bridge lose; add chain bridge lose segments {{ type filter hook forward priority 0; }}; \
             add rule bridge lose segments meta l4proto tcp counter; \
             add rule bridge lose segments meta l4proto tcp numgen random mod 100 < {percent} counter drop"
        );
        process::run("ip", &["netns", "exec", SWITCH, "nft", &rules]).context("a switch that loses packets")
    }

    /// TCP segments that came to the switch since [`Lab::lose`], and those that it lost.
    pub(crate) fn counted(&self) -> Result<[f64; 2]> {
        let text = process::output("ip", &["netns", "exec", SWITCH, "nft", "list chain bridge lose segments"])?;
        let counts = text.split("counter packets ").skip(1);
        let mut counts = counts.filter_map(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
        counts.next().zip(counts.next()).map(Into::into).with_context(|| format!("no counters in {text}"))
    }

    pub(crate) fn cpus(&self) -> &[String; 2] {
        &self.cpus
    }

    /// Of host `a`.
    pub(crate) fn near(&self) -> &str {
        &self.addresses[0]
    }

    /// Of host `b`.
    pub(crate) fn address(&self) -> &str {
        &self.addresses[1]
    }

    pub(crate) fn devices(&self) -> &[String; 2] {
        &self.devices
    }

    /// A command line in the namespace of host `a` or `b`, on some CPUs; `windhover` is the tool that is measured.
    pub(crate) fn command(&self, host: &str, cpus: &str, line: &str) -> Command {
        let namespace = format!("wh-{NAME}-{host}");
        let is_shielded = self.cpus.iter().zip(self.shielded).any(|(cpu, shielded)| shielded && cpu == cpus);
        let mut command;
        if is_shielded {
            // It joins the shield's control group before the namespace, whose mounts have no control groups.
            command = Command::new(&self.programs[0].1);
            command.args(["run", "-b", cpus, "--", "nsenter", &format!("--net=/run/netns/{namespace}")]);
        } else {
            command = Command::new("ip");
            command.args(["netns", "exec", &namespace, "taskset", "-c", cpus]);
        }
        for word in line.split_whitespace() {
            match self.programs.iter().find(|(name, _)| *name == word) {
                Some((_, path)) => command.arg(path),
                None => command.arg(word),
            };
        }
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// A server on host `b` and its CPU, 1, that is killed with the value.
    pub(crate) fn serve(&self, line: &str) -> Result<Killed> {
        let mut command = self.command("b", &self.cpus[1], line);
        let child = command.stdout(Stdio::null()).spawn().with_context(|| format!("cannot start {line}"))?;
        // None of the servers says when it listens.
        std::thread::sleep(Duration::from_millis(250));
        Ok(Killed(child))
    }

    pub(crate) fn endpoint(&self) -> Result<Killed> {
        self.serve(&format!("windhover --quiet serve --bind {}", self.address()))
    }

    /// What a client on host `a` and its CPU, 0, prints.
    pub(crate) fn client(&self, line: &str) -> Result<String> {
        super::printed(&mut self.command("a", &self.cpus[0], line)).with_context(|| line.to_owned())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = process::run(&self.programs[0].1.to_string_lossy(), &["lab", "down", NAME]);
    }
}
