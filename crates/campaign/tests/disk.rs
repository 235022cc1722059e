//! A run directory that is there already, and a disk that fills up while a campaign runs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at what it did not expect")]

#[allow(dead_code, reason = "each test file uses a part of it")]
mod common;

use common::{Fake, PLAN, options, plan};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use store::{Run, StoreError};
use windhover_campaign::{CampaignError, Progress, Silent, resume_on, run_on};

#[test]
fn an_existing_run_directory_is_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    // The name holds the second in which the run begins: take all of the next minute.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    for second in now..now + 60 {
        let name = format!("t-{}", store::utc_text(second * 1_000_000_000));
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let mut fake = Fake::new();
    let error = run_on(&plan(PLAN), &mut fake, &options(folder.path(), PLAN), &mut Silent).unwrap_err();
    assert!(matches!(error, CampaignError::Store(StoreError::Exists { .. })), "{error}");
    assert_eq!(error.exit_code(), 2);
    assert!(!error.to_string().contains('\n'));
    assert_eq!(fake.probes, 0);
    let untouched = fs::read_dir(folder.path()).unwrap().all(|entry| {
        let path = entry.unwrap().path();
        fs::read_dir(path).unwrap().next().is_none()
    });
    assert!(untouched);
}

/// Mounts a file system of 1 MiB in a mount namespace that only the calling thread is in; it goes with the thread.
fn small_disk(at: &Path) -> Result<(), nix::Error> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_PRIVATE | MsFlags::MS_REC, None::<&str>)?;
    mount(Some("tmpfs"), at, Some("tmpfs"), MsFlags::empty(), Some("size=1m"))
}

#[test]
fn a_disk_that_fills_up_ends_the_run_and_a_resume_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    if let Err(error) = small_disk(folder.path()) {
        eprintln!("SKIPPED a_disk_that_fills_up_ends_the_run_and_a_resume_goes_on: cannot mount a tmpfs: {error}");
        return;
    }
    let filler = folder.path().join("filler");
    let mut path = None;
    let mut watch = |progress: &Progress<'_>| match progress {
        Progress::RunOpened { path: opened, .. } => path = Some((*opened).to_owned()),
        Progress::CellDone { step, .. } if step.index == 3 => {
            let mut file = fs::File::create(&filler).unwrap();
            while file.write_all(&[7; 512]).is_ok() {}
        }
        _ => {}
    };
    let options = options(folder.path(), PLAN);
    let error = run_on(&plan(PLAN), &mut Fake::new(), &options, &mut watch).unwrap_err();
    assert!(matches!(error, CampaignError::Store(StoreError::DiskFull { .. })), "{error}");
    assert!(error.to_string().contains("disk full while writing ") && error.exit_code() == 1, "{error}");
    let path = path.unwrap();
    let run = Run::load(&path).unwrap();
    assert_eq!((run.results.len(), run.problems.len()), (3, 0));

    fs::remove_file(&filler).unwrap();
    let summary = resume_on(&path, &mut Fake::new(), &options, &mut Silent).unwrap();
    assert_eq!(summary.done, 12);
    assert!(Run::load(&path).unwrap().missing().is_empty());

    // A run that cannot even begin leaves nothing behind.
    let mut file = fs::File::create(&filler).unwrap();
    while file.write_all(&[7; 512]).is_ok() {}
    let text = PLAN.replace("\"t\"", "\"u\"");
    let error =
        run_on(&plan(&text), &mut Fake::new(), &common::options(folder.path(), &text), &mut Silent).unwrap_err();
    assert!(matches!(error, CampaignError::Store(StoreError::DiskFull { .. })), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "the first run and the filler");
    umount2(folder.path(), MntFlags::MNT_DETACH).unwrap();
}
