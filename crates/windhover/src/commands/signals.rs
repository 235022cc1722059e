//! Asking a command to end: the first SIGINT, SIGTERM or SIGHUP asks, the second ends the process at once.

use anyhow::Context as _;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// A flag that the first signal sets.
pub(crate) fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in ENDING {
        // Registered first, so that it looks at the flag before this signal sets it.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop)).context("signal handler")?;
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("signal handler")?;
    }
    Ok(stop)
}

/// Calls `ask` on a thread of its own at the first signal. The thread sleeps until then: it wakes up no CPU that
/// somebody measures on.
pub(crate) fn on_stop(ask: impl Fn() + Send + 'static) -> anyhow::Result<()> {
    let _flag = stop_flag()?;
    let mut signals = signal_hook::iterator::Signals::new(ENDING).context("signal handler")?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || signals.forever().for_each(|_| ask()))
        .context("cannot start a thread")?;
    Ok(())
}

/// Calls `pass` with each signal that would end the program, on a thread of its own, and goes on.
pub(crate) fn each(pass: impl Fn(i32) + Send + 'static) -> anyhow::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new(ENDING).context("signal handler")?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || signals.forever().for_each(pass))
        .context("cannot start a thread")?;
    Ok(())
}
