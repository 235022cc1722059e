//! Histograms of other tools: bins of equal width, and what lies beyond them.

use model::{Latency, LatencyKind};
use stats::{Histogram, rank};

#[derive(Debug, Clone, Default)]
pub(crate) struct Bins {
    /// The least value of each bin in ns, ascending, and how many values are in it.
    pub(crate) bins: Vec<(u64, u64)>,
    pub(crate) width_ns: u64,
    pub(crate) over: u64,
}

/// What the tool computed itself, as exact as it prints it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Own {
    pub(crate) min_ns: Option<u64>,
    pub(crate) max_ns: Option<u64>,
    pub(crate) mean_ns: Option<f64>,
}

pub(crate) fn nothing(kind: LatencyKind, count: u64) -> Latency {
    Latency { kind, count, ..Latency::default() }
}

/// Fills in a percentile, in percent, if results have it and enough values lie beyond it.
pub(crate) fn set_percentile(latency: &mut Latency, percent: f64, value_ns: Option<u64>) {
    if latency.count.saturating_sub(rank(percent / 100.0, latency.count)) < Histogram::BEYOND {
        return;
    }
    let fields = [
        (50.0, &mut latency.p50_ns),
        (90.0, &mut latency.p90_ns),
        (99.0, &mut latency.p99_ns),
        (99.9, &mut latency.p99_9_ns),
        (99.99, &mut latency.p99_99_ns),
        (99.999, &mut latency.p99_999_ns),
    ];
    if let Some((_, field)) = fields.into_iter().find(|(known, _)| (known - percent).abs() < 1e-9) {
        *field = value_ns;
    }
}

/// Of values that have to rise, the first that does not; in words.
pub(crate) fn falls<'a>(values: impl IntoIterator<Item = (&'a str, Option<u64>)>) -> Option<String> {
    let mut last: Option<(&str, u64)> = None;
    for (name, value) in values.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        if let Some((before, least)) = last.filter(|(_, least)| *least > value) {
            return Some(format!("{before} ({least} ns) is above {name} ({value} ns): the file contradicts itself"));
        }
        last = Some((name, value));
    }
    None
}

/// What of a distribution's figures cannot be together. `grain_ns`: how much a mean of bins may be below the smallest value.
pub(crate) fn contradicts(latency: &Latency, grain_ns: u64) -> Option<String> {
    let rising = [
        ("min", latency.min_ns),
        ("p50", latency.p50_ns),
        ("p90", latency.p90_ns),
        ("p99", latency.p99_ns),
        ("p99.9", latency.p99_9_ns),
        ("p99.99", latency.p99_99_ns),
        ("p99.999", latency.p99_999_ns),
        ("max", latency.max_ns),
    ];
    if let Some(why) = falls(rising) {
        return Some(why);
    }
    let (min, max) = (latency.min_ns.map_or(0.0, |ns| ns as f64), latency.max_ns.map_or(f64::INFINITY, |ns| ns as f64));
    // Means and smallest values may both be cut to a whole ns.
    let fits = |mean: &f64| (min - grain_ns as f64 - 1.0..=max + 1.0).contains(mean);
    if let Some(mean) = latency.mean_ns.filter(|mean| !fits(mean)) {
        return Some(format!("the mean ({mean:.0} ns) is not between min and max: the file contradicts itself"));
    }
    let range = max - latency.min_ns.map_or(0.0, |ns| ns as f64);
    let stdev = latency.stdev_ns.filter(|stdev| !(0.0..=range + grain_ns as f64 + 1.0).contains(stdev))?;
    Some(format!("the standard deviation ({stdev:.0} ns) is above max less min: the file contradicts itself"))
}

impl Bins {
    pub(crate) fn add(&mut self, at_ns: u64, count: u64) {
        match self.bins.binary_search_by_key(&at_ns, |(known, _)| *known) {
            Ok(place) => {
                if let Some((_, known)) = self.bins.get_mut(place) {
                    *known = known.saturating_add(count);
                }
            }
            Err(place) => self.bins.insert(place, (at_ns, count)),
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        other.bins.iter().for_each(|(at, count)| self.add(*at, *count));
        self.over = self.over.saturating_add(other.over);
        self.width_ns = self.width_ns.max(other.width_ns);
    }

    pub(crate) fn inside(&self) -> u64 {
        self.bins.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    pub(crate) fn count(&self) -> u64 {
        self.inside().saturating_add(self.over)
    }

    /// What of the tool's own smallest and largest value does not lie in the bins that it should, in words.
    pub(crate) fn contradicts(&self, own: &Own) -> Option<String> {
        let (min, max) = own.min_ns.zip(own.max_ns)?;
        let mut full = self.bins.iter().filter(|(_, count)| *count > 0).map(|(at, _)| *at);
        let first = full.next()?;
        let last = full.next_back().unwrap_or(first);
        let within = |value: u64, at: u64| value >= at && value - at < self.width_ns.max(1);
        let why = match () {
            () if min > max => format!("min ({min} ns) is above max ({max} ns)"),
            () if !within(min, first) => format!("min is {min} ns, and the first bin with values is at {first} ns"),
            () if self.over == 0 && !within(max, last) => {
                format!("max is {max} ns, and the last bin with values is at {last} ns")
            }
            () if self.over > 0 && max < last => format!("max is {max} ns, and values lie at {last} ns and beyond"),
            () => return None,
        };
        Some(format!("{why}: the file contradicts itself"))
    }

    /// What is known of the distribution. A value counts as the least of its bin, within the tool's own extremes. A percentile
    /// beyond the last bin, and a standard deviation below the width of a bin, are not known.
    pub(crate) fn latency(&self, kind: LatencyKind, own: &Own) -> Latency {
        let mut latency = nothing(kind, self.count());
        let least = self.bins.iter().find(|(_, count)| *count > 0).map(|(at, _)| *at);
        let most = self.bins.iter().rev().find(|(_, count)| *count > 0).map(|(at, _)| *at).filter(|_| self.over == 0);
        latency.min_ns = own.min_ns.or(least);
        latency.max_ns = own.max_ns.or(most);
        let moments = self.moments().filter(|_| self.over == 0);
        latency.mean_ns = own.mean_ns.or(moments.map(|(mean, _)| mean));
        latency.stdev_ns = moments.and_then(|(_, stdev)| stdev).filter(|stdev| *stdev >= self.width_ns as f64);
        for percent in [50.0, 90.0, 99.0, 99.9, 99.99, 99.999] {
            set_percentile(&mut latency, percent, self.at(percent).map(|ns| self.within(ns, own)));
        }
        latency
    }

    /// The whole distribution; `None` where a part of it is not known.
    pub(crate) fn histogram(&self, own: &Own) -> Option<Histogram> {
        if self.over > 0 || self.bins.is_empty() {
            return None;
        }
        let mut histogram = Histogram::new();
        self.bins.iter().for_each(|(at, count)| histogram.record_n(self.within(*at, own), *count));
        Some(histogram)
    }

    /// A bin's value, not outside of what the tool saw.
    fn within(&self, ns: u64, own: &Own) -> u64 {
        ns.max(own.min_ns.unwrap_or(0)).min(own.max_ns.unwrap_or(u64::MAX))
    }

    /// The bin of a percentile, by the nearest rank.
    fn at(&self, percent: f64) -> Option<u64> {
        let mut left = rank(percent / 100.0, self.count());
        self.bins.iter().find_map(|(at, count)| {
            if *count >= left {
                return Some(*at);
            }
            left -= count;
            None
        })
    }

    /// Mean and sample standard deviation of the values within the bins.
    fn moments(&self) -> Option<(f64, Option<f64>)> {
        let count = self.inside();
        if count == 0 {
            return None;
        }
        let total = count as f64;
        let mean = self.bins.iter().map(|(at, count)| *at as f64 * (*count as f64 / total)).sum::<f64>();
        let squares: f64 = self.bins.iter().map(|(at, count)| *count as f64 * (*at as f64 - mean).powi(2)).sum();
        Some((mean, (count > 1).then(|| (squares / (total - 1.0)).sqrt())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bins(all: &[(u64, u64)], over: u64) -> Bins {
        Bins { bins: all.to_vec(), width_ns: 1000, over }
    }

    #[test]
    fn figures_of_a_histogram() {
        let own = Own { min_ns: Some(1234), max_ns: Some(9876), mean_ns: None };
        let all = bins(&[(1000, 900), (5000, 80), (9000, 20)], 0);
        let latency = all.latency(LatencyKind::WakeUp, &own);
        assert_eq!((latency.count, latency.min_ns, latency.max_ns), (1000, Some(1234), Some(9876)));
        assert_eq!((latency.p50_ns, latency.p90_ns, latency.p99_ns), (Some(1234), Some(1234), Some(9000)));
        assert_eq!(latency.p99_9_ns, None, "one value lies beyond it");
        assert!((latency.mean_ns.unwrap() - 1480.0).abs() < 1e-6);
        assert!((latency.stdev_ns.unwrap() - 1_527.07).abs() < 0.01, "{latency:?}");
        assert_eq!(all.histogram(&own).unwrap().count(), 1000);
    }

    #[test]
    fn what_lies_beyond_the_bins_is_not_known() {
        let all = bins(&[(1000, 900)], 100);
        let latency = all.latency(LatencyKind::WakeUp, &Own::default());
        assert_eq!(
            (latency.count, latency.p50_ns, latency.p90_ns, latency.p99_ns),
            (1000, Some(1000), Some(1000), None)
        );
        assert_eq!((latency.mean_ns, latency.stdev_ns, latency.max_ns), (None, None, None));
        assert!(all.histogram(&Own::default()).is_none());
        let own = Own { max_ns: Some(77_000), mean_ns: Some(3000.0), ..Own::default() };
        let latency = all.latency(LatencyKind::WakeUp, &own);
        assert_eq!((latency.mean_ns, latency.stdev_ns, latency.max_ns), (Some(3000.0), None, Some(77_000)));
    }

    #[test]
    fn a_deviation_below_the_bins_is_not_known() {
        let narrow = bins(&[(1000, 500), (2000, 500)], 0).latency(LatencyKind::WakeUp, &Own::default());
        assert_eq!(narrow.stdev_ns, None, "500 ns in bins of 1000");
        let wide = bins(&[(1000, 500), (5000, 500)], 0).latency(LatencyKind::WakeUp, &Own::default());
        assert!((wide.stdev_ns.unwrap() - 2001.0).abs() < 1.0);
    }

    #[test]
    fn bins_add_up() {
        let mut all = bins(&[(1000, 1), (3000, 1)], 1);
        all.merge(&bins(&[(2000, 5), (3000, 2)], 2));
        assert_eq!(all.bins, [(1000, 1), (2000, 5), (3000, 3)]);
        assert_eq!((all.over, all.count()), (3, 12));
    }
}
