//! Factors that a plan makes a cell of: what is measured, beside what, on which hosts.

use super::flag::Flag;
use super::{Factor, NAMED, PLAIN, Record, Scope, Sets, Shown, ValueType, parsed, sets};
use crate::{Probe, Protocol};

const fn setup(name: &'static str, about: &'static str) -> Factor {
    Factor::new(name, ValueType::Text, Sets::Plan).about(about).record(Record::Always)
}

const fn costly(mut factor: Factor, scope: Scope) -> Factor {
    factor.scope = scope;
    factor
}

const REFLECTORS: Factor = {
    let mut factor = Factor::new("reflectors", ValueType::Whole, Sets::Plan)
        .about("For `pace`: how many of `roles.reflectors` take part, from the first on (default: all).");
    factor.needs = Probe::WITH_SEVERAL_REFLECTORS;
    factor
};

pub(crate) const PROBE: Factor = setup("probe", "Probe: `pingpong`, `rr`, `ping`, `pace`, `stream` or `wake`.")
    .default("pingpong")
    .shown(Shown { values: &["pingpong", "rr", "ping", "pace", "stream", "wake"], ..NAMED });

pub(crate) const PROTOCOL: Factor =
    setup("protocol", Protocol::LISTED).default("udp").shown(Shown { values: &["tcp", "udp"], ..NAMED });

pub(crate) const KERNEL: Factor = costly(
    setup(
        "kernel",
        "Kernel: `current`, `preempt:MODEL`, `guest:NAME`, `kexec:PATH`, `grub:ENTRY` or `bootctl:ENTRY`; words behind a \
         space are added to its command line (docs/kernels.md).",
    )
    .record(Record::Named)
    .default("current")
    .shown(Shown { values: &["current"], ..PLAIN }),
    Scope::Kernel,
);

/// Before the settings of the ends, because it says whether there are two to be set.
const PEER: Factor = {
    let mut factor = Factor::new("peer", ValueType::Text, sets!(Spec, peer = parsed))
        .about(
            "The program that answers `pingpong`: `windhover`, or `sockperf`, a stock `sockperf server` that runs on the reflector.",
        )
        .default("windhover")
        .flags(&[Flag::value(
            "peer",
            &[Probe::Pingpong],
            "PROGRAM",
            "The program that answers: windhover, or sockperf, a stock `sockperf server`",
        )
        .default("windhover")]);
    (factor.probes, factor.needs) = (&[Probe::Pingpong], &[Probe::Pingpong]);
    factor
};

pub(super) static FACTORS: [Factor; 9] = [
    PEER,
    PROBE,
    PROTOCOL,
    // Factors name it only where the plan does, so that keys of older runs stay what they were.
    KERNEL,
    REFLECTORS,
    setup("load", "Load: `none`, `build`, `cpu`, `memory`, `disk`, `net`, `context`, or a name from `[loads]`.")
        .default("none")
        .shown(Shown {
            values: &["none", "no"],
            baselines: 2,
            labels: &[("none", "no load"), ("no", "no load")],
            ..NAMED
        }),
    // As the kernel.
    costly(
        setup(
            "shield",
            "Shield: `off`, `affinity` (every task's affinity, as the papers' cpuguard), `v1`, `v2` (control groups), \
             `isolcpus` (when booted so) or `auto`.",
        )
        .record(Record::Named)
        .default("off")
        .shown(Shown {
            values: &["N/A", "none", "no", "off", "yes"],
            baselines: 4,
            labels: &[("no", "no shield"), ("off", "no shield"), ("yes", "shield")],
            ..NAMED
        }),
        Scope::Machine,
    ),
    costly(
        setup("knob", "Settings: `none`, a name from `[knobs]`, or `KEY=VALUE[;KEY=VALUE…]` as for `windhover tune`.")
            .record(Record::Named)
            .default("none"),
        Scope::Machine,
    ),
    costly(
        setup(
            "stack",
            "Network stack: `kernel`, `spin`, `xdp` (those of `windhover bypass run`), or a name from `[stacks]`.",
        )
        .default("kernel")
        .of_messages()
        .shown(Shown {
            values: &["kernel", "spin", "xdp"],
            labels: &[("spin", "bypass spin"), ("xdp", "bypass xdp")],
            ..PLAIN
        }),
        Scope::Stack,
    ),
];
