//! Footnotes: why figures are marked, the same reason of several cells told once.

use crate::cells::{Cell, marks_a_cell};
use crate::document::{FindingCount, Note};
use crate::units::counted;
use std::collections::BTreeMap;

/// Numbers the notes, the invalidating ones first, and tells each cell which are its own.
pub(crate) fn number(cells: &mut [Cell]) -> Vec<Note> {
    type Key = (bool, String, Option<String>);
    let key = |finding: &FindingCount| -> Key { (!finding.invalid, finding.id.clone(), finding.end.clone()) };
    let counts = |finding: &FindingCount| finding.invalid || !is_only_few_samples(finding);
    let mut groups: BTreeMap<Key, Vec<(usize, FindingCount)>> = BTreeMap::new();
    for (index, cell) in cells.iter().enumerate() {
        for finding in cell.info.findings.iter().filter(|finding| counts(finding)) {
            groups.entry(key(finding)).or_default().push((index, finding.clone()));
        }
    }
    let mut notes = Vec::new();
    for (position, ((_, id, end), members)) in groups.into_iter().enumerate() {
        let number = position + 1;
        for (index, _) in &members {
            if let Some(cell) = cells.get_mut(*index) {
                cell.info.notes.push(number);
            }
        }
        let invalid = members.iter().any(|(_, finding)| finding.invalid);
        let text = sentence(cells, &id, end.as_deref(), &members);
        notes.push(Note { number, invalid, id, cells: members.len(), text });
    }
    notes
}

fn is_only_few_samples(finding: &FindingCount) -> bool {
    !marks_a_cell(model::FindingId::FewSamples) && finding.id == model::FindingId::FewSamples.word()
}

fn sentence(cells: &[Cell], id: &str, end: Option<&str>, members: &[(usize, FindingCount)]) -> String {
    let at = end.map(|end| format!(" at the {end}")).unwrap_or_default();
    let Some((index, finding)) = members.first() else { return id.to_owned() };
    let example = cells.get(*index).map(|cell| {
        let info = &cell.info;
        let total = info.repetitions + info.left_out;
        let times = if total > 1 { format!(", {} of {total} repetitions", finding.repetitions) } else { String::new() };
        format!("{} {} {} B, {}{times}", info.probe, info.protocol, info.size_bytes, info.label)
    });
    let left_out = cells.get(*index).is_some_and(|cell| cell.info.left_out > 0) && finding.invalid;
    let fate = match (finding.invalid, left_out) {
        (true, true) => " Those repetitions are left out of the figures.",
        (true, false) => " No repetition can be trusted; the figures are shown all the same.",
        _ => "",
    };
    let example = example.unwrap_or_default();
    let detail = finding.detail.trim_end_matches('.');
    if members.len() == 1 {
        format!("{id}{at} ({example}): {detail}.{fate}")
    } else {
        format!("{id}{at} in {}, first {example}: {detail}.{fate}", counted(members.len(), "cell"))
    }
}
