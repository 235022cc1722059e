//! Packets in order, and what is told of them.

use super::*;
use proptest::prelude::*;

fn packet(kind: PacketKind, numbers: &[u32], time: u64) -> CapturedPacket<'_> {
    CapturedPacket {
        source: 0,
        kind,
        numbers,
        parity: false,
        group: GroupOptions::default(),
        bytes: 100,
        leaving: None,
        clock: 0,
        time_ns: Some(time),
        carried: None,
    }
}

#[test]
fn a_gap_is_asked_for_confirmed_and_repaired() {
    let mut all = Repairs::default();
    for (number, time) in [(0, 1000), (1, 2000)] {
        all.see(&packet(PacketKind::Odata, &[number], time));
    }
    let gap = all.see(&packet(PacketKind::Odata, &[4], 5000));
    assert_eq!((gap.order, gap.delta_ns), (Order::Gap(2), Some(3000)));
    let nak = all.see(&packet(PacketKind::Nak, &[2, 3], 5400));
    assert_eq!((nak.since_gap_ns, nak.since_data_ns, nak.times_before), (Some(400), None, 0));
    assert_eq!(all.see(&packet(PacketKind::Ncf, &[2, 3], 5500)).since_nak_ns, Some(100));
    let repair = all.see(&packet(PacketKind::Rdata, &[2], 6000));
    assert_eq!((repair.order, repair.since_gap_ns), (Order::Late, Some(1000)));
    assert_eq!((repair.since_nak_ns, repair.since_ncf_ns), (Some(600), Some(500)));
    // Asked again, and repaired at last.
    assert_eq!(all.see(&packet(PacketKind::Nak, &[3], 9000)).times_before, 1);
    assert_eq!(all.see(&packet(PacketKind::Rdata, &[3], 9900)).since_gap_ns, Some(4900));
    let again = all.see(&packet(PacketKind::Rdata, &[3], 9950));
    assert_eq!((again.order, again.times_before, again.since_nak_ns), (Order::Repeated, 1, None));
    let figures = all.finish().remove(0);
    let point = &figures.points[0];
    assert_eq!((point.gaps, point.missing, point.filled, point.unneeded), (2, 0, 2, 1));
    assert_eq!((figures.asked, figures.asked_again, figures.unrepaired), (2, 1, 0));
    assert_eq!((figures.nak_to_rdata.count(), figures.nak_to_rdata.max()), (2, Some(4500)));
    assert_eq!(figures.gap_to_rdata.count(), 2);
    let two = Repair {
        number: 2,
        gap_ns: Some(5000),
        nak_ns: Some(5400),
        naks: 1,
        ncf_ns: Some(5500),
        ncfs: 1,
        rdata_ns: Some(6000),
        last_rdata_ns: Some(6000),
        rdatas: 1,
        ..Repair::default()
    };
    assert_eq!((figures.repairs[0], figures.repairs[0].latency_ns()), (two, Some(600)));
    assert_eq!((figures.repairs[1].naks, figures.repairs[1].rdatas), (2, 2));
}

#[test]
fn at_the_source_repairs_follow_data_that_was_seen() {
    let mut all = Repairs::default();
    fn out(kind: PacketKind, numbers: &[u32], time: u64) -> CapturedPacket<'_> {
        CapturedPacket { leaving: Some(true), ..packet(kind, numbers, time) }
    }
    fn back(kind: PacketKind, numbers: &[u32], time: u64) -> CapturedPacket<'_> {
        CapturedPacket { leaving: Some(false), ..packet(kind, numbers, time) }
    }
    for number in 0..5_u32 {
        all.see(&out(PacketKind::Odata, &[number], u64::from(number) * 1000));
    }
    let nak = all.see(&back(PacketKind::Nak, &[3], 4500));
    assert_eq!((nak.since_data_ns, nak.since_gap_ns), (Some(1500), None));
    assert_eq!(all.see(&out(PacketKind::Ncf, &[3], 4600)).since_nak_ns, Some(100));
    let repair = all.see(&out(PacketKind::Rdata, &[3], 4700));
    assert_eq!((repair.order, repair.since_nak_ns, repair.since_data_ns), (Order::Repeated, Some(200), Some(1700)));
    assert_eq!(all.see(&back(PacketKind::Nak, &[4], 4900)).since_data_ns, Some(900));
    let figures = all.finish().remove(0);
    assert_eq!((figures.asked, figures.unrepaired), (2, 1));
    assert_eq!(figures.points.len(), 2);
    assert_eq!((figures.points[0].unneeded, figures.points[0].missing), (1, 0));
}

#[test]
fn on_loopback_nothing_counts_twice() {
    let mut all = Repairs::default();
    let mut time = 0;
    for (kind, number) in [
        (PacketKind::Odata, 7),
        (PacketKind::Odata, 8),
        (PacketKind::Nak, 7),
        (PacketKind::Ncf, 7),
        (PacketKind::Rdata, 7),
    ] {
        for leaving in [true, false] {
            time += 100;
            let notes = all.see(&CapturedPacket { leaving: Some(leaving), ..packet(kind, &[number], time) });
            assert_eq!(notes.times_before, 0);
        }
    }
    let figures = all.finish().remove(0);
    assert!(figures.points.iter().all(|point| point.repeated == 0 && point.packets[&PacketKind::Odata] == 2));
    assert_eq!((figures.repairs[0].naks, figures.repairs[0].rdatas, figures.asked_again), (1, 1, 0));
    assert_eq!(figures.nak_to_rdata.max(), Some(400));
}

#[test]
fn an_spm_shows_what_is_missing_and_how_often_it_comes() {
    let mut all = Repairs::default();
    // An empty window: trail 0, lead the number before it.
    assert_eq!(all.see(&packet(PacketKind::Spm, &[0, u32::MAX], 0)).order, Order::Next);
    all.see(&packet(PacketKind::Odata, &[0], 500));
    let spm = all.see(&packet(PacketKind::Spm, &[0, 2], 4000));
    assert_eq!((spm.order, spm.delta_ns), (Order::Gap(2), Some(4000)));
    assert_eq!(all.see(&packet(PacketKind::Rdata, &[1], 4200)).since_gap_ns, Some(200));
    // No window told.
    assert_eq!(all.see(&packet(PacketKind::Spm, &[0, 0x8000_0000], 9000)).order, Order::Next);
    let figures = all.finish().remove(0);
    assert_eq!((figures.points[0].missing, figures.points[0].between_spms.count()), (1, 2));
}

#[test]
fn what_was_sent_before_the_capture_is_no_loss_and_no_repetition() {
    let mut all = Repairs::default();
    all.see(&packet(PacketKind::Spm, &[0, 99], 0));
    assert_eq!(all.see(&packet(PacketKind::Rdata, &[90], 10)).order, Order::Next);
    assert_eq!(all.see(&packet(PacketKind::Odata, &[100], 20)).order, Order::Next);
    assert_eq!(all.see(&packet(PacketKind::Odata, &[100], 30)).order, Order::Repeated);
    let figures = all.finish().remove(0);
    let point = &figures.points[0];
    assert_eq!((point.gaps, point.filled, point.unneeded, point.repeated), (0, 0, 0, 1));
}

#[test]
fn numbers_go_around_and_begin_anew() {
    let mut all = Repairs::default();
    for (index, number) in (0..).zip([u32::MAX - 1, u32::MAX, 0, 2, 1]) {
        let order = all.see(&packet(PacketKind::Odata, &[number], index)).order;
        let expected = [Order::Next, Order::Next, Order::Next, Order::Gap(1), Order::Late];
        assert_eq!(order, expected[usize::try_from(index).unwrap()], "{number}");
    }
    assert_eq!(all.see(&packet(PacketKind::Odata, &[0x4000_0000], 9)).order, Order::Jump);
    let figures = all.finish().remove(0);
    assert_eq!((figures.points[0].late, figures.points[0].missing), (1, 0));
}

#[test]
fn times_of_two_clocks_are_never_subtracted() {
    let mut all = Repairs::default();
    all.see(&packet(PacketKind::Nak, &[5], 1000));
    assert_eq!(all.see(&CapturedPacket { clock: 1, ..packet(PacketKind::Ncf, &[5], 1500) }).since_nak_ns, None);
    assert_eq!(all.see(&packet(PacketKind::Rdata, &[5], 1700)).since_nak_ns, Some(700));
    assert_eq!(
        all.see(&CapturedPacket { time_ns: None, ..packet(PacketKind::Rdata, &[6], 0) }),
        PacketNotes::default()
    );
}

#[test]
fn answers_belong_to_questions_of_another_source() {
    let mut all = Repairs::default();
    let carried = |source, answer, seq, time| CapturedPacket {
        source,
        carried: Some(CarriedMessage { seq, tag: 9, answer }),
        ..packet(PacketKind::Odata, &[0], time)
    };
    all.see(&carried(0, false, 1, 1000));
    assert_eq!(all.see(&carried(1, true, 1, 1400)).answer, Some((Span::RoundTrip, 400)));
    assert_eq!(all.see(&carried(2, true, 1, 1600)).answer, Some((Span::RoundTrip, 600)), "each reflector");
    assert_eq!(all.see(&carried(2, true, 2, 1600)).answer, None);
    let figures = all.finish();
    assert_eq!(figures[1].answers[0].1.max(), Some(400));
}

#[test]
fn what_a_flood_costs_is_bounded() {
    let mut all = Repairs::default();
    for source in 0..1000 {
        for number in (0..400_000_u32).step_by(1000) {
            all.see(&CapturedPacket { source, ..packet(PacketKind::Odata, &[number], 1) });
            all.see(&CapturedPacket { source, ..packet(PacketKind::Nak, &[number, number + 1, number + 2], 1) });
        }
    }
    assert_eq!(all.sources.len(), MOST_SOURCES);
    assert!(all.histories <= MOST_NUMBERS);
    let sum: usize = all.sources.values().map(|source| source.histories.len()).sum();
    assert_eq!(sum, all.histories);
    let figures = all.finish();
    assert!(figures.iter().all(|one| one.asked == 1200), "{:?}", figures[0].asked);
    assert!(figures.iter().any(|one| one.forgotten > 0));
}

fn parity(kind: PacketKind, numbers: &[u32], time: u64) -> CapturedPacket<'_> {
    CapturedPacket { parity: true, ..packet(kind, numbers, time) }
}

/// A source with groups of four, of which data 0 to 3 came.
fn with_groups() -> Repairs {
    let mut all = Repairs::default();
    let notes = GroupOptions { packets: Some(4), ..GroupOptions::default() };
    all.see(&CapturedPacket { group: notes, ..packet(PacketKind::Spm, &[0, u32::MAX], 0) });
    for number in 0..4_u32 {
        all.see(&packet(PacketKind::Odata, &[number], u64::from(number) * 100));
    }
    all
}

#[test]
fn parity_makes_up_for_what_a_group_lacks() {
    let mut all = with_groups();
    all.see(&packet(PacketKind::Odata, &[5], 500));
    // 4, 6 and 7 are missing: one packet of parity shows it, and is not enough, however often it comes.
    let notes = all.see(&parity(PacketKind::Odata, &[4], 600));
    assert_eq!((notes.order, notes.rebuilt), (Order::Gap(2), 0));
    assert_eq!(all.see(&parity(PacketKind::Rdata, &[4], 650)).rebuilt, 0);
    all.see(&parity(PacketKind::Nak, &[5], 700));
    all.see(&parity(PacketKind::Ncf, &[5], 750));
    assert_eq!(all.see(&parity(PacketKind::Rdata, &[5], 800)).rebuilt, 0);
    // A late packet makes two of three enough.
    assert_eq!(all.see(&packet(PacketKind::Odata, &[7], 900)).rebuilt, 2);
    assert_eq!(all.see(&packet(PacketKind::Rdata, &[6], 950)).order, Order::Repeated);
    let figures = all.finish().remove(0);
    let point = &figures.points[0];
    assert_eq!((point.gaps, point.missing, point.rebuilt, point.late, point.unneeded), (3, 0, 2, 1, 1));
    // 7 came by itself, without a repair.
    assert_eq!((figures.asked, figures.unrepaired, figures.gap_to_rebuilt.max()), (3, 1, Some(400)));
    let four = &figures.repairs[0];
    assert_eq!((four.gap_ns, four.nak_ns, four.ncf_ns), (Some(500), Some(700), Some(750)));
    assert_eq!((four.rebuilt_ns, four.rdata_ns, four.latency_ns()), (Some(900), None, Some(200)));
}

#[test]
fn a_group_that_was_ended_early_lacks_nothing_behind_its_end() {
    let short = GroupOptions { short: Some(2), ..GroupOptions::default() };
    let mut all = with_groups();
    all.see(&packet(PacketKind::Odata, &[4], 500));
    // The last packet of it, which says so, is lost; its parity says so too.
    assert_eq!(all.see(&CapturedPacket { group: short, ..parity(PacketKind::Odata, &[4], 600) }).rebuilt, 1);
    assert_eq!(all.see(&packet(PacketKind::Odata, &[8], 700)).order, Order::Next);
    all.see(&CapturedPacket { group: short, ..packet(PacketKind::Odata, &[9], 800) });
    assert_eq!(all.see(&packet(PacketKind::Odata, &[12], 900)).order, Order::Next);
    let figures = all.finish().remove(0);
    assert_eq!((figures.points[0].gaps, figures.points[0].missing, figures.points[0].rebuilt), (1, 0, 1));
}

#[test]
fn parity_without_what_it_belongs_to_makes_up_for_nothing() {
    // Groups of unknown size, and one that began before the capture.
    let mut all = Repairs::default();
    assert_eq!(all.see(&parity(PacketKind::Odata, &[4], 0)), PacketNotes::default());
    let notes = GroupOptions { packets: Some(4), ..GroupOptions::default() };
    all.see(&CapturedPacket { group: notes, ..packet(PacketKind::Spm, &[0, 0x8000_0000], 0) });
    all.see(&packet(PacketKind::Odata, &[5], 100));
    all.see(&packet(PacketKind::Odata, &[7], 200));
    assert_eq!(all.see(&parity(PacketKind::Odata, &[4], 300)).rebuilt, 0);
    // Far from everything, and of a number that no block has.
    assert_eq!(all.see(&parity(PacketKind::Odata, &[0x4000_0000], 400)).order, Order::Next);
    let beyond = GroupOptions { round: 63, ..GroupOptions::default() };
    assert_eq!(all.see(&CapturedPacket { group: beyond, ..parity(PacketKind::Odata, &[11], 500) }).order, Order::Next);
    let figures = all.finish().remove(0);
    assert_eq!((figures.points[0].missing, figures.points[0].rebuilt), (1, 0));
}

proptest! {
    /// Whatever comes: what was seen and what is missing add up, and nothing breaks.
    #[test]
    fn numbers_add_up(script in proptest::collection::vec((0_u8..6, 0_u32..50, any::<bool>()), 1..120), base: u32) {
        let mut all = Repairs::default();
        let mut seen = std::collections::BTreeSet::new();
        let mut first = None;
        let mut highest = 0;
        for (time, (kind, number, _)) in (0..).zip(script.iter().copied()) {
            let kind = [PacketKind::Odata, PacketKind::Rdata, PacketKind::Nak, PacketKind::Ncf, PacketKind::Odata, PacketKind::Nnak][usize::from(kind)];
            all.see(&packet(kind, &[base.wrapping_add(number)], time));
            if matches!(kind, PacketKind::Odata | PacketKind::Rdata) {
                first.get_or_insert(number);
                highest = highest.max(number);
                seen.insert(number);
            }
        }
        let figures = all.finish().remove(0);
        let missing = first.map_or(0, |first| (first..=highest).filter(|number| !seen.contains(number)).count());
        prop_assert_eq!(figures.points[0].missing, missing as u64);
    }
}
