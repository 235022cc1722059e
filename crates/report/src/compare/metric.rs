//! Which figures are compared, where they stand in a result, and how people write them.

use super::CompareError;
use crate::cells::scale;
use crate::units::{bits, commas, span, three_digits};
pub use model::Place;
use model::{Latency, LatencyKind, PgmCounts, ResultDocument, Signed};
use std::fmt;
use std::str::FromStr;

/// Which distribution of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum View {
    /// Latency from the actual send time.
    Actual,
    /// Latency from the intended send time (`pace`).
    Intended,
    /// How late messages were sent (`pace`).
    Lateness,
    /// The ping-pong beside a stream (`stream`).
    Working,
    /// One way, from the send call to the reflector's receive call's return (`pace`).
    Out,
    /// One way back.
    Back,
    /// A part of the round trip, where stamps were taken (`pace`).
    Part(Part),
    /// RTT from the actual send time of the messages of one fate (`pace` over PGM).
    Fate(Fate),
}

/// What became of a message over PGM, as [`model::PgmFate`] names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// Neither repaired nor held: scheduling and the path alone.
    Untouched,
    /// Came by itself and waited behind a repair.
    Held,
    /// Lost and repaired, on either way.
    Repaired,
}

impl Fate {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 3] = [Self::Untouched, Self::Held, Self::Repaired];

    fn word(self) -> &'static str {
        match self {
            Self::Untouched => "untouched",
            Self::Held => "held",
            Self::Repaired => "repaired",
        }
    }

    /// Its messages, in a clause.
    fn words(self) -> &'static str {
        match self {
            Self::Untouched => "untouched by repairs",
            Self::Held => "held behind a repair",
            Self::Repaired => "repaired",
        }
    }
}

/// A part of the round trip, as [`model::Segment`] names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Send call to the driver's stamp.
    Send,
    /// All that is not in the others.
    Wire,
    /// The far stack's receive stamp to its application.
    FarKernel,
    /// The far application's receive to its send.
    FarApplication,
    /// The near stack's receive stamp to the application.
    NearKernel,
}

impl Part {
    /// All of them, in the order of the round trip.
    pub const ALL: [Self; 5] = [Self::Send, Self::Wire, Self::FarKernel, Self::FarApplication, Self::NearKernel];

    fn word(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Wire => "wire",
            Self::FarKernel => "far-kernel",
            Self::FarApplication => "far-application",
            Self::NearKernel => "near-kernel",
        }
    }
}

impl View {
    /// What stands before the point in a metric's word; nothing for the latency from the actual send time.
    fn word(self) -> &'static str {
        match self {
            Self::Actual => "",
            Self::Intended => "intended",
            Self::Lateness => "lateness",
            Self::Working => "working",
            Self::Out => "out",
            Self::Back => "back",
            Self::Part(part) => part.word(),
            Self::Fate(fate) => fate.word(),
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        let whole = [Self::Actual, Self::Intended, Self::Lateness, Self::Working, Self::Out, Self::Back];
        whole.into_iter().chain(Part::ALL.map(Self::Part)).chain(Fate::ALL.map(Self::Fate))
    }
}

/// One figure that is compared. Its word is what flags, gates and documents say: `p99`, `intended.p99.9`, `lateness.max`,
/// `working.p50`, `out.p50`, `far-kernel.p99`, `repaired.p50`, `loss`, `achieved`, `transactions`, `bits`, `repaired`, `naks`,
/// `given-up`, `rebuilt`, `parity`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// A time.
    Time(View, Place),
    /// Share of messages that were lost.
    Loss,
    /// Messages a second sent (`pace`).
    Achieved,
    /// Transactions a second (`rr`).
    Transactions,
    /// Payload delivered in bits a second, all directions together (`stream`).
    Bits,
    /// Share of the answered messages that had this fate (`pace` over PGM).
    Share(Fate),
    /// NAKs that all ends sent, for a million messages (`pace` over PGM).
    Naks,
    /// Packets that an end gave up, for a million messages: lost for good (`pace` over PGM).
    GivenUp,
    /// Share of the packets that came after all that were computed from parity, at all ends (`pace` over PGM).
    Rebuilt,
    /// Parity packets that all ends sent, unasked or not, as a share of the data packets sent first (`pace` over PGM).
    Parity,
}

/// What figures are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// ns.
    Time,
    /// 0 to 1; of parity also more.
    Share,
    /// 1/s.
    PerSecond,
    /// bit/s.
    Bits,
    /// For a million messages.
    PerMillion,
}

impl Unit {
    /// The unit as documents name it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Time => "ns",
            Self::Share => "share",
            Self::PerSecond => "per_second",
            Self::Bits => "bits_per_second",
            Self::PerMillion => "per_million",
        }
    }

    /// A figure with its unit, as people read it.
    pub(crate) fn figure(self, value: f64) -> String {
        match self {
            Self::Time => span(value),
            Self::Share => share(value),
            Self::PerSecond => format!("{}/s", count(value)),
            Self::Bits => bits(value),
            Self::PerMillion => format!("{} per million", count(value)),
        }
    }
}

/// A number that is counted, with as many digits as a person reads.
fn count(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count; `as` saturates")]
    let whole = value.round().max(0.0) as u64;
    if value < 100.0 { three_digits(value) } else { commas(whole) }
}

/// A share in percent, or in millionths where that would be zeros.
fn share(value: f64) -> String {
    let percent = value * 100.0;
    if percent == 0.0 {
        "0 %".to_owned()
    } else if percent.abs() < 0.01 {
        format!("{} ppm", three_digits(value * 1e6))
    } else {
        format!("{} %", three_digits(percent))
    }
}

impl Metric {
    /// Latency from the actual send time at a place.
    const fn actual(place: Place) -> Self {
        Self::Time(View::Actual, place)
    }

    /// What is compared where nothing else is asked for, in the order of tables. Those that a result does not have are left
    /// out.
    #[must_use]
    pub fn defaults() -> Vec<Self> {
        let mut defaults = vec![
            Self::actual(Place::P50),
            Self::actual(Place::P99),
            Self::actual(Place::P99_9),
            Self::actual(Place::Max),
            Self::actual(Place::Mean),
            Self::actual(Place::Stdev),
            Self::Time(View::Intended, Place::P99),
            Self::Time(View::Intended, Place::P99_9),
            Self::Time(View::Lateness, Place::P99),
            Self::Time(View::Working, Place::P50),
            Self::Time(View::Working, Place::P99),
            Self::Time(View::Out, Place::P50),
            Self::Time(View::Back, Place::P50),
            Self::Loss,
            Self::Achieved,
            Self::Transactions,
            Self::Bits,
        ];
        defaults.extend(Part::ALL.map(|part| Self::Time(View::Part(part), Place::P50)));
        for fate in [Fate::Untouched, Fate::Repaired] {
            defaults.extend([Place::P50, Place::P99].map(|place| Self::Time(View::Fate(fate), place)));
        }
        defaults.extend([Self::Share(Fate::Repaired), Self::Share(Fate::Held), Self::Naks, Self::GivenUp]);
        defaults.extend([Self::Rebuilt, Self::Parity]);
        defaults
    }

    /// Those that sentences speak of.
    pub(crate) fn is_headline(self) -> bool {
        matches!(
            self,
            Self::Time(View::Actual | View::Intended | View::Working, Place::P50 | Place::P99)
                | Self::Loss
                | Self::Achieved
                | Self::Transactions
                | Self::Bits
                | Self::Time(View::Fate(Fate::Untouched), Place::P99)
                | Self::Time(View::Fate(Fate::Repaired), Place::P50)
                | Self::Share(Fate::Repaired)
                | Self::GivenUp
        )
    }

    /// The words that are accepted.
    #[must_use]
    pub fn accepted() -> String {
        let places: Vec<&str> = Place::ALL.into_iter().map(Place::word).collect();
        format!(
            "{} (each also as {}., such as intended.p99), loss, achieved, transactions, bits, {}, naks, given-up, rebuilt or \
             parity",
            places.join(", "),
            View::all().skip(1).map(View::word).collect::<Vec<_>>().join("., "),
            Fate::ALL.map(Fate::word).join(", ")
        )
    }

    pub(crate) fn unit(self) -> Unit {
        match self {
            Self::Time(..) => Unit::Time,
            Self::Loss | Self::Share(_) | Self::Rebuilt | Self::Parity => Unit::Share,
            Self::Achieved | Self::Transactions => Unit::PerSecond,
            Self::Bits => Unit::Bits,
            Self::Naks | Self::GivenUp => Unit::PerMillion,
        }
    }

    /// Whether it comes from a histogram, whose buckets are up to a thousandth wide.
    pub(crate) fn is_bucketed(self) -> bool {
        matches!(
            self,
            Self::Time(_, Place::P50 | Place::P90 | Place::P99 | Place::P99_9 | Place::P99_99 | Place::P99_999)
        )
    }

    /// How two figures of it are told apart in a sentence: when the second is larger, and when it is smaller.
    pub(crate) fn comparatives(self) -> (&'static str, &'static str) {
        match self {
            Self::Time(_, Place::Stdev) => ("has more jitter", "has less jitter"),
            Self::Time(View::Lateness, _) => ("sends later", "sends less late"),
            Self::Time(..) => ("is slower", "is faster"),
            Self::Loss => ("loses more", "loses less"),
            Self::Achieved => ("sends more", "sends less"),
            Self::Transactions => ("does more", "does less"),
            Self::Bits => ("carries more", "carries less"),
            Self::Share(Fate::Untouched) => ("leaves more untouched", "leaves less untouched"),
            Self::Share(Fate::Held) => ("holds back more", "holds back less"),
            Self::Share(Fate::Repaired) => ("repairs more", "repairs less"),
            Self::Naks => ("asks for repairs more often", "asks for repairs less often"),
            Self::GivenUp => ("gives up more", "gives up less"),
            Self::Rebuilt => ("rebuilds more", "rebuilds less"),
            Self::Parity => ("sends more parity", "sends less parity"),
        }
    }

    /// What it is called in a sentence: `p99 of RTT/2`.
    pub(crate) fn name(self, kind: LatencyKind) -> String {
        match self {
            Self::Time(View::Actual, place) => format!("{} of {}", place.word(), kind.title()),
            Self::Time(View::Intended, place) => format!("{} of RTT from the intended send time", place.word()),
            Self::Time(View::Lateness, place) => format!("{} of lateness", place.word()),
            Self::Time(View::Working, place) => format!("{} of RTT under the stream", place.word()),
            Self::Time(View::Out, place) => format!("{} of the way out", place.word()),
            Self::Time(View::Back, place) => format!("{} of the way back", place.word()),
            Self::Time(View::Part(part), place) => format!("{} of the part '{}'", place.word(), part.word()),
            Self::Time(View::Fate(fate), place) => format!("{} of RTT of messages {}", place.word(), fate.words()),
            Self::Loss => "share of messages lost".to_owned(),
            Self::Achieved => "rate sent".to_owned(),
            Self::Transactions => "transactions".to_owned(),
            Self::Bits => "payload".to_owned(),
            Self::Share(fate) => format!("share of messages {}", fate.words()),
            Self::Naks => "number of NAKs".to_owned(),
            Self::GivenUp => "number of packets lost for good".to_owned(),
            Self::Rebuilt => "share of repairs rebuilt from parity".to_owned(),
            Self::Parity => "parity packets as a share of data packets".to_owned(),
        }
    }

    /// Whether there is something to compare: parity, where one of these results used it.
    pub(crate) fn concerns<'a>(self, results: impl IntoIterator<Item = &'a ResultDocument>) -> bool {
        !matches!(self, Self::Rebuilt | Self::Parity)
            || results.into_iter().any(|result| result.pgm.as_ref().is_some_and(|pgm| pgm.fec.is_some()))
    }

    /// The figure in a result, in ns, as a share or a second; latency in the kind that `rtt` asks for. `None` where it is
    /// not known.
    pub(crate) fn of(self, result: &ResultDocument, rtt: bool) -> Option<f64> {
        let value = match self {
            Self::Time(view @ (View::Out | View::Back), place) => {
                // With an estimated offset a time may come out below 0, which is no time to compare.
                place.of_signed(view.one_way(result)?).filter(|ns| *ns > 0.0)?
            }
            Self::Time(view, place) => {
                let latency = view.of(result)?;
                place.of(latency)? * view.by(result, latency, rtt)
            }
            Self::Loss => loss(result)?,
            Self::Achieved => result.rate.as_ref()?.achieved_pps,
            Self::Transactions => result.transactions.as_ref()?.per_second,
            Self::Bits => {
                let flows = &result.stream.as_ref()?.flows;
                (!flows.is_empty()).then(|| flows.iter().map(|flow| flow.bits_per_second).sum())?
            }
            Self::Share(fate) => {
                let pgm = result.pgm.as_ref()?;
                let messages = |fate: Fate| pgm.fate(fate.word()).map_or(0, |fate| fate.messages);
                let all: u64 = Fate::ALL.into_iter().map(messages).sum();
                (all > 0).then(|| messages(fate) as f64 / all as f64)?
            }
            Self::Naks => per_million(result, |counts| counts.naks_sent)?,
            Self::GivenUp => per_million(result, |counts| counts.lost)?,
            Self::Rebuilt => per(result, |counts| counts.rebuilt, |counts| counts.recovered)?,
            Self::Parity => {
                per(result, |counts| counts.parity_unasked_sent + counts.parity_asked_sent, |counts| counts.odata_sent)?
            }
        };
        value.is_finite().then_some(value)
    }

    /// Its 95 % interval within one repetition, from the batches of its messages, where such a one is stored.
    pub(crate) fn batches(self, result: &ResultDocument, rtt: bool) -> Option<[f64; 2]> {
        let Self::Time(view, place) = self else { return None };
        let latency = view.of(result)?;
        let interval = match place {
            Place::P50 => latency.p50_ci95_ns.map(|interval| interval.map(|ns| ns as f64)),
            Place::Mean => latency.mean_ci95_ns,
            _ => None,
        };
        let by = view.by(result, latency, rtt);
        interval.map(|interval| interval.map(|ns| ns * by))
    }
}

impl View {
    fn of(self, result: &ResultDocument) -> Option<&Latency> {
        match self {
            Self::Actual => result.latency.as_ref(),
            Self::Intended => result.latency_intended.as_ref(),
            Self::Lateness => result.lateness.as_ref(),
            Self::Working => result.stream.as_ref()?.working_latency.as_ref(),
            Self::Part(part) => {
                result.segments.iter().find(|segment| segment.name == part.word()).map(|segment| &segment.latency)
            }
            Self::Fate(fate) => result.pgm.as_ref()?.fate(fate.word())?.latency.as_ref(),
            Self::Out | Self::Back => None,
        }
    }

    fn one_way(self, result: &ResultDocument) -> Option<&Signed> {
        let one_way = result.one_way.as_ref()?;
        match self {
            Self::Out => Some(&one_way.out),
            Self::Back => Some(&one_way.back),
            _ => None,
        }
    }

    fn by(self, result: &ResultDocument, latency: &Latency, rtt: bool) -> f64 {
        match self {
            Self::Actual => scale(result.probe, latency.kind, rtt).0,
            Self::Intended | Self::Working | Self::Fate(_) if latency.kind == LatencyKind::RttHalf => 2.0,
            _ => 1.0,
        }
    }
}

/// What all ends of PGM counted, for a million messages that were sent.
fn per_million(result: &ResultDocument, pick: fn(&PgmCounts) -> u64) -> Option<f64> {
    let (pgm, sent) = (result.pgm.as_ref()?, result.messages.sent);
    (sent > 0).then(|| pgm.sum(pick) as f64 * 1e6 / sent as f64)
}

/// What all ends of PGM counted, for one of something else that they counted.
fn per(result: &ResultDocument, pick: fn(&PgmCounts) -> u64, of: fn(&PgmCounts) -> u64) -> Option<f64> {
    let pgm = result.pgm.as_ref()?;
    let all = pgm.sum(of);
    (all > 0).then(|| pgm.sum(pick) as f64 / all as f64)
}

/// Share of messages lost; of a stream that of its datagrams.
pub(crate) fn loss(result: &ResultDocument) -> Option<f64> {
    if let Some(stream) = &result.stream {
        let counted = stream.flows.iter().filter_map(|flow| Some((flow.sent?, flow.lost?)));
        let (sent, lost) = counted.fold((0, 0), |(sent, lost), flow| (sent + flow.0, lost + flow.1));
        return (sent > 0).then(|| lost as f64 / sent as f64);
    }
    (result.messages.sent > 0).then(|| result.messages.lost as f64 / result.messages.sent as f64)
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(view, place) => {
                let (view, point) = (view.word(), if *view == View::Actual { "" } else { "." });
                write!(f, "{view}{point}{}", place.word())
            }
            Self::Loss => f.write_str("loss"),
            Self::Achieved => f.write_str("achieved"),
            Self::Transactions => f.write_str("transactions"),
            Self::Bits => f.write_str("bits"),
            Self::Share(fate) => f.write_str(fate.word()),
            Self::Naks => f.write_str("naks"),
            Self::GivenUp => f.write_str("given-up"),
            Self::Rebuilt => f.write_str("rebuilt"),
            Self::Parity => f.write_str("parity"),
        }
    }
}

impl FromStr for Metric {
    type Err = CompareError;

    fn from_str(text: &str) -> Result<Self, CompareError> {
        let unknown = || CompareError::Metric { given: text.to_owned(), accepted: Self::accepted() };
        match text {
            "loss" => return Ok(Self::Loss),
            "achieved" | "rate" => return Ok(Self::Achieved),
            "transactions" | "tps" => return Ok(Self::Transactions),
            "bits" | "bps" => return Ok(Self::Bits),
            "naks" => return Ok(Self::Naks),
            "given-up" => return Ok(Self::GivenUp),
            "rebuilt" => return Ok(Self::Rebuilt),
            "parity" => return Ok(Self::Parity),
            _ => {}
        }
        if let Some(fate) = Fate::ALL.into_iter().find(|fate| fate.word() == text) {
            return Ok(Self::Share(fate));
        }
        let named = |word: &str| View::all().find(|view| *view != View::Actual && view.word() == word);
        let (view, place) =
            text.split_once('.').and_then(|(word, place)| Some((named(word)?, place))).unwrap_or((View::Actual, text));
        let place: Place = place.parse().map_err(|_| unknown())?;
        Ok(Self::Time(view, place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_there_and_back() {
        for metric in Metric::defaults() {
            assert_eq!(metric.to_string().parse::<Metric>().unwrap(), metric);
        }
        assert_eq!("jitter".parse::<Metric>().unwrap(), Metric::Time(View::Actual, Place::Stdev));
        for fate in Fate::ALL {
            assert_eq!(Metric::Share(fate).to_string().parse::<Metric>().unwrap(), Metric::Share(fate));
        }
        for view in View::all() {
            let metric = Metric::Time(view, Place::P99_9);
            assert_eq!(metric.to_string().parse::<Metric>().unwrap(), metric);
        }
        assert_eq!("intended.p99.99".parse::<Metric>().unwrap(), Metric::Time(View::Intended, Place::P99_99));
        for wrong in ["", "p98", "P99", "intended", "intended.", "wanted.p99", "p99 "] {
            let error = wrong.parse::<Metric>().unwrap_err().to_string();
            assert!(error.contains("p99.9") && error.contains("transactions") && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn figures_say_their_unit() {
        assert_eq!(Unit::Time.figure(59_130.0), "59.1 µs");
        assert_eq!(Unit::Share.figure(0.0012), "0.12 %");
        assert_eq!(Unit::Share.figure(0.0), "0 %");
        assert_eq!(Unit::Share.figure(0.000_02), "20.0 ppm");
        assert_eq!(Unit::PerSecond.figure(19_999.6), "20,000/s");
        assert_eq!(Unit::Bits.figure(942.3e6), "942 Mbit/s");
        assert_eq!(
            [0.0, 0.5, 12_345.4].map(|value| Unit::PerMillion.figure(value)),
            ["0 per million", "0.50 per million", "12,345 per million"]
        );
    }
}
