//! `windhover doctor`.

mod text;

use crate::cli::doctor::{Doctor, DoctorCommand};
use crate::output::{Failure, Output, json_in_order as json};
use anyhow::Context as _;
use host::knob::Machine;
use model::CpuList;
use prepare::doctor::{self, DoctorOptions, Document, Severity, Snapshot};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;
use text::TextOptions;

/// How long a thread of ordinary policy spins.
const SPIN: Duration = Duration::from_secs(1);
/// A finding that fails the examination.
const FAILED: u8 = 3;

pub(crate) fn run(arguments: &Doctor, output: &Output) -> Result<u8, Failure> {
    match &arguments.command {
        Some(DoctorCommand::Diff { a, b, form }) => diff(a, b, form.is_json(), output),
        None => examine(arguments, output),
    }
}

fn examine(arguments: &Doctor, output: &Output) -> Result<u8, Failure> {
    if let Some(unknown) = doctor::unknown_check(&arguments.only) {
        refuse!("there is no check '{unknown}': {}", known_checks(unknown));
    }
    if let Some(file) = arguments.save.as_ref().filter(|file| !arguments.force && file.exists()) {
        refuse!("{} exists: name another file, or give --force", file.display());
    }
    let machine = Machine::at(&arguments.root.path);
    let running = arguments.root.path == Path::new("/");
    let cpus = arguments.cpus.as_deref().map_or_else(|| Ok(CpuList::default()), |list| named_cpus(list, &machine))?;
    let options = DoctorOptions { cpus, nic: arguments.nic.clone(), only: arguments.only.clone() };
    let mut snapshot = Snapshot::take(&machine).map_err(Failure::usage)?;
    if let Some(nic) = &options.nic
        && !snapshot.host.nics.iter().any(|known| known.name == *nic)
    {
        let known: Vec<&str> = snapshot.host.nics.iter().map(|nic| nic.name.as_str()).collect();
        refuse!("there is no network device {nic} here, only {}", known.join(", "));
    }
    if arguments.measure {
        if !running {
            refuse!("only the running system can be measured");
        }
        let scope = doctor::scope_of(&machine, &options);
        measure(&scope, &mut snapshot, output)?;
    }
    let mut document = doctor::examine_with(&machine, &options, snapshot);
    if let Some(file) = &arguments.save {
        document.machine.kernel_config = host::facts::kernel_config(&machine);
        save(file, &document, arguments.force)?;
        // Thousands of lines, for `doctor diff` alone.
        document.machine.kernel_config = None;
        output.note(format_args!("saved: {}", file.display()));
    }
    let options = TextOptions { colour: output.colours_results(), verbose: arguments.verbose };
    let as_json = arguments.form.is_json();
    output.result(&if as_json { json(&document)? } else { text::text(&document, &options) })?;
    Ok(if document.worst() == Some(Severity::Bad) { FAILED } else { 0 })
}

/// The CPUs that a list names, all of which are here.
pub(super) fn named_cpus(list: &str, machine: &Machine) -> Result<CpuList, Failure> {
    let cpus = prepare::shield::cpus(list, machine).map_err(Failure::usage)?;
    let present = machine.cpu_list("/sys/devices/system/cpu/present").unwrap_or_default();
    let absent = cpus.without(&present);
    if !present.is_empty() && !absent.is_empty() {
        refuse!("there is no CPU {absent} here, only {present}");
    }
    Ok(cpus)
}

/// The checks that may be meant: those of the section, where that is one; else the sections.
fn known_checks(unknown: &str) -> String {
    let section = unknown.split('.').next().unwrap_or_default();
    let ids: Vec<&str> = doctor::checks().filter(|check| check.section() == section).map(|check| check.id).collect();
    if !ids.is_empty() {
        return format!("section {section} has {}", ids.join(", "));
    }
    let mut sections: Vec<&str> = doctor::checks().map(doctor::Check::section).collect();
    sections.dedup();
    format!(
        "name a section ({}), or a check of one, as `windhover doctor --only SECTION -v` lists them",
        sections.join(", ")
    )
}

/// Measures on the first CPU of the scope, or on the last one that this process may use.
fn measure(scope: &CpuList, snapshot: &mut Snapshot, output: &Output) -> Result<(), Failure> {
    let allowed = task::allowed_cpus().context("cannot tell which CPUs this process may use")?;
    let Some(cpu) = scope.iter().next().or_else(|| allowed.iter().last()) else {
        refuse!("there is no CPU to measure on");
    };
    let elsewhere: CpuList = allowed.iter().filter(|other| *other != cpu).collect();
    if !elsewhere.is_empty() {
        task::set_affinity(&elsewhere).context("cannot leave the CPU that is measured")?;
    }
    output.note(format_args!("measuring on CPU {cpu} for 3 s"));
    let mut measured = doctor::measure(cpu, SPIN)?;
    match doctor::probe_throttle(cpu) {
        Ok(probe) => measured.throttle = Some(probe),
        Err(error) => output.warning(format_args!("no throttle probe: {error}")),
    }
    snapshot.measured = Some(measured);
    Ok(())
}

fn save(file: &Path, document: &Document, force: bool) -> Result<(), Failure> {
    let text = json(document)?;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).truncate(true).create(true);
    if !force {
        options.create_new(true);
    }
    let written = options.open(file).and_then(|mut opened| opened.write_all(text.as_bytes()));
    written.with_context(|| format!("cannot write {}", file.display()))?;
    Ok(())
}

fn load(file: &Path) -> Result<Document, Failure> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read {}", file.display()))
        .map_err(Failure::usage)?;
    let document: Document = serde_json::from_str(&text)
        .with_context(|| format!("{} is no document of 'windhover doctor --save'", file.display()))
        .map_err(Failure::usage)?;
    if document.format != doctor::FORMAT {
        let (file, format, reads) = (file.display(), document.format, doctor::FORMAT);
        refuse!("{file} has format {format}, this version reads {reads}: examine that machine again");
    }
    Ok(document)
}

fn diff(a: &Path, b: &Path, as_json: bool, output: &Output) -> Result<u8, Failure> {
    let compared = doctor::compare(&load(a)?, &load(b)?);
    output.result(&if as_json { json(&compared)? } else { text::comparison_text(&compared) })?;
    Ok(if compared.differs() { FAILED } else { 0 })
}
