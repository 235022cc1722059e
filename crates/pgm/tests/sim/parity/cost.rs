//! What parity costs and spares, in virtual time: the table of `docs/pgm-parity.md`.
//!
//! `UPDATE_GOLDEN=1 cargo test -p windhover-pgm --test sim parity::cost` writes it again.

use crate::world::{MS, PORT, TSI, US, World, address, group, quantile};
use pgm::fec::Config;
use pgm::sim::{Keep, Link};
use pgm::{ReceiverConfig, SourceConfig};
use std::fmt::Write as _;
use std::path::Path;

const MESSAGES: u32 = 1000;
const EVERY_NS: u64 = 50_000;
const BYTES: usize = 1000;
const RECEIVERS: usize = 8;
const BEGIN: &str = "<!-- parity -->\n";
const END: &str = "<!-- /parity -->\n";

fn row(text: &mut String, lost: f64, what: &str, fec: Option<Config>) {
    let from = SourceConfig { fec, ..SourceConfig::new(TSI, PORT, group(), address(1)) };
    let to = ReceiverConfig {
        parity: fec.is_some(),
        window_packets: 1024,
        max_sources: 1,
        ..ReceiverConfig::new(PORT, group(), 1)
    };
    let mut world = World::with(from, to, RECEIVERS, Link { lost, ..Link::default() }, 1);
    world.net.record(false);
    world.run(200 * MS);
    for node in world.receivers.clone() {
        world.net.node_mut(node).keep = Keep::Facts;
    }
    let mut begun = Vec::new();
    for number in 0..MESSAGES {
        let mut message = [0; BYTES];
        message[..4].copy_from_slice(&number.to_be_bytes());
        begun.push(world.net.now_ns());
        world.publish(&message);
        world.run(EVERY_NS);
    }
    world.net.node_mut(world.source).close();
    world.run(1000 * MS);
    let (mut naks, mut delays) = (0, Vec::new());
    for node in &world.receivers {
        let station = world.net.node(*node);
        assert_eq!((station.delivered().len(), station.counts().lost), (begun.len(), 0));
        naks += station.counts().naks;
        delays.extend(station.delivered().iter().zip(&begun).map(|(one, begun)| one.at_ns - begun));
    }
    delays.sort_unstable();
    let sent = world.net.node(world.source).source_counts();
    let share = |packets: u64| packets as f64 * 100.0 / f64::from(MESSAGES);
    let us = |share| quantile(&delays, share).map_or(0, |ns| (ns + US / 2) / US);
    let _ = writeln!(
        text,
        "| {} % | {what} | {naks} | {:.1} % | {:.1} % | {} | {} | {} |",
        lost * 100.0,
        share(sent.rdata + sent.parity_rdata),
        share(sent.parity_odata),
        us(0.5),
        us(0.99),
        us(0.999),
    );
}

fn table() -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "| loss | repairs | NAK packets | repairs sent | sent unasked | delay p50, µs | p99 | p99.9 |\n|---|---|---|---|---|---|---|---|"
    );
    let of = |group_packets, proactive_packets| Config { group_packets, proactive_packets, ..Config::default() };
    for lost in [0.01, 0.05] {
        row(&mut text, lost, "single packets", None);
        row(&mut text, lost, "parity, groups of 8", Some(of(8, 0)));
        row(&mut text, lost, "parity, groups of 32", Some(of(32, 0)));
        row(&mut text, lost, "the same, 1 unasked", Some(of(32, 1)));
        row(&mut text, lost, "the same, 4 unasked", Some(of(32, 4)));
    }
    text
}

#[test]
fn the_table_of_parity() {
    let table = table();
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pgm-parity.md");
    let text = std::fs::read_to_string(&document).unwrap();
    let (begin, end) = (text.find(BEGIN).unwrap() + BEGIN.len(), text.find(END).unwrap());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&document, format!("{}{table}{}", &text[..begin], &text[end..])).unwrap();
        return;
    }
    let how = "UPDATE_GOLDEN=1 cargo test -p windhover-pgm --test sim parity::cost writes it again";
    assert_eq!(&text[begin..end], table, "{} shows another table; {how}", document.display());
}
