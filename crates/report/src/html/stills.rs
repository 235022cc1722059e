//! Maps as still pictures, for readers without scripts and for paper: each an SVG in a data URL, apart from the page's styles.

use super::heat::CellMaps;
use crate::draw::heat::{self, Heat, Layout, Look, Map, Strip, Titles};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minijinja::{Value, context};
use std::collections::BTreeMap;

/// Columns of a picture: what a sheet of paper shows.
const COLUMNS: usize = 1000;
/// All pictures of a page together, in bytes.
const MOST_BYTES: usize = 2 << 20;

#[derive(Debug, Default)]
pub(super) struct Stills {
    pub(super) all: Option<Value>,
    pub(super) by_result: BTreeMap<(usize, usize), Vec<Value>>,
    pub(super) left_out: usize,
}

/// A picture with what it shows in words, and the length of its data URL, which holds no sign that HTML would have to escape.
fn still(words: &str, svg: &str) -> (Value, usize) {
    let url = format!("data:image/svg+xml;base64,{}", STANDARD.encode(svg));
    let length = url.len();
    (context! { words, source => Value::from_safe_string(url) }, length)
}

/// Draws the maps, those of each quantity on one scale; where room ends, RTT from the intended send is drawn first, lateness last.
pub(super) fn of(by_result: &BTreeMap<(usize, usize), CellMaps>) -> Stills {
    let mut stills = Stills::default();
    let short: Vec<((usize, usize), Vec<Map>)> =
        by_result.iter().map(|(key, of_result)| (*key, of_result.maps.iter().map(shortened).collect())).collect();
    let look = Look::default();
    let titles = Titles::of_maps(&short.iter().flat_map(|(_, maps)| maps).collect::<Vec<_>>());
    let rtt: Vec<&Map> = short.iter().flat_map(|(_, maps)| maps).filter(|map| map.tag == "rtt").collect();
    let mut bytes = 0;
    if let Some(figure) = (rtt.len() > 1).then(|| heat::multiples(&rtt, &look)).flatten() {
        let (still, length) = still("Heat maps of all cells on one scale", &figure.svg(1.0));
        bytes += length;
        stills.all = Some(still);
    }
    for tags in [&["rtt_intended", "rtt"][..], &["lateness"][..]] {
        let shown = || short.iter().flat_map(|(_, maps)| maps).filter(|map| tags.contains(&map.tag.as_str()));
        let Some(rows) = Heat::rows(shown(), Layout::Log) else { continue };
        let common = look.common(rows, shown().flat_map(|map| map.whole.log.counts()));
        for tag in tags {
            for (key, maps) in &short {
                for map in maps.iter().filter(|map| map.tag == *tag) {
                    if bytes > MOST_BYTES {
                        stills.left_out += 1;
                        continue;
                    }
                    let (still, length) = still(&map.quantity(), &heat::figure(map, &common, &look, &titles).svg(1.0));
                    bytes += length;
                    stills.by_result.entry(*key).or_default().push(still);
                }
            }
        }
    }
    stills
}

/// A map with no more columns than a picture has room for: neighbours added up.
fn shortened(map: &Map) -> Map {
    let every = map.whole.columns.len().div_ceil(COLUMNS).max(1) as u64;
    let whole = Strip { linear: None, ..map.whole.joined(map.whole.column_ns * every, 1) };
    Map { details: Vec::new(), whole, ..map.clone() }
}
