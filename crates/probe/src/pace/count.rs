//! What the counting thread does with the samples: records them, reports intervals, and detects a peer that has vanished.

use super::open::Remote;
use super::phase::PhaseProgress;
use crate::context::LiveSink;
use crate::driver::PassEnd;
use crate::{Context, ProbeError};
use clock::Clock;
use model::PacedSample;
use record::Paced;

/// Between two looks at the control connections, while messages are being lost.
const ASK_NS: u64 = 500_000_000;
/// A peer counts as vanished after this many lost messages and this long without an answer.
const SILENT_MESSAGES: u64 = 10;
const SILENT_NS: u64 = 5_000_000_000;
pub(crate) const SILENT: PassEnd = PassEnd::Silent(SILENT_NS / 1_000_000);

pub(crate) struct PhaseCounter<'a> {
    /// Absent while warming up.
    paced: Option<&'a mut Paced>,
    live: Option<&'a LiveSink>,
    context: &'a Context,
    clock: Clock,
    remotes: &'a mut [Remote],
    /// Which control session ended, and why.
    ended: &'a mut Option<(usize, ProbeError)>,
    ask_at: u64,
    lost_when_asked: u64,
    /// Answers and losses when something last came back, and when that was seen.
    answered: u64,
    lost: u64,
    heard_at: u64,
}

impl<'a> PhaseCounter<'a> {
    pub(crate) fn new(
        paced: Option<&'a mut Paced>,
        live: Option<&'a LiveSink>,
        context: &'a Context,
        clock: Clock,
        remotes: &'a mut [Remote],
        ended: &'a mut Option<(usize, ProbeError)>,
    ) -> Self {
        Self {
            paced,
            live,
            context,
            clock,
            remotes,
            ended,
            ask_at: 0,
            lost_when_asked: 0,
            answered: 0,
            lost: 0,
            heard_at: 0,
        }
    }

    fn report(&mut self, seen: PhaseProgress) {
        let (Some(paced), Some(live)) = (&mut self.paced, self.live) else { return };
        paced.look(seen.now, seen.known, seen.all_sent);
        for interval in paced.intervals() {
            live.report(interval);
        }
    }

    fn is_silent(&mut self, seen: PhaseProgress) -> bool {
        if seen.answered > self.answered || self.heard_at == 0 {
            (self.answered, self.lost, self.heard_at) = (seen.answered, seen.lost, seen.now);
        }
        seen.lost.saturating_sub(self.lost) >= SILENT_MESSAGES
            && self.clock.ns(seen.now.saturating_sub(self.heard_at)) >= SILENT_NS
    }

    /// Whether a control session has ended. Asked only while messages are lost, so that it stays quiet else.
    fn has_peer_ended(&mut self, seen: PhaseProgress) -> bool {
        if seen.now < self.ask_at || seen.lost == self.lost_when_asked {
            return false;
        }
        self.ask_at = seen.now.saturating_add(self.clock.ticks(ASK_NS));
        self.lost_when_asked = seen.lost;
        let ended = self.remotes.iter_mut().enumerate().find_map(|(at, remote)| Some((at, remote.session.ended()?)));
        if ended.is_some() {
            *self.ended = ended;
        }
        self.ended.is_some()
    }

    pub(crate) fn begin(&mut self, tick: u64) {
        if let Some(paced) = &mut self.paced {
            paced.begin(tick);
        }
    }

    /// Samples in the order in which their outcome became known.
    pub(crate) fn take(&mut self, samples: &[PacedSample]) {
        if let Some(paced) = &mut self.paced {
            paced.ingest(samples);
        }
    }

    /// A message left for `messages` reflectors, intended and sent at these ticks; [`PhaseCounter::take`] has its outcome.
    pub(crate) fn sent(&mut self, intended: u64, sent: u64, messages: u64) {
        if let (Some(paced), Some(_)) = (&mut self.paced, self.live) {
            paced.begun(intended, sent, messages);
        }
    }

    /// Called every few milliseconds; what it returns ends the phase.
    pub(crate) fn look(&mut self, seen: PhaseProgress) -> Option<PassEnd> {
        self.report(seen);
        if self.context.stopping() {
            Some(PassEnd::Stopped)
        } else if self.is_silent(seen) {
            Some(SILENT)
        } else if self.has_peer_ended(seen) {
            Some(PassEnd::PeerEnded)
        } else {
            None
        }
    }
}
