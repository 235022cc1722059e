//! `cargo xtask package`: a Debian package and a relocatable archive of the same `dist` build, with checksums; then a trial
//! of the package in a clean Debian root. One commit gives the same bytes, wherever the checkout is.

mod archive;
mod copyright;
mod deb;
mod facts;
mod trial;

use crate::files::{fresh, has_ending, listed};
use crate::tests::guest::image;
use crate::{packages, process};
use anyhow::{Context as _, Result, ensure};
use facts::Facts;
use std::fs;
use std::path::{Path, PathBuf};

/// What the binary has at most; CONTRIBUTING.md has what it consists of, and why it is not 12 MB.
const LIMIT_BYTES: u64 = 16_600_000;
/// The newest glibc that the binary may ask for; README.md names it.
const NEWEST_GLIBC: (u32, u32) = (2, 35);
const UNITS: [&str; 4] =
    ["windhover-resume.service", "windhover-serve.service", "windhover-tune.service", "windhover-undo.service"];
const TOOLS: [&str; 3] = ["binutils", "dpkg-dev", "lintian"];

#[derive(clap::Args, Default)]
pub(crate) struct Arguments {
    /// Only build; leave out lintian and the trial in a clean root.
    #[arg(long)]
    no_trial: bool,
    /// Package the binary that the tests run: quick, for a look at the package itself. Size and paths are not judged.
    #[arg(long)]
    quick: bool,
}

impl Arguments {
    /// All but the long build, as CI does it.
    pub(crate) fn quick() -> Self {
        Self { no_trial: false, quick: true }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    packages::ensure(&TOOLS, "for the package")?;
    let work = process::target().join("package");
    let binary = if arguments.quick { stripped(&work)? } else { build()? };
    let facts = Facts::read(&binary)?;
    check(&binary, &facts, arguments.quick)?;
    let out = work.join("out");
    fresh(&out)?;
    let contents = Contents::make(&work.join("contents"), &binary, &facts)?;
    let how = if arguments.quick { deb::FAST } else { deb::SMALL };
    let package = deb::build(&contents, &facts, &facts.version, how, &out)?;
    let again = deb::build(&contents, &facts, &facts.version, how, &work.join("again"))?;
    ensure!(fs::read(&package)? == fs::read(&again)?, "two packages of one binary differ: {}", again.display());
    let archive = archive::build(&contents, &facts, &out)?;
    let names = [&package, &archive].map(|file| name(file));
    let sums = process::output_in(&out, "sha256sum", &names.each_ref().map(String::as_str))?;
    fs::write(out.join("SHA256SUMS"), &sums)?;
    print!("{sums}");
    if !arguments.no_trial {
        trial::lint(&package)?;
        let older = deb::build(&contents, &facts, "0.0.1-1", deb::FAST, &work.join("older"))?;
        trial::run(&work, &older, &package)?;
    }
    println!("in {}: {} and SHA256SUMS", out.display(), names.join(", "));
    Ok(())
}

/// Builds the binary that is handed out. It names no folder of this machine.
fn build() -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo"))).context("no HOME")?;
    let hidden = [(home.join("registry/src"), "registry"), (process::root(), "windhover")];
    let hidden = hidden.iter().map(|(folder, name)| format!("--remap-path-prefix={}={name}", folder.display()));
    let flags: Vec<String> = hidden.chain(["-Clink-arg=-Wl,--icf=all".to_owned()]).collect();
    let cargo = process::cargo();
    let arguments = ["build", "--profile", "dist", "--locked", "--package", "windhover"];
    eprintln!("$ {cargo} {}", arguments.join(" "));
    // Separated by units (0x1f), so that folders may have blanks.
    let mut command = process::command(&cargo, &arguments);
    process::finish(command.env_remove("RUSTFLAGS").env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}")))?;
    Ok(process::target().join("dist/windhover"))
}

fn stripped(work: &Path) -> Result<PathBuf> {
    // Built with them: alone it would have other features of its libraries, and take a minute.
    let built = image::build()?;
    let folder = work.join("quick");
    fresh(&folder)?;
    image::stripped(&built.binary, &folder)
}

/// The glibc that the binary needs; its size, and that it names no folder of this machine.
fn check(binary: &Path, facts: &Facts, quick: bool) -> Result<()> {
    let bytes = fs::read(binary).with_context(|| binary.display().to_string())?;
    let size = u64::try_from(bytes.len())?;
    let (major, minor) = facts.glibc;
    println!("windhover {}: {:.1} MB, needs glibc {major}.{minor} or newer", facts.version, size as f64 / 1e6);
    ensure!(facts.glibc <= NEWEST_GLIBC, "the binary needs a newer glibc than README.md says: {NEWEST_GLIBC:?}");
    if quick {
        return Ok(());
    }
    fits(size)?;
    let here = process::root().display().to_string();
    let named = bytes.windows(here.len()).any(|window| window == here.as_bytes());
    ensure!(!named, "{} names {here}: build it by 'cargo xtask package'", binary.display());
    Ok(())
}

fn fits(size: u64) -> Result<()> {
    let [size_mb, limit_mb] = [size, LIMIT_BYTES].map(|bytes| bytes as f64 / 1e6);
    ensure!(
        size <= LIMIT_BYTES,
        "the binary has {size_mb:.2} MB, the limit is {limit_mb:.2} MB: CONTRIBUTING.md shows how to find what grew"
    );
    Ok(())
}

/// What both the package and the archive hold, as files on disk.
struct Contents {
    binary: PathBuf,
    /// Man pages and completions, as `windhover generate` writes them.
    generated: PathBuf,
    copyright: PathBuf,
}

impl Contents {
    fn make(folder: &Path, binary: &Path, facts: &Facts) -> Result<Self> {
        fresh(folder)?;
        let generated = folder.join("generated");
        process::run(&binary.to_string_lossy(), &["generate", &generated.to_string_lossy()])?;
        let copyright = folder.join("copyright");
        fs::write(&copyright, copyright::text(&facts.crates)?)?;
        Ok(Self { binary: binary.to_path_buf(), generated, copyright })
    }

    fn generated(&self, folder: &str) -> Result<Vec<PathBuf>> {
        listed(&self.generated.join(folder))
    }

    /// The guides and references, each with its place in the source tree, so that their links hold.
    fn guides(&self) -> Result<Vec<(String, PathBuf)>> {
        let docs = process::root().join("docs");
        let mut found = Vec::new();
        for (folder, place) in
            [(docs.clone(), ""), (docs.join("compare"), "compare/"), (self.generated.clone(), "generated/")]
        {
            let files = listed(&folder)?.into_iter().filter(|file| has_ending(file, "md"));
            found.extend(files.map(|file| (format!("{place}{}", name(&file)), file)));
        }
        Ok(found)
    }
}

fn plans() -> Result<Vec<PathBuf>> {
    Ok(listed(&process::root().join("campaigns"))?.into_iter().filter(|file| has_ending(file, "toml")).collect())
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Would catch a limit that is only printed: the command ended with 0 then.
    #[test]
    fn a_binary_above_the_limit_is_an_error() {
        assert!(fits(LIMIT_BYTES).is_ok());
        let error = fits(LIMIT_BYTES + 10_000).map_err(|error| error.to_string());
        assert!(error.is_err_and(|text| text.contains("16.61 MB")));
    }
}
