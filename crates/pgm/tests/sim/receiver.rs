//! RFC 3208, sections 6.1 and 6.2: what a receiver takes and delivers, and what SPMs tell it.

use crate::world::{MS, US, address, none, odata, ours, puppet, rdata, receiver, spm};
use pgm::ReceiverConfig;
use pgm::Sqn;
use pgm::packet::{Body, Fragment, Options, Spm};
use pgm::receiver::{NakPath, SessionEvent};

/// 6.1: by ODATA, from the first that is heard.
#[test]
fn s6_1_reception_begins_with_the_first_odata() {
    let mut world = puppet(receiver());
    for sqn in 50..55_u32 {
        world.forge(odata(sqn, 10, &sqn.to_be_bytes()), none());
    }
    // The trail is before the first that was heard: nothing before that one may be asked for.
    world.forge(spm(0, 10, 54), none());
    world.run(50 * MS);
    assert_eq!(world.numbers(world.first()), [50, 51, 52, 53, 54]);
    assert_eq!(world.asked(world.first()), []);
}

/// 6.1: by SPM; what was sent before it is history.
#[test]
fn s6_1_reception_begins_after_the_first_spm() {
    let mut world = puppet(receiver());
    world.forge(spm(0, 10, 54), none());
    for sqn in [55, 57_u32] {
        world.forge(odata(sqn, 10, &sqn.to_be_bytes()), none());
    }
    world.run(MS);
    let asked = world.asked(world.first());
    assert_eq!(asked.iter().map(|(_, sqns)| sqns.clone()).collect::<Vec<_>>(), [[56]]);
    // By RDATA, too.
    world.forge(rdata(56, 10, &56_u32.to_be_bytes()), none());
    world.run(MS);
    assert_eq!(world.numbers(world.first()), [55, 56, 57]);
}

/// 6.1: ODATA and RDATA in the window are taken, doubles and what is outside are not.
#[test]
fn s6_1_doubles_and_what_is_outside_is_discarded() {
    let mut world = puppet(receiver());
    world.forge(spm(0, 0, u32::MAX), none());
    for (sqn, repaired) in
        [(0, false), (1, true), (1, false), (0, true), (2, false), (u32::MAX, false), (0x8000_0000, true)]
    {
        let payload = u32::to_be_bytes(sqn);
        world.forge(if repaired { rdata(sqn, 0, &payload) } else { odata(sqn, 0, &payload) }, none());
    }
    world.run(MS);
    assert_eq!(world.numbers(world.first())[..3], [0, 1, 2]);
    let counts = world.net.node(world.first()).counts();
    // The number before its own trail is no packet of any window.
    assert_eq!((counts.duplicates, counts.ignored), (2, 1));
}

/// 6.1: only what is contiguous is delivered, in order.
#[test]
fn s6_1_order() {
    let mut world = puppet(receiver());
    world.forge(spm(0, 0, u32::MAX), none());
    for sqn in [0, 3, 2, 5, 4_u32] {
        world.forge(odata(sqn, 0, &sqn.to_be_bytes()), none());
    }
    world.run(100 * US);
    assert_eq!(world.numbers(world.first()), [0]);
    world.forge(rdata(1, 0, &1_u32.to_be_bytes()), none());
    world.run(100 * US);
    assert_eq!(world.numbers(world.first()), [0, 1, 2, 3, 4, 5]);
}

/// 6.1 and 9.2: messages are delivered whole or not at all, with fragments lost, doubled and disordered.
#[test]
fn s6_1_a_fragmented_apdu_is_delivered_whole() {
    let mut world = puppet(receiver());
    world.forge(spm(0, 0, u32::MAX), none());
    let message: Vec<u8> = (0..100).collect();
    let part = |sqn: u32| {
        let offset = sqn * 30;
        let end = (offset as usize + 30).min(100);
        let fragment = Some(Fragment { first: Sqn(0), offset, length: 100 });
        (odata(sqn, 0, &message[offset as usize..end]), Options { fragment, ..none() })
    };
    for sqn in [0, 2, 3, 3] {
        let (body, options) = part(sqn);
        world.forge(body, options);
    }
    world.run(MS);
    assert_eq!(world.bodies(world.first()), Vec::<Vec<u8>>::new());
    let (body, options) = part(1);
    world.forge(body, options);
    world.run(MS);
    assert_eq!(world.bodies(world.first()), std::slice::from_ref(&message));
}

/// 6.2: out of sequence they are discarded; in sequence is greater. A leap of their numbers is believed when a second one
/// confirms it.
#[test]
fn s6_2_spms_are_sequenced() {
    let mut world = puppet(receiver());
    world.forge(spm(7, 0, u32::MAX), none());
    world.forge(odata(0, 0, b"0000"), none());
    world.run(MS);
    for old in [7, 6, 7_u32.wrapping_add(1 << 31), 7_u32.wrapping_add(0xf000_0000)] {
        world.forge(spm(old, 0, 3), none());
    }
    world.run(10 * MS);
    assert_eq!(world.asked(world.first()), [], "what an old SPM tells is not heeded");
    let asked =
        |world: &crate::world::World| world.asked(world.first()).iter().map(|(_, sqns)| sqns.len()).sum::<usize>();
    world.forge(spm(7 + 0x7fff_fff0, 0, 3), none());
    world.run(MS);
    assert_eq!(asked(&world), 0, "one alone may be forged");
    world.forge(spm(7 + 0x7fff_fff2, 0, 3), none());
    world.run(MS);
    assert_eq!(asked(&world), 3);
}

/// 6.2: a leap of SPM_LEAD makes everything up to it missing; no farther than the window has room.
#[test]
fn s6_2_an_spm_that_jumps() {
    let mut world = puppet(ReceiverConfig { window_packets: 64, ..receiver() });
    world.forge(spm(0, 0, u32::MAX), none());
    world.forge(odata(0, 0, b"0000"), none());
    world.run(MS);
    world.forge(spm(1, 0, 5), none());
    world.run(MS);
    let mut asked: Vec<u32> = world.asked(world.first()).into_iter().flat_map(|(_, sqns)| sqns).collect();
    asked.sort_unstable();
    assert_eq!(asked, [1, 2, 3, 4, 5]);
    world.forge(spm(2, 0, 1_000_000), none());
    world.run(MS);
    assert_eq!(world.net.node(world.first()).counts().missing, 5, "one SPM alone may be forged");
    world.forge(spm(3, 0, 69), none());
    world.run(MS);
    assert_eq!(world.net.node(world.first()).counts().missing, 64, "a lead far away costs no more than a window");
    world.forge(spm(4, 0, 9), none());
    world.run(MS);
    let counts = world.net.node(world.first()).counts();
    assert_eq!((counts.missing, counts.lost), (9, 0), "a later SPM takes back what nobody has sent");
}

/// 6.2: NAKs go to the path that the newest SPM names, where routers write it.
#[test]
fn s6_2_naks_go_where_the_newest_spm_says() {
    let mut world = puppet(ReceiverConfig { repeat_ns: 5 * MS, nak_path: NakPath::Spm, ..receiver() });
    world.forge(spm(0, 0, u32::MAX), none());
    world.forge(odata(0, 0, b"0000"), none());
    world.forge(odata(2, 0, b"0002"), none());
    world.run(MS);
    let path = address(77);
    world.forge(Body::Spm(Spm { sqn: Sqn(1), trail: Sqn(0), lead: Sqn(2), path }), none());
    world.run(9 * MS);
    let to: Vec<_> = world.sent_by(world.first(), "NAK").iter().map(|one| one.to).collect();
    assert_eq!(to, [address(1), path]);
}

/// 6.2: no NAK before an SPM, and nothing is lost by that.
#[test]
fn s6_2_no_nak_before_the_first_spm() {
    let mut world = puppet(receiver());
    for sqn in [0, 2, 3, 7_u32] {
        world.forge(odata(sqn, 0, &sqn.to_be_bytes()), none());
    }
    world.run(3000 * MS);
    let counts = world.net.node(world.first()).counts();
    assert_eq!((world.asked(world.first()).len(), counts.lost, counts.missing), (0, 0, 4));
    world.forge(spm(0, 0, 7), none());
    world.run(MS);
    let mut asked: Vec<u32> = world.asked(world.first()).into_iter().flat_map(|(_, sqns)| sqns).collect();
    asked.sort_unstable();
    assert_eq!(asked, [1, 4, 5, 6]);
}

/// 6.2: an SPM that is late tells an old window, which is ignored; its path is used.
#[test]
fn s6_2_an_old_window_is_ignored() {
    let mut world = puppet(receiver());
    for sqn in 100..120_u32 {
        world.forge(odata(sqn, 90, &sqn.to_be_bytes()), none());
    }
    world.forge(spm(0, 50, 105), none());
    world.forge(odata(121, 90, b"0121"), none());
    world.run(MS);
    assert_eq!(world.numbers(world.first()), (100..120).collect::<Vec<_>>());
    assert_eq!(world.asked(world.first()).into_iter().map(|(_, sqns)| sqns).collect::<Vec<_>>(), [[120]]);
    assert_eq!(world.events(world.first()), [ours(SessionEvent::Found)]);
}
