//! The messages of receive and send calls: the program's buffers, addresses and control data.

use super::address;
use super::control::Control;
use libc::{c_int, iovec, sockaddr, socklen_t};
use std::net::SocketAddr;

/// A receive call: where the bytes go, and what it returns besides.
pub(crate) struct Incoming {
    pub(crate) parts: *const iovec,
    pub(crate) count: usize,
    pub(crate) flags: c_int,
    pub(crate) name: *mut sockaddr,
    pub(crate) name_size: *mut socklen_t,
    pub(crate) control: Control,
    /// Flags of the message that was received.
    pub(crate) message_flags: c_int,
    /// The kernel's socket had it, and filled in everything.
    pub(crate) is_kernels: bool,
}

impl Incoming {
    /// The parts of the buffer.
    pub(super) fn parts(&self) -> &[iovec] {
        if self.count == 0 || self.parts.is_null() {
            return &[];
        }
        // SAFETY: the caller's promise: `count` parts.
        unsafe { std::slice::from_raw_parts(self.parts, self.count) }
    }

    /// Bytes of room.
    pub(super) fn room(&self) -> usize {
        self.parts().iter().map(|part| part.iov_len).sum()
    }

    /// Copies bytes into the parts, from byte `skip` of them on; how many fitted.
    pub(super) unsafe fn fill(&self, mut skip: usize, mut bytes: &[u8]) -> usize {
        let before = bytes.len();
        for part in self.parts() {
            if skip >= part.iov_len {
                skip -= part.iov_len;
                continue;
            }
            let length = (part.iov_len - skip).min(bytes.len());
            // SAFETY: the caller's promise: each part is a buffer of its length.
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

/// A send call.
pub(crate) struct Outgoing {
    pub(crate) parts: *const iovec,
    pub(crate) count: usize,
    pub(crate) flags: c_int,
    pub(crate) name: *const sockaddr,
    pub(crate) name_size: socklen_t,
    /// It has control data, which only the kernel understands.
    pub(crate) has_control: bool,
}

impl Outgoing {
    /// The parts of the message.
    pub(super) fn parts(&self) -> &[iovec] {
        if self.count == 0 || self.parts.is_null() {
            return &[];
        }
        // SAFETY: the caller's promise: `count` parts.
        unsafe { std::slice::from_raw_parts(self.parts, self.count) }
    }

    /// The address; none without, or where it is none of IPv4 or IPv6.
    pub(super) unsafe fn to(&self) -> Option<SocketAddr> {
        // SAFETY: the caller's promise: an address of this size, or null.
        unsafe { address::read(self.name, self.name_size) }
    }
}

/// The bytes of a part.
pub(super) unsafe fn bytes<'a>(part: &iovec) -> &'a [u8] {
    if part.iov_len == 0 || part.iov_base.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise: a buffer of this length.
    unsafe { std::slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len) }
}
