//! The calls that need `unsafe`, each wrapped once.

use libc::{c_int, c_void, socklen_t};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;

/// Where the program in whose process this runs does not expect its next descriptor.
const HIGH: c_int = 900;

/// Takes a descriptor that a call has just returned, and gives it a high number where the process may have one.
pub(crate) fn own(fd: i64) -> io::Result<OwnedFd> {
    let low = match c_int::try_from(fd) {
        // SAFETY: the call that returned it made it for this caller, and no other code has it.
        Ok(fd) if fd >= 0 => unsafe { OwnedFd::from_raw_fd(fd) },
        _ => return Err(io::Error::last_os_error()),
    };
    // SAFETY: takes numbers only.
    let high = unsafe { libc::fcntl(low.as_raw_fd(), libc::F_DUPFD_CLOEXEC, HIGH) };
    // SAFETY: as above.
    Ok(if high < 0 { low } else { unsafe { OwnedFd::from_raw_fd(high) } })
}

/// socket(2) with SOCK_CLOEXEC.
pub(crate) fn socket(domain: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    own(i64::from(unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) }))
}

/// setsockopt(2) with a plain value.
pub(crate) fn set_option<T: Copy>(fd: RawFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let length = socklen_t::try_from(size_of::<T>()).unwrap_or(socklen_t::MAX);
    // SAFETY: the pointer and length describe `value`, which lives through the call.
    let done = unsafe { libc::setsockopt(fd, level, name, std::ptr::from_ref(value).cast::<c_void>(), length) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A kernel structure of plain integers, for which all bytes zero and any bytes at all are values.
///
/// # Safety
/// Only for `#[repr(C)]` structures that consist of integers.
pub(crate) unsafe trait Plain: Copy {}
// SAFETY: structures of integers in linux/if_xdp.h and linux/if_packet.h.
unsafe impl Plain for libc::xdp_mmap_offsets {}
// SAFETY: as above.
unsafe impl Plain for libc::xdp_statistics {}
// SAFETY: as above.
unsafe impl Plain for libc::xdp_options {}
// SAFETY: as above.
unsafe impl Plain for [u32; 2] {}

/// getsockopt(2) into a zeroed structure. An older kernel may fill less of it.
pub(crate) fn get_option<T: Plain>(fd: RawFd, level: c_int, name: c_int) -> io::Result<T> {
    let mut length = socklen_t::try_from(size_of::<T>()).unwrap_or(socklen_t::MAX);
    // SAFETY: zero bytes are a value of a `Plain` type.
    let mut value: T = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer and length describe `value`, which lives through the call and is not shared; any bytes are a value.
    let done = unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast::<c_void>(), &raw mut length) };
    if done == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// bind(2) with an address structure of the kernel.
pub(crate) fn bind<T: Copy>(fd: RawFd, address: &T) -> io::Result<()> {
    let length = socklen_t::try_from(size_of::<T>()).unwrap_or(socklen_t::MAX);
    // SAFETY: the pointer and length describe `address`, which lives through the call.
    let done = unsafe { libc::bind(fd, std::ptr::from_ref(address).cast::<libc::sockaddr>(), length) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The null pointer and length of a message that there is not.
const NOTHING: usize = 0;

/// Tells the kernel that the send ring has frames: sendto(2) without a message. The error is the kernel's number. Not the C
/// library's function: that one is a point at which a thread may be cancelled, with its caller's lock held.
#[inline]
pub(crate) fn wake_sender(fd: RawFd) -> Result<(), c_int> {
    // SAFETY: no message, no address; the kernel reads no memory of this process.
    let done = unsafe { libc::syscall(libc::SYS_sendto, fd, NOTHING, NOTHING, libc::MSG_DONTWAIT, NOTHING, NOTHING) };
    if done >= 0 { Ok(()) } else { Err(errno()) }
}

/// Tells the kernel that the fill ring has frames again: recvfrom(2) without a buffer.
#[inline]
pub(crate) fn wake_receiver(fd: RawFd) {
    // SAFETY: no buffer, no address; the kernel writes no memory of this process.
    unsafe {
        libc::syscall(libc::SYS_recvfrom, fd, NOTHING, NOTHING, libc::MSG_DONTWAIT, NOTHING, NOTHING);
    }
}

/// send(2) without waiting.
#[inline]
pub(crate) fn send(fd: RawFd, frame: &[u8]) -> Result<(), c_int> {
    let (start, length) = (frame.as_ptr(), frame.len());
    // SAFETY: the pointer and length describe `frame`, which lives through the call.
    let done = unsafe { libc::syscall(libc::SYS_sendto, fd, start, length, libc::MSG_DONTWAIT, NOTHING, NOTHING) };
    if done >= 0 { Ok(()) } else { Err(errno()) }
}

#[inline]
pub(crate) fn errno() -> c_int {
    // SAFETY: glibc and musl return a valid pointer to this thread's errno.
    unsafe { *libc::__errno_location() }
}

/// CLOCK_REALTIME in ns, without a system call.
#[inline]
pub(crate) fn real_time_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time to `now`.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    part(now.tv_sec) * 1_000_000_000 + part(now.tv_nsec)
}

/// memfd_create(2) with this many bytes that are there at once, and neither more nor less from now on.
pub(crate) fn sealed_memory(name: &CStr, bytes: usize) -> io::Result<OwnedFd> {
    let length = libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name ends with NUL.
    let file = own(i64::from(unsafe { libc::memfd_create(name.as_ptr(), flags) }))?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: takes numbers only.
    let done = unsafe {
        libc::ftruncate(file.as_raw_fd(), length) == 0
            && libc::fallocate(file.as_raw_fd(), 0, 0, length) == 0
            && libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) == 0
    };
    if done { Ok(file) } else { Err(io::Error::last_os_error()) }
}

/// Memory mapped into this process, unmapped when dropped. Not inherited by children (MADV_DONTFORK): a child that wrote
/// into the rings would corrupt its parent's.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone and is not bound to a thread.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives addresses only; whoever follows them explains why that is sound.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` of `fd` at `offset`, or memory of no file. All of it is there at once.
    pub(crate) fn new(fd: Option<RawFd>, bytes: usize, offset: i64) -> io::Result<Self> {
        let kind = if fd.is_some() { libc::MAP_SHARED } else { libc::MAP_PRIVATE | libc::MAP_ANONYMOUS };
        // SAFETY: no address is asked for, so no memory in use is replaced.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                kind | libc::MAP_POPULATE,
                fd.unwrap_or(-1),
                offset,
            )
        };
        let start = NonNull::new(start.cast::<u8>()).filter(|_| start != libc::MAP_FAILED);
        let mapping = Self { start: start.ok_or_else(io::Error::last_os_error)?, bytes };
        // SAFETY: the range is the mapping just made.
        unsafe { libc::madvise(mapping.start.as_ptr().cast::<c_void>(), bytes, libc::MADV_DONTFORK) };
        Ok(mapping)
    }

    /// The address of byte `at`, with `bytes` behind it. Panics: the range is not inside the mapping.
    #[inline]
    pub(crate) fn at(&self, at: usize, bytes: usize) -> *mut u8 {
        assert!(at <= self.bytes && bytes <= self.bytes - at, "a range outside of the mapping");
        // SAFETY: `at` is inside the mapping.
        unsafe { self.start.as_ptr().add(at) }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value has the range, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast::<c_void>(), self.bytes) };
    }
}
