//! Machine settings with fixed keys, one row each; sysctls, services, ethtool(8): [`super::key`]. See docs/tuning.md.

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
    pub(super) grub: Option<Words>,
    /// The section and the line of a profile of tuned.
    pub(super) tuned: Option<(&'static str, Words)>,
}

impl Row {
    fn new(takes: ValueKind, means: fn(&SettingRequest<'_>) -> Meaning) -> Self {
        Self { takes, means, grub: None, tuned: None }
    }

    fn grub(self, words: Words) -> Self {
        Self { grub: Some(words), ..self }
    }

    fn tuned(self, section: &'static str, line: Words) -> Self {
        Self { tuned: Some((section, line)), ..self }
    }
}

/// A setting that is one file with a choice of transparent huge pages.
fn huge_pages(asked: &SettingRequest<'_>, file: &str) -> Meaning {
    asked.one(Knob::file(format!("/sys/kernel/mm/transparent_hugepage/{file}"), Form::Choice))
}

impl MachineSetting {
    pub(super) fn row(self) -> Row {
        use ValueKind::{Number, NumberOrSwitch, OneOf, Switch, Word};
        let governors = &["performance", "powersave", "schedutil", "ondemand", "conservative", "userspace"];
        match self {
            Self::Epp => Row::new(Word, resolve::preference)
                .tuned("cpu", |value| format!("energy_performance_preference={value}")),
            Self::MinPerfPercent => {
                Row::new(Number(0, 100), resolve::least_clock).tuned("cpu", |value| format!("min_perf_pct={value}"))
            }
            Self::Boost => {
                Row::new(Switch, resolve::boost).tuned("cpu", |value| format!("boost={}", u8::from(value == "on")))
            }
            Self::Governor => Row::new(OneOf(governors), |asked| {
                resolve::listed(asked, "scaling_governor", "scaling_available_governors")
            })
            .grub(|value| format!("cpufreq.default_governor={value}"))
            .tuned("cpu", |value| format!("governor={value}")),
            // The kernel takes a signed 32-bit number.
            Self::LatencyUs => Row::new(Number(0, 2_000_000_000), resolve::latency)
                .tuned("cpu", |value| format!("force_latency={value}")),
            Self::Thp => Row::new(OneOf(&["always", "madvise", "never"]), |asked| huge_pages(asked, "enabled"))
                .grub(|value| format!("transparent_hugepage={value}"))
                .tuned("vm", |value| format!("transparent_hugepages={value}")),
            Self::ThpDefrag => {
                let words = &["always", "defer", "defer+madvise", "madvise", "never"];
                Row::new(OneOf(words), |asked| huge_pages(asked, "defrag"))
                    .tuned("vm", |value| format!("transparent_hugepage.defrag={value}"))
            }
            Self::Ksm => Row::new(NumberOrSwitch(0, 2), |asked| asked.one(Knob::text("/sys/kernel/mm/ksm/run")))
                .tuned("sysfs", |value| format!("/sys/kernel/mm/ksm/run={value}")),
            Self::Preempt => Row::new(OneOf(&PREEMPT_MODELS), resolve::preempt),
        }
    }
}
