//! Footnotes: why figures are marked, the same reason of several cells told once.

use crate::document::Note;
use crate::units::counted;
use digest::cells::Cell;
use digest::{FindingCount, message};
use std::collections::BTreeMap;

/// Numbers the notes, the invalidating ones first, and tells each cell which are its own.
pub(crate) fn number(cells: &mut [Cell]) -> Vec<Note> {
    type Key = (bool, String, Option<String>);
    let key = |finding: &FindingCount| -> Key { (!finding.invalid, finding.id.clone(), finding.end.clone()) };
    let mut groups: BTreeMap<Key, Vec<(usize, FindingCount)>> = BTreeMap::new();
    for (index, cell) in cells.iter().enumerate() {
        for finding in &cell.info.findings {
            groups.entry(key(finding)).or_default().push((index, finding.clone()));
        }
    }
    let mut notes = Vec::new();
    for (position, ((_, id, _), members)) in groups.into_iter().enumerate() {
        let number = position + 1;
        for (index, _) in &members {
            if let Some(cell) = cells.get_mut(*index) {
                cell.info.notes.push(number);
            }
        }
        let invalid = members.iter().any(|(_, finding)| finding.invalid);
        let text = sentence(cells, &members).unwrap_or_default();
        notes.push(Note { number, invalid, id, cells: members.len(), text });
    }
    notes
}

fn sentence(cells: &[Cell], members: &[(usize, FindingCount)]) -> Option<String> {
    let (index, finding) = members.first()?;
    let info = &cells.get(*index)?.info;
    let (name, times) = finding.words(info);
    let times = times.map(|times| format!(", {times} repetitions")).unwrap_or_default();
    let example = format!("{}, {}{times}", message(info.probe, &info.protocol, info.size_bytes), info.label);
    let consequence = match (finding.invalid, info.left_out > 0) {
        (true, true) => " Those repetitions are left out of the figures.",
        (true, false) => " No repetition can be trusted; the figures are shown all the same.",
        _ => "",
    };
    let cells = match members.len() {
        1 => format!("({example})"),
        several => format!("in {}, first {example}", counted(several, "cell")),
    };
    Some(format!("{name} {cells}: {}.{consequence}", finding.detail.trim_end_matches('.')))
}
