//! Groups that are ended early.

use super::*;

fn short() -> Config {
    Config { group_pause_ns: Some(2 * MS), ..fec() }
}

/// Section 11.2, "variable transmission group size": after a pause an SPM tells the size, later SPMs too; numbers go on with the
/// next group.
#[test]
fn s11_2_a_pause_ends_a_group_early() {
    let mut world = world(short(), using(), 1);
    let node = world.first();
    lose(&mut world, None, &[1]);
    world.stream(0, 3, 10 * US);
    world.run(30 * MS);
    assert_eq!(world.numbers(node), [0, 1, 2]);
    // 8 less the two that are there; the source takes off the 5 that do not exist.
    assert_eq!(asked(&world, "NAK", true), [[5]]);
    assert_eq!(parity(&world), [("RDATA", 0, None, Some(3))]);
    assert_eq!((sent(&world).short_groups, sent(&world).rdata), (1, 0));
    let mut sizes = Vec::new();
    for one in world.sent_by(world.source, "SPM") {
        let packet = one.packet().unwrap();
        let Body::Spm(spm) = packet.body else { panic!("{packet:?}") };
        sizes.push((spm.lead.0, packet.options.current_group_size));
    }
    assert!(sizes.len() > 2 && sizes.iter().all(|size| *size == (2, Some(3))), "{sizes:?}");
    world.net.clear_filter();
    world.stream(3, 9, 10 * US);
    world.run(30 * MS);
    let sqns: Vec<u32> = world.net.node(node).delivered().iter().map(|one| one.message.first.0).collect();
    assert_eq!(sqns, [vec![0, 1, 2], (8..17).collect()].concat());
    let counts = counts(&world, node);
    assert_eq!((counts.missing, counts.recovered, counts.lost), (1, 1, 0));
    assert!(!world.events(node).iter().any(|event| matches!(event.what, SessionEvent::Lost { .. })));
}

/// Section 11.4: unasked parity of a short group carries its size.
#[test]
fn s11_4_parity_of_a_short_group_tells_its_size() {
    let mut world = world(Config { proactive_packets: 2, ..short() }, using(), 1);
    let node = world.first();
    lose(&mut world, None, &[0, 2]);
    world.stream(0, 3, 10 * US);
    world.run(20 * MS);
    assert_eq!(world.numbers(node), [0, 1, 2]);
    assert_eq!(parity(&world), [("ODATA", 0, None, Some(3)), ("ODATA", 1, None, Some(3))]);
    assert_eq!(counts(&world, node).naks, 0);
}

/// Section 11.4: the end of a session ends its last group; the last data packet tells the size where it is not sent yet.
#[test]
fn s11_4_the_last_data_of_a_session_tell_the_size() {
    let mut world = world(short(), using(), 1);
    let node = world.first();
    lose(&mut world, None, &[9]);
    let source = world.source;
    let station = world.net.node_mut(source);
    for number in 0..11_u32 {
        station.publish(&number.to_be_bytes()).unwrap();
    }
    station.close();
    world.run(SECOND);
    assert_eq!(world.numbers(node), (0..11).collect::<Vec<_>>());
    let last = world.sent_by(source, "ODATA").last().unwrap().packet().unwrap();
    assert_eq!((last.sqn(), last.options.current_group_size), (Some(Sqn(10)), Some(3)));
    assert!(world.events(node).contains(&ours(SessionEvent::Finished)));
    assert!(world.net.node(source).source.as_ref().unwrap().is_finished());
}

/// Section 11.5: who did not hear that a group is short asks as for a whole one, and learns it from the answer, even where
/// nothing is missing. So does who does not use parity.
#[test]
fn s11_5_the_size_of_a_short_group_is_learnt_from_parity() {
    for config in [using(), receiver()] {
        let mut world = world(short(), config, 1);
        let node = world.first();
        world.stream(0, 3, 100 * US);
        // The end of the group is announced while no receiver gets it.
        world.net.set_filter(|_| false);
        world.run(30 * MS);
        world.net.clear_filter();
        world.stream(3, 1, 10 * US);
        world.run(100 * MS);
        assert_eq!(world.numbers(node), [0, 1, 2, 3]);
        let counts = counts(&world, node);
        assert_eq!((counts.missing, counts.lost), (0, 0), "{counts:?}");
        assert_eq!(parity(&world).len(), 1);
        assert!(!world.events(node).iter().any(|event| matches!(event.what, SessionEvent::Lost { .. })));
    }
}

/// A short group that left the source's window before the next data is no loss.
#[test]
fn s11_2_numbers_that_nobody_has_are_not_lost() {
    for config in [using(), receiver()] {
        let small = SourceConfig { window_packets: 32, ..offering(short()) };
        let mut world = World::with(small, config, 1, Link::default(), 3);
        world.run(50 * MS);
        let node = world.first();
        for round in 0..20 {
            world.stream(round * 3, 3, 10 * US);
            world.run(5 * MS);
        }
        assert_eq!(world.numbers(node), (0..60).collect::<Vec<_>>());
        assert_eq!((counts(&world, node).lost, counts(&world, node).missing), (0, 0));
        assert_eq!(sent(&world).short_groups, 20);
    }
}
