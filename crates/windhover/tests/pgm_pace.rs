//! Messages at a rate over PGM, between network namespaces that lose packets: what is delivered, how repairs are explained,
//! what is kept apart from them, what is refused.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

#[path = "interop/network.rs"]
#[allow(dead_code, reason = "the interop tests use the rest")]
mod network;
mod support;

use network::{Network, address, address6, obstacle, obstacle6};
use serde_json::Value;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::{
    Folder, assert_code, assert_measured, assert_refused, assert_run_measured, documents, run, run_directory, stderr,
    stdout,
};

const GROUP: &str = "239.192.7.1";
/// Longest that one command may take; `timeout` ends it then.
const LIMIT_S: &str = "60";

fn can_run(test: &str) -> bool {
    match obstacle() {
        Some(why) => eprintln!("SKIPPED {test}: {why}"),
        None => return true,
    }
    false
}

/// Hosts with an endpoint on each but the first, which end with it.
struct Hosts {
    network: Network,
    folder: Folder,
    key: String,
    children: Vec<Child>,
    group: &'static str,
    address: fn(usize) -> String,
}

impl Hosts {
    fn new(name: &str, hosts: usize) -> Self {
        Self::on(name, Network::of(hosts), hosts, GROUP, address)
    }

    fn on(name: &str, network: Network, hosts: usize, group: &'static str, address: fn(usize) -> String) -> Self {
        let folder = Folder::new(name);
        let key = folder.secret("key", &stdout(&run(&["key"])));
        let mut all = Self { network, folder, key, children: Vec::new(), group, address };
        for host in 1..hosts {
            let mut serve = all.windhover(host, &["serve", "--bind", &address(host), "--quiet"]);
            let child = serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            all.children.push(child);
        }
        for host in 1..hosts {
            all.wait_for(host);
        }
        all
    }

    fn windhover(&self, host: usize, arguments: &[&str]) -> Command {
        let mut command = self.network.command(host, env!("CARGO_BIN_EXE_windhover"));
        command.args(arguments);
        // A measurement has its key in the end's files; other commands have no such flag.
        if matches!(arguments.first(), Some(&"serve" | &"pace")) {
            command.args(["--key-file", &self.key]);
        }
        command
    }

    /// Until the endpoint listens.
    fn wait_for(&self, host: usize) {
        let begin = Instant::now();
        loop {
            let listed = self.network.command(host, "ss").args(["-Hltn", "sport", "=", ":7412"]).output().unwrap();
            if !listed.stdout.is_empty() {
                return;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "host {host} does not listen: {}", stderr(&listed));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// `pace pgm` from the first host to all others.
    fn pace(&self, arguments: &[&str]) -> Output {
        let peers: Vec<String> = (1..=self.children.len()).map(self.address).collect();
        let peers: Vec<&str> = peers.iter().map(String::as_str).collect();
        let fixed = ["pace", "pgm", self.group];
        let command = self.windhover(0, &[&fixed, peers.as_slice(), arguments].concat());
        let mut limited = Command::new("timeout");
        limited.args(["-k", "5", LIMIT_S]).arg(command.get_program()).args(command.get_args());
        limited.env_remove("WINDHOVER_KEY_FILE").env("NO_COLOR", "1").stdin(Stdio::null());
        limited.output().unwrap()
    }

    fn measure(&self, arguments: &[&str]) -> Value {
        let output = self.pace(&[arguments, &["--format", "json", "--warmup", "50"]].concat());
        assert_measured(&output);
        documents(&output).remove(0)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[track_caller]
fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Sum of a count over all ends.
fn sum(pgm: &Value, count: &str) -> u64 {
    pgm["ends"].as_array().unwrap().iter().map(|end| number(&end["counts"][count])).sum()
}

/// The fates of all reflectors together, or of one.
fn fate<'a>(pgm: &'a Value, name: &str, host: Option<&str>) -> &'a Value {
    let is = |fate: &&Value| fate["fate"] == name && fate["host"].as_str() == host;
    pgm["fates"].as_array().unwrap().iter().find(is).unwrap_or_else(|| panic!("no {name} {host:?}: {pgm}"))
}

#[test]
fn losses_are_repaired_and_explained_and_the_rest_is_kept_apart() {
    let test = "losses_are_repaired_and_explained_and_the_rest_is_kept_apart";
    if !can_run(test) {
        return;
    }
    let hosts = Hosts::new("pgm-repaired", 2);
    hosts.network.lose(0, 3);
    hosts.network.lose(1, 3);
    let document = hosts.measure(&["--rate", "2k", "--count", "3000", "--size", "1000", "--timeout", "5000"]);
    let (messages, pgm) = (&document["messages"], &document["pgm"]);
    assert_eq!(
        ["sent", "received", "lost", "duplicated", "reordered"].map(|count| number(&messages[count])),
        [3000, 3000, 0, 0, 0],
        "{document}"
    );
    assert_eq!(
        (&pgm["group"], &pgm["reply_group"], &pgm["carrier"]),
        (&GROUP.into(), &"239.192.7.2".into(), &"udp".into())
    );
    // All that was missed was asked for and came.
    let missing = sum(pgm, "missing");
    assert!(hosts.network.lost(0) > 0 && hosts.network.lost(1) > 0 && missing > 0, "{pgm}");
    assert_eq!((sum(pgm, "recovered"), sum(pgm, "lost")), (missing, 0), "{pgm}");
    assert!(sum(pgm, "naks_sent") > 0 && sum(pgm, "ncfs_sent") > 0 && sum(pgm, "rdata_sent") > 0, "{pgm}");
    // Each message is of one fate, and only those that repairs touched say what repairs took.
    let [repaired, held, untouched] = ["repaired", "held", "untouched"].map(|name| fate(pgm, name, None));
    assert_eq!([repaired, held, untouched].map(|fate| number(&fate["messages"])).iter().sum::<u64>(), 3000, "{pgm}");
    assert!(number(&repaired["messages"]) > 0 && number(&untouched["messages"]) > 1500, "{pgm}");
    assert!(number(&repaired["in_repair"]["min_ns"]) > 0 && untouched["in_repair"].is_null(), "{pgm}");
    // What repairs took is part of the round trip.
    for figure in ["min_ns", "max_ns"] {
        assert!(number(&repaired["latency"][figure]) > number(&repaired["in_repair"][figure]), "{figure}: {pgm}");
    }
    assert!(number(&repaired["latency"]["p50_ns"]) > number(&untouched["latency"]["p50_ns"]), "{pgm}");
    // Both ways have their steps, and the steps of a repair are no longer than the whole.
    let steps = pgm["steps"].as_array().unwrap();
    assert_eq!(steps.iter().map(|steps| steps["way"].as_str().unwrap()).collect::<Vec<_>>(), ["out", "back"], "{pgm}");
    for steps in steps {
        let whole = &steps["gap_to_repair"];
        assert!(number(&whole["count"]) > 0, "{steps}");
        for part in ["gap_to_nak", "nak_to_ncf", "ncf_to_repair"] {
            assert!(number(&steps[part]["count"]) > 0, "{part}: {steps}");
            assert!(number(&steps[part]["min_ns"]) <= number(&whole["max_ns"]), "{part}: {steps}");
        }
    }
}

#[test]
fn with_parity_losses_are_rebuilt_mostly_without_naks() {
    let test = "with_parity_losses_are_rebuilt_mostly_without_naks";
    if !can_run(test) {
        return;
    }
    let hosts = Hosts::new("pgm-parity", 2);
    hosts.network.lose(0, 3);
    hosts.network.lose(1, 3);
    let fixed = ["--rate", "2k", "--count", "3000", "--size", "500", "--timeout", "5000"];
    let plain = hosts.measure(&fixed);
    // At once, and from the same addresses: the far end is still ending its session.
    let parity = ["--fec", "8", "--fec-proactive", "2"];
    let with = hosts.measure(&[&fixed[..], &parity].concat());
    for document in [&plain, &with] {
        let pgm = &document["pgm"];
        assert_eq!([number(&document["messages"]["received"]), sum(pgm, "lost")], [3000, 0], "{document}");
        assert!(sum(pgm, "missing") > 50 && sum(pgm, "recovered") == sum(pgm, "missing"), "{pgm}");
        // What parity rebuilds is a repair like any other.
        let [repaired, held, untouched] = ["repaired", "held", "untouched"].map(|name| fate(pgm, name, None));
        assert_eq!(
            [repaired, held, untouched].map(|fate| number(&fate["messages"])).iter().sum::<u64>(),
            3000,
            "{pgm}"
        );
        assert!(number(&repaired["messages"]) > 50, "{pgm}");
    }
    let pgm = &plain["pgm"];
    assert_eq!((&pgm["fec"], sum(pgm, "rebuilt"), sum(pgm, "parity_unasked_sent")), (&Value::Null, 0, 0), "{pgm}");
    let pgm = &with["pgm"];
    assert_eq!((&pgm["fec"]["group_packets"], &with["factors"]["fec"]), (&8.into(), &"8+2".into()), "{with}");
    // Two to a group of eight, from each end.
    assert!(sum(pgm, "parity_unasked_sent").abs_diff(2 * 2 * 3000 / 8) < 50, "{pgm}");
    assert!(sum(pgm, "parity_received") > 0 && sum(pgm, "rebuilt") * 2 > sum(pgm, "missing"), "{pgm}");
    // Fewer NAKs for each packet that was lost: less than half as many.
    let [[naks, missing], [fewer, of]] =
        [&plain, &with].map(|one| ["naks_sent", "missing"].map(|of| sum(&one["pgm"], of)));
    assert!(2 * fewer * missing < naks * of, "{fewer} NAKs for {of} against {naks} for {missing}");
}

#[test]
fn ipv6_by_both_carriers() {
    let test = "ipv6_by_both_carriers";
    if !can_run(test) {
        return;
    }
    if let Some(reason) = obstacle6() {
        eprintln!("SKIPPED {test}: {reason}");
        return;
    }
    let hosts = Hosts::on("pgm-six", Network::of(2).with_ipv6(), 2, "ff08::77:1", address6);
    hosts.network.lose(0, 3);
    hosts.network.lose(1, 3);
    for carrier in ["udp", "raw"] {
        let document = hosts.measure(&["--carrier", carrier, "--rate", "2k", "--count", "1500", "--size", "64"]);
        let (messages, pgm) = (&document["messages"], &document["pgm"]);
        assert_eq!((number(&messages["received"]), number(&messages["lost"])), (1500, 0), "{document}");
        assert_eq!(
            (&pgm["group"], &pgm["reply_group"], &pgm["carrier"]),
            (&"ff08::77:1".into(), &"ff08::77:2".into(), &carrier.into())
        );
        assert!(sum(pgm, "recovered") > 0, "{pgm}");
    }
}

#[test]
fn three_receivers_have_figures_of_their_own_and_a_stranger_on_the_group_has_none() {
    let test = "three_receivers_have_figures_of_their_own_and_a_stranger_on_the_group_has_none";
    if !can_run(test) {
        return;
    }
    let hosts = Hosts::new("pgm-three", 4);
    for host in 0..4 {
        hosts.network.lose(host, 1);
    }
    // A fourth source on the same group, with messages of the same length.
    let stranger = ["pgm", "send", GROUP, "--count", "1500", "--rate", "1k", "--size", "600", "--local", &address(3)];
    let mut stranger = hosts.windhover(3, &[&stranger[..], &["--udp-port", "3060"]].concat());
    let mut stranger = stranger.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let document = hosts.measure(&["--rate", "1k", "--count", "1000", "--size", "600", "--timeout", "5000"]);
    let _ = stranger.kill();
    let _ = stranger.wait();
    let pgm = &document["pgm"];
    let reflectors = document["reflectors"].as_array().unwrap();
    assert_eq!((number(&document["messages"]["received"]), reflectors.len()), (3000, 3), "{document}");
    for (host, (reflector, end)) in (1..).zip(reflectors.iter().zip(pgm["ends"].as_array().unwrap().iter().skip(1))) {
        let name = reflector["host"].as_str().unwrap();
        assert!(name.starts_with(&address(host)), "{name}");
        assert_eq!(end["host"], name);
        assert_eq!(number(&reflector["messages"]["received"]), 1000, "{reflector}");
        // What it published is what it was asked for: nothing of the stranger's.
        assert_eq!(number(&end["counts"]["odata_sent"]), 1000, "{end}");
        let fates = ["repaired", "held", "untouched"].map(|fate_of| fate(pgm, fate_of, Some(name)));
        assert_eq!(fates.map(|fate| number(&fate["messages"])).iter().sum::<u64>(), 1000, "{pgm}");
    }
    assert_eq!((sum(pgm, "recovered"), sum(pgm, "lost")), (sum(pgm, "missing"), 0), "{pgm}");
    // Whose NAK each was that came, by its address.
    let ends = pgm["ends"].as_array().unwrap();
    let heard: Vec<u64> = ends.iter().skip(1).map(|end| number(&end["naks_heard"])).collect();
    assert_eq!(heard.iter().sum::<u64>(), number(&ends[0]["counts"]["naks_received"]), "{pgm}");
    for (end, heard) in ends.iter().skip(1).zip(&heard) {
        let sent = number(&end["counts"]["naks_sent"]);
        assert!((sent > 0) == (*heard > 0), "{heard} of {sent} NAKs of {}: {pgm}", end["host"]);
    }
    assert!(heard.iter().any(|heard| *heard > 0), "{pgm}");
}

#[test]
fn messages_of_several_packets_travel_in_ip_itself() {
    let test = "messages_of_several_packets_travel_in_ip_itself";
    if !can_run(test) {
        return;
    }
    let hosts = Hosts::new("pgm-raw", 2);
    hosts.network.lose(1, 2);
    let document =
        hosts.measure(&["--rate", "500", "--count", "500", "--size", "4000", "--carrier", "raw", "--timeout", "5000"]);
    let pgm = &document["pgm"];
    assert_eq!((number(&document["messages"]["received"]), &pgm["carrier"]), (500, &"raw".into()), "{document}");
    // Three packets a message, each way.
    assert_eq!(sum(pgm, "odata_sent"), 2 * 3 * 500, "{pgm}");
    assert!(sum(pgm, "missing") > 0 && sum(pgm, "lost") == 0, "{pgm}");
    assert_eq!(document["factors"]["carrier"], "raw");
}

#[test]
fn what_cannot_be_repaired_is_loss() {
    let test = "what_cannot_be_repaired_is_loss";
    if !can_run(test) {
        return;
    }
    let hosts = Hosts::new("pgm-lost", 2);
    hosts.network.lose(1, 40);
    let output = hosts.pace(&[
        "--rate",
        "1k",
        "--count",
        "1500",
        "--size",
        "200",
        "--timeout",
        "500",
        "--retries",
        "1",
        "--format",
        "json",
    ]);
    let document = documents(&output).remove(0);
    let (messages, pgm) = (&document["messages"], &document["pgm"]);
    assert!(number(&messages["lost"]) > 0, "{document}");
    assert_eq!(number(&messages["received"]) + number(&messages["lost"]), 1500, "{document}");
    assert!(number(&pgm["ends"][1]["counts"]["lost"]) > 0, "{pgm}");
    let found = document["verdict"].to_string();
    assert!(found.contains("\"loss\"") && found.contains("gave up") && found.contains("retries"), "{found}");
}

#[test]
fn a_campaign_keeps_naks_and_repairs_as_events_and_draws_them() {
    let test = "a_campaign_keeps_naks_and_repairs_as_events_and_draws_them";
    if !can_run(test) {
        return;
    }
    let hosts = Hosts::new("pgm-campaign", 3);
    for host in 0..3 {
        hosts.network.lose(host, 3);
    }
    let agent = |host: usize| {
        let command = hosts.network.command(host, env!("CARGO_BIN_EXE_windhover"));
        let words: Vec<String> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|word| format!("\"{}\"", word.to_str().unwrap()))
            .chain(["\"agent\"".to_owned()])
            .collect();
        format!("agent_command = [{}]\naddress = \"{}\"\n", words.join(", "), address(host))
    };
    let plan = hosts.folder.file(
        "plan.toml",
        &format!(
            "name = \"pgm\"\nrepetitions = 1\n[hosts.a]\n{}[hosts.b]\n{}[hosts.c]\n{}[roles]\ninitiator = \"a\"\n\
             reflectors = [\"b\", \"c\"]\n\
             [measure]\nseconds = 1.0\nwarmup_ms = 50\ntimeout_ms = 5000\nover_us = 0.001\n[measure.pgm]\ngroup = \"{GROUP}\"\n\
             [[grid]]\nprobe = [\"pace\"]\nprotocol = [\"pgm\"]\nsize = [1000]\nrate = [2000]\n",
            agent(0),
            agent(1),
            agent(2)
        ),
    );
    let output = run(&["campaign", "run", &plan, "-o", hosts.folder.path()]);
    let folder = run_directory(&hosts.folder.0);
    let whole = assert_run_measured(&output, &folder);
    let text = stdout(&output);
    assert!(text.contains("PGM missed") && text.contains("PGM: loss and repair apart"), "{text}");
    let lines = |file: &str| -> Vec<Value> {
        let text = std::fs::read_to_string(folder.join("cells").join(file)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let events = lines("0001.events.jsonl");
    for kind in ["nak", "ncf", "repair"] {
        let times: Vec<u64> =
            events.iter().filter(|event| event["kind"] == kind).map(|event| number(&event["at_ns"])).collect();
        assert!(!times.is_empty() && times.is_sorted() && times.last().unwrap() < &6_000_000_000, "{kind}: {times:?}");
    }
    // A NAK for what the initiator published says who sent it, by the plan's name.
    let asked = |event: &&Value| event["kind"] == "nak" && event["detail"].as_str().unwrap().ends_with("of ours");
    for host in ["b", "c"] {
        assert!(events.iter().filter(asked).any(|event| event["host"] == host), "no NAK of {host}: {events:?}");
    }
    // Every message is kept, and those that were repaired say how.
    let ends = whole[0]["pgm"]["ends"].as_array().unwrap();
    assert_eq!((&ends[1]["host"], &ends[2]["host"]), (&"b".into(), &"c".into()), "named as the plan names them");
    let explained = lines("0001.outliers.jsonl")
        .iter()
        .filter(|outlier| {
            let parts = &outlier["parts_ns"];
            ["out", "back"].iter().any(|way| {
                let part = |name: &str| parts[format!("{way}-{name}")].as_u64();
                let steps = ["gap-to-nak", "nak-to-ncf", "ncf-to-repair"].map(part);
                let all = part("gap-to-repair");
                // The steps of one repair add up to it; some are missing where the other reflector asked.
                if let [Some(nak), Some(ncf), Some(data)] = steps {
                    assert_eq!(Some(nak + ncf + data), all, "{outlier}");
                }
                all.is_some()
            })
        })
        .count();
    let repaired = number(&fate(&whole[0]["pgm"], "repaired", None)["messages"]);
    assert!(repaired > 0 && explained > 0, "of {repaired} repaired messages none says how");
    // Its figures are there to be compared and to be gates.
    let path = folder.to_str().unwrap();
    for (gate, code) in [("given-up > 0", 0), ("repaired > 0%", 3), ("naks > 0", 3), ("untouched.p50 > 60s", 0)] {
        let compared = run(&["compare", path, path, "--fail-if", gate]);
        // A cell that the machine disturbed too much is judged by no gate.
        let trusted = output.status.code() == Some(0);
        assert!(trusted || stderr(&compared).contains("trusted"), "{gate}: {}", stderr(&compared));
        assert_code(&compared, if trusted { code } else { 4 });
    }
    let svg = hosts.folder.0.join("heat.svg");
    let drawn = run(&["plot", folder.to_str().unwrap(), "--figure", "heat", "-o", svg.to_str().unwrap()]);
    assert_eq!(drawn.status.code(), Some(0), "{}", stderr(&drawn));
    let svg = std::fs::read_to_string(svg).unwrap();
    for name in [">NAK<", ">NCF<", ">repair<"] {
        assert!(svg.contains(name), "{name} is not in the picture");
    }
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(
        page.contains("\"ticks\":[{\"name\":\"NAK\"") && page.contains("untouched by repairs"),
        "the page lacks them"
    );
}

#[test]
fn both_ends_run_on_one_host_by_its_loopback_addresses() {
    // Not beside the namespaces of other tests: the port is one for all programs of a host.
    let test = "both_ends_run_on_one_host_by_its_loopback_addresses";
    if !can_run(test) {
        return;
    }
    let alone = Network::of(2);
    for receive in ["block", "select", "epoll-mod", "epoll-adddel"] {
        let mut command = alone.command(0, "timeout");
        command.args(["-k", "5", LIMIT_S, env!("CARGO_BIN_EXE_windhover"), "pace", "pgm", GROUP, "--fork-both"]);
        command.args(["--size", "64", "--rate", "1k", "--count", "300", "--warmup", "20", "--format", "json"]);
        let output = command.args(["--receive", receive]).output().unwrap();
        assert_measured(&output);
        let document = documents(&output).remove(0);
        assert_eq!(number(&document["messages"]["received"]), 300, "{receive}: {document}");
        let addresses = [&document["ends"]["initiator"]["address"], &document["ends"]["reflector"]["address"]];
        assert!(addresses.iter().all(|address| address.as_str().unwrap().starts_with("127.0.0.")), "{addresses:?}");
        assert_ne!(addresses[0], addresses[1]);
    }
}

#[test]
fn what_is_refused_names_pace_and_its_form() {
    for probe in ["pingpong", "rr", "stream"] {
        assert_refused(&[probe, "pgm", "127.0.0.1"], 2, &[probe, "pgm carries pace"]);
    }
    assert_refused(&["pace", "pgm"], 2, &["group", "pace pgm GROUP PEER"]);
    assert_refused(&["pace", "pgm", "10.0.0.1", "127.0.0.1"], 2, &["10.0.0.1", "224.0.0.0/4"]);
    assert_refused(&["pace", "pgm", "there", "127.0.0.1"], 2, &["'there'", "multicast group"]);
    assert_refused(&["pace", "pgm", GROUP], 2, &["endpoint", "windhover serve"]);
    assert_refused(&["pace", "pgm", GROUP, "127.0.0.1", "--size", "32"], 2, &["size", "64"]);
    assert_refused(&["pace", "pgm", GROUP, "127.0.0.1", "--size", "64", "--stamps", "kernel"], 2, &["stamps"]);
    for (flags, words) in [
        ("--fec 16 --fec-proactive 17", ["fec.proactive_packets", "0 to 16"]),
        ("--fec 16 --fec-proactive 0 --fec-unasked", ["fec.proactive_packets", "1 or more"]),
        ("--fec 16 --fec-pause 0", ["fec.pause_us", "10 to 60,000,000 µs"]),
        ("--fec 64 --window 128", ["window", "four groups of 64"]),
    ] {
        let flags: Vec<&str> =
            ["pace", "pgm", GROUP, "127.0.0.1", "--size", "64"].into_iter().chain(flags.split(' ')).collect();
        assert_refused(&flags, 2, &words);
    }
    for packets in ["12", "256"] {
        let refused = run(&["pace", "pgm", GROUP, "127.0.0.1", "--fec", packets]);
        assert_code(&refused, 2);
        assert!(stderr(&refused).contains("power of two from 2 to 128"), "{}", stderr(&refused));
    }
    assert_refused(&["pace", "udp", "127.0.0.1", "--fec", "16"], 2, &["PGM", "udp"]);
    assert_refused(&["pace", "udp", "127.0.0.1", "127.0.0.2"], 2, &["127.0.0.2", "--to"]);
    assert_refused(&["pace", "udp", "127.0.0.1", "--retries", "3"], 2, &["PGM", "udp"]);
}
