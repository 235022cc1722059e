//! Starting programs and saying so.

use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The root of the checkout.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// A command in the root of the checkout.
pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// The cargo that runs this chore.
pub(crate) fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Runs a command with its output passed on; fails when it does.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<()> {
    eprintln!("$ {program} {}", arguments.join(" "));
    let status = command(program, arguments).status().with_context(|| format!("cannot start {program}"))?;
    if !status.success() {
        bail!("{program} {} ended with {status}", arguments.first().copied().unwrap_or_default());
    }
    Ok(())
}

/// Runs a command and returns what it printed; fails when it does.
pub(crate) fn output(program: &str, arguments: &[&str]) -> Result<String> {
    let output = command(program, arguments)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        bail!("{program} {} ended with {}", arguments.join(" "), output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("{program} printed something that is no text"))
}

/// Where a program is on the PATH.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// The folder that cargo builds into.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// Builds the binary in release mode and returns its path.
pub(crate) fn release_binary() -> Result<PathBuf> {
    run(&cargo(), &["build", "--release", "--locked", "--package", "windhover"])?;
    let binary = target().join("release/windhover");
    if !binary.is_file() {
        bail!("cargo built no {}", binary.display());
    }
    Ok(binary)
}

/// Whether this process runs as root.
pub(crate) fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        status.lines().any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(2) == Some("0"))
    })
}
