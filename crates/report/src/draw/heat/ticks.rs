//! What a protocol did about losses, as lanes of ticks above a map: one for each kind, because there may be thousands of
//! each, and they follow each other.

use super::Map;
use model::Event;

/// Kinds of events that have a lane, in the order in which they follow each other, with their names.
const KINDS: [(&str, &str); 4] = [("nak", "NAK"), ("ncf", "NCF"), ("repair", "repair"), ("lost", "given up")];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ticks {
    pub(crate) kind: &'static str,
    pub(crate) name: &'static str,
    pub(crate) count: u64,
    /// Place and count, ascending, no zeros.
    pub(crate) places: Vec<(u64, u64)>,
}

/// Whether an event is a tick in a lane rather than a mark of its own.
pub(crate) fn is_tick(event: &Event) -> bool {
    KINDS.iter().any(|(kind, _)| event.kind == *kind)
}

/// The lanes of a map, its time cut into pieces of `step_ns`; kinds that did not happen have none. The map of one of
/// several reflectors has what concerns it and what concerns all.
pub(crate) fn ticks(map: &Map, step_ns: u64) -> Vec<Ticks> {
    let of = map.tag.split_once('@').map(|(_, host)| host);
    let mine = |event: &&Event| of.is_none() || event.host.is_none() || event.host.as_deref() == of;
    let lane = |(kind, name): &(&'static str, &'static str)| {
        let mut places: Vec<(u64, u64)> = Vec::new();
        let mut times: Vec<u64> = map
            .events
            .iter()
            .filter(|event| event.kind == *kind)
            .filter(mine)
            .filter_map(|event| event.at_ns)
            .filter(|at_ns| *at_ns <= map.whole.length_ns())
            .collect();
        times.sort_unstable();
        for place in times.iter().map(|at_ns| at_ns / step_ns.max(1)) {
            match places.last_mut() {
                Some((last, count)) if *last == place => *count += 1,
                _ => places.push((place, 1)),
            }
        }
        Ticks { kind, name, count: times.len() as u64, places }
    };
    KINDS.iter().map(lane).filter(|lane| lane.count > 0).collect()
}
