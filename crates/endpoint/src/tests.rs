//! What comes by script, for the tests of both loops.

use crate::halt::Halt;
use net::PathError;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(crate) enum Act {
    Message(Vec<u8>),
    Fail(PathError),
    Interrupt,
}

pub(crate) fn tagged(number: u64, tag: u64, size: usize) -> Act {
    let mut message = vec![0; size];
    wire::data::write(number, tag, &mut message);
    Act::Message(message)
}

/// A message of the session whose tag is 9.
pub(crate) fn numbered(number: u64, size: usize) -> Act {
    tagged(number, 9, size)
}

/// Plays a script, then halts the loop.
pub(crate) struct Script<'a> {
    pub(crate) acts: VecDeque<Act>,
    pub(crate) halt: &'a Halt,
}

impl Script<'_> {
    /// The length of the next message; nothing where a signal came instead.
    pub(crate) fn next(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, PathError> {
        match self.acts.pop_front() {
            Some(Act::Message(message)) => {
                let room = message.len().min(buffer.len());
                buffer[..room].copy_from_slice(&message[..room]);
                Ok(Some(message.len()))
            }
            Some(Act::Fail(error)) => Err(error),
            Some(Act::Interrupt) => Ok(None),
            None => {
                assert!(self.halt.halt(Duration::ZERO) || self.halt.flag().load(Ordering::Relaxed));
                Ok(None)
            }
        }
    }
}
