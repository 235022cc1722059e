//! Waits for the stack: spins, then sleeps on the interface, the thread's eventfd and the kernel's socket.

use super::socket::Socket;
use super::state::{State, Waiter, Wakes, lock};
use crate::spin::{Call, Spun};
use crate::table::{self, Entry};
use crate::thread::{self, Handled};
use crate::{descriptor, errno, kernel, real, time};
use bypass_abi::page::Outcome;
use descriptors::Visit;
use libc::{POLLIN, c_int, pollfd, sigset_t};
use std::cell::Cell;

thread_local! {
    /// An eventfd of the thread, made when it first sleeps; closed when the thread ends.
    static WAKE_FD: Cell<c_int> = const { Cell::new(-1) };
}

/// Entries of a sleep that are kept on the stack; more need memory.
const FEW: usize = 64;

/// In the place of an error number: another has to be asked from now on, the kernel or the stack.
pub(super) const CARRIER_CHANGED: c_int = -1;

pub(super) enum Waited<T> {
    Done(T),
    Interrupted,
    TimedOut,
}

#[derive(Clone, Copy)]
pub(super) struct For<'a> {
    pub(super) wakes: Wakes,
    /// Whether it spins before it sleeps.
    pub(super) spins: bool,
    /// The kernel's descriptors beside.
    pub(super) kernel: &'a [pollfd],
    /// Signal mask of the call; null: none of its own.
    pub(super) mask: *const sigset_t,
    /// ns; `u64::MAX`: without end.
    pub(super) timeout_ns: u64,
    /// Also handlers with SA_RESTART end it.
    pub(super) by_any_signal: bool,
}

impl<'a> For<'a> {
    /// One socket, with its own time-out.
    pub(super) fn one(socket: u32, kernel: &'a [pollfd], timeout_ns: u64) -> Self {
        let by_any_signal = timeout_ns != u64::MAX;
        Self { wakes: Wakes::One(socket), spins: true, kernel, mask: std::ptr::null(), timeout_ns, by_any_signal }
    }
}

fn wake_fd() -> c_int {
    WAKE_FD.with(|wake_fd| {
        if wake_fd.get() < 0 {
            wake_fd.set(descriptor::wake_fd());
            thread::register();
        }
        wake_fd.get()
    })
}

/// Clears up after a thread that ended, also one that was cancelled in its sleep.
pub(crate) fn ended() {
    let wake_fd = WAKE_FD.with(|wake_fd| wake_fd.replace(-1));
    if wake_fd >= 0 {
        lock().waiters.retain(|waiter| waiter.fd != wake_fd);
        descriptor::close(wake_fd);
    }
}

/// A forked child shares its parent's eventfds: it makes its own.
pub(super) fn forked() {
    let shared = WAKE_FD.with(|wake_fd| wake_fd.replace(-1));
    if shared >= 0 {
        descriptor::close(shared);
    }
}

/// Repeats `attempt`, first spinning, then between sleeps. Its argument: ask the kernel's descriptors in any case.
#[inline(always)]
pub(super) fn wait<T>(call: &Call, what: &For<'_>, mut attempt: impl FnMut(bool) -> Option<T>) -> Waited<T> {
    let began = time::now_ns();
    let spun = if what.spins { call.spin(what.timeout_ns, what.by_any_signal, || attempt(false)) } else { Spun::Spent };
    match spun {
        Spun::Found(found) => return Waited::Done(found),
        Spun::Interrupted => return Waited::Interrupted,
        Spun::TimedOut => return Waited::TimedOut,
        Spun::Spent | Spun::Closed => {}
    }
    sleep(what, call.handled, began, attempt)
}

#[cold]
#[inline(never)]
fn sleep<T>(what: &For<'_>, handled: Handled, began: u64, mut attempt: impl FnMut(bool) -> Option<T>) -> Waited<T> {
    let wake_fd = wake_fd();
    let none = pollfd { fd: -1, events: POLLIN, revents: 0 };
    let mut few = [none; FEW];
    let mut many = Vec::new();
    loop {
        let (used, timer) = {
            let mut state = lock();
            state.waiters.push(Waiter { fd: wake_fd, wakes: what.wakes, is_woken: false });
            // Who waits for the kernel's sockets takes no frames.
            let is_kernels = what.wakes == Wakes::Turns;
            let interface = if is_kernels { &[][..] } else { &state.descriptors };
            let used = 1 + interface.len() + what.kernel.len();
            if used > FEW {
                many.resize(used, none);
            }
            let fds = if used > FEW { &mut many[..] } else { &mut few[..] };
            let own = interface.iter().map(|fd| pollfd { fd: *fd, ..none });
            let all = std::iter::once(pollfd { fd: wake_fd, ..none }).chain(own).chain(what.kernel.iter().copied());
            fds.iter_mut().zip(all).for_each(|(slot, one)| *slot = one);
            (used, if is_kernels { u64::MAX } else { state.next_timer() })
        };
        let fds = if used > FEW { &mut many[..used] } else { &mut few[..used] };
        // What came since the last attempt woke no thread.
        let found = attempt(true);
        let now = time::now_ns();
        let rest = match what.timeout_ns {
            u64::MAX => u64::MAX,
            timeout => timeout.saturating_sub(now.saturating_sub(began)),
        };
        let (mut slept, mut error) = (0, 0);
        if found.is_none() && rest > 0 {
            let time = crate::time::to_timespec(rest.min(timer.saturating_sub(now)).min(MOST_NS));
            // SAFETY: entries, a time and the caller's mask.
            slept = unsafe { real::ppoll.get()(fds.as_mut_ptr(), fds.len() as _, &raw const time, what.mask) };
            error = errno::get();
            thread::slept();
        }
        lock().waiters.retain(|waiter| waiter.fd != wake_fd);
        if fds.first().is_some_and(|wake_fd| wake_fd.revents != 0) {
            kernel::take_wake(wake_fd);
        }
        if let Some(found) = found.or_else(|| attempt(true)) {
            return Waited::Done(found);
        }
        // ppoll ends with any handler; a receive call goes on after one with SA_RESTART.
        let is_interrupted = slept < 0 && error == libc::EINTR && what.by_any_signal;
        if is_interrupted || handled.interrupted(what.by_any_signal) {
            return Waited::Interrupted;
        }
        if rest == 0 {
            return Waited::TimedOut;
        }
    }
}

/// Makes a call of one socket: an attempt, and then waiting, where it waits. `kernel` are the kernel's descriptors beside.
#[inline(always)]
pub(super) fn attempt_or_wait<T>(
    call: &Call,
    (id, waits): (u32, bool),
    timeout_ns: fn(&Socket) -> u64,
    kernel: &[pollfd],
    mut attempt: impl FnMut(bool) -> Option<Result<T, c_int>>,
) -> Waited<Result<T, c_int>> {
    match attempt(false) {
        Some(result) => {
            // One that is closed, or the kernel's again, had none.
            if !matches!(result, Err(libc::EBADF)) {
                call.count(Outcome::Ready);
            }
            Waited::Done(result)
        }
        None if !waits => Waited::Done(Err(libc::EAGAIN)),
        None => {
            let timeout_ns = lock().sockets.get(id).map_or(u64::MAX, |socket| timeout_ns(socket));
            wait(call, &For::one(id, kernel, timeout_ns), attempt)
        }
    }
}

/// Waits by the kernel's socket of one that may come to the stack meanwhile. `attempt` does not wait, and has the lock: who closes the
/// number waits for it. Ends with [`CARRIER_CHANGED`] where others have to be asked.
pub(super) fn wait_beside<T>(
    call: &Call,
    (fd, entry): (c_int, &'static Entry),
    timeout_ns: u64,
    attempt: impl Fn() -> Option<Result<T, c_int>>,
) -> Waited<Result<T, c_int>> {
    let kernel = [pollfd { fd, events: POLLIN, revents: 0 }];
    let what = For { wakes: Wakes::Turns, ..For::one(0, &kernel, timeout_ns) };
    let file = entry.file();
    wait(call, &what, |_| {
        let _locked = lock();
        if !entry.has(table::SOCKET) || entry.file() != file {
            return Some(Err(libc::EBADF));
        }
        if !entry.has(table::CANDIDATE) {
            return Some(Err(CARRIER_CHANGED));
        }
        attempt()
    })
}

/// Begins a call of the kernel's socket under the lock: closers of its number wait for it. None: the number was reused.
pub(super) fn visit(entry: &'static Entry, id: u32) -> Option<Visit<'static>> {
    (entry.on_stack() == Some(id)).then(|| thread::begin_visit(entry))
}

/// Whether a call found its socket no longer on the stack because the kernel has it again, and not because it was closed.
pub(super) fn is_kernels_again<T>(waited: &Waited<Result<T, c_int>>, entry: &Entry, file: u32) -> bool {
    matches!(waited, Waited::Done(Err(libc::EBADF)))
        && entry.on_stack().is_none()
        && entry.has(table::SOCKET)
        && entry.file() == file
}

/// The longest sleep without a look around, ns.
const MOST_NS: u64 = 1_000_000_000;

impl State {
    /// When the engine has something to do, ns.
    pub(super) fn next_timer(&self) -> u64 {
        self.engine.as_ref().map_or(u64::MAX, |engine| engine.next_timer().0)
    }
}

/// Ends a call that waited: its result, or -1 and errno. `late` is the error of a time-out.
#[inline(always)]
pub(super) fn finish<T: From<i8>>(waited: Waited<Result<T, c_int>>, before: c_int, late: c_int) -> T {
    let error = match waited {
        Waited::Done(Ok(result)) => {
            errno::set(before);
            return result;
        }
        Waited::Done(Err(error)) => error,
        Waited::Interrupted => libc::EINTR,
        Waited::TimedOut => late,
    };
    errno::set(error);
    T::from(-1)
}

/// Makes a waiting call of several again, for its remaining time, where the carrier changed. None: the kernel's.
pub(super) fn again_where_turned(
    timeout_ns: u64,
    mut call: impl FnMut(u64) -> Option<Waited<Result<c_int, c_int>>>,
) -> Option<c_int> {
    let before = errno::get();
    let began = if matches!(timeout_ns, 0 | u64::MAX) { 0 } else { time::now_ns() };
    let mut rest_ns = timeout_ns;
    loop {
        match call(rest_ns)? {
            Waited::Done(Err(CARRIER_CHANGED)) if timeout_ns == u64::MAX => {}
            Waited::Done(Err(CARRIER_CHANGED)) => {
                rest_ns = timeout_ns.saturating_sub(time::now_ns().saturating_sub(began));
            }
            Waited::TimedOut => return Some(finish(Waited::Done(Ok(0)), before, 0)),
            waited => return Some(finish(waited, before, 0)),
        }
    }
}
