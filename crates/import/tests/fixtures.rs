//! Each tool's files: the figures that they hold, and nothing that they do not. They are the corpus of the fuzz target, too:
//!
//! | file | from |
//! |---|---|
//! | `cyclictest-*` | rt-tests 2.4 of Debian 12, run for it |
//! | `sockperf-*` | sockperf 3.7 of Debian 12, run for it over loopback |
//! | `rtla-*` | written by the format in the kernel's documentation and source (tools/tracing/rtla) |
//! | `latmus-*` | written by the format of libevl's latmus (its source and an output in its documentation): no EVL kernel was at hand |
//! | `latency-*` | written by the format of Xenomai 3's latency (its source) |
//! | `sfnt-udp.txt` | written by the format of sfnt-pingpong 1.6.0; `windhover pingpong --format sfnt` is a second source in the tests |
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_truncation, reason = "tests panic, on 64 bits")]

use import::{FORMATS, Hints, Imported};
use model::{FindingId, Latency, LatencyKind, Probe, ResultDocument};
use stats::Histogram;

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/../../fuzz/corpus/import_file/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn read_bytes(tool: &str, bytes: &[u8], hints: &Hints) -> Result<Imported, String> {
    let format = FORMATS.iter().find(|format| format.word == tool).unwrap();
    import::read(format, "f.txt", bytes, hints).map_err(|error| error.to_string())
}

fn read(tool: &str, name: &str) -> Imported {
    read_bytes(tool, &fixture(name), &Hints::default()).unwrap()
}

fn only(imported: &Imported) -> &ResultDocument {
    assert_eq!(imported.results.len(), 1);
    &imported.results[0].result
}

fn latency(result: &ResultDocument) -> &Latency {
    result.latency.as_ref().unwrap()
}

fn finding(result: &ResultDocument, id: FindingId) -> &str {
    &result.verdict.disturbed.iter().find(|finding| finding.id == id).unwrap().detail
}

#[track_caller]
fn refused(tool: &str, text: &str, line: usize, words: &str) {
    let error = read_bytes(tool, text.as_bytes(), &Hints::default()).unwrap_err();
    assert!(error.starts_with(&format!("f.txt:{line}: ")) && error.contains(words) && !error.contains('\n'), "{error}");
}

/// Catches: `import latmus` knew the file of Xenomai's `latency -g` and refused that of libevl's `latmus -g`.
#[test]
fn latmus_and_latency_histograms() {
    for (tool, name) in [("latmus", "latmus-user.txt"), ("latency", "latency-user.txt")] {
        let imported = read(tool, name);
        let result = only(&imported);
        let latency = latency(result);
        assert_eq!((result.probe, latency.kind, latency.count), (Probe::Wake, LatencyKind::WakeUp, 9995));
        assert_eq!((latency.min_ns, latency.p50_ns, latency.p99_ns), (Some(843), Some(1000), Some(3000)));
        assert_eq!((latency.max_ns, latency.mean_ns), (Some(14_417), Some(1922.0)));
        assert_eq!((latency.p99_9_ns, latency.stdev_ns), (None, None), "9 values beyond it; a deviation below 1 µs");
        let wake = result.wake.as_ref().unwrap();
        assert_eq!((wake.interval_ns, wake.missed, wake.timer_slack_ns), (Some(1_000_000), Some(0), None));
        assert_eq!(
            (result.factor("policy").as_deref(), result.factor("context").as_deref()),
            (Some("fifo:90"), Some("user"))
        );
        assert_eq!(result.factor("source").unwrap(), format!("imported:{tool}"));
        assert_eq!(result.elapsed_ns, 10_000_000_000);
        assert_eq!(Histogram::from_base64_v2(result.histogram.as_ref().unwrap()).unwrap().count(), 9995);
        assert!(finding(result, FindingId::Imported).contains("read from f.txt"));
    }
    let imported = read("latmus", "latmus-user.txt");
    assert_eq!(imported.machine.as_ref().unwrap().kernel_release.as_deref(), Some("6.6.30-evl+"));
    assert!(only(&imported).source.as_ref().unwrap().version.as_ref().unwrap().starts_with("evl.48"));
}

#[test]
fn the_last_cell_of_latmus_and_latency_is_saturated() {
    for (tool, name) in [("latmus", "latmus-saturated.txt"), ("latency", "latency-saturated.txt")] {
        let imported = read(tool, name);
        let result = only(&imported);
        let latency = latency(result);
        assert_eq!((latency.count, latency.p99_9_ns, latency.max_ns), (60_000, Some(3000), Some(318_002)));
        assert_eq!((latency.min_ns, latency.stdev_ns, &result.histogram), (None, None, &None));
        assert_eq!(latency.p99_99_ns, None, "it is among the 40 values of the last cell");
        assert_eq!(result.source.as_ref().unwrap().overflowed, Some(40));
        assert_eq!(result.wake.as_ref().unwrap().missed, Some(2));
        assert!(finding(result, FindingId::BinsOverflowed).starts_with("40 values"));
        assert!(finding(result, FindingId::Imported).contains("before their time"));
        assert_eq!(result.factor("policy"), None, "interrupts have none");
    }
}

#[test]
fn latmus_may_have_several_distributions() {
    let imported = read("latmus", "latmus-several.txt");
    let [rx, tx] = imported.results.as_slice() else { panic!("{}", imported.results.len()) };
    let facts = |result: &ResultDocument| {
        let latency = latency(result);
        (
            result.factor("context").unwrap(),
            latency.count,
            latency.p50_ns,
            latency.max_ns,
            result.wake.as_ref().unwrap().missed,
        )
    };
    assert_eq!(facts(&rx.result), ("net/rx".to_owned(), 1000, Some(2000), Some(9100), Some(0)));
    assert_eq!(facts(&tx.result), ("net/tx".to_owned(), 2000, Some(3000), Some(4900), Some(1)));
    let said = finding(&rx.result, FindingId::Imported);
    assert!(said.contains("3 switches") && said.contains("degraded mode"), "{said}");
}

/// Catches: 9 of 34 files that contradict themselves were imported.
#[test]
fn files_that_contradict_themselves_are_refused() {
    let of = |name: &str| String::from_utf8(fixture(name)).unwrap();
    let replaced = |name: &str, from: &str, to: &str| {
        let text = of(name);
        assert!(text.contains(from), "{from} is not in {name}");
        text.replacen(from, to, 1)
    };
    let among = |name: &str, from: &str| replaced(name, from, &format!("and then the machine was rebooted\n{from}"));
    let cases = [
        ("latmus", replaced("latmus-user.txt", "min latency: 0.843", "min latency: 20.0"), "min 20.0"),
        ("latmus", replaced("latmus-user.txt", "avg latency: 1.922", "avg latency: nan"), "avg 'nan'"),
        ("latmus", replaced("latmus-user.txt", "avg latency: 1.922", "avg latency: 99.0"), "the mean"),
        ("latmus", replaced("latmus-user.txt", "max latency: 14.417", "max latency: 9.0"), "last bin"),
        ("latmus", replaced("latmus-user.txt", "min latency: 0.843", "min latency: 5.0"), "first bin"),
        ("latmus", replaced("latmus-saturated.txt", "count: 60000", "count: 60001"), "rows are missing"),
        ("latmus", among("latmus-user.txt", "3 160"), "count 'then'"),
        ("latmus", replaced("latmus-user.txt", "3 160", "3 160 7"), "no row"),
        ("latmus", replaced("latmus-user.txt", "RTT|", "It was late. RTT|"), "no file of libevl"),
        ("latmus", of("latency-user.txt"), "windhover import latency"),
        ("latency", of("latmus-user.txt"), "windhover import latmus"),
        ("latency", replaced("latency-user.txt", "0.843|", "20.843|"), "min 20.843"),
        ("latency", replaced("latency-user.txt", "1.922|", "nan|"), "avg 'nan'"),
        ("latency", among("latency-user.txt", "3.5 161"), "no row"),
        (
            "cyclictest",
            replaced("cyclictest-hist.txt", "# Min Latencies: 00020", "# Min Latencies: 00021"),
            "first bin",
        ),
        (
            "cyclictest",
            replaced("cyclictest-hist.txt", "# Max Latencies: 00439", "# Max Latencies: 00019"),
            "is above max",
        ),
        ("cyclictest", among("cyclictest-hist.txt", "000050 "), "no line of cyclictest"),
        ("cyclictest", among("cyclictest-verbose.txt", "       0:       7:"), "no line of cyclictest"),
        ("cyclictest", replaced("cyclictest.json", "\"cycles\": 2000", "\"cycles\": 5"), "'cycles' says 5"),
        ("rtla", among("rtla-hist.txt", "over:"), "no row"),
        ("sfnt", replaced("sfnt-udp.txt", "4851", "9851"), "min (9851 ns) is above median"),
        ("sfnt", replaced("sfnt-udp.txt", "6977", "96977"), "%ile (96977 ns) is above max"),
        ("sfnt", replaced("sfnt-udp.txt", "percentile=99", "percentile=nan"), "percentile 'nan'"),
        (
            "sockperf",
            replaced("sockperf-pingpong.txt", "<MIN> observation =    2.028", "<MIN> observation = 9.5"),
            "<MIN>",
        ),
        ("sockperf", replaced("sockperf-pingpong.txt", "99.990 = 3753.598", "99.990 = 9753.598"), "percentile 99.99"),
        ("sockperf", replaced("sockperf-pingpong.txt", "99.990 = 3753.598", "99.990 = nan"), "nan"),
        ("sockperf", replaced("sockperf-pingpong.txt", "percentile 99.990", "percentile nan"), "percentile 'nan'"),
        ("sockperf", replaced("sockperf-pingpong.txt", "avg-latency=7.702", "avg-latency=7702"), "the mean"),
        ("sockperf", replaced("sockperf-pingpong.txt", "std-dev=111.396", "std-dev=11139.6"), "standard deviation"),
        ("sockperf", replaced("sockperf-pingpong.txt", "Total 35745", "Total 45745"), "45745 observations"),
        ("sockperf", among("sockperf-pingpong.txt", "sockperf: ---> percentile 50"), "no observation of sockperf"),
    ];
    for (tool, text, words) in cases {
        let refused = read_bytes(tool, text.as_bytes(), &Hints::default());
        let error = refused.map(drop).expect_err(words);
        assert!(error.starts_with("f.txt:") && error.contains(words) && !error.contains('\n'), "{words}: {error}");
    }
}

#[test]
fn rtla_has_a_result_each_context() {
    let imported = read("rtla", "rtla-hist.txt");
    let [irq, thread] = imported.results.as_slice() else { panic!("{}", imported.results.len()) };
    let (irq, thread) = (&irq.result, &thread.result);
    assert_eq!((irq.factor("context").unwrap(), thread.factor("context").unwrap()), ("irq".into(), "thread".into()));
    let latency_of = |result| latency(result).clone();
    assert_eq!((latency_of(irq).count, latency_of(irq).max_ns), (20_000, Some(3000)));
    let both = latency_of(thread);
    assert_eq!((both.count, both.p50_ns, both.max_ns, both.stdev_ns), (20_000, Some(2000), Some(412_000), None));
    assert!(finding(thread, FindingId::BinsOverflowed).starts_with("10 values"));
    let threads = &thread.wake.as_ref().unwrap().threads;
    let names: Vec<(&str, u64)> = threads.iter().map(|one| (one.name.as_str(), one.latency.count)).collect();
    assert_eq!(names, [("CPU 0", 10_000), ("CPU 1", 10_000)]);
    assert_eq!((threads[0].latency.mean_ns, threads[1].latency.mean_ns.map(f64::round)), (Some(2000.0), Some(1112.0)));
    assert_eq!(thread.wake.as_ref().unwrap().interval_ns, None, "rtla does not print its period");
}

#[test]
fn rtla_in_nanoseconds_with_empty_columns() {
    let imported = read("rtla", "rtla-user.txt");
    let contexts: Vec<String> =
        imported.results.iter().map(|measured| measured.result.factor("context").unwrap()).collect();
    assert_eq!(contexts, ["irq", "thread"], "nothing returned to user space");
    let irq = &imported.results[0].result;
    assert_eq!((latency(irq).min_ns, latency(irq).p90_ns), (Some(1012), Some(1500)));
    assert_eq!(irq.source.as_ref().unwrap().bin_ns, Some(500));
    assert_eq!(irq.elapsed_ns, 1_000_000_000);
}

#[test]
fn sfnt_has_a_result_each_size() {
    let imported = read("sfnt", "sfnt-udp.txt");
    let sizes: Vec<u64> = imported.results.iter().map(|one| one.result.size().unwrap()).collect();
    assert_eq!(sizes, [0, 32, 1472]);
    let result = &imported.results[1].result;
    let figures = latency(result);
    assert_eq!((figures.kind, figures.count), (LatencyKind::RttHalf, 181_000));
    assert_eq!((figures.mean_ns, figures.stdev_ns), (Some(5603.0), Some(498.0)));
    let all = [figures.min_ns, figures.p50_ns, figures.p99_ns, figures.max_ns, figures.p99_9_ns];
    assert_eq!(all, [Some(4851), Some(5544), Some(6977), Some(58_711), None]);
    assert_eq!(latency(&imported.results[2].result).p99_ns, None, "9 of 900 lie beyond it");
    assert_eq!(result.factor("protocol").unwrap(), "udp");
    let machine = imported.machine.unwrap();
    assert_eq!(machine.kernel_release.as_deref(), Some("5.14.0-427.13.1.el9_4.x86_64"));
    assert_eq!(result.source.as_ref().unwrap().version.as_deref(), Some("1.6.0"));
}

#[test]
fn other_files_are_refused_with_their_line() {
    for format in &FORMATS {
        for text in ["", "hello\n", "{\"a\": 1}\n"] {
            let error = read_bytes(format.word, text.as_bytes(), &Hints::default()).unwrap_err();
            assert!(error.starts_with("f.txt:1: "), "{}: {error}", format.word);
        }
        assert!(read_bytes(format.word, b"a\n\xff", &Hints::default()).unwrap_err().starts_with("f.txt:2: "));
    }
    let latency = String::from_utf8(fixture("latency-user.txt")).unwrap();
    refused("latency", &latency.replace("3.5 161", "3.5 x"), 11, "count 'x' is no number");
    refused("latency", &latency.replace("(periodic user", "(moon"), 1, "this comment is not");
    refused("latency", latency.split_inclusive('\n').next().unwrap(), 1, "cut short");
    let latmus = String::from_utf8(fixture("latmus-user.txt")).unwrap();
    refused("latmus", &latmus.replace("3 160", "3 x"), 22, "count 'x' is no number");
    refused("latmus", &latmus.replace("context: user", "context: a moon"), 10, "this context");
    refused("latmus", latmus.split("\n0 712").next().unwrap(), 18, "cut short");
    refused("latmus", &latmus.replace("# max latency: 14.417\n", ""), 32, "max is missing");
    let rtla = String::from_utf8(fixture("rtla-hist.txt")).unwrap();
    refused("rtla", rtla.split("over:").next().unwrap(), 9, "cut short");
    refused("rtla", &rtla.replace("    9000        90       900", "    9000        90"), 7, "3 figures");
    refused(
        "rtla",
        &rtla.replace("    9000        90       900", "    9001        90       900"),
        19,
        "'count:' says 10000",
    );
    refused("rtla", &rtla.replace("timerlat", "osnoise"), 1, "rtla timerlat hist");
    refused("rtla", &rtla.replace("Index ", "# "), 5, "no heading");
    let sfnt = String::from_utf8(fixture("sfnt-udp.txt")).unwrap();
    refused("sfnt", &sfnt.replace("\t181000", ""), 13, "no row of sfnt-pingpong");
    refused("sfnt", &sfnt.replace("\t181000", "\t0"), 13, "iter is 0");
    refused("sfnt", &sfnt.replace("#\tsize", "#mps\tsize"), 11, "sfnt-stream");
}

#[test]
fn cyclictest_histograms() {
    let imported = read("cyclictest", "cyclictest-hist.txt");
    let result = only(&imported);
    let text = String::from_utf8(fixture("cyclictest-hist.txt")).unwrap();
    // By hand: both threads' counts of each row, and what the summary says.
    let told = |head: &str| -> Vec<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(head)).unwrap();
        line.split_whitespace().map(|word| word.parse().unwrap()).collect()
    };
    let rows = text.lines().filter(|line| line.starts_with('0')).map(|line| {
        let fields: Vec<u64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
        (fields[0], fields[1] + fields[2])
    });
    let mut values: Vec<u64> = rows.flat_map(|(at, count)| std::iter::repeat_n(at * 1000, count as usize)).collect();
    let over: u64 = told("# Histogram Overflows:").iter().sum();
    let all = values.len() as u64 + over;
    values.sort_unstable();
    let latency = latency(result);
    assert_eq!(latency.count, all);
    assert_eq!(latency.p50_ns, Some(values[all.div_ceil(2) as usize - 1]));
    assert_eq!(latency.p90_ns, Some(values[(all * 9).div_ceil(10) as usize - 1]));
    assert_eq!(latency.min_ns, told("# Min Latencies:").into_iter().min().map(|us| us * 1000));
    assert_eq!(latency.max_ns, told("# Max Latencies:").into_iter().max().map(|us| us * 1000));
    let threads = &result.wake.as_ref().unwrap().threads;
    assert_eq!(threads.iter().map(|one| one.latency.count).sum::<u64>(), all);
    assert_eq!((threads.len(), threads[0].missed), (2, None));
    assert_eq!((result.source.as_ref().unwrap().bin_ns, result.factor("policy")), (Some(1000), None));
    assert_eq!(result.histogram.is_some(), over == 0);
}

#[test]
fn cyclictest_overflows_and_cut_files() {
    let imported = read("cyclictest", "cyclictest-over.txt");
    let result = only(&imported);
    let over = result.source.as_ref().unwrap().overflowed.unwrap();
    assert!(over > 15, "{over}");
    assert_eq!((latency(result).count, latency(result).p99_ns, latency(result).stdev_ns), (1500, None, None));
    assert!(latency(result).max_ns.unwrap() >= 36_000 && latency(result).mean_ns.is_some());
    let text = String::from_utf8(fixture("cyclictest-over.txt")).unwrap();
    let cut = text.split("# Total").next().unwrap();
    refused("cyclictest", cut, cut.lines().count(), "cut short");
    let row = text.lines().position(|line| line.starts_with('0') && !line.ends_with("000000")).unwrap();
    let without: Vec<&str> = text.lines().enumerate().filter(|(at, _)| *at != row).map(|(_, line)| line).collect();
    let error = read_bytes("cyclictest", without.join("\n").as_bytes(), &Hints::default()).unwrap_err();
    assert!(error.contains("rows are missing"), "{error}");
    let row = text.lines().nth(row).unwrap();
    refused(
        "cyclictest",
        &text.replace(row, &format!("{row} 1 1")),
        1 + text.lines().position(|line| line == row).unwrap(),
        "3 counts",
    );
    let ns = read_bytes("cyclictest", text.as_bytes(), &Hints { nanoseconds: true, ..Hints::default() }).unwrap();
    assert_eq!(latency(only(&ns)).max_ns.map(|ns| ns * 1000), latency(result).max_ns, "cyclictest -N");
}

#[test]
fn cyclictest_in_json() {
    let imported = read("cyclictest", "cyclictest.json");
    let result = only(&imported);
    assert_eq!((latency(result).count, result.factor("policy").as_deref()), (4000, Some("fifo:80")));
    assert_eq!(result.wake.as_ref().unwrap().interval_ns, Some(500_000));
    assert_eq!(result.source.as_ref().unwrap().version.as_deref(), Some("2.40"));
    assert!(imported.machine.unwrap().kernel_release.is_some());
    let text = String::from_utf8(fixture("cyclictest.json")).unwrap();
    let cut: String = text.lines().take(20).collect::<Vec<_>>().join("\n");
    refused("cyclictest", &cut, 20, "no JSON of cyclictest");
    refused("cyclictest", &text.replace("\"thread\"", "\"threads\""), text.lines().count(), "no 'thread'");
}

#[test]
fn cyclictest_lines_and_summaries() {
    let imported = read("cyclictest", "cyclictest-verbose.txt");
    let measured = &imported.results[0];
    let text = String::from_utf8(fixture("cyclictest-verbose.txt")).unwrap();
    let values: Vec<u64> = text
        .lines()
        .filter(|line| line.trim_start().starts_with("0:"))
        .map(|line| line.rsplit(':').next().unwrap().trim().parse::<u64>().unwrap() * 1000)
        .collect();
    let latency_of = latency(&measured.result);
    assert_eq!((latency_of.count, latency_of.max_ns), (values.len() as u64, values.iter().max().copied()));
    let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
    assert!((latency_of.mean_ns.unwrap() - mean).abs() < 1e-6 && latency_of.stdev_ns.is_some());
    assert!(measured.hlog.contains("Tag=wake_up") && !measured.outliers.is_empty(), "their order is known");
    refused("cyclictest", &text.replace("       0:       7:", "       0:       9:"), 12, "without -o");
    let imported = read("cyclictest", "cyclictest-summary.txt");
    let result = only(&imported);
    assert_eq!((latency(result).count, latency(result).p50_ns), (1592, None));
    assert_eq!((latency(result).min_ns, latency(result).max_ns), (Some(16_000), Some(5_630_000)));
    assert_eq!(result.wake.as_ref().unwrap().interval_ns, None, "the threads have different ones");
}

#[test]
fn sockperf_summaries() {
    let imported = read("sockperf", "sockperf-pingpong.txt");
    let result = only(&imported);
    let figures = latency(result);
    assert_eq!((result.probe, figures.kind, figures.count), (Probe::Pingpong, LatencyKind::RttHalf, 35_745));
    assert_eq!((figures.mean_ns, figures.stdev_ns), (Some(7702.0), Some(111_396.0)));
    let all = [figures.min_ns, figures.p50_ns, figures.p90_ns, figures.p99_ns, figures.p99_9_ns, figures.max_ns];
    assert_eq!(all, [2028, 2121, 2267, 3760, 1_872_513, 5_463_273].map(Some));
    assert_eq!((figures.p99_99_ns, figures.p99_999_ns), (None, None), "3 and no values lie beyond them");
    assert_eq!((result.messages.lost, result.messages.sent, result.elapsed_ns), (0, 35_745, 552_000_000));
    assert_eq!((result.factor("protocol").as_deref(), result.size()), (Some("udp"), None));
    assert_eq!(result.source.as_ref().unwrap().version.as_deref(), Some("3.7-no.git"));
    let imported = read("sockperf", "sockperf-underload.txt");
    let result = only(&imported);
    assert_eq!((result.probe, latency(result).kind, latency(result).count), (Probe::Pace, LatencyKind::Rtt, 9));
    assert_eq!((result.messages.lost, latency(result).p50_ns), (0, None), "one message in 100 asked for an answer");
}

#[test]
fn sockperf_full_logs() {
    let imported = read("sockperf", "sockperf-full.csv");
    let measured = &imported.results[0];
    let text = String::from_utf8(fixture("sockperf-full.csv")).unwrap();
    let figure = |name: &str| -> f64 {
        let line = text.lines().find(|line| line.contains(name)).unwrap();
        line.rsplit('=').next().unwrap().trim().parse().unwrap()
    };
    let result = &measured.result;
    let (figures, rows) = (latency(result), text.lines().filter(|line| line.matches(", ").count() == 3).count() - 1);
    assert_eq!((figures.count, result.size(), result.probe), (rows as u64, Some(32), Probe::Pingpong));
    // As sockperf computes them itself: to its last digit, and to the histogram's three.
    let close = |ours: Option<u64>, its: f64, by: f64| (ours.unwrap() as f64 / (its * 1000.0) - 1.0).abs() < by;
    assert!(
        close(figures.min_ns, figure("<MIN>"), 5e-4) && close(figures.max_ns, figure("<MAX>"), 5e-4),
        "{figures:?}"
    );
    assert!(close(figures.p50_ns, figure("percentile 50.000"), 3e-3), "{figures:?}");
    assert!(close(figures.p90_ns, figure("percentile 90.000"), 3e-3), "{figures:?}");
    assert!(figures.stdev_ns.is_some() && measured.hlog.contains("Tag=rtt") && !measured.outliers.is_empty());
    let cut: String = text.lines().take(60).collect::<Vec<_>>().join("\n");
    refused("sockperf", &cut, 60, "cut short");
    let swapped = text.replacen("\n1, ", "\n1, 9", 1);
    let line = 1 + text.lines().position(|line| line.starts_with("1, ")).unwrap();
    refused("sockperf", &swapped, line, "received before it was sent");
}
