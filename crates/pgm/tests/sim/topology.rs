//! Who is there: several receivers and sources, late ones, restarted ones, and those behind a partition.

use crate::world::{MS, PORT, SECOND, TSI, US, World, address, group, ours, receiver, source};
use pgm::receiver::{Event, SessionEvent};
use pgm::sim::{Link, Network, Station};
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
        assert_eq!(world.events(node), [ours(SessionEvent::Found), ours(SessionEvent::Finished)]);
    }
    let counts = world.net.node(world.source).source_counts();
    assert_eq!((counts.naks, counts.rdata), (0, 0));
}

/// 3.2: the number space is a circle.
#[test]
fn s3_2_a_number_that_wraps_changes_nothing() {
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

/// A partition shorter than the window and the timers: when it heals, everything is repaired.
#[test]
fn a_partition_that_heals_in_time_loses_nothing() {
    let mut world = World::new(3);
    world.run(10 * MS);
    world.stream(0, 100, 100 * US);
    let far = world.receivers[2];
    world.net.put_on_side(far, 1);
    world.stream(100, 500, 100 * US);
    assert_eq!(world.numbers(far).len(), 100);
    world.net.heal();
    world.stream(600, 100, 100 * US);
    world.run(SECOND);
    for node in world.receivers.clone() {
        assert_eq!(world.numbers(node), (0..700).collect::<Vec<_>>());
    }
    let counts = world.net.node(far).counts();
    assert_eq!((counts.missing, counts.recovered, counts.lost), (500, 500, 0));
    // 500 numbers: with lists far fewer packets, and only where they are needed.
    assert!(counts.naks < 30, "{}", counts.naks);
    assert_eq!(world.net.node(world.receivers[0]).counts().naks, 0);
}

/// A partition longer than the window: what left it is lost, reported as one loss, and the rest goes on.
#[test]
fn a_partition_longer_than_the_window_loses_what_left_it() {
    let config = SourceConfig { window_packets: 256, ..source() };
    let mut world = World::with(config, receiver(), 2, Link::default(), 1);
    world.run(10 * MS);
    world.stream(0, 100, 100 * US);
    let far = world.receivers[1];
    world.net.put_on_side(far, 1);
    world.stream(100, 2000, 100 * US);
    world.net.heal();
    world.stream(2100, 100, 100 * US);
    world.run(SECOND);
    assert_eq!(world.numbers(world.receivers[0]), (0..2200).collect::<Vec<_>>());
    let numbers = world.numbers(far);
    let lost: Vec<(u32, u32)> = world
        .events(far)
        .iter()
        .filter_map(
            |event| if let SessionEvent::Lost { first, count } = event.what { Some((first.0, count)) } else { None },
        )
        .collect();
    let missing: u32 = lost.iter().map(|(_, count)| count).sum();
    assert_eq!(lost[0].0, 100);
    assert_eq!(u32::try_from(numbers.len()).unwrap() + missing, 2200, "{lost:?}");
    assert!(numbers.ends_with(&(2100..2200).collect::<Vec<_>>()));
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
}

/// A partition that no timer survives: the receiver gives up, forgets the source, and hears it anew afterwards.
#[test]
fn a_peer_that_is_silent_expires() {
    let mut world =
        World::with(source(), ReceiverConfig { expiry_ns: 2 * SECOND, ..receiver() }, 1, Link::default(), 1);
    world.run(10 * MS);
    world.stream(0, 10, MS);
    world.net.put_on_side(world.first(), 1);
    world.stream(10, 10, MS);
    world.run(5 * SECOND);
    assert_eq!(world.events(world.first()), [ours(SessionEvent::Found), ours(SessionEvent::Expired)]);
    world.net.heal();
    // Heartbeats come at most a second apart.
    world.run(2 * SECOND);
    world.stream(20, 10, MS);
    world.run(SECOND);
    assert_eq!(world.events(world.first())[2..], [ours(SessionEvent::Found)]);
    assert_eq!(world.numbers(world.first()), (0..10).chain(20..30).collect::<Vec<_>>());
}

/// 6.1: who comes late gets what is sent from then on.
#[test]
fn s6_1_a_late_joiner_gets_what_comes() {
    let mut world = World::new(1);
    world.run(10 * MS);
    world.stream(0, 500, 100 * US);
    let late = world.receiver(receiver(), Link::default());
    world.stream(500, 500, 100 * US);
    world.run(SECOND);
    assert_eq!(world.numbers(late), (500..1000).collect::<Vec<_>>());
    let counts = world.net.node(late).counts();
    assert_eq!((counts.naks, counts.missing), (0, 0));
}

/// 9.4: or what the source offers beside, whether it hears data first or an SPM.
#[test]
fn s9_4_a_late_joiner_gets_what_is_offered() {
    let mut world =
        World::with(SourceConfig { join_packets: Some(200), ..source() }, receiver(), 1, Link::default(), 1);
    world.run(10 * MS);
    world.stream(0, 500, 100 * US);
    let in_the_middle = world.receiver(receiver(), Link::default());
    let modest = world.receiver(ReceiverConfig { join: false, ..receiver() }, Link::default());
    world.stream(500, 500, 100 * US);
    world.run(2 * SECOND);
    let in_the_silence = world.receiver(receiver(), Link::default());
    world.run(2 * SECOND);
    assert_eq!(world.numbers(in_the_middle), (301..1000).collect::<Vec<_>>());
    assert_eq!(world.numbers(modest), (500..1000).collect::<Vec<_>>());
    assert_eq!(world.numbers(in_the_silence), (800..1000).collect::<Vec<_>>());
}

/// 3.1: a source that is started again is another one, by its identifier; both have windows of their own.
#[test]
fn s3_1_a_restarted_source_with_a_new_identifier() {
    let mut world =
        World::with(source(), ReceiverConfig { expiry_ns: 3 * SECOND, ..receiver() }, 1, Link::default(), 1);
    world.run(10 * MS);
    world.stream(0, 10, MS);
    world.net.stop(world.source);
    let again = Tsi { port: 1000, ..TSI };
    let now = world.net.now_ns();
    let config = SourceConfig { tsi: again, ..source() };
    let station = Station::new(now, Some(config), None).unwrap();
    world.source = world.net.add(address(1), Link::default(), station);
    world.run(10 * MS);
    world.stream(10, 10, MS);
    world.run(5 * SECOND);
    assert_eq!(world.numbers(world.first()), (0..20).collect::<Vec<_>>());
    let events = world.events(world.first());
    assert_eq!(
        events,
        [ours(SessionEvent::Found), Event { tsi: again, what: SessionEvent::Found }, ours(SessionEvent::Expired)]
    );
}

/// 3.1 forbids it, and it happens: the same identifier, numbers that begin again. It is another session, from its first
/// message on, whether its numbers lie far back or among those of the old one, which it may pass.
#[test]
fn s3_1_a_restarted_source_with_the_old_identifier() {
    for (before, window, every_ns) in
        [(200_u32, 1024, 10 * MS), (200, 1024, 100 * US), (1500, 256, MS), (10, 1024, MS), (3000, 256, 50 * US)]
    {
        let config = ReceiverConfig { window_packets: window, ..receiver() };
        let mut world = World::with(source(), config, 1, Link::default(), 1);
        world.run(10 * MS);
        world.stream(0, before, every_ns);
        world.run(100 * MS);
        world.net.stop(world.source);
        let station = Station::new(world.net.now_ns(), Some(source()), None).unwrap();
        world.source = world.net.add(address(1), Link::default(), station);
        world.run(10 * MS);
        world.stream(10_000, 250, every_ns);
        world.run(SECOND);
        let what = (before, window, every_ns);
        let numbers = world.numbers(world.first());
        let counts = world.net.node(world.first()).counts();
        // A session that outran half of the window before it was known for another lacks its beginning, which is reported.
        let first = u32::try_from(counts.lost).unwrap();
        assert!(
            numbers.iter().copied().eq((0..before).chain(10_000 + first..10_250)),
            "{what:?}: {} {first}",
            numbers.len()
        );
        assert_eq!(first > 0, every_ns * u64::from(window) / 2 < 20 * MS, "{what:?}");
        let events = world.events(world.first());
        assert_eq!(events[..2], [ours(SessionEvent::Found), ours(SessionEvent::Restarted)], "{what:?}");
        assert_eq!(events.len(), if first > 0 { 3 } else { 2 }, "{what:?}: {events:?}");
    }
}

/// Each receives from each: two sources on one node's address are distinguished by their ports, losses are each's own.
#[test]
fn several_sources_and_receivers() {
    let mut net = Network::new(8);
    let link = Link { lost: 0.05, ..Link::default() };
    let mut sources = Vec::new();
    for at in 1..=3_u16 {
        let tsi = Tsi { port: at, ..TSI };
        let address = address(usize::from(at));
        let config = SourceConfig { window_packets: 1024, ..SourceConfig::new(tsi, PORT, group(), address) };
        let both = ReceiverConfig { window_packets: 1024, ..ReceiverConfig::new(PORT, group(), u64::from(at)) };
        let node = net.add(address, Link::default(), Station::new(0, Some(config), Some(both)).unwrap());
        net.set_down(node, link);
        net.join(node, group());
        sources.push((tsi, node));
    }
    net.run_for(100 * MS).unwrap();
    for number in 0..300_u32 {
        for (_, node) in &sources {
            net.node_mut(*node).publish(&number.to_be_bytes()).unwrap();
        }
        net.run_for(100 * US).unwrap();
    }
    net.run_for(2 * SECOND).unwrap();
    for (me, node) in &sources {
        for (other, _) in sources.iter().filter(|(other, _)| other != me) {
            let heard: Vec<u32> = net
                .node(*node)
                .delivered()
                .iter()
                .filter(|one| one.message.tsi == *other)
                .map(|one| u32::from_be_bytes(*one.bytes.first_chunk().unwrap()))
                .collect();
            assert_eq!(heard, (0..300).collect::<Vec<_>>(), "{me} heard {other}");
        }
        assert!(net.node(*node).delivered().iter().all(|one| one.message.tsi != *me), "nobody hears himself");
        assert!(net.node(*node).counts().recovered > 0);
    }
}

/// An application that does not read keeps its window, not more; when it reads again, it gets what it can still have.
#[test]
fn an_application_that_does_not_read() {
    let mut world = World::new(2);
    world.run(10 * MS);
    world.stream(0, 10, 100 * US);
    let slow = world.first();
    world.net.node_mut(slow).stalled = true;
    world.stream(10, 1500, 100 * US);
    let counts = world.net.node(slow).counts();
    assert!(counts.overflows > 0 && counts.lost == 0, "{counts:?}");
    world.net.node_mut(slow).stalled = false;
    world.run(SECOND);
    // The source has 1024 packets, the receiver's window had as many: together they have all.
    assert_eq!(world.numbers(slow), (0..1510).collect::<Vec<_>>());
    assert_eq!(world.numbers(world.receivers[1]), (0..1510).collect::<Vec<_>>());
}
