//! `windhover tune active`, `recommend` and `boot`: what is in force, what fits, and what each boot applies.

use super::tune::{ApplyOptions, apply, failed};
use crate::cli::shared::{Root, SystemArgs};
use crate::output::{Failure, Output, json, paragraph};
use host::knob::Machine;
use prepare::tune::{self, ActiveProfile, BOOT_UNIT, BootProfile, BootState, HostKind, Profile};
use serde_json::json;

fn machine(system: &SystemArgs) -> Machine {
    Machine::at(system.root())
}

pub(super) fn active(system: &SystemArgs, as_json: bool, output: &Output) -> Result<u8, Failure> {
    let applied = tune::active(&system.kernel(), &system.state()).map_err(failed)?;
    let machine = machine(system);
    let boot = BootProfile::read(&machine).map_err(failed)?;
    let state = BootState::of(&machine);
    if as_json {
        let at_boot = boot.map(|boot| json!({ "profile": boot.profile.name, "nic": boot.nic, "unit": state }));
        output.result(&json(json!({ "applied": applied, "boot": at_boot }))?)?;
        return Ok(0);
    }
    let mut text: String = applied.iter().map(words).collect();
    if applied.is_empty() {
        text.push_str("now: no profile is applied\n");
    }
    text.push_str(&match &boot {
        None => "at boot: no profile is applied\n".to_owned(),
        Some(boot) => paragraph("at boot: ", &format!("{}, {}", named(boot), at_boot(state))),
    });
    output.result(&text)?;
    Ok(0)
}

fn words(active: &ActiveProfile) -> String {
    let settings = model::text::counted(active.changes, "setting");
    let holds = match &active.changed_since[..] {
        [] => "all hold".to_owned(),
        changed => {
            let names: Vec<String> = changed.iter().map(ToString::to_string).collect();
            format!("changed since then: {}", names.join(", "))
        }
    };
    let text = format!("{}, set {}, {settings}, {holds} ({})", active.profile, active.set, active.command);
    paragraph("now: ", &text)
}

/// A profile as `tune apply` is given it.
fn named(boot: &BootProfile) -> String {
    let nic = boot.nic.as_ref().map_or_else(String::new, |nic| format!(" --nic {nic}"));
    format!("{}{nic}", boot.profile.name)
}

fn at_boot(state: BootState) -> String {
    match state {
        BootState::Enabled => format!("by {BOOT_UNIT}"),
        BootState::Disabled => format!("but {BOOT_UNIT} is off: systemctl enable {BOOT_UNIT}"),
        BootState::NoUnit => format!(
            "but there is no {BOOT_UNIT} here: install the package, or let something run `windhover tune boot` at each boot"
        ),
        BootState::NoSystemd => {
            "but systemd does not run here: let something run `windhover tune boot` at each boot".to_owned()
        }
    }
}

/// The profile that polls, the other one being `latency`.
const POLLING: &str = "network-latency";

pub(super) fn recommend(root: &Root, as_json: bool, output: &Output) -> Result<u8, Failure> {
    let found = HostKind::of(&Machine::at(&root.path)).recommend();
    let nic = found.nic.as_ref().map_or_else(String::new, |nic| format!(" --nic {nic}"));
    let command = format!("windhover tune apply {}{nic}", found.profile);
    if as_json {
        let document =
            json!({ "profile": found.profile, "nic": found.nic, "reason": found.reason, "command": command });
        output.result(&json(document)?)?;
    } else {
        // The reason is one for network-latency, or one against it.
        let so = if found.profile == POLLING { String::new() } else { format!(", so not {POLLING}") };
        let text = paragraph("", &format!("{}: {}{so}", found.profile, found.reason));
        output.result(&format!("{text}{}", paragraph("apply it: ", &command)))?;
        output.note(format_args!("measure what helps here: windhover tune try {}", found.profile));
    }
    Ok(0)
}

pub(super) fn keep(
    profile: Profile,
    nic: Option<String>,
    system: &SystemArgs,
    dry_run: bool,
    output: &Output,
) -> Result<(), Failure> {
    let machine = machine(system);
    let boot = BootProfile { profile, nic };
    let state = BootState::of(&machine);
    if dry_run {
        output.note(format_args!("at boot it would be applied, too, {}", at_boot(state)));
        return Ok(());
    }
    boot.write(&machine).map_err(failed)?;
    match state {
        BootState::Enabled => output.note(format_args!(
            "applied at each boot {}; `windhover tune undo {}` ends that",
            at_boot(state),
            boot.profile.name
        )),
        _ => output.warning(format_args!("{} is chosen for each boot, {}", boot.profile.name, at_boot(state))),
    }
    Ok(())
}

pub(super) fn at_boot_command(system: &SystemArgs, as_json: bool, output: &Output) -> Result<u8, Failure> {
    let Some(boot) = BootProfile::read(&machine(system)).map_err(failed)? else {
        output.note("no profile is chosen for boots: windhover tune apply PROFILE --boot");
        return Ok(0);
    };
    let options = ApplyOptions { dry_run: false, yes: true, json: as_json };
    apply(&boot.profile, boot.nic.as_deref(), system, options, output)
}

/// Ends that boots apply a profile: this one, or any. Whether there was one.
pub(super) fn forget(name: Option<&str>, system: &SystemArgs, output: &Output) -> Result<bool, Failure> {
    let machine = machine(system);
    let boot = match BootProfile::read(&machine) {
        Ok(Some(boot)) => boot,
        Ok(None) => return Ok(false),
        // What is in force can be put back all the same.
        Err(error) => {
            output.warning(error);
            return Ok(false);
        }
    };
    if name.is_some_and(|name| name != boot.profile.name) {
        return Ok(false);
    }
    BootProfile::remove(&machine).map_err(failed)?;
    output.note(format_args!("boots no longer apply {}", boot.profile.name));
    Ok(true)
}

/// `windhover undo` puts settings back and leaves the choice for boots, because it also runs at each shutdown.
pub(super) fn remind(system: &SystemArgs, output: &Output) {
    if let Ok(Some(boot)) = BootProfile::read(&machine(system)) {
        let name = &boot.profile.name;
        output.note(format_args!("{name} is applied again at the next boot; `windhover tune undo {name}` ends that"));
    }
}
