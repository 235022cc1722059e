//! Bringing hosts to the kernel of a cell: the border to what boots them, and what a journal records of boots.

use crate::{HostError, PlannedCell};
use model::plan::KernelsPlan;
use model::{Cell, JournalLine, KernelChoice, KernelDriver, KernelImage, MachineFacts, Plan, Visit};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Where hosts are once they were brought to a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entered {
    /// They answer. Whether they run what was asked for is for the caller to see.
    Up,
    /// The machine of this process goes down; the run goes on once it is up again.
    GoingDown,
}

/// What can bring hosts to kernels, by a boot each time; `current` is the default entry of the boot loader then.
pub trait Boot {
    /// Whether the hosts answer before they were brought to any kernel. A guest is not there yet.
    fn answers(&self) -> bool {
        true
    }

    /// Whether one of the hosts is the machine of this process, which then ends with each boot.
    fn is_here(&self, _hosts: &[String]) -> bool {
        false
    }

    /// Waits until hosts answer again whose kernel was lost, `limit` at most.
    ///
    /// # Errors
    /// [`HostError`] of the first one that does not.
    fn reconnect(&mut self, _limit: Duration, _stop: &AtomicBool) -> Result<(), HostError> {
        Ok(())
    }

    /// Whether a host can come to a kernel, and what that will say that it is. Changes nothing.
    ///
    /// # Errors
    /// [`HostError`], with the remedy.
    fn check_kernel(&mut self, host: &str, kernel: &KernelChoice) -> Result<KernelImage, HostError> {
        if !kernel.boots() {
            return Ok(KernelImage::default());
        }
        let why = format!("it cannot be brought to kernel '{kernel}': use another kind of host");
        Err(HostError::Failed { host: host.to_owned(), why })
    }

    /// Brings the machines of hosts to a kernel and waits until their agents answer again, `limit` at most. The boot loader's
    /// default stays. Cancelled once `stop` is raised.
    ///
    /// # Errors
    /// [`HostError`] of the first host that did not come up.
    fn enter(
        &mut self,
        hosts: &[String],
        kernel: &KernelChoice,
        _limit: Duration,
        _stop: &AtomicBool,
    ) -> Result<Entered, HostError> {
        hosts.iter().try_for_each(|host| self.check_kernel(host, kernel).map(drop))?;
        Ok(Entered::Up)
    }
}

/// Which kernel the hosts run, and how often each visit was tried.
#[derive(Debug, Default)]
pub(crate) struct Kernels {
    pub(crate) plan: KernelsPlan,
    /// Whether any cell of the run needs a boot.
    pub(crate) boots: bool,
    /// Whether one of them is of hosts that stay, not of guests.
    pub(crate) of_hosts: bool,
    /// Attempts of each visit so far.
    attempts: BTreeMap<Visit, u32>,
    /// Whether a host was lost since the last attempt.
    pub(crate) lost: bool,
    /// The kernel that the hosts are at, and the boot ids there.
    pub(crate) entered: Option<(Visit, BTreeMap<String, String>)>,
    /// The visit that is over before it began, and why.
    given_up: Option<(Visit, String)>,
    /// An attempt whose outcome the journal does not say.
    open: Option<OpenIntent>,
    /// Steps that failed since a person last began or resumed the run.
    pub(crate) failed: BTreeSet<u32>,
}

/// What hosts were about to be brought to when the journal ended.
#[derive(Debug)]
struct OpenIntent {
    visit: Visit,
    images: BTreeMap<String, KernelImage>,
    before: BTreeMap<String, String>,
}

/// The visit that a step belongs to; none of a plan that names no kernel.
pub(crate) fn visit(step: &PlannedCell) -> Option<Visit> {
    let kernel = step.cell.kernel.clone()?;
    Some(Visit { kernel, visit: step.visit })
}

/// Whether a kernel of these cells has to be booted.
pub(crate) fn any_boots<'a>(mut cells: impl Iterator<Item = &'a Cell>) -> bool {
    cells.any(|cell| cell.kernel.as_ref().is_some_and(KernelChoice::boots))
}

/// Whether a kernel is booted by hosts that stay; a guest goes with its kernel.
pub(crate) fn is_of_hosts(kernel: &KernelChoice) -> bool {
    kernel.boots() && kernel.driver != KernelDriver::Guest
}

/// The hosts whose machines change their kernel.
pub(crate) fn targets(plan: &Plan) -> Vec<String> {
    let named = plan.kernels().hosts;
    if named.is_empty() { plan.host_names() } else { named }
}

impl Kernels {
    pub(crate) fn new(plan: &Plan, cells: &[Cell]) -> Self {
        let of_hosts = cells.iter().filter_map(|cell| cell.kernel.as_ref()).any(is_of_hosts);
        Self { plan: plan.kernels(), boots: any_boots(cells.iter()), of_hosts, ..Self::default() }
    }

    /// Takes up a journal. After the line of its end a person resumes the run, and everything is tried anew.
    pub(crate) fn take_up(&mut self, journal: &[JournalLine]) {
        for line in journal {
            match line {
                JournalLine::Intent { visit, attempt, images, before, .. } => {
                    self.attempts.insert(visit.clone(), *attempt);
                    self.entered = None;
                    let (images, before) = (images.clone(), before.clone());
                    self.open = Some(OpenIntent { visit: visit.clone(), images, before });
                }
                JournalLine::Booted { visit, boots, .. } => {
                    self.entered = Some((visit.clone(), boots.clone()));
                    self.open = None;
                }
                JournalLine::Failed { index, .. } => {
                    self.failed.insert(*index);
                }
                JournalLine::Start { index, .. } => {
                    self.failed.remove(index);
                }
                JournalLine::End { .. } => {
                    self.attempts.clear();
                    self.failed.clear();
                    self.open = None;
                }
                _ => {}
            }
        }
    }

    /// Whether the journal ends while hosts were brought to a kernel.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Compares what hosts run with the journal; returns the visit where they came to it unobserved. After the same boot, or where
    /// a guest's kernel ended with its controller, the attempt is made again. Another boot was an attempt.
    pub(crate) fn compare(
        &mut self,
        runs: &BTreeMap<String, MachineFacts>,
    ) -> Option<(Visit, BTreeMap<String, String>)> {
        let boots = |of: &BTreeMap<String, String>| -> BTreeMap<String, String> {
            let ids = of.keys().filter_map(|host| Some((host.clone(), runs.get(host)?.boot_id.clone())));
            ids.collect()
        };
        if self.entered.as_ref().is_some_and(|(_, entered)| boots(entered) != *entered) {
            self.entered = None;
        }
        let open = self.open.take()?;
        let now = boots(&open.before);
        if now == open.before || open.visit.kernel.driver == KernelDriver::Guest {
            if let Some(attempts) = self.attempts.get_mut(&open.visit) {
                *attempts = attempts.saturating_sub(1);
            }
            return None;
        }
        let all_booted = open.before.iter().all(|(host, before)| now.get(host).is_some_and(|now| now != before));
        let all_fit =
            open.images.iter().all(|(host, image)| runs.get(host).is_some_and(|runs| image.differs(runs).is_none()));
        if all_booted && all_fit {
            self.entered = Some((open.visit.clone(), now.clone()));
            return Some((open.visit, now));
        }
        None
    }

    /// Whether the hosts are where a visit wants them.
    pub(crate) fn is_at(&self, visit: &Visit) -> bool {
        self.entered.as_ref().is_some_and(|(entered, _)| entered == visit)
    }

    /// The number of the next attempt of a visit; none when all are used up.
    pub(crate) fn next_attempt(&mut self, visit: &Visit) -> Option<u32> {
        let used = self.attempts.entry(visit.clone()).or_default();
        (*used < self.plan.attempts).then(|| {
            *used += 1;
            *used
        })
    }

    /// Why a visit was given up, where it was.
    pub(crate) fn given_up(&self, visit: &Visit) -> Option<&str> {
        self.given_up.as_ref().filter(|(given_up, _)| given_up == visit).map(|(_, why)| why.as_str())
    }

    pub(crate) fn give_up(&mut self, visit: &Visit, why: String) {
        self.given_up = Some((visit.clone(), why));
    }
}
