//! A campaign on hosts that measure nothing: what is asked in which order, what is written, what ends it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at what it did not expect")]

#[allow(dead_code, reason = "each test file uses a part of it")]
mod common;

use common::{Fake, PLAN, options, plan};
use model::{FindingId, JournalLine, Role, Substrate};
use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::Ordering;
use std::time::Duration;
use store::Run;
use windhover_campaign::{
    CampaignError, HostError, Observer, Outcome, Progress, Silent, plan_order, resume_on, run_on,
};

fn failed(why: &str) -> HostError {
    HostError::Failed { host: "a".to_owned(), why: why.to_owned() }
}

/// Asks for intervals and keeps them.
#[derive(Default)]
struct Watching(Vec<(u32, u64, bool)>);

impl Observer for Watching {
    fn wants_intervals(&self) -> bool {
        true
    }

    fn observe(&mut self, progress: &Progress<'_>) {
        match progress {
            Progress::Interval { step, interval } => self.0.push((step.index, interval.sent, false)),
            Progress::CellDone { step, .. } => self.0.push((step.index, 0, true)),
            _ => {}
        }
    }
}

#[test]
fn who_asks_is_told_the_intervals_of_each_cell_before_its_result() {
    let folder = tempfile::tempdir().unwrap();
    let mut watching = Watching::default();
    run_on(&plan(PLAN), &mut Fake::new(), &options(folder.path(), PLAN), &mut watching).unwrap();
    let expected: Vec<(u32, u64, bool)> =
        (1..=12).flat_map(|index| [(index, u64::from(index), false), (index, 0, true)]).collect();
    assert_eq!(watching.0, expected);
}

#[test]
fn a_plan_becomes_a_run_directory() {
    let folder = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    let mut options = options(folder.path(), PLAN);
    options.labels.insert("nic".to_owned(), "veth".to_owned());
    let mut seen: Vec<String> = Vec::new();
    let mut etas = Vec::new();
    let mut watch = |progress: &Progress<'_>| match progress {
        Progress::RunOpened { steps, eta_ns, .. } => {
            assert_eq!(*steps, 12);
            etas.push(*eta_ns);
        }
        Progress::CellStarted { step, .. } => seen.push(format!("start {}", step.index)),
        Progress::CellDone { step, result, eta_ns } => {
            assert_eq!(result.cell.as_deref(), Some(step.cell.as_str()));
            seen.push(format!("done {}", step.index));
            etas.push(*eta_ns);
        }
        Progress::HostsReady { .. } => {}
        other => panic!("{other:?}"),
    };
    let summary = run_on(&plan(PLAN), &mut fake, &options, &mut watch).unwrap();
    assert_eq!((summary.outcome, summary.steps, summary.done, summary.failed), (Outcome::Done, 12, 12, 0));
    assert_eq!(summary.exit_code(), 0);
    assert_eq!(seen[..4], ["start 1", "done 1", "start 2", "done 2"]);
    assert!(etas[0] > 0);
    assert_eq!(etas.last(), Some(&0));
    assert!(fake.running.is_empty());

    let run = Run::load(&summary.path).unwrap();
    assert_eq!(run.plan, PLAN);
    assert!(run.problems.is_empty() && run.missing().is_empty());
    assert_eq!((run.run.substrate, run.run.outcome.as_deref()), (Substrate::Netns, Some("done")));
    assert_eq!((run.run.labels["nic"].as_str(), run.run.labels["os"].as_str()), ("veth", "test"));
    assert_eq!(run.run.seed, 3);
    let order = plan_order(&plan(PLAN), 3).unwrap();
    assert_eq!(run.run.order, order.iter().map(windhover_campaign::PlannedCell::record).collect::<Vec<_>>());
    assert_eq!(run.run.hosts["b"].role, "reflector");
    assert_eq!(run.run.hosts["b"].address.as_deref(), Some("198.18.0.2"));
    for ((step, result), planned) in run.results.iter().zip(&order) {
        assert_eq!(result.factors, planned.cell.factors);
        assert_eq!(result.repetition, Some(step.repetition));
        assert_eq!(result.ends.first(Role::Initiator).unwrap().host.as_deref(), Some("a"));
        assert_eq!(result.ends.first(Role::Reflector).unwrap().host.as_deref(), Some("b"));
        let loaded = planned.cell.load.is_some();
        assert_eq!(result.load.is_some(), loaded);
        let kinds: Vec<String> =
            store::events(&run.path, step.index).unwrap().into_iter().map(|event| event.kind).collect();
        let expected: &[&str] = if loaded { &["load-started", "load-ready", "load-stopped"] } else { &[] };
        assert_eq!(kinds, expected);
    }
}

#[test]
fn a_cell_starts_and_ends_its_own_workers() {
    let folder = tempfile::tempdir().unwrap();
    let text = PLAN.replace("size = [1, 2, 3]", "size = [1]").replace("\"none\", \"cpu\"", "\"cpu\"");
    let mut fake = Fake::new();
    // Another machine for b: the load runs on both, the initiator's first.
    fake.hosts.insert("b".to_owned(), ("boot-2".to_owned(), "6.1".to_owned()));
    run_on(&plan(&text), &mut fake, &options(folder.path(), &text), &mut Silent).unwrap();
    let cell = [
        "start endpoint@b",
        "start cpu@a",
        "start cpu@b",
        "probe@a against 198.18.0.2:4711",
        "stop cpu@a",
        "stop cpu@b",
        "stop endpoint@b",
    ];
    assert_eq!(fake.log, [cell, cell].concat());
}

#[test]
fn a_cpu_that_a_host_does_not_have_is_told_before_the_first_cell() {
    let folder = tempfile::tempdir().unwrap();
    let base = PLAN.split("[[grid]]").next().unwrap();
    for (number, (grid, refused)) in [
        ("cpu = [\"0;0\", \"0;3\"]", None),
        ("cpu = [\"0;0\", \"2;0\"]", Some(("a", 2, "0-1"))),
        ("cpu = [\"1;0\", \"1;4\"]", Some(("b", 4, "0-3"))),
        // A local protocol's reflector is on the initiator's host.
        ("cpu = [\"0;3\"]\nprotocol = [\"pipe\"]", Some(("a", 3, "0-1"))),
    ]
    .into_iter()
    .enumerate()
    {
        let text = format!("{base}[[grid]]\n{grid}\n");
        let mut fake = Fake::new();
        fake.hosts.insert("b".to_owned(), ("boot-2".to_owned(), "6.1".to_owned()));
        fake.cpus.insert("a".to_owned(), "0-1".to_owned());
        fake.cpus.insert("b".to_owned(), "0-3".to_owned());
        let output = folder.path().join(number.to_string());
        fs::create_dir(&output).unwrap();
        let ended = run_on(&plan(&text), &mut fake, &options(&output, &text), &mut Silent);
        let Some((host, cpu, online)) = refused else {
            assert_eq!(ended.unwrap().done, 4);
            continue;
        };
        let error = ended.unwrap_err();
        assert_eq!((error.exit_code(), fake.log.len()), (2, 0), "{error}");
        let words = error.to_string();
        let expected = [format!("'{host}'"), format!("CPU {cpu}"), format!("use {online}")];
        assert!(expected.iter().all(|word| words.contains(word)), "{words}");
        assert_eq!(fs::read_dir(&output).unwrap().count(), 0, "no run directory");
    }
}

#[test]
fn what_needs_no_endpoint_gets_none() {
    let folder = tempfile::tempdir().unwrap();
    for (grid, control) in [("probe = [\"ping\"]", "198.18.0.2"), ("protocol = [\"unix-dgram\"]", "")] {
        let text =
            format!("{}{grid}\n", PLAN.split("load = ").next().unwrap()).replace("repetitions = 2", "repetitions = 1");
        let text = text.replace("\"t\"", if control.is_empty() { "\"local\"" } else { "\"ping\"" });
        let mut fake = Fake::new();
        run_on(&plan(&text), &mut fake, &options(folder.path(), &text), &mut Silent).unwrap();
        assert_eq!(fake.log, [format!("probe@a against {control}")]);
    }
}

#[test]
fn an_uneven_load_is_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    fake.work_cv = 0.6;
    let summary = run_on(&plan(PLAN), &mut fake, &options(folder.path(), PLAN), &mut Silent).unwrap();
    for (step, result) in Run::load(&summary.path).unwrap().results {
        let uneven = result.verdict.disturbed.iter().any(|finding| finding.id == FindingId::LoadUneven);
        assert_eq!(uneven, step.factors["load"] == "cpu");
        assert!(result.verdict.trusted);
    }
}

#[test]
fn a_failed_cell_is_told_and_the_rest_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    fake.script = Box::new(|_, probe| (probe == 2 || probe == 3).then(|| failed("no route")));
    let options = options(folder.path(), PLAN);
    let mut told = Vec::new();
    let mut watch = |progress: &Progress<'_>| {
        if let Progress::CellFailed { step, why, .. } = progress {
            told.push((step.index, (*why).to_owned()));
        }
    };
    let summary = run_on(&plan(PLAN), &mut fake, &options, &mut watch).unwrap();
    assert_eq!((summary.done, summary.failed, summary.exit_code()), (10, 2, 1));
    assert_eq!(told, [(2, "host 'a': no route".to_owned()), (3, "host 'a': no route".to_owned())]);
    assert!(fake.running.is_empty());
    let run = Run::load(&summary.path).unwrap();
    assert_eq!(run.failed.len(), 2);

    let mut fake = Fake::new();
    let summary = resume_on(&summary.path, &mut fake, &options, &mut Silent).unwrap();
    assert_eq!((summary.done, summary.failed, fake.probes), (12, 0, 2));
    let run = Run::load(&summary.path).unwrap();
    assert!(run.failed.is_empty() && run.missing().is_empty());
}

#[test]
fn the_same_failure_three_times_ends_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    fake.script = Box::new(|_, probe| (probe > 1).then(|| failed(&format!("port {} is closed", 4000 + probe))));
    let error = run_on(&plan(PLAN), &mut fake, &options(folder.path(), PLAN), &mut Silent).unwrap_err();
    let CampaignError::SameFailure { run, times, .. } = &error else { panic!("{error}") };
    assert_eq!((*times, fake.probes, error.exit_code()), (3, 4, 1));
    assert!(error.to_string().contains("campaign resume") && !error.to_string().contains('\n'), "{error}");
    let run = Run::load(run).unwrap();
    assert_eq!((run.results.len(), run.failed.len()), (1, 3));
    assert_eq!(run.run.outcome.as_deref(), Some("failed"));

    // Different failures are told, but do not add up.
    let folder = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    fake.script = Box::new(|_, probe| Some(failed(if probe % 2 == 0 { "even" } else { "odd" })));
    let summary = run_on(&plan(PLAN), &mut fake, &options(folder.path(), PLAN), &mut Silent).unwrap();
    assert_eq!((summary.done, summary.failed), (0, 12));
}

#[test]
fn a_lost_agent_ends_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    fake.script = Box::new(|_, probe| {
        (probe == 5).then(|| HostError::Lost { host: "a".to_owned(), why: "its pipe closed".to_owned() })
    });
    let options = options(folder.path(), PLAN);
    let error = run_on(&plan(PLAN), &mut fake, &options, &mut Silent).unwrap_err();
    assert_eq!(error.exit_code(), 5);
    let CampaignError::AgentLost { run: path, .. } = &error else { panic!("{error}") };
    assert!(error.to_string().contains("host 'a' was lost: its pipe closed"), "{error}");
    assert_eq!(Run::load(path).unwrap().results.len(), 4);
    let summary = resume_on(path, &mut Fake::new(), &options, &mut Silent).unwrap();
    assert_eq!(summary.done, 12);
}

/// A probe that hangs (it was stopped, say) holds its cell no longer than the cell may take by itself.
#[test]
fn a_hung_probe_is_given_up_in_the_time_of_its_cell() {
    let folder = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    run_on(&plan(PLAN), &mut fake, &options(folder.path(), PLAN), &mut Silent).unwrap();
    assert!(!fake.limits.is_empty());
    for (spec, limit) in fake.limits {
        let own = Duration::from_millis(u64::from(spec.stop.max_ms) + u64::from(spec.warmup.time_ms));
        let most = Duration::from_secs(60) + 4 * own + 20 * Duration::from_millis(u64::from(spec.timeout_ms));
        let limit = limit.unwrap();
        assert!(limit > 2 * own && limit <= most, "{limit:?} for a cell of {own:?}");
    }
}

#[test]
fn a_lost_reflector_is_the_reason_and_not_the_vanished_peer() {
    let folder = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    fake.lost.insert("b".to_owned());
    fake.script = Box::new(|_, _| Some(failed("the peer vanished")));
    let error = run_on(&plan(PLAN), &mut fake, &options(folder.path(), PLAN), &mut Silent).unwrap_err();
    assert!(error.exit_code() == 5 && error.to_string().contains("host 'b' was lost"), "{error}");
    assert_eq!(fake.probes, 1);
    assert!(fake.running.is_empty());
}

#[test]
fn a_raised_flag_ends_the_run_cleanly() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path(), PLAN);
    let mut fake = Fake::new();
    let stop = options.stop.clone();
    fake.script = Box::new(move |_, probe| {
        if probe == 4 {
            stop.store(true, Ordering::Relaxed);
        }
        None
    });
    let summary = run_on(&plan(PLAN), &mut fake, &options, &mut Silent).unwrap();
    assert_eq!((summary.outcome, summary.done, summary.exit_code()), (Outcome::Interrupted, 3, 130));
    assert!(fake.running.is_empty(), "the cell in flight was ended: {:?}", fake.running);
    let run = Run::load(&summary.path).unwrap();
    assert_eq!(run.run.outcome.as_deref(), Some("interrupted"));
    assert!(run.run.ended_ns.is_some());
    assert_eq!(run.missing().len(), 9);

    options.stop.store(false, Ordering::Relaxed);
    let summary = resume_on(&summary.path, &mut Fake::new(), &options, &mut Silent).unwrap();
    assert_eq!((summary.outcome, summary.done), (Outcome::Done, 12));
    let run = Run::load(&summary.path).unwrap();
    assert_eq!(run.run.outcome.as_deref(), Some("done"));
    let indexes: Vec<u32> = run
        .journal
        .iter()
        .filter_map(|line| if let JournalLine::Done { index, .. } = line { Some(*index) } else { None })
        .collect();
    assert_eq!(indexes, (1..=12).collect::<Vec<_>>(), "the order of the run goes on");
}

#[test]
fn a_resumed_run_knows_its_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path(), PLAN);
    options.stop.store(true, Ordering::Relaxed);
    let summary = run_on(&plan(PLAN), &mut Fake::new(), &options, &mut Silent).unwrap();
    assert_eq!(summary.done, 0);
    let before = fs::read(summary.path.join("journal.jsonl")).unwrap();

    // Booted with another kernel: a warning for each host, and both machines are kept.
    let mut fake = Fake::new();
    for host in fake.hosts.values_mut() {
        *host = ("boot-2".to_owned(), "6.6".to_owned());
    }
    let mut warnings = Vec::new();
    let mut watch = |progress: &Progress<'_>| {
        if let Progress::Warning(text) = progress {
            warnings.push((*text).to_owned());
        }
    };
    resume_on(&summary.path, &mut fake, &options, &mut watch).unwrap();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("'6.6'") && warnings[0].contains("'6.1'"), "{warnings:?}");
    assert_eq!(Run::load(&summary.path).unwrap().run.machines.len(), 2);
    assert!(fs::read(summary.path.join("journal.jsonl")).unwrap().starts_with(&before), "the journal is appended to");

    // A plan that lost its cells.
    fs::write(summary.path.join("plan.toml"), PLAN.replace("[1, 2, 3]", "[1, 2, 4]")).unwrap();
    let error = resume_on(&summary.path, &mut Fake::new(), &options, &mut Silent).unwrap_err();
    assert!(error.to_string().contains("size=3") && error.exit_code() == 2, "{error}");
}

#[test]
fn nothing_is_left_when_a_run_cannot_begin() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path(), PLAN);
    let mut fake = Fake::new();
    fake.address = false;
    let error = run_on(&plan(PLAN), &mut fake, &options, &mut Silent).unwrap_err();
    assert!(error.to_string().contains("hosts.b.address") && error.exit_code() == 2, "{error}");
    let mut no_reflector = plan(PLAN);
    no_reflector.roles.reflectors.clear();
    let error = run_on(&no_reflector, &mut Fake::new(), &options, &mut Silent).unwrap_err();
    assert!(error.to_string().contains("no reflector"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_command_line_overrides_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path(), PLAN);
    options.seed = Some(99);
    options.repetitions = Some(1);
    let summary = run_on(&plan(PLAN), &mut Fake::new(), &options, &mut Silent).unwrap();
    let run = Run::load(&summary.path).unwrap();
    assert_eq!((run.run.seed, run.run.order.len()), (99, 6));
    let keys: BTreeSet<&str> = run.run.order.iter().map(|step| step.cell.as_str()).collect();
    assert_eq!(keys.len(), 6);
    // A plan without a seed gets one, and it is written down.
    let text = PLAN.replace("seed = 3\n", "").replace("\"t\"", "\"u\"");
    let fresh = common::options(folder.path(), &text);
    let summary = run_on(&plan(&text), &mut Fake::new(), &fresh, &mut Silent).unwrap();
    let run = Run::load(&summary.path).unwrap();
    let again = plan_order(&plan(&text), run.run.seed).unwrap();
    assert_eq!(run.run.order, again.iter().map(windhover_campaign::PlannedCell::record).collect::<Vec<_>>());
}

#[test]
fn a_run_that_is_done_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path(), PLAN);
    let summary = run_on(&plan(PLAN), &mut Fake::new(), &options, &mut Silent).unwrap();
    let journal = fs::read_to_string(summary.path.join("journal.jsonl")).unwrap();
    let mut fake = Fake::new();
    let again = resume_on(&summary.path, &mut fake, &options, &mut Silent).unwrap();
    assert_eq!(again, summary);
    assert!(fake.log.is_empty());
    assert_eq!(fs::read_to_string(summary.path.join("journal.jsonl")).unwrap(), journal);

    // Killed after the last cell: only its end is missing.
    let document = fs::read_to_string(summary.path.join("run.json")).unwrap();
    let open = document.replace("\"outcome\": \"done\"", "\"outcome\": null");
    assert_ne!(open, document);
    fs::write(summary.path.join("run.json"), open).unwrap();
    fs::write(summary.path.join("journal.jsonl"), journal.rsplit_once("{").unwrap().0).unwrap();
    assert_eq!(resume_on(&summary.path, &mut fake, &options, &mut Silent).unwrap(), summary);
    let run = Run::load(&summary.path).unwrap();
    assert_eq!(run.run.outcome.as_deref(), Some("done"));
    assert!(matches!(run.journal.last(), Some(JournalLine::End { .. })));
}

#[test]
fn pace_goes_to_several_reflectors_under_the_plans_names() {
    let folder = tempfile::tempdir().unwrap();
    let text = "name = \"t\"\nrepetitions = 1\n[lab]\nkind = \"netns\"\nhosts = 3\n[roles]\ninitiator = \"a\"\n\
                reflectors = [\"b\", \"c\"]\n[measure]\nseconds = 0.01\ncpu = \"0;1\"\nreceive_cpu = 1\n\
                [[grid]]\nprobe = [\"pace\"]\nrate = [\"10k\"]\n";
    let mut fake = Fake::new();
    fake.hosts.insert("c".to_owned(), ("boot-1".to_owned(), "6.1".to_owned()));
    fake.reflectors = true;
    let summary = run_on(&plan(text), &mut fake, &options(folder.path(), text), &mut Silent).unwrap();
    assert_eq!(
        fake.log,
        [
            "start endpoint@b",
            "start endpoint@c",
            "probe@a against 198.18.0.2:4711 and 198.18.0.3:4711",
            "stop endpoint@b",
            "stop endpoint@c"
        ]
    );
    let run = Run::load(&summary.path).unwrap();
    let (step, result) = &run.results[0];
    assert_eq!(result.factors["rate"], 10_000);
    let hosts: Vec<&str> = result.reflectors.iter().map(|reflector| reflector.host.as_str()).collect();
    assert_eq!(hosts, ["b", "c"]);
    assert_eq!(result.ends.first(Role::Reflector).unwrap().host.as_deref(), Some("b"));
    let log = fs::read_to_string(summary.path.join(format!("cells/{:04}.hlog", step.index))).unwrap();
    assert!(log.contains("Tag=rtt@b,0.000") && log.contains("Tag=rtt@c,0.000") && !log.contains("198"), "{log}");
    let outliers = store::outliers(&run.path, step.index).unwrap();
    assert_eq!(outliers[0].host.as_deref(), Some("c"));
}

#[test]
fn what_one_of_several_reflectors_did_not_start_is_ended_again() {
    let folder = tempfile::tempdir().unwrap();
    let text = "name = \"t\"\nrepetitions = 1\n[lab]\nkind = \"netns\"\nhosts = 3\n[roles]\ninitiator = \"a\"\n\
                reflectors = [\"b\", \"c\"]\n[measure]\nseconds = 0.01\n[[grid]]\nprobe = [\"pace\"]\n";
    let mut fake = Fake::new();
    fake.hosts.insert("c".to_owned(), ("boot-1".to_owned(), "6.1".to_owned()));
    fake.no_endpoint.insert("c".to_owned());
    let summary = run_on(&plan(text), &mut fake, &options(folder.path(), text), &mut Silent).unwrap();
    assert_eq!((summary.done, summary.failed), (0, 1));
    assert_eq!(fake.log, ["start endpoint@b", "stop endpoint@b"]);
}

#[test]
fn a_receivers_cpu_is_looked_for_too() {
    let folder = tempfile::tempdir().unwrap();
    let text = "name = \"t\"\n[lab]\nkind = \"netns\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n[measure]\n\
                cpu = \"0;1\"\nreceive_cpu = 7\n[[grid]]\nprobe = [\"pace\"]\n";
    let mut fake = Fake::new();
    fake.cpus.insert("a".to_owned(), "0-1".to_owned());
    let error = run_on(&plan(text), &mut fake, &options(folder.path(), text), &mut Silent).unwrap_err();
    assert!(error.to_string().contains("CPU 7") && error.exit_code() == 2, "{error}");
}
