//! Why messages were late, end to end: a known disturbance gets its name, a far end that records nothing is named, and bad input.
//! Loading BPF programs needs CAP_BPF and CAP_PERFMON, which the first test has as root.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and print what they retry")]

mod support;

use load::{Disturbance, Disturber};
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{
    Folder, Server, assert_code, assert_refused, disturbs_alone, documents, run, run_directory, stdout, windhover,
};

const PLAN: &str = "name = \"late\"\nrepetitions = 1\nseed = 7\n[lab]\nkind = \"loopback\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n\
    [measure]\nseconds = 1\nwarmup_ms = 50\npolicy = \"fifo:10\"\nexplain = true\nexplain_over = \"150us\"\n\
    cpu = \"CPU0;CPU1\"\n[[grid]]\nprobe = [\"pingpong\"]\nprotocol = [\"udp\", \"tcp\"]\n";

/// The end at which a class with a name made messages late, and how many.
fn late_by(cell: &serde_json::Value, classes: &[&str], name: &str) -> Vec<(String, u64)> {
    let causes = cell["explanation"]["causes"].as_array().unwrap();
    let is_it =
        |cause: &&serde_json::Value| cause["name"] == name && classes.iter().any(|class| cause["class"] == *class);
    let row =
        |cause: &serde_json::Value| (cause["host"].as_str().unwrap().to_owned(), cause["messages"].as_u64().unwrap());
    causes.iter().filter(is_it).map(row).collect()
}

/// Catches: a recorder that does not load, stages or events that are not joined, a wrong end or name, files and commands that do not
/// carry what was found.
#[test]
fn a_thread_that_takes_the_cpu_is_named_at_its_end() {
    let _alone = disturbs_alone();
    let cpus: Vec<u32> = task::allowed_cpus().unwrap().iter().collect();
    assert!(cpus.len() > 1, "needs two CPUs");
    let folder = Folder::new("explain");
    let plan = PLAN.replace("CPU0", &cpus[0].to_string()).replace("CPU1", &cpus[1].to_string());
    let file = folder.file("plan.toml", &plan);
    let (hog, now_ns) = (Disturbance::Hog(300), clock::monotonic_ns());
    let hog = Disturber::start(hog, cpus[0], now_ns).unwrap();
    let output = run(&["campaign", "run", &file, "--output", folder.path()]);
    assert!(hog.finish().unwrap().len() > 50);
    assert_code(&output, 0);
    let run_dir = run_directory(&folder.0);
    let path = run_dir.to_str().unwrap();
    let cells: serde_json::Value = serde_json::from_str(&stdout(&run(&["explain", path, "--json"]))).unwrap();
    assert_eq!(cells.as_array().unwrap().len(), 2);
    for cell in cells.as_array().unwrap() {
        let rows = late_by(cell, &["preempted", "run-queue"], Disturbance::Hog(300).thread());
        let at = |end: &str| rows.iter().filter(|(host, _)| host == end).map(|(_, late)| late).sum::<u64>();
        // A second of disturbances each 12 ms, of which a busy machine leaves some.
        assert!(
            at("initiator") >= 20 && at("reflector") <= at("initiator") / 10,
            "{rows:?}, {} of {} late",
            cell["explanation"]["late"],
            cell["explanation"]["messages"]
        );
    }
    let text = stdout(&run(&["explain", path]));
    assert!(text.contains("wh-hog") && text.contains("RTT p99.9") && text.contains("The slowest messages"), "{text}");
    // The way of a message has both ends, and what its causes took is not more than its segments' excess.
    let message = &cells[0]["messages"][0];
    let segments = message["segments"].as_array().unwrap();
    let sum = |list: &serde_json::Value, field: &str| {
        list.as_array().unwrap().iter().map(|one| one[field].as_u64().unwrap()).sum::<u64>()
    };
    assert!(segments.iter().any(|one| one["host"] == "reflector"), "{message}");
    assert!(sum(&message["causes"], "ns") <= sum(&message["segments"], "excess_ns") + 100, "{message}");
    // What was explained is of another pass: no picture of the cell has it.
    let kept = store::outliers(&run_dir, 1).unwrap();
    let explained = store::explained(&run_dir, 1).unwrap();
    assert!(!kept.is_empty() && kept.iter().all(|one| one.causes.is_empty()));
    assert!(!explained.is_empty() && explained.iter().all(|one| one.realtime_ns.is_some() && one.at_ns == 0));
    let seq = message["seq"].as_u64().unwrap().to_string();
    let one = stdout(&run(&["explain", path, "--message", &seq]));
    assert!(one.starts_with("cpu=") && one.contains("near-send") && one.contains("near-receive"), "{one}");
    exports_hold_the_worst_messages(&folder, path, &seq);
    assert_refused(&["explain", path, "--message", "999999999"], 2, &["999999999", "windhover explain"]);
    assert_refused(&["explain", path, "--cell", "sctp"], 2, &["sctp"]);
}

/// Catches: a far end that sends no events, of other messages or of another time than the near end's, and an export without them.
#[test]
fn the_events_of_both_ends_are_kept_and_exported() {
    let _alone = disturbs_alone();
    let cpus: Vec<u32> = task::allowed_cpus().unwrap().iter().collect();
    assert!(cpus.len() > 1, "needs two CPUs");
    let folder = Folder::new("explain-far");
    let plan = PLAN.replace("CPU0", &cpus[0].to_string()).replace("CPU1", &cpus[1].to_string());
    let file = folder.file("plan.toml", &plan.replace("\"udp\", \"tcp\"]", "\"udp\"]"));
    let hog = Disturber::start(Disturbance::Hog(300), cpus[1], clock::monotonic_ns()).unwrap();
    let output = run(&["campaign", "run", &file, "--output", folder.path()]);
    hog.finish().unwrap();
    assert_code(&output, 0);
    let run_dir = run_directory(&folder.0);
    let path = run_dir.to_str().unwrap();
    let windows = store::windows(&run_dir, 1).unwrap();
    let takes = |window: &model::EventWindow| {
        window
            .events
            .iter()
            .any(|event| event.name == Disturbance::Hog(300).thread() && u32::from(event.cpu) == cpus[1])
    };
    let far: Vec<&model::EventWindow> = windows.iter().filter(|window| window.host == "reflector").collect();
    assert!(!far.is_empty() && far.len() <= 20 && far.iter().any(|window| takes(window)), "{} windows", windows.len());
    let pairs = far.iter().filter_map(|far| {
        let near = windows.iter().find(|near| near.seq == far.seq && near.host == "initiator")?;
        Some((near, *far))
    });
    // Both ends are on one machine: the message was there while it was away.
    for (near, far) in pairs.clone() {
        let at = |name: &str| far.events.iter().find(|event| event.name == name).map(|event| event.at_ns).unwrap();
        assert!(near.sent_ns <= at("received") && at("received") <= at("sent") && at("sent") <= near.end_ns, "{far:?}");
        assert_eq!((far.sent_ns, far.placed), (near.sent_ns, None));
    }
    let (_, both) = pairs.clone().find(|(_, far)| takes(far)).unwrap();
    let (seq, file) = (both.seq.to_string(), |name: &str| format!("{}/{name}", folder.path()));
    for name in ["both.json", "both.txt"] {
        let exported = run(&["explain", path, "--message", &seq, "--export", &file(name)]);
        assert_code(&exported, 0);
        assert!(support::stderr(&exported).contains("1 message"), "{}", support::stderr(&exported));
    }
    let trace: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file("both.json")).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let is_far = |event: &&serde_json::Value| {
        event["name"] == "process_name" && event["args"]["name"].as_str().unwrap().starts_with("reflector, message ")
    };
    let process = &events.iter().find(is_far).unwrap()["pid"];
    let of_far: Vec<&str> = events
        .iter()
        .filter(|event| event["ph"] == "X" && event["pid"] == *process)
        .map(|event| event["name"].as_str().unwrap())
        .collect();
    assert!([Disturbance::Hog(300).thread(), "far-send"].iter().all(|name| of_far.contains(name)), "{of_far:?}");
    let text = std::fs::read_to_string(file("both.txt")).unwrap();
    let heads: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# ")?.split(',').next()).collect();
    assert_eq!(heads, ["initiator", "reflector"]);
}

/// Catches: stacks of a process whose messages are not followed, or whose waits have no end or the other one.
#[test]
fn a_thread_that_takes_the_cpu_from_a_stack_in_the_process_is_named_at_its_end() {
    let _alone = disturbs_alone();
    let cpus: Vec<u32> = task::allowed_cpus().unwrap().iter().collect();
    assert!(cpus.len() > 1, "needs two CPUs");
    for (disturbed, end, other) in [(cpus[0], "initiator", "reflector"), (cpus[1], "reflector", "initiator")] {
        let folder = Folder::new(&format!("explain-stacks-{end}"));
        let plan = PLAN.replace("CPU0", &cpus[0].to_string()).replace("CPU1", &cpus[1].to_string());
        // Real-time threads that spin on both CPUs would leave none to the thread that explains.
        let plan = plan
            .replace("fifo:10", "other")
            .replace("seconds = 1", "seconds = 2")
            .replace("loopback", "netns")
            .replace("\"udp\", \"tcp\"]", "\"udp\"]\nstack = [\"spin\", \"xdp\"]");
        let file = folder.file("plan.toml", &plan);
        let hog = Disturber::start(Disturbance::Hog(300), disturbed, clock::monotonic_ns()).unwrap();
        let output = run(&["campaign", "run", &file, "--output", folder.path()]);
        hog.finish().unwrap();
        assert_code(&output, 0);
        let run_dir = run_directory(&folder.0);
        let text = stdout(&run(&["explain", run_dir.to_str().unwrap(), "--json"]));
        let cells: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(cells.as_array().unwrap().len(), 2);
        for cell in cells.as_array().unwrap() {
            let rows = late_by(cell, &["preempted", "run-queue"], Disturbance::Hog(300).thread());
            let at = |end: &str| rows.iter().filter(|(host, _)| host == end).map(|(_, late)| late).sum::<u64>();
            // Beside a compile job most messages wait for that. None is named where stacks are not followed.
            assert!(at(end) >= 3 && at(other) <= at(end) / 5, "{}: {rows:?}, {}", cell["cell"], cell["explanation"]);
        }
    }
}

/// Catches: an endpoint that follows the socket that was opened last, which is another client's: what it explains then has other
/// numbers, or is of messages of which there are few.
#[test]
fn an_endpoint_explains_the_messages_of_the_client_that_asked() {
    let _alone = disturbs_alone();
    let cpus: Vec<String> = task::allowed_cpus().unwrap().iter().map(|cpu| cpu.to_string()).collect();
    assert!(cpus.len() > 1, "needs two CPUs");
    let server = Server::start(&["--explain", "--explain-names"]);
    let hog = Disturber::start(Disturbance::Hog(300), cpus[1].parse().unwrap(), clock::monotonic_ns()).unwrap();
    let ends = ["--cpu", &cpus[0], "--remote-cpu", &cpus[1], "--policy", "fifo:10"];
    let explained = ["--seconds", "1.5", "--explain", "--explain-over", "150us", "--json"];
    let asked = windhover(&[&["pingpong", "udp", &server.address][..], &ends, &explained].concat())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The other one's socket is opened while the first pass goes on.
    std::thread::sleep(Duration::from_millis(700));
    let other = run(&["pingpong", "udp", &server.address, "--seconds", "4", "--sleep-gap", "100000"]);
    let asked = asked.wait_with_output().unwrap();
    hog.finish().unwrap();
    assert_code(&other, 0);
    let result = documents(&asked).pop().unwrap();
    let rows = late_by(&result, &["preempted", "run-queue"], Disturbance::Hog(300).thread());
    let far: u64 = rows.iter().filter(|(host, _)| host == "reflector").map(|(_, late)| late).sum();
    assert!(far >= 20, "{rows:?}, {}", result["explanation"]);
}

/// Windows are of the worst messages and have the thread that took the CPU, in both forms and before the message came back.
fn exports_hold_the_worst_messages(folder: &Folder, path: &str, seq: &str) {
    let file = |name: &str| format!("{}/{name}", folder.path());
    let mut windows = store::windows(path.as_ref(), 1).unwrap();
    windows.retain(|window| window.host == "initiator");
    let mut worst: Vec<u64> =
        store::explained(path.as_ref(), 1).unwrap().iter().map(|message| message.rtt_ns).collect();
    worst.sort_unstable_by_key(|ns| std::cmp::Reverse(*ns));
    worst.truncate(20);
    let rtt_ns = |window: &model::EventWindow| window.end_ns - window.sent_ns - 200_000;
    assert_eq!(windows.iter().map(rtt_ns).collect::<Vec<_>>(), worst, "from the send call to the end, and 0.2 ms");
    assert!(windows.iter().all(|window| window.events.iter().any(|event| event.event == "sched_switch")));
    let (json, text) = (file("late.json"), file("late.txt"));
    assert_code(&run(&["explain", path, "--message", seq, "--export", &json]), 0);
    let trace: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let slices = || trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X");
    let names: Vec<&str> = slices().map(|slice| slice["name"].as_str().unwrap()).collect();
    assert!(["near-send", "measure"].iter().all(|name| names.contains(name)), "{names:?}");
    // Segments have the times of the message, and slices of a thread nest.
    let all: Vec<(u64, f64, f64)> = slices()
        .map(|slice| {
            let at = slice["ts"].as_f64().unwrap();
            (slice["tid"].as_u64().unwrap(), at, at + slice["dur"].as_f64().unwrap())
        })
        .collect();
    for (place, (thread, start, end)) in all.iter().enumerate() {
        let crosses = |(other, from, to): &&(u64, f64, f64)| {
            other == thread && from > start && *from < end - 1e-6 && *to > end + 1e-6
        };
        assert_eq!(all[place..].iter().find(crosses), None, "{start} {end}");
    }
    assert_code(&run(&["explain", path, "--export", &text]), 0);
    let lines = std::fs::read_to_string(&text).unwrap();
    assert!(lines.contains(Disturbance::Hog(300).thread()) && lines.contains("sched_switch:"), "{} B", lines.len());
    assert_refused(&["explain", path, "--export", &text], 2, &["late.txt exists", "--force"]);
    assert_code(&run(&["explain", path, "--export", &text, "--force"]), 0);
    assert_refused(&["explain", path, "--export", &file("late.pdf")], 2, &[".json", ".txt"]);
    assert_refused(
        &["explain", path, "--message", "999999999", "--export", &file("none.txt")],
        2,
        &["999999999", "20 slowest"],
    );
    for index in [1, 2] {
        std::fs::write(format!("{path}/cells/000{index}.windows.jsonl"), "{\"seq\":").unwrap();
    }
    assert_refused(&["explain", path, "--export", &file("none.txt")], 2, &["windows.jsonl", "line 1"]);
    for index in [1, 2] {
        std::fs::remove_file(format!("{path}/cells/000{index}.windows.jsonl")).unwrap();
    }
    assert_refused(&["explain", path, "--export", &file("none.txt")], 2, &["these cells", "earlier versions"]);
}

/// Catches: a thread that explains and never gets a CPU, because real-time threads spin on all of them.
#[test]
fn ends_that_spin_on_all_cpus_are_explained() {
    let _alone = disturbs_alone();
    let cpus: Vec<String> = task::allowed_cpus().unwrap().iter().map(|cpu| cpu.to_string()).collect();
    let ends = ["--cpu", &cpus[0], "--remote-cpu", &cpus[1], "--receive", "spin"];
    let policies = ["--policy", "fifo:10", "--remote-policy", "fifo:10", "--json"];
    let explained = ["--seconds", "0.5", "--explain"];
    let output = run(&[&["pingpong", "udp", "--fork-both"][..], &explained, &ends, &policies].concat());
    let result = documents(&output).pop().unwrap();
    assert!(result["explanation"]["messages"].as_u64().unwrap() > 100, "{}", result["explanation"]);
}

/// Catches: an end without privileges that explains nothing, a wait for a CPU that has no name, and a limit that is not shown.
#[test]
fn without_privileges_the_waits_for_a_cpu_are_named() {
    let _alone = disturbs_alone();
    let cpu = task::allowed_cpus().unwrap().iter().next().unwrap();
    let hog = Disturber::start(Disturbance::Hog(300), cpu, clock::monotonic_ns()).unwrap();
    let at = cpu.to_string();
    let measured = ["pingpong", "udp", "--fork-both", "--cpu", &at, "--remote-cpu", &at, "--seconds", "1", "--json"];
    let output = Command::new("setpriv")
        .args(["--inh-caps=-all", "--bounding-set=-all", env!("CARGO_BIN_EXE_windhover")])
        .args([&measured[..], &["--explain", "--explain-over", "150us"]].concat())
        .output()
        .unwrap();
    hog.finish().unwrap();
    let explanation = documents(&output).pop().unwrap()["explanation"].clone();
    let rows = explanation["causes"].as_array().unwrap();
    let late = explanation["late"].as_u64().unwrap();
    assert!(late >= 20, "{explanation}");
    // Both share the CPU with the thread that takes it. On a busy machine the far end has no room for all waits.
    for host in ["initiator", "reflector"] {
        let mut waits = rows.iter().filter(|row| row["class"] == "run-queue" && row["host"] == host);
        let messages = waits.next().and_then(|row| row["messages"].as_u64()).unwrap_or(0);
        assert!(messages > late / 5, "{host}: {explanation}");
    }
    let limits = explanation["limits"].to_string();
    assert!(
        limits.contains("no kernel events")
            && limits.contains("CAP_BPF")
            && limits.contains("at both ends: only the CPU times"),
        "{limits}"
    );
}

/// Catches: messages of an open loop that are not followed, and the delay of one that is blamed on the next one.
#[test]
fn a_schedule_that_the_far_end_holds_up_is_explained() {
    let _alone = disturbs_alone();
    let cpus: Vec<String> = task::allowed_cpus().unwrap().iter().map(|cpu| cpu.to_string()).collect();
    assert!(cpus.len() > 1, "needs two CPUs");
    let hog = Disturber::start(Disturbance::Hog(300), cpus[1].parse().unwrap(), clock::monotonic_ns()).unwrap();
    let ends = ["--cpu", &cpus[0], "--remote-cpu", &cpus[1], "--policy", "fifo:10", "--json"];
    let explained = ["--rate", "5k", "--seconds", "1", "--explain", "--explain-over", "150us"];
    let output = windhover(&[&["pace", "udp", "--fork-both"][..], &explained, &ends].concat()).output().unwrap();
    hog.finish().unwrap();
    let result = documents(&output).pop().unwrap();
    let rows = late_by(&result, &["preempted", "run-queue"], Disturbance::Hog(300).thread());
    let far: u64 = rows.iter().filter(|(host, _)| host == "reflector").map(|(_, late)| late).sum();
    assert!(far >= 20, "{rows:?}, {}", result["explanation"]);
    // The messages of a stream have no calls of their own: the times of the threads are read.
    let stream =
        ["pace", "tcp", "--fork-both", "--rate", "2k", "--seconds", "0.5", "--explain", "--explain-over", "20us"];
    let result = documents(&windhover(&[&stream[..], &["--json"]].concat()).output().unwrap()).pop().unwrap();
    let limits = result["explanation"]["limits"].to_string();
    assert!(limits.contains("no kernel events") && limits.contains("stream"), "{limits}");
    assert!(result["explanation"]["late"].as_u64().unwrap() > 0, "{}", result["explanation"]);
}

/// Catches: wake-ups that are not recorded, a thread on its CPU or a timer that is not found, words of round trips.
#[test]
fn a_thread_that_keeps_a_sleeper_from_its_cpu_is_named() {
    let _alone = disturbs_alone();
    let cpu = task::allowed_cpus().unwrap().iter().next().unwrap();
    let folder = Folder::new("explain-wake");
    let plan = format!(
        "name = \"late\"\nrepetitions = 1\n[lab]\nkind = \"loopback\"\n[roles]\ninitiator = \"a\"\n[measure]\nprobe = \"wake\"\n\
         seconds = 1\nwarmup_ms = 50\ninterval_us = 200\npolicy = \"fifo:10\"\ncpu = \"{cpu}\"\nexplain = true\nexplain_over = \"100us\"\n[[grid]]\n"
    );
    let file = folder.file("plan.toml", &plan);
    let hog = Disturber::start(Disturbance::Hog(300), cpu, clock::monotonic_ns()).unwrap();
    let output = run(&["campaign", "run", &file, "--output", folder.path()]);
    assert!(hog.finish().unwrap().len() > 50);
    assert_code(&output, 0);
    let run_dir = run_directory(&folder.0);
    let path = run_dir.to_str().unwrap();
    let cells: serde_json::Value = serde_json::from_str(&stdout(&run(&["explain", path, "--json"]))).unwrap();
    let explanation = &cells[0]["explanation"];
    let rows = late_by(&cells[0], &["run-queue"], Disturbance::Hog(300).thread());
    // A disturbance each 12 ms takes more than one interval of 200 µs.
    assert!(rows.len() == 1 && rows[0].0 == "initiator" && rows[0].1 >= 20, "{rows:?}, {explanation}");
    assert!(explanation["kind"] == "wake_up" && explanation["messages"].as_u64().unwrap() > 1000, "{explanation}");
    let message = &cells[0]["messages"][0];
    let ways: Vec<&str> =
        message["segments"].as_array().unwrap().iter().map(|part| part["segment"].as_str().unwrap()).collect();
    assert_eq!(ways, ["expiry", "near-wake-up", "return"], "{message}");
    let sum: u64 = message["segments"].as_array().unwrap().iter().map(|part| part["ns"].as_u64().unwrap()).sum();
    assert_eq!(sum, message["rtt_ns"].as_u64().unwrap(), "{message}");
    let text = stdout(&run(&["explain", path])).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("wake-ups took longer than wake-up latency") && !text.contains("RTT"), "{text}");
}

/// Catches: a far end that records without its owner's leave, a refusal that ends the measurement or is not shown.
#[test]
fn a_far_end_that_explains_nothing_is_named() {
    let server = Server::start(&[]);
    let short = ["pingpong", "udp", &server.address, "--seconds", "0.2", "--explain", "--explain-over", "20us"];
    let output = run(&short);
    let text = stdout(&output);
    assert!(
        text.contains("Why late") && text.contains("its owner does not allow it: windhover serve --explain"),
        "{text}"
    );
}

/// Catches: an explanation of a run that has none.
#[test]
fn runs_without_an_explanation_and_wrong_times_are_refused() {
    let folder = Folder::new("explain-none");
    let plan = "name = \"t\"\n[lab]\nkind = \"loopback\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n[measure]\nseconds = 0.1\n\
        [[grid]]\nprobe = [\"pingpong\"]\nprotocol = [\"udp\", \"tcp\"]\n";
    let file = folder.file("plan.toml", plan);
    assert_code(&run(&["campaign", "run", &file, "--output", folder.path()]), 0);
    let run_dir = run_directory(&folder.0);
    assert_refused(&["explain", run_dir.to_str().unwrap()], 2, &["no cell of this run is explained", "explain = true"]);
    assert_refused(&["pingpong", "udp", "127.0.0.1:1", "--explain-over", "soon"], 2, &["soon", "100us"]);
    let neither = windhover(&["explain"]).output().unwrap();
    assert_code(&neither, 2);
}

/// Catches: rows that end before they have the wanted messages, disturbances that reach nothing or whose times are not theirs, a verdict
/// without its exit code.
#[test]
fn the_self_test_disturbs_and_counts() {
    let _alone = disturbs_alone();
    for disturbance in ["real-time thread, 300 µs", "packet for 300 sockets"] {
        let row = format!("{disturbance} at the reflector");
        let output = run(&["explain", "--self-test", "--late", "10", "--only", &row]);
        let text = stdout(&output);
        // A busy machine may make some of the messages later than the disturbance does.
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_code(&output, if words.contains("explanations can be trusted") { 0 } else { 3 });
        let rows = text.lines().filter(|line| line.starts_with(disturbance));
        let counts: Vec<Vec<u32>> =
            rows.map(|line| line.split_whitespace().filter_map(|word| word.parse().ok()).skip(1).collect()).collect();
        assert_eq!(counts.len(), 2, "without load and beside it: {text}");
        assert!(counts.iter().all(|count| count[0] >= 10 && 2 * count[1] > count[0]), "{text}");
    }
    assert_refused(&["explain", "--self-test", "--only", "SIGKILL"], 2, &["SIGKILL", "no row"]);
    assert_refused(&["explain", "RUN", "--only", "SIGSTOP"], 2, &["--only"]);
}
