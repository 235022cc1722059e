//! The reflector's loop for a TCP connection a transaction.

use crate::reflect::{MessageCounts, ReflectLoop, SizeOutcome};
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
    plan: ReflectLoop<'_, F>,
) -> Result<SizeOutcome, NetError> {
    let ReflectLoop { shape, mut pace, buffer, halt, cpu, started } = plan;
    let mut server = TransactionServer::new(listener, client, options)?;
    let answer = vec![0x5a; shape.response];
    let counters = CounterSampler::start();
    started();
    let mut usage = UsageSampler::start(cpu);
    let mut counts = MessageCounts::default();
    let request = buffer.get_mut(..shape.size).unwrap_or_default();
    let broken = 'serve: loop {
        for _ in 0..pace.rounds() {
            match server.serve(request, &answer) {
                Ok(Received::Bytes(_)) => {
                    counts.received += 1;
                    counts.sent += 1;
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
            counts.over_rate += 1;
            pace.sleep_until(earliest, halt);
        }
    };
    halt.leave();
    let usage = usage.finish();
    let counters = counters.finish();
    counts.ignored += server.foreign() + server.abandoned();
    Ok(SizeOutcome { counts, usage, counters, broken })
}
