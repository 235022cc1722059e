//! `cargo xtask words`: product text uses no word of the table "Not used" in docs/glossary.md.

use crate::{files, process};
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};

/// The heading of the table, and the file that holds it.
const HEADING: &str = "## Not used";
const GLOSSARY: &str = "docs/glossary.md";
/// Files and folders of product text, below the root; `crates/*/src` beside them.
const TEXTS: [&str; 5] = ["xtask/src", "docs", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];
const SKIPPED: [&str; 2] = ["docs/generated", GLOSSARY];
const ENDINGS: [&str; 4] = ["rs", "html", "js", "md"];
/// What comes before the name of a type where it is defined.
const DEFINES: [&str; 4] = ["struct", "enum", "trait", "type"];

pub(crate) fn run() -> Result<()> {
    let found = check(&process::root())?;
    if !found.is_empty() {
        bail!("{} words of the table \"Not used\" in {GLOSSARY}:\n  {}", found.len(), found.join("\n  "));
    }
    Ok(())
}

#[derive(Debug)]
struct Banned {
    /// As in the table, for messages.
    written: String,
    /// Lower case, unless it is a type.
    words: Vec<String>,
    is_type: bool,
    instead: String,
}

/// A word of a text: letters, digits, `_`, and `-` between them.
struct Token<'a> {
    text: &'a str,
    start: usize,
    line: usize,
}

/// Each occurrence as `file:line: word: use replacement`.
fn check(root: &Path) -> Result<Vec<String>> {
    let glossary = std::fs::read_to_string(root.join(GLOSSARY)).context(GLOSSARY)?;
    let table = table(&glossary)?;
    let mut found = Vec::new();
    for path in texts(root)? {
        let text = files::read(&path)?;
        let name = path.strip_prefix(root).unwrap_or(&path).display();
        found.extend(
            occurrences(&text, &table)
                .into_iter()
                .map(|(line, row)| format!("{name}:{line}: {}: use {}", row.written, row.instead)),
        );
    }
    Ok(found)
}

/// Rows `| word | instead |` behind the heading. Several words of a row are separated by commas.
fn table(glossary: &str) -> Result<Vec<Banned>> {
    let (_, body) = glossary.split_once(HEADING).with_context(|| format!("{GLOSSARY} has no heading \"{HEADING}\""))?;
    let body = body.split("\n## ").next().unwrap_or(body);
    let mut table = Vec::new();
    // The first two rows are the head.
    for row in body.lines().filter(|line| line.starts_with('|')).skip(2) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, written, instead, _] = cells.as_slice() else { bail!("{GLOSSARY}: not | word | instead |: {row}") };
        for word in written.split(',').map(|word| word.trim().trim_matches('`')) {
            let is_type = word.starts_with(char::is_uppercase);
            let folded = if is_type { word.to_owned() } else { word.to_lowercase() };
            let words: Vec<String> = tokens(&folded).into_iter().map(|token| token.text.to_owned()).collect();
            if words.is_empty() || is_type && words.len() > 1 || instead.is_empty() {
                bail!("{GLOSSARY}: neither a type nor words, or no replacement: {row}");
            }
            table.push(Banned { written: word.to_owned(), words, is_type, instead: (*instead).to_owned() });
        }
    }
    if table.is_empty() {
        bail!("the table \"{HEADING}\" in {GLOSSARY} has no rows");
    }
    Ok(table)
}

/// The lines that hold a banned word, with the row of the table.
fn occurrences<'a>(text: &str, table: &'a [Banned]) -> Vec<(usize, &'a Banned)> {
    let lower = text.to_ascii_lowercase();
    let (typed, spoken) = (tokens(text), tokens(&lower));
    let mut found = Vec::new();
    for row in table {
        let (tokens, text) = if row.is_type { (&typed, text) } else { (&spoken, lower.as_str()) };
        for (at, here) in tokens.windows(row.words.len()).enumerate() {
            let is_it = here.iter().zip(&row.words).all(|(token, word)| token.text == word)
                && here.windows(2).all(|pair| {
                    let between = &text[pair[0].start + pair[0].text.len()..pair[1].start];
                    // A phrase may be broken over two lines of a comment or of a string.
                    between.chars().all(|c| c.is_whitespace() || "/!\\>".contains(c))
                });
            let is_definition = || at > 0 && DEFINES.contains(&tokens[at - 1].text);
            if is_it && (!row.is_type || is_definition()) {
                found.push((here[0].line, row));
            }
        }
    }
    found.sort_by_key(|(line, _)| *line);
    found
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii();
    let (mut tokens, mut line, mut at) = (Vec::new(), 1, 0);
    while at < bytes.len() {
        let start = at;
        while at < bytes.len()
            && (is_part(bytes[at])
                || at > start && bytes[at] == b'-' && bytes.get(at + 1).copied().is_some_and(is_part))
        {
            at += 1;
        }
        if at > start {
            tokens.push(Token { text: &text[start..at], start, line });
        } else {
            line += usize::from(bytes[at] == b'\n');
            at += 1;
        }
    }
    tokens
}

fn texts(root: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    let folders = files::listed(&root.join("crates"))?.into_iter().map(|folder| folder.join("src"));
    for path in folders.chain(TEXTS.iter().map(|text| root.join(text))) {
        if path.is_dir() { all.extend(files::below(&path)?) } else { all.push(path) }
    }
    all.sort();
    all.retain(|file| {
        let is_skipped = SKIPPED.iter().any(|skipped| file.starts_with(root.join(skipped)));
        !is_skipped && ENDINGS.iter().any(|ending| files::has_ending(file, ending))
    });
    Ok(all)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests panic")]

    use super::*;

    const TABLE: &str = "# Glossary\n\n| word | meaning |\n|---|---|\n| tock | good |\n\n## Not used\n\nWhy.\n\n\
        | word | instead |\n|---|---|\n| `Tick` | `Tock` |\n| blorp, blorps | glorp |\n| on the wing | in flight |\n";

    /// A small tree of product text, removed at the end.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let tree = Self(std::env::temp_dir().join(format!("xtask-words-{name}-{}", std::process::id())));
            let fixed = [
                (GLOSSARY, TABLE),
                ("README.md", ""),
                ("ARCHITECTURE.md", ""),
                ("CONTRIBUTING.md", ""),
                ("xtask/src/main.rs", ""),
            ];
            for (path, text) in fixed.iter().chain(files) {
                let path = tree.0.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            tree
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn each_occurrence_is_named_with_file_line_and_replacement() {
        let tree = Tree::new(
            "found",
            &[
                ("README.md", "one\nA Blorp, and\nblorps\n"),
                ("docs/page.md", "Messages on the\nwing, and ON-THE-WING.\n"),
                ("crates/a/src/deep/lib.rs", "/// Packets on the\n/// wing.\npub struct Tick<T>(T);\n"),
                ("crates/a/src/page.js", "// a blorp\n"),
            ],
        );
        let found = check(&tree.0).unwrap();
        assert_eq!(
            found,
            [
                "README.md:2: blorp: use glorp",
                "README.md:3: blorps: use glorp",
                "crates/a/src/deep/lib.rs:1: on the wing: use in flight",
                "crates/a/src/deep/lib.rs:3: Tick: use `Tock`",
                "crates/a/src/page.js:1: blorp: use glorp",
                "docs/page.md:1: on the wing: use in flight",
            ]
        );
    }

    #[test]
    fn what_only_looks_alike_passes() {
        let tree = Tree::new(
            "passes",
            &[
                ("README.md", "blorping, blorp_size, blorp-like; land on the. Wing; the sock on the, wing\n"),
                ("docs/generated/commands.md", "blorp\n"),
                ("docs/data.txt", "blorp\n"),
                ("crates/a/src/lib.rs", "use std::Tick; let tick = Tick::new(); struct Ticks; struct tick;\n"),
                ("crates/a/tests/all.rs", "struct Tick; // blorp\n"),
            ],
        );
        assert_eq!(check(&tree.0).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_table_that_checks_nothing_is_an_error() {
        for broken in [
            "# Glossary\n",
            "## Not used\n\n| word | instead |\n|---|---|\n",
            "## Not used\n| a | b |\n|-|-|\n| Two Words | x |\n",
        ] {
            assert!(table(broken).is_err(), "{broken}");
        }
    }
}
