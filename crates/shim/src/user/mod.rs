//! Sockets on a stack in this process: `--stack xdp`.
//!
//! A socket begins as the kernel's. It is taken over when it is first used ([`take`]): a datagram socket or a listener by its
//! first call that moves data or waits, a connection by connect. Its descriptor goes on to be the kernel socket's: that one
//! owns the port, and brings what does not come through the interface. Everything else is in [`State`], behind one lock.

mod address;
mod capture;
mod close;
mod control;
mod datagram;
mod epoll;
mod hand_over;
mod options;
mod ready;
mod service;
mod socket;
mod stream;
mod take;
pub(crate) mod wait;

pub(crate) use close::{
    after_fork, before_exec, before_fork, before_spawn, closed, duplicated, end, forgotten, forked, release_guard,
    streams_at_end,
};
pub(crate) use control::Control;
pub(crate) use datagram::{Outgoing, reconnected};
pub(crate) use epoll::{control, wait_epoll};
pub(crate) use options::{get, ioctl, name, room, set, wait_for_room};
pub(crate) use ready::{Polled, poll};
pub(crate) use socket::{Incoming, receive, send};
pub(crate) use stream::{accept, connect, shut_down};
pub(crate) use take::{listens, to_kernel};

use crate::table::{self, Entry};
use crate::{settings, thread};
use descriptors::Sets;
use libc::{FILE, c_int};
use socket::Socket;
use stack::{Event, Listener, TcpSocket, UdpSocket};
use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError, TryLockError};
use user_stack::Engine;

/// A socket of the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Handle {
    Udp(UdpSocket),
    Tcp(TcpSocket),
    Listener(Listener),
}

/// A thread that sleeps until something happens.
#[derive(Debug)]
struct Waiter {
    /// Its eventfd.
    fd: c_int,
    wakes: Wakes,
    is_woken: bool,
}

/// What wakes a thread that sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wakes {
    /// Something happens to this socket.
    One(u32),
    /// To any.
    Any,
    /// It waits for the kernel's sockets: one comes to the stack.
    Turns,
}

/// A place for a socket, with how often it was used.
#[derive(Default)]
struct Place {
    uses: u16,
    socket: Option<Socket>,
}

/// A connection without a descriptor: what it sent still goes out.
struct Orphan {
    local: std::net::SocketAddr,
    remote: Option<std::net::SocketAddr>,
    /// Copy of the kernel socket that owns the port.
    guard: c_int,
}

/// A stream of stdio, and its descriptor.
pub(crate) type Stream = (AtomicPtr<FILE>, c_int);

/// Everything of the stack.
pub(crate) struct State {
    engine: Option<Engine>,
    /// It cannot be opened: not tried again.
    is_refused: bool,
    /// It was forked: its listeners are its parent's and siblings', too.
    is_child: bool,
    /// What [`Engine::descriptors`] gives.
    descriptors: Vec<c_int>,
    places: Vec<Place>,
    by_handle: HashMap<Handle, u32>,
    /// The epoll instances.
    sets: Sets,
    waiters: Vec<Waiter>,
    orphans: Vec<Orphan>,
    /// When a listener may be tried again that handshakes of the kernel kept from AF_PACKET, ns.
    retry_ns: u64,
    /// Streams of stdio on sockets, with their descriptors: flushed before the process ends.
    streams: Vec<Stream>,
    /// Counts up when the kernel said that one of its sockets is ready: all are asked then.
    hint: u32,
    /// A message whose parts are put together.
    scratch: Vec<u8>,
    /// The thread that ends the process, once all sockets are closed for that; 0 before.
    ended_by: i32,
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| {
    Mutex::new(State {
        engine: None,
        is_refused: false,
        is_child: false,
        descriptors: Vec::new(),
        places: Vec::with_capacity(256),
        by_handle: HashMap::with_capacity(256),
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
static ROUNDS: AtomicU32 = AtomicU32::new(0);
/// Counts up when a socket comes to the stack or leaves it, or an instance gets one: threads that wait look again whom to ask.
static TURNS: AtomicU32 = AtomicU32::new(0);

/// The state, locked. Signal handlers of the program wait until it is free again: they may call any of this.
pub(super) struct Locked(ManuallyDrop<MutexGuard<'static, State>>);

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

/// Locks the state.
pub(super) fn lock() -> Locked {
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

/// The sockets are closed because a thread ends the process. Others that wait in a call do not return from it, as on the kernel; only
/// where that thread goes on and waits for them.
#[cold]
fn lock_while_ending(locked: Locked, by: i32) -> Locked {
    if by == thread::id() {
        return locked;
    }
    drop(locked);
    thread::sleep_ns(END_NS);
    lock_state()
}

/// Locks the state where it is free.
fn try_lock() -> Option<Locked> {
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
    fn poll(&mut self) -> bool {
        let Some(engine) = &mut self.engine else { return false };
        let has_worked = engine.poll();
        ROUNDS.store(ROUNDS.load(Relaxed).wrapping_add(1), Relaxed);
        self.dispatch();
        has_worked
    }

    /// Tells epoll instances and sleeping threads what has happened.
    #[inline]
    fn dispatch(&mut self) {
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
            if let Some(id) = self.by_handle.get(&handle).copied() {
                self.happened(id);
            }
        }
    }

    /// Something may have changed for a socket.
    fn happened(&mut self, id: u32) {
        self.sets.happened(id);
        self.wake(id);
    }

    /// Wakes those that sleep for a socket.
    fn wake(&mut self, id: u32) {
        self.wake_those(|wakes| wakes == Wakes::Any || wakes == Wakes::One(id));
    }

    /// A socket has come to the stack or left it, or an instance has got one.
    fn turned(&mut self) {
        TURNS.fetch_add(1, Relaxed);
        self.wake_those(|wakes| !matches!(wakes, Wakes::One(_)));
    }

    fn wake_those(&mut self, are_meant: impl Fn(Wakes) -> bool) {
        for waiter in self.waiters.iter_mut().filter(|waiter| !waiter.is_woken && are_meant(waiter.wakes)) {
            waiter.is_woken = true;
            wait::wake(waiter.fd);
        }
    }

    /// A socket by what its entry in the table says.
    #[inline]
    fn socket(&mut self, id: u32) -> Option<&mut Socket> {
        let place = self.places.get_mut((id & 0xffff) as usize)?;
        if u32::from(place.uses) != id >> 16 {
            return None;
        }
        place.socket.as_mut()
    }

    /// Engine and socket.
    #[inline]
    fn both(&mut self, id: u32) -> Option<(&mut Engine, &mut Socket)> {
        both(&mut self.engine, &mut self.places, id)
    }

    /// Keeps a socket; its number for the table, never 0.
    fn insert(&mut self, socket: Socket) -> Option<u32> {
        let free = self.places.iter().skip(1).position(|place| place.socket.is_none()).map(|at| at + 1);
        let at = free.unwrap_or_else(|| {
            let least = self.places.len().max(1) + 1;
            self.places.resize_with(least, Place::default);
            least - 1
        });
        let number = u32::from(u16::try_from(at).ok()?);
        let place = self.places.get_mut(at)?;
        place.uses = place.uses.wrapping_add(1);
        let id = number | u32::from(place.uses) << 16;
        self.by_handle.insert(socket.handle, id);
        place.socket = Some(socket);
        Some(id)
    }

    fn remove(&mut self, id: u32) -> Option<Socket> {
        let place = self.places.get_mut((id & 0xffff) as usize).filter(|place| u32::from(place.uses) == id >> 16)?;
        let socket = place.socket.take()?;
        self.by_handle.remove(&socket.handle);
        Some(socket)
    }
}

/// Engine and socket, of their parts of the state.
#[inline]
fn both<'s>(
    engine: &'s mut Option<Engine>,
    places: &'s mut [Place],
    id: u32,
) -> Option<(&'s mut Engine, &'s mut Socket)> {
    let place = places.get_mut((id & 0xffff) as usize).filter(|place| u32::from(place.uses) == id >> 16)?;
    Some((engine.as_mut()?, place.socket.as_mut()?))
}
