//! The listening end: takes control connections and gives each a thread.

use crate::address::is_closed;
use crate::session::{self, Place};
use crate::{EndpointError, Stop};
use clock::Clock;
use model::Limits;
use model::worker::EndpointTask;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use wire::Key;

/// Connections that may be in their handshake beside the accepted sessions. Each lasts at most
/// [`session::HANDSHAKE`] and holds a thread and a few KiB.
const HANDSHAKES: u32 = 64;
/// Stack of a thread that speaks the control protocol. Locked memory is really taken, so it is no more than needed.
const STACK_BYTES: usize = 512 << 10;
/// Rest after a failed accept: the usual cause is that descriptors ran out, and they come back.
const REST: Duration = Duration::from_millis(50);

/// What all sessions of a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) limits: Limits,
    pub(crate) key: Option<Key>,
    pub(crate) clock: Clock,
    /// Why memory is not locked.
    pub(crate) unlocked: Option<String>,
    /// Accepted sessions.
    pub(crate) sessions: AtomicU32,
    connections: AtomicU32,
    next: AtomicU64,
}

impl Shared {
    pub(crate) fn new(limits: Limits, key: Option<Key>) -> Result<Self, EndpointError> {
        let clock = Clock::calibrate()?;
        // Best effort: a client that asks for more descriptors than there are is refused by name.
        // An idle pipe, UNIX or connected TCP socket has another end, which is a descriptor too.
        let descriptors = u64::from(limits.max_sessions) * (2 * u64::from(limits.max_idle_descriptors) + 16) + 256;
        let _ = task::raise_open_files(descriptors);
        let unlocked = task::lock_memory().err().map(|error| error.to_string());
        Ok(Self {
            limits,
            key,
            clock,
            unlocked,
            sessions: AtomicU32::new(0),
            connections: AtomicU32::new(0),
            next: AtomicU64::new(1),
        })
    }

    /// Number of the next session.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

/// Counts an open connection until dropped.
struct Connected(Arc<Shared>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A place in a counter, given back when dropped.
pub(crate) struct Seat<'a>(&'a AtomicU32);

impl<'a> Seat<'a> {
    /// Takes a place unless all `most` are taken.
    pub(crate) fn take(counter: &'a AtomicU32, most: u32) -> Option<Self> {
        let more = |taken: u32| (taken < most).then_some(taken + 1);
        counter.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok().map(|_| Self(counter))
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A bound server. Bind first, tell the address, then serve.
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Endpoint {
    /// Binds the control port, locks the process' memory where that is permitted, and calibrates the clock (50 ms).
    ///
    /// # Errors
    /// The port is in use, the address is not this host's, or others could reach it and there is no key: see
    /// [`EndpointError`].
    pub fn bind(task: &EndpointTask) -> Result<Self, EndpointError> {
        let key = task.key.as_deref().map(Key::from_hex).transpose()?;
        let wanted = net::resolve(&task.bind, wire::DEFAULT_PORT, None)
            .map_err(|cause| EndpointError::Address { given: task.bind.clone(), cause })?;
        if key.is_none() && !is_closed(wanted.ip()) {
            return Err(EndpointError::KeyNeeded { address: wanted });
        }
        let listener = TcpListener::bind(wanted).map_err(|cause| match cause.kind() {
            io::ErrorKind::AddrInUse => EndpointError::InUse { address: wanted },
            _ => EndpointError::Bind { address: wanted, cause },
        })?;
        let system = |step| move |cause| EndpointError::System { step, cause };
        let address = listener.local_addr().map_err(system("reading the bound address"))?;
        // A client may hang up between poll and accept; then accept must not wait for the next one.
        listener.set_nonblocking(true).map_err(system("making the listener non-blocking"))?;
        Ok(Self { listener, address, shared: Arc::new(Shared::new(task.limits.clone(), key)?) })
    }

    /// Where clients connect to: with port 0 asked for, the one that the system chose.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// How many sessions are under way.
    #[must_use]
    pub fn sessions(&self) -> u32 {
        self.shared.sessions.load(Ordering::Acquire)
    }

    /// Serves until `stop`, then ends all sessions and returns. Between events it sleeps in poll(2) without a time-out.
    ///
    /// # Errors
    /// [`EndpointError::System`] when waiting for clients fails. What a client does never ends it.
    pub fn serve(&self, stop: &Stop) -> Result<(), EndpointError> {
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        let outcome = loop {
            match self.wait(stop) {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
            threads.retain(|thread| !thread.is_finished());
            match self.listener.accept() {
                Ok((stream, peer)) => threads.extend(self.admit(stream, peer, stop)),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(_) => std::thread::sleep(REST),
            }
        };
        stop.stop();
        for thread in threads {
            // A session that panicked has ended too.
            let _ = thread.join();
        }
        outcome
    }

    /// Waits for a client; `false` when the server is to end.
    fn wait(&self, stop: &Stop) -> Result<bool, EndpointError> {
        loop {
            if stop.is_stopped() {
                return Ok(false);
            }
            let mut waiting =
                [PollFd::new(self.listener.as_fd(), PollFlags::POLLIN), PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
            match poll(&mut waiting, PollTimeout::NONE) {
                Ok(_) if waiting[0].any().unwrap_or(false) => return Ok(true),
                Ok(_) => {}
                Err(Errno::EINTR) => stop.look(),
                Err(errno) => {
                    return Err(EndpointError::System { step: "waiting for clients", cause: errno.into() });
                }
            }
        }
    }

    fn admit(&self, stream: TcpStream, peer: SocketAddr, stop: &Stop) -> Option<JoinHandle<()>> {
        let shared = Arc::clone(&self.shared);
        let most = shared.limits.max_sessions.saturating_add(HANDSHAKES);
        // With that many open connections the next one is hung up on without a word: a word would need a thread.
        if shared.connections.load(Ordering::Acquire) >= most {
            return None;
        }
        shared.connections.fetch_add(1, Ordering::AcqRel);
        let counted = Connected(Arc::clone(&shared));
        let stop = stop.clone();
        let thread = std::thread::Builder::new().name("session".to_owned()).stack_size(STACK_BYTES);
        let run = move || {
            let _counted = counted;
            if let Ok(local) = stream.local_addr() {
                let place = Place::Network { local, peer, keyed: shared.key.is_some() };
                session::run_tcp(stream, place, &shared, &stop);
            }
        };
        // Without a thread for it the connection is dropped, which hangs up.
        thread.spawn(run).ok()
    }
}
