//! Labs in a guest: a virtual machine with a kernel of its own, whose network namespaces are the hosts.

use crate::build::{GuestRecord, LabHost, LabRecord};
use crate::life::Lab;
use crate::pipe::AgentCommand;
use crate::{LabError, Owner, Registry};
use guest::control::MACHINE;
use guest::{Cache, Guest, GuestError, GuestHost, GuestMode, GuestSpec, Kernel, Program, agent_socket};
use model::plan::LabKind;
use std::path::Path;
use std::sync::atomic::AtomicBool;

impl From<GuestError> for LabError {
    fn from(error: GuestError) -> Self {
        match error.exit_code() {
            2 => Self::Refused(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// How many times longer than on this machine something may take in a guest: emulation runs at a tenth of the speed, and
/// shares the CPUs with whatever else runs here.
fn patience(mode: GuestMode) -> u32 {
    if mode == GuestMode::Kvm { 2 } else { 30 }
}

/// The words that a kernel of a guest is named by.
fn named(spec: &GuestSpec) -> String {
    std::iter::once(&spec.kernel).chain(&spec.words).map(String::as_str).collect::<Vec<_>>().join(" ")
}

fn outside(host: &GuestHost) -> LabHost {
    let GuestHost { name, ipv4, ipv6, device, .. } = host.clone();
    LabHost { name, netns: None, ipv4, ipv6, device, port: None }
}

impl Lab {
    /// Boots a guest and waits until its hosts are there. It ends with the calling thread, or earlier, and is not written
    /// down. `note` is told what takes long.
    pub fn boot(
        name: &str,
        spec: &GuestSpec,
        program: &Program,
        stop: &AtomicBool,
        note: &mut dyn FnMut(&str),
    ) -> Result<Self, LabError> {
        let guest = Guest::boot(spec, program, &Cache::usual()?, stop, note)?;
        let record = LabRecord {
            format: model::FORMAT,
            name: name.to_owned(),
            kind: LabKind::Guest,
            owner: Owner::this_process(),
            subnet: None,
            switch: None,
            guest: Some(GuestRecord { kernel: named(spec), mode: spec.mode, folder: guest.folder().to_owned() }),
            hosts: guest.up().hosts.iter().map(outside).collect(),
        };
        Ok(Self::with_guest(record, Registry::default(), guest))
    }

    /// Whether a guest can be had here; the release of its kernel, which is fetched where it is not there yet.
    pub fn check_guest(spec: &GuestSpec, note: &mut dyn FnMut(&str)) -> Result<String, LabError> {
        spec.check()?;
        Ok(Kernel::find(&spec.kernel, &Cache::usual()?, note)?.release)
    }

    /// The pipe to the agent of a host: `PROGRAM agent` in its namespace, or the one that the guest starts.
    #[must_use]
    pub fn agent(&self, program: &Path, host: &LabHost) -> AgentCommand {
        self.in_guest(&host.name).unwrap_or_else(|| AgentCommand::on_lab_host(program, host))
    }

    /// The pipe to the agent of the machine that the hosts are on.
    #[must_use]
    pub fn machine_agent(&self, program: &Path) -> AgentCommand {
        let argv = [program.to_string_lossy().into_owned(), "agent".to_owned()];
        self.in_guest(MACHINE).unwrap_or_else(|| AgentCommand::of(&argv))
    }

    fn in_guest(&self, name: &str) -> Option<AgentCommand> {
        let guest = self.record().guest.as_ref()?;
        Some(AgentCommand::at_socket(agent_socket(&guest.folder, name), patience(guest.mode)))
    }
}
