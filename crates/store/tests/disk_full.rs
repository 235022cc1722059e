//! A full disk: what was written before stays valid, and the run goes on once there is space.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at what it did not expect")]

#[allow(dead_code, reason = "each test file uses a part of it")]
mod common;

use common::{make_run, measured};
use model::JournalLine;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use store::{CellFiles, Run, RunDir, StoreError};
use windhover_store as store;

/// Mounts a file system of 256 KiB in a mount namespace that only the calling thread is in; it goes with the thread.
fn small_disk(at: &Path) -> Result<(), nix::Error> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_PRIVATE | MsFlags::MS_REC, None::<&str>)?;
    mount(Some("tmpfs"), at, Some("tmpfs"), MsFlags::empty(), Some("size=256k"))
}

/// Takes all space that is left.
fn fill(path: &Path) {
    let mut file = fs::File::create(path).unwrap();
    for size in [4096, 512, 1] {
        while file.write_all(&vec![7u8; size]).is_ok() {}
    }
}

#[test]
fn a_full_disk_costs_the_cell_in_flight_only() {
    let folder = tempfile::tempdir().unwrap();
    if let Err(error) = small_disk(folder.path()) {
        eprintln!("SKIPPED a_full_disk_costs_the_cell_in_flight_only: cannot mount a tmpfs: {error}");
        return;
    }
    let mut dir = make_run(folder.path(), 3, 1);
    let path = dir.path().to_owned();
    dir.journal(&JournalLine::Start { index: 2, at_ns: 4 }).unwrap();
    let mut big = measured(2);
    big.hlog = "#".repeat(1 << 20);
    let error = dir.write_cell(2, &CellFiles::of(&big, &[]), 5).unwrap_err();
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
    assert!(error.to_string().contains("0002.hlog") && !error.to_string().contains('\n'), "{error}");

    // The journal meets the full disk too: no half line stays behind, and later lines can be written.
    let filler = folder.path().join("filler");
    fill(&filler);
    let long = JournalLine::Failed { index: 2, at_ns: 6, why: "w".repeat(5000) };
    let error = dir.journal(&long).unwrap_err();
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
    let run = Run::load(&path).unwrap();
    assert_eq!(run.results.len(), 1);
    assert!(run.problems.is_empty());
    let error = dir.write_run(&run.run).unwrap_err();
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
    drop(dir);
    assert!(matches!(RunDir::create(folder.path(), "u", 0), Ok(_) | Err(StoreError::DiskFull { .. })));

    fs::remove_file(&filler).unwrap();
    let (mut dir, run) = RunDir::open_for_resume(&path).unwrap();
    assert_eq!(run.missing().len(), 2);
    dir.write_cell(2, &CellFiles::of(&measured(2), &[]), 7).unwrap();
    assert_eq!(Run::load(&path).unwrap().results.len(), 2);
    drop(dir);
    umount2(folder.path(), MntFlags::MNT_DETACH).unwrap();
}
