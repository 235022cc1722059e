//! The calls that need `unsafe`, each wrapped once. Hot ones are inlined and add nothing to the libc call.

use crate::calls;
use libc::{c_int, c_void, socklen_t};
use nix::fcntl::OFlag;
use nix::sys::socket::{AddressFamily, SockFlag, SockType};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

#[inline]
pub(crate) fn errno() -> c_int {
    // SAFETY: glibc and musl return a valid pointer to this thread's errno.
    unsafe { *libc::__errno_location() }
}

pub(crate) fn last() -> io::Error {
    io::Error::last_os_error()
}

#[inline]
pub(crate) fn send(fd: RawFd, message: &[u8], flags: c_int) -> isize {
    calls::sends(fd, message);
    // SAFETY: the pointer and length describe `message`, which lives through the call.
    let result = unsafe { libc::send(fd, message.as_ptr().cast::<c_void>(), message.len(), flags) };
    calls::sent(fd, message, result);
    result
}

#[inline]
pub(crate) fn recv(fd: RawFd, buffer: &mut [u8], flags: c_int) -> isize {
    // SAFETY: pointer and length describe `buffer`, not shared. Also with MSG_TRUNC the kernel stays within it.
    let result = unsafe { libc::recv(fd, buffer.as_mut_ptr().cast::<c_void>(), buffer.len(), flags) };
    calls::received(fd, buffer, result);
    result
}

/// sendto(2) with an address in kernel form.
#[inline]
pub(crate) fn sendto(fd: RawFd, message: &[u8], flags: c_int, to: &[u8]) -> isize {
    #[expect(clippy::cast_possible_truncation, reason = "an address has at most 28 bytes")]
    let length = to.len() as socklen_t;
    calls::sends(fd, message);
    // SAFETY: both pointer and length pairs describe slices that live through the call. The kernel copies the address
    // bytes, so their alignment does not matter; preloaded stacks get it from an 8-byte aligned struct anyway.
    let result = unsafe {
        libc::sendto(
            fd,
            message.as_ptr().cast::<c_void>(),
            message.len(),
            flags,
            to.as_ptr().cast::<libc::sockaddr>(),
            length,
        )
    };
    calls::sent(fd, message, result);
    result
}

/// recvfrom(2); writes the source in kernel form to `from` and its length to `length`.
#[inline]
pub(crate) fn recvfrom(fd: RawFd, buffer: &mut [u8], flags: c_int, from: &mut [u8], length: &mut socklen_t) -> isize {
    #[expect(clippy::cast_possible_truncation, reason = "an address has at most 28 bytes")]
    let room = from.len() as socklen_t;
    *length = room;
    // SAFETY: as in `recv`; `from` is writable for the length that is passed, and `length` is a valid, exclusive place.
    let result = unsafe {
        libc::recvfrom(
            fd,
            buffer.as_mut_ptr().cast::<c_void>(),
            buffer.len(),
            flags,
            from.as_mut_ptr().cast::<libc::sockaddr>(),
            length,
        )
    };
    calls::received(fd, buffer, result);
    result
}

#[inline]
pub(crate) fn read(fd: RawFd, buffer: &mut [u8]) -> isize {
    // SAFETY: the pointer and length describe `buffer`, which lives through the call and is not shared.
    let result = unsafe { libc::read(fd, buffer.as_mut_ptr().cast::<c_void>(), buffer.len()) };
    calls::received(fd, buffer, result);
    result
}

#[inline]
pub(crate) fn write(fd: RawFd, message: &[u8]) -> isize {
    calls::sends(fd, message);
    // SAFETY: the pointer and length describe `message`, which lives through the call.
    let result = unsafe { libc::write(fd, message.as_ptr().cast::<c_void>(), message.len()) };
    calls::sent(fd, message, result);
    result
}

/// poll(2); a negative time-out waits for ever.
#[inline]
pub(crate) fn poll(set: &mut [libc::pollfd], timeout_ms: c_int) -> c_int {
    // SAFETY: the pointer and count describe `set`, which lives through the call and is not shared.
    unsafe { libc::poll(set.as_mut_ptr(), set.len() as libc::nfds_t, timeout_ms) }
}

pub(crate) fn domain(v6: bool) -> c_int {
    if v6 { libc::AF_INET6 } else { libc::AF_INET }
}

pub(crate) fn socket(domain: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) };
    own(fd)
}

pub(crate) fn own(fd: c_int) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(last());
    }
    // SAFETY: the call that returned it made it for this caller, and no other code has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// memfd_create(2) with this many zero bytes.
pub(crate) fn memory_file(name: &std::ffi::CStr, bytes: usize) -> io::Result<OwnedFd> {
    // SAFETY: the name ends with zero and lives through the call.
    let file = own(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) })?;
    std::fs::File::from(file.try_clone()?).set_len(bytes as u64)?;
    Ok(file)
}

/// The length of a file in bytes (fstat(2)).
pub(crate) fn file_bytes(fd: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(u64::try_from(nix::sys::stat::fstat(fd)?.st_size).unwrap_or(0))
}

/// Maps a file that processes share, all of it there at once.
pub(crate) fn map_shared(fd: RawFd, bytes: usize) -> io::Result<NonNull<u8>> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
    // SAFETY: no address is asked for, so no memory in use is replaced.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, fd, 0) };
    NonNull::new(start.cast()).filter(|_| start != libc::MAP_FAILED).ok_or_else(last)
}

/// Unmaps what [`map_shared`] mapped and nothing refers to any more.
pub(crate) fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller owns the mapping and gives it up.
    unsafe { libc::munmap(start.as_ptr().cast::<c_void>(), bytes) };
}

/// futex(2), FUTEX_WAIT: sleeps while the word is `expected`. The error, if one ended the sleep.
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32) -> Option<c_int> {
    let for_ever = std::ptr::null::<libc::timespec>();
    // SAFETY: the word lives through the call; the kernel reads it atomically.
    let done = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, for_ever) };
    (done < 0).then(errno)
}

/// futex(2), FUTEX_WAKE: wakes the one that sleeps at the word.
pub(crate) fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word lives through the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
}

/// setsockopt(2) with a plain value.
pub(crate) fn set_option<T: Copy>(fd: RawFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let length = socklen_t::try_from(size_of::<T>()).unwrap_or(socklen_t::MAX);
    // SAFETY: the pointer and length describe `value`, which lives through the call.
    let done = unsafe { libc::setsockopt(fd, level, name, std::ptr::from_ref(value).cast::<c_void>(), length) };
    if done == 0 { Ok(()) } else { Err(last()) }
}

/// getsockopt(2) of integers; returns how many were written.
pub(crate) fn get_option(fd: RawFd, level: c_int, name: c_int, values: &mut [u32]) -> io::Result<usize> {
    let mut length = socklen_t::try_from(size_of_val(values)).unwrap_or(socklen_t::MAX);
    // SAFETY: pointer and length describe `values`, which is not shared; any bit pattern is a valid u32.
    let done = unsafe { libc::getsockopt(fd, level, name, values.as_mut_ptr().cast::<c_void>(), &raw mut length) };
    if done == 0 { Ok(length as usize / size_of::<u32>()) } else { Err(last()) }
}

/// getsockopt(2) of bytes; returns how many were written.
pub(crate) fn get_bytes(fd: RawFd, level: c_int, name: c_int, room: &mut [u8]) -> io::Result<usize> {
    let mut length = libc::socklen_t::try_from(room.len()).unwrap_or(0);
    // SAFETY: the pointer and length describe `room`, which lives through the call and is not shared.
    let done = unsafe { libc::getsockopt(fd, level, name, room.as_mut_ptr().cast::<c_void>(), &raw mut length) };
    if done == 0 { Ok(length as usize) } else { Err(last()) }
}

/// SIOCOUTQ (the number of TIOCOUTQ).
pub(crate) fn output_queue(fd: RawFd) -> io::Result<u64> {
    let mut value: c_int = 0;
    // SAFETY: TIOCOUTQ writes one int to the given place.
    let done = unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut value) };
    if done == 0 { Ok(u64::try_from(value).unwrap_or(0)) } else { Err(last()) }
}

pub(crate) fn set_nonblocking(fd: RawFd, on: bool) -> io::Result<()> {
    // SAFETY: no pointers.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags < 0 {
        return Err(last());
    }
    let wanted = if on { flags | libc::O_NONBLOCK } else { flags & !libc::O_NONBLOCK };
    if wanted == flags {
        return Ok(());
    }
    // SAFETY: no pointers.
    let done = unsafe { libc::fcntl(fd, libc::F_SETFL, wanted) };
    if done < 0 { Err(last()) } else { Ok(()) }
}

pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(nix::unistd::pipe2(OFlag::O_CLOEXEC)?)
}

/// A pair of connected UNIX sockets of one kind, both close-on-exec.
pub(crate) fn socketpair(kind: SockType) -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(nix::sys::socket::socketpair(AddressFamily::Unix, kind, None, SockFlag::SOCK_CLOEXEC)?)
}

/// Waits until `fd` is ready for `events` or has an error; false after the time-out. Signals do not extend it.
pub(crate) fn wait_for(fd: RawFd, events: libc::c_short, timeout: std::time::Duration) -> io::Result<bool> {
    let end = std::time::Instant::now() + timeout;
    loop {
        let left = end.saturating_duration_since(std::time::Instant::now());
        let mut set = [libc::pollfd { fd, events, revents: 0 }];
        // Rounded up, so that the last wait is not a busy loop.
        let left_ms = c_int::try_from(left.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX);
        let ready = poll(&mut set, left_ms);
        if ready > 0 {
            return Ok(true);
        }
        if ready < 0 && errno() != libc::EINTR {
            return Err(last());
        }
        if left.is_zero() {
            return Ok(false);
        }
    }
}

/// bind(2) to an address in kernel form.
pub(crate) fn bind(fd: RawFd, address: &[u8]) -> io::Result<()> {
    let length = socklen_t::try_from(address.len()).unwrap_or(0);
    // SAFETY: the pointer and length describe `address`, which lives through the call.
    let done = unsafe { libc::bind(fd, address.as_ptr().cast::<libc::sockaddr>(), length) };
    if done == 0 { Ok(()) } else { Err(last()) }
}

/// connect(2) to an address in kernel form.
pub(crate) fn connect(fd: RawFd, address: &[u8]) -> io::Result<()> {
    let length = socklen_t::try_from(address.len()).unwrap_or(0);
    // SAFETY: the pointer and length describe `address`, which lives through the call.
    let done = unsafe { libc::connect(fd, address.as_ptr().cast::<libc::sockaddr>(), length) };
    if done == 0 { Ok(()) } else { Err(last()) }
}

/// getsockname(2) in kernel form.
pub(crate) fn getsockname(fd: RawFd, room: &mut [u8]) -> io::Result<()> {
    let mut length = socklen_t::try_from(room.len()).unwrap_or(0);
    // SAFETY: `room` is writable for the length that is passed, and `length` is a valid, exclusive place.
    let done = unsafe { libc::getsockname(fd, room.as_mut_ptr().cast::<libc::sockaddr>(), &raw mut length) };
    if done == 0 { Ok(()) } else { Err(last()) }
}

pub(crate) fn listen(fd: RawFd) -> io::Result<()> {
    // SAFETY: no pointers.
    if unsafe { libc::listen(fd, 128) } < 0 { Err(last()) } else { Ok(()) }
}

/// accept4(2), close-on-exec, with the peer's address.
pub(crate) fn accept(fd: RawFd) -> io::Result<(OwnedFd, Option<std::net::SocketAddr>)> {
    let mut address = crate::address::RawAddress::EMPTY;
    let room = address.room();
    let mut length = socklen_t::try_from(room.len()).unwrap_or(0);
    // SAFETY: as in `getsockname`.
    let accepted =
        unsafe { libc::accept4(fd, room.as_mut_ptr().cast::<libc::sockaddr>(), &raw mut length, libc::SOCK_CLOEXEC) };
    Ok((own(accepted)?, address.decode()))
}

/// Whether a descriptor is a pipe (fstat(2)).
pub(crate) fn is_pipe(fd: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(nix::sys::stat::fstat(fd)?.st_mode & libc::S_IFMT == libc::S_IFIFO)
}

/// Room for control messages, aligned as cmsghdr is.
#[repr(C, align(8))]
struct Control([u8; 128]);

/// recvmsg(2); `with` gets each control message. `from` gets the source, as far as it fits (none on streams).
#[inline]
fn receive_message(
    fd: RawFd,
    buffer: &mut [u8],
    flags: c_int,
    from: Option<&mut [u8]>,
    with: impl FnMut(c_int, c_int, &[u8]),
) -> isize {
    let mut control = Control([0; 128]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast::<c_void>(), iov_len: buffer.len() };
    // SAFETY: msghdr is plain data, and all zeros is a valid value of it.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    if let Some(from) = from {
        message.msg_name = from.as_mut_ptr().cast::<c_void>();
        message.msg_namelen = socklen_t::try_from(from.len()).unwrap_or(0);
    }
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast::<c_void>();
    message.msg_controllen = control.0.len() as _;
    // SAFETY: all pointers in `message` describe buffers that live through the call and are not shared.
    let result = unsafe { libc::recvmsg(fd, &raw mut message, flags) };
    if result >= 0 {
        // SAFETY: `message` was filled by recvmsg just now and its control buffer still lives.
        unsafe { each_control(&message, with) };
    }
    result
}

/// recvmsg(2) with the source and, where the socket asks for them, time stamps (SCM_TIMESTAMPING).
#[inline]
pub(crate) fn recvmsg_from(
    fd: RawFd,
    buffer: &mut [u8],
    flags: c_int,
    from: &mut crate::address::RawAddress,
    stamp: &mut crate::control::Pair,
) -> isize {
    let result =
        receive_message(fd, buffer, flags, Some(from.room()), |level, kind, data| stamp.read(level, kind, data));
    calls::received(fd, buffer, result);
    result
}

/// recvmsg(2) from the error queue (MSG_ERRQUEUE): times and message number of a sent stamp; the message is dropped.
pub(crate) fn recvmsg_sent(fd: RawFd, stamp: &mut crate::control::Pair, id: &mut Option<u32>) -> isize {
    receive_message(fd, &mut [0], libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT, None, |level, kind, data| {
        stamp.read(level, kind, data);
        crate::control::read_id(level, kind, data, id);
    })
}

/// recvmsg(2) with the TTL or hop limit, where the kernel gives it: an int of both kinds (ip(7), RFC 3542).
pub(crate) fn recvmsg(fd: RawFd, buffer: &mut [u8], flags: c_int, ttl: &mut Option<u8>) -> isize {
    receive_message(fd, buffer, flags, None, |level, kind, data| {
        if matches!((level, kind), (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT)) {
            *ttl = data.first_chunk().and_then(|bytes| u8::try_from(c_int::from_ne_bytes(*bytes)).ok());
        }
    })
}

/// Calls `with` for each control message's level, type and data.
///
/// # Safety
/// `message` must have been filled by recvmsg(2), and its control buffer must live and not be written to.
#[inline]
pub(crate) unsafe fn each_control(message: &libc::msghdr, mut with: impl FnMut(c_int, c_int, &[u8])) {
    // SAFETY: by the caller's promise the walk stays within the control buffer; each entry's length is how many bytes
    // of data follow its header, and the kernel never lets them reach beyond the buffer (MSG_CTRUNC cuts them).
    unsafe {
        let header = libc::CMSG_LEN(0) as usize;
        let mut entry = libc::CMSG_FIRSTHDR(std::ptr::from_ref(message));
        while !entry.is_null() {
            #[allow(clippy::unnecessary_cast, reason = "its type differs by C library")]
            let length = ((*entry).cmsg_len as usize).saturating_sub(header);
            let data = std::slice::from_raw_parts(libc::CMSG_DATA(entry), length);
            with((*entry).cmsg_level, (*entry).cmsg_type, data);
            entry = libc::CMSG_NXTHDR(std::ptr::from_ref(message), entry);
        }
    }
}

/// An ioctl on the interface called `device` (netdevice(7)). `fill` writes what the call takes beside the name; what it
/// gives is in the answer.
///
/// # Safety
/// The request called `number` must read and write nothing outside of ifreq but what `fill` lets `ifr_data` point to: the
/// structure that the number (and for SIOCETHTOOL the command in its first word) means, which must live through the call.
pub(crate) unsafe fn interface_request(
    number: libc::c_ulong,
    device: &str,
    fill: impl FnOnce(&mut libc::ifreq),
) -> io::Result<libc::ifreq> {
    let socket = socket(libc::AF_INET, libc::SOCK_DGRAM, 0).or_else(|_| socket(libc::AF_INET6, libc::SOCK_DGRAM, 0))?;
    // SAFETY: ifreq is plain data, and all zeros is a valid value of it.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays 0.
    if device.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    fill(&mut request);
    // SAFETY: the request lives through the call, and so does all else that it may write to, by the caller's promise.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), number as _, &raw mut request) };
    if done < 0 { Err(last()) } else { Ok(request) }
}

/// The same with an argument that lies behind `ifr_data`.
///
/// # Safety
/// `T` must be the structure that the number (and for SIOCETHTOOL the command in its first word) means, and valid whatever
/// the kernel writes.
pub(crate) unsafe fn interface_ioctl<T>(number: libc::c_ulong, device: &str, data: &mut T) -> io::Result<()> {
    let data = std::ptr::from_mut(data).cast::<libc::c_char>();
    // SAFETY: `data` lives through the call, and is what the number means by the caller's promise.
    unsafe { interface_request(number, device, |request| request.ifr_ifru.ifru_data = data).map(drop) }
}

/// A structure that an ioctl of a PTP clock takes and fills.
///
/// # Safety
/// It is made of integers alone, and is the structure that the number means.
pub(crate) unsafe trait ClockRequest {
    const NUMBER: libc::Ioctl;
}

// SAFETY: as linux/ptp_clock.h has it.
unsafe impl ClockRequest for libc::ptp_sys_offset {
    const NUMBER: libc::Ioctl = libc::PTP_SYS_OFFSET;
}
// SAFETY: as linux/ptp_clock.h has it.
unsafe impl ClockRequest for libc::ptp_sys_offset_extended {
    const NUMBER: libc::Ioctl = libc::PTP_SYS_OFFSET_EXTENDED;
}
// SAFETY: as linux/ptp_clock.h has it.
unsafe impl ClockRequest for libc::ptp_sys_offset_precise {
    const NUMBER: libc::Ioctl = libc::PTP_SYS_OFFSET_PRECISE;
}

pub(crate) fn clock_ioctl<T: ClockRequest>(fd: RawFd, data: &mut T) -> io::Result<()> {
    // SAFETY: `data` is the structure that the number means, and it lives through the call.
    if unsafe { libc::ioctl(fd, T::NUMBER, std::ptr::from_mut(data)) } < 0 { Err(last()) } else { Ok(()) }
}

/// Such a structure with all zeros.
pub(crate) fn plain<T: ClockRequest>() -> T {
    // SAFETY: it is made of integers alone.
    unsafe { std::mem::zeroed() }
}

/// The time of a clock that is an open file (clock_gettime(2), dynamic clocks).
pub(crate) fn clock_of(fd: RawFd) -> io::Result<u64> {
    // FD_TO_CLOCKID of the kernel's posix-timers.h.
    const CLOCKFD: libc::clockid_t = 3;
    let id = (!fd << 3) | CLOCKFD;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that lives through the call.
    if unsafe { libc::clock_gettime(id, &raw mut time) } < 0 {
        return Err(last());
    }
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Ok(seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0)))
}
