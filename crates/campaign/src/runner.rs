//! Running a plan, and going on with a run.

mod arrive;

use crate::boot::{self, Kernels};
use crate::cell::Failure;
use crate::estimate::Estimate;
use crate::facts::{self, Gathered};
use crate::participants::Participants;
use crate::prepare::Preparer;
use crate::real::LabHosts;
use crate::{
    CampaignError, HostError, Hosts, Observer, Options, Outcome, PlannedCell, Progress, Summary, cell, key, order,
};
use model::{JournalLine, KernelChoice, Plan, Prepared, RunDocument, Substrate};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};
use store::{CellFiles, RunDir};

/// After this many cells in a row that failed alike, something is wrong that no further cell will mend.
const SAME_FAILURES: u32 = 3;

/// Runs a plan on the hosts that it names: opens the lab, measures every cell, writes a run directory, closes the lab.
///
/// # Errors
/// [`CampaignError`]; its exit code follows the design. What was measured before stays in the run directory.
pub fn run(plan: &Plan, options: &Options, observer: &mut dyn Observer) -> Result<Summary, CampaignError> {
    let mut hosts = LabHosts::open(plan, options, Duration::ZERO, &mut |note| observer.observe(&Progress::Note(note)))?;
    let ended = run_on(plan, &mut hosts, options, observer);
    close(hosts, observer);
    ended
}

/// Ends the agents and takes the lab down. What could not be removed is worth a warning; the run is what counts.
fn close(hosts: LabHosts, observer: &mut dyn Observer) {
    for problem in hosts.close() {
        observer.observe(&Progress::Warning(&problem));
    }
}

/// As [`run`], on hosts that are open already.
///
/// # Errors
/// As [`run`].
pub fn run_on(
    plan: &Plan,
    hosts: &mut dyn Hosts,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Summary, CampaignError> {
    let mut plan = plan.clone();
    if let Some(repetitions) = options.repetitions {
        plan.set_repetitions(repetitions);
    }
    let seed = match options.seed.or(plan.seed) {
        Some(seed) => seed,
        None => key::seed()?,
    };
    let steps = order::plan_order(&plan, seed)?;
    let cells = plan.cells()?;
    let kernels = Kernels::new(&plan, &cells);
    if let Some(few) = plan.too_few_visits(&cells) {
        observer.observe(&Progress::Warning(&few));
    }
    let (gathered, participants) = look(&plan, hosts, &steps, observer)?;
    check_kernels(&plan, hosts)?;
    let started_ns = clock::realtime_ns();
    let mut labels = plan.labels.clone();
    labels.extend(options.labels.clone());
    let document = RunDocument {
        format: model::FORMAT,
        name: plan.name.clone(),
        title: plan.title.clone(),
        tool_version: options.tool_version.clone(),
        build: options.build.clone(),
        seed,
        order: steps.iter().map(PlannedCell::record).collect(),
        machines: gathered.machines,
        hosts: gathered.hosts,
        substrate: gathered.substrate,
        lab: plan.lab.clone(),
        ask: plan.questions(&cells),
        labels,
        started_ns,
        ..RunDocument::default()
    };
    let mut dir = RunDir::create(&options.output, &plan.name, started_ns)?;
    let begun = dir.write_plan(&options.plan_text).and_then(|()| dir.write_run(&document)).and_then(|()| {
        dir.journal(&JournalLine::Begin { at_ns: started_ns, tool_version: options.tool_version.clone() })
    });
    if let Err(error) = begun {
        // Nothing was measured yet, so nothing is left behind.
        let _ = dir.discard();
        return Err(error.into());
    }
    Runner::new(dir, document, (&plan, kernels), hosts, options, observer, participants).all(&steps)
}

/// Goes on with a run that was interrupted, killed, or had failed cells: measures the cells that have no result yet, in
/// the order of the run, and appends to its journal. Opens and closes the lab as [`run`] does.
///
/// # Errors
/// [`CampaignError`]: the run cannot be read or is being written; its plan no longer fits; its hosts are others.
pub fn resume(path: &Path, options: &Options, observer: &mut dyn Observer) -> Result<Summary, CampaignError> {
    resume_with(path, options, |dir, run, plan| {
        // Hosts may be on their way up.
        let mut kernels = Kernels::new(plan, &plan.cells()?);
        kernels.take_up(&run.journal);
        let patience = Duration::from_secs(if kernels.is_open() { kernels.plan.boot_seconds.into() } else { 0 });
        let mut hosts = LabHosts::open(plan, options, patience, &mut |note| observer.observe(&Progress::Note(note)))?;
        let ended = go_on(dir, run, plan, &mut hosts, options, observer);
        close(hosts, observer);
        ended
    })
}

/// As [`resume`], on hosts that are open already.
///
/// # Errors
/// As [`resume`].
pub fn resume_on(
    path: &Path,
    hosts: &mut dyn Hosts,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Summary, CampaignError> {
    resume_with(path, options, |dir, run, plan| go_on(dir, run, plan, hosts, options, observer))
}

fn resume_with(
    path: &Path,
    options: &Options,
    go_on: impl FnOnce(RunDir, &store::Run, &Plan) -> Result<Summary, CampaignError>,
) -> Result<Summary, CampaignError> {
    // The link of a run that boots its own machine is removed at its end.
    let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (dir, run) = RunDir::open_for_resume(path)?;
    if run.missing().is_empty() {
        forget_link(&options.resume_link, path)?;
        return nothing_missing(dir, &run);
    }
    let plan = plan_of(&run)?;
    go_on(dir, &run, &plan)
}

/// Removes the link of a run that was killed after its end.
fn forget_link(link: &Path, run: &Path) -> Result<(), CampaignError> {
    if std::fs::canonicalize(link).is_ok_and(|linked| linked == *run) {
        let failed = |cause| CampaignError::Link { link: link.to_owned(), cause };
        std::fs::remove_file(link).map_err(failed)?;
    }
    Ok(())
}

/// The plan of a run, on the lab that the run began on: the command line may have overridden the plan's.
fn plan_of(run: &store::Run) -> Result<Plan, CampaignError> {
    let mut plan = Plan::parse(&run.path.join("plan.toml").display().to_string(), &run.plan)?;
    if let Some(lab) = &run.run.lab {
        plan.lab = Some(lab.clone());
        plan.hosts.clear();
    }
    Ok(plan)
}

/// A run that has all its results needs no hosts. One that was killed after its last cell only gets its end.
fn nothing_missing(mut dir: RunDir, run: &store::Run) -> Result<Summary, CampaignError> {
    let outcome = Outcome::Done;
    if run.run.outcome.as_deref() != Some(outcome.word()) {
        end(&mut dir, &mut run.run.clone(), outcome)?;
    }
    let (steps, done) = (run.run.order.len(), run.results.len());
    let untrusted = untrusted(run);
    Ok(Summary { path: dir.path().to_owned(), outcome, steps, done, failed: 0, untrusted, not_restored: 0 })
}

fn untrusted(run: &store::Run) -> usize {
    run.results.iter().filter(|(_, result)| !result.verdict.trusted).count()
}

/// Writes how the run ended, into run.json and the journal.
fn end(dir: &mut RunDir, document: &mut RunDocument, outcome: Outcome) -> Result<(), CampaignError> {
    let at_ns = clock::realtime_ns();
    document.ended_ns = Some(at_ns);
    document.outcome = Some(outcome.word().to_owned());
    dir.write_run(document)?;
    Ok(dir.journal(&JournalLine::End { at_ns, outcome: outcome.word().to_owned() })?)
}

fn go_on(
    dir: RunDir,
    run: &store::Run,
    plan: &Plan,
    hosts: &mut dyn Hosts,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Summary, CampaignError> {
    for problem in &run.problems {
        observer.observe(&Progress::Warning(problem));
    }
    let mut cells: BTreeMap<String, model::Cell> =
        plan.cells()?.into_iter().map(|cell| (cell.key.clone(), cell)).collect();
    let mut steps = Vec::new();
    let visits = order::visits(&run.run.order, plan.kernels().per_boot);
    for step in run.missing() {
        let Some(cell) = cells.get_mut(&step.cell) else {
            return Err(CampaignError::PlanChanged { plan: run.path.join("plan.toml"), cell: step.cell });
        };
        let visit = visits.get(&step.index).copied().unwrap_or(1);
        steps.push(PlannedCell { index: step.index, cell: cell.clone(), repetition: step.repetition, visit });
    }
    let mut kernels = Kernels::new(plan, &plan.cells()?);
    kernels.take_up(&run.journal);
    // A run that boots its own machine is resumed by each boot: what failed once is not tried by each of them.
    let missing = steps.len();
    steps.retain(|step| !kernels.boots || !kernels.failed.contains(&step.index));
    let failed = missing - steps.len();
    let (gathered, participants) = look(plan, hosts, &steps, observer)?;
    for warning in facts::compare(&run.run, &gathered, kernels.boots)? {
        observer.observe(&Progress::Warning(&warning));
    }
    if run.run.tool_version != options.tool_version {
        let (now, before) = (&options.tool_version, &run.run.tool_version);
        observer.observe(&Progress::Warning(&format!("this is windhover {now}, the run began with {before}")));
    }
    if !kernels.is_open() {
        check_kernels(plan, hosts)?;
    }
    let came_to = kernels.compare(&gathered.by_host());
    let mut document = run.run.clone();
    document.labels.extend(options.labels.clone());
    // A machine that was booted meanwhile joins the list; the old entry tells what the first cells ran on.
    document.machines.extend(gathered.machines);
    document.hosts.extend(gathered.hosts);
    document.ended_ns = None;
    document.outcome = None;
    let mut dir = dir;
    dir.write_run(&document)?;
    dir.journal(&JournalLine::Begin { at_ns: clock::realtime_ns(), tool_version: options.tool_version.clone() })?;
    if let Some((visit, boots)) = came_to {
        dir.journal(&JournalLine::Booted { at_ns: clock::realtime_ns(), visit, boots })?;
    }
    let mut runner = Runner::new(dir, document, (plan, kernels), hosts, options, observer, participants);
    (runner.done, runner.failed, runner.untrusted) = (run.results.len(), failed, untrusted(run));
    runner.all(&steps)
}

/// What the hosts are and who takes part, where they answer already.
fn look(
    plan: &Plan,
    hosts: &mut dyn Hosts,
    steps: &[PlannedCell],
    observer: &mut dyn Observer,
) -> Result<(Gathered, Participants), CampaignError> {
    if !hosts.answers() {
        return Ok((Gathered::unseen(plan), Participants::default()));
    }
    let gathered = facts::gather(plan, hosts)?;
    let participants = Participants::of(plan, &gathered, hosts, steps)?;
    Preparer::check(&participants, hosts).map_err(CampaignError::Host)?;
    observer.observe(&Progress::HostsReady { hosts: &plan.host_names(), substrate: gathered.substrate });
    Ok((gathered, participants))
}

/// Asks the hosts about every kernel of the plan before anything is changed.
fn check_kernels(plan: &Plan, hosts: &mut dyn Hosts) -> Result<(), CampaignError> {
    let kernels: BTreeSet<KernelChoice> = plan.cells()?.into_iter().filter_map(|cell| cell.kernel).collect();
    for kernel in kernels {
        for host in boot::targets(plan) {
            let checked = hosts.check_kernel(&host, &kernel);
            checked.map_err(|cause| CampaignError::Kernel { kernel: kernel.clone(), cause })?;
        }
    }
    Ok(())
}

/// What became of bringing hosts to the kernel of a step.
enum Arrival {
    There,
    /// No further attempt is made; why.
    CouldNotBoot(String),
    Interrupted,
    /// This machine goes down.
    Down,
}

struct Runner<'a> {
    plan: &'a Plan,
    kernels: Kernels,
    dir: RunDir,
    document: RunDocument,
    hosts: &'a mut dyn Hosts,
    options: &'a Options,
    observer: &'a mut dyn Observer,
    participants: Participants,
    total: usize,
    done: usize,
    failed: usize,
    untrusted: usize,
    preparer: Preparer,
}

impl<'a> Runner<'a> {
    fn new(
        dir: RunDir,
        document: RunDocument,
        (plan, kernels): (&'a Plan, Kernels),
        hosts: &'a mut dyn Hosts,
        options: &'a Options,
        observer: &'a mut dyn Observer,
        participants: Participants,
    ) -> Self {
        let (total, preparer) = (document.order.len(), Preparer::default());
        Self {
            plan,
            kernels,
            dir,
            document,
            hosts,
            options,
            observer,
            participants,
            total,
            done: 0,
            failed: 0,
            untrusted: 0,
            preparer,
        }
    }

    fn all(mut self, steps: &[PlannedCell]) -> Result<Summary, CampaignError> {
        let linked = self.link(true);
        let ended = linked.and_then(|()| self.steps(steps));
        let told = self.restore_all();
        let outcome = match &ended {
            Ok(outcome) => *outcome,
            Err(_) => Outcome::Failed,
        };
        let closed = match outcome {
            Outcome::Rebooting => Ok(()),
            _ => end(&mut self.dir, &mut self.document, outcome),
        };
        if outcome != Outcome::Rebooting {
            self.link(false)?;
        }
        if outcome == Outcome::Done {
            self.go_home();
        }
        // What ended the run is reported rather than what followed from it (a disk that is still full).
        ended?;
        told?;
        closed?;
        Ok(Summary {
            path: self.dir.path().to_owned(),
            outcome,
            steps: self.total,
            done: self.done,
            failed: self.failed,
            untrusted: self.untrusted,
            not_restored: self.preparer.not_restored,
        })
    }

    fn steps(&mut self, steps: &[PlannedCell]) -> Result<Outcome, CampaignError> {
        let mut estimate = Estimate::default();
        self.observer.observe(&Progress::RunOpened {
            path: self.dir.path(),
            steps: self.total,
            done: self.done,
            eta_ns: estimate.steps(steps),
        });
        let mut alike = Alike::default();
        for (place, step) in steps.iter().enumerate() {
            if self.options.stopped() {
                return Ok(Outcome::Interrupted);
            }
            let record = step.record();
            match self.come_to(steps, place)? {
                Arrival::There => {}
                Arrival::CouldNotBoot(why) => {
                    let why = format!("could not boot: {why}");
                    self.fail(step, &why, true)?;
                    self.report_failure(step, &why, estimate.steps(&steps[place + 1..]));
                    continue;
                }
                Arrival::Interrupted => return Ok(Outcome::Interrupted),
                Arrival::Down => return Ok(Outcome::Rebooting),
            }
            self.dir.journal(&JournalLine::Start { index: step.index, at_ns: clock::realtime_ns() })?;
            let eta_ns = estimate.steps(&steps[place..]);
            self.observer.observe(&Progress::CellStarted { step: &record, eta_ns });
            let prepared = self.prepare(step, &mut estimate)?;
            let began = Instant::now();
            let wants = self.observer.wants_intervals();
            let mut live = |interval| self.observer.observe(&Progress::Interval { step: &record, interval: &interval });
            let live: cell::Live<'_> = if wants { Some(&mut live) } else { None };
            let measured = prepared
                .and_then(|prepared| {
                    cell::measure(self.hosts, &self.participants, step, prepared, &self.options.stop, live)
                })
                .and_then(|outcome| {
                    let kept = self.preparer.check_shields(self.hosts);
                    kept.map(|()| outcome).map_err(Failure::Host)
                });
            for note in self.hosts.notes() {
                self.observer.observe(&Progress::Warning(&note));
            }
            let rest = &steps[place + 1..];
            if let Some(outcome) = self.conclude(step, measured, began, rest, &mut estimate, &mut alike)? {
                return Ok(outcome);
            }
        }
        Ok(Outcome::Done)
    }

    /// Keeps what came of a step, or the reason why nothing did; the outcome of the run where it ends here. `rest`: the steps after it.
    fn conclude(
        &mut self,
        step: &PlannedCell,
        measured: Result<cell::Outcome, Failure>,
        began: Instant,
        rest: &[PlannedCell],
        estimate: &mut Estimate,
        alike: &mut Alike,
    ) -> Result<Option<Outcome>, CampaignError> {
        let record = step.record();
        match measured {
            Ok(mut outcome) => {
                outcome.measured.result.boot = self.boot_of(step);
                outcome.measured.result.simulated_time = self.document.substrate == Substrate::SimulatedTime;
                let files = CellFiles::of(&outcome.measured, &outcome.events);
                if let Some(finding) = self.dir.write_cell(step.index, &files, clock::realtime_ns())? {
                    self.observer.observe(&Progress::Warning(&finding.detail));
                    outcome.measured.result.verdict.add(finding);
                }
                self.done += 1;
                self.untrusted += usize::from(!outcome.measured.result.verdict.trusted);
                *alike = Alike::default();
                estimate.learn(&step.cell, u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
                let eta_ns = estimate.steps(rest);
                let result = &outcome.measured.result;
                self.observer.observe(&Progress::CellDone { step: &record, result, eta_ns });
            }
            // The cell in flight was cancelled; it stays open in the journal, so a resume measures it.
            Err(Failure::Host(HostError::Interrupted)) => return Ok(Some(Outcome::Interrupted)),
            Err(Failure::Campaign(error)) => {
                self.fail(step, &error.to_string(), false)?;
                return Err(error);
            }
            Err(Failure::Host(cause @ HostError::Lost { .. }) | Failure::Prepare(cause @ HostError::Lost { .. })) => {
                let why = cause.to_string();
                self.fail(step, &why, false)?;
                if self.kernels.boots {
                    // Its kernel may have crashed: the next cell boots it anew, and that is an attempt.
                    (self.kernels.entered, self.kernels.lost) = (None, true);
                    self.preparer.forget();
                    self.report_failure(step, &why, estimate.steps(rest));
                    return Ok(None);
                }
                return Err(CampaignError::AgentLost { run: self.dir.path().to_owned(), cause });
            }
            Err(ref failure @ (Failure::Prepare(ref cause) | Failure::Host(ref cause))) => {
                // Only the cells that want the same preparation fail alike, and at once; the others are measured.
                let counts = matches!(failure, Failure::Host(_));
                let why = cause.to_string();
                self.fail(step, &why, false)?;
                self.report_failure(step, &why, estimate.steps(rest));
                let times = if counts { alike.again(&why) } else { 0 };
                if times >= SAME_FAILURES {
                    return Err(CampaignError::SameFailure { run: self.dir.path().to_owned(), times, why });
                }
            }
        }
        Ok(None)
    }

    /// Makes what the cell wants the only thing in force. The outer error ends the run.
    fn prepare(
        &mut self,
        step: &PlannedCell,
        estimate: &mut Estimate,
    ) -> Result<Result<Vec<Prepared>, Failure>, CampaignError> {
        let began = Instant::now();
        let prepared = self.preparer.prepare(&step.cell, &self.participants, self.hosts, self.observer);
        if self.write_lines()? {
            estimate.learn_prepare(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        Ok(prepared.map_err(Failure::Prepare))
    }

    fn restore_all(&mut self) -> Result<(), CampaignError> {
        self.preparer.restore_all(self.hosts, self.observer);
        self.write_lines().map(drop)
    }

    /// Writes what the preparer did into the journal; whether it did anything.
    fn write_lines(&mut self) -> Result<bool, CampaignError> {
        let lines = std::mem::take(&mut self.preparer.lines);
        lines.iter().try_for_each(|line| self.dir.journal(line))?;
        Ok(!lines.is_empty())
    }

    fn report_failure(&mut self, step: &PlannedCell, why: &str, eta_ns: u64) {
        self.observer.observe(&Progress::CellFailed { step: &step.record(), why, eta_ns });
    }

    fn fail(&mut self, step: &PlannedCell, why: &str, could_not_boot: bool) -> Result<(), CampaignError> {
        self.failed += 1;
        let why = why.replace('\n', " ");
        Ok(self.dir.journal(&JournalLine::Failed {
            index: step.index,
            at_ns: clock::realtime_ns(),
            why,
            could_not_boot,
        })?)
    }
}

/// Counts failures in a row that are alike: the same words, whatever the numbers (ports, process ids) in them.
#[derive(Debug, Default)]
struct Alike {
    words: String,
    times: u32,
}

impl Alike {
    fn again(&mut self, why: &str) -> u32 {
        let words: String = why.chars().filter(|c| !c.is_ascii_digit()).collect();
        self.times = if words == self.words { self.times + 1 } else { 1 };
        self.words = words;
        self.times
    }
}
