//! `windhover campaign`.

use super::live::{View, bar, style, typed};
use super::report::REPORT;
use super::{identity, questions, signals};
use crate::cli::campaign::CampaignCommand;
use crate::cli::lab::LabChoice;
use crate::output::{Failure, Output, paragraph, unwritten, wrapped, written};
use anyhow::Context as _;
use campaign::{Observer, Progress};
use indicatif::ProgressBar;
use model::factor::{self, ValueType};
use model::plan::{LabKind, LabPlan};
use model::run::RunStep;
use model::text::counted;
use model::{LiveInterval, Plan, ResultDocument};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub(crate) fn run(command: CampaignCommand, output: &Output) -> Result<u8, Failure> {
    match command {
        CampaignCommand::Plan { plan } => show_plan(&plan, output),
        CampaignCommand::Run { plan, output: folder, lab, labels, seed, repetitions, repeat_runs, jsonl, verbose } => {
            let text = read(&plan)?;
            let mut parsed = with_lab(parse(&plan, &text)?, lab)?;
            if let Some(repetitions) = repetitions {
                parsed.set_repetitions(repetitions);
            }
            // Of several runs the runs are the samples.
            if repeat_runs == 1 {
                questions::warn(&parsed, &parsed.cells().map_err(Failure::usage)?, &plan, output);
            }
            let mut options = options(text)?;
            options.output = folder;
            options.labels = labels.into_iter().collect::<BTreeMap<_, _>>();
            options.repetitions = repetitions;
            repeat(&parsed, options, seed, repeat_runs, Tells { jsonl, verbose }, output)
        }
        CampaignCommand::Resume { run, jsonl, verbose } => {
            let stop = signals::stop_flag()?;
            let mut options = options(String::new())?;
            options.stop = stop.share();
            let begun = store::Run::load(&run).map_err(Failure::usage)?;
            let axes = varying(begun.run.order.iter().map(|step| &step.factors));
            let mut watcher = Watcher::new(output, axes, Tells { jsonl, verbose });
            let ended = campaign::resume(&run, &options, &mut watcher);
            drop(stop);
            let code = finish(ended, watcher, output)?;
            if begun.missing().is_empty() {
                output.note(format_args!(
                    "{} has all its {} cells: nothing was left to measure; windhover report {0} shows them",
                    run.display(),
                    begun.run.order.len()
                ));
            }
            Ok(code)
        }
        CampaignCommand::List { folder } => list(&folder, output),
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Tells {
    pub(crate) jsonl: bool,
    pub(crate) verbose: bool,
}

/// Runs a plan `runs` times with successive seeds; stops when interrupted. The exit code is that of the worst run.
fn repeat(
    plan: &Plan,
    mut options: campaign::Options,
    seed: Option<u64>,
    runs: u32,
    tells: Tells,
    output: &Output,
) -> Result<u8, Failure> {
    const FROM_GOOD_TO_BAD: [u8; 4] = [0, 4, 1, 130];
    let cells = plan.cells().map_err(Failure::usage)?;
    let axes = varying(cells.iter().map(|cell| &cell.factors));
    let mut worst = 0;
    for run in 0..runs {
        let begun = Instant::now();
        options.seed = seed.or(plan.seed).map(|first| first.wrapping_add(u64::from(run)));
        if runs > 1 {
            output.note(format_args!("run {} of {runs}", run + 1));
        }
        let mut watcher = Watcher::new(output, axes.clone(), tells);
        let ended = measured(plan, &mut options, &mut watcher)?;
        let code = finish(ended, watcher, output)?;
        let place = |code| FROM_GOOD_TO_BAD.iter().position(|known| *known == code);
        if place(code) > place(worst) {
            worst = code;
        }
        if options.stop.load(Ordering::Relaxed) {
            break;
        }
        if run + 1 < runs {
            // Run directories are named by the second in which they began.
            std::thread::sleep(Duration::from_secs(1).saturating_sub(begun.elapsed()));
        }
    }
    Ok(worst)
}

pub(crate) fn measured(
    plan: &Plan,
    options: &mut campaign::Options,
    watcher: &mut Watcher<'_>,
) -> Result<Result<campaign::Summary, campaign::CampaignError>, Failure> {
    let stop = signals::stop_flag()?;
    options.stop = stop.share();
    Ok(campaign::run(plan, options, watcher))
}

pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the plan {}", path.display()))
        .map_err(Failure::usage)
}

pub(crate) fn parse(path: &Path, text: &str) -> Result<Plan, Failure> {
    Plan::parse(&path.display().to_string(), text).map_err(Failure::usage)
}

/// The plan on another lab, if one was chosen; and what a lab that is up already consists of, where it uses one.
pub(crate) fn with_lab(mut plan: Plan, chosen: Option<LabChoice>) -> Result<Plan, Failure> {
    let named = plan.lab.as_ref().and_then(|lab| lab.name.clone());
    let kind = match chosen.or(named.map(LabChoice::Named)) {
        None => return Ok(plan),
        Some(LabChoice::Kind(kind)) => kind,
        Some(LabChoice::Named(name)) => {
            let record = lab::Lab::open(&lab::Registry::default(), &name);
            let record = record.map_err(|error| Failure::new(error.exit_code(), error))?;
            plan.lab = Some(record.as_plan());
            plan.hosts.clear();
            plan.check().map_err(Failure::usage)?;
            return Ok(plan);
        }
    };
    match &mut plan.lab {
        Some(lab) if lab.kind == LabKind::Guest => *lab = LabPlan { hosts: lab.hosts, ..LabPlan::new(kind) },
        Some(lab) => (lab.kind, lab.name) = (kind, None),
        None => {
            plan.lab = Some(LabPlan::new(kind));
            plan.hosts.clear();
        }
    }
    Ok(plan)
}

pub(crate) fn options(plan_text: String) -> Result<campaign::Options, Failure> {
    let mut options = campaign::Options::new(plan_text, identity::executable()?);
    options.tool_version = identity::VERSION.to_owned();
    options.build = Some(identity::build()?);
    Ok(options)
}

fn finish(
    ended: Result<campaign::Summary, campaign::CampaignError>,
    mut watcher: Watcher<'_>,
    output: &Output,
) -> Result<u8, Failure> {
    let lines = watcher.tell_end(&ended);
    let path = watcher.close();
    // A run that was cut short is reported as far as it goes; what cut it short is what the person has to hear.
    match path.map_or(Ok(()), |path| report(&path, lines.is_some(), output)) {
        Err(failure) if ended.is_err() => output.warning(format_args!("no report: {:#}", failure.error)),
        reported => reported?,
    }
    let summary = ended.map_err(|error| Failure::new(error.exit_code(), error))?;
    lines.unwrap_or(Ok(()))?;
    if summary.outcome == campaign::Outcome::Interrupted {
        output.note(format_args!(
            "interrupted after {} of {} cells; go on with: windhover campaign resume {}",
            summary.done,
            summary.steps,
            summary.path.display()
        ));
    }
    Ok(summary.exit_code())
}

/// The table on standard output, unless JSON lines stand there, and `report.html` in the run directory.
fn report(path: &Path, has_lines: bool, output: &Output) -> Result<(), Failure> {
    let run = store::Run::load(path).map_err(|error| Failure::new(error.exit_code(), error))?;
    if run.results.is_empty() {
        return Ok(());
    }
    let made = report::Report::from_runs([run], &report::Options::default());
    if !has_lines {
        output.result(&made.table_text(crate::output::width()))?;
    }
    let page = made.page()?;
    page.problems.iter().for_each(|problem| output.warning(problem));
    crate::output::write_into(&store::Folder::open(path)?, REPORT, page.html.as_bytes())?;
    output.note(format_args!("run directory: {}", path.display()));
    output.note(format_args!("report:        {}", path.join(REPORT).display()));
    Ok(())
}

fn show_plan(path: &Path, output: &Output) -> Result<u8, Failure> {
    let plan = parse(path, &read(path)?)?;
    let cells = plan.cells().map_err(Failure::usage)?;
    let seconds = campaign::plan_ns(&plan).map_err(Failure::usage)? / 1_000_000_000;
    let mut text = paragraph(&format!("{}: ", plan.name), plan.title.as_deref().unwrap_or("(no title)"));
    let time = duration(seconds.saturating_mul(1_000_000_000));
    let mut each: BTreeMap<Reverse<u32>, u32> = BTreeMap::new();
    cells.iter().for_each(|cell| *each.entry(Reverse(cell.repetitions)).or_default() += 1);
    let each: Vec<String> = each
        .into_iter()
        .map(|(Reverse(repetitions), count)| {
            format!("{}, {} each", counted(count, "cell"), counted(repetitions, "repetition"))
        })
        .collect();
    text.push_str(&paragraph("", &format!("{}; about {time}", each.join("; "))));
    text.push_str(&questions::lines(&plan, &cells));
    let axes = varying(cells.iter().map(|cell| &cell.factors));
    for cell in &cells {
        text.push_str(&paragraph("  ", &words(&cell.factors, &axes)));
    }
    output.result(&text)?;
    questions::warn(&plan, &cells, path, output);
    if let Some(few) = plan.too_few_visits(&cells) {
        output.warning(few);
    }
    Ok(0)
}

fn list(folder: &Path, output: &Output) -> Result<u8, Failure> {
    if !folder.is_dir() {
        refuse!(
            "{} is no folder: name the one that holds the runs (campaign run --output, by default the current folder)",
            folder.display()
        );
    }
    let runs = store::list(folder).map_err(|error| Failure::new(error.exit_code(), error))?;
    if runs.is_empty() {
        output.note(format_args!("no runs in {}", folder.display()));
    }
    output.result(&runs.iter().map(|run| format!("{run}\n")).collect::<String>())?;
    Ok(0)
}

type Factors = BTreeMap<String, Value>;

/// The axes that differ between cells, each with the width of its longest word for aligned lines.
#[derive(Debug, Clone, Default)]
pub(crate) struct Axes(Vec<(String, usize)>);

/// Sorts axes as the table of factors does, sizes and rates behind the protocol.
pub(crate) fn place(name: &str) -> (bool, bool, usize) {
    let swept = factor::recorded(name).is_some_and(|it| matches!(it.kind, ValueType::Sizes | ValueType::Rates));
    let known = factor::all().position(|it| it.recorded_as == name).unwrap_or(usize::MAX);
    (!swept && !matches!(name, "probe" | "protocol"), swept, known)
}

pub(crate) fn varying<'a>(cells: impl Iterator<Item = &'a Factors>) -> Axes {
    let cells: Vec<&Factors> = cells.collect();
    let names: BTreeSet<((bool, bool, usize), &String)> =
        cells.iter().flat_map(|factors| factors.keys()).map(|name| (place(name), name)).collect();
    let differs = |name: &String| cells.windows(2).any(|pair| pair[0].get(name) != pair[1].get(name));
    let width =
        |name: &String| cells.iter().map(|factors| word(factors, name).chars().count()).max().unwrap_or_default();
    let shown = names.into_iter().filter(|(_, name)| differs(name));
    Axes(shown.map(|(_, name)| (name.clone(), width(name))).collect())
}

fn words(factors: &Factors, Axes(axes): &Axes) -> String {
    let shown: Vec<String> = axes
        .iter()
        .map(|(name, width)| match (name.as_str(), word(factors, name)) {
            ("size" | "rate", word) => format!("{word:>width$}"),
            (_, word) => format!("{word:<width$}"),
        })
        .collect();
    let text = shown.join("  ").trim_end().to_owned();
    if text.is_empty() { "the one cell".to_owned() } else { text }
}

/// A cell's value of an axis, as people say it; empty where the cell has none.
pub(crate) fn word(factors: &Factors, name: &str) -> String {
    let Some(value) = factors.get(name) else { return String::new() };
    let plain = factor::word(value);
    match (name, plain.as_str()) {
        ("size", _) => format!("{plain} B"),
        ("rate", _) => format!("{plain}/s"),
        ("reflectors", "1") => "1 reflector".to_owned(),
        ("reflectors", _) => format!("{plain} reflectors"),
        ("probe" | "protocol", _) => plain,
        _ => factor::recorded(name).map_or_else(|| format!("{name} {plain}"), |it| it.label(&plain)),
    }
}

fn duration(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds:02} s"),
        (hours, minutes, _) => format!("{hours} h {minutes:02} min"),
    }
}

/// One line a finished cell, and a progress bar where a person watches.
pub(crate) struct Watcher<'a> {
    output: &'a Output,
    bar: ProgressBar,
    axes: Axes,
    steps: usize,
    path: Option<PathBuf>,
    told: BTreeSet<String>,
    verbose: bool,
    /// Cells that are over, and how long the rest takes.
    over: usize,
    eta_ns: u64,
    /// JSON lines on standard output, and what became of them.
    jsonl: Option<std::io::Result<bool>>,
    view: View,
}

impl<'a> Watcher<'a> {
    pub(crate) fn new(output: &'a Output, axes: Axes, Tells { jsonl, verbose }: Tells) -> Self {
        Self {
            output,
            bar: bar(output.shows_progress(), BETWEEN_CELLS),
            axes,
            steps: 0,
            path: None,
            told: BTreeSet::new(),
            verbose,
            over: 0,
            eta_ns: 0,
            jsonl: jsonl.then_some(Ok(true)),
            view: View::default(),
        }
    }

    /// A cell is over. Where no bar shows it, each tenth of the cells has a line.
    fn progress(&mut self) {
        const LINES: usize = 10;
        let before = self.over * LINES / self.steps.max(1);
        self.over += 1;
        if self.bar.is_hidden()
            && !self.verbose
            && self.over * LINES / self.steps.max(1) > before
            && self.over < self.steps
        {
            self.line(&format!("{}/{} cells, about {} left", self.over, self.steps, duration(self.eta_ns)));
        }
    }

    /// A JSON line, where they are wanted. After one that could not be written no more follow.
    fn json(&mut self, kind: &str, value: impl FnOnce() -> serde_json::Result<Value>) {
        if let Some(told @ Ok(true)) = &mut self.jsonl {
            let line = value().map(|object| typed(kind, &object.to_string()));
            *told = line.map_err(std::io::Error::from).and_then(|line| written(&line));
        }
    }

    /// The last JSON line; whether the lines could be written, where they are wanted.
    fn tell_end(&mut self, ended: &Result<campaign::Summary, campaign::CampaignError>) -> Option<Result<(), Failure>> {
        let end = match ended {
            Ok(campaign::Summary { outcome, steps, done, failed, untrusted, .. }) => json!({
                "outcome": outcome.word(), "steps": steps, "done": done, "failed": failed, "untrusted": untrusted
            }),
            Err(error) => json!({ "outcome": "failed", "why": format!("{error:#}") }),
        };
        self.json("end", || Ok(end));
        self.jsonl.take().map(|told| told.map(drop).map_err(|error| unwritten("", &error)))
    }

    fn interval(&mut self, interval: &LiveInterval) {
        if let Some((line, is_first)) = self.view.add(interval) {
            if is_first {
                style(&self.bar, WITHIN_A_CELL);
            }
            self.bar.set_prefix(line);
        }
    }

    fn end_of_cell(&mut self) {
        if std::mem::take(&mut self.view).clear() {
            style(&self.bar, BETWEEN_CELLS);
        }
    }

    fn line(&self, text: &str) {
        let text = wrapped(text);
        if self.bar.is_hidden() {
            self.output.note(text.trim_end());
        } else {
            self.bar.println(model::text::visible(text.trim_end()));
        }
    }

    pub(crate) fn close(self) -> Option<PathBuf> {
        self.bar.finish_and_clear();
        self.path
    }
}

/// The bar with the cell; below it what the running cell is doing.
const BETWEEN_CELLS: &str = "{wide_bar} {pos}/{len}  {msg}";
const WITHIN_A_CELL: &str = "{wide_bar} {pos}/{len}  {msg}\n{prefix}";

/// An event of a step, with the step's place in the run and its cell.
fn of_step(step: &RunStep, what: impl FnOnce() -> serde_json::Result<Value>) -> serde_json::Result<Value> {
    let mut value = what()?;
    if let Some(object) = value.as_object_mut() {
        object.insert("index".to_owned(), step.index.into());
        object.insert("cell".to_owned(), step.cell.clone().into());
        object.insert("repetition".to_owned(), step.repetition.into());
    }
    Ok(value)
}

impl Observer for Watcher<'_> {
    fn wants_intervals(&self) -> bool {
        self.jsonl.is_some() || !self.bar.is_hidden()
    }

    fn observe(&mut self, progress: &Progress<'_>) {
        match progress {
            Progress::HostsReady { hosts, substrate } => {
                self.line(&format!("hosts {} ready ({substrate})", hosts.join(", ")));
            }
            Progress::RunOpened { path, steps, done, eta_ns } => {
                self.steps = *steps;
                self.over = *done;
                self.path = Some(path.to_path_buf());
                self.bar.set_length(u64::try_from(*steps).unwrap_or(0));
                self.bar.set_position(u64::try_from(*done).unwrap_or(0));
                self.line(&format!(
                    "{steps} cells, {done} done, about {} to go; writing {}",
                    duration(*eta_ns),
                    path.display()
                ));
                self.json("begin", || Ok(json!({ "path": path, "steps": steps, "done": done })));
            }
            Progress::Note(text) => self.line(text),
            Progress::Warning(text) => self.output.warning(text),
            Progress::Prepared { prepared } => {
                let line = prepared_line(prepared);
                if self.verbose || (prepared.changed > 0 && self.told.insert(prepared.host.clone())) {
                    self.line(&line);
                }
                // What a shield cannot do here is the same each time, and is in the report.
                let notes = prepared.shield.iter().flat_map(|shield| &shield.notes).chain(&prepared.notes);
                for note in notes.filter(|_| self.verbose) {
                    if self.told.insert(note.clone()) {
                        self.line(&format!("  {note}"));
                    }
                }
            }
            Progress::Booting { kernel, attempt, attempts } => {
                self.json("booting", || Ok(json!({ "kernel": kernel, "attempt": attempt })));
                self.line(&format!("booting {kernel} (attempt {attempt} of {attempts})"));
            }
            Progress::Booted { kernel, took_ns } => {
                self.json("booted", || Ok(json!({ "kernel": kernel, "took_ns": took_ns })));
                self.line(&format!("{kernel} runs after {}", duration(*took_ns)));
            }
            Progress::Restored { agent } if self.verbose => self.line(&format!("{agent}: put back")),
            Progress::Restored { .. } => {}
            Progress::CellStarted { step, eta_ns } => {
                self.eta_ns = *eta_ns;
                self.json("cell", || serde_json::to_value(step));
                let words = model::text::visible_line(&words(&step.factors, &self.axes));
                self.bar.set_message(format!("{words}, {} left", duration(*eta_ns)));
            }
            Progress::Interval { step, interval } => {
                self.json("interval", || of_step(step, || serde_json::to_value(interval)));
                self.interval(interval);
            }
            Progress::CellDone { step, result, .. } => {
                self.end_of_cell();
                self.json("result", || of_step(step, || serde_json::to_value(result)));
                self.bar.inc(1);
                if self.verbose || !result.verdict.trusted {
                    self.line(&cell_line(step, self.steps, &self.axes, result));
                }
                self.progress();
            }
            Progress::CellFailed { step, why, .. } => {
                self.end_of_cell();
                self.json("failed", || of_step(step, || Ok(json!({ "why": why }))));
                let cell = words(&step.factors, &self.axes);
                self.line(&format!("{:>4}/{}  {cell}  FAILED: {why}", step.index, self.steps));
            }
        }
    }
}

fn prepared_line(prepared: &model::Prepared) -> String {
    let mut parts = Vec::new();
    if let Some(shield) = &prepared.shield {
        parts.push(format!("shield of CPU {} up ({})", shield.processes, shield.backend));
    }
    parts.extend(prepared.settings.iter().map(ToString::to_string));
    parts.push(match prepared.changed {
        0 => "nothing had to be changed".to_owned(),
        1 => "1 setting changed".to_owned(),
        count => format!("{count} settings changed"),
    });
    format!("{}: {}", prepared.host, parts.join(", "))
}

fn cell_line(step: &RunStep, steps: usize, axes: &Axes, result: &ResultDocument) -> String {
    let mut line = format!("{:>4}/{steps}  {}", step.index, words(&step.factors, axes));
    if let Some(latency) = &result.latency {
        let us = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.2}", ns / 1e3));
        let _ = write!(
            line,
            "  {} mean {:>7}  stdev {:>7}  max {:>8} µs",
            latency.kind.title(),
            us(latency.mean_ns),
            us(latency.stdev_ns),
            us(latency.max_ns.map(|ns| ns as f64))
        );
    }
    if let Some(rate) = &result.rate {
        let us = |latency: &Option<model::Latency>| {
            let p99 = latency.as_ref().and_then(|latency| latency.p99_ns);
            p99.map(|ns| format!("{:.1}", ns as f64 / 1e3))
        };
        if let Some(p99) = us(&result.latency) {
            let intended = us(&result.latency_intended).map(|p99| format!(" (intended {p99})")).unwrap_or_default();
            let _ = write!(line, "  p99 {p99}{intended} µs");
        }
        let _ = write!(line, "  {:.2} % of the rate", 100.0 * rate.achieved_pps / rate.asked_pps);
        if result.messages.lost > 0 {
            let _ = write!(line, "  lost {}", result.messages.lost);
        }
    }
    let mut found: Vec<String> = result.verdict.iter().map(|finding| finding.id.to_string()).collect();
    found.sort();
    found.dedup();
    if !found.is_empty() {
        let mark = if result.verdict.trusted { "*" } else { "!" };
        let _ = write!(line, "  {mark} {}", found.join(", "));
    }
    line
}
