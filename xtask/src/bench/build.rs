//! What a first build costs: `cargo build --release -p windhover` into an empty folder, as a newcomer's first command does it.

use super::{Output, children_s};
use crate::{files, process};
use anyhow::{Context as _, Result};
use std::fmt::Write as _;
use std::time::Instant;

/// User and system time of all compilers together, on a machine that does nothing else.
const GOAL_CPU_S: f64 = 360.0;
/// From the command to the binary, on two CPUs.
const GOAL_WALL_S: f64 = 195.0;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    output: Output,
}

/// Builds, and prints the times beside their goals. cargo's own list of units and seconds stays in the folder.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let folder = process::target().join("bench-build");
    files::fresh(&folder)?;
    let cargo = process::cargo();
    let mut build =
        process::command(&cargo, &["build", "--release", "--locked", "--package", "windhover", "--timings"]);
    let (before, began) = (children_s()?, Instant::now());
    process::finish(build.env("CARGO_TARGET_DIR", &folder).env_remove("RUSTFLAGS"))?;
    let (wall_s, cpu_s) = (began.elapsed().as_secs_f64(), children_s()? - before);
    let binary = folder.join("release/windhover");
    let size = binary.metadata().with_context(|| binary.display().to_string())?.len();
    let mut text = String::from("| first build | seconds | goal | |\n|---|---|---|---|\n");
    for (what, seconds, goal) in [("user + system", cpu_s, GOAL_CPU_S), ("wall", wall_s, GOAL_WALL_S)] {
        let judged = if seconds <= goal { "met" } else { "missed" };
        let _ = writeln!(text, "| {what} | {seconds:.0} | {goal:.0} | {judged} |");
    }
    let _ = writeln!(
        text,
        "\nThe binary has {:.1} MB. Units: {}",
        size as f64 / 1e6,
        folder.join("cargo-timings").display()
    );
    arguments.output.publish(&text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests panic")]

    use crate::{files, process};
    use std::collections::BTreeSet;
    use toml::{Table, Value};

    fn read(name: &str) -> Table {
        files::read(&process::root().join(name)).unwrap().parse().unwrap()
    }

    fn profiles() -> Table {
        read("Cargo.toml")["profile"].as_table().unwrap().clone()
    }

    fn packages_of(profile: &Value) -> impl Iterator<Item = (&String, &Value)> {
        profile.get("package").and_then(Value::as_table).into_iter().flatten()
    }

    /// Would catch a crate that was renamed or removed: cargo only warns, and its loops are not optimized from then on.
    #[test]
    fn profiles_name_packages_that_exist() {
        let lock = read("Cargo.lock");
        let known: BTreeSet<&str> =
            lock["package"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        for (name, profile) in profiles() {
            for (package, _) in packages_of(&profile).filter(|(package, _)| *package != "*") {
                assert!(known.contains(package.as_str()), "[profile.{name}.package.{package}]: no such package");
            }
        }
    }

    /// Would catch what made a first build three times as long and its binary 153 MB: all crates optimized (also those that
    /// only run in the compiler, which `"*"` means too), debug information, and symbols.
    #[test]
    fn a_first_build_optimizes_only_where_messages_pass() {
        let profiles = profiles();
        let release = &profiles["release"];
        assert_eq!(release["opt-level"].as_integer(), Some(0));
        assert_eq!(release["debug"].as_bool(), Some(false));
        assert_eq!(release["strip"].as_str(), Some("symbols"));
        for (name, profile) in &profiles {
            for (package, settings) in packages_of(profile) {
                let is_optimized = settings.get("opt-level").is_some();
                assert!(
                    package != "*" || !is_optimized,
                    "profile {name}: {package} is the compiler's own helpers, too"
                );
                assert_ne!(package, "windhover", "profile {name}: cargo does not strip {package} then");
            }
        }
        for package in ["clock", "endpoint", "flow", "net", "pgm-io", "probe", "record", "stats", "xsk"] {
            let level = packages_of(release).find(|(name, _)| name.strip_prefix("windhover-") == Some(package));
            assert_eq!(level.and_then(|(_, level)| level["opt-level"].as_integer()), Some(3), "{package}");
        }
    }

    /// Would catch that what took 100 s of a first build for a small part of it comes back: libzstd's C for one file, tables of
    /// fonts that no picture uses, time zones for a date in UTC.
    #[test]
    fn a_first_build_has_none_of_the_slow_libraries() {
        let arguments =
            ["tree", "--locked", "--offline", "--package", "windhover", "--edges", "normal,build", "--prefix", "none"];
        let tree = process::output(&process::cargo(), &arguments).unwrap();
        let names: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
        assert!(names.contains("windhover-model"), "{tree}");
        for heavy in ["zstd-sys", "read-fonts", "jiff"] {
            assert!(!names.contains(heavy), "{heavy} is back: cargo tree --invert {heavy} says who brings it");
        }
    }
}
