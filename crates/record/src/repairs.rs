//! Captured packets of a reliable multicast to what became of each number: gaps, requests (NAK), their confirmations
//! (NCF), repairs (RDATA) and the times between them. Pure; the capture's own clock is all the time there is.
//!
//! Numbers have 32 bits and wrap around (RFC 3208). A packet may be seen twice on one machine, leaving and arriving
//! (loopback); both are *points*: copies, gaps and intervals are counted at each point for itself. A number's requests,
//! confirmations and repairs travel both ways, so their times are those of the earliest sight at any point.

mod parity;

use crate::timeline::{Order, Span};
pub use parity::GroupOptions;
use parity::Groups;
use stats::Histogram;
use std::collections::BTreeMap;

/// Sources that get figures of their own.
const MOST_SOURCES: usize = 128;
/// Numbers in trouble that are remembered, of all sources together; the oldest of a source give way.
const MOST_NUMBERS: usize = 1 << 16;
/// Ranges of missing numbers that are remembered, a source and point.
const MOST_RANGES: usize = 4096;
/// Numbers that jump further begin anew.
const JUMP: u64 = 1 << 20;
/// Questions that wait for answers, a session and point.
const MOST_WAITING: usize = 1 << 16;
/// Sessions whose answers are looked for.
const MOST_SESSIONS: usize = 64;

/// What kind of packet it is. Their order is that of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PacketKind {
    /// New data.
    Odata,
    /// A repair.
    Rdata,
    /// Source path message.
    Spm,
    /// A request for a repair.
    Nak,
    /// A request's confirmation.
    Ncf,
    /// A local repairer's word to the source that it has repaired.
    Nnak,
    /// A request for an SPM.
    Spmr,
    /// Poll.
    Poll,
    /// Answer to a poll.
    Polr,
    /// Acknowledgement of congestion control.
    Ack,
    /// A type that is not known, or not readable behind its header.
    Other,
}

impl PacketKind {
    /// RFC 3208's name of it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Odata => "ODATA",
            Self::Rdata => "RDATA",
            Self::Spm => "SPM",
            Self::Nak => "NAK",
            Self::Ncf => "NCF",
            Self::Nnak => "N-NAK",
            Self::Spmr => "SPMR",
            Self::Poll => "POLL",
            Self::Polr => "POLR",
            Self::Ack => "ACK",
            Self::Other => "others",
        }
    }
}

/// A message of ours within the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CarriedMessage {
    /// Its number.
    pub seq: u64,
    /// The session's tag.
    pub tag: u64,
    /// An answer.
    pub answer: bool,
}

/// One packet as it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapturedPacket<'a> {
    /// Its source.
    pub source: u32,
    /// What it is.
    pub kind: PacketKind,
    /// The numbers that it is about: one of data, all that a NAK or NCF lists. Of an SPM: trail and lead.
    pub numbers: &'a [u32],
    /// Parity: its numbers name groups, not data.
    pub parity: bool,
    /// What it tells of groups.
    pub group: GroupOptions,
    /// Bytes of payload.
    pub bytes: u64,
    /// Whether it left the machine, where that is known.
    pub leaving: Option<bool>,
    /// The clock that stamped it; times of two clocks are never subtracted.
    pub clock: u32,
    /// When, in ns since 1970.
    pub time_ns: Option<u64>,
    /// A message of ours in it.
    pub carried: Option<CarriedMessage>,
}

/// What is known of a packet by those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketNotes {
    /// To the packet of the same type before it, of the same source and point, in ns; negative when the clock was set back.
    pub delta_ns: Option<i64>,
    /// What its number says at this point. Of an SPM: how many numbers its lead shows to be missing.
    pub order: Order,
    /// From the discovery of the gap at this point to this packet, in ns; for the first repair of a number.
    pub since_gap_ns: Option<u64>,
    /// From the first NAK for its (first) number to this packet, in ns; for the first NCF and the first repair.
    pub since_nak_ns: Option<u64>,
    /// From the first NCF to this packet, in ns; for the first repair.
    pub since_ncf_ns: Option<u64>,
    /// From the first sight of the data itself to this packet, in ns; for the first NAK and the first repair.
    pub since_data_ns: Option<u64>,
    /// How many of these came for the number already at this point: a repeated NAK, NCF or repair.
    pub times_before: u32,
    /// Numbers missing at this point until then that it completes the parity for.
    pub rebuilt: u32,
    /// The time that the answer in it ends, in ns.
    pub answer: Option<(Span, u64)>,
}

/// What became of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Repair {
    /// The number.
    pub number: u32,
    /// When the data itself was first seen, where that was shortly before.
    pub data_ns: Option<u64>,
    /// When a later number showed that it was missing at the capture.
    pub gap_ns: Option<u64>,
    /// First NAK.
    pub nak_ns: Option<u64>,
    /// NAKs, at the point that saw most.
    pub naks: u32,
    /// First NCF.
    pub ncf_ns: Option<u64>,
    /// NCFs.
    pub ncfs: u32,
    /// First repair.
    pub rdata_ns: Option<u64>,
    /// Last repair.
    pub last_rdata_ns: Option<u64>,
    /// Repairs.
    pub rdatas: u32,
    /// When parity first made up for it at the capture.
    pub rebuilt_ns: Option<u64>,
}

impl Repair {
    /// When it was there at last: sent again, or computed from parity.
    #[must_use]
    pub fn repaired_ns(&self) -> Option<u64> {
        self.rdata_ns.into_iter().chain(self.rebuilt_ns).min()
    }

    /// From the first NAK to the first repair, else from the gap to it, in ns.
    #[must_use]
    pub fn latency_ns(&self) -> Option<u64> {
        let from = self.nak_ns.or(self.gap_ns)?;
        self.repaired_ns()?.checked_sub(from)
    }
}

/// What one point saw of one source.
#[derive(Debug, Clone)]
pub struct PointFigures {
    /// Leaving, arriving or not known.
    pub leaving: Option<bool>,
    /// Packets by type.
    pub packets: BTreeMap<PacketKind, u64>,
    /// Payload of new data, in bytes.
    pub bytes: u64,
    /// First to last new data, in ns.
    pub span_ns: u64,
    /// Numbers that were missing when a later one came.
    pub gaps: u64,
    /// Numbers missing at the end.
    pub missing: u64,
    /// New data that came after a later number.
    pub late: u64,
    /// New data whose number had been seen.
    pub repeated: u64,
    /// Repairs whose number was missing until then.
    pub filled: u64,
    /// Repairs whose data, or repair, had been seen: for another receiver, lost behind the capture, or too many.
    pub unneeded: u64,
    /// Packets that hold parity, or ask for it.
    pub parity: u64,
    /// Numbers missing until then that parity made up for.
    pub rebuilt: u64,
    /// Times between new data.
    pub between: Histogram,
    /// Times between SPMs.
    pub between_spms: Histogram,
}

impl PointFigures {
    /// New data a second, first to last; absent for fewer than two.
    #[must_use]
    pub fn per_second(&self) -> Option<f64> {
        let packets = self.packets.get(&PacketKind::Odata).copied().unwrap_or(0);
        (packets > 1 && self.span_ns > 0).then(|| (packets - 1) as f64 * 1e9 / self.span_ns as f64)
    }
}

/// The figures of one source.
#[derive(Debug, Clone)]
pub struct SourceFigures {
    /// Which.
    pub source: u32,
    /// By point.
    pub points: Vec<PointFigures>,
    /// First NAK to first NCF of a number.
    pub nak_to_ncf: Histogram,
    /// First NAK to first repair.
    pub nak_to_rdata: Histogram,
    /// First NCF to first repair.
    pub ncf_to_rdata: Histogram,
    /// Discovery of the gap to first repair.
    pub gap_to_rdata: Histogram,
    /// Discovery of the gap to the parity that makes up for it.
    pub gap_to_rebuilt: Histogram,
    /// Numbers that were asked for, alone or with their group.
    pub asked: u64,
    /// Those that no repair was seen for.
    pub unrepaired: u64,
    /// Numbers that were asked for more than once at one point.
    pub asked_again: u64,
    /// What became of each number in trouble, in the order of the numbers.
    pub repairs: Vec<Repair>,
    /// Those that found no room there; the figures above have them.
    pub forgotten: u64,
    /// Answers of ours in its data, by what they end.
    pub answers: Vec<(Span, Histogram)>,
}

type Time = (u32, u64);

fn between(from: Option<Time>, now: Option<Time>) -> Option<u64> {
    let ((clock, from), (same, now)) = from.zip(now)?;
    if clock == same { now.checked_sub(from) } else { None }
}

/// A number in trouble.
#[derive(Debug, Default)]
struct NumberHistory {
    data: Option<Time>,
    gap: Option<Time>,
    nak: Option<Time>,
    ncf: Option<Time>,
    rdata: Option<Time>,
    last_rdata: Option<Time>,
    rebuilt: Option<Time>,
    /// NAKs, NCFs and repairs by point.
    counts: [[u32; 3]; 3],
}

impl NumberHistory {
    /// The most that one point saw.
    fn most(&self, what: usize) -> u32 {
        self.counts.iter().filter_map(|point| point.get(what)).copied().max().unwrap_or(0)
    }

    fn notes(&self, number: u32) -> Repair {
        let ns = |time: Option<Time>| time.map(|(_, ns)| ns);
        Repair {
            number,
            data_ns: ns(self.data),
            gap_ns: ns(self.gap),
            nak_ns: ns(self.nak),
            naks: self.most(0),
            ncf_ns: ns(self.ncf),
            ncfs: self.most(1),
            rdata_ns: ns(self.rdata),
            last_rdata_ns: ns(self.last_rdata),
            rdatas: self.most(2),
            rebuilt_ns: ns(self.rebuilt),
        }
    }
}

/// Numbers missing at one point: first to last, with the time at which a later one showed it.
#[derive(Debug, Default)]
struct Missing {
    ranges: BTreeMap<u64, (u64, Option<Time>)>,
    /// Numbers of ranges that found no room.
    gone: u64,
}

impl Missing {
    fn add(&mut self, first: u64, last: u64, now: Option<Time>) {
        self.ranges.insert(first, (last, now));
        if self.ranges.len() > MOST_RANGES
            && let Some((first, (last, _))) = self.ranges.pop_first()
        {
            self.gone += last - first + 1;
        }
    }

    /// When the number was found to be missing; `None` when it is not.
    fn when(&self, number: u64) -> Option<Option<Time>> {
        let (_, (last, when)) = self.ranges.range(..=number).next_back()?;
        (number <= *last).then_some(*when)
    }

    fn take(&mut self, number: u64) -> Option<Option<Time>> {
        let when = self.when(number)?;
        let (&first, _) = self.ranges.range(..=number).next_back()?;
        let (last, _) = self.ranges.remove(&first)?;
        if first < number {
            self.ranges.insert(first, (number - 1, when));
        }
        if number < last {
            self.ranges.insert(number + 1, (last, when));
        }
        Some(when)
    }

    fn count(&self) -> u64 {
        self.gone + self.ranges.iter().map(|(first, (last, _))| last - first + 1).sum::<u64>()
    }

    /// They stay missing for good.
    fn forget(&mut self) {
        self.gone = self.count();
        self.ranges.clear();
    }
}

#[derive(Debug)]
struct Point {
    figures: PointFigures,
    last: BTreeMap<PacketKind, Time>,
    first_data: Option<Time>,
    /// Numbers before it were sent before the capture began.
    first: u64,
    highest: Option<u64>,
    missing: Missing,
    groups: Groups,
}

impl Point {
    fn new(leaving: Option<bool>) -> Self {
        Self {
            figures: PointFigures {
                leaving,
                packets: BTreeMap::new(),
                bytes: 0,
                span_ns: 0,
                gaps: 0,
                missing: 0,
                late: 0,
                repeated: 0,
                filled: 0,
                unneeded: 0,
                parity: 0,
                rebuilt: 0,
                between: Histogram::new(),
                between_spms: Histogram::new(),
            },
            last: BTreeMap::new(),
            first_data: None,
            first: 0,
            highest: None,
            missing: Missing::default(),
            groups: Groups::default(),
        }
    }

    /// Counts a packet; the time to the one of its type before.
    fn count(&mut self, packet: &CapturedPacket<'_>, now: Option<Time>) -> Option<i64> {
        let figures = &mut self.figures;
        *figures.packets.entry(packet.kind).or_default() += 1;
        figures.parity += u64::from(packet.parity);
        let before = now.and_then(|now| self.last.insert(packet.kind, now));
        let ahead = between(before, now);
        if packet.kind == PacketKind::Odata {
            figures.bytes = figures.bytes.saturating_add(packet.bytes);
            self.first_data = self.first_data.or(now);
            figures.span_ns = figures.span_ns.max(between(self.first_data, now).unwrap_or(0));
        }
        if let Some(ahead) = ahead {
            match packet.kind {
                PacketKind::Odata => figures.between.record(ahead),
                PacketKind::Spm => figures.between_spms.record(ahead),
                _ => {}
            }
        }
        let ((clock, before), (same, now)) = before.zip(now)?;
        i64::try_from(i128::from(now) - i128::from(before)).ok().filter(|_| clock == same)
    }

    /// Everything up to `number` must have come by now; says how many have not.
    fn expect(&mut self, number: u64, now: Option<Time>) -> u64 {
        let Some(highest) = self.highest else {
            (self.first, self.highest) = (number + 1, Some(number));
            return 0;
        };
        if number <= highest {
            return 0;
        }
        self.highest = Some(number);
        let missing = number - highest;
        self.missing.add(highest + 1, number, now);
        missing
    }

    /// A number that is there now; and when it was found to be missing.
    fn data(&mut self, number: u64, now: Option<Time>) -> (Order, Option<Time>) {
        let Some(highest) = self.highest else {
            (self.first, self.highest) = (number, Some(number));
            return (Order::Next, None);
        };
        if number.abs_diff(highest) > JUMP {
            (self.first, self.highest) = (number, Some(number));
            self.missing.forget();
            return (Order::Jump, None);
        }
        if number > highest {
            self.highest = Some(number);
            let gap = number - highest - 1;
            if gap == 0 {
                return (Order::Next, None);
            }
            self.missing.add(highest + 1, number - 1, now);
            return (Order::Gap(gap), None);
        }
        if number < self.first {
            return (Order::Next, None);
        }
        match self.missing.take(number) {
            Some(when) => (Order::Late, when),
            None => (Order::Repeated, None),
        }
    }

    fn finish(mut self) -> PointFigures {
        self.figures.missing = self.missing.count();
        self.figures
    }
}

#[derive(Debug)]
struct Source {
    id: u32,
    points: [Option<Box<Point>>; 3],
    /// The highest number in 64 bits, which do not wrap around.
    highest: Option<u64>,
    histories: BTreeMap<u64, NumberHistory>,
    /// Data packets of a transmission group, where its SPMs tell.
    group_packets: Option<u64>,
    /// When the newest data were first seen, by number modulo the length.
    recent: Vec<Option<(u64, Time)>>,
    figures: SourceFigures,
}

impl Source {
    /// Data whose time is remembered.
    const RECENT: usize = 1 << 12;

    fn new(id: u32) -> Self {
        Self {
            id,
            points: [None, None, None],
            highest: None,
            histories: BTreeMap::new(),
            group_packets: None,
            recent: vec![None; Self::RECENT],
            figures: SourceFigures {
                source: id,
                points: Vec::new(),
                nak_to_ncf: Histogram::new(),
                nak_to_rdata: Histogram::new(),
                ncf_to_rdata: Histogram::new(),
                gap_to_rdata: Histogram::new(),
                gap_to_rebuilt: Histogram::new(),
                asked: 0,
                unrepaired: 0,
                asked_again: 0,
                repairs: Vec::new(),
                forgotten: 0,
                answers: Vec::new(),
            },
        }
    }

    /// A number in 64 bits: the one nearest to the highest so far.
    fn widen(&self, number: u32) -> u64 {
        let Some(highest) = self.highest else { return (1 << 32) + u64::from(number) };
        #[expect(clippy::cast_possible_truncation, reason = "the low half")]
        let ahead = number.wrapping_sub(highest as u32);
        if ahead < 1 << 31 {
            highest + u64::from(ahead)
        } else {
            highest.saturating_sub(u64::from(ahead.wrapping_neg()))
        }
    }

    fn recent(&self, number: u64) -> Option<Time> {
        let place = usize::try_from(number % Self::RECENT as u64).ok()?;
        self.recent.get(place).copied().flatten().filter(|(known, _)| *known == number).map(|(_, time)| time)
    }

    fn remember(&mut self, number: u64, now: Option<Time>) {
        let place = usize::try_from(number % Self::RECENT as u64).ok().and_then(|at| self.recent.get_mut(at));
        if let Some((place, now)) = place.zip(now)
            && place.is_none_or(|(known, _)| known < number)
        {
            *place = Some((number, now));
        }
    }

    fn finish(mut self) -> SourceFigures {
        let histories = std::mem::take(&mut self.histories);
        for (number, history) in &histories {
            self.close(history);
            #[expect(clippy::cast_possible_truncation, reason = "the low half is the number")]
            self.figures.repairs.push(history.notes(*number as u32));
        }
        self.figures.points = self.points.into_iter().flatten().map(|point| point.finish()).collect();
        self.figures
    }

    fn close(&mut self, history: &NumberHistory) {
        let asked = history.most(0);
        self.figures.asked += u64::from(asked > 0);
        self.figures.asked_again += u64::from(asked > 1);
        self.figures.unrepaired += u64::from(asked > 0 && history.most(2) == 0 && history.rebuilt.is_none());
    }
}

/// Takes packets in the order of the capture.
#[derive(Debug, Default)]
pub struct Repairs {
    sources: BTreeMap<u32, Source>,
    /// Numbers in trouble of all sources.
    histories: usize,
    /// Questions by number, of each session and point.
    waiting: BTreeMap<(u64, usize), BTreeMap<u64, Time>>,
    answers: BTreeMap<(u32, Span), Histogram>,
}

fn place(leaving: Option<bool>) -> usize {
    match leaving {
        Some(true) => 0,
        Some(false) => 1,
        None => 2,
    }
}

impl Repairs {
    /// One more packet.
    pub fn see(&mut self, packet: &CapturedPacket<'_>) -> PacketNotes {
        let known = self.sources.len();
        if known >= MOST_SOURCES && !self.sources.contains_key(&packet.source) {
            return PacketNotes::default();
        }
        let now = packet.time_ns.map(|ns| (packet.clock, ns));
        let at = place(packet.leaving);
        let source = self.sources.entry(packet.source).or_insert_with(|| Source::new(packet.source));
        let new = || Box::new(Point::new(packet.leaving));
        let Some(slot) = source.points.get_mut(at) else { return PacketNotes::default() };
        let mut point = slot.take().unwrap_or_else(new);
        let mut notes = PacketNotes { delta_ns: point.count(packet, now), ..PacketNotes::default() };
        source.offered(&packet.group);
        self.histories += if packet.parity {
            source.parity(packet, &mut point, at, now, &mut notes)
        } else {
            source.numbers(packet, &mut point, at, now, &mut notes)
        };
        if let Some(slot) = source.points.get_mut(at) {
            *slot = Some(point);
        }
        // The oldest of this source give way.
        while self.histories > MOST_NUMBERS {
            let Some((_, history)) = source.histories.pop_first() else { break };
            source.close(&history);
            source.figures.forgotten += 1;
            self.histories -= 1;
        }
        if let Some(carried) = packet.carried.filter(|_| notes.order != Order::Repeated) {
            notes.answer = self.session(packet.source, at, carried, now);
        }
        notes
    }

    /// Questions and answers of ours within the data.
    fn session(&mut self, source: u32, at: usize, carried: CarriedMessage, now: Option<Time>) -> Option<(Span, u64)> {
        if !carried.answer {
            if self.waiting.len() >= MOST_SESSIONS && !self.waiting.contains_key(&(carried.tag, at)) {
                return None;
            }
            let waiting = self.waiting.entry((carried.tag, at)).or_default();
            if let Some(now) = now {
                // The first copy is the question; its repair is none.
                waiting.entry(carried.seq).or_insert(now);
            }
            if waiting.len() > MOST_WAITING {
                waiting.pop_first();
            }
            return None;
        }
        let (asked_at, span) = match at {
            0 => (1, Span::Turnaround),
            1 => (0, Span::RoundTrip),
            _ => (2, Span::RoundTrip),
        };
        // Several reflectors answer one question: it stays.
        let asked = self.waiting.get(&(carried.tag, asked_at))?.get(&carried.seq).copied();
        let ns = between(asked, now)?;
        self.answers.entry((source, span)).or_default().record(ns);
        Some((span, ns))
    }

    /// All figures, by source.
    #[must_use]
    pub fn finish(self) -> Vec<SourceFigures> {
        let mut answers = self.answers;
        let finish = |source: Source| {
            let id = source.id;
            let mut figures = source.finish();
            for span in [Span::RoundTrip, Span::Turnaround] {
                figures.answers.extend(answers.remove(&(id, span)).map(|times| (span, times)));
            }
            figures
        };
        self.sources.into_values().map(finish).collect()
    }
}

impl Source {
    /// What a packet's numbers say; how many numbers are new in trouble.
    fn numbers(
        &mut self,
        packet: &CapturedPacket<'_>,
        point: &mut Point,
        at: usize,
        now: Option<Time>,
        notes: &mut PacketNotes,
    ) -> usize {
        let before = self.histories.len();
        match (packet.kind, packet.numbers) {
            (PacketKind::Odata, [number, ..]) => {
                let number = self.widen(*number);
                self.highest = Some(self.highest.map_or(number, |highest| highest.max(number)));
                let (order, _) = point.data(number, now);
                match order {
                    Order::Gap(gap) => point.figures.gaps += gap,
                    Order::Late => point.figures.late += 1,
                    Order::Repeated => point.figures.repeated += 1,
                    Order::Next | Order::Jump => {}
                }
                notes.order = order;
                self.remember(number, now);
                self.short(number, &packet.group, point);
                self.rebuilt(number, point, now, notes);
            }
            (PacketKind::Rdata, [number, ..]) => {
                let number = self.widen(*number);
                self.highest = Some(self.highest.map_or(number, |highest| highest.max(number)));
                let (order, gap) = point.data(number, now);
                match order {
                    Order::Gap(gap) => point.figures.gaps += gap,
                    Order::Late => point.figures.filled += 1,
                    Order::Repeated => point.figures.unneeded += 1,
                    Order::Next | Order::Jump => {}
                }
                notes.order = order;
                self.rdata(number, gap, at, now, notes);
                self.short(number, &packet.group, point);
                self.rebuilt(number, point, now, notes);
            }
            (PacketKind::Spm, [trail, lead]) => {
                let (trail, lead) = (self.widen(*trail), self.widen(*lead));
                // An empty window has its trail one behind its lead, and no window at all a lead 2^31 away.
                if lead.wrapping_sub(trail) < 1 << 31 && lead.abs_diff(point.highest.unwrap_or(lead)) <= JUMP {
                    let known = point.highest.is_some();
                    let missing = point.expect(lead, now);
                    if known && missing > 0 {
                        point.figures.gaps += missing;
                        notes.order = Order::Gap(missing);
                    }
                    self.highest = Some(self.highest.map_or(lead, |highest| highest.max(lead)));
                }
            }
            (PacketKind::Nak | PacketKind::Ncf, numbers) => {
                for (index, number) in numbers.iter().enumerate() {
                    let number = self.widen(*number);
                    let mut one = PacketNotes::default();
                    self.asked(packet.kind, number, point, at, now, &mut one);
                    if index == 0 {
                        *notes = PacketNotes { delta_ns: notes.delta_ns, ..one };
                    }
                }
            }
            _ => {}
        }
        self.histories.len() - before
    }

    fn asked(
        &mut self,
        kind: PacketKind,
        number: u64,
        point: &Point,
        at: usize,
        now: Option<Time>,
        notes: &mut PacketNotes,
    ) {
        let data = self.recent(number);
        let history =
            self.histories.entry(number).or_insert_with(|| NumberHistory { data, ..NumberHistory::default() });
        if history.gap.is_none() {
            history.gap = point.missing.when(number).flatten();
        }
        let what = usize::from(kind == PacketKind::Ncf);
        if let Some(count) = history.counts.get_mut(at).and_then(|counts| counts.get_mut(what)) {
            notes.times_before = *count;
            *count = count.saturating_add(1);
        }
        if kind == PacketKind::Nak {
            if history.nak.is_none() {
                history.nak = now;
                notes.since_gap_ns = between(history.gap, now);
                notes.since_data_ns = between(history.data, now);
            }
        } else if history.ncf.is_none() {
            history.ncf = now;
            notes.since_nak_ns = between(history.nak, now);
            if let Some(ns) = notes.since_nak_ns {
                self.figures.nak_to_ncf.record(ns);
            }
        }
    }

    fn rdata(&mut self, number: u64, gap: Option<Time>, at: usize, now: Option<Time>, notes: &mut PacketNotes) {
        let data = self.recent(number);
        let history =
            self.histories.entry(number).or_insert_with(|| NumberHistory { data, ..NumberHistory::default() });
        history.gap = history.gap.or(gap);
        if let Some(count) = history.counts.get_mut(at).and_then(|counts| counts.get_mut(2)) {
            notes.times_before = *count;
            *count = count.saturating_add(1);
        }
        history.last_rdata = now;
        if history.rdata.is_some() {
            return;
        }
        history.rdata = now;
        notes.since_data_ns = between(history.data, now);
        notes.since_gap_ns = between(history.gap, now);
        notes.since_nak_ns = between(history.nak, now);
        notes.since_ncf_ns = between(history.ncf, now);
        let figures = &mut self.figures;
        for (times, ns) in [
            (&mut figures.gap_to_rdata, notes.since_gap_ns),
            (&mut figures.nak_to_rdata, notes.since_nak_ns),
            (&mut figures.ncf_to_rdata, notes.since_ncf_ns),
        ] {
            if let Some(ns) = ns {
                times.record(ns);
            }
        }
    }
}

#[cfg(test)]
mod tests;
