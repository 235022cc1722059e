//! Signals that come while a thread is in the stack: they wait until it has left it.

use libc::{c_int, siginfo_t};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{
    AtomicI32,
    Ordering::{Acquire, Relaxed, Release},
};

/// Signals that came while a thread was in the stack, with what came with them: they are sent to it again.
const WAITING: usize = 16;

struct Waiting {
    signal: AtomicI32,
    thread: AtomicI32,
    info: UnsafeCell<MaybeUninit<siginfo_t>>,
}

// SAFETY: who changes `thread` from 0 to -1 has the place alone; then the thread with the number that it stores.
unsafe impl Sync for Waiting {}

static WAIT: [Waiting; WAITING] = [const {
    Waiting { signal: AtomicI32::new(0), thread: AtomicI32::new(0), info: UnsafeCell::new(MaybeUninit::uninit()) }
}; WAITING];

/// Lets a signal wait until the thread has left the stack; false where there is no room.
pub(crate) unsafe fn keep(signal: c_int, info: *const siginfo_t) -> bool {
    // SAFETY: takes nothing; the place is this thread's from the exchange on.
    unsafe {
        let thread = libc::gettid();
        let Some(place) = WAIT.iter().find(|place| place.thread.compare_exchange(0, -1, Acquire, Relaxed).is_ok())
        else {
            return false;
        };
        place.signal.store(signal, Relaxed);
        (*place.info.get()).write(info.read());
        place.thread.store(thread, Release);
    }
    true
}

/// Sends the signals that waited to the calling thread again.
#[cold]
pub(crate) fn handle() {
    // SAFETY: the places that hold this thread's number are its own; what they hold was written by `keep`.
    unsafe {
        let thread = libc::gettid();
        for place in WAIT.iter().filter(|place| place.thread.load(Acquire) == thread) {
            let info = (*place.info.get()).assume_init_read();
            let signal = place.signal.load(Relaxed);
            place.thread.store(0, Release);
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, libc::getpid(), thread, signal, &raw const info);
        }
    }
}
