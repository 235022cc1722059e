//! Kernel configurations: which options two of them set differently, those that matter for latency first.

use std::collections::{BTreeMap, BTreeSet};

/// Options that matter for latency, without `CONFIG_`, in the order in which a reader should see them, each with why.
const FOR_LATENCY: [(&str, &str); 54] = [
    ("PREEMPT_RT", "nearly all of the kernel is preemptible; interrupts and softirqs run in threads"),
    ("PREEMPT_DYNAMIC", "preempt= chooses the preemption model at boot"),
    ("PREEMPT", "the kernel's own code is preempted"),
    ("PREEMPT_LAZY", "ordinary tasks are preempted at the next tick, real-time tasks preempt at once"),
    ("PREEMPT_VOLUNTARY", "the kernel is preempted where its code asks for it only"),
    ("PREEMPT_NONE", "a system call runs until it ends or sleeps"),
    ("HZ", "ticks a second: time slices and coarse timers"),
    ("HIGH_RES_TIMERS", "without it timers expire at ticks"),
    ("NO_HZ_FULL", "nohz_full= can stop the tick of busy CPUs"),
    ("NO_HZ_IDLE", "the tick stops on idle CPUs only"),
    ("HZ_PERIODIC", "the tick never stops"),
    ("CPU_ISOLATION", "isolcpus= keeps kernel work off CPUs"),
    ("CPUSETS", "shields by cpuset"),
    ("RCU_NOCB_CPU", "rcu_nocbs= moves RCU callbacks off CPUs"),
    ("RCU_NOCB_CPU_DEFAULT_ALL", "RCU callbacks are off all CPUs without a parameter"),
    ("RCU_BOOST", "readers of RCU that hold others up get a real-time priority"),
    ("RCU_LAZY", "RCU callbacks wait in order to save power"),
    ("IRQ_FORCED_THREADING", "threadirqs can move interrupts to threads"),
    ("IRQ_TIME_ACCOUNTING", "each interrupt reads the clock twice"),
    ("VIRT_CPU_ACCOUNTING_GEN", "each entry into the kernel is accounted"),
    ("TICK_CPU_ACCOUNTING", "CPU time is sampled at ticks"),
    ("RT_GROUP_SCHED", "control groups without real-time budget refuse SCHED_FIFO"),
    ("CFS_BANDWIDTH", "quotas of control groups stop tasks"),
    ("SCHED_AUTOGROUP", "ordinary tasks are weighed by session"),
    ("SCHEDSTATS", "the scheduler counts at each switch"),
    ("NUMA_BALANCING", "pages are unmapped to see who uses them"),
    ("TRANSPARENT_HUGEPAGE_ALWAYS", "huge pages without being asked for: khugepaged, compaction at page faults"),
    ("WQ_POWER_EFFICIENT_DEFAULT", "kernel work moves between CPUs in order to save power"),
    ("INTEL_IDLE", "idle states by Intel's own driver"),
    ("CPU_IDLE_GOV_HALTPOLL", "idle guests poll before they halt"),
    ("CPU_FREQ_DEFAULT_GOV_PERFORMANCE", "CPUs begin at their highest frequency"),
    ("CPU_FREQ_DEFAULT_GOV_SCHEDUTIL", "the frequency follows the load"),
    ("NET_RX_BUSY_POLL", "sockets can poll the device"),
    ("XDP_SOCKETS", "AF_XDP"),
    ("BPF_JIT_ALWAYS_ON", "filters of packets are always compiled"),
    ("NETFILTER", "packets pass firewall hooks"),
    ("PARAVIRT", "calls that a hypervisor may replace"),
    ("PARAVIRT_SPINLOCKS", "spin locks of guests give their CPU back"),
    ("MITIGATION_PAGE_TABLE_ISOLATION", "system calls change page tables (Meltdown)"),
    ("MITIGATION_RETPOLINE", "indirect calls are slower (Spectre 2)"),
    ("INIT_ON_ALLOC_DEFAULT_ON", "each allocation is cleared"),
    ("INIT_ON_FREE_DEFAULT_ON", "freed memory is cleared"),
    ("RANDOMIZE_KSTACK_OFFSET_DEFAULT", "each system call moves the kernel's stack"),
    ("HARDENED_USERCOPY", "copies from and to user space are checked"),
    ("DEBUG_PREEMPT", "checks at each use of a per-CPU variable"),
    ("PROVE_LOCKING", "each lock is checked: far slower"),
    ("LOCK_STAT", "each lock is counted"),
    ("DEBUG_ATOMIC_SLEEP", "checks at each point that may sleep"),
    ("KASAN", "each memory access is checked: far slower"),
    ("KFENCE", "some allocations are guarded: page faults"),
    ("SOFTLOCKUP_DETECTOR", "a real-time task of the watchdog on each CPU"),
    ("HARDLOCKUP_DETECTOR", "an NMI each few seconds"),
    ("OSNOISE_TRACER", "rtla osnoise explains noise"),
    ("TIMERLAT_TRACER", "rtla timerlat explains wake-up latency"),
];

/// Options that Linux 6.9 gave another name (arch/x86/Kconfig), and that name: they are one option.
const RENAMED: [(&str, &str); 9] = [
    ("CALL_DEPTH_TRACKING", "MITIGATION_CALL_DEPTH_TRACKING"),
    ("CPU_IBPB_ENTRY", "MITIGATION_IBPB_ENTRY"),
    ("CPU_IBRS_ENTRY", "MITIGATION_IBRS_ENTRY"),
    ("CPU_SRSO", "MITIGATION_SRSO"),
    ("CPU_UNRET_ENTRY", "MITIGATION_UNRET_ENTRY"),
    ("PAGE_TABLE_ISOLATION", "MITIGATION_PAGE_TABLE_ISOLATION"),
    ("RETHUNK", "MITIGATION_RETHUNK"),
    ("RETPOLINE", "MITIGATION_RETPOLINE"),
    ("SLS", "MITIGATION_SLS"),
];

/// Options that differ between any two builds and mean nothing for what runs, by the start of their names.
const OF_THE_BUILD: [&str; 18] = [
    "CC_VERSION_TEXT",
    "GCC_VERSION",
    "GCC_ASM",
    "GCC_PLUGINS",
    "CLANG_VERSION",
    "AS_VERSION",
    "LD_VERSION",
    "LLD_VERSION",
    "RUSTC_",
    "BINDGEN_",
    "PAHOLE_",
    "BUILD_SALT",
    "LOCALVERSION",
    "VERSION_SIGNATURE",
    "SYSTEM_TRUSTED_KEYS",
    "MODULE_SIG_KEY",
    "CC_HAS_",
    "AS_HAS_",
];

/// The lines of a configuration that set something (`CONFIG_HZ=250`), in their order, each with a newline.
pub fn set_lines(text: &str) -> String {
    let set = text.lines().map(str::trim).filter(|line| line.starts_with("CONFIG_") && line.contains('='));
    set.fold(String::new(), |lines, line| lines + line + "\n")
}

/// A name of 16 hexadecimal digits that configurations with the same options share (FNV-1a over the sorted lines).
pub fn id(text: &str) -> String {
    let set = set_lines(text);
    let lines: BTreeSet<&str> = set.lines().collect();
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = lines.iter().flat_map(|line| line.bytes().chain([b'\n'])).fold(0xcbf2_9ce4_8422_2325, step);
    format!("{hash:016x}")
}

/// An option that two configurations set differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionDifference<'a> {
    /// Its name without `CONFIG_`; the newer one where it was renamed.
    pub name: &'a str,
    /// Its value in the first; `None`: not set.
    pub a: Option<&'a str>,
    /// Its value in the second.
    pub b: Option<&'a str>,
    /// Why it matters for latency; `None` of all others.
    pub why: Option<&'static str>,
}

/// What two configurations set differently: first what matters for latency, in the order of its table, then the others by
/// name. What differs between any two builds (versions of compilers, keys) is left out.
pub fn differences<'a>(a: &'a str, b: &'a str) -> Vec<OptionDifference<'a>> {
    let now = |name| RENAMED.iter().find(|(before, _)| *before == name).map_or(name, |(_, now)| *now);
    let options = |text: &'a str| -> BTreeMap<&'a str, &'a str> {
        let set = text.lines().filter_map(|line| line.trim().strip_prefix("CONFIG_")?.split_once('='));
        set.map(|(name, value)| (now(name), value)).collect()
    };
    let (left, right) = (options(a), options(b));
    let known: BTreeMap<&str, (usize, &'static str)> =
        FOR_LATENCY.iter().enumerate().map(|(place, (name, why))| (*name, (place, *why))).collect();
    let names: BTreeSet<&str> = left.keys().chain(right.keys()).copied().collect();
    let mut found: Vec<OptionDifference<'_>> = names
        .into_iter()
        .filter(|name| left.get(name) != right.get(name))
        // The value of HZ has it already.
        .filter(|name| name.strip_prefix("HZ_").is_none_or(|rest| rest.parse::<u32>().is_err()))
        .filter(|name| !OF_THE_BUILD.iter().any(|start| name.starts_with(start)))
        .map(|name| OptionDifference {
            name,
            a: left.get(name).copied(),
            b: right.get(name).copied(),
            why: known.get(name).map(|(_, why)| *why),
        })
        .collect();
    found.sort_by_key(|one| known.get(one.name).map_or(usize::MAX, |(place, _)| *place));
    found
}

/// The same for people, in lines of what it is and its value in each: the options that matter for latency with why, and a last
/// line that counts the others, where there are some.
pub fn in_words(a: &str, b: &str) -> Vec<[String; 3]> {
    let all = differences(a, b);
    let value = |value: Option<&str>| value.unwrap_or("not set").trim_matches('"').to_owned();
    let named =
        |one: &OptionDifference<'_>| Some([format!("CONFIG_{} ({})", one.name, one.why?), value(one.a), value(one.b)]);
    let mut lines: Vec<_> = all.iter().filter_map(named).collect();
    let others: Vec<&OptionDifference<'_>> = all.iter().filter(|one| one.why.is_none()).collect();
    let only = |of: fn(&OptionDifference<'_>) -> bool| others.iter().filter(|one| of(one)).count();
    lines.extend((!others.is_empty()).then(|| {
        let [first, second] = [only(|one| one.b.is_none()), only(|one| one.a.is_none())];
        let differ = format!("{} differ, {first} set here only", others.len());
        ["further options".to_owned(), differ, format!("{second} set here only")]
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: of kernels before and since 6.9 each mitigation was shown as lost and as new.
    #[test]
    fn a_renamed_option_is_one_option() {
        let (before, since) =
            ("CONFIG_RETPOLINE=y\nCONFIG_SLS=y\n", "CONFIG_MITIGATION_RETPOLINE=y\nCONFIG_MITIGATION_SLS=y\n");
        assert_eq!(differences(before, since), []);
        let lost = differences(before, "CONFIG_MITIGATION_SLS=y\n");
        let found: Vec<_> = lost.iter().map(|one| (one.name, one.a, one.b, one.why.is_some())).collect();
        assert_eq!(found, [("MITIGATION_RETPOLINE", Some("y"), None, true)]);
    }

    const A: &str = "#\n# Linux 6.1\nCONFIG_CC_VERSION_TEXT=\"gcc 12\"\nCONFIG_HZ_250=y\nCONFIG_HZ=250\n\
                     # CONFIG_PREEMPT_RT is not set\nCONFIG_PREEMPT_VOLUNTARY=y\nCONFIG_VETH=m\nCONFIG_ACPI=y\n";
    const B: &str = "CONFIG_ACPI=y\nCONFIG_HZ=1000\nCONFIG_HZ_1000=y\nCONFIG_PREEMPT_RT=y\nCONFIG_VETH=y\nCONFIG_NEW=m\n\
                     CONFIG_CC_VERSION_TEXT=\"gcc 14\"\n";

    #[test]
    fn what_matters_for_latency_comes_first_and_what_the_build_names_not_at_all() {
        let found = differences(A, B);
        let names: Vec<&str> = found.iter().map(|one| one.name).collect();
        assert_eq!(names, ["PREEMPT_RT", "PREEMPT_VOLUNTARY", "HZ", "NEW", "VETH"]);
        assert_eq!((found[2].a, found[2].b), (Some("250"), Some("1000")));
        assert_eq!(found[0].a, None, "a comment sets nothing");
        let lines = in_words(A, B);
        assert!(lines.len() == 4 && lines[0][0].starts_with("CONFIG_PREEMPT_RT (nearly all"), "{lines:?}");
        assert_eq!(lines[0][1..], ["not set", "y"]);
        assert_eq!(lines[3], ["further options", "2 differ, 0 set here only", "1 set here only"]);
        assert!(in_words(A, A).is_empty());
    }

    #[test]
    fn an_id_depends_on_the_options_alone() {
        let turned: String = A.lines().rev().map(|line| format!("{line}\n")).collect();
        assert_eq!(id(A), id(&turned));
        assert_eq!(id(A), id(&set_lines(A)));
        assert_ne!(id(A), id(B));
        assert_eq!(set_lines("# CONFIG_A is not set\n  CONFIG_B=y\nx\n"), "CONFIG_B=y\n");
    }

    #[test]
    fn each_option_is_in_the_table_once() {
        let names: BTreeSet<&str> = FOR_LATENCY.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), FOR_LATENCY.len());
    }
}
