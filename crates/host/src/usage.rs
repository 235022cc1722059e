//! What a span of work cost the measuring thread, its process and its machine.
//!
//! Sources: getrusage(2) for faults, switches and CPU time; /proc/stat (proc(5), in units of 1/sysconf(_SC_CLK_TCK))
//! for the machine and the measuring CPU; /proc/thread-self/schedstat (Documentation/scheduler/sched-stats) for the
//! wait on the run queue; /proc/thread-self/sched for migrations. Nothing here may be called inside a measured loop
//! except [`Sampler::observe_cpu`].

use crate::knob::Machine;
use model::EndUsage;
use nix::sched::sched_getcpu;
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// CPU time of one line of /proc/stat, in clock ticks of user space (10 ms on nearly every machine).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuTicks {
    /// User time, niced or not; guests are part of it.
    pub user: u64,
    /// Kernel time outside interrupts.
    pub system: u64,
    pub idle: u64,
    /// Idle while a task waits for a disk.
    pub iowait: u64,
    pub irq: u64,
    pub softirq: u64,
    /// Taken by the hypervisor.
    pub steal: u64,
}

impl CpuTicks {
    pub fn total(&self) -> u64 {
        [self.user, self.system, self.idle, self.iowait, self.irq, self.softirq, self.steal]
            .into_iter()
            .fold(0, u64::saturating_add)
    }

    /// Column by column, 0 where a counter went backwards (iowait does).
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            idle: self.idle.saturating_sub(earlier.idle),
            iowait: self.iowait.saturating_sub(earlier.iowait),
            irq: self.irq.saturating_sub(earlier.irq),
            softirq: self.softirq.saturating_sub(earlier.softirq),
            steal: self.steal.saturating_sub(earlier.steal),
        }
    }
}

/// /proc/stat: the machine and, when asked for, one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcStat {
    pub machine: CpuTicks,
    /// Lines of single CPUs, which are the online ones.
    pub cpus: u32,
    /// The CPU asked for; absent when it has no line.
    pub cpu: Option<CpuTicks>,
}

/// Reads the text of /proc/stat. Columns that old kernels lack count 0.
pub fn parse_proc_stat(text: &str, cpu: Option<u32>) -> ProcStat {
    let mut found = ProcStat::default();
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("cpu") else { continue };
        let mut words = rest.split_ascii_whitespace();
        if rest.starts_with(' ') {
            found.machine = cpu_ticks(words);
        } else if let Some(Ok(number)) = words.next().map(str::parse::<u32>) {
            found.cpus = found.cpus.saturating_add(1);
            if cpu == Some(number) {
                found.cpu = Some(cpu_ticks(words));
            }
        }
    }
    found
}

fn cpu_ticks<'a>(mut words: impl Iterator<Item = &'a str>) -> CpuTicks {
    let mut next = || words.next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    let (user, nice, system, idle) = (next(), next(), next(), next());
    // guest and guest_nice follow and are already counted in user and nice.
    CpuTicks {
        user: user.saturating_add(nice),
        system,
        idle,
        iowait: next(),
        irq: next(),
        softirq: next(),
        steal: next(),
    }
}

/// Time run, time ready but not running, both in ns, and how often it got a CPU, from schedstat (sched-stats.rst).
pub fn parse_schedstat(text: &str) -> [Option<u64>; 3] {
    let mut words = text.split_ascii_whitespace().map_while(|word| word.parse().ok()).fuse();
    std::array::from_fn(|_| words.next())
}

/// Time ready but not running, in ns. `None` where the kernel does not count it: it then writes three zeros.
pub fn parse_schedstat_wait(text: &str) -> Option<u64> {
    let [ran, waited, _] = parse_schedstat(text);
    waited.filter(|_| ran > Some(0))
}

/// How long a thread was ready and had no CPU, for a measured loop: the file stays open, a look is one pread(2).
#[derive(Debug)]
pub struct RunQueueWait(Option<File>);

impl RunQueueWait {
    /// Of the calling thread, whoever reads it later.
    pub fn of_this_thread() -> Self {
        Self(File::open("/proc/thread-self/schedstat").ok())
    }

    /// Of another thread of this process.
    pub fn of(thread: i32) -> Self {
        Self(File::open(format!("/proc/self/task/{thread}/schedstat")).ok())
    }

    /// So far, in ns. `None` where the kernel does not count it.
    pub fn ns(&self) -> Option<u64> {
        // Three numbers of at most 20 digits.
        let mut text = [0_u8; 80];
        let read = self.0.as_ref()?.read_at(&mut text, 0).ok()?;
        parse_schedstat_wait(std::str::from_utf8(text.get(..read)?).ok()?)
    }
}

/// `se.nr_migrations` from the text of /proc/PID/sched.
pub fn parse_sched_migrations(text: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "se.nr_migrations").then(|| value.trim().parse().ok())?
    })
}

/// A /proc file opened once and read twice into the same memory.
struct Reread {
    file: Option<File>,
    text: Vec<u8>,
}

impl Reread {
    fn open(path: &str, capacity: usize) -> Self {
        Self { file: File::open(path).ok(), text: vec![0; capacity] }
    }

    fn read(&mut self) -> Option<&str> {
        let file = self.file.as_ref()?;
        let mut length = 0;
        loop {
            match file.read_at(&mut self.text[length..], length as u64) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
            if length == self.text.len() {
                break;
            }
        }
        // What does not fit is cut at the last whole line, so that no number is read short.
        let whole = self.text[..length].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        std::str::from_utf8(&self.text[..whole]).ok()
    }
}

/// What a figure of getrusage(2) grew by, 0 where the kernel does not tell.
fn spent(before: Option<Usage>, after: Option<Usage>, figure: impl Fn(&Usage) -> i64) -> u64 {
    let value = |usage: Option<Usage>| usage.and_then(|usage| u64::try_from(figure(&usage)).ok()).unwrap_or(0);
    value(after).saturating_sub(value(before))
}

/// CPU time in user space and in the kernel, in ns.
fn cpu_time_ns(before: Option<Usage>, after: Option<Usage>) -> (u64, u64) {
    let user = spent(before, after, |usage| usage.user_time().num_nanoseconds());
    (user, spent(before, after, |usage| usage.system_time().num_nanoseconds()))
}

struct State {
    cpu: Option<u32>,
    tick_ns: u64,
    stat: Reread,
    run_queue: RunQueueWait,
    sched: Reread,
    before: ProcStat,
    wait_before: Option<u64>,
    migrations_before: Option<u64>,
    ksoftirqd_before: Option<u64>,
    seen_cpu: Option<usize>,
    seen_moves: u64,
    started_ns: u64,
    process: Option<Usage>,
    thread: Option<Usage>,
}

/// Usage of the measuring thread. Take it last before the work, finish it first after it, on that thread.
pub struct Sampler(Box<State>);

impl Sampler {
    /// Starts a span of the calling thread. `cpu` is the CPU that it is pinned to, if it is.
    pub fn start(cpu: Option<u32>) -> Self {
        let machine_cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut state = Box::new(State {
            cpu,
            tick_ns: clock_tick_ns(),
            // Only the cpu lines are wanted, and they come first; 64 KiB hold those of 500 CPUs.
            stat: Reread::open("/proc/stat", 16_384 + 160 * machine_cpus.max(256)),
            run_queue: RunQueueWait::of_this_thread(),
            sched: Reread::open("/proc/thread-self/sched", 16_384),
            before: ProcStat::default(),
            wait_before: None,
            migrations_before: None,
            ksoftirqd_before: ksoftirqd_ns(),
            seen_cpu: None,
            seen_moves: 0,
            started_ns: 0,
            process: None,
            thread: None,
        });
        state.before = state.stat.read().map(|text| parse_proc_stat(text, cpu)).unwrap_or_default();
        state.migrations_before = state.sched.read().and_then(parse_sched_migrations);
        state.wait_before = state.run_queue.ns();
        state.seen_cpu = sched_getcpu().ok();
        state.process = getrusage(UsageWho::RUSAGE_SELF).ok();
        state.started_ns = clock::monotonic_ns();
        // The last act: whatever faults from here on belongs to the span.
        state.thread = getrusage(UsageWho::RUSAGE_THREAD).ok();
        Self(state)
    }

    /// Notes the present CPU (one vDSO call), at the borders of batches, where the kernel has no /proc/PID/sched.
    #[inline]
    pub fn observe_cpu(&mut self) {
        let now = sched_getcpu().ok();
        if now != self.0.seen_cpu {
            self.0.seen_cpu = now;
            self.0.seen_moves += 1;
        }
    }

    /// Ends the span. Call it on the thread that started it.
    pub fn finish(self) -> EndUsage {
        self.finish_with_own().0
    }

    /// As [`Sampler::finish`], with the thread's own CPU time in ns, to tell it from other tasks on its CPU.
    pub fn finish_with_own(mut self) -> (EndUsage, u64) {
        // The first act: reading /proc below may fault, and that is not the span's.
        let thread_after = getrusage(UsageWho::RUSAGE_THREAD).ok();
        let ended_ns = clock::monotonic_ns();
        let process_after = getrusage(UsageWho::RUSAGE_SELF).ok();
        self.observe_cpu();
        let state = &mut *self.0;
        let waited = state.run_queue.ns();
        let ksoftirqd = ksoftirqd_ns();
        let migrations = state.sched.read().and_then(parse_sched_migrations);
        let cpu = state.cpu;
        let after = state.stat.read().map(|text| parse_proc_stat(text, cpu)).unwrap_or_default();

        let elapsed_ns = ended_ns.saturating_sub(state.started_ns);
        let machine = after.machine.since(&state.before.machine);
        let tick_ns = state.tick_ns;
        let ns = |ticks: u64| ticks.saturating_mul(tick_ns);
        let thread_before = state.thread;
        let thread = |figure: fn(&Usage) -> i64| spent(thread_before, thread_after, figure);
        let (process_user_ns, process_system_ns) = cpu_time_ns(state.process, process_after);
        let (user_ns, system_ns) = cpu_time_ns(state.thread, thread_after);
        let own_ns = user_ns + system_ns;
        let one = match (after.cpu, state.before.cpu) {
            (Some(after), Some(before)) => Some(after.since(&before)),
            _ => None,
        };
        let usage = EndUsage {
            // Who measures knows what it counted.
            transactions: None,
            elapsed_ns,
            process_user_ns,
            process_system_ns,
            machine_busy_ns: busy_ns(&machine, elapsed_ns, after.cpus),
            machine_softirq_ns: ns(machine.softirq),
            ksoftirqd_ns: difference(ksoftirqd, state.ksoftirqd_before),
            machine_irq_ns: ns(machine.irq),
            machine_steal_ns: ns(machine.steal),
            cpus: after.cpus,
            // /proc/stat counts ticks, the thread's time is exact: the difference may be negative or too large.
            other_tasks_ns: one.map(|one| {
                let busy = ns(one.user.saturating_add(one.system));
                busy.saturating_sub(own_ns).min(elapsed_ns.saturating_sub(own_ns))
            }),
            cpu_steal_ns: one.map(|one| ns(one.steal)),
            run_queue_wait_ns: difference(waited, state.wait_before),
            voluntary_switches: thread(Usage::voluntary_context_switches),
            involuntary_switches: thread(Usage::involuntary_context_switches),
            migrations: difference(migrations, state.migrations_before).unwrap_or(state.seen_moves),
            minor_faults: thread(Usage::minor_page_faults),
            major_faults: thread(Usage::major_page_faults),
            cpu: state.seen_cpu.and_then(|cpu| u32::try_from(cpu).ok()),
        };
        (usage, own_ns)
    }
}

/// Busy time in netperf's definition: the share of /proc/stat's ticks that are not idle, of the whole capacity.
fn busy_ns(machine: &CpuTicks, elapsed_ns: u64, cpus: u32) -> u64 {
    let total = machine.total();
    if total == 0 {
        return 0;
    }
    let capacity = u128::from(elapsed_ns) * u128::from(cpus);
    u64::try_from(capacity * u128::from(total - machine.idle) / u128::from(total)).unwrap_or(u64::MAX)
}

/// CPU time of the threads ksoftirqd so far, ns; `None` where /proc does not show or count it.
fn ksoftirqd_ns() -> Option<u64> {
    // There is one a CPU from boot on, so that one search is enough.
    static FILES: OnceLock<Vec<String>> = OnceLock::new();
    let files = FILES.get_or_init(|| {
        let here = Machine::running();
        let found = crate::tasks::processes(&here).filter(|(_, name)| name.starts_with("ksoftirqd/"));
        found.map(|(id, _)| format!("/proc/{id}/schedstat")).collect()
    });
    let ran = |file: &String| parse_schedstat(&std::fs::read_to_string(file).ok()?)[0];
    files.iter().filter_map(ran).reduce(u64::saturating_add).filter(|ns| *ns > 0)
}

fn difference(after: Option<u64>, before: Option<u64>) -> Option<u64> {
    Some(after?.saturating_sub(before?))
}

fn clock_tick_ns() -> u64 {
    let hz = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten();
    1_000_000_000 / hz.and_then(|hz| u64::try_from(hz).ok()).filter(|&hz| hz > 0).unwrap_or(100)
}
