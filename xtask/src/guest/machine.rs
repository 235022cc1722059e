//! One boot of the guest: starting QEMU, waiting, taking what it wrote.

use super::{Bench, Boot};
use crate::process;
use anyhow::{Context as _, Result};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// CPUs of the guest; the tests shield number 3.
const CPUS: &str = "4";

/// How a guest ended.
pub(super) struct Ended {
    /// What the tests printed.
    pub(super) output: String,
    /// What the kernel printed.
    pub(super) console: String,
    pub(super) powered_off: bool,
    /// Whether the kernel panicked.
    pub(super) crashed: bool,
    /// How QEMU ended.
    pub(super) why: String,
}

/// Boots, waits for the guest to power off, and ends it when it does not.
pub(super) fn boot(bench: &Bench, boot: &Boot) -> Result<Ended> {
    let folder = bench.folder.join(boot.name);
    crate::files::create(&folder)?;
    let (console, output, errors) = (folder.join("console"), folder.join("tests"), folder.join("qemu"));
    let mut child = Command::new("qemu-system-x86_64")
        // Where TCG emulates cmpxchg16b, guests panic at random.
        .args(["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max,-cx16", "-smp", CPUS, "-m", "1024"])
        .args(["-nodefaults", "-display", "none", "-no-reboot"])
        .arg("-kernel")
        .arg(&bench.kernel.image)
        .arg("-initrd")
        .arg(&bench.initramfs)
        .args(["-append", &command_line(bench, boot)])
        .args(["-serial", &format!("file:{}", console.display())])
        .args(["-serial", &format!("file:{}", output.display())])
        .args(wire(boot.nics))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&errors).with_context(|| errors.display().to_string())?)
        .spawn()
        .context("cannot start qemu-system-x86_64")?;
    // The guest ends itself at its limit; QEMU is killed when even that does not come.
    let why = match process::wait(&mut child, boot.limit + Duration::from_secs(20))? {
        Some(status) if status.success() => "the guest ended".to_owned(),
        Some(status) => format!("QEMU ended with {status}: {}", text(&errors).trim()),
        None => format!("not done in {} s", boot.limit.as_secs()),
    };
    let console = text(&console);
    Ok(Ended {
        output: text(&output),
        powered_off: console.contains("reboot: Power down"),
        crashed: console.contains("Kernel panic"),
        console,
        why,
    })
}

fn command_line(bench: &Bench, boot: &Boot) -> String {
    let module = format!("{}::", boot.name);
    let chosen: Vec<&str> =
        bench.filters.iter().map(String::as_str).filter(|filter| filter.starts_with(&module)).collect();
    let tests = if chosen.is_empty() { module } else { chosen.join(",") };
    let limit = boot.limit.as_secs();
    // A crash ends the guest at once, by the reboot that QEMU is told not to do. A busy host's emulated timer can fail the
    // check at boot.
    format!(
        "console=ttyS0 quiet no_timer_check oops=panic panic=-1 {} windhover.limit={limit} windhover.tests={tests}",
        boot.parameters
    )
}

/// Network devices on one hub, with nothing outside of it. No boot from the network, which would cost seconds.
fn wire(nics: u32) -> Vec<String> {
    (0..nics)
        .flat_map(|nic| {
            [
                "-netdev".to_owned(),
                format!("hubport,id=wire{nic},hubid=0"),
                "-device".to_owned(),
                format!("e1000e,netdev=wire{nic},romfile="),
            ]
        })
        .collect()
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}
