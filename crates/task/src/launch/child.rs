//! A process that was started, until it is waited for. Nothing that was started outlives its [`Child`].

use super::Containment;
use super::spawn::process_descriptor;
use crate::{TaskError, check};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::process::{ChildStderr, ChildStdin, ChildStdout, ExitStatus};
use std::time::{Duration, Instant};

/// How long an intermediate gets to take its namespace down before it is killed itself.
const INTERMEDIATE: Duration = Duration::from_secs(2);
/// How long the rest of a killed group may take to disappear; another process may have to reap it.
const GROUP: Duration = Duration::from_millis(500);
/// Between two looks at a child on kernels without process descriptors.
const LOOK: Duration = Duration::from_millis(2);

/// A started process. Dropping it kills it and its group, and waits for it.
#[derive(Debug)]
pub struct Child {
    inner: std::process::Child,
    program: String,
    own_group: bool,
    containment: Containment,
    descriptor: Option<OwnedFd>,
    status: Option<ExitStatus>,
}

/// What a program printed and how it ended.
#[derive(Debug, Clone)]
pub struct Finished {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Child {
    pub(super) fn new(inner: std::process::Child, program: String, own_group: bool, containment: Containment) -> Self {
        let descriptor = process_descriptor(inner.id());
        Self { inner, program, own_group, containment, descriptor, status: None }
    }

    /// Its process id, as the starter sees it.
    pub fn pid(&self) -> u32 {
        self.inner.id()
    }

    pub fn program(&self) -> &str {
        &self.program
    }

    /// How surely its descendants die with it.
    pub fn containment(&self) -> Containment {
        self.containment
    }

    /// The pipe to its stdin, once, when there is one. Dropping the pipe closes the child's stdin.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.inner.stdin.take()
    }

    /// The pipe from its stdout, once, when there is one.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.inner.stdout.take()
    }

    /// The pipe from its stderr, once, when there is one.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.inner.stderr.take()
    }

    /// How it ended, if it has. When it has, what is left of its process group is killed.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>, TaskError> {
        self.wait_timeout(Duration::ZERO)
    }

    /// Waits until it ends. Its stdin pipe, if not taken, is closed first.
    pub fn wait(&mut self) -> Result<ExitStatus, TaskError> {
        drop(self.inner.stdin.take());
        loop {
            if let Some(status) = self.wait_timeout(Duration::from_secs(3600))? {
                return Ok(status);
            }
        }
    }

    /// Waits until it ends, at most `timeout`; `None` when it still runs.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Option<ExitStatus>, TaskError> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.status {
                return Ok(Some(status));
            }
            if self.has_ended()? {
                return self.reap().map(Some);
            }
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            self.pause(left);
        }
    }

    /// Pauses until it has ended, or somewhat less: an interrupted wait, too, just looks again.
    fn pause(&self, most: Duration) {
        match &self.descriptor {
            Some(descriptor) => drop(poll(&mut [entry(descriptor.as_raw_fd(), libc::POLLIN)], most)),
            None => std::thread::sleep(LOOK.min(most)),
        }
    }

    /// Waits until it has ended and leaves it unreaped: /proc/PID still tells what it used, until [`Child::wait`].
    pub fn wait_end(&mut self) -> Result<(), TaskError> {
        while self.status.is_none() && !self.has_ended()? {
            self.pause(Duration::from_secs(3600));
        }
        Ok(())
    }

    /// Sends a signal to the process, not to its group. Once it is known to have ended nothing happens.
    pub fn signal(&mut self, signal: i32) -> Result<(), TaskError> {
        if self.status.is_some() {
            return Ok(());
        }
        let failed =
            |cause| TaskError::refused(format!("{} (process {}) cannot be signalled", self.program, self.pid()), cause);
        self.send(false, signal).map_err(failed)
    }

    /// Kills it and its group (SIGKILL), or all descendants in its pid namespace, and waits until all have ended.
    pub fn kill(&mut self) -> Result<ExitStatus, TaskError> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        if self.containment == Containment::UserAndPidNamespace
            && self.send(false, libc::SIGTERM).is_ok()
            && let Some(status) = self.wait_timeout(INTERMEDIATE)?
        {
            return Ok(status);
        }
        // It may have ended on its own meanwhile; what counts is that waiting succeeds.
        let _ = self.send(self.own_group, libc::SIGKILL);
        self.wait()
    }

    /// Feeds it `input` and reads both pipes until it ends; see [`super::Launch::finish`].
    pub(super) fn collect(mut self, mut input: &[u8], timeout: Duration) -> Result<Finished, TaskError> {
        let start = Instant::now();
        let (mut stdin, mut stdout, mut stderr) = (self.take_stdin(), self.take_stdout(), self.take_stderr());
        let (mut printed, mut complained) = (Vec::new(), Vec::new());
        let program = self.program.clone();
        let failed = |stream| {
            let what = format!("{program}: its {stream} cannot be used");
            move |cause: io::Error| TaskError::refused(what, cause)
        };
        for descriptor in [raw(&stdin), raw(&stdout), raw(&stderr)] {
            nonblocking(descriptor).map_err(failed("pipes"))?;
        }
        while stdout.is_some() || stderr.is_some() {
            let ended = self.try_wait()?.is_some();
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() && !ended {
                self.kill()?;
                return Err(TaskError::TimedOut { program, timeout_ms: timeout.as_millis() });
            }
            let process = self.descriptor.as_ref().map_or(-1, AsRawFd::as_raw_fd);
            let mut entries = [
                entry(raw(&stdin), libc::POLLOUT),
                entry(raw(&stdout), libc::POLLIN),
                entry(raw(&stderr), libc::POLLIN),
                entry(process, libc::POLLIN),
            ];
            if !ended {
                // Without a process descriptor the end is only seen by looking.
                let most = if process < 0 { LOOK } else { left };
                let _ = poll(&mut entries, left.min(most));
            }
            if let Some(pipe) = &mut stdin
                && !feed(pipe, &mut input)
            {
                stdin = None;
            }
            if stdout.as_mut().map(|pipe| drain(pipe, &mut printed)).transpose().map_err(failed("stdout"))?
                == Some(true)
            {
                stdout = None;
            }
            if stderr.as_mut().map(|pipe| drain(pipe, &mut complained)).transpose().map_err(failed("stderr"))?
                == Some(true)
            {
                stderr = None;
            }
            if ended {
                // A descendant that left the group may hold the pipes open; the program's own words are read.
                break;
            }
        }
        drop(stdin);
        match self.wait_timeout(timeout.saturating_sub(start.elapsed()))? {
            Some(status) => Ok(Finished { status, stdout: printed, stderr: complained }),
            None => {
                self.kill()?;
                Err(TaskError::TimedOut { program, timeout_ms: timeout.as_millis() })
            }
        }
    }

    /// Whether it has ended, leaving it to be reaped: until then its number cannot become another process'.
    fn has_ended(&self) -> Result<bool, TaskError> {
        // SAFETY: siginfo_t is plain data that the call fills in; the process is our own child.
        let (status, pid) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            (libc::waitid(libc::P_PID, self.inner.id(), &raw mut info, flags), info.si_pid())
        };
        if status == -1 { Err(self.wait_failed(io::Error::last_os_error())) } else { Ok(pid != 0) }
    }

    /// Collects the status of a child that has ended, after killing what is left of its group.
    fn reap(&mut self) -> Result<ExitStatus, TaskError> {
        if self.own_group {
            let _ = self.send(true, libc::SIGKILL);
        }
        let status = self.inner.wait().map_err(|cause| self.wait_failed(cause))?;
        self.status = Some(status);
        if self.own_group {
            self.clear_group();
        }
        Ok(status)
    }

    /// Waits until the killed group is empty. Members that came to us as init of a pid namespace are reaped.
    fn clear_group(&self) {
        let Ok(group) = libc::pid_t::try_from(self.inner.id()) else { return };
        let start = Instant::now();
        loop {
            let mut status = 0;
            // SAFETY: `status` is valid; only children of this process in that group can be meant.
            while unsafe { libc::waitpid(-group, &raw mut status, libc::WNOHANG) } > 0 {}
            // SAFETY: takes numbers only; signal 0 only asks.
            let empty = unsafe { libc::kill(-group, 0) } == -1;
            if empty || start.elapsed() >= GROUP {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn wait_failed(&self, cause: io::Error) -> TaskError {
        TaskError::refused(format!("{} (process {}) cannot be waited for", self.program, self.inner.id()), cause)
    }

    fn send(&self, group: bool, signal: i32) -> io::Result<()> {
        let Ok(pid) = libc::pid_t::try_from(self.inner.id()) else { return Ok(()) };
        // SAFETY: takes numbers only; the child is not reaped, so the number is its own.
        check(unsafe { libc::kill(if group { -pid } else { pid }, signal) })
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn raw<T: AsRawFd>(pipe: &Option<T>) -> RawFd {
    // poll(2) skips negative descriptors.
    pipe.as_ref().map_or(-1, AsRawFd::as_raw_fd)
}

fn entry(fd: RawFd, events: libc::c_short) -> libc::pollfd {
    libc::pollfd { fd, events, revents: 0 }
}

fn poll(entries: &mut [libc::pollfd], timeout: Duration) -> io::Result<()> {
    // Rounded up, so that the last fraction of a millisecond is slept, not spun.
    let milliseconds = libc::c_int::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(libc::c_int::MAX);
    let count = entries.len() as libc::nfds_t;
    // SAFETY: `count` valid entries.
    check(unsafe { libc::poll(entries.as_mut_ptr(), count, milliseconds) })
}

fn nonblocking(descriptor: RawFd) -> io::Result<()> {
    if descriptor < 0 {
        return Ok(());
    }
    // SAFETY: takes numbers only; the descriptor is this value's end of a pipe that no other code reads or writes.
    check(unsafe {
        let flags = libc::fcntl(descriptor, libc::F_GETFL);
        libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_NONBLOCK)
    })
}

/// Writes what fits; false when all is written or the reader has closed.
fn feed(pipe: &mut ChildStdin, input: &mut &[u8]) -> bool {
    while !input.is_empty() {
        match pipe.write(input) {
            Ok(written) => *input = input.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
    false
}

/// Reads what is there; true at the end of the stream.
fn drain(pipe: &mut impl Read, into: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0_u8; 16 * 1024];
    loop {
        match pipe.read(&mut buffer) {
            Ok(0) => return Ok(true),
            Ok(count) => into.extend_from_slice(buffer.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}
