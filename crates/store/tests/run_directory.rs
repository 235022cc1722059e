//! The run directory as a writer leaves it and a reader finds it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at what it did not expect")]

#[allow(dead_code, reason = "each test file uses a part of it")]
mod common;

use common::{make_run, measured, result, run_document};
use model::{Event, JournalLine, ResultDocument, Substrate};
use stats::interval_log::{Interval, Lines, Units};
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use store::{CellFiles, Run, RunDir, RunState, StoreError};
use windhover_store as store;

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_is_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let dir = make_run(folder.path(), 3, 2);
    let path = dir.path().to_owned();
    assert_eq!(path.file_name().unwrap(), "t-20261121T214304Z");
    drop(dir);
    assert_eq!(names(&path), ["cells", "journal.jsonl", "plan.toml", "run.json"]);
    let cell = |suffix: &str| format!("0001.{suffix}");
    let expected: Vec<String> = ["events.jsonl", "hlog", "json", "outliers.jsonl", "pcapng", "raw.gz", "series.jsonl"]
        .map(cell)
        .into_iter()
        .chain(names(&path.join("cells")).into_iter().skip(7))
        .collect();
    assert_eq!(names(&path.join("cells")), expected);

    let run = Run::load(&path).unwrap();
    assert_eq!(run.run, run_document(3));
    assert_eq!(run.plan, "name = \"t\"\n");
    assert_eq!(run.problems, Vec::<String>::new());
    let results: Vec<(u32, ResultDocument)> =
        run.results.iter().map(|(step, result)| (step.index, result.clone())).collect();
    assert_eq!(results, [(1, result(1)), (2, result(2))]);
    assert_eq!(run.missing().iter().map(|step| step.index).collect::<Vec<_>>(), [3]);
    assert_eq!(store::outliers(&run.path, 1).unwrap(), measured(1).outliers);
    let mut raw = Vec::new();
    flate2::read::GzDecoder::new(fs::File::open(path.join("cells/0001.raw.gz")).unwrap())
        .read_to_end(&mut raw)
        .unwrap();
    assert_eq!(raw, [1, 2, 3, 4]);
    assert_eq!(fs::read(path.join("cells/0001.pcapng")).unwrap(), [1, 2, 3, 4]);
    let log = store::hlog::Log::open(&path, 1, 2).unwrap().unwrap();
    assert_eq!(log.of_tag("rtt"), ["rtt"]);
    let events = store::events(&run.path, 1).unwrap();
    assert_eq!((events.len(), events[0].kind.as_str(), events[0].seq), (1, "loss", Some(9)));
    let series = fs::read_to_string(path.join("cells/0001.series.jsonl")).unwrap();
    assert_eq!(series.lines().count(), 2);
}

#[test]
fn files_that_hold_nothing_are_not_made_and_old_ones_go() {
    let folder = tempfile::tempdir().unwrap();
    let mut dir = make_run(folder.path(), 1, 1);
    let mut bare = measured(1);
    bare.outliers.clear();
    (bare.raw, bare.capture) = (None, None);
    bare.hlog.clear();
    bare.result.series.clear();
    dir.write_cell(1, &CellFiles::of(&bare, &[]), 4).unwrap();
    assert_eq!(names(&dir.path().join("cells")), ["0001.json"]);
    let event = Event {
        kind: "load-started".to_owned(),
        realtime_ns: Some(3),
        at_ns: None,
        host: Some("a".to_owned()),
        seq: None,
        detail: String::new(),
    };
    dir.write_cell(1, &CellFiles::of(&bare, std::slice::from_ref(&event)), 5).unwrap();
    assert_eq!(store::events(dir.path(), 1).unwrap(), [event]);
}

#[test]
fn a_run_is_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let dir = make_run(folder.path(), 1, 1);
    let before = fs::read(dir.path().join("run.json")).unwrap();
    let error = RunDir::create(folder.path(), "t", 1_795_297_384_500_000_000).unwrap_err();
    assert!(matches!(error, StoreError::Exists { .. }));
    let text = error.to_string();
    assert!(text.starts_with("run directory ") && text.contains(" exists: ") && !text.contains('\n'), "{text}");
    assert_eq!(error.exit_code(), 2);
    assert_eq!(fs::read(dir.path().join("run.json")).unwrap(), before);
    for name in ["", "../up", ".hidden", "a/b", "a b"] {
        assert!(matches!(RunDir::create(folder.path(), name, 0), Err(StoreError::Name { .. })), "{name}");
    }
    assert_eq!(names(folder.path()).len(), 1);
}

#[test]
fn a_folder_that_is_no_run() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_owned(), folder.path().join("missing")] {
        let error = Run::load(&path).unwrap_err();
        assert!(matches!(error, StoreError::NotARun { .. }), "{error}");
        assert!(matches!(RunDir::open_for_resume(&path), Err(StoreError::NotARun { .. })));
    }
    assert!(names(folder.path()).is_empty(), "asking leaves nothing behind");
}

#[test]
fn a_run_whose_cells_or_journal_were_removed_is_measured_again() {
    let folder = tempfile::tempdir().unwrap();
    let dir = make_run(folder.path(), 2, 2);
    let path = dir.path().to_owned();
    drop(dir);
    fs::remove_dir_all(path.join("cells")).unwrap();
    let (dir, run) = RunDir::open_for_resume(&path).unwrap();
    assert_eq!((run.missing().len(), run.problems.len()), (2, 2));
    drop((dir, run));
    fs::remove_file(path.join("journal.jsonl")).unwrap();
    let (mut dir, run) = RunDir::open_for_resume(&path).unwrap();
    assert_eq!(run.missing().len(), 2);
    dir.write_cell(1, &CellFiles::of(&measured(1), &[]), 4).unwrap();
    drop(dir);
    assert_eq!(Run::load(&path).unwrap().results.len(), 1);
    fs::remove_file(path.join("plan.toml")).unwrap();
    let error = RunDir::open_for_resume(&path).unwrap_err();
    assert!(matches!(error, StoreError::NoPlan { .. }) && error.exit_code() == 2, "{error}");
}

#[test]
fn damage_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let dir = make_run(folder.path(), 2, 2);
    let path = dir.path().to_owned();
    drop(dir);
    let whole = fs::read_to_string(path.join("run.json")).unwrap();
    for cut in [0, 1, whole.len() / 2, whole.len() - 3] {
        fs::write(path.join("run.json"), &whole[..cut]).unwrap();
        let text = Run::load(&path).unwrap_err().to_string();
        assert!(text.contains("run.json") && text.contains("damaged") && !text.contains('\n'), "{text}");
        assert!(text.contains("from a copy"), "no remedy: {text}");
        assert_eq!(RunDir::open_for_resume(&path).unwrap_err().exit_code(), 2);
    }
    fs::write(path.join("run.json"), b"\xff\xfe").unwrap();
    assert!(Run::load(&path).unwrap_err().to_string().contains("run.json"));
    let twice = whole.replacen("\"index\": 2", "\"index\": 1", 1);
    assert_ne!(twice, whole);
    fs::write(path.join("run.json"), twice).unwrap();
    assert!(Run::load(&path).unwrap_err().to_string().contains("step 1 stands there twice"));
    fs::write(path.join("run.json"), &whole).unwrap();

    // A damaged or missing cell costs that cell and is told.
    fs::write(path.join("cells/0001.json"), "{\"format\":1").unwrap();
    fs::remove_file(path.join("cells/0002.json")).unwrap();
    let run = Run::load(&path).unwrap();
    assert!(run.results.is_empty());
    assert_eq!(run.missing().len(), 2);
    assert!(run.problems[0].contains("0001.json") && run.problems[1].contains("0002.json"), "{:?}", run.problems);
    fs::copy(path.join("cells/0001.hlog"), path.join("cells/0002.json")).unwrap();
    fs::write(path.join("cells/0001.json"), serde_json::to_string(&result(2)).unwrap()).unwrap();
    let run = Run::load(&path).unwrap();
    assert!(run.problems[0].contains("size=2") && run.problems[0].contains("size=1"), "{:?}", run.problems);

    let journal = fs::read_to_string(path.join("journal.jsonl")).unwrap();
    fs::write(path.join("journal.jsonl"), journal.replacen("start", "stir", 1)).unwrap();
    let text = Run::load(&path).unwrap_err().to_string();
    assert!(text.contains("journal.jsonl: line 2"), "{text}");
}

#[test]
fn newer_formats_are_refused_by_number() {
    let folder = tempfile::tempdir().unwrap();
    let dir = make_run(folder.path(), 1, 1);
    let path = dir.path().to_owned();
    drop(dir);
    for file in ["cells/0001.json", "run.json"] {
        let whole = fs::read_to_string(path.join(file)).unwrap();
        let newer = whole.replacen("\"format\": 1", "\"format\": 2", 1).replacen("\"format\":1", "\"format\":2", 1);
        fs::write(path.join(file), newer).unwrap();
        let text = Run::load(&path).unwrap_err().to_string();
        assert!(text.contains(file) && text.contains("format 2") && text.contains("newer windhover"), "{text}");
        assert!(RunDir::open_for_resume(&path).is_err());
        fs::write(path.join(file), whole).unwrap();
    }
    Run::load(&path).unwrap();
}

#[test]
fn unknown_fields_are_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let dir = make_run(folder.path(), 1, 1);
    for file in ["run.json", "cells/0001.json"] {
        let whole = fs::read_to_string(dir.path().join(file)).unwrap();
        fs::write(dir.path().join(file), whole.replacen('{', "{\"later\": [1],", 1)).unwrap();
    }
    assert_eq!(Run::load(dir.path()).unwrap().results.len(), 1);
}

#[test]
fn resume_takes_over_what_a_kill_left() {
    let folder = tempfile::tempdir().unwrap();
    let mut dir = make_run(folder.path(), 3, 1);
    let path = dir.path().to_owned();
    dir.journal(&JournalLine::Start { index: 2, at_ns: 4 }).unwrap();
    assert!(matches!(RunDir::open_for_resume(&path), Err(StoreError::Busy { .. })));
    assert_eq!(store::list(folder.path()).unwrap()[0].state, RunState::Running);
    drop(dir);
    assert_eq!(store::list(folder.path()).unwrap()[0].state, RunState::Killed);
    // A kill in the middle of the second cell: half its files, one under its temporary name, a torn line.
    fs::write(path.join("cells/0002.hlog"), "#").unwrap();
    fs::write(path.join("cells/0002.json.tmp"), "{\"form").unwrap();
    fs::write(path.join("run.json.tmp"), "{").unwrap();
    let mut journal = fs::read(path.join("journal.jsonl")).unwrap();
    journal.extend_from_slice(b"{\"step\":\"done\",\"index\":2");
    fs::write(path.join("journal.jsonl"), journal).unwrap();

    let (mut dir, run) = RunDir::open_for_resume(&path).unwrap();
    assert_eq!(run.missing().iter().map(|step| step.index).collect::<Vec<_>>(), [2, 3]);
    assert!(!path.join("cells/0002.json.tmp").exists() && !path.join("run.json.tmp").exists());
    dir.journal(&JournalLine::Begin { at_ns: 5, tool_version: "0.1.0".to_owned() }).unwrap();
    for index in [2, 3] {
        dir.journal(&JournalLine::Start { index, at_ns: 6 }).unwrap();
        dir.write_cell(index, &CellFiles::of(&measured(index), &[]), 7).unwrap();
    }
    let run = Run::load(&path).unwrap();
    assert_eq!(run.results.len(), 3);
    assert!(run.problems.is_empty());
}

/// Catches: a resume that appends to, cuts off or writes files elsewhere, by links in a run of somebody else.
#[test]
fn a_resume_follows_no_link() {
    for name in ["journal.jsonl", "cells"] {
        let folder = tempfile::tempdir().unwrap();
        let path = make_run(folder.path(), 2, 1).path().to_owned();
        let other = folder.path().join("other");
        fs::rename(path.join(name), &other).unwrap();
        std::os::unix::fs::symlink(&other, path.join(name)).unwrap();
        let before = fs::read(&other).ok();
        let error = RunDir::open_for_resume(&path).unwrap_err();
        assert!(matches!(&error, StoreError::Link(link) if *link == path.join(name)), "{error}");
        assert_eq!((error.exit_code(), fs::read(&other).ok()), (2, before));
        // What is only read may be elsewhere.
        assert_eq!(Run::load(&path).unwrap().results.len(), 1);
    }
}

#[test]
fn a_failed_step_is_missing_until_it_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let mut dir = make_run(folder.path(), 2, 1);
    dir.journal(&JournalLine::Start { index: 2, at_ns: 4 }).unwrap();
    dir.journal(&JournalLine::Failed { index: 2, at_ns: 5, why: "no route".to_owned(), could_not_boot: false })
        .unwrap();
    let run = Run::load(dir.path()).unwrap();
    assert_eq!(run.failed.len(), 1);
    assert_eq!(run.failed[0].1, "no route");
    assert_eq!(run.missing().len(), 1);
    dir.journal(&JournalLine::Start { index: 2, at_ns: 6 }).unwrap();
    dir.write_cell(2, &CellFiles::of(&measured(2), &[]), 7).unwrap();
    let run = Run::load(dir.path()).unwrap();
    assert!(run.failed.is_empty() && run.missing().is_empty());
}

#[test]
fn a_result_that_would_not_read_back_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let mut dir = make_run(folder.path(), 1, 0);
    let mut bad = measured(1);
    bad.result.self_cost.clock_read_ns = f64::NAN;
    let error = dir.write_cell(1, &CellFiles::of(&bad, &[]), 3).unwrap_err();
    assert!(error.to_string().contains("0001.json"), "{error}");
    assert!(Run::load(dir.path()).unwrap().results.is_empty());
}

#[test]
fn runs_are_listed_and_put_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    assert!(store::list(&folder.path().join("missing")).unwrap().is_empty());
    let first = make_run(folder.path(), 2, 1);
    let mut second = RunDir::create(folder.path(), "u", 0).unwrap();
    let mut document = run_document(1);
    document.substrate = Substrate::Metal;
    document.started_ns = 5;
    document.outcome = Some("interrupted".to_owned());
    second.write_plan("").unwrap();
    second.write_run(&document).unwrap();
    fs::create_dir(folder.path().join("something-else")).unwrap();
    let broken = RunDir::create(folder.path(), "v", 0).unwrap();
    fs::write(broken.path().join("run.json"), "{").unwrap();
    let (first_path, second_path) = (first.path().to_owned(), second.path().to_owned());
    drop((first, second, broken));

    let runs = store::list(folder.path()).unwrap();
    let states: Vec<RunState> = runs.iter().map(|run| run.state).collect();
    assert_eq!(states, [RunState::Damaged, RunState::Interrupted, RunState::Killed]);
    assert_eq!((runs[2].done, runs[2].steps), (1, 2));
    assert!(runs[0].problem.as_ref().unwrap().contains("run.json"));
    assert!(runs[2].to_string().contains("1/2"));

    let many = store::load_many(&[&first_path, &second_path, &first_path]).unwrap();
    assert_eq!(many.len(), 2);
    let of = |runs: &[Run]| runs.iter().map(|run| (run.name(), run.run.substrate)).collect::<Vec<_>>();
    let error = store::one_substrate(&of(&many), &[Substrate::Metal]).unwrap_err();
    assert!(error.to_string().contains("--mix-substrates metal,netns") && error.exit_code() == 2, "{error}");
    let mixed = store::one_substrate(&of(&many), &[Substrate::Netns, Substrate::Metal]).unwrap().unwrap();
    assert!(mixed.contains("metal (u-") && mixed.contains("netns (t-"), "{mixed}");
    assert_eq!(store::one_substrate(&of(&many[..1]), &[]).unwrap(), None);
}

#[test]
fn the_configuration_of_a_kernel_is_kept_once_and_beside_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut dir = RunDir::create(folder.path(), "k", 0).unwrap();
    let mut document = run_document(1);
    let machine = |release: &str, id: &str, text: &str| model::MachineFacts {
        kernel_release: Some(release.to_owned()),
        kernel_config_id: Some(id.to_owned()),
        kernel_config: Some(text.to_owned()),
        ..Default::default()
    };
    for (boot, facts) in [
        ("one", machine("6.1.0-1", "00ff", "CONFIG_HZ=250\n")),
        ("two", machine("6.1.0-1", "00ff", "CONFIG_HZ=250\n")),
        ("other build", machine("6.1.0-1", "00fe", "CONFIG_HZ=100\n")),
        ("hostile", machine("../../x", "00ff", "CONFIG_HZ=1\n")),
    ] {
        document.machines.insert(boot.to_owned(), facts);
    }
    dir.write_plan("").unwrap();
    dir.write_run(&document).unwrap();
    let names = |path: &std::path::Path| {
        let mut names: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&dir.path().join("kernels")), ["6.1.0-1-00fe.config", "6.1.0-1-00ff.config"]);
    assert!(!fs::read_to_string(dir.path().join("run.json")).unwrap().contains("CONFIG_"));
    assert_eq!(names(folder.path()).len(), 1);
    let path = dir.path().to_owned();
    drop(dir);
    let config = |boot: &str| Run::load(&path).unwrap().run.machines[boot].kernel_config.clone();
    assert_eq!(config("two").as_deref(), Some("CONFIG_HZ=250\n"));
    assert_eq!(config("other build").as_deref(), Some("CONFIG_HZ=100\n"));
    assert_eq!(config("hostile"), None);
    // A run that is written again keeps them.
    let (mut dir, run) = RunDir::open_for_resume(&path).unwrap();
    dir.write_run(&run.run).unwrap();
    drop(dir);
    assert_eq!(config("one").as_deref(), Some("CONFIG_HZ=250\n"));
}

#[test]
fn exports() {
    let folder = tempfile::tempdir().unwrap();
    let dir = make_run(folder.path(), 2, 2);
    let run = Run::load(dir.path()).unwrap();
    let text = store::json(run.rows()).unwrap();
    let back: Vec<ResultDocument> = serde_json::from_str(&text).unwrap();
    assert_eq!(back, [result(1), result(2)]);
    // Catches: JSON did not say on what the figures were measured.
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let substrate = serde_json::to_value(run.run.substrate).unwrap();
    assert!(rows.iter().all(|row| row["substrate"] == substrate && row["run"] == run.name()), "{text}");
    assert_eq!(serde_json::from_str::<Vec<ResultDocument>>(&store::json([]).unwrap()).unwrap(), []);
}

#[test]
fn a_discarded_run_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    make_run(folder.path(), 1, 0).discard().unwrap();
    assert!(names(folder.path()).is_empty());
}

#[test]
fn histograms_of_a_log_are_decoded() {
    let mut histogram = stats::Histogram::new();
    histogram.record(12_345);
    let text = format!("Tag=rtt,0.000,1.000,12.345,{}\n0,1,2,HISTFAAA\n", histogram.to_base64_v2().unwrap());
    let units = Units::of_head(&text);
    let lines: Vec<Interval<'_>> = Lines::new(&text, 0, units).map(Result::unwrap).collect();
    let decoded = |index: usize| stats::Histogram::from_base64_v2(lines[index].histogram);
    assert_eq!(decoded(0).unwrap().count(), 1);
    assert!(decoded(1).is_err());
}

/// Catches: the log of a long run that is refused, as other files of that length are.
#[test]
fn a_log_may_have_any_length() {
    let folder = tempfile::tempdir().unwrap();
    let dir = make_run(folder.path(), 1, 1);
    let path = dir.path().join("cells/0001.hlog");
    let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    // Nothing is on disk of what lies between.
    file.seek(SeekFrom::Start(300 << 20)).unwrap();
    file.write_all(b"\nTag=lateness,7,1,1,HISTFAAA\n").unwrap();
    let log = store::hlog::Log::open(dir.path(), 1, 2).unwrap().unwrap();
    assert_eq!(log.extent("lateness").map(|extent| extent.last_ns), Some(7_000_000_000));
    assert_eq!(log.damaged().iter().map(|(line, _)| *line).collect::<Vec<_>>(), [3], "what lies between is one line");
}
