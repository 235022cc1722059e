//! Who uses whom: the table in ARCHITECTURE.md against `cargo metadata`, both ways.

use crate::{files, portable, process};
use anyhow::{Context as _, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The only crates that may hold unsafe code.
const UNSAFE_CRATES: [&str; 11] =
    ["clock", "task", "net", "netlink", "host", "bpf", "trace", "shim", "xsk", "exchange-c", "winpoint"];

/// Folders of modules, and what their files must not name: `report` is a line from stored runs to pages. `compare` writes its own
/// tables, so it names what they are made of. Sockets of the preload library's stack know nothing of the calls in front of them.
const LINE: [(&str, &[&str]); 4] = [
    ("crates/report/src/compare", &["say", "draw", "document", "html", "text", "Report"]),
    ("crates/report/src/say", &["draw", "sheet", "layout", "html", "markdown", "text", "csv", "Report"]),
    (
        "crates/report/src/draw",
        &["compare", "say", "sheet", "document", "layout", "html", "markdown", "text", "csv", "Report"],
    ),
    ("crates/shim/src/user", &["signal", "calls"]),
];

/// Files whose modules are in groups separated by blank lines; a module uses its own group and earlier ones.
const GROUPED: [(&str, &str); 2] =
    [("crates/digest/src/lib.rs", "crate::"), ("crates/shim/src/user/mod.rs", "super::")];

pub(crate) fn run() -> Result<()> {
    let table = table()?;
    let mut wrong = Vec::new();
    let used = used()?;
    for (name, uses) in &used {
        let Some(allowed) = table.get(name) else {
            wrong.push(format!("{name} is not in the table"));
            continue;
        };
        for other in uses {
            if !allowed.contains(other) && !allowed.contains("all") {
                wrong.push(format!("{name} uses {other}, which the table does not allow"));
            }
        }
        for other in allowed.difference(uses).filter(|other| *other != "all") {
            wrong.push(format!("{name} does not use {other}, which the table names"));
        }
    }
    for name in table.keys() {
        if !used.contains_key(name) {
            wrong.push(format!("the table names {name}, which is no crate"));
        }
    }
    wrong.extend(unsafe_outside()?);
    wrong.extend(against_the_line()?);
    for (list, root) in GROUPED {
        wrong.extend(against_the_groups(&process::root().join(list), root)?);
    }
    wrong.extend(portable::wrong()?);
    if !wrong.is_empty() {
        bail!("{} wrong:\n  {}", wrong.len(), wrong.join("\n  "));
    }
    println!("arrows: {} crates, all as in ARCHITECTURE.md", used.len());
    Ok(())
}

/// Rows such as `| stats | one line | - |` between the marks in ARCHITECTURE.md.
fn table() -> Result<BTreeMap<String, BTreeSet<String>>> {
    let text = std::fs::read_to_string(process::root().join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    let body = text
        .split_once("<!-- arrows -->")
        .and_then(|(_, rest)| rest.split_once("<!-- /arrows -->"))
        .context("ARCHITECTURE.md has no table between <!-- arrows --> marks")?
        .0;
    let mut table = BTreeMap::new();
    for line in body.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        // | floor | crate | one line | may use |
        let [_, _, name, _, uses, _] = cells.as_slice() else { continue };
        let Some(name) = name.strip_prefix('`').and_then(|name| name.strip_suffix('`')) else { continue };
        let uses = uses.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty() && name != "-");
        table.insert(name.to_owned(), uses.collect());
    }
    if table.is_empty() {
        bail!("the arrows table in ARCHITECTURE.md has no rows");
    }
    Ok(table)
}

/// Files that name a module which comes later on the line.
fn against_the_line() -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for (folder, later) in LINE {
        let files = files::below(&process::root().join(folder))?;
        if files.is_empty() {
            bail!("{folder} has no files: the rule is about nothing");
        }
        for file in files.into_iter().filter(|file| files::has_ending(file, "rs")) {
            let text = files::read(&file)?;
            let named = named(&text, "crate::");
            let named = later.iter().filter(|module| named.contains(**module));
            wrong.extend(named.map(|module| format!("{} names {module}, which comes after it", file.display())));
        }
    }
    Ok(wrong)
}

/// Files that name a module of a later group than their own in the `list` of modules.
fn against_the_groups(list: &Path, root: &str) -> Result<Vec<String>> {
    let text = files::read(list)?;
    let groups: Vec<Vec<&str>> = text.split("\n\n").map(modules).filter(|group| !group.is_empty()).collect();
    if groups.len() < 2 {
        bail!("{} has no groups of modules: the rule is about nothing", list.display());
    }
    let folder = list.parent().unwrap_or(list);
    let mut wrong = Vec::new();
    for file in files::below(folder)?.into_iter().filter(|file| file != list) {
        let module = file.strip_prefix(folder)?.iter().next().unwrap_or_default().to_string_lossy();
        let module = module.trim_end_matches(".rs");
        let Some(own) = groups.iter().position(|group| group.contains(&module)) else {
            wrong.push(format!("{} is in no group of {}", file.display(), list.display()));
            continue;
        };
        let text = files::read(&file)?;
        let named = named(&text, root);
        let later = groups.iter().skip(own + 1).flatten().filter(|later| named.contains(**later));
        wrong.extend(later.map(|later| format!("{} names {later}, which comes after it", file.display())));
    }
    Ok(wrong)
}

/// The modules that `mod` lines name.
fn modules(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';')).collect()
}

/// What a file takes from the root of its crate, or from the module above it: the names behind `root`, those of groups too.
fn named<'a>(text: &'a str, root: &str) -> BTreeSet<&'a str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut named = BTreeSet::new();
    for (_, rest) in text.match_indices(root).map(|(at, found)| text.split_at(at + found.len())) {
        let mut depth = 0_u32;
        let mut begins = true;
        for (at, c) in rest.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ if is_word(c) && begins && depth < 2 => {
                    let word = rest.get(at..).unwrap_or_default();
                    named.insert(word.split(|c| !is_word(c)).next().unwrap_or_default());
                }
                _ => {}
            }
            // A name of the group begins behind its brace or a comma; outside a group there is one name.
            begins = matches!(c, '{' | ',') && depth == 1 || begins && c.is_whitespace();
            if depth == 0 && !is_word(c) {
                break;
            }
        }
    }
    named
}

/// Normal and build dependencies between the crates of the workspace, by short name.
fn used() -> Result<BTreeMap<String, BTreeSet<String>>> {
    let text = process::output(&process::cargo(), &["metadata", "--format-version", "1", "--no-deps", "--locked"])?;
    let metadata: serde_json::Value = serde_json::from_str(&text).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let short = |name: &str| name.strip_prefix("windhover-").unwrap_or(name).to_owned();
    let mut used = BTreeMap::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
        let uses = dependencies
            .iter()
            .filter(|dependency| dependency["kind"] != "dev" && dependency["path"].is_string())
            .filter_map(|dependency| dependency["name"].as_str())
            .map(short)
            .collect();
        used.insert(short(name), uses);
    }
    Ok(used)
}

fn unsafe_outside() -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for folder in files::listed(&process::root().join("crates"))? {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if UNSAFE_CRATES.contains(&name.as_str()) {
            continue;
        }
        let library = folder.join("src");
        for file in files::below(&library)?.into_iter().filter(|file| files::has_ending(file, "rs")) {
            let text = files::read(&file)?;
            if text.lines().any(|line| line.contains("expect(unsafe_code") || line.contains("allow(unsafe_code")) {
                wrong.push(format!("{} allows unsafe code, which only floor 1 may hold", file.display()));
            }
        }
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_root_are_found_in_groups_and_alone() {
        // A module that is named in a group over several lines, or a word of a path behind another module's.
        let text = "use crate::a::say;\nuse crate::{\n    b::{text, c},\n    D, e,\n};\nlet f = crate::f(crate::g::h);";
        assert_eq!(named(text, "crate::").into_iter().collect::<Vec<_>>(), ["D", "a", "b", "e", "f", "g"]);
    }

    #[test]
    fn a_file_that_uses_a_later_group_is_named() {
        let folder = std::env::temp_dir().join(format!("xtask-arrows-{}", std::process::id()));
        let uses = [
            ("mod.rs", "//! Text.\n\nmod a;\nmod b;\n\nmod c;\n\npub use a::X;\n"),
            ("a.rs", "use super::b::Y;\nuse super::{c::Z, b};\n"),
            ("b.rs", "use super::a;\n"),
            ("c.rs", "use super::{a, b};\n"),
            ("d.rs", ""),
        ];
        std::fs::create_dir_all(&folder).unwrap();
        uses.iter().for_each(|(name, text)| std::fs::write(folder.join(name), text).unwrap());
        let wrong = against_the_groups(&folder.join("mod.rs"), "super::");
        std::fs::remove_dir_all(&folder).unwrap();
        let mut wrong = wrong.unwrap();
        wrong.sort();
        let ends = |at: usize, end| wrong.get(at).is_some_and(|line: &String| line.contains(end));
        assert!(
            wrong.len() == 2 && ends(0, "a.rs names c, which comes after it") && ends(1, "d.rs is in no group"),
            "{wrong:?}"
        );
    }
}
