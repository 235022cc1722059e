//! Change sets of network namespaces that are kept somewhere, gone, or out of sight.

use super::tree::{PATIENCE, change, header, plant};
use host::knob::{Knob, Machine, Settings as _};
use host::netns;
use host::undo::{SetHeader, SetId, SetNamespace, StateDir, UndoReport};
use nix::mount::{MsFlags, mount, umount};
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const STATE: &str = "WINDHOVER_TEST_STATE";
/// The value that every test sets.
const OURS: &str = "78";

fn ttl() -> Knob {
    Knob::sysctl("net.ipv4.ip_default_ttl")
}

/// A new network namespace, which its open file keeps; `None` where the caller may make none.
fn namespace(test: &str) -> Option<File> {
    let make = || unshare(CloneFlags::CLONE_NEWNET).map(|()| File::open("/proc/thread-self/ns/net").unwrap());
    let made = std::thread::spawn(make).join().unwrap();
    made.inspect_err(|errno| eprintln!("SKIPPED {test}: no network namespace can be made here: {errno}")).ok()
}

fn inside<T: Send>(file: &File, work: impl FnOnce() -> T + Send) -> T {
    let enter = || {
        setns(file, CloneFlags::CLONE_NEWNET).unwrap();
        work()
    };
    std::thread::scope(|scope| scope.spawn(enter).join().unwrap())
}

fn value(file: &File) -> String {
    inside(file, || Machine::running().read(&ttl()).unwrap())
}

fn inode(file: &File) -> u64 {
    netns::inode_of(&link(file)).unwrap()
}

fn link(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Makes a set in a namespace: named in its header, or by the directory of its log.
fn make(file: &File, folder: &Path, named: bool) -> (StateDir, SetId) {
    let details = if named { serde_json::json!({ "netns": inode(file) }) } else { serde_json::Value::Null };
    let state = StateDir::at(if named { folder.to_owned() } else { folder.join(format!("netns-{}", inode(file))) });
    let set = inside(file, || {
        let lock = state.lock(PATIENCE).unwrap();
        let mut set = state.begin(&lock, &SetHeader { details, ..header() }).unwrap();
        set.set(&Machine::running(), &change(ttl(), OURS)).unwrap();
        set.id().clone()
    });
    (state, set)
}

fn undo(state: &StateDir, set: &SetId) -> UndoReport {
    let lock = state.lock(PATIENCE).unwrap();
    state.undo(&lock, &Machine::running(), set, false, PATIENCE).unwrap()
}

fn where_is(state: &StateDir) -> SetNamespace {
    state.namespace_of(&state.sets().unwrap()[0].1)
}

#[test]
fn a_new_namespace_with_the_inode_of_a_lost_one_is_left_alone() {
    let test = "a_new_namespace_with_the_inode_of_a_lost_one_is_left_alone";
    if netns::cookie().is_none() {
        return eprintln!("SKIPPED {test}: this kernel numbers no namespaces (SO_NETNS_COOKIE, Linux 5.14)");
    }
    for (named, from_inside) in [(true, false), (true, true), (false, false), (false, true)] {
        let tree = tempfile::tempdir().unwrap();
        let (Some(lost), Some(new)) = (namespace(test), namespace(test)) else { return };
        let cookies = [&lost, &new].map(|file| inside(file, netns::cookie));
        assert_ne!(cookies[0], cookies[1]);
        // As if the new one had got the inode of the lost one, where the very value was set that it has now.
        let (state, set) = make(&new, &tree.path().join("state"), named);
        let log = state.folder().unwrap().join(format!("{set}.jsonl"));
        assert_eq!(state.sets().unwrap()[0].1.netns_cookie, cookies[1]);
        let text = std::fs::read_to_string(&log).unwrap();
        let (header, rest) = text.split_once('\n').unwrap();
        let mut header: serde_json::Value = serde_json::from_str(header).unwrap();
        header["netns_cookie"] = cookies[0].into();
        header.as_object_mut().unwrap().retain(|name, _| name != "sum" && name != "changes");
        std::fs::write(&log, format!("{header}\n{rest}")).unwrap();
        let look = || (where_is(&state), undo(&state, &set));
        let (found, report) = if from_inside { inside(&new, look) } else { look() };
        assert_eq!(value(&new), OURS, "a setting of the new namespace was changed: {report:?}");
        assert_eq!((found, report.forgotten), (SetNamespace::Gone { inode: inode(&new) }, vec![ttl()]));
    }
}

#[test]
fn a_namespace_without_a_name_is_found_where_it_is_kept() {
    let test = "a_namespace_without_a_name_is_found_where_it_is_kept";
    for kept in ["descriptor", "mount", "thread"] {
        let tree = tempfile::tempdir().unwrap();
        let Some(file) = namespace(test) else { return };
        let number = inode(&file);
        let (state, _) = make(&file, &tree.path().join("state"), true);
        let point = tree.path().join("a place");
        let is_found = || match where_is(&state) {
            SetNamespace::Other { inode, file } => {
                assert_eq!((inode, netns::inode_of(&file)), (number, Some(number)), "{kept}");
                assert_eq!(value(&File::open(file).unwrap()), OURS, "{kept}");
            }
            other => panic!("{kept}: {other:?}"),
        };
        match kept {
            "descriptor" => {
                is_found();
                drop(file);
            }
            "mount" => {
                File::create(&point).unwrap();
                let nothing = None::<&str>;
                mount(Some(&link(&file)), &point, nothing, MsFlags::MS_BIND, nothing).unwrap();
                drop(file);
                let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(is_found));
                umount(&point).unwrap();
                found.unwrap();
            }
            _ => std::thread::scope(|scope| {
                let (entered, is_entered) = std::sync::mpsc::channel();
                let (end, ended) = std::sync::mpsc::channel::<()>();
                scope.spawn(move || {
                    setns(&file, CloneFlags::CLONE_NEWNET).unwrap();
                    drop(file);
                    entered.send(()).unwrap();
                    let _ = ended.recv();
                });
                is_entered.recv().unwrap();
                is_found();
                drop(end);
            }),
        }
        let gone = || where_is(&state) == SetNamespace::Gone { inode: number };
        let is_gone = (0..100).any(|_| {
            gone() || {
                std::thread::sleep(Duration::from_millis(20));
                false
            }
        });
        assert!(is_gone, "{kept}: {:?}", where_is(&state));
    }
}

/// Undoes what the test below made: the machine's setting is put back, the namespace's stays in the log.
#[test]
fn pid_namespace_part() {
    let Some(root) = std::env::var_os(STATE).map(PathBuf::from) else { return };
    let state = StateDir::at(root.join("state"));
    let lock = state.lock(PATIENCE).unwrap();
    let report = state.undo(&lock, &Machine::at(&root), &SetId("0001".to_owned()), false, PATIENCE).unwrap();
    assert_eq!((report.restored, report.forgotten.len(), report.failed.len()), (1, 0, 1), "{report:?}");
    let words = "its network namespace (inode 17) is not found: a pid namespace does not show";
    assert!(report.failed[0].contains(words), "{report:?}");
}

/// In a pid namespace nobody can tell whether a network namespace is gone.
#[test]
fn a_pid_namespace_forgets_nothing() {
    let test = "a_pid_namespace_forgets_nothing";
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path();
    plant(root);
    let (machine, state) = (Machine::at(root), StateDir::at(root.join("state")));
    let knobs = ["net.core.busy_poll", "kernel.sched_rt_runtime_us"].map(Knob::sysctl);
    let lock = state.lock(PATIENCE).unwrap();
    // No namespace has it: they are numbered from 4026531833 on.
    let gone = SetHeader { details: serde_json::json!({ "netns": 17 }), ..header() };
    let mut set = state.begin(&lock, &gone).unwrap();
    knobs.iter().for_each(|knob| drop(set.set(&machine, &change(knob.clone(), "50")).unwrap()));
    let id = set.id().clone();
    drop((set, lock));
    let unshared = ["--pid", "--fork", "--mount-proc"];
    if !Command::new("unshare").args(unshared).arg("true").status().is_ok_and(|status| status.success()) {
        return eprintln!("SKIPPED {test}: no pid namespace can be made here");
    }
    let part = ["--exact", "namespaces::pid_namespace_part"];
    let program = std::env::current_exe().unwrap();
    let done = Command::new("unshare").args(unshared).arg(program).args(part).env(STATE, root).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    assert_eq!(knobs.each_ref().map(|knob| machine.read(knob).unwrap()), ["50", "950000"]);
    let lock = state.lock(PATIENCE).unwrap();
    let report = state.undo(&lock, &machine, &id, false, PATIENCE).unwrap();
    assert_eq!((report.forgotten.as_slice(), report.failed.len()), (&knobs[..1], 0), "{report:?}");
}
