//! The reflector's loop for a TCP connection a transaction.

use crate::reflect::{Outcome, Reflect, Tally};
use host::{CounterSampler, UsageSampler};
use net::{DataListener, NetError, PathOptions, Received, TransactionServer};
use std::net::IpAddr;
use std::sync::atomic::Ordering;

/// Serves transactions until the halt. The answer is what the buffer holds: each transaction has its own connection, so
/// it needs no number.
pub(crate) fn serve<F: FnOnce()>(
    listener: &DataListener,
    client: IpAddr,
    options: &PathOptions<'_>,
    plan: Reflect<'_, F>,
) -> Result<Outcome, NetError> {
    let Reflect { shape, mut pace, buffer, halt, cpu, started } = plan;
    let mut server = TransactionServer::new(listener, client, options)?;
    let answer = vec![0x5a; shape.response];
    let counters = CounterSampler::start();
    started();
    let mut usage = UsageSampler::start(cpu);
    let mut tally = Tally::default();
    let request = buffer.get_mut(..shape.size).unwrap_or_default();
    let broken = 'serve: loop {
        for _ in 0..pace.rounds() {
            match server.serve(request, &answer) {
                Ok(Received::Bytes(_)) => {
                    tally.received += 1;
                    tally.sent += 1;
                }
                Ok(Received::Stopped) => break 'serve None,
                Ok(Received::Interrupted | Received::TimedOut) => {
                    if halt.flag().load(Ordering::Relaxed) {
                        break 'serve None;
                    }
                }
                Err(error) => break 'serve Some(error),
            }
        }
        usage.observe_cpu();
        if let Some(earliest) = pace.look() {
            tally.over_rate += 1;
            pace.sleep_until(earliest, halt);
        }
    };
    halt.leave();
    let usage = usage.finish();
    let counters = counters.finish();
    tally.ignored += server.foreign() + server.abandoned();
    Ok(Outcome { tally, usage, counters, broken })
}
