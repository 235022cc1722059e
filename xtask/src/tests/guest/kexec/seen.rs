//! What the machine reports, and what is on its disk at the end.

use super::machine::Machine;
use crate::{files, process};
use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

#[derive(Default)]
pub(super) struct CampaignState {
    pub(super) steps: usize,
    /// Cells that the campaign's process said were done.
    told: BTreeSet<u32>,
    /// The finished results that were on the disk at the last look, with their sums.
    kept: BTreeMap<u32, String>,
    /// The results of a look that is not over, finished or not, and the numbers that the journal calls done.
    looked: BTreeMap<u32, String>,
    finished: BTreeSet<u32>,
    failures: Vec<String>,
    pub(super) last: String,
}

impl CampaignState {
    /// Nothing yet, of a campaign with this many cells.
    pub(super) fn of(steps: usize) -> Self {
        Self { steps, ..Self::default() }
    }

    /// Takes a report; whether it shows that something happened. Fails where a result is missing or was written again.
    pub(super) fn take(&mut self, line: &str) -> Result<bool> {
        let word = line.split(' ').next().unwrap_or_default();
        match word {
            "snapshot" => {
                self.looked.clear();
                self.finished.clear();
            }
            "done" => {
                let index = line.split(' ').nth(1).and_then(|index| index.parse().ok()).context("done, but what")?;
                ensure!(self.finished.insert(index), "cell {index} is done twice");
            }
            "cell" => {
                let mut parts = line.split_ascii_whitespace().skip(1);
                let sum = parts.next().unwrap_or_default().to_owned();
                let name = parts.next().and_then(|name| name.strip_prefix("./")?.strip_suffix(".json")?.parse().ok());
                self.looked.extend(name.map(|index| (index, sum)));
            }
            "start" | "home" | "away" => {
                // A result without its line was cut off, and is measured again.
                self.looked.retain(|index, _| self.finished.contains(index));
                let all = self.told.iter().chain(self.kept.keys());
                let lost: Vec<&u32> = all.filter(|index| !self.looked.contains_key(index)).collect();
                ensure!(lost.is_empty(), "cells {lost:?} were done, and are no more");
                let differs = self.kept.iter().find(|(index, sum)| self.looked.get(index) != Some(sum));
                ensure!(differs.is_none(), "the result of a finished cell was written again: {differs:?}");
                self.kept = std::mem::take(&mut self.looked);
            }
            _ => {
                let words = line.trim_start_matches("windhover:").trim_start();
                let place = words.split_once('/').and_then(|(index, rest)| {
                    (rest.split(' ').next()? == self.steps.to_string()).then(|| index.parse().ok())?
                });
                if words.contains("FAILED:") {
                    self.failures.push(words.to_owned());
                } else if let Some(index) = place {
                    self.told.insert(index);
                }
            }
        }
        let is_news = !matches!(word, "cell" | "done" | "snapshot");
        if is_news {
            line.clone_into(&mut self.last);
        }
        Ok(is_news)
    }

    /// Fails where not every cell is on the disk, or one failed.
    pub(super) fn has_all(&self) -> Result<()> {
        ensure!(self.failures.is_empty(), "cells failed: {}", self.failures.join("; "));
        ensure!(self.kept.len() == self.steps, "{} of {} cells are done", self.kept.len(), self.steps);
        Ok(())
    }

    pub(super) fn done(&self) -> usize {
        self.told.iter().chain(self.kept.keys()).collect::<BTreeSet<_>>().len()
    }
}

/// Every step has one result, measured on its kernel, in the order of the plan, and none that was seen is missing.
pub(super) fn check(machine: &Machine, steps: usize) -> Result<()> {
    let out = machine.folder.join("out");
    files::fresh(&out)?;
    let dump = format!("rdump /runs {}", out.display());
    process::run("/usr/sbin/debugfs", &["-R", &dump, &machine.disk.to_string_lossy()])?;
    let runs = files::listed(&out.join("runs"))?;
    let [run] = &runs[..] else { bail!("{} runs on the disk", runs.len()) };
    let read = |path: PathBuf| -> Result<Value> {
        serde_json::from_str(&files::read(&path)?).with_context(|| path.display().to_string())
    };
    let document = read(run.join("run.json"))?;
    ensure!(document["outcome"] == "done", "the run is {}", document["outcome"]);
    let order = document["order"].as_array().context("run.json has no order")?;
    ensure!(order.len() == steps, "the run has {} cells", order.len());
    let journal = files::read(&run.join("journal.jsonl"))?;
    let journal: Vec<Value> = journal.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let of = |step: &str| journal.iter().filter(move |line| line["step"] == step).collect::<Vec<_>>();
    let measured: Vec<&Value> = of("done").into_iter().map(|line| &line["index"]).collect();
    let wanted: Vec<&Value> = order.iter().map(|step| &step["index"]).collect();
    ensure!(measured == wanted, "measured {measured:?}, in order {wanted:?}");
    let mut visits: Vec<(&Value, &Value)> =
        order.iter().map(|step| (&step["factors"]["kernel"], &step["repetition"])).collect();
    visits.dedup();
    let mut entered: Vec<(&Value, &Value)> = Vec::new();
    for line in of("intent") {
        let visit = (&line["kernel"], &line["visit"]);
        if !entered.contains(&visit) {
            entered.push(visit);
        }
    }
    ensure!(entered == visits, "entered {entered:?}, in order {visits:?}");
    for step in order {
        let index = step["index"].as_u64().context("a step without its number")?;
        let result = read(run.join(format!("cells/{index:04}.json")))?;
        let boot = result["boot"]["ids"]["a"].as_str().context("a result without its boot")?;
        let of_boot = &document["machines"][boot];
        let kernel = step["factors"]["kernel"].as_str().unwrap_or_default();
        let line = of_boot["command_line"].as_str().context("a boot without its machine")?;
        let (_, words) = line.split_once("windhover.kexec").context("measured on the default kernel")?;
        let has: Vec<&str> = words.split_whitespace().filter(|word| !word.starts_with("panic=")).collect();
        let words: Vec<&str> = kernel.split_whitespace().skip(1).collect();
        let release = machine.releases.get(kernel).map(String::as_str);
        ensure!(
            of_boot["kernel_release"].as_str() == release && words == has,
            "cell {index} of '{kernel}' was measured on {} '{line}'",
            of_boot["kernel_release"]
        );
    }
    Ok(())
}

#[cfg(test)]
mod unit {
    use super::CampaignState;

    /// The checks themselves can fail.
    #[test]
    fn a_lost_and_a_rewritten_result_are_seen() {
        let begun = ["snapshot", "start run", "windhover:    1/9  x", "cut off 2/", "snapshot", "cell aa  ./0001.json"];
        let seen = |more: &[&str]| {
            let mut seen = CampaignState::of(9);
            begun.iter().chain(more).try_for_each(|line| seen.take(line).map(drop)).map(|()| seen.done())
        };
        assert_eq!(seen(&["done 1", "start resume"]).ok(), Some(1));
        assert!(seen(&["snapshot", "start resume"]).is_err(), "lost");
        assert!(seen(&["start resume"]).is_err(), "its line is lost");
        assert!(seen(&["done 1", "done 1"]).is_err(), "twice");
        let again = ["done 1", "start resume", "snapshot", "cell ab  ./0001.json", "done 1", "home"];
        assert!(seen(&again).is_err(), "written again");
        // A result that was cut off before its line may be another one later.
        let cut =
            ["cell bb  ./0003.json", "done 1", "start", "snapshot", "cell aa  ./0001.json", "cell cc  ./0003.json"];
        assert_eq!(seen(&[&cut[..], &["done 1", "done 3", "home"]].concat()).ok(), Some(2));
    }
}
