//! The system calls of bulk data, each wrapped once.

use crate::sys;
use libc::{c_int, c_uint, c_void};
use std::io;
use std::os::fd::RawFd;

/// Room for the one control message that UDP_GRO gives, aligned as cmsghdr is.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

const CONTROL: usize = 64;

/// Messages for sendmmsg(2) or recvmmsg(2): buffers, and the arrays that point into them.
///
/// The arrays hold pointers into `buffer` and `control`, whose memory neither moves nor is freed before the arrays:
/// both are boxed slices of fixed length that nothing else hands out while a call is under way.
pub(super) struct Messages {
    buffer: Box<[u8]>,
    control: Box<[Control]>,
    parts: Box<[libc::iovec]>,
    heads: Box<[libc::mmsghdr]>,
    stride: usize,
}

impl Messages {
    /// `count` messages with room for `length` bytes each, filled so that each page is really there.
    pub(super) fn new(count: usize, length: usize, with_control: bool) -> Self {
        // Messages that do not share cache lines are faster to fill; an odd stride costs nothing else.
        let stride = length.next_multiple_of(64).max(64);
        let mut buffer = vec![0x5a_u8; count * stride].into_boxed_slice();
        let mut control = vec![Control([0; CONTROL]); if with_control { count } else { 0 }].into_boxed_slice();
        let mut parts: Box<[libc::iovec]> = buffer
            .chunks_exact_mut(stride)
            .map(|slot| libc::iovec { iov_base: slot.as_mut_ptr().cast::<c_void>(), iov_len: length })
            .collect();
        let heads = parts
            .iter_mut()
            .enumerate()
            .map(|(index, part)| {
                // SAFETY: mmsghdr is plain data, and all zeros is a valid value of it.
                let mut head: libc::mmsghdr = unsafe { std::mem::zeroed() };
                head.msg_hdr.msg_iov = std::ptr::from_mut(part);
                head.msg_hdr.msg_iovlen = 1;
                if let Some(room) = control.get_mut(index) {
                    head.msg_hdr.msg_control = room.0.as_mut_ptr().cast::<c_void>();
                    head.msg_hdr.msg_controllen = CONTROL as _;
                }
                head
            })
            .collect();
        Self { buffer, control, parts, heads, stride }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.heads.len()
    }

    /// The whole room of one message.
    #[inline]
    pub(super) fn room(&mut self, index: usize) -> &mut [u8] {
        let start = index * self.stride;
        &mut self.buffer[start..start + self.stride]
    }

    /// How many bytes of one message are sent.
    #[inline]
    pub(super) fn set_length(&mut self, index: usize, length: usize) {
        self.parts[index].iov_len = length.min(self.stride);
    }

    /// sendmmsg(2) of the first `count` messages; how many the kernel took.
    #[inline]
    pub(super) fn send(&mut self, fd: RawFd, count: usize) -> c_int {
        let count = c_uint::try_from(count.min(self.heads.len())).unwrap_or(0);
        // SAFETY: the first `count` heads point to parts, and those into the buffer, that live as long as `self`; no
        // part is longer than its room.
        unsafe { libc::sendmmsg(fd, self.heads.as_mut_ptr(), count, libc::MSG_NOSIGNAL) }
    }

    /// recvmmsg(2) into all messages: waits for one at most (not at all with MSG_DONTWAIT), takes what is there.
    #[inline]
    pub(super) fn receive(&mut self, fd: RawFd, flags: c_int) -> c_int {
        if !self.control.is_empty() {
            for head in &mut self.heads {
                // The kernel wrote how much it used.
                head.msg_hdr.msg_controllen = CONTROL as _;
            }
        }
        let count = c_uint::try_from(self.heads.len()).unwrap_or(0);
        // SAFETY: as in `send`; the kernel writes no further than each part's length and each control's room.
        unsafe {
            libc::recvmmsg(
                fd,
                self.heads.as_mut_ptr(),
                count,
                (libc::MSG_WAITFORONE | flags) as _,
                std::ptr::null_mut(),
            )
        }
    }

    /// What the last call received into one message.
    #[inline]
    pub(super) fn received(&self, index: usize) -> &[u8] {
        let start = index * self.stride;
        let length = (self.heads[index].msg_len as usize).min(self.stride);
        &self.buffer[start..start + length]
    }

    /// Length of the datagrams that were joined into one message (UDP_GRO); the message's own when none were.
    #[inline]
    pub(super) fn segment(&self, index: usize) -> usize {
        let head = &self.heads[index];
        let whole = head.msg_len as usize;
        if self.control.is_empty() || head.msg_hdr.msg_controllen == 0 {
            return whole;
        }
        let mut length = None;
        // SAFETY: `head` was filled by recvmmsg, and its control buffer lives and is not written to.
        unsafe {
            sys::each_control(&head.msg_hdr, |level, kind, data| {
                if (level, kind) == (libc::SOL_UDP, super::UDP_GRO) {
                    length = data.first_chunk().map(|bytes| c_int::from_ne_bytes(*bytes));
                }
            });
        }
        length.and_then(|length| usize::try_from(length).ok()).filter(|length| *length > 0).unwrap_or(whole)
    }
}

/// getsockopt(2) of bytes; returns how many were written.
pub(super) fn get_bytes(fd: RawFd, level: c_int, name: c_int, room: &mut [u8]) -> io::Result<usize> {
    let mut length = libc::socklen_t::try_from(room.len()).unwrap_or(0);
    // SAFETY: the pointer and length describe `room`, which lives through the call and is not shared.
    let done = unsafe { libc::getsockopt(fd, level, name, room.as_mut_ptr().cast::<c_void>(), &raw mut length) };
    if done == 0 { Ok(length as usize) } else { Err(sys::last()) }
}

/// SIOCOUTQ (the number of TIOCOUTQ).
pub(super) fn output_queue(fd: RawFd) -> io::Result<u64> {
    let mut value: c_int = 0;
    // SAFETY: TIOCOUTQ writes one int to where it is told.
    let done = unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut value) };
    if done == 0 { Ok(u64::try_from(value).unwrap_or(0)) } else { Err(sys::last()) }
}
