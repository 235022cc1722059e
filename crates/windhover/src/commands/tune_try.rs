//! `windhover tune try`: a campaign whose axis is a knob, and its verdict on each setting.

use super::campaign::{Tells, Watcher, measured, options, varying, with_lab};
use crate::cli::tune_try::TuneTry;
use crate::output::{Failure, Output, json, paragraph, width};
use campaign::{Rule, Trial, TrialVerdict};
use model::{Plan, Statistic};
use report::Columns;
use std::collections::BTreeMap;

/// Runs the trial. `profile` gives a profile's settings as `KEY=VALUE`; `keep` applies settings and prints the result.
pub(crate) fn run(
    arguments: &TuneTry,
    output: &Output,
    profile: impl FnOnce(&str) -> Result<Vec<String>, Failure>,
    keep: impl FnOnce(&[String]) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    let mut knobs = match &arguments.profile {
        Some(name) => profile(name)?,
        None => Vec::new(),
    };
    for setting in &arguments.settings {
        if !knobs.contains(setting) {
            knobs.push(setting.clone());
        }
    }
    if !(arguments.least.is_finite() && arguments.least >= 0.0) {
        refuse!("--least {}: give a share of 0 per cent or more", arguments.least);
    }
    let rule = Rule { metric: arguments.by, least: arguments.least / 100.0, ..Rule::default() };
    let needed = campaign::rounds_needed(knobs.len(), rule.level);
    let rounds = arguments.rounds.unwrap_or(needed);
    if rounds < needed {
        output.warning(format_args!(
            "{rounds} rounds of {} settings cannot be significant, however large the difference: it takes {needed}",
            knobs.len()
        ));
    }
    let base = base(arguments)?;
    let plan = campaign::trial_plan(&base, &knobs, rounds).map_err(Failure::usage)?;
    let text = plan.to_text().map_err(Failure::usage)?;
    let mut options = options(text)?;
    options.output.clone_from(&arguments.output);
    options.seed = arguments.seed;
    let cells = plan.cells().map_err(Failure::usage)?;
    let axes = varying(cells.iter().map(|cell| &cell.factors));
    let mut watcher = Watcher::new(output, axes, Tells { jsonl: false, verbose: true });
    let ended = measured(&plan, &mut options, &mut watcher)?;
    let path = watcher.close();
    let mut kept = Vec::new();
    if let Some(path) = &path {
        let run = store::Run::load(path).map_err(|error| Failure::new(error.exit_code(), error))?;
        let trials = campaign::judge(&run.results, &knobs, rule, run.run.seed);
        let as_json = arguments.form.is_json();
        output.result(&if as_json { json(documents(&trials, rule))? } else { table(&trials, rule, rounds, &base) })?;
        output.note(format_args!("run directory: {}", path.display()));
        kept = trials
            .iter()
            .filter(|trial| trial.verdict == TrialVerdict::Helped)
            .flat_map(|trial| trial.knob.split(';').map(|setting| setting.trim().to_owned()))
            .collect();
    }
    let summary = ended.map_err(|error| Failure::new(error.exit_code(), error))?;
    let code = summary.exit_code();
    if !arguments.keep || summary.outcome != campaign::Outcome::Done {
        return Ok(code);
    }
    if kept.is_empty() {
        output.note("nothing helped, so nothing is kept");
        return Ok(code);
    }
    let applied = keep(&kept)?;
    Ok(if code == 0 { applied } else { code })
}

fn base(arguments: &TuneTry) -> Result<Plan, Failure> {
    if let Some(path) = &arguments.plan {
        let text = super::campaign::read(path)?;
        let mut plan = super::campaign::parse(path, &text)?;
        for host in plan.hosts.values_mut().filter(|_| arguments.nic.is_some()) {
            host.device.clone_from(&arguments.nic);
        }
        return Ok(plan);
    }
    let head = "name = \"tune\"\n[lab]\nkind = \"netns\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n[[grid]]\n";
    let mut plan =
        with_lab(Plan::parse("(from the flags)", head).map_err(Failure::usage)?, Some(arguments.lab.clone()))?;
    plan.measure.set("seconds", arguments.seconds);
    plan.measure.set("warmup_ms", 100);
    let TuneTry { receive, policy, cpu, protocol, load, shield, .. } = arguments;
    let named = [("receive", receive), ("policy", policy), ("cpu", cpu), ("protocol", protocol), ("load", load)];
    // A plan that names no shield leaves one that is up alone.
    let shield = Some(("shield", shield)).filter(|(_, word)| *word != "off");
    named.into_iter().chain(shield).for_each(|(name, value)| plan.measure.set(name, value.as_str()));
    plan.measure.set("size", arguments.size);
    Ok(plan)
}

fn percent(change: f64) -> String {
    let percent = change * 100.0;
    if percent.abs() < 1000.0 { format!("{percent:+.1} %") } else { format!("x {:.1}", change + 1.0) }
}

fn chance(p: f64) -> String {
    if p < 0.001 { format!("{p:.1e}") } else { format!("{p:.3}") }
}

fn table(trials: &[Trial], rule: Rule, rounds: u32, base: &Plan) -> String {
    let placement = match base.measure.get("cpu").and_then(|cpu| cpu.as_str()) {
        Some("any") | None => "on any CPU".to_owned(),
        Some(cpu) => format!("on CPU {cpu}"),
    };
    let head = format!(
        "{} of RTT/2, {rounds} rounds, ends {placement}. A setting helps or hurts only on this machine and placement.",
        rule.metric
    );
    let figure = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let us = |ns: f64| format!("{:.3}", ns / 1e3);
    let other = |trial: &Trial, metric: Statistic| figure(trial.changes.get(&metric).map(|change| percent(*change)));
    let grid = Columns::none()
        .words("setting", |trial: &&Trial| trial.knob.clone())
        .words("verdict", |trial| trial.verdict.word().to_owned())
        .figures("without", "µs", |trial| figure(trial.figure.map(|(before, _)| us(before))))
        .figures("with", "µs", |trial| figure(trial.figure.map(|(_, after)| us(after))))
        .figures("change", "", |trial| figure(trial.change.map(percent)))
        .figures("p", "", |trial| figure(trial.p.map(chance)))
        .figures("p corrected", "", |trial| figure(trial.p_corrected.map(chance)))
        .figures("p99", "", |trial| other(trial, Statistic::P99))
        .figures("stdev", "", |trial| other(trial, Statistic::Stdev))
        .grid(trials);
    let mut text = paragraph("", &head);
    text.push_str(&grid.text(width()));
    for trial in trials.iter().filter(|trial| trial.verdict == TrialVerdict::NotApplied) {
        let why = if trial.notes.is_empty() { "it had that value already".to_owned() } else { trial.notes.join("; ") };
        text.push_str(&paragraph("", &format!("{} was not applied: {why}.", trial.knob)));
    }
    let of = |verdict: TrialVerdict| -> Vec<&str> {
        trials.iter().filter(|trial| trial.verdict == verdict).map(|trial| trial.knob.as_str()).collect()
    };
    for (verdict, words) in
        [(TrialVerdict::Helped, "Helped"), (TrialVerdict::Nothing, "No difference found"), (TrialVerdict::Hurt, "Hurt")]
    {
        let names = of(verdict);
        if !names.is_empty() {
            text.push_str(&paragraph("", &format!("{words}: {}.", names.join(", "))));
        }
    }
    let rule = format!(
        "A verdict needs a corrected p (permutation test over the rounds, Holm for {} settings) of at most {} and a change of \
         at least {:.1} %. p99 and stdev stand beside and decide nothing.",
        trials.iter().filter(|trial| trial.p_corrected.is_some()).count(),
        rule.level,
        rule.least * 100.0
    );
    text.push_str(&paragraph("", &rule));
    text
}

fn documents(trials: &[Trial], rule: Rule) -> Vec<serde_json::Value> {
    let document = |trial: &Trial| {
        let changes: BTreeMap<&str, f64> =
            trial.changes.iter().map(|(metric, change)| (metric.word(), *change)).collect();
        fields!(trial; knob, change, p, p_corrected, rounds, notes;
            "verdict": trial.verdict.word(),
            "figure": rule.metric.word(),
            "without_ns": trial.figure.map(|(before, _)| before),
            "with_ns": trial.figure.map(|(_, after)| after),
            "changes": changes,
        )
    };
    trials.iter().map(document).collect()
}
