//! The papers' table: which rows there are, and what stands in their columns.

use crate::cells::{Cell, collect, run_names};
use crate::compare::Comparisons;
use crate::document::{Block, CellInfo, Document, Headline, Headlines, Mark, RunInfo, TableRow};
use crate::names::{ROW_AXES, label_word, measured_on, rank};
use crate::reference::{PublishedRow, published};
use crate::units::{counted, plain, utc};
use crate::{Options, RunInput, notes, summary};
use model::{LatencyKind, Substrate};
use std::collections::{BTreeMap, BTreeSet};

/// Digests runs into cells and the document. `compared`: the comparisons of the same runs, for the summary.
pub(crate) fn digest(inputs: &[RunInput], options: &Options, compared: &[Comparisons]) -> (Vec<Cell>, Document) {
    let (mut cells, mut remarks) = collect(inputs, options);
    let (axes, mut fixed) = axes(&cells);
    let rows = number_rows(&mut cells, &axes);
    cells.sort_by_cached_key(|cell| {
        let info = &cell.info;
        (info.row, rank("probe", &info.probe), rank("protocol", &info.protocol), info.size_bytes)
    });
    let notes = notes::number(&mut cells);
    let kind = if options.rtt { LatencyKind::Rtt } else { LatencyKind::RttHalf };
    let size_bytes = table_size(&cells, options.size);
    let mut blocks = measured_blocks(&cells, &rows, &axes, size_bytes);
    if options.reference {
        blocks.extend(published_blocks(&axes, options.rtt));
    }
    for (axis, _) in ROW_AXES.iter().filter(|(_, always)| *always) {
        fixed.remove(*axis);
    }
    remarks.extend(missing(inputs));
    let title = options.title.clone().unwrap_or_else(|| title(inputs));
    let mut document = Document {
        format: crate::document::FORMAT,
        title: plain(&title),
        kind,
        size_bytes,
        summary: Vec::new(),
        runs: inputs.iter().zip(run_names(inputs)).map(|(run, name)| run_info(run, name)).collect(),
        fixed,
        axes,
        blocks,
        cells: cells.iter().map(|cell| cell.info.clone()).collect(),
        notes,
        remarks,
    };
    document.summary = summary::sentences(&document, &cells, compared, inputs);
    (cells, document)
}

fn title(inputs: &[RunInput]) -> String {
    let mut titles: Vec<String> = Vec::new();
    for run in inputs {
        let title = run.document.title.clone().unwrap_or_else(|| run.document.name.clone());
        if !titles.contains(&title) {
            titles.push(title);
        }
    }
    titles.join(" · ")
}

fn run_info(run: &RunInput, name: String) -> RunInfo {
    let document = &run.document;
    RunInfo {
        name,
        title: document.title.as_deref().map(plain),
        substrate: document.substrate,
        measured_on: measured_on(document.substrate).to_owned(),
        started_ns: document.started_ns,
        started: utc(document.started_ns),
        ended_ns: document.ended_ns,
        outcome: document.outcome.as_deref().map(plain),
        tool_version: plain(&document.tool_version),
        seed: document.seed,
        labels: document.labels.iter().map(|(name, value)| (plain(name), plain(value))).collect(),
        results: run.results.len(),
        steps: document.order.len(),
    }
}

fn missing(inputs: &[RunInput]) -> Vec<String> {
    let mut remarks = Vec::new();
    for (run, name) in inputs.iter().zip(run_names(inputs)) {
        let steps = run.document.order.len();
        let outcome = match run.document.outcome.as_deref() {
            Some("done") => String::new(),
            Some("failed") => " (the run failed)".to_owned(),
            Some(other) => format!(" (the run was {})", plain(other)),
            None => " (the run has no end: it is still going on, or was killed)".to_owned(),
        };
        if run.results.len() < steps {
            remarks.push(format!("{name}: {} of {steps} steps have a result{outcome}.", run.results.len()));
        }
        for (cell, why) in &run.failed {
            remarks.push(format!("{name}: no result for {}: {}", plain(cell), plain(why)));
        }
        remarks.extend(run.problems.iter().map(|problem| format!("{name}: {}", plain(problem))));
    }
    remarks
}

/// The axes that make rows, in the order of the columns, and the factors that every cell shares.
fn axes(cells: &[Cell]) -> (Vec<String>, BTreeMap<String, String>) {
    let names: BTreeSet<&String> = cells.iter().flat_map(|cell| cell.info.factors.keys()).collect();
    let mut varying: Vec<String> = Vec::new();
    let mut fixed = BTreeMap::new();
    for name in names {
        match shared(cells, name) {
            Some(value) => {
                fixed.insert(name.clone(), value.clone());
            }
            None => varying.push(name.clone()),
        }
    }
    let mut axes = Vec::new();
    let mut take = |name: &str, always: bool, axes: &mut Vec<String>| {
        let found = varying.iter().position(|axis| axis == name).map(|index| varying.remove(index));
        if found.is_some() || always {
            axes.push(name.to_owned());
        }
    };
    for (name, always) in ROW_AXES {
        take(name, always, &mut axes);
    }
    let last = varying.iter().position(|axis| axis == "run").map(|index| varying.remove(index));
    axes.extend(varying);
    axes.extend(last);
    (axes, fixed)
}

/// The value that all cells of the probes share that have this factor. A rate is what pace is about, and never that.
fn shared<'c>(cells: &'c [Cell], name: &str) -> Option<&'c String> {
    let of = |cell: &'c Cell| cell.info.factors.get(name);
    let probes: BTreeSet<&str> =
        cells.iter().filter(|cell| of(cell).is_some()).map(|cell| cell.info.probe.as_str()).collect();
    let values: BTreeSet<Option<&String>> =
        cells.iter().filter(|cell| name == "rate" || probes.contains(cell.info.probe.as_str())).map(of).collect();
    values.first().copied().flatten().filter(|_| values.len() == 1)
}

/// One row of factors.
pub(crate) struct RowKey {
    substrate: Substrate,
    values: Vec<String>,
    label: String,
    /// The label without the rate.
    series: String,
}

/// What rows are sorted by: substrate, then the rank of each axis' value.
type RowOrder = (Substrate, Vec<(usize, String)>);

/// Gives each cell its row number and label; rows are numbered in the order that the table shows them.
fn number_rows(cells: &mut [Cell], axes: &[String]) -> Vec<RowKey> {
    let values = |info: &CellInfo| -> Vec<String> {
        axes.iter().map(|axis| info.factors.get(axis).cloned().unwrap_or_else(|| "–".to_owned())).collect()
    };
    let mut keys: BTreeMap<RowOrder, Vec<String>> = BTreeMap::new();
    let order = |info: &CellInfo| -> RowOrder {
        let ranks = axes.iter().zip(values(info)).map(|(axis, value)| rank(axis, &value)).collect::<Vec<_>>();
        (info.substrate, ranks)
    };
    for cell in cells.iter() {
        keys.insert(order(&cell.info), values(&cell.info));
    }
    let varies: Vec<bool> = (0..axes.len())
        .map(|column| keys.values().filter_map(|values| values.get(column)).collect::<BTreeSet<_>>().len() > 1)
        .collect();
    let substrates = keys.keys().map(|(substrate, _)| *substrate).collect::<BTreeSet<_>>().len();
    let rows: Vec<RowKey> = keys
        .iter()
        .map(|((substrate, _), values)| {
            let label = |left_out: &str| {
                let mut words: Vec<String> = axes
                    .iter()
                    .zip(values)
                    .zip(&varies)
                    .filter(|((axis, value), varies)| **varies && value.as_str() != "–" && axis.as_str() != left_out)
                    .map(|((axis, value), _)| label_word(axis, value))
                    .collect();
                if substrates > 1 {
                    words.push(substrate.word().to_owned());
                }
                if words.is_empty() { "all cells".to_owned() } else { words.join(" · ") }
            };
            RowKey { substrate: *substrate, values: values.clone(), label: label(""), series: label("rate") }
        })
        .collect();
    let mut colours: Vec<&str> = Vec::new();
    for row in &rows {
        if !colours.contains(&row.series.as_str()) {
            colours.push(&row.series);
        }
    }
    let numbers: BTreeMap<_, usize> = keys.keys().cloned().enumerate().map(|(index, key)| (key, index)).collect();
    for cell in cells.iter_mut() {
        if let Some(&row) = numbers.get(&order(&cell.info)) {
            cell.info.row = row;
            if let Some(row) = rows.get(row) {
                cell.info.label.clone_from(&row.label);
                cell.series.clone_from(&row.series);
                cell.info.colour = colours.iter().position(|series| *series == row.series).unwrap_or(0);
            }
        }
    }
    rows
}

/// The size asked for, or the nearest larger one that ping-pong (else anything) measured, or the largest.
fn table_size(cells: &[Cell], wanted: u64) -> u64 {
    let found = table_sizes(cells);
    found.range(wanted..).next().or_else(|| found.last()).copied().unwrap_or(wanted)
}

/// The sizes that the table can show.
pub(crate) fn table_sizes(cells: &[Cell]) -> BTreeSet<u64> {
    let sizes = |pingpong: bool| -> BTreeSet<u64> {
        cells
            .iter()
            .filter(|cell| !pingpong || cell.info.probe == "pingpong")
            .map(|cell| cell.info.size_bytes)
            .collect()
    };
    let found = sizes(true);
    if found.is_empty() { sizes(false) } else { found }
}

fn measured_blocks(cells: &[Cell], rows: &[RowKey], axes: &[String], size: u64) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let find = |probe: &str, protocol: &str| {
            cells.iter().map(|cell| &cell.info).find(|info| {
                info.row == index && info.probe == probe && info.protocol == protocol && info.size_bytes == size
            })
        };
        let headlines = Headlines {
            netperf_tcp: find("rr", "tcp").and_then(|info| netperf(info, info.kind)),
            netperf_udp: find("rr", "udp").and_then(|info| netperf(info, info.kind)),
            pingpong_tcp: find("pingpong", "tcp").and_then(headline),
            pingpong_udp: find("pingpong", "udp").and_then(headline),
        };
        if headlines == Headlines::default() {
            continue;
        }
        let row_out = TableRow {
            row: Some(index),
            factors: axes.iter().cloned().zip(row.values.iter().cloned()).collect(),
            label: row.label.clone(),
            headlines,
        };
        match blocks.last_mut() {
            Some(block) if block.substrate == Some(row.substrate) => block.rows.push(row_out),
            _ => blocks.push(Block {
                heading: format!("Measured {} ({})", measured_on(row.substrate), row.substrate),
                substrate: Some(row.substrate),
                published: None,
                rows: vec![row_out],
            }),
        }
    }
    blocks
}

fn headline(info: &CellInfo) -> Option<Headline> {
    Some(Headline {
        mean_ns: info.value("mean")?,
        stdev_ns: info.value("stdev"),
        repetitions: info.repetitions,
        mean_range: info.range("mean"),
        stdev_range: info.range("stdev"),
        mark: info.mark,
        notes: info.notes.clone(),
    })
}

/// netperf prints transactions a second; the papers turn them into RTT/2 as their reciprocal divided by two.
fn netperf(info: &CellInfo, kind: LatencyKind) -> Option<Headline> {
    let rate = info.value("transactions")?;
    let by = if kind == LatencyKind::RttHalf { 0.5e9 } else { 1e9 };
    let latency = |per_second: f64| (per_second > 0.0).then(|| by / per_second);
    Some(Headline {
        mean_ns: latency(rate)?,
        stdev_ns: None,
        repetitions: info.repetitions,
        mean_range: info.range("transactions").and_then(|[low, high]| Some([latency(high)?, latency(low)?])),
        stdev_range: None,
        mark: info.mark,
        notes: info.notes.clone(),
    })
}

fn published_blocks(axes: &[String], rtt: bool) -> Vec<Block> {
    let by = if rtt { 2000.0 } else { 1000.0 };
    let rows = published();
    let with_stack = axes.iter().any(|axis| axis == "stack");
    let mut blocks: Vec<Block> = Vec::new();
    for row in &rows {
        let year = row.year();
        let line = TableRow {
            row: None,
            factors: published_factors(row, axes, with_stack, &rows),
            label: format!("published {year}: {}", row.os),
            headlines: Headlines {
                netperf_tcp: row.netperf_tcp_us.map(|mean| quoted(mean, None, by)),
                netperf_udp: row.netperf_udp_us.map(|mean| quoted(mean, None, by)),
                pingpong_tcp: row.pingpong_tcp_us.map(|(mean, stdev)| quoted(mean, stdev, by)),
                pingpong_udp: row.pingpong_udp_us.map(|(mean, stdev)| quoted(mean, stdev, by)),
            },
        };
        match blocks.last_mut() {
            Some(block) if block.published.as_deref() == Some(&row.source) => block.rows.push(line),
            _ => blocks.push(Block {
                heading: format!(
                    "Published, other hardware ({year}): not measured here, {} Concurrent Real-Time",
                    if rtt { "twice the RTT/2 printed by" } else { "RTT/2 as printed by" }
                ),
                substrate: None,
                published: Some(row.source.clone()),
                rows: vec![line],
            }),
        }
    }
    blocks
}

fn quoted(mean: f64, stdev: Option<f64>, by: f64) -> Headline {
    Headline {
        mean_ns: mean * by,
        stdev_ns: stdev.map(|stdev| stdev * by),
        repetitions: 0,
        mean_range: None,
        stdev_range: None,
        mark: Mark::Clean,
        notes: Vec::new(),
    }
}

fn published_factors(
    row: &PublishedRow,
    axes: &[String],
    with_stack: bool,
    rows: &[PublishedRow],
) -> BTreeMap<String, String> {
    let both =
        rows.iter().any(|other| (&other.source, &other.nic) == (&row.source, &row.nic) && other.stack != row.stack);
    let nic = match (with_stack, row.stack.as_str()) {
        (false, "onload") => format!("{} with OpenOnload", row.nic),
        (false, "kernel") if both => format!("{} without OpenOnload", row.nic),
        _ => row.nic.clone(),
    };
    let shield = if row.shield == "na" { "N/A" } else { &row.shield };
    axes.iter()
        .map(|axis| {
            let value = match axis.as_str() {
                "nic" => nic.clone(),
                "stack" => row.stack.clone(),
                "load" => row.load.clone(),
                "shield" => shield.to_owned(),
                "os" => row.os.clone(),
                _ => "–".to_owned(),
            };
            (axis.clone(), value)
        })
        .collect()
}

/// What the papers' table says of itself: figures, unit, size and how many repetitions.
pub(crate) fn caption(document: &Document) -> String {
    let repetitions: BTreeSet<usize> = document
        .blocks
        .iter()
        .flat_map(|block| &block.rows)
        .flat_map(|row| columns(&row.headlines))
        .flatten()
        .filter(|headline| headline.repetitions > 0)
        .map(|headline| headline.repetitions)
        .collect();
    let merged = match (repetitions.first(), repetitions.last()) {
        (Some(1), Some(1)) => "one repetition each".to_owned(),
        (Some(low), Some(high)) if low == high => format!("{} merged", counted(*low, "repetition")),
        (Some(low), Some(high)) => format!("{low} to {high} repetitions merged"),
        _ => "no repetitions".to_owned(),
    };
    format!(
        "Mean {} and jitter (sample standard deviation) in µs, {}-byte messages, {merged}",
        document.kind.title(),
        document.size_bytes
    )
}

/// The four pairs of columns in the papers' order.
pub(crate) fn columns(headlines: &Headlines) -> [Option<&Headline>; 4] {
    [
        headlines.netperf_tcp.as_ref(),
        headlines.netperf_udp.as_ref(),
        headlines.pingpong_tcp.as_ref(),
        headlines.pingpong_udp.as_ref(),
    ]
}
