//! Heat maps for the page: the data that the viewer's script draws, the small multiples, and which picture belongs to
//! which cell.
//!
//! The data are one JSON text: rows and colours once, then map by map what [`heat::pack`] makes of the counts, deflated
//! and in base64. Nothing of it can end the script element that holds it: `<` never stands there bare.

mod data;
mod panels;

use crate::draw::heat::{self, Heat, Map};
use crate::units::plain;
use crate::{Report, ReportError};
use digest::RunInput;
use model::Probe;
use model::result::Outlier;
use panels::Panels;
use std::collections::BTreeMap;

/// What the page holds at most, in bytes of base64: columns are made longer until it fits.
const MOST_BYTES: usize = 7 << 20;
/// Columns of a map, the first that fits.
const COLUMNS: [usize; 4] = [4000, 2000, 1000, 400];
/// Worst messages that the page names, and of them lost ones.
const LISTED: usize = 60;
const LISTED_LOST: usize = 20;
const REFLECTORS: usize = 8;
/// Other probes log by the second: with fewer columns there is nothing to see.
const LEAST_COLUMNS: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Page {
    /// The JSON for the script; empty when there is no map.
    pub(super) data: String,
    pub(super) panels: Panels,
    /// Maps by run and result: which the cells' pages show.
    pub(super) by_result: BTreeMap<(usize, usize), CellMaps>,
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
    /// Where these are the messages of one of several reflectors: which.
    pub(super) reflector: Option<String>,
    /// Each reflector by itself, where there are several.
    pub(super) reflectors: Vec<CellMaps>,
}

pub(super) fn page(report: &Report) -> Result<Page, ReportError> {
    let mut page = Page::default();
    let mut most = BTreeMap::new();
    for max_columns in COLUMNS {
        let options = heat::Options { max_columns, linear_ns: Some(heat::ROW_2011_NS), ..heat::Options::default() };
        match joined(report, &most, &options).filter(|joined| !joined.is_empty()) {
            Some(joined) => page.by_result = joined,
            None => (page.by_result, page.problems) = read(report, &options),
        }
        if page.by_result.is_empty() {
            return Ok(page);
        }
        let (data, panels) = data::viewer(report, &page.by_result);
        page.data = serde_json::to_string(&data)?.replace('<', "\\u003c");
        page.panels = panels;
        if page.data.len() <= MOST_BYTES {
            break;
        }
        if most.is_empty() {
            most = std::mem::take(&mut page.by_result);
        }
    }
    Ok(page)
}

type ByResult = BTreeMap<(usize, usize), CellMaps>;

/// The maps of all runs from their logs, and what of those is damaged.
fn read(report: &Report, options: &heat::Options) -> (ByResult, Vec<String>) {
    let (mut by_result, mut all_problems) = (ByResult::new(), Vec::new());
    for (number, run) in report.inputs.iter().enumerate() {
        let Heat { maps, problems } = heat::of_input(run, options);
        all_problems.extend(problems);
        let steps: BTreeMap<u32, usize> = run.steps.iter().map(|step| step.index).zip(0..).collect();
        for map in maps {
            let Some(&result) = steps.get(&map.index) else { continue };
            if !is_shown(run, result, &map) {
                continue;
            }
            let several = report.inputs.len() > 1;
            let id = if several { format!("{}-{:04}", number + 1, map.index) } else { format!("{:04}", map.index) };
            let of_result = by_result.entry((number, result)).or_insert_with(|| CellMaps {
                id,
                maps: Vec::new(),
                // Told already where the maps could not be read.
                outliers: run
                    .folder
                    .as_deref()
                    .and_then(|folder| store::outliers(folder, map.index).ok())
                    .unwrap_or_default(),
                reflector: None,
                reflectors: Vec::new(),
            });
            of_result.maps.push(map);
        }
        for ((_, result), of_result) in by_result.iter_mut().filter(|((of, _), _)| *of == number) {
            of_result.reflectors = reflectors(run, *result, of_result, options);
        }
    }
    for of_result in by_result.values_mut() {
        sort(&mut of_result.outliers);
        of_result.reflectors.iter_mut().for_each(|reflector| sort(&mut reflector.outliers));
    }
    (by_result, all_problems)
}

fn is_shown(run: &RunInput, result: usize, map: &Map) -> bool {
    let is_pace = run.results.get(result).is_some_and(|result| result.probe == Probe::Pace);
    is_pace || map.whole.columns.len() >= LEAST_COLUMNS
}

/// The maps with longer columns; `None` where a log has to be read again for that.
fn joined(report: &Report, most: &ByResult, options: &heat::Options) -> Option<ByResult> {
    let of = |maps: &[Map]| maps.iter().map(|map| heat::joined(map, options)).collect::<Option<Vec<Map>>>();
    let mut by_result = ByResult::new();
    for (&(number, result), of_result) in most {
        let run = report.inputs.get(number)?;
        let one = |cell: &CellMaps, maps, reflectors| CellMaps {
            id: cell.id.clone(),
            maps,
            outliers: cell.outliers.clone(),
            reflector: cell.reflector.clone(),
            reflectors,
        };
        let mut maps = of(&of_result.maps)?;
        maps.retain(|map| is_shown(run, result, map));
        let reflectors = of_result.reflectors.iter().map(|each| Some(one(each, of(&each.maps)?, Vec::new())));
        let reflectors = reflectors.collect::<Option<Vec<CellMaps>>>()?;
        if !maps.is_empty() {
            by_result.insert((number, result), one(of_result, maps, reflectors));
        }
    }
    Some(by_result)
}

fn sort(outliers: &mut [Outlier]) {
    outliers.sort_by_key(|outlier| {
        (outlier.lost, std::cmp::Reverse(outlier.rtt_ns.saturating_add(outlier.lateness_ns)), outlier.seq)
    });
}

fn reflectors(run: &RunInput, result: usize, all: &CellMaps, options: &heat::Options) -> Vec<CellMaps> {
    let (Some(folder), Some(document), Some(step)) =
        (run.folder.as_deref(), run.results.get(result), run.steps.get(result))
    else {
        return Vec::new();
    };
    if document.reflectors.len() < 2 {
        return Vec::new();
    }
    let each = document.reflectors.iter().take(REFLECTORS).zip(1..);
    each.map(|(reflector, number)| {
        let tags = ["rtt", "rtt_intended"].map(|tag| format!("{tag}@{}", reflector.host)).to_vec();
        // What is damaged is told with the whole.
        let heat = heat::of_step(folder, &run.document, step, document, &heat::Options { tags, ..options.clone() });
        CellMaps {
            id: format!("{}-r{number}", all.id),
            maps: heat.maps,
            outliers: all
                .outliers
                .iter()
                .filter(|outlier| outlier.host.as_deref() == Some(reflector.host.as_str()))
                .cloned()
                .collect(),
            reflector: Some(plain(&reflector.host)),
            reflectors: Vec::new(),
        }
    })
    .filter(|reflector| !reflector.maps.is_empty())
    .collect()
}
