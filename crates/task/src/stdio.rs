//! Keeping standard output for oneself.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

/// Returns standard output (close-on-exec) and points descriptor 1 at stderr, for prints of preloaded libraries.
pub fn keep_stdout() -> io::Result<File> {
    let kept = io::stdout().as_fd().try_clone_to_owned()?;
    nix::unistd::dup2_stdout(io::stderr().as_fd())?;
    Ok(File::from(kept))
}
