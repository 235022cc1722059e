//! `windhover undo`: puts settings back. And the keeper, which does so when the owner of a change set vanishes.

use crate::cli::undo::{Keeper, Undo};
use crate::output::{Failure, Output};
use host::knob::Machine;
use host::undo::{SetHeader, SetId, StateDir, UndoReport};
use prepare::Kernel;
use std::fmt::Write as _;
use std::time::Duration;

/// How long another windhover's change is waited for.
const LOCK: Duration = Duration::from_secs(30);
/// How long busy settings are tried.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn run(arguments: &Undo, output: &Output) -> Result<u8, Failure> {
    let state = arguments.state_dir.as_ref().map_or_else(StateDir::usual, StateDir::at);
    let known = state.sets()?;
    let ids = chosen(&known, &arguments.ids)?;
    if arguments.list {
        return list(&state, &known, &ids, arguments.json, output);
    }
    if ids.is_empty() {
        output.note("there is nothing to undo");
        return Ok(0);
    }
    for (id, header) in known.iter().filter(|(id, _)| ids.contains(id)) {
        prepare::tune::require_namespace(id, header)?;
    }
    let kernel = Kernel::at(Machine::at(&arguments.root));
    let lock = state.lock(LOCK)?;
    let mut reports = Vec::new();
    for id in ids {
        let report = state.undo(&lock, &kernel, &id, arguments.force, PATIENCE)?;
        if !arguments.json {
            output.result(&words(&id, &report))?;
        }
        reports.push((id, report));
    }
    if arguments.json {
        let documents = reports.iter().map(|(id, report)| serde_json::json!({ "set": id, "report": report }));
        output.result(&format!("{}\n", serde_json::Value::from_iter(documents)))?;
    }
    let clean = |report: &UndoReport| report.conflicts.is_empty() && report.failed.is_empty();
    Ok(u8::from(!reports.iter().all(|(_, report)| clean(report))))
}

/// The sets that are meant, newest first.
fn chosen(known: &[(SetId, SetHeader)], asked: &[String]) -> Result<Vec<SetId>, Failure> {
    let number = |text: &str| text.parse::<u32>().ok();
    let unknown = asked.iter().find(|text| !known.iter().any(|(id, _)| number(&id.0) == number(text)));
    if let Some(text) = unknown {
        return Err(Failure::usage(host::undo::UndoError::NoSuchSet { id: text.clone() }));
    }
    let meant = |id: &SetId| asked.is_empty() || asked.iter().any(|text| number(text) == number(&id.0));
    Ok(known.iter().rev().map(|(id, _)| id).filter(|id| meant(id)).cloned().collect())
}

fn list(
    state: &StateDir,
    known: &[(SetId, SetHeader)],
    ids: &[SetId],
    json: bool,
    output: &Output,
) -> Result<u8, Failure> {
    let mut text = String::new();
    let mut documents = Vec::new();
    for (id, header) in known.iter().filter(|(id, _)| ids.contains(id)) {
        let changes = state.changes(id)?;
        let owner = header
            .owner
            .as_ref()
            .map_or_else(|| "stays until it is undone".to_owned(), |task| format!("goes with {task}"));
        let _ = writeln!(text, "{id}  {}  ({})  {owner}", header.what, header.command);
        for held in &changes {
            let _ = writeln!(text, "      {}: '{}', was '{}': {}", held.knob, held.ours, held.before, held.why);
        }
        documents.push(serde_json::json!({ "set": id, "header": header, "changes": changes }));
    }
    output.result(&if json { format!("{}\n", serde_json::Value::from(documents)) } else { text })?;
    Ok(0)
}

/// What was done with a set: one line, and one for each setting that is not as it was.
pub(super) fn words(id: &SetId, report: &UndoReport) -> String {
    let mut text = format!("{id}  {} put back", report.restored);
    for (count, what) in [(report.already, "already as before"), (report.handed_over, "held by a newer set")] {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
    text.push('\n');
    for conflict in &report.conflicts {
        let who = conflict.who.as_deref().unwrap_or("not known by whom");
        let _ = writeln!(
            text,
            "      {}: changed to '{}' since it was set to '{}' ({who}); left, was '{}'",
            conflict.knob, conflict.now, conflict.ours, conflict.before
        );
    }
    if !report.conflicts.is_empty() {
        text.push_str("      what another changed is no longer in the log: set it by hand if it should be as before\n");
    }
    for why in &report.failed {
        let _ = writeln!(text, "      {why}; kept in the log: try again");
    }
    text
}

pub(crate) fn keep(arguments: &Keeper, output: &Output) -> u8 {
    let task = prepare::keeper::KeeperTask {
        set: SetId(arguments.set.clone()),
        state: StateDir::at(&arguments.state_dir),
        owner: arguments.owner,
    };
    // An owner that is gone by now is what a keeper is for.
    prepare::keeper::run(&task, &Kernel::at(Machine::at(&arguments.root)), || {
        let _ = output.result(prepare::keeper::READY);
    })
}
