//! Publishes messages that a caller provides, at a rate.

use super::{MOST_BYTES, STOP_CHECK, numbered};
use crate::{PgmIoError, PgmSocket};
use pgm::zmtp;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long NAKs are served while no message is there.
const SERVE: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, Copy, Default)]
pub struct PublishOptions {
    /// Messages a second; absent: as fast as they come.
    pub rate_pps: Option<f64>,
    /// Whether they are put into ZMTP 1.0 frames.
    pub zeromq: bool,
}

/// What a caller provides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Message,
    /// A message whose number and time are to be written into it when it is due.
    Numbered,
    /// None is there yet.
    NotYet,
    /// There are no more.
    End,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PublishReport {
    pub messages: u64,
    /// Their bytes, without frames.
    pub bytes: u64,
}

/// Publishes what `next` writes into its buffer, given the message's number from 0, until it ends or `stop` is set.
pub fn publish<E: From<PgmIoError>>(
    socket: &mut PgmSocket,
    options: PublishOptions,
    stop: &AtomicBool,
    mut next: impl FnMut(u64, &mut Vec<u8>) -> Result<Next, E>,
) -> Result<PublishReport, E> {
    let mut published = PublishReport::default();
    let (mut message, mut framed) = (Vec::with_capacity(MOST_BYTES), Vec::new());
    let began = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let number = published.messages;
        let next = next(number, &mut message)?;
        match next {
            Next::Message | Next::Numbered => {}
            Next::NotYet => {
                socket.drive(SERVE)?;
                continue;
            }
            Next::End => break,
        }
        if let Some(rate_pps) = options.rate_pps {
            let due = began + Duration::from_secs_f64(number as f64 / rate_pps);
            serve(socket, due.saturating_duration_since(Instant::now()), stop)?;
        }
        if next == Next::Numbered {
            numbered::write(number, clock::realtime_ns(), &mut message);
        }
        if options.zeromq {
            let most = socket.packet_payload_bytes().unwrap_or(1448);
            zmtp::frame(&message, most, &mut framed, |piece| socket.send(piece).map(|_| ()))?;
        } else {
            socket.send(&message)?;
        }
        published.messages += 1;
        published.bytes += message.len() as u64;
    }
    Ok(published)
}

/// Serves NAKs for so long, or until `stop` is set.
pub fn serve(socket: &mut PgmSocket, time: Duration, stop: &AtomicBool) -> Result<(), PgmIoError> {
    let end = Instant::now() + time;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        socket.drive(left.min(STOP_CHECK))?;
    }
}
