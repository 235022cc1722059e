//! RFC 3208, section 6.3: how a receiver gets what it misses.

use crate::world::{
    MS, SECOND, TSI, US, World, address, group, nak, nak_bytes, none, odata, ours, puppet, rdata, receiver, source, spm,
};
use pgm::packet::{Body, NakList, Options, Packet};
use pgm::receiver::SessionEvent;
use pgm::sim::{Link, Station};
use pgm::{ReceiverConfig, Sqn};

/// Long waits, so that each can be seen: 4 ms back-off, 20 ms for an NCF, 50 ms for data.
fn slow() -> ReceiverConfig {
    ReceiverConfig { back_off_ns: 4 * MS, repeat_ns: 20 * MS, data_ns: 50 * MS, ..receiver() }
}

/// A puppet's receiver that heard an SPM and number 0.
fn begun(config: ReceiverConfig) -> World {
    let mut world = puppet(config);
    world.forge(spm(0, 0, u32::MAX), none());
    world.forge(odata(0, 0, &0_u32.to_be_bytes()), none());
    world.run(MS);
    world
}

fn asked(world: &World) -> Vec<u32> {
    let mut all: Vec<u32> = world.asked(world.first()).into_iter().flat_map(|(_, sqns)| sqns).collect();
    all.sort_unstable();
    all
}

fn times(world: &World) -> Vec<u64> {
    world.asked(world.first()).iter().map(|(at, _)| at / MS).collect()
}

#[test]
fn s6_3_a_nak_induced_by_odata() {
    let mut world = begun(receiver());
    world.forge(odata(3, 0, b"0003"), none());
    world.run(MS);
    assert_eq!(asked(&world), [1, 2]);
    let one = world.sent_by(world.first(), "NAK")[0];
    let packet = one.packet().unwrap();
    let Body::Nak(body) = packet.body else { panic!("{packet:?}") };
    // To the source, with the source's and the group's address.
    assert_eq!((one.to, packet.tsi, body.source, body.group), (address(1), TSI, address(1), group()));
}

#[test]
fn s6_3_a_nak_induced_by_rdata() {
    let mut world = begun(receiver());
    world.forge(rdata(2, 0, b"0002"), none());
    world.run(MS);
    assert_eq!(asked(&world), [1]);
}

#[test]
fn s6_3_a_nak_induced_by_an_spm() {
    let mut world = begun(receiver());
    world.forge(spm(1, 0, 2), none());
    world.run(MS);
    assert_eq!(asked(&world), [1, 2]);
}

/// Simple disorder is no loss: the back-off alone tolerates some, counting packets more.
#[test]
fn s6_3_disorder_is_tolerated() {
    let link = Link { reordered: 0.3, reorder_ns: 150 * US, ..Link::default() };
    for (config, most) in [
        (ReceiverConfig { back_off_ns: 5 * MS, ..receiver() }, 30),
        (ReceiverConfig { reorder_packets: 5, ..receiver() }, 5),
        (ReceiverConfig { back_off_ns: 0, ..receiver() }, 2000),
    ] {
        let mut world = World::with(source(), config, 1, link, 5);
        world.run(10 * MS);
        world.stream(0, 2000, 50 * US);
        world.run(SECOND);
        assert_eq!(world.numbers(world.first()).len(), 2000);
        let naks = world.net.node(world.first()).counts().numbers_asked;
        assert!(naks <= most, "{naks} of {most} with {config:?}");
        // Without any tolerance every late packet is asked for.
        assert!(most < 2000 || naks > 200, "{naks}");
    }
}

/// A random wait, up to NAK_BO_IVL, another one for each.
#[test]
fn s6_3_the_back_off_is_random() {
    let mut waits = Vec::new();
    for seed in 0..40 {
        let mut world = begun(ReceiverConfig { seed, ..slow() });
        let begin = world.net.now_ns();
        world.forge(odata(2, 0, b"0002"), none());
        world.run(10 * MS);
        waits.push((world.asked(world.first())[0].0 - begin) / US);
    }
    waits.sort_unstable();
    assert!(waits[0] < 500 && waits[39] > 3500 && waits[39] < 4100, "{waits:?}");
    assert!((1000..3000).contains(&waits[20]), "{waits:?}");
}

/// An NCF, or a NAK of another receiver, in NAK_RB_IVL: no NAK of this one for NAK_RDATA_IVL at least.
#[test]
fn s6_3_suppression() {
    let heard: [fn(u32) -> Body<'static>; 2] = [|sqn| Body::Ncf(nak(sqn)), |sqn| Body::Nak(nak(sqn))];
    for body in heard {
        let mut world = begun(ReceiverConfig { back_off_ns: 10 * MS, seed: 3, ..slow() });
        world.forge(odata(2, 0, b"0002"), none());
        world.forge(body(1), none());
        let begin = world.net.now_ns();
        world.run(49 * MS);
        assert_eq!(asked(&world), [], "for {}", body(1).name());
        world.run(40 * MS);
        assert!(world.asked(world.first())[0].0 >= begin + 50 * MS);
    }
}

/// A matching NCF is one of the same source, for the same number.
#[test]
fn s6_3_what_does_not_match_does_not_suppress() {
    let mut world = begun(slow());
    world.forge(odata(2, 0, b"0002"), none());
    world.forge(Body::Ncf(nak(5)), none());
    let other = pgm::Tsi { port: 1, ..TSI };
    let bytes = crate::world::bytes(&Packet { tsi: other, data_port: 7500, body: Body::Ncf(nak(1)), options: none() });
    world.net.send_as(world.source, group(), &bytes);
    world.run(6 * MS);
    assert_eq!(asked(&world), [1]);
}

/// Without an NCF the NAK is repeated each NAK_RPT_IVL and a back-off, NAK_NCF_RETRIES times; then the number is given up.
#[test]
fn s6_3_repeats_and_cancellation_without_ncf() {
    let mut world = begun(ReceiverConfig { ncf_retries: 3, ..slow() });
    world.forge(odata(2, 0, &2_u32.to_be_bytes()), none());
    world.run(SECOND);
    let times = times(&world);
    assert_eq!(times.len(), 4, "{times:?}");
    assert!(times.windows(2).all(|pair| (20..=25).contains(&(pair[1] - pair[0]))), "{times:?}");
    assert_eq!(world.events(world.first())[1..], [ours(SessionEvent::Lost { first: Sqn(1), count: 1 })]);
    assert_eq!(world.numbers(world.first()), [0, 2], "what is behind the loss is delivered");
}

/// With an NCF, NAK_RDATA_IVL is waited for the data, NAK_DATA_RETRIES times.
#[test]
fn s6_3_repeats_and_cancellation_without_data() {
    let mut world = begun(ReceiverConfig { data_retries: 2, ..slow() });
    world.forge(odata(2, 0, b"0002"), none());
    let mut confirmed = 0;
    for _ in 0..1000 {
        world.run(MS);
        // Every NAK is confirmed, no data ever come.
        if world.asked(world.first()).len() > confirmed {
            confirmed += 1;
            world.forge(Body::Ncf(nak(1)), none());
        }
    }
    let times = times(&world);
    assert_eq!(times.len(), 3, "{times:?}");
    assert!(times.windows(2).all(|pair| (50..=56).contains(&(pair[1] - pair[0]))), "{times:?}");
    assert_eq!(world.events(world.first())[1..], [ours(SessionEvent::Lost { first: Sqn(1), count: 1 })]);
}

/// NCFs and NAKs heard while data are waited for make the wait begin again.
#[test]
fn s6_3_ncfs_prolong_the_wait_for_data() {
    let mut world = begun(slow());
    world.forge(odata(2, 0, b"0002"), none());
    for at in 0..10 {
        world.forge(if at % 2 == 0 { Body::Ncf(nak(1)) } else { Body::Nak(nak(1)) }, none());
        world.run(40 * MS);
    }
    assert_eq!(asked(&world), []);
    world.run(20 * MS);
    assert_eq!(asked(&world), [1]);
}

/// Data end it, whether they come as RDATA or as ODATA, in each state.
#[test]
fn s6_3_completion() {
    for (wait, confirm, repaired) in
        [(0, false, true), (0, false, false), (10, false, true), (10, true, false), (10, true, true)]
    {
        let mut world = begun(slow());
        world.forge(odata(2, 0, &2_u32.to_be_bytes()), none());
        world.run(wait * MS);
        if confirm {
            world.forge(Body::Ncf(nak(1)), none());
            world.run(MS);
        }
        let payload = 1_u32.to_be_bytes();
        world.forge(if repaired { rdata(1, 0, &payload) } else { odata(1, 0, &payload) }, none());
        world.run(SECOND);
        assert_eq!(world.numbers(world.first()), [0, 1, 2]);
        assert_eq!(asked(&world).len(), usize::from(wait > 0), "nothing is asked for afterwards");
        let counts = world.net.node(world.first()).counts();
        assert_eq!((counts.recovered, counts.lost), (1, 0));
    }
}

/// The trail of data or of an SPM moves past it: it is lost, and no longer asked for.
#[test]
fn s6_3_cancellation_by_the_window() {
    for by_data in [true, false] {
        let mut world = begun(slow());
        world.forge(odata(3, 0, &3_u32.to_be_bytes()), none());
        world.run(10 * MS);
        assert_eq!(asked(&world), [1, 2]);
        world.forge(if by_data { odata(4, 3, b"0004") } else { spm(1, 3, 3) }, none());
        world.run(SECOND);
        assert_eq!(asked(&world), [1, 2]);
        assert_eq!(world.events(world.first())[1..], [ours(SessionEvent::Lost { first: Sqn(1), count: 2 })]);
        assert_eq!(world.numbers(world.first())[..2], [0, 3]);
    }
}

/// NCFs for what is outside the window, or was received, change nothing.
#[test]
fn s6_3_an_ncf_outside_the_window_is_discarded() {
    let mut world = begun(slow());
    for sqn in [0, 1, 2, 1000, 0x8000_0000, u32::MAX] {
        world.forge(Body::Ncf(nak(sqn)), none());
        world.forge(Body::Nak(nak(sqn)), none());
    }
    world.run(SECOND);
    let counts = world.net.node(world.first()).counts();
    assert_eq!((counts.missing, counts.lost, asked(&world)), (0, 0, vec![]));
    world.forge(odata(1, 0, &1_u32.to_be_bytes()), none());
    world.run(MS);
    assert_eq!(world.numbers(world.first()), [0, 1]);
}

/// 9.3: what is missing at the same time is asked for in lists, ordered, of at most 63 numbers.
#[test]
fn s9_3_nak_lists() {
    let mut world = begun(ReceiverConfig { back_off_ns: 0, ..receiver() });
    world.forge(odata(101, 0, b"0101"), none());
    // So many at once are asked for after a while.
    world.run(3 * MS);
    let naks: Vec<Vec<u32>> = world.asked(world.first()).into_iter().map(|(_, sqns)| sqns).collect();
    assert_eq!(naks, [(1..64).collect::<Vec<_>>(), (64..101).collect()]);
}

/// 9.3.2: an NCF with a list suspends all of them.
#[test]
fn s9_3_ncf_lists() {
    let mut world = begun(slow());
    world.forge(odata(9, 0, b"0009"), none());
    let list = [Sqn(2), Sqn(3), Sqn(5)];
    world.forge(Body::Ncf(nak(1)), Options { nak_list: NakList::Numbers(&list), ..none() });
    world.run(45 * MS);
    let mut asked = asked(&world);
    asked.dedup();
    assert_eq!(asked, [4, 6, 7, 8]);
}

/// What the source loses, all miss: nearly all of them wait for the repair that the first one asked for.
#[test]
fn s6_3_one_receiver_asks_for_all() {
    let mut world = World::with(source(), ReceiverConfig { back_off_ns: 5 * MS, ..receiver() }, 20, Link::default(), 5);
    world.run(50 * MS);
    world.lose(None, &[1]);
    world.stream(0, 3, MS);
    world.run(SECOND);
    for node in world.receivers.clone() {
        assert_eq!(world.numbers(node), [0, 1, 2]);
    }
    let naks: u64 = world.receivers.iter().map(|node| world.net.node(*node).counts().naks).sum();
    assert!((1..=3).contains(&naks), "{naks} NAKs of 20 receivers");
    assert_eq!(world.net.node(world.source).source_counts().rdata, 1);
}

/// The story of a repair: each of its times, in the order in which they must be.
#[test]
fn a_repair_tells_what_it_waited_for() {
    let mut world = World::new(1);
    world.run(10 * MS);
    world.lose(None, &[5]);
    world.stream(0, 20, 100 * US);
    world.run(SECOND);
    let delivered = world.net.node(world.first()).delivered();
    let repaired: Vec<usize> = (0..delivered.len()).filter(|at| delivered[*at].message.repair.is_some()).collect();
    assert_eq!(repaired, [5]);
    let one = &delivered[5];
    let repair = one.message.repair.unwrap();
    let sent =
        |name: &str| world.net.sent().iter().find(|one| one.packet().unwrap().body.name() == name).unwrap().at_ns;
    assert_eq!(repair.nak_ns, Some(sent("NAK")));
    // Two links of 10 µs, and what the bytes take.
    let ncf = repair.ncf_ns.unwrap() - sent("NCF");
    let data = repair.data_ns - sent("RDATA");
    assert!((20 * US..25 * US).contains(&ncf) && (20 * US..25 * US).contains(&data), "{ncf} {data}");
    assert!(repair.gap_ns <= repair.nak_ns.unwrap() && repair.ncf_ns.unwrap() <= repair.data_ns);
    assert_eq!((one.at_ns, one.message.received_ns, repair.naks), (repair.data_ns, repair.data_ns, 1));
    // Those behind it came in time and waited for it.
    assert!(delivered[6].message.received_ns < delivered[6].at_ns && delivered[6].at_ns == one.at_ns);
}

/// Loss on the way back: NAKs that do not arrive are repeated.
#[test]
fn s6_3_lost_naks_are_repeated() {
    let mut world = World::new(1);
    world.run(10 * MS);
    let mut naks = 0;
    world.net.set_filter(move |crossing| match crossing.packet().map(|packet| packet.body) {
        Some(Body::Odata(data)) => data.sqn != Sqn(1),
        Some(Body::Nak(_)) => {
            naks += 1;
            naks > 5
        }
        _ => true,
    });
    world.stream(0, 3, 100 * US);
    world.run(100 * MS);
    assert_eq!(world.numbers(world.first()), [0, 1, 2]);
    assert_eq!(world.net.node(world.first()).counts().naks, 6);
}

/// Somebody who asks for what he has, or for everything, costs others nothing but the rate.
#[test]
fn s5_2_a_receiver_that_asks_for_everything_is_bounded() {
    let config = pgm::SourceConfig { max_bytes_per_second: 10_000_000, burst_bytes: 10_000, ..source() };
    let mut world = World::with(config, receiver(), 1, Link::default(), 1);
    let greedy = world.net.add(address(99), Link::ideal(), Station::new(0, None, None).unwrap());
    world.run(10 * MS);
    world.net.record(false);
    let begin = world.net.now_ns();
    for round in 0..1000_u32 {
        // 1 MB/s of new data, a tenth of the rate.
        world.publish(&round.to_be_bytes().repeat(250));
        let oldest = round.saturating_sub(62);
        world.net.send_as(greedy, address(1), &nak_bytes(&(oldest..=round).collect::<Vec<_>>()));
        world.run(MS);
    }
    let elapsed = world.net.now_ns() - begin;
    let counts = world.net.node(world.source).source_counts();
    assert!(counts.bytes <= 20_000 + elapsed / 100, "{} bytes", counts.bytes);
    assert!(counts.rdata > 5000, "he gets what the rate allows: {}", counts.rdata);
    world.run(10 * MS);
    assert_eq!(world.numbers(world.first()).len(), 1000, "and the others get their data");
}
