//! Flags of `lab`.

use super::shared::{Choice, PlainForm, one_of};
use clap::{Args, Subcommand};
use model::plan::{GuestMode, LabKind};
use std::path::PathBuf;

/// `windhover lab`
#[derive(Debug, Args)]
pub(crate) struct Lab {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

/// `windhover agent`
#[derive(Debug, Args)]
pub(crate) struct Agent {
    /// Fingerprint of the program outside, when this is a guest: its file is another one here
    #[arg(long, hide = true)]
    pub(crate) build: Option<String>,
}

/// `windhover guest-init`
#[derive(Debug, Args)]
pub(crate) struct GuestInit {
    /// How many hosts to make
    #[arg(long, default_value_t = 0)]
    pub(crate) hosts: u32,
}

/// Kinds of built-in labs.
pub(crate) const LAB_KINDS: [Choice<LabKind>; 2] = [
    (LabKind::Netns, "netns", "Network namespaces joined by a veth pair or a bridge; needs root"),
    (LabKind::Loopback, "loopback", "This host talking to itself"),
];

/// `windhover lab boot`
#[derive(Debug, Args)]
pub(crate) struct Boot {
    /// debian-6.1, debian-6.1-rt, debian-6.12, debian-6.12-rt (fetched once by apt, not installed), or the path of a
    /// vmlinuz-RELEASE
    pub(crate) kernel: String,
    /// Add a word to the kernel's command line; may be repeated
    #[arg(long = "word", value_name = "WORD")]
    pub(crate) words: Vec<String>,
    /// How its CPUs run
    #[arg(long, value_parser = one_of(&GUEST_MODES), value_name = "MODE", default_value = "icount")]
    pub(crate) mode: GuestMode,
    /// CPUs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) cpus: u32,
    /// Memory in MB
    #[arg(long, value_name = "MB", default_value_t = 768, value_parser = clap::value_parser!(u32).range(256..))]
    pub(crate) memory_mb: u32,
    /// Hosts (network namespaces) to make in it
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=26))]
    pub(crate) hosts: u32,
    /// Run the command on this host, not in the first network namespace
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
    /// Load this module of the kernel; may be repeated
    #[arg(long = "module", value_name = "NAME")]
    pub(crate) modules: Vec<String>,
    /// Add the files of this archive (cpio newc)
    #[arg(long, value_name = "FILE")]
    pub(crate) overlay: Option<PathBuf>,
    /// Hand this argument to QEMU; may be repeated
    #[arg(long = "qemu", value_name = "ARG", allow_hyphen_values = true)]
    pub(crate) devices: Vec<String>,
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

/// How a guest's CPUs run.
pub(crate) const GUEST_MODES: [Choice<GuestMode>; 3] = [
    (GuestMode::Icount, "icount", "Emulated, 2 ns an instruction, one CPU: simulated times, which repeat"),
    (GuestMode::Kvm, "kvm", "On this machine's CPUs by /dev/kvm"),
    (GuestMode::Tcg, "tcg", "Emulated: for function, its times mean nothing"),
];

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Make a lab that stays until `lab down`
    Up {
        /// Name of the lab
        #[arg(default_value = "lab")]
        name: String,
        /// How many hosts
        #[arg(long, value_name = "N", default_value_t = 2)]
        hosts: u32,
        /// Move these real ports into the hosts instead of making a veth pair: a cable between two ports is then used
        #[arg(long, value_name = "PORT,PORT", value_delimiter = ',')]
        ports: Vec<String>,
    },
    /// Remove a lab; programs that still run in it lose their network and are named
    Down {
        /// Name of the lab
        #[arg(default_value = "lab")]
        name: String,
        /// Remove the labs whose owner is gone
        #[arg(long)]
        stale: bool,
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
    Exec {
        /// Host as NAME (of the lab called `lab`) or LAB/NAME
        host: String,
        /// The command
        #[arg(trailing_var_arg = true, required = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
}
