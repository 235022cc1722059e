//! Flags of `lab`.

use super::shared::{Choice, PlainForm, one_of};
use clap::{Args, Subcommand};
use model::plan::{GuestMode, GuestNic, LabKind};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Lab {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Debug, Args)]
pub(crate) struct Agent {
    /// Fingerprint of the program outside, when this is a guest: its file is another one here
    #[arg(long, hide = true)]
    pub(crate) build: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct GuestInit {
    /// How many hosts to make
    #[arg(long, default_value_t = 0)]
    pub(crate) hosts: u32,
    /// Which one is the first, from 0
    #[arg(long, default_value_t = 0)]
    pub(crate) first: u32,
    /// The network devices that they get
    #[arg(long, value_delimiter = ',')]
    pub(crate) ports: Vec<String>,
}

pub(crate) const LAB_KINDS: [Choice<LabKind>; 2] = [
    (LabKind::Netns, "netns", "Network namespaces joined by a veth pair or a bridge; needs root"),
    (LabKind::Loopback, "loopback", "This host talking to itself"),
];

/// What a virtual machine is.
#[derive(Debug, Clone, Args, PartialEq, Eq, Default)]
pub(crate) struct GuestArgs {
    /// Add a word to the kernel's command line; may be repeated
    #[arg(long = "word", value_name = "WORD")]
    pub(crate) words: Vec<String>,
    /// How the CPUs of a virtual machine run [default: icount]
    #[arg(long, value_parser = one_of(&GUEST_MODES), value_name = "MODE")]
    pub(crate) mode: Option<GuestMode>,
    /// CPUs of a virtual machine [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) cpus: Option<u32>,
    /// Memory of a virtual machine in MB [default: 768]
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u32).range(256..))]
    pub(crate) memory_mb: Option<u32>,
    /// Network device of each host; without hosts, two are in the first network namespace [default: veth]
    #[arg(long, value_parser = one_of(&GUEST_NICS), value_name = "NIC")]
    pub(crate) nic: Option<GuestNic>,
    /// Load this module of the kernel; may be repeated
    #[arg(long = "module", value_name = "NAME")]
    pub(crate) modules: Vec<String>,
    /// Add the files of this archive (cpio newc)
    #[arg(long, value_name = "FILE")]
    pub(crate) overlay: Option<PathBuf>,
    /// Hand this argument to QEMU; may be repeated
    #[arg(long = "qemu", value_name = "ARG", allow_hyphen_values = true)]
    pub(crate) devices: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Name of the lab
    #[arg(default_value = "lab")]
    pub(crate) name: String,
    /// How many hosts [default: 2]
    #[arg(long, value_name = "N")]
    pub(crate) hosts: Option<u32>,
    /// Move these real ports into the hosts instead of making a veth pair: a cable between two ports is then used
    #[arg(long, value_name = "PORT,PORT", value_delimiter = ',', conflicts_with = "guests")]
    pub(crate) ports: Vec<String>,
    /// Boot this kernel, as lab boot does, and make the hosts in it; no root is needed. Words behind it join its command line.
    /// Twice: two virtual machines on a wire, each with one host
    #[arg(long = "guest", value_name = "KERNEL")]
    pub(crate) guests: Vec<String>,
    #[command(flatten)]
    pub(crate) guest: GuestArgs,
    /// Stay, and say on standard output when it is up: the process that holds guests
    #[arg(long, hide = true, requires = "guests")]
    pub(crate) hold: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LabChoice {
    Kind(LabKind),
    Named(String),
}

pub(crate) fn lab_choice(text: &str) -> Result<LabChoice, String> {
    match LAB_KINDS.iter().find(|(_, word, _)| *word == text) {
        Some((kind, ..)) => Ok(LabChoice::Kind(*kind)),
        None => {
            lab::build::check_name(text).map(|()| LabChoice::Named(text.to_owned())).map_err(|error| error.to_string())
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Boot {
    /// debian-6.1, debian-6.1-rt, debian-6.12, debian-6.12-rt (fetched once by apt, not installed), or the path of a
    /// vmlinuz-RELEASE; words behind it join its command line
    pub(crate) kernel: String,
    #[command(flatten)]
    pub(crate) guest: GuestArgs,
    /// Hosts (network namespaces) to make in it
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=26))]
    pub(crate) hosts: u32,
    /// Run the command on this host, not in the first network namespace
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
    /// Switch it off when the command takes longer, in seconds of this machine
    #[arg(long, value_name = "S")]
    pub(crate) limit: Option<u64>,
    /// Write what the kernel prints to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) console: Option<PathBuf>,
    /// The command [default: none; the guest is booted and switched off]
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

pub(crate) const GUEST_MODES: [Choice<GuestMode>; 3] = [
    (GuestMode::Icount, "icount", "Emulated, 2 ns an instruction, one CPU: simulated times, which repeat"),
    (GuestMode::Kvm, "kvm", "On this machine's CPUs by /dev/kvm"),
    (GuestMode::Tcg, "tcg", "Emulated: for function, its times mean nothing"),
];

pub(crate) const GUEST_NICS: [Choice<GuestNic>; 3] = [
    (GuestNic::Veth, "veth", "A virtual device of the kernel"),
    (
        GuestNic::Igb,
        "igb",
        "Emulated Intel 82576: MSI-X, interrupt moderation, PTP clock; an older QEMU is left aside for a fetched one",
    ),
    (GuestNic::E1000e, "e1000e", "Emulated Intel 82574L: MSI-X, interrupt moderation"),
];

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Make a lab that stays until `lab down`
    ///
    /// Its hosts are network namespaces of this machine, or of a virtual machine with a kernel of its own (--guest).
    Up(Box<Up>),
    /// Remove a lab; programs that still run in it lose their network and are named. Virtual machines are switched off
    Down {
        /// Name of the lab
        #[arg(default_value = "lab")]
        name: String,
        /// Remove the labs whose owner is gone
        #[arg(long, conflicts_with = "all")]
        stale: bool,
        /// Remove all labs, as the removal of the package does
        #[arg(long)]
        all: bool,
    },
    /// List labs, their hosts and addresses
    List {
        #[command(flatten)]
        form: PlainForm,
    },
    /// Boot a kernel in a virtual machine and run a command in it; its exit status is passed on
    ///
    /// The command sees a machine of its own: this program, ip and ethtool, and what --overlay adds. It has no standard input.
    /// No root is needed.
    Boot(Box<Boot>),
    /// Run a command on a host of a lab; its exit status is passed on
    ///
    /// In a virtual machine there are this program, ip and ethtool, and a command has no standard input.
    Exec {
        /// Host as NAME (of the lab called `lab`) or LAB/NAME
        host: String,
        /// The command
        #[arg(trailing_var_arg = true, required = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
}
