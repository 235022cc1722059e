//! `windhover load`.
//!
//! The load itself runs in a worker that is the first process of its own pid namespace, so that all it started ends
//! with it, also when this process is killed.

use super::{identity, signals};
use crate::cli::serve::LoadCommand;
use crate::output::{Failure, Output};
use anyhow::{Context as _, anyhow};
use model::worker::WorkerEvent;
use model::{LoadReport, WorkerSpec};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub(crate) fn run(arguments: &LoadCommand, output: &Output) -> Result<u8, Failure> {
    let stop = signals::stop_flag()?;
    let spec = WorkerSpec::Load(arguments.spec());
    let mut child = task::Launch::new(identity::executable()?)
        .arg("worker")
        .stdin(task::Stream::Pipe)
        .stdout(task::Stream::Pipe)
        .die_with_parent()
        .pid_namespace()
        .start()?;
    let mut stdin = child.take_stdin().context("the load's worker has no input")?;
    let stdout = child.take_stdout().context("the load's worker has no output")?;
    writeln!(stdin, "{}", serde_json::to_string(&spec)?).context("the load's worker does not listen")?;
    let mut events = BufReader::new(stdout).lines();
    let mut next = || -> Result<WorkerEvent, Failure> {
        for line in events.by_ref() {
            if let Some(event) = WorkerEvent::from_line(&line.context("the load's worker")?)? {
                return Ok(event);
            }
        }
        Err(Failure::from(anyhow!("the load's worker ended without a report")))
    };
    match next()? {
        WorkerEvent::Ready { .. } => {}
        WorkerEvent::Failed { code, message } => return Err(Failure::new(code, anyhow!(message))),
        _ => return Err(Failure::from(anyhow!("the load's worker said something unexpected"))),
    }
    let wanted = arguments.seconds.map(Duration::from_secs_f64);
    output.note(format_args!(
        "{} load runs{}",
        arguments.profile,
        if wanted.is_some() { String::new() } else { "; Ctrl-C ends it".to_owned() }
    ));
    let began = Instant::now();
    while !stop.load(Ordering::Relaxed) && wanted.is_none_or(|wanted| began.elapsed() < wanted) {
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(stdin);
    match next()? {
        WorkerEvent::Load(report) => output.result(&text(&report, arguments.json)?)?,
        WorkerEvent::Failed { code, message } => return Err(Failure::new(code, anyhow!(message))),
        _ => return Err(Failure::from(anyhow!("the load's worker said something unexpected"))),
    }
    child.wait()?;
    Ok(0)
}

fn text(report: &LoadReport, json: bool) -> Result<String, Failure> {
    if json {
        return Ok(format!("{}\n", serde_json::to_string(report)?));
    }
    let mut text = String::new();
    let seconds = |ns: u64| ns as f64 / 1e9;
    let _ = writeln!(text, "load          {} ({:.1} s)", report.spec.profile, seconds(report.elapsed_ns));
    let _ = writeln!(text, "work done     {}", report.work);
    let _ = writeln!(text, "CPU busy      {:.1} % of the CPUs it may use", report.busy_percent);
    let cv = report.work_cv.map_or_else(|| "unknown (it ran too short)".to_owned(), |cv| format!("{cv:.3}"));
    let _ = writeln!(text, "evenness      {cv} (coefficient of variation of work per 100 ms; 0 is perfectly even)");
    let word = if report.steady { "" } else { " (not steady by then)" };
    let _ = writeln!(text, "steady after  {:.2} s{word}", seconds(report.steady_after_ns));
    Ok(text)
}
