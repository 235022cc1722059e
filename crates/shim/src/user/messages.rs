//! Buffers, addresses and control data of messages. Makers promise what recvmsg(2) and sendmsg(2) ask for.

use super::address::{self, NameBuffer};
use super::control::Control;
use libc::{c_int, iovec, sockaddr, socklen_t};
use std::net::SocketAddr;

/// A receive call: where the bytes go, and what it returns besides.
pub(crate) struct Incoming<'a> {
    parts: &'a [iovec],
    pub(crate) flags: c_int,
    pub(super) name: NameBuffer,
    pub(crate) control: Control,
    /// Flags of the message that was received.
    pub(crate) message_flags: c_int,
    /// The kernel's socket had it, and filled in everything.
    pub(crate) is_kernels: bool,
}

/// `count` parts of the caller's promise; none where there is no list.
unsafe fn list<'a>(parts: *const iovec, count: usize) -> &'a [iovec] {
    // SAFETY: the caller's promise: `count` parts.
    if count == 0 || parts.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(parts, count) } }
}

impl Incoming<'_> {
    /// The caller's promise: `parts` are `count` buffers to write to.
    pub(crate) unsafe fn new(
        parts: *const iovec,
        count: usize,
        flags: c_int,
        name: NameBuffer,
        control: Control,
    ) -> Self {
        // SAFETY: as above.
        let parts = unsafe { list(parts, count) };
        Self { parts, flags, name, control, message_flags: 0, is_kernels: false }
    }

    pub(super) fn room(&self) -> usize {
        self.parts.iter().map(|part| part.iov_len).sum()
    }

    /// Copies bytes into the parts, from byte `skip` of them on; how many fitted.
    pub(super) fn fill(&self, mut skip: usize, mut bytes: &[u8]) -> usize {
        let before = bytes.len();
        for part in self.parts {
            if skip >= part.iov_len {
                skip -= part.iov_len;
                continue;
            }
            let length = (part.iov_len - skip).min(bytes.len());
            // SAFETY: each part is a buffer of its length, by the promise of `new`.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), part.iov_base.cast::<u8>().add(skip), length);
            }
            bytes = &bytes[length..];
            skip = 0;
            if bytes.is_empty() {
                break;
            }
        }
        before - bytes.len()
    }
}

pub(crate) struct Outgoing<'a> {
    parts: &'a [iovec],
    pub(super) flags: c_int,
    pub(super) has_name: bool,
    /// The address; none without, or where it is none of IPv4 or IPv6.
    pub(super) to: Option<SocketAddr>,
    /// It has control data, which only the kernel understands.
    pub(super) has_control: bool,
}

impl<'a> Outgoing<'a> {
    /// The caller's promise: `parts` are `count` buffers, `name` is null or an address of `name_size` bytes.
    pub(crate) unsafe fn new(
        parts: *const iovec,
        count: usize,
        flags: c_int,
        (name, name_size): (*const sockaddr, socklen_t),
        has_control: bool,
    ) -> Self {
        // SAFETY: as above.
        let (parts, to) = unsafe { (list(parts, count), address::read(name, name_size)) };
        Self { parts, flags, has_name: !name.is_null(), to, has_control }
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = &'a [u8]> {
        self.parts.iter().map(|part| {
            if part.iov_len == 0 || part.iov_base.is_null() {
                return &[][..];
            }
            // SAFETY: a buffer of this length, by the promise of `new`.
            unsafe { std::slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len) }
        })
    }

    pub(super) fn length(&self) -> usize {
        self.parts().map(<[u8]>::len).sum()
    }

    /// The bytes of a message of one part.
    pub(super) fn whole(&self) -> Option<&'a [u8]> {
        self.parts().next().filter(|_| self.parts.len() == 1)
    }
}
