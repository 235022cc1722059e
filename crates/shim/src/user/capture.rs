//! Copies of frames into another process's ring (asked on the status page, or by `bypass run --capture`).

use super::state::lock;
use crate::{page, settings, time};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use user_stack::Engine;
use xsk::Tap;

/// After how long a capture is asked for again that another process has, ns.
const RETRY_NS: u64 = 1_000_000_000;
/// When, ns.
static RETRY: AtomicU64 = AtomicU64::new(0);

/// Ends the capture whose reader has ended, and begins the one that is asked for.
pub(super) fn look() {
    let ended = {
        let mut state = lock();
        let Some(engine) = &mut state.engine else { return };
        match engine.tap().map(|tap| (tap.request(), tap.has_reader())) {
            Some((_, true)) => return,
            Some((request, false)) => {
                over(request, 0);
                engine.set_tap(None)
            }
            None => None,
        }
    };
    // Unmapped without the lock, and mapped without it.
    drop(ended);
    let asked = match page::asked_capture() {
        0 => settings::capture(),
        asked => asked,
    };
    let now = time::now_ns();
    if asked == 0 || asked == settings::capture() && now < RETRY.load(Relaxed) {
        return;
    }
    let Some(tap) = open(asked) else {
        RETRY.store(now + RETRY_NS, Relaxed);
        return;
    };
    // A thread of the program may have opened the stack anew and begun it, too.
    if let Some(engine) = lock().engine.as_mut().filter(|engine| engine.tap().is_none()) {
        attach(engine, tap);
    }
}

/// At the start of the stack: the capture that was asked for before the program began gets the first frame, too.
pub(super) fn start(engine: &mut Engine) {
    if let Some(tap) = open(settings::capture()) {
        attach(engine, tap);
    }
}

fn open(asked: u64) -> Option<Tap> {
    if asked == 0 {
        return None;
    }
    match Tap::open(asked) {
        Ok(tap) => Some(tap),
        // Another process behind the same command has it: until its end.
        Err(cause) if cause.raw_os_error() == Some(libc::EBUSY) && asked == settings::capture() => None,
        Err(cause) => {
            over(asked, cause.raw_os_error().unwrap_or(libc::EINVAL));
            None
        }
    }
}

fn attach(engine: &mut Engine, mut tap: Tap) {
    let (name, backend) = (engine.interface().name.clone(), engine.backend());
    tap.describe(&name, backend);
    page::show_capture(tap.request());
    engine.set_tap(Some(tap));
}

fn over(request: u64, refused: libc::c_int) {
    page::end_capture(request, refused);
    if request == settings::capture() {
        settings::end_capture();
    }
}
