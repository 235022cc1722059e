//! The data for the viewer's script.

use super::panels::{Panels, Words, panel, panels};
use super::{CellMaps, LISTED, LISTED_LOST};
use crate::Report;
use crate::draw::heat::{self, Diverging, Heat, Layout, Map, Palette, Rgb, Strip, Theme};
use crate::units::{plain, utc};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::{Compression, write::DeflateEncoder};
use model::result::Outlier;
use serde::Serialize;
use stats::HOUR_NS;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

#[derive(Serialize)]
pub(super) struct ViewerData {
    /// Where each row begins, up to an hour.
    edges_ns: Vec<u64>,
    /// Rows that any map has.
    rows: u32,
    difference: Difference,
    old: Old,
    /// Lowest and highest time of each quantity over all maps.
    ranges: BTreeMap<&'static str, [u64; 2]>,
    ramps: BTreeMap<&'static str, String>,
    maps: Vec<View>,
}

/// How many rows are one where two maps are compared, and the ratio at which colours end, as log2.
#[derive(Serialize)]
struct Difference {
    rows: u32,
    reach: f64,
}

#[derive(Serialize)]
struct Old {
    step_ns: u64,
    rows: u32,
}

#[derive(Serialize)]
struct View {
    id: String,
    title: String,
    /// The cell's place in the page.
    cell: String,
    file: String,
    trusted: bool,
    seconds: f64,
    detail_step_s: f64,
    planes: BTreeMap<&'static str, Plane>,
    lost_step_s: f64,
    /// Column and count.
    lost: Vec<(usize, u64)>,
    outliers: Vec<Worst>,
    outliers_left_out: usize,
    events: Vec<Mark>,
    /// Lanes of what the protocol did about losses.
    ticks: Vec<Lane>,
}

#[derive(Serialize)]
struct Lane {
    name: &'static str,
    kind: &'static str,
    step_s: f64,
    /// Place and count.
    counts: Vec<(u64, u64)>,
}

#[derive(Serialize)]
struct Plane {
    columns: usize,
    from_s: f64,
    step_s: f64,
    packed: bool,
    data: String,
    count: u64,
    max_ns: u64,
    /// Messages above the rows that it has.
    above: u64,
    fine: Vec<Plane>,
}

#[derive(Serialize)]
struct Worst {
    seq: u64,
    at_ns: u64,
    rtt_ns: u64,
    late_ns: u64,
    lost: bool,
    /// The number of its stall, and how many messages were kept of that.
    stall: usize,
    messages: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clock: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    parts_ns: BTreeMap<String, i64>,
}

#[derive(Serialize)]
struct Mark {
    at_s: f64,
    kind: String,
    detail: String,
}

const TAGS: [&str; 3] = ["rtt", "rtt_intended", "lateness"];

fn tag(map: &Map) -> Option<&'static str> {
    let bare = map.tag.split('@').next();
    TAGS.into_iter().find(|tag| Some(*tag) == bare)
}

pub(super) fn viewer(report: &Report, by_result: &BTreeMap<(usize, usize), CellMaps>) -> (ViewerData, Panels) {
    let all = || {
        by_result.values().flat_map(|of_result| {
            of_result.maps.iter().chain(of_result.reflectors.iter().flat_map(|reflector| &reflector.maps))
        })
    };
    let extent = |wanted: &[&str]| {
        Heat::rows(all().filter(|map| tag(map).is_some_and(|tag| wanted.contains(&tag))), Layout::Log)
            // A little air above: the worst message must not stand on the frame.
            .map(|rows| [rows.low_ns(), Layout::Log.low_ns(rows.first + rows.count + 3)])
    };
    let mut ranges = BTreeMap::new();
    // Both RTTs on one scale: the difference between them is what the reader is after.
    for (tag, wanted) in [("rtt", &TAGS[..2]), ("rtt_intended", &TAGS[..2]), ("lateness", &TAGS[2..])] {
        if let Some(range) = extent(wanted) {
            ranges.insert(tag, range);
        }
    }
    let top = all().filter_map(|map| map.whole.log.extent()).map(|(_, high)| high).max().unwrap_or(0);
    let mut maps = Vec::new();
    let mut found = Vec::new();
    let words = Words::of(&report.cells, by_result);
    for (number, cell) in report.cells.iter().enumerate() {
        let members: Vec<_> = cell
            .members
            .iter()
            .filter_map(|member| by_result.get(&(cell.run, *member)).map(|of| (*member, of)))
            .collect();
        for (place, (member, of_result)) in members.iter().enumerate() {
            let mut reflectors = Vec::new();
            let result = report.inputs.get(cell.run).and_then(|run| run.results.get(*member));
            let trusted = result.is_some_and(|result| result.verdict.trusted);
            let title = words.title(cell, members.len(), result.and_then(|result| result.repetition));
            if place == 0 {
                found.push((words.split(cell), panel(number, cell, of_result, &title)));
            }
            for one in &of_result.reflectors {
                let host = one.reflector.as_deref().unwrap_or_default();
                let title = format!("{title} · reflector {host}");
                reflectors.push(view(one, title, format!("cell-{number}"), trusted));
            }
            maps.push(view(of_result, title, format!("cell-{number}"), trusted));
            maps.append(&mut reflectors);
        }
    }
    let data = ViewerData {
        edges_ns: (0..=Layout::Log.row(HOUR_NS) + 1).map(|row| Layout::Log.low_ns(row)).collect(),
        rows: top + 1,
        difference: Difference { rows: heat::DIFFERENCE_ROWS, reach: heat::REACH },
        old: Old { step_ns: heat::ROW_2011_NS, rows: old_rows() },
        ranges,
        ramps: ramps(),
        maps,
    };
    (data, panels(found))
}

fn ramps() -> BTreeMap<&'static str, String> {
    let hex = |colours: &[Rgb]| colours.iter().map(|[r, g, b]| format!("{r:02x}{g:02x}{b:02x}")).collect::<String>();
    BTreeMap::from([
        ("light", hex(&Palette::default().table(Theme::Light))),
        ("dark", hex(&Palette::default().table(Theme::Dark))),
        ("diverge_light", hex(&Diverging::table(Theme::Light))),
        ("diverge_dark", hex(&Diverging::table(Theme::Dark))),
        ("old", hex(&heat::palette_2011())),
    ])
}

fn old_rows() -> u32 {
    Layout::Linear { step_ns: heat::ROW_2011_NS }.row(heat::TOP_2011_NS) + 1
}

fn view(of_result: &CellMaps, title: String, cell: String, trusted: bool) -> View {
    let mut planes = BTreeMap::new();
    for map in &of_result.maps {
        let Some(tag) = tag(map) else { continue };
        planes.insert(tag, plane(&map.whole, &map.details, Layout::Log, u32::MAX));
        if let ("rtt", Some(linear)) = (tag, &map.whole.linear) {
            planes.insert("old", plane(&map.whole, &[], linear.layout, old_rows() - 1));
        }
    }
    // Figures of time are those of the longest map; all tags have the same columns but for empty ends.
    let longest = of_result.maps.iter().max_by_key(|map| map.whole.length_ns());
    let whole = longest.map(|map| &map.whole);
    let detail = of_result.maps.iter().flat_map(|map| &map.details).map(|strip| strip.column_ns).min();
    let listed = listed(&of_result.outliers);
    View {
        id: of_result.id.clone(),
        title,
        cell,
        file: longest.map(|map| format!("cells/{:04}.outliers.jsonl", map.index)).unwrap_or_default(),
        trusted,
        seconds: whole.map_or(0.0, |strip| strip.length_ns() as f64 / 1e9),
        detail_step_s: detail.or(whole.map(|strip| strip.column_ns)).unwrap_or(100_000_000) as f64 / 1e9,
        planes,
        lost_step_s: whole.map_or(1.0, |strip| strip.column_ns as f64 / 1e9),
        lost: whole
            .into_iter()
            .flat_map(|strip| strip.columns.iter().map(|column| column.lost).enumerate())
            .filter(|(_, lost)| *lost > 0)
            .collect(),
        outliers_left_out: of_result.outliers.len() - told(&listed),
        outliers: listed,
        events: longest
            .into_iter()
            .flat_map(|map| &map.events)
            .filter(|event| event.kind != "loss" && !heat::is_tick(event))
            .filter_map(mark)
            .collect(),
        ticks: longest.map(lanes).unwrap_or_default(),
    }
}

/// Pieces of time that ticks are counted in, at most so many over the whole.
const PIECES: u64 = 4000;

fn lanes(map: &Map) -> Vec<Lane> {
    let step_ns = (map.whole.length_ns() / PIECES).max(1);
    let lane = |ticks: heat::Ticks| Lane {
        name: ticks.name,
        kind: ticks.kind,
        step_s: step_ns as f64 / 1e9,
        counts: ticks.places,
    };
    heat::ticks(map, step_ns).into_iter().map(lane).collect()
}

fn mark(event: &model::Event) -> Option<Mark> {
    let host = event.host.as_deref().map(|host| format!("{}: ", plain(host))).unwrap_or_default();
    Some(Mark {
        at_s: event.at_ns? as f64 / 1e9,
        kind: plain(&event.kind),
        detail: format!("{host}{}", plain(&event.detail)),
    })
}

fn intended_ns(outlier: &Outlier) -> u64 {
    outlier.rtt_ns.saturating_add(outlier.lateness_ns)
}

/// The worst message of each stall by each quantity, for each has a map, then the first of those that were lost together.
fn listed(outliers: &[Outlier]) -> Vec<Worst> {
    let (lost, slow): (Vec<&Outlier>, Vec<&Outlier>) = outliers.iter().partition(|outlier| outlier.lost);
    let stalls = |of: &[&Outlier]| heat::together(&of.iter().map(|one| heat::way(one)).collect::<Vec<_>>());
    let (slow_stalls, lost_stalls) = (stalls(&slow), stalls(&lost));
    let size = |stalls: &[usize], stall: usize| stalls.iter().filter(|other| **other == stall).count();
    let mut listed: Vec<Worst> = Vec::new();
    for time in [intended_ns, |outlier: &Outlier| outlier.rtt_ns, |outlier: &Outlier| outlier.lateness_ns] {
        let mut by_time: Vec<(&Outlier, usize)> = slow.iter().copied().zip(slow_stalls.iter().copied()).collect();
        by_time.sort_by_key(|(outlier, _)| (std::cmp::Reverse(time(outlier)), outlier.seq));
        let mut seen = BTreeSet::new();
        by_time.retain(|(_, stall)| seen.insert(*stall));
        for (outlier, stall) in by_time.into_iter().take(LISTED) {
            let host = outlier.host.as_deref().map(plain);
            if !listed.iter().any(|known| (known.seq, &known.host) == (outlier.seq, &host)) {
                listed.push(worst(outlier, stall, size(&slow_stalls, stall)));
            }
        }
    }
    let mut seen = BTreeSet::new();
    let firsts = lost.iter().zip(&lost_stalls).filter(|(_, stall)| seen.insert(**stall)).take(LISTED_LOST);
    // Their numbers follow those of the others.
    let after = slow_stalls.iter().max().map_or(0, |last| last + 1);
    listed.extend(firsts.map(|(outlier, stall)| worst(outlier, after + stall, size(&lost_stalls, *stall))));
    listed
}

fn told(listed: &[Worst]) -> usize {
    listed.iter().map(|worst| (worst.stall, worst.messages)).collect::<BTreeMap<_, _>>().values().sum()
}

fn worst(outlier: &Outlier, stall: usize, messages: usize) -> Worst {
    Worst {
        stall,
        messages,
        seq: outlier.seq,
        at_ns: outlier.at_ns,
        rtt_ns: outlier.rtt_ns,
        late_ns: outlier.lateness_ns,
        lost: outlier.lost,
        host: outlier.host.as_deref().map(plain),
        clock: outlier.realtime_ns.map(utc),
        parts_ns: outlier.parts_ns.iter().map(|(name, ns)| (plain(name), *ns)).collect(),
    }
}

fn plane(strip: &Strip, details: &[Strip], layout: Layout, top: u32) -> Plane {
    let grid = strip.grid(layout);
    let (data, packed) = base64(&heat::pack(grid, top));
    Plane {
        columns: grid.columns.len(),
        from_s: strip.start_ns as f64 / 1e9,
        step_s: strip.column_ns as f64 / 1e9,
        packed,
        data,
        count: grid.total(),
        max_ns: strip.columns.iter().filter_map(|column| column.max_ns).max().unwrap_or(0),
        above: grid.columns.iter().flatten().filter(|(row, _)| *row > top).map(|(_, count)| count).sum(),
        fine: details.iter().map(|detail| plane(detail, &[], layout, top)).collect(),
    }
}

/// Bytes as base64, deflated where that makes them shorter.
fn base64(bytes: &[u8]) -> (String, bool) {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(6));
    match encoder.write_all(bytes).and_then(|()| encoder.finish()) {
        Ok(deflated) if deflated.len() < bytes.len() => (STANDARD.encode(deflated), true),
        _ => (STANDARD.encode(bytes), false),
    }
}
