//! The papers' table: which rows there are, and what stands in their columns.

use crate::Options;
use crate::document::{Block, Document, Headline, Headlines, RunInfo, TableRow};
use crate::reference::{PublishedRow, published};
use crate::say::{Facts, answer, notes, summary};
use crate::units::{each_once, plain, range, utc};
use digest::cells::{Cell, collect, run_names};
use digest::compare::Comparisons;
use digest::names::{ROW_AXES, label_word, measured_on, rank};
use digest::{CellInfo, Mark, RunInput, boots};
use model::{LatencyKind, Probe, Substrate, source};
use std::collections::{BTreeMap, BTreeSet};

/// Digests runs into cells and the document. `compared`: the comparisons of the same runs, for the summary.
pub(crate) fn digest(inputs: &[RunInput], options: &Options, compared: &[Comparisons]) -> (Vec<Cell>, Document) {
    let (mut cells, mut remarks) = collect(inputs, options.rtt);
    let (axes, mut fixed) = axes(&cells);
    let rows = number_rows(&mut cells, &axes);
    cells.sort_by_cached_key(|cell| {
        let info = &cell.info;
        (info.row, info.probe, rank("protocol", &info.protocol), info.size_bytes)
    });
    let notes = notes::number(&mut cells);
    let kind = if options.rtt { LatencyKind::Rtt } else { LatencyKind::RttHalf };
    let size_bytes = table_size(&cells, options.size);
    let mut blocks = measured_blocks(&cells, &rows, &axes, size_bytes);
    if options.reference {
        blocks.extend(published_blocks(&axes, options.rtt));
    }
    fixed.retain(|name, _| !ROW_AXES.iter().any(|(axis, always)| *always && axis == name));
    remarks.extend(missing(inputs));
    let mut document = Document {
        format: crate::document::FORMAT,
        title: plain(&title(inputs)),
        kind,
        size_bytes,
        answer: crate::Answer::default(),
        summary: Vec::new(),
        runs: inputs.iter().zip(run_names(inputs)).map(|(run, name)| run_info(run, name)).collect(),
        fixed,
        axes,
        blocks,
        cells: cells.iter().map(|cell| cell.info.clone()).collect(),
        boots: boots::of(inputs, options.rtt),
        notes,
        remarks,
    };
    document.answer = answer::of(&Facts { document: &document, cells: &cells, compared, runs: inputs });
    document.summary = summary::sentences(&Facts { document: &document, cells: &cells, compared, runs: inputs });
    (cells, document)
}

fn title(inputs: &[RunInput]) -> String {
    let titles = inputs.iter().map(|run| run.document.title.as_deref().unwrap_or(&run.document.name));
    each_once(titles).join(" · ")
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
        let failed = run.failed.iter();
        remarks.extend(failed.map(|(cell, why)| format!("{name}: no result for {}: {}", plain(cell), plain(why))));
        remarks.extend(run.problems.iter().map(|problem| format!("{name}: {}", plain(problem))));
    }
    remarks
}

/// The axes that make rows, in the order of the columns, and the factors that every cell shares.
fn axes(cells: &[Cell]) -> (Vec<String>, BTreeMap<String, String>) {
    let names: BTreeSet<&String> = cells.iter().flat_map(|cell| cell.info.factors.keys()).collect();
    let (fixed, mut varying): (Vec<&String>, Vec<&String>) =
        names.into_iter().partition(|name| shared(cells, name).is_some());
    let fixed = fixed.into_iter().filter_map(|name| Some((name.clone(), shared(cells, name)?.clone()))).collect();
    let leads = |name: &str| ROW_AXES.iter().any(|(axis, _)| *axis == name);
    let lead = ROW_AXES.iter().filter(|(axis, always)| *always || varying.iter().any(|name| name == axis));
    let mut axes: Vec<String> = lead.map(|(axis, _)| (*axis).to_owned()).collect();
    varying.retain(|name| !leads(name));
    varying.sort_by_key(|name| *name == "run");
    axes.extend(varying.into_iter().cloned());
    (axes, fixed)
}

/// The value that all cells of the probes with this factor share; never a rate, nor where figures come from.
fn shared<'c>(cells: &'c [Cell], name: &str) -> Option<&'c String> {
    if name == source::FACTOR {
        return None;
    }
    let of = |cell: &'c Cell| cell.info.factors.get(name);
    let probes: BTreeSet<Probe> = cells.iter().filter(|cell| of(cell).is_some()).map(|cell| cell.info.probe).collect();
    let values: BTreeSet<Option<&String>> =
        cells.iter().filter(|cell| name == "rate" || probes.contains(&cell.info.probe)).map(of).collect();
    values.first().copied().flatten().filter(|_| values.len() == 1)
}

pub(crate) struct RowKey {
    substrate: Substrate,
    values: Vec<String>,
    label: String,
    /// The label without the rate.
    series: String,
}

/// Gives each cell its row number and label, in the order of the table: by substrate, then by the rank of each axis' value.
fn number_rows(cells: &mut [Cell], axes: &[String]) -> Vec<RowKey> {
    let values = |info: &CellInfo| -> Vec<String> {
        axes.iter().map(|axis| info.factors.get(axis).cloned().unwrap_or_else(|| "–".to_owned())).collect()
    };
    let mut keys = each_once(cells.iter().map(|cell| (cell.info.substrate, values(&cell.info))));
    keys.sort_by_cached_key(|(substrate, values)| {
        (*substrate, axes.iter().zip(values).map(|(axis, value)| rank(axis, value)).collect::<Vec<_>>())
    });
    let varies: Vec<bool> = (0..axes.len())
        .map(|column| keys.iter().filter_map(|(_, values)| values.get(column)).collect::<BTreeSet<_>>().len() > 1)
        .collect();
    let substrates = keys.iter().map(|(substrate, _)| *substrate).collect::<BTreeSet<_>>().len();
    let row = |(substrate, values): (Substrate, Vec<String>)| {
        let label = |left_out: &str| {
            let mut words: Vec<String> = axes
                .iter()
                .zip(&values)
                .zip(&varies)
                .filter(|((axis, value), varies)| {
                    let is_said = **varies || axis.as_str() == source::FACTOR;
                    is_said && value.as_str() != "–" && axis.as_str() != left_out
                })
                .map(|((axis, value), _)| label_word(axis, value))
                .collect();
            let says_so = substrates > 1 || substrate == Substrate::SimulatedTime;
            words.extend(says_so.then(|| substrate.word().to_owned()));
            if words.is_empty() { "all cells".to_owned() } else { words.join(" · ") }
        };
        RowKey { substrate, label: label(""), series: label("rate"), values }
    };
    let rows: Vec<RowKey> = keys.into_iter().map(row).collect();
    let colours = each_once(rows.iter().map(|row| &row.series));
    for cell in cells.iter_mut() {
        let own = (cell.info.substrate, values(&cell.info));
        let found = rows.iter().enumerate().find(|(_, row)| (row.substrate, &row.values) == (own.0, &own.1));
        if let Some((number, row)) = found {
            cell.info.row = number;
            cell.info.label.clone_from(&row.label);
            cell.series.clone_from(&row.series);
            cell.info.colour = colours.iter().position(|series| **series == row.series).unwrap_or(0);
        }
    }
    rows
}

/// The size asked for, or the nearest larger one that ping-pong (else anything) measured, or the largest.
fn table_size(cells: &[Cell], wanted: u64) -> u64 {
    let found = table_sizes(cells);
    found.range(wanted..).next().or_else(|| found.last()).copied().unwrap_or(wanted)
}

pub(crate) fn table_sizes(cells: &[Cell]) -> BTreeSet<u64> {
    let all = || cells.iter().map(|cell| &cell.info);
    let found: BTreeSet<u64> = all().filter(|info| info.probe == Probe::Pingpong).map(|info| info.size_bytes).collect();
    if found.is_empty() { all().map(|info| info.size_bytes).collect() } else { found }
}

/// Probe and protocol of each of the papers' columns, or pairs of columns.
pub(crate) const COLUMNS: [(Probe, &str); 4] =
    [(Probe::Rr, "tcp"), (Probe::Rr, "udp"), (Probe::Pingpong, "tcp"), (Probe::Pingpong, "udp")];

fn headlines([netperf_tcp, netperf_udp, pingpong_tcp, pingpong_udp]: [Option<Headline>; 4]) -> Headlines {
    Headlines { netperf_tcp, netperf_udp, pingpong_tcp, pingpong_udp }
}

/// The same back, in the order of [`COLUMNS`].
pub(crate) fn columns(headlines: &Headlines) -> [Option<&Headline>; 4] {
    let Headlines { netperf_tcp, netperf_udp, pingpong_tcp, pingpong_udp } = headlines;
    [netperf_tcp, netperf_udp, pingpong_tcp, pingpong_udp].map(Option::as_ref)
}

/// A column of figures of the papers' table.
pub(crate) struct FigureColumn {
    /// What is above it, from the top: the tool and the protocol.
    pub(crate) bands: [&'static str; 2],
    /// Its place in [`COLUMNS`].
    place: usize,
    /// Jitter, else the mean. netperf gives no jitter.
    pub(crate) is_jitter: bool,
}

pub(crate) const FIGURES: [FigureColumn; 6] = [
    FigureColumn { bands: ["netperf (rr)", "TCP"], place: 0, is_jitter: false },
    FigureColumn { bands: ["netperf (rr)", "UDP"], place: 1, is_jitter: false },
    FigureColumn { bands: ["pingpong", "TCP"], place: 2, is_jitter: false },
    FigureColumn { bands: ["pingpong", "TCP"], place: 2, is_jitter: true },
    FigureColumn { bands: ["pingpong", "UDP"], place: 3, is_jitter: false },
    FigureColumn { bands: ["pingpong", "UDP"], place: 3, is_jitter: true },
];

impl FigureColumn {
    pub(crate) fn headline<'a>(&self, row: &'a TableRow) -> Option<&'a Headline> {
        columns(&row.headlines)[self.place]
    }

    /// In µs; empty where it is not known.
    pub(crate) fn text(&self, row: &TableRow) -> String {
        let ns = |headline: &Headline| if self.is_jitter { headline.stdev_ns } else { Some(headline.mean_ns) };
        self.headline(row).and_then(ns).map(|ns| row.us(ns)).unwrap_or_default()
    }
}

/// The bands above some columns, a line each from the top: text, and how many columns it covers.
pub(crate) fn bands(columns: &[&FigureColumn]) -> [Vec<(&'static str, usize)>; 2] {
    [0, 1].map(|line| {
        let groups = columns.chunk_by(|a, b| a.bands[..=line] == b.bands[..=line]);
        groups.map(|group| (group[0].bands[line], group.len())).collect()
    })
}

fn measured_blocks(cells: &[Cell], rows: &[RowKey], axes: &[String], size: u64) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let headlines = headlines(COLUMNS.map(|column| {
            let mut own = cells.iter().map(|cell| &cell.info).filter(|info| info.row == index);
            headline(
                own.find(|info| (info.probe, info.protocol.as_str(), info.size_bytes) == (column.0, column.1, size))?,
            )
        }));
        if headlines == Headlines::default() {
            continue;
        }
        let line = TableRow {
            row: Some(index),
            factors: axes.iter().cloned().zip(row.values.iter().cloned()).collect(),
            label: row.label.clone(),
            headlines,
        };
        match blocks.last_mut() {
            Some(block) if block.substrate == Some(row.substrate) => block.rows.push(line),
            _ => blocks.push(Block {
                heading: format!("Measured {} ({})", measured_on(row.substrate), row.substrate),
                substrate: Some(row.substrate),
                published: None,
                rows: vec![line],
            }),
        }
    }
    blocks
}

/// Mean and jitter; of `rr` transactions a second, of which the papers take half the reciprocal as RTT/2.
fn headline(info: &CellInfo) -> Option<Headline> {
    let is_rate = info.probe == Probe::Rr;
    let whole = if info.kind == LatencyKind::RttHalf { 0.5e9 } else { 1e9 };
    let latency = |per_second: f64| (per_second > 0.0).then(|| whole / per_second);
    let (mean_ns, mean_range) = match is_rate {
        true => (
            latency(info.value("transactions")?)?,
            info.range("transactions").and_then(|[low, high]| Some([latency(high)?, latency(low)?])),
        ),
        false => (info.value("mean")?, info.range("mean")),
    };
    Some(Headline {
        mean_ns,
        stdev_ns: info.value("stdev").filter(|_| !is_rate),
        repetitions: info.repetitions,
        mean_range,
        stdev_range: info.range("stdev").filter(|_| !is_rate),
        mark: info.mark,
        notes: info.notes.clone(),
    })
}

fn published_blocks(axes: &[String], rtt: bool) -> Vec<Block> {
    let by = if rtt { 2000.0 } else { 1000.0 };
    let rows = published();
    let quoted = |(mean_us, stdev_us): (f64, Option<f64>)| Headline {
        mean_ns: mean_us * by,
        stdev_ns: stdev_us.map(|stdev| stdev * by),
        repetitions: 0,
        mean_range: None,
        stdev_range: None,
        mark: Mark::Clean,
        notes: Vec::new(),
    };
    let mut blocks: Vec<Block> = Vec::new();
    for row in &rows {
        let year = row.year();
        let line = TableRow {
            row: None,
            factors: axes.iter().map(|axis| (axis.clone(), published_factor(row, axis, axes, &rows))).collect(),
            label: format!("published {year}: {}", row.os),
            headlines: headlines(row.figures_us.map(|figures| figures.map(quoted))),
        };
        match blocks.last_mut() {
            Some(block) if block.published.as_deref() == Some(row.source) => block.rows.push(line),
            _ => blocks.push(Block {
                heading: format!(
                    "Published, other hardware ({year}): not measured here, {} Concurrent Real-Time",
                    if rtt { "twice the RTT/2 printed by" } else { "RTT/2 as printed by" }
                ),
                substrate: None,
                published: Some(row.source.to_owned()),
                rows: vec![line],
            }),
        }
    }
    blocks
}

/// The value of an axis. Where the stack has no column, the NIC's name says it.
fn published_factor(row: &PublishedRow, axis: &str, axes: &[String], rows: &[PublishedRow]) -> String {
    let both =
        || rows.iter().any(|other| (other.source, other.nic) == (row.source, row.nic) && other.stack != row.stack);
    let with_stack = axes.iter().any(|axis| axis == "stack");
    let value = match axis {
        "nic" if !with_stack && row.stack == "onload" => return format!("{} with OpenOnload", row.nic),
        "nic" if !with_stack && row.stack == "kernel" && both() => return format!("{} without OpenOnload", row.nic),
        "nic" => row.nic,
        "stack" => row.stack,
        "load" => row.load,
        "shield" if row.shield == "na" => "N/A",
        "shield" => row.shield,
        "os" => row.os,
        _ => "–",
    };
    value.to_owned()
}

/// What the papers' table says of itself: figures, unit, size and how many repetitions.
pub(crate) fn caption(document: &Document) -> String {
    let rows = document.blocks.iter().flat_map(|block| &block.rows);
    let measured = rows.flat_map(|row| columns(&row.headlines)).flatten().map(|headline| headline.repetitions);
    let merged = match range(measured.filter(|repetitions| *repetitions > 0)).as_str() {
        "" => "no repetitions".to_owned(),
        "1" => "one repetition each".to_owned(),
        several => format!("geometric mean of {several} repetitions"),
    };
    format!(
        "Mean {} and jitter (sample standard deviation) in µs, {}-byte messages, {merged}",
        document.kind.title(),
        document.size_bytes
    )
}
