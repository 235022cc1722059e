//! A capture of a program into a file, until its end, a limit or a signal.

use crate::{BypassError, Capture, CaptureState, TappedFrame};
use net::capture::{Addressed, CaptureCounts, CaptureFile, CapturedPacket, Direction, Interface};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long it sleeps while no frame waits. The ring holds what comes meanwhile.
pub(crate) const REST: Duration = Duration::from_millis(2);
/// LINKTYPE_ETHERNET.
const ETHERNET: u16 = 1;

/// When a recording ends by itself.
#[derive(Debug, Clone, Copy)]
pub struct CaptureLimits {
    /// Packets in the file.
    pub count: u64,
    /// From its start, and from the first packet.
    pub length: Option<Duration>,
}

pub struct Recording {
    capture: Capture,
    file: CaptureFile,
    /// The process that frames come from, and its number in the file.
    source: Option<(u32, u32)>,
    written: u64,
}

impl Recording {
    pub fn new(capture: Capture, file: CaptureFile) -> Self {
        Self { capture, file, source: None, written: 0 }
    }

    /// Captures until the program's end, a limit, `stop`, or until nobody reads any more, and ends the file. Returns what became of the
    /// packets.
    pub fn run(mut self, limits: &CaptureLimits, stop: &AtomicBool) -> CaptureCounts {
        let recorded = self.record(limits, stop);
        let dropped = self.capture.dropped();
        if let Some((_, number)) = self.source {
            let written = self.file.counts(0).written;
            self.file.statistics(number, written.saturating_add(dropped), dropped);
        }
        self.file.flush();
        let counts = self.file.counts(dropped);
        let failed = counts.failed.or_else(|| recorded.err().map(|error| error.to_string()));
        CaptureCounts { failed, ..counts }
    }

    fn record(&mut self, limits: &CaptureLimits, stop: &AtomicBool) -> Result<(), BypassError> {
        let mut frame = Vec::new();
        let began = Instant::now();
        let is_over = || stop.load(Ordering::Relaxed) || limits.length.is_some_and(|length| began.elapsed() >= length);
        let length_ns = limits.length.map_or(u64::MAX, |length| u64::try_from(length.as_nanos()).unwrap_or(u64::MAX));
        let mut over_ns = None;
        loop {
            // Asked before the last frames are read: what comes before the end is not lost.
            let ended = self.look()?;
            over_ns = over_ns.or_else(|| is_over().then(clock::realtime_ns));
            while self.file.is_open()
                && self.written < limits.count
                && let Some(one) = self.capture.next(&mut frame)?
            {
                // A program may send faster than a file takes it: the ring is never empty then.
                over_ns = over_ns.or_else(|| is_over().then(clock::realtime_ns));
                let first_ns = if self.written == 0 { one.time_ns } else { self.file.first_ns() };
                let end_ns = over_ns.unwrap_or(u64::MAX).min(first_ns.saturating_add(length_ns));
                if one.time_ns > end_ns {
                    over_ns = Some(end_ns);
                    break;
                }
                self.keep(&one, &frame);
            }
            self.file.flush();
            if !self.file.is_open() || ended || over_ns.is_some() || self.written >= limits.count {
                return Ok(());
            }
            thread::sleep(REST);
        }
    }

    /// Notes which process frames come from; whether the program is over.
    fn look(&mut self) -> Result<bool, BypassError> {
        let state = self.capture.state()?;
        if let CaptureState::Runs(process) = state
            && self.source.is_none_or(|(known, _)| known != process)
        {
            let (_, backend) = self.capture.interface();
            let program = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
            self.describe(process, &format!("{} (process {process}), back-end {backend}", program.trim_end()));
        }
        Ok(state == CaptureState::Ended)
    }

    fn describe(&mut self, process: u32, description: &str) -> u32 {
        let (name, _) = self.capture.interface();
        let described =
            Interface { link: ETHERNET, snap: self.capture.snap, name: &name, description, speed_bps: None };
        let number = self.file.interface(&described);
        self.source = Some((process, number));
        number
    }

    fn keep(&mut self, one: &TappedFrame, frame: &[u8]) {
        // A program that ended at once is known by its frames only.
        let number = self.source.map_or_else(|| self.describe(0, ""), |(_, number)| number);
        let addressed = match frame.first_chunk() {
            Some([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => Addressed::Broadcast,
            Some([first, ..]) if first & 1 == 1 => Addressed::Multicast,
            _ => Addressed::Unicast,
        };
        let way = if one.leaving { Direction::Out } else { Direction::In };
        let (time_ns, sent_bytes) = (one.time_ns, one.length);
        let taken = CapturedPacket { time_ns, hardware: false, way, addressed, vlan: None, sent_bytes, frame };
        self.file.packet(number, &taken);
        self.written += 1;
    }
}
