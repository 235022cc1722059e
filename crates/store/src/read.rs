//! Reading run directories.

use crate::{CsvRow, StoreError, cell, folder, journal};
use model::run::RunStep;
use model::{JournalLine, ModelError, ResultDocument, RunDocument, Substrate};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// A run as it stands on disk.
#[derive(Debug, Clone)]
pub struct Run {
    pub path: PathBuf,
    pub run: RunDocument,
    /// The text of `plan.toml`; empty when it is missing, which is a problem.
    pub plan: String,
    /// The cells that are done, in execution order.
    pub results: Vec<(RunStep, ResultDocument)>,
    /// The steps whose last attempt failed, with the reason.
    pub failed: Vec<(RunStep, String)>,
    /// What is damaged or missing though the journal says that it is there, one line each. Such cells count as not done.
    pub problems: Vec<String>,
    pub journal: Vec<JournalLine>,
}

impl Run {
    /// What the run is called: the name of its directory, else that of its plan.
    pub fn name(&self) -> String {
        self.path.file_name().map_or_else(|| self.run.name.clone(), |name| name.to_string_lossy().into_owned())
    }

    /// Reads a run directory. Cells that are missing are not done, whatever the reason that the run ended. Errors:
    /// [`StoreError::NotARun`]; [`StoreError::Document`] when `run.json` is damaged, or when any document is of a newer format;
    /// [`StoreError::DamagedLine`] for the journal. Each names the file.
    pub fn load(path: &Path) -> Result<Self, StoreError> {
        let mut run = read_run(path)?;
        for machine in run.machines.values_mut() {
            let file = crate::kernel_config_file(path, machine);
            machine.kernel_config = file.and_then(|file| kernel_config(&file));
        }
        let mut problems = Vec::new();
        let plan_path = path.join("plan.toml");
        let plan = plan_text(&plan_path).unwrap_or_else(|problem| {
            problems.push(problem);
            String::new()
        });
        let journal = read_journal(path)?;
        let mut loaded =
            Self { path: path.to_owned(), run, plan, results: Vec::new(), failed: Vec::new(), problems, journal };
        loaded.read_cells()?;
        Ok(loaded)
    }

    fn read_cells(&mut self) -> Result<(), StoreError> {
        let ends = last_words(&self.journal);
        let known: BTreeSet<u32> = self.run.order.iter().map(|step| step.index).collect();
        for index in ends.keys().filter(|index| !known.contains(index)) {
            self.problems.push(format!(
                "{}: names step {index}, which run.json does not have",
                self.path.join("journal.jsonl").display()
            ));
        }
        for step in &self.run.order {
            match ends.get(&step.index) {
                Some(End::Done) => match read_cell(&self.path, step)? {
                    Ok(result) => self.results.push((step.clone(), result)),
                    Err(problem) => self.problems.push(problem),
                },
                Some(End::Failed(why)) => self.failed.push((step.clone(), (*why).to_owned())),
                Some(End::Open) | None => {}
            }
        }
        Ok(())
    }

    /// The steps that have no result yet, in execution order; failed ones are among them.
    pub fn missing(&self) -> Vec<RunStep> {
        let done: BTreeSet<u32> = self.results.iter().map(|(step, _)| step.index).collect();
        self.run.order.iter().filter(|step| !done.contains(&step.index)).cloned().collect()
    }

    /// The results as rows for [`crate::csv`], in execution order.
    pub fn rows(&self) -> impl Iterator<Item = CsvRow<'_>> {
        self.results.iter().map(move |(step, result)| CsvRow { run: Some((self, step)), result })
    }
}

/// The last thing that the journal says of a step.
enum End<'a> {
    Open,
    Done,
    Failed(&'a str),
}

fn last_words(journal: &[JournalLine]) -> BTreeMap<u32, End<'_>> {
    let mut ends = BTreeMap::new();
    for line in journal {
        match line {
            // A step begun again is open until it says otherwise: its files may be half replaced.
            JournalLine::Start { index, .. } => ends.insert(*index, End::Open),
            JournalLine::Done { index, .. } => ends.insert(*index, End::Done),
            JournalLine::Failed { index, why, .. } => ends.insert(*index, End::Failed(why)),
            JournalLine::Begin { .. }
            | JournalLine::Prepared { .. }
            | JournalLine::Restored { .. }
            | JournalLine::Intent { .. }
            | JournalLine::Booted { .. }
            | JournalLine::End { .. } => None,
        };
    }
    ends
}

/// The text of `plan.toml`, or in one line why there is none.
fn plan_text(file: &Path) -> Result<String, String> {
    let bytes = folder::read(file).map_err(|error| error.to_string())?;
    let bytes = bytes.ok_or_else(|| format!("{}: missing", file.display()))?;
    String::from_utf8(bytes).map_err(|error| format!("{}: damaged ({})", file.display(), error.utf8_error()))
}

/// A kernel's configuration; `None` where there is none. It only explains, so that damage is no error.
fn kernel_config(file: &Path) -> Option<String> {
    /// Several times the largest.
    const MOST_BYTES: u64 = 4 << 20;
    let mut text = String::new();
    folder::open(file).ok()?.take(MOST_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

pub(crate) fn read_run(path: &Path) -> Result<RunDocument, StoreError> {
    let file = path.join("run.json");
    let bytes = match folder::read(&file) {
        Ok(bytes) => bytes,
        Err(StoreError::Read { cause, .. }) if cause.kind() == io::ErrorKind::NotADirectory => None,
        Err(error) => return Err(error),
    };
    let bytes = bytes.ok_or_else(|| StoreError::NotARun(path.to_owned()))?;
    parse_run(&file.display().to_string(), &bytes)
}

/// The text of a `run.json`, checked: each step's index stands there once.
pub(crate) fn parse_run(what: &str, bytes: &[u8]) -> Result<RunDocument, StoreError> {
    let damaged = |why: String| ModelError::Document {
        what: what.to_owned(),
        why: format!("damaged ({why}): put the file back from a copy, or measure again"),
    };
    let text = std::str::from_utf8(bytes).map_err(|error| damaged(error.to_string()))?;
    let run = RunDocument::read(what, text)?;
    let mut seen = BTreeSet::new();
    for step in &run.order {
        if !seen.insert(step.index) {
            return Err(damaged(format!("step {} stands there twice", step.index)).into());
        }
    }
    Ok(run)
}

/// A run without a journal was killed before its first line: it has none.
pub(crate) fn read_journal(path: &Path) -> Result<Vec<JournalLine>, StoreError> {
    let file = path.join("journal.jsonl");
    Ok(journal::parse(&file, &folder::read(&file)?.unwrap_or_default())?.0)
}

/// The steps that the journal says are done and failed.
pub(crate) fn counts(journal: &[JournalLine]) -> (usize, usize) {
    let ends = last_words(journal);
    let count = |wanted: fn(&End<'_>) -> bool| ends.values().filter(|end| wanted(end)).count();
    (count(|end| matches!(end, End::Done)), count(|end| matches!(end, End::Failed(_))))
}

/// A done cell's document, or what is wrong with it. A newer format is an error: more of the run would be misread.
fn read_cell(run: &Path, step: &RunStep) -> Result<Result<ResultDocument, String>, StoreError> {
    let path = cell::path(run, step.index, ".json");
    let what = path.display().to_string();
    let Some(bytes) = folder::read(&path)? else {
        return Ok(Err(format!("{what}: missing, though the journal says that it is done")));
    };
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return Ok(Err(format!("{what}: damaged ({})", error.utf8_error()))),
    };
    match ResultDocument::read(&what, &text) {
        Ok(result) if result.cell.as_deref().is_some_and(|cell| cell != step.cell) => Ok(Err(format!(
            "{what}: is the result of cell '{}', run.json expects '{}'",
            result.cell.unwrap_or_default(),
            step.cell
        ))),
        Ok(result) => Ok(Ok(result)),
        Err(error @ ModelError::NewerFormat { .. }) => Err(error.into()),
        Err(error) => Ok(Err(error.to_string())),
    }
}

/// Refuses runs (name and substrate of each) that are not of one substrate, unless `allowed` has all of theirs. Then the
/// answer is one line to print, with who is what; absent where all are of one. Errors: [`StoreError::Substrates`].
pub fn one_substrate(runs: &[(String, Substrate)], allowed: &[Substrate]) -> Result<Option<String>, StoreError> {
    let substrates: BTreeSet<Substrate> = runs.iter().map(|(_, substrate)| *substrate).collect();
    if substrates.len() < 2 {
        return Ok(None);
    }
    let of = |substrate: &Substrate| {
        let own = runs.iter().filter(|(_, other)| other == substrate).map(|(name, _)| name.as_str());
        format!("{substrate} ({})", own.collect::<Vec<_>>().join(", "))
    };
    let who = substrates.iter().map(of).collect::<Vec<_>>().join("; ");
    if substrates.iter().all(|substrate| substrate.is_among(allowed)) {
        return Ok(Some(format!("these runs are of different substrates: {who}")));
    }
    let all = substrates.iter().map(|substrate| substrate.word()).collect::<Vec<_>>().join(",");
    Err(StoreError::Substrates { who, all })
}

/// Loads several runs in the order asked for; a run named twice is loaded once. Errors: as [`Run::load`], for the first run that cannot
/// be read.
pub fn load_many<P: AsRef<Path>>(paths: &[P]) -> Result<Vec<Run>, StoreError> {
    let mut seen = BTreeSet::new();
    let identity = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    paths.iter().map(AsRef::as_ref).filter(|path| seen.insert(identity(path))).map(Run::load).collect()
}
