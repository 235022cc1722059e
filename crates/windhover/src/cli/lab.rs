//! Flags of `lab`.

use super::shared::{Choice, PlainForm};
use clap::{Args, Subcommand};
use model::plan::LabKind;

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
    /// Run a command on a host of a lab; its exit status is passed on
    Exec {
        /// Host as NAME (of the lab called `lab`) or LAB/NAME
        host: String,
        /// The command
        #[arg(trailing_var_arg = true, required = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
}
