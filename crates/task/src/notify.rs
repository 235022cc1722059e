//! Reports system calls of a program and its children (seccomp(2), user notification), unchanged, at some µs each.

use crate::TaskError;
use crate::launch::spawn::{own, process_descriptor};
use libc::{SYS_seccomp, c_int, c_long, c_ulong, c_void, sock_filter};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// AUDIT_ARCH of this build's system calls (linux/audit.h).
const ARCHITECTURE: u32 = if cfg!(target_arch = "x86_64") { 0xC000_003E } else { 0xC000_00B7 };
/// Of linux/seccomp.h.
const SET_MODE_FILTER: c_long = 1;
const NEW_LISTENER: c_ulong = 1 << 3;
const WAIT_KILLABLE: c_ulong = 1 << 5;
const TELL: u32 = 0x7FC0_0000;
const ALLOW: u32 = 0x7FFF_0000;
const GO_ON: u32 = 1;
const RECEIVE: c_ulong = 0xC050_2100;
const SEND: c_ulong = 0xC018_2101;

/// A system call that waits for its listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallNotice {
    /// The thread, as the listening process sees it.
    pub thread: u32,
    pub call: c_long,
    /// Address behind the instruction that makes the call.
    pub address: u64,
    /// Its first argument.
    pub first: u64,
}

#[derive(Debug)]
pub struct Listener(OwnedFd);

/// struct seccomp_notif.
#[repr(C)]
#[derive(Default)]
struct Notice {
    id: u64,
    thread: u32,
    flags: u32,
    call: c_int,
    architecture: u32,
    address: u64,
    arguments: [u64; 6],
}

/// struct seccomp_notif_resp.
#[repr(C)]
struct Answer {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

const _: () = assert!(size_of::<Notice>() == 80 && size_of::<Answer>() == 24, "the sizes are part of the request");

/// From here on these calls of the **calling thread**, and of all that it starts, wait until the listener has seen them.
/// This cannot be taken back: use a thread that ends. Without CAP_SYS_ADMIN the thread gives up gaining rights by
/// set-user-ID programs.
pub fn tell(calls: &[c_long]) -> Result<Listener, TaskError> {
    let program = filter(calls);
    let program =
        libc::sock_fprog { len: u16::try_from(program.len()).unwrap_or(0), filter: program.as_ptr().cast_mut() };
    let install = |flags: c_ulong| {
        // SAFETY: seccomp(2) reads the program, which lives to the end of this function, and keeps no pointer to it.
        let fd = unsafe { libc::syscall(SYS_seccomp, SET_MODE_FILTER, flags, (&raw const program).cast::<c_void>()) };
        c_int::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)
    };
    let either = || match install(NEW_LISTENER | WAIT_KILLABLE) {
        // Linux before 5.19 tells a call again that a signal interrupted.
        Err(cause) if cause.raw_os_error() == Some(libc::EINVAL) => install(NEW_LISTENER),
        other => other,
    };
    let installed = either().or_else(|cause| {
        if cause.raw_os_error() != Some(libc::EACCES) {
            return Err(cause);
        }
        // SAFETY: takes numbers only.
        unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        either()
    });
    let fd = installed.map_err(|cause| {
        let remedy = match cause.raw_os_error() {
            Some(libc::EBUSY) => "; another supervisor (of a container) listens already: start it outside",
            _ => "; it needs Linux 5.5 with CONFIG_SECCOMP_FILTER",
        };
        TaskError::Refused { what: "system calls cannot be counted".to_owned(), cause, remedy }
    })?;
    // SAFETY: made above and owned by no other code.
    Ok(Listener(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Classic BPF over struct seccomp_data: calls of this architecture with one of these numbers are reported.
fn filter(calls: &[c_long]) -> Vec<sock_filter> {
    /// BPF_LD | BPF_W | BPF_ABS; BPF_JMP | BPF_JEQ | BPF_K; BPF_RET | BPF_K.
    const LOAD: u16 = 0x20;
    const EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let one = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    // Jumps are counted from the next instruction; the last two return.
    let left = |at: usize| u8::try_from(calls.len().saturating_sub(at)).unwrap_or(u8::MAX);
    let mut program = vec![one(LOAD, 0, 0, 4), one(EQUAL, 0, left(0) + 1, ARCHITECTURE), one(LOAD, 0, 0, 0)];
    for (at, call) in calls.iter().enumerate() {
        program.push(one(EQUAL, left(at), 0, u32::try_from(*call).unwrap_or(u32::MAX)));
    }
    program.extend([one(RETURN, 0, 0, ALLOW), one(RETURN, 0, 0, TELL)]);
    program
}

impl Listener {
    /// Waits for the next call and lets it go on when `seen` is done with it; `false` when no process is left to make one.
    pub fn next(&self, seen: impl FnOnce(CallNotice)) -> io::Result<bool> {
        let mut ready = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry.
        if unsafe { libc::poll(&raw mut ready, 1, -1) } < 0 {
            let cause = io::Error::last_os_error();
            return if cause.kind() == io::ErrorKind::Interrupted { Ok(true) } else { Err(cause) };
        }
        if ready.revents & libc::POLLIN == 0 {
            return Ok(ready.revents & libc::POLLHUP == 0);
        }
        let mut notice = Notice::default();
        // SAFETY: the kernel fills a zeroed record of the size that the request names.
        if unsafe { libc::ioctl(self.0.as_raw_fd(), RECEIVE, &raw mut notice) } != 0 {
            let cause = io::Error::last_os_error();
            // The thread was killed meanwhile.
            let is_gone = matches!(cause.raw_os_error(), Some(libc::ENOENT | libc::EINTR));
            return if is_gone { Ok(true) } else { Err(cause) };
        }
        seen(CallNotice {
            thread: notice.thread,
            call: notice.call.into(),
            address: notice.address,
            first: notice.arguments[0],
        });
        let answer = Answer { id: notice.id, value: 0, error: 0, flags: GO_ON };
        // SAFETY: the kernel reads a record of the size that the request names. It fails where the thread has ended.
        unsafe { libc::ioctl(self.0.as_raw_fd(), SEND, &raw const answer) };
        Ok(true)
    }
}

/// Whether a descriptor of another process is an internet socket of UDP or TCP; `None` where that cannot be seen.
pub fn is_internet_socket(process: u32, descriptor: u64) -> Option<bool> {
    let option = |fd: &OwnedFd, name: c_int| {
        let (mut value, mut size) = (0 as c_int, libc::socklen_t::try_from(size_of::<c_int>()).unwrap_or(0));
        // SAFETY: the kernel writes an int.
        let done =
            unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut size) };
        (done == 0).then_some(value)
    };
    let number = c_int::try_from(descriptor).ok()?;
    let process = process_descriptor(process)?;
    // SAFETY: takes numbers only.
    let copy = own(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) })?;
    let Some(domain) = option(&copy, libc::SO_DOMAIN) else { return Some(false) };
    let kind = option(&copy, libc::SO_TYPE);
    Some(
        [libc::AF_INET, libc::AF_INET6].contains(&domain)
            && [Some(libc::SOCK_STREAM), Some(libc::SOCK_DGRAM)].contains(&kind),
    )
}

/// Address behind the system call instruction of the C library's `syscall` in this process; `None` where it is not found.
pub fn generic_call() -> Option<u64> {
    const INSTRUCTION: &[u8] = if cfg!(target_arch = "x86_64") { &[0x0F, 0x05] } else { &[0x01, 0x00, 0x00, 0xD4] };
    let start = libc::syscall as *const () as u64;
    let mut code = [0; 64];
    std::os::unix::fs::FileExt::read_exact_at(&std::fs::File::open("/proc/self/mem").ok()?, &mut code, start).ok()?;
    let at = code.windows(INSTRUCTION.len()).position(|bytes| bytes == INSTRUCTION)?;
    Some(start + u64::try_from(at + INSTRUCTION.len()).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::sync::mpsc;

    #[test]
    fn calls_are_told_and_go_on() {
        let (give, take) = mpsc::channel();
        let caller = std::thread::spawn(move || {
            // The listener's thread gets a filter first: the listener must not be among the observed.
            give.send(tell(&[libc::SYS_socket, libc::SYS_bind])).unwrap();
            UdpSocket::bind("127.0.0.1:0").map(|socket| socket.local_addr().unwrap().port())
        });
        let listener = match take.recv().unwrap() {
            Ok(listener) => listener,
            Err(error) => {
                eprintln!("SKIPPED calls_are_told_and_go_on: {error}");
                return;
            }
        };
        let mut told = Vec::new();
        while listener.next(|call| told.push(call)).unwrap() {}
        assert!(caller.join().unwrap().unwrap() > 0);
        let calls: Vec<c_long> = told.iter().map(|one| one.call).collect();
        assert_eq!(calls, [libc::SYS_socket, libc::SYS_bind]);
        assert_eq!(u64::try_from(libc::AF_INET), Ok(told[0].first));
    }

    #[test]
    fn sockets_of_a_process_are_told_from_other_descriptors() {
        let me = std::process::id();
        let is = |fd: &dyn std::os::fd::AsRawFd| is_internet_socket(me, u64::from(fd.as_raw_fd().unsigned_abs()));
        let (udp, (unix, _), file) = (
            UdpSocket::bind("127.0.0.1:0").unwrap(),
            std::os::unix::net::UnixStream::pair().unwrap(),
            std::fs::File::open("/dev/null").unwrap(),
        );
        if is(&udp).is_none() {
            eprintln!("SKIPPED sockets_of_a_process_are_told_from_other_descriptors: pidfd_getfd is not permitted");
            return;
        }
        assert_eq!((is(&udp), is(&unix), is(&file)), (Some(true), Some(false), Some(false)));
        assert_eq!(is_internet_socket(me, 9_999_999), None);
    }

    #[test]
    fn the_c_librarys_own_way_into_the_kernel_is_found() {
        let start = libc::syscall as *const () as u64;
        assert!(generic_call().is_some_and(|address| (start..start + 66).contains(&address)));
    }
}
