//! The interval of the median covers the truth: a fast, seeded part of `--example coverage`.

#![allow(dead_code, reason = "the example uses more of the series")]

#[path = "../examples/coverage/series.rs"]
mod series;

use series::{Series, coverage, median};

#[test]
fn intervals_of_the_median_cover_the_truth() {
    for (series, count, runs) in [
        (Series::Independent(0.02), 2_000, 200),
        (Series::Independent(0.1), 2_000, 200),
        (Series::Independent(0.3), 2_000, 200),
        (Series::Independent(0.1), 100_000, 40),
        (Series::Autoregressive(0.9), 2_000, 200),
        (Series::Autoregressive(0.9), 20_000, 100),
        (Series::Autoregressive(0.99), 20_000, 100),
        (Series::Autoregressive(0.999), 100_000, 40),
    ] {
        let found = coverage(series, 10_000.0, count, runs);
        assert!(found.known * 10 >= runs * 8, "{series}, {count}: {found:?}");
        assert!(found.share() >= 0.88, "{series}, {count}: {found:?}");
    }
}

#[test]
fn stalls_and_states_are_covered() {
    let found = coverage(Series::Stalls, median_of(Series::Stalls), 20_000, 100);
    assert!(found.known >= 95 && found.share() >= 0.88, "{found:?}");
    let found = coverage(Series::TwoStates, median_of(Series::TwoStates), 100_000, 40);
    assert!(found.known >= 10 && found.share() >= 0.85, "{found:?}");
}

/// From the definition of the series, and not from another simulation of it.
fn median_of(series: Series) -> f64 {
    match series {
        // 1.48 % of the messages are in a stall; of the others 0.75 % more than half lie below the median.
        Series::Stalls => 10_003.8,
        series => median(series),
    }
}

#[test]
fn a_run_that_is_too_short_has_no_interval() {
    let found = coverage(Series::Autoregressive(0.9999), 10_000.0, 2_000, 100);
    assert!(found.known <= 5, "{found:?}");
}
