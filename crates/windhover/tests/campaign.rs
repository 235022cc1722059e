//! Campaigns end to end: run directory, report, interruption, kill and resume, on loopback and in namespaces.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use support::{
    Folder, assert_code, assert_refused, assert_run_measured, cell_files, run, run_directory, stderr, stdout, windhover,
};

fn plan(kind: &str, seconds: &str, grid: &str) -> String {
    format!(
        "name = \"t\"\nrepetitions = 2\nseed = 7\n[lab]\nkind = \"{kind}\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n\
         [measure]\nseconds = {seconds}\nwarmup_ms = 5\nwarmup_count = 10\n[[grid]]\n{grid}\n"
    )
}

#[test]
fn a_loopback_campaign_from_plan_to_report() {
    let folder = Folder::new("campaign-loopback");
    let file = folder.file("plan.toml", &plan("loopback", "0.1", "protocol = [\"tcp\", \"udp\"]\nsize = [32, 256]"));
    let output = run(&["campaign", "run", &file, "--output", folder.path(), "--label", "nic=lo <x>"]);
    assert_code(&output, 0);
    let table = stdout(&output);
    assert!(table.contains("RTT/2") && table.contains("µs"), "{table}");
    let run_dir = run_directory(&folder.0);
    assert_eq!(cell_files(&run_dir).len(), 8);
    let path = run_dir.to_str().unwrap();
    let document: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(run_dir.join("run.json")).unwrap()).unwrap();
    let findings = &document["hosts"]["a"]["facts"]["environment"]["findings"];
    assert!(findings.as_array().is_some_and(|findings| !findings.is_empty()), "the doctor's record: {findings}");
    assert_eq!(stdout(&run(&["show", path])), table);
    let html = std::fs::read_to_string(run_dir.join("report.html")).unwrap();
    assert!(html.contains("<svg") && !html.contains("lo <x>"), "labels are escaped");
    let all: serde_json::Value = serde_json::from_str(&stdout(&run(&["report", path, "--format", "json"]))).unwrap();
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), 8);
    for document in all {
        assert_eq!(document["messages"]["lost"], 0, "{document}");
        assert!(document["histogram"].is_string() && document["cell"].is_string(), "{document}");
    }
    let csv = stdout(&run(&["report", path, "--format", "csv"]));
    assert_eq!(csv.lines().count(), 9, "{csv}");
    let cells = stdout(&run(&["report", path, "--format", "csv-cells"]));
    // Two repetitions of each cell.
    assert_eq!(cells.lines().count(), 5, "{cells}");
    assert!(cells.starts_with("cpu,load,") && cells.matches(",measured,").count() == 4, "{cells}");
    assert_refused(&["report", path, "--format", "csv", "--reference"], 2, &["--reference", "html"]);
    let reference = stdout(&run(&["show", path, "--reference"]));
    assert!(reference.contains("RedHawk") && reference.to_lowercase().contains("published"), "{reference}");
    assert!(stdout(&run(&["campaign", "list", folder.path()])).contains("8"), "listed");
    assert_refused(&["campaign", "list", "/nonexistent/runs"], 2, &["by default the current folder"]);
    // What happened is told within the columns there are, and a run that has everything says so.
    let wide = "verdict of a first line that no terminal of eighty columns has room for beside the others";
    let output = windhover(&["campaign", "run", &file, "--output", folder.path(), "--label", &format!("nic={wide}")])
        .env("COLUMNS", "80")
        .output()
        .unwrap();
    let told = stderr(&output);
    let cells = told.lines().filter(|line| !line.contains(folder.path()));
    assert!(cells.clone().count() > 8, "{told}");
    assert_eq!(cells.filter(|line| line.chars().count() > 80).collect::<Vec<_>>(), Vec::<&str>::new());
    let again = run(&["campaign", "resume", path]);
    assert_code(&again, 0);
    assert!(stderr(&again).contains("has all its 8 cells: nothing was left to measure"), "{}", stderr(&again));
}

#[test]
fn a_plan_shows_what_differs_between_its_cells() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../campaigns");
    let shown = |name: &str| -> Vec<String> {
        let file = folder.join(name).display().to_string();
        let output = windhover(&["campaign", "plan", &file]).env("COLUMNS", "200").output().unwrap();
        assert_code(&output, 0);
        assert_eq!(stderr(&output), "", "{name} can answer what it asks");
        let (asked, cells): (Vec<String>, Vec<String>) =
            stdout(&output).lines().skip(2).map(str::to_owned).partition(|line| line.starts_with("asks: "));
        assert!(!asked.is_empty(), "{name} asks");
        cells
    };
    for entry in std::fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let lines = shown(&name);
        let different: std::collections::BTreeSet<&String> = lines.iter().collect();
        assert_eq!(different.len(), lines.len(), "{name}: {lines:#?}");
        assert!(lines.iter().all(|line| line.trim_end() == line), "{name}: {lines:#?}");
    }
    let lines = shown("pgm.toml");
    assert!(lines.iter().any(|line| line.contains("1 reflector")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("3 reflectors")), "{lines:#?}");
    // Words of one axis stand below each other.
    let places: std::collections::BTreeSet<Option<usize>> =
        shown("shield.toml").iter().map(|line| line.find("no shield").or(line.find("shield "))).collect();
    assert_eq!(places.len(), 1, "{places:?}");
    let one = Folder::new("campaign-one");
    let text = plan("loopback", "0.1", "protocol = [\"tcp\"]").replace("repetitions = 2", "repetitions = 1");
    let output = stdout(&run(&["campaign", "plan", &one.file("one.toml", &text)]));
    assert!(output.contains("1 cell, 1 repetition each"), "{output}");
}

#[test]
fn a_plan_runs_several_times_in_one_command() {
    let folder = Folder::new("campaign-repeated");
    let file = folder.file("plan.toml", &plan("loopback", "0.1", "protocol = [\"udp\"]"));
    let output = run(&["campaign", "run", &file, "--output", folder.path(), "--repeat-runs", "2"]);
    assert_code(&output, 0);
    let mut runs: Vec<PathBuf> = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().path()).collect();
    runs.retain(|path| path.is_dir());
    runs.sort();
    assert_eq!(runs.iter().map(|run| cell_files(run).len()).collect::<Vec<_>>(), [2, 2]);
    let seed = |run: &PathBuf| -> u64 {
        let text = std::fs::read_to_string(run.join("run.json")).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["seed"].as_u64().unwrap()
    };
    assert_eq!(runs.iter().map(seed).collect::<Vec<_>>(), [7, 8]);
    assert_refused_by_clap(&["campaign", "run", &file, "--repeat-runs", "0"]);
}

fn assert_refused_by_clap(arguments: &[&str]) {
    let output = run(arguments);
    assert_code(&output, 2);
    assert!(stderr(&output).contains("--repeat-runs"), "{}", stderr(&output));
}

#[test]
fn plans_fit_the_terminal() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../campaigns");
    for name in ["white-paper.toml", "heat-map.toml", "pgm.toml", "shield.toml"] {
        support::fits_every_width(&["campaign", "plan", &folder.join(name).display().to_string()]);
    }
    let folder = Folder::new("campaign-width");
    let knobs =
        "knob = [\"none\", \"sysctl.net.core.busy_poll=50; sysctl.net.core.busy_read=50; sysctl.vm.swappiness=1\"]";
    let title =
        "title = \"A title that is longer than the eighty columns of a terminal, so that it has to be wrapped\"\n";
    let file = folder.file("long.toml", &format!("{title}{}", plan("loopback", "0.1", knobs)));
    support::fits_every_width(&["campaign", "plan", &file]);
}

const ASK: &str =
    "[[ask]]\naxis = \"receive\"\nquantity = [\"p50\", \"p99.9\"]\nwhere = { protocol = \"udp\", size = 32 }\n";
const ASKED: &str = "receive = [\"block\", \"poll\"]\nprotocol = [\"tcp\", \"udp\"]\nsize = [32]\n\
                     [[grid]]\nrepetitions = 1\nprotocol = [\"udp\"]\nsize = [64]";

/// A plan that asks, with so many repetitions of what it asks about.
fn asking(folder: &Folder, repetitions: u32) -> String {
    let text = plan("loopback", "0.1", ASKED).replace("repetitions = 2", &format!("repetitions = {repetitions}"));
    folder.file(&format!("{repetitions}.toml"), &text.replacen("[[grid]]", &format!("{ASK}[[grid]]"), 1))
}

#[test]
fn a_plan_says_what_it_asks() {
    let folder = Folder::new("campaign-asks");
    let output = run(&["campaign", "plan", &asking(&folder, 5)]);
    let text = stdout(&output);
    for line in [
        "4 cells, 5 repetitions each; 1 cell, 1 repetition each; about ",
        "asks: receive block → poll: p50, p99.9 (udp, 32 B), 5 repetitions each",
    ] {
        assert!(text.lines().any(|found| found.starts_with(line)), "{line}: {text}");
    }
    assert_eq!(stderr(&output), "", "what can be answered needs no warning");
    let text = plan("loopback", "0.1", "policy = [\"other\", \"batch\"]\nprotocol = [\"tcp\", \"udp\"]");
    let text = text.replace("repetitions = 2", "repetitions = 7");
    let output = stdout(&run(&["campaign", "plan", &folder.file("default.toml", &text)]));
    let line = "asks by default: policy other → batch: stdev, p99.9 (2 pairs of cells), 7 repetitions each";
    assert!(output.lines().any(|found| found == line), "{output}");
    let text = plan("loopback", "0.1", "protocol = [\"tcp\", \"udp\"]");
    let output = run(&["campaign", "plan", &folder.file("nothing.toml", &text)]);
    assert!(!stdout(&output).contains("asks") && stderr(&output).is_empty(), "{}", stdout(&output));
}

/// The plan is run and shown; the warning comes before the first cell, and is gone with what it says to type.
#[test]
fn what_repetitions_cannot_answer_is_warned_of_first() {
    let folder = Folder::new("campaign-few");
    let file = asking(&folder, 2);
    // One of its grids has repetitions of its own, which the flag would replace.
    let warning = "warning: 2 repetitions cannot answer the one comparison of this plan (smallest p 0.33, needed 0.05): set \
                   repetitions = 4 in the [[grid]] of these cells";
    let joined = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = run(&["campaign", "plan", &file]);
    assert_code(&shown, 0);
    assert_eq!(joined(&stderr(&shown)), warning);
    let output = run(&["campaign", "run", &file, "--output", folder.path()]);
    let told = joined(&stderr(&output));
    assert!(told.starts_with(warning), "{told}");
    let run_of = |repetitions: &str| {
        let typed = ["campaign", "run", &file, "--repetitions", repetitions, "--output", folder.path()];
        stderr(&run(&typed))
    };
    let told = run_of("5");
    assert!(!told.contains("cannot answer") && told.contains("25 cells, 0 done"), "{told}");
    let told = joined(&run_of("1"));
    assert!(told.starts_with("warning: 1 repetition cannot answer the one comparison"), "{told}");
    assert!(told.contains(&format!("type `windhover campaign run {file} --repetitions 4`")), "{told}");
    let document = |path: PathBuf| -> serde_json::Value {
        serde_json::from_str(&std::fs::read_to_string(path.join("run.json")).unwrap()).unwrap()
    };
    let runs = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    for path in runs {
        let asked = &document(path)["ask"];
        assert_eq!((&asked[0]["axis"], &asked[0]["where"]["size"]), (&"receive".into(), &"32".into()), "{asked}");
    }
}

#[test]
fn a_killed_runner_loses_at_most_the_cell_in_flight() {
    let folder = Folder::new("campaign-killed");
    let file = folder.file("plan.toml", &plan("loopback", "0.3", "protocol = [\"tcp\", \"udp\"]\nsize = [32, 64]"));
    let mut child = windhover(&["--quiet", "campaign", "run", &file, "--output", folder.path()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let done = loop {
        let run_dir = std::fs::read_dir(&folder.0)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.join("cells").is_dir());
        match run_dir.map(|path| cell_files(&path).len()) {
            Some(count) if count >= 2 => break count,
            _ if Instant::now() > deadline => panic!("no cell was done"),
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    let run_dir = run_directory(&folder.0);
    let kept = cell_files(&run_dir).len();
    assert!(kept >= done, "{kept} of {done} cells survived the kill");
    assert!(kept < 8, "killed too late to show anything");
    let output = run(&["campaign", "resume", run_dir.to_str().unwrap()]);
    assert_code(&output, 0);
    assert_eq!(cell_files(&run_dir).len(), 8);
    // Each step is done exactly once in the journal.
    let journal = std::fs::read_to_string(run_dir.join("journal.jsonl")).unwrap();
    let mut indices: Vec<u64> = journal
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|line| line["step"] == "done")
        .map(|line| line["index"].as_u64().unwrap())
        .collect();
    indices.sort_unstable();
    indices.dedup();
    assert_eq!(indices, (1..=8).collect::<Vec<_>>());
}

/// The processes whose command line ends in `worker`, below one of ours: a worker's own children before it.
fn workers_of(process: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    let children = children.split_whitespace().map(|id| id.parse().unwrap());
    let below = children.flat_map(|child: u32| {
        let line = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        let own = line.ends_with(b"\0worker\0").then_some(child);
        workers_of(child).into_iter().chain(own)
    });
    below.collect()
}

/// A worker that stands still holds its cell no longer than its limit (30 s and three times what it measures), and the next
/// cell is measured.
#[test]
fn a_stopped_worker_does_not_hold_the_campaign() {
    let folder = Folder::new("campaign-stopped-worker");
    // Within one process, so that the only worker is the one that measures.
    let measured = plan("loopback", "1", "protocol = [\"unix-stream\"]\nsize = [32]")
        .replace("warmup_ms", "timeout_ms = 1000\nwarmup_ms");
    let file = folder.file("plan.toml", &measured);
    let child = windhover(&["campaign", "run", &file, "--output", folder.path()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let worker = loop {
        if let Some(&worker) = workers_of(child.id()).last() {
            break worker;
        }
        assert!(Instant::now() < deadline, "no worker was started");
        std::thread::sleep(Duration::from_millis(5));
    };
    let stopped = std::process::Command::new("kill").args(["-STOP", &worker.to_string()]).status().unwrap();
    assert!(stopped.success());
    let output = child.wait_with_output().unwrap();
    eprintln!("{}", stderr(&output));
    assert_code(&output, 1);
    assert!(!Path::new(&format!("/proc/{worker}")).exists(), "the worker is still there");
    assert_eq!(cell_files(&run_directory(&folder.0)).len(), 1, "the second repetition is measured");
}

#[test]
fn an_interrupt_ends_cleanly_with_a_report() {
    let folder = Folder::new("campaign-interrupted");
    let file = folder.file("plan.toml", &plan("loopback", "0.3", "protocol = [\"tcp\", \"udp\"]\nsize = [32, 64]"));
    let child = windhover(&["campaign", "run", &file, "--output", folder.path()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !std::fs::read_dir(&folder.0).unwrap().any(|entry| !cell_files(&entry.unwrap().path()).is_empty()) {
        assert!(Instant::now() < deadline, "no cell was done");
        std::thread::sleep(Duration::from_millis(20));
    }
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    assert_code(&output, 130);
    assert!(stderr(&output).contains("campaign resume"), "{}", stderr(&output));
    let run_dir = run_directory(&folder.0);
    assert!(run_dir.join("report.html").is_file());
    let document: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(run_dir.join("run.json")).unwrap()).unwrap();
    assert_eq!(document["outcome"], "interrupted");
}

#[test]
fn a_lab_of_namespaces_with_load() {
    if !support::can_make_namespaces("a_lab_of_namespaces_with_load") {
        return;
    }
    let folder = Folder::new("campaign-netns");
    let grid = "protocol = [\"tcp\", \"udp\"]\nload = [\"none\", \"build\"]\n[[grid]]\nprobe = [\"rr\", \"ping\"]";
    let text = plan("netns", "0.2", grid).replace("repetitions = 2", "repetitions = 1");
    let file = folder.file("plan.toml", &text);
    let child = windhover(&["campaign", "run", &file, "--output", folder.path()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lab = format!("wh-campaign-{}-", child.id());
    // The lab carries the runner's id while it stands, so that what it leaves behind can be told from others' labs.
    let deadline = Instant::now() + Duration::from_secs(60);
    while namespaces(&lab).is_empty() {
        assert!(Instant::now() < deadline, "no lab was made");
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(namespaces(&lab), "", "the lab is removed");
    let run_dir = run_directory(&folder.0);
    assert_run_measured(&output, &run_dir);
    let all: serde_json::Value =
        serde_json::from_str(&stdout(&run(&["report", run_dir.to_str().unwrap(), "--format", "json"]))).unwrap();
    let loaded: Vec<_> =
        all.as_array().unwrap().iter().filter(|document| document["factors"]["load"] == "build").collect();
    assert_eq!(loaded.len(), 2);
    for document in loaded {
        assert!(document["load"]["work"].as_u64() > Some(0), "{document}");
        assert!(document["load"]["busy_percent"].as_f64() > Some(50.0), "{}", document["load"]);
    }
    let run_json = std::fs::read_to_string(run_dir.join("run.json")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&run_json).unwrap();
    assert_eq!(document["substrate"], "netns");
    assert_eq!(document["machines"].as_object().unwrap().len(), 1, "two hosts of one machine");
    assert!(
        document["hosts"]["b"]["facts"]["nics"].as_array().unwrap().iter().any(|nic| nic["driver"] == "veth"),
        "{run_json}"
    );
}

/// The namespaces of labs whose name begins so.
fn namespaces(name: &str) -> String {
    let output = std::process::Command::new("ip").args(["netns", "list"]).output().unwrap();
    let all = stdout(&output);
    all.lines().filter(|line| line.starts_with(name)).collect::<Vec<_>>().join("\n")
}

#[test]
fn an_agent_behind_any_command_and_one_of_another_build() {
    let folder = Folder::new("campaign-agents");
    let exe = env!("CARGO_BIN_EXE_windhover");
    let text = |command: &str| {
        format!(
            "name = \"t\"\nrepetitions = 1\n[hosts.a]\nagent_command = [\"{exe}\", \"agent\"]\naddress = \"127.0.0.1\"\n\
             [hosts.b]\nagent_command = {command}\naddress = \"127.0.0.1\"\n[roles]\ninitiator = \"a\"\n\
             reflectors = [\"b\"]\n[measure]\nseconds = 0.1\n[[grid]]\n"
        )
    };
    let good = folder.file("good.toml", &text(&format!("[\"sh\", \"-c\", \"exec {exe} agent\"]")));
    assert_code(&run(&["campaign", "run", &good, "--output", folder.path()]), 0);
    // The same program with one byte more is another build.
    let other = folder.0.join("other-windhover");
    let mut bytes = std::fs::read(exe).unwrap();
    bytes.push(0);
    std::fs::write(&other, bytes).unwrap();
    std::fs::set_permissions(&other, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let file = folder.file("other.toml", &text(&format!("[\"{}\", \"agent\"]", other.display())));
    assert_refused(&["--quiet", "campaign", "run", &file, "--output", folder.path()], 2, &["host b", "another build"]);
    let file = folder.file("missing.toml", &text("[\"/nonexistent/agent\"]"));
    let output = run(&["--quiet", "campaign", "run", &file, "--output", folder.path()]);
    assert!(!output.status.success() && stderr(&output).contains("/nonexistent/agent"), "{}", stderr(&output));
}

#[test]
fn an_agents_program_that_is_replaced_meanwhile_is_not_used() {
    let folder = Folder::new("campaign-replaced");
    let exe = env!("CARGO_BIN_EXE_windhover");
    let own = folder.0.join("windhover");
    let own = own.display();
    // The agent of host b puts a fresh copy in its own place right after its start.
    let script = format!("cp {exe} {own}; (cp {exe} {own}.new; sleep 0.2; mv {own}.new {own}) & exec {own} agent");
    let text = format!(
        "name = \"t\"\nrepetitions = 6\n[hosts.a]\nagent_command = [\"{exe}\", \"agent\"]\naddress = \"127.0.0.1\"\n\
         [hosts.b]\nagent_command = [\"sh\", \"-c\", \"{script}\"]\naddress = \"127.0.0.1\"\n[roles]\ninitiator = \"a\"\n\
         reflectors = [\"b\"]\n[measure]\nseconds = 0.1\n[[grid]]\nstack = [\"kernel\", \"other\"]\n[stacks.other]\n\
         environment = {{ X = \"1\" }}\n"
    );
    let file = folder.file("plan.toml", &text);
    let output = run(&["campaign", "run", &file, "--output", folder.path()]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("was replaced"), "{}", stderr(&output));
}

/// Catches: a wake-up that some output calls a round trip, gives a protocol or a size, or leaves out.
#[test]
fn wake_ups_beside_round_trips_in_every_output() {
    let folder = Folder::new("campaign-wake");
    let trip = plan("loopback", "0.5", "protocol = [\"udp\"]\npolicy = [\"other\", \"batch\"]");
    // Long intervals: a busy machine wakes ordinary threads by milliseconds late.
    let wake = "[[grid]]\nprobe = [\"wake\"]\npolicy = [\"other\", \"batch\"]\ninterval_us = [5000, 10000]\n";
    let file = folder.file("plan.toml", &format!("{trip}\n{wake}"));
    let output = run(&["campaign", "run", &file, "--output", folder.path()]);
    let directory = run_directory(&folder.0);
    let results = assert_run_measured(&output, &directory);
    let wakes: Vec<_> = results.iter().filter(|result| result["probe"] == "wake").collect();
    assert_eq!((results.len(), wakes.len()), (12, 8));
    for result in &wakes {
        let series: Vec<_> =
            result["series"].as_array().unwrap().iter().map(|one| one["quantity"].to_string()).collect();
        assert!(series.iter().all(|name| !name.contains("rtt")) && series.len() == 4, "{series:?}");
    }
    let html = std::fs::read_to_string(directory.join("report.html")).unwrap();
    for wanted in ["wake-up latency max", "Tail of wake-up latency", "Timer wake-ups"] {
        assert!(html.contains(wanted), "{wanted}");
    }
    assert!(!html.contains("TIMER"), "a timer is no protocol");
    let directory = directory.to_str().unwrap();
    let text = stdout(&run(&["show", directory]));
    let table = text.split("side by side").nth(1).unwrap_or_default();
    let words = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("interval_us 5000") && words.contains("interval_us 10000"), "{text}");
    let listed = stdout(&run(&["plot", directory, "--list", "--all"]));
    assert!(listed.contains("heat-0003-wake-up") && !listed.contains("TIMER"), "{listed}");
    let compared = stdout(&run(&["compare", directory, "--axis", "policy", "--where", "probe=wake"]));
    assert!(compared.contains("wake-up latency") && !compared.contains("RTT"), "{compared}");
    // A plan of wake-ups alone needs no second host.
    let alone = plan("loopback", "0.1", "probe = [\"wake\"]").replace("reflectors = [\"b\"]\n", "");
    let file = folder.file("alone.toml", &alone);
    let output = run(&["campaign", "run", &file, "--output", &format!("{}/alone", folder.path())]);
    assert_run_measured(&output, &run_directory(&folder.0.join("alone")));
}
