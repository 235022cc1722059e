//! Streams of stdio on sockets. The C library's own read and write past every library in front of it, so sockets that may be
//! on the stack in this process get streams whose functions are this library's.

use crate::real::{self, Functions};
use crate::{table, user};
use libc::{FILE, c_char, c_int, c_void, size_t, ssize_t};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed};

const FUNCTIONS: Functions = Functions { read: get, write: put, seek, close };
/// FILE's descriptor in glibc: behind flags, eleven buffer pointers, markers, chain. ABI, so it stays.
const AT_DESCRIPTOR: usize = 112;

/// Whether the process' orderly end has begun.
static ENDS: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    fn ftrylockfile(stream: *mut FILE) -> c_int;
    fn funlockfile(stream: *mut FILE);
    fn fflush_unlocked(stream: *mut FILE) -> c_int;
    fn vasprintf(to: *mut *mut c_char, format: *const c_char, arguments: *mut c_void) -> c_int;
}

fn fd_of(cookie: *mut c_void) -> c_int {
    c_int::try_from(cookie.addr()).unwrap_or(-1)
}

unsafe extern "C-unwind" fn get(cookie: *mut c_void, data: *mut c_char, size: size_t) -> ssize_t {
    // SAFETY: the C library's buffer.
    unsafe { super::receive::read(fd_of(cookie), data.cast(), size) }
}

unsafe extern "C-unwind" fn put(cookie: *mut c_void, data: *const c_char, size: size_t) -> ssize_t {
    if ENDS.load(Relaxed) && table::entry(fd_of(cookie)).is_some_and(|entry| entry.has(table::LEFT)) {
        // The process that forked this one has the connection, and the stream with what it holds.
        crate::errno::set(libc::EPIPE);
        return 0;
    }
    // SAFETY: the C library's buffer.
    let sent = unsafe { write_all(fd_of(cookie), data.cast(), size) };
    sent.cast_signed()
}

/// Sends a buffer; how much of it.
unsafe fn write_all(fd: c_int, data: *const c_void, size: size_t) -> size_t {
    let mut sent = 0;
    while sent < size {
        // SAFETY: the caller's buffer.
        let done = unsafe { super::send::write(fd, data.add(sent), size - sent) };
        match usize::try_from(done) {
            Ok(done @ 1..) => sent += done,
            _ => break,
        }
    }
    sent
}

unsafe extern "C-unwind" fn seek(_: *mut c_void, _: *mut i64, _: c_int) -> c_int {
    crate::errno::set(libc::ESPIPE);
    -1
}

unsafe extern "C-unwind" fn close(cookie: *mut c_void) -> c_int {
    let fd = fd_of(cookie);
    user::streams(|streams| streams.retain(|one| one.1 != fd));
    // SAFETY: the stream's own descriptor.
    unsafe { super::close::close(fd) }
}

/// Whether a descriptor is a socket that is, or may come to be, on the stack in this process.
fn is_ours(fd: c_int) -> bool {
    user::is_enabled() && table::socket(fd).is_some()
}

/// Before the process ends: what streams still hold goes to their sockets. The C library does so when the sockets are closed already.
pub(crate) fn flush() {
    ENDS.store(true, Relaxed);
    for stream in user::streams_at_end().iter().map(|one| one.0.load(Relaxed)) {
        // SAFETY: a stream that is not closed. One that a thread holds stays as it is.
        unsafe {
            if ftrylockfile(stream) == 0 {
                fflush_unlocked(stream);
                funlockfile(stream);
            }
        }
    }
}

exports! {
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
        if !is_ours(fd) {
            return real::fdopen.get()(fd, mode);
        }
        let cookie = std::ptr::without_provenance_mut(fd.unsigned_abs() as usize);
        // The stream is the C library's, and its descriptor an int at this place.
        let stream = real::fopencookie.get()(cookie, mode, FUNCTIONS);
        if !stream.is_null() {
            stream.cast::<u8>().add(AT_DESCRIPTOR).cast::<c_int>().write(fd);
            user::streams(|streams| streams.push((AtomicPtr::new(stream), fd)));
        }
        stream
    }

    /// A list of arguments is passed by address on all architectures that this library runs on.
    fn vdprintf(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int {
        if !is_ours(fd) {
            return real::vdprintf.get()(fd, format, arguments);
        }
        let mut text = null_mut();
        let length = vasprintf(&raw mut text, format, arguments);
        let Ok(size) = usize::try_from(length) else { return -1 };
        let sent = write_all(fd, text.cast(), size);
        libc::free(text.cast());
        if sent == size { length } else { -1 }
    }

    fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int {
        if is_ours(fd) {
            vdprintf(fd, format, arguments)
        } else {
            real::__vdprintf_chk.get()(fd, flag, format, arguments)
        }
    }
}

/// A function with variable arguments: builds the list of them (System V ABI, AMD64, section 3.5.7), and passes it on as the last argument.
/// `named`: bytes of the registers with named arguments; `last`: the register of the next one.
#[cfg(all(target_arch = "x86_64", not(test)))]
macro_rules! variadic {
    ($name:ident, $to:ident, $named:literal, $last:literal) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "sub rsp, 216",
                ".cfi_def_cfa_offset 224",
                "mov [rsp + 32], rdi",
                "mov [rsp + 40], rsi",
                "mov [rsp + 48], rdx",
                "mov [rsp + 56], rcx",
                "mov [rsp + 64], r8",
                "mov [rsp + 72], r9",
                "test al, al",
                "je 2f",
                "movaps [rsp + 80], xmm0",
                "movaps [rsp + 96], xmm1",
                "movaps [rsp + 112], xmm2",
                "movaps [rsp + 128], xmm3",
                "movaps [rsp + 144], xmm4",
                "movaps [rsp + 160], xmm5",
                "movaps [rsp + 176], xmm6",
                "movaps [rsp + 192], xmm7",
                "2:",
                concat!("mov dword ptr [rsp], ", $named),
                "mov dword ptr [rsp + 4], 48",
                "lea rax, [rsp + 224]",
                "mov [rsp + 8], rax",
                "lea rax, [rsp + 32]",
                "mov [rsp + 16], rax",
                concat!("mov ", $last, ", rsp"),
                "call {to}",
                "add rsp, 216",
                "ret",
                ".cfi_endproc",
                to = sym $to,
            )
        }
    };
}

#[cfg(all(target_arch = "x86_64", not(test)))]
variadic!(dprintf, vdprintf, "16", "rdx");
#[cfg(all(target_arch = "x86_64", not(test)))]
variadic!(__dprintf_chk, __vdprintf_chk, "24", "rcx");
