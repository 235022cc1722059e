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

/// Mounts a file system of so many KiB in a mount namespace that only the calling thread is in; it goes with the thread.
fn small_disk(at: &Path, kib: u32) -> Result<(), nix::Error> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_PRIVATE | MsFlags::MS_REC, None::<&str>)?;
    mount(Some("tmpfs"), at, Some("tmpfs"), MsFlags::empty(), Some(format!("size={kib}k").as_str()))
}

/// Takes all space that is left.
fn fill(path: &Path) {
    let mut file = fs::File::create(path).unwrap();
    for size in [4096, 512, 1] {
        while file.write_all(&vec![7u8; size]).is_ok() {}
    }
}

/// Raw samples that do not get smaller by packing, in base64.
fn noise(bytes: usize) -> String {
    let mut state = 1_u64;
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letter = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(letters[usize::try_from(state >> 58).unwrap()])
    };
    (0..bytes / 3 * 4).map(letter).collect()
}

#[test]
fn raw_samples_that_find_no_room_cost_their_own_file_only() {
    let folder = tempfile::tempdir().unwrap();
    if let Err(error) = small_disk(folder.path(), 1024) {
        eprintln!("SKIPPED raw_samples_that_find_no_room_cost_their_own_file_only: cannot mount a tmpfs: {error}");
        return;
    }
    let mut dir = make_run(folder.path(), 4, 1);
    let path = dir.path().to_owned();
    // The first fits, the second fits only if nothing is left for the cells that follow, the third is larger than the disk.
    for (index, bytes) in [(2, 400_000), (3, 300_000), (4, 2_000_000)] {
        dir.journal(&JournalLine::Start { index, at_ns: 4 }).unwrap();
        let mut one = measured(index);
        one.raw = Some(noise(bytes));
        // A capture goes with the raw samples that find no room.
        one.capture = (index == 4).then(|| noise(30));
        let lost = dir.write_cell(index, &CellFiles::of(&one, &[]), 5).unwrap();
        assert_eq!(lost.is_some(), index > 2, "{index}: {lost:?}");
        let raw = path.join(format!("cells/{index:04}.raw.gz"));
        assert_eq!(raw.is_file(), index == 2);
        assert!(!raw.with_file_name(format!("{index:04}.pcapng")).exists());
        let run = Run::load(&path).unwrap();
        let (_, stored) = run.results.iter().find(|(step, _)| step.index == index).unwrap();
        assert!(stored.verdict.trusted, "the figures are whole");
        let said: Vec<_> =
            stored.verdict.disturbed.iter().filter(|one| one.id == model::FindingId::RawNotKept).collect();
        assert_eq!(said, lost.iter().collect::<Vec<_>>());
        if let Some(lost) = lost {
            assert_eq!(lost.id, model::FindingId::RawNotKept);
            assert!(lost.detail.contains(&format!("{index:04}.raw.gz")), "{}", lost.detail);
            assert_eq!(lost.detail.contains("0004.pcapng"), index == 4, "{}", lost.detail);
        }
    }
    assert!(Run::load(&path).unwrap().missing().is_empty());
    let left = fs::read_dir(path.join("cells")).unwrap().map(|entry| entry.unwrap().path());
    assert!(left.into_iter().all(|path| path.extension().is_none_or(|extension| extension != "tmp")));
    drop(dir);
    umount2(folder.path(), MntFlags::MNT_DETACH).unwrap();
}

#[test]
fn a_full_disk_costs_the_cell_in_flight_only() {
    let folder = tempfile::tempdir().unwrap();
    if let Err(error) = small_disk(folder.path(), 256) {
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
    let long = JournalLine::Failed { index: 2, at_ns: 6, why: "w".repeat(5000), could_not_boot: false };
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
