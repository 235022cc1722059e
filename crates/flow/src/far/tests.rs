use super::*;
use crate::explainer::Collected;
use crate::windows::WorstWindows;
use explain::{Event, EventKind, Stage, Stamp, Stay, Usual};
use model::{Cause, CauseClass, ExplainedStay, KernelEvent, PathSegment, SegmentTime};

fn cause(segment: PathSegment, name: &str) -> Cause {
    let (name, host) = (Some(name.to_owned()), "initiator".to_owned());
    Cause {
        class: CauseClass::RunQueue,
        name,
        pid: Some(4711),
        host,
        cpu: None,
        segment,
        ns: u64::MAX,
        evidence: String::new(),
    }
}

/// Catches: names or ids of programs of others that leave a host without its owner's leave.
#[test]
fn names_stay_at_the_far_end_unless_they_are_allowed() {
    let stay =
        || ExplainedStay { ns: 7, causes: vec![cause(PathSegment::FarWakeUp, "secret")], ..ExplainedStay::default() };
    // Of so many messages one stay is less than a hundredth.
    let usual = || {
        let mut usual = Usual::new(Side::Far);
        (0..101).for_each(|seq| usual.add(&Stay::new(seq, Default::default(), [1, 1])));
        usual
    };
    let collected = || Collected {
        usual: usual(),
        stays: vec![(9, stay())],
        windows: WorstWindows::default(),
        dropped: 3,
        limits: Vec::new(),
    };
    let hidden = serde_json::to_string(&far_stays(collected(), false)).unwrap();
    assert!(
        !hidden.contains("secret") && !hidden.contains("4711") && hidden.contains("3 stays found no room"),
        "{hidden}"
    );
    assert!(serde_json::to_string(&far_stays(collected(), true)).unwrap().contains("secret"));
    // Those that are left out are not longer than the last one that is sent.
    let left_out_ns = |dropped| far_stays(Collected { dropped, ..collected() }, true).left_out_ns;
    assert_eq!((left_out_ns(3), left_out_ns(0)), (9, 0));
}

/// Catches: a far end that blames this one, whose times overflow sums, or that sends more than any does.
#[test]
fn a_far_end_is_believed_of_its_own_part_only() {
    let segment =
        SegmentTime { segment: PathSegment::Return, host: "x".into(), cpu: None, ns: u64::MAX, excess_ns: u64::MAX };
    let causes = vec![cause(PathSegment::NearWakeUp, "a"), cause(PathSegment::FarSend, &"b".repeat(1000))];
    let stay = ExplainedStay { segments: vec![segment], causes, ns: u64::MAX, ..ExplainedStay::default() };
    let far = checked(FarStays { stays: vec![stay; MOST_SENT + 5], ..FarStays::default() });
    assert_eq!(far.stays.len(), MOST_SENT);
    let stay = &far.stays[0];
    assert!(stay.segments.is_empty() && stay.causes.len() == 1 && stay.ns == MOST_NS, "{stay:?}");
    let kept = &stay.causes[0];
    assert_eq!((kept.host.as_str(), kept.ns, kept.name.as_ref().unwrap().len()), (FAR, MOST_NS, MOST_LETTERS));
}

/// The thread 7 answers message 3 on CPU 1 after a program has taken that CPU. Other messages are longer, and have no stay.
fn windows(events: usize) -> WorstWindows {
    let mut windows = WorstWindows::default();
    for seq in 3..6 {
        let mut stamps = [Stamp::default(); explain::stay::STAGES];
        stamps[Stage::Received as usize] = Stamp { at_ns: 10_000_000, cpu: 1 };
        stamps[Stage::Sent as usize] = Stamp { at_ns: 10_300_000, cpu: 1 };
        windows.offer(&Stay::new(seq, stamps, [7, 7]), 300_000 + seq, |cpu, start_ns, _| {
            let switch = |from, to, to_name: &str| EventKind::Switch {
                from,
                from_state: 0,
                throttled: false,
                to,
                to_priority: 120,
                to_name: to_name.into(),
            };
            let kinds = [
                switch(7, 4711, "secret"),
                EventKind::Waking { tid: 7, by: 4711 },
                EventKind::Ran { tid: 4711, ns: 5 },
                EventKind::Hardirq { ns: 2, irq: 3, name: "nic".into() },
                switch(4711, 0, "swapper/1"),
                switch(0, 7, "measure"),
            ];
            (0..)
                .zip(kinds.into_iter().cycle().take(events))
                .map(|(at, kind)| Event { at_ns: start_ns + at, cpu, kind })
                .collect()
        });
    }
    windows
}

fn sent(windows: WorstWindows, names: bool) -> FarStays {
    let (mut usual, stay) = (Usual::new(Side::Far), ExplainedStay { seq: 3, ns: 300_000, ..ExplainedStay::default() });
    usual.add(&Stay::new(3, Default::default(), [7, 7]));
    far_stays(Collected { usual, stays: vec![(300_000, stay)], windows, dropped: 0, limits: Vec::new() }, names)
}

/// Catches: names or ids of programs of others in events, events without the message's own thread, windows of stays that are not sent.
#[test]
fn names_in_events_stay_at_the_far_end_unless_they_are_allowed() {
    let far = sent(windows(6), false);
    assert_eq!(far.windows.iter().map(|window| (window.seq, window.host.as_str())).collect::<Vec<_>>(), [(3, FAR)]);
    let hidden = serde_json::to_string(&far).unwrap();
    assert!(!hidden.contains("secret") && !hidden.contains("4711"), "{hidden}");
    let shown = |far: &FarStays| {
        let of = |event: &KernelEvent| (event.name.clone(), event.pid, event.fields.len());
        far.windows[0].events.iter().filter(|event| event.event != "message").map(of).collect::<Vec<_>>()
    };
    let (own, idle) = (("measure".to_owned(), Some(7), 3), ("swapper/1".to_owned(), Some(0), 2));
    let withheld = [
        ("another program".to_owned(), None, 3),
        (String::new(), Some(7), 0),
        (String::new(), None, 1),
        ("nic".to_owned(), None, 1),
        idle,
        own,
    ];
    assert_eq!(shown(&far), withheld);
    let allowed = shown(&sent(windows(6), true));
    assert_eq!(allowed[0], ("secret".to_owned(), Some(4711), 3));
    assert_eq!(
        (allowed[1].2, allowed[2].1, allowed[4].2),
        (1, Some(4711), 3),
        "who woke it, who ran, and who ran before"
    );
}

/// Catches: windows that make the report longer than a frame of the session, and a far end that sends more or other things than any does.
#[test]
fn windows_of_a_far_end_are_bounded() {
    let far = sent(windows(900), true);
    let window = &far.windows[0];
    assert_eq!((window.events.len(), window.left_out), (MOST_SENT_EVENTS + 2, 600), "its two stages are kept");
    assert!(serde_json::to_string(&far.windows).unwrap().len() < MOST_WINDOW_BYTES);
    let mut many = FarStays { windows: vec![window.clone(); MOST_WINDOWS + 5], ..FarStays::default() };
    let first = &mut many.windows[0];
    (first.host, first.placed) = ("initiator".to_owned(), Some(Placed::default()));
    first.events = vec![first.events[0].clone(); 2 * MOST_SENT_EVENTS];
    let event = &mut first.events[0];
    (event.ns, event.name) = (Some(u64::MAX), "b".repeat(1000));
    event.fields.insert("list".to_owned(), vec![1].into());
    event.fields.insert("long".to_owned(), "b".repeat(1000).into());
    let many = checked(many);
    let (first, event) = (&many.windows[0], &many.windows[0].events[0]);
    assert_eq!((many.windows.len(), first.host.as_str(), first.placed), (MOST_WINDOWS, FAR, None));
    assert!(first.events.len() < 2 * MOST_SENT_EVENTS);
    assert_eq!((event.ns, event.name.len()), (Some(MOST_NS), MOST_LETTERS));
    assert!(!["list", "long"].iter().any(|name| event.fields.contains_key(*name)), "{event:?}");
}

/// Catches: events that are not between the times at which the message left and came back, a clock that is moved though it is common, and
/// times of a far end that overflow.
#[test]
fn windows_of_another_clock_are_placed_by_the_middle_of_the_stay() {
    let mut far = sent(windows(6), true);
    far.stays[0].start_ns = 10_000_000;
    let near = ExplainedStay {
        seq: 3,
        start_ns: 700_000_000,
        ns: 500_000,
        sent_ns: 700_040_000,
        received_ns: 700_440_000,
        ..ExplainedStay::default()
    };
    let placed = |far: &FarStays, near: &ExplainedStay, same_clock| far_windows(far, &[(1, near.clone())], same_clock);
    let window = placed(&far, &near, false).remove(0);
    // Of 400 µs it was 300 µs there: it came 50 µs after it had left.
    let moved_ns = 700_090_000 - 10_000_000;
    assert_eq!(window.placed, Some(Placed { moved_ns, within_ns: 50_000 }));
    let came = window.events.iter().find(|event| event.name == "received").unwrap();
    assert_eq!((came.at_ns, window.sent_ns), (700_090_000, 700_000_000));
    assert_eq!((window.start_ns, window.end_ns), (700_090_000 - 200_000, 700_390_000 + 200_000));
    let window = placed(&far, &near, true).remove(0);
    assert_eq!((window.placed, window.start_ns, window.sent_ns), (None, 9_800_000, 700_000_000));
    // The driver or the stack was not seen.
    let unseen = ExplainedStay { sent_ns: 0, ..near.clone() };
    assert_eq!(placed(&far, &unseen, false)[0].placed.unwrap().within_ns, 100_000);
    assert!(placed(&far, &ExplainedStay { seq: 4, ..near.clone() }, false).is_empty());
    (far.windows[0].end_ns, far.windows[0].events[0].at_ns) = (u64::MAX, u64::MAX);
    assert_eq!(placed(&far, &near, false)[0].end_ns, u64::MAX);
    far.stays[0].start_ns = u64::MAX;
    assert!(placed(&far, &near, false).is_empty());
}
