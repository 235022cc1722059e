//! The preload library of `windhover bypass`: replaces the C library's network calls in unmodified programs.
//!
//! A blocking call on an internet socket is tried again and again without waiting, for the budget of its kind, before the
//! call itself is made and sleeps. What it returns, its errno, time-outs and signals are the kernel's. Calls of anything
//! else are passed on after one look at a table.
//!
//! With a stack in this process (`user`) sockets leave the kernel; that part has one lock, a thread, and memory of its own, made
//! before data flow. Nothing else here allocates, locks or starts a thread. Floor 1. Handed over and shown by `bypass-abi`.
//!
//! Nothing unwinds but the C library's own thread cancellation ("C-unwind"). Calls that sleep hold no lock then, at most memory, which
//! is freed as the unwinding passes. Calls that ask the kernel with the stack's lock held (routes, neighbours, its connections) give the
//! lock back in the same way; the next question drops the answer that they did not wait for.
#![expect(unsafe_code, reason = "it takes the place of C functions")]
#![cfg_attr(test, allow(dead_code, reason = "under test the functions keep the C library's names free"))]

/// Functions that programs call in the place of the C library's of the same names.
macro_rules! exports {
    ($($(#[$about:meta])* $visible:vis fn $name:ident($($given:ident: $kind:ty),* $(,)?) $(-> $result:ty)? $body:block)*) => {$(
        $(#[$about])*
        #[cfg_attr(not(test), unsafe(no_mangle))]
        $visible unsafe extern "C-unwind" fn $name($($given: $kind),*) $(-> $result)? {
            // SAFETY: the caller promises what the C library's function of this name asks for; it is passed on as it came.
            unsafe { $body }
        }
    )*};
}

mod busy;
mod calls;
mod descriptor;
mod errno;
mod kernel;
mod page;
mod pending;
mod real;
mod settings;
mod signal;
mod spin;
mod table;
mod thread;
mod time;
mod user;

/// The loader calls it before the program begins.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static INIT: extern "C-unwind" fn() = init;

/// The C library calls it at the program's orderly end.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".fini_array")]
static FINI: extern "C-unwind" fn() = fini;

extern "C-unwind" fn init() {
    // A defect of this library ends the process rather than unwind into the program. (This box holds nothing.)
    // SAFETY: takes nothing.
    std::panic::set_hook(Box::new(|_| unsafe { libc::abort() }));
    real::find_all();
    settings::init(thread::cpus());
    page::init();
    thread::init(thread_ended);
    // SAFETY: a function that lives as long as the process, for the library is never unloaded. The two types of function
    // pointers differ only in whether the compiler guards the function against unwinding.
    unsafe {
        let plain = |function| std::mem::transmute::<extern "C-unwind" fn(), unsafe extern "C" fn()>(function);
        libc::pthread_atfork(Some(plain(user::before_fork)), Some(plain(user::after_fork)), Some(plain(forked)));
    }
    calls::look_up_inherited();
}

extern "C-unwind" fn fini() {
    if user::is_enabled() {
        calls::flush();
    }
    end();
}

/// Ends what the process has of this library.
fn end() {
    if user::is_enabled() {
        user::end();
    }
    // A sandbox may end the process for it; whoever looks next removes it.
    if !table::TABLE.has_left() {
        page::remove();
    }
}

extern "C-unwind" fn thread_ended(_: *mut libc::c_void) {
    thread::ended();
    user::ended();
}

extern "C-unwind" fn forked() {
    thread::forked();
    page::forked();
    user::forked();
    descriptor::forked();
}
