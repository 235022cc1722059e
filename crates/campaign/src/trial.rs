//! Trying settings one by one: which help on this machine and placement, which do nothing, which hurt.
//!
//! A trial is a campaign whose axis is a knob: each round measures every setting alone and none of them, in a new random order. A
//! permutation test over the rounds decides, with Holm's correction for the number of settings and a least effect that matters.

use model::plan::Question;
use model::run::RunStep;
use model::{ModelError, Plan, ResultDocument, Statistic};
use stats::{Evidence, Judgement, holm, joint_permutation_test, mean, samples_needed, whole_rounds};
use std::collections::{BTreeMap, BTreeSet};

/// The figures of which a trial tells the change, and one of which decides it.
pub const DECIDING: [Statistic; 5] =
    [Statistic::P50, Statistic::P99, Statistic::P99_9, Statistic::Mean, Statistic::Stdev];

/// The figure that decides, by its word.
///
/// # Errors
/// [`ModelError::UnknownWord`] for what is none of [`DECIDING`].
pub fn deciding(text: &str) -> Result<Statistic, ModelError> {
    let known = text.parse().ok().filter(|place| DECIDING.contains(place));
    known.ok_or_else(|| model::words::unknown("figure", text, &DECIDING.map(Statistic::word)))
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    pub metric: Statistic,
    /// The chance of even one false finding among all settings, such as 0.05.
    pub level: f64,
    /// The least change that matters, as a share: 0.01 is one per cent.
    pub least: f64,
}

impl Default for Rule {
    fn default() -> Self {
        Self { metric: Statistic::P50, level: 0.05, least: 0.01 }
    }
}

model::words! {
    /// What became of a setting, in tables.
    pub enum TrialVerdict {
        /// The figure fell.
        Helped = "helped",
        /// No difference was found, or none that matters.
        Nothing = "no difference",
        /// The figure rose.
        Hurt = "hurt",
        /// It changed nothing on this system: it is not there, or was so already.
        NotApplied = "not applied",
        /// Too few rounds have a result.
        NotMeasured = "not measured",
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// As the axis has it: `KEY=VALUE[;KEY=VALUE…]`.
    pub knob: String,
    /// Rounds with a result without and with it.
    pub rounds: (usize, usize),
    /// Geometric means of the deciding figure without and with it, in ns.
    pub figure: Option<(f64, f64)>,
    /// Its change as a share: -0.5 halves it.
    pub change: Option<f64>,
    pub changes: BTreeMap<Statistic, f64>,
    /// Chance of such a difference without any effect, from the permutation test.
    pub p: Option<f64>,
    /// The same with Holm's correction for all settings tried.
    pub p_corrected: Option<f64>,
    pub verdict: TrialVerdict,
    /// What was said when it was set: one line each.
    pub notes: Vec<String>,
}

/// The fewest rounds with which the surest finding of so many settings reaches the level; at least 5.
pub fn rounds_needed(settings: usize, level: f64) -> u32 {
    u32::try_from(samples_needed(settings, level).clamp(5, 30)).unwrap_or(30)
}

/// The campaign that tries these settings in the cells of a plan: each is one or several `KEY=VALUE`.
///
/// # Errors
/// As [`Plan::cells`]; a plan that varies knobs of its own; no setting, or one that stands there twice.
pub fn trial_plan(base: &Plan, knobs: &[String], rounds: u32) -> Result<Plan, ModelError> {
    let conflict = |what: &str, remedy: &str| Err(ModelError::conflict(what, remedy));
    if base.names("knob") {
        return conflict("the plan has an axis 'knob' of its own", "leave it out: the settings tried are that axis");
    }
    if knobs.is_empty() {
        return conflict("there is no setting to try", "name a profile, or give --set KEY=VALUE");
    }
    let mut seen = BTreeSet::new();
    if let Some(double) = knobs.iter().find(|knob| !seen.insert(*knob)) {
        return conflict(&format!("{double} is to be tried twice"), "leave one out");
    }
    let mut plan = base.clone();
    plan.name = format!("{}-try", base.name);
    plan.set_repetitions(rounds);
    plan.ask = vec![Question::of_axis("knob")];
    // That a setting hurts on a shared CPU is what a trial is there to find out.
    plan.measure.allow_starving = true;
    for grid in &mut plan.grid {
        grid.set("knob", std::iter::once("none").chain(knobs.iter().map(String::as_str)));
    }
    plan.cells()?;
    Ok(plan)
}

/// By repetition the logarithm of a figure, averaged over the cells; only of repetitions with trusted results of all cells.
fn rounds(results: &[&ResultDocument], metric: Statistic) -> Vec<f64> {
    let cell = |result: &ResultDocument| {
        let mut factors = result.factors.clone();
        factors.remove("knob");
        factors.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
    };
    let cells: BTreeSet<Vec<String>> = results.iter().map(|result| cell(result)).collect();
    let logs = results.iter().filter(|result| result.verdict.trusted).filter_map(|result| {
        let figure = result.latency.as_ref().and_then(|latency| metric.of(latency)).filter(|ns| *ns > 0.0);
        Some((result.repetition?, figure?.ln()))
    });
    whole_rounds(logs, cells.len()).iter().filter_map(|logs| mean(logs)).collect()
}

/// Judges the results of a trial, in the order of its settings. `seed` draws the dealings of the test where there are too many.
pub fn judge(results: &[(RunStep, ResultDocument)], knobs: &[String], rule: Rule, seed: u64) -> Vec<Trial> {
    let of = |knob: &str| -> Vec<&ResultDocument> {
        let named = |result: &ResultDocument| result.factor("knob").as_deref() == Some(knob);
        results.iter().map(|(_, result)| result).filter(|result| named(result)).collect()
    };
    let none = of("none");
    let before = rounds(&none, rule.metric);
    let mut trials: Vec<Trial> = knobs
        .iter()
        .map(|knob| {
            let with = of(knob);
            let after = rounds(&with, rule.metric);
            let means = mean(&before).zip(mean(&after));
            let test = (before.len() > 1 && after.len() > 1)
                .then(|| joint_permutation_test(std::slice::from_ref(&before), std::slice::from_ref(&after), seed));
            let p = test.flatten().and_then(|test| test.p.first().copied());
            let changes = DECIDING.into_iter().filter_map(|metric| {
                let (a, b) = (mean(&rounds(&none, metric))?, mean(&rounds(&with, metric))?);
                Some((metric, (b - a).exp_m1()))
            });
            let mut notes: Vec<String> = Vec::new();
            for note in with.iter().flat_map(|result| &result.prepared).flat_map(|prepared| &prepared.notes) {
                if !notes.contains(note) {
                    notes.push(note.clone());
                }
            }
            let applied = with.iter().any(|result| {
                result.prepared.iter().any(|prepared| prepared.changed > 0 && !prepared.settings.is_empty())
            });
            let verdict = match (p, applied) {
                (_, false) if !with.is_empty() => TrialVerdict::NotApplied,
                (None, _) => TrialVerdict::NotMeasured,
                (Some(_), _) => TrialVerdict::Nothing,
            };
            Trial {
                knob: knob.clone(),
                rounds: (before.len(), after.len()),
                figure: means.map(|(a, b)| (a.exp(), b.exp())),
                change: p.and(means).map(|(a, b)| (b - a).exp_m1()),
                changes: changes.collect(),
                p,
                p_corrected: None,
                verdict,
                notes,
            }
        })
        .collect();
    // Only what was really tried counts as a test.
    let tried: Vec<usize> = (0..trials.len()).filter(|&place| trials[place].verdict == TrialVerdict::Nothing).collect();
    let p: Vec<f64> = tried.iter().filter_map(|&place| trials[place].p).collect();
    for (&place, corrected) in tried.iter().zip(holm(&p)) {
        let trial = &mut trials[place];
        trial.p_corrected = Some(corrected);
        let (difference, p) = (trial.change.unwrap_or_default(), trial.p_corrected);
        let evidence = Evidence { difference, interval: None, p, least: rule.least, narrow: 0.0 };
        trial.verdict = match evidence.judge(rule.level) {
            Judgement::Lower => TrialVerdict::Helped,
            Judgement::Higher => TrialVerdict::Hurt,
            Judgement::NoDifference | Judgement::Unclear => TrialVerdict::Nothing,
        };
    }
    trials
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn result(knob: &str, repetition: u32, p50: f64, changed: u32) -> (RunStep, ResultDocument) {
        let p50 = format!("{p50:.0}").parse::<u64>().unwrap();
        let factors = json!({ "protocol": "udp", "size": 32, "knob": knob });
        let prepared = if knob == "none" {
            json!([])
        } else {
            json!([{ "host": "machine", "settings": [{ "key": "k", "value": "v" }], "changed": changed, "notes": [] }])
        };
        let document = json!({
            "format": 1, "probe": "pingpong", "repetition": repetition, "started_ns": 0, "elapsed_ns": 1,
            "factors": factors, "ends": { "initiator": {} },
            "latency": { "kind": "rtt_half", "count": 1000, "mean_ns": p50, "stdev_ns": 1.0, "min_ns": 1,
                         "p50_ns": p50, "p90_ns": 1, "p99_ns": 1, "p99_9_ns": null, "p99_99_ns": null,
                         "p99_999_ns": null, "max_ns": 1 },
            "messages": { "sent": 1, "received": 1, "lost": 0 },
            "prepared": prepared, "verdict": { "trusted": true, "invalid": [], "disturbed": [] }
        });
        let step = json!({ "index": 1, "cell": "c", "repetition": repetition, "factors": factors });
        (serde_json::from_value(step).unwrap(), serde_json::from_value(document).unwrap())
    }

    /// Six rounds of none, one that doubles, one that halves, one that does nothing, one that is not there.
    fn measured() -> Vec<(RunStep, ResultDocument)> {
        let noise = [1.0, 1.03, 0.98, 1.01, 0.99, 1.02];
        let mut results = Vec::new();
        for (round, noise) in (1_u32..).zip(noise) {
            let at = |by: f64| 10_000.0 * by * noise;
            results.push(result("none", round, at(1.0), 0));
            results.push(result("a=2", round, at(2.0), 1));
            results.push(result("b=1", round, at(0.5), 1));
            results.push(result("c=1", round, 10_000.0 * noise.recip(), 1));
            results.push(result("d=1", round, at(3.0), 0));
        }
        results
    }

    fn knobs() -> Vec<String> {
        ["a=2", "b=1", "c=1", "d=1", "e=1"].map(str::to_owned).to_vec()
    }

    #[test]
    fn each_setting_gets_its_verdict() {
        let trials = judge(&measured(), &knobs(), Rule::default(), 1);
        let verdicts: Vec<TrialVerdict> = trials.iter().map(|trial| trial.verdict).collect();
        assert_eq!(
            verdicts,
            [
                TrialVerdict::Hurt,
                TrialVerdict::Helped,
                TrialVerdict::Nothing,
                TrialVerdict::NotApplied,
                TrialVerdict::NotMeasured
            ]
        );
        assert!((trials[0].change.unwrap() - 1.0).abs() < 1e-3 && (trials[1].change.unwrap() + 0.5).abs() < 1e-3);
        // 2 of the 924 dealings of six and six, times the three that were tried.
        assert!((trials[0].p.unwrap() - 2.0 / 924.0).abs() < 1e-9);
        assert!((trials[0].p_corrected.unwrap() - 6.0 / 924.0).abs() < 1e-9);
        assert_eq!(trials[4].rounds, (6, 0));
    }

    #[test]
    fn a_sure_difference_that_does_not_matter_is_none() {
        let rule = Rule { least: 1.5, ..Rule::default() };
        let trials = judge(&measured(), &knobs(), rule, 1);
        assert_eq!(trials[0].verdict, TrialVerdict::Nothing, "twice is a change by 1.0");
    }

    #[test]
    fn untrusted_rounds_and_half_rounds_do_not_count() {
        let mut results = measured();
        for (_, result) in &mut results {
            result.verdict.trusted = result.repetition != Some(3);
        }
        // One repetition of a second cell that only the setting `a` has.
        let mut extra = result("a=2", 1, 5.0, 1);
        extra.1.factors.insert("size".to_owned(), 64.into());
        results.push(extra);
        let trials = judge(&results, &knobs(), Rule::default(), 1);
        assert_eq!(trials[1].rounds, (5, 5));
        assert_eq!(trials[0].rounds, (5, 1), "only the round that has both cells");
        assert_eq!(trials[0].verdict, TrialVerdict::NotMeasured);
    }

    #[test]
    fn enough_rounds_to_find_anything() {
        assert_eq!(rounds_needed(1, 0.05), 5);
        assert_eq!(rounds_needed(6, 0.05), 5);
        assert_eq!(rounds_needed(7, 0.05), 6);
        assert_eq!(rounds_needed(23, 0.05), 6);
        assert_eq!(rounds_needed(24, 0.05), 7);
    }

    #[test]
    fn the_plan_of_a_trial() {
        let text = "name = \"t\"\n[lab]\nkind = \"netns\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n[measure]\ncpu = \"1\"\n";
        let base = Plan::parse("t", &format!("{text}[[grid]]\nsize = [32, 64]\n")).unwrap();
        let knobs = ["sysctl.net.core.busy_poll=50;sysctl.net.core.busy_read=50".to_owned(), "memory.ksm=0".to_owned()];
        let plan = trial_plan(&base, &knobs, 6).unwrap();
        assert_eq!((plan.repetitions, plan.cells().unwrap().len()), (6, 6));
        let steps = crate::plan_order(&plan, 1).unwrap();
        let mut visits: Vec<String> = steps.iter().map(|step| step.cell.factors["knob"].to_string()).collect();
        visits.dedup();
        assert_eq!(visits.len(), 18, "each round visits each setting and none once");
        assert!(trial_plan(&base, &[], 6).is_err());
        assert!(trial_plan(&base, &["a=1".to_owned(), "a=1".to_owned()], 6).is_err());
        assert!(trial_plan(&plan, &knobs, 6).is_err());
    }
}
