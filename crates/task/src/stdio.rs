//! Keeping standard output for oneself.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

/// Returns standard output as a file that is closed on exec, and points descriptor 1 at standard error, so that what a
/// preloaded library prints does not fall between our own lines.
pub fn keep_stdout() -> io::Result<File> {
    let kept = io::stdout().as_fd().try_clone_to_owned()?;
    nix::unistd::dup2_stdout(io::stderr().as_fd())?;
    Ok(File::from(kept))
}
