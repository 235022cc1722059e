//! One boot of the guest, by `windhover lab boot`: waiting, and taking what it wrote.

use super::{Bench, Boot};
use crate::process;
use anyhow::{Context as _, Result};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long it may take beyond its tests: a kernel is fetched once.
const BOOTING: Duration = Duration::from_secs(1200);

pub(super) struct Ended {
    pub(super) output: String,
    pub(super) console: String,
    pub(super) powered_off: bool,
    pub(super) crashed: bool,
    /// What windhover said last, and its status.
    pub(super) why: String,
}

/// Boots and waits until the tests have run, or for the limit.
pub(super) fn boot(bench: &Bench, boot: &Boot) -> Result<Ended> {
    let folder = bench.folder.join(boot.name);
    crate::files::fresh(&folder)?;
    let (console, output, errors) = (folder.join("console"), folder.join("tests"), folder.join("windhover"));
    let create = |path: &Path| File::create(path).with_context(|| path.display().to_string());
    let mode = if boot.cpus == 1 { "icount" } else { "tcg" };
    let mut child = Command::new(&bench.image.binary)
        .args(["lab", "boot", boot.kernel, "--mode", mode, "--cpus", &boot.cpus.to_string()])
        .args(["--memory-mb", "1024", "--hosts", "0", "--limit", &boot.limit.as_secs().to_string()])
        .args(boot.modules.iter().flat_map(|module| ["--module", module]))
        .arg("--overlay")
        .arg(&bench.image.overlay)
        .arg("--console")
        .arg(&console)
        .args(boot.parameters.split_ascii_whitespace().flat_map(|word| ["--word", word]))
        .args(boot.nic.into_iter().flat_map(|nic| ["--nic", nic]))
        // What tests print is between the harness's lines.
        .args(["--", "/bin/sh", "-c", "exec \"$0\" \"$@\" 2>&1", "/usr/bin/guest-tests"])
        .args(["--ignored", "--test-threads=1", "--nocapture"])
        .args(tests(bench, boot))
        .stdin(Stdio::null())
        .stdout(create(&output)?)
        .stderr(create(&errors)?)
        .spawn()
        .with_context(|| format!("cannot start {}", bench.image.binary.display()))?;
    let why = match process::wait(&mut child, boot.limit + BOOTING)? {
        Some(status) => format!("{status}: {}", text(&errors).lines().next_back().unwrap_or_default()),
        None => "not done in time".to_owned(),
    };
    // Of a guest that could not even start it is kept elsewhere, which the errors name.
    let console = text(&console);
    Ok(Ended {
        output: text(&output),
        powered_off: console.contains("reboot: Power down"),
        crashed: console.contains("Kernel panic") || why.contains("Kernel panic"),
        console,
        why,
    })
}

fn tests(bench: &Bench, boot: &Boot) -> Vec<String> {
    let module = format!("{}::", boot.name);
    let chosen: Vec<String> = bench.filters.iter().filter(|filter| filter.starts_with(&module)).cloned().collect();
    if chosen.is_empty() { vec![module] } else { chosen }
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}
