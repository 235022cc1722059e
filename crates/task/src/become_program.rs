//! The calling process becomes another program (execve(2)): policy, CPUs, limits and timer slack stay what they are.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Becomes a program, found by path or on PATH, with this process' standard streams and directory, and its environment with
/// some variables set. Comes back only when that failed.
///
/// With `stopped` the program stops before its first instruction for [`crate::lock_and_prefault`] of the parent, which
/// must be waiting for it.
pub fn become_program(
    program: &OsString,
    args: &[OsString],
    variables: &[(OsString, OsString)],
    stopped: bool,
) -> io::Error {
    if stopped {
        // SAFETY: takes numbers only: lets our parent trace us, which makes the exec below stop.
        if unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } != 0 {
            return io::Error::last_os_error();
        }
    }
    Command::new(program).args(args).envs(variables.iter().map(|(name, value)| (name, value))).exec()
}
