//! The loops of TCP.

use super::be_patient;
use super::pace::{Limit, Schedule};
use super::receive::{ReceiveDone, ReceivePlan};
use super::send::{SendDone, SendPlan};
use crate::socket::DataSocket;
use crate::{NetError, PathError, sys};
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

/// With a rate, a write holds no more than what is due in this time, so that the rate is even.
const PORTION_S: f64 = 0.000_2;
/// A write is never shorter than about a segment for the sake of evenness.
const LEAST: usize = 1448;
/// After the stop, so many more reads at most take what waits.
const REST_CALLS: u32 = 65_536;

/// Writes to a TCP connection. All memory is taken when it is made.
pub struct ByteSender<'a> {
    socket: &'a DataSocket,
    buffer: Vec<u8>,
}

impl<'a> ByteSender<'a> {
    /// Prepares a connection for writes of `size` bytes.
    ///
    /// # Errors
    /// A socket option was refused.
    pub fn new(socket: &'a DataSocket, size: usize) -> Result<Self, NetError> {
        be_patient(socket.write_fd())?;
        Ok(Self { socket, buffer: vec![0x5a; size.max(1)] })
    }

    /// Writes until it is told to stop, then ends the sending half. TCP keeps order, so nothing is numbered.
    pub fn run(self, plan: &SendPlan<'_>) -> SendDone {
        let done = send(self.socket.write_fd(), &self.buffer, plan);
        super::end_sending(self.socket);
        done
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of bytes from a positive rate; `as` saturates"
)]
fn send(fd: RawFd, buffer: &[u8], plan: &SendPlan<'_>) -> SendDone {
    let mut size = buffer.len();
    let mut schedule = plan.rate.map(|mut rate| {
        let bytes = rate.per_second * size as f64;
        size = ((bytes * PORTION_S) as usize).clamp(LEAST.min(size), size);
        rate.per_second = bytes / size as f64;
        Schedule::new(plan.clock, rate)
    });
    let mut limit = plan.limit.map(|limit| Limit::new(plan.clock, limit));
    let mut done = SendDone::default();
    // Bytes of the present message that went already.
    let mut part = 0;
    while !plan.stop.load(Ordering::Relaxed) {
        if part == 0 && schedule.as_ref().is_some_and(|schedule| schedule.wait(plan.stop) == 0) {
            break;
        }
        if limit.as_ref().is_some_and(|limit| !limit.wait(plan.stop)) {
            break;
        }
        let now = plan.clock.now();
        if now >= plan.until {
            break;
        }
        if done.first == 0 {
            done.first = now;
        }
        done.last = now;
        let Ok(bytes) = usize::try_from(sys::send(fd, &buffer[part..size], libc::MSG_NOSIGNAL)) else {
            match sys::errno() {
                libc::EAGAIN | libc::EINTR => continue,
                libc::EPIPE | libc::ECONNRESET => done.broken = Some(PathError::Closed),
                errno => done.broken = Some(PathError::Failed { call: "send", errno }),
            }
            break;
        };
        part += bytes;
        done.bytes += bytes as u64;
        if part >= size {
            part = 0;
            done.messages += 1;
            if let Some(schedule) = &mut schedule {
                schedule.took(1);
            }
        }
        plan.gauge.set(done.messages, done.bytes);
        if let Some(limit) = &mut limit {
            limit.took(bytes as u64);
        }
    }
    done
}

/// Reads from a TCP connection. All memory is taken when it is made.
pub struct ByteReceiver<'a> {
    socket: &'a DataSocket,
    buffer: Vec<u8>,
}

impl<'a> ByteReceiver<'a> {
    /// Prepares a connection for reads of at most `size` bytes.
    ///
    /// # Errors
    /// A socket option was refused.
    pub fn new(socket: &'a DataSocket, size: usize) -> Result<Self, NetError> {
        be_patient(socket.read_fd())?;
        Ok(Self { socket, buffer: vec![0x5a; size.max(1)] })
    }

    /// Reads until the peer ends its half, or until it is told to stop and nothing more waits. `arrived` gets the time of
    /// each read (ns of the plan's clock) and its bytes.
    pub fn run(mut self, plan: &ReceivePlan<'_>, arrived: impl FnMut(u64, u64)) -> ReceiveDone {
        receive(self.socket.read_fd(), &mut self.buffer, plan, arrived)
    }
}

fn receive(fd: RawFd, buffer: &mut [u8], plan: &ReceivePlan<'_>, mut arrived: impl FnMut(u64, u64)) -> ReceiveDone {
    let mut limit = plan.limit.map(|limit| Limit::new(plan.clock, limit));
    let wait = if plan.spin { libc::MSG_DONTWAIT } else { 0 };
    let (mut calls, mut all) = (0_u64, 0_u64);
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
        match usize::try_from(sys::recv(fd, buffer, flags)) {
            Ok(0) => return ReceiveDone::default(),
            Ok(bytes) => {
                arrived(plan.clock.ns(plan.clock.now()), bytes as u64);
                calls += 1;
                all += bytes as u64;
                plan.gauge.set(calls, all);
                if let Some(limit) = &mut limit {
                    limit.took(bytes as u64);
                    limit.wait(plan.stop);
                }
            }
            Err(_) => match sys::errno() {
                libc::EAGAIN if stopping => return ReceiveDone::default(),
                libc::EAGAIN if plan.spin => std::hint::spin_loop(),
                libc::EAGAIN | libc::EINTR => {}
                libc::ECONNRESET => return ReceiveDone { broken: Some(PathError::Closed) },
                errno => return ReceiveDone { broken: Some(PathError::Failed { call: "recv", errno }) },
            },
        }
    }
}
