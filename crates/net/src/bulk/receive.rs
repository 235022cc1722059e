//! The receiving loop of datagrams.

use super::Gauge;
use super::pace::Limit;
use crate::batch::Batch;
use crate::{PathError, sys};
use clock::Clock;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug, Clone, Copy)]
pub struct ReceivePlan<'a> {
    pub spin: bool,
    /// Most datagrams (of TCP, bytes) a second; what comes beyond it waits in the kernel, or is dropped there.
    pub limit: Option<f64>,
    pub clock: Clock,
    /// Ends the loop when set, once nothing more waits in the socket.
    pub stop: &'a AtomicBool,
    pub gauge: &'a Gauge,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrived<'a> {
    /// A call returned at this time (ns of the plan's clock); what it brought follows.
    At(u64),
    /// One datagram of any length and content.
    Datagram(&'a [u8]),
    Bytes(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiveDone {
    /// Why it ended before it was asked to; of TCP, nothing when the peer ended its half.
    pub broken: Option<PathError>,
}

/// After the stop, this many more calls at most take what waits: a peer that goes on sending does not delay the end.
const REST_CALLS: u32 = 65_536;

/// The calls of a receiving loop: how each waits, and which one is the last.
pub(super) struct Calls<'a> {
    plan: &'a ReceivePlan<'a>,
    limit: Option<Limit>,
    rest: u32,
    stopping: bool,
}

impl<'a> Calls<'a> {
    pub(super) fn new(plan: &'a ReceivePlan<'a>) -> Self {
        let limit = plan.limit.map(|limit| Limit::new(plan.clock, limit));
        Self { plan, limit, rest: REST_CALLS, stopping: false }
    }

    /// Flags of the next call; none when enough was taken after the stop.
    #[inline]
    pub(super) fn next(&mut self) -> Option<libc::c_int> {
        self.stopping = self.plan.stop.load(Ordering::Relaxed);
        if self.stopping {
            self.rest = self.rest.checked_sub(1)?;
        }
        Some(if self.stopping || self.plan.spin { libc::MSG_DONTWAIT } else { 0 })
    }

    /// So much was taken, in what the limit counts.
    #[inline]
    pub(super) fn took(&mut self, count: u64) {
        if let Some(limit) = &mut self.limit {
            limit.took(count);
            limit.wait(self.plan.stop);
        }
    }

    /// What a call that brought nothing means, by errno: the end, or to go on.
    #[inline]
    pub(super) fn failed(&self, call: &'static str, errno: libc::c_int) -> Option<ReceiveDone> {
        let broken = match errno {
            libc::EAGAIN if self.stopping => return Some(ReceiveDone::default()),
            libc::EAGAIN if self.plan.spin => {
                std::hint::spin_loop();
                return None;
            }
            // A refusal is an ICMP message that answers a datagram of this socket, such as a proof sent too early.
            libc::EAGAIN | libc::EINTR | libc::ECONNREFUSED => return None,
            libc::ECONNRESET => PathError::Closed,
            errno => PathError::Failed { call, errno },
        };
        Some(ReceiveDone { broken: Some(broken) })
    }
}

/// Receives datagrams of `size` bytes: by recv(2) with `single`.
pub(super) fn receive(
    fd: RawFd,
    messages: &mut Batch,
    single: bool,
    size: usize,
    plan: &ReceivePlan<'_>,
    mut take: impl FnMut(Arrived<'_>) -> bool,
) -> ReceiveDone {
    let mut calls = Calls::new(plan);
    let mut counted = 0_u64;
    while let Some(flags) = calls.next() {
        let result = if single {
            one(fd, messages, flags, plan.clock, &mut take)
        } else {
            several(fd, messages, flags, plan.clock, &mut take)
        };
        match result {
            Ok(taken) => {
                counted += taken;
                plan.gauge.set(counted, counted * size as u64);
                calls.took(taken);
            }
            Err(errno) => {
                if let Some(done) = calls.failed("recvmmsg", errno) {
                    return done;
                }
            }
        }
    }
    ReceiveDone::default()
}

#[inline]
fn one(
    fd: RawFd,
    messages: &mut Batch,
    flags: libc::c_int,
    clock: Clock,
    take: &mut impl FnMut(Arrived<'_>) -> bool,
) -> Result<u64, libc::c_int> {
    let buffer = messages.room(0);
    let room = buffer.len();
    let Ok(bytes) = usize::try_from(sys::recv(fd, buffer, flags)) else { return Err(sys::errno()) };
    take(Arrived::At(clock.ns(clock.now())));
    Ok(u64::from(take(Arrived::Datagram(&buffer[..bytes.min(room)]))))
}

#[inline]
fn several(
    fd: RawFd,
    messages: &mut Batch,
    flags: libc::c_int,
    clock: Clock,
    take: &mut impl FnMut(Arrived<'_>) -> bool,
) -> Result<u64, libc::c_int> {
    // What is there is taken; nothing is waited for beyond the first.
    let Ok(count) = usize::try_from(messages.receive(fd, libc::MSG_WAITFORONE | flags)) else {
        return Err(sys::errno());
    };
    take(Arrived::At(clock.ns(clock.now())));
    let mut taken = 0;
    for index in 0..count {
        let whole = messages.received(index);
        let length = segment(messages, index, whole.len()).max(1);
        if whole.len() <= length {
            taken += u64::from(take(Arrived::Datagram(whole)));
            continue;
        }
        for datagram in whole.chunks(length) {
            taken += u64::from(take(Arrived::Datagram(datagram)));
        }
    }
    Ok(taken)
}

/// Length of the datagrams that were joined into one message (UDP_GRO); the message's own when none were.
#[inline]
fn segment(messages: &Batch, index: usize, whole: usize) -> usize {
    let mut length = None;
    messages.each_control(index, |level, kind, data| {
        if (level, kind) == (libc::SOL_UDP, super::UDP_GRO) {
            length = data.first_chunk().map(|bytes| libc::c_int::from_ne_bytes(*bytes));
        }
    });
    length.and_then(|length| usize::try_from(length).ok()).filter(|length| *length > 0).unwrap_or(whole)
}
