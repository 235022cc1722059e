//! A load from its start to its report.

use crate::LoadError;
use crate::evenness;
use crate::profile;
use crate::sampler::{LoadSample, Measure, Sampler, busy_share};
use model::{CpuList, LoadProfile, LoadReport, LoadSpec, Policy};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use task::OwnFolder;

/// The time that is usually given to [`Load::wait_steady`]: loads are steady after one second or will hardly ever be.
pub const STEADY_TIMEOUT: Duration = Duration::from_secs(2);

const MOST_JOBS: u32 = 1024;
/// The papers' `make -j11`.
const BUILD_JOBS: u32 = 11;
const PAUSE: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) cpus: CpuList,
    work: AtomicU64,
    stop: AtomicBool,
    failure: Mutex<Option<LoadError>>,
}

impl Shared {
    /// Counts finished work.
    pub(crate) fn done(&self, units: u64) {
        self.work.fetch_add(units, Ordering::Relaxed);
    }

    pub(crate) fn work(&self) -> u64 {
        self.work.load(Ordering::Relaxed)
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Keeps the first failure; the load as a whole has failed then.
    fn fail(&self, error: LoadError) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    fn take_failure(&self) -> Option<LoadError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// One thread's work: runs until [`Shared::stopping`].
pub(crate) type WorkerTask = Box<dyn FnOnce(&Shared) -> Result<(), LoadError> + Send>;

/// From when on a load is measured.
#[derive(Debug, Clone, Copy)]
struct SteadySince {
    look: LoadSample,
    steady: bool,
}

/// A running load. Dropping it ends it too, without a report.
#[derive(Debug)]
pub struct Load {
    spec: LoadSpec,
    measure: Measure,
    method: String,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    sampler: Sampler,
    start: LoadSample,
    mark: Option<SteadySince>,
    // Last, so that it is removed after all who write to it have ended.
    scratch: Option<OwnFolder>,
}

impl Load {
    /// Starts a load in ordinary policy on the spec's CPUs, else this process's first ones. Errors leave nothing.
    pub fn start(spec: &LoadSpec) -> Result<Self, LoadError> {
        if spec.command.is_some() && spec.profile != LoadProfile::Build {
            let remedy = "leave it out, or use load build";
            return Err(LoadError::Refused(format!("load {} takes no command: {remedy}", spec.profile)));
        }
        let cpus = match &spec.cpus {
            Some(cpus) => cpus.clone(),
            None => task::housekeeping_cpus(None),
        };
        task::require_online(&cpus)?;
        let count = match (spec.jobs, spec.profile) {
            (Some(jobs), _) => jobs,
            (None, LoadProfile::Build) => BUILD_JOBS,
            (None, _) => u32::try_from(cpus.len()).unwrap_or(MOST_JOBS).clamp(1, MOST_JOBS),
        };
        if !(1..=MOST_JOBS).contains(&count) {
            return Err(LoadError::Refused(format!("{count} jobs are out of range: use 1 to {MOST_JOBS}")));
        }
        let shared =
            Arc::new(Shared { cpus, work: AtomicU64::new(0), stop: AtomicBool::new(false), failure: Mutex::new(None) });
        let workers = profile::workers(spec, count, &shared.cpus)?;
        let sampler = Sampler::start(&shared, workers.measure)?;
        let start = sampler.now()?;
        let mut load = Self {
            spec: spec.clone(),
            measure: workers.measure,
            method: workers.method,
            shared,
            threads: Vec::with_capacity(workers.jobs.len()),
            sampler,
            start,
            mark: None,
            scratch: workers.scratch,
        };
        // From here on dropping `load` ends what was started.
        let (tell, told) = mpsc::channel();
        let started = workers.jobs.len();
        for job in workers.jobs {
            load.add_thread(job, tell.clone())?;
        }
        drop(tell);
        for _ in 0..started {
            told.recv().unwrap_or_else(|_| Err(LoadError::broken()))?;
        }
        Ok(load)
    }

    fn add_thread(&mut self, job: WorkerTask, tell: mpsc::Sender<Result<(), LoadError>>) -> Result<(), LoadError> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new()
            .name("load".to_owned())
            .spawn(move || {
                // A thread inherits policy and CPUs of the one that started it.
                let ready = task::apply_policy(Policy::Other).and_then(|()| task::set_affinity(&shared.cpus));
                let go = ready.is_ok();
                let _ = tell.send(ready.map_err(LoadError::Task));
                drop(tell);
                if go && let Err(error) = job(&shared) {
                    shared.fail(error);
                }
            })
            .map_err(LoadError::thread)?;
        self.threads.push(thread);
        Ok(())
    }

    /// How it works, for the record: the compiler used, or its substitute.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The folder that its files are in, while it runs.
    pub fn folder(&self) -> Option<&Path> {
        self.scratch.as_ref().map(OwnFolder::path)
    }

    /// Waits until the load is steady, at most `timeout` (usually [`STEADY_TIMEOUT`]); whether it is. Given up
    /// (`false`) soon after `give_up` is set. What the report says is measured from the return of this call on.
    ///
    /// The rule: its work per 100 ms (for `build` the CPU time that it got) was even over one second, with a
    /// coefficient of variation of at most 5 %, or it at least no longer rose or fell: the means of the halves of that
    /// second differ by at most 10 % and no 100 ms went without work. Errors: what made the load break off.
    pub fn wait_steady(&mut self, give_up: &AtomicBool, timeout: Duration) -> Result<bool, LoadError> {
        let start = Instant::now();
        let steady = loop {
            if let Some(error) = self.shared.take_failure() {
                return Err(error);
            }
            if evenness::steady(&self.measure.rates(&self.sampler.looks())) {
                break true;
            }
            if start.elapsed() >= timeout || give_up.load(Ordering::Relaxed) {
                break false;
            }
            std::thread::sleep(PAUSE);
        };
        self.mark = Some(SteadySince { look: self.sampler.now()?, steady });
        Ok(steady)
    }

    /// Ends the load, its children and its files. `work` and `work_cv` count from the return of [`Load::wait_steady`].
    pub fn stop(mut self) -> Result<LoadReport, LoadError> {
        let end = self.sampler.now();
        let looks = self.sampler.looks();
        let sound = self.end();
        if let Some(error) = self.shared.take_failure() {
            return Err(error);
        }
        let end = end?;
        if !sound {
            return Err(LoadError::broken());
        }
        let mark = self.mark.unwrap_or(SteadySince { look: self.start, steady: false });
        let from = mark.look;
        let since: Vec<LoadSample> =
            looks.into_iter().filter(|look| look.at_ns >= from.at_ns && look.at_ns <= end.at_ns).collect();
        Ok(LoadReport {
            spec: self.spec.clone(),
            work: end.work.saturating_sub(from.work),
            busy_percent: 100.0 * busy_share(&from, &end).unwrap_or(0.0),
            work_cv: evenness::cv(&self.measure.rates(&since)),
            steady_after_ns: from.at_ns.saturating_sub(self.start.at_ns),
            steady: mark.steady,
            elapsed_ns: end.at_ns.saturating_sub(from.at_ns),
        })
    }

    /// Stops all threads and waits for them; false when one panicked.
    fn end(&mut self) -> bool {
        self.shared.stop.store(true, Ordering::Relaxed);
        // All of them, also after the first that panicked.
        self.threads.drain(..).map(|thread| thread.join().is_ok()).filter(|sound| !sound).count() == 0
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a profile whose work or time is not looked at, and a report without the variation that was measured.
    #[test]
    fn the_variation_of_every_profile_is_reported() {
        for profile in LoadProfile::ALL {
            let mut load = Load::start(&LoadSpec { jobs: Some(2), ..LoadSpec::new(profile) }).unwrap();
            load.wait_steady(&AtomicBool::new(false), Duration::ZERO).unwrap();
            let from_ns = load.mark.as_ref().unwrap().look.at_ns;
            let is_known = || {
                let looks: Vec<_> = load.sampler.looks().into_iter().filter(|look| look.at_ns >= from_ns).collect();
                evenness::cv(&load.measure.rates(&looks)).is_some()
            };
            let began = Instant::now();
            while !is_known() {
                assert!(began.elapsed() < Duration::from_secs(60), "{profile}: too few looks, or no work");
                std::thread::sleep(Duration::from_millis(10));
            }
            let report = load.stop().unwrap();
            assert!(report.work_cv.is_some_and(f64::is_finite), "{profile}: {report:?}");
        }
    }
}
