//! Resource limits (getrlimit(2)).

use crate::TaskError;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::time::Duration;

/// Limits CPU time between blocking calls (RLIMIT_RTTIME, soft); beyond it SIGXCPU ends the process. `None`: no limit.
pub fn set_rt_limit(most: Option<Duration>) -> Result<(), TaskError> {
    let wanted = most.map_or(libc::RLIM_INFINITY, |most| u64::try_from(most.as_micros()).unwrap_or(u64::MAX));
    let failed = |cause: nix::Error| TaskError::refused(format!("RLIMIT_RTTIME cannot be set to {wanted}"), cause);
    let (_, hard) = getrlimit(Resource::RLIMIT_RTTIME).map_err(failed)?;
    setrlimit(Resource::RLIMIT_RTTIME, wanted.min(hard), hard).map_err(failed)
}

/// Makes room for at least this many open files (RLIMIT_NOFILE), raising the hard limit too where that is allowed.
pub fn raise_open_files(wanted: u64) -> Result<(), TaskError> {
    let failed = |cause: nix::Error| TaskError::Refused {
        what: format!("RLIMIT_NOFILE cannot be set to {wanted}"),
        cause: cause.into(),
        remedy: "; ask for fewer idle descriptors or raise the hard limit (limits.conf(5): nofile)",
    };
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(failed)?;
    if soft >= wanted {
        return Ok(());
    }
    setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted)).map_err(failed)
}
