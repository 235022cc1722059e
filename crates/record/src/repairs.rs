//! Captured packets of a reliable multicast to what became of each number: gaps, requests (NAK), their confirmations (NCF),
//! repairs (RDATA) and the times between them, by the capture's own clock. Numbers have 32 bits and wrap around (RFC 3208).
//! Copies, gaps and intervals are counted at each point (`captured`); times are those of the earliest sight at any point.

mod parity;

use crate::captured::{self, JUMP, Order, Questions, SeenNumbers, Span, Time, between, signed_between};
pub use parity::GroupOptions;
use parity::Groups;
use stats::Histogram;
use std::collections::BTreeMap;

/// Sources that get figures of their own.
const MOST_SOURCES: usize = 128;
/// Numbers in trouble that are remembered, of all sources together; the oldest of a source give way.
const MOST_NUMBERS: usize = 1 << 16;

model::words! {
    /// What kind of packet it is, by RFC 3208's names. Their order is that of tables.
    pub enum PacketKind {
        /// New data.
        Odata = "ODATA",
        /// A repair.
        Rdata = "RDATA",
        /// Source path message.
        Spm = "SPM",
        /// A request for a repair.
        Nak = "NAK",
        /// A request's confirmation.
        Ncf = "NCF",
        /// A local repairer's word to the source that it has repaired.
        Nnak = "N-NAK",
        /// A request for an SPM.
        Spmr = "SPMR",
        /// Poll.
        Poll = "POLL",
        /// Answer to a poll.
        Polr = "POLR",
        /// Acknowledgement of congestion control.
        Ack = "ACK",
        /// A type that is not known, or not readable behind its header.
        Other = "others",
    }
}

/// A message of ours within the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CarriedMessage {
    pub seq: u64,
    pub tag: u64,
    pub answer: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapturedPacket<'a> {
    pub source: u32,
    pub kind: PacketKind,
    /// The numbers that it is about: one of data, all that a NAK or NCF lists. Of an SPM: trail and lead.
    pub numbers: &'a [u32],
    /// Parity: its numbers name groups, not data.
    pub parity: bool,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Repair {
    pub number: u32,
    /// When the data itself was first seen, where that was shortly before.
    pub data_ns: Option<u64>,
    /// When a later number showed that it was missing at the capture.
    pub gap_ns: Option<u64>,
    pub nak_ns: Option<u64>,
    /// NAKs, at the point that saw most.
    pub naks: u32,
    pub ncf_ns: Option<u64>,
    pub ncfs: u32,
    pub rdata_ns: Option<u64>,
    pub last_rdata_ns: Option<u64>,
    pub rdatas: u32,
    /// When parity first made up for it at the capture.
    pub rebuilt_ns: Option<u64>,
}

impl Repair {
    /// When it was there at last: sent again, or computed from parity.
    pub fn repaired_ns(&self) -> Option<u64> {
        self.rdata_ns.into_iter().chain(self.rebuilt_ns).min()
    }

    /// From the first NAK to the first repair, else from the gap to it, in ns.
    pub fn latency_ns(&self) -> Option<u64> {
        let from = self.nak_ns.or(self.gap_ns)?;
        self.repaired_ns()?.checked_sub(from)
    }
}

/// What one point saw of one source.
#[derive(Debug, Clone, Default)]
pub struct PointFigures {
    /// Leaving, arriving or not known.
    pub leaving: Option<bool>,
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
    pub between_spms: Histogram,
}

impl PointFigures {
    /// New data a second, first to last; absent for fewer than two.
    pub fn per_second(&self) -> Option<f64> {
        captured::per_second(self.packets.get(&PacketKind::Odata).copied().unwrap_or(0), self.span_ns)
    }
}

#[derive(Debug, Clone, Default)]
pub struct SourceFigures {
    pub source: u32,
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

/// Places in [`NumberHistory::counts`].
const NAKS: usize = 0;
const NCFS: usize = 1;
const RDATAS: usize = 2;

/// The place of a request or of its confirmation.
fn request(kind: PacketKind) -> usize {
    if kind == PacketKind::Nak { NAKS } else { NCFS }
}

impl NumberHistory {
    /// The most that one point saw.
    fn most(&self, what: usize) -> u32 {
        self.counts.iter().filter_map(|point| point.get(what)).copied().max().unwrap_or(0)
    }

    /// Counts one at a point; how many came before it.
    fn count(&mut self, at: usize, what: usize) -> u32 {
        let Some(count) = self.counts.get_mut(at).and_then(|counts| counts.get_mut(what)) else { return 0 };
        std::mem::replace(count, count.saturating_add(1))
    }

    fn notes(&self, number: u32) -> Repair {
        let ns = |time: Option<Time>| time.map(|(_, ns)| ns);
        Repair {
            number,
            data_ns: ns(self.data),
            gap_ns: ns(self.gap),
            nak_ns: ns(self.nak),
            naks: self.most(NAKS),
            ncf_ns: ns(self.ncf),
            ncfs: self.most(NCFS),
            rdata_ns: ns(self.rdata),
            last_rdata_ns: ns(self.last_rdata),
            rdatas: self.most(RDATAS),
            rebuilt_ns: ns(self.rebuilt),
        }
    }
}

#[derive(Debug, Default)]
struct Point {
    figures: PointFigures,
    last: BTreeMap<PacketKind, Time>,
    first_data: Option<Time>,
    numbers: SeenNumbers,
    groups: Groups,
}

impl Point {
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
        signed_between(before, now)
    }

    fn finish(mut self) -> PointFigures {
        self.figures.missing = self.numbers.missing();
        self.figures
    }
}

#[derive(Debug)]
struct Source {
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

    fn new(source: u32) -> Self {
        Self {
            points: [None, None, None],
            highest: None,
            histories: BTreeMap::new(),
            group_packets: None,
            recent: vec![None; Self::RECENT],
            figures: SourceFigures { source, ..SourceFigures::default() },
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

    fn raise(&mut self, number: u64) {
        self.highest = Some(self.highest.map_or(number, |highest| highest.max(number)));
    }

    /// What became of a number that is in trouble now.
    fn history(&mut self, number: u64) -> &mut NumberHistory {
        let data = self.recent(number);
        self.histories.entry(number).or_insert_with(|| NumberHistory { data, ..NumberHistory::default() })
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
        let asked = history.most(NAKS);
        self.figures.asked += u64::from(asked > 0);
        self.figures.asked_again += u64::from(asked > 1);
        self.figures.unrepaired += u64::from(asked > 0 && history.most(RDATAS) == 0 && history.rebuilt.is_none());
    }
}

/// Takes packets in the order of the capture.
#[derive(Debug, Default)]
pub struct Repairs {
    sources: BTreeMap<u32, Source>,
    /// Numbers in trouble of all sources.
    histories: usize,
    /// Questions of ours within the data, by the session's tag.
    questions: Questions,
}

impl Repairs {
    pub fn see(&mut self, packet: &CapturedPacket<'_>) -> PacketNotes {
        let known = self.sources.len();
        if known >= MOST_SOURCES && !self.sources.contains_key(&packet.source) {
            return PacketNotes::default();
        }
        let now = packet.time_ns.map(|ns| (packet.clock, ns));
        let at = captured::point(packet.leaving);
        let source = self.sources.entry(packet.source).or_insert_with(|| Source::new(packet.source));
        let Some(slot) = source.points.get_mut(at) else { return PacketNotes::default() };
        let mut point = slot.take().unwrap_or_default();
        point.figures.leaving = packet.leaving;
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
        if let Some((carried, now)) = packet.carried.filter(|_| notes.order != Order::Repeated).zip(now) {
            if carried.answer {
                let session = (carried.tag, at);
                // Several reflectors answer one question.
                notes.answer = self.questions.answer(packet.source, session, Some(carried.seq), now, true);
            } else {
                self.questions.ask(carried.tag, at, Some(carried.seq), now);
            }
        }
        notes
    }

    pub fn finish(self) -> Vec<SourceFigures> {
        let mut answers = self.questions.answers;
        let finish = |(id, source): (u32, Source)| {
            let mut figures = source.finish();
            for span in [Span::RoundTrip, Span::Turnaround] {
                figures.answers.extend(answers.remove(&(id, span)).map(|times| (span, times)));
            }
            figures
        };
        self.sources.into_iter().map(finish).collect()
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
            (PacketKind::Odata | PacketKind::Rdata, [number, ..]) => {
                let (number, repair) = (self.widen(*number), packet.kind == PacketKind::Rdata);
                self.raise(number);
                let (order, gap) = point.numbers.see(number, now);
                let figures = &mut point.figures;
                match (order, repair) {
                    (Order::Gap(gap), _) => figures.gaps += gap,
                    (Order::Late, false) => figures.late += 1,
                    (Order::Late, true) => figures.filled += 1,
                    (Order::Repeated, false) => figures.repeated += 1,
                    (Order::Repeated, true) => figures.unneeded += 1,
                    (Order::Next | Order::Jump, _) => {}
                }
                notes.order = order;
                if repair {
                    self.rdata(number, gap, at, now, notes);
                } else {
                    self.remember(number, now);
                }
                self.short(number, &packet.group, point);
                self.rebuilt(number, point, now, notes);
            }
            (PacketKind::Spm, [trail, lead]) => {
                let (trail, lead) = (self.widen(*trail), self.widen(*lead));
                // An empty window has its trail one behind its lead, and no window at all a lead 2^31 away.
                if lead.wrapping_sub(trail) < 1 << 31 && lead.abs_diff(point.numbers.highest.unwrap_or(lead)) <= JUMP {
                    let known = point.numbers.highest.is_some();
                    let missing = point.numbers.expect(lead, now);
                    if known && missing > 0 {
                        point.figures.gaps += missing;
                        notes.order = Order::Gap(missing);
                    }
                    self.raise(lead);
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
        let history = self.history(number);
        history.gap = history.gap.or_else(|| point.numbers.missing_since(number).flatten());
        notes.times_before = history.count(at, request(kind));
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
        let history = self.history(number);
        history.gap = history.gap.or(gap);
        notes.times_before = history.count(at, RDATAS);
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
