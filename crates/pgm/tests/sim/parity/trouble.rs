//! Several receivers, requests that are too many, too early or too late, and packets that cannot be.

use super::*;

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

/// Section 9.3: a list is ordered, also where the first group's number lies before what was delivered.
#[test]
fn s9_3_lists_of_groups_are_ordered() {
    let mut world = puppet(ReceiverConfig { back_off_ns: 0, ..using() });
    let offer = Some(ParityParameters { proactive: false, on_demand: true, group_size: 8 });
    world.forge(spm(1, 0, u32::MAX), Options { parity_parameters: offer, ..none() });
    for sqn in 0..7 {
        world.forge(odata(sqn, 0, &sqn.to_be_bytes()), none());
    }
    world.run(MS);
    world.forge(spm(2, 0, 31), Options { parity_parameters: offer, ..none() });
    world.run(100 * US);
    assert_eq!(asked(&world, "NAK", true), [[0, 15, 23, 31]]);
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
    let lost = |first| ours(SessionEvent::Lost { first: Sqn(first), count: 1 });
    assert!(world.events(node).ends_with(&[lost(2), lost(4)]));
}

/// SPMs say how large groups are (OPT_PARITY_PRM, section 11.2), and the first of them may be lost: parity that comes before
/// one is of no use, and no fault.
#[test]
fn parity_before_its_parameters_is_of_no_use() {
    let mut world = puppet(using());
    let node = world.first();
    world.forge(odata(0, 0, b"data"), none());
    let parity = |world: &mut World, first| {
        let body = Body::Odata(Data { sqn: Sqn(first), trail: Sqn(0), payload: b"data" });
        world.forge(body, Options { parity: true, ..none() });
        world.run(MS);
    };
    parity(&mut world, 0);
    assert_eq!((counts(&world, node).parity_unused, counts(&world, node).ignored), (1, 0));
    let offer = Some(ParityParameters { proactive: true, on_demand: true, group_size: 2 });
    world.forge(spm(1, 0, 0), Options { parity_parameters: offer, ..none() });
    // From the next group on.
    world.forge(odata(1, 0, b"data"), none());
    world.forge(odata(2, 0, b"data"), none());
    parity(&mut world, 2);
    assert_eq!((counts(&world, node).parity_unused, counts(&world, node).parity_packets), (1, 1));
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
