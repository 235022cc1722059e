//! A lab of two namespaces for the time of a benchmark, and programs in it.

use crate::process;
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The lab; it goes down with the value.
pub(crate) struct Lab {
    windhover: PathBuf,
    name: String,
    /// IPv4 address of host `a`.
    near: String,
    /// IPv4 address of host `b`.
    address: String,
}

impl Lab {
    pub(crate) fn up(windhover: &Path, name: &str) -> Result<Self> {
        let mut lab = Self {
            windhover: windhover.to_owned(),
            name: name.to_owned(),
            near: String::new(),
            address: String::new(),
        };
        process::run(&windhover.to_string_lossy(), &["lab", "up", name])?;
        let listed = Command::new(windhover).args(["lab", "list", "--json"]).output().context("windhover lab list")?;
        let labs: serde_json::Value = serde_json::from_slice(&listed.stdout).context("windhover lab list --json")?;
        let hosts =
            labs.as_array().and_then(|labs| labs.iter().find(|lab| lab["name"] == name)).map(|lab| &lab["hosts"]);
        for (at, to) in [(0, &mut lab.near), (1, &mut lab.address)] {
            let address = hosts.and_then(|hosts| hosts[at]["ipv4"].as_str());
            address.context("the lab has no address for each of its hosts")?.clone_into(to);
        }
        Ok(lab)
    }

    /// Of host `a`.
    pub(crate) fn near(&self) -> &str {
        &self.near
    }

    /// Of host `b`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// A command in the namespace of host `a` or `b`, on one CPU.
    pub(crate) fn command(&self, host: &str, cpu: &str, argv: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &format!("wh-{}-{host}", self.name), "taskset", "-c", cpu]).args(argv);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// A server on host `b`, CPU 1, that is killed with the value.
    pub(crate) fn serve(&self, argv: &[&str]) -> Result<Server> {
        let child = self
            .command("b", "1", argv)
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", argv.first().copied().unwrap_or_default()))?;
        // None of the servers says when it listens.
        std::thread::sleep(Duration::from_millis(250));
        Ok(Server(child))
    }

    /// What a client on host `a`, CPU 0, prints.
    pub(crate) fn client(&self, argv: &[&str]) -> Result<String> {
        let output = self.command("a", "0", argv).output().context("client")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = process::run(&self.windhover.to_string_lossy(), &["lab", "down", &self.name]);
    }
}

/// A server that is killed by its own id when the measurement is over.
pub(crate) struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
