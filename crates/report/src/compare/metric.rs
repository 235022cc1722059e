//! Which figures are compared, where they stand in a result, and how people write them.

use super::CompareError;
use crate::cells::scale;
use crate::units::{bits, commas, span, three_digits};
use model::{Latency, LatencyKind, ResultDocument};
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
}

/// Which figure of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Median.
    P50,
    /// 90th percentile.
    P90,
    /// 99th percentile.
    P99,
    /// 99.9th percentile.
    P99_9,
    /// 99.99th percentile.
    P99_99,
    /// 99.999th percentile.
    P99_999,
    /// Smallest.
    Min,
    /// Largest.
    Max,
    /// Mean.
    Mean,
    /// Sample standard deviation: jitter.
    Stdev,
}

impl Place {
    const ALL: [Self; 10] = [
        Self::P50,
        Self::P90,
        Self::P99,
        Self::P99_9,
        Self::P99_99,
        Self::P99_999,
        Self::Min,
        Self::Max,
        Self::Mean,
        Self::Stdev,
    ];

    fn word(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P99_9 => "p99.9",
            Self::P99_99 => "p99.99",
            Self::P99_999 => "p99.999",
            Self::Min => "min",
            Self::Max => "max",
            Self::Mean => "mean",
            Self::Stdev => "stdev",
        }
    }

    fn of(self, latency: &Latency) -> Option<f64> {
        let whole = |ns: Option<u64>| ns.map(|ns| ns as f64);
        match self {
            Self::P50 => whole(latency.p50_ns),
            Self::P90 => whole(latency.p90_ns),
            Self::P99 => whole(latency.p99_ns),
            Self::P99_9 => whole(latency.p99_9_ns),
            Self::P99_99 => whole(latency.p99_99_ns),
            Self::P99_999 => whole(latency.p99_999_ns),
            Self::Min => whole(latency.min_ns),
            Self::Max => whole(latency.max_ns),
            Self::Mean => latency.mean_ns,
            Self::Stdev => latency.stdev_ns,
        }
    }
}

/// One figure that is compared. Its word is what flags, gates and documents say: `p99`, `intended.p99.9`, `lateness.max`,
/// `working.p50`, `loss`, `achieved`, `transactions`, `bits`.
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
}

/// What figures are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// ns.
    Time,
    /// 0 to 1.
    Share,
    /// 1/s.
    PerSecond,
    /// bit/s.
    Bits,
}

impl Unit {
    /// The unit as documents name it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Time => "ns",
            Self::Share => "share",
            Self::PerSecond => "per_second",
            Self::Bits => "bits_per_second",
        }
    }

    /// A figure with its unit, as people read it.
    pub(crate) fn figure(self, value: f64) -> String {
        match self {
            Self::Time => span(value),
            Self::Share => share(value),
            Self::PerSecond => {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a count a second; `as` saturates"
                )]
                let whole = value.round().max(0.0) as u64;
                if value < 100.0 { format!("{}/s", three_digits(value)) } else { format!("{}/s", commas(whole)) }
            }
            Self::Bits => bits(value),
        }
    }
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
        vec![
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
            Self::Loss,
            Self::Achieved,
            Self::Transactions,
            Self::Bits,
        ]
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
        )
    }

    /// The words that are accepted.
    #[must_use]
    pub fn accepted() -> String {
        let places: Vec<&str> = Place::ALL.into_iter().map(Place::word).collect();
        format!(
            "{} (each also as intended., lateness. or working., such as intended.p99), loss, achieved, transactions or bits",
            places.join(", ")
        )
    }

    pub(crate) fn unit(self) -> Unit {
        match self {
            Self::Time(..) => Unit::Time,
            Self::Loss => Unit::Share,
            Self::Achieved | Self::Transactions => Unit::PerSecond,
            Self::Bits => Unit::Bits,
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
        }
    }

    /// What it is called in a sentence: `p99 of RTT/2`.
    pub(crate) fn name(self, kind: LatencyKind) -> String {
        match self {
            Self::Time(View::Actual, place) => format!("{} of {}", place.word(), kind.title()),
            Self::Time(View::Intended, place) => format!("{} of RTT from the intended send time", place.word()),
            Self::Time(View::Lateness, place) => format!("{} of lateness", place.word()),
            Self::Time(View::Working, place) => format!("{} of RTT under the stream", place.word()),
            Self::Loss => "share of messages lost".to_owned(),
            Self::Achieved => "rate sent".to_owned(),
            Self::Transactions => "transactions".to_owned(),
            Self::Bits => "payload".to_owned(),
        }
    }

    /// The figure in a result, in ns, as a share or a second; latency in the kind that `rtt` asks for. `None` where it is
    /// not known.
    pub(crate) fn of(self, result: &ResultDocument, rtt: bool) -> Option<f64> {
        let value = match self {
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
        }
    }

    fn by(self, result: &ResultDocument, latency: &Latency, rtt: bool) -> f64 {
        match self {
            Self::Actual => scale(result.probe, latency.kind, rtt).0,
            Self::Intended | Self::Working if latency.kind == LatencyKind::RttHalf => 2.0,
            _ => 1.0,
        }
    }
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
                let head = match view {
                    View::Actual => "",
                    View::Intended => "intended.",
                    View::Lateness => "lateness.",
                    View::Working => "working.",
                };
                write!(f, "{head}{}", place.word())
            }
            Self::Loss => f.write_str("loss"),
            Self::Achieved => f.write_str("achieved"),
            Self::Transactions => f.write_str("transactions"),
            Self::Bits => f.write_str("bits"),
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
            _ => {}
        }
        let (view, place) = match text.split_once('.') {
            Some(("intended", place)) => (View::Intended, place),
            Some(("lateness", place)) => (View::Lateness, place),
            Some(("working", place)) => (View::Working, place),
            _ => (View::Actual, text),
        };
        let place = match place {
            "jitter" => Place::Stdev,
            "median" => Place::P50,
            word => Place::ALL.into_iter().find(|place| place.word() == word).ok_or_else(unknown)?,
        };
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
    }
}
