//! Copies of frames for `bypass capture`. Another process makes a ring and asks on the status page, or `bypass run --capture` did
//! before the program began. Threads of the program only copy; all else is done by the service thread.

use super::lock;
use crate::{page, settings};
use user_stack::Engine;
use xsk::Tap;

/// Ends the capture whose reader is gone, and begins the one that is asked for.
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
    if asked == settings::capture() {
        // A thread of the program may open the stack anew and begin it, too.
        if let Some(engine) = lock().engine.as_mut().filter(|engine| engine.tap().is_none()) {
            start(engine);
        }
    } else if let Some(tap) = open(asked)
        && let Some(engine) = &mut lock().engine
    {
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
