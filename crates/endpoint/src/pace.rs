//! The reflector's loop for messages at a rate: answers those whose number is asked for with a stamped message as long.
//!
//! Nothing in the loop is allocated, locked, printed or logged, and no system call is made beside the path's own (and, with
//! stamps, one a message after the send); the clock is read after each receive and before each send.

use crate::halt::Halt;
use crate::reflect::{Around, MessageCounts, SizeOutcome, TAG};
use clock::Clock;
use net::{Arrival, DuplexVisitor, Inbox, Message, Outbox, PathError};
use std::sync::atomic::Ordering;
use std::time::Duration;
use wire::RateBudget;
use wire::data::{self, FarStamps};

mod tx_stamp_feedback;

pub(crate) use tx_stamp_feedback::TxStampFeedback;

/// Messages between two looks at the CPU that the thread is on.
const BATCH: u32 = 1024;
/// Between two looks whether a stream may go on.
const HELD_BACK: Duration = Duration::from_millis(1);
/// Messages after which draining before a size is given up.
const MOST_STALE: u32 = 100_000;

#[derive(Debug, Clone, Copy)]
pub(crate) struct LoopShape {
    pub(crate) size: usize,
    /// Messages whose number is a multiple of it are answered; never 0.
    pub(crate) every: u64,
    /// Whether answers carry the wall clock too.
    pub(crate) wall: bool,
    /// Whether messages may be dropped to keep the owner's limit; a stream is only read later.
    pub(crate) counts_losses: bool,
    /// The tag without which nothing is answered, where messages may come from others and have room for it.
    pub(crate) tag: Option<[u8; 8]>,
    /// Over PGM: answers say what repairs cost their messages.
    pub(crate) repairs: bool,
}

pub(crate) struct AnswerLoop<'a, F> {
    pub(crate) shape: LoopShape,
    pub(crate) clock: Clock,
    pub(crate) budget: RateBudget,
    pub(crate) stamp_feedback: TxStampFeedback,
    pub(crate) buffer: &'a mut [u8],
    pub(crate) around: Around<'a, F>,
}

impl<F: FnOnce()> DuplexVisitor for AnswerLoop<'_, F> {
    type Output = SizeOutcome;

    fn visit<O: Outbox, I: Inbox>(self, outbox: &mut O, inbox: &mut I) -> SizeOutcome {
        let Self { shape, clock, mut budget, mut stamp_feedback, buffer, around } = self;
        let message = buffer.get_mut(..shape.size).unwrap_or_default();
        if shape.counts_losses
            && let Err(broken) = clear(inbox, message)
        {
            return around.broken(broken);
        }
        let (foreign, halt) = (inbox.foreign(), around.halt);
        let mut outcome = around.run(&mut |counts, between| {
            answer(outbox, inbox, shape, clock, message, &mut budget, &mut stamp_feedback, halt, counts, between)
        });
        outcome.counts.ignored += inbox.foreign() - foreign;
        outcome
    }
}

/// Drops what came before the size was announced: proofs sent twice, stragglers of the size before.
fn clear<I: Inbox>(inbox: &mut I, scratch: &mut [u8]) -> Result<(), PathError> {
    // A pending ICMP error is reported once by the next call; more than a few of them are a flood.
    let mut refused = 0;
    for _ in 0..MOST_STALE {
        match inbox.look(scratch) {
            Ok(Arrival::Message(_) | Arrival::Interrupted) => {}
            Ok(Arrival::Nothing | Arrival::Stopped) => break,
            Err(PathError::Refused) if refused < 8 => refused += 1,
            Err(PathError::Refused) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the loop's parts, each from another hand")]
fn answer<O: Outbox, I: Inbox>(
    outbox: &mut O,
    inbox: &mut I,
    shape: LoopShape,
    clock: Clock,
    buffer: &mut [u8],
    budget: &mut RateBudget,
    stamp_feedback: &mut TxStampFeedback,
    halt: &Halt,
    counts: &mut MessageCounts,
    mut between: impl FnMut(),
) -> Result<(), PathError> {
    let mut unsent = outbox.unsent();
    loop {
        for _ in 0..BATCH {
            let Some(Message { bytes, stack_ns, repaired, .. }) = receive(inbox, buffer, halt)? else { return Ok(()) };
            let rx = clock.now();
            if bytes != shape.size || shape.tag.is_some_and(|tag| buffer.get(TAG) != Some(&tag[..])) {
                counts.ignored += 1;
                continue;
            }
            if shape.repairs {
                data::write_repaired(repaired, buffer);
            }
            let received_ns = if shape.wall { clock::realtime_ns() } else { 0 };
            counts.received += 1;
            if !budget.allows(rx) {
                counts.over_rate += 1;
                if shape.counts_losses {
                    continue;
                }
                // A stream is held back, which its sender feels.
                while !budget.allows(clock.now()) && !halt.flag().load(Ordering::Relaxed) {
                    std::thread::sleep(HELD_BACK);
                }
            }
            if shape.every > 1 && !number(buffer).is_multiple_of(shape.every) {
                continue;
            }
            let tx = if shape.wall {
                data::write_tx_stamp(stamp_feedback.next(), buffer);
                let sent_ns = clock::realtime_ns();
                let stamps = FarStamps { rx, tx: clock.now(), stack_ns, received_ns, sent_ns };
                data::write_stamps(&stamps, buffer);
                stamps.tx
            } else {
                data::write_ticks(rx, clock.now(), buffer);
                0
            };
            let given = give(outbox, buffer, halt)?;
            if given == AnswerSent::Not {
                return Ok(());
            }
            counts.sent += 1;
            if shape.wall {
                if shape.counts_losses && (given == AnswerSent::Unsure || outbox.unsent() != unsent) {
                    unsent = outbox.unsent();
                    stamp_feedback.lose_count();
                }
                stamp_feedback.sent(tx);
            }
        }
        between();
        // A flood must not hide the halt.
        if halt.flag().load(Ordering::Relaxed) {
            return Ok(());
        }
    }
}

/// The next message; `None` when the loop is to end.
#[inline(always)]
fn receive<I: Inbox>(inbox: &mut I, buffer: &mut [u8], halt: &Halt) -> Result<Option<Message>, PathError> {
    loop {
        match inbox.wait(buffer) {
            Ok(Arrival::Message(message)) => return Ok(Some(message)),
            Ok(Arrival::Stopped) => return Ok(None),
            Ok(Arrival::Interrupted | Arrival::Nothing) => {
                if halt.flag().load(Ordering::Relaxed) {
                    return Ok(None);
                }
            }
            // An ICMP error, perhaps forged: the control connection decides whether the initiator has ended.
            Err(PathError::Refused) => {}
            Err(error) => return Err(error),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerSent {
    Sent,
    /// Perhaps not, or not by one call.
    Unsure,
    /// Not: the loop is to end.
    Not,
}

#[inline(always)]
fn give<O: Outbox>(outbox: &mut O, answer: &[u8], halt: &Halt) -> Result<AnswerSent, PathError> {
    let mut given = AnswerSent::Sent;
    loop {
        match outbox.send(0, answer) {
            Ok(()) => return Ok(given),
            Err(PathError::Refused) => return Ok(AnswerSent::Unsure),
            Err(PathError::Interrupted) => {
                if halt.flag().load(Ordering::Relaxed) {
                    return Ok(AnswerSent::Not);
                }
                given = AnswerSent::Unsure;
            }
            Err(error) => return Err(error),
        }
    }
}

/// The message's number. The protocol lets no message be shorter.
#[inline]
fn number(message: &[u8]) -> u64 {
    message.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests;
