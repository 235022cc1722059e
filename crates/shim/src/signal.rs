//! Counts runs of the program's signal handlers: a spin ends where the kernel's sleep would have ended with EINTR.

use crate::{errno, pending, real, thread};
use libc::{
    SA_RESETHAND, SA_RESTART, SA_SIGINFO, SIG_DFL, SIG_ERR, SIG_IGN, c_int, c_void, sigaction as Action, sighandler_t,
    siginfo_t,
};
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// One more than the largest signal number.
const SIGNALS: usize = 65;

/// What the program set for a signal.
struct Handler {
    function: AtomicUsize,
    flags: AtomicI32,
    /// Whether siginterrupt was asked for; signal(3) obeys it.
    interrupts: AtomicBool,
}

static HANDLERS: [Handler; SIGNALS] =
    [const { Handler { function: AtomicUsize::new(0), flags: AtomicI32::new(0), interrupts: AtomicBool::new(false) } };
        SIGNALS];

fn handler(signal: c_int) -> Option<&'static Handler> {
    HANDLERS.get(usize::try_from(signal).ok()?)
}

/// Runs in the place of the program's handler, and calls it.
unsafe extern "C-unwind" fn counting(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(handler) = handler(signal) else { return };
    // Those of the thread's own doing cannot wait.
    let is_fault = matches!(
        signal,
        libc::SIGSEGV | libc::SIGBUS | libc::SIGFPE | libc::SIGILL | libc::SIGTRAP | libc::SIGABRT | libc::SIGSYS
    );
    // SAFETY: as the kernel gave it.
    if thread::is_in_stack() && !is_fault && unsafe { pending::keep(signal, info) } {
        thread::signal_waits();
        return;
    }
    let flags = handler.flags.load(Relaxed);
    let is_once = flags & SA_RESETHAND != 0;
    let function = if is_once { handler.function.swap(0, Acquire) } else { handler.function.load(Acquire) };
    thread::handles_signal(flags & SA_RESTART != 0);
    if is_once {
        reset(signal, flags);
    }
    if function == 0 {
        if is_once {
            // Another thread has run it: this one meets the default action.
            // SAFETY: takes a number.
            unsafe { libc::raise(signal) };
        }
        return;
    }
    // SAFETY: the program gave it as a handler; one of a single argument ignores the others, as from the kernel.
    unsafe {
        let function: unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void) = std::mem::transmute(function);
        function(signal, info, context);
    }
}

/// Puts the default action in the place of a handler for one signal (SA_RESETHAND), when its time has come: the kernel would do so
/// at once, also where the signal waits until its thread has left the stack.
fn reset(signal: c_int, flags: c_int) {
    // SAFETY: actions of this function; the call is safe in a handler.
    unsafe {
        let mut action: Action = std::mem::zeroed();
        real::sigaction.get()(signal, std::ptr::null(), &raw mut action);
        action.sa_sigaction = SIG_DFL;
        action.sa_flags = action.sa_flags & !SA_SIGINFO | flags & (SA_SIGINFO | SA_RESETHAND);
        real::sigaction.get()(signal, &raw const action, std::ptr::null_mut());
    }
}

unsafe fn change(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    let Some(handler) = handler(signal).filter(|_| signal > 0) else {
        // SAFETY: passed on as they came.
        return unsafe { real::sigaction.get()(signal, new, old) };
    };
    let before = (handler.function.load(Relaxed), handler.flags.load(Relaxed));
    // SAFETY: `new` and `old` are null or point to an action, as of sigaction(2); a handler's address is only compared.
    unsafe {
        let mut ours;
        let mut passed = new;
        if let Some(new) = new.as_ref()
            && new.sa_sigaction != SIG_DFL
            && new.sa_sigaction != SIG_IGN
        {
            ours = *new;
            ours.sa_sigaction = counting as *const () as usize;
            ours.sa_flags = new.sa_flags & !SA_RESETHAND | SA_SIGINFO;
            handler.flags.store(new.sa_flags, Relaxed);
            handler.function.store(new.sa_sigaction, Release);
            passed = &raw const ours;
        }
        let done = real::sigaction.get()(signal, passed, old);
        if done != 0 {
            handler.flags.store(before.1, Relaxed);
            handler.function.store(before.0, Release);
            return done;
        }
        if let Some(old) = old.as_mut()
            && old.sa_sigaction == counting as *const () as usize
        {
            old.sa_sigaction = before.0;
            old.sa_flags = old.sa_flags & !SA_SIGINFO | before.1 & (SA_SIGINFO | SA_RESETHAND);
        }
        done
    }
}

/// signal(3) with these flags.
fn simple(signal: c_int, function: sighandler_t, flags: c_int) -> sighandler_t {
    // SAFETY: both actions are of this function; a handler's address is taken as it came.
    unsafe {
        let mut new: Action = std::mem::zeroed();
        new.sa_sigaction = function;
        new.sa_flags = flags;
        libc::sigemptyset(&raw mut new.sa_mask);
        if flags & libc::SA_NODEFER == 0 {
            libc::sigaddset(&raw mut new.sa_mask, signal);
        }
        let mut old: Action = std::mem::zeroed();
        if change(signal, &raw const new, &raw mut old) == 0 { old.sa_sigaction } else { SIG_ERR }
    }
}

/// signal(3): with `system_v` a handler is for one signal, and may be interrupted by the next; otherwise it stays.
fn set(signal: c_int, function: sighandler_t, system_v: bool) -> sighandler_t {
    let Some(handler) = handler(signal).filter(|_| function != SIG_ERR && signal > 0) else {
        errno::set(libc::EINVAL);
        return SIG_ERR;
    };
    let flags = match (system_v, handler.interrupts.load(Relaxed)) {
        (true, _) => SA_RESETHAND | libc::SA_NODEFER,
        (false, true) => 0,
        (false, false) => SA_RESTART,
    };
    simple(signal, function, flags)
}

exports! {
    fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
        change(signal, new, old)
    }

    fn siginterrupt(signal: c_int, interrupts: c_int) -> c_int {
        let done = real::siginterrupt.get()(signal, interrupts);
        if let Some(handler) = handler(signal).filter(|_| done == 0) {
            handler.interrupts.store(interrupts != 0, Relaxed);
            if interrupts == 0 {
                handler.flags.fetch_or(SA_RESTART, Relaxed);
            } else {
                handler.flags.fetch_and(!SA_RESTART, Relaxed);
            }
        }
        done
    }
}

/// The names of signal(3), each with whether it is System V's.
macro_rules! signals {
    ($($name:ident $system_v:literal;)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        extern "C-unwind" fn $name(signal: c_int, function: sighandler_t) -> sighandler_t {
            set(signal, function, $system_v)
        }
    )*};
}

signals! {
    signal false;
    bsd_signal false;
    ssignal false;
    sysv_signal true;
    __sysv_signal true;
}
