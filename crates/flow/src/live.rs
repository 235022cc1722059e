//! Why another process receives late: its receive calls are followed while it runs, without messages of ours.

use crate::explainer::{Collected, Collecting, Collector, Late, summarize};
use crate::only_recording::OnlyRecording;
use explain::{Explained, Side, Usual, join};
use model::{ExplainOver, ExplainedStay, Explanation, Policy};
use stats::Histogram;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use trace::Recorder;

/// How often there is a [`LiveReport`].
const PERIOD_NS: u64 = 1_000_000_000;

/// What was seen of the process over some time. A message is what a receive call returns; its time is the wait until then.
#[derive(Debug, Clone)]
pub struct LiveReport {
    /// The late messages and their causes.
    pub explanation: Explanation,
    /// The longest wait.
    pub max_ns: Option<u64>,
    /// The late messages, the longest wait first.
    pub late: Vec<Explained>,
}

/// Follows a process. Dropping it ends that.
pub struct LiveExplainer {
    late: Late,
    collector: Collector,
    seconds: Receiver<LiveReport>,
}

impl LiveExplainer {
    /// Begins to follow a process, which causes are named after.
    ///
    /// # Errors
    /// Why nothing can be recorded: mostly a matter of privileges.
    pub fn start(process: u32, name: &str, over: ExplainOver) -> Result<Self, String> {
        let only = OnlyRecording::begin()?;
        let recorder = Recorder::follow(process).map_err(|error| error.to_string())?;
        let late = match over {
            ExplainOver::Ns(ns) => Late::Over(ns, 0.0),
            ExplainOver::Auto => Late::Over(0, 0.99),
            ExplainOver::P999 => Late::Over(0, 0.999),
        };
        let mut collecting = Collecting::new(Side::Far, late, Policy::Other, recorder);
        (collecting.is_other, collecting.host) = (true, name.to_owned());
        let (sender, seconds) = channel();
        let (mut due_ns, mut first_seq) = (clock::monotonic_ns() + PERIOD_NS, 0);
        let watch = move |collecting: &mut Collecting| {
            if clock::monotonic_ns() < due_ns {
                return;
            }
            due_ns += PERIOD_NS;
            let all = std::mem::take(&mut collecting.recent);
            let late = collecting.explained.range(first_seq..).map(|(_, stay)| stay.clone()).collect();
            first_seq = collecting.explained.last_key_value().map_or(first_seq, |(seq, _)| seq + 1);
            // Nobody may read them.
            let _ = sender.send(report(collecting.over_ns, late, &collecting.usual, &all));
        };
        Ok(Self { late, collector: Collector::spawn(collecting, None, only, watch)?, seconds })
    }

    /// The next second's report, if it comes within a time.
    ///
    /// # Errors
    /// The thread that explains ended by itself.
    pub fn second(&self, within: Duration) -> Result<Option<LiveReport>, String> {
        match self.seconds.recv_timeout(within) {
            Ok(report) => Ok(Some(report)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err("the thread that explains ended by itself".to_owned()),
        }
    }

    /// Ends it: the report of all that was seen.
    ///
    /// # Errors
    /// The thread that explains ended by itself.
    pub fn finish(self) -> Result<LiveReport, String> {
        let Collected { usual, stays, limits, .. } = self.collector.finish()?;
        let over_ns = self.late.threshold_ns(&usual);
        let stays = stays.into_iter().map(|(_, stay)| stay).collect();
        let mut whole = report(over_ns, stays, &usual, usual.stays());
        let explained = whole.explanation.late;
        whole.explanation.late = usual.stays().count_above(over_ns).max(explained);
        whole.explanation.limits = limits;
        let missing = whole.explanation.late - explained;
        if missing > 0 {
            let why = "they came before it was known what is late, or too many came at once";
            whole.explanation.limits.push(format!("{missing} of the late messages are not explained: {why}"));
        }
        Ok(whole)
    }
}

fn report(over_ns: u64, stays: Vec<ExplainedStay>, usual: &Usual, all: &Histogram) -> LiveReport {
    let is_late = |stay: &ExplainedStay| stay.ns > over_ns;
    let stays = stays.into_iter().filter(is_late);
    let mut late: Vec<Explained> = stays.map(|stay| join(stay, usual, None, true)).collect();
    late.sort_by_key(|message| std::cmp::Reverse(message.rtt_ns));
    let over_ns = if all.is_empty() { 0 } else { over_ns };
    let mut explanation = Explanation { over_ns, ..Explanation::default() };
    summarize(&mut explanation, &late, all);
    explanation.late = u64::try_from(late.len()).unwrap_or(u64::MAX);
    LiveReport { explanation, max_ns: all.max(), late }
}
