//! What the tool itself costs: the measured loop around an empty path, and the recording of a sample, for some ms before a size.

use crate::framing::Framing;
use crate::rounds::{Limit, Phase, Plan, Rounds};
use clock::Clock;
use model::result::SelfCost;
use model::{Gap, Sample};
use net::{Path, PathError, Received};
use record::{Recorder, RecorderConfig};
use std::sync::atomic::AtomicBool;
use task::Progress;

/// Rounds of one trial; the quickest of [`TRIALS`] is taken, because only disturbances make one slower.
const ROUNDS: u64 = 1024;
const TRIALS: usize = 5;

/// Longest message that the empty path is tried with: the loop touches the header only, whatever the size.
const MOST_BYTES: usize = 64;

/// A path that answers each message with its own head, without the kernel.
#[derive(Debug)]
struct EmptyPath {
    head: [u8; MOST_BYTES],
    framing: Framing,
}

impl Path for EmptyPath {
    #[inline]
    fn send(&mut self, message: &[u8], _more: bool) -> Result<(), PathError> {
        let bytes = message.len().min(16);
        self.head[..bytes].copy_from_slice(&message[..bytes]);
        self.framing.answer(&mut self.head[..message.len().min(MOST_BYTES)]);
        Ok(())
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Received, PathError> {
        let bytes = buffer.len().min(16);
        buffer[..bytes].copy_from_slice(&self.head[..bytes]);
        Ok(Received::Bytes(buffer.len()))
    }
}

/// Measures both. `startup_ns` is left to the caller.
pub(crate) fn measure(clock: Clock, plan: Plan, recorder: RecorderConfig) -> SelfCost {
    SelfCost {
        clock_read_ns: clock.read_cost_ns(),
        loop_ns: loop_ns(clock, plan),
        record_ns: record_ns(clock, recorder),
        startup_ns: None,
    }
}

fn loop_ns(clock: Clock, plan: Plan) -> f64 {
    let stop = AtomicBool::new(false);
    let progress = Progress::new();
    let plan = Plan {
        send_bytes: plan.send_bytes.min(MOST_BYTES),
        receive_bytes: plan.receive_bytes.min(MOST_BYTES),
        gap: Gap::default(),
        interval_ns: 0,
        pace_ns: 0,
        ..plan
    };
    let mut rounds = Rounds::new(clock, plan, 0, ROUNDS, &stop, &progress);
    let mut path = EmptyPath { head: [0; MOST_BYTES], framing: plan.framing };
    let mut trial = || {
        let start = clock.now();
        let ended = rounds.batch(&mut path, Limit::rounds(ROUNDS), Phase::Timed);
        let ticks = clock.now().saturating_sub(start);
        ended.is_ok().then(|| clock.ns(ticks) as f64 / ROUNDS as f64)
    };
    quickest((0..TRIALS).filter_map(|_| trial()))
}

pub(crate) fn record_ns(clock: Clock, config: RecorderConfig) -> f64 {
    let config = RecorderConfig { max_ms: 1000, raw_capacity: 0, ..config };
    let mut recorder = Recorder::new(config);
    // Round trips of 10 to 12 µs, one after the other, as a quiet path has them.
    let step = clock.ticks(12_000).max(1);
    let mut at = clock.now();
    let samples: Vec<Sample> = (0..ROUNDS)
        .map(|seq| {
            let sent = at;
            at = at.saturating_add(step);
            let received = sent + clock.ticks(10_000 + (seq * 7919) % 2000);
            Sample { seq, intended: sent, sent, received, ..Sample::default() }
        })
        .collect();
    quickest((0..TRIALS).map(|trial| {
        let shift = step * ROUNDS * trial as u64;
        let shifted: Vec<Sample> = samples
            .iter()
            .map(|sample| Sample {
                seq: sample.seq + ROUNDS * trial as u64,
                intended: sample.intended + shift,
                sent: sample.sent + shift,
                received: sample.received + shift,
                ..*sample
            })
            .collect();
        let start = clock.now();
        recorder.ingest(&shifted);
        clock.ns(clock.now().saturating_sub(start)) as f64 / ROUNDS as f64
    }))
}

fn quickest(trials: impl Iterator<Item = f64>) -> f64 {
    trials.reduce(f64::min).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::LatencyKind;

    #[test]
    fn both_cost_something_and_not_much() {
        let clock = Clock::calibrate().unwrap();
        let gap = Gap { sleep_us: 1000, spin_us: 0 };
        let plan = Plan { gap, interval_ns: 1_000_000, pace_ns: 1_000_000, ..crate::rounds::tests::plan(32) };
        for framing in [plan.framing, Framing::Sockperf] {
            let config = RecorderConfig::new(clock.rate(), LatencyKind::RttHalf, 1000);
            let cost = measure(clock, Plan { framing, ..plan }, config);
            // 0 where no round was answered.
            assert!(cost.loop_ns > 0.0, "{framing:?} {cost:?}");
            // Neither the gap nor a time-out is part of the loop's cost: 1 ms a round would show.
            assert!(cost.loop_ns < 500_000.0, "{framing:?} {cost:?}");
            assert!(cost.record_ns > 0.0, "{cost:?}");
        }
    }
}
