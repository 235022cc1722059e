//! Busy polling: the kernel polls the device when a call would wait. Set after a packet came through NAPI.

use crate::{errno, kernel, page, real, settings};
use bypass_abi::Key;
use descriptors::table::{BUSY_POLL_SET, Entry};
use libc::{SOL_SOCKET, c_int, c_ulong};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Packets that one busy poll takes at most: SO_BUSY_POLL_BUDGET of drivers' usual weight.
const PACKETS: u16 = 8;

/// Whether a socket of this process is busy-polled.
static SEEN: AtomicBool = AtomicBool::new(false);

/// Asks for busy polling on a socket that has just received something, once.
#[inline(always)]
pub(crate) fn look_up(fd: c_int, entry: &Entry) {
    if !entry.has(BUSY_POLL_SET) {
        set_socket(fd, entry);
    }
}

#[cold]
fn set_socket(fd: c_int, entry: &Entry) {
    entry.set(BUSY_POLL_SET);
    let us = settings::value(Key::BusyPoll);
    if us == 0 {
        return;
    }
    let errno = errno::get();
    let napi = kernel::option(fd, SOL_SOCKET, libc::SO_INCOMING_NAPI_ID).unwrap_or(0);
    if napi != 0 {
        let set = |option: c_int, value: u64| {
            let value = c_int::try_from(value).unwrap_or(c_int::MAX);
            kernel::set_option(fd, SOL_SOCKET, option, &value)
        };
        // More than the system's default needs a capability: without it the socket stays as it is.
        if set(libc::SO_BUSY_POLL, us) {
            set(libc::SO_PREFER_BUSY_POLL, 1);
            set(libc::SO_BUSY_POLL_BUDGET, u64::from(PACKETS));
            page::busy_polled(entry);
            SEEN.store(true, Relaxed);
        }
    }
    errno::set(errno);
}

/// Argument of EPIOCSPARAMS: `struct epoll_params` of linux/eventpoll.h.
#[repr(C)]
struct EpollParams {
    busy_poll_usecs: u32,
    busy_poll_budget: u16,
    prefer_busy_poll: u8,
    pad: u8,
}

/// _IOW(0x8A, 0x01, struct epoll_params), Linux 6.9.
const EPIOCSPARAMS: c_ulong = 0x4008_8A01;

/// Asks for busy polling on an epoll instance with a busy-polled socket, once.
pub(crate) fn set_epoll(fd: c_int, entry: &Entry) {
    if !SEEN.load(Relaxed) || entry.has(BUSY_POLL_SET) {
        return;
    }
    entry.set(BUSY_POLL_SET);
    let errno = errno::get();
    let us = u32::try_from(settings::value(Key::BusyPoll)).unwrap_or(0);
    let parameters = EpollParams { busy_poll_usecs: us, busy_poll_budget: PACKETS, prefer_busy_poll: 1, pad: 0 };
    // SAFETY: the kernel reads the structure; an older one refuses the request.
    unsafe { real::ioctl.get()(fd, EPIOCSPARAMS, &raw const parameters) };
    errno::set(errno);
}
