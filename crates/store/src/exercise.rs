//! Entry points for fuzzing: each takes any bytes and must neither panic nor hang. Not part of the public interface.
#![doc(hidden)]

use crate::{cell, journal, read};
use model::result::{Outlier, Series};
use model::{Event, EventWindow};
use std::path::Path;

pub fn run_json(bytes: &[u8]) {
    let _ = read::parse_run("run.json", bytes);
}

pub fn journal(bytes: &[u8]) {
    let _ = journal::parse(Path::new("journal.jsonl"), bytes);
}

/// `cells/NNNN.outliers.jsonl`, `.windows.jsonl`, `.events.jsonl`, and series as documents have them: what is read is written and read the same.
pub fn cell_lines(bytes: &[u8]) {
    fn one<T: serde::de::DeserializeOwned + serde::Serialize>(bytes: &[u8]) {
        let path = Path::new("0001.jsonl");
        for item in cell::parse_lines::<T>(path, bytes, true).unwrap_or_default() {
            let text = serde_json::to_vec(&item).unwrap_or_default();
            assert_eq!(cell::parse_lines::<T>(path, &text, true).map(|items| items.len()).ok(), Some(1));
        }
    }
    one::<Outlier>(bytes);
    one::<EventWindow>(bytes);
    one::<Event>(bytes);
    one::<Series>(bytes);
}
