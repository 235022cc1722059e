//! The figures of each repetition of a cell, as tables.

use crate::RunInput;
use crate::html::heat::CellMaps;
use crate::units::{commas, plain, span, us_or_dash};
use model::result::Outlier;
use model::{Latency, OneWay, ResultDocument, Signed};
use serde::Serialize;

/// Worst messages that a cell names.
const WORST: usize = 12;

#[derive(Serialize, Default)]
pub(super) struct Table {
    caption: String,
    heads: Vec<&'static str>,
    /// So many leading columns hold words.
    words: usize,
    /// Whether the last column holds words too.
    ends_in_words: bool,
    pub(super) rows: Vec<Row>,
}

#[derive(Serialize)]
pub(super) struct Row {
    /// Where its first word leads; empty: nowhere.
    link: String,
    cells: Vec<String>,
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
pub(super) fn figures(results: &[&ResultDocument]) -> Table {
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
        if let Some(pgm) = &result.pgm {
            let told = crate::pgm::distributions(pgm).into_iter();
            lines.extend(told.map(|(host, name, latency)| {
                let at = host.map(|host| format!(", {}", plain(host))).unwrap_or_default();
                latency_cells(&format!("PGM: {name}{at}"), latency)
            }));
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
        _ => format!(" (±{}, {} stamps)", span(one_way.error_ns as f64), one_way.stamps),
    }
}

/// Messages and rates of each repetition.
pub(super) fn counts(results: &[&ResultDocument]) -> Vec<Table> {
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
                    dash(messages.reordered.map(commas)) + &crate::single::depth(messages),
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

/// What each end's source and receiver counted over PGM.
pub(super) fn packets(results: &[&ResultDocument]) -> Option<Table> {
    let mut rows = Vec::new();
    let counts = crate::pgm::counts(results.iter().copied());
    for result in results {
        for end in result.pgm.iter().flat_map(|pgm| &pgm.ends) {
            let mut cells = vec![repetition(result), plain(&end.host)];
            cells.extend(counts.iter().map(|(_, pick)| dash(pick(end).map(commas))));
            rows.push(row(cells));
        }
    }
    let mut heads = vec!["rep.", "end"];
    heads.extend(counts.iter().map(|(name, _)| *name));
    let caption = "PGM: packets at each end".to_owned();
    (!rows.is_empty()).then_some(Table { caption, heads, words: 2, ends_in_words: false, rows })
}

pub(super) fn reflectors(results: &[&ResultDocument]) -> Option<Table> {
    let pgm = results.iter().any(|result| result.pgm.is_some());
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
            cells.extend(pgm.then(|| dash(crate::pgm::naks_of(result, &reflector.host))));
            row(cells)
        })
        .collect();
    (!several.is_empty()).then(|| Table {
        caption: "Each reflector by itself: RTT from actual send, in µs".to_owned(),
        heads: [
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
        ]
        .into_iter()
        .chain(pgm.then_some("NAKs"))
        .collect(),
        words: 2,
        ends_in_words: false,
        rows: several,
    })
}

pub(super) fn streams(results: &[&ResultDocument]) -> Option<Table> {
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
pub(super) fn worst(
    run: &RunInput,
    members: &[(usize, &ResultDocument)],
    maps: &[(&ResultDocument, &CellMaps)],
) -> Option<Table> {
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
