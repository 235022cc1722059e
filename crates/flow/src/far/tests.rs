use super::*;
use crate::explainer::Collected;
use crate::windows::WorstWindows;
use explain::{Stay, Usual};
use model::{Cause, CauseClass, ExplainedStay, PathSegment, SegmentTime};

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
