//! The golden table: what loss and window cost, in virtual time, the same on every machine.
//!
//! It is kept in `golden.md`, which the documentation of [`pgm::sim`] shows, and in `docs/pgm.md`. A change of the engines
//! that moves it has to say so: `UPDATE_GOLDEN=1 cargo test -p windhover-pgm --test sim golden` writes both again.

use crate::world::{MS, PORT, TSI, US, World, address, group, quantile};
use pgm::sim::{Keep, Link};
use pgm::{ReceiverConfig, SourceConfig};
use std::fmt::Write as _;
use std::path::Path;

/// Messages of a cell.
const MESSAGES: u32 = 4000;
/// A message of 1000 bytes each 12.5 µs: 640 Mbit/s on a link of 1 Gbit/s.
const EVERY_NS: u64 = 12_500;
const BYTES: usize = 1000;
const BEGIN: &str = "<!-- golden -->\n";
const END: &str = "<!-- /golden -->\n";

struct Cell {
    delivered: u64,
    lost: u64,
    naks: u64,
    seconds: f64,
    repairs_ns: Vec<u64>,
    delays_ns: Vec<u64>,
}

/// One source, two receivers; what is lost is lost on each receiver's link for itself, in both directions.
fn cell(lost: f64, window_packets: u32) -> Cell {
    let from = SourceConfig { window_packets, ..SourceConfig::new(TSI, PORT, group(), address(1)) };
    let to = ReceiverConfig { window_packets, max_sources: 1, ..ReceiverConfig::new(PORT, group(), 1) };
    let mut world = World::with(from, to, 2, Link { lost, ..Link::default() }, 1);
    world.net.record(false);
    world.run(50 * MS);
    for node in world.receivers.clone() {
        world.net.node_mut(node).keep = Keep::Facts;
    }
    let begin = world.net.now_ns();
    let mut message = [0; BYTES];
    for number in 0..MESSAGES {
        message[..4].copy_from_slice(&number.to_be_bytes());
        world.publish(&message);
        world.run(EVERY_NS);
    }
    world.net.node_mut(world.source).close();
    world.run(2000 * MS);
    let mut all = Cell { delivered: 0, lost: 0, naks: 0, seconds: 0.0, repairs_ns: Vec::new(), delays_ns: Vec::new() };
    let mut last = begin;
    for node in &world.receivers {
        let station = world.net.node(*node);
        all.lost += station.counts().lost;
        all.naks += station.counts().naks;
        all.delivered += station.delivered().len() as u64;
        for one in station.delivered() {
            last = last.max(one.at_ns);
            all.delays_ns.push(one.at_ns - (begin + u64::from(one.message.first.0) * EVERY_NS));
            all.repairs_ns.extend(one.message.repair.map(|repair| repair.data_ns - repair.gap_ns));
        }
    }
    all.seconds = (last - begin) as f64 / 1e9;
    all.repairs_ns.sort_unstable();
    all.delays_ns.sort_unstable();
    all
}

fn us(sorted: &[u64], share: f64) -> String {
    quantile(sorted, share).map_or_else(|| "-".to_owned(), |ns| format!("{}", (ns + US / 2) / US))
}

fn table() -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "| loss | window, packets | delivered, MB/s | lost for good | NAK packets | repairs | repair p50 / p99, µs | delay p50 / p99, µs |"
    );
    let _ = writeln!(text, "|---|---|---|---|---|---|---|---|");
    for lost in [0.0, 0.001, 0.01, 0.05, 0.1, 0.3] {
        for window in [64, 1024, 8192] {
            let cell = cell(lost, window);
            let sent = u64::from(MESSAGES) * 2;
            let rate = cell.delivered as f64 / 2.0 * BYTES as f64 / 1e6 / cell.seconds;
            assert!(cell.delivered + cell.lost <= sent && cell.delivered > 0);
            let _ = writeln!(
                text,
                "| {} % | {window} | {rate:.1} | {:.3} % | {} | {} | {} / {} | {} / {} |",
                lost * 100.0,
                (sent - cell.delivered) as f64 * 100.0 / sent as f64,
                cell.naks,
                cell.repairs_ns.len(),
                us(&cell.repairs_ns, 0.5),
                us(&cell.repairs_ns, 0.99),
                us(&cell.delays_ns, 0.5),
                us(&cell.delays_ns, 0.99),
            );
        }
    }
    text
}

/// The part of a document between the marks.
fn shown(document: &str) -> Option<&str> {
    let begin = document.find(BEGIN)? + BEGIN.len();
    let end = document.find(END)?;
    document.get(begin..end)
}

#[test]
fn the_golden_table() {
    let table = table();
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let snapshot = crate_folder.join("src/sim/golden.md");
    let document = crate_folder.join("../../docs/pgm.md");
    let text = std::fs::read_to_string(&document).unwrap();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&snapshot, &table).unwrap();
        let (begin, end) = (text.find(BEGIN).unwrap() + BEGIN.len(), text.find(END).unwrap());
        std::fs::write(&document, format!("{}{table}{}", &text[..begin], &text[end..])).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(&snapshot).unwrap();
    let how = "UPDATE_GOLDEN=1 cargo test -p windhover-pgm --test sim golden writes it again";
    assert_eq!(table, kept, "the engines behave otherwise than {}; {how}", snapshot.display());
    assert_eq!(shown(&text), Some(table.as_str()), "{} shows another table; {how}", document.display());
}
