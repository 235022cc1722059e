//! What can go wrong when a lab is made, used or removed.

use std::path::PathBuf;

/// A step of a lab that failed.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A lab's name that cannot be part of a namespace's name.
    #[error("lab name '{0}' cannot be used: take 1 to 32 lower-case letters, digits and '-'")]
    Name(String),
    /// A number of hosts that a lab cannot have.
    #[error("a lab cannot have {given} hosts: use {accepted}")]
    Hosts {
        /// How many were asked for.
        given: u32,
        /// The accepted numbers, for people.
        accepted: &'static str,
    },
    /// Ports and hosts do not match.
    #[error("{ports} ports were named for {hosts} hosts: name one port for each host")]
    Ports {
        /// How many ports.
        ports: usize,
        /// How many hosts.
        hosts: u32,
    },
    /// A port that is not in the current network namespace.
    #[error("port '{0}' does not exist here: see `ip link` for the names")]
    NoPort(String),
    /// A port named twice.
    #[error("port '{0}' is named twice: name another port for each host")]
    SamePort(String),
    /// A port that no namespace but its own can have.
    #[error("port '{0}' cannot be moved into a namespace: name a network card's port")]
    PortFixed(String),
    /// A port that this host reaches others over. Routes would be lost with the move, so they are not put at risk.
    #[error("port '{port}' carries this host's route to {route}: name a port that nothing else needs")]
    PortInUse {
        /// Its name.
        port: String,
        /// Where the route leads: "default" or a network.
        route: String,
    },
    /// Not enough privileges.
    #[error(
        "network namespaces need root (CAP_NET_ADMIN and CAP_SYS_ADMIN): run as root; without it, `campaign run --lab \
         loopback` and `tune try --lab loopback` measure within this host"
    )]
    NotRoot,
    /// Nobody would take the lab down when this process is killed.
    #[error("the lab's keeper could not be started, so no lab was made: is the windhover program still where it was?")]
    NoKeeper,
    /// `ip` is not installed.
    #[error("the program 'ip' is missing: apt install iproute2")]
    NoIproute,
    /// The name is taken by a living lab.
    #[error("a lab named '{name}' exists ({owner}): use another name, or windhover lab down {name}")]
    Exists {
        /// The name.
        name: String,
        /// Who has it.
        owner: String,
    },
    /// A namespace of that name is there without a lab.
    #[error("network namespace '{0}' exists and belongs to no lab: remove it with ip netns delete {0}")]
    NamespaceExists(String),
    /// No lab of that name.
    #[error("there is no lab named '{0}': windhover lab list shows those that are up")]
    NoLab(String),
    /// No host of that name in the lab.
    #[error("lab '{lab}' has no host '{host}': it has {known}")]
    NoHost {
        /// The lab.
        lab: String,
        /// The host asked for.
        host: String,
        /// Those it has.
        known: String,
    },
    /// A command to run is missing.
    #[error("no command was given for host '{host}' of lab '{lab}': name one, as in -- ip address")]
    NoCommand {
        /// The lab.
        lab: String,
        /// The host.
        host: String,
    },
    /// All /24 networks of 198.18.0.0/15 are taken.
    #[error("all 512 networks of 198.18.0.0/15 are taken by labs: remove some with windhover lab down --stale")]
    NoSubnet,
    /// The registry cannot be read or written.
    #[error("registry of labs: cannot {step} {}: {cause}", path.display())]
    Registry {
        /// What was tried ("read").
        step: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        cause: std::io::Error,
    },
    /// A registry file that is not one.
    #[error(
        "{} does not describe a lab ({why}): windhover lab down {} sets it aside and removes the namespaces of that name",
        path.display(),
        path.file_stem().unwrap_or_default().display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The parser's words.
        why: String,
    },
    /// A lab was removed whose record could not be read.
    #[error(
        "the record of lab '{lab}' was damaged ({why}); removed: {removed}. Ports that the lab had borrowed have lost their \
         addresses; what is left of the record is {}: look there for ports, then remove it",
        kept.display()
    )]
    SetAside {
        /// The lab.
        lab: String,
        /// What was wrong with its record.
        why: String,
        /// Its namespaces, for people.
        removed: String,
        /// Where the record is now.
        kept: PathBuf,
    },
    /// `ip` refused a command.
    #[error("ip {command}: {why}")]
    Ip {
        /// The command that failed.
        command: String,
        /// What it said, on one line.
        why: String,
    },
    /// A program could not be started; the cause names it.
    #[error(transparent)]
    Program(Box<task::TaskError>),
    /// A program that started and was not what it should be.
    #[error("cannot start {program}: {why}")]
    Start {
        /// Its name.
        program: String,
        /// The cause.
        why: String,
    },
    /// A link did not come up.
    #[error("link {device} in namespace {netns} did not come up within {seconds} s: check the cable or its peer")]
    NoLink {
        /// The device.
        device: String,
        /// The namespace.
        netns: String,
        /// How long it was given.
        seconds: u64,
    },
    /// Something of a lab is still there after its removal.
    #[error("{what} of lab '{lab}' could not be removed: {why}")]
    Left {
        /// What is left.
        what: String,
        /// The lab.
        lab: String,
        /// The cause.
        why: String,
    },
}

impl From<task::TaskError> for LabError {
    fn from(error: task::TaskError) -> Self {
        Self::Program(Box::new(error))
    }
}

impl LabError {
    /// The design's exit code: 2 for what the caller can put right by asking otherwise, 1 for what failed on the way.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Registry { .. }
            | Self::Damaged { .. }
            | Self::SetAside { .. }
            | Self::Ip { .. }
            | Self::NoLink { .. }
            | Self::Left { .. } => 1,
            _ => 2,
        }
    }
}
