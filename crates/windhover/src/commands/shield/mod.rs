//! `windhover shield`.

mod words;

use super::{ask, signals};
use crate::cli::shield::{Exec, Shield, ShieldCommand, Wanted};
use crate::output::{Failure, Output, json};
use anyhow::{Context as _, anyhow};
use host::undo::StateDir;
use model::{CpuList, Policy, ShieldSpec};
use prepare::Kernel;
use prepare::shield::{self, ActiveShield, Drift, Guard, ShieldError, ShieldPlan};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const LOOK: Duration = Duration::from_millis(50);
/// The system is not as asked for, or as promised.
const GATE: u8 = 3;

pub(crate) fn run(arguments: &Shield, output: &Output) -> Result<u8, Failure> {
    if let Some(ShieldCommand::Exec(exec)) = &arguments.command {
        return run_exec(exec, output);
    }
    let (kernel, state) = (arguments.system.kernel(), arguments.system.state());
    let as_json = arguments.form.is_json();
    if arguments.reset {
        return reset(arguments, &kernel, &state, output);
    }
    let changes = arguments.wanted.is_given();
    if arguments.current || (!changes && arguments.guard.is_none() && arguments.exit_after.is_none()) {
        if let Some(time) = arguments.verify {
            return verify(&current_spec(&state)?, time, as_json, output);
        }
        let status = shield::status(&kernel, &state);
        output.result(&if as_json { json(&status)? } else { words::status(&status) })?;
        return Ok(0);
    }
    if !changes {
        // To guard, or to end after a time, the one that is up.
        return stay(arguments, &current_spec(&state)?, None, &kernel, &state, output);
    }
    let (spec, hints) = spec(&arguments.wanted, &kernel, &state)?;
    let plan = shield::plan(&spec, &kernel, &state).map_err(failed)?;
    let code = if plan.lacks.is_empty() { 0 } else { GATE };
    if arguments.dry_run {
        output.result(&if as_json { json(&plan)? } else { words::plan(&plan) })?;
        tell(&hints, output);
        return Ok(code);
    }
    if !plan.is_done() && !confirmed(&plan, arguments, output)? {
        output.note("nothing was changed");
        return Ok(0);
    }
    let stays = arguments.guard.is_none() && arguments.exit_after.is_none();
    let owner = if stays { None } else { prepare::keeper::this_process() };
    let shielded = shield::apply(&plan, &kernel, &state, owner, &command_line()).map_err(failed)?;
    if as_json {
        output.result(&json(&shielded.report)?)?;
    } else {
        output.result(&words::done(&shielded))?;
        words::notes(&shielded.report).iter().for_each(|line| output.note(line));
        tell(&hints, output);
    }
    let verified = match arguments.verify {
        Some(time) => verify(&spec, time, as_json, output)?,
        None => 0,
    };
    let stayed = if stays { 0 } else { stay(arguments, &spec, Some(shielded), &kernel, &state, output)? };
    Ok([stayed, verified, code].into_iter().find(|&code| code != 0).unwrap_or(0))
}

fn current_spec(state: &StateDir) -> Result<ShieldSpec, Failure> {
    let current = host::shield::current(state).map(|shield| shield.spec);
    current.ok_or_else(|| Failure::usage(anyhow!("no shield is up: name CPUs with -a LIST")))
}

impl Wanted {
    fn is_given(&self) -> bool {
        let lists = [&self.proc, &self.irq, &self.loc, &self.mem, &self.all];
        lists.iter().any(|list| list.is_some())
            || self.backend.is_some()
            || !self.nic.is_empty()
            || !self.flow.is_empty()
            || !self.keep.is_empty()
            || self.allow_boot_cpu
            || self.unlimited_rt
            || self.include_ancestors
    }
}

/// What is asked for, on top of what is up; and what to tell about it.
fn spec(wanted: &Wanted, kernel: &Kernel, state: &StateDir) -> Result<(ShieldSpec, Vec<String>), Failure> {
    let mut spec = host::shield::current(state).map(|shield| shield.spec).unwrap_or_default();
    let mut hints = Vec::new();
    let list = |text: &str| match text.trim() {
        "" => Ok(CpuList::default()),
        text => shield::cpus(text, kernel.machine()).map_err(Failure::usage),
    };
    if let Some(all) = &wanted.all {
        let cpus = list(all)?;
        (spec.timers, spec.memory, hints) = shield::attainable(&cpus, kernel);
        spec.processes = cpus.clone();
        spec.interrupts = cpus;
    }
    for (given, place) in [
        (&wanted.proc, &mut spec.processes),
        (&wanted.irq, &mut spec.interrupts),
        (&wanted.loc, &mut spec.timers),
        (&wanted.mem, &mut spec.memory),
    ] {
        if let Some(text) = given {
            *place = list(text)?;
        }
    }
    spec.backend = wanted.backend.unwrap_or(spec.backend);
    if !wanted.nic.is_empty() {
        spec.nics.clone_from(&wanted.nic);
    }
    if !wanted.flow.is_empty() {
        spec.flows.clone_from(&wanted.flow);
    }
    if !wanted.keep.is_empty() {
        spec.keep.clone_from(&wanted.keep);
    }
    spec.allow_boot_cpu |= wanted.allow_boot_cpu;
    spec.unlimited_realtime |= wanted.unlimited_rt;
    spec.include_ancestors |= wanted.include_ancestors;
    Ok((spec, hints))
}

fn tell(hints: &[String], output: &Output) {
    hints.iter().for_each(|hint| output.note(hint));
}

/// Shows the plan and asks, where a person is there to answer.
fn confirmed(plan: &ShieldPlan, arguments: &Shield, output: &Output) -> Result<bool, Failure> {
    let text = words::plan(plan);
    let shown = if arguments.form.is_json() { json(plan)? } else { text.clone() };
    ask::proceed(&shown, &format!("{text}Change these settings?"), arguments.yes, output)
}

fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    std::iter::once("windhover".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

fn failed(error: ShieldError) -> Failure {
    Failure::new(error.exit_code(), error)
}

fn reset(arguments: &Shield, kernel: &Kernel, state: &StateDir, output: &Output) -> Result<u8, Failure> {
    if arguments.dry_run {
        output.result(&words::undo(state)?)?;
        return Ok(0);
    }
    let report = shield::reset(kernel, state, arguments.force).map_err(failed)?;
    output.result(&if arguments.form.is_json() { json(&report)? } else { words::undone(&report) })?;
    Ok(u8::from(!report.is_clean()))
}

/// Waits for the end of the time or a signal, guarding if asked for; then restores what this call changed.
fn stay(
    arguments: &Shield,
    spec: &ShieldSpec,
    shielded: Option<ActiveShield>,
    kernel: &Kernel,
    state: &StateDir,
    output: &Output,
) -> Result<u8, Failure> {
    let stop = signals::stop_flag()?;
    let guard = Guard::new(kernel.clone(), state.clone(), spec.clone());
    let until = arguments.exit_after.map(|time| Instant::now() + time);
    let mut next = arguments.guard.map(|every| Instant::now() + every);
    let housekeeping = task::online_cpus()?.without(&spec.processes);
    let _guard = shield::leave_cpus(&housekeeping);
    let (mut drifted, mut gone) = (0_u64, false);
    while !stop.load(Ordering::Relaxed) && !gone && until.is_none_or(|until| Instant::now() < until) {
        std::thread::sleep(LOOK);
        let (Some(every), Some(at)) = (arguments.guard, next) else { continue };
        if Instant::now() < at {
            continue;
        }
        next = Some(Instant::now() + every);
        match guard.round() {
            Ok(drifts) => {
                drifted += u64::try_from(drifts.len()).unwrap_or(0);
                gone = drifts.contains(&Drift::Gone);
                drifts.iter().for_each(|drift| output.warning(drift));
            }
            Err(error) => output.warning(format_args!("this round repaired nothing: {error}")),
        }
    }
    if arguments.guard.is_some() {
        output.note(format_args!("the guard found {drifted} settings or groups of tasks that had drifted"));
    }
    let Some(shielded) = shielded else { return Ok(u8::from(gone)) };
    let code = end(shielded, kernel, state, output)?;
    Ok(if gone { 1 } else { code })
}

fn end(shielded: ActiveShield, kernel: &Kernel, state: &StateDir, output: &Output) -> Result<u8, Failure> {
    match shielded.end(kernel, state).map_err(failed)? {
        Some(report) => {
            output.note(words::undone(&report).trim_end());
            Ok(u8::from(!report.is_clean()))
        }
        None => Ok(0),
    }
}

fn run_exec(exec: &Exec, output: &Output) -> Result<u8, Failure> {
    let (kernel, state) = (exec.system.kernel(), exec.system.state());
    let (spec, hints) = spec(&exec.wanted, &kernel, &state)?;
    let plan = shield::plan(&spec, &kernel, &state).map_err(failed)?;
    tell(&plan.lacks, output);
    let shielded =
        shield::apply(&plan, &kernel, &state, prepare::keeper::this_process(), &command_line()).map_err(failed)?;
    words::notes(&shielded.report).iter().for_each(|line| output.note(line));
    tell(&hints, output);
    let status = run_command(exec);
    let ended = end(shielded, &kernel, &state, output)?;
    match status? {
        0 => Ok(ended),
        code => Ok(code),
    }
}

/// Runs the command and passes signals on; its end is waited for in any case.
fn run_command(exec: &Exec) -> Result<u8, Failure> {
    let (program, rest) = exec.command.split_first().context("no command")?;
    let programs = signals::pass_on()?;
    let launch = task::Launch::new(program).args(rest).in_foreground();
    let mut child = launch.start().map_err(|error| Failure::new(127, error))?;
    programs.add(child.pid());
    child.wait_end()?;
    programs.remove(child.pid());
    Ok(super::launch::exit_code(child.wait()?))
}

fn verify(spec: &ShieldSpec, time: Duration, as_json: bool, output: &Output) -> Result<u8, Failure> {
    let cpus = spec.processes.union(&spec.interrupts);
    output.note(format_args!("a thread spins on CPU {cpus} for {:.1} s", time.as_secs_f64()));
    let online = task::online_cpus()?;
    let _guard = shield::leave_cpus(&online.without(&cpus));
    let evidence = prepare::verify::run(&cpus, time, Policy::Other)?;
    let mut leaks = evidence.leaks(spec);
    // What no shield can move was reported when it was put up.
    leaks.retain(|leak| !words::is_managed(&leak.visitor));
    output.result(&if as_json {
        json(serde_json::json!({ "evidence": evidence, "leaks": leaks }))?
    } else {
        words::evidence(&evidence, &leaks)
    })?;
    Ok(if leaks.is_empty() { 0 } else { GATE })
}
