//! The capture beside a measurement: its thread, what its losses mean for the results, and the file of a cell.

use crate::{Context, Outcome, ProbeError, thread};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flow::PassObserver;
use model::worker::{Measured, ProbeTask};
use model::{CpuList, Finding, FindingId, Policy, ProbeSpec, ResultDocument};
use net::capture::{Capture, CaptureCounts, CaptureLoop, CaptureSpec, GroupFlow};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use wire::StopReport;

/// Payload kept of each packet by default, in bytes.
pub const PAYLOAD_BYTES: u32 = 64;
/// The largest capture that a cell keeps: it is in memory until the measurement is over, and travels with the result.
const MOST_BYTES: u64 = 64 << 20;
/// What raw samples and a capture may take together as text, so that an agent can send them with the rest of a result.
const MOST_TEXT: usize = wire::AGENT_LIMIT - (32 << 20);
/// Read at once to be encoded: a multiple of 3, so that the pieces' texts make one.
const PIECE: u64 = 3 << 18;

/// What to do about lost packets of `--pcap`, and of a plan.
const TYPED: &str = "keep less of each (--pcap-snap), or leave a CPU free for it";
const PLANNED: &str = "leave a CPU free for it, or send less often";

#[derive(Debug)]
pub struct Recording {
    capture: Capture,
    thread: Mutex<Option<JoinHandle<CaptureCounts>>>,
    /// Packets lost before the present pass.
    dropped: AtomicU64,
    remedy: &'static str,
}

impl Recording {
    /// Starts a capture of a measurement into a file. It takes no packet before it has a flow.
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
        Self::run(Capture::create(spec)?, beside(&task.spec), TYPED)
    }

    /// Starts a capture of what a group-based protocol sends.
    ///
    /// # Errors
    /// As [`Self::of_task`]; there is no such device.
    pub fn of_group(spec: CaptureSpec, flow: GroupFlow, device: Option<&str>) -> Result<Self, ProbeError> {
        let recording = Self::run(Capture::create(spec)?, task::housekeeping_cpus(None), TYPED)?;
        recording.capture.follow_group(flow, device)?;
        Ok(recording)
    }

    fn run((capture, work): (Capture, CaptureLoop), cpus: CpuList, remedy: &'static str) -> Result<Self, ProbeError> {
        let thread = thread::spawn("capture", move || {
            // Best effort: a thread that gets in the way shows in the verdict.
            let _ = task::apply_policy(Policy::Other);
            let _ = task::set_affinity(&cpus);
            work.run()
        })?;
        Ok(Self { capture, thread: Mutex::new(Some(thread)), dropped: AtomicU64::new(0), remedy })
    }

    /// The capture, for those that open data paths to register them.
    pub(crate) fn capture(&self) -> &Capture {
        &self.capture
    }

    /// What the capture lost since this was asked last, as a finding.
    fn losses(&self, counts: &CaptureCounts) -> Option<Finding> {
        let before = self.dropped.swap(counts.dropped, Ordering::Relaxed);
        let dropped = counts.dropped.saturating_sub(before);
        let detail = match &counts.failed {
            Some(why) => format!(
                "{why}: the capture ends after {} packets, and the file is whole up to there; the figures are not touched",
                counts.written
            ),
            None if dropped > 0 => format!(
                "the capture lacks {dropped} packets that found no room between kernel and file: its gaps are not the path's; {}",
                self.remedy
            ),
            None => return None,
        };
        Some(Finding::new(FindingId::CaptureIncomplete, detail))
    }

    /// Ends it: the file is whole now.
    pub fn finish(&self) -> CaptureCounts {
        self.capture.stop();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = |counts: std::thread::Result<CaptureCounts>| {
            counts.unwrap_or_else(|_| {
                let failed = Some("the capture ended by an error of Windhover's own".to_owned());
                CaptureCounts { failed, ..CaptureCounts::default() }
            })
        };
        thread.map(JoinHandle::join).map(ended).unwrap_or_default()
    }
}

/// Adds to each pass what the capture lost meanwhile.
pub(crate) struct CaptureLosses(pub Arc<Recording>);

impl PassObserver for CaptureLosses {
    fn judge(&mut self, report: &mut StopReport, _: &[&StopReport]) {
        report.notes.extend(self.0.losses(&self.0.capture.counts()));
    }
}

/// Adds what a capture lacks, unless the result has it already.
fn add_once(result: &mut ResultDocument, lacks: Finding) {
    if !result.verdict.disturbed.iter().any(|found| found.id == lacks.id) {
        result.verdict.add(lacks);
    }
}

/// What measures, with its arguments.
type Measuring<'a> = &'a mut dyn FnMut(&Context, &mut dyn FnMut(Measured)) -> Result<Outcome, ProbeError>;

/// Measures with a capture that the last result takes along, in memory. One that cannot be kept costs no figure.
pub(crate) fn kept(
    task: &ProbeTask,
    context: &Context,
    sink: &mut dyn FnMut(Measured),
    measure: Measuring<'_>,
) -> Result<Outcome, ProbeError> {
    let spec = CaptureSpec {
        path: "the cell's capture".into(),
        payload_bytes: PAYLOAD_BYTES,
        application: context.tool.clone(),
        comment: comment(task),
        most_bytes: Some(MOST_BYTES),
    };
    let (capture, work, file) = Capture::in_memory(spec)?;
    let recording = Arc::new(Recording::run((capture, work), beside(&task.spec), PLANNED)?);
    let context = Context { recording: Some(Arc::clone(&recording)), ..context.clone() };
    let mut last: Option<Measured> = None;
    let outcome = measure(&context, &mut |measured| {
        if let Some(before) = last.replace(measured) {
            sink(before);
        }
    });
    let counts = recording.finish();
    if let Some(mut measured) = last {
        recording.losses(&counts).into_iter().for_each(|lost| add_once(&mut measured.result, lost));
        take_along(&mut measured, file);
        sink(measured);
    }
    outcome
}

/// Puts a capture into the result that takes it along, or says there why it is not kept.
fn take_along(measured: &mut Measured, file: File) {
    let not_kept = |why: String| Finding::new(FindingId::CaptureIncomplete, format!("the capture is not kept: {why}"));
    let raw_bytes = measured.raw.as_ref().map_or(0, String::len);
    match encoded(file) {
        Ok(text) if text.len() + raw_bytes <= MOST_TEXT => measured.capture = Some(text),
        Ok(_) => {
            let why = "it is too large to be sent with the raw samples; measure fewer messages, or \
                       without raw samples";
            add_once(&mut measured.result, not_kept(why.to_owned()));
        }
        Err(cause) => add_once(&mut measured.result, not_kept(format!("reading it failed: {cause}"))),
    }
}

/// A file as base64, which takes a third more memory than the file.
fn encoded(mut file: impl io::Read + io::Seek) -> io::Result<String> {
    file.rewind()?;
    let (mut text, mut piece) = (String::new(), Vec::new());
    while file.by_ref().take(PIECE).read_to_end(&mut piece)? > 0 {
        STANDARD.encode_string(&piece, &mut text);
        piece.clear();
    }
    Ok(text)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: pieces whose texts do not make one, and a file that is read from where it was written to.
    #[test]
    fn a_file_is_encoded_whole() {
        for length in [0, 1, PIECE - 1, PIECE, 2 * PIECE + 5] {
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let mut file = io::Cursor::new(bytes.clone());
            file.set_position(length);
            assert_eq!(encoded(file).unwrap(), STANDARD.encode(bytes), "{length}");
        }
    }
}
