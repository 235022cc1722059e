//! The Debian package, by dpkg-deb.

use super::facts::Facts;
use super::{Contents, name, plans};
use crate::files::put;
use crate::{files, process};
use anyhow::{Context as _, Result, bail};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

const DESCRIPTION: &str = "Description: measure and prepare hosts for real-time networking
 Windhover measures what a message really experiences between two
 applications: round trips, one-way times, loss and jitter over TCP, UDP,
 reliable multicast (PGM) and ICMP, under load and behind a CPU shield. It
 says whether a figure can be trusted, compares kernels, network cards and
 settings by campaigns of interleaved measurements, and reports them as
 tables, heat maps and one HTML file.
";

/// How dpkg-deb compresses: well, or in short time.
pub(super) const SMALL: &str = "-Zxz";
pub(super) const FAST: &str = "-Zgzip";

/// Builds the package of this version into a folder and returns its path.
pub(super) fn build(contents: &Contents, facts: &Facts, version: &str, how: &str, into: &Path) -> Result<PathBuf> {
    fs::create_dir_all(into)?;
    let root = process::target().join("package/root");
    files::fresh(&root)?;
    fill(&root, contents, facts, version)?;
    control(&root, facts, version)?;
    let file = into.join(format!("windhover_{version}_{}.deb", facts.architecture));
    let arguments = ["--root-owner-group", how, "--threads-max=1", "-z6", "--build"];
    let mut command = process::command("dpkg-deb", &arguments);
    process::finish(command.arg(&root).arg(&file).envs(facts.environment()).stdout(Stdio::null()))?;
    Ok(file)
}

fn packaging(path: &str) -> Result<Vec<u8>> {
    let file = process::root().join("packaging").join(path);
    fs::read(&file).with_context(|| file.display().to_string())
}

fn fill(root: &Path, contents: &Contents, facts: &Facts, version: &str) -> Result<()> {
    const DOC: &str = "usr/share/doc/windhover";
    put(root, "usr/bin/windhover", &fs::read(&contents.binary)?, 0o755)?;
    for page in contents.generated("man")? {
        put_zipped(root, &format!("usr/share/man/man1/{}", name(&page)), &fs::read(&page)?)?;
    }
    for script in contents.generated("completions")? {
        let place = match name(&script).as_str() {
            "_windhover" => "usr/share/zsh/vendor-completions/_windhover",
            "windhover.fish" => "usr/share/fish/vendor_completions.d/windhover.fish",
            "windhover.bash" => "usr/share/bash-completion/completions/windhover",
            other => bail!("completions {other} have no place in a package"),
        };
        put(root, place, &fs::read(&script)?, 0o644)?;
    }
    for plan in plans()? {
        put(root, &format!("{DOC}/examples/campaigns/{}", name(&plan)), &fs::read(&plan)?, 0o644)?;
    }
    for (place, guide) in contents.guides()? {
        put(root, &format!("{DOC}/{place}"), &fs::read(&guide)?, 0o644)?;
    }
    put(root, &format!("{DOC}/copyright"), &fs::read(&contents.copyright)?, 0o644)?;
    put_zipped(root, &format!("{DOC}/changelog"), &fs::read(process::root().join("CHANGELOG.md"))?)?;
    put_zipped(root, &format!("{DOC}/changelog.Debian"), entry(facts, version)?.as_bytes())?;
    for unit in super::UNITS {
        put(root, &format!("usr/lib/systemd/system/{unit}"), &packaging(&format!("systemd/{unit}"))?, 0o644)?;
    }
    put(root, "etc/default/windhover-serve", &packaging("debian/windhover-serve.default")?, 0o644)
}

/// One entry of Debian's changelog.
fn entry(facts: &Facts, version: &str) -> Result<String> {
    let date = process::output("date", &["-u", "-R", "-d", &format!("@{}", facts.epoch)])?;
    Ok(format!(
        "windhover ({version}) unstable; urgency=medium\n\n  * What is new stands in changelog.gz.\n\n -- {MAINTAINER}  {date}"
    ))
}

const MAINTAINER: &str = "Windhover authors <windhover@example.org>";

fn control(root: &Path, facts: &Facts, version: &str) -> Result<()> {
    let (major, minor) = facts.glibc;
    let mut needs = vec![format!("libc6 (>= {major}.{minor})"), "passwd".to_owned()];
    for library in &facts.libraries {
        match library.as_str() {
            "libgcc_s.so.1" => needs.push("libgcc-s1".to_owned()),
            name if ["libc.so", "libm.so", "ld-linux"].iter().any(|begin| name.starts_with(begin)) => {}
            other => bail!("the binary is linked to {other}: which package has it?"),
        }
    }
    let mut sums = String::new();
    let mut bytes = 0;
    for file in files::below(root)? {
        let relative = file.strip_prefix(root)?.display().to_string();
        bytes += fs::metadata(&file)?.len();
        if !relative.starts_with("etc/") {
            let sum = process::output_in(root, "md5sum", &[&relative])?;
            sums.push_str(&sum);
        }
    }
    let mut control = format!(
        "Package: windhover\nVersion: {version}\nSection: net\nPriority: optional\nArchitecture: {}\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {}\nDepends: {}\n",
        facts.architecture,
        bytes.div_ceil(1024),
        needs.join(", ")
    );
    // `lab` and settings of network devices; traffic classes; the report's PDF needs none of them.
    let _ = writeln!(control, "Recommends: iproute2");
    let _ = writeln!(control, "Suggests: bash-completion, ethtool");
    control.push_str(DESCRIPTION);
    put(root, "DEBIAN/control", control.as_bytes(), 0o644)?;
    put(root, "DEBIAN/md5sums", sums.as_bytes(), 0o644)?;
    put(root, "DEBIAN/conffiles", b"/etc/default/windhover-serve\n", 0o644)?;
    for script in ["postinst", "prerm", "postrm"] {
        put(root, &format!("DEBIAN/{script}"), &packaging(&format!("debian/{script}"))?, 0o755)?;
    }
    Ok(())
}

/// Writes a file that gzip compresses, without name and time, to one that ends in .gz.
fn put_zipped(root: &Path, path: &str, bytes: &[u8]) -> Result<()> {
    put(root, path, bytes, 0o644)?;
    process::output_in(root, "gzip", &["-9", "-n", path]).map(drop)
}
