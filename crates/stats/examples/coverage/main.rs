//! The coverage of the interval of the median, as the table of docs/measuring.md: `cargo run --release -p windhover-stats
//! --example coverage [RUNS]`. Takes some minutes.

#![allow(clippy::print_stdout, reason = "an example's output")]

#[path = "../../tests/series/mod.rs"]
mod series;

fn main() {
    let runs = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(400_u32);
    println!(
        "| series | messages | runs with an interval | covered | of all runs: wrong | saw one state only | mean width |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|");
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    for series in series::ALL {
        let truth = series::median(series);
        for count in [2_000, 20_000, 200_000, 1_000_000] {
            let runs = if count < 1_000_000 { runs } else { runs / 2 };
            let found = series::coverage(series, truth, count, runs);
            let (share, width) = match found.known {
                0 => ("too short".to_owned(), "-".to_owned()),
                known => (percent(found.share()), format!("{:.2} %", found.width * 100.0 / f64::from(known))),
            };
            let (given, wrong) = (percent(found.given()), percent(found.wrong()));
            let blind = percent(f64::from(found.blind) / f64::from(found.runs));
            println!("| {series} | {count} | {given} | {share} | {wrong} | {blind} | {width} |");
        }
    }
}
