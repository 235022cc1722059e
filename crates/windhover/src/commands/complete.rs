//! `windhover complete`: the words that shells offer for a value. What cannot be read is not offered.

use crate::cli::serve::Complete;
use crate::cli::values::{Kind, place};
use crate::output::{Failure, Output};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Prints the words that may stand in the place of the last one, one a line; none where the shell knows as much.
pub(crate) fn run(arguments: &Complete, output: &Output) -> Result<u8, Failure> {
    let mut root = crate::cli::parse::definition();
    root.build();
    let Some(place) = place(&root, &arguments.words) else { return Ok(0) };
    let words = words(place.kind, &place.typed, &place.operands);
    let fitting = words.iter().filter(|word| word.starts_with(&place.typed));
    output.result(&fitting.map(|word| format!("{}{word}\n", place.before)).collect::<String>())?;
    Ok(0)
}

fn words(kind: Kind, typed: &str, operands: &[String]) -> BTreeSet<String> {
    match kind {
        Kind::Profile => prepare::tune::profiles().into_iter().flatten().map(|profile| profile.name).collect(),
        Kind::BypassProfile => bypass::profiles().into_iter().flatten().map(|profile| profile.name).collect(),
        Kind::Lab => labs().into_iter().map(|lab| lab.name).collect(),
        Kind::LabChoice => {
            let kinds = crate::cli::lab::LAB_KINDS.map(|(_, word, _)| word.to_owned());
            kinds.into_iter().chain(labs().into_iter().map(|lab| lab.name)).collect()
        }
        Kind::Host => labs().iter().flat_map(hosts).collect(),
        Kind::Run => runs(typed),
        Kind::Factor => factors(operands).map(|(factor, _)| factor).collect(),
        Kind::FactorValue => {
            let pairs = |(factor, values): (String, BTreeSet<String>)| {
                values.into_iter().map(move |value| format!("{factor}={value}"))
            };
            factors(operands).flat_map(pairs).collect()
        }
        Kind::Cell => {
            let runs = operands.iter().filter_map(|run| store::Run::load(Path::new(run)).ok());
            runs.flat_map(|run| run.run.order).map(|step| step.cell).collect()
        }
        Kind::Device => folder("/sys/class/net").map(|path| name(&path)).collect(),
    }
}

fn labs() -> Vec<lab::LabRecord> {
    let labs = lab::list(&lab::Registry::default()).map(|(labs, _)| labs).unwrap_or_default();
    labs.into_iter().map(|lab| lab.record).collect()
}

/// `LAB/HOST`, of the lab called `lab` the host alone, too.
fn hosts(lab: &lab::LabRecord) -> Vec<String> {
    let names = lab.hosts.iter().map(|host| &host.name);
    let alone = names.clone().filter(|_| lab.name == "lab").cloned();
    names.map(|host| format!("{}/{host}", lab.name)).chain(alone).collect()
}

/// Run directories in the folder that is typed so far, and in the folders in it.
fn runs(typed: &str) -> BTreeSet<String> {
    let parent = typed.rsplit_once('/').map_or(String::new(), |(parent, _)| format!("{parent}/"));
    let is_run = |path: &PathBuf| path.join("run.json").is_file();
    let here = if parent.is_empty() { "./" } else { &parent };
    let inside = folder(here).filter(|path| path.is_dir() && !is_run(path) && !name(path).starts_with('.'));
    let deeper = inside.flat_map(|path| {
        let above = name(&path);
        folder(path).filter(is_run).map(move |run| format!("{above}/{}", name(&run)))
    });
    folder(here).filter(is_run).map(|run| name(&run)).chain(deeper).map(|run| format!("{parent}{run}")).collect()
}

fn factors(runs: &[String]) -> impl Iterator<Item = (String, BTreeSet<String>)> {
    let runs = runs.iter().filter_map(|run| store::Run::load(Path::new(run)).ok());
    digest::compare::known_factors(&runs.map(report::run_input).collect::<Vec<_>>()).into_iter()
}

fn folder<P: AsRef<Path>>(path: P) -> impl Iterator<Item = PathBuf> + use<P> {
    std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
