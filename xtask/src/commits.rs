//! The latest commits have a subject that a list shows whole, and a body that gives the reason.

use crate::process;
use anyhow::{Result, bail};

/// How many commits are looked at. Older ones are what they are.
const LATEST: &str = "-30";
const SUBJECT: usize = 72;

/// Refuses a history that does not keep to CONTRIBUTING.md; passes, with a line, where git shows none (an archive).
pub(crate) fn run() -> Result<()> {
    let log = match process::output("git", &["log", LATEST, "--no-merges", "--format=%h %s%x1f%b%x1e"]) {
        Ok(log) => log,
        Err(cause) => {
            println!("SKIPPED commits: {cause:#}");
            return Ok(());
        }
    };
    let wrong: Vec<String> = log.split('\x1e').filter_map(wrong).collect();
    if !wrong.is_empty() {
        bail!("{} of the latest commits (see CONTRIBUTING.md):\n  {}", wrong.len(), wrong.join("\n  "));
    }
    Ok(())
}

/// What is wrong with a commit, printed as `id subject`, 0x1f, body.
fn wrong(commit: &str) -> Option<String> {
    let (head, body) = commit.trim_start().split_once('\x1f')?;
    let (_, subject) = head.split_once(' ')?;
    if subject.chars().count() > SUBJECT {
        return Some(format!("{head}: a subject of more than {SUBJECT} characters"));
    }
    body.trim().is_empty().then(|| format!("{head}: no body that gives the reason"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_subjects_and_missing_reasons_are_named() {
        assert_eq!(wrong("\nab12 report: a line\x1fBecause.\n"), None);
        assert!(wrong("ab12 report: a line\x1f\n").unwrap().contains("no body"));
        assert!(wrong(&format!("ab12 {}\x1fBecause.", "é".repeat(73))).unwrap().contains("72 characters"));
        assert_eq!(wrong(&format!("ab12 {}\x1fBecause.", "é".repeat(72))), None);
        assert_eq!(wrong("\n"), None);
    }
}
