//! The listening end: takes control connections and gives each a thread.

use crate::address::is_closed;
use crate::handshakes::{self, Handshakes, PendingClient};
use crate::session;
use crate::{EndpointError, Stop};
use clock::Clock;
use model::Limits;
use model::worker::EndpointTask;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use wire::{Key, RefuseCode};

/// Stack of a thread that speaks the control protocol. Locked memory is really taken, so it is no more than needed.
const STACK_BYTES: usize = 512 << 10;
/// How long an endpoint that ends after one session waits for the client's next: a sweep of a stream opens one a size.
const LINGER: Duration = Duration::from_secs(1);
/// Rest after a failed accept: the usual cause is that descriptors ran out, and they come back.
const REST: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) limits: Limits,
    pub(crate) key: Option<Key>,
    /// Addresses that only hosts of this machine's labs reach.
    pub(crate) lab: Vec<IpAddr>,
    pub(crate) clock: Clock,
    /// Why memory is not locked.
    pub(crate) unlocked: Option<String>,
    pub(crate) sessions: AtomicU32,
    /// Sessions that have begun, in all. Who only connects has none.
    begun: AtomicU64,
    next: AtomicU64,
}

impl Shared {
    pub(crate) fn new(limits: Limits, key: Option<Key>, lab: &[IpAddr]) -> Result<Self, EndpointError> {
        let clock = Clock::calibrate()?;
        // Best effort: a client that asks for more is refused by name. The other end of a pipe or socket counts too.
        let descriptors = u64::from(limits.max_sessions) * (2 * u64::from(limits.max_idle_descriptors) + 16)
            + 256
            + handshakes::MOST as u64;
        let _ = task::raise_open_files(descriptors);
        let unlocked = task::lock_memory().err().map(|error| error.to_string());
        let (lab, sessions) = (lab.to_vec(), AtomicU32::new(0));
        let (begun, next) = (AtomicU64::new(0), AtomicU64::new(1));
        Ok(Self { limits, key, lab, clock, unlocked, sessions, begun, next })
    }

    /// Whether no session runs and none begins for [`LINGER`]; false where the server ends meanwhile.
    fn stays_idle(&self, stop: &Stop) -> bool {
        let begun = self.begun.load(Ordering::Acquire);
        let mut stopping = [PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
        let waited = poll(&mut stopping, PollTimeout::try_from(LINGER).unwrap_or(PollTimeout::MAX));
        let is_idle = self.sessions.load(Ordering::Acquire) == 0 && self.begun.load(Ordering::Acquire) == begun;
        waited == Ok(0) && is_idle
    }

    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

/// One of the accepted sessions; released when dropped.
#[derive(Debug)]
pub(crate) struct SessionSlot(Arc<Shared>);

impl SessionSlot {
    fn take(shared: &Arc<Shared>) -> Option<Self> {
        let more = |taken: u32| (taken < shared.limits.max_sessions).then_some(taken + 1);
        let taken = shared.sessions.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        taken.ok().map(|_| {
            shared.begun.fetch_add(1, Ordering::AcqRel);
            Self(Arc::clone(shared))
        })
    }
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        self.0.sessions.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A bound server. Bind first, publish the address, then serve.
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
    once: bool,
}

impl Endpoint {
    /// Binds the control port, locks the process' memory where that is permitted, and calibrates the clock (50 ms). Errors: the port is
    /// in use, the address is not this host's, or others could reach it and there is no key: see [`EndpointError`].
    pub fn bind(task: &EndpointTask) -> Result<Self, EndpointError> {
        Self::bind_in_lab(task, &[])
    }

    /// As [`Endpoint::bind`] on a host of labs that are known to be this machine's: their addresses need no key. Errors: as
    /// [`Endpoint::bind`].
    pub fn bind_in_lab(task: &EndpointTask, lab: &[IpAddr]) -> Result<Self, EndpointError> {
        let key = task.key.as_deref().map(Key::from_hex).transpose()?;
        let wanted = net::resolve(&task.bind, wire::DEFAULT_PORT, None)
            .map_err(|cause| EndpointError::Address { given: task.bind.clone(), cause })?;
        if key.is_none() && !is_closed(wanted.ip(), lab) {
            return Err(EndpointError::KeyNeeded { address: wanted });
        }
        let listener = TcpListener::bind(wanted).map_err(EndpointError::binding(wanted))?;
        let address = listener.local_addr().map_err(EndpointError::system("reading the bound address"))?;
        // A client may hang up between poll and accept; then accept must not wait for the next one.
        listener.set_nonblocking(true).map_err(EndpointError::system("making the listener non-blocking"))?;
        Ok(Self { listener, address, shared: Arc::new(Shared::new(task.limits.clone(), key, lab)?), once: false })
    }

    /// Has it end by itself after its first session: when no session has run for a second. Failed handshakes are no sessions.
    #[must_use]
    pub fn once(self) -> Self {
        Self { once: true, ..self }
    }

    /// Where clients connect to: with port 0 asked for, the one that the system chose.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    pub fn sessions(&self) -> u32 {
        self.shared.sessions.load(Ordering::Acquire)
    }

    /// Serves until `stop`, or after the first session ([`Endpoint::once`]), then ends all sessions and returns. Between events it
    /// sleeps in poll(2). Errors: [`EndpointError::System`] when waiting for clients fails. What a client does never ends it.
    pub fn serve(&self, stop: &Stop) -> Result<(), EndpointError> {
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        let mut handshakes = Handshakes::default();
        let outcome = loop {
            let ready = match self.wait(&handshakes, stop) {
                Ok(Some(ready)) => ready,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            threads.retain(|thread| !thread.is_finished());
            // Before anybody new: who has answered meanwhile is not pushed out by who just came.
            for client in handshakes.hear(&ready.pending) {
                threads.extend(self.begin(client, stop));
            }
            handshakes.expire();
            if ready.listener {
                self.accept(&mut handshakes);
            }
        };
        stop.stop();
        for thread in threads {
            // A session that panicked has ended too.
            let _ = thread.join();
        }
        outcome
    }

    /// Waits for clients; absent when the server is to end.
    fn wait(&self, handshakes: &Handshakes, stop: &Stop) -> Result<Option<Readiness>, EndpointError> {
        loop {
            if stop.is_stopped() {
                return Ok(None);
            }
            let mut waiting = vec![
                PollFd::new(self.listener.as_fd(), PollFlags::POLLIN),
                PollFd::new(stop.as_fd(), PollFlags::POLLIN),
            ];
            waiting.extend(handshakes.waiting());
            // One millisecond more, because poll cuts the rest of one off.
            let patience = handshakes.patience().map(|left| PollTimeout::try_from(left + Duration::from_millis(1)));
            match poll(&mut waiting, patience.map_or(PollTimeout::NONE, |left| left.unwrap_or(PollTimeout::MAX))) {
                Ok(_) => {
                    let any = |fd: &PollFd<'_>| fd.any().unwrap_or(false);
                    let [listener, stopping, pending @ ..] = waiting.as_slice() else { continue };
                    if !any(stopping) {
                        let pending = pending.iter().map(any).collect();
                        return Ok(Some(Readiness { listener: any(listener), pending }));
                    }
                }
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(EndpointError::system("waiting for clients")(errno)),
            }
        }
    }

    fn accept(&self, handshakes: &mut Handshakes) {
        match self.listener.accept() {
            Ok((stream, peer)) => {
                // Without random numbers there is no hello, and the connection is hung up on.
                if let Ok(machine) = session::machine(true, &self.shared) {
                    handshakes.admit(stream, peer, machine);
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => {
                if !handshakes.drop_oldest() {
                    std::thread::sleep(REST);
                }
            }
        }
    }

    fn begin(&self, client: PendingClient, stop: &Stop) -> Option<JoinHandle<()>> {
        let Some(slot) = SessionSlot::take(&self.shared) else {
            let most = self.shared.limits.max_sessions;
            let reason = format!("it has its {most} sessions already: wait, or raise its --max-sessions");
            client.refuse(RefuseCode::Busy, &reason);
            return None;
        };
        let (shared, stop, once) = (Arc::clone(&self.shared), stop.clone(), self.once);
        let thread = std::thread::Builder::new().name("session".to_owned()).stack_size(STACK_BYTES);
        let run = move || {
            session::run_client(client, &shared, &stop);
            drop(slot);
            if once && shared.stays_idle(&stop) {
                stop.stop();
            }
        };
        // Without a thread for it the connection is dropped, which hangs up.
        thread.spawn(run).ok()
    }
}

/// What poll(2) found.
struct Readiness {
    listener: bool,
    /// Of each pending client.
    pending: Vec<bool>,
}
