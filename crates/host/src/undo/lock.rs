//! The lock of a state directory: one process at a time changes a machine.

use super::{StateDir, UndoError};
use crate::private;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

const LOOK: Duration = Duration::from_millis(20);

/// Held while a machine is changed: a file lock (flock(2)) on a descriptor that is closed on exec.
#[derive(Debug)]
pub struct Lock {
    _file: Flock<File>,
}

impl StateDir {
    /// Waits for the lock: [`UndoError::Locked`] when the time is over.
    pub fn lock(&self, patience: Duration) -> Result<Lock, UndoError> {
        let path = self.path().join("lock");
        let deadline = Instant::now() + patience;
        loop {
            self.make()?;
            let file = private::open(&path, OpenOptions::new().read(true).write(true).create(true).truncate(false));
            let file = match file {
                Ok(file) => file,
                // The directory of a namespace goes with its last set.
                Err(cause) if cause.kind() == io::ErrorKind::NotFound && Instant::now() < deadline => continue,
                Err(cause) => return Err(UndoError::log(&path, "create")(cause)),
            };
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(file) if !is_at(&file, &path) => {}
                Ok(mut file) => {
                    // Only words for those who wait.
                    let _ = file.set_len(0);
                    let _ = file.write_all(format!("{}\n", std::process::id()).as_bytes());
                    return Ok(Lock { _file: file });
                }
                Err((_, Errno::EWOULDBLOCK | Errno::EINTR)) => {
                    if Instant::now() >= deadline {
                        let holder = std::fs::read_to_string(&path).unwrap_or_default();
                        let holder = Some(holder.trim().to_owned()).filter(|holder| !holder.is_empty());
                        return Err(UndoError::Locked(holder.unwrap_or_else(|| "unknown".to_owned())));
                    }
                    std::thread::sleep(LOOK.min(deadline.saturating_duration_since(Instant::now())));
                }
                Err((_, errno)) => return Err(UndoError::log(&path, "lock")(errno.into())),
            }
        }
    }
}

/// Whether the file is still the one at its path: its directory may have been removed before it was locked.
fn is_at(file: &File, path: &Path) -> bool {
    let key = |found: std::fs::Metadata| (found.dev(), found.ino());
    file.metadata().ok().map(key) == std::fs::metadata(path).ok().map(key)
}
