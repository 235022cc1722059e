//! All distributions at the table's message size in one picture.

use crate::Report;
use crate::document::{CellInfo, Mark};
use crate::names::{measured_on, rank};
use crate::plots::tip;
use crate::svg::{Domain, Strip, StripGroup, Strips};
use crate::units::span;
use model::Substrate;
use std::collections::{BTreeMap, BTreeSet};

/// The picture; absent when no cell has figures.
pub(crate) fn strips(report: &Report) -> Option<String> {
    let document = &report.document;
    let fit = |info: &&CellInfo| info.probe == "pingpong" && info.size_bytes == document.size_bytes;
    let cells: Vec<&CellInfo> = document.cells.iter().filter(fit).collect();
    let kind = document.kind.title();
    let substrates: BTreeSet<Substrate> = cells.iter().map(|info| info.substrate).collect();
    let mut groups: BTreeMap<(Substrate, (usize, String)), Vec<Strip>> = BTreeMap::new();
    for info in cells {
        if let Some(strip) = strip(info) {
            groups.entry((info.substrate, rank("protocol", &info.protocol))).or_default().push(strip);
        }
    }
    let low = groups.values().flatten().map(|strip| strip.min).reduce(f64::min)?;
    let high = groups.values().flatten().map(|strip| strip.max).reduce(f64::max)?;
    let words: Vec<String> = groups.values().flatten().map(|strip| strip.tip.clone()).collect();
    let chart = Strips {
        id: "glance".to_owned(),
        title: format!("Distributions of {kind} at {} bytes", document.size_bytes),
        description: format!("{}.", words.join("; ")),
        quantity: kind.to_owned(),
        domain: Domain::log(low.max(1.0), high.max(low.max(1.0) * 1.5)),
        groups: groups
            .into_iter()
            .map(|((substrate, (_, protocol)), strips)| {
                let place =
                    if substrates.len() > 1 { format!(", measured {}", measured_on(substrate)) } else { String::new() };
                StripGroup { heading: format!("{}{place}", protocol.to_uppercase()), strips }
            })
            .collect(),
    };
    Some(chart.svg())
}

fn strip(info: &CellInfo) -> Option<Strip> {
    let p50 = info.value("p50")?;
    let sign = match info.mark {
        Mark::Clean => String::new(),
        mark => format!(" {}", mark.sign()),
    };
    let tail = info.value("p99.9").map(|ns| format!(" · p99.9 {}", span(ns))).unwrap_or_default();
    Some(Strip {
        label: info.label.clone(),
        style: info.colour,
        min: info.value("min")?,
        p50,
        mean: info.value("mean")?,
        p99: info.value("p99"),
        p99_9: info.value("p99.9"),
        max: info.value("max")?,
        figures: format!("p50 {}{tail}{sign}", span(p50)),
        tip: tip(info),
    })
}
