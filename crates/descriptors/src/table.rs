//! What is known of each descriptor: a table of atomics, so that a call of anything else than an accelerated socket costs one
//! load, and so that handlers of signals may use it. Nothing here waits or allocates.
//!
//! A descriptor can be closed and opened behind this table's back (by the C library itself, or by a direct system call). So
//! an entry is only a hint at what is worth trying: each use of it gives the kernel's result also where the entry is wrong.

use crate::visit::{Visit, Visitors};
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

/// An internet stream or datagram socket.
pub const SOCKET: u32 = 1;
pub const STREAM: u32 = 1 << 1;
pub const IPV6: u32 = 1 << 2;
/// O_NONBLOCK was set when it was last seen.
pub const NONBLOCK: u32 = 1 << 3;
/// An early receive call would give another result.
pub const PARTIAL: u32 = 1 << 4;
/// An epoll instance that had a socket added.
pub const EPOLL: u32 = 1 << 5;
/// Other descriptors, here or in another process, may refer to the same open file.
pub const SHARED: u32 = 1 << 6;
/// Whether it has a NAPI instance has been looked up, or an epoll instance got its parameters.
pub const BUSY_POLL_SET: u32 = 1 << 7;
/// A socket that may be taken over by the stack in this process when it is first used.
pub const CANDIDATE: u32 = 1 << 8;
/// It is on the stack in this process.
pub const ON_STACK: u32 = 1 << 9;
pub const LISTENS: u32 = 1 << 10;
/// It has an option that only the kernel knows.
pub const UNKNOWN_OPTION: u32 = 1 << 11;
/// A listener that was waited for.
pub const USED: u32 = 1 << 12;
pub const INSTANCE: u32 = 1 << 13;
/// The library's own: the program may not close it.
pub const OWN: u32 = 1 << 14;
/// A connection that stayed with the process that forked this one; no call has asked for it here yet.
pub const LEFT: u32 = 1 << 15;

/// What carries a socket's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// The kernel, untouched.
    Kernel,
    /// The kernel's socket, with a spin before a blocking call sleeps.
    Spin,
    /// The stack in this process; or it may be, from the next call on.
    Stack,
}

#[derive(Debug)]
pub struct Entry {
    /// Flags above; 0: nothing to accelerate.
    state: AtomicU32,
    /// Threads that spin on it.
    pub visitors: Visitors,
    /// Record in the status page, plus 1.
    record: AtomicU32,
    /// Number of its socket on the stack.
    socket: AtomicU32,
    /// The same for all descriptors of an open file of this process.
    file: AtomicU32,
    /// What listen was given.
    backlog: AtomicU32,
}

impl Entry {
    const fn new() -> Self {
        Self {
            state: AtomicU32::new(0),
            visitors: Visitors::new(),
            record: AtomicU32::new(0),
            socket: AtomicU32::new(0),
            file: AtomicU32::new(0),
            backlog: AtomicU32::new(0),
        }
    }

    #[inline(always)]
    pub fn flags(&self) -> u32 {
        self.state.load(Relaxed)
    }

    #[inline(always)]
    pub fn has_any(&self, flags: u32) -> bool {
        self.flags() & flags != 0
    }

    #[inline(always)]
    pub fn has(&self, flags: u32) -> bool {
        self.flags() & flags == flags
    }

    pub fn set(&self, flags: u32) {
        self.state.fetch_or(flags, Relaxed);
    }

    pub fn clear(&self, flags: u32) {
        self.state.fetch_and(!flags, Relaxed);
    }

    #[inline(always)]
    pub fn on_stack(&self) -> Option<u32> {
        (self.state.load(Acquire) & ON_STACK != 0).then(|| self.socket.load(Relaxed))
    }

    /// The same for all descriptors of an open file.
    pub fn file(&self) -> u32 {
        self.file.load(Relaxed)
    }

    pub fn record(&self) -> Option<usize> {
        (self.record.load(Relaxed) as usize).checked_sub(1)
    }

    pub fn set_record(&self, record: Option<usize>) {
        let record = record.and_then(|record| u32::try_from(record + 1).ok());
        self.record.store(record.unwrap_or(0), Relaxed);
    }

    pub fn backlog(&self) -> usize {
        self.backlog.load(Relaxed) as usize
    }

    #[inline(always)]
    pub fn backend(&self) -> Backend {
        let state = self.flags();
        if state & (SOCKET | NONBLOCK | PARTIAL | CANDIDATE | ON_STACK) == SOCKET {
            Backend::Spin
        } else if state & (CANDIDATE | ON_STACK) != 0 {
            Backend::Stack
        } else {
            Backend::Kernel
        }
    }

    /// A connection of the stack, or what may become one: the kernel has no half of it.
    pub fn is_connection(&self) -> bool {
        self.has(STREAM) && !self.has(LISTENS)
    }

    /// Notes that the descriptor is none to accelerate; the record that is free by that.
    pub fn forget(&self) -> Option<usize> {
        self.state.store(0, Relaxed);
        (self.record.swap(0, Relaxed) as usize).checked_sub(1)
    }
}

/// What the status page is to show after a change.
#[derive(Debug, Default)]
#[must_use]
pub struct Shown<'t> {
    /// A record that is no longer used.
    pub free: Option<usize>,
    /// A socket that is to get a record.
    pub list: Option<&'t Entry>,
    /// A socket whose number is too large for the table.
    pub is_too_large: bool,
}

/// What becomes of a socket of the stack when one of its descriptors is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    pub id: u32,
    /// No other descriptor has it.
    pub is_last: bool,
}

/// The entries of all descriptors of a process below `SIZE`.
#[derive(Debug)]
pub struct Table<const SIZE: usize> {
    entries: [Entry; SIZE],
    /// Whether sockets are left to the kernel from now on: see [`Table::leave_all`].
    has_left: AtomicBool,
    /// Open files so far.
    files: AtomicU32,
    /// One more than the highest descriptor that ever had an entry, but for [`OWN`] ones.
    highest: AtomicU32,
    /// The same of [`OWN`] ones, which have high numbers.
    highest_own: AtomicU32,
}

impl<const SIZE: usize> Default for Table<SIZE> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const SIZE: usize> Table<SIZE> {
    pub const fn new() -> Self {
        Self {
            entries: [const { Entry::new() }; SIZE],
            has_left: AtomicBool::new(false),
            files: AtomicU32::new(0),
            highest: AtomicU32::new(0),
            highest_own: AtomicU32::new(0),
        }
    }

    #[inline(always)]
    pub fn entry(&self, fd: i32) -> Option<&Entry> {
        self.entries.get(usize::try_from(fd).ok()?)
    }

    #[inline(always)]
    pub fn socket(&self, fd: i32) -> Option<&Entry> {
        self.entry(fd).filter(|entry| entry.has(SOCKET))
    }

    /// The entry of a blocking socket that spins before it sleeps. This is all that a call of another descriptor pays for.
    #[inline(always)]
    pub fn spinning(&self, fd: i32) -> Option<&Entry> {
        self.entry(fd).filter(|entry| entry.backend() == Backend::Spin)
    }

    /// Whether the descriptor is an internet socket, blocking or not, or an epoll instance with one.
    #[inline(always)]
    pub fn is_socket(&self, fd: i32) -> bool {
        self.entry(fd).is_some_and(|entry| entry.has_any(SOCKET | EPOLL))
    }

    /// Notes a new descriptor with its flags; [`ON_STACK`]: it is to come there at once.
    pub fn open(&self, fd: i32, flags: u32) -> Shown<'_> {
        let Some(entry) = self.entry(fd) else {
            return Shown { is_too_large: flags & SOCKET != 0, ..Shown::default() };
        };
        let free = entry.forget();
        if flags & (SOCKET | ON_STACK) == SOCKET && self.has_left() {
            return Shown { free, ..Shown::default() };
        }
        let highest = if flags & OWN == 0 { &self.highest } else { &self.highest_own };
        if flags != 0 {
            highest.fetch_max(fd.unsigned_abs() + 1, Relaxed);
        }
        entry.file.store(self.files.fetch_add(1, Relaxed) + 1, Relaxed);
        entry.state.store(flags & !ON_STACK, Relaxed);
        Shown { free, list: (flags & SOCKET != 0).then_some(entry), is_too_large: false }
    }

    /// Notes that `new` is a copy of `old`. Where `old` is on the stack, no other thread may close it meanwhile.
    pub fn duplicate(&self, old: i32, new: i32) -> Shown<'_> {
        if old == new || new < 0 {
            return Shown::default();
        }
        let Some((from, state)) = self.entry(old).map(|from| (from, from.flags())).filter(|(_, state)| *state != 0)
        else {
            let free = self.entry(new).filter(|entry| entry.flags() != 0).and_then(Entry::forget);
            return Shown { free, ..Shown::default() };
        };
        from.set(SHARED);
        let shown = self.open(new, state | SHARED);
        if let Some(to) = self.entry(new) {
            to.file.store(from.file.load(Relaxed), Relaxed);
            to.backlog.store(from.backlog.load(Relaxed), Relaxed);
            if let Some(id) = from.on_stack() {
                to.socket.store(id, Relaxed);
                to.state.fetch_or(ON_STACK, Release);
            }
        }
        shown
    }

    /// A descriptor is closed: from here on it is no socket, and none that may come to the stack. None: it is not there.
    pub fn close_socket(&self, entry: &Entry) -> Option<Closed> {
        let id = entry.on_stack();
        entry.clear(ON_STACK | SOCKET | CANDIDATE);
        id.map(|id| Closed { id, is_last: !entry.has(SHARED) || self.of_stack(id).is_none() })
    }

    /// Leaves all sockets to the kernel, but for those that are on the stack in this process already, and those to come. Of others the
    /// flags `kept` stay; `each` gets those that were accelerated.
    pub fn leave_all(&self, kept: u32, each: impl Fn(&Entry)) {
        if self.has_left.swap(true, Relaxed) {
            return;
        }
        for entry in self.used().filter(|entry| !entry.has_any(ON_STACK | OWN)) {
            if entry.backend() != Backend::Kernel {
                each(entry);
            }
            entry.state.fetch_and(kept, Relaxed);
        }
    }

    /// Whether [`Self::leave_all`] was called.
    pub fn has_left(&self) -> bool {
        self.has_left.load(Relaxed)
    }

    /// Notes that a socket was added to an epoll instance.
    pub fn add_to_epoll(&self, fd: i32) -> Shown<'_> {
        let Some(entry) = self.entry(fd) else { return Shown::default() };
        let shown = if entry.has(INSTANCE) { Shown::default() } else { self.open(fd, INSTANCE) };
        if !entry.has(EPOLL) {
            entry.set(EPOLL);
        }
        shown
    }

    /// The number of an epoll instance: one for all of its descriptors.
    pub fn instance(&self, fd: i32) -> Option<u32> {
        self.entry(fd).filter(|entry| entry.has(INSTANCE)).map(Entry::file)
    }

    /// A descriptor of an epoll instance, but not this one.
    pub fn other_instance(&self, number: u32, but: i32) -> Option<i32> {
        let mut same = (0..).zip(self.used()).filter(|(_, entry)| entry.has(INSTANCE) && entry.file() == number);
        same.find(|(fd, _)| *fd != but).map(|(fd, _)| fd)
    }

    /// Descriptors of the library in a range, the lowest first.
    pub fn own(&self, first: u32, last: u32) -> impl Iterator<Item = u32> {
        let all = (0..).zip(self.all()).skip_while(move |(fd, _)| *fd < first).take_while(move |(fd, _)| *fd <= last);
        all.filter(|(_, entry)| entry.has(OWN)).map(|(fd, _)| fd)
    }

    /// Descriptors of a range that a close of all of it ends: not the library's own.
    pub fn closing(&self, first: u32, last: u32) -> impl Iterator<Item = i32> {
        let last = last.min(self.highest.load(Relaxed));
        let all = (first..=last).filter_map(|fd| i32::try_from(fd).ok());
        all.filter(|fd| self.entry(*fd).is_some_and(|entry| !entry.has_any(OWN)))
    }

    /// All sockets' descriptors of the same open file.
    pub fn same<'t>(&'t self, entry: &'t Entry) -> impl Iterator<Item = &'t Entry> {
        let file = entry.file();
        let is_alone = !entry.has(SHARED);
        let others = self.used().take(if is_alone { 0 } else { SIZE });
        let same = others.filter(move |other| other.has_any(SOCKET) && other.file() == file);
        same.chain(is_alone.then_some(entry))
    }

    /// Changes flags of all descriptors of an open file.
    pub fn set_all(&self, entry: &Entry, set: u32, clear: u32) {
        for one in self.same(entry) {
            let _ = one.state.fetch_update(Release, Relaxed, |now| Some(now & !clear | set));
        }
    }

    /// All descriptors of an open file are a socket on the stack.
    pub fn put_on_stack(&self, entry: &Entry, id: u32) {
        self.same(entry).for_each(|one| one.socket.store(id, Relaxed));
        self.set_all(entry, ON_STACK, CANDIDATE);
    }

    /// The descriptors of a socket on the stack.
    pub fn all_of_stack(&self, id: u32) -> impl Iterator<Item = (i32, &Entry)> {
        (0..).zip(self.used()).filter(move |(_, entry)| entry.on_stack() == Some(id))
    }

    pub fn of_stack(&self, id: u32) -> Option<(i32, &Entry)> {
        self.all_of_stack(id).next()
    }

    /// Datagram sockets, or with `kind` [`LISTENS`] listeners whose option only the kernel knows, that the kernel carries for good, but
    /// not this descriptor and its copies.
    pub fn kernels(&self, but: i32, kind: u32) -> impl Iterator<Item = i32> {
        let own = self.entry(but).map(Entry::file);
        let is_kind = move |entry: &Entry| {
            if kind == LISTENS { entry.has(LISTENS | UNKNOWN_OPTION) } else { !entry.has(STREAM) }
        };
        let is_one = move |entry: &Entry| entry.has(SOCKET) && is_kind(entry) && !entry.has_any(ON_STACK | CANDIDATE);
        let all = (0..).zip(self.used()).filter(move |(_, entry)| is_one(entry) && Some(entry.file()) != own);
        all.map(|(fd, _)| fd)
    }

    /// A descriptor of a listener on the stack that no thread has waited for.
    pub fn unused(&self, id: u32) -> Option<i32> {
        self.of_stack(id).filter(|(_, entry)| !self.same(entry).any(|one| one.has_any(USED))).map(|(fd, _)| fd)
    }

    pub fn listens(&self, entry: &Entry, backlog: i32) {
        entry.backlog.store(backlog.unsigned_abs(), Relaxed);
        self.set_all(entry, LISTENS | CANDIDATE, 0);
    }

    /// Marks every socket that may share its open file with others.
    pub fn mark_shared(&self, flags: u32) {
        self.used().filter(|entry| entry.has(SOCKET | SHARED)).for_each(|entry| entry.set(flags));
    }

    /// In a forked child no socket is on the stack any more: its connections stayed with the parent.
    pub fn off_stack(&self) {
        for entry in self.used().filter(|entry| entry.has_any(ON_STACK)) {
            entry.clear(ON_STACK);
            if entry.is_connection() {
                entry.set(LEFT);
            }
        }
    }

    /// In a forked child: it has one thread, and shares its sockets with its parent. `close` gets the library's own descriptors that
    /// are not used here; `list` gives a socket its record.
    pub fn fork(&self, close: impl Fn(i32), list: impl Fn(i32, &Entry)) {
        for (fd, entry) in (0..).zip(self.all()) {
            entry.set_record(None);
            // A handler of a signal may fork in the middle of a call that goes on with a copy.
            if !entry.visitors.fork() && entry.has_any(OWN) {
                close(fd);
            }
            if entry.has(SOCKET) {
                entry.set(SHARED);
                list(fd, entry);
            }
        }
    }

    /// Another descriptor for the same socket, where the closing thread left one; it has one user more.
    pub fn inherit(&self, visit: &Visit<'_>) -> Option<i32> {
        let heir = visit.heir();
        self.entry(heir)?.visitors.add_user();
        Some(heir)
    }

    /// Entries of the program's descriptors.
    fn used(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().take(self.highest.load(Relaxed) as usize)
    }

    /// Those of the library's, too.
    fn all(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().take(self.highest.load(Relaxed).max(self.highest_own.load(Relaxed)) as usize)
    }
}

#[cfg(test)]
mod tests;
