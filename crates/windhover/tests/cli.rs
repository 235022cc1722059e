//! The command line itself: help as snapshots, and bad input as one clear line with the right exit code.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use support::{Folder, assert_code, assert_measured, assert_refused, run, stderr, stdout, windhover};

#[test]
fn help_of_every_command() {
    for command in [
        "",
        "key",
        "serve",
        "pingpong",
        "rr",
        "ping",
        "pace",
        "wake",
        "cycle",
        "pgm",
        "pgm send",
        "pgm recv",
        "pgm ping",
        "pgm reflect",
        "exchange",
        "exchange check",
        "exchange run",
        "exchange top",
        "exchange bench",
        "dump",
        "load",
        "shield",
        "shield exec",
        "run",
        "doctor",
        "doctor diff",
        "irq",
        "lab",
        "lab up",
        "lab boot",
        "lab down",
        "lab list",
        "lab exec",
        "campaign",
        "campaign plan",
        "campaign run",
        "campaign resume",
        "campaign list",
        "plot",
        "report",
        "compare",
        "show",
        "agent",
        "undo",
        "tune",
        "tune list",
        "tune active",
        "tune recommend",
        "tune boot",
        "tune show",
        "tune diff",
        "tune apply",
        "tune verify",
        "tune undo",
        "tune emit",
        "tune try",
    ] {
        let mut arguments: Vec<&str> = command.split_whitespace().collect();
        arguments.push("--help");
        let output = run(&arguments);
        assert_code(&output, 0);
        let name = if command.is_empty() { "windhover".to_owned() } else { command.replace(' ', "-") };
        insta::assert_snapshot!(format!("help-{name}"), stdout(&output));
    }
}

#[test]
fn usage_errors_end_with_2() {
    for arguments in
        [&["pingpong"][..], &["pingpong", "carrier-pigeon", "x"], &["nothing"], &["lab", "up", "--hosts", "x"]]
    {
        assert_code(&run(arguments), 2);
    }
}

#[test]
fn values_that_cannot_be_used() {
    let to = "127.0.0.1:1";
    assert_refused(&["pingpong", "tcp", to, "--size", "0"], 2, &["size 0", "1 to"]);
    assert_refused(&["pingpong", "udp", to, "--size", "65508"], 2, &["65508", "65507"]);
    assert_refused(&["pingpong", "udp", to, "--size", "8-1"], 2, &["8-1", "upwards"]);
    assert_refused(&["pingpong", "udp", to, "--pings", "0"], 2, &["pings", "1 to 1000"]);
    assert_refused(&["pingpong", "udp", to, "--seconds", "0"], 2, &["--seconds"]);
    assert_refused(&["pingpong", "udp", to, "--timeout", "0"], 2, &["time-out"]);
    assert_refused(&["pingpong", "tcp", to, "--mcast", "224.1.2.48"], 2, &["multicast", "udp"]);
    assert_refused(&["pingpong", "udp", to, "--mcast", "10.0.0.1"], 2, &["10.0.0.1", "224.0.0.0/4"]);
    assert_refused(&["pingpong", "udp"], 2, &["address", "windhover serve"]);
    assert_refused(&["pingpong", "pipe", to], 2, &["pipe", "leave out"]);
    for protocol in ["pipe", "unix-stream", "unix-dgram"] {
        for (flag, value) in
            [("--bind", "127.0.0.1"), ("--device", "lo"), ("--remote-bind", "::1"), ("--remote-device", "lo")]
        {
            assert_refused(&["pingpong", protocol, flag, value], 2, &[protocol, flag, "leave"]);
        }
    }
    assert_refused(&["rr", "udp", to, "--connect-each"], 2, &["tcp"]);
    for (interval, allowed) in [("nan", "a number"), ("0.0001", "0.001 to"), ("3601", "0.001 to")] {
        let interval = format!("--interval={interval}");
        assert_refused(&["ping", "127.0.0.1", &interval], 2, &["--interval", allowed]);
    }
    assert_refused(
        &["pingpong", "pipe", "--cpu", "0", "--remote-cpu", "0", "--receive", "spin"],
        2,
        &["CPU 0", "spin"],
    );
}

#[test]
fn a_load_of_no_time_is_refused() {
    for seconds in ["0", "-1", "nan", "inf", "x"] {
        let output = run(&["load", "cpu", &format!("--seconds={seconds}")]);
        assert_code(&output, 2);
        assert!(stderr(&output).contains("--seconds"), "{}", stderr(&output));
    }
}

#[test]
fn files_that_cannot_be_used() {
    let folder = Folder::new("cli-files");
    let key = folder.file("short.key", "abc\n");
    assert_refused(&["pingpong", "udp", "127.0.0.1:1", "--key-file", &key], 2, &["short.key"]);
    assert_refused(&["pingpong", "udp", "127.0.0.1:1", "--key-file", "/nonexistent/key"], 2, &["/nonexistent/key"]);
    assert_refused(&["campaign", "plan", "/nonexistent/plan.toml"], 2, &["/nonexistent/plan.toml"]);
    let head = "name = \"t\"\n[lab]\nkind = \"loopback\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n";
    let plan = folder.file("unknown-key.toml", &format!("{head}[[grid]]\ncolour = [\"red\"]\n"));
    assert_refused(&["campaign", "run", &plan, "--output", folder.path()], 2, &["colour", "line"]);
    let plan = folder.file("empty-axis.toml", &format!("{head}[[grid]]\nsize = []\n"));
    assert_refused(&["campaign", "run", &plan, "--output", folder.path()], 2, &["size", "no value"]);
    let plan = folder.file("duplicate.toml", &format!("{head}[[grid]]\nsize = [32, 32]\n"));
    assert_refused(&["campaign", "run", &plan, "--output", folder.path()], 2, &["twice"]);
    let plan = folder.file("reflector.toml", &format!("{}[[grid]]\n", head.replace("[\"b\"]", "[]")));
    assert_refused(&["campaign", "run", &plan, "--output", folder.path()], 2, &["reflector"]);
    let plan = folder.file("host.toml", &format!("{}[[grid]]\n", head.replace("\"a\"", "\"zz\"")));
    assert_refused(&["campaign", "run", &plan, "--output", folder.path()], 2, &["'zz'", "a, b"]);
    let plan =
        folder.file("cpu.toml", &format!("{head}[[grid]]\ncpu = [\"0;0\", \"0;4000\"]\nreceive = [\"block\"]\n"));
    assert_refused(&["--quiet", "campaign", "run", &plan, "--output", folder.path()], 2, &["'b'", "CPU 4000", "use 0"]);
    let left: Vec<_> =
        std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    assert_refused(&["show", folder.path()], 2, &["run.json"]);
    folder.file("run.json", "{\"format\":99}");
    assert_refused(&["show", folder.path()], 2, &["format 99", "newer windhover"]);
    folder.file("run.json", "{\"format\":1");
    assert_refused(&["show", folder.path()], 2, &["run.json", "damaged"]);
}

#[test]
fn a_key_is_made_and_is_new_each_time() {
    let (first, second) = (stdout(&run(&["key"])), stdout(&run(&["key"])));
    assert_ne!(first, second);
    assert!(first.lines().any(|line| line.len() == 64 && line.bytes().all(|byte| byte.is_ascii_hexdigit())), "{first}");
}

#[test]
fn negative_values_must_be_positive() {
    let to = "127.0.0.1:1";
    for (arguments, flag) in [
        (&["pingpong", "udp", to, "--seconds", "-1"][..], "--seconds"),
        (&["pingpong", "udp", to, "--count", "-1"], "--count"),
        (&["pingpong", "udp", to, "--cpu", "-1"], "--cpu"),
        (&["pingpong", "udp", to, "--size", "-1"], "--size"),
        (&["pace", "udp", to, "--rate", "-10"], "--rate"),
        (&["pace", "udp", to, "--rate=-10"], "--rate"),
        (&["pace", "pgm", "239.192.0.1", to, "--back-off", "-5ms"], "--back-off"),
        (&["stream", "tcp", to, "-t", "-.5"], "-t"),
        (&["rr", "tcp", to, "--interval", "-5"], "--interval"),
        (&["ping", "127.0.0.1", "-i", "-1"], "--interval"),
        (&["serve", "--max-rate", "-1"], "--max-rate"),
        (&["pgm", "send", "239.192.0.1", "--rate", "-1k"], "--rate"),
        (&["load", "cpu", "--seconds", "-1"], "--seconds"),
        (&["shield", "--guard=-1"], "--guard"),
        (&["lab", "up", "--hosts", "-1"], "--hosts"),
        (&["campaign", "run", "x.toml", "--repetitions", "-3"], "--repetitions"),
        (&["tune", "try", "latency", "--rounds", "-3"], "--rounds"),
        (&["dump", "lo", "--count", "-3"], "--count"),
    ] {
        assert_refused(arguments, 2, &[flag, "must not be negative, as -"]);
    }
    // A nice value may be negative, and so may a program's own arguments.
    assert_code(&run(&["--check-usage", "run", "-q", "-5", "true", "-1"]), 0);
}

#[test]
fn words_of_other_tools() {
    // What means something else here, or nothing, is answered with ours.
    for (arguments, words) in [
        (&["pingpong", "udp", "x", "--spin"][..], "--receive spin"),
        (&["pingpong", "udp", "x", "--muxer=epoll"], "--receive select, poll, epoll"),
        (&["stream", "tcp", "x", "-l", "100"], "--size BYTES"),
        (&["stream", "tcp", "-c", "x"], "stream tcp ADDR"),
        (&["rr", "tcp", "x", "-t", "TCP_RR"], "rr tcp ADDR"),
        (&["rr", "tcp", "-H", "x"], "rr tcp ADDR"),
        (&["ping", "x", "-W", "1"], "--timeout MS"),
        (&["shield", "--cpu", "1"], "--all LIST"),
        (&["wake", "-t1", "-p80", "-l1000"], "--smp or --cpu LIST, a thread on each CPU; a time is --seconds S"),
        (&["wake", "-Sp90", "-b", "100"], "--over US"),
    ] {
        let output = run(arguments);
        assert_code(&output, 2);
        assert!(stderr(&output).contains("instead of") && stderr(&output).contains(words), "{}", stderr(&output));
    }
    assert_tipped(&["run", "-t", "1", "-i"], 125, &["--tid TID"]);
}

/// What cyclictest has and `wake` reads in no other way: each is answered by a tip of one line, none by "unknown flag" alone.
#[test]
fn every_letter_of_cyclictest_is_answered() {
    for (arguments, words) in [
        (&["-u"][..], "not needed"),
        (&["-Smu"], "cyclictest's '-u'"),
        (&["-F", "pipe"], "not supported"),
        (&["-o", "10"], "--raw PREFIX"),
        (&["-e", "5"], "cpuidle.latency-us=US"),
        (&["-s"], "clock_nanosleep"),
        (&["-x"], "clock_nanosleep"),
        (&["-y", "rr"], "--policy POLICY"),
        (&["--spike", "100"], "--over US"),
        (&["--spike=100"], "--over US"),
        (&["--histfile=x"], "--histogram US > FILE"),
        (&["--json", "out.json"], "--json > FILE"),
        (&["--json=out.json"], "--json > FILE"),
        (&["-a"], "--smp"),
        (&["-a", "-p", "80"], "--smp"),
    ] {
        assert_tipped(&[&["wake"], arguments].concat(), 2, &[words]);
    }
    // Both mean what is always so.
    assert_code(&run(&["--check-usage", "wake", "-n", "-m", "-q", "-l500", "-i200"]), 0);
}

/// cyclictest's histogram: a line a µs, and each wake-up counted once.
#[test]
fn a_histogram_as_cyclictest_prints_it() {
    let output = run(&["wake", "-m", "-i", "1000", "-l50", "-h400", "-q"]);
    let text = stdout(&output);
    assert_measured(&output);
    assert!(stderr(&output).is_empty(), "-q prints only results: {}", stderr(&output));
    let (_, histogram) = text.split_once("# Histogram (").unwrap();
    let number = |word: &str| word.parse::<u64>().unwrap();
    let lines: Vec<(u64, u64)> = histogram
        .lines()
        .skip(1)
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .map(|(us, count)| (number(us), number(count)))
        .collect();
    assert!(lines.iter().map(|(us, _)| *us).eq(0..400), "{histogram}");
    let later = number(histogram.lines().last().unwrap().rsplit(' ').next().unwrap());
    assert_eq!(lines.iter().map(|(_, count)| count).sum::<u64>() + later, 50, "{histogram}");
    // -h alone is help, as everywhere.
    let help = run(&["wake", "-h"]);
    assert_code(&help, 0);
    assert!(stdout(&help).contains("Usage: windhover wake"), "{}", stdout(&help));
}

/// Asserts that a command line is answered by an error of one line and a tip of one line.
#[track_caller]
fn assert_tipped(arguments: &[&str], code: i32, words: &[&str]) {
    let output = run(arguments);
    assert_code(&output, code);
    let text = stderr(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert!(matches!(&lines[..], [error, tip] if error.starts_with("error: ") && tip.starts_with("tip: ")), "{text}");
    for word in words {
        assert!(text.contains(word), "'{word}' is not in: {text}");
    }
}

/// One line says what is wrong. A tip stands below it where it fits; none is made up.
#[test]
fn parser_errors_are_one_line() {
    let mistyped: &[&str] = &["unknown flag '--siez'; did you mean '--size'?", "windhover pingpong --help"];
    assert_tipped(&["pingpong", "udp", "--siez", "32"], 2, mistyped);
    assert_tipped(&["pingpong", "udp", "x", "--xyzzy"], 2, &["unknown flag '--xyzzy'\n"]);
    assert_tipped(&["campaign", "run", "x", "--otput", "y"], 2, &["'--output'", "windhover campaign run --help"]);
    assert_tipped(&["pingpnog"], 2, &["unknown command 'pingpnog'; did you mean 'pingpong'?", "windhover --help"]);
    assert_tipped(&["tune", "aply", "latency"], 2, &["unknown command 'aply'; did you mean 'apply'?"]);
    // A name that is not near is no tip.
    assert_tipped(&["pingpong", "--version"], 2, &["unknown flag '--version'\n"]);
    assert_refused(&["import", "nope", "x"], 2, &["use latmus, latency, cyclictest, rtla, sockperf or sfnt\n"]);
    assert_tipped(&["help", "tune", "nothing"], 2, &["unknown command 'nothing'\n", "windhover tune --help"]);
    assert_refused(&["serve", "--max-priority", "200"], 2, &["'200' for '--max-priority PRIORITY': use 1 to 99\n"]);
    for limit in ["--max-size", "--max-session", "--max-sessions", "--max-rate"] {
        assert_refused(&["--check-usage", "serve", limit, "0"], 2, &[limit, "use 1 or more\n"]);
    }
    assert_refused(&["irq", "-c", "0"], 2, &["'0' for '--count N': use 1 or more\n"]);
    assert_refused(&["lab", "up", "--hosts", "x"], 2, &["use a whole number\n"]);
    assert_tipped(&["tune"], 2, &["windhover tune needs a command: ", "apply", "undo"]);
    assert_tipped(&["pingpong"], 2, &["missing: PROTOCOL", "for example: windhover pingpong udp --fork-both"]);
    assert_tipped(&["show", "a", "b"], 2, &["unexpected argument 'b'", "windhover show"]);
    assert_tipped(&["pingpong", "udp", "x", "--mcast-loop"], 2, &["missing: --mcast GROUP"]);
    assert_tipped(&["run", "--polcy", "fifo", "true"], 125, &["did you mean '--policy'?"]);
    assert_refused(
        &["report", "x", "--format", "jsno"],
        2,
        &["'jsno' for '--format'", "csv-cells, json or html", "'json'?"],
    );
    assert_refused(&["pingpong", "udp", "x", "--format"], 2, &["'--format FORM' needs a value: use table, json, csv"]);
    assert_refused(&["pingpong", "carrier-pigeon", "x"], 2, &["'carrier-pigeon' for 'PROTOCOL'", "tcp, "]);
    assert_refused(&["pingpong", "udp", "x", "-J", "--format", "csv"], 2, &["'--json' cannot be used with '--format'"]);
    assert_refused(&["pingpong", "udp", "x", "--size", "1", "--size", "2"], 2, &["'--size' is given twice"]);
    assert_refused(&["pingpong", "udp", "x", "--rtt=yes"], 2, &["'--rtt' takes no value"]);
    assert_refused(&["pingpong", "udp", "x", "--seconds", "x"], 2, &["'x' for '--seconds S'", "use "]);
    assert_refused(&["run", "-c", "0-3", "true"], 125, &["number of copies", "--cpus LIST"]);
}

#[test]
fn copies_are_announced() {
    let output = run(&["run", "-c", "2", "true"]);
    assert_code(&output, 0);
    assert_eq!(stderr(&output), "starts 2 copies of true (--copies 2; CPUs are --cpus)\n");
    let help = stdout(&run(&["run", "--help"]));
    assert!(help.split_whitespace().collect::<Vec<_>>().join(" ").contains("no CPU number, which is --cpus"), "{help}");
    assert!(stderr(&run(&["run", "-b", "0", "true"])).is_empty());
}

/// `windhover` alone: what it is, six commands to begin with, where help is.
#[test]
fn the_program_alone_prints_ten_lines() {
    for arguments in [&[][..], &["--quiet"], &["--color", "never"]] {
        let output = run(arguments);
        assert_code(&output, 0);
        let text = stdout(&output);
        assert_eq!(text.lines().count(), 10, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        for command in ["pingpong", "serve", "doctor", "tune recommend", "campaign run", "report", "help"] {
            assert!(text.contains(&format!("windhover {command}")), "{command}: {text}");
        }
    }
    assert!(stdout(&run(&["help"])).lines().count() > 30);
}

/// Without a terminal a table is as wide as its words are, for programs that read lines.
#[test]
fn tables_to_a_pipe_do_not_wrap() {
    let listed = |columns: Option<&str>| {
        let mut command = windhover(&["tune", "show", "latency"]);
        match columns {
            Some(columns) => command.env("COLUMNS", columns),
            None => command.env_remove("COLUMNS"),
        };
        stdout(&command.output().unwrap())
    };
    let settings = |text: &str| text.lines().filter(|line| line.starts_with("sysctl.") && line.contains("  ")).count();
    let (pipe, narrow) = (listed(None), listed(Some("60")));
    assert!(pipe.lines().count() < narrow.lines().count(), "{pipe}");
    let json: serde_json::Value = serde_json::from_str(&stdout(&run(&["tune", "show", "latency", "--json"]))).unwrap();
    for setting in json["settings"].as_array().unwrap() {
        let (key, why) = (setting["key"].as_str().unwrap(), setting["why"].as_str().unwrap());
        assert!(pipe.lines().any(|line| line.contains(key) && line.ends_with(why)), "{key}: {pipe}");
    }
    assert!(settings(&pipe) > 5, "{pipe}");
}

/// One word for a set of CPUs and one for JSON; the old ones still work.
#[test]
fn one_word_each_and_the_old_ones_too() {
    for words in ["--cpus", "--bias", "--cpu", "-b"] {
        assert_code(&run(&["run", words, "0", "true"]), 0);
    }
    for words in ["--cpus", "--for", "--cpu"] {
        assert_code(&run(&["--check-usage", "doctor", words, "0"]), 0);
    }
    for words in ["--cpus", "--cpu"] {
        assert_code(&run(&["--check-usage", "load", "cpu", words, "0"]), 0);
        assert_code(&run(&["--check-usage", "pingpong", "pipe", words, "0"]), 0);
    }
    let json = |words: &[&str]| -> serde_json::Value { serde_json::from_str(&stdout(&run(words))).unwrap() };
    assert_eq!(json(&["tune", "list", "--format", "json"]), json(&["tune", "list", "--json"]));
    assert_eq!(json(&["tune", "list", "-J"]), json(&["tune", "list", "--json"]));
    for command in
        ["undo", "doctor", "shield", "compare a", "report a", "dump a", "pgm recv 239.1.1.1", "lab list", "pace udp a"]
    {
        for form in ["--json", "-J", "--format=json"] {
            let words: Vec<&str> = std::iter::once("--check-usage").chain(command.split(' ')).chain([form]).collect();
            assert_code(&run(&words), 0);
        }
    }
}

#[test]
fn help_by_purpose() {
    let help = stdout(&run(&["help"]));
    let places: Vec<usize> = ["Measure:", "Prepare a host:", "Experiment:", "Look at results:"]
        .iter()
        .map(|word| help.find(word).unwrap())
        .collect();
    assert!(places.is_sorted(), "{help}");
    assert_eq!(help, stdout(&run(&["--help"])));
    assert_eq!(stdout(&run(&["help", "pgm", "send"])), stdout(&run(&["pgm", "send", "--help"])));
    assert!(stdout(&run(&["rr", "--help"])).contains("Examples:"));
}

#[test]
fn text_and_table_are_one_form_everywhere() {
    for arguments in [
        &["report", "run"][..],
        &["pingpong", "udp", "127.0.0.1"],
        &["compare", "a", "b"],
        &["undo"],
        &["doctor"],
        &["dump", "lo"],
    ] {
        for form in ["text", "table"] {
            let with = [&["--check-usage"][..], arguments, &["--format", form]].concat();
            assert_code(&run(&with), 0);
        }
    }
}

#[test]
fn a_percentile_that_no_column_shows_is_refused() {
    let arguments = ["pingpong", "udp", "--fork-both", "--percentile", "90", "--seconds", "0.1"];
    assert_refused(&arguments, 2, &["--percentile 90", "--format sfnt"]);
}
