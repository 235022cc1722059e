//! `windhover explain --live`: which messages of a running program waited after they had arrived, and for whom.

use super::signals;
use crate::cli::explain::Explain;
use crate::output::{Failure, Output, json_in_order, width};
use anyhow::anyhow;
use flow::{LiveExplainer, LiveReport};
use host::knob::{Machine, TaskKey};
use host::tasks::processes;
use model::{Cause, Explanation, SegmentTime};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const LOOK: Duration = Duration::from_millis(100);
/// The kernel cuts names at so many bytes.
const NAME_BYTES: usize = 15;
/// Messages in the document: those that waited longest.
const MOST_MESSAGES: usize = 500;

#[derive(serde::Serialize)]
struct Document<'a> {
    process: i32,
    name: &'a str,
    seconds: f64,
    max_ns: Option<u64>,
    explanation: &'a Explanation,
    messages: Vec<Message<'a>>,
}

#[derive(serde::Serialize)]
struct Message<'a> {
    seq: u64,
    /// When it arrived, in ns since 1970.
    realtime_ns: u64,
    wait_ns: u64,
    segments: &'a [SegmentTime],
    causes: &'a [Cause],
}

pub(crate) fn run(process: &str, arguments: &Explain, output: &Output) -> Result<u8, Failure> {
    let machine = Machine::running();
    let program = find(&machine, process)?;
    let stop = signals::stop_flag()?;
    let followed = u32::try_from(program.tid).map_err(Failure::usage)?;
    let live = LiveExplainer::start(followed, &program.name, arguments.over).map_err(|why| anyhow!(why))?;
    let (started, shows) = (Instant::now(), output.shows_progress());
    let of = format!("{} (process {})", program.name, program.tid);
    if shows {
        output.note(format_args!("following {of}"));
    }
    let longest = arguments.seconds.map_or(Duration::MAX, Duration::from_secs_f64);
    let mut second = 0;
    let mut lives = true;
    while lives && !stop.load(Ordering::Relaxed) && started.elapsed() < longest {
        let next = live.second(LOOK.min(longest.saturating_sub(started.elapsed())));
        if let Some(report) = next.map_err(|why| anyhow!(why))? {
            second += 1;
            if shows {
                output.note(report::live_line(second, &report.explanation, report.max_ns));
            }
        }
        lives = program.lives(&machine);
    }
    let seconds = started.elapsed().as_secs_f64();
    let whole = live.finish().map_err(|why| anyhow!(why))?;
    if !lives {
        output.note(format_args!("{of} ended"));
    }
    let text = match arguments.json {
        true => json_in_order(&document(&program, seconds, &whole))?,
        false => report::live_text(&of, &whole.explanation, whole.max_ns, width()),
    };
    output.result(&text).map(|()| 0)
}

fn document<'a>(program: &'a TaskKey, seconds: f64, whole: &'a LiveReport) -> Document<'a> {
    let since_1970_ns = clock::realtime_ns().saturating_sub(clock::monotonic_ns());
    let messages = whole.late.iter().take(MOST_MESSAGES).map(|late| Message {
        seq: late.seq,
        realtime_ns: since_1970_ns + late.start_ns,
        wait_ns: late.rtt_ns,
        segments: &late.segments,
        causes: &late.causes,
    });
    Document {
        process: program.tid,
        name: &program.name,
        seconds,
        max_ns: whole.max_ns,
        explanation: &whole.explanation,
        messages: messages.collect(),
    }
}

/// The process with this id, or the only one of this name: that of /proc/PID/comm, or that of its program's file.
fn find(machine: &Machine, asked: &str) -> Result<TaskKey, Failure> {
    let own = std::process::id();
    if let Ok(pid) = asked.parse::<i32>() {
        let Some(key) = TaskKey::of_at(machine, pid) else { refuse!("there is no process {pid}") };
        let is_thread = host::tasks::of(machine, pid).filter(|task| task.process != pid);
        if let Some(thread) = is_thread {
            refuse!("{pid} is a thread of process {}: follow that", thread.process);
        }
        return Ok(key);
    }
    let cut = asked.as_bytes().get(..NAME_BYTES).unwrap_or(asked.as_bytes());
    let is_it = |(pid, name): &(i32, String)| {
        let runs = |file: &Path| file.file_name().is_some_and(|name| name.to_str() == Some(asked));
        let is_named = || std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|file| runs(&file));
        u32::try_from(*pid) != Ok(own) && (name.as_bytes() == cut || is_named())
    };
    let found: Vec<TaskKey> =
        processes(machine).filter(is_it).filter_map(|(pid, _)| TaskKey::of_at(machine, pid)).collect();
    match found.as_slice() {
        [] => refuse!("no process has the name {asked}: give its id"),
        [one] => Ok(one.clone()),
        several => {
            let ids: Vec<String> = several.iter().map(|key| key.tid.to_string()).collect();
            refuse!("{} processes have the name {asked}, give the id of one: {}", ids.len(), ids.join(", "))
        }
    }
}
