//! One folded section a cell: verdict, all figures of each repetition, series, the worst messages, what the ends were told
//! and what they cost, and what was changed for it.

mod tables;

use super::heat::{CellMaps, Page as Maps};
use super::stills::{Still, Stills};
use super::{PictureView, pictures, series};
use crate::cells::Cell;
use crate::document::{CellInfo, FindingCount};
use crate::environment::{self, Facts};
use crate::plots::in_words;
use crate::units::commas;
use crate::{Report, RunInput};
use model::ResultDocument;
use serde::Serialize;
use tables::{Table, counts, distributions, worst};

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
    series: Vec<PictureView>,
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
    let mut tables = vec![distributions(&results)];
    tables.extend(counts(&results));
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
                let key = (cell.run, *member);
                let of_result = maps.by_result.get(&key)?;
                let own = stills.by_result.get(&key).cloned().unwrap_or_default();
                let links = std::iter::once(map_link(result, of_result, of_cell.len(), own));
                let each = of_result.reflectors.iter();
                Some(links.chain(each.map(|one| map_link(result, one, of_cell.len(), Vec::new()))).collect::<Vec<_>>())
            })
            .flatten()
            .collect(),
        tables,
        series: pictures(series::of(&results)),
        facts: environment::of_cell(run, &members),
    }
}

fn title(info: &CellInfo) -> String {
    let label = if info.label == "all cells" { String::new() } else { format!(" · {}", info.label) };
    format!("{} {} · {} B{label}", info.probe, info.protocol.to_uppercase(), commas(info.size_bytes))
}

fn words(info: &CellInfo) -> String {
    let kind = info.kind.title();
    let times = in_words(info, &["p50", "p99", "p99.9", "max"]);
    let mut words = if times.is_empty() { Vec::new() } else { vec![format!("{kind} {times}")] };
    if info.count("sent") > 0 {
        let lost = info.count("lost");
        words.push(if lost == 0 { "none lost".to_owned() } else { format!("{} lost", commas(lost)) });
    }
    words.join(", ")
}

fn verdict(info: &CellInfo) -> Vec<Found> {
    let found = |finding: &FindingCount| {
        let (name, times) = finding.words(info);
        let times = times.map(|times| format!(", {times} repetitions")).unwrap_or_default();
        Found {
            sign: if finding.invalid { "!" } else { "*" },
            name: format!("{name}{times}"),
            detail: finding.detail.clone(),
        }
    };
    info.findings.iter().map(found).collect()
}

fn map_link(result: &ResultDocument, of_result: &CellMaps, all: usize, stills: Vec<Still>) -> MapLink {
    let repetition = result.repetition.filter(|_| all > 1).map(|repetition| format!("repetition {repetition}"));
    let reflector = of_result.reflector.as_ref().map(|host| format!("reflector {host}"));
    let title = repetition.into_iter().chain(reflector).collect::<Vec<_>>().join(", ");
    let word = |tag: &str| match tag.split('@').next().unwrap_or_default() {
        "rtt" => Some(("rtt", "RTT from actual send")),
        "rtt_intended" => Some(("rtt_intended", "RTT from intended send")),
        "lateness" => Some(("lateness", "lateness")),
        _ => None,
    };
    let quantities =
        of_result.maps.iter().filter_map(|map| word(&map.tag)).map(|(tag, name)| (tag, name.to_owned())).collect();
    MapLink { id: of_result.id.clone(), title, quantities, stills }
}
