//! Which kernel a cell is measured on: `DRIVER[:WHAT][ WORD…]`.

use crate::{ModelError, Setting};
use std::fmt;
use std::str::FromStr;

words! {
    "kernel driver";
    /// How a machine comes to a kernel.
    #[derive(Default)]
    pub enum KernelDriver {
        /// The kernel that runs already.
        #[default]
        Current = "current",
        /// Another preemption model of the kernel that runs (Documentation/scheduler, PREEMPT_DYNAMIC).
        Preempt = "preempt",
        /// A kernel in a virtual machine.
        Guest = "guest",
        /// kexec(8): a kernel started by the kernel that runs.
        Kexec = "kexec",
        /// An entry of GRUB's menu, for the next boot only.
        Grub = "grub",
        /// An entry of systemd-boot, for the next boot only.
        Bootctl = "bootctl",
    }
}

/// The setting of the preemption model.
pub const PREEMPT_KEY: &str = "sched.preempt";

/// The preemption models that a kernel may have (kernel/sched/core.c, preempt_modes).
pub const PREEMPT_MODELS: [&str; 4] = ["none", "voluntary", "full", "lazy"];

/// What a driver takes after its colon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operand {
    None,
    /// One of these words.
    Word(&'static [&'static str]),
    NameOrPath,
    Path,
    Entry,
}

/// What a driver takes and does.
struct DriverRule {
    operand: Operand,
    /// Whether each visit of it is a new boot.
    boots: bool,
    /// A value, for errors.
    example: &'static str,
    /// Why it takes no words for the kernel's command line, and what does; empty: it takes them.
    no_words: &'static str,
}

impl KernelDriver {
    const fn rule(self) -> DriverRule {
        const RUNS: &str = "the kernel runs already: boot one with them by kexec:PATH";
        const ENTRY: &str = "a boot entry has its own command line: make an entry with them, or use kexec:PATH";
        const GRUB: &str = "a boot entry has its own command line: make an entry with them, or use kexec:PATH; of an entry \
                            whose title has blanks give the id or the number";
        let (operand, boots, example, no_words) = match self {
            Self::Current => (Operand::None, false, "current", RUNS),
            Self::Preempt => (Operand::Word(&PREEMPT_MODELS), false, "preempt:full", RUNS),
            Self::Guest => (Operand::NameOrPath, true, "guest:debian-6.1 preempt=full", ""),
            Self::Kexec => (Operand::Path, true, "kexec:/boot/vmlinuz-6.1.0-49-amd64 threadirqs", ""),
            Self::Grub => (Operand::Entry, true, "grub:1>2", GRUB),
            Self::Bootctl => (Operand::Entry, true, "bootctl:debian-6.1.conf", ENTRY),
        };
        DriverRule { operand, boots, example, no_words }
    }
}

/// One kernel of a plan.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct KernelChoice {
    /// How the machine comes to it.
    pub driver: KernelDriver,
    /// Which kernel, model or entry; empty for `current`.
    pub what: String,
    /// Words added to the kernel's command line.
    pub words: Vec<String>,
}

impl KernelChoice {
    /// The setting that it is, where it needs no boot (`windhover tune`).
    pub fn setting(&self) -> Option<Setting> {
        let is_setting = self.driver == KernelDriver::Preempt;
        is_setting.then(|| Setting { key: PREEMPT_KEY.to_owned(), value: self.what.clone() })
    }

    /// Whether each visit of it is a new boot.
    pub const fn boots(&self) -> bool {
        self.driver.rule().boots
    }
}

impl fmt::Display for KernelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.driver.fmt(f)?;
        if !self.what.is_empty() {
            write!(f, ":{}", self.what)?;
        }
        self.words.iter().try_for_each(|word| write!(f, " {word}"))
    }
}

impl FromStr for KernelChoice {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let mut parts = text.split_whitespace();
        let first = parts.next().unwrap_or_default();
        let words: Vec<String> = parts.map(str::to_owned).collect();
        let (driver, what) = first.split_once(':').unwrap_or((first, ""));
        let driver: KernelDriver = driver.parse().map_err(|_| {
            let known = KernelDriver::ALL.map(|driver| driver.rule().example);
            crate::words::unknown("kernel", text, &known)
        })?;
        let rule = driver.rule();
        let refuse = |why: String| Err(ModelError::grammar("kernel", text, why));
        let such = format!("such as {}", rule.example);
        let takes = match rule.operand {
            Operand::None if !what.is_empty() => return refuse(format!("write {driver} alone")),
            Operand::Word(known) if !known.contains(&what) => {
                return refuse(format!("use {driver}:{}", crate::text::listed(known, "or")));
            }
            Operand::None | Operand::Word(_) => "",
            _ if what.is_empty() => return refuse(format!("{driver} needs to know which, {such}")),
            Operand::Path if !what.starts_with('/') => "the kernel's file with its whole path",
            Operand::NameOrPath if what.contains('/') && !what.starts_with('/') => {
                "a kernel's name, or its file with the whole path"
            }
            // The boot loader's tools would take it for an option.
            Operand::Entry if what.starts_with('-') => "an entry's id, which begins with no '-'",
            Operand::Path | Operand::NameOrPath | Operand::Entry => "",
        };
        if !takes.is_empty() {
            return refuse(format!("use {takes}, {such}"));
        }
        if !words.is_empty() && !rule.no_words.is_empty() {
            return refuse(format!("{driver} takes no words for the command line: {}", rule.no_words));
        }
        if let Some(word) = words.iter().find(|word| !is_plain(word)) {
            return refuse(format!(
                "'{word}' is no word of a kernel command line: use NAME or NAME=VALUE without quotes"
            ));
        }
        Ok(Self { driver, what: what.to_owned(), words })
    }
}

/// Whether the kernel takes a word as one parameter: a quote would join words, `--` begins those of init.
fn is_plain(word: &str) -> bool {
    word != "--" && word.chars().all(|c| c.is_ascii_graphic() && c != '"')
}

text! { KernelChoice {
    "type": "string",
    "pattern": format!("^({})(:[^ ]+)?( [^ ]+)*$", KernelDriver::ALL.map(KernelDriver::word).join("|")),
} }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for driver in KernelDriver::ALL {
            let rule = driver.rule();
            let kernel: KernelChoice = rule.example.parse().unwrap();
            assert_eq!((kernel.driver, kernel.to_string().as_str()), (driver, rule.example));
            assert_eq!(serde_json::from_value::<KernelChoice>(rule.example.into()).unwrap(), kernel);
        }
        let kernel: KernelChoice = " guest:debian-6.1   preempt=full  isolcpus=managed_irq,domain,1 ".parse().unwrap();
        assert_eq!((kernel.what.as_str(), kernel.words.len()), ("debian-6.1", 2));
        assert_eq!(kernel.to_string(), "guest:debian-6.1 preempt=full isolcpus=managed_irq,domain,1");
        assert_eq!(KernelChoice::default(), "current".parse().unwrap());
        assert_eq!("grub:Debian>6.1:rt".parse::<KernelChoice>().unwrap().what, "Debian>6.1:rt");
    }

    #[test]
    fn what_is_refused_and_what_to_write() {
        for (text, says) in [
            ("", "use current, preempt:full"),
            ("debian-6.1", "guest:debian-6.1"),
            ("vm:debian", "guest:debian-6.1"),
            ("current:6.1", "write current alone"),
            ("current threadirqs", "kexec:PATH"),
            ("preempt", "preempt:none, voluntary, full or lazy"),
            ("preempt:rt", "preempt:none, voluntary, full or lazy"),
            ("preempt:full threadirqs", "kexec:PATH"),
            ("guest", "guest:debian-6.1"),
            ("guest:", "guest:debian-6.1"),
            ("guest: debian", "guest:debian-6.1"),
            ("guest:boot/vmlinuz", "whole path"),
            ("kexec:vmlinuz", "whole path"),
            ("grub:--help", "begins with no '-'"),
            ("grub:0 threadirqs", "make an entry"),
            ("grub:Debian GNU/Linux", "give the id or the number"),
            ("bootctl:a.conf quiet", "make an entry"),
            ("guest:debian-6.1 a=\"b c\"", "without quotes"),
            ("kexec:/boot/vmlinuz --", "'--' is no word"),
        ] {
            let error = text.parse::<KernelChoice>().unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
