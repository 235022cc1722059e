//! The end of sockets: close, and the process' end.

use super::release::{Port, end_socket};
use super::state::{Locked, Stream, is_enabled, lock, try_lock};
use crate::table::{self, Entry, TABLE};
use crate::{descriptor, page, thread, time};
use libc::c_int;

/// How long the process' end waits for what was sent to be acknowledged, without anything happening.
const PATIENCE_NS: u64 = 2_000_000_000;

/// Before a close or replacement: it may be on the stack, in an epoll instance or one, or about to be taken over.
pub(crate) fn closed(fd: c_int, entry: &'static Entry) {
    if !entry.has(table::ON_STACK) && (!is_enabled() || thread::is_in_stack()) {
        return;
    }
    let mut locked = lock();
    let state = &mut *locked;
    state.unwatch(fd);
    // From here on no call of another thread asks the kernel by this number.
    let Some(closed) = TABLE.close_socket(entry) else { return };
    let id = closed.id;
    let Some(socket) = state.sockets.get(id).filter(|_| closed.is_last) else { return };
    let lingers = socket.linger_s.filter(|seconds| *seconds > 0).is_some() && !entry.has(table::NONBLOCK);
    let (lingers_ns, ends) = (u64::from(socket.linger_s.unwrap_or(0)) * 1_000_000_000, socket.ends);
    end_socket(state, id, Port::Guarded(fd));
    state.wake(id);
    drop(locked);
    if lingers && let Some((local, remote)) = ends {
        let began = time::now_ns();
        while time::now_ns() - began < lingers_ns {
            let mut state = lock();
            state.poll();
            let is_over = !state.lives(local, Some(remote));
            drop(state);
            if is_over {
                break;
            }
            time::pause();
        }
    }
}

/// bind found the port taken: by a guard of this library, which makes room. Says whether it did.
pub(crate) fn release_guard(port: u16) -> bool {
    let mut state = lock();
    let mut released = false;
    for orphan in state.orphans.iter_mut().filter(|orphan| orphan.local.port() == port && orphan.guard >= 0) {
        descriptor::close(orphan.guard);
        orphan.guard = -1;
        released = true;
    }
    released
}

/// The state at the process' end: a thread that was ended inside would hold it for ever.
fn lock_at_end() -> Option<Locked> {
    if thread::is_in_stack() || !page::is_own_process() {
        return None;
    }
    (0..1000).find_map(|_| {
        let locked = try_lock();
        if locked.is_none() {
            time::pause();
        }
        locked
    })
}

/// The streams of stdio that are flushed before the process ends.
pub(crate) fn streams_at_end() -> Vec<Stream> {
    lock_at_end().map(|mut state| std::mem::take(&mut state.streams)).unwrap_or_default()
}

/// The process ends in order: what was sent goes out first.
pub(crate) fn end() {
    let Some(mut state) = lock_at_end().filter(|state| state.engine.is_some()) else { return };
    state.ended_by = thread::id();
    let ids = state.sockets.ids(|_| true);
    for id in ids {
        end_socket(&mut state, id, Port::Kept);
    }
    let (mut pending, mut since) = (usize::MAX, time::now_ns());
    loop {
        let Some(engine) = &mut state.engine else { return };
        engine.poll();
        let unacknowledged: usize =
            engine.stack().tcp_connections().map(|(_, _, info)| (info.unacknowledged + info.unsent) as usize).sum();
        let now = time::now_ns();
        if unacknowledged != pending {
            (pending, since) = (unacknowledged, now);
        }
        if engine.stack().tcp_pending() == 0 || now - since > PATIENCE_NS {
            return;
        }
        time::yield_cpu();
    }
}
