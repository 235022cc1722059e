//! What `windhover shield` says to people.

use crate::output::Failure;
use host::undo::{StateDir, UndoReport};
use model::ShieldReport;
use prepare::shield::{ShieldPlan, Shielded, Status, Step, SweepKind, SweepStep};
use prepare::verify::{Evidence, Leak, Visitor, VisitorKind};
use std::fmt::Write as _;

/// RedHawk's table: one row a CPU.
pub(super) fn status(status: &Status) -> String {
    let mut text = String::from("CPU   procs  irqs   ltmrs  mem    siblings  node  partition\n");
    let word = |yes: bool| if yes { "yes" } else { "no" };
    let dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    for row in &status.cpus {
        if !row.online {
            let _ = writeln!(text, "{:<5} offline", row.cpu);
            continue;
        }
        let partition = match (&status.backend, row.partition.as_str()) {
            (Some(backend), "windhover") => format!("windhover ({backend})"),
            (_, other) => dash(other.to_owned()),
        };
        let node = row.node.map_or_else(|| "-".to_owned(), |node| node.to_string());
        let _ = writeln!(
            text,
            "{:<5} {:<6} {:<6} {:<6} {:<6} {:<9} {node:<5} {partition}",
            row.cpu,
            word(row.procs),
            word(row.irqs),
            word(row.ltmrs),
            word(row.mem),
            dash(row.siblings.to_string()),
        );
    }
    for row in &status.cpus {
        if !row.leaking_tasks.is_empty() {
            let _ = writeln!(text, "CPU {}: tasks may still run there: {}", row.cpu, some(&row.leaking_tasks));
        }
        if !row.leaking_irqs.is_empty() {
            let _ = writeln!(text, "CPU {}: interrupts may still go there: {}", row.cpu, some(&row.leaking_irqs));
        }
    }
    match (&status.backend, &status.set) {
        (Some(backend), Some(set)) => {
            let state = status.state.as_ref().map(|word| format!(", which says '{word}'")).unwrap_or_default();
            let owner = status.owner.as_ref().map_or_else(
                || "stays until `windhover shield --reset`".to_owned(),
                |owner| format!("goes with {owner}"),
            );
            let _ = writeln!(text, "backend {backend}{state}; change set {set}, {owner}");
        }
        _ => {
            text.push_str("no shield is up; backends here:\n");
            for known in &status.backends {
                let _ = writeln!(
                    text,
                    "  {} {:<9} {}",
                    if known.usable { "yes" } else { "no " },
                    known.backend.to_string(),
                    known.why
                );
            }
        }
    }
    status.notes.iter().for_each(|note| {
        let _ = writeln!(text, "{note}");
    });
    text
}

/// Every setting that would be changed: its name, its old and its new value, and why.
pub(super) fn plan(plan: &ShieldPlan) -> String {
    let mut text = format!("backend {}: {}\n", plan.backend, plan.reasons.join("; "));
    for set in &plan.replaces {
        let _ = writeln!(text, "change set {set} is put back first");
    }
    if plan.steps.is_empty() {
        text.push_str("everything is so already: nothing is changed\n");
    }
    let sets = plan.steps.iter().filter_map(|step| match step {
        Step::Set(set) => Some(set.change.knob.to_string().chars().count()),
        Step::Sweep(_) => None,
    });
    let width = sets.max().unwrap_or(0).min(64);
    for step in &plan.steps {
        match step {
            Step::Set(set) => {
                let now = set.now.as_deref().map_or("(new)", |now| if now.is_empty() { "''" } else { now });
                let knob = set.change.knob.to_string();
                let _ = writeln!(text, "{knob:<width$}  {now} -> {}  {}", set.change.wanted, set.change.why);
            }
            Step::Sweep(step) => sweep(step, &mut text),
        }
    }
    for note in &plan.lacks {
        let _ = writeln!(text, "not possible: {note}");
    }
    for note in &plan.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// Tasks that are moved alike are told together.
fn sweep(step: &SweepStep, text: &mut String) {
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
        let verb = match step.kind {
            SweepKind::Cpuset => format!("go to {wanted}"),
            SweepKind::Affinity => format!("may run on CPU {wanted} only"),
            SweepKind::Remember => format!("keep CPU {wanted}"),
        };
        let _ = writeln!(text, "{} tasks {verb}  {why}: {}", names.len(), some(&names));
    }
}

/// The first of many.
fn some(names: &[String]) -> String {
    const MOST: usize = 8;
    let mut words = names.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > MOST {
        let _ = write!(words, " and {} more (--format json has all)", names.len() - MOST);
    }
    words
}

/// One line for what is up now.
pub(super) fn done(shielded: &Shielded) -> String {
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

/// What is worth knowing, one line each.
pub(super) fn notes(report: &ShieldReport) -> Vec<String> {
    report.notes.iter().map(|note| format!("note: {note}")).collect()
}

/// What an undo would put back.
pub(super) fn undo(state: &StateDir) -> Result<String, Failure> {
    let mut text = String::new();
    for (id, _) in state.sets()?.iter().rev().filter(|(_, header)| header.what == prepare::shield::WHAT) {
        for held in state.changes(id)?.iter().rev() {
            let _ = writeln!(text, "{}  {} -> {}", held.knob, held.ours, held.before);
        }
    }
    if text.is_empty() {
        text.push_str("no shield is up\n");
    }
    Ok(text)
}

/// What an undo did.
pub(super) fn undone(report: &UndoReport) -> String {
    let total = report.restored + report.already + report.handed_over;
    if total == 0 && report.is_clean() {
        return "no shield is up\n".to_owned();
    }
    let mut text = format!("the shield is down: {} settings put back", report.restored);
    for (count, what) in [(report.already, "were as before"), (report.handed_over, "are held by a newer change set")] {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
    text.push('\n');
    for conflict in &report.conflicts {
        let who = conflict.who.as_ref().map(|who| format!(" (by {who}?)")).unwrap_or_default();
        let _ = writeln!(
            text,
            "left as it is: {}: another{who} changed it to '{}' (ours '{}', before '{}')",
            conflict.knob, conflict.now, conflict.ours, conflict.before
        );
    }
    for why in &report.failed {
        let _ = writeln!(text, "not put back: {why}");
    }
    text
}

/// Whether a visitor is an interrupt whose CPUs nobody can set: the kernel has taken the write bits from its mask.
pub(super) fn is_managed(visitor: &Visitor) -> bool {
    let number = visitor.name.split(' ').next().and_then(|word| word.parse::<u32>().ok());
    let mask = number.filter(|_| visitor.kind == VisitorKind::Interrupt);
    mask.and_then(|number| std::fs::metadata(format!("/proc/irq/{number}/smp_affinity_list")).ok())
        .is_some_and(|data| data.permissions().readonly())
}

/// What touched the CPUs.
pub(super) fn evidence(evidence: &Evidence, leaks: &[Leak]) -> String {
    let mut text = String::new();
    for cpu in &evidence.cpus {
        let ms = |ns: u64| ns as f64 / 1e6;
        let share = if cpu.spun_ns == 0 { 0.0 } else { cpu.stolen_ns as f64 / cpu.spun_ns as f64 * 100.0 };
        let _ = writeln!(
            text,
            "CPU {}: {share:.2} % of {:.1} s was taken in {} gaps, the longest {:.3} ms{}",
            cpu.cpu,
            ms(cpu.spun_ns) / 1e3,
            cpu.gaps,
            ms(cpu.longest_ns),
            if cpu.longest_held_by.is_empty() {
                String::new()
            } else {
                format!(" ({})", cpu.longest_held_by.join(", "))
            }
        );
        for visitor in &cpu.visitors {
            let leak = leaks.iter().any(|leak| leak.cpu == cpu.cpu && leak.visitor == *visitor);
            let mark = match (leak, is_managed(visitor)) {
                (true, _) => "   LEAK",
                (false, true) => "   (managed by its driver: cannot be moved)",
                (false, false) => "",
            };
            let _ = writeln!(
                text,
                "  {:>10.1}/s  {:<20} {}{mark}",
                visitor.per_second,
                visitor.kind.words(),
                visitor.name,
            );
        }
    }
    if let Some(why) = &evidence.no_trace {
        let _ = writeln!(text, "nobody could be named: {why}");
    }
    let _ = match leaks.len() {
        0 => writeln!(text, "nothing came that the shield forbids"),
        1 => writeln!(text, "one visitor came that the shield forbids"),
        count => writeln!(text, "{count} visitors came that the shield forbids"),
    };
    text
}
