//! What stamps tell of the cells of `pace`: one-way times and the parts of the round trip, over the repetitions, and as one
//! table.

use crate::combine::{Part, middle, pooled, spread};
use crate::document::{CellInfo, Document, PartInfo, Quantiles, WayInfo};
use crate::layout::{Column, Grid};
use crate::units::{plain, us_or_dash};
use model::{OneWay, ResultDocument, Signed};

/// One-way times, out before back; of each reflector where there are several.
pub(crate) fn ways(used: &[&ResultDocument]) -> Vec<WayInfo> {
    let mut hosts: Vec<Option<&str>> = Vec::new();
    for result in used {
        let several = result.reflectors.iter().filter(|one| one.one_way.is_some()).map(|one| Some(one.host.as_str()));
        for host in result.one_way.iter().map(|_| None).chain(several) {
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
    }
    let of = |result: &'_ ResultDocument, host: Option<&str>| -> Option<OneWay> {
        match host {
            None => result.one_way.clone(),
            Some(host) => result.reflectors.iter().find(|one| one.host == host)?.one_way.clone(),
        }
    };
    let mut out = Vec::new();
    for host in hosts {
        let all: Vec<OneWay> = used.iter().filter_map(|result| of(result, host)).collect();
        for (way, pick) in [("out", (|one| &one.out) as fn(&OneWay) -> &Signed), ("back", |one| &one.back)] {
            out.extend(way_of(host, way, &all, pick));
        }
    }
    out
}

fn way_of(host: Option<&str>, way: &str, all: &[OneWay], pick: fn(&OneWay) -> &Signed) -> Option<WayInfo> {
    let first = all.first()?;
    let times: Vec<&Signed> = all.iter().map(pick).collect();
    let parts: Vec<Part> =
        times.iter().map(|one| Part { count: one.count, mean: one.mean_ns, stdev: one.stdev_ns }).collect();
    let of = |figure: fn(&Signed) -> Option<i64>| -> Vec<f64> {
        times.iter().filter_map(|one| figure(one).map(|ns| ns as f64)).collect()
    };
    let pooled = pooled(&parts)?;
    Some(WayInfo {
        host: host.map(plain),
        way: way.to_owned(),
        figures: Quantiles {
            mean_ns: Some(pooled.mean),
            stdev_ns: pooled.stdev,
            p50_ns: middle(&of(|one| one.p50_ns)),
            p99_ns: middle(&of(|one| one.p99_ns)),
            p99_range: spread(&of(|one| one.p99_ns)),
            p99_9_ns: middle(&of(|one| one.p99_9_ns)),
            max_ns: of(|one| Some(one.max_ns)).into_iter().reduce(f64::max),
        },
        min_ns: of(|one| Some(one.min_ns)).into_iter().reduce(f64::min).unwrap_or_default(),
        method: plain(&first.method),
        error_ns: all.iter().map(|one| one.error_ns).max().unwrap_or(0),
    })
}

/// The parts of the round trip, in its order.
pub(crate) fn parts(used: &[&ResultDocument]) -> Vec<PartInfo> {
    let mut names: Vec<(&str, &str)> = Vec::new();
    for segment in used.iter().flat_map(|result| &result.segments) {
        let name = (segment.name.as_str(), segment.stamps.as_str());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let part = |(name, stamps): (&str, &str)| {
        let all: Vec<&model::Latency> = used
            .iter()
            .flat_map(|result| &result.segments)
            .filter(|segment| (segment.name.as_str(), segment.stamps.as_str()) == (name, stamps))
            .map(|segment| &segment.latency)
            .collect();
        Some(PartInfo { name: plain(name), stamps: plain(stamps), figures: crate::cells::quantiles(&all, None)? })
    };
    names.into_iter().filter_map(part).collect()
}

/// What stands above the table: what it has. Only the figures of these are stored, and no histograms.
pub(crate) fn heading(document: &Document) -> String {
    let paces = || document.cells.iter().filter_map(|cell| cell.pace.as_ref());
    let (ways, parts) = (paces().any(|pace| !pace.one_way.is_empty()), paces().any(|pace| !pace.parts.is_empty()));
    let has_p99 = paces().flat_map(|pace| &pace.one_way).any(|way| way.figures.p99_ns.is_some());
    let figures = if ways && has_p99 { "p50 and p99" } else { "p50" };
    let what = match (ways, parts) {
        (true, true) => format!("One-way times ({figures}) and parts of the round trip (p50)"),
        (true, false) => format!("One-way times ({figures})"),
        _ => "Parts of the round trip (p50)".to_owned(),
    };
    let several = document.cells.iter().any(|cell| cell.pace.is_some() && cell.repetitions > 1);
    format!("{what} in µs{}", if several { ", of the middle repetition" } else { "" })
}

/// The table, a row a cell and reflector; `None` where no cell has any of it.
pub(crate) fn table(document: &Document) -> Option<Grid> {
    let cells: Vec<&CellInfo> = document
        .cells
        .iter()
        .filter(|cell| cell.pace.as_ref().is_some_and(|pace| !pace.one_way.is_empty() || !pace.parts.is_empty()))
        .collect();
    let paces = || cells.iter().filter_map(|cell| cell.pace.as_ref());
    let has_ways = paces().any(|pace| !pace.one_way.is_empty());
    // Between clocks of one machine there is no error to tell.
    let has_errors = paces().flat_map(|pace| &pace.one_way).any(|way| way.error_ns > 0);
    let mut names: Vec<&str> = Vec::new();
    for name in paces().flat_map(|pace| &pace.parts).map(|part| part.name.as_str()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let differs = |pick: fn(&CellInfo) -> String| cells.windows(2).any(|pair| pick(pair[0]) != pick(pair[1]));
    let protocols = differs(|cell| cell.protocol.clone());
    let sizes = differs(|cell| cell.size_bytes.to_string());
    let mut grid = Grid { columns: vec![Column::words("cell")], ..Grid::default() };
    if protocols {
        grid.columns.push(Column::words("protocol"));
    }
    if sizes {
        grid.columns.push(Column::figures("size", "B"));
    }
    if has_ways {
        let heads = [("out", "p50"), ("out", "p99"), ("back", "p50"), ("back", "p99")];
        grid.columns.extend(heads.map(|(title, unit)| Column::figures(title, unit)));
        if has_errors {
            grid.columns.push(Column::figures("±", "µs"));
        }
    }
    grid.columns.extend(names.iter().map(|name| Column::figures(name, "p50")));
    for cell in &cells {
        let Some(pace) = &cell.pace else { continue };
        let mut hosts: Vec<Option<&str>> = pace.one_way.iter().map(|way| way.host.as_deref()).collect();
        hosts.dedup();
        if hosts.is_empty() {
            hosts.push(None);
        }
        for (place, host) in hosts.into_iter().enumerate() {
            let mut row = vec![host.map_or_else(|| cell.label.clone(), |host| format!("{}, {host}", cell.label))];
            row.extend(protocols.then(|| cell.protocol.clone()));
            row.extend(sizes.then(|| cell.size_bytes.to_string()));
            if has_ways {
                let way = |word: &str| pace.one_way.iter().find(|way| way.way == word && way.host.as_deref() == host);
                for word in ["out", "back"] {
                    let figures = way(word).map(|way| way.figures).unwrap_or_default();
                    row.extend([figures.p50_ns, figures.p99_ns].map(us_or_dash));
                }
                if has_errors {
                    let error = way("out").map(|way| way.error_ns).filter(|error| *error > 0);
                    row.push(us_or_dash(error.map(|ns| ns as f64)));
                }
            }
            row.extend(names.iter().map(|name| {
                let part = pace.parts.iter().filter(|_| place == 0).find(|part| part.name == *name);
                us_or_dash(part.and_then(|part| part.figures.p50_ns))
            }));
            grid.rows.push(row);
        }
    }
    (!grid.rows.is_empty()).then_some(grid)
}
