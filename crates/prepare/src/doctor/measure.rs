//! What a CPU loses to others, measured: threads of `verify` spin on it for a second or two and look for gaps.

use crate::verify::VerifyError;
use host::knob::Machine;
use model::{CpuList, Policy};
use std::collections::BTreeMap;
use std::time::Duration;

/// Longest spin in ordinary policy.
const LONGEST: Duration = Duration::from_secs(5);
/// How long the throttle probe spins: more than one period of a second, so that its stall falls into it.
const PROBE: Duration = Duration::from_millis(1_500);

/// What was seen while one thread spun on one CPU.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Measured {
    /// Where it spun.
    pub cpu: u32,
    /// For how long.
    pub duration_ns: u64,
    /// What counted as a gap.
    pub threshold_ns: u64,
    /// Gaps.
    pub gaps: u64,
    /// All gaps together.
    pub lost_ns: u64,
    /// The longest gap.
    pub longest_ns: u64,
    /// What ran in the longest gap, where tracing could tell; empty: nobody that the kernel knows.
    pub longest_held_by: Vec<String>,
    /// Who touched the CPU, the most frequent first, where tracing could tell.
    pub visitors: Vec<Visitor>,
    /// Local timer interrupts of that CPU meanwhile.
    pub local_timer: u64,
    /// RCU softirqs of that CPU meanwhile.
    pub rcu: u64,
    /// Other interrupts of that CPU meanwhile, by their row in /proc/interrupts; only those that came.
    pub interrupts: BTreeMap<String, u64>,
    /// System management interrupts meanwhile (MSR 0x34), where they can be counted.
    pub smi: Option<u64>,
    /// Page faults of processes in real-time classes meanwhile, by name and process id.
    pub faults: BTreeMap<String, u64>,
    /// What the throttle probe saw.
    pub throttle: Option<Throttle>,
}

/// Somebody that touched the CPU.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Visitor {
    /// `process`, `kernel thread`, `device interrupt` …
    pub kind: String,
    /// The class of cause that it is for a thread there: `preempted`, `hardirq` …
    pub class: String,
    /// Its name, as causes have it.
    pub name: String,
    /// How often it came.
    pub count: u64,
}

/// What a FIFO thread saw that spun for more than a second.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Throttle {
    /// Where it spun.
    pub cpu: u32,
    /// For how long.
    pub duration_ns: u64,
    /// The longest time off the CPU.
    pub longest_ns: u64,
}

impl Throttle {
    pub fn seconds(&self) -> f64 {
        self.duration_ns as f64 / 1e9
    }

    /// Whether the stall is one of throttling or the fair server, 50 ms by default; those of hypervisors are shorter.
    pub fn is_throttled(&self) -> bool {
        self.longest_ns > 20_000_000
    }
}

impl Measured {
    pub fn seconds(&self) -> f64 {
        self.duration_ns as f64 / 1e9
    }

    pub fn per_second(&self, count: u64) -> f64 {
        if self.duration_ns == 0 { 0.0 } else { count as f64 / self.seconds() }
    }

    /// The share of its time that the thread did not get.
    pub fn lost_percent(&self) -> f64 {
        if self.duration_ns == 0 { 0.0 } else { self.lost_ns as f64 * 100.0 / self.duration_ns as f64 }
    }
}

/// Spins on a CPU for `time` (5 s at most) in ordinary policy; finds what it lost. Errors: CPU refused, no clock.
pub fn measure(cpu: u32, time: Duration) -> Result<Measured, VerifyError> {
    let machine = Machine::running();
    let before = Counts::read(&machine, cpu);
    let cpus: CpuList = [cpu].into_iter().collect();
    let evidence = crate::verify::run(&cpus, time.min(LONGEST), Policy::Other)?;
    let after = Counts::read(&machine, cpu);
    let mut measured = Measured {
        cpu,
        threshold_ns: crate::verify::GAP_NS,
        smi: after.smi.zip(before.smi).map(|(after, before)| after.saturating_sub(before)),
        rcu: after.rcu.saturating_sub(before.rcu),
        ..Measured::default()
    };
    if let Some(seen) = evidence.cpus.first() {
        measured.duration_ns = seen.spun_ns;
        measured.gaps = seen.gaps;
        measured.lost_ns = seen.stolen_ns;
        measured.longest_ns = seen.longest_ns;
        measured.longest_held_by = seen.longest_held_by.clone();
        measured.visitors = seen
            .visitors
            .iter()
            .map(|visitor| Visitor {
                kind: visitor.kind.words().to_owned(),
                class: visitor.class.to_string(),
                name: visitor.name.clone(),
                count: visitor.count,
            })
            .collect();
    }
    for (name, count) in after.interrupts {
        let more = count.saturating_sub(before.interrupts.get(&name).copied().unwrap_or(0));
        match name.as_str() {
            "LOC" => measured.local_timer = more,
            _ if more > 0 => {
                measured.interrupts.insert(name, more);
            }
            _ => {}
        }
    }
    for (name, count) in after.faults {
        if let Some(then) = before.faults.get(&name) {
            measured.faults.insert(name, count.saturating_sub(*then));
        }
    }
    Ok(measured)
}

/// Spins on a CPU in SCHED_FIFO for longer than a throttling period and measures how long it was kept off. The kernel
/// ends this process when the thread runs a second longer than that (RLIMIT_RTTIME), and others of this CPU wait
/// meanwhile. Errors: the CPU or the policy may not be used, or there is no clock.
pub fn probe_throttle(cpu: u32) -> Result<Throttle, VerifyError> {
    let clock = ::clock::Clock::calibrate()?;
    let spinner = move || crate::verify::spin(clock, cpu, PROBE, Policy::Fifo(1));
    let thread = std::thread::Builder::new().name("throttle-probe".to_owned()).spawn(spinner);
    let failed = || crate::verify::SpinError::Thread(cpu);
    let spun = thread.map_err(|_| failed())?.join().map_err(|_| failed())??;
    Ok(Throttle { cpu, duration_ns: spun.spun_ns, longest_ns: spun.longest.map_or(0, |gap| gap.ns) })
}

#[derive(Default)]
struct Counts {
    interrupts: BTreeMap<String, u64>,
    rcu: u64,
    smi: Option<u64>,
    faults: BTreeMap<String, u64>,
}

impl Counts {
    fn read(machine: &Machine, cpu: u32) -> Self {
        let all = host::irqs::Counts::read(machine).unwrap_or_default();
        let of = |row: &host::irqs::Row| row.counts.get(&cpu).copied().unwrap_or(0);
        let mut faults = BTreeMap::new();
        for pid in machine.numbers("/proc", "") {
            let stat = machine.text(format!("/proc/{pid}/stat")).ok();
            let Some(stat) = stat.and_then(|text| host::tasks::parse_stat(&text)) else { continue };
            // Kernel threads have no faults.
            if stat.is_real_time() && !stat.is_kernel() {
                faults.insert(format!("{} ({pid})", stat.name), stat.minor_faults.saturating_add(stat.major_faults));
            }
        }
        Self {
            interrupts: all.interrupts.iter().map(|(name, row)| (name.clone(), of(row))).collect(),
            rcu: all.softirqs.get("RCU").map_or(0, of),
            smi: smi(cpu),
            faults,
        }
    }
}

/// The count of system management interrupts: MSR_SMI_COUNT of Intel's CPUs, in the lower half.
fn smi(cpu: u32) -> Option<u64> {
    use std::os::unix::fs::FileExt as _;
    const SMI_COUNT: u64 = 0x34;
    let file = std::fs::File::open(format!("/dev/cpu/{cpu}/msr")).ok()?;
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, SMI_COUNT).ok()?;
    Some(u64::from_ne_bytes(bytes) & 0xffff_ffff)
}
