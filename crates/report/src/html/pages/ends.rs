//! What stands behind a cell: its factors, what the ends were told and what they cost, what was changed, its files.

use crate::RunInput;
use crate::units::plain;
use model::result::EndReport;
use model::{Probe, ResultDocument};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Facts {
    heading: String,
    pairs: Vec<(String, String)>,
}

pub(super) fn facts(run: &RunInput, members: &[(usize, &ResultDocument)]) -> Vec<Facts> {
    let mut out = Vec::new();
    let Some((_, first)) = members.first() else { return out };
    out.push(Facts {
        heading: "Factors".to_owned(),
        pairs: first.factors.keys().filter_map(|name| Some((plain(name), plain(&first.factor(name)?)))).collect(),
    });
    out.push(Facts { heading: "Initiator".to_owned(), pairs: end(&first.ends.initiator, members) });
    if let Some(reflector) = &first.ends.reflector {
        out.push(Facts { heading: "Reflector".to_owned(), pairs: end(reflector, members) });
    }
    for prepared in &first.prepared {
        let mut pairs: Vec<(String, String)> = Vec::new();
        if let Some(shield) = &prepared.shield {
            pairs.push(("shield".to_owned(), plain(&shield.backend.to_string())));
            pairs.push(("CPUs without processes of others".to_owned(), plain(&shield.processes.to_string())));
            pairs.push(("CPUs without device interrupts".to_owned(), plain(&shield.interrupts.to_string())));
        }
        pairs.extend(prepared.settings.iter().map(|setting| (plain(&setting.key), plain(&setting.value))));
        pairs.push(("settings changed".to_owned(), prepared.changed.to_string()));
        let notes = prepared.shield.iter().flat_map(|shield| &shield.notes).chain(&prepared.notes);
        pairs.extend(notes.map(|note| ("note".to_owned(), plain(note))));
        out.push(Facts { heading: format!("Prepared on {}", plain(&prepared.host)), pairs });
    }
    if let Some(load) = &first.load {
        out.push(Facts {
            heading: "Load beside it".to_owned(),
            pairs: vec![
                ("profile".to_owned(), plain(&load.spec.profile.to_string())),
                ("busy share".to_owned(), format!("{:.0} %", load.busy_percent)),
                (
                    "evenness (coefficient of variation of its work)".to_owned(),
                    load.work_cv.map_or_else(|| "–".to_owned(), |cv| format!("{cv:.2}")),
                ),
                ("steady when measured".to_owned(), if load.steady { "yes" } else { "no" }.to_owned()),
            ],
        });
    }
    let files: Vec<String> =
        members.iter().filter_map(|(member, _)| Some(format!("cells/{:04}.*", run.steps.get(*member)?))).collect();
    if !files.is_empty() {
        out.push(Facts { heading: "Files".to_owned(), pairs: vec![(plain(&run.name), files.join(", "))] });
    }
    out.retain(|facts| !facts.pairs.is_empty());
    out
}

/// What an end was told.
fn end(end: &EndReport, members: &[(usize, &ResultDocument)]) -> Vec<(String, String)> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    let mut push = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            pairs.push((name.to_owned(), plain(&value)));
        }
    };
    push("host", end.host.clone());
    push("address", end.address.clone());
    push(
        "receive",
        (members.first().is_some_and(|(_, result)| result.probe != Probe::Ping)).then(|| end.spec.receive.to_string()),
    );
    push("policy", Some(end.spec.policy.to_string()));
    push("CPU", Some(end.spec.cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string())));
    push("busy poll", end.spec.busy_poll_us.map(|us| format!("{us} µs")));
    push("device", end.spec.device.clone());
    for (name, value) in &end.stack_environment {
        push(name, Some(value.clone()));
    }
    pairs
}
