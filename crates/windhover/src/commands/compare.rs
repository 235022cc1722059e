//! `windhover compare`.

use super::report::{same_substrate, unread};
use crate::cli::compare::{Compare, CompareFormat};
use crate::output::{Failure, Output, width};
use digest::RunInput;
use digest::compare::{CompareError, CompareOptions, Siblings, Where, known_factors};
use report::compare::ComparisonWriter as _;
use report::run_input;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const GATE_BROKEN: u8 = 3;

const GATE_UNDECIDED: u8 = 4;

/// The most other runs of a plan that are read, the latest ones.
const MOST_SIBLINGS: usize = 20;

pub(crate) fn run(arguments: &Compare, output: &Output) -> Result<u8, Failure> {
    let (first, second) = sides(arguments).map_err(failure)?;
    let mut options = options(arguments).map_err(failure)?;
    let load_all = |paths: &[PathBuf]| paths.iter().map(|path| load(path, output)).collect::<Result<Vec<_>, _>>();
    let (a, b) = (load_all(first)?, load_all(second)?);
    let all = a.iter().chain(&b).map(|run| (run.name.clone(), run.document.substrate));
    same_substrate(all, &arguments.mix, output)?;
    let mut known = known_factors(&a);
    for (factor, words) in known_factors(&b) {
        known.entry(factor).or_default().extend(words);
    }
    let run = a.first().map(|run| run.name.clone()).unwrap_or_default();
    for asked in options.wheres.iter_mut().chain(&mut options.wheres_b) {
        as_recorded(asked, &known, &run).map_err(failure)?;
    }
    if !b.is_empty() && a.len().min(b.len()) == 1 {
        options.siblings = siblings(&a, &b);
    }
    let made = report::compare::of(&a, &b, &options).map_err(failure)?;
    let text = match arguments.form.get() {
        CompareFormat::Text => made.text(width(), arguments.all),
        CompareFormat::Markdown => made.markdown(),
        CompareFormat::Csv => made.csv(),
        CompareFormat::Json => made.json()?,
    };
    output.result(&text)?;
    let in_text = matches!(arguments.form.get(), CompareFormat::Text | CompareFormat::Markdown);
    for gate in made.gates.iter().filter(|_| !in_text) {
        if gate.broken {
            output.warning(format_args!("gate '{}' is broken", gate.gate));
        } else if let Some(needed) = gate.needed.as_ref().filter(|_| gate.undecided) {
            output.warning(format_args!("gate '{}' is undecided: {needed} would decide", gate.gate));
        }
    }
    Ok(match (made.broken(), made.undecided()) {
        (true, _) => GATE_BROKEN,
        (false, true) => GATE_UNDECIDED,
        (false, false) => 0,
    })
}

/// Replaces printed words (`no`, `no shield`) in a filter by the cells' own. Unknown factors are refused first.
fn as_recorded(asked: &mut Where, known: &BTreeMap<String, BTreeSet<String>>, run: &str) -> Result<(), CompareError> {
    let (factor, value) = asked;
    let Some(words) = known.get(factor) else {
        let known = known.keys().cloned().collect::<Vec<_>>().join(", ");
        return Err(CompareError::Factor { factor: factor.clone(), run: run.to_owned(), known });
    };
    let is_printed = |word: &&String| {
        let label = model::factor::recorded(factor).map(|factor| factor.label(word)).unwrap_or_default();
        *value == label || value == "no" && label.starts_with("no ")
    };
    if !words.contains(value)
        && let Some(word) = words.iter().find(is_printed)
    {
        value.clone_from(word);
    }
    Ok(())
}

/// The words of values, each value once: `auto` also stands for what it chose, `auto (v1)`.
fn each_once(known: &str) -> String {
    let words: Vec<&str> = known.split(", ").collect();
    let is_chosen = |word: &&&str| !words.iter().any(|other| other.starts_with(&format!("{word} (")));
    words.iter().filter(is_chosen).copied().collect::<Vec<_>>().join(", ")
}

/// The runs of each side: those before and after `--with`; two runs alone are a side each.
fn sides(arguments: &Compare) -> Result<(&[PathBuf], &[PathBuf]), CompareError> {
    match (arguments.runs.as_slice(), arguments.second.as_slice()) {
        ([_, _], []) => Ok(arguments.runs.split_at(1)),
        ([_, _, _, ..], []) => Err(CompareError::NoSecondSide),
        (first, second) => Ok((first, second)),
    }
}

/// Other runs of the same plan on the same hosts, in the folders of the sides: what shows how far runs lie apart.
fn siblings(a: &[RunInput], b: &[RunInput]) -> Siblings {
    let sides: Vec<&RunInput> = a.iter().chain(b).collect();
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in sides.iter().filter_map(|run| run.folder.as_ref()?.canonicalize().ok()?.parent().map(Path::to_owned))
    {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    let is_side = |path: &Path| sides.iter().any(|run| run.folder.as_ref().is_some_and(|own| same(own, path)));
    let mut paths: Vec<PathBuf> = folders
        .iter()
        .filter_map(|folder| store::list(folder).ok())
        .flatten()
        .filter(|found| found.state == store::RunState::Done && sides.iter().any(|run| run.document.name == found.name))
        .map(|found| found.path)
        .filter(|path| !is_side(path))
        .collect();
    paths.drain(..paths.len().saturating_sub(MOST_SIBLINGS));
    let mut groups: Vec<Vec<RunInput>> = Vec::new();
    for run in paths.iter().filter_map(|path| store::Run::load(path).ok()).map(run_input) {
        if !sides.iter().any(|side| side.is_sibling(&run)) {
            continue;
        }
        match groups.iter_mut().find(|group| group.first().is_some_and(|first| first.is_sibling(&run))) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    let place = folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(" and ");
    Siblings { groups, place }
}

fn same(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

fn load(path: &Path, output: &Output) -> Result<RunInput, Failure> {
    let run = store::Run::load(path).map_err(unread)?;
    for problem in &run.problems {
        output.warning(problem);
    }
    Ok(run_input(run))
}

fn options(arguments: &Compare) -> Result<CompareOptions, CompareError> {
    Ok(CompareOptions {
        axis: arguments.axis.clone(),
        wheres: arguments.wheres.clone(),
        wheres_b: arguments.wheres_b.clone(),
        metrics: arguments.metrics.iter().map(|word| word.trim().parse()).collect::<Result<_, _>>()?,
        rtt: arguments.rtt,
        batches: arguments.batches,
        gates: arguments.gates.iter().map(|gate| gate.parse()).collect::<Result<_, _>>()?,
        significant: arguments.significant,
        seed: arguments.seed,
        ..CompareOptions::default()
    })
}

fn failure(mut error: CompareError) -> Failure {
    if let CompareError::Value { known, .. } = &mut error {
        *known = each_once(known);
    }
    Failure::new(error.exit_code(), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_listed_once() {
        assert_eq!(each_once("auto, auto (v1), off"), "auto (v1), off");
        assert_eq!(each_once("32, 64"), "32, 64");
    }
}
