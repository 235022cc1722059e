//! RFC 3208, section 9 and appendix C: options, and requests for SPMs.

use crate::world::{
    MS, PORT, SECOND, TSI, US, World, address, bytes, group, none, odata, ours, puppet, receiver, source, spm,
};
use pgm::packet::{Body, Options, Packet, Reset};
use pgm::receiver::SessionEvent;
use pgm::sim::{Link, Network, SentPacket, Station};
use pgm::{ReceiverConfig, SourceConfig, Sqn};

fn spmrs(world: &World) -> Vec<&SentPacket> {
    world
        .net
        .sent()
        .iter()
        .filter(|one| one.from != world.source && one.packet().is_some_and(|packet| packet.body == Body::Spmr))
        .collect()
}

/// 9.2: fragments of all sizes, some of them lost.
#[test]
fn s9_2_fragments_over_a_bad_link() {
    let link = Link { lost: 0.1, doubled: 0.02, reordered: 0.05, reorder_ns: 100 * US, ..Link::default() };
    let mut world = World::with(source(), receiver(), 2, link, 11);
    world.run(50 * MS);
    let messages: Vec<Vec<u8>> = (0..60_u32).map(|at| at.to_be_bytes().repeat(1 + at as usize * 77)).collect();
    for message in &messages {
        world.publish(message);
        world.run(MS);
    }
    world.run(SECOND);
    for node in world.receivers.clone() {
        assert_eq!(world.bodies(node), messages);
    }
}

/// 9.6: the first data, and its repair, bear OPT_SYN.
#[test]
fn s9_6_syn() {
    let mut world = World::new(1);
    world.run(10 * MS);
    world.lose(None, &[0]);
    world.stream(0, 3, MS);
    world.run(SECOND);
    let syns: Vec<(&str, Option<Sqn>)> = world
        .net
        .sent()
        .iter()
        .filter_map(SentPacket::packet)
        .filter(|packet| packet.options.syn)
        .map(|packet| (packet.body.name(), packet.sqn()))
        .collect();
    assert_eq!(syns, [("ODATA", Some(Sqn(0))), ("RDATA", Some(Sqn(0)))]);
}

/// 9.7: the end is announced when the last data were sent, and known when all are there, though they were lost at first.
#[test]
fn s9_7_fin() {
    let mut world = World::new(1);
    world.run(10 * MS);
    world.lose(None, &[8, 9]);
    world.stream(0, 10, MS);
    world.net.node_mut(world.source).close();
    world.run(SECOND);
    let fins: Vec<bool> = world
        .net
        .sent()
        .iter()
        .filter_map(SentPacket::packet)
        .filter(|packet| matches!(packet.body, Body::Spm(_)))
        .map(|packet| packet.options.fin)
        .collect();
    let first = fins.iter().position(|fin| *fin).unwrap();
    assert!(fins[first..].iter().all(|fin| *fin), "in every SPM after the last data");
    assert_eq!(world.numbers(world.first()), (0..10).collect::<Vec<_>>());
    assert_eq!(world.events(world.first()), [ours(SessionEvent::Found), ours(SessionEvent::Finished)]);
}

/// 9.8: the source gives up: what is missing is lost at once, no receiver asks any more.
#[test]
fn s9_8_rst() {
    let mut world = World::new(2);
    world.run(10 * MS);
    let first = world.first();
    world.lose(Some(first), &[3]);
    world.stream(0, 5, 10 * US);
    world.net.node_mut(world.source).source.as_mut().unwrap().abort(9);
    world.run(SECOND);
    let reset = ours(SessionEvent::Reset { code: 9 });
    let lost = ours(SessionEvent::Lost { first: Sqn(3), count: 1 });
    assert_eq!(world.events(first), [ours(SessionEvent::Found), reset, lost]);
    assert_eq!(world.numbers(first), [0, 1, 2, 4]);
    assert_eq!(world.events(world.receivers[1]), [ours(SessionEvent::Found), reset]);
    let told = world.net.sent().iter().find(|one| one.packet().unwrap().options.reset.is_some()).unwrap().at_ns;
    assert!(world.asked(first).iter().all(|(at, _)| *at < told + 50 * US), "{:?}", world.asked(first));
}

/// 9.8.1: without the N bit repairs may still be asked for.
#[test]
fn s9_8_rst_that_still_answers() {
    let mut world = puppet(receiver());
    world.forge(spm(0, 0, u32::MAX), none());
    world.forge(odata(0, 0, b"0000"), none());
    world.forge(spm(1, 0, 1), Options { reset: Some(Reset { naks_unanswered: false, code: 0 }), ..none() });
    world.run(MS);
    assert_eq!(world.asked(world.first()).len(), 1);
}

/// 13.5: first to the group on this link, then to the source, after a random wait; ever more seldom, and not for ever.
#[test]
fn s13_5_spms_are_requested() {
    let mut world = puppet(ReceiverConfig { spmr_back_off_ns: 10 * MS, spmr_repeat_ns: 20 * MS, ..receiver() });
    world.forge(odata(0, 0, b"0000"), none());
    world.run(100 * MS);
    assert_eq!(spmrs(&world).len(), 0, "nothing is missing");
    world.forge(odata(2, 0, b"0002"), none());
    world.run(10 * SECOND);
    let sent: Vec<(u64, std::net::IpAddr)> = spmrs(&world).iter().map(|one| (one.at_ns, one.to)).collect();
    assert_eq!(sent.len(), 20);
    for (round, pair) in sent.chunks(2).enumerate() {
        assert_eq!((pair[0].1, pair[1].1), (group(), address(1)), "{round}");
    }
    for (pair, round) in sent.chunks(2).collect::<Vec<_>>().windows(2).zip(1_u64..) {
        let pause = pair[1][0].0 - pair[0][1].0;
        assert!((20 * MS * round..=20 * MS * round + 10 * MS).contains(&pause), "{round}: {pause}");
    }
    assert_eq!(world.net.node(world.first()).counts().lost, 0);
}

/// 13.5: who hears somebody else's request waits for the answer instead.
#[test]
fn s13_5_requests_are_suppressed() {
    let config = ReceiverConfig { spmr_back_off_ns: 10 * MS, ..receiver() };
    let mut world = puppet(config);
    for at in 1..20 {
        world.receiver(ReceiverConfig { seed: at, ..config }, Link::default());
    }
    world.forge(odata(0, 0, b"0000"), none());
    world.forge(odata(2, 0, b"0002"), none());
    world.run(12 * MS);
    let asked = spmrs(&world).len();
    // Each asks twice: the group and the source. Two may draw nearly the same wait.
    assert!((2..=6).contains(&asked), "{asked} of 20 receivers");
}

/// 13.5: an SPM that comes meanwhile makes the request needless.
#[test]
fn s13_5_an_spm_cancels_the_request() {
    let mut world = puppet(ReceiverConfig { spmr_back_off_ns: 50 * MS, seed: 4, ..receiver() });
    world.forge(odata(0, 0, b"0000"), none());
    world.forge(odata(2, 0, b"0002"), none());
    world.forge(spm(0, 0, 2), none());
    world.run(300 * MS);
    assert_eq!(spmrs(&world).len(), 0);
    assert!(!world.asked(world.first()).is_empty());
}

/// 13.4: an SPMR is answered at once, once each IHB_MIN; and a late joiner's gaps are repaired by that.
#[test]
fn s13_4_a_request_is_answered() {
    let mut world =
        World::with(SourceConfig { ambient_ns: 60 * SECOND, ..source() }, receiver(), 1, Link::default(), 1);
    world.stream(0, 1000, 100 * US);
    let late = world.receiver(receiver(), Link { lost: 0.05, ..Link::default() });
    world.net.set_up(late, Link::default());
    // Data come all the time, so no heartbeats, and the next ambient SPM is far.
    world.stream(1000, 2000, 100 * US);
    let counts = world.net.node(late).counts();
    assert!(counts.spmrs > 0 && counts.spms > 0 && counts.recovered > 50 && counts.lost == 0, "{counts:?}");
    let numbers = world.numbers(late);
    assert!(numbers.len() > 1900 && numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "nothing is lost");
    // A storm of requests gets an SPM each heartbeat.
    world.net.forget_sent();
    let spmr = bytes(&Packet { tsi: TSI, data_port: PORT, body: Body::Spmr, options: none() });
    for _ in 0..400 {
        world.net.send_as(late, address(1), &spmr);
        world.run(100 * US);
    }
    let answers = world.sent_by(world.source, "SPM").len();
    assert!((9..=13).contains(&answers), "{answers} in 40 ms");
}

/// 8: IPv6 addresses in SPMs, NAKs and NCFs.
#[test]
fn s8_everything_over_ipv6() {
    let (group, from) = ("ff15::1".parse().unwrap(), "fd00::1".parse().unwrap());
    let to: std::net::IpAddr = "fd00::2".parse().unwrap();
    let mut net = Network::new(2);
    net.record(true);
    let config = SourceConfig { window_packets: 1024, ..SourceConfig::new(TSI, PORT, group, from) };
    let source = net.add(from, Link::default(), Station::source(config).unwrap());
    let config = ReceiverConfig { window_packets: 1024, ..ReceiverConfig::new(PORT, group, 1) };
    let node = net.add(to, Link { lost: 0.1, ..Link::default() }, Station::receiver(config).unwrap());
    net.join(node, group);
    net.run_for(20 * MS).unwrap();
    for number in 0..500_u32 {
        net.node_mut(source).publish(&number.to_be_bytes()).unwrap();
        net.run_for(50 * US).unwrap();
    }
    net.run_for(SECOND).unwrap();
    assert_eq!(net.node(node).delivered().len(), 500);
    assert!(net.node(node).counts().naks > 20);
    for packet in net.sent().iter().filter_map(SentPacket::packet) {
        match packet.body {
            Body::Spm(spm) => assert_eq!(spm.path, from),
            Body::Nak(nak) | Body::Ncf(nak) => assert_eq!((nak.source, nak.group), (from, group)),
            _ => {}
        }
    }
}
