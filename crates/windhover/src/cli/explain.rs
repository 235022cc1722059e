//! Flags of `explain`.

use clap::Args;
use model::{ExplainOver, Policy};
use std::path::PathBuf;

/// Say why messages of a run were late: which causes, at which end, and what the tail would be without each
///
/// The run has to be measured with --explain, or with explain = true in its plan. docs/explaining.md says what the causes mean.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The run directory
    #[arg(value_name = "RUN", required_unless_present_any = ["self_test", "live"])]
    pub(crate) run: Option<PathBuf>,
    /// Only this cell: a number of `windhover plot RUN --list`, or a part of a key that no other has
    #[arg(long, value_name = "CELL")]
    pub(crate) cell: Option<String>,
    /// Only the message with this number: its way through both ends, and what held it up
    #[arg(long, value_name = "SEQ")]
    pub(crate) message: Option<u64>,
    /// Write the kernel's events around the message, or around the worst messages, to a file: .json for Perfetto and chrome://tracing,
    /// .txt as trace-cmd prints them
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) export: Option<PathBuf>,
    /// With --export: replace the file
    #[arg(long, requires = "export")]
    pub(crate) force: bool,
    /// Print JSON: the causes and the worst messages of each cell
    #[arg(long)]
    pub(crate) json: bool,
    /// Make messages late on this host, in known ways and at known times, and count how many get the right cause; exit code 3 where
    /// too few do
    #[arg(long, conflicts_with_all = ["run", "cell", "message", "export", "json"])]
    pub(crate) self_test: bool,
    /// Late messages of each disturbance, end and load in the self-test: it goes on until it has so many
    #[arg(long, value_name = "N", conflicts_with_all = ["run", "live"], default_value_t = 200, value_parser = clap::value_parser!(u32).range(10..=500))]
    pub(crate) late: u32,
    /// Only the disturbances of the self-test whose row in its table contains this text, such as SIGSTOP or reflector
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["run", "live"])]
    pub(crate) only: Option<String>,
    /// Scheduling policy of the measured threads in the self-test
    #[arg(long, value_name = "POLICY", conflicts_with_all = ["run", "live"], default_value = "fifo:10")]
    pub(crate) policy: Policy,
    /// Follow a running program instead of a run: which of its messages waited after they had arrived, and for whom; a line a second,
    /// and the answer at the end
    #[arg(long, value_name = "PID|NAME", conflicts_with_all = ["run", "cell", "message", "export", "self_test"])]
    pub(crate) live: Option<String>,
    /// With --live: how long [default: until Ctrl-C, or until the program ends]
    #[arg(long, short = 't', value_name = "S", conflicts_with_all = ["run", "self_test"], value_parser = super::dump::seconds)]
    pub(crate) seconds: Option<f64>,
    /// With --live: which messages are late: those that wait longer than a time such as 100us, than the p99.9 so far, or (auto) than
    /// the p99 so far
    #[arg(long, value_name = "TIME", conflicts_with_all = ["run", "self_test"], default_value_t = ExplainOver::Auto)]
    pub(crate) over: ExplainOver,
}
