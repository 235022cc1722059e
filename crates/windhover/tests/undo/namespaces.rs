//! Change sets of other network namespaces.

use super::*;

/// A network namespace that goes at the end.
struct Namespace(String);

impl Namespace {
    fn new(name: &str) -> Self {
        let name = format!("wht-{name}-{}", std::process::id());
        assert!(Command::new("ip").args(["netns", "add", &name]).status().unwrap().success());
        Self(name)
    }

    fn file(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.0)
    }

    /// Does something in it, on a thread of its own.
    fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                task::enter_network(&self.file()).unwrap();
                work()
            });
            thread.join().unwrap()
        })
    }

    fn remove(&self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.remove();
    }
}

#[test]
fn undo_finds_the_logs_of_namespaces_and_enters_them() {
    let test = "undo_finds_the_logs_of_namespaces_and_enters_them";
    if !support::can_make_namespaces(test) {
        return;
    }
    let namespace = Namespace::new("u");
    let tree = tempfile::tempdir().unwrap();
    let state = tree.path().join("state");
    let undo = |more: &[&str]| run(&[&["undo", "--state-dir", state.to_str().unwrap()], more].concat());
    let ttl = Knob::sysctl("net.ipv4.ip_default_ttl");
    let read = || namespace.within(|| Machine::running().read(&ttl).unwrap());
    let before = read();
    let inode = host::netns::inode_of(&namespace.file()).unwrap();
    let folder = state.join(format!("netns-{inode}"));
    // As an agent makes it there.
    let make = || {
        namespace.within(|| {
            let own = StateDir::at(&state).of_this_namespace();
            assert_eq!(own.path(), folder);
            made(own.path(), Path::new("/"), &[change(ttl.clone(), "77")])
        })
    };
    let id = make();
    assert_eq!(read(), "77");
    let listed = undo(&["--list"]);
    assert!(stdout(&listed).contains(&format!("netns-{inode}/{id}")), "{}", stdout(&listed));
    let undone = undo(&[]);
    assert_code(&undone, 0);
    assert!(stdout(&undone).contains("1 put back"), "{}", stdout(&undone));
    assert_eq!(read(), before);
    assert!(!folder.exists(), "a finished folder stays");

    // One set by its name; and what `tune apply` logs among the machine's own sets.
    let id = make();
    assert_code(&undo(&[&format!("netns-{inode}/{id}")]), 0);
    assert_eq!(read(), before);
    let applied = namespace.within(|| {
        let set = ["tune", "apply", "--yes", "--set", "net.ipv4.ip_default_ttl=78", "--state-dir"];
        run(&[&set[..], &[state.to_str().unwrap()]].concat())
    });
    assert_code(&applied, 0);
    assert_eq!(read(), "78");
    let undone: serde_json::Value = serde_json::from_slice(&undo(&["--json"]).stdout).unwrap();
    assert_eq!((&undone[0]["report"]["restored"], &undone[0]["netns"]), (&1.into(), &inode.into()), "{undone}");
    assert_eq!(read(), before);

    make();
    namespace.remove();
    let gone = undo(&[]);
    assert_code(&gone, 0);
    assert!(stdout(&gone).contains("is gone"), "{}", stdout(&gone));
    assert!(!folder.exists(), "a finished folder stays");
}

/// Runs windhover in a namespace.
fn run_in(namespace: &Namespace, arguments: &[&str]) -> std::process::Output {
    namespace.within(|| run(arguments))
}

#[test]
fn settings_of_a_namespace_that_is_gone_are_forgotten_and_the_callers_stay() {
    let test = "settings_of_a_namespace_that_is_gone_are_forgotten_and_the_callers_stay";
    if !support::can_make_namespaces(test) {
        return;
    }
    let ttl = Knob::sysctl("net.ipv4.ip_default_ttl");
    let caller = Namespace::new("c");
    let read = || caller.within(|| Machine::running().read(&ttl).unwrap());
    // The value that the lost namespace had too: nothing but the namespace tells the two apart.
    caller.within(|| Machine::running().write(&ttl, "78").unwrap());
    for undo in [&["undo"][..], &["tune", "undo"]] {
        let tree = tempfile::tempdir().unwrap();
        let state = tree.path().join("state").display().to_string();
        let lost = Namespace::new("g");
        let set = ["tune", "apply", "--yes", "--set", "net.ipv4.ip_default_ttl=78", "--state-dir", &state];
        assert_code(&run_in(&lost, &set), 0);
        // While it is there, the set is undone in it or not at all.
        let refused = run_in(&caller, &["tune", "undo", "--state-dir", &state]);
        assert_code(&refused, 1);
        assert!(stderr(&refused).contains("`windhover undo 0001` enters it"), "{}", stderr(&refused));
        lost.remove();
        let undone = run_in(&caller, &[undo, &["--state-dir", &state]].concat());
        assert_eq!(read(), "78", "the caller's setting was changed by {undo:?}");
        assert_code(&undone, 0);
        let said = stdout(&undone);
        assert!(said.contains("0001  0 put back, 1 forgotten\n"), "{said}");
        assert!(
            said.contains("its network namespace is gone, and with it /proc/sys/net/ipv4/ip_default_ttl\n"),
            "{said}"
        );
        let again = run(&["undo", "--state-dir", &state]);
        assert_code(&again, 0);
        assert!(stderr(&again).contains("there is nothing to undo"), "{}", stderr(&again));
    }
}

/// A namespace takes its own settings with it, and leaves the machine's to be put back: wherever the log is.
#[test]
fn of_a_namespace_that_is_gone_the_machines_settings_are_put_back() {
    // No namespace has it: they are numbered from 4026531833 on.
    const GONE: u64 = 17;
    let header =
        SetHeader { details: serde_json::json!({ "netns": GONE }), ..SetHeader::new("tune test", "cargo test", None) };
    for (folder, header) in [("", header), ("netns-17", SetHeader::new("tune test", "cargo test", None))] {
        let (tree, _) = plant();
        let root = tree.path().display().to_string();
        let files = ["net/ipv4/ip_default_ttl", "vm/swappiness"].map(|name| tree.path().join("proc/sys").join(name));
        let state = tree.path().join("state");
        let log = StateDir::at(state.join(folder));
        let lock = log.lock(PATIENCE).unwrap();
        let mut set = log.begin(&lock, &header).unwrap();
        for file in &files {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "64\n").unwrap();
        }
        for name in ["net.ipv4.ip_default_ttl", "vm.swappiness"] {
            set.set(&Machine::at(tree.path()), &change(Knob::sysctl(name), "7")).unwrap();
        }
        drop(set);
        drop(lock);
        let undone = run(&["undo", "--json", "--root", &root, "--state-dir", state.to_str().unwrap()]);
        assert_code(&undone, 0);
        let values = files.each_ref().map(|file| std::fs::read_to_string(file).unwrap().trim().to_owned());
        assert_eq!(values, ["7", "64"], "{folder}");
        let done: serde_json::Value = serde_json::from_slice(&undone.stdout).unwrap();
        let report = &done[0]["report"];
        assert_eq!((&report["restored"], report["forgotten"].as_array().unwrap().len()), (&1.into(), 1), "{done}");
        assert_eq!((&done[0]["netns"], &done[0]["gone"]), (&GONE.into(), &true.into()), "{done}");
        assert!(log.sets().unwrap().is_empty());
        assert!(folder.is_empty() || !log.path().exists(), "a finished folder stays");
    }
}

#[test]
fn the_undo_in_another_namespace_changes_the_tree_that_was_named() {
    let test = "the_undo_in_another_namespace_changes_the_tree_that_was_named";
    if !support::can_make_namespaces(test) {
        return;
    }
    let (tree, _) = plant();
    let namespace = Namespace::new("t");
    let inode = host::netns::inode_of(&namespace.file()).unwrap();
    let state = tree.path().join("state");
    let file = tree.path().join("proc/sys/net/core/busy_poll");
    let before = std::fs::read_to_string(&file).unwrap();
    let own = state.join(format!("netns-{inode}"));
    namespace.within(|| made(&own, tree.path(), &[change(busy_poll(), "33")]));
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), "33");
    let root = tree.path().to_str().unwrap();
    let undone = run(&["undo", "--root", root, "--state-dir", state.to_str().unwrap()]);
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), before.trim(), "{}", stdout(&undone));
    assert_code(&undone, 0);
}

#[test]
fn a_set_that_another_undid_meanwhile_is_no_failure() {
    let test = "a_set_that_another_undid_meanwhile_is_no_failure";
    if !support::can_make_namespaces(test) {
        return;
    }
    let namespace = Namespace::new("f");
    let (tree, _) = plant();
    let state = tree.path().join("state");
    let set = ["tune", "apply", "--yes", "--set", "net.ipv4.ip_default_ttl=78", "--state-dir", state.to_str().unwrap()];
    assert_code(&run_in(&namespace, &set), 0);
    let newer = made(&state, tree.path(), &[change(busy_poll(), "33")]);
    let log = StateDir::at(&state);
    let lock = log.lock(PATIENCE).unwrap();
    let root = tree.path().to_str().unwrap();
    let undo = support::windhover(&["undo", "--root", root, "--state-dir", state.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It has read the list of sets when it waits for the lock of the newer one.
    let waits = format!("/proc/{}/fd", undo.id());
    let has_lock_open = || {
        let links = std::fs::read_dir(&waits).into_iter().flatten().flatten();
        links.filter_map(|entry| std::fs::read_link(entry.path()).ok()).any(|file| file.ends_with("lock"))
    };
    eventually("it waits for the lock", has_lock_open);
    let older = SetId("0001".to_owned());
    let report = namespace.within(|| log.undo(&lock, &Machine::running(), &older, false, PATIENCE)).unwrap();
    assert_eq!((report.restored, newer.0.as_str()), (1, "0002"));
    drop(lock);
    let undone = undo.wait_with_output().unwrap();
    assert_code(&undone, 0);
    assert_eq!(stdout(&undone), "0002  1 put back\n0001  undone by another meanwhile\n");
}
