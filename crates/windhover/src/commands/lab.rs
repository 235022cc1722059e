//! `windhover lab`.

use super::signals;
use crate::cli::lab::LabCommand;
use crate::output::{Failure, Output};
use lab::{Lab, LabSpec, LabStatus, Owner, Registry};
use std::fmt::Write as _;

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
            Ok(0)
        }
        LabCommand::Down { name, stale } => {
            if stale {
                for name in lab::down_stale(&registry).map_err(failed)? {
                    output.note(format_args!("removed the stale lab '{name}'"));
                }
            } else {
                lab::down(&registry, &name).map_err(failed)?;
            }
            Ok(0)
        }
        LabCommand::List { form } => {
            let (labs, damaged) = lab::list(&registry).map_err(failed)?;
            damaged.iter().for_each(|damage| output.warning(damage));
            output.result(&if form.is_json() { labs_json(&labs)? } else { labs_text(&labs) })?;
            Ok(0)
        }
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

fn hosts_text(record: &lab::LabRecord) -> String {
    let mut text = String::new();
    for host in &record.hosts {
        let ipv6 = host.ipv6.map(|address| address.to_string()).unwrap_or_default();
        let netns = host.netns.as_deref().unwrap_or("(this namespace)");
        let _ = writeln!(
            text,
            "{}/{:<4} {:<18} {:<16} {:<18} {ipv6}",
            record.name, host.name, netns, host.device, host.ipv4
        );
    }
    text
}

fn labs_text(labs: &[LabStatus]) -> String {
    let mut text = String::new();
    for lab in labs {
        if lab.stale {
            let _ = writeln!(
                text,
                "{}: stale, its owner is gone; 'windhover lab down --stale' removes it",
                lab.record.name
            );
        } else if matches!(lab.record.owner, Owner::Process { .. }) {
            let _ = writeln!(text, "{}: {}, which removes it at its end", lab.record.name, lab.record.owner);
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
    let records = records.collect::<Result<Vec<_>, serde_json::Error>>()?;
    Ok(format!("{}\n", serde_json::to_string_pretty(&records)?))
}
