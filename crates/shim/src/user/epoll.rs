//! epoll instances with sockets of the stack among their members. The kernel's instance goes on to have the others, and the
//! kernel's sockets of datagrams and listeners.

use super::wait::{CARRIER_CHANGED, For, Waited, finish, wait};
use super::{State, TURNS, Wakes, lock, take};
use crate::spin::Call;
use crate::table::{self, Entry};
use crate::{errno, real, thread};
use bypass_abi::page::{Kind, Outcome};
use libc::{
    EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLERR, EPOLLET, EPOLLEXCLUSIVE, EPOLLHUP, EPOLLIN, EPOLLONESHOT,
    EPOLLOUT, EPOLLRDNORM, EPOLLWAKEUP, EPOLLWRNORM, POLLIN, POLLRDNORM, c_int, c_short, epoll_event, pollfd, sigset_t,
    timespec,
};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;

/// Attempts between two that ask the kernel's instance.
const ATTEMPTS_A_KERNEL: u32 = 32;
/// How deep instances may be in others (EP_MAX_NESTS of the kernel).
const MOST_NESTED: u32 = 4;
/// What may be asked for together with EPOLLEXCLUSIVE.
const EXCLUSIVE_WITH: c_int =
    EPOLLIN | EPOLLOUT | EPOLLRDNORM | EPOLLWRNORM | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET | EPOLLEXCLUSIVE;
/// How long what the kernel said last is taken for true where the stack has something: a busy program asks it less often.
const KERNEL_NS: u64 = 5_000;
static NOW: timespec = timespec { tv_sec: 0, tv_nsec: 0 };

/// An internet socket, or another instance, in an epoll instance.
#[derive(Debug, Clone, Copy)]
struct Watch {
    /// On the stack; 0: still the kernel's.
    id: u32,
    /// It is an epoll instance of this number; 0: a socket.
    inner: u32,
    events: u32,
    data: u64,
    /// It is in the list of those that may be ready.
    is_listed: bool,
    /// EPOLLONESHOT has reported.
    is_spent: bool,
    /// The kernel's instance has it, too.
    in_kernel: bool,
}

/// What is known of an epoll instance.
#[derive(Debug, Default)]
pub(super) struct Set {
    /// One of its descriptors.
    fd: c_int,
    /// Instances that have it, with the descriptor by which they do.
    outer: Vec<(u32, c_int)>,
    /// How many members are instances.
    inner: usize,
    /// A member was added with EPOLLONESHOT.
    has_one_shot: bool,
    watches: HashMap<c_int, Watch>,
    /// Members that may be ready.
    list: VecDeque<c_int>,
    /// Members of the kernel's instance.
    in_kernel: usize,
    /// At least one member was added that the kernel alone has: no internet socket.
    has_others: bool,
    /// Sockets that are not on the stack.
    waiting: usize,
    kernel_in: u32,
    /// When the kernel's instance was asked last, ns.
    asked_ns: u64,
}

impl Set {
    /// Notes that a member may be ready.
    pub(super) fn list(&mut self, fd: c_int) {
        if let Some(watch) = self.watches.get_mut(&fd).filter(|watch| !watch.is_listed) {
            watch.is_listed = true;
            self.list.push_back(fd);
        }
    }

    /// In a forked child the kernel's members stay.
    pub(super) fn forked(&mut self) {
        self.watches.retain(|_, watch| watch.in_kernel);
        self.watches.values_mut().for_each(|watch| (watch.id, watch.is_listed) = (0, false));
        self.waiting = self.watches.len() - self.inner;
        self.list.clear();
    }
}

/// Changes a member of the kernel's instance.
fn in_kernel(set: c_int, what: c_int, fd: c_int, events: u32, data: u64) -> c_int {
    let mut event = epoll_event { events, u64: data };
    // SAFETY: an event.
    unsafe { real::epoll_ctl.get()(set, what, fd, &raw mut event) }
}

/// The members of a kernel's instance that have reported with EPOLLONESHOT: only the bits that ask for no event are left of them
/// (EP_PRIVATE_BITS; proc(5), /proc/pid/fdinfo).
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

/// What the kernel watches of a datagram socket or listener of the stack: all but that it can be written to.
fn kernel_events(events: u32) -> u32 {
    events & !(EPOLLOUT | EPOLLWRNORM).cast_unsigned()
}

/// epoll_ctl. None: as it is, in the kernel.
pub(crate) unsafe fn control(set: c_int, what: c_int, fd: c_int, event: *const epoll_event) -> Option<c_int> {
    if crate::thread::is_in_stack() {
        return None;
    }
    let is_socket = table::entry(fd).is_some_and(|entry| entry.has(table::SOCKET));
    let inner = table::instance(fd).unwrap_or(0);
    if what == EPOLL_CTL_ADD && is_socket {
        table::entry(fd).inspect(|entry| take::left(entry));
    }
    let mut locked = lock();
    let state = &mut *locked;
    let number = table::instance(set);
    if !is_socket && inner == 0 {
        if let Some(number) = number.filter(|_| what == EPOLL_CTL_ADD) {
            let set = state.set_of(number, set);
            set.in_kernel += 1;
            set.has_others = true;
        }
        return None;
    }
    let known = number.and_then(|number| state.sets.get(&number)?.watches.get(&fd)).copied();
    let id = table::entry(fd).and_then(Entry::on_stack).unwrap_or(0);
    if id == 0 && known.is_none_or(|known| known.id == 0) {
        // With the lock held: another thread may be about to take the socket to the stack.
        // SAFETY: passed on as it came.
        let done = unsafe { real::epoll_ctl.get()(set, what, fd, event.cast_mut()) };
        if done == 0 {
            table::add_to_epoll(set);
            // SAFETY: the kernel has read it.
            let event = unsafe { event.as_ref() }.map_or((0, 0), |event| (event.events, event.u64));
            state.note(set, what, (fd, inner), event);
        }
        return Some(done);
    }
    // A descriptor that is no instance gets the kernel's error.
    if number.is_none() && in_kernel(set, EPOLL_CTL_DEL, fd, 0, 0) != 0 && errno::get() != libc::ENOENT {
        return Some(-1);
    }
    table::add_to_epoll(set);
    let number = table::instance(set)?;
    let exclusive = EPOLLEXCLUSIVE.cast_unsigned();
    // SAFETY: null or an event, as of epoll_ctl(2).
    let (events, data) = unsafe { event.as_ref() }.map_or((0, 0), |event| (event.events, event.u64));
    let is_refused = match what {
        EPOLL_CTL_ADD => events & exclusive != 0 && events & !EXCLUSIVE_WITH.cast_unsigned() != 0,
        EPOLL_CTL_MOD => events & exclusive != 0 || known.is_some_and(|known| known.events & exclusive != 0),
        EPOLL_CTL_DEL => false,
        _ => true,
    };
    let error = match (what, known) {
        (EPOLL_CTL_ADD | EPOLL_CTL_MOD, _) if event.is_null() => libc::EFAULT,
        (EPOLL_CTL_ADD, Some(_)) => libc::EEXIST,
        (EPOLL_CTL_MOD | EPOLL_CTL_DEL, None) => libc::ENOENT,
        _ if is_refused => libc::EINVAL,
        _ => 0,
    };
    if error != 0 {
        errno::set(error);
        return Some(-1);
    }
    if what == EPOLL_CTL_DEL {
        state.drop_watch(number, fd, true);
        return Some(0);
    }
    let connected = table::entry(fd).is_some_and(|entry| entry.has(table::STREAM) && !entry.has(table::LISTENS));
    if let Some(entry) = table::entry(fd).filter(|entry| entry.has(table::LISTENS)) {
        entry.set(table::USED);
    }
    let has_kernel = !connected && in_kernel(set, what, fd, kernel_events(events), data) == 0;
    let entry = state.set_of(number, set);
    let is_listed = known.is_some_and(|known| known.is_listed);
    let watch = Watch { id, inner: 0, events, data, is_listed, is_spent: false, in_kernel: has_kernel };
    entry.watches.insert(fd, watch);
    entry.has_one_shot |= events & EPOLLONESHOT.cast_unsigned() != 0;
    if what == EPOLL_CTL_ADD {
        entry.in_kernel += usize::from(has_kernel);
        if let Some(socket) = state.socket(id) {
            socket.watched.push((number, fd));
        }
    }
    state.list(number, fd, 0);
    // A thread may wait for it already.
    state.turned();
    Some(0)
}

impl State {
    fn set_of(&mut self, number: u32, fd: c_int) -> &mut Set {
        self.sets.entry(number).or_insert_with(|| Set { fd, ..Set::default() })
    }

    /// Notes that a member of an instance may be ready, and so that instance in others.
    pub(super) fn list(&mut self, number: u32, fd: c_int, depth: u32) {
        let Some(set) = self.sets.get_mut(&number) else { return };
        set.list(fd);
        if !set.outer.is_empty() && depth < MOST_NESTED {
            for (outer, fd) in set.outer.clone() {
                self.list(outer, fd, depth + 1);
            }
        }
    }

    /// Notes a change of a member that is the kernel's so far, or of an instance among the members.
    fn note(&mut self, set: c_int, what: c_int, (fd, inner): (c_int, u32), (events, data): (u32, u64)) {
        let Some(number) = table::instance(set) else { return };
        if what == EPOLL_CTL_DEL {
            self.drop_watch(number, fd, false);
            return;
        }
        let entry = self.set_of(number, set);
        let watch = Watch { id: 0, inner, events, data, is_listed: false, is_spent: false, in_kernel: true };
        entry.has_one_shot |= events & EPOLLONESHOT.cast_unsigned() != 0;
        if entry.watches.insert(fd, watch).is_none() {
            entry.in_kernel += 1;
            entry.waiting += usize::from(inner == 0);
            entry.inner += usize::from(inner != 0);
        }
        if inner != 0 {
            // Listed anew also by MOD: it may be ready already.
            entry.list.retain(|listed| *listed != fd);
            let outer = &mut self.set_of(inner, fd).outer;
            outer.retain(|one| *one != (number, fd));
            outer.push((number, fd));
            self.list(number, fd, 0);
            self.turned();
        }
    }

    /// Removes a member; from the kernel's instance, too, where that has not been done.
    fn drop_watch(&mut self, number: u32, fd: c_int, from_kernel: bool) {
        let Some(entry) = self.sets.get_mut(&number) else { return };
        let Some(watch) = entry.watches.remove(&fd) else { return };
        entry.list.retain(|listed| *listed != fd);
        entry.in_kernel = entry.in_kernel.saturating_sub(usize::from(watch.in_kernel));
        entry.waiting = entry.waiting.saturating_sub(usize::from(watch.id == 0 && watch.inner == 0));
        entry.inner = entry.inner.saturating_sub(usize::from(watch.inner != 0));
        if watch.in_kernel && from_kernel {
            in_kernel(entry.fd, EPOLL_CTL_DEL, fd, 0, 0);
        }
        if let Some(socket) = self.socket(watch.id) {
            socket.watched.retain(|one| *one != (number, fd));
        }
        if let Some(inner) = self.sets.get_mut(&watch.inner) {
            inner.outer.retain(|one| *one != (number, fd));
        }
    }

    /// A socket came to the stack: epoll instances that have it ask there from now on.
    pub(super) fn watch(&mut self, id: u32, entry: &'static Entry) {
        let connected = entry.has(table::STREAM) && !entry.has(table::LISTENS);
        let mut watched = Vec::new();
        for (number, set) in &mut self.sets {
            let mut members = Vec::new();
            let instance = set.fd;
            for (fd, watch) in set
                .watches
                .iter_mut()
                .filter(|(fd, watch)| watch.id != id && table::entry(**fd).and_then(Entry::on_stack) == Some(id))
            {
                set.waiting = set.waiting.saturating_sub(usize::from(watch.id == 0));
                watch.id = id;
                members.push(*fd);
                if connected && watch.in_kernel {
                    watch.in_kernel = false;
                    set.in_kernel = set.in_kernel.saturating_sub(1);
                    in_kernel(instance, EPOLL_CTL_DEL, *fd, 0, 0);
                } else if watch.in_kernel {
                    in_kernel(instance, EPOLL_CTL_MOD, *fd, kernel_events(watch.events), watch.data);
                }
            }
            watched.extend(members.into_iter().map(|fd| (*number, fd)));
        }
        for (number, fd) in &watched {
            self.list(*number, *fd, 0);
        }
        if let Some(socket) = self.socket(id) {
            socket.watched.extend(watched);
        }
    }

    /// A socket leaves the stack: the kernel's instances have it again, and all that was asked for.
    pub(super) fn unwatched(&mut self, id: u32) {
        let watched = self.socket(id).map(|socket| std::mem::take(&mut socket.watched)).unwrap_or_default();
        for (number, fd) in watched {
            let Some(set) = self.sets.get_mut(&number) else { continue };
            let instance = set.fd;
            let Some(watch) = set.watches.get_mut(&fd) else { continue };
            watch.id = 0;
            set.waiting += 1;
            if std::mem::replace(&mut watch.in_kernel, true) {
                // EPOLL_CTL_MOD cannot change one with EPOLLEXCLUSIVE.
                in_kernel(instance, EPOLL_CTL_DEL, fd, 0, 0);
            } else {
                set.in_kernel += 1;
            }
            let events = if watch.is_spent { EPOLLONESHOT.cast_unsigned() } else { watch.events };
            in_kernel(instance, EPOLL_CTL_ADD, fd, events, watch.data);
        }
    }

    /// Before a descriptor is closed: no epoll instance has it any more. One that is an instance itself may have others.
    pub(super) fn unwatch(&mut self, fd: c_int) {
        if let Some(number) = table::instance(fd)
            && let Some(set) = self.sets.get_mut(&number)
        {
            match table::other_instance(number, fd) {
                Some(other) => set.fd = other,
                None => {
                    let members: Vec<c_int> = set.watches.keys().copied().collect();
                    members.into_iter().for_each(|member| self.drop_watch(number, member, false));
                    self.sets.remove(&number);
                }
            }
        }
        let having = |(number, set): (&u32, &Set)| set.watches.contains_key(&fd).then_some(*number);
        let sets: Vec<u32> = self.sets.iter().filter_map(having).collect();
        for set in sets {
            self.drop_watch(set, fd, false);
        }
    }

    /// What a member of an instance is ready for, of what it was asked for.
    fn member_events(&mut self, number: u32, fd: c_int, depth: u32) -> u32 {
        let watch = self.sets.get(&number).and_then(|set| set.watches.get(&fd)).copied();
        let Some(watch) = watch.filter(|watch| !watch.is_spent) else { return 0 };
        let ready = match (watch.inner, watch.id) {
            (0, 0) => 0,
            (0, id) => self.readiness(id),
            (inner, _) => self.instance_events(inner, depth + 1),
        };
        let always = (EPOLLERR | EPOLLHUP).cast_unsigned();
        u32::from(ready.cast_unsigned()) & (watch.events | always) & 0xffff
    }

    /// What an instance is ready for by its members on the stack.
    pub(super) fn instance_events(&mut self, number: u32, depth: u32) -> c_short {
        let listed: Vec<c_int> = match self.sets.get(&number) {
            Some(set) if depth <= MOST_NESTED => set.list.iter().copied().collect(),
            _ => return 0,
        };
        let is_ready = listed.into_iter().any(|fd| self.member_events(number, fd, depth) != 0);
        if is_ready { POLLIN | POLLRDNORM } else { 0 }
    }

    /// Writes what is ready to the caller's list; how many.
    fn collect(&mut self, number: u32, events: &mut [epoll_event]) -> usize {
        let mut found = 0;
        let Some(listed) = self.sets.get(&number).map(|set| set.list.len()) else { return 0 };
        for _ in 0..listed {
            if found >= events.len() {
                break;
            }
            let Some(set) = self.sets.get_mut(&number) else { break };
            let Some(fd) = set.list.pop_front() else { break };
            let Some(watch) = set.watches.get_mut(&fd) else { continue };
            watch.is_listed = false;
            let watch = *watch;
            let ready = self.member_events(number, fd, 0);
            if ready == 0 {
                continue;
            }
            if let Some(slot) = events.get_mut(found) {
                *slot = epoll_event { events: ready, u64: watch.data };
                found += 1;
            }
            let Some(set) = self.sets.get_mut(&number) else { break };
            if watch.events & EPOLLONESHOT.cast_unsigned() != 0 {
                if watch.in_kernel {
                    in_kernel(set.fd, EPOLL_CTL_MOD, fd, EPOLLONESHOT.cast_unsigned(), watch.data);
                }
                if let Some(watch) = set.watches.get_mut(&fd) {
                    watch.is_spent = true;
                }
            } else if watch.events & EPOLLET.cast_unsigned() == 0 {
                set.list(fd);
            }
        }
        found
    }

    /// Notes that the kernel's instance has reported members with EPOLLONESHOT.
    fn spend(&mut self, number: u32, reported: &[epoll_event]) {
        let Some(set) = self.sets.get_mut(&number).filter(|set| set.has_one_shot) else { return };
        let is_reported = |watch: &Watch| watch.in_kernel && reported.iter().any(|event| { event.u64 } == watch.data);
        let alike = set.watches.values().filter(|watch| is_reported(watch)).count();
        // An event has no more than the member's data, which others may have, too.
        let spent = (alike > reported.len() || set.has_others).then(|| spent_in_kernel(set.fd));
        for (fd, watch) in &mut set.watches {
            if watch.events & EPOLLONESHOT.cast_unsigned() != 0 && is_reported(watch) {
                watch.is_spent |= spent.as_ref().is_none_or(|spent| spent.contains(fd));
            }
        }
    }

    /// Whether the kernel's instance has all that is in this one.
    pub(super) fn is_kernels(&self, number: u32, depth: u32) -> bool {
        self.sets.get(&number).is_none_or(|set| {
            let members = || set.watches.values().filter(|watch| watch.inner != 0);
            set.waiting + set.inner == set.watches.len()
                && (set.inner == 0
                    || depth < MOST_NESTED && members().all(|watch| self.is_kernels(watch.inner, depth + 1)))
        })
    }
}

/// The waiting calls of epoll, where the instance has sockets of the stack or may get some. None: the kernel's.
pub(crate) unsafe fn wait_epoll(
    set: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout_ns: u64,
    mask: *const sigset_t,
) -> Option<c_int> {
    let most = usize::try_from(most).ok().filter(|most| *most > 0 && !events.is_null())?;
    let number = table::instance(set)?;
    // SAFETY: the caller's promise: room for `most` events.
    let events = unsafe { std::slice::from_raw_parts_mut(events, most) };
    again_where_turned(timeout_ns, |timeout_ns| {
        let mut turns = TURNS.load(Relaxed);
        take_members(number, 0);
        let is_kernels = lock().is_kernels(number, 0);
        if is_kernels && (timeout_ns == 0 || table::has_left()) {
            return None;
        }
        let call = Call::new(Kind::Epoll, None);
        let mut attempt = |asks: bool| match is_kernels {
            true => attempt_in_kernel((set, number), events, mask, &mut turns),
            false => attempt_once((set, number), events, mask, asks),
        };
        let first = attempt(timeout_ns == 0);
        if first.is_some() || timeout_ns == 0 {
            call.count(Outcome::Ready);
            return Some(Waited::Done(first.unwrap_or(Ok(0))));
        }
        let kernel = [pollfd { fd: set, events: POLLIN, revents: 0 }];
        let wakes = if is_kernels { Wakes::Turns } else { Wakes::Any };
        // Instances without sockets are none of this library's.
        let spins = table::entry(set).is_some_and(|entry| entry.has(table::EPOLL));
        let what = For { wakes, spins, kernel: &kernel, mask, timeout_ns, by_any_signal: true };
        Some(wait(&call, &what, attempt))
    })
}

/// Makes a call that waits for several, and makes it again for the rest of its time where others have to be asked meanwhile. What it
/// returns; none: the kernel's.
pub(super) fn again_where_turned(
    timeout_ns: u64,
    mut call: impl FnMut(u64) -> Option<Waited<Result<c_int, c_int>>>,
) -> Option<c_int> {
    let before = errno::get();
    let began = if matches!(timeout_ns, 0 | u64::MAX) { 0 } else { thread::now_ns() };
    let mut rest_ns = timeout_ns;
    loop {
        match call(rest_ns)? {
            Waited::Done(Err(CARRIER_CHANGED)) if timeout_ns == u64::MAX => {}
            Waited::Done(Err(CARRIER_CHANGED)) => {
                rest_ns = timeout_ns.saturating_sub(thread::now_ns().saturating_sub(began));
            }
            Waited::TimedOut => return Some(finish(Waited::Done(Ok(0)), before, 0)),
            waited => return Some(finish(waited, before, 0)),
        }
    }
}

/// An attempt where the kernel's instance has all members.
fn attempt_in_kernel(
    (fd, number): (c_int, u32),
    events: &mut [epoll_event],
    mask: *const sigset_t,
    turns: &mut u32,
) -> Option<Result<c_int, c_int>> {
    let now = TURNS.load(Relaxed);
    if std::mem::replace(turns, now) != now && !lock().is_kernels(number, 0) {
        return Some(Err(CARRIER_CHANGED));
    }
    let most = c_int::try_from(events.len()).unwrap_or(c_int::MAX);
    // SAFETY: room for the events.
    let found = unsafe { real::epoll_wait.get()(fd, events.as_mut_ptr(), most, 0) };
    match usize::try_from(found) {
        Ok(0) => let_signals_in(mask),
        Ok(count) => {
            lock().spend(number, events.get(..count).unwrap_or_default());
            Some(Ok(found))
        }
        Err(_) => Some(Err(errno::get())),
    }
}

/// The mask of a call may let a signal in that has come before.
fn let_signals_in(mask: *const sigset_t) -> Option<Result<c_int, c_int>> {
    // SAFETY: no descriptors, a time, and the caller's mask.
    let is_handled = !mask.is_null() && unsafe { real::ppoll.get()(std::ptr::null_mut(), 0, &raw const NOW, mask) } < 0;
    is_handled.then(|| Err(errno::get()))
}

/// Takes over the members that may be.
pub(super) fn take_members(number: u32, depth: u32) {
    let members: Vec<(c_int, u32)> = match lock().sets.get(&number) {
        Some(set) if set.waiting + set.inner > 0 && depth <= MOST_NESTED => {
            let waiting = set.watches.iter().filter(|(_, watch)| watch.id == 0);
            waiting.map(|(fd, watch)| (*fd, watch.inner)).collect()
        }
        _ => return,
    };
    for (fd, inner) in members {
        if inner != 0 {
            take_members(inner, depth + 1);
        } else if let Some(entry) = super::entry(fd) {
            let _ = take::used(fd, entry);
        }
    }
}

fn attempt_once(
    (fd, number): (c_int, u32),
    events: &mut [epoll_event],
    mask: *const sigset_t,
    asks: bool,
) -> Option<Result<c_int, c_int>> {
    let mut locked = lock();
    locked.poll();
    let found = locked.collect(number, events);
    let Some(set) = locked.sets.get_mut(&number) else { return Some(Err(libc::EBADF)) };
    let is_time = set.kernel_in == 0;
    set.kernel_in = if is_time { ATTEMPTS_A_KERNEL } else { set.kernel_in - 1 };
    let mut asks = (asks && found == 0 || is_time) && (set.in_kernel > 0 || !mask.is_null());
    if set.has_others && (asks || found > 0) {
        // A ready pipe is reported beside a ready socket.
        let now = thread::now_ns();
        asks |= now - set.asked_ns >= KERNEL_NS;
        set.asked_ns = if asks { now } else { set.asked_ns };
    }
    drop(locked);
    let count = |found: usize| c_int::try_from(found).unwrap_or(c_int::MAX);
    if !asks || found == events.len() {
        return (found > 0).then_some(Ok(count(found)));
    }
    let (known, rest) = events.split_at_mut(found);
    // SAFETY: room for the rest of the events.
    let more = unsafe { real::epoll_wait.get()(fd, rest.as_mut_ptr(), count(rest.len()), 0) };
    let Ok(more) = usize::try_from(more) else { return Some(Err(errno::get())) };
    if more > 0 {
        // One of the kernel's sockets may be ready: receive calls ask them.
        let mut state = lock();
        state.hint = state.hint.wrapping_add(1);
        state.spend(number, rest.get(..more).unwrap_or_default());
        drop(state);
        return Some(Ok(count(found + merge(known, rest, more))));
    }
    if found > 0 {
        return Some(Ok(count(found)));
    }
    let_signals_in(mask)
}

/// A socket that both report is one event; how many of the kernel's are left.
fn merge(known: &mut [epoll_event], rest: &mut [epoll_event], more: usize) -> usize {
    let mut kept = 0;
    for at in 0..more {
        let Some(event) = rest.get(at).copied() else { break };
        let data = event.u64;
        match known.iter_mut().find(|one| one.u64 == data) {
            Some(one) => one.events |= event.events,
            None => {
                if let Some(slot) = rest.get_mut(kept) {
                    *slot = event;
                }
                kept += 1;
            }
        }
    }
    kept
}
