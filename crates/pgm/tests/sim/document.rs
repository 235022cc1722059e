//! The table of MUSTs in `docs/pgm.md` names tests: they have to be there.

use std::path::Path;

#[test]
fn the_table_names_tests_that_are_there() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(crate_folder.join("../../docs/pgm.md")).unwrap();
    let mut tests = String::new();
    for file in std::fs::read_dir(crate_folder.join("tests/sim")).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            tests.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
    let rows: Vec<&str> = document
        .lines()
        .filter(|line| {
            line.strip_prefix("| ").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
        })
        .filter(|line| line.contains("| 5.") || line.contains("| 6."))
        .collect();
    assert_eq!(rows.len(), 33, "as many as the RFC has in sections 5 and 6");
    let quoted = |text: &str| text.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    for row in rows {
        let cell = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let names = quoted(cell);
        assert!(!names.is_empty() || cell == "by construction", "{row}");
        for name in names {
            assert!(tests.contains(&format!("fn {name}(")), "there is no test {name}");
        }
    }
    // Names of tests in the text around it.
    for name in quoted(&document)
        .into_iter()
        .filter(|name| name.starts_with('s') && name.as_bytes().get(1).is_some_and(u8::is_ascii_digit))
    {
        assert!(tests.contains(&format!("fn {name}(")), "there is no test {name}");
    }
}
