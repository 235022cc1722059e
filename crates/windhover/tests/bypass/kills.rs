//! Programs behind `--stack xdp` that are killed at any moment leave nothing, and the next one starts.
//!
//! `cargo xtask test --bypass --kills 200` kills so many; ten are among the normal tests.

use super::stack::serve;
use super::support::{Folder, assert_code};
use super::wire::{FAR, Network, REACHED, has_program};
use super::{bypass, stat};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// What the kernel may take to clear up behind a process that it killed.
const PATIENCE: Duration = Duration::from_secs(60);

/// What runs when the kill comes.
#[derive(Debug, Clone, Copy)]
struct Case {
    /// Word of `flows.c`.
    mode: &'static str,
    /// One a program.
    backends: &'static [&'static str],
}

const CASES: [Case; 6] = [
    Case { mode: "phases", backends: &["generic"] },
    Case { mode: "phases", backends: &["native"] },
    Case { mode: "phases", backends: &["packet"] },
    // AF_XDP gives the queue to one process.
    Case { mode: "phases", backends: &["generic", "packet"] },
    Case { mode: "fork", backends: &["generic"] },
    Case { mode: "fork", backends: &["generic", "packet"] },
];

/// The words that `flows.c` says when a phase begins; before the first the library is loaded.
const PHASES: [&str; 3] = ["attach", "transfer", "close"];

/// A program, and the phases that it has begun.
struct Program {
    child: Child,
    said: Receiver<String>,
}

impl Program {
    /// In a process group of its own.
    fn new(mut command: Command) -> Self {
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (tell, said) = channel();
        let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        std::thread::spawn(move || lines.map_while(Result::ok).all(|line| tell.send(line).is_ok()));
        Self { child, said }
    }

    fn group(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    /// Waits until it begins a phase.
    fn wait_for(&mut self, phase: &str) {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            match self.said.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(word) if word == phase => return,
                Ok(_) => {}
                Err(_) => {
                    let _ = self.child.kill();
                    let mut errors = String::new();
                    let _ = self.child.stderr.take().unwrap().read_to_string(&mut errors);
                    panic!("it never came to '{phase}': {errors}");
                }
            }
        }
    }

    /// Kills it, not what it forked; the phase that it was in.
    fn kill(&mut self) -> String {
        let _ = kill(self.group(), Signal::SIGKILL);
        self.child.wait().unwrap();
        // A forked child holds the pipe: what is in it was said before.
        std::thread::sleep(Duration::from_millis(2));
        self.said.try_iter().last().unwrap_or_default()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = killpg(self.group(), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

/// eBPF objects of this machine that no process has open: `map_id 12`.
fn objects(program: &str) -> BTreeSet<String> {
    let output = Command::new(program).args([FAR[0], "objects"]).output().unwrap();
    assert_code(&output, 0);
    let mut found: BTreeSet<String> = super::support::stdout(&output).lines().map(str::to_owned).collect();
    for folder in std::fs::read_dir("/proc").unwrap().flatten() {
        for file in std::fs::read_dir(folder.path().join("fdinfo")).into_iter().flatten().flatten() {
            for line in std::fs::read_to_string(file.path()).unwrap_or_default().lines() {
                if let Some((name, number)) = line.split_once(":\t") {
                    found.remove(&format!("{name} {number}"));
                }
            }
        }
    }
    found
}

/// Connections and listeners of this namespace to the port of `flows.c`.
fn sockets() -> Vec<String> {
    let tables = ["tcp", "tcp6"].map(|name| std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap());
    // 7004 is 1B5C. 06 is TIME-WAIT: a connection that was over.
    let lines = tables.iter().flat_map(|table| table.lines());
    let lines = lines.filter(|line| line.contains(":1B5C ") && !line.contains(" 06 "));
    // Its two addresses: other columns change.
    lines.map(|line| line.split_whitespace().skip(1).take(2).collect::<Vec<_>>().join(" to ")).collect()
}

/// Pages and files of programs that are gone.
fn files(folder: &Folder) -> Vec<String> {
    let mut found: Vec<String> = stat(folder).iter().map(|page| format!("page {}", page["pid"])).collect();
    let files = std::fs::read_dir(folder.0.join("state/bypass")).into_iter().flatten().flatten();
    let names = files.map(|file| file.file_name().into_string().unwrap());
    found.extend(names.filter(|name| !name.starts_with("libwindhover-shim-")).map(|name| format!("file {name}")));
    found
}

/// What the stack of a killed program has left in the kernel. Sockets apart: a forked child has the connection, too, which is the
/// kernel's by then.
fn in_kernel(program: &str, before: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    found.extend(has_program().then(|| "an XDP program is attached".to_owned()));
    found.extend(objects(program).difference(before).cloned());
    found
}

/// What is left once there was time to clear up: what each look found. Other tests come and go meanwhile.
fn after_a_while(look: impl Fn() -> Vec<String>) -> Vec<String> {
    let end = Instant::now() + PATIENCE;
    let mut left = look();
    while !left.is_empty() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
        let found = look();
        left.retain(|one| found.contains(one));
    }
    left
}

/// A number below another, from a seed that moves on.
fn below(seed: &mut u64, most: u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % most
}

/// Catches: a program that is said to be on the stack and is not, and figures that do not move.
#[test]
fn a_program_on_the_stack_is_shown_as_such() {
    let test = "a_program_on_the_stack_is_shown_as_such";
    let folder = Folder::new("bypass-stack-shown");
    let Some(program) = super::compile(&folder, test, "flows", &[]) else { return };
    let Some(network) = Network::new(test, false) else { return };
    network.far.run(serve);
    network.near.run(move || {
        for (round, backend) in ["generic", "native", "packet"].into_iter().enumerate() {
            let far = REACHED[round % 2];
            let arguments = ["run", "--stack", "xdp", "--backend", backend, "--require", "--", &program, far, "phases"];
            let mut started = Program::new(bypass(&folder, &arguments));
            started.wait_for("transfer");
            assert_eq!(has_program(), backend != "packet", "{backend}");
            let end = Instant::now() + Duration::from_secs(60);
            let is_shown = |page: &Value| {
                page["carrier"]["sent"].as_u64().is_some_and(|sent| sent > 1000)
                    && page["sockets"].as_array().is_some_and(|sockets| {
                        sockets.iter().any(|one| {
                            let remote = one["remote"].as_str().unwrap_or_default();
                            (&one["backend"], &one["protocol"], &one["state"])
                                == (&"xdp".into(), &"tcp".into(), &"established".into())
                                && remote.contains(far)
                                && remote.ends_with(":7004")
                        })
                    })
            };
            let mut page = Value::Null;
            while !is_shown(&page) {
                assert!(Instant::now() < end, "{backend}: {page}");
                page = stat(&folder).remove(0);
            }
            // The program has TCP sockets only: others would be the library's own.
            assert!(!page["fall_backs"].to_string().contains("other-socket"), "{backend}: {page}");
        }
    });
}

/// Catches: an XDP program, map, link, socket or file that stays behind, and a queue that the next one does not get.
#[test]
fn a_killed_program_leaves_nothing() {
    let test = "a_killed_program_leaves_nothing";
    let folder = Folder::new("bypass-stack-killed");
    let Some(program) = super::compile(&folder, test, "flows", &[]) else { return };
    let kills: usize = std::env::var("WINDHOVER_TEST_KILLS").map_or(10, |kills| kills.parse().unwrap());
    let Some(network) = Network::new(test, false) else { return };
    network.far.run(serve);
    network.near.run(move || {
        let (before, mut seed) = (objects(&program), 1);
        let mut phases: BTreeMap<String, usize> = BTreeMap::new();
        let mut done = 0;
        while done < kills {
            let case = CASES[usize::try_from(below(&mut seed, CASES.len() as u64)).unwrap()];
            let far = REACHED[done % 2];
            let start = |backend: &&str| {
                let stack = ["run", "--stack", "xdp", "--backend", backend, "--require"];
                let program = ["--", &program, far, case.mode];
                Program::new(bypass(&folder, &[&stack[..], &program[..]].concat()))
            };
            let mut programs: Vec<Program> = case.backends.iter().map(start).collect();
            // From nowhere at all to some connections later.
            let target = below(&mut seed, 4);
            let [phase, wait_us] = match target {
                0 => [0, below(&mut seed, 60_000)],
                phase => [phase, below(&mut seed, [20_000, 3000, 500][usize::try_from(phase).unwrap() - 1])],
            };
            if let Some(phase) = usize::try_from(phase).unwrap().checked_sub(1) {
                programs.iter_mut().for_each(|one| one.wait_for(PHASES[phase]));
            }
            std::thread::sleep(Duration::from_micros(wait_us));
            for one in &mut programs {
                let last = one.kill();
                let of_phase = phase.checked_sub(1).map_or("", |at| PHASES[usize::try_from(at).unwrap()]);
                let last = if last.is_empty() { of_phase.to_owned() } else { last };
                let word = if last.is_empty() { "start" } else { &last };
                *phases.entry(format!("{word} ({})", case.mode)).or_default() += 1;
                done += 1;
            }
            // Forked children live on: the stack was their parent's.
            let mut left = after_a_while(|| in_kernel(&program, &before));
            drop(programs);
            left.extend(after_a_while(|| [sockets(), files(&folder)].concat()));
            assert!(left.is_empty(), "after {done} kills, {case:?} in {phases:?}: {left:#?}");
        }
        let again = bypass(&folder, &["run", "--stack", "xdp", "--require", "--", &program, FAR[0], "give"])
            .stdin(Stdio::null())
            .output();
        assert_code(&again.unwrap(), 0);
        assert_eq!(
            after_a_while(|| [in_kernel(&program, &before), sockets(), files(&folder)].concat()),
            Vec::<String>::new()
        );
        println!("\nBYPASS kills: {done} processes killed, by phase {phases:?}: nothing left, and the next one starts");
    });
}
