//! A capture file while it is written, by whichever capture.

use super::ring::CapturedPacket;
use super::write::{Interface, Statistics, Writer};
use crate::NetError;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::PathBuf;

const FLUSH_BYTES: usize = 1 << 18;

#[derive(Debug, Clone, Default)]
pub struct CaptureSpec {
    /// The file, or the name of one in memory.
    pub path: PathBuf,
    /// Payload kept of each packet, behind its headers, in bytes.
    pub payload_bytes: u32,
    /// Name and version of the program, for the file's head.
    pub application: String,
    /// What the file holds, for its head: the measurement in words.
    pub comment: String,
    /// Largest size of the file in bytes; absent: what the disk has room for. A capture that reaches it ends.
    pub most_bytes: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CaptureCounts {
    pub written: u64,
    /// Packets that found no room between kernel and file.
    pub dropped: u64,
    /// Why the capture ended before its time.
    pub failed: Option<String>,
}

/// A pcapng file and its pending blocks. After a failed write it is cut back to its last whole block and closed.
#[derive(Debug)]
pub struct CaptureFile {
    /// Absent once it takes no more.
    file: Option<File>,
    path: PathBuf,
    most_bytes: Option<u64>,
    /// Whether the file is this capture's alone, and not a standard output that a reader may leave.
    is_own: bool,
    writer: Writer,
    /// Packets that are not in the file yet.
    waiting: u64,
    /// Bytes of the file that are whole blocks.
    good: u64,
    counts: CaptureCounts,
    first_ns: u64,
    last_ns: u64,
}

impl CaptureFile {
    /// Makes the file, or empties it. Errors: it cannot be written.
    pub fn create(spec: CaptureSpec) -> Result<Self, NetError> {
        let path = spec.path.clone();
        let made = File::create(&path).and_then(|file| Self::new(spec, file, true));
        made.map_err(|cause| NetError::CaptureFile { path, cause })
    }

    /// The same on standard output, whatever the path. Errors: it takes nothing.
    pub fn to_standard_output(spec: CaptureSpec) -> Result<Self, NetError> {
        let spec = CaptureSpec { path: "standard output".into(), ..spec };
        let owned = io::stdout().as_fd().try_clone_to_owned();
        let made = owned.and_then(|file| Self::new(spec, file.into(), false));
        made.map_err(|cause| NetError::Descriptors { what: "a capture on standard output", cause })
    }

    pub(super) fn new(spec: CaptureSpec, file: File, is_own: bool) -> io::Result<Self> {
        let CaptureSpec { path, application, comment, most_bytes, .. } = spec;
        let mut writer = Writer::new(&application, &system(), &comment);
        writer.bytes.reserve(FLUSH_BYTES + (1 << 17));
        let (waiting, good, first_ns, last_ns) = (0, 0, 0, 0);
        let (file, counts) = (Some(file), CaptureCounts::default());
        let mut made = Self { file, path, most_bytes, is_own, writer, waiting, good, counts, first_ns, last_ns };
        made.write()?;
        Ok(made)
    }

    /// One more interface; returns the number that packets name it by.
    pub fn interface(&mut self, described: &Interface<'_>) -> u32 {
        self.writer.interface(described)
    }

    /// One more packet. Once the file takes no more, it is dropped.
    pub fn packet(&mut self, interface: u32, taken: &CapturedPacket<'_>) {
        if !self.is_open() {
            self.counts.dropped += 1;
            return;
        }
        self.writer.packet(interface, taken);
        self.waiting += 1;
        self.counts.written += 1;
        // The NIC's clock is another one.
        if !taken.hardware {
            self.first_ns = if self.first_ns == 0 { taken.time_ns } else { self.first_ns };
            self.last_ns = taken.time_ns;
        }
        if self.writer.bytes.len() >= FLUSH_BYTES {
            self.flush();
        }
    }

    /// What became of an interface's packets: those that came, and those of them that found no room.
    pub fn statistics(&mut self, interface: u32, passed: u64, dropped: u64) {
        let (start_ns, end_ns) = (self.first_ns, self.last_ns.max(self.first_ns));
        self.writer.statistics(interface, &Statistics { start_ns, end_ns, passed, dropped });
    }

    pub fn flush(&mut self) {
        let whole = self.good + self.writer.bytes.len() as u64;
        let failed = match self.most_bytes.filter(|most| self.is_open() && whole > *most) {
            Some(most) => Some(format!("the capture has reached its largest size, {} MiB", most >> 20)),
            None => self.write().err().map(|cause| format!("writing {} failed: {cause}", self.path.display())),
        };
        if let Some(why) = failed {
            // A pipe cannot be cut; whoever reads it sees its end.
            let file = self.file.take().filter(|_| self.is_own);
            let _ = file.map(|file| file.set_len(self.good));
            self.counts.written -= self.waiting;
            self.counts.dropped += self.waiting;
            self.counts.failed = Some(why);
        }
        self.writer.bytes.clear();
        self.waiting = 0;
    }

    fn write(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        match file.write_all(&self.writer.bytes) {
            // A reader that needs no more of standard output is no error.
            Err(cause) if !self.is_own && cause.kind() == io::ErrorKind::BrokenPipe => self.file = None,
            written => {
                written?;
                self.good += self.writer.bytes.len() as u64;
            }
        }
        self.writer.bytes.clear();
        Ok(())
    }

    /// Whether it takes more.
    pub fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// The time of the first packet, in ns since 1970; 0: there is none.
    pub fn first_ns(&self) -> u64 {
        self.first_ns
    }

    /// What became of the packets, with those that found no room before they came here.
    pub fn counts(&self, dropped_before: u64) -> CaptureCounts {
        let CaptureCounts { written, dropped, failed } = self.counts.clone();
        CaptureCounts { written, dropped: dropped.saturating_add(dropped_before), failed }
    }
}

/// The kernel, for a file's head: `Linux 6.1.0`.
fn system() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {}", release.trim()).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::ring::{Addressed, Direction};
    use super::*;

    /// Catches: packets that are counted and not in a file of our own, an error where a reader has all that it wanted, and none where
    /// a file is incomplete.
    #[test]
    fn a_reader_may_leave_standard_output_only() {
        for is_own in [false, true] {
            let (reader, writer) = crate::sys::pipe().unwrap();
            let mut file = CaptureFile::new(CaptureSpec::default(), File::from(writer), is_own).unwrap();
            let way = Direction::In;
            let (frame, addressed) = (&[0; 60][..], Addressed::Unicast);
            let taken =
                CapturedPacket { time_ns: 5, hardware: false, way, addressed, vlan: None, sent_bytes: 60, frame };
            let number = file.interface(&Interface::default());
            file.packet(number, &taken);
            file.flush();
            assert!(file.is_open());
            drop(reader);
            file.packet(number, &taken);
            file.flush();
            file.packet(number, &taken);
            let counts = file.counts(7);
            assert!(!file.is_open());
            assert_eq!(counts.failed.is_some(), is_own, "{counts:?}");
            let lost = 1 + u64::from(is_own);
            assert_eq!((counts.written, counts.dropped), (3 - lost, 7 + lost));
        }
    }
}
