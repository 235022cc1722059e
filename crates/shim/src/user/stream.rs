//! Connections and listeners.

use super::address::{self, NameBuffer};
use super::copied::tcp_options;
use super::messages::{Incoming, Outgoing};
use super::quiet::quiet;
use super::release::give_back;
use super::socket::{Handle, Socket};
use super::state::{Not, State, entry, lock};
use super::take::{self, elsewhere};
use super::wait::{CARRIER_CHANGED, For, Waited, attempt_or_wait, finish, is_kernels_again, visit, wait, wait_beside};
use crate::spin::Call;
use crate::table::{self, Entry, TABLE};
use crate::{errno, kernel, page, real, thread};
use bypass_abi::page::{Kind, Reason};
use libc::{
    MSG_DONTWAIT, MSG_MORE, MSG_NOSIGNAL, MSG_OOB, MSG_PEEK, MSG_TRUNC, MSG_WAITALL, POLLIN, SOCK_CLOEXEC,
    SOCK_NONBLOCK, c_int, pollfd, sockaddr, socklen_t, ssize_t,
};
use stack::{Error, Listener, Shutdown, TcpSocket};
use user_stack::{Engine, EngineError, Route};
use xsk::Backend;

/// Receives bytes. `done`: how many a call that waits for more has got before; `least`: how many it waits for without MSG_WAITALL.
#[inline]
pub(super) fn receive(
    engine: &mut Engine,
    socket: TcpSocket,
    incoming: &mut Incoming<'_>,
    (done, least): (&mut usize, usize),
) -> Result<usize, Error> {
    if incoming.flags & MSG_OOB != 0 {
        return Err(Error::InvalidArgument);
    }
    let room = incoming.room();
    if room == 0 {
        return Ok(0);
    }
    let target = match incoming.flags & (MSG_DONTWAIT | MSG_WAITALL) {
        0 => least.min(room),
        MSG_WAITALL => room,
        _ => 1,
    };
    let (first, second) = match engine.stack().tcp_received(socket) {
        // The error or the end comes with the next call.
        Err(error) if error != Error::WouldBlock && *done > 0 => return Ok(*done),
        result => result?,
    };
    let is_end = first.is_empty() && second.is_empty();
    let copied = if incoming.flags & MSG_TRUNC != 0 {
        (first.len() + second.len()).min(room - *done)
    } else {
        let copied = incoming.fill(*done, first);
        copied + if copied == first.len() { incoming.fill(*done + copied, second) } else { 0 }
    };
    if incoming.flags & MSG_PEEK != 0 {
        return if is_end || copied >= target { Ok(copied) } else { Err(Error::WouldBlock) };
    }
    engine.stack().tcp_consume(socket, copied)?;
    engine.flush();
    *done += copied;
    if is_end || *done >= target { Ok(*done) } else { Err(Error::WouldBlock) }
}

/// Sends bytes. None: the kernel has the connection by now.
pub(super) fn send((fd, entry): (c_int, &'static Entry), id: u32, outgoing: &Outgoing<'_>) -> Option<ssize_t> {
    let (before, file) = (errno::get(), entry.file());
    let total = outgoing.length();
    let (mut done, mut is_woken) = (0, true);
    let nonblocking = entry.has(table::NONBLOCK) || outgoing.flags & MSG_DONTWAIT != 0;
    let mut attempt = || -> Option<Result<ssize_t, c_int>> {
        let mut locked = lock();
        if !std::mem::take(&mut is_woken) {
            locked.poll();
        }
        let Some((engine, socket)) = locked.both(id) else { return Some(Err(libc::EBADF)) };
        let Handle::Tcp(handle) = socket.handle else { return Some(Err(libc::ENOTCONN)) };
        let pushed = push(engine, handle, outgoing, &mut done);
        engine.flush();
        match pushed {
            Ok(()) if done == total => Some(Ok(done.cast_signed())),
            Ok(()) | Err(Error::WouldBlock) if nonblocking && done > 0 => Some(Ok(done.cast_signed())),
            Ok(()) | Err(Error::WouldBlock) => None,
            Err(_) if done > 0 => Some(Ok(done.cast_signed())),
            Err(error) => Some(Err(error.errno())),
        }
    };
    let call = Call::new(Kind::Send, Some(entry));
    let waited = attempt_or_wait(&call, (id, !nonblocking), |socket| socket.send_ns, &[], |_| attempt());
    if done > 0 && !matches!(waited, Waited::Done(_)) {
        errno::set(before);
        return Some(done.cast_signed());
    }
    if is_kernels_again(&waited, entry, file) {
        return if done > 0 { Some(send_rest(fd, outgoing, done)) } else { None };
    }
    if matches!(waited, Waited::Done(Err(libc::EPIPE))) && outgoing.flags & MSG_NOSIGNAL == 0 {
        kernel::raise_pipe();
    }
    Some(finish(waited, before, libc::EAGAIN))
}

/// Sends what is left of a message, which the kernel carries by now; how much was sent with what the stack took.
#[cold]
fn send_rest(fd: c_int, outgoing: &Outgoing<'_>, mut done: usize) -> ssize_t {
    let mut skip = done;
    for bytes in outgoing.parts() {
        let mut rest = bytes.get(skip..).unwrap_or_default();
        skip = skip.saturating_sub(bytes.len());
        while !rest.is_empty() {
            // SAFETY: this many bytes are there.
            let sent = unsafe { real::send.get()(fd, rest.as_ptr().cast(), rest.len(), outgoing.flags) };
            let Ok(sent) = usize::try_from(sent) else { return done.cast_signed() };
            done += sent;
            rest = rest.get(sent..).unwrap_or_default();
        }
    }
    done.cast_signed()
}

/// Hands over what there is room for.
fn push(engine: &mut Engine, socket: TcpSocket, outgoing: &Outgoing<'_>, done: &mut usize) -> Result<(), Error> {
    let mut skip = *done;
    let mut is_empty = true;
    for bytes in outgoing.parts() {
        if skip >= bytes.len() {
            skip -= bytes.len();
            continue;
        }
        is_empty = false;
        let rest = &bytes[skip..];
        skip = 0;
        let taken = engine.stack().tcp_send(socket, rest, outgoing.flags & MSG_MORE != 0)?;
        *done += taken;
        if taken < rest.len() {
            return Err(Error::WouldBlock);
        }
    }
    if is_empty && *done == 0 {
        // Nothing to send: only whether it could be.
        let _ = engine.stack().tcp_send(socket, &[], false)?;
    }
    if outgoing.flags & MSG_OOB != 0 {
        engine.stack().tcp_mark_urgent(socket)?;
    }
    Ok(())
}

/// connect of a stream socket. None: the kernel connects it.
pub(crate) unsafe fn connect(fd: c_int, to: *const sockaddr, size: socklen_t) -> Option<c_int> {
    let entry = table::entry(fd).filter(|entry| entry.has(table::SOCKET | table::STREAM))?;
    if thread::is_in_stack() {
        return None;
    }
    // SAFETY: the caller's promise: an address of this size.
    let remote = unsafe { address::read(to, size) }?;
    let before = errno::get();
    let call = Call::new(Kind::Connect, Some(entry));
    let mut locked = lock();
    let state = &mut *locked;
    let is_again = entry.on_stack().is_some();
    let known = match entry.on_stack() {
        Some(id) => match again(state, fd, entry, id) {
            Ok(()) => Some(id),
            Err(Some(error)) => {
                errno::set(error);
                return Some(-1);
            }
            Err(None) => None,
        },
        None => None,
    };
    let is_new = known.is_none();
    let id = match known {
        Some(id) => id,
        None => match begin(state, fd, entry, remote) {
            Ok(id) => id,
            Err(Some(error)) => return Some(finish(Waited::Done(Err::<c_int, _>(error)), before, 0)),
            Err(None) => {
                if is_again && state.engine.as_ref().is_some_and(|engine| engine.backend() == Backend::Packet) {
                    // It listens since the connection before, and hears nothing: see below.
                    kernel::detach_filter(fd);
                    kernel::shut_down(fd, libc::SHUT_RD);
                }
                return None;
            }
        },
    };
    drop(locked);
    let attempt = || {
        let mut state = lock();
        state.poll();
        connected(&mut state, id)
    };
    // One that does not wait learns the result by the next call, also where it is there already.
    if entry.has(table::NONBLOCK) && is_new {
        errno::set(libc::EINPROGRESS);
        return Some(-1);
    }
    if let Some(result) = attempt() {
        return Some(finish(Waited::Done(result), before, 0));
    }
    let timeout_ns = lock().sockets.get(id).map_or(u64::MAX, |socket| socket.send_ns);
    Some(finish(wait(&call, &For::one(id, &[], timeout_ns), |_| attempt()), before, libc::EINPROGRESS))
}

/// How a connection that was begun ended, once.
fn connected(state: &mut State, id: u32) -> Option<Result<c_int, c_int>> {
    // Another thread closed it.
    let Some((engine, socket)) = state.both(id) else { return Some(Err(libc::EBADF)) };
    let Handle::Tcp(handle) = socket.handle else { return None };
    let Ok(ready) = engine.stack().tcp_readiness(handle) else { return Some(Err(libc::EBADF)) };
    if !ready.writable && !ready.error && !ready.hang_up {
        return None;
    }
    socket.is_connecting = false;
    match engine.stack().tcp_take_error(handle) {
        Ok(Some(error)) => Some(Err(error.errno())),
        Ok(None) if ready.hang_up => Some(Err(libc::ECONNREFUSED)),
        _ => Some(Ok(0)),
    }
}

/// connect of a socket that is connected, or was to be: `Err(None)` where a new connection may begin.
fn again(state: &mut State, fd: c_int, entry: &'static Entry, id: u32) -> Result<(), Option<c_int>> {
    let Some((engine, socket)) = state.both(id) else { return Err(Some(libc::EBADF)) };
    let Handle::Tcp(handle) = socket.handle else { return Err(Some(libc::EISCONN)) };
    let Ok(ready) = engine.stack().tcp_readiness(handle) else { return Err(Some(libc::EBADF)) };
    match engine.stack().tcp_take_error(handle) {
        Ok(Some(error)) => Err(Some(error.errno())),
        _ if ready.hang_up => {
            give_back(state, fd, id, 0, 0);
            Err(None)
        }
        _ if ready.writable || !socket.is_connecting => {
            let was = std::mem::take(&mut socket.is_connecting);
            if was { Ok(()) } else { Err(Some(libc::EISCONN)) }
        }
        _ if entry.has(table::NONBLOCK) => Err(Some(libc::EALREADY)),
        _ => Ok(()),
    }
}

/// Begins a connection; an error, or none where the kernel has to connect.
fn begin(
    state: &mut State,
    fd: c_int,
    entry: &'static Entry,
    remote: std::net::SocketAddr,
) -> Result<u32, Option<c_int>> {
    let not = |not: Not| {
        if let Not::Ever(reason) = not {
            page::fall_back(Some(entry), reason);
        }
        None
    };
    // Another thread may have closed it meanwhile.
    if entry.has_any(table::LISTENS | table::UNKNOWN_OPTION) || !entry.has(table::SOCKET) {
        return Err(None);
    }
    let is_v6 = entry.has(table::IPV6);
    let engine = state.engine().map_err(not)?;
    let interface = engine.interface().index;
    let Some(remote) = address::on_link(remote, interface) else { return Err(not(Not::Ever(Reason::Route))) };
    if engine.route(remote.ip()) == Route::Elsewhere {
        return Err(not(Not::Ever(elsewhere(engine, remote.ip()))));
    }
    if !address::is_on_link(fd, interface) {
        return Err(not(Not::Ever(Reason::OtherInterface)));
    }
    // One that the kernel has connected, or has begun to.
    if address::of_peer(fd).is_some() {
        return Err(None);
    }
    let own = || address::of_socket(fd).and_then(|local| address::on_link(local, interface)).ok_or(None);
    let mut local = own()?;
    if local.port() == 0 {
        let source = engine.source_for(remote.ip()).ok_or(None)?;
        if !address::bind(fd, std::net::SocketAddr::new(source, 0), is_v6, interface) {
            return Err(None);
        }
        local = own()?;
    }
    if local.ip().is_unspecified() {
        local.set_ip(engine.source_for(remote.ip()).ok_or(None)?);
    }
    if !engine.has_address(local.ip()) {
        return Err(not(Not::Ever(Reason::OtherInterface)));
    }
    if engine.hold(local.port()).is_err() {
        // AF_PACKET has room for few ports: those of connections that are over by now are free.
        state.sweep();
        let served = state.engine().map_err(not)?.hold(local.port());
        served.map_err(|_| not(Not::Ever(Reason::TooManySockets)))?;
    }
    let engine = state.engine().map_err(not)?;
    if engine.backend() == Backend::Packet {
        // The kernel sees the frames too: one that listens, and hears nothing, sends no resets.
        if let Err(refused) = quiet(engine, fd, true) {
            engine.withdraw(local.port());
            return Err(not(refused));
        }
        // SAFETY: takes numbers only.
        unsafe { real::listen.get()(fd, 1) };
    }
    let handle = match engine.connect(local, remote, tcp_options(fd, is_v6)) {
        Ok(handle) => handle,
        Err(error) => {
            engine.withdraw(local.port());
            let EngineError::Socket(error) = error else { return Err(not(Not::Ever(Reason::TooManySockets))) };
            return Err(Some(error.errno()));
        }
    };
    engine.flush();
    let mut socket = Socket::of_kernels(fd, Handle::Tcp(handle), local.port(), is_v6);
    socket.is_connecting = true;
    socket.ends = Some((local, remote));
    state.dispatch();
    let id = state.keep(entry, socket).map_err(not)?;
    state.came(id, entry);
    Ok(id)
}

/// accept. None: the kernel's.
pub(crate) fn accept(fd: c_int, from: NameBuffer, flags: c_int) -> Option<c_int> {
    let entry = entry(fd).filter(|entry| entry.has(table::STREAM))?;
    let Some(id) = take::used(fd, entry) else {
        return accept_beside((fd, entry), from, flags);
    };
    let (before, file) = (errno::get(), entry.file());
    let call = Call::new(Kind::Accept, Some(entry));
    let attempt = |asks| accept_once((fd, entry), id, from, flags, asks);
    let kernel = [pollfd { fd, events: POLLIN, revents: 0 }];
    let waits = !entry.has(table::NONBLOCK);
    let waited = attempt_or_wait(&call, (id, waits), |socket| socket.receive_ns, &kernel, attempt);
    if is_kernels_again(&waited, entry, file) {
        return accept(fd, from, flags);
    }
    Some(finish(waited, before, libc::EAGAIN))
}

/// accept of a listener that may come to the stack. None: the kernel's.
fn accept_beside((fd, entry): (c_int, &'static Entry), from: NameBuffer, flags: c_int) -> Option<c_int> {
    if !entry.has(table::CANDIDATE) || entry.has(table::NONBLOCK) || TABLE.has_left() {
        return None;
    }
    let before = errno::get();
    let call = Call::new(Kind::Accept, Some(entry));
    let timeout_ns = kernel::timeout_ns(fd, libc::SO_RCVTIMEO);
    let attempt = || accept_in_kernel(fd, from, flags).filter(|got| *got != Err(libc::EAGAIN));
    match wait_beside(&call, (fd, entry), timeout_ns, attempt) {
        Waited::Done(Err(CARRIER_CHANGED)) => accept(fd, from, flags),
        waited => {
            if let Waited::Done(Ok(new)) = waited {
                table::accepted(fd, new, flags);
            }
            Some(finish(waited, before, libc::EAGAIN))
        }
    }
}

fn accept_once(
    (fd, entry): (c_int, &'static Entry),
    id: u32,
    from: NameBuffer,
    flags: c_int,
    asks: bool,
) -> Option<Result<c_int, c_int>> {
    let mut locked = lock();
    locked.poll();
    let hint = locked.hint;
    let Some((engine, socket)) = locked.both(id) else { return Some(Err(libc::EBADF)) };
    let Handle::Listener(listener) = socket.handle else { return Some(Err(libc::EINVAL)) };
    if engine.stack().listener_readiness(listener).is_ok_and(|ready| ready.readable) {
        return Some(accept_on_stack(&mut locked, id, listener, from, flags));
    }
    let asks = socket.asks_kernel(hint) || asks;
    // Two threads could both find one connection; the second would then wait for the next of the kernel's alone.
    if !asks || socket.is_asked {
        return None;
    }
    socket.is_asked = true;
    let visit = visit(entry, id);
    drop(locked);
    let got = if visit.is_some() { accept_in_kernel(fd, from, flags) } else { None };
    if let Some(visit) = visit {
        thread::end_visit(visit);
    }
    if let Some(socket) = lock().sockets.get(id) {
        socket.is_asked = false;
    }
    if let Some(Ok(new)) = got {
        table::accepted(fd, new, flags);
    }
    got.filter(|got| *got != Err(libc::EAGAIN))
}

/// Takes a connection that the stack has, with a socket of the kernel beside.
fn accept_on_stack(
    state: &mut State,
    id: u32,
    listener: Listener,
    from: NameBuffer,
    flags: c_int,
) -> Result<c_int, c_int> {
    let (engine, socket) = state.both(id).ok_or(libc::EBADF)?;
    let (is_v6, port) = (socket.is_v6, socket.port);
    let of_family = if is_v6 { table::IPV6 } else { 0 };
    let new = kernel::socket(is_v6, libc::SOCK_STREAM | flags & (SOCK_CLOEXEC | SOCK_NONBLOCK));
    if new < 0 {
        return Err(errno::get());
    }
    let fail = |error| {
        table::open(new, 0);
        kernel::close(new);
        Err(error)
    };
    // A number that the table does not have: the connection waits, as where none is free.
    let Some(entry) = table::entry(new) else { return fail(libc::EMFILE) };
    let handle = match engine.stack().tcp_accept(listener) {
        Ok(handle) => handle,
        Err(error) => return fail(error.errno()),
    };
    let ends = engine.stack().tcp_addresses(handle);
    let (Ok(ends), Ok(())) = (ends, engine.hold(port)) else {
        let _ = engine.stack().tcp_abort(handle);
        engine.flush();
        return fail(libc::ENOBUFS);
    };
    let interface = engine.interface().index;
    let mut socket = Socket::new(Handle::Tcp(handle), port, is_v6);
    socket.ends = Some(ends);
    if let Some(listener) = state.sockets.get(id) {
        listener.inherited.iter().for_each(|option| option.give(new));
        (socket.receive_ns, socket.send_ns) = (listener.receive_ns, listener.send_ns);
        (socket.linger_s, socket.least) = (listener.linger_s, listener.least);
    }
    let nonblocking = if flags & SOCK_NONBLOCK != 0 { table::NONBLOCK } else { 0 };
    table::open(new, table::SOCKET | table::STREAM | table::ON_STACK | nonblocking | of_family);
    if state.keep(entry, socket).is_err() {
        if let Some(engine) = &mut state.engine {
            let _ = engine.stack().tcp_abort(handle);
            engine.withdraw(port);
            engine.flush();
        }
        return fail(libc::ENOBUFS);
    }
    from.write(ends.1, is_v6, interface);
    Ok(new)
}

/// Takes a kernel connection, not by libc's calls: a cancellation there would leave [`Socket::is_asked`] set.
fn accept_in_kernel(fd: c_int, from: NameBuffer, flags: c_int) -> Option<Result<c_int, c_int>> {
    const NO_MASK: usize = 0;
    let mut one = pollfd { fd, events: POLLIN, revents: 0 };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let (from, size) = from.pointers();
    // SAFETY: one entry and a time; then room for an address, by the promise of who made it.
    let got = unsafe {
        if libc::syscall(libc::SYS_ppoll, &raw mut one, 1, &raw mut time, NO_MASK, NO_MASK) <= 0 {
            return None;
        }
        libc::syscall(libc::SYS_accept4, fd, from, size, flags)
    };
    Some(if got < 0 { Err(errno::get()) } else { Ok(c_int::try_from(got).unwrap_or(-1)) })
}

/// shutdown. None: the kernel's.
pub(crate) fn shut_down(fd: c_int, how: c_int) -> Option<c_int> {
    let entry = entry(fd)?;
    let id = entry.on_stack()?;
    let mut locked = lock();
    let (engine, socket) = locked.both(id)?;
    let Handle::Tcp(handle) = socket.handle else {
        let listens = matches!(socket.handle, Handle::Listener(_));
        if listens {
            // It listens no more: the kernel's socket does the same.
            give_back(&mut locked, fd, id, 0, table::LISTENS);
        }
        return None;
    };
    let how = match how {
        libc::SHUT_RD => Shutdown::Read,
        libc::SHUT_WR => Shutdown::Write,
        libc::SHUT_RDWR => Shutdown::Both,
        _ => {
            errno::set(libc::EINVAL);
            return Some(-1);
        }
    };
    let done = engine.stack().tcp_shutdown(handle, how);
    engine.flush();
    locked.dispatch();
    locked.happened(id);
    match done {
        Ok(()) => Some(0),
        Err(error) => {
            errno::set(error.errno());
            Some(-1)
        }
    }
}
