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
mod pace;
mod prepare;
pub mod reference;
mod stream;
mod values;

pub use expand::Cell;
pub use pace::schedule_factors;
pub use prepare::{CellShield, KnobPlan, ShieldPlan};
pub use stream::stream_factors;
pub use values::{RateItem, Rates, Sizes};

use crate::{CpuList, LoadProfile, ModelError, Probe};
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
    /// How often each cell is measured.
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
    /// Network stacks by name; `kernel` needs no entry.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stacks: BTreeMap<String, StackPlan>,
    /// How shielded cells are shielded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shield: Option<ShieldPlan>,
    /// Sets of settings by name, for the axis `knob`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub knobs: BTreeMap<String, KnobPlan>,
    /// Products of axes.
    pub grid: Vec<Grid>,
}

fn three() -> u32 {
    3
}

/// The built-in lab.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LabPlan {
    /// What the hosts are made of.
    pub kind: LabKind,
    /// How many hosts (`a`, `b`, `c` …), at most 26.
    #[serde(default = "two")]
    pub hosts: u32,
    /// Real ports moved into the namespaces, one a host (default: a veth pair).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
}

fn two() -> u32 {
    2
}

/// What the built-in lab's hosts are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LabKind {
    /// Network namespaces joined by a veth pair or a bridge; needs root.
    Netns,
    /// This host talking to itself over 127.0.0.1; needs nothing.
    Loopback,
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

/// What every cell shares; axes of a grid override it. Two-ended values are `initiator;reflector`.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Measure {
    /// Length of a cell in seconds (default 1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Rounds of a cell at most (default: no limit; with it and without `seconds`, no limit of time).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Stop earlier once the 95 % interval of the median is narrower than this percentage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_percent: Option<f64>,
    /// Warm-up in ms (default 200).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup_ms: Option<u32>,
    /// Warm-up in rounds (default 1000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup_count: Option<u32>,
    /// Receive mode: `block`, `spin`, `poll`, `select`, `epoll`, `epoll-mod` or `epoll-adddel` (default `"block"`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive: Option<String>,
    /// Scheduling policy: `other`, `batch`, `idle`, `fifo:N` or `rr:N`, N from 1 to 99 (default `"other"`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// CPU of each end: a number, or `any` (default `"any"`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// SO_BUSY_POLL in µs (default: the system's).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_poll_us: Option<u32>,
    /// SO_SNDBUF of both ends in bytes (default: the system's).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_buffer: Option<u32>,
    /// SO_RCVBUF of both ends in bytes (default: the system's).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_buffer: Option<u32>,
    /// Time-out of a message in ms (default 1000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u32>,
    /// TCP_NODELAY (default true, for `stream` false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodelay: Option<bool>,
    /// Multicast group for udp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcast: Option<std::net::IpAddr>,
    /// Groups, windows and timers of PGM: `[measure.pgm]` with `group = "239.192.0.1"` at least, for `protocol = ["pgm"]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pgm: Option<crate::PgmSpec>,
    /// Response size of rr in bytes (default: as the request).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_size: Option<u32>,
    /// A new connection for each rr transaction over tcp (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_each: Option<bool>,
    /// What the sender of pace does until a message is due: `sleep`, `hybrid` or `spin` (default `"sleep"`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacer: Option<String>,
    /// How the intended times of pace lie: `even`, `poisson` or `burst:N` (default `"even"`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<String>,
    /// Seed of `shape = "poisson"` (default 1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape_seed: Option<u64>,
    /// The reflectors of pace answer message 0 and every Nth after it (default 1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<u32>,
    /// The sending application of pace is what is measured: its lateness is part of the figures and makes none of them
    /// invalid (default false).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sender_measured: bool,
    /// CPU of the receiving thread of pace (default: the sender's).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_cpu: Option<u32>,
    /// Time stamps of pace beside the application's: `none`, `kernel`, `hardware` or `auto` (default `"none"`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamps: Option<String>,
    /// Keep messages over this RTT in µs one by one, beside the worst.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_us: Option<f64>,
    /// Keep raw samples of every cell (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<bool>,
    /// Shield, as the axis (default `"off"`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shield: Option<String>,
    /// Settings, as the axis (default `"none"`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub knob: Option<String>,
    /// Which way a stream goes: `up`, `down` or `both` (default `"up"`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// Parallel flows of a stream (default 1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<u32>,
    /// Payload bits a second of a stream in each direction (default: as fast as it goes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth_bps: Option<u64>,
    /// Datagrams a system call of a stream over udp (default 1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<u32>,
    /// The kernel cuts long sends of a stream over udp into datagrams (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gso: Option<bool>,
    /// The kernel joins datagrams of a stream over udp (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gro: Option<bool>,
    /// A UDP ping-pong beside a stream (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_latency: Option<bool>,
    /// Whether settings may make ends busy-poll that share a CPU, to measure what that costs (default false).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_starving: bool,
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
    /// Command that the worker's command line is appended to, such as `["onload", "--profile=latency"]`.
    pub prefix: Vec<String>,
    /// Environment of the worker (`LD_PRELOAD`, `EF_*` …).
    pub environment: BTreeMap<String, String>,
    /// The same for the reflector, where it differs (default: as the initiator).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reflector: Option<Box<StackPlan>>,
}

/// A product of axes. An absent axis has the one value that `[measure]` or the default gives.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Grid {
    /// Probes: `pingpong`, `rr`, `ping`, `pace`, `stream` (default `["pingpong"]`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<Vec<String>>,
    /// Loads: `none`, `build`, `cpu`, `memory`, `disk`, `net`, `context`, or a name from `[loads]` (default `["none"]`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<Vec<String>>,
    /// Protocols: `tcp`, `udp`, `unix-stream`, `unix-dgram`, `pipe`; for `pace` also `pgm` (default `["udp"]`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Vec<String>>,
    /// Receive modes (default: as `[measure]`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive: Option<Vec<String>>,
    /// Scheduling policies (default: as `[measure]`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Vec<String>>,
    /// CPUs of both ends (default: as `[measure]`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Vec<String>>,
    /// Message sizes in bytes; a text is a size list, such as `"1-8,64-1024x2"`, or `"default"` for the protocol's own
    /// (default `[32]`, for `stream` 1472 over udp and 131072 over tcp).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Sizes>,
    /// Rates of `pace` in messages a second, each a number or a rate list (`"20k"`, `"10k-40k+10k"`); the other probes of
    /// the grid have none (default `[10000]`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rates>,
    /// For `pace`: how many of `roles.reflectors` take part, from the first on (default: all).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reflectors: Option<Vec<u32>>,
    /// Names from `[stacks]`, or `kernel` (default `["kernel"]`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<Vec<String>>,
    /// Shields: `off`, `affinity` (once and again every task's affinity, as the papers' cpuguard), `v1`, `v2` (control
    /// groups), `isolcpus` (when booted so), `auto` (default: as `[measure]`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shield: Option<Vec<String>>,
    /// Settings: `none`, a name from `[knobs]`, or `KEY=VALUE[;KEY=VALUE…]` as for `windhover tune` (default: as `[measure]`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub knob: Option<Vec<String>>,
}

impl Plan {
    /// Reads a plan and checks everything that needs no host.
    ///
    /// # Errors
    /// [`ModelError`], naming file, line, key and remedy on one line.
    pub fn parse(what: &str, text: &str) -> Result<Self, ModelError> {
        let plan: Self = toml::from_str(text).map_err(|error| blame::parsing(what, text, &error))?;
        plan.check().map_err(|error| blame::checking(what, text, &error))?;
        Ok(plan)
    }

    /// The plan as text that [`Self::parse`] reads, for plans that a program made.
    ///
    /// # Errors
    /// [`ModelError::Document`] for a value that has no form in TOML.
    pub fn to_text(&self) -> Result<String, ModelError> {
        toml::to_string(self).map_err(|error| ModelError::Document {
            what: format!("plan {}", self.name),
            why: error.to_string().replace('\n', " "),
        })
    }

    fn check(&self) -> Result<(), ModelError> {
        let conflict = |what: String, remedy: &str| Err(ModelError::Conflict { what, remedy: remedy.to_owned() });
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.name.is_empty() || !self.name.chars().all(plain) || self.name.starts_with('.') {
            return conflict(format!("plan name '{}'", self.name), "use letters, digits, '-', '_' and '.'");
        }
        if self.repetitions == 0 {
            return conflict("repetitions = 0 measures nothing".to_owned(), "use 1 or more");
        }
        if self.grid.is_empty() {
            return conflict("the plan has no [[grid]]".to_owned(), "add one with at least one axis");
        }
        match (&self.lab, self.hosts.is_empty()) {
            (Some(_), false) => {
                return conflict("the plan has both [lab] and [hosts]".to_owned(), "keep one of them");
            }
            (None, true) => {
                return conflict("the plan has neither [lab] nor [hosts]".to_owned(), "add [lab] kind = \"netns\"");
            }
            _ => {}
        }
        if let Some(lab) = &self.lab {
            if !(1..=26).contains(&lab.hosts) {
                return conflict(format!("lab.hosts = {}", lab.hosts), "use 1 to 26");
            }
            if !lab.ports.is_empty() && lab.ports.len() != lab.hosts as usize {
                return conflict(
                    format!("lab.ports names {} ports for {} hosts", lab.ports.len(), lab.hosts),
                    "give each host one port",
                );
            }
        }
        let known = self.host_names();
        let cells = self.cells()?;
        let pgm = cells.iter().any(|cell| cell.spec.socket.protocol == crate::Protocol::Pgm);
        self.check_pace_keys(cells.iter().any(|cell| cell.spec.probe == Probe::Pace), pgm)?;
        self.check_stream_keys(cells.iter().any(|cell| cell.spec.probe == Probe::Stream))?;
        if self.roles.reflectors.is_empty() && cells.iter().any(|cell| cell.needs_reflector()) {
            return conflict("the plan has no reflector".to_owned(), "set roles.reflectors = [\"b\"]");
        }
        if self.roles.reflectors.len() > 1
            && let Some(cell) = cells.iter().find(|cell| cell.spec.probe != Probe::Pace)
        {
            return conflict(
                format!("roles.reflectors names {} hosts for {}", self.roles.reflectors.len(), cell.spec.probe),
                "name one reflector, or measure with pace alone",
            );
        }
        let mut roles = BTreeSet::new();
        if let Some(host) = self.roles.reflectors.iter().find(|host| !roles.insert(*host)) {
            return conflict(format!("roles.reflectors names '{host}' twice"), "name each host once");
        }
        for host in std::iter::once(&self.roles.initiator).chain(&self.roles.reflectors) {
            if !known.contains(host) {
                return conflict(format!("host '{host}' is not known"), &format!("use one of: {}", known.join(", ")));
            }
        }
        Ok(())
    }

    /// The names of all hosts: those of the lab (`a`, `b` …; both ends of a loopback lab are one machine) or of `[hosts]`.
    #[must_use]
    pub fn host_names(&self) -> Vec<String> {
        match &self.lab {
            Some(lab) => ('a'..='z').take(lab.hosts.min(26) as usize).map(String::from).collect(),
            None => self.hosts.keys().cloned().collect(),
        }
    }
}
