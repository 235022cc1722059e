//! Entry point for fuzzing: any bytes as the file of each tool.

use crate::{FORMATS, Hints, read};

/// The file of every tool: what is read holds together and can be stored.
pub fn files(bytes: &[u8]) {
    for format in &FORMATS {
        for nanoseconds in [false, true] {
            let Ok(imported) = read(format, "f", bytes, &Hints { nanoseconds, ..Hints::default() }) else { continue };
            assert!(!imported.results.is_empty());
            for measured in &imported.results {
                let latency = measured.result.latency.as_ref();
                assert!(latency.is_some_and(|latency| latency.count > 0), "{}", format.word);
                assert!(measured.result.is_imported());
                let text = serde_json::to_string(&measured.result);
                assert!(text.is_ok_and(|text| model::ResultDocument::read("f", &text).is_ok()), "{}", format.word);
            }
        }
    }
}
