//! Captured messages to times between them: to the one before, to the question of an answer, and the numbers that are missing,
//! by the capture's own clock. Messages are only compared with those of their own point (`captured`), but for answers.

use crate::captured::{self, Questions, SeenNumbers, Time, between, signed_between};
pub use crate::captured::{Order, Span};
use stats::Histogram;
use std::collections::BTreeMap;

/// Streams that get figures of their own; a histogram takes 270 KB.
const MOST_STREAMS: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CapturedMessage {
    pub flow: u32,
    /// A question: from the initiator to the reflector.
    pub forward: bool,
    /// Whether it left the machine, where that is known.
    pub leaving: Option<bool>,
    /// The clock that stamped it; times of two clocks are never subtracted.
    pub clock: u32,
    /// When, in ns since 1970; absent in captures without times.
    pub time_ns: Option<u64>,
    pub seq: Option<u64>,
    pub bytes: u64,
}

/// What is known of a message by those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MessageNotes {
    /// To the message before it in the same flow, direction and point, in ns; negative when the clock was set back.
    pub delta_ns: Option<i64>,
    /// The time that this answer ends, in ns.
    pub answer: Option<(Span, u64)>,
    pub order: Order,
}

/// The figures of one flow, direction and point.
#[derive(Debug, Clone, Default)]
pub struct StreamFigures {
    pub flow: u32,
    pub forward: bool,
    pub leaving: Option<bool>,
    pub messages: u64,
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
    pub fn per_second(&self) -> Option<f64> {
        captured::per_second(self.messages, self.span_ns)
    }
}

#[derive(Debug, Clone)]
pub struct AnswerFigures {
    pub flow: u32,
    pub span: Span,
    pub times: Histogram,
}

#[derive(Debug, Default)]
struct Stream {
    figures: StreamFigures,
    first_ns: Option<u64>,
    last: Option<Time>,
    numbers: SeenNumbers,
}

impl Stream {
    fn see(&mut self, message: &CapturedMessage) -> (Option<i64>, Order) {
        let figures = &mut self.figures;
        (figures.flow, figures.forward, figures.leaving) = (message.flow, message.forward, message.leaving);
        figures.messages += 1;
        figures.bytes = figures.bytes.saturating_add(message.bytes);
        let now = message.time_ns.map(|ns| (message.clock, ns));
        let delta = signed_between(self.last, now);
        if let Some(ahead) = between(self.last, now) {
            figures.between.record(ahead);
        }
        if let Some((_, ns)) = now {
            self.last = now;
            figures.span_ns = figures.span_ns.max(ns.saturating_sub(*self.first_ns.get_or_insert(ns)));
        }
        let order = message.seq.map_or(Order::Next, |seq| self.numbers.see(seq, None).0);
        match order {
            Order::Late => figures.late += 1,
            Order::Repeated => figures.repeated += 1,
            Order::Next | Order::Gap(_) | Order::Jump => {}
        }
        (delta, order)
    }

    fn finish(mut self) -> StreamFigures {
        self.figures.lost = self.numbers.missing();
        self.figures
    }
}

/// Takes messages in the order of the capture.
#[derive(Debug, Default)]
pub struct Timeline {
    /// By flow, direction and point.
    streams: BTreeMap<(u32, bool, usize), Stream>,
    questions: Questions,
}

impl Timeline {
    pub fn see(&mut self, message: &CapturedMessage) -> MessageNotes {
        let at = captured::point(message.leaving);
        let key = (message.flow, message.forward, at);
        if self.streams.len() >= MOST_STREAMS && !self.streams.contains_key(&key) {
            return MessageNotes::default();
        }
        let (delta_ns, order) = self.streams.entry(key).or_default().see(message);
        let mut notes = MessageNotes { delta_ns, answer: None, order };
        let Some(now) = message.time_ns.map(|ns| (message.clock, ns)) else { return notes };
        let session = u64::from(message.flow);
        if message.forward {
            self.questions.ask(session, at, message.seq, now);
        } else {
            notes.answer = self.questions.answer(message.flow, (session, at), message.seq, now, false);
        }
        notes
    }

    pub fn finish(self) -> (Vec<StreamFigures>, Vec<AnswerFigures>) {
        let streams = self.streams.into_values().map(Stream::finish).collect();
        let answers = self.questions.answers.into_iter();
        (streams, answers.map(|((flow, span), times)| AnswerFigures { flow, span, times }).collect())
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
    fn a_number_before_the_first_may_come_twice() {
        let mut line = Timeline::default();
        let orders = [10, 9, 9].map(|seq| line.see(&question(seq, 1)).order);
        assert_eq!(orders, [Order::Next, Order::Next, Order::Repeated]);
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
