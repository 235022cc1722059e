//! One check: what it is called, what it rests on, and the function that makes it.

use super::document::{Finding, Reading, Remedy, Severity, Skipped};
use super::subject::{Skip, Subject};
use host::tasks::Task;
pub(super) use model::text::counted as count;
use model::{CpuList, NicFacts};
use std::collections::BTreeMap;
use std::fmt;

macro_rules! checks {
    ($($id:literal by $make:expr, reads $reads:literal, when $when:literal, why $why:literal, on [$($on:expr),+];)+) => {
        {
            use $crate::doctor::check::{Evidence::*, Make::*};
            &[$(Check { id: $id, reads: $reads, when: $when, why: $why, evidence: &[$($on),+], make: $make }),+]
        }
    };
}
pub(super) use checks;

/// What the doctor examines, one row of its table.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// `cpu.foreign-tasks`.
    pub id: &'static str,
    pub reads: &'static str,
    pub when: &'static str,
    pub why: &'static str,
    pub evidence: &'static [Evidence],
    pub(super) make: Make,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Make {
    Once(fn(&Subject<'_>) -> Answer),
    /// For each network device in question; skipped when it is skipped for all of them.
    EachNic(fn(&Subject<'_>, &NicFacts) -> Answer),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    Papers,
    Tuned,
    Kernel(&'static str),
    Measured(&'static str),
    Practice,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Papers => f.write_str("the white papers' recipe"),
            Self::Tuned => f.write_str("tuned's low-latency profiles"),
            Self::Kernel(document) => write!(f, "kernel: {document}"),
            Self::Measured(what) => write!(f, "measured: {what}"),
            Self::Practice => f.write_str("common practice, not measured here"),
        }
    }
}

pub(super) type Answer = Result<Vec<Observation>, Skip>;

/// What was found, or `otherwise` where that is nothing.
#[expect(clippy::unnecessary_wraps, reason = "the last line of a check")]
pub(super) fn found_or(found: Vec<Observation>, otherwise: impl FnOnce() -> Observation) -> Answer {
    Ok(if found.is_empty() { vec![otherwise()] } else { found })
}

#[derive(Debug, Clone)]
pub(super) struct Observation {
    severity: Severity,
    text: String,
    read: Vec<Reading>,
    remedies: Vec<Remedy>,
}

pub(super) fn bad(text: impl Into<String>) -> Observation {
    Observation::new(Severity::Bad, text)
}

pub(super) fn warning(text: impl Into<String>) -> Observation {
    Observation::new(Severity::Warning, text)
}

pub(super) fn note(text: impl Into<String>) -> Observation {
    Observation::new(Severity::Note, text)
}

pub(super) fn ok(text: impl Into<String>) -> Observation {
    Observation::new(Severity::Ok, text)
}

impl Observation {
    pub(super) fn new(severity: Severity, text: impl Into<String>) -> Self {
        Self { severity, text: one_line(&text.into()), read: Vec::new(), remedies: Vec::new() }
    }

    pub(super) fn read(mut self, path: impl Into<String>, value: impl fmt::Display) -> Self {
        self.read.push(Reading { path: path.into(), value: one_line(&value.to_string()) });
        self
    }

    pub(super) fn read_name(self, task: &Task) -> Self {
        self.read(format!("/proc/{}/comm", task.process), &task.key.name)
    }

    pub(super) fn read_allowed(self, task: &Task) -> Self {
        let thread = if task.key.tid == task.process { String::new() } else { format!("/task/{}", task.key.tid) };
        self.read(format!("/proc/{}{thread}/status Cpus_allowed_list", task.process), &task.allowed)
    }

    pub(super) fn read_policy(self, task: &Task) -> Self {
        self.read(format!("/proc/{}/stat policy", task.process), task.policy_words())
    }

    pub(super) fn tune(self, key: &str, value: impl fmt::Display) -> Self {
        self.setting(None, key, &value)
    }

    pub(super) fn tune_nic(self, nic: &str, key: &str, value: impl fmt::Display) -> Self {
        self.setting(Some(nic.to_owned()), key, &value)
    }

    fn setting(mut self, nic: Option<String>, key: &str, value: &dyn fmt::Display) -> Self {
        let setting = model::Setting { key: key.to_owned(), value: value.to_string() };
        self.remedies.push(Remedy::Tune { setting, nic });
        self
    }

    pub(super) fn shield(mut self, cpus: &CpuList, more: &str) -> Self {
        // The boot CPU is refused unless it is meant.
        let boot = if cpus.contains(0) { " --allow-boot-cpu" } else { "" };
        self.remedies.push(Remedy::Shield { arguments: format!("-a {cpus}{more}{boot}") });
        self
    }

    pub(super) fn unshield(mut self) -> Self {
        self.remedies.push(Remedy::Shield { arguments: "--reset".to_owned() });
        self
    }

    pub(super) fn command(mut self, line: impl Into<String>) -> Self {
        self.remedies.push(Remedy::Command { line: line.into() });
        self
    }

    pub(super) fn boot(mut self, words: impl Into<String>) -> Self {
        self.remedies.push(Remedy::Boot { words: words.into() });
        self
    }

    pub(super) fn advice(mut self, text: impl Into<String>) -> Self {
        self.remedies.push(Remedy::Advice { text: text.into() });
        self
    }
}

impl Check {
    pub(super) fn run(&self, subject: &Subject<'_>, findings: &mut Vec<Finding>, skipped: &mut Vec<Skipped>) {
        let answer = match self.make {
            Make::Once(make) => make(subject),
            Make::EachNic(make) => each_nic(subject, make),
        };
        match answer {
            Ok(observations) => findings.extend(observations.into_iter().map(|observation| Finding {
                id: self.id.to_owned(),
                severity: observation.severity,
                text: observation.text,
                read: observation.read,
                why: self.why.to_owned(),
                remedies: observation.remedies,
                evidence: self.evidence.iter().map(ToString::to_string).collect(),
            })),
            Err(Skip { kind, reason }) => {
                skipped.push(Skipped { id: self.id.to_owned(), because: kind, reason: one_line(&reason) });
            }
        }
    }

    /// The part of the id before the dot.
    pub fn section(&self) -> &'static str {
        self.id.split('.').next().unwrap_or_default()
    }
}

/// What the devices give; the last reason when none gives anything.
fn each_nic(subject: &Subject<'_>, make: fn(&Subject<'_>, &NicFacts) -> Answer) -> Answer {
    let (mut found, mut reason) = (Vec::new(), None);
    for nic in subject.nics()? {
        match make(subject, nic) {
            Ok(more) => found.extend(more),
            Err(skip) => reason = Some(skip),
        }
    }
    reason.filter(|_| found.is_empty()).map_or(Ok(found), Err)
}

/// Text on one line, of a bearable length.
fn one_line(text: &str) -> String {
    model::text::excerpt(&text.split_whitespace().collect::<Vec<_>>().join(" "), 300)
}

/// Names of tasks, the most frequent first: `cc1 ×7, make, sh and 3 more`.
pub(crate) fn names_of(tasks: &[&Task], most: usize) -> String {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for task in tasks {
        *counts.entry(&task.key.name).or_default() += 1;
    }
    let mut counts: Vec<(&str, u32)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let word = |(name, count): (&str, u32)| if count > 1 { format!("{name} ×{count}") } else { name.to_owned() };
    some_of(counts.into_iter().map(word), most)
}

/// A few of many names: `a, b, c and 12 more`.
pub fn some_of<T: fmt::Display>(all: impl IntoIterator<Item = T>, most: usize) -> String {
    let all: Vec<String> = all.into_iter().map(|item| item.to_string()).collect();
    if all.len() <= most + 1 {
        return all.join(", ");
    }
    format!("{} and {} more", all.iter().take(most).cloned().collect::<Vec<_>>().join(", "), all.len() - most)
}
