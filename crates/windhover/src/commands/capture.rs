//! The capture beside a measurement: its thread, and what its losses mean for the results.

use super::identity;
use crate::cli::dump::Pcap;
use crate::output::{Failure, Output};
use anyhow::Context as _;
use model::worker::ProbeTask;
use model::{CpuList, Finding, FindingId, Policy, ProbeSpec, ResultDocument};
use net::NetError;
use net::capture::{Capture, CaptureCounts, CaptureSpec, GroupFlow};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

/// A running capture.
pub(crate) struct Recording {
    capture: Arc<Capture>,
    thread: JoinHandle<CaptureCounts>,
    path: PathBuf,
    dropped: u64,
}

impl Recording {
    /// Starts the capture that the flags ask for. It takes no packet before it is told of a flow.
    pub(crate) fn start(wanted: &Pcap, task: &ProbeTask) -> Result<Option<Self>, Failure> {
        let Some(path) = wanted.file.clone() else { return Ok(None) };
        let spec = &task.spec;
        let protocol = spec.socket().map_err(Failure::usage)?.protocol;
        if !protocol.passes_kernel() {
            let others = model::Protocol::words_of(|one| one.passes_kernel() && one.carries(spec.probe()));
            refuse!(
                "captures do not see {protocol}, which does not pass the kernel's network stack: leave out --pcap, or measure {others}"
            );
        }
        Ok(Some(Self::run(path, wanted.snap, comment(task), beside(spec))?))
    }

    /// Starts a capture of what a group-based protocol sends, where the flags ask for one.
    pub(crate) fn of_group(
        wanted: &Pcap,
        comment: String,
        flow: GroupFlow,
        device: Option<&str>,
    ) -> Result<Option<Self>, Failure> {
        let Some(path) = wanted.file.clone() else { return Ok(None) };
        let recording = Self::run(path, wanted.snap, comment, task::housekeeping_cpus(None))?;
        recording.capture.follow_group(flow, device).map_err(Failure::usage)?;
        Ok(Some(recording))
    }

    fn run(path: PathBuf, payload_bytes: u32, comment: String, cpus: CpuList) -> Result<Self, Failure> {
        let capture = CaptureSpec {
            path: path.clone(),
            payload_bytes,
            application: format!("windhover {}", identity::VERSION),
            system: system(),
            comment,
        };
        let (capture, work) = Capture::create(capture).map_err(|error| match error {
            NetError::CaptureNotPermitted => Failure::new(2, error),
            other => Failure::new(1, other),
        })?;
        let thread = std::thread::Builder::new()
            .name("capture".to_owned())
            .spawn(move || {
                // Best effort: a thread that gets in the way shows in the verdict.
                let _ = task::apply_policy(Policy::Other);
                let _ = task::set_affinity(&cpus);
                work.run()
            })
            .context("cannot start a thread")?;
        Ok(Self { capture: Arc::new(capture), thread, path, dropped: 0 })
    }

    /// For the measurement, which tells it of its flows.
    pub(crate) fn handle(&self) -> Arc<Capture> {
        Arc::clone(&self.capture)
    }

    /// Adds to a result what the capture lost meanwhile.
    pub(crate) fn judge(&mut self, result: &mut ResultDocument) {
        let counts = self.capture.counts();
        let dropped = counts.dropped - self.dropped.min(counts.dropped);
        self.dropped = counts.dropped;
        if let Some(detail) = self.lacks(&counts, dropped) {
            result.verdict.add(Finding::new(FindingId::CaptureIncomplete, detail));
        }
    }

    fn lacks(&self, counts: &CaptureCounts, dropped: u64) -> Option<String> {
        let path = self.path.display();
        match &counts.failed {
            Some(why) => Some(format!(
                "{why}: the capture ends after {} packets, and the file is whole up to there; the figures are not touched",
                counts.written
            )),
            None if dropped > 0 => Some(format!(
                "the capture {path} lacks {dropped} packets that found no room between kernel and file: its gaps are not \
                 the path's; keep less of each (--pcap-snap), or leave a CPU free for it"
            )),
            None => None,
        }
    }

    /// Ends it and says what it holds.
    pub(crate) fn finish(self, output: &Output) {
        self.capture.stop();
        let path = self.path.display().to_string();
        match self.thread.join() {
            Ok(counts) => {
                let lost = if counts.dropped > 0 { format!(", {} lost", counts.dropped) } else { String::new() };
                output.note(format_args!("{} packets in {path}{lost}", counts.written));
                if let Some(why) = counts.failed {
                    output.warning(format_args!("{why}: {path} ends early"));
                }
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// CPUs for the capture: not those of the measured threads, as far as others are left.
fn beside(spec: &ProbeSpec) -> CpuList {
    let mut cpus = task::housekeeping_cpus(spec.initiator.cpu);
    for taken in spec.initiator_cpus().chain([spec.reflector.cpu]).flatten() {
        let fewer: CpuList = cpus.iter().filter(|&cpu| cpu != taken).collect();
        if !fewer.is_empty() {
            cpus = fewer;
        }
    }
    cpus
}

/// The measurement in words, for the file's head.
fn comment(task: &ProbeTask) -> String {
    let spec = &task.spec;
    let mut text =
        format!("{} {} with {}", spec.probe(), model::Protocol::word_of(spec.protocol()), task.target.control);
    for other in &task.others {
        text.push_str(", ");
        text.push_str(&other.control);
    }
    text.push_str(&format!("; sizes {} bytes", spec.sizes));
    if let Some(pace) = spec.pace() {
        let rates: Vec<String> = pace.rates_pps.iter().map(ToString::to_string).collect();
        text.push_str(&format!("; {} messages a second", rates.join(", ")));
    }
    for (name, value) in &task.factors {
        text.push_str(&format!("; {name} {value}"));
    }
    text
}

/// The kernel, for the file's head.
pub(super) fn system() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {}", release.trim()).trim_end().to_owned()
}
