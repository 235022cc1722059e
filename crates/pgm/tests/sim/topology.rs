//! Who is there: several receivers and sources, late ones, restarted ones, and those behind a partition.

use crate::world::{MS, PORT, SECOND, TSI, US, World, address, group, receiver, source};
use pgm::receiver::Event;
use pgm::sim::{Link, Station};
use pgm::{ReceiverConfig, SourceConfig, Sqn, Tsi};

#[test]
fn a_clean_network_needs_no_repair() {
    let mut world = World::new(3);
    world.run(10 * MS);
    world.stream(0, 500, 25 * US);
    world.net.node_mut(world.source).close();
    world.run(SECOND);
    for node in world.receivers.clone() {
        assert_eq!(world.numbers(node), (0..500).collect::<Vec<_>>());
        assert_eq!(world.events(node), [Event::Source { tsi: TSI }, Event::Finished { tsi: TSI }]);
    }
    let counts = world.net.node(world.source).source_counts();
    assert_eq!((counts.naks, counts.rdata), (0, 0));
}

#[test]
fn a_number_that_wraps_changes_nothing() {
    let link = Link { lost: 0.05, doubled: 0.02, reordered: 0.1, reorder_ns: 100 * US, ..Link::default() };
    let config = SourceConfig { first: Sqn(u32::MAX - 100), ..source() };
    let mut world = World::with(config, receiver(), 2, link, 77);
    world.run(50 * MS);
    world.stream(0, 300, 50 * US);
    world.run(5 * SECOND);
    for node in world.receivers.clone() {
        assert_eq!(world.numbers(node), (0..300).collect::<Vec<_>>());
    }
}
