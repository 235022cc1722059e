//! A private tracing instance.

use crate::event::parse_line;
use crate::tracefs::Tracefs;
use crate::{TraceError, TraceEvent};
use model::CpuList;
use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// What our instances are called: `windhover-PID-STARTED-N`, where STARTED tells a process from a later one of the same id.
const PREFIX: &str = "windhover-";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    pub cpus: CpuList,
    /// Events as `group/name`; those that the kernel does not have are left out and named by [`Instance::missing`].
    pub events: Vec<String>,
    /// Buffer of each CPU in KiB.
    pub buffer_kib: u32,
}

impl Options {
    /// Everything that takes a CPU away from a thread: switches, device interrupts, softirqs and the architecture's
    /// vectors.
    pub fn visitors(cpus: CpuList) -> Self {
        let events = [
            "sched/sched_switch",
            "irq/irq_handler_entry",
            "irq/softirq_entry",
            "irq_vectors/local_timer_entry",
            "irq_vectors/reschedule_entry",
            "irq_vectors/call_function_entry",
            "irq_vectors/call_function_single_entry",
            "irq_vectors/irq_work_entry",
        ];
        Self { cpus, events: events.iter().map(|&event| event.to_owned()).collect(), buffer_kib: 8192 }
    }
}

/// An instance that records. It is removed when this is dropped.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
    cpus: CpuList,
    missing: Vec<String>,
    // After the path: the mount has to outlive the instance's removal.
    _tracefs: Tracefs,
}

impl Instance {
    /// Makes an instance and starts it. Instances that killed processes left behind are removed on the way. Errors:
    /// [`TraceError`]; nothing is left behind then.
    pub fn start(options: &Options) -> Result<Self, TraceError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let tracefs = Tracefs::find()?;
        let instances = tracefs.path().join("instances");
        remove_stale(&instances);
        let pid = std::process::id();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let started = started(&pid.to_string()).unwrap_or(0);
        let path = instances.join(format!("{PREFIX}{pid}-{started}-{number}"));
        step(&path, "make", fs::create_dir(&path))?;
        let mut instance = Self { path, cpus: options.cpus.clone(), missing: Vec::new(), _tracefs: tracefs };
        instance.set_up(options)?;
        Ok(instance)
    }

    fn set_up(&mut self, options: &Options) -> Result<(), TraceError> {
        self.write("tracing_on", "0")?;
        self.write("trace_clock", "mono_raw")?;
        self.write("tracing_cpumask", &options.cpus.to_mask())?;
        self.write("buffer_size_kb", &options.buffer_kib.to_string())?;
        for event in &options.events {
            let file = format!("events/{event}/enable");
            if self.path.join(&file).exists() {
                self.write(&file, "1")?;
            } else {
                self.missing.push(event.clone());
            }
        }
        if self.missing.len() == options.events.len() {
            return Err(TraceError::NoEvents(options.events.join(", ")));
        }
        self.write("tracing_on", "1")
    }

    fn write(&self, file: &str, value: &str) -> Result<(), TraceError> {
        let path = self.path.join(file);
        step(&path, "write", fs::write(&path, value))
    }

    /// Events that this kernel does not have.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Stops recording, reads all events in order of time, and removes the instance. Also tells how many events were lost
    /// because the buffer was full. Errors: [`TraceError`]; the instance is removed even then.
    pub fn finish(self) -> Result<(Vec<TraceEvent>, u64), TraceError> {
        self.write("tracing_on", "0")?;
        let path = self.path.join("trace");
        let file = step(&path, "open", fs::File::open(&path))?;
        let mut events = Vec::new();
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        loop {
            line.clear();
            if step(&path, "read", reader.read_until(b'\n', &mut line))? == 0 {
                break;
            }
            // A task's name may be no UTF-8.
            events.extend(parse_line(String::from_utf8_lossy(&line).trim_end()));
        }
        let lost = self.cpus.iter().map(|cpu| self.lost(cpu)).sum();
        Ok((events, lost))
    }

    fn lost(&self, cpu: u32) -> u64 {
        let stats = fs::read_to_string(self.path.join(format!("per_cpu/cpu{cpu}/stats"))).unwrap_or_default();
        stats
            .lines()
            .filter_map(|line| line.split_once(": "))
            .filter(|(name, _)| matches!(*name, "overrun" | "commit overrun" | "dropped events"))
            .filter_map(|(_, count)| count.trim().parse::<u64>().ok())
            .sum()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::write(self.path.join("tracing_on"), "0");
        let _ = fs::remove_dir(&self.path);
    }
}

fn step<T>(path: &Path, step: &'static str, result: io::Result<T>) -> Result<T, TraceError> {
    result.map_err(|cause| TraceError::Step { path: path.to_owned(), step, cause })
}

/// When a process was started, in clock ticks since boot: field 22 of /proc/PID/stat (proc_pid_stat(5)).
fn started(pid: &str) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

/// Removes instances whose process has ended.
fn remove_stale(instances: &Path) {
    let Ok(entries) = fs::read_dir(instances) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(words) = name.strip_prefix(PREFIX) else { continue };
        let mut words = words.split('-');
        let (Some(pid), Some(made)) = (words.next(), words.next()) else { continue };
        if started(pid).is_none_or(|now| now.to_string() != made) {
            let _ = fs::write(entry.path().join("tracing_on"), "0");
            let _ = fs::remove_dir(entry.path());
        }
    }
}
