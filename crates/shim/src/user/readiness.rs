//! What sockets of the stack are ready for, and what their epoll instances get of it.

use super::socket::{Handle, Socket};
use super::state::State;
use crate::real;
use crate::table::{self, Entry, TABLE};
use descriptors::{Change, Event, Member, Sockets, What};
use libc::{
    EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLPRI, POLLRDHUP,
    POLLRDNORM, POLLWRNORM, c_int, c_short, epoll_event,
};
use stack::Readiness;
use user_stack::Engine;

/// What poll reports of a readiness.
pub(super) fn events_of(ready: &Readiness) -> c_short {
    [
        (ready.readable, POLLIN | POLLRDNORM),
        (ready.writable, POLLOUT | POLLWRNORM),
        (ready.read_closed, POLLRDHUP),
        (ready.hang_up, POLLHUP),
        (ready.error, POLLERR),
        (ready.urgent, POLLPRI),
    ]
    .into_iter()
    .filter(|(is, _)| *is)
    .fold(0, |all, (_, events)| all | events)
}

/// What a socket is ready for; POLLNVAL where it is closed.
pub(super) fn readiness(engine: &mut Option<Engine>, sockets: &mut Sockets<Handle, Socket>, id: u32) -> c_short {
    let Some((engine, socket)) = engine.as_mut().zip(sockets.get(id)) else { return POLLNVAL };
    let stack = engine.stack();
    let ready = match socket.handle {
        Handle::Udp(handle) => stack.udp_readiness(handle),
        Handle::Tcp(handle) => stack.tcp_readiness(handle).map(|mut ready| {
            if socket.least > 1 && !ready.read_closed && !ready.error {
                ready.readable &= stack.tcp_info(handle).is_ok_and(|info| info.unread as usize >= socket.least);
            }
            ready
        }),
        Handle::Listener(handle) => stack.listener_readiness(handle),
    };
    ready.map_or(POLLNVAL, |ready| events_of(&ready))
}

impl State {
    /// The same, of a socket by its number alone.
    pub(super) fn readiness(&mut self, id: u32) -> c_short {
        readiness(&mut self.engine, &mut self.sockets, id)
    }
}

/// Changes a member of the kernel's instance.
pub(super) fn in_kernel(set: c_int, what: c_int, fd: c_int, events: u32, data: u64) -> c_int {
    let mut event = epoll_event { events, u64: data };
    // SAFETY: an event.
    unsafe { real::epoll_ctl.get()(set, what, fd, &raw mut event) }
}

/// Members whose EPOLLONESHOT has fired: no bits that ask for events are left (EP_PRIVATE_BITS; proc(5), fdinfo).
fn spent_in_kernel(set: c_int) -> Vec<c_int> {
    const PRIVATE: u32 = 0xf000_0000;
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{set}")).unwrap_or_default();
    let members = text.lines().filter_map(|line| {
        let mut words = line.strip_prefix("tfd:")?.split_ascii_whitespace();
        let fd = words.next()?.parse().ok()?;
        let events = u32::from_str_radix(words.nth(1)?, 16).ok()?;
        (events & !PRIVATE == 0).then_some(fd)
    });
    members.collect()
}

/// Bits of poll(2) as those of epoll, which are the same.
fn bits(events: c_short) -> u32 {
    u32::from(events.cast_unsigned())
}

impl State {
    /// Tells the kernel's instances what has changed.
    pub(super) fn tell_kernel(&mut self) {
        while let Some(Change { set, what, fd, events, data }) = self.sets.poll_change() {
            let what = match what {
                What::Add => EPOLL_CTL_ADD,
                What::Modify => EPOLL_CTL_MOD,
                What::Delete => EPOLL_CTL_DEL,
            };
            in_kernel(set, what, fd, events, data);
        }
    }

    /// Notes a change of a member that is the kernel's so far, or of an instance among the members.
    pub(super) fn note(&mut self, set: c_int, what: c_int, (fd, inner): (c_int, u32), (events, data): (u32, u64)) {
        let Some(number) = TABLE.instance(set) else { return };
        if what == EPOLL_CTL_DEL {
            self.sets.remove(number, fd, false);
        } else if self.sets.insert((number, set), fd, Member { id: 0, inner, events, data, in_kernel: true }) {
            self.turned();
        }
    }

    /// A socket came to the stack: epoll instances that have it ask there from now on.
    pub(super) fn watch(&mut self, id: u32, entry: &Entry) {
        self.sets.to_stack(id, entry.is_connection(), |fd| table::entry(fd).and_then(Entry::on_stack) == Some(id));
        self.tell_kernel();
    }

    /// A socket leaves the stack: the kernel's instances have it again, and all that was asked for.
    pub(super) fn unwatched(&mut self, id: u32) {
        self.sets.to_kernel(id);
        self.tell_kernel();
    }

    /// Before a descriptor is closed: no epoll instance has it any more. One that is an instance itself may have others.
    pub(super) fn unwatch(&mut self, fd: c_int) {
        let own = TABLE.instance(fd).filter(|number| self.sets.has(*number));
        self.sets.close(fd, own.map(|number| (number, TABLE.other_instance(number, fd))));
    }

    /// What an instance is ready for by its members on the stack.
    pub(super) fn instance_events(&mut self, number: u32) -> c_short {
        let Self { sets, engine, sockets, .. } = self;
        let events = sets.instance_events(number, 0, &mut |id| bits(readiness(engine, sockets, id)));
        // All of them are bits of poll(2).
        c_short::try_from(events).unwrap_or(POLLIN)
    }

    /// Writes what is ready to the caller's list; how many.
    pub(super) fn collect(&mut self, number: u32, events: &mut [epoll_event]) -> usize {
        let Self { sets, engine, sockets, .. } = self;
        let most = events.len();
        let mut slots = events.iter_mut();
        let found = sets.collect(number, most, &mut |id| bits(readiness(engine, sockets, id)), &mut |event| {
            if let Some(slot) = slots.next() {
                *slot = epoll_event { events: event.events, u64: event.data };
            }
        });
        self.tell_kernel();
        found
    }

    /// Notes that the kernel's instance has reported members with EPOLLONESHOT.
    pub(super) fn spend(&mut self, number: u32, reported: &[epoll_event]) {
        if !self.sets.has_one_shot(number) {
            return;
        }
        let reported: Vec<Event> =
            reported.iter().map(|event| Event { events: event.events, data: event.u64 }).collect();
        self.sets.spend(number, &reported, spent_in_kernel);
    }
}
