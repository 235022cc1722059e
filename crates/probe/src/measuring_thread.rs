//! Runs a measurement on a thread of its own. The calling thread passes results on while the measuring thread waits.

use crate::context::LiveCursor;
use crate::{Context, ProbeError, thread};
use model::ProbeSpec;
use model::worker::Measured;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;
use task::Interrupter;

/// How often the calling thread looks whether the program was asked to end.
const LOOK: Duration = Duration::from_millis(200);
/// Between two signals to a measuring thread that shall end.
const NUDGE: Duration = Duration::from_millis(1);

enum StageMessage {
    Measuring(Interrupter),
    /// A result; the measuring thread waits until it is handed on.
    Result(Box<Measured>),
}

/// Runs `measure` on a thread of its own; results go through `sink` on the calling one, while the measuring one waits. Its
/// blocked calls are interrupted once the program is asked to end.
pub(crate) fn run_on_measuring_thread<T: Send>(
    spec: &ProbeSpec,
    context: &Context,
    sink: &mut dyn FnMut(Measured),
    measure: impl FnOnce(&mut dyn FnMut(Measured)) -> Result<T, ProbeError> + Send,
) -> Result<T, ProbeError> {
    let cpus: Vec<Option<u32>> = spec.initiator_cpus().collect();
    let _affinity = AffinityGuard::away_from(&cpus);
    std::thread::scope(|scope| {
        let (messages, heard) = sync_channel(1);
        let (handed_on, go_on) = sync_channel(1);
        let thread = thread::spawn_scoped(scope, "measure", move || {
            let _ = messages.send(StageMessage::Measuring(Interrupter::for_current_thread()?));
            measure(&mut |measured| {
                if messages.send(StageMessage::Result(Box::new(measured))).is_ok() {
                    let _: Result<(), _> = go_on.recv();
                }
            })
        })?;
        let mut measuring = None;
        let mut before = LiveCursor::default();
        loop {
            let pause = if context.stopping() { NUDGE } else { LOOK };
            match heard.recv_timeout(pause) {
                Ok(StageMessage::Measuring(thread)) => measuring = Some(thread),
                Ok(StageMessage::Result(measured)) => {
                    sink(*measured);
                    let _ = handed_on.send(());
                }
                Err(RecvTimeoutError::Timeout) => {
                    // Open loops report their intervals themselves.
                    if let Some(live) = &context.live
                        && let Some(interval) = context.progress.since(&mut before)
                    {
                        live.report(interval);
                    }
                    if let Some(thread) = measuring.filter(|_| context.stopping()) {
                        thread.interrupt();
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        thread::joined(thread.join())
    })
}

/// Keeps the calling thread off the measuring CPUs, and lets it back when dropped.
pub(crate) struct AffinityGuard(Option<model::CpuList>);

impl AffinityGuard {
    pub(crate) fn away_from(measuring: &[Option<u32>]) -> Self {
        let Some(first) = measuring.iter().flatten().next() else { return Self(None) };
        let before = task::allowed_cpus().ok();
        let housekeeping = task::housekeeping_cpus(Some(*first));
        let others: model::CpuList = housekeeping.iter().filter(|cpu| !measuring.contains(&Some(*cpu))).collect();
        // Best effort: a thread that only waits disturbs little, and on a machine without another CPU it shares theirs.
        if !others.is_empty() {
            let _ = task::set_affinity(&others);
        }
        Self(before)
    }
}

impl Drop for AffinityGuard {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = task::set_affinity(before);
        }
    }
}
