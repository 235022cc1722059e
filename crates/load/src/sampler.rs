//! Looks at a load each 100 ms: how much work it has done, and how busy its CPUs were.

use crate::LoadError;
use crate::cpustat::{self, CpuTimes};
use crate::engine::Shared;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// Distance of samples.
pub(crate) const INTERVAL_NS: u64 = 100_000_000;

/// One look: sums since the start of the load, or of the machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    /// CLOCK_MONOTONIC.
    pub(crate) at_ns: u64,
    /// Units of work.
    pub(crate) work: u64,
    /// Times of the load's CPUs.
    pub(crate) times: CpuTimes,
}

/// What a load's evenness is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Units of work a second.
    Work,
    /// Busy share of its CPUs: for loads whose units take longer than an interval.
    Busy,
}

impl Measure {
    /// Rates between neighbouring looks.
    pub(crate) fn rates(self, looks: &[Look]) -> Vec<f64> {
        looks.windows(2).filter_map(|pair| if let [from, to] = pair { self.rate(from, to) } else { None }).collect()
    }

    fn rate(self, from: &Look, to: &Look) -> Option<f64> {
        match self {
            Self::Work => {
                let elapsed = to.at_ns.checked_sub(from.at_ns).filter(|&elapsed| elapsed > 0)?;
                Some(to.work.saturating_sub(from.work) as f64 * 1e9 / elapsed as f64)
            }
            Self::Busy => busy_share(from, to),
        }
    }
}

/// Share of the CPUs' time that was busy between two looks, 0 to 1.
pub(crate) fn busy_share(from: &Look, to: &Look) -> Option<f64> {
    let whole = to.times.whole.checked_sub(from.times.whole).filter(|&whole| whole > 0)?;
    Some(to.times.busy.saturating_sub(from.times.busy) as f64 / whole as f64)
}

/// The thread that looks. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Sampler {
    shared: Arc<Shared>,
    looks: Arc<Mutex<Vec<Look>>>,
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    pub(crate) fn start(shared: &Arc<Shared>) -> Result<Self, LoadError> {
        let first = look(shared, &mut String::new())?;
        let looks = Arc::new(Mutex::new(vec![first]));
        let (stop, stopped) = mpsc::channel();
        let (theirs, kept) = (Arc::clone(shared), Arc::clone(&looks));
        let thread = std::thread::Builder::new()
            .name("load-sampler".to_owned())
            .spawn(move || {
                let mut buffer = String::new();
                let mut due = first.at_ns;
                loop {
                    // On a fixed raster, so that a late look does not shift all later ones.
                    due = (due + INTERVAL_NS).max(clock::monotonic_ns());
                    let pause = Duration::from_nanos(due.saturating_sub(clock::monotonic_ns()));
                    if stopped.recv_timeout(pause) != Err(mpsc::RecvTimeoutError::Timeout) {
                        return;
                    }
                    if let Ok(look) = look(&theirs, &mut buffer) {
                        kept.lock().unwrap_or_else(PoisonError::into_inner).push(look);
                    }
                }
            })
            .map_err(|cause| LoadError::Thread { cause })?;
        Ok(Self { shared: Arc::clone(shared), looks, stop: Some(stop), thread: Some(thread) })
    }

    /// All looks so far.
    pub(crate) fn looks(&self) -> Vec<Look> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A look at this moment, outside the raster.
    pub(crate) fn now(&self) -> Result<Look, LoadError> {
        look(&self.shared, &mut String::new())
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn look(shared: &Shared, buffer: &mut String) -> Result<Look, LoadError> {
    let times = cpustat::read(&shared.cpus, buffer)?;
    Ok(Look { at_ns: clock::monotonic_ns(), work: shared.work(), times })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_by_time_not_by_look() {
        let look = |ms: u64, work, busy, whole| Look { at_ns: ms * 1_000_000, work, times: CpuTimes { busy, whole } };
        // The second interval is late and longer; its rate is the same.
        let looks = [look(0, 0, 0, 0), look(100, 50, 5, 20), look(300, 150, 25, 60), look(300, 150, 25, 60)];
        assert_eq!(Measure::Work.rates(&looks), [500.0, 500.0]);
        assert_eq!(Measure::Busy.rates(&looks), [0.25, 0.5]);
    }
}
