//! Bringing this machine to another kernel for one boot: checking, loading or choosing it, and going down. The boot
//! loader's default stays.

mod grub;
mod kexec;

use crate::Kernel;
use host::boot::Down;
use model::kernel::PREEMPT_KEY;
use model::{KernelChoice, KernelDriver, KernelImage, Setting};
use std::path::{Path, PathBuf};
use std::time::Duration;

const TOOL_TIME: Duration = Duration::from_secs(30);
/// CAP_SYS_BOOT (linux/capability.h).
const SYS_BOOT: u32 = 22;

/// Why a machine does not come to a kernel. One line each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BootError {
    #[error("a boot needs root (CAP_SYS_BOOT): run the agent as root")]
    NotRoot,
    #[error("{what} is not there: {remedy}")]
    Missing { what: String, remedy: String },
    #[error("{what}: {remedy}")]
    Refused { what: String, remedy: String },
    #[error("{command} failed: {why}")]
    Tool { command: String, why: String },
    #[error("kernel '{0}' is none that a running machine can be brought to")]
    Other(KernelChoice),
}

fn missing<T>(what: impl Into<String>, remedy: impl Into<String>) -> Result<T, BootError> {
    Err(BootError::Missing { what: what.into(), remedy: remedy.into() })
}

fn refused<T>(what: impl Into<String>, remedy: impl Into<String>) -> Result<T, BootError> {
    Err(BootError::Refused { what: what.into(), remedy: remedy.into() })
}

/// The version of a kernel that this machine can boot. Changes nothing: a kexec kernel is loaded and unloaded.
pub fn check(machine: &Kernel, kernel: &KernelChoice) -> Result<KernelImage, BootError> {
    match kernel.driver {
        KernelDriver::Current => Ok(KernelImage::default()),
        KernelDriver::Preempt => preempt(machine, &kernel.what),
        KernelDriver::Guest => Err(BootError::Other(kernel.clone())),
        _ => {
            if machine.machine().is_running() && !machine.may(SYS_BOOT) {
                return Err(BootError::NotRoot);
            }
            match kernel.driver {
                KernelDriver::Kexec => kexec::check(machine, kernel),
                KernelDriver::Grub => grub::check(machine, &kernel.what),
                _ => bootctl(machine, &kernel.what),
            }
        }
    }
}

/// Loads a kernel, or chooses an entry for one boot; how to go down. `current` and `preempt` use the loader's default.
pub fn load(machine: &Kernel, kernel: &KernelChoice) -> Result<Down, BootError> {
    match kernel.driver {
        KernelDriver::Guest => return Err(BootError::Other(kernel.clone())),
        _ if machine.machine().is_running() && !machine.may(SYS_BOOT) => return Err(BootError::NotRoot),
        KernelDriver::Current | KernelDriver::Preempt => {}
        KernelDriver::Kexec => {
            kexec::load(machine, kernel)?;
            return Ok(Down::Kexec);
        }
        KernelDriver::Grub => grub::choose(machine, &kernel.what)?,
        KernelDriver::Bootctl => {
            bootctl(machine, &kernel.what)?;
            tool(machine, "bootctl", "use a machine that boots by systemd-boot", &["set-oneshot", &kernel.what])?;
        }
    }
    Ok(Down::Reboot)
}

/// Goes down: by systemd, which ends services and unmounts, or at once where none runs.
pub fn go_down(machine: &Kernel, down: Down) -> Result<(), BootError> {
    if machine.machine().is_directory("/run/systemd/system") {
        let verb = if down == Down::Kexec { "kexec" } else { "reboot" };
        return tool(machine, "systemctl", "install systemd", &["--no-block", verb]).map(drop);
    }
    host::boot::go_down(down)
        .map_err(|cause| BootError::Tool { command: "reboot(2)".to_owned(), why: cause.to_string() })
}

const DEBUGFS: &str = "/sys/kernel/debug";

pub const PREEMPT: &str = "/sys/kernel/debug/sched/preempt";

/// Whether the preemption model can be switched to `model`; what is wrong, with the remedy.
pub(crate) fn preempt(machine: &Kernel, model: &str) -> Result<KernelImage, BootError> {
    let setting = Setting { key: PREEMPT_KEY.to_owned(), value: model.to_owned() };
    let offered = match machine.machine().trimmed(PREEMPT) {
        Ok(text) => text,
        Err(_) if !machine.machine().is_directory(format!("{DEBUGFS}/sched")) => {
            return missing(
                format!("{DEBUGFS}/sched"),
                format!("for {setting} mount -t debugfs debugfs {DEBUGFS}, as root"),
            );
        }
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
            let remedy =
                format!("for {setting} boot a kernel with PREEMPT_DYNAMIC (older PREEMPT_RT kernels have no models)");
            return missing(PREEMPT, remedy);
        }
        Err(cause) => {
            // A kernel that is locked down refuses even to read it.
            let what = format!("{PREEMPT}: {cause}");
            lockdown(machine, &what)?;
            return refused(what, "run the agent as root, on a kernel without lockdown");
        }
    };
    let words: Vec<&str> = offered.split_ascii_whitespace().map(|word| word.trim_matches(['(', ')'])).collect();
    if !words.contains(&model) {
        return refused(
            format!("this kernel has no preemption model '{model}'"),
            format!("use one of: {}", words.join(", ")),
        );
    }
    lockdown(machine, &format!("{PREEMPT} cannot be written"))?;
    if machine.machine().is_running() && machine.denies(Path::new(PREEMPT)) {
        return refused(format!("{PREEMPT} cannot be written"), "run the agent as root");
    }
    Ok(KernelImage::default())
}

fn lockdown(machine: &Kernel, what: &str) -> Result<(), BootError> {
    let levels = machine.machine().trimmed("/sys/kernel/security/lockdown").unwrap_or_default();
    match host::knob::Form::Choice.value(&levels).as_str() {
        "" | "none" => Ok(()),
        level => refused(
            format!("{what}: the kernel is locked down ({level})"),
            "boot with lockdown=none, or without Secure Boot",
        ),
    }
}

fn bootctl(machine: &Kernel, entry: &str) -> Result<KernelImage, BootError> {
    if !machine.machine().is_directory("/sys/firmware/efi") {
        return missing("/sys/firmware/efi", "systemd-boot needs UEFI: use kexec:PATH or grub:ENTRY");
    }
    let listed = tool(machine, "bootctl", "install systemd-boot, or use kexec:PATH", &["list", "--json=short"])?;
    let entries = listed_entries(&listed).map_err(|error| BootError::Tool {
        command: "bootctl list --json=short".to_owned(),
        why: format!("its answer cannot be read ({error})"),
    })?;
    let id = |listed: &serde_json::Value| listed["id"].as_str().map(str::to_owned);
    let Some(found) = entries.iter().find(|listed| id(listed).as_deref() == Some(entry)) else {
        let known: Vec<String> = entries.iter().filter_map(id).collect();
        return missing(format!("entry '{entry}' of systemd-boot"), format!("use one of: {}", known.join(", ")));
    };
    let (root, linux) = (found["root"].as_str().unwrap_or("/boot"), found["linux"].as_str().unwrap_or_default());
    image_at(machine, &[Path::new(root).join(linux.trim_start_matches('/'))])
}

/// The entries that bootctl(1) lists: systemd 252 prints one object after the other, later ones print them as one array.
fn listed_entries(text: &str) -> serde_json::Result<Vec<serde_json::Value>> {
    let mut entries = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter() {
        match value? {
            serde_json::Value::Array(all) => entries.extend(all),
            entry => entries.push(entry),
        }
    }
    Ok(entries)
}

/// The version in the first of these kernel files that exists.
fn image_at(machine: &Kernel, places: &[PathBuf]) -> Result<KernelImage, BootError> {
    let Some(path) = places.iter().find(|path| machine.machine().exists(path)) else {
        let named = places.first().map(|path| path.display().to_string()).unwrap_or_default();
        return missing(format!("the kernel {named} of the entry"), "install it, or use another entry");
    };
    let read = host::boot::kernel_version(&machine.machine().path(path));
    Ok(read.ok().flatten().map_or_else(KernelImage::default, |(release, version)| KernelImage {
        release: Some(release),
        version: Some(version).filter(|version| !version.is_empty()),
        ..KernelImage::default()
    }))
}

fn tool(machine: &Kernel, name: &str, remedy: &str, arguments: &[&str]) -> Result<String, BootError> {
    let Some(program) = machine.program(name) else { return missing(format!("program {name}"), remedy) };
    let command = format!("{name} {}", arguments.join(" "));
    let failed = |why: String| BootError::Tool { command: command.clone(), why };
    let ended = task::Launch::new(program).args(arguments.iter().copied()).finish(b"", TOOL_TIME);
    let answer = ended.map_err(|error| failed(error.to_string()))?;
    if !answer.status.success() {
        let words = String::from_utf8_lossy(&answer.stderr);
        let words = words.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no reason given");
        return Err(failed(words.to_owned()));
    }
    Ok(String::from_utf8_lossy(&answer.stdout).into_owned())
}
