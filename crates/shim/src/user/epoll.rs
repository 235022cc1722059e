//! Calls of epoll on instances with sockets of the stack; the crate `descriptors` has the instances' state machine.

use super::readiness::in_kernel;
use super::state::{TURNS, Wakes, lock};
use super::take::{self, take_members};
use super::wait::{CARRIER_CHANGED, For, Waited, again_where_turned, wait};
use crate::spin::Call;
use crate::table::{self, Entry, TABLE};
use crate::time::{self, NOW};
use crate::{errno, real};
use bypass_abi::page::{Kind, Outcome};
use descriptors::{Member, Refusal, What, kernel_events, refusal};
use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, POLLIN, c_int, epoll_event, pollfd, sigset_t};
use std::sync::atomic::Ordering::Relaxed;

/// epoll_ctl. None: as it is, in the kernel.
pub(crate) unsafe fn control(set: c_int, what: c_int, fd: c_int, event: *const epoll_event) -> Option<c_int> {
    if crate::thread::is_in_stack() {
        return None;
    }
    let is_socket = table::socket(fd).is_some();
    let inner = TABLE.instance(fd).unwrap_or(0);
    if what == EPOLL_CTL_ADD && is_socket {
        table::entry(fd).inspect(|entry| take::left(entry));
    }
    let mut locked = lock();
    let state = &mut *locked;
    let number = TABLE.instance(set);
    if !is_socket && inner == 0 {
        if let Some(number) = number.filter(|_| what == EPOLL_CTL_ADD) {
            state.sets.add_other(number, set);
        }
        return None;
    }
    let known = number.and_then(|number| state.sets.member(number, fd));
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
    let number = TABLE.instance(set)?;
    // SAFETY: null or an event, as of epoll_ctl(2).
    let (events, data) = unsafe { event.as_ref() }.map_or((0, 0), |event| (event.events, event.u64));
    let change = [(EPOLL_CTL_ADD, What::Add), (EPOLL_CTL_MOD, What::Modify), (EPOLL_CTL_DEL, What::Delete)];
    let change = change.into_iter().find(|(number, _)| *number == what).map(|(_, change)| change);
    if let Some(refusal) = refusal(change, known.as_ref(), (!event.is_null()).then_some(events)) {
        errno::set(match refusal {
            Refusal::Fault => libc::EFAULT,
            Refusal::Exists => libc::EEXIST,
            Refusal::Missing => libc::ENOENT,
            Refusal::Invalid => libc::EINVAL,
        });
        return Some(-1);
    }
    if what == EPOLL_CTL_DEL {
        state.sets.remove(number, fd, true);
        state.tell_kernel();
        return Some(0);
    }
    let connected = table::entry(fd).is_some_and(Entry::is_connection);
    if let Some(entry) = table::entry(fd).filter(|entry| entry.has(table::LISTENS)) {
        entry.set(table::USED);
    }
    let has_kernel = !connected && in_kernel(set, what, fd, kernel_events(events), data) == 0;
    let member = Member { id, inner: 0, events, data, in_kernel: has_kernel };
    if state.sets.insert((number, set), fd, member) {
        // A thread may wait for it already.
        state.turned();
    }
    Some(0)
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
    let number = TABLE.instance(set)?;
    // SAFETY: the caller's promise: room for `most` events.
    let events = unsafe { std::slice::from_raw_parts_mut(events, most) };
    again_where_turned(timeout_ns, |timeout_ns| {
        let mut turns = TURNS.load(Relaxed);
        take_members(number, 0);
        let is_kernels = lock().sets.is_kernels(number, 0);
        if is_kernels && (timeout_ns == 0 || TABLE.has_left()) {
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

/// An attempt where the kernel's instance has all members.
fn attempt_in_kernel(
    (fd, number): (c_int, u32),
    events: &mut [epoll_event],
    mask: *const sigset_t,
    turns: &mut u32,
) -> Option<Result<c_int, c_int>> {
    let now = TURNS.load(Relaxed);
    if std::mem::replace(turns, now) != now && !lock().sets.is_kernels(number, 0) {
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

fn attempt_once(
    (fd, number): (c_int, u32),
    events: &mut [epoll_event],
    mask: *const sigset_t,
    asks: bool,
) -> Option<Result<c_int, c_int>> {
    let mut locked = lock();
    locked.poll();
    let found = locked.collect(number, events);
    if !locked.sets.has(number) {
        return Some(Err(libc::EBADF));
    }
    let asks = locked.sets.asks_kernel(number, found, asks, !mask.is_null(), time::now_ns);
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
