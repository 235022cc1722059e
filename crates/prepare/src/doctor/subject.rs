//! The machine under examination: its files, its tasks, its snapshot. Reads only, and never fails: what cannot be read
//! is a reason to skip a check.

use super::document::{Scope, ScopeOrigin, SkipKind};
use super::parse::{self, Mount, Row};
use super::snapshot::Snapshot;
use host::knob::Machine;
use host::tasks::{Stat, parse_stat};
use host::undo::StateDir;
use model::{CpuList, MachineFacts, NicFacts};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::Path;

/// The longest file that is read. /proc/interrupts of a large server has a few MiB.
const MOST_BYTES: u64 = 32 << 20;
/// Why a check is not made.
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

/// A thread, as files show it.
#[derive(Debug, Clone, Default)]
pub(super) struct Task {
    pub(super) pid: i32,
    pub(super) tid: i32,
    pub(super) stat: Stat,
    /// Cpus_allowed_list.
    pub(super) cpus: CpuList,
    /// VmLck in kB; the process's.
    pub(super) locked_kb: Option<u64>,
}

impl Task {
    pub(super) fn name(&self) -> &str {
        &self.stat.name
    }

    pub(super) fn is_kernel(&self) -> bool {
        self.stat.is_kernel()
    }

    pub(super) fn is_fixed(&self) -> bool {
        self.stat.is_fixed()
    }

    /// SCHED_FIFO, SCHED_RR or SCHED_DEADLINE.
    pub(super) fn is_real_time(&self) -> bool {
        self.stat.is_real_time()
    }

    /// The policy in words.
    pub(super) fn policy(&self) -> String {
        match self.stat.policy {
            0 => "other".to_owned(),
            1 => format!("fifo:{}", self.stat.priority),
            2 => format!("rr:{}", self.stat.priority),
            3 => "batch".to_owned(),
            5 => "idle".to_owned(),
            6 => "deadline".to_owned(),
            number => format!("policy {number}"),
        }
    }
}

/// An interrupt.
#[derive(Debug, Clone, Default)]
pub(super) struct Irq {
    pub(super) number: u32,
    /// Who asked for it.
    pub(super) action: String,
    pub(super) asked: CpuList,
    pub(super) effective: Option<CpuList>,
    /// Whether its affinity may be written at all.
    pub(super) managed: bool,
    /// How often it came, by CPU.
    pub(super) counts: BTreeMap<u32, u64>,
}

impl Irq {
    pub(super) fn total(&self) -> u64 {
        self.counts.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The CPUs that it goes to.
    pub(super) fn cpus(&self) -> &CpuList {
        self.effective.as_ref().filter(|cpus| !cpus.is_empty()).unwrap_or(&self.asked)
    }

    /// The file that tells so.
    pub(super) fn path(&self) -> String {
        let file = if self.effective.as_ref().is_some_and(|cpus| !cpus.is_empty()) { "effective" } else { "smp" };
        format!("/proc/irq/{}/{file}_affinity_list", self.number)
    }

    /// The file that asks for it.
    pub(super) fn asked_path(&self) -> String {
        format!("/proc/irq/{}/smp_affinity_list", self.number)
    }
}

/// What the checks look at.
pub(super) struct Subject<'a> {
    machine: &'a Machine,
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

    /// A file's content, trimmed.
    pub(super) fn text(&self, path: &str) -> Result<String, Skip> {
        text(self.machine, path).map_err(|error| self.unreadable(path, &error))
    }

    /// A file's content where it is there and readable.
    pub(super) fn maybe(&self, path: &str) -> Option<String> {
        text(self.machine, path).ok()
    }

    pub(super) fn number(&self, path: &str) -> Result<i64, Skip> {
        let text = self.text(path)?;
        text.parse().map_err(|_| Skip::not_understood(path, "number", &text))
    }

    pub(super) fn list(&self, path: &str) -> Result<CpuList, Skip> {
        let text = self.text(path)?;
        // The kernel prints this where a list was never made.
        if text == "(null)" {
            return Ok(CpuList::default());
        }
        text.parse().map_err(|_| Skip::not_understood(path, "CPU list", &text))
    }

    pub(super) fn mask(&self, path: &str) -> Result<CpuList, Skip> {
        let text = self.text(path)?;
        CpuList::from_mask(&text).ok_or_else(|| Skip::not_understood(path, "CPU mask", &text))
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.machine.path(Path::new(path)).exists()
    }

    /// Names in a folder, sorted; those that are numbers by number.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        names(self.machine, path)
    }

    /// Whether nobody may write a file, not even its owner.
    pub(super) fn is_read_only(&self, path: &str) -> bool {
        std::fs::metadata(self.machine.path(Path::new(path))).is_ok_and(|meta| meta.permissions().readonly())
    }

    pub(super) fn bytes(&self, path: &str, most: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = std::fs::File::open(self.machine.path(Path::new(path))).ok()?;
        file.take(most).read_to_end(&mut bytes).ok()?;
        Some(bytes)
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
        self.maybe("/sys/kernel/security/lockdown").map(|text| parse::chosen(&text).to_owned())
    }

    /// The CPUs to measure on.
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

    /// Whether CPUs to measure on are known.
    pub(super) fn is_scoped(&self) -> bool {
        !self.scope.cpus.is_empty()
    }

    /// Whether a hypervisor is below.
    pub(super) fn is_guest(&self) -> bool {
        self.facts.virtualisation.as_deref().is_some_and(|name| name != "none")
    }

    pub(super) fn release(&self) -> Option<(u32, u32)> {
        parse::release(self.facts.kernel_release.as_deref()?)
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
            nic.link != Some(false) && self.exists(&format!("/sys/class/net/{}/device", plain(&nic.name)))
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
        self.tasks.get_or_init(|| self.read_tasks())
    }

    /// The first thread with this name.
    pub(super) fn running(&self, name: &str) -> Option<&Task> {
        // The kernel keeps 15 bytes of a name.
        let cut: String = name.chars().take(15).collect();
        self.tasks().iter().find(|task| task.name() == cut && !task.is_kernel())
    }

    fn read_tasks(&self) -> Vec<Task> {
        let own = if self.machine.root() == Path::new("/") { i32::try_from(std::process::id()).ok() } else { None };
        let numbers =
            |path: &str| -> Vec<i32> { self.names(path).iter().filter_map(|name| name.parse().ok()).collect() };
        let mut found = Vec::new();
        for pid in numbers("/proc").into_iter().filter(|pid| Some(*pid) != own) {
            let mut threads = numbers(&format!("/proc/{pid}/task"));
            if threads.is_empty() {
                threads.push(pid);
            }
            for tid in threads {
                let folder = format!("/proc/{pid}/task/{tid}");
                let folder = if self.exists(&folder) { folder } else { format!("/proc/{pid}") };
                // It may have ended meanwhile.
                let Some(stat) = self.maybe(&format!("{folder}/stat")).and_then(|text| parse_stat(&text)) else {
                    continue;
                };
                let Some(status) = self.maybe(&format!("{folder}/status")) else { continue };
                let Some(cpus) = parse::field(&status, "Cpus_allowed_list").and_then(|list| list.parse().ok()) else {
                    continue;
                };
                let locked = parse::field(&status, "VmLck").and_then(|text| text.split(' ').next()?.parse().ok());
                found.push(Task { pid, tid, stat, cpus, locked_kb: locked });
            }
        }
        found
    }

    /// Interrupts that have an affinity, with their counts.
    pub(super) fn irqs(&self) -> &[Irq] {
        self.irqs.get_or_init(|| {
            let rows = self.interrupts();
            let numbers: Vec<u32> = self.names("/proc/irq").iter().filter_map(|name| name.parse().ok()).collect();
            let found = numbers.into_iter().filter_map(|number| {
                let path = format!("/proc/irq/{number}/smp_affinity_list");
                let asked = self.list(&path).ok()?;
                let row = rows.get(&number.to_string()).cloned().unwrap_or_default();
                let action = self
                    .maybe(&format!("/sys/kernel/irq/{number}/actions"))
                    .filter(|action| !action.is_empty())
                    .unwrap_or_else(|| row.what.split(' ').next_back().unwrap_or_default().to_owned());
                Some(Irq {
                    number,
                    action,
                    asked,
                    effective: self.list(&format!("/proc/irq/{number}/effective_affinity_list")).ok(),
                    managed: self.is_read_only(&path),
                    counts: row.counts,
                })
            });
            found.collect()
        })
    }

    fn interrupts(&self) -> BTreeMap<String, Row> {
        self.maybe("/proc/interrupts").map(|text| parse::interrupts(&text)).unwrap_or_default()
    }

    /// The interrupts of a device: its MSI vectors, those of the device it hangs on, and its old interrupt line.
    pub(super) fn irqs_of(&self, nic: &str) -> Vec<&Irq> {
        let device = format!("/sys/class/net/{}/device", plain(nic));
        let mut numbers: Vec<u32> = [format!("{device}/msi_irqs"), format!("{device}/../msi_irqs")]
            .iter()
            .flat_map(|folder| self.names(folder))
            .filter_map(|name| name.parse().ok())
            .collect();
        if numbers.is_empty() {
            numbers.extend(self.maybe(&format!("{device}/irq")).and_then(|text| text.parse::<u32>().ok()));
        }
        numbers.extend(self.snapshot.devices.get(nic).map(|device| device.irqs.as_slice()).unwrap_or_default());
        self.irqs().iter().filter(|irq| numbers.contains(&irq.number)).collect()
    }

    pub(super) fn mounts(&self) -> &[Mount] {
        self.mounts.get_or_init(|| self.maybe("/proc/mounts").map(|text| parse::mounts(&text)).unwrap_or_default())
    }

    /// Where the unified control groups are mounted.
    pub(super) fn unified(&self) -> Option<&str> {
        self.mounts().iter().find(|mount| mount.kind == "cgroup2").map(|mount| mount.folder.as_str())
    }

    /// Where a controller of version 1 is mounted.
    pub(super) fn version1(&self, controller: &str) -> Option<&str> {
        let has = |mount: &&Mount| {
            (mount.kind == "cgroup" && mount.options.iter().any(|option| option == controller))
                || (mount.kind == controller)
        };
        self.mounts().iter().find(has).map(|mount| mount.folder.as_str())
    }

    /// Whether the cpuset controller is in the unified hierarchy.
    pub(super) fn cpuset_is_unified(&self) -> bool {
        let Some(folder) = self.unified() else { return false };
        self.maybe(&format!("{folder}/cgroup.controllers"))
            .is_some_and(|text| text.split_ascii_whitespace().any(|word| word == "cpuset"))
    }

    /// The CPUs that isolated partitions hold.
    pub(super) fn partitioned(&self) -> CpuList {
        let Some(folder) = self.unified() else { return CpuList::default() };
        self.list(&format!("{folder}/cpuset.cpus.isolated")).unwrap_or_default()
    }

    /// The CPUs that RedHawk's own shield keeps free of processes, or of interrupts.
    pub(super) fn redhawk(&self, what: &str) -> CpuList {
        self.mask(&format!("/proc/shield/{what}")).unwrap_or_default()
    }
}

/// Which CPUs an examination is about.
pub(super) fn scope(machine: &Machine, asked: &CpuList) -> (CpuList, ScopeOrigin) {
    if !asked.is_empty() {
        return (asked.clone(), ScopeOrigin::Asked);
    }
    let read = |path: &str| text(machine, path).ok();
    let state = if machine.root() == Path::new("/") {
        StateDir::usual()
    } else {
        let boot = read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        StateDir::at(machine.path(Path::new("/run/windhover"))).in_boot(&boot)
    };
    let shield = host::shield::current(&state).map(|shield| shield.spec.processes).filter(|cpus| !cpus.is_empty());
    if let Some(cpus) = shield {
        return (cpus, ScopeOrigin::Shield);
    }
    let list = |path: &str| read(path).and_then(|text| text.parse::<CpuList>().ok()).unwrap_or_default();
    let unified = parse::mounts(&read("/proc/mounts").unwrap_or_default());
    let unified = unified.iter().find(|mount| mount.kind == "cgroup2").map(|mount| mount.folder.as_str());
    let partition = unified.map(|folder| list(&format!("{folder}/cpuset.cpus.isolated"))).unwrap_or_default();
    let redhawk = read("/proc/shield/procs").and_then(|text| CpuList::from_mask(&text)).unwrap_or_default();
    let isolated: CpuList =
        list("/sys/devices/system/cpu/isolated").iter().chain(partition.iter()).chain(redhawk.iter()).collect();
    if isolated.is_empty() { (isolated, ScopeOrigin::None) } else { (isolated, ScopeOrigin::Isolated) }
}

/// A device's name as one step of a path.
pub(super) fn plain(name: &str) -> &str {
    if name.is_empty() || name.contains('/') || name == "." || name == ".." { "lo" } else { name }
}

/// A file's content, trimmed. What is no text becomes replacement characters.
pub(super) fn text(machine: &Machine, path: &str) -> io::Result<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(machine.path(Path::new(path)))?.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned())
}

pub(super) fn names(machine: &Machine, path: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(machine.path(Path::new(path))) else { return Vec::new() };
    let mut names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    names
}
