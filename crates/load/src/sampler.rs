//! Looks at a load each 100 ms: how much work it has done, and how busy its CPUs were.

use crate::LoadError;
use crate::cpustat::{self, CpuTimes};
use crate::cputime;
use crate::engine::Shared;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

pub(crate) const INTERVAL_NS: u64 = 100_000_000;

/// One look: sums since the start of the load, or of the machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadSample {
    pub(crate) at_ns: u64,
    pub(crate) work: u64,
    pub(crate) times: CpuTimes,
    /// CPU time that the load has had, in ns; only where [`Measure::Cpu`] asks for it and the kernel counts it.
    pub(crate) cpu_ns: Option<u64>,
}

/// What a load's evenness is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Units of work a second.
    Work,
    /// CPU time in CPUs, for loads whose units are long; the busy share of its CPUs where the kernel does not count it.
    Cpu,
}

impl Measure {
    pub(crate) fn rates(self, looks: &[LoadSample]) -> Vec<f64> {
        // A look that missed its CPU time makes the interval longer, rather than being compared by other means.
        let told = self == Self::Cpu && looks.iter().any(|look| look.cpu_ns.is_some());
        let looks: Vec<&LoadSample> = looks.iter().filter(|look| !told || look.cpu_ns.is_some()).collect();
        looks.windows(2).filter_map(|pair| if let [from, to] = pair { self.rate(from, to) } else { None }).collect()
    }

    fn rate(self, from: &LoadSample, to: &LoadSample) -> Option<f64> {
        let elapsed = to.at_ns.checked_sub(from.at_ns).filter(|&elapsed| elapsed > 0)?;
        match (self, from.cpu_ns.zip(to.cpu_ns)) {
            (Self::Work, _) => Some(to.work.saturating_sub(from.work) as f64 * 1e9 / elapsed as f64),
            (Self::Cpu, Some((from, to))) => Some(to.saturating_sub(from) as f64 / elapsed as f64),
            (Self::Cpu, None) => busy_share(from, to),
        }
    }
}

/// Share of the CPUs' time that was busy between two looks, 0 to 1.
pub(crate) fn busy_share(from: &LoadSample, to: &LoadSample) -> Option<f64> {
    let whole = to.times.whole.checked_sub(from.times.whole).filter(|&whole| whole > 0)?;
    Some(to.times.busy.saturating_sub(from.times.busy) as f64 / whole as f64)
}

/// The thread that looks. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Sampler {
    shared: Arc<Shared>,
    measure: Measure,
    looks: Arc<Mutex<Vec<LoadSample>>>,
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    pub(crate) fn start(shared: &Arc<Shared>, measure: Measure) -> Result<Self, LoadError> {
        let first = look(shared, measure, &mut String::new())?;
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
                    if let Ok(look) = look(&theirs, measure, &mut buffer) {
                        kept.lock().unwrap_or_else(PoisonError::into_inner).push(look);
                    }
                }
            })
            .map_err(LoadError::thread)?;
        Ok(Self { shared: Arc::clone(shared), measure, looks, stop: Some(stop), thread: Some(thread) })
    }

    pub(crate) fn looks(&self) -> Vec<LoadSample> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A look at this moment, outside the raster.
    pub(crate) fn now(&self) -> Result<LoadSample, LoadError> {
        look(&self.shared, self.measure, &mut String::new())
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

fn look(shared: &Shared, measure: Measure, buffer: &mut String) -> Result<LoadSample, LoadError> {
    let times = cpustat::read(&shared.cpus, buffer)?;
    let tree = (measure == Measure::Cpu).then(cputime::of_tree).flatten();
    let at_ns = tree.map_or_else(clock::monotonic_ns, |(_, at_ns)| at_ns);
    Ok(LoadSample { at_ns, work: shared.work(), times, cpu_ns: tree.map(|(cpu_ns, _)| cpu_ns) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_by_time_not_by_look() {
        let look = |ms: u64, work, busy, whole| LoadSample {
            at_ns: ms * 1_000_000,
            work,
            times: CpuTimes { busy, whole },
            cpu_ns: None,
        };
        // The second interval is late and longer; its rate is the same.
        let looks = [look(0, 0, 0, 0), look(100, 50, 5, 20), look(300, 150, 25, 60), look(300, 150, 25, 60)];
        assert_eq!(Measure::Work.rates(&looks), [500.0, 500.0]);
        assert_eq!(Measure::Cpu.rates(&looks), [0.25, 0.5]);
        // What the load itself got decides where it is known, however busy the machine was.
        let cpu = |look: LoadSample, ms: u64| LoadSample { cpu_ns: Some(ms * 1_000_000), ..look };
        let missed = LoadSample { at_ns: 200_000_000, ..looks[1] };
        let looks = [cpu(looks[0], 0), cpu(looks[1], 150), missed, cpu(looks[2], 200)];
        assert_eq!(Measure::Cpu.rates(&looks), [1.5, 0.25]);
    }
}
