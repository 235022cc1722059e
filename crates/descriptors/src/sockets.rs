//! The sockets that are on the stack, by numbers that no later socket has; and which of them leave it before another process may
//! use their descriptors.

use crate::table::Table;
use std::collections::HashMap;
use std::hash::Hash;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A connection: the kernel knows nothing of it.
    Connection,
    /// A listener: the kernel's half listens, too.
    Listener,
    /// A socket of datagrams: the kernel's half is bound and connected as this one.
    Datagrams,
}

/// How another process, or the next program of this one, gets descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// fork: parent and child have all.
    Fork,
    /// A new process gets some of them, and runs a program (posix_spawn, vfork).
    Spawn,
    /// This process runs another program.
    Exec,
    /// One descriptor: a message with SCM_RIGHTS takes it along, or the program wants what only the kernel can.
    One,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// A connection is made anew in the kernel, with all of its state.
    HandOver,
    /// The kernel's half is the whole again, and may come back to the stack when it is used.
    GiveBack,
}

impl<const SIZE: usize> Table<SIZE> {
    /// How a socket leaves the stack before a transfer of the descriptors that `is_meant`; none: it stays.
    ///
    /// Two processes may both wait at a listener or a socket of datagrams; the stack then serves the one that has it. A listener that
    /// no thread has waited for so far is meant for whoever will.
    pub fn leaving(&self, id: u32, kind: Kind, transfer: Transfer, is_meant: impl Fn(i32) -> bool) -> Option<Leaving> {
        let is_any = || self.all_of_stack(id).any(|(fd, _)| is_meant(fd));
        match (kind, transfer) {
            (Kind::Connection, _) => is_any().then_some(Leaving::HandOver),
            (_, Transfer::Exec) => Some(Leaving::GiveBack),
            (Kind::Listener, Transfer::Fork | Transfer::One) => {
                (self.unused(id).is_some() && is_any()).then_some(Leaving::GiveBack)
            }
            _ => None,
        }
    }
}

/// A place for a socket, with how often it was used.
#[derive(Debug)]
struct Place<K, S> {
    uses: u16,
    socket: Option<(K, S)>,
}

/// Sockets by number, and numbers by the stack's handle `K`.
#[derive(Debug)]
pub struct Sockets<K, S> {
    places: Vec<Place<K, S>>,
    /// Places without a socket.
    free: Vec<u16>,
    by_handle: HashMap<K, u32>,
}

impl<K: Copy + Eq + Hash, S> Sockets<K, S> {
    pub fn new() -> Self {
        Self { places: Vec::with_capacity(256), free: Vec::with_capacity(256), by_handle: HashMap::with_capacity(256) }
    }

    #[inline]
    fn place(&mut self, id: u32) -> Option<&mut Place<K, S>> {
        let at = ((id & 0xffff) as usize).checked_sub(1)?;
        self.places.get_mut(at).filter(|place| u32::from(place.uses) == id >> 16)
    }

    #[inline]
    pub fn get(&mut self, id: u32) -> Option<&mut S> {
        self.place(id)?.socket.as_mut().map(|(_, socket)| socket)
    }

    #[inline]
    pub fn id(&self, handle: &K) -> Option<u32> {
        self.by_handle.get(handle).copied()
    }

    /// Keeps a socket; its number, never 0. None: there are too many.
    pub fn insert(&mut self, handle: K, socket: S) -> Option<u32> {
        if self.free.is_empty() {
            // The first number is 1.
            self.free.push(u16::try_from(self.places.len() + 1).ok()?);
            self.places.push(Place { uses: 0, socket: None });
        }
        let number = self.free.pop()?;
        let place = self.places.get_mut(usize::from(number) - 1)?;
        place.uses = place.uses.wrapping_add(1);
        let id = u32::from(number) | u32::from(place.uses) << 16;
        place.socket = Some((handle, socket));
        self.by_handle.insert(handle, id);
        Some(id)
    }

    pub fn remove(&mut self, id: u32) -> Option<S> {
        let (handle, socket) = self.place(id)?.socket.take()?;
        self.free.extend(u16::try_from(id & 0xffff));
        self.by_handle.remove(&handle);
        Some(socket)
    }

    pub fn is_empty(&self) -> bool {
        self.by_handle.is_empty()
    }

    pub fn all(&self) -> impl Iterator<Item = (K, &S)> {
        self.places.iter().filter_map(|place| place.socket.as_ref()).map(|(handle, socket)| (*handle, socket))
    }

    /// The numbers of those that `are_meant`; a copy, for they may leave meanwhile.
    pub fn ids(&self, are_meant: impl Fn(K) -> bool) -> Vec<u32> {
        self.by_handle.iter().filter(|(handle, _)| are_meant(**handle)).map(|(_, id)| *id).collect()
    }

    /// Forgets all. Numbers given before stay invalid.
    pub fn clear(&mut self) {
        self.ids(|_| true).into_iter().for_each(|id| _ = self.remove(id));
    }
}

impl<K: Copy + Eq + Hash, S> Default for Sockets<K, S> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
