//! `windhover lab`.

use super::{identity, signals};
use crate::cli::lab::{Boot, LabCommand};
use crate::output::{Failure, Output, json, paragraph, table, unwritten};
use guest::{Cache, Guest, GuestSpec, Program};
use lab::{Lab, LabSpec, LabStatus, Owner, Registry};
use std::io::Write as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(crate) fn run(command: LabCommand, output: &Output) -> Result<u8, Failure> {
    let registry = Registry::default();
    let failed = |error: lab::LabError| Failure::new(error.exit_code(), error);
    match command {
        LabCommand::Up { name, hosts, ports } => {
            let mut spec = LabSpec::new(&name);
            spec.hosts = hosts;
            spec.ports = ports;
            spec.owner = Owner::Persistent;
            let made = Lab::up(&registry, &spec).map_err(failed)?;
            output.result(&hosts_text(made.record()))?;
            made.keep();
            name_damaged(&registry, output);
            Ok(0)
        }
        LabCommand::Down { name, stale } => {
            if stale {
                for name in lab::down_stale(&registry).map_err(failed)? {
                    output.note(format_args!("removed the stale lab '{name}'"));
                }
                name_damaged(&registry, output);
            } else {
                // Of a damaged record nothing is known.
                let inside = Lab::open(&registry, &name).map(|lab| lab.processes()).unwrap_or_default();
                lab::down(&registry, &name).map_err(failed)?;
                output.note(format_args!("removed the lab '{name}'"));
                tell_left(&inside, output);
            }
            Ok(0)
        }
        LabCommand::List { form } => {
            let (labs, _) = lab::list(&registry).map_err(failed)?;
            name_damaged(&registry, output);
            output.result(&if form.is_json() { labs_json(&labs)? } else { labs_text(&labs) })?;
            Ok(0)
        }
        LabCommand::Boot(arguments) => boot(*arguments, output),
        LabCommand::Exec { host, command } => {
            let (lab_name, host) = host.split_once('/').unwrap_or(("lab", host.as_str()));
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

/// Boots a guest for one command.
fn boot(arguments: Boot, output: &Output) -> Result<u8, Failure> {
    let Boot { kernel, words, mode, cpus, memory_mb, hosts, modules, overlay, devices, .. } = arguments;
    let usual = GuestSpec::new(&kernel);
    let spec = GuestSpec { words, mode, cpus, memory_mb, hosts, modules, overlay, devices, ..usual };
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
    let mut written = Ok(());
    let mut write = |error: bool, bytes: &[u8]| {
        let wrote = if error {
            std::io::stderr().write_all(bytes)
        } else {
            std::io::stdout().write_all(bytes).and_then(|()| std::io::stdout().flush())
        };
        written = std::mem::replace(&mut written, Ok(())).and(wrote);
    };
    let limit = arguments.limit.map(Duration::from_secs);
    let ended = match arguments.command.as_slice() {
        [] => Ok(0),
        command => guest.run(arguments.host.as_deref(), command, limit, &stopped, &mut write),
    };
    if ended.is_ok() {
        guest.settle();
    }
    if let Some(path) = &arguments.console {
        crate::output::write_file(path, guest.console().as_bytes(), true)?;
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

/// Names the processes that a lab was removed from under: nobody reaches them, and no list shows them.
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

fn hosts_text(record: &lab::LabRecord) -> String {
    let rows = record.hosts.iter().map(|host| {
        let netns = host.netns.as_deref().unwrap_or("(this namespace)");
        let ipv6 = host.ipv6.map(|address| address.to_string()).unwrap_or_default();
        let name = format!("{}/{}", record.name, host.name);
        vec![name, netns.to_owned(), host.device.clone(), host.ipv4.to_string(), ipv6]
    });
    table(&["host", "network namespace", "device", "IPv4", "IPv6"], rows.collect())
}

fn labs_text(labs: &[LabStatus]) -> String {
    let mut text = String::new();
    for lab in labs {
        let name = &lab.record.name;
        if lab.stale {
            let stale = format!("{name}: stale, its owner is gone; 'windhover lab down --stale' removes it");
            text.push_str(&paragraph("", &stale));
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
