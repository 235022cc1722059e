//! winpoint and what it is made of use nothing of Unix: checked in each run, because the program is built for Windows on demand only.

use crate::{files, process};
use anyhow::Result;
use std::path::PathBuf;

/// The program, and what it is built for.
pub(crate) const PACKAGE: &str = "windhover-winpoint";
pub(crate) const TARGET: &str = "x86_64-pc-windows-gnu";
/// Packages that only Unix has, or that no program for Windows needs.
const UNIX_PACKAGES: [&str; 7] =
    ["libc", "nix", "rustix", "linux-raw-sys", "signal-hook", "signal-hook-registry", "errno"];
/// What sources must not name.
const UNIX_NAMES: [&str; 6] = ["os::unix", "os::fd", "os::linux", "libc::", "nix::", "rustix::"];
/// An item behind this line is not built for Windows: the crate is used without the feature.
const LEFT_OUT: &str = "#[cfg(feature = \"raw\")]";

/// What is wrong, one line each.
pub(crate) fn wrong() -> Result<Vec<String>> {
    let arguments =
        ["tree", "--locked", "--package", PACKAGE, "--target", TARGET, "--edges", "normal", "--prefix", "none"];
    let tree = process::output(&process::cargo(), &arguments)?;
    let mut wrong: Vec<String> =
        unix_packages(&tree).map(|package| format!("{PACKAGE} depends on {package}, which is of Unix")).collect();
    let folders = own_folders(&tree);
    if folders.len() < 2 {
        wrong.push(format!("cargo tree names {} folders of the workspace under {PACKAGE}", folders.len()));
    }
    for folder in folders {
        for file in files::below(&folder.join("src"))?.into_iter().filter(|file| files::has_ending(file, "rs")) {
            // Tests run on Linux.
            if file.components().any(|part| part.as_os_str() == "tests") || file.ends_with("tests.rs") {
                continue;
            }
            let text = files::read(&file)?;
            let name = file.strip_prefix(process::root()).unwrap_or(&file).display().to_string();
            wrong.extend(unix_names(&text).map(|(line, what)| format!("{name}:{line}: uses {what}, which is of Unix")));
        }
    }
    Ok(wrong)
}

fn unix_packages(tree: &str) -> impl Iterator<Item = &str> {
    let mut found: Vec<&str> =
        tree.lines().filter_map(|line| line.split(' ').next()).filter(|name| UNIX_PACKAGES.contains(name)).collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter()
}

/// Folders of the crates of this workspace in a tree: `name v0.1.0 (/path)`.
fn own_folders(tree: &str) -> Vec<PathBuf> {
    let path = |line: &str| {
        line.split_once(" (/").and_then(|(_, rest)| rest.split_once(')')).map(|(path, _)| format!("/{path}"))
    };
    let mut folders: Vec<PathBuf> = tree.lines().filter_map(path).map(PathBuf::from).collect();
    folders.sort();
    folders.dedup();
    folders
}

/// Lines outside tests that name something of Unix.
fn unix_names(text: &str) -> impl Iterator<Item = (usize, &'static str)> {
    let mut before = "";
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line == "#[cfg(test)]" {
            // The tests are the end of a file.
            break;
        }
        let is_comment = line.starts_with("//");
        if !is_comment && before != LEFT_OUT {
            found.extend(UNIX_NAMES.into_iter().find(|name| line.contains(name)).map(|name| (number, name)));
        }
        before = line;
    }
    found.into_iter()
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn what_is_of_unix_is_found_by_line() {
        // A check that never finds anything, or that takes a comment or a test for the program.
        let text = "use std::io;\n// std::os::unix is not for us\nuse std::os::unix::net;\n#[cfg(feature = \"raw\")]\n\
                    use nix::errno::Errno;\nlet a = libc::c_int;\n#[cfg(test)]\nmod tests { use std::os::fd::AsFd; }\n";
        let found: Vec<_> = unix_names(text).collect();
        assert_eq!(found, [(3, "os::unix"), (6, "libc::")]);
        let tree =
            "windhover-a v0.1.0 (/w/crates/a)\nlibc v0.2.1\nwindhover-b v0.1.0 (/w/crates/b) (*)\nlibc v0.2.1 (*)\n";
        assert_eq!(unix_packages(tree).collect::<Vec<_>>(), ["libc"]);
        assert_eq!(own_folders(tree), [PathBuf::from("/w/crates/a"), PathBuf::from("/w/crates/b")]);
    }
}
