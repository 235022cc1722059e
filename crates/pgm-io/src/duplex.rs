//! A socket under a measuring loop.

use crate::receiving::{Receiving, Until, Wakeup};
use crate::sending::Shared;
use crate::{PgmIoError, PgmSocket};
use model::Repaired;
use net::group::GroupWait;
use net::{Arrival, DuplexVisitor, Inbox, Message, Outbox, PathError, PathOptions};
use pgm::Sqn;
use pgm::source::SendError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Below this a wait for the rate limit spins: a sleep would last longer, in ns.
const SPIN_NS: u64 = 60_000;

impl PgmSocket {
    /// Runs a visitor's loops over this socket: [`net::Outbox::send`] publishes to all, whatever its `to`, and returns when the
    /// message has left, as the source's rate allows; [`net::Inbox::wait`] and [`net::Inbox::look`] deliver messages in
    /// order, [`net::Message::from`] being the number of the peer. The own source is served by the receiving half while
    /// it waits and between deliveries, and by each send.
    ///
    /// Waits are by any mode; block is ppoll(2), because there are time-outs. [`PathOptions::clock`] and
    /// [`PathOptions::timeout_ns`] are not looked at. Errors: the set to wait on could not be made.
    pub fn with_duplex<V: DuplexVisitor>(
        &mut self,
        options: &PathOptions<'_>,
        visitor: V,
    ) -> Result<V::Output, PgmIoError> {
        let (shared, receiving) = self.halves();
        receiving.drop_events();
        let wait = GroupWait::new(&receiving.sockets(shared), options.receive, &options.idle)?;
        let mut outbox = Out { shared, taken: None };
        let mut inbox = In { shared, receiving, wait, stop: options.stop };
        Ok(visitor.visit(&mut outbox, &mut inbox))
    }
}

struct Out<'a> {
    shared: &'a Shared,
    /// The message that a signal interrupted: it is in the window already.
    taken: Option<Sqn>,
}

impl Outbox for Out<'_> {
    #[inline]
    fn send(&mut self, _to: u16, message: &[u8]) -> Result<(), PathError> {
        while let Some(until_ns) = self.publish(message)? {
            wait_until(self.shared, until_ns);
        }
        Ok(())
    }

    #[inline]
    fn try_send(&mut self, _to: u16, message: &[u8]) -> Result<bool, PathError> {
        Ok(self.publish(message)?.is_none())
    }

    fn unsent(&self) -> u64 {
        self.shared.lock().map_or(0, |sending| sending.lost())
    }
}

impl Out<'_> {
    /// Sends what the source's rate allows now; until when the rest of the message has to wait.
    #[inline]
    fn publish(&mut self, message: &[u8]) -> Result<Option<u64>, PathError> {
        match self.shared.publish(message, &mut self.taken) {
            Ok(until_ns) => {
                self.taken = self.taken.filter(|_| until_ns.is_some());
                Ok(until_ns)
            }
            Err(PgmIoError::Path(error)) => Err(error),
            Err(PgmIoError::Send(SendError::TooLong { bytes, .. })) => Err(PathError::TooLarge { bytes }),
            Err(PgmIoError::NoSource) => Err(PathError::Failed { call: "send", errno: NO_DESTINATION }),
            Err(_) => Err(PathError::Closed),
        }
    }
}

/// EDESTADDRREQ: this end publishes nothing.
const NO_DESTINATION: i32 = 89;

/// The rate allows no more before then.
fn wait_until(shared: &Shared, until_ns: u64) {
    loop {
        let left = until_ns.saturating_sub(shared.now());
        if left == 0 {
            return;
        }
        if left > SPIN_NS {
            std::thread::sleep(Duration::from_nanos(left - SPIN_NS));
        } else {
            std::hint::spin_loop();
        }
    }
}

struct In<'a> {
    shared: &'a Shared,
    receiving: &'a mut Receiving,
    wait: GroupWait,
    stop: &'a AtomicBool,
}

impl Inbox for In<'_> {
    #[inline]
    fn wait(&mut self, buffer: &mut [u8]) -> Result<Arrival, PathError> {
        let until = Until { deadline_ns: u64::MAX, stop: self.stop, events: false, deliver: true };
        Ok(match self.receiving.wait(self.shared, &mut self.wait, until, buffer)? {
            Wakeup::Message(message) => arrival(&message),
            Wakeup::Event | Wakeup::TimedOut | Wakeup::Interrupted => Arrival::Interrupted,
            Wakeup::Stopped => Arrival::Stopped,
        })
    }

    #[inline]
    fn look(&mut self, buffer: &mut [u8]) -> Result<Arrival, PathError> {
        Ok(match self.receiving.look(self.shared, buffer)? {
            Some(message) => arrival(&message),
            None if self.stop.load(Ordering::Relaxed) => Arrival::Stopped,
            None => Arrival::Nothing,
        })
    }

    fn foreign(&self) -> u64 {
        self.receiving.foreign()
    }
}

#[inline]
fn arrival(message: &crate::Delivered) -> Arrival {
    let repair_ns = message.repair.map_or(0, |repair| repair.data_ns.saturating_sub(repair.gap_ns));
    Arrival::Message(Message {
        bytes: message.bytes,
        from: message.from,
        stack_ns: message.stack_ns,
        repaired: Repaired::new(repair_ns, message.held_ns),
    })
}
