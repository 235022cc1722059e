//! One source and three receivers on a simulated network: what one of them loses, and how it gets it back.
//!
//! `cargo run -p windhover-pgm --example simulated`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use pgm::packet::Packet;
use pgm::sim::{Link, Network, Station};
use pgm::{ReceiverConfig, SourceConfig, Tsi};
use std::error::Error;
use std::net::IpAddr;

const MS: u64 = 1_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let group: IpAddr = "239.192.0.1".parse()?;
    let source_address: IpAddr = "192.0.2.1".parse()?;
    let mut network = Network::new(2026);

    let config = SourceConfig::new(Tsi::default(), 7500, group, source_address);
    let source = network.add(source_address, Link::default(), Station::source(config)?);
    let mut receivers = Vec::new();
    for seed in 0..3_u8 {
        let address: IpAddr = format!("192.0.2.{}", seed + 2).parse()?;
        let config = ReceiverConfig::new(7500, group, u64::from(seed));
        // The third one hangs on a bad cable: it loses one packet of ten.
        let link = if seed == 2 { Link { lost: 0.1, ..Link::default() } } else { Link::default() };
        let receiver = network.add(address, link, Station::receiver(config)?);
        network.join(receiver, group);
        receivers.push(receiver);
    }

    // The source announces itself; then a message each 100 µs.
    network.run_until(10 * MS)?;
    network.record(true);
    for number in 0..60_u32 {
        network.node_mut(source).publish(format!("message {number}").as_bytes())?;
        network.run_for(MS / 10)?;
    }
    network.run_for(100 * MS)?;

    println!("What was sent, but for the data themselves and SPMs:");
    for sent in network.sent() {
        let Ok(packet) = Packet::parse(&sent.bytes) else { continue };
        if let ("NAK" | "NCF" | "RDATA", Some(sqn)) = (packet.body.name(), packet.sqn()) {
            println!(
                "{:>9.3} ms  node {} sends {:5} {sqn} to {}",
                sent.at_ns as f64 / 1e6,
                sent.from,
                packet.body.name(),
                sent.to
            );
        }
    }
    println!("\nWhat was received:");
    for receiver in receivers {
        let station = network.node(receiver);
        let counts = station.counts();
        println!(
            "node {receiver}: {} messages in order, {} missing at first, {} repaired, {} lost",
            counts.messages, counts.missing, counts.recovered, counts.lost
        );
        for one in station.delivered() {
            if let Some(repair) = one.message.repair {
                let since = |at: Option<u64>| at.map_or(0, |at| (at - repair.gap_ns) / 1000);
                println!(
                    "    {:10} NAK after {} µs, NCF after {} µs, data after {} µs",
                    String::from_utf8_lossy(&one.bytes),
                    since(repair.nak_ns),
                    since(repair.ncf_ns),
                    since(Some(repair.data_ns))
                );
            }
        }
    }
    Ok(())
}
