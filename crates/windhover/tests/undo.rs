//! `windhover undo`, and the keeper that undoes when the owner of a change set is killed.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

#[path = "undo/namespaces.rs"]
mod namespaces;
mod support;

use host::knob::{Form, Knob, Machine, Settings as _, TaskKey};
use host::undo::{Change, KILL_AT, SetHeader, SetId, StateDir};
use prepare::{Kernel, keeper};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{alone_on_machine, assert_code, is_root, run, stderr, stdout};

const PATIENCE: Duration = Duration::from_secs(30);
const ROOT: &str = "WINDHOVER_TEST_ROOT";
const STATE: &str = "WINDHOVER_TEST_STATE";
const CHANGES: &str = "WINDHOVER_TEST_CHANGES";

fn change(knob: Knob, wanted: impl Into<String>) -> Change {
    Change { knob, wanted: wanted.into(), why: "a test".to_owned(), exact: true }
}

fn busy_poll() -> Knob {
    Knob::sysctl("net.core.busy_poll")
}

fn group() -> PathBuf {
    PathBuf::from("/sys/fs/cgroup/cpuset/windhover")
}

/// A tree of files that looks like a system, and the changes that the owner makes to it.
fn plant() -> (tempfile::TempDir, Vec<Change>) {
    let tree = tempfile::tempdir().unwrap();
    for (file, content) in [
        ("proc/sys/net/core/busy_poll", "0\n"),
        ("sys/fs/cgroup/cpuset/tasks", "\n"),
        ("proc/mounts", "cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n"),
    ] {
        let path = tree.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let changes = vec![
        change(busy_poll(), "50"),
        change(Knob::Group { path: group() }, "present"),
        change(Knob::file(group().join("cpuset.cpus"), Form::CpuList), "1"),
    ];
    (tree, changes)
}

/// Plays the owner: makes the changes with a keeper behind it, says so, and waits to be killed. Nothing when the tests are
/// run as usual.
#[test]
fn owner_part() {
    let (Ok(root), Ok(state), Ok(changes)) = (std::env::var(ROOT), std::env::var(STATE), std::env::var(CHANGES)) else {
        return;
    };
    let changes: Vec<Change> = serde_json::from_str(&changes).unwrap();
    let state = StateDir::at(state);
    let lock = state.lock(PATIENCE).unwrap();
    let header = SetHeader::new("test", "cargo test", keeper::this_process());
    let mut set = state.begin(&lock, &header).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_windhover"));
    let _keeper = keeper::start_program(program, set.id(), state.path(), Path::new(&root)).unwrap();
    let kernel = Kernel::at(Machine::at(&root));
    for change in &changes {
        set.set(&kernel, change).unwrap();
    }
    drop(lock);
    eprintln!("ready");
    std::thread::sleep(Duration::from_secs(120));
}

fn owner(root: &Path, state: &Path, changes: &[Change], die_at: Option<u32>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["owner_part", "--exact", "--nocapture", "--test-threads=1"])
        .env(ROOT, root)
        .env(STATE, state)
        .env(CHANGES, serde_json::to_string(changes).unwrap())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    if let Some(at) = die_at {
        command.env(KILL_AT, at.to_string());
    }
    command.spawn().unwrap()
}

/// Waits until the owner has made its changes; false when it died before, and then its last words are printed.
fn is_ready(owner: &mut Child) -> bool {
    let stderr = BufReader::new(owner.stderr.take().unwrap());
    stderr.lines().map_while(Result::ok).inspect(|line| eprintln!("owner: {line}")).any(|line| line == "ready")
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[track_caller]
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[track_caller]
fn assert_as_planted(root: &Path) {
    let machine = Machine::at(root);
    assert_eq!(machine.read(&busy_poll()).unwrap(), "0");
    assert_eq!(machine.read(&Knob::Group { path: group() }).unwrap(), "absent");
}

#[test]
fn a_killed_owner_is_cleaned_up_after() {
    let (tree, changes) = plant();
    let (root, state) = (tree.path(), tree.path().join("state"));
    let mut child = owner(root, &state, &changes, None);
    assert!(is_ready(&mut child));
    let machine = Machine::at(root);
    assert_eq!(machine.read(&busy_poll()).unwrap(), "50");
    assert_eq!(StateDir::at(&state).sets().unwrap().len(), 1);
    kill(child);
    eventually("the keeper undoes", || StateDir::at(&state).sets().unwrap().is_empty());
    assert_as_planted(root);
}

#[test]
fn an_owner_killed_at_any_step_is_cleaned_up_after() {
    let mut at = 1;
    loop {
        let (tree, changes) = plant();
        let (root, state) = (tree.path(), tree.path().join("state"));
        let mut child = owner(root, &state, &changes, Some(at));
        let survived = is_ready(&mut child);
        kill(child);
        // A set may not have been begun yet; once the keeper has the lock and finds none it is at its end too.
        eventually("the keeper undoes", || StateDir::at(&state).sets().unwrap().is_empty());
        eventually("the tree is as before", || {
            let machine = Machine::at(root);
            machine.read(&busy_poll()).unwrap() == "0"
                && machine.read(&Knob::Group { path: group() }).unwrap() == "absent"
        });
        if survived {
            break;
        }
        at += 1;
    }
    assert!(at > 15, "only {at} fault points");
}

#[test]
fn a_keeper_asked_to_end_undoes_and_one_without_work_does_nothing() {
    let (tree, changes) = plant();
    let (root, state) = (tree.path(), StateDir::at(tree.path().join("state")));
    let program = Path::new(env!("CARGO_BIN_EXE_windhover"));
    let kernel = Kernel::at(Machine::at(root));
    let make = || {
        let lock = state.lock(PATIENCE).unwrap();
        let header = SetHeader::new("test", "cargo test", keeper::this_process());
        let mut set = state.begin(&lock, &header).unwrap();
        let keeper = keeper::start_program(program, set.id(), state.path(), root).unwrap();
        for change in &changes {
            set.set(&kernel, change).unwrap();
        }
        (set.id().clone(), keeper)
    };
    let (_, keeper) = make();
    let pid = keeper.pid().unwrap().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    eventually("the keeper undoes", || state.sets().unwrap().is_empty());
    assert!(keeper.release().unwrap());
    assert_as_planted(root);

    let (id, keeper) = make();
    let lock = state.lock(PATIENCE).unwrap();
    state.undo(&lock, &kernel, &id, false, PATIENCE).unwrap();
    // The next set is another's: the keeper must leave it alone.
    let mut other = state.begin(&lock, &SetHeader::new("other", "cargo test", None)).unwrap();
    other.set(&kernel, &change(busy_poll(), "7")).unwrap();
    drop(lock);
    assert!(keeper.release().unwrap());
    assert_eq!(kernel.read(&busy_poll()).unwrap(), "7");
}

#[test]
fn no_keeper_no_change() {
    let tree = tempfile::tempdir().unwrap();
    let set = SetId("0001".to_owned());
    let wrong = keeper::start_program(Path::new("/bin/true"), &set, tree.path(), Path::new("/"));
    assert!(matches!(wrong, Err(keeper::KeeperError::NotReady { .. })), "{wrong:?}");
}

#[test]
fn a_real_group_full_of_forking_tasks() {
    const NAME: &str = "a_real_group_full_of_forking_tasks";
    let hierarchy = PathBuf::from("/sys/fs/cgroup/cpuset");
    if !is_root() || !hierarchy.join("cpuset.mems").exists() {
        eprintln!("SKIPPED {NAME}: needs root and the cpuset hierarchy of control group version 1");
        return;
    }
    // A shield would move the tasks that this is about.
    let _alone = alone_on_machine().unwrap();
    let value = |file: &str| std::fs::read_to_string(hierarchy.join(file)).unwrap().trim().to_owned();
    // A task that is never done forking, for a bounded time.
    let forks = "i=0; while [ $i -lt 20000 ]; do /bin/true; i=$((i+1)); done";
    let mut forking = Command::new("sh").args(["-c", forks]).spawn().unwrap();
    let task = TaskKey::of(i32::try_from(forking.id()).unwrap()).unwrap();
    let member = Knob::Member { hierarchy: hierarchy.clone(), task };
    let machine = Machine::running();
    let before = machine.read(&member).unwrap();
    let group = Path::new(&before).join(format!("windhover-test-{}", std::process::id()));
    let inside = |name: &str| Knob::file(group.join(name), Form::CpuList);
    let changes = [
        change(Knob::Group { path: group.clone() }, "present"),
        change(inside("cpuset.mems"), value("cpuset.mems")),
        change(inside("cpuset.cpus"), value("cpuset.cpus")),
        change(member.clone(), group.display().to_string()),
    ];
    let tree = tempfile::tempdir().unwrap();
    let state = tree.path().join("state");
    let mut child = owner(Path::new("/"), &state, &changes, None);
    assert!(is_ready(&mut child));
    let there = machine.read(&member);
    kill(child);
    eventually("the keeper undoes", || StateDir::at(&state).sets().unwrap().is_empty());
    let back = machine.read(&member);
    let _ = forking.kill();
    let _ = forking.wait();
    assert_eq!(there.unwrap(), group.display().to_string());
    assert_eq!(back.unwrap(), before);
    assert!(!group.exists());
}

fn made(state: &Path, root: &Path, changes: &[Change]) -> SetId {
    let state = StateDir::at(state);
    let lock = state.lock(PATIENCE).unwrap();
    let mut set = state.begin(&lock, &SetHeader::new("tune test", "cargo test", None)).unwrap();
    for change in changes {
        set.set(&Machine::at(root), change).unwrap();
    }
    set.id().clone()
}

#[test]
fn undo_lists_puts_back_and_names_conflicts() {
    let (tree, changes) = plant();
    let (root, state) = (tree.path().display().to_string(), tree.path().join("state").display().to_string());
    let undo = |more: &[&str]| run(&[&["undo", "--state-dir", &state, "--root", &root], more].concat());
    assert_code(&undo(&[]), 0);
    let id = made(Path::new(&state), tree.path(), &changes);
    let listed = undo(&["--list"]);
    assert_code(&listed, 0);
    assert!(stdout(&listed).contains("busy_poll: '50', was '0': a test"), "{}", stdout(&listed));
    let listed: serde_json::Value = serde_json::from_slice(&undo(&["--list", "--json"]).stdout).unwrap();
    assert_eq!(listed[0]["set"], id.0);
    assert_eq!(listed[0]["changes"].as_array().unwrap().len(), changes.len());
    let unknown = undo(&["17"]);
    assert_code(&unknown, 2);
    assert!(stderr(&unknown).contains("17"));

    Machine::at(tree.path()).write(&busy_poll(), "20").unwrap();
    let refused = undo(&[&id.0]);
    assert_code(&refused, 1);
    let text = stdout(&refused);
    assert_eq!(text.lines().filter(|line| line.contains("changed to '20'")).count(), 1, "{text}");
    assert_code(&undo(&[]), 0);

    made(Path::new(&state), tree.path(), &changes);
    Machine::at(tree.path()).write(&busy_poll(), "30").unwrap();
    assert_code(&undo(&["--force"]), 0);
    assert_eq!(Machine::at(tree.path()).read(&busy_poll()).unwrap(), "20");
}

/// Mounts a folder onto itself, read-only, in a mount namespace that only the calling thread and its children are in.
fn make_read_only(folder: &Path) -> Result<(), nix::Error> {
    use nix::mount::{MsFlags, mount};
    let none = None::<&str>;
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS)?;
    mount(none, "/", none, MsFlags::MS_PRIVATE | MsFlags::MS_REC, none)?;
    mount(Some(folder), folder, none, MsFlags::MS_BIND, none)?;
    mount(none, folder, none, MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY, none)
}

/// Catches: settings that stay, because the state directory became read-only and their log cannot be marked.
#[test]
fn a_read_only_state_directory_does_not_keep_settings() {
    let (tree, changes) = plant();
    let (root, state) = (tree.path().display().to_string(), tree.path().join("state").display().to_string());
    let undo = |more: &[&str]| run(&[&["undo", "--state-dir", &state, "--root", &root], more].concat());
    made(Path::new(&state), tree.path(), &changes);
    // A newer set holds the first knob: it is undone first.
    made(Path::new(&state), tree.path(), &[change(busy_poll(), "70")]);
    if let Err(error) = make_read_only(Path::new(&state)) {
        eprintln!("SKIPPED a_read_only_state_directory_does_not_keep_settings: cannot mount: {error}");
        return;
    }
    let undone = undo(&[]);
    assert_code(&undone, 1);
    let text = stdout(&undone).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(text.matches("is read-only: make it writable").count(), 2, "{text}");
    assert_as_planted(tree.path());
    let listed: serde_json::Value = serde_json::from_slice(&undo(&["--list", "--json"]).stdout).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 2, "the logs are still there");
    nix::mount::umount(Path::new(&state)).unwrap();
    let again = undo(&[]);
    assert!(stdout(&again).contains("already as before"), "{}", stdout(&again));
    assert_as_planted(tree.path());
    assert_code(&undo(&[]), 0);
}

/// An owner that lives needs its changes: a running campaign its shield.
#[test]
fn changes_of_a_process_that_runs_are_put_back_after_a_question() {
    let (tree, changes) = plant();
    let (root, state) = (tree.path().display().to_string(), tree.path().join("state"));
    let undo =
        |more: &[&str]| run(&[&["undo", "--state-dir", state.to_str().unwrap(), "--root", &root], more].concat());
    for more in [&[][..], &["--list"]] {
        let nothing = undo(more);
        assert_code(&nothing, 0);
        assert!(stderr(&nothing).contains("nothing to undo"), "{more:?}: {}", stderr(&nothing));
    }
    // In the tree this process is the owner.
    let own = tree.path().join(format!("proc/{}/stat", std::process::id()));
    std::fs::create_dir_all(own.parent().unwrap()).unwrap();
    std::fs::write(&own, std::fs::read("/proc/self/stat").unwrap()).unwrap();
    let owner = TaskKey::of_at(&Machine::at(tree.path()), std::process::id().cast_signed()).unwrap();
    let value = || Machine::at(tree.path()).read(&busy_poll()).unwrap();
    let make = || {
        let log = StateDir::at(&state);
        let lock = log.lock(PATIENCE).unwrap();
        let header = SetHeader::new("shield", "windhover campaign run x.toml", Some(owner.clone()));
        log.begin(&lock, &header).unwrap().set(&Machine::at(tree.path()), &changes[0]).unwrap();
        assert_eq!(value(), "50");
    };
    make();
    for more in [&[][..], &["--force"], &["0001"]] {
        let refused = undo(more);
        assert_code(&refused, 2);
        let said = stderr(&refused);
        assert_eq!(said.lines().count(), 1, "{said}");
        for word in ["set 0001 (shield)", &owner.to_string(), "windhover campaign run x.toml", "--yes"] {
            assert!(said.contains(word), "'{word}' is not in: {said}");
        }
        assert_eq!((value().as_str(), stdout(&refused).as_str()), ("50", ""));
    }
    assert_code(&undo(&["--yes"]), 0);
    assert_eq!(value(), "0");
    // After its end nobody is asked.
    make();
    std::fs::remove_file(&own).unwrap();
    assert_code(&undo(&[]), 0);
    assert_eq!(value(), "0");
}

/// Modes of all that is below a folder, its own included: (path, mode).
fn modes(folder: &Path) -> Vec<(PathBuf, u32)> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
    let mut found = vec![(folder.to_owned(), mode(folder))];
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(modes(&path)) } else { found.push((path.clone(), mode(&path))) }
    }
    found
}

#[test]
fn state_is_its_owners_alone_whatever_the_umask() {
    let (tree, _) = plant();
    let (root, state) = (tree.path().display().to_string(), tree.path().join("state"));
    let program = env!("CARGO_BIN_EXE_windhover");
    let made = Command::new("sh")
        .args(["-c", "umask 000; exec \"$@\"", "sh", program, "tune", "apply", "--yes"])
        .args(["--set", "net.core.busy_poll=50", "--root", &root, "--state-dir"])
        .arg(&state)
        .output()
        .unwrap();
    assert_code(&made, 0);
    let modes = modes(&state);
    assert!(modes.iter().any(|(path, _)| path.extension().is_some_and(|end| end == "jsonl")), "{modes:?}");
    for (path, mode) in modes {
        assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    }
}

#[test]
fn damaged_logs_are_named_and_the_others_undone() {
    let (tree, _) = plant();
    let (root, state) = (tree.path().display().to_string(), tree.path().join("state"));
    let undo =
        |more: &[&str]| run(&[&["undo", "--state-dir", state.to_str().unwrap(), "--root", &root], more].concat());
    let names: Vec<String> = (0..6).map(|number| format!("kernel.test_{number}")).collect();
    let file = |name: &str| tree.path().join("proc/sys").join(name.replace('.', "/"));
    std::fs::create_dir_all(tree.path().join("proc/sys/kernel")).unwrap();
    names.iter().for_each(|name| std::fs::write(file(name), "0\n").unwrap());
    let sets: Vec<SetId> = [0, 2, 4]
        .map(|first| {
            let changes: Vec<Change> =
                names[first..first + 2].iter().map(|name| change(Knob::sysctl(name), "7")).collect();
            made(&state, tree.path(), &changes)
        })
        .to_vec();
    let folder = StateDir::at(&state).folder().unwrap();
    let log = folder.join(format!("{}.jsonl", sets[1]));
    let text = std::fs::read(&log).unwrap();
    let second = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(2).unwrap().0;
    // Cut in the second change.
    std::fs::write(&log, &text[..second + 40]).unwrap();
    let listed = undo(&["--list"]);
    assert_code(&listed, 0);
    assert!(stdout(&listed).contains("1 of 2 changes are missing"), "{}", stdout(&listed));
    let undone = undo(&[]);
    assert_code(&undone, 1);
    assert!(stdout(&undone).contains("1 of 2 changes are missing"), "{}", stdout(&undone));
    let left: Vec<&String> =
        names.iter().filter(|name| std::fs::read_to_string(file(name)).unwrap().trim() != "0").collect();
    assert_eq!(left, ["kernel.test_3"], "only the change whose line is lost");
    // Said again until somebody has looked.
    let again = undo(&[]);
    assert_code(&again, 1);
    assert!(stderr(&again).contains(&format!("{}.damaged", sets[1])), "{}", stderr(&again));
    std::fs::remove_file(folder.join(format!("{}.damaged", sets[1]))).unwrap();
    assert_code(&undo(&[]), 0);
}
