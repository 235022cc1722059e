//! Between fork and exec of a threaded process: no allocation, no locks, async-signal-safe calls (signal-safety(7)).

use super::Containment;
use crate::{check, cpu, policy};
use std::ffi::CStr;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// Stages of a start in their order, for the message when one fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum LaunchStage {
    Group = 1,
    Netns,
    Cpus,
    PidNamespace,
    ParentDeath,
    ParentGone,
    Descriptors,
    Policy,
    Exec,
}

/// A page shared by starter and child: the child notes its stage, because exec fails with a bare number, and its containment.
pub(super) struct SharedPage {
    words: *mut [AtomicU32; 2],
}

// SAFETY: the page is shared memory made for this; it is only touched through atomics.
unsafe impl Send for SharedPage {}
// SAFETY: as above.
unsafe impl Sync for SharedPage {}

impl SharedPage {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches no other memory.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<[AtomicU32; 2]>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if page == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self { words: page.cast() }) }
    }

    fn words(&self) -> &[AtomicU32; 2] {
        // SAFETY: the mapping lives as long as `self`, is aligned to a page, and zero bytes are valid atomics.
        unsafe { &*self.words }
    }

    fn at(&self, stage: LaunchStage) {
        self.words()[0].store(stage as u32, Ordering::Release);
    }

    fn contained(&self, how: u32) {
        self.words()[1].store(how, Ordering::Release);
    }

    pub(super) fn stage(&self) -> Option<LaunchStage> {
        let number = self.words()[0].load(Ordering::Acquire);
        use LaunchStage::{Cpus, Descriptors, Exec, Group, Netns, ParentDeath, ParentGone, PidNamespace, Policy};
        [Group, Netns, Cpus, Policy, Descriptors, PidNamespace, ParentDeath, ParentGone, Exec]
            .into_iter()
            .find(|stage| *stage as u32 == number)
    }

    pub(super) fn containment(&self) -> Containment {
        match self.words()[1].load(Ordering::Acquire) {
            PID => Containment::PidNamespace,
            USER_AND_PID => Containment::UserAndPidNamespace,
            _ => Containment::Group,
        }
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: unmaps what `new` mapped; nothing refers to it any more.
        unsafe { libc::munmap(self.words.cast(), size_of::<[AtomicU32; 2]>()) };
    }
}

const PID: u32 = 1;
const USER_AND_PID: u32 = 2;

/// How the pid namespace comes about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Namespace {
    /// None was asked for.
    None,
    /// The starter has unshared: this child is init already.
    Init,
    /// To be made here, by way of a user namespace.
    ByUser,
}

/// The work to do, made before the fork; plain data and raw descriptors of the starter.
pub(super) struct Plan {
    pub(super) board: SharedPage,
    pub(super) own_group: bool,
    pub(super) netns: Option<RawFd>,
    pub(super) cpus: Option<cpu::Mask>,
    pub(super) policy: Option<(libc::c_int, libc::c_int)>,
    pub(super) descriptors: Vec<(RawFd, RawFd)>,
    pub(super) namespace: Namespace,
    pub(super) die_with_parent: bool,
    /// The starter as a process descriptor, to see that it still lives.
    pub(super) parent: Option<RawFd>,
    /// Lines for uid_map and gid_map that map this user to itself.
    pub(super) user_map: [Vec<u8>; 2],
}

impl Plan {
    /// Runs in the child. The order matters: what needs privileges comes before the user namespace; the parent-death
    /// signal after it, because a change of credentials clears it; the policy after the last fork, because it does not
    /// survive one.
    pub(super) fn run(&self) -> io::Result<()> {
        self.board.at(LaunchStage::Group);
        // A starter that ignores SIGCHLD must not pass that on: the child could not wait for its own children.
        // SAFETY: takes numbers only.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        if self.own_group {
            // SAFETY: takes numbers only.
            check(unsafe { libc::setpgid(0, 0) })?;
        }
        self.board.at(LaunchStage::Netns);
        if let Some(netns) = self.netns {
            // SAFETY: takes a descriptor and a flag.
            check(unsafe { libc::setns(netns, libc::CLONE_NEWNET) })?;
        }
        self.board.at(LaunchStage::Cpus);
        if let Some(cpus) = &self.cpus {
            cpus.apply()?;
        }
        self.board.at(LaunchStage::PidNamespace);
        let by_user = self.namespace == Namespace::ByUser && self.user_namespaces_work();
        if by_user && !self.enter_namespaces() {
            return Err(io::Error::last_os_error());
        }
        if self.die_with_parent {
            self.board.at(LaunchStage::ParentDeath);
            die_with_parent()?;
            self.board.at(LaunchStage::ParentGone);
            if self.parent.is_some_and(|parent| ready(parent, libc::POLLIN)) {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
        }
        self.board.at(LaunchStage::Descriptors);
        close_at_exec();
        for &(parked, number) in &self.descriptors {
            // SAFETY: takes numbers only. `parked` lies above all wanted numbers, so none of them is overwritten.
            check(unsafe { libc::dup2(parked, number) })?;
        }
        self.board.at(LaunchStage::PidNamespace);
        if by_user {
            become_init()?;
            self.board.contained(USER_AND_PID);
        } else if self.namespace == Namespace::Init {
            self.board.contained(PID);
        } else if self.namespace == Namespace::ByUser {
            // Not contained by the kernel: at least descendants that lose their parent stay below this process.
            // SAFETY: takes numbers only.
            unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
        }
        self.board.at(LaunchStage::Policy);
        if let Some((number, priority)) = self.policy {
            policy::set_raw(0, number, priority)?;
        }
        self.board.at(LaunchStage::Exec);
        Ok(())
    }

    /// Tries in a child: a process cannot leave a user namespace, and some systems allow one that can be used for nothing.
    fn user_namespaces_work(&self) -> bool {
        // SAFETY: the child below only makes system calls and ends with _exit.
        let probe = unsafe { libc::fork() };
        if probe == 0 {
            let code = i32::from(!self.enter_namespaces());
            // SAFETY: ends this process only, without running anything of the starter's.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: waits for the child just made; `status` is valid.
        probe > 0 && unsafe { libc::waitpid(probe, &raw mut status, 0) } == probe && status == 0
    }

    /// Makes a user namespace with the same numbers inside and outside, and a pid namespace for the next child.
    fn enter_namespaces(&self) -> bool {
        let [user, group] = &self.user_map;
        // setgroups must be denied before an unprivileged process may map its group (user_namespaces(7)).
        // SAFETY: takes flags; this process has one thread.
        let user_namespace = unsafe { libc::unshare(libc::CLONE_NEWUSER) == 0 };
        user_namespace
            && write_file(c"/proc/self/setgroups", b"deny")
            && write_file(c"/proc/self/uid_map", user)
            && write_file(c"/proc/self/gid_map", group)
            // SAFETY: takes flags.
            && unsafe { libc::unshare(libc::CLONE_NEWPID) == 0 }
    }
}

fn write_file(path: &CStr, content: &[u8]) -> bool {
    // SAFETY: the path ends in NUL, the buffer is valid for its length, and the descriptor is our own.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if file < 0 {
            return false;
        }
        let written = libc::write(file, content.as_ptr().cast(), content.len());
        libc::close(file);
        usize::try_from(written) == Ok(content.len())
    }
}

fn die_with_parent() -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) })
}

/// Whether one of `events` (or an error) holds for a descriptor. A process descriptor is readable once its process has
/// ended (pidfd_open(2)); asking it closes the gap between fork and prctl, also inside a pid namespace, where
/// getppid(2) returns 0 for a living parent.
fn ready(descriptor: RawFd, events: libc::c_short) -> bool {
    let mut poll = libc::pollfd { fd: descriptor, events, revents: 0 };
    // SAFETY: one valid pollfd.
    unsafe { libc::poll(&raw mut poll, 1, 0) > 0 }
}

/// Marks all descriptors from 3 on as closed at exec; those made without that flag by libraries must not leak.
fn close_at_exec() {
    // SAFETY: takes numbers only.
    let status = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if status == -1 {
        // Kernels before 5.11: one by one, as far as descriptors are likely to go.
        for descriptor in 3..FEW {
            // SAFETY: takes numbers only; an unused number is an error without effect.
            unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
}

/// Descriptors looked at where the kernel has no close_range.
const FEW: RawFd = 4096;

fn close_all_but(kept: RawFd) {
    let close = |first: RawFd, last: libc::c_uint| {
        // SAFETY: takes numbers only; nothing of this process uses its descriptors any more.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) }
    };
    let below = libc::c_uint::try_from(kept - 1).unwrap_or(0);
    if close(0, below) == -1 || close(kept + 1, libc::c_uint::MAX) == -1 {
        for descriptor in (0..FEW).filter(|&descriptor| descriptor != kept) {
            // SAFETY: as above.
            unsafe { libc::close(descriptor) };
        }
    }
}

/// Forks: the child goes on as init of the new pid namespace, the parent stays behind as [`intermediate`].
fn become_init() -> io::Result<()> {
    let mut ends = [-1; 2];
    // SAFETY: room for two descriptors.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    let [reader, writer] = ends;
    // SAFETY: sigemptyset makes a valid set; addresses are valid. Signals are blocked before the fork: none is lost.
    let signals = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        set
    };
    // SAFETY: both sides only make system calls until exec or _exit.
    let child = unsafe { libc::fork() };
    check(child)?;
    if child > 0 {
        close_all_but(writer);
        intermediate(child, &signals);
    }
    // SAFETY: the set is valid; the descriptor is this process' copy.
    unsafe {
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const signals, std::ptr::null_mut());
        libc::close(writer);
    }
    die_with_parent()?;
    // The intermediate holds the only other end: hung up means that it has ended already.
    if ready(reader, libc::POLLIN) {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    // SAFETY: closes our own descriptor.
    unsafe { libc::close(reader) };
    Ok(())
}

/// Between starter and init: ends as the init ends; SIGTERM kills the init, so the namespace is empty at the end of this.
fn intermediate(init: libc::pid_t, signals: &libc::sigset_t) -> ! {
    loop {
        let mut signal = 0;
        // SAFETY: both addresses are valid.
        unsafe { libc::sigwait(signals, &raw mut signal) };
        if signal == libc::SIGTERM {
            // SAFETY: the process is our child and not yet waited for.
            unsafe { libc::kill(init, libc::SIGKILL) };
            continue;
        }
        let mut status = 0;
        // SAFETY: waits for our child; `status` is valid.
        if unsafe { libc::waitpid(init, &raw mut status, libc::WNOHANG) } != init {
            continue;
        }
        let code = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) };
        // SAFETY: ends this process only, without running anything of the starter's.
        unsafe { libc::_exit(code) };
    }
}
