//! Whatever happens to packets, and whatever comes.

use super::*;
use proptest::prelude::*;

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
            let finished = world.events(*node).contains(&ours(SessionEvent::Finished));
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
        let take = |receiver: &mut pgm::Receiver, now: u64, packet: Packet<'_>| {
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
            // Another session begins when nothing of the old one is left to be delivered.
            while let Some(event) = receiver.poll_event() {
                last = last.filter(|_| !matches!(event.what, SessionEvent::Restarted));
            }
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
