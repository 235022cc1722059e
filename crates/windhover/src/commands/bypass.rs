//! `windhover bypass`.

use super::bypass_capture;
use super::bypass_stat;
use super::identity;
use super::launch::{OURS, become_program, exit_code, not_started};
use super::signals;
use crate::cli::bypass::{self as cli, BypassCommand, Run, Stack};
use crate::output::{Failure, Output, json_in_order, paragraph, table};
use anyhow::{Context as _, anyhow};
use bypass::{
    Audit, Backend, BypassError, Capture, CaptureLimits, Effective, Interface, Library, Profile, Recording, Settings,
    Start,
};
use model::Policy;
use std::any::Any;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use task::{Launch, Stream};

pub(crate) fn run(command: BypassCommand, output: &Output) -> Result<u8, Failure> {
    match command {
        BypassCommand::Run(arguments) => start(&arguments, output),
        BypassCommand::Probe(arguments) => super::bypass_probe::run(&arguments, output),
        BypassCommand::Capture(arguments) => bypass_capture::run(&arguments, output),
        BypassCommand::Profiles { name, form } => {
            output.result(&match name {
                Some(name) => shown(&Profile::load(&name).map_err(Failure::usage)?, form.is_json())?,
                None => listed(&bypass::profiles()?, form.is_json())?,
            })?;
            Ok(0)
        }
        BypassCommand::Stat { program, form } => bypass_stat::run(program.as_deref(), form.is_json(), output),
    }
}

/// Without an audit and a capture it comes back only with a failure. What prevents the use of the stack is said on one line; the
/// program then runs on the kernel, or not at all where the stack is required.
fn start(arguments: &Run, output: &Output) -> Result<u8, Failure> {
    let ours = |failure: Failure| Failure::new(failure.code.max(OURS), failure.error);
    let mut capture = capture(arguments).map_err(ours)?;
    let variables = match prepare(arguments, &mut capture, output) {
        Ok(variables) => variables,
        Err(failure) if failure.code != 1 || arguments.require => return Err(ours(failure)),
        Err(failure) => {
            output.warning(format_args!("{:#}; the program runs on the kernel's stack", failure.error));
            capture = None;
            Vec::new()
        }
    };
    // Only now: what the file held is gone when nothing stops the program from being captured.
    let recording = arguments.capture.as_deref().zip(capture);
    let recording = recording.map(|(path, capture)| bypass_capture::recording(capture, path).map(|made| (made, path)));
    let recording = recording.transpose().map_err(ours)?;
    if arguments.audit || recording.is_some() {
        return supervised(arguments, variables, recording, output).map_err(ours);
    }
    Err(become_program(&arguments.command, &variables, false))
}

fn capture(arguments: &Run) -> Result<Option<Capture>, Failure> {
    if arguments.capture.is_none() {
        return Ok(None);
    }
    if arguments.stack == Stack::Spin {
        refuse!("--capture belongs to --stack xdp or auto: tcpdump sees the packets of --stack spin");
    }
    Ok(Some(Capture::new(cli::BUFFER, cli::WHOLE)?))
}

/// Runs the program with a capture or listener beside it. Another thread starts it: its calls are reported, too.
fn supervised(
    arguments: &Run,
    variables: Vec<(OsString, OsString)>,
    recording: Option<(Recording, &Path)>,
    output: &Output,
) -> Result<u8, Failure> {
    let programs = signals::pass_on()?;
    let Some((program, rest)) = arguments.command.split_first() else { return Ok(0) };
    let launch = Launch::new(program).args(rest).in_our_group().stdin(Stream::Inherit);
    // Without its listener a program waits for ever; without its capture it goes on.
    let launch = if arguments.audit { launch.die_with_parent() } else { launch };
    let launch = variables.into_iter().fold(launch, |launch, (name, value)| launch.env(name, value));
    let (give, take) = mpsc::channel();
    let mut audit = Audit::new();
    let is_over = AtomicBool::new(false);
    let (ended, recorded) = thread::scope(|scope| {
        let starter = scope.spawn(move || -> Result<u8, Failure> {
            if arguments.audit {
                let listener = task::notify::tell(&Audit::calls());
                let listens = listener.is_ok();
                let _ = give.send(listener);
                if !listens {
                    return Ok(0);
                }
            }
            let mut child = launch.start().map_err(|error| Failure::new(not_started(&error), error))?;
            programs.add(child.pid());
            child.wait_end()?;
            programs.remove(child.pid());
            Ok(exit_code(child.wait()?))
        });
        let is_over = &is_over;
        let limits = CaptureLimits { count: u64::MAX, length: None };
        let record = move |(recording, path): (Recording, &Path)| {
            bypass_capture::report(recording.run(&limits, is_over), path, output)
        };
        let recorder = recording.map(|recording| scope.spawn(move || record(recording)));
        // Without an audit nothing comes.
        let heard = take.recv().map_or(Ok(()), |listener| -> Result<(), Failure> {
            let listener = listener?;
            while listener.next(|told| audit.count(told)).context("system calls are not told any more")? {}
            Ok(())
        });
        let ended = starter.join().unwrap_or_else(broke);
        is_over.store(true, Ordering::Relaxed);
        let recorded = recorder.map_or(Ok(()), |recorder| recorder.join().unwrap_or_else(broke));
        (heard.and(ended), recorded)
    });
    if let Err(failure) = &recorded {
        output.error(failure);
    }
    // What the program says of itself comes first.
    let code = match ended? {
        0 if recorded.is_err() => OURS,
        code => code,
    };
    if arguments.audit {
        audit.lines().iter().for_each(|line| output.note(line));
    }
    Ok(code)
}

fn broke<T>(_: Box<dyn Any + Send>) -> Result<T, Failure> {
    Err(anyhow!("a thread beside the program broke").into())
}

/// The variables that start the program behind the stack. A capture that would see nothing is taken away.
fn prepare(
    arguments: &Run,
    capture: &mut Option<Capture>,
    output: &Output,
) -> Result<Vec<(OsString, OsString)>, Failure> {
    if arguments.stack == Stack::Spin && arguments.backend.is_some() {
        return Err(Failure::usage(anyhow!("--backend belongs to --stack xdp or auto")));
    }
    let Some(program) = arguments.command.first() else { return Ok(Vec::new()) };
    // One that is not found is named by the attempt to run it.
    let file = bypass::find(program);
    match &file {
        Some(file) => bypass::examine(file).map_err(|obstacle| anyhow!("not accelerated, because {obstacle}"))?,
        None => *capture = None,
    }
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
    let text = |word: OsString| word.into_string().ok();
    let variables = std::env::vars_os().filter(|(name, _)| name != cli::INTERFACE);
    let variables = variables.filter_map(|(name, value)| Some((text(name)?, text(value)?)));
    let not_accelerated = |error: BypassError| anyhow!("not accelerated, because of {error}");
    let profile = Profile::load(&arguments.profile).map_err(not_accelerated)?;
    let settings = profile.settings(&name, variables).map_err(not_accelerated)?;
    let folder = bypass::folder();
    let library = Library::install(&folder).map_err(|error| anyhow!("not accelerated, because {error}"))?;
    // Whoever starts the next program sweeps up after those that were killed.
    let _ = bypass::clear(&folder);
    if arguments.verbose {
        output.note(effective(&settings).trim_end());
    }
    let stack = interface(arguments, &settings, output)?;
    if stack.is_none() && capture.take().is_some() {
        output.warning("no packet is captured: tcpdump sees the kernel's");
    }
    if stack.is_some()
        && let Err(error) = start_keeper(&folder)
    {
        output.warning(format_args!("if the program is killed, its peers are not told: {error:#}"));
    }
    let start = settings.start((arguments.require, arguments.verbose), stack.as_ref());
    let capture = capture.as_ref().map_or(0, Capture::request);
    Ok(library.environment(Start { capture, ..start }))
}

/// Starts the process that resets a killed program's connections, by way of another: it must not be its child.
fn start_keeper(folder: &Path) -> anyhow::Result<()> {
    let own = prepare::keeper::this_process().context("this process cannot read its own start")?;
    let _ = keeper(folder, (own.tid, own.started))?.start()?.wait()?;
    Ok(())
}

fn keeper(folder: &Path, (pid, started): (i32, u64)) -> anyhow::Result<Launch> {
    let launch = Launch::new(identity::executable()?).args(["keeper", "--connections"]).arg(folder);
    let launch = launch.arg("--owner").arg(format!("{pid}:{started}")).policy(Policy::Other).in_our_group();
    Ok(launch.env_remove("LD_PRELOAD").stdin(Stream::Null).stdout(Stream::Null).stderr(Stream::Null))
}

/// `windhover keeper --connections`: starts the process that stays, and ends; or stays.
pub(crate) fn keep(folder: &Path, owner: (i32, u64), stays: bool) -> u8 {
    if stays {
        task::own_session();
        bypass::keep(folder, owner);
        return 0;
    }
    let started = keeper(folder, owner).and_then(|launch| Ok(launch.arg("--detached").start()?));
    // It outlives this one.
    u8::from(started.map(std::mem::forget).is_err())
}

/// The interface of a stack in the program's process; none: the program gets the kernel's sockets, which spin.
fn interface(arguments: &Run, settings: &Settings, output: &Output) -> Result<Option<Interface>, Failure> {
    if arguments.stack == Stack::Spin {
        return Ok(None);
    }
    let not_used = |why: &dyn std::fmt::Display| -> Result<Option<Interface>, Failure> {
        if arguments.stack == Stack::Xdp && arguments.require {
            return Err(anyhow!("not accelerated, because {why}").into());
        }
        output.warning(format_args!("no stack xdp, because {why}; the program's calls spin on the kernel's sockets"));
        Ok(None)
    };
    if let Some(one) = settings.without_stack() {
        return not_used(&format_args!("{} is {} ({})", one.name, one.value, one.from));
    }
    let backend = arguments.backend.map(|backend| match backend {
        cli::Backend::ZeroCopy => Backend::ZeroCopy,
        cli::Backend::Native => Backend::Native,
        cli::Backend::Generic => Backend::Generic,
        cli::Backend::Packet => Backend::Packet,
    });
    match Interface::try_out(arguments.interface.as_deref(), backend) {
        Ok(interface) => {
            if arguments.verbose {
                output.note(format!("stack xdp on {}, back-end {}", interface.name, interface.opened.word()));
            }
            Ok(Some(interface))
        }
        Err(error) => not_used(&error),
    }
}

fn effective(settings: &Settings) -> String {
    let rows = settings.effective().iter();
    let rows = rows.map(|one| vec![one.name.to_owned(), amount(one), one.from.clone()]);
    table(&["setting", "value", "from"], rows.collect())
}

fn amount(one: &Effective) -> String {
    format!("{} {}", one.value, one.unit).trim_end().to_owned()
}

fn listed(profiles: &[Profile], json: bool) -> Result<String, Failure> {
    if json {
        let all = profiles.iter().map(|profile| Ok((profile.name.clone(), document(profile)?)));
        let all = all.collect::<Result<serde_json::Map<_, _>, Failure>>()?;
        return json_in_order(&all);
    }
    let rows = profiles.iter().map(|profile| vec![profile.name.clone(), profile.summary.clone()]);
    Ok(table(&["profile", "what it is for"], rows.collect()))
}

fn document(profile: &Profile) -> Result<serde_json::Value, Failure> {
    let settings = profile.settings("", std::iter::empty())?;
    Ok(serde_json::json!({ "summary": profile.summary, "settings": settings }))
}

fn shown(profile: &Profile, json: bool) -> Result<String, Failure> {
    if json {
        return json_in_order(&document(profile)?);
    }
    let settings = profile.settings("", std::iter::empty())?;
    let rows = settings.effective().iter();
    let rows = rows.map(|one| vec![one.name.to_owned(), amount(one), one.from.clone(), one.what.to_owned()]);
    let text = table(&["setting", "value", "from", "what it does"], rows.collect());
    Ok(format!("{}\n{text}", paragraph("", &profile.summary)))
}
