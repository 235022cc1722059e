//! What the tests of this crate share: roles played by copies of the test binary, and looking for processes.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::path::PathBuf;
use std::time::{Duration, Instant};
use windhover_task::{Launch, Stream};

/// Names the part that a copy of the test binary plays.
pub(crate) const ROLE: &str = "WINDHOVER_TEST_ROLE";

/// The part this process plays, if it is such a copy.
pub(crate) fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Starts a copy of this test binary in a part, which the test named `test` plays. Its stdin and stdout are pipes.
pub(crate) fn copy(test: &str, role: &str) -> Launch {
    Launch::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--quiet"])
        .env(ROLE, role)
        .stdin(Stream::Pipe)
        .stdout(Stream::Pipe)
}

/// As [`copy`], as an unprivileged user; `None` with the reason where that cannot be.
pub(crate) fn unprivileged(test: &str, role: &str) -> Result<Launch, String> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(copy(test, role));
    }
    let ids = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let program = std::env::current_exe().unwrap();
    let readable = Launch::new("setpriv").args(ids).arg("test").arg("-x").arg(&program).finish(&[], SOON);
    match readable {
        Ok(done) if done.status.success() => {}
        Ok(_) => return Err("the user nobody cannot execute the test binary".to_owned()),
        Err(error) => return Err(error.to_string()),
    }
    Ok(Launch::new("setpriv")
        .args(ids)
        .arg(program)
        .args([test, "--exact", "--nocapture", "--quiet"])
        .env(ROLE, role)
        .stdin(Stream::Pipe)
        .stdout(Stream::Pipe))
}

pub(crate) fn skipped(test: &str, reason: &str) {
    eprintln!("SKIPPED {test}: {reason}");
}

pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Bound for everything that happens at once on a machine that is not stuck.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Waits until something holds; false when it does not within the bound.
pub(crate) fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < SOON {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    holds()
}

/// A time to sleep that no other process has as its argument: marks the processes of one test.
pub(crate) fn marker(test: u32) -> String {
    format!("1000.{test}{}", std::process::id())
}

/// Processes, not zombies, that have the marker as an argument of their own.
pub(crate) fn marked(marker: &str) -> Vec<u32> {
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| {
        let arguments = std::fs::read(PathBuf::from(format!("/proc/{pid}/cmdline"))).unwrap_or_default();
        let sleeps = arguments.starts_with(b"sleep\0");
        sleeps && arguments.split(|&byte| byte == 0).any(|argument| argument == marker.as_bytes())
    })
    .collect()
}

/// Kills what a failed test left, by process id, so that nothing stays behind.
pub(crate) struct Broom(pub(crate) String);

impl Drop for Broom {
    fn drop(&mut self) {
        for pid in marked(&self.0) {
            let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        }
    }
}
