//! A socket on the stack, and what its receive and send calls have in common.

use super::control::{Control, Wanted};
use super::options::Inherited;
use super::wait::{CARRIER_CHANGED, For, Waited, finish, is_kernels_again, wait, wait_beside};
use super::{Handle, State, datagram, entry, lock, stream, take};
use crate::errno;
use crate::spin::Call;
use crate::table::{self, Entry, Visit};
use bypass_abi::page::{Kind, Outcome};
use libc::{MSG_DONTWAIT, MSG_WAITALL, POLLIN, c_int, iovec, pollfd, sockaddr, socklen_t, ssize_t};
use stack::Error;
use std::net::SocketAddr;

/// Attempts between two that ask the kernel's socket, too: it brings what comes through other interfaces, fragments,
/// multicast, and errors that ICMP reports.
pub(super) const ATTEMPTS_A_KERNEL: u32 = 64;

/// A socket.
pub(super) struct Socket {
    pub(super) handle: Handle,
    pub(super) port: u16,
    /// Of AF_INET6: addresses are given in that form.
    pub(super) is_v6: bool,
    /// Descriptors of it.
    pub(super) descriptors: u32,
    /// SO_RCVTIMEO and SO_SNDTIMEO in ns; `u64::MAX` without.
    pub(super) receive_ns: u64,
    pub(super) send_ns: u64,
    /// SO_LINGER in s.
    pub(super) linger_s: Option<u32>,
    /// SO_RCVLOWAT in bytes.
    pub(super) least: usize,
    /// Of a listener: what its connections have from it.
    pub(super) inherited: Vec<Inherited>,
    /// Of a listener: a thread asks the kernel's for a connection.
    pub(super) is_asked: bool,
    /// Attempts until the kernel is asked.
    pub(super) kernel_in: u32,
    /// The state's hint when it was asked last.
    pub(super) hint: u32,
    /// Of a connection: connect has not reported its result.
    pub(super) is_connecting: bool,
    /// The other end of a connection, while it is known.
    pub(super) ends: Option<(SocketAddr, SocketAddr)>,
    /// Of datagrams: what is told of each beside its bytes.
    pub(super) wanted: Wanted,
    /// Record in the status page.
    pub(super) record: Option<usize>,
}

impl Socket {
    pub(super) fn new(handle: Handle, port: u16, is_v6: bool) -> Self {
        Self {
            handle,
            port,
            is_v6,
            descriptors: 1,
            receive_ns: u64::MAX,
            send_ns: u64::MAX,
            linger_s: None,
            least: 1,
            inherited: Vec::new(),
            is_asked: false,
            kernel_in: 0,
            hint: 0,
            is_connecting: false,
            ends: None,
            wanted: Wanted::default(),
            record: None,
        }
    }

    /// With the options of the kernel's socket.
    pub(super) fn of_kernels(fd: c_int, handle: Handle, port: u16, is_v6: bool) -> Self {
        let mut socket = Self::new(handle, port, is_v6);
        socket.read_options(fd);
        socket
    }

    /// Whether it is time to ask the kernel's socket.
    #[inline]
    pub(super) fn asks_kernel(&mut self, hint: u32) -> bool {
        if self.kernel_in == 0 || self.hint != hint {
            self.kernel_in = ATTEMPTS_A_KERNEL;
            self.hint = hint;
            return true;
        }
        self.kernel_in -= 1;
        false
    }
}

/// A receive call: where the bytes go, and what it returns besides.
pub(crate) struct Incoming {
    pub(crate) parts: *const iovec,
    pub(crate) count: usize,
    pub(crate) flags: c_int,
    pub(crate) name: *mut sockaddr,
    pub(crate) name_size: *mut socklen_t,
    pub(crate) control: Control,
    /// Flags of the message that was received.
    pub(crate) message_flags: c_int,
    /// The kernel's socket had it, and filled in everything.
    pub(crate) is_kernels: bool,
}

impl Incoming {
    /// The parts of the buffer.
    pub(super) fn parts(&self) -> &[iovec] {
        if self.count == 0 || self.parts.is_null() {
            return &[];
        }
        // SAFETY: the caller's promise: `count` parts.
        unsafe { std::slice::from_raw_parts(self.parts, self.count) }
    }

    /// Bytes of room.
    pub(super) fn room(&self) -> usize {
        self.parts().iter().map(|part| part.iov_len).sum()
    }

    /// Copies bytes into the parts, from byte `skip` of them on; how many fitted.
    pub(super) unsafe fn fill(&self, mut skip: usize, mut bytes: &[u8]) -> usize {
        let before = bytes.len();
        for part in self.parts() {
            if skip >= part.iov_len {
                skip -= part.iov_len;
                continue;
            }
            let length = (part.iov_len - skip).min(bytes.len());
            // SAFETY: the caller's promise: each part is a buffer of its length.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), part.iov_base.cast::<u8>().add(skip), length);
            }
            bytes = &bytes[length..];
            skip = 0;
            if bytes.is_empty() {
                break;
            }
        }
        before - bytes.len()
    }
}

/// A receive call on a socket of the stack. `real` is the kernel's call with more flags. None: the kernel carries this socket.
#[inline]
pub(crate) unsafe fn receive(fd: c_int, incoming: &mut Incoming, real: impl Fn(c_int) -> ssize_t) -> Option<ssize_t> {
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
        // SAFETY: the caller's promises about the buffers.
        return unsafe { receive_beside(fd, entry, incoming, real) };
    };
    let nonblocking = entry.has(table::NONBLOCK) || incoming.flags & MSG_DONTWAIT != 0;
    if nonblocking {
        // Such a call returns what is there, also with MSG_WAITALL.
        incoming.flags = incoming.flags & !MSG_WAITALL | MSG_DONTWAIT;
    }
    let call = Call::new(Kind::Recv, Some(entry));
    let mut done = 0;
    // SAFETY: the caller's promises about the buffers.
    let mut attempt = |asks| unsafe { receive_once(entry, id, incoming, &mut done, asks, &real) };
    if let Some(result) = attempt(false).map(Waited::Done) {
        if is_kernels_again(&result, entry, file) {
            // SAFETY: as above.
            return unsafe { receive(fd, incoming, real) };
        }
        call.count(Outcome::Ready);
        return Some(finish(result, before, 0));
    }
    if nonblocking {
        errno::set(libc::EAGAIN);
        return Some(-1);
    }
    let timeout_ns = lock().socket(id).map_or(u64::MAX, |socket| socket.receive_ns);
    // The kernel's socket of a connection brings nothing.
    let kernel = [pollfd { fd: if entry.has(table::STREAM) { -1 } else { fd }, events: POLLIN, revents: 0 }];
    let waited = wait(&call, &For::one(id, &kernel, timeout_ns), attempt);
    // What a call with MSG_WAITALL has got so far is its result; also where the kernel has the rest.
    if done > 0 && (!matches!(waited, Waited::Done(_)) || is_kernels_again(&waited, entry, file)) {
        errno::set(before);
        return Some(done.cast_signed());
    }
    if is_kernels_again(&waited, entry, file) {
        // SAFETY: as above.
        return unsafe { receive(fd, incoming, real) };
    }
    Some(finish(waited, before, libc::EAGAIN))
}

/// The same of a socket that may come to the stack, by a call of another thread.
#[cold]
unsafe fn receive_beside(
    fd: c_int,
    entry: &'static Entry,
    incoming: &mut Incoming,
    real: impl Fn(c_int) -> ssize_t,
) -> Option<ssize_t> {
    let nonblocking = entry.has(table::NONBLOCK) || incoming.flags & MSG_DONTWAIT != 0;
    if !entry.has(table::CANDIDATE) || nonblocking || table::has_left() {
        return None;
    }
    let before = errno::get();
    let call = Call::new(Kind::Recv, Some(entry));
    let attempt = || match real(MSG_DONTWAIT) {
        got @ 0.. => Some(Ok(got)),
        _ => Some(errno::get()).filter(|error| *error != libc::EAGAIN).map(Err),
    };
    match wait_beside(&call, (fd, entry), crate::calls::timeout_ns(fd, libc::SO_RCVTIMEO), attempt) {
        // SAFETY: as above.
        Waited::Done(Err(CARRIER_CHANGED)) => unsafe { receive(fd, incoming, real) },
        waited => {
            incoming.is_kernels = true;
            Some(finish(waited, before, libc::EAGAIN))
        }
    }
}

/// An attempt: the result, or none where the call has to wait. `done`: bytes that it has got already.
#[inline]
unsafe fn receive_once(
    entry: &'static Entry,
    id: u32,
    incoming: &mut Incoming,
    done: &mut usize,
    asks: bool,
    real: &impl Fn(c_int) -> ssize_t,
) -> Option<Result<ssize_t, c_int>> {
    let mut locked = lock();
    let state = &mut *locked;
    // SAFETY: the caller's promises about the buffers.
    let mut taken = unsafe { take_bytes(state, id, incoming, done) };
    if taken.is_none() && state.poll() {
        // SAFETY: as above.
        taken = unsafe { take_bytes(state, id, incoming, done) };
    }
    if taken.is_some() {
        return taken;
    }
    let hint = state.hint;
    let asks = match state.socket(id) {
        Some(socket) => matches!(socket.handle, Handle::Udp(_)) && (socket.asks_kernel(hint) || asks),
        None => return Some(Err(libc::EBADF)),
    };
    if !asks {
        return None;
    }
    let visit = visit(entry, id)?;
    drop(locked);
    let got = real(MSG_DONTWAIT);
    visit.end();
    if got >= 0 {
        incoming.is_kernels = true;
        if let Some(socket) = lock().socket(id) {
            // There may be more.
            socket.kernel_in = 0;
        }
        return Some(Ok(got));
    }
    Some(errno::get()).filter(|error| *error != libc::EAGAIN).map(Err)
}

/// Begins a call of the kernel's socket beside, with the lock held: whoever closes its number meanwhile waits until the call is over.
/// None: the number is another's already.
pub(super) fn visit(entry: &'static Entry, id: u32) -> Option<Visit> {
    (entry.on_stack() == Some(id)).then(|| Visit::begin(entry))
}

#[inline]
unsafe fn take_bytes(
    state: &mut State,
    id: u32,
    incoming: &mut Incoming,
    done: &mut usize,
) -> Option<Result<ssize_t, c_int>> {
    let Some((engine, socket)) = state.both(id) else { return Some(Err(libc::EBADF)) };
    // SAFETY: the caller's promises about the buffers.
    let taken = unsafe {
        match socket.handle {
            Handle::Udp(handle) => datagram::receive(engine, handle, (socket.is_v6, socket.wanted), incoming),
            Handle::Tcp(handle) => stream::receive(engine, handle, incoming, (done, socket.least)),
            Handle::Listener(_) => Err(Error::NotConnected),
        }
    };
    match taken {
        Ok(length) => Some(Ok(length.cast_signed())),
        Err(Error::WouldBlock) => None,
        Err(error) => Some(Err(error.errno())),
    }
}

/// A send call on a socket of the stack. None: the kernel carries it.
#[inline]
pub(crate) unsafe fn send(fd: c_int, outgoing: &datagram::Outgoing) -> Option<ssize_t> {
    let entry = entry(fd)?;
    if entry.has(table::STREAM) {
        let Some(id) = entry.on_stack() else {
            take::left(entry);
            return None;
        };
        // SAFETY: the caller's promises about the buffers.
        return unsafe { stream::send((fd, entry), id, outgoing) };
    }
    // SAFETY: as above.
    let to = unsafe { outgoing.to() };
    if !outgoing.name.is_null() && to.is_none() {
        return None;
    }
    let id = take::sends(fd, entry, to)?;
    // SAFETY: as above.
    unsafe { datagram::send(entry, id, to, outgoing) }
}
