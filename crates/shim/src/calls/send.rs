//! The send family. On kernel sockets it is passed on: it seldom waits. Sockets on the stack in this process send there.

use crate::user::{self, Outgoing};
use crate::{errno, real};
use libc::{c_int, c_uint, c_void, iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t};
use std::ptr::null;

/// Sends one buffer, by the stack where the socket is there.
#[inline(always)]
unsafe fn send_any(
    fd: c_int,
    data: *const c_void,
    size: size_t,
    flags: c_int,
    (name, name_size): (*const sockaddr, socklen_t),
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    if user::entry(fd).is_none() {
        return real();
    }
    let part = iovec { iov_base: data.cast_mut(), iov_len: size };
    let outgoing = Outgoing { parts: &raw const part, count: 1, flags, name, name_size, has_control: false };
    // SAFETY: the caller's promises about the buffer and the address.
    unsafe { user::send(fd, &outgoing) }.unwrap_or_else(real)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn send(fd: c_int, data: *const c_void, size: size_t, flags: c_int) -> ssize_t {
    // SAFETY: passed on as they came.
    unsafe { send_any(fd, data, size, flags, (null(), 0), || real::send.get()(fd, data, size, flags)) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    data: *const c_void,
    size: size_t,
    flags: c_int,
    to: *const sockaddr,
    to_size: socklen_t,
) -> ssize_t {
    // SAFETY: passed on as they came.
    unsafe { send_any(fd, data, size, flags, (to, to_size), || real::sendto.get()(fd, data, size, flags, to, to_size)) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub(super) unsafe extern "C-unwind" fn write(fd: c_int, data: *const c_void, size: size_t) -> ssize_t {
    // SAFETY: passed on as they came.
    unsafe { send_any(fd, data, size, 0, (null(), 0), || real::write.get()(fd, data, size)) }
}

/// Sends several buffers, by the stack where the socket is there.
unsafe fn send_parts(fd: c_int, parts: *const iovec, count: c_int) -> Option<ssize_t> {
    user::entry(fd)?;
    let count = usize::try_from(count).ok().filter(|count| (1..=1024).contains(count))?;
    let outgoing = Outgoing { parts, count, flags: 0, name: null(), name_size: 0, has_control: false };
    // SAFETY: the caller's promises about the buffers.
    unsafe { user::send(fd, &outgoing) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: passed on as they came.
    unsafe { send_parts(fd, parts, count).unwrap_or_else(|| real::writev.get()(fd, parts, count)) }
}

/// Sends a message by the stack. Others may take descriptors of the stack's sockets to another process.
unsafe fn send_message(fd: c_int, message: *const msghdr, flags: c_int) -> Option<ssize_t> {
    if user::entry(fd).is_none() {
        // SAFETY: a message, as of sendmsg(2).
        unsafe {
            if user::is_enabled() && message.as_ref().is_some_and(|message| message.msg_controllen > 0) {
                super::descriptors::each_in(message, user::passed);
            }
        }
        return None;
    }
    // SAFETY: as above.
    let message = unsafe { message.as_ref() }?;
    let outgoing = Outgoing {
        parts: message.msg_iov,
        count: message.msg_iovlen,
        flags,
        name: message.msg_name.cast(),
        name_size: message.msg_namelen,
        has_control: message.msg_controllen > 0,
    };
    // SAFETY: the caller's promises about the buffers.
    unsafe { user::send(fd, &outgoing) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: passed on as they came.
    unsafe { send_message(fd, message, flags).unwrap_or_else(|| real::sendmsg.get()(fd, message, flags)) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    if user::entry(fd).is_none() {
        // SAFETY: passed on as they came.
        return unsafe { real::sendmmsg.get()(fd, messages, count, flags) };
    }
    let mut sent = 0;
    for at in 0..count.min(1024) as usize {
        // SAFETY: `count` messages, as of sendmmsg(2).
        let done = unsafe {
            let one = messages.add(at);
            let done = sendmsg(fd, &raw const (*one).msg_hdr, flags);
            if done >= 0 {
                (*one).msg_len = u32::try_from(done).unwrap_or(u32::MAX);
            }
            done
        };
        if done < 0 {
            return if sent > 0 { sent } else { -1 };
        }
        sent += 1;
    }
    sent
}

/// sendfile to a connection on the stack: the file is read piece by piece.
unsafe fn send_file(to: c_int, from: c_int, offset: *mut off_t, size: size_t) -> Option<ssize_t> {
    user::entry(to).filter(|entry| entry.on_stack().is_some())?;
    let mut piece = [0_u8; 16_384];
    let mut sent = 0;
    while sent < size {
        let most = piece.len().min(size - sent);
        // SAFETY: reads into `piece`; the offset is null or one, as of sendfile(2).
        let (got, done) = unsafe {
            let start = piece.as_mut_ptr().cast();
            let got = match offset.as_ref() {
                Some(offset) => libc::pread(from, start, most, *offset),
                None => libc::read(from, start, most),
            };
            let part = usize::try_from(got).unwrap_or(0);
            // An end of the file within a page does not mean that more follows.
            let more = if sent + part < size { libc::MSG_MORE } else { 0 };
            (got, if part == 0 { 0 } else { send(to, piece.as_ptr().cast(), part, more) })
        };
        if got <= 0 || done <= 0 {
            if got > 0 && offset.is_null() {
                // SAFETY: takes numbers: what was read and not sent is read again.
                unsafe { libc::lseek(from, -got as off_t, libc::SEEK_CUR) };
            }
            let failed = if got < 0 { got } else { done };
            return Some(if sent > 0 { sent.cast_signed() } else { failed });
        }
        sent += done.unsigned_abs();
        // SAFETY: as above.
        unsafe {
            match offset.as_mut() {
                Some(offset) => *offset += done as off_t,
                None if done < got => {
                    libc::lseek(from, (done - got) as off_t, libc::SEEK_CUR);
                }
                None => {}
            }
        }
        if done < got {
            break;
        }
    }
    Some(sent.cast_signed())
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn sendfile(to: c_int, from: c_int, offset: *mut off_t, size: size_t) -> ssize_t {
    // SAFETY: passed on as they came.
    unsafe { send_file(to, from, offset, size).unwrap_or_else(|| real::sendfile.get()(to, from, offset, size)) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, size: size_t) -> ssize_t {
    // SAFETY: passed on as they came.
    unsafe { send_file(to, from, offset, size).unwrap_or_else(|| real::sendfile64.get()(to, from, offset, size)) }
}

/// Pipes reach only the kernel's sockets: programs that are refused copy by themselves.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn splice(
    from: c_int,
    from_offset: *mut off_t,
    to: c_int,
    to_offset: *mut off_t,
    size: size_t,
    flags: c_uint,
) -> ssize_t {
    if [from, to].into_iter().any(|fd| user::entry(fd).is_some_and(|entry| entry.on_stack().is_some())) {
        errno::set(libc::EINVAL);
        return -1;
    }
    // SAFETY: passed on as they came.
    unsafe { real::splice.get()(from, from_offset, to, to_offset, size, flags) }
}
