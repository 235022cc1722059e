//! Labs in guests, virtual machines: all hosts as network namespaces in one guest, or one host in each of two.

use crate::build::{GuestRecord, LabHost, LabRecord, check_name};
use crate::life::{Lab, refuse_existing, remove_stale};
use crate::pipe::AgentCommand;
use crate::{LabError, Owner, Registry};
use guest::control::{MACHINE, Up};
use guest::{
    Cache, Guest, GuestError, GuestHost, GuestMode, GuestNic, GuestSpec, Job, Program, RequestListener, RunFolder,
    agent_socket, remove_folder, run_at, wire,
};
use model::plan::LabKind;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How a lab's holder is asked to end, and how long it may take: it switches its guests off.
const ENDINGS: [(i32, Duration); 2] = [(15, Duration::from_secs(20)), (9, Duration::from_secs(5))];
/// How long the folders of a guest that ended stay, for those that use it: they read its console.
const LAST_LOOK: Duration = Duration::from_secs(1);
/// How often the end of a holder is looked at.
const LOOK: Duration = Duration::from_millis(10);

impl From<GuestError> for LabError {
    fn from(error: GuestError) -> Self {
        match error {
            GuestError::Refused(why) => Self::Refused(why),
            GuestError::Interrupted => Self::Interrupted,
            GuestError::Failed(_) | GuestError::File { .. } => Self::Failed(error.to_string()),
        }
    }
}

/// How many times longer something may take in a guest: emulation runs at a tenth of the speed and shares the CPUs.
fn patience(mode: GuestMode) -> u32 {
    if mode == GuestMode::Kvm { 2 } else { 30 }
}

/// The words that a kernel of a guest is named by.
fn named(spec: &GuestSpec) -> String {
    std::iter::once(&spec.kernel).chain(&spec.words).map(String::as_str).collect::<Vec<_>>().join(" ")
}

fn outside(host: &GuestHost) -> LabHost {
    let GuestHost { name, ipv4, ipv6, device, .. } = host.clone();
    LabHost { name, netns: None, ipv4, ipv6, device, port: None }
}

fn recorded(spec: &GuestSpec, folder: &Path, up: &Up) -> GuestRecord {
    let hosts = up.hosts.iter().map(|host| host.name.clone()).collect();
    let GuestSpec { mode, cpus, memory_mb, .. } = *spec;
    GuestRecord { kernel: named(spec), mode, cpus, memory_mb, folder: folder.to_owned(), hosts }
}

/// A lab of guests without guests yet, owned by the calling process.
fn planned(name: &str) -> LabRecord {
    LabRecord {
        format: model::FORMAT,
        name: name.to_owned(),
        kind: LabKind::Guest,
        owner: Owner::this_process(),
        subnet: None,
        switch: None,
        guests: Vec::new(),
        ended: None,
        hosts: Vec::new(),
    }
}

impl LabRecord {
    fn add(&mut self, spec: &GuestSpec, guest: &Guest) {
        self.guests.push(recorded(spec, guest.folder(), guest.up()));
        self.hosts.extend(guest.up().hosts.iter().map(outside));
    }
}

impl Lab {
    /// Boots a guest and waits for its hosts. It ends with the calling thread and is not registered. `note` gets what takes long.
    pub fn boot(
        name: &str,
        spec: &GuestSpec,
        program: &Program,
        stop: &AtomicBool,
        note: &mut dyn FnMut(&str),
    ) -> Result<Self, LabError> {
        let guest = Guest::boot(spec, program, &Cache::usual()?, stop, note)?;
        let mut record = planned(name);
        record.add(spec, &guest);
        Ok(Self::with_guest(record, &Registry::default(), guest))
    }

    /// Whether a guest can be had here; the release of its kernel, which is fetched where it is not there yet.
    pub fn check_guest(spec: &GuestSpec, note: &mut dyn FnMut(&str)) -> Result<String, LabError> {
        Ok(spec.fetch(&Cache::usual()?, note)?.release)
    }

    /// The pipe to the agent of a host: `PROGRAM agent` in its namespace, or the one that the guest starts.
    pub fn agent(&self, program: &Path, host: &LabHost) -> AgentCommand {
        self.in_guest(&host.name, &host.name).unwrap_or_else(|| AgentCommand::on_lab_host(program, host))
    }

    pub fn machine_agent(&self, program: &Path, host: &str) -> AgentCommand {
        let argv = [program.to_string_lossy().into_owned(), "agent".to_owned()];
        self.in_guest(host, MACHINE).unwrap_or_else(|| AgentCommand::of(&argv))
    }

    fn in_guest(&self, host: &str, agent: &str) -> Option<AgentCommand> {
        let guest = self.record().guest_of(host)?;
        Some(AgentCommand::at_socket(agent_socket(&guest.folder, agent), patience(guest.mode)))
    }
}

/// Refuses guests that cannot be one lab. [`GuestSpec::check`] refuses what one guest cannot be.
pub fn check_guests(specs: &[GuestSpec]) -> Result<(), LabError> {
    if specs.len() > 2 {
        return LabError::refused(format!("a wire joins two guests, and {} were named: leave some out", specs.len()));
    }
    if specs.len() == 2 && specs.iter().any(|spec| spec.mode == GuestMode::Icount) {
        let remedy = "add --mode tcg, or --mode kvm";
        return LabError::refused(format!("in mode icount two guests have clocks that are not related: {remedy}"));
    }
    if specs.len() == 2 && specs.iter().any(|spec| spec.nic != GuestNic::Veth) {
        return LabError::refused("two guests are joined by a wire of its own kind of NIC (virtio): leave --nic out");
    }
    specs.iter().try_for_each(|spec| Ok(spec.check()?))
}

/// Boots a lab of guests and keeps it up until `stop` is raised: the life of its owner, a process of its own. `ready` is
/// called once it is up; false gives it up. Nothing stays of what did not come up; a guest that ended is in the record.
pub fn hold(
    registry: &Registry,
    name: &str,
    specs: &[GuestSpec],
    program: &Program,
    stop: &AtomicBool,
    note: &mut dyn FnMut(&str),
    ready: &mut dyn FnMut(&LabRecord) -> bool,
) -> Result<(), LabError> {
    check_name(name)?;
    check_guests(specs)?;
    let mut record = planned(name);
    {
        let lock = registry.lock()?;
        remove_stale(registry, &lock)?;
        refuse_existing(registry, name)?;
        registry.put(&record)?;
    }
    let booted = boot_all(&mut record, specs, program, stop, note).and_then(|held| {
        let _lock = registry.lock()?;
        registry.put(&record)?;
        Ok(held)
    });
    let mut held = match booted {
        Ok(held) if ready(&record) => held,
        given_up => {
            let _lock = registry.lock()?;
            registry.forget(name)?;
            return given_up.map(drop);
        }
    };
    match held.serve(stop) {
        Ok(()) => Ok(()),
        Err(error) => {
            record.ended = Some(error.to_string());
            let _lock = registry.lock()?;
            registry.put(&record)?;
            thread::sleep(LAST_LOOK);
            Err(error)
        }
    }
}

/// Guests that are up, and the folder with the ends of their wire.
struct RunningGuests {
    guests: Vec<Guest>,
    /// Of each guest. They are there before the lab is up.
    listeners: Vec<RequestListener>,
    _wire: Option<RunFolder>,
}

fn boot_all(
    record: &mut LabRecord,
    specs: &[GuestSpec],
    program: &Program,
    stop: &AtomicBool,
    note: &mut dyn FnMut(&str),
) -> Result<RunningGuests, LabError> {
    let cache = Cache::usual()?;
    let wire = if specs.len() > 1 { Some(RunFolder::make(&program.path)?) } else { None };
    let (mut guests, mut listeners) = (Vec::new(), Vec::new());
    for (number, spec) in (0_u8..).zip(specs) {
        let joined = wire.as_ref().map(|folder| wire::joined(spec, number, folder.path()));
        let guest = Guest::boot(joined.as_ref().unwrap_or(spec), program, &cache, stop, note)?;
        record.add(spec, &guest);
        listeners.push(guest.listen()?);
        guests.push(guest);
    }
    Ok(RunningGuests { guests, listeners, _wire: wire })
}

impl RunningGuests {
    /// Until `stop` is raised, or one of them ends.
    fn serve(&mut self, stop: &AtomicBool) -> Result<(), LabError> {
        let over = AtomicBool::new(false);
        let stopped = || over.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed);
        let serve = &|guest: &mut Guest, listener| {
            let ended = guest.serve(listener, &stopped);
            over.store(true, Ordering::Relaxed);
            ended
        };
        thread::scope(|scope| {
            let all = self.guests.iter_mut().zip(self.listeners.drain(..));
            let serving: Vec<_> = all.map(|(guest, listener)| scope.spawn(move || serve(guest, listener))).collect();
            let broke = || GuestError::Failed("a thread of the lab's holder broke".to_owned());
            let ends: Vec<_> = serving.into_iter().map(|end| end.join().unwrap_or_else(|_| Err(broke()))).collect();
            ends.into_iter().collect::<Result<(), GuestError>>()
        })?;
        Ok(())
    }
}

/// Runs a program on a guest's host; returns a shell's status. `stop` ends it; `output`'s flag: standard error.
pub fn exec_in_guest(
    guest: &GuestRecord,
    host: &str,
    argv: &[String],
    stop: &AtomicBool,
    output: &mut dyn FnMut(bool, &[u8]),
) -> Result<i32, LabError> {
    let job = Job { host: Some(host), argv, limit: None, stop, asks: true };
    Ok(run_at(&guest.folder, &job, output)?)
}

/// Keeps a second campaign off the guests of a lab as long as the file is open: an agent serves one.
pub(crate) fn take(record: &LabRecord) -> Result<Option<File>, LabError> {
    let Some(guest) = record.guests.first() else { return Ok(None) };
    let path = guest.folder.join("used");
    let file = File::create(&path).map_err(|error| LabError::Failed(format!("{}: {error}", path.display())))?;
    if file.try_lock().is_err() {
        let remedy = "wait for its end, or make a lab of another name";
        return LabError::refused(format!("lab '{}' is in use by another campaign: {remedy}", record.name));
    }
    Ok(Some(file))
}

/// Ends the process that holds a lab of guests. The registry must not be locked: a holder may be about to write.
pub(crate) fn end_holder(record: &LabRecord) -> Result<(), LabError> {
    for (signal, patience) in ENDINGS {
        if record.owner.is_gone() {
            return Ok(());
        }
        let Some(pid) = record.owner.reachable() else {
            return LabError::left("the holder", &record.name, "it is in another PID namespace: run the command there");
        };
        task::send_signal(pid, signal)?;
        let until = Instant::now() + patience;
        while !record.owner.is_gone() && Instant::now() < until {
            thread::sleep(LOOK);
        }
    }
    if record.owner.is_gone() { Ok(()) } else { LabError::left("the holder", &record.name, "it does not end") }
}

/// Removes what guests leave whose holder was killed.
pub(crate) fn remove_folders(record: &LabRecord) {
    record.guests.iter().for_each(|guest| remove_folder(&guest.folder));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_that_cannot_share_a_wire_are_refused() {
        let spec = |mode| GuestSpec { mode, ..GuestSpec::new("debian-6.1") };
        let said = |specs: &[GuestSpec]| check_guests(specs).unwrap_err().to_string();
        let two = said(&[spec(GuestMode::Tcg), spec(GuestMode::Icount)]);
        assert_eq!(two, "in mode icount two guests have clocks that are not related: add --mode tcg, or --mode kvm");
        let igb = GuestSpec { nic: GuestNic::Igb, ..spec(GuestMode::Tcg) };
        assert!(said(&[igb, spec(GuestMode::Tcg)]).ends_with("leave --nic out"));
        assert!(said(&vec![spec(GuestMode::Tcg); 3]).starts_with("a wire joins two guests, and 3 were named"));
    }
}
