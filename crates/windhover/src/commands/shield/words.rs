//! What `windhover shield` prints for people.

use crate::output::{Failure, paragraph, table, width};
use host::undo::{StateDir, UndoReport};
use model::ShieldReport;
use prepare::shield::{ActiveShield, ShieldPlan, ShieldStep, Status, SweepKind, SweepStep};
use prepare::verify::{Evidence, Leak, Visitor};
use report::{Column, Grid};
use std::fmt::Write as _;

/// RedHawk's table: one row a CPU.
pub(super) fn status(status: &Status) -> String {
    let word = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let rows = status.cpus.iter().map(|row| {
        if !row.online {
            return vec![row.cpu.to_string(), "offline".to_owned()];
        }
        let partition = match (&status.backend, row.partition.as_str()) {
            (Some(backend), "windhover") => format!("windhover ({backend})"),
            (_, other) => other.to_owned(),
        };
        let node = row.node.map(|node| node.to_string()).unwrap_or_default();
        let shielded = [row.procs, row.irqs, row.ltmrs, row.mem].map(word);
        let place = [row.siblings.to_string(), node, partition];
        std::iter::once(row.cpu.to_string()).chain(shielded).chain(place).collect()
    });
    let mut text = table(&["CPU", "procs", "irqs", "ltmrs", "mem", "siblings", "node", "partition"], rows.collect());
    for row in &status.cpus {
        for (names, what) in
            [(&row.leaking_tasks, "tasks may still run there"), (&row.leaking_irqs, "interrupts may still go there")]
        {
            if !names.is_empty() {
                text.push_str(&paragraph(&format!("CPU {}: ", row.cpu), &format!("{what}: {}", some(names))));
            }
        }
    }
    match (&status.backend, &status.set) {
        (Some(backend), Some(set)) => {
            let state = status.state.as_ref().map(|word| format!(", which says '{word}'")).unwrap_or_default();
            let owner = status.owner.as_ref().map_or_else(
                || "stays until `windhover shield --reset`".to_owned(),
                |owner| format!("goes with {owner}"),
            );
            text.push_str(&paragraph("", &format!("backend {backend}{state}; change set {set}, {owner}")));
        }
        _ => {
            text.push_str("no shield is up; backends here:\n");
            let rows = status.backends.iter();
            let rows = rows.map(|known| vec![known.backend.to_string(), word(known.usable), known.why.clone()]);
            text.push_str(&table(&["backend", "usable", "why"], rows.collect()));
        }
    }
    status.notes.iter().for_each(|note| text.push_str(&paragraph("", note)));
    text
}

/// Every setting that would be changed: its name, its old and its new value, and why.
pub(super) fn plan(plan: &ShieldPlan) -> String {
    let mut text = paragraph(&format!("backend {}: ", plan.backend), &plan.reasons.join("; "));
    for set in &plan.replaces {
        let _ = writeln!(text, "change set {set} is put back first");
    }
    let mut rows = Vec::new();
    for step in &plan.steps {
        match step {
            ShieldStep::Set(set) => {
                let now = set.now.as_deref().map_or("(new)", |now| if now.is_empty() { "''" } else { now });
                let change = &set.change;
                rows.push(vec![change.knob.to_string(), now.to_owned(), change.wanted.clone(), change.why.clone()]);
            }
            ShieldStep::Sweep(step) => sweep(step, &mut rows),
        }
    }
    text.push_str(&if rows.is_empty() {
        "everything is so already: nothing is changed\n".to_owned()
    } else {
        table(&["setting", "now", "new", "why"], rows)
    });
    plan.lacks.iter().for_each(|lack| text.push_str(&paragraph("not possible: ", lack)));
    plan.notes.iter().for_each(|note| text.push_str(&paragraph("note: ", note)));
    text
}

/// Tasks that are moved alike are one row.
fn sweep(step: &SweepStep, rows: &mut Vec<Vec<String>>) {
    use host::knob::Knob::{Affinity, Member};
    let mut kinds: Vec<(&str, &str, Vec<String>)> = Vec::new();
    for change in &step.moves {
        let (Member { task, .. } | Affinity { task }) = &change.knob else { continue };
        let name = format!("{} {}", task.tid, task.name);
        match kinds.iter_mut().find(|(wanted, ..)| *wanted == change.wanted) {
            Some((.., names)) => names.push(name),
            None => kinds.push((&change.wanted, &change.why, vec![name])),
        }
    }
    for (wanted, why, names) in kinds {
        let new = match step.kind {
            SweepKind::Cpuset => wanted.to_owned(),
            SweepKind::Affinity => format!("CPU {wanted} only"),
            SweepKind::Remember => format!("CPU {wanted}, kept"),
        };
        rows.push(vec![format!("{} tasks: {}", names.len(), some(&names)), String::new(), new, why.to_owned()]);
    }
}

fn some(names: &[String]) -> String {
    const MOST: usize = 8;
    let mut words = names.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > MOST {
        let _ = write!(words, " and {} more (--format json has all)", names.len() - MOST);
    }
    words
}

pub(super) fn done(shielded: &ActiveShield) -> String {
    let report = &shielded.report;
    let mut what = Vec::new();
    if !report.processes.is_empty() {
        what.push(format!("CPU {} is shielded from processes", report.processes));
    }
    if !report.interrupts.is_empty() {
        what.push(format!("CPU {} from device interrupts", report.interrupts));
    }
    let changed = match (report.changed, shielded.made) {
        (0, _) => "it was so already, nothing was changed".to_owned(),
        (count, true) => format!("{count} changes"),
        (count, false) => format!("it was up already, {count} repairs"),
    };
    if what.is_empty() {
        return format!("nothing is shielded: {changed}\n");
    }
    format!("{} (backend {}): {changed}\n", what.join(", "), report.backend)
}

pub(super) fn notes(report: &ShieldReport) -> Vec<String> {
    report.notes.iter().map(|note| format!("note: {note}")).collect()
}

pub(super) fn undo(state: &StateDir) -> Result<String, Failure> {
    let mut rows = Vec::new();
    for (id, _) in state.sets()?.iter().rev().filter(|(_, header)| header.what == prepare::shield::WHAT) {
        let held = state.changes(id)?.into_iter().rev();
        rows.extend(held.map(|held| vec![held.knob.to_string(), held.ours, held.before]));
    }
    Ok(if rows.is_empty() { "no shield is up\n".to_owned() } else { table(&["setting", "now", "new"], rows) })
}

pub(super) fn undone(report: &UndoReport) -> String {
    let total = report.restored + report.already + report.handed_over;
    if total == 0 && report.is_clean() {
        return "no shield is up\n".to_owned();
    }
    let mut done = format!("the shield is down: {} settings put back", report.restored);
    for (count, what) in [(report.already, "were as before"), (report.handed_over, "are held by a newer change set")] {
        if count > 0 {
            let _ = write!(done, ", {count} {what}");
        }
    }
    let mut text = paragraph("", &done);
    for conflict in &report.conflicts {
        text.push_str(&paragraph("", &conflict.to_string()));
    }
    report.failed.iter().for_each(|why| text.push_str(&paragraph("not put back: ", why)));
    report.lost.iter().for_each(|why| text.push_str(&paragraph("lost: ", why)));
    text
}

/// Whether a visitor is an interrupt whose CPUs cannot be set: the kernel has taken the write bits from its mask.
pub(super) fn is_managed(visitor: &Visitor) -> bool {
    visitor
        .irq
        .and_then(|number| std::fs::metadata(format!("/proc/irq/{number}/smp_affinity_list")).ok())
        .is_some_and(|data| data.permissions().readonly())
}

pub(super) fn evidence(evidence: &Evidence, leaks: &[Leak]) -> String {
    let mut text = String::new();
    for cpu in &evidence.cpus {
        let ms = |ns: u64| ns as f64 / 1e6;
        let share = if cpu.spun_ns == 0 { 0.0 } else { cpu.stolen_ns as f64 / cpu.spun_ns as f64 * 100.0 };
        let by = &cpu.longest_held_by;
        let taken = format!(
            "{share:.2} % of {:.1} s was taken in {} gaps, the longest {:.3} ms{}",
            ms(cpu.spun_ns) / 1e3,
            cpu.gaps,
            ms(cpu.longest_ns),
            if by.is_empty() { String::new() } else { format!(" ({})", by.join(", ")) }
        );
        text.push_str(&paragraph(&format!("CPU {}: ", cpu.cpu), &taken));
        let row = |visitor: &Visitor| {
            let leak = leaks.iter().any(|leak| leak.cpu == cpu.cpu && leak.visitor == *visitor);
            let mark = match (leak, is_managed(visitor)) {
                (true, _) => "LEAK",
                (false, true) => "managed by its driver: cannot be moved",
                (false, false) => "",
            };
            let rate = format!("{:.1}", visitor.per_second);
            let what = visitor.irq.map_or_else(String::new, |irq| format!(" {irq}"));
            let what = format!("{}{what}", visitor.kind.words());
            vec![rate, visitor.class.to_string(), visitor.name.clone(), what, mark.to_owned()]
        };
        if !cpu.visitors.is_empty() {
            let words = ["class", "name", "what", "remark"].map(Column::words);
            let columns = std::iter::once(Column::figures("times", "/s")).chain(words).collect();
            let rows = cpu.visitors.iter().map(row).collect();
            text.push_str(&Grid { columns, rows, ..Grid::default() }.text(width()));
        }
    }
    if let Some(why) = &evidence.no_trace {
        text.push_str(&paragraph("nobody could be named: ", why));
    }
    if evidence.lost_events > 0 {
        let what = format!(
            "{} events were lost or came before those that are kept: verify for a shorter time",
            evidence.lost_events
        );
        text.push_str(&paragraph("not all is known: ", &what));
    }
    text.push_str(&match leaks.len() {
        0 => "nothing came that the shield forbids\n".to_owned(),
        1 => "one visitor came that the shield forbids\n".to_owned(),
        count => format!("{count} visitors came that the shield forbids\n"),
    });
    text
}
