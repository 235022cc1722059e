//! `windhover lab`.

use super::{child, identity, signals};
use crate::cli::lab::{Boot, GuestArgs, LabCommand, Up};
use crate::output::{Failure, Output, json, paragraph, table, unwritten};
use anyhow::{Context as _, anyhow};
use guest::{Cache, Guest, GuestSpec, Job, Program};
use lab::{Lab, LabError, LabRecord, LabSpec, LabStatus, Owner, Registry};
use model::plan::{GuestMode, LabKind};
use std::io::{BufRead as _, BufReader, Write as _};
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::Duration;
use task::{Launch, Stream};

pub(crate) fn run(command: LabCommand, output: &Output) -> Result<u8, Failure> {
    let registry = Registry::default();
    let failed = |error: lab::LabError| Failure::new(error.exit_code(), error);
    match command {
        LabCommand::Up(arguments) => match (arguments.guests.is_empty(), arguments.hold) {
            (true, _) => up(*arguments, &registry, output),
            (false, false) => start_holder(&registry, output),
            (false, true) => hold(&arguments, &registry, output),
        },
        LabCommand::Down { all: true, .. } => down_all(&registry, output),
        LabCommand::Down { stale: true, .. } => {
            for name in lab::down_stale(&registry).map_err(failed)? {
                output.note(format_args!("removed the stale lab '{name}'"));
            }
            name_damaged(&registry, output);
            Ok(0)
        }
        LabCommand::Down { name, .. } => down(&registry, &name, output).map_err(failed).map(|()| 0),
        LabCommand::List { form } => {
            let (labs, _) = lab::list(&registry).map_err(failed)?;
            name_damaged(&registry, output);
            output.result(&if form.is_json() { labs_json(&labs)? } else { labs_text(&labs) })?;
            Ok(0)
        }
        LabCommand::Boot(arguments) => boot(&arguments, output),
        LabCommand::Exec { host, command } => {
            let (lab_name, host) = host.split_once('/').unwrap_or(("lab", host.as_str()));
            let record = Lab::open(&registry, lab_name).map_err(failed)?;
            if record.kind == LabKind::Guest {
                record.check_up().map_err(failed)?;
            }
            if let Some(guest) = record.guest_of(host) {
                simulated(guest.mode, output);
                let stop = signals::stop_flag()?;
                let mut written = Ok(());
                let ended = lab::exec_in_guest(guest, host, &command, &stop, &mut writer(&mut written));
                let status = ended.map_err(failed)?;
                written.map_err(|error| unwritten("", &error))?;
                return Ok(u8::try_from(status).unwrap_or(1));
            }
            let programs = signals::pass_on()?;
            let mut program = 0;
            let started = &mut |pid| {
                program = pid;
                programs.add(pid);
            };
            let status = lab::exec(&registry, lab_name, host, &command, started).map_err(failed)?;
            programs.remove(program);
            Ok(u8::try_from(status).unwrap_or(1))
        }
    }
}

/// Removes a lab and names the processes that it was removed from under.
fn down(registry: &Registry, name: &str, output: &Output) -> Result<(), LabError> {
    // Of a damaged record nothing is known.
    let inside = Lab::open(registry, name).map(|lab| lab.processes()).unwrap_or_default();
    lab::down(registry, name)?;
    output.note(format_args!("removed the lab '{name}'"));
    tell_left(&inside, output);
    Ok(())
}

/// Removes all labs, also those whose record is damaged; what one cannot be removed for keeps no other.
fn down_all(registry: &Registry, output: &Output) -> Result<u8, Failure> {
    let (labs, damaged) = lab::list(registry).map_err(|error| Failure::new(error.exit_code(), error))?;
    let of_file = |error: &LabError| match error {
        LabError::Damaged { path, .. } => Some(path.file_stem()?.to_string_lossy().into_owned()),
        _ => None,
    };
    let names = labs.into_iter().map(|lab| lab.record.name).chain(damaged.iter().filter_map(of_file));
    let mut code = 0;
    for name in names {
        if let Err(error) = down(registry, &name, output) {
            output.warning(format_args!("the lab '{name}': {error}"));
            code = 1;
        }
    }
    Ok(code)
}

fn up(arguments: Up, registry: &Registry, output: &Output) -> Result<u8, Failure> {
    if arguments.guest != GuestArgs::default() {
        refuse!("--mode, --cpus, --word and the like are for virtual machines: add --guest KERNEL");
    }
    let mut spec = LabSpec::new(&arguments.name);
    spec.hosts = arguments.hosts.unwrap_or(spec.hosts);
    spec.ports = arguments.ports;
    spec.owner = Owner::Persistent;
    let made = Lab::up(registry, &spec).map_err(|error| Failure::new(error.exit_code(), error))?;
    output.result(&hosts_text(made.record()))?;
    made.keep();
    name_damaged(registry, output);
    Ok(0)
}

/// Said to the holder of guests by the command that started it, which it otherwise ends with.
const KEPT: &str = "kept\n";

/// Has a process of its own boot guests and hold them. What it prints until they are up, errors too, is passed on.
fn start_holder(registry: &Registry, output: &Output) -> Result<u8, Failure> {
    let mut holder = Launch::new(identity::executable()?)
        .args(child::arguments_with("up", "--hold"))
        .env_remove("LD_PRELOAD")
        .in_our_group()
        .stdin(Stream::Pipe)
        .stdout(Stream::Pipe)
        .stderr(Stream::Pipe)
        .start()?;
    let (stdin, stdout, stderr) = (holder.take_stdin(), holder.take_stdout(), holder.take_stderr());
    let said = std::thread::spawn(move || stderr.map(|mut from| std::io::copy(&mut from, &mut std::io::stderr())));
    let mut line = String::new();
    let read = stdout.map(|stdout| BufReader::new(stdout).read_line(&mut line));
    if !matches!(read, Some(Ok(1..))) {
        let ended = holder.wait()?;
        let _ = said.join();
        let code = ended.code().and_then(|code| u8::try_from(code).ok());
        return code.ok_or_else(|| Failure::from(anyhow!("the process that holds the guests was ended: {ended}")));
    }
    let record: LabRecord = serde_json::from_str(&line)?;
    output.result(&hosts_text(&record))?;
    stdin.map_or(Ok(()), |mut stdin| stdin.write_all(KEPT.as_bytes())).context("the process that holds the guests")?;
    // It outlives this one.
    std::mem::forget(holder);
    name_damaged(registry, output);
    Ok(0)
}

/// The process that [`start_holder`] starts.
fn hold(arguments: &Up, registry: &Registry, output: &Output) -> Result<u8, Failure> {
    task::own_session();
    let stop = signals::stop_flag()?;
    let (sender, kept) = channel();
    let gone = stop.share();
    std::thread::spawn(move || {
        let mut line = String::new();
        match std::io::stdin().read_line(&mut line) {
            Ok(_) if line == KEPT => drop(sender.send(())),
            _ => gone.store(true, Ordering::Relaxed),
        }
    });
    let mut ready = |record: &LabRecord| {
        // Nothing of the folder that the command was given in is needed any more.
        let _ = std::env::set_current_dir("/");
        let line = serde_json::to_string(record).unwrap_or_default();
        output.result(&format!("{line}\n")).is_ok() && kept.recv().is_ok()
    };
    let failed = |error: lab::LabError| {
        let code = if stop.load(Ordering::Relaxed) { 130 } else { error.exit_code() };
        Failure::new(code, error)
    };
    let specs = specs(arguments)?;
    let program = Program { path: identity::executable()?, build: identity::build()? };
    let note = &mut |text: &str| output.note(text);
    lab::hold(registry, &arguments.name, &specs, &program, &stop, note, &mut ready).map_err(failed)?;
    Ok(0)
}

fn specs(arguments: &Up) -> Result<Vec<GuestSpec>, Failure> {
    let hosts = arguments.hosts.unwrap_or(2);
    if !(1..=26).contains(&hosts) {
        refuse!("a lab cannot have {hosts} hosts: use 1 to 26");
    }
    if arguments.guests.len() > 1 && arguments.hosts.is_some_and(|hosts| hosts != 2) {
        refuse!("guests on a wire have one host each: leave --hosts out");
    }
    Ok(arguments.guests.iter().map(|named| spec(named, hosts, &arguments.guest)).collect())
}

fn spec(kernel: &str, hosts: u32, arguments: &GuestArgs) -> GuestSpec {
    let GuestArgs { words: more, mode, cpus, memory_mb, nic, modules, overlay, devices } = arguments.clone();
    let usual = GuestSpec::new(kernel);
    let (mode, cpus) = (mode.unwrap_or(usual.mode), cpus.unwrap_or(usual.cpus));
    let memory_mb = memory_mb.unwrap_or(usual.memory_mb);
    let nic = nic.unwrap_or(usual.nic);
    let words = usual.words.iter().cloned().chain(more).collect();
    GuestSpec { words, mode, cpus, memory_mb, hosts, nic, modules, overlay, devices, ..usual }
}

/// Says so where the times that a program in a guest prints are no times.
fn simulated(mode: GuestMode, output: &Output) {
    if let Some(words) = guest::simulated(mode) {
        output.note(words);
    }
}

/// Writes what a program in a guest writes; the first error is kept.
fn writer(written: &mut std::io::Result<()>) -> impl FnMut(bool, &[u8]) {
    |error, bytes| {
        let wrote = if error {
            std::io::stderr().write_all(bytes)
        } else {
            std::io::stdout().write_all(bytes).and_then(|()| std::io::stdout().flush())
        };
        *written = std::mem::replace(written, Ok(())).and(wrote);
    }
}

fn boot(arguments: &Boot, output: &Output) -> Result<u8, Failure> {
    let spec = spec(&arguments.kernel, arguments.hosts, &arguments.guest);
    let program = Program { path: identity::executable()?, build: identity::build()? };
    let stop = signals::stop_flag()?;
    let stopped = stop.share();
    let failed = |error: guest::GuestError| {
        let code = if stopped.load(Ordering::Relaxed) { 130 } else { error.exit_code() };
        Failure::new(code, error)
    };
    let cache = Cache::usual().map_err(failed)?;
    let mut guest = Guest::boot(&spec, &program, &cache, &stopped, &mut |text| output.note(text)).map_err(failed)?;
    let (up, used) = (guest.up().uptime_ms, guest.usage());
    output.note(format_args!(
        "kernel {} is up after {:.1} s of its time and {:.1} s of CPU time here",
        guest.up().release,
        up as f64 / 1e3,
        (used.user_ms + used.system_ms) as f64 / 1e3
    ));
    simulated(spec.mode, output);
    let mut written = Ok(());
    let limit = arguments.limit.map(Duration::from_secs);
    let ended = match arguments.command.as_slice() {
        [] => Ok(0),
        argv => {
            let job = Job { host: arguments.host.as_deref(), argv, limit, stop: &stopped, asks: false };
            guest.run(&job, &mut writer(&mut written))
        }
    };
    if ended.is_ok() {
        guest.settle();
    }
    if let Some(path) = &arguments.console {
        crate::output::write_file("--console", path, guest.console().as_bytes(), true)?;
    }
    let status = ended.map_err(failed)?;
    written.map_err(|error| unwritten("", &error))?;
    Ok(u8::try_from(status).unwrap_or(1))
}

/// Names the records that describe no lab. Whoever may not read the registry has no part in it.
pub(super) fn name_damaged(registry: &Registry, output: &Output) {
    let damaged = lab::list(registry).map(|(_, damaged)| damaged).unwrap_or_default();
    damaged.iter().for_each(|damage| output.warning(damage));
}

/// Names the processes that a lab was removed from under: they have no network, and no list shows them.
fn tell_left(inside: &[(u32, String)], output: &Output) {
    if inside.is_empty() {
        return;
    }
    let names: Vec<String> = inside.iter().map(|(pid, name)| format!("{name} ({pid})")).collect();
    let pids: Vec<String> = inside.iter().map(|(pid, _)| pid.to_string()).collect();
    output.warning(format_args!(
        "still running, and without a network now: {}; end what is not wanted with: kill {}",
        names.join(", "),
        pids.join(" ")
    ));
}

fn hosts_text(record: &LabRecord) -> String {
    let rows = record.hosts.iter().map(|host| {
        let netns = match (&host.netns, record.guest_of(&host.name)) {
            (Some(netns), _) => netns.clone(),
            (None, Some(guest)) => format!("(guest {}, {})", guest.kernel, guest.mode),
            (None, None) => "(this namespace)".to_owned(),
        };
        let ipv6 = host.ipv6.map(|address| address.to_string()).unwrap_or_default();
        let name = format!("{}/{}", record.name, host.name);
        vec![name, netns, host.device.clone(), host.ipv4.to_string(), ipv6]
    });
    table(&["host", "network namespace", "device", "IPv4", "IPv6"], rows.collect())
}

fn labs_text(labs: &[LabStatus]) -> String {
    let mut text = String::new();
    for lab in labs {
        let name = &lab.record.name;
        if lab.stale {
            let why = lab.record.why_stale();
            text.push_str(&paragraph("", &format!("{name}: stale, {why}; 'windhover lab down --stale' removes it")));
        } else if lab.record.kind == LabKind::Guest {
            let up = if lab.record.hosts.is_empty() { ", not up yet" } else { "" };
            text.push_str(&paragraph("", &format!("{name}: virtual machine {}{up}", lab.record.owner)));
        } else if matches!(lab.record.owner, Owner::Process { .. }) {
            text.push_str(&paragraph("", &format!("{name}: {}, which removes it at its end", lab.record.owner)));
        }
        text.push_str(&hosts_text(&lab.record));
    }
    text
}

fn labs_json(labs: &[LabStatus]) -> Result<String, Failure> {
    let records = labs.iter().map(|lab| {
        let mut value = serde_json::to_value(&lab.record)?;
        value["stale"] = lab.stale.into();
        Ok(value)
    });
    json(records.collect::<Result<Vec<_>, serde_json::Error>>()?)
}
