//! Publishes what comes again.

use super::numbered::Ping;
use super::{MOST_BYTES, wait_until};
use crate::{Incoming, PgmIoError, PgmSocket};
use pgm::receiver::Event;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Publishes each message that comes, until `count` messages, `lasts`, or `stop`. Returns the number of messages.
pub fn reflect(
    socket: &mut PgmSocket,
    (count, lasts): (Option<u64>, Option<Duration>),
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(&Event),
) -> Result<u64, PgmIoError> {
    let end = lasts.map(|lasts| Instant::now() + lasts);
    let mut messages = 0;
    let mut buffer = vec![0; MOST_BYTES];
    while !stop.load(Ordering::Relaxed) && count.is_none_or(|count| messages < count) {
        let Some(left) = wait_until(end) else { break };
        match socket.receive(&mut buffer, left)? {
            Incoming::Message(delivered) => {
                let Some(message) = buffer.get_mut(..delivered.bytes) else { continue };
                Ping::note(message, delivered.fate());
                socket.send(message)?;
                messages += 1;
            }
            Incoming::Event(event) => on_event(&event),
            Incoming::TimedOut | Incoming::Interrupted => {}
        }
    }
    Ok(messages)
}
