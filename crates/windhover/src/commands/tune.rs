//! `windhover tune`, and the hidden `windhover hold` that it starts.

use super::{ask, tune_boot};
use crate::cli::tune::{Chosen, EmitForm, Hold, SystemArgs, TuneCommand};
use crate::output::{Failure, Output, json, paragraph, table};
use model::Setting;
use prepare::Kernel;
use prepare::tune::{self, Deviation, Profile, SkippedSetting, TuneError, TunePlan, TuneReport};
use std::fmt::Write as _;
use std::io::Write as _;

pub(crate) fn run(command: TuneCommand, output: &Output) -> Result<u8, Failure> {
    match command {
        TuneCommand::List { form } => list(form.is_json(), output),
        TuneCommand::Show { chosen, form } => {
            let profile = profile(&chosen)?;
            output.result(&if form.is_json() { json(&profile)? } else { shown(&profile) })?;
            Ok(0)
        }
        TuneCommand::Diff { chosen, system, form } => {
            let plan = plan(&profile(&chosen)?, &chosen, &system.kernel())?;
            say_plan(&plan, form.is_json(), output)?;
            Ok(0)
        }
        TuneCommand::Active { system, form } => tune_boot::active(&system, form.is_json(), output),
        TuneCommand::Recommend { root, form } => tune_boot::recommend(&root, form.is_json(), output),
        TuneCommand::Boot { system, form } => tune_boot::at_boot_command(&system, form.is_json(), output),
        TuneCommand::Apply { chosen, system, dry_run, yes, boot, form } => {
            let profile = profile(&chosen)?;
            let options = ApplyOptions { dry_run, yes, json: form.is_json() };
            let code = apply(&profile, chosen.nic.as_deref(), &system, options, output)?;
            if boot && code == 0 {
                tune_boot::keep(profile, chosen.nic, &system, dry_run, output)?;
            }
            Ok(code)
        }
        TuneCommand::Verify { chosen, system, form } => verify(&chosen, &system, form.is_json(), output),
        TuneCommand::Undo { profile, force, system, form } => {
            undo(profile.as_deref(), force, &system, form.is_json(), output)
        }
        TuneCommand::Emit { chosen, form } => emit(&chosen, &form, output),
        TuneCommand::Try(arguments) => {
            let nic = arguments.nic.clone();
            super::tune_try::run(
                &arguments,
                output,
                |name| worth_trying(name, nic.as_deref(), output),
                |settings| keep(settings, nic.as_deref(), output),
            )
        }
    }
}

pub(super) fn failed(error: TuneError) -> Failure {
    Failure::new(error.exit_code(), error)
}

fn profile(chosen: &Chosen) -> Result<Profile, Failure> {
    // What `doctor` proposes are single settings of no profile.
    let bare = || Profile {
        name: "settings".to_owned(),
        summary: "single settings".to_owned(),
        layers: vec!["--set".to_owned()],
        ..Profile::default()
    };
    let base = chosen.profile.as_ref().map_or_else(|| Ok(bare()), |name| Profile::load(name));
    base.and_then(|profile| profile.with(&chosen.settings)).map_err(failed)
}

fn plan(profile: &Profile, chosen: &Chosen, kernel: &Kernel) -> Result<TunePlan, Failure> {
    tune::plan_profile(profile, chosen.nic.as_deref(), kernel).map_err(failed)
}

fn list(as_json: bool, output: &Output) -> Result<u8, Failure> {
    let profiles = tune::profiles().map_err(failed)?;
    let text = if as_json {
        json(&profiles)?
    } else {
        let rows = profiles.iter().map(|profile| vec![profile.name.clone(), profile.summary.clone()]);
        table(&["profile", "what it is for"], rows.collect())
    };
    output.result(&text)?;
    Ok(0)
}

fn shown(profile: &Profile) -> String {
    let mut text = paragraph(&format!("{}: ", profile.name), &profile.summary);
    text.push_str(&paragraph("layers: ", &profile.layers.join(", ")));
    let rows = profile.settings.iter().map(|reasoned| vec![reasoned.setting.to_string(), reasoned.why.clone()]);
    let _ = write!(text, "\n{}", table(&["setting", "why"], rows.collect()));
    if !profile.boot.is_empty() {
        let rows = profile.boot.iter().map(|parameter| vec![parameter.value.clone(), parameter.why.clone()]);
        let _ = write!(text, "\n{}", table(&["at boot only (tune emit)", "why"], rows.collect()));
    }
    for (number, note) in profile.notes.iter().enumerate() {
        let _ = write!(text, "{}{}", if number == 0 { "\n" } else { "" }, paragraph("", note));
    }
    text
}

fn planned(plan: &TunePlan) -> String {
    let mut text = String::new();
    if !plan.changes.is_empty() {
        let rows = plan.changes.iter().map(|planned| {
            let change = &planned.change;
            vec![change.knob.to_string(), planned.now.clone(), change.wanted.clone(), change.why.clone()]
        });
        text.push_str(&table(&["setting", "now", "new", "why"], rows.collect()));
    }
    let _ = writeln!(
        text,
        "{} to change, {} as wanted already, {} skipped",
        plan.changes.len(),
        plan.same.len(),
        plan.skipped.len()
    );
    if !plan.same.is_empty() {
        let mut same: Vec<String> = plan.same.iter().map(|planned| planned.setting.to_string()).collect();
        same.dedup();
        text.push_str(&paragraph("as wanted already: ", &same.join(", ")));
    }
    text.push_str(&skipped(&plan.skipped));
    text
}

fn skipped(skipped: &[SkippedSetting]) -> String {
    skipped.iter().map(|skipped| paragraph("skipped ", &format!("{}: {}", skipped.setting, skipped.why))).collect()
}

fn say_plan(plan: &TunePlan, as_json: bool, output: &Output) -> Result<(), Failure> {
    output.result(&if as_json { json(plan)? } else { planned(plan) })?;
    for warning in &plan.warnings {
        output.warning(warning);
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ApplyOptions {
    pub(super) dry_run: bool,
    pub(super) yes: bool,
    pub(super) json: bool,
}

pub(super) fn apply(
    profile: &Profile,
    nic: Option<&str>,
    system: &SystemArgs,
    options: ApplyOptions,
    output: &Output,
) -> Result<u8, Failure> {
    let kernel = system.kernel();
    let plan = tune::plan_profile(profile, nic, &kernel).map_err(failed)?;
    if options.dry_run || !options.json {
        say_plan(&plan, options.json, output)?;
    }
    if options.dry_run {
        return Ok(0);
    }
    let unseen = if options.json { json(&plan)? } else { String::new() };
    if !plan.changes.is_empty() && !ask::proceed(&unseen, "Change these settings?", options.yes, output)? {
        output.note("nothing was changed");
        return Ok(1);
    }
    let command: Vec<String> = std::env::args().collect();
    let report = tune::apply(&plan, &kernel, &system.state(), &command.join(" ")).map_err(failed)?;
    output.result(&if options.json { json(&report)? } else { reported(profile, &report) })?;
    Ok(0)
}

fn reported(profile: &Profile, report: &TuneReport) -> String {
    let Some(set) = &report.set else {
        return "nothing had to be changed\n".to_owned();
    };
    let changed = report.changed.len();
    let mut text =
        paragraph("", &format!("set {set}: {changed} changed; `windhover tune undo {}` puts them back", profile.name));
    for changed in &report.changed {
        let change = &changed.planned.change;
        if !change.knob.same(&changed.after, &change.wanted) {
            let rounded = format!("{} became '{}' instead of '{}': rounded", change.knob, changed.after, change.wanted);
            text.push_str(&paragraph("", &rounded));
        }
    }
    text
}

fn verify(chosen: &Chosen, system: &SystemArgs, as_json: bool, output: &Output) -> Result<u8, Failure> {
    let profile = profile(chosen)?;
    let found = tune::verify(&profile, chosen.nic.as_deref(), &system.kernel(), &system.state());
    let (deviations, plan) = found.map_err(failed)?;
    if as_json {
        output.result(&json(serde_json::json!({ "deviations": deviations, "skipped": &plan.skipped }))?)?;
    } else {
        let mut text: String = deviations.iter().map(deviation).collect();
        text.push_str(&skipped(&plan.skipped));
        let _ = match deviations.len() {
            0 => writeln!(text, "{}: all {} settings that this machine has hold", profile.name, plan.same.len()),
            count => writeln!(text, "{}: {count} deviate", profile.name),
        };
        output.result(&text)?;
    }
    Ok(if deviations.is_empty() { 0 } else { 3 })
}

fn deviation(found: &Deviation) -> String {
    let now = found.now.as_ref().map_or_else(|| "it is gone".to_owned(), |now| format!("it is '{now}'"));
    let who = found.who.as_ref().map_or_else(String::new, |who| format!("; {who}"));
    paragraph("", &format!("{}: wanted '{}', {now}{who}", found.knob, found.wanted))
}

fn undo(name: Option<&str>, force: bool, system: &SystemArgs, as_json: bool, output: &Output) -> Result<u8, Failure> {
    // By the name that it was applied under.
    let stem = name.map(|name| name.rsplit('/').next().unwrap_or(name)).map(|name| name.trim_end_matches(".toml"));
    let was_of_boot = tune_boot::forget(stem, system, output)?;
    let undone = tune::undo(stem, &system.kernel(), &system.state(), force).map_err(failed)?;
    if as_json {
        output.result(&json(&undone)?)?;
    } else if undone.is_empty() && !was_of_boot {
        output.note("there is nothing to undo");
    } else {
        for undone in &undone {
            output.result(&super::undo::words(&undone.set.0, &undone.report))?;
        }
    }
    let clean = undone.iter().all(|undone| undone.report.is_clean());
    Ok(u8::from(!clean))
}

fn emit(chosen: &Chosen, form: &EmitForm, output: &Output) -> Result<u8, Failure> {
    let profile = profile(chosen)?;
    let mut arguments: Vec<String> = chosen.profile.iter().cloned().collect();
    if let Some(nic) = &chosen.nic {
        arguments.extend(["--nic".to_owned(), nic.clone()]);
    }
    arguments.extend(chosen.settings.iter().flat_map(|setting| ["--set".to_owned(), setting.to_string()]));
    let form = match form {
        EmitForm { grub: true, .. } => tune::Form::Grub,
        EmitForm { systemd: true, .. } => tune::Form::Systemd,
        EmitForm { tuned: true, .. } => tune::Form::Tuned,
        _ => tune::Form::Udev,
    };
    let text = tune::emit(&profile, form, chosen.nic.as_deref(), "/usr/bin/windhover", &arguments).map_err(failed)?;
    output.result(&text)?;
    Ok(0)
}

/// The settings of a profile that would change something here; those of network devices are for each host to judge.
fn worth_trying(name: &str, nic: Option<&str>, output: &Output) -> Result<Vec<String>, Failure> {
    let profile = Profile::load(name).map_err(failed)?;
    let of_nic = |setting: &Setting| setting.key.starts_with("nic.");
    let plain: Vec<Setting> = profile.settings.iter().map(|reasoned| reasoned.setting.clone()).collect();
    let here: Vec<Setting> = plain.iter().filter(|setting| !of_nic(setting)).cloned().collect();
    let plan = tune::plan(&here, nic, &Kernel::running()).map_err(failed)?;
    for skipped in &plan.skipped {
        output.note(format_args!("not tried: {}: {}", skipped.setting, skipped.why));
    }
    let changes = |setting: &Setting| plan.changes.iter().any(|planned| planned.setting == *setting);
    let worth = plain.iter().filter(|setting| of_nic(setting) || changes(setting));
    Ok(worth.map(ToString::to_string).collect())
}

fn keep(settings: &[String], nic: Option<&str>, output: &Output) -> Result<u8, Failure> {
    let settings: Vec<Setting> =
        settings.iter().map(|text| text.parse()).collect::<Result<_, model::ModelError>>().map_err(Failure::usage)?;
    let kept = Profile { name: "try".to_owned(), ..Profile::default() }.with(&settings).map_err(failed)?;
    apply(&kept, nic, &SystemArgs::usual(), ApplyOptions { dry_run: false, yes: true, json: false }, output)
}

/// Holds until ended. Prints `held` and logs failures to the system's log: the starter reads only that.
pub(crate) fn hold(arguments: &Hold) -> u8 {
    task::own_session();
    let held = tune::hold_cpu_latency(arguments.cpu_latency_us);
    let mut stdout = std::io::stdout();
    let word = held.as_ref().map_or_else(|error| error.to_string(), |_| "held".to_owned());
    let _ = writeln!(stdout, "{word}").and_then(|()| stdout.flush());
    if held.is_err() {
        return 1;
    }
    // Whoever started this waits for the end of its words.
    drop(task::keep_stdout());
    loop {
        // SIGTERM ends the process, and that closes the file.
        std::thread::park();
    }
}
