//! Debian packages: which are missing, and installing them.

use crate::{files, process};
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Installs the packages that are missing, saying first which. A machine that has them all is not touched.
pub(crate) fn ensure(wanted: &[&str], why: &str) -> Result<()> {
    let missing: Vec<&str> = wanted.iter().copied().filter(|package| !is_installed(package)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    println!("Debian packages to install ({why}): {}", missing.join(" "));
    if process::find("apt-get").is_none() {
        bail!("this is no Debian machine: install {} by hand", missing.join(", "));
    }
    if !process::is_root() {
        bail!("installing needs root: run 'apt-get install {}' first", missing.join(" "));
    }
    let install = || apt(&[&["install", "-y", "--no-install-recommends"], missing.as_slice()].concat());
    if install().is_err() {
        // A machine that has never asked its mirrors knows no package.
        apt(&["update"])?;
        install()?;
    }
    Ok(())
}

/// A folder that packages are unpacked into and not installed: of tools that would change how the machine boots.
pub(crate) fn unpacked(wanted: &[&str], name: &str) -> Result<PathBuf> {
    let folder = process::target().join(name);
    let done = folder.join("unpacked");
    if files::read(&done).is_ok_and(|list| list == wanted.join(" ")) {
        return Ok(folder);
    }
    files::fresh(&folder)?;
    let download = || {
        let mut apt = Command::new("apt-get");
        apt.args(["-q", "-o", "APT::Sandbox::User=root", "download"]).args(wanted);
        process::finish(apt.current_dir(&folder).stdin(Stdio::null()).stdout(Stdio::null()))
    };
    if download().is_err() {
        apt(&["update"])?;
        download()?;
    }
    let packages = files::listed(&folder)?;
    for package in &packages {
        process::run("dpkg", &["-x", &package.to_string_lossy(), &folder.to_string_lossy()])?;
    }
    files::write(&done, wanted.join(" "))?;
    Ok(folder)
}

fn apt(arguments: &[&str]) -> Result<()> {
    process::finish(
        Command::new("apt-get")
            .args(["-q", "-o", "Dpkg::Use-Pty=0"])
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            // Servers are installed to be started by tests, not at once (invoke-rc.d).
            .env("RUNLEVEL", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null()),
    )
}

fn is_installed(package: &str) -> bool {
    Command::new("dpkg-query")
        .args(["-W", "-f=${db:Status-Status}", package])
        .stderr(Stdio::null())
        .output()
        .is_ok_and(|output| output.stdout == b"installed")
}
