//! Labs of namespaces through the command line.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use std::process::Command;
use support::{assert_code, assert_refused, run, stderr, stdout};

fn exists(namespace: &str) -> bool {
    stdout(&Command::new("ip").args(["netns", "list"]).output().unwrap())
        .lines()
        .any(|line| line.split_whitespace().next() == Some(namespace))
}

#[test]
fn a_lone_host_is_listed_as_it_is() {
    if !support::can_make_namespaces("a_lone_host_is_listed_as_it_is") {
        return;
    }
    let name = format!("one{}", std::process::id());
    let output = run(&["lab", "up", &name, "--hosts", "1"]);
    assert_code(&output, 0);
    let line = stdout(&output);
    // Below the headings and their rule.
    let words: Vec<&str> = line.lines().nth(2).unwrap().split_whitespace().collect();
    let (device, address) = (words[2], words[3]);
    let shown = run(&["lab", "exec", &format!("{name}/a"), "--", "ip", "-o", "address", "show", "dev", device]);
    assert_code(&run(&["lab", "down", &name]), 0);
    assert_code(&shown, 0);
    assert!(stdout(&shown).contains(&format!("{address}/")), "{line}{}", stdout(&shown));
    assert!(!exists(&format!("wh-{name}-a")), "the namespace is left");
}

#[test]
fn up_exec_down() {
    if !support::can_make_namespaces("up_exec_down") {
        return;
    }
    let name = format!("t{}", std::process::id());
    let output = run(&["lab", "up", &name]);
    assert_code(&output, 0);
    assert!(stdout(&output).contains("198.1"), "{}", stdout(&output));
    let result = std::panic::catch_unwind(|| {
        assert_refused(&["lab", "up", &name], 2, &[&name]);
        support::fits_every_width(&["lab", "list"]);
        let host = |host: &str| format!("{name}/{host}");
        let links = run(&["lab", "exec", &host("a"), "--", "ip", "-o", "link"]);
        assert_code(&links, 0);
        assert!(stdout(&links).contains("lo:") && !stdout(&links).contains("eth0"), "{}", stdout(&links));
        // The exit status of the command is passed on.
        assert_code(&run(&["lab", "exec", &host("b"), "--", "sh", "-c", "exit 7"]), 7);
        let listed: serde_json::Value = serde_json::from_str(&stdout(&run(&["lab", "list", "--json"]))).unwrap();
        let lab = listed.as_array().unwrap().iter().find(|lab| lab["name"] == name.as_str()).unwrap().clone();
        for key in ["ipv4", "ipv6"] {
            let address = lab["hosts"][1][key].as_str().unwrap().to_owned();
            let bind = if key == "ipv6" { format!("[{address}]:7413") } else { format!("{address}:7413") };
            let serve = ["lab", "exec", &host("b"), "--", env!("CARGO_BIN_EXE_windhover"), "serve", "--bind", &bind];
            let server = support::Server::started(support::windhover(&serve));
            for protocol in ["udp", "tcp"] {
                let output = run(&[
                    "lab",
                    "exec",
                    &host("a"),
                    "--",
                    env!("CARGO_BIN_EXE_windhover"),
                    "pingpong",
                    protocol,
                    &bind,
                    "--count",
                    "200",
                    "--format",
                    "json",
                ]);
                assert_code(&output, 0);
            }
            if key == "ipv4" {
                // Two namespaces of one machine share its CPUs.
                let spinning = run(&[
                    "lab",
                    "exec",
                    &host("a"),
                    "--",
                    env!("CARGO_BIN_EXE_windhover"),
                    "pingpong",
                    "udp",
                    &bind,
                    "--receive",
                    "spin",
                    "--cpu",
                    "0",
                    "--remote-cpu",
                    "0",
                ]);
                assert_code(&spinning, 2);
                assert!(stderr(&spinning).contains("CPU 0"), "{}", stderr(&spinning));
                // Two addresses of one namespace: the messages never left the host, and the verdict says so.
                let inside = run(&[
                    "lab",
                    "exec",
                    &host("b"),
                    "--",
                    env!("CARGO_BIN_EXE_windhover"),
                    "pingpong",
                    "udp",
                    &bind,
                    "--count",
                    "200",
                    "--format",
                    "json",
                ]);
                assert_code(&inside, 4);
                let invalid = support::documents(&inside)[0]["verdict"]["invalid"][0]["id"].clone();
                assert_eq!(invalid, "path-is-local");
                let output = run(&[
                    "lab",
                    "exec",
                    &host("a"),
                    "--",
                    env!("CARGO_BIN_EXE_windhover"),
                    "pingpong",
                    "udp",
                    &bind,
                    "--mcast",
                    "224.1.2.48",
                    "--count",
                    "200",
                    "--format",
                    "json",
                ]);
                assert_code(&output, 0);
                assert_eq!(support::documents(&output)[0]["messages"]["received"], 200, "{}", stderr(&output));
            }
            drop(server);
        }
    });
    assert_code(&run(&["lab", "down", &name]), 0);
    assert!(!exists(&format!("wh-{name}-a")) && !exists(&format!("wh-{name}-b")));
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn what_is_refused() {
    assert_refused(&["lab", "down", "no-such-lab"], 2, &["no-such-lab"]);
    assert_refused(&["lab", "exec", "no-such-lab/a", "true"], 2, &["no-such-lab"]);
    assert_refused(&["lab", "up", "x/y"], 2, &["x/y"]);
    assert_refused(&["lab", "up", "many", "--hosts", "1000"], 2, &["1000"]);
}

/// Plays the runner: makes a lab with a keeper behind it, says so, and waits to be killed. Nothing when the tests are run
/// as usual.
#[test]
fn owner_part() {
    let Ok(name) = std::env::var("WINDHOVER_TEST_LAB") else { return };
    let keeper = Some(env!("CARGO_BIN_EXE_windhover").into());
    let spec = lab::LabSpec { keeper, ..lab::LabSpec::new(&name) };
    let _lab = lab::Lab::up(&lab::Registry::default(), &spec).unwrap();
    eprintln!("ready");
    std::thread::sleep(std::time::Duration::from_secs(120));
}

fn owner_of(name: &str) -> std::process::Child {
    use std::io::{BufRead as _, BufReader};
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["owner_part", "--exact", "--nocapture", "--test-threads=1"])
        .env("WINDHOVER_TEST_LAB", name)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.into_iter().any(|line| line == "ready"), "no lab");
    child
}

#[test]
fn a_killed_owners_lab_is_taken_down_and_a_living_ones_is_not() {
    let test = "a_killed_owners_lab_is_taken_down_and_a_living_ones_is_not";
    if !support::can_make_namespaces(test) {
        return;
    }
    let name = format!("k{}", std::process::id());
    let namespace = format!("wh-{name}-a");
    let mut owner = owner_of(&name);
    // In another time namespace processes seem to have started at other times.
    let program = env!("CARGO_BIN_EXE_windhover");
    let elsewhere = |arguments: &[&str]| {
        let shift = ["--time", "--boottime", "1000000", "--fork", program];
        Command::new("unshare").args(shift).args(arguments).output().unwrap()
    };
    let listed = elsewhere(&["lab", "list", "--json"]);
    let has_time_namespaces = std::path::Path::new("/proc/self/timens_offsets").exists();
    if has_time_namespaces {
        assert_code(&listed, 0);
        let labs: serde_json::Value = serde_json::from_str(&stdout(&listed)).unwrap();
        let lab = labs.as_array().unwrap().iter().find(|lab| lab["name"] == name.as_str()).unwrap();
        assert_eq!(lab["stale"], false);
        assert_code(&elsewhere(&["lab", "down", "--stale"]), 0);
    } else {
        eprintln!("SKIPPED {test}: the part with time namespaces: this kernel has none");
    }
    assert!(exists(&namespace), "a living owner's lab was removed");
    owner.kill().unwrap();
    owner.wait().unwrap();
    let start = std::time::Instant::now();
    while exists(&namespace) && start.elapsed() < std::time::Duration::from_secs(30) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let left = exists(&namespace);
    let _ = run(&["lab", "down", &name]);
    assert!(!left, "the killed owner's namespaces stay");
}

#[test]
fn without_privileges_it_says_what_is_missing() {
    let test = "without_privileges_it_says_what_is_missing";
    if !support::is_root() {
        eprintln!("SKIPPED {test}: capabilities are dropped by root");
        return;
    }
    let name = format!("p{}", std::process::id());
    let program = env!("CARGO_BIN_EXE_windhover");
    let dropped = ["--bounding-set", "-all", "--inh-caps", "-all", program, "lab", "up", &name];
    let refused = Command::new("setpriv").args(dropped).output().unwrap();
    assert_code(&refused, 2);
    let words = stderr(&refused);
    assert!(words.contains("CAP_NET_ADMIN") && words.contains("campaign run --lab loopback"), "{words}");
    // The flag that it names is there.
    assert!(stdout(&run(&["campaign", "run", "--help"])).contains("--lab"));
    assert!(stdout(&run(&["tune", "try", "--help"])).contains("--lab"));
}

#[test]
fn programs_that_a_lab_is_removed_from_are_named() {
    if !support::can_make_namespaces("programs_that_a_lab_is_removed_from_are_named") {
        return;
    }
    let name = format!("left{}", std::process::id());
    assert_code(&run(&["lab", "up", &name]), 0);
    let mut sleeps = support::windhover(&["lab", "exec", &format!("{name}/b"), "--", "sleep", "60"]).spawn().unwrap();
    let namespace = std::path::PathBuf::from(format!("/run/netns/wh-{name}-b"));
    let inode = |path: &std::path::Path| std::fs::metadata(path).map(|data| std::os::unix::fs::MetadataExt::ino(&data));
    let wanted = inode(&namespace).unwrap();
    let inside = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let is_ours = |path: &std::path::Path| {
            let name = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
            inode(&path.join("ns/net")).is_ok_and(|found| found == wanted) && name.trim() == "sleep"
        };
        processes.map(|entry| entry.path()).find(|path| is_ours(path))
    };
    let begun = std::time::Instant::now();
    let mut found = inside();
    while found.is_none() && begun.elapsed().as_secs() < 20 {
        std::thread::sleep(std::time::Duration::from_millis(20));
        found = inside();
    }
    let down = run(&["lab", "down", &name]);
    sleeps.kill().unwrap();
    sleeps.wait().unwrap();
    assert_code(&down, 0);
    let (told, process) = (stderr(&down), found.unwrap());
    let pid = process.file_name().unwrap().to_str().unwrap();
    assert!(told.contains(&format!("removed the lab '{name}'")), "{told}");
    assert!(told.contains(&format!("sleep ({pid})")) && told.contains(&format!("kill {pid}")), "{told}");
    // One that is empty is removed without more words.
    assert_code(&run(&["lab", "up", &name]), 0);
    let told = stderr(&run(&["lab", "down", &name]));
    assert!(told.contains("removed the lab") && !told.contains("still running"), "{told}");
}

#[test]
fn a_damaged_record_is_named_and_removed_by_name() {
    if !support::can_make_namespaces("a_damaged_record_is_named_and_removed_by_name") {
        return;
    }
    let (name, other) = (format!("d{}", std::process::id()), format!("d{}-x", std::process::id()));
    assert_code(&run(&["lab", "up", &name]), 0);
    assert_code(&run(&["lab", "up", &other]), 0);
    let record = std::path::PathBuf::from(format!("/run/windhover/labs/{name}.json"));
    let text = std::fs::read_to_string(&record).unwrap();
    std::fs::write(&record, &text[..text.len() / 2]).unwrap();
    let kept = record.with_extension("damaged");
    let result = std::panic::catch_unwind(|| {
        for command in [&["lab", "list"][..], &["undo"]] {
            let said = stderr(&run(command));
            assert!(said.contains(&format!("windhover lab down {name}")), "{command:?}: {said}");
        }
        let (a, b) = (format!("wh-{name}-a"), format!("wh-{name}-b"));
        assert_refused(&["lab", "down", &name], 1, &["was damaged", &a, &b, &kept.display().to_string()]);
        assert!(!exists(&a) && !exists(&b) && kept.exists() && !record.exists());
        assert!(exists(&format!("wh-{other}-a")), "another lab's namespace was taken");
        assert_refused(&["lab", "down", &name], 2, &["no lab named"]);
        // The name is free again.
        assert_code(&run(&["lab", "up", &name]), 0);
        assert_code(&run(&["lab", "down", &name]), 0);
    });
    for lab in [&name, &other] {
        run(&["lab", "down", lab]);
    }
    let _ = std::fs::remove_file(&kept);
    result.unwrap();
}

/// What the removal of the package does. In a mount namespace with a /run of its own: labs of others stay.
#[test]
fn all_labs_are_removed() {
    if !support::can_make_namespaces("all_labs_are_removed") {
        return;
    }
    let script = "mount -t tmpfs tmpfs /run && \"$0\" lab up one --hosts 1 && \"$0\" lab up two && ip netns list >&2 && \
                  echo broken > /run/windhover/labs/three.json && { \"$0\" lab down --all; echo \"code $?\"; } && \
                  ip netns list && ls /run/windhover/labs";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script, env!("CARGO_BIN_EXE_windhover")]);
    let output = command.output().unwrap();
    assert_code(&output, 0);
    for netns in ["wh-one-a", "wh-two-a", "wh-two-b"] {
        assert!(stderr(&output).contains(netns), "{}", stderr(&output));
    }
    // A damaged record is set aside, which is named; it keeps no other lab.
    assert!(stdout(&output).ends_with("code 1\nthree.damaged\n"), "{}\n{}", stdout(&output), stderr(&output));
    assert!(stderr(&output).contains("the lab 'three'"), "{}", stderr(&output));
}
