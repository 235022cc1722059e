//! What the receive and send calls of all sockets of the stack have in common.

use super::messages::{Incoming, Outgoing};
use super::state::{State, entry, lock};
use super::wait::{CARRIER_CHANGED, Waited, attempt_or_wait, finish, is_kernels_again, visit, wait_beside};
use super::{datagram, socket::Handle, stream, take};
use crate::spin::Call;
use crate::table::{self, Entry, TABLE};
use crate::{errno, kernel, thread};
use bypass_abi::page::Kind;
use libc::{MSG_DONTWAIT, MSG_WAITALL, POLLIN, c_int, pollfd, ssize_t};
use stack::Error;

/// A receive call on a socket of the stack. `real` is the kernel's call with more flags. None: the kernel carries this socket.
#[inline]
pub(crate) fn receive(fd: c_int, incoming: &mut Incoming<'_>, real: impl Fn(c_int) -> ssize_t) -> Option<ssize_t> {
    let entry = entry(fd)?;
    let before = errno::get();
    let file = entry.file();
    let taken = take::used(fd, entry);
    if entry.file() != file {
        // While this waited, or in a handler, the number became another's: the call is of the socket that it had.
        errno::set(libc::EBADF);
        return Some(-1);
    }
    let Some(id) = taken else {
        return receive_beside(fd, entry, incoming, real);
    };
    let nonblocking = entry.has(table::NONBLOCK) || incoming.flags & MSG_DONTWAIT != 0;
    if nonblocking {
        // Such a call returns what is there, also with MSG_WAITALL.
        incoming.flags = incoming.flags & !MSG_WAITALL | MSG_DONTWAIT;
    }
    let call = Call::new(Kind::Recv, Some(entry));
    let mut done = 0;
    let attempt = |asks| receive_once(entry, id, incoming, &mut done, asks, &real);
    // The kernel's socket of a connection brings nothing.
    let kernel = [pollfd { fd: if entry.has(table::STREAM) { -1 } else { fd }, events: POLLIN, revents: 0 }];
    let waited = attempt_or_wait(&call, (id, !nonblocking), |socket| socket.receive_ns, &kernel, attempt);
    // What a call with MSG_WAITALL has got so far is its result; also where the kernel has the rest.
    if done > 0 && (!matches!(waited, Waited::Done(_)) || is_kernels_again(&waited, entry, file)) {
        errno::set(before);
        return Some(done.cast_signed());
    }
    if is_kernels_again(&waited, entry, file) {
        return receive(fd, incoming, real);
    }
    Some(finish(waited, before, libc::EAGAIN))
}

/// The same of a socket that may come to the stack, by a call of another thread.
#[cold]
fn receive_beside(
    fd: c_int,
    entry: &'static Entry,
    incoming: &mut Incoming<'_>,
    real: impl Fn(c_int) -> ssize_t,
) -> Option<ssize_t> {
    let nonblocking = entry.has(table::NONBLOCK) || incoming.flags & MSG_DONTWAIT != 0;
    if !entry.has(table::CANDIDATE) || nonblocking || TABLE.has_left() {
        return None;
    }
    let before = errno::get();
    let call = Call::new(Kind::Recv, Some(entry));
    let attempt = || match real(MSG_DONTWAIT) {
        got @ 0.. => Some(Ok(got)),
        _ => Some(errno::get()).filter(|error| *error != libc::EAGAIN).map(Err),
    };
    match wait_beside(&call, (fd, entry), kernel::timeout_ns(fd, libc::SO_RCVTIMEO), attempt) {
        Waited::Done(Err(CARRIER_CHANGED)) => receive(fd, incoming, real),
        waited => {
            incoming.is_kernels = true;
            Some(finish(waited, before, libc::EAGAIN))
        }
    }
}

/// An attempt: the result, or none where the call has to wait. `done`: bytes that it has got already.
#[inline]
fn receive_once(
    entry: &'static Entry,
    id: u32,
    incoming: &mut Incoming<'_>,
    done: &mut usize,
    asks: bool,
    real: &impl Fn(c_int) -> ssize_t,
) -> Option<Result<ssize_t, c_int>> {
    let mut locked = lock();
    let state = &mut *locked;
    let mut taken = take_bytes(state, id, incoming, done);
    if taken.is_none() && state.poll() {
        taken = take_bytes(state, id, incoming, done);
    }
    if taken.is_some() {
        return taken;
    }
    let hint = state.hint;
    let asks = match state.sockets.get(id) {
        Some(socket) => matches!(socket.handle, Handle::Udp(_)) && (socket.asks_kernel(hint) || asks),
        None => return Some(Err(libc::EBADF)),
    };
    if !asks {
        return None;
    }
    let visit = visit(entry, id)?;
    drop(locked);
    let got = real(MSG_DONTWAIT);
    thread::end_visit(visit);
    if got >= 0 {
        incoming.is_kernels = true;
        if let Some(socket) = lock().sockets.get(id) {
            // There may be more.
            socket.kernel_in = 0;
        }
        return Some(Ok(got));
    }
    Some(errno::get()).filter(|error| *error != libc::EAGAIN).map(Err)
}

#[inline]
fn take_bytes(
    state: &mut State,
    id: u32,
    incoming: &mut Incoming<'_>,
    done: &mut usize,
) -> Option<Result<ssize_t, c_int>> {
    let Some((engine, socket)) = state.both(id) else { return Some(Err(libc::EBADF)) };
    let taken = match socket.handle {
        Handle::Udp(handle) => datagram::receive(engine, handle, (socket.is_v6, socket.wanted), incoming),
        Handle::Tcp(handle) => stream::receive(engine, handle, incoming, (done, socket.least)),
        Handle::Listener(_) => Err(Error::NotConnected),
    };
    match taken {
        Ok(length) => Some(Ok(length.cast_signed())),
        Err(Error::WouldBlock) => None,
        Err(error) => Some(Err(error.errno())),
    }
}

/// A send call on a socket of the stack. None: the kernel carries it.
#[inline]
pub(crate) fn send(fd: c_int, outgoing: &Outgoing<'_>) -> Option<ssize_t> {
    let entry = entry(fd)?;
    if entry.has(table::STREAM) {
        let Some(id) = entry.on_stack() else {
            take::left(entry);
            return None;
        };
        return stream::send((fd, entry), id, outgoing);
    }
    if outgoing.has_name && outgoing.to.is_none() {
        return None;
    }
    let id = take::sends(fd, entry, outgoing.to)?;
    datagram::send(entry, id, outgoing)
}
