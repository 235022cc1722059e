//! Documents for people: grouped, the worst first, with remedies to paste.

use super::check::some_of;
use super::cpu::count;
use super::diff::Comparison;
use super::document::{Document, Finding, Remedy, ScopeOrigin, Severity, SkipKind, Substrate, shell_word};
use std::fmt::Write as _;

/// How to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOptions {
    /// Columns.
    pub width: usize,
    /// Whether to colour the words of severity (ECMA-48).
    pub colour: bool,
    /// Also what is in order, with its values, and the reading of each note.
    pub verbose: bool,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self { width: 100, colour: false, verbose: false }
    }
}

/// Columns of the ids.
const ID: usize = 23;

/// A document as text.
#[must_use]
pub fn text(document: &Document, options: &TextOptions) -> String {
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
    summary(&mut out, document, options);
    out
}

fn head(document: &Document) -> String {
    let machine = &document.machine;
    let mut words = Vec::new();
    words.extend(machine.os.clone());
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
        Some(format!("{} ({cpus})", count(number, "CPU")))
    }));
    let mut out = format!("{}\n", words.join(", "));
    let special: Vec<&str> =
        document.realtime.iter().map(|variant| variant.name.as_str()).filter(|name| *name != "PREEMPT_RT").collect();
    if !special.is_empty() {
        let _ = writeln!(out, "Real-time variant: {}", special.join(", "));
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
        let _ = writeln!(out, "Examined {}.", what.join(" "));
    }
    out
}

fn title(severity: Severity, options: &TextOptions) -> String {
    let word = match severity {
        Severity::Bad => "BAD",
        Severity::Warning => "WARNING",
        Severity::Note => "TO BE KNOWN",
        Severity::Ok => "IN ORDER",
    };
    let colour = match severity {
        Severity::Bad => "\x1b[1;31m",
        Severity::Warning => "\x1b[1;33m",
        Severity::Note => "\x1b[1m",
        Severity::Ok => "\x1b[1;32m",
    };
    if options.colour { format!("{colour}{word}\x1b[0m") } else { word.to_owned() }
}

fn one(out: &mut String, finding: &Finding, whole: bool, again: bool, options: &TextOptions) {
    entry(out, &finding.id, &finding.text, options);
    if !whole {
        return;
    }
    if !again {
        labelled(out, "why", &finding.why, options);
    }
    let most = if options.verbose { usize::MAX } else { 2 };
    for reading in finding.read.iter().take(most) {
        labelled(
            out,
            "read",
            &format!("{} = {}", reading.path, if reading.value.is_empty() { "(empty)" } else { &reading.value }),
            options,
        );
    }
    for remedy in &finding.remedies {
        // Commands are to be pasted whole.
        let _ = writeln!(out, "      fix   {remedy}");
    }
    if options.verbose {
        labelled(out, "rests", &finding.evidence.join("; "), options);
    }
}

/// `  id   text`, the text wrapped beside the id.
fn entry(out: &mut String, id: &str, text: &str, options: &TextOptions) {
    let lines = wrap(text, options.width.saturating_sub(ID + 2));
    let mut head = format!("  {id:<ID$}");
    for line in lines {
        let _ = writeln!(out, "{}", format!("{head}{line}").trim_end());
        head = " ".repeat(ID + 2);
    }
}

fn labelled(out: &mut String, label: &str, text: &str, options: &TextOptions) {
    let mut head = format!("      {label:<6}");
    for line in wrap(text, options.width.saturating_sub(12)) {
        let _ = writeln!(out, "{head}{line}");
        head = " ".repeat(12);
    }
}

/// Breaks text between words; a longer word stays whole.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > 0 && line + 1 + word.chars().count() > width.max(20) {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
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
    for line in wrap(&ids.join(", "), options.width.saturating_sub(2)) {
        let _ = writeln!(out, "  {line}");
    }
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
    for kind in order {
        let of: Vec<_> = document.skipped.iter().filter(|skipped| skipped.because == kind).collect();
        if kind == SkipKind::NotHere && !options.verbose && !of.is_empty() {
            let ids: Vec<&str> = of.iter().map(|skipped| skipped.id.as_str()).collect();
            let text = format!("Nothing of the kind here (--verbose tells more): {}", ids.join(", "));
            for (at, line) in wrap(&text, options.width.saturating_sub(4)).into_iter().enumerate() {
                let _ = writeln!(out, "{}{line}", if at == 0 { "  " } else { "    " });
            }
            continue;
        }
        // Many have the same reason: told once.
        let mut told: Vec<&str> = Vec::new();
        for skipped in &of {
            if told.contains(&skipped.reason.as_str()) {
                continue;
            }
            told.push(&skipped.reason);
            let ids: Vec<&str> =
                of.iter().filter(|other| other.reason == skipped.reason).map(|other| other.id.as_str()).collect();
            if ids.len() == 1 {
                entry(out, &skipped.id, &skipped.reason, options);
            } else {
                let text = format!("{}: {}", skipped.reason, ids.join(", "));
                for (at, line) in wrap(&text, options.width.saturating_sub(4)).into_iter().enumerate() {
                    let _ = writeln!(out, "{}{line}", if at == 0 { "  " } else { "    " });
                }
            }
        }
    }
}

fn summary(out: &mut String, document: &Document, _options: &TextOptions) {
    let count = |severity, one: &str, many: &str| {
        let number = document.count(severity);
        format!("{number} {}", if number == 1 { one } else { many })
    };
    let mut words = vec![count(Severity::Bad, "bad", "bad")];
    words.push(count(Severity::Warning, "warning", "warnings"));
    words.push(format!("{} to be known", document.count(Severity::Note)));
    words.push(format!("{} in order", document.count(Severity::Ok)));
    words.push(format!("{} checks not made", document.skipped.len()));
    let verdict = match document.worst() {
        Some(Severity::Bad) => "Not fit to measure on",
        Some(Severity::Warning) => "Fit to measure on, not at its best",
        _ => "Fit to measure on",
    };
    let verdict = if document.scope.only.is_empty() { verdict } else { "In part" };
    let _ = writeln!(out, "\n{verdict}: {}.", words.join(", "));
    let steps = steps(document);
    if !steps.is_empty() {
        let _ = writeln!(out, "What mends the bad and the warnings, to paste:");
        for step in steps {
            let _ = writeln!(out, "  {step}");
        }
    }
}

/// The remedies of all that is bad or a warning, put together: one shield, one tune a device, one boot line.
fn steps(document: &Document) -> Vec<String> {
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
                    Some((_, words)) if words.contains(&word) => {}
                    Some((_, words)) => words.push(word),
                    None => tunes.push((nic.as_ref(), vec![word])),
                }
            }
            Remedy::Shield { arguments } => {
                let Some(rest) = arguments.strip_prefix("-a ") else { continue };
                let (list, more) = rest.split_once(' ').unwrap_or((rest, ""));
                for part in list.split(',').filter(|part| !part.is_empty()) {
                    if !cpus.contains(&part) {
                        cpus.push(part);
                    }
                }
                for flag in more.split("--").map(str::trim).filter(|flag| !flag.is_empty()) {
                    let flag = format!("--{flag}");
                    if !flags.contains(&flag) {
                        flags.push(flag);
                    }
                }
            }
            Remedy::Boot { words } => {
                for word in words.split(' ') {
                    if !boot.contains(&word) {
                        boot.push(word);
                    }
                }
            }
            Remedy::Command { .. } | Remedy::Advice { .. } => {}
        }
    }
    let mut steps = Vec::new();
    if !cpus.is_empty() {
        let flags: String = flags.iter().map(|flag| format!(" {flag}")).collect();
        steps.push(format!("windhover shield -a {}{flags}", cpus.join(",")));
    }
    for (device, words) in tunes {
        let device = device.map(|device| format!(" --nic {device}")).unwrap_or_default();
        let line = format!("windhover tune apply{device}");
        steps.push(if words.len() > 2 {
            format!("{line} \\\n    {}", words.join(" \\\n    "))
        } else {
            format!("{line} {}", words.join(" "))
        });
    }
    if !boot.is_empty() {
        steps.push(format!("# and at the next boot, on the kernel's command line: {}", boot.join(" ")));
    }
    steps
}

/// A comparison as text.
#[must_use]
pub fn comparison_text(comparison: &Comparison, options: &TextOptions) -> String {
    let mut out = format!("A: {}\nB: {}\nEach line: what, A's, B's.\n", comparison.a, comparison.b);
    if comparison.same_machine {
        out.push_str("Both are of one machine and one boot.\n");
    }
    if comparison.differences.is_empty() {
        out.push_str("\nNothing differs.\n");
        return out;
    }
    for (should, word) in [(true, "SHOULD MATCH, AND DIFFERS"), (false, "MAY DIFFER, OR IS KNOWN OF ONE ONLY")] {
        let found: Vec<_> =
            comparison.differences.iter().filter(|difference| difference.should_match == should).collect();
        if found.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n{word}");
        for difference in found {
            let shown = |value: &Option<String>| match value.as_deref() {
                None => "not known".to_owned(),
                Some("") => "(empty)".to_owned(),
                Some(value) => value.to_owned(),
            };
            let (a, b) = (shown(&difference.a), shown(&difference.b));
            let short = format!("  {:<34} {a}  |  {b}", difference.what);
            if short.chars().count() <= options.width {
                let _ = writeln!(out, "{short}");
                continue;
            }
            let _ = writeln!(out, "  {}", difference.what);
            for (end, value) in [("A", a), ("B", b)] {
                for (at, line) in wrap(&value, options.width.saturating_sub(7)).into_iter().enumerate() {
                    let _ = writeln!(out, "    {} {line}", if at == 0 { end } else { " " });
                }
            }
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
        let word = if should.len() == 1 { "difference" } else { "differences" };
        let _ = writeln!(out, "\n{} {word} that should not be: {}.", should.len(), some_of(should, 3));
    }
    out
}
