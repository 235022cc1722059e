//! One flow of either kind: datagrams, or bytes of TCP.

use super::receive::DatagramReceiver;
use super::send::DatagramSender;
use super::stream::{ByteReceiver, ByteSender};
use super::{Arrived, ReceiveDone, ReceivePlan, SendDone, SendPlan};
use crate::NetError;
use crate::socket::DataSocket;
use model::StreamSpec;

/// Longest read of TCP in bytes.
const MOST_READ: usize = 1 << 20;

/// How a flow uses its socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowShape {
    /// Datagrams; otherwise TCP.
    pub datagrams: bool,
    /// Bytes of a datagram or write.
    pub size: usize,
    /// Messages a system call, of datagrams.
    pub batch: usize,
    /// Datagrams a message (UDP_SEGMENT), sending.
    pub segments: usize,
    /// Datagrams may come joined (UDP_GRO).
    pub gro: bool,
}

impl FlowShape {
    /// As a specification asks for it at one size.
    #[must_use]
    pub fn new(spec: &StreamSpec, size: u32, datagrams: bool) -> Self {
        Self {
            datagrams,
            size: size as usize,
            batch: spec.batch as usize,
            segments: spec.segments(size) as usize,
            gro: spec.gro,
        }
    }
}

/// Sends until it is told to stop. When everything is prepared, `ready` gives the plan, or nothing where the flow is not to
/// begin. `head` writes number and time to the start of each datagram; TCP keeps order, so nothing is numbered there.
///
/// # Errors
/// A socket option was refused, or the route's MTU is too small for datagrams cut by the kernel.
pub fn send<'a>(
    socket: &DataSocket,
    shape: FlowShape,
    ready: impl FnOnce() -> Option<SendPlan<'a>>,
    head: impl FnMut(u64, u64, &mut [u8]),
) -> Result<Option<SendDone>, NetError> {
    if shape.datagrams {
        let sender = DatagramSender::new(socket, shape.size, shape.batch, shape.segments)?;
        Ok(ready().map(|plan| sender.run(&plan, head)))
    } else {
        let sender = ByteSender::new(socket, shape.size)?;
        Ok(ready().map(|plan| sender.run(&plan)))
    }
}

/// Receives until it is told to stop or, of TCP, the peer ends its half. `ready` gives the plan when everything is
/// prepared. `take` gets what comes; of datagrams it says whether each was counted.
///
/// # Errors
/// A socket option was refused.
pub fn receive<'a>(
    socket: &DataSocket,
    shape: FlowShape,
    ready: impl FnOnce() -> ReceivePlan<'a>,
    take: impl FnMut(Arrived<'_>) -> bool,
) -> Result<ReceiveDone, NetError> {
    if shape.datagrams {
        let receiver = DatagramReceiver::new(socket, shape.size, shape.batch, shape.gro)?;
        Ok(receiver.run(&ready(), take))
    } else {
        let receiver = ByteReceiver::new(socket, shape.size.min(MOST_READ))?;
        Ok(receiver.run(&ready(), take))
    }
}
