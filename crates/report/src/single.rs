//! The results of one measurement typed by hand: text, Markdown and CSV. Figures are in the kind that the results have.

use crate::parts::{Part, setting};
use crate::sheet::{Form, SENTENCE, Sheet};
use crate::units::{plain, whole};
use crate::{causes, ladder, view};
use digest::cells::shown;
use model::result::EndReport;
use model::{ClockSource, Finding, LatencyKind, ResultDocument, Role, source};
use std::collections::BTreeSet;

/// What is printed of a measurement, in any form.
struct Printed {
    heading: String,
    ends: Vec<(&'static str, String)>,
    sentences: Vec<String>,
    parts: Vec<Part>,
    verdict: String,
    /// Whether each invalidates, and the sentence.
    findings: Vec<(bool, String)>,
    own_cost: String,
}

const NOTHING: &str = "No size was measured.\n";

impl Printed {
    fn of(results: &[ResultDocument]) -> Option<Self> {
        let first = results.first()?;
        let view = view::of(first.probe);
        let mut parts = (view.tables)(results);
        parts.extend(view.percentiles.map(|keys| Part::new("Percentiles", ladder::table(results, keys))));
        parts.retain(|part| !part.grid.rows.is_empty());
        // Without any cause these still have why nothing is known.
        parts.extend(results.iter().filter_map(causes::part));
        parts.iter_mut().for_each(|part| part.words.extend(ladder::dashes(&part.grid)));
        let own = if first.probe.has_peer() { Role::Initiator.word() } else { "threads" };
        let ends = first.ends.iter().filter(|(role, _)| *role == Role::Initiator || first.probe.has_reflector());
        let called = |role: Role| if role == Role::Initiator { own } else { role.word() };
        Some(Self {
            heading: heading(first),
            ends: ends.map(|(role, end)| (called(role), end_words(role, end, first))).collect(),
            sentences: (view.sentences)(results),
            parts,
            verdict: verdict(results),
            findings: findings(results),
            own_cost: own_cost(first),
        })
    }
}

/// What a person reads: a heading with the unit and RTT or RTT/2, one row a size, then the verdict. `rr` adds the CPU of
/// transactions, `ping` the summary lines of iputils. Within `width` columns where a table can be that narrow.
pub fn single_text(results: &[ResultDocument], width: usize) -> String {
    written(results, Form::Terminal(width))
}

pub fn single_markdown(results: &[ResultDocument]) -> String {
    written(results, Form::Markdown)
}

fn written(results: &[ResultDocument], form: Form) -> String {
    let Some(printed) = Printed::of(results) else { return NOTHING.to_owned() };
    let mut sheet = Sheet::new(form);
    sheet.put("", ["**", "**\n\n"], &printed.heading);
    let ends = printed.ends.iter();
    ends.for_each(|(role, words)| sheet.put(&format!("  {role} "), [&format!("- {role}: "), "\n"], words));
    sheet.plain("\n", "\n");
    printed.sentences.iter().for_each(|sentence| sheet.put("", SENTENCE, sentence));
    for part in &printed.parts {
        if !part.title.is_empty() {
            sheet.plain("\n", "");
            sheet.put("", SENTENCE, &part.title);
        }
        sheet.table(&part.grid, 0);
        part.words.iter().for_each(|words| sheet.put("", ["\n", "\n"], words));
        sheet.plain("", "\n");
    }
    results.iter().for_each(|result| sheet.plain(&(view::of(result.probe).below)(result), ""));
    sheet.plain("\n", "");
    sheet.put("", ["- ", "\n"], &printed.verdict);
    for (invalid, text) in &printed.findings {
        let (lead, before) =
            if *invalid { ("  invalid:   ", "  - invalid: ") } else { ("  disturbed: ", "  - disturbed: ") };
        sheet.put(lead, [before, "\n"], text);
    }
    sheet.put("", ["- ", "\n"], &printed.own_cost);
    sheet.finish()
}

/// `pingpong udp: RTT/2 (round trip divided by two) in µs; stdev is the jitter`.
fn heading(first: &ResultDocument) -> String {
    let view = view::of(first.probe);
    let factor = |name: &str| setting(first, name);
    let load = factor("load").filter(|load| load != "none").map(|load| format!(", load {load}")).unwrap_or_default();
    let kind = first.latency.as_ref().map_or(first.probe.latency_kind(false), |latency| latency.kind);
    let figures = view.figures.unwrap_or(match kind {
        LatencyKind::RttHalf => "RTT/2 (round trip divided by two) in µs; stdev is the jitter",
        LatencyKind::Rtt => "RTT (round trip) in µs; stdev is the jitter",
        LatencyKind::OneWay => "one-way time in µs; stdev is the jitter",
        LatencyKind::WakeUp => {
            "wake-up latency (time from the deadline to the thread's next instruction) in µs; stdev is the jitter"
        }
    });
    let words = (view.settings)(first);
    let words = words.join(", ");
    let words = if words.is_empty() { words } else { format!("; {words}") };
    let protocol = factor("protocol").filter(|_| first.probe.has_peer());
    let protocol = protocol.map(|protocol| format!(" {protocol}")).unwrap_or_default();
    let peer = factor("peer").map(|peer| format!(", answered by {peer}")).unwrap_or_default();
    let whose = first.source.as_ref().map(|source| format!(", {}", source::in_words(&source.factor())));
    let whose = plain(&whose.unwrap_or_default());
    format!("{}{protocol}{load}{peer}{whose}: {figures}{words}", first.probe)
}

fn end_words(role: Role, end: &EndReport, result: &ResultDocument) -> String {
    let mut words = Vec::new();
    words.extend(end.host.as_deref().map(plain));
    words.extend(end.address.as_deref().map(plain));
    if !result.is_told(role) {
        return words.join(", ");
    }
    words.extend(result.wake.is_none().then(|| format!("receive {}", end.spec.receive)));
    words.push(format!("policy {}", end.spec.policy));
    match result.wake.as_ref().map(|wake| wake.threads.as_slice()) {
        Some(threads @ [_, ..]) => words.extend(threads.iter().map(|thread| plain(&thread.name))),
        _ => words.push(end.spec.cpu.map_or_else(|| "any CPU".to_owned(), |cpu| format!("CPU {cpu}"))),
    }
    words.extend(end.spec.busy_poll_us.map(|us| format!("busy poll {us} µs")));
    words.extend(end.spec.device.as_deref().map(|device| format!("device {}", plain(device))));
    words.extend(end.frame_backend.map(|backend| format!("frames {backend}")));
    let idle = end.spec.idle.total();
    if idle > 0 {
        words.push(format!("{idle} idle descriptors"));
    }
    words.extend(end.stack_environment.iter().map(|(name, value)| format!("{}={}", plain(name), plain(value))));
    words.join(", ")
}

/// What results of one measurement differ in, sizes or, of `pace`, varying rates: how it is read, its word, and its unit.
fn sweep(results: &[ResultDocument]) -> (fn(&ResultDocument) -> u64, &'static str, &'static str) {
    match results.windows(2).any(|pair| rate(&pair[0]) != rate(&pair[1])) {
        true => (|result| rate(result).unwrap_or(0), "rates", "/s"),
        false => (|result| result.size().unwrap_or(0), "sizes", " B"),
    }
}

/// The rate asked for, in whole messages a second.
fn rate(result: &ResultDocument) -> Option<u64> {
    Some(whole(result.rate.as_ref()?.asked_pps))
}

/// Findings of the sizes, each said once: whether it invalidates, and the sentence.
fn findings(results: &[ResultDocument]) -> Vec<(bool, String)> {
    let (value, word, unit) = sweep(results);
    let mut found: Vec<(&Finding, Vec<u64>)> = Vec::new();
    for result in results {
        let value = value(result);
        for finding in shown(&result.verdict) {
            match found.iter_mut().find(|(known, _)| (known.id, &known.end) == (finding.id, &finding.end)) {
                Some((_, values)) if values.last() == Some(&value) => {}
                Some((_, values)) => values.push(value),
                None => found.push((finding, vec![value])),
            }
        }
    }
    found.sort_by_key(|(finding, _)| !finding.id.is_invalid());
    let sentence = |(finding, values): (&Finding, Vec<u64>)| {
        let at = finding.end.as_deref().map(|end| format!(", {}", plain(end))).unwrap_or_default();
        let in_all = values.len() >= results.len();
        let values: BTreeSet<u64> = values.into_iter().collect();
        let which = match (values.first(), values.last()) {
            (Some(first), Some(last)) if !in_all && first < last => {
                format!(" ({} {word}, {first} to {last}{unit})", values.len())
            }
            (Some(one), _) if !in_all => format!(" ({one}{unit})"),
            _ => String::new(),
        };
        (finding.id.is_invalid(), format!("{}{at}{which}: {}", finding.id.word(), plain(&finding.detail)))
    };
    found.into_iter().map(sentence).collect()
}

fn verdict(results: &[ResultDocument]) -> String {
    match results.iter().filter(|result| !result.verdict.trusted).count() {
        0 if results.iter().any(|result| result.interrupted) => {
            "verdict: INTERRUPTED; what was measured until then is trusted".to_owned()
        }
        0 => "verdict: trusted".to_owned(),
        n if n == results.len() => "verdict: NOT TO BE TRUSTED".to_owned(),
        n => {
            format!("verdict: {n} of {} {} NOT TO BE TRUSTED (marked !)", results.len(), sweep(results).1)
        }
    }
}

fn own_cost(result: &ResultDocument) -> String {
    if let Some(source) = &result.source {
        return format!("own cost: that of the {}, not known", source::in_words(&source.factor()));
    }
    let cost = &result.self_cost;
    let clock = result.clock.as_ref().map_or("", |clock| match clock.source {
        ClockSource::Tsc => "tsc, ",
        ClockSource::Cntvct => "cntvct, ",
        ClockSource::Raw => "CLOCK_MONOTONIC_RAW, ",
        ClockSource::Monotonic => "CLOCK_MONOTONIC, ",
    });
    format!("own cost: clock {clock}{:.0} ns a read{}", cost.clock_read_ns, (view::of(result.probe).own_cost)(cost))
}

/// One row a result, with a heading; the columns are those of [`store::csv`]. Errors: [`store::StoreError::Encode`].
pub fn single_csv(results: &[ResultDocument]) -> Result<String, store::StoreError> {
    let own = results.first().and_then(|first| view::of(first.probe).csv);
    own.map_or_else(|| store::csv(results.iter().map(store::CsvRow::of)), |csv| Ok(csv(results)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_measured_is_said() {
        assert_eq!(single_text(&[], 100), "No size was measured.\n");
        assert_eq!(single_markdown(&[]), "No size was measured.\n");
    }
}
