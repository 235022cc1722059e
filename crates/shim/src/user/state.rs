//! Everything of the stack in this process, behind one lock: the engine, its sockets, the epoll instances, and those that wait.

use super::socket::{Handle, Socket};
use crate::table::{self, Entry};
use crate::{kernel, settings, thread, time};
use bypass_abi::page::Reason;
use descriptors::{Sets, Sockets};
use libc::{FILE, c_int};
use stack::Event;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError, TryLockError};
use user_stack::Engine;

/// A thread that sleeps until something happens.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) fd: c_int,
    pub(super) wakes: Wakes,
    pub(super) is_woken: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wakes {
    /// Something happens to this socket.
    One(u32),
    Any,
    /// It waits for the kernel's sockets: one comes to the stack.
    Turns,
}

/// A connection without a descriptor: what it sent still goes out.
pub(super) struct Orphan {
    pub(super) local: std::net::SocketAddr,
    pub(super) remote: Option<std::net::SocketAddr>,
    /// Copy of the kernel socket that owns the port.
    pub(super) guard: c_int,
}

/// A stream of stdio, and its descriptor.
pub(crate) type Stream = (AtomicPtr<FILE>, c_int);

pub(crate) struct State {
    pub(super) engine: Option<Engine>,
    /// It cannot be opened: not tried again.
    pub(super) is_refused: bool,
    /// It was forked: its listeners are its parent's and siblings', too.
    pub(super) is_child: bool,
    /// What [`Engine::descriptors`] gives.
    pub(super) descriptors: Vec<c_int>,
    pub(super) sockets: Sockets<Handle, Socket>,
    pub(super) sets: Sets,
    pub(super) waiters: Vec<Waiter>,
    pub(super) orphans: Vec<Orphan>,
    /// When a listener may be tried again that handshakes of the kernel kept from AF_PACKET, ns.
    pub(super) retry_ns: u64,
    /// Streams of stdio on sockets, with their descriptors: flushed before the process ends.
    pub(super) streams: Vec<Stream>,
    /// Counts up when the kernel said that one of its sockets is ready: all are asked then.
    pub(super) hint: u32,
    /// A message whose parts are put together.
    pub(super) scratch: Vec<u8>,
    /// The thread that ends the process, once all sockets are closed for that; 0 before.
    pub(super) ended_by: i32,
}

/// Why a socket is not taken over now.
pub(super) enum Not {
    /// It may be later.
    Yet,
    /// The kernel keeps it.
    Ever(Reason),
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| {
    Mutex::new(State {
        engine: None,
        is_refused: false,
        is_child: false,
        descriptors: Vec::new(),
        sockets: Sockets::new(),
        sets: Sets::default(),
        waiters: Vec::with_capacity(64),
        orphans: Vec::with_capacity(64),
        retry_ns: 0,
        streams: Vec::new(),
        hint: 0,
        scratch: Vec::new(),
        ended_by: 0,
    })
});
/// How long a call waits at the process' end for that end, ns.
const END_NS: u64 = 5_000_000_000;
/// Counts rounds of the program's own threads: while it changes, the service thread has nothing to do.
pub(super) static ROUNDS: AtomicU32 = AtomicU32::new(0);
/// Counts up when a socket comes to the stack or leaves it, or an instance gets one: threads that wait look again whom to ask.
pub(super) static TURNS: AtomicU32 = AtomicU32::new(0);

/// The state, locked. Signal handlers of the program wait until it is free again: they may call any of this.
pub(crate) struct Locked(ManuallyDrop<MutexGuard<'static, State>>);

impl std::ops::Deref for Locked {
    type Target = State;
    fn deref(&self) -> &State {
        &self.0
    }
}

impl std::ops::DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.0
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: dropped here only.
        unsafe { ManuallyDrop::drop(&mut self.0) };
        thread::leave_stack();
    }
}

pub(crate) fn lock() -> Locked {
    let locked = lock_state();
    match locked.ended_by {
        0 => locked,
        thread => lock_while_ending(locked, thread),
    }
}

fn lock_state() -> Locked {
    thread::enter_stack();
    Locked(ManuallyDrop::new(STATE.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// The process ends: waiting calls of others do not return, unless that thread continues and waits for them.
#[cold]
fn lock_while_ending(locked: Locked, by: i32) -> Locked {
    if by == thread::id() {
        return locked;
    }
    drop(locked);
    time::sleep_ns(END_NS);
    lock_state()
}

pub(super) fn try_lock() -> Option<Locked> {
    thread::enter_stack();
    match STATE.try_lock() {
        Ok(guard) => Some(Locked(ManuallyDrop::new(guard))),
        Err(TryLockError::Poisoned(poisoned)) => Some(Locked(ManuallyDrop::new(poisoned.into_inner()))),
        Err(TryLockError::WouldBlock) => {
            thread::leave_stack();
            None
        }
    }
}

/// Lets a caller change the streams of stdio.
pub(crate) fn streams(change: impl FnOnce(&mut Vec<Stream>)) {
    change(&mut lock().streams);
}

/// Whether sockets may be taken over at all.
#[inline(always)]
pub(crate) fn is_enabled() -> bool {
    settings::uses_stack()
}

/// The entry of a socket that is on the stack, or may be taken over now. A call of the stack itself, below, is the kernel's.
#[inline(always)]
pub(crate) fn entry(fd: c_int) -> Option<&'static Entry> {
    table::entry(fd)
        .filter(|entry| entry.has_any(table::ON_STACK | table::CANDIDATE | table::LEFT) && !thread::is_in_stack())
}

impl State {
    /// A round of the engine, and what follows from it for those that wait. Says whether anything may have changed.
    #[inline]
    pub(super) fn poll(&mut self) -> bool {
        let Some(engine) = &mut self.engine else { return false };
        let has_worked = engine.poll();
        ROUNDS.store(ROUNDS.load(Relaxed).wrapping_add(1), Relaxed);
        self.dispatch();
        has_worked
    }

    /// Tells epoll instances and sleeping threads what has happened.
    #[inline]
    pub(super) fn dispatch(&mut self) {
        while let Some(event) = self.engine.as_mut().and_then(Engine::event) {
            if self.sets.is_empty() && self.waiters.is_empty() {
                continue;
            }
            let handle = match event {
                Event::Tcp(socket) => Handle::Tcp(socket),
                Event::Udp(socket) => Handle::Udp(socket),
                Event::Listener(socket) => Handle::Listener(socket),
                Event::NeighbourNeeded(_) => continue,
            };
            if let Some(id) = self.sockets.id(&handle) {
                self.happened(id);
            }
        }
    }

    /// Something may have changed for a socket.
    pub(super) fn happened(&mut self, id: u32) {
        self.sets.happened(id);
        self.wake(id);
    }

    pub(super) fn wake(&mut self, id: u32) {
        self.wake_those(|wakes| wakes == Wakes::Any || wakes == Wakes::One(id));
    }

    /// A socket has come to the stack or left it, or an instance has got one.
    pub(super) fn turned(&mut self) {
        TURNS.fetch_add(1, Relaxed);
        self.wake_those(|wakes| !matches!(wakes, Wakes::One(_)));
    }

    fn wake_those(&mut self, are_meant: impl Fn(Wakes) -> bool) {
        for waiter in self.waiters.iter_mut().filter(|waiter| !waiter.is_woken && are_meant(waiter.wakes)) {
            waiter.is_woken = true;
            kernel::wake(waiter.fd);
        }
    }

    #[inline]
    pub(super) fn both(&mut self, id: u32) -> Option<(&mut Engine, &mut Socket)> {
        Some((self.engine.as_mut()?, self.sockets.get(id)?))
    }
}
