//! Captured messages to times between them: to the one before, to the question that an answer belongs to, and the
//! numbers that are missing. Pure; the capture's own clock is all the time there is.
//!
//! A packet may be seen twice on one machine, leaving and arriving (loopback). Both are *points*, and messages are only
//! compared with messages of their own point, but for answers: an answer that arrives belongs to a question that left
//! (a round trip), an answer that leaves to a question that arrived (a turnaround at the reflector).

use stats::Histogram;
use std::collections::BTreeMap;

/// Streams that get figures of their own; a histogram takes 270 KB.
const MOST_STREAMS: usize = 256;
/// Questions that wait for their answer, a flow and point.
const MOST_WAITING: usize = 1 << 16;
/// Ranges of missing numbers that are remembered, a stream; the oldest are then lost for good.
const MOST_RANGES: usize = 4096;
/// Numbers that jump further begin anew: another session, or no numbers of ours.
const JUMP: u64 = 1 << 20;
/// What a message without a number waits under.
const NO_NUMBER: u64 = u64::MAX;

/// One message as it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CapturedMessage {
    /// Its flow.
    pub flow: u32,
    /// A question: from the initiator to the reflector.
    pub forward: bool,
    /// Whether it left the machine, where that is known.
    pub leaving: Option<bool>,
    /// The clock that stamped it; times of two clocks are never subtracted.
    pub clock: u32,
    /// When, in ns since 1970; absent in captures without times.
    pub time_ns: Option<u64>,
    /// Its number, if it has one.
    pub seq: Option<u64>,
    /// Its length in bytes.
    pub bytes: u64,
}

/// What kind of time an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Span {
    /// Question out to answer in, at the capture's point: without the initiator's own way to it.
    RoundTrip,
    /// Question in to answer out: the reflector's host, from its tap and back.
    Turnaround,
}

/// What one message's number says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// The next one, the first one, or there are no numbers.
    #[default]
    Next,
    /// So many numbers before it are missing.
    Gap(u64),
    /// It was missing until now.
    Late,
    /// It was seen before at this point.
    Repeated,
    /// Too far from those before to be of the same session.
    Jump,
}

/// What is known of a message by those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MessageNotes {
    /// To the message before it in the same flow, direction and point, in ns; negative when the clock was set back.
    pub delta_ns: Option<i64>,
    /// The time that this answer ends, in ns.
    pub answer: Option<(Span, u64)>,
    /// What its number says.
    pub order: Order,
}

/// The figures of one flow, direction and point.
#[derive(Debug, Clone)]
pub struct StreamFigures {
    /// The flow.
    pub flow: u32,
    /// The direction.
    pub forward: bool,
    /// The point.
    pub leaving: Option<bool>,
    /// Messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// First to last, in ns.
    pub span_ns: u64,
    /// Numbers missing at the end.
    pub lost: u64,
    /// Messages that came after a later one.
    pub late: u64,
    /// Messages whose number came again: repetitions, or several messages of one round.
    pub repeated: u64,
    /// Times to the message before.
    pub between: Histogram,
}

impl StreamFigures {
    /// Messages a second, first to last; absent for fewer than two.
    #[must_use]
    pub fn per_second(&self) -> Option<f64> {
        (self.messages > 1 && self.span_ns > 0).then(|| (self.messages - 1) as f64 * 1e9 / self.span_ns as f64)
    }
}

/// The answers of one flow.
#[derive(Debug, Clone)]
pub struct AnswerFigures {
    /// The flow.
    pub flow: u32,
    /// What kind of time.
    pub span: Span,
    /// The times.
    pub times: Histogram,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Point {
    Leaving,
    Arriving,
    Unknown,
}

impl Point {
    fn of(leaving: Option<bool>) -> Self {
        match leaving {
            Some(true) => Self::Leaving,
            Some(false) => Self::Arriving,
            None => Self::Unknown,
        }
    }
}

#[derive(Debug)]
struct Stream {
    figures: StreamFigures,
    first_ns: Option<u64>,
    last: Option<(u32, u64)>,
    highest: Option<u64>,
    /// Missing numbers, first and last, ascending.
    missing: Vec<(u64, u64)>,
    gone: u64,
}

impl Stream {
    fn new(message: &CapturedMessage) -> Self {
        Self {
            figures: StreamFigures {
                flow: message.flow,
                forward: message.forward,
                leaving: message.leaving,
                messages: 0,
                bytes: 0,
                span_ns: 0,
                lost: 0,
                late: 0,
                repeated: 0,
                between: Histogram::new(),
            },
            first_ns: None,
            last: None,
            highest: None,
            missing: Vec::new(),
            gone: 0,
        }
    }

    fn see(&mut self, message: &CapturedMessage) -> (Option<i64>, Order) {
        let figures = &mut self.figures;
        figures.messages += 1;
        figures.bytes = figures.bytes.saturating_add(message.bytes);
        let mut delta = None;
        if let Some(now) = message.time_ns {
            if let Some((_, before)) = self.last.filter(|(clock, _)| *clock == message.clock) {
                delta = i64::try_from(i128::from(now) - i128::from(before)).ok();
                if let Some(ahead) = now.checked_sub(before) {
                    figures.between.record(ahead);
                }
            }
            self.last = Some((message.clock, now));
            let first = *self.first_ns.get_or_insert(now);
            figures.span_ns = figures.span_ns.max(now.saturating_sub(first));
        }
        let order = message.seq.map_or(Order::Next, |seq| self.number(seq));
        match order {
            Order::Late => self.figures.late += 1,
            Order::Repeated => self.figures.repeated += 1,
            Order::Next | Order::Gap(_) | Order::Jump => {}
        }
        (delta, order)
    }

    fn number(&mut self, seq: u64) -> Order {
        let Some(highest) = self.highest else {
            self.highest = Some(seq);
            return Order::Next;
        };
        if seq.abs_diff(highest) > JUMP {
            self.highest = Some(seq);
            // What is missing of the session before stays missing.
            self.gone += self.missing.drain(..).map(|(first, last)| last - first + 1).sum::<u64>();
            return Order::Jump;
        }
        if seq > highest {
            self.highest = Some(seq);
            let gap = seq - highest - 1;
            if gap == 0 {
                return Order::Next;
            }
            self.missing.push((highest + 1, seq - 1));
            if self.missing.len() > MOST_RANGES {
                let (first, last) = self.missing.remove(0);
                self.gone += last - first + 1;
            }
            return Order::Gap(gap);
        }
        let after = self.missing.partition_point(|(first, _)| *first <= seq);
        let Some(index) = after.checked_sub(1) else { return Order::Repeated };
        let Some(&(first, last)) = self.missing.get(index).filter(|(_, last)| seq <= *last) else {
            return Order::Repeated;
        };
        let rest = [(first, seq.wrapping_sub(1)), (seq + 1, last)];
        let rest = rest.into_iter().filter(|(from, to)| (first..=last).contains(from) && (*from..=last).contains(to));
        self.missing.splice(index..=index, rest);
        Order::Late
    }

    fn finish(mut self) -> StreamFigures {
        self.figures.lost = self.gone + self.missing.iter().map(|(first, last)| last - first + 1).sum::<u64>();
        self.figures
    }
}

/// Takes messages in the order of the capture.
#[derive(Debug, Default)]
pub struct Timeline {
    streams: BTreeMap<(u32, bool, Point), Stream>,
    /// Questions by number, of each flow and point: clock and time.
    waiting: BTreeMap<(u32, Point), BTreeMap<u64, (u32, u64)>>,
    answers: BTreeMap<(u32, Span), Histogram>,
}

impl Timeline {
    /// One more message.
    pub fn see(&mut self, message: &CapturedMessage) -> MessageNotes {
        let point = Point::of(message.leaving);
        let key = (message.flow, message.forward, point);
        if self.streams.len() >= MOST_STREAMS && !self.streams.contains_key(&key) {
            return MessageNotes::default();
        }
        let stream = self.streams.entry(key).or_insert_with(|| Stream::new(message));
        let (delta_ns, order) = stream.see(message);
        let number = message.seq.unwrap_or(NO_NUMBER);
        let Some(now) = message.time_ns else { return MessageNotes { delta_ns, answer: None, order } };
        if message.forward {
            let waiting = self.waiting.entry((message.flow, point)).or_default();
            // Of several messages of one round the first counts; one without a number replaces the one before.
            if number == NO_NUMBER || !waiting.contains_key(&number) {
                waiting.insert(number, (message.clock, now));
            }
            if waiting.len() > MOST_WAITING {
                waiting.pop_first();
            }
            return MessageNotes { delta_ns, answer: None, order };
        }
        let (asked_at, span) = match point {
            Point::Arriving => (Point::Leaving, Span::RoundTrip),
            Point::Leaving => (Point::Arriving, Span::Turnaround),
            Point::Unknown => (Point::Unknown, Span::RoundTrip),
        };
        let asked = self.waiting.get_mut(&(message.flow, asked_at)).and_then(|waiting| waiting.remove(&number));
        let answer = asked
            .filter(|(clock, _)| *clock == message.clock)
            .and_then(|(_, asked)| now.checked_sub(asked))
            .map(|ns| (span, ns));
        if let Some((span, ns)) = answer {
            self.answers.entry((message.flow, span)).or_default().record(ns);
        }
        MessageNotes { delta_ns, answer, order }
    }

    /// All figures, by flow.
    #[must_use]
    pub fn finish(self) -> (Vec<StreamFigures>, Vec<AnswerFigures>) {
        let streams = self.streams.into_values().map(Stream::finish).collect();
        let answers =
            self.answers.into_iter().map(|((flow, span), times)| AnswerFigures { flow, span, times }).collect();
        (streams, answers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn question(seq: u64, time: u64) -> CapturedMessage {
        CapturedMessage {
            forward: true,
            leaving: Some(true),
            time_ns: Some(time),
            seq: Some(seq),
            bytes: 10,
            ..CapturedMessage::default()
        }
    }

    fn answer(seq: u64, time: u64) -> CapturedMessage {
        CapturedMessage { forward: false, leaving: Some(false), ..question(seq, time) }
    }

    #[test]
    fn times_between_messages_and_round_trips() {
        let mut line = Timeline::default();
        assert_eq!(line.see(&question(1, 1000)), MessageNotes::default());
        let notes = line.see(&answer(1, 1400));
        assert_eq!((notes.delta_ns, notes.answer), (None, Some((Span::RoundTrip, 400))));
        assert_eq!(line.see(&question(2, 3000)).delta_ns, Some(2000));
        assert_eq!(line.see(&answer(2, 3500)).answer, Some((Span::RoundTrip, 500)));
        assert_eq!(line.see(&answer(2, 3600)).answer, None, "only the first answer ends it");
        let (streams, answers) = line.finish();
        assert_eq!(streams.len(), 2);
        let out = streams.iter().find(|stream| stream.forward).unwrap();
        assert_eq!((out.messages, out.bytes, out.span_ns, out.between.max()), (2, 20, 2000, Some(2000)));
        assert_eq!(out.per_second(), Some(500_000.0));
        assert_eq!((answers.len(), answers[0].times.count(), answers[0].times.max()), (1, 2, Some(500)));
    }

    #[test]
    fn on_loopback_both_points_stay_apart() {
        let mut line = Timeline::default();
        line.see(&question(1, 100));
        line.see(&CapturedMessage { leaving: Some(false), ..question(1, 105) });
        let back = line.see(&CapturedMessage { leaving: Some(true), ..answer(1, 130) });
        assert_eq!(back.answer, Some((Span::Turnaround, 25)));
        assert_eq!(line.see(&answer(1, 140)).answer, Some((Span::RoundTrip, 40)));
        let (streams, _) = line.finish();
        assert_eq!(streams.len(), 4);
        assert!(streams.iter().all(|stream| stream.messages == 1 && stream.repeated == 0));
    }

    #[test]
    fn two_clocks_are_never_subtracted() {
        let mut line = Timeline::default();
        line.see(&question(1, 100));
        assert_eq!(line.see(&CapturedMessage { clock: 1, ..answer(1, 150) }).answer, None);
        assert_eq!(line.see(&CapturedMessage { clock: 1, ..question(2, 200) }).delta_ns, None);
        assert_eq!(line.see(&CapturedMessage { clock: 1, ..question(3, 190) }).delta_ns, Some(-10), "set back");
        assert_eq!(line.see(&CapturedMessage { time_ns: None, ..question(4, 0) }), MessageNotes::default());
    }

    #[test]
    fn gaps_latecomers_repetitions_and_jumps() {
        let mut line = Timeline::default();
        let orders: Vec<Order> =
            [5, 6, 10, 8, 8, 6, 11, 9, 7, 1 << 40, 12].iter().map(|seq| line.see(&question(*seq, 1)).order).collect();
        assert_eq!(
            orders,
            [
                Order::Next,
                Order::Next,
                Order::Gap(3),
                Order::Late,
                Order::Repeated,
                Order::Repeated,
                Order::Next,
                Order::Late,
                Order::Late,
                Order::Jump,
                Order::Jump,
            ]
        );
        let (streams, _) = line.finish();
        assert_eq!((streams[0].lost, streams[0].late, streams[0].repeated), (0, 3, 2));
    }

    #[test]
    fn messages_without_numbers_are_paired_in_turn() {
        let mut line = Timeline::default();
        line.see(&CapturedMessage { seq: None, ..question(0, 100) });
        assert_eq!(line.see(&CapturedMessage { seq: None, ..answer(0, 130) }).answer, Some((Span::RoundTrip, 30)));
    }

    #[test]
    fn too_many_flows_cost_no_memory() {
        let mut line = Timeline::default();
        for flow in 0..10_000 {
            line.see(&CapturedMessage { flow, ..question(1, 1) });
        }
        assert_eq!(line.finish().0.len(), MOST_STREAMS);
    }

    proptest! {
        /// Whatever the order: what was seen and what is missing add up.
        #[test]
        fn numbers_add_up(seqs in proptest::collection::vec(0_u64..60, 1..80)) {
            let mut line = Timeline::default();
            for seq in &seqs {
                line.see(&question(*seq, 1));
            }
            let seen: std::collections::BTreeSet<u64> = seqs.iter().copied().collect();
            // Numbers below the first one seen are no loss.
            let first = seqs[0];
            let highest = *seen.last().unwrap();
            let expected = (first..=highest).filter(|seq| !seen.contains(seq)).count() as u64;
            let (streams, _) = line.finish();
            prop_assert_eq!(streams[0].lost, expected);
            prop_assert_eq!(streams[0].messages, seqs.len() as u64);
        }
    }
}
