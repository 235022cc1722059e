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

/// Takes what arrives.
pub trait DatagramSink {
    /// A call returned at this time (ns of the plan's clock); its datagrams follow.
    fn arrived(&mut self, now_ns: u64);

    /// One datagram of any length and content; whether it was counted.
    fn datagram(&mut self, message: &[u8]) -> bool;
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

/// Receives datagrams over a connected socket. All memory is taken when it is made.
pub struct DatagramReceiver<'a> {
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
    pub fn new(socket: &'a DataSocket, size: usize, batch: usize, gro: bool) -> Result<Self, NetError> {
        be_patient(socket.read_fd())?;
        if gro {
            join(socket)?;
        }
        // One byte more than a datagram has, so that a longer one is not taken for it.
        let room = if gro { JOINED } else { size + 1 };
        Ok(Self { socket, messages: Messages::new(batch.max(1), room, gro), size, room, gro })
    }

    /// Receives until it is told to stop.
    pub fn run<S: DatagramSink>(mut self, plan: &ReceivePlan<'_>, sink: &mut S) -> ReceiveDone {
        let single = self.messages.count() == 1 && !self.gro;
        receive(self.socket.read_fd(), &mut self.messages, single, self.room, self.size, plan, sink)
    }
}

fn receive<S: DatagramSink>(
    fd: RawFd,
    messages: &mut Messages,
    single: bool,
    room: usize,
    size: usize,
    plan: &ReceivePlan<'_>,
    sink: &mut S,
) -> ReceiveDone {
    let mut limit = plan.limit.map(|limit| Limit::new(plan.clock, limit));
    let wait = if plan.spin { libc::MSG_DONTWAIT } else { 0 };
    let mut counted = 0_u64;
    let mut rest = REST_CALLS;
    loop {
        let stopping = plan.stop.load(Ordering::Relaxed);
        if stopping {
            if rest == 0 {
                return ReceiveDone::default();
            }
            rest -= 1;
        }
        let flags = if stopping { libc::MSG_DONTWAIT } else { wait };
        let result = if single {
            one(fd, messages, room, flags, plan.clock, sink)
        } else {
            several(fd, messages, flags, plan.clock, sink)
        };
        match result {
            Ok(taken) => {
                counted += taken;
                plan.gauge.set(counted, counted * size as u64);
                if let Some(limit) = &mut limit {
                    limit.took(taken);
                    limit.wait(plan.stop);
                }
            }
            Err(libc::EAGAIN) if stopping => return ReceiveDone::default(),
            Err(libc::EAGAIN) if plan.spin => std::hint::spin_loop(),
            // A refusal is an ICMP message that answers one of ours, such as a proof sent too early.
            Err(libc::EAGAIN | libc::EINTR | libc::ECONNREFUSED) => {}
            Err(errno) => return ReceiveDone { broken: Some(PathError::Failed { call: "recvmmsg", errno }) },
        }
    }
}

#[inline]
fn one<S: DatagramSink>(
    fd: RawFd,
    messages: &mut Messages,
    room: usize,
    flags: libc::c_int,
    clock: Clock,
    sink: &mut S,
) -> Result<u64, libc::c_int> {
    let buffer = &mut messages.room(0)[..room];
    let Ok(bytes) = usize::try_from(sys::recv(fd, buffer, flags)) else { return Err(sys::errno()) };
    sink.arrived(clock.ns(clock.now()));
    Ok(u64::from(sink.datagram(&buffer[..bytes.min(room)])))
}

#[inline]
fn several<S: DatagramSink>(
    fd: RawFd,
    messages: &mut Messages,
    flags: libc::c_int,
    clock: Clock,
    sink: &mut S,
) -> Result<u64, libc::c_int> {
    let Ok(count) = usize::try_from(messages.receive(fd, flags)) else { return Err(sys::errno()) };
    sink.arrived(clock.ns(clock.now()));
    let mut taken = 0;
    for index in 0..count {
        let whole = messages.received(index);
        let length = messages.segment(index).max(1);
        if whole.len() <= length {
            taken += u64::from(sink.datagram(whole));
            continue;
        }
        for datagram in whole.chunks(length) {
            taken += u64::from(sink.datagram(datagram));
        }
    }
    Ok(taken)
}
