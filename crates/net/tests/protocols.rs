//! What a new protocol of transport costs: its row in `model`, and this crate.
#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
}

/// Catches: a list or a comparison elsewhere that a protocol like these has to be added to.
#[test]
fn protocols_like_sctp_are_named_in_the_table_and_in_this_crate_only() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for entry in fs::read_dir(crates).unwrap().map(Result::unwrap).filter(|entry| entry.file_name() != "net") {
        sources(&entry.path().join("src"), &mut files);
    }
    let names = ["Protocol::Sctp", "Protocol::Dccp", "Self::Sctp", "Self::Dccp", "\"sctp", "\"dccp"];
    let is_named = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        // The tests at a file's end are no part of the program.
        let product = text.split("#[cfg(test)]").next().unwrap_or_default();
        names.iter().any(|name| product.contains(name))
    };
    let named: Vec<PathBuf> = files.into_iter().filter(is_named).collect();
    assert_eq!(named, [crates.join("model/src/socket.rs")]);
}
