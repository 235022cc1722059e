//! The table of checks for the documentation.

use super::checks;
use std::fmt::Write as _;

const SECTIONS: [(&str, &str); 10] = [
    ("cpu", "CPUs"),
    ("sched", "Scheduler"),
    ("mem", "Memory"),
    ("irq", "Interrupts"),
    ("nic", "Network devices"),
    ("net", "Network stack"),
    ("clock", "Clocks"),
    ("sec", "Watching and locking"),
    ("app", "Applications"),
    ("peer", "The other end"),
];

/// All checks as Markdown: one table a section.
pub fn table_markdown() -> String {
    let mut text = String::new();
    for (section, title) in SECTIONS {
        let _ = writeln!(
            text,
            "\n## {title}\n\n| id | reads | says something when | why | evidence |\n|---|---|---|---|---|"
        );
        for check in checks().filter(|check| check.section() == section) {
            let evidence: Vec<String> = check.evidence.iter().map(ToString::to_string).collect();
            let cell = |text: &str| text.replace('|', "\\|").replace('*', "\\*");
            let cells = [check.reads, check.when, check.why, &evidence.join("; ")].map(cell);
            let _ = writeln!(text, "| `{}` | {} |", check.id, cells.join(" | "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_check_is_in_the_table_once() {
        let text = table_markdown();
        let mut ids = BTreeSet::new();
        for check in checks() {
            assert!(ids.insert(check.id), "{} twice", check.id);
            assert_eq!(text.matches(&format!("| `{}` |", check.id)).count(), 1, "{}", check.id);
            assert!(!check.evidence.is_empty(), "{} rests on nothing", check.id);
        }
        assert!(ids.len() >= 55, "{}", ids.len());
    }
}
