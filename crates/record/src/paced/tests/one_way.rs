//! One-way times against synthetic clocks.

use super::*;
use model::{StampClock, StampTimes, Stamps};
use proptest::prelude::*;

/// A far clock: its lead over ours at our time 0 in ns, how many parts per million it runs fast, and its ticks.
#[derive(Debug, Clone, Copy)]
struct FarClock {
    lead_ns: i64,
    ppm: f64,
    rate: TickRate,
}

impl FarClock {
    /// What it shows when ours shows a time. Integers but for the drift, which is small.
    fn at(self, near: u64) -> u64 {
        let gained = near as f64 * self.ppm * 1e-6;
        #[expect(clippy::cast_possible_truncation, reason = "a few ms")]
        let ns = near.cast_signed() + self.lead_ns + gained.round() as i64;
        self.rate.ticks(ns.cast_unsigned())
    }
}

/// Out, at the far end, and back.
type OneWayTicks = [u64; 3];

/// Messages each ms whose ways are known.
fn exchanges(clock: FarClock, ways: &[OneWayTicks]) -> (PacedConfig, Vec<PacedSample>) {
    let peer = PacedPeer { host: "far".to_owned(), clock: PeerClock::Other(clock.rate) };
    let config = PacedConfig { period_ns: MS, peers: vec![peer], ..config() };
    let samples = (0..).zip(ways).map(|(seq, &[out, there, back])| {
        let mut one = message(&config, seq, 0, out + there + back);
        one.sample.peer_rx = clock.at(one.sample.sent + out);
        one.sample.peer_tx = clock.at(one.sample.sent + out + there);
        one
    });
    (config.clone(), in_order(samples.collect()))
}

#[test]
fn one_counter_is_exact_and_signed() {
    let peer = PacedPeer { host: String::new(), clock: PeerClock::SameCounter };
    let config = PacedConfig { peers: vec![peer], ..config() };
    let samples = (0..2000).map(|seq| {
        let mut one = message(&config, seq, US, 50 * US);
        one.sample.peer_rx = one.sample.sent + 20 * US + seq % 2;
        one.sample.peer_tx = one.sample.peer_rx + 3 * US;
        if seq == 7 {
            // The counters of two CPUs are not quite together.
            one.sample.peer_rx = one.sample.sent - 40;
        }
        if seq == 8 {
            (one.sample.peer_rx, one.sample.peer_tx) = (0, 0);
        }
        one
    });
    let done = run(&config, samples.collect());
    let one_way = done.pace.unwrap().one_way.unwrap();
    assert_eq!((one_way.method.word(), one_way.offset_ns, one_way.error_ns), ("same-clock", 0, 0));
    assert_eq!((one_way.out.count, one_way.back.count), (1999, 1999));
    assert_eq!((one_way.out.min_ns, one_way.out.max_ns), (-40, 20_001));
    assert_eq!(one_way.out.p50_ns.unwrap() / 100, 200);
    assert_eq!(one_way.back.max_ns, 27_000);
    assert_eq!(done.outliers.iter().find(|one| one.seq == 7).map(|one| one.parts_ns["out"]), Some(-40));
}

#[test]
fn nothing_is_said_without_stamps() {
    let done = record(&config(), 100, |_| (0, 50 * US));
    assert_eq!(done.pace.unwrap().one_way, None);
    let peer = PacedPeer { host: String::new(), clock: PeerClock::Other(TickRate::NANOSECONDS) };
    let done = record(&PacedConfig { peers: vec![peer], ..config() }, 100, |_| (0, 50 * US));
    assert_eq!(done.pace.unwrap().one_way, None);
}

#[test]
fn a_steady_path_gives_the_offset_to_the_ns() {
    // An hour and a half ahead, 80 ppm fast, another rate of ticks; 10 µs out, 14 µs back.
    let clock = FarClock { lead_ns: 5_400_000_000_000, ppm: 80.0, rate: TickRate::from_hz(3e9) };
    let (config, samples) = exchanges(clock, &[[10 * US, 2 * US, 14 * US]; 5000]);
    let one_way = run(&config, samples).pace.unwrap().one_way.unwrap();
    assert_eq!(one_way.method.word(), "min-rtt");
    assert!((one_way.drift_ppm - 80.0).abs() < 0.01, "{one_way:?}");
    // Half of the difference cannot be known; the bound says so.
    assert!((one_way.out.mean_ns - 12_000.0).abs() < 3.0 && (one_way.back.mean_ns - 12_000.0).abs() < 3.0);
    assert!((12_000..12_800).contains(&one_way.error_ns), "{one_way:?}");
    let truth = 5_400_000_000_000 + i64::try_from(START / 100_000 * 8).unwrap();
    assert!((one_way.offset_ns - truth).unsigned_abs() <= one_way.error_ns, "{} {truth}", one_way.offset_ns);
}

#[test]
fn a_clock_that_wanders_is_followed() {
    // 25 s: 40 ppm fast, then 40 ppm slow from 12 s on; one straight line would be off by a quarter of a ms.
    let steady = FarClock { lead_ns: 1_000_000_000, ppm: 0.0, rate: TickRate::NANOSECONDS };
    let (config, mut samples) = exchanges(steady, &[[10 * US, 0, 10 * US]; 25_000]);
    for one in &mut samples {
        let since = (one.sample.sent - START) as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "up to 0.5 ms")]
        let gained = ((12e9 - (since - 12e9).abs()) * 40e-6 + 1e6) as u64;
        one.sample.peer_rx += gained;
        one.sample.peer_tx += gained;
    }
    let one_way = run(&config, samples).pace.unwrap().one_way.unwrap();
    assert_eq!(one_way.out.count, 25_000);
    assert!(one_way.error_ns < 100 * US, "{one_way:?}");
    let off = (one_way.out.max_ns - 10_000).max(10_000 - one_way.out.min_ns).unsigned_abs();
    assert!(off <= one_way.error_ns, "off by {off}: {one_way:?}");
}

fn any_way() -> impl Strategy<Value = OneWayTicks> {
    let leg = || prop_oneof![6 => 5_000_u64..30_000, 1 => 5_000_u64..3_000_000];
    (leg(), 500_u64..20_000, leg()).prop_map(|(out, there, back)| [out, there, back])
}

/// The times of each message that is kept, and the means of all, are no further from the truth than this.
fn are_within(error: i64, done: &Recorded, ways: &[OneWayTicks]) {
    for outlier in &done.outliers {
        let [out, _, back] = ways[usize::try_from(outlier.seq).unwrap()].map(|ns| i64::try_from(ns).unwrap());
        assert!((outlier.parts_ns["out"] - out).abs() <= error, "{:?}: {out} of {error}", outlier.parts_ns);
        assert!((outlier.parts_ns["back"] - back).abs() <= error);
    }
    let one_way = done.pace.as_ref().unwrap().one_way.as_ref().unwrap();
    let mean = |leg: usize| ways.iter().map(|way| way[leg] as f64).sum::<f64>() / ways.len() as f64;
    assert!((one_way.out.mean_ns - mean(0)).abs() <= error as f64);
    assert!((one_way.back.mean_ns - mean(2)).abs() <= error as f64);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_truth_lies_within_the_bound(
        lead_ns in 0_i64..100_000_000_000_000,
        ppm in -200.0_f64..200.0,
        ghz in 1.0_f64..4.0,
        extra in (0_u64..50_000, 0_u64..50_000),
        ways in prop::collection::vec(any_way(), 1..800),
    ) {
        let clock = FarClock { lead_ns, ppm, rate: TickRate::from_hz(ghz * 1e9) };
        // One direction takes longer throughout: the offset cannot know, the bound must.
        let ways: Vec<OneWayTicks> = ways.iter().map(|&[out, there, back]| [out + extra.0, there, back + extra.1]).collect();
        let (config, samples) = exchanges(clock, &ways);
        let config = PacedConfig { outliers: model::OutlierRule { worst: 1000, over_ns: None }, ..config };
        let done = run(&config, samples);
        let one_way = done.pace.as_ref().unwrap().one_way.clone().unwrap();
        let error = i64::try_from(one_way.error_ns).unwrap();
        // All are kept, so each message's own figures can be looked at.
        prop_assert_eq!(done.outliers.len(), ways.len());
        are_within(error, &done, &ways);
        let truth = lead_ns as f64 + START as f64 * ppm * 1e-6;
        prop_assert!((one_way.offset_ns as f64 - truth).abs() <= error as f64 + 2.0);
    }
}

/// What stamps of the kernel add to an exchange: the application's way to the driver and from the stack, at both ends.
type Inner = [u64; 4];

/// The far wall clock's time in ns since 1970 by ours, both within tests' reach.
const WALL: u64 = 1_700_000_000_000_000_000;

/// The same exchanges with wall-clock times: `inner` of each way lies outside the driver's and the stack's stamps. What is
/// told of an answer comes `later` answers after it; 0: never.
fn stamped(samples: &[PacedSample], clock: FarClock, inner: &[Inner], later: usize) -> Vec<PacedSample> {
    let far = |near: u64| clock.rate.ns(clock.at(near)) + WALL / 2;
    let mut all: Vec<PacedSample> = samples.to_vec();
    let mut told = Vec::new();
    for one in &mut all {
        let ours = inner[usize::try_from(one.sample.seq).unwrap() % inner.len()];
        let (sent, received) = (one.sample.sent, one.sample.received);
        // The far ticks are times of ours through the far clock: the way back is by search.
        let near_of = |tick: u64| {
            let (mut low, mut high) = (sent, received);
            while low < high {
                let middle = u64::midpoint(low, high);
                if clock.at(middle) < tick { low = middle + 1 } else { high = middle }
            }
            low
        };
        let (rx, tx) = (near_of(one.sample.peer_rx), near_of(one.sample.peer_tx));
        let [send, far_receive, far_send, receive] = ours;
        let driver = (sent + send).min(rx);
        let far_stack = rx.saturating_sub(far_receive).max(driver);
        let stack = received.saturating_sub(receive).max(tx);
        one.stamps = StampTimes {
            sent_ns: WALL + sent,
            driver_ns: WALL + driver,
            far_stack_ns: far(far_stack),
            far_received_ns: far(rx),
            far_sent_ns: far(tx),
            stack_ns: WALL + stack,
            received_ns: WALL + received,
        };
        told.push((one.sample.peer_tx, far((tx + far_send).min(stack))));
    }
    if later > 0 {
        for at in later..all.len() {
            (all[at].told_tx, all[at].told_ns) = told[at - later];
        }
    }
    all
}

fn clock_of(stamps: Stamps, error_ns: u64) -> StampClock {
    StampClock { stamps, relation: (stamps == Stamps::Hardware).then(|| "a fake".to_owned()), error_ns }
}

fn one_way_of(
    config: &PacedConfig,
    samples: &[PacedSample],
    clocks: Option<(StampClock, StampClock)>,
) -> model::OneWay {
    let mut paced = started(&PacedConfig { stamps: Stamps::Kernel, ..config.clone() });
    paced.ingest(samples);
    if let Some((near, far)) = clocks {
        paced.stamp_clocks(Some(&near), &[Some(far)]);
    }
    paced.finish(None).pace.unwrap().one_way.unwrap()
}

fn kernel() -> Option<(StampClock, StampClock)> {
    Some((clock_of(Stamps::Kernel, 0), clock_of(Stamps::Kernel, 0)))
}

#[test]
fn stamps_nearer_to_the_wire_say_closer_what_the_offset_is() {
    let clock = FarClock { lead_ns: 7_000_000_000, ppm: 30.0, rate: TickRate::NANOSECONDS };
    // 30 µs out, of which 4 are on the wire; 40 back, 6 on the wire.
    let (config, samples) = exchanges(clock, &[[30 * US, 5 * US, 40 * US]; 3000]);
    let inner = [[10 * US, 16 * US, 9 * US, 25 * US]];
    let by_ticks = one_way_of(&config, &samples, None);
    assert_eq!((by_ticks.stamps.word(), by_ticks.clocks.len()), ("application", 0));
    assert!((35_000..38_000).contains(&by_ticks.error_ns), "{by_ticks:?}");
    let with = stamped(&samples, clock, &inner, 3);
    let by_kernel = one_way_of(&config, &with, kernel());
    assert_eq!((by_kernel.method.word(), by_kernel.stamps.word()), ("min-rtt", "kernel"));
    assert_eq!(by_kernel.clocks.len(), 2);
    assert!((5_000..6_000).contains(&by_kernel.error_ns), "{by_kernel:?}");
    assert!((by_kernel.out.mean_ns - 30_000.0).abs() <= by_kernel.error_ns as f64, "{by_kernel:?}");
    assert!((by_kernel.back.mean_ns - 40_000.0).abs() <= by_kernel.error_ns as f64);
    assert_eq!((by_kernel.out.count, by_kernel.back.count), (3000, 3000));
    // The offset is of the wall clocks then.
    let lead = 7_000_000_000 + i64::try_from(START / 100_000 * 3).unwrap() - i64::try_from(WALL / 2).unwrap();
    assert!((by_kernel.offset_ns - lead).unsigned_abs() <= by_kernel.error_ns + 2, "{} {lead}", by_kernel.offset_ns);
    // Nobody told when the answers left: the application's time stands in, 9 µs of one side.
    let untold = one_way_of(&config, &stamped(&samples, clock, &inner, 0), kernel());
    assert!((9_000..11_000).contains(&untold.error_ns), "{untold:?}");
    // What the NICs' clocks are worth is added.
    let clocks = Some((clock_of(Stamps::Hardware, 300), clock_of(Stamps::Hardware, 700)));
    let by_nic = one_way_of(&config, &with, clocks);
    assert_eq!((by_nic.stamps.word(), by_nic.error_ns), ("hardware", by_kernel.error_ns + 1000));
    let clocks = Some((clock_of(Stamps::HardwareSent, 300), clock_of(Stamps::HardwareSent, 700)));
    assert_eq!(one_way_of(&config, &with, clocks).stamps.word(), "hardware-sent");
    let mixed = Some((clock_of(Stamps::Hardware, 300), clock_of(Stamps::Kernel, 0)));
    assert_eq!(one_way_of(&config, &with, mixed).stamps.word(), "kernel", "the lesser of the two names it");
    // A clock that is worth nothing leaves the application's stamps the best.
    let clocks = Some((clock_of(Stamps::Hardware, 300), clock_of(Stamps::Hardware, 50_000)));
    assert_eq!(one_way_of(&config, &with, clocks), by_ticks);
    // So does an end that did not say what it stamps with.
    assert_eq!(one_way_of(&config, &with, None), by_ticks);
}

#[test]
fn a_wall_clock_that_is_set_meanwhile_is_not_trusted() {
    let clock = FarClock { lead_ns: 1_000_000_000, ppm: 0.0, rate: TickRate::NANOSECONDS };
    let (config, samples) = exchanges(clock, &[[30 * US, 5 * US, 30 * US]; 4000]);
    let mut with = stamped(&samples, clock, &[[10 * US; 4]], 2);
    for one in with.iter_mut().skip(2000) {
        // A second ahead from the middle on.
        for ns in [&mut one.stamps.far_stack_ns, &mut one.stamps.far_received_ns, &mut one.stamps.far_sent_ns] {
            *ns += 1_000_000_000;
        }
        one.told_ns += 1_000_000_000;
    }
    let found = one_way_of(&config, &with, kernel());
    assert_eq!(found.stamps.word(), "application", "{found:?}");
    assert!(found.error_ns < 33_000);
}

/// Often one way is nothing but what lies outside the stamps: then the truth is an end of what the stamps allow.
fn any_inner() -> impl Strategy<Value = Inner> {
    prop::array::uniform4(prop_oneof![1 => 0_u64..6_000, 1 => 1_000_000_000_u64..1_000_000_001])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_truth_lies_within_the_bound_of_stamps_too_and_it_is_no_worse(
        lead_ns in 0_i64..100_000_000_000_000,
        ppm in -200.0_f64..200.0,
        extra in (0_u64..50_000, 0_u64..50_000),
        ways in prop::collection::vec(any_way(), 1..300),
        inner in prop::collection::vec(any_inner(), 1..20),
        later in 0_usize..20,
        gaps in prop::collection::vec(0_u8..5, 1..40),
    ) {
        let clock = FarClock { lead_ns, ppm, rate: TickRate::NANOSECONDS };
        let ways: Vec<OneWayTicks> = ways.iter().map(|&[out, there, back]| [out + extra.0, there, back + extra.1]).collect();
        let (config, samples) = exchanges(clock, &ways);
        let config = PacedConfig { outliers: model::OutlierRule { worst: 1000, over_ns: None }, stamps: Stamps::Kernel, ..config };
        let mut with = stamped(&samples, clock, &inner, later);
        // Some stamps are missing.
        for (one, gap) in with.iter_mut().zip(gaps.iter().cycle()) {
            match gap {
                1 => one.stamps.driver_ns = 0,
                2 => one.stamps.far_stack_ns = 0,
                3 => one.stamps.stack_ns = 0,
                4 => one.told_tx = 0,
                _ => {}
            }
        }
        let by_ticks = one_way_of(&config, &with, None);
        let mut paced = started(&config);
        paced.ingest(&with);
        let (near, far) = kernel().unwrap();
        paced.stamp_clocks(Some(&near), &[Some(far)]);
        let done = paced.finish(None);
        let one_way = done.pace.as_ref().unwrap().one_way.clone().unwrap();
        prop_assert!(one_way.error_ns <= by_ticks.error_ns, "{:?} {:?}", one_way, by_ticks);
        // The search of the tests for the far times is off by a ns.
        let error = i64::try_from(one_way.error_ns).unwrap() + 1;
        are_within(error, &done, &ways);
    }
}
