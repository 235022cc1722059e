//! What pictures of maps are called: what tells a cell from the others first, then what all share.

use super::Map;
use digest::names::{asked_first, value_word};
use model::Substrate;
use model::probe::NO_PROTOCOL;
use std::collections::{BTreeMap, BTreeSet};

/// A cell's factors by its key, what a reader asks first at the front.
pub(crate) fn factors(cell: &str) -> Vec<(&str, &str)> {
    let parts = cell.split(',').filter_map(|part| part.split_once('='));
    let mut parts: Vec<_> = parts.filter(|part| *part != ("protocol", NO_PROTOCOL)).collect();
    parts.sort_by_key(|(axis, _)| place(axis));
    parts
}

/// What a reader asks first, then what the messages are, then the rest.
pub(crate) fn place(axis: &str) -> usize {
    const MESSAGES: [&str; 4] = ["probe", "protocol", "size", "rate"];
    const SETUP: [&str; 3] = ["stack", "receive", "nic"];
    let is_asked = asked_first(axis) < asked_first("") && !SETUP.contains(&axis);
    match MESSAGES.iter().position(|name| *name == axis) {
        _ if is_asked => asked_first(axis),
        Some(place) => asked_first("") + place,
        None => asked_first("") + MESSAGES.len() + asked_first(axis),
    }
}

/// The factors whose values differ among some cells.
#[derive(Debug, Clone, Default)]
pub(crate) struct Titles {
    differing: BTreeSet<String>,
    several_runs: bool,
}

impl Titles {
    pub(crate) fn of<'a>(cells: impl IntoIterator<Item = &'a str>, several_runs: bool) -> Self {
        let cells: BTreeSet<&str> = cells.into_iter().collect();
        let mut values: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
        for (axis, value) in cells.iter().flat_map(|cell| factors(cell)) {
            *values.entry(axis).or_default().entry(value).or_default() += 1;
        }
        let differs = |(_, values): &(&str, BTreeMap<&str, usize>)| values.values().all(|count| *count < cells.len());
        let differing = values.into_iter().filter(differs).map(|(axis, _)| axis.to_owned()).collect();
        Self { differing, several_runs }
    }

    pub(crate) fn of_maps(maps: &[&Map]) -> Self {
        let runs: BTreeSet<&str> = maps.iter().map(|map| map.run.as_str()).collect();
        Self::of(maps.iter().map(|map| map.cell.as_str()), runs.len() > 1)
    }

    /// What tells a map's cell from the others; where there are no others, all that is known of it.
    pub(crate) fn own(&self, map: &Map) -> String {
        let mut own = self.words(map, true);
        own.extend(self.several_runs.then(|| map.run.clone()));
        own.extend((map.repetition > 1).then(|| format!("repetition {}", map.repetition)));
        if own.is_empty() {
            own = self.words(map, false);
        }
        own.extend((map.substrate == Substrate::SimulatedTime).then(|| map.substrate.word().to_owned()));
        if own.is_empty() {
            if map.cell.is_empty() { format!("cell {:04}", map.index) } else { map.cell.clone() }
        } else {
            own.join(" · ")
        }
    }

    /// What it shares with the others; empty where that is what it is called.
    pub(crate) fn shared(&self, map: &Map) -> String {
        let named = self.several_runs || map.repetition > 1 || !self.words(map, true).is_empty();
        if named { self.words(map, false).join(" · ") } else { String::new() }
    }

    fn words(&self, map: &Map, differing: bool) -> Vec<String> {
        let is_meant = |axis: &str| self.differing.contains(axis) == differing && (axis != "probe" || differing);
        let all = factors(&map.cell).into_iter().filter(|(axis, _)| is_meant(axis));
        all.map(|(axis, value)| value_word(axis, value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: what all pictures share before what tells them apart, a factor that only some cells have taken for shared.
    #[test]
    fn what_differs_comes_first() {
        let cells = [
            "cpu=1,load=build,policy=other,probe=pace,protocol=udp,rate=10000,size=32",
            "cpu=1,load=build,policy=fifo:1,probe=pace,protocol=udp,rate=10000,size=32",
        ];
        assert_eq!(
            factors(cells[0]).iter().map(|(axis, _)| *axis).collect::<Vec<_>>(),
            ["load", "policy", "probe", "protocol", "size", "rate", "cpu"]
        );
        assert_eq!(Titles::of(cells, false).differing, BTreeSet::from(["policy".to_owned()]));
        let mixed = [cells[0], "cpu=1,load=build,probe=pingpong,protocol=udp,size=32"];
        assert_eq!(Titles::of(mixed, false).differing, ["policy", "probe", "rate"].map(str::to_owned).into());
        assert!(Titles::of(cells.iter().take(1).copied(), false).differing.is_empty());
    }
}
