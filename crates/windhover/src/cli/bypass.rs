//! Flags of `bypass`.

use super::shared::PlainForm;
use clap::{Args, Subcommand, ValueEnum};
use model::Policy;
use std::ffi::OsString;
use std::path::PathBuf;

/// The variable of `--interface`; the others of its beginning override settings of the profile.
pub(crate) const INTERFACE: &str = "WINDHOVER_BYPASS_INTERFACE";

#[derive(Debug, Args)]
pub(crate) struct Bypass {
    #[command(subcommand)]
    pub(crate) command: BypassCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BypassCommand {
    /// Start an unmodified program on another network stack: its calls spin before they sleep, or its own process carries UDP and TCP
    #[command(
        after_help = "Exit code: the program's own; 128 + N when signal N ended it; 125 when windhover failed, or with --require when \
                      the program or a socket of it cannot be accelerated; 126 when the program cannot be run, 127 when it is \
                      not found (as env(1)). If the program ended with 0 but its --capture failed: 125.\n\nWINDHOVER_BYPASS_RECV_US=N and the like override single settings: see `windhover bypass \
                      profiles`."
    )]
    Run(Run),
    /// Measure every way past the kernel's network stack that an interface allows, and recommend one
    #[command(
        after_help = "Each round measures all ways for a short time, in another order: UDP sockets of the kernel that block and that spin, bare \
                      frames through each back-end (see `windhover pingpong frame`), and shared memory. Needs root.\n\nWithout \
                      --to, veth and lo are measured on a veth pair between two network namespaces made for it; of any other \
                      interface only which back-ends open is shown.\n\nExit code: 0; 4 when too few rounds of blocking UDP can be trusted."
    )]
    Probe(Probe),
    /// Write the packets of a running program on --stack xdp to a pcapng file, because tcpdump does not see them
    #[command(
        after_help = "Packets are those of accelerated sockets; the kernel's are seen by tcpdump. It ends with the program, with \
                      --count or --seconds, or at a signal. `windhover dump --all FILE` and tcpdump -r read the file.\n\nExit code: 0, \
                      also when ended by a signal; 130 when a signal came before the program began the capture."
    )]
    Capture(Capture),
    /// List the profiles, or show what each setting of one does
    Profiles {
        /// A built-in profile, or a file that ends in .toml
        name: Option<String>,
        #[command(flatten)]
        form: PlainForm,
    },
    /// Show the sockets of running programs, what carries them, and how their calls waited
    Stat {
        /// Process id or name of a program [default: all]
        #[arg(value_name = "PID|PROGRAM")]
        program: Option<String>,
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
    #[arg(long, env = INTERFACE, value_name = "IF")]
    pub(crate) interface: Option<String>,
    /// With --stack xdp: how frames get past the kernel [default: the first that opens]
    #[arg(long, value_enum, value_name = "BACKEND")]
    pub(crate) backend: Option<Backend>,
    /// How long calls spin, and other settings: latency, latency-best, safe, or a file that ends in .toml
    #[arg(long, short = 'p', default_value = "latency", value_name = "PROFILE")]
    pub(crate) profile: String,
    /// Do not run the program, or end it, where it or a socket of it cannot be accelerated
    #[arg(long)]
    pub(crate) require: bool,
    /// Count the network calls that reach the kernel past the library, and say at the end what was not accelerated and why
    #[arg(long)]
    pub(crate) audit: bool,
    /// With --stack xdp: write the packets of accelerated sockets to FILE as pcapng, from the first one on
    #[arg(long, value_name = "FILE")]
    pub(crate) capture: Option<PathBuf>,
    /// Print every setting with its value and where that comes from
    #[arg(long, short = 'v')]
    pub(crate) verbose: bool,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Capture {
    /// Process id or name of the program [default: the only one on --stack xdp]
    #[arg(value_name = "PID|PROGRAM")]
    pub(crate) program: Option<String>,
    /// The file; what it held is gone. `-`: standard output
    #[arg(long = "write", short = 'w', value_name = "FILE", default_value = "-")]
    pub(crate) file: PathBuf,
    /// Stop after so many packets
    #[arg(long, short = 'c', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Stop so long after the start
    #[arg(long, short = 't', value_name = "S", value_parser = super::dump::seconds)]
    pub(crate) seconds: Option<f64>,
    /// Bytes kept of each packet
    #[arg(long, short = 's', value_name = "BYTES", default_value_t = WHOLE, value_parser = clap::value_parser!(u32).range(14..=i64::from(WHOLE)))]
    pub(crate) snap: u32,
    /// Memory between the program and this command in MiB, a power of two: what finds no room is counted as dropped
    #[arg(long, value_name = "MIB", default_value_t = BUFFER, value_parser = mib)]
    pub(crate) buffer: u32,
}

/// More than the longest frame.
pub(crate) const WHOLE: u32 = 65_600;
/// MiB between a program and its capture.
pub(crate) const BUFFER: u32 = 16;

fn mib(text: &str) -> Result<u32, String> {
    let mib = text.parse::<u32>().map_err(|error| error.to_string())?;
    if mib.is_power_of_two() && mib <= 1024 { Ok(mib) } else { Err("use a power of two up to 1024".to_owned()) }
}

#[derive(Debug, Args)]
pub(crate) struct Probe {
    /// The network interface
    #[arg(value_name = "IF")]
    pub(crate) interface: String,
    /// A `windhover serve`, started as root, on a host behind the interface
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) to: Option<String>,
    /// File with that endpoint's key (see `windhover key`)
    #[arg(long, value_name = "FILE", env = "WINDHOVER_KEY_FILE", requires = "to")]
    pub(crate) key_file: Option<PathBuf>,
    /// No round begins later than so many seconds; at least three rounds are measured
    #[arg(long, short = 't', value_name = "N", default_value_t = 12.0, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Message size in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 32)]
    pub(crate) size: u32,
    /// CPU of this end [default: with --to any, else the first one allowed]
    #[arg(long, value_name = "N")]
    pub(crate) cpu: Option<u32>,
    /// CPU of the far end [default: with --to any, else the second one allowed]
    #[arg(long, value_name = "N")]
    pub(crate) remote_cpu: Option<u32>,
    /// Scheduling policy of both ends: other, fifo:N, rr:N
    #[arg(long, default_value = "other")]
    pub(crate) policy: Policy,
    #[command(flatten)]
    pub(crate) form: PlainForm,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().map_err(|error| error.to_string())?;
    if (0.0..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("use 0 to 3600".to_owned()) }
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
    /// AF_PACKET: every interface, needs CAP_NET_RAW, and CAP_NET_ADMIN for TCP on some kernels (`no-filter`)
    Packet,
}
