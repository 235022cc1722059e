//! The end of sockets: close, the process' end, and fork.

use super::{Handle, Locked, Orphan, State, lock, service, take, wait};
use crate::table::{self, Entry};
use crate::{descriptor, page, real, thread};
use libc::c_int;
use stack::TcpState;
use std::cell::RefCell;
use user_stack::now;
use xsk::Backend;

/// How long the process' end waits for what was sent to be acknowledged, without anything happening.
const PATIENCE_NS: u64 = 2_000_000_000;

/// Before a descriptor is closed or replaced.
#[cold]
pub(crate) fn closed(fd: c_int, entry: &'static Entry) {
    let Some(id) = entry.on_stack() else { return };
    let mut locked = lock();
    let state = &mut *locked;
    state.unwatch(fd);
    // From here on no call of another thread asks the kernel by this number.
    entry.clear(table::ON_STACK | table::SOCKET);
    let Some(socket) = state.socket(id) else { return };
    socket.descriptors = socket.descriptors.saturating_sub(1);
    if socket.descriptors > 0 {
        return;
    }
    let lingers = socket.linger_s.filter(|seconds| *seconds > 0).is_some() && !entry.has(table::NONBLOCK);
    let (lingers_ns, ends) = (u64::from(socket.linger_s.unwrap_or(0)) * 1_000_000_000, socket.ends);
    end_socket(state, id, Port::Guarded(fd));
    state.wake(id);
    drop(locked);
    if lingers && let Some((local, remote)) = ends {
        let began = thread::now_ns();
        while thread::now_ns() - began < lingers_ns {
            let mut state = lock();
            state.poll();
            let is_over = !state.lives(local, Some(remote));
            drop(state);
            if is_over {
                break;
            }
            thread::pause();
        }
    }
}

/// What becomes of the port of a socket that is closed.
#[derive(Clone, Copy)]
enum Port {
    /// A copy of this kernel's descriptor owns it as long as data go out.
    Guarded(c_int),
    /// Its frames go to the kernel.
    Released,
    /// The process ends, and with it all ports.
    Kept,
}

/// Closes a socket of the stack.
fn end_socket(state: &mut State, id: u32, port: Port) {
    let Some(socket) = state.remove(id) else { return };
    let Some(engine) = &mut state.engine else { return };
    match socket.handle {
        Handle::Udp(handle) => {
            engine.unbind(handle, socket.port);
        }
        Handle::Tcp(handle) => {
            let ends = engine.stack().tcp_addresses(handle);
            if socket.linger_s == Some(0) {
                let _ = engine.stack().tcp_abort(handle);
            } else {
                let _ = engine.stack().tcp_close(now(), handle);
            }
            engine.flush();
            match (ends, port) {
                (_, Port::Kept) => {}
                (Ok((local, remote)), Port::Guarded(fd)) if state.lives(local, Some(remote)) => {
                    let guard = descriptor::copy(fd);
                    state.orphans.push(Orphan { local, remote: Some(remote), guard });
                }
                _ => engine_withdraw(state, socket.port),
            }
        }
        Handle::Listener(handle) => {
            let local = engine.stack().listener_address(handle);
            let is_packet = engine.backend() == Backend::Packet;
            if matches!(port, Port::Kept) {
                let _ = engine.stack().listener_close(handle);
            } else {
                engine.unlisten(handle);
            }
            engine.flush();
            match (local, port) {
                // Its connections keep the port.
                (_, Port::Kept) => {}
                (Ok(local), Port::Guarded(fd)) if state.lives(local, None) => {
                    // AF_XDP takes the frames of its connections alone: nobody has to hold the port, and another program may listen there.
                    let guard = if is_packet { descriptor::copy(fd) } else { -1 };
                    state.orphans.push(Orphan { local, remote: None, guard });
                }
                _ => engine_withdraw(state, socket.port),
            }
        }
    }
}

fn engine_withdraw(state: &mut State, port: u16) {
    if let Some(engine) = &mut state.engine {
        engine.withdraw(port);
    }
}

impl State {
    /// Whether a connection between these ends, or of this port, still needs the port.
    fn lives(&mut self, local: std::net::SocketAddr, remote: Option<std::net::SocketAddr>) -> bool {
        let Some(engine) = &mut self.engine else { return false };
        let stack = engine.stack();
        match remote {
            Some(remote) => stack.tcp_lives(local, remote),
            None => stack.tcp_connections().any(|(from, _, info)| {
                from.port() == local.port() && !matches!(info.state, TcpState::TimeWait | TcpState::Closed)
            }),
        }
    }

    /// Lets go of ports whose last connection is over.
    pub(super) fn sweep(&mut self) {
        if let Some(engine) = &mut self.engine {
            engine.forget_ended();
        }
        let mut at = 0;
        while let Some(orphan) = self.orphans.get(at) {
            let (local, remote) = (orphan.local, orphan.remote);
            if self.lives(local, remote) {
                at += 1;
                continue;
            }
            let orphan = self.orphans.swap_remove(at);
            engine_withdraw(self, orphan.local.port());
            descriptor::close(orphan.guard);
        }
    }
}

impl State {
    /// The same of a socket; its descriptor hears again what the stack had taken.
    pub(super) fn release(&mut self, id: u32, fd: Option<c_int>) {
        if let (Some(engine), Some(fd)) = (&self.engine, fd) {
            take::unquiet(engine, fd);
        }
        end_socket(self, id, Port::Released);
    }

    /// Before a fork: a listener that nobody has waited for is perhaps meant for the children. The first process that waits for it
    /// takes it over, with the interface, where this one has no other socket.
    fn leave_unused(&mut self) {
        let Some(engine) = &self.engine else { return };
        let is_xdp = engine.backend() != Backend::Packet;
        let ids: Vec<u32> = self
            .by_handle
            .iter()
            .filter(|(handle, _)| matches!(handle, Handle::Listener(_)))
            .map(|(_, id)| *id)
            .collect();
        for id in ids {
            if let Some(fd) = table::unused(id) {
                give_back(self, fd, id, table::CANDIDATE, 0);
            }
        }
        if is_xdp && self.by_handle.is_empty() && self.orphans.is_empty() {
            self.engine = None;
            self.descriptors.clear();
            service::wake();
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

/// The kernel has a socket again, which the stack had. `set` and `clear` are flags of its descriptors.
pub(super) fn give_back(state: &mut State, fd: c_int, id: u32, set: u32, clear: u32) {
    if let Some(entry) = table::entry(fd) {
        table::set_all(entry, set, clear | table::ON_STACK);
        page::off_stack(entry);
    }
    let is_connection = state.socket(id).is_some_and(|socket| matches!(socket.handle, Handle::Tcp(_)));
    state.unwatched(id);
    state.release(id, Some(fd).filter(|_| !is_connection));
    state.wake(id);
    state.turned();
}

/// A descriptor was copied.
pub(crate) fn duplicated(entry: &Entry) {
    if let Some(id) = entry.on_stack()
        && let Some(socket) = lock().socket(id)
    {
        socket.descriptors += 1;
    }
}

/// The state at the process' end: a thread that was ended inside would hold it for ever.
fn lock_at_end() -> Option<Locked> {
    if thread::is_in_stack() || !page::is_own_process() {
        return None;
    }
    (0..1000).find_map(|_| {
        let locked = super::try_lock();
        if locked.is_none() {
            thread::pause();
        }
        locked
    })
}

/// The streams of stdio that are flushed before the process ends.
pub(crate) fn streams_at_end() -> Vec<super::Stream> {
    lock_at_end().map(|mut state| std::mem::take(&mut state.streams)).unwrap_or_default()
}

/// The process ends in order: what was sent goes out first.
pub(crate) fn end() {
    let Some(mut state) = lock_at_end().filter(|state| state.engine.is_some()) else { return };
    state.ended_by = thread::id();
    let ids: Vec<u32> = state.by_handle.values().copied().collect();
    for id in ids {
        end_socket(&mut state, id, Port::Kept);
    }
    let (mut pending, mut since) = (usize::MAX, thread::now_ns());
    loop {
        let Some(engine) = &mut state.engine else { return };
        engine.poll();
        let unacknowledged: usize =
            engine.stack().tcp_connections().map(|(_, _, info)| (info.unacknowledged + info.unsent) as usize).sum();
        let now = thread::now_ns();
        if unacknowledged != pending {
            (pending, since) = (unacknowledged, now);
        }
        if engine.stack().tcp_pending() == 0 || now - since > PATIENCE_NS {
            return;
        }
        thread::yield_cpu();
    }
}

/// Before a program is started that shares the descriptors without FD_CLOEXEC, or, where it is not known which it gets, all.
pub(crate) fn before_spawn(is_any: bool) {
    if !super::is_enabled() || thread::is_in_stack() || !page::is_own_process() {
        return;
    }
    let errno = crate::errno::get();
    // SAFETY: takes numbers only.
    let stays = |fd| unsafe { real::fcntl.get()(fd, libc::F_GETFD) } & libc::FD_CLOEXEC == 0;
    lock().hand_over_all(|fd| is_any || stays(fd));
    crate::errno::set(errno);
}

/// Before this process runs another program: the kernel has all sockets, and closes those with FD_CLOEXEC as it does. Where the
/// program cannot be run, listeners and datagram sockets come back.
pub(crate) fn before_exec() {
    if !super::is_enabled() || thread::is_in_stack() || !page::is_own_process() {
        return;
    }
    let errno = crate::errno::get();
    let mut state = lock();
    state.hand_over_all(|_| true);
    let others = |(handle, id): (&Handle, &u32)| (!matches!(handle, Handle::Tcp(_))).then_some(*id);
    let ids: Vec<u32> = state.by_handle.iter().filter_map(others).collect();
    for id in ids {
        if let Some((fd, _)) = table::of_stack(id) {
            give_back(&mut state, fd, id, table::CANDIDATE, 0);
        }
    }
    drop(state);
    crate::errno::set(errno);
}

thread_local! {
    /// The state, held while the process forks, so that the child finds it whole.
    static FORKING: RefCell<Option<Locked>> = const { RefCell::new(None) };
}

/// Before a fork: what parent and child will share is the kernel's.
pub(crate) extern "C-unwind" fn before_fork() {
    if super::is_enabled() && !thread::is_in_stack() {
        let errno = crate::errno::get();
        let mut locked = lock();
        locked.leave_unused();
        locked.hand_over_all(|_| true);
        FORKING.with(|forking| forking.replace(Some(locked)));
        crate::errno::set(errno);
    }
}

/// After it, in the parent.
pub(crate) extern "C-unwind" fn after_fork() {
    FORKING.with(|forking| drop(forking.take()));
}

/// After it, in the child: the parent keeps the interface, and what could not become the kernel's. The kernel sockets beside stay here.
pub(crate) fn forked() {
    let Some(mut state) = FORKING.with(RefCell::take) else { return };
    if let Some(engine) = state.engine.take() {
        for fd in engine.all_descriptors() {
            // The parent's stays open.
            descriptor::close(fd);
        }
        // Its memory is not inherited: nothing may touch it.
        std::mem::forget(engine);
        // The interface is the parent's.
        state.is_refused = true;
    }
    for orphan in state.orphans.drain(..) {
        descriptor::close(orphan.guard);
    }
    // The C library flushes them by itself.
    state.streams.clear();
    state.places.clear();
    state.by_handle.clear();
    state.waiters.clear();
    state.descriptors.clear();
    state.sets.fork();
    state.is_child = true;
    table::off_stack();
    wait::forked();
    service::forked();
}

/// Before a descriptor is closed that is not on the stack: epoll instances may have it, it may be one itself, or another thread is
/// just about to take it over.
pub(crate) fn forgotten(fd: c_int, entry: &'static Entry) {
    if !super::is_enabled() || thread::is_in_stack() {
        return;
    }
    let mut state = lock();
    if entry.has(table::ON_STACK) {
        drop(state);
        closed(fd, entry);
        return;
    }
    state.unwatch(fd);
    entry.clear(table::SOCKET | table::CANDIDATE);
}
