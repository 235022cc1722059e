use super::*;
use crate::{Histogram, SplitMix64};

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
fn whole(ns: f64) -> u64 {
    ns as u64
}

fn feed(values: impl Iterator<Item = u64>) -> (BatchIntervals, Histogram) {
    let mut batches = BatchIntervals::new();
    let mut histogram = Histogram::new();
    for value in values {
        batches.push(value);
        histogram.record(value);
    }
    (batches, histogram)
}

/// Catches: values behind the last whole block that the mean leaves out.
#[test]
fn the_interval_of_the_mean_is_about_the_mean_of_all() {
    let mut random = SplitMix64::new(5);
    for count in [1_000, 4_095, 4_096, 4_097, 4_100, 8_191, 10_017] {
        let mut values: Vec<u64> = (0..count).map(|_| 9_000 + random.next_u64() % 1_000).collect();
        // The last ones move the mean.
        values.iter_mut().rev().take(7).for_each(|value| *value += 500_000);
        let (batches, _) = feed(values.iter().copied());
        let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
        if let Some([low, high]) = batches.mean_interval().filter(|[low, _]| *low > 0.0) {
            assert!((f64::midpoint(low, high) - mean).abs() < 1e-6 * mean, "{count}: {low} {high} {mean}");
        } else {
            assert!(count < 8_191, "{count}: no interval");
        }
    }
}

#[test]
fn keeps_64_to_128_batches_of_all_values() {
    for count in [4097_u64, 8192, 8256, 100_000, 1_000_000] {
        let (batches, _) = feed((0..count).map(|at| at % 100));
        assert!((FEWEST..=MOST).contains(&batches.filled), "{count}: {}", batches.filled);
        let covered = (batches.filled as u64 * batches.length + batches.blocks_in_current) * BLOCK as u64
            + batches.count % BLOCK as u64;
        assert_eq!(covered, count);
    }
}

#[test]
fn joining_keeps_sums_and_counts_exact() {
    let (batches, _) = feed(0..64 * 64 * 4);
    let length = batches.length * BLOCK as u64;
    for (at, batch) in batches.complete().enumerate() {
        let first = at as u64 * length;
        assert_eq!(batch.sum, (u128::from(first) * 2 + u128::from(length) - 1) * u128::from(length) / 2);
        // Of a ramp the mean of the blocks' middles is the median.
        assert_eq!(batch.middles * u128::from(length), batch.sum * MIDDLES * u128::from(batches.length));
        for (place, level) in batches.levels.all().iter().enumerate() {
            let below = (level + 1).saturating_sub(first).min(length);
            assert_eq!(batch.below(place), below, "at or below {level} of {length} from {first}");
        }
    }
}

#[test]
fn too_few_give_none() {
    let of = |count: u64| {
        let (batches, histogram) = feed((0..count).map(|at| at * 7 % 11));
        (batches.mean_interval().is_some(), batches.median_interval(|q| histogram.bucket_at(q)).err())
    };
    assert_eq!(of(9), (false, Some(NoInterval::Few)));
    assert_eq!(of(255), (true, Some(NoInterval::Few)));
    assert_eq!(of(256), (true, None));
    assert_eq!(BatchIntervals::new().recent_median(), None);
    // A ramp is one long dependence.
    let (batches, histogram) = feed(0..100_000);
    assert_eq!(batches.median_interval(|q| histogram.bucket_at(q)), Err(NoInterval::Short));
    assert_eq!(batches.mean_interval(), None);
}

/// Catches: blocks that are recorded otherwise than their values one by one, aligned or not.
#[test]
fn blocks_are_recorded_as_their_values_are() {
    for first in [0, 5] {
        let mut random = SplitMix64::new(8);
        let [mut whole, mut single] = [BatchIntervals::new(), BatchIntervals::new()];
        let [mut tally, mut each] = [Tally::new(), Tally::new()];
        let [mut moments, mut exact] = [crate::Moments::new(), crate::Moments::new()];
        (0..first).for_each(|value| [&mut whole, &mut single].into_iter().for_each(|one| one.push(value)));
        for spread in 0..1_000 {
            let values = std::array::from_fn(|_| random.next_u64() % (2 << (spread % 29)));
            let block = Block::new(values).unwrap();
            whole.push_block(&block);
            tally.record_block(&block);
            moments.add_block(&block);
            for value in values {
                single.push(value);
                each.record(value);
                exact.add(value);
            }
        }
        assert_eq!(format!("{whole:?}"), format!("{single:?}"));
        assert_eq!(format!("{tally:?}"), format!("{each:?}"));
        assert_eq!(moments, exact);
    }
    assert!(Block::new([Block::END; BLOCK]).is_none());
}

#[test]
fn middles_of_blocks() {
    let block = |value: fn(u64) -> u64| std::array::from_fn(|at| value(at as u64));
    assert_eq!(middles(&block(|_| 5)), 40);
    assert_eq!(middles(&block(|at| at)), 8 * 31 / 2);
    // Neither one in four nor eight in turn move it, however long they took.
    const LONG: u64 = u64::MAX / 64;
    assert_eq!(middles(&block(|at| if at % 4 == 1 { LONG } else { 7 })), 56);
    assert_eq!(middles(&block(|at| if (5..13).contains(&at) { LONG } else { 7 })), 56);
    assert_ne!(middles(&block(|at| if at < 16 { LONG } else { 7 })), 56);
}

#[test]
fn autocorrelation_by_hand() {
    let of = |values: &[f64]| {
        let spread = Spreads::of(values.iter().copied()).single;
        let (count, mean) = (values.len() as f64, values.iter().sum::<f64>() / values.len() as f64);
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let products: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
        let plain = products / squares;
        ((spread.autocorrelation()), (plain + (1.0 + 3.0 * plain) / count).clamp(0.0, 0.99))
    };
    let slow: Vec<f64> = (0..60).map(|at| 1e6 + f64::from(at / 9 % 3)).collect();
    for values in [&[1.0, 2.0, 4.0, 3.0, 5.0, 7.0][..], &slow] {
        let (found, expected) = of(values);
        assert!((found - expected).abs() < 1e-9 && found > 0.1, "{found} {expected}");
    }
    let turns: Vec<f64> = (0..40).map(|at| f64::from(at % 2)).collect();
    assert_eq!(of(&turns).0, 0.0);
}

#[test]
fn a_drift_away_from_every_level_keeps_an_interval() {
    // Half a second about 5 µs, then about 50 µs within 0.2 %: nothing lies near the levels of the beginning.
    let mut random = SplitMix64::new(3);
    let (batches, histogram) = feed((0..400_000).map(|at| {
        let about = if at < 5_000 { 5_000.0 } else { 50_000.0 };
        whole(about * (1.0 + 0.002 * random.unit()))
    }));
    let [low, high] = batches.median_interval(|q| histogram.bucket_at(q)).unwrap();
    assert!(low <= 50_050 && high >= 50_050 && high - low < 5_000, "{low} {high}");
}

#[test]
fn what_never_changes_has_its_bucket() {
    for count in [300, 10_000] {
        let (batches, histogram) = feed((0..count).map(|_| 7_000));
        assert_eq!(batches.median_interval(|q| histogram.bucket_at(q)), Ok([7_000, 7_000]));
    }
}

#[test]
fn pushing_and_asking_do_not_allocate() {
    let mut batches = BatchIntervals::new();
    let info = allocation_counter::measure(|| {
        for value in 0..50_000 {
            batches.push(value);
            if value % 1024 == 0 {
                let bucket = Bucket { low_ns: 1, high_ns: 1, count: 1 };
                std::hint::black_box((batches.mean_interval(), batches.median_interval(|_| Some(bucket)).is_ok()));
            }
        }
    });
    assert_eq!(info.count_total, 0);
}
