//! select and pselect. Each attempt writes to the sets of descriptors, so they are kept and put back.

use super::poll::wait;
use crate::table::TABLE;
use crate::time::{self, NOW, from_timespec, sleep_for};
use crate::{page, real, user};
use bypass_abi::page::{Kind, Reason};
use descriptors::{Bits, MOST_SELECTED, selected, to_sets};
use libc::{c_int, fd_set, pollfd, sigset_t, timespec, timeval};

/// The three sets of a call as they came.
struct CallSets {
    sets: [*mut fd_set; 3],
    bits: [Bits; 3],
    words: usize,
}

impl CallSets {
    /// Nothing where no socket of the stack is in the sets, or they are too large.
    #[inline(always)]
    unsafe fn new(count: c_int, sets: [*mut fd_set; 3]) -> Option<Self> {
        let count = usize::try_from(count).ok().filter(|count| *count > 0)?;
        let mut kept = Self { sets, bits: [[0; MOST_SELECTED / 64]; 3], words: count.div_ceil(64) };
        if count > MOST_SELECTED {
            page::fall_back(None, Reason::LargeSet);
            return None;
        }
        for (set, bits) in kept.sets.iter().zip(&mut kept.bits).filter(|(set, _)| !set.is_null()) {
            // SAFETY: the kernel reads and writes whole words of a set of `count` descriptors, too.
            unsafe { std::ptr::copy_nonoverlapping(set.cast::<u64>(), bits.as_mut_ptr(), kept.words) };
        }
        kept.has_socket(count).then_some(kept)
    }

    fn has_socket(&self, count: usize) -> bool {
        (0..self.words).any(|word| {
            let mut bits = self.bits.iter().filter_map(|bits| bits.get(word)).fold(0, |all, bits| all | bits);
            while bits != 0 {
                let fd = word * 64 + bits.trailing_zeros() as usize;
                if fd < count && c_int::try_from(fd).is_ok_and(|fd| TABLE.is_socket(fd)) {
                    return true;
                }
                bits &= bits - 1;
            }
            false
        })
    }

    #[inline(always)]
    fn put_back(&self) {
        for (set, bits) in self.sets.iter().zip(&self.bits).filter(|(set, _)| !set.is_null()) {
            // SAFETY: as in `new`.
            unsafe { std::ptr::copy_nonoverlapping(bits.as_ptr(), set.cast::<u64>(), self.words) };
        }
    }

    /// select where sockets of the stack in this process are in the sets.
    unsafe fn on_stack(&self, timeout_ns: u64, mask: *const sigset_t) -> Option<c_int> {
        if !user::is_enabled() {
            return None;
        }
        let mut fds = [pollfd { fd: -1, events: 0, revents: 0 }; MOST_SELECTED];
        let count = fds.iter_mut().zip(selected(&self.bits)).map(|(one, asked)| (one.fd, one.events) = asked).count();
        let polled = fds.get_mut(..count)?;
        // SAFETY: entries and the caller's mask.
        let ready =
            unsafe { super::poll::poll_stack(polled.as_mut_ptr(), polled.len() as _, timeout_ns, mask, Kind::Select) }?;
        if ready < 0 {
            self.put_back();
            return Some(ready);
        }
        let Some((bits, found)) = to_sets(polled.iter().map(|one| (one.fd, one.events, one.revents))) else {
            crate::errno::set(libc::EBADF);
            return Some(-1);
        };
        Self { bits, ..*self }.put_back();
        Some(found)
    }

    /// Waits; `call` gets the time.
    #[inline(always)]
    fn wait(&self, timeout_ns: u64, call: impl Fn(*const timespec) -> c_int) -> c_int {
        let with = |time: *const timespec| {
            self.put_back();
            call(time)
        };
        let ready = wait(Kind::Select, timeout_ns, || with(&raw const NOW), |rest| sleep_for(rest, with));
        if ready < 0 {
            // As the kernel leaves them.
            self.put_back();
        }
        ready
    }
}

/// In ns, `u64::MAX` for a null pointer; nothing where the kernel would refuse it or round it.
unsafe fn from_timeval(time: *const timeval) -> Option<u64> {
    // SAFETY: null or a time, as of select(2).
    let Some(time) = (unsafe { time.as_ref() }) else { return Some(u64::MAX) };
    let us = u64::try_from(time.tv_usec).ok().filter(|us| *us < 1_000_000)?;
    let s = u64::try_from(time.tv_sec).ok()?;
    Some(s.saturating_mul(1_000_000_000).saturating_add(us * 1000).min(u64::MAX - 1))
}

exports! {
    fn select(
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval,
    ) -> c_int {
        let real = || real::select.get()(count, read, write, except, timeout);
        let timeout_ns = from_timeval(timeout).filter(|ns| *ns > 0 || user::is_enabled());
        let Some(timeout_ns) = timeout_ns else { return real() };
        let Some(kept) = CallSets::new(count, [read, write, except]) else { return real() };
        let began = time::now_ns();
        let mask = std::ptr::null();
        let ready = match kept.on_stack(timeout_ns, mask) {
            Some(ready) => ready,
            None if timeout_ns == 0 => return real(),
            None => kept.wait(timeout_ns, |time| real::pselect.get()(count, read, write, except, time, mask)),
        };
        if let Some(timeout) = timeout.as_mut() {
            // Linux leaves there what was not waited.
            let rest = time::to_timespec(timeout_ns.saturating_sub(time::now_ns().saturating_sub(began)));
            *timeout = timeval { tv_sec: rest.tv_sec, tv_usec: rest.tv_nsec / 1000 };
        }
        ready
    }

    fn pselect(
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec,
        mask: *const sigset_t,
    ) -> c_int {
        let real = |time: *const timespec| real::pselect.get()(count, read, write, except, time, mask);
        let timeout_ns = from_timespec(timeout).filter(|ns| *ns > 0 || user::is_enabled());
        let Some(timeout_ns) = timeout_ns else { return real(timeout) };
        let Some(kept) = CallSets::new(count, [read, write, except]) else { return real(timeout) };
        match kept.on_stack(timeout_ns, mask) {
            Some(ready) => ready,
            None if timeout_ns == 0 => real(timeout),
            None => kept.wait(timeout_ns, real),
        }
    }
}
