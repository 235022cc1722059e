//! What each thread keeps for itself, and time.

use descriptors::Visit;
use descriptors::table::Entry;
use libc::{c_int, c_void};
use std::cell::Cell;
use std::sync::atomic::{
    AtomicI32, AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

/// Threads of this process that spin now.
static SPINNERS: AtomicU32 = AtomicU32::new(0);
/// Key whose destructor clears up after a thread that ended in a spin (pthread_cancel); -1: none.
static KEY: AtomicI32 = AtomicI32::new(-1);

struct Thread {
    /// The socket that it spins on.
    visit: Cell<Option<Visit<'static>>>,
    /// Whether it is counted in [`SPINNERS`].
    spins: Cell<bool>,
    /// Whether [`KEY`]'s destructor knows it.
    is_registered: Cell<bool>,
    slept_ns: Cell<u64>,
    /// When its policy and its limit of CPU time were looked up last, ns.
    looked_ns: Cell<u64>,
    is_real_time: Cell<bool>,
    /// Until when its calls sleep at once, because others need its CPU, ns; and for how long they were to do so, ns.
    contended_until_ns: Cell<u64>,
    contended_ns: Cell<u64>,
    /// Signal handlers that ran on it, and those of them without SA_RESTART.
    handled: AtomicU32,
    interrupting: AtomicU32,
    /// Calls of the stack that it is in, one within the other.
    in_stack: Cell<u32>,
    /// Signals whose handlers wait until it has left the stack.
    pending: Cell<u32>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            visit: Cell::new(None),
            spins: Cell::new(false),
            is_registered: Cell::new(false),
            slept_ns: Cell::new(0),
            looked_ns: Cell::new(0),
            is_real_time: Cell::new(false),
            contended_until_ns: Cell::new(0),
            contended_ns: Cell::new(0),
            handled: AtomicU32::new(0),
            interrupting: AtomicU32::new(0),
            in_stack: Cell::new(0),
            pending: Cell::new(0),
        }
    };
}

pub(crate) fn id() -> c_int {
    // SAFETY: takes nothing.
    unsafe { libc::gettid() }
}

pub(crate) fn cpus() -> u32 {
    // SAFETY: a set of CPUs is plain bits, and the kernel writes no more than its size.
    let count = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
        let words = std::slice::from_raw_parts((&raw const set).cast::<u64>(), size_of::<libc::cpu_set_t>() / 8);
        CPUS.iter().zip(words).for_each(|(slot, word)| slot.store(*word, Relaxed));
        libc::CPU_COUNT(&set)
    };
    count.unsigned_abs().max(1)
}

/// Makes sure that `ended` is called at the end of each thread that is registered, also of one that is cancelled.
pub(crate) fn init(ended: extern "C-unwind" fn(*mut c_void)) {
    let mut key = 0;
    // SAFETY: writes the key; the destructor takes what pthread_setspecific gave. The two types of function pointers differ
    // only in whether the compiler guards the function against unwinding.
    let made = unsafe {
        let ended = std::mem::transmute::<extern "C-unwind" fn(*mut c_void), unsafe extern "C" fn(*mut c_void)>(ended);
        libc::pthread_key_create(&raw mut key, Some(ended))
    };
    if made == 0 {
        KEY.store(c_int::try_from(key).unwrap_or(-1), Relaxed);
    }
}

/// Clears up after a thread: one that is cancelled in a spin is not counted for ever.
pub(crate) fn ended() {
    stop_spinning();
    if let Some(visit) = THREAD.with(|thread| thread.visit.take()) {
        visit.leave();
    }
}

/// Notes that the thread spins on a descriptor. What a signal handler's longjmp left is ended by the next one, or by the close.
pub(crate) fn begin_visit(entry: &'static Entry) -> Visit<'static> {
    let visit = Visit::begin(&entry.visitors);
    // One that is there was left by longjmp, or a signal handler waits for something itself.
    if let Some(before) = THREAD.with(|thread| thread.visit.replace(Some(visit))) {
        before.leave();
    }
    register();
    visit
}

pub(crate) fn end_visit(visit: Visit<'_>) {
    THREAD.with(|thread| thread.visit.set(None));
    visit.leave();
}

/// Takes what the thread spins on, for whoever ends that by himself.
pub(crate) fn take_visit() -> Option<Visit<'static>> {
    THREAD.with(|thread| thread.visit.take())
}

/// Whether the thread, below a signal handler, spins on a descriptor.
pub(crate) fn visits(entry: &Entry) -> bool {
    THREAD.with(|thread| thread.visit.get().is_some_and(|visit| visit.is_of(&entry.visitors)))
}

/// Counts the thread among those that spin, unless there are `most` already.
pub(crate) fn start_spinning(most: u32) -> bool {
    THREAD.with(|thread| {
        if thread.spins.get() {
            return true;
        }
        if SPINNERS.fetch_add(1, SeqCst) >= most {
            SPINNERS.fetch_sub(1, SeqCst);
            return false;
        }
        thread.spins.set(true);
        register();
        true
    })
}

/// Lets [`KEY`]'s destructor know this thread.
pub(crate) fn register() {
    let key = KEY.load(Relaxed);
    if key >= 0 && THREAD.with(|thread| !thread.is_registered.replace(true)) {
        // SAFETY: a key made by `init`; the value only has to differ from null.
        unsafe { libc::pthread_setspecific(key.unsigned_abs(), std::ptr::dangling::<c_void>()) };
    }
}

pub(crate) fn stop_spinning() {
    THREAD.with(|thread| {
        if thread.spins.replace(false) {
            SPINNERS.fetch_sub(1, SeqCst);
        }
    });
}

/// After a fork only the calling thread is left.
pub(crate) fn forked() {
    SPINNERS.store(0, SeqCst);
    THREAD.with(|thread| {
        thread.spins.set(false);
        thread.visit.set(None);
    });
}

/// The thread enters the stack: handlers of signals wait, for they may enter it, too.
#[inline(always)]
pub(crate) fn enter_stack() {
    THREAD.with(|thread| thread.in_stack.set(thread.in_stack.get() + 1));
}

/// It leaves the stack: what waited is handled now.
#[inline(always)]
pub(crate) fn leave_stack() {
    let is_due = THREAD.with(|thread| {
        thread.in_stack.set(thread.in_stack.get().saturating_sub(1));
        thread.in_stack.get() == 0 && thread.pending.get() > 0
    });
    if is_due {
        THREAD.with(|thread| thread.pending.set(0));
        crate::pending::handle();
    }
}

#[inline(always)]
pub(crate) fn is_in_stack() -> bool {
    THREAD.with(|thread| thread.in_stack.get() > 0)
}

/// Notes that a signal waits until the thread leaves the stack.
pub(crate) fn signal_waits() {
    THREAD.with(|thread| thread.pending.set(thread.pending.get() + 1));
}

/// CPUs that the process had at its start: threads of this library may run there, whatever the program does with its own.
static CPUS: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

/// Lets the calling thread run on [`CPUS`].
pub(crate) fn widen() {
    let cpus = CPUS.each_ref().map(|word| word.load(Relaxed));
    // SAFETY: a set of this size.
    unsafe { libc::sched_setaffinity(0, size_of_val(&cpus), cpus.as_ptr().cast()) };
}

/// Notes that a signal handler runs on this thread.
pub(crate) fn handles_signal(restarts: bool) {
    THREAD.with(|thread| {
        thread.handled.fetch_add(1, Relaxed);
        if !restarts {
            thread.interrupting.fetch_add(1, Relaxed);
        }
    });
}

/// The signal handlers that ran on a thread until now.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handled {
    all: u32,
    interrupting: u32,
}

impl Handled {
    #[inline(always)]
    pub(crate) fn until_now() -> Self {
        THREAD
            .with(|thread| Self { all: thread.handled.load(Relaxed), interrupting: thread.interrupting.load(Relaxed) })
    }

    /// Whether one ran since then that ends a waiting call: any, or one without SA_RESTART.
    #[inline(always)]
    pub(crate) fn interrupted(self, by_any: bool) -> bool {
        let now = Self::until_now();
        if by_any { now.all != self.all } else { now.interrupting != self.interrupting }
    }
}

pub(crate) fn slept() {
    THREAD.with(|thread| thread.slept_ns.set(crate::time::now_ns()));
}

/// Whether the thread should sleep soon: RLIMIT_RTTIME ends real-time threads that never do.
pub(crate) fn must_sleep(now_ns: u64) -> bool {
    /// How often policy and limit are looked up while a thread spins.
    const EACH_NS: u64 = 10_000_000;
    THREAD.with(|thread| {
        if thread.slept_ns.get() == 0 {
            thread.slept_ns.set(now_ns);
        }
        if now_ns.saturating_sub(thread.looked_ns.get()) < EACH_NS {
            return false;
        }
        thread.looked_ns.set(now_ns);
        // SAFETY: takes a number; 0 is the calling thread.
        let policy = unsafe { libc::sched_getscheduler(0) };
        thread.is_real_time.set(matches!(policy & !libc::SCHED_RESET_ON_FORK, libc::SCHED_FIFO | libc::SCHED_RR));
        let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: writes the limit.
        unsafe { libc::getrlimit(libc::RLIMIT_RTTIME, &raw mut limit) };
        // µs to ns, and a quarter of it: three more chances.
        limit.rlim_cur != libc::RLIM_INFINITY
            && now_ns.saturating_sub(thread.slept_ns.get()) > limit.rlim_cur.saturating_mul(250)
    })
}

/// Whether the thread's calls sleep at once, because others need its CPU.
pub(crate) fn is_contended(now_ns: u64) -> bool {
    THREAD.with(|thread| now_ns < thread.contended_until_ns.get())
}

/// How often the thread lost its CPU while runnable (getrusage(2), ru_nivcsw), accepted sched_yields included.
pub(crate) fn switches() -> i64 {
    // SAFETY: plain numbers, which the call fills in.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage.ru_nivcsw
    }
}

/// Whether a spin that had the CPU at `before_ns` and again at `now_ns` lost it to another thread meanwhile. `offered`: it offered
/// the CPU by sched_yield, and its [`switches`] were this many before; they are brought up to date. Its thread's next calls then sleep at
/// once for `least_ns`; longer each time that this follows soon.
pub(crate) fn lost_cpu(before_ns: u64, now_ns: u64, offered: Option<&mut i64>, least_ns: u64) -> bool {
    /// Longer than a round of attempts takes.
    const ROUND_NS: u64 = 100_000;
    /// Longer than an offer of the CPU takes that no thread accepts.
    const OFFER_NS: u64 = 15_000;
    /// Shorter than an offer takes that another thread accepts, however soon it gives the CPU back.
    const SWITCHED_NS: u64 = 1000;
    /// The shortest hole that RT throttling makes.
    const THROTTLED_NS: u64 = 15_000_000;
    /// How often the time is doubled.
    const MOST: u64 = 64;
    let lost_ns = if offered.is_some() { OFFER_NS } else { ROUND_NS };
    let gap_ns = now_ns.saturating_sub(before_ns);
    let is_offer = offered.is_some();
    let is_switched = offered.is_none_or(|before| {
        // What is accepted for a moment does not count with the next gap.
        let now = if gap_ns < SWITCHED_NS { *before } else { switches() };
        std::mem::replace(before, now) != now
    });
    if least_ns == 0 || gap_ns < lost_ns {
        return false;
    }
    THREAD.with(|thread| {
        // Only offers and throttling take a CPU from a real-time thread, and sleeping does not prevent throttling.
        if thread.is_real_time.get() && (!is_offer || gap_ns >= THROTTLED_NS) {
            return false;
        }
        // An interrupt or the hypervisor had it.
        if !is_switched {
            return false;
        }
        let last_ns = thread.contended_ns.get();
        let is_soon = now_ns.saturating_sub(thread.contended_until_ns.get()) < last_ns;
        let for_ns = if is_soon { (last_ns * 2).min(least_ns * MOST) } else { least_ns };
        thread.contended_ns.set(for_ns);
        thread.contended_until_ns.set(now_ns + for_ns);
        true
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a spin that takes an interrupt for contention because another thread had the CPU for a moment before.
    #[test]
    fn an_offer_accepted_for_a_moment_is_no_contention_later() {
        const LEAST_NS: u64 = 1_000_000;
        // Another thread has had the CPU once since this was read.
        let mut before = switches() - 1;
        assert!(!lost_cpu(1000, 1000 + 500, Some(&mut before), LEAST_NS), "nobody accepts so fast");
        assert!(!lost_cpu(2000, 2000 + 5000, Some(&mut before), LEAST_NS), "short");
        // Threads of other tests may take the CPU between two of these lines.
        let later = (0..100).any(|_| {
            let same = before == switches();
            let lost = lost_cpu(10_000, 10_000 + 20_000, Some(&mut before), LEAST_NS);
            same && !lost
        });
        assert!(later, "an interrupt after it");
        let mut before = switches() - 1;
        assert!(lost_cpu(50_000, 50_000 + 20_000, Some(&mut before), LEAST_NS), "accepted, and for long");
    }
}
