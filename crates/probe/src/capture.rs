//! The capture beside a measurement: its thread, what its losses mean for the results, and the file of a cell.

use crate::{Context, Outcome, ProbeError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::worker::{Measured, ProbeTask};
use model::{CpuList, Finding, FindingId, Policy, ProbeSpec, ResultDocument};
use net::capture::{Capture, CaptureCounts, CaptureSpec, GroupFlow};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use task::TaskError;

/// Payload kept of each packet, in bytes, unless it is said.
pub const PAYLOAD_BYTES: u32 = 64;
/// The largest capture that a cell keeps: it is in memory until the measurement is over, and travels with the result.
const MOST_BYTES: u64 = 64 << 20;

/// A running capture.
#[derive(Debug)]
pub struct Recording {
    capture: Capture,
    thread: Mutex<Option<JoinHandle<CaptureCounts>>>,
    /// Packets lost before the present pass.
    dropped: AtomicU64,
}

impl Recording {
    /// Starts a capture of a measurement into a file. It takes no packet before it is told of a flow.
    ///
    /// # Errors
    /// The measurement's packets pass no capture, the file cannot be written, or no packet may be captured here.
    pub fn of_task(task: &ProbeTask, path: &Path, payload_bytes: u32, tool: &str) -> Result<Self, ProbeError> {
        task.spec.check_capture()?;
        let spec = CaptureSpec {
            path: path.to_owned(),
            payload_bytes,
            application: tool.to_owned(),
            comment: comment(task),
            ..CaptureSpec::default()
        };
        Self::run(Capture::create(spec)?, beside(&task.spec))
    }

    /// Starts a capture of what a group-based protocol sends.
    ///
    /// # Errors
    /// As [`Self::of_task`]; there is no such device.
    pub fn of_group(spec: CaptureSpec, flow: GroupFlow, device: Option<&str>) -> Result<Self, ProbeError> {
        let recording = Self::run(Capture::create(spec)?, task::housekeeping_cpus(None))?;
        recording.capture.follow_group(flow, device)?;
        Ok(recording)
    }

    fn run((capture, work): (Capture, net::capture::CaptureLoop), cpus: CpuList) -> Result<Self, ProbeError> {
        let thread = std::thread::Builder::new()
            .name("capture".to_owned())
            .spawn(move || {
                // Best effort: a thread that gets in the way shows in the verdict.
                let _ = task::apply_policy(Policy::Other);
                let _ = task::set_affinity(&cpus);
                work.run()
            })
            .map_err(|cause| ProbeError::Task(TaskError::Thread { name: "capture", cause }))?;
        Ok(Self { capture, thread: Mutex::new(Some(thread)), dropped: AtomicU64::new(0) })
    }

    /// The capture, which whoever opens data paths tells of them.
    pub(crate) fn capture(&self) -> &Capture {
        &self.capture
    }

    /// Adds to the result of a pass what the capture lost meanwhile.
    pub(crate) fn judge(&self, result: &mut ResultDocument) {
        let counts = self.capture.counts();
        let before = self.dropped.swap(counts.dropped, Ordering::Relaxed);
        if let Some(detail) = lacks(&counts, counts.dropped.saturating_sub(before)) {
            result.verdict.add(Finding::new(FindingId::CaptureIncomplete, detail));
        }
    }

    /// Ends it: the file is whole now.
    pub fn finish(&self) -> CaptureCounts {
        self.capture.stop();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let joined = thread.map(JoinHandle::join);
        joined.map_or_else(CaptureCounts::default, |counts| {
            counts.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

fn lacks(counts: &CaptureCounts, dropped: u64) -> Option<String> {
    match &counts.failed {
        Some(why) => Some(format!(
            "{why}: the capture ends after {} packets, and the file is whole up to there; the figures are not touched",
            counts.written
        )),
        None if dropped > 0 => Some(format!(
            "the capture lacks {dropped} packets that found no room between kernel and file: its gaps are not the path's; \
             keep less of each (--pcap-snap), or leave a CPU free for it"
        )),
        None => None,
    }
}

/// What measures, with its arguments.
type Measuring<'a> = &'a mut dyn FnMut(&Context, &mut dyn FnMut(Measured)) -> Result<Outcome, ProbeError>;

/// Measures with a capture that the last result takes along. The file is in memory, so that nothing of it stays where this
/// process is killed.
pub(crate) fn kept(
    task: &ProbeTask,
    context: &Context,
    sink: &mut dyn FnMut(Measured),
    measure: Measuring<'_>,
) -> Result<Outcome, ProbeError> {
    let failed = |cause: std::io::Error| ProbeError::CaptureMemory { cause };
    let memory = memfd_create(c"windhover-capture", MFdFlags::MFD_CLOEXEC).map_err(|errno| failed(errno.into()))?;
    let mut file = File::from(memory);
    let spec = CaptureSpec {
        payload_bytes: PAYLOAD_BYTES,
        application: context.tool.clone(),
        comment: comment(task),
        most_bytes: Some(MOST_BYTES),
        ..CaptureSpec::default()
    };
    let written_to = file.try_clone().map_err(failed)?;
    let recording = Arc::new(Recording::run(Capture::into_file(spec, written_to)?, beside(&task.spec))?);
    let context = Context { recording: Some(Arc::clone(&recording)), ..context.clone() };
    let mut last: Option<Measured> = None;
    let outcome = measure(&context, &mut |measured| {
        if let Some(before) = last.replace(measured) {
            sink(before);
        }
    });
    recording.finish();
    let Some(mut measured) = last else { return outcome };
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    if read.is_ok() {
        measured.capture = Some(STANDARD.encode(bytes));
    }
    sink(measured);
    read.map_err(failed).and(outcome)
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
