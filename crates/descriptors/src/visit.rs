//! Threads that spin on a descriptor while another one closes it. The kernel's calls keep their open file as long as they wait;
//! a spin makes call after call, and the number may become another file's between two of them.
//!
//! So a thread that spins is noted at the entry ([`Visit`]). Who closes the number leaves a copy of the descriptor, the heir,
//! reports it ([`Visitors::begin_closing`]), and closes when no visitor is left; each of them goes on with the heir, which the last
//! one closes ([`Visitors::release`]).

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::SeqCst};

/// The visitors of a descriptor, and, of a copy, its users.
#[derive(Debug)]
pub struct Visitors {
    /// Generation in the upper 16 bits, spinning threads below; [`CLOSING`] while a thread closes it.
    state: AtomicU32,
    /// While it is being closed: a copy of the descriptor for those that spin on it, plus 1.
    heir: AtomicI32,
    /// Of such a copy: who uses it.
    users: AtomicU32,
}

const CLOSING: u32 = 1 << 15;
const COUNT: u32 = CLOSING - 1;
const GENERATION: u32 = 1 << 16;

impl Visitors {
    pub(crate) const fn new() -> Self {
        Self { state: AtomicU32::new(0), heir: AtomicI32::new(0), users: AtomicU32::new(0) }
    }

    pub fn is_visited(&self) -> bool {
        self.state.load(SeqCst) & COUNT > 0
    }

    /// A thread closes it: those that spin on it leave it, and go on with `heir`, a copy, where it has an entry. The closing thread is
    /// the copy's first user.
    pub fn begin_closing(&self, heir: Option<(i32, &Self)>) {
        if let Some((fd, heir)) = heir {
            heir.users.store(1, SeqCst);
            self.heir.store(fd + 1, SeqCst);
        }
        self.state.fetch_or(CLOSING, SeqCst);
    }

    /// It is closed: who visits it from now on visits another file.
    pub fn end_closing(&self) {
        let before = self.state.load(SeqCst) & !COUNT & !CLOSING;
        self.state.store(before.wrapping_add(GENERATION), SeqCst);
        self.heir.store(0, SeqCst);
    }

    /// One user less of a copy. Whether it was the last: the copy is to be closed.
    pub fn release(&self) -> bool {
        self.users.fetch_sub(1, SeqCst) == 1
    }

    pub(crate) fn add_user(&self) {
        self.users.fetch_add(1, SeqCst);
    }

    /// In a child the threads of its parent are no visitors. Whether the descriptor has users.
    pub(crate) fn fork(&self) -> bool {
        self.state.store(0, SeqCst);
        self.users.load(SeqCst) > 0
    }
}

/// A thread's presence on a socket while it spins.
#[derive(Debug, Clone, Copy)]
pub struct Visit<'t> {
    visitors: &'t Visitors,
    generation: u32,
}

impl<'t> Visit<'t> {
    pub fn begin(visitors: &'t Visitors) -> Self {
        let before = visitors.state.fetch_add(1, SeqCst);
        Self { visitors, generation: before & !COUNT }
    }

    /// Whether the descriptor still is what it was.
    #[inline(always)]
    pub fn is_valid(&self) -> bool {
        self.visitors.state.load(SeqCst) & !COUNT == self.generation && self.generation & CLOSING == 0
    }

    pub fn leave(self) {
        let _ = self.visitors.state.fetch_update(SeqCst, SeqCst, |now| {
            let same = now & !COUNT & !CLOSING == self.generation & !CLOSING;
            (same && now & COUNT > 0).then(|| now - 1)
        });
    }

    pub fn is_of(&self, visitors: &Visitors) -> bool {
        std::ptr::eq(self.visitors, visitors)
    }

    /// The copy that the closing thread left; negative: none.
    pub(crate) fn heir(&self) -> i32 {
        self.visitors.heir.load(SeqCst) - 1
    }
}

#[cfg(test)]
mod tests;
