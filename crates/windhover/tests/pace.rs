//! Messages at a rate, end to end over loopback: what is measured, what is refused, what is kept when something fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use serde_json::Value;
use std::process::{Command, Output, Stdio};
use support::{
    Folder, Server, assert_code, assert_measured, assert_refused, assert_run_measured, documents, run, run_directory,
    stderr, stdout, windhover,
};

fn pace(arguments: &[&str]) -> Vec<Value> {
    let output = run(&[&["pace"], arguments, &["--format", "json", "--warmup", "20"]].concat());
    assert_measured(&output);
    documents(&output)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn every_message_of_the_schedule_is_sent_and_accounted_for() {
    let server = Server::start(&[]);
    for protocol in ["udp", "tcp"] {
        for pacer in ["sleep", "hybrid", "spin"] {
            let all = pace(&[
                protocol,
                &server.address,
                "--rate",
                "2k",
                "--seconds",
                "0.5",
                "--size",
                "200",
                "--pacer",
                pacer,
            ]);
            assert_eq!(all.len(), 1);
            let document = &all[0];
            let messages = &document["messages"];
            assert_eq!(number(&messages["sent"]), 1000, "{protocol} {pacer}: {document}");
            assert_eq!(number(&messages["received"]) + number(&messages["lost"]), 1000, "{document}");
            assert_eq!(number(&document["rate"]["intended"]), 1000, "{document}");
            assert_eq!((&document["factors"]["rate"], &document["factors"]["size"]), (&2000.into(), &200.into()));
            assert_eq!(document["factors"]["pacer"], pacer);
            assert_eq!((&document["probe"], &document["latency"]["kind"]), (&"pace".into(), &"rtt".into()));
            let (actual, intended) = (&document["latency"], &document["latency_intended"]);
            assert_eq!(actual["count"], messages["received"], "{document}");
            assert_eq!(document["lateness"]["count"], 1000, "{document}");
            for quantile in ["p50_ns", "max_ns"] {
                assert!(number(&actual[quantile]) <= number(&intended[quantile]), "{quantile}: {document}");
                assert!(
                    number(&document["lateness"][quantile]) <= number(&intended[quantile]),
                    "{quantile}: {document}"
                );
            }
            assert!(document["rate"]["achieved_pps"].as_f64().unwrap() <= 2000.0 * 1.01, "{document}");
        }
    }
}

#[test]
fn a_group_carries_messages_at_a_rate() {
    let server = Server::start(&[]);
    let group = ["--mcast", "239.1.2.3", "--mcast-interface", "127.0.0.1", "--mcast-loop"];
    let all = pace(&[&["udp", &server.address, "--rate", "1k", "--count", "300"], &group[..]].concat());
    assert_eq!(number(&all[0]["messages"]["sent"]), 300, "{}", all[0]);
    assert!(number(&all[0]["messages"]["received"]) > 0, "{}", all[0]);
}

#[test]
fn a_sweep_is_a_result_a_rate_in_every_form() {
    let server = Server::start(&[]);
    let sweep = ["udp", &server.address, "--rate", "500-1500+500", "--seconds", "0.2", "--beyond-saturation"];
    let rates: Vec<u64> = pace(&sweep).iter().map(|document| number(&document["factors"]["rate"])).collect();
    assert_eq!(rates, [500, 1000, 1500]);
    let output = run(&[&["pace"], &sweep[..]].concat());
    assert_measured(&output);
    let text = stdout(&output);
    for words in ["500/s asked", "1,500/s asked", "RTT actual", "RTT intended", "lateness", "verdict"] {
        assert!(text.contains(words), "'{words}' is not in: {text}");
    }
    let csv = stdout(&run(&[&["pace"], &sweep[..], &["--format", "csv"]].concat()));
    assert_eq!(csv.lines().count(), 4, "{csv}");
    assert!(csv.lines().next().unwrap().contains("factor_rate"), "{csv}");
    let markdown = stdout(&run(&[&["pace"], &sweep[..], &["--format", "markdown"]].concat()));
    assert!(markdown.contains("| RTT intended |"), "{markdown}");
}

/// The rows of a raw file: intended, actual, RTT (none: lost or not asked for).
fn rows(path: &std::path::Path) -> Vec<(i64, i64, Option<i64>)> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.split_whitespace();
            let mut number = || words.next().unwrap().parse::<i64>();
            (number().unwrap(), number().unwrap(), number().ok())
        })
        .collect()
}

#[test]
fn a_schedule_file_is_kept_to_the_nanosecond() {
    let server = Server::start(&[]);
    let folder = Folder::new("pace-schedule");
    let schedule = folder.file("times.txt", "# a burst, then one by one\n0\n0\n1ms\n2500us\n0.01\n0.05\n");
    let prefix = folder.0.join("x");
    let all =
        pace(&["udp", &server.address, "--schedule", &schedule, "--count", "6", "--raw", prefix.to_str().unwrap()]);
    assert_eq!(number(&all[0]["messages"]["sent"]), 6, "{}", all[0]);
    let files: Vec<_> = std::fs::read_dir(&folder.0)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|x| x == "dat"))
        .collect();
    assert_eq!(files.len(), 1, "{files:?}");
    assert!(files[0].file_name().unwrap().to_str().unwrap().starts_with("x-32-"), "{files:?}");
    let rows = rows(&files[0]);
    let offsets: Vec<i64> = rows.iter().map(|row| row.0 - rows[0].0).collect();
    for (offset, expected) in offsets.iter().zip([0, 0, 1_000_000, 2_500_000, 10_000_000, 50_000_000]) {
        // A tick of the clock is what a time can be told to.
        assert!((offset - expected).abs() <= 100, "{offsets:?}");
    }
    assert!(rows.iter().all(|row| row.1 >= row.0), "none is sent before its time: {rows:?}");
}

#[test]
fn shapes_keep_the_mean_rate_and_the_seed_the_schedule() {
    let server = Server::start(&[]);
    let folder = Folder::new("pace-shapes");
    let offsets = |name: &str, arguments: &[&str]| -> Vec<i64> {
        let prefix = folder.0.join(name);
        let fixed = ["udp", &server.address, "--rate", "2000", "--count", "400", "--raw", prefix.to_str().unwrap()];
        pace(&[&fixed[..], arguments].concat());
        let rows = rows(&folder.0.join(format!("{name}-32-2000.dat")));
        assert_eq!(rows.len(), 400);
        rows.iter().map(|row| row.0 - rows[0].0).collect()
    };
    let near = |a: &[i64], b: &[i64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 100);
    let even = offsets("even", &[]);
    assert!(near(&even, &(0..400).map(|k| k * 500_000).collect::<Vec<_>>()), "{even:?}");
    let burst = offsets("burst", &["--shape", "burst:10"]);
    assert!(near(&burst, &(0..400).map(|k| k / 10 * 5_000_000).collect::<Vec<_>>()), "{burst:?}");
    let poisson = offsets("poisson", &["--shape", "poisson", "--seed", "7"]);
    assert!(near(&poisson, &offsets("again", &["--shape", "poisson", "--seed", "7"])));
    assert!(!near(&poisson, &offsets("other", &["--shape", "poisson", "--seed", "8"])));
    let delayed = offsets("delayed", &["--random-delay", "80", "--seed", "7"]);
    // Each within its distance, less what the first was delayed by; a schedule in step with the even one would be near it.
    assert!(delayed.iter().zip(&even).all(|(at, even)| (at - even).abs() <= 400_100), "{delayed:?}");
    let spread = delayed.iter().zip(&even).map(|(at, even)| at - even);
    assert!(spread.clone().max().unwrap() - spread.min().unwrap() > 300_000, "{delayed:?}");
    // The mean of 399 exponential distances is within 5 standard errors of the rate's.
    let mean = poisson[399] as f64 / 399.0;
    assert!((mean / 500_000.0 - 1.0).abs() < 0.25, "{mean}");
}

#[test]
fn a_random_delay_is_in_the_result_and_needs_even_times() {
    let server = Server::start(&[]);
    let all = pace(&["udp", &server.address, "--rate", "1000", "--count", "20", "--random-delay", "80"]);
    assert_eq!(all[0]["factors"]["random_delay_percent"], 80, "{}", all[0]);
    let text =
        stdout(&run(&["pace", "udp", &server.address, "--rate", "1000", "--count", "20", "--random-delay", "80"]));
    assert!(text.contains("random delay (%) 80"), "{text}");
    let refused = run(&["pace", "udp", &server.address, "--shape", "poisson", "--random-delay", "80"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("random delay 80 % with shape poisson"), "{said}");
}

#[test]
fn one_message_in_several_is_answered() {
    let server = Server::start(&[]);
    let folder = Folder::new("pace-every");
    let prefix = folder.0.join("x");
    let raw = prefix.to_str().unwrap();
    let all = pace(&["udp", &server.address, "--rate", "1000", "--count", "400", "--every", "4", "--raw", raw]);
    let document = &all[0];
    assert_eq!(document["factors"]["every"], 4);
    assert_eq!(number(&document["lateness"]["count"]), 400, "{document}");
    assert_eq!(number(&document["latency"]["count"]) + number(&document["messages"]["lost"]), 100, "{document}");
    let rows = rows(&folder.0.join("x-32-1000.dat"));
    let answered: Vec<usize> = (0..rows.len()).filter(|&at| rows[at].2.is_some()).collect();
    assert!(answered.len() <= 100 && answered.iter().all(|at| at % 4 == 0), "{answered:?}");
}

#[test]
fn every_reflector_gets_every_message() {
    let (first, second) = (Server::start(&[]), Server::start(&[]));
    let all = pace(&["udp", &first.address, "--to", &second.address, "--rate", "1000", "--count", "300"]);
    let reflectors = all[0]["reflectors"].as_array().unwrap();
    assert_eq!(reflectors.len(), 2, "{}", all[0]);
    for reflector in reflectors {
        assert_eq!(number(&reflector["messages"]["sent"]), 300, "{reflector}");
        assert_eq!(reflector["latency"]["count"], reflector["messages"]["received"], "{reflector}");
    }
    assert_ne!(reflectors[0]["host"], reflectors[1]["host"]);
    let text = stdout(&run(&["pace", "udp", &first.address, "--to", &second.address, "--rate", "1k", "--count", "50"]));
    assert!(text.contains("Each reflector") && text.contains(&second.address), "{text}");
}

#[test]
fn a_program_that_watches_gets_a_line_an_interval() {
    let server = Server::start(&[]);
    let output =
        run(&["pace", "udp", &server.address, "--rate", "1k,2k", "--seconds", "0.5", "--jsonl", "--beyond-saturation"]);
    assert_measured(&output);
    let lines = documents(&output);
    let results: Vec<&Value> = lines.iter().filter(|line| line["type"] == "result").collect();
    assert_eq!(results.len(), 2, "{}", stdout(&output));
    assert_eq!(lines.last().unwrap()["type"], "result");
    assert_eq!(lines.last().unwrap()["format"], 1);
    for (rate, result) in [1000.0, 2000.0].into_iter().zip(results) {
        let intervals: Vec<&Value> =
            lines.iter().filter(|line| line["type"] == "interval" && line["asked_pps"] == rate).collect();
        assert!(intervals.len() >= 3, "{}", stdout(&output));
        let sent: u64 = intervals.iter().map(|line| number(&line["sent"])).sum();
        let all = number(&result["messages"]["sent"]);
        // The warm-up may be told too; what is not over when the measurement ends need not be.
        assert!(sent > all / 2, "{sent} of {all}");
        assert!(intervals.iter().any(|line| line["rtt_p50_ns"].as_u64() > Some(0)), "{}", stdout(&output));
    }
    // The document is what it is without the lines.
    let plain = pace(&["udp", &server.address, "--rate", "1k", "--seconds", "0.2"]).remove(0);
    assert!(plain.get("type").is_none());
}

#[test]
fn rates_and_schedules_that_cannot_be_kept_are_refused() {
    let to = "127.0.0.1:1";
    for (rate, shown) in [("0", "rate 0"), ("200M", "rate 200000000"), ("1k,0", "rate 0")] {
        assert_refused(&["pace", "udp", to, "--rate", rate], 2, &[shown, "100,000,000"]);
    }
    for flags in
        [["--rate", "20k-10k+1k"], ["--rate", "fast"], ["--shape", "square"], ["--pacer", "nap"], ["--stamps", "x"]]
    {
        let output = run(&["pace", "udp", to, flags[0], flags[1]]);
        assert_code(&output, 2);
        assert!(stderr(&output).contains(flags[1]), "{}", stderr(&output));
    }
    assert_refused(&["pace", "udp", to, "--every", "0"], 2, &["every 0"]);
    assert_refused(&["pace", "udp", to, "--shape", "burst:0"], 2, &["burst 0"]);
    assert_refused(&["pace", "udp", to, "--seconds", "0"], 2, &["--seconds"]);
    assert_refused(&["pace", "pipe"], 2, &["pipe", "tcp, mptcp, udp or pgm"]);
    let folder = Folder::new("pace-bad-schedules");
    for (name, text, words) in [
        ("back.txt", "0\n2ms\n1ms\n", &["back.txt", "line 3", "never go back"][..]),
        ("word.txt", "0\nsoon\n", &["word.txt", "line 2", "soon"]),
        ("empty.txt", "\n", &["empty.txt", "no time"]),
    ] {
        let file = folder.file(name, text);
        assert_refused(&["pace", "udp", to, "--schedule", &file], 2, words);
    }
    assert_refused(&["pace", "udp", to, "--schedule", "/nonexistent/times"], 2, &["/nonexistent/times"]);
    assert_code(&run(&["pace", "udp", to, "--schedule", "x", "--rate", "5"]), 2);
}

#[test]
fn the_columns_of_sfnt_stream() {
    let server = Server::start(&[]);
    let rates = ["pace", "udp", &server.address, "--rate", "500,1k", "--seconds", "0.3", "--beyond-saturation"];
    let output = run(&[&rates[..], &["--format", "sfnt"]].concat());
    assert_measured(&output);
    let text = stdout(&output);
    assert!(text.contains("# reporting: RTT\n") && text.contains("# msgsize=32\n"), "{text}");
    let rows: Vec<Vec<u64>> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('\t').map(|cell| cell.parse().unwrap()).collect())
        .collect();
    assert_eq!(
        rows.iter().map(|row| (row.len(), row[0], row[9])).collect::<Vec<_>>(),
        [(17, 500, 150), (17, 1000, 300)]
    );
    assert!(rows.iter().all(|row| row[4] <= row[5] && row[5] <= row[7] && row[7] <= row[6]), "{text}");
}

#[test]
fn an_endpoint_that_allows_less_refuses_at_the_start() {
    let server = Server::start(&["--max-rate", "1000"]);
    assert_refused(&["pace", "udp", &server.address, "--rate", "5k"], 2, &["1000", "5000"]);
    // Each rate of a sweep counts, before the first is measured.
    let output = run(&["pace", "udp", &server.address, "--rate", "500,5k", "--format", "json"]);
    assert_code(&output, 2);
    assert_eq!(stdout(&output), "");
    let all = pace(&["udp", &server.address, "--rate", "800", "--seconds", "0.2"]);
    assert!(number(&all[0]["messages"]["received"]) > 0);
}

/// Runs a shell line in a mount namespace of its own with a file system of so many KiB at $DISK; $WINDHOVER is the
/// binary. None where that cannot be done.
fn on_a_small_disk(test: &str, kib: u32, script: &str) -> Option<Output> {
    if !support::is_root() {
        eprintln!("SKIPPED {test}: a file system can only be mounted by root");
        return None;
    }
    let folder = Folder::new(test);
    let line = format!("mount -t tmpfs -o size={kib}k tmpfs \"$DISK\" || exit 77\n{script}");
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", &line])
        .env("DISK", folder.path())
        .env("WINDHOVER", env!("CARGO_BIN_EXE_windhover"))
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    if output.status.code() == Some(77) {
        eprintln!("SKIPPED {test}: no tmpfs can be mounted: {}", stderr(&output));
        return None;
    }
    Some(output)
}

#[test]
fn a_disk_that_fills_while_raw_samples_are_written_costs_these_alone() {
    let server = Server::start(&[]);
    let script = format!(
        "\"$WINDHOVER\" pace udp {} --rate 4k --count 4000 --raw \"$DISK/x\" --format json > /dev/stdout\n\
         echo code $?\nwc -l < \"$DISK/x-32-4000.dat\"\ntail -n 1 \"$DISK/x-32-4000.dat\"",
        server.address
    );
    let Some(output) = on_a_small_disk("pace-full-disk", 32, &script) else { return };
    let text = stdout(&output);
    let lines: Vec<&str> = text.lines().collect();
    let document: Value =
        serde_json::from_str(lines[0]).unwrap_or_else(|error| panic!("{error}: {text} {}", stderr(&output)));
    assert_eq!(number(&document["messages"]["sent"]), 4000);
    assert_eq!(lines[1], "code 1", "{text}");
    let kept: usize = lines[2].trim().parse().unwrap();
    assert!(kept > 100 && kept < 4000, "{text}");
    assert_eq!(lines[3].split(' ').count(), 3, "the last line is whole: {text}");
    let errors = stderr(&output);
    let said = errors.lines().filter(|line| line.starts_with("windhover:")).collect::<Vec<_>>();
    assert_eq!(said.len(), 1, "{errors}");
    let words = ["x-32-4000.dat", "of 4000 raw samples", "No space left"];
    assert!(words.iter().all(|word| said[0].contains(word)), "{errors}");
    assert!(said[0].contains(&format!("{} of 4000", kept - 1)), "one line is the heading: {errors}");
}

#[test]
fn a_campaign_whose_disk_fills_keeps_its_figures_and_as_many_raw_files_as_fit() {
    let script = "cat > \"$DISK/plan.toml\" <<'PLAN'\n\
         name = \"t\"\nrepetitions = 12\n[lab]\nkind = \"loopback\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n\
         [measure]\ncount = 8000\nwarmup_ms = 5\nraw = true\n[[grid]]\nprobe = [\"pace\"]\nprotocol = [\"tcp\"]\n\
         rate = [\"20k\"]\nPLAN\n\
         \"$WINDHOVER\" campaign run \"$DISK/plan.toml\" --output \"$DISK\" > /dev/null\n\
         echo code $?\nls \"$DISK\"/t-*/cells/*.json | wc -l\nls \"$DISK\"/t-*/cells/*.raw.gz | wc -l\n\
         grep -l raw-not-kept \"$DISK\"/t-*/cells/*.json | wc -l\n\
         \"$WINDHOVER\" report \"$DISK\"/t-* --format csv | wc -l";
    let Some(output) = on_a_small_disk("pace-full-run", 1800, script) else { return };
    let (text, errors) = (stdout(&output), stderr(&output));
    let counts: Vec<usize> = text.lines().skip(1).map(|line| line.trim().parse().unwrap()).collect();
    let [cells, raw, said, rows] = counts[..] else { panic!("{text}{errors}") };
    assert_eq!((cells, rows), (12, 13), "every cell has its figures: {text}{errors}");
    assert!(raw > 0 && raw < 12, "{text}{errors}");
    assert_eq!(raw + said, 12, "what is missing is named: {text}{errors}");
    assert_eq!(errors.matches(".raw.gz was not kept").count(), said, "{errors}");
    // The report at the end may find no room any more, which is an error of its own.
    assert!(
        text.starts_with("code 0") || text.starts_with("code 1") && errors.contains("report.html"),
        "{text}{errors}"
    );
}

#[test]
fn a_campaign_tells_what_happens_as_lines() {
    let folder = Folder::new("pace-campaign-lines");
    let plan = "name = \"t\"\nrepetitions = 2\n[lab]\nkind = \"loopback\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n\
                [measure]\nseconds = 0.5\nwarmup_ms = 5\n[[grid]]\nprobe = [\"pace\"]\nsize = [100]\nrate = [1000]\n";
    let file = folder.file("plan.toml", plan);
    let output = run(&["campaign", "run", &file, "--output", folder.path(), "--jsonl"]);
    assert_measured(&output);
    let lines: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    let mut order = kinds.clone();
    order.dedup();
    assert_eq!(order, ["begin", "cell", "interval", "result", "cell", "interval", "result", "end"], "{kinds:?}");
    for (index, line) in lines.iter().filter(|line| line["type"] == "cell").enumerate() {
        assert_eq!(number(&line["index"]), index as u64 + 1);
        assert_eq!(line["factors"]["rate"], 1000);
    }
    let intervals: Vec<&Value> = lines.iter().filter(|line| line["type"] == "interval").collect();
    assert!(intervals.iter().all(|line| line["cell"].as_str().unwrap().contains("rate=1000")), "{:?}", intervals[0]);
    let result = lines.iter().find(|line| line["type"] == "result").unwrap();
    let of_first = |name: &str| -> u64 {
        let settled = |line: &&&Value| line["index"] == result["index"] && line["settled"] == true;
        intervals.iter().filter(settled).map(|line| number(&line[name])).sum()
    };
    assert_eq!(of_first("sent"), number(&result["messages"]["sent"]), "{intervals:?}");
    assert_eq!((result["format"].as_u64(), result["repetition"].as_u64().is_some()), (Some(1), true));
    let (begin, end) = (&lines[0], lines.last().unwrap());
    assert!(begin["path"].as_str().unwrap().starts_with(folder.path()) && number(&begin["steps"]) == 2, "{begin}");
    assert_eq!((end["outcome"].as_str(), number(&end["done"])), (Some("done"), 2), "{end}");
}

#[test]
fn a_campaign_of_rates_and_what_becomes_of_its_damaged_files() {
    let folder = Folder::new("pace-campaign");
    let plan = "name = \"t\"\nrepetitions = 1\n[lab]\nkind = \"loopback\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n\
                [measure]\nseconds = 0.4\nwarmup_ms = 5\n[[grid]]\nprobe = [\"pace\"]\nsize = [100]\nrate = [1000, \"2k\"]\n";
    let file = folder.file("plan.toml", plan);
    let shown = stdout(&run(&["campaign", "plan", &file]));
    assert!(shown.contains("1000/s") && shown.contains("2000/s"), "{shown}");
    let output = run(&["campaign", "run", &file, "--verbose", "--output", folder.path()]);
    assert!(stderr(&output).contains("of the rate"), "{}", stderr(&output));
    let run_dir = run_directory(&folder.0);
    assert_run_measured(&output, &run_dir);
    assert!(run_dir.join("report.html").is_file());
    let path = run_dir.to_str().unwrap();
    let log = run_dir.join("cells/0001.hlog");
    let text = std::fs::read_to_string(&log).unwrap();
    for tag in ["Tag=rtt,", "Tag=rtt_intended,", "Tag=lateness,"] {
        assert!(text.lines().filter(|line| line.starts_with(tag)).count() >= 3, "{tag}: {text}");
    }
    // A log that ends in the middle of a line: what is whole is reported, and that it is not all is said.
    std::fs::write(&log, &text[..text.len() * 2 / 3]).unwrap();
    let output = run(&["report", path, "--format", "html"]);
    assert_code(&output, 0);
    let html = std::fs::read_to_string(run_dir.join("report.html")).unwrap();
    let said = format!("{}{}{html}", stdout(&output), stderr(&output));
    assert!(said.contains("0001.hlog"), "the damaged file is named: {}", stderr(&output));
    // A result of a newer version is refused by number, not misread.
    let cell = run_dir.join("cells/0002.json");
    let text = std::fs::read_to_string(&cell).unwrap();
    std::fs::write(&cell, text.replacen("\"format\":1", "\"format\":99", 1)).unwrap();
    assert_refused(&["report", path, "--format", "csv"], 2, &["0002.json", "format 99", "newer windhover"]);
}

#[test]
fn two_ends_on_one_command_and_a_vanished_peer() {
    let all = pace(&["udp", "--fork-both", "--rate", "500", "--seconds", "0.2"]);
    assert_eq!(number(&all[0]["messages"]["sent"]), 100, "{}", all[0]);
    let server = Server::start(&[]);
    let measure = ["pace", "tcp", &server.address, "--rate", "1k", "--seconds", "60", "--timeout", "300"];
    let mut client = windhover(&[&measure[..], &["--format", "json"]].concat());
    client.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = server.measured_by(client);
    drop(server);
    let output = child.wait_with_output().unwrap();
    assert_code(&output, 5);
    let all = documents(&output);
    assert!(all.len() == 1 && number(&all[0]["messages"]["received"]) > 0, "{}", stdout(&output));
    assert_eq!(stderr(&output).lines().filter(|line| line.starts_with("windhover:")).count(), 1);
}

#[test]
fn one_initiator_and_two_reflectors_in_namespaces() {
    if !support::can_make_namespaces("one_initiator_and_two_reflectors_in_namespaces") {
        return;
    }
    for group in ["", "mcast = \"239.1.2.3\"\n"] {
        let folder = Folder::new("pace-namespaces");
        let plan = format!(
            "name = \"t\"\nrepetitions = 1\n[lab]\nkind = \"netns\"\nhosts = 3\n[roles]\ninitiator = \"a\"\n\
             reflectors = [\"b\", \"c\"]\n[measure]\nseconds = 0.4\nwarmup_ms = 5\n{group}[[grid]]\nprobe = [\"pace\"]\nrate = \"1k\"\n"
        );
        let file = folder.file("plan.toml", &plan);
        let output = run(&["campaign", "run", &file, "--output", folder.path()]);
        let run_dir = run_directory(&folder.0);
        assert_run_measured(&output, &run_dir);
        let all: Value =
            serde_json::from_str(&stdout(&run(&["report", run_dir.to_str().unwrap(), "--format", "json"]))).unwrap();
        let reflectors = all[0]["reflectors"].as_array().unwrap();
        let hosts: Vec<&str> = reflectors.iter().map(|reflector| reflector["host"].as_str().unwrap()).collect();
        assert_eq!(hosts, ["b", "c"], "{all}");
        for reflector in reflectors {
            assert_eq!(number(&reflector["messages"]["sent"]), 400, "{reflector}");
            assert!(number(&reflector["messages"]["received"]) > 0, "{reflector}");
        }
        let log = std::fs::read_to_string(run_dir.join("cells/0001.hlog")).unwrap();
        assert!(log.contains("Tag=rtt@b,") && log.contains("Tag=rtt@c,"), "{log}");
    }
}

/// Loss that has nothing to do with the rate is loss, and no reason to leave out higher rates.
#[test]
fn a_path_that_loses_at_random_does_not_end_a_sweep() {
    let test = "a_path_that_loses_at_random_does_not_end_a_sweep";
    if !support::can_make_namespaces(test) {
        return;
    }
    // Each message crosses the loopback interface twice, so about 4 % of the answers are missing.
    let rules = "add table ip lossy; add chain ip lossy some { type filter hook input priority 0; }; \
                 add rule ip lossy some meta l4proto udp numgen random mod 100 < 2 counter drop";
    let script = "ip link set lo up && nft \"$1\" || exit 77; shift; exec \"$@\"";
    let sweep = ["pace", "udp", "--fork-both", "--rate", "200,400,800", "--seconds", "1", "--timeout", "300"];
    let output = Command::new("unshare")
        .args(["--net", "sh", "-c", script, "sh", rules, env!("CARGO_BIN_EXE_windhover")])
        .args([&sweep[..], &["--warmup", "20", "--format", "json"]].concat())
        .env_remove("WINDHOVER_KEY_FILE")
        .output()
        .unwrap();
    if output.status.code() == Some(77) {
        eprintln!("SKIPPED {test}: this kernel has no nftables, or no numgen in them");
        return;
    }
    assert_measured(&output);
    let all = documents(&output);
    let lost: Vec<u64> = all.iter().map(|document| number(&document["messages"]["lost"])).collect();
    assert!(lost.iter().sum::<u64>() >= 14, "1 % of all, or nothing is shown: {lost:?}");
    for document in &all {
        assert!(document["rate"]["saturated"].is_null(), "{}", document["rate"]);
    }
    assert_eq!(all.len(), 3, "{}", stderr(&output));
}

/// A reflector that runs for a quarter of the time: it is stopped and goes on, as long as the measurement takes.
fn with_a_slow_reflector(server: &Server, arguments: &[&str]) -> Output {
    let signal = |name: &str| {
        assert!(Command::new("kill").args([name, &server.id().to_string()]).status().unwrap().success());
    };
    let mut child = windhover(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        signal("-STOP");
        std::thread::sleep(std::time::Duration::from_millis(45));
        signal("-CONT");
        std::thread::sleep(std::time::Duration::from_millis(15));
    }
    child.wait_with_output().unwrap()
}

#[test]
fn a_sweep_ends_at_the_rate_that_the_reflector_does_not_keep_up_with_and_names_it() {
    let server = Server::start(&[]);
    let sweep = ["pace", "udp", &server.address, "--rate", "100,10k,20k", "--seconds", "0.8", "--size", "1000"];
    // Room for some 40 messages, and the schedule brings 450 while it stands still.
    let arguments = [&sweep[..], &["--receive-buffer", "50000", "--warmup", "20", "--format", "json"]].concat();
    let output = with_a_slow_reflector(&server, &arguments);
    assert_measured(&output);
    let all = documents(&output);
    let rates: Vec<u64> = all.iter().map(|document| number(&document["factors"]["rate"])).collect();
    assert_eq!(rates, [100, 10_000], "{}", stderr(&output));
    assert!(all[0]["rate"]["saturated"].is_null(), "{}", all[0]["rate"]);
    assert_eq!(all[1]["rate"]["saturated"]["who"], "reflector", "{}", all[1]["rate"]);
    assert!(number(&all[1]["messages"]["lost"]) > 1000, "{}", all[1]["messages"]);
    let found =
        all[1]["verdict"]["disturbed"].as_array().unwrap().iter().find(|found| found["id"] == "rate-not-reached");
    assert!(
        found.is_some_and(|found| found["detail"].as_str().unwrap().contains("reflector")),
        "{}",
        all[1]["verdict"]
    );
    assert!(
        stderr(&output).contains("20000") || stderr(&output).contains("20,000"),
        "what was left out is said: {}",
        stderr(&output)
    );
    // Asked to go on, it goes on.
    let output = with_a_slow_reflector(&server, &[&arguments[..], &["--beyond-saturation"]].concat());
    assert_eq!(documents(&output).len(), 3, "{}", stderr(&output));
}
