//! Factors that a plan makes a cell of: what is measured, beside what, on which hosts.

use super::Record::{Always, Named};
use super::flag::TOP;
use super::{NAMED, PLAIN, Scope, Shown, parsed};
use crate::Probe::Pingpong;
use crate::{Probe, Protocol};

// The peer comes first: it decides which ends the settings apply to. Unnamed factors keep the keys of older runs.
factors! { FACTORS =
    "peer" Text Spec(peer = parsed), default("windhover"), of(&[Pingpong]),
        about("The program that answers `pingpong`: `windhover`, or `sockperf`, a stock `sockperf server` that runs on the reflector.");
        flag "peer" <PROGRAM> on [Pingpong] TOP "The program that answers: windhover, or sockperf, a stock `sockperf server`",
            default("windhover");
    "probe" Text Plan(), default("pingpong"), record(Always), about("Probe: `pingpong`, `rr`, `ping`, `pace`, `stream`, `wake` or `cycle`."),
        shown(Shown { values: &["pingpong", "rr", "ping", "pace", "stream", "wake", "cycle"], ..NAMED });
    "protocol" Text Plan(), default("udp"), record(Always), about(Protocol::LISTED),
        shown(Shown { values: &["tcp", "udp"], ..NAMED });
    "kernel" Text Plan(), default("current"), record(Named), scope(Scope::Kernel), shown(Shown { values: &["current"], ..PLAIN }),
        about("Kernel: `current`, `preempt:MODEL`, `guest:NAME`, `kexec:PATH`, `grub:ENTRY` or `bootctl:ENTRY`; words behind a \
             space are added to its command line (docs/kernels.md).");
    "reflectors" Whole Plan(), needs(Probe::WITH_SEVERAL_REFLECTORS),
        about("For `pace`: how many of `roles.reflectors` take part, from the first on (default: all).");
    "load" Text Plan(), default("none"), record(Always),
        about("Load: `none`, `build`, `cpu`, `memory`, `disk`, `net`, `context`, or a name from `[loads]`."),
        shown(Shown { values: &["none", "no"], baselines: 2, labels: &[("none", "no load"), ("no", "no load")], ..NAMED });
    "shield" Text Plan(), default("off"), record(Named), scope(Scope::Machine),
        about("Shield: `off`, `affinity` (every task's affinity, as the papers' cpuguard), `v1`, `v2` (control groups), \
             `isolcpus` (when booted so) or `auto`."),
        shown(Shown {
            values: &["N/A", "none", "no", "off", "yes"],
            baselines: 4,
            labels: &[("no", "no shield"), ("off", "no shield"), ("yes", "shield")],
            ..NAMED
        });
    "knob" Text Plan(), default("none"), record(Named), scope(Scope::Machine),
        about("Settings: `none`, a name from `[knobs]`, or `KEY=VALUE[;KEY=VALUE…]` as for `windhover tune`.");
    "stack" Text Plan(), default("kernel"), record(Always), scope(Scope::Stack), applies_to(Probe::WITH_PEER),
        about("Network stack: `kernel`, `spin`, `xdp` (those of `windhover bypass run`), or a name from `[stacks]`."),
        shown(Shown {
            values: &["kernel", "spin", "xdp"],
            labels: &[("spin", "bypass spin"), ("xdp", "bypass xdp")],
            ..PLAIN
        });
}
