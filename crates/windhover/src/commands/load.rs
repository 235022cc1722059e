//! `windhover load`. The load runs in a worker that is the first process of its own PID namespace, so that its children
//! end with it, also when this process is killed.

use super::child::Worker;
use super::signals;
use crate::cli::serve::LoadCommand;
use crate::output::{Failure, Output, paragraph};
use anyhow::anyhow;
use model::worker::WorkerEvent;
use model::{LoadReport, WorkerSpec};
use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const LOOK: Duration = Duration::from_millis(20);

pub(crate) fn run(arguments: &LoadCommand, output: &Output) -> Result<u8, Failure> {
    let stop = signals::stop_flag()?;
    // Its own pid namespace, so that all it starts ends with it.
    let spec = WorkerSpec::Load(arguments.spec());
    let mut worker = Worker::start(None, "load", &spec, task::Launch::pid_namespace)?;
    loop {
        // Asked to end while it becomes steady, it reports how far it came.
        if stop.load(Ordering::Relaxed) {
            worker.ask_to_end();
        }
        match worker.hear(LOOK)? {
            None => {}
            Some(WorkerEvent::Ready { .. }) => break,
            Some(_) => return Err(unexpected()),
        }
    }
    let wanted = arguments.seconds;
    output.note(format_args!(
        "{} load runs{}",
        arguments.profile,
        if wanted.is_some() { String::new() } else { "; Ctrl-C ends it".to_owned() }
    ));
    let began = Instant::now();
    while !stop.load(Ordering::Relaxed) && wanted.is_none_or(|wanted| began.elapsed() < wanted) {
        std::thread::sleep(LOOK);
    }
    worker.ask_to_end();
    loop {
        match worker.hear(LOOK)? {
            None => {}
            Some(WorkerEvent::Load(report)) => {
                output.result(&text(&report, arguments.form.is_json())?)?;
                return Ok(0);
            }
            Some(_) => return Err(unexpected()),
        }
    }
}

fn unexpected() -> Failure {
    Failure::from(anyhow!("the load's worker said something unexpected"))
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
    let even = format!("{cv} (coefficient of variation of work per 100 ms; 0 is perfectly even)");
    text.push_str(&paragraph("evenness      ", &even));
    let word = if report.steady { "" } else { " (not steady by then)" };
    let _ = writeln!(text, "steady after  {:.2} s{word}", seconds(report.steady_after_ns));
    Ok(text)
}
