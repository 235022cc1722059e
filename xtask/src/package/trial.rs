//! The package's trial: lintian, units, and install, use, upgrade, remove, purge in a clean Debian root.

use super::UNITS;
use crate::files::{fresh, remove};
use crate::{packages, process};
use anyhow::{Context as _, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

const RELEASE: &str = "bookworm";
/// What the package recommends for labs.
const LABS: &str = "iproute2";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
const SYSTEM_UNITS: &str = "/usr/lib/systemd/system";
/// What the clean root has of its own.
const NAMESPACES: [&str; 8] = ["--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--propagation", "private"];
const SCRIPT: &str = include_str!("trial.sh");
/// Most that systemd-analyze may find open in the endpoint's unit, in tenths: 0 is none, 96 a unit without hardening.
const MOST_EXPOSED: &str = "40";

/// No error, and no warning but those that are known.
pub(super) fn lint(package: &Path) -> Result<()> {
    let mut arguments = vec!["--fail-on", "error", "--suppress-tags", "initial-upload-closes-no-bugs"];
    if process::is_root() {
        arguments.push("--allow-root");
    }
    let file = package.to_string_lossy();
    arguments.push(&file);
    process::run("lintian", &arguments)
}

/// Runs the package's life in a clean root; it is named where it cannot be.
pub(super) fn run(work: &Path, older: &Path, package: &Path) -> Result<()> {
    let can = process::is_root()
        && process::command("unshare", &["--mount", "--pid", "--net", "--fork", "true"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
    if !can {
        println!("SKIPPED the trial in a clean root: it needs root and namespaces");
        return Ok(());
    }
    let clean = clean_root(work)?;
    let root = work.join("trial");
    remove(&root)?;
    process::run("cp", &["--archive", "--reflink=auto", &clean.to_string_lossy(), &root.to_string_lossy()])?;
    for (file, place) in [(older, "older.deb"), (package, "newer.deb")] {
        fs::copy(file, root.join("tmp").join(place))?;
    }
    fs::write(root.join("tmp/trial.sh"), SCRIPT)?;
    let text = root.to_string_lossy();
    // `ip netns exec` changes how / is mounted: it has to be a mount.
    let enter = "mount --bind \"$0\" \"$0\" && mount -t proc proc \"$0/proc\" && mount -t tmpfs tmpfs \"$0/run\" && \
                 ip link set lo up && exec chroot \"$0\" /bin/sh -eu /tmp/trial.sh";
    process::run("unshare", &[&NAMESPACES[..], &["sh", "-c", enter, &text]].concat())?;
    units(&root, package)?;
    fs::remove_dir_all(&root).with_context(|| text.into_owned())
}

/// A Debian system with nothing but what every one has and what labs take; made once, its packages verified.
fn clean_root(work: &Path) -> Result<PathBuf> {
    let root = work.join(format!("root-{RELEASE}-{LABS}"));
    if root.is_dir() {
        return Ok(root);
    }
    packages::ensure(&["debootstrap", "debian-archive-keyring", "gpgv", "iproute2"], "for a clean Debian root")?;
    let part = work.join("root.part");
    fresh(&part)?;
    let keyring = format!("--keyring={KEYRING}");
    let more = format!("--include={LABS}");
    let mut arguments = vec!["--variant=minbase", "--force-check-gpg", &more, &keyring, RELEASE];
    let place = part.to_string_lossy();
    arguments.push(&place);
    let mirror = mirror();
    arguments.extend(mirror.as_deref());
    println!("making a clean Debian root with debootstrap (kept for the next time)");
    let output = process::command("debootstrap", &arguments).output().context("cannot start debootstrap")?;
    if !output.status.success() {
        bail!("debootstrap ended with {}:\n{}", output.status, String::from_utf8_lossy(&output.stdout));
    }
    fs::rename(&part, &root)?;
    Ok(root)
}

/// The archive that this machine's own packages come from.
fn mirror() -> Option<String> {
    let policy =
        process::output("apt-get", &["indextargets", "--format", "$(CODENAME) $(SITE)", "Created-By: Packages"])
            .ok()?;
    policy.lines().find_map(|line| line.strip_prefix(&format!("{RELEASE} "))).map(str::to_owned)
}

/// What systemd reports of the units, where there is one.
fn units(root: &Path, package: &Path) -> Result<()> {
    if process::find("systemd-analyze").is_none() {
        println!("SKIPPED systemd-analyze verify: it is not installed here");
        return Ok(());
    }
    // Unpacked, so that the program and the pages that they name are there.
    let place = root.join("units");
    fresh(&place)?;
    let text = place.to_string_lossy();
    process::run("dpkg-deb", &["-x", &package.to_string_lossy(), &text])?;
    let folder = place.join("usr/lib/systemd/system");
    // And this system's own units, which the package's refer to.
    let system = format!("{SYSTEM_UNITS}/.");
    process::run("cp", &["--archive", "--no-clobber", &system, &folder.to_string_lossy()])?;
    for unit in UNITS {
        let root = format!("--root={text}");
        let output = process::command("systemd-analyze", &[&root, "--man=no", "verify", unit]).output()?;
        let said = [output.stdout, output.stderr].concat();
        // It also tells what is wrong with units of the system.
        let said = String::from_utf8_lossy(&said).into_owned();
        let ours: Vec<&str> = said.lines().filter(|line| line.contains("windhover")).collect();
        ensure!(ours.is_empty(), "systemd-analyze verify: {}", ours.join("\n"));
    }
    let serve = folder.join("windhover-serve.service");
    let threshold = format!("--threshold={MOST_EXPOSED}");
    let arguments = ["security", "--offline=yes", "--no-pager", &threshold, &serve.to_string_lossy()];
    let output = process::command("systemd-analyze", &arguments).output().context("systemd-analyze")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "windhover-serve.service is more exposed than {MOST_EXPOSED}:\n{said}");
    println!("{}", said.lines().last().unwrap_or_default().trim());
    Ok(())
}
