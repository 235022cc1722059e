//! Measurements typed by hand, end to end over loopback.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use support::{Folder, Server, assert_code, assert_refused, documents, run, stderr, stdout};

fn measure(arguments: &[&str]) -> serde_json::Value {
    let output = run(&[arguments, &["--format", "json", "--warmup", "5", "--warmup-count", "10"]].concat());
    assert_code(&output, 0);
    let mut all = documents(&output);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn every_protocol_and_receive_mode() {
    let server = Server::start(&[]);
    for protocol in ["tcp", "udp", "unix-stream", "unix-dgram", "pipe", "shm"] {
        for mode in ["block", "spin", "poll", "select", "epoll", "epoll-mod", "epoll-adddel"] {
            if protocol == "shm" && !matches!(mode, "block" | "spin") {
                assert_refused(&["pingpong", protocol, "--receive", mode], 2, &["shm", "--receive spin"]);
                continue;
            }
            let mut arguments = vec!["pingpong", protocol];
            if matches!(protocol, "tcp" | "udp") {
                arguments.push(&server.address);
            }
            arguments.extend(["--count", "200", "--receive", mode, "--cpu", "0"]);
            if cpus() > 1 {
                arguments.extend(["--remote-cpu", "1"]);
            } else if mode == "spin" {
                continue;
            }
            let document = measure(&arguments);
            assert_eq!(document["messages"]["received"], 200, "{protocol} {mode}: {document}");
            assert_eq!(document["latency"]["kind"], "rtt_half");
            assert_eq!(document["ends"]["initiator"]["receive"], mode);
            let (min, p50, max) =
                (&document["latency"]["min_ns"], &document["latency"]["p50_ns"], &document["latency"]["max_ns"]);
            assert!(
                min.as_u64() <= p50.as_u64() && p50.as_u64() <= max.as_u64() && min.as_u64() > Some(0),
                "{document}"
            );
        }
    }
}

fn cpus() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

#[test]
fn rtt_is_twice_the_transit_time() {
    let server = Server::start(&[]);
    let output = run(&["pingpong", "udp", &server.address, "--count", "500", "--rtt", "--format", "json"]);
    let document = documents(&output).remove(0);
    assert_eq!(document["latency"]["kind"], "rtt");
    let text = stdout(&run(&["pingpong", "udp", &server.address, "--count", "500"]));
    assert!(text.contains("RTT/2") && text.contains("µs"), "{text}");
}

#[test]
fn sizes_of_every_header_tier() {
    let server = Server::start(&[]);
    let arguments = [
        "pingpong",
        "udp",
        &server.address,
        "--size",
        "0,1,7,8,15,16,31,32,1472,1473,60000",
        "--count",
        "50",
        "--format",
        "json",
    ];
    let output = run(&arguments);
    assert_code(&output, 0);
    let all = documents(&output);
    assert_eq!(all.len(), 11);
    for document in &all {
        assert_eq!(document["messages"]["received"], 50, "{document}");
    }
    assert!(all[0]["messages"]["duplicated"].is_null());
    assert_eq!(all[7]["messages"]["duplicated"], 0);
}

#[test]
fn the_columns_of_sfnt_pingpong() {
    let server = Server::start(&[]);
    let output = run(&[
        "pingpong",
        "tcp",
        &server.address,
        "--size",
        "1,32",
        "--count",
        "1000",
        "--percentile",
        "90",
        "--format",
        "sfnt",
    ]);
    assert_code(&output, 0);
    let text = stdout(&output);
    assert!(text.contains("#\tsize\tmean\tmin\tmedian\tmax\t%ile\tstddev\titer"), "{text}");
    let rows: Vec<Vec<u64>> = text
        .lines()
        .filter(|line| line.starts_with('\t'))
        .map(|line| line.split_whitespace().map(|field| field.parse().unwrap()).collect())
        .collect();
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), [1, 32]);
    assert!(rows.iter().all(|row| row.len() == 8 && row[7] == 1000), "{text}");
    assert!(
        text.contains("# percentile=90\n") && rows.iter().all(|row| row[3] <= row[5] && row[5] <= row[4]),
        "{text}"
    );
}

#[test]
fn every_output_form_holds_the_same_count() {
    let server = Server::start(&[]);
    for form in ["table", "csv", "markdown"] {
        let output = run(&["pingpong", "udp", &server.address, "--count", "1234", "--format", form]);
        assert_code(&output, 0);
        let text = stdout(&output).replace(',', "");
        assert!(text.contains("1234"), "{form}: {text}");
    }
}

#[test]
fn raw_samples_are_written_one_a_line() {
    let server = Server::start(&[]);
    let folder = Folder::new("raw");
    let prefix = folder.0.join("x");
    let output = run(&[
        "pingpong",
        "udp",
        &server.address,
        "--count",
        "300",
        "--raw",
        prefix.to_str().unwrap(),
        "--format",
        "json",
    ]);
    assert_code(&output, 0);
    let text = std::fs::read_to_string(folder.0.join("x-32.dat")).unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(rows.len(), 300);
    let max = rows.iter().map(|row| row.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()).max().unwrap();
    let document = documents(&output).remove(0);
    // The document's maximum is of RTT/2.
    assert!(max.abs_diff(2 * document["latency"]["max_ns"].as_u64().unwrap()) <= 1, "{max} {document}");
}

#[test]
fn transactions_have_a_rate_and_a_cost() {
    let server = Server::start(&[]);
    for arguments in [&["rr", "tcp"][..], &["rr", "udp"], &["rr", "tcp", "--connect-each"]] {
        let mut all = arguments[..2].to_vec();
        all.push(&server.address);
        all.extend(&arguments[2..]);
        all.extend(["--seconds", "0.2", "--response", "64"]);
        let document = measure(&all);
        assert!(document["transactions"]["per_second"].as_f64() > Some(1.0), "{document}");
        assert_eq!(document["transactions"]["response_bytes"], 64);
        assert!(document["ends"]["reflector"]["usage"]["elapsed_ns"].as_u64() > Some(0), "{document}");
    }
}

/// Catches: a wake-up called a round trip, a reflector or a size that it does not have, deadlines that are not those asked for,
/// a thread that is not where it should be, and a timer slack that is not the one in force.
#[test]
fn wake_ups_of_a_thread_on_each_cpu() {
    let cpus = std::thread::available_parallelism().unwrap().get().min(2);
    let list = if cpus > 1 { "0-1" } else { "0" };
    let line = ["wake", "--cpu", list, "--interval-us", "2000", "--count", "100", "--timer-slack-ns", "1000"];
    let output = run(&[&line[..], &["--format", "json"]].concat());
    let document = documents(&output).remove(0);
    let (wake, latency) = (&document["wake"], &document["latency"]);
    let deadlines = 100 * cpus as u64;
    assert_eq!((document["probe"].as_str(), latency["kind"].as_str()), (Some("wake"), Some("wake_up")), "{document}");
    assert_eq!(
        (wake["deadlines"].as_u64(), latency["count"].as_u64()),
        (Some(deadlines), Some(deadlines)),
        "{document}"
    );
    assert_eq!(
        (wake["interval_ns"].as_u64(), wake["timer_slack_ns"].as_u64()),
        (Some(2_000_000), Some(1000)),
        "{document}"
    );
    assert!(document["ends"]["reflector"].is_null() && document["factors"]["size"].is_null(), "{document}");
    assert!(
        latency["min_ns"].as_u64() <= latency["p50_ns"].as_u64() && latency["max_ns"].as_u64() > Some(0),
        "{document}"
    );
    let threads = wake["threads"].as_array().map_or(0, Vec::len);
    assert_eq!(threads, if cpus > 1 { 2 } else { 0 }, "{document}");
    let elapsed = document["elapsed_ns"].as_u64().unwrap();
    let last = 99 * 2_000_000;
    assert!((last..last + latency["max_ns"].as_u64().unwrap() + 2_000_000).contains(&elapsed), "{document}");
    let text = stdout(&run(&line));
    for words in ["wake-up latency", "timer slack 1.00 µs", &format!("{deadlines} deadlines"), "CPU 0"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("RTT") && !text.contains("receive block"), "{text}");
    let far = run(&["wake", "--format", "json", "--interval-us", "10", "--count", "2000"]);
    let document = documents(&far).remove(0);
    // A machine that wakes up within 10 µs is no reason to fail; one that does not must say so.
    let (missed, id) = (document["wake"]["overslept"].as_u64().unwrap(), "interval-too-short");
    let woke = document["wake"]["deadlines"].as_u64().unwrap() - document["wake"]["missed"].as_u64().unwrap();
    let told = document["verdict"]["invalid"].as_array().unwrap().iter().any(|found| found["id"] == id);
    assert_eq!(told, missed * 10 > woke * 9, "{document}");
    assert!(!told || far.status.code() == Some(4), "{document}");
    assert_refused(&["wake", "--cpu", "4000"], 2, &["CPU 4000"]);
    assert_refused(&["wake", "--interval-us", "3"], 2, &["10 to 10000000"]);
    assert_refused(&["wake", "--count", "0"], 2, &["--count"]);
}

#[test]
fn icmp_echo_to_this_host() {
    let output = run(&["ping", "127.0.0.1", "-c", "3"]);
    if output.status.code() == Some(1) && stderr(&output).contains("ping_group_range") {
        eprintln!("SKIPPED icmp_echo_to_this_host: neither ping sockets nor raw sockets are allowed here");
        return;
    }
    support::assert_measured(&output);
    let text = stdout(&output);
    assert!(text.contains("min/avg/max/mdev") && text.contains("3 received"), "{text}");
}

#[test]
fn echoes_follow_a_schedule_unless_there_is_no_interval() {
    let output = run(&["ping", "127.0.0.1", "-c", "20", "-i", "0.02", "--format", "json"]);
    if output.status.code() == Some(1) && stderr(&output).contains("ping_group_range") {
        eprintln!(
            "SKIPPED echoes_follow_a_schedule_unless_there_is_no_interval: neither ping sockets nor raw sockets are allowed here"
        );
        return;
    }
    let document = documents(&output).remove(0);
    let (lateness, intended) = (&document["lateness"], &document["latency_intended"]);
    assert_eq!((lateness["count"].as_u64(), intended["count"].as_u64()), (Some(20), Some(20)), "{document}");
    let max = |what: &serde_json::Value| what["max_ns"].as_u64().unwrap();
    assert!(max(intended) >= max(&document["latency"]) && max(intended) >= max(lateness), "{document}");
    // From the first to the last one are 19 intervals, less what the first was late.
    let elapsed = document["elapsed_ns"].as_u64().unwrap();
    assert!(elapsed + max(lateness) >= 19 * 20_000_000, "{document}");
    // On a machine that is busy with other tests the sender may really be late; then it has to say so.
    let late = document["verdict"]["invalid"].as_array().unwrap().iter().any(|found| found["id"] == "generator-late");
    assert_code(&output, if late { 4 } else { 0 });
    assert!(!late || max(lateness) > 10_000_000, "{document}");
    let output = run(&["ping", "127.0.0.1", "-c", "20", "-i", "0", "--format", "json"]);
    let document = documents(&output).remove(0);
    assert_eq!(document["messages"]["received"], 20);
    assert!(document["lateness"].is_null() && document["latency_intended"].is_null(), "{document}");
}

#[test]
fn what_goes_wrong_at_run_time_is_one_line() {
    // A port that was just free: nothing listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert_refused(&["pingpong", "udp", &format!("127.0.0.1:{port}")], 1, &["windhover serve"]);
    let server = Server::start(&[]);
    assert_refused(&["serve", "--bind", &server.address], 1, &["in use"]);
    // The second is of a range that labs use, and test networks of others too.
    for bind in ["0.0.0.0:0", "198.18.0.1:0", "[fd00:198:18::1]:0"] {
        assert_refused(&["serve", "--bind", bind], 2, &["key", "windhover key"]);
    }
    assert_refused(&["pingpong", "udp", &server.address, "--cpu", "4000"], 2, &["CPU 4000"]);
    assert_refused(
        &["pingpong", "udp", &server.address, "--cpu", "0", "--remote-cpu", "0", "--receive", "spin"],
        2,
        &["CPU 0"],
    );
}

#[test]
fn keys_must_agree() {
    let folder = Folder::new("keys");
    let secret = |name| folder.secret(name, &stdout(&run(&["key"])));
    let (right, wrong) = (secret("right"), secret("wrong"));
    let server = Server::start(&["--key-file", &right]);
    let to = server.address.as_str();
    assert_code(&run(&["pingpong", "udp", to, "--key-file", &right, "--count", "10"]), 0);
    assert_refused(&["pingpong", "udp", to, "--key-file", &wrong, "--count", "10"], 2, &["wrong key"]);
    assert_refused(&["pingpong", "udp", to, "--count", "10"], 2, &["key"]);
}

#[test]
fn a_vanished_peer_keeps_what_was_measured() {
    let server = Server::start(&[]);
    let measure = ["pingpong", "tcp", &server.address, "--size", "1,32", "--seconds", "60", "--timeout", "300"];
    let mut client = support::windhover(&[&measure[..], &support::AT_ONCE, &["--format", "json"]].concat());
    client.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = server.measured_by(client);
    drop(server);
    let output = child.wait_with_output().unwrap();
    assert_code(&output, 5);
    let all = documents(&output);
    assert!(!all.is_empty() && all[0]["messages"]["received"].as_u64() > Some(0), "{}", stdout(&output));
    assert_eq!(stderr(&output).lines().filter(|line| line.starts_with("windhover:")).count(), 1);
}

#[test]
fn a_server_serves_many_and_survives_the_vanished() {
    let mut server = Server::start(&[]);
    let client = |seconds: &str| {
        let arguments = ["pingpong", "udp", &server.address, "--seconds", seconds, "--format", "json"];
        let mut client = support::windhover(&arguments);
        client.stdout(std::process::Stdio::piped());
        client
    };
    let mut vanishing = server.measured_by(client("60"));
    let others = [(); 2].map(|()| client("0.5").spawn().unwrap());
    vanishing.kill().unwrap();
    vanishing.wait().unwrap();
    for other in others {
        let output = other.wait_with_output().unwrap();
        support::assert_measured(&output);
        assert_eq!(documents(&output)[0]["messages"]["lost"], 0);
    }
    assert!(server.is_alive());
    assert_code(&run(&["pingpong", "tcp", &server.address, "--count", "10"]), 0);
}

#[test]
fn what_is_interrupted_says_so_and_blames_nobody() {
    let server = Server::start(&[]);
    let paced: &[&str] = &["--rate", "2000", "--warmup", "10"];
    for (probe, more) in [("pingpong", &support::AT_ONCE[..]), ("rr", &support::AT_ONCE), ("pace", paced)] {
        let fixed = [probe, "udp", &server.address, "--seconds", "60", "--format", "json"];
        let mut client = support::windhover(&[&fixed[..], more].concat());
        client.stdout(std::process::Stdio::piped());
        let child = server.measured_by(client);
        let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(killed.unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_code(&output, 130);
        let document = &documents(&output)[0];
        assert_eq!(document["interrupted"], true, "{probe}: {document}");
        let disturbed = document["verdict"]["disturbed"].as_array().unwrap();
        let has = |id: &str| disturbed.iter().any(|finding| finding["id"] == id);
        assert!(has("interrupted") && !has("rate-not-reached"), "{probe}: {document}");
        if probe == "pace" {
            assert!(document["rate"]["saturated"].is_null(), "{document}");
            assert_eq!(document["rate"]["intended"], document["messages"]["sent"], "{document}");
        }
    }
    let whole = run(&["pingpong", "udp", &server.address, "--count", "100", "--format", "json"]);
    assert!(documents(&whole)[0]["interrupted"].is_null(), "only where it is so");
}

#[test]
fn limits_of_rr_are_those_of_all_its_passes() {
    let server = Server::start(&[]);
    let arguments = ["rr", "udp", &server.address, "--interval", "0.01", "--warmup", "5", "--format", "json"];
    let document = documents(&run(&[&arguments[..], &["--count", "900"]].concat())).remove(0);
    assert_eq!((&document["messages"]["received"], &document["transactions"]["passes"]), (&900.into(), &30.into()));
    let document = documents(&run(&[&arguments[..], &["--seconds", "1"]].concat())).remove(0);
    let elapsed_ns = document["elapsed_ns"].as_u64().unwrap();
    assert!((900_000_000..5_000_000_000).contains(&elapsed_ns), "{elapsed_ns} ns for 1 s in all, not for each of 30");
}

#[test]
fn a_csv_of_one_command_says_how_it_was_measured() {
    let server = Server::start(&[]);
    let output = run(&[
        "pingpong",
        "udp",
        &server.address,
        "--count",
        "50",
        "--receive",
        "poll",
        "--cpu",
        "0",
        "--format",
        "csv",
    ]);
    let text = stdout(&output);
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let column = |name: &str| values[names.iter().position(|column| *column == name).unwrap()];
    let told = ["probe", "receive", "policy", "cpu", "stack"].map(column);
    assert_eq!(told, ["pingpong", "poll", "other", "0", "kernel"]);
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_measured() {
    let server = Server::start(&[]);
    let address = &server.address;
    assert_refused(&["pingpong", "udp", address, "--raw", "/no/such/folder/x"], 2, &["--raw", "/no/such/folder"]);
    assert_refused(
        &["pingpong", "udp", address, "--seconds", "1", "--min-seconds", "5"],
        2,
        &["--min-seconds", "--seconds"],
    );
    let large = "18446744073709551616";
    assert_refused(&["pingpong", "udp", address, "--size", large], 2, &[large, "at most 4294967295 bytes"]);
    for command in [["pingpong", "udp", "fe80::1"].as_slice(), &["ping", "fe80::1"]] {
        assert_refused(command, 2, &["link-local", "fe80::1%eth0"]);
    }
}

#[test]
fn a_host_without_route_is_named_with_the_remedy() {
    let test = "a_host_without_route_is_named_with_the_remedy";
    if !support::can_make_namespaces(test) {
        return;
    }
    for command in [["pingpong", "udp", "192.0.2.7"].as_slice(), &["ping", "192.0.2.7"]] {
        let mut all = vec!["--net", env!("CARGO_BIN_EXE_windhover")];
        all.extend(command);
        let output = std::process::Command::new("unshare").args(&all).env("NO_COLOR", "1").output().unwrap();
        assert_code(&output, 1);
        let text = stderr(&output);
        assert!(text.contains("no route to 192.0.2.7") && text.contains("ip route get"), "{command:?}: {text}");
    }
}

#[test]
fn ten_echoes_are_few_and_the_default_has_a_median() {
    let output = run(&["ping", "127.0.0.1", "-i", "0.001", "--format", "json"]);
    let document = documents(&output).remove(0);
    assert!(document["latency"]["p50_ns"].is_u64(), "{document}");
    let document = documents(&run(&["ping", "127.0.0.1", "-c", "10", "-i", "0.001", "--format", "json"])).remove(0);
    assert!(document["latency"]["p50_ns"].is_null(), "{document}");
    let text = stdout(&run(&["ping", "127.0.0.1", "-c", "10", "-i", "0.001"]));
    assert!(!text.contains("p50") && !document["verdict"].to_string().contains("few-samples"), "{text}{document}");
}

/// The first command of README: what it prints has enough messages, and no mark speaks of figures that are not printed.
#[test]
fn the_default_measurement_has_all_figures_of_its_table() {
    let server = Server::start(&[]);
    let text = stdout(&run(&["pingpong", "udp", &server.address]));
    assert!(text.contains("p99.9") && !text.contains('–') && !text.contains("few-samples"), "{text}");
}

#[test]
fn the_ladder_has_a_dash_where_messages_are_few() {
    let server = Server::start(&[]);
    let form = |form: &str| {
        let output = run(&["pingpong", "udp", &server.address, "--count", "2000", "--ladder", "--format", form]);
        stdout(&output)
    };
    let table = form("table");
    let why =
        "–: too few messages for this percentile (p99.9 needs 10,000, p99.99 needs 100,000, p99.999 needs 1,000,000).";
    let joined = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(table.contains("p25") && joined.contains("– – –") && joined.contains(why), "{table}");
    assert!(form("markdown").contains("| p99.999"));
    let csv = form("csv");
    let mut lines = csv.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let (heads, row) = (lines.next().unwrap(), lines.next().unwrap());
    let field = |name: &str| row[heads.iter().position(|head| head == name).unwrap()].clone();
    assert!(field("ladder_p50_ns") == field("p50_ns") && field("ladder_p99.9_ns").is_empty(), "{csv}");
    let document: serde_json::Value = serde_json::from_str(&form("json")).unwrap();
    let ladder = document["ladder"].as_array().unwrap();
    assert_eq!(ladder.iter().filter(|rung| rung["ns"].is_null()).count(), 3, "{document}");
    let figures: Vec<u64> = ladder.iter().filter_map(|rung| rung["ns"].as_u64()).collect();
    assert!(figures.len() == 6 && figures.is_sorted() && document["latency"]["p99_ns"] == figures[5], "{document}");
    assert!(documents(&run(&["pingpong", "pipe", "--count", "50", "--format", "json"]))[0].get("ladder").is_none());
    assert_refused(&["pingpong", "pipe", "--ladder", "--format", "sfnt"], 2, &["--ladder", "sfnt"]);
}

#[test]
fn a_percentile_asked_for_by_name_says_when_it_is_chance() {
    let sfnt =
        |count: &str| stderr(&run(&["pingpong", "pipe", "--count", count, "--format", "sfnt", "--percentile", "99"]));
    let said = sfnt("999");
    assert!(said.contains("few-samples: p99 of 32 B is chance: it needs 1000 messages, and there were 999"), "{said}");
    assert!(!sfnt("1000").contains("few-samples"));
}
