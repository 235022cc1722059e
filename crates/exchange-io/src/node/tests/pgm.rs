use super::*;
use crate::pgm::{PgmReceiver, pgm_receivers};

fn pgm_pair(name: &str, more: &str) -> Pair {
    let group = format!("{more}\ntransport = \"pgm\"\ngroup = \"239.255.26.2:{}\"", free_port());
    pair(&format!("pgm-{name}"), &group, "")
}

#[test]
fn what_is_published_arrives_over_pgm() {
    let pair = pgm_pair("run", "");
    let b = pair.start(&pair.b);
    let reader = pair.image(&pair.b);
    let mut sent = 0;
    for _ in 0..2 {
        let a = pair.start(&pair.a);
        until_written(&reader, reader.written() + 200);
        let published = a.finish().unwrap().published.remove(0);
        assert_eq!((published.transport, published.targets, published.lost), (Transport::Pgm, 1, 0));
        sent += published.sent;
    }
    until_written(&reader, sent);
    let mut data = [0; 24];
    assert!(reader.latest(&mut data).unwrap().is_some() && data[..8] == data[8..16] && data[0] > 0, "{data:?}");
    let report = b.finish().unwrap();
    let counters = report.subscribed[0].counters;
    assert_eq!((counters.fresh, counters.received, counters.restarts), (sent, sent + 2, 1));
    assert_eq!((counters.missing, counters.duplicates, counters.reordered), (0, 0, 0));
    let address = &report.addresses[0];
    assert_eq!((address.transport, address.rejects), (Transport::Pgm, Rejects::default()));
    assert!(address.repaired.is_some() && address.connections.is_none());
}

#[test]
fn a_session_of_another_node_is_counted() {
    let pair = pgm_pair("other", "");
    let b = pair.start(&pair.b);
    let mut other = pair.file.clone();
    other.nodes[0].id = 9;
    let name = format!("{}-other", pair.a);
    other.nodes[0].name.clone_from(&name);
    let start = |file: &ExchangeFile, name: &str| Node::start(file, file.node(name).unwrap()).unwrap();
    let stranger = start(&other, &name);
    until_written(&ImageReader::open(&image_path(&name, "axis", false), None).unwrap(), 50);
    stranger.finish().unwrap();
    let a = start(&pair.file, &pair.a);
    until_written(&pair.image(&pair.b), 20);
    a.finish().unwrap();
    let report = b.finish().unwrap();
    assert!(report.addresses[0].rejects.other_sender >= 50, "{report:?}");
    assert_eq!((report.subscribed[0].counters.restarts, report.subscribed[0].counters.other_publisher), (0, 0));
}

#[test]
fn cycles_over_pgm_allocate_nothing() {
    let pair = pgm_pair("allocations", "");
    let node = |name: &str| pair.file.node(name).unwrap();
    let mut receiver = pgm_receivers(&pair.file, node(&pair.b)).unwrap().remove(0).1;
    let (a, topic) = (node(&pair.a), &pair.file.topics[0]);
    let mut publisher = publisher(&pair.file, a, &a.publish[0], topic).unwrap();
    let mut fresh = 0;
    let mut cycle = |receiver: &mut PgmReceiver, number: u64| {
        publisher.cycle(number, clock::monotonic_ns()).unwrap();
        publisher.sender.serve(clock::monotonic_ns() + 200_000).unwrap();
        fresh += 1;
        while receiver.subscriptions[0].monitor.counters.fresh < fresh {
            receiver.turn(false).unwrap();
        }
    };
    // The first packet of a source makes it known.
    cycle(&mut receiver, 0);
    let info = allocation_counter::measure(|| (1..1000).for_each(|number| cycle(&mut receiver, number)));
    assert_eq!(info.count_total, 0);
}

/// What the subscriber's socket has no room for is lost, as on a network. The newest 1024 packets can be repaired.
#[test]
fn what_was_lost_is_repaired_or_missing() {
    let pair = pgm_pair("lost", "stale_us = 10000000");
    let node = |name: &str| pair.file.node(name).unwrap();
    let mut receiver = pgm_receivers(&pair.file, node(&pair.b)).unwrap().remove(0).1;
    let (a, topic) = (node(&pair.a), &pair.file.topics[0]);
    let mut publisher = publisher(&pair.file, a, &a.publish[0], topic).unwrap();
    for number in 0..20_000 {
        publisher.cycle(number, clock::monotonic_ns()).unwrap();
    }
    let begun = Instant::now();
    for number in 20_000.. {
        publisher.cycle(number, clock::monotonic_ns()).unwrap();
        publisher.sender.serve(clock::monotonic_ns() + 1_000_000).unwrap();
        while receiver.turn(true).unwrap() > 0 {}
        let counters = receiver.subscriptions[0].monitor.counters;
        if counters.fresh + counters.missing == number + 1 {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{counters:?}");
    }
    let received = receiver.finish();
    let counters = received.subscribed[0].counters;
    assert!(received.rejects.overflowed > 0 && received.repaired > Some(0), "{received:?}");
    assert_eq!((counters.received, counters.duplicates, counters.reordered), (counters.fresh, 0, 0));
}
