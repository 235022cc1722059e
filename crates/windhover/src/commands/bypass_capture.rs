//! `windhover bypass capture` and `bypass run --capture`: frames of a program on the stack in its process, as pcapng.

use super::{identity, signals};
use crate::cli::bypass::{self as cli, Capture as Arguments};
use crate::output::{Failure, Output};
use anyhow::anyhow;
use bypass::{BypassError, Capture, CaptureState, TappedFrame};
use net::capture::{Addressed, CapturedPacket, Direction, Interface, Statistics, Writer};
use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long it sleeps while no frame waits. The ring holds what comes meanwhile.
const REST: Duration = Duration::from_millis(2);
const FLUSH_BYTES: usize = 1 << 18;
/// LINKTYPE_ETHERNET.
const ETHERNET: u16 = 1;

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<u8, Failure> {
    if arguments.file == Path::new("-") && std::io::stdout().is_terminal() {
        refuse!("a capture is not for terminals: name a file with -w FILE, or pipe it into `windhover dump --all -`");
    }
    let folder = bypass::folder();
    let _ = bypass::clear(&folder);
    let refused = |error: BypassError| match error {
        BypassError::Several { .. } => Failure::usage(error),
        _ => Failure::new(1, error),
    };
    let process = bypass::choose(&folder, arguments.program.as_deref()).map_err(refused)?;
    let stop = signals::stop_flag()?;
    let mut capture = Capture::ask(&folder, &process, arguments.buffer, arguments.snap)?;
    while capture.state()? == CaptureState::Waiting && !stop.load(Ordering::Relaxed) {
        thread::sleep(REST);
    }
    if capture.state()? == CaptureState::Waiting {
        let (name, pid) = (&process.name, process.pid);
        return Err(Failure::new(
            130,
            anyhow!("interrupted before {name} (process {pid}) began the capture: nothing is written"),
        ));
    }
    let mut recording = Recording::create(capture, arguments.file.clone(), arguments.snap)?;
    let (interface, backend) = recording.capture.interface();
    output.note(format_args!("capturing {} (process {}) on {interface} ({backend})", process.name, process.pid));
    let limits =
        Limits { count: arguments.count.unwrap_or(u64::MAX), seconds: arguments.seconds.map(Duration::from_secs_f64) };
    let recorded = recording.record(&limits, &stop);
    recording.finish(output).and(recorded).map(|()| 0)
}

struct Limits {
    count: u64,
    /// From its start, and from the first packet.
    seconds: Option<Duration>,
}

pub(super) struct Recording {
    capture: Capture,
    path: PathBuf,
    /// Absent: standard output.
    file: Option<File>,
    writer: Writer,
    /// Bytes and packets that are not written yet.
    waiting: usize,
    unwritten: u64,
    /// Packets that the file has no room for.
    lost: u64,
    has_failed: bool,
    /// Bytes of the file that are whole blocks.
    good: u64,
    snap: u32,
    /// The writing process, and its number in the file.
    source: Option<(u32, u32)>,
    counted: Statistics,
}

impl Recording {
    /// One of a program that is started with [`request`](Capture::request).
    pub(super) fn of_program(capture: Capture, path: PathBuf) -> Result<Self, Failure> {
        Self::create(capture, path, cli::WHOLE)
    }

    fn create(capture: Capture, path: PathBuf, snap: u32) -> Result<Self, Failure> {
        let failed = |cause| Failure::new(1, anyhow!("cannot write {}: {cause}: name another file", path.display()));
        let file = if path == Path::new("-") { None } else { Some(File::create(&path).map_err(failed)?) };
        let comment = "packets of accelerated sockets; time stamps: when the program took or sent the frame";
        let writer = Writer::new(&format!("windhover {}", identity::VERSION), &net::capture::system(), comment);
        let mut made = Self {
            capture,
            path,
            file,
            writer,
            waiting: 0,
            unwritten: 0,
            lost: 0,
            has_failed: false,
            good: 0,
            snap,
            source: None,
            counted: Statistics::default(),
        };
        made.flush()?;
        Ok(made)
    }

    /// Captures until somebody says that the program is over, and ends the file.
    pub(super) fn until(mut self, is_over: &AtomicBool, output: &Output) -> Result<(), Failure> {
        let recorded = self.record(&Limits { count: u64::MAX, seconds: None }, is_over);
        self.finish(output).and(recorded)
    }

    /// Captures until the program's end, a limit, a signal, or until nobody reads any more.
    fn record(&mut self, limits: &Limits, stop: &AtomicBool) -> Result<(), Failure> {
        let mut frame = Vec::new();
        let began = Instant::now();
        let is_over =
            || stop.load(Ordering::Relaxed) || limits.seconds.is_some_and(|seconds| began.elapsed() >= seconds);
        let length_ns =
            limits.seconds.map_or(u64::MAX, |seconds| u64::try_from(seconds.as_nanos()).unwrap_or(u64::MAX));
        let mut over_ns = None;
        loop {
            // Asked before the last frames are read: what comes before the end is not lost.
            let ended = self.look()?;
            over_ns = over_ns.or_else(|| is_over().then(clock::realtime_ns));
            while self.counted.written < limits.count
                && let Some(one) = self.capture.next(&mut frame)?
            {
                // A program may send faster than a file takes it: the ring is never empty then.
                over_ns = over_ns.or_else(|| is_over().then(clock::realtime_ns));
                let first_ns = if self.counted.written == 0 { one.time_ns } else { self.counted.start_ns };
                let end_ns = over_ns.unwrap_or(u64::MAX).min(first_ns.saturating_add(length_ns));
                if one.time_ns > end_ns {
                    over_ns = Some(end_ns);
                    break;
                }
                self.keep(&one, &frame);
                if self.waiting >= FLUSH_BYTES && !self.flush()? {
                    return Ok(());
                }
            }
            if !self.flush()? || ended || over_ns.is_some() || self.counted.written >= limits.count {
                return Ok(());
            }
            thread::sleep(REST);
        }
    }

    /// Notes who writes; whether the program is over.
    fn look(&mut self) -> Result<bool, Failure> {
        let state = self.capture.state()?;
        if let CaptureState::Runs(process) = state
            && self.source.is_none_or(|(known, _)| known != process)
        {
            let (name, backend) = self.capture.interface();
            let program = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
            let description = format!("{} (process {process}), back-end {backend}", program.trim_end());
            let described =
                Interface { link: ETHERNET, snap: self.snap, name: &name, description: &description, speed_bps: None };
            self.source = Some((process, self.writer.interface(&described)));
        }
        Ok(state == CaptureState::Ended)
    }

    fn keep(&mut self, one: &TappedFrame, frame: &[u8]) {
        // A program that ended at once is known by its frames only.
        let (_, number) = *self.source.get_or_insert_with(|| {
            let (name, _) = self.capture.interface();
            let described = Interface { link: ETHERNET, snap: self.snap, name: &name, ..Interface::default() };
            (0, self.writer.interface(&described))
        });
        let addressed = match frame.first_chunk() {
            Some([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => Addressed::Broadcast,
            Some([first, ..]) if first & 1 == 1 => Addressed::Multicast,
            _ => Addressed::Unicast,
        };
        let way = if one.leaving { Direction::Out } else { Direction::In };
        let (time_ns, sent_bytes) = (one.time_ns, one.length);
        let taken = CapturedPacket { time_ns, hardware: false, way, addressed, vlan: None, sent_bytes, frame };
        self.writer.packet(number, &taken);
        self.waiting += frame.len();
        self.unwritten += 1;
        self.counted.written += 1;
        self.counted.start_ns = if self.counted.start_ns == 0 { time_ns } else { self.counted.start_ns };
        self.counted.end_ns = time_ns;
    }

    /// Writes what is gathered; false once nobody reads it. A file that takes no more is cut back to its last whole block, and nothing
    /// more is written to it.
    fn flush(&mut self) -> Result<bool, Failure> {
        let bytes = self.writer.take();
        let packets = std::mem::take(&mut self.unwritten);
        self.waiting = 0;
        if self.has_failed {
            return Ok(false);
        }
        let Some(file) = &mut self.file else {
            return crate::output::written_bytes(&bytes)
                .map_err(|error| crate::output::unwritten("the capture ", &error));
        };
        match file.write_all(&bytes) {
            Ok(()) => self.good += bytes.len() as u64,
            Err(cause) => {
                // A pipe cannot be cut; whoever reads it sees its end.
                let _ = file.set_len(self.good);
                (self.has_failed, self.lost) = (true, packets);
                self.counted.written -= packets;
                let path = self.path.display();
                return Err(Failure::new(1, anyhow!("writing {path} failed: {cause}: the capture ends early")));
            }
        }
        Ok(true)
    }

    fn finish(mut self, output: &Output) -> Result<(), Failure> {
        let dropped = self.capture.dropped();
        let passed = self.counted.written.saturating_add(dropped);
        if let Some((_, number)) = self.source {
            self.writer.statistics(number, &Statistics { passed, dropped, ..self.counted });
        }
        let ended = self.flush();
        let path = if self.file.is_some() { format!(" in {}", self.path.display()) } else { String::new() };
        let (written, dropped) = (self.counted.written, dropped.saturating_add(self.lost));
        output.note(format_args!("{written} packets{path}, {dropped} dropped"));
        ended.map(drop)
    }
}
