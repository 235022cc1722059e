//! The thread that runs timers and takes frames while no thread of the program does.

use super::listed::connections;
use super::socket::{Handle, Socket, state_number};
use super::state::{ROUNDS, State, lock};
use crate::{descriptor, kernel, page, table, thread, time};
use libc::{POLLIN, pollfd};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use user_stack::Engine;

/// The most rounds of frames in one hold of the lock.
const MOST_ROUNDS: u32 = 16;
/// How long it sleeps while threads of the program poll, ns.
const TICK_NS: u64 = 1_000_000;
/// The same after they have done so for a while. When they then compute, frames wait no longer than this. Each look
/// takes the CPU from a thread that spins, also from a real-time one (the fair server): tens of µs, so they are rare.
const MOST_TICK_NS: u64 = 50_000_000;
/// How often the kernel's tables are read again, ns.
const REFRESH_NS: u64 = 1_000_000_000;
/// How often connections of the kernel that are over are forgotten, ns.
const FORGET_NS: u64 = 10_000_000_000;
/// How often the status page is written while anything happens, and while nothing does, ns.
const SHOW_NS: u64 = 100_000_000;
const SHOW_IDLE_NS: u64 = 10 * SHOW_NS;

static RUNS: AtomicBool = AtomicBool::new(false);
/// Its eventfd; -1: none.
static WAKE_FD: AtomicI32 = AtomicI32::new(-1);

/// Ends its sleep: it holds the interface's descriptors as long.
pub(super) fn wake() {
    let wake_fd = WAKE_FD.load(Relaxed);
    if wake_fd >= 0 {
        kernel::wake(wake_fd);
    }
}

pub(super) fn start() {
    if RUNS.swap(true, Relaxed) {
        return;
    }
    WAKE_FD.store(descriptor::wake_fd(), Relaxed);
    // SAFETY: sets of signals of this thread: all blocked while the new thread inherits them, then as before.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        // Without it timers run when the program calls.
        let _ = std::thread::Builder::new().name("windhover".to_owned()).stack_size(256 << 10).spawn(run);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
    }
}

/// A forked child has none.
pub(super) fn forked() {
    RUNS.store(false, Relaxed);
    let wake_fd = WAKE_FD.swap(-1, Relaxed);
    if wake_fd >= 0 {
        descriptor::close(wake_fd);
    }
}

fn run() {
    thread::widen();
    // Its socket is none of the program's.
    thread::enter_stack();
    let refresh = user_stack::Refresh::open().ok();
    thread::leave_stack();
    if let Some(refresh) = &refresh {
        table::open(refresh.descriptor(), table::OWN);
    }
    let (mut seen, mut tick) = (0, TICK_NS);
    let (mut refreshed, mut forgot, mut shown) = (time::now_ns(), time::now_ns(), 0);
    // Something has happened since the status page was written.
    let mut is_stale = true;
    let mut fds = Vec::new();
    loop {
        let now = time::now_ns();
        let rounds = ROUNDS.load(Relaxed);
        let is_idle = rounds == seen;
        is_stale |= !is_idle;
        if now - shown >= SHOW_NS {
            (shown, is_stale) = (now, false);
            let mut state = lock();
            state.sweep();
            state.show();
            drop(state);
            super::capture::look();
        }
        if now - refreshed >= REFRESH_NS {
            refreshed = now;
            // Its answers come without the lock: calls of the program do not wait for them.
            let known = lock().engine.as_ref().map(user_stack::Engine::known);
            if let (Some(known), Some(refresh)) = (known, &refresh) {
                let answers = refresh.ask(&known);
                if let Some(engine) = &mut lock().engine {
                    engine.refreshed(answers);
                }
            }
        }
        if now - forgot >= FORGET_NS {
            forgot = now;
            forget();
        }
        if !is_idle {
            seen = rounds;
            kernel::poll(&mut [], tick);
            tick = (tick * 2).min(MOST_TICK_NS);
            continue;
        }
        tick = TICK_NS;
        // Nobody polled for a tick.
        let asked = |fd| pollfd { fd, events: POLLIN, revents: 0 };
        fds.clear();
        fds.push(asked(WAKE_FD.load(Relaxed)));
        let timer = {
            let mut state = lock();
            if let Some(engine) = &mut state.engine {
                // A flood of frames does not keep the lock.
                is_stale |= (0..MOST_ROUNDS).take_while(|_| engine.poll()).count() > 0;
            }
            state.dispatch();
            fds.extend(state.descriptors.iter().map(|fd| asked(*fd)));
            state.next_timer()
        };
        let show = shown + if is_stale { SHOW_NS } else { SHOW_IDLE_NS };
        let until = timer.min(refreshed + REFRESH_NS).min(show);
        kernel::poll(&mut fds, until.saturating_sub(time::now_ns()));
        if let Some(wake_fd) = fds.first().filter(|wake_fd| wake_fd.revents != 0) {
            kernel::take_wake(wake_fd.fd);
        }
        // Whoever sleeps for these frames gets them first.
        kernel::poll(&mut [], TICK_NS / 20);
    }
}

/// Forgets connections that the kernel had and that are over. Its tables are read without the lock; what comes meanwhile is not looked for.
fn forget() {
    let listed = lock().engine.as_ref().map(Engine::detached).unwrap_or_default();
    if listed.is_empty() {
        return;
    }
    let living: HashSet<_> = connections().iter().map(|one| (one.local, one.remote)).collect();
    if let Some(engine) = &mut lock().engine {
        let over = listed.into_iter().filter(|ends| !living.contains(ends));
        over.for_each(|(local, remote)| engine.forget_detached(local, remote));
    }
}

impl State {
    /// Writes what is known of each connection to the status page.
    fn show(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        page::show_engine(engine);
        for socket in self.sockets.all().map(|(_, socket)| socket) {
            show_socket(engine, socket);
        }
    }

    /// The same of one. A new one is shown at once: whoever outlives the process has to know of it.
    pub(super) fn show_one(&mut self, id: u32) {
        if let Some((engine, socket)) = self.both(id) {
            show_socket(engine, socket);
        }
    }
}

fn show_socket(engine: &mut Engine, socket: &Socket) {
    if let (Handle::Tcp(handle), Some(record)) = (socket.handle, socket.record)
        && let Ok(info) = engine.stack().tcp_info(handle)
    {
        page::show_connection(record, state_number(info.state), socket.ends, &info);
    }
}
