//! `kill -9` of the runner at any moment loses at most the cell in flight.
//!
//! The test starts itself again as a child that runs a campaign on hosts that measure nothing, kills it by its process
//! id at random moments, starts it anew to resume, and looks at the run directory after each kill.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at what it did not expect")]

#[allow(dead_code, reason = "each test file uses a part of it")]
mod common;

use common::{Fake, PLAN, options, plan};
use model::JournalLine;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use store::Run;
use windhover_campaign::{Silent, resume_on, run_on};

const FOLDER: &str = "WINDHOVER_TEST_KILL_FOLDER";
const STEPS: usize = 60;

fn long_plan() -> String {
    PLAN.replace("repetitions = 2", "repetitions = 10")
}

/// The one run in a folder, once its run.json is there.
fn run_in(folder: &Path) -> Option<PathBuf> {
    let mut runs = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    runs.find(|path| path.join("run.json").exists())
}

/// The child: runs or resumes. Returns at once in the parent.
#[test]
fn the_child() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let text = long_plan();
    let mut fake = Fake::new();
    fake.length = Duration::from_millis(2);
    let options = options(&folder, &text);
    let summary = match run_in(&folder) {
        Some(path) => resume_on(&path, &mut fake, &options, &mut Silent),
        None => run_on(&plan(&text), &mut fake, &options, &mut Silent),
    };
    assert_eq!(summary.unwrap().done, STEPS);
}

fn start_child(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["the_child", "--exact", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Random enough to kill at unlike moments.
fn random(below: u64) -> u64 {
    let mut bytes = [0; 8];
    std::io::Read::read_exact(&mut fs::File::open("/dev/urandom").unwrap(), &mut bytes).unwrap();
    u64::from_le_bytes(bytes) % below
}

fn done(path: &Path) -> usize {
    let text = fs::read(path.join("journal.jsonl")).unwrap_or_default();
    String::from_utf8_lossy(&text).matches("\"done\",\"index\"").count()
}

#[test]
fn a_kill_loses_the_cell_in_flight_only() {
    let folder = tempfile::tempdir().unwrap();
    let mut kills = 0;
    let mut kills_in_cells = 0;
    let mut before = 0;
    for round in 0..200 {
        let mut child = start_child(folder.path());
        // Wait for some progress beyond the last kill, so that the test ends, then kill within a few cells' time.
        let wanted = before + 1 + usize::try_from(random(6)).unwrap();
        let limit = Instant::now() + Duration::from_secs(60);
        let ended = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            let progress = run_in(folder.path()).map_or(0, |path| done(&path));
            if progress >= wanted {
                break None;
            }
            assert!(Instant::now() < limit, "no progress in round {round}");
            std::thread::sleep(Duration::from_micros(300));
        };
        if let Some(status) = ended {
            let output = child.wait_with_output().unwrap();
            assert!(status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            break;
        }
        std::thread::sleep(Duration::from_micros(random(5000)));
        // Child::kill sends SIGKILL to this process id.
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;

        let path = run_in(folder.path()).unwrap();
        let run = Run::load(&path).unwrap();
        assert_eq!(run.problems, Vec::<String>::new(), "round {round}");
        assert!(run.results.len() >= wanted, "nothing that was done is lost (round {round})");
        let ends: Vec<&JournalLine> = run.journal.iter().collect();
        if matches!(ends.last(), Some(JournalLine::Start { .. })) {
            kills_in_cells += 1;
        }
        before = run.results.len();
    }
    assert!(kills >= 3, "only {kills} kills before the run was done");
    assert!(kills_in_cells >= 1, "no kill met a cell in flight");

    let run = Run::load(&run_in(folder.path()).unwrap()).unwrap();
    assert!(run.missing().is_empty() && run.problems.is_empty());
    assert_eq!(run.run.outcome.as_deref(), Some("done"));
    let mut times: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
    for line in &run.journal {
        match line {
            JournalLine::Start { index, .. } => times.entry(*index).or_default().0 += 1,
            JournalLine::Done { index, .. } => times.entry(*index).or_default().1 += 1,
            _ => {}
        }
    }
    assert_eq!(times.len(), STEPS);
    assert!(times.values().all(|&(_, done)| done == 1), "every cell is done once: {times:?}");
    let again: u32 = times.values().map(|&(started, _)| started - 1).sum();
    assert!(again <= kills, "{again} cells were begun again after {kills} kills");
    let cells = fs::read_dir(run.path.join("cells")).unwrap().map(|entry| entry.unwrap().file_name());
    let documents = cells.filter(|name| name.to_string_lossy().ends_with(".json")).count();
    assert_eq!(documents, STEPS);
}
