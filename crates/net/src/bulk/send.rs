//! The sending loop of datagrams.

use super::Gauge;
use super::pace::{Limit, Rate, Schedule};
use crate::batch::Batch;
use crate::{PathError, sys};
use clock::Clock;
use libc::c_int;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub struct SendPlan<'a> {
    /// Datagrams (of TCP, writes) a second; absent: as fast as it goes.
    pub rate: Option<Rate>,
    /// Most datagrams (of TCP, bytes) a second, whatever the rate; absent: no limit.
    pub limit: Option<f64>,
    pub clock: Clock,
    pub stop: &'a AtomicBool,
    /// Ends the loop at this tick; `u64::MAX`: only the flag does.
    pub until: u64,
    pub gauge: &'a Gauge,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendDone {
    /// Datagrams that the kernel took; of TCP, calls.
    pub messages: u64,
    /// Payload that the kernel took.
    pub bytes: u64,
    /// Tick of the first call; 0 when there was none.
    pub first: u64,
    /// Tick before the last call.
    pub last: u64,
    /// Calls that found no buffer (ENOBUFS) and were made again.
    pub no_buffer: u64,
    /// Why it ended before it was asked to.
    pub broken: Option<PathError>,
}

/// Rest after the device's queue was full; a datagram of full size takes 12 µs at 1 Gbit/s.
const REST: Duration = Duration::from_micros(50);

/// Sends numbered datagrams of `size` bytes, `segments` of them in a message.
pub(super) fn send(
    fd: RawFd,
    messages: &mut Batch,
    size: usize,
    segments: usize,
    plan: &SendPlan<'_>,
    mut head: impl FnMut(u64, u64, &mut [u8]),
) -> SendDone {
    let most = (messages.count() * segments) as u64;
    let mut schedule = plan.rate.map(|rate| Schedule::new(plan.clock, rate));
    let mut limit = plan.limit.map(|limit| Limit::new(plan.clock, limit));
    let mut done = SendDone::default();
    while !plan.stop.load(Ordering::Relaxed) {
        let mut count = most;
        if let Some(schedule) = &schedule {
            count = schedule.wait(plan.stop).min(most);
        }
        if count == 0 || limit.as_ref().is_some_and(|limit| !limit.wait(plan.stop)) {
            break;
        }
        let now = plan.clock.now();
        if now >= plan.until {
            break;
        }
        let stamp = plan.clock.ns(now);
        let taken = match fill_and_send(fd, messages, size, segments, count, done.messages, stamp, &mut head) {
            Ok(taken) => taken,
            // A refusal is an ICMP message, which anybody may send; the control connection tells when the peer has ended.
            Err(libc::EAGAIN | libc::EINTR | libc::ECONNREFUSED) => 0,
            Err(libc::ENOBUFS) => {
                done.no_buffer += 1;
                std::thread::sleep(REST);
                0
            }
            Err(errno) => {
                let is_too_large = errno == libc::EMSGSIZE;
                let failed = PathError::Failed { call: "sendmmsg", errno };
                done.broken = Some(if is_too_large { PathError::TooLarge { bytes: size } } else { failed });
                break;
            }
        };
        if done.first == 0 {
            done.first = now;
        }
        done.last = now;
        done.messages += taken;
        done.bytes = done.messages * size as u64;
        plan.gauge.set(done.messages, done.bytes);
        if let Some(schedule) = &mut schedule {
            schedule.took(taken);
        }
        if let Some(limit) = &mut limit {
            limit.took(taken);
        }
    }
    done
}

/// One system call; how many datagrams the kernel took, or its errno.
#[expect(clippy::too_many_arguments, reason = "the loop's own variables")]
#[inline]
fn fill_and_send(
    fd: RawFd,
    messages: &mut Batch,
    size: usize,
    segments: usize,
    count: u64,
    first: u64,
    stamp: u64,
    head: &mut impl FnMut(u64, u64, &mut [u8]),
) -> Result<u64, c_int> {
    if count == 1 {
        let room = &mut messages.room(0)[..size];
        head(first, stamp, room);
        return if sys::send(fd, room, libc::MSG_NOSIGNAL) < 0 { Err(sys::errno()) } else { Ok(1) };
    }
    let mut left = usize::try_from(count).unwrap_or(usize::MAX);
    let mut seq = first;
    let mut used = 0;
    while left > 0 && used < messages.count() {
        let here = left.min(segments);
        let room = messages.room(used);
        for datagram in room.chunks_exact_mut(size.max(1)).take(here) {
            head(seq, stamp, datagram);
            seq += 1;
        }
        messages.set_length(used, here * size);
        left -= here;
        used += 1;
    }
    let sent = messages.send(fd, 0, used);
    let Ok(sent) = usize::try_from(sent) else { return Err(sys::errno()) };
    // All but the last message are full.
    let taken = if sent == used { seq - first } else { (sent * segments) as u64 };
    Ok(taken)
}
