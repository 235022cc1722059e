//! `cargo xtask lines`: how much product there is, by crate. One definition of what counts, so that figures of two days compare.

use crate::{files, process};
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::Path;

const LONG: usize = 600;

/// Lines of Rust that are not empty, of all files that git knows, with comments, without tests: the folders `tests`, `fuzz`
/// and `benches`, files `tests.rs`, and what follows `#[cfg(test)]` in front of a module with a body.
pub(crate) fn run() -> Result<()> {
    let mut by_crate: BTreeMap<String, usize> = BTreeMap::new();
    let mut long = Vec::new();
    for path in process::output("git", &["ls-files"])?.lines().filter(|path| is_product(Path::new(path))) {
        let lines = without_tests(&files::read(&process::root().join(path))?);
        *by_crate.entry(owner(path)).or_default() += lines;
        if lines > LONG {
            long.push((lines, path.to_owned()));
        }
    }
    let mut rows: Vec<_> = by_crate.into_iter().collect();
    rows.sort_by_key(|(_, lines)| std::cmp::Reverse(*lines));
    let sum: usize = rows.iter().map(|(_, lines)| lines).sum();
    rows.iter().for_each(|(name, lines)| println!("{lines:>7} {name}"));
    println!("{sum:>7} in all");
    long.sort_unstable_by(|a, b| b.cmp(a));
    long.iter().for_each(|(lines, path)| println!("more than {LONG}: {path} {lines}"));
    Ok(())
}

fn is_product(path: &Path) -> bool {
    const TESTS: [&str; 3] = ["tests", "fuzz", "benches"];
    let is_test = path.components().any(|part| TESTS.iter().any(|name| part.as_os_str() == *name));
    // What runs the tests is a part of xtask like others.
    let runs_tests = path.starts_with("xtask/src/tests");
    files::has_ending(path, "rs") && (runs_tests || !is_test && !path.ends_with("tests.rs"))
}

fn owner(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        ["crates", name, ..] | [name, ..] => (*name).to_owned(),
        [] => String::new(),
    }
}

fn without_tests(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |pair: &[&str]| {
        pair.first() == Some(&"#[cfg(test)]")
            && pair.get(1).is_some_and(|line| line.contains("mod ") && line.ends_with('{'))
    };
    let end = lines.windows(2).position(begins).unwrap_or(lines.len());
    lines.iter().take(end).filter(|line| !line.trim().is_empty()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: tests that count as product, and a product file that is taken for a test.
    #[test]
    fn tests_are_left_out() {
        assert_eq!(without_tests("a\n\n#[cfg(test)]\nmod tests {\n}\n"), 1);
        assert_eq!(without_tests("#[cfg(test)]\nmod tests;\nb\n"), 3);
        for (path, is) in [
            ("crates/net/src/tcp.rs", true),
            ("crates/net/tests/tcp.rs", false),
            ("crates/net/src/tcp/tests.rs", false),
            ("xtask/src/tests/guest/mod.rs", true),
            ("docs/net.md", false),
            ("crates/report/src/page.js", false),
        ] {
            assert_eq!(is_product(Path::new(path)), is, "{path}");
        }
        assert_eq!((owner("crates/net/src/a.rs"), owner("xtask/src/a.rs")), ("net".to_owned(), "xtask".to_owned()));
    }
}
