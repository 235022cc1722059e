//! Locks and prefaults the memory of a program before its first instruction.
//!
//! Memory locks do not survive execve(2), so no program's memory can be locked from before it; and most programs do
//! not lock their own. A program that its parent traces stops right after the exec; the parent then lets it make system
//! calls: mlockall(2), and a getrandom(2) of one byte into each page of its coming stack, which makes the kernel grow
//! the stack there. Its registers and its code are put back before it goes on. Works for x86-64.

use std::io;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryLock {
    /// mlockall(2) flags: MCL_CURRENT, MCL_FUTURE, MCL_ONFAULT; 0: no lock.
    pub flags: i32,
    /// Bytes of stack to fault in.
    pub stack_bytes: usize,
}

impl MemoryLock {
    /// Whether programs can be stopped and locked on this architecture.
    pub const SUPPORTED: bool = cfg!(target_arch = "x86_64");
    /// What it has at its start (MCL_CURRENT).
    pub const CURRENT: i32 = libc::MCL_CURRENT;
    /// What it gets later (MCL_FUTURE).
    pub const FUTURE: i32 = libc::MCL_FUTURE;
    /// Each page only once it is used (MCL_ONFAULT).
    pub const ONFAULT: i32 = libc::MCL_ONFAULT;
}

/// Why the program's memory is not locked.
#[derive(Debug, thiserror::Error)]
pub enum InjectError {
    #[error("cannot lock the program's memory: {step}: {cause}")]
    Step { step: &'static str, cause: io::Error },
    #[error("the program's {call} failed: {cause}{remedy}")]
    Call { call: &'static str, cause: io::Error, remedy: &'static str },
    #[error("the program ended before its memory could be locked")]
    Ended,
    #[error("a program's memory can be locked on x86-64 only")]
    Architecture,
}

/// How long the child may take from its start to its exec.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until the child `pid` has become the program, does what `lock` asks for, calls `while_stopped`, and lets it go.
/// Call it from the thread that started the child, which is not reaped. After an error the program runs without the lock,
/// unless it has ended.
#[cfg(target_arch = "x86_64")]
pub fn lock_and_prefault(pid: u32, lock: MemoryLock, while_stopped: &mut dyn FnMut()) -> Result<(), InjectError> {
    imp::run(pid, lock, while_stopped)
}

/// As on x86-64, where it works.
#[cfg(not(target_arch = "x86_64"))]
pub fn lock_and_prefault(_: u32, _: MemoryLock, _: &mut dyn FnMut()) -> Result<(), InjectError> {
    Err(InjectError::Architecture)
}

#[cfg(target_arch = "x86_64")]
mod imp {
    use super::{InjectError, MemoryLock, PATIENCE};
    use nix::sys::ptrace;
    use nix::sys::signal::Signal;
    use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
    use nix::unistd::Pid;
    use std::io;
    use std::time::{Duration, Instant};

    /// The two bytes of `syscall`.
    const SYSCALL: libc::c_long = 0x050f;
    const PAGE: u64 = 4096;

    fn failed(step: &'static str) -> impl Fn(nix::Error) -> InjectError {
        move |cause| InjectError::Step { step, cause: cause.into() }
    }

    pub(super) fn run(pid: u32, lock: MemoryLock, while_stopped: &mut dyn FnMut()) -> Result<(), InjectError> {
        let pid = Pid::from_raw(i32::try_from(pid).map_err(|_| InjectError::Ended)?);
        await_exec(pid)?;
        let done = if lock == MemoryLock::default() { Ok(()) } else { calls(pid, lock) };
        while_stopped();
        let released = ptrace::detach(pid, None).map_err(failed("release"));
        done.and(released)
    }

    /// Looks without reaping: the starter wants the status of a child that ends here.
    fn await_exec(pid: Pid) -> Result<(), InjectError> {
        let peek = WaitPidFlag::WEXITED | WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let end = Instant::now() + PATIENCE;
        loop {
            match waitid(Id::Pid(pid), peek).map_err(failed("wait for the exec"))? {
                WaitStatus::StillAlive if Instant::now() < end => std::thread::sleep(Duration::from_micros(200)),
                WaitStatus::StillAlive => {
                    let cause = io::Error::from_raw_os_error(libc::ETIMEDOUT);
                    return Err(InjectError::Step { step: "wait for the exec", cause });
                }
                WaitStatus::Exited(..) | WaitStatus::Signaled(..) => return Err(InjectError::Ended),
                _ => break,
            }
        }
        match waitpid(pid, None).map_err(failed("wait for the exec"))? {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => Ok(()),
            WaitStatus::Stopped(_, other) => {
                // Somebody's signal came first; the exec is still to come.
                ptrace::cont(pid, other).map_err(failed("go on"))?;
                await_exec(pid)
            }
            _ => Err(InjectError::Ended),
        }
    }

    fn calls(pid: Pid, lock: MemoryLock) -> Result<(), InjectError> {
        let registers = ptrace::getregs(pid).map_err(failed("read registers"))?;
        let code_at = registers.rip as ptrace::AddressType;
        let code = ptrace::read(pid, code_at).map_err(failed("read code"))?;
        ptrace::write(pid, code_at, code & !0xffff | SYSCALL).map_err(failed("write code"))?;
        let result = made(pid, &registers, lock);
        let back = ptrace::write(pid, code_at, code).map_err(failed("put back code"));
        let same = ptrace::setregs(pid, registers).map_err(failed("put back registers"));
        result.and(back).and(same)
    }

    fn made(pid: Pid, registers: &libc::user_regs_struct, lock: MemoryLock) -> Result<(), InjectError> {
        let pages = u64::try_from(lock.stack_bytes).unwrap_or(u64::MAX) / PAGE;
        for page in 1..=pages {
            let at = registers.rsp.saturating_sub(page * PAGE);
            call(pid, registers, libc::SYS_getrandom, [at, 1, 0]).map_err(|cause| InjectError::Call {
                call: "stack",
                cause,
                remedy: ": it may not grow so far; see `ulimit -s`",
            })?;
        }
        if lock.flags != 0 {
            let flags = u64::from(lock.flags.cast_unsigned());
            call(pid, registers, libc::SYS_mlockall, [flags, 0, 0]).map_err(|cause| InjectError::Call {
                call: "mlockall",
                cause,
                remedy: ": raise the limit on locked memory (`ulimit -l`, limits.conf(5): memlock), or run it as root",
            })?;
        }
        Ok(())
    }

    /// Lets the program make one system call.
    fn call(pid: Pid, registers: &libc::user_regs_struct, number: libc::c_long, args: [u64; 3]) -> io::Result<()> {
        let mut with = *registers;
        with.rax = number.cast_unsigned();
        // Else the kernel would take the program for one that was interrupted within a call and restart that.
        with.orig_rax = u64::MAX;
        [with.rdi, with.rsi, with.rdx] = args;
        ptrace::setregs(pid, with)?;
        ptrace::step(pid, None)?;
        loop {
            match waitpid(pid, None)? {
                WaitStatus::Stopped(_, Signal::SIGTRAP) => break,
                // The step is still to come; the signal is given back with it.
                WaitStatus::Stopped(_, signal) => ptrace::step(pid, signal)?,
                _ => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
            }
        }
        let answer = ptrace::getregs(pid)?.rax.cast_signed();
        match i32::try_from(-answer) {
            Ok(error @ 1..4096) => Err(io::Error::from_raw_os_error(error)),
            _ => Ok(()),
        }
    }
}
