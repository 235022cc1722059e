//! How sockets leave the stack: ended, or the kernel's again.

use super::address;
use super::copied::both_families;
use super::quiet;
use super::socket::Handle;
use super::state::{Orphan, State};
use crate::table::{self, Entry, TABLE};
use crate::{descriptor, page};
use bypass_abi::page::Reason;
use libc::c_int;
use stack::TcpState;
use user_stack::now;
use xsk::{Addresses, Backend};

/// What becomes of the port of a socket that is closed.
#[derive(Clone, Copy)]
pub(super) enum Port {
    /// A copy of this kernel's descriptor owns it as long as data go out.
    Guarded(c_int),
    /// Its frames go to the kernel.
    Released,
    /// The process ends, and with it all ports.
    Kept,
}

pub(super) fn end_socket(state: &mut State, id: u32, port: Port) {
    let Some(socket) = state.sockets.remove(id) else { return };
    let Some(engine) = &mut state.engine else { return };
    match socket.handle {
        Handle::Udp(handle) => {
            engine.unbind(handle, socket.port);
        }
        Handle::Tcp(handle) => {
            let ends = engine.stack().tcp_addresses(handle);
            if socket.linger_s == Some(0) {
                let _ = engine.stack().tcp_abort(handle);
            } else {
                let _ = engine.stack().tcp_close(now(), handle);
            }
            engine.flush();
            match (ends, port) {
                (_, Port::Kept) => {}
                (Ok((local, remote)), Port::Guarded(fd)) if state.lives(local, Some(remote)) => {
                    let guard = descriptor::copy(fd);
                    state.orphans.push(Orphan { local, remote: Some(remote), guard });
                }
                _ => engine_withdraw(state, socket.port),
            }
        }
        Handle::Listener(handle) => {
            let local = engine.stack().listener_address(handle);
            let is_packet = engine.backend() == Backend::Packet;
            if matches!(port, Port::Kept) {
                let _ = engine.stack().listener_close(handle);
            } else {
                engine.unlisten(handle);
            }
            engine.flush();
            match (local, port) {
                // Its connections keep the port.
                (_, Port::Kept) => {}
                (Ok(local), Port::Guarded(fd)) if state.lives(local, None) => {
                    // AF_XDP takes the frames of its connections alone: no socket has to hold the port, and another program may listen there.
                    let guard = if is_packet { descriptor::copy(fd) } else { -1 };
                    state.orphans.push(Orphan { local, remote: None, guard });
                }
                _ => engine_withdraw(state, socket.port),
            }
        }
    }
}

fn engine_withdraw(state: &mut State, port: u16) {
    if let Some(engine) = &mut state.engine {
        engine.withdraw(port);
    }
}

impl State {
    /// Whether a connection between these ends, or of this port, still needs the port.
    pub(super) fn lives(&mut self, local: std::net::SocketAddr, remote: Option<std::net::SocketAddr>) -> bool {
        let Some(engine) = &mut self.engine else { return false };
        let stack = engine.stack();
        match remote {
            Some(remote) => stack.tcp_lives(local, remote),
            None => stack.tcp_connections().any(|(from, _, info)| {
                from.port() == local.port() && !matches!(info.state, TcpState::TimeWait | TcpState::Closed)
            }),
        }
    }

    /// Lets go of ports whose last connection is over.
    pub(super) fn sweep(&mut self) {
        if let Some(engine) = &mut self.engine {
            engine.forget_ended();
        }
        let mut at = 0;
        while let Some(orphan) = self.orphans.get(at) {
            let (local, remote) = (orphan.local, orphan.remote);
            if self.lives(local, remote) {
                at += 1;
                continue;
            }
            let orphan = self.orphans.swap_remove(at);
            engine_withdraw(self, orphan.local.port());
            descriptor::close(orphan.guard);
        }
    }

    /// Ends a socket whose frames go to the kernel; its descriptor hears again what the stack had taken.
    fn release(&mut self, id: u32, fd: Option<c_int>) {
        if let (Some(engine), Some(fd)) = (&self.engine, fd) {
            quiet::unquiet(engine, fd);
        }
        end_socket(self, id, Port::Released);
    }
}

/// The kernel has a socket again, which the stack had. `set` and `clear` are flags of its descriptors.
pub(super) fn give_back(state: &mut State, fd: c_int, id: u32, set: u32, clear: u32) {
    if let Some(entry) = table::entry(fd) {
        TABLE.set_all(entry, set, clear | table::ON_STACK);
        page::off_stack(entry);
    }
    let is_connection = state.sockets.get(id).is_some_and(|socket| matches!(socket.handle, Handle::Tcp(_)));
    state.unwatched(id);
    state.release(id, Some(fd).filter(|_| !is_connection));
    state.wake(id);
    state.turned();
}

/// Gives the kernel a socket and all others that share an address of its port: frames of a port go to one of both.
pub(super) fn leave_port(state: &mut State, id: u32, reason: Reason) {
    let Some((port, is_udp)) =
        state.sockets.get(id).map(|socket| (socket.port, matches!(socket.handle, Handle::Udp(_))))
    else {
        return;
    };
    let own = TABLE.of_stack(id).and_then(|(fd, _)| addresses(fd));
    let mut others = state.sockets.ids(|handle| matches!(handle, Handle::Udp(_)));
    others.retain(|other| *other != id);
    others.push(id);
    for other in others {
        if other == id || is_udp && state.sockets.get(other).is_some_and(|socket| socket.port == port) {
            let Some((fd, entry)) = TABLE.of_stack(other) else { continue };
            if other != id && own.zip(addresses(fd)).is_some_and(|(own, other)| !own.meets(other)) {
                continue;
            }
            give_back(state, fd, other, 0, table::CANDIDATE);
            page::fall_back(Some(entry), reason);
        }
    }
}

/// Whether the kernel carries another datagram socket or listener ([`table::LISTENS`]) on this port of these addresses.
pub(super) fn kernel_has(fd: c_int, port: u16, of: Addresses, kind: u32) -> bool {
    let has_port = |other| address::of_socket(other).is_some_and(|local| local.port() == port);
    TABLE.kernels(fd, kind).any(|other| has_port(other) && addresses(other).is_some_and(|other| other.meets(of)))
}

fn addresses(fd: c_int) -> Option<Addresses> {
    let is_v6 = table::entry(fd).is_some_and(|entry| entry.has(table::IPV6));
    Some(Addresses::of(address::of_socket(fd)?.ip(), both_families(fd, is_v6)))
}

/// Why the kernel carries a datagram socket.
pub(super) fn not_taken(entry: &'static Entry, reason: Reason) {
    TABLE.set_all(entry, 0, table::CANDIDATE | table::ON_STACK);
    page::fall_back(Some(entry), reason);
}
