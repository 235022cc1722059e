//! One folded section a cell: verdict, all figures of each repetition, series, the worst messages, what the ends were told
//! and what they cost, and what was changed for it.

use super::heat::{CellMaps, Page as Maps};
use super::series;
use super::stills::{Still, Stills};
use crate::cells::Cell;
use crate::document::CellInfo;
use crate::units::{commas, counted, plain, span, us_or_dash};
use crate::{Report, RunInput};
use minijinja::Value;
use model::result::{EndReport, Outlier};
use model::{Latency, OneWay, Probe, ResultDocument, Signed};
use serde::Serialize;

/// Worst messages that a cell without maps names.
const WORST: usize = 12;

#[derive(Serialize)]
pub(super) struct Page {
    anchor: String,
    title: String,
    /// The most important figures.
    words: String,
    sign: &'static str,
    verdict: Vec<Found>,
    maps: Vec<MapLink>,
    tables: Vec<Table>,
    series: Vec<Drawn>,
    facts: Vec<Facts>,
}

#[derive(Serialize)]
struct Found {
    sign: &'static str,
    name: String,
    detail: String,
}

/// A repetition's maps in the viewer.
#[derive(Serialize)]
struct MapLink {
    id: String,
    title: String,
    quantities: Vec<(&'static str, String)>,
    stills: Vec<Still>,
}

#[derive(Serialize, Default)]
struct Table {
    caption: String,
    heads: Vec<&'static str>,
    /// So many leading columns hold words.
    words: usize,
    /// Whether the last column holds words too.
    ends_in_words: bool,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    /// Where its first word leads; empty: nowhere.
    link: String,
    cells: Vec<String>,
}

#[derive(Serialize)]
struct Drawn {
    heading: String,
    svg: Value,
}

#[derive(Serialize)]
struct Facts {
    heading: String,
    pairs: Vec<(String, String)>,
}

/// The sections of all cells, in the order of the tables.
pub(super) fn of(report: &Report, maps: &Maps, stills: &Stills) -> Vec<Page> {
    let cells = report.cells.iter().enumerate();
    cells.filter_map(|(number, cell)| Some(page(number, cell, report.inputs.get(cell.run)?, maps, stills))).collect()
}

fn page(number: usize, cell: &Cell, run: &RunInput, maps: &Maps, stills: &Stills) -> Page {
    let info = &cell.info;
    let members: Vec<(usize, &ResultDocument)> =
        cell.members.iter().filter_map(|member| Some((*member, run.results.get(*member)?))).collect();
    let results: Vec<&ResultDocument> = members.iter().map(|(_, result)| *result).collect();
    let of_cell: Vec<(&ResultDocument, &CellMaps)> = members
        .iter()
        .filter_map(|(member, result)| Some((*result, maps.by_result.get(&(cell.run, *member))?)))
        .collect();
    let mut tables = vec![figures(&results)];
    tables.extend(counts(&results));
    tables.extend(reflectors(&results));
    tables.extend(streams(&results));
    tables.extend(worst(run, &members, &of_cell));
    tables.retain(|table| !table.rows.is_empty());
    Page {
        anchor: format!("cell-{number}"),
        title: title(info),
        words: words(info),
        sign: info.mark.sign(),
        verdict: verdict(info),
        maps: members
            .iter()
            .filter_map(|(member, result)| {
                let of_result = maps.by_result.get(&(cell.run, *member))?;
                let stills = stills.by_result.get(&(cell.run, *member)).cloned().unwrap_or_default();
                Some(map_link(result, of_result, of_cell.len(), stills))
            })
            .collect(),
        tables,
        series: series::of(number, &results)
            .into_iter()
            .map(|(heading, svg)| Drawn { heading, svg: Value::from_safe_string(svg) })
            .collect(),
        facts: facts(run, &members),
    }
}

fn title(info: &CellInfo) -> String {
    let label = if info.label == "all cells" { String::new() } else { format!(" · {}", info.label) };
    format!("{} {} · {} B{label}", info.probe, info.protocol.to_uppercase(), commas(info.size_bytes))
}

fn words(info: &CellInfo) -> String {
    let kind = info.kind.title();
    let mut words: Vec<String> =
        [("p50", info.p50_ns), ("p99", info.p99_ns), ("p99.9", info.p99_9_ns), ("max", info.max_ns)]
            .into_iter()
            .filter_map(|(name, ns)| Some(format!("{name} {}", span(ns?))))
            .collect();
    if let Some(first) = words.first_mut() {
        first.insert_str(0, &format!("{kind} "));
    }
    if info.sent > 0 {
        words.push(if info.lost == 0 { "none lost".to_owned() } else { format!("{} lost", commas(info.lost)) });
    }
    words.join(", ")
}

fn verdict(info: &CellInfo) -> Vec<Found> {
    let total = info.repetitions + info.left_out;
    info.findings
        .iter()
        .map(|finding| {
            let at = finding.end.as_deref().map(|end| format!(" at the {end}")).unwrap_or_default();
            let times = if total > 1 {
                format!(", {} of {}", finding.repetitions, counted(total, "repetition"))
            } else {
                String::new()
            };
            Found {
                sign: if finding.invalid { "!" } else { "*" },
                name: format!("{}{at}{times}", finding.id),
                detail: finding.detail.clone(),
            }
        })
        .collect()
}

fn map_link(result: &ResultDocument, of_result: &CellMaps, all: usize, stills: Vec<Still>) -> MapLink {
    let title = match result.repetition {
        Some(repetition) if all > 1 => format!("repetition {repetition}"),
        _ => String::new(),
    };
    let word = |tag: &str| match tag {
        "rtt" => Some(("rtt", "RTT from actual send")),
        "rtt_intended" => Some(("rtt_intended", "RTT from intended send")),
        "lateness" => Some(("lateness", "lateness")),
        _ => None,
    };
    let quantities =
        of_result.maps.iter().filter_map(|map| word(&map.tag)).map(|(tag, name)| (tag, name.to_owned())).collect();
    MapLink { id: of_result.id.clone(), title, quantities, stills }
}

fn repetition(result: &ResultDocument) -> String {
    let sign = if result.verdict.trusted { "" } else { " !" };
    result.repetition.map_or_else(|| format!("–{sign}"), |repetition| format!("{repetition}{sign}"))
}

fn row(cells: Vec<String>) -> Row {
    Row { link: String::new(), cells }
}

fn dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| value.to_string())
}

fn latency_cells(name: &str, latency: &Latency) -> Vec<String> {
    let ns = |value: Option<u64>| us_or_dash(value.map(|ns| ns as f64));
    vec![
        name.to_owned(),
        commas(latency.count),
        us_or_dash(latency.mean_ns),
        us_or_dash(latency.stdev_ns),
        ns(latency.min_ns),
        ns(latency.p50_ns),
        ns(latency.p90_ns),
        ns(latency.p99_ns),
        ns(latency.p99_9_ns),
        ns(latency.p99_99_ns),
        ns(latency.p99_999_ns),
        ns(latency.max_ns),
    ]
}

fn signed_cells(name: &str, signed: &Signed) -> Vec<String> {
    let ns = |value: Option<i64>| us_or_dash(value.map(|ns| ns as f64));
    vec![
        name.to_owned(),
        commas(signed.count),
        us_or_dash(Some(signed.mean_ns)),
        us_or_dash(signed.stdev_ns),
        ns(Some(signed.min_ns)),
        ns(signed.p50_ns),
        "–".to_owned(),
        ns(signed.p99_ns),
        ns(signed.p99_9_ns),
        "–".to_owned(),
        "–".to_owned(),
        ns(Some(signed.max_ns)),
    ]
}

/// All distributions of all repetitions.
fn figures(results: &[&ResultDocument]) -> Table {
    let mut rows = Vec::new();
    for result in results {
        let mut lines: Vec<Vec<String>> = Vec::new();
        if let Some(latency) = &result.latency {
            let from = if result.latency_intended.is_some() { " from actual send" } else { "" };
            lines.push(latency_cells(&format!("{}{from}", latency.kind.title()), latency));
        }
        if let Some(latency) = &result.latency_intended {
            lines.push(latency_cells(&format!("{} from intended send", latency.kind.title()), latency));
        }
        lines.extend(result.lateness.as_ref().map(|latency| latency_cells("lateness", latency)));
        if let Some(one_way) = &result.one_way {
            let error = error_words(one_way);
            lines.push(signed_cells(&format!("one way out{error}"), &one_way.out));
            lines.push(signed_cells(&format!("one way back{error}"), &one_way.back));
        }
        for segment in &result.segments {
            lines.push(latency_cells(
                &format!("part: {} ({} stamps)", plain(&segment.name), plain(&segment.stamps)),
                &segment.latency,
            ));
        }
        if let Some(stream) = &result.stream {
            lines.extend(
                stream.idle_latency.as_ref().map(|latency| latency_cells("ping-pong before the stream", latency)),
            );
            lines.extend(
                stream.working_latency.as_ref().map(|latency| latency_cells("ping-pong beside the stream", latency)),
            );
        }
        for mut line in lines {
            line.insert(0, repetition(result));
            rows.push(row(line));
        }
    }
    Table {
        caption: "All figures, in µs".to_owned(),
        heads: vec![
            "rep.", "", "messages", "mean", "stdev", "min", "p50", "p90", "p99", "p99.9", "p99.99", "p99.999", "max",
        ],
        words: 2,
        ends_in_words: false,
        rows,
    }
}

fn error_words(one_way: &OneWay) -> String {
    match one_way.method.as_str() {
        "same-clock" => String::new(),
        _ => format!(" (±{})", span(one_way.error_ns as f64)),
    }
}

/// Messages and rates of each repetition.
fn counts(results: &[&ResultDocument]) -> Vec<Table> {
    let messages = Table {
        caption: "Messages".to_owned(),
        heads: vec!["rep.", "sent", "received", "lost", "duplicated", "reordered", "late"],
        words: 1,
        ends_in_words: false,
        rows: results
            .iter()
            .map(|result| {
                let messages = &result.messages;
                row(vec![
                    repetition(result),
                    commas(messages.sent),
                    commas(messages.received),
                    commas(messages.lost),
                    dash(messages.duplicated.map(commas)),
                    dash(messages.reordered.map(commas)),
                    dash(messages.late.map(commas)),
                ])
            })
            .collect(),
    };
    let rates = Table {
        caption: "The schedule, in messages a second".to_owned(),
        heads: vec![
            "rep.",
            "asked",
            "achieved",
            "intended",
            "behind",
            "most behind",
            "the link carries",
            "could not keep up",
        ],
        words: 1,
        ends_in_words: true,
        rows: results
            .iter()
            .filter_map(|result| {
                let rate = result.rate.as_ref()?;
                Some(row(vec![
                    repetition(result),
                    format!("{:.1}", rate.asked_pps),
                    format!("{:.1}", rate.achieved_pps),
                    commas(rate.intended),
                    commas(rate.behind),
                    commas(rate.most_behind),
                    rate.line_pps.map_or_else(|| "–".to_owned(), |pps| format!("{pps:.0}")),
                    rate.saturated
                        .as_ref()
                        .map_or_else(|| "–".to_owned(), |found| plain(&format!("{}: {}", found.who, found.why))),
                ]))
            })
            .collect(),
    };
    vec![messages, rates]
}

fn reflectors(results: &[&ResultDocument]) -> Option<Table> {
    let several: Vec<Row> = results
        .iter()
        .flat_map(|result| result.reflectors.iter().map(move |reflector| (result, reflector)))
        .map(|(result, reflector)| {
            let mut cells = match &reflector.latency {
                Some(latency) => latency_cells(&plain(&reflector.host), latency),
                None => {
                    std::iter::once(plain(&reflector.host)).chain(std::iter::repeat_n("–".to_owned(), 11)).collect()
                }
            };
            cells.insert(0, repetition(result));
            cells.push(commas(reflector.messages.lost));
            row(cells)
        })
        .collect();
    (!several.is_empty()).then(|| Table {
        caption: "Each reflector by itself: RTT from actual send, in µs".to_owned(),
        heads: vec![
            "rep.",
            "reflector",
            "messages",
            "mean",
            "stdev",
            "min",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "p99.99",
            "p99.999",
            "max",
            "lost",
        ],
        words: 2,
        ends_in_words: false,
        rows: several,
    })
}

fn streams(results: &[&ResultDocument]) -> Option<Table> {
    let rows: Vec<Row> = results
        .iter()
        .filter_map(|result| Some((result, result.stream.as_ref()?)))
        .flat_map(|(result, stream)| stream.flows.iter().map(move |flow| (result, flow)))
        .map(|(result, flow)| {
            row(vec![
                repetition(result),
                plain(&flow.direction),
                flow.flows.to_string(),
                commas(flow.bytes),
                format!("{:.2}", flow.bits_per_second / 1e6),
                dash(flow.datagrams_per_second.map(|rate| format!("{rate:.0}"))),
                dash(flow.sent.map(commas)),
                dash(flow.lost.map(commas)),
                dash(flow.reordered.map(commas)),
                dash(flow.duplicated.map(commas)),
                us_or_dash(flow.rfc3550_jitter_ns),
                us_or_dash(flow.rfc3550_jitter_max_ns),
                dash(flow.retransmits.map(commas)),
                us_or_dash(flow.tcp_rtt_mean_ns.map(|ns| ns as f64)),
                dash(flow.congestion.as_deref().map(plain)),
            ])
        })
        .collect();
    (!rows.is_empty()).then(|| Table {
        caption: "Bulk data; jitter (RFC 3550) and TCP's RTT in µs".to_owned(),
        heads: vec![
            "rep.",
            "way",
            "flows",
            "bytes",
            "Mbit/s",
            "datagrams/s",
            "sent",
            "lost",
            "reordered",
            "duplicated",
            "jitter",
            "largest",
            "sent again",
            "TCP's RTT",
            "congestion",
        ],
        words: 2,
        ends_in_words: false,
        rows,
    })
}

/// The worst messages: of the repetitions that have maps from there, of others from the cell's file.
fn worst(run: &RunInput, members: &[(usize, &ResultDocument)], maps: &[(&ResultDocument, &CellMaps)]) -> Option<Table> {
    let mut all: Vec<(&ResultDocument, Option<&str>, Outlier)> = Vec::new();
    for (result, of_result) in maps {
        all.extend(of_result.outliers.iter().map(|outlier| (*result, Some(of_result.id.as_str()), outlier.clone())));
    }
    if maps.is_empty() {
        let folder = run.folder.as_deref()?;
        for (member, result) in members {
            let Some(step) = run.steps.get(*member) else { continue };
            let kept = store::outliers(folder, *step).unwrap_or_default();
            all.extend(kept.into_iter().map(|outlier| (*result, None, outlier)));
        }
    }
    all.sort_by_key(|(result, _, outlier)| {
        (
            outlier.lost,
            std::cmp::Reverse(outlier.rtt_ns.saturating_add(outlier.lateness_ns)),
            result.repetition,
            outlier.seq,
        )
    });
    let left_out = all.len().saturating_sub(WORST);
    let rows: Vec<Row> = all
        .into_iter()
        .take(WORST)
        .map(|(result, map, outlier)| {
            let time = |ns: u64| format!("{:.6}", ns as f64 / 1e9);
            let parts: Vec<String> =
                outlier.parts_ns.iter().map(|(name, ns)| format!("{} {}", plain(name), span(*ns as f64))).collect();
            let received = outlier.at_ns.saturating_add(outlier.rtt_ns);
            Row {
                link: map.map(|map| at_message(map, &outlier)).unwrap_or_default(),
                cells: vec![
                    commas(outlier.seq),
                    repetition(result),
                    time(outlier.at_ns.saturating_sub(outlier.lateness_ns)),
                    time(outlier.at_ns),
                    if outlier.lost { "lost".to_owned() } else { time(received) },
                    if outlier.lost { "–".to_owned() } else { us_or_dash(Some(outlier.rtt_ns as f64)) },
                    us_or_dash(Some(outlier.lateness_ns as f64)),
                    [parts.join(", "), outlier.host.as_deref().map(plain).unwrap_or_default()]
                        .join(" ")
                        .trim()
                        .to_owned(),
                ],
            }
        })
        .collect();
    let more =
        if left_out > 0 { format!("; {} more in the run directory", commas(left_out as u64)) } else { String::new() };
    Some(Table {
        caption: format!("Worst messages, times in s since the first message, RTT and lateness in µs{more}"),
        heads: vec!["message", "rep.", "intended", "sent", "received", "RTT", "late", "parts"],
        words: 1,
        ends_in_words: true,
        rows,
    })
}

/// The place of a message in the viewer: its neighbourhood, with the message picked.
fn at_message(map: &str, outlier: &Outlier) -> String {
    let at = outlier.at_ns.saturating_sub(outlier.lateness_ns) as f64 / 1e9;
    format!("#heat={map}&q=rtt_intended&t={:.3},{:.3}&pick={}", (at - 1.0).max(0.0), at + 1.0, outlier.seq)
}

fn facts(run: &RunInput, members: &[(usize, &ResultDocument)]) -> Vec<Facts> {
    let mut out = Vec::new();
    let Some((_, first)) = members.first() else { return out };
    out.push(Facts {
        heading: "Factors".to_owned(),
        pairs: first.factors.keys().filter_map(|name| Some((plain(name), plain(&first.factor(name)?)))).collect(),
    });
    out.push(Facts { heading: "Initiator".to_owned(), pairs: end(&first.ends.initiator, members, false) });
    if let Some(reflector) = &first.ends.reflector {
        out.push(Facts { heading: "Reflector".to_owned(), pairs: end(reflector, members, true) });
    }
    for prepared in &first.prepared {
        let mut pairs: Vec<(String, String)> = Vec::new();
        if let Some(shield) = &prepared.shield {
            pairs.push(("shield".to_owned(), plain(&shield.backend.to_string())));
            pairs.push(("CPUs without processes of others".to_owned(), plain(&shield.processes.to_string())));
            pairs.push(("CPUs without device interrupts".to_owned(), plain(&shield.interrupts.to_string())));
        }
        pairs.extend(prepared.settings.iter().map(|setting| (plain(&setting.key), plain(&setting.value))));
        pairs.push(("settings changed".to_owned(), prepared.changed.to_string()));
        let notes = prepared.shield.iter().flat_map(|shield| &shield.notes).chain(&prepared.notes);
        pairs.extend(notes.map(|note| ("note".to_owned(), plain(note))));
        out.push(Facts { heading: format!("Prepared on {}", plain(&prepared.host)), pairs });
    }
    if let Some(load) = &first.load {
        out.push(Facts {
            heading: "Load beside it".to_owned(),
            pairs: vec![
                ("profile".to_owned(), plain(&load.spec.profile.to_string())),
                ("busy share".to_owned(), format!("{:.0} %", load.busy_percent)),
                (
                    "evenness (coefficient of variation of its work)".to_owned(),
                    load.work_cv.map_or_else(|| "–".to_owned(), |cv| format!("{cv:.2}")),
                ),
                ("steady when measured".to_owned(), if load.steady { "yes" } else { "no" }.to_owned()),
            ],
        });
    }
    let files: Vec<String> =
        members.iter().filter_map(|(member, _)| Some(format!("cells/{:04}.*", run.steps.get(*member)?))).collect();
    if !files.is_empty() {
        out.push(Facts { heading: "Files".to_owned(), pairs: vec![(plain(&run.name), files.join(", "))] });
    }
    out.retain(|facts| !facts.pairs.is_empty());
    out
}

/// What an end was told, and what it cost in each repetition.
fn end(end: &EndReport, members: &[(usize, &ResultDocument)], reflector: bool) -> Vec<(String, String)> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    let mut push = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            pairs.push((name.to_owned(), plain(&value)));
        }
    };
    push("host", end.host.clone());
    push("address", end.address.clone());
    push(
        "receive",
        (members.first().is_some_and(|(_, result)| result.probe != Probe::Ping)).then(|| end.spec.receive.to_string()),
    );
    push("policy", Some(end.spec.policy.to_string()));
    push("CPU", Some(end.spec.cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string())));
    push("busy poll", end.spec.busy_poll_us.map(|us| format!("{us} µs")));
    push("device", end.spec.device.clone());
    for (name, value) in &end.stack_environment {
        push(name, Some(value.clone()));
    }
    let each = |pick: &dyn Fn(&EndReport) -> Option<String>| -> Option<String> {
        let values: Vec<String> = members
            .iter()
            .filter_map(|(_, result)| {
                pick(if reflector { result.ends.reflector.as_ref()? } else { &result.ends.initiator })
            })
            .collect();
        (!values.is_empty()).then(|| values.join(" | "))
    };
    let percent = |part: u64, whole: u64| (whole > 0).then(|| format!("{:.1} %", 100.0 * part as f64 / whole as f64));
    push("machine busy", each(&|end| end.usage.machine_percent().map(|percent| format!("{percent:.0} %"))));
    push(
        "own CPU time",
        each(&|end| percent(end.usage.process_user_ns + end.usage.process_system_ns, end.usage.elapsed_ns)),
    );
    push("other tasks on its CPU", each(&|end| percent(end.usage.other_tasks_ns?, end.usage.elapsed_ns)));
    push("stolen by the hypervisor", each(&|end| percent(end.usage.cpu_steal_ns?, end.usage.elapsed_ns)));
    push("ready but not running", each(&|end| percent(end.usage.run_queue_wait_ns?, end.usage.elapsed_ns)));
    let some = |count: u64| (count > 0).then(|| commas(count));
    push("displaced", each(&|end| Some(commas(end.usage.involuntary_switches))));
    push("moved to another CPU", each(&|end| some(end.usage.migrations)));
    push("page faults", each(&|end| some(end.usage.minor_faults + end.usage.major_faults)));
    let drops: [(&str, fn(&model::Counters) -> u64); 9] = [
        ("dropped at the socket", |counters| counters.socket_overflow),
        ("dropped for want of receive buffer", |counters| counters.udp_receive_buffer_errors),
        ("other receive errors", |counters| counters.udp_receive_errors),
        ("send errors", |counters| counters.udp_send_buffer_errors),
        ("TCP segments sent again", |counters| counters.tcp_retransmits),
        ("dropped by devices on receiving", |counters| counters.nic_receive_drops),
        ("dropped by devices on sending", |counters| counters.nic_send_drops),
        ("dropped by queueing disciplines", |counters| counters.qdisc_drops),
        ("dropped by a full backlog", |counters| counters.backlog_drops),
    ];
    for (name, pick) in drops {
        push(name, each(&|end| some(pick(&end.counters))));
    }
    pairs
}
