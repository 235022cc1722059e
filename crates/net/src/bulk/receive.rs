//! The receiving loop of datagrams.

use super::calls::Messages;
use super::pace::Limit;
use super::{Gauge, be_patient, join};
use crate::socket::DataSocket;
use crate::{NetError, PathError, sys};
use clock::Clock;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a receiving loop is to do.
#[derive(Debug, Clone, Copy)]
pub struct ReceivePlan<'a> {
    /// Spin rather than block.
    pub spin: bool,
    /// Most datagrams (of TCP, bytes) a second; what comes beyond it waits in the kernel, or is dropped there.
    pub limit: Option<f64>,
    /// The clock of the arrivals.
    pub clock: Clock,
    /// Ends the loop when set, once nothing more waits in the socket.
    pub stop: &'a AtomicBool,
    /// How far it has come.
    pub gauge: &'a Gauge,
}

/// What arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrived<'a> {
    /// A call returned at this time (ns of the plan's clock); what it brought follows.
    At(u64),
    /// One datagram of any length and content.
    Datagram(&'a [u8]),
    /// Bytes of TCP.
    Bytes(u64),
}

/// Why a receiving loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiveDone {
    /// Why it ended before it was told to; of TCP, nothing when the peer ended its half.
    pub broken: Option<PathError>,
}

/// A datagram with UDP_GRO is as long as an IP packet may be.
const JOINED: usize = 65_536;

/// After the stop, so many more calls at most take what waits: a peer that goes on sending holds nobody up.
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
            // A refusal is an ICMP message that answers a datagram of ours, such as a proof sent too early.
            libc::EAGAIN | libc::EINTR | libc::ECONNREFUSED => return None,
            libc::ECONNRESET => PathError::Closed,
            errno => PathError::Failed { call, errno },
        };
        Some(ReceiveDone { broken: Some(broken) })
    }
}

/// Receives datagrams over a connected socket. All memory is taken when it is made.
pub(super) struct DatagramReceiver<'a> {
    socket: &'a DataSocket,
    messages: Messages,
    size: usize,
    room: usize,
    gro: bool,
}

impl<'a> DatagramReceiver<'a> {
    /// Prepares a socket for datagrams of `size` bytes, at most `batch` messages (at least 1) a system call, joined by the
    /// kernel where `gro` says so.
    ///
    /// # Errors
    /// A socket option was refused.
    pub(super) fn new(socket: &'a DataSocket, size: usize, batch: usize, gro: bool) -> Result<Self, NetError> {
        be_patient(socket.read_fd())?;
        if gro {
            join(socket)?;
        }
        // One byte more than a datagram has, so that a longer one is not taken for it.
        let room = if gro { JOINED } else { size + 1 };
        Ok(Self { socket, messages: Messages::new(batch.max(1), room, gro), size, room, gro })
    }

    /// Receives until it is told to stop. `take` says of each datagram whether it was counted.
    pub(super) fn run(mut self, plan: &ReceivePlan<'_>, take: impl FnMut(Arrived<'_>) -> bool) -> ReceiveDone {
        let single = self.messages.count() == 1 && !self.gro;
        receive(self.socket.read_fd(), &mut self.messages, single, self.room, self.size, plan, take)
    }
}

fn receive(
    fd: RawFd,
    messages: &mut Messages,
    single: bool,
    room: usize,
    size: usize,
    plan: &ReceivePlan<'_>,
    mut take: impl FnMut(Arrived<'_>) -> bool,
) -> ReceiveDone {
    let mut calls = Calls::new(plan);
    let mut counted = 0_u64;
    while let Some(flags) = calls.next() {
        let result = if single {
            one(fd, messages, room, flags, plan.clock, &mut take)
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
    messages: &mut Messages,
    room: usize,
    flags: libc::c_int,
    clock: Clock,
    take: &mut impl FnMut(Arrived<'_>) -> bool,
) -> Result<u64, libc::c_int> {
    let buffer = &mut messages.room(0)[..room];
    let Ok(bytes) = usize::try_from(sys::recv(fd, buffer, flags)) else { return Err(sys::errno()) };
    take(Arrived::At(clock.ns(clock.now())));
    Ok(u64::from(take(Arrived::Datagram(&buffer[..bytes.min(room)]))))
}

#[inline]
fn several(
    fd: RawFd,
    messages: &mut Messages,
    flags: libc::c_int,
    clock: Clock,
    take: &mut impl FnMut(Arrived<'_>) -> bool,
) -> Result<u64, libc::c_int> {
    let Ok(count) = usize::try_from(messages.receive(fd, flags)) else { return Err(sys::errno()) };
    take(Arrived::At(clock.ns(clock.now())));
    let mut taken = 0;
    for index in 0..count {
        let whole = messages.received(index);
        let length = messages.segment(index).max(1);
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
