//! Appendix A: forward error correction. OpenPGM's is defective, so these scenarios, by section, are all that judges ours.

use crate::world::{
    MS, PORT, SECOND, TSI, US, World, address, bytes, group, none, numbers, odata, puppet, receiver, source, spm,
};
use pgm::fec::Config;
use pgm::packet::{Body, Data, Nak, Options, Packet, ParityParameters};
use pgm::receiver::{Counts, Event};
use pgm::sim::{Crossing, Link, NodeId};
use pgm::source::SourceCounts;
use pgm::{ReceiverConfig, SourceConfig, Sqn};
use proptest::prelude::*;

fn fec() -> Config {
    Config { group_packets: 8, ..Config::new() }
}

fn offering(fec: Config) -> SourceConfig {
    SourceConfig { fec: Some(fec), ..source() }
}

fn using() -> ReceiverConfig {
    ReceiverConfig { parity: true, ..receiver() }
}

/// A source and receivers that have heard each other.
fn world(fec: Config, config: ReceiverConfig, receivers: usize) -> World {
    let mut world = World::with(offering(fec), config, receivers, Link::default(), 3);
    world.run(50 * MS);
    world.net.forget_sent();
    world
}

fn counts(world: &World, node: NodeId) -> Counts {
    world.net.node(node).counts()
}

fn sent(world: &World) -> SourceCounts {
    world.net.node(world.source).source_counts()
}

/// Loses data packets, not parity, by number.
fn lose(world: &mut World, to: Option<NodeId>, sqns: &[u32]) {
    let sqns = sqns.to_vec();
    world.net.set_filter(move |crossing: &Crossing<'_>| {
        let Some(packet) = crossing.packet() else { return true };
        let Body::Odata(data) = packet.body else { return true };
        packet.options.parity || to.is_some_and(|to| to != crossing.to) || !sqns.contains(&data.sqn.0)
    });
}

/// Parity packets that were sent: type, number, group of parity, size of a short group.
fn parity(world: &World) -> Vec<(&'static str, u32, Option<u32>, Option<u32>)> {
    let packets = world.net.sent().iter().filter_map(|one| one.packet());
    packets
        .filter(|packet| packet.options.parity && matches!(packet.body, Body::Odata(_) | Body::Rdata(_)))
        .map(|packet| {
            let options = packet.options;
            (packet.body.name(), packet.sqn().unwrap().0, options.parity_group, options.current_group_size)
        })
        .collect()
}

/// NAKs or NCFs for parity, or for single packets.
fn asked(world: &World, name: &str, parity: bool) -> Vec<Vec<u32>> {
    let packets = world.net.sent().iter().filter_map(|one| one.packet());
    packets
        .filter(|packet| packet.body.name() == name && packet.options.parity == parity)
        .map(|packet| numbers(&packet))
        .collect()
}

/// A NAK for parity: so many packets of the group that begins with `first`.
fn ask(world: &mut World, first: u32, count: u32) {
    let body = Body::Nak(Nak { sqn: Sqn(first + count - 1), source: address(1), group: group() });
    let options = Options { parity: true, ..none() };
    let nak = bytes(&Packet { tsi: TSI, data_port: PORT, body, options });
    let node = world.first();
    world.net.send_as(node, address(1), &nak);
}

/// Section 11.4: SPMs tell of parity, and of the size of groups.
#[test]
fn s11_4_spms_tell_what_is_offered() {
    for (config, proactive, on_demand) in [
        (fec(), false, true),
        (Config { proactive_packets: 1, ..fec() }, true, true),
        (Config { proactive_packets: 1, on_demand: false, ..fec() }, true, false),
    ] {
        let mut world = World::with(offering(config), using(), 1, Link::default(), 1);
        world.run(10 * MS);
        let spms = world.sent_by(world.source, "SPM");
        let expected = Some(ParityParameters { proactive, on_demand, group_size: 8 });
        assert!(spms.iter().all(|one| one.packet().unwrap().options.parity_parameters == expected));
    }
    let mut plain = World::new(1);
    plain.run(10 * MS);
    let spms = plain.sent_by(plain.source, "SPM");
    assert!(!spms.is_empty() && spms.iter().all(|one| one.packet().unwrap().options.parity_parameters.is_none()));
}

/// Sections 11.3.1 to 11.3.3, 11.4, 11.5: a NAK for as many packets as are missing, less one in its low bits; the NCF that
/// confirms it; parity as RDATA; and the note at each message.
#[test]
fn s11_5_on_demand_a_group_is_asked_for_once_and_for_all_that_it_lacks() {
    let mut world = world(fec(), using(), 1);
    let node = world.first();
    lose(&mut world, None, &[9, 12, 15]);
    world.stream(0, 24, 10 * US);
    world.run(20 * MS);
    assert_eq!(world.numbers(node), (0..24).collect::<Vec<_>>());
    assert_eq!(asked(&world, "NAK", true), [[8 + 3 - 1]]);
    assert_eq!(asked(&world, "NCF", true), [[8 + 3 - 1]]);
    assert!(asked(&world, "NAK", false).is_empty());
    let rdata = |sqn| ("RDATA", sqn, None, None);
    assert_eq!(parity(&world), [rdata(8), rdata(9), rdata(10)]);
    let counts = counts(&world, node);
    assert_eq!((counts.missing, counts.recovered, counts.recovered_by_parity, counts.lost), (3, 3, 3, 0));
    assert_eq!((counts.naks, counts.parity_naks, counts.parity_asked, counts.parity_packets), (1, 1, 3, 3));
    let sent = sent(&world);
    assert_eq!((sent.rdata, sent.parity_rdata, sent.parity_odata, sent.parity_naks), (0, 3, 0, 1));
    for one in world.net.node(node).delivered() {
        let Some(repair) = one.message.repair else {
            assert!(![9, 12, 15].contains(&one.message.first.0));
            continue;
        };
        assert!([9, 12, 15].contains(&one.message.first.0) && repair.parity && repair.naks == 1);
        let (nak, ncf) = (repair.nak_ns.unwrap(), repair.ncf_ns.unwrap());
        assert!(repair.gap_ns <= nak && nak < ncf && ncf <= repair.data_ns);
    }
}

/// Section 11.5: a loss within a group waits for the group's end; then it is asked for although nothing follows.
#[test]
fn s11_5_a_loss_is_noticed_at_the_end_of_its_group() {
    let mut world = world(fec(), using(), 1);
    let node = world.first();
    lose(&mut world, None, &[1]);
    world.stream(0, 7, 10 * US);
    world.run(3 * MS);
    assert!(world.sent_by(node, "NAK").is_empty(), "the group goes on");
    world.stream(7, 1, 10 * US);
    world.run(3 * MS);
    assert_eq!(asked(&world, "NAK", true), [[0]]);
    assert_eq!(world.numbers(node).len(), 8);
}

/// Section 11.5, "in the absence of data": what the last group lacks is asked for one by one.
#[test]
fn s11_5_in_a_pause_single_packets_of_the_last_group_are_asked_for() {
    let mut world = world(fec(), using(), 1);
    let node = world.first();
    lose(&mut world, None, &[9, 11]);
    world.stream(0, 12, 10 * US);
    world.run(100 * MS);
    assert_eq!(world.numbers(node), (0..12).collect::<Vec<_>>());
    assert!(asked(&world, "NAK", true).is_empty() && parity(&world).is_empty());
    assert_eq!((sent(&world).rdata, counts(&world, node).recovered_by_parity), (2, 0));
    // The group goes on, and is whole.
    world.net.clear_filter();
    world.stream(12, 8, 10 * US);
    world.run(20 * MS);
    assert_eq!(world.numbers(node).len(), 20);
}

/// Sections 11.3.4 and 11.4: parity that nobody asked for follows its group as ODATA, and spares NAKs.
#[test]
fn s11_4_proactive_parity_repairs_without_a_word() {
    let mut world = world(Config { proactive_packets: 2, ..fec() }, using(), 3);
    let nodes = world.receivers.clone();
    world.net.set_filter(move |crossing| {
        let Some(packet) = crossing.packet() else { return true };
        let Body::Odata(data) = packet.body else { return true };
        let lost: &[u32] = if crossing.to == nodes[0] {
            &[0, 7]
        } else if crossing.to == nodes[1] {
            &[3, 9]
        } else {
            &[]
        };
        packet.options.parity || !lost.contains(&data.sqn.0)
    });
    world.stream(0, 16, 10 * US);
    world.run(20 * MS);
    let odata = |sqn| ("ODATA", sqn, None, None);
    assert_eq!(parity(&world), [odata(0), odata(1), odata(8), odata(9)]);
    for (node, computed, unused) in [(0, 2, 2), (1, 2, 2), (2, 0, 4)] {
        let node = world.receivers[node];
        assert_eq!(world.numbers(node), (0..16).collect::<Vec<_>>());
        let counts = counts(&world, node);
        assert_eq!((counts.naks, counts.recovered_by_parity, counts.parity_unused), (0, computed, unused));
    }
    // Data come first, parity then, the next group after it.
    let order: Vec<(bool, u32)> = world
        .sent_by(world.source, "ODATA")
        .iter()
        .map(|one| (one.packet().unwrap().options.parity, one.packet().unwrap().sqn().unwrap().0))
        .collect();
    assert_eq!(order[7..11], [(false, 7), (true, 0), (true, 1), (false, 8)]);
}

/// Section 11.4: what was sent unasked is not sent again on demand.
#[test]
fn s11_4_on_demand_parity_has_new_numbers() {
    let mut world = world(Config { proactive_packets: 2, ..fec() }, using(), 1);
    let node = world.first();
    lose(&mut world, None, &[1, 2, 3]);
    world.stream(0, 8, 10 * US);
    world.run(20 * MS);
    assert_eq!(world.numbers(node).len(), 8);
    assert_eq!(
        parity(&world),
        [("ODATA", 0, None, None), ("ODATA", 1, None, None), ("RDATA", 2, None, None)],
        "three are missing, two came: one is asked for"
    );
    assert_eq!(asked(&world, "NAK", true), [[0]]);
}

/// Section 11.5: a source that only sends parity unasked is asked for single packets.
#[test]
fn s11_5_without_parity_on_demand_single_packets_are_asked_for() {
    let mut world = world(Config { proactive_packets: 1, on_demand: false, ..fec() }, using(), 1);
    let node = world.first();
    lose(&mut world, None, &[1, 2, 9]);
    world.stream(0, 16, 10 * US);
    world.run(20 * MS);
    assert_eq!(world.numbers(node), (0..16).collect::<Vec<_>>());
    assert!(asked(&world, "NAK", true).is_empty());
    let counts = counts(&world, node);
    // One of the first two, then parity does; the third needs nobody.
    assert_eq!(counts.recovered, 3);
    assert!(counts.recovered_by_parity >= 1 && sent(&world).rdata <= 2, "{counts:?}");
    assert!(!asked(&world, "NAK", false).iter().flatten().any(|sqn| *sqn == 9));
}

/// Sections 11.1 and 11.5: who does not use parity asks for packets and gets them, beside others who do.
#[test]
fn s11_1_receivers_with_and_without_parity_live_together() {
    let mut world = world(fec(), using(), 1);
    let plain = world.receiver(receiver(), Link::default());
    world.run(20 * MS);
    lose(&mut world, None, &[2, 5]);
    world.stream(0, 16, 10 * US);
    world.run(20 * MS);
    for node in [world.first(), plain] {
        assert_eq!(world.numbers(node), (0..16).collect::<Vec<_>>());
    }
    assert_eq!(counts(&world, plain).recovered_by_parity, 0);
    assert!(counts(&world, plain).naks > 0 && counts(&world, plain).parity_naks == 0);
}

/// A source without parity is asked for packets, whatever the receiver could do.
#[test]
fn s11_5_without_an_offer_nothing_changes() {
    let mut world = World::with(source(), using(), 1, Link::default(), 3);
    world.run(50 * MS);
    let node = world.first();
    world.lose(None, &[2, 5]);
    world.stream(0, 8, 10 * US);
    world.run(20 * MS);
    assert_eq!(world.numbers(node).len(), 8);
    assert_eq!((counts(&world, node).parity_naks, sent(&world).rdata), (0, 2));
}

/// Sections 11.1 and 11.4: a NAK for single packets of a full group may be answered by parity.
#[test]
fn s11_4_single_packets_of_full_groups_may_be_repaired_by_parity() {
    let mut world = world(Config { parity_for_selective: true, ..fec() }, using(), 1);
    let node = world.first();
    lose(&mut world, None, &[9, 10]);
    world.stream(0, 20, 10 * US);
    // Of a full group, and of the last one, which is not.
    let nak = crate::world::nak_bytes(&[1, 3, 17]);
    world.net.send_as(node, address(1), &nak);
    world.run(20 * MS);
    let names = parity(&world);
    assert_eq!(names.iter().filter(|(_, sqn, ..)| *sqn < 8).count(), 2, "{names:?}");
    let rdata: Vec<u32> = world
        .sent_by(world.source, "RDATA")
        .iter()
        .filter_map(|one| one.packet().filter(|packet| !packet.options.parity)?.sqn())
        .map(|sqn| sqn.0)
        .collect();
    assert_eq!(rdata, [17]);
    assert_eq!(world.numbers(node), (0..20).collect::<Vec<_>>());
}

/// Section 11.2, "variable TSDU length": padding, the encoded length, and the header's flag; none of it where all are alike.
#[test]
fn s11_2_packets_of_different_lengths_are_recovered_with_theirs() {
    let mut world = world(fec(), using(), 1);
    let node = world.first();
    lose(&mut world, None, &[0, 3, 7, 8, 15]);
    let messages: Vec<Vec<u8>> = (0..16_u8)
        .map(|number| match number {
            8.. => vec![number; 100],
            3 => Vec::new(),
            7 => vec![number; 1410],
            _ => vec![number; usize::from(number) * 150 + 1],
        })
        .collect();
    for message in &messages {
        world.publish(message);
        world.run(10 * US);
    }
    world.run(20 * MS);
    assert_eq!(world.bodies(node), messages);
    let lengths: Vec<(bool, usize)> = world
        .net
        .sent()
        .iter()
        .filter_map(|one| one.packet())
        .filter_map(|packet| match packet.body {
            Body::Rdata(data) => Some((packet.options.variable_length, data.payload.len())),
            _ => None,
        })
        .collect();
    assert_eq!(lengths, [(true, 1412), (true, 1412), (true, 1412), (false, 100), (false, 100)]);
}

/// Section 11.2, "payload-specific options": fragments come back as fragments, beside packets that are none.
#[test]
fn s11_2_fragments_are_recovered_with_their_option() {
    let mut world = world(fec(), using(), 1);
    let node = world.first();
    // 0: one packet; 1 to 4: a message in fragments; 5, 6, 7: one each.
    lose(&mut world, None, &[0, 1, 3, 4, 6]);
    let long: Vec<u8> = (0..5000_u16).map(|at| u8::try_from(at % 251).unwrap()).collect();
    let messages = [vec![1; 1410], long, vec![2; 3], vec![3; 4], vec![4; 5]];
    for message in &messages {
        world.publish(message);
    }
    world.run(50 * MS);
    assert_eq!(world.bodies(node), messages);
    assert_eq!(counts(&world, node).recovered_by_parity, 5);
    for one in world.net.sent().iter().filter_map(|one| one.packet()).filter(|packet| packet.options.parity) {
        if matches!(one.body, Body::Rdata(_)) {
            assert!(one.options.encoded_fragment.is_some() && one.options.fragment.is_none());
        }
    }
    assert!(world.net.sent().iter().all(|one| one.bytes.len() <= 1472));
}

/// Section 11.2: where more parity is needed than a group has numbers, OPT_PARITY_GRP counts on.
#[test]
fn s11_2_more_parity_than_data_is_numbered_by_groups() {
    let mut world = world(fec(), using(), 1);
    world.stream(0, 8, 10 * US);
    for _ in 0..3 {
        ask(&mut world, 0, 8);
        world.run(5 * MS);
    }
    let numbers: Vec<(u32, Option<u32>)> = parity(&world).iter().map(|(_, sqn, group, _)| (*sqn, *group)).collect();
    let expected: Vec<(u32, Option<u32>)> =
        [None, Some(1), Some(2)].into_iter().flat_map(|group| (0..8).map(move |sqn| (sqn, group))).collect();
    assert_eq!(numbers, expected);
    // With 8 data packets a block has 247 of parity; then they come again.
    for _ in 0..30 {
        ask(&mut world, 0, 8);
        world.run(5 * MS);
    }
    let numbers: Vec<(u32, Option<u32>)> = parity(&world).iter().map(|(_, sqn, group, _)| (*sqn, *group)).collect();
    assert_eq!((numbers[246], numbers[247]), ((6, Some(30)), (0, None)));
}

/// Any parity packet repairs: the first ones are lost on the way.
#[test]
fn s11_5_lost_parity_is_asked_for_again_and_only_what_is_still_needed() {
    let mut world = world(fec(), using(), 1);
    let node = world.first();
    let mut repairs = 0;
    world.net.set_filter(move |crossing| {
        let Some(packet) = crossing.packet() else { return true };
        match packet.body {
            Body::Odata(data) => ![1, 2, 3].contains(&data.sqn.0),
            Body::Rdata(_) => {
                repairs += 1;
                repairs != 1 && repairs != 3
            }
            _ => true,
        }
    });
    world.stream(0, 16, 10 * US);
    world.run(100 * MS);
    assert_eq!(world.numbers(node).len(), 16);
    assert_eq!(asked(&world, "NAK", true), [[2], [1]]);
    assert_eq!(parity(&world).iter().map(|(_, sqn, ..)| *sqn).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    let repair = world.net.node(node).delivered()[1].message.repair.unwrap();
    assert_eq!((repair.naks, repair.parity), (2, true));
}

/// Section 11.4: a request for no more than what waits is confirmed and otherwise passed over; one for more adds what lacks.
#[test]
fn s11_4_requests_of_several_are_consolidated() {
    let slow = SourceConfig { max_bytes_per_second: 100_000, burst_bytes: 4000, ncf_pause_ns: 0, ..offering(fec()) };
    let mut world = World::with(slow, using(), 1, Link::default(), 3);
    world.run(50 * MS);
    for number in 0..8_u32 {
        world.publish(&[u8::try_from(number).unwrap(); 900]);
    }
    world.run(SECOND);
    world.net.forget_sent();
    for _ in 0..4 {
        world.publish(&[9; 900]);
    }
    for count in [2, 1, 2, 4, 3] {
        ask(&mut world, 0, count);
        world.run(100 * US);
    }
    world.run(SECOND);
    assert_eq!(parity(&world).len(), 4);
    assert_eq!(asked(&world, "NCF", true), [[1], [0], [1], [3], [2]]);
}

/// Section 5.2: the same in a storm gets one NCF a while; more is confirmed at once.
#[test]
fn s11_4_a_storm_of_requests_gets_one_confirmation_a_while() {
    let mut world = world(fec(), using(), 1);
    world.stream(0, 8, 10 * US);
    for _ in 0..50 {
        ask(&mut world, 0, 2);
    }
    ask(&mut world, 0, 3);
    world.run(500 * US);
    assert_eq!(asked(&world, "NCF", true), [[1], [2]]);
    assert_eq!(sent(&world).ncfs_spared, 49);
    assert!(parity(&world).len() <= 6, "{:?}", parity(&world));
}

/// Section 11.4: parity begins when all data of the group were sent.
#[test]
fn s11_4_what_is_asked_for_too_early_waits_for_the_data() {
    let mut world = world(fec(), using(), 1);
    world.stream(0, 5, 10 * US);
    ask(&mut world, 0, 2);
    world.run(2 * MS);
    assert_eq!((asked(&world, "NCF", true).len(), parity(&world).len()), (1, 0));
    world.stream(5, 3, 10 * US);
    world.run(2 * MS);
    assert_eq!(parity(&world).len(), 2);
}

#[test]
fn s11_4_a_group_that_left_the_window_is_not_repaired() {
    let config = SourceConfig { window_packets: 32, ..offering(fec()) };
    let mut world = World::with(config, using(), 1, Link::default(), 3);
    world.run(50 * MS);
    world.stream(0, 64, 10 * US);
    world.net.forget_sent();
    ask(&mut world, 0, 2);
    world.run(2 * MS);
    assert!(parity(&world).is_empty());
    assert_eq!(sent(&world).numbers_outside, 1);
    // The window goes on by groups: what is left can be repaired whole.
    let spm = world.sent_by(world.source, "SPM")[0].packet().unwrap();
    let Body::Spm(spm) = spm.body else { panic!("{spm:?}") };
    assert_eq!((spm.trail, spm.lead), (Sqn(32), Sqn(63)));
    ask(&mut world, 32, 8);
    world.run(2 * MS);
    assert_eq!(parity(&world).len(), 8);
}

/// Section 11.5: NAKs for more are sent sooner and hold back those for as much or less, not those for more.
#[test]
fn s11_5_who_lacks_more_asks_for_all() {
    let config = ReceiverConfig { back_off_ns: 20 * MS, ..using() };
    let mut world = World::with(offering(fec()), config, 8, Link::default(), 5);
    world.run(50 * MS);
    let nodes = world.receivers.clone();
    world.net.set_filter(move |crossing| {
        let Some(packet) = crossing.packet() else { return true };
        let Body::Odata(data) = packet.body else { return true };
        // The last one lacks six, the others one each.
        let at = nodes.iter().position(|node| *node == crossing.to).map_or(0, |at| u32::try_from(at).unwrap());
        if at == 7 { data.sqn.0 % 8 > 5 } else { data.sqn.0 != at }
    });
    world.stream(0, 8, 10 * US);
    world.run(200 * MS);
    for node in &world.receivers {
        assert_eq!(world.numbers(*node), (0..8).collect::<Vec<_>>());
    }
    let naks: u64 = world.receivers.iter().map(|node| counts(&world, *node).naks).sum();
    let first = asked(&world, "NAK", true);
    assert!((1..=3).contains(&naks), "{naks} NAKs: {first:?}");
    assert!(first.contains(&vec![5]), "{first:?}");
    assert!(parity(&world).len() <= 8);
}

/// Section 11.5: an NCF for fewer packets confirms nothing, one for as many or more does.
#[test]
fn s11_5_an_ncf_for_less_confirms_nothing() {
    for (count, asked_again) in [(1, true), (2, false), (5, false)] {
        let mut world = puppet(ReceiverConfig { back_off_ns: 0, repeat_ns: 10 * MS, data_ns: 50 * MS, ..using() });
        let node = world.first();
        let offer = Some(ParityParameters { proactive: false, on_demand: true, group_size: 8 });
        world.forge(spm(1, 0, u32::MAX), Options { parity_parameters: offer, ..none() });
        for sqn in [0, 1, 3, 4, 6, 7] {
            world.forge(odata(sqn, 0, &sqn.to_be_bytes()), none());
        }
        world.run(MS);
        assert_eq!(asked(&world, "NAK", true), [[1]]);
        let ncf = Nak { sqn: Sqn(count - 1), source: address(1), group: group() };
        world.forge(Body::Ncf(ncf), Options { parity: true, ..none() });
        world.run(30 * MS);
        assert_eq!(asked(&world, "NAK", true).len() > 1, asked_again, "confirmed {count} of 2");
        assert_eq!(counts(&world, node).ncfs, 1);
    }
}

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
    assert!(!world.events(node).iter().any(|event| matches!(event, Event::Lost { .. })));
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
    assert!(world.events(node).contains(&Event::Finished { tsi: TSI }));
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
        // The end of the group is told while nobody hears.
        world.net.set_filter(|_| false);
        world.run(30 * MS);
        world.net.clear_filter();
        world.stream(3, 1, 10 * US);
        world.run(100 * MS);
        assert_eq!(world.numbers(node), [0, 1, 2, 3]);
        let counts = counts(&world, node);
        assert_eq!((counts.missing, counts.lost), (0, 0), "{counts:?}");
        assert_eq!(parity(&world).len(), 1);
        assert!(!world.events(node).iter().any(|event| matches!(event, Event::Lost { .. })));
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

/// Section 9.4 and 11.5: who comes in the middle of a group gets the rest of it packet by packet, and then parity.
#[test]
fn s11_5_a_late_joiner_uses_parity_from_the_next_group_on() {
    let mut world = world(fec(), using(), 1);
    world.stream(0, 5, 100 * US);
    let late = world.receiver(using(), Link::default());
    lose(&mut world, Some(late), &[6, 9, 10]);
    world.stream(5, 20, 10 * US);
    world.run(50 * MS);
    assert_eq!(world.numbers(late), (5..25).collect::<Vec<_>>());
    let counts = counts(&world, late);
    assert_eq!((counts.recovered, counts.lost), (3, 0));
    assert!(counts.recovered_by_parity <= 2);
}

#[test]
fn a_group_that_nobody_repairs_is_given_up_at_last() {
    let impatient = ReceiverConfig { ncf_retries: 2, data_retries: 2, ..using() };
    let mut world = world(fec(), impatient, 1);
    let node = world.first();
    world.net.set_filter(|crossing| {
        let Some(packet) = crossing.packet() else { return true };
        !matches!(packet.body, Body::Nak(_))
            && !matches!(packet.body, Body::Odata(data) if [2, 4].contains(&data.sqn.0))
    });
    world.stream(0, 8, 10 * US);
    world.run(200 * MS);
    assert_eq!(world.numbers(node), [0, 1, 3, 5, 6, 7]);
    assert_eq!((counts(&world, node).lost, counts(&world, node).naks), (2, 3));
    let lost = |first| Event::Lost { tsi: TSI, first: Sqn(first), count: 1 };
    assert!(world.events(node).ends_with(&[lost(2), lost(4)]));
}

/// Parity that does not go with its data is dropped, and asked for again.
#[test]
fn parity_that_cannot_be_is_not_believed() {
    let mut world = puppet(ReceiverConfig { back_off_ns: 0, ..using() });
    let node = world.first();
    let offer = Some(ParityParameters { proactive: true, on_demand: true, group_size: 2 });
    world.forge(spm(1, 0, u32::MAX), Options { parity_parameters: offer, ..none() });
    world.forge(odata(0, 0, b"long enough"), none());
    let parity = |world: &mut World, sqn, payload: &[u8], variable_length| {
        let body = Body::Rdata(Data { sqn: Sqn(sqn), trail: Sqn(0), payload });
        world.forge(body, Options { parity: true, variable_length, ..none() });
    };
    // Shorter than a packet of its group; a length that is longer than all; no length; an impossible number.
    parity(&mut world, 0, b"short", false);
    world.run(MS);
    assert_eq!(counts(&world, node).parity_inconsistent, 1);
    parity(&mut world, 1, b"long enough\xff\xff", true);
    world.run(MS);
    assert_eq!(counts(&world, node).parity_inconsistent, 2);
    parity(&mut world, 1, b"x", true);
    let far = Options { parity: true, parity_group: Some(u32::MAX), ..none() };
    world.forge(Body::Rdata(Data { sqn: Sqn(0), trail: Sqn(0), payload: b"long enough" }), far);
    world.run(MS);
    assert_eq!(counts(&world, node).parity_unused, 2);
    assert_eq!(world.net.node(node).delivered().len(), 1);
    assert!(asked(&world, "NAK", true).len() > 1);
    // What is right is used.
    let mut right = [0; 11];
    let mut coefficients = [0; 2];
    pgm::fec::Basis::of_data(2).coefficients(2, &mut coefficients);
    let data: [&[u8]; 2] = [b"long enough", b"as long too"];
    pgm::fec::combine(&coefficients, |at| data[at], &mut right);
    parity(&mut world, 0, &right, false);
    world.run(MS);
    assert_eq!(world.net.node(node).delivered()[1].bytes, b"as long too");
}

/// Offers that make no sense are passed over.
#[test]
fn impossible_groups_are_not_used() {
    for group_size in [0, 1, 3, 256, 1024, u32::MAX] {
        let mut world = puppet(ReceiverConfig { back_off_ns: 0, ..using() });
        let offer = Some(ParityParameters { proactive: true, on_demand: true, group_size });
        world.forge(spm(1, 0, u32::MAX), Options { parity_parameters: offer, ..none() });
        world.forge(odata(0, 0, b"a"), none());
        world.forge(odata(2, 0, b"a"), none());
        world.run(MS);
        assert_eq!(asked(&world, "NAK", false), [[1]]);
    }
}

#[test]
fn parameters_of_parity_that_make_no_sense_are_refused() {
    let fec = fec();
    for (bad, field) in [
        (offering(Config { group_packets: 3, ..fec }), "fec.group_packets"),
        (offering(Config { group_packets: 256, ..fec }), "fec.group_packets"),
        (offering(Config { proactive_packets: 248, ..fec }), "fec.proactive_packets"),
        (offering(Config { on_demand: false, ..fec }), "fec.on_demand"),
        (offering(Config { group_pause_ns: Some(0), ..fec }), "fec.group_pause_ns"),
        (SourceConfig { window_packets: 16, ..offering(fec) }, "window_packets"),
        (SourceConfig { first: Sqn(4), ..offering(fec) }, "first"),
    ] {
        assert_eq!(pgm::Source::new(bad, 0).unwrap_err().field, field);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// With losses below everything and timers that do not run out: all, once, in order, by whichever parity.
    #[test]
    fn everything_is_delivered_once_and_in_order(
        lost in 0.0_f64..0.3,
        doubled in 0.0_f64..0.05,
        reordered in 0.0_f64..0.05,
        receivers in 1_usize..4,
        bits in 1_u32..6,
        proactive_packets in 0_u32..4,
        on_demand in any::<bool>(),
        parity_for_selective in any::<bool>(),
        pause in proptest::option::of(1_u64..20),
        wraps in any::<bool>(),
        plain in any::<bool>(),
        messages in proptest::collection::vec((prop_oneof![4 => 4_usize..200, 2 => Just(64_usize), 1 => 1400_usize..6000], 0_u64..40), 1..200),
        seed in any::<u64>(),
    ) {
        let fec = Config {
            group_packets: 1 << bits,
            proactive_packets,
            on_demand: on_demand || proactive_packets == 0,
            group_pause_ns: pause.map(|pause| pause * 50 * US),
            // Who makes no use of parity needs packets.
            parity_for_selective: parity_for_selective && !plain,
        };
        let first = Sqn(if wraps { u32::MAX - 63 } else { 0 });
        let link = Link { lost, doubled, reordered, reorder_ns: 300 * US, jitter_ns: 20 * US, ..Link::default() };
        // Short groups use up numbers: none of them leaves a window too early.
        let window_packets = 8192;
        let source = SourceConfig { first, window_packets, heartbeat_max_ns: 50 * MS, ..offering(fec) };
        let config = ReceiverConfig { window_packets, ..using() };
        let mut world = World::with(source, config, receivers, link, seed);
        if plain {
            world.receiver(ReceiverConfig { window_packets, ..receiver() }, link);
        }
        // An SPM that comes before the first data makes sure that nothing is missed at the beginning.
        world.run(500 * MS);
        let messages: Vec<(Vec<u8>, u64)> = messages
            .iter()
            .zip(0_u32..)
            .map(|((bytes, pause), number)| (number.to_be_bytes().into_iter().cycle().take(*bytes).collect(), pause * 25 * US))
            .collect();
        for (message, pause) in &messages {
            world.publish(message);
            world.run(*pause);
        }
        let source = world.source;
        world.net.node_mut(source).close();
        world.run(10 * SECOND);
        let expected: Vec<Vec<u8>> = messages.into_iter().map(|(message, _)| message).collect();
        for node in &world.receivers {
            let counts = counts(&world, *node);
            let wrong = world.bodies(*node).iter().zip(&expected).position(|(got, expected)| got != expected);
            let got = world.bodies(*node).len();
            prop_assert_eq!((wrong, got), (None, expected.len()), "{:?} {:?}", counts, world.events(*node));
            prop_assert_eq!((counts.lost, counts.recovered), (0, counts.missing));
            prop_assert_eq!(counts.parity_inconsistent, 0);
            prop_assert!(counts.numbers_asked <= 80 + 40 * counts.missing, "{:?}", counts);
            let finished = world.events(*node).contains(&Event::Finished { tsi: TSI });
            prop_assert!(finished, "{:?}", world.events(*node));
        }
        prop_assert!(world.net.sent().iter().all(|one| one.bytes.len() <= 1472));
        prop_assert!(world.net.node(source).source.as_ref().unwrap().is_finished());
    }
}

/// One forged packet, or a pause, or a look at what was delivered.
#[derive(Debug, Clone)]
enum Step {
    Pass(u64),
    Take,
    Packet {
        kind: u8,
        sqn: u32,
        trail: u32,
        payload: usize,
        parity: bool,
        variable: bool,
        group: Option<u32>,
        size: Option<u32>,
        fragment: bool,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let packet = (
        0_u8..6,
        0_u32..80,
        0_u32..40,
        0_usize..6,
        any::<(bool, bool, bool)>(),
        proptest::option::weighted(0.1, 0_u32..40),
        proptest::option::weighted(0.3, 0_u32..9),
    )
        .prop_map(|(kind, sqn, trail, payload, (parity, variable, fragment), group, size)| {
            let trail = if trail < 20 { 0 } else { sqn.saturating_sub(trail) };
            Step::Packet { kind, sqn, trail, payload, parity, variable, group, size, fragment }
        });
    let step = prop_oneof![12 => packet, 2 => (0_u64..20).prop_map(|ms| Step::Pass(ms * MS)), 1 => Just(Step::Take)];
    proptest::collection::vec(step, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever comes, in whatever order: no number stays missing for ever, and each is delivered at most once, in order.
    #[test]
    fn nothing_is_waited_for_for_ever(
        steps in steps(),
        used in any::<bool>(),
        proactive in any::<bool>(),
        on_demand in any::<bool>(),
        group_size in prop_oneof![Just(2_u32), Just(4), Just(8)],
        first in prop_oneof![Just(0_u32), Just(u32::MAX - 31), Just(5)],
    ) {
        let config = ReceiverConfig {
            window_packets: 32, ncf_retries: 2, data_retries: 2, expiry_ns: u64::MAX, parity: used, max_sources: 1, ..receiver()
        };
        let mut receiver = pgm::Receiver::new(config).unwrap();
        let offer = Some(ParityParameters { proactive, on_demand, group_size });
        let (mut now, mut spms, mut newest) = (0, 0, first);
        let mut take = |receiver: &mut pgm::Receiver, now: u64, packet: Packet<'_>| {
            receiver.handle_datagram(now, address(1), &bytes(&packet)).unwrap();
        };
        let pass = |receiver: &mut pgm::Receiver, now: &mut u64, ns: u64| {
            let until = *now + ns;
            let mut calls = 0;
            loop {
                let mut buffer = [0; 500];
                while receiver.poll_transmit(*now, &mut buffer).is_some() {}
                let Some(next) = receiver.poll_timeout().filter(|next| *next <= until) else { break };
                *now = next.max(*now);
                receiver.handle_timeout(*now);
                calls += 1;
                assert!(calls < 100_000, "it never comes to rest");
            }
            *now = until;
        };
        let mut last: Option<Sqn> = None;
        let mut read = |receiver: &mut pgm::Receiver| {
            let mut buffer = [0; 100];
            while let Some(message) = receiver.next_message(&mut buffer) {
                assert!(last.is_none_or(|last| message.first.is_after(last)), "{last:?} {message:?}");
                last = Some(message.first);
            }
        };
        let packet = |body, options| Packet { tsi: TSI, data_port: PORT, body, options };
        let mut spm_of = |lead: u32, trail: u32, size| {
            spms += 1;
            packet(spm(spms, trail, lead), Options { parity_parameters: offer.filter(|_| proactive || on_demand), current_group_size: size, ..none() })
        };
        take(&mut receiver, now, spm_of(first.wrapping_sub(1), first, None));
        for step in steps {
            match step {
                Step::Pass(ns) => pass(&mut receiver, &mut now, ns),
                Step::Take => read(&mut receiver),
                Step::Packet { kind, sqn, trail, payload, parity, variable, group: parity_group, size, fragment } => {
                    let (sqn, trail) = (first.wrapping_add(sqn), first.wrapping_add(trail));
                    if Sqn(sqn).is_after(Sqn(newest)) {
                        newest = sqn | 7;
                    }
                    static DATA: [u8; 16] = [7; 16];
                    let payload = &DATA[..payload * 3];
                    let options = Options {
                        parity,
                        variable_length: parity && variable,
                        parity_group: parity_group.filter(|_| parity),
                        current_group_size: size,
                        encoded_fragment: (parity && fragment).then_some([0; 13]),
                        ..none()
                    };
                    let body = match kind {
                        0 | 1 => odata(sqn, trail, payload),
                        2 => crate::world::rdata(sqn, trail, payload),
                        3 => Body::Ncf(Nak { sqn: Sqn(sqn), source: address(1), group: group() }),
                        4 => Body::Nak(Nak { sqn: Sqn(sqn), source: address(1), group: group() }),
                        _ => {
                            take(&mut receiver, now, spm_of(sqn, trail, size));
                            continue;
                        }
                    };
                    take(&mut receiver, now, packet(body, options));
                }
            }
        }
        // A source that is silent then, but for SPMs: what is missing is given up.
        for _ in 0..8 {
            read(&mut receiver);
            take(&mut receiver, now, spm_of(newest, first, None));
            take(&mut receiver, now, spm_of(newest, first, None));
            pass(&mut receiver, &mut now, 200 * MS);
        }
        read(&mut receiver);
        let counts = receiver.counts();
        prop_assert!(counts.missing <= counts.recovered + counts.lost, "{:?}", counts);
    }
}
