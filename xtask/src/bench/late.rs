//! Who is blamed for late messages: `pace` with and without a CPU hog on the sender's CPU, under both policies, with and
//! without a compiler beside; and a far end that is really stopped. What is right follows from the raw samples alone.

use super::{Options, raw};
use crate::files::create;
use crate::process::{self, Killed};
use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

pub(crate) type Arguments = Options<20, 2>;

/// Messages a second, and the distance that a message may be late by.
const RATE: u32 = 1000;
const DISTANCE_NS: f64 = 1e6;
/// Share of late messages from which a run is invalid, in percent.
const LATE_PERCENT: f64 = 1.0;
/// For how long the far end is stopped in the control, in each period.
const STANDS: Duration = Duration::from_millis(40);
const GOES: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disturbance {
    None,
    /// A task that never sleeps, of ordinary policy, on the sender's CPU.
    Hog,
    /// The far end of a TCP connection with short buffers is stopped: the path refuses messages.
    Path,
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    disturbance: Disturbance,
    policy: &'static str,
    compiles: bool,
}

/// The verdict of one run, and what its raw samples show.
struct Run {
    late_percent: f64,
    worst_ms: f64,
    trusted: bool,
    blames_sender: bool,
    blames_path: bool,
}

impl Run {
    fn is_right(&self, cell: Cell) -> bool {
        let late = self.late_percent > LATE_PERCENT;
        match cell.disturbance {
            Disturbance::Path => late && self.blames_path && !self.blames_sender,
            // Nothing on this way ever refuses a message.
            _ if late => self.blames_sender && !self.blames_path && !self.trusted,
            _ => !self.blames_sender && !self.blames_path,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let (windhover, runs, seconds) = (arguments.binary()?, arguments.rounds, arguments.seconds);
    let folder = process::target().join("bench-late");
    create(&folder)?;
    let mut cells: Vec<(Cell, Vec<Run>)> = Vec::new();
    for policy in ["other", "fifo:1"] {
        for compiles in [false, true] {
            for disturbance in [Disturbance::None, Disturbance::Hog] {
                cells.push((Cell { disturbance, policy, compiles }, Vec::new()));
            }
        }
    }
    // In real-time policy alone: else the sender may be late by its own doing too, which samples cannot tell apart.
    cells.push((Cell { disturbance: Disturbance::Path, policy: "fifo:1", compiles: false }, Vec::new()));
    for round in 0..runs {
        for compiles in [false, true] {
            let _beside = if compiles { Some(compiler(&folder.join("compiled"))?) } else { None };
            for (cell, measured) in cells.iter_mut().filter(|(cell, _)| cell.compiles == compiles) {
                measured.push(once(&windhover, &folder, *cell, seconds).with_context(|| format!("{cell:?}"))?);
            }
        }
        eprintln!("round {} of {runs}", round + 1);
        arguments.output.write(&table(&cells, round + 1, seconds))?;
    }
    println!("{}", table(&cells, runs, seconds));
    let wrong = cells.iter().flat_map(|(cell, runs)| runs.iter().filter(|run| !run.is_right(*cell))).count();
    if wrong > 0 {
        bail!("{wrong} runs blamed the wrong one");
    }
    Ok(())
}

fn once(windhover: &Path, folder: &Path, cell: Cell, seconds: u32) -> Result<Run> {
    let (rate, seconds) = (RATE.to_string(), seconds.to_string());
    let mut command = Command::new(windhover);
    let (protocol, size) = if cell.disturbance == Disturbance::Path { ("tcp", "1400") } else { ("udp", "32") };
    command.args(["--quiet", "pace", protocol, "--fork-both", "--size", size]);
    if cell.disturbance == Disturbance::Path {
        command.args(["--send-buffer", "4608", "--receive-buffer", "2304"]);
    }
    command
        .args(["--rate", &rate, "--seconds", &seconds, "--cpu", "0", "--policy", cell.policy, "--format", "json"])
        .args(["--count", "1000000"])
        .arg("--raw")
        .arg(folder.join("raw"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let _hog = match cell.disturbance {
        Disturbance::Hog => {
            let hog = Command::new("taskset").args(["-c", "0", "sh", "-c", "while :; do :; done"]).spawn();
            Some(Killed(hog.context("taskset")?))
        }
        _ => None,
    };
    let child = command.spawn().context("windhover pace")?;
    let _stands = (cell.disturbance == Disturbance::Path).then(|| standing(child.id()));
    let output = child.wait_with_output().context("windhover pace")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let document: serde_json::Value = serde_json::from_str(text.trim())
        .with_context(|| format!("result document: {}", String::from_utf8_lossy(&output.stderr)))?;
    let findings: Vec<String> = ["invalid", "disturbed"]
        .iter()
        .filter_map(|list| document["verdict"][*list].as_array())
        .flatten()
        .map(|finding| format!("{} {}", finding["id"].as_str().unwrap_or_default(), finding["end"]))
        .collect();
    let has = |id: &str| findings.iter().any(|finding| finding.starts_with(id));
    let messages = raw::read(&folder.join(format!("raw-{size}-{RATE}.dat")))?;
    let late: Vec<f64> = messages.iter().map(|one| one.sent - one.intended).collect();
    let worst_ns = late.iter().copied().reduce(f64::max).context("no raw sample")?;
    let many = late.iter().filter(|&&ns| ns > DISTANCE_NS).count();
    Ok(Run {
        late_percent: 100.0 * many as f64 / late.len() as f64,
        worst_ms: worst_ns / 1e6,
        trusted: document["verdict"]["trusted"] == true,
        blames_sender: has("generator-late"),
        blames_path: has("schedule-held-up") || has("rate-not-reached null"),
    })
}

/// Work on a thread of its own that is ended, and waited for, when this is dropped.
struct Background(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Background {
    fn start(work: impl FnOnce(&AtomicBool) + Send + 'static) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&ended);
        Self(ended, Some(std::thread::spawn(move || work(&over))))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let _ = self.1.take().map(JoinHandle::join);
    }
}

/// Stops the child of a measurement again and again.
fn standing(parent: u32) -> Background {
    Background::start(move |over| {
        while !over.load(Ordering::Relaxed) {
            std::thread::sleep(GOES);
            for child in process::children(parent) {
                let child = Pid::from_raw(i32::try_from(child).unwrap_or(0));
                if kill(child, Signal::SIGSTOP).is_ok() {
                    std::thread::sleep(STANDS);
                    let _ = kill(child, Signal::SIGCONT);
                }
            }
        }
    })
}

/// Compiles a crate again and again, in a folder of its own.
fn compiler(folder: &Path) -> Result<Background> {
    let folder = folder.to_owned();
    let mut build = compile(&folder)?;
    Ok(Background::start(move |over| {
        while !over.load(Ordering::Relaxed) {
            if !matches!(build.try_wait(), Ok(None)) {
                let _ = std::fs::remove_dir_all(&folder);
                let Ok(next) = compile(&folder) else { return };
                build = next;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        process::end_all_below(build.id());
        let _ = build.wait();
    }))
}

fn compile(folder: &Path) -> Result<Child> {
    let target = folder.to_string_lossy();
    let arguments = ["build", "--release", "--locked", "--package", "windhover-pgm", "--target-dir", &target];
    let mut command = process::command(&process::cargo(), &arguments);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("cargo build")
}

fn table(cells: &[(Cell, Vec<Run>)], runs: u32, seconds: u32) -> String {
    let mut text = format!(
        "{runs} runs of {seconds} s each, {RATE} messages a second, sender on CPU 0, interleaved.\n\n\
         | policy | compile beside | disturbance | right | really late | `generator-late` | path blamed | trusted | worst lateness, ms |\n\
         |---|---|---|---|---|---|---|---|---|\n"
    );
    for (cell, runs) in cells {
        let count = |is: &dyn Fn(&Run) -> bool| runs.iter().filter(|run| is(run)).count();
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} of {} | {} | {} | {} | {} | {:.1} |",
            cell.policy,
            if cell.compiles { "yes" } else { "no" },
            match cell.disturbance {
                Disturbance::None => "none",
                Disturbance::Hog => "CPU hog",
                Disturbance::Path => "far end stands still",
            },
            count(&|run| run.is_right(*cell)),
            runs.len(),
            count(&|run| run.late_percent > LATE_PERCENT),
            count(&|run| run.blames_sender),
            count(&|run| run.blames_path),
            count(&|run| run.trusted),
            runs.iter().map(|run| run.worst_ms).fold(0.0, f64::max),
        );
    }
    text
}
