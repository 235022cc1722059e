//! The interval of the median covers the truth: a fast, seeded part of `--example coverage`.

#![allow(dead_code, reason = "the example uses more of the series")]

mod series;

use series::{Coverage, Series, coverage, median};

/// An interval covers the truth in at least 90 % of the runs that have one. Seeds are fixed, so there is no allowance for
/// chance.
fn checked(series: Series, truth: f64, count: u32, runs: u32) -> Coverage {
    let found = coverage(series, truth, count, runs);
    assert!(found.known == 0 || found.share() >= 0.90, "{series}, {count}: {found:?}");
    found
}

#[test]
fn intervals_of_the_median_cover_the_truth() {
    for (series, count, runs) in [
        (Series::Independent(0.1), 100_000, 60),
        (Series::Autoregressive(0.9), 2_000, 400),
        (Series::Autoregressive(0.9), 20_000, 100),
        (Series::Autoregressive(0.99), 20_000, 100),
        (Series::Autoregressive(0.999), 200_000, 40),
    ] {
        let found = checked(series, 10_000.0, count, runs);
        assert!(found.given() >= 0.9, "{series}, {count}: {found:?}");
    }
}

#[test]
fn independent_messages_have_an_interval_from_2000_on() {
    for spread in [0.02, 0.1, 0.3] {
        let found = checked(Series::Independent(spread), 10_000.0, 2_000, 400);
        assert!(found.given() >= 0.99, "{spread}: {found:?}");
    }
}

#[test]
fn stalls_and_states_are_covered() {
    assert!(checked(Series::Stalls, median_of(Series::Stalls), 20_000, 100).given() >= 0.95);
    let truth = median_of(Series::TwoStates);
    assert!(checked(Series::TwoStates, truth, 200_000, 100).given() >= 0.9);
    checked(Series::TwoStates, truth, 20_000, 200);
    // What a run of 2,000 messages saw of the second state is like a stall, and a stall must not take its interval away.
    assert!(coverage(Series::TwoStates, truth, 2_000, 400).wrong() <= 0.10);
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
    // The dependence of 20,000 messages leaves about 10 independent ones at 0.999 and 1 at 0.9999.
    for (by, count, most) in [(0.99, 2_000, 0.02), (0.999, 20_000, 0.02), (0.9999, 2_000, 0.02), (0.9999, 20_000, 0.02)]
    {
        let found = checked(Series::Autoregressive(by), 10_000.0, count, 200);
        assert!(found.given() <= most, "{by}, {count}: {found:?}");
    }
}
