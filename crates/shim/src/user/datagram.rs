//! Datagrams.

use super::control::Wanted;
use super::socket::{Incoming, Socket};
use super::wait::{For, Waited, finish, wait};
use super::{Handle, State, address, close, entry, lock, take};
use crate::spin::Call;
use crate::table::{self, Entry};
use crate::{errno, page};
use bypass_abi::page::{Kind, Reason};
use libc::{MSG_DONTWAIT, MSG_PEEK, MSG_TRUNC, c_int, iovec, sockaddr, socklen_t, ssize_t};
use stack::{Error, UdpSocket};
use std::net::SocketAddr;
use user_stack::{Engine, Route, Sending};
use xsk::Addresses;

/// A send call.
pub(crate) struct Outgoing {
    pub(crate) parts: *const iovec,
    pub(crate) count: usize,
    pub(crate) flags: c_int,
    pub(crate) name: *const sockaddr,
    pub(crate) name_size: socklen_t,
    /// It has control data, which only the kernel understands.
    pub(crate) has_control: bool,
}

impl Outgoing {
    /// The parts of the message.
    pub(super) fn parts(&self) -> &[iovec] {
        if self.count == 0 || self.parts.is_null() {
            return &[];
        }
        // SAFETY: the caller's promise: `count` parts.
        unsafe { std::slice::from_raw_parts(self.parts, self.count) }
    }

    /// The address; none without, or where it is none of IPv4 or IPv6.
    pub(super) unsafe fn to(&self) -> Option<SocketAddr> {
        // SAFETY: the caller's promise: an address of this size, or null.
        unsafe { address::read(self.name, self.name_size) }
    }
}

/// The bytes of a part.
pub(super) unsafe fn bytes<'a>(part: &iovec) -> &'a [u8] {
    if part.iov_len == 0 || part.iov_base.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise: a buffer of this length.
    unsafe { std::slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len) }
}

/// Receives one.
#[inline]
pub(super) unsafe fn receive(
    engine: &mut Engine,
    socket: UdpSocket,
    (is_v6, wanted): (bool, Wanted),
    incoming: &mut Incoming,
) -> Result<usize, Error> {
    let interface = engine.interface().index;
    let (received, payload) = engine.stack().udp_front(socket)?;
    // SAFETY: the caller's promises about the buffers.
    let copied = unsafe {
        address::write(received.source, is_v6, interface, incoming.name, incoming.name_size);
        incoming.fill(0, payload)
    };
    let is_cut = copied < received.length;
    if is_cut {
        incoming.message_flags |= MSG_TRUNC;
    }
    if !wanted.is_empty() {
        // SAFETY: the caller's promise about the room for control data.
        incoming.message_flags |= unsafe { incoming.control.tell(wanted, &received, interface) };
    }
    if incoming.flags & MSG_PEEK == 0 {
        engine.stack().udp_pop(socket)?;
    }
    Ok(if incoming.flags & MSG_TRUNC != 0 { received.length } else { copied })
}

/// Sends one. None: through the kernel.
#[inline]
pub(super) unsafe fn send(
    entry: &'static Entry,
    id: u32,
    to: Option<SocketAddr>,
    outgoing: &Outgoing,
) -> Option<ssize_t> {
    if outgoing.has_control || outgoing.flags & libc::MSG_MORE != 0 {
        return None;
    }
    let before = errno::get();
    // SAFETY: the caller's promises about the buffers.
    let attempt = || unsafe { send_once(id, to, outgoing) };
    if let Some(result) = attempt() {
        return result.map(|result| finish(Waited::Done(result), before, 0));
    }
    if entry.has(table::NONBLOCK) || outgoing.flags & MSG_DONTWAIT != 0 {
        errno::set(libc::EAGAIN);
        return Some(-1);
    }
    let timeout_ns = lock().socket(id).map_or(u64::MAX, |socket| socket.send_ns);
    let call = Call::new(Kind::Send, Some(entry));
    match wait(&call, &For::one(id, &[], timeout_ns), |_| attempt()) {
        Waited::Done(None) => None,
        Waited::Done(Some(result)) => Some(finish(Waited::Done(result), before, 0)),
        Waited::Interrupted => Some(finish(Waited::Interrupted, before, 0)),
        Waited::TimedOut => Some(finish(Waited::TimedOut, before, libc::EAGAIN)),
    }
}

/// An attempt: none where there is no room; `Some(None)` where the kernel has to carry it.
#[inline]
unsafe fn send_once(id: u32, to: Option<SocketAddr>, outgoing: &Outgoing) -> Option<Option<Result<ssize_t, c_int>>> {
    let mut locked = lock();
    let state = &mut *locked;
    let mut scratch = std::mem::take(&mut state.scratch);
    // SAFETY: the caller's promises about the buffers.
    let payload = unsafe {
        match outgoing.parts() {
            [part] => bytes(part),
            parts => {
                scratch.clear();
                parts.iter().for_each(|part| scratch.extend_from_slice(bytes(part)));
                &scratch
            }
        }
    };
    let mut sent = Err(Sending::Failed(Error::BadHandle));
    if let Some((engine, socket)) = state.both(id)
        && let Handle::Udp(handle) = socket.handle
    {
        let here = to.and_then(|to| address::on_link(to, engine.interface().index));
        if here.is_none() && to.is_some() {
            state.scratch = scratch;
            return Some(None);
        }
        sent = engine.send_datagram(handle, to, payload);
        if sent == Err(Sending::ByKernel) {
            let remote = to.or_else(|| engine.stack().udp_addresses(handle).ok()?.1);
            let fits = payload.len() <= engine.interface().mtu as usize - 48;
            if fits && remote.is_some_and(|remote| engine.route(remote.ip()) == Route::Here) {
                sent = engine.send_datagram(handle, to, payload);
            }
        }
    }
    let length = payload.len().cast_signed();
    state.scratch = scratch;
    match sent {
        Ok(()) => Some(Some(Ok(length))),
        Err(Sending::ByKernel) => Some(None),
        Err(Sending::Full) => {
            state.poll();
            None
        }
        Err(Sending::Failed(error)) => Some(Some(Err(error.errno()))),
    }
}

/// After the kernel's socket was connected: the stack's gets the same ends, and keeps what it has received. One that cannot be
/// connected there is the kernel's; its next call sees whether it may come back.
pub(crate) fn reconnected(fd: c_int) {
    let Some(id) = entry(fd).and_then(Entry::on_stack) else { return };
    let before = errno::get();
    let mut state = lock();
    // What has come so far came before.
    state.poll();
    if !state.both(id).is_some_and(|(engine, socket)| follow(fd, engine, socket)) {
        close::give_back(&mut state, fd, id, table::CANDIDATE, 0);
    }
    errno::set(before);
}

/// Gives a socket of the stack the ends that the kernel's has now.
fn follow(fd: c_int, engine: &mut Engine, socket: &Socket) -> bool {
    let Handle::Udp(handle) = socket.handle else { return false };
    let interface = engine.interface().index;
    let on_link = |address| address::on_link(address, interface);
    let (Some(local), peer) = (address::of_socket(fd).and_then(on_link), address::of_peer(fd)) else { return false };
    let remote = peer.and_then(on_link).filter(|remote| engine.route(remote.ip()) != Route::Elsewhere);
    let both = take::both_families(fd, socket.is_v6);
    remote.is_some() == peer.is_some() && engine.rebind(handle, local, both, remote).is_ok()
}

/// The kernel has a socket again, and with it all others that share an address of its port: their frames go there or here, whichever socket
/// they are for.
pub(super) fn leave_port(state: &mut State, id: u32, reason: Reason) {
    let Some((port, is_udp)) = state.socket(id).map(|socket| (socket.port, matches!(socket.handle, Handle::Udp(_))))
    else {
        return;
    };
    let own = table::of_stack(id).and_then(|(fd, _)| addresses(fd));
    let is_same =
        |(handle, other): (&Handle, &u32)| (matches!(handle, Handle::Udp(_)) || *other == id).then_some(*other);
    let others: Vec<u32> = state.by_handle.iter().filter_map(is_same).collect();
    for other in others {
        if other == id || is_udp && state.socket(other).is_some_and(|socket| socket.port == port) {
            let Some((fd, entry)) = table::of_stack(other) else { continue };
            if other != id && own.zip(addresses(fd)).is_some_and(|(own, other)| !own.meets(other)) {
                continue;
            }
            close::give_back(state, fd, other, 0, table::CANDIDATE);
            page::fall_back(Some(entry), reason);
        }
    }
}

/// Whether the kernel carries another datagram socket, or listener ([`table::LISTENS`]), of this process with this port of one of these
/// addresses.
pub(super) fn kernel_has(fd: c_int, port: u16, of: Addresses, kind: u32) -> bool {
    let has_port = |other| address::of_socket(other).is_some_and(|local| local.port() == port);
    table::kernels(fd, kind).any(|other| has_port(other) && addresses(other).is_some_and(|other| other.meets(of)))
}

/// The addresses of a socket.
fn addresses(fd: c_int) -> Option<Addresses> {
    let is_v6 = table::entry(fd).is_some_and(|entry| entry.has(table::IPV6));
    Some(Addresses::of(address::of_socket(fd)?.ip(), take::both_families(fd, is_v6)))
}

/// Why the kernel carries a datagram socket.
pub(super) fn not_taken(entry: &'static Entry, reason: Reason) {
    table::set_all(entry, 0, table::CANDIDATE | table::ON_STACK);
    page::fall_back(Some(entry), reason);
}
