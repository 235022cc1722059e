//! What holds on every network.

use crate::world::{MS, SECOND, US, World, ours, receiver, source};
use pgm::ReceiverConfig;
use pgm::receiver::SessionEvent;
use pgm::sim::Link;
use proptest::prelude::*;

#[path = "../../../../fuzz/src/pgm_entries.rs"]
#[allow(unreachable_pub, dead_code, reason = "a part of the fuzz package")]
mod exercise;

fn message(number: u32, bytes: usize) -> Vec<u8> {
    number.to_be_bytes().into_iter().cycle().take(bytes.max(4)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// With loss below everything and timers that do not run out: all, once, in order; and a bounded number of NAKs.
    #[test]
    fn everything_is_delivered_once_and_in_order(
        lost in 0.0_f64..0.7,
        burst in 1.0_f64..4.0,
        doubled in 0.0_f64..0.1,
        reordered in 0.0_f64..0.2,
        jitter_us in 0_u64..300,
        receivers in 1_usize..4,
        sizes in proptest::collection::vec(prop_oneof![8 => 4_usize..200, 1 => 1400_usize..6000], 1..250),
        seed in any::<u64>(),
    ) {
        let link = Link {
            lost, burst, doubled, reordered, reorder_ns: 300 * US, jitter_ns: jitter_us * US, ..Link::default()
        };
        let config = ReceiverConfig { ncf_retries: u32::MAX, data_retries: u32::MAX, ..receiver() };
        let mut world = World::with(source(), config, receivers, link, seed);
        world.net.record(false);
        // Nobody misses the beginning, which a receiver that came late could not ask for.
        while world.receivers.iter().any(|node| world.net.node(*node).counts().spms == 0) {
            world.run(MS);
        }
        let messages: Vec<Vec<u8>> = sizes.iter().zip(0..).map(|(bytes, number)| message(number, *bytes)).collect();
        for message in &messages {
            world.publish(message);
            world.run(100 * US);
        }
        world.net.node_mut(world.source).close();
        world.run(100 * SECOND);
        for node in world.receivers.clone() {
            prop_assert_eq!(&world.bodies(node), &messages);
            let finished = world.events(node).contains(&ours(SessionEvent::Finished));
            prop_assert!(finished);
            let counts = world.net.node(node).counts();
            prop_assert_eq!((counts.lost, counts.recovered), (0, counts.missing));
            // A NAK and its repair both arrive in more than 0.3² of all rounds; five times what that takes on average.
            prop_assert!(counts.numbers_asked <= 200 + 55 * counts.missing, "{:?}", counts);
        }
    }
}

proptest! {
    #[test]
    fn any_script_comes_to_an_end(script in proptest::collection::vec(any::<u8>(), 0..2000)) {
        exercise::engines(&script);
    }
}

/// The same seed, the same packets at the same times; another seed, others.
#[test]
fn a_run_can_be_run_again() {
    let run = |seed| {
        let link = Link { lost: 0.1, doubled: 0.05, reordered: 0.1, reorder_ns: 50 * US, ..Link::default() };
        let mut world = World::with(source(), receiver(), 3, link, seed);
        world.run(10 * MS);
        world.stream(0, 200, 50 * US);
        world.run(SECOND);
        (
            world.net.sent().to_vec(),
            world.receivers.iter().map(|node| world.net.node(*node).counts()).collect::<Vec<_>>(),
        )
    };
    let first = run(4);
    assert!(first.0.len() > 250);
    assert_eq!(first, run(4));
    assert_ne!(first, run(5));
}
