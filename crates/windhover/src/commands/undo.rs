//! `windhover undo`: puts settings back. And the keeper, which does so when the owner of a change set vanishes.

use super::identity;
use crate::cli::undo::{Keeper, Undo};
use crate::output::{Failure, Output, paragraph};
use anyhow::{Context as _, anyhow};
use host::undo::{NamespaceState, SetHeader, SetId, StateDir, UndoReport};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// What is said of a set stands below its number.
const INDENT: &str = "      ";
/// How long another windhover's change is waited for.
const LOCK: Duration = Duration::from_secs(30);
/// How long busy settings are tried.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an undo in another network namespace may take.
const CHILD: Duration = Duration::from_secs(120);

pub(crate) fn run(arguments: &Undo, output: &Output) -> Result<u8, Failure> {
    if let Some(file) = &arguments.netns {
        task::enter_network(file)?;
    }
    let state = arguments.place.state();
    let mut places = vec![Place { name: String::new(), namespace: None, state: state.clone() }];
    if state.inode_of_namespace().is_none() {
        places.extend(state.namespaces()?.into_iter().map(Place::of));
    }
    if let Some(unknown) = unknown(&arguments.ids, &places)? {
        return Err(Failure::usage(host::undo::UndoError::NoSuchSet { id: unknown }));
    }
    let mut all = Done::default();
    for place in &places {
        let known = place.state.sets()?;
        let chosen: Vec<&(SetId, SetHeader)> =
            known.iter().rev().filter(|(id, _)| place.is_meant(id, &arguments.ids)).collect();
        if arguments.list {
            place.list(&chosen, &mut all)?;
        } else if !chosen.is_empty() {
            match &place.namespace {
                None => here(&place.state, &chosen, arguments, &mut all)?,
                Some(namespace) => there(place, namespace, &chosen, arguments, &mut all)?,
            }
        }
        if arguments.ids.is_empty() {
            all.kept.extend(place.state.damaged()?);
        }
    }
    if arguments.ids.is_empty() && arguments.netns.is_none() {
        super::lab::name_damaged(&lab::Registry::at(&state.path().join("labs")), output);
    }
    if arguments.form.is_json() {
        output.result(&format!("{}\n", Value::from(all.documents)))?;
    } else if !all.text.is_empty() {
        output.result(&all.text)?;
    } else if !arguments.list {
        output.note("there is nothing to undo");
    }
    for file in &all.kept {
        output.warning(format_args!(
            "{} is what is left of a damaged log: settings that it does not name are to be looked at by hand; then remove it",
            file.display()
        ));
    }
    Ok(u8::from(all.failed || (!arguments.list && !all.kept.is_empty())))
}

/// A state directory: the machine's, or that of a network namespace.
struct Place {
    /// What stands before the numbers of its sets: nothing, or `netns-INODE/`.
    name: String,
    namespace: Option<NamespaceState>,
    state: StateDir,
}

/// What was listed or done.
#[derive(Default)]
struct Done {
    text: String,
    documents: Vec<Value>,
    kept: Vec<std::path::PathBuf>,
    failed: bool,
}

impl Place {
    fn of(namespace: NamespaceState) -> Self {
        let name = format!("netns-{}/", namespace.inode);
        Self { name, state: namespace.state.clone(), namespace: Some(namespace) }
    }

    /// Whether a set is one of those asked for: all without any.
    fn is_meant(&self, id: &SetId, asked: &[String]) -> bool {
        let number = |text: &str| text.parse::<u32>().ok();
        let same = |text: &String| text.strip_prefix(&self.name).is_some_and(|rest| number(rest) == number(&id.0));
        asked.is_empty() || asked.iter().any(same)
    }

    fn list(&self, chosen: &[&(SetId, SetHeader)], all: &mut Done) -> Result<(), Failure> {
        for (id, header) in chosen.iter().rev() {
            let changes = self.state.changes(id)?;
            let losses = self.state.losses(id)?;
            let owner = header
                .owner
                .as_ref()
                .map_or_else(|| "stays until it is undone".to_owned(), |task| format!("goes with {task}"));
            let what = format!("{}  ({})  {owner}", header.what, header.command);
            all.text.push_str(&paragraph(&format!("{}{id}  ", self.name), &what));
            for held in &changes {
                let change = format!("{}: '{}', was '{}': {}", held.knob, held.ours, held.before, held.why);
                all.text.push_str(&paragraph(INDENT, &change));
            }
            for loss in &losses {
                all.text.push_str(&paragraph(INDENT, &format!("the log is damaged: {loss}")));
            }
            let inode = self.namespace.as_ref().map(|namespace| namespace.inode);
            let document = json!({ "set": id, "netns": inode, "header": header, "changes": changes, "damage": losses });
            all.documents.push(document);
        }
        Ok(())
    }
}

/// The first set asked for that there is not.
fn unknown(asked: &[String], places: &[Place]) -> Result<Option<String>, Failure> {
    let mut left = asked.to_vec();
    for place in places {
        let sets = place.state.sets()?;
        left.retain(|text| !sets.iter().any(|(id, _)| place.is_meant(id, std::slice::from_ref(text))));
    }
    Ok(left.into_iter().next())
}

/// Undoes sets of this state directory, newest first: each in the network namespace that it was made in.
fn here(state: &StateDir, chosen: &[&(SetId, SetHeader)], arguments: &Undo, all: &mut Done) -> Result<(), Failure> {
    let kernel = arguments.place.kernel();
    for (id, header) in chosen {
        if let Some(inode) = prepare::tune::other_namespace(header) {
            let file = host::netns::find(inode).unwrap_or_default();
            go_on(&id.0, child(state, &file, Some(id), "", arguments, all), all);
            continue;
        }
        let report = match state.lock(LOCK).and_then(|lock| state.undo(&lock, &kernel, id, arguments.force, PATIENCE)) {
            Ok(report) => report,
            // Its keeper was faster.
            Err(host::undo::UndoError::NoSuchSet { .. }) => continue,
            // The others can be undone all the same.
            Err(error) => UndoReport { failed: vec![error.to_string()], ..UndoReport::default() },
        };
        all.text.push_str(&words(&id.0, &report));
        all.failed |= !report.is_clean();
        all.documents.push(json!({ "set": id, "report": report }));
    }
    Ok(())
}

/// Undoes the sets of another network namespace, where that still is.
fn there(
    place: &Place,
    namespace: &NamespaceState,
    chosen: &[&(SetId, SetHeader)],
    arguments: &Undo,
    all: &mut Done,
) -> Result<(), Failure> {
    let Some(file) = &namespace.file else {
        namespace.remove()?;
        let gone =
            format!("the network namespace is gone, and its settings with it: {} change sets forgotten", chosen.len());
        all.text.push_str(&paragraph(&format!("{}  ", place.name.trim_end_matches('/')), &gone));
        all.documents.push(json!({ "netns": namespace.inode, "gone": true }));
        return Ok(());
    };
    for (id, _) in chosen {
        let name = format!("{}{id}", place.name);
        go_on(&name, child(&place.state, file, Some(id), &place.name, arguments, all), all);
    }
    Ok(())
}

/// Says what failed in another namespace: the other sets can be undone all the same.
fn go_on(set: &str, result: Result<(), Failure>, all: &mut Done) {
    if let Err(failure) = result {
        let report = UndoReport { failed: vec![format!("{:#}", failure.error)], ..UndoReport::default() };
        all.text.push_str(&words(set, &report));
        all.failed = true;
        all.documents.push(json!({ "set": set, "report": report }));
    }
}

/// Runs this command in another network namespace, whose devices and sysctls only a process in it can see.
fn child(
    state: &StateDir,
    netns: &Path,
    id: Option<&SetId>,
    name: &str,
    arguments: &Undo,
    all: &mut Done,
) -> Result<(), Failure> {
    let mut launch = task::Launch::new(identity::executable()?)
        .args(["undo", "--json", "--quiet", "--netns"])
        .arg(netns)
        .arg("--state-dir")
        .arg(state.path());
    if arguments.force {
        launch = launch.arg("--force");
    }
    let finished = launch.args(id.map(|id| id.0.as_str())).finish(b"", CHILD)?;
    let documents: Vec<Value> = serde_json::from_slice(&finished.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&finished.stderr).trim().replace('\n', " ");
        Failure::from(anyhow!("undo in network namespace {} failed: {said}", netns.display()))
    })?;
    for mut document in documents {
        let report: UndoReport = serde_json::from_value(document["report"].clone()).context("the answer of an undo")?;
        let set = SetId(document["set"].as_str().unwrap_or_default().to_owned());
        all.text.push_str(&words(&format!("{name}{set}"), &report));
        all.failed |= !report.is_clean();
        document["netns"] = json!(host::netns::inode_of(netns));
        all.documents.push(document);
    }
    Ok(())
}

/// What was done with a set: one line, and one for each setting that is not as it was.
pub(super) fn words(set: &str, report: &UndoReport) -> String {
    let mut done = format!("{} put back", report.restored);
    for (count, what) in [(report.already, "already as before"), (report.handed_over, "held by a newer set")] {
        if count > 0 {
            let _ = write!(done, ", {count} {what}");
        }
    }
    let mut text = paragraph(&format!("{set}  "), &done);
    let mut say = |line: &str| text.push_str(&paragraph(INDENT, line));
    for conflict in &report.conflicts {
        let who = conflict.who.as_deref().unwrap_or("not known by whom");
        say(&format!(
            "{}: changed to '{}' since it was set to '{}' ({who}); left, was '{}'",
            conflict.knob, conflict.now, conflict.ours, conflict.before
        ));
    }
    if !report.conflicts.is_empty() {
        say("what another changed is no longer in the log: set it by hand if it should be as before");
    }
    report.failed.iter().for_each(|why| say(&format!("{why}; kept in the log: try again")));
    report.lost.iter().for_each(|why| say(why));
    text
}

pub(crate) fn keep(arguments: &Keeper, output: &Output) -> u8 {
    let ready = || {
        let _ = output.result(task::Keeper::READY);
    };
    if let Some(name) = &arguments.lab {
        let registry = lab::Registry::at(arguments.place.state().path());
        // What cannot be removed stays in the registry, and is stale there.
        return u8::from(lab::keep(&registry, name, arguments.owner, ready).is_err());
    }
    let task = prepare::keeper::KeeperTask {
        set: SetId(arguments.set.clone().unwrap_or_default()),
        state: arguments.place.state(),
        owner: arguments.owner,
    };
    // An owner that is gone by now is what a keeper is for.
    prepare::keeper::run(&task, &arguments.place.kernel(), ready)
}
