//! poll, and select by way of it, where sockets of the stack are among the descriptors.

use super::state::{TURNS, Wakes, entry, is_enabled, lock};
use super::take::{self, take_members};
use super::wait::{CARRIER_CHANGED, For, Waited, again_where_turned, wait};
use crate::spin::Call;
use crate::table::{self, TABLE};
use crate::time::NOW;
use crate::{errno, real};
use bypass_abi::page::{Kind, Outcome};
use descriptors::{Asking, Watched};
use libc::{c_int, pollfd, sigset_t};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// Entries that are kept on the stack; more need memory.
const FEW: usize = 128;
const NOTHING: pollfd = pollfd { fd: -1, events: 0, revents: 0 };
/// Calls of this process so far: calls that do not wait ask the kernel as often as attempts of one that does.
static CALLS: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Polled<'a> {
    pub(crate) fds: &'a mut [pollfd],
    pub(crate) timeout_ns: u64,
    pub(crate) mask: *const sigset_t,
    pub(crate) kind: Kind,
}

/// Takes over those of the descriptors that may be. Whether one is on the stack; none of them now, but perhaps later: `Some(false)`.
fn take_all(fds: &[pollfd]) -> Option<bool> {
    let (mut is_any, mut may_later) = (false, false);
    for one in fds {
        if let Some(entry) = entry(one.fd) {
            is_any |= take::used(one.fd, entry).is_some();
            may_later |= entry.has(table::CANDIDATE);
        } else if let Some(number) = TABLE.instance(one.fd) {
            take_members(number, 0);
            is_any |= !lock().sets.is_kernels(number, 0);
            may_later = true;
        }
    }
    (is_any || may_later && !TABLE.has_left()).then_some(is_any)
}

/// Whether others have to be asked than when the call looked.
fn has_turned(fds: &[pollfd], watched: &[Watched], is_kernels: bool) -> bool {
    fds.iter().zip(watched).any(|(fd, one)| {
        let is_instance = is_kernels && one.instance != 0;
        one.has_turned(&TABLE, fd.fd) || is_instance && !lock().sets.is_kernels(one.instance, 0)
    })
}

/// poll where sockets of the stack are among the descriptors, or may come to be. None: the kernel's.
pub(crate) fn poll(polled: &mut Polled<'_>) -> Option<c_int> {
    if !is_enabled() {
        return None;
    }
    again_where_turned(polled.timeout_ns, |timeout_ns| poll_until(polled, timeout_ns))
}

fn poll_until(polled: &mut Polled<'_>, timeout_ns: u64) -> Option<Waited<Result<c_int, c_int>>> {
    let mut turns = TURNS.load(Relaxed);
    let is_kernels = !take_all(polled.fds)?;
    if is_kernels && timeout_ns == 0 {
        return None;
    }
    let mut few = [Watched::NOTHING; FEW];
    let mut many = Vec::new();
    let watched = few_or_many(&mut few, &mut many, polled.fds.len(), Watched::NOTHING);
    for (one, fd) in watched.iter_mut().zip(polled.fds.iter()) {
        *one = Watched::new(&TABLE, (fd.fd, fd.events), polled.kind == Kind::Select);
    }
    let spins = polled.fds.iter().any(|fd| TABLE.is_socket(fd.fd));
    let mut asking = Asking::new(watched, !polled.mask.is_null(), || CALLS.fetch_add(1, Relaxed));
    let Asking { in_kernel, kernels_own, .. } = asking;
    let call = Call::new(polled.kind, None);
    let (fds, mask) = (&mut *polled.fds, polled.mask);
    let mut attempt = |watched: &[Watched], asks: bool| {
        fds.iter_mut().for_each(|fd| fd.revents = 0);
        let ready = if is_kernels { 0 } else { from_stack(fds, watched) };
        // Behind it: one that has left the stack is not closed.
        let now = TURNS.load(Relaxed);
        if std::mem::replace(&mut turns, now) != now && has_turned(fds, watched, is_kernels) {
            return Some(Err(CARRIER_CHANGED));
        }
        if is_kernels {
            return from_kernel(fds, watched, mask);
        }
        if !asking.asks_kernel(ready > 0, asks) {
            return (ready > 0).then_some(Ok(ready));
        }
        from_kernel(fds, watched, mask)
    };
    let first = attempt(watched, timeout_ns == 0 && kernels_own);
    if first.is_some() || timeout_ns == 0 {
        call.count(Outcome::Ready);
        return Some(Waited::Done(first.unwrap_or(Ok(0))));
    }
    let kernel: Vec<pollfd> = if in_kernel { watched.iter().map(asked).collect() } else { Vec::new() };
    let wakes = if is_kernels { Wakes::Turns } else { Wakes::Any };
    let what = For { wakes, spins, kernel: &kernel, mask, timeout_ns, by_any_signal: true };
    Some(wait(&call, &what, |asks| attempt(watched, asks)))
}

/// Room for entries: memory where they are many.
fn few_or_many<'a, T: Copy>(few: &'a mut [T; FEW], many: &'a mut Vec<T>, count: usize, empty: T) -> &'a mut [T] {
    match few.get_mut(..count) {
        Some(few) => few,
        None => {
            many.resize(count, empty);
            many
        }
    }
}

fn asked(one: &Watched) -> pollfd {
    pollfd { fd: one.kernel_fd, events: one.kernel_events, revents: 0 }
}

/// What the stack reports; how many are ready.
fn from_stack(fds: &mut [pollfd], watched: &[Watched]) -> c_int {
    let mut state = lock();
    state.poll();
    let mut ready = 0;
    for (fd, one) in fds.iter_mut().zip(watched) {
        fd.revents = match (one.id, one.instance) {
            (0, 0) => 0,
            (0, number) => state.instance_events(number) & one.ends,
            (id, _) => state.readiness(id) & one.ends,
        };
        ready += c_int::from(fd.revents != 0);
    }
    ready
}

/// Adds what the kernel reports; none where nothing is ready.
fn from_kernel(fds: &mut [pollfd], watched: &[Watched], mask: *const sigset_t) -> Option<Result<c_int, c_int>> {
    let mut few = [NOTHING; FEW];
    let mut many = Vec::new();
    let asked_of = few_or_many(&mut few, &mut many, fds.len(), NOTHING);
    asked_of.iter_mut().zip(watched).for_each(|(slot, one)| *slot = asked(one));
    // SAFETY: entries, a time and the caller's mask.
    let done = unsafe { real::ppoll.get()(asked_of.as_mut_ptr(), asked_of.len() as _, &raw const NOW, mask) };
    if done < 0 {
        return Some(Err(errno::get()));
    }
    let mut from_sockets = false;
    let mut ready = 0;
    for ((fd, asked), one) in fds.iter_mut().zip(asked_of.iter()).zip(watched) {
        fd.revents |= asked.revents & one.ends;
        from_sockets |= asked.revents != 0 && one.id != 0;
        ready += c_int::from(fd.revents != 0);
    }
    if from_sockets {
        let mut state = lock();
        state.hint = state.hint.wrapping_add(1);
    }
    (ready > 0).then_some(Ok(ready))
}

/// Waits for a connection to take bytes, as a send call does. Sets errno where it does not come.
pub(crate) fn wait_for_room(fd: c_int) -> bool {
    let nonblocking = entry(fd).is_some_and(|entry| entry.has(table::NONBLOCK));
    let id = entry(fd).and_then(table::Entry::on_stack).unwrap_or(0);
    let send_ns = lock().sockets.get(id).map_or(u64::MAX, |socket| socket.send_ns);
    let timeout_ns = if nonblocking { 0 } else { send_ns };
    let mut fds = [libc::pollfd { fd, events: libc::POLLOUT, revents: 0 }];
    let kind = Kind::Poll;
    let ready = poll(&mut Polled { fds: &mut fds, timeout_ns, mask: std::ptr::null(), kind });
    if ready == Some(0) {
        errno::set(libc::EAGAIN);
    }
    ready.is_none_or(|ready| ready > 0)
}
