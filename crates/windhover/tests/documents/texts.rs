//! What the documents hold beside command lines: settings, words, generated pages, recipes, the width of lines.

use crate::support::{Folder, run, stderr};
use crate::{documents, root};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Catches: a setting that the page does not have, or says other things of than the library does.
#[test]
fn the_settings_of_bypass_are_those_of_the_library() {
    let text = std::fs::read_to_string(root().join("docs/bypass.md")).unwrap();
    let settings = bypass::Profile::load("latency").unwrap().settings("", std::iter::empty()).unwrap();
    for one in settings.effective() {
        let unit = if one.unit.is_empty() { String::new() } else { format!("{} ", one.unit) };
        let row = format!("| `{}` | {unit}| {} |", one.name, one.what);
        assert!(text.lines().any(|line| line == row), "docs/bypass.md lacks this row:\n{row}");
    }
}

/// Catches: a substrate that the glossary, and with it the documents that lead there, does not name.
#[test]
fn the_glossary_names_each_substrate() {
    let glossary = std::fs::read_to_string(root().join("docs/glossary.md")).unwrap();
    let row = glossary.lines().find(|line| line.starts_with("| substrate |")).unwrap();
    let words = row.split(['.', '(']).next().unwrap().replace([',', ':'], " ");
    let named: Vec<&str> = words.split_whitespace().collect();
    let missing: Vec<&str> = model::facts::Substrate::ALL
        .map(|substrate| substrate.word())
        .into_iter()
        .filter(|word| !named.contains(word))
        .collect();
    assert!(missing.is_empty(), "not in the glossary's row of substrates: {missing:?}");
}

/// The files below a folder by their path in it, with their bytes.
fn files_below(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![folder.to_path_buf()]);
    while let Some(next) = folders.pop() {
        for path in std::fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.strip_prefix(folder).unwrap().to_path_buf(), std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Catches: a flag, a key of plans or a check that changed while its generated document did not.
#[test]
fn the_generated_documents_are_fresh() {
    let folder = Folder::new("documents-fresh");
    let output = run(&["generate", folder.path()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let (made, kept) = (files_below(&folder.0), files_below(&root().join("docs/generated")));
    assert!(made.len() > 40, "only {} documents", made.len());
    let names = made.keys().chain(kept.keys()).filter(|name| made.get(*name) != kept.get(*name));
    let stale: BTreeSet<&PathBuf> = names.collect();
    assert!(stale.is_empty(), "run 'cargo xtask generate', for {stale:?}");
}

/// Catches: a recipe of CONTRIBUTING.md that leads to a file or an item that is gone.
#[test]
fn each_place_of_a_recipe_is_there() {
    let text = std::fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let recipes = text.split("<!-- recipes -->").nth(1).unwrap().split("<!-- /recipes -->").next().unwrap();
    let (mut looked_up, mut gone) = (0, Vec::new());
    for row in recipes.lines().skip(3) {
        let quoted: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        for pair in quoted.windows(2).filter(|pair| pair[0].contains('/')) {
            let [path, item] = pair else { unreachable!() };
            let found = std::fs::read_to_string(root().join(path)).unwrap_or_default();
            looked_up += 1;
            gone.extend((!found.contains(item.trim_end_matches('!'))).then(|| format!("{path} {item}")));
        }
    }
    assert!(gone.is_empty() && looked_up >= 20, "{looked_up} places, gone: {gone:?}");
}

/// Tables and code are as wide as they have to be.
#[test]
fn lines_of_the_documents_are_not_too_long() {
    const MOST: usize = 140;
    let of_root = ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"].map(|name| root().join(name));
    let mut wrong = Vec::new();
    for path in documents().into_iter().chain(of_root) {
        let mut is_code = false;
        for (number, line) in std::fs::read_to_string(&path).unwrap().lines().enumerate() {
            is_code ^= line.trim_start().starts_with("```");
            let is_free = is_code || line.trim_start().starts_with('|') || line.starts_with("    ");
            // The marks of a merge that was not finished, too.
            let is_mark = ["<<<<<<< ", ">>>>>>> "].iter().any(|mark| line.starts_with(mark));
            if is_mark || !is_free && line.chars().count() > MOST {
                wrong.push(format!("{}:{}", path.strip_prefix(root()).unwrap().display(), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "more than {MOST} characters, or a mark of a merge: {}", wrong.join(", "));
}
