//! The tasks of the system: names, starts, CPUs and control groups of all threads, from /proc.
//!
//! Reads only. The parsers are pure: a task may call itself `a) R 1 (`.

use crate::knob::{Machine, TaskKey};
use model::CpuList;
use std::cmp::Ordering;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Flag of a kernel thread (include/linux/sched.h, PF_KTHREAD).
const KERNEL_THREAD: u64 = 0x0020_0000;
/// Flag of a thread whose CPUs user space may not change (PF_NO_SETAFFINITY).
const NO_SET_AFFINITY: u64 = 0x0400_0000;

/// A line of /proc/PID/stat (proc_pid_stat(5)).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stat {
    pub tid: i32,
    /// Name; it may hold any byte, also spaces and parentheses.
    pub name: String,
    /// State letter: `R`, `S`, `Z` …
    pub state: char,
    pub parent: i32,
    pub group: i32,
    /// Kernel flags (PF_*).
    pub flags: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// Start, in clock ticks since boot.
    pub started: u64,
    pub cpu: Option<u32>,
    /// Real-time priority; 0 without one.
    pub priority: u32,
    /// Number of its policy (SCHED_*).
    pub policy: u32,
}

impl Stat {
    pub fn is_kernel(&self) -> bool {
        self.flags & KERNEL_THREAD != 0
    }

    /// Whether the kernel forbids to change its CPUs (per-CPU kernel threads).
    pub fn is_fixed(&self) -> bool {
        self.flags & NO_SET_AFFINITY != 0
    }

    /// Whether it is in SCHED_FIFO, SCHED_RR or SCHED_DEADLINE.
    pub fn is_real_time(&self) -> bool {
        is_real_time(self.policy)
    }
}

/// A policy's number (SCHED_*) and priority in words: `fifo:50`.
pub(crate) fn policy_words(policy: u32, priority: u32) -> String {
    match policy {
        0 => "other".to_owned(),
        1 => format!("fifo:{priority}"),
        2 => format!("rr:{priority}"),
        3 => "batch".to_owned(),
        5 => "idle".to_owned(),
        6 => "deadline".to_owned(),
        number => format!("policy {number}"),
    }
}

/// SCHED_FIFO, SCHED_RR or SCHED_DEADLINE.
fn is_real_time(policy: u32) -> bool {
    matches!(policy, 1 | 2 | 6)
}

/// A line of /proc/PID/cgroup (cgroups(7)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupLine {
    /// Number of the hierarchy; 0 is version 2.
    pub hierarchy: u32,
    /// Controllers of the hierarchy, or `name=…`; empty for version 2.
    pub controllers: Vec<String>,
    /// The group, from the root of the hierarchy.
    pub path: String,
}

/// A line of /proc/PID/mounts (fstab(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    pub path: PathBuf,
    pub kind: String,
    pub options: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    pub key: TaskKey,
    pub process: i32,
    pub parent: i32,
    pub kernel: bool,
    /// Whether the kernel forbids to change its CPUs (per-CPU kernel threads).
    pub fixed: bool,
    /// The CPUs that it may run on; empty where /proc does not have them.
    pub allowed: CpuList,
    pub cpu: Option<u32>,
    /// Number of its policy (SCHED_*).
    pub policy: u32,
    /// Real-time priority; 0 without one.
    pub priority: u32,
    /// Its control groups, one a hierarchy.
    pub groups: Vec<GroupLine>,
}

impl Task {
    pub fn is_real_time(&self) -> bool {
        is_real_time(self.policy)
    }

    pub fn policy_words(&self) -> String {
        policy_words(self.policy, self.priority)
    }

    /// Whether it handles an interrupt (`irq/N-name`). It is never moved as a task: its CPUs follow its interrupt.
    pub fn handles_interrupt(&self) -> bool {
        self.kernel && self.key.name.starts_with("irq/")
    }

    /// Its group in the hierarchy of a controller of version 1 (`cpuset`), or of version 2 for `""`.
    pub fn group(&self, controller: &str) -> Option<&str> {
        let line = self.groups.iter().find(|line| match controller {
            "" => line.hierarchy == 0,
            name => line.hierarchy != 0 && line.controllers.iter().any(|known| known == name),
        });
        line.map(|line| line.path.as_str())
    }
}

/// Length of a clock tick of /proc, ns (USER_HZ, 100 a second on Linux).
const TICK_NS: i64 = 10_000_000;

/// How far this time namespace is ahead since boot, in ns: /proc adds it to starts (time_namespaces(7)).
fn boot_offset_ns(machine: &Machine) -> i64 {
    static HERE: OnceLock<i64> = OnceLock::new();
    let read = || parse_boot_offset_ns(&machine.text("/proc/self/timens_offsets").unwrap_or_default()).unwrap_or(0);
    if machine.is_running() { *HERE.get_or_init(read) } else { read() }
}

/// The offset of the clock since boot in ns, as /proc/PID/timens_offsets has it.
pub fn parse_boot_offset_ns(text: &str) -> Option<i64> {
    let line = text.lines().find_map(|line| line.strip_prefix("boottime"))?;
    let mut numbers = line.split_ascii_whitespace().map_while(|word| word.parse::<i64>().ok());
    let (seconds, ns) = (numbers.next()?, numbers.next()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

impl TaskKey {
    /// The key of a thread of the running system; `None` when there is none.
    pub fn of(tid: i32) -> Option<Self> {
        Self::of_at(&Machine::running(), tid)
    }

    /// The key of a thread; `None` when there is none, or only its remains (a zombie).
    pub fn of_at(machine: &Machine, tid: i32) -> Option<Self> {
        let stat = parse_stat(&machine.text(format!("/proc/{tid}/stat")).ok()?)?;
        let lives = stat.tid == tid && !matches!(stat.state, 'Z' | 'X' | 'x');
        lives.then(|| Self::shown(machine, stat))
    }

    /// The key of what /proc shows in this time namespace: without its offset, so that keys mean the same in all.
    fn shown(machine: &Machine, stat: Stat) -> Self {
        let ahead_ns = boot_offset_ns(machine);
        Self {
            tid: stat.tid,
            started: stat.started.saturating_add_signed(-ahead_ns.div_euclid(TICK_NS)),
            offset_part_ns: u32::try_from(ahead_ns.rem_euclid(TICK_NS)).unwrap_or(0),
            name: stat.name,
        }
    }

    /// Whether this very task still lives: not another one that got its number.
    pub fn lives(&self, machine: &Machine) -> bool {
        Self::of_at(machine, self.tid).is_some_and(|now| now.began_as_noted(self.started, self.offset_part_ns))
    }

    /// Whether it began at a start that was noted in the same time namespace.
    pub fn began(&self, started: u64) -> bool {
        self.started == started
    }

    /// Whether it began at a start that was noted in any time namespace, with [`Self::offset_part_ns`] there. The kernel adds
    /// the offset in ns and then cuts to ticks (do_task_stat in Linux's fs/proc/array.c), so the larger part may have carried
    /// the start into the next tick. With equal parts both are cut alike.
    pub fn began_as_noted(&self, started: u64, offset_part_ns: u32) -> bool {
        let carried = match self.offset_part_ns.cmp(&offset_part_ns) {
            Ordering::Equal => None,
            Ordering::Greater => self.started.checked_sub(started),
            Ordering::Less => started.checked_sub(self.started),
        };
        self.started == started || carried == Some(1)
    }
}

/// All threads, by process and thread id. Those that end meanwhile are left out.
pub fn list(machine: &Machine) -> Vec<Task> {
    let mut tasks = Vec::new();
    for process in ids(machine, "/proc") {
        let folder = format!("/proc/{process}/task");
        let threads = ids(machine, &folder);
        if threads.is_empty() {
            // Trees of files may show processes alone.
            tasks.extend(task(machine, "/proc", process, process));
        }
        tasks.extend(threads.into_iter().filter_map(|tid| task(machine, &folder, process, tid)));
    }
    tasks
}

/// Ids and names of all processes; the kernel cuts names at 15 bytes.
pub fn processes(machine: &Machine) -> impl Iterator<Item = (i32, String)> + '_ {
    let name = move |id: i32| Some((id, machine.trimmed(format!("/proc/{id}/comm")).ok()?));
    ids(machine, "/proc").into_iter().filter_map(name)
}

/// The lines of /proc/PID/stat of the kernel's threads whose names pass. Those that end meanwhile are left out.
pub(crate) fn kernel_threads(machine: &Machine, passes: impl Fn(&str) -> bool) -> impl Iterator<Item = Stat> {
    let named = processes(machine).filter(move |(_, name)| passes(name));
    let stat = |(id, _)| parse_stat(&machine.text(format!("/proc/{id}/stat")).ok()?);
    named.filter_map(stat).filter(Stat::is_kernel)
}

/// A thread by its id alone; `None` when it has ended.
pub fn of(machine: &Machine, tid: i32) -> Option<Task> {
    let status = machine.text(format!("/proc/{tid}/status")).ok()?;
    let process = status_field(&status, "Tgid")?.parse().ok()?;
    task(machine, "/proc", process, tid)
}

/// One thread of a process, by its folder; `None` when it has ended.
fn task(machine: &Machine, folder: &str, process: i32, tid: i32) -> Option<Task> {
    let stat = parse_stat(&machine.text(format!("{folder}/{tid}/stat")).ok()?)?;
    if stat.tid != tid || matches!(stat.state, 'Z' | 'X' | 'x') {
        return None;
    }
    let status = machine.text(format!("{folder}/{tid}/status")).unwrap_or_default();
    let groups = machine.text(format!("{folder}/{tid}/cgroup")).unwrap_or_default();
    let (kernel, fixed) = (stat.is_kernel(), stat.is_fixed());
    Some(Task {
        process,
        parent: stat.parent,
        kernel,
        fixed,
        allowed: parse_allowed(&status).unwrap_or_default(),
        cpu: stat.cpu,
        policy: stat.policy,
        priority: stat.priority,
        groups: parse_cgroup(&groups),
        key: TaskKey::shown(machine, stat),
    })
}

fn ids(machine: &Machine, path: &str) -> Vec<i32> {
    machine.numbers(path, "").into_iter().filter_map(|number| i32::try_from(number).ok()).collect()
}

/// Reads /proc/PID/stat. The name ends at the last parenthesis of the line: it may hold others.
pub fn parse_stat(text: &str) -> Option<Stat> {
    let (head, tail) = text.rsplit_once(") ")?;
    let (tid, name) = head.split_once(" (")?;
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    // Field numbers as in the manual page: the first one here is field 3.
    let field = |number: usize| fields.get(number - 3).copied();
    Some(Stat {
        tid: tid.trim().parse().ok()?,
        name: name.to_owned(),
        state: field(3)?.chars().next()?,
        parent: field(4)?.parse().ok()?,
        group: field(5)?.parse().ok()?,
        flags: field(9)?.parse().ok()?,
        minor_faults: field(10)?.parse().ok()?,
        major_faults: field(12)?.parse().ok()?,
        started: field(22)?.parse().ok()?,
        cpu: field(39).and_then(|text| text.parse().ok()),
        priority: field(40).and_then(|text| text.parse().ok()).unwrap_or(0),
        policy: field(41).and_then(|text| text.parse().ok()).unwrap_or(0),
    })
}

/// Reads /proc/PID/cgroup; lines that are none are left out.
pub fn parse_cgroup(text: &str) -> Vec<GroupLine> {
    let line = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let hierarchy = parts.next()?.parse().ok()?;
        let controllers = parts.next()?.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let path = parts.next().filter(|path| path.starts_with('/'))?.to_owned();
        Some(GroupLine { hierarchy, controllers, path })
    };
    text.lines().filter_map(line).collect()
}

/// The value of a line `Name:\tvalue`. A task's name has its newlines escaped, so no name can fake a line.
pub fn status_field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

/// Reads `Cpus_allowed_list` of /proc/PID/status.
pub fn parse_allowed(status: &str) -> Option<CpuList> {
    status_field(status, "Cpus_allowed_list")?.parse().ok()
}

/// Reads the effective capabilities of /proc/PID/status: one bit each (capabilities(7), linux/capability.h).
pub fn parse_capabilities(status: &str) -> Option<u64> {
    u64::from_str_radix(status_field(status, "CapEff")?, 16).ok()
}

pub fn parse_mounts(text: &str) -> Vec<Mount> {
    let line = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let path = PathBuf::from(unescape(words.next()?));
        let kind = words.next()?.to_owned();
        let options = words.next()?.split(',').map(str::to_owned).collect();
        Some(Mount { path, kind, options })
    };
    text.lines().filter_map(line).collect()
}

/// Turns `\040` and the like into the characters that they stand for.
pub(crate) fn unescape(word: &str) -> String {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let octal =
            (first == b'\\').then(|| after.get(..3)).flatten().and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAIL: &str = "S 1 20 20 0 -1 69238880 0 0 0 0 1 2 3 4 20 0 1 0 777 0 0 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 3 50 1 0 0 0";

    #[test]
    fn a_name_cannot_pose_as_fields() {
        for name in ["a) R 1 (", ") ) (", "x", "", "a b", "\u{fffd}", "1 (2) S 3"] {
            let stat = parse_stat(&format!("42 ({name}) {TAIL}\n")).unwrap();
            assert_eq!(stat.name, name);
            assert_eq!((stat.tid, stat.state, stat.parent, stat.started), (42, 'S', 1, 777));
            assert_eq!((stat.cpu, stat.priority, stat.policy), (Some(3), 50, 1));
        }
        assert_eq!(parse_stat("42 (x) S 1"), None);
        assert_eq!(parse_stat(""), None);
        assert_eq!(parse_stat(") "), None);
    }

    #[test]
    fn groups_may_have_colons_and_no_controllers() {
        let lines = parse_cgroup("9:name=systemd:/\n3:cpuset:/a:b\n2:cpu,cpuacct:/x y\n0::/s.slice\n:\nx::/\n1:a:b\n");
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[1].path, "/a:b");
        assert_eq!(lines[2].controllers, ["cpu", "cpuacct"]);
        assert_eq!((lines[3].hierarchy, lines[3].controllers.len()), (0, 0));
    }

    #[test]
    fn effective_capabilities_are_bits() {
        assert_eq!(parse_capabilities("Name:\tx\nCapEff:\t000001ffffffffff\n"), Some((1 << 41) - 1));
        assert_eq!(parse_capabilities("CapEff:\t0000000000000000\n"), Some(0));
        assert_eq!(parse_capabilities(""), None);
    }

    #[test]
    fn mounts_have_escapes() {
        let mounts = parse_mounts("cgroup /sys/fs/c\\040g\\134 cgroup rw,cpuset 0 0\nx\n");
        assert_eq!(mounts[0].path, PathBuf::from("/sys/fs/c g\\"));
        assert!(mounts[0].options.contains(&"cpuset".to_owned()));
    }

    /// 777 ticks and a half after boot, as namespaces show them whose offsets are no multiples of a tick.
    #[test]
    fn a_start_is_known_again_in_time_namespaces_with_any_offset() {
        const START_NS: i64 = 7_775_000_000;
        let shown = |offset_ns: i64| {
            let folder = tempfile::tempdir().unwrap();
            let tree = |path: &str, text: String| {
                let path = folder.path().join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            };
            let (seconds, ns) = (offset_ns.div_euclid(1_000_000_000), offset_ns.rem_euclid(1_000_000_000));
            tree(
                "proc/self/timens_offsets",
                format!("monotonic           0         0\nboottime {seconds:10} {ns:9}\n"),
            );
            let ticks = (START_NS + offset_ns).div_euclid(10_000_000);
            tree("proc/42/stat", format!("42 (a) S 1{} {ticks} 0\n", " 0".repeat(17)));
            TaskKey::of_at(&Machine::at(folder.path()), 42).unwrap()
        };
        let offsets = [0, 4_000_000, 5_000_000, 9_999_999, 15_000_000, -1, -5_000_001, 86_400_005_000_000];
        let keys = offsets.map(shown);
        let as_noted = |now: &TaskKey, noted: &TaskKey| now.began_as_noted(noted.started, noted.offset_part_ns);
        assert_eq!(keys.iter().map(|key| key.started - 777).collect::<Vec<_>>(), [0, 0, 1, 1, 1, 1, 0, 1]);
        for now in &keys {
            for noted in &keys {
                assert!(as_noted(now, noted), "{now:?} {noted:?}");
                // A task that began a tick earlier or later is another one; with unequal parts one of the two looks the same.
                let tasks = [noted.started - 1, noted.started + 1];
                let others = tasks.iter().filter(|&&started| now.began_as_noted(started, noted.offset_part_ns)).count();
                assert!(others <= usize::from(now.offset_part_ns != noted.offset_part_ns), "{now:?} {noted:?}");
            }
            for started in [now.started - 1, now.started + 1] {
                assert!(!now.began(started) && !now.began_as_noted(started, now.offset_part_ns), "{now:?}");
            }
        }
    }

    #[test]
    fn this_thread_is_listed() {
        let machine = Machine::running();
        let process = i32::try_from(std::process::id()).unwrap();
        let key = TaskKey::of(process).unwrap();
        assert!(key.lives(&machine));
        assert!(!TaskKey { started: key.started + 1, ..key.clone() }.lives(&machine));
        let task = list(&machine).into_iter().find(|task| task.key == key).unwrap();
        assert!(!task.kernel && task.process == process);
        assert!(!task.allowed.is_empty());
    }
}
