//! The wish of a person or of the system that the command ends: SIGINT, SIGTERM, SIGHUP.

use super::install;
use crate::TaskError;
use std::io;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// The first signal that came; 0 for none.
static FIRST: AtomicI32 = AtomicI32::new(0);
/// How many came.
static COUNT: AtomicU32 = AtomicU32::new(0);

extern "C" fn note(signal: libc::c_int) {
    let _ = FIRST.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
    COUNT.fetch_add(1, Ordering::Relaxed);
}

/// Notes the signals that ask for an end instead of ending at once. Blocked calls of the thread that gets the signal return
/// EINTR; whoever waits longer looks here now and then.
#[derive(Debug, Clone, Copy)]
pub struct Termination(());

impl Termination {
    /// Installs the handlers for the whole process. A signal that is ignored (SIGHUP under nohup(1)) stays so.
    ///
    /// # Errors
    /// [`TaskError::Handler`].
    pub fn install() -> Result<Self, TaskError> {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: sigaction is plain data; the call with no new action only fills it in.
            let ignored = unsafe {
                let mut now: libc::sigaction = std::mem::zeroed();
                if libc::sigaction(signal, std::ptr::null(), &raw mut now) == -1 {
                    return Err(TaskError::Handler { signal, cause: io::Error::last_os_error() });
                }
                now.sa_sigaction == libc::SIG_IGN
            };
            if !ignored {
                install(signal, note)?;
            }
        }
        Ok(Self(()))
    }

    /// Whether an end was asked for.
    #[must_use]
    pub fn requested(&self) -> bool {
        self.signal().is_some()
    }

    /// The first signal that asked for it.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        Some(FIRST.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
    }

    /// How often it was asked for: at the second time a person wants no further tidying.
    #[must_use]
    pub fn count(&self) -> u32 {
        COUNT.load(Ordering::Relaxed)
    }
}
