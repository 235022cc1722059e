//! The loops of TCP.

use super::pace::{Limit, Schedule};
use super::receive::{Arrived, Calls, ReceiveDone, ReceivePlan};
use super::send::{SendDone, SendPlan};
use crate::{PathError, sys};
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

/// With a rate, a write holds no more than what is due in this time, so that the rate is even.
const PORTION_S: f64 = 0.000_2;
/// A write is never shorter than about a segment for the sake of evenness.
const LEAST: usize = 1448;

/// Writes until it is asked to stop.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of bytes from a positive rate; `as` saturates"
)]
pub(super) fn send(fd: RawFd, buffer: &[u8], plan: &SendPlan<'_>) -> SendDone {
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

/// Reads until the peer ends its half, or until it is asked to stop and nothing more waits.
pub(super) fn receive(
    fd: RawFd,
    buffer: &mut [u8],
    plan: &ReceivePlan<'_>,
    mut take: impl FnMut(Arrived<'_>) -> bool,
) -> ReceiveDone {
    let mut calls = Calls::new(plan);
    let (mut reads, mut all) = (0_u64, 0_u64);
    while let Some(flags) = calls.next() {
        match usize::try_from(sys::recv(fd, buffer, flags)) {
            // The peer ended its half.
            Ok(0) => break,
            Ok(bytes) => {
                take(Arrived::At(plan.clock.ns(plan.clock.now())));
                take(Arrived::Bytes(bytes as u64));
                reads += 1;
                all += bytes as u64;
                plan.gauge.set(reads, all);
                calls.took(bytes as u64);
            }
            Err(_) => {
                if let Some(done) = calls.failed("recv", sys::errno()) {
                    return done;
                }
            }
        }
    }
    ReceiveDone::default()
}
