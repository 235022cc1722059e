//! The examined machine: files, tasks, snapshot. Reading never fails: what cannot be read is a reason to skip a check.

use super::check::{Answer, Observation, note, ok, warning};
use super::document::{Scope, ScopeOrigin, SkipKind};
use super::snapshot::Snapshot;
use host::knob::{Form, Machine};
use host::tasks::{Mount, Task, parse_mounts};
use host::undo::StateDir;
use model::{CpuList, MachineFacts, NicFacts};
use std::cell::OnceCell;
use std::io::{self, Read as _};
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Skip {
    pub(super) kind: SkipKind,
    pub(super) reason: String,
}

impl Skip {
    pub(super) fn not_here(reason: impl Into<String>) -> Self {
        Self { kind: SkipKind::NotHere, reason: reason.into() }
    }

    pub(super) fn not_asked(reason: impl Into<String>) -> Self {
        Self { kind: SkipKind::NotAsked, reason: reason.into() }
    }

    fn not_understood(path: &str, what: &str, text: &str) -> Self {
        let shown: String = text.chars().take(40).collect();
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        Self { kind: SkipKind::NotUnderstood, reason: format!("{path} holds no {what}: '{shown}'") }
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Irq {
    pub(super) number: u32,
    /// Who asked for it.
    pub(super) action: String,
    pub(super) asked: CpuList,
    pub(super) effective: Option<CpuList>,
    /// Whether its affinity may be written at all.
    pub(super) managed: bool,
    pub(super) total: u64,
}

impl Irq {
    pub(super) fn cpus(&self) -> &CpuList {
        self.effective.as_ref().filter(|cpus| !cpus.is_empty()).unwrap_or(&self.asked)
    }

    pub(super) fn path(&self) -> String {
        let file = if self.effective.as_ref().is_some_and(|cpus| !cpus.is_empty()) { "effective" } else { "smp" };
        format!("/proc/irq/{}/{file}_affinity_list", self.number)
    }

    pub(super) fn asked_path(&self) -> String {
        format!("/proc/irq/{}/smp_affinity_list", self.number)
    }
}

pub(super) struct Subject<'a> {
    pub(super) machine: &'a Machine,
    pub(super) scope: &'a Scope,
    pub(super) facts: &'a MachineFacts,
    pub(super) snapshot: &'a Snapshot,
    pub(super) variants: Vec<String>,
    tasks: OnceCell<Vec<Task>>,
    irqs: OnceCell<Vec<Irq>>,
    mounts: OnceCell<Vec<Mount>>,
}

impl<'a> Subject<'a> {
    pub(super) fn new(
        machine: &'a Machine,
        scope: &'a Scope,
        facts: &'a MachineFacts,
        snapshot: &'a Snapshot,
        variants: Vec<String>,
    ) -> Self {
        let (tasks, irqs, mounts) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Self { machine, scope, facts, snapshot, variants, tasks, irqs, mounts }
    }

    pub(super) fn text(&self, path: &str) -> Result<String, Skip> {
        self.machine.trimmed(path).map_err(|error| self.unreadable(path, &error))
    }

    pub(super) fn maybe(&self, path: &str) -> Option<String> {
        self.machine.trimmed(path).ok()
    }

    pub(super) fn number(&self, path: &str) -> Result<i64, Skip> {
        let text = self.text(path)?;
        text.parse().map_err(|_| Skip::not_understood(path, "number", &text))
    }

    pub(super) fn list(&self, path: &str) -> Result<CpuList, Skip> {
        let text = self.text(path)?;
        self.machine.cpu_list(path).ok_or_else(|| Skip::not_understood(path, "CPU list", &text))
    }

    pub(super) fn mask(&self, path: &str) -> Result<CpuList, Skip> {
        let text = self.text(path)?;
        CpuList::from_mask(&text).ok_or_else(|| Skip::not_understood(path, "CPU mask", &text))
    }

    pub(super) fn bytes<const N: usize>(&self, path: &str) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        std::fs::File::open(self.machine.path(Path::new(path))).ok()?.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    pub(super) fn names(&self, path: &str) -> Vec<String> {
        self.machine.names(path).unwrap_or_default()
    }

    fn unreadable(&self, path: &str, error: &io::Error) -> Skip {
        let locked = self.lockdown().filter(|mode| mode != "none");
        let hidden = [("/sys/kernel/debug/", "debugfs"), ("/sys/kernel/security/", "securityfs")].into_iter().find(
            |(folder, kind)| {
                path.starts_with(folder) && !self.mounts().is_empty() && !self.mounts().iter().any(|m| m.kind == *kind)
            },
        );
        match (error.kind(), locked) {
            (io::ErrorKind::NotFound, _) if hidden.is_some() => {
                let kind = hidden.map(|(_, kind)| kind).unwrap_or_default();
                Skip { kind: SkipKind::Denied, reason: format!("{kind} is not mounted: {path} cannot be seen") }
            }
            (io::ErrorKind::NotFound | io::ErrorKind::NotADirectory, _) => Skip::not_here(format!("no {path} here")),
            (_, Some(mode)) if path.starts_with("/sys/kernel/debug") => Skip {
                kind: SkipKind::LockedDown,
                reason: format!("the kernel is locked down ({mode}): {path} cannot be read"),
            },
            _ => Skip { kind: SkipKind::Denied, reason: format!("{path} cannot be read: {error}") },
        }
    }

    /// The lockdown in force: `none`, `integrity` or `confidentiality`.
    pub(super) fn lockdown(&self) -> Option<String> {
        self.maybe("/sys/kernel/security/lockdown").map(|text| Form::Choice.value(&text))
    }

    pub(super) fn cpus(&self) -> Result<&CpuList, Skip> {
        if self.scope.cpus.is_empty() {
            return Err(Skip::not_asked("needs the CPUs to measure on: --cpus LIST"));
        }
        Ok(&self.scope.cpus)
    }

    /// The CPUs to measure on, or all that are online.
    pub(super) fn cpus_or_all(&self) -> CpuList {
        if self.scope.cpus.is_empty() { self.online() } else { self.scope.cpus.clone() }
    }

    pub(super) fn online(&self) -> CpuList {
        self.list("/sys/devices/system/cpu/online").unwrap_or_default()
    }

    pub(super) fn is_scoped(&self) -> bool {
        !self.scope.cpus.is_empty()
    }

    pub(super) fn is_guest(&self) -> bool {
        self.facts.virtualisation.as_deref().is_some_and(|name| name != "none")
    }

    pub(super) fn command_line(&self) -> &str {
        self.facts.command_line.as_deref().unwrap_or_default()
    }

    /// The devices in question: the named one, else those on a bus that have a link.
    pub(super) fn nics(&self) -> Result<Vec<&NicFacts>, Skip> {
        let all = &self.snapshot.host.nics;
        if let Some(name) = &self.scope.nic {
            let found: Vec<&NicFacts> = all.iter().filter(|nic| nic.name == *name).collect();
            if found.is_empty() {
                return Err(Skip::not_here(format!("no network device {name} in this network namespace")));
            }
            return Ok(found);
        }
        let real = |nic: &&NicFacts| {
            nic.link != Some(false) && self.machine.exists(format!("/sys/class/net/{}/device", plain(&nic.name)))
        };
        let found: Vec<&NicFacts> = all.iter().filter(real).collect();
        if found.is_empty() {
            Err(Skip::not_here("no network device with hardware and a link here"))
        } else {
            Ok(found)
        }
    }

    /// All threads but those of this process.
    pub(super) fn tasks(&self) -> &[Task] {
        self.tasks.get_or_init(|| {
            let own = if self.machine.is_running() { i32::try_from(std::process::id()).ok() } else { None };
            let mut tasks = host::tasks::list(self.machine);
            tasks.retain(|task| Some(task.process) != own && !task.allowed.is_empty());
            tasks
        })
    }

    pub(super) fn processes(&self) -> Result<&[Task], Skip> {
        if self.tasks().is_empty() { Err(Skip::not_here("/proc shows no processes")) } else { Ok(self.tasks()) }
    }

    pub(super) fn running(&self, name: &str) -> Option<&Task> {
        // The kernel keeps 15 bytes of a name.
        let cut: String = name.chars().take(15).collect();
        self.tasks().iter().find(|task| task.key.name == cut && !task.kernel)
    }

    /// A warning where CPUs to measure on are known, else a note.
    pub(super) fn scoped(&self, text: impl Into<String>) -> Observation {
        if self.is_scoped() { warning(text) } else { note(text) }
    }

    /// Whether a number in a file is as it should be: then `fine` is the answer, else `other`, both with what was read.
    pub(super) fn judge(
        &self,
        path: &str,
        is_good: impl Fn(i64) -> bool,
        fine: impl Into<String>,
        other: Observation,
    ) -> Answer {
        let value = self.number(path)?;
        Ok(vec![if is_good(value) { ok(fine) } else { other }.read(path, value)])
    }

    pub(super) fn irqs(&self) -> &[Irq] {
        self.irqs.get_or_init(|| {
            let table = self.maybe("/proc/interrupts").map(|text| host::irqs::Row::table(&text)).unwrap_or_default();
            let irq = |irq: host::irqs::Irq| {
                let row = table.get(&irq.number.to_string()).cloned().unwrap_or_default();
                let last_word = || row.what.split(' ').next_back().unwrap_or_default().to_owned();
                Irq {
                    number: irq.number,
                    action: if irq.actions.is_empty() { last_word() } else { irq.actions.join(",") },
                    asked: irq.cpus.unwrap_or_default(),
                    effective: irq.effective,
                    managed: !irq.movable,
                    total: row.counts.values().fold(0, |sum, count| sum.saturating_add(*count)),
                }
            };
            host::irqs::list(self.machine).into_iter().map(irq).collect()
        })
    }

    pub(super) fn irqs_of(&self, nic: &str) -> Vec<&Irq> {
        let mut numbers = host::nic::irq_numbers(self.machine, plain(nic), &[]);
        numbers.extend(self.snapshot.devices.get(nic).map(|device| device.irqs.as_slice()).unwrap_or_default());
        self.irqs().iter().filter(|irq| numbers.contains(&irq.number)).collect()
    }

    pub(super) fn mounts(&self) -> &[Mount] {
        self.mounts.get_or_init(|| parse_mounts(&self.maybe("/proc/mounts").unwrap_or_default()))
    }

    pub(super) fn unified(&self) -> Option<&str> {
        unified(self.mounts())
    }

    pub(super) fn version1(&self, controller: &str) -> Option<&str> {
        let has = |mount: &&Mount| {
            (mount.kind == "cgroup" && mount.options.iter().any(|option| option == controller))
                || (mount.kind == controller)
        };
        self.mounts().iter().find(has)?.path.to_str()
    }

    pub(super) fn cpuset_is_unified(&self) -> bool {
        let Some(folder) = self.unified() else { return false };
        self.maybe(&format!("{folder}/cgroup.controllers"))
            .is_some_and(|text| text.split_ascii_whitespace().any(|word| word == "cpuset"))
    }

    pub(super) fn partitioned(&self) -> CpuList {
        let Some(folder) = self.unified() else { return CpuList::default() };
        self.list(&format!("{folder}/cpuset.cpus.isolated")).unwrap_or_default()
    }

    /// The CPUs that RedHawk's own shield keeps free of processes, or of interrupts.
    pub(super) fn redhawk(&self, what: &str) -> CpuList {
        self.mask(&format!("/proc/shield/{what}")).unwrap_or_default()
    }
}

pub(super) fn scope(machine: &Machine, asked: &CpuList) -> (CpuList, ScopeOrigin) {
    if !asked.is_empty() {
        return (asked.clone(), ScopeOrigin::Asked);
    }
    let read = |path: &str| machine.trimmed(path).ok();
    let state = if machine.is_running() {
        StateDir::usual()
    } else {
        let boot = read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        StateDir::at(machine.path(Path::new("/run/windhover"))).in_boot(&boot)
    };
    let shield = host::shield::current(&state).map(|shield| shield.spec.processes).filter(|cpus| !cpus.is_empty());
    if let Some(cpus) = shield {
        return (cpus, ScopeOrigin::Shield);
    }
    let list = |path: &str| machine.cpu_list(path).unwrap_or_default();
    let mounts = parse_mounts(&read("/proc/mounts").unwrap_or_default());
    let partition = unified(&mounts).map(|folder| list(&format!("{folder}/cpuset.cpus.isolated"))).unwrap_or_default();
    let redhawk = read("/proc/shield/procs").and_then(|text| CpuList::from_mask(&text)).unwrap_or_default();
    let isolated = list("/sys/devices/system/cpu/isolated").union(&partition).union(&redhawk);
    if isolated.is_empty() { (isolated, ScopeOrigin::None) } else { (isolated, ScopeOrigin::Isolated) }
}

fn unified(mounts: &[Mount]) -> Option<&str> {
    mounts.iter().find(|mount| mount.kind == "cgroup2")?.path.to_str()
}

/// A device's name as one step of a path.
pub(super) fn plain(name: &str) -> &str {
    if name.is_empty() || name.contains('/') || name == "." || name == ".." { "lo" } else { name }
}
