//! Flags of `compare`.

use super::shared::{Form, FormArgs, MixArgs, pair};
use clap::{Args, ValueEnum};
use model::quantity::{self, Compared, Group};
use model::{Role, Statistic};
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
#[command(after_long_help = gates())]
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
    #[arg(hide_short_help = true, long)]
    pub(crate) rtt: bool,
    /// With one repetition a side, show the intervals that the batches within it give
    #[arg(hide_short_help = true, long)]
    pub(crate) batches: bool,
    /// Show every pair of cells, not only all together
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) mix: MixArgs,
    #[command(flatten)]
    pub(crate) form: FormArgs<CompareFormat>,
    /// Seed of the permutation test, where there are too many permutations to try all
    #[arg(hide_short_help = true, long, value_name = "N", default_value_t = 2012)]
    pub(crate) seed: u64,
}

const GATES: &str = "\
Gates: METRIC (>|<|>=|<=) LIMIT [@ FACTOR=VALUE]. A gate names what must not hold: exit code 3 if it
holds, 4 if there are too few runs or repetitions to decide.
  'p99 > +10%'               the second side's p99 is more than 10 % above the first's
  'p99.9 > +5us'             … more than 5 µs above
  'p99 > 50us @ load=build'  … above 50 µs, in the cells under load build
  'loss > 0.1%'              more than 0.1 % of the messages lost
  'transactions < -5%'       more than 5 % fewer transactions";

/// How gates are written, and all that they may name: the quantities of the catalogue that have a better direction, by what
/// they are of.
fn gates() -> String {
    let statistics = Statistic::ALL.map(Statistic::word).join(" ");
    let mut text = format!(
        "{GATES}\nMetrics: {statistics} of the RTT; also of each NAME that stands as NAME.p99 below. compare shows those with * \
         without being asked. END is initiator or reflector, DIRECTION is up or down. docs/generated/quantities.md says what \
         they are."
    );
    for group in Group::ALL {
        let is_p99 = |of: &str, statistic| !of.is_empty() && statistic == Statistic::P99;
        let distributions =
            quantity::of_group(group).filter(|one| one.statistic().is_some_and(|(of, what)| is_p99(of.id, what)));
        let mut words: Vec<String> = distributions.map(|one| one.id.clone()).collect();
        let singles =
            quantity::of_group(group).filter(|one| one.statistic().is_none() && one.compared > Compared::Never);
        for one in singles {
            let star = if one.compared >= Compared::Usual { "*" } else { "" };
            // Both ends have the same, and both directions.
            match one.id.split_once('.') {
                Some(("reflector" | "down", _)) => {}
                Some((role, rest)) if role == Role::Initiator.word() => words.push(format!("END.{rest}{star}")),
                Some(("up", rest)) => words.push(format!("DIRECTION.{rest}{star}")),
                _ => words.push(format!("{}{star}", one.id)),
            }
        }
        let probe = match group {
            Group::Schedule => " (pace)",
            Group::Transactions => " (rr)",
            Group::Stream | Group::Flows => " (stream)",
            _ => "",
        };
        if !words.is_empty() {
            text.push_str(&format!("\n  {group}{probe}: {}", words.join(", ")));
        }
    }
    text
}
