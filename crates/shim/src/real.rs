//! The functions that this library replaces, found once by dlsym(RTLD_NEXT): those of the next library.

use libc::{
    FILE, c_char, c_int, c_long, c_uint, c_ulong, c_void, epoll_event, fd_set, iovec, mmsghdr, msghdr, nfds_t, off_t,
    pid_t, pollfd, sigaction as Action, sigset_t, size_t, sockaddr, socklen_t, ssize_t, timespec, timeval,
};
pub(crate) use libc::{posix_spawn_file_actions_t as Actions, posix_spawnattr_t as Attributes};
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

pub(crate) type Strings = *const *mut c_char;

/// `cookie_io_functions_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Functions {
    pub(crate) read: unsafe extern "C-unwind" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    pub(crate) write: unsafe extern "C-unwind" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    pub(crate) seek: unsafe extern "C-unwind" fn(*mut c_void, *mut i64, c_int) -> c_int,
    pub(crate) close: unsafe extern "C-unwind" fn(*mut c_void) -> c_int,
}

/// One function, `F` its pointer type.
pub(crate) struct Real<F> {
    /// Ends with NUL.
    name: &'static str,
    found: AtomicPtr<c_void>,
    kind: PhantomData<F>,
}

impl<F: Copy> Real<F> {
    const IS_POINTER: () = assert!(size_of::<F>() == size_of::<*mut c_void>());

    const fn new(name: &'static str) -> Self {
        let () = Self::IS_POINTER;
        Self { name, found: AtomicPtr::new(null_mut()), kind: PhantomData }
    }

    /// The function. Constructors of other libraries may call it before this library's own.
    #[inline(always)]
    pub(crate) fn get(&self) -> F {
        let mut found = self.found.load(Relaxed);
        if found.is_null() {
            found = self.find();
        }
        // SAFETY: F is a function pointer (its size is checked), declared below with the C library's signature of `name`.
        unsafe { std::mem::transmute_copy::<*mut c_void, F>(&found) }
    }

    pub(crate) fn exists(&self) -> bool {
        self.get();
        self.found.load(Relaxed) != missing as *mut c_void
    }

    #[cold]
    #[inline(never)]
    fn find(&self) -> *mut c_void {
        // SAFETY: the name ends with NUL.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr().cast::<c_char>()) };
        let found = if found.is_null() { missing as *mut c_void } else { found };
        self.found.store(found, Relaxed);
        found
    }
}

/// In the place of a function that this C library does not have.
extern "C-unwind" fn missing() -> isize {
    crate::errno::set(libc::ENOSYS);
    -1
}

macro_rules! reals {
    ($($name:ident: fn($($argument:ty),* $(; $variadic:tt)?) $(-> $result:ty)?;)*) => {
        $(
            #[allow(non_upper_case_globals, reason = "named after the function")]
            pub(crate) static $name: Real<unsafe extern "C-unwind" fn($($argument),* $(, $variadic)?) $(-> $result)?> =
                Real::new(concat!(stringify!($name), "\0"));
        )*

        /// Finds all of them: the first call of none then waits for the dynamic loader's lock.
        pub(crate) fn find_all() {
            $($name.get();)*
        }
    };
}

reals! {
    recv: fn(c_int, *mut c_void, size_t, c_int) -> ssize_t;
    __recv_chk: fn(c_int, *mut c_void, size_t, size_t, c_int) -> ssize_t;
    recvfrom: fn(c_int, *mut c_void, size_t, c_int, *mut sockaddr, *mut socklen_t) -> ssize_t;
    __recvfrom_chk: fn(c_int, *mut c_void, size_t, size_t, c_int, *mut sockaddr, *mut socklen_t) -> ssize_t;
    recvmsg: fn(c_int, *mut msghdr, c_int) -> ssize_t;
    recvmmsg: fn(c_int, *mut mmsghdr, c_uint, c_int, *mut timespec) -> c_int;
    read: fn(c_int, *mut c_void, size_t) -> ssize_t;
    __read_chk: fn(c_int, *mut c_void, size_t, size_t) -> ssize_t;
    readv: fn(c_int, *const iovec, c_int) -> ssize_t;
    send: fn(c_int, *const c_void, size_t, c_int) -> ssize_t;
    sendto: fn(c_int, *const c_void, size_t, c_int, *const sockaddr, socklen_t) -> ssize_t;
    sendmsg: fn(c_int, *const msghdr, c_int) -> ssize_t;
    sendmmsg: fn(c_int, *mut mmsghdr, c_uint, c_int) -> c_int;
    write: fn(c_int, *const c_void, size_t) -> ssize_t;
    writev: fn(c_int, *const iovec, c_int) -> ssize_t;
    sendfile: fn(c_int, c_int, *mut off_t, size_t) -> ssize_t;
    sendfile64: fn(c_int, c_int, *mut off_t, size_t) -> ssize_t;
    splice: fn(c_int, *mut off_t, c_int, *mut off_t, size_t, c_uint) -> ssize_t;
    socket: fn(c_int, c_int, c_int) -> c_int;
    bind: fn(c_int, *const sockaddr, socklen_t) -> c_int;
    listen: fn(c_int, c_int) -> c_int;
    shutdown: fn(c_int, c_int) -> c_int;
    getsockopt: fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int;
    getsockname: fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;
    getpeername: fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;
    _exit: fn(c_int);
    accept: fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;
    accept4: fn(c_int, *mut sockaddr, *mut socklen_t, c_int) -> c_int;
    connect: fn(c_int, *const sockaddr, socklen_t) -> c_int;
    poll: fn(*mut pollfd, nfds_t, c_int) -> c_int;
    __poll_chk: fn(*mut pollfd, nfds_t, c_int, size_t) -> c_int;
    ppoll: fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t) -> c_int;
    __ppoll_chk: fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t, size_t) -> c_int;
    select: fn(c_int, *mut fd_set, *mut fd_set, *mut fd_set, *mut timeval) -> c_int;
    pselect: fn(c_int, *mut fd_set, *mut fd_set, *mut fd_set, *const timespec, *const sigset_t) -> c_int;
    epoll_create: fn(c_int) -> c_int;
    epoll_create1: fn(c_int) -> c_int;
    epoll_ctl: fn(c_int, c_int, c_int, *mut epoll_event) -> c_int;
    epoll_wait: fn(c_int, *mut epoll_event, c_int, c_int) -> c_int;
    epoll_pwait: fn(c_int, *mut epoll_event, c_int, c_int, *const sigset_t) -> c_int;
    epoll_pwait2: fn(c_int, *mut epoll_event, c_int, *const timespec, *const sigset_t) -> c_int;
    close: fn(c_int) -> c_int;
    close_range: fn(c_uint, c_uint, c_int) -> c_int;
    closefrom: fn(c_int);
    dup: fn(c_int) -> c_int;
    dup2: fn(c_int, c_int) -> c_int;
    dup3: fn(c_int, c_int, c_int) -> c_int;
    fcntl: fn(c_int, c_int; ...) -> c_int;
    fcntl64: fn(c_int, c_int; ...) -> c_int;
    ioctl: fn(c_int, c_ulong; ...) -> c_int;
    prctl: fn(c_int; ...) -> c_int;
    syscall: fn(c_long; ...) -> c_long;
    setsockopt: fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int;
    vfork: fn() -> pid_t;
    posix_spawn: fn(*mut pid_t, *const c_char, *const Actions, *const Attributes, Strings, Strings) -> c_int;
    posix_spawnp: fn(*mut pid_t, *const c_char, *const Actions, *const Attributes, Strings, Strings) -> c_int;
    system: fn(*const c_char) -> c_int;
    popen: fn(*const c_char, *const c_char) -> *mut FILE;
    execve: fn(*const c_char, Strings, Strings) -> c_int;
    execv: fn(*const c_char, Strings) -> c_int;
    execvp: fn(*const c_char, Strings) -> c_int;
    execvpe: fn(*const c_char, Strings, Strings) -> c_int;
    fexecve: fn(c_int, Strings, Strings) -> c_int;
    execl: fn() -> c_int;
    execlp: fn() -> c_int;
    execle: fn() -> c_int;
    sigaction: fn(c_int, *const Action, *mut Action) -> c_int;
    siginterrupt: fn(c_int, c_int) -> c_int;
    fdopen: fn(c_int, *const c_char) -> *mut FILE;
    fopencookie: fn(*mut c_void, *const c_char, Functions) -> *mut FILE;
    vdprintf: fn(c_int, *const c_char, *mut c_void) -> c_int;
    __vdprintf_chk: fn(c_int, c_int, *const c_char, *mut c_void) -> c_int;
}
