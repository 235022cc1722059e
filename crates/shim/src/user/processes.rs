//! Before and after descriptors get to another process, or to the next program of this one.

use super::release::give_back;
use super::state::{Locked, State, entry, is_enabled, lock};
use super::{service, wait};
use crate::table::{self, TABLE};
use crate::{descriptor, errno, kernel, page, thread};
use bypass_abi::page::Reason;
use descriptors::{Kind, Leaving, Transfer};
use libc::c_int;
use std::cell::RefCell;
use xsk::Backend;

/// The most rounds of frames before connections move.
const MOST_ROUNDS: u32 = 16;

impl State {
    /// Sockets leave the stack before a transfer of the descriptors that `are_meant`.
    fn transfer(&mut self, transfer: Transfer, are_meant: impl Fn(c_int) -> bool) {
        let ids = self.sockets.ids(|_| true).into_iter();
        let leaving = |id| {
            let kind = self.sockets.get(id)?.handle.kind();
            Some((id, TABLE.leaving(id, kind, transfer, &are_meant)?))
        };
        let (moved, given): (Vec<_>, Vec<_>) =
            ids.filter_map(leaving).partition(|(_, leaving)| *leaving == Leaving::HandOver);
        if !moved.is_empty() {
            // What has come by now is part of what moves. A flood of frames does not keep the lock.
            let _ = (0..MOST_ROUNDS).take_while(|_| self.poll()).count();
        }
        moved.into_iter().for_each(|(id, _)| _ = self.hand_over(id));
        for (id, _) in given {
            if let Some((fd, _)) = TABLE.of_stack(id) {
                give_back(self, fd, id, table::CANDIDATE, 0);
            }
        }
    }

    /// Lets go of the interface, where nothing is on the stack: the first process that waits for a listener takes it.
    fn leave_interface(&mut self) {
        let is_xdp = self.engine.as_ref().is_some_and(|engine| engine.backend() != Backend::Packet);
        if is_xdp && self.sockets.is_empty() && self.orphans.is_empty() {
            self.engine = None;
            self.descriptors.clear();
            service::wake();
        }
    }
}

/// Gives the socket of one descriptor to the kernel because of `reason`.
#[cold]
pub(crate) fn to_kernel(fd: c_int, reason: Reason) {
    let Some((entry, id)) = entry(fd).and_then(|entry| Some((entry, entry.on_stack()?))) else { return };
    let errno = errno::get();
    lock().transfer(Transfer::One, |one| one == fd);
    if entry.on_stack() == Some(id) {
        page::left_behind(entry, reason);
    }
    errno::set(errno);
}

/// Before a program is started that shares the descriptors without FD_CLOEXEC, or, where it is not known which it gets, all.
pub(crate) fn before_spawn(is_any: bool) {
    before(Transfer::Spawn, |fd| is_any || !kernel::closes_on_exec(fd));
}

/// Before an exec the kernel gets all sockets, and closes those with FD_CLOEXEC; a failed exec brings some back.
pub(crate) fn before_exec() {
    before(Transfer::Exec, |_| true);
}

fn before(transfer: Transfer, are_meant: impl Fn(c_int) -> bool) {
    if is_enabled() && !thread::is_in_stack() && page::is_own_process() {
        let errno = errno::get();
        lock().transfer(transfer, are_meant);
        errno::set(errno);
    }
}

thread_local! {
    /// The state, held while the process forks, so that the child finds it whole.
    static FORKING: RefCell<Option<Locked>> = const { RefCell::new(None) };
}

/// Before a fork: what parent and child will share is the kernel's.
pub(crate) extern "C-unwind" fn before_fork() {
    if is_enabled() && !thread::is_in_stack() {
        let errno = errno::get();
        let mut locked = lock();
        let has_connections = !locked.sockets.ids(|handle| handle.kind() == Kind::Connection).is_empty();
        locked.transfer(Transfer::Fork, |_| true);
        if !has_connections {
            locked.leave_interface();
        }
        FORKING.with(|forking| forking.replace(Some(locked)));
        errno::set(errno);
    }
}

pub(crate) extern "C-unwind" fn after_fork() {
    FORKING.with(|forking| drop(forking.take()));
}

/// After it, in the child: the parent keeps the interface, and what could not become the kernel's. The kernel sockets beside stay here.
pub(crate) fn forked() {
    let Some(mut state) = FORKING.with(RefCell::take) else { return };
    if let Some(engine) = state.engine.take() {
        for fd in engine.all_descriptors() {
            // The parent's stays open.
            descriptor::close(fd);
        }
        // Its memory is not inherited: nothing may touch it.
        std::mem::forget(engine);
        // The interface is the parent's.
        state.is_refused = true;
    }
    for orphan in state.orphans.drain(..) {
        descriptor::close(orphan.guard);
    }
    // The C library flushes them by itself.
    state.streams.clear();
    state.sockets.clear();
    state.waiters.clear();
    state.descriptors.clear();
    state.sets.fork();
    state.is_child = true;
    TABLE.off_stack();
    wait::forked();
    service::forked();
}
