//! Benchmarks. None of them is a test: they print figures for docs/benchmarks.md and judge nothing by absolute times.

mod capture;
mod lab;
mod late;
mod pace;
mod peers;
mod pgm;
mod pgm_sim;
mod raw;
mod render;
mod shield;
mod startup;
mod stream;

use anyhow::Result;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(clap::Subcommand)]
enum Bench {
    /// Ping-pong beside sockperf and, where they are on the PATH, sfnt-pingpong and netperf, interleaved on one lab.
    Peers {
        /// Rounds; in each every tool measures once, in an order that rotates.
        #[arg(long, default_value_t = 20)]
        rounds: u32,
        /// Seconds a measurement.
        #[arg(long, default_value_t = 1)]
        seconds: u32,
        /// Only this protocol: tcp or udp.
        #[arg(long)]
        protocol: Option<String>,
        /// Write the table to this Markdown file too.
        #[arg(long)]
        output: Option<std::path::PathBuf>,
    },
    /// What a shield is worth: p99.99 and standard deviation without and with it, and the stalls by throttling.
    Shield {
        /// The campaign.
        #[arg(long, default_value = "campaigns/shield.toml")]
        plan: String,
        /// Evaluate this run directory instead of measuring.
        #[arg(long, value_name = "RUN")]
        measured: Option<std::path::PathBuf>,
        /// Write the tables to this Markdown file too.
        #[arg(long)]
        output: Option<std::path::PathBuf>,
    },
    /// What `--pcap` costs the ping-pong beside it, paired.
    Capture {
        /// Pairs.
        #[arg(long, default_value_t = 20)]
        rounds: u32,
        /// Seconds a measurement.
        #[arg(long, default_value_t = 1)]
        seconds: u32,
    },
    /// How long a report of one hour at 40,000 messages a second takes, and how large it is.
    Render {
        /// Length of the synthetic run in seconds.
        #[arg(long, default_value_t = 3600)]
        seconds: u32,
        /// How often each figure is made.
        #[arg(long, default_value_t = 5)]
        rounds: u32,
        /// Cells of the run, up to 8.
        #[arg(long, default_value_t = 1)]
        cells: u32,
        /// Render this run directory instead of a synthetic one.
        #[arg(long, value_name = "RUN")]
        measured: Option<std::path::PathBuf>,
        /// Write the table to this Markdown file too.
        #[arg(long)]
        output: Option<std::path::PathBuf>,
    },
    /// The four rates of the heat maps: whether they are reached, what is lost, how late messages leave.
    Pace {
        /// Rounds; in each every rate is measured once, in an order that rotates.
        #[arg(long, default_value_t = 3)]
        rounds: u32,
        /// Seconds a measurement.
        #[arg(long, default_value_t = 10)]
        seconds: u32,
        /// Policy of both ends.
        #[arg(long, default_value = "fifo:50")]
        policy: String,
        /// Write the table to this Markdown file too.
        #[arg(long)]
        output: Option<std::path::PathBuf>,
    },
    /// Cause of late messages of `pace`: with and without a CPU hog and a compiler, and with a stalled reflector.
    Late {
        /// Runs of each case, interleaved.
        #[arg(long, default_value_t = 20)]
        runs: u32,
        /// Seconds a run.
        #[arg(long, default_value_t = 2)]
        seconds: u32,
        /// Measure with this binary instead of a release build.
        #[arg(long)]
        binary: Option<std::path::PathBuf>,
        /// Write the table to this Markdown file too, after each round.
        #[arg(long)]
        output: Option<std::path::PathBuf>,
    },
    /// Maximum UDP datagrams a second and TCP throughput beside iperf3, iperf 2 and sockperf, interleaved on one lab.
    Stream {
        /// Rounds; in each every tool measures once, in an order that rotates.
        #[arg(long, default_value_t = 20)]
        rounds: u32,
        /// Seconds a measurement.
        #[arg(long, default_value_t = 2)]
        seconds: u32,
        /// Only this protocol: tcp or udp.
        #[arg(long)]
        protocol: Option<String>,
        /// Write the table to this Markdown file too.
        #[arg(long)]
        output: Option<std::path::PathBuf>,
    },
    /// `pace pgm` beside OpenPGM at both ends: RTT at the four rates, CPU time, highest rate, repairs; interleaved.
    Pgm {
        /// Rounds; in each both measure once.
        #[arg(long, default_value_t = 12)]
        rounds: u32,
        /// Seconds a measurement. Short ones are all chance where the machine is slow for a moment every few seconds.
        #[arg(long, default_value_t = 8)]
        seconds: u32,
        /// What carries the packets: udp or raw (IP protocol 113).
        #[arg(long, default_value = "udp")]
        carrier: String,
        /// Write the table to this Markdown file too.
        #[arg(long)]
        output: Option<std::path::PathBuf>,
    },
    /// Packets a second that PGM's simulator carries: what the engines cost without sockets.
    PgmSim {
        /// Seconds a setting.
        #[arg(long, default_value_t = 3)]
        seconds: u32,
        /// Write the table to this Markdown file too.
        #[arg(long)]
        output: Option<std::path::PathBuf>,
    },
    /// What recording one sample costs.
    Record,
    /// From the start of the process to the first message.
    Startup {
        /// How often.
        #[arg(long, default_value_t = 20)]
        rounds: u32,
    },
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.bench {
        Bench::Peers { rounds, seconds, protocol, output } => {
            peers::run(*rounds, *seconds, protocol.as_deref(), output.as_deref())
        }
        Bench::Pace { rounds, seconds, policy, output } => pace::run(*rounds, *seconds, policy, output.as_deref()),
        Bench::Late { runs, seconds, binary, output } => {
            late::run(*runs, *seconds, binary.as_deref(), output.as_deref())
        }
        Bench::Shield { plan, measured, output } => shield::run(plan, measured.as_deref(), output.as_deref()),
        Bench::Capture { rounds, seconds } => capture::run(*rounds, *seconds),
        Bench::Stream { rounds, seconds, protocol, output } => {
            stream::run(*rounds, *seconds, protocol.as_deref(), output.as_deref())
        }
        Bench::Pgm { rounds, seconds, carrier, output } => {
            pgm::run(&pgm::Options { rounds: *rounds, seconds: *seconds, carrier, output: output.as_deref() })
        }
        Bench::Record => crate::process::run(
            &crate::process::cargo(),
            &["run", "--release", "--locked", "--package", "windhover-record", "--example", "ingest_cost"],
        ),
        Bench::Render { seconds, rounds, cells, measured, output } => {
            render::run(*seconds, *rounds, *cells, measured.as_deref(), output.as_deref())
        }
        Bench::PgmSim { seconds, output } => pgm_sim::run(*seconds, output.as_deref()),
        Bench::Startup { rounds } => startup::run(*rounds),
    }
}
