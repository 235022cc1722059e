//! Calls that carry messages, for an observer that stamps them while it is there. Without one they cost a look at a flag.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Sees calls on all sockets and pipes of this process. It runs on the threads that make them, so it must neither block nor allocate.
pub trait CallObserver: Send + Sync {
    /// A message, or the rest of one, is about to be sent.
    fn sends(&self, fd: RawFd, message: &[u8]);

    /// A call that waits for messages has returned this one, or a part of it.
    fn received(&self, fd: RawFd, message: &[u8]);
}

static IS_OBSERVED: AtomicBool = AtomicBool::new(false);
static OBSERVER: RwLock<Option<Arc<dyn CallObserver>>> = RwLock::new(None);

/// An observer of calls; it sees none once this is dropped.
pub struct ObservedCalls(());

impl ObservedCalls {
    /// Begins. Another observer sees no more calls.
    pub fn by(observer: Arc<dyn CallObserver>) -> Self {
        *OBSERVER.write().unwrap_or_else(PoisonError::into_inner) = Some(observer);
        IS_OBSERVED.store(true, Ordering::Release);
        Self(())
    }
}

impl Drop for ObservedCalls {
    fn drop(&mut self) {
        IS_OBSERVED.store(false, Ordering::Release);
        *OBSERVER.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[inline(always)]
pub(crate) fn sends(fd: RawFd, message: &[u8]) {
    if IS_OBSERVED.load(Ordering::Relaxed) {
        observe(|observer| observer.sends(fd, message));
    }
}

/// `result` is what the call returned.
#[inline(always)]
pub(crate) fn received(fd: RawFd, buffer: &[u8], result: isize) {
    if result > 0 && IS_OBSERVED.load(Ordering::Relaxed) {
        let bytes = buffer.len().min(result.unsigned_abs());
        observe(|observer| observer.received(fd, buffer.get(..bytes).unwrap_or_default()));
    }
}

#[cold]
fn observe(with: impl FnOnce(&dyn CallObserver)) {
    if let Some(observer) = &*OBSERVER.read().unwrap_or_else(PoisonError::into_inner) {
        with(observer.as_ref());
    }
}
