//! `windhover undo`: puts settings back. And the keeper, which does so when the owner of a change set vanishes.

use super::{ask, identity};
use crate::cli::undo::{Keeper, Undo};
use crate::output::{Failure, Output, paragraph};
use anyhow::anyhow;
use host::undo::{BUSY_WAIT, LOCK_WAIT, SetHeader, SetId, SetNamespace, StateDir, UndoError, UndoReport};
use prepare::unlogged::StateCopy;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

const INDENT: &str = "      ";
/// How long an undo in another network namespace may take.
const CHILD: Duration = Duration::from_secs(120);

pub(crate) fn run(arguments: &Undo, output: &Output) -> Result<u8, Failure> {
    if let Some(file) = &arguments.netns {
        task::enter_network(file)?;
    }
    let state = arguments.system.state();
    let mut states = vec![NamedState { name: String::new(), state: state.clone() }];
    if state.inode_of_namespace().is_none() {
        states.extend(state.namespaces()?.into_iter().map(NamedState::of));
    }
    if let Some(unknown) = unknown(&arguments.ids, &states)? {
        return Err(Failure::usage(UndoError::NoSuchSet(unknown)));
    }
    if arguments.ids.is_empty() && arguments.netns.is_none() {
        super::lab::name_damaged(&lab::Registry::at(&state.path().join("labs")), output);
        super::tune_boot::remind(&arguments.system, output);
    }
    if !arguments.list && !confirmed(&states, arguments, output)? {
        output.note("nothing was changed");
        return Ok(1);
    }
    let mut all = UndoOutput::default();
    for directory in &states {
        let known = directory.state.sets()?;
        let chosen: Vec<&(SetId, SetHeader)> =
            known.iter().rev().filter(|(id, _)| directory.is_meant(id, &arguments.ids)).collect();
        if arguments.list {
            directory.list(&chosen, &mut all)?;
        } else if !chosen.is_empty() {
            undo(directory, &chosen, arguments, &mut all);
        }
        if arguments.ids.is_empty() {
            all.kept.extend(directory.state.damaged()?);
        }
    }
    if arguments.form.is_json() {
        output.result(&format!("{}\n", Value::from(all.documents)))?;
    } else if !all.text.is_empty() {
        output.result(&all.text)?;
    } else {
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

/// Whether to go on: asked where a set is that of a process which still runs.
fn confirmed(states: &[NamedState], arguments: &Undo, output: &Output) -> Result<bool, Failure> {
    let kernel = arguments.system.kernel();
    let mut held = Vec::new();
    for directory in states {
        let sets = directory.state.sets()?;
        for (id, header) in sets.iter().filter(|(id, _)| directory.is_meant(id, &arguments.ids)) {
            let owner = header.owner.as_ref().filter(|owner| owner.lives(kernel.machine()));
            let name = &directory.name;
            held.extend(
                owner
                    .map(|owner| format!("set {name}{id} ({}) is in use by {owner} ({})", header.what, header.command)),
            );
        }
    }
    if held.is_empty() {
        return Ok(true);
    }
    let held = held.join("; ");
    ask::proceed("", &format!("{held}. Put its settings back all the same?"), arguments.yes, output)
        .map_err(|failure| Failure { error: failure.error.context(held.clone()), ..failure })
}

/// A state directory: the machine's, or that of a network namespace.
struct NamedState {
    /// Prefix of the numbers of its sets: empty, or `netns-INODE/`.
    name: String,
    state: StateDir,
}

#[derive(Default)]
struct UndoOutput {
    text: String,
    documents: Vec<Value>,
    kept: Vec<std::path::PathBuf>,
    failed: bool,
}

impl UndoOutput {
    fn add(&mut self, directory: &NamedState, id: &SetId, report: &UndoReport, namespace: &SetNamespace) {
        self.text.push_str(&words(&format!("{}{id}", directory.name), report));
        self.failed |= !report.is_clean();
        let mut document = json!({ "set": id, "report": report });
        if let SetNamespace::Other { inode, .. } | SetNamespace::Gone { inode } | SetNamespace::NotFound { inode, .. } =
            namespace
        {
            document["netns"] = json!(inode);
            document["gone"] = json!(matches!(namespace, SetNamespace::Gone { .. }));
        }
        self.documents.push(document);
    }
}

impl NamedState {
    fn of(state: StateDir) -> Self {
        let name = state.inode_of_namespace().map(|inode| format!("netns-{inode}/")).unwrap_or_default();
        Self { name, state }
    }

    /// Whether a set is one of those asked for: all without any.
    fn is_meant(&self, id: &SetId, asked: &[String]) -> bool {
        let number = |text: &str| text.parse::<u32>().ok();
        let same = |text: &String| text.strip_prefix(&self.name).is_some_and(|rest| number(rest) == number(&id.0));
        asked.is_empty() || asked.iter().any(same)
    }

    fn list(&self, chosen: &[&(SetId, SetHeader)], all: &mut UndoOutput) -> Result<(), Failure> {
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
            let inode = header.netns().or_else(|| self.state.inode_of_namespace());
            let document = json!({ "set": id, "netns": inode, "header": header, "changes": changes, "damage": losses });
            all.documents.push(document);
        }
        Ok(())
    }
}

/// The first set asked for that there is not.
fn unknown(asked: &[String], states: &[NamedState]) -> Result<Option<String>, Failure> {
    let mut left = asked.to_vec();
    for directory in states {
        let sets = directory.state.sets()?;
        left.retain(|text| !sets.iter().any(|(id, _)| directory.is_meant(id, std::slice::from_ref(text))));
    }
    Ok(left.into_iter().next())
}

/// Undoes sets of a state directory, newest first: each in the network namespace that it was made in, where that still is.
fn undo(directory: &NamedState, chosen: &[&(SetId, SetHeader)], arguments: &Undo, all: &mut UndoOutput) {
    let kernel = arguments.system.kernel();
    let state = &directory.state;
    // Made where the state directory cannot be written.
    let mut copy: Option<StateCopy> = None;
    for (id, header) in chosen {
        let namespace = state.namespace_of(header);
        let undone = match &namespace {
            SetNamespace::Other { file, .. } => {
                child(state, file, id, arguments).map_err(|failure| format!("{:#}", failure.error))
            }
            _ => {
                let undone = match &copy {
                    None => state
                        .lock(LOCK_WAIT)
                        .and_then(|lock| state.undo(&lock, &kernel, id, arguments.force, BUSY_WAIT)),
                    Some(copy) => copy.undo(&kernel, id, arguments.force, BUSY_WAIT),
                };
                let undone = match undone {
                    Err(error) if copy.is_none() && StateCopy::helps(&error) => StateCopy::of(state)
                        .and_then(|made| copy.insert(made).undo(&kernel, id, arguments.force, BUSY_WAIT)),
                    undone => undone,
                };
                match undone {
                    Err(UndoError::NoSuchSet { .. }) => Ok(None),
                    undone => undone.map(Some).map_err(|error| error.to_string()),
                }
            }
        };
        // After a failure the others can be undone all the same.
        let failed = |why| Some(UndoReport { failed: vec![why], ..UndoReport::default() });
        match undone.unwrap_or_else(failed) {
            Some(report) => all.add(directory, id, &report, &namespace),
            None => all.text.push_str(&format!("{}{id}  undone by another meanwhile\n", directory.name)),
        }
    }
}

/// Runs this command in another network namespace. No report when another process has undone the set meanwhile.
fn child(state: &StateDir, netns: &Path, id: &SetId, arguments: &Undo) -> Result<Option<UndoReport>, Failure> {
    let mut launch = task::Launch::new(identity::executable()?)
        .args(["undo", "--json", "--quiet", "--yes", "--netns"])
        .arg(netns)
        .arg("--state-dir")
        .arg(state.path())
        .arg("--root")
        .arg(arguments.system.root());
    if arguments.force {
        launch = launch.arg("--force");
    }
    let finished = launch.arg(&id.0).finish(b"", CHILD)?;
    let Ok(mut documents) = serde_json::from_slice::<Value>(&finished.stdout) else {
        if !state.sets()?.iter().any(|(left, _)| left == id) {
            return Ok(None);
        }
        let said = String::from_utf8_lossy(&finished.stderr).trim().replace('\n', " ");
        return Err(anyhow!("undo in network namespace {} failed: {said}", netns.display()).into());
    };
    let report = documents.get_mut(0).map(|document| serde_json::from_value(document["report"].take()));
    Ok(report.transpose()?)
}

/// What was done with a set: one line, and one for each setting that is not as it was.
pub(super) fn words(set: &str, report: &UndoReport) -> String {
    let mut done = format!("{} put back", report.restored);
    let forgotten = u32::try_from(report.forgotten.len()).unwrap_or(u32::MAX);
    for (count, what) in
        [(report.already, "already as before"), (report.handed_over, "held by a newer set"), (forgotten, "forgotten")]
    {
        if count > 0 {
            let _ = write!(done, ", {count} {what}");
        }
    }
    let mut text = paragraph(&format!("{set}  "), &done);
    let mut say = |line: &str| text.push_str(&paragraph(INDENT, line));
    if !report.forgotten.is_empty() {
        let names: Vec<String> = report.forgotten.iter().map(ToString::to_string).collect();
        say(&format!("its network namespace is gone, and with it {}", names.join(", ")));
    }
    report.conflicts.iter().for_each(|conflict| say(&conflict.to_string()));
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
        let registry = lab::Registry::at(arguments.system.state().path());
        // What cannot be removed stays in the registry, and is stale there.
        return u8::from(lab::keep(&registry, name, arguments.owner, ready).is_err());
    }
    if let Some(folder) = &arguments.folder {
        let waited = guest::wait_for_owner(arguments.owner, ready);
        guest::remove_folder_behind_owner(folder);
        return u8::from(waited.is_err());
    }
    if let Some(folder) = &arguments.connections {
        return super::bypass::keep(folder, arguments.owner, arguments.detached);
    }
    let task = prepare::keeper::KeeperTask {
        set: SetId(arguments.set.clone().unwrap_or_default()),
        state: arguments.system.state(),
        owner: arguments.owner,
    };
    // The owner may have ended by now: that is what a keeper is for.
    prepare::keeper::run(&task, &arguments.system.kernel(), ready)
}
