//! Every profile works, keeps to its CPUs, and leaves nothing behind.
#![allow(clippy::unwrap_used, clippy::panic, reason = "functions that tests share are tests too")]

use model::{CpuList, LoadProfile, LoadSpec};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use task::allowed_cpus_of;
use windhover_load::Load;

/// Bound for what happens at once on a machine that is not stuck.
const SOON: Duration = Duration::from_secs(60);

fn spec(profile: LoadProfile) -> LoadSpec {
    LoadSpec { jobs: Some(2), ..LoadSpec::new(profile) }
}

/// A folder of this test's own.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("windhover-test-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn is_empty(&self) -> bool {
        std::fs::read_dir(&self.0).unwrap().next().is_none()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < SOON {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    holds()
}

/// Processes that have `word` within an argument.
fn processes(word: &Path) -> Vec<i32> {
    let word = word.to_str().unwrap().as_bytes();
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        arguments.windows(word.len()).any(|window| window == word)
    })
    .collect()
}

/// Waits until a file is compiled: a slot that writes its next one has done the one before.
fn compiles_a_file(folder: &Path) -> bool {
    let file = || std::fs::read_to_string(folder.join("unit-0.c")).unwrap_or_default();
    let made = eventually(|| folder.join("unit-0.o").exists());
    let first = file();
    made && eventually(|| file() != first)
}

#[test]
fn every_profile_works_and_reports() {
    for profile in LoadProfile::ALL {
        let mut load = Load::start(&spec(profile)).unwrap();
        assert!(!load.method().is_empty());
        load.wait_steady(&AtomicBool::new(false), Duration::from_millis(10)).unwrap();
        let looked = Instant::now();
        std::thread::sleep(Duration::from_millis(600));
        // A file may take long on a busy machine; everything else does thousands of units in that time.
        if profile == LoadProfile::Build {
            assert!(compiles_a_file(load.folder().unwrap()));
        }
        let report = load.stop().unwrap();
        assert_eq!(report.spec, spec(profile));
        assert!(report.work > 0, "{profile}: {report:?}");
        assert!(report.busy_percent > 0.0 && report.busy_percent <= 100.0, "{profile}: {report:?}");
        assert!(report.work_cv.is_none_or(f64::is_finite), "{profile}: {report:?}");
        let elapsed = Duration::from_nanos(report.elapsed_ns);
        assert!(elapsed >= Duration::from_millis(600) && elapsed <= looked.elapsed(), "{profile}: {report:?}");
    }
}

#[test]
fn a_build_compiles_and_leaves_nothing() {
    let base = Folder::new("build");
    let load = Load::start(&LoadSpec { directory: Some(base.0.clone()), ..spec(LoadProfile::Build) }).unwrap();
    let folder = load.folder().unwrap().to_owned();
    assert!(folder.starts_with(&base.0));
    assert!(eventually(|| !processes(&folder).is_empty()), "children run");
    assert!(compiles_a_file(&folder));
    let children = processes(&folder);
    let report = load.stop().unwrap();
    assert!(report.work > 0, "{report:?}");
    assert_eq!(processes(&folder), Vec::<i32>::new(), "were {children:?}");
    assert!(base.is_empty());
}

#[test]
fn a_command_runs_again_and_again_and_dies_with_all_its_jobs() {
    let base = Folder::new("command");
    let mark = base.0.join("mark");
    // The second run does not end on its own, and its job leaves the process group.
    let script = format!(
        "echo x >> runs; test $(wc -l < runs) -lt 2 || {{ setsid sh -c 'sleep 1000; : {0}' & sleep 1000; : {0}; }}",
        mark.display()
    );
    let spec = LoadSpec { command: Some(script), directory: Some(base.0.clone()), ..LoadSpec::new(LoadProfile::Build) };
    let load = Load::start(&spec).unwrap();
    assert!(eventually(|| std::fs::read_to_string(base.0.join("runs")).is_ok_and(|runs| runs.lines().count() == 2)));
    assert!(eventually(|| processes(&mark).len() >= 2), "{:?}", processes(&mark));
    let report = load.stop().unwrap();
    assert_eq!(report.work, 1, "one run ended");
    assert_eq!(processes(&mark), Vec::<i32>::new());
}

#[test]
fn a_command_that_fails_is_quoted_with_its_last_words() {
    let spec = LoadSpec { command: Some("echo so sorry >&2; exit 3".to_owned()), ..LoadSpec::new(LoadProfile::Build) };
    let mut load = Load::start(&spec).unwrap();
    let folder = load.folder().unwrap().to_owned();
    let error = load.wait_steady(&AtomicBool::new(false), SOON).unwrap_err().to_string();
    assert!(error.contains("so sorry") && error.contains("exit 3") && error.contains("exit status: 3"), "{error}");
    drop(load);
    assert!(!folder.exists());
}

#[test]
fn a_load_keeps_to_its_cpus_and_its_policy() {
    let first = task::allowed_cpus().unwrap().iter().take(1).collect::<CpuList>();
    let load = Load::start(&LoadSpec { cpus: Some(first.clone()), ..spec(LoadProfile::Build) }).unwrap();
    let folder = load.folder().unwrap().to_owned();
    // A process may end between being seen and being asked.
    let seen = || processes(&folder).into_iter().filter_map(|pid| allowed_cpus_of(pid).ok()).collect::<Vec<_>>();
    let mut found = Vec::new();
    assert!(eventually(|| {
        found = seen();
        !found.is_empty()
    }));
    assert!(found.iter().all(|cpus| *cpus == first), "{found:?}");
    let of_load: Vec<CpuList> = load_threads().into_iter().filter_map(|thread| allowed_cpus_of(thread).ok()).collect();
    assert!(of_load.contains(&first), "{of_load:?}");
    load.stop().unwrap();
}

/// Threads of the loads of this process.
fn load_threads() -> Vec<i32> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let is_load = |entry: &std::fs::DirEntry| {
        std::fs::read_to_string(entry.path().join("stat")).is_ok_and(|stat| stat.contains("(load)"))
    };
    threads
        .filter_map(Result::ok)
        .filter(is_load)
        .map(|entry| entry.file_name().to_str().unwrap().parse().unwrap())
        .collect()
}

/// Catches: jobs that have the CPUs of the beginning again come back to CPUs from which a shield has moved the load.
#[test]
fn jobs_have_the_cpus_that_their_load_was_moved_to() {
    let base = Folder::new("moved");
    let load = Load::start(&LoadSpec { directory: Some(base.0.clone()), ..spec(LoadProfile::Build) }).unwrap();
    let folder = load.folder().unwrap().to_owned();
    let allowed = task::allowed_cpus().unwrap();
    if allowed.len() == 1 {
        println!("SKIPPED jobs_have_the_cpus_that_their_load_was_moved_to: there is one CPU");
        return;
    }
    let first = allowed.iter().take(1).collect::<CpuList>();
    let mut found = Vec::new();
    let are_moved = eventually(|| {
        let jobs = processes(&folder);
        for thread in load_threads() {
            let children = std::fs::read_to_string(format!("/proc/self/task/{thread}/children")).unwrap_or_default();
            // Other tests of this process have loads, too.
            if children.split_ascii_whitespace().any(|child| child.parse().is_ok_and(|child| jobs.contains(&child))) {
                task::set_affinity_of(thread, &first).unwrap();
            }
        }
        found = jobs.into_iter().filter_map(|job| allowed_cpus_of(job).ok()).collect();
        !found.is_empty() && found.iter().all(|cpus| *cpus == first)
    });
    assert!(are_moved, "{found:?}");
    load.stop().unwrap();
}

#[test]
fn the_wait_for_steadiness_can_be_given_up() {
    let mut load = Load::start(&spec(LoadProfile::Cpu)).unwrap();
    // A second of even work is needed at least, so this is no steadiness, and it does not wait for an hour.
    assert!(!load.wait_steady(&AtomicBool::new(true), Duration::from_secs(3600)).unwrap());
    assert!(!load.stop().unwrap().steady);
}

#[test]
fn a_cpu_load_becomes_steady_by_itself() {
    let mut load = Load::start(&spec(LoadProfile::Cpu)).unwrap();
    // Other tests run beside this one; that it turns steady within the bound is the point, not when.
    assert!(load.wait_steady(&AtomicBool::new(false), SOON).unwrap());
    let report = load.stop().unwrap();
    assert!(report.steady && report.steady_after_ns >= 1_000_000_000, "a second is looked at: {report:?}");
}

#[test]
fn a_disk_load_stays_within_its_bounds_and_is_removed() {
    let base = Folder::new("disk");
    let load = Load::start(&LoadSpec { directory: Some(base.0.clone()), ..spec(LoadProfile::Disk) }).unwrap();
    let folder = load.folder().unwrap().to_owned();
    let size = |name: &str| folder.join(name).metadata().map_or(0, |data| data.len());
    assert!(eventually(|| size("data-0") > 0 && size("data-1") > 0));
    assert!(size("data-0") <= 64 << 20);
    drop(load);
    assert!(base.is_empty());
}

#[test]
fn what_cannot_be_meant_is_refused_in_words() {
    let says = |spec: LoadSpec| Load::start(&spec).map(drop).unwrap_err().to_string();
    let jobs = says(LoadSpec { jobs: Some(0), ..spec(LoadProfile::Cpu) });
    assert_eq!(jobs, "0 jobs are out of range: use 1 to 1024");
    let command = says(LoadSpec { command: Some("make".to_owned()), ..spec(LoadProfile::Disk) });
    assert!(command.contains("load disk takes no command"), "{command}");
    let cpus = says(LoadSpec { cpus: Some("8000".parse().unwrap()), ..spec(LoadProfile::Cpu) });
    assert!(cpus.starts_with("CPU 8000 does not exist here: use "), "{cpus}");
    for profile in [LoadProfile::Disk, LoadProfile::Build] {
        let folder = says(LoadSpec { directory: Some("/nonexistent-folder".into()), ..spec(profile) });
        assert!(folder.contains("/nonexistent-folder"), "{folder}");
    }
    let folder = LoadSpec {
        command: Some("true".to_owned()),
        directory: Some("/nonexistent-folder".into()),
        ..spec(LoadProfile::Build)
    };
    assert!(Load::start(&folder).unwrap_err().to_string().starts_with("folder /nonexistent-folder cannot be used"));
    let code = |spec: &LoadSpec| Load::start(spec).unwrap_err().exit_code();
    let jobs = LoadSpec { jobs: Some(0), ..LoadSpec::new(LoadProfile::Cpu) };
    let cpus = LoadSpec { cpus: Some("4095".parse().unwrap()), ..LoadSpec::new(LoadProfile::Cpu) };
    assert_eq!([code(&folder), code(&jobs), code(&cpus)], [2, 2, 2]);
}
