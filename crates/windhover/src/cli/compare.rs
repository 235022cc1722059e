//! Flags of `compare`.

use super::shared::{Form, FormArgs, pair};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareFormat {
    /// Sentences and aligned tables
    #[value(alias = "table")]
    Text,
    /// All of it as one document
    Json,
    /// One row a figure
    Csv,
    /// Markdown
    Markdown,
}

impl Form for CompareFormat {
    const DEFAULT: &str = "text";
    const JSON: Self = Self::Json;
}

/// Compare runs, or cells of one run, with intervals and tests; gates for CI
///
/// Cells are matched on the factors that both sides share. A difference is reported where a permutation test,
/// corrected for everything that is compared, and a 95 % interval agree. Within one run the test is over repetitions;
/// between runs it is over runs, so take several a side: campaign run PLAN --repeat-runs 5.
#[derive(Debug, Args)]
#[command(after_help = "\
Gates: METRIC (>|<|>=|<=) LIMIT [@ FACTOR=VALUE]. A gate says what must not be; exit code 3
where it is, and 4 where too few runs or repetitions cannot decide.
  'p99 > +10%'               the second side's p99 is more than 10 % above the first's
  'p99.9 > +5us'             … more than 5 µs above
  'p99 > 50us @ load=build'  … above 50 µs, in the cells under load build
  'loss > 0.1%'              more than 0.1 % of the messages lost
  'transactions < -5%'       more than 5 % fewer transactions
Metrics: p50 p90 p99 p99.9 p99.99 p99.999 min max mean stdev, each also as intended.p99,
lateness.p99, out.p50 and back.p50 (one way; no p90), send., wire., far-kernel.,
far-application. and near-kernel.p50 (parts of the round trip) of pace, and working.p99
of stream; loss, achieved (pace), transactions (rr), bits (stream). Over PGM untouched.p50,
held.p50 and repaired.p50 (by what loss did to a message), repaired and held (shares),
naks and given-up (packets; for a million messages); with parity rebuilt (share of the
repairs) and parity (packets sent, as a share of the data packets). Only where asked for:
reorder-depth, initiator. and reflector.demand, .process, .machine and .softirq (CPU),
initiator. and reflector.us-per-kib, up. and down.rfc3550-jitter, .retransmits and .tcp-rtt
of stream, and all others of docs/generated/quantities.md that have a better direction.

  windhover compare runs/before-* --with runs/after-* --fail-if 'p99 > +10%'
  windhover compare before-20261121T214304Z after-20261122T021049Z
  windhover compare RUN --axis policy
  windhover compare RUN --where policy=other --where-b policy=fifo:50")]
pub(crate) struct Compare {
    /// The run directories of the first side, which changes are given from; without --with, A B are one run a side
    #[arg(value_name = "A", required = true)]
    pub(crate) runs: Vec<PathBuf>,
    /// The run directories of the second side; leave them out to compare cells of one run
    #[arg(long = "with", value_name = "B", num_args = 1..)]
    pub(crate) second: Vec<PathBuf>,
    /// Compare all values of this factor within one run, pairwise
    #[arg(long, value_name = "FACTOR", conflicts_with = "wheres_b")]
    pub(crate) axis: Option<String>,
    /// Only cells with this value, on both sides where --where-b does not say otherwise; may be repeated
    #[arg(long = "where", value_name = "FACTOR=VALUE", value_parser = pair)]
    pub(crate) wheres: Vec<(String, String)>,
    /// Only cells with this value on the second side; may be repeated
    #[arg(long = "where-b", value_name = "FACTOR=VALUE", value_parser = pair)]
    pub(crate) wheres_b: Vec<(String, String)>,
    /// Figures to compare, separated by commas [default: all that the cells have]
    #[arg(long = "metric", value_name = "LIST", value_delimiter = ',')]
    pub(crate) metrics: Vec<String>,
    /// A condition that must not hold; exit code 3 where it does; may be repeated
    #[arg(long = "fail-if", value_name = "GATE")]
    pub(crate) gates: Vec<String>,
    /// A gate is broken only where the evidence is significant, not by the estimate alone
    #[arg(long, requires = "gates")]
    pub(crate) significant: bool,
    /// Show RTT instead of RTT/2
    #[arg(long)]
    pub(crate) rtt: bool,
    /// With one repetition a side, show the intervals that the batches within it give
    #[arg(long)]
    pub(crate) batches: bool,
    /// Show every pair of cells, not only all together
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) form: FormArgs<CompareFormat>,
    /// Seed of the permutation test, where there are too many permutations to try all
    #[arg(long, value_name = "N", default_value_t = 2012)]
    pub(crate) seed: u64,
}
