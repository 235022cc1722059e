//! The stored histograms of a cell's repetitions, merged. They hold RTT in ns, with 3 significant digits.

use stats::Histogram;

/// The merged histogram of a cell.
#[derive(Debug)]
pub(crate) struct Tail {
    histogram: Histogram,
}

impl Tail {
    /// Merges stored histograms; `None` when there is none. Damaged ones are left out and counted.
    pub(crate) fn merged<'a>(stored: impl Iterator<Item = &'a str>) -> (Option<Self>, usize) {
        let mut merged: Option<Histogram> = None;
        let mut damaged = 0;
        for text in stored {
            match (Histogram::from_base64_v2(text), &mut merged) {
                (Ok(histogram), None) => merged = Some(histogram),
                (Ok(histogram), Some(whole)) => whole.merge(&histogram),
                (Err(_), _) => damaged += 1,
            }
        }
        (merged.map(|histogram| Self { histogram }), damaged)
    }

    /// A quantile of RTT in ns; absent with fewer than 10 messages beyond it.
    pub(crate) fn quantile(&self, q: f64) -> Option<f64> {
        self.histogram.quantile_if_supported(q, Histogram::BEYOND).map(|ns| ns as f64)
    }

    /// A quantile however few messages lie beyond it, for formats that cannot leave it out.
    pub(crate) fn any_quantile(&self, q: f64) -> Option<f64> {
        self.histogram.quantile(q).map(|ns| ns as f64)
    }

    /// Recorded values of RTT in ns with their counts, ascending.
    pub(crate) fn points(&self) -> Vec<(u64, u64)> {
        self.histogram.iter_recorded().map(|bucket| (bucket.high_ns, bucket.count)).collect()
    }
}
