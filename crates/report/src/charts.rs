//! Every figure of a report as a file of its own: PNG, SVG, PDF, CSV. `windhover plot` writes them.

use crate::draw::figure::Figure;
pub use crate::draw::figure::Font;
use crate::draw::heat::{self, Heat, Layout, Look, Map, Titles};
use crate::draw::plots::{self, Picture};
use crate::units::{each_once, list, plain};
use crate::{Options, Report, ReportError};
use digest::compare::KEPT;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChartKind {
    /// All cells on one scale in one picture.
    Cells,
    /// Latency by time, one picture a cell.
    Heat,
    /// The same in the style of 2011.
    Heat2011,
    /// Lateness of sends by time, one picture a cell.
    Lateness,
    /// Where one cell has more messages than another.
    Difference,
    /// Distributions side by side.
    Distributions,
    /// The share of messages that took longer.
    Percentiles,
    /// The share of messages that took at most as long.
    Ecdf,
    /// Latency, lateness and loss against rate.
    Rate,
    /// Mean time against message size.
    Size,
    /// Jitter against message size.
    Jitter,
}

/// All kinds in the order of a report: the word of flags and files, whether it is drawn unasked, whether it is a heat map.
const KINDS: [(ChartKind, &str, bool, bool); 11] = [
    (ChartKind::Cells, "cells", true, true),
    (ChartKind::Heat, "heat", true, true),
    (ChartKind::Heat2011, "heat-2011", false, true),
    (ChartKind::Lateness, "lateness", false, true),
    (ChartKind::Difference, "difference", false, true),
    (ChartKind::Distributions, "distributions", true, false),
    (ChartKind::Percentiles, "percentiles", true, false),
    (ChartKind::Ecdf, "ecdf", false, false),
    (ChartKind::Rate, "rate", true, false),
    (ChartKind::Size, "size", true, false),
    (ChartKind::Jitter, "jitter", true, false),
];

impl ChartKind {
    fn row(self) -> (Self, &'static str, bool, bool) {
        KINDS[self as usize]
    }

    /// The word used in flags and file names.
    pub fn word(self) -> &'static str {
        self.row().1
    }

    fn is_map(self) -> bool {
        self.row().3
    }
}

/// Which figures, of which cells, and how they look.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Wanted {
    /// Kinds; empty: the usual ones, heat maps of cells with a rate only.
    pub kinds: Vec<ChartKind>,
    /// With no kinds named: all that the runs have.
    pub all: bool,
    /// Only this cell, by a number or a part of a key of [`cells`]; with [`ChartKind::Difference`] the first of the two.
    pub cell: Option<String>,
    /// The second cell of a difference, named likewise; absent: the next one of the same messages that differs in the fewest factors.
    pub against: Option<String>,
    /// Which repetition; absent: the first that each cell has.
    pub repetition: Option<u32>,
    /// What is mapped; absent: `rtt`.
    pub tag: Option<String>,
    /// Most columns of a map.
    pub columns: Option<usize>,
    /// Colours, scale, rows.
    pub look: Look,
    /// In the place of each figure's own title.
    pub title: Option<String>,
    /// The font of text; absent: Roboto.
    pub font: Option<Font>,
}

impl Wanted {
    fn wants(&self, kind: ChartKind) -> bool {
        if self.kinds.is_empty() { self.all || kind.row().2 } else { self.kinds.contains(&kind) }
    }
}

/// The cells that have results, by number (from 1, as in the plan) and key; cells of no plan follow in the order of keys.
pub fn cells(runs: &[store::Run]) -> Vec<(usize, String)> {
    let of_run = |run: &store::Run| {
        let keys: BTreeSet<String> = run.results.iter().map(|(step, _)| step.cell.clone()).collect();
        let planned = model::Plan::parse("plan.toml", &run.plan).and_then(|plan| plan.cells()).unwrap_or_default();
        let planned: Vec<String> = planned.into_iter().map(|cell| cell.key).filter(|key| keys.contains(key)).collect();
        planned.into_iter().chain(keys)
    };
    (1..).zip(each_once(runs.iter().flat_map(of_run))).collect()
}

/// The key that somebody means: a number, a whole key, or words that one key alone has.
fn key_of(cells: &[(usize, String)], asked: &str) -> Result<String, ReportError> {
    if let Some((_, key)) = cells.iter().find(|(number, key)| key == asked || asked.parse() == Ok(*number)) {
        return Ok(key.clone());
    }
    let parts = |text: &str| -> Vec<String> {
        let parts = text.split(|letter: char| letter == ',' || letter.is_whitespace());
        parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let fits =
        |key: &str, part: &str| parts(key).iter().any(|word| word == part || word.ends_with(&format!("={part}")));
    let all = |matches: &dyn Fn(&str, &str) -> bool| -> Vec<&String> {
        let found = cells.iter().filter(|(_, key)| parts(asked).iter().all(|part| matches(key, part)));
        found.map(|(_, key)| key).collect()
    };
    // `rate=1000` is also within `rate=10000`: whole words win.
    let whole = all(&fits);
    let found = if whole.is_empty() { all(&|key, part| key.contains(part)) } else { whole };
    match found.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(ReportError::NoCell { cell: plain(asked), known: cells.len() }),
        several => Err(ReportError::SeveralCells { cell: plain(asked), count: several.len() }),
    }
}

#[derive(Debug, Clone)]
pub struct Drawing {
    pub kind: ChartKind,
    /// The name of its file without the ending, such as `heat-0003-rtt`.
    pub name: String,
    /// One line for people.
    pub heading: String,
    figure: Figure,
    zoom: usize,
    csv: Data,
}

#[derive(Debug, Clone)]
enum Data {
    Ready(String),
    Map(Box<Map>, Layout),
}

impl Drawing {
    /// As SVG: no style sheet, no script, the same bytes for the same data. `scale` is the size, 1 that of the report.
    pub fn svg(&self, scale: f64) -> String {
        self.figure.svg(scale)
    }

    /// As PDF: one page, searchable, the same bytes for the same data. With a `scale` of 1 a chart is 450 points wide.
    pub fn pdf(&self, scale: f64) -> Vec<u8> {
        self.figure.pdf(scale)
    }

    /// As PNG, a cell of a map a whole number of pixels (`scale` is rounded); line charts are twice as large as in the report.
    pub fn png(&self, scale: f64) -> Vec<u8> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped where it is used")]
        let zoom = (self.zoom as f64 * scale).round().max(1.0) as usize;
        self.figure.png(zoom)
    }

    /// The figures behind the picture, times in ns.
    pub fn csv(&self) -> String {
        match &self.csv {
            Data::Ready(text) => text.clone(),
            Data::Map(map, layout) => heat::csv(map, *layout),
        }
    }
}

/// Figures, and what could not be drawn.
#[derive(Debug, Clone, Default)]
pub struct Drawings {
    /// In the order of a report.
    pub drawings: Vec<Drawing>,
    /// What is damaged or missing, one line each.
    pub problems: Vec<String>,
}

/// The key of a cell that is named by its number in [`cells`], its key, or a part of it. Errors: [`ReportError::NoCell`],
/// [`ReportError::SeveralCells`].
pub fn cell_key(runs: &[store::Run], asked: &str) -> Result<String, ReportError> {
    key_of(&cells(runs), asked)
}

/// Draws the figures of some runs. All heat maps of one kind have one scale. Errors: [`ReportError::NoCell`] for a cell that no run
/// has, [`ReportError::SeveralCells`] for a part of several keys, [`ReportError::NoFigure`] where runs have nothing to draw a wanted
/// kind from.
pub fn draw(runs: Vec<store::Run>, wanted: &Wanted) -> Result<Drawings, ReportError> {
    let mut out = Drawings::default();
    let keys = cells(&runs);
    let named = Wanted {
        cell: wanted.cell.as_deref().map(|asked| key_of(&keys, asked)).transpose()?,
        against: wanted.against.as_deref().map(|asked| key_of(&keys, asked)).transpose()?,
        ..wanted.clone()
    };
    let wanted = &named;
    let wants = |kind: ChartKind| wanted.wants(kind);
    let wanted_of = |map: bool| KINDS.into_iter().any(|(kind, _, _, is_map)| is_map == map && wants(kind));
    if wanted_of(true) {
        maps(&runs, wanted, &keys, &mut out);
    }
    let is_drawn = |drawings: &[Drawing], kind: ChartKind| drawings.iter().any(|drawing| drawing.kind == kind);
    let lacks_map = wanted.kinds.iter().any(|kind| kind.is_map() && !is_drawn(&out.drawings, *kind));
    let map_needs = if lacks_map { needed(&runs, wanted) } else { String::new() };
    if wanted_of(false) {
        charts(runs, wanted, &mut out.drawings);
    }
    out.drawings.retain(|drawing| wants(drawing.kind));
    if wanted.kinds.is_empty() && !wanted.all {
        // Where messages follow a schedule, what happened when is the question; a map of a closed loop says little.
        let paced = |drawing: &Drawing| matches!(&drawing.csv, Data::Map(map, _) if map.factors.contains_key("rate"));
        out.drawings
            .retain(|drawing| !matches!(drawing.kind, ChartKind::Heat) || wanted.cell.is_some() || paced(drawing));
    }
    for drawing in &mut out.drawings {
        if let Some(title) = &wanted.title {
            drawing.figure.set_title(title);
        }
        drawing.figure.font = wanted.font.clone().unwrap_or_default();
    }
    for kind in &wanted.kinds {
        if !is_drawn(&out.drawings, *kind) {
            let why = match kind {
                ChartKind::Difference => {
                    "needs two cells with interval logs and the same probe, protocol, size and rate: name \
                     others with --cell and --against"
                        .to_owned()
                }
                kind if kind.is_map() => map_needs,
                ChartKind::Size | ChartKind::Jitter => "needs cells of pingpong with two sizes or more".to_owned(),
                ChartKind::Rate => "needs cells of pace".to_owned(),
                _ => "needs cells of pingpong or pace".to_owned(),
            };
            let damage = out.problems.first().map(|problem| format!("; {problem}")).unwrap_or_default();
            return Err(ReportError::NoFigure { figure: kind.word(), why: format!("{why}{damage}") });
        }
    }
    Ok(out)
}

fn needed(runs: &[store::Run], wanted: &Wanted) -> String {
    let tags: BTreeSet<String> = runs.iter().flat_map(heat::tags).collect();
    let tags: Vec<String> = tags.into_iter().collect();
    match wanted.tag.as_deref().filter(|tag| !tags.is_empty() && !tags.iter().any(|known| known == tag)) {
        Some(tag) => format!("needs interval logs with the tag '{}': these have {}", plain(tag), list(&tags)),
        None => "needs cells with interval logs (cells/NNNN.hlog) and this tag".to_owned(),
    }
}

/// The tags whose heat maps are drawn: the one that is wanted, and with all figures every other one.
fn heat_tags(runs: &[store::Run], wanted: &Wanted) -> Vec<String> {
    let mut tags = vec![wanted.tag.clone().unwrap_or_else(|| "rtt".to_owned())];
    if wanted.all && wanted.kinds.is_empty() {
        let known: BTreeSet<String> = runs.iter().flat_map(heat::tags).collect();
        let others = known.into_iter().filter(|tag| !tag.starts_with("lateness") && !tags.contains(tag));
        tags.extend(others.collect::<Vec<_>>());
    }
    tags
}

/// The two maps of a difference. Unnamed, the second is the next one of the same messages that differs from the first in the fewest
/// factors, and the first is the first one that has such another.
fn two<'m>(ours: &[&'m Map], wanted: &Wanted) -> Option<(&'m Map, &'m Map)> {
    let names = |a: &Map, b: &Map| -> Vec<String> {
        let names: BTreeSet<&String> = a.factors.keys().chain(b.factors.keys()).collect();
        names.into_iter().filter(|name| a.factors.get(*name) != b.factors.get(*name)).cloned().collect()
    };
    let mut firsts = ours.iter().enumerate().filter(|(_, map)| match &wanted.cell {
        Some(cell) => map.cell == *cell,
        None => wanted.against.as_ref().is_none_or(|against| map.cell != *against),
    });
    if let Some(against) = &wanted.against {
        return Some((firsts.next()?.1, ours.iter().find(|map| map.cell == *against)?));
    }
    firsts.find_map(|(place, first)| {
        let others = ours.iter().cycle().skip(place + 1).take(ours.len().saturating_sub(1));
        let same_messages = others.filter(|other| {
            (&other.cell, &other.run) != (&first.cell, &first.run)
                && !names(first, other).iter().any(|name| KEPT.contains(&name.as_str()))
        });
        let second =
            same_messages.min_by_key(|other| names(first, other).len() + usize::from(other.run != first.run))?;
        Some((*first, *second))
    })
}

fn read_maps(runs: &[store::Run], wanted: &Wanted, heats: &[String]) -> Heat {
    let kinds = |kind: ChartKind| wanted.wants(kind);
    let mut tags = Vec::new();
    if [ChartKind::Heat, ChartKind::Heat2011, ChartKind::Cells, ChartKind::Difference].into_iter().any(kinds) {
        tags.extend(heats.iter().cloned());
    }
    if kinds(ChartKind::Lateness) && !tags.iter().any(|tag| tag == "lateness") {
        tags.push("lateness".to_owned());
    }
    // A difference needs both cells, whatever cell is named.
    let one_cell = (!kinds(ChartKind::Difference)).then(|| wanted.cell.clone()).flatten();
    let options = heat::Options {
        tags,
        max_columns: wanted.columns.unwrap_or(1200),
        linear_ns: (kinds(ChartKind::Heat2011) || wanted.look.linear).then_some(heat::ROW_2011_NS),
        details: 0,
        repetition: wanted.repetition,
        cell: one_cell,
        ..heat::Options::default()
    };
    let mut all = Heat::default();
    for run in runs {
        let mut heat = heat::of_run(run, &options);
        all.problems.append(&mut heat.problems);
        if wanted.repetition.is_none() {
            heat.maps = first_repetitions(heat.maps);
        }
        all.maps.append(&mut heat.maps);
    }
    all
}

fn maps(runs: &[store::Run], wanted: &Wanted, keys: &[(usize, String)], out: &mut Drawings) {
    let tag = wanted.tag.clone().unwrap_or_else(|| "rtt".to_owned());
    let heats = heat_tags(runs, wanted);
    let kinds = |kind: ChartKind| wanted.wants(kind);
    let mut all = read_maps(runs, wanted, &heats);
    out.problems.append(&mut all.problems);
    let number = |map: &Map| keys.iter().find(|(_, key)| plain(key) == map.cell).map(|(number, _)| *number);
    // Cells are measured in a random order, and shown in that of the plan.
    all.maps.sort_by_key(|map| number(map));
    let several_runs = runs.len() > 1;
    let titles = Titles::of(keys.iter().map(|(_, key)| key.as_str()), several_runs);
    let of_tag = |tag: &str| -> Vec<&Map> { all.maps.iter().filter(|map| map.tag == tag).collect() };
    let shown = |map: &&Map| wanted.cell.as_ref().is_none_or(|cell| *cell == map.cell);
    let look = &wanted.look;
    let mut add = |kind: ChartKind, map: Option<&Map>, tag: &str, figure: Figure, csv: Data| {
        // Files have the numbers that --cell takes.
        let index = map.and_then(number).map(|number| format!("-{number:04}")).unwrap_or_default();
        let again = wanted.repetition.filter(|_| map.is_some()).map(|one| format!("-r{one}")).unwrap_or_default();
        let run = map.filter(|_| several_runs).map(|map| format!("-{}", map.run)).unwrap_or_default();
        let tag =
            if kind == ChartKind::Lateness { String::new() } else { format!("-{}", tag.replace(['@', '_'], "-")) };
        out.drawings.push(Drawing {
            kind,
            name: file_name(&format!("{}{run}{index}{again}{tag}", kind.word())),
            heading: figure.title.clone(),
            figure,
            zoom: 1,
            csv,
        });
    };
    let ours = of_tag(&tag);
    if ours.len() > 1
        && let Some(figure) = heat::multiples(&ours, look)
    {
        let mut csv = format!("run,cell,repetition,{}", heat::CSV_HEAD);
        for map in &ours {
            let key = format!("{},{},{},", field(&map.run), field(&map.cell), map.repetition);
            csv.push_str(&heat::csv_lines(map, Layout::Log, &key));
        }
        add(ChartKind::Cells, None, &tag, figure, Data::Ready(csv));
    }
    let of_cells = heats.iter().map(|tag| (ChartKind::Heat, tag.as_str())).chain([(ChartKind::Lateness, "lateness")]);
    for (kind, tag) in of_cells {
        let maps = of_tag(tag);
        let Some(rows) = look.rows(&maps) else { continue };
        let counts = maps.iter().flat_map(|map| map.whole.grid(rows.layout).counts());
        let common = look.common(rows, counts);
        for map in maps.iter().copied().filter(shown) {
            add(
                kind,
                Some(map),
                tag,
                heat::figure(map, &common, look, &titles),
                Data::Map(Box::new(map.clone()), rows.layout),
            );
        }
    }
    for map in ours.iter().copied().filter(shown) {
        if let Some(figure) = heat::figure_2011(map, &titles) {
            let layout = Layout::Linear { step_ns: heat::ROW_2011_NS };
            add(ChartKind::Heat2011, Some(map), &tag, figure, Data::Map(Box::new(map.clone()), layout));
        }
    }
    if let Some((a, b)) = two(&ours, wanted).filter(|_| kinds(ChartKind::Difference))
        && let Some(figure) = heat::difference(a, b, look)
    {
        add(ChartKind::Difference, None, &tag, figure, Data::Ready(heat::difference_csv(a, b)));
        let mixed = differing_messages(a, b);
        if !mixed.is_empty() {
            out.problems.push(format!("the difference is of different messages, as asked for: {}", list(&mixed)));
        }
    }
}

fn differing_messages(a: &Map, b: &Map) -> Vec<String> {
    KEPT.into_iter()
        .filter(|name| a.factors.get(*name) != b.factors.get(*name))
        .map(|name| [a, b].map(|map| map.factors.get(name).map_or("none", String::as_str)).join(" and "))
        .collect()
}

fn first_repetitions(maps: Vec<Map>) -> Vec<Map> {
    let mut first: BTreeMap<(String, String), u32> = BTreeMap::new();
    for map in &maps {
        let repetition = first.entry((map.cell.clone(), map.tag.clone())).or_insert(map.repetition);
        *repetition = map.repetition.min(*repetition);
    }
    let keep = |map: &Map| first.get(&(map.cell.clone(), map.tag.clone())) == Some(&map.repetition);
    maps.into_iter().filter(keep).collect()
}

fn charts(runs: Vec<store::Run>, wanted: &Wanted, out: &mut Vec<Drawing>) {
    let report = Report::from_runs(runs, &Options::default());
    let mut add = |kind: ChartKind, pictures: Vec<Picture>, csv: &str| {
        let many = pictures.len() > 1;
        for (number, Picture { heading, figure }) in (1..).zip(pictures) {
            let name = if many { format!("{}-{number}", kind.word()) } else { kind.word().to_owned() };
            let figure = figure.headed(&heading, wanted.look.theme);
            out.push(Drawing { kind, name, heading, figure, zoom: 2, csv: Data::Ready(csv.to_owned()) });
        }
    };
    let (summary, counts) = (report.csv(), distributions(&report));
    let strips = plots::strips(&report.plotted()).map(|figure| Picture { heading: "Distributions".to_owned(), figure });
    add(ChartKind::Distributions, strips.into_iter().collect(), &summary);
    add(ChartKind::Percentiles, plots::tails(&report.plotted()), &counts);
    add(ChartKind::Ecdf, plots::functions(&report.plotted()), &counts);
    add(ChartKind::Rate, plots::by_rate(&report.plotted()), &summary);
    add(ChartKind::Size, plots::by_size(&report.plotted(), "mean"), &summary);
    add(ChartKind::Jitter, plots::by_size(&report.plotted(), "stdev"), &summary);
}

/// The distributions of all cells: RTT buckets with the messages in them and beyond, by `actual`, then `intended` send time.
fn distributions(report: &Report) -> String {
    let mut out = String::from("run,cell,protocol,size_bytes,rtt_ns,messages,beyond,from\r\n");
    for cell in &report.cells {
        for (points, from) in [(&cell.points, "actual"), (&cell.intended, "intended")] {
            let mut left: u64 = points.iter().map(|(_, count)| count).sum();
            for (ns, count) in points {
                left -= count;
                let info = &cell.info;
                let [run, label, protocol] = [&info.run, &info.label, &info.protocol].map(|text| field(text));
                out.push_str(&format!("{run},{label},{protocol},{},{ns},{count},{left},{from}\r\n", info.size_bytes));
            }
        }
    }
    out
}

/// A field of CSV; text from outside must not become a formula.
fn field(text: &str) -> String {
    let text = plain(text);
    let text = if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text };
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

/// A name without what file systems or shells treat in a special way.
fn file_name(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_named_by_number_key_or_part() {
        let keys = ["policy=other,rate=1000", "policy=other,rate=10000", "policy=fifo:1,probe=rr"].map(str::to_owned);
        let cells: Vec<(usize, String)> = (1..).zip(keys).collect();
        let key = |asked: &str| key_of(&cells, asked).map_err(|error| error.to_string());
        assert_eq!(key("3").as_deref(), Ok("policy=fifo:1,probe=rr"));
        assert_eq!(key("policy=fifo:1,probe=rr").as_deref(), Ok("policy=fifo:1,probe=rr"));
        assert_eq!(key("fifo").as_deref(), Ok("policy=fifo:1,probe=rr"));
        assert_eq!(key("1000").as_deref(), Ok("policy=other,rate=1000"));
        assert_eq!(key("other 10000").as_deref(), Ok("policy=other,rate=10000"));
        assert!(key("other").is_err_and(|words| words.contains("2 cells") && words.contains("--list")));
        assert!(key("4").is_err_and(|words| words.contains("all 3")), "{:?}", key("4"));
    }
}
