//! The catalogue of quantities: every figure of a result, once. What prints, compares or documents figures is a loop over it.
//!
//! A new figure is a field of the result, what fills it, and a row in `table` (or in [`DISTRIBUTIONS`]). The test of this
//! module walks the schema of [`ResultDocument`]: a numeric field that no quantity reads has its reason there.

mod distribution;
mod statistic;
mod table;

pub use distribution::{DISTRIBUTIONS, Distribution, FATES, Times, scale};
pub use statistic::Statistic;

use crate::result::EndReport;
use crate::{Direction, Fate, FlowReport, LatencyKind, Messages, OneWay, PgmEnd, ResultDocument, Role};
use std::sync::LazyLock;

words! {
    /// What a quantity is counted in.
    pub enum Unit {
        /// Nanoseconds.
        Ns = "ns",
        /// Microseconds of CPU time.
        Us = "us",
        /// 0 to 1; of parity and reached rates also more.
        Share = "share",
        /// Of a hundred.
        Percent = "percent",
        /// 1/s.
        PerSecond = "per_second",
        /// bit/s.
        Bits = "bits_per_second",
        /// For a million messages.
        PerMillion = "per_million",
        /// Whole things.
        Count = "count",
        /// Bytes.
        Bytes = "bytes",
        /// A number without a unit, or with one that its name says.
        Number = "number",
    }
}

/// Which direction is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are what their names say")]
pub enum Better {
    Lower,
    Higher,
    Neither,
}

words! {
    /// How the repetitions of a cell become one figure; the words are those of the documentation.
    #[expect(missing_docs, reason = "a variant without a line is what its name says")]
    pub enum Combine {
        Sum = "sum",
        Mean = "mean",
        Middle = "middle",
        Min = "smallest",
        Max = "largest",
        /// The first: it is the same in all.
        First = "first",
        /// The sum of the parts by the sum of what they are parts of.
        Ratio = "ratio of sums",
        /// The geometric mean of their figures, which comparisons test; a percentile that not every repetition has enough messages for
        /// is that of all messages together, from the merged histograms.
        Typical = "geometric mean",
        /// Half the 95 % interval of the mean of 3 or more repetitions; with fewer the widest of their own.
        Interval = "interval of the mean",
        /// As ping's mean deviation of all messages.
        Deviation = "exact moments",
        /// Not at all: it belongs to single repetitions.
        Never = "–",
    }
}

words! {
    /// Quantities that stand together in tables and files.
    pub enum Group {
        /// Latency from the actual send time.
        Latency = "Latency from the actual send time",
        /// From the intended send time.
        Intended = "Latency from the intended send time",
        /// Actual less intended send time.
        Lateness = "Lateness",
        /// What an open loop would see.
        Corrected = "What an open loop would see",
        /// The ping-pong beside a stream and before it.
        Working = "Ping-pong beside a stream",
        /// One-way times.
        OneWay = "One-way times",
        /// Messages sent and answered.
        Messages = "Messages",
        /// The schedule of `pace`.
        Schedule = "The schedule",
        /// Request and response.
        Transactions = "Transactions",
        /// A stream as a whole.
        Stream = "Streams",
        /// Its directions, each by itself.
        Flows = "Directions of a stream",
        /// Parts of the round trip.
        Segments = "Parts of the round trip",
        /// Messages over PGM by what repairs did to them.
        Fates = "Messages by fate over PGM",
        /// Their shares, and repairs for all messages.
        Repairs = "Repairs for all messages",
        /// Packets of all ends of PGM together.
        Pgm = "Packets of PGM at all ends",
        /// Packets of the initiator, and of all reflectors together.
        PgmEnds = "Packets of PGM at the initiator and at all reflectors",
        /// What repairs took, step by step.
        Steps = "Steps of repairs",
        /// CPU and scheduling of each end.
        Cpu = "CPU and scheduling",
        /// Where each end dropped messages.
        Drops = "Drops",
        /// The load beside the measurement.
        Load = "The load beside",
        /// ICMP echo.
        Ping = "ICMP echo",
        /// Timer wake-ups.
        Wake = "Timer wake-ups",
        /// Cycles of an exchange.
        Cycle = "Cycles of an exchange",
        /// The measurement itself and the tool's own cost.
        Tool = "The measurement itself",
    }
}

/// Whether `compare` shows a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Compared {
    /// Never: it is no figure of merit.
    Never,
    /// Where it is asked for: more figures at once mean less evidence for each.
    Asked,
    /// Always.
    Usual,
    /// Always, and sentences speak of it.
    Headline,
}

/// Which ends of PGM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are what their names say")]
pub enum PgmSide {
    All,
    Initiator,
    Reflectors,
}

/// How a quantity is read from a result: a figure, or a part and what it is a part of.
#[derive(Debug, Clone, Copy)]
enum Read {
    Result(ReadResult),
    Messages(fn(&Messages) -> Option<[f64; 2]>),
    OneWay(fn(&OneWay) -> Option<[f64; 2]>),
    Loss,
    Time(&'static Distribution, Statistic),
    Fate(Fate),
    End(Role, ReadEnd),
    Flow(Direction, fn(&FlowReport) -> Option<[f64; 2]>),
    Pgm(PgmSide, fn(&PgmEnd) -> Option<[f64; 2]>),
}

type ReadResult = fn(&ResultDocument) -> Option<[f64; 2]>;
type ReadEnd = fn((&EndReport, &ResultDocument)) -> Option<[f64; 2]>;

/// One quantity.
#[derive(Debug)]
#[expect(missing_docs, reason = "a field without a line is what its name says")]
pub struct Quantity {
    /// Its word in flags, gates and documents: `p99`, `intended.p99.9`, `loss`, `up.retransmits`.
    pub id: String,
    /// Its column in CSV files; empty: none.
    pub csv: String,
    /// Its name in files of a row a cell, where that is another one; else as `csv`.
    pub csv_cells: String,
    /// In the heading of a table.
    pub title: &'static str,
    /// In sentences.
    pub name: String,
    /// What it is, in one sentence: formula and source.
    pub definition: String,
    pub unit: Unit,
    pub better: Better,
    pub combine: Combine,
    pub group: Group,
    pub compared: Compared,
    /// The words of `compare` for the second side where it is larger, and where it is smaller.
    pub verbs: [&'static str; 2],
    read: Read,
}

impl Quantity {
    /// Its figure in a result, as stored there; `None` where it is not known.
    pub fn of(&self, result: &ResultDocument) -> Option<f64> {
        self.parts(result, None).map(|[part, whole]| part / whole)
    }

    /// The same as a part and what it is divided by: 1 of all that is no ratio. With a host the figure of that reflector alone,
    /// where it has one.
    pub fn parts(&self, result: &ResultDocument, host: Option<&str>) -> Option<[f64; 2]> {
        // Of another tool's result 0 in these groups means that it was not counted.
        let uncounted = result.source.is_some() && matches!(self.group, Group::Tool | Group::Cpu | Group::Drops);
        self.read_parts(result, host).filter(|[part, _]| !uncounted || *part != 0.0)
    }

    fn read_parts(&self, result: &ResultDocument, host: Option<&str>) -> Option<[f64; 2]> {
        let of_host = |host: &str| result.reflectors.iter().find(|one| one.host == host);
        match (self.read, host) {
            (Read::Time(distribution, statistic), host) => {
                Some([distribution.times(result, host)?.statistic(statistic)?, 1.0])
            }
            (Read::Fate(fate), host) => Some([distribution::fate(result, host, fate)?.messages as f64, 1.0]),
            (Read::Loss, None) => table::loss(result),
            (Read::Loss, Some(host)) => {
                let messages = &of_host(host)?.messages;
                table::share(messages.lost, messages.sent)
            }
            (Read::OneWay(read), host) => read(distribution::one_way(result, host)?),
            (Read::Messages(read), None) => read(&result.messages),
            (Read::Messages(read), Some(host)) => read(&of_host(host)?.messages),
            (Read::Pgm(PgmSide::All, read), Some(host)) => {
                read(result.pgm.as_ref()?.ends.iter().find(|end| end.host == host)?)
            }
            (Read::Pgm(side, read), None) => {
                let of_side = |end: &&PgmEnd| match side {
                    PgmSide::All => true,
                    side => (end.host == Role::Initiator.word()) == (side == PgmSide::Initiator),
                };
                let ends = result.pgm.as_ref()?.ends.iter().filter(of_side);
                ends.map(read).try_fold([0.0, 1.0], |[sum, whole], one| Some([sum + one?[0], whole]))
            }
            (Read::Result(read), None) => read(result),
            (Read::End(role, read), None) => read((result.ends.first(role)?, result)),
            (Read::End(role, read), Some(host)) => read((result.ends.on(role, host)?, result)),
            (Read::Flow(direction, read), None) => {
                read(result.stream.as_ref()?.flows.iter().find(|flow| flow.direction == direction)?)
            }
            (_, Some(_)) => None,
        }
    }

    /// What a figure of a result is multiplied by to be of the kind that is shown, see [`Distribution::scale`].
    pub fn scale(&self, result: &ResultDocument, rtt: bool) -> f64 {
        let Read::Time(distribution, _) = self.read else { return 1.0 };
        distribution.times(result, None).map_or(1.0, |times| distribution.scale(result, times, rtt))
    }

    /// The distribution that it is a statistic of, and which one.
    pub fn statistic(&self) -> Option<(&'static Distribution, Statistic)> {
        match self.read {
            Read::Time(distribution, statistic) => Some((distribution, statistic)),
            _ => None,
        }
    }

    /// What it is called in a sentence, where latency is of this kind.
    pub fn name(&self, kind: LatencyKind) -> String {
        match self.read {
            Read::Time(distribution, statistic) if distribution.id.is_empty() => {
                format!("{statistic} of {}", kind.title())
            }
            _ => self.name.clone(),
        }
    }

    /// Whether a result can have it at all: what is about parity needs parity.
    pub fn concerns(&self, result: &ResultDocument) -> bool {
        !matches!(self.id.as_str(), "rebuilt" | "parity") || result.pgm.as_ref().is_some_and(|pgm| pgm.fec.is_some())
    }
}

static CATALOGUE: LazyLock<Vec<Quantity>> = LazyLock::new(table::all);

/// All quantities, in the order of tables.
pub fn all() -> &'static [Quantity] {
    &CATALOGUE
}

/// Those of a group.
pub fn of_group(group: Group) -> impl Iterator<Item = &'static Quantity> {
    all().iter().filter(move |quantity| quantity.group == group)
}

/// The quantity with this id.
pub fn find(id: &str) -> Option<&'static Quantity> {
    all().iter().find(|quantity| quantity.id == id)
}

/// The catalogue as a document: a table a group.
pub fn markdown() -> String {
    let mut out = String::from(
        "# Quantities\n\nMade by `cargo xtask generate` from the catalogue. Each figure of a result: its id is what `compare` and gates \
         call it and what it is called in the JSON of a report; its column is the same in both CSV forms of `report` unless two are named. Of an empty \
         field or a missing figure nothing is known.\n",
    );
    let better = |quantity: &Quantity| match quantity.better {
        Better::Lower => "lower",
        Better::Higher => "higher",
        Better::Neither => "",
    };
    for group in Group::ALL {
        out.push_str(&format!(
            "\n## {}\n\n| id | CSV | unit | better | repetitions | what it is |\n|---|---|---|---|---|---|\n",
            group.word()
        ));
        for quantity in of_group(group) {
            let columns = match (quantity.csv.as_str(), quantity.csv_cells.as_str()) {
                ("", "") => String::new(),
                (one, other) if one == other => format!("`{one}`"),
                (one, other) => format!("`{one}`; a row a cell: `{other}`"),
            };
            out.push_str(&format!(
                "| `{}` | {columns} | {} | {} | {} | {} |\n",
                quantity.id,
                quantity.unit.word(),
                better(quantity),
                quantity.combine.word(),
                quantity.definition
            ));
        }
    }
    out
}

#[cfg(test)]
mod tests;
