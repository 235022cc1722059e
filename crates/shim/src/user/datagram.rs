//! Datagrams.

use super::address;
use super::control::Wanted;
use super::copied::both_families;
use super::messages::{Incoming, Outgoing};
use super::release::give_back;
use super::socket::{Handle, Socket};
use super::state::{entry, lock};
use super::wait::{For, Waited, finish, wait};
use crate::errno;
use crate::spin::Call;
use crate::table::{self, Entry};
use bypass_abi::page::Kind;
use libc::{MSG_DONTWAIT, MSG_PEEK, MSG_TRUNC, c_int, ssize_t};
use stack::{Error, UdpSocket};
use user_stack::{Engine, Route, Sending};

#[inline]
pub(super) fn receive(
    engine: &mut Engine,
    socket: UdpSocket,
    (is_v6, wanted): (bool, Wanted),
    incoming: &mut Incoming<'_>,
) -> Result<usize, Error> {
    let interface = engine.interface().index;
    let (received, payload) = engine.stack().udp_front(socket)?;
    incoming.name.write(received.source, is_v6, interface);
    let copied = incoming.fill(0, payload);
    let is_cut = copied < received.length;
    if is_cut {
        incoming.message_flags |= MSG_TRUNC;
    }
    if !wanted.is_empty() {
        incoming.message_flags |= incoming.control.tell(wanted, &received, interface);
    }
    if incoming.flags & MSG_PEEK == 0 {
        engine.stack().udp_pop(socket)?;
    }
    Ok(if incoming.flags & MSG_TRUNC != 0 { received.length } else { copied })
}

/// Sends one. None: through the kernel.
#[inline]
pub(super) fn send(entry: &'static Entry, id: u32, outgoing: &Outgoing<'_>) -> Option<ssize_t> {
    if outgoing.has_control || outgoing.flags & libc::MSG_MORE != 0 {
        return None;
    }
    let before = errno::get();
    let attempt = || send_once(id, outgoing);
    if let Some(result) = attempt() {
        return result.map(|result| finish(Waited::Done(result), before, 0));
    }
    if entry.has(table::NONBLOCK) || outgoing.flags & MSG_DONTWAIT != 0 {
        errno::set(libc::EAGAIN);
        return Some(-1);
    }
    let timeout_ns = lock().sockets.get(id).map_or(u64::MAX, |socket| socket.send_ns);
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
fn send_once(id: u32, outgoing: &Outgoing<'_>) -> Option<Option<Result<ssize_t, c_int>>> {
    let mut locked = lock();
    let state = &mut *locked;
    let mut scratch = std::mem::take(&mut state.scratch);
    let payload = match outgoing.whole() {
        Some(whole) => whole,
        None => {
            scratch.clear();
            outgoing.parts().for_each(|part| scratch.extend_from_slice(part));
            &scratch
        }
    };
    let to = outgoing.to;
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

/// Gives the stack's socket the ends of the kernel's, keeping received data; else the kernel carries it.
pub(crate) fn reconnected(fd: c_int) {
    let Some(id) = entry(fd).and_then(Entry::on_stack) else { return };
    let before = errno::get();
    let mut state = lock();
    // What has come so far came before.
    state.poll();
    if !state.both(id).is_some_and(|(engine, socket)| follow(fd, engine, socket)) {
        give_back(&mut state, fd, id, table::CANDIDATE, 0);
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
    let both = both_families(fd, socket.is_v6);
    remote.is_some() == peer.is_some() && engine.rebind(handle, local, both, remote).is_ok()
}
