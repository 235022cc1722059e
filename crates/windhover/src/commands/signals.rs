//! SIGINT, SIGTERM and SIGHUP. One rule for all commands: the first asks for an orderly stop while the command has something
//! to put back or a partial result to write, and ends the process at any other time; the second always ends it at once,
//! unless it follows within 200 ms, as the two of coreutils' `timeout` do. A keeper process then puts back what the command
//! changed. The handler itself ends the process, by the signal's default action, so it makes no difference what the threads compute
//! or wait for.

use anyhow::Context as _;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::Cause;
use signal_hook::{SigId, flag, low_level};
use std::ops::Deref;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A flag that the first signal sets. When it is dropped, the signals end the process again. One at a time.
pub(crate) struct StopFlag {
    asked: Arc<AtomicBool>,
    registered: Vec<SigId>,
}

impl StopFlag {
    pub(crate) fn share(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }
}

impl Deref for StopFlag {
    type Target = AtomicBool;

    fn deref(&self) -> &AtomicBool {
        &self.asked
    }
}

impl Drop for StopFlag {
    fn drop(&mut self) {
        task::expect_stop(false);
        for id in self.registered.drain(..) {
            low_level::unregister(id);
        }
    }
}

/// Begins the time in which the first signal asks for an orderly stop.
pub(crate) fn stop_flag() -> anyhow::Result<StopFlag> {
    static DEFAULT: Mutex<bool> = Mutex::new(false);
    let mut installed = DEFAULT.lock().unwrap_or_else(PoisonError::into_inner);
    let mut stop = StopFlag { asked: Arc::default(), registered: Vec::new() };
    if !*installed {
        // So that from its first handler on no signal ends it, and none is lost.
        task::expect_stop(true);
    }
    for signal in ending() {
        stop.registered.push(flag::register(signal, stop.share()).context("signal handler")?);
        if !*installed {
            task::end_at_signal(signal).context("signal handler")?;
        }
    }
    *installed = true;
    task::expect_stop(true);
    Ok(stop)
}

/// Calls `ask` at the first signal, while the flag lives, on a thread that sleeps until then (no wake-ups).
pub(crate) fn on_stop(ask: impl Fn() + Send + 'static) -> anyhow::Result<StopFlag> {
    let stop = stop_flag()?;
    let mut signals = signal_hook::iterator::Signals::new(ending()).context("signal handler")?;
    spawn(move || signals.forever().for_each(|_| ask()))?;
    Ok(stop)
}

#[derive(Clone, Default)]
pub(crate) struct Programs(Arc<Mutex<Passing>>);

#[derive(Default)]
struct Passing {
    pids: Vec<i32>,
    signal: Option<i32>,
}

impl Programs {
    /// A signal that came while it was started is passed on to it too.
    pub(crate) fn add(&self, pid: u32) {
        if let Ok(pid) = i32::try_from(pid) {
            let mut passing = self.lock();
            passing.pids.push(pid);
            if let Some(signal) = passing.signal {
                let _ = task::send_signal(pid, signal);
            }
        }
    }

    /// Call before reaping, as the number may be reused. Never returns if the program's end is this process's.
    pub(crate) fn remove(&self, pid: u32) {
        self.lock().pids.retain(|&known| u32::try_from(known) != Ok(pid));
    }

    /// While what it gives back lives, [`Self::remove`] waits.
    fn signal(&self, signal: i32) -> MutexGuard<'_, Passing> {
        let mut passing = self.lock();
        passing.signal = Some(signal);
        for &pid in &passing.pids {
            let _ = task::send_signal(pid, signal);
        }
        passing
    }

    fn lock(&self) -> MutexGuard<'_, Passing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes signals to programs of our process group (a terminal does so). A second one kills them and this process.
pub(crate) fn pass_on() -> anyhow::Result<Programs> {
    const SIGKILL: i32 = 9;
    let programs = Programs::default();
    let passed = programs.clone();
    let mut signals = SignalsInfo::<WithOrigin>::new(ending()).context("signal handler")?;
    spawn(move || {
        let mut first: Option<Instant> = None;
        for origin in signals.forever().filter(|origin| origin.cause != Cause::Kernel) {
            let first = *first.get_or_insert_with(Instant::now);
            if first.elapsed() > Duration::from_nanos(task::SAME_REQUEST_NS) {
                // Whoever waits for their end must not end this process by an exit code first.
                let _held = passed.signal(SIGKILL);
                let _ = low_level::emulate_default_handler(origin.signal);
            }
            drop(passed.signal(origin.signal));
        }
    })?;
    Ok(programs)
}

/// A hang-up that whoever started us ignores (nohup(1)) stays ignored.
fn ending() -> impl Iterator<Item = i32> {
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| signal != SIGHUP || !task::is_ignored(SIGHUP))
}

fn spawn(work: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    let thread = std::thread::Builder::new().name("signals".to_owned());
    thread.spawn(work).map(drop).context("cannot start a thread")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;

    /// A wrapper's first signal was lost when it came before the wrapper knew the program's number.
    #[test]
    fn a_signal_that_comes_while_a_program_is_started_reaches_it() {
        let programs = Programs::default();
        drop(programs.signal(SIGTERM));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        programs.add(child.id());
        assert_eq!(child.wait().unwrap().signal(), Some(SIGTERM));
    }
}
