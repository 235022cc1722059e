//! The starter's half: checks and opens what the child will need, forks, and turns failures into words.

use super::child::Child;
use super::prepare::{LaunchStage, Namespace, Plan, SharedPage};
use super::{Launch, Stream};
use crate::{TaskError, cpu, policy};
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// The namespace that this thread's children are born into, to come back to.
const OWN_PID_NAMESPACE: &str = "/proc/thread-self/ns/pid";

pub(super) fn spawn(mut launch: Launch) -> Result<Child, TaskError> {
    let program = launch.program.to_string_lossy().into_owned();
    let failed = |stage: &str, cause| TaskError::refused(format!("{program} cannot be started: {stage}"), cause);
    if let Some(cpus) = &launch.cpus {
        cpu::require_online(cpus)?;
    }
    let netns = match &launch.netns {
        Some(path) => Some(
            File::open(path)
                .map_err(|cause| TaskError::refused(format!("network namespace {}", path.display()), cause))?,
        ),
        None => None,
    };
    let parent = if launch.die_with_parent { process_descriptor(std::process::id()) } else { None };
    let descriptors = Descriptors::park(&launch.descriptors).map_err(|cause| failed("inherited descriptors", cause))?;
    let child_namespace = if launch.pid_namespace { ChildNamespace::enter() } else { None };
    let namespace = match (launch.pid_namespace, &child_namespace) {
        (false, _) => Namespace::None,
        (true, Some(_)) => Namespace::Init,
        (true, None) => Namespace::ByUser,
    };
    let plan = Arc::new(Plan {
        board: SharedPage::new().map_err(|cause| failed("shared page", cause))?,
        own_group: launch.own_group,
        netns: netns.as_ref().map(AsRawFd::as_raw_fd),
        cpus: launch.cpus.as_ref().map(cpu::Mask::new),
        policy: launch.policy.map(policy::raw),
        descriptors: descriptors.pairs(),
        namespace,
        die_with_parent: launch.die_with_parent,
        parent: parent.as_ref().map(AsRawFd::as_raw_fd),
        user_map: user_map(),
    });
    let mut command = command(&launch);
    let [stdin, stdout, stderr] = std::mem::take(&mut launch.streams);
    command.stdin(stdio(stdin)).stdout(stdio(stdout)).stderr(stdio(stderr));
    let in_child = Arc::clone(&plan);
    // SAFETY: `Plan::run` keeps to async-signal-safe functions and neither allocates nor locks (see its module).
    unsafe { command.pre_exec(move || in_child.run()) };
    let started = command.spawn();
    let back = child_namespace.map_or(Ok(()), ChildNamespace::leave);
    let inner = started.map_err(|cause| explain(&program, plan.board.stage(), &launch, cause))?;
    let child = Child::new(inner, program.clone(), launch.own_group, plan.board.containment());
    // Dropping the child kills it: a thread that cannot come back must not go on starting children in there.
    back.map_err(|cause| failed("return from the pid namespace", cause))?;
    Ok(child)
}

fn command(launch: &Launch) -> Command {
    let mut command = Command::new(&launch.program);
    command.args(&launch.args);
    for (name, value) in &launch.environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(directory) = &launch.directory {
        command.current_dir(directory);
    }
    command
}

fn stdio(stream: Stream) -> Stdio {
    match stream {
        Stream::Null => Stdio::null(),
        Stream::Inherit => Stdio::inherit(),
        Stream::Pipe => Stdio::piped(),
        Stream::File(file) => file.into(),
    }
}

/// One line each for uid_map and gid_map: this user and group, under their own numbers.
fn user_map() -> [Vec<u8>; 2] {
    let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
    [format!("{user} {user} 1").into_bytes(), format!("{group} {group} 1").into_bytes()]
}

/// A descriptor that a call has just returned, closed at exec; `None` where the call failed.
pub(crate) fn own(descriptor: libc::c_long) -> Option<OwnedFd> {
    let descriptor = RawFd::try_from(descriptor).ok().filter(|&descriptor| descriptor >= 0)?;
    // SAFETY: the call that returned it made it for this caller, and no other code has it.
    Some(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// A descriptor of a process (Linux 5.3); `None` where the kernel has none.
pub(crate) fn process_descriptor(pid: u32) -> Option<OwnedFd> {
    // SAFETY: takes numbers only.
    own(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })
}

/// While it lives, children of this thread are init of a new pid namespace: waiting for one is waiting for all in it.
struct ChildNamespace {
    home: File,
}

impl ChildNamespace {
    /// `None` where that is not permitted.
    fn enter() -> Option<Self> {
        let home = File::open(OWN_PID_NAMESPACE).ok()?;
        // It changes only where this thread's next children are born.
        unshare(CloneFlags::CLONE_NEWPID).is_ok().then_some(Self { home })
    }

    fn leave(self) -> io::Result<()> {
        Ok(setns(self.home, CloneFlags::CLONE_NEWPID)?)
    }
}

/// Descriptors for the child, duplicated above all numbers that are wanted, so that putting one in its place never
/// overwrites another. The wanted numbers are kept occupied until the fork, so that the pipe over which the standard
/// library reports a failed exec does not come to lie on one of them.
struct Descriptors {
    parked: Vec<(OwnedFd, RawFd)>,
    _occupied: Vec<OwnedFd>,
}

impl Descriptors {
    fn park(wanted: &[(OwnedFd, i32)]) -> io::Result<Self> {
        let Some(highest) = wanted.iter().map(|&(_, number)| number).max() else {
            return Ok(Self { parked: Vec::new(), _occupied: Vec::new() });
        };
        if let Some((_, number)) = wanted.iter().find(|&&(_, number)| number < 3) {
            return Err(io::Error::other(format!("number {number} is a standard stream: use 3 or more")));
        }
        let mut parked = Vec::with_capacity(wanted.len());
        for (descriptor, number) in wanted {
            parked.push((duplicate(descriptor, highest + 1)?, *number));
        }
        let mut occupied = Vec::new();
        for (descriptor, number) in wanted {
            // A number that is taken already needs no placeholder: this duplicate comes out higher and is dropped.
            let placeholder = duplicate(descriptor, *number)?;
            if placeholder.as_raw_fd() == *number {
                occupied.push(placeholder);
            }
        }
        Ok(Self { parked, _occupied: occupied })
    }

    fn pairs(&self) -> Vec<(RawFd, RawFd)> {
        self.parked.iter().map(|(descriptor, number)| (descriptor.as_raw_fd(), *number)).collect()
    }
}

/// A duplicate at the lowest free number from `least` on, closed at exec.
fn duplicate(descriptor: &OwnedFd, least: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only.
    let copy = unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_DUPFD_CLOEXEC, least) };
    own(copy.into()).ok_or_else(io::Error::last_os_error)
}

fn explain(program: &str, stage: Option<LaunchStage>, asked: &Launch, cause: io::Error) -> TaskError {
    let number = cause.raw_os_error();
    let prepare = |stage: &str, cause: io::Error, remedy: &'static str| TaskError::Refused {
        what: format!("{program} cannot be started: {stage}"),
        cause,
        remedy,
    };
    let path = |path: &Option<PathBuf>| path.as_deref().unwrap_or(Path::new("?")).display().to_string();
    match (stage, asked) {
        (Some(LaunchStage::Exec), _) => TaskError::Start {
            program: program.to_owned(),
            remedy: match number {
                Some(libc::ENOENT) => "; install it or give its path",
                Some(libc::EACCES) => "; it must be installed, executable, and in a folder that this user may enter",
                _ => "",
            },
            cause,
        },
        (Some(LaunchStage::Policy), Launch { policy: Some(policy), .. }) if number == Some(libc::EPERM) => {
            TaskError::PolicyNotPermitted(*policy)
        }
        (Some(LaunchStage::Policy), Launch { policy: Some(policy), .. }) => {
            TaskError::refused(format!("policy {policy} cannot be set"), cause)
        }
        (Some(LaunchStage::Cpus), Launch { cpus: Some(cpus), .. }) => cpu::refused(cpus, cause),
        (Some(LaunchStage::Netns), asked) => prepare(
            &format!("entering network namespace {}", path(&asked.netns)),
            cause,
            if number == Some(libc::EPERM) { "; that needs root (CAP_SYS_ADMIN)" } else { "" },
        ),
        (Some(LaunchStage::ParentGone), _) => prepare("its starter has ended", cause, ""),
        (None, asked) if asked.directory.is_some() && number == Some(libc::ENOENT) => {
            prepare(&format!("folder {}", path(&asked.directory)), cause, "")
        }
        (None, _) => TaskError::Start { program: program.to_owned(), cause, remedy: "" },
        (Some(stage), _) => prepare(
            match stage {
                LaunchStage::Group => "process group",
                LaunchStage::PidNamespace => "pid namespace",
                LaunchStage::ParentDeath => "parent-death signal",
                LaunchStage::Descriptors => "inherited descriptors",
                _ => "preparation",
            },
            cause,
            "",
        ),
    }
}
