//! Footnotes: why figures are marked, the same reason of several cells told once.

use crate::document::Note;
use crate::units::{by_key, counted};
use digest::cells::Cell;
use digest::{FindingCount, message};

/// Numbers the notes, the invalidating ones first, and tells each cell which are its own.
pub(crate) fn number(cells: &mut [Cell]) -> Vec<Note> {
    type Key = (bool, String, Option<String>);
    let key = |finding: &FindingCount| -> Key { (!finding.invalid, finding.id.clone(), finding.end.clone()) };
    let findings = cells.iter().enumerate().flat_map(|(index, cell)| {
        cell.info.findings.iter().map(move |finding| (key(finding), (index, finding.clone())))
    });
    let mut notes = Vec::new();
    for (number, ((_, id, _), members)) in (1..).zip(by_key(findings)) {
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
