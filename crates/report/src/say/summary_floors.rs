//! Figures beside the least that the machine allows: what sockets, alone and behind a stack, take above a bare frame.

use crate::units::{list, span};
use digest::names::{is_baseline, label_word};
use digest::{CellInfo, is_trusted};
use model::Probe;
use std::collections::BTreeSet;

/// None to three sentences: the measured floors, and what each protocol adds to a bare frame: untested differences of two p50s.
pub(crate) fn sentences(cells: &[CellInfo], size_bytes: u64) -> Vec<String> {
    let fit = |info: &&CellInfo| {
        let is_idle = info.factors.get("load").is_none_or(|load| is_baseline("load", load));
        info.probe == Probe::Pingpong && info.size_bytes == size_bytes && is_idle && is_trusted(info)
    };
    let cells: Vec<&CellInfo> = cells.iter().filter(fit).collect();
    let are_alike = |two: &[&CellInfo]| two[0].substrate == two[1].substrate && two[0].kind == two[1].kind;
    let Some(kind) = cells.first().map(|info| info.kind).filter(|_| cells.windows(2).all(are_alike)) else {
        return Vec::new();
    };
    let floors = [("shm", "by shared memory between two CPUs (shm)"), ("frame", "as a bare frame (frame)")];
    let floors = floors.into_iter().filter_map(|(protocol, what)| {
        let least = least(cells.iter().filter(|info| info.protocol == protocol))?;
        Some(format!("{} {what}", span(least)))
    });
    let floors: Vec<String> = floors.collect();
    if floors.is_empty() {
        return Vec::new();
    }
    let kind = kind.title();
    let least_of_all =
        format!("The least p50 of {kind} that was seen without a stack at {size_bytes} B: {}.", list(&floors));
    let above = ["udp", "tcp"].map(|protocol| above(&cells, protocol));
    std::iter::once(least_of_all).chain(above.into_iter().flatten()).collect()
}

/// The smallest p50, ns.
fn least<'a>(cells: impl Iterator<Item = &'a &'a CellInfo>) -> Option<f64> {
    cells.filter_map(|info| info.value("p50")).min_by(f64::total_cmp)
}

/// Whether two cells differ in nothing but how their messages are carried: a factor that only one of them has says nothing.
fn are_like(one: &CellInfo, other: &CellInfo) -> bool {
    let carry = ["stack", "receive"];
    let mut shared = one.factors.iter().filter(|(name, _)| !carry.contains(&name.as_str()));
    one.run == other.run && shared.all(|(name, value)| other.factors.get(name).is_none_or(|its| its == value))
}

/// What the blocking sockets of a protocol add to a bare frame, alone and behind a stack, in the first row with such a frame.
fn above(cells: &[&CellInfo], protocol: &str) -> Option<String> {
    let blocks = |info: &CellInfo| info.factors.get("receive").is_none_or(|receive| receive == "block");
    let mut own: Vec<&CellInfo> =
        cells.iter().copied().filter(|info| info.protocol == protocol && blocks(info)).collect();
    own.sort_by_key(|info| info.row);
    let frames =
        |first: &CellInfo| least(cells.iter().filter(|info| info.protocol == "frame" && are_like(info, first)));
    let (first, frame) = own.iter().find_map(|first| Some((*first, frames(first)?)))?;
    let (group, others): (Vec<&CellInfo>, Vec<&CellInfo>) = own.into_iter().partition(|info| are_like(info, first));
    let parts = [("kernel", "for sockets of the kernel that block"), ("spin", "behind spin"), ("xdp", "behind xdp")];
    let parts = parts.into_iter().filter_map(|(stack, what)| {
        let is_of = |info: &&&CellInfo| info.factors.get("stack").map_or("kernel", String::as_str) == stack;
        let above = least(group.iter().filter(is_of))? - frame;
        let sign = if above < 0.0 { "−" } else { "" };
        Some(format!("{sign}{} {what}", span(above.abs())))
    });
    let parts: Vec<String> = parts.collect();
    // What tells this group from those that are not shown.
    let tells = |(name, value): &(&String, &String)| others.iter().any(|info| info.factors.get(*name) != Some(*value));
    let varied = first.factors.iter().filter(|(name, _)| name.as_str() != "stack").filter(tells);
    let varied: BTreeSet<String> = varied.map(|(name, value)| label_word(name, value)).collect();
    let varied = varied.into_iter().collect::<Vec<_>>().join(", ");
    let of = if varied.is_empty() { String::new() } else { format!(" ({varied})") };
    let (protocol, kind) = (protocol.to_uppercase(), first.kind.title());
    (!parts.is_empty()).then(|| format!("{protocol}{of}, p50 of {kind} minus a bare frame's: {}.", list(&parts)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use digest::{Figure, Figures, Mark};
    use model::{LatencyKind, Substrate};

    fn cell(protocol: &str, stack: Option<&str>, p50: f64) -> CellInfo {
        let factors = stack.map(|stack| ("stack".to_owned(), stack.to_owned()));
        CellInfo {
            run: String::new(),
            row: 0,
            colour: 0,
            label: String::new(),
            substrate: Substrate::Netns,
            factors: factors.into_iter().collect(),
            probe: Probe::Pingpong,
            protocol: protocol.to_owned(),
            size_bytes: 32,
            kind: LatencyKind::RttHalf,
            repetitions: 1,
            left_out: 0,
            figures: Figures([("p50", Figure { value: p50, range: None })].into_iter().collect()),
            reflectors: Vec::new(),
            words: std::collections::BTreeMap::new(),
            explanation: None,
            mark: Mark::Clean,
            findings: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn with(mut cell: CellInfo, factors: &[(&str, &str)]) -> CellInfo {
        cell.factors.extend(factors.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        cell
    }

    /// Catches: a part that is computed from the wrong two figures, a floor that is not the least, loaded or untrusted cells.
    #[test]
    fn what_is_above_a_bare_frame() {
        let mut cells = vec![
            cell("shm", None, 110.0),
            cell("frame", None, 1500.0),
            cell("frame", None, 1100.0),
            cell("udp", Some("kernel"), 22_100.0),
            cell("udp", Some("spin"), 2_100.0),
            cell("udp", Some("xdp"), 1_400.0),
        ];
        assert_eq!(
            sentences(&cells, 32),
            [
                "The least p50 of RTT/2 that was seen without a stack at 32 B: 110 ns by shared memory between two CPUs (shm) and \
                 1.10 µs as a bare frame (frame).",
                "UDP, p50 of RTT/2 minus a bare frame's: 21.0 µs for sockets of the kernel that block, 1.00 µs behind spin and 300 ns \
                 behind xdp.",
            ]
        );
        assert!(sentences(&cells, 64).is_empty(), "another size");
        cells[2].factors.insert("load".to_owned(), "build".to_owned());
        let said = sentences(&cells, 32);
        assert!(said[0].contains("1.50 µs as a bare frame"), "{said:?}");
        assert!(said[1].ends_with("600 ns behind spin and −100 ns behind xdp."), "{said:?}");
        cells[1].mark = Mark::Invalid;
        assert_eq!(sentences(&cells, 32).len(), 1, "without a frame nothing is subtracted");
        cells.iter_mut().for_each(|cell| cell.kind = LatencyKind::Rtt);
        assert!(sentences(&cells, 32)[0].starts_with("The least p50 of RTT that"));
        cells[3].kind = LatencyKind::RttHalf;
        assert!(sentences(&cells, 32).is_empty(), "RTT and RTT/2");
        cells[3].kind = LatencyKind::Rtt;
        cells[0].substrate = Substrate::Metal;
        assert!(sentences(&cells, 32).is_empty(), "two kinds of hosts");
    }

    /// Catches: a figure of one policy, run or receive mode that is subtracted from one of another.
    #[test]
    fn only_like_is_subtracted_from_like() {
        let frame = || {
            with(cell("frame", None, 1100.0), &[("receive", "spin"), ("policy", "fifo:1"), ("frame_backend", "any")])
        };
        let udp = |stack, p50, policy, receive| {
            let row = if policy == "other" { 1 } else { 2 };
            CellInfo { row, ..with(cell("udp", Some(stack), p50), &[("policy", policy), ("receive", receive)]) }
        };
        let mut cells = vec![
            frame(),
            udp("kernel", 3_100.0, "fifo:1", "spin"),
            udp("kernel", 22_100.0, "fifo:1", "block"),
            udp("spin", 2_100.0, "fifo:1", "block"),
            udp("xdp", 900.0, "other", "block"),
            udp("kernel", 9_100.0, "other", "block"),
        ];
        let said = sentences(&cells, 32);
        let expected = "UDP (fifo:1), p50 of RTT/2 minus a bare frame's: 21.0 µs for sockets of the kernel that block and 1.00 µs \
                        behind spin.";
        assert_eq!(said[1..], [expected]);
        cells.iter_mut().skip(1).for_each(|cell| cell.run = "another".to_owned());
        assert_eq!(sentences(&cells, 32).len(), 1, "a frame of another run");
    }
}
