//! Calls that carry messages, for an observer that stamps those of one descriptor. The others cost a look at a number.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Sees the calls on a descriptor. It runs on the threads that make them, so it must neither block nor allocate.
pub trait CallObserver: Send + Sync {
    /// A message, or the rest of one, is about to be sent.
    fn sends(&self, message: &[u8]);

    /// It has been sent, or a part of it.
    fn sent(&self, _message: &[u8]) {}

    /// A call that waits for messages has returned this one, or a part of it.
    fn received(&self, message: &[u8]);
}

const NONE: RawFd = -1;
/// The descriptor whose calls are observed. It is looked at before the lock, which only the threads of an explained pass take.
static OBSERVED: AtomicI32 = AtomicI32::new(NONE);
static OBSERVER: RwLock<Option<Arc<dyn CallObserver>>> = RwLock::new(None);

/// An observer of calls; it sees none once this is dropped.
pub struct ObservedCalls(());

impl ObservedCalls {
    /// Begins with those on this descriptor. Another observer sees no more calls.
    pub fn by(descriptor: RawFd, observer: Arc<dyn CallObserver>) -> Self {
        *OBSERVER.write().unwrap_or_else(PoisonError::into_inner) = Some(observer);
        OBSERVED.store(descriptor, Ordering::Release);
        Self(())
    }
}

impl Drop for ObservedCalls {
    fn drop(&mut self) {
        OBSERVED.store(NONE, Ordering::Release);
        *OBSERVER.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[inline(always)]
pub(crate) fn sends(fd: RawFd, message: &[u8]) {
    if fd == OBSERVED.load(Ordering::Relaxed) {
        observe(|observer| observer.sends(message));
    }
}

/// `result` is what the call returned.
#[inline(always)]
pub(crate) fn sent(fd: RawFd, message: &[u8], result: isize) {
    if result > 0 && fd == OBSERVED.load(Ordering::Relaxed) {
        observe(|observer| observer.sent(message));
    }
}

/// `result` is what the call returned.
#[inline(always)]
pub(crate) fn received(fd: RawFd, buffer: &[u8], result: isize) {
    if result > 0 && fd == OBSERVED.load(Ordering::Relaxed) {
        let bytes = buffer.len().min(result.unsigned_abs());
        observe(|observer| observer.received(buffer.get(..bytes).unwrap_or_default()));
    }
}

#[cold]
fn observe(with: impl FnOnce(&dyn CallObserver)) {
    if let Some(observer) = &*OBSERVER.read().unwrap_or_else(PoisonError::into_inner) {
        with(observer.as_ref());
    }
}
