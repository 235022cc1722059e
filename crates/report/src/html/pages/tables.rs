//! The figures of each repetition of a cell, as tables.

use crate::RunInput;
use crate::cell_tables::{Room, text, unit};
use crate::html::heat::CellMaps;
use crate::result_tables;
use crate::units::{commas, plain, span, us_or_dash};
use model::quantity::{self, Group, Quantity};
use model::result::Outlier;
use model::{OneWay, ResultDocument, Statistic};
use serde::Serialize;

/// Worst messages that a cell names.
const WORST: usize = 12;

#[derive(Serialize, Default)]
pub(super) struct Table {
    caption: String,
    heads: Vec<String>,
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

impl Table {
    /// The same as tables of few columns, each with the words that lead: a page is no wider than a window.
    fn narrow(self) -> Vec<Self> {
        const MOST: usize = 8;
        let figures: Vec<usize> = (self.words..self.heads.len()).collect();
        if figures.len() <= MOST || self.rows.is_empty() {
            return vec![self];
        }
        let parts = figures.len().div_ceil(MOST);
        let of = |(number, chosen): (usize, &[usize])| {
            let pick = |cells: &[String]| -> Vec<String> {
                (0..self.words).chain(chosen.iter().copied()).filter_map(|place| cells.get(place).cloned()).collect()
            };
            let rows = self.rows.iter().map(|row| Row { link: row.link.clone(), cells: pick(&row.cells) });
            Self {
                caption: if number == 0 { self.caption.clone() } else { format!("{}, continued", self.caption) },
                heads: pick(&self.heads),
                words: self.words,
                ends_in_words: self.ends_in_words && number + 1 == parts,
                rows: rows.collect(),
            }
        };
        figures.chunks(figures.len().div_ceil(parts)).enumerate().map(of).collect()
    }
}

fn row(cells: Vec<String>) -> Row {
    Row { link: String::new(), cells }
}

/// The distributions of all groups.
const TIMES: [Group; 9] = [
    Group::Latency,
    Group::Intended,
    Group::Lateness,
    Group::Corrected,
    Group::Working,
    Group::OneWay,
    Group::Segments,
    Group::Fates,
    Group::Steps,
];

/// All distributions of all repetitions.
pub(super) fn distributions(results: &[&ResultDocument]) -> Table {
    let mut rows = Vec::new();
    for result in results {
        for (host, distribution, times) in result_tables::distributions(result, &TIMES) {
            let mut name = distribution.heading(times.kind());
            match distribution.group() {
                Group::OneWay => name = format!("one way {name}{}", error_words(result)),
                Group::Segments => name.push_str(&stamps_words(result, distribution.id)),
                _ => {}
            }
            name.extend(host.map(|host| format!(", {}", plain(host))));
            let mut cells = vec![repetition(result), name];
            cells.extend(result_tables::statistics(times, &Statistic::IN_TABLES));
            rows.push(row(cells));
        }
    }
    let statistics = Statistic::IN_TABLES.map(|statistic| statistic.word().to_owned());
    Table {
        caption: "All distributions, in µs".to_owned(),
        heads: ["rep.", "", "messages"].map(str::to_owned).into_iter().chain(statistics).collect(),
        words: 2,
        ends_in_words: false,
        rows,
    }
}

fn error_words(result: &ResultDocument) -> String {
    let one_way = result.one_way.as_ref().filter(|one_way| one_way.method != "same-clock");
    let words = |one_way: &OneWay| format!(" (±{}, {} stamps)", span(one_way.error_ns as f64), plain(&one_way.stamps));
    one_way.map(words).unwrap_or_default()
}

fn stamps_words(result: &ResultDocument, name: &str) -> String {
    let segment = result.segments.iter().find(|segment| segment.name == name);
    segment.map(|segment| format!(" ({} stamps)", plain(&segment.stamps))).unwrap_or_default()
}

fn head(quantity: &Quantity) -> String {
    format!("{} {}", quantity.title, unit(quantity.unit)).trim().to_owned()
}

/// The quantities of some groups: a row a repetition, and a reflector or an end of it.
fn quantities(caption: &str, rows: &[(&ResultDocument, Option<&str>)], groups: &[Group], zeros: bool) -> Table {
    let figures = result_tables::figures(rows, groups, zeros);
    let cells = |(place, (result, host)): (usize, &(&ResultDocument, Option<&str>))| {
        let mut cells = vec![repetition(result), host.map(plain).unwrap_or_default()];
        let of = |(quantity, values): &(&Quantity, Vec<Option<f64>>)| {
            text(quantity.unit, values.get(place).copied().flatten(), Room::Wide)
        };
        cells.extend(figures.iter().map(of));
        row(cells)
    };
    let heads = ["rep.", ""].map(str::to_owned).into_iter();
    Table {
        caption: caption.to_owned(),
        heads: heads.chain(figures.iter().map(|(quantity, _)| head(quantity))).collect(),
        words: 2,
        ends_in_words: false,
        rows: if figures.is_empty() { Vec::new() } else { rows.iter().enumerate().map(cells).collect() },
    }
}

/// The quantities of a group that several subjects have: a row a repetition and subject. What no row has, and with `zeros`
/// unset what is 0 in all rows, has no column.
fn of_subjects(
    caption: &str,
    results: &[&ResultDocument],
    group: Group,
    subjects: &[&'static str],
    zeros: bool,
) -> Table {
    let of = |result: &ResultDocument, subject: &str, word: &str| {
        quantity::find(&format!("{subject}.{word}")).and_then(|quantity| quantity.of(result))
    };
    let known = |word: &str| {
        let mut values =
            results.iter().flat_map(|result| subjects.iter().map(move |subject| of(result, subject, word)));
        values.any(|value| value.is_some_and(|value| zeros || value != 0.0))
    };
    let first = |quantity: &'static Quantity| {
        let (subject, word) = quantity.id.split_once('.')?;
        (subject == subjects[0] && known(word)).then_some((quantity, word))
    };
    let shown: Vec<(&Quantity, &str)> = quantity::of_group(group).filter_map(first).collect();
    let rows = results.iter().flat_map(|result| subjects.iter().map(move |subject| (*result, *subject)));
    let cells = |(result, subject): (&ResultDocument, &str)| -> Option<Row> {
        let values: Vec<Option<f64>> = shown.iter().map(|(_, word)| of(result, subject, word)).collect();
        values.iter().any(Option::is_some).then(|| {
            let texts = shown.iter().zip(values).map(|((quantity, _), value)| text(quantity.unit, value, Room::Wide));
            row([repetition(result), subject.to_owned()].into_iter().chain(texts).collect())
        })
    };
    let heads = ["rep.", ""].map(str::to_owned).into_iter();
    Table {
        caption: caption.to_owned(),
        heads: heads.chain(shown.iter().map(|(quantity, _)| head(quantity))).collect(),
        words: 2,
        ends_in_words: false,
        rows: rows.filter_map(cells).collect(),
    }
}

/// What is counted: messages, the schedule, packets of PGM, streams, and what each end cost and dropped.
pub(super) fn counts(results: &[&ResultDocument]) -> Vec<Table> {
    let whole: Vec<_> = results.iter().map(|result| (*result, None)).collect();
    let each = |result: &&'_ ResultDocument| -> Vec<Option<String>> {
        let hosts = result_tables::hosts(result).into_iter().map(|host| Some(host.to_owned()));
        std::iter::once(None).chain(hosts).collect()
    };
    let hosts: Vec<(&ResultDocument, Option<String>)> =
        results.iter().flat_map(|result| each(result).into_iter().map(move |host| (*result, host))).collect();
    let messages: Vec<_> = hosts.iter().map(|(result, host)| (*result, host.as_deref())).collect();
    let ends: Vec<_> = results
        .iter()
        .flat_map(|result| {
            result.pgm.iter().flat_map(|pgm| &pgm.ends).map(move |end| (*result, Some(end.host.as_str())))
        })
        .collect();
    let mut schedule = quantities("The schedule", &whole, &[Group::Schedule], true);
    let saturated = |result: &ResultDocument| {
        let found = result.rate.as_ref()?.saturated.as_ref()?;
        Some(plain(&format!("{}: {}", found.who, found.why)))
    };
    if results.iter().any(|result| saturated(result).is_some()) {
        schedule.heads.push("could not keep up".to_owned());
        schedule.ends_in_words = true;
        for (row, result) in schedule.rows.iter_mut().zip(results) {
            row.cells.push(saturated(result).unwrap_or_else(|| "–".to_owned()));
        }
    }
    let roles = ["initiator", "reflector"];
    let all = [
        quantities("Messages", &messages, &[Group::Messages], true),
        schedule,
        quantities("PGM: packets at each end; what is 0 at all of them is left out", &ends, &[Group::Pgm], false),
        of_subjects("Bulk data; jitter is that of RFC 3550", results, Group::Flows, &["up", "down"], true),
        of_subjects("CPU and scheduling of both ends", results, Group::Cpu, &roles, true),
        of_subjects("Dropped at both ends, as far as anything was", results, Group::Drops, &roles, false),
    ];
    all.into_iter().flat_map(Table::narrow).collect()
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
        heads: ["message", "rep.", "intended", "sent", "received", "RTT", "late", "parts"].map(str::to_owned).into(),
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
