//! Packets in the name of a source that are not of it.

use crate::world::{MS, SECOND, US, World, address, none, odata, puppet, receiver, source, spm};
use pgm::Sqn;
use pgm::packet::{Body, Spm};
use pgm::sim::{Link, NodeId};
use std::net::IpAddr;

fn path_to(path: IpAddr, sqn: u32, lead: u32) -> Body<'static> {
    Body::Spm(Spm { sqn: Sqn(sqn), trail: Sqn(0), lead: Sqn(lead), path })
}

fn naks_to(world: &World, node: NodeId) -> Vec<IpAddr> {
    world.sent_by(node, "NAK").iter().map(|one| one.to).collect()
}

/// 2,000 messages over a link that loses; with `forged` SPMs of somebody else among them. NAKs and their addresses.
fn lossy_stream(forged: u32) -> (World, Vec<IpAddr>) {
    let link = Link { lost: 0.03, ..Link::default() };
    let mut world = World::with(source(), receiver(), 1, link, 5);
    let stranger = world.stranger();
    world.run(10 * MS);
    for number in 0..2000_u32 {
        world.publish(&number.to_be_bytes());
        if number % 10 == 0 && number / 10 < forged {
            world.forge_as(stranger, path_to(address(66), 3 + number / 10, number));
        }
        world.run(100 * US);
    }
    world.run(2 * SECOND);
    assert_eq!(world.numbers(world.first()), (0..2000).collect::<Vec<_>>());
    let naks = naks_to(&world, world.first());
    (world, naks)
}

/// Catches: 200 SPMs from another address moved the path, so that NAKs went to a third host and repairs waited.
#[test]
fn spms_from_elsewhere_do_not_move_the_path() {
    let (_, usual) = lossy_stream(0);
    let (world, naks) = lossy_stream(200);
    assert!(usual.len() > 20 && naks.iter().all(|to| *to == address(1)), "{naks:?}");
    assert!(naks.len() < 2 * usual.len(), "{} NAKs, {} without forged SPMs", naks.len(), usual.len());
    let counts = world.net.node(world.first()).counts();
    assert!(counts.doubted > 150 && counts.lost == 0, "{counts:?}");
}

/// Catches: an SPM with the source's own address moved the path to any host, or to all of a subnet.
#[test]
fn naks_go_to_where_the_data_come_from() {
    for path in [address(77), address(255)] {
        let mut world = puppet(receiver());
        world.forge(odata(0, 0, b"0000"), none());
        world.forge(path_to(path, 1, 0), none());
        world.forge(odata(2, 0, b"0002"), none());
        world.run(MS);
        assert_eq!(naks_to(&world, world.first()), [address(1)]);
    }
}

/// Catches: SPMs that came before the data, from elsewhere, said where NAKs go.
#[test]
fn an_spm_before_the_data_does_not_say_where_they_come_from() {
    let mut world = puppet(receiver());
    let stranger = world.stranger();
    world.forge_as(stranger, path_to(address(66), 1, u32::MAX));
    world.run(MS);
    for sqn in [0, 2_u32] {
        world.forge(odata(sqn, 0, &sqn.to_be_bytes()), none());
    }
    world.run(MS);
    assert!(naks_to(&world, world.first()).is_empty(), "nothing is asked for before the source's own SPM");
    world.forge(spm(0, 0, 2), none());
    world.run(MS);
    assert_eq!(naks_to(&world, world.first()), [address(1)]);
}

/// Catches: 24 forged packets caused 501 NAKs. Those with the source's address cost few, while it sends and while it does not;
/// those from elsewhere none.
#[test]
fn forged_gaps_cause_few_naks() {
    let naks = |every_ns: u64, strange: bool| {
        let mut world = World::with(source(), receiver(), 1, Link::default(), 1);
        let stranger = world.stranger();
        let origin = if strange { stranger } else { world.source };
        world.run(10 * MS);
        world.stream(0, 200, every_ns);
        for forged in 0..24_u32 {
            world.forge_as(origin, odata(500 + 20 * forged, 0, b"none"));
            world.stream(200 + 10 * forged, if every_ns < MS { 10 } else { 0 }, every_ns);
        }
        world.run(2 * SECOND);
        let counts = world.net.node(world.first()).counts();
        let sent = if every_ns < MS { 440 } else { 200 };
        assert_eq!((world.numbers(world.first()), counts.lost), ((0..sent).collect::<Vec<_>>(), 0), "{counts:?}");
        counts.naks
    };
    assert_eq!([naks(100 * US, true), naks(MS, true)], [0, 0]);
    let [busy, idle] = [naks(100 * US, false), naks(MS, false)];
    assert!(busy < 24, "{busy} while it sends");
    assert!(idle < 200, "{idle} while it does not");
}

/// A source that goes on from another address is heard from there.
#[test]
fn a_source_may_move() {
    let mut world = puppet(receiver());
    let elsewhere = world.stranger();
    world.forge(spm(0, 0, u32::MAX), none());
    for sqn in 0..100_u32 {
        world.forge(odata(sqn, 0, &sqn.to_be_bytes()), none());
        world.run(100 * US);
    }
    for sqn in (100..150_u32).filter(|sqn| *sqn != 140) {
        world.forge_as(elsewhere, odata(sqn, 0, &sqn.to_be_bytes()));
        world.run(100 * US);
    }
    world.forge_as(elsewhere, path_to(address(66), 1, 149));
    world.run(MS);
    assert_eq!(world.numbers(world.first()), (0..140).collect::<Vec<_>>());
    assert_eq!(naks_to(&world, world.first()), [address(66)]);
}
