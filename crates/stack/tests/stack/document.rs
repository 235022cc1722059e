//! The tables of rules in `docs/stack.md` name tests: they have to be there.

use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else {
            found.push(path);
        }
    }
}

#[test]
fn the_table_names_tests_that_are_there() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(crate_folder.join("../../docs/stack.md")).unwrap();
    let mut files = Vec::new();
    sources(&crate_folder.join("src"), &mut files);
    sources(&crate_folder.join("tests"), &mut files);
    let tests: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let (mut numbers, mut others) = (Vec::new(), 0);
    for row in document.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        if let Some(number) = cells[0].strip_prefix("MUST-") {
            numbers.push(number.parse::<u32>().unwrap());
        } else if cells[0].parse::<u32>().is_ok() {
            others += 1;
        } else {
            continue;
        }
        let names: Vec<&str> = cells[3].split('`').skip(1).step_by(2).collect();
        assert!(
            !names.is_empty() || cells[3].starts_with("by construction") || cells[3].starts_with("not done"),
            "{row}"
        );
        for name in names {
            assert!(tests.contains(&format!("fn {name}()")), "there is no test {name}");
        }
    }
    assert_eq!(numbers, (1..=69).collect::<Vec<_>>(), "as many as the RFC has");
    assert!(others > 30, "{others}");
}
