//! Which causes make the tail of a cell, and what it would be without each.

use crate::message::Explained;
use model::{Blame, CauseClass};
use stats::Histogram;
use std::collections::BTreeMap;

/// Quantiles that the table predicts.
const QUANTILES: [f64; 2] = [0.99, 0.999];

type Key = (CauseClass, Option<String>, String);

/// The table of a cell, the cause that cost most first. `rtts` are all round trips, of which `late` took longer than `over_ns`.
pub fn blame_table(late: &[Explained], rtts: &Histogram, over_ns: u64) -> Vec<Blame> {
    let mut rows: BTreeMap<Key, (u64, u64, u64)> = BTreeMap::new();
    for message in late {
        for (key, ns) in by_key(message) {
            let row = rows.entry(key).or_default();
            *row = (row.0 + 1, row.1 + ns, row.2.max(ns));
        }
    }
    let all_ns: u64 = rows.values().map(|row| row.1).sum();
    let mut table: Vec<Blame> = rows
        .into_iter()
        .map(|(key, (messages, lost_ns, worst_ns))| {
            let removable = matches!(key.0.removal(), model::Removal::Here(_) | model::Removal::Elsewhere(_));
            let without_ns = removable.then(|| without(&key, late, rtts, over_ns));
            let (p99_without_ns, p99_9_without_ns) = without_ns.map(|[p99, p99_9]| (p99, p99_9)).unzip();
            #[expect(clippy::cast_precision_loss, reason = "a share")]
            let share = lost_ns as f64 / all_ns.max(1) as f64;
            let (class, name, host) = key;
            Blame { class, name, host, messages, lost_ns, share, worst_ns, p99_without_ns, p99_9_without_ns }
        })
        .collect();
    table.sort_by(|a, b| b.lost_ns.cmp(&a.lost_ns).then_with(|| a.class.cmp(&b.class)));
    table
}

fn by_key(message: &Explained) -> BTreeMap<Key, u64> {
    let mut keys = BTreeMap::new();
    for cause in &message.causes {
        *keys.entry((cause.class, cause.name.clone(), cause.host.clone())).or_default() += cause.ns;
    }
    keys
}

/// The quantiles if no message had lost anything to this cause.
fn without(key: &Key, late: &[Explained], rtts: &Histogram, over_ns: u64) -> [u64; 2] {
    let lost = |message: &Explained| -> u64 {
        let of_it = |cause: &&model::Cause| (cause.class, &cause.name, &cause.host) == (key.0, &key.1, &key.2);
        message.causes.iter().filter(of_it).map(|cause| cause.ns).sum()
    };
    let mut rest: Vec<u64> = late.iter().map(|message| message.rtt_ns.saturating_sub(lost(message))).collect();
    rest.sort_unstable_by(|a, b| b.cmp(a));
    QUANTILES.map(|q| {
        let above = rtts.count() - stats::rank(q, rtts.count());
        let place = usize::try_from(above).unwrap_or(usize::MAX);
        match rest.get(place).copied().filter(|ns| *ns > over_ns) {
            Some(ns) => ns,
            None => below(&rest, rtts, over_ns, above),
        }
    })
}

/// The time that `above` messages exceed, where it is not over the threshold: of all below it, and of the late ones that come down.
fn below(rest: &[u64], rtts: &Histogram, over_ns: u64, above: u64) -> u64 {
    let late = u64::try_from(rest.len()).unwrap_or(u64::MAX);
    let exceeding = |ns: u64| {
        let of_late = u64::try_from(rest.partition_point(|one| *one > ns)).unwrap_or(u64::MAX);
        of_late + rtts.count_above(ns).saturating_sub(late)
    };
    let (mut low, mut high) = (0, over_ns);
    while low < high {
        let middle = low + (high - low) / 2;
        if exceeding(middle) > above { low = middle + 1 } else { high = middle }
    }
    low
}
