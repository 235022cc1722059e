//! A lab of two namespaces for the time of a benchmark, and programs in it.

use crate::{packages, process};
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The lab; it goes down with the value.
pub(crate) struct Lab {
    /// Words of command lines that stand for programs.
    programs: Vec<(&'static str, PathBuf)>,
    /// IPv4 addresses of hosts `a` and `b`.
    addresses: [String; 2],
    /// Their network devices.
    devices: [String; 2],
}

const NAME: &str = "bench";

impl Lab {
    pub(crate) fn up(windhover: &Path) -> Result<Self> {
        packages::ensure(&["iproute2", "util-linux"], "for the lab")?;
        let programs = vec![("windhover", windhover.to_owned())];
        let mut lab = Self { programs, addresses: Default::default(), devices: Default::default() };
        process::run(&windhover.to_string_lossy(), &["lab", "up", NAME])?;
        let labs = super::document(Command::new(windhover).args(["lab", "list", "--json"]))?;
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

    /// Of host `a`.
    pub(crate) fn near(&self) -> &str {
        &self.addresses[0]
    }

    /// Of host `b`.
    pub(crate) fn address(&self) -> &str {
        &self.addresses[1]
    }

    /// Network devices of hosts `a` and `b`.
    pub(crate) fn devices(&self) -> &[String; 2] {
        &self.devices
    }

    /// A command line in the namespace of host `a` or `b`, on some CPUs; `windhover` is the tool that is measured.
    pub(crate) fn command(&self, host: &str, cpus: &str, line: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &format!("wh-{NAME}-{host}"), "taskset", "-c", cpus]);
        for word in line.split_whitespace() {
            match self.programs.iter().find(|(name, _)| *name == word) {
                Some((_, path)) => command.arg(path),
                None => command.arg(word),
            };
        }
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// A server on host `b`, CPU 1, that is killed with the value.
    pub(crate) fn serve(&self, line: &str) -> Result<Server> {
        let mut command = self.command("b", "1", line);
        let child = command.stdout(Stdio::null()).spawn().with_context(|| format!("cannot start {line}"))?;
        // None of the servers says when it listens.
        std::thread::sleep(Duration::from_millis(250));
        Ok(Server(child))
    }

    /// Windhover's endpoint on host `b`.
    pub(crate) fn endpoint(&self) -> Result<Server> {
        self.serve(&format!("windhover --quiet serve --bind {}", self.address()))
    }

    /// What a client on host `a`, CPU 0, prints.
    pub(crate) fn client(&self, line: &str) -> Result<String> {
        let output = self.command("a", "0", line).output().context("client")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = process::run(&self.programs[0].1.to_string_lossy(), &["lab", "down", NAME]);
    }
}

/// A process of ours that is killed by its own id with the value.
pub(crate) struct Server(pub(crate) Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
