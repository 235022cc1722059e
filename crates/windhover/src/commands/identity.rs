//! What this program is: its version, its build, its own file.

use anyhow::Context as _;
use std::hash::Hasher as _;
use std::path::PathBuf;

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) fn executable() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot find this program's own file")
}

/// What `--version` prints: the version, and the fingerprint by which agents compare builds.
pub(crate) fn long_version() -> anyhow::Result<String> {
    Ok(format!("windhover {VERSION} (build {})", fingerprint()?))
}

pub(crate) fn tool() -> String {
    format!("windhover {VERSION}")
}

/// The version and the fingerprint, so that both ends of a campaign are known to be the same build.
pub(crate) fn build() -> anyhow::Result<String> {
    Ok(format!("{VERSION}-{}", fingerprint()?))
}

/// 16 hexadecimal digits of this executable's file, to distinguish builds; no protection against forgery.
fn fingerprint() -> anyhow::Result<String> {
    let path = executable()?;
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut hasher = std::collections::hash_map::DefaultHasher::new();
    hasher.write(&bytes);
    Ok(format!("{:016x}", hasher.finish()))
}

pub(crate) fn probe_context(
    stop: &super::signals::StopFlag,
    started: std::time::Instant,
) -> anyhow::Result<probe::Context> {
    let mut context = probe::Context::new(executable()?, tool());
    context.stop = stop.share();
    context.started = started;
    Ok(context)
}
