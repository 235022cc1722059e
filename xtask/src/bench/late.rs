//! Who is blamed for late messages: `pace` with and without a CPU hog on the sender's CPU, under both policies, with and
//! without a compiler beside; and a far end that really stands still. What is right follows from the raw samples alone.

use super::Output;
use super::lab::Server;
use crate::files::create;
use crate::process;
use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Runs of each case, interleaved.
    #[arg(long, default_value_t = 20)]
    runs: u32,
    /// Seconds a run.
    #[arg(long, default_value_t = 2)]
    seconds: u32,
    /// Measure with this binary instead of a release build.
    #[arg(long)]
    binary: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// Messages a second, and the distance that a message may be late by.
const RATE: u32 = 1000;
const DISTANCE_NS: i64 = 1_000_000;
/// Share of late messages from which a run is invalid, in percent.
const LATE_PERCENT: f64 = 1.0;
/// How the far end stands still in the control: so long, in each period.
const STANDS: Duration = Duration::from_millis(40);
const GOES: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disturbance {
    None,
    /// A task that never sleeps, of ordinary policy, on the sender's CPU.
    Hog,
    /// The far end of a TCP connection with short buffers stands still: the path refuses messages.
    Path,
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    disturbance: Disturbance,
    policy: &'static str,
    compiles: bool,
}

/// What one run said, and what the raw samples say.
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

pub(crate) fn run(Arguments { runs, seconds, binary, output }: &Arguments) -> Result<()> {
    let windhover = match binary {
        Some(binary) => binary.canonicalize().with_context(|| binary.display().to_string())?,
        None => process::release_binary()?,
    };
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
    for round in 0..*runs {
        for compiles in [false, true] {
            let _beside = if compiles { Some(Compiler::start(&folder)?) } else { None };
            for (cell, measured) in cells.iter_mut().filter(|(cell, _)| cell.compiles == compiles) {
                measured.push(once(&windhover, &folder, *cell, *seconds).with_context(|| format!("{cell:?}"))?);
            }
        }
        eprintln!("round {} of {runs}", round + 1);
        output.write(&table(&cells, round + 1, *seconds))?;
    }
    println!("{}", table(&cells, *runs, *seconds));
    let wrong = cells.iter().flat_map(|(cell, runs)| runs.iter().filter(|run| !run.is_right(*cell))).count();
    if wrong > 0 {
        bail!("{wrong} runs blamed the wrong one");
    }
    Ok(())
}

fn once(windhover: &Path, folder: &Path, cell: Cell, seconds: u32) -> Result<Run> {
    let raw = folder.join("raw");
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
        .arg(&raw)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let _hog = match cell.disturbance {
        Disturbance::Hog => {
            let hog = Command::new("taskset").args(["-c", "0", "sh", "-c", "while :; do :; done"]).spawn();
            Some(Server(hog.context("taskset")?))
        }
        _ => None,
    };
    let child = command.spawn().context("windhover pace")?;
    let _stands = (cell.disturbance == Disturbance::Path).then(|| Standing::start(child.id()));
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
    let (late_percent, worst_ms) = lateness(&folder.join(format!("raw-{size}-{RATE}.dat")))?;
    Ok(Run {
        late_percent,
        worst_ms,
        trusted: document["verdict"]["trusted"] == true,
        blames_sender: has("generator-late"),
        blames_path: has("schedule-held-up") || has("rate-not-reached null"),
    })
}

/// Share of the messages that left more than a distance late, in percent, and the worst lateness in ms.
fn lateness(file: &Path) -> Result<(f64, f64)> {
    let text = crate::files::read(file)?;
    let late: Vec<i64> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let mut words = line.split(' ').map(str::parse::<i64>);
            let (intended, sent) = (words.next()?.ok()?, words.next()?.ok()?);
            Some(sent - intended)
        })
        .collect();
    let worst = late.iter().max().context("no raw sample")?;
    let many = late.iter().filter(|&&ns| ns > DISTANCE_NS).count();
    Ok((100.0 * many as f64 / late.len() as f64, *worst as f64 / 1e6))
}

/// Stops the child of a measurement again and again until dropped.
struct Standing(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Standing {
    fn start(parent: u32) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&ended);
        let thread = std::thread::spawn(move || {
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
        });
        Self(ended, Some(thread))
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        if let Some(thread) = self.1.take() {
            let _ = thread.join();
        }
    }
}

/// Compiles a crate again and again, in a folder of its own, until dropped.
struct Compiler(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Compiler {
    fn start(folder: &Path) -> Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&ended);
        let folder = folder.join("compiled");
        let mut first = Self::build(&folder)?;
        let thread = std::thread::spawn(move || {
            loop {
                let done = first.try_wait();
                if over.load(Ordering::Relaxed) {
                    process::end_all_below(first.id());
                    let _ = first.wait();
                    return;
                }
                if !matches!(done, Ok(None)) {
                    let _ = std::fs::remove_dir_all(&folder);
                    let Ok(next) = Self::build(&folder) else { return };
                    first = next;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Ok(Self(ended, Some(thread)))
    }

    fn build(folder: &Path) -> Result<Child> {
        let target = folder.to_string_lossy();
        let arguments = ["build", "--release", "--locked", "--package", "windhover-pgm", "--target-dir", &target];
        let mut command = process::command(&process::cargo(), &arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("cargo build")
    }
}

impl Drop for Compiler {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        if let Some(thread) = self.1.take() {
            let _ = thread.join();
        }
    }
}

fn table(cells: &[(Cell, Vec<Run>)], runs: u32, seconds: u32) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ =
        writeln!(text, "{runs} runs of {seconds} s each, {RATE} messages a second, sender on CPU 0, interleaved.\n");
    let _ = writeln!(
        text,
        "| policy | compile beside | disturbance | right | really late | `generator-late` | path blamed | trusted | worst lateness, ms |\n\
         |---|---|---|---|---|---|---|---|---|"
    );
    for (cell, runs) in cells {
        let count = |is: &dyn Fn(&Run) -> bool| runs.iter().filter(|run| is(run)).count();
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
