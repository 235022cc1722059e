//! One flow of either kind: datagrams, or bytes of TCP. All memory is taken before its loop.

use super::{Arrived, ReceiveDone, ReceivePlan, SendDone, SendPlan, be_patient, join, segment};
use crate::NetError;
use crate::batch::Batch;
use crate::socket::DataSocket;
use model::StreamSpec;

const MOST_READ: usize = 1 << 20;
/// A datagram with UDP_GRO is as long as an IP packet may be.
const JOINED: usize = 65_536;

/// Sends datagrams or writes of `size` bytes until it is asked to stop. When everything is prepared, `ready` gives the plan,
/// or nothing where the flow is not to begin. `head` writes a number and a time (ns of the plan's clock, read just before
/// the call) to the start of each datagram; TCP keeps order, so nothing is numbered there. Errors: a socket option was
/// refused, or the route's MTU is too small for datagrams cut by the kernel.
pub fn send<'a>(
    socket: &DataSocket,
    spec: &StreamSpec,
    size: u32,
    datagrams: bool,
    ready: impl FnOnce() -> Option<SendPlan<'a>>,
    head: impl FnMut(u64, u64, &mut [u8]),
) -> Result<Option<SendDone>, NetError> {
    let (fd, segments, bytes) = (socket.write_fd(), spec.segments(size).max(1) as usize, size as usize);
    be_patient(fd)?;
    if !datagrams {
        let buffer = vec![0x5a; bytes.max(1)];
        let done = ready().map(|plan| super::stream::send(fd, &buffer, &plan));
        if done.is_some() {
            super::end_sending(socket);
        }
        return Ok(done);
    }
    if segments > 1 {
        segment(socket, bytes)?;
    }
    let mut messages = Batch::new(spec.batch as usize, bytes * segments, false, false);
    Ok(ready().map(|plan| super::send::send(fd, &mut messages, bytes, segments, &plan, head)))
}

/// Receives until it is asked to stop or, of TCP, the peer ends its half. `ready` gives the plan when everything is
/// prepared. `take` gets what comes; of datagrams it returns whether each was counted. Errors: a socket option was refused.
pub fn receive<'a>(
    socket: &DataSocket,
    spec: &StreamSpec,
    size: u32,
    datagrams: bool,
    ready: impl FnOnce() -> ReceivePlan<'a>,
    take: impl FnMut(Arrived<'_>) -> bool,
) -> Result<ReceiveDone, NetError> {
    let (fd, bytes) = (socket.read_fd(), size as usize);
    be_patient(fd)?;
    if !datagrams {
        let mut buffer = vec![0x5a; bytes.clamp(1, MOST_READ)];
        return Ok(super::stream::receive(fd, &mut buffer, &ready(), take));
    }
    if spec.gro {
        join(socket)?;
    }
    // One byte more than a datagram has, so that a longer one is not taken for it.
    let mut messages = Batch::new(spec.batch as usize, if spec.gro { JOINED } else { bytes + 1 }, false, spec.gro);
    let single = messages.count() == 1 && !spec.gro;
    Ok(super::receive::receive(fd, &mut messages, single, bytes, &ready(), take))
}
