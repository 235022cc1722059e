//! select and pselect. Each attempt writes to the sets of descriptors, so they are kept and put back.

use super::poll::{NOW, from_timespec, sleep_for, wait};
use crate::{page, real, table, thread};
use bypass_abi::page::{Kind, Reason};
use libc::{c_int, fd_set, sigset_t, timespec, timeval};

/// Descriptors of a set that is kept; larger ones wait in the kernel.
const MOST: usize = 1024;
/// Words of a set.
type Bits = [u64; MOST / 64];

/// The three sets of a call as they came.
struct Kept {
    sets: [*mut fd_set; 3],
    bits: [Bits; 3],
    words: usize,
}

impl Kept {
    /// Nothing where no socket of ours is in the sets, or they are too large.
    #[inline(always)]
    unsafe fn new(count: c_int, sets: [*mut fd_set; 3]) -> Option<Self> {
        let count = usize::try_from(count).ok().filter(|count| *count > 0)?;
        let mut kept = Self { sets, bits: [[0; MOST / 64]; 3], words: count.div_ceil(64) };
        if count > MOST {
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
                if fd < count && c_int::try_from(fd).is_ok_and(table::is_socket) {
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

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    // SAFETY: the caller's promises about the pointers are those of select(2).
    unsafe {
        let Some(timeout_ns) = from_timeval(timeout).filter(|ns| *ns > 0) else {
            return real::select.get()(count, read, write, except, timeout);
        };
        let Some(kept) = Kept::new(count, [read, write, except]) else {
            return real::select.get()(count, read, write, except, timeout);
        };
        let began = thread::now_ns();
        let mask = std::ptr::null();
        let ready = kept.wait(timeout_ns, |time| real::pselect.get()(count, read, write, except, time, mask));
        if let Some(timeout) = timeout.as_mut() {
            // Linux leaves there what was not waited.
            let rest = super::poll::to_timespec(timeout_ns.saturating_sub(thread::now_ns().saturating_sub(began)));
            *timeout = timeval { tv_sec: rest.tv_sec, tv_usec: rest.tv_nsec / 1000 };
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

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's promises about the pointers are those of pselect(2).
    unsafe {
        let real = |time: *const timespec| real::pselect.get()(count, read, write, except, time, mask);
        let Some(timeout_ns) = from_timespec(timeout).filter(|ns| *ns > 0) else { return real(timeout) };
        match Kept::new(count, [read, write, except]) {
            Some(kept) => kept.wait(timeout_ns, real),
            None => real(timeout),
        }
    }
}
