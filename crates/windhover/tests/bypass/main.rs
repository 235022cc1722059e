//! Programs behind `windhover bypass run`: what their calls return, what is said of them, what is refused.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "tests panic, and say what they skip"
)]

mod audit;
mod broken_capture;
mod capture;
mod changes;
mod hand_over;
mod hostile;
mod kept;
mod kills;
mod ports;
mod programs;
mod python;
mod refused;
mod servers;
mod stack;
#[path = "../support/mod.rs"]
mod support;
mod trouble;
mod wire;

use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{Folder, Server, assert_code, stderr, stdout};

/// Compiles the program of all calls.
fn calls(folder: &Folder, test: &str, flags: &[&str]) -> Option<String> {
    compile(folder, test, "calls", flags)
}

/// Compiles one of the programs beside this file.
fn compile(folder: &Folder, test: &str, name: &str, flags: &[&str]) -> Option<String> {
    let source = format!("{}/tests/bypass/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let program = folder.0.join(name).to_str().unwrap().to_owned();
    let built = Command::new("cc").args(["-O1", "-w", "-o", &program, &source, "-lpthread"]).args(flags).output();
    if !built.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED {test}: no C compiler, or none for {flags:?}");
        return None;
    }
    Some(program)
}

/// `windhover bypass run` with its state in a folder of the test.
fn bypass(state: &Folder, arguments: &[&str]) -> Command {
    let mut command = support::windhover(&[&["bypass"], arguments].concat());
    command.env("WINDHOVER_STATE", state.0.join("state"));
    command
}

/// The same, started by another program: `setpriv` takes capabilities away.
fn bypass_behind(state: &Folder, before: &[&str], arguments: &[&str]) -> Command {
    let Some((first, rest)) = before.split_first() else { return bypass(state, arguments) };
    let mut command = Command::new(first);
    command.args(rest).args([env!("CARGO_BIN_EXE_windhover"), "bypass"]).args(arguments);
    command.env("WINDHOVER_STATE", state.0.join("state"));
    command
}

/// `bypass stat --format json`.
fn stat(state: &Folder) -> Vec<Value> {
    let output = bypass(state, &["stat", "--format", "json"]).output().unwrap();
    assert_code(&output, 0);
    serde_json::from_slice::<Vec<Value>>(&output.stdout).unwrap()
}

/// Calls of a kind that had to wait, behind the library. A busy machine decides how they end.
fn waited(page: &Value, kind: &str) -> u64 {
    ["found", "slept", "not_spun"].iter().map(|how| page["calls"][kind][how].as_u64().unwrap()).sum()
}

/// A program that was started, and has said a line. It goes on when its input is closed; it is killed with the value.
struct Started(Child);

impl Started {
    fn new(command: &mut Command, line: &str) -> (Self, String) {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        while lines.read_line(&mut said).unwrap() > 0 {
            if said.lines().last() == Some(line) {
                return (Self(child), said);
            }
        }
        let errors = errors_of(&mut child);
        panic!("it never said '{line}', but ended with {:?}:\n{said}\n{errors}", child.wait());
    }

    #[track_caller]
    fn assert_alive(&mut self, what: &str) {
        if let Some(status) = self.0.try_wait().unwrap() {
            panic!("{what}: it ended with {status}:\n{}", errors_of(&mut self.0));
        }
    }

    /// Closes its input and waits.
    fn end(mut self) -> Option<i32> {
        drop(self.0.stdin.take());
        let patience = Instant::now() + Duration::from_secs(60);
        while Instant::now() < patience {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it did not end");
    }
}

fn errors_of(child: &mut Child) -> String {
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    errors
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The same budget for every kind of call, however busy the machine is.
fn budget(command: &mut Command, us: u32) -> &mut Command {
    for kind in ["RECV", "ACCEPT", "CONNECT", "POLL", "EPOLL"] {
        command.env(format!("WINDHOVER_BYPASS_{kind}_US"), us.to_string());
    }
    // On a busy machine, too.
    command.env("WINDHOVER_BYPASS_CONTENTION_US", "0")
}

fn assert_same(plain: &str, other: &str, what: &str) {
    for (at, (plain, other)) in plain.lines().zip(other.lines()).enumerate() {
        assert_eq!(plain, other, "line {} {what}", at + 1);
    }
    assert_eq!(plain.lines().count(), other.lines().count(), "{what}");
}

/// Starts again, once, where a time-out was early: those of sockets count jiffies, which lag behind the clock after the host has stalled
/// a virtual machine, and the kernel's own calls return early then.
fn timely(what: &str, start: impl Fn() -> (Started, String)) -> (Started, String) {
    let (started, said) = start();
    if !said.contains("too early") {
        return (started, said);
    }
    println!("RETRIED {what}: a time-out was early");
    started.end();
    start()
}

/// The calls that wait 20 ms end in the spin, or in the sleep behind it, or do not spin at all.
#[test]
fn every_call_returns_what_the_kernel_returns() {
    let folder = Folder::new("bypass-calls");
    let Some(program) = calls(&folder, "every_call_returns_what_the_kernel_returns", &[]) else { return };
    let (started, plain) = timely("the calls", || Started::new(&mut Command::new(&program), "done"));
    assert_eq!(started.end(), Some(23));
    assert!(plain.lines().count() > 140 && !plain.contains("too late") && !plain.contains("too early"), "{plain}");
    for us in [3_000, 5_000_000, 0] {
        let what = format!("with a budget of {us} µs");
        let (started, said) = timely(&what, || {
            let mut command = bypass(&folder, &["run", "--", &program]);
            Started::new(budget(&mut command, us), "done")
        });
        assert_same(&plain, &said, &what);
        let pages = stat(&folder);
        assert_eq!(pages.len(), 1, "{pages:?}");
        let page = &pages[0];
        assert_eq!((page["pid"].as_u64(), page["name"].as_str()), (Some(u64::from(started.0.id())), Some("calls")));
        assert_eq!(page["settings"]["recv-us"], us);
        let count = |kind: &str, what: &str| page["calls"][kind][what].as_u64().unwrap();
        let reasons = page["fall_backs"].as_array().unwrap();
        let times = |word: &str| {
            reasons.iter().find(|one| one["reason"] == word).map_or(0, |one| one["times"].as_u64().unwrap())
        };
        for kind in ["recv", "accept", "poll", "select", "epoll"] {
            // Where the budget is short, a busy machine decides how a call ends.
            let (found, slept) = (count(kind, "found"), count(kind, "slept"));
            // A call whose descriptor another thread closes goes on in the kernel.
            let closed = if kind == "recv" { times("closed") } else { 0 };
            match us {
                0 => assert_eq!((found, slept), (0, 0), "{kind}: {page}"),
                3_000 => assert!(slept > 0, "{kind}: {page}"),
                _ => assert!(found > 0 && slept == closed, "{kind}: {page}"),
            }
        }
        assert!(us > 0 || count("recv", "not_spun") > 10, "{page}");
        for (what, times) in [
            ("timed_out", count("recv", "timed_out")),
            ("interrupted", count("recv", "interrupted")),
            ("closed", times("closed")),
        ] {
            assert!(if us == 5_000_000 { times > 0 } else { us > 0 || times == 0 }, "{what}: {page}");
        }
        for reason in ["non-blocking", "partial-receive", "timeout"] {
            assert!(times(reason) > 0, "{reason}: {page}");
        }
        // Of its sockets one is open still.
        let sockets = page["sockets"].as_array().unwrap();
        assert_eq!(sockets.len(), 1, "{page}");
        assert_eq!((&sockets[0]["protocol"], &sockets[0]["backend"]), (&"udp".into(), &"spin".into()));
        assert!(sockets[0]["local"].as_str().unwrap().starts_with("127.0.0.1:"), "{page}");
        let text = stdout(&bypass(&folder, &["stat", "calls"]).output().unwrap());
        let by_number = bypass(&folder, &["stat", &started.0.id().to_string()]).output().unwrap();
        assert!(stdout(&by_number).starts_with("calls (process"), "{}", stderr(&by_number));
        assert!(
            text.contains("calls (process") && text.contains("127.0.0.1:") && text.contains("non-blocking"),
            "{text}"
        );
        assert_eq!(started.end(), Some(23));
        assert!(stat(&folder).is_empty(), "a page stayed");
    }
}

#[test]
fn what_cannot_be_accelerated_runs_on_the_kernel_or_not_at_all() {
    let folder = Folder::new("bypass-refused");
    let test = "what_cannot_be_accelerated_runs_on_the_kernel_or_not_at_all";
    let Some(program) = calls(&folder, test, &["-static"]) else { return };
    let wrong = folder.file("wrong.toml", "recv_us = 3\n");
    let set_id = folder.0.join("set-id").to_str().unwrap().to_owned();
    std::fs::copy("/bin/echo", &set_id).unwrap();
    let is_root = std::os::unix::fs::chown(&set_id, Some(1), None).is_ok();
    std::fs::set_permissions(&set_id, std::fs::Permissions::from_mode(0o4755)).unwrap();
    for (arguments, variable, words) in [
        (&["run", &program, "partial"][..], None, "statically linked"),
        (&["run", &set_id, "after"], None, "is set-user-ID or set-group-ID, so the loader ignores the library"),
        (&["run", "--profile", "nosuch", "echo", "after"], None, "no profile 'nosuch': the built-in ones are latency"),
        (&["run", "--profile", &wrong, "echo", "after"], None, "did you mean 'recv-us'?"),
        (&["run", "echo", "after"], Some(("WINDHOVER_BYPASS_RECV_US", "x")), "WINDHOVER_BYPASS_RECV_US"),
    ] {
        if arguments[1] == set_id && !is_root {
            eprintln!("PARTLY {test}: set-user-ID: only root gives a file to another user");
            continue;
        }
        let output = bypass(&folder, arguments).envs(variable).output().unwrap();
        assert_code(&output, 0);
        assert!(stdout(&output).ends_with("after\n"), "{arguments:?}");
        let text = stderr(&output);
        assert_eq!(text.trim_end().lines().count(), 1, "not one line: {text}");
        for words in [words, "not accelerated, because", "runs on the kernel"] {
            assert!(text.contains(words), "'{words}' is not in: {text}");
        }
        let required = [&["run", "--require"], &arguments[1..]].concat();
        let output = bypass(&folder, &required).envs(variable).output().unwrap();
        assert_code(&output, 125);
        assert!(stdout(&output).is_empty() && stderr(&output).contains(words), "{}", stderr(&output));
        assert_eq!(stderr(&output).trim_end().lines().count(), 1);
    }
    for (arguments, code, words) in [
        (
            &["run", "--stack", "xdp", "--require", "--interface", "nosuch0", "true"][..],
            125,
            "'nosuch0' does not exist",
        ),
        (&["run", "--stack", "xdp", "--interface", "nosuch0", "false"], 1, "calls spin on the kernel's sockets"),
        (&["run", "--stack", "auto", "--interface", "lo0/../x", "true"], 0, "calls spin on the kernel's sockets"),
        (&["run", "--backend", "generic", "true"], 125, "--stack xdp"),
        (&["run"], 125, "PROGRAM"),
        (&["run", "/no/such/program"], 127, "cannot run"),
        (&["run", "/etc/passwd"], 126, "cannot run"),
        (&["profiles", "nosuch"], 2, "no profile"),
        (&["stat", "4194305"], 1, "process 4194305"),
        (&["stat", "nosuch"], 1, "'nosuch' does not run behind"),
    ] {
        let output = bypass(&folder, arguments).output().unwrap();
        assert_code(&output, code);
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
}

#[test]
fn a_socket_that_cannot_be_accelerated_ends_a_program_that_requires_it() {
    let folder = Folder::new("bypass-require");
    let test = "a_socket_that_cannot_be_accelerated_ends_a_program_that_requires_it";
    let Some(program) = calls(&folder, test, &[]) else { return };
    let output = bypass(&folder, &["run", &program, "partial"]).output().unwrap();
    assert_code(&output, 0);
    assert_eq!(stdout(&output), "before\nafter\n");
    let output = bypass(&folder, &["run", "--require", &program, "partial"]).output().unwrap();
    assert_code(&output, 125);
    assert_eq!(stdout(&output), "before\n");
    assert!(stderr(&output).contains("SO_RCVLOWAT") && stderr(&output).lines().count() == 1, "{}", stderr(&output));
}

/// Catches: a system call of the library that the filter of a sandbox ends the program for; a program that only gives up rights
/// (haproxy), and is not accelerated for it.
#[test]
fn a_sandbox_goes_on() {
    let folder = Folder::new("bypass-sandbox");
    let Some(program) = compile(&folder, "a_sandbox_goes_on", "direct", &[]) else { return };
    for (how, is_left) in [("sandbox", true), ("seccomp", true), ("privileges", false)] {
        let plain = Command::new(&program).arg(how).output().unwrap();
        if plain.status.code() == Some(5) {
            eprintln!("SKIPPED a_sandbox_goes_on: this machine has no seccomp filters");
            return;
        }
        assert_code(&plain, 7);
        assert_code(&bypass(&folder, &["run", &program, how]).output().unwrap(), 7);
        let required = bypass(&folder, &["run", "--require", &program, how]).output().unwrap();
        assert_code(&required, if is_left { 125 } else { 7 });
        assert_eq!(stderr(&required).contains("(seccomp)"), is_left, "{how}: {}", stderr(&required));
    }
}

#[test]
fn the_program_is_what_it_is_without() {
    let folder = Folder::new("bypass-program");
    let run = |arguments: &[&str]| bypass(&folder, &[&["run", "--"], arguments].concat()).output().unwrap();
    assert_code(&run(&["sh", "-c", "exit 7"]), 7);
    assert_eq!(stdout(&run(&["echo", "--verbose", "x"])), "--verbose x\n");
    let killed = run(&["sh", "-c", "kill -9 $$"]);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&killed.status), Some(9), "it is the process itself");
    let verbose = bypass(&folder, &["run", "-v", "--profile", "safe", "true"])
        .env("WINDHOVER_BYPASS_POLL_US", "7")
        .output()
        .unwrap();
    assert_code(&verbose, 0);
    let row = |name: &str| {
        let line = stderr(&verbose).lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("poll-us"), "poll-us 7 µs WINDHOVER_BYPASS_POLL_US");
    assert_eq!(row("recv-us"), "recv-us 50 µs profile safe");
    // Another library that was preloaded stays, behind this one.
    let both =
        bypass(&folder, &["run", "sh", "-c", "echo $LD_PRELOAD"]).env("LD_PRELOAD", "libdl.so.2").output().unwrap();
    let preload = stdout(&both);
    let (first, second) = preload.trim_end().split_once(':').unwrap();
    assert!(first.contains("/state/bypass/libwindhover-shim-") && second == "libdl.so.2", "{preload}");
    assert!(Path::new(first).is_file());
}

#[test]
fn the_page_of_a_killed_program_is_removed() {
    let folder = Folder::new("bypass-killed");
    let Some(program) = calls(&folder, "the_page_of_a_killed_program_is_removed", &[]) else { return };
    let (mut started, _) = Started::new(&mut bypass(&folder, &["run", &program, "trickle", "10"]), "trickled");
    let page = folder.0.join("state/bypass").join(started.0.id().to_string());
    assert!(page.is_file());
    assert_eq!(stat(&folder).len(), 1);
    started.0.kill().unwrap();
    started.0.wait().unwrap();
    assert!(page.is_file(), "nobody could remove it");
    assert!(stat(&folder).is_empty());
    assert!(!page.exists());
}

/// RLIMIT_RTTIME ends a real-time thread that spins for ever, so the library lets it sleep now and then.
#[test]
fn a_real_time_program_that_spins_is_not_ended_by_its_limit() {
    let folder = Folder::new("bypass-fifo");
    let test = "a_real_time_program_that_spins_is_not_ended_by_its_limit";
    let Some(program) = calls(&folder, test, &[]) else { return };
    let windhover = env!("CARGO_BIN_EXE_windhover");
    let limited = ["run", "-s", "fifo", "--rt-limit", "0.4"];
    if !support::windhover(&[&limited[..], &["true"]].concat()).status().unwrap().success() {
        eprintln!("SKIPPED {test}: real-time policies are not permitted");
        return;
    }
    let arguments =
        [&limited[..], &[windhover, "bypass", "run", "-p", "latency-best", &program, "trickle", "1500"]].concat();
    let mut command = support::windhover(&arguments);
    command.env("WINDHOVER_STATE", folder.0.join("state"));
    let (started, _) = Started::new(&mut command, "trickled");
    let page = stat(&folder).remove(0);
    let reasons = page["fall_backs"].as_array().unwrap();
    assert!(reasons.iter().any(|one| one["reason"] == "cpu-limit"), "{page}");
    // It slept because it had to, not because its budget was used up.
    assert!(page["calls"]["recv"]["slept"].as_u64().unwrap() < 30, "{page}");
    assert!(page["calls"]["recv"]["found"].as_u64().unwrap() > 300, "{page}");
    assert_eq!(started.end(), Some(0));
}

/// Windhover itself is the first program behind it.
#[test]
fn pingpong_runs_behind_it_at_both_ends() {
    let folder = Folder::new("bypass-pingpong");
    // What `bypass run` gives a program.
    let variables = stdout(&bypass(&folder, &["run", "env"]).output().unwrap());
    let variables: Vec<(&str, &str)> = variables.lines().filter_map(|line| line.split_once('=')).collect();
    let preload = variables.iter().find(|(name, _)| *name == "LD_PRELOAD").unwrap().1;
    let server = Server::start_with(&[], &variables);
    for (protocol, receive) in
        [("udp", "block"), ("tcp", "block"), ("udp", "poll"), ("tcp", "epoll"), ("udp", "select")]
    {
        let output = bypass(
            &folder,
            &[
                "run",
                "--require",
                env!("CARGO_BIN_EXE_windhover"),
                "pingpong",
                protocol,
                &server.address,
                "--count",
                "2000",
                "--receive",
                receive,
                "--remote-receive",
                receive,
                "--format",
                "json",
            ],
        )
        .output()
        .unwrap();
        support::assert_measured(&output);
        let document = support::documents(&output).remove(0);
        for end in ["initiator", "reflector"] {
            assert_eq!(document["ends"][end]["preloads"][0]["library"], preload, "{document}");
            assert_eq!(document["ends"][end]["preloads"][0]["loaded"], true, "{document}");
        }
        let served = stat(&folder).remove(0);
        assert_eq!(served["pid"], server.id());
        let kind = if receive == "block" { "recv" } else { receive };
        assert!(waited(&served, kind) > 0, "{protocol} {receive}: {served}");
    }
}

/// A plan names built-in stacks without a definition. Sockets that stay with the kernel are not what such a cell claims.
#[test]
fn a_plans_stack_carries_its_data_sockets_or_the_cell_is_invalid() {
    let folder = Folder::new("bypass-plan");
    let plan = folder.file(
        "plan.toml",
        "name = \"t\"\nrepetitions = 1\n[lab]\nkind = \"loopback\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n\
         [measure]\nseconds = 0.2\n[[grid]]\nprotocol = [\"udp\", \"tcp\"]\nstack = [\"kernel\", \"spin\"]\n\
         [[grid]]\nprobe = [\"rr\", \"stream\"]\nstack = [\"spin\"]\nprotocol = [\"tcp\"]\n\
         [[grid]]\nstack = [\"xdp\"]\n",
    );
    let mut command = support::windhover(&["campaign", "run", &plan, "--output", folder.path()]);
    // No interface is touched.
    command.env("WINDHOVER_STATE", folder.0.join("state")).env("WINDHOVER_BYPASS_XDP", "0");
    assert_code(&command.output().unwrap(), 4);
    let run = support::run_directory(&folder.0);
    let text = stdout(&support::run(&["report", run.to_str().unwrap(), "--format", "json"]));
    let documents: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(documents.len(), 7, "{text}");
    for document in &documents {
        let stack = &document["factors"]["stack"];
        let invalid = document["verdict"]["invalid"].as_array().unwrap();
        let not_claimed: Vec<&Value> = invalid.iter().filter(|one| one["id"] == "path-not-as-claimed").collect();
        if stack == "xdp" {
            assert_eq!(not_claimed.len(), 2, "one an end: {document}");
            let detail = not_claimed[0]["detail"].as_str().unwrap();
            assert!(detail.contains("claims the stack xdp, and spin carried 1 of 1 data sockets"), "{detail}");
            continue;
        }
        assert!(not_claimed.is_empty(), "{document}");
        for end in ["initiator", "reflector"] {
            let carried = &document["ends"][end]["carried"];
            if stack == "kernel" {
                assert!(carried.is_null(), "{document}");
            } else {
                let sockets = carried.as_array().unwrap();
                assert!(sockets.len() == 1 && sockets[0]["by"] == "spin" && sockets[0]["sockets"] == 1, "{document}");
            }
        }
    }
}
