//! Flags of `serve`, `load`, `complete` and `generate`.

use super::shared::{PlainForm, seconds};
use clap::Args;
use clap::builder::RangedI64ValueParser;
use model::{CpuList, Limits, LoadProfile, LoadSpec, PeerProgram};
use std::path::PathBuf;

/// Run an endpoint that sends messages back
///
/// SIGINT, SIGTERM and SIGHUP end it in order: its sessions are told, the file of --pid-file is removed, the exit code is 0. A second
/// signal ends it at once. A process of --daemon is in a session of its own, so that the end of the terminal is no signal to it.
///
/// Exit codes: 0 ended by a signal, by --once, or detached by --daemon; 1 it cannot listen (the port or the file of --pid-file is in
/// use) or cannot go on;
/// 2 usage, an address that is not this host's, or a key that is missing or no key.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Address to listen on; anything but loopback or a lab address needs a key
    #[arg(long, value_name = "ADDR[:PORT]", default_value = "127.0.0.1")]
    pub(crate) bind: String,
    /// File with the shared key (see `windhover key`)
    #[arg(long, value_name = "FILE", env = "WINDHOVER_KEY_FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Answer the stock clients of another tool instead, over UDP and TCP on its port: sockperf
    #[arg(long = "as", value_name = "PROGRAM", value_parser = other_tool, conflicts_with_all = OF_OWN)]
    pub(crate) program: Option<PeerProgram>,
    /// With --as: listen also where others can reach it. Clients of other tools prove no key
    #[arg(long, requires = "program")]
    pub(crate) open: bool,
    /// End after the first client, when no session of it has run for a second, as iperf3 -1 does
    #[arg(long, help_heading = PROCESS)]
    pub(crate) once: bool,
    /// Go on in the background once it listens: 0 says that it does. What goes wrong until then is printed here
    #[arg(long, help_heading = PROCESS)]
    pub(crate) daemon: bool,
    /// Write the process id to this file once it listens; it is removed at the end. The file of a server that runs is refused
    #[arg(long, value_name = "FILE", help_heading = PROCESS)]
    pub(crate) pid_file: Option<PathBuf>,
    /// Append the messages of --daemon to this file [default: they are discarded]
    #[arg(long, value_name = "FILE", requires = "daemon", help_heading = PROCESS)]
    pub(crate) log: Option<PathBuf>,
    /// The process that --daemon leaves behind
    #[arg(long, hide = true, requires = "daemon")]
    pub(crate) detached: bool,
    /// Largest message in bytes
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().max_size, value_parser = at_least_one(), help_heading = LIMITS)]
    pub(crate) max_size: u32,
    /// Longest session in seconds
    #[arg(long, value_name = "S", default_value_t = Limits::default().max_session_s, value_parser = at_least_one(), help_heading = LIMITS)]
    pub(crate) max_session: u32,
    /// Sessions at once
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_sessions, value_parser = at_least_one(), help_heading = LIMITS)]
    pub(crate) max_sessions: u32,
    /// Messages a second answered in one session
    #[arg(long, value_name = "PPS", default_value_t = Limits::default().max_rate_pps, value_parser = at_least_one(), help_heading = LIMITS)]
    pub(crate) max_rate: u32,
    /// Payload bits a second that a session's stream may carry in each direction, such as 100M; 0: no streams [default: 1G
    /// of udp to the client, which nothing else holds back, and no limit otherwise]
    #[arg(long, value_name = "BITS", value_parser = super::stream::bits_or_none, help_heading = LIMITS)]
    pub(crate) max_bandwidth: Option<u64>,
    /// Highest real-time priority; the kernel's threaded interrupts have 50
    #[arg(long, value_name = "PRIORITY", default_value_t = Limits::default().max_priority, value_parser = clap::value_parser!(u8).range(1..=99), help_heading = LIMITS)]
    pub(crate) max_priority: u8,
    /// Refuse real-time policies
    #[arg(long, help_heading = LIMITS)]
    pub(crate) no_real_time: bool,
    /// Refuse spinning
    #[arg(long, help_heading = LIMITS)]
    pub(crate) no_spin: bool,
    /// Refuse to be pinned to a CPU
    #[arg(long, help_heading = LIMITS)]
    pub(crate) no_cpu: bool,
    /// Let clients with the key use another address for data than for the control connection
    #[arg(long, help_heading = LIMITS)]
    pub(crate) allow_other_addresses: bool,
    /// Explain why messages were late here, for clients that ask: kernel events need CAP_BPF and CAP_PERFMON
    #[arg(long, help_heading = LIMITS)]
    pub(crate) explain: bool,
    /// Tell those clients the names of programs of others
    #[arg(long, requires = "explain", help_heading = LIMITS)]
    pub(crate) explain_names: bool,
}

/// A program whose clients are answered by a server of its own.
fn other_tool(text: &str) -> Result<PeerProgram, String> {
    match text.parse::<PeerProgram>() {
        Ok(program) if !program.is_own() => Ok(program),
        _ => Err("use sockperf, or leave --as out".to_owned()),
    }
}

/// A limit of none would refuse every client.
fn at_least_one() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..)
}

/// What only Windhover's own clients are told or limited by.
const OF_OWN: [&str; 13] = [
    "once",
    "max_size",
    "max_session",
    "max_sessions",
    "max_rate",
    "max_bandwidth",
    "max_priority",
    "no_real_time",
    "no_spin",
    "no_cpu",
    "allow_other_addresses",
    "explain",
    "explain_names",
];

const PROCESS: &str = "Process";

pub(super) const LIMITS: &str = "Limits (reported to clients)";

impl Serve {
    pub(crate) fn limits(&self) -> Limits {
        let defaults = Limits::default();
        Limits {
            max_size: self.max_size,
            max_session_s: self.max_session,
            max_sessions: self.max_sessions,
            max_rate_pps: self.max_rate,
            max_bandwidth_bps: self.max_bandwidth,
            // A limit of the owner's own is the limit.
            max_sent_bps: if self.max_bandwidth.is_some() { None } else { defaults.max_sent_bps },
            max_priority: self.max_priority,
            allow_real_time: !self.no_real_time,
            allow_cpu: !self.no_cpu,
            allow_spin: !self.no_spin,
            allow_other_addresses: self.allow_other_addresses,
            allow_explain: self.explain,
            explain_names: self.explain_names,
            ..defaults
        }
    }
}

/// `windhover load`
#[derive(Debug, Args)]
pub(crate) struct LoadCommand {
    /// What it does: build, cpu, memory, disk, net, context
    pub(crate) profile: LoadProfile,
    /// Run so long; without it, until interrupted
    #[arg(long, short = 't', value_name = "S", value_parser = seconds)]
    pub(crate) seconds: Option<std::time::Duration>,
    /// Parallel jobs [default: 11 for build, else one a CPU]
    #[arg(long, short, value_name = "N")]
    pub(crate) jobs: Option<u32>,
    /// CPUs it may use, such as 0,2-5
    #[arg(long, value_name = "LIST", alias = "cpu")]
    pub(crate) cpus: Option<CpuList>,
    /// build: run this command in a loop instead of the built-in tree
    #[arg(long, value_name = "COMMAND")]
    pub(crate) command: Option<String>,
    /// Folder for the command, or for temporary files
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) form: PlainForm,
}

impl LoadCommand {
    pub(crate) fn spec(&self) -> LoadSpec {
        LoadSpec {
            profile: self.profile,
            jobs: self.jobs,
            cpus: self.cpus.clone(),
            command: self.command.clone(),
            directory: self.directory.clone(),
        }
    }
}

/// `windhover complete`
#[derive(Debug, Args)]
pub(crate) struct Complete {
    /// The words behind the program's name, as far as they are typed
    #[arg(last = true)]
    pub(crate) words: Vec<String>,
}

/// `windhover generate`
#[derive(Debug, Args)]
pub(crate) struct Generate {
    /// Folder to write to
    pub(crate) folder: PathBuf,
}
