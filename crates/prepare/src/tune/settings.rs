//! The settings of a machine that have one name each: a row a setting. Sysctls, services and what ethtool(8) sets have a free part in
//! their keys; they are read in [`super::key`]. docs/tuning.md describes each.

use super::resolve::{self, Meaning, SettingRequest};
use host::knob::{Form, Knob};
use model::kernel::PREEMPT_MODELS;

model::words! {
    "setting";
    /// A setting of the machine. Settings are made in this order: the preference of a CPU before the governor that takes it away.
    pub enum MachineSetting {
        /// What a CPU prefers: speed or saving.
        Epp = "cpufreq.epp",
        /// The least clock of the CPUs, in percent of the most.
        MinPerfPercent = "cpufreq.min-perf-percent",
        /// Clocks above the nominal one.
        Boost = "cpufreq.boost",
        /// Who chooses the clock.
        Governor = "cpufreq.governor",
        /// How long a CPU may take to leave an idle state, in µs.
        LatencyUs = "cpuidle.latency-us",
        /// Transparent huge pages.
        Thp = "memory.thp",
        /// When memory is made contiguous for them.
        ThpDefrag = "memory.thp-defrag",
        /// Kernel samepage merging.
        Ksm = "memory.ksm",
        /// The kernel's preemption model.
        Preempt = "sched.preempt",
    }
}

pub(super) enum ValueKind {
    OneOf(&'static [&'static str]),
    Number(u64, u64),
    Switch,
    /// Letters, digits, `_` and `-`.
    Word,
    /// 0 is also off, and 1 on.
    NumberOrSwitch(u64, u64),
}

type Words = fn(&str) -> String;

pub(super) struct Row {
    pub(super) takes: ValueKind,
    pub(super) means: fn(&SettingRequest<'_>) -> Meaning,
    /// The kernel's parameter, where there is one.
    pub(super) grub: Option<Words>,
    /// The section and the line of a profile of tuned.
    pub(super) tuned: Option<(&'static str, Words)>,
}

impl MachineSetting {
    pub(super) fn row(self) -> Row {
        match self {
            Self::Epp => Row {
                takes: ValueKind::Word,
                means: resolve::preference,
                grub: None,
                tuned: Some(("cpu", |value| format!("energy_performance_preference={value}"))),
            },
            Self::MinPerfPercent => Row {
                takes: ValueKind::Number(0, 100),
                means: resolve::least_clock,
                grub: None,
                tuned: Some(("cpu", |value| format!("min_perf_pct={value}"))),
            },
            Self::Boost => Row {
                takes: ValueKind::Switch,
                means: resolve::boost,
                grub: None,
                tuned: Some(("cpu", |value| format!("boost={}", u8::from(value == "on")))),
            },
            Self::Governor => Row {
                takes: ValueKind::OneOf(&[
                    "performance",
                    "powersave",
                    "schedutil",
                    "ondemand",
                    "conservative",
                    "userspace",
                ]),
                means: |asked| resolve::listed(asked, "scaling_governor", "scaling_available_governors"),
                grub: Some(|value| format!("cpufreq.default_governor={value}")),
                tuned: Some(("cpu", |value| format!("governor={value}"))),
            },
            Self::LatencyUs => Row {
                // The kernel takes a signed 32-bit number.
                takes: ValueKind::Number(0, 2_000_000_000),
                means: resolve::latency,
                grub: None,
                tuned: Some(("cpu", |value| format!("force_latency={value}"))),
            },
            Self::Thp => Row {
                takes: ValueKind::OneOf(&["always", "madvise", "never"]),
                means: |asked| asked.one(Knob::file("/sys/kernel/mm/transparent_hugepage/enabled", Form::Choice)),
                grub: Some(|value| format!("transparent_hugepage={value}")),
                tuned: Some(("vm", |value| format!("transparent_hugepages={value}"))),
            },
            Self::ThpDefrag => Row {
                takes: ValueKind::OneOf(&["always", "defer", "defer+madvise", "madvise", "never"]),
                means: |asked| asked.one(Knob::file("/sys/kernel/mm/transparent_hugepage/defrag", Form::Choice)),
                grub: None,
                tuned: Some(("vm", |value| format!("transparent_hugepage.defrag={value}"))),
            },
            Self::Ksm => Row {
                takes: ValueKind::NumberOrSwitch(0, 2),
                means: |asked| asked.one(Knob::text("/sys/kernel/mm/ksm/run")),
                grub: None,
                tuned: Some(("sysfs", |value| format!("/sys/kernel/mm/ksm/run={value}"))),
            },
            Self::Preempt => {
                Row { takes: ValueKind::OneOf(&PREEMPT_MODELS), means: resolve::preempt, grub: None, tuned: None }
            }
        }
    }
}
