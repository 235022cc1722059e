//! The frames of a program on the stack in its process: asked for on its status page, read from a ring that both share.

use crate::recording::REST;
use crate::stat::{self, Process};
use crate::{BypassError, pages};
use bypass_abi::page::{self, AT_CAPTURE, AT_CAPTURE_REFUSED};
use host::private;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use xsk::{SharedWords, TapReader, TappedFrame, is_tap_open};

/// A program looks each second whether a capture is asked for.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked whether the program still runs.
const LOOK: Duration = Duration::from_millis(50);

/// The program to capture: by its process id, by its name, or the only one on the stack in its process. Errors: none or several fit, it
/// is another user's, or it has no such stack.
pub fn choose(folder: &Path, wanted: Option<&str>) -> Result<Process, BypassError> {
    let mut all = wanted.map_or_else(|| Ok(pages(folder)), |wanted| named(folder, wanted))?;
    // A name may be that of parts without the stack, too.
    if wanted.is_none() || all.len() > 1 && all.iter().any(|process| process.carrier.is_some()) {
        all.retain(|process| process.carrier.is_some());
    }
    let names: Vec<String> = all.iter().map(|process| format!("{} ({})", process.name, process.pid)).collect();
    match (all.pop(), names.len()) {
        (Some(process), 1) if process.carrier.is_some() => Ok(process),
        (Some(process), 1) => Err(BypassError::NoStack { name: process.name, pid: process.pid }),
        (Some(_), _) => Err(BypassError::Several { names }),
        (None, _) => Err(BypassError::NotBehind { wanted: "a program on --stack xdp".to_owned() }),
    }
}

/// The running programs of this process id or name behind the library. Errors: there is none, or it is another user's.
pub fn named(folder: &Path, wanted: &str) -> Result<Vec<Process>, BypassError> {
    let mut all = pages(folder);
    let id = wanted.parse::<u32>().ok();
    all.retain(|process| id.map_or_else(|| process.is_called(wanted), |id| process.pid == id));
    if !all.is_empty() {
        return Ok(all);
    }
    let owner = id.and_then(|pid| Some((pid, std::fs::metadata(format!("/proc/{pid}")).ok()?.uid())));
    Err(match owner.filter(|(_, owner)| *owner != nix::unistd::geteuid().as_raw()) {
        Some((pid, user)) => BypassError::OtherUser { pid, user },
        None => {
            BypassError::NotBehind { wanted: id.map_or_else(|| format!("'{wanted}'"), |pid| format!("process {pid}")) }
        }
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureState {
    /// No program copies frames yet.
    Waiting,
    /// This process does.
    Runs(u32),
    /// The program has ended, has become another one, or has left the interface.
    Ended,
}

/// The page of a program that was asked.
#[derive(Debug)]
struct ProgramPage {
    page: SharedWords,
    path: PathBuf,
    inode: u64,
    pid: u32,
    name: String,
    since: Instant,
    has_begun: bool,
}

#[derive(Debug)]
pub struct Capture {
    ring: TapReader,
    /// Bytes kept of each frame.
    pub(crate) snap: u32,
    asked: Option<ProgramPage>,
    looked: Instant,
    state: CaptureState,
}

impl Capture {
    /// One for a program that is not started yet: [`Capture::request`] goes to it. `snap` bytes of each frame are kept, in a
    /// ring of so many MiB. Errors: there is no memory for the ring.
    pub fn new(mib: u32, snap: u32) -> Result<Self, BypassError> {
        let ring = TapReader::new(mib, snap).map_err(|cause| BypassError::NoRing { mib, cause })?;
        Ok(Self { ring, snap, asked: None, looked: Instant::now(), state: CaptureState::Waiting })
    }

    /// One of a program that runs. Errors: as [`Capture::new`]; somebody captures it already; its page is gone.
    pub fn ask(folder: &Path, process: &Process, mib: u32, snap: u32) -> Result<Self, BypassError> {
        let (pid, name) = (process.pid, process.name.clone());
        let path = folder.join(pid.to_string());
        let opened = private::open(&path, OpenOptions::new().read(true).write(true));
        let page = opened.and_then(|file| Ok((SharedWords::map(&file, page::WORDS)?, inode(&file)?)));
        let (page, inode) = page.map_err(|_| BypassError::NotBehind { wanted: format!("process {pid}") })?;
        let mut capture = Self::new(mib, snap)?;
        let word = page.get(AT_CAPTURE);
        let before = word.map_or(0, |word| word.load(Acquire));
        // One that was killed, and that the program has not missed yet, makes way.
        let taken = is_tap_open(before)
            || word.is_none_or(|word| word.compare_exchange(before, capture.request(), AcqRel, Acquire).is_err());
        if taken {
            return Err(BypassError::Captured { name, pid, by: before >> 32 });
        }
        let since = Instant::now();
        capture.asked = Some(ProgramPage { page, path, inode, pid, name, since, has_begun: false });
        Ok(capture)
    }

    /// What the library of a program is handed, so that it is captured from the first frame on.
    pub fn request(&self) -> u64 {
        self.ring.request()
    }

    /// Waits until frames come or the program has ended; `false`: `stop` came first. Errors: as [`Capture::state`].
    pub fn begins(&mut self, stop: &AtomicBool) -> Result<bool, BypassError> {
        while self.state()? == CaptureState::Waiting {
            if stop.load(Relaxed) {
                return Ok(false);
            }
            thread::sleep(REST);
        }
        Ok(true)
    }

    /// Whether frames come. All that a program wrote before its end can still be read then. Errors: the program refused, or says
    /// nothing.
    pub fn state(&mut self) -> Result<CaptureState, BypassError> {
        let is_due = self.state == CaptureState::Waiting || self.looked.elapsed() >= LOOK;
        if is_due && self.state != CaptureState::Ended {
            self.looked = Instant::now();
            self.state = self.look()?;
        }
        Ok(self.state)
    }

    fn look(&mut self) -> Result<CaptureState, BypassError> {
        let owner = self.ring.owner();
        // The program tells its interface after it has taken the ring.
        let runs =
            |pid| if self.ring.described().1.is_some() { CaptureState::Runs(pid) } else { CaptureState::Waiting };
        let Some(asked) = &mut self.asked else {
            // The next process behind the same command takes over from one that was killed.
            let dead = owner.filter(|pid| stat::started(*pid).is_none());
            dead.inspect(|pid| self.ring.release(*pid));
            return Ok(owner.filter(|_| dead.is_none()).map_or(CaptureState::Waiting, runs));
        };
        // exec makes another page, under the same name.
        let is_same = std::fs::metadata(&asked.path).is_ok_and(|facts| facts.ino() == asked.inode);
        if !is_same || !stat::is_of_living(asked.pid, &asked.path) {
            return Ok(CaptureState::Ended);
        }
        if let Some(pid) = owner {
            asked.has_begun = true;
            return Ok(runs(pid));
        }
        let (name, pid) = (asked.name.clone(), asked.pid);
        let word = |at: usize| asked.page.get(at).map_or(0, |word| word.load(Relaxed));
        if asked.has_begun {
            return Ok(CaptureState::Ended);
        }
        if word(AT_CAPTURE) != self.ring.request() {
            let number = i32::try_from(word(AT_CAPTURE_REFUSED)).unwrap_or(0);
            return Err(BypassError::CaptureRefused { name, pid, cause: io::Error::from_raw_os_error(number) });
        }
        if asked.since.elapsed() > PATIENCE {
            return Err(BypassError::Silent { name, pid });
        }
        Ok(CaptureState::Waiting)
    }

    /// The interface that frames are captured on, and how they get past the kernel.
    pub fn interface(&self) -> (String, &'static str) {
        let (name, backend) = self.ring.described();
        (name, backend.map_or("unknown", xsk::Backend::word))
    }

    /// The next frame, its bytes in `frame`; `None` where none waits. Errors: the program's memory is broken: nothing more can be read.
    pub fn next(&mut self, frame: &mut Vec<u8>) -> Result<Option<TappedFrame>, BypassError> {
        self.ring.next(frame).map_err(BypassError::Ring)
    }

    /// Frames that found no room so far.
    pub fn dropped(&self) -> u64 {
        self.ring.dropped()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if let Some(word) = self.asked.as_ref().and_then(|asked| asked.page.get(AT_CAPTURE)) {
            // The program ends it at its next look. One that has ended it already has nothing here.
            let _ = word.compare_exchange(self.ring.request(), 0, AcqRel, Relaxed);
        }
    }
}

fn inode(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.ino())
}
