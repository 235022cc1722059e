//! The quantities that are compared, and how people write them.

use crate::text::by_key;
use model::quantity::{self, Compared, Quantity, Unit};
use model::{ResultDocument, Statistic};
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// One quantity that is compared. Its word is what flags, gates and documents say: `p99`, `intended.p99.9`, `far-kernel.p99`,
/// `loss`, `up.retransmits`, `initiator.demand`; see [`model::quantity`].
#[derive(Clone, Copy)]
pub struct Metric(pub &'static Quantity);

impl PartialEq for Metric {
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for Metric {}

impl fmt::Debug for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.id)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.id)
    }
}

impl Metric {
    fn all() -> impl Iterator<Item = Self> {
        quantity::all().iter().filter(|quantity| quantity.compared > Compared::Never).map(Self)
    }

    /// What is compared where nothing else is asked for, in the order of tables.
    pub fn defaults() -> Vec<Self> {
        let mut defaults: Vec<Self> = Self::all().filter(|metric| metric.0.compared > Compared::Asked).collect();
        // Percentiles first: they are what most questions are about. The sort keeps distributions together.
        let place = |metric: &Self| {
            let (distribution, statistic) = metric.0.statistic()?;
            Some((quantity::DISTRIBUTIONS.iter().position(|one| one.id == distribution.id), statistic))
        };
        defaults.sort_by(|a, b| match (a.0.group == b.0.group, place(a), place(b)) {
            (true, Some(a), Some(b)) => a.cmp(&b),
            _ => Ordering::Equal,
        });
        defaults
    }

    /// Those that sentences speak of.
    pub fn is_headline(self) -> bool {
        self.0.compared == Compared::Headline
    }

    pub fn accepted() -> String {
        let statistics: Vec<&str> = Statistic::ALL.into_iter().map(Statistic::word).collect();
        let views: Vec<String> = quantity::DISTRIBUTIONS.iter().skip(1).map(|one| format!("{}.", one.id)).collect();
        let others: Vec<&str> =
            Self::all().filter(|metric| metric.0.statistic().is_none()).map(|metric| metric.0.id.as_str()).collect();
        // What several subjects have is said once: `initiator.` and `reflector.` with machine, demand …
        let subjects = by_key(others.iter().filter_map(|id| id.split_once('.')));
        let families = by_key(subjects.into_iter().map(|(subject, words)| (words, format!("{subject}."))));
        let families: Vec<String> = families
            .into_iter()
            .map(|(words, subjects)| format!("{} with {}", subjects.join(" and "), words.join(", ")))
            .collect();
        let alone: Vec<&str> = others.into_iter().filter(|id| !id.contains('.')).collect();
        format!(
            "{} (each also as {}, such as intended.p99), {}, or {}",
            statistics.join(", "),
            views.join(", "),
            alone.join(", "),
            families.join("; ")
        )
    }

    pub fn unit(self) -> Unit {
        self.0.unit
    }

    /// Whether it comes from a histogram, whose buckets are up to a thousandth wide.
    pub fn is_bucketed(self) -> bool {
        self.0.statistic().is_some_and(|(_, statistic)| statistic.quantile().is_some())
    }

    /// Whether there is something to compare: parity, where one of these results used it.
    pub fn concerns<'a>(self, results: impl IntoIterator<Item = &'a ResultDocument>) -> bool {
        results.into_iter().any(|result| self.0.concerns(result))
    }

    /// The figure in a result, in its unit; latency in the kind that `rtt` asks for. `None` where it is not known.
    pub fn of(self, result: &ResultDocument, rtt: bool) -> Option<f64> {
        let value = self.0.of(result)? * self.0.scale(result, rtt);
        // With an estimated offset a one-way time may come out below 0, which is no time to compare.
        let sense = self.0.group != quantity::Group::OneWay || value > 0.0;
        (value.is_finite() && sense).then_some(value)
    }

    /// Its 95 % interval within one repetition, from the batches of its messages, where such a one is stored.
    pub fn batches(self, result: &ResultDocument, rtt: bool) -> Option<[f64; 2]> {
        let (distribution, statistic) = self.0.statistic()?;
        let quantity::Times::Latency(latency) = distribution.times(result, None)? else { return None };
        let interval = match statistic {
            Statistic::P50 => latency.p50_ci95_ns.map(|interval| interval.map(|ns| ns as f64)),
            Statistic::Mean => latency.mean_ci95_ns,
            _ => None,
        };
        let by = self.0.scale(result, rtt);
        interval.map(|interval| interval.map(|ns| ns * by))
    }
}

/// A word that is no quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown metric '{given}': use {accepted}")]
pub struct UnknownMetric {
    pub given: String,
    pub accepted: String,
}

impl FromStr for Metric {
    type Err = UnknownMetric;

    /// `median`, `jitter`, `rate`, `tps` and `bps` are taken too.
    fn from_str(text: &str) -> Result<Self, UnknownMetric> {
        const ALIASES: [(&str, &str); 5] =
            [("rate", "achieved"), ("tps", "transactions"), ("bps", "bits"), ("jitter", "stdev"), ("median", "p50")];
        let (view, last) = text.rsplit_once('.').map_or(("", text), |(view, last)| (view, last));
        let own = ALIASES
            .iter()
            .find(|(alias, word)| *alias == last && (view.is_empty() || word.parse::<Statistic>().is_ok()));
        let word = own
            .map_or_else(|| text.to_owned(), |(_, word)| format!("{view}.{word}").trim_start_matches('.').to_owned());
        Self::all()
            .find(|metric| metric.0.id == word)
            .ok_or_else(|| UnknownMetric { given: text.to_owned(), accepted: Self::accepted() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_there_and_back() {
        assert!(Metric::defaults().len() > 20);
        for metric in Metric::all() {
            assert_eq!(metric.to_string().parse::<Metric>().unwrap(), metric);
        }
        for (alias, word) in [("jitter", "stdev"), ("intended.median", "intended.p50"), ("tps", "transactions")] {
            assert_eq!(alias.parse::<Metric>().unwrap().to_string(), word);
        }
        for known in ["intended.p99.99", "up.retransmits", "down.rfc3550-jitter", "initiator.demand", "reorder-depth"] {
            assert_eq!(known.parse::<Metric>().unwrap().to_string(), known);
        }
        for wrong in ["", "p98", "P99", "intended", "intended.", "wanted.p99", "p99 ", "passes"] {
            let error = wrong.parse::<Metric>().unwrap_err().to_string();
            assert!(error.contains("p99.9") && error.contains("transactions") && !error.contains('\n'), "{error}");
        }
    }
}
