//! The campaign plan (TOML) and the cells it stands for.
//!
//! ```toml
//! name = "white-paper"
//! repetitions = 3
//! seed = 2012
//!
//! [lab]
//! kind = "netns"            # or "loopback"; leave [lab] out and give each host an agent_command instead
//!
//! [roles]
//! initiator = "a"
//! reflectors = ["b"]
//!
//! [measure]                 # what every cell shares
//! seconds = 1.0
//! cpu = "0;1"               # initiator;reflector
//! policy = "fifo:1"
//!
//! [[grid]]                  # each grid is the product of its axes; several grids add up
//! probe = ["pingpong"]
//! protocol = ["tcp", "udp"]
//! load = ["none", "build"]
//! size = [32, 1024]
//! ```

mod blame;
mod expand;
mod kernel;
mod pace;
mod prepare;
mod question;
pub mod reference;
#[cfg(test)]
mod tests;
mod values;

pub use crate::factor::AxisValues;
pub use expand::Cell;
pub use kernel::KernelsPlan;
pub use pace::pgm_factors;
pub use prepare::{CellShield, KnobPlan, ShieldPlan};
pub use question::{Factors, Question, default_question};
pub use values::{Grid, Measure};

use crate::{CpuList, LoadProfile, ModelError, Probe, Protocol, Role};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// A campaign as a person writes it. Unknown keys are refused.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Names the run directory: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// One line for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Seed of the execution order (default: drawn at the start and recorded).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// How often each cell is measured, unless its grid says it.
    #[serde(default = "three")]
    pub repetitions: u32,
    /// The built-in lab, when the hosts come from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lab: Option<LabPlan>,
    /// Hosts by name, when they do not come from the built-in lab.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, HostPlan>,
    /// Who does what.
    pub roles: Roles,
    /// Free labels that tables show (`nic`, `os`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What every cell shares.
    #[serde(default)]
    pub measure: Measure,
    /// Loads by name; the names of built-in profiles need no entry.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub loads: BTreeMap<String, LoadPlan>,
    /// Network stacks by name; `kernel`, `spin` and `xdp` need no entry.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stacks: BTreeMap<String, StackPlan>,
    /// How shielded cells are shielded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shield: Option<ShieldPlan>,
    /// Sets of settings by name, for the axis `knob`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub knobs: BTreeMap<String, KnobPlan>,
    /// How hosts come to the kernels of the axis `kernel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernels: Option<KernelsPlan>,
    /// The comparisons that are tested; what is not asked is described and not tested (default: chosen from the axes).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<Question>,
    /// Products of axes.
    pub grid: Vec<Grid>,
}

defaults! { three: u32 = 3; }

/// The built-in lab.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LabPlan {
    /// What the hosts are made of.
    pub kind: LabKind,
    /// Name of a lab that is up (`windhover lab up`) and is used instead of a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How many hosts (`a`, `b`, `c` …), at most 26.
    #[serde(default = "two")]
    pub hosts: u32,
    /// Real ports moved into the namespaces, one a host (default: a veth pair).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
    /// Kernel of a guest: `debian-6.1`, `debian-6.1-rt`, `debian-6.12`, `debian-6.12-rt` or the path of a vmlinuz-RELEASE; words
    /// behind it join the kernel's command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// How the CPUs of a guest run (default: `icount`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<GuestMode>,
    /// CPUs of a guest (default: 1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Memory of a guest in MB (default: 768).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u32>,
    /// Network devices of the hosts of a guest (default: `veth`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic: Option<GuestNic>,
}

defaults! { two: u32 = 2; }

impl LabPlan {
    /// A lab with two hosts and nothing else set.
    pub fn new(kind: LabKind) -> Self {
        let (ports, kernel, mode, cpus, memory_mb, nic) = (Vec::new(), None, None, None, None, None);
        Self { kind, name: None, hosts: 2, ports, kernel, mode, cpus, memory_mb, nic }
    }

    fn check(&self) -> Result<(), ModelError> {
        let conflict = |what: &str, remedy: &str| Err(ModelError::conflict(what, remedy));
        if !(1..=26).contains(&self.hosts) {
            return conflict(&format!("lab.hosts = {}", self.hosts), "use 1 to 26");
        }
        if !self.ports.is_empty() && self.ports.len() != self.hosts as usize {
            let what = format!("lab.ports names {} ports for {} hosts", self.ports.len(), self.hosts);
            return conflict(&what, "give each host one port");
        }
        if self.kind != LabKind::Guest {
            let of_guest = [
                ("kernel", self.kernel.is_some()),
                ("mode", self.mode.is_some()),
                ("cpus", self.cpus.is_some()),
                ("memory_mb", self.memory_mb.is_some()),
                ("nic", self.nic.is_some()),
            ];
            return match of_guest.iter().find(|(_, is_set)| *is_set) {
                Some((key, _)) => {
                    conflict(&format!("lab.{key} is for guests"), "set lab.kind = \"guest\", or remove it")
                }
                None => Ok(()),
            };
        }
        if !self.ports.is_empty() {
            return conflict("lab.ports with a guest", "remove it: a guest has no ports of this machine");
        }
        if self.cpus == Some(0) || (self.mode.unwrap_or_default() == GuestMode::Icount && self.cpus.unwrap_or(1) > 1) {
            let what = format!("lab.cpus = {}", self.cpus.unwrap_or_default());
            return conflict(&what, "use 1, or with mode kvm or tcg more: icount runs one CPU");
        }
        if self.memory_mb.is_some_and(|mb| mb < 256) {
            return conflict("lab.memory_mb below 256", "use 256 or more: a guest keeps its files in memory");
        }
        Ok(())
    }
}

words! {
    "mode of guests";
    /// How the CPUs of a guest run.
    #[derive(Default)]
    pub enum GuestMode {
        /// Emulated, 2 ns of guest time an instruction, one CPU: simulated times, which repeat.
        #[default]
        Icount = "icount",
        /// On this machine's CPUs, pinned, by hardware virtualization (/dev/kvm).
        Kvm = "kvm",
        /// Emulated: for function, its times mean nothing.
        Tcg = "tcg",
    }
}

words! {
    "NIC of guests";
    /// The network device of each host of a guest. All but `veth` are emulated, and driven by the kernel's own driver.
    #[derive(Default)]
    pub enum GuestNic {
        /// A virtual device of the kernel: a pair, or ports of a bridge.
        #[default]
        Veth = "veth",
        /// Intel 82576: interrupts of its own for each queue (MSI-X), interrupt moderation, a PTP clock.
        Igb = "igb",
        /// Intel 82574L: interrupts of its own for receiving and sending (MSI-X), interrupt moderation.
        E1000e = "e1000e",
    }
}

/// What the built-in lab's hosts are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LabKind {
    /// Network namespaces joined by a veth pair or a bridge; needs root.
    Netns,
    /// This host talking to itself over 127.0.0.1; needs nothing.
    Loopback,
    /// Network namespaces of a virtual machine with a kernel of its own; needs QEMU, no root.
    Guest,
}

/// One host that is not from the built-in lab.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostPlan {
    /// A command whose stdin and stdout are a pipe to an agent: `["ssh", "b", "windhover", "agent"]`.
    pub agent_command: Vec<String>,
    /// The address that messages are sent to when this host reflects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<std::net::IpAddr>,
    /// The network device that settings beginning with `nic.` mean on this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// Which host does what.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Roles {
    /// The host that starts messages.
    pub initiator: String,
    /// The hosts that send them back: one, or for `pace` several, each of which gets every message.
    #[serde(default)]
    pub reflectors: Vec<String>,
}

impl Roles {
    /// The hosts of a role.
    pub fn hosts(&self, role: Role) -> &[String] {
        match role {
            Role::Initiator => std::slice::from_ref(&self.initiator),
            Role::Reflector => &self.reflectors,
        }
    }

    /// The first role that a host has.
    pub fn role_of(&self, host: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| self.hosts(*role).iter().any(|one| one == host))
    }
}

/// A named load.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadPlan {
    /// What it does (see `windhover load`).
    pub profile: LoadProfile,
    /// Parallel jobs (default: 11 for `build`, else one a CPU).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u32>,
    /// The CPUs it may use (default: all).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuList>,
    /// Command run in a loop, for `build` only (default: the built-in tree).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Folder for the command, or for temporary files (default: a temporary one).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
}

/// A named network stack: how workers are started.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StackPlan {
    /// Command that the worker's command line is appended to, such as `["onload", "--profile=latency"]`. `windhover` as the first
    /// word is the agent's own program.
    pub prefix: Vec<String>,
    /// Environment of the worker (`LD_PRELOAD`, `EF_*` …).
    pub environment: BTreeMap<String, String>,
    /// The same for the reflector, where it differs (default: as the initiator).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reflector: Option<Box<StackPlan>>,
}

/// A stack that needs no definition.
#[derive(Debug)]
pub struct BuiltInStack {
    /// Its name in plans.
    pub name: &'static str,
    /// As [`StackPlan::prefix`].
    pub prefix: [&'static str; 6],
    /// The protocols whose sockets it can carry.
    pub protocols: &'static [Protocol],
    /// It leaves multicast, and sockets with time stamps or segmentation of datagrams, to the kernel.
    pub leaves_options: bool,
    /// It changes nothing for an end that spins by itself.
    pub only_blocking: bool,
}

/// Those of `windhover bypass run`. Without `--require`, because the verdict judges each data socket by itself.
pub const STACKS: [BuiltInStack; 2] = [
    BuiltInStack {
        name: "spin",
        prefix: ["windhover", "bypass", "run", "--stack", "spin", "--"],
        protocols: &[Protocol::Tcp, Protocol::Mptcp, Protocol::Udp, Protocol::Pgm],
        leaves_options: false,
        only_blocking: true,
    },
    BuiltInStack {
        name: "xdp",
        prefix: ["windhover", "bypass", "run", "--stack", "xdp", "--"],
        protocols: &[Protocol::Tcp, Protocol::Udp],
        leaves_options: true,
        only_blocking: false,
    },
];

impl Plan {
    /// Reads a plan and checks everything that needs no host. Errors: [`ModelError`] with file, line, key and remedy.
    pub fn parse(what: &str, text: &str) -> Result<Self, ModelError> {
        let plan: Self = toml::from_str(text).map_err(|error| blame::parsing(what, text, &error))?;
        let cells = plan.check_cells().map_err(|error| blame::checking(what, text, &error))?;
        let asked = plan.check_questions(&cells);
        asked.map_err(|(question, key, error)| blame::asking(what, text, question, key, &error))?;
        Ok(plan)
    }

    /// The plan as text for [`Self::parse`]. Errors: [`ModelError::Document`] for a value that has no form in TOML.
    pub fn to_text(&self) -> Result<String, ModelError> {
        toml::to_string(self).map_err(|error| ModelError::Document {
            what: format!("plan {}", self.name),
            why: error.to_string().replace('\n', " "),
        })
    }

    /// Refuses contradictions, as [`Self::parse`] does: for changed plans. Errors: [`ModelError`] with the remedy.
    pub fn check(&self) -> Result<(), ModelError> {
        let cells = self.check_cells()?;
        self.check_questions(&cells).map_err(|(.., error)| error)
    }

    /// All but the questions; gives the cells.
    fn check_cells(&self) -> Result<Vec<Cell>, ModelError> {
        let conflict = |what: &str, remedy: &str| Err(ModelError::conflict(what, remedy));
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.name.is_empty() || !self.name.chars().all(plain) || self.name.starts_with('.') {
            return conflict(&format!("plan name '{}'", self.name), "use letters, digits, '-', '_' and '.'");
        }
        if self.repetitions == 0 || self.grid.iter().any(|grid| grid.repetitions == Some(0)) {
            return conflict("repetitions = 0 measures nothing", "use 1 or more");
        }
        if self.grid.is_empty() {
            return conflict("the plan has no [[grid]]", "add one with at least one axis");
        }
        match (&self.lab, self.hosts.is_empty()) {
            (Some(_), false) => {
                return conflict("the plan has both [lab] and [hosts]", "keep one of them");
            }
            (None, true) => {
                return conflict("the plan has neither [lab] nor [hosts]", "add [lab] kind = \"netns\"");
            }
            _ => {}
        }
        if let Some(lab) = &self.lab {
            lab.check()?;
            let names_kernels = self.names(crate::factor::KERNEL);
            if let Some(name) = lab.name.as_ref().filter(|_| names_kernels && lab.kind == LabKind::Guest) {
                return conflict(
                    &format!("the plan names kernels, and the guests of lab '{name}' run one already"),
                    "remove lab.name, or the axis kernel",
                );
            }
            if lab.kind == LabKind::Guest && lab.kernel.is_none() && lab.name.is_none() && !names_kernels {
                return conflict("the guest has no kernel", "set lab.kernel = \"debian-6.1\", or the axis kernel");
            }
        }
        let known = self.host_names();
        let cells = self.cells()?;
        self.check_needs(&cells)?;
        self.check_kernels(&cells)?;
        Role::ALL.into_iter().try_for_each(|role| self.check_role(role, &cells, &known))?;
        Ok(cells)
    }

    /// Whether the hosts of a role are those that the cells need.
    fn check_role(&self, role: Role, cells: &[Cell], known: &[String]) -> Result<(), ModelError> {
        let conflict = |what: &str, remedy: &str| Err(ModelError::conflict(what, remedy));
        let hosts = self.roles.hosts(role);
        if hosts.is_empty() && cells.iter().any(|cell| cell.needs(role)) {
            return conflict(&format!("the plan has no {role}"), &format!("set roles.{role}s = [\"b\"]"));
        }
        let has_one = |probe: Probe| probe.has_peer() && probe.most_hosts(role) < 2;
        if let (2.., Some(cell)) = (hosts.len(), cells.iter().find(|cell| has_one(cell.spec.probe()))) {
            let several: Vec<_> =
                Probe::ALL.into_iter().filter(|one| one.most_hosts(role) > 1).map(Probe::word).collect();
            let what = format!("roles.{role}s names {} hosts for {}", hosts.len(), cell.spec.probe());
            let remedy = format!("name one {role}, or measure with {} alone", crate::text::listed(&several, "or"));
            return conflict(&what, &remedy);
        }
        let mut named = BTreeSet::new();
        if let Some(host) = hosts.iter().find(|host| !named.insert(*host)) {
            return conflict(&format!("roles.{role}s names '{host}' twice"), "name each host once");
        }
        if let Some(host) = hosts.iter().find(|host| !known.contains(host)) {
            return conflict(&format!("host '{host}' is not known"), &format!("use one of: {}", known.join(", ")));
        }
        Ok(())
    }

    /// Sets how often each cell is measured, whatever the grids say.
    pub fn set_repetitions(&mut self, repetitions: u32) {
        self.repetitions = repetitions;
        self.grid.iter_mut().for_each(|grid| grid.repetitions = None);
    }

    /// The names of all hosts: those of the lab (`a`, `b` …; both ends of a loopback lab are one machine) or of `[hosts]`.
    pub fn host_names(&self) -> Vec<String> {
        match &self.lab {
            Some(lab) => ('a'..='z').take(lab.hosts.min(26) as usize).map(String::from).collect(),
            None => self.hosts.keys().cloned().collect(),
        }
    }
}
