//! Figures by interval: series, the interval log, and the live view.
//!
//! Times are counted by when their message was *due*, numbers by when it was *sent*: a stall of the sender is a gap in the numbers
//! and a wedge in the times. An interval stays open until something sent after its last message is a time-out old; what comes later
//! is one more line of it in the log.

use crate::hlog::Log;
use model::result::{Series, SeriesQuantity};
use model::{LiveInterval, Role};
use stats::{CoarseTally, Encoder};
use std::collections::{BTreeMap, VecDeque};

/// Slots of the series at most (2 hours of 100 ms); beyond, neighbours are joined two by two.
const MOST_SLOTS: u64 = 72_000;
/// Open intervals at most; beyond, the oldest is closed whatever may still come.
const MOST_OPEN: u64 = 72_000;
/// Intervals not yet asked for at most; beyond, the oldest is forgotten.
const MOST_REPORTS: usize = 600;
/// Intervals with late messages that are kept apart at most; beyond, the oldest gets its line.
const MOST_STRAGGLERS: usize = 16;
/// The log gets a line an interval up to so many bytes; from there, and from each further step, a line covers twice as many.
const LOG_BYTES: usize = 48 << 20;
const LOG_STEP: usize = 8 << 20;

/// Tags of the log, in the order of [`Tallies`].
const TAGS: [&str; 3] = ["rtt", "rtt_intended", "lateness"];

/// Of one reflector: RTT, RTT from the intended time, lateness.
type Tallies = [CoarseTally; 3];

#[derive(Debug, Clone, Copy)]
pub(super) enum MessageOutcome {
    /// Answered: RTT from the actual and from the intended send time.
    Answered { rtt_ns: u64, intended_ns: u64 },
    /// Not answered in time.
    Lost,
    /// It asked for no answer.
    Unasked,
}

/// One message, in ns since the first was due.
#[derive(Debug, Clone, Copy)]
pub(super) struct IntervalMessage {
    pub(super) due_ns: u64,
    pub(super) sent_ns: u64,
    /// When it was sent, in ticks.
    pub(super) sent: u64,
    pub(super) lateness_ns: u64,
    pub(super) peer: usize,
    pub(super) outcome: MessageOutcome,
}

/// An interval that may still get messages.
#[derive(Debug, Default)]
struct OpenInterval {
    tallies: Option<Box<[Tallies]>>,
    /// Messages sent in it, whatever is known of them, each reflector counted: for the live view.
    begun: u64,
    /// When the first of the messages due in it was sent, in ticks, as far as seen.
    first_sent: Option<u64>,
    /// Its counts, and the extremes of its times; the rest is known when it is closed.
    so_far: ClosedInterval,
}

#[derive(Debug, Clone, Copy, Default)]
struct ClosedInterval {
    sent: u64,
    received: u64,
    lost: u64,
    /// Answers of the messages due in it, and their figures.
    answers: u64,
    rtt_p50_ns: u64,
    rtt_p99_ns: u64,
    rtt_max_ns: u64,
    /// Messages due in it, and their lateness.
    due: u64,
    lateness_p99_ns: u64,
    least_late_ns: Option<u64>,
}

/// The smaller one that there is.
fn least(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).min()
}

/// The mean of two quantiles weighted by messages, as that of all lies between them.
fn between(a: u64, of_a: u64, b: u64, of_b: u64) -> u64 {
    let sum = u128::from(a) * u128::from(of_a) + u128::from(b) * u128::from(of_b);
    u64::try_from(sum / u128::from((of_a + of_b).max(1))).unwrap_or(u64::MAX)
}

impl ClosedInterval {
    fn join(&mut self, next: &Self) {
        self.sent += next.sent;
        self.received += next.received;
        self.lost += next.lost;
        self.rtt_p50_ns = between(self.rtt_p50_ns, self.answers, next.rtt_p50_ns, next.answers);
        self.rtt_p99_ns = between(self.rtt_p99_ns, self.answers, next.rtt_p99_ns, next.answers);
        self.rtt_max_ns = self.rtt_max_ns.max(next.rtt_max_ns);
        self.lateness_p99_ns = between(self.lateness_p99_ns, self.due, next.lateness_p99_ns, next.due);
        self.least_late_ns = least(self.least_late_ns, next.least_late_ns);
        self.answers += next.answers;
        self.due += next.due;
    }
}

#[derive(Debug)]
pub(super) struct Intervals {
    length_ns: u64,
    /// Ticks that an interval waits for its last messages.
    wait: u64,
    /// Tags of the log for each reflector.
    tags: Vec<[String; 3]>,
    first: u64,
    open: VecDeque<OpenInterval>,
    spare: Vec<Box<[Tallies]>>,
    /// From when (in ticks) the oldest open interval may be closed: until then [`Intervals::close`] has nothing to do.
    pub(super) close_from: u64,
    slots: Vec<ClosedInterval>,
    /// Where there are several reflectors: what each of them lost, by slot.
    lost_of: Vec<(String, Vec<u64>)>,
    /// Intervals a slot.
    joined: u64,
    lines: String,
    encoder: Encoder,
    /// Intervals a line of the log, the line being gathered, and the bytes from which there will be twice as many.
    grouped: u64,
    group: Option<(u64, Box<[Tallies]>)>,
    log_bytes: usize,
    log_step: usize,
    stragglers: BTreeMap<u64, Box<[Tallies]>>,
    /// What was closed and not taken yet, the oldest first.
    pub(super) reports: VecDeque<LiveInterval>,
    /// The first interval that was not reported yet, and those that were reported before all was known of them.
    next_report: u64,
    unsettled: VecDeque<u64>,
    /// The interval that messages are being sent in, and its end in ns.
    sending: (u64, u64),
    scratch: Tallies,
}

fn answers(each: &[Tallies]) -> u64 {
    each.iter().map(|[rtt, ..]| rtt.total()).sum()
}

fn due(each: &[Tallies]) -> u64 {
    each.iter().map(|[_, _, lateness]| lateness.total()).sum()
}

fn tallies(peers: usize) -> Box<[Tallies]> {
    (0..peers).map(|_| Tallies::default()).collect()
}

#[inline]
fn record(each: &mut [Tallies], message: &IntervalMessage) {
    let Some([rtt, intended, lateness]) = each.get_mut(message.peer) else { return };
    lateness.record(message.lateness_ns);
    if let MessageOutcome::Answered { rtt_ns, intended_ns } = message.outcome {
        rtt.record(rtt_ns);
        intended.record(intended_ns);
    }
}

fn add(each: &[Tallies], sums: &mut [Tallies]) {
    let pairs = each.iter().flatten().zip(sums.iter_mut().flatten());
    pairs.for_each(|(tally, sum)| tally.add_to(sum));
}

impl Intervals {
    /// Intervals of `length_ns` for these reflectors; each waits `wait` ticks for its last messages.
    pub(super) fn new(length_ns: u64, wait: u64, hosts: &[String]) -> Self {
        let several = hosts.len() > 1;
        let tags = hosts.iter().map(|host| {
            TAGS.map(|name| if several { format!("{name}@{}", model::text::tag(host)) } else { name.to_owned() })
        });
        Self {
            length_ns: length_ns.max(1_000_000),
            wait,
            tags: tags.collect(),
            first: 0,
            open: VecDeque::new(),
            spare: Vec::new(),
            close_from: u64::MAX,
            slots: Vec::new(),
            lost_of: hosts.iter().filter(|_| several).map(|host| (host.clone(), Vec::new())).collect(),
            joined: 1,
            lines: String::new(),
            encoder: Encoder::new(),
            grouped: 1,
            group: None,
            log_bytes: LOG_BYTES,
            log_step: LOG_STEP,
            stragglers: BTreeMap::new(),
            reports: VecDeque::new(),
            next_report: 0,
            unsettled: VecDeque::new(),
            sending: (0, 0),
            scratch: Tallies::default(),
        }
    }

    #[cfg(test)]
    pub(super) fn limit_log(&mut self, bytes: usize, step: usize) {
        (self.log_bytes, self.log_step) = (bytes, step);
    }

    #[inline]
    pub(super) fn take(&mut self, message: &IntervalMessage) {
        let due = message.due_ns / self.length_ns;
        let sent = if message.lateness_ns < self.length_ns && message.sent_ns < (due + 1).saturating_mul(self.length_ns)
        {
            due
        } else {
            message.sent_ns / self.length_ns
        };
        self.reach(due.max(sent));
        self.count(sent, message);
        let peers = self.tags.len();
        let at = due.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        let Some(open) = at.and_then(|at| self.open.get_mut(at)) else {
            self.straggle(due, message);
            return;
        };
        if open.first_sent.is_none_or(|first| message.sent < first) {
            let is_first = open.first_sent.replace(message.sent).is_none();
            if is_first && at > Some(0) {
                self.set_close();
            }
        }
        let Some(open) = at.and_then(|at| self.open.get_mut(at)) else { return };
        open.so_far.least_late_ns = least(open.so_far.least_late_ns, Some(message.lateness_ns));
        if let MessageOutcome::Answered { rtt_ns, .. } = message.outcome {
            open.so_far.rtt_max_ns = open.so_far.rtt_max_ns.max(rtt_ns);
        }
        record(open.tallies.get_or_insert_with(|| self.spare.pop().unwrap_or_else(|| tallies(peers))), message);
    }

    /// Opens intervals up to this one.
    #[inline]
    fn reach(&mut self, index: u64) {
        if index >= self.first + self.open.len() as u64 {
            self.extend(index);
        }
    }

    #[cold]
    fn extend(&mut self, index: u64) {
        while index - self.first >= MOST_OPEN {
            if self.open.is_empty() {
                self.first = index;
            } else {
                self.close_oldest();
            }
        }
        while self.first + self.open.len() as u64 <= index {
            self.open.push_back(OpenInterval::default());
        }
        self.set_close();
    }

    /// Counts what became of a message in the interval that it was sent in.
    #[inline]
    fn count(&mut self, index: u64, message: &IntervalMessage) {
        let is_lost = matches!(message.outcome, MessageOutcome::Lost);
        if is_lost && !self.lost_of.is_empty() {
            self.count_loss(index, message.peer);
        }
        let at = index.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        let counts = match at.filter(|at| *at < self.open.len()) {
            Some(at) => &mut self.open[at].so_far,
            None => self.slot(index),
        };
        counts.sent += 1;
        counts.received += u64::from(matches!(message.outcome, MessageOutcome::Answered { .. }));
        counts.lost += u64::from(is_lost);
    }

    /// A message that one of several reflectors did not answer.
    #[cold]
    fn count_loss(&mut self, index: u64, peer: usize) {
        self.slot(index);
        let at = usize::try_from(index / self.joined).unwrap_or(0);
        if let Some((_, lost)) = self.lost_of.get_mut(peer) {
            if lost.len() <= at {
                lost.resize(at + 1, 0);
            }
            lost[at] += 1;
        }
    }

    /// A message of an interval that is closed.
    #[cold]
    fn straggle(&mut self, index: u64, message: &IntervalMessage) {
        let peers = self.tags.len();
        let slot = self.slot(index);
        slot.least_late_ns = least(slot.least_late_ns, Some(message.lateness_ns));
        if let MessageOutcome::Answered { rtt_ns, .. } = message.outcome {
            slot.rtt_max_ns = slot.rtt_max_ns.max(rtt_ns);
            slot.rtt_p50_ns = between(slot.rtt_p50_ns, slot.answers, rtt_ns, 1);
            slot.rtt_p99_ns = between(slot.rtt_p99_ns, slot.answers, rtt_ns, 1);
            slot.answers += 1;
        }
        slot.lateness_p99_ns = between(slot.lateness_p99_ns, slot.due, message.lateness_ns, 1);
        slot.due += 1;
        record(self.stragglers.entry(index).or_insert_with(|| tallies(peers)), message);
        if self.stragglers.len() > MOST_STRAGGLERS
            && let Some((index, each)) = self.stragglers.pop_first()
        {
            self.write(index, 1, &each);
        }
    }

    /// The slot of an interval of the series.
    fn slot(&mut self, index: u64) -> &mut ClosedInterval {
        while index / self.joined >= MOST_SLOTS {
            for at in 0..self.slots.len().div_ceil(2) {
                let next = self.slots.get(2 * at + 1).copied();
                self.slots.swap(at, 2 * at);
                if let Some(next) = next {
                    self.slots[at].join(&next);
                }
            }
            self.slots.truncate(self.slots.len().div_ceil(2));
            for (_, lost) in &mut self.lost_of {
                *lost = lost.chunks(2).map(|pair| pair.iter().sum()).collect();
            }
            self.joined *= 2;
        }
        let at = usize::try_from(index / self.joined).unwrap_or(0);
        if self.slots.len() <= at {
            self.slots.resize(at + 1, ClosedInterval::default());
        }
        &mut self.slots[at]
    }

    /// When the oldest open interval is complete: messages leave in the order that they are due, so once a later one was sent.
    fn set_close(&mut self) {
        let later = self.open.iter().skip(1).find_map(|open| open.first_sent);
        self.close_from = later.map_or(u64::MAX, |sent| sent.saturating_add(self.wait));
    }

    /// Closes intervals whose messages are all known at this tick.
    #[cold]
    pub(super) fn close(&mut self, now: u64) {
        while now >= self.close_from && !self.open.is_empty() {
            self.close_oldest();
        }
    }

    fn close_oldest(&mut self) {
        let Some(open) = self.open.pop_front() else { return };
        let index = self.first;
        self.first += 1;
        let mut slot = open.so_far;
        let report = LiveInterval { settled: true, ..self.view(index, &open) };
        if let Some(each) = open.tallies {
            (slot.answers, slot.due) = (answers(&each), due(&each));
            slot.rtt_p50_ns = report.rtt_p50_ns.unwrap_or(0);
            slot.rtt_p99_ns = report.rtt_p99_ns.unwrap_or(0);
            slot.lateness_p99_ns = report.lateness_p99_ns.unwrap_or(0);
            self.log(index, each);
        }
        self.slot(index).join(&slot);
        let was_reported = index < self.next_report;
        if !was_reported || self.unsettled.contains(&index) {
            self.unsettled.retain(|&unsettled| unsettled != index);
            self.next_report = self.next_report.max(index + 1);
            self.report(report);
        }
        self.set_close();
    }

    /// What an open interval looks like now.
    fn view(&mut self, index: u64, open: &OpenInterval) -> LiveInterval {
        let so_far = &open.so_far;
        let begun = open.begun.max(so_far.sent);
        let mut view = LiveInterval {
            at_ns: index.saturating_mul(self.length_ns),
            interval_ns: self.length_ns,
            sent: begun,
            received: so_far.received,
            lost: so_far.lost,
            open: begun - so_far.sent,
            ..LiveInterval::default()
        };
        let Some(each) = &open.tallies else { return view };
        let [rtt, intended, lateness] = match &**each {
            [only] => only,
            several => {
                self.scratch.iter_mut().for_each(CoarseTally::clear);
                let sums = std::slice::from_mut(&mut self.scratch);
                several.iter().for_each(|of_peer| add(std::slice::from_ref(of_peer), sums));
                &self.scratch
            }
        };
        view.rtt_max_ns = (rtt.total() > 0).then_some(so_far.rtt_max_ns);
        // The tally knows only the bucket of its largest.
        let at_most = |quantile: Option<u64>| quantile.min(view.rtt_max_ns);
        (view.rtt_p50_ns, view.rtt_p99_ns) = (at_most(rtt.quantile(0.5)), at_most(rtt.quantile(0.99)));
        view.rtt_intended_p99_ns = intended.quantile(0.99);
        view.lateness_p99_ns = lateness.quantile(0.99);
        view
    }

    fn report(&mut self, report: LiveInterval) {
        if self.reports.len() == MOST_REPORTS {
            self.reports.pop_front();
        }
        self.reports.push_back(report);
    }

    /// A message was sent at `sent_ns`, later than those before, to so many reflectors; [`Intervals::take`] has its outcome.
    #[inline]
    pub(super) fn begin(&mut self, sent_ns: u64, messages: u64) {
        if sent_ns >= self.sending.1 {
            let index = sent_ns / self.length_ns;
            self.sending = (index, (index + 1).saturating_mul(self.length_ns));
            self.reach(index);
        }
        let at = self.sending.0.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        if let Some(open) = at.and_then(|at| self.open.get_mut(at)) {
            open.begun += messages;
        }
    }

    /// Reports intervals that are over at `now_ns` (ns since the first message was due): at once where all due before `known_ns` is
    /// known, else after half an interval and once more when it is. With `all_sent` nothing more will be sent.
    pub(super) fn look(&mut self, now_ns: u64, known_ns: u64, all_sent: bool) {
        let end = |index: u64, length_ns: u64| (index + 1).saturating_mul(length_ns);
        while self.unsettled.front().is_some_and(|&index| end(index, self.length_ns) <= known_ns) {
            if let Some(index) = self.unsettled.pop_front() {
                self.report_open(index, true);
            }
        }
        let until = if all_sent { self.first + self.open.len() as u64 } else { u64::MAX };
        while self.next_report < until {
            let index = self.next_report;
            let end_ns = end(index, self.length_ns);
            let settled = end_ns <= known_ns;
            if now_ns < end_ns || !settled && now_ns - end_ns < self.length_ns / 2 {
                break;
            }
            self.next_report += 1;
            if !settled {
                self.unsettled.push_back(index);
            }
            self.report_open(index, settled);
        }
    }

    fn report_open(&mut self, index: u64, settled: bool) {
        let at = index.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        // Where there is none nothing was sent in it so far.
        let open = at.and_then(|at| self.open.get_mut(at)).map(std::mem::take).unwrap_or_default();
        let report = LiveInterval { settled, ..self.view(index, &open) };
        if let Some(place) = at.and_then(|at| self.open.get_mut(at)) {
            *place = open;
        }
        self.report(report);
    }

    /// Adds an interval to the log, or to the line that is being gathered.
    fn log(&mut self, index: u64, mut each: Box<[Tallies]>) {
        if self.group.as_ref().is_some_and(|(start, _)| index / self.grouped != start / self.grouped) {
            self.end_group();
        }
        if self.grouped == 1 {
            self.write(index, 1, &each);
        } else if let Some((_, group)) = &mut self.group {
            add(&each, group);
        } else {
            self.group = Some((index / self.grouped * self.grouped, each));
            return;
        }
        each.iter_mut().flatten().for_each(CoarseTally::clear);
        self.spare.push(each);
    }

    fn end_group(&mut self) {
        if let Some((start, mut each)) = self.group.take() {
            self.write(start, self.grouped, &each);
            each.iter_mut().flatten().for_each(CoarseTally::clear);
            self.spare.push(each);
        }
    }

    /// Lines of some intervals from one on.
    fn write(&mut self, index: u64, count: u64, each: &[Tallies]) {
        let start_ns = index.saturating_mul(self.length_ns);
        let length_ns = count.saturating_mul(self.length_ns);
        for (of_peer, tags) in each.iter().zip(&self.tags) {
            for (tally, tag) in of_peer.iter().zip(tags) {
                Log::line(&mut self.lines, &mut self.encoder, tag, start_ns, length_ns, tally);
            }
        }
        if self.lines.len() >= self.log_bytes && self.group.is_none() {
            self.grouped *= 2;
            self.log_bytes += self.log_step;
        }
    }

    pub(super) fn end(&mut self) {
        while !self.open.is_empty() {
            self.close_oldest();
        }
        self.end_group();
        while let Some((index, each)) = self.stragglers.pop_first() {
            self.write(index, 1, &each);
        }
    }

    /// After [`Intervals::end`]: the series, and the lines of the log.
    pub(super) fn finish(self) -> (Vec<Series>, String) {
        let interval_ns = self.length_ns.saturating_mul(self.joined);
        let series = |quantity: SeriesQuantity, value: fn(&ClosedInterval) -> Option<u64>| Series {
            quantity,
            host: Role::Initiator.to_string(),
            interval_ns,
            values: self.slots.iter().map(|slot| value(slot).map(|value| value as f64)).collect(),
        };
        let mut series = vec![
            series(SeriesQuantity::Sent, |slot| Some(slot.sent)),
            series(SeriesQuantity::Received, |slot| Some(slot.received)),
            series(SeriesQuantity::Lost, |slot| Some(slot.lost)),
            series(SeriesQuantity::RttP50, |slot| (slot.answers > 0).then_some(slot.rtt_p50_ns)),
            series(SeriesQuantity::RttP99, |slot| (slot.answers > 0).then_some(slot.rtt_p99_ns)),
            series(SeriesQuantity::RttMax, |slot| (slot.answers > 0).then_some(slot.rtt_max_ns)),
            series(SeriesQuantity::LatenessP99, |slot| (slot.due > 0).then_some(slot.lateness_p99_ns)),
        ];
        let slots = self.slots.len();
        series.extend(self.lost_of.into_iter().map(|(host, lost)| Series {
            quantity: SeriesQuantity::Lost,
            host,
            interval_ns,
            values: (0..slots).map(|at| Some(lost.get(at).copied().unwrap_or(0) as f64)).collect(),
        }));
        (series, self.lines)
    }

    /// After [`Intervals::end`]: the length of an interval, and the smallest lateness of each that messages were due in.
    pub(super) fn least_lateness(&self) -> (u64, impl DoubleEndedIterator<Item = u64> + '_) {
        let due = self.slots.iter().filter_map(|slot| slot.least_late_ns);
        (self.length_ns.saturating_mul(self.joined), due)
    }
}
