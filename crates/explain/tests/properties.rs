//! What holds for any events, messages and causes.

use model::{Blame, Cause, CauseClass, ExplainedStay, FarStays, PathSegment, SegmentTime};
use proptest::prelude::*;
use stats::Histogram;
use std::collections::BTreeSet;
use windhover_explain::blame::blame;
use windhover_explain::event::Vector;
use windhover_explain::stay::{STAGES, Slice, Work};
use windhover_explain::{
    Event, EventKind, Explained, Side, Stage, Stamp, Stay, Timeline, Usual, blame_table, explain_stay, join,
};

/// Events and segments lie within so many ns.
const LONG_NS: u64 = 100_000;
const TIDS: i32 = 5;

fn kinds() -> impl Strategy<Value = EventKind> {
    let tid = || 0..TIDS;
    let long = || 0..30_000_u64;
    let names = prop::sample::select(vec!["cc1", "hog", "ksoftirqd/0", "wh-explain"]);
    prop_oneof![
        4 => (tid(), prop::sample::select(vec![0_u32, 1, 2, 4, 8]), any::<bool>(), tid(), 0..140_u8, names).prop_map(
            |(from, from_state, throttled, to, to_priority, name)| {
                EventKind::Switch { from, from_state, throttled, to, to_priority, to_name: name.into() }
            }
        ),
        1 => (tid(), tid()).prop_map(|(tid, by)| EventKind::Waking { tid, by }),
        1 => long().prop_map(|ns| EventKind::Hardirq { ns, irq: 1, name: "eth0".into() }),
        1 => (long(), prop::sample::select(vec![Vector::LocalTimer, Vector::Reschedule, Vector::Other]))
            .prop_map(|(ns, vector)| EventKind::Vector { ns, vector }),
        2 => (long(), 0..10_u8, 0..30_000_u32)
            .prop_map(|(ns, vector, since_raise_ns)| EventKind::Softirq { ns, vector, since_raise_ns }),
        2 => (tid(), long()).prop_map(|(tid, ns)| EventKind::Ran { tid, ns }),
        1 => (tid(), 0..4_u16).prop_map(|(tid, from)| EventKind::Migrated { tid, from, to: 0 }),
        1 => tid().prop_map(|tid| EventKind::PageFault { tid }),
    ]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    // Some of one time.
    let event = (1..LONG_NS / 1000, kinds()).prop_map(|(at_us, kind)| Event { at_ns: 1000 * at_us, cpu: 0, kind });
    prop::collection::vec(event, 0..40)
}

fn slices() -> impl Strategy<Value = Slice> {
    let works = [
        (Work::Runs, PathSegment::FarSend),
        (Work::Runs, PathSegment::FarApplication),
        (Work::Waits, PathSegment::NearWakeUp),
        (Work::Receives, PathSegment::NearReceive),
        (Work::Expires, PathSegment::Expiry),
    ];
    (prop::sample::select(works.to_vec()), 0..LONG_NS, 0..LONG_NS, 0..TIDS, 0..2_u16).prop_map(
        |((work, segment), from_ns, long_ns, thread, from_cpu)| Slice {
            segment,
            work,
            thread,
            from: Stamp { at_ns: from_ns, cpu: from_cpu },
            to: Stamp { at_ns: from_ns + long_ns, cpu: 0 },
        },
    )
}

/// Of a thread that runs, the rules take what is left of the excess.
fn waiting() -> impl Strategy<Value = Slice> {
    slices().prop_filter("does not run", |slice| slice.work != Work::Runs)
}

proptest! {
    /// Catches: a gap or an overlap, and with it time that no one or two are blamed for; a panic where times lie apart.
    #[test]
    fn a_timeline_covers_the_time_once(events in events(), start_ns in 0..LONG_NS, end_ns in 0..LONG_NS) {
        let timeline = Timeline::new(&events, start_ns, end_ns);
        let mut at_ns = start_ns;
        for span in &timeline.spans {
            prop_assert_eq!(span.start_ns, at_ns);
            prop_assert!(span.end_ns > span.start_ns);
            at_ns = span.end_ns;
        }
        prop_assert_eq!(at_ns, end_ns.max(start_ns));
        let missing_ns = timeline.missing_between(start_ns, end_ns);
        prop_assert!(missing_ns <= end_ns.saturating_sub(start_ns), "{} ns are missing", missing_ns);
    }

    /// Catches: a result that depends on which of two events of one time comes first in the list.
    #[test]
    fn the_order_of_events_does_not_matter(
        (events, shuffled) in events().prop_flat_map(|events| (Just(events.clone()), Just(events).prop_shuffle())),
        slice in slices(),
        own in 0..140_u8,
    ) {
        let timelines = [events, shuffled].map(|events| Timeline::new(&events, slice.from.at_ns, slice.to.at_ns));
        let [first, second] = timelines.each_ref().map(|timeline| blame(&slice, slice.ns(), own, timeline, "reflector"));
        prop_assert_eq!(first, second);
        prop_assert_eq!(&timelines[0].spans, &timelines[1].spans);
    }

    /// Catches: causes that add up to more or less than the excess, the same cause twice, a sort by something else than time.
    #[test]
    fn causes_of_a_segment_add_up_to_its_excess(
        events in events(), slice in slices(), part in 0..=100_u64, own in 0..140_u8,
    ) {
        let excess_ns = slice.ns() * part / 100;
        let timeline = Timeline::new(&events, slice.from.at_ns, slice.to.at_ns);
        let causes = blame(&slice, excess_ns, own, &timeline, "reflector");
        prop_assert_eq!(causes.iter().map(|cause| cause.ns).sum::<u64>(), excess_ns);
        prop_assert!(causes.is_sorted_by_key(|cause| std::cmp::Reverse(cause.ns)));
        let keys: BTreeSet<_> = causes.iter().map(|cause| (cause.class, cause.name.clone(), cause.pid)).collect();
        prop_assert_eq!(keys.len(), causes.len());
        prop_assert!(causes.iter().all(|cause| cause.ns > 0));
        // A timer needs the CPU's interrupts, whatever the policy of its thread.
        if own >= 100 && slice.work != Work::Expires {
            let inversion = [CauseClass::LowerTask, CauseClass::CpuDeaf, CauseClass::FairServer];
            prop_assert!(!causes.iter().any(|cause| inversion.contains(&cause.class)));
        }
    }

    /// Catches: time that two rules name, which the limit to the excess would hide.
    #[test]
    fn no_time_is_blamed_twice(events in events(), slice in waiting(), own in 0..140_u8) {
        let timeline = Timeline::new(&events, slice.from.at_ns, slice.to.at_ns);
        let causes = blame(&slice, 2 * slice.ns() + 1, own, &timeline, "reflector");
        let is_rest = |cause: &&Cause| matches!(cause.class, CauseClass::NoEvent | CauseClass::Unknown);
        let named_ns = sum_of(causes.iter().filter(|cause| !is_rest(cause)));
        prop_assert!(named_ns <= slice.ns(), "{} ns of {}: {:?}", named_ns, slice.ns(), causes);
    }

    /// Catches: a wait of a packet that is longer than the time since its softirq was raised, than it was away, or than a far end
    /// looks back; a kernel without that stage that is blamed all the same.
    #[test]
    fn what_a_packet_waited_lies_before_it(
        events in events(), raised_ns in 0..LONG_NS, sent_ns in 1..LONG_NS, away_ns in 0..LONG_NS, far in any::<bool>(),
    ) {
        let received_ns = sent_ns + away_ns;
        let (side, sent_ns) = if far { (Side::Far, received_ns + 1) } else { (Side::Near, sent_ns) };
        let mut stamps = [Stamp::default(); STAGES];
        let times = [(Stage::Send, 1), (Stage::Sent, sent_ns), (Stage::Raised, raised_ns), (Stage::Received, received_ns)];
        times.into_iter().for_each(|(stage, at_ns)| stamps[stage as usize].at_ns = at_ns);
        let (stay, usual) = (Stay::new(7, stamps, [1, 1]), Usual::new(side));
        let explained = explain_stay(&stay, &usual, 120, "x", &mut |_, from, to, _| Timeline::new(&events, from, to));
        let is_way = |cause: &&Cause| matches!(cause.segment, PathSegment::WireOut | PathSegment::WireBack);
        let sum_ns = sum_of(explained.causes.iter().filter(is_way));
        let since_raise_ns = if raised_ns > 0 { received_ns.saturating_sub(raised_ns) } else { 0 };
        let most_ns = since_raise_ns.min(if far { u64::MAX } else { away_ns });
        prop_assert!(sum_ns <= most_ns, "{} of {}", sum_ns, most_ns);
    }

    /// Catches: a record of the kernel's that makes the reader panic, and an interval that ends before it begins.
    #[test]
    fn any_record_is_decoded(bytes in prop::array::uniform32(any::<u8>()), rest in prop::array::uniform16(any::<u8>())) {
        let mut record = [0; 48];
        record[..32].copy_from_slice(&bytes);
        record[32..].copy_from_slice(&rest);
        // Nearly all kinds are unknown ones: those that are known get a turn each.
        for kind in 0..12 {
            record[30] = kind;
            if let Some(event) = Event::decode(&record) {
                prop_assert!(event.end_ns() >= event.at_ns && matches!(kind, 1..=5 | 7..=9));
                let timeline = Timeline::new(&[event], 1000, 2000);
                prop_assert_eq!(timeline.spans.iter().map(|span| span.end_ns - span.start_ns).sum::<u64>(), 1000);
            }
        }
    }
}

fn cause(class: CauseClass, host: &str, segment: PathSegment, ns: u64) -> Cause {
    Cause { class, name: None, pid: None, host: host.to_owned(), cpu: None, segment, ns, evidence: String::new() }
}

/// A usual message at the near end: 1 µs to the driver, `away_ns`, 1 µs to the return.
fn usual(away_ns: u64) -> Usual {
    let mut usual = Usual::new(Side::Near);
    let mut stamps = [Stamp::default(); STAGES];
    let times = [1000, 1500, 2000, 0, 2000 + away_ns, 0, 0, 3000 + away_ns];
    stamps.iter_mut().zip(times).for_each(|(stamp, at_ns)| stamp.at_ns = at_ns);
    usual.add(&Stay::new(1, stamps, [1, 1]));
    usual
}

fn far_stays(usual_ns: u64, stays: Vec<ExplainedStay>) -> FarStays {
    FarStays { usual_ns, stays, ..FarStays::default() }
}

fn sum_of<'a>(causes: impl IntoIterator<Item = &'a Cause>) -> u64 {
    causes.into_iter().map(|cause| cause.ns).sum()
}

proptest! {
    /// Catches: parts of the way that are not the whole, and causes of the network that are not its excess.
    #[test]
    fn a_joined_message_adds_up(
        away_ns in 5_000..50_000_u64, gone_ns in 5_000..500_000_u64, far_part in 0..=100_u64, usual_far_ns in 1_000..5_000_u64,
        out_part in 0..=100_u64, deferred_ns in 0..100_000_u64, same_clock in any::<bool>(), far_knows in any::<bool>(),
    ) {
        let usual = usual(away_ns);
        let sent_ns = 1_000_000;
        let near_cause = cause(CauseClass::Preempted, "initiator", PathSegment::Return, 700);
        let near = ExplainedStay { start_ns: 0,
            seq: 7,
            ns: gone_ns + 2000,
            sent_ns,
            received_ns: sent_ns + gone_ns,
            segments: vec![],
            causes: vec![near_cause, cause(CauseClass::SoftirqDeferred, "initiator", PathSegment::WireBack, deferred_ns)],
        };
        let far_ns = gone_ns * far_part / 100;
        let far_cause = cause(CauseClass::Stopped, "reflector", PathSegment::FarApplication, far_ns.saturating_sub(usual_far_ns));
        let far_segment = SegmentTime {
            segment: PathSegment::FarApplication, host: "reflector".to_owned(), cpu: None, ns: far_ns, excess_ns: 0,
        };
        let received_ns = sent_ns + (gone_ns - far_ns) * out_part / 100;
        let (segments, causes) = (vec![far_segment], vec![far_cause]);
        let stay = ExplainedStay { start_ns: 0, seq: if far_knows { 7 } else { 8 }, ns: far_ns, received_ns, sent_ns: received_ns + far_ns, segments, causes };
        let far = far_stays(usual_far_ns, vec![stay]);
        let joined = join(near, &usual, Some(&far), same_clock);

        let is_wire = |segment| matches!(segment, PathSegment::WireOut | PathSegment::WireBack);
        let all_ns: u64 = joined.segments.iter().map(|part| part.ns).sum();
        prop_assert_eq!(all_ns, if far_knows { gone_ns } else { gone_ns.saturating_sub(usual_far_ns) });
        let excess_ns: u64 = joined.segments.iter().filter(|part| is_wire(part.segment)).map(|part| part.excess_ns).sum();
        prop_assert_eq!(sum_of(joined.causes.iter().filter(|cause| is_wire(cause.segment))), excess_ns);
        let beyond_ns = gone_ns.saturating_sub(away_ns);
        let beyond_ns = if beyond_ns < (away_ns / 32).max(1000) { 0 } else { beyond_ns };
        let far_excess_ns = if far_knows { far_ns.saturating_sub(usual_far_ns) } else { 0 };
        prop_assert_eq!(excess_ns, beyond_ns.saturating_sub(far_excess_ns));
        prop_assert!(joined.segments.is_sorted_by_key(|part| part.segment));
        prop_assert!(joined.causes.is_sorted_by_key(|cause| std::cmp::Reverse(cause.ns)));
        prop_assert!((0.0..=1.0).contains(&joined.explained));
        prop_assert_eq!(joined.causes.iter().any(|cause| cause.class == CauseClass::Stopped), far_knows);
    }
}

/// Catches: a far end that does not record, whose time is no one's or has no evidence.
#[test]
fn without_the_far_end_all_that_is_away_is_the_network() {
    let near = ExplainedStay { seq: 7, ns: 302_000, sent_ns: 1000, received_ns: 301_000, ..ExplainedStay::default() };
    let joined = join(near, &usual(20_000), None, false);
    let [wire] = &joined.causes[..] else { panic!("{:?}", joined.causes) };
    assert_eq!(
        (wire.class, wire.ns, wire.evidence.as_str()),
        (CauseClass::Unknown, 280_000, "the far end explained nothing")
    );
}

/// Catches: a stay that the far end had no room to send taken for one that was short, so that the network is blamed for it.
#[test]
fn a_stay_that_found_no_room_is_not_the_network() {
    let near = ExplainedStay { seq: 7, ns: 302_000, sent_ns: 1000, received_ns: 301_000, ..ExplainedStay::default() };
    let far = |left_out_ns| FarStays { left_out_ns, ..far_stays(5_000, Vec::new()) };
    let causes = |left_out_ns| -> Vec<_> {
        let joined = join(near.clone(), &usual(20_000), Some(&far(left_out_ns)), true);
        joined.causes.iter().map(|cause| (cause.class, cause.ns)).collect()
    };
    assert_eq!(causes(0), [(CauseClass::Wire, 280_000)], "all are there");
    assert_eq!(causes(305_000), [(CauseClass::Unknown, 280_000)]);
    assert_eq!(causes(15_000), [(CauseClass::Wire, 270_000), (CauseClass::Unknown, 10_000)]);
}

/// Causes that can be removed, at one end each.
const REMOVABLE: [(CauseClass, &str); 3] =
    [(CauseClass::Preempted, "initiator"), (CauseClass::Preempted, "reflector"), (CauseClass::Steal, "initiator")];

/// Messages of so many ns: what the histogram holds exactly.
fn cells() -> impl Strategy<Value = (Vec<u64>, Vec<Explained>, u64)> {
    let rtts = prop::collection::vec((1..1500_u64, prop::array::uniform3(0..500_u64)), 1..400);
    (rtts, 100..1500_u64).prop_map(|(messages, over_ns)| {
        let late = messages.iter().filter(|(rtt_ns, _)| *rtt_ns > over_ns).map(|(rtt_ns, lost)| {
            let causes = REMOVABLE.iter().zip(lost).filter(|(_, ns)| **ns > 0);
            let causes =
                causes.map(|((class, host), ns)| cause(*class, host, PathSegment::Return, (*ns).min(rtt_ns / 3)));
            Explained { rtt_ns: *rtt_ns, causes: causes.collect(), ..Explained::default() }
        });
        let late: Vec<Explained> = late.collect();
        (messages.iter().map(|(rtt_ns, _)| *rtt_ns).collect(), late, over_ns)
    })
}

fn quantile(mut all: Vec<u64>, q: f64) -> Option<u64> {
    all.sort_unstable();
    let rank = stats::rank(q, u64::try_from(all.len()).ok()?);
    all.get(usize::try_from(rank).ok()? - 1).copied()
}

proptest! {
    /// Catches: a predicted percentile that is not that of the messages less what they lost, above what was measured, or out of order.
    #[test]
    fn percentiles_without_a_cause_are_those_of_all_messages_without_it((rtts, late, over_ns) in cells()) {
        let mut histogram = Histogram::new();
        rtts.iter().for_each(|ns| histogram.record(*ns));
        let table = blame_table(&late, &histogram, over_ns);
        for row in &table {
            let is_row = |cause: &&Cause| (cause.class, &cause.host) == (row.class, &row.host);
            let lost = |message: &Explained| sum_of(message.causes.iter().filter(is_row));
            let kept = rtts.iter().copied().filter(|ns| *ns <= over_ns);
            let without: Vec<u64> = kept.chain(late.iter().map(|message| message.rtt_ns - lost(message))).collect();
            let predicted = [row.p99_without_ns, row.p99_9_without_ns];
            prop_assert_eq!(predicted, [0.99, 0.999].map(|q| quantile(without.clone(), q)));
            prop_assert!(predicted[0].is_some() && predicted[0] <= predicted[1]);
            prop_assert!([0.99, 0.999].into_iter().zip(predicted).all(|(q, ns)| ns <= quantile(rtts.clone(), q)));
            let of_it: Vec<u64> = late.iter().map(lost).filter(|ns| *ns > 0).collect();
            let expected = (u64::try_from(of_it.len()).unwrap(), of_it.iter().sum(), of_it.iter().copied().max().unwrap());
            prop_assert_eq!((row.messages, row.lost_ns, row.worst_ns), expected);
        }
        let shares: f64 = table.iter().map(|row: &Blame| row.share).sum();
        prop_assert!(table.is_empty() || (shares - 1.0).abs() < 1e-9);
        prop_assert!(table.is_sorted_by_key(|row| std::cmp::Reverse(row.lost_ns)));
    }
}

/// Catches: a figure of what would be without something that no one knows how to remove.
#[test]
fn what_is_not_known_has_no_prediction() {
    let causes = vec![cause(CauseClass::NoEvent, "initiator", PathSegment::Return, 500)];
    let late = [Explained { rtt_ns: 1000, causes, ..Explained::default() }];
    let mut histogram = Histogram::new();
    histogram.record(1000);
    let table = blame_table(&late, &histogram, 900);
    assert_eq!(table.iter().map(|row| row.p99_without_ns).collect::<Vec<_>>(), [None]);
}
