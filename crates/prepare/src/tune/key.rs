//! The keys of settings and what values they take.

use super::TuneError;
use super::settings::{MachineSetting, ValueKind};
use host::knob::{EthtoolPart, FlowRule, ethtool_names, is_switch};
use model::{CpuList, Policy, Setting};
use std::fmt;
use std::str::FromStr;

/// A setting's key, read. Settings are made in the order of these variants, but for the parts of ethtool(8).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// `service.NAME`
    Service(String),
    /// One of the machine with a name of its own.
    Machine(MachineSetting),
    /// `sysctl.NAME`
    Sysctl(String),
    /// `nic.channels.NAME`, `nic.ring.NAME`, `nic.coalesce.NAME`, `nic.feature.NAME`, `nic.pause.NAME`, `nic.eee`
    Ethtool(EthtoolPart, String),
    /// `nic.napi.NAME`
    Napi(String),
    /// What the queues and interrupts of a device have.
    Queues(QueueSetting),
}

model::words! {
    "setting";
    /// A setting of a network device's queues and interrupts. Settings are made in this order.
    pub enum QueueSetting {
        /// The CPUs that received packets are passed on to.
        RpsCpus = "nic.rps-cpus",
        /// The CPUs that send through a queue.
        XpsCpus = "nic.xps-cpus",
        /// The CPUs of its interrupts.
        IrqCpus = "nic.irq-cpus",
        /// The policy of the threads of its interrupts, and of those that poll it.
        ThreadPolicy = "nic.thread-policy",
        /// A rule that sends a flow to a queue.
        Flow = "nic.flow",
    }
}

/// The one setting of Energy-Efficient Ethernet.
const EEE: &str = "nic.eee";

const NAPI: [&str; 4] = ["threaded", "defer-hard-irqs", "gro-flush-timeout", "irq-suspend-timeout"];
const PARTS: [EthtoolPart; 5] =
    [EthtoolPart::Coalesce, EthtoolPart::Ring, EthtoolPart::Channels, EthtoolPart::Feature, EthtoolPart::Pause];
/// What sysctls begin with; such keys need no `sysctl.`.
const SYSCTL_ROOTS: [&str; 6] = ["net.", "kernel.", "vm.", "fs.", "dev.", "user."];

impl FromStr for Key {
    type Err = TuneError;

    fn from_str(text: &str) -> Result<Self, TuneError> {
        let unknown = || TuneError::unknown_key(text, &nearest(text));
        if let Ok(setting) = text.parse() {
            return Ok(Self::Machine(setting));
        }
        if let Ok(setting) = text.parse() {
            return Ok(Self::Queues(setting));
        }
        if text == EEE {
            return Ok(Self::Ethtool(EthtoolPart::Eee, "enabled".to_owned()));
        }
        let is_sysctl = SYSCTL_ROOTS.iter().any(|root| text.starts_with(root));
        if let Some(name) = text.strip_prefix("sysctl.").or_else(|| is_sysctl.then_some(text)) {
            return sysctl(name).ok_or_else(unknown);
        }
        if let Some(name) = text.strip_prefix("service.") {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
            let good = !name.is_empty() && name.chars().all(plain) && !name.starts_with('-');
            return if good { Ok(Self::Service(name.to_owned())) } else { Err(unknown()) };
        }
        if let Some(name) = text.strip_prefix("nic.napi.") {
            return NAPI.contains(&name).then(|| Self::Napi(name.to_owned())).ok_or_else(unknown);
        }
        for part in PARTS {
            let Some(name) =
                text.strip_prefix("nic.").and_then(|rest| rest.strip_prefix(part.word())?.strip_prefix('.'))
            else {
                continue;
            };
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            let known = match part {
                EthtoolPart::Feature => !name.is_empty() && name.chars().all(plain),
                _ => ethtool_names(part).contains(&name),
            };
            return if known { Ok(Self::Ethtool(part, name.to_owned())) } else { Err(unknown()) };
        }
        Err(unknown())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sysctl(name) => write!(f, "sysctl.{name}"),
            Self::Service(name) => write!(f, "service.{name}"),
            Self::Napi(name) => write!(f, "nic.napi.{name}"),
            Self::Ethtool(EthtoolPart::Eee, _) => f.write_str(EEE),
            Self::Ethtool(part, name) => write!(f, "nic.{}.{name}", part.word()),
            Self::Machine(setting) => setting.fmt(f),
            Self::Queues(setting) => setting.fmt(f),
        }
    }
}

impl Key {
    pub fn is_of_nic(&self) -> bool {
        matches!(self, Self::Ethtool(..) | Self::Napi(_) | Self::Queues(_))
    }

    /// A value in the one way that it is kept; an error when the setting cannot have it.
    pub fn value(&self, given: &str) -> Result<String, TuneError> {
        let given = given.trim();
        let wrong = |why: &str| TuneError::Wrong(format!("{self}={given}: {why}"));
        if given.is_empty() || given.len() > 4096 || given.chars().any(|c| c.is_control() && c != '\t') {
            return Err(wrong("a value is one line"));
        }
        let number = |least: u64, most: u64| match given.parse::<u64>() {
            Ok(value) if (least..=most).contains(&value) => Ok(value.to_string()),
            _ => Err(wrong(&format!("a number from {least} to {most}"))),
        };
        let one_of = |words: &[&str]| {
            if words.contains(&given) { Ok(given.to_owned()) } else { Err(wrong(&words.join(", "))) }
        };
        let switch = || match given {
            "on" | "1" | "yes" | "true" => Ok("on".to_owned()),
            "off" | "0" | "no" | "false" => Ok("off".to_owned()),
            _ => Err(wrong("on or off")),
        };
        let word = || {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if given.chars().all(plain) { Ok(given.to_owned()) } else { Err(wrong("one word")) }
        };
        match self {
            Self::Sysctl(_) => Ok(given.split_ascii_whitespace().collect::<Vec<_>>().join(" ")),
            Self::Machine(setting) => match setting.row().takes {
                ValueKind::OneOf(words) => one_of(words),
                ValueKind::Number(least, most) => number(least, most),
                ValueKind::Switch => switch(),
                ValueKind::Word => word(),
                ValueKind::NumberOrSwitch(least, most) => match given {
                    "on" => Ok("1".to_owned()),
                    "off" => Ok("0".to_owned()),
                    _ => number(least, most),
                },
            },
            Self::Service(name) if name == "irqbalance" => one_of(&["stopped", "running", "ban-cpus"]),
            Self::Service(_) => one_of(&["stopped", "running"]),
            Self::Ethtool(part, name) if is_switch(*part, name) => switch(),
            Self::Ethtool(EthtoolPart::Ring | EthtoolPart::Channels, _) if given == "max" => Ok(given.to_owned()),
            Self::Ethtool(..) => number(0, u32::MAX.into()),
            Self::Napi(name) if name == "threaded" => match given {
                "busy-poll" => Ok(given.to_owned()),
                _ => switch(),
            },
            Self::Napi(_) => number(0, u64::MAX),
            Self::Queues(setting @ (QueueSetting::RpsCpus | QueueSetting::XpsCpus | QueueSetting::IrqCpus)) => {
                match given {
                    "all" | "local" => Ok(given.to_owned()),
                    "none" if *setting != QueueSetting::IrqCpus => Ok(given.to_owned()),
                    list => list.parse().map(|cpus: CpuList| cpus.to_string()).map_err(|_| {
                        wrong("a CPU list such as 1,3-5, all, local (near the device) or, but for interrupts, none")
                    }),
                }
            }
            Self::Queues(QueueSetting::ThreadPolicy) => {
                given.parse().map(|policy: Policy| policy.to_string()).map_err(|error| wrong(&error.to_string()))
            }
            Self::Queues(QueueSetting::Flow) => {
                given.parse().map(|rule: FlowRule| rule.to_string()).map_err(|why: String| wrong(&why))
            }
        }
    }

    /// A setting with its key and value in the one way that they are kept.
    pub fn normal(setting: &Setting) -> Result<(Self, Setting), TuneError> {
        let key: Self = setting.key.parse()?;
        let value = key.value(&setting.value)?;
        let setting = Setting { key: key.to_string(), value };
        Ok((key, setting))
    }
}

/// A sysctl's name: words separated by dots, none of them a way out of /proc/sys.
fn sysctl(name: &str) -> Option<Key> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-:".contains(c);
    let good = name.contains('.') && name.split('.').all(|word| !word.is_empty() && word.chars().all(plain));
    good.then(|| Key::Sysctl(name.to_owned()))
}

/// `: did you mean '…'?` for the known key that differs least, if any is near.
fn nearest(text: &str) -> String {
    let machine = MachineSetting::ALL.into_iter().map(|setting| setting.to_string());
    let queues = QueueSetting::ALL.into_iter().map(|setting| setting.to_string());
    let mut candidates: Vec<String> = machine.chain(queues).chain([EEE.to_owned()]).collect();
    candidates.extend(NAPI.iter().map(|name| format!("nic.napi.{name}")));
    for part in PARTS {
        candidates.extend(ethtool_names(part).iter().map(|name| format!("nic.{}.{name}", part.word())));
    }
    // Those with a free part: the head is compared, the rest is kept.
    for (head, dots) in [("sysctl", 1), ("service", 1), ("nic.feature", 2)] {
        let at = text.match_indices('.').nth(dots - 1).map(|(at, _)| at);
        if let Some(rest) = at.and_then(|at| text.get(at..)) {
            candidates.push(format!("{head}{rest}"));
        }
    }
    match model::words::nearest(text, candidates) {
        Some(known) if known != text => format!(": did you mean '{known}'?"),
        _ => ": see docs/tuning.md".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_and_printed() {
        for text in [
            "sysctl.net.core.busy_poll",
            "cpufreq.governor",
            "cpufreq.epp",
            "cpufreq.min-perf-percent",
            "cpufreq.boost",
            "cpuidle.latency-us",
            "memory.thp",
            "memory.thp-defrag",
            "memory.ksm",
            "sched.preempt",
            "service.irqbalance",
            "nic.coalesce.rx-usecs",
            "nic.ring.rx",
            "nic.channels.combined",
            "nic.feature.gro",
            "nic.pause.rx",
            "nic.eee",
            "nic.napi.threaded",
            "nic.rps-cpus",
            "nic.xps-cpus",
            "nic.irq-cpus",
            "nic.thread-policy",
            "nic.flow",
        ] {
            assert_eq!(text.parse::<Key>().unwrap().to_string(), text);
        }
        assert_eq!("vm.stat_interval".parse::<Key>().unwrap(), Key::Sysctl("vm.stat_interval".to_owned()));
    }

    #[test]
    fn an_unknown_key_names_the_nearest() {
        for (wrong, near) in [
            ("cpufreq.governer", "cpufreq.governor"),
            ("nic.coalesce.rx-usec", "nic.coalesce.rx-usecs"),
            ("nic.features.gro", "nic.feature.gro"),
            ("sysctrl.vm.stat_interval", "sysctl.vm.stat_interval"),
            ("nic.napi.thread", "nic.napi.threaded"),
            ("memory.tph", "memory.thp"),
        ] {
            let error = wrong.parse::<Key>().unwrap_err().to_string();
            assert!(error.contains(&format!("did you mean '{near}'")), "{error}");
        }
        for wrong in ["colour", "sysctl.../../etc/passwd", "sysctl.net..x", "service.-x", "nic.feature.", "sysctl.x"] {
            let error = wrong.parse::<Key>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("unknown setting '{wrong}'")), "{error}");
        }
    }

    #[test]
    fn values_are_checked() {
        let value = |key: &str, value: &str| key.parse::<Key>().unwrap().value(value);
        assert_eq!(value("nic.feature.gro", "1").unwrap(), "on");
        assert_eq!(value("nic.coalesce.adaptive-rx", "no").unwrap(), "off");
        assert_eq!(value("nic.ring.rx", "max").unwrap(), "max");
        assert_eq!(value("sysctl.net.ipv4.tcp_rmem", "1\t2  3").unwrap(), "1 2 3");
        assert_eq!(value("nic.irq-cpus", "1,2,3").unwrap(), "1-3");
        assert_eq!(value("nic.thread-policy", "FIFO:60").unwrap(), "fifo:60");
        assert_eq!(value("memory.ksm", "off").unwrap(), "0");
        for (key, wrong) in [
            ("nic.coalesce.rx-usecs", "max"),
            ("cpufreq.min-perf-percent", "101"),
            ("memory.thp", "sometimes"),
            ("sched.preempt", "rt"),
            ("service.sshd", "ban-cpus"),
            ("nic.irq-cpus", "none"),
            ("nic.thread-policy", "fifo:100"),
            ("nic.flow", "udp4"),
            ("sysctl.vm.swappiness", "1\n2"),
            ("cpufreq.governor", "../x"),
        ] {
            let error = value(key, wrong).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{key}={wrong}: ")), "{error}");
        }
    }
}
