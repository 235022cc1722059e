//! What this process was started with: read once, when the library is loaded. Until then nothing spins.

use bypass_abi::{Key, SETTINGS, Start, VARIABLE, Values};
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Longest path of the status pages' folder.
const LONGEST: usize = 400;

static VALUES: [AtomicU64; SETTINGS.len()] = [const { AtomicU64::new(0) }; SETTINGS.len()];
static REQUIRES: AtomicBool = AtomicBool::new(false);
static VERBOSE: AtomicBool = AtomicBool::new(false);
static SPINNERS: AtomicU32 = AtomicU32::new(0);
/// Whether sockets may come to a stack in this process.
static STACK: AtomicBool = AtomicBool::new(false);
/// Number of the back-end in `xsk`'s order, plus 1; 0: chosen by the interface.
static BACKEND: AtomicU32 = AtomicU32::new(0);
/// The capture from the first frame on; 0: none.
static CAPTURE: AtomicU64 = AtomicU64::new(0);
/// Name of the network interface, then zeros.
static INTERFACE: [AtomicU8; 16] = [const { AtomicU8::new(0) }; 16];
/// Path of the status pages' folder, then zeros.
static FOLDER: [AtomicU8; LONGEST] = [const { AtomicU8::new(0) }; LONGEST];

pub(crate) fn init(cpus: u32) {
    const NAME: &[u8] = VARIABLE.as_bytes();
    let mut name = [0; NAME.len() + 1];
    name[..NAME.len()].copy_from_slice(NAME);
    // SAFETY: the name ends with NUL; what it points to is read at once, before anybody can change the environment.
    let text = unsafe {
        let text = libc::getenv(name.as_ptr().cast());
        if text.is_null() { b"" } else { CStr::from_ptr(text).to_bytes() }
    };
    let start = Start::parse(text);
    for (slot, value) in VALUES.iter().zip(start.values) {
        slot.store(value, Relaxed);
    }
    REQUIRES.store(start.require, Relaxed);
    VERBOSE.store(start.verbose, Relaxed);
    let most = u32::try_from(value(Key::Spinners)).unwrap_or(u32::MAX);
    SPINNERS.store(if most == 0 { cpus } else { most }, Relaxed);
    STACK.store(start.stack, Relaxed);
    BACKEND.store(start.backend, Relaxed);
    CAPTURE.store(start.capture, Relaxed);
    INTERFACE.iter().zip(start.interface).for_each(|(slot, byte)| slot.store(*byte, Relaxed));
    if start.folder.len() < LONGEST {
        FOLDER.iter().zip(start.folder).for_each(|(slot, byte)| slot.store(*byte, Relaxed));
    }
}

pub(crate) fn values() -> Values {
    VALUES.each_ref().map(|value| value.load(Relaxed))
}

/// One value in its unit.
#[inline(always)]
pub(crate) fn value(key: Key) -> u64 {
    VALUES[key as usize].load(Relaxed)
}

/// One that is a time in µs, in ns.
#[inline(always)]
pub(crate) fn ns(key: Key) -> u64 {
    value(key) * 1000
}

/// Threads that may spin at once.
pub(crate) fn spinners() -> u32 {
    SPINNERS.load(Relaxed)
}

pub(crate) fn requires() -> bool {
    REQUIRES.load(Relaxed)
}

/// Whether to say on standard error what could not be done.
pub(crate) fn is_verbose() -> bool {
    VERBOSE.load(Relaxed)
}

#[inline(always)]
pub(crate) fn uses_stack() -> bool {
    STACK.load(Relaxed)
}

pub(crate) fn backend() -> Option<xsk::Backend> {
    let number = (BACKEND.load(Relaxed) as usize).checked_sub(1)?;
    xsk::Backend::ALL.get(number).copied()
}

pub(crate) fn capture() -> u64 {
    CAPTURE.load(Relaxed)
}

pub(crate) fn end_capture() {
    CAPTURE.store(0, Relaxed);
}

/// Name of the interface; empty: the usual one.
pub(crate) fn interface() -> Vec<u8> {
    INTERFACE.iter().map(|byte| byte.load(Relaxed)).take_while(|byte| *byte != 0).collect()
}

/// Bytes of the path of the status pages' folder; none: no pages.
pub(crate) fn folder() -> impl Iterator<Item = u8> {
    FOLDER.iter().map(|byte| byte.load(Relaxed)).take_while(|byte| *byte != 0)
}
