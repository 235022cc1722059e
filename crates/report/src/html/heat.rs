//! Heat maps for the page: the data that the viewer's script draws, the small multiples, and which picture belongs to
//! which cell.
//!
//! The data are one JSON text: rows and colours once, then map by map what [`heat::pack`] makes of the counts, deflated
//! and in base64. Nothing of it can end the script element that holds it: `<` never stands there bare.

use crate::heat::{self, Diverging, Heat, Layout, Map, Palette, Rgb, Strip, Theme};
use crate::names::rate_word;
use crate::units::{plain, utc};
use crate::{Report, ReportError, cells::Cell};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::{Compression, write::DeflateEncoder};
use model::Probe;
use model::result::Outlier;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

/// What the page holds at most, in bytes of base64: columns are made longer until it fits.
const MOST_BYTES: usize = 7 << 20;
/// Columns of a map, the first that fits.
const COLUMNS: [usize; 4] = [4000, 2000, 1000, 400];
/// Worst messages that the page names, and of them lost ones.
const LISTED: usize = 60;
const LISTED_LOST: usize = 20;
/// Other probes log by the second: with fewer columns there is nothing to see.
const LEAST_COLUMNS: usize = 8;
/// Rows of 2011: 10 µs up to 2 ms.
const OLD_STEP_NS: u64 = 10_000;
const OLD_ROWS: u32 = 200;

/// All maps of a page.
#[derive(Debug)]
pub(super) struct Page {
    /// The JSON for the script; empty when there is no map.
    pub(super) data: String,
    /// The small multiples.
    pub(super) panels: Panels,
    /// Maps by run and result: which the cells' pages show.
    pub(super) by_result: BTreeMap<(usize, usize), CellMaps>,
    /// What is damaged or missing.
    pub(super) problems: Vec<String>,
}

/// The maps of one repetition of a cell.
#[derive(Debug)]
pub(super) struct CellMaps {
    /// Its name in the page's address.
    pub(super) id: String,
    /// The maps: RTT, RTT from intended, lateness.
    pub(super) maps: Vec<Map>,
    /// The worst messages, the worst first, lost ones last.
    pub(super) outliers: Vec<Outlier>,
}

/// Small multiples: rows and columns of factors.
#[derive(Debug, Default, Serialize)]
pub(super) struct Panels {
    /// Heads of the columns; empty where the panels are no table.
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<PanelRow>,
}

#[derive(Debug, Serialize)]
pub(super) struct PanelRow {
    pub(super) head: String,
    pub(super) panels: Vec<Option<Panel>>,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Panel {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) caption: String,
    pub(super) sign: &'static str,
}

#[derive(Serialize)]
struct Book {
    rows_per_octave: u32,
    rows: u32,
    old: Old,
    /// Lowest and highest time of each quantity over all maps.
    ranges: BTreeMap<&'static str, [u64; 2]>,
    ramps: BTreeMap<&'static str, String>,
    maps: Vec<View>,
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
    TAGS.into_iter().find(|tag| *tag == map.tag)
}

/// Reads the logs of all runs.
pub(super) fn page(report: &Report) -> Result<Page, ReportError> {
    let mut page =
        Page { data: String::new(), panels: Panels::default(), by_result: BTreeMap::new(), problems: Vec::new() };
    for max_columns in COLUMNS {
        page.by_result.clear();
        page.problems.clear();
        for (number, run) in report.inputs.iter().enumerate() {
            let options = heat::Options {
                max_columns,
                linear_ns: Some(OLD_STEP_NS),
                outliers: LISTED,
                ..heat::Options::default()
            };
            let Heat { maps, problems } = heat::of_input(run, &options);
            page.problems.extend(problems);
            let steps: BTreeMap<u32, usize> = run.steps.iter().copied().zip(0..).collect();
            for map in maps {
                let Some(&result) = steps.get(&map.index) else { continue };
                let is_pace = run.results.get(result).is_some_and(|result| result.probe == Probe::Pace);
                if !is_pace && map.whole.columns.len() < LEAST_COLUMNS {
                    continue;
                }
                let several = report.inputs.len() > 1;
                let id = if several { format!("{}-{:04}", number + 1, map.index) } else { format!("{:04}", map.index) };
                let of_result = page.by_result.entry((number, result)).or_insert_with(|| CellMaps {
                    id,
                    maps: Vec::new(),
                    // Told already where the maps could not be read.
                    outliers: run
                        .folder
                        .as_deref()
                        .and_then(|folder| store::outliers(folder, map.index).ok())
                        .unwrap_or_default(),
                });
                of_result.maps.push(map);
            }
        }
        if page.by_result.is_empty() {
            return Ok(page);
        }
        for of_result in page.by_result.values_mut() {
            of_result.outliers.sort_by_key(|outlier| {
                (outlier.lost, std::cmp::Reverse(outlier.rtt_ns.saturating_add(outlier.lateness_ns)), outlier.seq)
            });
        }
        let (book, panels) = book(report, &page.by_result);
        page.data = serde_json::to_string(&book)?.replace('<', "\\u003c");
        page.panels = panels;
        if page.data.len() <= MOST_BYTES {
            break;
        }
    }
    Ok(page)
}

fn book(report: &Report, by_result: &BTreeMap<(usize, usize), CellMaps>) -> (Book, Panels) {
    let all = || by_result.values().flat_map(|of_result| &of_result.maps);
    let extent = |wanted: &[&str]| {
        Heat::rows(all().filter(|map| wanted.contains(&map.tag.as_str())), Layout::Log)
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
            let result = report.inputs.get(cell.run).and_then(|run| run.results.get(*member));
            let trusted = result.is_some_and(|result| result.verdict.trusted);
            let title = words.title(cell, members.len(), result.and_then(|result| result.repetition));
            if place == 0 {
                found.push((words.split(cell), panel(cell, of_result, &title)));
            }
            maps.push(view(of_result, title, format!("cell-{number}"), trusted));
        }
    }
    let book = Book {
        rows_per_octave: heat::ROWS_PER_OCTAVE,
        rows: top + 1,
        old: Old { step_ns: OLD_STEP_NS, rows: OLD_ROWS },
        ranges,
        ramps: ramps(),
        maps,
    };
    (book, panels(found))
}

fn ramps() -> BTreeMap<&'static str, String> {
    let hex = |colours: &[Rgb]| colours.iter().map(|[r, g, b]| format!("{r:02x}{g:02x}{b:02x}")).collect::<String>();
    BTreeMap::from([
        ("light", hex(&Palette::default().table(Theme::Light))),
        ("dark", hex(&Palette::default().table(Theme::Dark))),
        ("diverge_light", hex(&Diverging::table(Theme::Light))),
        ("diverge_dark", hex(&Diverging::table(Theme::Dark))),
        ("old", hex(&old_ramp())),
    ])
}

/// White to green in 25 steps.
fn old_ramp() -> [Rgb; 26] {
    let mut ramp = [[255; 3]; 26];
    for (step, colour) in (0_u32..).zip(&mut ramp) {
        let fade = u8::try_from(255 - 255 * step / 25).unwrap_or(0);
        *colour = [fade, u8::try_from(255 - 127 * step / 25).unwrap_or(0), fade];
    }
    ramp
}

/// What tells maps from each other.
struct Words {
    protocols: bool,
    sizes: bool,
    rates: bool,
}

impl Words {
    fn of(cells: &[Cell], by_result: &BTreeMap<(usize, usize), CellMaps>) -> Self {
        let with: Vec<&Cell> = cells
            .iter()
            .filter(|cell| cell.members.iter().any(|member| by_result.contains_key(&(cell.run, *member))))
            .collect();
        let several =
            |pick: &dyn Fn(&Cell) -> String| with.iter().map(|cell| pick(cell)).collect::<BTreeSet<_>>().len() > 1;
        Self {
            protocols: several(&|cell| format!("{} {}", cell.info.probe, cell.info.protocol)),
            sizes: several(&|cell| cell.info.size_bytes.to_string()),
            rates: several(&|cell| cell.info.factors.get("rate").cloned().unwrap_or_default()),
        }
    }

    /// The words of a cell without its rate, and its rate.
    fn split(&self, cell: &Cell) -> (String, String) {
        let info = &cell.info;
        let rate = info.factors.get("rate").map(|rate| rate_word(rate)).unwrap_or_default();
        let mut words: Vec<String> = Vec::new();
        if self.protocols {
            words.push(format!("{} {}", info.probe, info.protocol.to_uppercase()));
        }
        if self.sizes {
            words.push(format!("{} B", info.size_bytes));
        }
        words.extend(info.label.split(" · ").filter(|word| *word != rate && *word != "all cells").map(str::to_owned));
        (words.join(" · "), if self.rates { rate } else { String::new() })
    }

    fn title(&self, cell: &Cell, repetitions: usize, repetition: Option<u32>) -> String {
        let (words, rate) = self.split(cell);
        let rate = if rate.is_empty() {
            cell.info.factors.get("rate").map(|rate| rate_word(rate)).unwrap_or_default()
        } else {
            rate
        };
        let again = match repetition {
            Some(repetition) if repetitions > 1 => format!("repetition {repetition}"),
            _ => String::new(),
        };
        let title = [words, rate, again].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" · ");
        if title.is_empty() { format!("{} {}", cell.info.probe, cell.info.protocol.to_uppercase()) } else { title }
    }
}

fn panel(cell: &Cell, of_result: &CellMaps, title: &str) -> Panel {
    let info = &cell.info;
    let figure = |name: &str, ns: Option<f64>| ns.map(|ns| format!("{name} {}", crate::units::span(ns)));
    let lost = (info.lost > 0).then(|| format!("{} lost", crate::units::commas(info.lost)));
    let words = [figure("p50", info.p50_ns), figure("p99.9", info.p99_9_ns), figure("max", info.max_ns), lost];
    Panel {
        id: of_result.id.clone(),
        title: title.to_owned(),
        caption: words.into_iter().flatten().collect::<Vec<_>>().join(", "),
        sign: info.mark.sign(),
    }
}

fn panels(found: Vec<((String, String), Panel)>) -> Panels {
    let rates: BTreeSet<&String> = found.iter().map(|((_, rate), _)| rate).collect();
    if rates.len() < 2 {
        // Not a table: as many beside each other as the page is wide.
        let row =
            |((_, _), panel): ((String, String), Panel)| PanelRow { head: String::new(), panels: vec![Some(panel)] };
        return Panels { columns: Vec::new(), rows: found.into_iter().map(row).collect() };
    }
    let mut columns: Vec<String> = Vec::new();
    let mut rows: Vec<PanelRow> = Vec::new();
    for ((_, rate), _) in &found {
        if !columns.contains(rate) {
            columns.push(rate.clone());
        }
    }
    let number =
        |rate: &String| rate.chars().filter(char::is_ascii_digit).collect::<String>().parse::<u64>().unwrap_or(0);
    columns.sort_by_key(number);
    for ((head, rate), panel) in found {
        let place = columns.iter().position(|column| *column == rate).unwrap_or(0);
        // The same words twice are two rows: nothing is hidden behind another.
        let free = |row: &&mut PanelRow| row.head == head && row.panels.get(place).is_some_and(Option::is_none);
        match rows.iter_mut().find(free) {
            Some(row) => {
                if let Some(slot) = row.panels.get_mut(place) {
                    *slot = Some(panel);
                }
            }
            None => {
                let mut panels = vec![None; columns.len()];
                if let Some(slot) = panels.get_mut(place) {
                    *slot = Some(panel);
                }
                rows.push(PanelRow { head, panels });
            }
        }
    }
    Panels { columns, rows }
}

fn view(of_result: &CellMaps, title: String, cell: String, trusted: bool) -> View {
    let mut planes = BTreeMap::new();
    for map in &of_result.maps {
        let Some(tag) = tag(map) else { continue };
        planes.insert(tag, plane(&map.whole, &map.details, Layout::Log, u32::MAX));
        if let ("rtt", Some(linear)) = (tag, &map.whole.linear) {
            planes.insert("old", plane(&map.whole, &[], linear.layout, OLD_ROWS - 1));
        }
    }
    // Figures of time are those of the longest map; all tags have the same columns but for empty ends.
    let longest = of_result.maps.iter().max_by_key(|map| map.whole.length_ns());
    let whole = longest.map(|map| &map.whole);
    let detail = of_result.maps.iter().flat_map(|map| &map.details).map(|strip| strip.column_ns).min();
    let (lost, slow): (Vec<&Outlier>, Vec<&Outlier>) = of_result.outliers.iter().partition(|outlier| outlier.lost);
    let listed: Vec<Worst> =
        slow.iter().take(LISTED).chain(lost.iter().take(LISTED_LOST)).map(|outlier| worst(outlier)).collect();
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
            .map(|strip| {
                let columns = strip.columns.iter().enumerate().map(|(place, column)| (place, column.lost));
                columns.filter(|(_, lost)| *lost > 0).collect()
            })
            .unwrap_or_default(),
        outliers_left_out: of_result.outliers.len() - listed.len(),
        outliers: listed,
        events: longest
            .map(|map| map.events.iter().filter(|event| event.kind != "loss").filter_map(mark).collect())
            .unwrap_or_default(),
    }
}

fn mark(event: &model::Event) -> Option<Mark> {
    let host = event.host.as_deref().map(|host| format!("{}: ", plain(host))).unwrap_or_default();
    Some(Mark {
        at_s: event.at_ns? as f64 / 1e9,
        kind: plain(&event.kind),
        detail: format!("{host}{}", plain(&event.detail)),
    })
}

fn worst(outlier: &Outlier) -> Worst {
    Worst {
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
