//! One folded section a cell: verdict, figures of each repetition, series, the worst messages, the ends, and what was changed.

mod tables;

use super::heat::{CellMaps, Page as Maps};
use super::stills::Stills;
use super::{data, pictures, series};
use crate::draw::plots::in_words;
use crate::units::commas;
use crate::{Report, environment};
use digest::cells::Cell;
use digest::{CellInfo, FindingCount, RunInput};
use minijinja::{Value, context};
use model::ResultDocument;
use tables::{counts, distributions, worst};

pub(super) fn of(report: &Report, maps: &Maps, stills: &Stills) -> Vec<Value> {
    let cells = report.cells.iter().enumerate();
    cells.filter_map(|(number, cell)| Some(page(number, cell, report.inputs.get(cell.run)?, maps, stills))).collect()
}

fn page(number: usize, cell: &Cell, run: &RunInput, maps: &Maps, stills: &Stills) -> Value {
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
    let links = members.iter().filter_map(|(member, result)| {
        let key = (cell.run, *member);
        let of_result = maps.by_result.get(&key)?;
        let own = stills.by_result.get(&key).cloned().unwrap_or_default();
        let links = std::iter::once(map_link(result, of_result, of_cell.len(), own));
        let each = of_result.reflectors.iter();
        Some(links.chain(each.map(|one| map_link(result, one, of_cell.len(), Vec::new()))).collect::<Vec<_>>())
    });
    context! {
        anchor => format!("cell-{number}"),
        title => title(info),
        words => words(info),
        sign => info.mark.sign(),
        verdict => verdict(info),
        maps => links.flatten().collect::<Vec<_>>(),
        tables => data(tables),
        series => pictures(series::of(&results)),
        facts => data(environment::of_cell(run, &members)),
    }
}

fn title(info: &CellInfo) -> String {
    let label = if info.label == "all cells" { String::new() } else { format!(" · {}", info.label) };
    if !info.probe.has_peer() {
        return format!("{}{label}", info.probe);
    }
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

fn verdict(info: &CellInfo) -> Vec<Value> {
    let found = |finding: &FindingCount| {
        let (name, times) = finding.words(info);
        let times = times.map(|times| format!(", {times} repetitions")).unwrap_or_default();
        let sign = if finding.invalid { "!" } else { "*" };
        context! { sign, name => format!("{name}{times}"), detail => &finding.detail }
    };
    info.findings.iter().map(found).collect()
}

fn map_link(result: &ResultDocument, of_result: &CellMaps, all: usize, stills: Vec<Value>) -> Value {
    let repetition = result.repetition.filter(|_| all > 1).map(|repetition| format!("repetition {repetition}"));
    let reflector = of_result.reflector.as_ref().map(|host| format!("reflector {host}"));
    let title = repetition.into_iter().chain(reflector).collect::<Vec<_>>().join(", ");
    let word = |tag: &str| match tag.split('@').next().unwrap_or_default() {
        "rtt" => Some(("rtt", "RTT from actual send")),
        "rtt_intended" => Some(("rtt_intended", "RTT from intended send")),
        "lateness" => Some(("lateness", "lateness")),
        _ => None,
    };
    let quantities: Vec<(&str, &str)> = of_result.maps.iter().filter_map(|map| word(&map.tag)).collect();
    context! { id => &of_result.id, title, quantities => data(quantities), stills }
}
