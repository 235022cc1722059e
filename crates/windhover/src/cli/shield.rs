//! Flags of `shield`.

use super::shared::{PlainForm, SystemArgs, seconds};
use clap::{Args, Subcommand};
use model::ShieldBackend;
use std::time::Duration;

/// Keep other processes and interrupts off chosen CPUs, as RedHawk's shield(1) does
///
/// Tasks that were not placed on the shielded CPUs are moved away and cannot come back; tasks bound only to shielded CPUs
/// stay. Place a program there with `windhover run -b LIST`. Without options: the state, as with --current.
///
/// LIST holds numbers and ranges (0,2-5), boot, active, nic:IF (near a network device), node:N, sibling:N (all threads of
/// CPU N's core); ~LIST means all but these, and LIST,~X means LIST without X. Each of -p -i -l -m replaces what was
/// shielded so before; the others stay as they are.
///
/// Three backends: v2 (an isolated partition, the first choice), v1 (cpusets), affinity (rewrites the CPUs of every task;
/// only --guard keeps it up). v1 and v2 move all tasks away, also PID 1 and Windhover's own parent processes, because their
/// children have to stay away as well. Neither rewrites a task's own CPUs: when the shield is removed, each task may run
/// where it could before. affinity rewrites them; PID 1 and Windhover's own parent processes stay outside unless
/// --include-ancestors is given. Threads of interrupts are never moved as tasks.
///
/// Exit codes: 0 done, 1 failed or not permitted, 2 refused by a safety rule, 3 not as asked for (-l without nohz_full;
/// --verify found something on the CPUs).
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Shield {
    #[command(flatten)]
    pub(crate) wanted: Wanted,
    /// Put everything back
    #[arg(short, long, conflicts_with_all = ["proc", "irq", "loc", "mem", "all", "current", "nic", "flow", "exit_after", "guard"])]
    pub(crate) reset: bool,
    /// With --reset: also put back what others have changed since, and remove our control groups that no undo log has
    #[arg(long, requires = "reset")]
    pub(crate) force: bool,
    /// Show the current state, CPU by CPU
    #[arg(short, long, conflicts_with_all = ["proc", "irq", "loc", "mem", "all", "nic", "flow", "exit_after", "guard"])]
    pub(crate) current: bool,
    /// Only show what would be changed: each setting with its old and new value, and why
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) form: PlainForm,
    /// Keep running: check every SECS, repair and report what has changed; put everything back at the end (Ctrl-C)
    #[arg(long, value_name = "SECS", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = seconds)]
    pub(crate) guard: Option<Duration>,
    /// Put everything back after this time: 90s, 10m, 2h
    #[arg(long = "for", value_name = "DURATION", value_parser = duration, id = "exit_after")]
    pub(crate) exit_after: Option<Duration>,
    /// Check the effect: a thread spins on each shielded CPU for SECS, and all that interrupted it is listed
    #[arg(long, value_name = "SECS", num_args = 0..=1, require_equals = true, default_missing_value = "3", value_parser = seconds)]
    pub(crate) verify: Option<Duration>,
    /// Do not ask; needed where no terminal is there to ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) system: SystemArgs,
    #[command(subcommand)]
    pub(crate) command: Option<ShieldCommand>,
}

/// What a shield shall be.
#[derive(Debug, Clone, Args)]
pub(crate) struct Wanted {
    /// No processes on these CPUs but those placed there
    #[arg(short, long, value_name = "LIST")]
    pub(crate) proc: Option<String>,
    /// No device interrupts on these CPUs
    #[arg(short, long, value_name = "LIST")]
    pub(crate) irq: Option<String>,
    /// No local timer interrupts on these CPUs; needs nohz_full= at boot
    #[arg(short, long, value_name = "LIST")]
    pub(crate) loc: Option<String>,
    /// Reserve the memory of these CPUs' nodes for them
    #[arg(short, long, value_name = "LIST")]
    pub(crate) mem: Option<String>,
    /// All of these, as far as this system can
    #[arg(short, long, value_name = "LIST", conflicts_with_all = ["proc", "irq", "loc", "mem"])]
    pub(crate) all: Option<String>,
    /// Backend: auto, v2, v1, affinity, isolcpus
    #[arg(long, value_name = "BACKEND")]
    pub(crate) backend: Option<ShieldBackend>,
    /// Put this device's interrupts, threads and queues onto the shield; may be repeated
    #[arg(long, value_name = "IF")]
    pub(crate) nic: Vec<String>,
    /// Put this flow of the devices of --nic into a queue of the shield, as 'udp4 dst-port 7000'; may be repeated
    ///
    /// udp4 or tcp4, then any of src-ip, dst-ip, src-port, dst-port with a value; with `queue N`, into that queue instead of
    /// the first one whose interrupt is on the shield. Needs a device that takes flow rules (ethtool -N).
    #[arg(long, value_name = "RULE")]
    pub(crate) flow: Vec<String>,
    /// Leave this process, by id, name or unit, where it is; may be repeated
    #[arg(long, value_name = "PID|NAME|UNIT")]
    pub(crate) keep: Vec<String>,
    /// The boot CPU may be shielded too
    #[arg(long)]
    pub(crate) allow_boot_cpu: bool,
    /// Remove the limit on real-time CPU time (kernel.sched_rt_runtime_us = -1)
    #[arg(long)]
    pub(crate) unlimited_rt: bool,
    /// With backend affinity: rewrite the CPUs of PID 1 and of Windhover's own parent processes too
    #[arg(long)]
    pub(crate) include_ancestors: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ShieldCommand {
    /// Put a shield up for as long as a command runs; its exit status is passed on
    ///
    /// The command runs as any other process, off the shielded CPUs: place it, or parts of it, with `windhover run -b LIST`.
    Exec(Exec),
}

/// `windhover shield exec`
#[derive(Debug, Args)]
pub(crate) struct Exec {
    #[command(flatten)]
    pub(crate) wanted: Wanted,
    #[command(flatten)]
    pub(crate) system: SystemArgs,
    /// The command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// A number with a unit: `90s`, `10m`, `2h`; without one, seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let (number, factor) = match text.trim().char_indices().last() {
        Some((at, 's')) => (&text[..at], 1.0),
        Some((at, 'm')) => (&text[..at], 60.0),
        Some((at, 'h')) => (&text[..at], 3600.0),
        _ => (text, 1.0),
    };
    let value: f64 = number.parse().map_err(|_| "write it as 90s, 10m or 2h".to_owned())?;
    if (0.1..=30.0 * 86_400.0).contains(&(value * factor)) {
        Ok(Duration::from_secs_f64(value * factor))
    } else {
        Err("use 0.1 s to 30 days".to_owned())
    }
}
