//! Live output: a progress line or JSON lines, printed by a thread of its own, so that no measuring thread waits.

use crate::output::{Failure, Output, unwritten, written};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::{LiveInterval, ResultDocument};
use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the progress line is drawn: drawing costs a CPU some 100 µs.
const DRAW: Duration = Duration::from_millis(400);

enum News {
    Interval(LiveInterval),
    /// With a sender that is used once it is printed.
    Result(Box<ResultDocument>, Sender<()>),
}

/// Where intervals and results are shown; by default nowhere.
#[derive(Debug, Default)]
pub(crate) struct Live {
    jsonl: bool,
    printer: Option<Printer>,
}

#[derive(Debug)]
struct Printer {
    news: Sender<News>,
    thread: JoinHandle<std::io::Result<()>>,
}

impl Live {
    /// Prints JSON lines on standard output if asked to, and a progress line on standard error if a person is there.
    pub(crate) fn new(jsonl: bool, output: &Output) -> Result<Self, Failure> {
        let shows = output.shows_progress();
        if !jsonl && !shows {
            return Ok(Self::default());
        }
        let (news, heard) = channel();
        let thread = std::thread::Builder::new().name("live".to_owned()).spawn(move || {
            let (bar, mut view) = (bar(shows, "{msg}"), View::default());
            let clear = |view: &mut View| {
                bar.finish_and_clear();
                view.clear();
            };
            let mut told = Ok(true);
            for news in heard {
                match &news {
                    News::Interval(interval) => {
                        if let Some((line, is_first)) = view.add(interval) {
                            if is_first && bar.is_finished() {
                                bar.reset();
                            }
                            bar.set_message(line);
                        }
                    }
                    News::Result(..) => clear(&mut view),
                }
                if jsonl && matches!(told, Ok(true)) {
                    told = line(&news);
                }
                if let News::Result(_, printed) = news {
                    let _ = printed.send(());
                }
            }
            clear(&mut view);
            // A reader that went away is no error.
            told.map(drop)
        })?;
        Ok(Self { jsonl, printer: Some(Printer { news, thread }) })
    }

    pub(crate) fn tells_results(&self) -> bool {
        self.jsonl
    }

    /// Takes intervals; none where they are not shown.
    pub(crate) fn sink(&self) -> Option<probe::LiveSink> {
        let news = self.printer.as_ref()?.news.clone();
        Some(probe::LiveSink::new(move |interval| {
            // The printer ends last.
            let _ = news.send(News::Interval(interval));
        }))
    }

    /// Shows a result after the intervals that it is made of, and waits until the terminal is free for other lines.
    pub(crate) fn result(&self, result: &ResultDocument) {
        if let Some(printer) = &self.printer {
            let (printed, done) = channel();
            if printer.news.send(News::Result(Box::new(result.clone()), printed)).is_ok() {
                let _ = done.recv();
            }
        }
    }

    /// Waits until everything is printed. Every sink has to be dropped by then.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let Some(Printer { news, thread }) = self.printer else { return Ok(()) };
        drop(news);
        match thread.join() {
            Ok(told) => told.map_err(|error| unwritten("the result ", &error)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// False once the reader has closed standard output.
fn line(news: &News) -> std::io::Result<bool> {
    let (kind, object) = match news {
        News::Interval(interval) => ("interval", serde_json::to_string(interval)?),
        News::Result(result, _) => ("result", serde_json::to_string(result)?),
    };
    written(&typed(kind, &object))
}

/// An object as a line that begins with its type.
pub(crate) fn typed(kind: &str, object: &str) -> String {
    let fields = object.strip_prefix('{').unwrap_or(object);
    format!("{{\"type\":\"{kind}\",{fields}\n")
}

/// The figures of a progress line: sums of what came since it was drawn last, and what was lost so far.
#[derive(Debug, Default)]
struct Sums {
    sent: u64,
    bytes: Option<u64>,
    span_ns: u64,
    lost: u64,
    /// Losses and bytes of intervals that may still change, by their start.
    open: BTreeMap<u64, (u64, u64)>,
    /// What the sums belong to: another rate begins anew.
    of: Option<(u32, Option<f64>)>,
}

impl Sums {
    /// Adds an interval, or replaces an earlier one by its correction. Whether it is a new one.
    fn add(&mut self, interval: &LiveInterval) -> bool {
        let of = Some((interval.size, interval.asked_pps));
        if self.of != of {
            *self = Self { of, ..Self::default() };
        }
        let before = self.open.remove(&interval.at_ns);
        if interval.settled {
            self.lost += interval.lost;
        } else {
            self.open.insert(interval.at_ns, (interval.lost, interval.bytes.unwrap_or(0)));
        }
        if before.is_none() {
            self.sent += interval.sent;
            self.span_ns += interval.interval_ns;
        }
        if let Some(bytes) = interval.bytes {
            *self.bytes.get_or_insert(0) += bytes.saturating_sub(before.map_or(0, |(_, bytes)| bytes));
        }
        before.is_none()
    }

    /// The line, once drawn: the rates begin anew. `  3.4 s  1000 B  19,998/s of 20,000/s  RTT p50 14.2 µs  p99 269.1 µs
    /// lost 0`.
    fn words(&mut self, interval: &LiveInterval) -> String {
        let us = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.1}", ns as f64 / 1e3));
        let at = interval.at_ns.saturating_add(interval.interval_ns) as f64 / 1e9;
        let lost = self.lost + self.open.values().map(|(lost, _)| lost).sum::<u64>();
        let a_second = |count: u64| if self.span_ns == 0 { 0.0 } else { count as f64 * 1e9 / self.span_ns as f64 };
        let rtt = format!("RTT p50 {} µs  p99 {} µs", us(interval.rtt_p50_ns), us(interval.rtt_p99_ns));
        let text = if interval.wake_up_max_ns.is_some() {
            let rate = a_second(self.sent);
            format!("{at:5.1} s  {rate:.0} deadlines/s  wake-up latency max {} µs so far", us(interval.wake_up_max_ns))
        } else if let Some(bytes) = self.bytes {
            let beside = interval.rounds.map(|_| format!("  {rtt} beside it")).unwrap_or_default();
            let mbit = a_second(bytes) * 8e-6;
            format!("{at:5.1} s  {} B  {mbit:.1} Mbit/s delivered{beside}  lost {lost}", interval.size)
        } else {
            let asked = interval.asked_pps.map(|pps| format!(" of {pps:.0}/s")).unwrap_or_default();
            // Of a closed loop they are known once 100 ms are over.
            let rtt = interval.rtt_p50_ns.or(interval.lateness_p99_ns).map(|_| format!("  {rtt}")).unwrap_or_default();
            let lateness = interval.lateness_p99_ns.map(|_| format!("  late p99 {} µs", us(interval.lateness_p99_ns)));
            let lateness = lateness.unwrap_or_default();
            let rate = a_second(self.sent);
            format!("{at:5.1} s  {} B  {rate:.0}/s{asked}{rtt}{lateness}  lost {lost}", interval.size)
        };
        (self.sent, self.span_ns) = (0, 0);
        self.bytes = self.bytes.map(|_| 0);
        text
    }
}

/// A progress bar on standard error with a template; hidden where no person watches.
pub(crate) fn bar(shows: bool, template: &str) -> ProgressBar {
    let target = if shows { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(None, target);
    style(&bar, template);
    bar
}

pub(crate) fn style(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

#[derive(Default)]
pub(crate) struct View {
    drawn: Option<Instant>,
    sums: Sums,
}

impl View {
    /// The line to draw after an interval, where it is time to draw one; and whether it is the first.
    pub(crate) fn add(&mut self, interval: &LiveInterval) -> Option<(String, bool)> {
        let is_due = self.sums.add(interval) && self.drawn.is_none_or(|drawn| drawn.elapsed() >= DRAW);
        is_due.then(|| (self.sums.words(interval), self.drawn.replace(Instant::now()).is_none()))
    }

    /// Whether anything was drawn that is over now.
    pub(crate) fn clear(&mut self) -> bool {
        self.drawn.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_line_says_what_is_reached_and_lost() {
        let interval = LiveInterval {
            size: 1000,
            asked_pps: Some(20_000.0),
            at_ns: 300_000_000,
            interval_ns: 100_000_000,
            sent: 2000,
            lost: 3,
            rtt_p50_ns: Some(14_200),
            rtt_p99_ns: Some(269_100),
            ..LiveInterval::default()
        };
        let mut sums = Sums::default();
        assert!(sums.add(&interval));
        let text = sums.words(&interval);
        assert_eq!(text, "  0.4 s  1000 B  20000/s of 20000/s  RTT p50 14.2 µs  p99 269.1 µs  lost 3");
        // A correction replaces the earlier interval; messages are not counted twice.
        assert!(!sums.add(&LiveInterval { lost: 5, settled: true, ..interval.clone() }));
        let next = LiveInterval { at_ns: 400_000_000, sent: 1000, lost: 1, ..interval };
        assert!(sums.add(&next));
        let text = sums.words(&next);
        assert!(text.contains("10000/s of") && text.ends_with("lost 6"), "{text}");
        // Of a closed loop's first 100 ms only the rounds are known.
        let closed = LiveInterval { size: 32, sent: 9, interval_ns: 1_000_000, ..LiveInterval::default() };
        let mut sums = Sums::default();
        sums.add(&closed);
        assert_eq!(sums.words(&closed), "  0.0 s  32 B  9000/s  lost 0");
        let (rtt_p50_ns, rtt_p99_ns) = (Some(21_000), Some(48_300));
        let later = LiveInterval { at_ns: 200_000_000, rtt_p50_ns, rtt_p99_ns, ..closed.clone() };
        sums.add(&later);
        assert_eq!(sums.words(&later), "  0.2 s  32 B  9000/s  RTT p50 21.0 µs  p99 48.3 µs  lost 0");
        // Deadlines have neither size nor loss.
        let wake = LiveInterval { size: 0, wake_up_max_ns: Some(81_200), ..closed };
        sums.add(&wake);
        assert_eq!(sums.words(&wake), "  0.0 s  9000 deadlines/s  wake-up latency max 81.2 µs so far");
    }

    #[test]
    fn a_stream_says_what_arrives_and_what_the_ping_pong_beside_it_sees() {
        let one = LiveInterval {
            size: 1472,
            interval_ns: 1_000_000_000,
            bytes: Some(125_000_000),
            rounds: Some(900),
            rtt_p50_ns: Some(80_000),
            rtt_p99_ns: Some(900_000),
            settled: true,
            ..LiveInterval::default()
        };
        let mut sums = Sums::default();
        sums.add(&one);
        let text = sums.words(&one);
        assert!(text.contains("1000.0 Mbit/s") && text.contains("RTT p50 80.0 µs  p99 900.0 µs beside it"), "{text}");
    }

    #[test]
    fn lines_of_both_kinds_say_which_they_are() {
        let text = typed("interval", &serde_json::to_string(&LiveInterval::default()).unwrap());
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((value["type"].as_str(), value["sent"].as_u64()), (Some("interval"), Some(0)));
        assert_eq!(text.lines().count(), 1);
    }
}
