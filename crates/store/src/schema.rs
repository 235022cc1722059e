//! JSON schemas of the stored documents, made from their types.

use model::{JournalLine, Plan, ResultDocument, RunDocument};

/// File name and pretty-printed JSON of each schema: result document, run document, line of the journal, plan (as its TOML).
pub fn schemas() -> Vec<(&'static str, String)> {
    let text = |schema: schemars::Schema| {
        let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
        text.push('\n');
        text
    };
    vec![
        ("result.schema.json", text(schemars::schema_for!(ResultDocument))),
        ("run.schema.json", text(schemars::schema_for!(RunDocument))),
        ("journal.schema.json", text(schemars::schema_for!(JournalLine))),
        ("plan.schema.json", text(schemars::schema_for!(Plan))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_schema_names_its_fields() {
        for (name, word) in [
            ("result.schema.json", "p99_999_ns"),
            ("run.schema.json", "boot_id"),
            ("journal.schema.json", "outcome"),
            ("plan.schema.json", "repetitions"),
        ] {
            let all = schemas();
            let (_, text) = all.iter().find(|(known, _)| *known == name).unwrap();
            let value: serde_json::Value = serde_json::from_str(text).unwrap();
            assert!(value.get("$schema").is_some(), "{name}");
            assert!(text.contains(&format!("\"{word}\"")), "{name} lacks {word}");
        }
    }

    #[test]
    fn schemas_are_the_same_each_time() {
        assert_eq!(schemas(), schemas());
    }
}
