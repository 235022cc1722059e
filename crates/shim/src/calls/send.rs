//! The send family. On kernel sockets it is passed on: it seldom waits. Sockets on the stack in this process send there.

use crate::user::{self, Outgoing};
use crate::{errno, kernel, real, time};
use bypass_abi::page::Reason;
use libc::{c_int, c_uint, c_void, iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t};
use std::ptr::null;

/// Sends one buffer, by the stack where the socket is there.
#[inline(always)]
unsafe fn send_any(
    fd: c_int,
    (data, size): (*const c_void, size_t),
    flags: c_int,
    name: (*const sockaddr, socklen_t),
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    if user::entry(fd).is_none() {
        return real();
    }
    let part = iovec { iov_base: data.cast_mut(), iov_len: size };
    // SAFETY: the caller's promises about the buffer and the address.
    user::send(fd, &unsafe { Outgoing::new(&raw const part, 1, flags, name, false) }).unwrap_or_else(real)
}

exports! {
    fn send(fd: c_int, data: *const c_void, size: size_t, flags: c_int) -> ssize_t {
        send_any(fd, (data, size), flags, (null(), 0), || real::send.get()(fd, data, size, flags))
    }

    fn sendto(
        fd: c_int, data: *const c_void, size: size_t, flags: c_int, to: *const sockaddr, to_size: socklen_t,
    ) -> ssize_t {
        send_any(fd, (data, size), flags, (to, to_size), || real::sendto.get()(fd, data, size, flags, to, to_size))
    }

    pub(super) fn write(fd: c_int, data: *const c_void, size: size_t) -> ssize_t {
        send_any(fd, (data, size), 0, (null(), 0), || real::write.get()(fd, data, size))
    }

    fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
        let on_stack = || {
            user::entry(fd)?;
            let count = usize::try_from(count).ok().filter(|count| (1..=1024).contains(count))?;
            user::send(fd, &Outgoing::new(parts, count, 0, (null(), 0), false))
        };
        on_stack().unwrap_or_else(|| real::writev.get()(fd, parts, count))
    }

    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        send_message(fd, message, flags).unwrap_or_else(|| real::sendmsg.get()(fd, message, flags))
    }

    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
        let most = count.min(1024) as usize;
        if user::entry(fd).is_none() {
            (0..most).for_each(|at| _ = send_message(fd, &raw const (*messages.add(at)).msg_hdr, flags));
            return real::sendmmsg.get()(fd, messages, count, flags);
        }
        for at in 0..most {
            let one = messages.add(at);
            let Ok(done) = u32::try_from(sendmsg(fd, &raw const (*one).msg_hdr, flags)) else {
                return if at > 0 { c_int::try_from(at).unwrap_or(0) } else { -1 };
            };
            (*one).msg_len = done;
        }
        c_int::try_from(most).unwrap_or(0)
    }

    fn sendfile(to: c_int, from: c_int, offset: *mut off_t, size: size_t) -> ssize_t {
        send_file(to, from, offset, size).unwrap_or_else(|| real::sendfile.get()(to, from, offset, size))
    }

    fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, size: size_t) -> ssize_t {
        send_file(to, from, offset, size).unwrap_or_else(|| real::sendfile64.get()(to, from, offset, size))
    }

    fn splice(
        from: c_int, from_offset: *mut off_t, to: c_int, to_offset: *mut off_t, size: size_t, flags: c_uint,
    ) -> ssize_t {
        let on_stack = splice_pipe((from, from_offset), (to, to_offset), size, flags);
        on_stack.unwrap_or_else(|| real::splice.get()(from, from_offset, to, to_offset, size, flags))
    }
}

/// Sends a message by the stack. Others may take descriptors of the stack's sockets to another process.
unsafe fn send_message(fd: c_int, message: *const msghdr, flags: c_int) -> Option<ssize_t> {
    if user::entry(fd).is_none() {
        // SAFETY: a message, as of sendmsg(2).
        unsafe {
            if user::is_enabled() && message.as_ref().is_some_and(|message| message.msg_controllen > 0) {
                super::inherit::each_in(message, |fd| user::to_kernel(fd, Reason::Passed));
            }
        }
        return None;
    }
    // SAFETY: as above.
    let message = unsafe { message.as_ref() }?;
    let name = (message.msg_name.cast_const().cast(), message.msg_namelen);
    let has_control = message.msg_controllen > 0;
    // SAFETY: the caller's promises about the buffers.
    user::send(fd, &unsafe { Outgoing::new(message.msg_iov, message.msg_iovlen, flags, name, has_control) })
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

/// splice between a pipe and a connection on the stack: copied piece by piece.
unsafe fn splice_pipe(
    from: (c_int, *mut off_t),
    to: (c_int, *mut off_t),
    size: size_t,
    flags: c_uint,
) -> Option<ssize_t> {
    const PIECE: usize = 16_384;
    let on_stack = |fd: c_int| user::entry(fd).is_some_and(|entry| entry.on_stack().is_some());
    let (reads, writes) = (on_stack(from.0), on_stack(to.0));
    if !reads && !writes {
        return None;
    }
    if size == 0 {
        return Some(0);
    }
    let (pipe, socket) = if reads { (to, from) } else { (from, to) };
    let error = match is_pipe(pipe.0) {
        true if !pipe.1.is_null() => libc::ESPIPE,
        true if socket.1.is_null() => 0,
        _ => libc::EINVAL,
    };
    if error != 0 {
        errno::set(error);
        return Some(-1);
    }
    let (from, to) = (from.0, to.0);
    let (mut piece, waits) = ([0_u8; PIECE], flags & libc::SPLICE_F_NONBLOCK == 0);
    let data = piece.as_mut_ptr();
    let size = size.min(PIECE);
    // SAFETY: the piece, and no more than its length.
    Some(unsafe { if reads { to_pipe(from, to, data, size, waits) } else { from_pipe(from, to, data, size, flags) } })
}

fn is_pipe(fd: c_int) -> bool {
    // SAFETY: a structure of integers, which the call fills.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        libc::fstat(fd, &raw mut status) == 0 && status.st_mode & libc::S_IFMT == libc::S_IFIFO
    }
}

/// What a pipe is ready for; waits for that where the pipe blocks, or sets EAGAIN.
fn pipe_ready(fd: c_int, events: libc::c_short, waits: bool) -> Option<libc::c_short> {
    let blocks = waits && !kernel::is_nonblocking(fd);
    let ready = kernel::poll_one(fd, events, if blocks { -1 } else { 0 });
    if ready == 0 {
        errno::set(libc::EAGAIN);
    }
    libc::c_short::try_from(ready).ok().filter(|ready| *ready > 0)
}

/// Each piece leaves the connection when the pipe has room for it.
unsafe fn to_pipe(from: c_int, to: c_int, data: *mut u8, size: size_t, waits: bool) -> ssize_t {
    let mut done = 0;
    while done < size {
        let Some(ready) = pipe_ready(to, libc::POLLOUT, waits && done == 0) else { break };
        if ready & libc::POLLERR != 0 {
            // Nobody reads it.
            kernel::raise_pipe();
            errno::set(libc::EPIPE);
            break;
        }
        // A pipe that is ready takes so much without waiting.
        let most = (size - done).min(libc::PIPE_BUF);
        let flags = if done == 0 { 0 } else { libc::MSG_DONTWAIT };
        // SAFETY: the caller's buffer.
        let got = unsafe { super::receive::recv(from, data.cast(), most, flags) };
        let got = match usize::try_from(got) {
            Ok(0) => return done.cast_signed(),
            Ok(got) => got,
            Err(_) => break,
        };
        let mut written = 0;
        while written < got {
            // SAFETY: as above.
            let put = unsafe { real::write.get()(to, data.add(written).cast(), got - written) };
            match usize::try_from(put) {
                Ok(put) => written += put,
                // Another thread has filled it meanwhile: what has left the connection waits for room.
                Err(_) if matches!(errno::get(), libc::EAGAIN | libc::EINTR) => {
                    kernel::poll_one(to, libc::POLLOUT, -1);
                }
                Err(_) => return if done + written > 0 { (done + written).cast_signed() } else { -1 },
            }
        }
        done += got;
    }
    if done > 0 { done.cast_signed() } else { -1 }
}

/// What a pipe gives has to find room, for it cannot be put back.
unsafe fn from_pipe(from: c_int, to: c_int, data: *mut u8, size: size_t, flags: c_uint) -> ssize_t {
    let Some(ready) = pipe_ready(from, libc::POLLIN, flags & libc::SPLICE_F_NONBLOCK == 0) else { return -1 };
    if ready & libc::POLLIN == 0 {
        // Its end.
        return 0;
    }
    let more = if flags & libc::SPLICE_F_MORE == 0 { 0 } else { libc::MSG_MORE };
    // SAFETY: the caller's buffer.
    unsafe {
        let room = loop {
            // Sends nothing, and finds out whether the connection takes anything.
            if send(to, data.cast(), 0, 0) < 0 {
                return -1;
            }
            match user::room(to) {
                Some(0) if !user::wait_for_room(to) => return -1,
                Some(0) => {}
                room => break room.unwrap_or(size),
            }
        };
        let got = real::read.get()(from, data.cast(), size.min(room));
        let Some(got) = usize::try_from(got).ok().filter(|got| *got > 0) else { return got };
        let mut sent = 0;
        while sent < got {
            let done = send(to, data.add(sent).cast(), got - sent, more);
            match usize::try_from(done) {
                Ok(done) => sent += done,
                // Another thread took the room: what has left the pipe goes on.
                Err(_) if matches!(errno::get(), libc::EAGAIN | libc::EINTR) => time::pause(),
                Err(_) if sent == 0 => return -1,
                Err(_) => break,
            }
        }
        sent.cast_signed()
    }
}
