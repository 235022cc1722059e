//! What is asked for, what is sent, and what comes of it.

use super::*;

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

/// Sections 11.3.4 and 11.4: parity that no receiver asked for follows its group as ODATA, and spares NAKs.
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
    // One of the first two, then parity does; the third needs neither.
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
