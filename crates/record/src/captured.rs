//! What captured messages and PGM packets have in common: points, times, missing numbers, and the questions of answers. A packet
//! may be seen twice on one machine, leaving and arriving (loopback): both are *points*.

use stats::Histogram;
use std::collections::{BTreeMap, BTreeSet};

/// Questions that wait for their answers, a session and point.
const MOST_WAITING: usize = 1 << 16;
/// Sessions and points whose answers are looked for.
const MOST_SESSIONS: usize = 256;
/// Ranges of missing numbers remembered at a point; the lowest, and numbers before the first, are then lost for good.
const MOST_RANGES: usize = 4096;
/// Numbers that jump further begin anew: another session, or no numbers of ours.
pub(crate) const JUMP: u64 = 1 << 20;
/// What a question without a number waits under.
const NO_NUMBER: u64 = u64::MAX;

/// When a packet was seen: the clock that stamped it, and ns since 1970. Times of two clocks are never subtracted.
pub(crate) type Time = (u32, u64);

/// From one time to a later one of the same clock, in ns.
pub(crate) fn between(from: Option<Time>, now: Option<Time>) -> Option<u64> {
    let ((clock, from), (same, now)) = from.zip(now)?;
    if clock == same { now.checked_sub(from) } else { None }
}

/// The same, negative when the clock was set back.
pub(crate) fn signed_between(from: Option<Time>, now: Option<Time>) -> Option<i64> {
    match between(from, now) {
        Some(ns) => i64::try_from(ns).ok(),
        None => between(now, from).and_then(|ns| i64::try_from(ns).ok()).map(|ns| -ns),
    }
}

/// The point of a packet that left (0), arrived (1), or of which that is not known (2).
pub(crate) fn point(leaving: Option<bool>) -> usize {
    match leaving {
        Some(true) => 0,
        Some(false) => 1,
        None => 2,
    }
}

/// Packets a second from the first of them to the last; absent for fewer than two.
pub(crate) fn per_second(packets: u64, span_ns: u64) -> Option<f64> {
    (packets > 1 && span_ns > 0).then(|| (packets - 1) as f64 * 1e9 / span_ns as f64)
}

/// What one number says.
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

/// The numbers of one sender at one point.
#[derive(Debug, Default)]
pub(crate) struct SeenNumbers {
    /// Numbers before it were sent before the capture began.
    pub(crate) first: u64,
    pub(crate) highest: Option<u64>,
    /// Missing ones: the first of a range to its last, and when a later number showed it.
    missing: BTreeMap<u64, (u64, Option<Time>)>,
    /// Numbers that stay missing for good.
    gone: u64,
    /// Those before the first that came after all, the highest [`MOST_RANGES`] of them.
    early: BTreeSet<u64>,
}

impl SeenNumbers {
    fn add_missing(&mut self, first: u64, last: u64, now: Option<Time>) {
        self.missing.insert(first, (last, now));
        if self.missing.len() > MOST_RANGES
            && let Some((first, (last, _))) = self.missing.pop_first()
        {
            self.gone += last - first + 1;
        }
    }

    /// When the number was found to be missing; `None` when it is not.
    pub(crate) fn missing_since(&self, number: u64) -> Option<Option<Time>> {
        let (_, (last, when)) = self.missing.range(..=number).next_back()?;
        (number <= *last).then_some(*when)
    }

    /// The number is missing no longer.
    pub(crate) fn take(&mut self, number: u64) -> Option<Option<Time>> {
        let when = self.missing_since(number)?;
        let (&first, _) = self.missing.range(..=number).next_back()?;
        let (last, _) = self.missing.remove(&first)?;
        if first < number {
            self.missing.insert(first, (number - 1, when));
        }
        if number < last {
            self.missing.insert(number + 1, (last, when));
        }
        Some(when)
    }

    pub(crate) fn missing(&self) -> u64 {
        self.gone + self.missing.iter().map(|(first, (last, _))| last - first + 1).sum::<u64>()
    }

    /// Everything up to `number` must have come by now; says how many have not.
    pub(crate) fn expect(&mut self, number: u64, now: Option<Time>) -> u64 {
        let Some(highest) = self.highest else {
            (self.first, self.highest) = (number + 1, Some(number));
            return 0;
        };
        if number <= highest {
            return 0;
        }
        self.highest = Some(number);
        self.add_missing(highest + 1, number, now);
        number - highest
    }

    /// A number that is there now; and when it was found to be missing.
    pub(crate) fn see(&mut self, number: u64, now: Option<Time>) -> (Order, Option<Time>) {
        match self.highest {
            None => (self.first, self.highest) = (number, Some(number)),
            Some(highest) if number.abs_diff(highest) > JUMP => {
                (self.gone, self.first, self.highest) = (self.missing(), number, Some(number));
                self.missing.clear();
                self.early.clear();
                return (Order::Jump, None);
            }
            Some(highest) if number > highest => {
                self.highest = Some(number);
                let gap = number - highest - 1;
                if gap > 0 {
                    self.add_missing(highest + 1, number - 1, now);
                    return (Order::Gap(gap), None);
                }
            }
            Some(_) if number >= self.first => {
                let when = self.take(number);
                return when.map_or((Order::Repeated, None), |when| (Order::Late, when));
            }
            Some(_) if !self.early.insert(number) => return (Order::Repeated, None),
            Some(_) if self.early.len() > MOST_RANGES => _ = self.early.pop_first(),
            Some(_) => {}
        }
        (Order::Next, None)
    }
}

/// What kind of time an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Span {
    /// Question out to answer in, at the capture's point: without the initiator's own way to it.
    RoundTrip,
    /// Question in to answer out: the reflector's host, from its tap and back.
    Turnaround,
}

/// Questions of each session and point, and the times of their answers.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    waiting: BTreeMap<(u64, usize), BTreeMap<u64, Time>>,
    /// By who answered, a flow or a source.
    pub(crate) answers: BTreeMap<(u32, Span), Histogram>,
}

impl Questions {
    /// A question at a point. Of several with one number (a round's, or a repair) the first counts; one without a number
    /// replaces the one before.
    pub(crate) fn ask(&mut self, session: u64, at: usize, number: Option<u64>, now: Time) {
        if self.waiting.len() >= MOST_SESSIONS && !self.waiting.contains_key(&(session, at)) {
            return;
        }
        let waiting = self.waiting.entry((session, at)).or_default();
        match number {
            Some(number) => _ = waiting.entry(number).or_insert(now),
            None => _ = waiting.insert(NO_NUMBER, now),
        }
        if waiting.len() > MOST_WAITING {
            waiting.pop_first();
        }
    }

    /// The time that an answer of `who` ends: a round trip where it arrives, a turnaround where it leaves. With `several`
    /// answers the question stays.
    pub(crate) fn answer(
        &mut self,
        who: u32,
        (session, at): (u64, usize),
        number: Option<u64>,
        now: Time,
        several: bool,
    ) -> Option<(Span, u64)> {
        let (asked_at, span) = match at {
            0 => (1, Span::Turnaround),
            1 => (0, Span::RoundTrip),
            _ => (2, Span::RoundTrip),
        };
        let waiting = self.waiting.get_mut(&(session, asked_at))?;
        let number = number.unwrap_or(NO_NUMBER);
        let asked = if several { waiting.get(&number).copied() } else { waiting.remove(&number) };
        let ns = between(asked, Some(now))?;
        self.answers.entry((who, span)).or_default().record(ns);
        Some((span, ns))
    }
}
