//! Places where a test may kill the process.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

static PASSED: AtomicU32 = AtomicU32::new(0);

/// The variable that names the fault point to die at.
pub const KILL_AT: &str = "WINDHOVER_KILL_AT";

/// With `WINDHOVER_KILL_AT=N` the process kills itself at the Nth fault point: tests undo after a death at each step.
pub fn fault_point() {
    static AT: OnceLock<Option<u32>> = OnceLock::new();
    let at = *AT.get_or_init(|| std::env::var(KILL_AT).ok()?.parse().ok());
    if at.is_some() && at == Some(PASSED.fetch_add(1, Ordering::SeqCst) + 1) {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGKILL);
        // The signal arrives before the call returns; should it ever not, nothing may go on from here.
        std::process::abort();
    }
}
