//! The spin: the same call again and again, none of which waits, until it has a result or its budget is used up.

use crate::table::{self, Entry, TABLE};
use crate::thread::{self, Handled};
use crate::{descriptor, page, settings, time};
use bypass_abi::Key;
use bypass_abi::page::{Kind, Outcome, Reason};
use descriptors::Visit;

/// Attempts between two looks at the clock.
const ROUND: u32 = 8;

#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) kind: Kind,
    /// The socket it is about; none where it waits for several.
    pub(crate) entry: Option<&'static Entry>,
    /// Signal handlers that had run when it was made.
    pub(crate) handled: Handled,
}

pub(crate) enum Spun<T> {
    Found(T),
    Interrupted,
    TimedOut,
    /// The call has to go on in the kernel: its budget is used up.
    Spent,
    /// The same, with another descriptor: a thread closes this one.
    Closed,
}

/// What ends a spin besides a result.
struct Limits {
    /// When it began, ns.
    began: u64,
    budget_ns: u64,
    timeout_ns: u64,
    by_any_signal: bool,
}

impl Call {
    pub(crate) fn new(kind: Kind, entry: Option<&'static Entry>) -> Self {
        Self { kind, entry, handled: Handled::until_now() }
    }

    pub(crate) fn count(&self, outcome: Outcome) {
        page::count(self.kind, self.entry, outcome, 1);
    }

    /// Spins for this call's budget, at most `timeout_ns`. `by_any_signal`: handlers with SA_RESTART interrupt, too.
    #[inline(always)]
    pub(crate) fn spin<T>(
        &self,
        timeout_ns: u64,
        by_any_signal: bool,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Spun<T> {
        let budget_ns = settings::ns(match self.kind {
            Kind::Recv | Kind::Send => Key::Recv,
            Kind::Accept => Key::Accept,
            Kind::Connect => Key::Connect,
            Kind::Poll | Kind::Select => Key::Poll,
            Kind::Epoll => Key::Epoll,
        });
        if budget_ns == 0 {
            self.count(Outcome::NotSpun);
            return Spun::Spent;
        }
        let began = time::now_ns();
        let reason = if thread::is_contended(began) {
            Some(Reason::Contention)
        } else if !thread::start_spinning(settings::spinners()) {
            Some(Reason::TooManySpinners)
        } else {
            None
        };
        if let Some(reason) = reason {
            page::fall_back(None, reason);
            self.count(Outcome::NotSpun);
            return Spun::Spent;
        }
        // Sockets that are on the stack, or may come there, know by themselves when they are closed.
        let visit =
            self.entry.filter(|entry| !entry.has_any(table::ON_STACK | table::CANDIDATE)).map(thread::begin_visit);
        let mut attempts = 0;
        let limits = Limits { began, budget_ns, timeout_ns, by_any_signal };
        let spun = self.rounds(&limits, visit.as_ref(), &mut attempts, &mut attempt);
        thread::stop_spinning();
        if let Some(visit) = visit
            && !matches!(spun, Spun::Closed)
        {
            thread::end_visit(visit);
        }
        page::count(self.kind, self.entry, Outcome::Attempts, attempts);
        self.count(match spun {
            Spun::Found(_) => Outcome::Found,
            Spun::Interrupted => Outcome::Interrupted,
            Spun::TimedOut => Outcome::TimedOut,
            Spun::Spent | Spun::Closed => Outcome::Slept,
        });
        spun
    }

    #[inline(always)]
    fn rounds<T>(
        &self,
        limits: &Limits,
        visit: Option<&Visit<'_>>,
        attempts: &mut u64,
        attempt: &mut impl FnMut() -> Option<T>,
    ) -> Spun<T> {
        let yield_ns = Some(settings::ns(Key::Yield)).filter(|ns| *ns > 0).unwrap_or(u64::MAX);
        let contention_ns = settings::ns(Key::Contention);
        let (mut last, mut is_last_round, mut switches) = (limits.began, false, None);
        // A handler that ran before the thread was noted may have closed the descriptor: the number can be another file's.
        if self.handled.interrupted(limits.by_any_signal) {
            return Spun::Interrupted;
        }
        loop {
            for _ in 0..ROUND {
                if visit.is_some_and(|visit| !visit.is_valid()) {
                    // A handler that ran before the close has ended the kernel's sleep.
                    return if self.handled.interrupted(limits.by_any_signal) {
                        Spun::Interrupted
                    } else {
                        Spun::Closed
                    };
                }
                *attempts += 1;
                if let Some(found) = attempt() {
                    return Spun::Found(found);
                }
                if self.handled.interrupted(limits.by_any_signal) {
                    return Spun::Interrupted;
                }
            }
            let now = time::now_ns();
            let elapsed = now.saturating_sub(limits.began);
            if elapsed >= limits.timeout_ns {
                return Spun::TimedOut;
            }
            if elapsed >= limits.budget_ns {
                return Spun::Spent;
            }
            let must_sleep = thread::must_sleep(now);
            if must_sleep || is_last_round {
                page::fall_back(None, if must_sleep { Reason::CpuLimit } else { Reason::Contention });
                return Spun::Spent;
            }
            // What the others did may be what this one waits for: one more round.
            is_last_round = thread::lost_cpu(last, now, None, contention_ns);
            last = now;
            if elapsed >= yield_ns {
                let before = switches.get_or_insert_with(thread::switches);
                time::yield_cpu();
                last = time::now_ns();
                is_last_round |= thread::lost_cpu(now, last, Some(before), contention_ns);
            }
        }
    }

    /// Makes the call in the kernel, where it sleeps, with a descriptor that another thread does not close meanwhile.
    pub(crate) fn sleep<T>(&self, fd: libc::c_int, closed: bool, call: impl FnOnce(libc::c_int) -> T) -> T {
        let heir = if closed { thread::take_visit() } else { None };
        let result = match heir.and_then(|visit| {
            let heir = TABLE.inherit(&visit);
            visit.leave();
            heir
        }) {
            Some(heir) => {
                page::fall_back(None, Reason::Closed);
                let result = call(heir);
                descriptor::release(heir);
                result
            }
            None => call(fd),
        };
        thread::slept();
        result
    }
}
