//! Every fuzz target over its corpus, so that what once broke a parser stays mended.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

#[path = "../../../fuzz/src/targets.rs"]
#[allow(unreachable_pub, reason = "a library of its own in the fuzz package")]
mod targets;

use std::path::PathBuf;
use targets::TARGETS;

#[test]
fn no_corpus_file_breaks_its_target() {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for &(name, target) in TARGETS {
        let files: Vec<PathBuf> =
            std::fs::read_dir(corpus.join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(!files.is_empty(), "{name} has no corpus");
        for file in files {
            target(&std::fs::read(&file).unwrap());
        }
    }
    let known: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    for entry in std::fs::read_dir(corpus).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(known.contains(&name.as_str()), "{name} has a corpus but no target here");
    }
}
