//! RFC 3208, section 5: what a source sends when.

use crate::world::{MS, SECOND, TSI, US, World, address, group, nak_bytes, numbers, receiver, source};
use pgm::packet::Body;
use pgm::sim::{Link, NodeId, Station};
use pgm::{ReceiverConfig, SourceConfig, Sqn};

/// Somebody who sends what the test wants.
fn tester(world: &mut World) -> NodeId {
    let at = 100 + world.receivers.len();
    world.net.add(address(at), Link::ideal(), Station::new(0, None, None).unwrap())
}

fn sent_data(world: &World) -> Vec<(u64, u32, usize)> {
    let data = |one: &pgm::sim::SentPacket| match one.packet()?.body {
        Body::Odata(data) => Some((one.at_ns, data.sqn.0, one.bytes.len())),
        _ => None,
    };
    world.net.sent().iter().filter_map(data).collect()
}

/// 5.1.1: in the order of their submission, and in sequence.
#[test]
fn s5_1_1_odata_are_numbered_and_sent_in_order() {
    let mut world = World::new(1);
    for number in 0..100_u32 {
        world.publish(&number.to_be_bytes());
    }
    world.run(SECOND);
    let sqns: Vec<u32> = sent_data(&world).iter().map(|(_, sqn, _)| *sqn).collect();
    assert_eq!(sqns, (0..100).collect::<Vec<_>>());
    assert_eq!(world.numbers(world.first()), sqns);
}

/// 5.1.1: only within the transmit window; its trail is in every packet.
#[test]
fn s5_1_1_the_window_moves_with_the_data() {
    let mut world = World::with(SourceConfig { window_packets: 16, ..source() }, receiver(), 1, Link::default(), 1);
    world.run(10 * MS);
    world.stream(0, 100, 10 * US);
    for one in world.net.sent() {
        match one.packet().unwrap().body {
            Body::Odata(data) => assert!(data.sqn.distance_from(data.trail) < 16),
            Body::Spm(spm) => assert!(spm.lead.next().distance_from(spm.trail) <= 16),
            _ => {}
        }
    }
}

/// 5.1.2: over any interval no more than the bucket and the rate, and neighbours no closer than the peak.
#[test]
fn s5_1_2_rate_bucket_and_peak() {
    let config = SourceConfig {
        max_bytes_per_second: 1_000_000,
        burst_bytes: 10_000,
        peak_bytes_per_second: 5_000_000,
        ..source()
    };
    let mut world = World::with(config, receiver(), 1, Link::default(), 1);
    // Everything at once, with requests for repairs on top.
    for number in 0..300_u32 {
        world.publish(&number.to_be_bytes().repeat(200));
    }
    let tester = tester(&mut world);
    for round in 0..50_u32 {
        world.net.send_as(tester, address(1), &nak_bytes(&(0..=round % 3).map(|at| at + round).collect::<Vec<_>>()));
        world.run(5 * MS);
    }
    world.run(SECOND);
    let sent: Vec<(u64, u64)> = world
        .net
        .sent()
        .iter()
        .filter(|one| one.from == world.source)
        .map(|one| (one.at_ns, one.bytes.len() as u64))
        .collect();
    assert!(world.net.node(world.source).source_counts().rdata > 20);
    for from in 0..sent.len() {
        let mut total = 0;
        for &(at, bytes) in &sent[from..] {
            total += bytes;
            let allowed = 2 * 10_000 + (at - sent[from].0) / 1000;
            assert!(total <= allowed + 1, "{total} bytes in {} ns", at - sent[from].0);
        }
    }
    for pair in sent.windows(2) {
        assert!((pair[1].0 - pair[0].0) * 5 >= pair[0].1 * 1000 - 5, "{pair:?}");
    }
    // The rate is used: data last as long as they must, and not much longer.
    let last = sent_data(&world).last().unwrap().0;
    let bytes: u64 = sent.iter().filter(|(at, _)| *at <= last).map(|(_, bytes)| bytes).sum();
    assert!(last < bytes * 1000, "{bytes} bytes took {last} ns");
}

/// 5.1.3: an NCF overtakes everything, an SPM the data.
#[test]
fn s5_1_3_ncfs_then_spms_then_data() {
    let config = SourceConfig { max_bytes_per_second: 2_000_000, burst_bytes: 1472, ambient_ns: 50 * MS, ..source() };
    let mut world = World::with(config, receiver(), 1, Link::default(), 1);
    for number in 0..200_u32 {
        world.publish(&number.to_be_bytes().repeat(250));
    }
    world.run(20 * MS);
    let tester = tester(&mut world);
    world.net.forget_sent();
    world.net.send_as(tester, address(1), &nak_bytes(&[3]));
    world.run(5 * MS);
    let names = world.names();
    assert_eq!(names[..3], ["NAK", "NCF", "RDATA"], "{names:?}");
    // It left at once, though no data may.
    let (asked, confirmed) = (world.net.sent()[0].at_ns, world.net.sent()[1].at_ns);
    assert!(confirmed - asked < 30 * US, "{}", confirmed - asked);
    // Data wait all the time, and ambient SPMs come as ever.
    world.run(100 * MS);
    assert!(world.sent_by(world.source, "SPM").len() >= 2);
}

/// 5.1.4 and 5.1.6: beside data, at a rate of their own.
#[test]
fn s5_1_4_ambient_spms_beside_data() {
    let mut world = World::with(SourceConfig { ambient_ns: 20 * MS, ..source() }, receiver(), 1, Link::default(), 1);
    world.run(5 * MS);
    world.net.forget_sent();
    world.stream(0, 1000, 200 * US);
    let spms = world.sent_by(world.source, "SPM");
    let times: Vec<u64> = spms.iter().map(|one| one.at_ns).collect();
    assert!((9..=11).contains(&times.len()), "{times:?}");
    assert!(times.windows(2).all(|pair| (19 * MS..21 * MS).contains(&(pair[1] - pair[0]))), "{times:?}");
    let leads: Vec<Sqn> = spms
        .iter()
        .filter_map(|one| if let Body::Spm(spm) = one.packet()?.body { Some(spm.lead) } else { None })
        .collect();
    assert!(leads.windows(2).all(|pair| pair[0].is_before(pair[1])), "{leads:?}");
}

/// 5.1.5: they decay, and data wake them.
#[test]
fn s5_1_5_heartbeats_decay() {
    let config = SourceConfig { ambient_ns: 3600 * SECOND, heartbeat_max_ns: 64 * MS, ..source() };
    let mut world = World::with(config, receiver(), 1, Link::default(), 1);
    world.run(100 * MS);
    world.net.forget_sent();
    world.publish(b"data");
    world.run(400 * MS);
    let spms: Vec<u64> = world.sent_by(world.source, "SPM").iter().map(|one| (one.at_ns - 100 * MS) / MS).collect();
    assert_eq!(spms, [4, 12, 28, 60, 124, 188, 252, 316, 380]);
}

/// 5.2 and 9.3.4: at once, and with the same list.
#[test]
fn s5_2_a_nak_is_confirmed_at_once() {
    let mut world = World::new(1);
    world.stream(0, 20, 10 * US);
    let tester = tester(&mut world);
    world.net.forget_sent();
    world.net.send_as(tester, address(1), &nak_bytes(&[2, 5, 7, 11]));
    world.run(MS);
    assert_eq!(world.names(), ["NAK", "NCF", "RDATA", "RDATA", "RDATA", "RDATA"]);
    let ncf = world.net.sent()[1].clone();
    assert_eq!((numbers(&ncf.packet().unwrap()), ncf.to), (vec![2, 5, 7, 11], group()));
    let Body::Ncf(body) = ncf.packet().unwrap().body else { panic!("{ncf:?}") };
    assert_eq!((body.source, body.group, ncf.packet().unwrap().tsi), (address(1), group(), TSI));
}

/// 5.2: a storm of NAKs for the same number makes no storm of NCFs.
#[test]
fn s5_2_a_storm_is_not_answered_by_a_storm() {
    let mut world = World::new(1);
    world.stream(0, 20, 10 * US);
    let tester = tester(&mut world);
    world.net.forget_sent();
    for _ in 0..1000 {
        world.net.send_as(tester, address(1), &nak_bytes(&[5]));
        world.run(US);
    }
    let (ncfs, rdata) = (world.sent_by(world.source, "NCF").len(), world.sent_by(world.source, "RDATA").len());
    assert!((1..=2).contains(&ncfs), "{ncfs}");
    assert!((1..=2).contains(&rdata), "{rdata} repairs");
}

/// 5.3: what is in the window is repaired, within the rate; what is not is confirmed only, and an SPM tells why.
#[test]
fn s5_3_repairs() {
    let mut world = World::with(SourceConfig { window_packets: 16, ..source() }, receiver(), 1, Link::default(), 1);
    world.run(10 * MS);
    world.stream(0, 40, 10 * US);
    world.run(MS);
    let tester = tester(&mut world);
    world.net.forget_sent();
    world.net.send_as(tester, address(1), &nak_bytes(&[3, 30]));
    world.run(MS);
    let names = world.names();
    assert_eq!(names, ["NAK", "NCF", "SPM", "RDATA"]);
    let repair = world.net.sent()[3].packet().unwrap();
    let Body::Rdata(data) = repair.body else { panic!("{repair:?}") };
    assert_eq!((data.sqn, data.trail, data.payload), (Sqn(30), Sqn(24), &30_u32.to_be_bytes()[..]));
    // What was not sent yet: not a word.
    world.net.forget_sent();
    world.net.send_as(tester, address(1), &nak_bytes(&[40]));
    world.run(MS);
    assert_eq!(world.names(), ["NAK"]);
}

/// 5.1.3: a link that is full, and repairs that want all of it. New data go on at their share, and so do repairs, the
/// rate is kept, and in the end everybody has everything.
#[test]
fn s5_1_3_on_a_saturated_link_repairs_do_not_starve_data() {
    const RATE: u64 = 2_000_000;
    for (repairs_before_data, least) in [(4, 0.12), (1, 0.3)] {
        let config = SourceConfig { max_bytes_per_second: RATE, burst_bytes: 3000, repairs_before_data, ..source() };
        // The link carries hardly more than the source may send; every receiver loses two packets of five, each others.
        // The rate that a source is given does not count what lower layers add, so that is left out here.
        let link = Link { bytes_per_second: RATE * 21 / 20, overhead_bytes: 0, lost: 0.4, ..Link::default() };
        // Repairs wait long for their turn; who gave up sooner would lose what is on its way to him.
        let patient = ReceiverConfig { data_ns: 100 * MS, ..receiver() };
        let mut world = World::with(config, patient, 8, link, 3);
        world.run(200 * MS);
        let (begin, mut published) = (world.net.now_ns(), 0_u32);
        while world.net.now_ns() < begin + 2 * SECOND {
            // As much as it takes, always, of what stays in the window to the end.
            while published < 900
                && world.net.node_mut(world.source).publish(&published.to_be_bytes().repeat(250)).is_ok()
            {
                published += 1;
            }
            world.run(5 * MS);
        }
        let during: Vec<_> =
            world.net.sent().iter().filter(|one| one.from == world.source && one.at_ns >= begin).collect();
        let of = |name: &'static str| {
            during.iter().filter(move |one| one.packet().is_some_and(|packet| packet.body.name() == name))
        };
        let last = of("ODATA").map(|one| one.at_ns).max().unwrap();
        let bytes = |name: &'static str| {
            of(name).filter(|one| one.at_ns <= last).map(|one| one.bytes.len() as f64).sum::<f64>()
        };
        let (data, repairs) = (bytes("ODATA"), bytes("RDATA"));
        assert!(repairs > 0.7 * data, "repairs eat the bandwidth: {repairs} against {data}");
        assert!(data / (data + repairs) >= least, "new data get {} of it", data / (data + repairs));
        assert_eq!(world.net.up(world.source).dropped, 0, "the rate is kept, so nothing is dropped at the link");
        world.net.node_mut(world.source).close();
        world.run(20 * SECOND);
        for node in world.receivers.clone() {
            assert_eq!(world.net.node(node).counts().lost, 0, "{:?}", world.events(node));
            assert_eq!(world.numbers(node), (0..published).collect::<Vec<_>>());
        }
    }
}

/// 3.3: who publishes whenever there is room still has a window of what was sent: half of it, at least.
#[test]
fn s3_3_a_queue_that_is_always_full_leaves_room_for_repairs() {
    let config = SourceConfig { max_bytes_per_second: 2_000_000, burst_bytes: 3000, ..source() };
    let mut world = World::with(config, receiver(), 1, Link { lost: 0.02, ..Link::default() }, 3);
    world.run(200 * MS);
    let mut published = 0_u32;
    while published < 5000 {
        while published < 5000 && world.net.node_mut(world.source).publish(&published.to_be_bytes().repeat(250)).is_ok()
        {
            published += 1;
        }
        for one in 0..world.net.sent().len() {
            let packet = world.net.sent()[one].packet().unwrap();
            if let Body::Odata(data) = packet.body {
                let held = data.sqn.distance_from(data.trail);
                assert!(held >= data.sqn.0.min(500), "{held} packets before {} can be repaired", data.sqn);
            }
        }
        world.net.forget_sent();
        world.run(5 * MS);
    }
    world.run(2 * SECOND);
    assert_eq!(world.numbers(world.first()), (0..5000).collect::<Vec<_>>());
}
