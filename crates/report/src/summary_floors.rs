//! Figures beside the least that the machine allows: how much of a round trip is the wake-up, the kernel's path and a stack.

use crate::document::CellInfo;
use crate::names::is_baseline;
use crate::summary::is_trusted;
use crate::units::{list, span};

/// None to three sentences: the floors that were measured, and for each protocol what is above a bare frame.
pub(crate) fn sentences(cells: &[CellInfo], size_bytes: u64) -> Vec<String> {
    let fit = |info: &&CellInfo| {
        let is_idle = info.factors.get("load").is_none_or(|load| is_baseline("load", load));
        info.probe == "pingpong" && info.size_bytes == size_bytes && is_idle && is_trusted(info)
    };
    let cells: Vec<&CellInfo> = cells.iter().filter(fit).collect();
    if cells.windows(2).any(|two| two[0].substrate != two[1].substrate) {
        return Vec::new();
    }
    let [shm, frame] = ["shm", "frame"].map(|protocol| least(&cells, protocol, None));
    let floors = [shm.map(|ns| format!("{} by shared memory between two CPUs (shm)", span(ns)))]
        .into_iter()
        .chain([frame.map(|ns| format!("{} as a bare frame (frame)", span(ns)))]);
    let floors: Vec<String> = floors.flatten().collect();
    if floors.is_empty() {
        return Vec::new();
    }
    let least_of_all = format!("The least p50 that was seen without a stack at {size_bytes} B: {}.", list(&floors));
    let above = frame.into_iter().flat_map(|frame| ["udp", "tcp"].map(|protocol| above(&cells, protocol, frame)));
    std::iter::once(least_of_all).chain(above.flatten()).collect()
}

/// The smallest p50 of a protocol, of the cells behind a stack where one is given, ns.
fn least(cells: &[&CellInfo], protocol: &str, stack: Option<&str>) -> Option<f64> {
    let of_stack = |info: &&&CellInfo| {
        let own = info.factors.get("stack").map_or("kernel", String::as_str);
        info.protocol == protocol && stack.is_none_or(|stack| stack == own)
    };
    cells.iter().filter(of_stack).filter_map(|info| info.value("p50")).min_by(f64::total_cmp)
}

/// What a protocol takes above a bare frame.
fn above(cells: &[&CellInfo], protocol: &str, frame: f64) -> Option<String> {
    let [kernel, spin, xdp] = ["kernel", "spin", "xdp"].map(|stack| least(cells, protocol, Some(stack)));
    let path = spin.filter(|spin| *spin > frame);
    let wake_up = kernel.zip(spin).filter(|(kernel, spin)| kernel > spin);
    let stack = xdp.filter(|xdp| *xdp > frame);
    let parts = [
        path.map(|spin| format!("the kernel's path takes {} above the frame", span(spin - frame))),
        wake_up.map(|(kernel, spin)| format!("the wake-up takes {} more (spin leaves it out)", span(kernel - spin))),
        stack.map(|xdp| format!("the stack of xdp takes {} above the frame", span(xdp - frame))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("{}: {}.", protocol.to_uppercase(), list(&parts)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Figure, Figures, Mark};
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
            probe: "pingpong".to_owned(),
            protocol: protocol.to_owned(),
            size_bytes: 32,
            kind: LatencyKind::RttHalf,
            repetitions: 1,
            left_out: 0,
            figures: Figures([("p50", Figure { value: p50, range: None })].into_iter().collect()),
            reflectors: Vec::new(),
            words: std::collections::BTreeMap::new(),
            mark: Mark::Clean,
            findings: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Catches: a part that is computed from the wrong two figures, a floor that is not the least, loaded or untrusted cells.
    #[test]
    fn a_round_trip_is_divided_by_its_floors() {
        let mut cells = vec![
            cell("shm", None, 110.0),
            cell("frame", None, 1500.0),
            cell("frame", None, 1100.0),
            cell("udp", Some("kernel"), 22_100.0),
            cell("udp", Some("spin"), 2_100.0),
            cell("udp", Some("xdp"), 1_400.0),
        ];
        let all = sentences(&cells, 32);
        assert_eq!(
            all,
            [
                "The least p50 that was seen without a stack at 32 B: 110 ns by shared memory between two CPUs (shm) and 1.10 µs as a \
                 bare frame (frame).",
                "UDP: the kernel's path takes 1.00 µs above the frame, the wake-up takes 20.0 µs more (spin leaves it out) and the \
                 stack of xdp takes 300 ns above the frame.",
            ]
        );
        assert!(sentences(&cells, 64).is_empty(), "another size");
        cells[2].factors.insert("load".to_owned(), "build".to_owned());
        assert!(sentences(&cells, 32)[0].contains("1.50 µs as a bare frame"));
        cells[1].mark = Mark::Invalid;
        assert_eq!(sentences(&cells, 32).len(), 1, "without a frame nothing is divided");
        cells[0].substrate = Substrate::Metal;
        assert!(sentences(&cells, 32).is_empty(), "two kinds of hosts");
    }
}
