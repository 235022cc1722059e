//! What is known of each descriptor: a table of atomics, so that a call of anything else than an accelerated socket costs
//! one load.
//!
//! A descriptor can be closed and opened behind this table's back (by the C library itself, or by a direct system call). So
//! an entry only says what is worth trying: each use of it gives the kernel's result also where the entry is wrong.

use crate::{descriptor, errno, page, thread, user};
use bypass_abi::page::Reason;
use libc::c_int;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU32,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

/// Descriptors that have an entry.
const SIZE: usize = 1 << 16;

/// An internet stream or datagram socket.
pub(crate) const SOCKET: u32 = 1;
/// It is a stream.
pub(crate) const STREAM: u32 = 1 << 1;
/// It is of IPv6.
pub(crate) const IPV6: u32 = 1 << 2;
/// O_NONBLOCK was set when it was last seen.
pub(crate) const NONBLOCK: u32 = 1 << 3;
/// An early receive call would give another result.
pub(crate) const PARTIAL: u32 = 1 << 4;
/// An epoll instance that had a socket added.
pub(crate) const EPOLL: u32 = 1 << 5;
/// Other descriptors, here or in another process, may refer to the same open file.
pub(crate) const SHARED: u32 = 1 << 6;
/// Whether a NAPI instance stands behind it has been looked up, or an epoll instance got its parameters.
pub(crate) const BUSY_POLL_SET: u32 = 1 << 7;

/// A socket that may be taken over by the stack in this process when it is first used.
pub(crate) const CANDIDATE: u32 = 1 << 8;
/// It is on the stack in this process.
pub(crate) const ON_STACK: u32 = 1 << 9;
/// It listens.
pub(crate) const LISTENS: u32 = 1 << 10;
/// It has an option that only the kernel knows.
pub(crate) const UNKNOWN_OPTION: u32 = 1 << 11;

/// A listener that was waited for.
pub(crate) const USED: u32 = 1 << 12;
/// A connection that stayed with the process that forked this one; nobody has asked for it here yet.
pub(crate) const LEFT: u32 = 1 << 15;
/// An epoll instance.
pub(crate) const INSTANCE: u32 = 1 << 13;
/// This library's own: the program may not close it.
pub(crate) const OWN: u32 = 1 << 14;

/// What carries a socket's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    /// The kernel, untouched.
    Kernel,
    /// The kernel's socket, with a spin before a blocking call sleeps.
    Spin,
    /// The stack in this process; or it may be, from the next call on.
    Stack,
}

/// What is known of one descriptor.
pub(crate) struct Entry {
    /// Flags above; 0: nothing of ours.
    state: AtomicU32,
    /// Generation in the upper 16 bits, spinning threads below; [`CLOSING`] while a thread closes it.
    visitors: AtomicU32,
    /// While it is being closed: a copy of the descriptor for those that spin on it, plus 1.
    heir: AtomicI32,
    /// Of such a copy: who uses it.
    users: AtomicU32,
    /// Record in the status page, plus 1.
    record: AtomicU32,
    /// Number of its socket on the stack.
    socket: AtomicU32,
    /// The same for all descriptors of an open file of this process.
    file: AtomicU32,
    /// What listen was given.
    backlog: AtomicU32,
}

const CLOSING: u32 = 1 << 15;
const COUNT: u32 = CLOSING - 1;
const GENERATION: u32 = 1 << 16;

static TABLE: [Entry; SIZE] = [const { Entry::new() }; SIZE];
/// Whether sockets are left to the kernel from now on: see [`leave_all`].
static HAS_LEFT: AtomicBool = AtomicBool::new(false);
/// Open files so far.
static FILES: AtomicU32 = AtomicU32::new(0);
/// One more than the highest descriptor that ever had an entry, but for [`OWN`] ones; and with those, which have high numbers.
static HIGHEST: AtomicU32 = AtomicU32::new(0);
static HIGHEST_OWN: AtomicU32 = AtomicU32::new(0);

impl Entry {
    const fn new() -> Self {
        Self {
            state: AtomicU32::new(0),
            visitors: AtomicU32::new(0),
            heir: AtomicI32::new(0),
            users: AtomicU32::new(0),
            record: AtomicU32::new(0),
            socket: AtomicU32::new(0),
            file: AtomicU32::new(0),
            backlog: AtomicU32::new(0),
        }
    }

    #[inline(always)]
    pub(crate) fn has_any(&self, flags: u32) -> bool {
        self.state.load(Relaxed) & flags != 0
    }

    /// The number of its socket on the stack.
    #[inline(always)]
    pub(crate) fn on_stack(&self) -> Option<u32> {
        (self.state.load(Acquire) & ON_STACK != 0).then(|| self.socket.load(Relaxed))
    }

    #[inline(always)]
    pub(crate) fn has(&self, flags: u32) -> bool {
        self.state.load(Relaxed) & flags == flags
    }

    pub(crate) fn set(&self, flags: u32) {
        self.state.fetch_or(flags, Relaxed);
    }

    pub(crate) fn clear(&self, flags: u32) {
        self.state.fetch_and(!flags, Relaxed);
    }

    /// The same for all descriptors of an open file.
    pub(crate) fn file(&self) -> u32 {
        self.file.load(Relaxed)
    }

    /// Record in the status page.
    pub(crate) fn record(&self) -> Option<usize> {
        (self.record.load(Relaxed) as usize).checked_sub(1)
    }

    pub(crate) fn backend(&self) -> Backend {
        let state = self.state.load(Relaxed);
        if state & (SOCKET | NONBLOCK | PARTIAL | CANDIDATE | ON_STACK) == SOCKET {
            Backend::Spin
        } else if state & (CANDIDATE | ON_STACK) != 0 {
            Backend::Stack
        } else {
            Backend::Kernel
        }
    }
}

/// The entry of a descriptor that has one.
#[inline(always)]
pub(crate) fn entry(fd: c_int) -> Option<&'static Entry> {
    TABLE.get(usize::try_from(fd).ok()?)
}

/// The entry of a blocking socket that spins before it sleeps. This is all that a call of another descriptor pays for.
#[inline(always)]
pub(crate) fn spinning(fd: c_int) -> Option<&'static Entry> {
    entry(fd).filter(|entry| entry.backend() == Backend::Spin)
}

/// Whether the descriptor is a socket of ours, blocking or not, or an epoll instance with one.
#[inline(always)]
pub(crate) fn is_socket(fd: c_int) -> bool {
    entry(fd).is_some_and(|entry| entry.has_any(SOCKET | EPOLL))
}

/// Notes a new descriptor with its flags; [`ON_STACK`]: it is to come there at once.
pub(crate) fn open(fd: c_int, flags: u32) {
    let Some(entry) = entry(fd) else {
        if flags & SOCKET != 0 {
            page::fall_back(None, Reason::LargeDescriptor);
        }
        return;
    };
    forget(entry);
    if flags & (SOCKET | ON_STACK) == SOCKET && has_left() {
        return;
    }
    let highest = if flags & OWN == 0 { &HIGHEST } else { &HIGHEST_OWN };
    if flags != 0 {
        highest.fetch_max(fd.unsigned_abs() + 1, Relaxed);
    }
    entry.file.store(FILES.fetch_add(1, Relaxed) + 1, Relaxed);
    entry.state.store(flags & !ON_STACK, Relaxed);
    if flags & SOCKET != 0 {
        let record = page::list(fd, flags).map_or(0, |record| u32::try_from(record + 1).unwrap_or(0));
        entry.record.store(record, Relaxed);
    }
}

/// Leaves all sockets to the kernel, but for those that are on the stack in this process already, and those to come.
#[cold]
pub(crate) fn leave_all() {
    if !page::is_own_process() || HAS_LEFT.swap(true, Relaxed) {
        return;
    }
    // Instances may have sockets of the stack.
    let kept = if user::is_enabled() { INSTANCE | EPOLL } else { INSTANCE };
    for entry in used().filter(|entry| !entry.has_any(ON_STACK | OWN)) {
        if entry.backend() != Backend::Kernel {
            page::fall_back(Some(entry), Reason::Sandbox);
        }
        entry.state.fetch_and(kept, Relaxed);
    }
}

/// Whether [`leave_all`] was called.
pub(crate) fn has_left() -> bool {
    HAS_LEFT.load(Relaxed)
}

/// Notes that a socket of ours was added to an epoll instance.
pub(crate) fn add_to_epoll(fd: c_int) {
    if entry(fd).is_some_and(|entry| !entry.has(INSTANCE)) {
        open(fd, INSTANCE);
    }
    if let Some(entry) = entry(fd).filter(|entry| !entry.has(EPOLL)) {
        entry.set(EPOLL);
    }
}

/// The number of an epoll instance: one for all of its descriptors.
pub(crate) fn instance(fd: c_int) -> Option<u32> {
    entry(fd).filter(|entry| entry.has(INSTANCE)).map(Entry::file)
}

/// A descriptor of an epoll instance, but not this one.
pub(crate) fn other_instance(number: u32, but: c_int) -> Option<c_int> {
    let all = used().enumerate().filter_map(|(fd, entry)| Some((c_int::try_from(fd).ok()?, entry)));
    let mut same = all.filter(|(_, entry)| entry.has(INSTANCE) && entry.file.load(Relaxed) == number);
    same.find(|(fd, _)| *fd != but).map(|(fd, _)| fd)
}

/// Descriptors of this library in a range, the lowest first.
pub(crate) fn own(first: u32, last: u32) -> impl Iterator<Item = u32> {
    let all = (0..).zip(all()).skip_while(move |(fd, _)| *fd < first).take_while(move |(fd, _)| *fd <= last);
    all.filter(|(_, entry)| entry.has(OWN)).map(|(fd, _)| fd)
}

/// Notes that a descriptor is none of ours.
fn forget(entry: &Entry) {
    entry.state.store(0, Relaxed);
    let record = entry.record.swap(0, Relaxed);
    if let Some(record) = (record as usize).checked_sub(1) {
        page::unlist(record);
    }
}

/// Notes that a number turned out to be no socket.
pub(crate) fn not_a_socket(entry: &Entry) {
    forget(entry);
}

/// Notes that `new` is a copy of `old`.
pub(crate) fn duplicate(old: c_int, new: c_int) {
    if old == new || new < 0 {
        return;
    }
    let state = entry(old).map_or(0, |entry| entry.state.load(Relaxed));
    if state == 0 {
        if let Some(entry) = entry(new).filter(|entry| entry.state.load(Relaxed) != 0) {
            forget(entry);
        }
        return;
    }
    if let Some(entry) = entry(old) {
        entry.set(SHARED);
    }
    open(new, state | SHARED);
    if let (Some(from), Some(to)) = (entry(old), entry(new)) {
        to.file.store(from.file.load(Relaxed), Relaxed);
        to.backlog.store(from.backlog.load(Relaxed), Relaxed);
        if let Some(id) = from.on_stack() {
            to.socket.store(id, Relaxed);
            user::duplicated(from);
            to.state.fetch_or(ON_STACK, Release);
        }
    }
}

/// All descriptors of the same open file.
pub(crate) fn same(entry: &'static Entry) -> impl Iterator<Item = &'static Entry> {
    let file = entry.file.load(Relaxed);
    let is_alone = !entry.has(SHARED);
    let others = used().take(if is_alone { 0 } else { SIZE });
    let same = others.filter(move |other| other.has_any(SOCKET) && other.file.load(Relaxed) == file);
    same.chain(is_alone.then_some(entry))
}

/// How many descriptors have the same open file.
pub(crate) fn count_same(entry: &'static Entry) -> u32 {
    u32::try_from(same(entry).count()).unwrap_or(1).max(1)
}

/// Changes flags of all descriptors of an open file.
pub(crate) fn set_all(entry: &'static Entry, set: u32, clear: u32) {
    for one in same(entry) {
        let _ = one.state.fetch_update(Release, Relaxed, |now| Some(now & !clear | set));
    }
}

/// All descriptors of an open file are a socket on the stack.
pub(crate) fn put_on_stack(entry: &'static Entry, id: u32) {
    for one in same(entry) {
        one.socket.store(id, Relaxed);
    }
    set_all(entry, ON_STACK, CANDIDATE);
}

/// The descriptors of a socket on the stack.
pub(crate) fn all_of_stack(id: u32) -> impl Iterator<Item = (c_int, &'static Entry)> {
    (0..).zip(used()).filter(move |(_, entry)| entry.on_stack() == Some(id))
}

/// One of them.
pub(crate) fn of_stack(id: u32) -> Option<(c_int, &'static Entry)> {
    all_of_stack(id).next()
}

/// Datagram sockets, or with `kind` [`LISTENS`] listeners whose option only the kernel knows, that the kernel carries for good, but not
/// this descriptor and its copies.
pub(crate) fn kernels(but: c_int, kind: u32) -> impl Iterator<Item = c_int> {
    let own = entry(but).map(Entry::file);
    let is_kind =
        move |entry: &Entry| if kind == LISTENS { entry.has(LISTENS | UNKNOWN_OPTION) } else { !entry.has(STREAM) };
    let is_one = move |entry: &Entry| entry.has(SOCKET) && is_kind(entry) && !entry.has_any(ON_STACK | CANDIDATE);
    let all = (0..).zip(used()).filter(move |(_, entry)| is_one(entry) && Some(entry.file()) != own);
    all.map(|(fd, _)| fd)
}

/// A descriptor of a listener on the stack that nobody has waited for.
pub(crate) fn unused(id: u32) -> Option<c_int> {
    of_stack(id).filter(|(_, entry)| !same(entry).any(|one| one.has_any(USED))).map(|(fd, _)| fd)
}

/// No socket is on the stack any more.
pub(crate) fn off_stack() {
    for entry in used().filter(|entry| entry.has_any(ON_STACK)) {
        entry.clear(ON_STACK);
        if entry.has(STREAM) && !entry.has_any(LISTENS) {
            entry.set(LEFT);
        }
    }
}

/// Notes that a socket listens.
pub(crate) fn listens(entry: &'static Entry, backlog: c_int) {
    entry.backlog.store(backlog.unsigned_abs(), Relaxed);
    set_all(entry, LISTENS | CANDIDATE, 0);
}

/// What listen was given.
pub(crate) fn backlog(entry: &Entry) -> usize {
    entry.backlog.load(Relaxed) as usize
}

/// Marks every socket that may share its open file with others.
pub(crate) fn mark_shared(flags: u32) {
    for entry in used().filter(|entry| entry.has(SOCKET | SHARED)) {
        entry.set(flags);
    }
}

/// Entries of the program's descriptors.
fn used() -> impl Iterator<Item = &'static Entry> {
    TABLE.iter().take(HIGHEST.load(Relaxed) as usize)
}

/// Those of this library's, too.
fn all() -> impl Iterator<Item = &'static Entry> {
    TABLE.iter().take(HIGHEST.load(Relaxed).max(HIGHEST_OWN.load(Relaxed)) as usize)
}

/// After a fork: this process has one thread, and shares its sockets with its parent.
pub(crate) fn forked() {
    for (fd, entry) in all().enumerate() {
        entry.visitors.store(0, Relaxed);
        entry.record.store(0, Relaxed);
        let fd = c_int::try_from(fd).unwrap_or(-1);
        // A handler of a signal may fork in the middle of a call that goes on with a copy.
        if entry.has_any(OWN) && entry.users.load(Relaxed) == 0 {
            descriptor::close(fd);
        }
        if entry.has(SOCKET) {
            entry.set(SHARED);
            let record = page::list(fd, entry.state.load(Relaxed)).and_then(|record| u32::try_from(record + 1).ok());
            entry.record.store(record.unwrap_or(0), Relaxed);
        }
    }
}

/// A thread's presence on a socket while it spins. Others that close the descriptor give it another one for the same
/// socket first, for a call that waits in the kernel keeps its socket, too.
#[derive(Clone, Copy)]
pub(crate) struct Visit {
    entry: &'static Entry,
    generation: u32,
}

impl Visit {
    pub(crate) fn begin(entry: &'static Entry) -> Self {
        let before = entry.visitors.fetch_add(1, SeqCst);
        let visit = Self { entry, generation: before & !COUNT };
        thread::visit(Some(visit));
        visit
    }

    /// Whether the descriptor still is what it was.
    #[inline(always)]
    pub(crate) fn is_valid(&self) -> bool {
        self.entry.visitors.load(SeqCst) & !COUNT == self.generation && self.generation & CLOSING == 0
    }

    /// Ends it. A visit that a signal handler's longjmp left behind is ended by the thread's next one, or by the close.
    pub(crate) fn end(self) {
        thread::visit(None);
        self.leave();
    }

    /// As [`Self::end`], for a thread that notes by itself what it visits.
    pub(crate) fn leave(self) {
        let _ = self.entry.visitors.fetch_update(SeqCst, SeqCst, |now| {
            let same = now & !COUNT & !CLOSING == self.generation & !CLOSING;
            (same && now & COUNT > 0).then(|| now - 1)
        });
    }

    /// Another descriptor for the same socket, where the closing thread left one. To be given back by [`release`].
    pub(crate) fn inherit(&self) -> Option<c_int> {
        let heir = self.entry.heir.load(SeqCst) - 1;
        let user = entry(heir)?;
        user.users.fetch_add(1, SeqCst);
        Some(heir)
    }

    fn is_of(&self, entry: &Entry) -> bool {
        std::ptr::eq(self.entry, entry)
    }
}

/// Gives back what [`Visit::inherit`] gave.
pub(crate) fn release(heir: c_int) {
    if entry(heir).is_some_and(|entry| entry.users.fetch_sub(1, SeqCst) == 1) {
        let errno = errno::get();
        // Whose last user this was.
        descriptor::close(heir);
        errno::set(errno);
    }
}

/// To be called before a descriptor is closed or replaced.
pub(crate) fn closing(fd: c_int) {
    let Some(entry) = entry(fd).filter(|entry| entry.state.load(Relaxed) != 0) else { return };
    // A child of vfork shares this memory, not the descriptors: what it closes stays open here.
    if !page::is_own_process() {
        return;
    }
    if entry.has_any(ON_STACK) {
        user::closed(fd, entry);
    } else if !entry.has_any(OWN) {
        user::forgotten(fd, entry);
    }
    if entry.visitors.load(SeqCst) & COUNT > 0 && !thread::visits(|visit| visit.is_of(entry)) {
        hand_over(fd, entry);
    }
    forget(entry);
}

/// Lets the threads that spin on a descriptor go on with a copy of it, and waits until none uses the number any more.
#[cold]
fn hand_over(fd: c_int, entry: &Entry) {
    /// Longer than a spinning thread takes for one attempt, and than it waits for a CPU; after that one call of it may hit another file.
    const PATIENCE_NS: u64 = 3_000_000_000;
    let errno = errno::get();
    let heir = descriptor::copy(fd);
    if let Some(user) = self::entry(heir) {
        user.users.store(1, SeqCst);
        entry.heir.store(heir + 1, SeqCst);
    }
    entry.visitors.fetch_or(CLOSING, SeqCst);
    let end = thread::now_ns() + PATIENCE_NS;
    while entry.visitors.load(SeqCst) & COUNT > 0 && thread::now_ns() < end {
        thread::pause();
    }
    let next = (entry.visitors.load(SeqCst) & !COUNT & !CLOSING).wrapping_add(GENERATION);
    entry.visitors.store(next, SeqCst);
    entry.heir.store(0, SeqCst);
    if self::entry(heir).is_some() {
        release(heir);
    } else if heir >= 0 {
        // Without an entry it has no users.
        descriptor::close(heir);
    }
    errno::set(errno);
}

/// To be called before a range of descriptors is closed.
pub(crate) fn closing_range(first: u32, last: u32) {
    let last = last.min(HIGHEST.load(Relaxed));
    let all = (first..=last).filter_map(|fd| c_int::try_from(fd).ok());
    all.filter(|fd| entry(*fd).is_some_and(|entry| !entry.has_any(OWN))).for_each(closing);
}
