//! Messages for sendmmsg(2) and recvmmsg(2), in memory that is taken once.

use crate::address::{ROOM, RawAddress};
use crate::sys;
use libc::{c_int, c_uint, c_void, socklen_t};
use std::os::fd::RawFd;

/// Room for the control messages of one received message, aligned as cmsghdr is.
type Control = [u64; 10];

/// Buffers, and the arrays that point into them.
///
/// `parts` and `heads` hold pointers into the other vectors. Their memory stays where it is when this value moves, and
/// nothing else hands it out while a call is under way.
pub(crate) struct Batch {
    bytes: Vec<u8>,
    length: usize,
    stride: usize,
    names: Vec<RawAddress>,
    controls: Vec<Control>,
    parts: Vec<libc::iovec>,
    heads: Vec<libc::mmsghdr>,
    /// Messages that the last receive call brought.
    held: usize,
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").field("held", &self.held).finish_non_exhaustive()
    }
}

// SAFETY: the pointers lead into the memory of this very value, and no other code has them.
unsafe impl Send for Batch {}

impl Batch {
    /// `count` (1 or more) faulted-in messages of up to `length` bytes, with addresses and control messages if wanted.
    pub(crate) fn new(count: usize, length: usize, with_names: bool, with_controls: bool) -> Self {
        let count = count.max(1);
        // Messages that do not share cache lines are faster to fill; an odd stride costs nothing else.
        let stride = length.next_multiple_of(64).max(64);
        let mut bytes = vec![0x5a_u8; count * stride];
        let mut names = vec![RawAddress::EMPTY; if with_names { count } else { 0 }];
        let mut controls = vec![Control::default(); if with_controls { count } else { 0 }];
        let part = |slot: &mut [u8]| libc::iovec { iov_base: slot.as_mut_ptr().cast::<c_void>(), iov_len: length };
        let mut parts: Vec<libc::iovec> = bytes.chunks_exact_mut(stride).map(part).collect();
        let head = |(at, part): (usize, &mut libc::iovec)| {
            // SAFETY: mmsghdr is plain data, and all zeros is a valid value of it.
            let mut head: libc::mmsghdr = unsafe { std::mem::zeroed() };
            (head.msg_hdr.msg_iov, head.msg_hdr.msg_iovlen) = (std::ptr::from_mut(part), 1);
            if let Some(name) = names.get_mut(at) {
                head.msg_hdr.msg_name = name.room().as_mut_ptr().cast::<c_void>();
            }
            if let Some(control) = controls.get_mut(at) {
                head.msg_hdr.msg_control = control.as_mut_ptr().cast::<c_void>();
            }
            head
        };
        let heads = parts.iter_mut().enumerate().map(head).collect();
        Self { bytes, length, stride, names, controls, parts, heads, held: count }
    }

    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.heads.len()
    }

    #[inline]
    pub(crate) fn room(&mut self, at: usize) -> &mut [u8] {
        let begin = at * self.stride;
        &mut self.bytes[begin..begin + self.length]
    }

    #[inline]
    pub(crate) fn set_length(&mut self, at: usize, length: usize) {
        self.parts[at].iov_len = length.min(self.length);
    }

    /// Sets where one message goes, and what it bears beside its bytes.
    ///
    /// # Safety
    /// `control` has this many bytes of control messages, which live as long as this value and are not written to.
    #[inline]
    pub(crate) unsafe fn set_target(&mut self, at: usize, to: &RawAddress, control: *mut c_void, control_bytes: usize) {
        self.names[at] = *to;
        let head = &mut self.heads[at].msg_hdr;
        head.msg_namelen = socklen_t::try_from(to.as_bytes().len()).unwrap_or(0);
        (head.msg_control, head.msg_controllen) = (control, control_bytes as _);
    }

    /// The bytes and the address of a message that bears nothing else.
    #[inline]
    pub(crate) fn plain(&self, at: usize) -> Option<(&[u8], &RawAddress)> {
        let begin = at * self.stride;
        let plain = self.heads[at].msg_hdr.msg_controllen == 0;
        plain.then(|| (&self.bytes[begin..begin + self.parts[at].iov_len], &self.names[at]))
    }

    pub(crate) fn length(&self, at: usize) -> usize {
        self.parts.get(at).map_or(0, |part| part.iov_len)
    }

    /// sendmmsg(2) of the messages from one to another; how many the kernel took.
    #[inline]
    pub(crate) fn send(&mut self, fd: RawFd, from: usize, to: usize) -> c_int {
        let heads = self.heads.get_mut(from..to).unwrap_or_default();
        let count = c_uint::try_from(heads.len()).unwrap_or(0);
        // SAFETY: each head points to a part, and that to bytes, which live as long as `self`, as do names; no part is
        // longer than its room, and `set_target` promises the controls.
        unsafe { libc::sendmmsg(fd, heads.as_mut_ptr(), count, libc::MSG_NOSIGNAL as _) }
    }

    /// recvmmsg(2) into all messages; how many came.
    #[inline]
    pub(crate) fn receive(&mut self, fd: RawFd, flags: c_int) -> c_int {
        if !(self.names.is_empty() && self.controls.is_empty()) {
            let name = if self.names.is_empty() { 0 } else { socklen_t::try_from(ROOM).unwrap_or(0) };
            let control = if self.controls.is_empty() { 0 } else { size_of::<Control>() };
            // The kernel wrote how much it used.
            for head in self.heads.iter_mut().take(self.held) {
                (head.msg_hdr.msg_namelen, head.msg_hdr.msg_controllen) = (name, control as _);
                head.msg_hdr.msg_flags = 0;
            }
        }
        let count = c_uint::try_from(self.heads.len()).unwrap_or(1);
        // SAFETY: as in `send`; the kernel writes no further than each part's, name's and control's room. No time-out.
        let taken = unsafe { libc::recvmmsg(fd, self.heads.as_mut_ptr(), count, flags as _, std::ptr::null_mut()) };
        self.held = usize::try_from(taken).unwrap_or(0);
        taken
    }

    /// What the last call received into one message, as far as there was room.
    #[inline]
    pub(crate) fn received(&self, at: usize) -> &[u8] {
        let begin = at * self.stride;
        &self.bytes[begin..begin + (self.heads[at].msg_len as usize).min(self.length)]
    }

    /// Whether a received message was longer than its room.
    #[inline]
    pub(crate) fn is_cut(&self, at: usize) -> bool {
        self.heads[at].msg_hdr.msg_flags & libc::MSG_TRUNC != 0
    }

    #[inline]
    pub(crate) fn sender(&self, at: usize) -> Option<&RawAddress> {
        self.names.get(at)
    }

    /// Calls `with` for the level, type and data of each control message of a received message.
    #[inline]
    pub(crate) fn each_control(&self, at: usize, with: impl FnMut(c_int, c_int, &[u8])) {
        if at < self.held && !self.controls.is_empty() {
            // SAFETY: the last receive call filled this head, and its control buffer lives and is not written to.
            unsafe { sys::each_control(&self.heads[at].msg_hdr, with) };
        }
    }
}
