//! The parts of a round trip between two stamps of one host each: see [`model::flow::Segment`].

use crate::latency::Distribution;
use model::{LatencyKind, Segment, SegmentName, StampSource, StampTimes, Stamps};
use std::collections::BTreeMap;

/// Names in the order of [`parts`].
const NAMES: [SegmentName; 5] = {
    use SegmentName::{FarApplication, FarKernel, NearKernel, Send, Wire};
    [Send, Wire, FarKernel, FarApplication, NearKernel]
};

/// The parts of one message in ns; `None` where a stamp is missing, or where the wall clock was set back between two.
pub(super) fn parts(stamps: &StampTimes) -> [Option<u64>; 5] {
    let between = |from: u64, to: u64| if from == 0 || to == 0 { None } else { to.checked_sub(from) };
    let send = between(stamps.sent_ns, stamps.driver_ns);
    let far_kernel = between(stamps.far_stack_ns, stamps.far_received_ns);
    let far_application = between(stamps.far_received_ns, stamps.far_sent_ns);
    let near_kernel = between(stamps.stack_ns, stamps.received_ns);
    let known = [send, far_kernel, far_application, near_kernel];
    // All that is in none of the others, so only where all are known.
    let wire = known
        .into_iter()
        .try_fold(0_u64, |sum, part| sum.checked_add(part?))
        .and_then(|sum| between(stamps.sent_ns, stamps.received_ns)?.checked_sub(sum));
    [send, wire, far_kernel, far_application, near_kernel]
}

/// Adds the parts of one message that are known.
pub(super) fn name(stamps: &StampTimes, named: &mut BTreeMap<String, i64>) {
    for (name, part) in NAMES.iter().zip(parts(stamps)) {
        if let Some(ns) = part.and_then(|ns| i64::try_from(ns).ok()) {
            named.insert(name.word().to_owned(), ns);
        }
    }
}

/// The distribution of each part.
#[derive(Debug, Clone)]
pub(super) struct Segments {
    stamps: Stamps,
    /// What the far end stamps with.
    pub(super) far: Stamps,
    each: [Distribution; 5],
}

impl Segments {
    /// `None` where no stamps were asked for.
    pub(super) fn new(stamps: Stamps) -> Option<Box<Self>> {
        (stamps != Stamps::None).then(|| Box::new(Self { stamps, far: stamps, each: Default::default() }))
    }

    pub(super) fn take(&mut self, stamps: &StampTimes) {
        for (distribution, part) in self.each.iter_mut().zip(parts(stamps)) {
            if let Some(ns) = part {
                distribution.record(ns);
            }
        }
    }

    /// The parts that any message had, in the order of the path.
    pub(super) fn finish(&self) -> Vec<Segment> {
        let of = |name| match (name, if name == SegmentName::FarKernel { self.far } else { self.stamps }) {
            (SegmentName::FarApplication, _) => StampSource::Application,
            (SegmentName::FarKernel | SegmentName::NearKernel, Stamps::HardwareSent) => StampSource::Kernel,
            (SegmentName::Send, Stamps::HardwareSent) => StampSource::Hardware,
            (_, stamps) => stamps.into(),
        };
        let each = NAMES.into_iter().zip(&self.each).filter(|(_, distribution)| distribution.moments.count() > 0);
        each.map(|(name, one)| Segment { name, stamps: of(name), latency: one.summary(LatencyKind::Rtt) }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 µs to the driver, 20 µs of wire both ways, 2 µs in the far kernel, 3 µs there, 4 µs in the near kernel. The far
    /// clock is an hour off.
    const STAMPS: StampTimes = StampTimes {
        sent_ns: 1_000_000,
        driver_ns: 1_001_000,
        far_stack_ns: 3_600_000_000_000,
        far_received_ns: 3_600_000_002_000,
        far_sent_ns: 3_600_000_005_000,
        stack_ns: 1_026_000,
        received_ns: 1_030_000,
    };

    #[test]
    fn parts_add_up_to_the_round_trip() {
        assert_eq!(parts(&STAMPS).map(Option::unwrap), [1000, 20_000, 2000, 3000, 4000]);
        let mut named = BTreeMap::new();
        name(&STAMPS, &mut named);
        assert_eq!(named.values().sum::<i64>(), 30_000);
        assert_eq!(named.get("far-application"), Some(&3000));
    }

    #[test]
    fn a_missing_stamp_costs_its_part_and_the_rest_of_the_way() {
        let stamps = StampTimes { driver_ns: 0, ..STAMPS };
        assert_eq!(parts(&stamps), [None, None, Some(2000), Some(3000), Some(4000)]);
        // The wall clock was set back.
        let stamps = StampTimes { stack_ns: 1_040_000, ..STAMPS };
        assert_eq!(parts(&stamps), [Some(1000), None, Some(2000), Some(3000), None]);
        assert_eq!(parts(&StampTimes::default()), [None; 5]);
    }

    #[test]
    fn only_what_was_told_is_reported() {
        assert!(Segments::new(Stamps::None).is_none());
        let mut segments = Segments::new(Stamps::Hardware).unwrap();
        segments.far = Stamps::Kernel;
        assert_eq!(segments.finish(), []);
        for _ in 0..3 {
            segments.take(&StampTimes { driver_ns: 0, ..STAMPS });
        }
        let done = segments.finish();
        let told: Vec<_> = done.iter().map(|one| (one.name.word(), one.stamps.word())).collect();
        assert_eq!(told, [("far-kernel", "kernel"), ("far-application", "application"), ("near-kernel", "hardware")]);
        assert_eq!((done[0].latency.count, done[0].latency.max_ns), (3, Some(2000)));
        // What is received has no stamps of the NIC then.
        let mut segments = Segments::new(Stamps::HardwareSent).unwrap();
        segments.take(&STAMPS);
        let told: Vec<_> = segments.finish().iter().map(|one| one.stamps.word()).collect();
        assert_eq!(told, ["hardware", "hardware-sent", "kernel", "application", "kernel"]);
    }
}
