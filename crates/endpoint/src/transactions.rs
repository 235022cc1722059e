//! The reflector's loop for a TCP connection a transaction.

use crate::reflect::{ReflectLoop, SizeOutcome};
use net::{DataListener, NetError, PathOptions, Received, TransactionServer};
use std::net::IpAddr;
use std::sync::atomic::Ordering;

/// Serves transactions until the halt. The answer is what the buffer holds: a connection each needs no number.
pub(crate) fn serve<F: FnOnce()>(
    listener: &DataListener,
    client: IpAddr,
    options: &PathOptions<'_>,
    plan: ReflectLoop<'_, F>,
) -> Result<SizeOutcome, NetError> {
    let ReflectLoop { shape, mut pace, buffer, around } = plan;
    let halt = around.halt;
    let mut server = TransactionServer::new(listener, client, options)?;
    let answer = vec![0x5a; shape.response];
    let request = buffer.get_mut(..shape.size).unwrap_or_default();
    let mut outcome = around.run(&mut |counts, between| {
        loop {
            for _ in 0..pace.rounds {
                match server.serve(request, &answer)? {
                    Received::Bytes(_) => {
                        counts.received += 1;
                        counts.sent += 1;
                    }
                    Received::Stopped => return Ok(()),
                    Received::Interrupted | Received::TimedOut => {
                        if halt.flag().load(Ordering::Relaxed) {
                            return Ok(());
                        }
                    }
                }
            }
            between();
            if let Some(earliest) = pace.look() {
                counts.over_rate += 1;
                pace.sleep_until(earliest, halt);
            }
        }
    });
    outcome.counts.ignored += server.foreign + server.abandoned;
    Ok(outcome)
}
