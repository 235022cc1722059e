//! Documents for people: grouped, the worst first, with remedies to paste.

use crate::output::{paragraph, table, width};
use model::text::counted;
use prepare::doctor::{
    Comparison, Difference, Document, Finding, Remedy, ScopeOrigin, Severity, SkipKind, Skipped, Substrate, shell_word,
    some_of,
};
use std::fmt::Write as _;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextOptions {
    /// Whether to colour the words of severity (ECMA-48).
    pub(super) colour: bool,
    /// Also what is in order, with its values, and the reading of each note.
    pub(super) verbose: bool,
}

const ID: usize = 23;

pub(super) fn text(document: &Document, options: &TextOptions) -> String {
    let mut out = head(document);
    for severity in [Severity::Bad, Severity::Warning, Severity::Note] {
        let found: Vec<&Finding> = document.findings.iter().filter(|finding| finding.severity == severity).collect();
        if found.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n{}", title(severity, options));
        let mut before = None;
        for finding in found {
            // One reason for all findings of a check.
            let again = before == Some(&finding.id);
            before = Some(&finding.id);
            one(&mut out, finding, severity > Severity::Note || options.verbose, again, options);
        }
    }
    in_order(&mut out, document, options);
    skipped(&mut out, document, options);
    summary(&mut out, document);
    out
}

fn head(document: &Document) -> String {
    let machine = &document.machine;
    let mut words: Vec<String> = machine.os.iter().cloned().collect();
    words.extend(machine.kernel_release.as_ref().map(|release| format!("Linux {release}")));
    words.extend(machine.preemption.clone());
    let below = machine.virtualisation.as_deref().filter(|name| *name != "none");
    words.push(match (document.substrate, below) {
        (Substrate::Vm, Some(name)) => format!("virtual machine ({name})"),
        (Substrate::Vm, None) => "virtual machine".to_owned(),
        (Substrate::Metal, _) => "bare metal".to_owned(),
        (Substrate::Container, Some(name)) => format!("container (on {name})"),
        (Substrate::Container, None) => "container".to_owned(),
        (Substrate::Simulated, _) => "emulated machine: its times mean nothing".to_owned(),
        (Substrate::Unknown, _) => "unknown machine".to_owned(),
    });
    words.extend(machine.cpus_online.as_ref().and_then(|cpus| {
        let number = cpus.parse::<model::CpuList>().ok()?.len();
        Some(format!("{} ({cpus})", counted(number, "CPU")))
    }));
    let mut out = paragraph("", &words.join(", "));
    let special: Vec<&str> =
        document.realtime.iter().map(|variant| variant.name.as_str()).filter(|name| *name != "PREEMPT_RT").collect();
    if !special.is_empty() {
        out.push_str(&paragraph("Real-time variant: ", &special.join(", ")));
    }
    let scope = &document.scope;
    let from = match scope.from {
        ScopeOrigin::None => String::new(),
        ScopeOrigin::Asked => format!("for CPU {}", scope.cpus),
        ScopeOrigin::Shield => format!("for CPU {} (shielded)", scope.cpus),
        ScopeOrigin::Isolated => format!("for CPU {} (isolated)", scope.cpus),
    };
    let over = scope.nic.as_ref().map(|nic| format!("over {nic}")).unwrap_or_default();
    let what: Vec<String> = [from, over].into_iter().filter(|word| !word.is_empty()).collect();
    if what.is_empty() {
        out.push_str("Examined as a whole; name the CPUs to measure on with --cpus to examine more.\n");
    } else {
        out.push_str(&paragraph("", &format!("Examined {}.", what.join(" "))));
    }
    out
}

fn title(severity: Severity, options: &TextOptions) -> String {
    let (word, colour) = match severity {
        Severity::Bad => ("BAD", "\x1b[1;31m"),
        Severity::Warning => ("WARNING", "\x1b[1;33m"),
        Severity::Note => ("TO BE KNOWN", "\x1b[1m"),
        Severity::Ok => ("IN ORDER", "\x1b[1;32m"),
    };
    if options.colour { format!("{colour}{word}\x1b[0m") } else { word.to_owned() }
}

fn one(out: &mut String, finding: &Finding, whole: bool, again: bool, options: &TextOptions) {
    out.push_str(&entry(&finding.id, &finding.text));
    if !whole {
        return;
    }
    let labelled = |label: &str, text: &str| paragraph(&format!("      {label:<6}"), text);
    if !again {
        out.push_str(&labelled("why", &finding.why));
    }
    let most = if options.verbose { usize::MAX } else { 2 };
    for reading in finding.read.iter().take(most) {
        let value = if reading.value.is_empty() { "(empty)" } else { &reading.value };
        out.push_str(&labelled("read", &format!("{} = {value}", reading.path)));
    }
    for remedy in &finding.remedies {
        out.push_str(&match remedy {
            Remedy::Boot { .. } | Remedy::Advice { .. } => labelled("fix", &remedy.to_string()),
            command => pasted("      fix   ", &[command.to_string()]),
        });
    }
    if options.verbose {
        out.push_str(&labelled("rests", &finding.evidence.join("; ")));
    }
}

/// `  id   text`, the text wrapped beside the id.
fn entry(id: &str, text: &str) -> String {
    paragraph(&format!("  {id:<ID$}"), text)
}

/// A command to paste: on one line, else a continued line for each part, broken between words where too long.
fn pasted(lead: &str, parts: &[String]) -> String {
    let whole = parts.join(" ");
    let room = width().saturating_sub(lead.chars().count());
    if whole.chars().count() <= room {
        return format!("{lead}{whole}\n");
    }
    const DEEPER: usize = 2;
    let room = room.saturating_sub(DEEPER + " \\".len());
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        let mut line = String::new();
        for word in shell_words(part) {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
                lines.push(std::mem::take(&mut line));
            }
            line = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
        }
        lines.push(line);
    }
    let further = format!(" \\\n{}", " ".repeat(lead.chars().count() + DEEPER));
    format!("{lead}{}\n", lines.join(&further))
}

/// The words of a command, what is quoted as one.
fn shell_words(command: &str) -> Vec<&str> {
    let mut quote = None;
    let parts = command.split(|letter: char| {
        match quote {
            Some(open) if open == letter => quote = None,
            None if matches!(letter, '\'' | '"') => quote = Some(letter),
            _ => {}
        }
        quote.is_none() && letter == ' '
    });
    parts.filter(|word| !word.is_empty()).collect()
}

fn in_order(out: &mut String, document: &Document, options: &TextOptions) {
    let found: Vec<&Finding> = document.findings.iter().filter(|finding| finding.severity == Severity::Ok).collect();
    if found.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{}", title(Severity::Ok, options));
    if options.verbose {
        for finding in found {
            one(out, finding, false, false, options);
        }
        return;
    }
    let mut ids: Vec<&str> = found.iter().map(|finding| finding.id.as_str()).collect();
    ids.dedup();
    out.push_str(&paragraph("  ", &ids.join(", ")));
}

fn skipped(out: &mut String, document: &Document, options: &TextOptions) {
    if document.skipped.is_empty() {
        return;
    }
    let word = "NOT EXAMINED";
    let _ = writeln!(out, "\n{}", if options.colour { format!("\x1b[1m{word}\x1b[0m") } else { word.to_owned() });
    let mut order: Vec<SkipKind> =
        vec![SkipKind::Denied, SkipKind::LockedDown, SkipKind::NotUnderstood, SkipKind::NotHere, SkipKind::NotAsked];
    if options.verbose {
        order.sort();
    }
    let together = |reason: &str, of: &[&Skipped]| {
        let ids: Vec<&str> = of.iter().map(|skipped| skipped.id.as_str()).collect();
        // Further lines stand deeper than ids.
        paragraph("    ", &format!("{reason}: {}", ids.join(", "))).replacen("    ", "  ", 1)
    };
    for kind in order {
        let of: Vec<&Skipped> = document.skipped.iter().filter(|skipped| skipped.because == kind).collect();
        if kind == SkipKind::NotHere && !options.verbose && !of.is_empty() {
            out.push_str(&together("Nothing of the kind here (--verbose tells more)", &of));
            continue;
        }
        // Many have the same reason: it is printed once.
        let mut told: Vec<&str> = Vec::new();
        for skipped in &of {
            if told.contains(&skipped.reason.as_str()) {
                continue;
            }
            told.push(&skipped.reason);
            let alike: Vec<&Skipped> = of.iter().filter(|other| other.reason == skipped.reason).copied().collect();
            out.push_str(&if alike.len() == 1 {
                entry(&skipped.id, &skipped.reason)
            } else {
                together(&skipped.reason, &alike)
            });
        }
    }
}

fn summary(out: &mut String, document: &Document) {
    let [bad, warnings, notes, fine] =
        [Severity::Bad, Severity::Warning, Severity::Note, Severity::Ok].map(|severity| document.count(severity));
    let (warnings, not_made) = (counted(warnings, "warning"), document.skipped.len());
    let counts = format!("{bad} bad, {warnings}, {notes} to be known, {fine} in order, {not_made} checks not made");
    let verdict = match document.worst() {
        Some(Severity::Bad) => "Not fit to measure on",
        Some(Severity::Warning) => "Fit to measure on, not at its best",
        _ => "Fit to measure on",
    };
    let verdict = if document.scope.only.is_empty() { verdict } else { "In part" };
    let _ = write!(out, "\n{}", paragraph("", &format!("{verdict}: {counts}.")));
    let steps = steps(document);
    if !steps.is_empty() {
        let _ = writeln!(out, "Commands to paste, for bad findings and warnings:\n{}", steps.trim_end_matches('\n'));
    }
}

fn add_new<T: PartialEq>(all: &mut Vec<T>, one: T) {
    if !all.contains(&one) {
        all.push(one);
    }
}

/// The remedies of all that is bad or a warning, put together: one shield, one tune a device, one boot line.
fn steps(document: &Document) -> String {
    let mut cpus: Vec<&str> = Vec::new();
    let mut flags: Vec<String> = Vec::new();
    let mut tunes: Vec<(Option<&String>, Vec<String>)> = Vec::new();
    let mut boot: Vec<&str> = Vec::new();
    let wanted = document.findings.iter().filter(|finding| finding.severity >= Severity::Warning);
    for remedy in wanted.flat_map(|finding| &finding.remedies) {
        match remedy {
            Remedy::Tune { setting, nic } => {
                let word = format!("--set {}", shell_word(setting));
                match tunes.iter_mut().find(|(device, _)| *device == nic.as_ref()) {
                    Some((_, words)) => add_new(words, word),
                    None => tunes.push((nic.as_ref(), vec![word])),
                }
            }
            Remedy::Shield { arguments } => {
                let Some(rest) = arguments.strip_prefix("-a ") else { continue };
                let (list, more) = rest.split_once(' ').unwrap_or((rest, ""));
                list.split(',').filter(|part| !part.is_empty()).for_each(|part| add_new(&mut cpus, part));
                for flag in more.split("--").map(str::trim).filter(|flag| !flag.is_empty()) {
                    add_new(&mut flags, format!("--{flag}"));
                }
            }
            Remedy::Boot { words } => words.split(' ').for_each(|word| add_new(&mut boot, word)),
            Remedy::Command { .. } | Remedy::Advice { .. } => {}
        }
    }
    let mut steps = String::new();
    if !cpus.is_empty() {
        let flags: String = flags.iter().map(|flag| format!(" {flag}")).collect();
        steps.push_str(&pasted("  ", &[format!("windhover shield -a {}{flags}", cpus.join(","))]));
    }
    for (device, words) in tunes {
        let device = device.map(|device| format!(" --nic {device}")).unwrap_or_default();
        let parts: Vec<String> = std::iter::once(format!("windhover tune apply{device}")).chain(words).collect();
        steps.push_str(&pasted("  ", &parts));
    }
    if !boot.is_empty() {
        let words = format!("and at the next boot, on the kernel's command line: {}", boot.join(" "));
        // Each line is a comment for the shell.
        let lines = report::paragraph("", &words, width().saturating_sub("  # ".len()));
        steps.extend(lines.lines().map(|line| format!("  # {line}\n")));
    }
    steps
}

pub(super) fn comparison_text(comparison: &Comparison) -> String {
    let mut out = paragraph("A: ", &comparison.a) + &paragraph("B: ", &comparison.b);
    if comparison.same_machine {
        out.push_str("Both are of one machine and one boot.\n");
    }
    if let Some([a, b]) = &comparison.examined_for {
        let told = format!(
            "A was examined for {a}, B for {b}: their findings cannot be compared. Save both with the same --cpus, --nic and checks"
        );
        out.push_str(&paragraph("", &told));
    }
    if comparison.differences.is_empty() {
        out.push_str("\nNothing differs.\n");
        return out;
    }
    for (should, word) in [(true, "SHOULD MATCH, AND DIFFERS"), (false, "MAY DIFFER, OR IS KNOWN OF ONE ONLY")] {
        let found = comparison.differences.iter().filter(|difference| difference.should_match == should);
        let shown = |value: &Option<String>| match value.as_deref() {
            None => "not known".to_owned(),
            Some("") => "(empty)".to_owned(),
            Some(value) => value.to_owned(),
        };
        let row = |difference: &Difference| vec![difference.what.clone(), shown(&difference.a), shown(&difference.b)];
        let rows: Vec<Vec<String>> = found.map(row).collect();
        if !rows.is_empty() {
            let _ = write!(out, "\n{word}\n{}", table(&["what", "A", "B"], rows));
        }
    }
    let should: Vec<&str> = comparison
        .differences
        .iter()
        .filter(|difference| difference.should_match)
        .map(|difference| difference.what.as_str())
        .collect();
    if should.is_empty() {
        out.push_str("\nThe ends match in all that should.\n");
    } else {
        let sentence = format!("{} that should not be: {}.", counted(should.len(), "difference"), some_of(should, 3));
        let _ = write!(out, "\n{}", paragraph("", &sentence));
    }
    out
}
