//! epoll instances (epoll(7)) with sockets of the stack among their members. The kernel's instance goes on to have the others,
//! and the kernel's half of sockets of datagrams and of listeners.
//!
//! As the kernel does, an instance has a list of the members that may be ready. What happens to a socket puts it there; a
//! wait takes members from its front, asks what they are ready for, and puts those that report levels back to its end.

use crate::bits;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// How deep instances may be in others (EP_MAX_NESTS of the kernel).
const MOST_NESTED: u32 = 4;
/// Attempts of waits between two that ask the kernel's instance.
const ATTEMPTS_A_KERNEL: u32 = 32;
/// How long what the kernel said last is taken for true where the stack has something: a busy program asks it less often.
const KERNEL_NS: u64 = 5_000;

/// A map by small numbers, which no attacker chooses: descriptors, and numbers that this process gives.
type ByNumber<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

/// Spreads a number by a multiplication (Knuth, The Art of Computer Programming, volume 3, section 6.4).
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_right(32);
    }

    #[inline]
    fn write_i32(&mut self, number: i32) {
        self.write_u32(number.cast_unsigned());
    }
}

/// A member of an instance, as the program has asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Member {
    /// The socket of the stack; 0: the kernel's.
    pub id: u32,
    /// It is an epoll instance of this number; 0: a socket.
    pub inner: u32,
    /// What was asked for.
    pub events: u32,
    pub data: u64,
    /// The kernel's instance has it, too.
    pub in_kernel: bool,
}

#[derive(Debug, Clone, Copy)]
struct Watch {
    member: Member,
    /// It is in the list of those that may be ready.
    is_listed: bool,
    /// EPOLLONESHOT has reported.
    is_spent: bool,
}

/// What a wait reports of one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Event {
    /// What it is ready for.
    pub events: u32,
    /// What the program gave with the member.
    pub data: u64,
}

/// How a kernel's instance is to be changed: operations of epoll_ctl(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    Add,
    Modify,
    Delete,
}

/// Why epoll_ctl refuses a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// EFAULT: it has no event.
    Fault,
    /// EEXIST: it is a member already.
    Exists,
    /// ENOENT: it is none.
    Missing,
    /// EINVAL: not so with EPOLLEXCLUSIVE, or no change at all.
    Invalid,
}

/// Whether a change of a member (`known`, where it is one) is refused; `events`: what is asked for, where the program gave it.
pub fn refusal(what: Option<What>, known: Option<&Member>, events: Option<u32>) -> Option<Refusal> {
    /// What may be asked for together with EPOLLEXCLUSIVE.
    const EXCLUSIVE_WITH: u32 = bits::IN
        | bits::OUT
        | bits::ERR
        | bits::HUP
        | bits::RDNORM
        | bits::WRNORM
        | bits::WAKEUP
        | bits::ET
        | bits::EXCLUSIVE;
    let asked = events.unwrap_or(0);
    let is_exclusive = |events: u32| events & bits::EXCLUSIVE != 0;
    match (what, known) {
        (Some(What::Add | What::Modify), _) if events.is_none() => Some(Refusal::Fault),
        (Some(What::Add), Some(_)) => Some(Refusal::Exists),
        (Some(What::Modify | What::Delete), None) => Some(Refusal::Missing),
        (Some(What::Add), None) => (is_exclusive(asked) && asked & !EXCLUSIVE_WITH != 0).then_some(Refusal::Invalid),
        (Some(What::Modify), Some(known)) => {
            (is_exclusive(asked) || is_exclusive(known.events)).then_some(Refusal::Invalid)
        }
        (Some(What::Delete), Some(_)) => None,
        (None, _) => Some(Refusal::Invalid),
    }
}

/// A change to be made to the kernel's instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// A descriptor of the instance.
    pub set: i32,
    pub what: What,
    pub fd: i32,
    pub events: u32,
    /// What its events carry.
    pub data: u64,
}

#[derive(Debug, Default)]
struct Set {
    fd: i32,
    /// Instances that have it, with the descriptor by which they do.
    outer: Vec<(u32, i32)>,
    watches: ByNumber<i32, Watch>,
    /// Members that may be ready.
    list: VecDeque<i32>,
    /// How many members are instances, are in the kernel's instance, and are sockets that are not on the stack.
    inner: usize,
    in_kernel: usize,
    waiting: usize,
    /// A member was added with EPOLLONESHOT.
    has_one_shot: bool,
    /// At least one member was added that the kernel alone has: no internet socket.
    has_others: bool,
    /// Attempts until the kernel's instance is asked, and when it was asked last, ns.
    kernel_in: u32,
    asked_ns: u64,
}

impl Set {
    fn list(&mut self, fd: i32) {
        if let Some(watch) = self.watches.get_mut(&fd).filter(|watch| !watch.is_listed) {
            watch.is_listed = true;
            self.list.push_back(fd);
        }
    }
}

/// What the kernel watches of a socket of datagrams or a listener of the stack: all but that it can be written to.
pub fn kernel_events(events: u32) -> u32 {
    events & !(bits::OUT | bits::WRNORM)
}

/// All instances, by the number that all descriptors of one have. A socket's readiness is asked of the owner: a function from
/// its number to bits of poll(2).
#[derive(Debug, Default)]
pub struct Sets {
    sets: ByNumber<u32, Set>,
    /// Where each socket of the stack is a member: the instance, and the descriptor.
    watched: ByNumber<u32, Vec<(u32, i32)>>,
    changes: VecDeque<Change>,
}

impl Sets {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// The next change to a kernel's instance. To be done before another thread may call anything.
    #[inline]
    pub fn poll_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    /// The member of an instance by its descriptor.
    pub fn member(&self, number: u32, fd: i32) -> Option<Member> {
        Some(self.sets.get(&number)?.watches.get(&fd)?.member)
    }

    /// Members that are no sockets of the stack, with the instance that they are, and 0 for sockets; nothing where all are.
    pub fn not_on_stack(&self, number: u32, depth: u32) -> Vec<(i32, u32)> {
        let set = self.sets.get(&number).filter(|set| set.waiting + set.inner > 0 && depth <= MOST_NESTED);
        let members = set.into_iter().flat_map(|set| &set.watches);
        members.filter(|(_, watch)| watch.member.id == 0).map(|(fd, watch)| (*fd, watch.member.inner)).collect()
    }

    fn set_of(&mut self, number: u32, fd: i32) -> &mut Set {
        self.sets.entry(number).or_insert_with(|| Set { fd, ..Set::default() })
    }

    /// The kernel's instance, of which `set` is a descriptor, got a member that is neither socket nor instance.
    pub fn add_other(&mut self, number: u32, set: i32) {
        let set = self.set_of(number, set);
        set.in_kernel += 1;
        set.has_others = true;
    }

    /// A member was added or changed. Whether threads that wait have to look again whom to ask.
    pub fn insert(&mut self, (number, set): (u32, i32), fd: i32, member: Member) -> bool {
        let entry = self.set_of(number, set);
        entry.has_one_shot |= member.events & bits::ONESHOT != 0;
        let before = entry.watches.get(&fd).copied();
        let is_listed = before.is_some_and(|before| before.is_listed);
        entry.watches.insert(fd, Watch { member, is_listed, is_spent: false });
        if before.is_none() {
            entry.in_kernel += usize::from(member.in_kernel);
            entry.waiting += usize::from(member.id == 0 && member.inner == 0);
            entry.inner += usize::from(member.inner != 0);
            if member.id != 0 {
                self.watched.entry(member.id).or_default().push((number, fd));
            }
        }
        if member.inner != 0 {
            // Listed anew also by MOD: it may be ready already.
            let entry = self.set_of(number, set);
            entry.list.retain(|listed| *listed != fd);
            entry.watches.entry(fd).and_modify(|watch| watch.is_listed = false);
            let outer = &mut self.set_of(member.inner, fd).outer;
            outer.retain(|one| *one != (number, fd));
            outer.push((number, fd));
        }
        let is_asked_here = member.inner != 0 || member.id != 0;
        if is_asked_here {
            self.list(number, fd, 0);
        }
        is_asked_here
    }

    /// A member was removed; `from_kernel`: the kernel's instance may still have it.
    pub fn remove(&mut self, number: u32, fd: i32, from_kernel: bool) {
        let Some(entry) = self.sets.get_mut(&number) else { return };
        let Some(Watch { member, .. }) = entry.watches.remove(&fd) else { return };
        entry.list.retain(|listed| *listed != fd);
        entry.in_kernel = entry.in_kernel.saturating_sub(usize::from(member.in_kernel));
        entry.waiting = entry.waiting.saturating_sub(usize::from(member.id == 0 && member.inner == 0));
        entry.inner = entry.inner.saturating_sub(usize::from(member.inner != 0));
        if member.in_kernel && from_kernel {
            self.changes.push_back(Change { set: entry.fd, what: What::Delete, fd, events: 0, data: 0 });
        }
        if let Some(watched) = self.watched.get_mut(&member.id) {
            watched.retain(|one| *one != (number, fd));
            if watched.is_empty() {
                self.watched.remove(&member.id);
            }
        }
        if let Some(inner) = self.sets.get_mut(&member.inner) {
            inner.outer.retain(|one| *one != (number, fd));
        }
    }

    /// A descriptor is closed: no instance has it any more. `own`: the instance that it is one of, with another descriptor
    /// of it where there is one.
    pub fn close(&mut self, fd: i32, own: Option<(u32, Option<i32>)>) {
        if let Some((number, other)) = own
            && let Some(set) = self.sets.get_mut(&number)
        {
            match other {
                Some(other) => set.fd = other,
                None => {
                    let members: Vec<i32> = set.watches.keys().copied().collect();
                    members.into_iter().for_each(|member| self.remove(number, member, false));
                    self.sets.remove(&number);
                }
            }
        }
        let having = |(number, set): (&u32, &Set)| set.watches.contains_key(&fd).then_some(*number);
        let sets: Vec<u32> = self.sets.iter().filter_map(having).collect();
        for set in sets {
            self.remove(set, fd, false);
        }
    }

    /// In a forked child the kernel's members stay.
    pub fn fork(&mut self) {
        self.watched.clear();
        for set in self.sets.values_mut() {
            set.watches.retain(|_, watch| watch.member.in_kernel);
            for watch in set.watches.values_mut() {
                (watch.member.id, watch.is_listed) = (0, false);
            }
            set.waiting = set.watches.len() - set.inner;
            set.list.clear();
        }
    }

    /// A socket came to the stack, by all descriptors that `is_its`; `connected`: the kernel has no half of it.
    pub fn to_stack(&mut self, id: u32, connected: bool, is_its: impl Fn(i32) -> bool) {
        let mut watched = Vec::new();
        for (number, set) in &mut self.sets {
            let instance = set.fd;
            for (fd, watch) in set.watches.iter_mut().filter(|(fd, watch)| watch.member.id != id && is_its(**fd)) {
                let member = &mut watch.member;
                set.waiting = set.waiting.saturating_sub(usize::from(member.id == 0));
                member.id = id;
                watched.push((*number, *fd));
                let told = |what, events| Change { set: instance, what, fd: *fd, events, data: member.data };
                if connected && member.in_kernel {
                    self.changes.push_back(told(What::Delete, 0));
                    member.in_kernel = false;
                    set.in_kernel = set.in_kernel.saturating_sub(1);
                } else if member.in_kernel {
                    let events = if watch.is_spent { bits::ONESHOT } else { kernel_events(member.events) };
                    // EPOLL_CTL_MOD cannot change one with EPOLLEXCLUSIVE.
                    if member.events & bits::EXCLUSIVE == 0 {
                        self.changes.push_back(told(What::Modify, events));
                    } else {
                        self.changes.extend([told(What::Delete, 0), told(What::Add, events)]);
                    }
                }
            }
        }
        for (number, fd) in &watched {
            self.list(*number, *fd, 0);
        }
        if !watched.is_empty() {
            self.watched.entry(id).or_default().extend(watched);
        }
    }

    /// A socket leaves the stack: the kernel's instances have it again, and all that was asked for.
    pub fn to_kernel(&mut self, id: u32) {
        for (number, fd) in self.watched.remove(&id).unwrap_or_default() {
            let Some(set) = self.sets.get_mut(&number) else { continue };
            let instance = set.fd;
            let Some(watch) = set.watches.get_mut(&fd) else { continue };
            let member = &mut watch.member;
            member.id = 0;
            set.waiting += 1;
            let events = if watch.is_spent { bits::ONESHOT } else { member.events };
            if std::mem::replace(&mut member.in_kernel, true) {
                // EPOLL_CTL_MOD cannot change one with EPOLLEXCLUSIVE.
                self.changes.push_back(Change { set: instance, what: What::Delete, fd, events: 0, data: 0 });
            } else {
                set.in_kernel += 1;
            }
            self.changes.push_back(Change { set: instance, what: What::Add, fd, events, data: member.data });
        }
    }

    /// Something may have changed for a socket.
    #[inline]
    pub fn happened(&mut self, id: u32) {
        let mut at = 0;
        while let Some((number, fd)) = self.watched.get(&id).and_then(|watched| watched.get(at)).copied() {
            self.list(number, fd, 0);
            at += 1;
        }
    }

    /// Notes that a member of an instance may be ready, and so that instance in others.
    fn list(&mut self, number: u32, fd: i32, depth: u32) {
        let Some(set) = self.sets.get_mut(&number) else { return };
        set.list(fd);
        if !set.outer.is_empty() && depth < MOST_NESTED {
            for (outer, fd) in set.outer.clone() {
                self.list(outer, fd, depth + 1);
            }
        }
    }

    /// What a member of an instance is ready for, of what it was asked for.
    fn member_events(&self, number: u32, fd: i32, depth: u32, ready: &mut dyn FnMut(u32) -> u32) -> u32 {
        let watch = self.sets.get(&number).and_then(|set| set.watches.get(&fd));
        let Some(Watch { member, .. }) = watch.filter(|watch| !watch.is_spent) else { return 0 };
        let events = match (member.inner, member.id) {
            (0, 0) => 0,
            (0, id) => ready(id),
            (inner, _) => self.instance_events(inner, depth + 1, ready),
        };
        events & (member.events | bits::ERR | bits::HUP) & 0xffff
    }

    /// What an instance is ready for by its members on the stack.
    pub fn instance_events(&self, number: u32, depth: u32, ready: &mut dyn FnMut(u32) -> u32) -> u32 {
        let Some(set) = self.sets.get(&number).filter(|_| depth <= MOST_NESTED) else { return 0 };
        let is_ready = set.list.iter().any(|fd| self.member_events(number, *fd, depth, ready) != 0);
        if is_ready { bits::IN | bits::RDNORM } else { 0 }
    }

    /// Gives what is ready, `most` events at most; how many.
    #[inline]
    pub fn collect(
        &mut self,
        number: u32,
        most: usize,
        ready: &mut dyn FnMut(u32) -> u32,
        give: &mut dyn FnMut(Event),
    ) -> usize {
        let mut found = 0;
        let Some(listed) = self.sets.get(&number).map(|set| set.list.len()) else { return 0 };
        for _ in 0..listed {
            if found >= most {
                break;
            }
            let Some(set) = self.sets.get_mut(&number) else { break };
            let Some(fd) = set.list.pop_front() else { break };
            let Some(watch) = set.watches.get_mut(&fd) else { continue };
            watch.is_listed = false;
            let Member { events: asked, data, in_kernel, .. } = watch.member;
            let events = self.member_events(number, fd, 0, ready);
            if events == 0 {
                continue;
            }
            give(Event { events, data });
            found += 1;
            let Some(set) = self.sets.get_mut(&number) else { break };
            if asked & bits::ONESHOT != 0 {
                if in_kernel {
                    let told = Change { set: set.fd, what: What::Modify, fd, events: bits::ONESHOT, data };
                    self.changes.push_back(told);
                }
                set.watches.entry(fd).and_modify(|watch| watch.is_spent = true);
            } else if asked & bits::ET == 0 {
                set.list(fd);
            }
        }
        found
    }

    /// Whether an attempt that found this many asks the kernel's instance too. `asks`: it would. `masked`: its mask of signals may let one
    /// in.
    #[inline]
    pub fn asks_kernel(
        &mut self,
        number: u32,
        found: usize,
        asks: bool,
        masked: bool,
        now: impl FnOnce() -> u64,
    ) -> bool {
        let Some(set) = self.sets.get_mut(&number) else { return false };
        let is_time = set.kernel_in == 0;
        set.kernel_in = if is_time { ATTEMPTS_A_KERNEL } else { set.kernel_in - 1 };
        let mut asks = (asks && found == 0 || is_time) && (set.in_kernel > 0 || masked);
        if set.has_others && (asks || found > 0) {
            // A ready pipe is reported beside a ready socket.
            let now = now();
            asks |= now.saturating_sub(set.asked_ns) >= KERNEL_NS;
            set.asked_ns = if asks { now } else { set.asked_ns };
        }
        asks
    }

    /// Whether a member was added with EPOLLONESHOT, so that [`Self::spend`] has to know what the kernel reported.
    #[inline]
    pub fn has_one_shot(&self, number: u32) -> bool {
        self.sets.get(&number).is_some_and(|set| set.has_one_shot)
    }

    /// Notes that the kernel's instance has reported members with EPOLLONESHOT. An event has no more than the member's data,
    /// which others may have too: `spent` then gives the members that the kernel has silenced (/proc/pid/fdinfo), by a
    /// descriptor of the instance.
    pub fn spend(&mut self, number: u32, reported: &[Event], spent: impl FnOnce(i32) -> Vec<i32>) {
        let Some(set) = self.sets.get_mut(&number).filter(|set| set.has_one_shot) else { return };
        let is_reported =
            |watch: &Watch| watch.member.in_kernel && reported.iter().any(|event| event.data == watch.member.data);
        let alike = set.watches.values().filter(|watch| is_reported(watch)).count();
        let spent = (alike > reported.len() || set.has_others).then(|| spent(set.fd));
        for (fd, watch) in &mut set.watches {
            if watch.member.events & bits::ONESHOT != 0 && is_reported(watch) {
                watch.is_spent |= spent.as_ref().is_none_or(|spent| spent.contains(fd));
            }
        }
    }

    /// Whether the kernel's instance has all that is in this one.
    #[inline]
    pub fn is_kernels(&self, number: u32, depth: u32) -> bool {
        self.sets.get(&number).is_none_or(|set| {
            let inner = || set.watches.values().map(|watch| watch.member.inner).filter(|inner| *inner != 0);
            set.waiting + set.inner == set.watches.len()
                && (set.inner == 0 || depth < MOST_NESTED && inner().all(|inner| self.is_kernels(inner, depth + 1)))
        })
    }

    pub fn has(&self, number: u32) -> bool {
        self.sets.contains_key(&number)
    }
}

#[cfg(test)]
mod tests;
