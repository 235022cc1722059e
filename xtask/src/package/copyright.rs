//! Debian's copyright file: author, licence and, where the licence demands it, text of each linked crate.

use super::facts::Crate;
use crate::process;
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Licences that we take where a crate gives a choice, the preferred first, and words that their texts alone have.
const KNOWN: [(&str, &str); 9] = [
    ("MIT", "Permission is hereby granted, free of charge, to any"),
    ("Apache-2.0", "Apache License"),
    ("BSD-3-Clause", "Redistribution and use in source and binary forms"),
    ("BSD-2-Clause", "Redistribution and use in source and binary forms"),
    ("ISC", "Permission to use, copy, modify, and/or distribute"),
    ("Zlib", "This software is provided 'as-is'"),
    ("BSL-1.0", "Boost Software License"),
    ("Unicode-3.0", "UNICODE LICENSE"),
    ("MPL-2.0", "Mozilla Public License"),
];
/// Texts that every Debian system has.
const COMMON: [&str; 2] = ["Apache-2.0", "MPL-2.0"];

pub(super) fn text(crates: &[Crate]) -> Result<String> {
    let mut texts = Texts::default();
    let own = fs::read_to_string(process::root().join("LICENSE")).context("LICENSE")?;
    let mut out = String::from(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: Windhover\n",
    );
    out.push_str("Comment: The binary is linked statically; crates/ stands for the Rust crates in it.\n");
    stanza(&mut out, "*", &copyrights(&own), &texts.name("MIT", &own));
    let rust = own.replace("the Windhover authors", "the Rust Project Developers").replace(" (c) 2026", "");
    stanza(&mut out, "crates/std/*", &copyrights(&rust), &texts.name("MIT", &rust));
    for one in crates {
        let mut names = Vec::new();
        let mut holders = Vec::new();
        for licence in chosen(&one.licence).with_context(|| one.name.clone())? {
            let text = licence_text(&one.folder, licence)?;
            holders.extend(text.as_deref().map(copyrights).unwrap_or_default());
            names.push(match text {
                Some(text) if !COMMON.contains(&licence) => texts.name(licence, &text),
                // A crate that brings no text: the licence as the others have it.
                _ => texts.common(licence, &own)?,
            });
        }
        if holders.is_empty() {
            let who =
                if one.authors.is_empty() { format!("the authors of {}", one.name) } else { one.authors.join(", ") };
            holders.push(format!("Copyright {who}"));
        }
        holders.dedup();
        stanza(&mut out, &format!("crates/{}-{}/*", one.name, one.version), &holders, &names.join(" and "));
    }
    for (name, body) in &texts.bodies {
        let _ = write!(out, "\nLicense: {name}\n{}", folded(body));
    }
    Ok(out)
}

fn stanza(out: &mut String, files: &str, holders: &[String], licence: &str) {
    let holders: Vec<&str> = holders.iter().map(|line| line.trim_start_matches("Copyright").trim()).collect();
    let _ = write!(out, "\nFiles: {files}\nCopyright: {}\nLicense: {licence}\n", holders.join("\n "));
}

/// What we take of an SPDX expression: of alternatives the one that comes first in `KNOWN`, of a conjunction all.
fn chosen(expression: &str) -> Result<Vec<&'static str>> {
    let plain = expression.replace(['(', ')'], "").replace('/', " OR ");
    let mut all = Vec::new();
    for part in plain.split(" AND ") {
        let alternatives: Vec<&str> = part.split(" OR ").map(str::trim).collect();
        let known = KNOWN.iter().map(|(name, _)| *name).find(|name| alternatives.contains(name));
        let Some(known) = known else { bail!("licence '{part}' is not known: extend xtask/src/package/copyright.rs") };
        all.push(known);
    }
    Ok(all)
}

fn licence_text(folder: &Path, licence: &str) -> Result<Option<String>> {
    let words = KNOWN.iter().find(|(name, _)| *name == licence).map_or("", |(_, words)| words);
    for file in crate::files::listed(folder)? {
        let name = super::name(&file).to_uppercase();
        if !file.is_file() || !["LICEN", "COPYING", "UNLICEN"].iter().any(|begin| name.starts_with(begin)) {
            continue;
        }
        let text = String::from_utf8_lossy(&fs::read(&file)?).into_owned();
        if one_line(&text).contains(words) {
            return Ok(Some(text));
        }
    }
    Ok(None)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is_copyright(line: &str) -> bool {
    line.trim_start().starts_with("Copyright")
        && line.contains(|c: char| c.is_ascii_digit() || c == ' ')
        && !line.contains("[yyyy]")
}

fn copyrights(text: &str) -> Vec<String> {
    // Apache's own text and its example are no claims.
    let lines = text.lines().map(str::trim).filter(|line| is_copyright(line) && !line.contains("License. "));
    lines.take_while(|line| !line.contains("{yyyy}")).map(str::to_owned).collect()
}

/// Texts of licences, each once.
#[derive(Default)]
struct Texts {
    bodies: BTreeMap<String, String>,
}

impl Texts {
    /// The name of a text: that of the licence, with a number where there are several wordings.
    fn name(&mut self, licence: &str, text: &str) -> String {
        let body: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !is_copyright(line)).collect();
        let body = body.join("\n").trim().to_owned();
        for number in 1_u32.. {
            let name = if number == 1 { licence.to_owned() } else { format!("{licence}-{number}") };
            match self.bodies.get(&name) {
                Some(known) if one_line(known) != one_line(&body) => {}
                Some(_) => return name,
                None => {
                    self.bodies.insert(name.clone(), body);
                    return name;
                }
            }
        }
        unreachable!("numbers end")
    }

    /// A licence whose text every Debian system has, or the own one.
    fn common(&mut self, licence: &str, own: &str) -> Result<String> {
        if licence == "MIT" {
            return Ok(self.name("MIT", own));
        }
        if !COMMON.contains(&licence) {
            bail!("a crate under {licence} brings no text of it");
        }
        let body = format!("On Debian systems the text is in /usr/share/common-licenses/{licence}.");
        self.bodies.entry(licence.to_owned()).or_insert(body);
        Ok(licence.to_owned())
    }
}

/// As the value of a field: lines begin with a blank, empty ones are a dot.
fn folded(body: &str) -> String {
    body.lines()
        .map(|line| if line.trim().is_empty() { " .\n".to_owned() } else { format!(" {}\n", line.trim_end()) })
        .collect()
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn of_a_choice_the_first_known_is_taken_and_of_a_conjunction_all() {
        assert_eq!(chosen("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT").unwrap(), ["MIT"]);
        assert_eq!(chosen("(MIT OR Apache-2.0) AND Unicode-3.0").unwrap(), ["MIT", "Unicode-3.0"]);
        assert_eq!(chosen("MIT/Apache-2.0").unwrap(), ["MIT"]);
        assert!(chosen("GPL-3.0-only").is_err());
    }

    #[test]
    fn the_same_text_of_others_stands_once() {
        let mut texts = Texts::default();
        let of = |who: &str, rest: &str| format!("Copyright (c) 2020 {who}\n\nPermission is hereby\ngranted{rest}\n");
        assert_eq!(texts.name("MIT", &of("A", "")), "MIT");
        assert_eq!(texts.name("MIT", &of("B", "").replace("hereby\n", "hereby ")), "MIT");
        assert_eq!(texts.name("MIT", &of("C", ", otherwise")), "MIT-2");
        assert_eq!(copyrights(&of("A", "")), ["Copyright (c) 2020 A"]);
        assert_eq!(folded("a\n\nb"), " a\n .\n b\n");
    }
}
