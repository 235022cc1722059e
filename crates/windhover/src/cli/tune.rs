//! Flags of `tune`.

pub(crate) use super::shared::SystemArgs;
use super::shared::{PlainForm, Root};
use super::tune_try::TuneTry;
use clap::{Args, Subcommand};
use model::Setting;

/// Set many settings of this machine by a profile, and put them back
///
/// Settings have keys: sysctl.NAME, cpufreq.governor|epp|min-perf-percent|boost, cpuidle.latency-us,
/// memory.thp|thp-defrag|ksm, service.NAME, and of a network device (--nic) nic.coalesce.NAME, nic.ring.NAME,
/// nic.channels.NAME, nic.feature.NAME, nic.pause.NAME, nic.eee, nic.napi.NAME, nic.rps-cpus, nic.xps-cpus, nic.irq-cpus,
/// nic.thread-policy, nic.flow. A profile is a list of them, each with its reason.
///
/// Settings that this machine lacks are skipped and listed. If it rejects one, all are put back and the exit code is 1.
/// Every change is logged before it is made; `tune undo` puts back what nobody else has changed since.
///
/// Exit codes: 0 done, 1 refused, not permitted, or not put back, 2 usage, 3 `verify` found a deviation.
#[derive(Debug, Args)]
pub(crate) struct Tune {
    #[command(subcommand)]
    pub(crate) command: TuneCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TuneCommand {
    /// List the built-in profiles
    List {
        #[command(flatten)]
        form: PlainForm,
    },
    /// Show what is applied now, and what each boot applies
    Active {
        #[command(flatten)]
        system: SystemArgs,
        #[command(flatten)]
        form: PlainForm,
    },
    /// Name the built-in profile that fits this machine, and why
    Recommend {
        #[command(flatten)]
        root: Root,
        #[command(flatten)]
        form: PlainForm,
    },
    /// Show the settings of a profile, each with its reason
    Show {
        #[command(flatten)]
        chosen: Chosen,
        #[command(flatten)]
        form: PlainForm,
    },
    /// Show what a profile would change on this machine, and what it would skip
    Diff {
        #[command(flatten)]
        chosen: Chosen,
        #[command(flatten)]
        system: SystemArgs,
        #[command(flatten)]
        form: PlainForm,
    },
    /// Apply a profile's settings
    #[command(visible_alias = "profile")]
    Apply {
        #[command(flatten)]
        chosen: Chosen,
        #[command(flatten)]
        system: SystemArgs,
        /// Only show what would be changed
        #[arg(long, short = 'n')]
        dry_run: bool,
        /// Do not ask; needed where no terminal is there to ask
        #[arg(long, short)]
        yes: bool,
        /// Apply them at each boot, too, until `tune undo`: written to /etc/windhover, applied by windhover-tune.service
        #[arg(long)]
        boot: bool,
        #[command(flatten)]
        form: PlainForm,
    },
    /// Check whether a profile's settings still hold
    Verify {
        #[command(flatten)]
        chosen: Chosen,
        #[command(flatten)]
        system: SystemArgs,
        #[command(flatten)]
        form: PlainForm,
    },
    /// Apply the profile that `apply --boot` chose; windhover-tune.service does so at each boot
    Boot {
        #[command(flatten)]
        system: SystemArgs,
        #[command(flatten)]
        form: PlainForm,
    },
    /// Put back what applying profiles changed, newest first; boots apply them no longer
    Undo {
        /// Only this profile; by default all
        #[arg(value_name = "PROFILE")]
        profile: Option<String>,
        /// Put back also what somebody else has changed since then
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        system: SystemArgs,
        #[command(flatten)]
        form: PlainForm,
    },
    /// Write configuration for settings that need a boot or have to survive one; installs nothing
    Emit {
        #[command(flatten)]
        chosen: Chosen,
        #[command(flatten)]
        form: EmitForm,
    },
    /// Measure each setting by itself, interleaved with and without it, and report what helps here
    Try(Box<TuneTry>),
}

/// Which settings.
#[derive(Debug, Args)]
pub(crate) struct Chosen {
    /// A built-in profile, or a file whose name ends in .toml; not needed with --set
    #[arg(value_name = "PROFILE", required_unless_present = "settings")]
    pub(crate) profile: Option<String>,
    /// The network device that keys beginning with nic. are about
    #[arg(long, value_name = "IF")]
    pub(crate) nic: Option<String>,
    /// This setting too, or instead of the profile's
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<Setting>,
}

/// For whom text is written.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct EmitForm {
    /// The kernel's command line, for /etc/default/grub.d
    #[arg(long)]
    pub(crate) grub: bool,
    /// A unit that applies the profile at boot
    #[arg(long)]
    pub(crate) systemd: bool,
    /// A profile of tuned
    #[arg(long)]
    pub(crate) tuned: bool,
    /// Rules for the device named by --nic
    #[arg(long)]
    pub(crate) udev: bool,
}

/// Keep the CPUs out of deep sleep until SIGTERM comes.
#[derive(Debug, Args)]
pub(crate) struct Hold {
    /// The longest time that waking a CPU may take, in µs
    #[arg(long, value_name = "US")]
    pub(crate) cpu_latency_us: u32,
}
