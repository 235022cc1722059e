//! What the preload library knows of descriptors, as state machines without system calls and without unsafe code. Their owner
//! reports what the program called and what happened to sockets, and does what they answer.
//!
//! - [`table::Table`]: what each number is, which of them are one open file, and what a close, a copy or a fork makes of it.
//! - [`Visit`]: a thread that spins on a number which another thread closes.
//! - [`Sockets`]: the sockets on the stack, and which of them leave it before another process gets their descriptors.
//! - [`Sets`]: epoll instances with sockets of the stack among their members. They give what the program gets, and how the
//!   kernel's instances are to be changed ([`Change`]).
//! - [`Watched`], [`Asking`]: the descriptors of a call of poll or select, and when it asks the kernel.
#![expect(missing_docs, reason = "what has no comment is what its name says")]

mod epoll;
mod poll;
mod sockets;
pub mod table;
mod visit;

pub use epoll::{Change, Event, Member, Refusal, Sets, What, kernel_events, refusal};
pub use poll::{Asking, Bits, MOST_SELECTED, Watched, selected, to_sets};
pub use sockets::{Kind, Leaving, Sockets, Transfer};
pub use visit::{Visit, Visitors};

/// The bits of epoll(7) that this crate gives a meaning to, as `<sys/epoll.h>` has them.
mod bits {
    /// It can be read from.
    pub(crate) const IN: u32 = 0x1;
    /// It can be written to.
    pub(crate) const OUT: u32 = 0x4;
    /// An error; reported unasked.
    pub(crate) const ERR: u32 = 0x8;
    /// Both directions have ended; reported unasked.
    pub(crate) const HUP: u32 = 0x10;
    /// Normal data can be read.
    pub(crate) const RDNORM: u32 = 0x40;
    /// Normal data can be written.
    pub(crate) const WRNORM: u32 = 0x100;
    /// One of several waiting instances is woken; set by EPOLL_CTL_ADD alone.
    pub(crate) const EXCLUSIVE: u32 = 1 << 28;
    /// No suspend while it is handled (CAP_BLOCK_SUSPEND).
    pub(crate) const WAKEUP: u32 = 1 << 29;
    /// One event, then silence until EPOLL_CTL_MOD.
    pub(crate) const ONESHOT: u32 = 1 << 30;
    /// Events rather than levels.
    pub(crate) const ET: u32 = 1 << 31;
}
