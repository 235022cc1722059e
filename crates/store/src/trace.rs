//! Windows of events as files of other tools: trace events for Perfetto and chrome://tracing, and text as trace-cmd prints it.

use model::result::Outlier;
use model::{EventWindow, KernelEvent, PathSegment};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// A window to export.
#[derive(Debug)]
pub struct TracedMessage<'a> {
    /// The cell and its repetition.
    pub title: String,
    pub window: &'a EventWindow,
    /// The message with its segments and causes, where they are known.
    pub message: Option<&'a Outlier>,
}

const SWITCH: &str = "sched_switch";
/// A thread's number is its process's number times this, its CPU's added; the message's thread comes after all CPUs.
const THREADS: usize = 100_000;
const MESSAGE_THREAD: usize = THREADS - 1;

/// Trace events (the JSON object of the Trace Event Format). Each end of a message is a process with a thread for each CPU, and
/// one for the message's segments. Times count from the start of a message's first window.
pub fn chrome_trace(messages: &[TracedMessage<'_>]) -> String {
    let mut trace = ChromeTrace::default();
    let mut origins: BTreeMap<(&str, u64), u64> = BTreeMap::new();
    for TracedMessage { title, window, .. } in messages {
        let first_ns = origins.entry((title.as_str(), window.seq)).or_insert(u64::MAX);
        *first_ns = window.start_ns.min(*first_ns);
    }
    let mut drawn = BTreeSet::new();
    for TracedMessage { title, window, message } in messages {
        let process = |host: &str| format!("{host}, message {} of {title}", window.seq);
        let key = (title.as_str(), window.seq);
        let origin_ns = origins.get(&key).copied().unwrap_or(window.start_ns);
        trace.window(window, &process(&window.host), origin_ns);
        // Each end has a window.
        let message = message.filter(|_| drawn.insert(key));
        for (host, slice) in message.iter().flat_map(|message| segments(message, window.sent_ns)) {
            let thread = trace.thread(&process(host), MESSAGE_THREAD, format!("message {}", window.seq));
            trace.slice(thread, origin_ns, slice);
        }
    }
    let named = |what: &str, pid: usize, tid: usize, name: &String| json!({ "ph": "M", "name": what, "pid": pid, "tid": tid, "args": { "name": name } });
    let processes = (1..).zip(&trace.processes).map(|(pid, name)| named("process_name", pid, 0, name));
    let threads = trace.threads.iter().map(|(tid, name)| named("thread_name", tid / THREADS, *tid, name));
    let lines: Vec<String> = processes.chain(threads).chain(trace.events).map(|event| event.to_string()).collect();
    format!("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{}\n]}}\n", lines.join(",\n"))
}

#[derive(Default)]
struct ChromeTrace {
    /// Their names; the first has number 1.
    processes: Vec<String>,
    threads: BTreeMap<usize, String>,
    events: Vec<Value>,
}

#[derive(Clone)]
struct Slice {
    start_ns: u64,
    end_ns: u64,
    category: &'static str,
    name: String,
    args: Value,
}

impl ChromeTrace {
    fn thread(&mut self, process: &str, number: usize, name: String) -> (usize, usize) {
        let pid = self.processes.iter().position(|known| known == process).unwrap_or_else(|| {
            self.processes.push(process.to_owned());
            self.processes.len() - 1
        }) + 1;
        let tid = pid * THREADS + number;
        self.threads.insert(tid, name);
        (pid, tid)
    }

    fn slice(&mut self, (pid, tid): (usize, usize), origin_ns: u64, slice: Slice) {
        let Slice { start_ns, end_ns, category, name, args } = slice;
        let (ts, dur) = (us(start_ns.saturating_sub(origin_ns)), us(end_ns.saturating_sub(start_ns)));
        self.events.push(
            json!({ "ph": "X", "name": name, "cat": category, "ts": ts, "dur": dur, "pid": pid, "tid": tid, "args": args }),
        );
    }

    fn window(&mut self, window: &EventWindow, process: &str, origin_ns: u64) {
        let cpus: BTreeSet<u16> = window.events.iter().map(|event| event.cpu).collect();
        for cpu in cpus {
            let events: Vec<&KernelEvent> = window.events.iter().filter(|event| event.cpu == cpu).collect();
            let bound = window.placed.map(|placed| format!(", ± {} µs", us(placed.within_ns))).unwrap_or_default();
            let (pid, tid) = self.thread(process, cpu.into(), format!("CPU {cpu}{bound}"));
            for slice in nested(slices(window, &events)) {
                self.slice((pid, tid), origin_ns, slice);
            }
            // Each switch accounts run time, too.
            let is_slice = |event: &KernelEvent| {
                event.ns.is_some() || [SWITCH, "sched_stat_runtime"].contains(&event.event.as_str())
            };
            for event in events.iter().filter(|event| !is_slice(event) && event.at_ns >= window.start_ns) {
                let ts = us(event.at_ns.saturating_sub(origin_ns));
                self.events.push(json!({
                    "ph": "i", "s": "t", "name": label(event), "cat": "event", "ts": ts, "pid": pid, "tid": tid, "args": args(event)
                }));
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact below 100 days")]
fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

fn label(event: &KernelEvent) -> String {
    format!("{} {}", event.event, event.name).trim_end().to_owned()
}

fn args(event: &KernelEvent) -> Value {
    let pid = event.pid.map(|pid| ("pid".to_owned(), pid.into()));
    Value::Object(event.fields.clone().into_iter().chain(pid).collect())
}

/// What ran on a CPU: tasks, and what interrupted them. Before the first switch the task is not known, and idle time is empty.
fn slices(window: &EventWindow, events: &[&KernelEvent]) -> Vec<Slice> {
    let slice = |event: &KernelEvent, end_ns: u64, category, name| {
        let (start_ns, end_ns) = (event.at_ns.max(window.start_ns), end_ns.min(window.end_ns));
        (start_ns <= end_ns).then(|| Slice { start_ns, end_ns, category, name, args: args(event) })
    };
    let switches: Vec<&KernelEvent> = events.iter().copied().filter(|event| event.event == SWITCH).collect();
    let ends = switches.iter().skip(1).map(|next| next.at_ns).chain([window.end_ns]);
    let tasks = switches.iter().zip(ends).filter(|(task, _)| task.pid != Some(0));
    let tasks = tasks.filter_map(|(task, end_ns)| slice(task, end_ns, "task", task.name.clone()));
    let interrupts = events
        .iter()
        .filter_map(|event| slice(event, event.at_ns.saturating_add(event.ns?), "interrupt", label(event)));
    tasks.chain(interrupts).collect()
}

/// Cuts slices where an outer one ends: those of a thread must not overlap unless one lies in the other.
fn nested(slices: Vec<Slice>) -> Vec<Slice> {
    let key = |(at, slice): (usize, Slice)| ((slice.start_ns, Reverse(slice.end_ns), at), slice);
    let mut waiting: BTreeMap<_, Slice> = slices.into_iter().enumerate().map(key).collect();
    let (mut outer, mut done): (Vec<u64>, Vec<Slice>) = (Vec::new(), Vec::new());
    while let Some(((_, _, at), mut slice)) = waiting.pop_first() {
        while outer.last().is_some_and(|end_ns| *end_ns <= slice.start_ns) {
            outer.pop();
        }
        if let Some(end_ns) = outer.last().copied().filter(|end_ns| *end_ns < slice.end_ns) {
            waiting.extend([key((at, Slice { start_ns: end_ns, ..slice.clone() }))]);
            slice.end_ns = end_ns;
        }
        outer.push(slice.end_ns);
        done.push(slice);
    }
    done
}

/// The segments of a message with their ends, one behind the other; what no end measured lies before the way back.
fn segments(message: &Outlier, sent_ns: u64) -> Vec<(&str, Slice)> {
    let mut gap_ns = message.segments.iter().fold(message.rtt_ns, |left, part| left.saturating_sub(part.ns));
    let mut at_ns = sent_ns;
    let mut parts = Vec::new();
    for part in &message.segments {
        if part.segment >= PathSegment::WireBack {
            at_ns = at_ns.saturating_add(std::mem::take(&mut gap_ns));
        }
        let end_ns = at_ns.saturating_add(part.ns);
        let is_here = |cause: &&model::Cause| cause.segment == part.segment && cause.host == part.host;
        let causes: Vec<_> = message.causes.iter().filter(is_here).collect();
        let args = json!({ "excess_ns": part.excess_ns, "cpu": part.cpu, "causes": causes });
        let name = part.segment.to_string();
        parts.push((part.host.as_str(), Slice { start_ns: at_ns, end_ns, category: "segment", name, args }));
        at_ns = end_ns;
    }
    parts
}

/// Text as trace-cmd prints a `trace.dat`: task, CPU, time in s of the initiator's CLOCK_MONOTONIC, event and fields; intervals at both
/// ends.
pub fn trace_text(messages: &[TracedMessage<'_>]) -> String {
    let mut out = String::new();
    for TracedMessage { title, window, .. } in messages {
        let placed = |placed: model::Placed| {
            let (moved, within) = (placed.moved_ns, us(placed.within_ns));
            format!(", times moved by {moved} ns onto the initiator's clock, ± {within} µs")
        };
        let placed = window.placed.map(placed).unwrap_or_default();
        let (host, seq, left_out) = (&window.host, window.seq, window.left_out);
        let _ = writeln!(out, "# {host}, message {seq} of {title}, {left_out} events left out{placed}");
        let mut lines: Vec<(u64, &str, &KernelEvent)> = Vec::new();
        for event in &window.events {
            lines.push((event.at_ns, if event.ns.is_some() { "_entry" } else { "" }, event));
            lines.extend(event.ns.map(|ns| (event.at_ns.saturating_add(ns), "_exit", event)));
        }
        lines.sort_by_key(|(at_ns, ..)| *at_ns);
        let mut running: BTreeMap<u16, String> = BTreeMap::new();
        for (at_ns, suffix, event) in lines {
            if (window.start_ns..=window.end_ns).contains(&at_ns) {
                let task = running.get(&event.cpu).map_or("<...>", String::as_str);
                let (s, ns, name) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000, format!("{}{suffix}:", event.event));
                let line = format!("{task:>22} [{:03}] {s:>6}.{ns:09}: {name:<20}{}", event.cpu, fields_text(event));
                out.push_str(line.trim_end());
                out.push('\n');
            }
            if event.event == SWITCH {
                let name = if event.pid == Some(0) { "<idle>" } else { &event.name };
                running.insert(event.cpu, event.pid.map_or_else(|| name.to_owned(), |pid| format!("{name}-{pid}")));
            }
        }
    }
    out
}

fn fields_text(event: &KernelEvent) -> String {
    let mut out = String::new();
    if !event.name.is_empty() {
        let _ = write!(out, " {}", event.name);
    }
    let Value::Object(fields) = args(event) else { return out };
    for (name, value) in fields {
        let _ = write!(out, " {name}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
    out
}
