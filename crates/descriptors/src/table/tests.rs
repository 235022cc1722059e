use super::*;
use crate::{Kind, Leaving, Transfer};
use random::SplitMix64;
use std::collections::{BTreeMap, BTreeSet};

const SIZE: usize = 24;
type Small = Table<SIZE>;

fn noted(table: &Small, fd: i32) -> &Entry {
    table.entry(fd).unwrap()
}

#[test]
fn a_number_is_what_was_opened_last() {
    let table = Small::new();
    let shown = table.open(5, SOCKET | STREAM | ON_STACK);
    assert!(std::ptr::eq(shown.list.unwrap(), noted(&table, 5)) && shown.free.is_none());
    noted(&table, 5).set_record(Some(3));
    assert_eq!(noted(&table, 5).flags(), SOCKET | STREAM, "it comes to the stack by another call");
    let shown = table.open(5, INSTANCE);
    assert_eq!((shown.free, shown.list.is_none()), (Some(3), true));
    assert_eq!((table.instance(5), noted(&table, 5).record()), (Some(noted(&table, 5).file()), None));
    assert!(table.open(24, SOCKET).is_too_large && !table.open(24, INSTANCE).is_too_large);
    assert!(table.entry(-1).is_none() && table.entry(24).is_none());
}

#[test]
fn who_carries_a_call_follows_from_the_flags() {
    let table = Small::new();
    for (flags, backend) in [
        (0, Backend::Kernel),
        (SOCKET, Backend::Spin),
        (SOCKET | STREAM | IPV6 | SHARED | USED | BUSY_POLL_SET, Backend::Spin),
        (SOCKET | NONBLOCK, Backend::Kernel),
        (SOCKET | PARTIAL, Backend::Kernel),
        (SOCKET | CANDIDATE, Backend::Stack),
        (SOCKET | CANDIDATE | NONBLOCK, Backend::Stack),
        (INSTANCE | EPOLL, Backend::Kernel),
    ] {
        let _ = table.open(3, flags);
        assert_eq!(noted(&table, 3).backend(), backend, "{flags:x}");
        assert_eq!(table.spinning(3).is_some(), backend == Backend::Spin);
    }
}

#[test]
fn after_a_sandbox_sockets_are_the_kernels_but_for_those_on_the_stack() {
    let table = Small::new();
    for (fd, flags) in [(3, SOCKET), (4, SOCKET | CANDIDATE), (5, SOCKET | STREAM), (6, INSTANCE | EPOLL), (20, OWN)] {
        let _ = table.open(fd, flags);
    }
    table.put_on_stack(noted(&table, 5), 1);
    let left = std::cell::Cell::new(0);
    (0..2).for_each(|_| table.leave_all(INSTANCE, |_| left.set(left.get() + 1)));
    assert_eq!((left.get(), table.has_left()), (2, true));
    let flags = [3, 4, 5, 6, 20].map(|fd| noted(&table, fd).flags());
    assert_eq!(flags, [0, 0, SOCKET | STREAM | ON_STACK, INSTANCE, OWN]);
    assert!(table.open(7, SOCKET).list.is_none() && table.open(8, SOCKET | ON_STACK).list.is_some());
}

#[test]
fn a_range_leaves_what_is_the_librarys_own() {
    let table = Small::new();
    for (fd, flags) in [(3, SOCKET), (6, OWN), (9, SOCKET), (20, OWN)] {
        let _ = table.open(fd, flags);
    }
    let closing: Vec<i32> = table.closing(2, u32::MAX).filter(|fd| noted(&table, *fd).flags() != 0).collect();
    assert_eq!(closing, [3, 9]);
    assert_eq!((table.own(0, 30).collect::<Vec<_>>(), table.own(7, 19).count()), (vec![6, 20], 0));
}

#[test]
fn datagram_sockets_of_the_kernel_and_an_instances_other_descriptors_are_found() {
    let table = Small::new();
    for (fd, flags) in [
        (3, SOCKET),
        (4, SOCKET | CANDIDATE),
        (5, SOCKET | STREAM),
        (6, SOCKET | STREAM | LISTENS | UNKNOWN_OPTION),
        (7, SOCKET),
        (10, INSTANCE),
    ] {
        let _ = table.open(fd, flags);
    }
    let _ = table.duplicate(7, 8);
    assert_eq!(table.kernels(7, 0).collect::<Vec<_>>(), [3], "not its own copies");
    assert_eq!(table.kernels(3, LISTENS).collect::<Vec<_>>(), [6]);
    let _ = table.duplicate(10, 11);
    let number = table.instance(10).unwrap();
    assert_eq!((table.instance(11), table.other_instance(number, 10)), (Some(number), Some(11)));
    assert_eq!(table.other_instance(number + 1, 10), None);
    let _ = table.add_to_epoll(12);
    assert!(noted(&table, 12).has(INSTANCE | EPOLL) && table.is_socket(12));
}

/// An open file of Linux.
#[derive(Debug, Clone)]
struct File {
    flags: u32,
    /// The process whose stack carries it, and its number there.
    carrier: Option<(usize, u32)>,
    /// A connection that could not be handed over.
    is_stuck: bool,
}

/// A process of Linux: descriptors with their open files; and what the table holds of it.
struct Process {
    fds: BTreeMap<i32, usize>,
    table: Small,
}

impl Process {
    fn free(&self) -> Option<i32> {
        (0..i32::try_from(SIZE).unwrap()).find(|fd| !self.fds.contains_key(fd))
    }
}

/// The memory that a forked child has.
fn copy_of(table: &Small) -> Small {
    let copy = Small::new();
    for (from, to) in table.entries.iter().zip(&copy.entries) {
        for (from, to) in [
            (&from.state, &to.state),
            (&from.record, &to.record),
            (&from.socket, &to.socket),
            (&from.file, &to.file),
            (&from.backlog, &to.backlog),
        ] {
            to.store(from.load(Relaxed), Relaxed);
        }
    }
    for (from, to) in
        [(&table.files, &copy.files), (&table.highest, &copy.highest), (&table.highest_own, &copy.highest_own)]
    {
        to.store(from.load(Relaxed), Relaxed);
    }
    copy
}

struct World {
    random: SplitMix64,
    files: Vec<File>,
    processes: Vec<Process>,
    /// Numbers of sockets so far.
    ids: u32,
}

impl World {
    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.random.below(u64::try_from(most).unwrap())).unwrap()
    }

    fn kind(&self, file: usize) -> Kind {
        match self.files[file].flags {
            flags if flags & STREAM == 0 => Kind::Datagrams,
            flags if flags & LISTENS != 0 => Kind::Listener,
            _ => Kind::Connection,
        }
    }

    fn open(&mut self, at: usize, flags: u32) -> Option<i32> {
        let fd = self.processes[at].free()?;
        let file = self.files.len();
        self.files.push(File { flags, carrier: None, is_stuck: false });
        self.processes[at].fds.insert(fd, file);
        let _ = self.processes[at].table.open(fd, flags);
        Some(fd)
    }

    fn put_on_stack(&mut self, at: usize, fd: i32) {
        let file = self.processes[at].fds[&fd];
        self.ids += 1;
        self.files[file].carrier = Some((at, self.ids));
        self.processes[at].table.put_on_stack(noted(&self.processes[at].table, fd), self.ids);
    }

    fn close(&mut self, at: usize, fd: i32) {
        let Process { fds, table } = &mut self.processes[at];
        let Some(file) = fds.remove(&fd) else { return };
        let is_last = !fds.values().any(|other| *other == file);
        let entry = noted(table, fd);
        let expected = self.files[file].carrier.filter(|carrier| carrier.0 == at).map(|(_, id)| Closed { id, is_last });
        assert_eq!(table.close_socket(entry), expected, "{fd} {entry:?}");
        // Another thread that is about to take it finds nothing.
        assert!(!entry.has_any(SOCKET | CANDIDATE | ON_STACK));
        if expected.is_some_and(|closed| closed.is_last) {
            self.files[file].carrier = None;
        }
        entry.forget();
    }

    fn duplicate(&mut self, at: usize, from: i32, to: i32) {
        if from == to {
            return;
        }
        self.close(at, to);
        let Process { fds, table } = &mut self.processes[at];
        let _ = table.duplicate(from, to);
        let file = fds.get(&from).copied();
        file.map(|file| fds.insert(to, file));
    }

    /// What leaves the stack of a process, as the machine has it.
    fn transfer(&mut self, at: usize, transfer: Transfer, are_meant: impl Fn(i32) -> bool) {
        let ids: BTreeMap<u32, usize> = (0..self.files.len())
            .filter_map(|file| self.files[file].carrier.filter(|carrier| carrier.0 == at).map(|(_, id)| (id, file)))
            .collect();
        for (id, file) in ids {
            let leaving = self.processes[at].table.leaving(id, self.kind(file), transfer, &are_meant);
            let Some(leaving) = leaving else { continue };
            let fails = leaving == Leaving::HandOver && self.random.below(8) == 0;
            self.files[file].is_stuck |= fails;
            if !fails {
                let table = &self.processes[at].table;
                let set = if leaving == Leaving::GiveBack { CANDIDATE } else { 0 };
                let (_, entry) = table.of_stack(id).unwrap();
                table.set_all(entry, set, ON_STACK);
                self.files[file].carrier = None;
            }
        }
    }

    fn fork(&mut self, at: usize) {
        self.transfer(at, Transfer::Fork, |_| true);
        let (fds, table) = (self.processes[at].fds.clone(), copy_of(&self.processes[at].table));
        table.off_stack();
        table.fork(|fd| panic!("{fd} is not the library's own"), |fd, _| assert!(fds.contains_key(&fd)));
        self.processes.push(Process { fds, table });
    }

    /// A descriptor goes to another process by a message; there the library looks it up.
    fn pass(&mut self, at: usize, fd: i32) {
        self.transfer(at, Transfer::One, |one| one == fd);
        let other = self.below(self.processes.len());
        let file = self.processes[at].fds[&fd];
        if other == at || self.processes[other].fds.values().any(|known| *known == file) {
            return;
        }
        let Some(new) = self.processes[other].free() else { return };
        self.processes[other].fds.insert(new, file);
        let _ = self.processes[other].table.open(new, self.files[file].flags & !CANDIDATE | SHARED);
    }

    fn step(&mut self) {
        let at = self.below(self.processes.len());
        let any = i32::try_from(self.below(SIZE)).unwrap();
        let known = self.processes[at].fds.get(&any).copied();
        let sockets = |file: &usize| self.files[*file].flags & SOCKET != 0;
        let socket = known.filter(sockets);
        match (self.below(12), socket) {
            (0 | 1, _) => {
                let flags = [SOCKET | CANDIDATE, SOCKET | STREAM, SOCKET | STREAM | IPV6, INSTANCE, 0];
                let flags = flags[self.below(5)];
                self.open(at, flags);
            }
            (2 | 3, _) => self.close(at, any),
            (4 | 5, _) if known.is_some() => {
                let to = i32::try_from(self.below(SIZE)).unwrap();
                self.duplicate(at, any, to);
            }
            (6, _) if self.processes.len() < 4 && self.below(4) == 0 => self.fork(at),
            (7, Some(_)) => self.pass(at, any),
            (8, Some(file)) if self.kind(file) == Kind::Connection && self.files[file].carrier.is_none() => {
                let is_stream = noted(&self.processes[at].table, any).has(SOCKET | STREAM);
                // listen, of a socket that this process alone has.
                if is_stream && self.processes.len() == 1 {
                    self.files[file].flags |= LISTENS;
                    let table = &self.processes[at].table;
                    table.listens(noted(table, any), 7);
                    assert_eq!(noted(table, any).backlog(), 7);
                }
            }
            (9 | 10, Some(file)) if self.files[file].carrier.is_none() => {
                let entry = noted(&self.processes[at].table, any);
                // The call that uses it; a connection begins on the stack where no other process has it.
                let is_begun = self.kind(file) == Kind::Connection && self.processes.len() == 1;
                let is_listener = self.kind(file) == Kind::Listener;
                if is_begun || entry.has_any(CANDIDATE) {
                    if is_listener {
                        entry.set(USED);
                    }
                    self.put_on_stack(at, any);
                }
            }
            (11, Some(file))
                if self.kind(file) == Kind::Listener && self.files[file].carrier.is_some_and(|c| c.0 == at) =>
            {
                if let Some(new) = self.open(at, SOCKET | STREAM) {
                    self.put_on_stack(at, new);
                }
            }
            _ => {}
        }
    }

    /// What the table has, against what is so.
    fn check(&self) {
        for (at, Process { fds, table }) in self.processes.iter().enumerate() {
            for fd in 0..i32::try_from(SIZE).unwrap() {
                let entry = noted(table, fd);
                let Some(file) = fds.get(&fd) else {
                    assert_eq!(entry.flags(), 0, "{fd} is closed");
                    continue;
                };
                let known = &self.files[*file];
                let kept = SOCKET | STREAM | IPV6 | INSTANCE;
                assert_eq!(entry.flags() & kept, known.flags & kept, "{fd}");
                let its = known.carrier.filter(|carrier| carrier.0 == at).map(|carrier| carrier.1);
                assert_eq!(entry.on_stack(), its, "process {at}, {fd} {entry:?}");
                if known.flags & SOCKET != 0 {
                    let same: BTreeSet<_> = table.same(entry).map(std::ptr::from_ref).collect();
                    let copies = fds.iter().filter(|(_, other)| *other == file);
                    let expected = copies.map(|(copy, _)| std::ptr::from_ref(noted(table, *copy))).collect();
                    assert_eq!(same, expected, "{fd}");
                }
                if let Some(id) = its {
                    let all: BTreeSet<i32> = table.all_of_stack(id).map(|(fd, _)| fd).collect();
                    assert_eq!(all, fds.iter().filter(|(_, other)| *other == file).map(|(fd, _)| *fd).collect());
                }
                let has_other = self
                    .processes
                    .iter()
                    .enumerate()
                    .any(|(one, other)| one != at && other.fds.values().any(|other| other == file));
                let is_connection = known.flags & STREAM != 0 && self.kind(*file) == Kind::Connection;
                assert!(!is_connection || its.is_none() || !has_other || known.is_stuck, "two have a connection: {fd}");
            }
        }
    }
}

/// Catches: a copy that the table takes for another socket, or the other way round; a socket that is ended while a descriptor has it, or kept
/// when none has; a connection that stays on a stack while another process has its descriptor; what is left of a number that was closed.
#[test]
fn random_programs_find_what_linux_has() {
    for seed in 0..60 {
        let mut world = World {
            random: SplitMix64::new(seed),
            files: Vec::new(),
            processes: vec![Process { fds: BTreeMap::new(), table: Small::new() }],
            ids: 0,
        };
        for _ in 0..300 {
            world.step();
            world.check();
        }
    }
}

#[test]
fn a_childs_own_descriptors_are_closed_and_its_sockets_listed() {
    let table = Small::new();
    for (fd, flags) in [(3, SOCKET), (4, SOCKET | STREAM), (5, INSTANCE), (20, OWN), (21, OWN)] {
        let _ = table.open(fd, flags);
    }
    table.put_on_stack(noted(&table, 4), 1);
    // A call goes on with this copy, below the handler of a signal that forks.
    noted(&table, 3).visitors.begin_closing(Some((21, &noted(&table, 21).visitors)));
    let (closed, listed) = (std::cell::RefCell::new(Vec::new()), std::cell::RefCell::new(Vec::new()));
    table.off_stack();
    table.fork(|fd| closed.borrow_mut().push(fd), |fd, entry| listed.borrow_mut().push((fd, entry.has(SHARED))));
    assert_eq!((closed.into_inner(), listed.into_inner()), (vec![20], vec![(3, true), (4, true)]));
    assert_eq!(noted(&table, 4).flags(), SOCKET | STREAM | SHARED | LEFT);
    assert!(!noted(&table, 3).visitors.is_visited());
}
