//! poll(2) and select(2) with sockets of the stack among the descriptors: what each one is, what the kernel is asked of it and
//! how often, and what ends the call.

use crate::table::{Entry, Table};

/// Attempts between two that ask the kernel.
const ATTEMPTS_A_KERNEL: u32 = 32;

/// Bits of poll(2), those of epoll where both have one.
const IN: i16 = 0x1;
const PRI: i16 = 0x2;
const OUT: i16 = 0x4;
const ERR: i16 = 0x8;
const HUP: i16 = 0x10;
const NVAL: i16 = 0x20;
const WRNORM: i16 = 0x100;

/// One of the descriptors that a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched {
    /// Its open file, where it is a socket.
    file: u32,
    /// Its number on the stack; 0: none.
    pub id: u32,
    /// That of an epoll instance; 0: none.
    pub instance: u32,
    /// What the kernel is asked for; negative: it is not asked.
    pub kernel_fd: i32,
    pub kernel_events: i16,
    /// What ends the call: the events asked for, and those that do so unasked.
    pub ends: i16,
}

impl Watched {
    /// In the place of one that is not there.
    pub const NOTHING: Self = Self { file: 0, id: 0, instance: 0, kernel_fd: -1, kernel_events: 0, ends: 0 };

    /// A descriptor of a call. poll gets errors and the end of a connection in any case, select only what its sets
    /// stand for.
    pub fn new<const SIZE: usize>(table: &Table<SIZE>, (fd, events): (i32, i16), is_select: bool) -> Self {
        let is_told = |asked: i16| !is_select || events & asked != 0;
        let of_itself = [(IN, HUP), (IN | OUT, ERR)].into_iter().filter(|(asked, _)| is_told(*asked));
        let entry = table.entry(fd);
        let id = entry.and_then(Entry::on_stack);
        // Of a connection the kernel knows nothing; a listener has brought one if it is readable.
        let is_asked = id.is_none() || entry.is_some_and(|entry| !entry.is_connection());
        Self {
            file: entry.map_or(0, Entry::file),
            id: id.unwrap_or(0),
            instance: table.instance(fd).unwrap_or(0),
            kernel_fd: if is_asked { fd } else { -1 },
            kernel_events: if id.is_some() { events & !(OUT | WRNORM) } else { events },
            ends: of_itself.fold(events | NVAL, |all, (_, event)| all | event),
        }
    }

    /// Whether the stack and not the kernel is to be asked of the socket by now, or the other way round.
    pub fn has_turned<const SIZE: usize>(&self, table: &Table<SIZE>, fd: i32) -> bool {
        let same = table.socket(fd).filter(|entry| entry.file() == self.file);
        same.is_some_and(|entry| entry.on_stack().unwrap_or(0) != self.id)
    }
}

/// When a call asks the kernel, too.
#[derive(Debug, Clone, Copy)]
pub struct Asking {
    /// It has something to ask.
    pub in_kernel: bool,
    /// Descriptors of the kernel alone are among them.
    pub kernels_own: bool,
    /// Attempts until it is asked.
    kernel_in: u32,
}

impl Asking {
    /// For these descriptors. `masked`: the call's own mask lets signals in only in the kernel. `calls`: the process' calls so far, for calls
    /// that do not wait ask the kernel as often as attempts of one that does.
    pub fn new(watched: &[Watched], masked: bool, calls: impl FnOnce() -> u32) -> Self {
        let kernels_own = watched.iter().any(|one| one.id == 0 && one.kernel_fd >= 0);
        Self {
            in_kernel: masked || watched.iter().any(|one| one.kernel_fd >= 0),
            kernels_own,
            kernel_in: if kernels_own { 0 } else { calls() % (ATTEMPTS_A_KERNEL + 1) },
        }
    }

    /// Whether an attempt to which the stack has something to say, or nothing, asks the kernel. `asks`: it would.
    #[inline]
    pub fn asks_kernel(&mut self, is_ready: bool, asks: bool) -> bool {
        let is_time = self.kernel_in == 0;
        self.kernel_in = if is_time { ATTEMPTS_A_KERNEL } else { self.kernel_in - 1 };
        (!is_ready || self.kernels_own) && self.in_kernel && (asks || is_time)
    }
}

/// Descriptors of a set of select(2) that is kept; larger ones wait in the kernel.
pub const MOST_SELECTED: usize = 1024;

/// A set of select(2).
pub type Bits = [u64; MOST_SELECTED / 64];

/// What each of select's three sets asks for, and what counts as that.
const SELECTED: [(i16, i16); 3] = [(IN, IN | HUP | ERR), (OUT, OUT | ERR), (PRI, PRI)];

/// The descriptors of the sets for reading, writing and exceptions, each with its events as poll takes them.
pub fn selected(sets: &[Bits; 3]) -> impl Iterator<Item = (i32, i16)> {
    (0..).zip(0..MOST_SELECTED).filter_map(|(fd, at)| {
        let is_in = |(bits, _): &(&Bits, _)| bits.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 != 0);
        let events = sets.iter().zip(SELECTED).filter(is_in).fold(0, |all, (_, (asked, _))| all | asked);
        (events != 0).then_some((fd, events))
    })
}

/// What select returns for descriptors with events asked for and events found: the sets, and how many bits are in them. None: one of
/// them is closed.
pub fn to_sets(polled: impl Iterator<Item = (i32, i16, i16)>) -> Option<([Bits; 3], i32)> {
    let (mut sets, mut found) = ([[0; MOST_SELECTED / 64]; 3], 0);
    for (fd, events, ready) in polled {
        if ready & NVAL != 0 {
            return None;
        }
        let at = usize::try_from(fd).ok()?;
        for (bits, (asked, means)) in sets.iter_mut().zip(SELECTED) {
            if events & asked != 0 && ready & means != 0 {
                *bits.get_mut(at / 64)? |= 1 << (at % 64);
                found += 1;
            }
        }
    }
    Some((sets, found))
}

#[cfg(test)]
mod tests;
