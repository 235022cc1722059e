//! Bringing the hosts of a run to the kernel of a cell, attempt by attempt.

use super::{Arrival, Runner};
use crate::boot::{self, Entered};
use crate::facts::{self, Gathered};
use crate::participants::Participants;
use crate::prepare::Preparer;
use crate::{CampaignError, HostError, PlannedCell, Progress};
use model::{CellBoot, JournalLine, KernelChoice, KernelDriver, KernelImage, Visit};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

enum Attempt {
    There(Gathered),
    Failed(String),
    /// Another attempt would end alike.
    Hopeless(String),
    Interrupted,
    Down,
}

impl Runner<'_> {
    /// Brings the hosts to the kernel of a step, where they are not there yet, in a bounded number of attempts.
    pub(super) fn come_to(&mut self, steps: &[PlannedCell], place: usize) -> Result<Arrival, CampaignError> {
        let wanted = steps.get(place).and_then(boot::visit);
        let Some(visit) = wanted.filter(|visit| self.kernels.boots && !self.kernels.is_at(visit)) else {
            return Ok(Arrival::There);
        };
        if let Some(why) = self.kernels.given_up(&visit) {
            return Ok(Arrival::CouldNotBoot(why.to_owned()));
        }
        let mut why = "all attempts of an earlier part of the run failed".to_owned();
        while let Some(attempt) = self.kernels.next_attempt(&visit) {
            let began = Instant::now();
            match self.attempt(&visit, attempt)? {
                Attempt::There(gathered) => match self.settle(&visit, gathered, steps)? {
                    None => {
                        let took_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
                        self.observer.observe(&Progress::Booted { kernel: &visit.kernel, took_ns });
                        return Ok(Arrival::There);
                    }
                    Some(hopeless) => {
                        why = hopeless;
                        break;
                    }
                },
                Attempt::Failed(reason) => {
                    let text = format!("kernel '{}', attempt {attempt}: {reason}", visit.kernel);
                    self.observer.observe(&Progress::Warning(&text));
                    why = format!("{reason} ({attempt} attempts)");
                }
                Attempt::Hopeless(reason) => {
                    why = reason;
                    break;
                }
                Attempt::Interrupted => return Ok(Arrival::Interrupted),
                Attempt::Down => return Ok(Arrival::Down),
            }
        }
        self.kernels.entered = None;
        self.kernels.give_up(&visit, why.clone());
        Ok(Arrival::CouldNotBoot(why))
    }

    /// One attempt: settings are put back, the intent is on disk before the machine goes down, and then compared with what runs.
    fn attempt(&mut self, visit: &Visit, attempt: u32) -> Result<Attempt, CampaignError> {
        self.restore_all()?;
        self.preparer.forget();
        self.kernels.entered = None;
        let targets = boot::targets(self.plan);
        let limit = Duration::from_secs(self.kernels.plan.boot_seconds.into());
        // A machine that crashed may still be on its way up.
        if std::mem::take(&mut self.kernels.lost)
            && let Err(error) = self.hosts.reconnect(limit, &self.options.stop)
        {
            self.kernels.lost = true;
            return Ok(if error == HostError::Interrupted {
                Attempt::Interrupted
            } else {
                Attempt::Failed(error.to_string())
            });
        }
        let mut images: BTreeMap<String, KernelImage> = BTreeMap::new();
        for host in &targets {
            match self.hosts.check_kernel(host, &visit.kernel) {
                Ok(image) => drop(images.insert(host.clone(), image)),
                Err(error @ HostError::Lost { .. }) => {
                    self.kernels.lost = true;
                    return Ok(Attempt::Failed(error.to_string()));
                }
                Err(error) => return Ok(Attempt::Hopeless(error.to_string())),
            }
        }
        let boot_id = |host: &String| Some((host.clone(), self.document.hosts.get(host)?.facts.boot_id.clone()));
        let before: BTreeMap<String, String> = targets.iter().filter_map(boot_id).collect();
        let (visited, images_of) = (visit.clone(), images.clone());
        let line = JournalLine::Intent {
            at_ns: clock::realtime_ns(),
            visit: visited,
            attempt,
            images: images_of,
            before: before.clone(),
        };
        self.dir.journal(&line)?;
        let attempts = self.kernels.plan.attempts;
        self.observer.observe(&Progress::Booting { kernel: &visit.kernel, attempt, attempts });
        match self.hosts.enter(&targets, &visit.kernel, limit, &self.options.stop) {
            Ok(Entered::Up) => {}
            Ok(Entered::GoingDown) => return Ok(Attempt::Down),
            Err(HostError::Interrupted) => return Ok(Attempt::Interrupted),
            Err(error) => {
                self.kernels.lost = true;
                return Ok(Attempt::Failed(error.to_string()));
            }
        }
        let gathered = match facts::gather(self.plan, self.hosts) {
            Ok(gathered) => gathered,
            Err(error) => return Ok(Attempt::Failed(error.to_string())),
        };
        for (host, machine) in gathered.by_host().iter().filter(|(host, _)| targets.contains(host)) {
            let is_guest = visit.kernel.driver == KernelDriver::Guest;
            if !is_guest && before.get(host).is_some_and(|before| *before == machine.boot_id) {
                return Ok(Attempt::Failed(format!("host '{host}' was not booted: its boot id is as before")));
            }
            // The default kernel after a panic, or another entry than the one asked for.
            if let Some(differs) = images.get(host).and_then(|image| image.differs(machine)) {
                self.remember(gathered)?;
                return Ok(Attempt::Failed(format!("host '{host}': {differs}")));
            }
        }
        Ok(Attempt::There(gathered))
    }

    /// Adds machines that were booted, and where hosts are now, to run.json.
    fn remember(&mut self, gathered: Gathered) -> Result<(), CampaignError> {
        self.document.substrate = gathered.substrate;
        self.document.machines.extend(gathered.machines);
        self.document.hosts.extend(gathered.hosts);
        Ok(self.dir.write_run(&self.document)?)
    }

    /// The hosts are at the kernel: who takes part there. Gives back why the cells cannot be measured there, if so.
    fn settle(
        &mut self,
        visit: &Visit,
        gathered: Gathered,
        steps: &[PlannedCell],
    ) -> Result<Option<String>, CampaignError> {
        let own: Vec<PlannedCell> =
            steps.iter().filter(|step| boot::visit(step).as_ref() == Some(visit)).cloned().collect();
        let fits = Participants::of(self.plan, &gathered, self.hosts, &own).and_then(|participants| {
            Preparer::check(&participants, self.hosts).map_err(CampaignError::Host)?;
            Ok(participants)
        });
        let all = gathered.hosts.iter();
        let boots: BTreeMap<String, String> =
            all.map(|(name, host)| (name.clone(), host.facts.boot_id.clone())).collect();
        self.remember(gathered)?;
        self.dir.journal(&JournalLine::Booted {
            at_ns: clock::realtime_ns(),
            visit: visit.clone(),
            boots: boots.clone(),
        })?;
        match fits {
            Ok(participants) => self.participants = participants,
            Err(error) => return Ok(Some(error.to_string())),
        }
        self.kernels.entered = Some((visit.clone(), boots));
        Ok(None)
    }

    /// The boot of a step that was measured.
    pub(super) fn boot_of(&self, step: &PlannedCell) -> Option<CellBoot> {
        let visit = boot::visit(step)?.visit;
        let all = self.document.hosts.iter();
        let ids = all.map(|(name, host)| (name.clone(), host.facts.boot_id.clone())).collect();
        Some(CellBoot { visit, ids })
    }

    /// Makes or removes the link by which this run goes on after a boot of this process's own machine.
    pub(super) fn link(&self, make: bool) -> Result<(), CampaignError> {
        let link = &self.options.resume_link;
        if !self.kernels.boots || !self.hosts.is_here(&boot::targets(self.plan)) {
            return Ok(());
        }
        let failed = |cause| CampaignError::Link { link: link.clone(), cause };
        let remove = |path: &Path| match std::fs::remove_file(path) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(failed(cause)),
            _ => Ok(()),
        };
        if !make {
            return remove(link);
        }
        let run = std::fs::canonicalize(self.dir.path()).map_err(failed)?;
        link.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(failed)?;
        // A reset at any moment finds the link: the old one or the new one.
        let next = link.with_added_extension("new");
        remove(&next)?;
        symlink(run, &next).and_then(|()| std::fs::rename(&next, link)).map_err(failed)
    }

    /// Boots hosts into their default kernel once all cells were tried, where they run another one, or may.
    pub(super) fn go_home(&mut self) {
        let is_away = self.kernels.entered.as_ref().is_some_and(|(visit, _)| boot::is_of_hosts(&visit.kernel));
        let may_be = self.kernels.lost && self.kernels.of_hosts;
        if !is_away && !may_be {
            return;
        }
        let home = KernelChoice::default();
        self.observer.observe(&Progress::Booting { kernel: &home, attempt: 1, attempts: 1 });
        let limit = Duration::from_secs(self.kernels.plan.boot_seconds.into());
        let there = if may_be { self.hosts.reconnect(limit, &self.options.stop) } else { Ok(()) };
        let targets = boot::targets(self.plan);
        if let Err(error) = there.and_then(|()| self.hosts.enter(&targets, &home, limit, &self.options.stop)) {
            let text = format!("{error}; the run is complete, and the boot loader's default is as it was");
            self.observer.observe(&Progress::Warning(&text));
        }
    }
}
