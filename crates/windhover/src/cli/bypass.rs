//! Flags of `bypass`.

use super::shared::PlainForm;
use clap::{Args, Subcommand, ValueEnum};
use std::ffi::OsString;

/// `windhover bypass`
#[derive(Debug, Args)]
pub(crate) struct Bypass {
    #[command(subcommand)]
    pub(crate) command: BypassCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BypassCommand {
    /// Start an unmodified program whose network calls spin before they sleep
    #[command(
        after_help = "Exit code: the program's own; 128 + N when signal N ended it; 125 when windhover failed, or with --require when \
                      the program or a socket of it cannot be accelerated; 126 when the program cannot be run, 127 when it is \
                      not found (as env(1)).\n\nWINDHOVER_BYPASS_RECV_US=N and the like override single settings: see `windhover bypass \
                      profiles`."
    )]
    Run(Run),
    /// List the profiles, or show what each setting of one does
    Profiles {
        /// A built-in profile, or a file that ends in .toml
        name: Option<String>,
        #[command(flatten)]
        form: PlainForm,
    },
    /// Show the sockets of running programs, and how their calls waited
    Stat {
        /// Only this process
        pid: Option<u32>,
        #[command(flatten)]
        form: PlainForm,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// What carries the program's packets
    #[arg(long, value_enum, default_value_t = Stack::Spin, value_name = "STACK")]
    pub(crate) stack: Stack,
    /// With --stack xdp: the network interface [default: the only one that is up, or that of the default route]
    #[arg(long, env = "WINDHOVER_BYPASS_INTERFACE", value_name = "IF")]
    pub(crate) interface: Option<String>,
    /// With --stack xdp: how frames get past the kernel [default: the first that opens]
    #[arg(long, value_enum, value_name = "BACKEND")]
    pub(crate) backend: Option<Backend>,
    /// How long calls spin: latency, latency-best, safe, or a file that ends in .toml
    #[arg(long, short = 'p', default_value = "latency", value_name = "PROFILE")]
    pub(crate) profile: String,
    /// Do not run the program, or end it, where it or a socket of it cannot be accelerated
    #[arg(long)]
    pub(crate) require: bool,
    /// Print every setting with its value and where that comes from
    #[arg(long, short = 'v')]
    pub(crate) verbose: bool,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stack {
    /// The kernel's sockets; blocking calls spin before they sleep
    Spin,
    /// UDP and TCP in the program's process, past the kernel: needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF
    Xdp,
    /// xdp where the interface can be opened, else spin
    Auto,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// AF_XDP, without copies: needs the driver's support
    ZeroCopy,
    /// AF_XDP in the driver
    Native,
    /// AF_XDP behind the driver: every interface
    Generic,
    /// AF_PACKET: every interface, needs CAP_NET_RAW only
    Packet,
}
