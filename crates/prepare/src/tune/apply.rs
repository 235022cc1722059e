//! Making a plan true through the undo log, looking whether it still is, and taking it back.

use super::{PlannedChange, Profile, SkippedSetting, TuneError, TunePlan, plan_profile};
use crate::Kernel;
use crate::keeper::{self, Keeper};
use host::knob::{EthtoolPart, Knob, KnobError, Settings as _, TaskKey};
use host::tasks::status_field;
use host::undo::{
    BUSY_WAIT, ChangeInForce, ChangeOutcome, Changes, LOCK_WAIT, SetHeader, SetId, SetNamespace, StateDir, UndoError,
    UndoReport,
};
use std::collections::BTreeMap;
use std::path::Path;

/// capabilities(7)
const NET_ADMIN: u32 = 12;

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct AppliedChange {
    pub planned: PlannedChange,
    /// The value as it reads back: another than asked for where the driver rounds.
    pub after: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct TuneReport {
    /// The change set; absent when nothing had to be changed.
    pub set: Option<SetId>,
    pub changed: Vec<AppliedChange>,
    /// How many knobs had the value already.
    pub already: usize,
    pub skipped: Vec<SkippedSetting>,
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Deviation {
    pub knob: Knob,
    pub wanted: String,
    /// What it is; absent when the setting no longer exists.
    pub now: Option<String>,
    /// Who might have changed it; absent where no candidate is known.
    pub who: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ActiveProfile {
    /// Its name; `settings` for single settings.
    pub profile: String,
    pub set: SetId,
    pub command: String,
    pub changes: usize,
    /// Those that something else has changed since; settings of other network namespaces are not looked at.
    pub changed_since: Vec<Knob>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct UndoneSet {
    pub set: SetId,
    pub what: String,
    pub report: UndoReport,
}

fn what(name: &str) -> String {
    format!("tune {name}")
}

/// The change sets of a profile, oldest first; of all profiles without a name.
pub fn applied(state: &StateDir, name: Option<&str>) -> Result<Vec<(SetId, SetHeader)>, UndoError> {
    let sets = match state.sets() {
        // Not even a directory to look into.
        Err(UndoError::Log { cause, .. }) if cause.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        // Only its owner looks into it; who reads only compares with the profile.
        Err(UndoError::Log { cause, .. }) if cause.kind() == std::io::ErrorKind::PermissionDenied => Vec::new(),
        sets => sets?,
    };
    let meant = |header: &SetHeader| name.map_or(header.what.starts_with("tune "), |name| header.what == what(name));
    Ok(sets.into_iter().filter(|(_, header)| meant(header)).collect())
}

fn held(state: &StateDir, name: &str) -> Result<BTreeMap<Knob, ChangeInForce>, UndoError> {
    let mut held = BTreeMap::new();
    for (id, header) in applied(state, Some(name))? {
        let is_here = state.namespace_of(&header) == SetNamespace::This;
        let changes = state.changes(&id)?.into_iter().filter(|held| is_here || !held.knob.is_of_network_namespace());
        held.extend(changes.map(|change| (change.knob.clone(), change)));
    }
    Ok(held)
}

/// What is applied now, oldest first; an error where the undo log cannot be read.
pub fn active(kernel: &Kernel, state: &StateDir) -> Result<Vec<ActiveProfile>, TuneError> {
    if let Err(error @ UndoError::Log { .. }) = state.sets()
        && matches!(&error, UndoError::Log { cause, .. } if cause.kind() != std::io::ErrorKind::NotFound)
    {
        return Err(error.into());
    }
    let mut newer = Vec::new();
    let mut found = Vec::new();
    for (set, header) in applied(state, None)?.into_iter().rev() {
        let is_here = state.namespace_of(&header) == SetNamespace::This;
        let changes = state.changes(&set)?;
        let changed_since = changes
            .iter()
            .filter(|held| (is_here || !held.knob.is_of_network_namespace()) && !newer.contains(&held.knob))
            .filter(|held| kernel.read(&held.knob).is_ok_and(|now| !held.knob.same(&now, &held.ours)))
            .map(|held| held.knob.clone())
            .collect();
        newer.extend(changes.iter().map(|held| held.knob.clone()));
        let profile = header.what.strip_prefix("tune ").unwrap_or(&header.what).to_owned();
        found.push(ActiveProfile { profile, set, command: header.command, changes: changes.len(), changed_since });
    }
    found.reverse();
    Ok(found)
}

/// Makes the changes of a plan, and no others. A change that is refused undoes all that were made before it.
pub fn apply(plan: &TunePlan, kernel: &Kernel, state: &StateDir, command: &str) -> Result<TuneReport, TuneError> {
    make(plan, kernel, state, None, command).map(|(report, _)| report)
}

/// As [`apply`], for as long as this process lives: a keeper, started before the first change, undoes the set then.
pub fn apply_kept(
    plan: &TunePlan,
    kernel: &Kernel,
    state: &StateDir,
    command: &str,
) -> Result<(TuneReport, Option<Keeper>), TuneError> {
    make(plan, kernel, state, keeper::this_process(), command)
}

fn make(
    plan: &TunePlan,
    kernel: &Kernel,
    state: &StateDir,
    owner: Option<TaskKey>,
    command: &str,
) -> Result<(TuneReport, Option<Keeper>), TuneError> {
    let mut report = TuneReport::default();
    if plan.changes.is_empty() {
        finish(&mut report, plan.clone());
        return Ok((report, None));
    }
    require_permission(kernel, state, plan)?;
    let lock = state.lock(LOCK_WAIT)?;
    let owned = owner.is_some();
    let mut header = SetHeader::new(what(&plan.profile.name), command, owner);
    let of_namespace = plan.changes.iter().any(|planned| planned.change.knob.is_of_network_namespace());
    let netns = (of_namespace && kernel.machine().is_running()).then(host::netns::inode).flatten();
    header.details = serde_json::json!({ "device": plan.device, "netns": netns });
    let mut changes = state.begin(&lock, &header)?;
    let keeper = owned.then(|| keeper::start(changes.id(), state.path())).transpose();
    let keeper = keeper.map_err(|error| TuneError::Failed(format!("no keeper, so nothing was changed: {error}")))?;
    match carry_out(plan, kernel, &mut changes, &mut report.changed) {
        Ok(last) => finish(&mut report, last),
        Err(cause) => {
            let undone = match changes.is_empty() {
                true => Ok(UndoReport::default()),
                false => state.undo(&lock, kernel, changes.id(), false, BUSY_WAIT),
            };
            // The keeper needs the lock to see that nothing is left to do.
            drop(lock);
            let undone = undone?;
            if undone.is_clean() {
                return Err(TuneError::Failed(format!("{cause}; everything changed before it is put back")));
            }
            let left = undone.not_put_back().join(", ");
            let rest = "not everything changed before it could be put back";
            return Err(TuneError::Failed(format!("{cause}; and {rest}: {left}; try `windhover undo`")));
        }
    }
    report.set = (!changes.is_empty()).then(|| changes.id().clone());
    drop(lock);
    Ok((report, keeper))
}

/// Makes the changes of a plan, and plans again where new rings, channels or features made new queues; the last plan.
fn carry_out(
    plan: &TunePlan,
    kernel: &Kernel,
    changes: &mut Changes,
    made: &mut Vec<AppliedChange>,
) -> Result<TunePlan, TuneError> {
    if !make_changes(plan, kernel, changes, made)? {
        return Ok(plan.clone());
    }
    let again = plan_profile(&plan.profile, plan.device.as_deref(), kernel)?;
    make_changes(&again, kernel, changes, made)?;
    Ok(again)
}

/// Makes the changes of a plan once; whether one of them may have made new queues.
fn make_changes(
    plan: &TunePlan,
    kernel: &Kernel,
    changes: &mut Changes,
    made: &mut Vec<AppliedChange>,
) -> Result<bool, UndoError> {
    let mut reshaped = false;
    for planned in &plan.changes {
        match changes.set(kernel, &planned.change) {
            Ok(ChangeOutcome::Already) => {}
            Ok(ChangeOutcome::Changed { before, after }) => {
                reshaped |= reshapes(&planned.change.knob);
                let planned = PlannedChange { now: before, ..planned.clone() };
                made.push(AppliedChange { planned, after });
            }
            // It went with the shape of before.
            Err(UndoError::Knob(KnobError::Absent { .. })) if reshaped => {}
            Err(error) => return Err(error),
        }
    }
    Ok(reshaped)
}

fn finish(report: &mut TuneReport, plan: TunePlan) {
    report.already = (plan.same.len() + plan.changes.len()).saturating_sub(report.changed.len());
    report.skipped = plan.skipped;
    report.warnings = plan.warnings;
}

fn reshapes(knob: &Knob) -> bool {
    let parts = [EthtoolPart::Channels, EthtoolPart::Ring, EthtoolPart::Feature];
    matches!(knob, Knob::Ethtool { part, .. } if parts.contains(part))
}

/// Names the capabilities that a plan needs and the caller has not, before anything is changed.
fn require_permission(kernel: &Kernel, state: &StateDir, plan: &TunePlan) -> Result<(), TuneError> {
    if !kernel.machine().is_running() {
        return Ok(());
    }
    let status = kernel.machine().text("/proc/thread-self/status").unwrap_or_default();
    let user = status_field(&status, "Uid").and_then(|ids| ids.split_ascii_whitespace().nth(1));
    let mut missing: Vec<&str> = Vec::new();
    let mut first = None;
    for planned in &plan.changes {
        let knob = &planned.change.knob;
        let lacks = match knob {
            Knob::Ethtool { .. } | Knob::Flow { .. } | Knob::Napi { .. } => {
                (!kernel.may(NET_ADMIN)).then_some("CAP_NET_ADMIN")
            }
            Knob::Service { .. } => (user != Some("0")).then_some("root's rights over services"),
            Knob::CpuLatency => kernel.denies(Path::new("/dev/cpu_dma_latency")).then_some("CAP_DAC_OVERRIDE"),
            Knob::File { path, .. } if kernel.denies(path) => {
                Some(if path.starts_with("/proc/sys/net") { "CAP_NET_ADMIN" } else { "CAP_DAC_OVERRIDE" })
            }
            _ => None,
        };
        if let Some(capability) = lacks {
            first.get_or_insert_with(|| knob.to_string());
            if !missing.contains(&capability) {
                missing.push(capability);
            }
        }
    }
    match first {
        Some(what) => Err(TuneError::not_permitted(&format!("{what} cannot be written"), &missing.join(", "))),
        None => match state.make() {
            Err(UndoError::Log { cause, .. }) if cause.kind() == std::io::ErrorKind::PermissionDenied => {
                let log = format!("the undo log in {} cannot be made", state.path().display());
                let what = format!("{log} (WINDHOVER_STATE names another place)");
                Err(TuneError::not_permitted(&what, "CAP_DAC_OVERRIDE"))
            }
            _ => Ok(()),
        },
    }
}

/// What deviates from the undo log where the profile was applied, and from the profile where it was not.
pub fn verify(
    profile: &Profile,
    device: Option<&str>,
    kernel: &Kernel,
    state: &StateDir,
) -> Result<(Vec<Deviation>, TunePlan), TuneError> {
    let plan = plan_profile(profile, device, kernel)?;
    let held = held(state, &profile.name)?;
    let mut found = Vec::new();
    for (knob, held) in &held {
        let now = kernel.read(knob).ok();
        if now.as_ref().is_none_or(|now| !knob.same(now, &held.ours)) {
            found.push(Deviation { knob: knob.clone(), wanted: held.ours.clone(), now, who: kernel.suspects(knob) });
        }
    }
    for planned in &plan.changes {
        let knob = &planned.change.knob;
        if !held.contains_key(knob) {
            found.push(Deviation {
                knob: knob.clone(),
                wanted: planned.change.wanted.clone(),
                now: Some(planned.now.clone()),
                who: kernel.suspects(knob),
            });
        }
    }
    Ok((found, plan))
}

/// Undoes a profile (without a name all), newest first. [`UndoError::OtherNamespace`] before anything is undone.
pub fn undo(name: Option<&str>, kernel: &Kernel, state: &StateDir, force: bool) -> Result<Vec<UndoneSet>, TuneError> {
    let sets = applied(state, name)?;
    for (id, header) in &sets {
        state.require_namespace(id, header)?;
    }
    if sets.is_empty() {
        return Ok(Vec::new());
    }
    let lock = state.lock(LOCK_WAIT)?;
    let mut undone = Vec::new();
    for (set, header) in sets.into_iter().rev() {
        match state.undo(&lock, kernel, &set, force, BUSY_WAIT) {
            Ok(report) => undone.push(UndoneSet { set, what: header.what, report }),
            // Another was quicker.
            Err(UndoError::NoSuchSet { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(undone)
}
